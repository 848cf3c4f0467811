//! Two NICs and a wire that may lose, mark and delay.

use super::frame::parse_headers;
use super::*;
use crate::dcqcn::firmware::Dcqcn;
use crate::dcqcn::reaction_point::Params;
use crate::dcqcn::scheme::{Outstanding, Scheme};
use crate::roce::frame::Frame as Roce;
use crate::roce::qp::TrafficClass;
use crate::roce::wire::{Nak, Opcode, Syndrome};
use std::net::Ipv4Addr;
use weir_dataplane::ecn;
use weir_dataplane::frame::Frame;
use weir_dataplane::parse::{Kind, Profile};
use weir_dataplane::pfc::frame::PfcFrame;
use weir_dataplane::types::{Mac, Nanos};

pub(super) const RATE: u64 = 100_000_000_000;

fn nic() -> Nic {
    nic_at(RATE)
}

fn nic_at(rate: u64) -> Nic {
    Nic::new(NicConfig { rate, obey: 1 << 3, cnp: TrafficClass::of_cnps(48, 6), cnp_interval: 50_000 })
}

pub(super) fn flow(bytes: u64, pace: Pace, transport: Transport) -> Flow {
    Flow {
        id: 7,
        bytes,
        payload: 1000,
        start: 100,
        priority: 3,
        dscp: 26,
        acks_as_cnps: false,
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

pub(super) fn pair(flow: Flow) -> [Nic; 2] {
    let mut nics = [nic(), nic()];
    nics[0].send(flow, &route(1, 2)).unwrap();
    nics[1].expect(0, flow, route(2, 1));
    nics
}

/// Runs both ends, a frame per 90 ns and direction, 1 us apart, until nothing moves or `until`.
/// `wire` may change a frame or lose it.
fn run(nics: &mut [Nic; 2], until: Nanos, wire: impl FnMut(usize, u64, &mut HeaderFrame) -> bool) -> Nanos {
    run_from(nics, 0, until, wire)
}

/// The same from a time on.
fn run_from(
    nics: &mut [Nic; 2],
    begin: Nanos,
    until: Nanos,
    mut wire: impl FnMut(usize, u64, &mut HeaderFrame) -> bool,
) -> Nanos {
    let mut flying: std::collections::VecDeque<(Nanos, usize, HeaderFrame)> = [].into();
    let (mut now, mut sent, mut told) = (begin, [0u64; 2], [None; 2]);
    while now < until {
        while flying.front().is_some_and(|(at, ..)| *at <= now) {
            let (_, to, frame) = flying.pop_front().unwrap();
            nics[to].handle_frame(frame.bytes(), None, now);
            if nics[to].is_as_told() {
                let next = nics[to].next_transmit(now);
                assert!(
                    next.is_none_or(|next| told[to].is_some_and(|told| next >= told)),
                    "{next:?} {told:?}"
                );
            }
        }
        for from in 0..2 {
            if let Some(mut frame) = nics[from].poll_transmit(now) {
                sent[from] += 1;
                if wire(from, sent[from], &mut frame) {
                    flying.push_back((now + 1000, 1 - from, frame));
                }
            }
        }
        told = nics.each_mut().map(|nic| nic.next_transmit(now));
        if flying.is_empty() && told == [None; 2] {
            break;
        }
        now += 90;
    }
    now
}

#[test]
fn an_acknowledgement_lets_nobody_send_sooner() {
    let mut nics = pair(flow(20_000, Pace::Fixed(1_000_000_000), Transport::Reliable));
    let mut now = 100;
    for _ in 0..4 {
        let frame = nics[0].poll_transmit(now).unwrap();
        assert!(!nics[0].is_as_told(), "it has sent, and has not said when it sends next");
        nics[1].handle_frame(frame.bytes(), None, now);
        now = nics[0].next_transmit(now).unwrap();
    }
    let ack = nics[1].poll_transmit(now - 500).unwrap();
    assert_eq!(nics[0].next_transmit(now - 500), Some(now));
    nics[0].handle_frame(ack.bytes(), None, now - 400);
    assert!(nics[0].is_as_told());
    assert_eq!(nics[0].next_transmit(now - 400), Some(now));
    let resume = PfcFrame::uniform(1 << 3, 0).encode(Mac([2; 6]));
    nics[0].handle_frame(&resume, None, now - 300);
    assert!(!nics[0].is_as_told(), "it may be let go");
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
        assert!(profile.flow_key(frame.bytes(), frame.len()).is_some(), "a switch can keep what it decides");
        opcodes.push(parse_headers(frame.bytes()).unwrap().opcode);
        // With the payload put back the full transport agrees but for the ICRC.
        let mut whole = frame.bytes().to_vec();
        whole.resize(len, 0);
        let refused = Roce::parse(&whole).unwrap_err();
        assert_eq!(refused.to_string(), "wrong invariant CRC", "checksum and lengths are right");
        nics[1].handle_frame(frame.bytes(), None, 1_000_100);
    }
    assert_eq!(opcodes, [Opcode::RC_SEND_FIRST, Opcode::RC_SEND_MIDDLE, Opcode::RC_SEND_LAST]);
    let ack = nics[1].poll_transmit(1_000_200).unwrap();
    assert_eq!(profile.parse(ack.bytes(), ack.len()).unwrap().kind, Kind::Ack);
    assert!(profile.flow_key(ack.bytes(), ack.len()).is_some(), "of an answer, too");
    let mut whole = ack.bytes().to_vec();
    whole.resize(ack.len(), 0);
    assert_eq!(Roce::parse(&whole).unwrap_err().to_string(), "wrong invariant CRC", "the same for answers");
}

#[test]
fn a_clean_wire_delivers_once_and_stops() {
    let mut nics = pair(flow(100_000, Pace::Line, Transport::Reliable));
    let end = run(&mut nics, 1_000_000, |_, _, _| true);
    let received = nics[1].receiver(0).unwrap().received(0);
    assert_eq!((received.packets, received.bytes, received.useless), (100, 100_000, 0));
    assert!(nics[0].senders()[0].is_done() && end < 20_000, "{end}");
}

#[test]
fn any_loss_pattern_is_repaired_by_go_back_n() {
    for seed in 0..40u64 {
        let mut rng = weir_dataplane::rng::Rng::new(seed);
        let mut nics = pair(flow(50_123, Pace::Line, Transport::Reliable));
        run(&mut nics, 100_000_000, |_, _, _| !rng.next_u32().is_multiple_of(10));
        let (sender, receiver) = (&nics[0].senders()[0], nics[1].receiver(0).unwrap().received(0));
        assert!(sender.is_done(), "seed {seed}");
        assert_eq!((receiver.packets, receiver.bytes), (51, 50_123), "seed {seed}");
        assert!(sender.sent(0).resent > 0 && sender.sent(0).packets == sender.sent(0).resent + 51);
    }
}

#[test]
fn a_datagram_flow_counts_what_is_missing() {
    let mut nics = pair(flow(100_000, Pace::Line, Transport::Unreliable));
    run(&mut nics, 1_000_000, |_, n, _| n % 10 != 5);
    let received = nics[1].receiver(0).unwrap().received(0);
    assert_eq!((received.packets, received.missing, received.naks), (90, 10, 0));
    assert_eq!((received.lost, received.delivered()), (10_000, None), "not delivered");
    assert!(received.ended.is_some() && nics[0].senders()[0].is_done());
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
    let received = nics[1].receiver(0).unwrap().received(0);
    assert!((2..=3).contains(&received.cnps), "one per 50 us: {}", received.cnps);
    let rate = nics[0].senders()[0].rate().unwrap();
    assert!(rate < RATE / 3, "{rate}");
}

#[test]
fn a_paced_flow_keeps_its_rate_to_the_picosecond() {
    // 1058 B are 1082 B on the wire: 216.4 ns at 40 Gb/s, and no whole number of picoseconds at 7.
    for gbps in [40, 7] {
        let mut nic = nic();
        let pace = Pace::Fixed(gbps * 1_000_000_000);
        nic.send(flow(10_000_000, pace, Transport::Unreliable), &route(1, 2)).unwrap();
        let mut now = 0;
        for n in 0..5000u64 {
            now = nic.next_transmit(now).unwrap();
            assert_eq!(now, 100 + (n * 8 * 1082).div_ceil(gbps), "{gbps}, {n}");
            assert!(nic.poll_transmit(now).is_some());
        }
    }
}

/// A rate that an algorithm has is kept over fractions of a nanosecond, too: at the rate of the line the line is never idle.
#[test]
fn the_rate_of_the_line_leaves_no_gap() {
    for gbps in [100, 800] {
        let line = gbps * 1_000_000_000;
        let mut nic = nic_at(line);
        nic.send(flow(10_000_000, Pace::Dcqcn(Params::paper(line)), Transport::Unreliable), &route(1, 2))
            .unwrap();
        // 1082 B on the wire; the link is free at picoseconds, and asks at whole nanoseconds.
        let frame_ps = 1082 * 8_000 / gbps;
        let (mut free_ps, mut idle_ps) = (100_000_u64, 0);
        for _ in 0..5000 {
            let asked = free_ps.div_ceil(1000);
            let now = nic.next_transmit(asked).unwrap().max(asked);
            assert!(nic.poll_transmit(now).is_some());
            let begin_ps = if now == asked { free_ps } else { now * 1000 };
            idle_ps += begin_ps - free_ps;
            free_ps = begin_ps + frame_ps;
        }
        assert!(idle_ps < 2_000, "{gbps}: idle for {idle_ps} ps of {free_ps}");
    }
}

/// What others of the adapter take is made up for.
#[test]
fn a_paced_flow_keeps_its_rate_beside_others() {
    let mut nic = nic();
    for (id, pace) in [(0, Pace::Fixed(40_000_000_000)), (1, Pace::Line)] {
        let one = Flow { id, ..flow(40_000_000, pace, Transport::Unreliable) };
        nic.send(one, &route(1, 2)).unwrap();
    }
    // The line takes 86.56 ns for a frame.
    let mut line_ps: u64 = 100_000;
    let mut run = |until: u64| {
        while line_ps < until * 1000 {
            let free = line_ps.div_ceil(1000);
            let now = nic.next_transmit(free).unwrap().max(free);
            assert!(nic.poll_transmit(now).is_some());
            line_ps = line_ps.max(now * 1000) + 86_560;
        }
        nic.senders()[0].sent(0).packets
    };
    let (early, late) = (run(100_000), run(1_100_000));
    let due = 1_000_000_000 / 216_400;
    assert!((late - early).abs_diff(due) <= 1, "{} of {due}", late - early);
}

#[test]
fn cc003_the_limit_of_outstanding_work_never_stops_a_flow_for_good() {
    // Requests of 3 packets, one in flight, and an acknowledgement asked for every 4096 packets.
    for scheme in [Scheme::Hardware, Scheme::FirmwareRate] {
        let outstanding = Outstanding { normal: 1, reduced: 1, restore_after: 1_000 };
        let dcqcn =
            Dcqcn { scheme, outstanding, firmware_period: 10_000, ..Dcqcn::plain(Params::paper(RATE)) };
        let flow = Flow {
            ack_every: 4096,
            timeout: 50_000_000,
            ..flow(100_000, Pace::Scheme { dcqcn, request: 3 }, Transport::Reliable)
        };
        let mut nics = pair(flow);
        let end = run(&mut nics, 1_000_000, |_, _, _| true);
        assert_eq!(nics[1].receiver(0).unwrap().received(0).bytes, 100_000, "{scheme:?}");
        // 34 requests, a round trip of 2 us and a little each.
        assert!(nics[0].senders()[0].is_done() && end < 34 * 3_000, "{scheme:?}: {end}");
    }
}

#[test]
fn a_slow_flow_does_not_time_out_before_it_has_asked() {
    // A packet of 1082 bytes takes 866 us at 10 Mb/s, so the fourth, which asks, leaves after 26 timeouts.
    let mut nics = pair(flow(8_000, Pace::Fixed(10_000_000), Transport::Reliable));
    let end = run(&mut nics, 20_000_000, |_, _, _| true);
    let (sender, received) = (&nics[0].senders()[0], nics[1].receiver(0).unwrap().received(0));
    assert!(sender.is_done() && end < 7_000_000, "{end}");
    assert_eq!((sender.sent(0).packets, sender.sent(0).timeouts, received.useless), (8, 0, 0));
}

#[test]
fn several_flows_share_a_queue_pair_its_numbers_and_its_rate() {
    let first = flow(200_000, Pace::Dcqcn(Params::paper(RATE)), Transport::Reliable);
    let mut nics = pair(first);
    let mark = |from: usize, _, frame: &mut HeaderFrame| {
        if from == 0 {
            let place = Profile::standard().parse(frame.bytes(), frame.len()).unwrap().ecn.place;
            assert!(ecn::mark(frame.bytes_mut(), place));
        }
        true
    };
    let now = run(&mut nics, 1_000_000, mark);
    let rate = nics[0].senders()[0].rate().unwrap();
    assert!(nics[0].senders()[0].is_done() && rate < RATE * 6 / 10, "{rate}");
    assert_eq!(
        (nics[0].poll_completed(), nics[0].poll_completed(), nics[1].poll_completed()),
        (Some(7), None, None)
    );
    let second = Flow { id: 8, bytes: 3_500, start: now, ..first };
    nics[0].send_more(0, second);
    nics[1].expect_more(0, second);
    let frame = nics[0].poll_transmit(now + 200).unwrap();
    assert!(nics[0].senders()[0].rate().unwrap() < RATE * 6 / 10, "not at line rate again");
    let headers = parse_headers(frame.bytes()).unwrap();
    assert_eq!((headers.opcode, headers.psn.get(), headers.qpn), (Opcode::RC_SEND_FIRST, 200, 0));
    let arrival = nics[1].handle_frame(frame.bytes(), None, now + 1_200).unwrap();
    assert_eq!(arrival, Arrival { flow: 8, bytes: 1_000, delivered: false, ended: 0 });
    let mut done = None;
    for at in (now + 300..).step_by(1_000).take(20) {
        if let Some(frame) = nics[0].poll_transmit(at) {
            done = nics[1].handle_frame(frame.bytes(), None, at + 1_000).or(done);
        }
    }
    assert_eq!(done, Some(Arrival { flow: 8, bytes: 500, delivered: true, ended: 1 }));
    let receiver = nics[1].receiver(0).unwrap();
    assert_eq!((receiver.received(0).bytes, receiver.received(1).bytes), (200_000, 3_500));
    assert_eq!((nics[0].senders()[0].sent(0).packets, nics[0].senders()[0].sent(1).packets), (200, 4));
    // All packets have arrived, and nobody has said so to the sender.
    assert_eq!(nics[0].poll_completed(), None);
    let ack = nics[1].poll_transmit(now + 40_000).unwrap();
    assert!(nics[0].handle_frame(ack.bytes(), None, now + 41_000).is_none());
    assert_eq!((nics[0].poll_completed(), nics[0].poll_completed()), (Some(8), None));
}

#[test]
fn a_flow_whose_end_is_lost_ends_with_the_next_one_and_is_not_delivered() {
    let first = flow(2_500, Pace::Line, Transport::Unreliable);
    let mut nics = pair(first);
    let second = Flow { id: 8, bytes: 700, ..first };
    nics[0].send_more(0, second);
    nics[1].expect_more(0, second);
    let mut arrivals = Vec::new();
    for n in 0..4 {
        let frame = nics[0].poll_transmit(1_000).unwrap();
        if n == 0 || n == 3 {
            arrivals.extend(nics[1].handle_frame(frame.bytes(), None, 2_000));
        }
    }
    assert_eq!(
        arrivals,
        [
            Arrival { flow: 7, bytes: 1_000, delivered: false, ended: 0 },
            Arrival { flow: 8, bytes: 700, delivered: true, ended: 2 },
        ]
    );
    let received = nics[1].receiver(0).unwrap().received(0);
    assert_eq!((received.missing, received.lost, received.delivered()), (2, 1_500, None));
    // Nobody acknowledges: what has been sent is complete.
    assert_eq!((nics[0].poll_completed(), nics[0].poll_completed()), (Some(7), Some(8)));
}

#[test]
fn answers_go_in_the_class_of_their_data_and_cnps_in_their_own() {
    let mut nics = pair(flow(1_000, Pace::Line, Transport::Reliable));
    let mut frame = nics[0].poll_transmit(1_000).unwrap();
    let parsed = |frame: &HeaderFrame| Profile::standard().parse(frame.bytes(), frame.len()).unwrap();
    assert_eq!(parsed(&frame).ecn.codepoint, 2, "data is ECT(0): its marks slow the sender down");
    let place = parsed(&frame).ecn.place;
    assert!(ecn::mark(frame.bytes_mut(), place));
    nics[1].handle_frame(frame.bytes(), None, 2_000);
    // The priority of the data is paused: its ACK waits with it, the CNP does not.
    let pause =
        |priorities: u8, quanta| PfcFrame::uniform(priorities, quanta).encode(Mac([2, 0, 0, 0, 0, 9]));
    nics[1].handle_frame(&pause(1 << 3, 1000), None, 2_000);
    let cnp = nics[1].poll_transmit(2_001).unwrap();
    let read = parsed(&cnp);
    assert_eq!((read.kind, read.dscp, read.ecn.codepoint), (Kind::Cnp, Some(48), 2));
    assert_eq!((nics[1].poll_transmit(2_002), nics[1].next_transmit(2_002)), (None, Some(7_120)));
    let ack = nics[1].poll_transmit(7_120).unwrap();
    let read = parsed(&ack);
    assert_eq!((read.kind, read.dscp, read.ecn.codepoint), (Kind::Ack, Some(26), 2));
    assert_eq!(nics[1].poll_transmit(7_121), None);
}

#[test]
fn a_nak_that_waits_is_not_sent_when_its_gap_is_filled() {
    let mut nics = pair(flow(4_000, Pace::Line, Transport::Reliable));
    let frames: Vec<_> = (0..4).map(|_| nics[0].poll_transmit(1_000).unwrap()).collect();
    let mut hear_all = |order: &[usize]| {
        for n in order {
            nics[1].handle_frame(frames[*n].bytes(), None, 2_000);
        }
        let answer = nics[1].poll_transmit(2_000).map(|frame| parse_headers(frame.bytes()).unwrap());
        answer.map(|headers| (headers.psn.get(), headers.syndrome.unwrap()))
    };
    assert_eq!(hear_all(&[1, 0]), None, "nobody has asked for an ACK");
    assert_eq!(hear_all(&[2]), Some((1, Syndrome::Nak(Nak::Sequence))));
    assert_eq!(hear_all(&[1, 2, 3]), Some((3, Syndrome::ACK_NO_CREDITS)));
}

#[test]
fn c1_pause_stops_data_but_not_answers() {
    let mut nics = pair(flow(1_000_000, Pace::Line, Transport::Reliable));
    let pause = PfcFrame::uniform(1 << 3, 1000).encode(Mac([2, 0, 0, 0, 0, 9]));
    nics[0].handle_frame(&pause, None, 1000);
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
        assert_eq!(nic.handle_frame(bytes, None, 0), None);
    }
    // A queue pair nobody has.
    let mut nics = pair(flow(1000, Pace::Line, Transport::Reliable));
    let frame = nics[0].poll_transmit(1000).unwrap();
    assert_eq!(nic.handle_frame(frame.bytes(), None, 0), None);
    assert_eq!(nic.report(0).unexpected, 5);
}

/// Many queue pairs of several priorities and paces behind one link that is paused now and then, some of which get more to send when
/// they are done: in debug builds each poll asks all of them, too, whose turn it is.
#[test]
fn many_senders_have_their_turns_without_being_asked() {
    let mut nics = [nic(), nic()];
    let of = |n: u32| {
        let pace = [Pace::Line, Pace::Fixed(300_000_000), Pace::Fixed(2_000_000_000)][n as usize % 3];
        let transport = if n % 7 == 6 { Transport::Unreliable } else { Transport::Reliable };
        let start = 100 * u64::from(n % 5);
        Flow { id: n, start, priority: [3, 0, 5][n as usize % 3], ..flow(9_500, pace, transport) }
    };
    let end = |from: u8, to: u8, n: u32| Route { qpn: n, ..route(from, to) };
    for n in 0..150 {
        nics[0].send(of(n), &end(1, 2, n)).unwrap();
        nics[1].expect(n, of(n), end(2, 1, n));
    }
    let mut done = 0;
    for round in 0..3 {
        let pause = PfcFrame::uniform(1 << 3, 2000).encode(Mac([2, 0, 0, 0, 0, 9]));
        nics[0].handle_frame(&pause, None, done);
        for n in (0..150).filter(|n| round > 0 && n % 3 != 1) {
            nics[0].send_more(n, of(n));
            nics[1].expect_more(n, of(n));
        }
        let lost = |from: usize, number: u64, _: &mut HeaderFrame| from == 1 || !number.is_multiple_of(97);
        done = run_from(&mut nics, done, 100_000_000, lost);
    }
    let sent = |n: usize| nics[0].senders()[n].is_done();
    assert!((0..150).all(sent), "{:?}", (0..150).filter(|n| !sent(*n)).collect::<Vec<_>>());
}
