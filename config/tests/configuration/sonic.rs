//! SONiC's tables: what they come to here, and back again.
//!
//! The numbers are those published in sonic-buildimage for three platforms (`buffers_defaults_t0.j2`,
//! `pg_profile_lookup.ini`, `qos_config.j2`, samples of `sonic-config-engine`) and, for the Xoff point of Tomahawk, in
//! the QoS parameters of sonic-mgmt.

use std::fmt::Write;
use weir_config::runtime::{Device, switch_params};
use weir_config::sonic::{Import, Options, Outcome, export, import, report};
use weir_config::{
    Config, EcnMode, LagLacp, MirrorDirection, PfcRx, SchedulerType, SharedLimit, Trust, WatchdogAction, load,
};
use weir_dataplane::frame::OwnedFrame;
use weir_dataplane::mmu::{Admission, AdmitVerdict, Mmu, PgIx, QueueIx};
use weir_dataplane::rng::Rng;
use weir_dataplane::storm_control::FloodLimit;
use weir_dataplane::switch::Switch;
use weir_dataplane::types::{Mac, PortId};

pub fn rows(table: &str, rows: &[(String, String)]) -> String {
    let rows: Vec<_> = rows.iter().map(|(key, fields)| format!("    \"{key}\": {{ {fields} }}")).collect();
    format!("  \"{table}\": {{\n{}\n  }}", rows.join(",\n"))
}

pub fn one(table: &str, key: &str, fields: &str) -> String {
    rows(table, &[(key.into(), fields.into())])
}

pub fn file(tables: &[String]) -> String {
    format!("{{\n{}\n}}\n", tables.join(",\n"))
}

/// `Ethernet0`, `Ethernet4` and so on.
fn names(ports: usize) -> Vec<String> {
    (0..ports).map(|i| format!("Ethernet{}", 4 * i)).collect()
}

pub fn each(ports: usize, suffix: &str, fields: &str) -> Vec<(String, String)> {
    names(ports).into_iter().map(|name| (name + suffix, fields.to_owned())).collect()
}

pub fn map(table: &str, inputs: usize, to: impl Fn(usize) -> usize) -> String {
    let entries: Vec<_> = (0..inputs).map(|i| format!("\"{i}\": \"{}\"", to(i))).collect();
    one(table, "AZURE", &entries.join(", "))
}

/// Ports at 100G, and the maps of `qos_config.j2`: DSCP 3 and 4 to classes 3 and 4, 5 to 2, 8 to 0, 46 to 5, 48 to 6,
/// the rest to 1.
pub fn fabric(ports: usize, cable: &str) -> Vec<String> {
    let port = "\"lanes\": \"1,2,3,4\", \"alias\": \"x\", \"speed\": \"100000\", \"mtu\": \"9100\", \"admin_status\": \"up\"";
    let cables: Vec<_> = names(ports).iter().map(|name| format!("\"{name}\": \"{cable}\"")).collect();
    let dscp = |dscp| match dscp {
        3 | 4 => dscp,
        5 => 2,
        8 => 0,
        46 => 5,
        48 => 6,
        _ => 1,
    };
    let qos = "\"dscp_to_tc_map\": \"AZURE\", \"tc_to_queue_map\": \"AZURE\", \"tc_to_pg_map\": \"AZURE\", \
               \"pfc_to_queue_map\": \"AZURE\", \"pfc_enable\": \"3,4\", \"pfcwd_sw_enable\": \"3,4\"";
    let wred: String = ["green", "yellow", "red"]
        .iter()
        .map(|c| {
            format!(
                "\"wred_{c}_enable\": \"true\", \"{c}_min_threshold\": \"1048576\", \"{c}_max_threshold\": \"2097152\", \
                 \"{c}_drop_probability\": \"5\", "
            )
        })
        .collect();
    let mut queues =
        each(ports, "|3", "\"scheduler\": \"scheduler.1\", \"wred_profile\": \"AZURE_LOSSLESS\"");
    queues.extend(each(ports, "|4", "\"scheduler\": \"scheduler.1\", \"wred_profile\": \"AZURE_LOSSLESS\""));
    queues.extend(each(ports, "|0-2", "\"scheduler\": \"scheduler.0\""));
    queues.extend(each(ports, "|5-6", "\"scheduler\": \"scheduler.0\""));
    let scheduler = |weight: u8| format!("\"type\": \"DWRR\", \"weight\": \"{weight}\"");
    vec![
        one("DEVICE_METADATA", "localhost", "\"hostname\": \"leaf1\", \"type\": \"ToRRouter\""),
        rows("PORT", &each(ports, "", port)),
        one("CABLE_LENGTH", "AZURE", &cables.join(", ")),
        map("DSCP_TO_TC_MAP", 64, dscp),
        map("TC_TO_QUEUE_MAP", 8, |i| i),
        map("TC_TO_PRIORITY_GROUP_MAP", 8, |i| if matches!(i, 3 | 4 | 7) { i } else { 0 }),
        map("MAP_PFC_PRIORITY_TO_QUEUE", 8, |i| i),
        rows("PORT_QOS_MAP", &each(ports, "", qos)),
        rows("SCHEDULER", &[("scheduler.0".into(), scheduler(14)), ("scheduler.1".into(), scheduler(15))]),
        one("WRED_PROFILE", "AZURE_LOSSLESS", &format!("{wred}\"ecn\": \"ecn_all\"")),
        rows("QUEUE", &queues),
    ]
}

/// Arista 7060CX-32S, Tomahawk: one ingress pool, shared headroom.
pub fn tomahawk() -> String {
    let pools = [
        (
            "ingress_lossless_pool",
            "\"size\": \"10875072\", \"type\": \"ingress\", \"mode\": \"dynamic\", \"xoff\": \"4194112\"",
        ),
        ("egress_lossy_pool", "\"size\": \"9243812\", \"type\": \"egress\", \"mode\": \"dynamic\""),
        ("egress_lossless_pool", "\"size\": \"15982720\", \"type\": \"egress\", \"mode\": \"static\""),
    ];
    let profiles = [
        (
            "ingress_lossy_profile",
            "\"pool\": \"ingress_lossless_pool\", \"size\": \"0\", \"dynamic_th\": \"3\"",
        ),
        (
            "egress_lossless_profile",
            "\"pool\": \"egress_lossless_pool\", \"size\": \"1518\", \"static_th\": \"15982720\"",
        ),
        (
            "egress_lossy_profile",
            "\"pool\": \"egress_lossy_pool\", \"size\": \"1518\", \"dynamic_th\": \"3\"",
        ),
    ];
    let own =
        |list: &[(&str, &str)]| list.iter().map(|(k, v)| ((*k).into(), (*v).into())).collect::<Vec<_>>();
    let mut queues = each(32, "|3-4", "\"profile\": \"egress_lossless_profile\"");
    queues.extend(each(32, "|0-2", "\"profile\": \"egress_lossy_profile\""));
    queues.extend(each(32, "|5-6", "\"profile\": \"egress_lossy_profile\""));
    let watch = "\"action\": \"drop\", \"detection_time\": \"200\", \"restoration_time\": \"200\"";
    let mut watchdog = vec![("GLOBAL".to_owned(), "\"POLL_INTERVAL\": \"200\"".to_owned())];
    watchdog.extend(each(32, "", watch));
    let mut tables = fabric(32, "300m");
    tables.extend([
        rows("BUFFER_POOL", &own(&pools)),
        rows("BUFFER_PROFILE", &own(&profiles)),
        rows("BUFFER_PG", &each(32, "|0", "\"profile\": \"ingress_lossy_profile\"")),
        rows("BUFFER_QUEUE", &queues),
        rows("PFC_WD", &watchdog),
        one("VLAN", "Vlan1000", "\"vlanid\": \"1000\""),
        one("FLEX_COUNTER_TABLE", "PORT", "\"FLEX_COUNTER_STATUS\": \"enable\""),
    ]);
    file(&tables)
}

/// What SONiC makes the lossless profiles of Tomahawk from.
pub const TOMAHAWK_LOOKUP: &str = "# speed cable size xon xoff threshold xon_offset\n\
    40000 300m 1248 2288 108160 0 2288\n 100000 5m 1248 2288 165568 0 2288\n 100000 300m 1248 2288 268736 0 2288\n";

/// Mellanox SN2700, Spectrum: two ingress pools, headroom of each group.
pub fn spectrum() -> String {
    let pool =
        |size: u64, way: &str| format!("\"size\": \"{size}\", \"type\": \"{way}\", \"mode\": \"dynamic\"");
    let pools = [
        ("ingress_lossless_pool", pool(5_029_836, "ingress")),
        ("ingress_lossy_pool", pool(5_029_836, "ingress")),
        ("egress_lossless_pool", pool(14_024_599, "egress")),
        ("egress_lossy_pool", pool(5_029_836, "egress")),
    ];
    let profile = |pool: &str, size: u64, th: i8| {
        format!("\"pool\": \"{pool}\", \"size\": \"{size}\", \"dynamic_th\": \"{th}\"")
    };
    let profiles = [
        ("ingress_lossy_profile", profile("ingress_lossy_pool", 0, 3)),
        ("q_lossy_profile", profile("egress_lossy_pool", 0, 3)),
        ("egress_lossless_profile", profile("egress_lossless_pool", 0, 7)),
        (
            "pg_lossless_100000_300m_profile",
            profile("ingress_lossless_pool", 123_904, 0) + ", \"xon\": \"19456\", \"xoff\": \"104448\"",
        ),
    ];
    let own =
        |list: &[(&str, String)]| list.iter().map(|(k, v)| ((*k).into(), v.clone())).collect::<Vec<_>>();
    let mut groups = each(32, "|3-4", "\"profile\": \"pg_lossless_100000_300m_profile\"");
    groups.extend(each(32, "|0", "\"profile\": \"ingress_lossy_profile\""));
    let mut queues = each(32, "|3-4", "\"profile\": \"egress_lossless_profile\"");
    queues.extend(each(32, "|0-2", "\"profile\": \"q_lossy_profile\""));
    queues.extend(each(32, "|8-15", "\"profile\": \"q_lossy_profile\""));
    let mut tables = fabric(32, "300m");
    tables.extend([
        rows("BUFFER_POOL", &own(&pools)),
        rows("BUFFER_PROFILE", &own(&profiles)),
        rows("BUFFER_PG", &groups),
        rows("BUFFER_QUEUE", &queues),
    ]);
    file(&tables)
}

/// Dell S6100, as SONiC wrote its files before 202012: references in brackets, rows for many ports.
pub fn s6100() -> (String, String) {
    let ports = names(8);
    let all = ports.join(",");
    let cables: Vec<_> = ports.iter().map(|name| format!("\"{name}\": \"5m\"")).collect();
    let pool = |size: u64, rest: &str| format!("\"size\": \"{size}\", {rest}");
    let buffers = file(&[
        one("CABLE_LENGTH", "AZURE", &cables.join(", ")),
        rows(
            "BUFFER_POOL",
            &[
                ("ingress_lossless_pool".into(), pool(11_213_696, "\"type\": \"ingress\", \"mode\": \"dynamic\", \"xoff\": \"3855488\"")),
                ("egress_lossy_pool".into(), pool(9_532_224, "\"type\": \"egress\", \"mode\": \"dynamic\"")),
                ("egress_lossless_pool".into(), pool(15_982_720, "\"type\": \"egress\", \"mode\": \"static\"")),
            ],
        ),
        rows(
            "BUFFER_PROFILE",
            &[
                ("ingress_lossy_profile".into(), "\"pool\": \"[BUFFER_POOL|ingress_lossless_pool]\", \"size\": \"0\", \"dynamic_th\": \"3\"".into()),
                ("egress_lossless_profile".into(), "\"pool\": \"[BUFFER_POOL|egress_lossless_pool]\", \"size\": \"1518\", \"static_th\": \"3995680\"".into()),
                ("egress_lossy_profile".into(), "\"pool\": \"[BUFFER_POOL|egress_lossy_pool]\", \"size\": \"1518\", \"dynamic_th\": \"3\"".into()),
            ],
        ),
        one("BUFFER_PG", &format!("{all}|0-1"), "\"profile\": \"[BUFFER_PROFILE|ingress_lossy_profile]\""),
        rows(
            "BUFFER_QUEUE",
            &[
                (format!("{all}|3-4"), "\"profile\": \"[BUFFER_PROFILE|egress_lossless_profile]\"".into()),
                (format!("{all}|0-1"), "\"profile\": \"[BUFFER_PROFILE|egress_lossy_profile]\"".into()),
            ],
        ),
    ]);
    let weight = |n: u8| format!("\"type\": \"DWRR\", \"weight\": \"{n}\"");
    let qos = file(&[
        rows("PORT", &each(8, "", "\"speed\": \"40000\"")),
        map("DSCP_TO_TC_MAP", 64, |dscp| match dscp {
            3 | 4 => dscp,
            8 => 1,
            _ => 0,
        }),
        one(
            "PORT_QOS_MAP",
            &all,
            "\"dscp_to_tc_map\": \"[DSCP_TO_TC_MAP|AZURE]\", \"pfc_enable\": \"3,4\"",
        ),
        rows("SCHEDULER", &[("scheduler.0".into(), weight(25)), ("scheduler.1".into(), weight(30)), ("scheduler.2".into(), weight(20))]),
        one(
            "WRED_PROFILE",
            "AZURE_LOSSLESS",
            "\"wred_green_enable\": \"true\", \"ecn\": \"ecn_all\", \"green_min_threshold\": \"104000\", \
             \"green_max_threshold\": \"312000\", \"red_min_threshold\": \"104000\", \"red_max_threshold\": \"312000\"",
        ),
        rows(
            "QUEUE",
            &[
                (format!("{all}|3-4"), "\"scheduler\": \"[SCHEDULER|scheduler.0]\", \"wred_profile\": \"[WRED_PROFILE|AZURE_LOSSLESS]\"".into()),
                (format!("{all}|0"), "\"scheduler\": \"[SCHEDULER|scheduler.1]\"".into()),
                (format!("{all}|1"), "\"scheduler\": \"[SCHEDULER|scheduler.2]\"".into()),
            ],
        ),
    ]);
    (buffers, qos)
}

pub fn made(sources: &[(&str, &str)], options: &Options<'_>) -> (Import, Config) {
    let show = |found: Vec<weir_config::Diagnostic>| {
        found.iter().fold(String::new(), |mut all, d| {
            let _ = writeln!(all, "{d}");
            all
        })
    };
    let import = import(sources, options).unwrap_or_else(|found| panic!("{}", show(found)));
    let config = load("made.toml", &import.toml).unwrap().config;
    (import, config)
}

pub fn has(import: &Import, outcome: Outcome, table: &str, key: &str, field: &str) -> bool {
    let named = |fields: &str| field.is_empty() || fields.split(", ").any(|name| name == field);
    import.notes.iter().any(|n| n.outcome == outcome && n.table == table && n.key == key && named(&n.fields))
}

#[test]
fn tomahawk_comes_out_with_its_published_numbers() {
    let (text, lookup) = (tomahawk(), TOMAHAWK_LOOKUP);
    let (import, config) =
        made(&[("config_db.json", &text), ("pg_profile_lookup.ini", lookup)], &Options::default());
    assert_eq!((config.name.as_str(), config.ports.len()), ("leaf1", 32));
    let b = &config.buffer;
    assert_eq!((b.shared, b.headroom, b.headroom_pooled, b.control_bytes), (10_875_072, 4_194_112, true, 0));
    assert_eq!(b.egress_lossy_pool, 9_243_812);
    let port = &config.ports[31];
    assert_eq!(
        (port.name.as_str(), port.rate.bps(), port.mtu, port.cable_mm),
        ("Ethernet124", Some(100_000_000_000), 9118, Some(300_000))
    );
    for pg in [3, 4] {
        let pg = &port.pgs[pg];
        assert_eq!(
            (pg.reserved, pg.xon, pg.xon_offset, pg.xoff, pg.lossless),
            (1248, 2288, 2288, 268_736, true)
        );
        assert_eq!(pg.shared, SharedLimit::Dynamic(0));
    }
    assert_eq!(
        (port.pgs[0].reserved, port.pgs[0].shared, port.pgs[0].lossless),
        (0, SharedLimit::Dynamic(3), false)
    );
    assert!(port.queues[3].lossless && port.queues[4].lossless && !port.queues[0].lossless);
    assert_eq!((port.pfc.enable, port.pfc.rx), (0b1_1000, PfcRx::Enabled));
    assert_eq!(
        (port.trust.as_slice(), port.maps.dscp_to_tc[48], port.maps.dscp_to_tc[26]),
        (&[Trust::Dscp][..], 6, 1)
    );
    assert_eq!(port.maps.tc_to_pg, [0, 0, 0, 3, 4, 0, 0, 7]);
    let wred = port.queues[3].wred.unwrap();
    assert_eq!(
        (wred.kmin, wred.kmax, wred.pmax, wred.ecn, wred.wred_drop),
        (1 << 20, 2 << 20, 50_000, EcnMode::Ecn, false)
    );
    let weights = [0, 3].map(|q| (port.queues[q].scheduler.kind, port.queues[q].scheduler.weight));
    assert_eq!(weights, [(SchedulerType::Dwrr, 14), (SchedulerType::Dwrr, 15)]);
    let watchdog = config.watchdog.unwrap();
    assert_eq!(
        (watchdog.action, watchdog.detection, watchdog.poll),
        (WatchdogAction::Drop, 200_000_000, 200_000_000)
    );

    // What is not the same here is said.
    for (outcome, table, key, field) in [
        (Outcome::Mapped, "VLAN", "Vlan1000", "vlanid"),
        (Outcome::Ignored, "FLEX_COUNTER_TABLE", "PORT", ""),
        (Outcome::Ignored, "PORT", "Ethernet0", "lanes"),
        (Outcome::Ignored, "DEVICE_METADATA", "localhost", "type"),
        (Outcome::Ignored, "BUFFER_PROFILE", "egress_lossless_profile", "static_th"),
        (Outcome::Approximated, "WRED_PROFILE", "AZURE_LOSSLESS", "wred_green_enable"),
        (Outcome::Approximated, "BUFFER_PG", "Ethernet0|3", ""),
        (Outcome::Mapped, "PORT", "Ethernet0", "speed"),
        (Outcome::Mapped, "DSCP_TO_TC_MAP", "AZURE", ""),
        (Outcome::Mapped, "PFC_WD", "GLOBAL", "POLL_INTERVAL"),
    ] {
        assert!(has(&import, outcome, table, key, field), "{outcome:?} {table}|{key} {field}");
    }
    let shown = report(&import.notes);
    assert!(shown.starts_with("ignored") && shown.trim_end().ends_with("ignored"), "{shown}");
}

/// sonic-mgmt has PFC begin at packet 6542 of one cell: 13 071 cells of 208 bytes to share in each of four slices, alpha
/// 1, 6 cells guaranteed.
#[test]
fn a_headroom_that_is_too_short_is_told_of_the_line_it_comes_from() {
    let (text, lookup) = (tomahawk(), TOMAHAWK_LOOKUP.replace("268736", "26873"));
    let (import, _) =
        made(&[("config_db.json", &text), ("pg_profile_lookup.ini", &lookup)], &Options::default());
    let short = import.warnings.iter().find(|d| d.rule == "headroom.short").unwrap();
    assert_eq!((short.file.as_str(), short.line), ("pg_profile_lookup.ini", 4), "{short}");
}

#[test]
fn a_group_of_tomahawk_pauses_where_sonic_mgmt_expects_it() {
    let text = tomahawk();
    let (_, mut config) = made(&[("config_db.json", &text), ("l.ini", TOMAHAWK_LOOKUP)], &Options::default());
    config.buffer.cell_bytes = 208;
    let devices = vec![Device { mac: Mac::from_u64(1), pfc: true, ..Device::default() }; 32];
    let mut params = switch_params(&config, &devices, 1).unwrap().mmu;
    // One slice of the chip.
    let (reserved, headroom) = (params.reserved(), params.headroom());
    params.total = config.buffer.shared / 4 + reserved + headroom;
    params.least_charge = 0;
    let mut mmu = Mmu::new(params).unwrap();
    let charge = mmu.charge(64);
    let admit = |mmu: &mut Mmu| mmu.admit(PgIx(3), QueueIx(8 + 3), charge);
    let first = (1..).find(|_| admit(&mut mmu) == AdmitVerdict::AdmittedXoff);
    assert_eq!(first, Some(6542));
}

#[test]
fn spectrum_has_a_headroom_for_each_group() {
    let text = spectrum();
    let (import, config) = made(&[("config_db.json", &text)], &Options::default());
    let b = &config.buffer;
    assert_eq!((b.shared, b.headroom_pooled, b.headroom), (2 * 5_029_836, false, 64 * 104_448));
    let pg = &config.ports[0].pgs[3];
    assert_eq!((pg.reserved, pg.xon, pg.xoff), (123_904 - 104_448, 19_456, 104_448));
    assert_eq!(b.size, b.shared + b.headroom + 64 * 19_456);
    assert!(has(&import, Outcome::Approximated, "BUFFER_POOL", "ingress_lossy_pool", "size"));
    assert!(has(&import, Outcome::Ignored, "BUFFER_QUEUE", "Ethernet0|8-15", ""));
    assert!(has(
        &import,
        Outcome::Approximated,
        "BUFFER_PROFILE",
        "pg_lossless_100000_300m_profile",
        "xon_offset"
    ));

    // With headrooms for this switch and not for that chip.
    let options =
        Options { auto_headroom: true, device: "net_af_packet{n},iface={port}", ..Options::default() };
    let (import, auto) = made(&[("config_db.json", &text)], &options);
    assert_eq!(auto.buffer.shared, b.shared);
    assert!(auto.ports[0].pgs[3].xoff > 104_448, "a polling loop is later than a chip");
    assert_eq!(auto.ports[1].device, "net_af_packet1,iface=Ethernet4");
    assert!(has(&import, Outcome::Approximated, "BUFFER_PROFILE", "pg_lossless_100000_300m_profile", "xoff"));
    // In a buffer of 64 MiB, whatever the pools say.
    let (_, sized) =
        made(&[("config_db.json", &text)], &Options { buffer: Some(64 << 20), ..Options::default() });
    assert_eq!(sized.buffer.size, 64 << 20);
}

#[test]
fn files_of_older_releases_are_read_together() {
    let (buffers, qos) = s6100();
    let (import, config) = made(&[("buffers.json", &buffers), ("qos.json", &qos)], &Options::default());
    assert_eq!((config.buffer.shared, config.buffer.headroom), (11_213_696, 3_855_488));
    let port = &config.ports[7];
    assert_eq!((port.rate.bps(), port.cable_mm), (Some(40_000_000_000), Some(5_000)));
    let wred = port.queues[4].wred.unwrap();
    assert_eq!((wred.kmin, wred.kmax, wred.pmax), (104_000, 312_000, 1_000_000));
    let weights = [0, 1, 3].map(|q| port.queues[q].scheduler.weight);
    assert_eq!(weights, [30, 20, 25]);
    // No file says what a lossless group gets.
    assert!(port.pgs[3].lossless && port.pgs[3].xoff > 0);
    assert!(has(&import, Outcome::Approximated, "BUFFER_PG", "Ethernet28|3", ""));
    assert!(
        has(&import, Outcome::Ignored, "WRED_PROFILE", "AZURE_LOSSLESS", "red_min_threshold")
            || has(&import, Outcome::Mapped, "WRED_PROFILE", "AZURE_LOSSLESS", "red_min_threshold")
    );
    let notes = import.notes.iter().filter(|n| n.table == "BUFFER_PG" && n.outcome == Outcome::Mapped);
    assert_eq!(notes.count(), 1, "one row, one line");
}

/// What contradicts itself in SONiC's terms, or is about things that are not there.
#[test]
fn what_does_not_hold_here_is_approximated_and_said() {
    let (buffers, qos) = s6100();
    let read =
        |buffers: &str, qos: &str| made(&[("buffers.json", buffers), ("qos.json", qos)], &Options::default());

    // A priority that pauses for a group that is bound to a lossy profile: its queues tell which of the two is meant.
    let pg = "|0-1\": { \"profile\": \"[BUFFER_PROFILE|ingress";
    assert!(buffers.contains(pg));
    let lossy = buffers.replace(pg, &pg.replace("0-1", "0-3"));
    let (import, config) = read(&lossy, &qos);
    assert!(config.ports[0].pfc.enable == 0b1_1000 && config.ports[0].pgs[3].lossless);
    assert!(has(&import, Outcome::Approximated, "BUFFER_PG", "Ethernet0|3", ""));
    let (import, config) = read(&lossy.replace("|3-4\"", "|4\""), &qos);
    assert!(config.ports[0].pfc.enable == 1 << 4 && !config.ports[0].pgs[3].lossless);
    assert!(has(&import, Outcome::Approximated, "BUFFER_PG", "Ethernet0|3", ""));

    // A lossless class whose queue has no lossless profile.
    let (import, config) = read(&buffers.replace("|3-4\"", "|3\""), &qos);
    assert!(config.ports[0].queues[4].lossless);
    assert!(has(&import, Outcome::Approximated, "BUFFER_QUEUE", "Ethernet0|4", ""));

    // A watchdog that nothing starts, and one of two minds.
    let enabled =
        qos.replace("\"pfc_enable\": \"3,4\"", "\"pfc_enable\": \"3,4\", \"pfcwd_sw_enable\": \"3\"");
    let (import, config) = read(&buffers, &enabled);
    assert!(config.watchdog.is_none());
    assert!(import.notes.iter().any(|n| n.outcome == Outcome::Ignored && n.fields == "pfcwd_sw_enable"));
    // What `pfcwd stop` leaves.
    let global = one("PFC_WD", "GLOBAL", "\"POLL_INTERVAL\": \"400\", \"BIG_RED_SWITCH\": \"enable\"");
    let (import, config) = read(&buffers, &enabled.replacen('{', &format!("{{\n{global},"), 1));
    assert!(config.watchdog.is_none());
    for field in ["POLL_INTERVAL", "BIG_RED_SWITCH"] {
        assert!(
            import.notes.iter().any(|n| n.outcome == Outcome::Ignored && n.fields.contains(field)),
            "{field}"
        );
    }
    assert!(import.notes.iter().any(|n| n.outcome == Outcome::Ignored && n.fields == "pfcwd_sw_enable"));
    let two = rows(
        "PFC_WD",
        &[
            (
                "Ethernet0".into(),
                "\"action\": \"drop\", \"detection_time\": \"400\", \"restoration_time\": \"400\"".into(),
            ),
            (
                "Ethernet4".into(),
                "\"action\": \"alert\", \"detection_time\": \"400\", \"restoration_time\": \"400\", \
                 \"pfc_stat_history\": \"disable\""
                    .into(),
            ),
        ],
    );
    let (import, config) = read(&buffers, &enabled.replacen('{', &format!("{{\n{two},"), 1));
    assert!(has(&import, Outcome::Approximated, "PFC_WD", "Ethernet4", "pfc_stat_history"));
    assert_eq!(config.watchdog.unwrap().action, WatchdogAction::Drop);
    assert!(has(&import, Outcome::Mapped, "PFC_WD", "Ethernet0", "action"));
    assert!(has(&import, Outcome::Approximated, "PFC_WD", "Ethernet4", "action"));
    assert!(has(&import, Outcome::Approximated, "PFC_WD", "Ethernet8", ""));

    // Ports inside the chip, ports that are not there, queues a port has not, rates no shaper keeps.
    let inside = qos.replacen("\"Ethernet0\": { ", "\"Ethernet0\": { \"role\": \"Rec\", ", 1);
    let (import, config) = read(&buffers, &inside);
    assert_eq!((config.ports.len(), config.ports[0].name.as_str()), (7, "Ethernet4"));
    assert!(has(&import, Outcome::Ignored, "PORT", "Ethernet0", ""));
    assert!(has(&import, Outcome::Ignored, "BUFFER_PG", "Ethernet0", ""));
    let slow = qos.replacen(
        "\"weight\": \"25\"",
        "\"weight\": \"25\", \"pir\": \"1\", \"meter_type\": \"bytes\"",
        1,
    );
    let (import, config) = read(&buffers, &slow);
    assert_eq!(config.ports[0].queues[3].scheduler.pir, None);
    assert!(has(&import, Outcome::Ignored, "SCHEDULER", "scheduler.0", "pir"));
    let shaped = slow.replace("\"pir\": \"1\"", "\"pir\": \"1250000000\"");
    assert_eq!(read(&buffers, &shaped).1.ports[0].queues[3].scheduler.pir, Some(10_000_000_000));
}

/// As maps of dual-ToR uplinks may: class 3 is lossless where it leaves and lossy where it comes in.
#[test]
fn a_class_that_is_lossless_on_half_its_way_is_refused() {
    let (buffers, qos) = s6100();
    let maps = format!(
        "{},\n{},",
        map("TC_TO_PRIORITY_GROUP_MAP", 8, |tc| if tc == 4 { 4 } else { 0 }),
        map("MAP_PFC_PRIORITY_TO_QUEUE", 8, |i| i)
    );
    let qos = qos.replacen('{', &format!("{{\n{maps}"), 1);
    let bound = "\"Ethernet4\": { \"tc_to_pg_map\": \"AZURE\", \"dscp_to_tc_map\": \"AZURE\", \"pfc_enable\": \"4\" },";
    let qos = qos.replacen("\"PORT_QOS_MAP\": {", &format!("\"PORT_QOS_MAP\": {{ {bound}"), 1).replacen(
        "Ethernet0,Ethernet4,",
        "Ethernet0,",
        1,
    );
    let sources = [("buffers.json", buffers.as_str()), ("qos.json", qos.as_str())];
    let found = import(&sources, &Options::default()).unwrap_err();
    let d = found.iter().find(|d| d.is_error()).unwrap();
    assert!(
        d.rule == "class.lossy" && d.message.contains("class 3") && d.message.contains("`Ethernet4`"),
        "{d}"
    );
}

/// Everything in a file is in the report: every row, and every field of it or all of them at once.
#[test]
fn nothing_is_left_out_of_the_report() {
    let (tomahawk, spectrum) = (tomahawk(), spectrum());
    let (buffers, qos) = s6100();
    for texts in [vec![&tomahawk], vec![&spectrum], vec![&buffers, &qos]] {
        let sources: Vec<_> = texts.iter().map(|text| ("config_db.json", text.as_str())).collect();
        let (import, _) = made(&sources, &Options::default());
        for text in texts {
            let tables: serde_json::Value = serde_json::from_str(text).unwrap();
            for (table, rows) in tables.as_object().unwrap() {
                for (key, fields) in rows.as_object().unwrap() {
                    let about: Vec<_> =
                        import.notes.iter().filter(|n| n.table == *table && n.key == *key).collect();
                    let whole = about.iter().any(|n| n.fields.is_empty());
                    for field in fields.as_object().unwrap().keys() {
                        let said = about.iter().any(|n| n.fields.split(", ").any(|name| name == field));
                        assert!(whole || said, "{table}|{key}|{field}");
                    }
                }
            }
        }
    }
}

pub fn params_of(config: &Config) -> String {
    let device = |i: usize| Device { mac: Mac::from_u64(i as u64), pfc: true, ..Device::default() };
    let devices: Vec<_> = (0..config.ports.len()).map(device).collect();
    let params = switch_params(config, &devices, 1).unwrap();
    Switch::<OwnedFrame>::new(params.clone()).unwrap();
    format!("{params:#?}")
}

/// The first line that two texts do not share.
fn differ(a: &str, b: &str) -> Option<String> {
    let line = a.lines().zip(b.lines()).enumerate().find(|(_, (a, b))| a != b);
    line.map(|(n, (a, b))| format!("line {n}: {a} | {b}"))
}

pub fn round_trip(config: &Config) -> String {
    let exported = export(config);
    let (import, back) = made(&[("config_db.json", &exported.json)], &Options::default());
    let (there, here) = (params_of(config), params_of(&back));
    assert_eq!(differ(&there, &here), None, "{}\n{}", exported.json, import.toml);
    assert_eq!(there, here);
    exported.json
}

#[test]
fn what_was_imported_is_exported_and_imported_again() {
    let (buffers, qos) = s6100();
    let (tomahawk, spectrum) = (tomahawk(), spectrum());
    for sources in [
        vec![("config_db.json", tomahawk.as_str()), ("pg_profile_lookup.ini", TOMAHAWK_LOOKUP)],
        vec![("config_db.json", &spectrum)],
        vec![("buffers.json", &buffers), ("qos.json", &qos)],
    ] {
        let (_, config) = made(&sources, &Options::default());
        let json = round_trip(&config);
        assert!(json.contains("\"hostname\"") && json.contains("egress_lossless_pool"), "{json}");
    }
}

/// A configuration of weir that SONiC's tables can say, at random.
fn random(rng: &mut Rng) -> String {
    let mut below = |n: u32| rng.next_u32() % n;
    let ports = 2 + below(5);
    let trust = ["\"dscp\"", "\"pcp\"", "\"dscp\", \"pcp\""][below(3) as usize];
    let mut text = format!("[switch]\nname = \"s{}\"\n[port_defaults]\ntrust = [{trust}]\n[qos]\n", below(9));
    text += &format!("tc_to_pg = {{ \"0-2,5-7\" = {}, \"3\" = 3, \"4\" = 4 }}\n", below(3));
    // A map nobody looks at is in no table.
    if trust.contains("dscp") {
        text += &format!("dscp_to_tc = {{ \"*\" = {}, \"{}\" = 3 }}\n", below(3), 20 + below(20));
    }
    text += &format!(
        "[buffer]\nsize = \"{}MiB\"\ncontrol_bytes = 0\n{}",
        32 + below(32),
        ["", "headroom_pool = \"2MiB\"\n", "over_subscribe_ratio = 2\n"][below(3) as usize]
    );
    text += &format!("egress_lossy_pool = \"{}MiB\"\n", 1 + below(8));
    text += &format!(
        "[[buffer.profile]]\nname = \"lossless\"\nlossless = true\nreserved = {}\n{}\nxoff = {}\nxon = {}\n{}",
        4096 + below(9000),
        [
            format!("dynamic_th = {}", below(10) as i32 - 3),
            format!("static_th = {}", 100_000 + below(900_000))
        ][below(2) as usize],
        10_000 + below(300_000),
        below(4000),
        ["", "xon_offset = 3000\n"][below(2) as usize]
    );
    text += &format!(
        "[[buffer.profile]]\nname = \"lossy\"\nreserved = {}\ndynamic_th = {}\n",
        below(5000),
        below(4)
    );
    text += "[[buffer.profile]]\nname = \"out\"\ndirection = \"egress\"\nlossless = true\n";
    text += &format!(
        "[[buffer.profile]]\nname = \"tail\"\ndirection = \"egress\"\nreserved = {}\ndynamic_th = {}\n",
        below(2000),
        below(4)
    );
    text += "[[buffer.pg]]\npgs = \"3-4\"\nprofile = \"lossless\"\n[[buffer.pg]]\npgs = \"0-1,7\"\nprofile = \"lossy\"\n";
    text += "[[buffer.queue]]\nqueues = \"3-4\"\nprofile = \"out\"\n[[buffer.queue]]\nqueues = \"0-2\"\nprofile = \"tail\"\n";
    text += &format!("[[scheduler]]\nname = \"a\"\nweight = {}\n", 1 + below(100));
    text += &format!(
        "[[scheduler]]\nname = \"b\"\ntype = \"STRICT\"\n{}",
        ["", "priority = 5\n"][below(2) as usize]
    );
    text += &format!(
        "[[scheduler]]\nname = \"c\"\ntype = \"WRR\"\nweight = 3\ncir = \"{}M\"\npir = \"{}M\"\n",
        1 + below(9),
        100 + below(900)
    );
    text += &format!(
        "[[wred]]\nname = \"x\"\nkmin = {}\nkmax = {}\npmax = \"{}%\"\n",
        below(50_000),
        50_000 + below(400_000),
        1 + below(100)
    );
    text += "[[wred]]\nname = \"y\"\nkmin = 5000\nkmax = 9000\nwred_drop = true\n";
    text +=
        "[[queue]]\nqueues = 3\nscheduler = \"a\"\nwred = \"x\"\n[[queue]]\nqueues = 6\nscheduler = \"b\"\n";
    text += "[[queue]]\nqueues = \"0,2\"\nscheduler = \"c\"\nwred = \"y\"\n";
    if below(2) == 0 {
        text += &format!(
            "[watchdog]\naction = \"forward\"\ndetection_time = \"{}ms\"\nbig_red_switch = true\n",
            200 + below(800)
        );
    }
    let vlans = below(2) == 0;
    for i in 0..ports {
        let rate = ["1G", "10G", "25G", "100G"][below(4) as usize];
        let rx = ["", ", rx = \"all\""][below(2) as usize];
        text += &format!(
            "[[port]]\nname = \"Ethernet{i}\"\ndevice = \"ring\"\nrate = \"{rate}\"\nmtu = {}\ncable = \"{}m\"\npfc = {{ enable = [3, 4]{rx} }}\n{}{}",
            1518 + below(8000),
            1 + below(300),
            [
                "",
                "storm_control = { broadcast = \"64Kbps\", multicast = \"3G\" }\n",
                "storm_control.unknown_unicast = 7000\n"
            ][below(3) as usize],
            match vlans {
                false => String::new(),
                true => {
                    let one = 1 + below(4000);
                    let vlan = [
                        format!("access = {one}"),
                        format!("trunk = \"{one}-{}\"", one + below(9)),
                        format!("trunk = \"7,{}\", native = {one}", one + 20),
                    ];
                    format!("vlan = {{ {} }}\n", vlan[below(3) as usize])
                }
            },
        );
    }
    text
}

#[test]
fn configurations_at_random_come_back_as_the_same_switch() {
    let mut rng = Rng::new(31);
    for _ in 0..60 {
        let text = random(&mut rng);
        let config = load("t.toml", &text).unwrap_or_else(|found| panic!("{text}\n{found:?}")).config;
        round_trip(&config);
    }
}

#[test]
fn storm_control_is_read_by_port_and_kind_and_what_it_cannot_be_is_told() {
    let with = |rows: &[(&str, &str)]| {
        let storm: Vec<_> =
            rows.iter().map(|(key, fields)| ((*key).to_owned(), (*fields).to_owned())).collect();
        let mut tables = fabric(2, "5m");
        tables.push(self::rows("PORT_STORM_CONTROL", &storm));
        file(&tables)
    };
    let options = Options { buffer: Some(32 << 20), ..Options::default() };
    let json = with(&[
        ("Ethernet0|broadcast", "\"kbps\": \"1500\""),
        ("Ethernet0|unknown-multicast", "\"kbps\": \"10000000\""),
        ("Ethernet4|unknown-unicast", "\"kbps\": \"0\""),
        ("Ethernet99|broadcast", "\"kbps\": \"7\""),
    ]);
    let (import, config) = made(&[("config_db.json", &json)], &options);
    let limits = config.ports[0].storm_control.unwrap().limits;
    assert_eq!(limits, [Some(FloodLimit::Bits(1_500_000)), None, Some(FloodLimit::Bits(10_000_000_000))]);
    assert_eq!(config.ports[1].storm_control, None);
    let shown = report(&import.notes);
    assert!(shown.contains("PORT_STORM_CONTROL|Ethernet4|unknown-unicast kbps: a limit of 0"), "{shown}");
    assert!(shown.contains("PORT_STORM_CONTROL|Ethernet99|broadcast: there is no such port"), "{shown}");
    let exported = round_trip(&config);
    assert!(
        exported.contains("\"Ethernet0|unknown-multicast\": {\n      \"kbps\": \"10000000\""),
        "{exported}"
    );
    for (key, fields, reason) in [
        ("Ethernet0|multicast", "\"kbps\": \"7\"", "unknown-unicast"),
        ("Ethernet0|broadcast", "\"kbps\": \"much\"", "from 0 to 10000000000"),
    ] {
        let json = with(&[(key, fields)]);
        let found = self::import(&[("config_db.json", &json)], &options).map(|_| ()).unwrap_err();
        assert!(found.iter().any(|fault| fault.remedy.contains(reason)), "{key}: {found:?}");
    }
    let odd = "[[port]]\nname = \"Ethernet0\"\ndevice = \"ring\"\n\
               storm_control = { broadcast = 1500, multicast = \"9pps\", burst = \"1ms\" }\n";
    let notes = report(&export(&load("t.toml", odd).unwrap().config).notes);
    for what in ["whole kbit/s: rounded up", "not frames per second", "SONiC has the chip choose it"] {
        assert!(notes.contains(what), "{what}: {notes}");
    }
}

#[test]
fn span_sessions_are_mirrors_and_others_are_told() {
    let session = |key: &str, fields: &str| (key.to_owned(), fields.to_owned());
    let rows = [
        session(
            "probe",
            "\"type\": \"SPAN\", \"src_port\": \"Ethernet0,Ethernet8,Ethernet99\", \"direction\": \"RX\", \"dst_port\": \"Ethernet4\", \"queue\": \"1\"",
        ),
        session("far", "\"dst_ip\": \"2.2.2.2\", \"gre_type\": \"0x88ee\""),
        session("acl", "\"type\": \"SPAN\", \"dst_port\": \"Ethernet4\""),
        session("gone", "\"type\": \"SPAN\", \"src_port\": \"Ethernet0\", \"dst_port\": \"Ethernet98\""),
    ];
    let mut tables = fabric(3, "5m");
    tables.push(self::rows("MIRROR_SESSION", &rows));
    let options = Options { buffer: Some(32 << 20), ..Options::default() };
    let (import, config) = made(&[("config_db.json", &file(&tables))], &options);
    let [mirror] = config.mirrors.as_slice() else { panic!("{:?}", config.mirrors) };
    assert_eq!((mirror.name.as_str(), mirror.port()), ("probe", Some((PortId(1), 1))));
    assert_eq!((mirror.ports.clone(), mirror.direction), (vec![PortId(0), PortId(2)], MirrorDirection::Rx));
    let shown = report(&import.notes);
    for told in [
        "MIRROR_SESSION|far: weir mirrors to its own ports",
        "MIRROR_SESSION|acl: it names no src_port",
        "MIRROR_SESSION|gone: its dst_port: there is no such port",
        "MIRROR_SESSION|probe src_port: there is no Ethernet99 in PORT or PORTCHANNEL",
    ] {
        assert!(shown.contains(told), "{told}: {shown}");
    }
    assert!(round_trip(&config).contains("\"Ethernet0,Ethernet8\""));
}

#[test]
fn port_channels_are_lags_with_lacp_unless_they_are_static() {
    let mut tables = fabric(4, "5m");
    let lag = |name: &str, keys: &str| (name.to_owned(), keys.to_owned());
    let lags = [
        lag("PortChannel1", "\"admin_status\": \"up\", \"static\": \"true\""),
        lag(
            "PortChannel2",
            "\"min_links\": \"4\", \"fast_rate\": \"true\", \"fallback\": \"true\", \"lacp_key\": \"auto\"",
        ),
        lag("PortChannel3", ""),
    ];
    tables.push(self::rows("PORTCHANNEL", &lags));
    let members = ["1|Ethernet0", "1|Ethernet4", "1|Ethernet99", "2|Ethernet4", "2|Ethernet8", "9|Ethernet8"];
    let members = members.map(|key| lag(&format!("PortChannel{key}"), ""));
    tables.push(self::rows("PORTCHANNEL_MEMBER", &members));
    let span = |name: &str, from: &str, to: &str| {
        let keys = format!("\"type\": \"SPAN\", \"src_port\": \"{from}\", \"dst_port\": \"{to}\"");
        (name.to_owned(), keys)
    };
    let spans = [
        span("of_lag", "PortChannel1,Ethernet8", "Ethernet12"),
        span("into_lag", "Ethernet8", "Ethernet0"),
        span("of_none", "PortChannel9", "Ethernet12"),
    ];
    tables.push(self::rows("MIRROR_SESSION", &spans));
    let options = Options { buffer: Some(32 << 20), ..Options::default() };
    let (import, config) = made(&[("config_db.json", &file(&tables))], &options);
    let [one, two] = config.lags.as_slice() else { panic!("{:?}", config.lags) };
    assert_eq!((one.name.as_str(), one.members.clone()), ("PortChannel1", vec![PortId(0), PortId(1)]));
    assert_eq!((two.name.as_str(), two.members.clone()), ("PortChannel2", vec![PortId(2)]));
    assert_eq!(one.lacp, None);
    let lacp = LagLacp { active: true, fast: true, min_links: 1, fallback: true, key: 2 };
    assert_eq!(two.lacp, Some(lacp));
    let [mirror] = config.mirrors.as_slice() else { panic!("{:?}", config.mirrors) };
    assert_eq!(
        (mirror.ports.clone(), mirror.port()),
        (vec![PortId(0), PortId(1), PortId(2)], Some((PortId(3), 0)))
    );
    let shown = report(&import.notes);
    for told in [
        "PORTCHANNEL_MEMBER|PortChannel1|Ethernet99: there is no such port in PORT",
        "PORTCHANNEL_MEMBER|PortChannel2|Ethernet4: the port is a member already",
        "PORTCHANNEL_MEMBER|PortChannel9|Ethernet8: there is no such PORTCHANNEL",
        "PORTCHANNEL|PortChannel2 min_links: lag.min_links: as many as it has members",
        "PORTCHANNEL|PortChannel3: it has no member",
        "MIRROR_SESSION|into_lag: its dst_port is a member of a PORTCHANNEL",
        "MIRROR_SESSION|of_none: there is no PortChannel9 in PORT or PORTCHANNEL",
    ] {
        assert!(shown.contains(told), "{told}: {shown}");
    }
    let exported = export(&config);
    let (_, back) = made(&[("config_db.json", &exported.json)], &options);
    assert_eq!(back.lags, config.lags);
}

/// The number that tells a LAG from others.
#[test]
fn a_key_of_lacp_is_a_number_or_auto() {
    let options = Options { buffer: Some(32 << 20), ..Options::default() };
    let with = |fields: &str| {
        let mut tables = fabric(4, "5m");
        tables.push(self::rows("PORTCHANNEL", &[("PortChannel7".to_owned(), fields.to_owned())]));
        tables
            .push(self::rows("PORTCHANNEL_MEMBER", &[("PortChannel7|Ethernet0".to_owned(), String::new())]));
        file(&tables)
    };
    for (key, is) in [("auto", 7), ("1", 1), ("65535", 65535)] {
        let json = with(&format!("\"lacp_key\": \"{key}\", \"min_links\": \"0\""));
        let (import, config) = made(&[("config_db.json", &json)], &options);
        let lacp = config.lags[0].lacp.unwrap();
        assert_eq!((lacp.key, lacp.min_links), (is, 1), "{key}");
        let shown = report(&import.notes);
        assert!(shown.contains("min_links: lag.min_links: 1, the least there is"), "{shown}");
    }
    for key in ["0", "65536", "abc"] {
        let json = with(&format!("\"lacp_key\": \"{key}\""));
        let found = self::import(&[("config_db.json", &json)], &options).map(|_| ()).unwrap_err();
        assert!(found.iter().any(|fault| fault.remedy.contains("from 1 to 65535")), "{key}: {found:?}");
    }
}

#[test]
fn what_sonic_cannot_say_is_in_the_report_of_an_export() {
    let text = "[qos]\npreset = \"roce-lossless\"\n[pfc]\npause_quanta = 30000\n[[fdb.static]]\nmac = \"02:00:00:00:00:01\"\nport = \"p0\"\n\
                [[port]]\nname = \"p0\"\ndevice = \"ring\"\ndefault_tc = 1\n[[port]]\nname = \"p1\"\ndevice = \"ring\"\nformat = \"afh_gen1\"\n";
    let config = load("t.toml", text).unwrap_or_else(|found| panic!("{found:?}")).config;
    let exported = export(&config);
    for (what, key) in [
        ("qos.control_tc", ""),
        ("buffer.control_bytes", ""),
        ("fdb.static", "0x20000000001"),
        ("port.default_tc", "p0"),
        ("port.format", "p1"),
        ("port.device", "p0"),
        ("pfc.pause_quanta", ""),
    ] {
        let said =
            exported.notes.iter().any(|n| n.outcome == Outcome::Ignored && n.table == what && n.key == key);
        assert!(said, "{what} {key}: {}", report(&exported.notes));
    }
    let (_, back) = made(&[("config_db.json", &exported.json)], &Options::default());
    assert_eq!((back.ports.len(), back.control_tc), (2, None));
    let (there, here) = (&config.ports[0].queues[3], &back.ports[0].queues[3]);
    assert_eq!((there.wred, there.scheduler), (here.wred, here.scheduler));
}
