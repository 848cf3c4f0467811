use super::*;
use crate::checksum::ones_complement_sum;
use crate::dcqcn::firmware::Dcqcn;
use crate::dcqcn::reaction_point::Params;
use crate::dcqcn::scheme::{Outstanding, Scheme};
use crate::dcqcn::trace::Cause;
use crate::rc::psn::Psn;
use crate::roce::hca::Failure;
use crate::roce::qp::TrafficClass;
use crate::roce::verbs::Status;
use crate::roce::wire::Qpn;
use crate::station::EndpointCounters;
use crate::station::net::{Limits, Net, OPEN, RATE, SECOND, ip, mac};
use std::net::IpAddr;

/// What the adapter of a station counted.
fn counters(net: &Net, station: usize) -> crate::roce::hca::Counters {
    match net.stations[station].report(net.now).adapter {
        EndpointCounters::Roce(counters) => counters,
        EndpointCounters::RcLink(_) => unreachable!("all are RoCE"),
    }
}

pub(super) fn config(n: usize) -> StationConfig {
    let ip = IpAddr::V4(ip(n));
    StationConfig { mac: mac(n), ip, rate: RATE, obey: 8, slack: 0, settle: 0, first_qpn: 0x11 }
}

fn station(n: usize) -> Station {
    Station::new(config(n))
}

fn dcqcn() -> Rate {
    scheme(Scheme::Hardware)
}

fn scheme(scheme: Scheme) -> Rate {
    let (params, outstanding) = (Params::paper(RATE), Outstanding::adapter(300_000));
    Rate::Dcqcn(Dcqcn { scheme, outstanding, firmware_period: 20_000, ..Dcqcn::plain(params) })
}

/// From queue pair `qpn` of station `peer`, silent itself.
pub(super) fn pair(peer: usize, qpn: u32) -> PairConfig {
    PairConfig {
        peer: Peer { ip: IpAddr::V4(ip(peer)), mac: None, qpn: Qpn(qpn) },
        send_psn: Psn::new(0xff_fff0),
        recv_psn: Psn::new(0xff_fff0),
        vlan: None,
        data: TrafficClass::of_data(26, 3),
        cnp: TrafficClass::of_cnps(48, 6),
        mtu: 1024,
        window: 256,
        ack_timeout: 1_000_000,
        retries: 7,
        cnp_interval: 50_000,
        rate: dcqcn(),
        receive_bytes: 16_384,
        memory: Remote::of_pair(0),
        verify: true,
        expect: None,
        stream: None,
        trace: false,
    }
}

fn stream(operation: Operation, messages: u64) -> Option<Stream> {
    Some(Stream { operation, bytes: 10_000, messages: Some(messages), start: 0 })
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
        assert!(net.dropped > 50 && counters(&net, 0).tx_retransmitted > 0);
    }
}

/// `senders` stations send to station 0, each at line rate at first.
fn incast(senders: usize, rate: Rate, obey: u8, limits: Limits) -> Net {
    let mut receiver = station(0);
    let mut stations = Vec::new();
    for n in 1..=senders {
        let memory = Remote::of_pair(n as u32 - 1);
        receiver.add(PairConfig { rate, memory, ..pair(n, 0x11) }).unwrap();
        let mut sender = Station::new(StationConfig { obey, ..config(n) });
        let endless = Stream { operation: Operation::Send, bytes: 16_384, messages: None, start: 0 };
        let here = PairConfig { rate, stream: Some(endless), trace: true, ..pair(0, 0x10 + n as u32) };
        sender.add(PairConfig { retries: 255, ..here }).unwrap();
        stations.push(sender);
    }
    stations.insert(0, receiver);
    Net::new(stations, limits)
}

#[test]
fn the_interval_of_cnps_is_set_at_run_time() {
    let mut net = incast(2, dcqcn(), 8, Limits { mark: 20_000, ..OPEN });
    net.run(20_000_000);
    let often = counters(&net, 0).tx_cnp;
    let crate::station::Station::Roce(receiver) = &mut net.stations[0] else { panic!() };
    for qpn in [0x11, 0x12].map(Qpn) {
        receiver.set_cnp_interval(qpn, 5_000_000).unwrap();
        assert_eq!(receiver.cnp_interval(qpn), Some(5_000_000));
    }
    net.run(40_000_000);
    // Of each queue pair one every 5 ms, and one on either side.
    let rarely = counters(&net, 0).tx_cnp - often;
    assert!(often > 20 && (1..=10).contains(&rarely), "{often}, then {rarely}");
}

#[test]
fn dcqcn_shares_the_link_and_leaves_a_record() {
    let mut net = incast(2, dcqcn(), 8, Limits { mark: 20_000, ..OPEN });
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
    let receiver = counters(&net, 0);
    assert!(receiver.rx_ce > receiver.tx_cnp, "several marks are one CNP (DEV-41)");
}

#[test]
fn cc018_to_cc020_every_scheme_shares_the_link_and_leaves_a_record() {
    let schemes = [Scheme::Hardware, Scheme::FirmwareRate, Scheme::Firmware];
    let seen = schemes.map(|by| {
        let mut net = incast(4, scheme(by), 8, Limits { mark: 20_000, ..OPEN });
        net.run(10_000_000);
        let first = std::mem::take(&mut net.deepest);
        net.run(80_000_000);
        let all: u64 = net.progress(0).iter().map(|p| p.received_bytes).sum();
        for sender in &net.stations[1..] {
            let pair = sender.pairs().next().unwrap();
            let full = pair.progress.lowest_rate == RATE;
            assert_eq!(full, by == Scheme::Firmware, "only firmware alone leaves the rate to the link");
            let (_, trace) = sender.traces().next().unwrap();
            assert_eq!((trace.entries()[0].cause, trace.initial().current), (Cause::Decrease, RATE));
        }
        (first, net.deepest, all)
    });
    // The later the first cut, the deeper the queue; later on, stops and starts at line rate fill and empty the
    // queue that rates keep short and busy.
    let [(first, later, all), (first_2, later_2, all_2), (first_3, later_3, all_3)] = seen;
    assert!(first < first_2 && first_2 < first_3, "{seen:?}");
    assert!(later_3 > 2 * later.max(later_2), "{seen:?}");
    assert!(all.min(all_2) > 75_000_000 && all_3 > 40_000_000 && all_3 < all.min(all_2), "{seen:?}");
}

#[test]
fn pauses_hold_back_their_priority_and_nothing_is_lost() {
    let limits = Limits { pause: 100_000, drop: 400_000, ..OPEN };
    let mut net = incast(3, Rate::Fixed(RATE), 8, limits);
    net.run(20_000_000);
    assert_eq!(net.dropped, 0);
    for n in 1..4 {
        let report = net.stations[n].report(net.now);
        assert!(report.paused_ns[3] > 0 && report.pauses[3] > 0, "{report:?}");
        assert_eq!(report.adapter.retransmitted(), 0);
    }
    let all: u64 = net.progress(0).iter().map(|p| p.received_bytes).sum();
    assert!(all > 20_000_000, "{all}");
    // Deaf stations lose, and still deliver in order what they deliver.
    let mut net = incast(3, Rate::Fixed(RATE), 0, limits);
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
    assert_eq!((report.tx_frames, counters(&net, 0).tx_data), (10, 0), "ten questions in a second, no data");
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
    let config = StationConfig { settle: 10_000_000, ..config(0) };
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
    let other = PairConfig { memory: Remote::of_pair(1), ..pair(1, 0x11) };
    a.add(PairConfig { stream: stream(Operation::Send, 20), ..other }).unwrap();
    b.add(pair(0, 0x11)).unwrap();
    let mut net = Net::new(vec![a, b], OPEN);
    net.run(50_000_000);
    let into = net.progress(1)[0];
    // As many as fit: the answers go astray too.
    assert_eq!((into.received, into.corrupted), (0, SLOTS));
}

#[test]
fn what_a_foreign_peer_sends_is_taken_as_it_is_where_nobody_checks() {
    for operation in [Operation::Send, Operation::Write(Remote { va: 0x7000, rkey: 0xfeed })] {
        // As above: the content is not that of the connection it comes by.
        let (mut a, mut b) = (station(0), station(1));
        a.add(pair(1, 0x99)).unwrap();
        let other = PairConfig { memory: Remote::of_pair(1), ..pair(1, 0x11) };
        a.add(PairConfig { stream: stream(operation, 16), ..other }).unwrap();
        let memory = Remote { va: 0x7000, rkey: 0xfeed };
        let taking = PairConfig { memory, verify: false, ..pair(0, 0x12) };
        b.add(taking).unwrap();
        let mut net = Net::new(vec![a, b], OPEN);
        net.run(50_000_000);
        let (out, into) = (net.progress(0)[1], net.progress(1)[0]);
        // A WRITE is a message where it says so, which is one in eight.
        let told = if operation == Operation::Send { 16 } else { 2 };
        assert_eq!((out.acknowledged, into.received), (16, told), "{operation:?}");
        assert_eq!((into.received_bytes, into.corrupted, into.out_of_order), (told * 10_000, 0, 0));
    }
}

#[test]
fn a_ping_is_answered() {
    let mut a = station(1);
    let mut ping = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 9, 8, 0];
    ping.extend([0x45, 0, 0, 32, 0, 0, 0, 0, 64, 1, 0x66, 0xd0, 10, 0, 0, 9, 10, 0, 0, 1]);
    ping.extend([8, 0, 0x57, 0xa5, 0x12, 0x34, 0, 1, 0x8d, 0x24, 0, 0]);
    ping.resize(60, 0);
    a.handle_frame(&ping, 0);
    assert!(a.poll_transmit(0).is_none(), "its checksums are wrong");
    for (bytes, at) in [(14..34, 10), (34..46, 2)] {
        let checksum = bytes.start + at;
        ping[checksum..checksum + 2].fill(0);
        let sum = !ones_complement_sum(&ping[bytes]);
        ping[checksum..checksum + 2].copy_from_slice(&sum.to_be_bytes());
    }
    a.handle_frame(&ping, 0);
    let reply = a.poll_transmit(1_000).map(<[u8]>::to_vec).unwrap();
    assert_eq!((&reply[..6], reply[34]), (&[2, 0, 0, 0, 0, 9][..], 0));
    let report = a.report(0);
    assert_eq!((report.rx_echo, report.rx_other), (1, 1));
}

#[test]
fn what_does_not_fit_is_refused() {
    let mut a = station(0);
    assert!(matches!(a.add(PairConfig { mtu: 1000, ..pair(1, 1) }), Err(StationError::Qp(_))));
    assert_eq!(a.add(PairConfig { receive_bytes: 8, ..pair(1, 1) }), Err(StationError::Message(8)));
    a.add(pair(1, 1)).unwrap();
    assert_eq!(a.add(pair(1, 1)), Err(StationError::Key(1)));
    let last = Remote { va: u64::MAX - 8, rkey: 9 };
    assert!(matches!(a.add(PairConfig { memory: last, ..pair(1, 1) }), Err(StationError::Memory(_))));
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
    for nth in 0..300 {
        let memory = Remote::of_pair(nth);
        assert_eq!(a.add(PairConfig { receive_bytes: 16, memory, ..pair(1, 1) }), Ok(Qpn(0x11 + nth)));
    }
    assert_eq!(Remote::of_pair(0), Remote { va: 1 << 40, rkey: 1 }, "docs/host.md");
    assert_eq!(Remote::of_pair(2), Remote { va: 3 << 40, rkey: 1025 });
}

#[test]
fn ipv6_peers_are_known_beforehand_and_their_marks_cut_the_rate() {
    let v6 = |n: usize| format!("2001:db8::{n}").parse::<IpAddr>().unwrap();
    let host = |n: usize| Station::new(StationConfig { ip: v6(n), ..config(n) });
    let to = |n: usize| PairConfig {
        peer: Peer { ip: v6(n), mac: Some(mac(n)), qpn: Qpn(0x11) },
        ..pair(n, 0x11)
    };
    let mut b = host(0);
    let unknown = PairConfig { peer: Peer { mac: None, ..to(1).peer }, ..to(1) };
    assert_eq!(b.add(unknown), Err(StationError::Unknown(v6(1))));
    assert!(matches!(b.add(pair(1, 0x11)), Err(StationError::Qp(_))), "IPv4 and IPv6 in one connection");
    let mut stations = Vec::new();
    for n in 1..=2 {
        let mut a = host(n);
        let mut there = to(0);
        there.peer.qpn = Qpn(0x10 + n as u32);
        let operation = Operation::Write(Remote::of_pair(n as u32 - 1));
        a.add(PairConfig { stream: stream(operation, 1000), ..there }).unwrap();
        let memory = Remote::of_pair(n as u32 - 1);
        b.add(PairConfig { expect: Some(1000), memory, ..to(n) }).unwrap();
        stations.push(a);
    }
    stations.insert(0, b);
    let mut net = Net::new(stations, Limits { mark: 20_000, lose: 1013, ..OPEN });
    assert!(net.run(SECOND));
    for into in net.progress(0) {
        assert_eq!((into.received, into.out_of_order, into.corrupted), (1000, 0, 0));
    }
    let out = net.progress(1)[0];
    assert!(net.dropped > 0 && out.cnps > 0 && out.lowest_rate < RATE);
    assert_eq!(net.stations[0].report(net.now).rx_arp, 0, "nobody asks");
}

/// Whose turn it is is checked against asking all of them wherever assertions are compiled.
#[test]
fn many_connections_take_turns() {
    for (pairs, messages, limits) in [(128, 3, OPEN), (40, 12, Limits { lose: 97, mark: 20_000, ..OPEN })] {
        let (mut a, mut b) = (station(0), station(1));
        for n in 0..pairs {
            let memory = Remote::of_pair(n);
            let operation = if n % 2 == 0 { Operation::Send } else { Operation::Write(memory) };
            let start = u64::from(n) * 1_000;
            let stream = Stream { start, ..stream(operation, messages).unwrap() };
            let here = PairConfig { memory, stream: Some(stream), ..pair(1, 0x11 + n) };
            a.add(here).unwrap();
            b.add(PairConfig { memory, expect: Some(messages), ..pair(0, 0x11 + n) }).unwrap();
        }
        let mut net = Net::new(vec![a, b], limits);
        assert!(net.run(SECOND), "{pairs}");
        for (sent, got) in net.progress(0).iter().zip(net.progress(1)) {
            assert_eq!((sent.acknowledged, got.received), (messages, messages));
            assert_eq!((got.out_of_order, got.corrupted), (0, 0));
        }
        let last = net.progress(0).iter().map(|sent| sent.last_ack).max().unwrap();
        // Ten frames of 8.5 us in all for each ten kilobytes.
        let line = u64::from(pairs) * messages * 8_500;
        assert!(last >= line && (limits.lose != u64::MAX || last < line * 11 / 10), "{last} {line}");
    }
}
