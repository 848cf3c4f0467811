//! The protocol, checked exhaustively on a small model: this engine, two ranks made of endpoint's connection core, and links that
//! lose one frame and repeat one, whichever and whenever. Every order of events is tried; in each, results are right and
//! in order, nothing fails, and from every state all results can still be had.

use super::Job;
use crate::immediate::{Immediate, Primitive, Status};
use crate::kernels::{ByteOrder, DataType, Flags, Fold, Kernels, Operator};
use crate::params::{Child, JobParams};
use std::collections::{HashMap, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::{IpAddr, Ipv4Addr};
use weir_dataplane::types::{Mac, Nanos};
use weir_endpoint::rc::go_back_n::{GoBackN, Limits, RNR_RETRY_FOREVER};
use weir_endpoint::rc::in_order::{InOrder, Turn};
use weir_endpoint::rc::psn::Psn;
use weir_endpoint::roce::frame::Frame;
use weir_endpoint::roce::qp::Path;
use weir_endpoint::roce::wire::{Aeth, Bth, Extensions, Opcode, Packet, Qpn, Syndrome};

const RANKS: usize = 2;
const WINDOW: u32 = 2;
/// One more than the window, so that a rank can be too far ahead, and slots are used again.
const MESSAGES: u64 = 3;
/// Time stands still but for timeouts, which come when the model lets them.
const NOW: Nanos = 0;
const TIMEOUT: Nanos = 1000;
const NEVER: Nanos = u64::MAX / 4;
/// Both directions wrap within the run.
const UP: u32 = 0xff_fffe;
const DOWN: u32 = 0xff_ffff;

fn end(n: u8) -> (Mac, IpAddr) {
    (Mac([2, 0, 0, 0, 0, n]), Ipv4Addr::new(10, 0, 0, n).into())
}

fn value(rank: usize, message: u64) -> i32 {
    (1 + rank as i32) * 100 + message as i32
}

#[derive(Clone, Debug, Hash)]
struct Rank {
    window: GoBackN,
    /// The peer said that it is not ready.
    waits: bool,
    order: InOrder,
    results: u64,
}

#[derive(Clone, Debug)]
struct Model {
    job: Job,
    ranks: [Rank; RANKS],
    /// From each rank, and to each.
    links: [VecDeque<Vec<u8>>; 2 * RANKS],
    /// Frames that may still be lost and repeated, of each kind: data and answer, up and down.
    lose: [u8; 4],
    repeat: [u8; 4],
    /// Ranks acknowledge at once, or when they like, so that acknowledgements are joined.
    at_once: bool,
}

#[derive(Clone, Copy, Debug)]
enum Action {
    Answer(usize),
    Deliver(usize),
    Lose(usize),
    Repeat(usize),
    Wait(usize),
    Timeout(usize),
    EngineTimeout,
}

fn is_answer(frame: &[u8]) -> bool {
    frame[42] == Opcode::RC_ACK.0
}

impl Model {
    fn new(lose: [u8; 4], repeat: [u8; 4], at_once: bool) -> Self {
        let sum = Fold::new(Operator::Sum, DataType::I32, ByteOrder::Big).unwrap();
        let children = (0..RANKS).map(|rank| {
            let (send_psn, recv_psn) = (Psn::new(DOWN), Psn::new(UP));
            let path = Path { send_psn, recv_psn, ..Path::new(end(9), end(rank as u8), Qpn(0x11)) };
            Child {
                qpn: Qpn(0x100 + rank as u32),
                path,
                first_rank: rank as u16,
                ranks: 1,
                engine: false,
                remote: Default::default(),
            }
        });
        let params = JobParams {
            mtu: 256,
            window: WINDOW,
            results: 4,
            ack_timeout: TIMEOUT,
            patience: NEVER,
            probe_after: NEVER,
            children: children.collect(),
            ..JobParams::new(1, RANKS as u16, Primitive::AllReduce(sum))
        };
        let limits = Limits {
            window: WINDOW + 1,
            ack_every: Limits::ack_every_of(WINDOW + 1),
            retry_cnt: Some(7),
            rnr_retry: RNR_RETRY_FOREVER,
            ack_timeout: TIMEOUT,
            doublings: 0,
        };
        let rank = Rank {
            window: GoBackN::new(limits, Psn::new(UP)),
            waits: false,
            order: InOrder::new(Psn::new(DOWN)),
            results: 0,
        };
        let job = Job::new(params, Kernels::PORTABLE).unwrap();
        let mut new =
            Self { job, ranks: [rank.clone(), rank], links: Default::default(), lose, repeat, at_once };
        new.settle();
        new
    }

    /// Everything that decides what can happen next; what is only counted is left out.
    fn key(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        let job = &self.job;
        for peer in &job.peers {
            peer.hash_state(&mut hasher);
        }
        job.collector.state().hash(&mut hasher);
        job.down.state().hash(&mut hasher);
        (job.answers, job.ready, job.turn, job.failure.is_some()).hash(&mut hasher);
        (&self.ranks, &self.links, self.lose, self.repeat).hash(&mut hasher);
        hasher.finish()
    }

    fn is_complete(&self) -> bool {
        self.ranks.iter().all(|r| r.results == MESSAGES && r.window.una() == MESSAGES)
    }

    fn kind(link: usize, frame: &[u8]) -> usize {
        usize::from(link >= RANKS) * 2 + usize::from(is_answer(frame))
    }

    fn actions(&self) -> Vec<Action> {
        let mut all = Vec::new();
        for (at, rank) in self.ranks.iter().enumerate() {
            if rank.waits {
                all.push(Action::Wait(at));
            }
            if rank.order.owes() {
                all.push(Action::Answer(at));
            }
        }
        for (link, frames) in self.links.iter().enumerate() {
            let Some(front) = frames.front() else { continue };
            all.push(Action::Deliver(link));
            let kind = Self::kind(link, front);
            if self.lose[kind] > 0 {
                all.push(Action::Lose(link));
            }
            if self.repeat[kind] > 0 {
                all.push(Action::Repeat(link));
            }
        }
        // A timeout is longer than what is under way takes.
        if all.iter().all(|a| matches!(a, Action::Wait(_))) {
            all.extend(
                (0..RANKS).filter(|&r| self.ranks[r].window.ack_deadline().is_some()).map(Action::Timeout),
            );
            if self.job.wake() <= TIMEOUT {
                all.push(Action::EngineTimeout);
            }
        }
        all
    }

    fn frame(&self, rank: usize, bth: Bth, ext: Extensions, payload: &[u8]) -> Vec<u8> {
        let path = Path::new(end(rank as u8), end(9), Qpn(0x100 + rank as u32));
        let outer = path.outer(path.data, 0).unwrap();
        let mut bytes = Vec::new();
        Frame { outer, packet: Packet { bth, ext, payload } }.emit(&mut bytes);
        bytes
    }

    fn act(&mut self, action: Action) {
        match action {
            Action::Answer(at) => self.answer(at),
            Action::Deliver(link) => {
                let bytes = self.links[link].pop_front().unwrap();
                self.deliver(link, &bytes);
            }
            Action::Lose(link) => {
                let bytes = self.links[link].pop_front().unwrap();
                self.lose[Self::kind(link, &bytes)] -= 1;
            }
            Action::Repeat(link) => {
                let bytes = self.links[link][0].clone();
                self.repeat[Self::kind(link, &bytes)] -= 1;
                self.links[link].push_back(bytes);
            }
            Action::Wait(at) => self.ranks[at].waits = false,
            Action::Timeout(at) => {
                self.ranks[at].window.handle_timeout(TIMEOUT).unwrap();
            }
            Action::EngineTimeout => self.job.tick(TIMEOUT),
        }
        assert!(self.job.failure().is_none(), "the job failed: {:?}", self.job.failure());
        self.settle();
    }

    /// Data leaves as soon as it may, and the engine's answers, too: what is under way for long or short covers what
    /// leaves late or early.
    fn settle(&mut self) {
        for at in 0..RANKS {
            while self.ranks[at].window.is_open(MESSAGES) && !self.ranks[at].waits {
                let window = &mut self.ranks[at].window;
                let (psn, message) = (window.psn(), window.next());
                window.sent(true, NOW);
                let bth =
                    Bth { ack_req: true, ..Bth::new(Opcode::RC_SEND_ONLY, Qpn(0x100 + at as u32), psn) };
                let frame = self.frame(at, bth, Extensions::default(), &value(at, message).to_be_bytes());
                self.links[at].push_back(frame);
            }
        }
        for at in 0..RANKS {
            if self.at_once && self.ranks[at].order.owes() {
                self.answer(at);
            }
        }
        let mut head = Default::default();
        while let Some(chosen) = self.job.choose(NOW, 0) {
            let mut bytes = Vec::new();
            let written = self.job.write(chosen, 0, &mut head, NOW).unwrap();
            self.job.frame(&written, &head).unwrap().write_to(&mut bytes);
            self.links[RANKS + usize::from(bytes[5])].push_back(bytes);
        }
    }

    fn answer(&mut self, at: usize) {
        let order = &mut self.ranks[at].order;
        let (psn, syndrome) = order.answer().unwrap();
        let aeth = Aeth { syndrome: syndrome.encode(), msn: order.msn() };
        let bth = Bth::new(Opcode::RC_ACK, Qpn(0x100 + at as u32), psn);
        let frame = self.frame(at, bth, Extensions { aeth: Some(aeth), ..Extensions::default() }, &[]);
        self.links[at].push_back(frame);
    }

    fn deliver(&mut self, link: usize, bytes: &[u8]) {
        let frame = Frame::parse(bytes).unwrap();
        if link < RANKS {
            let _ = self.job.receive(link, &frame, NOW);
            // It only makes timers longer.
            self.job.peers[link].refused = 0;
            return;
        }
        let rank = &mut self.ranks[link - RANKS];
        let packet = &frame.packet;
        if let Some(aeth) = packet.ext.aeth {
            let syndrome = Syndrome::decode(aeth.syndrome);
            let before = rank.window.una();
            rank.window.answer(packet.bth.psn, syndrome, NOW).unwrap();
            let refused = matches!(syndrome, Syndrome::Rnr(_)) && rank.window.next() == rank.window.una();
            rank.waits = refused || (rank.waits && rank.window.una() == before);
            return;
        }
        match rank.order.turn(packet.bth.psn) {
            Turn::Duplicate => rank.order.acknowledge(),
            Turn::Ahead(_) => {}
            Turn::Next => {
                let sum: i32 = (0..RANKS).map(|r| value(r, rank.results)).sum();
                assert_eq!(packet.payload, sum.to_be_bytes(), "result {}", rank.results);
                let status = Status { count: RANKS as u16, flags: Flags::default() };
                assert_eq!(packet.ext.imm, Some(Immediate::Status(status).encode()));
                rank.results += 1;
                rank.order.message_done();
                rank.order.taken(1, packet.bth.ack_req);
            }
        }
    }
}

/// Tries everything; returns how many states there are.
fn explore(first: Model) -> usize {
    let mut numbers = HashMap::from([(first.key(), 0)]);
    // States that lead to each state.
    let mut before: Vec<Vec<u32>> = vec![Vec::new()];
    let mut complete = Vec::new();
    let mut open = vec![(0u32, first)];
    while let Some((number, state)) = open.pop() {
        if state.is_complete() {
            complete.push(number);
        }
        let actions = state.actions();
        assert!(!actions.is_empty() || state.is_complete(), "a dead end: {state:#?}");
        for action in actions {
            let mut next = state.clone();
            next.act(action);
            let fresh = numbers.len() as u32;
            let at = *numbers.entry(next.key()).or_insert(fresh);
            if at == fresh {
                before.push(Vec::new());
                open.push((at, next));
            }
            before[at as usize].push(number);
        }
    }
    let mut can_complete = vec![false; before.len()];
    while let Some(number) = complete.pop() {
        if !std::mem::replace(&mut can_complete[number as usize], true) {
            complete.extend(&before[number as usize]);
        }
    }
    let stuck = can_complete.iter().filter(|&&can| !can).count();
    assert_eq!(stuck, 0, "states from which nothing leads to all results, of {}", before.len());
    before.len()
}

#[test]
fn every_order_without_faults_completes() {
    let states = explore(Model::new([0; 4], [0; 4], false));
    eprintln!("{states} states");
    assert!(states > 1000, "{states}");
}

fn only(kind: usize) -> [u8; 4] {
    std::array::from_fn(|k| u8::from(k == kind))
}

#[test]
fn every_order_with_one_loss_or_one_duplicate_of_each_kind_completes() {
    for kind in 0..4 {
        let states =
            [explore(Model::new(only(kind), [0; 4], true)), explore(Model::new([0; 4], only(kind), true))];
        eprintln!("kind {kind}: {states:?} states");
    }
}

#[test]
#[ignore = "takes a minute or two: cargo test -p weir-inc --lib model -- --ignored"]
fn every_order_with_one_loss_and_one_duplicate_of_each_kind_completes() {
    for kind in 0..4 {
        let states = explore(Model::new(only(kind), only(kind), false));
        eprintln!("kind {kind}: {states} states");
    }
}
