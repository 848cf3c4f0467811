//! How long received pauses held a queue, and what that was of the time its frames were here.
//!
//! A frame takes along how long its queue had been held when it came to it; when the scheduler picks it, what was
//! added since is its pause part, exact to the ns. So that this costs a load and a subtraction, the time
//! stands beside the queue, except while pauses may be running: then it is asked of the [`Reaction`], which
//! knows the deadlines. A queue that sends is not held, so its time always stands there.
//!
//! [`Reaction`]: crate::pfc::react::Reaction

use super::{Observer, OwnPort, Switch};
use crate::egress::Queues;
use crate::frame::Frame;
use crate::mmu::Admission;
use crate::stats::Words;
use crate::types::{Nanos, PRIORITIES, PortId};

impl<F: Frame, A: Admission, O: Observer> Switch<F, A, O> {
    /// ns until `now` in which received pauses held a queue (`port * 8 + queue`) of ours.
    #[inline(always)]
    pub(super) fn held_ns(&self, queue_ix: usize, now: Nanos) -> Nanos {
        match self.queues.held_ns(queue_ix) {
            Some(ns) => ns,
            None => self.ask_held_ns(queue_ix, now),
        }
    }

    #[cold]
    #[inline(never)]
    fn ask_held_ns(&self, queue_ix: usize, now: Nanos) -> Nanos {
        // Those of another lcore's port are known when its owner has the frame.
        let port = self.ports.get_own(queue_ix / PRIORITIES);
        port.map_or(0, |port| port.reaction.held_ns(queue_ix % PRIORITIES, now))
    }

    /// The peer of a port, the watchdog or an operator has said something about its pauses.
    #[cold]
    pub(super) fn note_held(&mut self, out: PortId, now: Nanos) {
        self.ports[out.index()].note_held(&mut self.queues, out, now);
    }
}

impl<F: Frame> OwnPort<F> {
    /// Pauses that run until `now` end.
    #[cold]
    #[inline(never)]
    pub(super) fn pauses_end(&mut self, queues: &mut Queues<F>, out: PortId, now: Nanos) {
        self.reaction.paused_queues(now);
        self.note_held(queues, out, now);
    }

    #[cold]
    fn note_held(&mut self, queues: &mut Queues<F>, out: PortId, now: Nanos) {
        self.reaction.ignore(self.storm_forward, now);
        for queue in 0..PRIORITIES {
            let held_ns = self.reaction.held_ns(queue, now);
            queues.set_held_ns(out, queue, (!self.reaction.holds(queue, now)).then_some(held_ns));
        }
    }

    /// Frames have left that pauses had made wait.
    #[cold]
    #[inline(never)]
    pub(super) fn note_paused(&mut self, queue: usize, residence: Nanos, paused: Nanos, frames: u64) {
        if let Some(pauses) = &mut self.pauses {
            pauses.note(queue, residence, paused, frames);
            self.pauses_new = true;
        }
    }

    /// Puts the counters where other threads read them.
    pub(super) fn publish_stats(&mut self) {
        let Self { published, stats, latency, told_sent, pauses, pauses_new, .. } = self;
        published.publish_all(|f| {
            stats.words(f);
            // Every frame that leaves is in `latency`.
            if std::mem::replace(told_sent, stats.tx_packets) != stats.tx_packets
                && let (Some(latency), Some(pauses)) = (latency, pauses)
            {
                latency.words(f);
                if std::mem::take(pauses_new) {
                    pauses.words(f);
                }
            }
        });
    }
}
