//! Stations behind one switch of the plainest kind: an output queue per station, marks, losses and pauses by
//! its depth.

use super::*;
use crate::dcqcn::scheme::{Outstanding, Scheme};
use crate::dcqcn::standard::Params;
use crate::dcqcn::trace::Cause;
use crate::roce::frame::{ECN_CE, Frame};
use crate::roce::hca::Failure;
use crate::roce::psn::Psn;
use crate::roce::qp::TrafficClass;
use crate::roce::verbs::Status;
use crate::roce::wire::Qpn;
use std::collections::{BTreeMap, VecDeque};
use std::net::Ipv4Addr;
use weir_dataplane::pfc::frame::PfcFrame;
use weir_dataplane::types::{Mac, Nanos, wire_bytes};

const RATE: u64 = 10_000_000_000;
const DELAY: Nanos = 1_000;
const SECOND: Nanos = 1_000_000_000;

fn mac(n: usize) -> Mac {
    Mac([2, 0, 0, 0, 0, n as u8])
}

fn ip(n: usize) -> Ipv4Addr {
    Ipv4Addr::new(10, 0, 0, n as u8)
}

fn station(n: usize) -> Station {
    let (mac, ip) = (mac(n), ip(n));
    Station::new(StationConfig { mac, ip, rate: RATE, obey: 8, slack: 0, settle: 0, first_qpn: 0x11 })
}

fn dcqcn() -> Rate {
    let (params, outstanding) = (Params::paper(RATE), Outstanding::adapter(300_000));
    Rate::Dcqcn(Dcqcn { scheme: Scheme::Hardware, params, outstanding })
}

/// From queue pair `qpn` of station `peer`, silent itself.
fn pair(peer: usize, qpn: u32) -> PairConfig {
    PairConfig {
        peer: Peer { ip: ip(peer), mac: None, qpn: Qpn(qpn) },
        send_psn: Psn::new(0xff_fff0),
        recv_psn: Psn::new(0xff_fff0),
        vlan: None,
        data: TrafficClass { dscp: 26, ecn: 2, priority: 3 },
        cnp: TrafficClass { dscp: 48, ecn: 0, priority: 6 },
        mtu: 1024,
        window: 256,
        ack_timeout: 1_000_000,
        retries: 7,
        cnp_interval: 50_000,
        rate: dcqcn(),
        receive_bytes: 16_384,
        expect: None,
        stream: None,
        trace: false,
    }
}

fn stream(operation: Operation, messages: u64) -> Option<Stream> {
    Some(Stream { operation, bytes: 10_000, messages: Some(messages), start: 0 })
}

#[derive(Default)]
struct Queue {
    frames: VecDeque<Vec<u8>>,
    bytes: u64,
    free_at: Nanos,
}

#[derive(Clone, Copy)]
struct Limits {
    mark: u64,
    pause: u64,
    drop: u64,
    /// Every so many frames one is lost.
    lose: u64,
}

const OPEN: Limits = Limits { mark: u64::MAX, pause: u64::MAX, drop: u64::MAX, lose: u64::MAX };

struct Net {
    stations: Vec<Station>,
    queues: Vec<Queue>,
    /// (when, number) to (to the switch, station, frame).
    wires: BTreeMap<(Nanos, u64), (bool, usize, Vec<u8>)>,
    limits: Limits,
    paused: bool,
    count: u64,
    now: Nanos,
    deepest: u64,
    dropped: u64,
}

impl Net {
    fn new(stations: Vec<Station>, limits: Limits) -> Self {
        let queues = stations.iter().map(|_| Queue::default()).collect();
        let wires = BTreeMap::new();
        Self { stations, queues, wires, limits, paused: false, count: 0, now: 0, deepest: 0, dropped: 0 }
    }

    fn put(&mut self, at: Nanos, up: bool, station: usize, frame: Vec<u8>) {
        self.count += 1;
        self.wires.insert((at, self.count), (up, station, frame));
    }

    fn switch(&mut self, from: usize, frame: &[u8]) {
        if self.count.is_multiple_of(self.limits.lose) {
            self.dropped += 1;
            return;
        }
        for to in (0..self.stations.len()).filter(|to| *to != from) {
            let queue = &mut self.queues[to];
            if frame[0] & 1 == 1 || frame.starts_with(&mac(to).0) {
                if queue.bytes + frame.len() as u64 > self.limits.drop {
                    self.dropped += 1;
                    continue;
                }
                queue.bytes += frame.len() as u64;
                queue.frames.push_back(frame.to_vec());
                self.deepest = self.deepest.max(queue.bytes);
            }
        }
        self.pause();
    }

    /// One pause for all senders, as deep as the deepest queue.
    fn pause(&mut self) {
        let deep = self.queues.iter().map(|queue| queue.bytes).max().unwrap_or(0);
        let quanta = match (self.paused, deep) {
            (false, deep) if deep > self.limits.pause => 0xffff,
            (true, deep) if deep < self.limits.pause / 2 => 0,
            _ => return,
        };
        self.paused = quanta > 0;
        let frame = PfcFrame::uniform(8, quanta).encode(mac(99)).to_vec();
        for to in 0..self.stations.len() {
            self.put(self.now + DELAY, false, to, frame.clone());
        }
    }

    /// Everything that happens now; the time of what comes next.
    fn turn(&mut self) -> Nanos {
        while let Some(entry) = self.wires.first_entry().filter(|entry| entry.key().0 <= self.now) {
            let (up, station, frame) = entry.remove();
            match up {
                true => self.switch(station, &frame),
                false => self.stations[station].handle_frame(&frame, self.now),
            }
        }
        for at in 0..self.stations.len() {
            while let Some(frame) = self.stations[at].poll_transmit(self.now) {
                let frame = frame.to_vec();
                let time = wire_bytes(frame.len() as u64) * 8 * SECOND / RATE;
                self.put(self.now + time + DELAY, true, at, frame);
            }
            if self.queues[at].free_at <= self.now
                && let Some(mut frame) = self.queues[at].frames.pop_front()
            {
                let time = wire_bytes(frame.len() as u64) * 8 * SECOND / RATE;
                self.queues[at].bytes -= frame.len() as u64;
                self.queues[at].free_at = self.now + time;
                if self.queues[at].bytes > self.limits.mark {
                    mark(&mut frame);
                }
                self.put(self.now + time + DELAY, false, at, frame);
                self.pause();
            }
        }
        let stations = self.stations.iter().filter_map(|station| station.next_event(self.now));
        let wires = self.wires.keys().next().map(|(at, _)| *at);
        let queues = self.queues.iter().filter(|queue| !queue.frames.is_empty()).map(|queue| queue.free_at);
        stations.chain(wires).chain(queues).min().unwrap_or(Nanos::MAX).max(self.now + 1)
    }

    /// Until all is done, or the time is up.
    fn run(&mut self, until: Nanos) -> bool {
        while self.now < until {
            let next = self.turn();
            if self.stations.iter().all(Station::is_done) {
                return true;
            }
            self.now = next;
        }
        false
    }

    fn progress(&self, station: usize) -> Vec<Progress> {
        self.stations[station].pairs().map(|pair| pair.progress).collect()
    }
}

/// Marks an ECT frame CE and mends the header checksum, as a switch does.
fn mark(frame: &mut [u8]) {
    let Ok(parsed) = Frame::parse(frame).map(|frame| (frame.outer, frame.packet)) else { return };
    let (mut outer, packet) = parsed;
    if outer.ip.ecn == 2 {
        outer.ip.ecn = ECN_CE;
        let mut out = Vec::new();
        Frame { outer, packet }.emit(&mut out);
        frame.copy_from_slice(&out);
    }
}

/// Station 0 sends to station 1, who expects it all.
fn two(operation: Operation, messages: u64, limits: Limits) -> Net {
    let (mut a, mut b) = (station(0), station(1));
    a.add(PairConfig { stream: stream(operation, messages), ..pair(1, 0x11) }).unwrap();
    b.add(PairConfig { expect: Some(messages), ..pair(0, 0x11) }).unwrap();
    Net::new(vec![a, b], limits)
}

#[test]
fn sends_and_writes_arrive_checked_and_at_line_rate() {
    for operation in [Operation::Send, Operation::Write(Remote::of_pair(0))] {
        let mut net = two(operation, 1003, OPEN);
        assert!(net.run(SECOND), "{operation:?}");
        let (out, into) = (net.progress(0)[0], net.progress(1)[0]);
        assert_eq!((out.posted, out.acknowledged, into.received), (1003, 1003, 1003));
        assert_eq!((into.received_bytes, into.out_of_order, into.corrupted), (10_030_000, 0, 0));
        assert_eq!(out.data_frames, 10_030, "nothing was sent twice");
        // 10 000 bytes in ten frames with headers: 8.5 us each at 10 Gb/s.
        assert!((8_500_000..9_000_000).contains(&out.last_ack), "{}", out.last_ack);
        assert_eq!(net.stations[1].report(net.now).rx_arp, 2, "a question and an answer");
    }
}

#[test]
fn losses_cost_time_but_no_message() {
    for operation in [Operation::Send, Operation::Write(Remote::of_pair(0))] {
        let mut net = two(operation, 500, Limits { lose: 97, ..OPEN });
        assert!(net.run(SECOND), "{operation:?}");
        let into = net.progress(1)[0];
        assert_eq!((into.received, into.out_of_order, into.corrupted), (500, 0, 0));
        assert!(net.dropped > 50 && net.stations[0].report(0).hca.tx_retransmitted > 0);
    }
}

/// `senders` stations send to station 0, each at line rate at first.
fn incast(senders: usize, rate: Rate, limits: Limits) -> Net {
    let mut receiver = station(0);
    let mut stations = Vec::new();
    for n in 1..=senders {
        receiver.add(PairConfig { rate, ..pair(n, 0x11) }).unwrap();
        let mut sender = station(n);
        let endless = Stream { operation: Operation::Send, bytes: 16_384, messages: None, start: 0 };
        let qpn = 0x10 + n as u32;
        sender.add(PairConfig { rate, stream: Some(endless), trace: true, ..pair(0, qpn) }).unwrap();
        stations.push(sender);
    }
    stations.insert(0, receiver);
    Net::new(stations, limits)
}

#[test]
fn dcqcn_shares_the_link_and_leaves_a_record() {
    let mut net = incast(2, dcqcn(), Limits { mark: 20_000, ..OPEN });
    net.run(60_000_000);
    let half: Vec<u64> = net.progress(0).iter().map(|p| p.received_bytes).collect();
    net.deepest = 0;
    net.run(120_000_000);
    let shares: Vec<u64> =
        net.progress(0).iter().zip(half).map(|(p, half)| p.received_bytes - half).collect();
    // Of 60 ms at 10 Gb/s, headers apart.
    let all: u64 = shares.iter().sum();
    assert!(all > 60_000_000 && all < 75_000_000, "{shares:?}");
    assert!(shares.iter().all(|share| *share > all / 3), "{shares:?}");
    assert!(net.deepest < 150_000, "{}", net.deepest);
    for sender in &net.stations[1..] {
        let pair = sender.pairs().next().unwrap();
        assert!(pair.progress.cnps > 0 && pair.progress.lowest_rate < RATE / 2);
        let (_, trace) = sender.traces().next().unwrap();
        assert!(trace.is_full());
        assert_eq!((trace.entries()[0].cause, trace.initial().current), (Cause::Decrease, RATE));
    }
    let receiver = net.stations[0].report(net.now).hca;
    assert!(receiver.rx_ce > receiver.tx_cnp, "several marks are one CNP (DEV-41)");
}

#[test]
fn pauses_hold_back_their_priority_and_nothing_is_lost() {
    let limits = Limits { pause: 100_000, drop: 400_000, ..OPEN };
    let mut net = incast(3, Rate::Fixed(RATE), limits);
    net.run(20_000_000);
    assert_eq!(net.dropped, 0);
    for n in 1..4 {
        let report = net.stations[n].report(net.now);
        assert!(report.paused_ns[3] > 0 && report.pauses[3] > 0, "{report:?}");
        assert_eq!(report.hca.tx_retransmitted, 0);
    }
    let all: u64 = net.progress(0).iter().map(|p| p.received_bytes).sum();
    assert!(all > 20_000_000, "{all}");
    // Deaf stations lose, and still deliver in order what they deliver.
    let mut net = incast(3, Rate::Fixed(RATE), limits);
    for station in &mut net.stations {
        *station = {
            let config = StationConfig { obey: 0, ..station.config() };
            let mut deaf = Station::new(config);
            station.configs().for_each(|pair| {
                deaf.add(PairConfig { retries: 255, ..pair }).unwrap();
            });
            deaf
        };
    }
    net.run(20_000_000);
    assert!(net.dropped > 0);
    assert!(net.progress(0).iter().all(|p| p.received > 0 && p.out_of_order + p.corrupted == 0));
}

#[test]
fn a_stop_in_the_middle_of_a_batch_leaves_nothing_unseen() {
    for extra in 0..10 {
        let (mut a, mut b) = (station(0), station(1));
        let operation = Operation::Write(Remote::of_pair(0));
        let endless = Stream { operation, bytes: 16_384, messages: None, start: 5_000 };
        a.add(PairConfig { stream: Some(endless), ..pair(1, 0x11) }).unwrap();
        b.add(pair(0, 0x11)).unwrap();
        let mut net = Net::new(vec![a, b], OPEN);
        assert!(!net.run(500_000 + extra * 14_000), "it goes on until told");
        net.stations[0].stop();
        assert!(net.run(SECOND));
        let (sent, got) = (net.progress(0)[0].posted, net.progress(1)[0].received);
        assert!(sent > 30 && sent == got, "{sent} {got}");
    }
}

#[test]
fn a_peer_that_is_not_there_is_asked_for_and_one_that_is_gone_ends_the_connection() {
    let mut a = station(0);
    a.add(PairConfig { stream: stream(Operation::Send, 5), ..pair(1, 0x11) }).unwrap();
    let mut net = Net::new(vec![a], OPEN);
    assert!(!net.run(SECOND));
    let report = net.stations[0].report(net.now);
    assert_eq!((report.tx_frames, report.hca.tx_data), (10, 0), "ten questions in a second, no data");
    assert!(!net.stations[0].pairs().next().unwrap().connected);
    // Known beforehand, so not asked for, but not there either.
    let mut a = station(0);
    let peer = Peer { mac: Some(mac(1)), ..pair(1, 0x11).peer };
    a.add(PairConfig { peer, stream: stream(Operation::Send, 5), ..pair(1, 0x11) }).unwrap();
    let mut net = Net::new(vec![a], OPEN);
    assert!(net.run(SECOND), "a failed connection is done");
    let failure = net.stations[0].pairs().next().unwrap().failure;
    assert_eq!(failure, Some(Failure::Request(Status::RetryExceeded)));
}

#[test]
fn a_peer_that_has_just_answered_is_left_in_peace_for_a_while() {
    let config = StationConfig { settle: 10_000_000, ..station(0).config() };
    let (mut a, mut b) = (Station::new(config), station(1));
    a.add(PairConfig { stream: stream(Operation::Send, 5), ..pair(1, 0x11) }).unwrap();
    b.add(PairConfig { expect: Some(5), ..pair(0, 0x11) }).unwrap();
    let mut net = Net::new(vec![a, b], OPEN);
    assert!(net.run(SECOND));
    let first = net.progress(0)[0].first_post.unwrap();
    assert!((10_000_000..10_010_000).contains(&first), "{first}");
}

#[test]
fn wrong_content_is_seen() {
    // The peer takes us for queue pair 0x12, so its content is that of another connection.
    let (mut a, mut b) = (station(0), station(1));
    a.add(pair(1, 0x99)).unwrap();
    a.add(PairConfig { stream: stream(Operation::Send, 20), ..pair(1, 0x11) }).unwrap();
    b.add(pair(0, 0x11)).unwrap();
    let mut net = Net::new(vec![a, b], OPEN);
    net.run(50_000_000);
    let into = net.progress(1)[0];
    // As many as fit: the answers go astray too.
    assert_eq!((into.received, into.corrupted), (0, SLOTS));
}

#[test]
fn what_does_not_fit_is_refused() {
    let mut a = station(0);
    assert!(matches!(a.add(PairConfig { mtu: 1000, ..pair(1, 1) }), Err(StationError::Qp(_))));
    assert_eq!(a.add(PairConfig { receive_bytes: 8, ..pair(1, 1) }), Err(StationError::Message(8)));
    let none = Stream { bytes: 0, ..stream(Operation::Send, 1).unwrap() };
    assert_eq!(a.add(PairConfig { stream: Some(none), ..pair(1, 1) }), Err(StationError::Message(0)));
    let Rate::Dcqcn(mut slow) = dcqcn() else { unreachable!() };
    slow.params.additive = 0;
    assert!(matches!(
        a.add(PairConfig { rate: Rate::Dcqcn(slow), ..pair(1, 1) }),
        Err(StationError::Rate(_))
    ));
}

#[test]
fn memory_of_a_pair_is_where_its_peer_believes() {
    let mut a = station(0);
    for nth in 0..40 {
        // `add` checks the key it was given against `Remote::of_pair`.
        assert_eq!(a.add(PairConfig { receive_bytes: 16, ..pair(1, 1) }), Ok(Qpn(0x11 + nth)));
    }
    assert_ne!(Remote::of_pair(3), Remote::of_pair(4));
}
