//! What a station and its queue pairs are made with.

use crate::dcqcn::firmware::{Dcqcn, DcqcnError};
use crate::rc::psn::Psn;
use crate::roce::hca::QpError;
use crate::roce::qp::TrafficClass;
use crate::roce::wire::Qpn;
use crate::station::MIN_MESSAGE;
use std::net::IpAddr;
use thiserror::Error;
use weir_dataplane::types::{Mac, Nanos};

/// Messages of one direction of a connection that are under way at most: each has a place of its own in the
/// memory of both sides.
pub const SLOTS: u64 = 16;

/// What a station is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StationConfig {
    /// Its address.
    pub mac: Mac,
    /// Its IP address.
    pub ip: IpAddr,
    /// Rate of its link, bits/s: nothing is sent faster, and PFC quanta are measured by it.
    pub rate: u64,
    /// PFC priorities it obeys, one bit each.
    pub obey: u8,
    /// Time lost between two calls that is made good, ns; 0 in virtual time.
    pub slack: Nanos,
    /// From the answer of a peer to the first message to it, ns: what is on the way needs to have seen that
    /// the peer is there. 0 in virtual time.
    pub settle: Nanos,
    /// Number of its first queue pair.
    pub first_qpn: u32,
}

/// The other end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Its IP address, of the same family as ours.
    pub ip: IpAddr,
    /// Its MAC address; `None`: asked for by ARP, and nothing is sent before the answer. IPv6 has no ARP.
    pub mac: Option<Mac>,
    /// Its queue pair.
    pub qpn: Qpn,
}

/// How fast a queue pair sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rate {
    /// This many bits/s on the wire, whatever the peer says.
    Fixed(u64),
    /// DCQCN decides.
    Dcqcn(Dcqcn),
}

/// How messages are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// SEND, into receive buffers.
    Send,
    /// RDMA WRITE into the peer's memory; the last of several carries immediate data, which tells the peer to
    /// look at them.
    Write(Remote),
}

/// Memory of the peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Remote {
    /// Its first address.
    pub va: u64,
    /// Its key.
    pub rkey: u32,
}

impl Remote {
    /// Where queue pair `nth` (from 0) of a station takes messages unless told otherwise: known without asking, so
    /// that two stations are connected by their configuration alone.
    pub fn of_pair(nth: u32) -> Self {
        Self { va: (u64::from(nth) + 1) << 40, rkey: nth << 9 | 1 }
    }
}

/// Messages to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stream {
    /// How.
    pub operation: Operation,
    /// Bytes of each message, from [`MIN_MESSAGE`].
    pub bytes: u32,
    /// How many; `None`: until told to stop.
    pub messages: Option<u64>,
    /// Not before this time, ns.
    pub start: Nanos,
}

/// One connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PairConfig {
    /// The other end.
    pub peer: Peer,
    /// PSN of the first packet sent.
    pub send_psn: Psn,
    /// PSN of the first packet received.
    pub recv_psn: Psn,
    /// VLAN id of the tag on all frames, if any.
    pub vlan: Option<u16>,
    /// Marks of requests and their answers.
    pub data: TrafficClass,
    /// Marks of CNPs.
    pub cnp: TrafficClass,
    /// Path MTU: 256, 512, 1024, 2048 or 4096 bytes of payload.
    pub mtu: u16,
    /// Packets sent and not acknowledged.
    pub window: u32,
    /// Silence after which packets are sent again, ns.
    pub ack_timeout: Nanos,
    /// Times that happens without progress before the connection fails.
    pub retries: u8,
    /// Least time between two CNPs, ns.
    pub cnp_interval: Nanos,
    /// Rate control.
    pub rate: Rate,
    /// Longest message taken, bytes; 0: none is taken.
    pub receive_bytes: u32,
    /// Where peers write messages to, and read them from: the slots of [`SLOTS`] messages one after the other.
    pub memory: Remote,
    /// Messages are checked: their content is that of a station. Without it whatever comes is taken as it is, and each
    /// SEND and each WRITE with immediate data is a message.
    pub verify: bool,
    /// Messages that will come, if known.
    pub expect: Option<u64>,
    /// Messages to send, if any.
    pub stream: Option<Stream>,
    /// Record what moves the rate, from the start (CC-021).
    pub trace: bool,
}

/// Why a connection is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum StationError {
    /// The queue pair.
    #[error(transparent)]
    Qp(#[from] QpError),
    /// IPv6, and nothing says where the peer is.
    #[error("peer {0}: an IPv6 peer is not asked for, its MAC address must be given")]
    Unknown(IpAddr),
    /// The rate control.
    #[error(transparent)]
    Rate(#[from] DcqcnError),
    /// A message too short to be checked, or longer than 2^31 bytes.
    #[error("messages of {0} bytes: they have {MIN_MESSAGE} to 2147483648")]
    Message(u32),
    /// Two connections with one key.
    #[error("memory key {0} is taken by another connection")]
    Key(u32),
    /// The memory of all messages under way would be too large.
    #[error("no memory: {SLOTS} messages of {0} bytes each are held")]
    Memory(u32),
}
