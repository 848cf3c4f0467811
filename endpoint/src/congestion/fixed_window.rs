//! A window that never moves: so many bytes in flight, at line rate.
use super::{CongestionControl, Permit};

/// A sender with a constant window.
#[derive(Clone, Copy, Debug)]
pub struct FixedWindow {
    line_bps: u64,
    window: u64,
}

impl FixedWindow {
    /// `window` bytes in flight on a link of `line_bps`.
    pub fn new(line_bps: u64, window: u64) -> Self {
        Self { line_bps, window: window.max(1) }
    }
}

impl CongestionControl for FixedWindow {
    fn permit(&self) -> Permit {
        Permit::windowed(self.line_bps, self.window)
    }
}
