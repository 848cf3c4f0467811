//! Every key of a host's file has an effect on what the host is made from. That nothing of that is left unread is seen by
//! the compiler: `weir/src/host/build.rs` takes it apart field by field.

use crate::walk::{Case, Observed, Shown, walk, with};
use weir_config::host::{load, schema};

const ROCE: &str = include_str!("../../../configs/host.toml");
const RANK: &str = include_str!("../../../configs/host-inc.toml");
const RCLINK: &str = include_str!("../../../configs/host-rclink.toml");

fn observe(text: &str) -> Observed {
    match load("host.toml", text) {
        Ok(loaded) => Ok(format!("{:?}", loaded.config)),
        Err(found) => Err(found.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")),
    }
}

/// A key with one value and another in the first table of this path.
fn case(base: &str, table: &'static str, key: &'static str, one: &str, other: &str) -> Case {
    Case { table, key, shown: Shown::Differs(with(base, table, key, one), with(base, table, key, other)) }
}

/// Two files that differ in a whole table or list.
fn whole(key: &'static str, one: &str, other: &str) -> Case {
    Case { table: "", key, shown: Shown::Differs(one.to_owned(), other.to_owned()) }
}

#[test]
fn every_key_of_a_host_has_an_effect() {
    let firmware = &with(ROCE, "[dcqcn]", "scheme", "\"firmware_rate\"");
    let lite = &with(RCLINK, "[rclink]", "format", "\"afh_lite\"");
    let gen2 = &with(RCLINK, "[rclink]", "format", "\"afh_gen2_16b\"");
    let credits = &with(RCLINK, "[rclink]", "flow_control", "\"cbfc\"");
    let two_ports = &format!(
        "{ROCE}[[port]]\nname = \"h1\"\ndevice = \"net_memif1\"\nmac = \"02:00:00:00:00:03\"\nip = \"10.0.0.3\"\n"
    );
    let two_ports = &two_ports.replace("[[qp]]", "[[qp]]\nport = \"h0\"");
    let rc_two_ports = &format!(
        "{RCLINK}[[port]]\nname = \"h1\"\ndevice = \"net_memif1\"\nmac = \"02:00:00:00:00:03\"\nip = \"10.0.0.3\"\n"
    );
    let rc_two_ports = &rc_two_ports.replace("[[rclink.qp]]", "[[rclink.qp]]\nport = \"h0\"");
    let host = |key, one: &str, other: &str| case(ROCE, "[host]", key, one, other);
    let port = |key, one: &str, other: &str| case(ROCE, "[[port]]", key, one, other);
    let dcqcn = |key, other: &str| case(firmware, "[dcqcn]", key, "", other);
    let qp = |key, one: &str, other: &str| case(ROCE, "[[qp]]", key, one, other);
    let inc = |key, one: &str, other: &str| case(RANK, "[qp.inc]", key, one, other);
    let rclink = |key, one: &str, other: &str| case(RCLINK, "[rclink]", key, one, other);
    let cbfc = |key, one: &str, other: &str| case(credits, "[rclink]", key, one, other);
    let priority = |key, one: &str, other: &str| case(RCLINK, "[rclink.priorities]", key, one, other);
    let backoff = |key, one: &str, other: &str| case(RCLINK, "[rclink.backoff]", key, one, other);
    let rcqp = |key, one: &str, other: &str| case(RCLINK, "[[rclink.qp]]", key, one, other);
    let cases = [
        whole("eal", ROCE, &format!("{ROCE}[eal]\nargs = [\"--no-pci\"]\n")),
        whole("host", ROCE, &with(ROCE, "[host]", "slack", "\"1ms\"")),
        whole("port", ROCE, &with(ROCE, "[[port]]", "mtu", "2000")),
        whole("dcqcn", ROCE, &with(ROCE, "[dcqcn]", "gain", "8")),
        whole("qp_defaults", ROCE, &format!("{ROCE}[qp_defaults]\nretries = 9\n")),
        whole("qp", ROCE, &with(ROCE, "[[qp]]", "retries", "9")),
        whole("rclink", RCLINK, &with(RCLINK, "[rclink]", "round_trip", "\"1ms\"")),
        Case { table: "[host]", key: "protocol", shown: Shown::Differs(ROCE.into(), RCLINK.into()) },
        host("rest", "\"50us\"", "0"),
        host("slack", "\"200us\"", "\"1ms\""),
        port("name", "\"h0\"", "\"h9\""),
        port("device", "\"net_memif0\"", "\"net_memif1\""),
        port("rate", "\"1G\"", "\"2G\""),
        port("mtu", "1600", "2000"),
        port("mac", "\"02:00:00:00:00:01\"", "\"02:00:00:00:00:07\""),
        port("ip", "\"10.0.0.1\"", "\"10.0.0.7\""),
        port("pfc", "[3]", "[3, 4]"),
        port("first_qpn", "17", "100"),
        port("lcore", "", "1"),
        case(ROCE, "[dcqcn]", "parameters", "\"paper\"", "\"connectx\""),
        case(ROCE, "[dcqcn]", "scheme", "\"hardware\"", "\"firmware\""),
        dcqcn("firmware_algorithm", "\"backoff\""),
        dcqcn("firmware_period", "\"20us\""),
        dcqcn("initial_rate", "\"50M\""),
        dcqcn("gain", "8"),
        dcqcn("initial_alpha", "512"),
        dcqcn("rate_shift", "2"),
        dcqcn("alpha_period", "\"20us\""),
        dcqcn("cut_period", "\"20us\""),
        dcqcn("increase_period", "\"20us\""),
        dcqcn("byte_threshold", "\"1MB\""),
        dcqcn("stages", "2"),
        dcqcn("additive", "\"5M\""),
        dcqcn("hyper", "\"5M\""),
        dcqcn("min_left_percent", "20"),
        dcqcn("first_cnp_rate", "\"50M\""),
        dcqcn("min_rate", "\"5M\""),
        dcqcn("cnp_interval", "\"20us\""),
        dcqcn("outstanding", "12"),
        dcqcn("outstanding_after_cnp", "4"),
        dcqcn("restore_after", "\"20us\""),
        case(two_ports, "[[qp]]", "port", "\"h0\"", "\"h1\""),
        qp("peer_ip", "\"10.0.0.2\"", "\"10.0.0.9\""),
        qp("peer_mac", "", "\"02:00:00:00:00:02\""),
        qp("peer_qpn", "17", "99"),
        qp("send_psn", "0", "5"),
        qp("recv_psn", "0", "5"),
        qp("vlan", "", "7"),
        qp("priority", "3", "4"),
        qp("dscp", "26", "27"),
        qp("cnp_priority", "6", "5"),
        qp("cnp_dscp", "48", "40"),
        qp("mtu", "1024", "512"),
        qp("window", "4096", "64"),
        qp("ack_timeout", "\"67ms\"", "\"1ms\""),
        qp("retries", "7", "1"),
        qp("rate", "", "\"500M\""),
        qp("receive", "\"64KiB\"", "\"32KiB\""),
        qp("memory_address", "", "4096"),
        qp("memory_key", "", "77"),
        qp("verify", "true", "false"),
        qp("expect", "", "10"),
        qp("send", "\"write\"", "\"send\""),
        qp("inc", "", "").of(RANK, &with(RANK, "[qp.inc]", "operator", "\"max\"")),
        inc("operator", "\"sum\"", "\"min\""),
        inc("type", "\"f32\"", "\"bf16\""),
        inc("byte_order", "\"little\"", "\"big\""),
        inc("rank", "0", "1"),
        inc("tree", "[0, 1]", "[[0], [1]]"),
        inc("write", "false", "true"),
        inc("write_results", "false", "true"),
        qp("message", "\"64KiB\"", "\"32KiB\""),
        qp("messages", "10000", "10"),
        qp("start", "0", "\"1s\""),
        qp("remote_address", "", "4096"),
        qp("remote_key", "", "77"),
        rclink("format", "\"standard\"", "\"afh_gen1\""),
        case(gen2, "[rclink]", "octets", "\"public\"", "\"rclink\""),
        rclink("crc", "true", "false"),
        rclink("udp_checksum", "0", "65535"),
        rclink("tag", "true", "false"),
        rclink("vlan", "0", "7"),
        rclink("reliable", "true", "false"),
        rclink("ecn", "true", "false"),
        rclink("cnp_merge", "\"50us\"", "\"10us\""),
        rclink("backoff", "", "{ enable = false }"),
        rclink("flow_control", "\"pfc\"", "\"cbfc\""),
        cbfc("credit_bytes", "256", "128"),
        cbfc("credits", "4096", "2048"),
        cbfc("credit_report", "2", "3"),
        cbfc("credit_interval", "\"1ms\"", "\"2ms\""),
        rclink("priorities", "", "{ cnp = 7 }"),
        rclink("round_trip", "\"20ms\"", "\"1ms\""),
        rclink("read_rate", "", "\"100M\""),
        rclink("qp_defaults", "", "").of(RCLINK, &with(RCLINK, "[rclink.qp_defaults]", "retries", "9")),
        rclink("qp", "", "").of(RCLINK, &with(RCLINK, "[[rclink.qp]]", "retries", "9")),
        priority("raw", "0", "1"),
        priority("multicast", "1", "0"),
        priority("response", "2", "1"),
        priority("request", "[3, 3, 4, 4]", "[3, 4, 3, 4]"),
        priority("ack", "6", "7"),
        priority("cnp", "5", "7"),
        backoff("enable", "true", "false"),
        backoff("cut_period", "\"50us\"", "\"20us\""),
        backoff("raise_period", "\"50us\"", "\"20us\""),
        backoff("raise", "", "\"50M\""),
        backoff("min_rate", "", "\"50M\""),
        case(rc_two_ports, "[[rclink.qp]]", "port", "\"h0\"", "\"h1\""),
        rcqp("type", "\"type1\"", "\"type3\""),
        rcqp("peer_mac", "\"02:00:00:00:00:02\"", "\"02:00:00:00:00:09\""),
        rcqp("peer_ip", "\"10.0.0.2\"", "\"10.0.0.9\""),
        rcqp("peer_qp", "0", "9"),
        rcqp("class", "\"request0\"", "\"request2\""),
        rcqp("pkey", "0", "9"),
        rcqp("window", "512", "64"),
        rcqp("ack_every", "16", "4"),
        rcqp("ack_timeout", "\"67ms\"", "\"1ms\""),
        rcqp("retries", "7", "1"),
        rcqp("cc_window", "\"65us\"", "\"8us\""),
        rcqp("rate", "", "\"500M\""),
        rcqp("expect", "", "10"),
        rcqp("send", "true", "false").of(
            &with(lite, "[[rclink.qp]]", "messages", ""),
            &with(&with(lite, "[[rclink.qp]]", "messages", ""), "[[rclink.qp]]", "send", "false"),
        ),
        rcqp("message", "1024", "512"),
        rcqp("messages", "100000", "10"),
        rcqp("start", "0", "\"1s\""),
    ];
    let wrong = walk(schema::ALL, &cases, observe);
    assert!(wrong.is_empty(), "{} keys:\n{}", wrong.len(), wrong.join("\n"));
}

impl Case {
    /// The same key, shown by these two files.
    fn of(self, one: &str, other: &str) -> Self {
        Self { shown: Shown::Differs(one.to_owned(), other.to_owned()), ..self }
    }
}
