//! Operations as they begin and end: what has ended lets go of what waits for it.

use super::graph::{Op, OpId, Work};
use super::time::{PS, Ps};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use weir_dataplane::types::Nanos;

/// No operation.
const NONE: OpId = OpId::MAX;

/// What an operation that begins asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Due {
    /// A flow may start.
    Start { flow: u32 },
    /// A computation is over.
    Computed { op: OpId },
}

/// How far all operations are.
#[derive(Debug)]
pub(super) struct Operations {
    ops: Vec<Op>,
    /// Ends each still waits for.
    waits: Vec<u32>,
    /// What waits for each.
    followers: Vec<Vec<OpId>>,
    /// Of each flow: the operation that sends it, and the one that receives it.
    ends: Vec<(OpId, OpId)>,
    /// When each stream of a host has done what it was given, ps.
    busy: BTreeMap<(u32, u32), Ps>,
    /// Computations that have not ended.
    pub(super) computing: usize,
    /// Hosts and times at which computations ended.
    pub(super) computed: BTreeSet<(u32, Nanos)>,
    /// Somebody waits for the end of a sending.
    pub(super) follows_sends: bool,
}

impl Operations {
    pub(super) fn new(mut ops: Vec<Op>, flows: usize) -> Self {
        let mut followers = vec![Vec::new(); ops.len()];
        let mut ends = vec![(NONE, NONE); flows];
        let mut waits = Vec::with_capacity(ops.len());
        for (at, op) in (0..).zip(&mut ops) {
            for before in std::mem::take(&mut op.after) {
                followers[before as usize].push(at);
            }
            // A message that is received has to come.
            waits.push(op.needs + u32::from(matches!(op.work, Work::Receive(_))));
            match op.work {
                Work::Send(flow) => ends[flow as usize].0 = at,
                Work::Receive(flow) => ends[flow as usize].1 = at,
                Work::Join | Work::Compute { .. } => {}
            }
        }
        let computing = ops.iter().filter(|op| matches!(op.work, Work::Compute { .. })).count();
        let follows_sends =
            ends.iter().any(|(send, _)| followers.get(*send as usize).is_some_and(|f| !f.is_empty()));
        let (busy, computed) = (BTreeMap::new(), BTreeSet::new());
        Self { ops, waits, followers, ends, busy, computing, computed, follows_sends }
    }

    /// One of those that `op` waits for has ended: whether it may begin now. It may need no more of them.
    fn one_less(&mut self, op: OpId) -> bool {
        let waits = &mut self.waits[op as usize];
        let last = *waits == 1;
        *waits = waits.saturating_sub(1);
        last
    }

    /// `op` has ended: what may begin now.
    fn end(&mut self, op: OpId) -> Vec<OpId> {
        let mut followers = std::mem::take(&mut self.followers[op as usize]);
        followers.retain(|follower| self.one_less(*follower));
        followers
    }

    /// Begins what waits for nothing. `at` is told what is due when.
    pub(super) fn begin_free(&mut self, now: Ps, at: &mut impl FnMut(Ps, Due)) {
        let free = (0..).zip(&self.waits).filter(|(_, waits)| **waits == 0).map(|(at, _)| at);
        self.begin(free.collect(), now, at);
    }

    /// All bytes of a flow have arrived.
    pub(super) fn received(&mut self, flow: u32, now: Ps, at: &mut impl FnMut(Ps, Due)) {
        let op = self.ends[flow as usize].1;
        if op != NONE && self.one_less(op) {
            self.begin([op].into(), now, at);
        }
    }

    /// A computation is over.
    pub(super) fn computed(&mut self, op: OpId, now: Ps, at: &mut impl FnMut(Ps, Due)) {
        self.computing -= 1;
        if let Work::Compute { host, .. } = self.ops[op as usize].work {
            self.computed.insert((host, now.div_ceil(PS)));
        }
        let open = self.end(op).into();
        self.begin(open, now, at);
    }

    /// The sender of a flow knows that all bytes have arrived.
    pub(super) fn acknowledged(&mut self, flow: u32, now: Ps, at: &mut impl FnMut(Ps, Due)) {
        let op = self.ends[flow as usize].0;
        if op != NONE {
            let open = self.end(op).into();
            self.begin(open, now, at);
        }
    }

    /// Begins these, in order, and what follows at once from their ends.
    fn begin(&mut self, mut open: VecDeque<OpId>, now: Ps, at: &mut impl FnMut(Ps, Due)) {
        while let Some(op) = open.pop_front() {
            let Op { work, start, .. } = self.ops[op as usize];
            match work {
                Work::Send(flow) => at(start.saturating_mul(PS).max(now), Due::Start { flow }),
                Work::Compute { host, stream, ns } => {
                    let busy = self.busy.entry((host, stream)).or_default();
                    *busy =
                        (*busy).max(start.saturating_mul(PS)).max(now).saturating_add(ns.saturating_mul(PS));
                    at(*busy, Due::Computed { op });
                }
                Work::Receive(_) | Work::Join => open.extend(self.end(op)),
            }
        }
    }
}
