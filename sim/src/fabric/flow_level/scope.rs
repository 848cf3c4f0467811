//! What a file may say at flow level: what would be wrong there is refused, what has no effect is named in the report.

use crate::fabric::faults::{Faults, both};
use crate::fabric::spec::{CoreKind, FabricSpec, Pattern, Protocol, RoutingMode, check_times};
use crate::fabric::topology::{Plan, key_of_loss};
use crate::fabric::{FabricError, hosts, policy, switches};

/// Keys about which the flow level would be wrong, and why.
const REFUSED: [(&str, &str); 11] = [
    ("latency", "there are no frames whose time could be split"),
    ("sample", "there are no queues; the timeline has the rates"),
    ("measure_from", "there are no queues whose mean depth could be measured"),
    ("failure", "links do not fail"),
    ("routing.convergence", "links do not fail"),
    ("order", "queue pairs have no registers"),
    ("switch.iterations", "frames do not pass a crossbar"),
    ("switch.speedup", "frames do not pass a crossbar"),
    ("switch.crossbar_mode", "frames do not pass a crossbar"),
    ("switch.cell", "frames do not pass a crossbar"),
    ("switch.output_buffer", "frames do not pass a crossbar"),
];
/// Keys of `[host]` that have an effect; all others are about frames, marks and pauses.
const OF_HOSTS: [&str; 5] = ["protocol", "payload", "tx_delay", "rx_delay", "congestion_control"];
/// Keys of a workload that have none; the last one has where operations wait for acknowledgements.
const OF_WORKLOADS: [&str; 3] = ["priority", "dscp", "reliable"];

/// Refuses what the flow level cannot say.
///
/// # Errors
/// The key, and what to change.
pub(super) fn check(spec: &FabricSpec) -> Result<(), FabricError> {
    let wrong = |key: &str, got: &str, why: &str| {
        let level = spec.level.word();
        let must = format!("absent at level = \"{level}\": {why}; take it out, or play level = \"packet\"");
        FabricError::Range { what: key.into(), got: got.into(), must }
    };
    let mut faults = Faults::default();
    if spec.source.sets("ns3") {
        faults.add(wrong("ns3", "set", "its constants are of profile = \"ns3-hpcc\""));
    }
    for (key, why) in REFUSED.iter().filter(|(key, _)| spec.source.sets(key)) {
        faults.add(wrong(key, "set", why));
    }
    faults.keep(check_times(spec));
    if spec.switch.core != CoreKind::OutputQueued {
        faults.add(wrong("switch.core", "a crossbar", "outputs take as much as their lines do"));
    }
    if spec.routing.mode == RoutingMode::Spray {
        faults.add(wrong("routing.mode", "\"spray\"", "a flow has one path"));
    }
    if spec.host.protocol == Protocol::Rclink {
        let why = "credits and read rates are not there, hosts speak RoCEv2";
        faults.add(wrong("host.protocol", "\"rclink\"", why));
    }
    for (index, w) in spec.workloads.iter().enumerate().filter(|(_, w)| w.kind == Pattern::IncAllReduce) {
        let level = spec.level.word();
        let problem = format!(
            "engines sum frames, and flows at level = \"{level}\" have none; play level = \"packet\""
        );
        faults.add(FabricError::Workload { index: index + 1, kind: w.kind.word(), problem });
    }
    // What hosts have wrong is not told of what there is not here.
    if faults.is_empty() { hosts::check(spec) } else { faults.refuse() }
}

/// Refuses what the fabric itself has that flows know nothing of, and the configuration of switches if frames would not be
/// played by it either.
///
/// # Errors
/// The key, and what to change.
pub(super) fn check_plan(spec: &FabricSpec, plan: &Plan) -> Result<(), FabricError> {
    if let Some((at, link)) = plan.links.iter().enumerate().find(|(_, link)| link.spec.loss > 0.0) {
        let (what, level) = (key_of_loss(spec, plan, at), spec.level.word());
        let must =
            format!("0 at level = \"{level}\": nothing is lost at flow level; play level = \"packet\"");
        return Err(FabricError::Range { what, got: link.spec.loss.to_string(), must });
    }
    let policy = policy::Policy::of(spec).map(drop);
    let switches = match plan.hosts < plan.names.len() {
        true => switches::config_of(plan, spec, plan.hosts).map(drop),
        false => Ok(()),
    };
    both(policy, switches).map(drop)
}

/// Keys of the file that have no effect. `follows_sends`: operations wait for the end of a sending.
pub(super) fn idle_keys(spec: &FabricSpec, follows_sends: bool) -> Vec<String> {
    let of_workloads = &OF_WORKLOADS[..OF_WORKLOADS.len() - usize::from(follows_sends)];
    let of_links = ["link.pause_loss", "trunk.pause_loss", "switch.config"];
    let of_hosts = spec.source.keys("host").into_iter().filter(|key| !OF_HOSTS.contains(&&**key));
    let of_workloads = of_workloads.iter().filter(|key| {
        let mut all = 0..spec.workloads.len();
        all.any(|index| spec.source.sets_in(index, key))
    });
    let of_links = of_links.into_iter().filter(|key| spec.source.sets(key)).map(Into::into);
    of_links
        .chain(of_hosts.map(|key| format!("host.{key}")))
        .chain(of_workloads.map(|key| format!("workload.{key}")))
        .collect()
}
