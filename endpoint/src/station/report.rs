//! What a station and its connections came to.

use crate::rclink::endpoint;
use crate::roce::hca::{self, Failure};
use crate::station::roce::Ended;
use std::fmt;
use std::net::IpAddr;
use weir_dataplane::pfc::react::RxCounters;
use weir_dataplane::types::{Mac, Nanos, PRIORITIES};

/// What the endpoint of a station counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndpointCounters {
    /// A RoCEv2 adapter.
    Roce(hca::Counters),
    /// An RC Link endpoint.
    RcLink(endpoint::Counters),
}

impl EndpointCounters {
    /// Frames sent again.
    pub fn retransmitted(&self) -> u64 {
        match self {
            Self::Roce(c) => c.tx_retransmitted,
            Self::RcLink(c) => c.tx_retransmitted,
        }
    }

    /// Acknowledgements overdue.
    pub fn timeouts(&self) -> u64 {
        match self {
            Self::Roce(c) => c.timeouts,
            Self::RcLink(c) => c.timeouts,
        }
    }

    /// Frames that arrived marked CE.
    pub fn rx_ce(&self) -> u64 {
        match self {
            Self::Roce(c) => c.rx_ce,
            Self::RcLink(c) => c.rx_ce,
        }
    }

    /// CNPs sent.
    pub fn tx_cnp(&self) -> u64 {
        match self {
            Self::Roce(c) => c.tx_cnp,
            Self::RcLink(c) => c.tx_cnp,
        }
    }

    /// PFC frames sent: the host's own buffer was full.
    pub fn tx_pfc(&self) -> u64 {
        match self {
            Self::Roce(_) => 0,
            Self::RcLink(c) => c.tx_pfc,
        }
    }

    /// Frames that are not as anybody sent them.
    pub fn malformed(&self) -> u64 {
        match self {
            Self::Roce(c) => c.rx_bad_icrc + c.rx_malformed,
            Self::RcLink(c) => c.rx_malformed,
        }
    }

    /// Frames lost here because a receive memory was full.
    pub fn no_room(&self) -> u64 {
        match self {
            Self::Roce(_) => 0,
            Self::RcLink(c) => c.rx_no_room,
        }
    }
}

/// What a station saw.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StationReport {
    /// Of the endpoint.
    pub adapter: EndpointCounters,
    /// Nanoseconds each priority was held back.
    pub paused_ns: [Nanos; PRIORITIES],
    /// Times each priority went from running to held back.
    pub pauses: [u64; PRIORITIES],
    /// PFC and PAUSE frames received.
    pub control: RxCounters,
    /// Frames handed out, MAC control not among them.
    pub tx_frames: u64,
    /// Their bytes without FCS.
    pub tx_bytes: u64,
    /// Frames handed in, MAC control not among them.
    pub rx_frames: u64,
    /// Their bytes without FCS.
    pub rx_bytes: u64,
    /// Of those, unicast frames for another address: the switch did not know where it is.
    pub rx_flooded: u64,
    /// Of those, frames that resolve addresses.
    pub rx_arp: u64,
    /// Of those, pings, which are answered.
    pub rx_echo: u64,
    /// Of those, frames that mean nothing to the station.
    pub rx_other: u64,
}

/// What one connection came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Messages handed to the endpoint.
    pub posted: u64,
    /// Of those, messages the peer has acknowledged; where nobody acknowledges, messages that have left.
    pub acknowledged: u64,
    /// Their bytes.
    pub acknowledged_bytes: u64,
    /// Messages received, right and in order.
    pub received: u64,
    /// Their bytes.
    pub received_bytes: u64,
    /// Messages that never came, where nobody sends them again.
    pub lost: u64,
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

impl Progress {
    /// Nothing yet.
    pub(super) fn new() -> Self {
        Self { lowest_rate: u64::MAX, ..Self::default() }
    }

    /// A message of `len` bytes was looked at: it is number `content`, or wrong, where `next` was to come.
    /// `gaps`: what is missing is lost, nobody sends it again.
    pub(super) fn look(&mut self, content: Option<u64>, next: &mut u64, len: u32, gaps: bool, now: Nanos) {
        match content {
            Some(number) if number == *next || (gaps && number > *next) => {
                self.lost += number - *next;
                self.received += 1;
                self.received_bytes += u64::from(len);
                self.receive_span = Some((self.receive_span.map_or(now, |(first, _)| first), now));
            }
            // It was counted as lost, and comes after all or twice.
            Some(_) if gaps => {
                self.out_of_order += 1;
                return;
            }
            Some(_) => self.out_of_order += 1,
            None => self.corrupted += 1,
        }
        *next = content.unwrap_or(*next).wrapping_add(1);
    }
}

/// How a host is addressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Address {
    /// IP.
    Ip(IpAddr),
    /// Formats without IP.
    Mac(Mac),
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ip(ip) => ip.fmt(f),
            Self::Mac(mac) => mac.fmt(f),
        }
    }
}

/// What a connection is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A queue pair.
    Qp,
    /// Multicast messages of one sender (RC Link TYPE2).
    Multicast,
    /// Raw Ethernet frames of one sender (RC Link TYPE3).
    Raw,
}

impl Kind {
    /// Key of its number, where one is given.
    pub fn key(self) -> &'static str {
        match self {
            Self::Qp => "qpn",
            Self::Multicast => "multicast",
            Self::Raw => "raw",
        }
    }
}

/// One connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionReport {
    /// What it is.
    pub kind: Kind,
    /// Its number here, among those of its kind.
    pub number: u32,
    /// The other end, and its number there.
    pub peer: (Address, u32),
    /// The peer is known.
    pub connected: bool,
    /// The peer acknowledges what it has received, and what is lost is sent again.
    pub reliable: bool,
    /// Why it ended, if it did.
    pub failure: Option<Failure>,
    /// The rate now, bits/s.
    pub rate: u64,
    /// It sends messages.
    pub sends: bool,
    /// Messages that will come, if known.
    pub expect: Option<u64>,
    /// Of a rank: why there are no more sums, if it heard.
    pub ended: Option<Ended>,
    /// Messages.
    pub progress: Progress,
}

impl ConnectionReport {
    /// Its number, and what it is where that is no queue pair.
    pub fn name(&self) -> String {
        match self.kind {
            Kind::Qp => self.number.to_string(),
            Kind::Multicast | Kind::Raw => format!("{} {}", self.kind.key(), self.number),
        }
    }

    /// The other end, for people.
    pub fn peer_name(&self) -> String {
        match self.kind {
            Kind::Qp => format!("{} {}", self.peer.0, self.peer.1),
            Kind::Multicast | Kind::Raw => self.peer.0.to_string(),
        }
    }
}
