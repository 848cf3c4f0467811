//! What a responder says of the packets it was sent (IBTA 9.7.5.2).

/// The meaning of an AETH syndrome (IBTA 9.7.5.2.2 and table 45).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Syndrome {
    /// Acknowledge; the code of the receive credits, 0x1f: not given.
    Ack(u8),
    /// Receiver not ready; the code of the wait, see [`rnr_wait`].
    Rnr(u8),
    /// Negative acknowledge.
    Nak(Nak),
    /// A reserved value: to be ignored.
    Reserved(u8),
}

/// Why a request was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Nak {
    /// A packet is missing; the PSN is the one expected.
    Sequence,
    /// Malformed, unsupported, or longer than the receive buffer.
    InvalidRequest,
    /// Memory region key, bounds or rights.
    RemoteAccess,
    /// The responder failed locally.
    RemoteOperational,
}

impl Syndrome {
    /// ACK without credit information, the answer of a responder that relies on RNR NAKs.
    pub const ACK_NO_CREDITS: Self = Self::Ack(0x1f);
}

/// Nanoseconds a requester waits after an RNR NAK with this 5-bit code (IBTA table 46).
pub fn rnr_wait(code: u8) -> u64 {
    const UNITS_OF_10_US: [u64; 32] = [
        65536, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048,
        3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152,
    ];
    UNITS_OF_10_US[usize::from(code & 0x1f)] * 10_000
}

/// The code of the shortest wait that is at least `wait` ns, or of the longest there is.
pub fn rnr_code(wait: u64) -> u8 {
    (1..32).find(|&code| rnr_wait(code) >= wait).unwrap_or(0)
}
