//! Selective repeat between two NICs and a wire that loses frames and lets them overtake one another.

use super::frame::{Sack, parse_headers};
use super::tests::{RATE, flow, pair};
use super::*;
use crate::congestion::Algorithm;
use crate::congestion::swift;
use crate::congestion::telemetry::Stamp;
use crate::rc::psn::Psn;
use crate::roce::wire::{Nak, Syndrome};
use std::collections::{BTreeMap, BTreeSet};
use weir_dataplane::frame::Frame;
use weir_dataplane::rng::Rng;
use weir_dataplane::types::Nanos;

fn any_order(window: u32, reorder_threshold: u32) -> Transport {
    Transport::SelectiveRepeat(SelectiveRepeat {
        window,
        reorder_threshold,
        initial_round_trip: 2_000,
        reorder_time: 90 * Nanos::from(reorder_threshold),
    })
}

/// Runs both ends, a frame per 90 ns and direction, until nothing moves or `until`. `wire` says how long the nth frame of
/// an end takes; `None`: it is lost.
fn run(
    nics: &mut [Nic; 2],
    until: Nanos,
    mut wire: impl FnMut(usize, u64, &HeaderFrame) -> Option<Nanos>,
) -> Nanos {
    let mut flying: BTreeMap<(Nanos, u64), (usize, HeaderFrame, Option<Stamp>)> = BTreeMap::new();
    let (mut now, mut sent) = (0, [0u64; 2]);
    while now < until {
        while let Some(first) = flying.first_entry().filter(|first| first.key().0 <= now) {
            let (to, frame, stamp) = first.remove();
            nics[to].handle_frame(frame.bytes(), stamp.as_ref(), now);
        }
        for from in 0..2 {
            if let Some(frame) = nics[from].poll_transmit(now) {
                let carried = nics[from].carried().copied();
                sent[from] += 1;
                if let Some(delay) = wire(from, sent[from], &frame) {
                    flying.insert((now + delay, sent[0] + sent[1]), (1 - from, frame, carried));
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

/// Frames of both ways take 1 to 10 us: 100 of them are in flight, in any order.
fn delay(rng: &mut Rng) -> Nanos {
    1000 + u64::from(rng.next_u32() % 9000)
}

#[test]
fn frames_that_overtake_one_another_are_all_taken_and_none_is_sent_again() {
    for seed in 0..40 {
        let mut rng = Rng::new(seed);
        let mut nics = pair(flow(500_123, Pace::Line, any_order(1024, 200)));
        let end = run(&mut nics, 10_000_000, |_, _, _| Some(delay(&mut rng)));
        let (sender, received) = (&nics[0].senders()[0], nics[1].receiver(0).unwrap().received(0));
        assert!(sender.is_done(), "seed {seed}");
        assert_eq!((received.packets, received.bytes, received.useless), (501, 500_123, 0), "seed {seed}");
        assert_eq!((sender.sent(0).packets, sender.sent(0).resent, sender.sent(0).timeouts), (501, 0, 0));
        // 501 frames of 90 ns, the longest way, and the longest way back.
        assert!(end < 501 * 90 + 21_000, "seed {seed}: {end}");
        assert_eq!(received.delivered().map(|at| at < 501 * 90 + 11_000), Some(true));
    }
    // In order alone, hardly anything comes through.
    let mut rng = Rng::new(0);
    let mut nics = pair(flow(500_123, Pace::Line, Transport::Reliable));
    run(&mut nics, 66_000, |_, _, _| Some(delay(&mut rng)));
    assert!(nics[1].receiver(0).unwrap().received(0).packets < 100);
}

/// A frame in ten is lost, each way.
#[test]
fn any_loss_pattern_is_repaired_and_only_what_was_lost_is_sent_again() {
    for seed in 0..60 {
        let mut rng = Rng::new(seed);
        // Frames are up to 100 places out of order; answers that are lost are made up for by later ones.
        let mut nics = pair(flow(400_321, Pace::Line, any_order(2048, 110)));
        let mut lost = BTreeSet::new();
        let mut again = 0;
        run(&mut nics, 100_000_000, |from, _, frame| {
            let psn = parse_headers(frame.bytes()).unwrap().psn.get();
            let loses = rng.next_u32().is_multiple_of(10);
            if from == 0 {
                again += u64::from(lost.contains(&psn));
                if loses {
                    lost.insert(psn);
                }
            }
            (!loses).then(|| delay(&mut rng))
        });
        let (sender, received) = (&nics[0].senders()[0], nics[1].receiver(0).unwrap().received(0));
        assert!(sender.is_done(), "seed {seed}");
        assert_eq!((received.packets, received.bytes), (401, 400_321), "seed {seed}");
        let sent = sender.sent(0);
        assert!(lost.len() > 20 && sent.packets == sent.resent + 401);
        // What is sent again had been lost, but for the packets that timeouts and probes ask by.
        let asked = sent.timeouts + sent.probes;
        assert!(sent.resent >= lost.len() as u64 && sent.resent - again <= asked, "seed {seed}: {sent:?}");
        assert!(received.useless + lost.len() as u64 <= sent.resent + asked);
    }
}

#[test]
fn what_is_missing_is_sent_again_after_so_many_later_packets_and_not_before() {
    let mut nics = pair(Flow { ack_every: 1, ..flow(400_000, Pace::Line, any_order(256, 20)) });
    let mut order = Vec::new();
    run(&mut nics, 1_000_000, |from, n, frame| {
        if from == 0 {
            order.push(parse_headers(frame.bytes()).unwrap().psn.get());
        }
        // The eleventh packet, the first time; 1 us each way.
        (from == 1 || n != 11).then_some(1000)
    });
    let again = order.iter().enumerate().filter(|(at, psn)| order[..*at].contains(psn));
    let again: Vec<_> = again.map(|(at, psn)| (at, *psn)).collect();
    // Packet 30 is the twentieth after it; a round trip of 2 us and three steps is 25 packets.
    assert_eq!(again.len(), 1, "{again:?}");
    assert!(again[0].1 == 10 && (30 + 22..30 + 28).contains(&again[0].0), "{again:?}");
    assert_eq!(nics[0].senders()[0].sent(0).timeouts, 0);
}

#[test]
fn a_lost_tail_is_found_by_a_probe_and_by_the_timeout_where_that_is_lost_too() {
    // The last packet goes again; once it is there it asks once more, in vain, and the others that are missing go.
    let mut nics = pair(flow(100_000, Pace::Line, any_order(256, 20)));
    let end =
        run(&mut nics, 10_000_000, |from, n, _| (from == 1 || !(96..=100).contains(&n)).then_some(1000));
    let sent = *nics[0].senders()[0].sent(0);
    let useless = |nics: &[Nic; 2]| nics[1].receiver(0).unwrap().received(0).useless;
    assert_eq!((sent.resent, sent.probes, sent.timeouts, useless(&nics)), (6, 2, 0, 1));
    // 100 packets take 9 us, then two round trips or more are silent, one brings the last one, 20 packets take 2 us, and two round
    // trips bring the rest.
    assert!(nics[0].senders()[0].is_done() && (18_000..30_000).contains(&end), "{end}");

    // Its answer is lost, too. Packet 91 asked last, so the timeout asks by packet 92, which had come, as 93 and 94 had.
    let mut nics = pair(flow(100_000, Pace::Line, any_order(256, 20)));
    let end =
        run(&mut nics, 10_000_000, |from, n, _| (from == 1 || !(96..=101).contains(&n)).then_some(1000));
    let sent = *nics[0].senders()[0].sent(0);
    assert_eq!((sent.resent, sent.probes, sent.timeouts, useless(&nics)), (7, 1, 1, 1));
    // The timeout is 100 us.
    assert!(nics[0].senders()[0].is_done() && (100_000..140_000).contains(&end), "{end}");
}

/// Packets in flight that Swift allows after two messages, of which the second begins when the first is complete.
fn window_after(mut wire: impl FnMut(usize, u64) -> Option<Nanos>) -> u64 {
    let params = swift::Params {
        line_bps: RATE,
        payload: 1000,
        base_target: 1_000_000,
        hop_scale: 0,
        hops: 0,
        flow_range: 0,
        flow_max: 100.0,
        flow_min: 0.1,
        ai: 1.0,
        beta: 0.8,
        max_mdf: 0.5,
        min_cwnd: 1.0,
        max_cwnd: 100.0,
        initial_cwnd: 100.0,
        retx_reset: 5,
    };
    let first =
        Flow { ack_every: 1, ..flow(20_000, Pace::Acks(Algorithm::Swift(params)), any_order(256, 8)) };
    let mut nics = pair(first);
    let mut now = run(&mut nics, 10_000_000, |from, n, _| wire(from, n));
    for id in [8, 9] {
        let more = Flow { id, start: now, bytes: if id == 8 { 20_000 } else { 300_000 }, ..first };
        nics[0].send_more(0, more);
        nics[1].expect_more(0, more);
        if id == 8 {
            now = run(&mut nics, 10_000_000, |_, _, _| Some(1000));
        }
    }
    let sent = nics[0].senders()[0].sent(0);
    assert_eq!((sent.timeouts, sent.probes), (0, 1));
    (now..now + 1_000_000).step_by(90).map_while(|now| nics[0].poll_transmit(now)).count() as u64
}

/// RFC 8985, 7.4: a loss that the probe itself has repaired counts, too; and one that was none does not.
#[test]
fn congestion_control_hears_of_a_loss_that_a_probe_has_repaired_once() {
    assert_eq!(window_after(|from, n| (from == 1 || n != 20).then_some(1000)), 50);
    assert_eq!(
        window_after(|from, n| Some(if (from, n) == (0, 20) { 9_000 } else { 1000 })),
        100,
        "it was late"
    );
}

#[test]
fn no_more_than_the_window_is_ahead_of_what_is_missing() {
    // The second packet takes 50 us, all others 1 us.
    let mut nics = pair(flow(200_000, Pace::Line, any_order(32, 40)));
    let mut held = 0;
    run(&mut nics, 40_000, |from, n, _| Some(if (from, n) == (0, 2) { 50_000 } else { 1000 }));
    held += nics[1].receiver(0).unwrap().received(0).packets;
    assert_eq!(
        (held, nics[0].senders()[0].sent(0).packets),
        (32, 33),
        "packets 0 and 2 to 32, and 1 on its way"
    );
    let mut nics = pair(flow(200_000, Pace::Line, any_order(32, 40)));
    let end = run(&mut nics, 10_000_000, |from, n, _| Some(if (from, n) == (0, 2) { 50_000 } else { 1000 }));
    let sent = *nics[0].senders()[0].sent(0);
    assert_eq!((sent.packets, sent.timeouts), (200, 0), "it goes on when the packet comes: {end}");
    assert!(nics[0].senders()[0].is_done() && end < 75_000, "{end}");
}

#[test]
fn messages_of_a_queue_pair_are_delivered_each_with_its_last_packet() {
    let first = flow(3_000, Pace::Line, any_order(64, 8));
    let mut nics = pair(first);
    let second = Flow { id: 8, bytes: 1_500, ..first };
    nics[0].send_more(0, second);
    nics[1].expect_more(0, second);
    let frames: Vec<_> = (0..5).map(|_| nics[0].poll_transmit(1_000).unwrap()).collect();
    let mut come = |nth: usize, now| {
        let arrival = nics[1].handle_frame(frames[nth].bytes(), None, now)?;
        Some((arrival.flow, arrival.bytes, arrival.delivered, arrival.ended))
    };
    assert_eq!(come(4, 1), Some((8, 500, false, 0)));
    assert_eq!(come(4, 1), None, "twice");
    assert_eq!(come(0, 2), Some((7, 1000, false, 0)));
    assert_eq!(come(3, 3), Some((8, 1000, true, 1)), "the first message is not complete");
    assert_eq!(come(2, 4), Some((7, 1000, false, 0)));
    assert_eq!(come(1, 5), Some((7, 1000, true, 1)));
    let receiver = nics[1].receiver(0).unwrap();
    assert_eq!([0, 1].map(|nth| receiver.received(nth).delivered()), [Some(5), Some(3)]);
    let ack = nics[1].poll_transmit(10).unwrap();
    assert_eq!(Sack::read(ack.bytes()), Some(Sack { end: Psn::new(5), beyond: 0, bits: 0, repeated: true }));
    nics[0].handle_frame(ack.bytes(), None, 2_000);
    // The sender completes them in their order.
    assert_eq!([(); 3].map(|()| nics[0].poll_completed()), [Some(7), Some(8), None]);
    assert!(nics[0].senders()[0].is_done());
}

#[test]
fn what_an_answer_says_is_on_the_wire() {
    let sack = Sack {
        end: Psn::new(0xab_cdef),
        beyond: 0x01_2345,
        bits: 0x8000_0000_0000_0000_0000_0000_0000_0005,
        repeated: true,
    };
    let mut nics = pair(flow(5_000, Pace::Line, any_order(64, 8)));
    let frames: Vec<_> = (0..5).map(|_| nics[0].poll_transmit(1_000).unwrap()).collect();
    nics[1].handle_frame(frames[3].bytes(), None, 1);
    let mut ack = nics[1].poll_transmit(2).unwrap();
    // Ethernet, IP, UDP, BTH 54, AETH 4, these 24, ICRC 4.
    assert_eq!((ack.len(), ack.bytes().len()), (86, 82));
    let headers = parse_headers(ack.bytes()).unwrap();
    assert_eq!(
        (headers.psn, Sack::read(ack.bytes())),
        (Psn::new(0xff_ffff), Some(Sack { end: Psn::new(4), beyond: 1, bits: 8, repeated: false }))
    );
    ack.set_sack(&sack);
    assert_eq!(Sack::read(ack.bytes()), Some(sack));
}

/// Answers that nobody gives: they change nothing, or at most send a packet again.
#[test]
fn strange_answers_do_no_harm() {
    for seed in 0..200 {
        let mut rng = Rng::new(seed);
        let mut nics = pair(flow(100_000, Pace::Line, any_order(64, 8)));
        run(&mut nics, 3_000, |_, _, _| Some(1000));
        let frames: Vec<_> = (0..4).filter_map(|n| nics[1].poll_transmit(3_000 + n)).collect();
        let mut answer = frames.into_iter().next().unwrap_or_else(|| {
            let frame = nics[0].poll_transmit(5_000).unwrap();
            let mut other = pair(flow(100_000, Pace::Line, any_order(64, 8)));
            let mut bytes = frame.bytes().to_vec();
            bytes[50] |= 0x80;
            other[1].handle_frame(&bytes, None, 1);
            other[1].poll_transmit(2).unwrap()
        });
        for _ in 0..50 {
            let small =
                |rng: &mut Rng| rng.next_u32() % if rng.next_u32().is_multiple_of(2) { 40 } else { 1 << 24 };
            let syndrome = if rng.next_u32().is_multiple_of(4) {
                Syndrome::Nak(Nak::Sequence)
            } else {
                Syndrome::ACK_NO_CREDITS
            };
            answer.set_answer(Psn::new(small(&mut rng)), syndrome);
            let bits = u128::from(rng.next_u64()) << 64 | u128::from(rng.next_u64());
            let repeated = rng.next_u32().is_multiple_of(2);
            answer.set_sack(&Sack {
                end: Psn::new(small(&mut rng)),
                beyond: small(&mut rng),
                bits,
                repeated,
            });
            nics[0].handle_frame(answer.bytes(), None, 6_000);
        }
        run(&mut nics, 20_000_000, |_, _, _| Some(1000));
        let sender = &nics[0].senders()[0];
        assert!(sender.sent(0).packets <= 100 + sender.sent(0).resent, "seed {seed}");
    }
}

/// A window that follows acknowledgements counts what has arrived, in order or not.
#[test]
fn a_window_of_congestion_control_counts_what_has_arrived() {
    let pace = Pace::Acks(Algorithm::FixedWindow { line_bps: RATE, window: 150_000 });
    let of = |lossy: bool| {
        let mut rng = Rng::new(3);
        let mut nics = pair(Flow { ack_every: 1, ..flow(1_000_000, pace, any_order(1024, 150)) });
        let end = run(&mut nics, 10_000_000, |_, _, _| {
            (!lossy || !rng.next_u32().is_multiple_of(100)).then(|| delay(&mut rng))
        });
        assert!(nics[0].senders()[0].is_done());
        (end, *nics[0].senders()[0].sent(0))
    };
    let (end, sent) = of(false);
    assert_eq!((sent.packets, sent.resent), (1000, 0));
    // 150 packets in a round trip of 11 us on average: the line is the limit.
    assert!(end < 1000 * 90 + 40_000, "{end}");
    let (end, sent) = of(true);
    assert!(sent.resent > 3 && sent.resent < 40 && end < 700_000, "{end} {sent:?}");
}
