//! All jobs of one lcore: finds the job a frame is for, and gives each its turn.

use crate::drops::Drop;
use crate::immediate::Failure;
use crate::job::{Chosen, Job, Transmit};
use crate::kernels::Kernels;
use crate::params::{JobParams, Refusal};
use crate::places::Places;
use crate::report::{JobReport, ReportPage};
use weir_dataplane::types::Nanos;
use weir_endpoint::roce::frame::{Frame, ParseError};
use weir_endpoint::roce::head::Headers;
use weir_endpoint::roce::wire::Qpn;

/// Frames a polling loop hands an engine in one turn at most, and takes of it twice as many: what that costs at most by
/// plan (`bench/inc`: a contribution of 1 KB, with its share of the fold and a result, when 64 jobs compete for the cache), ns.
pub const TURN: usize = 16;
/// See [`TURN`].
pub const TURN_NS: Nanos = 700 * TURN as Nanos;

/// What an engine is made with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EngineParams {
    /// Most jobs.
    pub jobs: usize,
    /// Bytes all jobs may take.
    pub memory: u64,
    /// Bytes one job may take.
    pub quota: u64,
    /// First of its queue pair numbers.
    pub first_qpn: Qpn,
    /// How many there are.
    pub qpns: u32,
}

impl Default for EngineParams {
    /// 64 jobs in 256 MiB, none above a quarter of that; 64 queue pairs for each, from 0x100.
    fn default() -> Self {
        Self { jobs: 64, memory: 256 << 20, quota: 64 << 20, first_qpn: Qpn(0x100), qpns: 64 * 65 }
    }
}

/// Frames an engine has seen; only grows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EngineCounters {
    /// Handed in.
    pub received: u64,
    /// Handed out.
    pub sent: u64,
    /// Not used, by reason ([`Drop::ALL`]).
    pub drops: [u64; Drop::ALL.len()],
}

/// The engine. Hand in frames with [`Self::receive`], take frames with [`Self::transmit`] until there are none, call
/// [`Self::tick`] when [`Self::next_event`] is reached.
#[derive(Debug)]
pub struct Engine {
    kernels: Kernels,
    /// Who has what of it.
    places: Places,
    /// By place.
    jobs: Vec<Option<Box<Job>>>,
    /// Jobs that can send something, a bit each.
    runnable: Vec<u64>,
    /// Job that sent last.
    turn: usize,
    wake: Nanos,
    /// Priorities that send nothing now, a bit each.
    held: u8,
    ip_id: u16,
    head: Headers,
    counters: EngineCounters,
}

impl Engine {
    /// An engine without jobs, with the fastest kernels of this machine.
    pub fn new(params: EngineParams) -> Self {
        let places = Places::new(params);
        let jobs = places.len();
        Self {
            kernels: Kernels::best(),
            places,
            jobs: (0..jobs).map(|_| None).collect(),
            runnable: vec![0; jobs.div_ceil(64)],
            turn: 0,
            wake: Nanos::MAX,
            held: 0,
            ip_id: 0,
            head: Headers::default(),
            counters: EngineCounters::default(),
        }
    }

    /// Which kernels fold.
    pub fn kernels(&self) -> Kernels {
        self.kernels
    }

    /// Most jobs.
    pub fn capacity(&self) -> usize {
        self.places.len()
    }

    /// Frames seen.
    pub fn counters(&self) -> &EngineCounters {
        &self.counters
    }

    /// Bytes jobs take, of so many.
    pub fn memory(&self) -> (u64, u64) {
        self.places.memory()
    }

    /// Makes a job and takes it in. This is the one call that allocates, with [`Self::remove`] and reports; where
    /// that must not be, make the job elsewhere and [`Self::insert`] it.
    pub fn add(&mut self, params: JobParams) -> Result<(), Refusal> {
        self.places.admit(&params)?;
        let job = Job::new(params, self.kernels)?;
        self.insert(Box::new(job)).map_err(|(refusal, _)| refusal)
    }

    /// Takes in a job that was made elsewhere, without allocating; one that is refused comes back. The numbers of its queue
    /// pairs are the engine's and free.
    pub fn insert(&mut self, job: Box<Job>) -> Result<(), (Refusal, Box<Job>)> {
        match self.places.take(job.params()) {
            Ok(at) => self.jobs[at] = Some(job),
            Err(refusal) => return Err((refusal, job)),
        }
        Ok(())
    }

    /// The job of this name.
    pub fn job(&self, id: u32) -> Option<&Job> {
        self.at(self.places.find(id)?)
    }

    /// The job in this place.
    pub(crate) fn at(&self, at: usize) -> Option<&Job> {
        self.jobs.get(at)?.as_deref()
    }

    /// Place of the job that has a queue pair, and which of its peers that is.
    pub(crate) fn owner(&self, qpn: Qpn) -> Option<(usize, usize)> {
        self.places.owner(qpn)
    }

    /// Ends a job: its ranks are told. It stays, and answers who has not heard, until it is removed.
    pub fn stop(&mut self, id: u32, now: Nanos) -> bool {
        let Some(at) = self.places.find(id) else { return false };
        if let Some(job) = &mut self.jobs[at] {
            job.fail(Failure::Stopped, crate::immediate::ALL_RANKS, now);
        }
        self.settle(at);
        true
    }

    /// Takes a job out. Frames for it find no queue pair from here on.
    pub fn remove(&mut self, id: u32) -> Option<Box<Job>> {
        let at = self.places.find(id)?;
        let job = self.jobs[at].take()?;
        self.places.free(at, job.params());
        self.runnable[at / 64] &= !(1 << (at % 64));
        Some(job)
    }

    /// What is to be shown of every job.
    pub fn report(&self, now: Nanos) -> Vec<JobReport> {
        self.jobs.iter().flatten().map(|job| JobReport::of(job, now)).collect()
    }

    /// Goes on with a page by one job, without allocating. `true`: it is complete.
    pub fn read(&self, page: &mut ReportPage, now: Nanos) -> bool {
        let next = self.jobs.iter().skip(page.next).position(Option::is_some);
        let at = next.map(|n| page.next + n);
        let (Some(job), Some(report)) =
            (at.and_then(|at| self.jobs[at].as_deref()), page.jobs.get_mut(page.filled))
        else {
            page.counters = self.counters;
            page.memory = self.memory();
            (page.held, page.at) = (self.held, now);
            return true;
        };
        report.fill(job, now);
        page.filled += 1;
        page.next = at.map_or(self.jobs.len(), |at| at + 1);
        false
    }

    /// A frame came, without FCS. What can not be used is counted by its reason.
    pub fn receive(&mut self, bytes: &[u8], now: Nanos) {
        let _ = self.accept(bytes, now);
    }

    /// The same. `Err`: why it is not used.
    #[inline(always)]
    pub(crate) fn accept(&mut self, bytes: &[u8], now: Nanos) -> Result<(), Drop> {
        self.counters.received += 1;
        let taken = self.take(bytes, now);
        if let Err(drop) = taken {
            self.counters.drops[drop as usize] += 1;
        }
        taken
    }

    fn take(&mut self, bytes: &[u8], now: Nanos) -> Result<(), Drop> {
        // Looked at where it is made: it is larger than much of what is done with it.
        let parsed = Frame::parse(bytes);
        let frame = match &parsed {
            Ok(frame) => frame,
            Err(ParseError::NotRoce) => return Err(Drop::NotRoce),
            Err(ParseError::Icrc) => return Err(Drop::BadIcrc),
            Err(ParseError::Opcode(_)) => return Err(Drop::Transport),
            Err(_) => return Err(Drop::Malformed),
        };
        let (at, peer) = self.places.owner(frame.packet.bth.dest_qp).ok_or(Drop::UnknownQp)?;
        let Some(Some(job)) = self.jobs.get_mut(at) else { return Err(Drop::UnknownQp) };
        let taken = job.receive(peer, frame, now);
        self.settle(at);
        taken
    }

    /// Notes what a job wants now.
    fn settle(&mut self, at: usize) {
        if let Some(job) = &self.jobs[at] {
            self.runnable[at / 64] |= u64::from(job.is_runnable()) << (at % 64);
            self.wake = self.wake.min(job.wake());
        }
    }

    /// The next frame to be sent at `now`, jobs in turn. The parts are valid until the next call.
    pub fn transmit(&mut self, now: Nanos) -> Option<Transmit<'_>> {
        let (at, chosen) = self.choose(now)?;
        self.write(at, chosen, now)
    }

    /// Which job is to send what to whom.
    #[inline(always)]
    pub(crate) fn choose(&mut self, now: Nanos) -> Option<(usize, Chosen)> {
        loop {
            let at = self.next_runnable()?;
            let job = self.jobs[at].as_mut()?;
            if let Some(chosen) = job.choose(now, self.held) {
                return Some((at, chosen));
            }
            self.wake = self.wake.min(job.wake());
            self.runnable[at / 64] &= !(1 << (at % 64));
        }
    }

    /// Writes that.
    #[inline(always)]
    pub(crate) fn write(&mut self, at: usize, chosen: Chosen, now: Nanos) -> Option<Transmit<'_>> {
        self.turn = at + 1;
        self.ip_id = self.ip_id.wrapping_add(1);
        self.counters.sent += 1;
        let Self { jobs, wake, head, ip_id, .. } = self;
        let job = jobs[at].as_mut()?;
        let written = job.write(chosen, *ip_id, head, now)?;
        *wake = (*wake).min(job.wake());
        job.frame(&written, head)
    }

    /// These priorities (a bit each) send nothing until others are named: the network has paused them.
    pub fn hold(&mut self, priorities: u8) {
        let released = self.held & !priorities;
        self.held = priorities;
        if released != 0 {
            (0..self.jobs.len()).for_each(|at| self.settle(at));
        }
    }

    /// The next job that can send something, after the one that did last.
    fn next_runnable(&self) -> Option<usize> {
        let first =
            |(word, bits): (usize, u64)| (bits != 0).then(|| word * 64 + bits.trailing_zeros() as usize);
        let (word, bit) = (self.turn / 64, self.turn % 64);
        let after = self.runnable.get(word).and_then(|bits| first((word, bits >> bit << bit)));
        // Behind its word, and from the first one on.
        let all = || self.runnable.iter().copied().enumerate();
        after.or_else(|| all().skip(word + 1).find_map(first)).or_else(|| all().find_map(first))
    }

    /// Time has passed: sends again, probes, gives up.
    pub fn tick(&mut self, now: Nanos) {
        if now < self.wake {
            return;
        }
        self.wake = Nanos::MAX;
        for at in 0..self.jobs.len() {
            if let Some(job) = &mut self.jobs[at] {
                job.tick(now);
            }
            self.settle(at);
        }
    }

    /// When [`Self::tick`] next has something to do, unless a frame comes.
    pub fn next_event(&self) -> Option<Nanos> {
        Some(self.wake).filter(|&at| at != Nanos::MAX)
    }

    /// Whether [`Self::transmit`] may have a frame.
    pub fn has_work(&self) -> bool {
        self.runnable.iter().any(|&word| word != 0)
    }
}
