//! Who asks for members, from when and until when, and hosts that are refused, as events.

use super::agent::Asker;
use crate::events::{Allowance, Log, at_port, event};
use crate::snapshot::Snapshot;
use crate::table::protocol;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use weir_dataplane::multicast::IpVersion;

/// For so long nobody was refused when that is over, ms.
const QUIET: u64 = 10_000;

/// What has been told.
#[derive(Clone, Debug, Default)]
pub(crate) struct Told {
    askers: BTreeMap<(u16, IpVersion), (Asker, Allowance)>,
    /// By port: groups that were refused at the last look, and when that was last more than before.
    refused: Vec<(u64, Option<u64>)>,
}

impl Told {
    /// Whatever is so has been told.
    pub fn of(now: &Snapshot) -> Self {
        let asker =
            |vlan: &super::agent::VlanReading| ((vlan.vid, vlan.version), (vlan.asker, Allowance::default()));
        Self {
            askers: now.now.mcast.vlans.iter().map(asker).collect(),
            refused: now.now.mcast.ports.iter().map(|port| (port.refused, None)).collect(),
        }
    }
}

/// Adds what has happened since it was last told.
pub(crate) fn observe(told: &mut Told, now: &Snapshot, log: &mut Log) {
    let reading = &now.now.mcast;
    told.askers.retain(|(vid, version), _| {
        reading.vlans.iter().any(|vlan| (vlan.vid, vlan.version) == (*vid, *version))
    });
    for vlan in &reading.vlans {
        let known = told.askers.entry((vlan.vid, vlan.version));
        let (was, allowance) = known.or_insert((Asker::Nobody, Allowance::default()));
        if *was == vlan.asker || !allowance.may(now.uptime_ms) {
            continue;
        }
        let phase = match (*was, vlan.asker) {
            (Asker::Nobody, _) => "up",
            (_, Asker::Nobody) => "down",
            _ => "changed",
        };
        let mut body = event(now, "mcast_querier", phase);
        body.insert("vlan".into(), json!(vlan.vid));
        body.insert("protocol".into(), json!(protocol(vlan.version)));
        insert_asker(&mut body, now, ("querier", "port"), vlan.asker);
        insert_asker(&mut body, now, ("was_querier", "was_port"), *was);
        if vlan.asker == Asker::Nobody {
            let remedy =
                "groups are flooded: let a router ask for members, or set querier = true in [mcast_snooping]";
            body.insert("remedy".into(), json!(remedy));
        }
        *was = vlan.asker;
        log.push(body);
    }
    told.refused.resize(reading.ports.len(), (0, None));
    for (port, (counters, (was, last))) in reading.ports.iter().zip(&mut told.refused).enumerate() {
        let grown = counters.refused > std::mem::replace(was, counters.refused);
        let begins = grown && last.is_none();
        let ends = !grown && last.is_some_and(|at| now.uptime_ms >= at + QUIET);
        if grown {
            *last = Some(now.uptime_ms);
        } else if ends {
            *last = None;
        }
        if begins || ends {
            let mut body = at_port(now, "mcast_limit", if begins { "alarm" } else { "end" }, port);
            body.insert("refused".into(), json!(counters.refused));
            if begins {
                let remedy = "hosts behind the port join more groups than there is room for: find who does, or raise max_groups and port_max_groups of [mcast_snooping]";
                body.insert("remedy".into(), json!(remedy));
            }
            log.push(body);
        }
    }
}

fn insert_asker(body: &mut Map<String, Value>, now: &Snapshot, names: (&str, &str), asker: Asker) {
    let (who, port) = match asker {
        Asker::Nobody => (Value::Null, None),
        Asker::Switch => (json!("switch"), None),
        Asker::Other { address, port } => (json!(address.to_string()), Some(port)),
    };
    let port = port.and_then(|port| now.info.ports.get(port.index())).map(|port| &port.name);
    body.insert(names.0.into(), who);
    body.insert(names.1.into(), json!(port));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::events::Watcher;
    use crate::fake;
    use crate::mcast::McastReading;
    use crate::mcast::fake::reading;
    use std::sync::Arc;

    /// What is told when what is known goes from one to the next, with so much time between two.
    fn told(all: &[McastReading], ms: u64) -> Vec<Value> {
        let (mut watcher, mut log) = (Watcher::default(), Log::default());
        let mut snapshot = fake::snapshot();
        for mcast in all {
            Arc::make_mut(&mut snapshot.now).mcast = mcast.clone().into();
            snapshot.uptime_ms += ms;
            watcher.observe(&snapshot, &mut log);
        }
        let all = log.after(0).map(|event| event.body.clone());
        all.filter(|event| event["event"].as_str().unwrap().starts_with("mcast")).collect()
    }

    #[test]
    fn who_asks_is_told_when_it_comes_changes_and_goes() {
        let mut same = reading(1);
        same.vlans[0].groups.clear();
        assert!(told(&[reading(1), same], 100).is_empty(), "groups that come and go are no news");
        let with = |asker| {
            let mut reading = reading(1);
            reading.vlans[0].asker = asker;
            reading
        };
        let (nobody, switch) = (with(Asker::Nobody), with(Asker::Switch));
        let all = told(&[reading(1), nobody, switch, reading(1)], 100);
        let seen: Vec<_> = all.iter().map(|e| [&e["phase"], &e["querier"], &e["was_querier"]]).collect();
        assert_eq!(
            seen,
            [
                [&json!("down"), &Value::Null, &json!("10.0.0.1")],
                [&json!("up"), &json!("switch"), &Value::Null],
                [&json!("changed"), &json!("10.0.0.1"), &json!("switch")]
            ]
        );
        assert_eq!(
            (&all[2]["port"], &all[2]["vlan"], &all[2]["protocol"]),
            (&json!("p0"), &json!(10), &json!("igmp"))
        );
        assert!(all[0]["remedy"].is_string());
        assert!(told(&[reading(1), McastReading::default(), McastReading::default()], 100).is_empty());
    }

    #[test]
    fn hosts_that_are_refused_are_told_once_until_it_is_over() {
        let all = told(&[reading(1), reading(2), reading(3), reading(3), reading(3)], 6_000);
        let seen: Vec<_> =
            all.iter().map(|e| (e["event"].as_str(), e["phase"].as_str(), &e["port"])).collect();
        let limit = Some("mcast_limit");
        let (p0, p1) = (json!("p0"), json!("p\"1\\"));
        assert_eq!(
            seen,
            [
                (limit, Some("alarm"), &p0),
                (limit, Some("alarm"), &p1),
                (limit, Some("end"), &p0),
                (limit, Some("end"), &p1)
            ]
        );
    }
}
