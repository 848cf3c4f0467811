//! How deep queues were, which tells the rate of their port.

use super::*;

/// Nothing is marked, paused or lost, so that nothing hangs on a depth.
fn unmarked(rate: &str) -> Config {
    load(&text().replace("20KB", "2MB").replace("2MiB", "64MiB").replace("1G", rate))
}

fn depths(found: &Comparison) -> usize {
    found.differences.iter().filter(|d| d.what == "depth").count()
}

/// The same file from this frame on.
fn from(capture: &CaptureFile, first: u64) -> CaptureFile {
    let is_there = |frame: &Captured| frame.history.as_ref().is_none_or(|history| history.number >= first);
    let mut frames: Vec<Captured> = capture.frames.iter().filter(|frame| is_there(frame)).cloned().collect();
    let told = frames.iter_mut().filter_map(|frame| frame.history.as_mut());
    told.for_each(|history| history.number -= first - 1);
    CaptureFile { frames, ports: capture.ports.clone(), ..*capture }
}

#[test]
fn depths_show_another_rate_where_the_file_has_all_ports() {
    let config = unmarked("1G");
    let capture = of_all_ports(CaptureFile::read(&captured(&config)[..]).unwrap(), &config);
    let found = against(&capture, &config);
    assert_eq!(
        (found.verdict(), of(&found, "depth"), unknown(&found)),
        (Verdict::Pass, of(&found, "mark"), BTreeMap::new())
    );
    for rate in ["300M", "2G", "10G"] {
        let found = against(&capture, &unmarked(rate));
        assert_eq!(found.verdict(), Verdict::Fail, "{rate}");
        // What comes behind the first one of a queue may follow from it.
        assert!(
            (1..=2).contains(&depths(&found)) && found.other_depths > 20,
            "{rate}: {:?}",
            found.differences
        );
        let first = found.differences.iter().find(|d| d.what == "depth").unwrap();
        for told in [&first.captured, &first.replayed] {
            assert!(told.starts_with("queue ") && told.ends_with(" bytes when it came"), "{first:?}");
        }
    }
    // A port that sends at its pace has no more behind it between two looks, however fast it should be.
    let seldom = |rate: &str| {
        let mut config = unmarked(rate);
        config.pfc.poll_gap = 100_000;
        config
    };
    let of_seldom = of_all_ports(CaptureFile::read(&captured(&seldom("1G"))[..]).unwrap(), &config);
    assert_eq!(["1G", "10G"].map(|rate| depths(&against(&of_seldom, &seldom(rate))) > 0), [false, true]);
    // One that sends many in each look, and does not hold more at any time than the faster one would send between two.
    let order = json!({ "port": "p0", "count": 1_000_000, "bytes": 256 });
    let file = watched_for(&seldom("1G"), &order, (100, 100, 0), |_, n| n % 2 == 0);
    let in_looks = of_all_ports(CaptureFile::read(&file[..]).unwrap(), &config);
    let most = in_looks.frames.iter().filter_map(|frame| frame.history.as_ref()?.depth).max().unwrap();
    assert!((25_000..125_000).contains(&most), "{most}");
    assert_eq!(["1G", "10G"].map(|rate| depths(&against(&in_looks, &seldom(rate))) > 0), [false, true]);
    // No more than the port sends between two looks.
    let near = against(&capture, &unmarked("1010M"));
    assert_eq!((near.verdict(), depths(&near)), (Verdict::Pass, 0), "{:?}", near.differences);
    assert!(near.other_depths > 0);
}

/// A pass says of how many depths the file does not tell, and why.
#[test]
fn depths_that_the_file_does_not_tell_are_counted_as_not_judged() {
    let config = unmarked("1G");
    let order = json!({ "port": "p0", "count": 1_000_000, "bytes": 256 });
    let file = watched_for(&config, &order, (ROUNDS, 1, 0), |_, _| true);
    let alone = CaptureFile::read(&file[..]).unwrap();
    let is_not_judged = |found: &Comparison, case: &str| {
        assert_eq!((found.verdict(), &found.differences), (Verdict::Pass, &Vec::new()), "{case}");
        let (judged, lacking) = of(found, "depth");
        let unknown = unknown(found).get("depth").copied().unwrap_or_default();
        assert_eq!(judged + lacking + unknown, of(found, "departure").0, "{case}");
        [lacking, unknown]
    };
    // Of one port.
    let [lacking, unknown] = is_not_judged(&against(&alone, &unmarked("10G")), "one port");
    assert!(lacking > 20 && unknown == 0, "{lacking}");
    let all = of_all_ports(alone, &config);
    // At a port that sends as fast as its link.
    let mut linked = unmarked("1G");
    linked.ports.iter_mut().for_each(|port| port.rate = weir_config::PortRate::Link);
    let [lacking, unknown] = is_not_judged(&against(&all, &linked), "link");
    assert!(lacking == 0 && unknown > 20, "{unknown}");
    // Since frames waited as the capture began.
    let late = from(&all, 41);
    let [lacking, unknown] = is_not_judged(&against(&late, &config), "late");
    assert!(lacking == 0 && unknown > 20, "{unknown}");
    // In a queue of another lcore.
    let mut elsewhere = from(&all, 1);
    let told = elsewhere.frames.iter_mut().filter_map(|frame| frame.history.as_mut());
    told.for_each(|history| history.depth = None);
    let found = against(&elsewhere, &unmarked("10G"));
    let [_, unknown] = is_not_judged(&found, "elsewhere");
    assert_eq!(unknown, of(&found, "departure").0);
}

/// Nor is what hangs on them: turns among queues, pauses, losses.
#[test]
fn what_follows_from_depths_that_the_file_does_not_tell_is_not_judged() {
    let config = unmarked("1G");
    let all = of_all_ports(CaptureFile::read(&captured(&config)[..]).unwrap(), &config);
    // Frames of two classes waited as the capture began, and took turns with those that are in it.
    let late = [21, 41, 61, 81, 101].map(|first| against(&from(&all, first), &config));
    for found in &late {
        assert_eq!((found.verdict(), &found.differences), (Verdict::Pass, &Vec::new()));
    }
    assert!(late.iter().any(|found| unknown(found).contains_key("order")));
    // A queue that has become the last one is told where nothing had waited.
    let last = "[[scheduler]]\nname = \"last\"\ntype = \"DWRR\"\nweight = 1\n[[queue]]\nqueues = \"3\"\nscheduler = \"last\"\n";
    let other = load(&(text().replace("20KB", "2MB").replace("2MiB", "64MiB") + last));
    assert!(whats(&against(&all, &other)).contains("order"));
    // Ports as fast as their links, which paused and dropped.
    let small = |rate: &str| load(&text().replace("1G", rate));
    let all = of_all_ports(CaptureFile::read(&captured(&small("1G"))[..]).unwrap(), &small("1G"));
    let mut linked = small("1G");
    linked.ports.iter_mut().for_each(|port| port.rate = weir_config::PortRate::Link);
    let found = against(&all, &linked);
    assert_eq!((found.verdict(), &found.differences), (Verdict::Pass, &Vec::new()));
    assert!(unknown(&found).contains_key("verdict"), "{:?}", found.unknown);
    assert_eq!(against(&all, &small("10G")).verdict(), Verdict::Fail);
}

/// Until it has been as in the replay a queue may hold frames that are not there, and so do those beside it: they take their turns.
#[test]
fn a_queue_beside_one_that_was_full_as_the_capture_began_is_not_judged() {
    let at_rate = |rate: &str| {
        load(
            &(text().replace("20KB", "2MB").replace("2MiB", "64MiB").replace("1G", rate)
                + "[[fdb.static]]\nmac = \"02:00:00:00:00:01\"\nport = \"p1\"\n"),
        )
    };
    let config = at_rate("1G");
    // Of one class 200 wait, and one more that tells it, as others come, twice what the port can carry; after a rest both come.
    let frames = |dscp: u8, from: u64, count: u64, every: u64| {
        (0..count).map(move |n| at("p0", from + n * every, &frame(0, 1, dscp)))
    };
    let before = frames(26, 0, 200, 1);
    let beside = frames(26, 299, 1, 5).chain(frames(0, 300, 60, 5));
    let after = frames(0, 6_000, 20, 5).chain(frames(26, 6_001, 20, 5));
    let frames: Vec<Captured> = before.chain(beside).chain(after).collect();
    let all = of_all_ports(capture_of(&config, &frames), &config);
    let late = from(&all, 201);
    let found = against(&late, &config);
    assert!(
        depths(&found) == 0 && unknown(&found)["depth"] > 10,
        "{:?} {:?}",
        found.differences,
        found.unknown
    );
    // What comes later is judged.
    let found = against(&late, &at_rate("3G"));
    let first = found.differences.iter().find(|d| d.what == "depth").unwrap();
    assert!(first.frame > 61, "{first:?}");
}

/// A worker that is off its core has lost the line that time. A port that is slower all the time is another one.
#[test]
fn a_queue_whose_port_was_looked_at_late_is_not_judged() {
    let config = unmarked("1G");
    let order = json!({ "port": "p0", "count": 1_000_000, "bytes": 256 });
    let file = watched_but_for(60..110, &config, &order, (ROUNDS, 1, 0), |_, _| true);
    let all = of_all_ports(CaptureFile::read(&file[..]).unwrap(), &config);
    let found = against(&all, &config);
    assert_eq!((found.verdict(), &found.differences), (Verdict::Pass, &Vec::new()));
    // All that come behind: it is full until the end.
    assert!(unknown(&found)["depth"] > 40, "{:?} {:?}", found.unknown, found.compared);
    for rate in ["300M", "10G"] {
        assert_eq!(whats(&against(&all, &unmarked(rate))), BTreeSet::from(["depth"]), "{rate}");
    }
}

/// Nor are those that hold copies of flooded frames, which go to one port in the replay.
#[test]
fn queues_with_flooded_frames_are_not_judged() {
    let third = "[[port]]\nname = \"p2\"\ndevice = \"net_null2\"\n[[fdb.static]]\nmac = \"02:00:00:00:00:02\"\nport = \"p2\"\n";
    let config = load(&(text().replace("20KB", "2MB") + third));
    let unicast = |us: u64| at("p0", us, &frame(0, 2, 0));
    let flooded = |us: u64| at("p0", us, &frame(0, 1, 0));
    let frames: Vec<Captured> = (0..10)
        .map(|n| unicast(n * 50))
        .chain((0..40).flat_map(|n| [flooded(600 + n), unicast(600 + n)]))
        .collect();
    let mut capture = of_all_ports(capture_of(&config, &frames), &config);
    let said = capture.frames.iter().filter_map(|frame| frame.history.as_ref());
    assert_eq!(said.filter(|history| history.lookup == "unknown").count(), 40);
    // Then it is known.
    let mut known = at("p0", 3_000, &frame(0, 1, 0));
    let number = capture.frames.len() as u64 + 1;
    let comment = format!(
        "frame {number}; arrived p0; tc 0 pg 0 queue 0; port p1; admitted; depth 0; left p1 queue 0 after 1ns (0ns queued), 0 bytes behind it"
    );
    known.history = Some(FrameHistory::read(&comment).unwrap());
    known.unix_ns = capture.frames.iter().map(|frame| frame.unix_ns).max().unwrap() + 3_000_000;
    capture.frames.push(known);
    let found = against(&capture, &config);
    assert_eq!((found.verdict(), &found.differences, found.learned_since), (Verdict::Pass, &Vec::new(), 40));
    let more: Vec<_> = found.unknown.iter().filter(|(why, _)| why.contains("held more")).collect();
    assert!(more.len() == 1 && more[0].1["depth"] > 10, "{:?}", found.unknown);
}
