//! Why a frame was not used.

/// A reason. Names are an interface: they appear in reports and metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Drop {
    /// Another protocol.
    NotRoce,
    /// Lengths or headers that contradict one another.
    Malformed,
    /// A wrong ICRC.
    BadIcrc,
    /// No queue pair of this number.
    UnknownQp,
    /// Not from the peer of the queue pair.
    WrongPeer,
    /// Another partition.
    WrongPartition,
    /// No reliable connection.
    Transport,
    /// A response to a READ or an atomic, which the engine never asks for.
    Unasked,
    /// Seen before; acknowledged again.
    Duplicate,
    /// Ahead of a packet that is missing.
    OutOfSequence,
    /// Too far ahead of the slowest: told to wait.
    WindowFull,
    /// Results are not acknowledged: the parent is told to wait.
    ResultsFull,
    /// No packet a rank may send: refused, the job fails.
    InvalidRequest,
    /// Not what the others sent: refused, the job fails.
    Mismatch,
    /// The result went out without it; acknowledged.
    Late,
    /// The job has failed: refused.
    JobFailed,
}

impl Drop {
    /// All reasons, in the order of their counters.
    pub const ALL: [Self; 16] = [
        Self::NotRoce,
        Self::Malformed,
        Self::BadIcrc,
        Self::UnknownQp,
        Self::WrongPeer,
        Self::WrongPartition,
        Self::Transport,
        Self::Unasked,
        Self::Duplicate,
        Self::OutOfSequence,
        Self::WindowFull,
        Self::ResultsFull,
        Self::InvalidRequest,
        Self::Mismatch,
        Self::Late,
        Self::JobFailed,
    ];

    /// The name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::NotRoce => "not_roce",
            Self::Malformed => "malformed",
            Self::BadIcrc => "bad_icrc",
            Self::UnknownQp => "unknown_qp",
            Self::WrongPeer => "wrong_peer",
            Self::WrongPartition => "wrong_partition",
            Self::Transport => "transport",
            Self::Unasked => "unasked",
            Self::Duplicate => "duplicate",
            Self::OutOfSequence => "out_of_sequence",
            Self::WindowFull => "window_full",
            Self::ResultsFull => "results_full",
            Self::InvalidRequest => "invalid_request",
            Self::Mismatch => "mismatch",
            Self::Late => "late",
            Self::JobFailed => "job_failed",
        }
    }
}
