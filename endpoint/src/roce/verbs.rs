//! Work requests and what becomes of them (IBTA chapter 10).

use super::wire::{Nak, Qpn};
use crate::rc::go_back_n::Failure;
use thiserror::Error;

/// Bytes of a message at most (IBTA 9.7.7).
pub const MAX_MESSAGE: u32 = 1 << 31;

/// A piece of a registered memory region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sge {
    /// Local key of the region.
    pub lkey: u32,
    /// First address.
    pub addr: u64,
    /// Bytes.
    pub len: u32,
}

/// What a send work request does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendOp {
    /// Message into the peer's next receive buffer.
    Send,
    /// The same, with immediate data.
    SendImm(u32),
    /// Bytes into the peer's memory; the peer's program does not notice.
    Write {
        /// Remote address.
        va: u64,
        /// Remote key.
        rkey: u32,
    },
    /// The same, and immediate data which consumes a receive work request.
    WriteImm {
        /// Remote address.
        va: u64,
        /// Remote key.
        rkey: u32,
        /// Immediate data.
        imm: u32,
    },
}

impl SendOp {
    /// Immediate data, if the operation carries any.
    pub(crate) fn imm(self) -> Option<u32> {
        match self {
            Self::SendImm(imm) | Self::WriteImm { imm, .. } => Some(imm),
            Self::Send | Self::Write { .. } => None,
        }
    }

    /// Remote address and key of a write.
    pub(crate) fn target(self) -> Option<(u64, u32)> {
        match self {
            Self::Write { va, rkey } | Self::WriteImm { va, rkey, .. } => Some((va, rkey)),
            Self::Send | Self::SendImm(_) => None,
        }
    }
}

/// A request to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SendWr {
    /// Returned in the completion.
    pub wr_id: u64,
    /// What to do.
    pub op: SendOp,
    /// Where the bytes are.
    pub sge: Sge,
}

/// A buffer for one incoming message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecvWr {
    /// Returned in the completion.
    pub wr_id: u64,
    /// Where the bytes go.
    pub sge: Sge,
}

/// How a work request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// Done; a send is acknowledged by the peer.
    Success,
    /// The message is longer than the receive buffer.
    LocalLength,
    /// Local key, bounds or rights.
    LocalProtection,
    /// The queue pair failed before this request was done.
    Flushed,
    /// The peer refused the request as malformed or unsupported.
    RemoteInvalidRequest,
    /// The peer refused remote key, bounds or rights.
    RemoteAccess,
    /// The peer failed.
    RemoteOperational,
    /// No acknowledgement after all retries.
    RetryExceeded,
    /// The peer had no receive buffer after all retries.
    RnrRetryExceeded,
}

impl From<Failure> for Status {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::RetryExceeded => Self::RetryExceeded,
            Failure::RnrRetryExceeded => Self::RnrRetryExceeded,
            Failure::Refused(Nak::RemoteAccess) => Self::RemoteAccess,
            Failure::Refused(Nak::RemoteOperational) => Self::RemoteOperational,
            Failure::Refused(Nak::InvalidRequest | Nak::Sequence) => Self::RemoteInvalidRequest,
        }
    }
}

/// Which kind of work request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    /// A send was acknowledged.
    Send,
    /// A write was acknowledged.
    Write,
    /// A message was received.
    Recv,
    /// A peer's write with immediate data was received.
    RecvWriteImm,
}

/// A completion queue entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    /// Of the work request.
    pub wr_id: u64,
    /// Queue pair it was posted to.
    pub qpn: Qpn,
    /// Its kind.
    pub verb: Verb,
    /// How it ended; the fields below are meaningful on success only.
    pub status: Status,
    /// Bytes of the message; of a datagram received, those of its network header too.
    pub len: u32,
    /// Immediate data received.
    pub imm: Option<u32>,
    /// Sender of a datagram received.
    pub src_qp: Option<Qpn>,
}

/// Why a work request was not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum PostError {
    /// No queue pair has this number.
    #[error("no queue pair {0:?}")]
    UnknownQp(Qpn),
    /// The queue pair is not connected, or has failed.
    #[error("the queue pair is not ready to send or receive")]
    NotReady,
    /// All work requests of the queue are in use.
    #[error("the work queue is full")]
    QueueFull,
    /// Local key, bounds or rights.
    #[error("the memory is not registered under this key, or not for this use")]
    Protection,
    /// More than 2^31 bytes (IBTA 9.7.7).
    #[error("a message has at most 2^31 bytes")]
    TooLong,
    /// A datagram is one packet.
    #[error("a datagram of this queue pair has at most {0} bytes")]
    LongerThanMtu(u16),
    /// Source and destination are not both IPv4 or both IPv6.
    #[error("source and destination address are of two families")]
    Family,
}
