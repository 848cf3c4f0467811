//! Neighbours that come and go, and settings that do not fit, as events. A neighbour that comes and goes without end is told of as
//! often as the others can bear.

use super::agent::{Key, Neighbour, PortNeighbours};
use super::differences::Differences;
use super::frame::{CHASSIS_KINDS, PORT_KINDS};
use super::priorities;
use super::settings::PortSettings;
use crate::events::{Allowance, Log, at_port};
use crate::snapshot::Snapshot;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use weir_config::LldpMode;

/// What has been told of a port.
#[derive(Clone, Debug, Default)]
pub(crate) struct Told {
    neighbours: BTreeMap<Key, Differences>,
    allowance: Allowance,
}

impl Told {
    /// Whoever is there has been told of.
    pub fn of(now: &Snapshot, port: usize) -> Self {
        let reading = &now.now.lldp;
        let known = reading.ports.get(port).zip(reading.settings.ports.get(port));
        let fits = |(known, settings): (&PortNeighbours, &PortSettings)| {
            let one = |n: &Neighbour| (n.key(), Differences::between(&settings.says, &n.says));
            known.neighbours.iter().map(one).collect()
        };
        Self { neighbours: known.map(fits).unwrap_or_default(), ..Self::default() }
    }
}

/// Adds what has happened at a port since it was last told.
pub(crate) fn observe(told: &mut Told, now: &Snapshot, port: usize, log: &mut Log) {
    let reading = &now.now.lldp;
    let (Some(known), Some(settings)) = (reading.ports.get(port), reading.settings.ports.get(port)) else {
        return;
    };
    // As a rule there is nobody.
    if told.neighbours.is_empty() && known.neighbours.is_empty() {
        return;
    }
    let is_there =
        |key: &Key| known.neighbours.iter().any(|n| (&n.says.chassis, &n.says.port) == (&key.0, &key.1));
    let away: Vec<Key> = told.neighbours.keys().filter(|key| !is_there(key)).cloned().collect();
    for key in away {
        if !told.allowance.may(now.uptime_ms) {
            return;
        }
        let before = told.neighbours.remove(&key).unwrap_or_default();
        end_differences(now, port, &key, before, log);
        gone(now, port, &key, known, log);
    }
    for neighbour in &known.neighbours {
        let key = neighbour.key();
        let differences = match settings.mode {
            LldpMode::Off => Differences::default(),
            _ => Differences::between(&settings.says, &neighbour.says),
        };
        let before = told.neighbours.get(&key).copied();
        if before == Some(differences) || !told.allowance.may(now.uptime_ms) {
            continue;
        }
        if before.is_none() {
            appeared(now, port, neighbour, log);
        }
        let pair = (before.unwrap_or_default(), differences);
        compare(now, port, (settings, neighbour), pair, log);
        told.neighbours.insert(key, differences);
    }
}

fn body(now: &Snapshot, kind: &str, phase: &str, port: usize, key: &Key) -> Map<String, Value> {
    let mut body = at_port(now, kind, phase, port);
    body.insert("chassis".into(), json!(key.0.text(&CHASSIS_KINDS)));
    body.insert("port_id".into(), json!(key.1.text(&PORT_KINDS)));
    body
}

fn appeared(now: &Snapshot, port: usize, neighbour: &Neighbour, log: &mut Log) {
    let mut body = body(now, "lldp", "start", port, &neighbour.key());
    body.insert("system_name".into(), json!(neighbour.says.system_name));
    body.insert("source".into(), json!(neighbour.source.to_string()));
    log.push(body);
}

fn gone(now: &Snapshot, port: usize, key: &Key, known: &PortNeighbours, log: &mut Log) {
    let why = known.gone.iter().rev().find(|(gone, _)| gone == key).map(|(_, why)| why.word());
    let mut body = body(now, "lldp", "end", port, key);
    body.insert("why".into(), json!(why));
    log.push(body);
}

/// What fits no longer, or fits again, of a neighbour that is there.
fn compare(
    now: &Snapshot,
    port: usize,
    (settings, neighbour): (&PortSettings, &Neighbour),
    (before, after): (Differences, Differences),
    log: &mut Log,
) {
    let key = neighbour.key();
    let (ours, theirs) = (&settings.says, &neighbour.says);
    let mut tell = |kind: &str, phase: &str, more: &[(&str, Value)]| {
        let mut body = body(now, kind, phase, port, &key);
        body.extend(more.iter().map(|(name, value)| ((*name).to_owned(), value.clone())));
        log.push(body);
    };
    if before.pfc != after.pfc {
        let [one, other] =
            [ours.pfc, theirs.pfc].map(|pfc| json!(priorities(pfc.map_or(0, |pfc| pfc.enable))));
        let willing = json!(theirs.pfc.map(|pfc| pfc.willing));
        let remedy = json!(
            "enable PFC for the same priorities at both ends; here: pfc = { enable } of the port, lossless [[buffer.pg]]"
        );
        let fields = [("ours", one), ("theirs", other), ("willing", willing), ("remedy", remedy)];
        let ends = after.pfc == 0;
        tell("lldp_pfc", if ends { "end" } else { "alarm" }, &fields[..if ends { 2 } else { 4 }]);
    }
    if before.ets != after.ets {
        let fields = [("priorities", json!(priorities(after.ets)))];
        tell("lldp_ets", if after.ets == 0 { "end" } else { "start" }, &fields);
    }
    if before.frame_size != after.frame_size {
        let fields = [
            ("ours_bytes", json!(ours.max_frame)),
            ("theirs_bytes", json!(theirs.max_frame)),
            (
                "remedy",
                json!("give both ends the same MTU: longer frames are lost at the end with the smaller one"),
            ),
        ];
        let ends = !after.frame_size;
        tell("lldp_frame_size", if ends { "end" } else { "alarm" }, &fields[..if ends { 2 } else { 3 }]);
    }
}

/// Whoever does not fit and goes no longer does not fit.
fn end_differences(now: &Snapshot, port: usize, key: &Key, before: Differences, log: &mut Log) {
    let open = [
        ("lldp_pfc", before.pfc != 0),
        ("lldp_ets", before.ets != 0),
        ("lldp_frame_size", before.frame_size),
    ];
    for (kind, _) in open.into_iter().filter(|(_, open)| *open) {
        log.push(body(now, kind, "end", port, key));
    }
}

#[cfg(test)]
#[path = "events_tests.rs"]
mod tests;
