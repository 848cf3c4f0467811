//! Every key of a switch's configuration has an effect: on the frames that leave, on what is counted, or on a report.
//!
//! The observer plays one scenario in virtual time, with something for every part of the switch in it, and writes down
//! everything that can be seen from outside. A new key needs a case here before the tests pass.

use crate::harness::frames::{host, ipv4, ipv6, other, stamp, tagged};
use crate::harness::{Flow, Lab, Storm};
use crate::walk::{Case, Observed, Shown, walk, with};
use std::fmt::Write;
use weir_config::runtime::{Device, switch_params};
use weir_config::schema;
use weir_dataplane::switch::Switch;
use weir_dataplane::turn::Platform;
use weir_dataplane::types::{Mac, PortId};

/// Four ports at 10G and a buffer that an incast fills within 100 us.
const BASE: &str = r#"
[qos]
preset = "roce-lossless"
[buffer]
size = "160KiB"
control_bytes = "16KiB"
[pfc]
poll_gap = "1us"
pause_quanta = 200
[watchdog]
allow_short = true
detection_time = "60us"
restoration_time = "60us"
poll_interval = "20us"
[port_defaults]
rate = "10G"
mtu = 1600
[port_defaults.pfc]
enable = [3]
[[wred]]
name = "roce"
kmin = "10KB"
kmax = "30KB"
[fdb]
capacity = 64
[[port]]
name = "a"
device = "net_null0"
[[port]]
name = "b"
device = "net_null1"
[[port]]
name = "c"
device = "net_null2"
[[port]]
name = "d"
device = "net_null3"
"#;

/// The same with PFC for two priorities, each of a lossless group.
fn two_lossless(text: &str) -> String {
    let two = with(&with(text, "[port_defaults.pfc]", "enable", "[3, 4]"), "[buffer]", "size", "\"240KiB\"");
    format!(
        "{two}[[buffer.pg]]\npgs = 4\nprofile = \"lossless\"\n[[buffer.queue]]\nqueues = 4\nprofile = \"egress_lossless\"\n"
    )
}

const US: u64 = 1_000;
const MS: u64 = 1_000_000;

/// What can be seen of a switch with this configuration: its faults, or all that it did in the scenario.
fn observe(text: &str) -> Observed {
    let config = match weir_config::load_for(Platform::Simulated, "t.toml", text) {
        Ok(loaded) => loaded.config,
        Err(found) => {
            return Err(found.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"));
        }
    };
    let device = |i| Device { mac: Mac::from_u64(0x0200_0000_aa00 + i), pfc: true, ..Device::default() };
    let devices: Vec<_> = (0..config.ports.len() as u64).map(device).collect();
    let params = switch_params(&config, &devices, 1).unwrap();
    let mut lab = Lab::new(|_| ());
    lab.add_star(Switch::new(params.clone()).unwrap(), &params, 200);
    let mut seen = String::new();
    play(&mut lab);
    for (i, tester) in lab.testers.iter().enumerate() {
        let _ = writeln!(seen, "{i}: {:?} {:?} {:?}", tester.records, tester.rx, tester.pfc_log);
        let _ = writeln!(seen, "{:?}", tester.pfc_from);
    }
    for port in (0..params.ports.len() as u16).map(PortId) {
        let s = &lab.switches[0];
        let _ = writeln!(seen, "{port:?}: {:?} {:?}", s.stats(port), s.pauses(port));
        let _ = writeln!(seen, "{:?}", s.gauges(port, lab.now));
    }
    Ok(seen)
}

/// A frame from `from`, marked as no other is.
fn frame(from: u16, to: Mac, dscp: u8, ecn: u8, len: usize, nth: u64) -> Vec<u8> {
    let mut frame = ipv4(host(from), to, dscp, ecn, len);
    stamp(&mut frame, 1000 + u32::from(from), nth);
    frame
}

fn play(lab: &mut Lab) {
    let put = |lab: &mut Lab, from: usize, frame: Vec<u8>| {
        lab.testers[from].control.push_back(frame);
        lab.touch();
    };
    lab.testers.iter_mut().for_each(|t| t.records = Some(Vec::new()));
    // Everybody is heard once; somebody unknown and a group are spoken to, tagged and untagged.
    for n in 0..4 {
        put(lab, n.into(), frame(n, host((n + 1) % 4), 0, 0, 80, 0));
        put(lab, n.into(), frame(n, Mac::from_u64(0x0200_0000_bb00), 0, 0, 90, 1));
        put(lab, n.into(), frame(n, Mac::from_u64(0x0100_5e00_0001), 0, 0, 95, 2));
        lab.run_for(5 * US);
    }
    // A bridge of the spanning tree says something.
    put(lab, 0, other(host(0), Mac::from_u64(0x0180_c200_0000), 70));
    lab.run_for(5 * US);
    // Somebody asks everybody, several times at once.
    for nth in 0..4 {
        put(lab, 0, frame(0, Mac::from_u64(0xffff_ffff_ffff), 0, 0, 75, nth));
    }
    lab.run_for(5 * US);
    // Two more stations behind the first port.
    for n in [10, 11] {
        put(lab, 0, frame(n, host(2), 0, 0, 100, 3));
        lab.run_for(5 * US);
        put(lab, 2, frame(2, host(n), 0, 0, 100, 4));
    }
    // More stations than the smallest table holds.
    for n in 100..140 {
        put(lab, 0, frame(n, host(2), 0, 0, 80, 3));
    }
    lab.run_for(10 * US);
    for n in 100..140 {
        put(lab, 2, frame(2, host(n), 0, 0, 80, 4));
    }
    lab.run_for(10 * US);
    // Each DSCP and each PCP once, longer ones, and frames that say nothing.
    for dscp in 0..64 {
        put(lab, 0, frame(0, host(2), dscp, 2, 200 + usize::from(dscp), 5));
    }
    for pcp in 0..8 {
        put(lab, 1, tagged(&frame(1, host(2), 8 * (7 - pcp), 1, 400, 6), 0x8100, pcp));
        let vlan = |mut f: Vec<u8>| {
            f[15] = 9;
            f
        };
        put(lab, 3, vlan(tagged(&ipv6(host(3), host(2), 8, 1, 300), 0x8100, pcp)));
        put(lab, 3, tagged(&other(host(3), host(2), 310), 0x8100, pcp));
        put(lab, 3, other(host(3), host(2), 320));
    }
    // Addresses that a format of one's own may take for a traffic class.
    let mut odd = frame(3, host(2), 0, 2, 150, 6);
    odd[8] = 0x60;
    put(lab, 3, odd);
    put(lab, 1, frame(1, host(0), 26, 2, 1600, 7));
    put(lab, 1, frame(1, host(0), 26, 2, 1590, 8));
    lab.run_for(30 * US);
    // CNPs: behind UDP port 4791 with opcode 0x81.
    for n in 0..4 {
        let mut cnp = frame(0, host(2), 10, 2, 100, 9 + n);
        cnp[23] = 17;
        cnp[36..38].copy_from_slice(&4791u16.to_be_bytes());
        cnp[42] = 0x81;
        put(lab, 0, cnp);
    }
    // Three senders, two receivers, three classes: queues fill, marks are made, senders are paused, lossy frames are lost.
    let until = lab.now + 500 * US;
    for (from, to, dscp, priority, ecn, lens) in [
        (0, 2, 26, 3, 2, &[1500, 700][..]),
        (1, 2, 26, 3, 1, &[1000]),
        (3, 2, 0, 0, 2, &[1200, 64]),
        (3, 2, 8, 0, 0, &[300]),
        (1, 3, 46, 5, 0, &[200]),
        (0, 3, 26, 3, 0, &[200]),
    ] {
        let mut flow = Flow::new(to, priority, 1000).dscp(dscp).lens(lens).between(lab.now, until);
        flow.ecn = ecn;
        lab.flow(from, flow);
    }
    // The first receiver pauses priorities 3 and 4 for a while, then the whole link; another has no idea of PFC.
    let begin = lab.now;
    let storm = Storm {
        mask: 0b0001_1000,
        quanta: 1000,
        start: begin + 150 * US,
        stop: begin + 330 * US,
        period: 30 * US,
        xon_after: None,
    };
    lab.storm(2, storm);
    let again = Storm { start: begin + 480 * US, stop: begin + 640 * US, ..storm };
    lab.storm(2, again);
    lab.run_for(250 * US);
    let mut pause = vec![0; 60];
    pause[..6].copy_from_slice(&[0x01, 0x80, 0xc2, 0, 0, 1]);
    pause[12..18].copy_from_slice(&[0x88, 0x08, 0, 1, 0x04, 0]);
    put(lab, 3, pause);
    lab.run_for(200 * US);
    let more = Flow::new(2, 3, 1000).dscp(26).between(lab.now, lab.now + 200 * US).rate(2_000_000_000);
    lab.flow(0, more);
    lab.run_for(MS);
    // Long enough for addresses to be forgotten.
    lab.run_for(25 * MS);
    for n in 0..4u16 {
        put(lab, n.into(), frame(n, host((n + 2) % 4), 26, 2, 120, 20));
        lab.run_for(5 * US);
    }
    lab.set_link(0, 1, false);
    put(lab, 0, frame(0, host(1), 26, 2, 130, 21));
    lab.run_for(100 * US);
}

/// `key` of the table of the file with this `header`, with one value and another; an empty one: left out.
fn case(base: &str, table: &'static str, header: &str, key: &'static str, one: &str, other: &str) -> Case {
    let shown = Shown::Differs(with(base, header, key, one), with(base, header, key, other));
    Case { table, key, shown }
}

fn by(table: &'static str, key: &'static str, file: &'static str, test: &'static str) -> Case {
    Case { table, key, shown: Shown::By { file, test } }
}

/// A whole table at the top level: without it, and with it.
fn whole(key: &'static str, base: &str, more: &str) -> Case {
    Case { table: "", key, shown: Shown::Differs(base.to_owned(), format!("{base}{more}")) }
}

/// Profiles, maps, schedulers and formats that bindings can name.
fn named() -> String {
    let more = r#"
[map.edge]
dscp_to_tc = { "0-15" = 3 }
[[buffer.profile]]
name = "small"
reserved = "2KiB"
static_th = "30KB"
[[buffer.profile]]
name = "thin"
direction = "egress"
static_th = "10KB"
[[buffer.pg]]
ports = ["d"]
pgs = 0
profile = "small"
[[buffer.queue]]
ports = ["c"]
queues = 0
profile = "thin"
[[buffer.port]]
ports = ["d"]
ingress_limit = "20KB"
[[scheduler]]
name = "slow"
pir = "1G"
[[queue]]
ports = ["c"]
queues = 0
scheduler = "slow"
[[wred]]
name = "early"
kmin = "2KB"
kmax = "4KB"
pmax = "100%"
"#;
    format!("{BASE}{more}")
}

/// The scenario's frames read in a format of one's own.
fn formatted() -> String {
    let more = "[format.x]\ninherit = \"standard\"\n[watchdog]\nenable = false\n";
    let plain = BASE.replace("preset = \"roce-lossless\"", "").replace("enable = [3]", "enable = []");
    let plain = plain.replace("[[wred]]\nname = \"roce\"\nkmin = \"10KB\"\nkmax = \"30KB\"\n", "");
    let plain = plain.split("[watchdog]").next().unwrap().to_owned()
        + &plain[plain.find("[port_defaults]").unwrap()..];
    with(&format!("{plain}{more}"), "[port_defaults]", "format", "\"x\"")
}

fn cases() -> Vec<Case> {
    let named = named();
    let format = formatted();

    let afh = with(&with(&format, "[format.x]", "inherit", "\"afh_gen2_16b\""), "[format.x]", "spare", "[]");
    let statics = format!("{BASE}[[fdb.static]]\nmac = \"02:00:00:00:bb:00\"\nport = \"c\"\n");
    let group = format!("{BASE}[[fdb.group]]\nmac = \"01:00:5e:00:00:01\"\nports = [\"a\", \"c\"]\n");
    let keyed = format!("{afh}[[fdb.static]]\nkey = 0x5e00\nport = \"c\"\n");
    let keyed_group = format!("{afh}[[fdb.group]]\nkey = 1\nports = [\"a\", \"c\"]\n");
    let mut cases = vec![
        // Tables: without, and with.
        whole("switch", BASE, "[switch]\nseed = 7\n"),
        by("", "eal", "config/src/tests.rs", "eal_arguments_that_cannot_start_are_refused"),
        case(BASE, "", "[port_defaults]", "rate", "\"10G\"", "\"5G\"").at("port_defaults"),
        Case {
            table: "",
            key: "port",
            shown: Shown::Differs(
                BASE.into(),
                format!("{BASE}[[port]]\nname = \"e\"\ndevice = \"net_null4\"\n"),
            ),
        },
        case(&format, "", "[format.x]", "learning", "true", "false").at("format"),
        case(BASE, "", "[fdb]", "unknown_unicast", "", "\"drop\"").at("fdb"),
        case(BASE, "", "[qos]", "voq", "", "\"fifo\"").at("qos"),
        case(&named, "", "[port_defaults]", "maps", "", "\"edge\"").at("map"),
        case(BASE, "", "[buffer]", "size", "\"160KiB\"", "\"150KiB\"").at("buffer"),
        case(&named, "", "[[scheduler]]", "pir", "\"1G\"", "\"2G\"").at("scheduler"),
        case(BASE, "", "[[wred]]", "kmin", "\"10KB\"", "\"5KB\"").at("wred"),
        whole("queue", &named, "[[queue]]\nqueues = 3\nwred = \"early\"\n"),
        case(BASE, "", "[pfc]", "pause_quanta", "200", "300").at("pfc"),
        case(BASE, "", "[watchdog]", "enable", "true", "false").at("watchdog"),
        by("", "mgmt", "config/src/tests.rs", "management_is_for_this_machine_unless_a_token_is_asked_for"),
        by("", "lab", "weir/src/lab/hosts.rs", "every_key_of_the_lab_has_an_effect"),
        by("[switch]", "name", "config/src/diff.rs", "what_cannot_change_is_named_with_its_line"),
        case(BASE, "[switch]", "[switch]", "seed", "", "7"),
        by("[eal]", "args", "config/src/tests.rs", "eal_arguments_that_cannot_start_are_refused"),
    ];
    // Ports. What all may have stands in the defaults.
    let port = |key, one: &str, other: &str| case(&named, "[[port]]", "[port_defaults]", key, one, other);
    cases.extend([
        case(
            &with(BASE, "[[buffer.port]]", "ingress_limit", "\"30KB\""),
            "[[port]]",
            "[[buffer.port]]",
            "ports",
            "\"a\"",
            "\"d\"",
        )
        .at("name"),
        by("[[port]]", "device", "config/src/tests.rs", "devices"),
        port("rate", "\"10G\"", "\"8G\""),
        by(
            "[[port]]",
            "lcore",
            "weir/tests/black_box/lcores.rs",
            "the_owner_of_a_port_sends_where_there_is_one_transmit_queue",
        ),
        port("mtu", "1600", "1595"),
        port("mac", "", "\"02:00:00:00:00:aa\""),
        case(&format, "[[port]]", "[[port]]", "format", "", "\"afh_gen1\""),
        port("trust", "\"dscp\"", "\"pcp\""),
        port("default_tc", "", "3"),
        by(
            "[[port]]",
            "rx_descriptors",
            "weir/src/run/devices.rs",
            "the_pool_counts_the_rings_that_ports_were_given",
        ),
        by(
            "[[port]]",
            "tx_descriptors",
            "weir/src/run/devices.rs",
            "the_pool_counts_the_rings_that_ports_were_given",
        ),
        port("learning", "true", "false"),
        port("learn_limit", "", "1"),
        port("unknown_unicast", "", "\"drop\""),
        port("cable", "\"5m\"", "\"50m\""),
        port("peer_response", "", "\"8KB\""),
        case(&named, "[[port]]", "[port_defaults.pfc]", "enable", "[3]", "[]").at("pfc"),
        port("maps", "", "\"edge\""),
    ]);
    let pfc = |key, one: &str, other: &str| {
        case(&named, "pfc = { ... } of a port", "[port_defaults.pfc]", key, one, other)
    };
    cases.extend([
        pfc("enable", "[3]", "[]"),
        by(
            "pfc = { ... } of a port",
            "visible",
            "weir/src/run/devices.rs",
            "software_does_pfc_where_the_driver_is_known_to_let_it_or_the_user_knows_better",
        ),
        by(
            "pfc = { ... } of a port",
            "mode",
            "weir/src/run/devices.rs",
            "software_does_pfc_where_the_driver_is_known_to_let_it_or_the_user_knows_better",
        ),
        pfc("rx", "\"enabled\"", "\"link\""),
        pfc("tx", "true", "false"),
    ]);
    let vlans = |text: &str| format!("{BASE}[port_defaults.vlan]\n{text}\n");
    let (access, trunk) = (vlans("access = 9"), vlans("trunk = \"1-9\""));
    let vlan = |base: &str, key, one: &str, other: &str| {
        case(base, "vlan = { ... } of a port", "[port_defaults.vlan]", key, one, other)
    };
    cases.extend([
        case(BASE, "[[port]]", "[port_defaults]", "vlan", "", "{ access = 9 }"),
        vlan(&access, "access", "9", "7"),
        vlan(&trunk, "trunk", "\"1-9\"", "\"1-8\""),
        vlan(&trunk, "native", "", "9"),
    ]);
    let storm = |key, one: &str, other: &str| {
        case(
            &format!("{BASE}[port_defaults.storm_control]\nbroadcast = \"1Mpps\"\nmulticast = \"1pps\"\n"),
            "storm_control = { ... } of a port",
            "[port_defaults.storm_control]",
            key,
            one,
            other,
        )
    };
    cases.extend([
        case(BASE, "[[port]]", "[port_defaults]", "storm_control", "", "{ multicast = \"1pps\" }"),
        storm("broadcast", "\"1Mpps\"", "\"1pps\""),
        storm("unknown_unicast", "\"1G\"", "\"1pps\""),
        storm("multicast", "\"1pps\"", "\"1Mpps\""),
        storm("burst", "\"10us\"", "\"1us\""),
    ]);
    let apart = with(BASE, "[buffer]", "mirror_bytes", "\"16KiB\"");
    let mirrors = format!("{apart}[[mirror]]\nname = \"m\"\nports = \"a\"\nto = \"d\"\n");
    let mirror = |key, one: &str, other: &str| case(&mirrors, "[[mirror]]", "[[mirror]]", key, one, other);
    let chosen = |key, one: &str, other: &str| {
        case(&mirrors, "filter = { ... } of a mirror", "[mirror.filter]", key, one, other)
    };
    let of_a_size = "files_are_of_a_size_and_the_last_ones_stay";
    let to_a_file = "a_mirror_to_a_file_takes_nothing_of_the_buffer";
    cases.extend([
        Case { table: "", key: "mirror", shown: Shown::Differs(apart, mirrors.clone()) },
        by(
            "[[mirror]]",
            "name",
            "config/tests/configuration/mirror.rs",
            "mirrors_have_names_ports_and_a_way",
        ),
        mirror("ports", "\"a\"", "[\"a\", \"b\"]"),
        mirror("direction", "\"rx\"", "\"both\""),
        mirror("filter", "", "{ dscp = 26 }"),
        mirror("to", "\"d\"", "\"c\""),
        mirror("tc", "0", "1"),
        by("[[mirror]]", "file", "config/tests/configuration/mirror.rs", to_a_file),
        by("[[mirror]]", "file_size", "mgmt/src/mirror_files_tests.rs", of_a_size),
        by("[[mirror]]", "files", "mgmt/src/mirror_files_tests.rs", of_a_size),
        by("[[mirror]]", "snaplen", "config/tests/configuration/mirror.rs", to_a_file),
        chosen("dst", "", "\"ff:ff:ff:ff:ff:ff\""),
        chosen("src", "", "\"02:00:00:00:00:09\""),
        chosen("ethertype", "0x800", "0x86dd"),
        chosen("dscp", "26", "8"),
        chosen("udp_port", "4791", "4790"),
        by(
            "filter = { ... } of a mirror",
            "ip",
            "dataplane/src/switch/tap_tests.rs",
            "a_filter_means_what_it_says",
        ),
        by(
            "filter = { ... } of a mirror",
            "qp",
            "dataplane/src/switch/tap_tests.rs",
            "a_filter_means_what_it_says",
        ),
        case(&mirrors, "[buffer]", "[buffer]", "mirror_bytes", "\"16KiB\"", "\"8KiB\""),
    ]);
    let lags = format!("{BASE}[[lag]]\nname = \"po1\"\nmembers = [\"a\", \"b\"]\n");
    let lag = |key, one: &str, other: &str| case(&lags, "[[lag]]", "[[lag]]", key, one, other);
    cases.extend([
        Case { table: "", key: "lag", shown: Shown::Differs(BASE.to_owned(), lags.clone()) },
        by("[[lag]]", "name", "config/tests/configuration/lag.rs", "lags_have_names_members_and_a_hash"),
        lag("members", "[\"a\", \"b\"]", "[\"a\", \"c\"]"),
        by(
            "[[lag]]",
            "admin",
            "config/tests/configuration/lag.rs",
            "a_lag_that_is_off_has_no_member_that_is_on",
        ),
        lag("hash", "\"l4\"", "\"l2\""),
        by("[[lag]]", "lacp", "config/tests/configuration/lag.rs", "lacp_is_off_unless_it_is_asked_for"),
        by("", "lacp", "mgmt/src/lacp/settings.rs", "what_is_said_follows_from_the_configuration"),
    ]);
    for (table, key) in [
        ("[[lag]]", "lacp_rate"),
        ("[[lag]]", "min_links"),
        ("[[lag]]", "fallback"),
        ("[[lag]]", "lacp_key"),
        ("[lacp]", "system_priority"),
        ("[lacp]", "system_id"),
    ] {
        let told = "what_is_said_follows_from_the_configuration";
        cases.push(by(table, key, "mgmt/src/lacp/settings.rs", told));
    }
    let snooping = "config/tests/configuration/mcast_snooping.rs";
    cases.push(by("", "mcast_snooping", snooping, "vlans_are_snooped_where_that_is_asked_for"));
    cases.push(by("[mcast_snooping]", "vlans", snooping, "vlans_are_snooped_where_that_is_asked_for"));
    for key in [
        "fast_leave",
        "querier",
        "querier_address",
        "query_interval",
        "query_response_interval",
        "max_groups",
        "port_max_groups",
    ] {
        let told = "what_is_snooped_and_sent_follows_from_the_configuration";
        cases.push(by("[mcast_snooping]", key, "mgmt/src/mcast/settings.rs", told));
    }
    let engine = ["mac", "ip", "vlan", "jobs", "memory", "quota", "first_qpn", "qpns"];
    let test = "an_engine_is_a_port_with_an_address_and_memory";
    cases.extend(engine.map(|key| by("inc = { ... } of a port", key, "config/src/tests.rs", test)));
    cases.push(by("[[port]]", "inc", "config/src/tests.rs", test));
    let own =
        |key, one: &str, other: &str| case(&format, "keys of [format.NAME]", "[format.x]", key, one, other);
    let afhs =
        |key, one: &str, other: &str| case(&afh, "keys of [format.NAME]", "[format.x]", key, one, other);
    let plain = with(&format, "[format.x]", "ecn", "\"none\"");
    let gen1 = with(&with(&plain, "[format.x]", "dst", "[8, 40]"), "[format.x]", "src", "[56, 40]");
    let gens =
        |key, one: &str, other: &str| case(&gen1, "keys of [format.NAME]", "[format.x]", key, one, other);
    let keys =
        with(&with(&plain, "[format.x.fdb_key]", "dst", "[32, 16]"), "[format.x.fdb_key]", "src", "[80, 16]");
    let key = |key, one: &str, other: &str| {
        case(&keys, "fdb_key of a format", "[format.x.fdb_key]", key, one, other)
    };
    let marking = format!(
        "{afh}[[wred]]\nname = \"x\"\nkmin = 0\nkmax = 0\necn = \"tc\"\n[[queue]]\nqueues = \"0-7\"\nwred = \"x\"\n"
    );
    // The EtherType ends the header: the two move together.
    let longer = || {
        let other = with(&with(&afh, "[format.x]", "header_len", "16"), "[format.x]", "ethertype_off", "112");
        Case { table: "keys of [format.NAME]", key: "", shown: Shown::Differs(afh.clone(), other) }
    };
    cases.extend([
        own("inherit", "\"standard\"", "\"afh_gen1\""),
        afhs("variant", "", "\"rclink\""),
        Case { key: "header_len", ..longer() },
        gens("dst", "[8, 40]", "[0, 40]"),
        gens("src", "[56, 40]", "[48, 40]"),
        afhs("flags", "", "[24, 8]"),
        afhs("tc", "", "[64, 8]"),
        by("keys of [format.NAME]", "spare", "config/src/tests.rs", "a_format_of_your_own_is_checked"),
        case(
            &plain,
            "keys of [format.NAME]",
            "[format.x]",
            "fdb_key",
            "",
            "{ dst = [32, 16], src = [80, 16] }",
        ),
        by(
            "keys of [format.NAME]",
            "ethertype",
            "config/src/runtime.rs",
            "the_ethertype_of_a_format_is_the_parsers",
        ),
        Case { key: "ethertype_off", ..longer() },
        own("vlan", "true", "false"),
        own("prio_source", "\"pcp\"", "\"dscp\""),
        case(&marking, "keys of [format.NAME]", "[format.x]", "ecn", "\"none\"", "\"tc\""),
        own("learning", "true", "false"),
        key("dst", "[0, 16]", "[32, 16]"),
        key("src", "[48, 16]", "[80, 16]"),
    ]);
    let fdb = |key, one: &str, other: &str| case(BASE, "[fdb]", "[fdb]", key, one, other);
    cases.extend([
        fdb("capacity", "16", "4096"),
        fdb("ageing", "", "\"10ms\""),
        fdb("link_local", "\"bpdu\"", "[\"lldp\"]"),
        by(
            "[fdb]",
            "loop_moves",
            "mgmt/src/events_tests.rs",
            "how_many_moves_for_how_long_are_a_loop_is_configured",
        ),
        by(
            "[fdb]",
            "loop_time",
            "mgmt/src/events_tests.rs",
            "how_many_moves_for_how_long_are_a_loop_is_configured",
        ),
        fdb("unknown_unicast", "\"flood\"", "\"drop\""),
        Case { table: "[fdb]", key: "static", shown: Shown::Differs(BASE.into(), statics.clone()) },
        Case { table: "[fdb]", key: "group", shown: Shown::Differs(BASE.into(), group.clone()) },
        case(
            &statics,
            "[[fdb.static]]",
            "[[fdb.static]]",
            "mac",
            "\"02:00:00:00:bb:00\"",
            "\"02:00:00:00:bb:01\"",
        ),
        case(&keyed, "[[fdb.static]]", "[[fdb.static]]", "key", "0x5e00", "0xbb00"),
        case(&statics, "[[fdb.static]]", "[[fdb.static]]", "vlan", "", "9"),
        case(&statics, "[[fdb.static]]", "[[fdb.static]]", "port", "\"c\"", "\"d\""),
        by(
            "[[fdb.static]]",
            "format",
            "config/src/tests.rs",
            "fdb_entries_are_held_against_ports_and_formats",
        ),
        case(
            &group,
            "[[fdb.group]]",
            "[[fdb.group]]",
            "mac",
            "\"01:00:5e:00:00:01\"",
            "\"01:00:5e:00:00:02\"",
        ),
        case(&keyed_group, "[[fdb.group]]", "[[fdb.group]]", "key", "1", "2"),
        case(&group, "[[fdb.group]]", "[[fdb.group]]", "vlan", "", "9"),
        case(&group, "[[fdb.group]]", "[[fdb.group]]", "ports", "[\"a\", \"c\"]", "[\"a\", \"d\"]"),
    ]);
    let qos = |key, one: &str, other: &str| case(BASE, "[qos]", "[qos]", key, one, other);
    cases.extend([
        qos("preset", "\"roce-lossless\"", "\"roce-semi-lossless\""),
        qos("trust", "\"dscp\"", "\"pcp\""),
        qos("control_tc", "6", "0"),
        qos("voq", "\"fair\"", "\"fifo\""),
    ]);
    let edge = with(&named, "[port_defaults]", "maps", "\"edge\"");
    for (table, header, base) in
        [("[qos]", "[qos]", BASE), ("keys of [map.NAME]", "[map.edge]", edge.as_str())]
    {
        let map = |key, one: &str, other: &str| case(base, table, header, key, one, other);
        cases.extend([
            map("dscp_to_tc", "{ \"8\" = 0 }", "{ \"8\" = 3 }"),
            map("pcp_to_tc", "{ \"5\" = 0 }", "{ \"5\" = 6 }"),
            map("tc_to_queue", "{ \"0\" = 0 }", "{ \"0\" = 1 }"),
            map("tc_to_pg", "{ \"0\" = 0 }", "{ \"0\" = 1 }"),
            case(&two_lossless(base), table, header, "pfc_to_pg", "{ \"4\" = 4 }", "{ \"4\" = 3 }"),
            case(
                &with(base, "[port_defaults.pfc]", "rx", "\"all\""),
                table,
                header,
                "pfc_to_queue",
                "{ \"4\" = 4 }",
                "{ \"4\" = 0 }",
            ),
        ]);
    }
    let buffer = |key, one: &str, other: &str| case(&named, "[buffer]", "[buffer]", key, one, other);
    let without = |key, more: &str| Case {
        table: "[buffer]",
        key,
        shown: Shown::Differs(named.clone(), format!("{named}{more}")),
    };
    cases.extend([
        buffer("size", "\"160KiB\"", "\"150KiB\""),
        buffer("frames", "", "2000"),
        buffer("cell_bytes", "", "64"),
        buffer("control_bytes", "\"16KiB\"", "\"32KiB\""),
        buffer("headroom_pool", "", "\"30KB\""),
        buffer("over_subscribe_ratio", "", "2"),
        buffer("egress_lossy_pool", "", "\"45KB\""),
        without("profile", "[[buffer.profile]]\nname = \"lossless\"\nstatic_th = \"40KB\"\n"),
        without("pg", "[[buffer.pg]]\npgs = 0\nprofile = \"small\"\n"),
        without("queue", "[[buffer.queue]]\nqueues = 0\nprofile = \"thin\"\n"),
        without("port", "[[buffer.port]]\nports = \"a\"\ningress_limit = \"10KB\"\n"),
    ]);
    let lossless = format!("{BASE}[[buffer.profile]]\nname = \"lossless\"\n");
    let profile = |key, one: &str, other: &str| {
        case(&lossless, "[[buffer.profile]]", "[[buffer.profile]]", key, one, other)
    };
    // A lossless queue for a lossy group is refused where PFC is sent.
    let quiet = with(&named, "[port_defaults.pfc]", "tx", "false");
    let both = "[[buffer.pg]]\nports = [\"d\"]\npgs = 0\nprofile = \"turn\"\n";
    let egress = "[[buffer.queue]]\nports = [\"d\"]\nqueues = 0\nprofile = \"turn\"\n";
    let turn = "[[buffer.profile]]\nname = \"turn\"\nstatic_th = \"5KB\"\n";
    cases.extend([
        case(&named, "[[buffer.profile]]", "[[buffer.pg]]", "profile", "\"small\"", "\"lossy\"").at("name"),
        Case {
            table: "[[buffer.profile]]",
            key: "direction",
            shown: Shown::Differs(
                format!("{BASE}{turn}direction = \"ingress\"\n{both}"),
                format!("{BASE}{turn}direction = \"egress\"\n{egress}"),
            ),
        },
        profile("reserved", "\"4KiB\"", "\"8KiB\""),
        profile("dynamic_th", "0", "-1"),
        profile("static_th", "\"40KB\"", "\"20%\""),
        case(
            &with(&lossless, "[[buffer.profile]]", "static_th", "\"60KB\""),
            "[[buffer.profile]]",
            "[[buffer.profile]]",
            "xon",
            "0",
            "\"61KB\"",
        ),
        profile("xon_offset", "2000", "20000"),
        profile("xoff", "\"auto\"", "\"20KB\""),
        Case {
            table: "[[buffer.profile]]",
            key: "lossless",
            shown: Shown::Differs(
                quiet.replace("direction = \"egress\"", "direction = \"egress\"\nlossless = false"),
                quiet.replace("direction = \"egress\"", "direction = \"egress\"\nlossless = true"),
            ),
        },
    ]);
    for (table, which, numbers, profile) in [
        ("[[buffer.pg]]", "pgs", ["0", "6"], ["\"small\"", "\"lossy\""]),
        ("[[buffer.queue]]", "queues", ["0", "6"], ["\"thin\"", "\"egress_lossy\""]),
    ] {
        cases.extend([
            case(&named, table, table, "ports", "\"*\"", "\"b\""),
            case(&named, table, table, which, numbers[0], numbers[1]),
            case(&named, table, table, "profile", profile[0], profile[1]),
        ]);
    }
    // Two strict queues of the same port, one of which may be put before the other.
    let strict = with(&with(&named, "[[scheduler]]", "type", "\"STRICT\""), "[[scheduler]]", "pir", "");
    let strict = format!(
        "{strict}[[scheduler]]\nname = \"first\"\ntype = \"STRICT\"\npriority = 4\n[[queue]]\nqueues = 3\nscheduler = \"first\"\n"
    );
    let limits = |key, one: &str, other: &str| {
        let base = format!("{BASE}[[buffer.port]]\nports = [\"d\"]\ningress_limit = \"10KB\"\n");
        case(&base, "[[buffer.port]]", "[[buffer.port]]", key, one, other)
    };
    let scheduler =
        |key, one: &str, other: &str| case(&named, "[[scheduler]]", "[[scheduler]]", key, one, other);
    let wred = |key, one: &str, other: &str| case(&named, "[[wred]]", "[[wred]]", key, one, other);
    let lossy = format!("{named}[[queue]]\nqueues = 0\nwred = \"early\"\n");
    cases.extend([
        limits("ports", "\"d\"", "\"c\""),
        limits("ingress_limit", "\"10KB\"", "\"5KB\""),
        case(
            &format!("{BASE}[[buffer.port]]\nports = [\"c\"]\negress_limit = \"10KB\"\n"),
            "[[buffer.port]]",
            "[[buffer.port]]",
            "egress_limit",
            "\"10KB\"",
            "\"5KB\"",
        ),
        case(&named, "[[scheduler]]", "[[queue]]", "scheduler", "\"slow\"", "\"rest\"").at("name"),
        scheduler("type", "\"DWRR\"", "\"STRICT\""),
        case(
            &with(&named, "[[scheduler]]", "pir", ""),
            "[[scheduler]]",
            "[[scheduler]]",
            "weight",
            "1",
            "90",
        ),
        case(&strict, "[[scheduler]]", "[[scheduler]]", "priority", "0", "7"),
        case(
            &with(&named, "[[scheduler]]", "pir", ""),
            "[[scheduler]]",
            "[[scheduler]]",
            "cir",
            "",
            "\"9G\"",
        ),
        scheduler("pir", "\"1G\"", "\"2G\""),
        case(&named, "[[wred]]", "[[queue]]", "wred", "\"roce\"", "\"early\"").at("name"),
        wred("kmin", "\"10KB\"", "\"5KB\""),
        wred("kmax", "\"30KB\"", "\"20KB\""),
        wred("pmax", "\"20%\"", "\"50%\""),
        wred("ecn", "\"ecn\"", "\"none\""),
        wred("mark", "\"dequeue\"", "\"enqueue\""),
        Case {
            table: "[[wred]]",
            key: "wred_drop",
            shown: Shown::Differs(
                format!("{lossy}[[wred]]\nname = \"third\"\n")
                    .replace("pmax = \"100%\"\n", "wred_drop = false\n"),
                format!("{lossy}[[wred]]\nname = \"third\"\n")
                    .replace("pmax = \"100%\"\n", "wred_drop = true\n"),
            ),
        },
        case(&named, "[[queue]]", "[[queue]]", "ports", "\"c\"", "\"d\""),
        case(&named, "[[queue]]", "[[queue]]", "queues", "0", "5"),
        case(&named, "[[queue]]", "[[queue]]", "scheduler", "\"slow\"", "\"rest\""),
        case(&named, "[[queue]]", "[[queue]]", "wred", "\"none\"", "\"early\""),
    ]);
    let pfc = |key, one: &str, other: &str| case(BASE, "[pfc]", "[pfc]", key, one, other);
    let watchdog = |key, one: &str, other: &str| case(BASE, "[watchdog]", "[watchdog]", key, one, other);
    let long = with(
        &with(BASE, "[watchdog]", "detection_time", "\"100ms\""),
        "[watchdog]",
        "restoration_time",
        "\"100ms\"",
    );
    let long = with(&long, "[watchdog]", "poll_interval", "\"100ms\"");
    let again = |key, one: &str, other: &str| {
        let base = with(BASE, "[watchdog.reoccurrence]", "count", "2");
        let base = with(&base, "[watchdog.reoccurrence]", "window", "\"10ms\"");
        case(&base, "reoccurrence of the watchdog", "[watchdog.reoccurrence]", key, one, other)
    };
    let _ = long;
    cases.extend([
        pfc("pause_quanta", "200", "300"),
        pfc("poll_gap", "\"1us\"", "\"2us\""),
        pfc("refresh", "\"20%\"", "\"50%\""),
        watchdog("enable", "true", "false"),
        watchdog("action", "\"drop\"", "\"forward\""),
        watchdog("detection_time", "\"60us\"", "\"100us\""),
        watchdog("restoration_time", "\"60us\"", "\"100us\""),
        watchdog("poll_interval", "\"20us\"", "\"30us\""),
        watchdog("big_red_switch", "false", "true"),
        watchdog("reoccurrence", "", "{ count = 1, window = \"10ms\" }"),
        again("count", "2", "3"),
        again("window", "\"10ms\"", "\"250us\""),
        by(
            "[watchdog]",
            "allow_short",
            "config/src/checks_tests.rs",
            "h13_watchdog_settings_outside_their_range_are_refused_with_the_range",
        ),
    ]);
    cases.push(by(
        "[mgmt]",
        "dumpcap",
        "weir/tests/management/tools.rs",
        "secondary_processes_attach_to_a_switch_on_hugepages",
    ));
    let recorded = "flows_are_recorded_as_configured";
    cases.push(by("", "flows", "config/tests/configuration/flows.rs", recorded));
    cases.extend(
        ["enable", "sample"].map(|key| by("[flows]", key, "config/tests/configuration/flows.rs", recorded)),
    );
    let exported = "flows_are_exported_as_configured";
    cases.extend(
        ["export", "export_interval", "export_domain", "export_enterprise"]
            .map(|key| by("[flows]", key, "config/tests/configuration/flows.rs", exported)),
    );
    let spoken = "lldp_is_spoken_as_configured";
    cases.push(by("", "lldp", "config/tests/configuration/lldp.rs", spoken));
    cases.push(by("[[port]]", "lldp", "config/tests/configuration/lldp.rs", spoken));
    let switched = "a_port_is_switched_off_and_on_while_frames_flow";
    cases.push(by("[[port]]", "admin", "dataplane/src/switch/apply.rs", switched));
    let test = "what_is_sent_follows_from_the_configuration";
    cases.extend(
        ["enable", "interval", "hold", "system_name"]
            .map(|key| by("[lldp]", key, "mgmt/src/lldp/settings.rs", test)),
    );
    let managed = "where_it_is_managed_is_sent_where_others_can_reach_it";
    cases.push(by("[lldp]", "management_address", "mgmt/src/lldp/settings.rs", managed));
    for key in [
        "listen",
        "socket",
        "token_file",
        "operate_token_file",
        "admin_token_file",
        "hosts",
        "tls_cert",
        "tls_key",
    ] {
        cases.push(by(
            "[mgmt]",
            key,
            "config/src/tests.rs",
            "management_is_for_this_machine_unless_a_token_is_asked_for",
        ));
    }
    let lab = schema::ALL.iter().filter(|t| t.path == "[lab]" || t.path == "[[lab.flow]]");
    let lab = lab.flat_map(|t| t.keys.iter().map(|k| (t.path, k.name)));
    cases.extend(
        lab.map(|(table, key)| by(table, key, "weir/src/lab/hosts.rs", "every_key_of_the_lab_has_an_effect")),
    );
    cases
}

impl Case {
    /// The same for another key: one that is shown by what stands under it, or by who names it.
    fn at(self, key: &'static str) -> Self {
        Self { key, ..self }
    }
}

#[test]
fn every_key_of_a_switch_has_an_effect() {
    let wrong = walk(schema::ALL, &cases(), observe);
    assert!(wrong.is_empty(), "{} keys:\n{}", wrong.len(), wrong.join("\n"));
}
