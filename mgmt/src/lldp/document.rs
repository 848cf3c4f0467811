//! `GET /v1/lldp`: all that is known of neighbours, and what they are told.

use super::agent::{LldpReading, Neighbour, PortNeighbours};
use super::dcbx::{Application, Ets, EtsConfiguration, Pfc};
use super::differences::Differences;
use super::frame::{CAPABILITIES, CHASSIS_KINDS, Lldpdu, PORT_KINDS};
use super::priorities as listed;
use super::settings::PortSettings;
use crate::api::documents::{
    LldpApplication, LldpDifferences, LldpEts, LldpInformation, LldpNeighbour, LldpPfc, LldpPort,
    LldpPortMode, LldpPriority, json,
};
use crate::api::given::Given;
use crate::api::{Kind, Parameter, parameter};
use crate::snapshot::Snapshot;
use crate::table::{counter, stamped};
use serde_json::Value;
use weir_config::LldpMode;
use weir_dataplane::drops::DropReason;
use weir_dataplane::types::PRIORITIES;

/// What may be asked for.
pub(crate) const PARAMETERS: [Parameter; 1] = [parameter("port", "this port only", Kind::Port)];

/// What is asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Query {
    /// This port only.
    pub port: Option<usize>,
}

impl Query {
    /// From what was given ([`PARAMETERS`]).
    pub(crate) fn of(given: &Given, snapshot: &Snapshot) -> Self {
        Self { port: given.port("port", &snapshot.info) }
    }
}

fn priorities(ets: &Ets) -> Vec<LldpPriority> {
    let one = |priority: usize| {
        let (algorithm, bandwidth_percent) = ets.of_priority(priority);
        let traffic_class = ets.class[priority];
        LldpPriority { priority, traffic_class, algorithm: algorithm.word().into(), bandwidth_percent }
    };
    (0..PRIORITIES).map(one).collect()
}

fn ets(of: &EtsConfiguration) -> LldpEts {
    LldpEts {
        willing: of.willing,
        credit_based: of.credit_based,
        traffic_classes: of.classes,
        priorities: priorities(&of.ets),
    }
}

fn pfc(of: &Pfc) -> LldpPfc {
    LldpPfc { willing: of.willing, capability: of.capability, priorities: listed(of.enable) }
}

fn application(of: &Application) -> LldpApplication {
    LldpApplication { selector: of.selector_word().into(), protocol: of.protocol, priority: of.priority }
}

fn information(pdu: &Lldpdu) -> LldpInformation {
    let in_use = pdu.capabilities.map_or(0, |(_, enabled)| enabled);
    let named = CAPABILITIES.iter().enumerate().filter(|(bit, _)| in_use >> bit & 1 == 1);
    LldpInformation {
        chassis: pdu.chassis.text(&CHASSIS_KINDS),
        chassis_kind: pdu.chassis.kind(&CHASSIS_KINDS).into(),
        port_id: pdu.port.text(&PORT_KINDS),
        port_id_kind: pdu.port.kind(&PORT_KINDS).into(),
        ttl_seconds: pdu.ttl,
        port_description: pdu.port_description.clone(),
        system_name: pdu.system_name.clone(),
        system_description: pdu.system_description.clone(),
        capabilities: named.map(|(_, name)| (*name).to_owned()).collect(),
        management_address: pdu.management.map(|address| address.to_string()),
        pfc: pdu.pfc.as_ref().map(pfc),
        ets: pdu.ets.as_ref().map(ets),
        ets_recommended: pdu.ets_recommendation.as_ref().map(priorities),
        applications: pdu.applications.as_ref().map(|all| all.iter().map(application).collect()),
        max_frame_bytes: pdu.max_frame,
    }
}

/// Where a neighbour does not fit.
fn differences(of: &Differences) -> LldpDifferences {
    LldpDifferences { pfc: listed(of.pfc), ets: listed(of.ets), frame_size: of.frame_size }
}

fn neighbour(reading: &LldpReading, settings: &PortSettings, of: &Neighbour) -> LldpNeighbour {
    LldpNeighbour {
        information: information(&of.says),
        source: of.source.to_string(),
        ttl_left_seconds: of.expires.saturating_sub(reading.at).div_ceil(1000),
        known_seconds: reading.at.saturating_sub(of.heard.0) / 1000,
        frames: counter(of.frames),
        differences: differences(&Differences::between(&settings.says, &of.says)),
    }
}

fn row(snapshot: &Snapshot, port: usize, settings: &PortSettings, known: &PortNeighbours) -> LldpPort {
    let (counters, stats) = (&known.counters, snapshot.now.ports.get(port).map(|port| &port.stats));
    let of = |count: fn(&weir_dataplane::stats::PortStats) -> u64| counter(stats.map_or(0, count));
    LldpPort {
        port: settings.name.clone(),
        mode: match settings.mode {
            LldpMode::Both => LldpPortMode::Both,
            LldpMode::Receive => LldpPortMode::Receive,
            LldpMode::Off => LldpPortMode::Off,
        },
        sent: (settings.mode == LldpMode::Both).then(|| information(&settings.says)),
        neighbours: known.neighbours.iter().map(|n| neighbour(&snapshot.now.lldp, settings, n)).collect(),
        tx_frames: of(|s| s.tx_lldp),
        rx_frames: of(|s| s.rx_lldp),
        rx_no_room_frames: of(|s| s.drops.0[DropReason::ControlLldpNoRoom as usize]),
        rx_malformed_frames: counter(counters.malformed),
        rx_too_many_frames: counter(counters.too_many),
        rx_discarded_tlvs: counter(counters.tlvs_discarded),
        tx_refused_frames: counter(counters.not_sent),
    }
}

/// The answer ([`crate::api::documents::Lldp`]).
pub fn document(snapshot: &Snapshot, query: &Query) -> Value {
    let reading = &snapshot.now.lldp;
    let all = reading.settings.ports.iter().zip(&reading.ports).enumerate();
    let wanted = all.filter(|(port, _)| query.port.is_none_or(|wanted| wanted == *port));
    let ports: Vec<_> =
        wanted.map(|(port, (settings, known))| row(snapshot, port, settings, known)).collect();
    let mut answer = stamped(snapshot);
    let enabled = reading.settings.ports.iter().any(|port| port.mode != LldpMode::Off);
    answer.insert("enabled".into(), enabled.into());
    answer.insert("interval_seconds".into(), (reading.settings.interval_ms as f64 / 1e3).into());
    answer.insert("ports".into(), json(&ports));
    Value::Object(answer)
}

#[cfg(test)]
#[path = "document_tests.rs"]
mod tests;
