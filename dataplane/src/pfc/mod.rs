//! Priority flow control: the frame, sending it, obeying it, and not obeying it for ever.
//!
//! Each port has one [`generate::Generator`] (what we tell the peer), one [`react::Reaction`] (what the
//! peer told us) and one [`watchdog::Watchdog`]. All are state machines in absolute nanoseconds. Nothing
//! counts down, so nothing depends on how often it is asked. REQ A8.

pub mod account;
pub mod frame;
pub mod generate;
pub mod react;
pub mod response;
pub mod watchdog;

use crate::types::Nanos;

/// A deadline that does not come.
pub const NEVER: Nanos = Nanos::MAX;

/// The bits of `mask` that are set, lowest first, as indices.
pub(crate) fn bits(mask: impl Into<u64>) -> impl Iterator<Item = usize> {
    let mut mask = mask.into();
    std::iter::from_fn(move || {
        let bit = mask.trailing_zeros();
        mask &= mask.wrapping_sub(1);
        (bit < u64::BITS).then_some(bit as usize)
    })
}
