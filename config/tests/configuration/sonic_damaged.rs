//! SONiC's tables, damaged: refused at their place with a remedy, or a switch.

use super::sonic::{TOMAHAWK_LOOKUP, params_of, s6100, tomahawk};
use std::panic::catch_unwind;
use weir_config::load;
use weir_config::sonic::{Options, import};
use weir_dataplane::rng::Rng;

#[test]
fn bad_files_are_refused_at_their_place() {
    let good = tomahawk();
    for (from, to, rule, message, place) in [
        (
            "\"10875072\"",
            "\"lots\"",
            "sonic.value",
            "BUFFER_POOL|ingress_lossless_pool|size = `lots`",
            "\"lots\"",
        ),
        ("\"dynamic_th\": \"3\"", "\"dynamic_th\": \"9\"", "sonic.value", "dynamic_th = `9`", "\"9\""),
        ("\"speed\": \"100000\"", "\"speed\": \"0\"", "sonic.value", "PORT|Ethernet0|speed", "\"0\""),
        ("\"type\": \"DWRR\"", "\"type\": \"FIFO\"", "sonic.value", "SCHEDULER|scheduler.0|type", "\"FIFO\""),
        (
            "\"pool\": \"egress_lossy_pool\"",
            "\"pool\": \"x\"",
            "sonic.pool",
            "names no pool that is there",
            "\"x\"",
        ),
        (
            "\"pfc_enable\": \"3,4\"",
            "\"pfc_enable\": \"3,9\"",
            "sonic.value",
            "pfc_enable = `3,9`",
            "\"3,9\"",
        ),
        (
            "\"tc_to_pg_map\": \"AZURE\"",
            "\"tc_to_pg_map\": \"NONE\"",
            "sonic.map",
            "there is no TC_TO_PRIORITY_GROUP_MAP|NONE",
            "\"NONE\"",
        ),
        ("\"300m\"", "\"far\"", "sonic.value", "CABLE_LENGTH|AZURE|Ethernet0 = `far`", "\"far\""),
        (
            "\"detection_time\": \"200\"",
            "\"detection_time\": \"99\"",
            "sonic.value",
            "detection_time = `99`",
            "\"99\"",
        ),
        ("\"size\": \"10875072\", ", "", "sonic.pool", "ingress_lossless_pool has no size", "{"),
        ("\"PORT\": {", "\"PORTS\": {", "sonic.ports", "no port in table PORT", ""),
        ("\"PORT\": {", "\"asic0\": {\"PORT\": {}}, \"PORT\": {", "sonic.asics", "asic0 is a database", "{"),
        ("\"ecn\": \"ecn_all\"", "\"ecn\": {}", "sonic.type", "neither a text", "{}"),
        (
            "\"scheduler\": \"scheduler.1\"",
            "\"scheduler\": \"s\"",
            "sonic.profile",
            "there is no SCHEDULER|s",
            "\"s\"",
        ),
        (
            "\"pool\": \"egress_lossy_pool\"",
            "\"pool\": \"[BUFFER_PROFILE|egress_lossy_pool]\"",
            "sonic.reference",
            "pool = `[BUFFER_PROFILE|egress_lossy_pool]`: it names rows of BUFFER_POOL",
            "\"[BUFFER_PROFILE",
        ),
        (
            "\"tc_to_pg_map\": \"AZURE\"",
            "\"tc_to_pg_map\": \"[TC_TO_QUEUE_MAP|AZURE]\"",
            "sonic.reference",
            "not of TC_TO_QUEUE_MAP",
            "\"[TC_TO_QUEUE_MAP",
        ),
        ("\"alias\": \"x\"", "\"speed\": \"1\"", "sonic.twice", "says speed twice", ""),
    ] {
        assert!(good.contains(from), "{from}");
        let text = good.replacen(from, to, 1);
        let found = import(&[("config_db.json", &text)], &Options::default()).unwrap_err();
        let d = found.iter().find(|d| d.rule == rule && d.message.contains(message));
        let d = d.unwrap_or_else(|| panic!("{to}: {found:#?}"));
        assert!(text[d.span.start..].starts_with(place) && !d.remedy.is_empty(), "{d}");
        assert_eq!(d.file, "config_db.json");
    }
    for text in [
        "",
        "[]",
        "{",
        "{\"PORT\": 1}",
        "{\"PORT\": {\"a\": []}}",
        "[{\"PORT\": {}}]",
        "\u{feff}{}",
        "nonsense",
    ] {
        let found = import(&[("config_db.json", text)], &Options::default()).unwrap_err();
        assert!(found.iter().all(|d| !d.rule.is_empty() && !d.remedy.is_empty()), "{text}: {found:?}");
    }
    let found = import(&[("config_db.json", &good), ("l.ini", "100000 300m 1 2\n")], &Options::default())
        .unwrap_err();
    assert!(found.iter().any(|d| d.rule == "sonic.lookup" && d.line == 1), "{found:?}");
    assert!(import(&[], &Options::default()).is_err());
}

/// One change: a byte, a line, a value.
fn mutate(text: &str, rng: &mut Rng) -> String {
    const VALUES: [&str; 12] = [
        "\"\"",
        "\"-1\"",
        "\"18446744073709551616\"",
        "\"99999999999\"",
        "1",
        "null",
        "[]",
        "{}",
        "\"[A|b]\"",
        "\"3-4\"",
        "\"\\u0000\"",
        "\"global\"",
    ];
    let mut next = |n: usize| rng.next_u64() as usize % n.max(1);
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let at = next(lines.len());
    match next(6) {
        0 => drop(lines.remove(at)),
        1 => lines.insert(next(at + 1), lines[at].clone()),
        2 | 3 => {
            // A text between quotes becomes something else.
            let quotes: Vec<_> = lines[at].match_indices('"').map(|(i, _)| i).collect();
            if quotes.len() > 1 {
                let pair = 2 * next(quotes.len() / 2);
                let value = VALUES[next(VALUES.len())];
                lines[at].replace_range(quotes[pair]..=quotes[pair + 1], value);
            }
        }
        4 => {
            let other = next(lines.len());
            lines.swap(at, other);
        }
        _ => {
            let mut bytes = lines[at].clone().into_bytes();
            if !bytes.is_empty() {
                let i = next(bytes.len());
                bytes[i] = b' ' + next(95) as u8;
            }
            lines[at] = String::from_utf8_lossy(&bytes).into_owned();
        }
    }
    lines.join("\n")
}

#[test]
fn a_damaged_lookup_is_refused_with_a_remedy_or_makes_a_switch() {
    let (mut rng, text) = (Rng::new(19), tomahawk());
    let (mut accepted, mut refused) = (0, 0);
    for _ in 0..150 {
        let lookup = mutate(TOMAHAWK_LOOKUP, &mut rng);
        match import(&[("config_db.json", &text), ("pg_profile_lookup.ini", &lookup)], &Options::default()) {
            Ok(import) => {
                load("t", &import.toml).unwrap();
                accepted += 1;
            }
            Err(found) => {
                assert!(found.iter().all(|d| !d.remedy.is_empty()), "{lookup}: {found:?}");
                refused += 1;
            }
        }
    }
    assert!(accepted > 10 && refused > 10, "{accepted} accepted, {refused} refused");
}

#[test]
fn damaged_tables_are_refused_with_a_remedy_or_make_a_switch() {
    let mut rng = Rng::new(17);
    let (buffers, qos) = s6100();
    let whole = format!(
        "{},\n{}",
        buffers.trim_end().trim_end_matches('}'),
        qos.trim_start().trim_start_matches('{')
    );
    let rounds = 2000;
    let (mut accepted, mut refused) = (0, 0);
    for round in 0..rounds {
        let mut text = whole.clone();
        for _ in 0..=rng.next_u64() % 3 {
            text = mutate(&text, &mut rng);
        }
        let outcome = catch_unwind(|| match import(&[("config_db.json", &text)], &Options::default()) {
            Ok(import) => {
                params_of(&load("t", &import.toml).unwrap().config);
                true
            }
            Err(found) => {
                let errors = found.iter().filter(|d| d.is_error()).count();
                let plain =
                    |d: &weir_config::Diagnostic| d.to_string().chars().all(|c| c == '\n' || !c.is_control());
                let good =
                    |d: &weir_config::Diagnostic| !d.message.is_empty() && !d.remedy.is_empty() && plain(d);
                assert!(errors > 0 && found.iter().all(good), "{found:?}");
                false
            }
        });
        match outcome {
            Ok(true) => accepted += 1,
            Ok(false) => refused += 1,
            Err(_) => panic!("round {round}: a panic\n{text}"),
        }
    }
    assert!(accepted > rounds / 50 && refused > rounds / 4, "{accepted} accepted, {refused} refused");
}
