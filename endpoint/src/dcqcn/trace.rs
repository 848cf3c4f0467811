//! A short record of what moved the rate of a flow (CC-021, CC-022).

use weir_dataplane::types::Nanos;

/// Entries of a trace.
pub const TRACE_ENTRIES: usize = 64;

/// What moved the rate. The codes are those of the hardware trace, in the form of DEV-48.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Cause {
    /// A CNP cut it.
    Decrease = 0b000,
    /// Byte counter, fast recovery.
    ByteFastRecovery = 0b001,
    /// Byte counter, hyper increase.
    ByteHyper = 0b010,
    /// Byte counter, additive increase.
    ByteAdditive = 0b011,
    /// Timer, fast recovery.
    TimerFastRecovery = 0b101,
    /// Timer, hyper increase.
    TimerHyper = 0b110,
    /// Timer, additive increase.
    TimerAdditive = 0b111,
}

/// The state of a flow as a trace begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct State {
    /// Rate, bits/s.
    pub current: u64,
    /// Target rate, bits/s.
    pub target: u64,
    /// Alpha in 1024ths.
    pub alpha: u16,
    /// Byte-counter increases since the last cut.
    pub byte_count: u32,
    /// Timer increases since the last cut.
    pub time_count: u32,
}

/// One event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// What happened.
    pub cause: Cause,
    /// The rate it left, bits/s.
    pub rate: u64,
    /// When.
    pub at: Nanos,
}

/// The first [`TRACE_ENTRIES`] events since it was started.
#[derive(Clone, Debug)]
pub struct Trace {
    initial: State,
    entries: Vec<Entry>,
}

impl Trace {
    pub(super) fn new(initial: State) -> Self {
        Self { initial, entries: Vec::with_capacity(TRACE_ENTRIES) }
    }

    pub(super) fn record(&mut self, cause: Cause, rate: u64, at: Nanos) {
        if self.entries.len() < TRACE_ENTRIES {
            self.entries.push(Entry { cause, rate, at });
        }
    }

    /// The state before the first event.
    pub fn initial(&self) -> &State {
        &self.initial
    }

    /// The events in order.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }
}
