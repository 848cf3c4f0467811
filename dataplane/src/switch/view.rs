//! What a switch says about itself, and what an operator may tell it while it runs.

use super::channels::Note;
use super::ports::PortStatus;
use super::{Observer, OwnPort, Peer, Switch};
use crate::drops::DropReason;
use crate::ecn::Wred;
use crate::egress::Microbursts;
use crate::fdb::{Fdb, FdbPage};
use crate::flows::PortFlows;
use crate::frame::Frame;
use crate::lag::LagMember;
use crate::mmu::{Admission, Mmu, PERSISTENT, PgIx, QueueIx};
use crate::pfc::generate::{Generator, Source};
use crate::pfc::react::Reaction;
use crate::pfc::watchdog::Watchdog;
use crate::portset::PortSet;
use crate::stats::{LatencyStats, LoopStats, PauseStats, PortGauges, PortStats, Published};
use crate::types::{Nanos, PRIORITIES, PortId};
use std::sync::LazyLock;

/// Frames of a switch (or of all its shards, added up) at one instant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Conservation {
    /// Data frames received.
    pub received: u64,
    /// Copies made of them for flooding, beyond the first.
    pub copies: u64,
    /// Frames the drivers have taken.
    pub transmitted: u64,
    /// Frames lost, each with a reason.
    pub dropped: u64,
    /// Frames held: queued, staged, or with another lcore that is to send them.
    pub held: u64,
    /// Frames taken over from other shards.
    pub handed_in: u64,
    /// Frames handed to other shards.
    pub handed_out: u64,
}

impl Conservation {
    /// `received + copies + handed_in - transmitted - dropped - held - handed_out`: zero for each shard at every instant,
    /// or weir has lost count.
    pub fn error(&self) -> i64 {
        let sum = |terms: &[u64]| terms.iter().map(|n| i128::from(*n)).sum::<i128>();
        let plus = sum(&[self.received, self.copies, self.handed_in]);
        let minus = sum(&[self.transmitted, self.dropped, self.held, self.handed_out]);
        (plus - minus) as i64
    }

    /// Adds another shard's frames.
    pub fn add(&mut self, other: &Conservation) {
        self.received += other.received;
        self.copies += other.copies;
        self.transmitted += other.transmitted;
        self.dropped += other.dropped;
        self.held += other.held;
        self.handed_in += other.handed_in;
        self.handed_out += other.handed_out;
    }
}

impl<F: Frame, A: Admission, O: Observer> Switch<F, A, O> {
    /// Number of ports.
    pub fn ports(&self) -> usize {
        self.ports.len()
    }

    /// The port is this shard's.
    pub fn owns(&self, port: PortId) -> bool {
        self.ports.is_own(port)
    }

    /// Counters of a port, by the thread that owns it.
    pub fn stats(&self, port: PortId) -> &PortStats {
        &self.ports[port.index()].stats
    }

    /// How long frames were here, by the thread that owns the port; zeros of a switch that nobody observes.
    pub fn latency(&self, port: PortId) -> &LatencyStats {
        static NONE: LazyLock<Box<LatencyStats>> = LazyLock::new(Box::default);
        self.ports[port.index()].latency.as_deref().unwrap_or_else(|| &NONE)
    }

    /// The part of pauses in the latency of a port's queues, by the thread that owns it; zeros of a switch that nobody
    /// observes.
    pub fn pauses(&self, port: PortId) -> &PauseStats {
        static NONE: LazyLock<Box<PauseStats>> = LazyLock::new(Box::default);
        self.ports[port.index()].pauses.as_deref().unwrap_or_else(|| &NONE)
    }

    /// The cell through which other threads read a port's counters: [`PortStats`], [`LatencyStats`], [`PauseStats`].
    pub fn published(&self, port: PortId) -> Published {
        self.ports[port.index()].published.clone()
    }

    /// The cell through which other threads read a port's state.
    pub fn published_gauges(&self, port: PortId) -> Published {
        self.ports[port.index()].gauges.clone()
    }

    /// The cell through which other threads read the bytes queued for a port, by input.
    pub fn published_carried(&self, port: PortId) -> Published {
        self.ports[port.index()].carried.clone()
    }

    /// The flows behind what happened at a port, by the thread that owns it; `None`: they are not recorded.
    pub fn flows(&self, port: PortId) -> Option<&PortFlows> {
        self.ports[port.index()].flows.as_ref().map(|flows| flows.seen())
    }

    /// The cell through which other threads read [`PortFlows`], if they are recorded.
    pub fn published_flows(&self, port: PortId) -> Option<Published> {
        self.ports[port.index()].flows.as_ref().map(|flows| flows.published())
    }

    /// Publishes everything now: at the end of a run.
    pub fn publish_all(&mut self, now: Nanos) {
        for port in self.ports.own_ids().collect::<Vec<_>>() {
            self.publish_port(port, now);
        }
    }

    /// The state of a port at `now`.
    pub fn gauges(&self, id: PortId, now: Nanos) -> PortGauges {
        let port = &self.ports[id.index()];
        let (rx, tx) = (&port.reaction, &port.generator);
        let queues: [_; PRIORITIES] = std::array::from_fn(|q| self.admission.queue_view(QueueIx::of(id, q)));
        let pgs: [_; PRIORITIES] = std::array::from_fn(|pg| self.admission.pg_view(PgIx::of(id, pg)));
        let storms: [_; PRIORITIES] =
            std::array::from_fn(|q| port.watchdog.as_ref().map(|w| *w.counters(q)).unwrap_or_default());
        let evidence: [_; PRIORITIES] =
            std::array::from_fn(|q| port.watchdog.as_ref().and_then(|w| w.last_storm(q)));
        PortGauges {
            at_ns: now,
            queue_bytes: queues.map(|q| q.used),
            queue_depth: std::array::from_fn(|q| self.queues.bytes(id, q)),
            queue_flushing: std::array::from_fn(|q| match port.flushing >> q & 1 {
                0 => 0,
                _ => 1 + port.flush_as[q] as u64,
            }),
            queue_limit: queues.map(|q| q.limit),
            queue_peak: queues.map(|q| q.peak.peak(PERSISTENT)),
            pg_used: pgs.map(|pg| pg.used),
            pg_shared: pgs.map(|pg| pg.shared),
            pg_headroom: pgs.map(|pg| pg.headroom),
            pg_xoff: pgs.iter().rev().fold(0, |mask, pg| mask << 1 | u64::from(pg.xoff)),
            pg_limit: pgs.map(|pg| pg.limit),
            pg_xon: pgs.map(|pg| pg.xon_shared()),
            pg_shared_peak: pgs.map(|pg| pg.shared_peak.peak(PERSISTENT)),
            pg_headroom_peak: pgs.map(|pg| pg.headroom_peak.peak(PERSISTENT)),
            paused_queues: u64::from(rx.queues_paused_at(now)),
            xoff_priorities: u64::from(tx.paused_mask()),
            tx_cause: std::array::from_fn(|p| tx.last_cause(p).word()),
            stormed_queues: u64::from(port.watchdog.as_deref().map_or(0, Watchdog::stormed_queues)),
            flood_exceeded: port.policers.as_ref().map_or(0, |policers| policers.exceeded(now)),
            pfc_rx_frames: rx.counters().pfc_frames,
            pfc_rx_xoff: rx.counters().xoff,
            pfc_rx_xon: rx.counters().xon,
            pfc_tx_frames: tx.counters().pfc_frames,
            pfc_tx_xoff: tx.counters().xoff,
            pfc_tx_xon: tx.counters().xon,
            rx_paused_ns: std::array::from_fn(|p| rx.paused_ns(p, now)),
            tx_paused_ns: std::array::from_fn(|p| tx.paused_ns(p, now)),
            rx_pauses: std::array::from_fn(|p| rx.transitions(p)),
            tx_pauses: std::array::from_fn(|p| tx.transitions(p)),
            pause_frames: rx.counters().pause_frames,
            invalid_control: rx.counters().invalid.iter().sum(),
            storms_detected: std::array::from_fn(|q| storms[q].detected),
            storms_restored: std::array::from_fn(|q| storms[q].restored),
            storm_dropping: u64::from(port.storm_drop),
            storm_forwarding: u64::from(port.storm_forward),
            storm_backlog: evidence.map(|e| e.map_or(0, |e| e.observation.backlog)),
            storm_stalled_ns: evidence.map(|e| e.map_or(0, |e| e.at - e.stalled_since)),
            storm_tx_ok: storms.map(|s| s.total.tx_ok),
            storm_tx_drop: storms.map(|s| s.total.tx_drop),
            storm_rx_ok: storms.map(|s| s.total.rx_ok),
            storm_rx_drop: storms.map(|s| s.total.rx_drop),
            storm_last_tx_ok: storms.map(|s| s.last.tx_ok),
            storm_last_tx_drop: storms.map(|s| s.last.tx_drop),
            storm_last_rx_ok: storms.map(|s| s.last.rx_ok),
            storm_last_rx_drop: storms.map(|s| s.last.rx_drop),
        }
    }

    /// What this port obeys, by the thread that owns it.
    pub fn reaction(&self, port: PortId) -> &Reaction {
        &self.ports[port.index()].reaction
    }

    /// What this port tells its peer.
    pub fn generator(&self, port: PortId) -> &Generator {
        &self.ports[port.index()].generator
    }

    /// How this port's queues mark; `None`: not at all.
    pub fn marking(&self, port: PortId) -> &[Option<Wred>; PRIORITIES] {
        &self.ports[port.index()].params.mark
    }

    /// The watchdog of this port, if there is one.
    pub fn watchdog(&self, port: PortId) -> Option<&Watchdog> {
        self.ports[port.index()].watchdog.as_deref()
    }

    /// The short bursts of this port's queues, if they are watched.
    pub fn microbursts(&self, port: PortId) -> Option<&Microbursts> {
        self.ports[port.index()].bursts.as_deref()
    }

    /// The forwarding table of this shard.
    pub fn fdb(&self) -> &Fdb {
        &self.fdb
    }

    /// Goes on filling a page of the forwarding table, for at most `buckets` buckets.
    pub fn read_fdb(&self, page: &mut FdbPage, buckets: usize) {
        page.tick_ns = self.ageing.tick_ns();
        self.fdb.read(page, buckets, self.ageing.now_tick());
    }

    /// The admission policy, for readers.
    pub fn admission(&self) -> &A {
        &self.admission
    }

    /// The admission policy, to change its limits while frames are held (B15).
    pub fn admission_mut(&mut self) -> &mut A {
        &mut self.admission
    }

    /// Queues of a port in which frames wait, a bit each (not counting what is staged).
    #[inline(always)]
    pub fn waiting(&self, port: PortId) -> u8 {
        self.queues.occupied(port)
    }

    /// Nothing is there for a port to send, and no control frame is due.
    #[inline(always)]
    pub fn is_idle(&self, port: PortId, now: Nanos) -> bool {
        let Some(ours) = self.ports.get_own(port.index()) else { return true };
        self.queues.occupied(port) == 0 && !self.unsent.contains(port) && !ours.generator.due(now)
    }

    /// Frames of a port that were staged before and that the wire has not taken.
    #[inline(always)]
    pub fn staged(&self, port: PortId) -> usize {
        if self.unsent.contains(port) { self.ports.stage(port).len() } else { 0 }
    }

    /// Frames of a port that other shards were granted to send and have not yet said that they did.
    #[inline(always)]
    pub fn in_flight(&self, port: PortId) -> usize {
        self.ports[port.index()].in_flight
    }

    /// Bytes waiting in an egress queue (not counting what is staged).
    pub fn queue_bytes(&self, port: PortId, queue: usize) -> u64 {
        self.queues.bytes(port, queue)
    }

    /// So many bytes are taken to be in an egress queue, for who has several switches before one line: what a frame that comes does by
    /// the depth it finds, it does by that of all of them. To be taken back before anything leaves the queue.
    pub fn assume_queue_bytes(&mut self, port: PortId, queue: usize, bytes: u64) {
        self.queues.assume_bytes(port, queue, bytes);
    }

    /// Those of them that came in by `input`.
    pub fn queue_bytes_from(&self, input: PortId, port: PortId, queue: usize) -> u64 {
        self.queues.bytes_from(input, port, queue)
    }

    /// Bytes waiting in all egress queues of a port (not counting what is staged).
    #[inline]
    pub fn port_bytes(&self, port: PortId) -> u64 {
        crate::pfc::bits(self.queues.occupied(port)).map(|queue| self.queues.bytes(port, queue)).sum()
    }

    /// [`Switch::take_resumed`] or [`Switch::take_flushed`] would say something.
    #[inline]
    pub fn has_news(&self) -> bool {
        self.ports.flushed || !self.ports.resumed.is_empty()
    }

    /// Ports of which a priority group has come back to its resume point since this was last asked: those may have an Xon to send.
    #[inline]
    pub fn take_resumed(&mut self) -> PortSet {
        std::mem::replace(&mut self.ports.resumed, PortSet::EMPTY)
    }

    /// Frames that waited have been dropped since this was asked last.
    #[inline]
    pub fn take_flushed(&mut self) -> bool {
        std::mem::take(&mut self.ports.flushed)
    }

    /// Frames of a port are to be dropped that have not been yet: some are with each [`Switch::tick`].
    pub fn is_flushing(&self, port: PortId) -> bool {
        self.flushing.contains(port)
    }

    /// Frames waiting in an egress queue (not counting what is staged).
    pub fn queue_frames(&self, port: PortId, queue: usize) -> u32 {
        self.queues.frames(port, queue)
    }

    /// Frames this shard holds: queued for its ports, staged, or with other lcores that are to send them. What is on its
    /// way between two shards is held by neither: see [`Switch::expects_more`].
    pub fn held(&self) -> u64 {
        let staged: usize = self.ports.own().map(|port| port.stage.len() + port.in_flight).sum();
        u64::from(self.queues.held()) + staged as u64
    }

    /// Nothing is held, nobody is paused, and looks of the watchdog change nothing: until a frame comes, a driver in virtual time may
    /// leave out all of [`Switch::next_event`].
    pub fn is_at_rest(&self) -> bool {
        let rests = |port: &OwnPort<F>| {
            let watchdog = port.watchdog.as_ref();
            port.generator.next_deadline() == Nanos::MAX
                && watchdog.is_none_or(|watchdog| watchdog.is_at_rest(&port.stats.queue_packets))
        };
        self.held() == 0 && self.flushing.is_empty() && self.ports.own().all(rests)
    }

    /// Something is on its way from or to another shard.
    pub fn expects_more(&self) -> bool {
        let under_way = |peer: &Peer<F>| {
            let frames = peer.requests.len() + peer.grants.len() + peer.loose.len();
            frames + peer.completions.len() + peer.notes.len() > 0
        };
        self.peers.iter().flatten().any(under_way)
    }

    /// All frames this shard has seen.
    pub fn conservation(&self) -> Conservation {
        let mut sum = Conservation {
            held: self.held(),
            handed_in: self.handed_in,
            handed_out: self.handed_out,
            ..Conservation::default()
        };
        for port in self.ports.own() {
            sum.received += port.stats.rx_packets;
            sum.copies += port.stats.copies;
            sum.transmitted += port.stats.tx_packets;
            sum.dropped += port.stats.drops.total();
        }
        sum
    }

    /// Holds back the queues of `mask` (a bit each): they fill, but do not send.
    pub fn hold_back(&mut self, port: PortId, mask: u8) {
        self.ports[port.index()].held_back = mask;
    }

    /// The link of a port of this shard went up or down; the other shards hear of it. What it held is dropped with a
    /// reason, some now and some with each tick; until then it takes no frames, even if the link is back.
    /// Pauses on both sides are forgotten (C14), its addresses are unlearned. Groups that are over their line stay
    /// in Xoff: the peer hears of those that still are when the link is back.
    pub fn set_link(&mut self, port: PortId, up: bool, now: Nanos) {
        self.ports[port.index()].link = up;
        self.follow_link(port, now);
    }

    /// The line of a port of this shard carries nothing any more, or something again, while frames go on being sent to it, as into a
    /// cable that is cut. Pauses on both sides are forgotten (C14); the peer hears of those that still are when it is back.
    pub fn set_carrier(&mut self, port: PortId, carrier: bool, now: Nanos) {
        if carrier {
            return self.ports[port.index()].generator.link_up();
        }
        self.ports[port.index()].link_down(now);
        self.note_slow_path_queues(port);
        self.note_held(port, now);
    }

    /// LACP lets a port of this shard carry this from now on, where it is asked ([`super::PortParams::lacp`]). What waits at a port that may
    /// send no more is dropped as with [`Self::set_link`]; pauses stay, since the link does.
    pub fn set_lag_member(&mut self, port: PortId, member: LagMember, now: Nanos) {
        self.ports[port.index()].member = member;
        self.follow_link(port, now);
    }

    /// A port of this shard is up where its link is, unless it is switched off or LACP has it carry nothing.
    pub(super) fn follow_link(&mut self, port: PortId, now: Nanos) {
        let own = &mut self.ports[port.index()];
        let member = if own.params.lacp { own.member } else { LagMember::Distributing };
        let status = PortStatus::of(own.link, own.params.admin_down, member == LagMember::Distributing);
        own.refuses = match member {
            _ if own.params.admin_down => Some(DropReason::IngressAdminDown),
            LagMember::Detached => Some(DropReason::IngressLagInactive),
            LagMember::Collecting | LagMember::Distributing => None,
        };
        let was = std::mem::replace(&mut own.status, status);
        if was == status {
            return;
        }
        for peer in self.peers.iter_mut().flatten() {
            peer.notes.queue(Note::Link(port, status));
        }
        self.invalidate_decisions();
        if was.is_up() != status.is_up() {
            self.note_slow_path_queues(port);
            self.note_lag_link(port);
        }
        if was.is_up() && !status.is_up() {
            let reason = status.lost_in_queue();
            for queue in 0..PRIORITIES {
                self.flush(port, queue, reason);
            }
            self.flush_stage(port, reason);
            self.go_on_flushing(now);
            self.forget_stations(port);
        }
        match (was.has_link(), status.has_link()) {
            (false, true) => self.ports[port.index()].generator.link_up(),
            (true, false) => self.set_carrier(port, false, now),
            // The link stays as it was; what waits there, if anything, is lost for another reason from now on.
            _ => {}
        }
        self.tell_peers();
    }

    /// The RX ring of a port is (or no longer is) above its threshold: frames are about to be lost
    /// before admission sees them, so its lossless priorities are paused.
    pub fn rx_ring(&mut self, port: PortId, filling: bool) {
        self.ports[port.index()].rx_ring(filling);
    }

    /// From now on nothing is admitted; what is queued may leave.
    pub fn drain(&mut self) {
        self.draining = true;
        self.ports.ids().for_each(|port| self.note_slow_path_queues(port));
    }

    /// When a watchdog looks next, [`Nanos::MAX`]: none does. Queues that are flushed are emptied by every [`Switch::tick`].
    pub fn next_look(&self) -> Nanos {
        self.watch_at
    }

    /// First instant after `now` at which [`Switch::transmit`] of this port or [`Switch::tick`] may
    /// have something to do without a new frame: for whoever drives the switch in virtual time.
    pub fn next_event(&mut self, port: PortId, now: Nanos) -> Option<Nanos> {
        let occupied = self.queues.occupied(port);
        let p = &mut self.ports[port.index()];
        let mut at = p.next_if_empty(self.flushing.contains(port), now);
        let blocked = p.blocked(&mut self.queues, port, now);
        if occupied & blocked != 0 {
            at = at.min(p.reaction.next_expiry());
        }
        if !p.stage.is_empty() {
            at = now;
        }
        if occupied & !blocked != 0 {
            let port_open = p.shaper.as_ref().map_or(now, |shaper| shaper.open_at());
            let queue_open = p.scheduler.open_at(occupied & !blocked).unwrap_or(now);
            at = at.min(port_open.max(queue_open));
        }
        (at != Nanos::MAX).then(|| at.max(now))
    }
}

impl<F: Frame, O: Observer> Switch<F, Mmu, O> {
    /// Enters the books of this shard and the pools as it sees them; the loop's own part stays.
    pub fn fill_loop_stats(&self, loop_stats: &mut LoopStats) {
        let books = self.conservation();
        let pools = self.admission.pools();
        loop_stats.received = books.received;
        loop_stats.copies = books.copies;
        loop_stats.transmitted = books.transmitted;
        loop_stats.dropped = books.dropped;
        loop_stats.held = books.held;
        (loop_stats.handed_in, loop_stats.handed_out) = (books.handed_in, books.handed_out);
        let fdb = self.fdb.counters();
        loop_stats.fdb_entries = self.fdb.len() as u64;
        loop_stats.fdb_learned = fdb.learned;
        loop_stats.fdb_moved = fdb.moved;
        loop_stats.fdb_aged = fdb.aged;
        loop_stats.fdb_refused = fdb.refused_limit + fdb.refused_full;
        if let Some(last) = self.fdb.last_move() {
            (loop_stats.fdb_move_key, loop_stats.fdb_move_from, loop_stats.fdb_move_to) =
                (last.key, u64::from(last.from.0), u64::from(last.to.0));
        }
        loop_stats.shared_used = pools.shared_used;
        loop_stats.headroom_used = pools.headroom_used;
        let used = |pg: Option<PgIx>| pg.map_or(0, |pg| self.admission.pg_view(pg).used);
        loop_stats.control_used = used(self.admission.control_pg());
        loop_stats.mirror_used = used(self.admission.mirror_pg());
        loop_stats.shared_peak = pools.shared_peak.peak(PERSISTENT);
        loop_stats.headroom_peak = pools.headroom_peak.peak(PERSISTENT);
    }
}

impl<F: Frame> OwnPort<F> {
    /// [`Switch::next_event`] where nothing waits, but that it may lie in the past; [`Nanos::MAX`]: there is none.
    #[inline(always)]
    pub(super) fn next_if_empty(&self, flushes: bool, now: Nanos) -> Nanos {
        let looks = self.watchdog.as_ref().map_or(Nanos::MAX, |watchdog| watchdog.next_poll());
        let at = self.generator.next_deadline().min(looks);
        if flushes { at.min(now + 1) } else { at }
    }

    fn link_down(&mut self, now: Nanos) {
        self.generator.link_down(now);
        self.reaction.link_down(now);
        if let Some(watchdog) = &mut self.watchdog {
            watchdog.link_down(now);
        }
        (self.storm_drop, self.storm_forward) = (0, 0);
    }

    fn rx_ring(&mut self, filling: bool) {
        // All of them: a priority that is no longer paused for it, or not yet, must not be left out when that changes.
        for priority in 0..PRIORITIES {
            if filling {
                self.generator.xoff(priority, Source::RxRing, None);
            } else {
                self.generator.xon(priority, Source::RxRing);
            }
        }
    }
}
