//! An engine behind rings that are made up: sums, pauses, ARP, orders, reports.

use super::*;
use crate::run::io::{Time, Transmit};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use weir_config::runtime::NOMINAL_RATE;
use weir_dataplane::frame::OwnedFrame;
use weir_dataplane::pfc::frame::PfcFrame;
use weir_dataplane::types::Mac;
use weir_endpoint::rc::psn::Psn;
use weir_endpoint::roce::frame::Frame as Roce;
use weir_endpoint::roce::qp::Path;
use weir_endpoint::roce::wire::{Bth, Extensions, Opcode, Packet, Qpn};
use weir_inc::engine::EngineParams;
use weir_inc::report::State;
use weir_inc::spec::JobSpec;

type Ring = Rc<RefCell<VecDeque<OwnedFrame>>>;

#[derive(Debug)]
struct Loop;

impl Io for Loop {
    type Frame = OwnedFrame;
    type Rx = Rx;
    type Tx = Tx;
    type Pool = Pool;
    type Clock = Never;
}

#[derive(Debug)]
struct Never;

impl Time for Never {
    fn now(&self) -> Nanos {
        0
    }
}

#[derive(Debug)]
struct Rx(Ring);

impl Receive<OwnedFrame> for Rx {
    fn receive(&mut self, burst: &mut Burst<OwnedFrame>, most: usize) -> usize {
        let mut ring = self.0.borrow_mut();
        let count = most.min(ring.len());
        burst.extend(ring.drain(..count));
        count
    }

    fn backlog(&self) -> Option<u32> {
        None
    }
}

/// A ring with so many places.
#[derive(Debug)]
struct Tx(Ring, usize);

impl Transmit<OwnedFrame> for Tx {}

impl Wire<OwnedFrame> for Tx {
    fn send(&mut self, frames: &mut Burst<OwnedFrame>) -> usize {
        let mut ring = self.0.borrow_mut();
        let count = frames.len().min(self.1.saturating_sub(ring.len()));
        ring.extend(frames.drain(..count));
        count
    }

    fn send_control(&mut self, _: &[u8]) -> bool {
        false
    }
}

/// Frames while they last.
#[derive(Debug)]
struct Pool(Rc<RefCell<usize>>);

impl Source<OwnedFrame> for Pool {
    fn empty(&self) -> Option<OwnedFrame> {
        let mut left = self.0.borrow_mut();
        *left = left.checked_sub(1)?;
        Some(OwnedFrame::new([]))
    }

    fn append(frame: &mut OwnedFrame, bytes: &[u8]) -> bool {
        *frame = OwnedFrame::new([frame.bytes(), bytes].concat());
        true
    }
}

/// An engine of one job with two ranks.
struct Bench {
    end: EngineEnd<Loop>,
    reader: PageReader,
    gone: rtrb::Consumer<Box<Job>>,
    inwards: Ring,
    outwards: Ring,
    pool: Rc<RefCell<usize>>,
    now: Nanos,
}

const ADDRESS: Address = Address {
    mac: Mac([2, 0, 0, 0, 1, 0]),
    ip: IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 200)),
    vlan: None,
};

fn host(rank: u8) -> (Mac, IpAddr) {
    (Mac([2, 0, 0, 0, 0, rank]), IpAddr::from([10, 0, 0, rank]))
}

fn job() -> Box<Job> {
    job_named(7)
}

fn job_named(id: u32) -> Box<Job> {
    let child = |rank: u8| {
        let (mac, ip) = host(rank);
        serde_json::json!({
            "rank": rank, "qpn": 256 + u32::from(rank), "mac": mac.to_string(), "ip": ip.to_string(),
            "dest_qpn": 17, "send_psn": 0, "recv_psn": 0,
        })
    };
    let spec = serde_json::json!({
        "id": id, "ranks": 2, "window": 64, "results": 64,
        "operation": { "kind": "all_reduce", "operator": "sum", "type": "i32" },
        "children": [child(0), child(1)],
    });
    let spec: JobSpec = serde_json::from_value(spec).unwrap();
    Box::new(Job::new(spec.params(&ADDRESS).unwrap(), weir_inc::kernels::Kernels::best()).unwrap())
}

/// Contribution number `n` of a rank.
fn contribution(rank: u8, n: u32, value: i32) -> OwnedFrame {
    let path = Path::new(host(rank), (ADDRESS.mac, ADDRESS.ip), Qpn(256 + u32::from(rank)));
    let bth =
        Bth { ack_req: true, ..Bth::new(Opcode::RC_SEND_ONLY, Qpn(256 + u32::from(rank)), Psn::new(n)) };
    let packet = Packet { bth, ext: Extensions::default(), payload: &value.to_le_bytes() };
    let mut bytes = Vec::new();
    Roce { outer: path.outer(path.data, 1).unwrap(), packet }.emit(&mut bytes);
    OwnedFrame::new(bytes)
}

impl Bench {
    fn new(places: usize) -> Self {
        let (inwards, outwards, pool) = (Ring::default(), Ring::default(), Rc::new(RefCell::new(1 << 20)));
        let (pages, reader) = Pages::new(4);
        let (give, gone) = rtrb::RingBuffer::new(1);
        let io = (Rx(inwards.clone()), Tx(outwards.clone(), places), Pool(pool.clone()));
        let engine = Engine::new(EngineParams { jobs: 4, ..EngineParams::default() });
        let mut end = EngineEnd::new(PortId(3), io, (engine, ADDRESS), NOMINAL_RATE, (pages, give));
        assert!(matches!(end.obey(JobOrder::Add(job()), 0), Told::Taken));
        Self { end, reader, gone, inwards, outwards, pool, now: 0 }
    }

    fn give(&self, frame: OwnedFrame) {
        self.inwards.borrow_mut().push_back(frame);
    }

    /// Turns, and what was sent in them.
    fn turns(&mut self, turns: usize) -> Vec<OwnedFrame> {
        let mut burst = Burst::new();
        for _ in 0..turns {
            self.now += 1_000;
            self.end.turn(&mut burst, self.now);
            assert!(burst.is_empty());
        }
        self.outwards.borrow_mut().drain(..).collect()
    }

    /// Sums among frames, by the address they go to.
    fn sums(frames: &[OwnedFrame]) -> Vec<(u8, i32)> {
        let sum = |frame: &OwnedFrame| {
            let parsed = Roce::parse(frame.bytes()).unwrap();
            let value = parsed.packet.payload.first_chunk().map(|bytes| i32::from_le_bytes(*bytes))?;
            Some((frame.bytes()[5], value))
        };
        frames.iter().filter_map(sum).collect()
    }
}

#[test]
fn what_the_switch_sends_is_summed_and_no_more_than_a_turn_takes_at_once() {
    let mut bench = Bench::new(1000);
    for n in 0..3 * TURN as u32 / 2 {
        bench.give(contribution(0, n, 1));
        bench.give(contribution(1, n, n as i32));
    }
    let sums = Bench::sums(&bench.turns(1));
    let expected = |n: usize| (0..n as i32).flat_map(|n| [(0, n + 1), (1, n + 1)]).collect::<Vec<_>>();
    assert_eq!(sums, expected(TURN / 2));
    assert_eq!(bench.inwards.borrow().len(), 2 * TURN);
    let rest = Bench::sums(&bench.turns(8));
    assert_eq!([sums, rest].concat(), expected(3 * TURN / 2));
}

#[test]
fn a_ring_that_is_full_and_a_pool_that_is_empty_lose_nothing() {
    for dry in [false, true] {
        let mut bench = Bench::new(if dry { 1000 } else { 3 });
        if dry {
            *bench.pool.borrow_mut() = 2;
        }
        for n in 0..8 {
            bench.give(contribution(0, n, 1));
            bench.give(contribution(1, n, 1));
        }
        let mut frames = bench.turns(3);
        assert!(frames.len() <= 3, "{}", frames.len());
        *bench.pool.borrow_mut() = 100;
        (0..20).for_each(|_| frames.extend(bench.turns(1)));
        assert_eq!(Bench::sums(&frames).len(), 16);
    }
}

#[test]
fn a_pause_of_the_switch_is_obeyed_for_its_priority_and_its_time() {
    let mut bench = Bench::new(1000);
    let pause = |priority: u8, quanta| {
        let mut pause = PfcFrame { enable: 1 << priority, ..PfcFrame::uniform(0, 0) };
        pause.time[usize::from(priority)] = quanta;
        OwnedFrame::new(pause.encode(Mac([2, 0, 0, 0, 0, 99])))
    };
    bench.give(pause(3, 1000)); // 5.12 us at 100 Gb/s.
    bench.give(contribution(0, 0, 1));
    bench.give(contribution(1, 0, 1));
    assert!(bench.turns(5).is_empty(), "taken, and nothing sent");
    assert!(bench.inwards.borrow().is_empty());
    assert_eq!(Bench::sums(&bench.turns(2)).len(), 2, "the time is over");
    bench.give(pause(4, 65535));
    bench.give(contribution(0, 1, 1));
    bench.give(contribution(1, 1, 1));
    assert_eq!(Bench::sums(&bench.turns(1)).len(), 2, "another priority");
    // At a tenth of the rate a bit lasts ten times as long.
    bench.end.keep_rate(NOMINAL_RATE / 10, bench.now);
    bench.give(pause(3, 1000));
    bench.give(contribution(0, 2, 1));
    bench.give(contribution(1, 2, 1));
    assert!(bench.turns(50).is_empty());
    assert_eq!(Bench::sums(&bench.turns(3)).len(), 2);
}

#[test]
fn who_asks_for_its_address_is_told() {
    let mut bench = Bench::new(1000);
    let ask = |ip: [u8; 4], vlan| {
        let asked = Arp {
            reply: false,
            vlan,
            sender: (host(1).0, [10, 0, 0, 1].into()),
            target: (Mac([0; 6]), ip.into()),
        };
        let mut bytes = Vec::new();
        asked.write(&mut bytes);
        OwnedFrame::new(bytes)
    };
    bench.give(ask([10, 0, 0, 200], None));
    bench.give(ask([10, 0, 0, 201], None));
    bench.give(ask([10, 0, 0, 200], Some(5)));
    let answers = bench.turns(1);
    assert_eq!(answers.len(), 1);
    let answer = Arp::read(answers[0].bytes()).unwrap();
    assert_eq!((answer.reply, answer.sender.0, answer.target.0), (true, ADDRESS.mac, host(1).0));
    assert_eq!(bench.end.engine.counters().received, 0);
}

#[test]
fn a_job_that_is_ended_tells_its_ranks_and_goes() {
    let mut bench = Bench::new(1000);
    assert!(matches!(bench.end.obey(JobOrder::Add(job()), 0), Told::Refused(_, job) if job.params().id == 7));
    assert!(matches!(bench.end.obey(JobOrder::End(8), 0), Told::Unknown));
    assert!(matches!(bench.end.obey(JobOrder::End(7), 0), Told::Taken));
    // Its name and its queue pairs are to be had once it is gone.
    for id in [7, 8] {
        let told = bench.end.obey(JobOrder::Add(job_named(id)), 0);
        assert!(matches!(told, Told::Ending(job) if job.params().id == id), "{id}");
    }
    assert_eq!(bench.turns(2).len(), 2, "a word to each");
    let state = |bench: &mut Bench| {
        bench.turns(3);
        bench.reader.next(|page| page.jobs().first().map(|job| job.state)).unwrap()
    };
    assert!(matches!(state(&mut bench), Some(State::Failing(..))));
    assert!(bench.gone.pop().is_err());
    bench.now += FAREWELL;
    bench.turns(3);
    assert_eq!(bench.gone.pop().unwrap().params().id, 7);
    state(&mut bench);
    assert_eq!(state(&mut bench), None);
    assert!(matches!(bench.end.obey(JobOrder::Add(job()), bench.now), Told::Taken), "its name is free");
}
