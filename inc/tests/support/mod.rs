//! Ranks, engines and the links between them, in virtual time.
#![allow(dead_code)] // Not every test file needs all of it.

pub mod hand;
pub mod rank;

use rank::Rank;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::net::{IpAddr, Ipv4Addr};
use weir_dataplane::types::{Mac, Nanos};
use weir_endpoint::rc::psn::Psn;
use weir_endpoint::roce::qp::Path;
use weir_endpoint::roce::wire::Qpn;
use weir_inc::engine::{Engine, EngineParams};
use weir_inc::immediate::Primitive;
use weir_inc::kernels::{ByteOrder, DataType, Fold, Kernels, Operator};
use weir_inc::params::{Child, JobParams, Parent};

pub const FIRST_QPN: u32 = 0x100;

/// Addresses of a node.
pub fn address(node: usize) -> (Mac, IpAddr) {
    let [high, low] = (node as u16).to_be_bytes();
    (Mac([2, 0, 0, 0, high, low]), Ipv4Addr::new(10, 0, high, low).into())
}

pub fn fold(operator: Operator, data_type: DataType) -> Fold {
    Fold::new(operator, data_type, ByteOrder::Big).unwrap()
}

pub fn sum_i32() -> Primitive {
    Primitive::AllReduce(fold(Operator::Sum, DataType::I32))
}

/// A generator of numbers with a seed (xorshift64*).
#[derive(Clone, Debug)]
pub struct Random(pub u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 16
    }

    pub fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }

    /// True `n` times in a million.
    pub fn ppm(&mut self, n: u32) -> bool {
        n > 0 && self.below(1_000_000) < u64::from(n)
    }
}

/// The shape of a job.
#[derive(Clone, Debug)]
pub enum Tree {
    Rank,
    Engine(Vec<Tree>),
}

impl Tree {
    /// One engine with `k` ranks.
    pub fn flat(k: usize) -> Self {
        Self::Engine(vec![Self::Rank; k])
    }

    pub fn ranks(&self) -> u16 {
        match self {
            Self::Rank => 1,
            Self::Engine(children) => children.iter().map(Self::ranks).sum(),
        }
    }

    /// What the tree makes of one payload of each rank: the contract, node by node.
    pub fn fold(&self, fold: Fold, payloads: &mut impl Iterator<Item = Vec<u8>>) -> Vec<u8> {
        match self {
            Self::Rank => payloads.next().unwrap(),
            Self::Engine(children) => {
                let inputs: Vec<Vec<u8>> = children.iter().map(|c| c.fold(fold, payloads)).collect();
                let inputs: Vec<&[u8]> = inputs.iter().map(Vec::as_slice).collect();
                let mut out = vec![0; inputs[0].len()];
                Kernels::PORTABLE.fold(fold, &inputs, &mut out).unwrap();
                out
            }
        }
    }
}

/// What links do to frames, in parts of a million.
#[derive(Clone, Copy, Debug, Default)]
pub struct Faults {
    pub lost: u32,
    pub repeated: u32,
    pub corrupt: u32,
    pub late: u32,
}

impl Faults {
    pub fn all(ppm: u32) -> Self {
        Self { lost: ppm, repeated: ppm, corrupt: ppm, late: ppm }
    }
}

/// Which way a frame goes, and what it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Data towards the root.
    Up,
    /// The answer to it.
    UpAck,
    /// Data from the root.
    Down,
    /// The answer to it.
    DownAck,
}

/// A host that takes one frame after the other, and loses what comes when its queue is full.
#[derive(Clone, Copy, Debug)]
pub struct Slow {
    /// For each frame, ns.
    pub service: Nanos,
    /// Frames that wait at most.
    pub queue: u64,
    free_at: Nanos,
    pub lost: u64,
}

impl Slow {
    pub fn new(service: Nanos, queue: u64) -> Self {
        Self { service, queue, free_at: 0, lost: 0 }
    }

    /// When a frame is taken that comes at this time.
    fn take(&mut self, at: Nanos) -> Option<Nanos> {
        if self.free_at.saturating_sub(at) / self.service > self.queue {
            self.lost += 1;
            return None;
        }
        self.free_at = self.free_at.max(at) + self.service;
        Some(self.free_at)
    }
}

#[derive(Debug)]
pub enum Node {
    Rank(Box<Rank>),
    Engine(Box<Engine>),
}

type Arrival = Reverse<(Nanos, u64, usize, Vec<u8>)>;

/// Whether a frame is lost that goes from a node to a node this way.
pub type Filter = Box<dyn FnMut(usize, usize, Way, &[u8]) -> bool>;

/// Everything, and its time.
pub struct Net {
    pub now: Nanos,
    pub nodes: Vec<Node>,
    /// Distance of each node from the root.
    pub depth: Vec<usize>,
    pub faults: Faults,
    pub filter: Option<Filter>,
    /// By node.
    pub slow: BTreeMap<usize, Slow>,
    pub random: Random,
    pub delay: Nanos,
    /// Of ranks made from here on, ns.
    pub rank_timeout: Nanos,
    pub frames: u64,
    arrivals: BinaryHeap<Arrival>,
    sequence: u64,
}

/// Node of each rank, and of each engine from the root down.
#[derive(Clone, Debug, Default)]
pub struct Places {
    pub ranks: Vec<usize>,
    pub engines: Vec<usize>,
}

impl Net {
    pub fn new(seed: u64) -> Self {
        Self {
            now: 0,
            nodes: Vec::new(),
            depth: Vec::new(),
            faults: Faults::default(),
            filter: None,
            slow: BTreeMap::new(),
            random: Random::new(seed),
            delay: 2_000,
            rank_timeout: 2_000_000,
            frames: 0,
            arrivals: BinaryHeap::new(),
            sequence: 0,
        }
    }

    /// Builds one job with engines and ranks of its own. `change` may alter the parameters of each engine.
    pub fn job(&mut self, tree: &Tree, job: &JobParams, change: impl Fn(&mut JobParams) + Copy) -> Places {
        let mut places = Places::default();
        self.build(tree, job, change, None, 0, &mut 0, &mut places);
        places
    }

    #[allow(clippy::too_many_arguments)]
    fn build(
        &mut self,
        tree: &Tree,
        job: &JobParams,
        change: impl Fn(&mut JobParams) + Copy,
        parent: Option<Parent>,
        depth: usize,
        next_rank: &mut u16,
        places: &mut Places,
    ) -> usize {
        let Tree::Engine(children) = tree else { panic!("a job starts with an engine") };
        let node = self.nodes.len();
        self.nodes.push(Node::Engine(Box::new(Engine::new(EngineParams::default()))));
        self.depth.push(depth);
        places.engines.push(node);
        let mut params = JobParams { parent, children: Vec::new(), ..job.clone() };
        for (at, below) in children.iter().enumerate() {
            let qpn = Qpn(FIRST_QPN + at as u32);
            let first_rank = *next_rank;
            // PSNs near the wrap, differently for each direction.
            let psn = |random: &mut Random| Psn::new(0xff_ff00 + random.below(0x200) as u32);
            let (up, down) = (psn(&mut self.random), psn(&mut self.random));
            let child_node = self.nodes.len();
            let child_qpn = match below {
                Tree::Rank => Qpn(weir_endpoint::roce::hca::FIRST_QPN),
                Tree::Engine(_) => Qpn(FIRST_QPN + 64),
            };
            let to_child = Path {
                send_psn: down,
                recv_psn: up,
                ..Path::new(address(node), address(child_node), child_qpn)
            };
            let to_parent =
                Path { send_psn: up, recv_psn: down, ..Path::new(address(child_node), address(node), qpn) };
            match below {
                Tree::Rank => {
                    let rank = Rank::with_timeout(*next_rank, params.mtu, to_parent, self.rank_timeout);
                    self.nodes.push(Node::Rank(Box::new(rank)));
                    self.depth.push(depth + 1);
                    places.ranks.push(child_node);
                    *next_rank += 1;
                }
                Tree::Engine(_) => {
                    let parent = Some(Parent { qpn: child_qpn, path: to_parent });
                    self.build(below, job, change, parent, depth + 1, next_rank, places);
                }
            }
            let engine = matches!(below, Tree::Engine(_));
            let ranks = below.ranks();
            let remote = Default::default();
            params.children.push(Child { qpn, path: to_child, first_rank, ranks, engine, remote });
        }
        change(&mut params);
        self.engine(node).add(params).unwrap();
        node
    }

    pub fn engine(&mut self, node: usize) -> &mut Engine {
        match &mut self.nodes[node] {
            Node::Engine(engine) => engine,
            Node::Rank(_) => panic!("node {node} is a rank"),
        }
    }

    pub fn rank(&mut self, node: usize) -> &mut Rank {
        match &mut self.nodes[node] {
            Node::Rank(rank) => rank,
            Node::Engine(_) => panic!("node {node} is an engine"),
        }
    }

    fn put(&mut self, at: Nanos, node: usize, bytes: Vec<u8>) {
        let at = self.slow.get_mut(&node).map_or(Some(at), |slow| slow.take(at));
        let Some(at) = at else { return };
        self.sequence += 1;
        self.arrivals.push(Reverse((at, self.sequence, node, bytes)));
    }

    /// Sends a frame on its way, or not.
    fn carry(&mut self, from: usize, mut bytes: Vec<u8>) {
        self.frames += 1;
        let to = usize::from(u16::from_be_bytes([bytes[4], bytes[5]]));
        let (up, ack) = (self.depth[to] < self.depth[from], bytes[42] == 0x11);
        let way = match (up, ack) {
            (true, false) => Way::Up,
            (false, true) => Way::UpAck,
            (false, false) => Way::Down,
            (true, true) => Way::DownAck,
        };
        if self.filter.as_mut().is_some_and(|filter| filter(from, to, way, &bytes)) {
            return;
        }
        let Faults { lost, repeated, corrupt, late } = self.faults;
        if self.random.ppm(lost) {
            return;
        }
        let mut at = self.now + self.delay;
        if self.random.ppm(repeated) {
            let again = at + self.random.below(50_000);
            self.put(again, to, bytes.clone());
        }
        if self.random.ppm(corrupt) {
            let bit = self.random.below(8 * bytes.len() as u64) as usize;
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
        if self.random.ppm(late) {
            at += self.random.below(50_000);
        }
        self.put(at, to, bytes);
    }

    /// Lets a node send what it has.
    fn drain(&mut self, node: usize) {
        let mut out = Vec::new();
        match &mut self.nodes[node] {
            Node::Rank(rank) => rank.run(self.now, &mut out),
            Node::Engine(engine) => {
                engine.tick(self.now);
                while let Some(transmit) = engine.transmit(self.now) {
                    let mut bytes = Vec::new();
                    transmit.write_to(&mut bytes);
                    out.push(bytes);
                }
            }
        }
        for bytes in out {
            self.carry(node, bytes);
        }
    }

    /// Until `done` says so, nothing happens any more, or this time. `true`: `done` said so.
    pub fn run_until(&mut self, end: Nanos, mut done: impl FnMut(&mut Self) -> bool) -> bool {
        for node in 0..self.nodes.len() {
            self.drain(node);
        }
        let mut steps = 0u64;
        loop {
            steps += 1;
            if steps.is_multiple_of(64) && done(self) {
                return true;
            }
            let arrival = self.arrivals.peek().map(|Reverse((at, ..))| *at);
            let timer = self.nodes.iter().enumerate().filter_map(|(n, node)| {
                let at = match node {
                    Node::Rank(rank) => rank.next_event(),
                    Node::Engine(engine) => engine.next_event(),
                };
                at.map(|at| (at, n))
            });
            let timer = timer.min();
            let next = match (arrival, timer) {
                (Some(a), Some((t, _))) => a.min(t),
                (Some(a), None) => a,
                (None, Some((t, _))) => t,
                (None, None) => return done(self),
            };
            if next > end {
                self.now = end;
                return done(self);
            }
            // Where little happens, too.
            if next > self.now + 1_000_000 && done(self) {
                return true;
            }
            self.now = self.now.max(next);
            if arrival.is_some_and(|at| at <= next) {
                let Some(Reverse((_, _, node, bytes))) = self.arrivals.pop() else { continue };
                match &mut self.nodes[node] {
                    Node::Rank(rank) => rank.receive(&bytes, self.now),
                    Node::Engine(engine) => engine.receive(&bytes, self.now),
                }
                self.drain(node);
            } else if let Some((_, node)) = timer {
                self.drain(node);
            }
        }
    }
}
