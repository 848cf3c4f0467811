//! Operations as they begin and end: what has ended lets go of what waits for it.

use super::computations::{Computation, Computations};
use super::graph::{Op, OpId, Work};
use super::time::{PS, Ps};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// No operation.
const NONE: OpId = OpId::MAX;

/// What an operation that begins asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Due {
    /// A flow may start.
    Start { flow: u32 },
    /// A computation that waits for nothing else has come to its start.
    Ready { op: OpId },
    /// A computation is over.
    Computed { op: OpId },
}

/// All operations, and what waits for what.
#[derive(Debug)]
struct Order {
    ops: Vec<Op>,
    /// What waits for each: from its own entry to the next one, a part of `followers`.
    first: Vec<u32>,
    followers: Vec<OpId>,
    /// Of each flow: the operation that sends it, and the one that receives it.
    ends: Vec<(OpId, OpId)>,
    /// How many are computations.
    computations: usize,
    /// Somebody waits for the end of a sending.
    follows_sends: bool,
}

/// How far all operations are, or those that begin and end together.
#[derive(Debug)]
pub(super) struct Operations {
    order: Arc<Order>,
    /// Ends each still waits for. Only one group ever looks at those of an operation.
    waits: Arc<[AtomicU32]>,
    /// When each stream of a host has done what it was given, ps.
    busy: BTreeMap<(u32, u32), Ps>,
    /// Computations that have ended.
    over: usize,
    /// When those end that their streams were given, ps.
    ends: BTreeMap<OpId, Ps>,
}

impl Order {
    fn new(mut ops: Vec<Op>, flows: usize) -> Self {
        let mut ends = vec![(NONE, NONE); flows];
        let after: Vec<Vec<OpId>> = ops.iter_mut().map(|op| std::mem::take(&mut op.after)).collect();
        let mut first = vec![0u32; ops.len() + 1];
        after.iter().flatten().for_each(|before| first[*before as usize + 1] += 1);
        for at in 1..first.len() {
            first[at] += first[at - 1];
        }
        let mut next = first.clone();
        let mut followers = vec![NONE; after.iter().map(Vec::len).sum()];
        for (at, before) in (0..).zip(&after).flat_map(|(at, after)| after.iter().map(move |op| (at, op))) {
            let place = &mut next[*before as usize];
            followers[*place as usize] = at;
            *place += 1;
        }
        for (at, op) in (0..).zip(&ops) {
            match op.work {
                Work::Send(flow) => ends[flow as usize].0 = at,
                Work::Receive(flow) => ends[flow as usize].1 = at,
                Work::Join | Work::Compute { .. } => {}
            }
        }
        let computations = ops.iter().filter(|op| matches!(op.work, Work::Compute { .. })).count();
        let is_followed = |op: OpId| op != NONE && first[op as usize] < first[op as usize + 1];
        let follows_sends = ends.iter().any(|(send, _)| is_followed(*send));
        Self { ops, first, followers, ends, computations, follows_sends }
    }

    fn followers(&self, op: OpId) -> &[OpId] {
        let at = op as usize;
        &self.followers[self.first[at] as usize..self.first[at + 1] as usize]
    }
}

impl Operations {
    pub(super) fn new(ops: Vec<Op>, flows: usize) -> Self {
        // A message that is received has to come.
        let waits = |op: &Op| AtomicU32::new(op.needs + u32::from(matches!(op.work, Work::Receive(_))));
        let waits = ops.iter().map(waits).collect();
        let order = Arc::new(Order::new(ops, flows));
        Self { order, waits, busy: BTreeMap::new(), over: 0, ends: BTreeMap::new() }
    }

    /// The same, for what begins and ends in a part of the fabric that depends on no other part: until [`Self::join`].
    pub(super) fn split(&self) -> Self {
        let (order, waits, busy) = (Arc::clone(&self.order), Arc::clone(&self.waits), self.busy.clone());
        Self { order, waits, busy, over: 0, ends: BTreeMap::new() }
    }

    /// Takes back what a [`Self::split`] made.
    pub(super) fn join(&mut self, mut part: Self) {
        for (stream, busy) in part.busy {
            let own = self.busy.entry(stream).or_default();
            *own = (*own).max(busy);
        }
        self.over += part.over;
        self.ends.append(&mut part.ends);
    }

    /// What is due at the begin, in the order in which it is asked for.
    pub(super) fn first(&self) -> Vec<(Ps, Due)> {
        let waits = self.waits.iter().map(|waits| AtomicU32::new(waits.load(Relaxed))).collect();
        let mut first = Vec::new();
        Self { waits, ..self.split() }.begin_free(0, &mut |at, due| first.push((at, due)));
        first
    }

    /// Operations, and each that waits for them.
    pub(super) fn dependencies(&self) -> impl Iterator<Item = (OpId, OpId)> {
        let order = &*self.order;
        let ops = 0..order.ops.len() as OpId;
        ops.flat_map(|op| order.followers(op).iter().map(move |follower| (op, *follower)))
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.order.ops.len()
    }

    /// An operation.
    pub(super) fn op(&self, op: OpId) -> &Op {
        &self.order.ops[op as usize]
    }

    /// Computations have not ended.
    pub(super) fn computing(&self) -> bool {
        self.over < self.order.computations
    }

    /// What has become of computations by `now`, of those that `is_in` says.
    pub(super) fn computations(&self, now: Ps, is_in: impl Fn(OpId) -> bool) -> Computations {
        let mut all = Computations::default();
        for (at, op) in (0..).zip(&self.order.ops).filter(|(at, _)| is_in(*at)) {
            if let Work::Compute { host, ns, collective, .. } = op.work {
                let times = self.ends.get(&at).map(|end| (end.saturating_sub(ns.saturating_mul(PS)), *end));
                all.add(&Computation { host, ns, start: op.start, collective, times }, now);
            }
        }
        all
    }

    /// Somebody waits for the end of a sending.
    #[inline]
    pub(super) fn follows_sends(&self) -> bool {
        self.order.follows_sends
    }

    /// One of those that `op` waits for has ended: whether it may begin now. It may need no more of them.
    fn one_less(&self, op: OpId) -> bool {
        let waits = self.waits[op as usize].load(Relaxed);
        self.waits[op as usize].store(waits.saturating_sub(1), Relaxed);
        waits == 1
    }

    /// `op` has ended, for the first time: what may begin now.
    fn end(&self, op: OpId) -> VecDeque<OpId> {
        let followers = self.order.followers(op).iter().copied();
        followers.filter(|follower| self.one_less(*follower)).collect()
    }

    /// Begins what waits for nothing. `at` is told what is due when.
    pub(super) fn begin_free(&mut self, now: Ps, at: &mut impl FnMut(Ps, Due)) {
        let free = (0..).zip(&*self.waits).filter(|(_, waits)| waits.load(Relaxed) == 0).map(|(at, _)| at);
        self.begin(free.collect(), now, at);
    }

    /// All bytes of a flow have arrived.
    pub(super) fn received(&mut self, flow: u32, now: Ps, at: &mut impl FnMut(Ps, Due)) {
        let op = self.order.ends[flow as usize].1;
        if op != NONE && self.one_less(op) {
            self.begin([op].into(), now, at);
        }
    }

    /// A computation that waits for nothing else has come to its start.
    pub(super) fn ready(&mut self, op: OpId, now: Ps, at: &mut impl FnMut(Ps, Due)) {
        self.begin([op].into(), now, at);
    }

    /// A computation is over.
    pub(super) fn computed(&mut self, op: OpId, now: Ps, at: &mut impl FnMut(Ps, Due)) {
        self.over += 1;
        let open = self.end(op);
        self.begin(open, now, at);
    }

    /// The sender of a flow knows that all bytes have arrived.
    pub(super) fn acknowledged(&mut self, flow: u32, now: Ps, at: &mut impl FnMut(Ps, Due)) {
        let op = self.order.ends[flow as usize].0;
        if op != NONE {
            let open = self.end(op);
            self.begin(open, now, at);
        }
    }

    /// Begins these, in order, and what follows at once from their ends.
    fn begin(&mut self, mut open: VecDeque<OpId>, now: Ps, at: &mut impl FnMut(Ps, Due)) {
        while let Some(op) = open.pop_front() {
            let Op { work, start, .. } = self.order.ops[op as usize];
            match work {
                Work::Send(flow) => at(start.saturating_mul(PS).max(now), Due::Start { flow }),
                // Until then its stream may do other things.
                Work::Compute { .. } if start.saturating_mul(PS) > now => {
                    at(start.saturating_mul(PS), Due::Ready { op });
                }
                Work::Compute { host, stream, ns, .. } => {
                    let busy = self.busy.entry((host, stream)).or_default();
                    *busy = (*busy).max(now).saturating_add(ns.saturating_mul(PS));
                    self.ends.insert(op, *busy);
                    at(*busy, Due::Computed { op });
                }
                Work::Receive(_) | Work::Join => open.extend(self.end(op)),
            }
        }
    }
}
