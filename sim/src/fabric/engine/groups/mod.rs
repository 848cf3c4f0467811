//! One run on several threads, with the results of one.
//!
//! Nodes are divided into groups, each with its hosts, its switches and an event queue of its own. What one group does is felt by
//! another after the delay of a cable at the least: the lookahead. So all groups play a window of that length at once, and then tell
//! one another what they have sent. Events of one time happen in the order in which they were asked for, and in a window nobody knows
//! how much others have asked for: each group counts by itself, and when the window is over all that was played is gone through once, by
//! time and order, to give what was asked for the numbers one queue would have given. What is of the whole fabric (links that fail,
//! orders, samples), and the end, when the last flow may end within a window, is played by one thread with the groups together.

use super::event_loop::EVENTS_PER_STEP;
use super::world::Fabric;
use crate::fabric::graph::Work;
use crate::fabric::links::Direction;
use crate::fabric::operations::Operations;
use crate::fabric::play::{Progress, Undivided};
use crate::fabric::time::{PS, Ps};
use crate::fabric::ways::HEAD_BYTES;
use crate::fabric::workload::{Planned, is_finite};
use partition::Partition;
use std::ops::ControlFlow;
use team::Team;

mod membership;
mod merge;
mod partition;
mod split;
mod team;
mod window;

#[cfg(test)]
mod kind_tests;
#[cfg(test)]
mod tests;

pub(super) use membership::{Membership, Message};

/// What is of the whole fabric and comes again and again does so less often than every so many windows, or one thread plays all.
const WINDOWS_APART: u64 = 16;
/// Groups for each thread, if there can be so many: a group has more to do than another, and not always the same one.
const GROUPS: usize = 2;
/// One thread plays groups of so many hosts one after the other faster than all at once, whose events are a longer list to keep in order, and
/// whose state is not in the caches. So do several.
const HOSTS: usize = 64;
/// Every group has a list of all lines.
const MOST_GROUPS: usize = 32;
/// Events of a window below which threads are not worth waking.
const FEW: u64 = if cfg!(test) { 4 } else { 200 };
/// Events of a window, in the mean, below which groups are not worth having,
const TOO_FEW: u64 = 24;
/// after so many windows; and how many events are played before they are tried again.
const TRIED: u64 = 256;
const STRETCH: u64 = 1 << 18;

/// How a run is divided.
#[cfg_attr(test, derive(Clone))]
pub(super) struct Groups {
    threads: usize,
    partition: Partition,
    /// A flow between hosts of one group takes this long at the least.
    nearest: Ps,
    /// Times an endpoint of a sum can have to send again within a window without progress.
    go_backs: u64,
}

/// Why groups have come together.
enum Together {
    /// Something happens that is of the whole fabric.
    Whole((Ps, u64)),
    /// Their windows are nearly empty.
    Few,
    /// The last flow may end soon, or time does.
    End,
    /// The run was told to end.
    Stopped,
}

impl Groups {
    /// Groups for so many threads at most. To be asked before the run begins.
    ///
    /// # Errors
    /// Why one thread plays everything as one piece.
    pub fn new(fabric: &Fabric<'_>, threads: usize) -> Result<Self, Undivided> {
        let threads = threads.max(1);
        let hosts = fabric.there[..fabric.plan.hosts].iter().filter(|there| **there).count();
        let shared = if threads > 1 { threads * GROUPS } else { 1 };
        let most = shared.max(hosts / HOSTS).min(MOST_GROUPS.max(threads));
        // Five groups would keep two threads busy as long as six.
        let most = most.next_multiple_of(threads);
        let together = dependent(&fabric.operations, &fabric.flows, fabric.plan.names.len());
        let divided = |together: &[(usize, usize)]| {
            Partition::new(fabric.spec, &fabric.plan, (&fabric.dirs[..], &fabric.there[..]), together, most)
        };
        let partition = divided(&together).ok_or_else(|| match divided(&[]) {
            None => Undivided::Topology,
            Some(_) => Undivided::Operations,
        })?;
        let periods = [fabric.spec.sample, fabric.window].into_iter().flatten();
        let often = partition.lookahead.saturating_mul(WINDOWS_APART);
        if periods.filter(|period| period.0 > 0).any(|period| period.0.saturating_mul(PS) < often) {
            return Err(Undivided::Periods);
        }
        // Whatever goes to an engine and back passes another line, too.
        let (plan, hosts) = (&fabric.plan, fabric.plan.stations());
        let is_engine = |node: usize| (hosts..plan.hosts).contains(&node);
        let there_and_back = |dir: &Direction| 2 * (dir.delay + dir.rate.takes(HEAD_BYTES));
        let ends = fabric.dirs.iter().filter(|dir| dir.from.node < hosts);
        let nearest = ends.map(there_and_back).min().unwrap_or(0);
        let others = fabric.dirs.iter().filter(|dir| !is_engine(dir.from.node) && !is_engine(dir.to.node));
        // A NAK comes at once, and another one when what was sent for it is lost again; the same of timeouts.
        let apart =
            [others.map(there_and_back).min().unwrap_or(0), fabric.spec.host.timeout.0.saturating_mul(PS)];
        let go_backs = apart.map(|apart| 1 + partition.lookahead / apart.max(1)).iter().sum();
        Ok(Self { threads, partition, nearest, go_backs })
    }

    /// Plays to the end.
    pub fn play(&self, fabric: &mut Fabric<'_>, progress: &mut dyn FnMut(Progress) -> ControlFlow<()>) {
        std::thread::scope(|scope| {
            let mut team = Team::new(scope, self.threads.clamp(1, self.partition.groups) - 1);
            let mut doubtful = 0;
            loop {
                let (limit, most) = match self.play_windows(fabric, &mut team, &mut doubtful, progress) {
                    Together::Stopped => return,
                    Together::Whole((time, order)) => ((time, order + 1), u64::MAX),
                    Together::Few => ((Ps::MAX, 0), STRETCH),
                    Together::End => ((Ps::MAX, 0), u64::MAX),
                };
                if !fabric.play_before(limit, most, progress) {
                    return;
                }
            }
        });
    }

    /// Plays windows while they can be.
    fn play_windows<'a>(
        &self,
        fabric: &mut Fabric<'a>,
        team: &mut Team<'a>,
        doubtful: &mut usize,
        progress: &mut dyn FnMut(Progress) -> ControlFlow<()>,
    ) -> Together {
        let mut groups = fabric.split(&self.partition);
        let mut order = fabric.queue.next_order();
        let end = (fabric.until().saturating_add(1), 0);
        let (mut windows, mut events, mut told) = (0, 0, fabric.events);
        let why = loop {
            let whole = fabric.queue.next();
            let next = groups.iter().filter_map(|group| group.next_time()).min().unwrap_or(Ps::MAX);
            if next.min(whole.map_or(Ps::MAX, |(time, _)| time)) >= end.0
                || !self.flow_goes_on(fabric, &groups, next, doubtful)
            {
                break Together::End;
            }
            let window = (next.saturating_add(self.partition.lookahead), 0).min(end);
            let limit = whole.map_or(window, |whole| whole.min(window));
            events += team.play(&mut groups, next, limit);
            merge::merge(&mut groups, &mut order, &mut fabric.timeline);
            merge::exchange(&mut groups);
            windows += 1;
            let all = fabric.events + events;
            if all / EVENTS_PER_STEP > told / EVENTS_PER_STEP {
                told = all;
                fabric.set_now(next);
                let done = fabric.done + groups.iter().map(|group| group.done).sum::<usize>();
                let parts = groups.iter().map(|group| group.timeline.bytes()).sum::<u64>();
                if fabric.tell(all, done, fabric.timeline.bytes() + parts, progress) {
                    break Together::Stopped;
                }
            }
            if let Some(whole) = whole.filter(|whole| *whole == limit) {
                break Together::Whole(whole);
            }
            if windows % TRIED == 0 && events < windows * TOO_FEW {
                break Together::Few;
            }
        };
        groups.iter_mut().for_each(|group| group.hear());
        fabric.join(groups, order);
        why
    }

    /// Whether some flow cannot end within the next window, which begins at `now`.
    fn flow_goes_on(
        &self,
        fabric: &Fabric<'_>,
        groups: &[Fabric<'_>],
        now: Ps,
        doubtful: &mut usize,
    ) -> bool {
        // What may end in a window can only do so in later ones.
        let mut flows = fabric.flows.iter().skip(*doubtful);
        let goes_on = |f: &Planned| match f.seat {
            Some(seat) => self.sum_goes_on(fabric, groups, f, seat, now),
            None => is_finite(f) && self.is_under_way(fabric, groups, f),
        };
        let ended = flows.position(goes_on);
        *doubtful = ended.map_or(fabric.flows.len(), |count| *doubtful + count);
        fabric.finite < fabric.flows.len() || ended.is_some()
    }

    /// A flow needs longer than a window: its last packet has not been sent, or more of it has yet to arrive than its receiver's line
    /// carries in that time.
    fn is_under_way(&self, fabric: &Fabric<'_>, groups: &[Fabric<'_>], f: &Planned) -> bool {
        let Partition { of, lookahead, .. } = &self.partition;
        let [sends, receives] = [f.from, f.to].map(|host| &groups[usize::from(of[host])]);
        let started = sends.started.of(f.flow.id);
        let has_sent = started.is_some_and(|s| sends.hosts[f.from].has_sent(s.sender, s.nth));
        if !has_sent && (of[f.from] != of[f.to] || self.nearest >= *lookahead) {
            return true;
        }
        let got = started.and_then(|s| receives.hosts[f.to].has_received(s.receiver, s.nth));
        let Some(got) = got.filter(|_| f.flow.transport.is_reliable()) else { return false };
        self.needs_longer(fabric, f, f.to, got.bytes)
    }

    /// What is missing of a flow takes longer than a window on the line of `host`, but for its last packet.
    fn needs_longer(&self, fabric: &Fabric<'_>, f: &Planned, host: usize, got: u64) -> bool {
        let rate = fabric.dirs[fabric.out[host][0]].rate;
        let missing = (f.flow.bytes - got).saturating_sub(f.flow.payload.into());
        rate.takes(missing) > self.partition.lookahead
    }

    /// A rank has yet to send something, or to get more than its line carries in a window that begins at `now`; and nobody in its job
    /// can give up another one in that time.
    fn sum_goes_on(
        &self,
        fabric: &Fabric<'_>,
        groups: &[Fabric<'_>],
        f: &Planned,
        seat: usize,
        now: Ps,
    ) -> bool {
        let Partition { of, lookahead, .. } = &self.partition;
        let host = |node: usize| &groups[usize::from(of[node])].hosts[node];
        let Some(rank) = host(f.from).rank(seat) else { return false };
        let sends = !rank.has_sent() && self.nearest >= *lookahead;
        let (begin, end) = (now / PS, now.saturating_add(*lookahead).div_ceil(PS));
        let ranks = 0..fabric.plan.stations();
        (sends || self.needs_longer(fabric, f, f.from, rank.received().bytes))
            && ranks.filter_map(|node| host(node).rank(seat)).all(|rank| rank.survives(self.go_backs))
            && fabric.collectives.engines(seat).all(|(job, node)| {
                let job = host(node).as_engine().and_then(|engine| engine.job(job));
                job.is_some_and(|job| job.survives(self.go_backs, begin, end))
            })
    }
}

/// Pairs of nodes where an operation at one begins at once when one at the other has ended. Operations that have no host are
/// numbered after the nodes.
fn dependent(operations: &Operations, flows: &[Planned], nodes: usize) -> Vec<(usize, usize)> {
    let home = |op: u32| match operations.op(op).work {
        Work::Send(flow) => flows[flow as usize].from,
        Work::Receive(flow) => flows[flow as usize].to,
        Work::Compute { host, .. } => host as usize,
        Work::Join => nodes + op as usize,
    };
    let pairs = operations.dependencies().map(|(before, after)| (home(before), home(after)));
    let mut pairs: Vec<(usize, usize)> = pairs.filter(|(a, b)| a != b).collect();
    pairs.sort_unstable();
    pairs.dedup();
    pairs
}
