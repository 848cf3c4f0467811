//! What the switch asks of a frame.
//!
//! A frame is a handle to bytes: an mbuf on DPDK, a small value in the simulator, a vector in a
//! test. Everything the switch knows about a frame beyond its bytes lives in the queue entry, so
//! two handles to the same bytes (a flooded frame) never disturb each other.

pub use crate::frame_row::{FrameList, FrameRow, SizedFrames};
use crate::parse::EcnCode;
use crate::types::Burst;
use crate::vlan::TAG_BYTES;
use arrayvec::ArrayVec;
use std::fmt::Debug;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering::Relaxed};

/// A frame from destination address to the last payload byte, without FCS.
pub trait Frame: Sized + Debug {
    /// The frames of a batch. A type whose frames come one by one, as in virtual time, has few places in it: what waits
    /// takes less memory. [`SizedFrames`] has [`BATCH_MAX`](crate::egress::BATCH_MAX) unless told otherwise.
    type Row: FrameRow<Self>;

    /// The frames that [`Switch::transmit`](crate::switch::Switch::transmit) stages at once at most: a
    /// [`Burst`], or one frame where whoever calls it asks for one at a time.
    type Staged: FrameList<Self>;

    /// The bytes that can be read. May be only the headers where the payload is not represented
    /// (simulation); never longer than [`Frame::len`].
    fn bytes(&self) -> &[u8];

    /// The same bytes for writing. Call [`Frame::make_unique`] first if the frame may be shared.
    fn bytes_mut(&mut self) -> &mut [u8];

    /// Length in bytes for accounting and for the wire, without FCS.
    fn len(&self) -> usize {
        self.bytes().len()
    }

    /// No bytes at all.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Another handle to the same bytes, or `None` when memory or the reference count is exhausted.
    fn share(&self) -> Option<Self>;

    /// Makes the bytes private to this handle, copying them if they are shared. `false`: no memory,
    /// the frame is unchanged and must not be written.
    fn make_unique(&mut self) -> bool;

    /// Puts a VLAN tag between the bytes in front of `at` and those behind. Call [`Frame::make_unique`] first. `false`: there
    /// is no place for it, and nothing has changed. A frame type that never goes through VLANs can leave it at that.
    fn insert_tag(&mut self, at: usize, tag: [u8; TAG_BYTES]) -> bool {
        let _ = (at, tag);
        false
    }

    /// Takes the VLAN tag at `at` out. `false` as for [`Frame::insert_tag`].
    fn remove_tag(&mut self, at: usize) -> bool {
        let _ = at;
        false
    }

    /// The handle has a place for [`Frame::set_ecn`]. Where it has none, frames of a queue are in batches by where their ECN
    /// bits are and whether they came in as CE, which is slower where such frames alternate.
    const KEEPS_ECN: bool = false;

    /// What [`Frame::set_ecn`] said last; anything before.
    #[inline(always)]
    fn ecn(&self) -> EcnCode {
        EcnCode::NONE
    }

    /// Notes where the ECN bits are and whether the frame came in as CE, beside the bytes: for a frame among others of which
    /// that is not the same.
    #[inline(always)]
    fn set_ecn(&mut self, ecn: EcnCode) {
        let _ = ecn;
    }

    /// Hint that `what` is about to be read. A frame type whose crate may use `unsafe` turns this
    /// into a prefetch instruction; the default does nothing.
    #[inline(always)]
    fn prefetch<T>(what: &T) {
        let _ = what;
    }

    /// Moves all frames of `from` behind those of `to`, which has room for them. A frame type whose crate may use
    /// `unsafe` moves them as the block of memory they are.
    #[inline(always)]
    fn append<const N: usize, const M: usize>(from: &mut ArrayVec<Self, N>, to: &mut ArrayVec<Self, M>) {
        to.extend(from.drain(..));
    }

    /// Takes all frames out of a burst, first in first. A frame type whose crate may use `unsafe` asks for the headers of
    /// later ones meanwhile.
    #[inline(always)]
    fn drain<const N: usize>(burst: &mut ArrayVec<Self, N>) -> impl Iterator<Item = Self> {
        burst.drain(..)
    }

    /// Drops all these frames. A frame type whose crate may use `unsafe` gives them back to their pool together.
    #[inline(always)]
    fn discard<const N: usize>(frames: &mut ArrayVec<Self, N>) {
        frames.clear();
    }

    /// Hint that another lcore has written this frame and that it will be sent, freed and filled again on this one:
    /// time to ask for what the other one's cache holds of it. The default does nothing.
    #[inline(always)]
    fn fetch(&self) {}
}

/// A frame that owns its bytes: for tests, for control frames, for replay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnedFrame(Arc<Content>);

#[derive(Debug)]
struct Content {
    bytes: Vec<u8>,
    /// See [`Frame::ecn`].
    ecn: AtomicU16,
}

impl Clone for Content {
    fn clone(&self) -> Self {
        Self { bytes: self.bytes.clone(), ecn: AtomicU16::new(self.ecn.load(Relaxed)) }
    }
}

/// Frames are the same if their bytes are.
impl PartialEq for Content {
    fn eq(&self, other: &Self) -> bool {
        self.bytes == other.bytes
    }
}

impl Eq for Content {}

impl OwnedFrame {
    /// A frame with these bytes.
    pub fn new(bytes: impl Into<Vec<u8>>) -> Self {
        Self(Arc::new(Content { bytes: bytes.into(), ecn: AtomicU16::new(0) }))
    }

    fn vec_mut(&mut self) -> &mut Vec<u8> {
        &mut Arc::make_mut(&mut self.0).bytes
    }
}

impl Frame for OwnedFrame {
    type Row = SizedFrames<Self>;
    type Staged = Burst<Self>;

    fn bytes(&self) -> &[u8] {
        &self.0.bytes
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        self.vec_mut()
    }

    fn share(&self) -> Option<Self> {
        Some(self.clone())
    }

    fn make_unique(&mut self) -> bool {
        Arc::make_mut(&mut self.0);
        true
    }

    fn insert_tag(&mut self, at: usize, tag: [u8; TAG_BYTES]) -> bool {
        let fits = at <= self.len();
        if fits {
            self.vec_mut().splice(at..at, tag);
        }
        fits
    }

    fn remove_tag(&mut self, at: usize) -> bool {
        let fits = at + TAG_BYTES <= self.len();
        if fits {
            self.vec_mut().drain(at..at + TAG_BYTES);
        }
        fits
    }

    const KEEPS_ECN: bool = true;

    fn ecn(&self) -> EcnCode {
        EcnCode::from_bits(self.0.ecn.load(Relaxed))
    }

    fn set_ecn(&mut self, ecn: EcnCode) {
        self.0.ecn.store(ecn.bits(), Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writing_a_shared_frame_leaves_the_other_handle_alone() {
        let mut one = OwnedFrame::new([1, 2, 3]);
        let two = one.share().unwrap();
        assert!(one.make_unique());
        one.bytes_mut()[0] = 9;
        assert_eq!((one.bytes()[0], two.bytes()[0]), (9, 1));
        assert_eq!(two.len(), 3);
        assert!(!two.is_empty());
    }
}
