//! The engine moved by hand, frame by frame: order, windows, answers, retransmission (DEV-60 to DEV-77).

mod support;

use support::hand::{DOWN, Hand, JOB, PARENT, Sent, UP, parent, payloads, status, words};
use support::{FIRST_QPN, fold, sum_i32};
use weir_endpoint::roce::frame::Frame;
use weir_endpoint::roce::wire::{Extensions, Nak, Opcode, Qpn, Syndrome};
use weir_inc::drops::Drop;
use weir_inc::immediate::{Failure, Immediate, Primitive};
use weir_inc::kernels::{DataType, Kernels, Operator};
use weir_inc::report::State;

const ACK: Syndrome = Syndrome::ACK_NO_CREDITS;
const GAP: Syndrome = Syndrome::Nak(Nak::Sequence);

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

/// A root that is no rank names no operation: that is no quarrel with what the others sent.
#[test]
fn a_word_with_a_root_that_is_no_rank_is_none() {
    for root in [2, 9, u16::MAX] {
        for word in [Primitive::Reduce(fold(Operator::Sum, DataType::I32), root), Primitive::Broadcast(root)]
        {
            let mut hand = Hand::new(2, |_| {});
            hand.with(1, 0, Immediate::Operation(word), &words(&[1]));
            let told = Some(Immediate::Failed(Failure::Protocol, 1));
            assert_eq!(hand.sent().iter().filter(|s| s.word() == told).count(), 2, "{word:?}");
            assert_eq!((hand.drops(Drop::InvalidRequest), hand.drops(Drop::Mismatch)), (1, 0), "{word:?}");
        }
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
    assert_eq!(hand.drops(Drop::StrayAck), 1, "an old one is none");
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
