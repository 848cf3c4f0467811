//! `[[lag]]`: what is read, and what is refused.

use weir_config::runtime::{Device, switch_params};
use weir_config::{AdminStatus, Config, LagHash, LagLacp, Severity, load, load_for};
use weir_dataplane::parse::HashFields;
use weir_dataplane::turn::Platform;
use weir_dataplane::types::PortId;

fn text(lags: &str) -> String {
    let ports: String =
        (0..4).map(|n| format!("[[port]]\nname = \"p{n}\"\ndevice = \"net_null{n}\"\n")).collect();
    format!("{ports}{lags}")
}

fn read(text: &str) -> Config {
    load("t.toml", text).unwrap_or_else(|found| panic!("{found:?}\n{text}")).config
}

#[test]
fn lags_have_names_members_and_a_hash() {
    let config = read(&text(
        "[[lag]]\nname = \"po1\"\nmembers = [\"p2\", \"p1\"]\n[[lag]]\nname = \"po2\"\nmembers = \"p3\"\nhash = \"l2\"\n\
         [[fdb.static]]\nmac = \"02:00:00:00:00:01\"\nport = \"p2\"\n",
    ));
    let [one, two] = config.lags.as_slice() else { panic!("{:?}", config.lags) };
    assert_eq!((one.name.as_str(), one.hash), ("po1", LagHash::L4));
    assert_eq!((one.members.clone(), two.members.clone()), ([2, 1].map(PortId).to_vec(), vec![PortId(3)]));
    let params = switch_params(&config, &[Device::default(); 4], 1).unwrap();
    assert_eq!(
        params.lags.iter().map(|lag| lag.fields).collect::<Vec<_>>(),
        [HashFields::L4, HashFields::L2]
    );
    assert!(params.lags[0].members.iter().eq([1, 2].map(PortId)));
    // A static station of a member is behind the LAG: the forwarding table knows it at the first port.
    assert_eq!(params.stations[0].1, PortId(1));
    assert_eq!([0, 1, 2, 3].map(|port| config.fdb_port(PortId(port)).0), [0, 1, 1, 3]);
    assert!(read(&text("")).lags.is_empty());
}

#[test]
fn a_lag_that_is_off_has_no_member_that_is_on() {
    let config = read(&text(
        "[[lag]]\nname = \"po1\"\nmembers = [\"p2\", \"p1\"]\nadmin = \"down\"\n[[lag]]\nname = \"po2\"\nmembers = \"p3\"\nadmin = \"up\"\n",
    ));
    let down = switch_params(&config, &[Device::default(); 4], 1)
        .unwrap()
        .ports
        .iter()
        .map(|port| port.admin_down)
        .collect::<Vec<_>>();
    assert_eq!(down, [false, true, true, false]);
    // What the members say themselves is not lost.
    assert!(config.ports.iter().all(|port| port.admin == AdminStatus::Up));
}

#[test]
fn what_makes_no_lag_is_refused_with_its_line() {
    let lag = |name: &str, keys: &str| format!("[[lag]]\nname = \"{name}\"\n{keys}\n");
    let two = "members = [\"p0\", \"p1\"]";
    let mirror = "[[mirror]]\nname = \"m\"\nports = \"p3\"\nto = \"p1\"\n";
    for (lags, reason) in [
        (lag("a", ""), "has no members"),
        (lag("a", "members = []"), "has no members"),
        (lag("a", "members = [\"p0\", \"p9\"]"), "there is no port `p9`"),
        (lag("a", "members = [\"p0\", \"p0\"]"), "`p0` is a member of LAG `a` already"),
        (lag("a", "members = [\"p0\", 3]"), "a port is chosen by name"),
        (lag("a", &format!("{two}\nhash = \"qpn\"")), "`qpn` is not known here"),
        (lag("a", two) + &lag("b", "members = [\"p1\", \"p2\"]"), "`p1` is a member of LAG `a` already"),
        (lag("a", two) + &lag("a", "members = \"p2\""), "already defined"),
        (lag("p3", two), "is called like a port"),
        (lag("a", two) + mirror, "is where mirror `m` sends to"),
    ] {
        let found = load("t.toml", &text(&lags)).map(|_| ()).expect_err(&lags);
        let errors: Vec<_> = found.iter().filter(|fault| fault.severity == Severity::Error).collect();
        assert_eq!(errors.len(), 1, "{lags}: {found:#?}");
        assert!(errors[0].to_string().contains(reason), "{lags}: {}", errors[0]);
        assert!(errors[0].line > 12 && !errors[0].remedy.is_empty(), "{lags}: {:?}", errors[0]);
    }
    for (key, word) in [
        ("rate = \"10G\"", "rate"),
        ("mtu = 1518", "mtu"),
        ("vlan = { access = 7 }", "vlan"),
        ("learning = false", "learning"),
        ("unknown_unicast = \"drop\"", "unknown_unicast"),
        ("storm_control = { broadcast = \"1kpps\" }", "storm_control"),
        ("format = \"afh_lite\"", "format"),
    ] {
        let text = text(&lag("a", two)).replace("net_null1\"\n", &format!("net_null1\"\n{key}\n"));
        let found = load("t.toml", &text).map(|_| ()).expect_err(key);
        let wanted = format!("`p0` and `p1` of LAG `a` differ in {word}");
        assert!(found.iter().any(|fault| fault.to_string().contains(&wanted)), "{key}: {found:#?}");
    }
}

#[test]
fn lacp_is_off_unless_it_is_asked_for() {
    let lag = |keys: &str| text(&format!("[[lag]]\nname = \"po12\"\nmembers = [\"p0\", \"p1\"]\n{keys}\n"));
    assert_eq!(read(&lag("")).lags[0].lacp, None);
    assert_eq!(read(&lag("lacp = \"off\"")).lags[0].lacp, None);
    let lacp = LagLacp { active: true, fast: false, min_links: 1, fallback: false, key: 12 };
    assert_eq!(read(&lag("lacp = \"active\"")).lags[0].lacp, Some(lacp));
    let all = "lacp = \"passive\"\nlacp_rate = \"fast\"\nmin_links = 2\nlacp_key = 7\n";
    let passive = LagLacp { active: false, fast: true, min_links: 2, fallback: false, key: 7 };
    let config = read(&lag(all));
    assert_eq!(config.lags[0].lacp, Some(passive));
    // The members, and no others; and what is for LACP goes no further by any port.
    let params = |config: &Config| switch_params(config, &[Device::default(); 4], 1).unwrap();
    let lacp = |config: &Config| params(config).ports.iter().map(|port| port.lacp).collect::<Vec<_>>();
    assert_eq!(lacp(&config), [true, true, false, false]);
    let passes = |text: &str| params(&read(text)).ports[3].link_local;
    assert_eq!(passes(&(lag(all) + "[fdb]\nlink_local = \"forward\"\n")), 0xfff9);
    assert_eq!(passes(&(lag("") + "[fdb]\nlink_local = \"forward\"\n")), 0xfffd);
    // In virtual time nobody speaks it, and links lead where they should.
    let loaded = load_for(Platform::Simulated, "t.toml", &lag(all)).unwrap();
    assert!(loaded.warnings.iter().any(|found| found.to_string().contains("in virtual time")));
    assert_eq!(lacp(&loaded.config), [false; 4]);
}

#[test]
fn lacp_that_means_nothing_is_refused_or_told_of() {
    let lag =
        |name: &str, keys: &str| format!("[[lag]]\nname = \"{name}\"\nmembers = [\"p0\", \"p1\"]\n{keys}\n");
    let active = "lacp = \"active\"\n";
    let forward = format!("{}[fdb]\nlink_local = [\"lacp\"]\n", lag("po1", active));
    for (lags, severity, reason) in [
        (lag("po1", "lacp_rate = \"fast\""), Severity::Error, "LAG `po1` speaks no LACP"),
        (lag("po1", "lacp = \"off\"\nmin_links = 2"), Severity::Error, "LAG `po1` speaks no LACP"),
        (lag("po1", "lacp = \"on\""), Severity::Error, "`on` is not known here"),
        (lag("po1", &format!("{active}min_links = 3")), Severity::Error, "fewer than min_links = 3"),
        (lag("po1", &format!("{active}min_links = 0")), Severity::Error, "outside 1 to 16"),
        (
            lag("po1", active) + &lag("px1", active).replace("p0\", \"p1", "p2\", \"p3"),
            Severity::Error,
            "LAG `px1` has the LACP key 1 of `po1`",
        ),
        (
            lag("po1", &format!("{active}min_links = 2\nfallback = true")),
            Severity::Warning,
            "never falls back",
        ),
        (forward, Severity::Warning, "LACP is not passed on, since LAG `po1` speaks it"),
    ] {
        let found = match load("t.toml", &text(&lags)) {
            Ok(loaded) => loaded.warnings,
            Err(found) => found,
        };
        let told: Vec<_> = found.iter().filter(|found| found.to_string().contains(reason)).collect();
        assert_eq!(told.len(), 1, "{lags}: {found:#?}");
        assert_eq!(told[0].severity, severity, "{lags}");
        assert!(told[0].line > 12 && !told[0].remedy.is_empty(), "{lags}: {:?}", told[0]);
    }
}
