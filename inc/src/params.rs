//! What a job is made of, what it costs, and why it may be refused.

use crate::collector::Collector;
use crate::immediate::Primitive;
use crate::outbox::Outbox;
use crate::remote::{Mirror, Remote, Writes};
use std::net::IpAddr;
use thiserror::Error;
use weir_dataplane::types::Nanos;
use weir_endpoint::dcqcn::reaction_point::Params;
use weir_endpoint::roce::qp::Path;
use weir_endpoint::roce::wire::{DEFAULT_PKEY, Qpn, Reth};

/// Most children of a job at one engine: one bit each of a word.
pub const MAX_CHILDREN: usize = 64;

/// Bytes around the payload of a frame at most, without FCS: Ethernet with a tag, IPv6, UDP, BTH, immediate data, ICRC.
pub const HEADERS: usize = 18 + 40 + 8 + 12 + 4 + 4;

/// Fewest places of an outbox: two are for words alone.
const LEAST_RESULTS: u32 = 4;
/// Least rate of a job, bit/s, as of a port.
const LEAST_RATE: u64 = 1_000_000;

/// What happens when a contribution does not come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Straggler {
    /// Wait as long as the rank's queue pair is alive: it is probed.
    Wait,
    /// So long after the first contribution, in ns, the result goes out without those that are missing; its status says
    /// how many ranks are in it. What comes later is acknowledged and not used. A Barrier, a Broadcast or an AllGather
    /// that lacks its source fails instead.
    Partial(Nanos),
    /// So long after the first contribution, in ns, the job fails.
    Abort(Nanos),
}

/// Somebody below: a host, or an engine with ranks of its own.
#[derive(Clone, Copy, Debug)]
pub struct Child {
    /// Queue pair of the engine.
    pub qpn: Qpn,
    /// Way to the child and the numbers agreed with it.
    pub path: Path,
    /// First of its ranks.
    pub first_rank: u16,
    /// How many ranks; 1 for a host.
    pub ranks: u16,
    /// It is an engine.
    pub engine: bool,
    /// What it has to do with RDMA WRITEs.
    pub remote: Remote,
}

impl Child {
    /// Whether this rank is below it.
    pub fn holds(&self, rank: u16) -> bool {
        rank.checked_sub(self.first_rank).is_some_and(|n| n < self.ranks)
    }
}

/// The engine above.
#[derive(Clone, Copy, Debug)]
pub struct Parent {
    /// Queue pair of this engine.
    pub qpn: Qpn,
    /// Way up and the numbers agreed.
    pub path: Path,
}

/// A job at one engine.
#[derive(Clone, Debug)]
pub struct JobParams {
    /// Name among the jobs of an engine.
    pub id: u32,
    /// Ranks of the whole job.
    pub ranks: u16,
    /// Payload of a full packet in bytes: 256, 512, 1024, 2048 or 4096.
    pub mtu: u16,
    /// Packets a child may be ahead of the slowest; a power of two up to 4096.
    pub window: u32,
    /// Results kept until they are acknowledged, and two; a power of two, 4 to 4096.
    pub results: u32,
    /// What messages are, until one names another operation.
    pub operation: Primitive,
    /// Results carry their status as immediate data. (Engines tell one another always.)
    pub status: bool,
    /// What happens when a contribution does not come.
    pub straggler: Straggler,
    /// Silence after which what was not acknowledged is sent again, in ns.
    pub ack_timeout: Nanos,
    /// Times it is sent again before the peer counts as gone.
    pub retries: u8,
    /// A peer that says nothing for so long though it is probed, or takes nothing, saying that it is not ready, counts as gone, too,
    /// in ns.
    pub patience: Nanos,
    /// The same of a peer that has not said anything yet, if it is longer, in ns: hosts do not all begin at once.
    pub arrival: Nanos,
    /// Time without a word from a peer that is waited for, before it is probed, in ns.
    pub probe_after: Nanos,
    /// Least time between two CNPs to a peer, in ns.
    pub cnp_interval: Nanos,
    /// Rate at which a peer is sent to before it sends a CNP, in bit/s; from then on as DCQCN says, with the parameters of its
    /// paper.
    pub line_rate: u64,
    /// Partition key.
    pub pkey: u16,
    /// Those below, in the order of their ranks.
    pub children: Vec<Child>,
    /// The one above; none at the root.
    pub parent: Option<Parent>,
}

impl JobParams {
    /// A job with usual values: MTU 1024, 256 slots and results, status, wait for stragglers, 7 retries after 4.2 ms each,
    /// patience 1 s, until the first word 30 s, probes after 10 ms.
    pub fn new(id: u32, ranks: u16, operation: Primitive) -> Self {
        Self {
            id,
            ranks,
            mtu: 1024,
            window: 256,
            results: 256,
            operation,
            status: true,
            straggler: Straggler::Wait,
            ack_timeout: 4096 << 10,
            retries: 7,
            patience: 1_000_000_000,
            arrival: 30_000_000_000,
            probe_after: 10_000_000,
            cnp_interval: 50_000,
            line_rate: 100_000_000_000,
            pkey: DEFAULT_PKEY,
            children: Vec::new(),
            parent: None,
        }
    }

    /// Places for sums that the parent has not acknowledged.
    pub(crate) fn sums(&self) -> u32 {
        self.window.max(LEAST_RESULTS)
    }

    /// Bytes of its longest frame, without FCS.
    pub fn longest_frame(&self) -> usize {
        let writes = self.children.iter().any(|child| child.remote.is_used());
        usize::from(self.mtu) + HEADERS + if writes { Reth::BYTES } else { 0 }
    }

    /// Places of what is known of each host whose WRITEs are mirrored.
    pub(crate) fn mirror_places(&self) -> usize {
        Mirror::places(self.window, self.results)
    }

    /// Bytes it takes, known before it is made.
    pub fn memory(&self) -> u64 {
        let up = self.parent.map_or(0, |_| Outbox::memory(self.sums(), self.mtu));
        Collector::memory(self.window, self.mtu, self.children.len())
            + Outbox::memory(self.results, self.mtu)
            + up
            + self.children.iter().filter(|c| c.remote.writes == Writes::Mirrored).count() as u64
                * Mirror::memory(self.mirror_places())
            + crate::job::fixed_memory(self)
    }

    /// Queue pairs of the engine: those for children in the order of their ranks, then that for the parent.
    pub fn qpns(&self) -> impl Iterator<Item = Qpn> {
        self.children.iter().map(|child| child.qpn).chain(self.parent.map(|parent| parent.qpn))
    }

    /// The peers' addresses and queue pairs, in the same order.
    pub fn ends(&self) -> impl Iterator<Item = (IpAddr, Qpn)> {
        let paths = self.children.iter().map(|child| child.path).chain(self.parent.map(|p| p.path));
        paths.map(|path| (path.dst_ip, path.dest_qp))
    }

    /// What is wrong with the numbers that all its hosts agree on.
    ///
    /// # Errors
    /// The first of them that cannot be.
    pub fn check_sizes(&self) -> Result<(), Refusal> {
        let id = self.id;
        if !matches!(self.mtu, 256 | 512 | 1024 | 2048 | 4096) {
            return Err(Refusal::Mtu(id, self.mtu));
        }
        for (what, n, least) in [("window", self.window, 1), ("results", self.results, LEAST_RESULTS)] {
            if !n.is_power_of_two() || !(least..=4096).contains(&n) {
                return Err(Refusal::Ring(id, what, n, least));
            }
        }
        Ok(())
    }

    /// What is wrong with it.
    pub fn check(&self) -> Result<(), Refusal> {
        self.check_sizes()?;
        let id = self.id;
        if !(1..=MAX_CHILDREN).contains(&self.children.len()) {
            return Err(Refusal::FanIn(id, self.children.len()));
        }
        let mut next = self.children[0].first_rank;
        if self.parent.is_none() && next != 0 {
            return Err(Refusal::Ranks(id, 0, next));
        }
        for child in &self.children {
            if child.first_rank != next || child.ranks == 0 || (!child.engine && child.ranks != 1) {
                return Err(Refusal::Ranks(id, next, child.first_rank));
            }
            next = next.checked_add(child.ranks).ok_or(Refusal::Ranks(id, next, u16::MAX))?;
        }
        if next > self.ranks || (self.parent.is_none() && next != self.ranks) {
            return Err(Refusal::World(id, next, self.ranks));
        }
        let deadline = match self.straggler {
            Straggler::Wait => None,
            Straggler::Partial(time) | Straggler::Abort(time) => Some(time),
        };
        for (what, time) in [
            ("ack_timeout", Some(self.ack_timeout)),
            ("patience", Some(self.patience)),
            ("arrival", Some(self.arrival)),
            ("probe_after", Some(self.probe_after)),
            ("deadline", deadline),
        ] {
            if time == Some(0) {
                return Err(Refusal::Zero(id, what));
            }
        }
        let is_told = |child: &Child| self.status || child.engine || child.remote.results.is_some();
        if matches!(self.straggler, Straggler::Partial(_)) && !self.children.iter().all(is_told) {
            return Err(Refusal::Untold(id));
        }
        if self.pkey & 0x7fff == 0 {
            return Err(Refusal::Partition(id, self.pkey));
        }
        if self.line_rate < LEAST_RATE || Params::paper(self.line_rate).check().is_err() {
            return Err(Refusal::Rate(id, self.line_rate));
        }
        if !self.operation.names_ranks_below(self.ranks) {
            return Err(Refusal::Root(id, self.ranks));
        }
        for (at, child) in self.children.iter().enumerate() {
            let fits = child.remote.check(self.mtu).and(match self.operation {
                _ if child.engine && child.remote.is_used() => Err("WRITEs, but it is an engine: these SEND"),
                Primitive::AllReduce(_) => Ok(()),
                _ if child.remote.writes != Writes::Mirrored => Ok(()),
                _ => Err("WRITEs that name where their result goes, which AllReduce alone has for each"),
            });
            fits.map_err(|what| Refusal::Remote(id, at, what))?;
        }
        for (at, qpn) in self.qpns().enumerate() {
            if self.qpns().take(at).any(|other| other == qpn) {
                return Err(Refusal::SameQpn(id, qpn.0));
            }
        }
        let peers = self.children.iter().map(|c| c.path).chain(self.parent.map(|p| p.path));
        for (at, path) in peers.enumerate() {
            if path.outer(path.data, 0).is_none() {
                return Err(Refusal::Family(id, at));
            }
        }
        for (at, child) in self.children.iter().enumerate() {
            let is_same = |other: &Child| {
                (other.path.dst_ip, other.path.dest_qp) == (child.path.dst_ip, child.path.dest_qp)
            };
            if let Some(other) = self.children[..at].iter().position(is_same) {
                return Err(Refusal::Twice(id, other, at));
            }
        }
        Ok(())
    }
}

/// Why a job is not taken.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Refusal {
    /// Not one of the five.
    #[error("job {0}: mtu is {1}; it is 256, 512, 1024, 2048 or 4096")]
    Mtu(u32, u16),
    /// No power of two, or too many.
    #[error("job {0}: {1} is {2}; it is a power of two, {3} to 4096")]
    Ring(u32, &'static str, u32, u32),
    /// Too few or too many children.
    #[error("job {0}: {1} children; an engine has 1 to 64, more need a tree")]
    FanIn(u32, usize),
    /// Ranks of children are not in order without gaps.
    #[error(
        "job {0}: a child with rank {1} was expected, it has {2}; children are listed by rank, without gaps, and a host has one rank"
    )]
    Ranks(u32, u16, u16),
    /// More or fewer ranks than the job has.
    #[error("job {0}: children have the ranks below {1}, the job has {2}")]
    World(u32, u16, u16),
    /// Too slow for DCQCN's least rates.
    #[error("job {0}: a rate of {1} bit/s; DCQCN needs more, e.g. 1000000000")]
    Rate(u32, u64),
    /// The root is no rank.
    #[error("job {0}: the root of its operation is no rank; there are {1}")]
    Root(u32, u16),
    /// IPv4 and IPv6 in one path.
    #[error("job {0}: addresses of peer {1} are of two families; both are IPv4 or both IPv6")]
    Family(u32, usize),
    /// Two children are one queue pair of one host.
    #[error("job {0}: peers {1} and {2} have one address and one queue pair; each rank has its own")]
    Twice(u32, usize, usize),
    /// Memory, or who writes to it.
    #[error("job {0}: peer {1} has {2}")]
    Remote(u32, usize, &'static str),
    /// A time that has always passed.
    #[error("job {0}: {1}_ns is 0; it is 1 or more, or left out")]
    Zero(u32, &'static str),
    /// Partial results without a status.
    #[error(
        "job {0}: straggler is partial and status false, so no host could tell a part of a sum from all of it; leave status out"
    )]
    Untold(u32),
    /// Nobody's partition.
    #[error("job {0}: pkey is {1:#x}; its lower 15 bits are not all 0 (IBTA 10.9.1)")]
    Partition(u32, u16),
    /// Memory for it is not there.
    #[error(
        "job {id} needs {needed} bytes ({children} children x {window} slots x {mtu} bytes, {results} results); {left} of {total} are left. Take a smaller window, or give the engine more memory"
    )]
    Memory {
        /// Of the job.
        id: u32,
        /// Bytes.
        needed: u64,
        /// Bytes.
        left: u64,
        /// Bytes.
        total: u64,
        /// Fan-in.
        children: usize,
        /// Slots.
        window: u32,
        /// Payload bytes.
        mtu: u16,
        /// Results kept.
        results: u32,
    },
    /// One job may not take that much.
    #[error("job {0} needs {1} bytes; a job may take {2}. Take a smaller window or fewer results")]
    Quota(u32, u64, u64),
    /// All places are taken.
    #[error("job {0}: the engine has {1} jobs, that is all it takes")]
    Jobs(u32, usize),
    /// The name is taken.
    #[error("job {0} exists already")]
    Exists(u32),
    /// A queue pair of the engine for two peers.
    #[error(
        "job {0}: queue pair {1} of the engine is given to two peers; each child, and the parent, has one of its own"
    )]
    SameQpn(u32, u32),
    /// Queue pair number out of range.
    #[error("job {0}: queue pair {1} is not one of this engine's, which are {2} to {3}")]
    Qpn(u32, u32, u32, u32),
    /// Queue pair number of another job, the last one.
    #[error("job {0}: queue pair {1} of the engine is one of job {2}")]
    QpnTaken(u32, u32, u32),
    /// A queue pair of a peer is connected already.
    #[error(
        "job {id}: peer {peer} has queue pair {qpn} of {ip}, which is connected to the engine by job {other}; a queue pair has one connection. Make another one, or end that job"
    )]
    EndTaken {
        /// Of the job.
        id: u32,
        /// Place among its peers.
        peer: usize,
        /// Queue pair of the peer.
        qpn: u32,
        /// Address of the peer.
        ip: IpAddr,
        /// The job that has it.
        other: u32,
    },
}

impl Refusal {
    /// Whether the same job may be taken later, when others have ended; otherwise it is wrong for this engine.
    pub const fn passes(&self) -> bool {
        match self {
            Self::Memory { needed, total, .. } => *needed <= *total,
            Self::Jobs(..) | Self::Exists(_) | Self::QpnTaken(..) | Self::EndTaken { .. } => true,
            _ => false,
        }
    }
}
