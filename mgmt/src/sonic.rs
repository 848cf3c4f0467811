//! What `show` of SONiC shows, under its words and its headings, from the tables and the configuration of a running
//! switch. Where weir does not know what a column asks for, the cell is `N/A`, as there.
//!
//! Headings and titles: sonic-utilities, `show/` and `scripts/` (`intfstat`, `pfcstat`, `queuestat`, `watermarkstat`,
//! `pg-drop`, `pfcwd`, `mmuconfig`).

mod buffers;
mod counters;
mod ports;

use crate::show::align;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use weir_dataplane::types::PRIORITIES;

/// Where the configuration in force is served as SONiC's tables.
pub const PATH: &str = "/v1/config/sonic";

/// One thing to see.
#[derive(Debug)]
pub struct View {
    /// What is typed behind `show`.
    pub words: &'static str,
    /// What it shows.
    pub what: &'static str,
    /// Names of the tables ([`crate::table::Table`]) it is made from.
    pub tables: &'static [&'static str],
    /// It is made from the configuration, too.
    pub config: bool,
    make: fn(&Answers, bool) -> Vec<Grid>,
}

/// Every view.
pub const ALL: &[View] = &[
    view("interfaces status", "Ports: speed, mtu, link.", &["ports"], true, ports::status),
    view("interfaces counters", "Ports: frames, rates, loss.", &["ports"], false, ports::counters),
    view("pfc counters", "PFC frames by priority, both directions.", &["pfc"], false, counters::pfc),
    view("pfc priority", "Priorities with PFC.", &[], true, ports::pfc_priority),
    view("pfc asymmetric", "Which ports obey PFC of all priorities.", &[], true, ports::pfc_asymmetric),
    view("queue counters", "Frames and bytes by queue.", &["queues"], false, counters::queues),
    view("queue wredcounters", "Frames marked by queue.", &["ecn"], false, counters::wred),
    view("queue watermark", "Most bytes held by queue.", &["queues"], false, counters::queue_watermark),
    view("queue watermark unicast", "The same.", &["queues"], false, counters::queue_watermark),
    view("queue persistent-watermark", "The same.", &["queues"], false, counters::queue_watermark),
    view("priority-group watermark", "Most bytes held by group.", &["pgs"], false, counters::pg_watermark),
    view("priority-group watermark shared", "Most shared bytes.", &["pgs"], false, counters::pg_shared),
    view("priority-group watermark headroom", "Most headroom.", &["pgs"], false, counters::pg_headroom),
    view("priority-group persistent-watermark", "The same.", &["pgs"], false, counters::pg_watermark),
    view("priority-group drop counters", "Frames refused by group.", &["pgs"], false, counters::pg_drops),
    view("pfcwd stats", "Storms by queue.", &["pfc", "queues"], false, counters::pfcwd),
    view("pfcwd config", "The PFC watchdog.", &[], true, ports::pfcwd_config),
    view("buffer pool", "Pools: size, use, most.", &["buffer"], true, buffers::pools),
    view("buffer configuration", "Pools and profiles.", &[], true, buffers::configuration),
    view("buffer information", "The same.", &[], true, buffers::configuration),
    view("buffer_pool watermark", "Most bytes of the shared buffer.", &["buffer"], false, buffers::watermark),
    view("headroom-pool watermark", "Most headroom.", &["buffer"], false, buffers::headroom),
];

const fn view(
    words: &'static str,
    what: &'static str,
    tables: &'static [&'static str],
    config: bool,
    make: fn(&Answers, bool) -> Vec<Grid>,
) -> View {
    View { words, what, tables, config, make }
}

impl View {
    /// The view these words ask for.
    pub fn named(words: &str) -> Option<&'static View> {
        ALL.iter().find(|view| view.words == words)
    }

    /// As text; without `all` rows in which nothing happened are left out where SONiC leaves them out.
    pub fn text(&self, answers: &Answers, all: bool) -> String {
        (self.make)(answers, all).iter().map(Grid::text).collect::<Vec<_>>().join("\n")
    }

    /// As JSON: a list of titles and rows, whose keys are the headings.
    pub fn json(&self, answers: &Answers, all: bool) -> Value {
        (self.make)(answers, all).iter().map(Grid::json).collect()
    }
}

/// What a switch has answered.
#[derive(Debug, Default)]
pub struct Answers {
    tables: BTreeMap<String, Value>,
    config: Value,
    port: Option<String>,
}

impl Answers {
    /// Of one port, or of all.
    pub fn new(port: Option<&str>) -> Self {
        Self { port: port.map(str::to_owned), ..Self::default() }
    }

    /// The rows of a table.
    pub fn add_table(&mut self, name: &str, rows: Value) {
        self.tables.insert(name.to_owned(), rows);
    }

    /// SONiC's tables.
    pub fn add_config(&mut self, tables: Value) {
        self.config = tables;
    }

    fn rows(&self, table: &str) -> &[Value] {
        self.tables.get(table).and_then(Value::as_array).map_or(&[], Vec::as_slice)
    }

    /// Names of the ports in a table, each once, in order.
    fn ports(&self, table: &str) -> Vec<&str> {
        let mut names: Vec<&str> = self.rows(table).iter().filter_map(|row| row["port"].as_str()).collect();
        names.dedup();
        names
    }

    /// A table of the configuration, with the keys of the port that was asked for.
    fn config(&self, table: &str) -> Vec<(&str, &Value)> {
        let wanted =
            |key: &str| self.port.as_deref().is_none_or(|port| key == port || table.starts_with("BUFFER_P"));
        let rows = self.config[table].as_object().into_iter().flatten();
        let mut rows: Vec<_> =
            rows.filter(|(key, _)| wanted(key)).map(|(key, row)| (key.as_str(), row)).collect();
        rows.sort_by_key(|(key, _)| in_order(key));
        rows
    }

    /// The names of the ports in the configuration, in order.
    fn configured(&self) -> Vec<(&str, &Value)> {
        self.config("PORT")
    }

    /// One cell for each priority of a port, behind its name.
    fn by_priority(&self, table: &str, port: &str, cell: impl Fn(&Value) -> String) -> Vec<String> {
        let rows = self.rows(table).iter().filter(|row| row["port"] == port);
        std::iter::once(port.to_owned()).chain(rows.map(cell)).collect()
    }

    /// A grid with a row for each port and a column for each priority.
    fn grid_by_priority(
        &self,
        table: &str,
        (title, first, prefix): (&str, &str, &str),
        cell: impl Fn(&Value) -> String + Copy,
    ) -> Grid {
        let heads = (0..PRIORITIES).map(|i| format!("{prefix}{i}"));
        let rows = self.ports(table).into_iter().map(|port| self.by_priority(table, port, cell)).collect();
        Grid { title: title.into(), heads: std::iter::once(first.to_owned()).chain(heads).collect(), rows }
    }
}

/// One table as it is shown. Without headings it is a list of names and values.
struct Grid {
    title: String,
    heads: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl Grid {
    fn new(title: &str, heads: &[&str], rows: Vec<Vec<String>>) -> Self {
        Self { title: title.into(), heads: heads.iter().map(|head| (*head).to_owned()).collect(), rows }
    }

    fn text(&self) -> String {
        let title = if self.title.is_empty() { String::new() } else { format!("{}\n", self.title) };
        let lines: Vec<Vec<String>> = std::iter::once(&self.heads).chain(&self.rows).cloned().collect();
        title + &align(&lines, |i| i == 0)
    }

    fn json(&self) -> Value {
        let row = |row: &Vec<String>| {
            let cells = self.heads.iter().zip(row).map(|(head, cell)| (head.clone(), json!(cell)));
            Value::Object(cells.collect::<Map<_, _>>())
        };
        json!({ "title": self.title, "rows": self.rows.iter().map(row).collect::<Vec<_>>() })
    }
}

/// By the name, then by the number at its end: Ethernet4 stands before Ethernet12.
fn in_order(key: &str) -> (&str, u64) {
    let name = key.trim_end_matches(|c: char| c.is_ascii_digit());
    (name, key[name.len()..].parse().unwrap_or(0))
}

/// A value as SONiC shows it.
fn cell(value: &Value) -> String {
    match value {
        Value::Null => "N/A".to_owned(),
        Value::String(text) => text.clone(),
        value => value.to_string(),
    }
}

/// A counter, which is a text where it is above 2^53.
fn number(value: &Value) -> u64 {
    value.as_u64().or_else(|| value.as_str()?.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests;
