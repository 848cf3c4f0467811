//! The engine moved by hand, frame by frame: order, windows, answers, failures, refusals.

mod support;

use bolero::check;
use proptest::prelude::*;
use support::hand::{DOWN, Hand, JOB, PARENT, Sent, UP, params, parent, status, words};
use support::{FIRST_QPN, Random, fold, sum_i32};
use weir_endpoint::roce::frame::{ECN_CE, Frame};
use weir_endpoint::roce::icrc::icrc;
use weir_endpoint::roce::wire::{Extensions, Nak, Opcode, Qpn, Syndrome};
use weir_inc::drops::Drop;
use weir_inc::engine::{Engine, EngineParams};
use weir_inc::immediate::{ALL_RANKS, Failure, Immediate, Primitive, Status};
use weir_inc::job::Job;
use weir_inc::kernels::{DataType, Flags, Kernels, Operator};
use weir_inc::params::{JobParams, MAX_CHILDREN, Refusal, Straggler};
use weir_inc::remote::{Memory, Writes};
use weir_inc::report::{ReportPage, State};

const ACK: Syndrome = Syndrome::ACK_NO_CREDITS;
const GAP: Syndrome = Syndrome::Nak(Nak::Sequence);

fn payloads(sent: &[Sent]) -> Vec<(usize, i32, Vec<u8>)> {
    sent.iter().map(|s| (s.to, s.number, s.payload.clone())).collect()
}

fn permutations(k: usize) -> Vec<Vec<usize>> {
    if k == 0 {
        return vec![Vec::new()];
    }
    let shorter = permutations(k - 1);
    shorter.iter().flat_map(|p| (0..k).map(move |at| [&p[..at], &[k - 1], &p[at..]].concat())).collect()
}

/// Every order of arrival of up to five children, for every fold of floats there is, gives the bits of the fold in rank order.
#[test]
fn dev76_every_order_of_arrival_gives_the_same_bits() {
    // Terms whose sum depends on the order: 1e8 + 1 - 1e8 and the like.
    let values = [1.0e8f32, 1.0, -1.0e8, 0.3, 1.0e-3];
    let folds = [
        fold(Operator::Sum, DataType::F32),
        fold(Operator::Prod, DataType::F32),
        fold(Operator::Sum, DataType::F64),
        fold(Operator::Sum, DataType::F16),
        fold(Operator::Sum, DataType::Bf16),
    ];
    let mut differ = 0;
    for fold in folds {
        let bytes = |x: f32| match fold.data_type() {
            DataType::F32 => x.to_be_bytes().to_vec(),
            DataType::F64 => (f64::from(x) * 1.0e8).to_be_bytes().to_vec(),
            DataType::F16 => half::f16::from_f32(x / 1.0e4).to_be_bytes().to_vec(),
            _ => half::bf16::from_f32(x).to_be_bytes().to_vec(),
        };
        for k in 1..=5 {
            let inputs: Vec<Vec<u8>> = values[..k].iter().map(|&x| bytes(x).repeat(7)).collect();
            let reference = |order: &[usize]| {
                let inputs: Vec<&[u8]> = order.iter().map(|&c| &inputs[c][..]).collect();
                let mut out = vec![0; inputs[0].len()];
                Kernels::PORTABLE.fold(fold, &inputs, &mut out).unwrap();
                out
            };
            let expected = reference(&(0..k).collect::<Vec<_>>());
            let mut hand = Hand::new(k, |job| job.operation = Primitive::AllReduce(fold));
            for (n, order) in permutations(k).into_iter().enumerate() {
                let n = n as i32;
                for &child in &order {
                    hand.only(child, n, &inputs[child]);
                }
                let sent = hand.data();
                let all: Vec<_> = (0..k).map(|child| (child, n, expected.clone())).collect();
                let mut got = payloads(&sent);
                got.sort();
                assert_eq!(got, all, "{fold:?}, arrival {order:?}");
                differ += usize::from(reference(&order) != expected);
                (0..k).for_each(|child| hand.ack(child, n));
            }
        }
    }
    assert!(differ > 100, "the terms are such that the order matters");
}

#[test]
fn dev61_a_child_too_far_ahead_is_told_to_wait_and_no_slot_is_shared() {
    let mut hand = Hand::new(2, |_| {});
    for n in 0..4 {
        hand.only(0, n, &words(&[n]));
    }
    assert_eq!(hand.answers(), [(0, 3, ACK)]);
    // The window is 4: number 4 would be in the slot of number 0.
    hand.only(0, 4, &words(&[100]));
    hand.only(0, 5, &words(&[100]));
    assert_eq!(hand.answers(), [(0, 4, Syndrome::Rnr(2))]);
    // What comes behind it has to wait, too: nothing is lost.
    assert_eq!((hand.drops(Drop::WindowFull), hand.drops(Drop::OutOfSequence)), (2, 0));
    hand.only(1, 0, &words(&[10]));
    let sent = hand.data();
    assert_eq!(payloads(&sent), [(0, 0, words(&[10])), (1, 0, words(&[10]))]);
    hand.only(0, 4, &words(&[4]));
    for n in 1..5 {
        hand.only(1, n, &words(&[10]));
    }
    let to_0: Vec<_> = payloads(&hand.data()).into_iter().filter(|s| s.0 == 0).collect();
    let expected: Vec<_> = (1..5).map(|n| (0, n, words(&[n + 10]))).collect();
    assert_eq!(to_0, expected);
}

#[test]
fn the_wait_asked_for_follows_the_measured_lag() {
    let mut hand = Hand::new(2, |job| job.probe_after = 1_000_000_000_000);
    for n in 0..40 {
        hand.only(0, n, &words(&[n]));
        hand.now += 1_000_000;
        hand.only(1, n, &words(&[n]));
        hand.sent();
        hand.ack(0, n);
        hand.ack(1, n);
    }
    let report = hand.report();
    assert_eq!(report.peers[0].lag, (0, 0));
    assert!((900_000..=1_000_000).contains(&report.peers[1].lag.0), "{:?}", report.peers[1].lag);
    for n in 40..45 {
        hand.only(0, n, &words(&[n]));
    }
    // Half of a millisecond: 0.48 or 0.64 ms.
    let answers = hand.answers();
    assert!(matches!(answers[..], [(0, 44, Syndrome::Rnr(11 | 12))]), "{answers:?}");
}

#[test]
fn dev62_a_queue_pair_is_that_of_one_peer_in_one_partition() {
    let mut hand = Hand::new(2, |_| {});
    let good = Hand::frame(0, JOB, Opcode::RC_SEND_ONLY, 0, Extensions::default(), &[0; 4]);
    let altered = |change: &dyn Fn(&mut Frame<'_>)| {
        let mut frame = Frame::parse(&good).unwrap();
        change(&mut frame);
        let mut bytes = Vec::new();
        frame.emit(&mut bytes);
        bytes
    };
    hand.give(&altered(&|f| f.packet.bth.dest_qp = Qpn(FIRST_QPN + 1)));
    assert_eq!(hand.drops(Drop::WrongPeer), 1, "right number, but of another child");
    hand.give(&altered(&|f| f.packet.bth.dest_qp = Qpn(FIRST_QPN + 2)));
    hand.give(&altered(&|f| f.packet.bth.dest_qp = Qpn(0)));
    hand.give(&altered(&|f| f.packet.bth.dest_qp = Qpn(0xff_ffff)));
    assert_eq!(hand.drops(Drop::UnknownQp), 3);
    hand.give(&altered(&|f| f.packet.bth.pkey = 0x8001));
    assert_eq!(hand.drops(Drop::WrongPartition), 1);
    hand.give(&altered(&|f| f.packet.bth.opcode = Opcode::UC_SEND_ONLY));
    assert_eq!(hand.drops(Drop::Transport), 1);
    let mut corrupt = good.clone();
    corrupt[60] ^= 1;
    hand.give(&corrupt);
    assert_eq!(hand.drops(Drop::BadIcrc), 1);
    hand.give(&good[..good.len() - 1]);
    assert_eq!(hand.drops(Drop::Malformed), 1);
    hand.give(&altered(&|f| f.packet.bth.pkey = 0x7fff));
    assert_eq!(hand.answers(), [(0, 0, ACK)], "limited membership is the same partition");
}

#[test]
fn dev63_packets_of_a_message_keep_their_order_and_size() {
    let full = vec![1; 1024];
    let bad: [&[(Opcode, usize)]; 6] = [
        &[(Opcode::RC_SEND_MIDDLE, 1024)],
        &[(Opcode::RC_SEND_LAST, 4)],
        &[(Opcode::RC_SEND_FIRST, 1024), (Opcode::RC_SEND_FIRST, 1024)],
        &[(Opcode::RC_SEND_FIRST, 1024), (Opcode::RC_SEND_ONLY, 4)],
        &[(Opcode::RC_SEND_FIRST, 1020)],
        &[(Opcode::RC_SEND_FIRST, 1024), (Opcode::RC_SEND_LAST, 0)],
    ];
    for packets in bad {
        let mut hand = Hand::new(2, |_| {});
        for (n, &(opcode, len)) in packets.iter().enumerate() {
            hand.send(0, n as i32, opcode, None, &full[..len]);
        }
        assert_eq!(hand.drops(Drop::InvalidRequest), 1, "{packets:?}");
        // What comes behind it is not taken for a sign of a loss, and told again it is told the same.
        let next = packets.len() as i32;
        hand.only(0, next, &full[..4]);
        let refused = (0, next - 1, Syndrome::Nak(Nak::InvalidRequest));
        let answers = hand.answers();
        assert!(
            answers.contains(&refused) && answers.iter().all(|a| a.2 != Syndrome::Nak(Nak::Sequence)),
            "{answers:?}"
        );
        let (opcode, len) = packets[packets.len() - 1];
        hand.send(0, next - 1, opcode, None, &full[..len]);
        assert_eq!(hand.answers(), [refused], "{packets:?}");
        assert_eq!((hand.drops(Drop::JobFailed), hand.drops(Drop::OutOfSequence)), (2, 0), "{packets:?}");
        assert!(matches!(hand.report().state, State::Failing(Failure::Protocol, 0, _)));
    }
    // First, Middle, Last, and Last with immediate data that says what is known.
    let mut hand = Hand::new(2, |_| {});
    for child in 0..2 {
        hand.send(child, 0, Opcode::RC_SEND_FIRST, None, &full);
        hand.send(child, 1, Opcode::RC_SEND_MIDDLE, None, &full);
        hand.send(child, 2, Opcode::RC_SEND_LAST_IMM, Some(sum_i32().encode()), &full[..8]);
    }
    let forms: Vec<_> =
        hand.data().iter().filter(|s| s.to == 1).map(|s| (s.opcode, s.payload.len(), s.word())).collect();
    let expected = [
        (Opcode::RC_SEND_FIRST, 1024, None),
        (Opcode::RC_SEND_MIDDLE, 1024, None),
        (Opcode::RC_SEND_LAST_IMM, 8, status(2)),
    ];
    assert_eq!(forms, expected);
    assert_eq!(hand.report().counters.messages, 1);
}

#[test]
fn dev64_one_nak_names_a_gap() {
    let mut hand = Hand::new(2, |_| {});
    hand.only(0, 0, &words(&[0]));
    for n in [2, 3, 2, 3] {
        hand.only(0, n, &words(&[9]));
        hand.now += 1000;
    }
    assert_eq!(hand.answers(), [(0, 1, GAP)]);
    hand.only(0, 3, &words(&[9]));
    assert_eq!(hand.answers(), [], "the gap has a name");
    hand.only(0, 1, &words(&[1]));
    hand.only(0, 3, &words(&[9]));
    assert_eq!(hand.answers(), [(0, 2, GAP)], "another gap");
    assert_eq!((hand.report().peers[0].counters.gaps, hand.drops(Drop::OutOfSequence)), (2, 6));
}

#[test]
fn dev65_a_slot_used_again_takes_new_packets_for_new() {
    let mut hand = Hand::new(2, |_| {});
    for n in 0..40 {
        for child in 0..2 {
            hand.only(child, n, &words(&[n + 1]));
            hand.only(child, n, &words(&[77]));
        }
        assert_eq!(payloads(&hand.data()), [(0, n, words(&[2 * n + 2])), (1, n, words(&[2 * n + 2]))]);
        hand.ack(0, n);
        hand.ack(1, n);
    }
    assert_eq!(hand.drops(Drop::Duplicate), 80);
}

#[test]
fn dev66_contributions_are_acknowledged_when_stored_and_sums_kept_for_the_parent() {
    let mut hand = Hand::new(2, |job| job.parent = Some(parent()));
    hand.only(0, 0, &words(&[1]));
    assert_eq!(hand.answers(), [(0, 0, ACK)], "before the sibling has come");
    hand.only(1, 0, &words(&[2]));
    let sent = hand.data();
    let header = Immediate::Operation(sum_i32());
    let up: Vec<_> = sent.iter().map(|s| (s.to, s.number, s.word(), s.payload.clone())).collect();
    assert_eq!(up, [(PARENT, 0, Some(header), vec![]), (PARENT, 1, status(2), words(&[3]))]);
    // The parent has lost both, later again.
    hand.answer(PARENT, 0, GAP);
    assert_eq!(hand.data().len(), 2);
    hand.answer(PARENT, 1, GAP);
    assert_eq!(payloads(&hand.data()), [(PARENT, 1, words(&[3]))]);
    hand.ack(PARENT, 1);
    assert!(hand.job().is_drained());
    // The result, and its loss on the way to a child.
    hand.with(PARENT, 0, status(5).unwrap(), &words(&[30]));
    assert_eq!(payloads(&hand.data()), [(0, 0, words(&[30])), (1, 0, words(&[30]))]);
    hand.ack(1, 0);
    hand.answer(0, 0, GAP);
    let again = hand.data();
    assert_eq!((payloads(&again), again[0].word()), (vec![(0, 0, words(&[30]))], status(5)));
}

#[test]
fn dev67_what_ranks_say_is_compared() {
    let max = Primitive::AllReduce(fold(Operator::Max, DataType::I32));
    let other: [&dyn Fn(&mut Hand); 4] = [
        &|hand| hand.only(1, 0, &words(&[1, 2])),
        &|hand| hand.with(1, 0, Immediate::Operation(max), &words(&[1])),
        &|hand| hand.send(1, 0, Opcode::RC_SEND_FIRST, None, &[0; 1024]),
        &|hand| {
            hand.with(1, 0, Immediate::Operation(max), &[]);
            hand.only(1, 1, &words(&[1]));
        },
    ];
    for (case, other) in other.into_iter().enumerate() {
        let mut hand = Hand::new(2, |_| {});
        hand.only(0, 0, &words(&[1]));
        hand.sent();
        other(&mut hand);
        assert_eq!(hand.drops(Drop::Mismatch), 1, "case {case}");
        let sent = hand.sent();
        let refused = |s: &Sent| s.to == 1 && s.syndrome == Some(Syndrome::Nak(Nak::InvalidRequest));
        assert!(sent.iter().any(refused), "case {case}");
        let told = Some(Immediate::Failed(Failure::Mismatch, 1));
        assert_eq!(sent.iter().filter(|s| s.word() == told).count(), 2, "case {case}: both are told");
        assert!(sent.iter().all(|s| s.payload.is_empty()), "no sum");
    }
}

#[test]
fn dev67_an_operation_holds_until_another_is_named() {
    let max = Primitive::AllReduce(fold(Operator::Max, DataType::I32));
    let mut hand = Hand::new(2, |_| {});
    let mut results = Vec::new();
    for child in 0..2 {
        hand.only(child, 0, &words(&[5]));
        hand.with(child, 1, Immediate::Operation(max), &[]);
        hand.only(child, 2, &words(&[6]));
        hand.with(child, 3, Immediate::Operation(sum_i32()), &words(&[7]));
        hand.only(child, 4, &words(&[8]));
    }
    results.extend(hand.data().into_iter().filter(|s| s.to == 0).map(|s| s.payload));
    assert_eq!(results, [words(&[10]), words(&[6]), words(&[14]), words(&[16])]);
}

#[test]
fn dev68_dev75_the_last_contribution_completes_once() {
    // Two frames that complete the same number can not be told apart from one and a duplicate: one result, one owner.
    let mut hand = Hand::new(2, |_| {});
    hand.only(0, 0, &words(&[1]));
    hand.only(1, 0, &words(&[2]));
    hand.only(1, 0, &words(&[2]));
    hand.only(0, 0, &words(&[1]));
    assert_eq!(payloads(&hand.data()), [(0, 0, words(&[3])), (1, 0, words(&[3]))]);
    assert_eq!(hand.report().counters.folded, 1);
}

#[test]
fn dev69_results_of_reduce_are_kept_and_counts_are_per_child() {
    let reduce = Primitive::Reduce(fold(Operator::Sum, DataType::I32), 1);
    let mut hand = Hand::new(3, |job| job.operation = reduce);
    for n in 0..4 {
        (0..3).for_each(|child| hand.only(child, n, &words(&[n])));
    }
    assert_eq!(payloads(&hand.data()), (0..4).map(|n| (1, n, words(&[3 * n]))).collect::<Vec<_>>());
    hand.answer(1, 2, GAP);
    assert_eq!(payloads(&hand.data()), [(1, 2, words(&[6])), (1, 3, words(&[9]))]);
    hand.ack(1, 3);
    // AllReduce next: rank 1 counts on from 4, the others from 0.
    for child in 0..3 {
        hand.with(child, 4, Immediate::Operation(sum_i32()), &words(&[1]));
    }
    assert_eq!(payloads(&hand.data()), [(2, 0, words(&[3])), (0, 0, words(&[3])), (1, 4, words(&[3]))]);
}

#[test]
fn dev70_answers_say_what_iba_defines() {
    let mut hand = Hand::new(2, |_| {});
    hand.send(0, 0, Opcode::RC_SEND_FIRST, None, &[0; 1024]);
    hand.send(0, 1, Opcode::RC_SEND_LAST, None, &[0; 4]);
    hand.only(0, 2, &words(&[1]));
    let ack = hand.sent().remove(0);
    assert_eq!((ack.number, ack.syndrome, ack.msn), (2, Some(ACK), Some(2)), "messages, not packets");
    assert_eq!(ack.bytes[54..58], [0x1f, 0, 0, 2]);
    hand.only(0, 4, &words(&[1]));
    assert_eq!(hand.sent()[0].bytes[54..58], [0x60, 0, 0, 2]);
}

#[test]
fn dev71_one_acknowledgement_frees_all_results_before_it() {
    let mut hand = Hand::new(2, |_| {});
    for n in 0..4 {
        (0..2).for_each(|child| hand.only(child, n, &words(&[n])));
    }
    hand.sent();
    assert_eq!(hand.report().kept, (4, 8));
    hand.ack(0, 3);
    assert_eq!(hand.report().kept.0, 4, "the other has acknowledged nothing");
    hand.ack(1, 2);
    assert_eq!(hand.report().kept.0, 1);
    hand.ack(1, 1);
    hand.ack(1, 77);
    assert_eq!(hand.report().kept.0, 1, "old answers and answers about nothing");
    hand.ack(1, 3);
    assert_eq!(hand.report().kept.0, 0);
}

#[test]
fn dev72_counts_pass_the_wrap_in_each_direction() {
    let mut hand = Hand::new(2, |_| {});
    for n in 0..20 {
        (0..2).for_each(|child| hand.only(child, n, &words(&[n])));
        let sent = hand.sent();
        assert!(
            sent.iter()
                .filter(|s| s.opcode != Opcode::RC_ACK)
                .all(|s| s.number == n && s.payload == words(&[2 * n]))
        );
        (0..2).for_each(|child| hand.ack(child, n));
    }
    let passed = |start: u32| start + 20 > 0xff_ffff;
    assert!(passed(UP) && passed(DOWN) && UP != DOWN);
}

#[test]
fn dev73_what_is_not_acknowledged_is_sent_again_and_not_without_end() {
    let mut hand = Hand::new(2, |job| job.retries = 3);
    for n in 0..3 {
        (0..2).for_each(|child| hand.only(child, n, &words(&[n])));
    }
    hand.sent();
    hand.ack(1, 2);
    hand.ack(0, 0);
    let timeout = hand.job().params().ack_timeout;
    for round in 0..3 {
        let wait = timeout << round;
        hand.wait(wait - 1000);
        assert_eq!(hand.data(), [], "round {round}: twice as long as before");
        hand.wait(2000);
        let all: Vec<_> = hand.data().iter().map(|s| (s.to, s.number)).collect();
        assert_eq!(all, [(0, 1)], "round {round}: the first missing, to hear whether there is room");
    }
    hand.wait(8 * timeout + 1000);
    let told = hand.data();
    assert_eq!(
        told.iter().map(|s| (s.to, s.word())).collect::<Vec<_>>(),
        [(1, Some(Immediate::Failed(Failure::Unreachable, 0)))]
    );
    assert_eq!(hand.report().peers[0].counters.timeouts, 3);
    hand.ack(1, 3);
    assert!(matches!(hand.report().state, State::Failed(Failure::Unreachable, 0, _)));
    hand.wait(timeout);
    assert_eq!(hand.engine.next_event(), None, "nothing is left to do");
    // Whoever still sends is refused.
    hand.only(1, 3, &words(&[3]));
    assert_eq!(hand.answers(), [(1, 3, Syndrome::Nak(Nak::RemoteOperational))]);
    assert_eq!(hand.drops(Drop::JobFailed), 1);
}

#[test]
fn the_wait_for_an_acknowledgement_doubles_up_to_a_bound_and_progress_ends_that() {
    let mut hand = Hand::new(1, |job| (job.retries, job.patience) = (200, 1 << 40));
    (0..3).for_each(|n| hand.only(0, n, &words(&[n])));
    hand.sent();
    let timeout = hand.job().params().ack_timeout;
    let waits = |hand: &mut Hand, doubled: &[u32]| {
        for &doubled in doubled {
            hand.wait((timeout << doubled) - 1);
            assert_eq!(hand.data(), [], "{doubled}");
            hand.wait(1);
            assert!(!hand.data().is_empty(), "{doubled}");
        }
    };
    waits(&mut hand, &[0, 1, 2, 3, 4, 4, 4]);
    hand.ack(0, 0);
    assert_eq!(hand.data().len(), 2, "one more for each that is acknowledged");
    waits(&mut hand, &[0, 1, 2]);
    hand.ack(0, 2);
    hand.only(0, 3, &words(&[3]));
    hand.data();
    waits(&mut hand, &[0, 1]);
}

#[test]
fn dev77_a_child_that_is_slow_to_acknowledge_gets_no_wrong_sum() {
    let mut hand = Hand::new(2, |_| {});
    let mut got = Vec::new();
    // Child 1 acknowledges nothing: 6 results are kept, then 4 numbers wait in the window, then there is no room.
    for n in 0..10 {
        (0..2).for_each(|child| hand.only(child, n, &words(&[n])));
        got.extend(payloads(&hand.data()).into_iter().filter(|s| s.0 == 1));
        hand.ack(0, n.min(5));
    }
    hand.only(0, 10, &words(&[10]));
    assert!(matches!(hand.answers()[..], [(0, 10, Syndrome::Rnr(_))]));
    assert_eq!(hand.report().open.0, 4);
    hand.ack(1, 5);
    got.extend(payloads(&hand.data()).into_iter().filter(|s| s.0 == 1));
    assert_eq!(got, (0..10).map(|n| (1, n, words(&[2 * n]))).collect::<Vec<_>>());
}

#[test]
fn a_rank_that_waits_for_buffers_is_waited_for_but_not_for_ever() {
    let mut hand = Hand::new(2, |job| job.patience = 5_000_000);
    (0..2).for_each(|child| hand.only(child, 0, &words(&[1])));
    hand.sent();
    hand.ack(1, 0);
    let start = hand.now;
    loop {
        hand.answer(0, 0, Syndrome::Rnr(12));
        assert_eq!(hand.data(), []);
        hand.wait(640_000);
        let sent = hand.data();
        if sent.iter().any(|s| s.to == 1) {
            assert_eq!(sent[0].word(), Some(Immediate::Failed(Failure::Unreachable, 0)));
            break;
        }
        assert_eq!(payloads(&sent), [(0, 0, words(&[2]))], "at {} ns", hand.now - start);
    }
    assert!((5_000_000..5_700_000).contains(&(hand.now - start)));
    assert!(hand.report().peers[0].counters.rnr_received >= 7);
}

#[test]
fn a_silent_child_is_probed_and_given_up_only_if_it_is_gone() {
    for alive in [true, false] {
        let mut hand = Hand::new(2, |job| job.probe_after = 1_000_000);
        hand.only(0, 0, &words(&[1]));
        hand.sent();
        let mut probes = 0;
        for _ in 0..40 {
            hand.wait(1_000_000);
            for probe in hand.data().iter().filter(|s| s.to == 1 && s.imm.is_none()) {
                probes += 1;
                // A duplicate of what was before the first packet: a responder acknowledges it and looks no further.
                assert_eq!((probe.opcode, probe.number, probe.ack_req), (Opcode::RC_SEND_ONLY, -1, true));
                if alive {
                    hand.ack(1, -1);
                }
            }
        }
        let report = hand.report();
        if alive {
            assert_eq!((report.state, report.peers[1].missing), (State::Running, true));
            assert!(report.waiting.unwrap() >= 39_000_000 && probes >= 39);
            hand.only(1, 0, &words(&[2]));
            assert_eq!(hand.data()[0].payload, words(&[3]));
        } else {
            assert!(matches!(report.state, State::Failing(Failure::Unreachable, 1, _)), "{:?}", report.state);
            assert_eq!(probes, 8, "seven retries");
        }
    }
}

#[test]
fn a_silent_child_is_given_up_after_as_many_retries_as_there_can_be() {
    let mut hand = Hand::new(2, |job| (job.probe_after, job.retries) = (1_000_000, u8::MAX));
    hand.only(0, 0, &words(&[1]));
    hand.sent();
    let mut probes = 0;
    for _ in 0..300 {
        hand.wait(1_000_000);
        probes += hand.data().iter().filter(|s| s.to == 1 && s.imm.is_none()).count();
    }
    assert_eq!(probes, 256);
    assert!(matches!(hand.report().state, State::Failing(Failure::Unreachable, 1, _)));
}

#[test]
fn a_late_child_is_left_out_after_the_deadline_and_counted() {
    let mut hand = Hand::new(3, |job| job.straggler = Straggler::Partial(100_000));
    for n in 0..2 {
        hand.only(0, n, &words(&[1]));
        hand.only(2, n, &words(&[4]));
        hand.now += 10_000;
    }
    hand.sent();
    hand.wait(85_000);
    let first: Vec<_> =
        hand.data().iter().filter(|s| s.to == 1).map(|s| (s.number, s.word(), s.payload.clone())).collect();
    assert_eq!(first, [(0, status(2), words(&[5]))], "the second number has a deadline of its own");
    hand.only(1, 0, &words(&[2]));
    assert_eq!((hand.drops(Drop::Late), hand.answers()), (1, vec![(1, 0, ACK)]));
    hand.only(1, 1, &words(&[2]));
    let second: Vec<_> =
        hand.data().iter().filter(|s| s.to == 1).map(|s| (s.number, s.word(), s.payload.clone())).collect();
    assert_eq!(second, [(1, status(3), words(&[7]))]);
    let report = hand.report();
    assert_eq!((report.counters.partial, report.peers[1].counters.late), (1, 1));
}

#[test]
fn a_barrier_is_never_partial_and_abort_ends_the_job() {
    for (straggler, barrier) in [(Straggler::Partial(100_000), true), (Straggler::Abort(100_000), false)] {
        let mut hand = Hand::new(2, |job| job.straggler = straggler);
        if barrier {
            hand.with(0, 0, Immediate::Operation(Primitive::Barrier), &[]);
        } else {
            hand.only(0, 0, &words(&[1]));
        }
        hand.sent();
        hand.wait(99_000);
        assert_eq!(hand.report().state, State::Running);
        hand.wait(1_000);
        assert!(matches!(hand.report().state, State::Failing(Failure::Straggler, 1, _)));
        let told: Vec<_> = hand.data().iter().map(|s| (s.to, s.word())).collect();
        assert_eq!(told, [0, 1].map(|child| (child, Some(Immediate::Failed(Failure::Straggler, 1)))));
    }
}

#[test]
fn a_rank_or_the_operator_may_end_a_job() {
    let mut hand = Hand::new(2, |_| {});
    hand.with(1, 0, Immediate::Failed(Failure::Aborted, 0), &[]);
    let told: Vec<_> = hand.data().iter().map(|s| (s.to, s.word())).collect();
    assert_eq!(told, [0, 1].map(|child| (child, Some(Immediate::Failed(Failure::Aborted, 1)))));

    let mut hand = Hand::new(2, |_| {});
    assert!(hand.engine.stop(JOB, hand.now) && !hand.engine.stop(JOB + 1, hand.now));
    assert!(hand.data().iter().all(|s| s.word() == Some(Immediate::Failed(Failure::Stopped, ALL_RANKS))));

    // A rank that refuses a result has lost its queue pair: the others are told.
    let mut hand = Hand::new(2, |_| {});
    (0..2).for_each(|child| hand.only(child, 0, &words(&[1])));
    hand.sent();
    hand.answer(1, 0, Syndrome::Nak(Nak::RemoteOperational));
    let told: Vec<_> = hand.data().iter().map(|s| (s.to, s.word())).collect();
    assert_eq!(told, [(0, Some(Immediate::Failed(Failure::Refused, 1)))]);
}

#[test]
fn results_that_nobody_asked_for_end_the_job() {
    let mut hand = Hand::new(2, |job| job.parent = Some(parent()));
    hand.with(PARENT, 0, status(2).unwrap(), &words(&[1]));
    assert_eq!(hand.drops(Drop::InvalidRequest), 1);
    assert!(matches!(hand.report().state, State::Failing(Failure::Protocol, ALL_RANKS, _)));
    assert!(hand.data().iter().all(|s| s.payload.is_empty()));
}

#[test]
fn a_parent_is_told_to_wait_when_results_are_not_acknowledged() {
    let mut hand = Hand::new(1, |job| {
        job.parent = Some(parent());
        job.window = 16;
    });
    (0..8).for_each(|n| hand.only(0, n, &words(&[n])));
    hand.sent();
    hand.ack(PARENT, 8);
    (0..7).for_each(|n| hand.with(PARENT, n, status(5).unwrap(), &words(&[10 * n])));
    // Six results are kept: the seventh waits with the parent.
    assert!(hand.answers().contains(&(PARENT, 6, Syndrome::Rnr(2))));
    assert_eq!((hand.drops(Drop::ResultsFull), hand.report().kept), (1, (6, 8)));
    hand.ack(0, 5);
    hand.with(PARENT, 6, status(5).unwrap(), &words(&[60]));
    assert_eq!(payloads(&hand.data()), [(0, 6, words(&[60]))]);
}

#[test]
fn jobs_with_interleaved_numbers_do_not_mix() {
    let mut hand = Hand::new(2, |_| {});
    hand.engine.add(params(JOB + 1, 2, FIRST_QPN + 128)).unwrap();
    for n in 0..30 {
        for (job, value) in [(JOB, 1), (JOB + 1, 1000)] {
            for child in 0..2 {
                let bytes = Hand::frame(
                    child,
                    job,
                    Opcode::RC_SEND_ONLY,
                    n,
                    Extensions::default(),
                    &words(&[value * n]),
                );
                hand.give(&bytes);
            }
        }
        let mut sums: Vec<_> = hand.data().iter().map(|s| s.payload.clone()).collect();
        sums.sort();
        assert_eq!(sums, [words(&[2 * n]), words(&[2 * n]), words(&[2000 * n]), words(&[2000 * n])]);
        for job in [JOB, JOB + 1] {
            for child in 0..2 {
                let aeth = Some(weir_endpoint::roce::wire::Aeth { syndrome: 0x1f, msn: 0 });
                let ext = Extensions { aeth, ..Extensions::default() };
                hand.give(&Hand::frame(child, job, Opcode::RC_ACK, n, ext, &[]));
            }
        }
    }
    // One fails, the other goes on.
    assert!(hand.engine.stop(JOB, hand.now));
    hand.sent();
    for child in 0..2 {
        hand.give(&Hand::frame(
            child,
            JOB + 1,
            Opcode::RC_SEND_ONLY,
            30,
            Extensions::default(),
            &words(&[1]),
        ));
    }
    assert_eq!(hand.data().len(), 2);
    assert!(hand.engine.remove(JOB).is_some());
    hand.only(0, 30, &words(&[1]));
    assert_eq!(hand.drops(Drop::UnknownQp), 1);
}

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

#[test]
fn jobs_that_do_not_fit_are_refused_with_the_numbers() {
    let mut engine =
        Engine::new(EngineParams { memory: 110_000, quota: 60_000, jobs: 3, ..EngineParams::default() });
    let job = |id: u32, change: &dyn Fn(&mut JobParams)| {
        let mut params = params(JOB + id, 2, FIRST_QPN + 128 * id);
        change(&mut params);
        params
    };
    let small = job(0, &|_| {});
    let needed = small.memory();
    assert!((16_000..30_000).contains(&needed), "{needed}");
    engine.add(small).unwrap();
    assert_eq!(engine.memory(), (needed, 110_000));
    assert_eq!(engine.add(job(0, &|_| {})), Err(Refusal::Exists(JOB)));
    let quota = engine.add(job(1, &|p| p.window = 128)).unwrap_err();
    assert!(matches!(quota, Refusal::Quota(8, _, 60_000)), "{quota}");
    engine.add(job(1, &|p| p.window = 16)).unwrap();
    let memory = engine.add(job(2, &|p| p.window = 16)).unwrap_err();
    let text = memory.to_string();
    assert!(
        text.contains("of 110000 are left") && text.contains("2 children x 16 slots x 1024 bytes"),
        "{text}"
    );
    engine.add(job(2, &|_| {})).unwrap();
    assert_eq!(engine.add(job(3, &|_| {})), Err(Refusal::Jobs(JOB + 3, 3)));
    engine.remove(JOB + 1).unwrap();
    assert_eq!(engine.memory().0, 2 * needed);

    type Change = &'static dyn Fn(&mut JobParams);
    let wrong: [(Change, &str); 17] = [
        (&|p| p.mtu = 1000, "mtu is 1000; it is 256"),
        (&|p| p.window = 5, "window is 5; it is a power of two"),
        (&|p| p.results = 2, "results is 2"),
        (&|p| p.children.clear(), "0 children"),
        (&|p| p.children[1].first_rank = 0, "a child with rank 1 was expected, it has 0"),
        (&|p| p.children[1].ranks = 2, "a host has one rank"),
        (&|p| p.line_rate = 0, "a rate of 0 bit/s"),
        (&|p| p.ack_timeout = 0, "ack_timeout_ns is 0; it is 1 or more"),
        (&|p| p.patience = 0, "patience_ns is 0"),
        (&|p| p.probe_after = 0, "probe_after_ns is 0"),
        (&|p| p.straggler = Straggler::Partial(0), "deadline_ns is 0"),
        (&|p| p.straggler = Straggler::Abort(0), "deadline_ns is 0"),
        (&|p| p.pkey = 0x8000, "pkey is 0x8000"),
        (&|p| p.children[1].path = p.children[0].path, "peers 0 and 1 have one address and one queue pair"),
        (&|p| p.ranks = 3, "children have the ranks below 2, the job has 3"),
        (&|p| p.operation = Primitive::Broadcast(2), "the root of its operation is no rank"),
        (
            &|p| p.children[0].path.src_ip = std::net::Ipv6Addr::LOCALHOST.into(),
            "addresses of peer 0 are of two families",
        ),
    ];
    for (change, text) in wrong {
        let refusal = engine.add(job(1, change)).unwrap_err().to_string();
        assert!(refusal.contains(text), "{refusal}");
    }
    let taken = engine.add(job(1, &|p| p.children[1].qpn = p.children[0].qpn)).unwrap_err().to_string();
    assert!(
        taken.contains("queue pair 0x180 is taken or not one of this engine's, which are 0x100"),
        "{taken}"
    );
    let mut many = params(JOB + 1, 64, FIRST_QPN + 128);
    many.children.push(many.children[0]);
    assert_eq!(many.check(), Err(Refusal::FanIn(JOB + 1, MAX_CHILDREN + 1)));
}

#[test]
fn the_sum_of_memory_is_what_a_job_takes() {
    let params = JobParams { window: 64, results: 128, ..params(JOB, 8, FIRST_QPN) };
    let payload = 64 * 8 * 1024 + 128 * 1024;
    assert!((payload..payload + payload / 10).contains(&params.memory()), "{}", params.memory());
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

/// A status says what it should of flags, too.
#[test]
fn overflow_is_told_with_the_result() {
    let mut hand = Hand::new(2, |_| {});
    hand.only(0, 0, &words(&[i32::MAX]));
    hand.only(1, 0, &words(&[1]));
    let overflow = Immediate::Status(Status { count: 2, flags: Flags::OVERFLOW });
    assert!(hand.data().iter().all(|s| s.word() == Some(overflow)));
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
fn a_page_is_read_job_by_job_and_again() {
    let mut hand = Hand::new(2, |_| {});
    hand.engine.add(params(JOB + 1, 3, FIRST_QPN + 128)).unwrap();
    hand.only(0, 0, &words(&[1]));
    let mut page = ReportPage::new(4);
    for _ in 0..2 {
        let turns = (0..).take_while(|_| !hand.engine.read(&mut page, hand.now)).count();
        assert_eq!(turns, 2, "one job each");
        let seen: Vec<_> = page.jobs().iter().map(|job| (job.id, job.peers.len())).collect();
        assert_eq!(seen, [(JOB, 2), (JOB + 1, 3)]);
        assert_eq!((page.jobs()[0].open.0, page.jobs()[0].peers[1].missing), (1, true));
        assert_eq!((page.counters, page.memory), (*hand.engine.counters(), hand.engine.memory()));
        page.rewind();
    }
}

#[test]
fn a_job_that_is_refused_comes_back() {
    let mut hand = Hand::new(2, |_| {});
    let job = Job::new(params(JOB, 2, FIRST_QPN + 128), hand.engine.kernels()).unwrap();
    let (refusal, job) = hand.engine.insert(Box::new(job)).unwrap_err();
    assert_eq!((refusal, job.params().id), (Refusal::Exists(JOB), JOB));
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
