//! What the owner of a [`super::Endpoint`] sets, posts and gets back.

use crate::rclink::cbfc::{CreditConfig, CreditError};
use crate::rclink::cc_window::{ThresholdError, Window};
use crate::rclink::class::{Class, ClassMap};
use crate::rclink::frame::{Codec, Station};
use crate::rclink::requester::Reliability;
use crate::rclink::watermark::PauseWatermarks;
use thiserror::Error;
use weir_dataplane::types::Nanos;

/// `CBFC_EN`: one or the other (SW-020).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlowControl {
    /// Pause the link partner by priority, and obey it.
    Pfc {
        /// The priorities with PFC, bit p for priority p.
        priorities: u8,
    },
    /// Credits end to end for TYPE1 data. PFC is neither sent nor obeyed (SW-022).
    Cbfc {
        /// What credits are worth and how many there are.
        credits: CreditConfig,
        /// Every so long credits not yet reported, and counts that mend losses, are sent, ns.
        interval: Nanos,
    },
}

/// What an endpoint is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EndpointConfig {
    /// Frame format.
    pub codec: Codec,
    /// Its own addresses.
    pub station: Station,
    /// VLAN id of the tag on all its frames, if any; the PCP is the priority.
    pub vlan: Option<u16>,
    /// Priority of each class.
    pub classes: ClassMap,
    /// PFC or credits.
    pub flow_control: FlowControl,
    /// Rate of the link, bits/s: what a PFC quantum is.
    pub rate: u64,
    /// Receive memory for requests.
    pub request: PauseWatermarks,
    /// Receive memory for responses.
    pub response: PauseWatermarks,
    /// Receive memory for multicast and raw Ethernet.
    pub multicast: PauseWatermarks,
    /// CNPs of one queue pair at most so far apart are one, ns.
    pub cnp_merge: Nanos,
    /// Data can be marked CE; Standard alone.
    pub ecn: bool,
    /// Go-back-N. Without it (LITE mode, SW-131) every message is sent once and not acknowledged, and what
    /// arrives is taken: the network must not lose. AFH_Lite knows no other mode, whatever stands here; both
    /// ends must agree.
    pub retransmit: bool,
}

/// What a queue pair is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QpConfig {
    /// The other end.
    pub peer: Station,
    /// Number of its queue pair.
    pub peer_qp: u16,
    /// [`Class::Request`] or [`Class::Response`].
    pub class: Class,
    /// Partition.
    pub pkey: u8,
    /// Messages that can wait or be in flight.
    pub depth: usize,
    /// Go-back-N; LITE mode has none.
    pub reliability: Reliability,
    /// Rate window.
    pub window: Window,
    /// Bytes on the wire per window.
    pub length_thr: u32,
    /// Time without the processor whose windows are made up for, ns; 0 in virtual time and in hardware.
    pub slack: Nanos,
}

/// Why a link or queue pair is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum EndpointError {
    /// The credits.
    #[error(transparent)]
    Credits(#[from] CreditError),
    /// The rate.
    #[error(transparent)]
    Threshold(#[from] ThresholdError),
    /// All 8192 numbers are taken.
    #[error("no queue pair number is left")]
    QpNumbers,
    /// The peer's number has more than 13 bits.
    #[error("queue pair {0} of the peer: numbers go to 8191")]
    PeerQp(u16),
    /// Neither request nor response.
    #[error("a queue pair carries requests or responses, not {0:?}")]
    Class(Class),
    /// Outside 1 to 2048.
    #[error("window of {0} packets: it is 1 to 2048, half the PSN space")]
    Window(u16),
    /// A second queue pair to the same peer on one channel, in Lite, where nothing else tells them apart.
    #[error("AFH_Lite: a queue pair to this peer on channel {0} is there already")]
    Channel(u8),
}

/// Why a message is not taken.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum PostError {
    /// No queue pair has this number, or it has failed.
    #[error("queue pair {0} is not there or has failed")]
    Qp(u16),
    /// The format can not carry so many bytes in one frame.
    #[error("payload of {0} bytes does not fit a frame of this format")]
    Length(usize),
    /// The queue is full; here is the payload back.
    #[error("the send queue is full")]
    Full(Vec<u8>),
}

/// Something for the owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A message arrived, in order (LITE mode: in the order of arrival).
    Received {
        /// Queue pair.
        qp: u16,
        /// The message.
        payload: Vec<u8>,
    },
    /// A multicast message arrived.
    Multicast {
        /// Station bits of the sender.
        src: u64,
        /// The message.
        payload: Vec<u8>,
    },
    /// Another Ethernet frame arrived (TYPE3).
    Raw(Vec<u8>),
    /// The oldest messages of a queue pair have arrived at the peer.
    Acknowledged {
        /// Queue pair.
        qp: u16,
        /// How many.
        messages: u64,
    },
    /// The peer saw congestion (`ABN_INFO_VLD_I`): see [`super::Endpoint::set_threshold`].
    Cnp(u16),
    /// The peer does not answer; the queue pair is dead.
    Failed(u16),
}

/// What an endpoint has seen. Only grows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Messages sent, retransmissions included.
    pub tx_data: u64,
    /// Messages sent again.
    pub tx_retransmitted: u64,
    /// ACKs and NAKs sent.
    pub tx_acks: u64,
    /// CNPs sent.
    pub tx_cnp: u64,
    /// Credit messages sent.
    pub tx_credit: u64,
    /// PFC frames sent.
    pub tx_pfc: u64,
    /// Messages taken.
    pub rx_data: u64,
    /// Messages seen before.
    pub rx_duplicates: u64,
    /// Messages ahead of the expected one; in LITE mode, taken all the same.
    pub rx_out_of_sequence: u64,
    /// Messages lost because a receive memory was full.
    pub rx_no_room: u64,
    /// Frames marked CE.
    pub rx_ce: u64,
    /// CNPs received.
    pub rx_cnp: u64,
    /// Malformed frames.
    pub rx_malformed: u64,
    /// Frames for another station, queue pair or partition, or from an unknown peer.
    pub rx_unknown: u64,
    /// Credit messages that said nothing new or nothing possible.
    pub rx_credit_ignored: u64,
    /// Acknowledgements overdue.
    pub timeouts: u64,
}

/// What an endpoint has seen of one queue pair. Only grows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QpCounters {
    /// Messages sent again.
    pub tx_retransmitted: u64,
    /// Acknowledgements overdue.
    pub timeouts: u64,
}

/// A frame to be sent, without FCS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transmit<'a> {
    /// Its priority or virtual channel.
    pub priority: u8,
    /// What it is.
    pub kind: Sent,
    /// The frame; valid until the next call.
    pub bytes: &'a [u8],
}

/// What a frame to be sent is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sent {
    /// A PFC frame, for the link partner.
    Pfc,
    /// An acknowledgement or a credit message.
    Control,
    /// A CNP for the peer of this queue pair.
    Cnp(u16),
    /// A message of a queue pair.
    Data {
        /// Which.
        qp: u16,
        /// Its number, from the first message of the queue pair.
        number: u64,
        /// It had been sent before.
        again: bool,
    },
    /// The oldest multicast message that waited.
    Multicast,
    /// The oldest raw frame that waited.
    Raw,
}
