//! What the buffer made of a frame.

use super::*;

/// What the buffer makes of a frame is a matter of the frames of all ports. Those that are not in the file take room: of what is shared by what is free
/// without a sign, of what stands still in a queue that was deeper.
#[test]
fn a_verdict_that_frames_of_other_ports_can_have_decided_is_not_judged() {
    let third = "[[port]]\nname = \"p2\"\ndevice = \"net_null2\"\n[[fdb.static]]\nmac = \"02:00:00:00:00:01\"\nport = \"p1\"\n";
    let judged = |capture: &CaptureFile, config: &Config| judge(config, capture, PortId(0)).unwrap().1;
    let shared = text().replace("1G", "100G") + third;
    let still = full("30KB") + third;
    // A share of what is free that others have less of; a limit of a queue that others are in.
    let cases: [(&str, &str, u8, Frames); 2] =
        [("pause", &shared, 26, (200, 4, 0)), ("verdict", &still, 0, (10, 4, 0))];
    for (what, text, dscp, others) in cases {
        let config = load(text);
        let mut not_judged = 0;
        for count in (16..48).step_by(2) {
            let (mut alone, foreign) = beside_others(&config, 800, &[(count, 5, dscp)], others);
            let found = judged(&alone, &config);
            let (judged_alone, lacking) = of(&found, "verdict");
            assert_eq!((found.verdict(), &found.differences), (Verdict::Pass, &Vec::new()), "{what} {count}");
            assert_eq!(judged_alone + lacking, alone.frames.len() as u64, "{what} {count}");
            not_judged += lacking;
            // If that is all there was, it is a difference.
            alone.ports = config.ports.iter().map(|port| port.name.clone()).collect();
            let whole = judged(&alone, &config);
            assert_eq!(whats(&whole).contains(what), lacking > 0, "{what} {count}: {:?}", whole.differences);
            // With all frames everything is judged.
            alone.frames.extend(foreign);
            let found = judged(&alone, &config);
            let all = 10 * count as u64;
            assert_eq!((found.verdict(), of(&found, "verdict")), (Verdict::Pass, (all, 0)), "{what} {count}");
        }
        assert!(not_judged > 0, "{what}");
    }
    // Nobody makes room for a frame: what was taken, and is refused in the replay, is a difference, and so is a limit of a queue that was
    // full before, without a sign of others.
    let of_queue = |limit: &str| load(&(full(limit).replace("1G", "100G") + third));
    let (alone, _) = beside_others(&of_queue("30KB"), 200, &[(40, 5, 0)], (0, 4, 0));
    for limit in ["20KB", "40KB"] {
        let found = judged(&alone, &of_queue(limit));
        assert!(
            found.verdict() == Verdict::Fail && whats(&found).contains("verdict"),
            "{limit}: {:?}",
            found.compared
        );
    }
}

/// A capture of one port has no pauses that came to another one.
#[test]
fn losses_by_the_watchdog_of_a_port_whose_pauses_are_not_in_the_file_are_not_judged() {
    let config = load(
        &(text()
            + "[watchdog]\naction = \"drop\"\ndetection_time = \"100ms\"\nrestoration_time = \"100ms\"\n\
               [[fdb.static]]\nmac = \"02:00:00:00:00:01\"\nport = \"p1\"\n"),
    );
    let mut pause = vec![0; 60];
    pause[..6].copy_from_slice(&[1, 0x80, 0xc2, 0, 0, 1]);
    pause[6..18].copy_from_slice(&[2, 0, 0, 0, 0, 1, 0x88, 8, 1, 1, 0, 1 << 3]);
    pause[24..26].copy_from_slice(&[0xff, 0xff]);
    let pause = OwnedFrame::new(pause);
    let pauses: Vec<Captured> = (0..30).map(|n| at("p1", n * 20_000, &pause)).collect();
    let own = (1..200).map(|n| at("p0", n * 5_000, &frame(0, 1, if n % 2 == 0 { 26 } else { 0 })));
    let frames: Vec<Captured> = pauses.iter().cloned().chain(own).collect();
    let mut capture = capture_of(&config, &frames);
    let judged = |capture: &CaptureFile| judge(&config, capture, PortId(0)).unwrap().1;
    let found = judged(&capture);
    let lost = found.totals[0].dropped;
    assert_eq!((found.verdict(), &found.differences), (Verdict::Pass, &Vec::new()));
    assert!(lost > 20 && unknown(&found).values().sum::<u64>() >= lost, "{lost} {:?}", found.unknown);
    assert!(found.losses.is_empty() && found.other_limit.is_none());
    // With them everything is judged; if the file says that none came, it is a difference.
    capture.ports.insert("p1".into());
    assert_eq!(judged(&capture).verdict(), Verdict::Fail);
    capture.frames.extend(pauses);
    let found = judged(&capture);
    assert_eq!(
        (found.verdict(), unknown(&found)),
        (Verdict::Pass, BTreeMap::new()),
        "{:?}",
        found.differences
    );
}

/// The lcore that has the queue may be another one than that of the port the frame came to.
#[test]
fn a_frame_that_its_queue_refuses_is_lost_there_on_whatever_lcore() {
    let came = "frame 1; arrived p0; tc 0 pg 0 queue 0; port p1; ";
    let found = |captured: &str, lacks: bool| {
        let [was, is] = [captured, "dropped; stage egress, reason egress.wred"]
            .map(|told| FrameHistory::read(&format!("{came}{told}")).unwrap());
        compare(
            &load(&text()),
            [&[was], &[is]],
            &BTreeMap::new(),
            &[],
            Lacks { own: lacks, ..Lacks::default() },
        )
    };
    let refused =
        |reason: &str| format!("admitted; depth 0; lost at p1, stage egress, reason egress.{reason}");
    let same = found(&refused("wred"), false);
    assert_eq!((same.verdict(), same.differences), (Verdict::Pass, Vec::new()));
    assert_eq!(found(&refused("wred"), true).verdict(), Verdict::Undecided);
    let other = found(&refused("port_down"), false);
    assert!(other.differences.iter().any(|d| d.captured == "admitted"), "{:?}", other.differences);
}

/// Headroom is held against the file: the frames that were in it at once are not fewer for what others sent.
#[test]
fn headroom_that_a_configuration_has_not_is_found() {
    let with =
        |xoff: &str| load(&text().replace("dynamic_th = -5", &format!("dynamic_th = -5\nxoff = \"{xoff}\"")));
    let capture = CaptureFile::read(&captured(&with("300KB"))[..]).unwrap();
    let judged = |xoff: &str| judge(&with(xoff), &capture, PortId(0)).unwrap().1;
    assert_eq!(judged("300KB").verdict(), Verdict::Pass);
    let found = judged("5KB");
    let limit = found.differences.iter().find(|d| d.what == "limit").unwrap();
    assert_eq!(found.verdict(), Verdict::Fail);
    assert!(limit.captured.contains("bytes in its headroom") && limit.replayed.contains("5000"), "{limit:?}");
}
