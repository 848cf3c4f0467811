//! Operations begin and end with what hosts do.

use super::event_loop::Event;
use super::world::Fabric;
use crate::fabric::collective_report::PauseTotals;
use crate::fabric::computations::Computations;
use crate::fabric::graph::OpId;
use crate::fabric::operations::Due;
use crate::fabric::workload::Planned;
use weir_endpoint::flow::Flow;

impl From<Due> for Event {
    fn from(due: Due) -> Self {
        match due {
            Due::Start { flow } => Self::Start { flow },
            Due::Ready { op } => Self::Ready { op },
            Due::Computed { op } => Self::Computed { op },
        }
    }
}

impl Fabric<'_> {
    /// Begins what waits for nothing.
    pub(super) fn begin_operations(&mut self) {
        self.operations.begin_free(self.now, &mut |at, due| self.queue.push(at, due.into()));
    }

    /// Notes how long the host of a flow, which is here, has been held back: first as it can be sent, then as its last packet is.
    pub(super) fn note_pause(&mut self, flow: u32) {
        let Planned { part: Some(_), from, flow: Flow { priority, .. }, .. } = self.flows[flow as usize]
        else {
            return;
        };
        let now = self.hosts[from].report(self.ns()).paused_ns[usize::from(priority)];
        let noted = self.paused.entry(flow).and_modify(|totals| totals.sent(now));
        noted.or_insert_with(|| PauseTotals::new(now));
    }

    /// All bytes of a flow have arrived.
    pub(super) fn received(&mut self, flow: u32) {
        self.operations.received(flow, self.now, &mut |at, due| self.queue.push(at, due.into()));
    }

    /// What has become of computations so far.
    pub(super) fn computations(&self) -> Computations {
        self.operations.computations(self.now, |_| true)
    }

    /// A computation has come to its start.
    pub(super) fn ready(&mut self, op: OpId) {
        self.operations.ready(op, self.now, &mut |at, due| self.queue.push(at, due.into()));
    }

    /// A computation is over.
    pub(super) fn computed(&mut self, op: OpId) {
        self.operations.computed(op, self.now, &mut |at, due| self.queue.push(at, due.into()));
    }

    /// Ends what the sending of flows by `host` has become complete of.
    #[inline(always)]
    pub(super) fn note_acknowledged(&mut self, host: usize) {
        if self.operations.follows_sends() {
            self.end_sends(host);
        }
    }

    fn end_sends(&mut self, host: usize) {
        while let Some(flow) = self.hosts[host].poll_completed() {
            self.operations.acknowledged(flow, self.now, &mut |at, due| self.queue.push(at, due.into()));
        }
    }
}
