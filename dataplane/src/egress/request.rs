//! Frames that travel between lcores: which they are is said beside them, so that who only passes them on touches
//! none of their memory.

use super::batch::padding;
use super::header::BatchHeader;
use super::totals::BatchTotals;
use crate::frame::{Frame, FrameRow, SizedFrames};
use crate::types::PortId;
use arrayvec::ArrayVec;

/// A buffer for the frames of a batch. It goes back empty to the lcore it came from, which has a stock of them.
pub type BatchBuffer<F> = Box<SizedFrames<F>>;

/// One frame, or several of a batch.
#[derive(Debug)]
pub enum RequestFrames<F> {
    /// One.
    One(F),
    /// At least one.
    BatchBuffer(BatchBuffer<F>),
}

impl<F: Frame> RequestFrames<F> {
    /// The frames, first in first.
    #[inline(always)]
    pub fn frames(&self) -> &[F] {
        match self {
            Self::One(frame) => std::slice::from_ref(frame),
            Self::BatchBuffer(buffer) => buffer.frames(),
        }
    }

    /// Moves the frames behind those of `to`, which has room for them. What is left is an empty buffer, if there was one.
    #[inline(always)]
    pub fn unload<const N: usize>(self, to: &mut ArrayVec<F, N>) -> Option<BatchBuffer<F>> {
        match self {
            Self::One(frame) => {
                to.push(frame);
                None
            }
            Self::BatchBuffer(mut buffer) => {
                buffer.append_to(to);
                Some(buffer)
            }
        }
    }
}

/// Frames of one header on their way to the lcore that owns their egress port.
#[derive(Debug)]
#[repr(align(64))]
pub struct EnqueueRequest<F> {
    /// The port.
    pub out: PortId,
    /// What they have in common.
    pub header: BatchHeader,
    /// What they add up to.
    pub totals: BatchTotals,
    /// Bytes by which they are too short for the wire.
    pub(super) padding: u16,
    /// Length of each if `mixed` is 0.
    pub(super) len: u16,
    pub(super) mixed: u16,
    /// How many came in as CE.
    pub(super) ce: u8,
    /// The frames.
    pub frames: RequestFrames<F>,
}

impl<F: Frame> EnqueueRequest<F> {
    /// For one frame, charged `charge`.
    pub fn of_one(out: PortId, header: BatchHeader, charge: u32, frame: F) -> Self {
        let len = frame.len() as u16;
        let totals = BatchTotals { frames: 1, bytes: u32::from(len), charge };
        let (padding, ce) = (padding(len), u8::from(header.is_ce()));
        Self { out, header, totals, padding, len, mixed: 0, ce, frames: RequestFrames::One(frame) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::OwnedFrame;

    #[test]
    fn a_request_is_one_cache_line() {
        assert_eq!(size_of::<EnqueueRequest<OwnedFrame>>(), 64);
    }
}
