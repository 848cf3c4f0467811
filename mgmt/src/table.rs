//! What there is to see, as tables: path, rows, columns. JSON views, the OpenAPI document and
//! `weir show` are made from this list, so a column exists in all of them or in none.

mod columns;
mod inc;
mod lanes;
mod mcast;
mod ports;

use crate::api::documents::Count;
use crate::snapshot::Snapshot;
use crate::text::Text;
use serde_json::{Map, Value, json};
use std::fmt::Write;

pub use columns::ALL;
pub(crate) use mcast::protocol;

/// The largest integer every JSON reader keeps exactly.
const EXACT: u64 = 1 << 53;

/// What a column holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// A text.
    Text,
    /// true or false.
    Flag,
    /// An integer; as a text where it is above 2^53.
    Count,
    /// An integer as above, or null where there is none.
    Maybe,
    /// A number.
    Rate,
    /// A part of one.
    Share,
}

/// A row: which of the things a snapshot holds. `i` counts priorities, queues, groups, reasons or pools.
#[derive(Clone, Copy, Debug)]
pub struct At<'a> {
    /// The snapshot.
    pub snapshot: &'a Snapshot,
    /// Port, or worker.
    pub port: usize,
    /// What of it.
    pub i: usize,
}

/// A column.
#[derive(Clone, Copy)]
pub struct Column {
    /// Its name in JSON, with the unit where it has one.
    pub name: &'static str,
    /// What it holds.
    pub form: Form,
    /// Its heading in `weir show`, SONiC's where SONiC has one; empty: not shown there.
    pub head: &'static str,
    /// What it means.
    pub what: &'static str,
    get: fn(&At<'_>) -> Value,
}

impl std::fmt::Debug for Column {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Column").field("name", &self.name).finish_non_exhaustive()
    }
}

/// A table.
#[derive(Debug)]
pub struct Table {
    /// Its name: key of the rows in JSON, noun of `weir show`.
    pub name: &'static str,
    /// Where it is served.
    pub path: &'static str,
    /// What it shows.
    pub what: &'static str,
    /// Its columns.
    pub columns: &'static [Column],
    /// Its rows belong to ports, so `?port=` selects.
    pub by_port: bool,
    rows: fn(&Snapshot) -> Vec<(usize, usize)>,
}

impl Table {
    /// The table of this name.
    pub fn named(name: &str) -> Option<&'static Table> {
        ALL.iter().find(|table| table.name == name)
    }

    /// Its rows as JSON objects; those of one port if it is given.
    pub fn rows(&self, snapshot: &Snapshot, port: Option<usize>) -> Vec<Value> {
        let one = |(port, i): (usize, usize)| {
            let at = At { snapshot, port, i };
            let row: Map<String, Value> =
                self.columns.iter().map(|c| (c.name.to_owned(), (c.get)(&at))).collect();
            Value::Object(row)
        };
        let wanted = |(p, _): &(usize, usize)| port.is_none_or(|port| port == *p);
        (self.rows)(snapshot).into_iter().filter(wanted).map(one).collect()
    }

    /// The document served at its path.
    pub fn document(&self, snapshot: &Snapshot, port: Option<usize>) -> Text {
        document(&[self], snapshot, port)
    }

    /// `,"name":[rows]`
    fn write(&self, out: &mut Text, snapshot: &Snapshot, port: Option<usize>) {
        let _ = write!(out, ",\"{}\":[", self.name);
        for (of, i) in (self.rows)(snapshot).into_iter().filter(|(p, _)| port.is_none_or(|port| port == *p)) {
            let at = At { snapshot, port: of, i };
            out.push_str(if out.ends_with(b'[') { "{" } else { ",{" });
            for column in self.columns {
                let comma = if out.ends_with(b'{') { "" } else { "," };
                let _ = write!(out, "{comma}\"{}\":{}", column.name, (column.get)(&at));
            }
            out.push_str("}");
        }
        out.push_str("]");
    }
}

/// Every table in one document.
pub fn everything(snapshot: &Snapshot) -> Text {
    let all: Vec<&Table> = ALL.iter().collect();
    document(&all, snapshot, None)
}

/// Tables as one JSON document. Written as text row by row: as a tree of values a large switch would take many times
/// the memory.
fn document(tables: &[&Table], snapshot: &Snapshot, port: Option<usize>) -> Text {
    let mut out = Text::default();
    for (i, (name, value)) in stamp(snapshot).into_iter().enumerate() {
        let _ = write!(out, "{}\"{name}\":{value}", if i == 0 { "{" } else { "," });
    }
    tables.iter().for_each(|table| table.write(&mut out, snapshot, port));
    out.push_str("}\n");
    out
}

/// When, and over what time rates are taken.
pub(crate) fn stamp(snapshot: &Snapshot) -> [(&'static str, Value); 4] {
    let window = snapshot.ports.iter().map(|port| port.window).max().unwrap_or(0);
    [
        ("switch_name", json!(snapshot.info.name)),
        ("unix_ms", json!(snapshot.unix_ms)),
        ("uptime_seconds", json!(snapshot.uptime_ms as f64 / 1e3)),
        ("window_seconds", json!(window as f64 / 1e9)),
    ]
}

/// The same, as the beginning of a document.
pub(crate) fn stamped(snapshot: &Snapshot) -> Map<String, Value> {
    stamp(snapshot).into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// A counter: a number while every reader keeps it exactly, else its digits.
pub fn counter(n: u64) -> Count {
    if n <= EXACT { Count::Number(n) } else { Count::Digits(n.to_string()) }
}

/// The same as JSON.
pub fn count(n: u64) -> Value {
    if n <= EXACT { json!(n) } else { json!(n.to_string()) }
}

/// A limit that may be none: the buffer's own word for it is a number no buffer reaches.
fn limit(n: u64) -> Value {
    if n >= u64::MAX >> 3 { Value::Null } else { count(n) }
}

fn rate(x: f64) -> Value {
    json!((x * 10.0).round() / 10.0)
}

fn share(x: f64) -> Value {
    json!((x * 1e6).round() / 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake;
    use std::collections::HashSet;

    #[test]
    fn every_row_has_what_its_columns_promise() {
        let snapshot = fake::snapshot();
        for table in ALL {
            let rows = table.rows(&snapshot, None);
            assert!(!rows.is_empty() || table.name == "drops", "{}", table.name);
            for row in &rows {
                for column in table.columns {
                    let value = &row[column.name];
                    let big = value.as_str().is_some_and(|s| s.parse::<u64>().is_ok());
                    let fits = match column.form {
                        Form::Text => value.is_string(),
                        Form::Flag => value.is_boolean(),
                        Form::Count => value.is_u64() || big,
                        Form::Maybe => value.is_u64() || value.is_null() || big,
                        Form::Rate => value.is_number(),
                        Form::Share => value.as_f64().is_some_and(|x| (0.0..=2.0).contains(&x)),
                    };
                    assert!(fits, "{}.{} = {value}", table.name, column.name);
                }
            }
        }
    }

    #[test]
    fn names_are_unique_and_explained() {
        let names: HashSet<_> = ALL.iter().map(|t| t.name).collect();
        assert_eq!(names.len(), ALL.len());
        for table in ALL {
            let columns: HashSet<_> = table.columns.iter().map(|c| c.name).collect();
            assert_eq!(columns.len(), table.columns.len(), "{}", table.name);
            assert!(table.columns.iter().all(|c| !c.what.is_empty()), "{}", table.name);
            assert!(table.path.starts_with("/v1/"));
            assert!(!table.by_port || table.columns[0].name == "port", "{}", table.name);
        }
    }

    #[test]
    fn a_heading_names_the_unit_of_its_column() {
        for (table, column) in ALL.iter().flat_map(|table| table.columns.iter().map(move |c| (table, c))) {
            let unit = column.name.rsplit('_').next().unwrap_or_default();
            let words: &[&str] = match unit {
                "bps" => &["bps", "bit/s"],
                "pps" => &["pps", "/s"],
                "bytes" | "ns" | "cycles" | "ppm" => &[unit],
                _ => continue,
            };
            let head = column.head.to_lowercase();
            let named = head.is_empty() || words.iter().any(|word| head.contains(word));
            assert!(named, "{}.{}: {}", table.name, column.name, column.head);
        }
    }

    #[test]
    fn large_counters_become_text_and_no_limit_null() {
        assert_eq!(count(1 << 53), json!(9_007_199_254_740_992u64));
        assert_eq!(count((1 << 53) + 1), json!("9007199254740993"));
        assert_eq!(limit(u64::MAX >> 2), Value::Null);
        let mut snapshot = fake::snapshot();
        let mut reading = (*snapshot.now).clone();
        reading.ports[0].stats.rx_bytes = u64::MAX;
        snapshot.now = std::sync::Arc::new(reading);
        let ports = Table::named("ports").unwrap().rows(&snapshot, Some(0));
        assert_eq!((ports.len(), &ports[0]["rx_bytes"]), (1, &json!("18446744073709551615")));
    }

    #[test]
    fn one_port_alone() {
        let snapshot = fake::snapshot();
        let queues = Table::named("queues").unwrap().document(&snapshot, Some(1)).to_string();
        let queues: Value = serde_json::from_str(&queues).unwrap();
        let rows = queues["queues"].as_array().unwrap();
        assert_eq!(rows.len(), 8);
        assert!(rows.iter().all(|row| row["port"] == "p\"1\\"));
        assert_eq!((&rows[3]["depth_bytes"], &rows[3]["kmin_bytes"]), (&json!(20_000), &json!(10_000)));
        assert_eq!(queues["window_seconds"], json!(0.1));
    }

    #[test]
    fn the_whole_is_its_tables() {
        let snapshot = fake::snapshot();
        let whole: Value = serde_json::from_str(&everything(&snapshot).to_string()).unwrap();
        for table in ALL {
            assert_eq!(whole[table.name], Value::Array(table.rows(&snapshot, None)), "{}", table.name);
        }
        assert_eq!(whole.as_object().unwrap().len(), ALL.len() + 4);
    }

    #[test]
    fn latency_has_parts() {
        let rows = Table::named("latency").unwrap().rows(&fake::snapshot(), Some(0));
        let row = &rows[3];
        let of = |name: &str| row[name].as_u64().unwrap();
        assert_eq!((of("frames"), of("window_frames"), of("paused_frames")), (2000, 1000, 200));
        assert_eq!(of("pause_ns"), 200 * 20_000);
        for (name, ns) in [
            ("residence_p50_ns", 50_000),
            ("residence_max_ns", 50_000),
            ("queueing_p50_ns", 50_000),
            ("pause_p99_ns", 20_000),
            ("window_pause_max_ns", 20_000),
        ] {
            assert!((ns..ns + ns / 8 + 1).contains(&of(name)), "{name}: {}", of(name));
        }
        assert_eq!((of("pause_p50_ns"), of("window_pause_p50_ns")), (0, 0));
        assert!(rows[2]["residence_p50_ns"].is_null() && rows[2]["pause_p50_ns"].is_null());
    }

    #[test]
    fn drops_carry_reason_and_remedy() {
        let mut snapshot = fake::snapshot();
        let mut reading = (*snapshot.now).clone();
        let reason = weir_dataplane::drops::DropReason::IngressHeadroom;
        let other = weir_dataplane::drops::DropReason::EgressQueueFull;
        reading.ports[0].stats.drops.0[other as usize] = 8;
        let stats = &mut reading.ports[1].stats;
        (stats.drops.0[reason as usize], stats.lossless.0[reason as usize]) = (9, 7);
        snapshot.now = std::sync::Arc::new(reading);
        let rows = Table::named("drops").unwrap().rows(&snapshot, None);
        assert_eq!(rows.len(), 2);
        let of = |row: &Value| ["frames", "lossless", "lossless_frames"].map(|key| row[key].clone());
        assert_eq!(
            (&rows[0]["reason"], of(&rows[0])),
            (&json!(reason.name()), [json!(9), json!(true), json!(7)])
        );
        assert_eq!(
            (&rows[1]["reason"], of(&rows[1])),
            (&json!(other.name()), [json!(8), json!(false), json!(0)])
        );
        assert_eq!(rows[0]["remedy"], json!(reason.remedy()));
        let reasons = Table::named("reasons").unwrap().rows(&snapshot, None);
        assert_eq!(of(&reasons[reason as usize]), of(&rows[0]));
        let switch = &Table::named("switch").unwrap().rows(&snapshot, None)[0];
        assert_eq!((&switch["lossless_drops"], &switch["health"]), (&json!(7), &json!("7 lossless drops")));
    }
}
