//! SONiC's tables in, out, in and out again, compared by table, key and field: the first trip names in its reports whatever
//! comes out differently, the second changes nothing.

use super::sonic::{TOMAHAWK_LOOKUP, params_of, s6100, spectrum, tomahawk};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use weir_config::load;
use weir_config::sonic::{Export, Import, Note, Options, Outcome, export, import};
use weir_dataplane::rng::Rng;

/// A value by table, key and field. Rows for several ports or queues are one each; a row without fields has one that is
/// called nothing.
type Cells = BTreeMap<(String, String, String), String>;

/// Fields that say what SONiC has where nothing is said: table, field, value.
const DEFAULTS: [(&str, &str, &str); 22] = [
    ("PORT", "pfc_asym", "off"),
    ("PORT", "admin_status", "up"),
    ("PFC_WD", "BIG_RED_SWITCH", "disable"),
    ("PFC_WD", "action", "drop"),
    ("BUFFER_POOL", "xoff", "0"),
    ("BUFFER_PROFILE", "packet_discard_action", "drop"),
    ("SCHEDULER", "type", "DWRR"),
    ("SCHEDULER", "weight", "1"),
    ("SCHEDULER", "meter_type", "bytes"),
    ("SCHEDULER", "cir", "0"),
    ("SCHEDULER", "pir", "0"),
    ("VLAN_MEMBER", "tagging_mode", "untagged"),
    ("PORTCHANNEL", "admin_status", "up"),
    ("PORTCHANNEL", "fast_rate", "false"),
    ("PORTCHANNEL", "fallback", "false"),
    ("PORTCHANNEL", "min_links", "1"),
    ("FDB", "type", "static"),
    ("MIRROR_SESSION", "direction", "BOTH"),
    ("PORT_QOS_MAP", "pfc_enable", ""),
    ("PORT_QOS_MAP", "pfcwd_sw_enable", ""),
    ("LLDP", "enabled", "true"),
    ("LLDP_PORT", "enabled", "true"),
];

/// Where an input leads that a map does not list.
fn unlisted<'a>(table: &str, field: &'a str) -> Option<&'a str> {
    match table {
        "DSCP_TO_TC_MAP" | "DOT1P_TO_TC_MAP" | "TC_TO_QUEUE_MAP" | "TC_TO_PRIORITY_GROUP_MAP" => Some("0"),
        "MAP_PFC_PRIORITY_TO_QUEUE" | "PFC_PRIORITY_TO_PRIORITY_GROUP_MAP" => Some(field),
        _ => None,
    }
}

fn numbers(text: &str) -> Vec<String> {
    let one = |part: &str| match part.split_once('-') {
        Some((low, high)) => match (low.parse::<u16>(), high.parse::<u16>()) {
            (Ok(low), Ok(high)) => (low..=high).map(|n| n.to_string()).collect(),
            _ => vec![part.to_owned()],
        },
        None => vec![part.to_owned()],
    };
    text.split(',').flat_map(one).collect()
}

/// The keys a row stands for.
fn keys(table: &str, key: &str) -> Vec<String> {
    let (ports, rest) = key.split_once('|').unwrap_or((key, ""));
    let ports: Vec<&str> = ports.split(',').map(str::trim).collect();
    match table {
        "BUFFER_PG" | "BUFFER_QUEUE" | "QUEUE" => ports
            .iter()
            .flat_map(|port| numbers(rest).into_iter().map(move |n| format!("{port}|{n}")))
            .collect(),
        "PORT_QOS_MAP" | "PFC_WD" => ports.into_iter().map(str::to_owned).collect(),
        _ => vec![key.to_owned()],
    }
}

/// A reference without its brackets; lists in one order.
fn plain(field: &str, value: &str) -> String {
    let inner = value.strip_prefix('[').and_then(|value| value.strip_suffix(']'));
    let value = inner.map_or(value, |inner| inner.split_once('|').map_or(inner, |(_, name)| name));
    if field == "src_port" {
        let mut all: Vec<&str> = value.split(',').collect();
        all.sort_unstable();
        return all.join(",");
    }
    value.to_owned()
}

fn cells(texts: &[&str]) -> Cells {
    let mut all = Cells::new();
    for text in texts {
        let tables: Map<String, Value> = serde_json::from_str(text).unwrap();
        for (table, rows) in &tables {
            for (row, fields) in rows.as_object().unwrap() {
                let listed = fields["members"].as_array();
                for key in keys(table, row) {
                    let mut fields: Vec<(&str, String)> = fields
                        .as_object()
                        .unwrap()
                        .iter()
                        .map(|(field, value)| {
                            (field.as_str(), plain(field, value.as_str().unwrap_or("a list")))
                        })
                        .collect();
                    // What a table of its own has members for, or a key has a number in.
                    fields.retain(|(field, value)| {
                        !DEFAULTS.contains(&(table, field, value.as_str()))
                            && unlisted(table, field) != Some(value.as_str())
                            && *field != "members"
                            && (table.as_str(), *field) != ("VLAN", "vlanid")
                    });
                    fields.push(("", String::new()));
                    if let ("VLAN", Some(listed)) = (table.as_str(), listed) {
                        let members =
                            listed.iter().filter_map(Value::as_str).map(|name| format!("{key}|{name}"));
                        let cell =
                            |member| (("VLAN_MEMBER".to_owned(), member, String::new()), String::new());
                        all.extend(members.map(cell));
                    }
                    all.extend(
                        fields
                            .into_iter()
                            .map(|(field, value)| ((table.clone(), key.clone(), field.to_owned()), value)),
                    );
                }
            }
        }
    }
    all
}

/// The report of either way has something about it: a note about the row or the port in it, about the field or all of them.
fn is_named(
    (table, key, field): &(String, String, String),
    comes_out: bool,
    import: &Import,
    export: &Export,
) -> bool {
    // One of the two is the threshold.
    let threshold = |name: &str| ["dynamic_th", "static_th"].contains(&name);
    let same = |name: &str| name == field || threshold(name) && threshold(field);
    let same_field = |fields: &str| fields.is_empty() || field.is_empty() || fields.split(", ").any(same);
    let about = |note: &Note| {
        let known = keys(table, &note.key);
        note.table == *table
            && (known.contains(key) || known.iter().any(|k| Some(k.as_str()) == key.split('|').next()))
    };
    // Members in the row of their VLAN.
    let listed = |note: &Note| {
        let port = key.split('|').nth(1).unwrap_or_default();
        table == "VLAN_MEMBER" && note.table == "VLAN" && note.fields == "members" && note.why.contains(port)
    };
    let mut notes = import.notes.iter().filter(|note| note.outcome != Outcome::Mapped);
    if notes.any(|note| listed(note) || about(note) && same_field(&note.fields)) {
        return true;
    }
    let of_row = |note: &Note| {
        note.why.starts_with(table.as_str())
            && (note.key == *key || note.key.is_empty() || note.why.contains(key.as_str()))
    };
    // Of a row that was made it is enough to say so.
    let told = |note: &Note| match field.is_empty() {
        true => comes_out,
        false => note.outcome != Outcome::Mapped && note.why.contains(field.as_str()),
    };
    export.notes.iter().any(|note| of_row(note) && told(note))
}

struct Trip {
    import: Import,
    export: Export,
    params: String,
}

fn trip(sources: &[(&str, &str)]) -> Option<Trip> {
    let import = import(sources, &Options::default()).ok()?;
    let config = load("made.toml", &import.toml).unwrap().config;
    Some(Trip { import, export: export(&config), params: params_of(&config) })
}

/// Fields that differ and are not named.
fn unnamed(texts: &[&str], first: &Trip) -> Vec<String> {
    let (before, after) = (cells(texts), cells(&[&first.export.json]));
    let mut bad = Vec::new();
    let all: std::collections::BTreeSet<_> = before.keys().chain(after.keys()).collect();
    for at @ (table, key, field) in all {
        let (was, is) = (before.get(at), after.get(at));
        let row = (table.clone(), key.clone(), String::new());
        // A row that came or went is told of as a whole.
        let whole = !field.is_empty() && before.contains_key(&row) != after.contains_key(&row);
        if was != is && !whole && !is_named(at, is.is_some(), &first.import, &first.export) {
            bad.push(format!("{table}|{key} {field}: {was:?} {is:?}"));
        }
    }
    bad
}

/// Whether the tables were accepted.
///
/// # Errors
/// What differs and is not named, or differs after the second trip.
fn check(sources: &[(&str, &str)], tables: &[&str]) -> Result<bool, Vec<String>> {
    let Some(first) = trip(sources) else { return Ok(false) };
    let bad = unnamed(tables, &first);
    if !bad.is_empty() {
        return Err(bad);
    }
    let json = &first.export.json;
    let Some(second) = trip(&[("config_db.json", json)]) else {
        return Err(vec!["refused the second time".into()]);
    };
    let (a, b) = (cells(&[json]), cells(&[&second.export.json]));
    let differ = a
        .iter()
        .filter(|(at, value)| b.get(*at) != Some(*value))
        .chain(b.iter().filter(|(at, _)| !a.contains_key(*at)));
    let differ: Vec<_> =
        differ.map(|(at, value)| format!("second trip: {at:?} {value} {:?}", b.get(at))).collect();
    match differ.is_empty() {
        true if first.params == second.params => Ok(true),
        true => Err(vec!["another switch".into()]),
        false => Err(differ),
    }
}

/// Of published platforms, and the file of the documentation.
#[test]
fn what_comes_out_differently_is_named_and_the_second_trip_changes_nothing() {
    let mine = include_str!("../../../configs/sonic/config_db.json");
    let (tomahawk, spectrum) = (tomahawk(), spectrum());
    let (buffers, qos) = s6100();
    assert_eq!(check(&[("config_db.json", mine)], &[mine]), Ok(true));
    let lookup = ("pg_profile_lookup.ini", TOMAHAWK_LOOKUP);
    assert_eq!(check(&[("config_db.json", &tomahawk), lookup], &[&tomahawk]), Ok(true));
    assert_eq!(check(&[("config_db.json", &spectrum)], &[&spectrum]), Ok(true));
    assert_eq!(check(&[("buffers.json", &buffers), ("qos.json", &qos)], &[&buffers, &qos]), Ok(true));
}

/// Configurations of our own set bytes aside that SONiC does not: what is exported of them comes back all the same.
#[test]
fn what_is_exported_is_imported_and_exported_again_unchanged() {
    let pool = "[qos]\npreset = \"roce-lossless\"\n[buffer]\nsize = \"64MiB\"\negress_lossy_pool = \"1024GiB\"\n\
                [port_defaults]\nrate = \"1M\"\n[[port]]\nname = \"a\"\ndevice = \"ring\"\n\
                [[port]]\nname = \"b\"\ndevice = \"ring\"\n";
    for (name, text) in [
        ("lab", include_str!("../../../configs/lab.toml")),
        ("lab-paxi", include_str!("../../../configs/lab-paxi.toml")),
        ("memif", include_str!("../../../configs/memif.toml")),
        ("two-nics", include_str!("../../../configs/two-nics.toml")),
        ("af-packet", include_str!("../../../configs/af-packet.toml")),
        ("a large pool at 1M", pool),
    ] {
        let first = export(&load(name, text).unwrap_or_else(|e| panic!("{name}: {e:?}")).config).json;
        let second = trip(&[("config_db.json", &first)]).unwrap_or_else(|| panic!("{name}: refused"));
        let (a, b) = (cells(&[&first]), cells(&[&second.export.json]));
        let of_buffer = |at: &&(String, String, String)| at.0.starts_with("BUFFER_") || at.0 == "PFC_WD";
        for at in a.keys().chain(b.keys()).filter(of_buffer) {
            assert_eq!(a.get(at), b.get(at), "{name}: {at:?}");
        }
    }
    let text = pool.replace("1024GiB", "1025GiB");
    assert_eq!(load("t", &text).unwrap_err()[0].rule, "range", "what no import takes");
}

/// Tables that the file of the documentation has not.
const MORE: &str = r#"{
    "PORTCHANNEL": { "PortChannel1": { "admin_status": "down", "static": "true" }, "PortChannel2": { "min_links": "1" } },
    "PORTCHANNEL_MEMBER": { "PortChannel1|Ethernet4": {}, "PortChannel2|Ethernet8": {} },
    "VLAN": { "Vlan1000": { "vlanid": "1000" }, "Vlan20": { "vlanid": "20", "members": ["Ethernet0"] }, "Vlan30": {} },
    "VLAN_MEMBER": { "Vlan1000|Ethernet0": { "tagging_mode": "tagged" }, "Vlan1000|PortChannel1": { "tagging_mode": "untagged" } },
    "FDB": { "Vlan1000|00:11:22:33:44:55": { "port": "PortChannel1", "type": "static" } },
    "PORT_STORM_CONTROL": { "Ethernet0|broadcast": { "kbps": "5000" } },
    "MIRROR_SESSION": { "one": { "type": "SPAN", "src_port": "Ethernet0", "dst_port": "Ethernet12", "direction": "RX", "queue": "0" } },
    "LLDP": { "GLOBAL": { "hello_time": "10", "multiplier": "3", "system_name": "leaf7" } },
    "LLDP_PORT": { "Ethernet8": { "mode": "RECEIVE" } },
    "DEFAULT_LOSSLESS_BUFFER_PARAMETER": { "AZURE": { "default_dynamic_th": "1" } }
}"#;

/// Values by the field they fit, so that not everything is refused.
const VALUES: [(&str, &[&str]); 21] = [
    ("admin_status", &["down", "up"]),
    ("pfc_asym", &["on", "off"]),
    ("wred_green_enable", &["true", "false"]),
    ("ecn", &["ecn_none", "ecn_green", "ecn_all"]),
    ("type", &["STRICT", "DWRR", "WRR", "dynamic", "static"]),
    ("weight", &["1", "77"]),
    ("cir", &["125000", "10"]),
    ("tagging_mode", &["tagged", "untagged", "priority_tagged"]),
    (
        "profile",
        &["unbound", "ingress_lossy_profile", "egress_lossless_profile", "egress_lossy_profile", "NULL"],
    ),
    ("scheduler", &["scheduler.0", "scheduler.1"]),
    ("pfc_enable", &["3", "4", "", "3,4"]),
    ("pfcwd_sw_enable", &["3", ""]),
    ("mtu", &["9100", "1500"]),
    ("speed", &["25000", "10000"]),
    ("dynamic_th", &["-3", "0", "3"]),
    ("size", &["0", "300000"]),
    ("xon_offset", &["0", "5000"]),
    ("mode", &["static", "dynamic", "RECEIVE", "TRANSMIT"]),
    ("direction", &["RX", "TX", "BOTH"]),
    ("action", &["drop", "forward", "alert"]),
    ("enabled", &["true", "false"]),
];

/// One row gone, twice under another name, without one of its fields, or with another value in it.
fn mutate(tables: &mut Map<String, Value>, rng: &mut Rng) -> String {
    let mut next = |n: usize| rng.next_u64() as usize % n.max(1);
    let names: Vec<String> = tables.keys().cloned().collect();
    let table = names[next(names.len())].clone();
    let rows = tables[&table].as_object_mut().unwrap();
    let keys: Vec<String> = rows.keys().cloned().collect();
    let Some(key) = keys.get(next(keys.len())).cloned() else { return table };
    let at = format!("{table}|{key}");
    let fields = rows[&key].as_object_mut().unwrap();
    let field = fields.keys().nth(next(fields.len())).cloned();
    match (next(8), field) {
        (0, _) => {
            rows.remove(&key);
            format!("{at} is gone")
        }
        (1, _) => {
            let other = [
                format!("{key}x"),
                "a row whose name no switch of weir could ever have".into(),
                "unbound".into(),
            ];
            let (other, row) = (other[next(3)].clone(), rows[&key].clone());
            let what = format!("{at} also as {other}");
            rows.insert(other, row);
            what
        }
        (2 | 3, Some(field)) => {
            fields.remove(&field);
            format!("{at} without {field}")
        }
        (_, Some(field)) => {
            let Some((_, values)) = VALUES.iter().find(|(name, _)| *name == field) else { return at };
            let value = values[next(values.len())];
            fields.insert(field.clone(), value.into());
            format!("{at} {field} = {value}")
        }
        _ => at,
    }
}

#[test]
fn rows_that_are_changed_come_out_as_the_report_says() {
    let mine: Map<String, Value> =
        serde_json::from_str(include_str!("../../../configs/sonic/config_db.json")).unwrap();
    let more: Map<String, Value> = serde_json::from_str(MORE).unwrap();
    let mut rng = Rng::new(23);
    let rounds = 600;
    let (mut accepted, mut failed) = (0, Vec::new());
    for round in 0..rounds {
        let mut tables = mine.clone();
        if round % 2 == 0 {
            tables.extend(more.clone());
        }
        let changes: Vec<String> = (0..=round % 3).map(|_| mutate(&mut tables, &mut rng)).collect();
        let text = serde_json::to_string_pretty(&tables).unwrap();
        match check(&[("config_db.json", &text)], &[&text]) {
            Ok(is_accepted) => accepted += u32::from(is_accepted),
            Err(bad) => {
                failed.push(format!("round {round}: {}\n    {}", changes.join("; "), bad.join("\n    ")))
            }
        }
    }
    assert!(failed.is_empty(), "{} of {rounds}\n{}", failed.len(), failed[..failed.len().min(12)].join("\n"));
    assert!(accepted > rounds / 2, "{accepted} of {rounds} accepted");
}
