//! Queue pairs that groups open at one another's hosts, and their numbers there, which both must know at once.

use crate::fabric::operations::{Due, Operations};
use crate::fabric::time::{PS, Ps};
use crate::fabric::workload::Planned;
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
    /// Those of `flows`. `None`: which queue pair of a host is opened first is not known before it happens.
    pub fn new(flows: &[Planned], operations: &Operations) -> Option<Self> {
        // What waits for nothing starts at its time, and in the order it is asked for.
        let first = operations.first();
        let begin = first.iter().map(|(at, _)| *at).min().unwrap_or(Ps::MAX);
        let start = |(at, due): (Ps, Due)| match due {
            Due::Start { flow } => Some((at, flow)),
            Due::Computed { .. } => None,
        };
        let mut starts: Vec<(Ps, u32)> = first.into_iter().filter_map(start).collect();
        starts.sort_by_key(|(at, _)| *at);
        let mut opened = vec![None; flows.len()];
        let mut next: BTreeMap<(bool, usize), u32> = BTreeMap::new();
        let mut number = |receives: bool, host: usize| {
            let next = next.entry((receives, host)).or_default();
            *next += 1;
            *next - 1
        };
        let mut is_known = vec![false; flows.len()];
        // When each queue pair is opened.
        let mut times = vec![Ps::MAX; flows.len()];
        for (at, by) in starts {
            let Planned { from, to, pair, seat, .. } = flows[by as usize];
            is_known[by as usize] = true;
            let pair = pair as usize;
            if seat.is_none() && opened[pair].is_none() {
                opened[pair] = Some(Opened { by, sender: number(false, from), receiver: number(true, to) });
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
