//! Frames the engine gets and sends: hostile and malformed ones, ICRC, marks, CNPs and pauses.

mod support;

use bolero::check;
use proptest::prelude::*;
use support::hand::{Hand, JOB, PARENT, Sent, params, parent, words};
use support::{FIRST_QPN, Random, fold};
use weir_endpoint::roce::frame::{ECN_CE, Frame};
use weir_endpoint::roce::icrc::icrc;
use weir_endpoint::roce::wire::{Extensions, Opcode};
use weir_inc::immediate::Primitive;
use weir_inc::kernels::{DataType, Operator};
use weir_inc::params::Straggler;
use weir_inc::remote::{Memory, Writes};

#[test]
fn congestion_marks_are_answered_and_notified_once_per_interval() {
    let mut hand = Hand::new(2, |_| {});
    for n in 0..3 {
        let bytes = Hand::frame(0, JOB, Opcode::RC_SEND_ONLY, n, Extensions::default(), &words(&[1]));
        let mut frame = Frame::parse(&bytes).unwrap();
        frame.outer.ip.ecn = ECN_CE;
        let mut marked = Vec::new();
        frame.emit(&mut marked);
        hand.give(&marked);
    }
    let cnps: Vec<_> = hand.sent().into_iter().filter(|s| s.opcode == Opcode::CNP).collect();
    assert_eq!((cnps.len(), cnps[0].to, &cnps[0].payload[..]), (1, 0, &[0; 16][..]));
    assert_eq!(hand.report().peers[0].counters.ce, 3);
}

#[test]
fn every_frame_has_a_right_icrc_whatever_its_length() {
    for len in [4, 6, 10, 256, 1022, 1024] {
        let f16 = Primitive::AllReduce(fold(Operator::Sum, DataType::F16));
        let mut hand = Hand::new(3, |job| job.operation = f16);
        (0..3).for_each(|child| hand.only(child, 0, &vec![0x3c; len]));
        let sent = hand.sent();
        assert_eq!(sent.len(), 6);
        for frame in &sent {
            let (covered, sent) = frame.bytes[14..].split_last_chunk::<4>().unwrap();
            assert_eq!(icrc(covered).as_ref(), Some(sent), "{len} bytes");
        }
        assert!(sent.iter().all(|s| s.opcode == Opcode::RC_ACK || s.payload.len() == len));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Whatever ranks or a parent send in order, with a right ICRC: no panic, and a rank of another job gets its sums.
    #[test]
    fn hostile_packets_disturb_nobody_else(
        packets in prop::collection::vec((0u8..0x20, any::<u32>(), 0usize..1100, 0usize..3), 1..40),
        words_of_operations in any::<bool>(),
        root in any::<bool>(),
        writes in 0u8..3,
    ) {
        let mut hand = Hand::new(2, |job| {
            job.straggler = Straggler::Partial(50_000);
            job.parent = Some(parent()).filter(|_| !root);
            let memory = Memory { addr: 0, rkey: 7, len: 4096 };
            job.children[0].remote.writes = [Writes::Refused, Writes::Into(memory), Writes::Mirrored][usize::from(writes)];
            job.children[1].remote.results = Some(memory);
        });
        hand.engine.add(params(JOB + 1, 1, FIRST_QPN + 128)).unwrap();
        let mut numbers = [0, 0, 0];
        for (n, (opcode, word, len, peer)) in packets.into_iter().enumerate() {
            let opcode = Opcode(opcode);
            let layout = opcode.layout().unwrap();
            let word = if words_of_operations { word & 0xffff_fffe | u32::from(word.is_multiple_of(7)) } else { word };
            let ext = Extensions {
                imm: layout.imm.then_some(word),
                aeth: layout.aeth.then_some(weir_endpoint::roce::wire::Aeth { syndrome: word as u8, msn: 1 }),
                reth: layout.reth.then_some(weir_endpoint::roce::wire::Reth {
                    va: u64::from(word & 0xff),
                    rkey: if word & 1 == 0 { 7 } else { word },
                    len: if word & 2 == 0 { len as u32 } else { word },
                }),
                deth: None,
            };
            let from = [0, 1, PARENT][peer];
            hand.give(&Hand::frame(from, JOB, opcode, numbers[peer], ext, &vec![n as u8; len.min(1024)]));
            numbers[peer] += i32::from(opcode.0 < 12);
            hand.wait(3_000);
            hand.give(&Hand::frame(0, JOB + 1, Opcode::RC_SEND_ONLY, n as i32, Extensions::default(), &words(&[n as i32])));
            let sums: Vec<_> = hand.data().into_iter().filter(|s| s.payload == words(&[n as i32])).collect();
            prop_assert!(!sums.is_empty());
            let aeth = Some(weir_endpoint::roce::wire::Aeth { syndrome: 0x1f, msn: 0 });
            hand.give(&Hand::frame(0, JOB + 1, Opcode::RC_ACK, n as i32, Extensions { aeth, ..Extensions::default() }, &[]));
        }
    }
}

/// Bytes of any kind, and good frames with bytes changed, sealed again or not: no panic, and no sum changes.
#[test]
fn fuzz_malformed_frames_change_no_sum() {
    check!().with_iterations(20_000).for_each(|input: &[u8]| {
        let mut hand = Hand::new(2, |_| {});
        hand.only(0, 0, &words(&[1]));
        hand.give(input);
        let mut random = Random::new(input.iter().fold(7, |h, &b| (h << 5 ^ h >> 3) ^ u64::from(b)));
        let mut frame = Hand::frame(0, JOB, Opcode::RC_SEND_ONLY, 0, Extensions::default(), &words(&[9]));
        for &byte in input.iter().take(4) {
            let at = random.below(frame.len() as u64) as usize;
            frame[at] = byte;
        }
        // Its source, number and key stay.
        hand.give_damaged(&mut frame);
        hand.now += 1;
        hand.engine.tick(hand.now);
        hand.only(1, 0, &words(&[2]));
        // A frame may have become one marked CE: that draws a CNP.
        for sent in hand.data().into_iter().filter(|sent| sent.opcode != Opcode::CNP) {
            assert!(sent.payload.is_empty() || sent.payload == words(&[3]), "{sent:?}");
        }
    });
}

#[test]
fn a_paused_priority_sends_nothing_and_loses_nothing() {
    let mut hand = Hand::new(2, |_| {});
    hand.engine.hold(1 << 3);
    hand.only(0, 0, &words(&[1]));
    hand.only(1, 0, &words(&[2]));
    assert_eq!(hand.sent(), [], "neither results nor acknowledgements");
    hand.engine.hold(1 << 4);
    let sent = hand.sent();
    assert_eq!(sent.iter().filter(|s| s.payload == words(&[3])).count(), 2);
    assert_eq!(sent.iter().filter(|s| s.opcode == Opcode::RC_ACK).count(), 2);
}

#[test]
fn cnps_slow_down_what_their_sender_is_sent_and_nobody_else() {
    let mut hand = Hand::new(2, |job| (job.window, job.results, job.line_rate) = (64, 64, 10_000_000_000));
    for _ in 0..20 {
        hand.give(&Hand::frame(0, JOB, Opcode::CNP, 0, Extensions::default(), &[0; 16]));
        hand.wait(60_000);
    }
    assert_eq!(hand.report().peers[0].counters.cnps, 20);
    let payload = words(&[1; 256]);
    for n in 0..32 {
        hand.only(0, n, &payload);
        hand.only(1, n, &payload);
    }
    let to =
        |sent: &[Sent], peer: usize| sent.iter().filter(|s| s.to == peer && !s.payload.is_empty()).count();
    let first = hand.data();
    assert_eq!(to(&first, 1), 32);
    let mut slow = to(&first, 0);
    assert!(slow < 16, "{slow}");
    let from = hand.now;
    while slow < 32 {
        hand.wait(5_000);
        slow += to(&hand.data(), 0);
        assert!(hand.now - from < 4_000_000, "{slow} of 32");
    }
    // 32 frames of 1110 bytes take 28 us at 10 Gb/s.
    assert!(hand.now - from > 100_000, "{} ns", hand.now - from);
}
