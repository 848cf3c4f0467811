//! Ranks that are stock RC endpoints, engines in a tree, links that do harm, in virtual time.

mod support;

use proptest::prelude::*;
use support::rank::{Message, Received};
use support::{Faults, Net, Places, Random, Tree, Way, fold, sum_i32};
use weir_inc::immediate::{Immediate, Primitive, Status};
use weir_inc::kernels::{DataType, Flags, Fold, Operator};
use weir_inc::params::JobParams;

/// Payload `message` of `rank`.
fn payload(seed: u64, rank: u16, message: u64, len: usize) -> Vec<u8> {
    let mut random = Random::new(seed ^ u64::from(rank) << 32 ^ message << 48 ^ message);
    let mut bytes: Vec<u8> =
        (0..len.div_ceil(6)).flat_map(|_| random.next().to_be_bytes()[2..].to_vec()).collect();
    bytes.truncate(len);
    bytes
}

fn ranks(net: &mut Net, places: &Places, mut each: impl FnMut(&mut support::rank::Rank)) {
    for &node in &places.ranks {
        each(net.rank(node));
    }
}

fn complete(net: &mut Net, places: &Places) -> bool {
    places.ranks.iter().all(|&node| net.rank(node).is_complete())
}

fn finish(net: &mut Net, places: &Places) {
    finish_within(net, places, 20_000_000_000);
}

/// [`finish`] with so many nanoseconds of virtual time.
fn finish_within(net: &mut Net, places: &Places, patience: u64) {
    let done = net.run_until(net.now + patience, |net| complete(net, places));
    let ranks: Vec<String> = places.ranks.iter().map(|&n| format!("{:?}", net.rank(n))).collect();
    let now = net.now;
    let jobs: Vec<_> = places.engines.iter().flat_map(|&node| net.engine(node).report(now)).collect();
    assert!(done, "not complete at {now} ns: {ranks:#?} {jobs:#?}");
}

/// Runs `messages` AllReduce messages of `len` bytes and checks each bit of each result.
fn all_reduce(seed: u64, tree: &Tree, fold: Fold, messages: u64, len: usize, faults: Faults) -> Net {
    let (mut net, places) = begin(seed, tree, fold, messages, len, faults);
    // A message takes about 3 us, and loss a timer now and then.
    finish_within(&mut net, &places, 20_000_000_000 + 10_000 * messages);
    net
}

/// [`all_reduce`] that is still to run.
fn begin(seed: u64, tree: &Tree, fold: Fold, messages: u64, len: usize, faults: Faults) -> (Net, Places) {
    let mut net = Net::new(seed);
    net.faults = faults;
    let job = JobParams {
        mtu: 256,
        window: 16,
        results: 32,
        ..JobParams::new(1, tree.ranks(), Primitive::AllReduce(fold))
    };
    let places = net.job(tree, &job, |_| {});
    let n = tree.ranks();
    ranks(&mut net, &places, |rank| {
        let me = rank.rank;
        rank.play(move |m| (m < messages).then(|| Message::data(payload(seed, me, m, len))));
        let tree = tree.clone();
        rank.check = Box::new(move |m, bytes, imm| {
            let mut inputs = (0..n).map(|r| payload(seed, r, m, len));
            assert_eq!(bytes, tree.fold(fold, &mut inputs), "seed {seed}: rank {me}, message {m}");
            let word = imm.and_then(Immediate::decode);
            assert!(matches!(word, Some(Immediate::Status(Status { count, .. })) if count == n), "{word:?}");
            false
        });
    });
    (net, places)
}

fn f32_sum() -> Fold {
    fold(Operator::Sum, DataType::F32)
}

#[test]
fn ranks_of_one_engine_get_the_sum() {
    let net = all_reduce(1, &Tree::flat(3), fold(Operator::Sum, DataType::I32), 300, 256, Faults::default());
    assert!(net.now < 300 * 100_000);
}

#[test]
fn messages_of_several_packets_are_summed() {
    all_reduce(2, &Tree::flat(2), f32_sum(), 100, 1000, Faults::default());
}

#[test]
fn three_levels_sum_in_the_order_of_ranks() {
    use Tree::{Engine, Rank};
    let leaf = || Engine(vec![Rank, Rank]);
    let tree = Engine(vec![Engine(vec![leaf(), Rank]), Rank, Engine(vec![leaf(), leaf()])]);
    assert_eq!(tree.ranks(), 8);
    for data_type in [DataType::F32, DataType::Bf16] {
        all_reduce(3, &tree, fold(Operator::Sum, data_type), 60, 700, Faults::all(10_000));
    }
}

#[test]
fn sixty_four_children() {
    all_reduce(4, &Tree::flat(64), f32_sum(), 20, 256, Faults::all(3_000));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Loss, duplication, corruption and reordering in every direction, across the wrap of every PSN space. Where more than 6 % are
    /// lost each way an adapter may run out of its seven retries (IBTA has three bits for them): then everybody hears of it.
    #[test]
    fn harm_on_every_link_changes_no_bit(
        seed in any::<u64>(),
        k in 1usize..5,
        deep in any::<bool>(),
        len in prop_oneof![Just(4usize), Just(256), Just(252), Just(1000)],
        kind in 0usize..5,
        [lost, repeated, corrupt, late] in prop::array::uniform4(0u32..50_000),
    ) {
        let tree = if deep { Tree::Engine(vec![Tree::flat(k), Tree::Rank]) } else { Tree::flat(k) };
        let operators = [
            (Operator::Sum, DataType::F32),
            (Operator::Sum, DataType::I32),
            (Operator::Max, DataType::F16),
            (Operator::Xor, DataType::U32),
            (Operator::Prod, DataType::Bf16),
        ];
        let (operator, data_type) = operators[kind];
        let faults = Faults { lost, repeated, corrupt, late };
        let (mut net, places) = begin(seed, &tree, fold(operator, data_type), 150, len, faults);
        if lost + corrupt <= 60_000 {
            finish(&mut net, &places);
        } else {
            let over = |net: &mut Net, node| net.rank(node).is_complete() || net.rank(node).heard_of_failure();
            let all = |net: &mut Net| places.ranks.iter().all(|&node| over(net, node));
            prop_assert!(net.run_until(net.now + 20_000_000_000, all), "somebody neither ends nor hears of a failure");
        }
    }
}

/// Runs of the property above that an adapter may give up: the sums that came are right, and nobody is left waiting.
#[test]
fn an_adapter_that_runs_out_of_retries_is_heard_by_all() {
    let faults = Faults { lost: 60_000, repeated: 30_000, corrupt: 46_000, late: 36_000 };
    let tree = Tree::Engine(vec![Tree::flat(3), Tree::Rank]);
    let mut given_up = 0;
    for seed in 0..40 {
        let (mut net, places) = begin(seed, &tree, f32_sum(), 150, 1000, faults);
        let over = |net: &mut Net, node| net.rank(node).is_complete() || net.rank(node).heard_of_failure();
        let all = |net: &mut Net| places.ranks.iter().all(|&node| over(net, node));
        assert!(net.run_until(net.now + 40_000_000_000, all), "seed {seed}");
        given_up +=
            u32::from(places.ranks.iter().any(|&node| {
                net.rank(node).error == Some(weir_endpoint::roce::verbs::Status::RetryExceeded)
            }));
    }
    assert!(given_up > 0);
}

/// The long run: `WEIR_INC_MESSAGES=10000000 cargo test --release -p weir-inc --test collectives a_long_run`.
#[test]
fn a_long_run_over_bad_links_is_exact() {
    let messages = std::env::var("WEIR_INC_MESSAGES").ok().and_then(|n| n.parse().ok()).unwrap_or(100_000);
    let faults = Faults::all(5_000);
    let net = all_reduce(5, &Tree::flat(2), fold(Operator::Sum, DataType::I32), messages, 16, faults);
    assert!(net.frames > 4 * messages);
}

/// Runs scripts, one for each rank, and returns what each received.
fn play(
    tree: &Tree,
    change: impl Fn(&mut JobParams) + Copy,
    scripts: Vec<Vec<Message>>,
    faults: Faults,
) -> Vec<Vec<Received>> {
    let mut net = Net::new(9);
    net.faults = faults;
    let job = JobParams { mtu: 256, window: 16, results: 32, ..JobParams::new(1, tree.ranks(), sum_i32()) };
    let places = net.job(tree, &job, change);
    for (&node, script) in places.ranks.iter().zip(scripts) {
        net.rank(node).play_all(script);
    }
    finish(&mut net, &places);
    places.ranks.iter().map(|&node| std::mem::take(&mut net.rank(node).received)).collect()
}

fn ok(n: u16) -> Option<u32> {
    Some(Immediate::Status(Status { count: n, flags: Flags::default() }).encode())
}

fn all_payloads(n: u16, message: u64, len: usize) -> Vec<Vec<u8>> {
    (0..n).map(|r| payload(77, r, message, len)).collect()
}

fn trees() -> Vec<Tree> {
    use Tree::{Engine, Rank};
    vec![
        Tree::flat(4),
        Engine(vec![Rank, Engine(vec![Rank, Rank]), Rank]),
        Engine(vec![Tree::flat(2), Tree::flat(2)]),
    ]
}

/// All six operations one after the other on the same queue pairs, some of them twice, in three trees.
#[test]
fn every_operation_follows_every_other_on_one_queue_pair() {
    let sum = fold(Operator::Sum, DataType::F32);
    let xor = fold(Operator::Xor, DataType::U32);
    for tree in trees() {
        let n = 4u16;
        let mut scripts = vec![Vec::new(); 4];
        let mut expected: Vec<Vec<Received>> = vec![Vec::new(); 4];
        let mut message = 0;
        let folded = |fold, m, len| tree.fold(fold, &mut all_payloads(n, m, len).into_iter());
        for round in 0..3u16 {
            // Reduce to a rank, then AllReduce: DEV-67, DEV-69.
            let root = (round + 1) % n;
            for _ in 0..5 {
                for r in 0..n {
                    let data = Message::data(payload(77, r, message, 600));
                    let header = Message::header(Primitive::Reduce(sum, root));
                    scripts[r as usize].push(header);
                    scripts[r as usize].push(if r == root { data } else { data.silent() });
                }
                expected[root as usize].push(Received { bytes: folded(sum, message, 600), imm: None });
                message += 1;
            }
            for r in 0..n {
                scripts[r as usize].push(Message::header(Primitive::AllReduce(xor)));
                scripts[r as usize].push(Message::data(payload(77, r, message, 300)));
                expected[r as usize].push(Received { bytes: folded(xor, message, 300), imm: None });
                scripts[r as usize].push(Message::barrier());
                expected[r as usize].push(Received { bytes: Vec::new(), imm: None });
            }
            message += 1;
            // Broadcast of messages of three packets: the others send three empty ones.
            for r in 0..n {
                scripts[r as usize].push(Message::header(Primitive::Broadcast(root)));
                for m in 0..3 {
                    let bytes = payload(77, root, message + m, 601);
                    if r == root {
                        scripts[r as usize].push(Message::data(bytes.clone()));
                    } else {
                        for packet in 0..3 {
                            let ready = Message::data(Vec::new());
                            scripts[r as usize].push(if packet == 0 { ready } else { ready.silent() });
                        }
                    }
                    expected[r as usize].push(Received { bytes, imm: None });
                }
            }
            message += 3;
            // ReduceScatter: message m goes to rank m mod n.
            for r in 0..n {
                scripts[r as usize].push(Message::header(Primitive::ReduceScatter(sum)));
                for m in 0..8u64 {
                    let data = Message::data(payload(77, r, message + m, 400));
                    let mine = m % u64::from(n) == u64::from(r);
                    scripts[r as usize].push(if mine { data } else { data.silent() });
                    if mine {
                        expected[r as usize]
                            .push(Received { bytes: folded(sum, message + m, 400), imm: None });
                    }
                }
            }
            message += 8;
            // AllGather: message m comes from rank m mod n.
            for r in 0..n {
                scripts[r as usize].push(Message::header(Primitive::AllGather));
                for m in 0..8u64 {
                    let source = (m % u64::from(n)) as u16;
                    let bytes = payload(77, source, message + m, 99);
                    let sent = if source == r { bytes.clone() } else { Vec::new() };
                    scripts[r as usize].push(Message::data(sent));
                    expected[r as usize].push(Received { bytes, imm: None });
                }
            }
            message += 8;
        }
        for faults in [Faults::default(), Faults::all(20_000)] {
            let received = play(&tree, |_| {}, scripts.clone(), faults);
            for (rank, (received, expected)) in received.iter().zip(&expected).enumerate() {
                let bytes = |all: &[Received]| all.iter().map(|r| r.bytes.clone()).collect::<Vec<_>>();
                assert_eq!(bytes(received), bytes(expected), "rank {rank} of {tree:?}");
                let whole = received.iter().all(|r| {
                    let word = r.imm.and_then(Immediate::decode);
                    matches!(word, Some(Immediate::Status(Status { count: 4, .. })))
                });
                assert!(whole, "{received:?}");
            }
        }
    }
}

/// An operation may be named with each message, which is one packet then.
#[test]
fn operations_are_named_with_their_data() {
    let (min, prod) = (fold(Operator::Min, DataType::I32), fold(Operator::Prod, DataType::I32));
    let script = |r: i32| {
        let words = |x: i32| (0..4).flat_map(|i| (x + i).to_be_bytes()).collect::<Vec<u8>>();
        vec![
            Message::data(words(r)).with(Primitive::AllReduce(min)),
            Message::data(words(r + 2)).with(Primitive::AllReduce(prod)),
            Message::data(words(r + 3)),
        ]
    };
    for tree in [Tree::flat(2), Tree::Engine(vec![Tree::flat(1), Tree::Rank])] {
        for received in play(&tree, |_| {}, vec![script(0), script(1)], Faults::default()) {
            let words = |numbers: [i32; 4]| numbers.map(i32::to_be_bytes).concat();
            let expected = [words([0, 1, 2, 3]), words([6, 12, 20, 30]), words([12, 20, 30, 42])];
            let expected = expected.map(|bytes| Received { bytes, imm: ok(2) });
            assert_eq!(received, expected);
        }
    }
}

#[test]
fn without_status_results_have_no_immediate_data() {
    let script = |r: i32| vec![Message::data(r.to_be_bytes().to_vec())];
    let tree = Tree::Engine(vec![Tree::flat(1), Tree::Rank]);
    for received in play(&tree, |job| job.status = false, vec![script(5), script(6)], Faults::default()) {
        assert_eq!(received, [Received { bytes: vec![0, 0, 0, 11], imm: None }]);
    }
}

#[test]
fn flags_of_every_level_arrive() {
    let script = |n: i32| vec![Message::data(n.to_be_bytes().to_vec()), Message::data(vec![0; 4])];
    let tree = Tree::Engine(vec![Tree::flat(2), Tree::Rank]);
    let scripts = vec![script(i32::MAX), script(1), script(0)];
    for received in play(&tree, |_| {}, scripts, Faults::default()) {
        let overflow = Status { count: 3, flags: Flags::OVERFLOW };
        assert_eq!(received[0].imm, Some(Immediate::Status(overflow).encode()));
        assert_eq!(received[1].imm, ok(3));
    }
}

/// Data, answers to it, results, answers to them: each alone suffers, one frame in five lost.
#[test]
fn loss_in_one_direction_alone_is_healed() {
    for way in [Way::Up, Way::UpAck, Way::Down, Way::DownAck] {
        let mut net = Net::new(11);
        let mut random = Random::new(12);
        net.filter = Some(Box::new(move |_, _, this, _| this == way && random.below(5) == 0));
        let tree = Tree::Engine(vec![Tree::flat(2), Tree::Rank]);
        let (mut net, places) = start(net, &tree, 60, |_| {});
        finish(&mut net, &places);
        assert_eq!(check_sums(&mut net, &places, 3), 60, "{way:?}");
    }
}

/// Ranks that send `messages` sums each and keep the results.
fn start(mut net: Net, tree: &Tree, messages: u64, change: impl Fn(&mut JobParams) + Copy) -> (Net, Places) {
    let job = JobParams { mtu: 256, window: 16, results: 32, ..JobParams::new(1, tree.ranks(), sum_i32()) };
    let places = net.job(tree, &job, change);
    ranks(&mut net, &places, |rank| {
        let me = i32::from(rank.rank);
        rank.play(move |m| {
            (m < messages).then(|| Message::data((me * 1000 + m as i32).to_be_bytes().to_vec()))
        });
    });
    (net, places)
}

/// Every result that came is right; how many came to the rank that got fewest.
fn check_sums(net: &mut Net, places: &Places, n: i32) -> usize {
    let mut fewest = usize::MAX;
    ranks(net, places, |rank| {
        for (m, received) in rank.received.iter().enumerate() {
            let sum: i32 = (0..n).map(|r| r * 1000 + m as i32).sum();
            assert_eq!(received.bytes, sum.to_be_bytes(), "rank {}, message {m}", rank.rank);
        }
        fewest = fewest.min(rank.received.len());
    });
    fewest
}

/// A rank dies at some moment: no wrong sum, and everybody else hears of it within a bound.
#[test]
fn a_killed_rank_is_heard_of_by_all_others_within_a_bound() {
    for seed in 0..12 {
        let tree = Tree::Engine(vec![Tree::flat(2), Tree::Rank, Tree::flat(2)]);
        let mut net = Net::new(seed);
        net.faults = Faults::all(if seed % 2 == 0 { 0 } else { 5_000 });
        let (mut net, places) = start(net, &tree, 1_000_000, |job| {
            job.ack_timeout = 500_000;
            (job.probe_after, job.patience) = (1_000_000, 8_000_000);
        });
        let killed = (seed % 5) as usize;
        net.run_until(200_000 + seed * 37_000, |_| false);
        net.rank(places.ranks[killed]).killed = true;
        let at = net.now;
        let others: Vec<usize> =
            places.ranks.iter().copied().filter(|&n| n != places.ranks[killed]).collect();
        // Eight probes, or waits of 0.5 ms that double four times, and the way of the news.
        let waits = (1 + 2 + 4 + 8 + 4 * 16) * 500_000;
        let bound = at + waits + 10_000_000;
        let heard = net.run_until(bound, |net| others.iter().all(|&n| net.rank(n).heard_of_failure()));
        assert!(
            heard,
            "seed {seed}: {:?}",
            others.iter().map(|&n| format!("{:?}", net.rank(n))).collect::<Vec<_>>()
        );
        assert!(check_sums(&mut net, &places, 5) > 0, "seed {seed}: it had begun");
        let told = others.iter().filter_map(|&n| net.rank(n).told).collect::<Vec<_>>();
        let names =
            |word: &Immediate| matches!(word, Immediate::Failed(_, rank) if usize::from(*rank) == killed);
        assert!(told.iter().all(names), "seed {seed}: {told:?}");
    }
}

/// An engine dies: those who are not below it are told, those below can not be.
#[test]
fn a_killed_engine_is_heard_of_by_the_rest_of_the_tree() {
    let tree = Tree::Engine(vec![Tree::flat(2), Tree::Rank, Tree::flat(2)]);
    let (mut net, places) = start(Net::new(3), &tree, 1_000_000, |job| {
        (job.probe_after, job.patience) = (1_000_000, 8_000_000);
    });
    net.run_until(300_000, |_| false);
    let dead = places.engines[1];
    net.filter = Some(Box::new(move |from, to, _, _| from == dead || to == dead));
    let rest = [places.ranks[2], places.ranks[3], places.ranks[4]];
    // Waits of 4.2 ms that double four times.
    let bound = net.now + (1 + 2 + 4 + 8 + 4 * 16) * 4_200_000 + 60_000_000;
    assert!(net.run_until(bound, |net| rest.iter().all(|&n| net.rank(n).heard_of_failure())));
    check_sums(&mut net, &places, 5);
}

/// The link of a rank is down for a while, in both directions: shorter than anybody's retries, every sum is right; longer, all
/// hear of it, the rank itself by its adapter.
#[test]
fn a_link_that_flaps_costs_time_or_the_job_and_no_sum() {
    for (seed, down) in [(1, 1_000_000), (2, 5_000_000), (3, 9_000_000), (4, 2_000_000_000)] {
        let tree = Tree::Engine(vec![Tree::flat(2), Tree::Rank]);
        let (mut net, places) = start(Net::new(seed), &tree, 3_000, |_| {});
        let flapping = places.ranks[(seed % 3) as usize];
        net.run_until(200_000 + seed * 77_000, |_| false);
        net.filter = Some(Box::new(move |from, to, _, _| from == flapping || to == flapping));
        net.run_until(net.now + down, |_| false);
        net.filter = None;
        let results = |net: &mut Net| places.ranks.iter().map(|&n| net.rank(n).results).min();
        assert!(results(&mut net) < Some(3_000), "it was in the middle");
        if down < 1_000_000_000 {
            finish(&mut net, &places);
            assert_eq!(check_sums(&mut net, &places, 3), 3_000, "down for {down} ns");
        } else {
            let bound = net.now + 1_000_000_000;
            assert!(net.run_until(bound, |net| places.ranks.iter().all(|&n| net.rank(n).heard_of_failure())));
            check_sums(&mut net, &places, 3);
        }
    }
}

#[test]
fn ranks_that_are_late_slow_or_out_of_buffers_are_waited_for() {
    let (mut net, places) = start(Net::new(4), &Tree::flat(3), 200, |_| {});
    net.rank(places.ranks[1]).sleeps_until = 30_000_000;
    net.rank(places.ranks[2]).deaf_until = 50_000_000;
    finish(&mut net, &places);
    assert_eq!(check_sums(&mut net, &places, 3), 200);
    let now = net.now;
    let report = net.engine(places.engines[0]).report(now).remove(0);
    assert!(report.peers[1].counters.probes > 0 && report.peers[1].lag.1 >= 29_000_000, "{report:#?}");
}

/// A host that cannot take results as fast as they come, and loses what does not fit: what it answers late is not sent to it
/// again and again.
#[test]
fn a_host_that_cannot_keep_up_is_not_buried() {
    let mut net = Net::new(15);
    net.rank_timeout = 1_000_000_000;
    let (mut net, places) = start(net, &Tree::flat(2), 300, |job| (job.window, job.results) = (64, 64));
    ranks(&mut net, &places, |rank| rank.ahead = 64);
    net.slow.insert(places.ranks[1], support::Slow::new(500_000, 40));
    finish(&mut net, &places);
    assert_eq!(check_sums(&mut net, &places, 2), 300);
    let now = net.now;
    let report = net.engine(places.engines[0]).report(now).remove(0);
    let peer = &report.peers[1].counters;
    assert!(net.slow[&places.ranks[1]].lost > 20 && peer.timeouts > 10, "it is too slow: {peer:?}");
    // 300 results and 300 acknowledgements take 300 ms. With a timer as long as ever and all that is outstanding sent again, it
    // was 819 ms, and 11278 results were sent again.
    assert!(now < 400_000_000 && peer.retransmitted < 400, "{now} ns, {peer:?}");
}

/// Sixty-four jobs on one engine; one of them has a rank that never comes. The others are exact and not slower for it.
#[test]
fn sixty_four_jobs_do_not_disturb_one_another() {
    use weir_endpoint::rc::psn::Psn;
    use weir_endpoint::roce::qp::Path;
    use weir_endpoint::roce::wire::Qpn;
    use weir_inc::engine::{Engine, EngineParams};
    use weir_inc::params::Child;
    let mut net = Net::new(5);
    net.faults = Faults::all(2_000);
    let mut engine = Engine::new(EngineParams::default());
    let mut places = Places { ranks: Vec::new(), engines: vec![0] };
    let mut nodes = Vec::new();
    for job in 0..64u32 {
        let children = (0..2u16).map(|rank| {
            let (node, qpn) = (1 + nodes.len(), Qpn(support::FIRST_QPN + 2 * job + u32::from(rank)));
            let (up, down) = (Psn::new(0xff_fff0 + job), Psn::new(0xff_ffe0 + job));
            let path = Path::new(support::address(0), support::address(node), Qpn(0x11));
            let back = Path::new(support::address(node), support::address(0), qpn);
            nodes.push((rank, Path { send_psn: up, recv_psn: down, ..back }));
            let path = Path { send_psn: down, recv_psn: up, ..path };
            Child { qpn, path, first_rank: rank, ranks: 1, engine: false, remote: Default::default() }
        });
        let children = children.collect();
        let params =
            JobParams { mtu: 256, window: 16, results: 32, children, ..JobParams::new(job, 2, sum_i32()) };
        engine.add(params).unwrap();
    }
    net.nodes.push(support::Node::Engine(Box::new(engine)));
    net.depth.push(0);
    for (rank, path) in nodes {
        places.ranks.push(net.nodes.len());
        net.nodes.push(support::Node::Rank(Box::new(support::rank::Rank::new(rank, 256, path))));
        net.depth.push(1);
    }
    ranks(&mut net, &places, |rank| {
        let me = i32::from(rank.rank);
        rank.play(move |m| (m < 40).then(|| Message::data((me * 1000 + m as i32).to_be_bytes().to_vec())));
    });
    let silent = places.ranks.remove(7);
    net.rank(silent).sleeps_until = 1 << 60;
    let beside = places.ranks.remove(6);
    finish(&mut net, &places);
    assert_eq!(check_sums(&mut net, &places, 2), 40);
    assert!(net.now < 100_000_000 && net.rank(beside).received.is_empty(), "{}", net.now);
    let now = net.now;
    let reports = net.engine(0).report(now);
    let waiting: Vec<u32> = reports.iter().filter(|job| job.waiting.is_some()).map(|job| job.id).collect();
    assert_eq!(waiting, [3]);
    assert!(reports[3].peers[1].missing && !reports[3].peers[0].missing);
}

#[test]
fn a_partial_result_of_a_leaf_says_so_at_the_root() {
    let tree = Tree::Engine(vec![Tree::flat(2), Tree::Rank]);
    let straggler = weir_inc::params::Straggler::Partial(1_000_000);
    let (mut net, places) = start(Net::new(6), &tree, 1, |job| {
        // The root gives its children more time than they take themselves.
        let patient = weir_inc::params::Straggler::Partial(3_000_000);
        job.straggler = if job.parent.is_some() { straggler } else { patient };
    });
    net.rank(places.ranks[1]).sleeps_until = 5_000_000;
    finish(&mut net, &places);
    ranks(&mut net, &places, |rank| {
        let without_1 = Received { bytes: 2000i32.to_be_bytes().to_vec(), imm: ok(2) };
        assert_eq!(rank.received, [without_1], "rank {}", rank.rank);
    });
    let now = net.now;
    let leaf = net.engine(places.engines[1]).report(now).remove(0);
    assert_eq!((leaf.counters.partial, leaf.peers[1].counters.late), (1, 1));
}

/// A rack that is late as a whole: its engine has nothing to give a result to when that comes from above.
#[test]
fn a_result_without_any_rank_of_a_leaf_waits_for_them_above() {
    let tree = Tree::Engine(vec![Tree::flat(2), Tree::Rank, Tree::Rank]);
    for messages in [1u64, 40] {
        let (mut net, places) = start(Net::new(6), &tree, messages, |job| {
            job.straggler = weir_inc::params::Straggler::Partial(1_000_000);
        });
        for rank in [places.ranks[0], places.ranks[1]] {
            net.rank(rank).sleeps_until = 8_000_000;
        }
        finish(&mut net, &places);
        let without = net.rank(places.ranks[2]).received.clone();
        assert_eq!(without.len() as u64, messages);
        assert_eq!(without[0].imm, ok(2));
        ranks(&mut net, &places, |rank| assert_eq!(rank.received, without, "rank {}", rank.rank));
        let now = net.now;
        let root = net.engine(0).report(now).remove(0);
        assert!(root.counters.partial > 0 && root.peers[0].counters.late > 0, "{root:?}");
    }
}
