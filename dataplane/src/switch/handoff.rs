//! Frames whose egress port is another lcore's, on both sides of the rings ([`super::channels`]).

use super::channels::{GrantFrames, Note, Peer, TxCompletion, TxGrant, TxOutcome};
use super::lost::count_lost;
use super::ports::Ports;
use super::stage::Staged;
use super::{Key, Observer, PortParams, Switch, Wire};
use crate::drops::DropReason;
use crate::egress::{BATCH_MAX, BatchBuffer, BatchHeader, BatchList, EnqueueRequest, FrameBatch, Meta};
use crate::frame::{Frame, FrameList, FrameRow};
use crate::mmu::headroom::bytes_in;
use crate::mmu::{Admission, PgIx, QueueIx};
use crate::types::{BURST, Nanos, PRIORITIES, PortId};
use arrayvec::ArrayVec;

/// Requests, grants, completions, notes, news, and frames of requests, taken in one tick from all other lcores together at most, where
/// this one has not received more than half as many frames since the last tick: see [`taken_in_tick`].
const TAKEN_PER_TICK: usize = 2 * BURST;

/// What each lcore may give in any case; a request and a grant may have as many frames.
const LEAST_PER_TICK: usize = BATCH_MAX;

/// What a tick takes from `others` lcores together at most, of each kind, after a turn that received `received` frames. Bounded work, since a
/// turn receives a bounded number ([`crate::turn`]), and as much as two turns of another one like it bring: whoever receives more than it takes
/// would let what comes from others wait until the buffer is full.
fn taken_in_tick(received: usize, others: usize) -> usize {
    TAKEN_PER_TICK.max(2 * received).max(others * LEAST_PER_TICK)
}

/// Requests, grants and completions asked for at once.
const AHEAD: usize = 32;

/// Frames of a port that may be with other lcores when more are sent there: what two turns of both can bring. Like
/// those in a transmit ring they cannot be recalled. The last ones may be a whole batch.
pub(super) const IN_FLIGHT_MAX: usize = 4 * BURST;

/// Frames of a port that are with other lcores at most: the last ones may be a whole batch.
pub const FRAMES_IN_FLIGHT: usize = IN_FLIGHT_MAX + BATCH_MAX;

/// The same in bytes on the wire, for a port whose rate is kept: what it sends until the completion of a grant comes. The
/// grant waits for a turn of the other lcore and is carried out within it, the completion waits for a turn of this one and is
/// followed by a grant within it. `None`: it is not looked at in turns of `burst` ns.
pub fn bytes_in_flight(rate: u64, burst: Nanos) -> Option<u64> {
    (burst > 0).then(|| bytes_in(rate, TURNS_IN_FLIGHT * burst))
}

/// [`bytes_in_flight`] of a port.
pub(super) fn most_in_flight_wire(params: &PortParams) -> u64 {
    params.rate.and_then(|rate| bytes_in_flight(rate, params.burst)).unwrap_or(u64::MAX)
}

const _: () = {
    assert!(BURST.is_multiple_of(BATCH_MAX), "a burst for one queue fills its batches");
    assert!(LEAST_PER_TICK >= BATCH_MAX, "the frames of one request are taken in one tick");
    assert!(
        IN_FLIGHT_MAX >= 2 * BURST,
        "a port goes on sending while the completions of a burst are on their way"
    );
};

/// Turns from a grant to the next one that its completion allows.
const TURNS_IN_FLIGHT: u64 = 4;

/// Buffers of a shard that can hold `frames` frames: enough for all of them in batches that are half full. Where none is
/// left frames go one by one.
pub(super) fn stock<F>(frames: usize) -> Vec<BatchBuffer<F>> {
    (0..(2 * frames).div_ceil(BATCH_MAX)).map(|_| BatchBuffer::default()).collect()
}

/// How frames go back to the lcore they came from.
pub(super) struct ReturnPath<'a, F> {
    pub peers: &'a mut [Option<Peer<F>>],
    pub owner: &'a [u8],
}

impl<F: Frame> ReturnPath<'_, F> {
    #[inline(always)]
    fn peer(&mut self, PortId(in_port): PortId) -> Option<&mut Peer<F>> {
        let from = self.owner.get(usize::from(in_port)).copied().unwrap_or(BatchHeader::HERE);
        self.peers.get_mut(usize::from(from)).and_then(Option::as_mut)
    }

    /// Lets the lcore that frames came from send them, in their buffer.
    #[inline(always)]
    pub fn grant(&mut self, staged: Staged, buffer: BatchBuffer<F>) {
        if let Some(peer) = self.peer(PortId(staged.header.in_port)) {
            peer.grants.queue(TxGrant { staged, frames: GrantFrames::Buffer(buffer) });
        }
    }

    /// Lets the lcore that frames came from send some that are in no buffer any more.
    #[inline(always)]
    pub fn grant_loose(&mut self, staged: Staged, frames: &mut ArrayVec<F, BATCH_MAX>) {
        if let Some(peer) = self.peer(PortId(staged.header.in_port)) {
            peer.grant_loose(staged, frames);
        }
    }

    /// Says something else to the owner of the port that frames came from.
    pub fn note(&mut self, in_port: PortId, note: Note<F>) {
        if let Some(peer) = self.peer(in_port) {
            peer.notes.queue(note);
        }
    }

    /// Opens a batch; its buffer goes back.
    #[inline(always)]
    pub fn open(&mut self, batch: &mut FrameBatch<F>) {
        if let Some(buffer) = batch.open() {
            self.note(PortId(batch.header().in_port), Note::Empty(buffer));
        }
    }
}

/// The lcore that received the frames, until they are handed over.
impl<F: Frame, A: Admission, O: Observer> Switch<F, A, O> {
    /// Hands over the batches of a list that is charged to its group.
    pub(super) fn hand_off_list(&mut self, out: PortId, list: BatchList) {
        let (mut list, home) = (list, self.home_of(out));
        while !list.is_empty()
            && let Some(buffer) = self.buffers.pop()
            && let Some(request) = self.queues.take_first(&mut list, |batch| batch.ship(out, home, buffer))
        {
            self.hand_off(request);
        }
        while let Some((frame, meta)) = self.unlist(&mut list) {
            self.hand_off_one(out, frame, &meta);
        }
    }

    /// Hands over a frame that is charged to its group together with others like it, that are gathered in `leaving`. What
    /// is left there at the end is for [`Switch::hand_off_batch`].
    pub(super) fn hand_off_with(
        &mut self,
        out: PortId,
        frame: F,
        meta: &Meta,
        leaving: &mut Option<FrameBatch<F>>,
    ) {
        if !leaving.as_ref().is_some_and(|batch| batch.has_room_for(&meta.header, 0))
            && let Some(full) = leaving.replace(FrameBatch::new(&meta.header, 0))
        {
            self.hand_off_batch(out, full);
        }
        let charge = self.admission.charge(u32::from(meta.len));
        let added = leaving.as_mut().map(|batch| batch.add(frame, charge).is_ok());
        debug_assert_eq!(added, Some(true));
    }

    pub(super) fn hand_off_batch(&mut self, out: PortId, batch: FrameBatch<F>) {
        let mut batch = batch;
        if let Some(buffer) = self.buffers.pop() {
            let request = batch.ship(out, self.home_of(out), buffer);
            return self.hand_off(request);
        }
        while let Some((frame, meta)) = batch.pop(|len| self.admission.charge(len)) {
            self.hand_off_one(out, frame, &meta);
        }
    }

    /// Puts a charged frame into the ring of the lcore that owns `out`.
    pub(super) fn hand_off_one(&mut self, out: PortId, frame: F, meta: &Meta) {
        let header = BatchHeader { home: self.home_of(out), ..meta.header };
        let charge = self.admission.charge(u32::from(meta.len));
        self.hand_off(EnqueueRequest::of_one(out, header, charge, frame));
    }

    /// Who is to send what is received here for a port of another lcore: this one, if it has a transmit queue there.
    #[inline(always)]
    fn home_of(&self, out: PortId) -> u8 {
        match self.ports.remote(out) {
            Some(port) if port.params.tx_per_lcore => self.shard,
            _ => BatchHeader::HERE,
        }
    }

    /// Puts charged frames into the ring of the lcore that owns their egress port.
    #[inline(always)]
    fn hand_off(&mut self, request: EnqueueRequest<F>) {
        self.admission.mark_remote(PgIx(u32::from(request.header.pg)));
        let (owner, frames) = (self.owner[request.out.index()], u64::from(request.totals.frames));
        let lost = match self.peers.get_mut(usize::from(owner)).and_then(Option::as_mut) {
            Some(peer) => peer.requests.send(request).err(),
            None => Some(request),
        };
        match lost {
            None => self.handed_out += frames,
            Some(request) => self.lose_request(request),
        }
    }

    #[cold]
    fn lose_request(&mut self, request: EnqueueRequest<F>) {
        let EnqueueRequest { out, header, totals, frames, .. } = request;
        for frame in frames.frames() {
            self.refused_watched(out, &header, frame.len() as u32, DropReason::HandoffFull);
        }
        self.release_from_group(&header, totals);
        let mut lost = ArrayVec::<F, BATCH_MAX>::new();
        self.buffers.extend(frames.unload(&mut lost));
        for frame in lost {
            self.drop_frame(PortId(header.in_port), DropReason::HandoffFull, frame, &header);
        }
    }
}

/// The lcore that owns the egress port.
impl<F: Frame, A: Admission, O: Observer> Switch<F, A, O> {
    /// Frames another lcore has charged to their group arrive for one of our queues.
    fn accept(&mut self, request: EnqueueRequest<F>, now: Nanos) {
        let EnqueueRequest { out, header, totals, .. } = request;
        if header.home == BatchHeader::HERE {
            // What the other lcore's cache holds of them takes its time to arrive: it is sent in the next turn only.
            request.frames.frames().iter().for_each(F::fetch);
        }
        let held_ns = self.held_ns(out.index() * PRIORITIES + usize::from(header.queue), now);
        match self.queues.list_request(request, held_ns) {
            Ok(list) => self.accept_list(out, &header, list, totals),
            Err(request) => self.accept_without_batch(request, held_ns),
        }
    }

    /// No batch is free: the frames that the gate lets pass are lost for that.
    #[cold]
    fn accept_without_batch(&mut self, request: EnqueueRequest<F>, held_ns: Nanos) {
        let EnqueueRequest { out, header, frames: from, .. } = request;
        let mut frames = ArrayVec::<F, BATCH_MAX>::new();
        if let Some(buffer) = from.unload(&mut frames) {
            self.return_path().note(PortId(header.in_port), Note::Empty(buffer));
        }
        for (number, frame) in frames.into_iter().enumerate() {
            let meta = header.behind(number as u32).meta_of(&frame, held_ns);
            self.accept_one(out, frame, meta);
        }
    }

    /// Takes frames that have come together from another lcore out of their buffer, which goes back there.
    #[inline(always)]
    pub(super) fn open_buffer(&mut self, list: &BatchList) {
        let Self { queues, peers, owner, .. } = self;
        if let Some(batch) = queues.first_mut(list) {
            ReturnPath { peers, owner }.open(batch);
        }
    }

    pub(super) fn return_path(&mut self) -> ReturnPath<'_, F> {
        ReturnPath { peers: &mut self.peers, owner: &self.owner }
    }
}

/// Frames that another lcore was granted to send have left, or are lost.
#[inline(always)]
fn complete<F: Frame, A: Admission>(ports: &mut Ports<F>, admission: &mut A, completion: &TxCompletion) {
    let TxCompletion { staged, outcome } = completion;
    let Staged { header, totals, out, .. } = staged;
    let port = &mut ports[out.index()];
    port.in_flight -= totals.frames as usize;
    port.in_flight_wire -= totals.wire();
    admission.release_egress(QueueIx::of(*out, usize::from(header.queue)), totals.charge);
    match outcome {
        TxOutcome::Sent(at) => port.note_sent(staged, *at),
        TxOutcome::Lost(reason) => {
            port.stats.queue_drops[usize::from(header.queue)] += u64::from(totals.frames);
            count_lost(ports, admission, *out, *reason, header, u64::from(totals.frames));
        }
    }
}

/// The lcore that received the frames, when the owner of their egress port has scheduled them.
impl<F: Frame, A: Admission, O: Observer> Switch<F, A, O> {
    /// Puts the grants of another lcore where they are carried out, `count` of them, as far as their frames have come.
    fn accept_grants(&mut self, peer: usize, count: usize) {
        let Self { peers, ports, granted, .. } = self;
        let Some(Peer { grants, loose, .. }) = peers[peer].as_mut() else { return };
        let mut left = loose.available();
        let mut lines = loose.take_while(left, |_| true);
        let have_come = |grant: &TxGrant<F>| match grant.frames {
            GrantFrames::Buffer(_) => true,
            GrantFrames::Lines(lines) => {
                let rest = left.checked_sub(lines.into());
                left = rest.unwrap_or(left);
                rest.is_some()
            }
        };
        for grant in grants.take_while(count, have_come) {
            let out = grant.staged.out;
            let Some(port) = ports.remote_mut(out) else { return };
            if let GrantFrames::Lines(count) = grant.frames {
                port.loose.extend(lines.by_ref().take(count.into()));
            }
            port.grants.push_back(grant);
            granted.insert(out);
        }
    }

    fn handle_note(&mut self, peer: usize, note: Note<F>) {
        match note {
            Note::Empty(buffer) => self.buffers.push(buffer),
            Note::Link(out, status) => {
                // Whatever was granted before is there by now, unless the ring was full: that leaves when the port is up
                // again, or is dropped at the end.
                let available = self.peers[peer].as_ref().map_or(0, |peer| peer.grants.available());
                self.accept_grants(peer, available);
                let Some(port) = self.ports.remote_mut(out) else { return };
                let was = std::mem::replace(&mut port.status, status);
                self.invalidate_decisions();
                if was.is_up() == status.is_up() {
                    return;
                }
                self.note_lag_link(out);
                if !status.is_up() {
                    self.condemn_grants(out, status.lost_in_queue());
                    self.forget_stations(out);
                }
                self.note_slow_path_queues(out);
            }
            Note::Taken(taken) => self.taken_elsewhere(taken),
        }
    }

    /// Fills the stage of another lcore's port up to `budget` frames, or with one grant. `true`: it holds frames.
    #[inline(always)]
    pub(super) fn stage_granted(&mut self, out: PortId, budget: usize) -> bool {
        let Self { ports, buffers, granted, .. } = self;
        let Some(port) = ports.remote_mut(out) else { return false };
        let budget = budget.min(port.stage.capacity());
        while let Some(next) = port.grants.front()
            && (port.stage.is_empty() || next.staged.totals.frames as usize + port.stage.len() <= budget)
            && let Some(TxGrant { staged, frames }) = port.grants.pop_front()
        {
            match frames {
                GrantFrames::Buffer(mut buffer) => {
                    buffer.append_to(port.stage.frames_mut());
                    buffers.push(buffer);
                }
                GrantFrames::Lines(lines) => {
                    let lines = (0..lines).map_while(|_| port.loose.pop_front());
                    lines.for_each(|mut line| port.stage.frames_mut().append(&mut line));
                }
            }
            port.stage.note(staged);
        }
        if port.grants.is_empty() {
            // Reset to slot 0: keeps the buffers cache-hot.
            port.grants.clear();
            port.loose.clear();
        }
        if port.stage.is_empty() {
            granted.remove(out);
        }
        !port.stage.is_empty()
    }

    /// Gives the stage of another lcore's port to the wire, releases what the wire took and tells the owner.
    #[inline(always)]
    pub(super) fn hand_over_granted(&mut self, out: PortId, now: Nanos, wire: &mut impl Wire<F>) -> usize {
        self.hand_over_with(out, wire, |switch, staged| switch.send_completion(staged, TxOutcome::Sent(now)))
    }

    fn send_completion(&mut self, staged: &Staged, outcome: TxOutcome) {
        self.release_from_group(&staged.header, staged.totals);
        let owner = usize::from(self.owner[staged.out.index()]);
        if let Some(peer) = self.peers.get_mut(owner).and_then(Option::as_mut) {
            peer.completions.queue(TxCompletion { staged: *staged, outcome });
        }
    }

    /// What has been granted from us by now for another lcore's port is to be dropped.
    #[cold]
    pub(super) fn condemn_grants(&mut self, out: PortId, reason: DropReason) {
        let Some(port) = self.ports.remote_mut(out) else { return };
        let granted: usize = port.grants.iter().map(|grant| grant.staged.totals.frames as usize).sum();
        (port.condemned, port.condemned_as) = (port.stage.len() + granted, reason);
        if port.condemned > 0 {
            self.flushing.insert(out);
        }
    }

    /// Drops up to `most` of the frames that were to be sent by another lcore's port, or one grant, or what is staged.
    /// Returns how many, `most` at most.
    #[cold]
    pub(super) fn flush_grants(&mut self, out: PortId, most: usize) -> usize {
        let mut dropped = 0;
        while dropped < most && self.ports.remote(out).is_some_and(|port| port.condemned > 0) {
            if self.ports.stage(out).is_empty() {
                // A grant at a time: what was granted later, when the link was back, is to be sent.
                self.stage_granted(out, 0);
            }
            let Some(port) = self.ports.remote_mut(out) else { break };
            let (count, reason) = (port.stage.len(), port.condemned_as);
            port.condemned = if count == 0 { 0 } else { port.condemned.saturating_sub(count) };
            dropped += count;
            let entries: ArrayVec<Staged, BURST> = port.stage.entries().iter().copied().collect();
            port.stage.clear();
            for staged in &entries {
                self.flushed_watched(out, Key::of(&staged.header, &self.copies), staged.totals.bytes, reason);
                self.send_completion(staged, TxOutcome::Lost(reason));
            }
        }
        if self.ports.remote(out).is_none_or(|port| port.grants.is_empty()) {
            self.granted.remove(out);
        }
        dropped.min(most)
    }
}

/// Both.
impl<F: Frame, A: Admission, O: Observer> Switch<F, A, O> {
    /// Makes pending entries available to other lcores.
    #[inline(always)]
    pub(super) fn tell_peers(&mut self) {
        if self.peers.len() > 1 {
            self.peers.iter_mut().flatten().for_each(Peer::flush);
        }
    }

    /// Frames, grants, completions and news other lcores have for us: some of each per tick.
    #[inline(always)]
    pub(super) fn take_from_peers(&mut self, now: Nanos) {
        if self.peers.len() > 1 {
            self.take_all(now);
        }
    }

    fn take_all(&mut self, now: Nanos) {
        self.admission.exchange();
        self.collect_remote();
        let (lcores, mut others) = (self.peers.len(), self.peers.len() - 1);
        let mut left = taken_in_tick(std::mem::take(&mut self.received_since_tick), others);
        // Each may give what those behind it do not need to have their least; who is first changes.
        self.first_peer = (self.first_peer + 1) % lcores;
        for i in (self.first_peer..lcores).chain(0..self.first_peer) {
            if i != usize::from(self.shard) {
                others -= 1;
                let kept = others * LEAST_PER_TICK;
                // The last request may be more than was left.
                left = left.saturating_sub(self.take_from(i, left - kept, now)).max(kept);
            }
        }
    }

    /// Takes `most` things of each kind from another lcore. Returns how many, of the kind with most of them.
    fn take_from(&mut self, i: usize, most: usize, now: Nanos) -> usize {
        let Self { peers, ports, admission, .. } = self;
        let Some(peer) = peers[i].as_mut() else { return 0 };
        let available = [peer.completions.available(), peer.requests.available(), peer.grants.available()];
        let [completions, requests, grants] = available.map(|available| available.min(most));
        // They are in another core's cache: all are asked for before the first is needed.
        peer.completions.prefetch(completions.min(AHEAD), F::prefetch);
        peer.requests.prefetch(requests.min(AHEAD), F::prefetch);
        peer.grants.prefetch(grants.min(AHEAD), F::prefetch);
        peer.completions.drain(completions, |completion| complete(ports, admission, completion));
        let mut taken = 0;
        for _ in 0..requests {
            if taken as usize >= most {
                break;
            }
            let Some(request) = self.peers[i].as_mut().and_then(|peer| peer.requests.pop()) else { break };
            taken += request.totals.frames;
            self.accept(request, now);
        }
        self.handed_in += u64::from(taken);
        let mut notes = 0;
        while notes < most
            && let Some(note) = self.peers[i].as_mut().and_then(|peer| peer.notes.pop())
        {
            notes += 1;
            self.handle_note(i, note);
        }
        // A note about a frame was sent before its grant, and is handled before it.
        if notes < most {
            self.accept_grants(i, grants);
        }
        let given = completions.max(taken as usize).max(notes).max(grants);
        let Some(peer) = self.peers[i].as_mut() else { return given };
        peer.flush();
        for _ in 0..most {
            let Some(event) = self.peers[i].as_mut().and_then(|peer| peer.news_from.pop().ok()) else {
                break;
            };
            self.fdb.apply(event, self.ageing.now_tick());
            // One by one: if more had changed than are told apart, all decisions would be void.
            self.sync_flow_cache();
        }
        given
    }

    fn collect_remote(&mut self) {
        let Self { admission, ports, .. } = self;
        admission.collect_remote(&mut |pg| super::tick::xon(ports, pg));
    }
}
