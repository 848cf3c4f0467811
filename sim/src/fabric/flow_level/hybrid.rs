//! Flows that pass a congested link, frame by frame.
//!
//! A direction of a link is congested if it was, at any time at flow level, the bottleneck of several flows. The flows that pass
//! one are played in a fabric of the switches and hosts that their frames pass, and with each all of its job: what it waits for, and
//! what waits for it. All others have at flow level what they have alone; that some of them meet which are sent one after the other,
//! over ways of different delay, is left out. Where that fabric held back a link by PFC which others pass, these are played, too,
//! until there are no such links.

use super::jobs::Jobs;
use super::world::World;
use crate::fabric::FabricError;
use crate::fabric::engine;
use crate::fabric::engine::SectionFacts;
use crate::fabric::engine::section::Section;
use crate::fabric::graph::Work;
use crate::fabric::hosts;
use crate::fabric::play::Progress;
use crate::fabric::report::Report;
use crate::fabric::routes;
use crate::fabric::workload::Planned;
use std::collections::BTreeMap;
use std::ops::ControlFlow;

/// Times that flows are played anew with those whose links PFC held back.
const MOST_ROUNDS: usize = 4;

/// What was played frame by frame.
pub(super) struct Packets {
    pub section: Section,
    pub report: Report,
    pub facts: SectionFacts,
    /// Directions of links that are congested.
    pub congested: usize,
    /// Flows that are played for the sake of others of their jobs alone.
    pub of_jobs: usize,
    /// Flows that are played for the sake of PFC alone.
    pub held_back: usize,
    /// Flows at flow level that pass links which PFC held back.
    pub left: usize,
}

/// Plays the flows that pass a congested link, on so many threads at most; `None`: there are none.
///
/// # Errors
/// As of a run frame by frame.
pub(super) fn play_congested(
    world: &World<'_>,
    threads: usize,
    progress: &mut dyn FnMut(Progress) -> ControlFlow<()>,
) -> Result<Option<Packets>, FabricError> {
    let of_links = |links: &[bool]| -> Vec<bool> {
        let way = |f: &Planned| world.ways().path(f.from, f.to, f.path).any(|dir| links[dir]);
        world.flows.iter().map(way).collect()
    };
    let congested = world.congested();
    let count = |flows: &[bool]| flows.iter().filter(|f| **f).count();
    let flows = of_links(&congested);
    let in_their_own_right = count(&flows);
    if in_their_own_right == 0 {
        return Ok(None);
    }
    let jobs = Jobs::new(&world.flows, &world.operations);
    let mut flows = jobs.whole(&flows);
    let first = count(&flows);
    let mut told: Option<Progress> = None;
    let mut events = world.events;
    for round in 1.. {
        let ops = jobs.ops_of(&flows);
        let section = Section { nodes: nodes(world, &flows, &ops), flows, ops };
        // A round that begins anew is as far as the one before until it is farther.
        let mut onward = |now: Progress| {
            let before = told.unwrap_or(Progress { now_ns: 0, done: 0, delivered: 0, ..now });
            let next = Progress {
                now_ns: now.now_ns.max(before.now_ns),
                done: now.done.max(before.done).min(before.flows),
                delivered: now.delivered.max(before.delivered).min(before.bytes),
                events: events + now.events,
                ..before
            };
            told = Some(next);
            progress(next)
        };
        let (report, facts) = engine::run_section(world.spec, &section, threads, &mut onward)?;
        events += report.events;
        let others = of_links(&held_back(world, &report));
        let others: Vec<bool> =
            others.iter().zip(&section.flows).map(|(other, played)| *other && !played).collect();
        let left = count(&others);
        if left == 0 || round == MOST_ROUNDS || report.stopped {
            let (congested, of_jobs) = (count(&congested), first - in_their_own_right);
            let held_back = count(&section.flows) - first;
            return Ok(Some(Packets { section, report, facts, congested, of_jobs, held_back, left }));
        }
        let both = section.flows.iter().zip(others).map(|(played, other)| *played || other);
        flows = jobs.whole(&both.collect::<Vec<_>>());
    }
    Ok(None)
}

/// What frames of these flows pass, and what their answers do; and where these operations compute.
fn nodes(world: &World<'_>, flows: &[bool], ops: &[bool]) -> Vec<bool> {
    let mut there = vec![false; world.plan.names.len()];
    let ways = world.ways();
    for f in world.flows.iter().filter(|f| flows[f.flow.id as usize]) {
        let back = routes::roce_flow(hosts::ip(f.to), hosts::ip(f.from), f.src_port);
        for dir in ways.path(f.from, f.to, f.path).chain(ways.path(f.to, f.from, back)) {
            there[world.dirs[dir].from.node] = true;
            there[world.dirs[dir].to.node] = true;
        }
    }
    for (op, _) in (0..).zip(ops).filter(|(_, is_in)| **is_in) {
        if let Work::Compute { host, .. } = world.operations.op(op).work {
            there[host as usize] = true;
        }
    }
    there
}

/// Directions in which a switch held its peer back.
fn held_back(world: &World<'_>, report: &Report) -> Vec<bool> {
    let number = |(node, name)| (name, node);
    let numbers: BTreeMap<&String, usize> = world.plan.names.iter().enumerate().map(number).collect();
    let mut links = vec![false; world.dirs.len()];
    for (switch, port) in report.ports().filter(|(_, port)| port.pfc_tx_xoff > 0) {
        // The two directions of a link are neighbours.
        links[world.out[numbers[&switch.name]][port.port] ^ 1] = true;
    }
    links
}
