use super::*;
use crate::congestion::backoff::BackoffParams;
use crate::rclink::Reliability;
use crate::rclink::cbfc::CreditConfig;
use crate::rclink::cc_window::Window;
use crate::rclink::class::{Class, ClassMap};
use crate::rclink::endpoint::{Counters, EndpointConfig, FlowControl};
use crate::rclink::frame::Format;
use crate::rclink::frame::{self, Codec};
use crate::rclink::watermark::PauseWatermarks;
use crate::station::net::{DELAY, Limits, Net, OPEN, RATE, SECOND, ip, mac};
use crate::station::{EndpointCounters, Progress};
use weir_dataplane::parse::Variant;
use weir_dataplane::types::Mac;

const PFC: FlowControl = FlowControl::Pfc { priorities: 8 };
const LITE: Format = Format::AfhLite(Variant::Public);
const FORMATS: [Format; 5] = [
    Format::Standard,
    Format::AfhGen1,
    Format::AfhGen2(Variant::Public),
    Format::AfhGen2(Variant::RcLink),
    LITE,
];
const GROUP: frame::Station =
    frame::Station { mac: Mac([3, 0, 0, 0, 0, 0x77]), ip: std::net::Ipv4Addr::BROADCAST };

fn peer(n: usize) -> frame::Station {
    frame::Station { mac: mac(n), ip: ip(n) }
}

fn config(n: usize, format: Format) -> StationConfig {
    let marks = PauseWatermarks::unicast(RATE, 20 * DELAY);
    let endpoint = EndpointConfig {
        codec: Codec { crc: true, ..Codec::new(format) },
        station: peer(n),
        vlan: Some(0),
        classes: ClassMap::priorities(),
        flow_control: PFC,
        rate: RATE,
        request: marks,
        response: marks,
        multicast: PauseWatermarks::multicast(RATE, 20 * DELAY),
        cnp_merge: 50_000,
        ecn: format == Format::Standard,
        retransmit: true,
    };
    StationConfig { endpoint, slack: 0, read_rate: None }
}

fn pair(to: usize, peer_qp: u16) -> PairConfig {
    PairConfig {
        peer: peer(to),
        route: Route::Qp { peer_qp, class: Class::Request(0) },
        pkey: 1,
        reliability: Reliability { ack_timeout: 1_000_000, retries: Some(255), ..Reliability::default() },
        window: Window::Us8,
        rate: RATE,
        backoff: None,
        expect: None,
        stream: None,
    }
}

fn stream(messages: u64) -> Option<Stream> {
    Some(Stream { bytes: 1000, messages: Some(messages), start: 0 })
}

fn counters(net: &Net, station: usize) -> Counters {
    match net.stations[station].report(net.now).adapter {
        EndpointCounters::RcLink(counters) => counters,
        EndpointCounters::Roce(_) => unreachable!("all are RC Link"),
    }
}

fn wrong(p: &Progress) -> u64 {
    p.out_of_order + p.corrupted
}

/// Both stations send to each other.
fn two(config: impl Fn(usize) -> StationConfig, messages: u64, limits: Limits) -> Net {
    let stations = [0, 1].map(|n| {
        let mut station = Station::new(config(n)).unwrap();
        let to = PairConfig { stream: stream(messages), expect: Some(messages), ..pair(1 - n, 0) };
        assert_eq!(station.add(to), Ok(0));
        station
    });
    Net::new(stations.into(), limits)
}

#[test]
fn all_formats_arrive_checked_and_at_line_rate() {
    for format in FORMATS {
        let mut net = two(|n| config(n, format), 2000, OPEN);
        assert!(net.run(SECOND), "{format:?}");
        for at in 0..2 {
            let p = net.progress(at)[0];
            assert_eq!((p.posted, p.acknowledged, p.received, p.lost), (2000, 2000, 2000, 0), "{format:?}");
            assert_eq!((p.received_bytes, wrong(&p), p.data_frames), (2_000_000, 0, 2000));
            let report = net.stations[at].report(net.now);
            assert_eq!((report.rx_other, report.adapter.malformed()), (0, 0));
            assert_eq!(counters(&net, at).tx_acks > 0, format != LITE);
        }
        // 2000 frames of 1060 bytes at 10 Gb/s.
        assert!((1_600_000..1_850_000).contains(&net.now), "{format:?} {}", net.now);
    }
}

#[test]
fn sw130_losses_cost_time_but_no_message() {
    for format in &FORMATS[..4] {
        let mut net = two(|n| config(n, *format), 3000, Limits { lose: 97, ..OPEN });
        assert!(net.run(SECOND), "{format:?}");
        for at in 0..2 {
            let p = net.progress(at)[0];
            assert_eq!((p.received, p.lost, wrong(&p)), (3000, 0, 0));
            assert!(p.data_frames > 3000 && net.stations[at].report(0).adapter.retransmitted() > 0);
        }
        assert!(net.dropped > 50);
    }
}

#[test]
fn sw131_lite_loses_and_counts() {
    let standard = |n| {
        let all = config(n, Format::Standard);
        StationConfig { endpoint: EndpointConfig { retransmit: false, ..all.endpoint }, ..all }
    };
    for lite in [&(|n| config(n, LITE)) as &dyn Fn(usize) -> StationConfig, &standard] {
        let mut net = two(lite, 3000, Limits { lose: 97, ..OPEN });
        net.run(10_000_000);
        let lost: u64 = (0..2).map(|at| net.progress(at)[0].lost).sum();
        for at in 0..2 {
            let p = net.progress(at)[0];
            assert_eq!((p.acknowledged, p.data_frames, wrong(&p)), (3000, 3000, 0), "sent once, all right");
            assert!(p.received + p.lost <= 3000 && p.received + p.lost > 2990, "{p:?}");
            assert_eq!(counters(&net, at).tx_acks, 0);
        }
        // The last ones of each side are missed by nobody.
        assert!(lost > 0 && net.dropped - lost <= 2, "{lost} of {}", net.dropped);
    }
}

/// Three stations send to station 0, which reads at `read_rate`.
fn incast(
    base: impl Fn(usize) -> StationConfig,
    read_rate: Option<u64>,
    change: fn(PairConfig) -> PairConfig,
    limits: Limits,
) -> Net {
    let mut receiver = Station::new(StationConfig { read_rate, ..base(0) }).unwrap();
    let mut stations = Vec::new();
    for n in 1..=3 {
        receiver.add(PairConfig { expect: Some(2000), ..pair(n, 0) }).unwrap();
        let mut sender = Station::new(base(n)).unwrap();
        sender.add(change(PairConfig { stream: stream(2000), ..pair(0, n as u16 - 1) })).unwrap();
        stations.push(sender);
    }
    stations.insert(0, receiver);
    Net::new(stations, limits)
}

#[test]
fn sw024_a_slow_reader_pauses_the_switch_and_the_switch_the_senders() {
    for format in [Format::Standard, LITE] {
        // The last priority holds control frames back, not data.
        let limits = Limits { pause: 100_000, drop: 400_000, ..OPEN };
        let mut net = incast(|n| config(n, format), Some(RATE / 4), |pair| pair, limits);
        assert!(net.run(SECOND), "{format:?}");
        assert_eq!(net.dropped, 0);
        assert!(net.pfc_from[0] > 3, "{:?}", net.pfc_from);
        let receiver = counters(&net, 0);
        assert_eq!((receiver.rx_no_room, receiver.tx_pfc > net.pfc_from[0]), (0, true), "pauses and resumes");
        for p in net.progress(0) {
            assert_eq!((p.received, p.lost, wrong(&p)), (2000, 0, 0));
        }
        // 6 MB of payload at a quarter of 10 Gb/s.
        assert!(net.now > 19_000_000, "{}", net.now);
        for n in 1..4 {
            let report = net.stations[n].report(net.now);
            assert!(report.paused_ns[3] > 1_000_000, "{report:?}");
            assert_eq!((report.adapter.retransmitted(), report.adapter.tx_pfc()), (0, 0));
        }
    }
}

#[test]
fn sw042_marks_become_cnps_and_cnps_fewer_bytes_per_window() {
    let backs_off = |pair: PairConfig| {
        let backoff = BackoffParams { least: 200, cut_period: 50_000, raise_period: 50_000, raise: 200 };
        PairConfig { backoff: Some(backoff), ..pair }
    };
    let limits = Limits { mark: 30_000, ..OPEN };
    let standard = |n| config(n, Format::Standard);
    let mut net = incast(standard, None, backs_off, limits);
    assert!(net.run(SECOND));
    for n in 1..4 {
        let p = net.progress(n)[0];
        assert!(p.cnps > 0 && p.lowest_rate <= RATE / 2, "{p:?}");
        assert_eq!(p.acknowledged, 2000);
    }
    let receiver = counters(&net, 0);
    assert!(receiver.rx_ce > receiver.tx_cnp && receiver.tx_cnp > 0, "merged: {receiver:?}");
    let shallow = net.deepest;
    let mut net = incast(standard, None, |pair| pair, limits);
    assert!(net.run(SECOND));
    assert!(net.deepest > shallow, "{} {shallow}", net.deepest);
    assert!(net.progress(1)[0].cnps > 0, "seen, and ignored");
    // AFH frames can not be marked (SW-035).
    let mut net = incast(|n| config(n, Format::AfhGen1), None, backs_off, limits);
    assert!(net.run(SECOND));
    assert_eq!((counters(&net, 0).rx_ce, net.progress(1)[0].cnps), (0, 0));
}

#[test]
fn sw021_credits_hold_the_senders_where_pauses_would() {
    let credits = CreditConfig { size: 256, overhead: 4, limit: 120, report_every: 2 };
    let base = |n| {
        let all = config(n, Format::AfhGen1);
        let flow_control = FlowControl::Cbfc { credits, interval: 20_000 };
        let endpoint = EndpointConfig { classes: ClassMap::channels(), flow_control, ..all.endpoint };
        StationConfig { endpoint, ..all }
    };
    let mut net = incast(base, Some(RATE / 4), |pair| pair, OPEN);
    assert!(net.run(SECOND));
    assert_eq!((net.pfc_from.iter().sum::<u64>(), counters(&net, 0).rx_no_room), (0, 0));
    for p in net.progress(0) {
        assert_eq!((p.received, wrong(&p)), (2000, 0));
    }
    assert!(counters(&net, 0).tx_credit > 0);
    // No more under way than three senders have credits for.
    assert!(net.deepest <= 3 * 120 * 256 + 3 * 1402, "{}", net.deepest);
}

#[test]
fn multicast_and_raw_frames_are_checked_too() {
    for format in FORMATS {
        let routes = if format == LITE { &[Route::Multicast][..] } else { &[Route::Multicast, Route::Raw] };
        let mut stations: Vec<_> = (0..3).map(|n| Station::new(config(n, format)).unwrap()).collect();
        for route in routes {
            let to = if *route == Route::Raw { peer(1) } else { GROUP };
            // Many to many: what is not paced by a queue pair is paced by its own rate.
            let rate = RATE / 4;
            let sends = PairConfig { route: *route, peer: to, rate, stream: stream(500), ..pair(1, 0) };
            stations[0].add(sends).unwrap();
            stations[1].add(PairConfig { route: *route, expect: Some(500), ..pair(0, 0) }).unwrap();
        }
        stations[2].add(PairConfig { route: Route::Multicast, expect: Some(500), ..pair(0, 0) }).unwrap();
        let mut net = Net::new(stations, OPEN);
        assert!(net.run(SECOND), "{format:?}");
        for p in net.progress(1).iter().chain(&net.progress(2)) {
            assert_eq!((p.received, p.lost, wrong(p)), (500, 0, 0), "{format:?}");
        }
        for p in net.progress(0) {
            assert_eq!((p.acknowledged, p.data_frames), (500, 500));
        }
        assert!((0..3).all(|at| net.stations[at].report(0).rx_other == 0));
    }
}

#[test]
fn wrong_content_and_strangers_are_seen() {
    // The peer takes us for its second queue pair, whose content is another.
    let mut a = Station::new(config(0, Format::AfhGen1)).unwrap();
    let mut b = Station::new(config(1, Format::AfhGen1)).unwrap();
    a.add(PairConfig { stream: stream(20), ..pair(1, 0) }).unwrap();
    b.add(pair(0, 5)).unwrap();
    let mut net = Net::new(vec![a, b], OPEN);
    net.run(50_000_000);
    let into = net.progress(1)[0];
    assert_eq!((into.received, into.corrupted), (0, 20));
    let stranger = &mut net.stations[1];
    stranger.handle_frame(&[2; 5], 0);
    stranger.handle_frame(&[2; 60], 0);
    let report = stranger.report(0);
    assert_eq!((report.rx_other, report.rx_flooded), (1, 1));
}

#[test]
fn what_does_not_fit_is_refused() {
    let mut a = Station::new(config(0, LITE)).unwrap();
    let raw = PairConfig { route: Route::Raw, ..pair(1, 0) };
    assert_eq!(a.add(raw), Err(StationError::Raw));
    let short = PairConfig { stream: Some(Stream { bytes: 40, ..stream(1).unwrap() }), ..pair(1, 0) };
    assert_eq!(a.add(short), Err(StationError::Message { bytes: 40, least: 48, most: 1344 }));
    assert!(a.add(pair(1, 0)).is_ok());
    assert!(matches!(a.add(pair(1, 1)), Err(StationError::Endpoint(_))), "one per peer and channel");
    let idle = BackoffParams { least: 0, cut_period: 1, raise_period: 1, raise: 1 };
    let idle = PairConfig { backoff: Some(idle), ..pair(2, 0) };
    assert!(matches!(a.add(idle), Err(StationError::Backoff(_))));
}
