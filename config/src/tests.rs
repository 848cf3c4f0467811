//! What a user writes, and what comes back.

use super::*;
use weir_dataplane::types::{MAX_PORTS, PortId};
use weir_inc::engine::EngineParams;

const TWO: &str = "
[[port]]
name = \"p0\"
device = \"ring\"
[[port]]
name = \"p1\"
device = \"net_af_packet0,iface=veth0\"
";

fn good(text: &str) -> Loaded {
    load("t.toml", text).unwrap_or_else(|found| panic!("{}", shown(&found)))
}

fn bad(text: &str) -> Vec<Diagnostic> {
    match load("t.toml", text) {
        Ok(loaded) => panic!("accepted; warnings: {}", shown(&loaded.warnings)),
        Err(found) => found,
    }
}

fn shown(found: &[Diagnostic]) -> String {
    found.iter().map(|d| format!("{d}\n")).collect()
}

/// The text under the carets of the one finding of this rule.
fn pointed<'t>(text: &'t str, found: &[Diagnostic], rule: &str) -> &'t str {
    let of_rule: Vec<_> = found.iter().filter(|d| d.rule == rule).collect();
    assert_eq!(of_rule.len(), 1, "{rule}:\n{}", shown(found));
    &text[of_rule[0].span.start..of_rule[0].span.end]
}

#[test]
fn a_minimal_file_is_enough() {
    let Loaded { config, warnings } = good(TWO);
    assert!(warnings.is_empty(), "{}", shown(&warnings));
    assert_eq!(config.ports.len(), 2);
    assert_eq!(config.port("p1"), Some(PortId(1)));
    let p1 = &config.ports[1];
    assert_eq!((p1.kind, p1.rate, p1.mtu), (DeviceKind::Vdev, PortRate::Fixed(100_000_000_000), 9216));
    assert_eq!((p1.lcore, p1.learning, p1.cable_mm), (None, true, Some(5_000)));
    assert_eq!(p1.trust, [Trust::Pcp, Trust::Dscp]);
    assert_eq!(p1.maps.dscp_to_tc[26], 3);
    let b = &config.buffer;
    assert_eq!(b.size, b.reserved + b.headroom + b.control_bytes + b.shared);
    assert_eq!((b.reserved, b.headroom), (2 * 8 * 4096, 0));
    assert!(config.watchdog.is_none());
}

#[test]
fn every_error_is_reported_at_its_value() {
    let text = "
[eal]
args = [\"-l\", \"0-1\", \"-n 4\"]
[[port]]
name = \"p0\"
device = \"ring\"
lcore = 7
rate = \"100Q\"
lcroe = 1
[[port]]
name = \"p0\"
device = \"net_wifi0\"
format = \"afh_gen3\"
trust = [\"dscp\", \"colour\"]
mtu = \"1GiB\"
[[fdb.static]]
mac = \"02:00:00:00:00:01\"
port = \"p9\"
[colour]
";
    let found = bad(text);
    assert_eq!(found.len(), 11, "{}", shown(&found));
    assert_eq!(pointed(text, &found, "eal.args"), "\"-n 4\"");
    assert_eq!(pointed(text, &found, "port.lcore"), "7");
    assert_eq!(pointed(text, &found, "port.name"), "\"p0\"");
    assert_eq!(pointed(text, &found, "port.device"), "\"net_wifi0\"");
    assert_eq!(pointed(text, &found, "format.unknown"), "\"afh_gen3\"");
    assert_eq!(pointed(text, &found, "range"), "\"1GiB\"");
    assert_eq!(pointed(text, &found, "port.unknown"), "\"p9\"");
    let values: Vec<_> =
        found.iter().filter(|d| d.rule == "value").map(|d| &text[d.span.start..d.span.end]).collect();
    assert_eq!(values, ["\"100Q\"", "\"colour\""]);
    let unknown: Vec<_> =
        found.iter().filter(|d| d.rule == "unknown_key").map(|d| d.remedy.as_str()).collect();
    assert_eq!(unknown[0], "did you mean `lcore`?");
    assert!(unknown[1].starts_with("known here: switch, eal"));
    assert!(found.iter().all(|d| !d.remedy.is_empty() && d.file == "t.toml"));
}

#[test]
fn syntax_errors_look_the_same() {
    let text = "[switch]\nname = \"a\nseed = = 3\n";
    let found = bad(text);
    assert!(found.iter().all(|d| d.rule == "syntax"));
    assert!(found.len() >= 2, "both are reported:\n{}", shown(&found));
    assert!(found[0].to_string().contains("--> t.toml:2:"), "{}", found[0]);
    let twice = bad("[switch]\nseed = 1\nseed = 2\n");
    assert_eq!((twice[0].line, twice[0].column), (3, 1), "{}", shown(&twice));
}

#[test]
fn eal_arguments_that_cannot_start_are_refused() {
    let text = format!("{TWO}[eal]\nargs = [\"--in-memory\", \"--no-huge\"]\n");
    assert_eq!(pointed(&text, &bad(&text), "eal.args"), "\"--no-huge\"");
    let config =
        good(&format!("{TWO}[eal]\nargs = [\"--no-huge\", \"--vdev=net_pcap9,rx_pcap=a b.pcap\"]\n")).config;
    assert_eq!(config.eal_args, ["--no-huge", "--vdev=net_pcap9,rx_pcap=a b.pcap"]);
}

#[test]
fn an_empty_file_says_what_is_needed() {
    let found = bad("");
    assert_eq!(found[0].rule, "port.none");
    assert!(found[0].to_string().contains("[[port]]"));
}

#[test]
fn too_many_ports() {
    let port = |i: usize| format!("[[port]]\nname = \"p{i}\"\ndevice = \"ring\"\n");
    let full: String = (0..MAX_PORTS).map(port).collect();
    assert_eq!(good(&full).config.ports.len(), MAX_PORTS);
    let found = bad(&(full + &port(MAX_PORTS)));
    assert_eq!(found[0].rule, "port.count");
    assert!(found[0].message.contains("257") && found[0].message.contains("256"));
}

#[test]
fn devices() {
    let with = |device: &str| load("t", &format!("[[port]]\nname = \"p\"\ndevice = \"{device}\"\n"));
    for (device, kind) in [
        ("0000:3b:00.0", DeviceKind::Pci),
        ("3b:00.1,representor=0", DeviceKind::Pci),
        ("ring", DeviceKind::Ring),
        ("net_memif0,role=server", DeviceKind::Vdev),
        ("net_vhost3,iface=/tmp/v", DeviceKind::Vdev),
    ] {
        assert_eq!(with(device).unwrap().config.ports[0].kind, kind, "{device}");
    }
    for device in
        ["", "eth0", "net_memif", "net_vhost0", "net_af_packet0,iface=", "3b:00.8", "0000:3b:00", "3b:0é.0"]
    {
        assert_eq!(with(device).unwrap_err()[0].rule, "port.device", "{device}");
    }
    // What two ports on one would take from each other, and what they share.
    let two = |one: &str, other: &str| {
        let text = format!(
            "[[port]]\nname=\"a\"\ndevice=\"net_{one}\"\n[[port]]\nname=\"b\"\ndevice=\"net_{other}\"\n"
        );
        let found = load("t", &text).err();
        found.map(|found| found.iter().map(ToString::to_string).collect::<String>())
    };
    for (one, other) in [
        ("af_packet0,iface=w0", "af_packet1,framesz=4096,iface=w0"),
        ("af_packet0,iface=w0", "af_xdp1,iface=w0"),
        ("tap0,iface=t0", "tap1,iface=t0"),
        ("vhost0,iface=/tmp/v", "vhost1,iface=/tmp/v,queues=1"),
        ("memif0,role=server", "memif1,role=master,id=0,socket=/run/memif.sock"),
        ("memif0,id=3,socket=/tmp/s", "memif1,socket=/tmp/s,id=3,role=slave"),
    ] {
        let said = two(one, other).unwrap_or_else(|| panic!("{one} and {other} pass"));
        assert!(said.contains("is already used, first in line 3"), "{said}");
    }
    // What a message says is not looked through for the place.
    let text = "[[port]]\nname = \"a in line 9\"\ndevice = \"net_null0\"\n".repeat(2);
    let found = load("t", &text).unwrap_err();
    let of_name = found.iter().find(|d| d.first_line == Some(2)).unwrap();
    assert!(of_name.message.contains("`a in line 9`") && !of_name.message.contains("line 2"), "{of_name}");
    assert!(of_name.told().ends_with(", first in line 2"), "{of_name}");
    for (one, other) in [
        ("af_packet0,iface=w0", "af_packet1,iface=w1"),
        ("af_xdp0,iface=w0", "af_xdp1,iface=w0,start_queue=1"),
        ("memif0,role=server,id=1", "memif1,role=client,id=1"),
        ("memif0,role=server,id=1", "memif1,role=server,id=2"),
        ("pcap0,rx_pcap=/tmp/in.pcap", "pcap1,rx_pcap=/tmp/in.pcap"),
    ] {
        assert_eq!(two(one, other), None, "{one} and {other}");
    }
    let same = "[[port]]\nname=\"a\"\ndevice=\"3b:00.0\"\n[[port]]\nname=\"b\"\ndevice=\"0000:3b:00.0\"\n";
    assert_eq!(pointed(same, &bad(same), "port.device"), "\"0000:3b:00.0\"");
}

const ENGINE: &str =
    "[[port]]\nname = \"i\"\ndevice = \"inc\"\ninc = { mac = \"02:00:00:00:01:00\", ip = \"10.0.0.200\" }\n";

#[test]
fn an_engine_is_a_port_with_an_address_and_memory() {
    let config = good(&format!("{TWO}{ENGINE}")).config;
    let port = config.ports.last().unwrap();
    let engine = port.engine.unwrap();
    assert_eq!((port.kind, engine.address.vlan), (DeviceKind::Inc, None));
    assert_eq!(engine.params, EngineParams::default());
    let own = |entry: &&StaticEntry| entry.key == 0x0200_0000_0100;
    let entry = config.fdb.statics.iter().find(own).unwrap();
    assert_eq!((entry.vlan, entry.port.index()), (0, config.ports.len() - 1));

    let more = "vlan = 7, jobs = 3, memory = \"1MiB\", quota = \"512KiB\", first_qpn = 0x1000, qpns = 9 }";
    let config = good(&format!("{TWO}{}", ENGINE.replace(" }", &format!(", {more}")))).config;
    let engine = config.ports.last().unwrap().engine.unwrap();
    let EngineParams { jobs, memory, quota, first_qpn, qpns } = engine.params;
    assert_eq!((jobs, memory, quota, first_qpn.0, qpns), (3, 1 << 20, 1 << 19, 0x1000, 9));
    assert_eq!((engine.address.vlan, config.fdb.statics[0].vlan), (Some(7), 7));
}

#[test]
fn an_engine_on_the_lcore_of_a_port_makes_its_turns_longer() {
    let text = format!("{TWO}{ENGINE}");
    let headroom = |text: &str| {
        let rows = good(&format!("{text}[qos]\npreset = \"roce-lossless\"\n[buffer]\nsize = \"64MiB\"\n"))
            .config
            .explain();
        let row = rows.into_iter().find(|row| row.key == "port.p1.xoff").unwrap();
        row.value
    };
    let without = text.replace("device = \"inc\"", "device = \"ring\"").replace("inc = {", "# {");
    assert_ne!(headroom(&text), headroom(&without));
}

#[test]
fn engines_that_cannot_be_are_refused() {
    for (from, to, rule, at) in [
        ("inc = { mac", "# ", "port.inc", "[[port]]"),
        ("mac = \"02:00:00:00:01:00\", ", "", "required", "{ ip"),
        (", ip = \"10.0.0.200\"", "", "required", "{ mac"),
        ("02:00:00:00:01:00", "03:00:00:00:01:00", "value", "\"03:"),
        ("10.0.0.200", "224.0.0.1", "value", "\"224"),
        (" }", ", jobs = 0 }", "range", "0"),
        (" }", ", memory = \"1KiB\" }", "range", "\"1KiB\""),
        (" }", ", quota = \"1GiB\" }", "port.inc", "\"1GiB\""),
        (" }", ", first_qpn = 0xffffff, qpns = 2 }", "port.inc", "2"),
        (" }", ", window = 4 }", "unknown_key", "window"),
        ("inc = {", "inc = 5 # {", "value", "5"),
        ("inc = {", "inc = \"on\" # {", "value", "\"on\""),
        ("inc = {", "format = \"afh_gen1\"\ninc = {", "port.inc", "[[port]]"),
        ("\"inc\"", "\"ring\"", "port.inc", "{ mac"),
    ] {
        let text = format!("{TWO}{}", ENGINE.replace(from, to));
        let found = bad(&text);
        let pointed = pointed(&text, &found, rule);
        assert!(pointed.starts_with(at) && found.len() == 1, "{rule}: {pointed}: {}", shown(&found));
    }
    let two = format!("{TWO}{ENGINE}{}", ENGINE.replace("\"i\"", "\"j\""));
    let rules: Vec<_> = bad(&two).iter().map(|d| d.rule).collect();
    assert_eq!(
        rules,
        ["port.inc", "port.inc", "fdb.duplicate"],
        "one IP address, one lcore, one MAC address"
    );
    let apart = format!(
        "{ENGINE}lcore = 1\n{}lcore = 2\n{TWO}",
        ENGINE.replace("\"i\"", "\"j\"").replace("01:00", "01:01").replace("0.200", "0.201")
    );
    good(&apart);
    let one_ip = apart.replace("0.201", "0.200");
    assert!(shown(&bad(&one_ip)).contains("engines `i` and `j` have one IP address"));
    good(&one_ip.replacen(" }", ", vlan = 7 }", 1));
    let taken = format!("{TWO}{ENGINE}[[fdb.static]]\nmac = \"02:00:00:00:01:00\"\nport = \"p0\"\n");
    assert_eq!(bad(&taken)[0].rule, "fdb.duplicate");
}

#[test]
fn maps_replace_what_they_list_and_refuse_overlap() {
    let text = format!(
        "{TWO}maps = \"edge\"\n[qos]\ndscp_to_tc = {{ \"*\" = 1, \"0-7,12\" = 0 }}\n[map.edge]\ndscp_to_tc = {{ \"12\" = 5 }}\n"
    );
    let config = good(&text).config;
    let (p0, p1) = (&config.ports[0].maps, &config.ports[1].maps);
    assert_eq!((p0.dscp_to_tc[7], p0.dscp_to_tc[8], p0.dscp_to_tc[12]), (0, 1, 0));
    assert_eq!((p1.dscp_to_tc[12], p1.dscp_to_tc[13]), (5, 1));

    let text = format!(
        "{TWO}[qos]\ndscp_to_tc = {{ \"0-7\" = 1, \"3\" = 2 }}\npcp_to_tc = {{ \"8\" = 1, \"1\" = 9 }}\n"
    );
    let found = bad(&text);
    assert_eq!(pointed(&text, &found, "map.overlap"), "\"3\"");
    assert_eq!(found.len(), 3, "{}", shown(&found));
}

#[test]
fn fdb_entries_are_held_against_ports_and_formats() {
    let text = format!(
        "{TWO}format = \"afh_lite\"
[[fdb.static]]
mac = \"02:00:00:00:00:01\"
port = \"p0\"
[[fdb.static]]
key = 0x12
port = \"p1\"
[[fdb.group]]
mac = \"01:00:5e:00:00:01\"
ports = [\"p0\"]
vlan = 7
"
    );
    let config = good(&text).config;
    assert_eq!(config.fdb.statics[1], StaticEntry { key: 0x12, vlan: 0, format: 3, port: PortId(1) });
    assert_eq!(config.fdb.groups[0].ports, [PortId(0)]);
    assert!(!config.ports[1].learning);

    let wrong = text.replace("0x12", "0x1_0000").replace("[\"p0\"]", "[\"p0\", \"p1\", \"p0\"]");
    let found = bad(&wrong);
    assert_eq!(pointed(&wrong, &found, "fdb.address"), "0x1_0000");
    assert_eq!(pointed(&wrong, &found, "fdb.format"), "\"p1\"");
    assert_eq!(pointed(&wrong, &found, "fdb.group"), "\"p0\"");
    let twice = format!("{TWO}{0}{0}", "[[fdb.static]]\nmac = \"02:00:00:00:00:01\"\nport = \"p0\"\n");
    let found = bad(&twice);
    assert_eq!(found[0].rule, "fdb.duplicate");
    assert!(found[0].message.starts_with("02:00:00:00:00:01 in VLAN 0"), "{}", found[0].message);
    let lag = "[[lag]]\nname = \"po1\"\nmembers = [\"p0\", \"p1\"]\n[[fdb.static]]\nmac = \"02:00:00:00:00:01\"\nport = \"po1\"\n";
    let found = bad(&format!("{TWO}{lag}"));
    assert_eq!(found[0].rule, "port.unknown");
    assert!(found[0].to_string().contains("name a member of it: p0, p1"), "{}", found[0]);
    let group = "[[fdb.group]]\nmac = \"01:00:5e:00:00:01\"\nports = [\"po1\"]\n";
    let found = bad(&format!("{TWO}{lag}{group}").replace("port = \"po1\"", "port = \"p0\""));
    assert_eq!(
        found.iter().map(|found| found.rule).collect::<Vec<_>>(),
        ["port.unknown"],
        "{}",
        shown(&found)
    );
    let found = bad(&format!("{TWO}{group}").replace("\"po1\"", ""));
    assert_eq!((found.len(), found[0].rule), (1, "fdb.group"), "{}", shown(&found));
}

#[test]
fn a_format_of_your_own_is_checked() {
    let text = "
[format.wide]
inherit = \"afh_gen2_16b\"
dst = { off = 16, len = 32 }
src = { off = 64, len = 32 }
spare = [[8, 8], { off = 56, len = 8 }]
ecn = \"tc\"
[[port]]
name = \"p0\"
device = \"ring\"
format = \"wide\"
";
    let config = good(text).config;
    let wide = &config.formats[config.ports[0].format];
    assert_eq!((wide.key_dst, wide.key_src.len), (Field { off: 16, len: 32 }, 32));
    let wrong = text.replace("off = 16, len = 32", "off = 0, len = 40");
    let found = bad(&wrong);
    assert_eq!(
        found.iter().map(|d| d.rule).collect::<Vec<_>>(),
        ["format.key", "format.overlap", "format.overlap"]
    );
    assert_eq!(&wrong[found[2].span.start..found[2].span.end], "[[8, 8], { off = 56, len = 8 }]");
    let found = bad(&text.replace("off = 16, len = 32", "off = 16, len = 49"));
    assert_eq!(found[0].rule, "value");
    let found = bad(&text.replace("[8, 8]", "[8, 8, 8]"));
    assert_eq!(found[0].rule, "value");
}

#[test]
fn management_is_for_this_machine_unless_a_token_is_asked_for() {
    let mgmt = |text: &str| good(&format!("{TWO}[mgmt]\n{text}\n")).config.mgmt;
    let default = good(TWO).config.mgmt;
    assert_eq!(
        (default.listen.map(|a| a.to_string()), default.chosen),
        (Some("127.0.0.1:9470".into()), false)
    );
    assert_eq!((default.socket, default.token_file), (MgmtSocket::Default, None));
    assert_eq!(mgmt("listen = \"off\"\nsocket = \"off\"").listen, None);
    assert_eq!(mgmt("listen = \"localhost:0\"").listen.unwrap().to_string(), "127.0.0.1:0");
    assert_eq!(mgmt("listen = \"[::1]:80\"").listen.unwrap().to_string(), "[::1]:80");
    assert_eq!(mgmt("admin_token_file = \"/a\"").admin_token_file.as_deref(), Some("/a"));
    assert_eq!(mgmt("socket = \"/run/w.sock\"").socket, MgmtSocket::Path("/run/w.sock".into()));
    let open = mgmt("listen = \"0.0.0.0:80\"\ntoken_file = \"/etc/weir/token\"");
    assert!(open.chosen && open.token_file.is_some());
    let text = format!("{TWO}[mgmt]\nlisten = \"0.0.0.0:80\"\n");
    assert_eq!(pointed(&text, &bad(&text), "mgmt.exposed"), "\"0.0.0.0:80\"");
    assert_eq!(mgmt("operate_token_file = \"/o\"").operate_token_file.as_deref(), Some("/o"));
    assert_eq!(mgmt("hosts = [\"leaf1\", \"leaf1.example\"]").hosts, ["leaf1", "leaf1.example"]);
    for wrong in ["\"leaf1\"", "[\"leaf1:80\"]", "[\"\"]", "[1]"] {
        let text = format!("{TWO}[mgmt]\nhosts = {wrong}\n");
        assert_eq!(pointed(&text, &bad(&text), "value"), wrong);
    }
    let tls = mgmt("tls_cert = \"/c\"\ntls_key = \"/k\"").tls.unwrap();
    assert_eq!((tls.cert.as_str(), tls.key.as_str()), ("/c", "/k"));
    let half = format!("{TWO}[mgmt]\ntls_key = \"/k\"\n");
    assert_eq!(pointed(&half, &bad(&half), "mgmt.tls"), "\"/k\"");
    let warned = |more: &str| {
        let text = format!("{TWO}[mgmt]\nlisten = \"0.0.0.0:80\"\ntoken_file = \"/t\"\n{more}");
        good(&text).warnings.iter().any(|warning| warning.rule == "mgmt.clear")
    };
    assert!(warned("") && !warned("tls_cert = \"/c\"\ntls_key = \"/k\"\n"));
    for wrong in ["\"9470\"", "\"example.org:80\"", "\"127.0.0.1:70000\"", "9470"] {
        let text = format!("{TWO}[mgmt]\nlisten = {wrong}\n");
        assert_eq!(pointed(&text, &bad(&text), "value"), wrong);
    }
}
