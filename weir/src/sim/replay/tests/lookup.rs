//! Where frames were to go.

use super::*;

/// A port may put frames in a VLAN that they do not name.
#[test]
fn destinations_in_the_vlan_of_a_port_are_known() {
    for vlan in ["access = 10", "trunk = \"20\"\nvlan.native = 10"] {
        let config = load(&text().replace("mtu = 1600\n", &format!("mtu = 1600\nvlan.{vlan}\n")));
        let found = again(&captured(&config), &config).unwrap();
        assert_eq!((found.verdict(), found.differences), (Verdict::Pass, Vec::new()), "{vlan}");
    }
}

/// A station that moves is where each frame found it.
#[test]
fn destinations_that_move_are_where_each_frame_found_them() {
    let third = "[[port]]\nname = \"p2\"\ndevice = \"net_null2\"\n";
    let lag = "[[lag]]\nname = \"po1\"\nmembers = [\"p1\", \"p2\"]\nhash = \"l4\"\n";
    let config = load(&(text() + third));
    let mut capture = CaptureFile::read(&captured(&config)[..]).unwrap();
    // From p1 to p2 in the middle of a burst, and back.
    for history in capture.frames.iter_mut().filter_map(|frame| frame.history.as_mut()) {
        let moved = if (75..116).contains(&history.number) { "p2" } else { "p1" };
        history.lookup = format!("port {moved}");
    }
    let mut bursts: Vec<&Captured> = capture.frames.iter().collect();
    bursts.sort_by_key(|frame| (frame.unix_ns, frame.history.as_ref().map(|history| history.number)));
    let written = play(&config, &bursts, PortId(0)).unwrap();
    let moving = CaptureFile::read(&written[..]).unwrap();
    let by = |file: &CaptureFile, port: &str| {
        let left = file.frames.iter().filter_map(|frame| frame.history.as_ref());
        let left = left.filter(|h| h.departures.iter().any(|left| left.port == port));
        left.map(|h| h.number).collect::<BTreeSet<u64>>()
    };
    let moved = by(&moving, "p2");
    assert!(moved.iter().all(|number| (75..116).contains(number)) && moved.len() > 20, "{moved:?}");
    let found = again(&written, &config).unwrap();
    assert_eq!((found.verdict(), &found.differences), (Verdict::Pass, &Vec::new()));
    assert_eq!(of(&found, "lookup"), (160, 0));
    // Members of a LAG are one place: which of them a frame leaves by is its own matter.
    let lag = load(&(text() + third + lag));
    let written = play(&lag, &bursts, PortId(0)).unwrap();
    let member = CaptureFile::read(&written[..]).unwrap();
    assert!(by(&member, "p1").is_empty() != by(&member, "p2").is_empty(), "one flow goes by one member");
}

/// What a port filters because of its VLAN has a destination, too, which the capture says.
#[test]
fn destinations_of_filtered_frames_are_known() {
    let mut capture = CaptureFile::read(&captured(&load(&text()))[..]).unwrap();
    for frame in &mut capture.frames {
        frame.bytes.splice(12..12, [0x81, 0, 0, 20]);
        frame.len += 4;
    }
    let vlan = |port: usize, vid: u16| {
        let device = format!("device = \"net_null{port}\"\n");
        (device.clone(), format!("{device}vlan.access = {vid}\n"))
    };
    let config = [vlan(0, 10), vlan(1, 20)].iter().fold(text(), |text, (from, to)| text.replace(from, to));
    let config = load(&config);
    let filtered = play(&config, &capture.frames.iter().collect::<Vec<_>>(), PortId(0)).unwrap();
    let said = String::from_utf8_lossy(&filtered);
    assert_eq!(
        (said.matches("vlan.ingress_filtered").count(), said.matches("; port p1; ").count()),
        (160, 160)
    );
    let found = again(&filtered, &config).unwrap();
    assert_eq!((found.verdict(), found.differences), (Verdict::Pass, Vec::new()));
}

/// No partner speaks in a replay.
#[test]
fn members_of_a_lag_that_lacp_manages_are_up() {
    let lag = |more: &str| {
        let third = "[[port]]\nname = \"p2\"\ndevice = \"net_null2\"\n";
        load(&format!("{}{third}[[lag]]\nname = \"po1\"\nmembers = [\"p1\", \"p2\"]\n{more}", text()))
    };
    let file = captured(&lag(""));
    for mode in ["active", "passive"] {
        let found = again(&file, &lag(&format!("lacp = \"{mode}\"\n"))).unwrap();
        assert_eq!((found.verdict(), found.differences), (Verdict::Pass, Vec::new()), "{mode}");
    }
}

/// Nobody joins a group in a replay: where frames to it go is not known, nor what follows from that.
#[test]
fn frames_to_groups_that_hosts_had_joined_are_not_judged() {
    let ports = "[[port]]\nname = \"p2\"\ndevice = \"net_null2\"\n[[fdb.static]]\nmac = \"02:00:00:00:00:01\"\nport = \"p1\"\n";
    let config = |more: &str| load(&(full("30KB") + ports + more));
    let joined = config("[[fdb.group]]\nmac = \"01:00:5e:01:02:03\"\nports = [\"p2\"]\n");
    let frames: Vec<Captured> = (0..300)
        .map(|n| {
            let mut bytes = frame(0, 1, 0).bytes().to_vec();
            if n % 3 == 0 {
                bytes[..6].copy_from_slice(&[1, 0, 0x5e, 1, 2, 3]);
            }
            at("p0", n * 6, &OwnedFrame::new(bytes))
        })
        .collect();
    let mut capture = capture_of(&joined, &frames);
    let judged = |capture: &CaptureFile, config: &Config| judge(config, capture, PortId(0)).unwrap().1;
    let snooping = config("[mcast_snooping]\nvlans = \"*\"\n");
    capture.ports = snooping.ports.iter().map(|port| port.name.clone()).collect();
    let found = judged(&capture, &snooping);
    assert_eq!((found.verdict(), &found.differences), (Verdict::Pass, &Vec::new()), "{:?}", found.totals);
    assert_eq!((unknown(&found)["lookup"], of(&found, "lookup")), (100, (200, 0)));
    // The others share their queue in the replay, which is full then.
    assert!(found.totals[1].dropped > 0 && unknown(&found)["verdict"] > 0, "{:?}", found.unknown);
    // Without snooping nobody joins.
    assert!(whats(&judged(&capture, &config(""))).contains("lookup"));
    // Where both know a group of that name, by where its frames went.
    for frame in &mut capture.frames {
        frame
            .history
            .iter_mut()
            .filter(|h| h.lookup.starts_with("group"))
            .for_each(|h| h.lookup = "multicast".into());
    }
    let found = judged(&capture, &snooping);
    assert_eq!(
        (found.verdict(), unknown(&found)["departure"] >= 100),
        (Verdict::Pass, true),
        "{:?}",
        found.unknown
    );
}
