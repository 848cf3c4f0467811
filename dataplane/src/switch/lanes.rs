//! Frames that leave their queue one by one, in turns: of weighted queues, whose turn is a few frames, of inputs that share a
//! queue, and where each frame may be marked. What a burst takes of a batch is accounted for once.
//!
//! From its first turn of a burst a batch at the front of a VOQ has a lane ([`Lane`](crate::egress::Lane)): it names the entry of
//! the stage that the frames of the batch are of, and counts what has left. Batch, VOQ and entry learn of that when the batch is
//! empty or the burst ends.

use super::OwnPort;
use super::stage::Staged;
use super::transmit::{Departed, Departure};
use crate::egress::{
    BatchHeader, BatchTotals, FrameBatch, Front, Lane, Limits, Members, Queues, Standing, VoqTurn,
};
use crate::frame::Frame;
use crate::pfc::bits;
use crate::types::{BURST, Nanos, PortId, wire_bytes};

const _: () = assert!(BURST <= u16::MAX as usize, "frames of a stage are counted in two octets");

/// What leaves a queue in turns.
struct TurnsOfBurst {
    departed: Departed,
    /// Bytes that are still in the queue.
    depth: u64,
    /// ns the queue was held by received pauses.
    held_ns: Nanos,
}

impl TurnsOfBurst {
    /// Frames have left that another lcore is to send: they take of the room for such, `granted`, and none of that of `limits`.
    #[inline(always)]
    fn grant(&mut self, front: &Front, granted: &mut usize, limits: &mut Limits) {
        let frames = front.totals.frames as usize;
        *granted -= frames;
        limits.frames += frames;
        self.depth -= u64::from(front.totals.bytes);
        self.departed.grant(front);
    }
}

impl<F: Frame> OwnPort<F> {
    /// A queue has lanes.
    #[inline(always)]
    pub(super) fn has_lanes(&self, queue: usize) -> bool {
        self.lanes >> queue & 1 == 1
    }

    /// Moves to the stage what may leave a queue, each input in turn, marking on the way; whole rounds with the frames that other
    /// lcores are granted. Nothing, if there is no room for the first frame, or another lcore is to send all there is.
    #[inline(never)]
    pub(super) fn take_in_turns<C: Fn(u32) -> u32>(
        &mut self,
        queues: &mut Queues<F>,
        departure: &mut Departure<'_, F, C>,
        limits: Limits,
    ) -> Departed {
        let (out, queue) = (departure.out, departure.queue);
        let Some((_, Standing { alone, depth, held_ns })) = queues.front(out, queue) else {
            return Departed::default();
        };
        let mut limits = limits;
        let mut burst = TurnsOfBurst { departed: Departed::default(), depth, held_ns };
        let (kmin, mut members, mut rounds_fit) = (self.mark[queue].kmin, Members::new(), !alone);
        while burst.departed.may_go_on(limits) {
            if rounds_fit && burst.depth <= kmin {
                rounds_fit = self.take_rounds(queues, departure, &mut limits, (&mut burst, &mut members));
                continue;
            }
            let turn = |turn: VoqTurn<'_, F>| self.take_turn(turn, departure, &mut limits, &mut burst);
            if !queues.serve(out, queue, turn) {
                break;
            }
        }
        queues.shrink(out, queue, burst.departed.frames as u32, (depth - burst.depth) as u32);
        burst.departed
    }

    /// Takes a frame of an input, or as many as may leave if no other one waits. Bytes of its batch that are accounted for now;
    /// `None`: it has no turn, as there is no room for what another lcore is to send, or that may go in one.
    #[inline(always)]
    fn take_turn<C: Fn(u32) -> u32>(
        &mut self,
        VoqTurn { batch, lane, alone }: VoqTurn<'_, F>,
        departure: &mut Departure<'_, F, C>,
        limits: &mut Limits,
        burst: &mut TurnsOfBurst,
    ) -> Option<u32> {
        let queue = departure.queue;
        if lane.gone == 0 && !self.open_lane(batch, lane, departure, burst) {
            if alone || departure.granted == 0 {
                return None;
            }
            let standing = Standing { alone, depth: burst.depth, held_ns: burst.held_ns };
            let front = self.grant_one(batch, &standing, departure);
            burst.grant(&front, &mut departure.granted, limits);
            return Some(front.totals.bytes);
        }
        let (wred, before) = (self.mark[queue], burst.departed.frames);
        while let Some((mut frame, len)) = batch.pop_unaccounted() {
            burst.depth -= u64::from(len);
            if burst.depth > wred.kmin && wred.decide(burst.depth, departure.rng.next_u32()) {
                let meta = batch.header().meta_of(&frame, batch.held_ns());
                self.mark(&mut frame, &meta);
            }
            lane.ce += u8::from(batch.came_as_ce(&frame));
            burst.departed.add(wire_bytes(u64::from(len)));
            self.stage.push(frame);
            if !alone || !burst.departed.may_go_on(*limits) {
                break;
            }
        }
        Some(self.took(batch, lane, queue, burst.departed.frames - before))
    }

    /// [`OwnPort::take_in_turns`] where the lane of the only input is open and no frame is to be marked, which is most turns of
    /// weighted queues. Nothing, if that is not so.
    #[inline(always)]
    pub(super) fn take_from_lane(
        &mut self,
        queues: &mut Queues<F>,
        (out, queue): (PortId, usize),
        limits: Limits,
    ) -> Departed {
        let (mut departed, mut bytes) = (Departed::default(), 0);
        let might_be_marked = queues.bytes(out, queue) > self.mark[queue].kmin;
        let Some(VoqTurn { batch, lane, alone: true }) = queues.turn(out, queue) else { return departed };
        if lane.gone == 0 || might_be_marked {
            return departed;
        }
        while departed.may_go_on(limits)
            && let Some((frame, len)) = batch.pop_unaccounted()
        {
            bytes += u32::from(len);
            lane.ce += u8::from(batch.came_as_ce(&frame));
            departed.add(wire_bytes(u64::from(len)));
            self.stage.push(frame);
        }
        let accounted = self.took(batch, lane, queue, departed.frames);
        if batch.is_empty() {
            queues.turn_ends(out, queue, accounted);
        }
        queues.shrink(out, queue, departed.frames as u32, bytes);
        departed
    }

    /// The last frames of the stage are of this batch, whose lane it is. Bytes of the batch that are accounted for now.
    #[inline(always)]
    fn took(&mut self, batch: &mut FrameBatch<F>, lane: &mut Lane, queue: usize, frames: usize) -> u32 {
        lane.gone += frames as u16;
        self.stage.note_run(lane.entry, frames as u32);
        if !batch.is_empty() {
            return 0;
        }
        let gone = batch.all_popped(lane.gone.into());
        self.lane_closed(queue, *lane, gone);
        gone.bytes
    }

    /// What has left by a lane is known now.
    #[inline(always)]
    fn lane_closed(&mut self, queue: usize, lane: Lane, gone: BatchTotals) {
        self.stage.add(lane.entry, gone);
        self.stats.ecn_seen_ce[queue] += u64::from(lane.ce);
    }

    /// The first frame of a batch is about to leave. `false`: another lcore is to send it.
    #[inline(always)]
    fn open_lane<C>(
        &mut self,
        batch: &mut FrameBatch<F>,
        lane: &mut Lane,
        departure: &mut Departure<'_, F, C>,
        burst: &TurnsOfBurst,
    ) -> bool {
        let header = batch.header();
        if header.home != BatchHeader::HERE {
            return false;
        }
        departure.return_path.open(batch);
        batch.reverse();
        let paused_ns = burst.held_ns.wrapping_sub(batch.held_ns());
        let totals = BatchTotals::default();
        lane.entry = self.stage.account(Staged { header, totals, out: departure.out, paused_ns });
        self.lanes |= 1 << departure.queue;
        true
    }

    /// Takes whole rounds, a frame of each input, if some fit. None of the frames is to be marked.
    #[inline(always)]
    fn take_rounds<C: Fn(u32) -> u32>(
        &mut self,
        queues: &mut Queues<F>,
        departure: &mut Departure<'_, F, C>,
        limits: &mut Limits,
        (burst, members): (&mut TurnsOfBurst, &mut Members),
    ) -> bool {
        let (out, queue) = (departure.out, departure.queue);
        let left = burst.departed.left_of(*limits);
        // Who follows frames is told of each one that is granted.
        let granted = if departure.watched.is_some() { 0 } else { departure.granted };
        let Some(rounds) = left.and_then(|left| queues.rounds(out, queue, (left, granted), members)) else {
            return false;
        };
        for member in members.iter_mut() {
            let Some(VoqTurn { batch, lane, .. }) = queues.member(*member) else { continue };
            if member.elsewhere {
                let all = Limits { frames: rounds, wire: u64::MAX };
                let front = self.grant_together(batch, burst.held_ns, all, departure);
                member.bytes = front.totals.bytes;
                burst.grant(&front, &mut departure.granted, limits);
            } else if lane.gone == 0 && self.open_lane(batch, lane, departure, burst) {
                member.entry = lane.entry;
            }
        }
        for _ in 0..rounds {
            for member in members.iter_mut().filter(|member| !member.elsewhere) {
                let Some((frame, len, ce)) = queues.next_of(*member) else { continue };
                member.ce += u8::from(ce);
                burst.depth -= u64::from(len);
                burst.departed.add(wire_bytes(u64::from(len)));
                self.stage.push(frame);
                self.stage.note_run(member.entry, 1);
            }
        }
        queues.rounds_end(out, queue, (rounds, members), |lane, gone| self.lane_closed(queue, lane, gone));
        true
    }

    /// No queue has lanes any longer.
    #[inline(always)]
    pub(super) fn close_lanes(
        &mut self,
        queues: &mut Queues<F>,
        out: PortId,
        charge_of: impl Fn(u32) -> u32,
    ) {
        if self.lanes != 0 {
            self.close_open_lanes(queues, out, charge_of);
        }
    }

    #[inline(never)]
    fn close_open_lanes(&mut self, queues: &mut Queues<F>, out: PortId, charge_of: impl Fn(u32) -> u32) {
        for queue in bits(std::mem::take(&mut self.lanes)) {
            queues.close_lanes(out, queue, &charge_of, |lane, gone| self.lane_closed(queue, lane, gone));
        }
    }
}
