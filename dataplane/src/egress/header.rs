//! What is known of queued frames: of one, and of those of a batch in common.

use crate::frame::Frame;
use crate::parse::EcnCode;
use crate::types::Nanos;

/// What the switch knows about a queued frame beyond its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Meta {
    /// When it was received.
    pub rx_ns: Nanos,
    /// Number of its copy count when several queues hold it; [`Meta::SINGLE`] otherwise.
    pub copies: u32,
    /// Bytes, without FCS.
    pub len: u16,
    /// Priority group it is charged to (`port * 8 + pg`, control groups behind).
    pub pg: u16,
    /// Port it came from.
    pub in_port: u16,
    /// Egress queue.
    pub queue: u8,
    /// Where its ECN bits are, and whether it came in as CE.
    pub ecn: EcnCode,
    /// Lcore that sends it, see [`BatchHeader::home`].
    pub home: u8,
    /// ns its queue had been held by received pauses when it came to it.
    pub held_ns: Nanos,
}

impl Meta {
    /// The only copy.
    pub const SINGLE: u32 = u32::MAX;

    /// What it has in common with others of its batch.
    #[inline(always)]
    pub fn header(&self) -> BatchHeader {
        BatchHeader {
            rx_ns: self.rx_ns,
            copies: self.copies,
            pg: self.pg,
            in_port: self.in_port,
            queue: self.queue,
            ecn: self.ecn,
            home: self.home,
        }
    }
}

/// What the frames of a batch have in common; fields as in [`Meta`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchHeader {
    /// When they were received.
    pub rx_ns: Nanos,
    /// [`Meta::SINGLE`], or each frame is one of several copies: the copy count of the first. Each one behind it has the next.
    pub copies: u32,
    /// Priority group.
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

    /// Of no frames.
    pub(crate) const NONE: Self = Self {
        rx_ns: 0,
        copies: Meta::SINGLE,
        pg: 0,
        in_port: 0,
        queue: 0,
        ecn: EcnCode::NONE,
        home: Self::HERE,
    };

    /// Of the frames behind the first ones of a batch.
    #[inline(always)]
    pub fn behind(self, frames: u32) -> Self {
        let copies = if self.copies == Meta::SINGLE { self.copies } else { self.copies + frames };
        Self { copies, ..self }
    }

    /// Its frames came in with CE.
    #[inline(always)]
    pub fn is_ce(&self) -> bool {
        self.ecn.is_ce()
    }

    /// One of the frames of this header.
    #[inline(always)]
    pub fn meta_of<F: Frame>(&self, frame: &F, held_ns: Nanos) -> Meta {
        Meta { ecn: self.ecn.of(frame), ..self.meta(frame.len() as u16, held_ns) }
    }

    /// A frame of this header and of this length.
    #[inline(always)]
    pub fn meta(&self, len: u16, held_ns: Nanos) -> Meta {
        let Self { rx_ns, copies, pg, in_port, queue, ecn, home } = *self;
        Meta { rx_ns, copies, len, pg, in_port, queue, ecn, home, held_ns }
    }
}
