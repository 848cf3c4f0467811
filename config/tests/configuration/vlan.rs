//! `vlan = { ... }` of ports: what is read, and what is refused.

use weir_config::{Config, Diagnostic, Severity, load, show_vids};

const THREE: &str = "[[port]]\nname = \"a\"\ndevice = \"net_null0\"\nvlan = A\n\
                     [[port]]\nname = \"b\"\ndevice = \"net_null1\"\nvlan = B\n\
                     [[port]]\nname = \"c\"\ndevice = \"net_null2\"\n";

fn text(a: &str, b: &str, c: &str) -> String {
    format!("{}{c}\n", THREE.replace("= A\n", &format!("= {a}\n")).replace("= B\n", &format!("= {b}\n")))
}

fn read(text: &str) -> (Config, Vec<Diagnostic>) {
    let loaded = load("t.toml", text).unwrap_or_else(|found| panic!("{found:?}\n{text}"));
    (loaded.config, loaded.warnings)
}

/// The only fault, with its line.
fn refused(text: &str) -> (String, usize) {
    let found = load("t.toml", text).map(|_| ()).expect_err(text);
    let errors: Vec<_> = found.iter().filter(|fault| fault.severity == Severity::Error).collect();
    assert_eq!(errors.len(), 1, "{found:#?}");
    assert!(!errors[0].remedy.is_empty());
    (errors[0].to_string(), errors[0].line)
}

#[test]
fn a_port_is_an_access_port_or_a_trunk() {
    let defaults = "[port_defaults]\nvlan = { trunk = [7, \"10,20-22\"], native = 1 }\n";
    let (config, warnings) = read(&format!("{}{defaults}", text("{ access = 10 }", "{ trunk = \"*\" }", "")));
    assert_eq!(warnings.len(), 0, "{warnings:?}");
    let vlans: Vec<_> = config.ports.iter().map(|port| port.vlans.clone().unwrap()).collect();
    let native: Vec<_> = vlans.iter().map(|vlans| vlans.native).collect();
    assert_eq!(native, [Some(10), None, Some(1)], "what a port says stands in for all of the defaults");
    let members: Vec<_> = vlans.iter().map(|vlans| show_vids(&vlans.members)).collect();
    assert_eq!(members, ["10", "1-4094", "1,7,10,20-22"]);
    assert!(
        read(&THREE.replace("vlan = A\n", "").replace("vlan = B\n", ""))
            .0
            .ports
            .iter()
            .all(|p| p.vlans.is_none())
    );
}

#[test]
fn what_is_no_membership_is_refused_with_its_line() {
    let c = "vlan = { access = 1 }";
    for (a, reason) in [
        ("{ access = 0 }", "outside 1 to 4094"),
        ("{ access = 4095 }", "outside 1 to 4094"),
        ("{ access = \"x\" }", "access"),
        ("{}", "access port of one VLAN"),
        ("{ native = 1 }", "access port of one VLAN"),
        ("{ access = 1, trunk = 2 }", "access port of one VLAN"),
        ("{ access = 1, native = 1 }", "access port of one VLAN"),
        ("{ trunk = \"1-4095\" }", "4095 is no VLAN"),
        ("{ trunk = \"0-5\" }", "0 is no VLAN"),
        ("{ trunk = \"9-5\" }", "runs backwards"),
        ("{ trunk = \"1,,2\" }", "not a list of numbers"),
        ("{ trunk = [1.5] }", "trunk"),
        ("{ trunk = 5, native = 4095 }", "outside 1 to 4094"),
        ("{ acces = 1 }", "acces"),
        ("10", "vlan"),
    ] {
        let written = text(a, "{ access = 1 }", c);
        let found = load("t.toml", &written).map(|_| ()).expect_err(a);
        assert!(found.iter().any(|fault| fault.to_string().contains(reason)), "{a}: {found:?}");
        assert!(found.iter().all(|fault| fault.line == 4), "{a}: {found:?}");
    }
}

#[test]
fn all_ports_know_of_vlans_or_none() {
    let (fault, line) = refused(&text("{ access = 1 }", "{ access = 1 }", ""));
    assert!(fault.contains("port `c` is in no VLAN, port `a` is"), "{fault}");
    assert_eq!(line, 9);
    // Formats without tags are apart.
    let lite = "format = \"afh_lite\"";
    assert_eq!(read(&text("{ access = 1 }", "{ access = 1 }", lite)).0.ports[2].vlans, None);
    let (fault, line) =
        refused(&text("{ access = 1 }", "{ access = 1 }", &format!("{lite}\nvlan = {{ access = 1 }}")));
    assert!(fault.contains("`afh_lite` have no VLAN tags"), "{fault}");
    assert_eq!(line, 13);
}

#[test]
fn fixed_entries_are_in_vlans_of_their_ports() {
    let ports = text("{ access = 10 }", "{ trunk = \"10,20\" }", "vlan = { trunk = 20, native = 30 }");
    let fixed = |port: &str, vlan: &str| {
        format!("{ports}[[fdb.static]]\nmac = \"02:00:00:00:00:01\"\nport = \"{port}\"\n{vlan}\n")
    };
    let group = |members: &str, vlan: &str| {
        format!("{ports}[[fdb.group]]\nmac = \"01:00:5e:00:00:01\"\nports = [{members}]\n{vlan}\n")
    };
    for (port, vlan, is) in [("a", "", 10), ("a", "vlan = 10", 10), ("b", "vlan = 20", 20), ("c", "", 30)] {
        assert_eq!(read(&fixed(port, vlan)).0.fdb.statics[0].vlan, is);
    }
    assert_eq!(read(&group("\"b\", \"c\"", "vlan = 20")).0.fdb.groups[0].vlan, 20);
    for (text, reason) in [
        (fixed("a", "vlan = 20"), "port `a` is not a member of VLAN 20"),
        (fixed("b", ""), "port `b` has no native VLAN"),
        (group("\"a\", \"c\"", ""), "not the same native VLAN"),
        (group("\"a\", \"b\"", "vlan = 20"), "port `a` is not a member"),
    ] {
        assert!(refused(&text).0.contains(reason), "{reason}");
    }
}

#[test]
fn a_lossless_frame_that_its_tag_makes_too_long_is_warned_of() {
    let with = |mtu: u32| {
        let ports = text("{ access = 10 }", "{ trunk = \"10,20\" }", "vlan = { access = 20 }");
        let ports = ports.replace("net_null1\"\n", &format!("net_null1\"\nmtu = {mtu}\n"));
        format!(
            "[qos]\npreset = \"roce-lossless\"\n[port_defaults]\nmtu = 2000\n[port_defaults.pfc]\nenable = [3]\n{ports}"
        )
    };
    let about = |mtu| {
        let warnings = read(&with(mtu)).1;
        warnings.iter().filter(|w| w.rule == "port.vlan").map(ToString::to_string).collect::<Vec<_>>()
    };
    assert_eq!(about(2004), [""; 0]);
    let warned = about(2003);
    assert_eq!(warned.len(), 1);
    assert!(
        warned[0].contains(
            "from port `a` (2004 bytes with the tag) to `b` (mtu 2003), from `c` (2004 bytes with the tag) to `b`"
        ),
        "every pair of ports: {warned:?}"
    );
}
