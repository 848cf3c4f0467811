//! A spec is played by the profile it names.

use super::engine;
use super::level::Level;
use super::report::Report;
use super::spec::{FabricSpec, Profile};
use super::timeline::{MAX_RATES, PortName};
use super::topology::Plan;
use super::workload::{Carriage, Planned, imported, is_finite, poisson};
use super::{FabricError, flow_level, ns3};
use std::ops::ControlFlow;
use thiserror::Error;
use weir_dataplane::types::Nanos;

/// How far a run has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Virtual time.
    pub now_ns: Nanos,
    /// Its end at the latest.
    pub until_ns: Nanos,
    /// Flows delivered.
    pub done: usize,
    /// Flows that have an end.
    pub flows: usize,
    /// Payload bytes delivered.
    pub delivered: u64,
    /// Those of all flows; 0: they are not what ends the run.
    pub bytes: u64,
    /// Events played.
    pub events: u64,
}

impl Progress {
    /// The larger of [`Progress::shares`].
    pub fn share(&self) -> f64 {
        self.shares().into_iter().fold(0.0, f64::max)
    }

    /// The two shares one of which ends a run, time and what is delivered: 0 to 1.
    pub fn shares(&self) -> [f64; 2] {
        let of = |part: u64, whole: u64| (part as f64 / whole.max(1) as f64).min(1.0);
        let delivered = match self.bytes {
            0 => of(self.done as u64, self.flows as u64),
            bytes => of(self.delivered, bytes),
        };
        [of(self.now_ns, self.until_ns), delivered]
    }
}

/// Why one thread plays a run although it may have several.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Undivided {
    /// Of another profile.
    #[error("the published simulator is one piece")]
    Profile,
    /// Flows as rates.
    #[error("at flow level there are no frames to divide")]
    Level,
    /// Groups of nodes have to be apart, and of about the same size.
    #[error("its switches are too few, or too close to one another, to be divided")]
    Topology,
    /// What depends on one another at once is played together.
    #[error("operations at its hosts begin with the end of others elsewhere, without a message")]
    Operations,
    /// All come together for it.
    #[error("`sample`, or the window of `abm`, is too short: all of the fabric comes together for each")]
    Periods,
}

/// Plays `spec` on one thread, from time 0 until all flows are delivered or its end.
///
/// # Errors
/// [`FabricError`]: what in the spec cannot be, where, and what to change.
pub fn run(spec: &FabricSpec) -> Result<Report, FabricError> {
    run_with(spec, 1, &mut |_| ControlFlow::Continue(()))
}

/// Like [`run`], on `threads` threads at most: the report is the same for any number. It says now and then how far it is. Told to break, it ends there: see [`Report::stopped`].
///
/// # Errors
/// As [`run`].
pub fn run_with(
    spec: &FabricSpec,
    threads: usize,
    progress: &mut dyn FnMut(Progress) -> ControlFlow<()>,
) -> Result<Report, FabricError> {
    let played = match (spec.profile, spec.level) {
        (Profile::Weir, Level::Packet) => engine::run(spec, threads, progress),
        (Profile::Weir, Level::Flow | Level::Hybrid) => flow_level::run(spec, threads, progress),
        (Profile::Ns3Hpcc, Level::Packet) => {
            ns3::run(spec, progress).map(|report| Report { undivided: Some(Undivided::Profile), ..report })
        }
        (Profile::Ns3Hpcc, Level::Flow | Level::Hybrid) => Err(FabricError::Profile {
            key: "level".into(),
            why: "the published simulator plays packets alone; take the key out, or use profile = \"weir\""
                .into(),
        }),
    };
    let offered = |mut report: Report| {
        report.why.extend(poisson::offered(spec));
        report.why.extend(imported::small_starts(spec));
        report.judged()
    };
    played.map(offered).map_err(|e| spec.locate(e))
}

/// Payload bytes of these flows; 0: it is not they that end the run, or nobody counts them. Of flows to a group, and of those that
/// engines sum, more arrives than is sent.
pub(super) fn bytes_of(flows: &[Planned]) -> u64 {
    let counts =
        |f: &Planned| is_finite(f) && f.seat.is_none() && !matches!(f.carriage, Carriage::Group { .. });
    match flows.iter().all(counts) {
        true => flows.iter().map(|f| f.flow.bytes).fold(0, u64::saturating_add),
        false => 0,
    }
}

/// All ports of all switches, in order.
pub(super) fn port_names(plan: &Plan) -> Vec<PortName> {
    let switches = plan.hosts..plan.names.len();
    let ports = switches.flat_map(|node| (0..plan.ports[node].len()).map(move |port| (node, port)));
    let name = |(node, port): (usize, usize)| PortName {
        node: plan.names[node].clone(),
        port,
        peer: plan.names[plan.peer(node, port).node].clone(),
    };
    ports.map(name).collect()
}

/// Names of the rates that are recorded, and which of them each flow adds to: flows, by these numbers, if they are few,
/// else receiving hosts.
pub(super) fn lanes(
    plan: &Plan,
    flows: &[Planned],
    numbers: impl Iterator<Item = u32>,
) -> (Vec<String>, Vec<usize>) {
    if flows.len() <= MAX_RATES {
        let name = |(f, number): (&Planned, u32)| {
            format!("flow {number}: {} \u{2192} {}", plan.names[f.from], plan.names[f.to])
        };
        return (flows.iter().zip(numbers).map(name).collect(), (0..flows.len()).collect());
    }
    let hosts = plan.names[..plan.hosts].iter().map(|name| format!("to {name}"));
    (hosts.collect(), flows.iter().map(|f| f.to).collect())
}
