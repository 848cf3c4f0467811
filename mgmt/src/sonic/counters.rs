//! What is counted by priority, queue or group. Watermarks are since start, so SONiC's "persistent" ones.

use super::{Answers, Grid, cell};
use crate::client::counter as number;
use serde_json::Value;

/// `show pfc counters`: frames that paused or resumed a priority.
pub(super) fn pfc(a: &Answers, _: bool) -> Vec<Grid> {
    let sum = |row: &Value, way: &str| {
        (number(&row[format!("{way}_xoff")]) + number(&row[format!("{way}_xon")])).to_string()
    };
    vec![
        a.grid_by_priority("pfc", ("", "Port Rx", "PFC"), |row| sum(row, "rx")),
        a.grid_by_priority("pfc", ("", "Port Tx", "PFC"), |row| sum(row, "tx")),
    ]
}

/// `show queue counters`: a table for each port.
pub(super) fn queues(a: &Answers, _: bool) -> Vec<Grid> {
    let row = |row: &Value| {
        vec![
            cell(&row["port"]),
            format!("UC{}", row["queue"]),
            cell(&row["packets"]),
            cell(&row["bytes"]),
            cell(&row["drops"]),
            "N/A".to_owned(),
        ]
    };
    let heads = ["Port", "TxQ", "Counter/pkts", "Counter/bytes", "Drop/pkts", "Drop/bytes"];
    let of = |port: &str| a.rows("queues").iter().filter(|r| r["port"] == *port).map(row).collect();
    a.ports("queues").into_iter().map(|port| Grid::new("", &heads, of(port))).collect()
}

/// `show queue wredcounters`
pub(super) fn wred(a: &Answers, _: bool) -> Vec<Grid> {
    let none = || "N/A".to_owned();
    let row = |row: &Value| {
        vec![
            cell(&row["port"]),
            format!("UC{}", row["queue"]),
            none(),
            none(),
            cell(&row["marked"]),
            cell(&row["marked_bytes"]),
        ]
    };
    let heads = ["Port", "TxQ", "WredDrp/pkts", "WredDrp/bytes", "EcnMarked/pkts", "EcnMarked/bytes"];
    vec![Grid::new("", &heads, a.rows("ecn").iter().map(row).collect())]
}

/// `show queue watermark unicast`
pub(super) fn queue_watermark(a: &Answers, _: bool) -> Vec<Grid> {
    let title = "Egress shared pool occupancy per unicast queue:";
    vec![a.grid_by_priority("queues", (title, "Port", "UC"), |row| cell(&row["peak_bytes"]))]
}

/// `show queue watermark all`
pub(super) fn all_queues(a: &Answers, _: bool) -> Vec<Grid> {
    let title = "Egress shared pool occupancy per all queues:";
    vec![a.grid_by_priority("queues", (title, "Port", "ALL"), |row| cell(&row["peak_bytes"]))]
}

/// `show queue watermark multicast`: flooded frames wait in the queue of their class, with the others.
pub(super) fn multicast(a: &Answers, _: bool) -> Vec<Grid> {
    let title = "Egress shared pool occupancy per multicast queue:";
    vec![a.grid_by_priority("queues", (title, "Port", "MC"), |_| "N/A".to_owned())]
}

/// `show priority-group watermark shared`
pub(super) fn pg_shared(a: &Answers, _: bool) -> Vec<Grid> {
    let title = "Ingress shared pool occupancy per PG:";
    vec![a.grid_by_priority("pgs", (title, "Port", "PG"), |row| cell(&row["shared_peak_bytes"]))]
}

/// `show priority-group watermark headroom`
pub(super) fn pg_headroom(a: &Answers, _: bool) -> Vec<Grid> {
    let title = "Ingress headroom per PG:";
    vec![a.grid_by_priority("pgs", (title, "Port", "PG"), |row| cell(&row["headroom_peak_bytes"]))]
}

/// `show priority-group watermark`: both.
pub(super) fn pg_watermark(a: &Answers, all: bool) -> Vec<Grid> {
    pg_shared(a, all).into_iter().chain(pg_headroom(a, all)).collect()
}

/// `show priority-group drop counters`
pub(super) fn pg_drops(a: &Answers, _: bool) -> Vec<Grid> {
    vec![a.grid_by_priority("pgs", ("Ingress PG dropped packets:", "Port", "PG"), |row| cell(&row["drops"]))]
}

/// `show pfcwd stats`: queues that have had a storm; all: those that are watched, too.
pub(super) fn pfcwd(a: &Answers, all: bool) -> Vec<Grid> {
    let heads = [
        "QUEUE",
        "STATUS",
        "STORM DETECTED/RESTORED",
        "TX OK/DROP",
        "RX OK/DROP",
        "TX LAST OK/DROP",
        "RX LAST OK/DROP",
    ];
    let pair = |row: &Value, one: &str, other: &str| format!("{}/{}", cell(&row[one]), cell(&row[other]));
    let stormed = |row: &Value| {
        a.rows("queues")
            .iter()
            .any(|q| q["port"] == row["port"] && q["queue"] == row["priority"] && q["storm"] == true)
    };
    let row = |row: &Value| {
        vec![
            format!("{}:{}", cell(&row["port"]), row["priority"]),
            if stormed(row) { "stormed" } else { "operational" }.to_owned(),
            pair(row, "storms_detected", "storms_restored"),
            pair(row, "storm_tx_ok", "storm_tx_drop"),
            pair(row, "storm_rx_ok", "storm_rx_drop"),
            pair(row, "storm_last_tx_ok", "storm_last_tx_drop"),
            pair(row, "storm_last_rx_ok", "storm_last_rx_drop"),
        ]
    };
    let watched = |row: &Value| {
        let of =
            a.config["PORT_QOS_MAP"][row["port"].as_str().unwrap_or_default()]["pfcwd_sw_enable"].as_str();
        of.is_some_and(|all| all.split(',').any(|one| row["priority"].as_u64() == one.parse().ok()))
    };
    let shown = |row: &&Value| number(&row["storms_detected"]) > 0 || (all && watched(row));
    let rows = a.rows("pfc").iter().filter(shown).map(row);
    vec![Grid::new("", &heads, rows.collect())]
}
