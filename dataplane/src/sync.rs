//! What threads share is made of these; under `--cfg weir_loom` they are those of the model checker loom, which tries every
//! order in which threads may see each other's writes (`make model`).

#[cfg(not(weir_loom))]
pub use crossbeam_utils::Backoff;
#[cfg(weir_loom)]
pub use loom::sync::{
    Arc,
    atomic::{AtomicU32, AtomicU64, Ordering, fence},
};
#[cfg(not(weir_loom))]
pub use std::sync::{
    Arc,
    atomic::{AtomicU32, AtomicU64, Ordering, fence},
};

/// The model checker must know that a thread waits for others.
#[cfg(weir_loom)]
#[derive(Debug)]
pub struct Backoff;

#[cfg(weir_loom)]
impl Backoff {
    /// One.
    pub fn new() -> Self {
        Self
    }

    /// Lets the others go on.
    pub fn spin(&self) {
        loom::thread::yield_now();
    }
}
