//! What a station and its connections came to.

use crate::roce::hca::{Counters, Failure};
use crate::roce::wire::Qpn;
use std::net::Ipv4Addr;
use weir_dataplane::pfc::react::RxCounters;
use weir_dataplane::types::{Nanos, PRIORITIES};

/// What a station saw.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StationReport {
    /// Of the adapter.
    pub hca: Counters,
    /// Nanoseconds each priority was held back.
    pub paused_ns: [Nanos; PRIORITIES],
    /// Times each priority went from running to held back.
    pub pauses: [u64; PRIORITIES],
    /// PFC and PAUSE frames received.
    pub control: RxCounters,
    /// Frames handed out, ARP among them.
    pub tx_frames: u64,
    /// Their bytes without FCS.
    pub tx_bytes: u64,
    /// Frames handed in, MAC control not among them.
    pub rx_frames: u64,
    /// Their bytes without FCS.
    pub rx_bytes: u64,
    /// Of those, unicast frames for another address: the switch did not know where it is.
    pub rx_flooded: u64,
    /// Of those, ARP.
    pub rx_arp: u64,
    /// Of those, frames that are neither ARP nor RoCE.
    pub rx_other: u64,
}

/// What one connection came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Messages handed to the adapter.
    pub posted: u64,
    /// Of those, messages the peer has acknowledged.
    pub acknowledged: u64,
    /// Their bytes.
    pub acknowledged_bytes: u64,
    /// Messages received, right and in order.
    pub received: u64,
    /// Their bytes.
    pub received_bytes: u64,
    /// Messages that are right but not the ones that were to come.
    pub out_of_order: u64,
    /// Messages whose content is wrong.
    pub corrupted: u64,
    /// CNPs received, those between two looks being one.
    pub cnps: u64,
    /// Data frames sent, those sent again among them.
    pub data_frames: u64,
    /// When the first message was posted, ns.
    pub first_post: Option<Nanos>,
    /// When the last message was acknowledged, ns.
    pub last_ack: Nanos,
    /// When the first and the last message were received, ns.
    pub receive_span: Option<(Nanos, Nanos)>,
    /// Lowest rate, bits/s.
    pub lowest_rate: u64,
}

/// One connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PairReport {
    /// Its number here.
    pub qpn: Qpn,
    /// The other end.
    pub peer: (Ipv4Addr, Qpn),
    /// The peer is known.
    pub connected: bool,
    /// Why it ended, if it did.
    pub failure: Option<Failure>,
    /// The rate now, bits/s.
    pub rate: u64,
    /// Messages.
    pub progress: Progress,
}
