//! Jobs of an engine beside each other: memory, refusals, reports.

mod support;

use support::FIRST_QPN;
use support::hand::{Hand, JOB, params, payloads, words};
use weir_endpoint::roce::wire::{Extensions, Opcode};
use weir_inc::drops::Drop;
use weir_inc::engine::{Engine, EngineParams};
use weir_inc::immediate::Primitive;
use weir_inc::job::Job;
use weir_inc::params::{JobParams, MAX_CHILDREN, Refusal, Straggler};
use weir_inc::report::{ReportPage, State};

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
    let wrong: [(Change, &str); 20] = [
        (&|p| p.line_rate = 999_999, "a rate of 999999 bit/s"),
        (&|p| (p.straggler, p.status) = (Straggler::Partial(1), false), "leave status out"),
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
        (&|p| p.children[1].qpn = p.children[0].qpn, "queue pair 384 of the engine is given to two peers"),
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
    let others = params(JOB, 2, FIRST_QPN).children[0].qpn;
    let nobody = params(JOB, 2, 0xff).children[0].qpn;
    // What the end of another job would mend, and what nothing does.
    for (qpn, text, passes) in [
        (others, format!("queue pair 256 of the engine is one of job {JOB}"), true),
        (nobody, "queue pair 255 is not one of this engine's, which are 256 to".to_owned(), false),
    ] {
        let refusal = engine.add(job(1, &|p| p.children[1].qpn = qpn)).unwrap_err();
        assert!(refusal.to_string().contains(&text), "{refusal}");
        assert_eq!(refusal.passes(), passes, "{refusal}");
    }
    // A queue pair of a host has one connection, whichever job comes first, until that one has gone.
    let hosts = params(JOB, 2, FIRST_QPN).children[1].path;
    let same = |engine: &mut Engine| engine.add(job(1, &|p| p.children[0].path = hosts));
    let refusal = same(&mut engine).unwrap_err();
    let ip = hosts.dst_ip;
    let text = format!("peer 0 has queue pair 17 of {ip}, which is connected to the engine by job {JOB}");
    assert!(refusal.to_string().contains(&text) && refusal.passes(), "{refusal}");
    engine.remove(JOB).unwrap();
    same(&mut engine).unwrap();
    let back = engine.add(params(JOB, 2, FIRST_QPN)).unwrap_err();
    assert!(matches!(back, Refusal::EndTaken { peer: 1, other, .. } if other == JOB + 1), "{back}");
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

/// A queue pair number that another job had: what an adapter still sends to that one is counted, answered as its number says, and
/// part of no sum.
#[test]
fn frames_of_an_earlier_job_are_no_part_of_the_one_that_has_its_queue_pairs_now() {
    for (behind, reason) in [(true, Drop::Duplicate), (false, Drop::OutOfSequence)] {
        let mut hand = Hand::new(2, |_| {});
        hand.only(0, 0, &words(&[1]));
        hand.engine.remove(JOB);
        let mut job = params(JOB, 2, FIRST_QPN);
        for child in &mut job.children {
            let first = child.path.recv_psn;
            child.path.recv_psn = if behind { first.plus(1000) } else { first.plus(0x100_0000 - 1000) };
        }
        hand.engine.add(job).unwrap();
        hand.sent();
        for n in 0..5 {
            hand.only(0, n, &words(&[7]));
        }
        assert_eq!(hand.drops(reason), 5);
        assert!(hand.data().is_empty());
        assert_eq!(hand.report().state, State::Running);
        let own = if behind { 1000 } else { -1000 };
        (0..2).for_each(|child| hand.only(child, own, &words(&[child as i32 + 1])));
        assert_eq!(payloads(&hand.data()), [(0, 0, words(&[3])), (1, 0, words(&[3]))]);
    }
}
