//! Time of a flow alone in the fabric: what completion times are compared with.

use super::event_loop::HEAD_BYTES;
use super::world::Fabric;
use crate::fabric::hosts;
use crate::fabric::spec::Forwarding;
use crate::fabric::time::PS;
use crate::fabric::workload::Planned;
use weir_dataplane::types::Nanos;

impl Fabric<'_> {
    /// Time of a flow alone on its path: N switches, N + 1 links (DEV-33). Store-and-forward pays the
    /// serialization of one packet on every further link, cut-through that of the headers. The path of a rank leads to
    /// its engine, up to the root, and back.
    pub(super) fn ideal(&self, planned: &Planned) -> Nanos {
        let flow = &planned.flow;
        let more = u64::from(flow.pace.header_bytes());
        let frame = |payload: u64| hosts::packet_bytes(self.spec, payload + more);
        let full = flow.bytes / u64::from(flow.payload);
        let rest = flow.bytes % u64::from(flow.payload);
        let last = if rest > 0 { rest } else { u64::from(flow.payload) };
        let wire = full.saturating_mul(frame(flow.payload.into())) + if rest > 0 { frame(rest) } else { 0 };
        let spec = &self.spec.switch;
        let slowest = |rate: u64| (u128::from(wire) * 8 * 1_000_000_000_000 / u128::from(rate)) as u64;
        let (mut from, mut rate, mut fixed) = (planned.from, u64::MAX, 0);
        let mut dir = self.out[from][0];
        let stops = match planned.seat {
            None => vec![planned.to],
            Some(seat) => self.collectives.stops(seat, planned.from),
        };
        for (nth, stop) in stops.into_iter().enumerate() {
            if nth > 0 {
                // An engine has all of a frame before it sends the next.
                fixed += self.dirs[dir].line.takes(frame(last) - 12);
            }
            dir = self.out[from][0];
            rate = rate.min(self.dirs[dir].line.rate());
            fixed += self.dirs[dir].delay + (self.spec.host.tx_delay.0 + self.spec.host.rx_delay.0) * PS;
            while self.dirs[dir].to.node >= self.plan.hosts {
                let node = self.dirs[dir].to.node;
                let next = self.routes.port(node - self.plan.hosts, stop, planned.path);
                let Some(port) = next else { break };
                let held = match spec.forwarding {
                    Forwarding::StoreAndForward => frame(last) - 12,
                    Forwarding::CutThrough => HEAD_BYTES,
                };
                fixed +=
                    self.dirs[dir].line.takes(held) + (spec.ingress.0 + spec.crossbar.0 + spec.egress.0) * PS;
                dir = self.out[node][port];
                fixed += self.dirs[dir].delay;
                rate = rate.min(self.dirs[dir].line.rate());
            }
            from = stop;
        }
        // The gap after the last frame is nobody's waiting time.
        (slowest(rate).saturating_add(fixed) - self.dirs[dir].line.takes(12)).div_ceil(PS)
    }
}
