//! Two NICs and a wire that may lose, mark and delay.

use super::frame::hear;
use super::*;
use crate::dcqcn::standard::Params;
use crate::roce::frame::Frame as Roce;
use crate::roce::wire::Opcode;
use std::net::Ipv4Addr;
use weir_dataplane::ecn;
use weir_dataplane::frame::Frame;
use weir_dataplane::parse::{Kind, Profile};
use weir_dataplane::pfc::frame::PfcFrame;
use weir_dataplane::types::{Mac, Nanos};

const RATE: u64 = 100_000_000_000;

fn nic() -> Nic {
    Nic::new(NicConfig { rate: RATE, obey: 1 << 3, control_priority: 6, cnp_interval: 50_000 })
}

fn flow(bytes: u64, pace: Pace, transport: Transport) -> Flow {
    Flow {
        id: 7,
        bytes,
        payload: 1000,
        start: 100,
        priority: 3,
        dscp: 26,
        transport,
        pace,
        ack_every: 4,
        timeout: 100_000,
    }
}

fn route(from: u8, to: u8) -> Route {
    Route {
        src: Mac([2, 0, 0, 0, 0, from]),
        dst: Mac([2, 0, 0, 0, 0, to]),
        src_ip: Ipv4Addr::new(10, 0, 0, from),
        dst_ip: Ipv4Addr::new(10, 0, 0, to),
        qpn: 0,
        src_port: 0xc000,
    }
}

fn pair(flow: Flow) -> [Nic; 2] {
    let mut nics = [nic(), nic()];
    nics[0].send(flow, &route(1, 2)).unwrap();
    nics[1].expect(flow, route(2, 1));
    nics
}

/// Runs both ends, a frame per 90 ns and direction, 1 us apart, until nothing moves or `until`.
/// `wire` may change a frame or lose it.
fn run(
    nics: &mut [Nic; 2],
    until: Nanos,
    mut wire: impl FnMut(usize, u64, &mut HeaderFrame) -> bool,
) -> Nanos {
    let mut flying: std::collections::VecDeque<(Nanos, usize, HeaderFrame)> = [].into();
    let (mut now, mut sent) = (0, [0u64; 2]);
    while now < until {
        while flying.front().is_some_and(|(at, ..)| *at <= now) {
            let (_, to, frame) = flying.pop_front().unwrap();
            nics[to].handle_frame(frame.bytes(), now);
        }
        for from in 0..2 {
            if let Some(mut frame) = nics[from].poll_transmit(now) {
                sent[from] += 1;
                if wire(from, sent[from], &mut frame) {
                    flying.push_back((now + 1000, 1 - from, frame));
                }
            }
        }
        let [a, b] = nics;
        if flying.is_empty() && a.next_transmit(now).is_none() && b.next_transmit(now).is_none() {
            break;
        }
        now += 90;
    }
    now
}

#[test]
fn headers_are_what_the_switch_and_the_transport_read() {
    let mut nics = pair(flow(2500, Pace::Line, Transport::Reliable));
    let profile = Profile::standard();
    let mut opcodes = Vec::new();
    for len in [1058, 1058, 558] {
        let frame = nics[0].poll_transmit(1_000_000).unwrap();
        assert_eq!(frame.len(), len);
        let parsed = profile.parse(frame.bytes(), frame.len()).unwrap();
        assert_eq!((parsed.kind, parsed.dscp, parsed.malformed_l3), (Kind::Data, Some(26), false));
        opcodes.push(hear(frame.bytes()).unwrap().opcode);
        // With the payload put back the full transport agrees but for the ICRC.
        let mut whole = frame.bytes().to_vec();
        whole.resize(len, 0);
        let refused = Roce::parse(&whole).unwrap_err();
        assert_eq!(refused.to_string(), "wrong invariant CRC", "checksum and lengths are right");
        nics[1].handle_frame(frame.bytes(), 1_000_100);
    }
    assert_eq!(opcodes, [Opcode::RC_SEND_FIRST, Opcode::RC_SEND_MIDDLE, Opcode::RC_SEND_LAST]);
    let ack = nics[1].poll_transmit(1_000_200).unwrap();
    assert_eq!(profile.parse(ack.bytes(), ack.len()).unwrap().kind, Kind::Ack);
    assert!(Roce::parse(ack.bytes()).is_ok(), "an answer is a whole frame");
}

#[test]
fn a_clean_wire_delivers_once_and_stops() {
    let mut nics = pair(flow(100_000, Pace::Line, Transport::Reliable));
    let end = run(&mut nics, 1_000_000, |_, _, _| true);
    let received = nics[1].receivers()[0].received();
    assert_eq!((received.packets, received.bytes, received.useless), (100, 100_000, 0));
    assert!(nics[0].senders()[0].is_done() && end < 20_000, "{end}");
}

#[test]
fn any_loss_pattern_is_repaired_by_go_back_n() {
    for seed in 0..40u64 {
        let mut rng = weir_dataplane::rng::Rng::new(seed);
        let mut nics = pair(flow(50_123, Pace::Line, Transport::Reliable));
        run(&mut nics, 100_000_000, |_, _, _| !rng.next_u32().is_multiple_of(10));
        let (sender, receiver) = (&nics[0].senders()[0], nics[1].receivers()[0].received());
        assert!(sender.is_done(), "seed {seed}");
        assert_eq!((receiver.packets, receiver.bytes), (51, 50_123), "seed {seed}");
        assert!(sender.sent().resent > 0 && sender.sent().packets == sender.sent().resent + 51);
    }
}

#[test]
fn a_datagram_flow_counts_what_is_missing() {
    let mut nics = pair(flow(100_000, Pace::Line, Transport::Datagram));
    run(&mut nics, 1_000_000, |_, n, _| n % 10 != 5);
    let received = nics[1].receivers()[0].received();
    assert_eq!((received.packets, received.missing, received.naks), (90, 10, 0));
    assert!(received.done.is_some() && nics[0].senders()[0].is_done());
}

#[test]
fn marks_come_back_as_cnps_and_slow_the_flow_down() {
    let pace = Pace::Dcqcn(Params::paper(RATE));
    let mut nics = pair(flow(2_000_000, pace, Transport::Reliable));
    run(&mut nics, 120_000, |from, _, frame| {
        if from == 0 {
            let place = Profile::standard().parse(frame.bytes(), frame.len()).unwrap().ecn.place;
            assert!(ecn::mark(frame.bytes_mut(), place));
        }
        true
    });
    let received = nics[1].receivers()[0].received();
    assert!((2..=3).contains(&received.cnps), "one per 50 us: {}", received.cnps);
    let rate = nics[0].senders()[0].rate().unwrap();
    assert!(rate < RATE / 3, "{rate}");
}

#[test]
fn a_paced_flow_keeps_its_rate_to_the_picosecond() {
    // 1058 B are 1082 B on the wire: 216.4 ns at 40 Gb/s.
    let mut nic = nic();
    nic.send(flow(10_000_000, Pace::Fixed(40_000_000_000), Transport::Datagram), &route(1, 2)).unwrap();
    let mut now = 0;
    for n in 0..5000u64 {
        now = nic.next_transmit(now).unwrap();
        assert_eq!(now, 100 + (n * 2164).div_ceil(10));
        assert!(nic.poll_transmit(now).is_some());
    }
}

#[test]
fn c1_pause_stops_data_but_not_answers() {
    let mut nics = pair(flow(1_000_000, Pace::Line, Transport::Reliable));
    let pause = PfcFrame::uniform(1 << 3, 1000).encode(Mac([2, 0, 0, 0, 0, 9]));
    nics[0].handle_frame(&pause, 1000);
    assert!(nics[0].poll_transmit(1001).is_none());
    // 1000 quanta of 5.12 ns.
    assert_eq!(nics[0].next_transmit(1001), Some(6120));
    assert!(nics[0].poll_transmit(6120).is_some());
    assert_eq!((nics[0].report(7000).pauses[3], nics[0].report(7000).paused_ns[3]), (1, 5120));
}

#[test]
fn strange_frames_are_counted() {
    let mut nic = nic();
    for bytes in [&[][..], &[0; 10], &[0xff; 60], &[0; 77]] {
        assert_eq!(nic.handle_frame(bytes, 0), None);
    }
    // A queue pair nobody has.
    let mut nics = pair(flow(1000, Pace::Line, Transport::Reliable));
    let frame = nics[0].poll_transmit(1000).unwrap();
    assert_eq!(nic.handle_frame(frame.bytes(), 0), None);
    assert_eq!(nic.report(0).unexpected, 5);
}
