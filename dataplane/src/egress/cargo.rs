//! Frames that travel between lcores: which they are is said beside them, so that who only passes them on touches
//! none of their memory.

use super::pack::{Lot, PACK, Sums, padding};
use crate::frame::Frame;
use crate::types::PortId;
use arrayvec::ArrayVec;

/// A box for the frames of a pack. It goes back empty to the lcore it came from, which has a stock of them.
pub type Parcel<F> = Box<ArrayVec<F, PACK>>;

/// One frame, or several of a pack.
#[derive(Debug)]
pub enum Cargo<F> {
    /// One.
    One(F),
    /// At least one.
    Parcel(Parcel<F>),
}

impl<F: Frame> Cargo<F> {
    /// The frames, first in first.
    #[inline(always)]
    pub fn frames(&self) -> &[F] {
        match self {
            Self::One(frame) => std::slice::from_ref(frame),
            Self::Parcel(parcel) => parcel,
        }
    }

    /// Moves the frames behind those of `to`, which has room for them. What is left is an empty box, if there was one.
    #[inline(always)]
    pub fn unload<const N: usize>(self, to: &mut ArrayVec<F, N>) -> Option<Parcel<F>> {
        match self {
            Self::One(frame) => {
                to.push(frame);
                None
            }
            Self::Parcel(mut parcel) => {
                F::append(&mut parcel, to);
                Some(parcel)
            }
        }
    }
}

/// Frames of one lot on their way to the lcore that owns their egress port.
#[derive(Debug)]
#[repr(align(64))]
pub struct Ticket<F> {
    /// The port.
    pub out: PortId,
    /// What they have in common.
    pub lot: Lot,
    /// What they add up to.
    pub sums: Sums,
    /// Bytes by which they are too short for the wire.
    pub(super) padding: u16,
    /// Length of each if `mixed` is 0.
    pub(super) len: u16,
    pub(super) mixed: u16,
    /// The frames.
    pub cargo: Cargo<F>,
}

impl<F: Frame> Ticket<F> {
    /// For one frame, charged `charge`.
    pub fn of_one(out: PortId, lot: Lot, charge: u32, frame: F) -> Self {
        let len = frame.len() as u16;
        let sums = Sums { frames: 1, bytes: u32::from(len), charge };
        Self { out, lot, sums, padding: padding(len), len, mixed: 0, cargo: Cargo::One(frame) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::OwnedFrame;

    #[test]
    fn a_ticket_is_one_cache_line() {
        assert_eq!(size_of::<Ticket<OwnedFrame>>(), 64);
    }
}
