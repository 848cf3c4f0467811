//! SONiC's tables of platforms with one egress pool, and of more and faster ports than one lcore can look at in time.

use super::sonic::{each, fabric, file, has, made, map, one, round_trip, rows, tomahawk};
use weir_config::sonic::{Options, Outcome, export, import};
use weir_config::{Config, SharedLimit};

/// Pools, profiles and queues of a Broadcom with one egress pool (sonic-buildimage, `buffer-ft2-p64.json`); `profiles` in
/// place of those of its queues, lossy and lossless.
fn one_pool(mode: &str, lossy: &str, lossless: &str) -> Vec<String> {
    let own =
        |list: &[(&str, String)]| list.iter().map(|(k, v)| ((*k).into(), v.clone())).collect::<Vec<_>>();
    let pools = [
        (
            "ingress_lossless_pool",
            "\"size\": \"164733224\", \"type\": \"ingress\", \"mode\": \"dynamic\", \"xoff\": \"17962880\""
                .into(),
        ),
        (
            "egress_lossless_pool",
            format!("\"size\": \"164733224\", \"type\": \"egress\", \"mode\": \"{mode}\""),
        ),
    ];
    let profiles = [
        ("egress_lossy_profile", format!("\"pool\": \"egress_lossless_pool\", \"size\": \"1778\", {lossy}")),
        (
            "egress_lossless_profile",
            format!("\"pool\": \"egress_lossless_pool\", \"size\": \"0\", {lossless}"),
        ),
        (
            "ingress_lossy_profile",
            "\"pool\": \"ingress_lossless_pool\", \"size\": \"0\", \"static_th\": \"82682080\"".into(),
        ),
    ];
    let mut queues = each(4, "|3-4", "\"profile\": \"egress_lossless_profile\"");
    queues.extend(each(4, "|0-2", "\"profile\": \"egress_lossy_profile\""));
    queues.extend(each(4, "|5-7", "\"profile\": \"egress_lossy_profile\""));
    vec![
        rows("BUFFER_POOL", &own(&pools)),
        rows("BUFFER_PROFILE", &own(&profiles)),
        rows("BUFFER_PG", &each(4, "|0", "\"profile\": \"ingress_lossy_profile\"")),
        rows("BUFFER_QUEUE", &queues),
    ]
}

fn lossless_queues(config: &Config) -> Vec<usize> {
    let of = |queues: &[weir_config::QueueConfig]| (0..8).filter(|i| queues[*i].lossless).collect::<Vec<_>>();
    let first = of(&config.ports[0].queues);
    assert!(config.ports.iter().all(|port| of(&port.queues) == first));
    first
}

/// Where lossy queues share the pool of the lossless ones a queue is what its profile says, whatever the pool is called.
#[test]
fn queues_of_one_egress_pool_are_what_their_profiles_say() {
    let (moving, fixed) = ("\"dynamic_th\": \"0\"", "\"static_th\": \"82682080\"");
    for mode in ["static", "dynamic"] {
        for maps in [true, false] {
            let port = "\"speed\": \"100000\", \"mtu\": \"9100\"";
            let mut tables = match maps {
                true => fabric(4, "5m"),
                false => vec![rows("PORT", &each(4, "", port))],
            };
            tables.extend(one_pool(mode, moving, fixed));
            let (import, config) = made(&[("config_db.json", &file(&tables))], &Options::default());
            assert_eq!(lossless_queues(&config), [3, 4], "{}", import.toml);
            let lossy = &config.ports[0].queues[0];
            assert_eq!((lossy.reserved, lossy.shared), (1778, SharedLimit::Dynamic(0)));
            assert_eq!(config.buffer.egress_lossy_pool, 164_733_224);
            assert!(has(&import, Outcome::Approximated, "BUFFER_PROFILE", "egress_lossy_profile", "pool"));
            round_trip(&config);
        }
    }
    // Both with a moving threshold: those that carry a lossless class are lossless.
    let mut tables = fabric(4, "5m");
    tables.extend(one_pool("dynamic", moving, "\"dynamic_th\": \"7\""));
    let (_, config) = made(&[("config_db.json", &file(&tables))], &Options::default());
    assert_eq!(lossless_queues(&config), [3, 4]);
    round_trip(&config);
}

/// A lossy profile in a static pool of lossless queues beside a pool of lossy ones: older releases have that, too.
#[test]
fn a_moving_threshold_in_a_static_pool_is_that_of_lossy_queues() {
    let from = "\"pool\": \"egress_lossy_pool\", \"size\": \"1518\", \"dynamic_th\": \"3\"";
    let text = tomahawk().replace(from, &from.replace("lossy_pool", "lossless_pool"));
    let (_, config) = made(&[("config_db.json", &text)], &Options::default());
    assert_eq!(lossless_queues(&config), [3, 4]);
}

/// A switch of SONiC with PFC on 3 and 4.
fn large(ports: usize, speed: u32) -> String {
    let mut tables = fabric(ports, "5m");
    tables[1] = tables[1].replace("\"speed\": \"100000\"", &format!("\"speed\": \"{speed}\""));
    let pools = [
        (
            "ingress_lossless_pool",
            "\"size\": \"135000000\", \"type\": \"ingress\", \"mode\": \"dynamic\", \"xoff\": \"30000000\"",
        ),
        ("egress_lossless_pool", "\"size\": \"165000000\", \"type\": \"egress\", \"mode\": \"static\""),
        ("egress_lossy_pool", "\"size\": \"135000000\", \"type\": \"egress\", \"mode\": \"dynamic\""),
    ];
    let pools: Vec<(String, String)> = pools.map(|(k, v)| (k.to_owned(), v.to_owned())).to_vec();
    let lossless = "\"pool\": \"egress_lossless_pool\", \"size\": \"0\", \"static_th\": \"165000000\"";
    tables.extend([
        rows("BUFFER_POOL", &pools),
        one("BUFFER_PROFILE", "egress_lossless_profile", lossless),
        rows("BUFFER_QUEUE", &each(ports, "|3-4", "\"profile\": \"egress_lossless_profile\"")),
    ]);
    file(&tables)
}

#[test]
fn more_ports_than_one_lcore_looks_at_in_time_get_as_few_lcores_as_do() {
    for (ports, speed) in [(32, 400_000), (32, 800_000), (64, 400_000), (128, 100_000)] {
        for auto_headroom in [false, true] {
            let options = Options { auto_headroom, ..Options::default() };
            let (import, config) = made(&[("config_db.json", &large(ports, speed))], &options);
            let lcores: Vec<u16> = config.ports.iter().filter_map(|port| port.lcore).collect();
            let most = *lcores.iter().max().unwrap();
            assert!(lcores.len() == ports && most > 1, "{ports} x {speed}: {lcores:?}");
            let told = import.notes.iter().find(|note| note.why.starts_with("port.lcore")).unwrap();
            assert_eq!(told.outcome, Outcome::Approximated);
            assert!(told.why.contains(&format!("{most} lcores")), "{}", told.why);
            // What it makes is exported and imported again unchanged.
            let json = export(&config).json;
            let (_, again) = made(&[("config_db.json", &json)], &Options::default());
            assert_eq!(export(&again).json, json);
        }
    }
    let (import, config) = made(&[("config_db.json", &large(16, 100_000))], &Options::default());
    assert!(config.ports.iter().all(|port| port.lcore.is_none()) && !import.toml.contains("[eal]"));
}

/// What is wrong with any number of lcores keeps nobody from finding out how many are needed.
#[test]
fn another_fault_is_told_without_one_of_lcores() {
    let small = large(32, 400_000).replacen("\"xoff\": \"30000000\"", "\"xoff\": \"1\"", 1);
    let found = import(&[("config_db.json", &small)], &Options::default()).map(|made| made.toml).unwrap_err();
    let rules: Vec<_> = found.iter().filter(|d| d.is_error()).map(|d| d.rule).collect();
    assert_eq!(rules, ["headroom.pool"], "{found:#?}");
}

/// So is what may be wrong: nobody has the text that was made, unless it was asked for.
#[test]
fn a_warning_is_told_of_the_row_it_is_about() {
    let small = include_str!("../../../configs/sonic/config_db.json").replacen(
        "\"xoff\": \"294912\"",
        "\"xoff\": \"1000\"",
        1,
    );
    let (import, _) = made(&[("config_db.json", &small)], &Options::default());
    let warning =
        import.warnings.iter().find(|d| d.rule == "headroom.short").expect("1000 bytes are too few");
    assert!(warning.file == "config_db.json" && warning.remedy.contains("BUFFER_PROFILE"), "{warning}");
    assert!(small[warning.span.start..].starts_with("\"1000\""), "{warning}");
    assert!(
        import.warnings.iter().all(|d| d.file == "config_db.json" && !d.is_error()),
        "{:#?}",
        import.warnings
    );
}

/// What weir refuses of a configuration made from tables is told of the row it was made from.
#[test]
fn what_cannot_be_here_is_refused_where_it_stands_in_the_tables() {
    let good = tomahawk();
    let lossy = map("TC_TO_PRIORITY_GROUP_MAP", 8, |i| if i == 3 { 3 } else { 0 });
    let both = map("TC_TO_PRIORITY_GROUP_MAP", 8, |i| if matches!(i, 3 | 4 | 7) { i } else { 0 });
    for (from, to, place, message, remedy) in [
        ("\"300m\"", "\"40\"", "\"40\"", "CABLE_LENGTH|AZURE|Ethernet0 = `40`", "such as \"40m\""),
        ("\"300m\"", "40", "40", "CABLE_LENGTH|AZURE|Ethernet0 = `40`", "such as \"40m\""),
        (
            "\"speed\": \"100000\"",
            "\"speed\": \"3\"",
            "\"200\"",
            "detection_time",
            "`speed` of the slowest port in PORT",
        ),
        (
            "\"speed\": \"100000\"",
            "\"speed\": \"10000000\"",
            "\"10000000\"",
            "refresh",
            "lower `speed` in PORT",
        ),
        (
            "\"admin_status\": \"up\"",
            "\"admin_status\": \"maybe\"",
            "\"maybe\"",
            "admin_status = `maybe`",
            "\"down\", \"up\"",
        ),
        ("\"POLL_INTERVAL\": \"200\"", "\"POLL_INTERVAL\": \"1000\"", "\"200\"", "poll_interval", "PFC_WD"),
        (both.as_str(), lossy.as_str(), "\"", "class 4", "TC_TO_PRIORITY_GROUP_MAP"),
        ("\"xoff\": \"4194112\"", "\"xoff\": \"1\"", "\"1\"", "headroom", "`xoff` of the ingress pool"),
    ] {
        assert!(good.contains(from), "{from}");
        let text = good.replacen(from, to, 1);
        let sources = [("config_db.json", text.as_str())];
        let found = import(&sources, &Options::default()).map(|made| made.toml).unwrap_err();
        assert!(found.iter().all(|d| d.file == "config_db.json"), "{found:#?}");
        let d = found.iter().find(|d| d.message.contains(message) && d.remedy.contains(remedy));
        let d = d.unwrap_or_else(|| panic!("{to}: {found:#?}"));
        assert!(text[d.span.start..].starts_with(place), "{d}");
    }
}
