//! Frames that were received together for one queue and are accounted for together.
//!
//! Frames of a burst that share port, priority group and queue go through the switch as batches of up to
//! [`BATCH_MAX`]: what they have in common is written, compared, charged and released once for all of them.

use super::header::{BatchHeader, Meta};
use super::request::{BatchBuffer, EnqueueRequest, RequestFrames};
use super::totals::{BatchTotals, Front, Limits};
use crate::frame::{Frame, FrameList, FrameRow};
use crate::parse::EcnCode;
use crate::types::{MIN_FRAME_BYTES, Nanos, PortId, WIRE_OVERHEAD_BYTES, wire_bytes};

/// Most frames of a batch: a batch of handles is eleven cache lines, of which a short one uses three.
pub const BATCH_MAX: usize = 64;

const _: () = {
    assert!(BATCH_MAX <= u8::MAX as usize, "a batch counts the frames in its buffer in an octet");
    assert!(BATCH_MAX * MIN_FRAME_BYTES as usize <= u16::MAX as usize, "and their padding in two");
};

/// As many frames of one length are taken as cheaply one by one as together.
const FEW: u64 = 4;

/// Frames, up to [`BATCH_MAX`] or fewer ([`Frame::Row`]), and what they add up to.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct FrameBatch<F: Frame> {
    rx_ns: Nanos,
    /// How long their queue had been held by received pauses when they came to it.
    held_ns: Nanos,
    /// The batch behind this one, in a list, a queue or the list of free ones.
    pub(super) next: u32,
    copies: u32,
    bytes: u32,
    charge: u32,
    /// Bytes by which frames are too short for the wire.
    padding: u16,
    pg: u16,
    in_port: u16,
    ecn: BatchEcn,
    /// Length of each frame if `mixed` is 0: the bits in which lengths differ.
    len: u16,
    mixed: u16,
    queue: u8,
    home: u8,
    /// Frames in the buffer.
    in_buffer: u8,
    /// The last frame stands first: so that the first ones can be taken without moving the others up.
    reversed: bool,
    frames: F::Row,
    /// The frames are in here, in memory of another lcore, until one of them is looked at.
    buffer: Option<BatchBuffer<F>>,
}

/// Where the ECN bits of the frames of a batch are, and how many of them came in as CE, in two octets: a code, and the number
/// above it.
#[derive(Clone, Copy, Debug)]
struct BatchEcn(u16);

const _: () =
    assert!((BATCH_MAX as u32) < 1 << (u16::BITS - EcnCode::BITS), "all frames of a batch may be CE");

impl BatchEcn {
    #[inline(always)]
    fn new(code: EcnCode, ce: u8) -> Self {
        Self(code.bits() | u16::from(ce) << EcnCode::BITS)
    }

    /// That of every frame, or [`EcnCode::EACH`].
    #[inline(always)]
    fn code(self) -> EcnCode {
        EcnCode::from_bits(self.0)
    }

    #[inline(always)]
    fn ce(self) -> u8 {
        (self.0 >> EcnCode::BITS) as u8
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    First,
    Last,
}

impl<F: Frame> FrameBatch<F> {
    /// No frames yet.
    #[inline(always)]
    pub fn new(header: &BatchHeader, held_ns: Nanos) -> Self {
        Self {
            rx_ns: header.rx_ns,
            held_ns,
            next: u32::MAX,
            copies: header.copies,
            bytes: 0,
            padding: 0,
            charge: 0,
            pg: header.pg,
            in_port: header.in_port,
            queue: header.queue,
            ecn: BatchEcn::new(header.ecn, 0),
            home: header.home,
            in_buffer: 0,
            reversed: false,
            len: 0,
            mixed: 0,
            frames: F::Row::default(),
            buffer: None,
        }
    }

    /// Makes an empty batch one of this header, the last of its list, that begins with this frame.
    #[inline(always)]
    pub(super) fn begin(&mut self, header: &BatchHeader, held_ns: Nanos, first: F) {
        self.become_last(header, held_ns);
        (self.bytes, self.padding, self.charge) = (0, 0, 0);
        (self.len, self.mixed) = (first.len() as u16, 0);
        self.frames.push(first, self.len);
    }

    /// Makes an empty batch one of this header, the last of its list, with this frame and what it comes to.
    #[inline(always)]
    pub(super) fn hold(&mut self, header: &BatchHeader, held_ns: Nanos, frame: F, totals: BatchTotals) {
        self.become_last(header, held_ns);
        let len = totals.bytes as u16;
        (self.bytes, self.padding, self.charge) = (totals.bytes, padding(len), totals.charge);
        (self.len, self.mixed) = (len, 0);
        self.set_ce(header.ecn.of(&frame).is_ce().into());
        self.frames.push(frame, len);
    }

    /// Makes an empty batch one of this header, the last of its list.
    #[inline(always)]
    fn become_last(&mut self, header: &BatchHeader, held_ns: Nanos) {
        debug_assert!(self.is_empty());
        (self.rx_ns, self.held_ns) = (header.rx_ns, held_ns);
        self.next = u32::MAX;
        self.copies = header.copies;
        (self.pg, self.in_port, self.queue) = (header.pg, header.in_port, header.queue);
        (self.ecn, self.home, self.reversed) = (BatchEcn::new(header.ecn, 0), header.home, false);
    }

    /// Makes an empty batch what a request says, the last of its list, with its frames where they are.
    #[inline(always)]
    pub(super) fn receive(&mut self, request: EnqueueRequest<F>, held_ns: Nanos) {
        let EnqueueRequest { header, totals, padding, len, mixed, ce, frames, .. } = request;
        self.become_last(&header, held_ns);
        self.set_ce(ce);
        (self.bytes, self.padding, self.charge) = (totals.bytes, padding, totals.charge);
        (self.len, self.mixed) = (len, mixed);
        match frames {
            RequestFrames::One(frame) => self.frames.push(frame, len),
            RequestFrames::BatchBuffer(buffer) => {
                (self.in_buffer, self.buffer) = (totals.frames as u8, Some(buffer))
            }
        }
    }

    /// Puts all its frames into a buffer, for `out`. The batch is empty then.
    #[inline(always)]
    pub fn ship(&mut self, out: PortId, home: u8, mut buffer: BatchBuffer<F>) -> EnqueueRequest<F> {
        let (totals, header) = (self.totals(), BatchHeader { home, ..self.header() });
        self.frames.move_to(&mut buffer);
        let (padding, len, mixed, ce) = (self.padding, self.len, self.mixed, self.ecn.ce());
        let frames = RequestFrames::BatchBuffer(buffer);
        EnqueueRequest { out, header, totals, padding, len, mixed, ce, frames }
    }

    /// Takes the frames out of their buffer, if they are in one, and gives that back.
    #[inline(always)]
    pub fn open(&mut self) -> Option<BatchBuffer<F>> {
        if self.in_buffer == 0 {
            return None;
        }
        let mut buffer = self.buffer.take()?;
        self.in_buffer = 0;
        self.frames.move_from(&mut buffer);
        Some(buffer)
    }

    /// Puts the frames of an open batch back into the buffer that they came in.
    pub fn close(&mut self, mut buffer: BatchBuffer<F>) {
        self.frames.move_to(&mut buffer);
        (self.in_buffer, self.buffer) = (buffer.len() as u8, Some(buffer));
    }

    /// Takes the whole buffer, as it is.
    #[inline(always)]
    pub fn take_buffer(&mut self) -> Option<BatchBuffer<F>> {
        self.in_buffer = 0;
        self.buffer.take()
    }

    /// Adds a frame behind the others, charged `charge`.
    ///
    /// # Errors
    /// The frame, when the batch is full.
    #[inline(always)]
    pub fn add(&mut self, frame: F, charge: u32) -> Result<(), F> {
        if self.room() == 0 {
            return Err(frame);
        }
        let len = frame.len() as u16;
        if self.frames.is_empty() {
            (self.len, self.mixed) = (len, 0);
        }
        self.bytes += u32::from(len);
        self.padding += padding(len);
        self.charge += charge;
        self.set_ce(self.ecn.ce() + u8::from(self.ecn.code().of(&frame).is_ce()));
        self.put(frame);
        Ok(())
    }

    #[inline(always)]
    fn set_ce(&mut self, frames: u8) {
        self.ecn = BatchEcn::new(self.ecn.code(), frames);
    }

    /// [`FrameBatch::put`] of a frame that may have another [`EcnCode`] than those before it.
    #[inline(always)]
    pub fn put_among(&mut self, mut frame: F, ecn: EcnCode) {
        if self.ecn.code() != EcnCode::EACH {
            let code = self.ecn.code();
            self.frames.frames_mut().iter_mut().for_each(|frame| frame.set_ecn(code));
            self.ecn = BatchEcn::new(EcnCode::EACH, 0);
        }
        frame.set_ecn(ecn);
        self.put(frame);
    }

    /// Adds a frame behind others, for which there is room. It counts in no sum before [`FrameBatch::seal`].
    #[inline(always)]
    pub fn put(&mut self, frame: F) {
        let len = frame.len() as u16;
        self.mixed |= len ^ self.len;
        self.frames.push(frame, len);
    }

    /// Changes the frames, one after the other, in an open batch that is not yet sealed; those that `edit` says no to are
    /// dropped.
    pub(super) fn edit(&mut self, edit: impl FnMut(&mut F) -> bool) {
        debug_assert!(self.buffer.is_none() && !self.reversed);
        self.frames.retain(edit);
        self.len = self.frames.lens().first().copied().unwrap_or_default();
        self.mixed = self.frames.lens().iter().fold(0, |mixed, len| mixed | len ^ self.len);
    }

    /// Adds up all frames, each charged `charge_of(its length)`.
    #[inline(always)]
    pub fn seal(&mut self, charge_of: impl Fn(u32) -> u32) {
        let count = self.frames.len();
        self.set_ce(match self.ecn.code() {
            EcnCode::EACH => self.count_ce(count) as u8,
            all => count as u8 * u8::from(all.is_ce()),
        });
        (self.bytes, self.padding, self.charge) = match self.mixed {
            0 => {
                let (count, len) = (self.frames.len() as u32, u32::from(self.len));
                (count * len, count as u16 * padding(self.len), count * charge_of(len))
            }
            _ => self.frames.lens().iter().fold((0, 0, 0), |(bytes, padded, charge), &len| {
                let padded = padded + padding(len);
                let len = u32::from(len);
                (bytes + len, padded, charge + charge_of(len))
            }),
        };
    }

    /// Takes the first frame of an open batch, which was charged `charge_of(its length)`.
    #[inline]
    pub fn pop(&mut self, charge_of: impl FnOnce(u32) -> u32) -> Option<(F, Meta)> {
        debug_assert!(self.buffer.is_none());
        self.reverse();
        let (frame, len) = self.frames.pop()?;
        self.bytes -= u32::from(len);
        self.padding -= padding(len);
        self.charge -= charge_of(u32::from(len));
        let header = self.header();
        let meta = BatchHeader { ecn: header.ecn.of(&frame), ..header }.meta(len, self.held_ns);
        self.set_ce(self.ecn.ce() - u8::from(meta.header.is_ce()));
        self.skip_copies(1);
        Some((frame, meta))
    }

    /// Drops all frames of an open batch, and says how many. `None`: not all of them are `len` long, and none is dropped.
    pub fn discard(&mut self, len: u16) -> Option<usize> {
        self.is_of(len).then(|| self.clear())
    }

    /// Drops all frames of an open batch, and says how many.
    pub fn clear(&mut self) -> usize {
        debug_assert!(self.buffer.is_none());
        let count = self.frames.len();
        self.frames.discard();
        (self.bytes, self.padding, self.charge) = (0, 0, 0);
        self.set_ce(0);
        count
    }

    /// How many of the first ones came in as CE.
    #[inline(always)]
    fn ce_among(&self, first: u32) -> u32 {
        match self.ecn.ce().into() {
            0 => 0,
            all if all == self.len() => first,
            _ => self.count_ce(first as usize),
        }
    }

    #[cold]
    #[inline(never)]
    fn count_ce(&self, first: usize) -> u32 {
        let frames = self.held();
        let (code, count) = (self.ecn.code(), first.min(frames.len()));
        let first = if self.reversed { &frames[frames.len() - count..] } else { &frames[..count] };
        first.iter().map(|frame| u32::from(code.of(frame).is_ce())).sum()
    }

    /// The frames from the front that may go one after the other within `limits`. They are charged `charge_of(length of each)`.
    #[inline(always)]
    pub fn front(&self, limits: Limits, charge_of: impl Fn(u32) -> u32) -> Front {
        let all = u64::from(self.bytes + u32::from(self.padding)) + self.len() as u64 * WIRE_OVERHEAD_BYTES;
        if self.len() <= limits.frames && limits.goes_on(all) {
            let last = wire_bytes(u64::from(self.len_of(End::Last)));
            return Front { totals: self.totals(), wire: all, last, ce: self.ecn.ce().into() };
        }
        match self.mixed {
            0 => self.front_of_one_length(limits, charge_of),
            _ => self.front_of_mixed(limits, charge_of),
        }
    }

    #[inline(always)]
    fn front_of_one_length(&self, limits: Limits, charge_of: impl Fn(u32) -> u32) -> Front {
        let (len, last) = (u32::from(self.len), wire_bytes(u64::from(self.len)));
        // A batch has fewer bytes than 2^32.
        let begin = (limits.wire.min(u32::MAX.into()) as u32).div_ceil(last as u32).max(1);
        let frames = begin.min(self.len().min(limits.frames) as u32);
        let totals = BatchTotals { frames, bytes: frames * len, charge: frames * charge_of(len) };
        Front { totals, wire: u64::from(frames) * last, last, ce: self.ce_among(frames) }
    }

    #[inline(always)]
    fn front_of_mixed(&self, limits: Limits, charge_of: impl Fn(u32) -> u32) -> Front {
        let mut front = Front::default();
        let mut add = |&len: &u16| {
            if front.totals.frames > 0 && !limits.goes_on(front.wire) {
                return false;
            }
            front.add(u32::from(len), charge_of(u32::from(len)));
            true
        };
        let lens = self.held_lens();
        if self.reversed {
            let _ = lens.iter().rev().take(limits.frames).all(&mut add);
        } else {
            let _ = lens.iter().take(limits.frames).all(&mut add);
        }
        front.ce = self.ce_among(front.totals.frames);
        front
    }

    /// A turn of so many bytes on the wire takes a few frames, or some that have to be looked at one by one.
    #[inline(always)]
    pub fn goes_by_few(&self, turn: u64) -> bool {
        self.mixed != 0 || FEW * wire_bytes(u64::from(self.len)) > turn
    }

    /// No frame of it has more bytes on the wire: all bits in which lengths differ are taken for set.
    #[inline(always)]
    pub fn longest_wire(&self) -> u64 {
        wire_bytes(u64::from(self.len | self.mixed))
    }

    /// Turns an open batch round, for [`FrameBatch::pop_unaccounted`].
    #[inline(always)]
    pub fn reverse(&mut self) {
        if !std::mem::replace(&mut self.reversed, true) {
            self.frames.reverse();
        }
    }

    /// The next frame of a batch that was turned round, and its length. It counts among the others until [`FrameBatch::some_popped`]
    /// or [`FrameBatch::all_popped`] says otherwise.
    #[inline(always)]
    pub fn pop_unaccounted(&mut self) -> Option<(F, u16)> {
        debug_assert!(self.reversed);
        self.frames.pop()
    }

    /// What these frames were, which were all and are popped: they count no longer.
    #[inline(always)]
    pub fn all_popped(&mut self, frames: u32) -> BatchTotals {
        debug_assert!(self.is_empty());
        self.skip_copies(frames);
        let (bytes, charge) = (std::mem::take(&mut self.bytes), std::mem::take(&mut self.charge));
        self.padding = 0;
        self.set_ce(0);
        BatchTotals { frames, bytes, charge }
    }

    /// What the frames were that were popped last, `ce` of which came in as CE: they count no longer.
    pub fn some_popped(&mut self, frames: u32, ce: u32, charge_of: impl Fn(u32) -> u32) -> BatchTotals {
        let mut gone = Front { ce, ..Front::default() };
        for &len in self.frames.popped_lens(frames as usize) {
            gone.add(u32::from(len), charge_of(u32::from(len)));
        }
        self.less(&gone);
        gone.totals
    }

    /// One of its frames, which may be popped already, came in as CE.
    #[inline(always)]
    pub fn came_as_ce(&self, frame: &F) -> bool {
        self.ecn.ce() > 0 && self.ecn.code().of(frame).is_ce()
    }

    /// Moves the first frames of an open batch, as [`FrameBatch::front`] has found them, behind those of `to`, which has room for
    /// them.
    #[inline(always)]
    pub fn take(&mut self, front: &Front, to: &mut impl FrameList<F>) {
        let count = front.totals.frames as usize;
        if count == self.frames.len() && !self.reversed {
            return self.frames.append_to(to);
        }
        self.less(front);
        self.reverse();
        to.extend(self.frames.drain_last(count).rev());
    }

    /// These frames count no longer.
    #[inline(always)]
    fn less(&mut self, front: &Front) {
        let BatchTotals { frames, bytes, charge } = front.totals;
        self.padding -= (front.wire - u64::from(bytes) - u64::from(frames) * WIRE_OVERHEAD_BYTES) as u16;
        self.bytes -= bytes;
        self.charge -= charge;
        self.set_ce(self.ecn.ce() - front.ce as u8);
        self.skip_copies(frames);
    }

    /// What all its frames have in common.
    #[inline(always)]
    pub fn header(&self) -> BatchHeader {
        BatchHeader {
            rx_ns: self.rx_ns,
            copies: self.copies,
            pg: self.pg,
            in_port: self.in_port,
            queue: self.queue,
            ecn: self.ecn.code(),
            home: self.home,
        }
    }

    /// Its frames came from another lcore, and are in its memory or sent by it.
    #[inline(always)]
    pub fn is_foreign(&self) -> bool {
        self.home != BatchHeader::HERE || self.in_buffer > 0
    }

    /// How long the queue had been held when the frames came to it, ns.
    #[inline(always)]
    pub fn held_ns(&self) -> Nanos {
        self.held_ns
    }

    /// Another frame of this header, that comes when the queue has been held for so long, may join: the counts of copies are
    /// in turn.
    #[inline]
    pub fn has_room_for(&self, header: &BatchHeader, held_ns: Nanos) -> bool {
        let same = self.held_ns == held_ns && self.header().behind(self.len() as u32) == *header;
        same && self.buffer.is_none() && !self.reversed && self.room() > 0
    }

    /// The first frames are gone: the count of the one behind them is that of the first now.
    #[inline(always)]
    fn skip_copies(&mut self, frames: u32) {
        self.copies = self.header().behind(frames).copies;
    }

    /// Frames that may still be added.
    #[inline(always)]
    pub fn room(&self) -> usize {
        self.frames.room()
    }

    /// Number of frames.
    #[inline(always)]
    pub fn len(&self) -> usize {
        self.frames.len() + usize::from(self.in_buffer)
    }

    /// No frames.
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// One of its frames, in no particular order, wherever they are.
    pub fn any(&self, at: usize) -> Option<&F> {
        self.held().get(at)
    }

    /// All its frames are `len` long.
    pub fn is_of(&self, len: u16) -> bool {
        (self.len, self.mixed) == (len, 0)
    }

    /// Frames, bytes and charge.
    #[inline(always)]
    pub fn totals(&self) -> BatchTotals {
        BatchTotals { frames: self.len() as u32, bytes: self.bytes, charge: self.charge }
    }

    /// Length of one of the frames.
    #[inline(always)]
    fn len_of(&self, end: End) -> u16 {
        if self.mixed == 0 {
            return self.len;
        }
        let lens = self.held_lens();
        let len = if (end == End::First) != self.reversed { lens.first() } else { lens.last() };
        len.copied().unwrap_or(self.len)
    }

    /// The frames, wherever they are.
    #[inline(always)]
    pub fn held(&self) -> &[F] {
        self.buffer.as_deref().map_or_else(|| self.frames.frames(), FrameRow::frames)
    }

    /// Their lengths.
    #[inline(always)]
    pub fn held_lens(&self) -> &[u16] {
        self.buffer.as_deref().map_or_else(|| self.frames.lens(), FrameRow::lens)
    }
}

/// Bytes by which a frame is too short for the wire.
pub(super) fn padding(len: u16) -> u16 {
    (MIN_FRAME_BYTES as u16).saturating_sub(len)
}

#[cfg(test)]
mod tests {
    use super::super::numbered::Numbered;
    use super::*;
    use crate::frame::SizedFrames;
    use crate::parse::{EcnField, EcnPlace};

    const ALL: Limits = Limits { frames: BATCH_MAX, wire: u64::MAX };

    fn header() -> BatchHeader {
        let ecn = EcnField { place: EcnPlace::Ipv4(14), codepoint: 3 }.code();
        BatchHeader { rx_ns: 7, pg: 3, in_port: 1, queue: 5, ecn, ..BatchHeader::NONE }
    }

    #[test]
    fn sums_follow_frames_in_and_out() {
        let cells = |len: u32| len.div_ceil(100) * 100;
        let mut batch = FrameBatch::new(&header(), 2);
        for (n, len) in [60u16, 150, 42, 1500].into_iter().enumerate() {
            batch.add(Numbered::new(n, len), cells(u32::from(len))).unwrap();
        }
        assert_eq!(batch.totals(), BatchTotals { frames: 4, bytes: 1752, charge: 1900 });
        let front = batch.front(ALL, cells);
        assert_eq!((front.wire, front.last, batch.header().is_ce()), (84 + 174 + 84 + 1524, 1524, true));
        let (frame, meta) = batch.pop(cells).unwrap();
        assert_eq!((frame.n, meta.len, meta.header, meta.held_ns), (0, 60, header(), 2));
        assert_eq!(batch.pop(cells).map(|(frame, meta)| (frame.n, meta.len)), Some((1, 150)));
        assert_eq!(batch.totals(), BatchTotals { frames: 2, bytes: 1542, charge: 1600 });
        assert_eq!((batch.len_of(End::First), batch.front(ALL, cells).wire), (42, 84 + 1524));
        let rest: Vec<_> = std::iter::from_fn(|| batch.pop(cells)).map(|(frame, _)| frame.n).collect();
        assert_eq!(rest, [2, 3]);
        assert!(batch.is_empty());
    }

    #[test]
    fn what_was_filled_in_counts_when_the_batch_is_sealed() {
        let cells = |len: u32| len.div_ceil(100) * 100;
        for lens in [[60, 60, 60, 60], [42, 42, 42, 42], [60, 60, 1500, 42]] {
            let (mut filled, mut added) = (FrameBatch::new(&header(), 2), FrameBatch::new(&header(), 2));
            let mut frames = lens.into_iter().enumerate().map(|(n, len)| Numbered::new(n, len));
            filled.begin(&header(), 2, frames.next().unwrap());
            frames.for_each(|frame| filled.put(frame));
            assert_eq!((filled.len(), filled.room()), (4, BATCH_MAX - 4));
            filled.seal(cells);
            for (n, len) in lens.into_iter().enumerate() {
                added.add(Numbered::new(n, len), cells(u32::from(len))).unwrap();
            }
            let front = |batch: &FrameBatch<_>| batch.front(ALL, cells);
            assert_eq!((filled.totals(), front(&filled)), (added.totals(), front(&added)));
            while let Some(one) = added.pop(cells) {
                assert_eq!(filled.pop(cells), Some(one));
                assert_eq!(filled.totals(), added.totals());
            }
            assert!(filled.is_empty());
        }
    }

    /// Whatever the lengths, turns and limits: what leaves by turns are the frames that would leave one by one, in order.
    #[test]
    fn frames_taken_by_turns_are_those_that_would_go_one_by_one() {
        let cells = |len: u32| len.div_ceil(100) * 100;
        for lens in [[60; 6], [60, 1500, 42, 42, 700, 60], [42, 1500, 60, 60, 60, 1400]] {
            for turn in [0, 1, 84, 85, 168, 169, 1500, u64::MAX] {
                for most in [1, 2, 5, 6, 9] {
                    let mut batch = FrameBatch::new(&header(), 2);
                    for (n, len) in lens.into_iter().enumerate() {
                        batch.add(Numbered::new(n, len), cells(u32::from(len))).unwrap();
                    }
                    let mut left = lens.into_iter().enumerate();
                    while !batch.is_empty() {
                        let mut want = Front::default();
                        let mut taken = arrayvec::ArrayVec::<Numbered, BATCH_MAX>::new();
                        let front = batch.front(Limits { frames: most, wire: turn }, cells);
                        batch.take(&front, &mut taken);
                        for frame in taken {
                            assert!(want.totals.frames == 0 || want.wire < turn, "{lens:?} {turn} {most}");
                            let (n, len) = left.next().unwrap();
                            assert_eq!(frame, Numbered::new(n, len));
                            want.last = wire_bytes(u64::from(len));
                            want.wire += want.last;
                            let (bytes, charge) = (u32::from(len), cells(u32::from(len)));
                            want.totals.add(BatchTotals { frames: 1, bytes, charge });
                            want.ce += 1;
                        }
                        assert_eq!(front, want);
                        let all = want.totals.frames as usize == most || batch.is_empty();
                        assert!(all || want.wire >= turn, "{lens:?} {turn} {most}: more could go");
                    }
                    assert_eq!(left.next(), None);
                }
            }
        }
    }

    #[test]
    fn a_full_batch_gives_the_frame_back() {
        let mut batch = FrameBatch::new(&header(), 2);
        let frame = |n| Numbered::new(n, 64);
        for n in 0..BATCH_MAX {
            assert!(batch.has_room_for(&header(), 2) && batch.add(frame(n), 64).is_ok());
        }
        assert_eq!((batch.add(frame(99), 64), batch.len()), (Err(frame(99)), BATCH_MAX));
        assert!(!batch.has_room_for(&header(), 2));
        assert!(
            !FrameBatch::<Numbered>::new(&header(), 2).has_room_for(&BatchHeader { rx_ns: 8, ..header() }, 2)
        );
        assert!(!FrameBatch::<Numbered>::new(&header(), 2).has_room_for(&header(), 3));
    }

    #[test]
    fn a_batch_of_handles_is_eleven_cache_lines() {
        assert_eq!(size_of::<FrameBatch<crate::frame::OwnedFrame>>(), 11 * 64);
    }

    /// A frame in the memory of another lcore: how often it was asked how long it is.
    #[derive(Debug)]
    struct Far(Numbered, std::rc::Rc<std::cell::Cell<u32>>);

    impl Frame for Far {
        type Row = SizedFrames<Self>;
        type Staged = crate::types::Burst<Self>;

        fn bytes(&self) -> &[u8] {
            self.0.bytes()
        }

        fn bytes_mut(&mut self) -> &mut [u8] {
            self.0.bytes_mut()
        }

        fn len(&self) -> usize {
            self.1.set(self.1.get() + 1);
            self.0.len()
        }

        fn share(&self) -> Option<Self> {
            None
        }

        fn make_unique(&mut self) -> bool {
            true
        }
    }

    #[test]
    fn who_schedules_frames_of_another_lcore_touches_none_of_them() {
        let asked = std::rc::Rc::default();
        let header = BatchHeader { ecn: EcnCode::NONE, ..header() };
        for lens in [[64u16; 8], [64, 1500, 64, 700, 64, 64, 1500, 42]] {
            let mut here = FrameBatch::new(&header, 0);
            for (n, len) in lens.into_iter().enumerate() {
                here.add(Far(Numbered::new(n, len), std::rc::Rc::clone(&asked)), u32::from(len)).unwrap();
            }
            let request = here.ship(PortId(1), 0, BatchBuffer::default());
            asked.set(0);
            let mut there = FrameBatch::new(&header, 0);
            there.receive(request, 0);
            let mut went = Vec::new();
            let turn = Limits { frames: usize::MAX, wire: 900 };
            while !there.is_empty() {
                let front = there.front(turn, |len| len);
                there.open();
                let mut taken = arrayvec::ArrayVec::<Far, BATCH_MAX>::new();
                there.take(&front, &mut taken);
                went.extend(taken.iter().map(|frame| frame.0.n));
                went.extend(there.pop(|len| len).map(|(frame, _)| frame.0.n));
            }
            assert_eq!((went, asked.get()), ((0..8).collect(), 0), "{lens:?}");
        }
    }
}
