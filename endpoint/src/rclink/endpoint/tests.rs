use super::*;
use crate::rclink::cbfc::{CreditConfig, CreditError};
use crate::rclink::cc_window::Window;
use crate::rclink::class::ClassMap;
use crate::rclink::frame::{Codec, Format, Frame};
use crate::rclink::requester::Reliability;
use crate::rclink::watermark::PauseWatermarks;
use proptest::prelude::*;
use std::net::Ipv4Addr;
use weir_dataplane::parse::Variant;
use weir_dataplane::pfc::frame::CONTROL_ETHERTYPE;
use weir_dataplane::rng::Rng;
use weir_dataplane::types::{Mac, wire_bytes};

const RATE: u64 = 100_000_000_000;
pub(super) const DELAY: Nanos = 1_000;
pub(super) const GEN2: Format = Format::AfhGen2(Variant::Public);
pub(super) const PFC: FlowControl = FlowControl::Pfc { priorities: 0xff };
pub(super) const LITE: Format = Format::AfhLite(Variant::Public);

fn station(n: u8) -> Station {
    Station { mac: Mac([2, 0, 0, 0, 0, n]), ip: Ipv4Addr::new(10, 0, 0, n) }
}

fn credits() -> FlowControl {
    let credits = CreditConfig { size: 256, overhead: 4, limit: 240, report_every: 2 };
    FlowControl::Cbfc { credits, interval: 20_000 }
}

pub(super) fn config(n: u8, format: Format, flow_control: FlowControl) -> EndpointConfig {
    let marks = PauseWatermarks::unicast(RATE, 2 * DELAY + 1_000);
    EndpointConfig {
        codec: Codec { crc: true, ..Codec::new(format) },
        station: station(n),
        vlan: None,
        classes: if flow_control == PFC { ClassMap::priorities() } else { ClassMap::channels() },
        flow_control,
        rate: RATE,
        request: marks,
        response: marks,
        multicast: PauseWatermarks::multicast(RATE, 2 * DELAY + 1_000),
        cnp_merge: 10_000,
        ecn: true,
        retransmit: true,
    }
}

pub(super) fn qp(peer: u8, class: Class) -> QpConfig {
    QpConfig {
        peer: station(peer),
        peer_qp: 0,
        class,
        pkey: 3,
        depth: 1024,
        reliability: Reliability { ack_timeout: 30_000, ..Reliability::default() },
        window: Window::Us4,
        length_thr: 1 << 20,
        slack: 0,
    }
}

fn pair(format: Format, flow_control: FlowControl) -> Net {
    pair_of(|n| config(n, format, flow_control))
}

fn pair_of(config: impl Fn(u8) -> EndpointConfig) -> Net {
    let links = [1, 2].map(|n| {
        let mut link = Endpoint::new(config(n)).unwrap();
        assert_eq!(link.create_qp(qp(3 - n, Class::Request(0))), Ok(0));
        link
    });
    Net::new(links)
}

/// Two endpoints on a cable (or a path of switches, which is longer) with serialization.
struct Net {
    links: [Endpoint; 2],
    free: [Nanos; 2],
    flying: VecDeque<(Nanos, usize, Vec<u8>)>,
    now: Nanos,
    /// Ends do not read what arrived before this time.
    reads_from: Nanos,
    events: [Vec<(Nanos, Event)>; 2],
    /// Credits out at most, as seen after every frame.
    most_credits: u32,
    pfc_seen: u64,
}

impl Net {
    fn new(links: [Endpoint; 2]) -> Self {
        Self {
            links,
            free: [0; 2],
            flying: VecDeque::new(),
            now: 0,
            reads_from: 0,
            events: Default::default(),
            most_credits: 0,
            pfc_seen: 0,
        }
    }

    fn run(&mut self, until: Nanos, mut medium: impl FnMut(usize, &mut Vec<u8>) -> bool) {
        while self.now < until {
            let now = self.now;
            while self.flying.front().is_some_and(|(at, ..)| *at <= now) {
                let (_, to, bytes) = self.flying.pop_front().unwrap();
                self.links[to].handle_frame(&bytes, now);
            }
            let mut next = until;
            for from in 0..2 {
                let link = &mut self.links[from];
                link.handle_timeout(now);
                if now >= self.reads_from {
                    while let Some(event) = link.poll_event(now) {
                        self.events[from].push((now, event));
                    }
                } else {
                    next = next.min(self.reads_from);
                }
                if self.free[from] <= now
                    && let Some(frame) = link.poll_transmit(now)
                {
                    self.free[from] = now + wire_bytes(frame.bytes.len() as u64) * 8 * 1_000_000_000 / RATE;
                    let mut bytes = frame.bytes.to_vec();
                    self.pfc_seen += u64::from(bytes[12..14] == CONTROL_ETHERTYPE.to_be_bytes());
                    if medium(from, &mut bytes) {
                        self.flying.push_back((now + DELAY, 1 - from, bytes));
                    }
                }
                self.most_credits = self.most_credits.max(link.credits_in_use(0).unwrap_or(0));
                let due = link.next_timeout(now).unwrap_or(NEVER);
                next = next.min(due.max(self.free[from]).max(now + 1));
            }
            self.flying.make_contiguous().sort_by_key(|(at, ..)| *at);
            self.now = next.min(self.flying.front().map_or(NEVER, |(at, ..)| *at));
        }
    }

    fn post(&mut self, from: usize, count: u64, len: usize) {
        for n in 0..count {
            self.links[from].post(0, message(n, len)).unwrap();
        }
    }

    fn received(&self, at: usize) -> Vec<&[u8]> {
        let payload = |event| match event {
            &(_, Event::Received { qp: 0, ref payload }) => Some(&payload[..]),
            _ => None,
        };
        self.events[at].iter().filter_map(payload).collect()
    }

    fn assert_in_order(&self, at: usize, count: u64, len: usize) {
        let got = self.received(at);
        assert_eq!(got.len() as u64, count);
        got.iter().enumerate().for_each(|(n, got)| assert_eq!(*got, message(n as u64, len)));
    }

    fn acknowledged(&self, at: usize) -> u64 {
        let count = |event: &(Nanos, Event)| match event.1 {
            Event::Acknowledged { messages, .. } => messages,
            _ => 0,
        };
        self.events[at].iter().map(count).sum()
    }
}

pub(super) fn message(n: u64, len: usize) -> Vec<u8> {
    let mut payload = n.to_be_bytes().to_vec();
    payload.resize(len, n as u8);
    payload
}

/// Loses one frame in `one_in`, control frames included.
pub(super) fn losing(one_in: u64, seed: u64) -> impl FnMut(usize, &mut Vec<u8>) -> bool {
    let mut rng = Rng::new(seed);
    move |_, _| !rng.next_u64().is_multiple_of(one_in)
}

#[test]
fn sw130_a_direct_link_with_credits_and_go_back_n() {
    for format in [Format::AfhGen1, GEN2] {
        let mut net = pair(format, credits());
        net.post(0, 1000, 1344);
        net.run(2_000_000, |_, _| true);
        net.assert_in_order(1, 1000, 1344);
        assert_eq!(net.acknowledged(0), 1000);
        assert_eq!(net.links[0].counters().tx_retransmitted, 0);
        assert_eq!((net.pfc_seen, net.links[0].credits_in_use(0)), (0, Some(0)));
        assert!(net.most_credits <= 240 && net.most_credits > 50, "{}", net.most_credits);
    }
}

#[test]
fn sw130_losses_cost_time_but_no_messages_and_no_credits() {
    for seed in 0..20 {
        let mut net = pair(GEN2, credits());
        net.post(0, 300, 700);
        net.run(20_000_000, losing(20, seed));
        net.assert_in_order(1, 300, 700);
        assert_eq!(net.acknowledged(0), 300);
        assert!(net.links[0].counters().tx_retransmitted > 0);
        net.run(40_000_000, |_, _| true);
        assert_eq!(net.links[0].credits_in_use(0), Some(0));
    }
}

#[test]
fn sw023_credits_and_round_trip_bound_the_rate() {
    // 24 credits are 4 frames. They come back after two transits and a report: the loop is the limit,
    // not the link.
    let few = FlowControl::Cbfc {
        credits: CreditConfig { size: 256, overhead: 4, limit: 24, report_every: 1 },
        interval: 20_000,
    };
    let frame_ns = wire_bytes(1370) * 8 / 100;
    let mut net = pair(GEN2, few);
    net.post(0, 1000, 1344);
    net.run(200_000, |_, _| true);
    let got = net.received(1).len() as u64;
    let (least, most) = (200_000 / (2 * DELAY + 5 * frame_ns) * 4, 200_000 / (2 * DELAY) * 4 + 4);
    assert!((least..=most).contains(&got), "{got} not in {least}..={most}");
    assert!(net.most_credits <= 24);
}

#[test]
fn sw022_without_a_reader_credits_hold_the_sender_back_and_nothing_is_lost() {
    let mut net = pair(GEN2, credits());
    net.reads_from = 500_000;
    net.post(0, 200, 1344);
    net.run(500_000, |_, _| true);
    assert_eq!(net.links[1].counters().rx_data, 40);
    net.run(3_000_000, |_, _| true);
    net.assert_in_order(1, 200, 1344);
    assert_eq!(net.links[1].counters().rx_no_room, 0);
}

#[test]
fn sw024_without_a_reader_watermarks_pause_the_sender_and_nothing_is_lost() {
    for format in [Format::Standard, GEN2, LITE] {
        let mut net = pair(format, PFC);
        net.reads_from = 2_000_000;
        net.post(0, 1000, 1344);
        net.run(2_000_000, |_, _| true);
        let taken = net.links[1].counters().rx_data;
        assert!((32..200).contains(&taken), "{taken}");
        assert!(net.pfc_seen >= 2, "refreshed");
        // The request priority, and no other.
        assert!(net.links[0].reaction().paused_ns(3, net.now) > 1_900_000);
        assert_eq!(net.links[0].reaction().paused_ns(2, net.now), 0);
        net.run(4_000_000, |_, _| true);
        net.assert_in_order(1, 1000, 1344);
        assert_eq!(net.links[1].counters().rx_no_room, 0);
    }
}

#[test]
fn sw131_lite_mode_over_a_clean_wire_delivers_in_every_format() {
    for format in [LITE, Format::Standard, Format::AfhGen1, GEN2] {
        for flow_control in [PFC, credits()] {
            let lite = |n| EndpointConfig { retransmit: false, ..config(n, format, flow_control) };
            let mut net = pair_of(lite);
            net.post(0, 500, 1344);
            net.run(2_000_000, |_, _| true);
            net.assert_in_order(1, 500, 1344);
            let (sender, receiver) = (net.links[0].counters(), net.links[1].counters());
            assert_eq!((receiver.tx_acks, receiver.rx_out_of_sequence, sender.tx_retransmitted), (0, 0, 0));
            assert_eq!(net.links[0].credits_in_use(0), Some(0));
        }
    }
}

#[test]
fn sw131_without_retransmission_a_loss_is_a_loss() {
    let mut net = pair_of(|n| EndpointConfig { retransmit: false, ..config(n, Format::Standard, PFC) });
    net.post(0, 500, 1344);
    net.run(20_000_000, losing(10, 4));
    let got = net.received(1).len() as u64;
    let (sender, receiver) = (net.links[0].counters(), net.links[1].counters());
    assert_eq!((sender.tx_data, sender.timeouts, receiver.rx_data), (500, 0, got));
    assert!((400..490).contains(&got), "{got}");
    // Neighbours that are lost together are one gap.
    assert!(receiver.rx_out_of_sequence > 20 && receiver.rx_out_of_sequence <= 500 - got);
}

#[test]
fn sw015_lite_loses_what_the_network_loses_but_not_the_credits() {
    let mut net = pair(LITE, credits());
    net.post(0, 500, 1344);
    net.run(20_000_000, losing(10, 4));
    let got = net.received(1).len();
    assert!((400..490).contains(&got), "{got}");
    net.run(21_000_000, |_, _| true);
    assert_eq!(net.links[0].credits_in_use(0), Some(0));
}

#[test]
fn sw132_go_back_n_over_a_wire_that_marks_and_loses() {
    let mut net = pair(Format::Standard, PFC);
    net.post(0, 1000, 1000);
    let mut rng = Rng::new(9);
    net.run(20_000_000, |_, bytes| {
        // The wire marks one in eight, and loses one in fifty.
        if bytes[12..14] == [8, 0] && bytes[15] & 3 == 2 && rng.next_u64().is_multiple_of(8) {
            bytes[15] |= 3;
            let checksum = u16::from_be_bytes([bytes[24], bytes[25]]) - 1;
            bytes[24..26].copy_from_slice(&checksum.to_be_bytes());
        }
        !rng.next_u64().is_multiple_of(50)
    });
    net.assert_in_order(1, 1000, 1000);
    assert_eq!(net.acknowledged(0), 1000);
    let (sender, receiver) = (net.links[0].counters(), net.links[1].counters());
    assert_eq!(receiver.rx_malformed, 0);
    assert!(receiver.rx_ce > 50);
    // SW-043: merged to one in 10 us.
    assert!(receiver.tx_cnp > 1 && receiver.tx_cnp < receiver.rx_ce / 2);
    assert!(sender.rx_cnp > 0 && sender.rx_cnp <= receiver.tx_cnp);
    assert!(net.events[0].iter().any(|(_, event)| *event == Event::Cnp(0)));
}

#[test]
fn dev64_one_nak_names_a_gap_and_one_step_back_repairs_it() {
    let mut net = pair(Format::AfhGen1, PFC);
    net.post(0, 100, 500);
    let mut sent = 0;
    net.run(1_000_000, |from, _| {
        sent += u64::from(from == 0);
        from == 1 || sent != 10
    });
    net.assert_in_order(1, 100, 500);
    let (sender, receiver) = (net.links[0].counters(), net.links[1].counters());
    assert!(receiver.rx_out_of_sequence > 1);
    assert_eq!(sender.timeouts, 0);
    // What came after the gap, and the lost one itself.
    assert_eq!(sender.tx_retransmitted, receiver.rx_out_of_sequence + 1);
}

#[test]
fn dev72_sequence_numbers_wrap() {
    let mut net = pair(GEN2, PFC);
    for round in 0..10 {
        net.post(0, 1000, 64);
        net.run((round + 1) * 1_000_000, losing(100, round));
        net.run((round + 1) * 1_000_000 + 900_000, |_, _| true);
    }
    assert_eq!(net.received(1).len(), 10_000);
    assert!(net.received(1).iter().enumerate().all(|(n, got)| *got == message(n as u64 % 1000, 64)));
}

#[test]
fn sw040_the_window_bounds_the_rate() {
    for payload in [1344, 64] {
        let mut net = pair(GEN2, PFC);
        // 1600 bytes on the wire in 4.096 us are 3.125 Gb/s.
        net.links[0].set_threshold(0, 1600, 0).unwrap();
        net.post(0, 1000, payload);
        net.run(200_000, |_, _| true);
        let frame = net.links[0].config.codec.frame_len(payload, false) as u64;
        let bytes = net.links[0].counters().tx_data * wire_bytes(frame);
        let expected = 200_000 * 25 / 64;
        assert!(bytes.abs_diff(expected) <= 1600 + 1394, "{payload}: {bytes} {expected}");
    }
}

#[test]
fn the_round_trip_is_measured() {
    let mut net = pair(GEN2, PFC);
    net.post(0, 1, 100);
    net.run(100_000, |_, _| true);
    let round_trip = net.links[0].round_trip(0).unwrap();
    assert!(round_trip.abs_diff(2 * DELAY) <= 2 * TIMESTAMP_NS, "{round_trip}");
}

#[test]
fn a_peer_that_is_gone_fails_the_queue_pair() {
    let mut net = pair(GEN2, PFC);
    net.post(0, 10, 100);
    net.run(1_000_000, |_, _| false);
    assert_eq!(net.events[0].last().map(|(_, event)| event), Some(&Event::Failed(0)));
    assert_eq!(net.links[0].counters().timeouts, 8);
    assert_eq!(net.links[0].post(0, vec![0; 9]), Err(PostError::Qp(0)));
    assert_eq!(net.links[0].next_timeout(net.now), None);
}

#[test]
fn multicast_and_raw_frames_arrive() {
    let mut net = pair(Format::AfhGen1, PFC);
    let group = Station { mac: Mac([3, 0, 0, 0, 0, 9]), ip: Ipv4Addr::new(239, 0, 0, 9) };
    let arp = [&[0xff; 6][..], &station(1).mac.0, &[8, 6], &[0; 46]].concat();
    net.links[0].post_multicast(group, vec![4; 77]).unwrap();
    net.links[0].post_raw(arp.clone()).unwrap();
    net.run(100_000, |_, _| true);
    let events: Vec<_> = net.events[1].iter().map(|(_, event)| event.clone()).collect();
    assert_eq!(events, [Event::Multicast { src: 1, payload: vec![4; 77] }, Event::Raw(arp)]);
    let mut lite = pair(LITE, PFC);
    assert_eq!(lite.links[0].post_raw(vec![0; 60]), Err(PostError::Length(60)));
    assert_eq!(lite.links[0].post(0, vec![0; 47]), Err(PostError::Length(47)));
}

#[test]
fn what_does_not_fit_is_refused() {
    let mut link = Endpoint::new(config(1, LITE, PFC)).unwrap();
    let good = qp(2, Class::Request(0));
    assert_eq!(link.create_qp(good), Ok(0));
    // Banks 0 and 1 share a priority.
    assert_eq!(link.create_qp(qp(2, Class::Request(1))), Err(EndpointError::Channel(3)));
    assert_eq!(link.create_qp(qp(2, Class::Ack)), Err(EndpointError::Class(Class::Ack)));
    assert_eq!(link.create_qp(QpConfig { peer_qp: 8192, ..good }), Err(EndpointError::PeerQp(8192)));
    let wide = Reliability { window: 2049, ..Reliability::default() };
    assert_eq!(link.create_qp(QpConfig { reliability: wide, ..good }), Err(EndpointError::Window(2049)));
    assert!(matches!(link.create_qp(QpConfig { length_thr: 0, ..good }), Err(EndpointError::Threshold(_))));
    let FlowControl::Cbfc { credits, interval } = credits() else { panic!() };
    let odd = FlowControl::Cbfc { credits: CreditConfig { size: 100, ..credits }, interval };
    assert_eq!(
        Endpoint::new(config(1, GEN2, odd)).err(),
        Some(EndpointError::Credits(CreditError::Size(100)))
    );
    let full = vec![0; 64];
    let mut link = Endpoint::new(config(1, LITE, PFC)).unwrap();
    link.create_qp(QpConfig { depth: 1, ..good }).unwrap();
    link.post(0, full.clone()).unwrap();
    assert_eq!(link.post(0, full.clone()), Err(PostError::Full(full)));
}

proptest! {
    #[test]
    fn no_frame_panics(
        mut frame in proptest::collection::vec(any::<u8>(), 0..120),
        shape in 0usize..4,
        cbfc in any::<bool>(),
    ) {
        let format = [Format::Standard, Format::AfhGen1, GEN2, LITE][shape];
        let mut net = pair(format, if cbfc { credits() } else { PFC });
        // Headers that lead deep into the code, then whatever comes.
        let codec = Codec::new(format);
        let sound: Vec<u8> = {
            let link = &mut net.links[0];
            link.post(0, vec![1; 64]).unwrap();
            link.poll_transmit(0).unwrap().bytes.to_vec()
        };
        let keep = sound.len().min(frame.len()).min(50);
        let at = frame.first().map_or(0, |b| usize::from(*b) % 50).min(keep);
        frame[..at].copy_from_slice(&sound[..at]);
        let _: Result<Frame<'_>, _> = codec.read(&frame);
        for link in &mut net.links {
            link.handle_frame(&frame, 5);
            link.handle_timeout(1_000_000);
            while link.poll_event(7).is_some() {}
            while link.poll_transmit(2_000_000).is_some() {}
        }
    }
}
