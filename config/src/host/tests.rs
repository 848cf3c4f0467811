use super::*;
use crate::schema::reference_of;
use proptest::prelude::*;

const GOOD: &str = include_str!("../../../configs/host.toml");

fn shown(found: &[Diagnostic]) -> String {
    found.iter().map(|d| format!("{d}\n\n")).collect()
}

/// The only error of the good file with a piece replaced.
fn error(from: &str, to: &str) -> Diagnostic {
    error_in(GOOD, from, to)
}

fn error_in(good: &str, from: &str, to: &str) -> Diagnostic {
    assert!(good.contains(from), "{from}");
    let found = load("host.toml", &good.replacen(from, to, 1)).unwrap_err();
    assert_eq!(found.len(), 1, "{}", shown(&found));
    found.into_iter().next().unwrap()
}

#[test]
fn the_example_is_good() {
    let loaded = load("host.toml", GOOD).unwrap_or_else(|found| panic!("{}", shown(&found)));
    assert!(loaded.warnings.is_empty(), "{}", shown(&loaded.warnings));
    let config = loaded.config;
    assert_eq!(config.ports.len(), 1);
    assert!(config.counts());
    let HostTraffic::Roce { dcqcn, qps } = config.traffic else { panic!("RoCE unless told otherwise") };
    assert_eq!(qps.iter().map(|qp| qp.qpn).collect::<Vec<_>>(), [17, 18]);
    let stream = qps[0].stream.unwrap();
    assert_eq!((stream.operation, stream.bytes), (HostOperation::Write, 65_536));
    assert_eq!((qps[0].priority, qps[0].cnp_dscp, dcqcn.outstanding), (3, 48, 16));
    assert_eq!((dcqcn.scheme, dcqcn.firmware_period), (DcqcnScheme::Hardware, 10_000));
}

#[test]
fn what_clashes_is_named_with_its_numbers() {
    let at = |from, to, rule: &str, word: &str| {
        let d = error(from, to);
        assert_eq!(d.rule, rule, "{d}");
        assert!(d.to_string().contains(word), "{d}");
    };
    at("mtu = 1600", "mtu = 1000", "qp.mtu", "1024 + 82 = 1106 bytes");
    at("peer_qpn = 17", "peer_qpn = 16777216", "range", "0 to 16777215");
    at("peer_ip = \"10.0.0.2\"", "peer_ip = \"10.0.0.1\"", "qp.peer", "itself");
    at("peer_ip = \"10.0.0.2\"", "peer_ip = \"ten\"", "value", "no IP address");
    at("mac = \"02:", "mac = \"03:", "value", "not the address of one host");
    at("send = \"write\"", "# nothing", "qp.stream", "`messages`");
    at("send = \"write\"", "send = \"read\"", "value", "\"send\", \"write\"");
    at("message = \"64KiB\"", "message = 8", "range", "16B");
    at("rate = \"1G\"", "rate = \"1G\"\nfirst_qpm = 3", "unknown_key", "did you mean `first_qpn`?");
}

#[test]
fn schemes_take_what_means_something_to_them() {
    let with = |more: &str| GOOD.replace("parameters = \"paper\"", more);
    let text = with("scheme = \"firmware_rate\"\nfirmware_period = \"25us\"\ninitial_rate = \"100M\"");
    let HostTraffic::Roce { dcqcn, .. } = load("host.toml", &text).unwrap().config.traffic else { panic!() };
    assert_eq!(
        (dcqcn.scheme, dcqcn.firmware_period, dcqcn.initial_rate),
        (DcqcnScheme::FirmwareRate, 25_000, Some(100_000_000))
    );
    let at = |more: &str, rule: &str, word: &str| {
        let d = error("parameters = \"paper\"", more);
        assert_eq!(d.rule, rule, "{d}");
        assert!(d.to_string().contains(word), "{d}");
    };
    at("firmware_period = \"1ms\"", "dcqcn.scheme", "firmware has no part");
    at("scheme = \"firmware\"\noutstanding = 4", "dcqcn.scheme", "nothing but the mask");
    at("firmware_algorithm = \"backoff\"", "dcqcn.scheme", "firmware has no part");
    let backs_off = "scheme = \"firmware\"\nfirmware_algorithm = \"backoff\"\nhyper = \"1G\"";
    at(backs_off, "dcqcn.scheme", "has no such constant");
    at("parameters = \"off\"\nscheme = \"firmware\"", "dcqcn.scheme", "nobody decides");
    at("scheme = 2", "value", "\"firmware_rate\"");
    at("initial_rate = \"2G\"", "dcqcn.rates", "initial_rate = 2G");
}

#[test]
fn ipv6_hosts_name_where_their_peers_are() {
    let six =
        GOOD.replace("10.0.0.", "fd00::").replace("peer_qpn", "peer_mac = \"02:00:00:00:00:02\"\npeer_qpn");
    let HostTraffic::Roce { qps, .. } = load("host.toml", &six).unwrap().config.traffic else { panic!() };
    assert_eq!(qps[0].peer_ip.to_string(), "fd00::2");
    let d = error_in(&six, "peer_mac = \"02:00:00:00:00:02\"", "");
    assert!(d.rule == "qp.peer" && d.to_string().contains("add peer_mac"), "{d}");
    let d = error_in(&six, "peer_ip = \"fd00::2\"", "peer_ip = \"10.0.0.2\"");
    assert!(d.to_string().contains("two families"), "{d}");
    let d = error_in(&six, "mtu = 1600", "mtu = 1110");
    assert!(d.to_string().contains("1024 + 102"), "{d}");
}

const RCLINK: &str = include_str!("../../../configs/host-rclink.toml");

#[test]
fn the_rc_link_examples_are_good() {
    let loaded = load("host.toml", RCLINK).unwrap_or_else(|found| panic!("{}", shown(&found)));
    assert!(loaded.warnings.is_empty(), "{}", shown(&loaded.warnings));
    assert!(loaded.config.counts());
    let HostTraffic::RcLink(link) = loaded.config.traffic else { panic!("protocol") };
    assert_eq!((link.format, link.vlan, link.reliable), (RcFormat::Standard, Some(0), true));
    assert_eq!(
        link.qps.iter().map(|qp| (qp.kind, qp.class, qp.peer_qp)).collect::<Vec<_>>(),
        [(RcType::Type1, RcClass::Request0, 0), (RcType::Type1, RcClass::Response, 1),]
    );
    let peer = include_str!("../../../configs/host-rclink-peer.toml");
    let loaded = load("peer.toml", peer).unwrap_or_else(|found| panic!("{}", shown(&found)));
    assert!(loaded.warnings.is_empty(), "{}", shown(&loaded.warnings));
}

#[test]
fn what_clashes_in_rc_link_is_named() {
    let at = |from, to, rule: &str, word: &str| {
        let d = error_in(RCLINK, from, to);
        assert_eq!(d.rule, rule, "{d}");
        assert!(d.to_string().contains(word), "{d}");
    };
    at("[rclink]", "[rclink]\ncredits = 7", "rclink.credits", "without credits");
    at("[rclink]", "[rclink]\nflow_control = \"cbfc\"\ncredit_bytes = 512", "rclink.credits", "512");
    at("[rclink]", "[rclink]\nfromat = 1", "unknown_key", "did you mean `format`?");
    at("[rclink]", "[rclink.priorities]\nrequest = [1, 2]\n[rclink]", "rclink.priorities", "four banks");
    at("[rclink]", "[dcqcn]\n[rclink]", "host.protocol", "[dcqcn]");
    at("peer_qp = 0", "peer_qp = 8192", "range", "8191");
    at("mtu = 1600", "mtu = 1050", "rclink.message", "1082 bytes");
    at("peer_ip = \"10.0.0.2\"", "peer_ip = \"fd00::2\"", "rclink.ip", "IPv4");
    at("peer_mac = \"02:00:00:00:00:02\"", "peer_mac = \"02:00:00:00:00:01\"", "qp.peer", "itself");
    let group = "type = \"type2\"\npeer_ip = \"239.1.1.1\"\nsend = true";
    at("peer_qp = 0\nsend = true", group, "rclink.group", "one host");
    at("format = \"standard\"", "format = \"afh\"", "value", "afh_gen1");
    let lite = RCLINK.replace("format = \"standard\"", "format = \"afh_lite\"");
    assert!(load("host.toml", &lite).is_ok());
    let d = error_in(&lite, "[rclink]", "[rclink]\nreliable = true");
    assert!(d.rule == "rclink.lite" && d.to_string().contains("no header"), "{d}");
    let d = error_in(&lite, "peer_qp = 0\nsend = true", "type = \"type3\"\nsend = true");
    assert_eq!(d.rule, "rclink.lite");
    let d = error_in(GOOD, "[dcqcn]", "[rclink]\n[dcqcn]");
    assert_eq!(d.rule, "host.protocol", "{d}");
    let plain = RCLINK.replace("ip = \"10.0.0.1\"\n", "");
    let without_ip = |format: &str| load("host.toml", &plain.replace("\"standard\"", format)).is_ok();
    assert_eq!(["\"standard\"", "\"afh_gen1\""].map(without_ip), [false, true]);
}

#[test]
fn rc_link_says_what_nothing_reads() {
    let first = "[[rclink.qp]]\npeer_qp = 0\n";
    let with = |keys: &str, before: (&str, &str)| {
        let text =
            RCLINK.replacen(first, &format!("[[rclink.qp]]\n{keys}"), 1).replacen(before.0, before.1, 1);
        load("host.toml", &text).map(|loaded| {
            let HostTraffic::RcLink(link) = loaded.config.traffic else { panic!("protocol") };
            (link.qps[0].peer_ip.to_string(), loaded.warnings)
        })
    };
    // What is sent to a group has its address, and none of what a queue pair has.
    let group = "type = \"type2\"\npeer_mac = \"03:00:00:00:00:77\"\npeer_ip = \"239.1.1.1\"\n";
    let (ip, warnings) = with(group, ("", "")).unwrap();
    assert!(ip == "239.1.1.1" && warnings.is_empty(), "{}", shown(&warnings));
    for key in ["peer_qp = 0", "window = 9", "retries = 1", "pkey = 3", "cc_window = \"8us\""] {
        let (_, warnings) = with(&format!("{group}{key}\n"), ("", "")).unwrap();
        let [warning] = &warnings[..] else { panic!("{key}: {}", shown(&warnings)) };
        assert!(warning.rule == "key.unused" && warning.message.contains("type1"), "{warning}");
    }
    let one_host = group.replace("peer_ip = \"239.1.1.1\"\n", "");
    let d = with(&one_host, ("", "")).unwrap_err();
    assert!(d[0].rule == "value" && d[0].to_string().contains("10.0.0.2"), "{}", shown(&d));
    assert_eq!(
        with(&one_host, ("peer_ip = \"10.0.0.2\"\n", "")).unwrap_err().len(),
        1,
        "the other connection"
    );
    // What has no IP header has no use for addresses, and LITE mode none for what goes with acknowledgements.
    for (format, keys) in [
        ("\"standard\"", "type = \"type3\"\npeer_ip = \"10.0.0.2\"\n"),
        ("\"afh_gen1\"", "peer_qp = 0\npeer_ip = \"10.0.0.2\"\n"),
        ("\"standard\"\nreliable = false", "peer_qp = 0\nretries = 3\n"),
    ] {
        let (_, warnings) = with(keys, ("\"standard\"", format)).unwrap();
        let [warning] = &warnings[..] else { panic!("{keys}: {}", shown(&warnings)) };
        assert_eq!(warning.rule, "key.unused", "{warning}");
    }
}

const RANKS: &str = include_str!("../../../configs/host-inc.toml");

#[test]
fn ranks_are_read_and_what_cannot_be_is_named() {
    let loaded = load("host.toml", RANKS).unwrap_or_else(|found| panic!("{}", shown(&found)));
    assert!(loaded.warnings.is_empty() && loaded.config.counts(), "{}", shown(&loaded.warnings));
    let HostTraffic::Roce { qps, .. } = loaded.config.traffic else { panic!("protocol") };
    let ranks: Vec<_> = qps.iter().map(|qp| qp.rank.as_ref().unwrap().rank).collect();
    assert_eq!((ranks, qps[1].receive, qps[1].window), (vec![0, 1], 16_384, 256));
    let at = |from: &str, to: &str, rule: &str, word: &str| {
        let d = error_in(RANKS, from, to);
        assert_eq!(d.rule, rule, "{d}");
        assert!(d.to_string().contains(word), "{d}");
    };
    at("rank = 1", "rank = 2", "qp.rank", "use 0 to 1");
    at("rank = 1", "rank = 1\noperator = \"xor\"", "qp.rank", "`xor` of f32");
    at("rank = 1", "rank = 1\ntype = \"f8\"", "value", "\"bf16\"");
    at("rank = 1", "rank = 1\nrnak = 1", "unknown_key", "did you mean `rank`?");
    at("rank = 1\n", "", "required", "inc.rank is missing");
    at("[qp.inc]\nrank = 1", "message = 1022\ninc.rank = 1", "qp.rank", "multiple of 4");
    at("[qp.inc]\nrank = 1", "expect = 5\ninc.rank = 1", "qp.rank", "`expect`");
    at("[qp.inc]\nrank = 1", "send = \"send\"\ninc.rank = 1", "qp.rank", "takes no part");
    at("[qp.inc]\nrank = 1", "remote_key = 5\ninc.rank = 1", "qp.rank", "add inc.write = true");
    at("[qp.inc]\nrank = 1", "memory_address = 5\ninc.rank = 1", "qp.rank", "add inc.write_results = true");
    at("rank = 1", "rank = 1\nwrite = \"yes\"", "value", "true or false");
    let writes = RANKS.replace(
        "[qp.inc]\nrank = 1",
        "remote_address = 7\nremote_key = 5\nmemory_key = 3\ninc = { rank = 1, write = true, write_results = true }",
    );
    let loaded = load("host.toml", &writes).unwrap_or_else(|found| panic!("{}", shown(&found)));
    let HostTraffic::Roce { qps, .. } = loaded.config.traffic else { panic!("protocol") };
    let ways: Vec<_> =
        qps.iter().map(|qp| qp.rank.as_ref().map(|rank| (rank.write, rank.write_results))).collect();
    assert_eq!(ways, [Some((false, false)), Some((true, true))]);
    let stream = qps[1].stream.unwrap();
    assert_eq!((stream.remote_address, stream.remote_key, qps[1].memory_key), (Some(7), Some(5), Some(3)));
    for tree in
        ["[1, 0]", "[0, 0]", "[]", "0", "[0, []]", "[0, \"1\"]", "[0, 1, -2]", "[[[[[[[[[0, 1]]]]]]]]]"]
    {
        at("rank = 1", &format!("rank = 1\ntree = {tree}"), "value", "tree");
    }
}

#[test]
fn the_document_holds_every_key() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/host.md");
    let text = std::fs::read_to_string(path).unwrap();
    let marker = "<!-- printed from config/src/host/schema.rs -->\n\n";
    let (prose, reference) = text.split_once(marker).expect("the marker before the reference");
    let printed = reference_of(schema::ALL);
    if std::env::var_os("WEIR_BLESS").is_some() {
        std::fs::write(path, format!("{prose}{marker}{printed}")).unwrap();
    } else {
        assert!(
            reference == printed,
            "docs/host.md is behind: WEIR_BLESS=1 cargo test -p weir-config document"
        );
    }
    let tight = error("mtu = 1600", "mtu = 1000");
    assert!(prose.contains(&tight.to_string()), "{tight}");
}

proptest! {
    #[test]
    fn no_text_panics(kind in 0usize..3, cut in 0usize..1500, piece in "[ -~\n]{0,30}") {
        let good = [GOOD, RCLINK, RANKS][kind];
        let cut = (0..=cut.min(good.len())).rev().find(|at| good.is_char_boundary(*at)).unwrap_or(0);
        let _ = load("host.toml", &format!("{}{piece}{}", &good[..cut], &good[cut..]));
    }
}
