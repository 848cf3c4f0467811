//! Several shards at random: every frame is accounted for, in order, and everything lent comes back.

use super::*;
use crate::ecn::{MarkAt, Wred, q32_from_millionths};
use crate::egress::BATCH_MAX;
use crate::pfc::frame::PfcFrame;
use crate::rng::Rng;
use crate::types::BURST;
use std::collections::HashMap;

const PORTS: usize = 6;
/// Where copies go, of those switches that have mirrors.
const MONITOR: usize = 5;

/// What crosses, or could not, in one run.
#[derive(Default)]
struct Seen {
    granted: usize,
    marked: u64,
    /// Frames that left with CE, and those that came in so.
    left_ce: u64,
    came_ce: u64,
    lost: u64,
    flooded: u64,
    mirrored: u64,
}

struct Fabric {
    shards: Vec<Switch<OwnedFrame>>,
    /// How many frames each wire takes at once.
    room: [usize; PORTS],
    up: [bool; PORTS],
    /// Number of the next frame of each (from, to, priority), and of the next one to leave by each port: what waits for a
    /// port whose link is lost is flooded.
    next: HashMap<(u8, u8, u8), u32>,
    left: HashMap<((u8, u8, u8), usize), u32>,
    now: Nanos,
    mirrors: bool,
    seen: Seen,
    /// Buffers each shard has.
    stock: usize,
}

impl Fabric {
    fn new(shards: usize, tx_per_lcore: bool, rng: &mut Rng) -> Self {
        let mut params = params(PORTS);
        params.voq = if rng.next_u32().is_multiple_of(2) { VoqOrder::Fair } else { VoqOrder::Fifo };
        params.frames = [40, 400, 4000][rng.next_u32() as usize % 3];
        params.mmu = MmuParams::lossy(PORTS, 1 << 17);
        let wred = Wred { kmin: 2000, kmax: 40_000, pmax: q32_from_millionths(200_000), at: MarkAt::Dequeue };
        for (i, port) in params.ports.iter_mut().enumerate() {
            (port.shard, port.tx_per_lcore) = ((i % shards) as u8, tx_per_lcore);
            port.rate = (i < 2).then_some(1_000_000_000);
            port.mark[3] = Some(wred);
            port.mark[4] = Some(Wred { at: MarkAt::Enqueue, ..wred });
            for queue in [1, 2, 3] {
                port.queues[queue] = QueueSchedule {
                    level: 0,
                    discipline: Discipline::Dwrr(1 + 10 * queue as u8),
                    ..QueueSchedule::STRICT
                };
            }
        }
        let mirrors = rng.next_u32().is_multiple_of(2);
        if mirrors {
            let set = |ports: &[u16]| ports.iter().copied().map(PortId).collect();
            let filter = Filter::default();
            let to = |queue| MirrorTo::Port { port: PortId(MONITOR as u16), queue };
            let one = MirrorParams { rx: set(&[0, 1, 2]), tx: set(&[1, 3]), filter, to: to(1) };
            let file = MirrorTo::Reader { number: 1, bytes: 64 };
            params.mirrors = vec![
                one,
                MirrorParams { rx: set(&[]), tx: set(&[0, 4]), to: to(2), ..one },
                // Of frames of this lcore and of others, with somebody who reads or nobody.
                MirrorParams { rx: set(&[3]), tx: set(&[0, 2]), to: file, ..one },
            ];
            params.mmu.mirror = 30_000;
        }
        let stock = super::super::handoff::stock::<OwnedFrame>(params.frames).len();
        let shards = Switch::<OwnedFrame>::sharded(&params, shards).unwrap();
        let (room, up) = ([BURST; PORTS], [true; PORTS]);
        let mut fabric = Self {
            shards,
            room,
            up,
            next: HashMap::new(),
            left: HashMap::new(),
            now: 0,
            mirrors,
            seen: Seen::default(),
            stock,
        };
        for port in 0..PORTS {
            let shard = port % fabric.shards.len();
            receive(&mut fabric.shards[shard], port as u16, [frame(port as u64, 0xee, 0, 64)], 0);
        }
        fabric.turns(100);
        fabric
    }

    fn owner(&mut self, port: usize) -> &mut Switch<OwnedFrame> {
        let shards = self.shards.len();
        &mut self.shards[port % shards]
    }

    fn arrive(&mut self, port: usize, rng: &mut Rng) {
        let count = rng.next_u32() as usize % [8, BURST][rng.next_u32() as usize % 2];
        let (mixed, group) = (rng.next_u32().is_multiple_of(2), rng.next_u32().is_multiple_of(8));
        let mut burst = Vec::new();
        for _ in 0..count {
            let to = (port + 1 + rng.next_u32() as usize % 3) % PORTS;
            let to = if group { 0xee } else { to as u64 };
            let priority = (rng.next_u32() % 5) as u8;
            let len = if mixed { 64 + rng.next_u32() as usize % 1400 } else { 64 };
            let next = self.next.entry((port as u8, to as u8, priority)).or_default();
            let mut one = frame(port as u64, to, priority << 3, len);
            // One in four is IPv6, and one in four came in as CE, among the others.
            if rng.next_u32().is_multiple_of(4) {
                one = with_ecn(&one, 3);
            }
            if rng.next_u32().is_multiple_of(4) {
                one = with_ipv6(&one);
            }
            let mut bytes = one.bytes().to_vec();
            bytes[len - 8..len - 4].copy_from_slice(&next.to_be_bytes());
            *next += 1;
            burst.push(OwnedFrame::new(bytes));
        }
        self.seen.flooded += u64::from(group && count > 0);
        let now = self.now;
        receive(self.owner(port), port as u16, burst, now);
    }

    /// One turn of one lcore.
    fn turn(&mut self, shard: usize) {
        for port in 0..PORTS {
            let mut wire = Tap { room: self.room[port], ..Tap::default() };
            if port % self.shards.len() == shard {
                self.shards[shard].transmit(PortId(port as u16), BURST, self.now, &mut wire);
            } else {
                let sent =
                    self.shards[shard].transmit_granted(PortId(port as u16), BURST, self.now, &mut wire);
                self.seen.granted += sent;
            }
            wire.frames.iter().for_each(|frame| self.left(frame, port));
        }
        self.shards[shard].tick(self.now);
    }

    /// A frame has left: behind all that left before it of the same flow, and of its header nothing but ECN has changed.
    fn left(&mut self, frame: &[u8], port: usize) {
        let class = class_of(frame);
        self.seen.left_ce += u64::from(class & 3 == 3);
        let flow = (frame[11], frame[5], class >> 5);
        let number = u32::from_be_bytes(frame[frame.len() - 8..frame.len() - 4].try_into().unwrap());
        if flow.1 == 0xee || self.mirrors && port == MONITOR {
            // Copies of one frame leave by several ports, and those of mirrors beside it.
            return;
        }
        let (sent, left) = (&self.next[&flow], self.left.entry((flow, port)).or_default());
        assert!(number >= *left && number < *sent, "{flow:?}: {number}, of {sent}, behind {left}");
        *left = number + 1;
    }

    fn turns(&mut self, count: usize) {
        for _ in 0..count {
            self.now += 50_000;
            (0..self.shards.len()).for_each(|shard| self.turn(shard));
        }
    }

    /// What is between shards arrives.
    fn complete(&mut self) {
        let now = self.now;
        while self.shards.iter().any(Switch::expects_more) {
            self.shards.iter_mut().for_each(|shard| shard.tick(now));
        }
        // What was released for another shard is seen in its next turn.
        self.shards.iter_mut().for_each(|shard| shard.tick(now));
    }

    fn set_link(&mut self, port: usize) {
        self.up[port] = !self.up[port];
        let (up, now) = (self.up[port], self.now);
        self.owner(port).set_link(PortId(port as u16), up, now);
    }

    fn pause(&mut self, port: usize, rng: &mut Rng) {
        let time = std::array::from_fn(|_| (rng.next_u32() % 0x8000) as u16);
        let pfc = PfcFrame { enable: rng.next_u32() as u8, time }.encode(host(port as u64));
        let now = self.now;
        receive(self.owner(port), port as u16, [OwnedFrame::new(pfc)], now);
    }

    fn books(&self) -> Conservation {
        let mut books = Conservation::default();
        self.shards.iter().for_each(|shard| books.add(&shard.conservation()));
        books
    }

    /// Nothing is held by anybody, and all that was lent is back.
    fn assert_empty(&mut self) {
        assert!(self.shards.iter().all(|shard| !shard.expects_more()));
        let books = self.books();
        assert_eq!((books.error(), books.held), (0, 0), "{books:?}");
        for shard in &self.shards {
            let (held, queued) = (shard.admission().held_bytes(), shard.admission().queued_bytes());
            assert_eq!((held, queued), (0, 0));
            assert_eq!(shard.buffers.len(), self.stock, "buffers went astray");
            assert!(shard.ports.own().all(|port| port.in_flight == 0));
            let idle = |port| shard.ports.remote(port).is_none_or(|port| port.grants.is_empty());
            assert!(shard.ports.ids().all(idle));
            assert!(shard.copies.are_free());
            let mut own = LoopStats::default();
            shard.fill_loop_stats(&mut own);
            assert_eq!(own.conservation_error(), 0);
        }
        let stats = |f: &dyn Fn(&PortStats) -> u64| -> u64 {
            self.shards.iter().flat_map(|shard| shard.ports.own()).map(|port| f(&port.stats)).sum()
        };
        self.seen.marked = stats(&|stats| stats.ecn_marked.iter().sum());
        self.seen.came_ce = stats(&|stats| stats.ecn_seen_ce.iter().sum());
        if !self.mirrors {
            // They are counted as they are taken off their queue, and may be lost behind it.
            let (counted, left) = (self.seen.marked + self.seen.came_ce, self.seen.left_ce);
            assert!((left..=left + books.dropped).contains(&counted), "{counted} {left} {books:?}");
        }
        self.seen.lost = books.dropped;
        self.seen.mirrored = stats(&|stats| stats.mirrored);
        assert!(self.mirrors || self.seen.mirrored == 0);
        let sent = stats(&|stats| stats.tx_packets);
        assert_eq!(stats(&|stats| stats.queue_packets.iter().sum()), sent);
        let latency: u64 = self
            .shards
            .iter()
            .flat_map(|s| s.ports.own())
            .filter_map(|p| p.latency.as_ref())
            .flat_map(|latency| &latency.residence)
            .map(|h| h.count())
            .sum();
        assert_eq!(latency, sent, "each frame that left has a latency");
    }
}

fn at_random(shards: usize, tx_per_lcore: bool, seed: u64) -> Seen {
    let rng = &mut Rng::new(seed);
    let mut fabric = Fabric::new(shards, tx_per_lcore, rng);
    for _ in 0..600 {
        fabric.now += u64::from(rng.next_u32() % 20_000);
        let (port, shard) = (rng.next_u32() as usize % PORTS, rng.next_u32() as usize % shards);
        match rng.next_u32() % 24 {
            0 => fabric.set_link(port),
            1 => fabric.room[port] = [0, 1, 7, BURST][rng.next_u32() as usize % 4],
            2 => fabric.pause(port, rng),
            3..=6 => fabric.arrive(port, rng),
            _ => fabric.turn(shard),
        }
    }
    if seed.is_multiple_of(2) {
        // What cannot leave is lost by name.
        fabric.complete();
        fabric.shards.iter_mut().for_each(Switch::abandon);
        fabric.complete();
    } else {
        // Everything leaves when it may.
        fabric.room = [BURST; PORTS];
        (0..PORTS).for_each(|port| {
            if !fabric.up[port] {
                fabric.set_link(port);
            }
        });
        fabric.turns(2000);
    }
    fabric.assert_empty();
    fabric.seen
}

#[test]
fn whatever_happens_between_shards_nothing_is_lost_count_of() {
    for tx_per_lcore in [false, true] {
        let mut all = Seen::default();
        for seed in 0..60 {
            let seen = at_random(2 + seed as usize % 2, tx_per_lcore, seed);
            all.granted += seen.granted;
            all.marked += seen.marked;
            all.came_ce += seen.came_ce;
            all.lost += seen.lost;
            all.flooded += seen.flooded;
            all.mirrored += seen.mirrored;
        }
        assert_eq!(all.granted > 1000, tx_per_lcore, "{} granted", all.granted);
        let Seen { granted, marked, lost, flooded, mirrored, came_ce, .. } = all;
        assert!(mirrored > 10_000, "{mirrored}");
        assert!(marked > 100 && lost > 1000 && flooded > 10, "{marked} {lost} {flooded} {granted}");
        assert!(came_ce > 10_000, "{came_ce}");
    }
}

/// All that `s` may send now of what was granted for a port, and how much that was.
fn transmit_granted(s: &mut Switch<OwnedFrame>, out: u16, now: Nanos, wire: &mut Tap) -> usize {
    std::iter::from_fn(|| Some(s.transmit_granted(PortId(out), BURST, now, wire)).filter(|n| *n > 0)).sum()
}

/// Two shards, each with a transmit queue of port 1, whose owner, the second, has scheduled 70 frames of the first.
fn seventy_on_order() -> [Switch<OwnedFrame>; 2] {
    let mut p = params(2);
    p.ports[1].tx_per_lcore = true;
    let [mut a, mut b] = two_shards(p);
    receive(&mut a, 0, (0..70).map(|_| frame(1, 2, 24, 64)), 10);
    b.tick(20);
    assert_eq!(transmit(&mut b, 1, 30).frames.len(), 0, "a is to send them");
    [a, b]
}

#[test]
fn a_group_of_frames_crosses_in_its_boxes_and_no_owner_looks_at_it() {
    let [a, b] = &mut seventy_on_order();
    assert_eq!((b.held(), b.stats(PortId(1)).tx_packets), (70, 0), "not sent is not counted as sent");
    a.tick(40);
    assert!(a.has_grants(PortId(1)));
    // The wire takes nothing, then some, then some more.
    assert_eq!(a.transmit_granted(PortId(1), BURST, 50, &mut Tap::default()), 0);
    let mut wire = Tap { room: 40, ..Tap::default() };
    assert_eq!((transmit_granted(a, 1, 50, &mut wire), wire.frames.len()), (70, 70));
    assert!(!a.has_grants(PortId(1)));
    assert_eq!(
        a.admission().held_bytes(),
        0,
        "the group is released where it was charged, when they have left"
    );
    assert_eq!((b.admission().queued_bytes(), b.held()), (70 * 64, 70));
    b.tick(60);
    assert_eq!((b.admission().queued_bytes(), b.held(), b.stats(PortId(1)).tx_packets), (0, 0, 70));
    assert_eq!(b.latency(PortId(1)).residence[3].count(), 70);
    assert_eq!(
        b.latency(PortId(1)).residence[3].0[crate::stats::bucket_of(40)],
        70,
        "until the wire took them"
    );
}

/// Frames with other ECN fields, and with those elsewhere, share batches; each is counted, and marked, as what it is.
#[test]
fn frames_of_one_queue_share_batches_whatever_their_ecn_fields() {
    let kmin_of =
        |bytes| Wred { kmin: bytes, kmax: bytes, pmax: q32_from_millionths(1_000_000), at: MarkAt::Dequeue };
    for (tx_per_lcore, weight, kmin) in
        [(true, None, 100), (false, Some(1), 100), (true, Some(1), 1 << 20), (false, None, 1 << 20)]
    {
        let mut p = params(2);
        (p.ports[1].tx_per_lcore, p.ports[1].mark[3]) = (tx_per_lcore, Some(kmin_of(kmin)));
        if let Some(weight) = weight {
            p.ports[1].queues[3] =
                QueueSchedule { level: 0, discipline: Discipline::Dwrr(weight), ..QueueSchedule::STRICT };
            p.ports[1].queues[2] = p.ports[1].queues[3];
        }
        let mut alone = p.clone();
        alone.stations = vec![(Profile::standard().key(host(2).to_u64(), 0), PortId(1))];
        let mut one = Switch::<OwnedFrame>::new(alone).unwrap();
        let [a, b] = &mut two_shards(p);
        let (mut rng, mut left) = (Rng::new(5), [Vec::new(), Vec::new()]);
        for now in 0..200 {
            let count = if now < 50 { 90 } else { 0 };
            let kinds: Vec<OwnedFrame> = (0..count).map(|n| of_some_kind(&mut rng, n)).collect();
            receive(a, 0, kinds.clone(), now);
            receive(&mut one, 0, kinds, now);
            b.tick(now);
            let mut wire = [0, 1].map(|_| Tap { room: 37, ..Tap::default() });
            while b.transmit(PortId(1), 50, now, &mut wire[0]) > 0 {}
            a.tick(now);
            transmit_granted(a, 1, now, &mut wire[0]);
            while one.transmit(PortId(1), 50, now, &mut wire[1]) > 0 {}
            b.tick(now);
            left.iter_mut().zip(wire).for_each(|(left, wire)| left.extend(wire.frames));
        }
        for (left, stats) in left.iter().zip([b.stats(PortId(1)), one.stats(PortId(1))]) {
            let ce = left.iter().filter(|frame| class_of(frame) & 3 == 3).count() as u64;
            let sum = |counts: [u64; PRIORITIES]| counts.iter().sum::<u64>();
            assert_eq!(left.len(), 50 * 90);
            assert_eq!(sum(stats.ecn_seen_ce) + sum(stats.ecn_marked), ce);
            assert_eq!(sum(stats.ecn_marked) > 100, kmin == 100);
            assert!(sum(stats.ecn_seen_ce) > 500);
        }
        assert_conserved(&one);
    }
}

/// IPv4, IPv6 or ARP of two classes, some of them CE or not ECT.
fn of_some_kind(rng: &mut Rng, n: usize) -> OwnedFrame {
    let one = frame(1, 2, [24, 16][rng.next_u32() as usize % 2], 64 + n);
    match rng.next_u32() % 6 {
        0 => with_ipv6(&with_ecn(&one, 3)),
        1 => with_ipv6(&one),
        2 => with_ecn(&one, 0),
        3 => with_ecn(&one, 3),
        4 => {
            let mut arp = one.bytes().to_vec();
            arp[12..16].copy_from_slice(&[8, 6, 0, 0]);
            OwnedFrame::new(arp)
        }
        _ => one,
    }
}

fn with_ecn(frame: &OwnedFrame, ecn: u8) -> OwnedFrame {
    let mut bytes = frame.bytes().to_vec();
    bytes[15] = bytes[15] & !3 | ecn;
    OwnedFrame::new(bytes)
}

/// The same class in an IPv6 header.
fn with_ipv6(frame: &OwnedFrame) -> OwnedFrame {
    let (mut bytes, class) = (frame.bytes().to_vec(), frame.bytes()[15]);
    bytes[12..21].copy_from_slice(&[0x86, 0xdd, 6 << 4 | class >> 4, class << 4, 0, 0, 0, 0, 59]);
    bytes[18..20].copy_from_slice(&(frame.bytes().len() as u16 - 54).to_be_bytes());
    OwnedFrame::new(bytes)
}

/// The octet with DSCP and ECN, 0 for other than IP. Nothing else of the header has changed.
fn class_of(frame: &[u8]) -> u8 {
    let class = match (frame[12], frame[13]) {
        (8, 0) => frame[15],
        (0x86, 0xdd) => frame[14] << 4 | frame[15] >> 4,
        _ => 0,
    };
    assert!(class & 0x1c == 0 && (frame[12] == 8 || frame[15] & 15 == 0), "{:x?}", &frame[..20]);
    class
}

#[test]
fn no_more_than_was_agreed_is_with_other_lcores() {
    let mut p = params(2);
    p.ports[1].tx_per_lcore = true;
    p.frames = 4096;
    let [a, b] = &mut two_shards(p);
    for n in 0..12 {
        receive(a, 0, (0..BURST).map(|_| frame(1, 2, 24, 64)), n);
        b.tick(n);
        transmit(b, 1, n);
    }
    let most = super::super::handoff::IN_FLIGHT_MAX;
    assert_eq!((b.ports[1].in_flight, b.queue_frames(PortId(1), 3)), (most, 12 * BURST as u32 - most as u32));
    a.tick(20);
    let mut wire = Tap { room: BURST, ..Tap::default() };
    assert_eq!(transmit_granted(a, 1, 20, &mut wire), most);
    b.tick(21);
    transmit(b, 1, 21);
    assert_eq!(b.ports[1].in_flight, BURST, "a burst in one call");
    (22..25).for_each(|n| drop(transmit(b, 1, n)));
    assert_eq!(b.ports[1].in_flight, most);
}

#[test]
fn what_was_ordered_is_dropped_by_name_when_the_port_goes_down() {
    let [a, b] = &mut seventy_on_order();
    receive(a, 0, (0..30).map(|_| frame(1, 2, 24, 64)), 35);
    b.tick(40);
    // 70 are with a, 30 still wait here.
    b.set_link(PortId(1), false, 50);
    assert_eq!((b.stats(PortId(1)).drops.total(), b.held()), (30, 70));
    b.tick(55);
    a.tick(60);
    assert!(!a.has_grants(PortId(1)));
    b.tick(70);
    assert_eq!(b.stats(PortId(1)).drops.0[DropReason::EgressPortDown as usize], 100);
    assert_eq!((b.held(), b.stats(PortId(1)).tx_packets, b.stats(PortId(1)).queue_drops[3]), (0, 0, 100));
    assert_eq!((a.admission().held_bytes(), b.admission().queued_bytes()), (0, 0));
}

/// What `b` has said to `a`, by one of the rings between them, and `a` not heard.
fn on_its_way(a: &Switch<OwnedFrame>, b: &Switch<OwnedFrame>, ring: fn(&Peer<OwnedFrame>) -> usize) -> usize {
    [&b.peers[0], &a.peers[1]].into_iter().flatten().map(ring).sum()
}

/// [`four_priorities`] in the order in which weighted queues served them to a wire, and how many grants that took.
fn served(lens: [usize; 4], tx_per_lcore: bool) -> (Vec<Vec<u8>>, usize) {
    let mut p = params(2);
    p.ports[1].tx_per_lcore = tx_per_lcore;
    p.ports[1].queues = std::array::from_fn(weighted);
    let [a, b] = &mut two_shards(p);
    receive(a, 0, four_priorities(lens), 10);
    b.tick(20);
    let mut wire = transmit(b, 1, 30);
    let grants = on_its_way(a, b, |peer| peer.grants.len());
    a.tick(40);
    transmit_granted(a, 1, 50, &mut wire);
    b.tick(60);
    a.tick(70);
    assert_eq!((a.held() + b.held(), a.admission().held_bytes(), b.admission().queued_bytes()), (0, 0, 0));
    assert_eq!(b.stats(PortId(1)).tx_packets, 256);
    (wire.frames, grants)
}

#[test]
fn what_another_lcore_sends_leaves_as_it_would_have_here_and_turns_are_ordered_at_once() {
    for (lens, most) in [([64; 4], 60), ([100, 300, 64, 200], 120), ([64, 0, 1500, 64], 200)] {
        let (here, none) = served(lens, false);
        let (there, grants) = served(lens, true);
        assert_eq!((here.len(), none), (BURST, 0));
        assert!(here == there, "{lens:?}");
        assert!(grants > 4 && grants < most, "{lens:?}: {grants} grants");
    }
}

#[test]
fn more_loose_frames_than_a_ring_holds_come_after_one_another() {
    let mut p = params(4);
    p.frames = 1 << 13;
    for (n, port) in p.ports.iter_mut().enumerate() {
        (port.shard, port.tx_per_lcore) = (u8::from(n > 0), true);
        // A turn is a frame.
        for queue in [1, 2] {
            port.queues[queue] =
                QueueSchedule { level: 0, discipline: Discipline::Dwrr(1), ..QueueSchedule::STRICT };
        }
    }
    let [mut a, mut b]: [_; 2] = Switch::<OwnedFrame>::sharded(&p, 2).unwrap().try_into().unwrap();
    for port in 1..4 {
        receive(&mut b, port, [frame(u64::from(port), 9, 0, 64)], 0);
    }
    for _ in 0..2 {
        a.tick(0);
        b.tick(0);
    }
    // What they said first was flooded to the port of the other shard, too.
    let mut wire = Tap { room: BURST, ..Tap::default() };
    transmit(&mut a, 0, 0);
    for out in 1..4 {
        transmit(&mut b, out, 0);
    }
    b.tick(0);
    transmit_granted(&mut b, 0, 0, &mut wire);
    a.tick(0);
    for n in 1..=12 {
        let to = |n: usize| (1 + n % 3) as u64;
        receive(&mut a, 0, (0..BURST).map(|n| frame(8, to(n), (n % 2 * 8) as u8 + 8, 64)), n);
        b.tick(n);
    }
    // A burst of each port at a time.
    (0..5).for_each(|_| (1..4).for_each(|out| drop(transmit(&mut b, out, 20))));
    let loose = on_its_way(&a, &b, |peer| peer.loose.len());
    assert!(loose > 2500, "{loose} frames at once");
    wire.frames.clear();
    for n in 30..50 {
        a.tick(n);
        for out in 1..4 {
            transmit_granted(&mut a, out, n, &mut wire);
        }
        b.tick(n);
        // The first port has a few more than may be with others.
        transmit(&mut b, 1, n);
    }
    assert_eq!((wire.frames.len(), a.expects_more(), b.expects_more()), (12 * BURST, false, false));
    assert_eq!((a.held() + b.held(), a.admission().held_bytes(), b.admission().queued_bytes()), (0, 0, 0));
}

#[test]
fn frames_that_go_one_by_one_are_ordered_together_but_no_more_than_a_stage_holds() {
    let mut p = params(2);
    p.ports[1].tx_per_lcore = true;
    // Each frame is looked at; few are chosen.
    let pmax = q32_from_millionths(1);
    p.ports[1].mark[3] = Some(Wred { kmin: 1, kmax: 1 << 30, pmax, at: MarkAt::Dequeue });
    let [a, b] = &mut two_shards(p);
    for _ in 0..3 {
        receive(a, 0, (0..BURST).map(|_| frame(1, 2, 24, 64)), 10);
    }
    (0..3).for_each(|n| b.tick(20 + n));
    (0..3).for_each(|_| drop(transmit(b, 1, 30)));
    let grants = on_its_way(a, b, |peer| peer.grants.len());
    assert_eq!(grants, 3 * BURST / BATCH_MAX);
    // As many as the ring has places, then the others.
    let mut wire = Tap { room: BURST, ..Tap::default() };
    for n in 40..43 {
        a.tick(n);
        transmit_granted(a, 1, n, &mut wire);
        b.tick(n);
    }
    assert_eq!((wire.frames.len(), b.held()), (3 * BURST, 0));
}

/// Lcores with several busy ports, all of whose frames go to another lcore's: what comes in a turn is taken in the next one or two, however
/// many lcores there are and whichever of them bring it.
#[test]
fn whoever_receives_many_frames_takes_as_many_from_others() {
    const TURNS: u64 = 40;
    for (lcores, ports) in [(2, 12), (3, 12), (5, 5), (9, 18)] {
        let mut p = params(ports);
        for (at, port) in p.ports.iter_mut().enumerate() {
            (port.shard, port.tx_per_lcore) = ((at % lcores) as u8, true);
        }
        let stations = (0..ports as u16).map(|at| (host(u64::from(at)).to_u64(), PortId(at)));
        p.stations = stations.map(|(mac, port)| (Profile::standard().key(mac, 0), port)).collect();
        p.mmu = MmuParams::lossy(ports, 64 << 20);
        p.frames = 60_000;
        let mut shards = Switch::<OwnedFrame>::sharded(&p, lcores).unwrap();
        let next = |port: usize| (port + 1) % ports;
        for now in 1..=TURNS {
            for port in (0..ports).filter(|port| port % lcores != next(*port) % lcores) {
                let frames = (0..BURST).map(|_| frame(port as u64, next(port) as u64, 0, 64));
                receive(&mut shards[port % lcores], port as u16, frames, now);
            }
            for shard in &mut shards {
                for port in 0..ports as u16 {
                    if shard.owns(PortId(port)) {
                        transmit(shard, port, now);
                    } else {
                        transmit_granted(shard, port, now, &mut Tap::of(BURST));
                    }
                }
                shard.tick(now);
            }
        }
        let mut books = Conservation::default();
        shards.iter().for_each(|shard| books.add(&shard.conservation()));
        let waiting = books.received - books.dropped - books.transmitted;
        assert_eq!(books.dropped, 0, "{lcores} lcores, {ports} ports: {books:?}");
        assert!(books.transmitted > 0 && waiting <= books.received / TURNS * 4, "{lcores} lcores: {books:?}");
    }
}
