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
    /// An acknowledgement of what was never sent, or of a kind that is reserved: ignored.
    StrayAck,
    /// Seen before; acknowledged again.
    Duplicate,
    /// Ahead of a packet that is missing.
    OutOfSequence,
    /// Too far ahead of the slowest: told to wait.
    WindowFull,
    /// Results are not acknowledged: the parent is told to wait.
    ResultsFull,
    /// A result that went out without the ranks below, which have contributed nothing yet: the parent is told to wait.
    Early,
    /// No packet a rank may send: refused, the job fails.
    InvalidRequest,
    /// A WRITE to memory that the rank was not told of: refused, the job fails.
    RemoteAccess,
    /// Not what the others sent: refused, the job fails.
    Mismatch,
    /// The result went out without it; acknowledged.
    Late,
    /// The job has failed: refused.
    JobFailed,
}

impl Drop {
    /// All reasons, in the order of their counters.
    pub const ALL: [Self; 19] = [
        Self::NotRoce,
        Self::Malformed,
        Self::BadIcrc,
        Self::UnknownQp,
        Self::WrongPeer,
        Self::WrongPartition,
        Self::Transport,
        Self::Unasked,
        Self::StrayAck,
        Self::Duplicate,
        Self::OutOfSequence,
        Self::WindowFull,
        Self::ResultsFull,
        Self::Early,
        Self::InvalidRequest,
        Self::RemoteAccess,
        Self::Mismatch,
        Self::Late,
        Self::JobFailed,
    ];

    /// What it means, for people.
    pub const fn what(self) -> &'static str {
        match self {
            Self::NotRoce => "another protocol",
            Self::Malformed => "lengths or headers that contradict one another",
            Self::BadIcrc => "a wrong ICRC: damaged on its way",
            Self::UnknownQp => "no queue pair of this number: its job has ended, or was never posted",
            Self::WrongPeer => "not from the peer of the queue pair",
            Self::WrongPartition => "another partition key than that of the job",
            Self::Transport => "no reliable connection",
            Self::Unasked => "a response to a READ or an atomic, which the engine never asks for",
            Self::StrayAck => "an acknowledgement of what was never sent, or of a reserved kind: ignored",
            Self::Duplicate => "seen before; acknowledged again",
            Self::OutOfSequence => "ahead of a packet that is missing: lost on its way",
            Self::WindowFull => "too far ahead of the slowest rank, or behind a packet that is: told to wait",
            Self::ResultsFull => "results are not acknowledged below: the engine above is told to wait",
            Self::Early => {
                "a result without the ranks below, which have contributed nothing yet: the engine above is told to wait"
            }
            Self::InvalidRequest => "no packet a rank may send: refused, the job fails",
            Self::RemoteAccess => "a WRITE to memory the rank was not told of: refused, the job fails",
            Self::Mismatch => "another operation, length or place than the others': refused, the job fails",
            Self::Late => "the result went out without it; acknowledged",
            Self::JobFailed => "the job has failed: refused",
        }
    }

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
            Self::StrayAck => "stray_ack",
            Self::Duplicate => "duplicate",
            Self::OutOfSequence => "out_of_sequence",
            Self::WindowFull => "window_full",
            Self::ResultsFull => "results_full",
            Self::Early => "early",
            Self::InvalidRequest => "invalid_request",
            Self::RemoteAccess => "remote_access",
            Self::Mismatch => "mismatch",
            Self::Late => "late",
            Self::JobFailed => "job_failed",
        }
    }
}
