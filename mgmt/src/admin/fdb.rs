//! The forwarding table, page by page: each worker tells what it has learned itself, the first one what is configured.

use crate::api::documents::{FdbEntry, FdbKind, FdbMove, FdbWorker, json};
use crate::api::given::Given;
use crate::api::{Kind, Parameter, parameter};
use crate::snapshot::{Snapshot, SwitchInfo};
use crate::table::{counter, stamp};
use crate::text::Text;
use axum::http::StatusCode;
use serde_json::{Value, json};
use std::fmt::Write;
use weir_dataplane::fdb::{FdbFilter, FdbPage, FdbRow};
use weir_dataplane::parse::KeyParts;
use weir_dataplane::types::{Nanos, PortId};

/// Where it is served.
pub const PATH: &str = "/v1/fdb";

/// Most entries of a page, and how many it has unless somebody says otherwise.
const MOST: u64 = 4096;
const USUAL: u64 = 1024;

/// What may be asked for.
pub(crate) const PARAMETERS: [Parameter; 5] = [
    parameter("limit", "entries of a page; 1024 unless given", Kind::Integer(1, MOST)),
    parameter("after", "`next` of the page before", Kind::Pattern("^[0-9]+-[0-9]+$")),
    parameter(
        "port",
        "entries that point to this port, or to the LAG it is in, or to the LAG of this name",
        Kind::PortOrLag,
    ),
    parameter(
        "mac",
        "entries of this address: six bytes, or a number in the formats with shorter ones",
        Kind::Pattern("^(0x0*[0-9a-fA-F]{1,12}|([0-9a-fA-F]{2}[:-]){5}[0-9a-fA-F]{2})$"),
    ),
    parameter("vlan", "entries of this VLAN; 0: untagged", Kind::Integer(0, 4095)),
];

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

/// What is wrong with a question: status, parameter, why, and what to do about it.
pub(crate) type Wrong = (StatusCode, &'static str, String, String);

impl Question {
    /// From the parameters of a query.
    ///
    /// # Errors
    /// The parameter at fault.
    pub(crate) fn of(given: &Given, snapshot: &Snapshot) -> Result<Self, Wrong> {
        let bad = |parameter, wanted: &str| {
            (
                StatusCode::BAD_REQUEST,
                parameter,
                format!("{wanted} is wanted here"),
                format!("write {wanted}"),
            )
        };
        let (worker, next) = match given.text("after") {
            None => (0, 0),
            Some(text) => {
                let place = text.split_once('-').filter(|(w, n)| is_number(w) && is_number(n));
                let (w, n) = place.ok_or_else(|| bad("after", "the `next` of the page before"))?;
                let known = w.parse().ok().filter(|worker| *worker < snapshot.info.lcores.len());
                let (no_page, again) = ("there is no such page", "begin again, without `after`");
                let gone = || (StatusCode::NOT_FOUND, "after", no_page.to_owned(), again.to_owned());
                (known.ok_or_else(gone)?, n.parse().map_err(|_| gone())?)
            }
        };
        let wrong = || bad("mac", "six bytes as 02:00:00:00:00:01, or a number as 0x1f");
        let address = given.text("mac").map(|text| address_of(text).ok_or_else(wrong)).transpose()?;
        Ok(Self {
            worker,
            next,
            filter: FdbFilter {
                port: given.text("port").and_then(|name| fdb_port(&snapshot.info, name)),
                address,
                vid: given.number("vlan").map(|vid| vid as u16),
                learned_only: worker != 0,
            },
            most: given.number("limit").unwrap_or(USUAL) as usize,
        })
    }
}

/// Where the table has the stations behind a port or LAG of this name: at the first member of a LAG.
fn fdb_port(info: &SwitchInfo, name: &str) -> Option<PortId> {
    let port = info.ports.iter().position(|port| port.name == name).map(|port| PortId(port as u16));
    let lag = match port {
        Some(port) => info.lag_of(port),
        None => info.lags.iter().find(|lag| lag.name == name),
    };
    lag.and_then(|lag| lag.members.iter().min().copied()).or(port)
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit())
}

/// Address bits as somebody writes them.
pub(crate) fn address_of(text: &str) -> Option<u64> {
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

impl Page {
    /// Where the next page begins; `None`: this was the last.
    pub fn next(&self) -> Option<String> {
        match (self.page.next, self.worker + 1) {
            (FdbPage::DONE, next) => (next < self.workers).then(|| format!("{next}-0")),
            (next, _) => Some(format!("{}-{next}", self.worker)),
        }
    }

    /// The document ([`crate::api::documents::FdbPage`]): the page, and what workers have counted.
    pub fn document(&self, snapshot: &Snapshot) -> Text {
        let mut out = Text::default();
        for (i, (name, value)) in stamp(snapshot).into_iter().enumerate() {
            let _ = write!(out, "{}\"{name}\":{value}", if i == 0 { "{" } else { "," });
        }
        // Every worker's table has the entries of all.
        let entries = snapshot.now.loops.iter().map(|l| l.fdb_entries).max().unwrap_or(0);
        let workers: Vec<Value> = (0..snapshot.now.loops.len()).map(|i| json(&worker(snapshot, i))).collect();
        let _ = write!(out, ",\"entries\":{entries},\"workers\":{},\"fdb\":[", Value::Array(workers));
        let lcore = lcore(snapshot, self.worker);
        for row in self.page.rows() {
            let comma = if out.ends_with(b'[') { "" } else { "," };
            let _ = write!(out, "{comma}{}", json(&entry(row, self.page.tick_ns, snapshot, lcore)));
        }
        let _ = write!(out, "],\"next\":{}}}", json!(self.next()));
        out.push_str("\n");
        out
    }
}

fn lcore(snapshot: &Snapshot, worker: usize) -> Option<usize> {
    snapshot.info.lcores.get(worker).copied()
}

fn port_name(snapshot: &Snapshot, port: usize) -> &str {
    snapshot.info.ports.get(port).map_or("", |port| port.name.as_str())
}

fn entry(row: &FdbRow, tick_ns: Nanos, snapshot: &Snapshot, lcore: Option<usize>) -> FdbEntry {
    let key = KeyParts::of(row.key);
    let ports: Vec<&str> = row.ports.iter().map(|port| port_name(snapshot, port.index())).collect();
    // What every worker has, and no station.
    let is_of_all = row.is_static || row.is_joined;
    let ages = !is_of_all && tick_ns != Nanos::MAX;
    let age = u128::from(row.age_ticks) * u128::from(tick_ns);
    let only = row.ports.iter().next().filter(|_| ports.len() == 1);
    FdbEntry {
        lag: only.and_then(|port| snapshot.info.lag_of(port)).map(|lag| lag.name.clone()),
        vlan: key.vid,
        mac: key.to_string(),
        port: ports.join(","),
        r#type: match (row.is_static, row.is_joined) {
            (true, _) => FdbKind::Static,
            (_, true) => FdbKind::Joined,
            _ => FdbKind::Dynamic,
        },
        age_seconds: ages.then(|| (age / 1_000_000) as f64 / 1e3),
        lcore: lcore.filter(|_| !is_of_all),
    }
}

/// What a worker has counted, and the last address that moved.
fn worker(snapshot: &Snapshot, i: usize) -> FdbWorker {
    let l = &snapshot.now.loops[i];
    let key = KeyParts::of(l.fdb_move_key);
    let moved = || FdbMove {
        mac: key.to_string(),
        vlan: key.vid,
        from: port_name(snapshot, l.fdb_move_from as usize).to_owned(),
        to: port_name(snapshot, l.fdb_move_to as usize).to_owned(),
    };
    FdbWorker {
        lcore: lcore(snapshot, i),
        entries: counter(l.fdb_entries),
        learned: counter(l.fdb_learned),
        moved: counter(l.fdb_moved),
        aged: counter(l.fdb_aged),
        refused: counter(l.fdb_refused),
        last_move: (l.fdb_move_key != 0).then(moved),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake;
    use weir_dataplane::fdb::Fdb;

    fn ask(given: &[(&str, &str)]) -> Result<Question, String> {
        let query: Vec<_> = given.iter().map(|(n, v)| format!("{n}={}", crate::client::encode(v))).collect();
        let endpoint = crate::api::find("GET", PATH).unwrap();
        let snapshot = fake::snapshot();
        let given = Given::read(endpoint, PATH, Some(&query.join("&")), &snapshot.info);
        let given = given.map_err(|problem| {
            let body = problem.into_body();
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            let bytes = runtime.block_on(axum::body::to_bytes(body, 1 << 16)).unwrap();
            let problem: Value = serde_json::from_slice(&bytes).unwrap();
            problem["parameter"].as_str().unwrap().to_owned()
        })?;
        Question::of(&given, &snapshot).map_err(|(_, parameter, ..)| parameter.to_owned())
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
        // Stations of a LAG are known at its first port.
        for port in ["po1", "p\"1\\"] {
            assert_eq!(ask(&[("port", port)]).unwrap().filter.port, Some(PortId(0)), "{port}");
        }
        assert_eq!(ask(&[("mac", "0xbeef")]).unwrap().filter.address, Some(0xbeef));
        let other = ask(&[("after", "1-96")]).unwrap();
        assert!(other.filter.learned_only && (other.worker, other.next) == (1, 96));
        for (parameter, values) in [
            ("limit", &["0", "4097", "-1", "many", ""][..]),
            ("after", &["", "1", "2-0", "-", "0-x", "0-99999999999999999999999"]),
            ("port", &["p7", "po2", ""]),
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
                assert_eq!(ask(&[(parameter, value)]), Err(parameter.to_owned()), "{value}");
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
        let typed: crate::api::documents::FdbPage = serde_json::from_value(document.clone()).unwrap();
        assert_eq!(json(&typed), document, "left: what the type says");
        let mut rows = document["fdb"].as_array().unwrap().clone();
        rows.sort_by_key(|row| row["mac"].as_str().unwrap().to_owned());
        assert_eq!(
            rows,
            [
                json!({ "vlan": 0, "mac": "01:00:5e:00:00:01", "port": "p0,p\"1\\", "lag": null, "type": "static", "age_seconds": null, "lcore": null }),
                json!({ "vlan": 5, "mac": "02:00:00:00:00:01", "port": "p0", "lag": "po1", "type": "dynamic", "age_seconds": 3.0, "lcore": 1 }),
                json!({ "vlan": 0, "mac": "0x1f", "port": "p\"1\\", "lag": "po1", "type": "static", "age_seconds": null, "lcore": null }),
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
