//! A capture as a whole: what is judged of it, and what it lacks.

use super::*;

#[test]
fn the_same_switch_does_the_same_and_what_was_changed_is_named() {
    let config = load(&text());
    let file = captured(&config);
    let said = String::from_utf8_lossy(&file);
    let count = |what: &str| said.matches(what).count();
    assert_eq!(count("; arrived p0; "), 160);
    assert!(count("Xoff reached") > 0 && count("marked CE") > 20 && count("into headroom") > 5);
    let found = again(&file, &config).unwrap();
    assert_eq!((found.differences, found.other_depths), (Vec::new(), 0));

    let one = |number: u64, what, from: &str, to: &str| {
        let found = again(&changed(&file, number, from, to), &config).unwrap().differences;
        assert_eq!(
            found.iter().map(|d| (d.frame, d.what)).collect::<Vec<_>>(),
            [(number, what)],
            "{found:?}"
        );
    };
    one(5, "class", "pg 3 queue 3", "pg 3 queue 4");
    one(9, "lookup", "port p1;", "group 1;");
    one(3, "departure", "left p1 queue 3", "left p1 queue 5");
}

/// A live tap follows 256 at a time; a slower port has more of them waiting.
#[test]
fn however_many_frames_wait_each_is_told() {
    let fast = |rate: &str| full("8MB").replace("rate = \"1G\"", &format!("rate = \"{rate}\""));
    let order = json!({ "port": "p0", "count": 1_000_000, "bytes": 256 });
    let file = watched_for(&load(&fast("10G")), &order, (1000, 1, 0), |_, _| false);
    let found = again(&file, &load(&fast("1G"))).unwrap();
    let [was, is] = found.totals;
    assert_eq!((was.frames, is.frames, is.dropped), (800, 800, 0));
    let untold: Vec<_> = found.differences.iter().filter(|d| d.replayed == "nothing").collect();
    assert!(untold.is_empty(), "{untold:?}");
}

#[test]
fn another_configuration_shows_where_it_decides_otherwise() {
    let file = captured(&load(&text()));
    // Marks later, pauses earlier, and the other class first.
    let other = |from: &str, to: &str| whats(&again(&file, &load(&text().replace(from, to))).unwrap());
    assert_eq!(other("20KB", "100KB"), BTreeSet::from(["mark"]));
    assert!(other("dynamic_th = -5", "dynamic_th = -6").contains("pause"));
    let heavier = "[[scheduler]]\nname = \"roce\"\nweight = 100\n[port_defaults]";
    assert!(other("[port_defaults]", heavier).contains("order"));
}

/// The other class waits in the same buffer, frames that are not marked in the same queue.
#[test]
fn what_hangs_on_frames_that_a_capture_lacks_is_not_judged() {
    let config = load(&text());
    let whole = again(&captured(&config), &config).unwrap();
    assert_eq!(whole.compared.values().map(|n| n.lacking).sum::<u64>(), 0);
    // Some find no room.
    let (marks, _) = of(&whole, "mark");
    assert_eq!((of(&whole, "verdict"), of(&whole, "order")), ((160, 0), (marks, 0)));
    assert!(marks > 80);

    let marked = watched(&config, &json!({ "port": "p0", "count": 1000, "bytes": 256, "marked": true }));
    let found = again(&marked, &config).unwrap();
    let (judged, lacking) = of(&found, "mark");
    assert_eq!((found.verdict(), &found.differences), (Verdict::Pass, &Vec::new()));
    assert!(lacking > 20 && of(&found, "verdict") == (0, judged + lacking), "{judged} {lacking}");

    // What a frame says of itself contradicts another Kmin, whatever lacks.
    let deeper = again(&marked, &load(&text().replace("20KB", "1MB"))).unwrap();
    let marks = deeper.differences.iter().filter(|difference| difference.what == "mark");
    assert_eq!((marks.count() as u64, deeper.verdict()), (deeper.totals[0].marked, Verdict::Fail));

    let dscp =
        watched(&config, &json!({ "port": "p0", "count": 1000, "bytes": 256, "filter": { "dscp": 26 } }));
    let found = again(&dscp, &config).unwrap();
    assert_eq!((found.verdict(), &found.differences), (Verdict::Pass, &Vec::new()));
    assert_eq!((of(&found, "class"), of(&found, "verdict")), ((80, 0), (0, 80)));
    let (in_order, lacking) = of(&found, "order");
    assert!(in_order > 40 && lacking == 0);

    // Without what it says of itself, as a file from before, and with all ports in it, it has differences, but for marks, which the depth
    // explains.
    for (file, says) in [(marked, "only frames of: marked"), (dscp, "only frames of: dscp 26")] {
        let at = file.windows(says.len()).position(|w| w == says.as_bytes()).unwrap();
        let silent = [&file[..at], b"all", &file[at + 3..]].concat();
        let mut capture = CaptureFile::read(&silent[..]).unwrap();
        capture.ports = config.ports.iter().map(|port| port.name.clone()).collect();
        let found = judge(&config, &capture, PortId(0)).unwrap().1;
        assert_eq!(found.differences.is_empty(), says.ends_with("marked"), "{says}: {:?}", found.differences);
        // What the frame itself decides is judged all the same.
        let other =
            load(&text().replace("\"roce-lossless\"\n", "\"roce-lossless\"\ndscp_to_tc = { \"26\" = 0 }\n"));
        assert!(whats(&again(&file, &other).unwrap()).contains("class"), "{says}");
    }
}

/// Only how frames are classified could be told: that is no proof of a switch.
#[test]
fn a_capture_of_which_nothing_can_be_judged_does_not_pass() {
    let known = text() + "[[fdb.static]]\nmac = \"02:00:00:00:00:01\"\nport = \"p1\"\n";
    let config = load(&known);
    let mut file = captured(&config);
    for number in 1..=160 {
        file = changed(&file, number, "port p1;", "unknown;");
    }
    let found = again(&file, &config).unwrap();
    assert_eq!((found.learned_since, found.verdict()), (160, Verdict::Undecided));
}
