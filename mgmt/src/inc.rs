//! Engines of in-network aggregation: what they are, what was read of them, what has happened to their jobs.

use crate::events::{Log, at_port};
use crate::snapshot::Snapshot;
use serde_json::json;
use weir_config::{Config, EngineConfig};
use weir_dataplane::types::Nanos;
use weir_inc::engine::EngineCounters;
use weir_inc::immediate::{ALL_RANKS, Failure};
use weir_inc::report::{JobReport, PeerReport, ReportPage, State};

/// What an engine is.
#[derive(Clone, Copy, Debug)]
pub struct EngineInfo {
    /// Its port.
    pub port: usize,
    /// Where it is and what it has.
    pub config: EngineConfig,
}

/// An engine at one instant.
#[derive(Clone, Debug, Default)]
pub struct EngineReading {
    /// When, ns by the clock of its worker; 0: nothing has been read yet.
    pub at_ns: Nanos,
    /// Its jobs.
    pub jobs: Vec<JobReport>,
    /// Frames it has seen.
    pub counters: EngineCounters,
    /// Bytes its jobs take.
    pub memory: u64,
    /// Priorities the switch has paused for it, a bit each.
    pub held: u8,
}

/// What a job did over the sliding window, per second.
#[derive(Clone, Copy, Debug, Default)]
pub struct JobRates {
    /// Packets folded.
    pub sums: f64,
    /// Bits of payload folded.
    pub bps: f64,
}

impl EngineInfo {
    /// The engines of a configuration.
    pub fn all(config: &Config) -> Vec<Self> {
        let ports = config.ports.iter().enumerate();
        ports.filter_map(|(port, settings)| Some(Self { port, config: settings.engine? })).collect()
    }
}

impl EngineReading {
    /// What a worker has read.
    pub fn of(page: &ReportPage) -> Self {
        Self {
            at_ns: page.at,
            jobs: page.jobs().to_vec(),
            counters: page.counters,
            memory: page.memory.0,
            held: page.held,
        }
    }

    /// The job of this name.
    pub fn job(&self, id: u32) -> Option<&JobReport> {
        self.jobs.iter().find(|job| job.id == id)
    }

    /// What each job has done since `then`.
    pub fn rates(&self, then: &Self) -> Vec<JobRates> {
        let seconds = self.at_ns.saturating_sub(then.at_ns) as f64 / 1e9;
        let rate =
            |now: u64, then: u64| if seconds > 0.0 { now.saturating_sub(then) as f64 / seconds } else { 0.0 };
        let one = |job: &JobReport| {
            let then = then.job(job.id).map_or_else(Default::default, |job| job.counters);
            JobRates {
                sums: rate(job.counters.folded, then.folded),
                bps: rate(job.counters.folded_bytes, then.folded_bytes) * 8.0,
            }
        };
        self.jobs.iter().map(one).collect()
    }
}

/// The word for the state of a job, and why it is in it: name of the failure and rank to blame.
pub fn state(state: State) -> (&'static str, Option<(&'static str, Option<u16>)>) {
    let why = |failure: Failure, rank| Some((failure.name(), Some(rank).filter(|rank| *rank != ALL_RANKS)));
    match state {
        State::Running => ("running", None),
        State::Failing(failure, rank, _) => ("failing", why(failure, rank)),
        State::Failed(failure, rank, _) => ("failed", why(failure, rank)),
    }
}

/// First ranks of the children that the oldest open number waits for.
pub fn missing(job: &JobReport) -> Vec<u16> {
    job.peers.iter().filter(|peer| peer.missing).filter_map(|peer| peer.rank).collect()
}

/// A job that has waited so long for a rank is told of, ns.
const STRAGGLING: Nanos = 1_000_000_000;

/// Adds what has happened to jobs since the snapshot before: failures, stragglers, frames sent again. One that somebody has ended
/// has not failed.
pub fn observe(before: &Snapshot, now: &Snapshot, log: &mut Log) {
    for ((info, is), was) in now.info.engines.iter().zip(&now.now.engines).zip(&before.now.engines) {
        for job in &is.jobs {
            let Some(old) = was.job(job.id) else { continue };
            let mut tell = |phase: &str, fields: &[(&str, serde_json::Value)]| {
                let mut body = at_port(now, "inc", phase, info.port);
                body.insert("job".into(), json!(job.id));
                body.extend(fields.iter().map(|(name, value)| ((*name).to_owned(), value.clone())));
                log.push(body);
            };
            let stopped = matches!(
                job.state,
                State::Failing(Failure::Stopped, ..) | State::Failed(Failure::Stopped, ..)
            );
            if let (State::Running, (_, Some((reason, rank)))) = (old.state, state(job.state))
                && !stopped
            {
                tell("alarm", &[("reason", json!(reason)), ("rank", json!(rank))]);
            }
            let late = |job: &JobReport| job.waiting.is_some_and(|time| time >= STRAGGLING);
            match (late(old), late(job)) {
                // What waits in a job that has failed waits for nobody any more.
                _ if job.state != State::Running => {}
                (false, true) => {
                    tell("straggler", &[("ranks", json!(missing(job))), ("waiting_ns", json!(job.waiting))]);
                }
                (true, false) => tell("resumed", &[]),
                _ => {}
            }
            for (peer, old) in job.peers.iter().zip(&old.peers) {
                let again = |peer: &PeerReport| peer.counters.timeouts;
                if again(peer) > again(old) {
                    tell(
                        "retry",
                        &[("rank", json!(peer.rank)), ("timeouts", json!(again(peer) - again(old)))],
                    );
                }
            }
        }
    }
}
