//! Frames waiting for a port: `VOQ[in][out][queue]` as linked lists of batches in one slab.
//!
//! A slot of the slab holds a [`FrameBatch`], so a queue costs two indices and any mix of queues shares the
//! memory. Freed batches are reused last in, first out: under light load the same few cache lines serve
//! every frame.

mod rounds;

pub use rounds::Members;

use super::batch::FrameBatch;
use super::header::{BatchHeader, Meta};
use super::request::{BatchBuffer, EnqueueRequest};
use super::totals::BatchTotals;
use crate::frame::Frame;
use crate::parse::EcnCode;
use crate::types::{Nanos, PRIORITIES, PortId};

/// No batch, no VOQ.
const NIL: u32 = u32::MAX;

/// Batches of one input for one queue of one output that wait for admission together.
#[derive(Clone, Copy, Debug)]
pub struct BatchList {
    head: u32,
    tail: u32,
}

impl BatchList {
    /// No batches: nothing can be added to it.
    pub const NONE: BatchList = BatchList { head: NIL, tail: NIL };

    /// No batches.
    pub fn is_empty(&self) -> bool {
        self.head == NIL
    }
}

/// One virtual output queue: frames of one input for one queue of one output.
#[derive(Clone, Copy, Debug)]
struct Voq {
    head: u32,
    tail: u32,
    /// Next VOQ with frames for the same queue.
    next: u32,
    lane: Lane,
    bytes: u64,
}

/// Frames that leave the batch at the front of a VOQ one by one, in turn with those of others, are accounted for together: when the
/// batch is empty, or when the burst ends. Until then neither sum of the batch nor that of the VOQ knows of them.
#[derive(Clone, Copy, Debug, Default)]
pub struct Lane {
    /// Whose they are, for who takes them.
    pub entry: u8,
    /// How many of them came in as CE.
    pub ce: u8,
    /// Their number. 0: nothing has left this way, the lane is closed.
    pub gone: u16,
}

/// Whose turn it is to send from a queue, see [`Queues::turn`].
#[derive(Debug)]
pub struct VoqTurn<'a, F: Frame> {
    /// The batch at its front.
    pub batch: &'a mut FrameBatch<F>,
    /// What has left that batch.
    pub lane: &'a mut Lane,
    /// No other VOQ waits for a turn.
    pub alone: bool,
}

/// The VOQs of one egress queue that hold frames, in the order they will be served.
#[derive(Clone, Copy, Debug)]
struct Active {
    first: u32,
    last: u32,
    bytes: u64,
    frames: u32,
    /// ns it was held by received pauses, [`ASK`] while it may be held.
    held_ns: Nanos,
}

/// The time a queue was held is not known here.
const ASK: Nanos = Nanos::MAX;

/// How inputs share an egress queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VoqOrder {
    /// One frame per input in turn: a busy input cannot starve another (REQ SW-058).
    Fair,
    /// Order of arrival, whatever the input.
    Fifo,
}

/// How a queue stands when it is asked for a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standing {
    /// No other VOQ waits for a turn of this queue.
    pub alone: bool,
    /// Bytes in the queue.
    pub depth: u64,
    /// ns it was held by received pauses; a queue that sends is not held.
    pub held_ns: Nanos,
}

/// All queues of a switch.
#[derive(Debug)]
pub struct Queues<F: Frame> {
    /// Those that were ever in use.
    batches: Vec<FrameBatch<F>>,
    most: usize,
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

impl<F: Frame> Queues<F> {
    /// [`Queues::try_new`] of few frames.
    #[cfg(test)]
    pub fn new(ports: usize, frames: usize, order: VoqOrder) -> Self {
        Self::try_new(ports, frames, order).unwrap()
    }

    /// Room for `frames` frames at least between `ports` ports: so many batches.
    ///
    /// # Errors
    /// There is not so much memory; the bytes that were asked for.
    pub fn try_new(ports: usize, frames: usize, order: VoqOrder) -> Result<Self, usize> {
        // Memory is reserved here and touched when it is needed: no allocation while frames flow.
        let mut batches = Vec::new();
        let bytes = frames.saturating_mul(size_of::<FrameBatch<F>>());
        batches.try_reserve_exact(frames).map_err(|_| bytes)?;
        Ok(Self {
            free: NIL,
            batches,
            most: frames,
            held: 0,
            voqs: vec![
                Voq { head: NIL, tail: NIL, next: NIL, lane: Lane::default(), bytes: 0 };
                ports * PRIORITIES * ports
            ],
            active: vec![
                Active { first: NIL, last: NIL, bytes: 0, frames: 0, held_ns: 0 };
                ports * PRIORITIES
            ],
            occupied: vec![0; ports],
            carried: vec![0; ports * ports],
            ports,
            order,
        })
    }

    /// A free batch is there for one more frame.
    #[inline(always)]
    pub fn has_room(&self) -> bool {
        self.free != NIL || self.batches.len() < self.most
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

    /// So many bytes were seen in a queue elsewhere: what is asked of its depth is answered as there. No frame is behind them.
    pub fn assume_bytes(&mut self, out: PortId, queue: usize, bytes: u64) {
        self.active[out.index() * PRIORITIES + queue].bytes = bytes;
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

    /// ns a queue (`port * 8 + queue`) was held by received pauses. `None`: it may be held now, ask who received
    /// them.
    #[inline(always)]
    pub fn held_ns(&self, queue_ix: usize) -> Option<Nanos> {
        Some(self.active[queue_ix].held_ns).filter(|ns| *ns != ASK)
    }

    /// How long a queue was held, `None` from the moment it may be held again.
    pub fn set_held_ns(&mut self, out: PortId, queue: usize, held_ns: Option<Nanos>) {
        self.active[out.index() * PRIORITIES + queue].held_ns = held_ns.unwrap_or(ASK);
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

    /// So many bytes of `input` pass a queue of an output that is empty.
    #[inline(always)]
    pub fn passes(&mut self, input: PortId, out: PortId, bytes: u64) {
        self.carried[out.index() * self.ports + input.index()] += bytes;
    }

    /// Takes a free batch, not yet in a queue.
    #[inline(always)]
    fn take_free(&mut self) -> Option<u32> {
        let ix = self.free;
        let Some(batch) = self.batches.get(ix as usize) else { return self.take_new() };
        self.free = batch.next;
        Some(ix)
    }

    /// One that was never used, if there is any left.
    #[cold]
    fn take_new(&mut self) -> Option<u32> {
        let ix = self.batches.len();
        (ix < self.most).then(|| {
            self.batches.push(FrameBatch::new(&BatchHeader::NONE, 0));
            ix as u32
        })
    }

    #[inline(always)]
    fn put_free(&mut self, ix: u32) {
        if let Some(batch) = self.batches.get_mut(ix as usize) {
            batch.next = std::mem::replace(&mut self.free, ix);
        }
    }

    /// The last batch of a list, if it has room: see [`Queues::extend`].
    #[inline(always)]
    pub fn open(&mut self, list: &BatchList) -> Option<&mut FrameBatch<F>> {
        self.batches.get_mut(list.tail as usize).filter(|batch| batch.room() > 0)
    }

    /// Adds a batch to a list, which may be [`BatchList::NONE`], for frames that come when their queue has been held for so
    /// long, with the first of them.
    ///
    /// # Errors
    /// The frame, when no batch is free.
    #[inline(always)]
    pub fn extend(
        &mut self,
        list: &mut BatchList,
        header: &BatchHeader,
        held_ns: Nanos,
        first: F,
    ) -> Result<(), F> {
        let Some(ix) = self.take_free() else { return Err(first) };
        self.batches[ix as usize].begin(header, held_ns, first);
        match self.batches.get_mut(list.tail as usize) {
            Some(tail) => tail.next = ix,
            None => list.head = ix,
        }
        list.tail = ix;
        Ok(())
    }

    /// A list of one frame, which comes when its queue has been held for so long, and its totals: to be added to no more.
    ///
    /// # Errors
    /// The frame, when no batch is free.
    #[inline(always)]
    pub fn list_of(
        &mut self,
        header: &BatchHeader,
        held_ns: Nanos,
        frame: F,
        totals: BatchTotals,
    ) -> Result<BatchList, F> {
        let Some(ix) = self.take_free() else { return Err(frame) };
        self.batches[ix as usize].hold(header, held_ns, frame, totals);
        Ok(BatchList { head: ix, tail: ix })
    }

    /// Adds up the frames that were put into a list, each charged `charge_of(its length)`.
    #[inline(always)]
    pub fn seal(&mut self, list: &BatchList, charge_of: impl Fn(u32) -> u32) -> BatchTotals {
        let (mut totals, mut ix) = (BatchTotals::default(), list.head);
        while let Some(batch) = self.batches.get_mut(ix as usize) {
            batch.seal(&charge_of);
            totals.add(batch.totals());
            ix = batch.next;
        }
        totals
    }

    /// Looks at the frames of a list in order, each with its length and the code of its ECN bits, until `look` says no.
    #[inline(always)]
    pub fn each(&self, list: &BatchList, mut look: impl FnMut(&F, u16, EcnCode) -> bool) {
        let mut ix = list.head;
        while let Some(batch) = self.batches.get(ix as usize) {
            let code = batch.header().ecn;
            if !batch
                .held()
                .iter()
                .zip(batch.held_lens())
                .all(|(frame, len)| look(frame, *len, code.of(frame)))
            {
                return;
            }
            ix = batch.next;
        }
    }

    /// The frame at this place in a list.
    pub fn nth(&self, list: &BatchList, at: usize) -> Option<&F> {
        let some = |ix: u32| self.batches.get(ix as usize);
        let batches = std::iter::successors(some(list.head), |batch| some(batch.next));
        batches.flat_map(FrameBatch::held).nth(at)
    }

    /// Changes the frames of a list that is to be sealed again, each with the header of its batch; those that `edit` says no to are
    /// dropped.
    pub fn edit(&mut self, list: &mut BatchList, mut edit: impl FnMut(&mut F, &BatchHeader) -> bool) {
        let (mut kept, mut ix) = (BatchList::NONE, list.head);
        while let Some(batch) = self.batches.get_mut(ix as usize) {
            let (this, next) = (ix, std::mem::replace(&mut batch.next, NIL));
            let header = batch.header();
            batch.edit(|frame| edit(frame, &header));
            if batch.is_empty() {
                self.put_free(this);
            } else {
                match self.batches.get_mut(kept.tail as usize) {
                    Some(tail) => tail.next = this,
                    None => kept.head = this,
                }
                kept.tail = this;
            }
            ix = next;
        }
        *list = kept;
    }

    /// Takes the first frame of a list out again; batches that are empty are free.
    pub fn unlist(&mut self, list: &mut BatchList, charge_of: impl Fn(u32) -> u32) -> Option<(F, Meta)> {
        loop {
            let batch = self.batches.get_mut(list.head as usize)?;
            if let Some(first) = batch.pop(&charge_of) {
                return Some(first);
            }
            let next = batch.next;
            self.put_free(list.head);
            list.head = next;
        }
    }

    /// Drops all frames of a list.
    pub fn discard(&mut self, list: &mut BatchList) {
        while self.take_first(list, FrameBatch::clear).is_some() {}
    }

    /// Drops what is left in the first batch of a list if all of it is `len` long. Number of frames.
    pub fn discard_first(&mut self, list: &BatchList, len: u16) -> usize {
        self.batches.get_mut(list.head as usize).and_then(|batch| batch.discard(len)).unwrap_or(0)
    }

    /// The first batch of a list.
    #[inline(always)]
    pub fn first_mut(&mut self, list: &BatchList) -> Option<&mut FrameBatch<F>> {
        self.batches.get_mut(list.head as usize)
    }

    /// The first batch of a list if all of it is `len` long: what [`Queues::discard_first`] drops.
    pub fn first_alike(&self, list: &BatchList, len: u16) -> Option<&FrameBatch<F>> {
        self.batches.get(list.head as usize).filter(|batch| batch.is_of(len))
    }

    /// Takes the first batch of a list out: `empty` takes all its frames.
    #[inline(always)]
    pub fn take_first<T>(
        &mut self,
        list: &mut BatchList,
        empty: impl FnOnce(&mut FrameBatch<F>) -> T,
    ) -> Option<T> {
        let batch = self.batches.get_mut(list.head as usize)?;
        let taken = empty(batch);
        debug_assert!(batch.is_empty());
        let next = batch.next;
        self.put_free(list.head);
        list.head = next;
        Some(taken)
    }

    /// Appends the frames of a list, all from `input`, which are `totals`. Returns `true` if the queue was
    /// empty before.
    #[inline(always)]
    pub fn append(
        &mut self,
        input: PortId,
        out: PortId,
        queue: usize,
        list: &BatchList,
        totals: BatchTotals,
    ) -> bool {
        self.held += totals.frames;
        let bytes = u64::from(totals.bytes);
        let queue_ix = out.index() * PRIORITIES + queue;
        let first_voq = queue_ix * self.ports;
        let own = first_voq + input.index();
        let voq_ix = if self.order == VoqOrder::Fair { own } else { first_voq };
        self.voqs[own].bytes += bytes;
        self.carried[out.index() * self.ports + input.index()] += bytes;
        let active = &mut self.active[queue_ix];
        active.bytes += bytes;
        active.frames += totals.frames;
        let was_empty = active.first == NIL;
        let voq = &mut self.voqs[voq_ix];
        let tail = std::mem::replace(&mut voq.tail, list.tail);
        if voq.head == NIL {
            voq.head = list.head;
            voq.next = NIL;
            let last = std::mem::replace(&mut active.last, voq_ix as u32);
            if was_empty {
                active.first = voq_ix as u32;
                self.occupied[out.index()] |= 1 << queue;
            } else {
                self.voqs[last as usize].next = voq_ix as u32;
            }
        } else {
            self.batches[tail as usize].next = list.head;
        }
        was_empty
    }

    /// Appends a frame that is charged `charge`, to the last batch unless it is to be `alone`. Returns `true` if the queue was
    /// empty before.
    ///
    /// # Errors
    /// The frame, when no batch is free.
    pub fn push(&mut self, out: PortId, frame: F, meta: &Meta, charge: u32, alone: bool) -> Result<bool, F> {
        let (input, queue, header) =
            (PortId(meta.header.in_port), usize::from(meta.header.queue), meta.header);
        let len = meta.len;
        let queue_ix = out.index() * PRIORITIES + queue;
        let own = queue_ix * self.ports + input.index();
        let voq = if self.order == VoqOrder::Fair { own } else { queue_ix * self.ports };
        let Voq { head, tail, .. } = self.voqs[voq];
        let last = self
            .batches
            .get_mut(tail as usize)
            .filter(|batch| head != NIL && !alone && batch.has_room_for(&header, meta.held_ns));
        if let Some(batch) = last {
            batch.add(frame, charge)?;
            self.held += 1;
            self.voqs[own].bytes += u64::from(len);
            self.carried[out.index() * self.ports + input.index()] += u64::from(len);
            self.active[queue_ix].bytes += u64::from(len);
            self.active[queue_ix].frames += 1;
            return Ok(false);
        }
        let totals = BatchTotals { frames: 1, bytes: len.into(), charge };
        let list = self.list_of(&header, meta.held_ns, frame, totals)?;
        Ok(self.append(input, out, queue, &list, totals))
    }

    /// A list of one batch with frames of another lcore, for a queue that has been held for so long. They stay in their buffer.
    ///
    /// # Errors
    /// The request, when no batch is free.
    #[inline(always)]
    pub fn list_request(
        &mut self,
        request: EnqueueRequest<F>,
        held_ns: Nanos,
    ) -> Result<BatchList, EnqueueRequest<F>> {
        let Some(ix) = self.take_free() else { return Err(request) };
        self.batches[ix as usize].receive(request, held_ns);
        Ok(BatchList { head: ix, tail: ix })
    }

    /// The batch from which a queue sends next, and how the queue stands.
    #[inline(always)]
    pub fn front(&self, out: PortId, queue: usize) -> Option<(u32, Standing)> {
        let active = &self.active[out.index() * PRIORITIES + queue];
        let voq = self.voqs.get(active.first as usize)?;
        let standing = Standing { alone: voq.next == NIL, depth: active.bytes, held_ns: active.held_ns };
        Some((voq.head, standing))
    }

    /// The frames that a queue sends next are sent by the lcore they came from.
    #[inline(always)]
    pub fn is_sent_elsewhere(&self, out: PortId, queue: usize) -> bool {
        let batch = self.front(out, queue).and_then(|(ix, _)| self.batches.get(ix as usize));
        batch.is_some_and(|batch| batch.header().home != BatchHeader::HERE)
    }

    /// Batches of a queue.
    #[cfg(test)]
    pub fn batches(&self, out: PortId, queue: usize) -> usize {
        let first = self.active[out.index() * PRIORITIES + queue].first;
        let voqs =
            std::iter::successors(self.voqs.get(first as usize), |voq| self.voqs.get(voq.next as usize));
        let next = |batch: &&FrameBatch<F>| self.batches.get(batch.next as usize);
        let batches = |voq: &Voq| std::iter::successors(self.batches.get(voq.head as usize), next).count();
        voqs.map(batches).sum()
    }

    /// A batch, as [`Queues::front`] names it.
    #[inline(always)]
    pub fn batch_mut(&mut self, ix: u32) -> Option<&mut FrameBatch<F>> {
        self.batches.get_mut(ix as usize)
    }

    /// Frames have left the batch at the front of a queue. An empty batch is free; the VOQ goes behind the others.
    #[inline(always)]
    pub fn left(&mut self, out: PortId, queue: usize, totals: BatchTotals) {
        self.shrink(out, queue, totals.frames, totals.bytes);
        self.turn_ends(out, queue, totals.bytes);
    }

    /// Frames have left a queue.
    #[inline(always)]
    pub fn shrink(&mut self, out: PortId, queue: usize, frames: u32, bytes: u32) {
        let active = &mut self.active[out.index() * PRIORITIES + queue];
        self.held -= frames;
        active.bytes -= u64::from(bytes);
        active.frames -= frames;
    }

    /// The VOQ whose turn it is.
    #[inline(always)]
    pub fn turn(&mut self, out: PortId, queue: usize) -> Option<VoqTurn<'_, F>> {
        let voq = self.voqs.get_mut(self.active[out.index() * PRIORITIES + queue].first as usize)?;
        let batch = self.batches.get_mut(voq.head as usize)?;
        Some(VoqTurn { batch, lane: &mut voq.lane, alone: voq.next == NIL })
    }

    /// The VOQ whose turn it is has it: `take` takes frames of the batch at its front, counts them in the lane, and says how many
    /// bytes of the batch are accounted for, or that the VOQ is to have no turn. [`Queues::shrink`] and, at last,
    /// [`Queues::close_lanes`] are to hear of what has left.
    #[inline(always)]
    pub fn serve(
        &mut self,
        out: PortId,
        queue: usize,
        take: impl FnOnce(VoqTurn<'_, F>) -> Option<u32>,
    ) -> bool {
        let active = &mut self.active[out.index() * PRIORITIES + queue];
        let (ix, last) = (active.first, active.last);
        let Some(voq) = self.voqs.get_mut(ix as usize) else { return false };
        let Some(batch) = self.batches.get_mut(voq.head as usize) else { return false };
        let next = voq.next;
        let turn = VoqTurn { batch, lane: &mut voq.lane, alone: next == NIL };
        let Some(accounted) = take(turn) else { return false };
        if batch.is_empty() || accounted > 0 {
            self.turn_ends(out, queue, accounted);
        } else if next != NIL {
            voq.next = NIL;
            (active.first, active.last) = (next, ix);
            self.voqs[last as usize].next = ix;
        }
        true
    }

    /// `each` is told the entry of every lane of a queue, and what has left by it.
    pub fn close_lanes(
        &mut self,
        out: PortId,
        queue: usize,
        charge_of: impl Fn(u32) -> u32,
        mut each: impl FnMut(Lane, BatchTotals),
    ) {
        let first_voq = (out.index() * PRIORITIES + queue) * self.ports;
        let mut ix = self.active[out.index() * PRIORITIES + queue].first;
        while let Some(voq) = self.voqs.get_mut(ix as usize) {
            ix = voq.next;
            let lane = std::mem::take(&mut voq.lane);
            if lane.gone > 0
                && let Some(batch) = self.batches.get_mut(voq.head as usize)
            {
                let gone = batch.some_popped(lane.gone.into(), lane.ce.into(), &charge_of);
                let own = first_voq + usize::from(batch.header().in_port);
                self.voqs[own].bytes -= u64::from(gone.bytes);
                each(lane, gone);
            }
        }
    }

    /// The turn of a VOQ is over, of which so many bytes are accounted for. An empty batch is free; the VOQ goes behind the others.
    #[inline]
    pub fn turn_ends(&mut self, out: PortId, queue: usize, bytes: u32) {
        let queue_ix = out.index() * PRIORITIES + queue;
        let active = &mut self.active[queue_ix];
        let voq_ix = active.first;
        let Some(voq) = self.voqs.get_mut(voq_ix as usize) else { return };
        let Some(batch) = self.batches.get_mut(voq.head as usize) else { return };
        let (input, next_voq) = (batch.header().in_port, voq.next);
        if batch.is_empty() {
            voq.lane = Lane::default();
            let next = std::mem::replace(&mut batch.next, self.free);
            self.free = std::mem::replace(&mut voq.head, next);
        }
        // A VOQ that has been served goes behind the others; an empty one leaves the turn.
        let empty = voq.head == NIL;
        if empty || next_voq != NIL {
            active.first = next_voq;
            voq.next = NIL;
            if next_voq == NIL {
                active.last = NIL;
                self.occupied[out.index()] &= !(1 << queue);
            } else if !empty {
                let last = std::mem::replace(&mut active.last, voq_ix);
                self.voqs[last as usize].next = voq_ix;
            }
        }
        self.voqs[queue_ix * self.ports + usize::from(input)].bytes -= u64::from(bytes);
    }

    /// Takes the next frame of a queue, which was charged `charge_of(its length)`. `empty` gets the buffer it came in, if
    /// that is empty now, and the port it came from.
    pub fn pop(
        &mut self,
        out: PortId,
        queue: usize,
        charge_of: impl FnOnce(u32) -> u32,
        empty: impl FnOnce(PortId, BatchBuffer<F>),
    ) -> Option<(F, Meta)> {
        let (ix, _) = self.front(out, queue)?;
        let batch = self.batches.get_mut(ix as usize)?;
        if let Some(buffer) = batch.open() {
            empty(PortId(batch.header().in_port), buffer);
        }
        let (frame, meta) = batch.pop(charge_of)?;
        self.left(out, queue, BatchTotals { frames: 1, bytes: u32::from(meta.len), charge: 0 });
        Some((frame, meta))
    }

    /// When the frame that [`Queues::pop`] would return was received.
    pub fn head_since(&self, out: PortId, queue: usize) -> Option<Nanos> {
        let voq = self.voqs.get(self.active[out.index() * PRIORITIES + queue].first as usize)?;
        self.batches.get(voq.head as usize).map(|batch| batch.header().rx_ns)
    }

    /// A frame that waits in a queue, chosen by a random number among those in front and those that came last, and the port it
    /// came in by; of one `input` if that is given. A few steps, however many wait.
    pub fn some_frame(
        &self,
        out: PortId,
        queue: usize,
        input: Option<PortId>,
        random: u32,
    ) -> Option<(&F, PortId)> {
        /// Most VOQs and batches that are passed.
        const STEPS: u32 = 8;
        let queue_ix = out.index() * PRIORITIES + queue;
        let first_voq = queue_ix * self.ports;
        let voq = match (self.order, input) {
            (VoqOrder::Fifo, _) => self.voqs[first_voq],
            (VoqOrder::Fair, Some(input)) => self.voqs[first_voq + input.index()],
            (VoqOrder::Fair, None) => self.some_voq(queue_ix, random >> 16)?,
        };
        let is_wanted = |batch: &FrameBatch<F>| {
            !batch.is_empty() && input.is_none_or(|input| batch.header().in_port == input.0)
        };
        let mut ix = if random & 1 == 0 { voq.head } else { voq.tail };
        let (mut found, mut steps) = (None, random >> 1 & (STEPS - 1));
        // Where the one in so many places does not exist or is not wanted, the last that is.
        while voq.head != NIL
            && let Some(batch) = self.batches.get(ix as usize)
        {
            found = Some(batch).filter(|batch| is_wanted(batch)).or(found);
            let Some(left) = steps.checked_sub(1) else { break };
            (steps, ix) = (left, batch.next);
        }
        let batch = found?;
        let frame = batch.any((random >> 8) as usize % batch.len())?;
        Some((frame, PortId(batch.header().in_port)))
    }

    /// One of the VOQs of a queue whose turn comes next, by their bytes.
    fn some_voq(&self, queue_ix: usize, random: u32) -> Option<Voq> {
        const STEPS: usize = 16;
        let next =
            |voq: &(usize, Voq)| self.voqs.get(voq.1.next as usize).map(|next| (voq.1.next as usize, *next));
        let first = self.active[queue_ix].first as usize;
        let first = self.voqs.get(first).map(|voq| (first, *voq));
        let waiting = || std::iter::successors(first, next).take(STEPS).map(|(_, voq)| voq);
        let bytes: u64 = waiting().map(|voq| voq.bytes).sum();
        let mut at = (bytes * u64::from(random & 0xffff)) >> 16;
        waiting().find(|voq| {
            let here = at < voq.bytes;
            at = at.saturating_sub(voq.bytes);
            here
        })
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
    use super::super::batch::BATCH_MAX;
    use super::super::numbered::Numbered;
    use super::*;

    /// Bytes are charged as they are.
    fn same(len: u32) -> u32 {
        len
    }

    fn meta(in_port: u16, queue: u8, len: u16) -> Meta {
        BatchHeader { in_port, queue, ..BatchHeader::NONE }.meta(len, 0)
    }

    /// Queues frame `n` of `len` bytes for queue `queue` of `out`.
    fn push(
        q: &mut Queues<Numbered>,
        out: u16,
        n: usize,
        (input, queue, len): (u16, u8, u16),
    ) -> Result<bool, Numbered> {
        q.push(PortId(out), Numbered::new(n, len), &meta(input, queue, len), u32::from(len), false)
    }

    #[test]
    fn e8_order_is_kept_within_an_input() {
        let mut q = Queues::new(4, 16, VoqOrder::Fair);
        let out = PortId(3);
        for n in 0..4 {
            for input in 0..3 {
                let was_empty = push(&mut q, 3, usize::from(input) * 100 + n, (input, 5, 64)).unwrap();
                assert_eq!(was_empty, n == 0 && input == 0);
            }
        }
        let order: Vec<_> = std::iter::from_fn(|| q.pop(out, 5, same, |_, _| ())).map(|(f, _)| f.n).collect();
        assert_eq!(order, [0, 100, 200, 1, 101, 201, 2, 102, 202, 3, 103, 203]);
        assert_eq!((q.held(), q.occupied(out), q.bytes(out, 5)), (0, 0, 0));
    }

    #[test]
    fn fair_turns_shield_a_light_input_and_fifo_does_not() {
        for (order, place) in [(VoqOrder::Fair, 1), (VoqOrder::Fifo, 8)] {
            let mut q = Queues::new(2, 16, order);
            const LIGHT: usize = 8;
            for heavy in 0..LIGHT {
                push(&mut q, 0, heavy, (0, 0, 64)).unwrap();
            }
            push(&mut q, 0, LIGHT, (1, 0, 64)).unwrap();
            let order: Vec<_> =
                std::iter::from_fn(|| q.pop(PortId(0), 0, same, |_, _| ())).map(|(f, _)| f.n).collect();
            assert_eq!(order.iter().position(|n| *n == LIGHT), Some(place));
        }
    }

    #[test]
    fn a_full_slab_gives_the_frame_back() {
        let mut q = Queues::new(2, 2, VoqOrder::Fair);
        push(&mut q, 0, 1, (1, 0, 64)).unwrap();
        push(&mut q, 1, 2, (0, 7, 64)).unwrap();
        assert!(!q.has_room());
        assert_eq!(push(&mut q, 0, 3, (1, 1, 64)), Err(Numbered::new(3, 64)));
        assert_eq!(q.pop(PortId(1), 7, same, |_, _| ()).unwrap().0.n, 2);
        assert!(push(&mut q, 0, 3, (1, 1, 64)).is_ok());
        assert_eq!(q.held(), 2);
    }

    #[test]
    fn the_fullest_queue_of_an_input_is_named() {
        let mut q = Queues::new(3, 8, VoqOrder::Fifo);
        push(&mut q, 1, 0, (0, 3, 100)).unwrap();
        push(&mut q, 2, 0, (0, 3, 300)).unwrap();
        push(&mut q, 1, 0, (2, 3, 900)).unwrap();
        assert_eq!(q.fullest(PortId(0), 1 << 3), Some((PortId(2), 3)));
        assert_eq!(q.fullest(PortId(1), 0xff), None);
    }

    #[test]
    fn frames_of_a_kind_share_a_batch_and_batches_keep_their_order() {
        for order in [VoqOrder::Fair, VoqOrder::Fifo] {
            let mut q = Queues::new(2, 4, order);
            let out = PortId(1);
            let mut list = BatchList::NONE;
            const ALL: usize = BATCH_MAX + 4;
            for frame in (0..ALL).map(|n| Numbered::new(n, 60)) {
                match q.open(&list) {
                    Some(batch) => batch.put(frame),
                    None => q.extend(&mut list, &meta(0, 2, 60).header, 0, frame).unwrap(),
                }
            }
            let totals = q.seal(&list, same);
            assert_eq!(
                totals,
                BatchTotals { frames: ALL as u32, bytes: 60 * ALL as u32, charge: 60 * ALL as u32 }
            );
            assert!(q.append(PortId(0), out, 2, &list, totals));
            // One more joins the second batch, the second input gets a batch of its own.
            assert_eq!(push(&mut q, 1, ALL, (0, 2, 100)), Ok(false));
            let mut packed = FrameBatch::new(&meta(1, 2, 60).header, 0);
            const OTHER: usize = 99;
            packed.add(Numbered::new(OTHER, 60), 60).unwrap();
            let totals = packed.totals();
            let request = packed.ship(out, BatchHeader::HERE, BatchBuffer::default());
            let list = q.list_request(request, 0).unwrap();
            assert!(!q.append(PortId(1), out, 2, &list, totals));
            let (frames, depth) = (ALL as u32 + 2, 60 * ALL as u64 + 160);
            assert_eq!((q.held(), q.frames(out, 2), q.bytes(out, 2)), (frames, frames, depth));
            assert_eq!((q.bytes_from(PortId(0), out, 2), q.bytes_from(PortId(1), out, 2)), (depth - 60, 60));
            let fair = order == VoqOrder::Fair;
            let (ix, standing) = q.front(out, 2).unwrap();
            assert_eq!(standing, Standing { alone: !fair, depth, held_ns: 0 });
            assert_eq!(q.batch_mut(ix).map(|batch| batch.len()), Some(BATCH_MAX));
            let mut buffers = 0;
            let mut pop = |q: &mut Queues<Numbered>| q.pop(out, 2, same, |from, _| buffers += from.index());
            assert_eq!(pop(&mut q).map(|(f, _)| f.n), Some(0));
            assert_eq!(pop(&mut q).map(|(f, _)| f.n), Some(if fair { OTHER } else { 1 }));
            // Now one input is left, or order does not ask: batches leave as they are.
            let mut rest = Vec::new();
            while let Some((ix, standing)) = q.front(out, 2) {
                assert!(standing.alone);
                let batch = q.batch_mut(ix).unwrap();
                buffers += usize::from(batch.open().is_some());
                let totals = batch.totals();
                rest.extend(std::iter::from_fn(|| batch.pop(same)).map(|(frame, _)| frame.n));
                q.left(out, 2, totals);
            }
            let all: Vec<_> = if fair { (1..=ALL).collect() } else { (2..=ALL).chain([OTHER]).collect() };
            assert_eq!((rest, buffers), (all, 1));
            assert_eq!((q.held(), q.occupied(out), q.bytes(out, 2)), (0, 0, 0));
            assert_eq!((q.bytes_from(PortId(0), out, 2), q.bytes_from(PortId(1), out, 2)), (0, 0));
            // All four batches are free again.
            for n in 0..4 {
                push(&mut q, 1, n, (0, n as u8, 60)).unwrap();
            }
        }
    }

    #[test]
    fn what_was_carried_is_never_forgotten() {
        let mut q = Queues::new(3, 8, VoqOrder::Fair);
        for (out, input, len) in [(1, 0, 100), (1, 0, 50), (1, 2, 7), (2, 0, 9)] {
            push(&mut q, out, 0, (input, 3, len)).unwrap();
        }
        while q.pop(PortId(1), 3, same, |_, _| ()).is_some() {}
        assert_eq!((q.carried(PortId(1)), q.carried(PortId(2))), (&[150, 0, 7][..], &[9, 0, 0][..]));
    }
}
