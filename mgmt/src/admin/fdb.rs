//! The forwarding table, page by page: each worker tells what it has learned itself, the first one what is configured.

use crate::snapshot::Snapshot;
use crate::table::{count, stamp};
use crate::text::Text;
use serde_json::{Value, json};
use std::fmt::Write;
use weir_dataplane::fdb::{FdbFilter, FdbPage, FdbRow};
use weir_dataplane::parse::{KeyParts, key_space};
use weir_dataplane::types::{Nanos, PortId};

/// Where it is served.
pub const PATH: &str = "/v1/fdb";

/// What may be asked for.
pub const PARAMETERS: [&str; 5] = ["limit", "after", "port", "mac", "vlan"];

/// Most entries of a page, and how many it has unless somebody says otherwise.
const MOST: usize = 4096;
const USUAL: usize = 1024;

/// A question for one page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// The worker to ask.
    pub worker: usize,
    /// Where in its table to go on.
    pub next: u64,
    /// Which entries.
    pub filter: FdbFilter,
    /// How many at most.
    pub most: usize,
}

/// The answer of one worker.
#[derive(Debug)]
pub struct Page {
    /// It.
    pub worker: usize,
    /// How many there are.
    pub workers: usize,
    /// What it told.
    pub page: Box<FdbPage>,
}

/// What is wrong with a question: the parameter, and why.
pub type Wrong = (&'static str, String);

impl Question {
    /// From the parameters of a query.
    ///
    /// # Errors
    /// The parameter at fault.
    pub fn of(given: &[(String, String)], snapshot: &Snapshot) -> Result<Self, Wrong> {
        let mut question = Self { worker: 0, next: 0, filter: FdbFilter::default(), most: USUAL };
        for (name, value) in given {
            match name.as_str() {
                "limit" => {
                    let limit = value.parse().ok().filter(|n| (1..=MOST).contains(n));
                    question.most = limit.ok_or_else(|| ("limit", format!("1 to {MOST}")))?;
                }
                "after" => {
                    let place =
                        value.split_once('-').and_then(|(w, n)| Some((w.parse().ok()?, n.parse().ok()?)));
                    let known = place.filter(|(worker, _)| *worker < snapshot.info.lcores.len());
                    (question.worker, question.next) =
                        known.ok_or_else(|| ("after", "the `next` of the page before".to_owned()))?;
                }
                "port" => {
                    let port = snapshot.info.ports.iter().position(|port| port.name == *value);
                    let port = port.ok_or_else(|| ("port", format!("no port is called `{value}`")))?;
                    question.filter.port = Some(PortId(port as u16));
                }
                "mac" => {
                    let wrong = || ("mac", "six bytes as 02:00:00:00:00:01, or a number as 0x1f".to_owned());
                    question.filter.address = Some(address_of(value).ok_or_else(wrong)?);
                }
                _ => {
                    let vid = value.parse().ok().filter(|vid| *vid < 4096);
                    question.filter.vid =
                        Some(vid.ok_or_else(|| ("vlan", "0 (untagged) to 4095".to_owned()))?);
                }
            }
        }
        question.filter.learned_only = question.worker != 0;
        Ok(question)
    }
}

/// Address bits as somebody writes them.
fn address_of(text: &str) -> Option<u64> {
    let hex = |text: &str| u64::from_str_radix(text, 16).ok().filter(|_| !text.starts_with('+'));
    if let Some(digits) = text.strip_prefix("0x") {
        return hex(digits).filter(|n| *n < 1 << 48);
    }
    let bytes: Vec<&str> = text.split([':', '-']).collect();
    if bytes.len() != 6 || bytes.iter().any(|byte| byte.len() != 2) {
        return None;
    }
    hex(&bytes.concat())
}

/// The address of a key: bytes of a MAC, a number in the formats with shorter ones.
pub fn address(key: KeyParts) -> String {
    match key.space {
        key_space::STANDARD => {
            let bytes: Vec<_> = key.address.to_be_bytes()[2..].iter().map(|b| format!("{b:02x}")).collect();
            bytes.join(":")
        }
        _ => format!("{:#x}", key.address),
    }
}

impl Page {
    /// Where the next page begins; `None`: this was the last.
    pub fn next(&self) -> Option<String> {
        match (self.page.next, self.worker + 1) {
            (FdbPage::DONE, next) => (next < self.workers).then(|| format!("{next}-0")),
            (next, _) => Some(format!("{}-{next}", self.worker)),
        }
    }

    /// The document: the page, and what workers have counted.
    pub fn document(&self, snapshot: &Snapshot) -> Text {
        let mut out = Text::default();
        for (i, (name, value)) in stamp(snapshot).into_iter().enumerate() {
            let _ = write!(out, "{}\"{name}\":{value}", if i == 0 { "{" } else { "," });
        }
        // Every worker's table has the entries of all.
        let entries = snapshot.now.loops.iter().map(|l| l.fdb_entries).max().unwrap_or(0);
        let workers: Vec<Value> = (0..snapshot.now.loops.len()).map(|i| worker(snapshot, i)).collect();
        let _ = write!(out, ",\"entries\":{entries},\"workers\":{},\"fdb\":[", Value::Array(workers));
        let lcore = lcore(snapshot, self.worker);
        for row in self.page.rows() {
            let comma = if out.ends_with(b'[') { "" } else { "," };
            let _ = write!(out, "{comma}{}", entry(row, self.page.tick_ns, snapshot, &lcore));
        }
        let _ = write!(out, "],\"next\":{}}}", json!(self.next()));
        out.push_str("\n");
        out
    }
}

fn lcore(snapshot: &Snapshot, worker: usize) -> Value {
    json!(snapshot.info.lcores.get(worker))
}

fn port_name(snapshot: &Snapshot, port: usize) -> &str {
    snapshot.info.ports.get(port).map_or("", |port| port.name.as_str())
}

fn entry(row: &FdbRow, tick_ns: Nanos, snapshot: &Snapshot, lcore: &Value) -> Value {
    let key = KeyParts::of(row.key);
    let ports: Vec<&str> = row.ports.iter().map(|port| port_name(snapshot, port.index())).collect();
    let ages = !row.is_static && tick_ns != Nanos::MAX;
    let age = u128::from(row.age_ticks) * u128::from(tick_ns);
    json!({
        "vlan": key.vid,
        "mac": address(key),
        "port": ports.join(","),
        "type": if row.is_static { "static" } else { "dynamic" },
        "age_seconds": ages.then(|| (age / 1_000_000) as f64 / 1e3),
        "lcore": if row.is_static { Value::Null } else { lcore.clone() },
    })
}

/// What a worker has counted, and the last address that moved.
fn worker(snapshot: &Snapshot, i: usize) -> Value {
    let l = &snapshot.now.loops[i];
    let key = KeyParts::of(l.fdb_move_key);
    let moved = (l.fdb_move_key != 0).then(|| {
        json!({
            "mac": address(key),
            "vlan": key.vid,
            "from": port_name(snapshot, l.fdb_move_from as usize),
            "to": port_name(snapshot, l.fdb_move_to as usize),
        })
    });
    json!({
        "lcore": lcore(snapshot, i),
        "entries": count(l.fdb_entries),
        "learned": count(l.fdb_learned),
        "moved": count(l.fdb_moved),
        "aged": count(l.fdb_aged),
        "refused": count(l.fdb_refused),
        "last_move": moved,
    })
}

/// What the answer looks like, for the OpenAPI document.
pub fn schema() -> Value {
    let text = || json!({ "type": "string" });
    let number = || json!({ "type": ["integer", "string"], "minimum": 0, "pattern": "^[0-9]+$" });
    let entry = json!({
        "type": "object",
        "properties": {
            "vlan": { "type": "integer", "description": "0: untagged" },
            "mac": { "type": "string", "description": "a number in hexadecimal in formats with shorter addresses" },
            "port": { "type": "string", "description": "ports of a group: with commas" },
            "type": { "enum": ["dynamic", "static"] },
            "age_seconds": {
                "type": ["number", "null"],
                "description": "since it was last seen, in steps of a sixteenth of the ageing time; null: it does not age",
            },
            "lcore": { "type": ["integer", "null"], "description": "core of the worker that learned it" },
        },
    });
    let moved = json!({
        "type": ["object", "null"],
        "properties": { "mac": text(), "vlan": { "type": "integer" }, "from": text(), "to": text() },
    });
    let worker = json!({
        "type": "object",
        "properties": {
            "lcore": { "type": ["integer", "null"] },
            "entries": number(),
            "learned": number(),
            "moved": number(),
            "aged": number(),
            "refused": number(),
            "last_move": moved,
        },
    });
    json!({
        "type": "object",
        "properties": {
            "entries": { "type": "integer", "description": "of the whole table" },
            "workers": { "type": "array", "items": worker },
            "fdb": { "type": "array", "items": entry },
            "next": { "type": ["string", "null"], "description": "`after` of the next page; null: this was the last" },
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake;
    use weir_dataplane::fdb::Fdb;

    fn ask(given: &[(&str, &str)]) -> Result<Question, &'static str> {
        let given: Vec<_> = given.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())).collect();
        Question::of(&given, &fake::snapshot()).map_err(|(parameter, _)| parameter)
    }

    #[test]
    fn questions_are_read_with_care() {
        let all = ask(&[]).unwrap();
        assert_eq!((all.worker, all.next, all.most, all.filter), (0, 0, 1024, FdbFilter::default()));
        let one =
            ask(&[("mac", "02:00:00:00:00:AB"), ("vlan", "7"), ("port", "p0"), ("limit", "5")]).unwrap();
        assert_eq!(
            (one.filter.address, one.filter.vid, one.filter.port, one.most),
            (Some(0x0200_0000_00ab), Some(7), Some(PortId(0)), 5)
        );
        assert_eq!(ask(&[("mac", "0xbeef")]).unwrap().filter.address, Some(0xbeef));
        let other = ask(&[("after", "1-96")]).unwrap();
        assert!(other.filter.learned_only && (other.worker, other.next) == (1, 96));
        for (parameter, values) in [
            ("limit", &["0", "4097", "-1", "many", ""][..]),
            ("after", &["", "1", "2-0", "-", "0-x", "0-99999999999999999999999"]),
            ("port", &["p7", ""]),
            (
                "mac",
                &[
                    "",
                    "02",
                    "02:00:00:00:00",
                    "02:00:00:00:00:00:00",
                    "0x",
                    "0x1000000000000",
                    "+2:00:00:00:00:00",
                    "é2:00:00:00:00:0",
                ],
            ),
            ("vlan", &["4096", "-1", "x"]),
        ] {
            for value in values {
                assert_eq!(ask(&[(parameter, value)]), Err(parameter), "{value}");
            }
        }
    }

    #[test]
    fn a_page_says_who_is_where_and_what_was_counted() {
        let mut fdb = Fdb::new(64, 16, 1);
        fdb.set_learning(PortId(0), true, u32::MAX);
        fdb.learn(1 << 60 | 5 << 48 | 0x0200_0000_0001, PortId(0), 3);
        fdb.add_static(2 << 60 | 0x1f, PortId(1)).unwrap();
        fdb.add_group(1 << 60 | 0x0100_5e00_0001, [PortId(0), PortId(1)].into_iter().collect()).unwrap();
        let mut page = FdbPage::new(1, FdbFilter::default(), 0, 100);
        page.tick_ns = 1_500_000_000;
        fdb.read(&mut page, 1000, 5);
        let mut snapshot = fake::snapshot();
        let mut reading = (*snapshot.now).clone();
        let l = &mut reading.loops[1];
        (l.fdb_moved, l.fdb_move_key, l.fdb_move_to) = (3, 1 << 60 | 5 << 48 | 0x0200_0000_00ab, 1);
        snapshot.now = std::sync::Arc::new(reading);
        let page = Page { worker: 0, workers: 2, page: Box::new(page) };
        let document: Value = serde_json::from_str(&page.document(&snapshot).to_string()).unwrap();
        let mut rows = document["fdb"].as_array().unwrap().clone();
        rows.sort_by_key(|row| row["mac"].as_str().unwrap().to_owned());
        assert_eq!(
            rows,
            [
                json!({ "vlan": 0, "mac": "01:00:5e:00:00:01", "port": "p0,p\"1\\", "type": "static", "age_seconds": null, "lcore": null }),
                json!({ "vlan": 5, "mac": "02:00:00:00:00:01", "port": "p0", "type": "dynamic", "age_seconds": 3.0, "lcore": 1 }),
                json!({ "vlan": 0, "mac": "0x1f", "port": "p\"1\\", "type": "static", "age_seconds": null, "lcore": null }),
            ]
        );
        assert_eq!((&document["next"], &document["entries"]), (&json!("1-0"), &json!(2)));
        let workers = &document["workers"];
        assert_eq!((&workers[0]["last_move"], &workers[0]["learned"]), (&Value::Null, &json!(2)));
        let moved = json!({ "mac": "02:00:00:00:00:ab", "vlan": 5, "from": "p0", "to": "p\"1\\" });
        assert_eq!((&workers[1]["moved"], &workers[1]["last_move"]), (&json!(3), &moved));
        let last = Page { worker: 1, ..page };
        assert_eq!(last.next(), None);
        let middle = FdbPage::new(1, FdbFilter::default(), 24, 1);
        assert_eq!(Page { page: Box::new(middle), ..last }.next().as_deref(), Some("1-24"));
    }
}
