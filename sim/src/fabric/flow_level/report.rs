//! What a run at flow level came to.

use super::scope;
use super::world::{NEVER, Sending, World};
use crate::fabric::collective_report::{self, Known};
use crate::fabric::report::{FlowResult, LinkResult, Report, Spread};
use crate::fabric::time::Ps;
use crate::fabric::timeline::TimelineRecorder;
use crate::fabric::workload::{Planned, is_finite};
use std::collections::BTreeMap;
use weir_dataplane::types::Nanos;

/// Links that are named.
const NAMED: usize = 3;

fn known(time: Nanos) -> Option<Nanos> {
    (time != NEVER).then_some(time)
}

impl World<'_> {
    pub fn report(mut self) -> Report {
        self.close();
        let ns = self.ns();
        let timeline = std::mem::replace(&mut self.timeline, TimelineRecorder::new(Vec::new(), Vec::new()));
        let open = self.sending.iter().flatten().chain(self.under_way.values());
        let open: BTreeMap<u32, &Sending> = open.map(|sending| (sending.flow, sending)).collect();
        let flows: Vec<FlowResult> = self.flows.iter().map(|f| self.flow_result(f, &open)).collect();
        let parts: Vec<Option<Known>> = self.flows.iter().map(part).collect();
        let collectives =
            collective_report::results(&self.reported, &flows, &parts, &self.operations.computed);
        let done = flows.iter().filter_map(|f| Some((f.fct_ns?, f.ideal_ns)));
        let (fcts, slow): (Vec<u64>, Vec<u64>) =
            done.map(|(fct, alone)| (fct, (fct * 1000).div_ceil(alone.max(1)))).unzip();
        let links = (0..self.dirs.len()).map(|dir| self.link_result(dir)).collect();
        let mut report = Report {
            flows_finite: self.finite,
            flows_done: fcts.len(),
            fct_ns: Spread::of(fcts),
            slowdown_milli: Spread::of(slow),
            frames_sent: self.dirs.iter().map(|dir| dir.carried).sum(),
            flows,
            links,
            collectives,
            timeline: timeline.finish(ns),
            stopped: self.stopped,
            ..Report::begin(self.spec, ns, self.events)
        };
        report.why = self.why(&report);
        report
    }

    fn flow_result(&self, planned: &Planned, open: &BTreeMap<u32, &Sending>) -> FlowResult {
        let flow = &planned.flow;
        let outcome = self.outcomes[flow.id as usize];
        let (packets, arrived) = match open.get(&flow.id) {
            Some(sending) => {
                // Whole frames. All but the last one are alike.
                let frame = self.ways().frame_bytes(planned, flow.payload.into());
                let frames = |wire: u64| if wire < sending.wire { wire / frame } else { flow.packets() };
                let (sent, arrived) = sending.progress(self.now);
                (frames(sent), frames(arrived))
            }
            None if outcome.done != NEVER => (flow.packets(), flow.packets()),
            None => (0, 0),
        };
        FlowResult {
            id: flow.id,
            from: self.plan.names[planned.from].clone(),
            to: self.plan.names[planned.to].clone(),
            bytes: is_finite(planned).then_some(flow.bytes),
            start_ns: known(outcome.start),
            fct_ns: known(outcome.done).map(|done| done - outcome.start),
            ideal_ns: self.ways().alone(planned, &[planned.to]),
            delivered: flow.bytes.min(arrived.saturating_mul(flow.payload.into())),
            lost: 0,
            packets,
            resent: 0,
            useless: None,
            marked: None,
            cnps: None,
            timeouts: 0,
            rate_bps: None,
            error: None,
        }
    }

    fn bottleneck_ps(&self, dir: usize) -> Ps {
        let at = self.contention[dir];
        at.total + if at.since == NEVER { 0 } else { self.now - at.since }
    }

    fn link_result(&self, dir: usize) -> LinkResult {
        let share = u128::from(self.bottleneck_ps(dir)) * 1000 / u128::from(self.now.max(1));
        let result = self.dirs[dir].result(&self.plan.names, self.now);
        LinkResult { bottleneck_milli: Some(share as u64), ..result }
    }

    fn why(&self, report: &Report) -> Vec<String> {
        let mut all = vec![
            "Flow level: every flow has its max-min fair share of its path at any time. Queues, marks, pauses, losses, \
             acknowledgements and the time in which congestion control finds a rate are not played."
                .to_owned(),
        ];
        let idle = scope::idle_keys(self.spec, self.operations.follows_sends);
        if !idle.is_empty() {
            all.push(format!("Keys of the file without an effect at flow level: {}.", idle.join(", ")));
        }
        let mut links: Vec<&LinkResult> =
            report.links.iter().filter(|link| link.bottleneck_milli > Some(0)).collect();
        links.sort_by_key(|link| std::cmp::Reverse(link.bottleneck_milli));
        let named: Vec<String> = links
            .iter()
            .take(NAMED)
            .map(|link| {
                let share = link.bottleneck_milli.unwrap_or(0);
                format!("{} \u{2192} {} for {}.{} % of the run", link.from, link.to, share / 10, share % 10)
            })
            .collect();
        all.push(match named.is_empty() {
            true => "No link was the bottleneck of flows that share it.".to_owned(),
            false => format!(
                "{} of {} directions of links were bottlenecks of flows that share them, longest {}.",
                links.len(),
                report.links.len(),
                named.join(", ")
            ),
        });
        all
    }
}

/// What a flow is a part of.
fn part(planned: &Planned) -> Option<Known> {
    let ends = (planned.from as u32, planned.to as u32);
    planned.part.map(|part| Known { part, ends, paused: 0, slowed: "contention" })
}
