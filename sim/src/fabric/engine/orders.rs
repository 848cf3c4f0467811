//! Orders to queue pairs, at their times.

use super::event_loop::Event;
use super::world::Fabric;
use crate::fabric::time::PS;

impl Fabric<'_> {
    /// Flows that start at the time of an order begin before it.
    pub(super) fn expect_orders(&mut self) {
        for (nth, order) in (0..).zip(&self.spec.orders) {
            self.at(order.at.0.saturating_mul(PS), Event::Order { order: nth });
        }
    }

    pub(super) fn obey(&mut self, order: u32) {
        let (ns, nth) = (self.ns(), order as usize);
        let (hosts, changes) = self.orders.of(nth);
        for at in hosts {
            if let Some(host) = self.hosts[at].roce() {
                self.orders.carry_out(nth, self.spec, &self.plan, at, &mut host.nic, ns);
            }
            // Who may send earlier than it knew is asked again.
            if changes {
                self.try_transmit(self.out[at][0]);
            }
        }
    }
}
