//! What `show` of SONiC shows, under its words and its headings, from the tables and the configuration of a running
//! switch. Where weir does not know what a column asks for, the cell is `N/A`, as there.
//!
//! Headings and titles: sonic-utilities, `show/` and `scripts/` (`intfstat`, `pfcstat`, `queuestat`, `watermarkstat`,
//! `pg-drop`, `pfcwd`, `mmuconfig`).

mod buffers;
mod counters;
mod lags;
mod lldp;
mod ports;

use crate::api::documents;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use weir_dataplane::types::PRIORITIES;
use weir_layout as layout;

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
    /// What else it is made from.
    pub also: Also,
    make: fn(&Answers, bool) -> Vec<Grid>,
}

/// What a view is made from beside tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Also {
    /// Nothing.
    Nothing,
    /// The configuration, as SONiC's tables.
    Config,
    /// Neighbours.
    Lldp,
}

use Also::{Config, Lldp, Nothing};

/// Every view.
pub const ALL: &[View] = &[
    view("interfaces status", "Ports: speed, mtu, link.", &["ports"], Config, ports::status),
    view("interfaces counters", "Ports: frames, rates, loss.", &["ports"], Nothing, ports::counters),
    view("interfaces portchannel", "LAGs: protocol, members.", &["lag"], Nothing, lags::port_channels),
    view("pfc counters", "PFC frames by priority, both directions.", &["pfc"], Nothing, counters::pfc),
    view("pfc priority", "Priorities with PFC.", &[], Config, ports::pfc_priority),
    view("pfc asymmetric", "Which ports obey PFC of all priorities.", &[], Config, ports::pfc_asymmetric),
    view("queue counters", "Frames and bytes by queue.", &["queues"], Nothing, counters::queues),
    view("queue wredcounters", "Frames marked by queue.", &["ecn"], Nothing, counters::wred),
    view("queue watermark", "Most bytes held by queue.", &["queues"], Nothing, counters::queue_watermark),
    view("queue watermark unicast", "The same.", &["queues"], Nothing, counters::queue_watermark),
    view(
        "queue watermark multicast",
        "Queues of their own: none.",
        &["queues"],
        Nothing,
        counters::multicast,
    ),
    view("queue watermark all", "Most bytes held by queue.", &["queues"], Nothing, counters::all_queues),
    view("priority-group watermark", "Most bytes held by group.", &["pgs"], Nothing, counters::pg_watermark),
    view("priority-group watermark shared", "Most shared bytes.", &["pgs"], Nothing, counters::pg_shared),
    view("priority-group watermark headroom", "Most headroom.", &["pgs"], Nothing, counters::pg_headroom),
    view("priority-group drop counters", "Frames refused by group.", &["pgs"], Nothing, counters::pg_drops),
    view("pfcwd stats", "Storms by queue.", &["pfc", "queues"], Config, counters::pfcwd),
    view("pfcwd config", "The PFC watchdog.", &[], Config, ports::pfcwd_config),
    view("buffer pool", "Pools: size, use, most.", &["buffer"], Config, buffers::pools),
    view("buffer configuration", "Pools and profiles.", &[], Config, buffers::configuration),
    view("buffer information", "The same.", &[], Config, buffers::configuration),
    view(
        "buffer_pool watermark",
        "Most bytes of the shared buffer.",
        &["buffer"],
        Nothing,
        buffers::watermark,
    ),
    view("headroom-pool watermark", "Most headroom.", &["buffer"], Nothing, buffers::headroom),
    view("lldp table", "Neighbours, a row each.", &[], Lldp, lldp::table),
    view("lldp neighbors", "Neighbours, field by field.", &[], Lldp, lldp::neighbors),
];

const fn view(
    words: &'static str,
    what: &'static str,
    tables: &'static [&'static str],
    also: Also,
    make: fn(&Answers, bool) -> Vec<Grid>,
) -> View {
    View { words, what, tables, also, make }
}

impl View {
    /// The view these words ask for. Watermarks are since start, as those that SONiC calls persistent.
    pub fn named(words: &str) -> Option<&'static View> {
        let words = words.replace(" persistent-watermark", " watermark");
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
    lldp: Option<documents::Lldp>,
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

    /// Neighbours.
    pub fn add_lldp(&mut self, neighbours: documents::Lldp) {
        self.lldp = Some(neighbours);
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
        Grid::of(title, std::iter::once(first.to_owned()).chain(heads), rows)
    }
}

/// One table as it is shown: the first column to the left, the others to the right.
struct Grid {
    title: String,
    cells: layout::Grid,
}

impl Grid {
    fn new(title: &str, heads: &[&str], rows: Vec<Vec<String>>) -> Self {
        Self::of(title, heads.iter().map(|head| (*head).to_owned()), rows)
    }

    /// The same, of texts alone: all to the left.
    fn texts(title: &str, heads: &[&str], rows: Vec<Vec<String>>) -> Self {
        Self::with(title, heads.iter().map(|head| ((*head).to_owned(), true)), rows)
    }

    fn of(title: &str, heads: impl IntoIterator<Item = String>, rows: Vec<Vec<String>>) -> Self {
        Self::with(title, heads.into_iter().enumerate().map(|(i, head)| (head, i == 0)), rows)
    }

    fn with(title: &str, heads: impl IntoIterator<Item = (String, bool)>, rows: Vec<Vec<String>>) -> Self {
        let mut cells = layout::Grid::of(heads);
        rows.into_iter().for_each(|row| cells.push(row));
        Self { title: title.to_owned(), cells }
    }

    fn text(&self) -> String {
        let title = if self.title.is_empty() { String::new() } else { format!("{}\n", self.title) };
        title + &self.cells.ruled()
    }

    fn json(&self) -> Value {
        let row = |cells: &mut dyn Iterator<Item = (&str, &str)>| {
            Value::Object(cells.map(|(head, cell)| (head.to_owned(), json!(cell))).collect::<Map<_, _>>())
        };
        let rows: Vec<Value> = self.cells.cells().map(|mut cells| row(&mut cells)).collect();
        json!({ "title": self.title, "rows": rows })
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

#[cfg(test)]
mod tests;
