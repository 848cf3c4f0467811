//! `weir show`: the tables for people, under the headings SONiC gives them.

use crate::table::{Column, Form, Table};
use serde_json::Value;

/// The rows of a table as text. Rows in which nothing was counted are left out unless `all`.
pub fn text(table: &Table, rows: &[Value], all: bool) -> String {
    let columns: Vec<&Column> = table.columns.iter().filter(|c| !c.head.is_empty()).collect();
    let shown: Vec<&Value> = rows.iter().filter(|row| all || !is_idle(table, row)).collect();
    let mut lines: Vec<Vec<String>> = vec![columns.iter().map(|c| c.head.to_owned()).collect()];
    lines.extend(shown.iter().map(|row| columns.iter().map(|c| cell(c, &row[c.name])).collect()));
    let mut text = align(&lines, |i| matches!(columns[i].form, Form::Text | Form::Flag));
    let left_out = rows.len() - shown.len();
    if left_out > 0 {
        text.push_str(&format!("({left_out} idle rows left out: --all shows them)\n"));
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
        (Form::Share, value) => format!("{:.2}%", value.as_f64().unwrap_or(0.0) * 100.0),
        (Form::Rate, value) => scaled(value.as_f64().unwrap_or(0.0)),
        (_, value) => value.to_string(),
    }
}

fn scaled(value: f64) -> String {
    let scale = [(1e9, "G"), (1e6, "M"), (1e3, "K")].into_iter().find(|(unit, _)| value >= *unit);
    match scale {
        Some((unit, letter)) => format!("{:.2}{letter}", value / unit),
        None => format!("{value:.0}"),
    }
}

pub(crate) fn align(lines: &[Vec<String>], left: impl Fn(usize) -> bool) -> String {
    let columns = lines.first().map_or(0, Vec::len);
    let width = |i: usize| lines.iter().map(|line| line[i].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut text = String::new();
    for (n, line) in lines.iter().enumerate() {
        let padded = line.iter().enumerate().map(|(i, cell)| match left(i) {
            true => format!("{cell:<0$}", widths[i]),
            false => format!("{cell:>0$}", widths[i]),
        });
        text.push_str(padded.collect::<Vec<_>>().join("  ").trim_end());
        text.push('\n');
        if n == 0 {
            let rule: Vec<_> = widths.iter().map(|w| "-".repeat(*w)).collect();
            text.push_str(&rule.join("  "));
            text.push('\n');
        }
    }
    text
}

/// By VLAN, then by address, then by where it is.
pub fn fdb_order(entry: &Value) -> (u64, String, String) {
    let word = |key: &str| entry[key].as_str().unwrap_or("").to_owned();
    (entry["vlan"].as_u64().unwrap_or(0), word("mac"), word("port"))
}

/// The forwarding table as SONiC's `show mac` shows it, with age, and what workers have counted.
pub fn fdb(document: &Value) -> String {
    let heads = ["No.", "Vlan", "MacAddress", "Port", "Type", "Age/s"];
    let mut lines = vec![heads.map(str::to_owned).to_vec()];
    let entries = document["fdb"].as_array().map_or(&[][..], Vec::as_slice);
    for (i, entry) in entries.iter().enumerate() {
        let word = |key: &str| entry[key].as_str().unwrap_or("").to_owned();
        let kind = if entry["type"] == "static" { "Static" } else { "Dynamic" };
        let age = entry["age_seconds"].as_f64().map_or("N/A".to_owned(), |age| format!("{age:.0}"));
        lines.push(vec![
            (i + 1).to_string(),
            entry["vlan"].to_string(),
            word("mac"),
            if entry["lag"].is_string() { word("lag") } else { word("port") },
            kind.to_owned(),
            age,
        ]);
    }
    let mut text = align(&lines, |i| (2..5).contains(&i));
    text.push_str(&format!("Total number of entries {}\n", entries.len()));
    for worker in document["workers"].as_array().into_iter().flatten() {
        let number = |key: &str| worker[key].as_str().map_or_else(|| worker[key].to_string(), str::to_owned);
        text.push_str(&format!(
            "lcore {}: {} in its table, {} learned, {} moved, {} aged out, {} refused\n",
            worker["lcore"],
            number("entries"),
            number("learned"),
            number("moved"),
            number("aged"),
            number("refused"),
        ));
        let moved = &worker["last_move"];
        if let (Some(mac), Some(from), Some(to)) =
            (moved["mac"].as_str(), moved["from"].as_str(), moved["to"].as_str())
        {
            text.push_str(&format!("  last move: {mac} (VLAN {}) from {from} to {to}\n", moved["vlan"]));
        }
    }
    text
}

/// The flows behind what happened, and of each port and cause how much there was.
pub fn flows(document: &Value) -> String {
    let list = |key: &str| document[key].as_array().map_or(&[][..], Vec::as_slice);
    let word = |row: &Value, key: &str| row[key].as_str().unwrap_or("").to_owned();
    let number = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    if document["recorded"] == false {
        return "flows are not recorded: `[flows] enable = false`\n".to_owned();
    }
    let percent = |value: &Value| format!("{:.1}", value.as_f64().unwrap_or(0.0) * 100.0);
    // Where more flows came than can be kept there are two bounds.
    let range = |low: String, high: String| if low == high { low } else { format!("{low}-{high}") };
    let heads = ["Port", "Cause", "Prio", "From", "Flow", "Share/%", "Count", "Unit", "Reason"];
    let mut lines = vec![heads.map(str::to_owned).to_vec()];
    for row in list("flows") {
        lines.push(vec![
            word(row, "port"),
            word(row, "cause"),
            row["priority"].to_string(),
            word(row, "from"),
            word(row, "flow"),
            range(percent(&row["share"]), percent(&row["share_at_most"])),
            range(number(&row["count"]), number(&row["count_at_most"])),
            word(row, "unit"),
            word(row, "reason"),
        ]);
    }
    let mut text = align(&lines, |i| !matches!(i, 2 | 5 | 6));
    for row in list("totals") {
        let unseen = match percent(&row["unseen_share"]) {
            none if none == "0.0" => String::new(),
            share => format!(", {share} % not looked at"),
        };
        text.push_str(&format!(
            "{} {}: {} {} in {} s, {} frames looked at, {} % of others{unseen}\n",
            word(row, "port"),
            word(row, "cause"),
            number(&row["total"]),
            word(row, "unit"),
            row["seconds"],
            row["looked_at"],
            percent(&row["other_share"]),
        ));
    }
    text.push_str(&exported(&document["export"]));
    text
}

/// What became of the export of flows; empty: there is none.
fn exported(export: &Value) -> String {
    let number = |key: &str| export[key].as_str().map_or_else(|| export[key].to_string(), str::to_owned);
    let Some(collector) = export["collector"].as_str() else { return String::new() };
    let failed = match export["error"].as_str() {
        Some(error) => format!(" ({error})"),
        None => String::new(),
    };
    format!(
        "export to {collector} every {} s, domain {}: {} records in {} messages; lost {} in {}{failed}, missed {} s\n",
        export["interval_seconds"],
        export["domain"],
        number("records"),
        number("messages"),
        number("lost_records"),
        number("failed_messages"),
        number("missed_seconds"),
    )
}

/// Neighbours of each port, and what they are told.
pub fn lldp(document: &Value) -> String {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let word = |value: &Value| value.as_str().unwrap_or("-").to_owned();
    let number = |value: &Value| value.as_u64().map_or("-".to_owned(), |n| n.to_string());
    if document["enabled"] == false {
        return "nobody speaks LLDP: `[lldp] enable = false`\n".to_owned();
    }
    let heads = [
        "Port", "Who", "Chassis", "Port ID", "System", "TTL/s", "PFC", "ETS/%", "Frame", "Willing", "Differs",
    ];
    let mut lines = vec![heads.map(str::to_owned).to_vec()];
    let mut told = |port: &Value, who: &str, says: &Value, ttl: &Value, differs: String| {
        let willing = |what: &str| says[what]["willing"].as_bool();
        lines.push(vec![
            word(&port["port"]),
            who.to_owned(),
            word(&says["chassis"]),
            word(&says["port_id"]),
            word(&says["system_name"]),
            number(ttl),
            pfc_words(&says["pfc"]),
            ets_words(&says["ets"]),
            number(&says["max_frame_bytes"]),
            match (willing("pfc"), willing("ets")) {
                (None, None) => "-".to_owned(),
                (pfc, ets) => {
                    let named = [("pfc", pfc), ("ets", ets)].into_iter().filter(|(_, w)| *w == Some(true));
                    let named: Vec<_> = named.map(|(name, _)| name).collect();
                    if named.is_empty() { "no".to_owned() } else { named.join(",") }
                }
            },
            differs,
        ]);
    };
    for port in list(&document["ports"]) {
        if port["sent"].is_object() {
            told(&port, "we", &port["sent"], &port["sent"]["ttl_seconds"], "-".to_owned());
        }
        for peer in list(&port["neighbours"]) {
            let differences = &peer["differences"];
            let mut found: Vec<String> = Vec::new();
            for what in ["pfc", "ets"] {
                let priorities: Vec<_> = list(&differences[what]).iter().map(Value::to_string).collect();
                if !priorities.is_empty() {
                    found.push(format!("{what} {}", priorities.join(",")));
                }
            }
            if differences["frame_size"] == true {
                found.push("frame".to_owned());
            }
            let differs = if found.is_empty() { "no".to_owned() } else { found.join("; ") };
            told(&port, "peer", &peer, &peer["ttl_left_seconds"], differs);
        }
    }
    let mut text = align(&lines, |i| ![5, 8].contains(&i));
    for port in list(&document["ports"]) {
        let lost = |key: &str| port[key].as_u64().unwrap_or(1);
        let named = [
            ("rx_no_room_frames", "frames that came too fast"),
            ("rx_malformed_frames", "malformed frames"),
            ("rx_too_many_frames", "frames of further neighbours"),
            ("rx_discarded_tlvs", "malformed TLVs"),
            ("tx_refused_frames", "frames that could not be sent"),
        ];
        for (key, what) in named.into_iter().filter(|(key, _)| lost(key) > 0) {
            text.push_str(&format!("{}: {} {what}\n", word(&port["port"]), lost(key)));
        }
    }
    text
}

/// Priorities with PFC: `3,4`.
fn pfc_words(pfc: &Value) -> String {
    let Some(priorities) = pfc["priorities"].as_array() else { return "-".to_owned() };
    let named: Vec<_> = priorities.iter().map(Value::to_string).collect();
    if named.is_empty() { "none".to_owned() } else { named.join(",") }
}

/// What each priority gets: `10,10,10,30,..`; `s` is strict priority, `c` a credit-based shaper, `v` the vendor's own.
fn ets_words(ets: &Value) -> String {
    let Some(priorities) = ets["priorities"].as_array() else { return "-".to_owned() };
    let one = |priority: &Value| match priority["algorithm"].as_str() {
        Some("ets") => priority["bandwidth_percent"].to_string(),
        Some("strict") => "s".to_owned(),
        Some("credit_based") => "c".to_owned(),
        Some("vendor") => "v".to_owned(),
        _ => "?".to_owned(),
    };
    priorities.iter().map(one).collect::<Vec<_>>().join(",")
}

/// One event on one line: time, what, where, and the numbers.
pub fn event(event: &Value) -> String {
    let word = |key: &str| event[key].as_str().unwrap_or("");
    let ms = event["unix_ms"].as_u64().unwrap_or(0);
    let (s, ms) = (ms / 1000 % 86_400, ms % 1000);
    let mut line = format!(
        "{:02}:{:02}:{:02}.{ms:03}Z  {:12} {:8}",
        s / 3600,
        s / 60 % 60,
        s % 60,
        word("event"),
        word("phase")
    );
    let named = ["unix_ms", "event", "phase", "id", "since_unix_ms"];
    for (key, value) in
        event.as_object().into_iter().flatten().filter(|(key, _)| !named.contains(&key.as_str()))
    {
        let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        line.push_str(&format!(" {key}={value}"));
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake;

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
        for table in crate::table::ALL {
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
        let moved = serde_json::json!({ "mac": "02:00:00:00:00:01", "vlan": 5, "from": "p0", "to": "p1" });
        let entry = |vlan, mac: &str, kind: &str, age: Option<f64>| serde_json::json!({ "vlan": vlan, "mac": mac, "port": "p1", "type": kind, "age_seconds": age });
        let mut behind_lag = entry(0, "02:00:00:00:00:08", "static", None);
        behind_lag["lag"] = "po1".into();
        let document = serde_json::json!({
            "fdb": [behind_lag, entry(0, "02:00:00:00:00:09", "static", None), entry(5, "02:00:00:00:00:01", "dynamic", Some(18.75))],
            "workers": [{ "lcore": 3, "entries": 2, "learned": 7, "moved": "9", "aged": 1, "refused": 0, "last_move": moved }],
        });
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
        assert!(fdb_order(&document["fdb"][1]) < fdb_order(&document["fdb"][2]));
    }

    #[test]
    fn an_event_on_a_line() {
        let body = serde_json::json!({
            "id": 3, "unix_ms": 3_723_004u64, "event": "burst", "phase": "start", "port": "p0", "peak_bytes": 9,
        });
        assert_eq!(event(&body), "01:02:03.004Z  burst        start    peak_bytes=9 port=p0");
    }
}
