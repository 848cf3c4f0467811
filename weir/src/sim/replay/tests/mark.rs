//! Marks, by the depths that decide them.

use super::*;

/// Frames are marked by the depth they find.
fn on_arrival(kmin: &str) -> Config {
    load(&text().replace("pmax = ", "mark = \"enqueue\"\npmax = ").replace("20KB", kmin))
}

/// A difference tells the depth that decided, and how many were marked, paused and lost on either side.
#[test]
fn a_difference_of_marks_tells_the_depth_that_decided_and_totals_stand_beside_one_another() {
    let file = captured(&on_arrival("20KB"));
    let found = again(&file, &on_arrival("40KB")).unwrap();
    assert_eq!(whats(&found), BTreeSet::from(["mark"]));
    for difference in &found.differences {
        let depth = |text: &str, mark: &str| -> u64 {
            let rest = text.strip_prefix(mark).and_then(|rest| rest.strip_prefix(" at p1 with "));
            let depth = rest.and_then(|rest| rest.strip_suffix(" bytes in its queue when it came"));
            depth.unwrap_or_else(|| panic!("{text}")).parse().unwrap()
        };
        let (was, is) = (depth(&difference.captured, "marked CE"), depth(&difference.replayed, "not marked"));
        assert!(was == is && (20_001..=40_000).contains(&was), "{difference:?}");
    }
    let [was, is] = found.totals;
    assert_eq!((was.frames, was.dropped, was.xoff), (is.frames, is.dropped, is.xoff));
    assert!(was.frames == 160 && was.xoff > 0, "{was:?}");
    assert_eq!(was.marked - is.marked, found.differences.len() as u64);
    // With a lower limit more is lost.
    let found = again(
        &file,
        &load(
            &text()
                .replace("size = \"2MiB\"", "size = \"1MiB\"")
                .replace("dynamic_th = -5", "dynamic_th = -8"),
        ),
    );
    let [was, is] = found.unwrap().totals;
    assert!(was.dropped > 0 && is.dropped > was.dropped, "{was:?} {is:?}");
}

/// Of a queue of another lcore no file says how deep it was when a frame came.
#[test]
fn a_mark_by_a_depth_that_is_not_known_is_not_judged() {
    let mut capture = CaptureFile::read(&captured(&on_arrival("20KB"))[..]).unwrap();
    let histories = capture.frames.iter_mut().filter_map(|frame| frame.history.as_mut());
    let marked: u64 = histories.filter(|h| h.class == Some([3; 3])).map(|h| h.departures.len() as u64).sum();
    let not_judged = |capture: &CaptureFile| {
        let found = judge(&on_arrival("40KB"), capture, PortId(0)).unwrap().1;
        (found.verdict(), unknown(&found).get("mark").copied())
    };
    assert_eq!(not_judged(&capture), (Verdict::Fail, None));
    capture.frames.iter_mut().filter_map(|frame| frame.history.as_mut()).for_each(|h| h.depth = None);
    assert_eq!(not_judged(&capture), (Verdict::Pass, Some(marked)));
}

/// While the last frames of a count wait, others come behind them.
#[test]
fn marks_that_frames_behind_the_last_one_caused_are_not_judged() {
    let config = load(&text());
    let first = watched(&config, &json!({ "port": "p0", "count": 60, "bytes": 256 }));
    let found = again(&first, &config).unwrap();
    let (judged, lacking) = of(&found, "mark");
    assert_eq!((found.verdict(), &found.differences), (Verdict::Pass, &Vec::new()));
    assert!(judged > 20 && lacking > 2, "{judged} {lacking}");
    // Marked below Kmin, or not above Kmax: whatever came behind.
    for kmin in ["100KB", "5KB"] {
        let other = load(&text().replace("20KB", kmin));
        assert_eq!(whats(&again(&first, &other).unwrap()), BTreeSet::from(["mark"]), "{kmin}");
    }
}

/// A frame that says ECT and left more than Kmax behind it had to be marked, however shallow its queue is in the replay. One that says
/// nothing of the kind need not.
#[test]
fn a_frame_that_kmax_does_not_spare_is_found_whatever_the_replay_marks() {
    let config = load(&text().replace("20KB", "90KB"));
    let capture = CaptureFile::read(&captured(&config)[..]).unwrap();
    // With a port so fast nothing waits in the replay.
    let lower = load(&text().replace("rate = \"1G\"", "rate = \"10G\""));
    let marks = |capture: &CaptureFile, config: &Config| {
        let found = judge(config, capture, PortId(0)).unwrap().1;
        (found.totals[1].marked, found.differences.iter().filter(|d| d.what == "mark").count())
    };
    let beyond = capture.frames.iter().filter_map(|frame| frame.history.as_ref());
    let beyond = beyond.filter(|h| h.class == Some([3; 3])).flat_map(|h| &h.departures);
    let beyond = beyond.filter(|left| !left.marked && left.depth > 20_000).count();
    assert!(beyond > 5, "{beyond}");
    assert_eq!(marks(&capture, &lower), (0, beyond));
    let mut plain = CaptureFile { frames: capture.frames.clone(), ports: capture.ports.clone(), ..capture };
    plain.frames.iter_mut().for_each(|frame| frame.bytes[15] &= !3);
    assert_eq!(marks(&plain, &lower), (0, 0));
}

/// With the frames of all ports a queue is as deep as it was, but for those before the first and behind the last: a port of another rate
/// shows by marks.
#[test]
fn marks_show_another_rate_where_the_file_has_all_ports() {
    let config = load(&text());
    let mut capture = CaptureFile::read(&captured(&config)[..]).unwrap();
    let played = |capture: &CaptureFile, rate: &str| {
        judge(&load(&text().replace("1G", rate)), capture, PortId(0)).unwrap().1
    };
    let marks = |found: &Comparison| found.differences.iter().filter(|d| d.what == "mark").count();
    let rates = ["1200M", "2G", "10G"];
    assert_eq!(rates.map(|rate| marks(&played(&capture, rate))), [0; 3]);
    capture = of_all_ports(capture, &config);
    assert_eq!(
        (played(&capture, "1G").verdict(), played(&capture, "1G").unknown),
        (Verdict::Pass, BTreeMap::new())
    );
    for rate in rates {
        let found = played(&capture, rate);
        assert_eq!(found.verdict(), Verdict::Fail, "{rate}");
        assert!(marks(&found) > 0, "{rate}: {:?} {:?}", found.unknown, found.compared);
    }
}

/// Nothing is drawn where nothing can be marked between Kmin and Kmax, or at all.
#[test]
fn marks_of_a_curve_that_marks_nothing_are_differences() {
    let drawn =
        text().replace("kmax = \"20KB\"", "kmax = \"60KB\"").replace("pmax = \"100%\"", "pmax = \"60%\"");
    let capture = CaptureFile::read(&captured(&load(&drawn))[..]).unwrap();
    let judged = |text: &str| judge(&load(text), &capture, PortId(0)).unwrap().1;
    let same = judged(&drawn);
    assert!(same.verdict() == Verdict::Pass && same.totals[0].marked > 10, "{:?}", same.totals);
    for none in [drawn.replace("60%", "0%"), drawn.replace("kmin =", "ecn = \"none\"\nkmin =")] {
        let found = judged(&none);
        assert_eq!((found.verdict(), whats(&found)), (Verdict::Fail, BTreeSet::from(["mark"])), "{none}");
    }
}
