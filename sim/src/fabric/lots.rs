//! What is drawn by lot. Whoever draws has a stream of numbers of its own, so that what comes of it does not depend on what others do
//! meanwhile: parts of a fabric are played at once.

use weir_dataplane::rng::Rng;

/// Frames that a direction of a link loses.
pub(super) const LOSS: u64 = 0x6c69_6e6b;
/// Ports by which a switch sprays frames.
pub(super) const SPRAY: u64 = 0x7370_7261;
/// What a port writes into frames of PINT.
pub(super) const PINT: u64 = 0x7069_6e74;

/// The numbers of the `nth` of those who draw for one thing, in a run with this seed.
pub(super) fn stream(seed: u64, what: u64, nth: usize) -> Rng {
    Rng::new(seed ^ what ^ (nth as u64) << 32)
}
