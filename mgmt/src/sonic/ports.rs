//! What belongs to a port.

use super::{Answers, Grid, cell};
use crate::client::counter;
use serde_json::Value;
use weir_layout::{percent, show_rate};

/// `show interfaces status`
pub(super) fn status(a: &Answers, _: bool) -> Vec<Grid> {
    let heads =
        ["Interface", "Lanes", "Speed", "MTU", "FEC", "Alias", "Vlan", "Oper", "Admin", "Type", "Asym PFC"];
    let configured = a.configured();
    let row = |port: &Value| {
        let name = cell(&port["port"]);
        let own = configured.iter().find(|(key, _)| *key == name).map_or(&Value::Null, |(_, row)| *row);
        let none = || "N/A".to_owned();
        // The configured one, as there: what the scheduler sends at. That of a virtual link says nothing.
        let speed = [&port["rate_bps"], &port["link_bps"]].into_iter().find_map(|bps| match counter(bps) {
            0 => None,
            bps => Some(show_rate(bps)),
        });
        vec![
            name.clone(),
            none(),
            speed.unwrap_or_else(none),
            cell(&own["mtu"]),
            none(),
            cell(&port["device"]),
            vlan_of(a, &name),
            cell(&port["link"]),
            cell(&own["admin_status"]),
            cell(&port["driver"]),
            cell(&own["pfc_asym"]),
        ]
    };
    vec![Grid::new("", &heads, a.rows("ports").iter().map(row).collect())]
}

/// Column `Vlan`: the LAG that a port is in, else `trunk` where some of its frames have tags, its VLAN where none have; `routed` of
/// a port in none, which reaches nobody here. On a switch without VLANs there is nothing to say.
fn vlan_of(a: &Answers, port: &str) -> String {
    let of = |table: &str| {
        let rows = a.config[table].as_object().into_iter().flatten();
        let keys = rows.filter_map(|(key, row)| Some((key.split_once('|')?, row)));
        keys.filter(|((_, member), _)| *member == port)
            .map(|((of, _), row)| (of.to_owned(), row))
            .collect::<Vec<_>>()
    };
    if let Some((lag, _)) = of("PORTCHANNEL_MEMBER").pop() {
        return lag;
    }
    match of("VLAN_MEMBER").as_slice() {
        [] if a.config["VLAN"].is_null() => "N/A".to_owned(),
        [] => "routed".to_owned(),
        [(vlan, row)] if row["tagging_mode"] == "untagged" => vlan.clone(),
        _ => "trunk".to_owned(),
    }
}

/// Bytes per second, in the form `show interfaces counters` has there.
fn rate(bps: &Value) -> String {
    let bytes = bps.as_f64().unwrap_or(0.0) / 8.0;
    let scale = [(10e6, 1e6, "MB/s"), (10e3, 1e3, "KB/s")].into_iter().find(|(from, ..)| bytes > *from);
    let (unit, word) = scale.map_or((1.0, "B/s"), |(_, unit, word)| (unit, word));
    format!("{:.2} {word}", bytes / unit)
}

fn share(of_line: &Value) -> String {
    percent(of_line.as_f64().unwrap_or(0.0), 2)
}

/// `show interfaces counters`
pub(super) fn counters(a: &Answers, _: bool) -> Vec<Grid> {
    let heads = [
        "IFACE", "STATE", "RX_OK", "RX_BPS", "RX_UTIL", "RX_ERR", "RX_DRP", "RX_OVR", "TX_OK", "TX_BPS",
        "TX_UTIL", "TX_ERR", "TX_DRP", "TX_OVR",
    ];
    let row = |port: &Value| {
        let state = match (port["admin"].as_str(), port["link"].as_str()) {
            (Some("down"), _) => "X",
            (_, Some("up")) => "U",
            (_, Some("down")) => "D",
            _ => "N/A",
        };
        vec![
            cell(&port["port"]),
            state.to_owned(),
            cell(&port["rx_packets"]),
            rate(&port["rx_bps"]),
            share(&port["rx_utilisation"]),
            cell(&port["nic_rx_errors"]),
            cell(&port["rx_drops"]),
            cell(&port["nic_missed"]),
            cell(&port["tx_packets"]),
            rate(&port["tx_bps"]),
            share(&port["tx_utilisation"]),
            cell(&port["nic_tx_errors"]),
            cell(&port["tx_drops"]),
            "N/A".to_owned(),
        ]
    };
    vec![Grid::new("", &heads, a.rows("ports").iter().map(row).collect())]
}

/// `show pfc priority`
pub(super) fn pfc_priority(a: &Answers, _: bool) -> Vec<Grid> {
    let rows = a
        .config("PORT_QOS_MAP")
        .into_iter()
        .map(|(port, row)| vec![port.to_owned(), cell(&row["pfc_enable"])]);
    vec![Grid::new("", &["Interface", "Lossless priorities"], rows.collect())]
}

/// `show pfc asymmetric`
pub(super) fn pfc_asymmetric(a: &Answers, _: bool) -> Vec<Grid> {
    let rows = a.configured().into_iter().map(|(port, row)| vec![port.to_owned(), cell(&row["pfc_asym"])]);
    vec![Grid::new("", &["Interface", "Asymmetric"], rows.collect())]
}

/// `show pfcwd config`
pub(super) fn pfcwd_config(a: &Answers, _: bool) -> Vec<Grid> {
    let global = &a.config["PFC_WD"]["GLOBAL"];
    let title = match global.is_null() {
        true => "The watchdog is off".to_owned(),
        false => format!(
            "Changed polling interval to {}ms\nBIG_RED_SWITCH status is {}",
            cell(&global["POLL_INTERVAL"]),
            cell(&global["BIG_RED_SWITCH"])
        ),
    };
    // Pauses are always told one by one: show events.
    let row = |(port, row): (&str, &Value)| {
        let fields = ["action", "detection_time", "restoration_time"].map(|field| cell(&row[field]));
        std::iter::once(port.to_owned()).chain(fields).chain(["enable".to_owned()]).collect()
    };
    let rows = a.config("PFC_WD").into_iter().filter(|(port, _)| *port != "GLOBAL").map(row).collect();
    vec![Grid::new(&title, &["PORT", "ACTION", "DETECTION TIME", "RESTORATION TIME", "HISTORY"], rows)]
}
