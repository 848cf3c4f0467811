//! Marks, CNPs, rates and pauses between two adapters.

#[path = "support/pair.rs"]
mod pair;
mod support;

use pair::{Faults, Net, mark_ce, pair};
use std::collections::BTreeMap;
use weir_dataplane::types::Nanos;
use weir_endpoint::roce::frame::Frame;
use weir_endpoint::roce::hca::{Event, TxKind};
use weir_endpoint::roce::verbs::SendOp;
use weir_endpoint::roce::wire::Bth;

/// Marks on every frame: the reaction point of host 1 hears the CNPs and the pair slows down; when
/// the marks end, it rises again.
#[test]
fn cnps_reach_the_rate_control_and_its_rate_reaches_the_wire() {
    use weir_endpoint::dcqcn::reaction_point::{Params, RateControl};
    const LINE: u64 = 10_000_000_000;
    let [mut a, mut b] = pair(|c| {
        c.rate = LINE;
        c.window = 4096;
        c.mtu = 4096;
    });
    let mut control = RateControl::new(Params::paper(LINE), 0).unwrap();
    for i in 0..1000 {
        b.recv(i, 0, 40_000);
        a.send(i, SendOp::Send, 0, 40_000);
    }
    let mut flight: BTreeMap<(Nanos, u64), Vec<u8>> = BTreeMap::new();
    let (mut now, mut sent, mut rates) = (0, 0, Vec::new());
    // Marked until 1 ms; 40 MB at 10 Gb/s take 32 ms.
    while now < 30_000_000 {
        control.handle_timeout(now);
        while let Some(Event::Cnp(_)) = a.hca.poll_event() {
            control.on_cnp(now);
        }
        a.hca.set_rate(a.qpn, control.rate());
        while let Some(tx) = a.hca.poll_transmit(now) {
            let mut bytes = tx.bytes.to_vec();
            control.on_sent(bytes.len() as u64, now);
            if now < 1_000_000 {
                mark_ce(&mut bytes);
            }
            flight.insert((now + 1000, sent), bytes);
            sent += 1;
        }
        rates.push((now, control.rate()));
        let timers = [a.hca.next_timeout(), control.next_timeout()].into_iter().flatten();
        now = timers.chain(flight.keys().next().map(|k| k.0)).min().unwrap();
        while let Some(entry) = flight.first_entry().filter(|e| e.key().0 <= now) {
            b.hca.handle_frame(&entry.remove(), now);
            while let Some(tx) = b.hca.poll_transmit(now) {
                a.hca.handle_frame(tx.bytes, now);
            }
        }
    }
    let rate_at = |t: Nanos| rates.iter().rev().find(|r| r.0 <= t).unwrap().1;
    // 1 ms of marks: at most 20 CNPs, and fewer once packets are further apart than 50 us.
    assert!((10..=20).contains(&b.hca.counters().tx_cnp), "{}", b.hca.counters().tx_cnp);
    assert!(rate_at(1_000_000) < LINE / 50, "{}", rate_at(1_000_000));
    assert!(rate_at(29_000_000) > LINE / 4, "{}", rate_at(29_000_000));
    assert_eq!(a.hca.counters().tx_retransmitted, 0);
    assert_eq!(a.hca.rate(a.qpn), Some(control.rate()));
}

#[test]
fn marks_are_answered_with_one_cnp_per_interval_and_the_sender_is_told() {
    let [mut a, mut b] = pair(|c| {
        c.rate = 1_000_000_000;
        c.window = 128;
    });
    for i in 0..100 {
        b.recv(i, 0, 1024);
        a.send(i, SendOp::Send, 0, 1024);
    }
    let mut net = Net::new([a, b], Faults { marked: 100, ..Faults::default() }, 0);
    net.run();
    let [a, b] = &mut net.hosts;
    // 100 frames, 8.848 us apart, from 1 us on: marks at 1.000 us, then at the first after 50 us more.
    assert_eq!(b.hca.counters().rx_ce, 100);
    assert_eq!(b.hca.counters().tx_cnp, 17);
    assert_eq!(a.hca.counters().rx_cnp, 17);
    assert_eq!(a.hca.poll_event(), Some(Event::Cnp(a.qpn)));
    assert_eq!(a.hca.poll_event(), None);
}

#[test]
fn a_cnp_looks_like_one_of_a_real_adapter() {
    support::need_golden!();
    let [mut a, mut b] = pair(|_| {});
    a.send(1, SendOp::Send, 0, 4);
    b.recv(1, 0, 4);
    let mut bytes = a.hca.poll_transmit(0).unwrap().bytes.to_vec();
    mark_ce(&mut bytes);
    b.hca.handle_frame(&bytes, 0);
    let tx = b.hca.poll_transmit(0).unwrap();
    assert_eq!((tx.kind, tx.priority), (TxKind::Cnp, 6));
    let real = support::vector("A1");
    let (ours, real) = (Frame::parse(tx.bytes).unwrap(), Frame::parse(&real).unwrap());
    let expected = Bth { dest_qp: a.qpn, ..real.packet.bth };
    assert_eq!((ours.packet.bth, ours.packet.payload), (expected, real.packet.payload));
    assert_eq!((ours.outer.ip.dscp, ours.outer.ip.ecn), (real.outer.ip.dscp, real.outer.ip.ecn));
}

#[test]
fn packets_keep_to_the_rate_and_paused_priorities_stay() {
    let [mut a, _] = pair(|c| c.rate = 10_000_000_000);
    a.send(1, SendOp::Send, 0, 4000);
    let mut times = Vec::new();
    a.hca.set_paused(1 << 3);
    assert_eq!(a.hca.poll_transmit(500), None);
    a.hca.set_paused(!(1 << 3));
    let mut now = 500;
    while times.len() < 4 {
        match a.sent_one(now) {
            Some(_) => times.push(now),
            None => now = a.hca.next_timeout().unwrap(),
        }
    }
    // 1082 B frames are 1106 B on the wire: 884.8 ns.
    assert_eq!(times, [500, 1384, 2269, 3154]);
}
