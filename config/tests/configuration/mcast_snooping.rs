//! `[mcast_snooping]`: what is read, and what is refused.

use weir_config::{Config, Diagnostic, Severity, load, load_for};
use weir_dataplane::turn::Platform;

/// Two ports in these VLANs, and the table.
fn text(vlans: [&str; 2], keys: &str) -> String {
    let port = |(n, vlan): (usize, &str)| {
        let vlan = if vlan.is_empty() { String::new() } else { format!("vlan = {vlan}\n") };
        format!("[[port]]\nname = \"p{n}\"\ndevice = \"net_null{n}\"\n{vlan}")
    };
    let ports: String = vlans.into_iter().enumerate().map(port).collect();
    format!("{ports}[mcast_snooping]\n{keys}\n")
}

const VLANS: [&str; 2] = ["{ access = 10 }", "{ trunk = \"10,20-22\" }"];

fn read(text: &str) -> (Config, Vec<Diagnostic>) {
    let loaded = load("t.toml", text).unwrap_or_else(|found| panic!("{found:?}\n{text}"));
    (loaded.config, loaded.warnings)
}

#[test]
fn vlans_are_snooped_where_that_is_asked_for() {
    let snooped = |vlans: [&str; 2], keys: &str| {
        let (config, warnings) = read(&text(vlans, keys));
        assert!(warnings.is_empty(), "{warnings:?}");
        config.mcast.vlans
    };
    assert!(snooped(VLANS, "").is_empty(), "off unless it is asked for");
    assert_eq!(snooped(VLANS, "vlans = 20"), [20]);
    assert_eq!(snooped(VLANS, "vlans = [\"20-21\", 10]"), [10, 20, 21]);
    assert_eq!(snooped(VLANS, "vlans = \"*\""), [10, 20, 21, 22]);
    assert_eq!(snooped(["", ""], "vlans = \"*\""), [0], "frames without a tag");
    let (config, _) = read(&text(VLANS, "vlans = \"10,21\""));
    assert!(config.mcast.snoops(21) && !config.mcast.snoops(20));
}

#[test]
fn what_holds_and_how_long_is_as_hosts_expect_unless_it_is_said() {
    let (config, _) = read(&text(VLANS, ""));
    let mcast = &config.mcast;
    assert_eq!(
        (mcast.fast_leave, mcast.querier, mcast.querier_address.is_unspecified()),
        (false, false, true)
    );
    let seconds = |ns: u64| ns / 1_000_000_000;
    assert_eq!((seconds(mcast.query_interval), seconds(mcast.query_response_interval)), (125, 10));
    assert_eq!((mcast.max_groups, mcast.port_max_groups), (512, 128));
    let (config, _) = read(&text(VLANS, "query_interval = \"5s\""));
    assert_eq!(seconds(config.mcast.query_response_interval), 5, "never longer than the interval");
}

#[test]
fn the_default_address_of_queries_can_be_written() {
    let (config, warnings) = read(&text(VLANS, "vlans = 10\nquerier = true\nquerier_address = \"0.0.0.0\""));
    assert!(config.mcast.querier_address.is_unspecified() && warnings.is_empty(), "{warnings:?}");
}

#[test]
fn what_makes_no_sense_is_refused_or_told_of() {
    for (vlans, keys, reason) in [
        (VLANS, "vlans = 30", "no port is in VLAN 30"),
        (VLANS, "vlans = 0", "0 is no VLAN"),
        (["", ""], "vlans = 10", "no port is in VLAN 10"),
        (VLANS, "querier_address = \"::\"", "not the address of one host"),
        (VLANS, "querier_address = \"239.1.1.1\"", "not the address of one host"),
        (VLANS, "querier_address = \"fe80::1\"", "IGMP is sent from an IPv4 address"),
        (VLANS, "query_interval = \"0s\"", "outside"),
        (VLANS, "query_interval = \"5s\"\nquery_response_interval = \"6s\"", "longer than query_interval"),
        (VLANS, "max_groups = 0", "outside"),
    ] {
        let text = text(vlans, keys);
        let found = load("t.toml", &text).map(|_| ()).expect_err(keys);
        let errors: Vec<_> = found.iter().filter(|fault| fault.severity == Severity::Error).collect();
        assert_eq!(errors.len(), 1, "{found:#?}");
        assert!(errors[0].to_string().contains(reason), "{}", errors[0]);
        assert!(!errors[0].remedy.is_empty());
    }
    let (_, warnings) = read(&format!("{}[fdb]\ncapacity = 1000\n", text(VLANS, "vlans = \"*\"")));
    assert!(warnings[0].message.contains("4 VLANs may have 2048 groups"), "{warnings:?}");
    let loaded = load_for(Platform::Simulated, "t.toml", &text(VLANS, "vlans = 10")).unwrap();
    assert!(loaded.warnings[0].message.contains("nobody speaks IGMP"), "{:?}", loaded.warnings);
}
