//! Frames and, beside them, how long each is: who schedules frames reads their lengths here, where they stand in a row. The
//! frames themselves may be cold, or in the cache of the lcore that received them.

use super::batch::BATCH_MAX;
use crate::frame::Frame;
use arrayvec::ArrayVec;

/// Up to [`BATCH_MAX`] frames, first in first.
#[derive(Debug)]
pub struct SizedFrames<F> {
    frames: ArrayVec<F, BATCH_MAX>,
    /// Bytes without FCS, of as many as there are frames.
    lens: [u16; BATCH_MAX],
}

impl<F> Default for SizedFrames<F> {
    #[inline(always)]
    fn default() -> Self {
        Self { frames: ArrayVec::new(), lens: [0; BATCH_MAX] }
    }
}

impl<F: Frame> SizedFrames<F> {
    #[inline(always)]
    pub fn frames(&self) -> &[F] {
        &self.frames
    }

    /// The frames, to change what is not their length.
    #[inline(always)]
    pub fn frames_mut(&mut self) -> &mut [F] {
        &mut self.frames
    }

    #[inline(always)]
    pub fn lens(&self) -> &[u16] {
        &self.lens[..self.frames.len()]
    }

    #[inline(always)]
    pub fn len(&self) -> usize {
        self.frames.len()
    }

    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }

    /// Frames that may still be added.
    #[inline(always)]
    pub fn room(&self) -> usize {
        self.frames.remaining_capacity()
    }

    /// Adds a frame of `len` bytes, for which there is room, behind the others.
    #[inline(always)]
    pub fn push(&mut self, frame: F, len: u16) {
        let at = self.frames.len();
        self.frames.push(frame);
        self.lens[at] = len;
    }

    /// Takes the last frame, and its length.
    #[inline(always)]
    pub fn pop(&mut self) -> Option<(F, u16)> {
        let frame = self.frames.pop()?;
        Some((frame, self.lens[self.frames.len()]))
    }

    #[inline(always)]
    pub fn reverse(&mut self) {
        let count = self.frames.len();
        self.frames.reverse();
        self.lens[..count].reverse();
    }

    /// Keeps the frames that `keep`, which may change them, says yes to.
    pub fn retain(&mut self, keep: impl FnMut(&mut F) -> bool) {
        self.frames.retain(keep);
        self.lens.iter_mut().zip(&self.frames).for_each(|(len, frame)| *len = frame.len() as u16);
    }

    /// Moves all to another one, which is empty.
    #[inline(always)]
    pub fn move_to(&mut self, to: &mut Self) {
        debug_assert!(to.is_empty());
        let count = self.frames.len();
        to.lens[..count].copy_from_slice(&self.lens[..count]);
        F::append(&mut self.frames, &mut to.frames);
    }

    /// Moves all frames behind those of `to`, which has room for them.
    #[inline(always)]
    pub fn append_to<const N: usize>(&mut self, to: &mut ArrayVec<F, N>) {
        F::append(&mut self.frames, to);
    }

    /// Takes the last `count` frames, which are there.
    #[inline(always)]
    pub fn drain_last(&mut self, count: usize) -> impl DoubleEndedIterator<Item = F> {
        self.frames.drain(self.frames.len() - count..)
    }

    /// Drops all frames.
    #[inline(always)]
    pub fn discard(&mut self) {
        F::discard(&mut self.frames);
    }
}
