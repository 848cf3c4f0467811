//! Tables of in-network aggregation.

use super::Form::{Count, Flag, Maybe, Rate, Text};
use super::columns::{PORT, col};
use super::{At, Column, count, rate};
use crate::inc::{EngineInfo, EngineReading, JobRates, missing, state};
use crate::snapshot::Snapshot;
use serde_json::{Value, json};
use weir_inc::drops::Drop;
use weir_inc::report::{JobReport, PeerReport};
use weir_inc::spec::Operation;

/// Peers of a job, at most, rounded up: a row of a peer is numbered by its job and by itself.
const PEERS: usize = 128;

/// Ports with engines, and what was read of them.
fn engines(s: &Snapshot) -> impl Iterator<Item = (usize, &EngineReading)> {
    s.info.engines.iter().map(|info| info.port).zip(&s.now.engines)
}

pub(super) fn by_engine(s: &Snapshot) -> Vec<(usize, usize)> {
    s.info.engines.iter().map(|info| (info.port, 0)).collect()
}

pub(super) fn by_job(s: &Snapshot) -> Vec<(usize, usize)> {
    engines(s).flat_map(|(port, engine)| (0..engine.jobs.len()).map(move |job| (port, job))).collect()
}

pub(super) fn by_peer(s: &Snapshot) -> Vec<(usize, usize)> {
    let of = |(port, engine): (usize, &EngineReading)| -> Vec<(usize, usize)> {
        let jobs = engine.jobs.iter().enumerate();
        jobs.flat_map(|(at, job)| (0..job.peers.len()).map(move |peer| (port, at * PEERS + peer))).collect()
    };
    engines(s).flat_map(of).collect()
}

pub(super) fn by_reason(s: &Snapshot) -> Vec<(usize, usize)> {
    let of = |(port, engine): (usize, &EngineReading)| -> Vec<(usize, usize)> {
        let drops = engine.counters.drops.iter().enumerate();
        drops.filter(|(_, frames)| **frames > 0).map(|(reason, _)| (port, reason)).collect()
    };
    engines(s).flat_map(of).collect()
}

impl<'a> At<'a> {
    fn engine_at(&self) -> usize {
        self.snapshot.info.engines.iter().position(|info| info.port == self.port).unwrap_or(0)
    }

    fn engine_info(&self) -> &'a EngineInfo {
        &self.snapshot.info.engines[self.engine_at()]
    }

    /// What was read of the engine; before anything was, that it has done nothing.
    fn engine(&self) -> std::borrow::Cow<'a, EngineReading> {
        match self.snapshot.now.engines.get(self.engine_at()) {
            Some(reading) => std::borrow::Cow::Borrowed(reading),
            None => std::borrow::Cow::Owned(EngineReading::default()),
        }
    }

    fn job(&self) -> &'a JobReport {
        &self.snapshot.now.engines[self.engine_at()].jobs[self.i]
    }

    fn job_rates(&self) -> JobRates {
        let rates = self.snapshot.engines.get(self.engine_at());
        rates.and_then(|jobs| jobs.get(self.i)).copied().unwrap_or_default()
    }

    fn job_of_peer(&self) -> &'a JobReport {
        &self.snapshot.now.engines[self.engine_at()].jobs[self.i / PEERS]
    }

    fn peer(&self) -> &'a PeerReport {
        &self.job_of_peer().peers[self.i % PEERS]
    }
}

pub(super) const ENGINES: &[Column] = &[
    PORT,
    col("lcore", Count, "Lcore", "core that moves it", |r| json!(r.info().lcore)),
    col("mac", Text, "MAC", "where hosts send to", |r| json!(r.engine_info().config.address.mac.to_string())),
    col("ip", Text, "IP", "its IP address", |r| json!(r.engine_info().config.address.ip.to_string())),
    col("vlan", Count, "Vlan", "VLAN of its frames; 0: untagged", |r| {
        json!(r.engine_info().config.address.vlan.unwrap_or(0))
    }),
    col("first_qpn", Count, "QP first", "first of its queue pair numbers", |r| {
        json!(r.engine_info().config.params.first_qpn.0)
    }),
    col("qpns", Count, "QPs", "how many there are", |r| json!(r.engine_info().config.params.qpns)),
    col("jobs", Count, "Jobs", "jobs it has", |r| count(r.engine().jobs.len() as u64)),
    col("most_jobs", Count, "of", "most jobs", |r| json!(r.engine_info().config.params.jobs)),
    col("memory_bytes", Count, "Memory/bytes", "bytes its jobs take", |r| count(r.engine().memory)),
    col("most_memory_bytes", Count, "of/bytes", "bytes they may take", |r| {
        count(r.engine_info().config.params.memory)
    }),
    col("quota_bytes", Count, "Quota/bytes", "bytes one job may take", |r| {
        count(r.engine_info().config.params.quota)
    }),
    col("received", Count, "Received", "frames it was handed", |r| count(r.engine().counters.received)),
    col("sent", Count, "Sent", "frames it has sent", |r| count(r.engine().counters.sent)),
    col("drops", Count, "Not used", "frames it has not used, each with a reason", |r| {
        count(r.engine().counters.drops.iter().sum())
    }),
    col("held_priorities", Count, "Held", "priorities the switch has paused for it, a bit each", |r| {
        json!(r.engine().held)
    }),
];

pub(super) const JOBS: &[Column] = &[
    PORT,
    col("job", Count, "Job", "its name", |r| json!(r.job().id)),
    col("state", Text, "State", "running, failing (ranks are being told) or failed", |r| {
        json!(state(r.job().state).0)
    }),
    col("reason", Text, "Reason", "why it failed", |r| json!(state(r.job().state).1.map_or("", |why| why.0))),
    col("rank", Maybe, "Rank", "the rank to blame; null: none", |r| {
        json!(state(r.job().state).1.and_then(|why| why.1))
    }),
    col("ranks", Count, "Ranks", "ranks of the whole job", |r| json!(r.job().ranks)),
    col("children", Count, "Children", "hosts and engines below this engine", |r| {
        json!(r.job().peers.iter().filter(|peer| peer.rank.is_some()).count())
    }),
    col("memory_bytes", Count, "Memory/bytes", "bytes it takes", |r| count(r.job().memory)),
    col("open", Count, "Open", "packets that wait for a child", |r| json!(r.job().open.0)),
    col("window", Count, "of", "packets a child may be ahead of the slowest", |r| json!(r.job().open.1)),
    col("kept", Count, "Kept", "results that somebody has not acknowledged", |r| count(r.job().kept.0)),
    col("results", Count, "of", "results kept at most", |r| json!(r.job().kept.1)),
    col("waiting_ns", Maybe, "Waits/ns", "how long the oldest open packet has waited", |r| {
        r.job().waiting.map_or(Value::Null, count)
    }),
    col("missing", Text, "For", "first ranks of the children it waits for", |r| {
        json!(missing(r.job()).iter().map(u16::to_string).collect::<Vec<_>>().join(","))
    }),
    col("sums_per_second", Rate, "Sums/s", "packets folded per second", |r| rate(r.job_rates().sums)),
    col("folded_bps", Rate, "Bit/s", "payload bits folded per second", |r| rate(r.job_rates().bps)),
    col("folded", Count, "Sums", "packets folded", |r| count(r.job().counters.folded)),
    col("folded_bytes", Count, "", "payload bytes folded", |r| count(r.job().counters.folded_bytes)),
    col("partial", Count, "Partial", "packets that went out without a child", |r| {
        count(r.job().counters.partial)
    }),
    col("messages", Count, "", "messages complete", |r| count(r.job().counters.messages)),
    col("from_parent", Count, "", "results taken from the engine above", |r| {
        count(r.job().counters.from_parent)
    }),
    col("most_open", Count, "", "most packets open at once", |r| count(r.job().counters.most_open)),
];

pub(super) const RANKS: &[Column] = &[
    PORT,
    col("job", Count, "Job", "name of the job", |r| json!(r.job_of_peer().id)),
    col("rank", Maybe, "Rank", "its first rank; null: the engine above", |r| json!(r.peer().rank)),
    col("qpn", Count, "QP", "queue pair of the engine", |r| json!(r.peer().qpn.0)),
    col("operation", Text, "Operation", "what its messages are", |r| {
        json!(Operation::from(r.peer().operation).to_string())
    }),
    col("missing", Flag, "Missing", "the oldest open packet waits for it", |r| json!(r.peer().missing)),
    col("dead", Flag, "Dead", "it does not answer any more", |r| json!(r.peer().dead)),
    col("lag_ns", Count, "Lag/ns", "how far it is behind the first to contribute, moving average", |r| {
        count(r.peer().lag.0)
    }),
    col("most_lag_ns", Count, "Most/ns", "the most it was behind", |r| count(r.peer().lag.1)),
    col("packets", Count, "", "packets with data so far", |r| count(r.peer().number)),
    col("expected_psn", Count, "", "PSN it is expected to send next", |r| json!(r.peer().expected.get())),
    col("taken", Count, "Taken", "packets taken of it", |r| count(r.peer().counters.taken)),
    col("sent", Count, "Sent", "packets sent to it, those sent again included", |r| {
        count(r.peer().counters.sent)
    }),
    col("retransmitted", Count, "Again", "packets sent to it again", |r| {
        count(r.peer().counters.retransmitted)
    }),
    col("rnr_sent", Count, "RNR out", "times it was told to wait", |r| count(r.peer().counters.rnr_sent)),
    col("rnr_received", Count, "RNR in", "times it asked to wait", |r| count(r.peer().counters.rnr_received)),
    col("gaps", Count, "Gaps", "gaps in what it sent", |r| count(r.peer().counters.gaps)),
    col("duplicates", Count, "Twice", "packets it sent twice", |r| count(r.peer().counters.duplicates)),
    col("naks", Count, "NAKs", "gaps it found in what it was sent", |r| count(r.peer().counters.naks)),
    col("timeouts", Count, "Timeouts", "times it acknowledged nothing in time", |r| {
        count(r.peer().counters.timeouts)
    }),
    col("late", Count, "Late", "contributions that came after the result had gone out", |r| {
        count(r.peer().counters.late)
    }),
    col("probes", Count, "Probes", "times it was asked for a sign of life", |r| {
        count(r.peer().counters.probes)
    }),
    col("ce", Count, "CE", "marks of congestion on what it sent", |r| count(r.peer().counters.ce)),
    col("cnps", Count, "CNPs", "congestion notifications it sent", |r| count(r.peer().counters.cnps)),
];

pub(super) const DROPS: &[Column] = &[
    PORT,
    col("reason", Text, "Reason", "name of the reason", |r| json!(Drop::ALL[r.i].name())),
    col("packets", Count, "Frames", "frames the engine has not used", |r| {
        count(r.engine().counters.drops[r.i])
    }),
    col("what", Text, "What", "what that means", |r| json!(Drop::ALL[r.i].what())),
];
