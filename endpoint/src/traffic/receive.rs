//! What arrived of one flow, and what did not.

use super::flow::Flow;
use super::frame::{Claim, Stamp};
use weir_dataplane::stats::Histogram;
use weir_dataplane::types::Nanos;

/// Frames back from the newest within which late and doubled frames are told apart.
pub const WINDOW: u64 = 4096;
const WORDS: usize = WINDOW as usize / 64;

/// What a receiver knows of one flow. Once everything in flight has arrived and the end is told with
/// `finish`, `received + lost` is what was sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowReport {
    /// The flow.
    pub id: u16,
    /// Frames that arrived intact, each once.
    pub received: u64,
    /// Their bytes without FCS, as sent.
    pub received_bytes: u64,
    /// Frames that were skipped and have not come since. Those that came corrupted are among them.
    pub lost: u64,
    /// Frames that came after a later one.
    pub reordered: u64,
    /// Frames that came again, or later than [`WINDOW`] frames too late.
    pub duplicated: u64,
    /// Frames of this flow with anything changed that must not change.
    pub corrupted: u64,
    /// Frames that a switch marked CE.
    pub marked: u64,
    /// Time from sending to arrival.
    pub latency: Histogram,
}

/// The receiving end of one flow.
#[derive(Clone, Debug)]
pub(super) struct Receiver {
    pub(super) flow: Flow,
    report: FlowReport,
    /// Lowest sequence number above all that came.
    next: u64,
    /// Which of the last [`WINDOW`] numbers below `next` came, bit by number modulo window.
    seen: Box<[u64; WORDS]>,
}

impl Receiver {
    pub(super) fn new(flow: Flow) -> Self {
        let report = FlowReport {
            id: flow.id,
            received: 0,
            received_bytes: 0,
            lost: 0,
            reordered: 0,
            duplicated: 0,
            corrupted: 0,
            marked: 0,
            latency: Histogram::default(),
        };
        Self { flow, report, next: 0, seen: Box::new([0; WORDS]) }
    }

    pub(super) fn report(&self) -> &FlowReport {
        &self.report
    }

    /// Takes a frame that claims to be of this flow.
    pub(super) fn frame(&mut self, claim: &Claim<'_>, seed: u64, now: Nanos) {
        match claim.verify(&self.flow, seed) {
            Ok(stamp) => self.arrived(stamp, claim.ecn() == 3 && self.flow.ecn != 3, now),
            Err(_) => self.report.corrupted += 1,
        }
    }

    fn arrived(&mut self, stamp: Stamp, marked: bool, now: Nanos) {
        let sequence = stamp.sequence;
        if sequence >= self.next {
            self.skip_to(sequence);
            self.next = sequence.saturating_add(1);
        } else if self.next - sequence > WINDOW || self.has(sequence) {
            self.report.duplicated += 1;
            return;
        } else {
            self.report.reordered += 1;
            self.report.lost -= 1;
        }
        self.seen[word(sequence)] |= bit(sequence);
        self.report.received += 1;
        self.report.received_bytes += u64::from(self.flow.frame_bytes);
        self.report.marked += u64::from(marked);
        self.report.latency.note(now.saturating_sub(stamp.sent), 1);
    }

    /// Everything from `next` to before `sequence` is missing, `sequence` itself about to come.
    fn skip_to(&mut self, sequence: u64) {
        self.report.lost = self.report.lost.saturating_add(sequence - self.next);
        if sequence - self.next >= WINDOW {
            self.seen.fill(0);
            return;
        }
        for skipped in self.next..=sequence {
            self.seen[word(skipped)] &= !bit(skipped);
        }
    }

    fn has(&self, sequence: u64) -> bool {
        self.seen[word(sequence)] & bit(sequence) != 0
    }

    /// All that will come has come, of `sent` frames.
    pub(super) fn finish(&mut self, sent: u64) {
        if sent > self.next {
            self.skip_to(sent - 1);
            self.report.lost = self.report.lost.saturating_add(1);
            self.next = sent;
        }
    }
}

fn word(sequence: u64) -> usize {
    (sequence / 64) as usize % WORDS
}

fn bit(sequence: u64) -> u64 {
    1 << (sequence % 64)
}
