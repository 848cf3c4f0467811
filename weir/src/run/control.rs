//! What the main thread tells its workers: one word they read each turn, and messages they apply
//! between two bursts. A worker never waits for it.

use super::io::{Dpdk, Io};
use super::links::Queues;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering::Relaxed};
use weir_dataplane::fdb::FdbPage;
use weir_dataplane::lag::LagMember;
use weir_dataplane::switch::{ApplyError, Change, Tap};
use weir_dataplane::types::{Nanos, PortId};
use weir_inc::job::Job;
use weir_inc::params::Refusal;
use weir_inc::trace::Follower;
use weir_mgmt::mcast;

/// How far a run has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Phase {
    /// Forwarding.
    Forward = 0,
    /// Nothing new is admitted; what is queued may leave.
    Drain = 1,
    /// Workers return.
    Stop = 2,
}

/// Who follows frames into the engines behind these ports.
pub type Followers = Vec<(PortId, Option<Box<Follower>>)>;

/// A message to a worker.
#[derive(Debug)]
pub enum Command<D: Io = Dpdk> {
    /// The link of a port has changed.
    Link(PortId, bool),
    /// What a port carries for its LAG, by LACP.
    LagMember(PortId, LagMember),
    /// Where groups go in VLANs that are snooped.
    Mcast(mcast::Told),
    /// Give back the queues of a port: its device is being taken away.
    Detach(PortId),
    /// Go on with a port whose device is there again.
    Attach(Queues<D>),
    /// Go over to other parameters.
    Apply {
        /// Number of the order.
        id: u64,
        /// It takes this order back, and does nothing where that was not carried out.
        undoes: Option<u64>,
        /// At the first turn at or after this instant, so that all workers do at once.
        at: Nanos,
        /// The worker's own copy.
        change: Box<Change>,
    },
    /// Follow frames, or follow them no longer.
    Tap(Option<Box<Tap>>, Followers),
    /// Fill a page of the forwarding table, a few buckets each turn.
    Fdb(Box<FdbPage>),
    /// About a job of the engine behind a port.
    Job {
        /// Number of the order.
        id: u64,
        /// The port.
        port: PortId,
        /// What is to be done.
        order: JobOrder,
    },
}

/// An order to an engine.
#[derive(Debug)]
pub enum JobOrder {
    /// Take this job.
    Add(Box<Job>),
    /// Tell the ranks of this job that it has ended, then forget it.
    End(u32),
}

/// What came of it.
#[derive(Debug)]
pub enum Told {
    /// It is done, or under way.
    Taken,
    /// The engine does not take that job, which comes back to be freed elsewhere.
    Refused(
        Refusal,
        #[allow(dead_code, reason = "sent back to be dropped where that disturbs nobody")] Box<Job>,
    ),
    /// Not yet: what it needs belongs to a job that was ended, and whose ranks have not all heard of it. It comes back.
    Ending(Box<Job>),
    /// There is no such job.
    Unknown,
}

/// What a worker says about a message it has obeyed.
#[derive(Debug)]
pub enum Reply {
    /// To [`Command::Apply`].
    Applied {
        /// Number of the order.
        id: u64,
        /// When it did.
        at: Nanos,
        /// What was there before: for another thread to free.
        #[allow(dead_code, reason = "sent back to be dropped where that disturbs nobody")]
        change: Box<Change>,
        /// Why it did not.
        result: Result<(), ApplyError>,
    },
    /// To [`Command::Tap`]: what was there before.
    Tapped(
        #[allow(dead_code, reason = "sent back to be dropped where that disturbs nobody")] Option<Box<Tap>>,
        #[allow(dead_code, reason = "sent back to be dropped where that disturbs nobody")] Followers,
    ),
    /// To [`Command::Job`].
    Job {
        /// Number of the order.
        id: u64,
        /// What came of it.
        told: Told,
    },
    /// To [`Command::Fdb`]: the page, full or at the end of the table.
    Fdb(Box<FdbPage>),
}

/// The order a worker has carried out last: what it never did it does not undo.
#[derive(Debug, Default)]
pub struct Obeyed(u64);

impl Obeyed {
    /// This order is to be carried out.
    pub fn carries_out(&mut self, id: u64, undoes: Option<u64>) -> bool {
        if undoes.is_some_and(|undone| undone != self.0) {
            return false;
        }
        self.0 = id;
        true
    }
}

/// The shared word, and what each worker holds.
#[derive(Clone, Debug)]
pub struct Control {
    phase: Arc<AtomicU8>,
    held: Arc<[AtomicU64]>,
}

impl Control {
    /// For this many workers.
    pub fn new(workers: usize) -> Self {
        Self {
            phase: Arc::new(AtomicU8::new(Phase::Forward as u8)),
            // Who has said nothing yet may hold something.
            held: (0..workers).map(|_| AtomicU64::new(1)).collect(),
        }
    }

    /// The present phase.
    #[inline]
    pub fn phase(&self) -> Phase {
        match self.phase.load(Relaxed) {
            0 => Phase::Forward,
            1 => Phase::Drain,
            _ => Phase::Stop,
        }
    }

    /// Goes on to a phase.
    pub fn enter(&self, phase: Phase) {
        self.phase.store(phase as u8, Relaxed);
    }

    /// A worker says how many frames it holds.
    pub fn report_held(&self, worker: usize, frames: u64) {
        self.held[worker].store(frames, Relaxed);
    }

    /// Frames all workers hold, as last said; not 0 before all have said something.
    pub fn held(&self) -> u64 {
        self.held.iter().map(|held| held.load(Relaxed)).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_switch_is_not_empty_before_every_worker_has_said_so() {
        let control = Control::new(2);
        assert!(control.held() > 0);
        control.report_held(0, 0);
        assert!(control.held() > 0, "the second one has not looked yet");
        control.report_held(1, 7);
        assert_eq!(control.held(), 7);
        control.report_held(1, 0);
        assert_eq!(control.held(), 0);
    }
}
