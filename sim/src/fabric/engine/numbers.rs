//! Numbers of the ends of queue pairs at their hosts, as far as they are known before the pairs are opened: groups open them at one
//! another's hosts.

use super::held::Held;
use crate::fabric::hosts::Host;
use crate::fabric::operations::{Due, Operations};
use crate::fabric::spec::Protocol;
use crate::fabric::time::{PS, Ps};
use crate::fabric::workload::{Carriage, Planned};
use std::collections::BTreeMap;

/// A queue pair that has yet to be opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Opened {
    /// The flow that does it.
    pub by: u32,
    /// Number among those its host sends over, and among those its peer receives over.
    pub sender: u32,
    pub receiver: u32,
}

/// All queue pairs, by the number of their first flow.
#[derive(Debug)]
pub(super) enum Numbers {
    /// Of the ends that receive, which have numbers of their own. Who sends numbers its ends as it opens them, and says so.
    Receivers(Vec<u32>),
    /// Of both ends: all ends of a host are numbered in one row, as they are opened.
    Ends(Vec<Option<Opened>>),
    /// The same, but which is opened first is not known before it happens.
    Unknown,
}

/// Flows that start by themselves, in the order in which they do, and when.
fn first_starts(operations: &Operations) -> (Ps, Vec<(Ps, u32)>) {
    let first = operations.first();
    let begin = first.iter().map(|(at, _)| *at).min().unwrap_or(Ps::MAX);
    let start = |(at, due): (Ps, Due)| match due {
        Due::Start { flow } => Some((at, flow)),
        Due::Computed { .. } => None,
    };
    // Equal times in the order they are asked for.
    let mut starts: Vec<(Ps, u32)> = first.into_iter().filter_map(start).collect();
    starts.sort_by_key(|(at, _)| *at);
    (begin, starts)
}

impl Numbers {
    /// Those of `flows` between `hosts` that have none yet.
    pub fn new(protocol: Protocol, flows: &[Planned], operations: &Operations, hosts: &Held<Host>) -> Self {
        let (begin, starts) = first_starts(operations);
        match protocol {
            Protocol::Rocev2 => Self::receivers(flows, &starts, hosts.len()),
            Protocol::Rclink => Self::ends(flows, begin, &starts, hosts),
        }
    }

    /// Those that start by themselves first, all others as they are listed.
    fn receivers(flows: &[Planned], starts: &[(Ps, u32)], hosts: usize) -> Self {
        let mut numbers = vec![u32::MAX; flows.len()];
        let mut next = vec![0; hosts];
        for flow in starts.iter().map(|(_, flow)| *flow).chain(0..flows.len() as u32) {
            let Planned { to, pair, seat, .. } = flows[flow as usize];
            let number = &mut numbers[pair as usize];
            if seat.is_none() && *number == u32::MAX {
                *number = next[to];
                next[to] += 1;
            }
        }
        Self::Receivers(numbers)
    }

    fn ends(flows: &[Planned], begin: Ps, starts: &[(Ps, u32)], hosts: &Held<Host>) -> Self {
        let mut opened: Vec<Option<Opened>> = vec![None; flows.len()];
        let mut next: BTreeMap<(usize, bool), u32> = BTreeMap::new();
        let mut number = |at: usize, carriage: Carriage| {
            let next = next.entry((at, carriage == Carriage::Pair)).or_insert(hosts[at].next(carriage));
            *next += 1;
            *next - 1
        };
        let mut is_known = vec![false; flows.len()];
        // When each queue pair is opened.
        let mut times = vec![Ps::MAX; flows.len()];
        for (at, by) in starts.iter().copied() {
            let planned = &flows[by as usize];
            let Planned { from, to, pair, carriage, .. } = *planned;
            is_known[by as usize] = true;
            let pair = pair as usize;
            if opened[pair].is_none() {
                // The first flow of a group is the first to start.
                let sent_with = planned.sent_with().and_then(|first| opened[first as usize]);
                let sender = sent_with.map_or_else(|| number(from, carriage), |first| first.sender);
                opened[pair] = Some(Opened { by, sender, receiver: number(to, carriage) });
                times[pair] = at;
            }
        }
        // What waits for something starts later than the first thing of all, and not before its own time.
        let follows = |f: &Planned| {
            let opens = times[f.pair as usize];
            opens <= begin || opens <= f.flow.start.saturating_mul(PS)
        };
        let mut unknown = flows.iter().filter(|f| !is_known[f.flow.id as usize]);
        if unknown.all(follows) { Self::Ends(opened) } else { Self::Unknown }
    }

    /// Both ends of a queue pair, where they are known.
    pub fn ends_of(&self, pair: u32) -> Option<Opened> {
        if let Self::Ends(opened) = self { opened[pair as usize] } else { None }
    }

    /// The receiving end of a queue pair, where it is known.
    pub fn receiver(&self, pair: u32) -> Option<u32> {
        match self {
            Self::Receivers(numbers) => Some(numbers[pair as usize]),
            Self::Ends(opened) => opened[pair as usize].map(|opened| opened.receiver),
            Self::Unknown => None,
        }
    }
}
