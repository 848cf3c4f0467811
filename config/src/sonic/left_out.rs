//! What of a configuration no table of SONiC's is for: whatever somebody set that does not come back is told.

use super::Outcome::Ignored;
use super::{Note, note};
use crate::{Config, Explained, Origin, PortConfig, Trust};
use std::collections::BTreeSet;

/// Keys of the switch, each with all below it, and why SONiC has none for it.
const OF_THE_SWITCH: [(&str, &str); 17] = [
    ("switch.seed", "a chip draws its own random numbers"),
    ("eal.args", "SONiC starts no DPDK"),
    ("format", "SONiC's frames are those of Ethernet"),
    ("fdb.capacity", "the chip has a table of its own size"),
    ("fdb.ageing", "SONiC's ageing time is none of config_db.json: it is in switch.json of the platform"),
    ("fdb.unknown_unicast", "SONiC floods unknown destinations"),
    ("fdb.link_local", "SONiC traps them as copp_cfg.json says"),
    ("fdb.loop_moves", "SONiC has no alarm for loops"),
    ("fdb.loop_time", "SONiC has no alarm for loops"),
    ("qos.voq", "the chip has its own order between inputs"),
    ("buffer.frames", "a chip counts cells, not frames"),
    ("lacp", "SONiC's LAGs have the address of the switch, and one priority"),
    ("mcast_snooping", "SONiC snoops neither IGMP nor MLD"),
    ("flows", "SONiC samples flows with sFlow: tables SFLOW and SFLOW_COLLECTOR"),
    ("lldp.management_address", "SONiC sends that of MGMT_INTERFACE"),
    ("mgmt", "SONiC's management is its own"),
    ("lab", "SONiC has no lab hosts"),
];

/// Keys of ports, likewise.
const OF_PORTS: [(&str, &str); 11] = [
    ("lcore", "a chip has no lcores"),
    ("default_tc", "frames without a trusted field are of class 0"),
    ("learning", "a matter of VLANs there"),
    ("learn_limit", "SONiC learns as many as the table of the chip holds"),
    ("unknown_unicast", "SONiC floods unknown destinations"),
    ("mac", "the chip has its own"),
    ("peer_response", "it is in xoff already"),
    ("rx_descriptors", "a chip has no rings"),
    ("tx_descriptors", "a chip has no rings"),
    ("pfc.mode", "PFC is the chip's there"),
    ("pfc.visible", "PFC is the chip's there"),
];

/// Notes on all of it.
pub(super) fn notes(config: &Config) -> Vec<Note> {
    let set: Vec<&Explained> = config.explained.iter().filter(|row| is_set(&row.origin)).collect();
    let mut told = BTreeSet::new();
    let mut notes = Vec::new();
    let mut tell = |what: String, key: &str, why: &str| {
        if told.insert((what.clone(), key.to_owned())) {
            notes.push(note(Ignored, &what, key, why));
        }
    };
    let (no_lldp, no_pfc) = (!config.lldp.enable, config.ports.iter().all(|port| port.pfc.enable == 0));
    for row in &set {
        let of_switch = OF_THE_SWITCH.iter().find(|(key, _)| is_below(&row.key, key));
        if let Some((key, why)) = of_switch {
            tell((*key).to_owned(), "", why);
        }
        let own = config.ports.iter().filter_map(|port| Some((port, of_port(&row.key, &port.name)?)));
        for (port, own) in own {
            if let Some((key, why)) = OF_PORTS.iter().find(|(key, _)| is_below(own, key)) {
                tell(format!("port.{key}"), &port.name, why);
            }
            if is_below(own, "inc") {
                tell("port.inc".into(), &port.name, "SONiC has no engines");
            }
            if own == "lldp" && no_lldp {
                tell("port.lldp".into(), &port.name, "LLDP is off");
            }
        }
        if no_lldp && is_below(&row.key, "lldp") && row.key != "lldp.enable" {
            tell(row.key.clone(), "", "LLDP is off");
        }
        if config.watchdog.is_none() && is_below(&row.key, "watchdog") && row.key != "watchdog.enable" {
            tell(row.key.clone(), "", "the watchdog is off");
        }
        if config.watchdog.is_some() && no_pfc && is_below(&row.key, "watchdog") {
            tell(row.key.clone(), "", "PFC_WD has rows for ports with PFC, and there are none");
        }
    }
    unused(config, &set, &mut tell);
    notes
}

/// Profiles and maps that no port uses: SONiC's rows are written from what holds for the ports.
fn unused(config: &Config, set: &[&Explained], tell: &mut impl FnMut(String, &str, &str)) {
    let queues = || config.ports.iter().flat_map(|port| &port.queues);
    let pgs = config.ports.iter().flat_map(|port| &port.pgs);
    let profiles: BTreeSet<usize> = pgs.map(|pg| pg.profile).chain(queues().map(|q| q.profile)).collect();
    let schedulers: BTreeSet<usize> = queues().filter_map(|q| q.scheduler_profile).collect();
    let wreds: BTreeSet<usize> = queues().filter_map(|q| q.wred_profile).collect();
    for (what, names, used) in [
        ("buffer.profile", &config.buffer.profiles, profiles),
        ("scheduler", &config.schedulers, schedulers),
        ("wred", &config.wreds, wreds),
    ] {
        let written = |name: &String| {
            set.iter().any(|row| {
                matches!(row.origin, Origin::File { .. })
                    && row.key.strip_prefix(what).is_some_and(|rest| rest.starts_with('['))
                    && row.key.ends_with("].name")
                    && row.value == *name
            })
        };
        for (i, name) in names.iter().enumerate() {
            if !used.contains(&i) && written(name) {
                tell(what.to_owned(), name, "no port uses it");
            }
        }
    }
    let trusts = |port: &PortConfig, kind: &str| match kind {
        "dscp_to_tc" => port.trust.contains(&Trust::Dscp),
        "pcp_to_tc" => port.trust.contains(&Trust::Pcp),
        _ => true,
    };
    for row in set {
        let Some((table, kind)) = row.key.rsplit_once('.') else { continue };
        let uses = |port: &PortConfig| {
            let of = |name: &str| port.map_names.iter().any(|(of, map)| *of == kind && map == name);
            trusts(port, kind) && table.strip_prefix("map.").is_none_or(of)
        };
        if (table == "qos" || table.starts_with("map.")) && !config.ports.iter().any(uses) {
            let why = "no port uses it or trusts it, or another map is laid over it, whose row has what both come to";
            tell(row.key.clone(), "", why);
        }
    }
}

/// Somebody wrote it, or a preset.
fn is_set(origin: &Origin) -> bool {
    matches!(origin, Origin::File { .. } | Origin::Preset(_))
}

/// `key` is `at`, or one of its keys or rows.
fn is_below(key: &str, at: &str) -> bool {
    key.strip_prefix(at).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
}

/// A key of the port of this name, from behind the name.
fn of_port<'k>(key: &'k str, name: &str) -> Option<&'k str> {
    key.strip_prefix("port.")?.strip_prefix(name)?.strip_prefix('.')
}
