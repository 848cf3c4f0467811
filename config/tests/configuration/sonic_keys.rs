//! Rows whose keys and fields mean something else here than their look says: those of chassis and of switches with several
//! ASICs, of ports inside the chip, shapers of ports, profiles that are not enabled, times that are not given.

use super::sonic::{has, made, tomahawk};
use serde_json::{Map, Value};
use weir_config::sonic::{Import, Options, Outcome, export, import};
use weir_config::{Config, EcnMode, load};

fn tables() -> Map<String, Value> {
    serde_json::from_str(&tomahawk()).unwrap()
}

fn read(tables: &Map<String, Value>) -> (Import, Config) {
    made(&[("config_db.json", &serde_json::to_string(tables).unwrap())], &Options::default())
}

fn row<'a>(tables: &'a mut Map<String, Value>, table: &str, key: &str) -> &'a mut Map<String, Value> {
    let rows = tables.entry(table).or_insert_with(|| Map::new().into()).as_object_mut().unwrap();
    rows.entry(key).or_insert_with(|| Map::new().into()).as_object_mut().unwrap()
}

fn said(import: &Import, key: &str, field: &str) -> String {
    let named =
        |n: &&weir_config::sonic::Note| n.key == key && n.fields.split(", ").any(|name| name == field);
    import.notes.iter().find(named).unwrap_or_else(|| panic!("{key} {field}")).why.clone()
}

/// In SAI a profile does nothing to a colour that is not enabled, whatever `ecn` says.
#[test]
fn a_profile_that_is_not_enabled_marks_nothing() {
    for enabled in [None, Some("false")] {
        let mut tables = tables();
        let profile = row(&mut tables, "WRED_PROFILE", "AZURE_LOSSLESS");
        match enabled {
            None => drop(profile.remove("wred_green_enable")),
            Some(word) => drop(profile.insert("wred_green_enable".into(), word.into())),
        }
        assert_eq!(profile["ecn"], "ecn_all");
        let (import, config) = read(&tables);
        assert_eq!(config.ports[0].queues[3].wred.unwrap().ecn, EcnMode::None);
        assert!(has(&import, Outcome::Approximated, "WRED_PROFILE", "AZURE_LOSSLESS", "ecn"));
        let back: Value = serde_json::from_str(&export(&config).json).unwrap();
        let back = &back["WRED_PROFILE"]["AZURE_LOSSLESS"];
        assert_eq!((&back["ecn"], &back["wred_green_enable"]), (&"ecn_none".into(), &"false".into()));
    }
}

/// What marks here marks there, too.
#[test]
fn a_lossy_queue_that_marks_is_exported_as_one_that_marks() {
    let text = "[[wred]]\nname = \"w\"\nkmin = 1000\nkmax = 2000\n[[queue]]\nqueues = \"1\"\nwred = \"w\"\n\
                [[port]]\nname = \"p0\"\ndevice = \"ring\"\n";
    let config = load("t.toml", text).unwrap_or_else(|found| panic!("{found:?}")).config;
    let queue = |config: &Config| config.ports[0].queues[1].wred.map(|wred| (wred.ecn, wred.wred_drop));
    assert_eq!(queue(&config), Some((EcnMode::Ecn, false)));
    let exported = export(&config);
    let drops =
        exported.notes.iter().any(|n| n.outcome == Outcome::Approximated && n.table == "wred.wred_drop");
    assert!(drops, "there it may drop what it cannot mark");
    let (_, back) = made(&[("config_db.json", &exported.json)], &Options::default());
    assert_eq!(queue(&back), Some((EcnMode::Ecn, true)));
}

/// Gives the rows of queues these keys in front.
fn of_asic(tables: &mut Map<String, Value>, asic: &str) {
    for table in ["QUEUE", "BUFFER_QUEUE"] {
        let rows = tables[table].as_object_mut().unwrap();
        *rows = std::mem::take(rows).into_iter().map(|(key, row)| (format!("{asic}|{key}"), row)).collect();
    }
}

#[test]
fn queues_of_this_switch_and_asic_are_its_own() {
    let (_, plain) = read(&tables());
    let same = |config: &Config| {
        let pairs = config.ports.iter().zip(&plain.ports);
        config.ports.len() == plain.ports.len() && pairs.into_iter().all(|(a, b)| a.queues == b.queues)
    };
    let other = ("leaf1|Asic1|Ethernet0|3", "leaf2|Asic0|Ethernet0|3-4");
    for (host, asic) in
        [(None, None), (Some("leaf1"), None), (None, Some("asic0")), (Some("leaf1"), Some("asic0"))]
    {
        let mut tables = tables();
        of_asic(&mut tables, "leaf1|Asic0");
        let metadata = row(&mut tables, "DEVICE_METADATA", "localhost");
        metadata.clear();
        metadata.extend(host.map(|host| ("hostname".to_owned(), host.into())));
        metadata.extend(asic.map(|asic| ("asic_name".to_owned(), asic.into())));
        metadata.insert("type".into(), "SpineRouter".into());
        let (import, config) = read(&tables);
        assert!(same(&config), "{host:?} {asic:?}");
        assert!(has(&import, Outcome::Mapped, "QUEUE", "leaf1|Asic0|Ethernet0|3", "wred_profile"));
        assert!(has(&import, Outcome::Approximated, "QUEUE", "leaf1|Asic0|Ethernet0|3", ""));

        // Those of others are told as theirs; where nothing says who this is none is taken.
        row(&mut tables, "QUEUE", other.0).insert("scheduler".into(), "scheduler.0".into());
        row(&mut tables, "BUFFER_QUEUE", other.1).insert("profile".into(), "egress_lossy_profile".into());
        let (import, config) = read(&tables);
        let known = host.is_some() && asic.is_some();
        assert_eq!(same(&config), known, "{host:?} {asic:?}");
        let why =
            if known { "of another switch or ASIC: this one is leaf1|Asic0" } else { "do not say which" };
        for key in [other.0, other.1] {
            assert!(said(&import, key, "").contains(why), "{}", said(&import, key, ""));
        }
        let unknown = import.warnings.iter().filter(|d| d.rule == "sonic.asic").count();
        assert_eq!(unknown, usize::from(!known), "{:#?}", import.warnings);
    }
}

/// As of chips that buffer before the fabric: profiles of queues and of groups are of one pool.
#[test]
fn queues_may_have_profiles_of_a_pool_for_both_directions() {
    let mut tables = tables();
    row(&mut tables, "BUFFER_POOL", "ingress_lossless_pool").insert("type".into(), "both".into());
    for profile in ["egress_lossless_profile", "egress_lossy_profile"] {
        row(&mut tables, "BUFFER_PROFILE", profile).insert("pool".into(), "ingress_lossless_pool".into());
    }
    let (_, config) = read(&tables);
    let (queues, pgs) = (&config.ports[0].queues, &config.ports[0].pgs);
    assert_eq!([1, 3].map(|i| (queues[i].lossless, pgs[i].lossless)), [(false, false), (true, true)]);
}

#[test]
fn rows_of_a_port_that_was_left_out_say_so() {
    let mut tables = tables();
    row(&mut tables, "PORT", "Ethernet-IB0").insert("role".into(), "Inb".into());
    let profile = "ingress_lossy_profile";
    row(&mut tables, "BUFFER_PG", "Ethernet-IB0|0").insert("profile".into(), profile.into());
    row(&mut tables, "BUFFER_PG", "Ethernet-X|0").insert("profile".into(), profile.into());
    row(&mut tables, "CABLE_LENGTH", "AZURE").insert("Ethernet-IB0".into(), "0m".into());
    let (import, _) = read(&tables);
    assert!(said(&import, "Ethernet-IB0|0", "").contains("left out"));
    assert!(said(&import, "Ethernet-X|0", "").contains("no such port"));
    let cable = |n: &weir_config::sonic::Note| n.table == "CABLE_LENGTH" && n.fields == "Ethernet-IB0";
    assert!(import.notes.iter().any(|n| cable(n) && n.why.contains("left out")));
}

/// The text that is made is not printed where it is refused: no line of it is cited.
#[test]
fn one_device_for_all_ports_is_refused_without_a_line_nobody_sees() {
    let options = Options { device: "net_af_packet{n},iface=w0", ..Options::default() };
    let found = import(&[("config_db.json", &tomahawk())], &options).unwrap_err();
    assert!(found.iter().all(|d| d.message == "the interface `w0` is already used"), "{found:#?}");
}

#[test]
fn the_shaper_of_a_port_is_told_as_one() {
    let mut tables = tables();
    row(&mut tables, "SCHEDULER", "of_port").insert("pir".into(), "1250000000".into());
    row(&mut tables, "PORT_QOS_MAP", "Ethernet0").insert("scheduler".into(), "of_port".into());
    row(&mut tables, "PORT_QOS_MAP", "Ethernet0").insert("tc_to_dscp_map".into(), "AZURE".into());
    let (import, _) = read(&tables);
    assert!(said(&import, "Ethernet0", "scheduler").contains("shaper of a port"));
    assert!(said(&import, "Ethernet0", "tc_to_dscp_map").contains("no such map"));
}

/// `pfcwd start` writes twice the detection time where nobody gives another.
#[test]
fn times_a_watchdog_is_not_given_fit_its_interval() {
    let times = |detection: Option<&str>, interval: &str| {
        let mut tables = tables();
        tables.remove("PFC_WD");
        row(&mut tables, "PFC_WD", "GLOBAL").insert("POLL_INTERVAL".into(), interval.into());
        let watch = row(&mut tables, "PFC_WD", "Ethernet0");
        watch.insert("action".into(), "drop".into());
        watch.extend(detection.map(|time| ("detection_time".to_owned(), time.into())));
        let (import, config) = read(&tables);
        assert!(has(&import, Outcome::Approximated, "PFC_WD", "Ethernet0", "restoration_time"));
        let watchdog = config.watchdog.unwrap();
        (watchdog.detection / 1_000_000, watchdog.restoration / 1_000_000)
    };
    assert_eq!(times(Some("400"), "400"), (400, 800));
    assert_eq!(times(None, "400"), (400, 800));
    assert_eq!(times(None, "100"), (200, 400));
    // A time that is given is not replaced.
    let mut tables = tables();
    row(&mut tables, "PFC_WD", "GLOBAL").insert("POLL_INTERVAL".into(), "400".into());
    row(&mut tables, "PFC_WD", "Ethernet0").insert("detection_time".into(), "400".into());
    row(&mut tables, "PFC_WD", "Ethernet0").insert("restoration_time".into(), "200".into());
    let text = serde_json::to_string(&tables).unwrap();
    let found = import(&[("config_db.json", &text)], &Options::default()).unwrap_err();
    assert!(found.iter().any(|d| d.rule == "watchdog.order"), "{found:#?}");
}
