//! How much may leave a queue, and what frames that leave it add up to.

use crate::types::{WIRE_OVERHEAD_BYTES, wire_bytes};

/// How much may leave a queue in one go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Frames.
    pub frames: usize,
    /// Bytes on the wire after which no other frame begins. One goes in any case.
    pub wire: u64,
}

impl Limits {
    /// Another frame may begin when so many bytes on the wire have gone.
    #[inline(always)]
    pub fn goes_on(self, wire: u64) -> bool {
        wire < self.wire
    }
}

/// Frames that may leave the front of a batch together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Front {
    /// What they are.
    pub totals: BatchTotals,
    /// Their bytes on the wire, and those of the last one alone.
    pub wire: u64,
    /// See `wire`.
    pub last: u64,
    /// How many came in as CE.
    pub ce: u32,
}

/// What frames add up to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BatchTotals {
    /// Frames.
    pub frames: u32,
    /// Their bytes, without FCS.
    pub bytes: u32,
    /// What the buffer charges for them.
    pub charge: u32,
}

impl Front {
    /// With one more frame behind the others, `len` bytes long.
    #[inline(always)]
    pub fn add(&mut self, len: u32, charge: u32) {
        self.totals.add(BatchTotals { frames: 1, bytes: len, charge });
        self.last = wire_bytes(u64::from(len));
        self.wire += self.last;
    }

    /// With others behind these.
    #[inline(always)]
    pub fn append(&mut self, behind: &Self) {
        self.totals.add(behind.totals);
        self.wire += behind.wire;
        self.last = behind.last;
        self.ce += behind.ce;
    }
}

impl BatchTotals {
    /// Bytes they take on the wire, were none of them shorter than a frame may be there.
    #[inline(always)]
    pub fn wire(&self) -> u64 {
        u64::from(self.bytes) + u64::from(self.frames) * WIRE_OVERHEAD_BYTES
    }

    /// With those of other frames.
    #[inline(always)]
    pub fn add(&mut self, other: BatchTotals) {
        self.frames += other.frames;
        self.bytes += other.bytes;
        self.charge += other.charge;
    }

    /// What remains without frames that are among them.
    pub fn without(self, part: BatchTotals) -> BatchTotals {
        BatchTotals {
            frames: self.frames - part.frames,
            bytes: self.bytes - part.bytes,
            charge: self.charge - part.charge,
        }
    }
}
