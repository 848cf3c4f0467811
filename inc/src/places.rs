//! What an engine has to give to jobs: places, memory, queue pair numbers; and who has what of it. Knows nothing of what jobs
//! do, so it also says beforehand what will fit.

use crate::engine::EngineParams;
use crate::params::{JobParams, Refusal};
use std::net::IpAddr;
use weir_endpoint::roce::wire::Qpn;

/// A queue pair number that leads to no job.
const NOBODY: (u16, u16) = (u16::MAX, 0);

/// End of a list of queue pairs.
const NONE: u32 = u32::MAX;

/// Queue pairs of peers, by the number of the engine's that each has: found by a hash, so that nothing is made or moved and no
/// more than a few are looked at while frames wait.
#[derive(Clone, Debug)]
struct Ends {
    /// First of each list.
    buckets: Vec<u32>,
    /// What each number has: the peer's, and the next of its list.
    ends: Vec<((IpAddr, Qpn), u32)>,
}

impl Ends {
    fn new(qpns: usize) -> Self {
        let nobody = (IpAddr::from([0, 0, 0, 0]), Qpn(0));
        Self { buckets: vec![NONE; qpns.next_power_of_two()], ends: vec![(nobody, NONE); qpns] }
    }

    fn bucket(&self, (ip, qpn): (IpAddr, Qpn)) -> usize {
        let ip = match ip {
            IpAddr::V4(ip) => u64::from(ip.to_bits()),
            IpAddr::V6(ip) => ip.to_bits() as u64 ^ (ip.to_bits() >> 64) as u64,
        };
        // Fibonacci hashing.
        let hash = (ip.rotate_left(24) ^ u64::from(qpn.0)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (hash >> 32) as usize & (self.buckets.len() - 1)
    }

    /// Which number of the engine has this end.
    fn find(&self, end: (IpAddr, Qpn)) -> Option<usize> {
        let mut at = self.buckets[self.bucket(end)];
        while at != NONE {
            let (other, next) = self.ends[at as usize];
            if other == end {
                return Some(at as usize);
            }
            at = next;
        }
        None
    }

    fn insert(&mut self, index: usize, end: (IpAddr, Qpn)) {
        let bucket = self.bucket(end);
        self.ends[index] = (end, self.buckets[bucket]);
        self.buckets[bucket] = index as u32;
    }

    fn remove(&mut self, index: usize) {
        let (end, after) = self.ends[index];
        let bucket = self.bucket(end);
        if self.buckets[bucket] == index as u32 {
            self.buckets[bucket] = after;
            return;
        }
        let mut at = self.buckets[bucket];
        while at != NONE {
            let next = self.ends[at as usize].1;
            if next == index as u32 {
                self.ends[at as usize].1 = after;
                return;
            }
            at = next;
        }
    }
}

/// The places of an engine.
#[derive(Clone, Debug)]
pub struct Places {
    params: EngineParams,
    /// Name of the job at each.
    jobs: Vec<Option<u32>>,
    /// Job and peer of each queue pair number.
    peers: Vec<(u16, u16)>,
    /// Whom each leads to.
    ends: Ends,
    used: u64,
}

impl Places {
    /// All of them free.
    pub fn new(params: EngineParams) -> Self {
        let jobs = params.jobs.clamp(1, usize::from(u16::MAX));
        let qpns = params.qpns as usize;
        Self { jobs: vec![None; jobs], peers: vec![NOBODY; qpns], ends: Ends::new(qpns), used: 0, params }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.jobs.len()
    }

    /// There always is one.
    pub fn is_empty(&self) -> bool {
        false
    }

    /// Bytes jobs take, of so many.
    pub fn memory(&self) -> (u64, u64) {
        (self.used, self.params.memory)
    }

    /// Place of the job of this name.
    pub fn find(&self, id: u32) -> Option<usize> {
        self.jobs.iter().position(|job| *job == Some(id))
    }

    /// Place of the job that has this queue pair number, and which of its peers that is.
    #[inline]
    pub fn owner(&self, qpn: Qpn) -> Option<(usize, usize)> {
        let (at, peer) = self.peers[self.index(qpn)?];
        ((at, peer) != NOBODY).then_some((usize::from(at), usize::from(peer)))
    }

    fn index(&self, qpn: Qpn) -> Option<usize> {
        let index = qpn.0.checked_sub(self.params.first_qpn.0)? as usize;
        (index < self.peers.len()).then_some(index)
    }

    /// Whether a job can be taken; the bytes it needs, and its place.
    ///
    /// # Errors
    /// Why not.
    pub fn admit(&self, params: &JobParams) -> Result<(u64, usize), Refusal> {
        params.check()?;
        let (id, needed) = (params.id, params.memory());
        if self.find(id).is_some() {
            return Err(Refusal::Exists(id));
        }
        let all = Refusal::Jobs(id, self.jobs.len());
        let at = self.jobs.iter().position(Option::is_none).ok_or(all)?;
        if needed > self.params.quota {
            return Err(Refusal::Quota(id, needed, self.params.quota));
        }
        let left = self.params.memory.saturating_sub(self.used);
        if needed > left {
            return Err(Refusal::Memory {
                id,
                needed,
                left,
                total: self.params.memory,
                children: params.children.len(),
                window: params.window,
                mtu: params.mtu,
                results: params.results,
            });
        }
        let first = self.params.first_qpn.0;
        for qpn in params.qpns() {
            if self.index(qpn).is_none() {
                let last = first + (self.peers.len() as u32).saturating_sub(1);
                return Err(Refusal::Qpn(id, qpn.0, first, last));
            }
            if let Some(other) = self.owner(qpn).and_then(|(at, _)| self.jobs[at]) {
                return Err(Refusal::QpnTaken(id, qpn.0, other));
            }
        }
        for (peer, end) in params.ends().enumerate() {
            let taken = self.ends.find(end).and_then(|index| self.jobs[usize::from(self.peers[index].0)]);
            if let Some(other) = taken {
                return Err(Refusal::EndTaken { id, peer, qpn: end.1.0, ip: end.0, other });
            }
        }
        Ok((needed, at))
    }

    /// Gives a job its place and its numbers, without allocating.
    ///
    /// # Errors
    /// It does not fit: why.
    pub fn take(&mut self, params: &JobParams) -> Result<usize, Refusal> {
        let (needed, at) = self.admit(params)?;
        for (peer, (qpn, end)) in params.qpns().zip(params.ends()).enumerate() {
            if let Some(index) = self.index(qpn) {
                self.peers[index] = (at as u16, peer as u16);
                self.ends.insert(index, end);
            }
        }
        self.used += needed;
        self.jobs[at] = Some(params.id);
        Ok(at)
    }

    /// Takes back what the job at `at` had.
    pub fn free(&mut self, at: usize, params: &JobParams) {
        for qpn in params.qpns() {
            if let Some(index) = self.index(qpn) {
                self.peers[index] = NOBODY;
                self.ends.remove(index);
            }
        }
        self.used = self.used.saturating_sub(params.memory());
        self.jobs[at] = None;
    }
}
