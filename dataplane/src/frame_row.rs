//! Frames and, beside them, how long each is: who schedules frames reads their lengths here, where they stand in a row. The
//! frames themselves may be cold, or in the cache of the lcore that received them.

use crate::egress::BATCH_MAX;
use crate::frame::Frame;
use arrayvec::ArrayVec;
use std::fmt::Debug;
use std::ops::DerefMut;

/// The frames of a batch, first in first, and the length of each in bytes without FCS. How many there is room for is up to the
/// type of frame ([`Frame::Row`]).
pub trait FrameRow<F>: Default + Debug {
    /// The frames.
    fn frames(&self) -> &[F];

    /// The frames, to change what is not their length.
    fn frames_mut(&mut self) -> &mut [F];

    /// Their lengths.
    fn lens(&self) -> &[u16];

    /// Number of frames.
    #[inline(always)]
    fn len(&self) -> usize {
        self.frames().len()
    }

    /// No frames.
    #[inline(always)]
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Frames that may still be added.
    fn room(&self) -> usize;

    /// Adds a frame of `len` bytes, for which there is room, behind the others.
    fn push(&mut self, frame: F, len: u16);

    /// Takes the last frame, and its length.
    fn pop(&mut self) -> Option<(F, u16)>;

    /// Lengths of the last `count` frames that [`FrameRow::pop`] took, since when nothing was added.
    fn popped_lens(&self, count: usize) -> &[u16];

    /// Puts the last one first.
    fn reverse(&mut self);

    /// Keeps the frames that `keep`, which may change them, says yes to.
    fn retain(&mut self, keep: impl FnMut(&mut F) -> bool);

    /// Moves all to a row that is empty and has room for them.
    fn move_to<const M: usize>(&mut self, to: &mut SizedFrames<F, M>);

    /// Takes all of another row; this one is empty and has room for them.
    fn move_from<const M: usize>(&mut self, from: &mut SizedFrames<F, M>);

    /// Moves all frames behind those of `to`, which has room for them.
    fn append_to(&mut self, to: &mut impl FrameList<F>);

    /// Takes the last `count` frames, which are there.
    fn drain_last(&mut self, count: usize) -> impl DoubleEndedIterator<Item = F>;

    /// Drops all frames.
    fn discard(&mut self);
}

/// Frames alone, of which there is room for a fixed number: an [`ArrayVec`] of any capacity.
pub trait FrameList<F>:
    Default + Debug + DerefMut<Target = [F]> + Extend<F> + IntoIterator<Item = F>
{
    /// Frames there is room for.
    const CAPACITY: usize;

    /// Adds a frame, for which there is room, behind the others.
    fn push(&mut self, frame: F);

    /// Moves all of `from`, for which there is room, behind the others.
    fn append<const M: usize>(&mut self, from: &mut ArrayVec<F, M>);

    /// Drops all frames.
    fn clear(&mut self);
}

impl<F: Frame, const N: usize> FrameList<F> for ArrayVec<F, N> {
    const CAPACITY: usize = N;

    #[inline(always)]
    fn push(&mut self, frame: F) {
        self.push(frame);
    }

    #[inline(always)]
    fn append<const M: usize>(&mut self, from: &mut ArrayVec<F, M>) {
        F::append(from, self);
    }

    #[inline(always)]
    fn clear(&mut self) {
        self.clear();
    }
}

/// Up to `N` frames and their lengths.
#[derive(Debug)]
pub struct SizedFrames<F, const N: usize = BATCH_MAX> {
    frames: ArrayVec<F, N>,
    /// Of as many as there are frames.
    lens: [u16; N],
}

impl<F, const N: usize> Default for SizedFrames<F, N> {
    #[inline(always)]
    fn default() -> Self {
        Self { frames: ArrayVec::new(), lens: [0; N] }
    }
}

impl<F: Frame, const N: usize> FrameRow<F> for SizedFrames<F, N> {
    #[inline(always)]
    fn frames(&self) -> &[F] {
        &self.frames
    }

    #[inline(always)]
    fn frames_mut(&mut self) -> &mut [F] {
        &mut self.frames
    }

    #[inline(always)]
    fn lens(&self) -> &[u16] {
        &self.lens[..self.frames.len()]
    }

    #[inline(always)]
    fn room(&self) -> usize {
        self.frames.remaining_capacity()
    }

    #[inline(always)]
    fn push(&mut self, frame: F, len: u16) {
        let at = self.frames.len();
        self.frames.push(frame);
        self.lens[at] = len;
    }

    #[inline(always)]
    fn pop(&mut self) -> Option<(F, u16)> {
        let frame = self.frames.pop()?;
        Some((frame, self.lens[self.frames.len()]))
    }

    #[inline(always)]
    fn popped_lens(&self, count: usize) -> &[u16] {
        &self.lens[self.frames.len()..][..count]
    }

    #[inline(always)]
    fn reverse(&mut self) {
        let count = self.frames.len();
        self.frames.reverse();
        self.lens[..count].reverse();
    }

    fn retain(&mut self, keep: impl FnMut(&mut F) -> bool) {
        self.frames.retain(keep);
        self.lens.iter_mut().zip(&self.frames).for_each(|(len, frame)| *len = frame.len() as u16);
    }

    #[inline(always)]
    fn move_to<const M: usize>(&mut self, to: &mut SizedFrames<F, M>) {
        debug_assert!(to.frames.is_empty());
        let count = self.frames.len();
        to.lens[..count].copy_from_slice(&self.lens[..count]);
        F::append(&mut self.frames, &mut to.frames);
    }

    #[inline(always)]
    fn move_from<const M: usize>(&mut self, from: &mut SizedFrames<F, M>) {
        from.move_to(self);
    }

    #[inline(always)]
    fn append_to(&mut self, to: &mut impl FrameList<F>) {
        to.append(&mut self.frames);
    }

    #[inline(always)]
    fn drain_last(&mut self, count: usize) -> impl DoubleEndedIterator<Item = F> {
        self.frames.drain(self.frames.len() - count..)
    }

    #[inline(always)]
    fn discard(&mut self) {
        F::discard(&mut self.frames);
    }
}
