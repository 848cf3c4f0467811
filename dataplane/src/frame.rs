//! What the switch asks of a frame.
//!
//! A frame is a handle to bytes: an mbuf on DPDK, a small value in the simulator, a vector in a
//! test. Everything the switch knows about a frame beyond its bytes lives in the queue entry, so
//! two handles to the same bytes (a flooded frame) never disturb each other.

use crate::vlan::TAG_BYTES;
use arrayvec::ArrayVec;

/// A frame from destination address to the last payload byte, without FCS.
pub trait Frame: Sized {
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
pub struct OwnedFrame(std::sync::Arc<Vec<u8>>);

impl OwnedFrame {
    /// A frame with these bytes.
    pub fn new(bytes: impl Into<Vec<u8>>) -> Self {
        Self(std::sync::Arc::new(bytes.into()))
    }
}

impl Frame for OwnedFrame {
    fn bytes(&self) -> &[u8] {
        &self.0
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        std::sync::Arc::make_mut(&mut self.0).as_mut_slice()
    }

    fn share(&self) -> Option<Self> {
        Some(self.clone())
    }

    fn make_unique(&mut self) -> bool {
        std::sync::Arc::make_mut(&mut self.0);
        true
    }

    fn insert_tag(&mut self, at: usize, tag: [u8; TAG_BYTES]) -> bool {
        let fits = at <= self.0.len();
        if fits {
            std::sync::Arc::make_mut(&mut self.0).splice(at..at, tag);
        }
        fits
    }

    fn remove_tag(&mut self, at: usize) -> bool {
        let fits = at + TAG_BYTES <= self.0.len();
        if fits {
            std::sync::Arc::make_mut(&mut self.0).drain(at..at + TAG_BYTES);
        }
        fits
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
