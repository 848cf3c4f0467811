//! Links that go down and up, and routes that follow.

use super::event_loop::Event;
use super::world::Fabric;
use crate::fabric::FabricError;
use crate::fabric::congestion;
use crate::fabric::faults::Faults;
use crate::fabric::routes::Routes;
use crate::fabric::spec::{Congestion, FabricSpec};
use crate::fabric::time::PS;
use crate::fabric::topology::{End, Plan};
use crate::fabric::workload::Planned;
use std::sync::Arc;
use weir_dataplane::frame::Frame;
use weir_dataplane::pfc::frame::is_mac_control;
use weir_dataplane::types::{Nanos, PRIORITIES, PortId};

/// A failure of a link, or its repair.
#[derive(Clone, Copy, Debug)]
pub(super) struct LinkChange {
    pub at: Nanos,
    link: usize,
    up: bool,
}

/// All changes the file asks for.
///
/// # Errors
/// Ends without a link, a repair before its failure.
pub(super) fn planned(spec: &FabricSpec, plan: &Plan) -> Result<Vec<LinkChange>, FabricError> {
    let (mut all, mut faults) = (Vec::new(), Faults::default());
    for (nth, failure) in spec.failures.iter().enumerate() {
        let wrong = |key: &str, got: String, must: &str| {
            let (what, must) = (format!("failure.{nth}{key}"), must.into());
            FabricError::Range { what, got, must }
        };
        let (a, b) = (&failure.a, &failure.b);
        let ends = |link: usize| plan.links[link].ends.map(|end| &plan.names[end.node]);
        let links: Vec<usize> =
            (0..plan.links.len()).filter(|link| [[a, b], [b, a]].contains(&ends(*link))).collect();
        if links.is_empty() {
            faults.add(wrong("", format!("{a} - {b}"), "two nodes with a link between them"));
        }
        if failure.at.0 >= spec.stop_time.0 {
            let must = "before `stop_time`, which ends the run";
            faults.add(wrong(".at", format!("{} ns", failure.at.0), must));
        }
        if let Some(repair) = failure.repair.filter(|repair| repair.0 <= failure.at.0) {
            let must = "after `at`; without it the link stays down";
            faults.add(wrong(".repair", format!("{} ns", repair.0), must));
        } else if let Some(repair) = failure.repair.filter(|repair| repair.0 >= spec.stop_time.0) {
            let must = "before `stop_time`, which ends the run; without it the link stays down";
            faults.add(wrong(".repair", format!("{} ns", repair.0), must));
        }
        for link in links {
            all.push(LinkChange { at: failure.at.0, link, up: false });
            all.extend(failure.repair.map(|repair| LinkChange { at: repair.0, link, up: true }));
        }
    }
    if spec.failures.is_empty() && spec.source.sets("routing.convergence") {
        let must = "absent: no link fails; add a [[failure]]".into();
        faults.add(FabricError::Range { what: "routing.convergence".into(), got: "set".into(), must });
    }
    faults.refuse().map(|()| all)
}

/// Routes that know of all that has happened to links by `at`.
fn routes_at(spec: &FabricSpec, plan: &Plan, changes: &[LinkChange], at: Nanos) -> Routes {
    let mut failures = vec![0; plan.links.len()];
    let known = changes.iter().filter(|change| change.at <= at);
    known.for_each(|LinkChange { link, up, .. }| failures[*link] += if *up { -1 } else { 1 });
    Routes::new(plan, spec.seed, |link| failures[link] == 0)
}

/// Holds the ways around failures against what frames of these flows have room for.
///
/// # Errors
/// A way that is too long.
pub(super) fn check_ways(
    spec: &FabricSpec,
    plan: &Plan,
    changes: &[LinkChange],
    flows: &[Planned],
) -> Result<(), FabricError> {
    if flows.iter().all(|flow| flow.cc != Congestion::Hpcc) {
        return Ok(());
    }
    changes.iter().try_for_each(|change| {
        let routes = routes_at(spec, plan, changes, change.at);
        congestion::check_hops((spec, plan, &routes), flows, "failure")
    })
}

impl Fabric<'_> {
    /// A link fails, and what is on it is lost; or a failure of it is repaired.
    pub(super) fn change_link(&mut self, change: usize) {
        let LinkChange { link, up, .. } = self.failures[change];
        let was_down = self.lines[2 * link].is_down();
        for dir in [2 * link, 2 * link + 1] {
            let failures = &mut self.lines[dir].failures;
            if up {
                *failures -= 1;
            } else {
                *failures += 1;
                self.cut(dir);
            }
        }
        if self.lines[2 * link].is_down() != was_down {
            let ends = self.plan.links[link].ends;
            ends.into_iter().for_each(|end| self.change_carrier(end, up));
        }
        let routed = self.now.saturating_add(self.spec.routing.convergence.0.saturating_mul(PS));
        self.at(routed, Event::Converge { change: change as u32 });
    }

    /// The link at a port has carried nothing since now, or carries again: the pauses that its ends told each other are forgotten, and
    /// those that still are are told anew (C14).
    fn change_carrier(&mut self, end: End, carrier: bool) {
        let ns = self.ns();
        if let Some(s) = end.node.checked_sub(self.plan.hosts) {
            let id = PortId(end.port as u16);
            if !carrier {
                let told = self.switches[s].part(end.port).generator(id).paused_mask();
                (0..PRIORITIES)
                    .filter(|priority| told >> priority & 1 == 1)
                    .for_each(|priority| self.note_held_back(s, end.port, priority, false));
            }
            self.switches[s].set_carrier(end.port, carrier, ns);
            self.kick_core(s);
        } else {
            self.hosts[end.node].set_carrier(carrier, ns);
        }
        self.try_transmit(self.out[end.node][end.port]);
    }

    /// Loses the frames whose last bit has not come out of `dir`.
    fn cut(&mut self, dir: usize) {
        let pipeline = |is_pause| self.dirs[dir].pipeline(self.spec, self.plan.hosts, is_pause);
        let pipelines = [false, true].map(pipeline);
        for flying in self.slab.iter_mut().filter(|flying| flying.dir as usize == dir) {
            let Some(frame) = &flying.frame else { continue };
            let is_pause = is_mac_control(frame.bytes());
            if flying.tail > self.now + pipelines[usize::from(is_pause)] {
                self.lines[dir].cut(is_pause);
                flying.frame = None;
            }
        }
    }

    /// Routes know of all that happened to links up to this change, and of nothing after it.
    pub(super) fn converge(&mut self, change: usize) {
        let at = self.failures[change].at;
        self.routes = Arc::new(routes_at(self.spec, &self.plan, &self.failures, at));
    }
}
