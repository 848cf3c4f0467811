//! What is shown of jobs.

use crate::engine::EngineCounters;
use crate::immediate::{Failure, Primitive};
use crate::job::{Job, JobCounters};
use crate::params::MAX_CHILDREN;
use crate::peer::PeerCounters;
use weir_dataplane::types::Nanos;
use weir_endpoint::rc::psn::Psn;
use weir_endpoint::roce::wire::Qpn;

/// Where a job stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// It folds.
    Running,
    /// It has failed because of this rank, at that time; who is there is being told.
    Failing(Failure, u16, Nanos),
    /// It has failed, and everybody knows who could be told.
    Failed(Failure, u16, Nanos),
}

/// A peer of a job.
#[derive(Clone, Debug)]
pub struct PeerReport {
    /// Its first rank; none for the parent.
    pub rank: Option<u16>,
    /// Queue pair of the engine.
    pub qpn: Qpn,
    /// Operation its messages belong to.
    pub operation: Primitive,
    /// Packets with data so far.
    pub number: u64,
    /// PSN it is expected to send next.
    pub expected: Psn,
    /// The oldest open number waits for it.
    pub missing: bool,
    /// How far it is behind the first of each number: moving average and most, in ns.
    pub lag: (Nanos, Nanos),
    /// It does not answer any more.
    pub dead: bool,
    /// What was seen of it.
    pub counters: PeerCounters,
}

/// A job.
#[derive(Clone, Debug)]
pub struct JobReport {
    /// Its name.
    pub id: u32,
    /// Ranks of the whole job.
    pub ranks: u16,
    /// Where it stands.
    pub state: State,
    /// Bytes it takes.
    pub memory: u64,
    /// Numbers open, of so many.
    pub open: (usize, u32),
    /// Results not acknowledged, of so many.
    pub kept: (u64, u32),
    /// The oldest open number has waited so long, in ns.
    pub waiting: Option<Nanos>,
    /// What it has done.
    pub counters: JobCounters,
    /// Children, then the parent.
    pub peers: Vec<PeerReport>,
}

impl JobReport {
    /// One that can be filled without allocating.
    fn blank() -> Self {
        Self {
            id: 0,
            ranks: 0,
            state: State::Running,
            memory: 0,
            open: (0, 0),
            kept: (0, 0),
            waiting: None,
            counters: JobCounters::default(),
            peers: Vec::with_capacity(MAX_CHILDREN + 1),
        }
    }

    /// As it stands at `now`.
    pub fn of(job: &Job, now: Nanos) -> Self {
        let mut report = Self::blank();
        report.fill(job, now);
        report
    }

    /// The same over what it said before.
    pub(crate) fn fill(&mut self, job: &Job, now: Nanos) {
        let params = job.params();
        let (open, waiting) = job.open();
        let missing = waiting.map_or(0, |(_, missing)| missing);
        let peers = job.peers().iter().enumerate().map(|(at, peer)| {
            let child = params.children.get(at);
            PeerReport {
                rank: child.map(|c| c.first_rank),
                qpn: peer.qpn,
                operation: peer.cursor.operation,
                number: peer.cursor.number,
                expected: peer.order.expected(),
                missing: child.is_some() && missing & peer.bit != 0,
                lag: peer.lag,
                dead: peer.dead,
                counters: peer.counters,
            }
        });
        self.peers.clear();
        self.peers.extend(peers);
        self.id = params.id;
        self.ranks = params.ranks;
        self.state = match job.failure() {
            None => State::Running,
            Some((failure, rank, at)) if job.is_drained() => State::Failed(failure, rank, at),
            Some((failure, rank, at)) => State::Failing(failure, rank, at),
        };
        self.memory = params.memory();
        self.open = (open, params.window);
        self.kept = (job.kept(), params.results);
        self.waiting = waiting.map(|(since, _)| now.saturating_sub(since));
        self.counters = *job.counters();
    }
}

/// Room for the reports of all jobs of an engine, which are read one at a time ([`Engine::read`]): made where memory may
/// be taken, filled where it may not.
///
/// [`Engine::read`]: crate::engine::Engine::read
#[derive(Clone, Debug)]
pub struct ReportPage {
    pub(crate) jobs: Vec<JobReport>,
    pub(crate) filled: usize,
    /// Place of the job that comes next.
    pub(crate) next: usize,
    /// Frames the engine has seen.
    pub counters: EngineCounters,
    /// Bytes its jobs take, of so many.
    pub memory: (u64, u64),
    /// Priorities it may not send in, a bit each.
    pub held: u8,
    /// When it was complete.
    pub at: Nanos,
}

impl ReportPage {
    /// For so many jobs.
    pub fn new(jobs: usize) -> Self {
        Self {
            jobs: (0..jobs).map(|_| JobReport::blank()).collect(),
            filled: 0,
            next: 0,
            counters: EngineCounters::default(),
            memory: (0, 0),
            held: 0,
            at: 0,
        }
    }

    /// What has been read.
    pub fn jobs(&self) -> &[JobReport] {
        &self.jobs[..self.filled]
    }

    /// To be read again from the first job on.
    pub fn rewind(&mut self) {
        (self.filled, self.next) = (0, 0);
    }
}
