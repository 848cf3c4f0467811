//! Queue pairs that groups open at one another's hosts, and their numbers there, which both must know at once.

use crate::fabric::engine::held::Held;
use crate::fabric::hosts::Host;
use crate::fabric::operations::{Due, Operations};
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
pub(super) struct Numbers(Vec<Option<Opened>>);

impl Numbers {
    /// Those of `flows` between hosts that have none yet. `None`: which queue pair of a host is opened first is not known before it
    /// happens.
    pub fn new(flows: &[Planned], operations: &Operations, hosts: &Held<Host>) -> Option<Self> {
        // What waits for nothing starts at its time, and in the order it is asked for.
        let first = operations.first();
        let begin = first.iter().map(|(at, _)| *at).min().unwrap_or(Ps::MAX);
        let start = |(at, due): (Ps, Due)| match due {
            Due::Start { flow } => Some((at, flow)),
            Due::Computed { .. } => None,
        };
        let mut starts: Vec<(Ps, u32)> = first.into_iter().filter_map(start).collect();
        starts.sort_by_key(|(at, _)| *at);
        let mut opened: Vec<Option<Opened>> = vec![None; flows.len()];
        let mut next: BTreeMap<(usize, bool, bool), u32> = BTreeMap::new();
        let mut number = |receives: bool, at: usize, carriage: Carriage| {
            let host = &hosts[at];
            let (sender, receiver) = host.next(carriage);
            let list = (at, receives && host.numbers_apart(), carriage == Carriage::Pair);
            let next = next.entry(list).or_insert(if receives { receiver } else { sender });
            *next += 1;
            *next - 1
        };
        let mut is_known = vec![false; flows.len()];
        // When each queue pair is opened.
        let mut times = vec![Ps::MAX; flows.len()];
        for (at, by) in starts {
            let planned = &flows[by as usize];
            let Planned { from, to, pair, seat, carriage, .. } = *planned;
            is_known[by as usize] = true;
            let pair = pair as usize;
            if seat.is_none() && opened[pair].is_none() {
                // The first flow of a group is the first to start.
                let sent_with = planned.sent_with().and_then(|first| opened[first as usize]);
                let sender = sent_with.map_or_else(|| number(false, from, carriage), |first| first.sender);
                opened[pair] = Some(Opened { by, sender, receiver: number(true, to, carriage) });
                times[pair] = at;
            }
        }
        // What waits for something starts later than the first thing of all, and not before its own time.
        let follows = |f: &Planned| {
            let opens = times[f.pair as usize];
            opens <= begin || opens <= f.flow.start.saturating_mul(PS)
        };
        let mut unknown = flows.iter().filter(|f| f.seat.is_none() && !is_known[f.flow.id as usize]);
        unknown.all(follows).then_some(Self(opened))
    }

    /// A queue pair.
    pub fn of(&self, pair: u32) -> Option<Opened> {
        self.0[pair as usize]
    }
}
