//! Frames that are followed are treated as all others, and what is told of them is what happens.

use super::*;
use crate::ecn::{MarkAt, ONE_Q32, Wred};
use crate::fdb::Lookup;
use crate::frame::OwnedFrame;
use crate::mmu::{Limit, MmuParams, PgParams};
use crate::parse::Variant;
use crate::rng::Rng;
use crate::switch::Tapped;
use crate::switch::{Arrival, Wire};
use crate::switch::{SwitchParams, UnknownUnicast};
use crate::types::Mac;
use crate::types::{BURST, Burst, PRIORITIES};
use std::net::IpAddr;

/// Four ports at 1G, 8 MiB of buffer, class 3 lossless.
fn params(shards: usize) -> SwitchParams {
    let mut params = crate::switch::tests::params(4);
    params.mmu = MmuParams::lossy(4, 8 << 20);
    params.frames = 1 << 14;
    for (i, port) in params.ports.iter_mut().enumerate() {
        (port.mtu, port.rate, port.shard) = (1600, Some(1_000_000_000), (i % shards) as u8);
        params.mmu.pgs[i * PRIORITIES + 3] = PgParams {
            reserved: 4096,
            limit: Limit::dynamic(0).unwrap(),
            headroom: 200_000,
            xon: 0,
            xon_offset: 3000,
            lossless: true,
        };
    }
    params
}

/// The same where a frame for nobody is dropped.
fn strict() -> SwitchParams {
    let mut params = params(1);
    params.ports.iter_mut().for_each(|port| port.unknown_unicast = UnknownUnicast::Drop);
    params
}

fn frame(from: u8, to: u8, dscp: u8, len: usize) -> OwnedFrame {
    let mut bytes = vec![0; len];
    bytes[..12].copy_from_slice(&[2, 0, 0, 0, 0, to, 2, 0, 0, 0, 0, from]);
    bytes[12..16].copy_from_slice(&[8, 0, 0x45, dscp << 2 | 2]);
    bytes[16..18].copy_from_slice(&(len as u16 - 14).to_be_bytes());
    bytes[22..24].copy_from_slice(&[64, 17]);
    bytes[34..38].copy_from_slice(&[0xc0, 0, 0x12, 0xb7]);
    OwnedFrame::new(bytes)
}

#[derive(Default, PartialEq, Eq, Debug)]
struct Out(Vec<Vec<u8>>);

impl Wire<OwnedFrame> for Out {
    fn send(&mut self, frames: &mut Burst<OwnedFrame>) -> usize {
        let n = frames.len().min(3);
        self.0.extend(frames.drain(..n).map(|f| f.bytes().to_vec()));
        n
    }

    fn send_control(&mut self, frame: &[u8]) -> bool {
        self.0.push(frame.to_vec());
        true
    }
}

type Sut = Tapped<OwnedFrame>;

fn receive(switch: &mut Sut, port: u16, frames: impl IntoIterator<Item = OwnedFrame>, now: Nanos) {
    let mut burst: Burst<_> = frames.into_iter().collect();
    switch.receive(PortId(port), &mut burst, now);
}

fn transmit_all(switch: &mut Sut, now: Nanos, wire: &mut Out) {
    for port in 0..4 {
        switch.transmit(PortId(port), BURST, now, wire);
    }
}

/// Every host says where it is; nobody knows 0xee.
fn greet(switch: &mut Sut) {
    for port in 0..4 {
        receive(switch, port, [frame(port as u8, 0xee, 0, 60)], 0);
    }
    let mut wire = Out::default();
    for n in 1..100 {
        transmit_all(switch, n * 1_000_000, &mut wire);
    }
}

fn order(port: u16, count: u64) -> TapOrder {
    TapOrder { port: PortId(port), filter: Filter::default(), count, bytes: 64, drops: false }
}

fn armed(switch: &mut Sut, order: TapOrder) -> TapReader {
    let (tap, reader) = Tap::new(order);
    assert!(switch.arm(Some(Box::new(tap))).is_none());
    reader
}

fn all(reader: &mut TapReader) -> Vec<(Record, Vec<u8>)> {
    reader.collect()
}

fn arrival(record: &Record) -> &Arrival {
    match &record.what {
        What::Arrived(arrival) => arrival,
        other => panic!("{other:?}"),
    }
}

const SECOND: Nanos = 1_000_000_000;

#[test]
fn a_frame_is_followed_from_port_to_port() {
    let mut switch = Sut::observed(params(1)).unwrap();
    greet(&mut switch);
    let mut reader = armed(
        &mut switch,
        TapOrder { filter: Filter { dscp: Some(26), ..Filter::default() }, ..order(1, 2) },
    );
    let sent = [frame(1, 0, 26, 1000), frame(1, 0, 0, 1000), frame(1, 0, 26, 500), frame(1, 0, 26, 400)];
    receive(&mut switch, 1, sent, SECOND);
    receive(&mut switch, 2, [frame(2, 0, 26, 800)], SECOND);
    let told = all(&mut reader);
    assert_eq!(told.len(), 2, "two were asked for");
    let (first, second) = (arrival(&told[0].0), arrival(&told[1].0));
    assert_eq!((first.class.queue, first.lookup, first.lost), (3, Lookup::Port(PortId(0)), None));
    let used = |arrival: &Arrival| arrival.queue.map(|queue| queue.map(|queue| queue.used));
    assert_eq!((used(first), used(second)), (Some([0, 1000]), Some([1000, 1500])));
    assert_eq!((first.pg[0].used, first.pg[1].used, first.copies), (0, 1000, 1));
    assert_eq!((told[0].0.len, told[0].1.len(), &told[0].1[..6]), (1000, 64, &[2, 0, 0, 0, 0, 0][..]));
    let mut wire = Out::default();
    let mut now = 2 * SECOND;
    while switch.held() > 0 {
        now += 1000;
        switch.transmit(PortId(0), BURST, now, &mut wire);
    }
    let left = all(&mut reader);
    assert_eq!(left.len(), 2);
    for (record, _) in &left {
        let What::Left { out, queue, marked, taken_at, .. } = record.what else { panic!("{record:?}") };
        assert_eq!((out, queue, marked), (PortId(0), 3, false));
        assert!(taken_at >= 2 * SECOND && record.at >= taken_at);
        assert!(told.iter().any(|(t, _)| t.key == record.key));
    }
    assert!(switch.copies.are_free());
    assert!(switch.slow_path_queues.iter().all(|h| *h == 0), "who has seen enough hinders nobody");
    switch.admission().audit().unwrap();
    assert_eq!(switch.conservation().error(), 0);
}

#[test]
fn who_stands_behind_a_port_knows_a_frame_that_is_followed_by_its_place() {
    let mut switch = Sut::observed(params(1)).unwrap();
    greet(&mut switch);
    let (tap, mut reader) = Tap::new(order(1, 2));
    let behind: PortSet = [PortId(0)].into_iter().collect();
    switch.arm(Some(Box::new(tap.hands_on(behind))));
    // The third is one too many, the first goes elsewhere.
    let sent = [frame(1, 2, 26, 500), frame(1, 0, 26, 400), frame(1, 0, 26, 300)];
    let address = sent[1].bytes().as_ptr().addr();
    receive(&mut switch, 1, sent, SECOND);
    assert_eq!(switch.handed_on(PortId(0)).count(), 0, "it waits in its queue");
    transmit_all(&mut switch, 2 * SECOND, &mut Out::default());
    let told = all(&mut reader);
    let handed: Vec<_> = switch.handed_on(PortId(0)).collect();
    assert_eq!(handed, [HandedOn { out: PortId(0), key: told[1].0.key, address }]);
    assert_eq!(switch.handed_on(PortId(0)).count() + switch.handed_on(PortId(2)).count(), 0);
}

/// Random traffic, with and without somebody watching: same frames out, same counters.
#[test]
fn who_is_watched_does_the_same() {
    let run = |watch: bool, seed: u64| {
        let mut params = params(1);
        let wred = Wred { kmin: 2_000, kmax: 20_000, pmax: ONE_Q32 / 2, at: MarkAt::Dequeue };
        params.ports.iter_mut().for_each(|port| port.mark[3] = Some(wred));
        let mut switch = Sut::observed(params).unwrap();
        greet(&mut switch);
        let mut reader = watch.then(|| armed(&mut switch, order(1, 100)));
        let (mut rng, mut wire, mut told) = (Rng::new(seed), Out::default(), Vec::new());
        for turn in 0..300u64 {
            let now = SECOND + turn * 20_000;
            for port in 0..4u8 {
                // Of a mixed burst, frames that are flooded are queued before those that wait for their like.
                let to = [0, 1, 2, 3, 0xee][rng.next_u32() as usize % 5];
                let dscp = [0, 26, 48][rng.next_u32() as usize % 3];
                let frames: Vec<_> = (0..rng.next_u32() % 5)
                    .map(|_| frame(port, to, dscp, 60 + rng.next_u32() as usize % 1500))
                    .collect();
                receive(&mut switch, u16::from(port), frames, now);
            }
            transmit_all(&mut switch, now, &mut wire);
            if turn == 200 {
                switch.set_link(PortId(2), false, now);
            }
            switch.tick(now);
            told.extend(reader.iter_mut().flat_map(all));
        }
        switch.admission().audit().unwrap();
        assert_eq!(switch.conservation().error(), 0);
        let stats: Vec<_> = (0..4).map(|port| switch.stats(PortId(port)).clone()).collect();
        switch.abandon();
        told.extend(reader.iter_mut().flat_map(all));
        assert!(switch.copies.are_free(), "every copy count is given back");
        (wire, stats, told)
    };
    for seed in 1..6 {
        let ((wire, stats, none), (watched_wire, watched_stats, told)) = (run(false, seed), run(true, seed));
        assert!(stats == watched_stats, "counters differ");
        assert!(wire == watched_wire, "frames differ");
        assert!(none.is_empty());
        // Every copy that was queued has left or was lost.
        let arrived = told.iter().filter_map(|(record, _)| match &record.what {
            What::Arrived(arrival) => Some(arrival.copies as usize),
            _ => None,
        });
        let copies: usize = arrived.clone().sum();
        assert_eq!(arrived.count(), 100);
        assert_eq!(told.len() - 100, copies);
        assert!(told.iter().any(|(r, _)| matches!(r.what, What::Left { marked: true, .. })));
    }
}

#[test]
fn a_loss_is_told_with_its_reason() {
    let mut switch = Sut::observed(strict()).unwrap();
    greet(&mut switch);
    let mut reader = armed(&mut switch, order(1, 10));
    receive(&mut switch, 1, [frame(1, 0xee, 26, 100), frame(1, 1, 26, 100), frame(1, 0, 26, 100)], SECOND);
    receive(&mut switch, 1, [OwnedFrame::new([1, 2, 3])], SECOND);
    let told = all(&mut reader);
    let lost: Vec<_> = told.iter().map(|(r, _)| arrival(r).lost).collect();
    use DropReason::{LookupSamePort, LookupUnknown, ParseTooShort};
    assert_eq!(lost, [Some(LookupUnknown), Some(LookupSamePort), None, Some(ParseTooShort)]);
    switch.set_link(PortId(0), false, SECOND);
    let told = all(&mut reader);
    assert_eq!(told.len(), 1);
    assert!(matches!(told[0].0.what, What::Flushed { out: PortId(0), reason: DropReason::EgressPortDown }));
    assert!(switch.copies.are_free());
}

#[test]
fn every_copy_of_a_flooded_frame_is_followed() {
    let mut params = params(1);
    params.mmu.least_charge = 80;
    let mut switch = Sut::observed(params).unwrap();
    greet(&mut switch);
    let mut reader = armed(&mut switch, order(1, 1));
    receive(&mut switch, 1, [frame(1, 0xee, 26, 100)], SECOND);
    let told = all(&mut reader);
    // Three copies take the memory of three frames.
    let of = arrival(&told[0].0);
    assert_eq!((of.charge, of.pg[1].used - of.pg[0].used), (240, 240));
    assert_eq!((arrival(&told[0].0).copies, arrival(&told[0].0).lookup), (3, Lookup::Miss));
    let mut wire = Out::default();
    transmit_all(&mut switch, SECOND, &mut wire);
    let outs: Vec<_> = all(&mut reader)
        .iter()
        .map(|(r, _)| match r.what {
            What::Left { out, .. } => out.0,
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(outs, [0, 2, 3]);
    assert!(switch.copies.are_free());
}

#[test]
fn a_tap_on_drops_hinders_nobody() {
    let mut switch = Sut::observed(strict()).unwrap();
    greet(&mut switch);
    let mut reader = armed(&mut switch, TapOrder { drops: true, ..order(1, 2) });
    assert!(switch.slow_path_queues.iter().all(|h| *h == 0));
    switch.tick(SECOND);
    for port in [1, 2] {
        receive(&mut switch, port, (0..3).map(|_| frame(port as u8, 0xee, 26, 100)), SECOND);
    }
    let told = all(&mut reader);
    assert_eq!(told.len(), 2, "two were asked for");
    for (record, bytes) in told {
        assert!(matches!(record.what, What::Lost { reason: DropReason::LookupUnknown }));
        assert_eq!((record.at, record.key.in_port, bytes.len()), (SECOND, 1, 64));
    }
}

/// A queue that takes no more where it holds so many bytes.
fn full_at(bytes: u64) -> Wred {
    Wred { kmin: bytes, kmax: bytes, pmax: ONE_Q32, at: MarkAt::Dequeue }
}

#[test]
fn a_copy_that_its_queue_refuses_is_told_and_the_others_leave() {
    let mut params = params(1);
    params.ports[0].early_drop[0] = Some(full_at(1000));
    let mut switch = Sut::observed(params).unwrap();
    greet(&mut switch);
    // What is lost of a frame that waits for its copies is not a loss of the one that is followed.
    let filter = Filter { dst: Some(Mac([2, 0, 0, 0, 0, 0xef])), ..Filter::default() };
    let mut reader = armed(&mut switch, TapOrder { filter, ..order(1, 2) });
    let sent = [(0xee, 1100), (0xee, 1200), (0xef, 1300)].map(|(to, len)| frame(1, to, 0, len));
    receive(&mut switch, 1, sent, SECOND);
    receive(&mut switch, 1, [frame(1, 0xef, 26, 1300)], SECOND);
    let mut told = all(&mut reader);
    (1..10).for_each(|n| transmit_all(&mut switch, (1 + n) * SECOND, &mut Out::default()));
    told.extend(all(&mut reader));
    let told: Vec<_> = told
        .iter()
        .map(|(record, _)| match &record.what {
            What::Arrived(Arrival { copies, lost, .. }) => format!("{copies} {lost:?}"),
            What::Left { out, .. } => format!("left {}", out.0),
            What::Flushed { out, reason } => format!("lost {} {reason:?} {}", out.0, record.len),
            What::Lost { .. } => panic!("{record:?}"),
        })
        .collect();
    assert_eq!(told[..3], ["3 None", "lost 0 EgressWred 1300", "3 None"]);
    assert_eq!((told.len(), switch.stats(PortId(0)).queue_drops[0]), (3 + 2 + 3, 2));
    assert!(switch.copies.are_free());
}

/// Frames that come by the other lcore than that of the queue they are for, which has room for two of them.
#[test]
fn the_other_lcore_tells_that_its_queue_refuses_a_frame() {
    for tx_per_lcore in [false, true] {
        let mut params = params(2);
        params.ports.iter_mut().for_each(|port| port.tx_per_lcore = tx_per_lcore);
        params.ports[0].early_drop[0] = Some(full_at(1000));
        params.stations = vec![(Profile::standard().key(0x0200_0000_0000, 0), PortId(0))];
        let [a, b] = &mut <[_; 2]>::try_from(Sut::observed_shards(&params, 2).unwrap()).unwrap();
        let taps = Tap::for_workers(order(1, 6), 2);
        let [(one, mut from_a), (other, mut from_b)] = <[_; 2]>::try_from(taps).unwrap();
        a.arm(Some(Box::new(one)));
        b.arm(Some(Box::new(other)));
        receive(b, 1, (0..6).map(|_| frame(1, 0, 0, 1000)), SECOND);
        a.tick(SECOND + 7);
        let told: Vec<_> = all(&mut from_a);
        let came: Vec<_> = all(&mut from_b).iter().map(|(record, _)| record.key).collect();
        assert_eq!((came.len(), told.len()), (6, 4));
        for ((record, _), key) in told.iter().zip(&came[2..]) {
            let Record { at, len, what: What::Flushed { out, reason }, .. } = record else {
                panic!("{record:?}")
            };
            assert_eq!((record.key, *at, *len), (*key, SECOND + 7, 1000));
            assert_eq!((*out, *reason), (PortId(0), DropReason::EgressWred));
        }
        assert_eq!(a.stats(PortId(0)).queue_drops[0], 4);
        a.abandon();
        b.tick(SECOND);
        b.abandon();
        assert!(a.copies.are_free() && b.copies.are_free());
    }
}

#[test]
fn who_reads_knows_when_the_last_lcore_has_its_tap() {
    let mut shards = Sut::observed_shards(&params(2), 2).unwrap();
    let (taps, readers): (Vec<_>, Vec<_>) = Tap::for_workers(order(1, 5), 2).into_iter().unzip();
    for (nth, (shard, tap)) in shards.iter_mut().zip(taps).enumerate() {
        assert!(readers.iter().all(|reader| !reader.is_armed()), "{nth} of 2");
        shard.arm(Some(Box::new(tap)));
    }
    assert!(readers.iter().all(TapReader::is_armed));
}

/// Who tells that a frame leaves, and all that is told by each of two lcores about two frames of the second one.
fn told_by_two(tx_per_lcore: bool) -> Vec<Vec<(Record, Vec<u8>)>> {
    let mut params = params(2);
    params.ports.iter_mut().for_each(|port| port.tx_per_lcore = tx_per_lcore);
    let mut shards = Sut::observed_shards(&params, 2).unwrap();
    for port in 0..4 {
        receive(&mut shards[port % 2], port as u16, [frame(port as u8, 0xee, 0, 60)], 0);
    }
    let mut wire = Out::default();
    let mut turn = |shards: &mut Vec<Sut>, now: Nanos| {
        // Who received them first: what the other one says is heard a turn later.
        for (i, shard) in shards.iter_mut().enumerate().rev() {
            for port in (0..4).filter(|port| port % 2 == i) {
                shard.transmit(PortId(port as u16), BURST, now, &mut wire);
            }
            shard.tick(now);
            for port in (0..4).filter(|port| port % 2 != i) {
                shard.transmit_granted(PortId(port as u16), BURST, now, &mut wire);
            }
        }
    };
    (1..50).for_each(|n| turn(&mut shards, n * 1_000_000));
    let mut readers: Vec<_> = shards.iter_mut().map(|shard| armed(shard, order(1, 5))).collect();
    receive(&mut shards[1], 1, [frame(1, 0, 26, 1000), frame(1, 3, 26, 1000)], SECOND);
    (0..50).for_each(|n| turn(&mut shards, SECOND + n * 1_000_000));
    assert!(shards[0].copies.are_free());
    readers.iter_mut().map(all).collect()
}

#[test]
fn the_other_lcore_tells_when_a_frame_leaves() {
    let told = told_by_two(false);
    assert_eq!((told[0].len(), told[1].len()), (1, 3));
    assert_eq!(told[0][0].0.key, told[1][0].0.key);
    // Of its queue it alone knows; of a queue of his own so does who received them.
    let known = [0, 1].map(|at| arrival(&told[1][at].0).queue.is_some());
    assert_eq!(known, [false, true]);
    assert!(matches!(told[0][0].0.what, What::Left { out: PortId(0), .. }));
}

#[test]
fn who_sends_a_frame_for_another_lcore_tells_when_that_took_it() {
    let told = told_by_two(true);
    assert_eq!((told[0].len(), told[1].len()), (0, 4));
    let left = told[1].iter().find_map(|(record, _)| match record.what {
        What::Left { out: PortId(0), taken_at, depth, .. } => Some((record.key, record.at, taken_at, depth)),
        _ => None,
    });
    let (key, at, taken_at, depth) = left.unwrap();
    assert_eq!((key, depth), (told[1][0].0.key, 0));
    // Its owner took it a turn before the grant was there.
    assert_eq!((key.rx_ns, at - taken_at), (SECOND, 1_000_000));
}

/// Copies for another lcore that does not come for them are lost where they were to leave, not on arrival: the frame has others.
#[test]
fn a_copy_that_cannot_be_handed_over_is_told_as_lost_at_its_port() {
    let params = SwitchParams { frames: 3, ..params(2) };
    let [a, b] = &mut <[_; 2]>::try_from(Sut::observed_shards(&params, 2).unwrap()).unwrap();
    let taps = Tap::for_workers(order(0, 5), 2);
    let [(one, mut told), (other, _)] = <[_; 2]>::try_from(taps).unwrap();
    a.arm(Some(Box::new(one)));
    b.arm(Some(Box::new(other)));
    (0..2).for_each(|n| receive(a, 0, [frame(0, 0xee, 0, 60)], n));
    let told = all(&mut told);
    let lost: Vec<_> = told
        .iter()
        .filter_map(|(record, _)| match record.what {
            What::Flushed { out, reason } => Some((record.key.rx_ns, out, reason)),
            _ => None,
        })
        .collect();
    assert_eq!(lost, [(1, PortId(3), DropReason::HandoffFull)]);
    let arrived = told.iter().filter(|(record, _)| matches!(record.what, What::Arrived(_)));
    let arrived: Vec<_> = arrived.map(|(record, _)| (arrival(record).lost, arrival(record).copies)).collect();
    assert_eq!(arrived, [(None, 3); 2]);
}

/// Many more frames than can be followed at once, a few of them at a time, sent by the other lcore or granted by it.
#[test]
fn frames_that_leave_by_another_lcore_make_room_for_others() {
    for tx_per_lcore in [false, true] {
        let mut params = params(2);
        params.ports.iter_mut().for_each(|port| port.tx_per_lcore = tx_per_lcore);
        let [a, b] = &mut <[_; 2]>::try_from(Sut::observed_shards(&params, 2).unwrap()).unwrap();
        receive(a, 0, [frame(0, 0xee, 0, 60)], 0);
        let mut wire = Out::default();
        let mut turn = |a: &mut Sut, b: &mut Sut, now| {
            for port in [0, 2] {
                a.transmit(PortId(port), BURST, now, &mut wire);
            }
            for port in [1, 3] {
                a.transmit_granted(PortId(port), BURST, now, &mut wire);
            }
            a.tick(now);
            for port in [1, 3] {
                b.transmit(PortId(port), BURST, now, &mut wire);
            }
            for port in [0, 2] {
                b.transmit_granted(PortId(port), BURST, now, &mut wire);
            }
            b.tick(now);
        };
        (1..10).for_each(|n| turn(a, b, n * 1_000_000));
        const ALL: u64 = 3 * FOLLOWED as u64;
        let taps = Tap::for_workers(order(1, ALL), 2);
        let [(one, mut from_a), (other, mut from_b)] = <[_; 2]>::try_from(taps).unwrap();
        b.arm(Some(Box::new(other)));
        // The other lcore could not tell that this one leaves.
        receive(b, 1, [frame(1, 0, 26, 100)], SECOND);
        (1..10).for_each(|n| turn(a, b, SECOND + n * 10_000));
        assert_eq!(all(&mut from_b).len(), 0);
        a.arm(Some(Box::new(one)));
        for n in 0..ALL {
            let now = SECOND + (n + 1) * 1_000_000;
            receive(b, 1, [frame(1, 0, 26, 100)], now);
            (0..5).for_each(|n| turn(a, b, now + n * 10_000));
        }
        let told: Vec<_> = all(&mut from_a).into_iter().chain(all(&mut from_b)).collect();
        let [mut came, mut left] = [Vec::new(), Vec::new()];
        for (record, _) in &told {
            match &record.what {
                What::Arrived(arrival) => {
                    assert_eq!(arrival.copies, 1);
                    came.push(record.key);
                }
                _ => left.push(record.key),
            }
        }
        assert_eq!((came.len() as u64, from_a.lost() + from_b.lost()), (ALL, 0));
        came.sort();
        left.sort();
        assert_eq!(came, left, "each left once");
    }
}

#[test]
fn what_finds_no_room_is_counted_and_forwarded_all_the_same() {
    let mut switch = Sut::observed(params(1)).unwrap();
    greet(&mut switch);
    let mut reader = armed(&mut switch, TapOrder { bytes: 1600, ..order(1, u64::MAX) });
    let mut wire = Out::default();
    let mut sent = 0;
    while reader.lost() < 10 {
        receive(&mut switch, 1, (0..8).map(|_| frame(1, 0, 26, 1500)), SECOND + sent);
        sent += 8;
        for n in 0..50 {
            switch.transmit(PortId(0), BURST, SECOND + (sent + n) * 100_000, &mut wire);
        }
    }
    assert_eq!(switch.stats(PortId(1)).rx_packets, sent + 1);
    assert_eq!(switch.conservation().error(), 0);
    assert!(sent > 600 && !all(&mut reader).is_empty());
}

#[test]
fn a_filter_means_what_it_says() {
    let plain = frame(1, 2, 26, 100);
    let mut bytes = plain.bytes().to_vec();
    bytes[26..34].copy_from_slice(&[10, 0, 0, 7, 10, 0, 0, 9]);
    bytes[38..40].copy_from_slice(&66u16.to_be_bytes());
    bytes[47..50].copy_from_slice(&[0, 1, 0x1a]);
    let plain = OwnedFrame::new(bytes);
    let standard = Profile::standard();
    let parsed = standard.parse(plain.bytes(), 100).unwrap();
    let admits = |filter: Filter| filter.admits(&standard, plain.bytes(), 100, &parsed);
    let ip = |n: u8| Some(IpAddr::from([10, 0, 0, n]));
    let none = Filter::default();
    let mac = |n: u8| Some(Mac([2, 0, 0, 0, 0, n]));
    assert!(admits(none));
    for (filter, want) in [
        (Filter { dst: mac(2), ..none }, true),
        (Filter { dst: mac(1), ..none }, false),
        (Filter { src: mac(1), ..none }, true),
        (Filter { src: mac(2), ..none }, false),
        (Filter { ethertype: Some(0x0800), ..none }, true),
        (Filter { ethertype: Some(0x86dd), ..none }, false),
        (Filter { dscp: Some(26), ..none }, true),
        (Filter { dscp: Some(0), ..none }, false),
        (Filter { udp_port: Some(4791), ..none }, true),
        (Filter { udp_port: Some(0xc000), ..none }, true),
        (Filter { udp_port: Some(53), ..none }, false),
        (Filter { dscp: Some(26), udp_port: Some(53), ..none }, false),
        (Filter { ip: ip(7), ..none }, true),
        (Filter { ip: ip(9), qp: Some(0x11a), ..none }, true),
        (Filter { ip: ip(8), ..none }, false),
        (Filter { qp: Some(0x1a), ..none }, false),
        (Filter { ip: ip(8), qp: Some(0x11a), ..none }, false),
    ] {
        assert_eq!(admits(filter), want, "{filter:?}");
    }
    // Tags are looked behind; cut frames are no UDP.
    let mut tagged = plain.bytes().to_vec();
    tagged.splice(12..12, [0x81, 0, 0x60, 5]);
    assert!(
        Filter { udp_port: Some(4791), ethertype: Some(0x0800), ..none }
            .admits(&standard, &tagged, 104, &parsed)
    );
    assert!(Filter { qp: Some(0x11a), ..none }.admits(&standard, &tagged, 104, &parsed));
    // What stands behind the header of a later fragment are no ports, and those of TCP are not UDP's.
    let roce = Filter { udp_port: Some(4791), ..none };
    for (at, byte) in [(21, 3), (23, 6)] {
        let mut other = plain.bytes().to_vec();
        other[at] = byte;
        assert!(!roce.admits(&standard, &other, 100, &parsed), "{at}");
    }
    // What follows a header without EtherType is payload.
    let lite = Profile::afh_lite(Variant::default());
    assert!(!Filter { ethertype: Some(0x0800), ..none }.admits(&lite, plain.bytes(), 100, &parsed));
    for cut in 0..100 {
        let cut = &plain.bytes()[..cut];
        Filter { udp_port: Some(1), ..none }.admits(&standard, cut, cut.len(), &parsed);
        assert!(!Filter { qp: Some(1), ..none }.admits(&standard, cut, cut.len(), &parsed));
    }
}
