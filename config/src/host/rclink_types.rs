//! RC Link as the file of a host has it, checked.

use crate::words::words;
use std::net::Ipv4Addr;
use weir_dataplane::types::{Mac, Nanos};

words! {
    /// Shape of RC Link frames; the names are those of a port's formats.
    RcFormat {
        /// Ethernet, IPv4 and UDP.
        Standard = "standard",
        /// Traffic class in the source address.
        AfhGen1 = "afh_gen1",
        /// 16-bit stations.
        AfhGen2 = "afh_gen2_16b",
        /// The same without EtherType and reliability header.
        AfhLite = "afh_lite",
    }
    /// Order of flags and traffic class in AFH_GEN2_16b and AFH_Lite.
    RcOctets {
        /// Flags first.
        Public = "public",
        /// Traffic class first.
        RcLink = "rclink",
    }
    /// What keeps receive memories from overflow.
    RcFlowControl {
        /// Pauses.
        Pfc = "pfc",
        /// Credits.
        Cbfc = "cbfc",
    }
    /// Frames of a connection.
    RcType {
        /// A queue pair.
        Type1 = "type1",
        /// Multicast.
        Type2 = "type2",
        /// Raw Ethernet.
        Type3 = "type3",
    }
    /// Class of a queue pair.
    RcClass {
        /// Requests of bank 0.
        Request0 = "request0",
        /// Requests of bank 1.
        Request1 = "request1",
        /// Requests of bank 2.
        Request2 = "request2",
        /// Requests of bank 3.
        Request3 = "request3",
        /// Responses.
        Response = "response",
    }
    /// Length of a rate window.
    RcWindow {
        /// 4.096 us.
        Us4 = "4us",
        /// 8.192 us.
        Us8 = "8us",
        /// 16.384 us.
        Us16 = "16us",
        /// 32.768 us.
        Us32 = "32us",
        /// 65.536 us.
        Us65 = "65us",
    }
}

/// Frames, flow control and connections of RC Link hosts.
#[derive(Clone, Debug)]
pub struct HostRcLink {
    /// Shape of the frames.
    pub format: RcFormat,
    /// Order of two octets.
    pub octets: RcOctets,
    /// CRC over header and payload.
    pub crc: bool,
    /// UDP checksum field.
    pub udp_checksum: u16,
    /// VLAN id of the tag, if there is one.
    pub vlan: Option<u16>,
    /// Go-back-N.
    pub reliable: bool,
    /// Data can be marked.
    pub ecn: bool,
    /// CNPs so far apart are one, ns.
    pub cnp_merge: Nanos,
    /// What a CNP does, if anything.
    pub backoff: Option<HostBackoff>,
    /// Pauses or credits.
    pub flow_control: RcFlowControl,
    /// Bytes of a credit.
    pub credit_bytes: u16,
    /// Credits of a channel.
    pub credits: u32,
    /// Longest frames whose credits are reported together.
    pub credit_report: u8,
    /// Longest time between two reports, ns.
    pub credit_interval: Nanos,
    /// Priority of each class.
    pub priorities: RcPriorities,
    /// Time for which the memories have room after a pause, ns.
    pub round_trip: Nanos,
    /// bit/s; `None`: as they come.
    pub read_rate: Option<u64>,
    /// Connections, in order.
    pub qps: Vec<HostRcQp>,
}

/// Priority of each class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RcPriorities {
    /// Raw Ethernet.
    pub raw: u8,
    /// Multicast.
    pub multicast: u8,
    /// Responses.
    pub response: u8,
    /// Requests by bank.
    pub request: [u8; 4],
    /// Acknowledgements, credits.
    pub ack: u8,
    /// CNPs.
    pub cnp: u8,
}

impl RcPriorities {
    /// Of a class.
    pub fn of(&self, class: RcClass) -> u8 {
        match class {
            RcClass::Request0 => self.request[0],
            RcClass::Request1 => self.request[1],
            RcClass::Request2 => self.request[2],
            RcClass::Request3 => self.request[3],
            RcClass::Response => self.response,
        }
    }
}

/// What a CNP does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostBackoff {
    /// ns.
    pub cut_period: Nanos,
    /// ns.
    pub raise_period: Nanos,
    /// bit/s; `None`: a share of the rate.
    pub raise: Option<u64>,
    /// bit/s; `None`: a share of the rate.
    pub min_rate: Option<u64>,
}

/// One connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostRcQp {
    /// Index of its port.
    pub port: usize,
    /// Its frames.
    pub kind: RcType,
    /// The other end.
    pub peer_mac: Mac,
    /// The other end; unspecified where the format has none.
    pub peer_ip: Ipv4Addr,
    /// The other end.
    pub peer_qp: u16,
    /// Its class.
    pub class: RcClass,
    /// Partition.
    pub pkey: u8,
    /// Packets in flight.
    pub window: u16,
    /// Packets per acknowledgement.
    pub ack_every: u16,
    /// ns.
    pub ack_timeout: Nanos,
    /// Retries without progress.
    pub retries: u8,
    /// Rate window.
    pub cc_window: RcWindow,
    /// Highest rate, bit/s; `None`: that of the port.
    pub rate: Option<u64>,
    /// Messages that will come.
    pub expect: Option<u64>,
    /// Messages to send.
    pub stream: Option<HostRcStream>,
}

/// Messages a connection sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostRcStream {
    /// Bytes of each.
    pub bytes: u32,
    /// How many; `None`: without end.
    pub messages: Option<u64>,
    /// Not before this time, ns.
    pub start: Nanos,
}
