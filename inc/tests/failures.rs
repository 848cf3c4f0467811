//! The engine moved by hand: peers that are slow, silent or late, and how a job ends.

mod support;

use support::hand::{Hand, JOB, PARENT, parent, payloads, status, words};
use weir_endpoint::roce::wire::{Nak, Opcode, Syndrome};
use weir_inc::drops::Drop;
use weir_inc::immediate::{ALL_RANKS, Failure, Immediate, Primitive, Status};
use weir_inc::kernels::Flags;
use weir_inc::params::Straggler;
use weir_inc::report::State;

const ACK: Syndrome = Syndrome::ACK_NO_CREDITS;

#[test]
fn a_rank_that_waits_for_buffers_is_waited_for_but_not_for_ever() {
    let mut hand = Hand::new(2, |job| job.patience = 30_000_000);
    for n in 0..3 {
        (0..2).for_each(|child| hand.only(child, n, &words(&[1])));
    }
    hand.sent();
    hand.ack(1, 2);
    let start = hand.now;
    let mut waits = Vec::new();
    loop {
        hand.answer(0, 0, Syndrome::Rnr(12));
        let from = hand.now;
        let sent = loop {
            let sent = hand.data();
            if !sent.is_empty() {
                break sent;
            }
            hand.wait(10_000);
        };
        if sent.iter().any(|s| s.to == 1) {
            assert_eq!(sent[0].word(), Some(Immediate::Failed(Failure::Unreachable, 0)));
            break;
        }
        waits.push((hand.now - from) / 10_000);
        // Who was not ready is asked by one packet.
        assert_eq!(payloads(&sent), [(0, 0, words(&[2]))], "at {} ns", hand.now - start);
    }
    assert!((30_000_000..30_100_000).contains(&(hand.now - start)));
    // As long as it asked for, then twice as long each time, up to `ack_timeout`.
    assert_eq!(waits, [64, 128, 256, 420, 420, 420, 420, 420, 420]);
}

/// Rank 1 is.
fn is_gone(state: State) -> bool {
    matches!(state, State::Failing(Failure::Unreachable, 1, _) | State::Failed(Failure::Unreachable, 1, _))
}

#[test]
fn a_silent_child_is_probed_and_given_up_only_if_it_is_gone() {
    for alive in [true, false] {
        let mut hand = Hand::new(2, |job| {
            (job.probe_after, job.patience, job.arrival) = (1_000_000, 8_000_000, 1);
        });
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
            assert!(is_gone(report.state), "{:?}", report.state);
            assert_eq!(probes, 8, "seven retries");
        }
    }
}

/// Whoever looks at the clock is a little late at times, and then not.
#[test]
fn a_child_is_probed_as_often_when_the_clock_is_looked_at_late() {
    let mut hand = Hand::new(2, |job| {
        (job.probe_after, job.patience, job.arrival) = (1_000_000, 40_000_000, 1);
        job.retries = 39;
    });
    hand.only(0, 0, &words(&[1]));
    hand.sent();
    for n in 0..42 {
        hand.wait(if n % 2 == 0 { 1_000_400 } else { 999_600 });
    }
    assert!(is_gone(hand.report().state), "{:?}", hand.report().state);
}

#[test]
fn a_silent_child_is_given_up_after_as_many_retries_as_there_can_be() {
    let mut hand = Hand::new(2, |job| {
        (job.probe_after, job.retries) = (1_000_000, u8::MAX);
        (job.patience, job.arrival) = (256_000_000, 1);
    });
    hand.only(0, 0, &words(&[1]));
    hand.sent();
    let mut probes = 0;
    for _ in 0..300 {
        hand.wait(1_000_000);
        probes += hand.data().iter().filter(|s| s.to == 1 && s.imm.is_none()).count();
    }
    assert_eq!(probes, 256);
    assert!(is_gone(hand.report().state));
}

/// Hosts of a job do not begin at once: who has not said anything yet is waited for longer than who has fallen silent.
#[test]
fn a_rank_that_has_not_come_yet_is_waited_for() {
    for straggler in [Straggler::Wait, Straggler::Partial(100_000)] {
        // Rank 0 alone, for so many milliseconds or until the job fails.
        let wait = |hand: &mut Hand, ms: u64| {
            let from = hand.now;
            while hand.report().state == State::Running && hand.now - from < ms * 1_000_000 {
                hand.wait(1_000_000);
                for sent in hand.data().iter().filter(|s| s.to == 0) {
                    hand.ack(0, sent.number);
                }
            }
            (hand.now - from) / 1_000_000
        };
        let mut hand = Hand::new(2, |job| job.straggler = straggler);
        hand.only(0, 0, &words(&[1]));
        hand.sent();
        assert_eq!(wait(&mut hand, 29_000), 29_000, "{straggler:?}");
        hand.only(1, 0, &words(&[2]));
        assert_eq!(hand.answers(), [(1, 0, ACK)]);
        hand.wait(100_000_000);
        let payload = if straggler == Straggler::Wait { 3 } else { 1 };
        let to_1 = payloads(&hand.data()).into_iter().rfind(|(to, ..)| *to == 1);
        assert!(to_1.is_none_or(|result| result == (1, 0, words(&[payload]))), "{straggler:?}");
        hand.ack(1, 0);
        assert_eq!(hand.report().kept.0, u64::from(straggler == Straggler::Wait), "{straggler:?}");
        hand.ack(0, 0);
        // Now that it has come it is given up sooner.
        hand.only(0, 1, &words(&[1]));
        let ms = wait(&mut hand, 40_000);
        assert!((300..1_100).contains(&ms), "{straggler:?}: {ms} ms");
        assert!(is_gone(hand.report().state), "{:?}", hand.report().state);

        let mut hand = Hand::new(2, |job| job.straggler = straggler);
        hand.only(0, 0, &words(&[1]));
        hand.sent();
        let ms = wait(&mut hand, 40_000);
        assert!((30_000..30_100).contains(&ms), "{straggler:?}: {ms} ms");
        assert!(is_gone(hand.report().state), "{:?}", hand.report().state);
    }
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
    assert_eq!(report.counters.most_open, 2);
}

/// Else it would be one packet behind from there on, and left out of sums that it believes to be in.
#[test]
fn a_late_child_that_says_something_else_than_the_others_ends_the_job() {
    let mut hand = Hand::new(2, |job| job.straggler = Straggler::Partial(100_000));
    hand.only(0, 0, &words(&[1]));
    hand.wait(200_000);
    hand.only(1, 0, &words(&[1, 2]));
    assert_eq!(hand.drops(Drop::Mismatch), 1);
    assert!(matches!(hand.report().state, State::Failing(Failure::Mismatch, 1, _)));
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

/// To a responder an Only in the midst of a message is out of order: the message that has begun ends with the word.
#[test]
fn a_failure_in_the_midst_of_a_result_is_told_as_its_last_packet() {
    let mut hand = Hand::new(2, |_| {});
    let full = vec![1; 1024];
    for child in 0..2 {
        hand.send(child, 0, Opcode::RC_SEND_FIRST, None, &full);
    }
    assert_eq!(hand.data().len(), 2);
    // Another length than the others': the job fails.
    hand.send(0, 1, Opcode::RC_SEND_MIDDLE, None, &full);
    hand.send(1, 1, Opcode::RC_SEND_LAST, None, &[1; 8]);
    let told: Vec<_> = hand.data().iter().map(|s| (s.to, s.opcode, s.payload.len(), s.word())).collect();
    let word = Some(Immediate::Failed(Failure::Mismatch, 1));
    assert_eq!(told, [0, 1].map(|child| (child, Opcode::RC_SEND_LAST_IMM, 1, word)));
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
