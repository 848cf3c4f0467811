//! A job at one engine: contributions of children become results, at the root or by way of the parent.

#[cfg(test)]
mod model;
mod receive;
mod transmit;

pub(crate) use transmit::{Chosen, What as Choice};
pub use transmit::{Kind, Transmit};

use crate::collector::{Collector, Gathered};
use crate::immediate::{ALL_RANKS, Failure, Immediate, Primitive, Status, Who};
use crate::kernels::{Flags, Kernels};
use crate::outbox::{Entry, Outbox};
use crate::params::{Child, JobParams, Refusal, Straggler};
use crate::peer::Peer;
use crate::remote::{Mirror, Remote};
use crate::trace::Sum;
use std::collections::VecDeque;
use weir_dataplane::types::Nanos;
use weir_endpoint::roce::icrc::Append;
use weir_endpoint::roce::wire::Nak;

/// A result that is to come from the parent.
#[derive(Clone, Copy, Debug)]
struct Pending {
    /// Number of the contributions it is made of.
    number: u64,
    /// Children it is for.
    to: u64,
    /// Place in its message and length, if contributions below told them.
    form: Option<(bool, bool, u16)>,
    since: Nanos,
}

/// What a job has done; only grows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct JobCounters {
    /// Numbers that went out whole or in part.
    pub folded: u64,
    /// Those of them that lacked a child.
    pub partial: u64,
    /// Payload bytes folded.
    pub folded_bytes: u64,
    /// Messages complete.
    pub messages: u64,
    /// Results taken from the parent.
    pub from_parent: u64,
    /// Most numbers open at once.
    pub most_open: u64,
}

/// A job.
#[derive(Clone, Debug)]
pub struct Job {
    params: JobParams,
    /// Ranks of all children.
    below: u16,
    /// Children, then the parent.
    peers: Vec<Peer>,
    collector: Collector,
    /// To the parent.
    up: Option<Outbox>,
    /// To children.
    down: Outbox,
    /// Children in the midst of a result of several packets, a bit each.
    midst: u64,
    /// Results that are to come from the parent, oldest first.
    pending: VecDeque<Pending>,
    /// Operation the parent was told last.
    told: Option<Primitive>,
    /// Of the message that is going out.
    status: Status,
    append: Append,
    kernels: Kernels,
    failure: Option<(Failure, u16, Nanos)>,
    /// Peers that are owed an answer, a bit each by index.
    answers: u128,
    /// Peers that may have something to be sent.
    ready: u128,
    /// Peer whose turn it is.
    turn: usize,
    /// Nothing happens before, unless a frame comes.
    wake: Nanos,
    counters: JobCounters,
}

/// Results outstanding at the parent for each slot of the window.
const PENDING_PER_SLOT: usize = 2;

/// Bytes of a job besides its rings.
pub(crate) fn fixed_memory(params: &JobParams) -> u64 {
    let peers = (params.children.len() + 1) * (size_of::<Peer>() + size_of::<Child>());
    let pending = PENDING_PER_SLOT * params.window as usize * size_of::<Pending>();
    (size_of::<Job>() + peers + pending + size_of::<[[u32; 256]; 4]>()) as u64
}

impl Job {
    /// Makes it; all memory is taken here.
    pub fn new(params: JobParams, kernels: Kernels) -> Result<Self, Refusal> {
        params.check()?;
        let children = params.children.iter().map(|c| (c.qpn, c.path, c.remote));
        let parent = params.parent.iter().map(|p| (p.qpn, p.path, Remote::default()));
        let bits = (0..params.children.len()).map(|at| 1 << at).chain([1]);
        let mut peers = Vec::with_capacity(params.children.len() + 1);
        for (at, ((qpn, path, remote), bit)) in children.chain(parent).zip(bits).enumerate() {
            peers.push(Peer::new(qpn, path, bit, remote, &params).ok_or(Refusal::Family(params.id, at))?);
        }
        let (window, mtu) = (params.window, params.mtu);
        Ok(Self {
            below: params.children.iter().map(|c| c.ranks).sum(),
            peers,
            collector: Collector::new(window, mtu, params.children.len(), params.operation),
            up: params.parent.map(|_| Outbox::new(params.sums(), mtu)),
            down: Outbox::new(params.results, mtu),
            midst: 0,
            pending: VecDeque::with_capacity(PENDING_PER_SLOT * window as usize),
            told: None,
            status: Status { count: 0, flags: Flags::default() },
            append: Append::new(usize::from(mtu)),
            kernels,
            failure: None,
            answers: 0,
            ready: 0,
            turn: 0,
            wake: Nanos::MAX,
            counters: JobCounters::default(),
            params,
        })
    }

    /// What it was made of.
    pub fn params(&self) -> &JobParams {
        &self.params
    }

    /// What it has done.
    pub fn counters(&self) -> &JobCounters {
        &self.counters
    }

    /// Children, then the parent.
    pub fn peers(&self) -> &[Peer] {
        &self.peers
    }

    /// Why it failed, because of which rank, when.
    pub fn failure(&self) -> Option<(Failure, u16, Nanos)> {
        self.failure
    }

    /// It does not fail from `now` until `until` if its peers send what they should, and nobody has to be sent things again more often
    /// than `times` without progress.
    pub fn survives(&self, times: u64, now: Nanos, until: Nanos) -> bool {
        let waits = self.params.straggler == Straggler::Wait;
        waits && self.failure.is_none() && self.peers.iter().all(|peer| peer.survives(times, now, until))
    }

    /// Everything it had to say is acknowledged, or nobody is there to acknowledge it.
    pub fn is_drained(&self) -> bool {
        self.peers.iter().all(|peer| peer.dead || peer.is_idle())
    }

    /// Numbers open, and since when the oldest waits for which children (bits).
    pub fn open(&self) -> (usize, Option<(Nanos, u64)>) {
        (self.collector.open(), self.collector.waiting())
    }

    /// Children that can be sent something, a bit each.
    pub(crate) fn alive(&self) -> u64 {
        let children = &self.peers[..self.params.children.len()];
        children.iter().filter(|peer| !peer.dead).fold(0, |mask, peer| mask | peer.bit)
    }

    /// Children that a number waits for, a bit each; none: it is complete.
    pub(crate) fn missing(&self, number: u64) -> u64 {
        self.collector.missing(number)
    }

    /// What is still to come of a number, and how many ranks are in it where that is said with it; none: it is not folded.
    pub(crate) fn became_of(&self, number: u64) -> Option<(Sum, Option<u16>)> {
        if number >= self.collector.base() {
            return None;
        }
        let sent = self.up.as_ref().unwrap_or(&self.down).made_of(number)?;
        let count = match sent.imm.and_then(Immediate::decode) {
            Some(Immediate::Status(status)) => Some(status.count),
            _ => None,
        };
        Some((if self.up.is_some() { Sum::Up(number) } else { Sum::Down(number, sent.to) }, count))
    }

    /// Children that the result of a number goes to, a bit each. `None`: it has not come from above.
    pub(crate) fn result_of(&self, number: u64) -> Option<u64> {
        if self.pending.iter().any(|pending| pending.number == number) {
            return None;
        }
        Some(self.down.made_of(number).map_or(0, |entry| entry.to))
    }

    /// A packet that is kept for a peer.
    pub(crate) fn kept_for(&self, at: usize, number: u64) -> &Entry {
        let up = self.up.as_ref().filter(|_| at >= self.params.children.len());
        up.unwrap_or(&self.down).entry(number)
    }

    /// Results kept.
    pub fn kept(&self) -> u64 {
        self.down.len()
    }

    /// Something can be sent.
    pub(crate) fn is_runnable(&self) -> bool {
        (self.answers | self.ready) != 0
    }

    /// Nothing happens before that, unless a frame comes.
    pub(crate) fn wake(&self) -> Nanos {
        self.wake
    }

    /// First rank of a peer.
    fn rank_of(&self, at: usize) -> u16 {
        self.params.children.get(at).map_or(ALL_RANKS, |c| c.first_rank)
    }

    fn wake_by(&mut self, at: Nanos) {
        self.wake = self.wake.min(at);
    }

    /// Sends on whatever is complete, as long as there is room.
    fn advance(&mut self, now: Nanos) {
        while self.failure.is_none() && self.send_on(now) {}
    }

    /// Sends on the oldest number, if it is complete and there is room for it. Decided in one place, by one owner (DEV-68).
    fn send_on(&mut self, now: Nanos) -> bool {
        let Self { params, collector, up, down, kernels, .. } = self;
        let Some(Gathered { head, count, flags: below }) = collector.gathered() else { return false };
        let to = match head.operation.target(head.index, params.ranks) {
            Who::All => collector.all(),
            Who::Rank(rank) => params.children.iter().position(|c| c.holds(rank)).map_or(0, |at| 1 << at),
        };
        let upwards = up.is_some();
        let outbox = up.as_mut().unwrap_or(down);
        if !outbox.has_room() || self.pending.len() >= PENDING_PER_SLOT * params.window as usize {
            return false;
        }
        let barrier = head.operation == Primitive::Barrier;
        let name =
            upwards && head.first && !barrier && (head.index == 0 || self.told != Some(head.operation));
        if name {
            outbox.push(Entry::word(1, head.operation.encode()));
            self.told = Some(head.operation);
        }
        let len = usize::from(head.len);
        let out = &mut outbox.payload_mut()[..len];
        let inputs = collector.inputs();
        let folded = match head.operation.fold() {
            Some(fold) => kernels.fold(fold, &inputs, out),
            None => {
                if let Some(input) = inputs.first() {
                    out.copy_from_slice(input);
                }
                Ok(Flags::default())
            }
        };
        let (sources, bytes) = (!inputs.is_empty(), (inputs.len() * len) as u64);
        drop(inputs);
        // Contributions of other lengths were refused; should one come through, better no sum than a wrong one.
        let Ok(flags) = folded else {
            self.fail(Failure::Protocol, ALL_RANKS, now);
            return false;
        };
        let flags = flags | below;
        let partial = count < self.below;
        if head.first {
            self.status = Status { count: u16::MAX, flags: Flags::default() };
        }
        self.status.count = self.status.count.min(count);
        self.status.flags |= flags;
        let status = Immediate::Status(self.status).encode();
        let mut entry = match (upwards, barrier) {
            (true, true) => Entry::word(1, head.operation.encode()),
            (true, false) => Entry::new(1, head.first, head.last, head.len),
            (false, _) => Entry::new(to, head.first, head.last, head.len),
        };
        let number = collector.base();
        entry.number = number;
        if head.last && (sources || !upwards) {
            entry.imm = Some(status);
            entry.named = upwards;
        }
        outbox.push(entry);
        collector.release();
        self.counters.folded += 1;
        self.counters.partial += u64::from(partial);
        self.counters.folded_bytes += bytes;
        self.counters.messages += u64::from(head.last);
        if upwards {
            self.announce_up(1 + usize::from(name), now);
            if to != 0 {
                let form = (sources || barrier).then_some((head.first, head.last, head.len));
                self.pending.push_back(Pending { number, to, form, since: now });
            }
        } else {
            self.announce_down(to, head.last, now);
        }
        true
    }

    /// `n` packets for the parent were put in.
    fn announce_up(&mut self, n: usize, now: Nanos) {
        let at = self.params.children.len();
        for _ in 0..n {
            self.peers[at].queue(now);
        }
        self.ready |= 1 << at;
        self.wake_by(now.saturating_add(self.params.patience));
    }

    /// A packet for these children was put in, the last one of its message or not.
    fn announce_down(&mut self, to: u64, last: bool, now: Nanos) {
        self.midst = if last { self.midst & !to } else { self.midst | to };
        let mut left = to;
        while left != 0 {
            self.peers[left.trailing_zeros() as usize].queue(now);
            left &= left - 1;
        }
        self.ready |= u128::from(to);
        self.wake_by(now.saturating_add(self.params.patience));
    }

    /// Ends the job: nothing is folded from here on, everybody is told. Results that are complete still go out before.
    pub fn fail(&mut self, failure: Failure, rank: u16, now: Nanos) {
        if self.failure.is_some() {
            return;
        }
        self.failure = Some((failure, rank, now));
        let word = Immediate::Failed(failure, rank).encode();
        let (children, alive) = (self.params.children.len(), self.alive());
        let midst = alive & self.midst & self.in_messages();
        if midst != 0 {
            // To a responder what has begun as a message of several packets goes on as one, and its last packet has a byte.
            self.down.payload_mut()[0] = 0;
            self.down.push(Entry::last_word(midst, word));
        }
        if alive != midst {
            self.down.push(Entry::word(alive & !midst, word));
        }
        self.announce_down(alive, true, now);
        self.peers.iter_mut().for_each(|peer| peer.expect_no_more(now));
        // Whoever waits for WRITEs to be done is not told by a word.
        for (at, peer) in self.peers[..children].iter_mut().enumerate() {
            if peer.mirror.as_ref().and_then(Mirror::held).is_some() {
                peer.order.refuse(Nak::RemoteOperational);
                self.answers |= 1 << at;
            }
        }
        if let Some(up) = self.up.as_mut().filter(|_| !self.peers[children].dead) {
            up.push(Entry::word(1, word));
            self.announce_up(1, now);
        }
    }

    /// Children that get results as messages of as many packets as there are, a bit each: to others each WRITE is a message of its own,
    /// and engines know the word wherever it comes.
    fn in_messages(&self) -> u64 {
        let peers = self.params.children.iter().zip(&self.peers);
        let sends = peers
            .filter(|(child, peer)| !child.engine && child.remote.results.is_none() && peer.mirror.is_none());
        sends.fold(0, |mask, (_, peer)| mask | peer.bit)
    }

    /// A peer will answer no more.
    fn lose(&mut self, at: usize, failure: Failure, now: Nanos) {
        let outbox = if at < self.params.children.len() { Some(&mut self.down) } else { self.up.as_mut() };
        if let Some(outbox) = outbox {
            self.peers[at].bury(outbox);
        }
        self.fail(failure, self.rank_of(at), now);
        self.advance(now);
    }

    /// Time has passed.
    pub(crate) fn tick(&mut self, now: Nanos) {
        if now < self.wake {
            return;
        }
        for at in 0..self.peers.len() {
            let outbox =
                if at < self.params.children.len() { Some(&mut self.down) } else { self.up.as_mut() };
            let Some(outbox) = outbox else { continue };
            match self.peers[at].handle_timeout(outbox, now) {
                Ok(ready) => self.ready |= u128::from(ready) << at,
                Err(()) => self.lose(at, Failure::Unreachable, now),
            }
        }
        if self.failure.is_none() {
            self.mind_stragglers(now);
            self.mind_parent(now);
        }
        self.wake = self.next_event(now);
    }

    /// When [`Self::tick`] next has something to do.
    fn next_event(&self, now: Nanos) -> Nanos {
        let peers = self.peers.iter().filter_map(|p| p.next_event(now));
        let running = self.failure.is_none();
        let waiting = self.collector.waiting().filter(|_| running).map(|(since, _)| since);
        let children = waiting.map(|since| self.next_check(since, now));
        let parent = self.pending.front().filter(|_| running).map(|p| self.next_probe(p.since, now));
        peers.chain(children).chain(parent).min().unwrap_or(Nanos::MAX)
    }

    /// When those who keep a number waiting since then are looked at.
    fn next_check(&self, since: Nanos, now: Nanos) -> Nanos {
        let probe = self.next_probe(since, now);
        match self.params.straggler {
            Straggler::Wait => probe,
            Straggler::Partial(after) | Straggler::Abort(after) => probe.min(since.saturating_add(after)),
        }
    }

    /// Probes go at multiples of `probe_after`.
    fn next_probe(&self, since: Nanos, now: Nanos) -> Nanos {
        let every = self.params.probe_after.max(1);
        let passed = now.saturating_sub(since) / every;
        since.saturating_add((passed + 1).saturating_mul(every))
    }

    fn mind_stragglers(&mut self, now: Nanos) {
        while let Some((since, missing)) = self.collector.waiting() {
            let is_late = |after: Nanos| now >= since.saturating_add(after);
            let first = self.rank_of(missing.trailing_zeros() as usize);
            match self.params.straggler {
                Straggler::Partial(after) if is_late(after) => {
                    if !self.collector.close() {
                        return self.fail(Failure::Straggler, first, now);
                    }
                    let base = self.collector.base();
                    self.advance(now);
                    if self.collector.base() == base {
                        return; // No room for its result yet.
                    }
                    continue;
                }
                Straggler::Abort(after) if is_late(after) => {
                    return self.fail(Failure::Straggler, first, now);
                }
                _ => {}
            }
            if now >= since.saturating_add(self.params.probe_after) {
                let mut left = missing;
                while left != 0 {
                    self.probe(left.trailing_zeros() as usize, now);
                    left &= left - 1;
                }
            }
            return;
        }
    }

    fn mind_parent(&mut self, now: Nanos) {
        let since = self.pending.front().map(|pending| pending.since);
        if since.is_some_and(|since| now >= since.saturating_add(self.params.probe_after)) {
            self.probe(self.params.children.len(), now);
        }
    }

    fn probe(&mut self, at: usize, now: Nanos) {
        match self.peers[at].probe(self.params.retries, self.params.probe_after, now) {
            Ok(due) => self.ready |= u128::from(due) << at,
            Err(()) => self.lose(at, Failure::Unreachable, now),
        }
    }
}
