//! RDMA WRITE in the place of SEND: contributions, results, both as a host of INCCL does them.

mod support;

use bolero::check;
use support::hand::{Hand, JOB, PARENT, Sent, parent, status, words};
use support::rank::{By, Message, RESULTS};
use support::{Faults, Net, Places, Random, Tree, fold, sum_i32};
use weir_endpoint::roce::verbs::Status;
use weir_endpoint::roce::wire::{Extensions, Nak, Opcode, Reth, Syndrome};
use weir_inc::drops::Drop;
use weir_inc::immediate::{Failure, Primitive};
use weir_inc::kernels::{DataType, Operator};
use weir_inc::params::JobParams;
use weir_inc::remote::{Memory, Remote, Writes};
use weir_inc::report::State;

const ACK: Syndrome = Syndrome::ACK_NO_CREDITS;
const MEMORY: Memory = Memory { addr: 0x7f00_0000_1000, rkey: 0xabcd, len: 4096 };
const AT: u64 = MEMORY.addr;
const KEY: u32 = MEMORY.rkey;

fn writers(job: &mut JobParams) {
    job.children.iter_mut().for_each(|c| c.remote.writes = Writes::Into(MEMORY));
}

#[test]
fn writes_are_contributions_like_sends() {
    let mut hand = Hand::new(2, writers);
    // One message of three packets, one of one with immediate data, one without.
    let full = [1; 1024];
    hand.write(0, 0, Opcode::RC_WRITE_FIRST, Some((AT, KEY, 2056)), &full);
    hand.write(0, 1, Opcode::RC_WRITE_MIDDLE, None, &full);
    hand.write(0, 2, Opcode::RC_WRITE_LAST_IMM, None, &[1; 8]);
    hand.write(0, 3, Opcode::RC_WRITE_ONLY, Some((AT + 4092, KEY, 4)), &words(&[5]));
    // The sibling SENDs: what comes is the same.
    hand.send(1, 0, Opcode::RC_SEND_FIRST, None, &full);
    hand.send(1, 1, Opcode::RC_SEND_MIDDLE, None, &full);
    hand.send(1, 2, Opcode::RC_SEND_LAST, None, &[1; 8]);
    hand.only(1, 3, &words(&[6]));
    let sent = hand.sent();
    assert_eq!(
        sent.iter().filter(|s| s.opcode == Opcode::RC_ACK).map(|s| (s.to, s.number)).collect::<Vec<_>>(),
        [(0, 3), (1, 3)]
    );
    let to_0: Vec<_> = sent.iter().filter(|s| s.to == 0 && s.opcode != Opcode::RC_ACK).collect();
    assert_eq!(
        to_0.iter().map(|s| s.opcode).collect::<Vec<_>>(),
        [Opcode::RC_SEND_FIRST, Opcode::RC_SEND_MIDDLE, Opcode::RC_SEND_LAST_IMM, Opcode::RC_SEND_ONLY_IMM]
    );
    assert_eq!((&to_0[0].payload[..], &to_0[3].payload), (&[2; 1024][..], &words(&[11])));
}

#[test]
fn a_write_goes_where_its_sender_was_told_or_the_job_ends() {
    let access = (Drop::RemoteAccess, Nak::RemoteAccess);
    let invalid = (Drop::InvalidRequest, Nak::InvalidRequest);
    let first = [1; 1024];
    type Case<'a> = (&'a [(Opcode, Option<(u64, u32, u32)>, &'a [u8])], (Drop, Nak));
    let (only, opens, goes_on, ends) = (
        Opcode::RC_WRITE_ONLY_IMM,
        Opcode::RC_WRITE_FIRST,
        Opcode::RC_WRITE_MIDDLE,
        Opcode::RC_WRITE_LAST_IMM,
    );
    let cases: [Case<'_>; 14] = [
        (&[(only, Some((AT, KEY + 1, 4)), &[0; 4])], access),
        (&[(only, Some((AT - 1, KEY, 4)), &[0; 4])], access),
        (&[(only, Some((AT + 4093, KEY, 4)), &[0; 4])], access),
        (&[(only, Some((u64::MAX, KEY, 4)), &[0; 4])], access),
        (&[(only, Some((0, KEY, 4)), &[0; 4])], access),
        (&[(opens, Some((AT, KEY, 4097)), &first)], access),
        (&[(opens, Some((AT, KEY, u32::MAX)), &first)], access),
        // Lengths that are not what was told.
        (&[(only, Some((AT, KEY, 8)), &[0; 4])], invalid),
        (&[(only, Some((AT, KEY, 0)), &[0; 4])], invalid),
        (&[(opens, Some((AT, KEY, 1024)), &first)], invalid),
        (&[(opens, Some((AT, KEY, 1028)), &first), (ends, None, &[0; 8])], invalid),
        (&[(opens, Some((AT, KEY, 2048)), &first), (goes_on, None, &first)], invalid),
        // Out of turn: within a WRITE, a SEND that goes on, and the other way round.
        (&[(opens, Some((AT, KEY, 1028)), &first), (Opcode::RC_SEND_LAST, None, &[0; 4])], invalid),
        (&[(Opcode::RC_SEND_FIRST, None, &first), (ends, None, &[0; 4])], invalid),
    ];
    for (n, (packets, (drop, nak))) in cases.into_iter().enumerate() {
        let mut hand = Hand::new(2, writers);
        for (number, (opcode, reth, payload)) in packets.iter().enumerate() {
            hand.write(0, number as i32, *opcode, *reth, payload);
        }
        assert_eq!(hand.drops(drop), 1, "case {n}");
        let sent = hand.sent();
        let refused = |s: &Sent| s.to == 0 && s.syndrome == Some(Syndrome::Nak(nak));
        assert!(sent.iter().any(refused), "case {n}: {sent:?}");
        assert!(matches!(hand.report().state, State::Failing(Failure::Protocol, 0, _)), "case {n}");
    }
    // Nobody was told of any memory; and an engine above writes nowhere.
    let mut hand = Hand::new(2, |_| {});
    hand.write(0, 0, only, Some((AT, KEY, 4)), &[0; 4]);
    assert_eq!(hand.drops(Drop::InvalidRequest), 1);
    let mut hand = Hand::new(2, |job| job.parent = Some(parent()));
    (0..2).for_each(|child| hand.only(child, 0, &words(&[1])));
    hand.write(PARENT, 0, only, Some((AT, KEY, 4)), &[0; 4]);
    assert_eq!(hand.drops(Drop::InvalidRequest), 1);
}

#[test]
fn nothing_may_be_written_anywhere() {
    // A Barrier as WRITE: no byte, so no key is looked at.
    let mut hand = Hand::new(2, |job| {
        writers(job);
        job.operation = Primitive::Barrier;
    });
    for child in 0..2 {
        let ext = Extensions {
            imm: Some(Primitive::Barrier.encode()),
            reth: Some(Reth { va: 9, rkey: 9, len: 0 }),
            ..Default::default()
        };
        let frame = Hand::frame(child, JOB, Opcode::RC_WRITE_ONLY_IMM, 0, ext, &[]);
        hand.give(&frame);
    }
    assert_eq!(
        hand.data().iter().map(|s| (s.to, s.word())).collect::<Vec<_>>(),
        [(0, status(2)), (1, status(2))]
    );
}

#[test]
fn results_are_written_to_places_in_turn() {
    let memory = Memory { addr: 0x5000, rkey: 77, len: 3 * 1024 + 5 };
    let mut hand = Hand::new(2, |job| {
        job.status = false;
        job.children[1].remote.results = Some(memory);
    });
    for child in 0..2 {
        hand.send(child, 0, Opcode::RC_SEND_FIRST, None, &[1; 1024]);
        hand.send(child, 1, Opcode::RC_SEND_LAST, None, &words(&[2]));
        hand.only(child, 2, &words(&[3]));
        hand.only(child, 3, &words(&[4]));
    }
    let sent = hand.data();
    let to_1: Vec<_> =
        sent.iter().filter(|s| s.to == 1).map(|s| (s.opcode, s.reth, s.word(), s.payload.len())).collect();
    let only = Opcode::RC_WRITE_ONLY_IMM;
    let expected = [
        (Opcode::RC_WRITE_ONLY, Some((0x5000, 77, 1024)), None, 1024),
        // Immediate data ends a message, whatever `status` says: without it the host hears nothing.
        (only, Some((0x5400, 77, 4)), status(2), 4),
        (only, Some((0x5800, 77, 4)), status(2), 4),
        (only, Some((0x5000, 77, 4)), status(2), 4),
    ];
    assert_eq!(to_1, expected);
    assert!(sent.iter().filter(|s| s.to == 0).all(|s| s.reth.is_none() && s.imm.is_none()));
    // Lost: the same comes again, to the same place.
    hand.answer(1, 1, Syndrome::Nak(Nak::Sequence));
    let again: Vec<_> = hand.data().iter().map(|s| (s.opcode, s.reth, s.word(), s.payload.len())).collect();
    assert_eq!(again, expected[1..]);
    // The end of a job is a SEND.
    hand.ack(1, 3);
    hand.engine.stop(JOB, hand.now);
    assert!(hand.data().iter().all(|s| s.opcode == Opcode::RC_SEND_ONLY_IMM));
}

fn mirrored(job: &mut JobParams) {
    job.children.iter_mut().for_each(|c| c.remote.writes = Writes::Mirrored);
}

#[test]
fn mirrored_writes_are_acknowledged_when_their_result_is_in_place() {
    let mut hand = Hand::new(2, mirrored);
    for child in 0..2 {
        let at = 0x1000 * (child as u64 + 1);
        hand.write(child, 0, Opcode::RC_WRITE_FIRST, Some((at, 8, 1028)), &[1; 1024]);
        hand.write(child, 1, Opcode::RC_WRITE_LAST, None, &words(&[child as i32]));
    }
    // No acknowledgement among them: nothing is done yet.
    let sent = hand.sent();
    assert!(sent.iter().all(|s| s.opcode == Opcode::RC_WRITE_ONLY && s.imm.is_none()), "{sent:?}");
    let to: Vec<_> = sent.iter().map(|s| (s.to, s.number, s.reth)).collect();
    let expected = |child: usize, n: i32| {
        (child, n, Some((0x1000 * (child as u64 + 1) + 1024 * n as u64, 8, if n == 0 { 1024 } else { 4 })))
    };
    let mut sorted = to.clone();
    sorted.sort();
    assert_eq!(sorted, [expected(0, 0), expected(0, 1), expected(1, 0), expected(1, 1)]);
    // What is sent again is acknowledged no further, and a gap names the oldest.
    hand.write(0, 1, Opcode::RC_WRITE_LAST, None, &words(&[0]));
    assert_eq!(hand.answers(), [(0, -1, ACK)]);
    hand.write(0, 3, Opcode::RC_WRITE_ONLY, Some((0, 8, 4)), &words(&[0]));
    assert_eq!(hand.answers(), [(0, 0, Syndrome::Nak(Nak::Sequence))]);
    hand.ack(0, 0);
    assert_eq!(hand.answers(), [(0, 0, ACK)]);
    hand.ack(0, 1);
    let ack = hand.sent().remove(0);
    assert_eq!((ack.number, ack.syndrome, ack.msn), (1, Some(ACK), Some(1)));
    // SENDs of the same host are acknowledged when they are stored, and answered by SENDs.
    hand.only(0, 2, &words(&[3]));
    assert_eq!(hand.answers(), [(0, 2, ACK)]);
    hand.write(1, 2, Opcode::RC_WRITE_ONLY, Some((0x9000, 8, 4)), &words(&[4]));
    let forms: Vec<_> = hand.data().iter().map(|s| (s.to, s.opcode, s.payload.clone())).collect();
    assert!(
        forms.contains(&(0, Opcode::RC_SEND_ONLY_IMM, words(&[7])))
            && forms.contains(&(1, Opcode::RC_WRITE_ONLY, words(&[7]))),
        "{forms:?}"
    );
}

#[test]
fn mirrored_writes_of_a_failed_job_are_not_done() {
    let mut hand = Hand::new(2, mirrored);
    hand.write(0, 0, Opcode::RC_WRITE_ONLY, Some((0x1000, 8, 4)), &words(&[1]));
    hand.write(1, 0, Opcode::RC_WRITE_ONLY, Some((0x1000, 8, 4)), &words(&[1]));
    hand.write(0, 1, Opcode::RC_WRITE_ONLY, Some((0x2000, 8, 4)), &words(&[1]));
    hand.sent();
    hand.ack(0, 0);
    hand.sent();
    hand.engine.stop(JOB, hand.now);
    let answers = hand.answers();
    let refused = Syndrome::Nak(Nak::RemoteOperational);
    assert_eq!(answers, [(0, 1, refused), (1, 0, refused)]);
    // The word is acknowledged: it is no result.
    hand.ack(0, 1);
    assert_eq!(hand.answers(), []);
    hand.write(0, 1, Opcode::RC_WRITE_ONLY, Some((0x2000, 8, 4)), &words(&[1]));
    assert_eq!(hand.answers(), [(0, 0, ACK)], "no further");
    // Words and other operations would break the count.
    for word in [sum_i32(), Primitive::AllReduce(fold(Operator::Max, DataType::I32))] {
        let mut hand = Hand::new(2, mirrored);
        hand.with(0, 0, weir_inc::immediate::Immediate::Operation(word), &[]);
        assert_eq!(hand.drops(Drop::InvalidRequest), 1);
    }
    let wrong = JobParams { operation: Primitive::AllGather, ..support::hand::params(1 + 7, 2, 0x180) };
    let mut wrong = JobParams { children: wrong.children.clone(), ..wrong };
    mirrored(&mut wrong);
    assert!(wrong.check().unwrap_err().to_string().contains("which AllReduce alone has"));
}

fn bytes(rank: u16, message: u64, len: usize) -> Vec<u8> {
    let mut random = Random::new(u64::from(rank) << 40 | message);
    (0..len).map(|_| random.next() as u8).collect()
}

/// All ranks contribute in a way of their own, so many messages of these lengths in turn; every bit of every result.
fn all_reduce(
    seed: u64,
    tree: &Tree,
    ways: [u8; 4],
    faults: Faults,
    (messages, lengths): (u64, [usize; 4]),
) -> (Net, Places) {
    let sum = fold(Operator::Sum, DataType::I32);
    let mut net = Net::new(seed);
    net.faults = faults;
    // What waits for its result is not acknowledged meanwhile: an adapter has to wait for losses of others, too.
    net.rank_timeout = if ways.contains(&3) { 100_000_000 } else { net.rank_timeout };
    let (n, window) = (tree.ranks(), 16);
    let job = JobParams { mtu: 256, window, results: 32, ..JobParams::new(1, n, Primitive::AllReduce(sum)) };
    let memory = Memory { len: u64::from(window) * 256, ..MEMORY };
    let remote = move |rank: u16| match ways[usize::from(rank) % 4] {
        0 => Remote::default(),
        1 => Remote { writes: Writes::Into(memory), results: None },
        2 => Remote { writes: Writes::Into(memory), results: Some(RESULTS) },
        _ => Remote { writes: Writes::Mirrored, results: None },
    };
    let places = net.job(tree, &job, |job| {
        job.children.iter_mut().filter(|c| !c.engine).for_each(|c| c.remote = remote(c.first_rank));
    });
    for &node in &places.ranks {
        let rank = net.rank(node);
        let me = rank.rank;
        rank.by = match remote(me).writes {
            Writes::Refused => By::Send,
            Writes::Into(memory) => By::Write(memory, Some(Primitive::AllReduce(sum).encode())),
            Writes::Mirrored => By::Mirror,
        };
        let len = move |m: u64| lengths[m as usize % 4];
        rank.play(move |m| (m < messages).then(|| Message::data(bytes(me, m, len(m)))));
        let tree = tree.clone();
        rank.check = Box::new(move |m, result, _| {
            let mut inputs = (0..n).map(|r| bytes(r, m, len(m)));
            assert_eq!(result, tree.fold(sum, &mut inputs), "seed {seed}: rank {me}, message {m}");
            false
        });
    }
    // Of a host that waits for its results a loss may cost a timer.
    let end = 20_000_000_000 + 10_000_000 * messages;
    let done = net.run_until(end, |net| places.ranks.iter().all(|&n| net.rank(n).is_complete()));
    let ranks: Vec<String> = places.ranks.iter().map(|&n| format!("{:?}", net.rank(n))).collect();
    assert!(done, "seed {seed}, {ways:?}: {ranks:#?}");
    (net, places)
}

#[test]
fn writes_either_way_are_exact_in_trees_and_under_loss() {
    let trees = [Tree::flat(4), Tree::Engine(vec![Tree::flat(2), Tree::Rank, Tree::Rank])];
    for (seed, faults) in [Faults::default(), Faults::all(3_000), Faults::all(30_000)].into_iter().enumerate()
    {
        for tree in &trees {
            for ways in [[1; 4], [2; 4], [3; 4], [0, 1, 2, 3]] {
                all_reduce(seed as u64, tree, ways, faults, (300, [4, 256, 1000, 600]));
            }
        }
    }
}

/// The long run: `WEIR_INC_MESSAGES=10000000 cargo test --release -p weir-inc --test write a_long_run`.
#[test]
fn a_long_run_of_writes_over_bad_links_is_exact() {
    let messages = std::env::var("WEIR_INC_MESSAGES").ok().and_then(|n| n.parse().ok()).unwrap_or(20_000);
    // By SEND, by WRITE, by WRITE both ways, mirrored.
    let (ways, lengths) = ([0, 1, 2, 3], [16, 256, 300, 4]);
    let (net, _) = all_reduce(6, &Tree::flat(4), ways, Faults::all(5_000), (messages, lengths));
    assert!(net.frames > 8 * messages);
}

/// WRITEs of any kind, in turn and out of turn, with bytes changed, sealed again or not: no panic, and no sum changes or goes
/// elsewhere.
#[test]
fn fuzz_malformed_writes_change_no_sum() {
    const OPCODES: [Opcode; 6] = [
        Opcode::RC_WRITE_FIRST,
        Opcode::RC_WRITE_MIDDLE,
        Opcode::RC_WRITE_LAST,
        Opcode::RC_WRITE_LAST_IMM,
        Opcode::RC_WRITE_ONLY,
        Opcode::RC_WRITE_ONLY_IMM,
    ];
    let results = Memory { addr: 0x5000, rkey: 77, len: 4096 };
    check!().with_iterations(20_000).for_each(|input: &[u8]| {
        let mut random = Random::new(input.iter().fold(7, |h, &b| (h << 5 ^ h >> 3) ^ u64::from(b)));
        let mirrors = random.below(2) == 0;
        let mut hand = Hand::new(2, |job| {
            let child = &mut job.children[0].remote;
            child.writes = if mirrors { Writes::Mirrored } else { Writes::Into(MEMORY) };
            child.results = (!mirrors).then_some(results);
        });
        hand.write(0, 0, Opcode::RC_WRITE_ONLY, Some((AT, KEY, 4)), &words(&[1]));
        // What comes next, what has come, what is yet to come.
        for number in [1, 0, 2] {
            let opcode = OPCODES[random.below(6) as usize];
            let full = matches!(opcode, Opcode::RC_WRITE_FIRST | Opcode::RC_WRITE_MIDDLE);
            let len = [4, 1024, 1028, 2048][random.below(4) as usize];
            let ext = Extensions {
                imm: matches!(opcode, Opcode::RC_WRITE_LAST_IMM | Opcode::RC_WRITE_ONLY_IMM)
                    .then(|| sum_i32().encode()),
                reth: matches!(
                    opcode,
                    Opcode::RC_WRITE_FIRST | Opcode::RC_WRITE_ONLY | Opcode::RC_WRITE_ONLY_IMM
                )
                .then_some(Reth { va: AT, rkey: KEY, len }),
                ..Extensions::default()
            };
            let payload = words(&[9; 256][..if full { 256 } else { 1 }]);
            let mut frame = Hand::frame(0, JOB, opcode, number, ext, &payload);
            // Headers rather than payload: those are what is read.
            let headers = frame.len().min(80) as u64;
            for &byte in input.iter().take(random.below(4) as usize) {
                frame[random.below(headers) as usize] = byte;
            }
            hand.give_damaged(&mut frame);
        }
        hand.now += 1;
        hand.engine.tick(hand.now);
        hand.only(1, 0, &words(&[2]));
        let place = if mirrors { (AT, KEY, 4) } else { (results.addr, results.rkey, 4) };
        let sums = |sent: &Sent| sent.opcode != Opcode::CNP && !sent.payload.is_empty();
        for sent in hand.data().into_iter().filter(sums) {
            assert_eq!(sent.payload, words(&[3]), "{sent:?}");
            assert_eq!(sent.reth, (sent.to == 0).then_some(place), "{sent:?}");
        }
    });
}

/// A host that hears only what its own adapter says is done: a job that fails fails its WRITEs.
#[test]
fn a_host_whose_writes_are_mirrored_hears_of_failure_by_its_adapter() {
    let mut net = Net::new(5);
    net.rank_timeout = 100_000_000;
    let job = JobParams { mtu: 256, window: 16, results: 32, ..JobParams::new(1, 2, sum_i32()) };
    let places = net.job(&Tree::flat(2), &job, mirrored);
    for &node in &places.ranks {
        net.rank(node).by = By::Mirror;
        net.rank(node).play(|m| Some(Message::data((m as i32).to_be_bytes().to_vec())));
    }
    net.run_until(500_000, |_| false);
    net.rank(places.ranks[1]).killed = true;
    let bound = net.now + 1_000_000_000;
    let other = places.ranks[0];
    assert!(net.run_until(bound, |net| net.rank(other).error.is_some()));
    assert_eq!(net.rank(other).error, Some(Status::RemoteOperational));
    for (m, received) in net.rank(other).received.iter().enumerate() {
        assert_eq!(received.bytes, (2 * m as i32).to_be_bytes());
    }
}
