//! Which flows are behind marks, losses, pauses and the depth of queues.
//!
//! Nothing is done for a frame to which none of this happens. A mark, a loss and an Xoff are looked at as they happen, each for
//! itself while there are few and one in so many beyond that; of what waits in a queue a few frames are looked at when
//! counters are published. The flows that are found go into a [`Summary`] of fixed size. Every second a new one begins, so that
//! a reader can add up those of the last minute; totals are exact whatever was looked at.

mod id;
mod recorder;
mod summary;
#[cfg(test)]
mod tests;

pub use id::{Addresses, FlowId, Where};
pub use recorder::{FlowParams, FlowRecorder};
pub use summary::{Counted, ENTRIES, Summary};

use crate::stats::Words;
use crate::types::Nanos;

/// What a flow is behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Cause {
    /// Frames changed to CE: at the port they leave by, by queue. Frames.
    Mark,
    /// Frames lost: at the port the loss is counted at, by reason. Frames.
    Drop,
    /// A priority group crossed its line and the peer was told to pause: what waited then of its frames in the fullest
    /// queue, by group. [`PAUSE_LOOKS`] for each crossing.
    Pause,
    /// What waits in the queues of a port, at [`Epoch::looks`] instants. Bytes, summed over these.
    Depth,
}

/// Kinds of [`Cause`].
pub const CAUSES: usize = 4;

/// Frames looked at for each crossing of a line by a priority group.
pub const PAUSE_LOOKS: u64 = 8;

/// Frames looked at in each queue at each instant.
pub const DEPTH_LOOKS: u64 = 4;

impl Cause {
    /// All of them, in the order of their numbers.
    pub const ALL: [Self; CAUSES] = [Self::Mark, Self::Drop, Self::Pause, Self::Depth];

    /// Its name.
    pub fn word(self) -> &'static str {
        match self {
            Self::Mark => "mark",
            Self::Drop => "drop",
            Self::Pause => "pause",
            Self::Depth => "depth",
        }
    }
}

/// What was seen at a port in one stretch of time.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Epoch {
    /// Which stretch it was, from 1; 0: none yet.
    pub number: u64,
    /// Instants at which queues were looked at.
    pub looks: u64,
    /// Everything that happened, in the unit of each [`Cause`], whether somebody looked at it or not.
    pub totals: [u64; CAUSES],
    /// Frames that were looked at.
    pub looked: [u64; CAUSES],
    /// What these stand for, in the unit of each cause: each for those since the one before. What came after the last one
    /// is nobody's.
    pub covered: [u64; CAUSES],
    /// Flows, by cause.
    pub flows: [Summary; CAUSES],
}

impl Words for Epoch {
    fn words(&mut self, f: &mut dyn FnMut(&mut [u64])) {
        f(std::slice::from_mut(&mut self.number));
        f(std::slice::from_mut(&mut self.looks));
        f(&mut self.totals);
        f(&mut self.looked);
        f(&mut self.covered);
        self.flows.iter_mut().for_each(|summary| summary.words(f));
    }
}

/// What a port publishes: the stretch of time under way, and the one before it, which is complete.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct PortFlows {
    /// Under way.
    pub current: Epoch,
    /// Complete.
    pub previous: Epoch,
}

impl Words for PortFlows {
    fn words(&mut self, f: &mut dyn FnMut(&mut [u64])) {
        self.current.words(f);
        self.previous.words(f);
    }
}

/// Length of a stretch of time on a running switch, ns.
pub const EPOCH: Nanos = 1_000_000_000;
