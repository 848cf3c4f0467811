//! `[lldp]` and `lldp` of ports: what is taken, and what is refused.

use weir_config::runtime::{Device, switch_params};
use weir_config::{Config, LldpMode, load};

const PORTS: &str = "[[port]]\nname = \"a\"\ndevice = \"ring\"\n[[port]]\nname = \"b\"\ndevice = \"ring\"\nlldp = \"receive\"\n\
    [[port]]\nname = \"c\"\ndevice = \"ring\"\nlldp = \"off\"\n";

fn config(text: &str) -> Config {
    load("t.toml", text).unwrap_or_else(|found| panic!("{found:?}\n{text}")).config
}

#[test]
fn lldp_is_spoken_as_configured() {
    let spoken = |lldp: &str| {
        let config = config(&format!("{PORTS}{lldp}"));
        let modes: Vec<_> = config.ports.iter().map(|port| config.lldp_of(port)).collect();
        let params = switch_params(&config, &[Device::default(); 3], 1).unwrap();
        (modes, params.ports.iter().map(|port| port.lldp).collect::<Vec<_>>())
    };
    assert_eq!(spoken(""), (vec![LldpMode::Off; 3], vec![false; 3]));
    let on = (vec![LldpMode::Both, LldpMode::Receive, LldpMode::Off], vec![true, true, false]);
    assert_eq!(spoken("[lldp]\nenable = true\n"), on);
    let usual = config(PORTS).lldp;
    assert_eq!((usual.interval, usual.hold, &usual.system_name[..]), (30_000_000_000, 4, "weir"));
    let named = config(&format!("[switch]\nname = \"leaf1\"\n{PORTS}"));
    assert_eq!(named.lldp.system_name, "leaf1");
    let own =
        config(&format!("{PORTS}[lldp]\ninterval = \"1s\"\nhold = 100\nsystem_name = \"Käse 7\"\n")).lldp;
    assert_eq!((own.interval, own.hold, &own.system_name[..]), (1_000_000_000, 100, "Käse 7"));
    let all = config(&format!("[port_defaults]\nlldp = \"receive\"\n{PORTS}"));
    assert_eq!(all.ports[0].lldp, LldpMode::Receive);
}

#[test]
fn what_lldp_cannot_be_is_refused_with_its_line() {
    let long = "x".repeat(256);
    for (lldp, rule) in [
        ("interval = \"999ms\"", "range"),
        ("interval = \"3601s\"", "range"),
        ("hold = 0", "range"),
        ("hold = 101", "range"),
        ("enable = 1", "value"),
        ("system_name = \"\"", "lldp.system_name"),
        ("system_name = \"a\\u001b[2J\"", "lldp.system_name"),
        (&format!("system_name = {long:?}"), "lldp.system_name"),
    ] {
        let found = load("t.toml", &format!("{PORTS}[lldp]\n{lldp}\n")).unwrap_err();
        let told: Vec<_> = found.iter().map(|d| (d.line, d.rule)).collect();
        assert_eq!(told, [(13, rule)], "{lldp}: {found:?}");
    }
    let engine = "[[port]]\nname = \"e\"\ndevice = \"inc\"\ninc = { mac = \"02:00:00:00:01:00\", ip = \"10.0.0.200\" }\n";
    assert_eq!(config(&format!("{PORTS}{engine}")).ports[3].lldp, LldpMode::Off);
    let found = load("t.toml", &format!("{PORTS}{engine}lldp = \"both\"\n")).unwrap_err();
    assert!(found.iter().any(|d| d.rule == "port.lldp" && d.message.contains("port.e.lldp")), "{found:?}");
    let odd = load("t.toml", &PORTS.replace("receive", "listen")).unwrap_err();
    assert!(odd[0].to_string().contains("`listen` is not known here"), "{odd:?}");
}
