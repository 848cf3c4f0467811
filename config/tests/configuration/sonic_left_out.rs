//! Nothing of a configuration is left out of SONiC's tables in silence: each key of the schema is changed, and the change
//! comes back from the tables, or the report of the export names the key.

use super::sonic::params_of;
use std::collections::BTreeSet;
use weir_config::sonic::{Export, Options, Outcome, export, import};
use weir_config::{Config, Diagnostic, differences, load, schema};

/// Values of every sort, each with another behind `#>`.
const BASE: &str = include_str!("../../src/diff_base.toml");

/// What cannot stand in [`BASE`] beside the rest of it: values of an engine, of lcores, of keys that exclude others, of what
/// is smaller than SONiC has.
const MORE: &str = r#"
[eal]
args = ["-l", "0-2"]
[port_defaults]
rate = "10G"
mtu = 1522
pfc.tx = false
[[port]]
name = "a"
device = "net_null0"
lcore = 1 #> lcore = 2
vlan = { access = 10 } #> vlan = { access = 11 }
format = "standard" #> format = "own"
[[port]]
name = "b"
device = "net_null1"
vlan = { trunk = "10-11", native = 11 }
[[port]]
name = "e"
device = "inc"
inc.mac = "02:00:00:00:00:0e" #> inc.mac = "02:00:00:00:00:0f"
inc.ip = "10.0.0.14" #> inc.ip = "10.0.0.15"
inc.vlan = 10 #> inc.vlan = 11
inc.jobs = 8 #> inc.jobs = 9
inc.memory = "16MiB" #> inc.memory = "17MiB"
inc.quota = "1MiB" #> inc.quota = "2MiB"
inc.first_qpn = 300 #> inc.first_qpn = 301
inc.qpns = 520 #> inc.qpns = 521
vlan = { trunk = "10-11" }
[[port]]
name = "c"
device = "net_null2"
vlan = { trunk = "10-11" }
[[port]]
name = "d"
device = "net_null3"
vlan = { trunk = "10-11" }
[[port]]
name = "x"
device = "net_null4"
format = "afh_lite"
[[port]]
name = "y"
device = "net_null5"
format = "afh_lite"
[format.own]
inherit = "standard"
[qos]
preset = "roce-lossless" #> preset = "roce-semi-lossless"
trust = "dscp" #> trust = "pcp"
[buffer]
size = "64MiB"
over_subscribe_ratio = 1 #> over_subscribe_ratio = 2
[[buffer.profile]]
name = "small"
static_th = "100KB"
[[buffer.profile]]
name = "thin"
direction = "egress"
lossless = false #> lossless = true
[[buffer.pg]]
ports = "a"
pgs = 0
profile = "small" #> profile = "lossy"
[[buffer.queue]]
ports = "a"
queues = 0
profile = "thin"
[[lag]]
name = "PortChannel1"
members = ["c", "d"]
admin = "up" #> admin = "down"
[[fdb.static]]
key = 5 #> key = 6
port = "x"
[[fdb.group]]
key = 1 #> key = 2
ports = ["x", "y"]
[[fdb.group]]
mac = "01:00:5e:00:01:00"
vlan = 10 #> vlan = 11
ports = ["b", "c"]
[watchdog]
allow_short = false #> allow_short = true
"#;

struct Change {
    /// Dotted, as a user writes it: `port.pfc.enable`.
    key: String,
    old: Config,
    new: Config,
}

fn changes(all: &str) -> Vec<Change> {
    let made = |text: &str| {
        let of_errors = |found: Vec<Diagnostic>| panic!("{:#?}", found.iter().find(|found| found.is_error()));
        load("t.toml", text).unwrap_or_else(of_errors).config
    };
    let old = made(all);
    let mut section = String::new();
    let mut changes = Vec::new();
    for line in all.lines() {
        if line.starts_with('[') {
            section = line.trim_matches(['[', ']']).replace("port_defaults", "port");
        }
        let Some((line, becomes)) = line.split_once(" #> ") else { continue };
        let changed = all.replacen(&format!("\n{line} #>"), &format!("\n{becomes} #>"), 1);
        let name = line.split_once(" = ").map_or(line, |(name, _)| name);
        changes.push(Change { key: format!("{section}.{name}"), old: old.clone(), new: made(&changed) });
    }
    changes
}

/// The report says that the key is not there, or not as it is here.
fn is_told(export: &Export, key: &str) -> bool {
    let below = |at: &str| key.strip_prefix(at).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'));
    export.notes.iter().any(|note| note.outcome != Outcome::Mapped && below(&note.table))
}

/// What a switch is made of that is made of the tables of this one, or why none is: who is told so is left in no doubt.
fn back(export: &Export) -> String {
    let made = match import(&[("config_db.json", &export.json)], &Options::default()) {
        Ok(made) => made,
        Err(found) => return format!("{found:?}"),
    };
    let config = load("made.toml", &made.toml).unwrap().config;
    let own = config.explain();
    let own: Vec<_> = own.iter().map(|row| (&row.key, &row.value)).collect();
    format!("{} {own:?}", params_of(&config))
}

#[test]
fn what_is_not_in_the_tables_is_in_the_report() {
    let mut silent = Vec::new();
    let mut carried = 0;
    for change in changes(BASE).into_iter().chain(changes(MORE)) {
        let (old, new) = (export(&change.old), export(&change.new));
        if is_told(&new, &change.key) || is_told(&old, &change.key) {
            continue;
        }
        match back(&old) == back(&new) {
            true => silent.push(format!("{}: {:?}", change.key, differences(&change.old, &change.new))),
            false => carried += 1,
        }
    }
    assert!(silent.is_empty(), "{}", silent.join("\n"));
    assert!(carried > 50, "{carried} come back");
}

/// A report that said of everything that it is lost would be no report: nothing is told of what holds by default.
#[test]
fn what_nobody_set_is_not_in_the_report() {
    let plain = "[[port]]\nname = \"Ethernet0\"\ndevice = \"ring\"\n";
    let exported = export(&load("t.toml", plain).unwrap().config);
    let told = exported.notes.iter().filter(|note| note.outcome != Outcome::Mapped);
    let told: BTreeSet<_> = told.map(|note| note.table.as_str()).collect();
    let always = [
        "buffer.control_bytes",
        "pfc.pause_quanta",
        "pfc.poll_gap",
        "pfc.refresh",
        "port.device",
        "port.trust",
    ];
    assert_eq!(told, always.into());
}

/// Where the keys of a table of the schema stand in a file, as dotted keys begin.
fn section(path: &str) -> &str {
    match path {
        "pfc = { ... } of a port" => "port.pfc",
        "vlan = { ... } of a port" => "port.vlan",
        "storm_control = { ... } of a port" => "port.storm_control",
        "inc = { ... } of a port" => "port.inc",
        "filter = { ... } of a mirror" => "mirror.filter",
        "reoccurrence of the watchdog" => "watchdog.reoccurrence",
        "keys of [format.NAME]" => "format.NAME",
        "fdb_key of a format" => "format.NAME.fdb_key",
        "keys of [map.NAME]" => "map.NAME",
        path => path.trim_matches(['[', ']']),
    }
}

/// A key that is new in the schema needs a change above, or a reason here.
#[test]
fn every_key_of_the_schema_is_tried() {
    let names = |key: &str| {
        let named = |of: &'static str| {
            key.strip_prefix(of)?.split_once('.').map(|(_, rest)| format!("{of}NAME.{rest}"))
        };
        named("format.").or_else(|| named("map.")).unwrap_or_else(|| key.to_owned())
    };
    let tried: BTreeSet<String> =
        changes(BASE).iter().chain(&changes(MORE)).map(|change| names(&change.key)).collect();
    let below = |key: &str, at: &str| {
        key.strip_prefix(at).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    };
    // Told as a whole, whichever key it is; names, and which of two kinds of profile it is that the others are about.
    let whole = ["format", "lab.flow"];
    let kinds = [
        "port.name",
        "lag.name",
        "mirror.name",
        "scheduler.name",
        "wred.name",
        "buffer.profile.name",
        "buffer.profile.direction",
        "fdb.static.format",
    ];
    let mut untried = Vec::new();
    for table in schema::ALL.iter().filter(|table| !table.free && !table.path.is_empty()) {
        let section = section(table.path);
        for key in table.keys {
            let key = [section, key.name].join(".");
            // A table by one of its keys, or a key by the whole of a table.
            let is_tried = tried.iter().any(|tried| below(tried, &key) || below(&key, tried));
            if !is_tried && !whole.iter().any(|whole| below(&key, whole)) && !kinds.contains(&&*key) {
                untried.push(key);
            }
        }
    }
    assert!(untried.is_empty(), "{untried:?}");
}
