//! Frames waiting for a port: `VOQ[in][out][queue]` as linked lists in one slab.
//!
//! A slab slot holds a frame and all the switch knows about it, so a queue costs two indices and
//! any mix of queues shares the memory. Freed slots are reused last in, first out: under light
//! load the same few cache lines serve every frame.

use crate::parse::EcnField;
use crate::types::{Nanos, PRIORITIES, PortId};

/// No slot, no VOQ.
const NIL: u32 = u32::MAX;

/// What the switch knows about a queued frame beyond its bytes.
#[derive(Clone, Copy, Debug)]
pub struct Meta {
    /// When it was received.
    pub rx_ns: Nanos,
    /// Slot of its copy count when several queues hold it; [`Meta::SINGLE`] otherwise.
    pub copies: u32,
    /// Bytes, without FCS.
    pub len: u16,
    /// Priority group it is charged to (`port * 8 + pg`, control groups behind).
    pub pg: u16,
    /// Port it came from.
    pub in_port: u16,
    /// Egress queue.
    pub queue: u8,
    /// Where its ECN bits are and what they said on arrival.
    pub ecn: EcnField,
}

impl Meta {
    /// The only copy.
    pub const SINGLE: u32 = u32::MAX;
}

#[derive(Debug)]
struct Slot<F> {
    frame: Option<F>,
    next: u32,
    meta: Meta,
}

/// Frames of one input for one queue of one output that wait for admission together.
#[derive(Clone, Copy, Debug)]
pub struct Chain {
    head: u32,
    tail: u32,
    /// Frames in it.
    pub frames: u32,
    /// Their bytes.
    pub bytes: u32,
}

impl Chain {
    /// One frame, placed in `slot`.
    #[inline(always)]
    pub fn new(slot: u32, len: u16) -> Self {
        Self { head: slot, tail: slot, frames: 1, bytes: u32::from(len) }
    }
}

/// One virtual output queue: frames of one input for one queue of one output.
#[derive(Clone, Copy, Debug)]
struct Voq {
    head: u32,
    tail: u32,
    /// Next VOQ with frames for the same queue.
    next: u32,
    bytes: u64,
}

/// The VOQs of one egress queue that hold frames, in the order they will be served.
#[derive(Clone, Copy, Debug)]
struct Active {
    first: u32,
    last: u32,
    bytes: u64,
    frames: u32,
}

/// How inputs share an egress queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VoqOrder {
    /// One frame per input in turn: a busy input cannot starve another (REQ SW-058).
    Fair,
    /// Order of arrival, whatever the input.
    Fifo,
}

/// All queues of a switch.
#[derive(Debug)]
pub struct Queues<F> {
    slots: Vec<Slot<F>>,
    free: u32,
    held: u32,
    /// `[out][queue][in]`
    voqs: Vec<Voq>,
    /// `[out][queue]`
    active: Vec<Active>,
    /// Queues with frames, a bit each, per port.
    occupied: Vec<u8>,
    /// Bytes ever queued, `[out][in]`.
    carried: Vec<u64>,
    ports: usize,
    order: VoqOrder,
}

impl<F> Queues<F> {
    /// Room for `frames` frames between `ports` ports.
    pub fn new(ports: usize, frames: usize, order: VoqOrder) -> Self {
        let ecn = EcnField { place: crate::parse::EcnPlace::None, codepoint: 0 };
        let meta = Meta { rx_ns: 0, copies: Meta::SINGLE, len: 0, pg: 0, in_port: 0, queue: 0, ecn };
        let slots: Vec<_> = (1..=frames as u32)
            .map(|next| Slot { frame: None, next: if next as usize == frames { NIL } else { next }, meta })
            .collect();
        Self {
            free: if frames == 0 { NIL } else { 0 },
            slots,
            held: 0,
            voqs: vec![Voq { head: NIL, tail: NIL, next: NIL, bytes: 0 }; ports * PRIORITIES * ports],
            active: vec![Active { first: NIL, last: NIL, bytes: 0, frames: 0 }; ports * PRIORITIES],
            occupied: vec![0; ports],
            carried: vec![0; ports * ports],
            ports,
            order,
        }
    }

    /// A free slot is there for one more frame.
    #[inline(always)]
    pub fn has_room(&self) -> bool {
        self.free != NIL
    }

    /// Frames held.
    pub fn held(&self) -> u32 {
        self.held
    }

    /// Queues of a port that hold frames, a bit each.
    #[inline(always)]
    pub fn occupied(&self, out: PortId) -> u8 {
        self.occupied[out.index()]
    }

    /// Bytes waiting in a queue.
    #[inline(always)]
    pub fn bytes(&self, out: PortId, queue: usize) -> u64 {
        self.active[out.index() * PRIORITIES + queue].bytes
    }

    /// Frames waiting in a queue.
    pub fn frames(&self, out: PortId, queue: usize) -> u32 {
        self.active[out.index() * PRIORITIES + queue].frames
    }

    /// Bytes in a queue that came from one input.
    pub fn bytes_from(&self, input: PortId, out: PortId, queue: usize) -> u64 {
        self.voqs[(out.index() * PRIORITIES + queue) * self.ports + input.index()].bytes
    }

    /// Bytes ever queued for an output, by input.
    pub fn carried(&self, out: PortId) -> &[u64] {
        let first = out.index() * self.ports;
        self.carried.get(first..first + self.ports).unwrap_or(&[])
    }

    /// Puts a frame into a slot, not yet into a queue: see [`Chain`].
    ///
    /// # Errors
    /// The frame, when every slot is in use.
    #[inline(always)]
    pub fn place(&mut self, frame: F, meta: &Meta) -> Result<u32, F> {
        let slot_ix = self.free;
        let Some(slot) = self.slots.get_mut(slot_ix as usize) else { return Err(frame) };
        self.free = slot.next;
        *slot = Slot { frame: Some(frame), next: NIL, meta: *meta };
        Ok(slot_ix)
    }

    /// Puts a frame that was placed behind the last one of a chain.
    #[inline(always)]
    pub fn link(&mut self, chain: &mut Chain, slot: u32, len: u16) {
        if let Some(tail) = self.slots.get_mut(chain.tail as usize) {
            tail.next = slot;
        }
        chain.tail = slot;
        chain.frames += 1;
        chain.bytes += u32::from(len);
    }

    /// Takes the first frame of a chain out again.
    pub fn unplace(&mut self, chain: &mut Chain) -> Option<(F, Meta)> {
        let slot = self.slots.get_mut(chain.head as usize)?;
        let frame = slot.frame.take()?;
        let next = std::mem::replace(&mut slot.next, self.free);
        self.free = std::mem::replace(&mut chain.head, next);
        Some((frame, slot.meta))
    }

    /// Appends the frames of a chain, all from `input`. Returns `true` if the queue was empty before.
    #[inline(always)]
    pub fn append(&mut self, input: PortId, out: PortId, queue: usize, chain: &Chain) -> bool {
        self.held += chain.frames;
        let bytes = u64::from(chain.bytes);
        let queue_ix = out.index() * PRIORITIES + queue;
        let first_voq = queue_ix * self.ports;
        let own = first_voq + input.index();
        let voq_ix = if self.order == VoqOrder::Fair { own } else { first_voq };
        self.voqs[own].bytes += bytes;
        self.carried[out.index() * self.ports + input.index()] += bytes;
        let active = &mut self.active[queue_ix];
        active.bytes += bytes;
        active.frames += chain.frames;
        let was_empty = active.first == NIL;
        let voq = &mut self.voqs[voq_ix];
        let tail = std::mem::replace(&mut voq.tail, chain.tail);
        if voq.head == NIL {
            voq.head = chain.head;
            voq.next = NIL;
            let last = std::mem::replace(&mut active.last, voq_ix as u32);
            if was_empty {
                active.first = voq_ix as u32;
                self.occupied[out.index()] |= 1 << queue;
            } else {
                self.voqs[last as usize].next = voq_ix as u32;
            }
        } else {
            self.slots[tail as usize].next = chain.head;
        }
        was_empty
    }

    /// Appends a frame. Returns `true` if the queue was empty before; gives the frame back if
    /// there is no slot.
    ///
    /// # Errors
    /// The frame, when every slot is in use.
    pub fn push(&mut self, out: PortId, frame: F, meta: Meta) -> Result<bool, F> {
        let slot = self.place(frame, &meta)?;
        let chain = Chain::new(slot, meta.len);
        Ok(self.append(PortId(meta.in_port), out, usize::from(meta.queue), &chain))
    }

    /// Takes frames of a queue in turn, `most` at most, and hands each to `take` with the bytes it leaves
    /// behind, until that says `false` or the queue is empty. Returns how many it took.
    #[inline(always)]
    pub fn drain(
        &mut self,
        out: PortId,
        queue: usize,
        most: usize,
        mut take: impl FnMut(F, Meta, u64) -> bool,
    ) -> usize {
        let mut taken = 0;
        while taken < most {
            let (n, go_on) = self.drain_voq(out, queue, most - taken, &mut take);
            taken += n;
            if n == 0 || !go_on {
                break;
            }
        }
        taken
    }

    /// One turn of the VOQ that is first: a frame, or as many as wanted while no other VOQ waits.
    #[inline(always)]
    fn drain_voq(
        &mut self,
        out: PortId,
        queue: usize,
        most: usize,
        take: &mut impl FnMut(F, Meta, u64) -> bool,
    ) -> (usize, bool) {
        let queue_ix = out.index() * PRIORITIES + queue;
        let first_voq = queue_ix * self.ports;
        let active = &mut self.active[queue_ix];
        let voq_ix = active.first;
        let Some(&Voq { head, next: next_voq, .. }) = self.voqs.get(voq_ix as usize) else {
            return (0, false);
        };
        let most = if next_voq == NIL { most } else { 1 };
        let before = active.bytes;
        let (mut slot_ix, mut last, mut left, mut taken, mut go_on) = (head, head, before, 0, true);
        while taken < most && go_on {
            let Some(slot) = self.slots.get_mut(slot_ix as usize) else { break };
            let Some(frame) = slot.frame.take() else { break };
            last = slot_ix;
            slot_ix = slot.next;
            taken += 1;
            left -= u64::from(slot.meta.len);
            if self.order == VoqOrder::Fifo {
                self.voqs[first_voq + usize::from(slot.meta.in_port)].bytes -= u64::from(slot.meta.len);
            }
            go_on = take(frame, slot.meta, left);
        }
        if taken == 0 {
            return (0, false);
        }
        // The slots taken are a chain already: it goes to the front of the free ones as a whole.
        self.slots[last as usize].next = std::mem::replace(&mut self.free, head);
        self.held -= taken as u32;
        active.bytes = left;
        active.frames -= taken as u32;
        let voq = &mut self.voqs[voq_ix as usize];
        voq.head = slot_ix;
        if self.order == VoqOrder::Fair {
            voq.bytes -= before - left;
        }
        // A VOQ that has been served goes behind the others; an empty one leaves the turn.
        let empty = slot_ix == NIL;
        if empty || next_voq != NIL {
            active.first = next_voq;
            if next_voq == NIL {
                active.last = NIL;
                self.occupied[out.index()] &= !(1 << queue);
            }
            if !empty {
                voq.next = NIL;
                let last = std::mem::replace(&mut active.last, voq_ix);
                self.voqs[last as usize].next = voq_ix;
            }
        }
        (taken, go_on)
    }

    /// Takes the next frame of a queue.
    pub fn pop(&mut self, out: PortId, queue: usize) -> Option<(F, Meta)> {
        let mut popped = None;
        self.drain(out, queue, 1, |frame, meta, _| {
            popped = Some((frame, meta));
            false
        });
        popped
    }

    /// Length of the frame that [`Queues::pop`] would return, bytes.
    pub fn head_len(&self, out: PortId, queue: usize) -> Option<u16> {
        let voq = self.voqs.get(self.active[out.index() * PRIORITIES + queue].first as usize)?;
        self.slots.get(voq.head as usize).map(|slot| slot.meta.len)
    }

    /// When the frame that [`Queues::pop`] would return was received.
    pub fn head_since(&self, out: PortId, queue: usize) -> Option<Nanos> {
        let voq = self.voqs.get(self.active[out.index() * PRIORITIES + queue].first as usize)?;
        self.slots.get(voq.head as usize).map(|slot| slot.meta.rx_ns)
    }

    /// The egress queue that holds most bytes of those that came in on `input` with one of the
    /// queues in `queues` (a bit each): who is to blame for a full priority group.
    pub fn fullest(&self, input: PortId, queues: u8) -> Option<(PortId, u8)> {
        let mut best = (0, None);
        for out in 0..self.ports {
            for queue in (0..PRIORITIES as u8).filter(|q| queues >> q & 1 == 1) {
                let out = PortId(out as u16);
                let bytes = self.bytes_from(input, out, usize::from(queue));
                if bytes > best.0 {
                    best = (bytes, Some((out, queue)));
                }
            }
        }
        best.1
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse::EcnPlace;

    fn meta(in_port: u16, queue: u8, len: u16) -> Meta {
        let ecn = EcnField { place: EcnPlace::None, codepoint: 0 };
        Meta { rx_ns: 0, copies: Meta::SINGLE, len, pg: 0, in_port, queue, ecn }
    }

    #[test]
    fn e8_order_is_kept_within_an_input() {
        let mut q = Queues::new(4, 16, VoqOrder::Fair);
        let out = PortId(3);
        for n in 0..4u32 {
            for input in 0..3u16 {
                let was_empty = q.push(out, u32::from(input) * 100 + n, meta(input, 5, 64)).unwrap();
                assert_eq!(was_empty, n == 0 && input == 0);
            }
        }
        let order: Vec<_> = std::iter::from_fn(|| q.pop(out, 5)).map(|(f, _)| f).collect();
        assert_eq!(order, [0, 100, 200, 1, 101, 201, 2, 102, 202, 3, 103, 203]);
        assert_eq!((q.held(), q.occupied(out), q.bytes(out, 5)), (0, 0, 0));
    }

    #[test]
    fn fair_turns_shield_a_light_input_and_fifo_does_not() {
        for (order, place) in [(VoqOrder::Fair, 1), (VoqOrder::Fifo, 8)] {
            let mut q = Queues::new(2, 16, order);
            for _ in 0..8 {
                q.push(PortId(0), "heavy", meta(0, 0, 64)).unwrap();
            }
            q.push(PortId(0), "light", meta(1, 0, 64)).unwrap();
            let order: Vec<_> = std::iter::from_fn(|| q.pop(PortId(0), 0)).map(|(f, _)| f).collect();
            assert_eq!(order.iter().position(|f| *f == "light"), Some(place));
        }
    }

    #[test]
    fn a_full_slab_gives_the_frame_back() {
        let mut q = Queues::new(2, 2, VoqOrder::Fair);
        q.push(PortId(0), 1, meta(1, 0, 64)).unwrap();
        q.push(PortId(1), 2, meta(0, 7, 64)).unwrap();
        assert!(!q.has_room());
        assert_eq!(q.push(PortId(0), 3, meta(1, 0, 64)), Err(3));
        assert_eq!(q.pop(PortId(1), 7).unwrap().0, 2);
        assert!(q.push(PortId(0), 3, meta(1, 0, 64)).is_ok());
        assert_eq!(q.held(), 2);
    }

    #[test]
    fn the_fullest_queue_of_an_input_is_named() {
        let mut q = Queues::new(3, 8, VoqOrder::Fifo);
        q.push(PortId(1), (), meta(0, 3, 100)).unwrap();
        q.push(PortId(2), (), meta(0, 3, 300)).unwrap();
        q.push(PortId(1), (), meta(2, 3, 900)).unwrap();
        assert_eq!(q.fullest(PortId(0), 1 << 3), Some((PortId(2), 3)));
        assert_eq!(q.fullest(PortId(1), 0xff), None);
        assert_eq!(q.head_len(PortId(1), 3), Some(100));
    }

    #[test]
    fn what_was_carried_is_never_forgotten() {
        let mut q = Queues::new(3, 8, VoqOrder::Fair);
        for (out, input, len) in [(1, 0, 100), (1, 0, 50), (1, 2, 7), (2, 0, 9)] {
            q.push(PortId(out), (), meta(input, 3, len)).unwrap();
        }
        while q.pop(PortId(1), 3).is_some() {}
        assert_eq!((q.carried(PortId(1)), q.carried(PortId(2))), (&[150, 0, 7][..], &[9, 0, 0][..]));
    }
}
