//! What a station and its connections are made with.

use crate::congestion::backoff::{BackoffError, BackoffParams};
use crate::rclink::Reliability;
use crate::rclink::cc_window::Window;
use crate::rclink::class::Class;
use crate::rclink::endpoint::{EndpointConfig, EndpointError};
use crate::rclink::frame;
use thiserror::Error;
use weir_dataplane::types::Nanos;

/// What a station is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StationConfig {
    /// Its endpoint; nothing is sent faster than the rate of its link.
    pub endpoint: EndpointConfig,
    /// Time lost between two calls that is made good, ns; 0 in virtual time.
    pub slack: Nanos,
    /// Messages are read this fast at most, bits/s of payload with headers; `None`: as they come.
    pub read_rate: Option<u64>,
}

/// Where messages go, or come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Route {
    /// TYPE1: a queue pair of the peer.
    Qp {
        /// Its number there.
        peer_qp: u16,
        /// Requests of a bank, or responses.
        class: Class,
    },
    /// TYPE2, sent once, not acknowledged. The peer is the group to send to, or the sender to hear.
    Multicast,
    /// TYPE3, sent once, not acknowledged; not in Lite.
    Raw,
}

/// Messages to send, one frame each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stream {
    /// Bytes of each.
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
    pub peer: frame::Station,
    /// What kind of frames.
    pub route: Route,
    /// Partition.
    pub pkey: u8,
    /// Go-back-N, where the link has it; messages that wait or are in flight are as many as its window.
    pub reliability: Reliability,
    /// Rate window of a queue pair.
    pub window: Window,
    /// Highest rate, bits/s, preamble, FCS and gap not counted.
    pub rate: u64,
    /// What a CNP does; `None`: nothing.
    pub backoff: Option<BackoffParams>,
    /// Messages that will come, if known.
    pub expect: Option<u64>,
    /// Messages to send, if any.
    pub stream: Option<Stream>,
}

impl PairConfig {
    /// Bytes per window at the highest rate.
    pub fn threshold(&self) -> u32 {
        self.window.bytes(self.rate)
    }
}

/// Why a station or a connection is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum StationError {
    /// The endpoint.
    #[error(transparent)]
    Endpoint(#[from] EndpointError),
    /// The back-off.
    #[error(transparent)]
    Backoff(#[from] BackoffError),
    /// A message too short to be checked or to be sent, or too long for one frame.
    #[error("messages of {bytes} bytes: in this format they have {least} to {most}")]
    Message {
        /// What was asked for.
        bytes: u32,
        /// Shortest.
        least: u32,
        /// Longest.
        most: u32,
    },
    /// TYPE3 in AFH_Lite, which has no EtherType to tell it by.
    #[error("AFH_Lite has no raw frames (TYPE3)")]
    Raw,
}
