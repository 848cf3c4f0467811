//! A switch that looks at its ports later than the replay does.

use super::*;
use weir_mgmt::admin::verdict::XOFF_REACHED;

/// A capture of a switch that looks at its ports every so many us: a frame leaves up to that much later than in the replay. One in 32 is of the
/// lossless class, which has more than it needs.
fn looking_every(us: u64) -> Vec<u8> {
    let order = json!({ "port": "p0", "count": 1_000_000, "bytes": 256 });
    watched_for(&load(&full("30KB")), &order, (4000, us, 3), |round, n| round % 40 == 3 && n == 0)
}

/// Where a queue is full, a few microseconds decide which of two frames is dropped, and that is all that differs.
#[test]
fn a_difference_of_phase_at_a_full_queue_has_a_verdict_of_its_own() {
    let (file, config) = (looking_every(7), load(&full("30KB")));
    let found = again(&file, &config).unwrap();
    let some: Vec<_> = found.differences.iter().filter(|d| !d.phase).take(3).collect();
    let told = (&found.losses, &found.other_limit, some, found.totals);
    assert_eq!(found.verdict(), Verdict::SameTotals, "{told:?}");
    assert!(
        found.differences.iter().any(|d| d.what == "verdict") && found.differences.iter().all(|d| d.phase)
    );
    let [lost] = &found.losses[..] else { panic!("{:?}", found.losses) };
    assert_eq!((&*lost.port, lost.class), ("p1", [0, 0, 0]));
    let [was, is] = lost.frames;
    assert!(was > 1000 && was.abs_diff(is) <= 2, "{lost:?}");
    // Of one frame they are apart, in the twinkling of a turn.
    assert!((1..=2 * FRAME_BYTES as u64).contains(&lost.apart), "{lost:?}");
    // Nor is a queue deeper by it than that explains, where the file has all ports.
    let all = of_all_ports(CaptureFile::read(&file[..]).unwrap(), &config);
    let found = against(&all, &config);
    assert_eq!(found.verdict(), Verdict::SameTotals, "{:?}", found.differences.iter().find(|d| !d.phase));
    assert!(
        of(&found, "depth").0 > 200 && found.other_depths > 50,
        "{} {:?}",
        found.other_depths,
        found.compared
    );
    // The switch that looks in time has nothing of it.
    let in_time = looking_every(1);
    assert_eq!(again(&in_time, &config).unwrap().verdict(), Verdict::Pass);
}

/// What is no phase is found beside one: a slower port, another limit, another class, other pauses.
#[test]
fn a_difference_of_phase_hides_no_other() {
    let file = looking_every(7);
    let against = |file: &[u8], text: &str| again(file, &load(text)).unwrap();
    // A port that is looked at less often than a frame takes loses time of its line, which adds up; so does a slower one.
    let lost_time = against(&looking_every(13), &full("30KB"));
    assert!(lost_time.differences.iter().all(|d| d.phase) && lost_time.verdict() == Verdict::Fail);
    let slower = against(&file, &full("30KB").replace("rate = \"1G\"", "rate = \"950M\""));
    assert_eq!(slower.verdict(), Verdict::Fail);
    assert!(slower.losses.iter().any(|lost| !lost.agree()), "{:?}", slower.losses);
    // One frame more or less in the queue, which moves no total.
    for limit in ["28KB", "31KB"] {
        let other = against(&file, &full(limit));
        assert!(other.losses.iter().all(Losses::agree), "{:?}", other.losses);
        assert_eq!(other.verdict(), Verdict::Fail, "{limit}");
        let found = other.other_limit.unwrap();
        assert!(found.to_string().starts_with("queue 0 of p1 has another limit: full it had"), "{found}");
        let [was, is] = found.deepest;
        let place = (&*found.port, found.queue, was, found.full);
        assert_eq!(place, ("p1", 0, 25 * FRAME_BYTES as u64, [true, true]));
        assert!(is == was - FRAME_BYTES as u64 || is == was + FRAME_BYTES as u64, "{limit}: {is}");
    }
    // Without a loss there is no depth of a full queue.
    let faster = against(&file, &full("30KB").replace("rate = \"1G\"", "rate = \"10G\""));
    assert_eq!(faster.verdict(), Verdict::Fail);
    let limit = faster.other_limit.unwrap();
    assert_eq!(limit.full, [true, false]);
    let told = limit.to_string();
    assert!(told.contains("was full with") && told.contains("never in the replay"), "{told}");
    // A limit that moves with what is free.
    let moving = against(&file, &full("30KB").replace("static_th = \"30KB\"", "dynamic_th = -8"));
    assert_eq!(moving.verdict(), Verdict::Fail);
    let fails = |found: Comparison, what: &str| {
        assert_eq!(found.verdict(), Verdict::Fail);
        assert!(found.differences.iter().any(|d| d.what == what && !d.phase), "{what}");
    };
    fails(against(&changed(&file, 5, "pg 3 queue 3", "pg 3 queue 4"), &full("30KB")), "class");
    fails(
        against(&file, &full("30KB").replace("dynamic_th = 7", "reserved = 0\nstatic_th = \"1KB\"")),
        "pause",
    );
}

/// A lossless group that stands still, of which so much is filled and empties again.
fn lossless(limit: &str) -> String {
    full("30KB").replace("dynamic_th = 7", &format!("reserved = 0\nstatic_th = \"{limit}\""))
}

/// A group is fuller as a burst comes where its port has not been looked at: an earlier frame of the burst brings it to Xoff.
#[test]
fn an_xoff_a_little_earlier_than_in_the_replay_is_of_phase() {
    let order = json!({ "port": "p0", "count": 1_000_000, "bytes": 256 });
    let file = watched_for(&load(&lossless("30KB")), &order, (8000, 7, 3), |round, _| round % 1000 < 60);
    let against = |limit: &str| again(&file, &load(&lossless(limit))).unwrap();
    let found = against("30KB");
    let pauses = |found: &Comparison, phase: bool| {
        found.differences.iter().filter(|d| d.what == "pause" && d.phase == phase).count()
    };
    assert_eq!(found.verdict(), Verdict::SameTotals, "{:?}", found.differences);
    assert!(pauses(&found, true) > 1 && found.totals[0].xoff == found.totals[1].xoff, "{:?}", found.totals);
    let all = of_all_ports(CaptureFile::read(&file[..]).unwrap(), &load(&lossless("30KB")));
    let whole = super::against(&all, &load(&lossless("30KB")));
    assert!(whole.verdict() == Verdict::SameTotals && of(&whole, "depth").1 == 0, "{:?}", whole.differences);
    // Not so by more than a port sends between two looks, nor where the file shows that the line is another one.
    for limit in ["22KB", "38KB"] {
        let found = against(limit);
        assert!(found.verdict() == Verdict::Fail && pauses(&found, false) > 0, "{limit}");
    }
    let nearer = against("28KB");
    assert!(nearer.verdict() == Verdict::Fail && whats(&nearer).contains("limit"), "{:?}", whats(&nearer));
}

/// Of a capture that begins with a group in Xoff, what is taken into its share while frames wait in headroom is held against the limit, too.
#[test]
fn a_limit_is_found_behind_the_first_xoff() {
    let order = json!({ "port": "p0", "count": 1_000_000, "bytes": 256 });
    let file = watched_for(&load(&lossless("30KB")), &order, (4000, 1, 0), |round, n| {
        round < 60 || round % 100 < 10 && n < 4
    });
    let mut file = CaptureFile::read(&file[..]).unwrap();
    let verdict = |frame: &Captured| frame.history.as_ref().map(|history| history.verdict.clone());
    let xoff = file.frames.iter().position(|frame| verdict(frame).as_deref() == Some(XOFF_REACHED)).unwrap();
    file.frames.drain(..xoff);
    let admitted = file.frames.iter().filter(|frame| verdict(frame).as_deref() == Some("admitted")).count();
    assert!(admitted > 20, "{admitted}");
    let limits = |limit: &str| {
        let found = super::against(&file, &load(&lossless(limit)));
        found.differences.iter().filter(|found| found.what == "limit").count()
    };
    assert_eq!(["30KB", "8KB"].map(limits), [0, 1]);
}

/// What a configuration cannot do at all is a difference, whatever frames the file lacks: headroom of a lossy group, drops by WRED of a queue
/// without it, more than a port sends.
#[test]
fn what_a_configuration_cannot_do_is_found() {
    let order = json!({ "port": "p0", "count": 1_000_000, "bytes": 256 });
    let own = lossless("30KB");
    let file = watched_for(&load(&own), &order, (400, 1, 0), |_, n| n % 2 == 0);
    let mut file = CaptureFile::read(&file[..]).unwrap();
    let limits = |file: &CaptureFile, config: &str| -> Vec<[String; 2]> {
        let found = super::against(file, &load(config));
        let limits = found.differences.iter().filter(|found| found.what == "limit");
        limits.map(|found| [found.captured.clone(), found.replayed.clone()]).collect()
    };
    assert_eq!(limits(&file, &own), Vec::<[String; 2]>::new());
    let lossy = own.clone()
        + "[[buffer.pg]]\npgs = \"3-4\"\nprofile = \"lossy\"\n[[buffer.queue]]\nqueues = \"3-4\"\nprofile = \"egress_lossy\"\n";
    let lossy = lossy.replace("mtu = 1600\n", "mtu = 1600\npfc = { enable = [] }\n");
    let found = limits(&file, &lossy);
    let has = "priority group 3 of p0 is lossy, without headroom and Xoff";
    assert!(found.contains(&[XOFF_REACHED.to_owned(), has.to_owned()]), "{found:?}");
    // As much as the line carries, and no less.
    assert_eq!(limits(&file, &own.replace("\"1G\"", "\"990M\"")), Vec::<[String; 2]>::new());
    let found = limits(&file, &own.replace("\"1G\"", "\"500M\""));
    assert!(found.iter().any(|[sent, _]| sent.starts_with("p1 sent ")), "{found:?}");
    // Bursts with long pauses between them: over all of it any rate would do.
    let bursts = watched_for(&load(&own), &order, (4000, 1, 0), |round, n| round % 1000 < 100 && n % 2 == 0);
    let bursts = CaptureFile::read(&bursts[..]).unwrap();
    assert_eq!(limits(&bursts, &own), Vec::<[String; 2]>::new());
    let found = limits(&bursts, &own.replace("\"1G\"", "\"500M\""));
    assert!(found.iter().any(|[sent, _]| sent.starts_with("p1 sent ")), "{found:?}");
    let full =
        |history: &FrameHistory| history.losses.iter().any(|(_, reason)| reason == "egress.queue_full");
    let mut histories = file.frames.iter_mut().filter_map(|frame| frame.history.as_mut());
    histories.find(|history| full(history)).unwrap().losses = vec![(String::new(), "egress.wred".into())];
    let found = limits(&file, &own);
    assert_eq!(found, [["egress.wred".to_owned(), "queue 0 of p1 drops nothing by WRED".to_owned()]]);
}
