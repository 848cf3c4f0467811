//! What a run at flow level came to.

use super::hybrid::Packets;
use super::scope;
use super::world::{NEVER, Sending, World};
use crate::fabric::collective_report::{self, Known, LateBy};
use crate::fabric::level::Level;
use crate::fabric::play::Undivided;
use crate::fabric::report::{FlowResult, LinkResult, Report, Spread};
use crate::fabric::time::{PS, Ps};
use crate::fabric::timeline::TimelineRecorder;
use crate::fabric::workload::{self, Planned, is_finite};
use std::collections::BTreeMap;
use weir_dataplane::types::Nanos;
use weir_layout::{agree, counted};

/// Links that are named.
const NAMED: usize = 3;

/// In whole nanoseconds, if it ever came to that.
fn known(time: Ps) -> Option<Nanos> {
    (time != NEVER).then(|| time.div_ceil(PS))
}

impl World<'_> {
    /// What it came to; `packets`: and what was played frame by frame instead.
    pub fn report(mut self, packets: Option<Packets>) -> Report {
        self.close();
        let shared: Vec<u64> = (0..self.dirs.len()).map(|dir| self.bottleneck_milli(dir)).collect();
        let mut begun = Report { undivided: Some(Undivided::Level), ..Report::begin(self.spec, 0, 0) };
        let mut frames_sent = self.frames_sent();
        if let Some(packets) = &packets {
            self.take_off_links(packets);
            frames_sent = self.frames_sent() + packets.report.frames_sent;
            self.put_on_links(packets);
            self.now = self.end_beside(packets).max(packets.report.end_ns).saturating_mul(PS);
        }
        let ns = self.ns();
        let timeline = std::mem::replace(&mut self.timeline, TimelineRecorder::new(Vec::new(), Vec::new()));
        let open = self.sending.values().chain(self.under_way.values());
        let open: BTreeMap<u32, &Sending> = open.map(|sending| (sending.flow, sending)).collect();
        let mut flows: Vec<FlowResult> = self.flows.iter().map(|f| self.flow_result(f, &open)).collect();
        let mut parts: Vec<Option<Known>> = self.flows.iter().map(|f| self.part(f)).collect();
        let mut why = Vec::new();
        let mut computations =
            self.computations(packets.as_ref().map_or(&[], |packets| &packets.section.ops));
        let mut timeline = timeline.finish(ns);
        if let Some(packets) = packets {
            why = self.why_hybrid(&packets);
            let Packets { section, mut report, facts, .. } = packets;
            let played = section.flows.iter().zip(0u32..).filter(|(played, _)| **played);
            for ((_, id), (result, number)) in
                played.zip(std::mem::take(&mut report.flows).into_iter().zip(0..))
            {
                flows[id as usize] = FlowResult { id, level: Some(Level::Packet), ..result };
                let held = facts.paused.get(&number).copied().unwrap_or_default();
                let known = parts[id as usize].as_mut();
                known
                    .into_iter()
                    .for_each(|known| *known = Known { held, slowed: LateBy::Queue, done: None, ..*known });
            }
            timeline = std::mem::take(&mut report.timeline);
            computations.extend(facts.computations);
            self.events += report.events;
            self.stopped |= report.stopped;
            why.append(&mut report.why);
            begun = report;
        }
        let collectives = collective_report::results(&self.reported, &flows, &parts, &computations);
        let fcts: Vec<u64> = flows.iter().filter_map(|f| f.fct_ns).collect();
        let slow = flows.iter().filter_map(FlowResult::slowdown_milli).collect();
        let links =
            shared.into_iter().enumerate().map(|(dir, shared)| self.link_result(dir, shared)).collect();
        let mut report = Report {
            flows_finite: self.finite,
            flows_done: fcts.len(),
            fct_ns: Spread::of(fcts),
            slowdown_milli: Spread::of(slow),
            frames_sent,
            flows,
            links,
            collectives,
            unfinished: computations.unfinished(&self.plan.names, ns),
            timeline,
            stopped: self.stopped,
            end_ns: ns,
            events: self.events,
            ..begun
        };
        report.why = self.why(&report);
        report.why.extend(why);
        report
    }

    /// What a flow is a part of.
    fn part(&self, planned: &Planned) -> Option<Known> {
        let done = known(self.outcomes[planned.flow.id as usize].done);
        planned.part.map(|part| Known { done, ..Known::of(&self.ways(), planned, part, LateBy::Contention) })
    }

    fn flow_result(&self, planned: &Planned, open: &BTreeMap<u32, &Sending>) -> FlowResult {
        let flow = &planned.flow;
        let outcome = self.outcomes[flow.id as usize];
        let (packets, arrived) = match open.get(&flow.id) {
            _ if outcome.done != NEVER => (flow.packets(), flow.packets()),
            Some(sending) => {
                // Whole frames. All but the last one are alike.
                let frame = self.ways().frame_bytes(planned, flow.payload.into());
                let frames = |wire: u64| if wire < sending.load.wire { wire / frame } else { flow.packets() };
                let (sent, arrived) = self.progress(sending);
                (frames(sent), frames(arrived))
            }
            None => (0, 0),
        };
        FlowResult {
            id: flow.id,
            from: self.plan.names[planned.from].clone(),
            to: self.plan.names[planned.to].clone(),
            bytes: is_finite(planned).then_some(flow.bytes),
            start_ns: known(outcome.start),
            // Exactly as long as it took: its ends may lie between two nanoseconds.
            fct_ns: if outcome.done == NEVER { None } else { known(outcome.done - outcome.start) },
            ideal_ns: is_finite(planned).then(|| self.ways().alone(planned, &[planned.to])),
            delivered: flow.bytes.min(arrived.saturating_mul(flow.payload.into())),
            lost: 0,
            packets,
            resent: 0,
            useless: None,
            marked: None,
            cnps: None,
            timeouts: 0,
            probes: 0,
            rate_bps: None,
            level: (self.spec.level == Level::Hybrid).then_some(Level::Flow),
            error: None,
        }
    }

    /// Of the time at flow level, which is not that of frames; rounded up: 0 is never.
    fn bottleneck_milli(&self, dir: usize) -> u64 {
        let at = self.contention[dir];
        let time = at.total + if at.since == NEVER { 0 } else { self.now - at.since };
        (u128::from(time) * 1000).div_ceil(u128::from(self.now.max(1))) as u64
    }

    fn link_result(&self, dir: usize, bottleneck_milli: u64) -> LinkResult {
        let result = self.lines[dir].result(&self.dirs[dir], &self.plan.names, self.now);
        LinkResult { bottleneck_milli: Some(bottleneck_milli), ..result }
    }

    fn frames_sent(&self) -> u64 {
        self.lines.iter().map(|line| line.carried).sum()
    }

    /// Links do not carry what flows were at flow level that are played frame by frame.
    fn take_off_links(&mut self, packets: &Packets) {
        for (flow, _) in (0u32..).zip(&packets.section.flows).filter(|(_, is_played)| **is_played) {
            let (frames, bytes) = self.on_links(flow);
            let f = &self.flows[flow as usize];
            let path: Vec<usize> = self.ways().path(f.from, f.to, f.path).collect();
            for dir in path {
                let line = &mut self.lines[dir];
                (line.carried, line.bytes) = (line.carried - frames, line.bytes - bytes);
            }
        }
    }

    /// They carry its frames instead, and pauses.
    fn put_on_links(&mut self, packets: &Packets) {
        for (line, link) in self.lines.iter_mut().zip(&packets.report.links) {
            (line.carried, line.bytes) = (line.carried + link.frames, line.bytes + link.bytes);
        }
    }

    /// When the last of what is at flow level alone had ended, ns.
    fn end_beside(&self, packets: &Packets) -> Nanos {
        let flows =
            self.flows.iter().map(|f| f.flow.id as usize).filter(|flow| !packets.section.flows[*flow]);
        let done = flows.map(|flow| known(self.outcomes[flow].done).unwrap_or(NEVER));
        let computations = self.computations(&packets.section.ops);
        let computed = computations.ended.keys().map(|(_, at)| *at);
        done.chain(computed).chain(computations.is_open().then_some(NEVER)).max().unwrap_or(0).min(self.ns())
    }

    fn why_hybrid(&self, packets: &Packets) -> Vec<String> {
        let played = &packets.section.flows;
        let count = |all: &[bool]| all.iter().filter(|is| **is).count();
        let mut shared = vec![false; self.dirs.len()];
        let way = |f: &Planned| self.ways().path(f.from, f.to, f.path).collect::<Vec<_>>();
        let flows = || self.flows.iter().zip(played);
        flows().filter(|(_, played)| **played).flat_map(|(f, _)| way(f)).for_each(|dir| shared[dir] = true);
        let beside =
            flows().filter(|(f, played)| !**played && way(f).into_iter().any(|dir| shared[dir])).count();
        let switches = self.plan.names.len() - self.plan.hosts;
        let mut all = vec![format!(
            "{} of {} {} played frame by frame, by {} of {switches} {}: each passes one of {} of links that are congested, or is of a job of \
             which others do. {beside} of the others {} links with them that are not: what they do to one another there is left out.",
            count(played),
            counted(played.len(), "flow"),
            agree(count(played), "was", "were"),
            count(&packets.section.nodes[self.plan.hosts..]),
            agree(switches, "switch", "switches"),
            counted(packets.congested, "direction"),
            agree(beside, "shares", "share"),
        )];
        if packets.of_jobs > 0 {
            all.push(format!(
                "{} of them {} no congested link, but {} for flows that do, or is waited for by such: jobs are played as a whole.",
                packets.of_jobs,
                agree(packets.of_jobs, "passes", "pass"),
                agree(packets.of_jobs, "waits", "wait")
            ));
        }
        if packets.held_back > 0 {
            all.push(format!(
                "{} of them {} no congested link, but one that PFC held back.",
                packets.held_back,
                agree(packets.held_back, "passes", "pass")
            ));
        }
        if packets.left > 0 {
            all.push(format!(
                "PFC held back links on the way of {} at flow level, which {} longer than is said here.",
                counted(packets.left, "more flow"),
                agree(packets.left, "takes", "take")
            ));
        }
        all
    }

    fn why(&self, report: &Report) -> Vec<String> {
        let what = match self.spec.level {
            Level::Hybrid => "Hybrid level: every flow that passes no congested link has",
            Level::Packet | Level::Flow => "Flow level: every flow has",
        };
        let mut all = vec![format!(
            "{what} its max-min fair share of its path at any time. Queues, marks, pauses, losses, acknowledgements and the time in \
             which congestion control finds a rate are not played."
        )];
        all.extend(workload::notes(&self.plan, self.spec.stop_time.0, self.flows.iter()));
        let idle = scope::idle_keys(self.spec, self.operations.follows_sends());
        if !idle.is_empty() {
            let place = match self.spec.level {
                Level::Hybrid => "on flows that are not played",
                Level::Packet | Level::Flow => "at flow level",
            };
            all.push(format!("Keys of the file without an effect {place}: {}.", idle.join(", ")));
        }
        let mut links: Vec<&LinkResult> =
            report.links.iter().filter(|link| link.bottleneck_milli > Some(0)).collect();
        links.sort_by_key(|link| std::cmp::Reverse(link.bottleneck_milli));
        let of = match self.spec.level {
            Level::Hybrid => "run at flow level",
            Level::Packet | Level::Flow => "run",
        };
        let named: Vec<String> = links
            .iter()
            .take(NAMED)
            .map(|link| {
                let share = link.bottleneck_milli.unwrap_or(0);
                format!("{} \u{2192} {} for {}.{} % of the {of}", link.from, link.to, share / 10, share % 10)
            })
            .collect();
        all.push(match named.is_empty() {
            true => "No link was the bottleneck of flows that are sent over it at the same time. Delays of links, by which others may \
                     meet there, are not looked at."
                .to_owned(),
            false => format!(
                "{} of {} of links {}, longest {}.",
                links.len(),
                counted(report.links.len(), "direction"),
                agree(
                    links.len(),
                    "was a bottleneck of flows that share it",
                    "were bottlenecks of flows that share them"
                ),
                named.join(", ")
            ),
        });
        all
    }
}
