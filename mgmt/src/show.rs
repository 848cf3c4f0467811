//! `weir show`: the tables for people, under the headings SONiC gives them.

use crate::api::documents::{
    Count, Event, FdbEntry, FdbKind, FdbMove, FdbPage, FdbWorker, FlowExported, FlowTotal, Flows, Lldp,
    LldpDifferences, LldpInformation, LldpPriority,
};
use crate::table::{Column, Form, Table};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt::{Display, Write};
use weir_layout::{Grid, Unit, counted, percent, scaled};

/// The table that is about one thing, so that a line for each column shows it better than one row.
const RECORD: &str = "switch";

/// The rows of a table as text. Rows in which nothing was counted are left out unless `all`.
pub fn text(table: &Table, rows: &[Value], all: bool) -> String {
    let columns: Vec<&Column> = table.columns.iter().filter(|c| !c.head.is_empty()).collect();
    if table.name == RECORD {
        let mut grid = Grid::new(&["<", "<"]);
        let lines =
            rows.iter().flat_map(|row| columns.iter().map(|c| [c.head.to_owned(), cell(c, &row[c.name])]));
        lines.for_each(|line| grid.push(line));
        return grid.body();
    }
    let shown: Vec<&Value> = rows.iter().filter(|row| all || !is_idle(table, row)).collect();
    let head = |c: &&Column| (c.head.to_owned(), matches!(c.form, Form::Text | Form::Flag));
    let mut grid = Grid::of(columns.iter().map(head));
    shown.iter().for_each(|row| grid.push(columns.iter().map(|c| cell(c, &row[c.name]))));
    let mut text = grid.ruled();
    let left_out = rows.len() - shown.len();
    if left_out > 0 {
        text.push_str(&format!("({} left out: --all shows them)\n", counted(left_out, "idle row")));
    }
    text
}

/// A row by priority in which nothing ever happened.
fn is_idle(table: &Table, row: &Value) -> bool {
    const LANES: [&str; 5] = ["queues", "pgs", "pfc", "ecn", "latency"];
    // What a row is, and what it is allowed, does not make it busy.
    const STANDING: [&str; 10] = [
        "queue",
        "pg",
        "priority",
        "kmin_bytes",
        "kmax_bytes",
        "pmax_ppm",
        "limit_bytes",
        "xoff_bytes",
        "xon_bytes",
        "headroom_size_bytes",
    ];
    let nothing = |value: &Value| match value {
        Value::Number(n) => n.as_f64() == Some(0.0),
        Value::Bool(_) | Value::Null => true,
        _ => false,
    };
    let counts = |c: &&Column| !STANDING.contains(&c.name) && c.form != Form::Text;
    LANES.contains(&table.name) && table.columns.iter().filter(counts).all(|c| nothing(&row[c.name]))
}

fn cell(column: &Column, value: &Value) -> String {
    match (column.form, value) {
        (_, Value::Null) => "N/A".to_owned(),
        (_, Value::String(text)) => text.clone(),
        (_, Value::Bool(yes)) => if *yes { "yes" } else { "no" }.to_owned(),
        (Form::Share, value) => percent(value.as_f64().unwrap_or(0.0), 2),
        (Form::Rate, value) => scaled(value.as_f64().unwrap_or(0.0)),
        (_, value) => value.to_string(),
    }
}

/// By VLAN, then by address, then by where it is.
pub fn fdb_order(entry: &FdbEntry) -> (u16, String, String) {
    (entry.vlan, entry.mac.clone(), entry.port.clone())
}

/// The forwarding table as SONiC's `show mac` shows it, with age, and what workers have counted.
pub fn fdb(document: &FdbPage) -> String {
    let mut grid = Grid::new(&[">No.", ">Vlan", "<MacAddress", "<Port", "<Type", ">Age/s"]);
    for (i, entry) in document.fdb.iter().enumerate() {
        grid.push([
            (i + 1).to_string(),
            entry.vlan.to_string(),
            entry.mac.clone(),
            entry.lag.as_ref().unwrap_or(&entry.port).clone(),
            match entry.r#type {
                FdbKind::Static => "Static".to_owned(),
                FdbKind::Dynamic => "Dynamic".to_owned(),
                FdbKind::Joined => "Joined".to_owned(),
            },
            entry.age_seconds.map_or("N/A".to_owned(), |age| format!("{age:.0}")),
        ]);
    }
    let mut text = grid.ruled();
    let _ = writeln!(text, "Total number of entries {}", document.fdb.len());
    for worker in &document.workers {
        let FdbWorker { lcore, entries, learned, moved, aged, refused, last_move } = worker;
        let _ = writeln!(
            text,
            "lcore {}: {entries} in its table, {learned} learned, {moved} moved, {aged} aged out, {refused} refused",
            or_dash(*lcore)
        );
        if let Some(FdbMove { mac, vlan, from, to }) = last_move {
            let _ = writeln!(text, "  last move: {mac} (VLAN {vlan}) from {from} to {to}");
        }
    }
    text
}

fn or_dash<T: Display>(value: Option<T>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| value.to_string())
}

/// The flows behind what happened, and of each port and cause how much there was.
pub fn flows(document: &Flows) -> String {
    if !document.recorded {
        return "flows are not recorded: `[flows] enable = false`\n".to_owned();
    }
    let share = |of_one: f64| Unit::PERCENT.number(of_one);
    // Where more flows came than can be kept there are two bounds.
    let range = |low: String, high: String| if low == high { low } else { format!("{low}-{high}") };
    let heads = ["<Port", "<Cause", ">Prio", "<From", "<Flow", ">Share/%", ">Count", "<Unit", "<Reason"];
    let mut grid = Grid::new(&heads);
    for row in &document.flows {
        grid.push([
            row.port.clone().unwrap_or_default(),
            row.cause.to_string(),
            row.priority.to_string(),
            row.from.clone().unwrap_or_default(),
            row.flow.clone(),
            range(share(row.share), share(row.share_at_most)),
            range(row.count.to_string(), row.count_at_most.to_string()),
            row.unit.to_string(),
            row.reason.clone().unwrap_or_default(),
        ]);
    }
    let mut text = grid.ruled();
    for FlowTotal { port, cause, total, unit, looked_at, other_share, unseen_share, seconds } in
        &document.totals
    {
        let unseen = match share(*unseen_share) {
            none if none == "0.0" => String::new(),
            share => format!(", {share} % not looked at"),
        };
        let other = share(*other_share);
        let _ = writeln!(
            text,
            "{port} {cause}: {total} {unit} in {seconds} s, {} looked at, {other} % of others{unseen}",
            counted(*looked_at, "frame")
        );
    }
    document.export.iter().for_each(|export| text += &exported(export));
    text
}

/// What became of the export of flows.
fn exported(export: &FlowExported) -> String {
    let FlowExported {
        collector,
        domain,
        records,
        messages,
        lost_records,
        failed_messages,
        missed_seconds,
        ..
    } = export;
    let failed = export.error.as_ref().map(|error| format!(" ({error})")).unwrap_or_default();
    format!(
        "export to {collector} every {} s, domain {domain}: {records} records in {messages} messages; lost {lost_records} in \
         {failed_messages}{failed}, missed {missed_seconds} s\n",
        export.interval_seconds
    )
}

/// Neighbours of each port, and what they are told.
pub fn lldp(document: &Lldp) -> String {
    if !document.enabled {
        return "nobody speaks LLDP: `[lldp] enable = false`\n".to_owned();
    }
    let heads = [
        "<Port", "<Who", "<Chassis", "<Port ID", "<System", ">TTL/s", "<PFC", "<ETS/%", ">Frame", "<Willing",
        "<Differs",
    ];
    let mut grid = Grid::new(&heads);
    let mut told = |port: &str, who: &str, says: &LldpInformation, ttl: u64, differs: String| {
        grid.push([
            port.to_owned(),
            who.to_owned(),
            says.chassis.clone(),
            says.port_id.clone(),
            or_dash(says.system_name.as_ref()),
            ttl.to_string(),
            says.pfc.as_ref().map_or("-".to_owned(), |pfc| listed(&pfc.priorities, "none")),
            says.ets.as_ref().map_or("-".to_owned(), |ets| ets_words(&ets.priorities)),
            or_dash(says.max_frame_bytes),
            willing_words(says),
            differs,
        ]);
    };
    for port in &document.ports {
        if let Some(sent) = &port.sent {
            told(&port.port, "we", sent, sent.ttl_seconds.into(), "-".to_owned());
        }
        for peer in &port.neighbours {
            let differs = difference_words(&peer.differences);
            told(&port.port, "peer", &peer.information, peer.ttl_left_seconds, differs);
        }
    }
    let mut text = grid.ruled();
    for port in &document.ports {
        let named = [
            (&port.rx_no_room_frames, "frames that came too fast"),
            (&port.rx_malformed_frames, "malformed frames"),
            (&port.rx_too_many_frames, "frames of further neighbours"),
            (&port.rx_discarded_tlvs, "malformed TLVs"),
            (&port.tx_refused_frames, "frames that could not be sent"),
        ];
        for (frames, what) in named.into_iter().filter(|(frames, _)| **frames != Count::Number(0)) {
            let _ = writeln!(text, "{}: {frames} {what}", port.port);
        }
    }
    text
}

/// `3,4`, or the word for none of them.
fn listed(priorities: &[usize], none: &str) -> String {
    let named: Vec<_> = priorities.iter().map(usize::to_string).collect();
    if named.is_empty() { none.to_owned() } else { named.join(",") }
}

/// Where a neighbour does not fit: `pfc 3,4; frame`.
pub fn difference_words(differences: &LldpDifferences) -> String {
    let mut found: Vec<String> = [("pfc", &differences.pfc), ("ets", &differences.ets)]
        .into_iter()
        .filter(|(_, priorities)| !priorities.is_empty())
        .map(|(what, priorities)| format!("{what} {}", listed(priorities, "")))
        .collect();
    found.extend(differences.frame_size.then(|| "frame".to_owned()));
    if found.is_empty() { "no".to_owned() } else { found.join("; ") }
}

/// What a station takes over from its neighbour.
fn willing_words(says: &LldpInformation) -> String {
    let all = [
        ("pfc", says.pfc.as_ref().map(|pfc| pfc.willing)),
        ("ets", says.ets.as_ref().map(|ets| ets.willing)),
    ];
    if all.iter().all(|(_, willing)| willing.is_none()) {
        return "-".to_owned();
    }
    let named: Vec<_> = all.into_iter().filter(|(_, w)| *w == Some(true)).map(|(name, _)| name).collect();
    if named.is_empty() { "no".to_owned() } else { named.join(",") }
}

/// What each priority gets: `10,10,10,30,..`; `s` is strict priority, `c` a credit-based shaper, `v` the vendor's own.
fn ets_words(priorities: &[LldpPriority]) -> String {
    let one = |priority: &LldpPriority| match priority.algorithm.as_str() {
        "ets" => priority.bandwidth_percent.to_string(),
        "strict" => "s".to_owned(),
        "credit_based" => "c".to_owned(),
        "vendor" => "v".to_owned(),
        _ => "?".to_owned(),
    };
    priorities.iter().map(one).collect::<Vec<_>>().join(",")
}

/// One event on one line: time, what, where, and the numbers.
pub fn event(event: &Event) -> String {
    let (s, ms) = (event.unix_ms / 1000 % 86_400, event.unix_ms % 1000);
    let at = format!("{:02}:{:02}:{:02}.{ms:03}Z", s / 3600, s / 60 % 60, s % 60);
    // By their keys, as in JSON.
    let mut named: BTreeMap<&str, String> = BTreeMap::new();
    named.extend(event.port.as_ref().map(|port| ("port", port.clone())));
    named.extend(event.priority.map(|priority| ("priority", priority.to_string())));
    named.extend(event.remedy.as_ref().map(|remedy| ("remedy", remedy.clone())));
    for (key, value) in event.more.iter().filter(|(key, _)| *key != "since_unix_ms") {
        named.insert(key, value.as_str().map_or_else(|| value.to_string(), str::to_owned));
    }
    let named: Vec<_> = named.iter().map(|(key, value)| format!("{key}={value}")).collect();
    // The lines before it were of other events.
    let mut line = Grid::new(&["<at", "<event", "<phase", "<more"]).at_least(&[0, 11, 7]);
    line.push([at, event.event.to_string(), event.phase.to_string(), named.join(" ")]);
    line.body().trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake;
    use serde_json::json;

    fn shown(name: &str, all: bool) -> String {
        let table = Table::named(name).unwrap();
        text(table, &table.rows(&fake::snapshot(), None), all)
    }

    #[test]
    fn queues_under_sonics_headings_without_idle_ones() {
        let text = shown("queues", false);
        let lines: Vec<_> = text.lines().collect();
        let heads: Vec<_> = lines[0].split_whitespace().collect();
        assert_eq!(heads[..5], ["Port", "TxQ", "Counter/pkts", "Counter/bytes", "Drop/pkts"]);
        assert_eq!(lines.len(), 2 + 2 + 1, "{text}");
        let row: Vec<_> = lines[2].split_whitespace().collect();
        assert_eq!(row[..6], ["p0", "3", "2000", "2000000", "0", "80.00M"]);
        assert_eq!(lines[4], "(14 idle rows left out: --all shows them)");
        assert_eq!(shown("queues", true).lines().count(), 2 + 16);
    }

    #[test]
    fn every_table_lines_up() {
        let (record, tables): (Vec<_>, Vec<_>) = crate::table::ALL.iter().partition(|t| t.name == RECORD);
        let text = shown(record[0].name, true);
        assert!(text.lines().any(|line| line.split_whitespace().eq(["Lossless", "drops", "0"])), "{text}");
        assert!(text.lines().all(|line| line.len() < 80), "{text}");
        for table in tables {
            let text = shown(table.name, true);
            let rule = text.lines().nth(1).unwrap();
            assert!(rule.chars().all(|c| c == '-' || c == ' '), "{}", table.name);
            assert!(table.columns.iter().any(|c| !c.head.is_empty()), "{}", table.name);
        }
        assert!(shown("buffer", true).contains("N/A"));
        assert!(shown("lcores", true).contains("40.00%"));
    }

    #[test]
    fn the_forwarding_table_as_sonic_shows_it() {
        let moved = json!({ "mac": "02:00:00:00:00:01", "vlan": 5, "from": "p0", "to": "p1" });
        let entry = |vlan, mac: &str, kind: &str, age: Option<f64>| json!({ "vlan": vlan, "mac": mac, "port": "p1", "type": kind, "age_seconds": age });
        let mut behind_lag = entry(0, "02:00:00:00:00:08", "static", None);
        behind_lag["lag"] = "po1".into();
        let document: FdbPage = serde_json::from_value(json!({
            "switch_name": "weir", "unix_ms": 0, "uptime_seconds": 1.0, "window_seconds": 1.0, "entries": 3,
            "fdb": [behind_lag, entry(0, "02:00:00:00:00:09", "static", None), entry(5, "02:00:00:00:00:01", "dynamic", Some(18.75))],
            "workers": [{ "lcore": 3, "entries": 2, "learned": 7, "moved": "9", "aged": 1, "refused": 0, "last_move": moved }],
        }))
        .unwrap();
        let text = fdb(&document);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(
            lines[0].split_whitespace().collect::<Vec<_>>(),
            ["No.", "Vlan", "MacAddress", "Port", "Type", "Age/s"]
        );
        assert_eq!(
            lines[2].split_whitespace().collect::<Vec<_>>(),
            ["1", "0", "02:00:00:00:00:08", "po1", "Static", "N/A"]
        );
        assert_eq!(
            lines[3].split_whitespace().collect::<Vec<_>>(),
            ["2", "0", "02:00:00:00:00:09", "p1", "Static", "N/A"]
        );
        assert_eq!(
            lines[4].split_whitespace().collect::<Vec<_>>(),
            ["3", "5", "02:00:00:00:00:01", "p1", "Dynamic", "19"]
        );
        assert_eq!(
            lines[5..],
            [
                "Total number of entries 3",
                "lcore 3: 2 in its table, 7 learned, 9 moved, 1 aged out, 0 refused",
                "  last move: 02:00:00:00:00:01 (VLAN 5) from p0 to p1",
            ]
        );
        assert!(fdb_order(&document.fdb[1]) < fdb_order(&document.fdb[2]));
    }

    #[test]
    fn an_event_on_a_line() {
        let body = json!({
            "id": 3, "unix_ms": 3_723_004u64, "event": "burst", "phase": "start", "port": "p0", "peak_bytes": 9,
        });
        assert_eq!(
            event(&serde_json::from_value(body).unwrap()),
            "01:02:03.004Z  burst        start    peak_bytes=9 port=p0"
        );
    }
}
