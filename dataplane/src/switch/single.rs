//! Frames one by one, for who has no bursts of them: a simulation, where each comes at a time of its own. What happens to a frame
//! is what happens to it in [`Switch::receive`] and [`Switch::transmit`], by the same steps; what those do to treat many frames
//! together, sorting them by decision and standing in the stage, is left out.

use super::gate::Charged;
use super::handoff::ReturnPath;
use super::receive::header_of;
use super::stage::Staged;
use super::transmit::Departure;
use super::{Observer, OwnPort, Switch};
use crate::drops::DropReason;
use crate::egress::{BatchTotals, Meta};
use crate::frame::Frame;
use crate::mmu::{Admission, PgIx, QueueIx};
use crate::rng::Rng;
use crate::types::{Burst, Nanos, PRIORITIES, PortId, wire_bytes};

/// A frame that has left its queue, and has its line before it.
#[derive(Debug)]
pub struct Dequeued<F> {
    /// The frame.
    pub frame: F,
    meta: Meta,
}

impl<F> Dequeued<F> {
    /// The port it came by.
    pub fn in_port(&self) -> PortId {
        PortId(self.meta.header.in_port)
    }
}

/// A frame that has passed, see [`Switch::pass_one`].
#[derive(Debug)]
pub struct Passed<F> {
    /// The frame.
    pub frame: F,
    /// What [`Switch::next_event`] says of the port it leaves by.
    pub next: Option<Nanos>,
}

impl<F: Frame, A: Admission, O: Observer> Switch<F, A, O> {
    /// [`Switch::receive`] of one frame. It goes the short way if a decision about its kind is kept and nothing is to be done to it
    /// but to queue it.
    #[inline]
    pub fn receive_one(&mut self, port: PortId, frame: F, now: Nanos) {
        self.sync_flow_cache();
        let OwnPort { params, refuses, .. } = &self.ports[port.index()];
        let plain = refuses.is_none()
            && !params.complete_checksums
            && params.vlans.is_none()
            && self.is_plain()
            && self.queues.has_room();
        let stamp = self.flow_cache.stamp(port);
        let decision = self.flow_cache.decision(&params.profile, stamp, &frame);
        if !plain || !decision.is_decided() || decision.is_open() || decision.is_refused() {
            let mut burst = Burst::new();
            burst.push(frame);
            return self.receive(port, &mut burst, now);
        }
        self.received_since_tick += 1;
        let (out, queue) = (decision.out(), decision.queue() as usize % PRIORITIES);
        let (len, header) = (frame.len() as u16, header_of(port, decision, now));
        let held_ns = self.held_ns(decision.queue() as usize, now);
        let bytes = u32::from(len);
        let totals = BatchTotals { frames: 1, bytes, charge: self.admission.charge(bytes) };
        self.count_received(port, decision.tc(), 1, u64::from(bytes));
        let charged = Charged::Both(out);
        if !self.admit_all(charged, decision.pg(), queue, totals) {
            return self.admit_one(charged, out, frame, Meta { header, len, held_ns });
        }
        // There is room.
        if let Ok(list) = self.queues.list_of(&header, held_ns, frame, totals) {
            self.append(port, out, queue, &list, totals);
        }
    }

    /// [`Switch::receive_one`] of a frame and at once [`Switch::transmit_one`] of `out`, if that is where it goes, it is the only one
    /// there, and neither limits nor rates nor pauses are in its way, nor is a control frame due at either port: then no queue needs to
    /// know of it. Only for a line that is free.
    ///
    /// # Errors
    /// The frame, which goes the long way. Nothing has happened to it.
    #[inline]
    pub fn pass_one(&mut self, port: PortId, out: PortId, frame: F, now: Nanos) -> Result<Passed<F>, F> {
        self.sync_flow_cache();
        let OwnPort { params, refuses, generator, .. } = &self.ports[port.index()];
        let plain = refuses.is_none()
            && !generator.due(now)
            && !params.complete_checksums
            && params.vlans.is_none()
            && self.is_plain()
            && self.queues.occupied(out) == 0
            && self.queues.has_room();
        if !plain {
            return Err(frame);
        }
        let stamp = self.flow_cache.stamp(port);
        let decision = self.flow_cache.decision(&params.profile, stamp, &frame);
        if !decision.is_decided() || decision.is_open() || decision.is_refused() || decision.out() != out {
            return Err(frame);
        }
        let queue = decision.queue() as usize % PRIORITIES;
        if !self.is_fast_path(out, queue as u8) {
            return Err(frame);
        }
        let sender = &mut self.ports[out.index()];
        let waits = sender.shaper.is_some()
            || sender.scheduler.has_rates()
            || !sender.stage.is_empty()
            || sender.generator.due(now)
            || sender.blocked(&mut self.queues, out, now) >> queue & 1 == 1;
        let len = u32::from(frame.len() as u16);
        let totals = BatchTotals { frames: 1, bytes: len, charge: self.admission.charge(len) };
        let group = PgIx(u32::from(decision.pg()));
        if waits || !self.admission.pass(group, QueueIx::of(out, queue), totals.charge) {
            return Err(frame);
        }
        self.count_charged(decision.pg(), 1);
        self.received_since_tick += 1;
        self.count_received(port, decision.tc(), 1, u64::from(len));
        self.queues.passes(port, out, u64::from(len));
        let sender = &mut self.ports[out.index()];
        sender.scheduler.passes(queue, wire_bytes(u64::from(len)), now);
        // It leaves nothing behind, which marks nobody.
        sender.stats.ecn_seen_ce[queue] += u64::from(decision.ecn().of(&frame).is_ce());
        sender.note_sent(&Staged { header: header_of(port, decision, now), totals, out, paused_ns: 0 }, now);
        let next = sender.next_if_empty(self.flushing.contains(out), now);
        Ok(Passed { frame, next: (next != Nanos::MAX).then(|| next.max(now)) })
    }

    /// The frame that [`Switch::transmit`] with a budget of one hands to the wire next, if no control frame is due: the wire takes
    /// it for certain. Only for a switch that [is plain](Switch::is_plain): neither mirrors nor who follows frames see it leave.
    #[inline]
    pub fn transmit_one(&mut self, out: PortId, now: Nanos) -> Option<F> {
        debug_assert!(self.is_plain());
        let Self { ports, queues, rng, admission, peers, owner, .. } = self;
        let port = &mut ports[out.index()];
        debug_assert!(port.stage.is_empty());
        let ready = queues.occupied(out);
        if ready == 0 || !port.status.is_up() {
            return None;
        }
        let ready = ready & !port.blocked(queues, out, now);
        if let Some(shaper) = &mut port.shaper {
            shaper.refill(now);
            if !shaper.open() {
                return None;
            }
        }
        port.scheduler.refill(now);
        let queue = port.scheduler.pick(ready)?.queue;
        let (ix, standing) = queues.front(out, queue)?;
        let batch = queues.batch_mut(ix)?;
        let (header, paused_ns) = (batch.header(), standing.held_ns.wrapping_sub(batch.held_ns()));
        let charge_of = |len| admission.charge(len);
        let return_path = ReturnPath { peers, owner };
        let mut departure = Departure { rng, return_path, charge_of, out, queue, granted: 0, watched: None };
        let (frame, front) = port.take_one(batch, &standing, &mut departure)?;
        queues.left(out, queue, front.totals);
        if let Some(shaper) = &mut port.shaper {
            shaper.pay_and_open(front.wire);
        }
        port.scheduler.sent(queue, 1, front.wire, front.wire);
        self.gone(&Staged { header, totals: front.totals, out, paused_ns }, now);
        Some(frame)
    }

    /// The next frame of a queue, for who has a switch for each input and joins them to outputs: whether it is its turn, and whether
    /// its peer lets it go, is theirs to know. It takes no room here any more; what becomes of it is told with [`Switch::depart`] or
    /// [`Switch::lose`]. Only for a switch that [is plain](Switch::is_plain).
    pub fn dequeue_one(&mut self, out: PortId, queue: usize, now: Nanos) -> Option<Dequeued<F>> {
        debug_assert!(self.is_plain());
        let Self { ports, queues, admission, .. } = self;
        if ports[out.index()].flushing >> queue & 1 == 1 {
            return None;
        }
        let (ix, _) = queues.front(out, queue)?;
        let (frame, meta) = queues.batch_mut(ix)?.pop(|len| admission.charge(len))?;
        let totals = self.totals_of_one(&meta);
        self.queues.left(out, queue, totals);
        let port = &mut self.ports[out.index()];
        port.in_flight += 1;
        if let Some(bursts) = &mut port.bursts {
            bursts.shrunk(queue, self.queues.bytes(out, queue), now);
        }
        self.release_staged(&Staged { header: meta.header, totals, out, paused_ns: 0 });
        Some(Dequeued { frame, meta })
    }

    /// A frame that was dequeued leaves by its line, and leaves so many bytes of its queue behind, in all switches together: it is
    /// counted and marked as one of [`Switch::transmit`] is.
    pub fn depart(
        &mut self,
        out: PortId,
        Dequeued { mut frame, meta }: Dequeued<F>,
        (depth, now): (u64, Nanos),
        rng: &mut Rng,
    ) -> F {
        let (header, totals) = (meta.header, self.totals_of_one(&meta));
        let queue = usize::from(header.queue);
        let held_ns = self.held_ns(out.index() * PRIORITIES + queue, now);
        let port = &mut self.ports[out.index()];
        port.in_flight -= 1;
        port.mark_departing(&mut frame, &meta, depth, rng);
        port.stats.ecn_seen_ce[queue] += u64::from(header.is_ce());
        let paused_ns = held_ns.saturating_sub(meta.held_ns);
        port.note_sent(&Staged { header, totals, out, paused_ns }, now);
        frame
    }

    /// A frame that was dequeued is lost before its line has it.
    pub fn lose(&mut self, out: PortId, Dequeued { frame, meta }: Dequeued<F>, reason: DropReason) {
        self.ports[out.index()].in_flight -= 1;
        self.ports.flushed = true;
        self.refuse(out, frame, &meta.header, reason);
    }

    /// A frame has left its queue.
    #[inline]
    fn gone(&mut self, sent: &Staged, now: Nanos) {
        let (out, queue) = (sent.out, usize::from(sent.header.queue));
        let port = &mut self.ports[out.index()];
        if let Some(bursts) = &mut port.bursts {
            bursts.shrunk(queue, self.queues.bytes(out, queue), now);
        }
        port.note_sent(sent, now);
        self.release_staged(sent);
    }

    /// Nobody is shown or given a copy of what leaves, and no other shard sends any of it.
    #[inline]
    pub fn is_plain(&self) -> bool {
        self.mirrors.is_empty() && self.peers.len() <= 1 && !self.observer.looks_on()
    }
}
