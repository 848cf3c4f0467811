//! A lab is looked at from all sides while it runs, and flooded with bad requests: it does not mind.

use crate::running::{Lab, ask, get};

#[test]
fn a_lab_is_looked_at_and_a_flood_of_bad_requests_changes_nothing() {
    let lab = Lab::start();
    let show = |what: &str, more: &[&str]| lab.good(&[&["show", what], more].concat());
    for (what, head) in [
        ("switch", "Lossless drops"),
        ("ports", "RX_OK"),
        ("queues", "Counter/pkts"),
        ("pgs", "Xoff at/bytes"),
        ("buffer", "shared"),
        ("pfc", "Rx Xoff"),
        ("ecn", "EcnMarked/pkts"),
        ("marking", "From/bytes"),
        ("matrix", "Rate/bps"),
        ("drops", "What to check"),
        ("reasons", "ingress.headroom_exhausted"),
        ("latency", "p99/ns"),
        ("lcores", "Turns/s"),
    ] {
        let text = show(what, &["--all"]);
        assert!(text.contains(head), "{what}:\n{text}");
    }
    show("events", &[]);
    assert!(show("queues", &["--port", "p0", "--all"]).lines().skip(2).all(|line| line.starts_with("p0 ")));
    let nowhere = lab.weir(&["show", "queues", "--port", "p9"]);
    assert_eq!(nowhere.code(), Some(2));

    let hgrm = show("latency", &["--hgrm"]);
    assert!(hgrm.contains("1/(1-Percentile)") && hgrm.contains("#[Max "), "{hgrm}");
    let hlog = show("latency", &["--hlog", "--port", "p0"]);
    assert!(hlog.starts_with("#[Histogram log format version 1.3]\n"), "{hlog}");
    for (part, more) in [("queueing", "--window"), ("pause", "--window")] {
        assert!(show("latency", &["--hgrm", "--part", part, more]).contains("#[Max "), "{part}");
        let hlog = show("latency", &["--hlog", "--part", part, "--cumulative"]);
        assert!(hlog.contains(&format!("#[{part} in ")) && hlog.contains("Tag="), "{hlog}");
    }
    the_parts_of_latency_add_up(&lab);
    the_lines_of_a_group_are_on_one_base(&lab);
    assert_eq!(lab.weir(&["show", "ports", "--hgrm"]).code(), Some(2));

    flood(&lab.address);
    let metrics = lab.get("/metrics");
    // One of them is the port that is not there.
    for counted in ["code=\"404\"} 76", "code=\"403\"} 75", "code=\"421\"} 75", "malformed_requests_total 75"]
    {
        assert!(metrics.contains(counted), "{counted}: {metrics}");
    }
    assert!(metrics.contains("weir_conservation_error_packets 0"), "{metrics}");

    let socket = lab.socket.clone();
    lab.stop();
    assert!(!socket.exists(), "the socket goes with the switch");
}

/// A lossless group resumes at or below the line at which it pauses, as both are shown.
fn the_lines_of_a_group_are_on_one_base(lab: &Lab) {
    let snapshot = lab.json("/v1/snapshot");
    let groups: Vec<_> =
        snapshot["pgs"].as_array().unwrap().iter().filter(|row| row["lossless"] == true).collect();
    assert!(!groups.is_empty());
    for row in groups {
        let of = |key: &str| row[key].as_u64().unwrap_or_else(|| panic!("{key}: {row}"));
        assert!(of("xon_bytes") <= of("xoff_bytes"), "{row}");
    }
}

/// Whatever the hosts of the lab did to each other: the parts are those of the same frames, and pauses of the peer
/// are the only thing a pause part can come from.
fn the_parts_of_latency_add_up(lab: &Lab) {
    let snapshot = lab.json("/v1/snapshot");
    let rows = snapshot["latency"].as_array().unwrap();
    let number = |row: &serde_json::Value, key: &str| row[key].as_u64();
    assert!(rows.iter().any(|row| number(row, "frames") > Some(0)));
    for row in rows.iter().filter(|row| number(row, "frames") > Some(0)) {
        let of = |key: &str| number(row, key).unwrap_or_else(|| panic!("{key}: {row}"));
        assert!(of("queueing_max_ns") <= of("residence_max_ns"), "{row}");
        assert!(of("pause_max_ns") <= of("residence_max_ns"), "{row}");
        assert!(of("paused_frames") <= of("frames"), "{row}");
        assert_eq!(of("paused_frames") > 0, of("pause_ns") > 0, "{row}");
        let pfc = snapshot["pfc"].as_array().unwrap();
        let same = pfc.iter().find(|p| p["port"] == row["port"] && p["priority"] == row["queue"]).unwrap();
        assert!(of("paused_frames") == 0 || number(same, "rx_xoff") > Some(0), "{row} {same}");
    }
}

fn flood(address: &str) {
    for n in 0..300u32 {
        match n % 4 {
            0 => ask(address, b"\x00\xff\x16garbage\r\n\r\n"),
            1 => ask(address, b"POST /v1/ports HTTP/1.0\r\nHost: localhost\r\nContent-Length: 3\r\n\r\n{]{"),
            2 => get(address, &format!("/v1/{n}")),
            _ => ask(address, b"GET /v1/ports HTTP/1.0\r\nHost: evil.example\r\n\r\n"),
        };
    }
}
