//! Samples of families, by what they are of: labels and values.

use super::{Each, Labels, Scrape};
use crate::flows::export::ExportReading;
use crate::inc::EngineReading;
use crate::lacp::MemberReading;
use crate::lldp::agent::PortNeighbours;
use crate::mcast::agent::{Counters as McastCounters, VlanReading};
use crate::mirror_files::MirrorFileReading;
use crate::snapshot::{PortInfo, PortReading};
use crate::table::protocol;
use crate::times::Part;
use std::fmt;
use weir_dataplane::drops::DropReason;
use weir_dataplane::stats::{LoopStats, Reasons};
use weir_dataplane::types::PRIORITIES;
use weir_inc::report::{JobReport, PeerReport};

/// A value of each engine.
pub(super) fn engines<V>(s: &Scrape, get: impl Fn(&EngineReading) -> V) -> Vec<(Labels, V)> {
    let name = |port: usize| s.snapshot.info.ports.get(port).map_or(String::new(), |p| p.name.clone());
    let both = s.snapshot.info.engines.iter().zip(&s.snapshot.now.engines);
    both.map(|(info, engine)| (vec![("port", name(info.port))], get(engine))).collect()
}

/// A value of each job of each engine.
pub(super) fn jobs<V>(s: &Scrape, get: impl Fn(&JobReport) -> V) -> Vec<(Labels, V)> {
    let of = |engine: &EngineReading| engine.jobs.iter().map(|job| (job.id, get(job))).collect::<Vec<_>>();
    let all = engines(s, of).into_iter();
    all.flat_map(|(labels, jobs)| {
        jobs.into_iter().map(move |(id, value)| (extend(&labels, &[("job", id.to_string())]), value))
    })
    .collect()
}

/// A value of each rank of each job; the engine above is called `parent`.
pub(super) fn ranks<V>(s: &Scrape, get: impl Fn(&PeerReport) -> V) -> Vec<(Labels, V)> {
    let name = |peer: &PeerReport| peer.rank.map_or_else(|| "parent".to_owned(), |rank| rank.to_string());
    let of = |job: &JobReport| job.peers.iter().map(|peer| (name(peer), get(peer))).collect::<Vec<_>>();
    let all = jobs(s, of).into_iter();
    all.flat_map(|(labels, peers)| {
        peers.into_iter().map(move |(name, value)| (extend(&labels, &[("rank", name)]), value))
    })
    .collect()
}

pub(super) fn extend(labels: &[(&'static str, String)], more: &[(&'static str, String)]) -> Labels {
    labels.iter().chain(more).cloned().collect()
}

/// A value of a worker.
pub(super) type Term = fn(&LoopStats) -> u64;

/// A value of one priority of a port.
pub(super) type Lane = fn(&PortReading, usize) -> u64;

pub(super) fn ports(s: &Scrape) -> impl Iterator<Item = (Labels, &PortInfo, &PortReading)> {
    let both = s.snapshot.info.ports.iter().zip(&s.snapshot.now.ports);
    both.map(|(info, reading)| (vec![("port", info.name.clone())], info, reading))
}

pub(super) fn with(labels: &[(&'static str, String)], name: &'static str, value: usize) -> Labels {
    extend(labels, &[(name, value.to_string())])
}

pub(super) fn extended<V>(samples: Vec<(Labels, V)>, more: &[(&'static str, &str)]) -> Vec<(Labels, V)> {
    let one = |(mut labels, value): (Labels, V)| {
        labels.extend(more.iter().map(|(name, value)| (*name, (*value).to_owned())));
        (labels, value)
    };
    samples.into_iter().map(one).collect()
}

/// What became of the files of mirrors.
pub(super) fn mirror_files(s: &Scrape, get: fn(&MirrorFileReading) -> u64) -> Vec<(Labels, u64)> {
    let one = |file: &MirrorFileReading| (vec![("mirror", file.mirror.clone())], get(file));
    s.snapshot.now.mirror_files.iter().map(one).collect()
}

/// What became of the export of flows, where there is one.
pub(super) fn export(s: &Scrape, get: fn(&ExportReading) -> u64) -> Vec<(Labels, u64)> {
    let one = |e: &ExportReading| (vec![("collector", e.settings.collector.to_string())], get(e));
    s.snapshot.export.iter().map(one).collect()
}

/// What LACP knows, by port and LAG.
pub(super) fn lacp(s: &Scrape) -> impl Iterator<Item = (Labels, &MemberReading)> {
    let lags = s.snapshot.now.lacp.lags.iter();
    lags.flat_map(|lag| lag.members.iter().map(move |member| (lag, member))).filter_map(|(lag, member)| {
        let port = s.snapshot.info.ports.get(member.port.index())?;
        Some((vec![("port", port.name.clone()), ("lag", lag.name.clone())], member))
    })
}

/// What snooping has counted, by port, where it is on.
pub(super) fn mcast_ports(s: &Scrape) -> impl Iterator<Item = (Labels, &McastCounters)> {
    let is_on = !s.snapshot.now.mcast.vlans.is_empty();
    let all = ports(s).zip(&s.snapshot.now.mcast.ports);
    all.filter(move |_| is_on).map(|((labels, ..), counters)| (labels, counters))
}

/// The same of VLANs and versions of IP.
pub(super) fn mcast_vlans(s: &Scrape, get: fn(&VlanReading) -> f64) -> Vec<(Labels, f64)> {
    let one = |vlan: &VlanReading| {
        let labels = vec![("vlan", vlan.vid.to_string()), ("protocol", protocol(vlan.version).to_owned())];
        (labels, get(vlan))
    };
    s.snapshot.now.mcast.vlans.iter().map(one).collect()
}

/// What LLDP knows, by port.
pub(super) fn lldp(s: &Scrape) -> impl Iterator<Item = (Labels, &PortNeighbours)> {
    ports(s).zip(&s.snapshot.now.lldp.ports).map(|((labels, ..), known)| (labels, known))
}

pub(super) fn per_port(s: &Scrape, get: fn(&PortReading) -> u64) -> Vec<(Labels, u64)> {
    ports(s).map(|(labels, _, reading)| (labels, get(reading))).collect()
}

/// Frames of a port by stage and reason, those reasons that are `wanted`.
pub(super) fn by_reason(
    labels: &[(&'static str, String)],
    counted: &Reasons,
    wanted: impl Fn(DropReason) -> bool,
) -> Vec<(Labels, u64)> {
    let one = |(reason, frames): (&DropReason, u64)| {
        let (stage, name) = reason.name().split_once('.').unwrap_or(("", reason.name()));
        let more = [("stage", stage.to_owned()), ("reason", name.to_owned())];
        (labels.iter().cloned().chain(more).collect(), frames)
    };
    DropReason::ALL.iter().zip(counted.0).filter(|(reason, _)| wanted(**reason)).map(one).collect()
}

pub(super) fn per_nic(s: &Scrape, get: fn(&crate::snapshot::NicStats) -> u64) -> Vec<(Labels, u64)> {
    ports(s).map(|(labels, _, reading)| (labels, get(&reading.nic))).collect()
}

pub(super) fn lanes(s: &Scrape, get: Lane) -> Vec<(Labels, u64)> {
    let one = |(labels, _, p): (Labels, &PortInfo, &PortReading)| {
        (0..PRIORITIES).map(|i| (with(&labels, "priority", i), get(p, i))).collect::<Vec<_>>()
    };
    ports(s).flat_map(one).collect()
}

pub(super) fn both(s: &Scrape, rx: Lane, tx: Lane) -> Vec<(Labels, u64)> {
    let mut all = extended(lanes(s, rx), &[("direction", "rx")]);
    all.extend(extended(lanes(s, tx), &[("direction", "tx")]));
    all
}

pub(super) fn gauges(s: &Scrape, get: Lane) -> Vec<(Labels, f64)> {
    lanes(s, get).into_iter().map(|(labels, value)| (labels, value as f64)).collect()
}

/// As [`gauges`], without those that are no limit at all.
pub(super) fn limits(s: &Scrape, get: Lane) -> Vec<(Labels, f64)> {
    let bounded = lanes(s, get).into_iter().filter(|(_, value)| *value < u64::MAX >> 3);
    bounded.map(|(labels, value)| (labels, value as f64)).collect()
}

/// What the configuration says about some priorities.
pub(super) fn known(s: &Scrape, get: impl Fn(&PortInfo, usize) -> Option<f64>) -> Vec<(Labels, f64)> {
    let one = |(labels, info, _): (Labels, &PortInfo, &PortReading)| {
        (0..PRIORITIES)
            .filter_map(|i| Some((with(&labels, "priority", i), get(info, i)?)))
            .collect::<Vec<_>>()
    };
    ports(s).flat_map(one).collect()
}

pub(super) fn lcore(s: &Scrape, worker: usize) -> Labels {
    let core = s.snapshot.info.lcores.get(worker).copied().unwrap_or(worker);
    vec![("lcore", core.to_string())]
}

pub(super) fn workers(s: &Scrape, get: fn(&LoopStats) -> u64) -> Vec<(Labels, u64)> {
    s.snapshot.now.loops.iter().enumerate().map(|(i, l)| (lcore(s, i), get(l))).collect()
}

pub(super) fn workers_f(s: &Scrape, get: fn(&LoopStats) -> u64) -> Vec<(Labels, f64)> {
    workers(s, get).into_iter().map(|(labels, value)| (labels, value as f64)).collect()
}

/// Every worker sees the pools of all; the one that saw most is nearest.
pub(super) fn pools(s: &Scrape, parts: &[(&str, Term)]) -> Vec<(Labels, f64)> {
    let most = |get: Term| s.snapshot.now.loops.iter().map(get).max().unwrap_or(0);
    parts.iter().map(|(part, get)| (vec![("part", (*part).to_owned())], most(*get) as f64)).collect()
}

/// A part of the residence by queue. Of queues that have never sent there are none: most never do.
pub(super) fn part(s: &Scrape, part: Part, each: &mut Each<'_>) -> fmt::Result {
    for (labels, _, p) in ports(s) {
        for (queue, times) in p.latency.iter().enumerate().filter(|(_, times)| !times.is_empty()) {
            each(with(&labels, "priority", queue), &times.part(part))?;
        }
    }
    Ok(())
}
