//! What is known of queued frames: of one, and of those of a batch in common.

use crate::frame::Frame;
use crate::parse::EcnCode;
use crate::types::Nanos;

/// What the switch knows about a queued frame beyond its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Meta {
    /// What it may have in common with others.
    pub header: BatchHeader,
    /// Bytes, without FCS.
    pub len: u16,
    /// ns its queue had been held by received pauses when it came to it.
    pub held_ns: Nanos,
}

/// What the frames of a batch have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchHeader {
    /// When they were received.
    pub rx_ns: Nanos,
    /// [`BatchHeader::SINGLE`], or several queues hold each frame: number of the copy count of the first. Each one behind it has the next.
    pub copies: u32,
    /// Priority group they are charged to (`port * 8 + pg`, control groups behind).
    pub pg: u16,
    /// Port they came from.
    pub in_port: u16,
    /// Egress queue.
    pub queue: u8,
    /// Where their ECN bits are, and whether they came in as CE.
    pub ecn: EcnCode,
    /// Another lcore (shard), which received them and sends them too, when the owner of the port says so; or
    /// [`BatchHeader::HERE`].
    pub home: u8,
}

impl BatchHeader {
    /// Who queues the frames sends them.
    pub const HERE: u8 = u8::MAX;
    /// There is one copy of each frame.
    pub const SINGLE: u32 = u32::MAX;

    /// Of no frames.
    pub(crate) const NONE: Self = Self {
        rx_ns: 0,
        copies: BatchHeader::SINGLE,
        pg: 0,
        in_port: 0,
        queue: 0,
        ecn: EcnCode::NONE,
        home: Self::HERE,
    };

    /// Of the frames behind the first ones of a batch.
    #[inline(always)]
    pub fn behind(self, frames: u32) -> Self {
        let copies = if self.is_single() { self.copies } else { self.copies + frames };
        Self { copies, ..self }
    }

    /// One queue holds each frame.
    #[inline(always)]
    pub fn is_single(&self) -> bool {
        self.copies == Self::SINGLE
    }

    /// Its frames came in with CE.
    #[inline(always)]
    pub fn is_ce(&self) -> bool {
        self.ecn.is_ce()
    }

    /// One of the frames of this header.
    #[inline(always)]
    pub fn meta_of<F: Frame>(self, frame: &F, held_ns: Nanos) -> Meta {
        Self { ecn: self.ecn.of(frame), ..self }.meta(frame.len() as u16, held_ns)
    }

    /// A frame of this header and of this length.
    #[inline(always)]
    pub fn meta(self, len: u16, held_ns: Nanos) -> Meta {
        Meta { header: self, len, held_ns }
    }
}
