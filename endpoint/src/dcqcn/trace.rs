//! A short record of what moved the rate of a flow (CC-021 to CC-023).

use super::registers::rate_to_units;
use std::fmt::Write;
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

impl Cause {
    /// The name of the hardware manual, in the form of DEV-48.
    pub fn name(self) -> &'static str {
        match self {
            Self::Decrease => "decrease",
            Self::ByteFastRecovery => "byte_counter.fast_recovery",
            Self::ByteHyper => "byte_counter.hyper_increase",
            Self::ByteAdditive => "byte_counter.additive_increase",
            Self::TimerFastRecovery => "timer.fast_recovery",
            Self::TimerHyper => "timer.hyper_increase",
            Self::TimerAdditive => "timer.additive_increase",
        }
    }
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

impl Entry {
    /// `dcqcn_dfx_info`: time in bits 63:19 (ns), rate in units in 18:3, event in 2:0. That the three are
    /// there is published, where they stand is not.
    pub fn info(&self) -> u64 {
        self.at << 19 | u64::from(rate_to_units(self.rate)) << 3 | self.cause as u64
    }
}

/// Events of each of the three classes (CC-023).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Cuts.
    pub decrease: u32,
    /// Increases by the byte counter.
    pub byte_counter: u32,
    /// Increases by the timer.
    pub timer: u32,
}

/// The header of [`Trace::csv`].
pub const CSV_HEADER: &str = "qpn,time_ns,code,event,rate_bps\n";

/// The first [`TRACE_ENTRIES`] events since it was started.
#[derive(Clone, Debug)]
pub struct Trace {
    initial: State,
    entries: Vec<Entry>,
    stopped: bool,
}

impl Trace {
    pub(super) fn new(initial: State) -> Self {
        Self { initial, entries: Vec::with_capacity(TRACE_ENTRIES), stopped: false }
    }

    pub(super) fn record(&mut self, cause: Cause, rate: u64, at: Nanos) {
        if !self.stopped && self.entries.len() < TRACE_ENTRIES {
            self.entries.push(Entry { cause, rate, at });
        }
    }

    pub(super) fn stop(&mut self) {
        self.stopped = true;
    }

    /// The state before the first event.
    pub fn initial(&self) -> &State {
        &self.initial
    }

    /// The events in order.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Nothing more fits.
    pub fn is_full(&self) -> bool {
        self.entries.len() == TRACE_ENTRIES
    }

    /// Events are still recorded.
    pub fn is_running(&self) -> bool {
        !self.stopped && !self.is_full()
    }

    /// How many events of each class it holds.
    pub fn counts(&self) -> Counts {
        let mut counts = Counts::default();
        for entry in &self.entries {
            *match entry.cause as u8 >> 2 {
                1 => &mut counts.timer,
                _ if entry.cause == Cause::Decrease => &mut counts.decrease,
                _ => &mut counts.byte_counter,
            } += 1;
        }
        counts
    }

    /// Its rows under [`CSV_HEADER`]: the state it began with (no code, event `start`, no time), then the
    /// events.
    pub fn csv(&self, qpn: u32) -> String {
        let mut text = format!("{qpn},,,start,{}\n", self.initial.current);
        for Entry { cause, rate, at } in &self.entries {
            let _ = writeln!(text, "{qpn},{at},{:03b},{},{rate}", *cause as u8, cause.name());
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cc022_codes_counts_and_rows() {
        let all = [
            (Cause::Decrease, 0),
            (Cause::ByteFastRecovery, 1),
            (Cause::ByteHyper, 2),
            (Cause::ByteAdditive, 3),
            (Cause::TimerFastRecovery, 5),
            (Cause::TimerHyper, 6),
            (Cause::TimerAdditive, 7),
        ];
        let initial = State { current: 5, target: 5, alpha: 1023, byte_count: 0, time_count: 0 };
        let mut trace = Trace::new(initial);
        for (cause, code) in all {
            assert_eq!(cause as u64, code);
            trace.record(cause, 40 * 7_812_500, 1000);
        }
        assert_eq!(trace.counts(), Counts { decrease: 1, byte_counter: 3, timer: 3 });
        assert_eq!(trace.entries()[4].info(), 1000 << 19 | 40 << 3 | 5);
        let csv = trace.csv(17);
        assert_eq!(csv.lines().next(), Some("17,,,start,5"));
        assert_eq!(csv.lines().nth(2), Some("17,1000,001,byte_counter.fast_recovery,312500000"));
    }

    #[test]
    fn cc021_a_window_of_64_events() {
        let initial = State { current: 5, target: 5, alpha: 0, byte_count: 0, time_count: 0 };
        let mut trace = Trace::new(initial);
        for at in 0..100 {
            trace.record(Cause::Decrease, 1, at);
        }
        assert!(trace.is_full());
        assert_eq!((trace.entries().len(), trace.entries()[63].at), (64, 63));
    }
}
