//! SONiC's commands against a running lab.

use crate::running::Lab;
use serde_json::Value;

#[test]
fn sonics_commands_show_a_running_switch_under_its_headings() {
    let lab = Lab::start();
    let show = |words: &str, more: &[&str]| {
        let words: Vec<&str> = words.split(' ').collect();
        lab.good(&[&["show"], &words[..], more].concat())
    };
    for view in weir_mgmt::sonic::ALL {
        let text = show(view.words, &["--all"]);
        assert!(text.lines().any(|line| line.starts_with('-')), "{}:\n{text}", view.words);
        let json: Value = serde_json::from_str(&show(view.words, &["--all", "--json"])).unwrap();
        let grids = json.as_array().unwrap();
        assert!(!grids.is_empty(), "{}", view.words);
        for row in grids.iter().flat_map(|grid| grid["rows"].as_array().unwrap()) {
            let heads: Vec<&String> = row.as_object().unwrap().keys().collect();
            assert!(heads.iter().all(|head| text.contains(head.as_str())), "{}: {heads:?}", view.words);
        }
    }
    let json = |words: &str, more: &[&str]| -> Value {
        serde_json::from_str(&show(words, &[more, &["-j"]].concat())).unwrap()
    };
    let first = |document: &Value| document[0]["rows"][0].clone();

    // Frames have come, so the counters of SONiC's names are those of weir's.
    let before = lab.json("/v1/ports?port=p0")["ports"][0]["rx_packets"].as_u64().unwrap();
    let counters = first(&json("interfaces counters", &["--port", "p0"]));
    assert_eq!((counters["IFACE"].as_str(), counters["STATE"].as_str()), (Some("p0"), Some("U")));
    let received: u64 = counters["RX_OK"].as_str().unwrap().parse().unwrap();
    assert!(before > 0 && received >= before, "{counters}");
    let queue: u64 = json("queue counters", &["--port", "p0"])[0]["rows"][3]["Counter/pkts"]
        .as_str()
        .unwrap()
        .parse()
        .unwrap();
    assert!(queue > 0);

    // The configuration is the one in force.
    let status = first(&json("interfaces status", &[]));
    let config = weir_config::load("lab.toml", include_str!("../../../configs/lab.toml")).unwrap().config;
    assert_eq!(status["MTU"], (config.ports[0].mtu - 18).to_string());
    let watchdog = config.watchdog.unwrap();
    let row = first(&json("pfcwd config", &[]));
    assert_eq!(row["DETECTION TIME"], (watchdog.detection / 1_000_000).to_string());
    assert_eq!(first(&json("pfc priority", &[]))["Lossless priorities"], "3");
    let tables = lab.json("/v1/config/sonic");
    assert_eq!(tables["BUFFER_POOL"]["ingress_lossless_pool"]["size"], config.buffer.shared.to_string());
    assert!(show("mac", &[]).contains("MacAddress"));

    // What there is not is refused with what there is.
    for (words, told) in [
        ("queue", "weir show queue watermark"),
        ("pfc counter", "weir show pfc counters"),
        ("ports now", "no further words"),
    ] {
        let words: Vec<&str> = words.split(' ').collect();
        let out = lab.weir(&[&["show"], &words[..]].concat());
        assert!(out.code() == Some(2) && out.stderr.contains(told), "{words:?}: {out:?}");
    }
    lab.stop();
}
