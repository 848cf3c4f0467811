//! SONiC's VLANs, static stations, ports that are down, members of PortChannels, LLDP.

use weir_config::sonic::{Import, Options, export, import, report};
use weir_config::{AdminStatus, Config, load, show_vids};
use weir_dataplane::types::PortId;

const PORTS: &str = r#""PORT": {
    "Ethernet0": { "speed": "100000", "admin_status": "up" }, "Ethernet4": { "speed": "100000", "admin_status": "up" },
    "Ethernet8": { "speed": "100000" }, "Ethernet12": { "speed": "100000", "admin_status": "up" },
    "Ethernet16": { "speed": "100000", "admin_status": "up" }, "Ethernet20": { "speed": "100000", "admin_status": "up" } }"#;

fn made(tables: &str) -> (Import, Config) {
    let text = format!("{{ {PORTS}, {tables} }}");
    let options = Options { buffer: Some(32 << 20), ..Options::default() };
    let made = import(&[("config_db.json", &text)], &options).unwrap_or_else(|found| panic!("{found:?}"));
    let config = load("t.toml", &made.toml).unwrap_or_else(|found| panic!("{found:?}\n{}", made.toml)).config;
    (made, config)
}

/// The VLAN of frames without a tag, and all VLANs, of each port.
fn vlans(config: &Config) -> Vec<(&str, Option<u16>, String)> {
    let one = config.ports.iter().map(|port| {
        let vlans = port.vlans.as_ref().expect("a port in a VLAN");
        (port.name.as_str(), vlans.native, show_vids(&vlans.members))
    });
    one.collect()
}

fn told(import: &Import, lines: &[&str]) {
    let shown = report(&import.notes);
    for line in lines {
        assert!(shown.contains(line), "{line}: {shown}");
    }
}

#[test]
fn members_of_vlans_are_access_ports_and_trunks_and_come_back() {
    let (import, config) = made(
        r#""PORTCHANNEL": { "PortChannel1": { "static": "true" } },
        "PORTCHANNEL_MEMBER": { "PortChannel1|Ethernet12": {}, "PortChannel1|Ethernet16": {} },
        "VLAN": { "Vlan10": { "vlanid": "10", "members": ["Ethernet0"], "dhcp_servers": ["192.0.2.1"] }, "Vlan20": {}, "Vlan4094": {} },
        "VLAN_MEMBER": {
            "Vlan10|Ethernet0": { "tagging_mode": "untagged" }, "Vlan10|Ethernet4": { "tagging_mode": "untagged" },
            "Vlan20|Ethernet4": { "tagging_mode": "tagged" }, "Vlan20|Ethernet8": { "tagging_mode": "tagged" },
            "Vlan20|PortChannel1": { "tagging_mode": "priority_tagged" }, "Vlan20|Ethernet0": { "tagging_mode": "untagged" },
            "Vlan20|Ethernet12": { "tagging_mode": "tagged" }, "Vlan30|Ethernet0": {}, "Vlan10|Ethernet99": {},
            "Vlan10|PortChannel1": { "tagging_mode": "sometimes" } },
        "FDB": {
            "Vlan10|00:11:22:33:44:55": { "port": "Ethernet4", "type": "static" },
            "Vlan20:00-11-22-33-44-66": { "port": "PortChannel1", "type": "static" },
            "Vlan20|00:11:22:33:44:77": { "port": "Ethernet0" },
            "Vlan10|00:11:22:33:44:88": { "port": "Ethernet0", "type": "dynamic" },
            "Vlan10|00:11:22:33:44:99": { "port": "Ethernet99" } }"#,
    );
    let lag = |name| (name, Some(20), "20".to_owned());
    assert_eq!(
        vlans(&config),
        [
            ("Ethernet0", Some(10), "10".to_owned()),
            ("Ethernet4", Some(10), "10,20".to_owned()),
            ("Ethernet8", None, "20".to_owned()),
            lag("Ethernet12"),
            lag("Ethernet16"),
            // In none.
            ("Ethernet20", None, String::new()),
        ]
    );
    let stations: Vec<_> =
        config.fdb.statics.iter().map(|entry| (entry.key, entry.vlan, entry.port.0)).collect();
    assert_eq!(stations, [(0x0011_2233_4455, 10, 1), (0x0011_2233_4466, 20, 3)]);
    told(
        &import,
        &[
            "mapped        VLAN|Vlan10 vlanid: port.vlan",
            "mapped        VLAN|Vlan10 members: port.vlan, without tags where no row of VLAN_MEMBER says more",
            "VLAN|Vlan10 dhcp_servers: weir is a bridge",
            "mapped        VLAN_MEMBER|Vlan10|Ethernet0 Vlan10|Ethernet4 Vlan20|Ethernet4 Vlan20|Ethernet8 tagging_mode: port.vlan",
            "approximated  VLAN_MEMBER|Vlan20|PortChannel1",
            "approximated  VLAN_MEMBER|Ethernet20: it is in no VLAN, so routed there",
            "ignored       VLAN_MEMBER|Vlan20|Ethernet0 tagging_mode: its frames without a tag are in VLAN 10",
            "VLAN_MEMBER|Vlan20|Ethernet12 tagging_mode: the port is a member of a PORTCHANNEL",
            "VLAN_MEMBER|Vlan30|Ethernet0: there is no such VLAN",
            "VLAN_MEMBER|Vlan10|Ethernet99: there is no such port in PORT",
            "VLAN_MEMBER|Vlan10|PortChannel1 tagging_mode: sometimes is not a tagging mode",
            "mapped        FDB|Vlan10|00:11:22:33:44:55 Vlan20:00-11-22-33-44-66 port, type: fdb.static",
            "FDB|Vlan20|00:11:22:33:44:77: its port is not a member of that VLAN",
            "FDB|Vlan10|00:11:22:33:44:88: what was learned is learned again",
            "FDB|Vlan10|00:11:22:33:44:99: there is no such port in PORT",
        ],
    );
    let exported = export(&config);
    let (again, back) = {
        let options = Options { buffer: Some(32 << 20), ..Options::default() };
        let again = import_of(&exported.json, &options);
        let config = load("t.toml", &again.toml).unwrap().config;
        (again, config)
    };
    assert_eq!(vlans(&back), vlans(&config), "{}", again.toml);
    assert_eq!(back.fdb.statics, config.fdb.statics);
}

fn import_of(json: &str, options: &Options<'_>) -> Import {
    import(&[("config_db.json", json)], options).unwrap_or_else(|found| panic!("{found:?}"))
}

/// Older files: members in the row of the VLAN. Whoever is in none is alone, were it all of them.
#[test]
fn members_in_the_row_of_a_vlan_count_and_ports_of_none_stay_apart() {
    let (import, config) = made(
        r#""PORTCHANNEL": { "PortChannel1": { "admin_status": "down" } }, "PORTCHANNEL_MEMBER": { "PortChannel1|Ethernet20": {} },
        "VLAN": { "Vlan10": { "members": ["Ethernet0", "Ethernet4", "PortChannel1"] }, "Vlan20": { "members": ["Ethernet4", "Ethernet8"] } },
        "VLAN_MEMBER": { "Vlan20|Ethernet4": { "tagging_mode": "tagged" }, "Vlan20|PortChannel1": { "tagging_mode": "tagged" } }"#,
    );
    let one = |name, native: u16, all: &str| (name, Some(native), all.to_owned());
    assert_eq!(
        vlans(&config),
        [
            one("Ethernet0", 10, "10"),
            one("Ethernet4", 10, "10,20"),
            one("Ethernet8", 20, "20"),
            ("Ethernet12", None, String::new()),
            ("Ethernet16", None, String::new()),
            ("Ethernet20", Some(10), "10,20".to_owned()),
        ]
    );
    told(&import, &["Vlan20|PortChannel1 tagging_mode: port.vlan"]);
    let (_, alone) = made(r#""VLAN": { "Vlan10": {} }"#);
    assert!(vlans(&alone).iter().all(|(_, native, all)| native.is_none() && all.is_empty()));
    let exported = export(&alone);
    assert!(!exported.json.contains("VLAN_MEMBER"), "{}", exported.json);
    let options = Options { buffer: Some(32 << 20), ..Options::default() };
    let back = load("t.toml", &import_of(&exported.json, &options).toml).unwrap().config;
    assert_eq!(vlans(&back), vlans(&alone));
}

#[test]
fn a_trunk_of_all_vlans_is_exported_as_one_of_those_in_use() {
    let text = "[[port]]\nname = \"a\"\ndevice = \"ring\"\nvlan = { trunk = \"*\" }\n\
                [[port]]\nname = \"b\"\ndevice = \"ring\"\nvlan = { access = 10 }\n";
    let exported = export(&load("t.toml", text).unwrap().config);
    assert_eq!(exported.json.matches("\"tagging_mode\"").count(), 2, "{}", exported.json);
    assert!(report(&exported.notes).contains("of the VLANs that other ports are in"));
}

/// `admin_status` of a port, and of the PORTCHANNEL it is a member of, both ways.
#[test]
fn ports_that_are_down_are_switched_off() {
    let (import, config) = made(
        r#""CABLE_LENGTH": { "AZURE": { "Ethernet0": "5m", "Ethernet24": "5m" } },
        "PORTCHANNEL": { "PortChannel1": { "admin_status": "down" }, "PortChannel2": { "members": ["Ethernet0", "Ethernet4", "Ethernet24"] } },
        "PORTCHANNEL_MEMBER": { "PortChannel1|Ethernet12": {}, "PortChannel1|Ethernet24": {}, "PortChannel2|Ethernet4": {} }"#,
    );
    let down = |config: &Config| -> Vec<String> {
        let ports = (0..config.ports.len() as u16).map(PortId);
        let down = ports.filter(|port| config.admin_of(*port) == AdminStatus::Down);
        down.map(|port| config.ports[port.index()].name.clone()).collect()
    };
    assert_eq!((config.ports.len(), down(&config)), (6, vec!["Ethernet12".to_owned()]));
    let of_lags = config.lags.iter().map(|lag| {
        let members = lag.members.iter().map(|port| config.ports[port.index()].name.as_str());
        (lag.name.as_str(), members.collect::<Vec<_>>())
    });
    let lags = [("PortChannel1", vec!["Ethernet12"]), ("PortChannel2", vec!["Ethernet4", "Ethernet0"])];
    assert_eq!(of_lags.collect::<Vec<_>>(), lags);
    told(
        &import,
        &[
            "PORTCHANNEL|PortChannel1 admin_status: lag.admin",
            "PORTCHANNEL_MEMBER|PortChannel1|Ethernet24: there is no such port in PORT",
            "PORTCHANNEL|PortChannel2 members: lag.members without Ethernet24: there is no such port",
            "CABLE_LENGTH|AZURE Ethernet24: there is no such port",
        ],
    );
    let back = export(&config);
    let tables: serde_json::Value = serde_json::from_str(&back.json).unwrap();
    let status = |port: &str| tables["PORT"][port]["admin_status"].clone();
    assert_eq!([status("Ethernet0"), status("Ethernet12")], ["up", "up"]);
    assert_eq!(tables["PORTCHANNEL"]["PortChannel1"]["admin_status"], "down");
    let all = PORTS
        .replace("\"speed\": \"100000\"", "\"speed\": \"100000\", \"admin_status\": \"DOWN\"")
        .replace(", \"admin_status\": \"up\"", "");
    let import =
        import_of(&format!("{{ {all} }}"), &Options { buffer: Some(32 << 20), ..Options::default() });
    let config = load("t.toml", &import.toml).unwrap().config;
    assert_eq!(down(&config).len(), 6);
}

/// `LLDP` and `LLDP_PORT`, both ways.
#[test]
fn lldp_is_spoken_as_there() {
    let (import, config) = made(
        r#""LLDP": { "GLOBAL": { "hello_time": "10", "multiplier": "3", "system_name": "leaf7", "supp_mgmt_address_tlv": "true" } },
        "LLDP_PORT": { "Ethernet4": { "enabled": "false" }, "Ethernet8": { "mode": "RECEIVE" }, "Ethernet12": { "mode": "TRANSMIT" },
                       "Ethernet99": { "enabled": "true" } }"#,
    );
    let lldp = |config: &Config| {
        let modes: Vec<_> = config.ports.iter().map(|port| config.lldp_of(port).word()).collect();
        (modes, config.lldp.interval, config.lldp.hold, config.lldp.system_name.clone())
    };
    let modes = vec!["both", "off", "receive", "both", "both", "both"];
    assert_eq!(lldp(&config), (modes, 10_000_000_000, 3, "leaf7".to_owned()));
    told(
        &import,
        &[
            "approximated  LLDP_PORT|Ethernet12 mode: port.lldp: a port of weir that sends receives, too",
            "LLDP_PORT|Ethernet99: there is no such port in PORT",
            "supp_mgmt_address_tlv: set lldp.management_address",
        ],
    );
    let back = export(&config);
    let again = import_of(&back.json, &Options { buffer: Some(32 << 20), ..Options::default() });
    assert_eq!(lldp(&load("t.toml", &again.toml).unwrap().config), lldp(&config), "{}", back.json);
    let (_, quiet) = made(r#""LLDP": { "GLOBAL": { "enabled": "false" } }"#);
    assert!(!quiet.lldp.enable);
    let found =
        import_error(&format!("{{ {PORTS}, \"LLDP\": {{ \"GLOBAL\": {{ \"hello_time\": \"1\" }} }} }}"));
    assert!(found.contains("write a whole number from 5 to 254"), "{found}");
}

fn import_error(json: &str) -> String {
    let found = import(&[("config_db.json", json)], &Options::default()).map(|_| ()).expect_err("a refusal");
    found.iter().map(ToString::to_string).collect()
}

#[test]
fn keys_that_name_no_vlan_are_refused_at_their_place() {
    for (tables, said) in [
        (r#""VLAN": { "Vlan5000": {} }"#, "call it Vlan and a number"),
        (r#""VLAN": { "blue": {} }"#, "VLAN|blue"),
        (r#""VLAN": { "Vlan10": { "vlanid": "11" } }"#, "VLAN|Vlan10 has the vlanid of another"),
        (r#""FDB": { "Vlan10|ff:ff:ff:ff:ff:ff": { "port": "Ethernet0" } }"#, "of one station"),
        (
            r#""FDB": { "Vlan10|here": { "port": "Ethernet0" } }"#,
            "write a VLAN and the MAC address of one station",
        ),
    ] {
        let found = import_error(&format!("{{ {PORTS}, {tables} }}"));
        assert!(found.contains(said), "{said}: {found}");
    }
}
