use super::*;
use crate::fake;
use crate::table::Table;

/// A switch of two ports, as [`fake`] has it, and a configuration of the same ports.
fn answers(port: Option<&str>) -> Answers {
    let mut answers = Answers::new(port);
    for table in crate::table::ALL {
        answers.add_table(table.name, Value::Array(table.rows(&fake::snapshot(), None)));
    }
    let text = "[qos]\npreset = \"roce-lossless\"\n[port_defaults]\nmtu = 9118\nrate = \"1G\"\n\
                [[port]]\nname = \"p0\"\ndevice = \"ring\"\n[[port]]\nname = \"p1\"\ndevice = \"ring\"\npfc = { rx = \"all\" }\n";
    let config = weir_config::load("t", text).unwrap().config;
    answers.add_config(serde_json::from_str(&weir_config::sonic::export(&config).json).unwrap());
    let neighbours = crate::lldp::document(&fake::snapshot(), &crate::lldp::Query::default());
    answers.add_lldp(serde_json::from_value(neighbours).unwrap());
    answers
}

fn shown(words: &str, all: bool) -> Vec<Vec<String>> {
    let text = View::named(words).unwrap().text(&answers(None), all);
    text.lines().map(|line| line.split_whitespace().map(str::to_owned).collect()).collect()
}

#[test]
fn every_view_asks_for_tables_that_are_there_and_shows_headings() {
    let answers = answers(None);
    for view in ALL {
        assert!(view.tables.iter().all(|name| Table::named(name).is_some()), "{}", view.words);
        assert!(view.also != Also::Nothing || !view.tables.is_empty(), "{}", view.words);
        let (text, json) = (view.text(&answers, true), view.json(&answers, true));
        assert!(text.lines().any(|line| line.starts_with('-')), "{text}");
        let rows: usize =
            json.as_array().unwrap().iter().map(|grid| grid["rows"].as_array().unwrap().len()).sum();
        assert!(rows > 0, "{}: {json}", view.words);
    }
}

#[test]
fn a_watermark_is_a_persistent_one() {
    for words in [
        "queue",
        "queue unicast",
        "queue multicast",
        "queue all",
        "priority-group",
        "priority-group shared",
        "priority-group headroom",
        "buffer_pool",
        "headroom-pool",
    ] {
        let (first, more) =
            words.split_once(' ').map_or((words, String::new()), |(a, b)| (a, format!(" {b}")));
        let [now, since_start] = ["watermark", "persistent-watermark"].map(|kind| {
            View::named(&format!("{first} {kind}{more}")).unwrap_or_else(|| panic!("{words}: {kind}"))
        });
        assert_eq!(now.words, since_start.words);
    }
    assert_eq!(shown("queue watermark all", false)[1][..3].join(" "), "Port ALL0 ALL1");
    assert_eq!(shown("queue watermark multicast", false)[3][..3].join(" "), "p0 N/A N/A");
    assert!(View::named("queue persistent").is_none());
}

#[test]
fn counters_stand_under_sonics_headings() {
    let lines = shown("interfaces counters", false);
    assert_eq!(lines[0][..4], ["IFACE", "STATE", "RX_OK", "RX_BPS"]);
    // 1000 frames of 1000 bytes in 100 ms.
    assert_eq!(lines[2][..5], ["p0", "U", "2000", "10000.00", "KB/s"]);
    let lines = shown("pfc counters", false);
    assert_eq!(
        (lines[0][..3].join(" "), lines[2].clone()),
        ("Port Rx PFC0".into(), "p0 0 0 0 2 0 0 0 0".split(' ').map(str::to_owned).collect())
    );
    assert_eq!((lines[5][..3].join(" "), &*lines[7][4]), ("Port Tx PFC0".into(), "4"));
    let lines = shown("queue counters", false);
    assert_eq!(
        (lines[0].join(" ").as_str(), lines[5].join(" ").as_str()),
        ("Port TxQ Counter/pkts Counter/bytes Drop/pkts Drop/bytes", "p0 UC3 2000 2000000 0 N/A")
    );
    let lines = shown("queue watermark unicast", false);
    assert_eq!(lines[0].join(" "), "Egress shared pool occupancy per unicast queue:");
    assert_eq!((lines[1][..3].join(" "), &*lines[3][4]), ("Port UC0 UC1".into(), "30000"));
    let lines = shown("pfcwd stats", false);
    assert_eq!(
        (lines.len(), lines[0].join(" ").as_str()),
        (2, "QUEUE STATUS STORM DETECTED/RESTORED TX OK/DROP RX OK/DROP TX LAST OK/DROP RX LAST OK/DROP")
    );
    // Lossy queues are not watched, and are not in the list.
    let lines = shown("pfcwd stats", true);
    let of_p0: Vec<&str> =
        lines.iter().map(|line| line[0].as_str()).filter(|queue| queue.starts_with("p0")).collect();
    assert_eq!(of_p0, ["p0:3"]);
}

#[test]
fn the_configuration_stands_under_sonics_headings() {
    let lines = shown("interfaces status", false);
    let row = &lines[2];
    assert_eq!([&row[0], &row[2], &row[3], &row[7], &row[10]], ["p0", "1G", "9100", "up", "off"]);
    let lines = shown("pfcwd config", false);
    assert_eq!(lines[0].join(" "), "Changed polling interval to 100ms");
    assert_eq!(lines[4].join(" "), "p0 drop 200 200 enable");
    assert_eq!(shown("pfc asymmetric", false)[3].join(" "), "p1 on");
    assert_eq!(shown("pfc priority", false)[2].join(" "), "p0 3");
    let text = View::named("buffer configuration").unwrap().text(&answers(None), false);
    assert!(
        text.contains("Pool: ingress_lossless_pool\n")
            && text.contains("Profile: pg_lossless_1000_5m_profile\n"),
        "{text}"
    );
    assert!(text.contains("xoff"), "{text}");
    assert!(in_order("Ethernet4") < in_order("Ethernet12") && in_order("a") < in_order("b1"));
    // Of one port what is of a port.
    let one = answers(Some("p1"));
    assert_eq!(one.config("PORT").len(), 1);
    assert!(one.config("BUFFER_POOL").len() > 1);
}

/// Column `Vlan` of `interfaces status`.
#[test]
fn a_port_is_of_a_vlan_a_trunk_or_of_a_lag() {
    let status = |more: &str| {
        let mut answers = answers(Some("p0"));
        let text = format!("[[port]]\nname = \"p0\"\ndevice = \"ring\"\n{more}");
        let config = weir_config::load("t", &text).unwrap_or_else(|found| panic!("{found:?}")).config;
        answers.add_config(serde_json::from_str(&weir_config::sonic::export(&config).json).unwrap());
        let rows = View::named("interfaces status").unwrap().json(&answers, false);
        rows[0]["rows"][0]["Vlan"].clone()
    };
    assert_eq!(status(""), "N/A");
    assert_eq!(status("vlan = { access = 10 }\n"), "Vlan10");
    assert_eq!(status("vlan = { trunk = \"10,20\" }\n"), "trunk");
    assert_eq!(status("vlan = { trunk = 10, native = 20 }\n"), "trunk");
    assert_eq!(status("vlan = { trunk = [] }\n"), "routed");
    assert_eq!(status("[[lag]]\nname = \"po1\"\nmembers = \"p0\"\n"), "po1");
}

#[test]
fn port_channels_under_sonics_headings() {
    let mut answers = answers(None);
    let member = |name: &str, port: &str, lacp: &str, mux: &str, link: &str| json!({ "name": name, "port": port, "lacp": lacp, "mux": mux, "link": link, "admin": "up" });
    let mut rows = json!([
        member("PortChannel24", "p0", "active", "distributing", "up"),
        member("PortChannel24", "p1", "active", "waiting", "up"),
        member("PortChannel3", "p2", "passive", "collecting", "up"),
        member("po", "p3", "off", "", "down"),
        member("po", "p4", "off", "", "up"),
    ]);
    let mut off = member("po", "p5", "off", "", "up");
    off["admin"] = json!("down");
    rows.as_array_mut().unwrap().push(off);
    answers.add_table("lag", rows);
    let text = View::named("interfaces portchannel").unwrap().text(&answers, false);
    let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(lines[2..][..1], [vec!["No.", "Team", "Dev", "Protocol", "Ports"]]);
    assert_eq!(lines[4], ["24", "PortChannel24", "LACP(A)(Up)", "p0(S)", "p1(D)"]);
    assert_eq!(lines[5], ["3", "PortChannel3", "LACP(I)(Dw)", "p2(S)"]);
    assert_eq!(lines[6], ["N/A", "po", "N/A(Up)", "p3(D)", "p4(S)", "p5(D)"]);
}

#[test]
fn neighbours_under_sonics_headings() {
    let answers = answers(None);
    let text = View::named("lldp table").unwrap().text(&answers, false);
    let lines: Vec<_> = text.lines().collect();
    assert!(lines[0].starts_with("Capability codes: (R) Router"), "{text}");
    let heads = ["LocalPort", "RemoteDevice", "RemotePortID", "Capability", "RemotePortDescr"];
    assert_eq!(lines[1].split_whitespace().collect::<Vec<_>>(), heads);
    assert_eq!(lines[3].split_whitespace().take(3).collect::<Vec<_>>(), ["p0", "host7", "eth0"]);
    let text = View::named("lldp neighbors").unwrap().text(&answers, false);
    for part in ["Interface: p0, via: LLDP, Time: 0 day, ", "SysName", "host7", "interface name eth0", "TTL"]
    {
        assert!(text.contains(part), "{part}: {text}");
    }
}
