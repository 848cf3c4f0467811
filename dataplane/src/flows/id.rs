//! The words that tell a flow, and where in the switch its frames were seen.

use crate::drops::DropReason;
use crate::parse::KeyParts;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Words of a [`FlowId`].
pub(super) const ID_WORDS: usize = 6;

const KIND: u64 = 3;
const STATIONS: u64 = 1;
const IPV4: u64 = 2;
const IPV6: u64 = 3;
const HAS_PORTS: u64 = 1 << 2;
const HAS_QP: u64 = 1 << 3;
const PROTOCOL: u32 = 8;
const PRIORITY: u32 = 16;
const REASON: u32 = 24;
const IN_PORT: u32 = 32;

/// A flow: addresses, protocol, ports and destination queue pair as far as its frames have them, and [`Where`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct FlowId(pub [u64; ID_WORDS]);

/// Whose frames they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Addresses {
    /// Source and destination of an IP header.
    Ip(IpAddr, IpAddr),
    /// Source and destination in the forwarding table, where there is no IP header.
    Stations(KeyParts, KeyParts),
}

/// Where in the switch frames were seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Where {
    /// Port they came in by.
    pub in_port: u16,
    /// Queue (marks, depth, losses on departure) or priority group (pauses, losses on arrival).
    pub priority: u8,
    /// Why they were lost.
    pub reason: Option<DropReason>,
}

/// `10.0.0.7:49153 -> 10.0.0.9 QP 0x1a`
impl fmt::Display for FlowId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ([src, dst], protocol) = (self.ends(), self.protocol_name());
        let place = |address: String, port: u16| match address.contains(':') {
            true => format!("[{address}]:{port}"),
            false => format!("{address}:{port}"),
        };
        match (self.qp(), self.ports(), protocol) {
            // The source port of RoCEv2 is all that tells ways through a fabric apart.
            (Some(qp), Some((from, _)), _) => write!(f, "{} -> {dst} QP {qp:#x}", place(src, from)),
            (Some(qp), None, _) => write!(f, "{src} -> {dst} QP {qp:#x}"),
            (None, Some((from, to)), protocol) => {
                write!(f, "{} -> {} {}", place(src, from), place(dst, to), protocol.unwrap_or_default())
            }
            (None, None, Some(protocol)) => {
                let number =
                    if protocol.starts_with(|c: char| c.is_ascii_digit()) { "protocol " } else { "" };
                write!(f, "{src} -> {dst} {number}{protocol}")
            }
            (None, None, None) => write!(f, "{src} -> {dst}"),
        }
    }
}

impl FlowId {
    /// Frames between two stations, given by their keys.
    pub(crate) fn of_stations(src_key: u64, dst_key: u64) -> Self {
        Self([STATIONS, 0, src_key, 0, dst_key, 0])
    }

    /// IPv4 packets of this protocol.
    pub(crate) fn of_ipv4(protocol: u8, src: u32, dst: u32) -> Self {
        Self([IPV4 | u64::from(protocol) << PROTOCOL, 0, u64::from(src), 0, u64::from(dst), 0])
    }

    /// The same of IPv6.
    pub(crate) fn of_ipv6(protocol: u8, src: u128, dst: u128) -> Self {
        let words = |address: u128| [address as u64, (address >> 64) as u64];
        let ([s0, s1], [d0, d1]) = (words(src), words(dst));
        Self([IPV6 | u64::from(protocol) << PROTOCOL, 0, s0, s1, d0, d1])
    }

    /// With these ports of UDP or TCP.
    #[must_use]
    pub(crate) fn with_ports(mut self, src: u16, dst: u16) -> Self {
        self.0[0] |= HAS_PORTS;
        self.0[1] |= u64::from(src) | u64::from(dst) << 16;
        self
    }

    /// To this queue pair.
    #[must_use]
    pub(crate) fn with_qp(mut self, qp: u32) -> Self {
        self.0[0] |= HAS_QP;
        self.0[1] |= u64::from(qp) << 32;
        self
    }

    /// Seen here.
    #[must_use]
    pub fn at(mut self, at: Where) -> Self {
        let reason = at.reason.map_or(0, |reason| reason as u64 + 1);
        self.0[0] |= u64::from(at.priority) << PRIORITY | reason << REASON | u64::from(at.in_port) << IN_PORT;
        self
    }

    /// Whose frames they are; `None`: of nobody, no flow was told.
    pub fn addresses(&self) -> Option<Addresses> {
        let [_, _, s0, s1, d0, d1] = self.0;
        let v4 = |word: u64| IpAddr::V4(Ipv4Addr::from(word as u32));
        let v6 = |low: u64, high: u64| IpAddr::V6(Ipv6Addr::from(u128::from(high) << 64 | u128::from(low)));
        match self.0[0] & KIND {
            STATIONS => Some(Addresses::Stations(KeyParts::of(s0), KeyParts::of(d0))),
            IPV4 => Some(Addresses::Ip(v4(s0), v4(d0))),
            IPV6 => Some(Addresses::Ip(v6(s0, s1), v6(d0, d1))),
            _ => None,
        }
    }

    /// Protocol of the IP header, 0 without one.
    pub fn protocol(&self) -> u8 {
        (self.0[0] >> PROTOCOL) as u8
    }

    /// Source and destination port of UDP or TCP.
    pub fn ports(&self) -> Option<(u16, u16)> {
        (self.0[0] & HAS_PORTS != 0).then_some((self.0[1] as u16, (self.0[1] >> 16) as u16))
    }

    /// Destination queue pair of a BTH or an RC Link header.
    pub fn qp(&self) -> Option<u32> {
        (self.0[0] & HAS_QP != 0).then_some((self.0[1] >> 32) as u32)
    }

    /// Where they were seen.
    pub fn place(&self) -> Where {
        let reason = (self.0[0] >> REASON) as u8;
        Where {
            in_port: (self.0[0] >> IN_PORT) as u16,
            priority: (self.0[0] >> PRIORITY) as u8,
            reason: usize::from(reason).checked_sub(1).and_then(|at| DropReason::ALL.get(at).copied()),
        }
    }

    /// The flow wherever it was seen.
    #[must_use]
    pub fn anywhere(mut self) -> Self {
        self.0[0] &= (1 << PRIORITY) - 1;
        self
    }

    /// Source and destination, as people write them.
    pub fn ends(&self) -> [String; 2] {
        match self.addresses() {
            None => ["unknown".into(), "unknown".into()],
            Some(Addresses::Ip(src, dst)) => [src.to_string(), dst.to_string()],
            Some(Addresses::Stations(src, dst)) => [src.to_string(), dst.to_string()],
        }
    }

    /// The name of the protocol of the IP header, or its number; `None` without one. Numbers and names are IANA's.
    pub fn protocol_name(&self) -> Option<String> {
        let name = match self.protocol() {
            0 => return None,
            1 => "icmp",
            2 => "igmp",
            4 => "ipip",
            6 => "tcp",
            17 => "udp",
            41 => "ipv6",
            47 => "gre",
            50 => "esp",
            51 => "ah",
            58 => "icmp6",
            88 => "eigrp",
            89 => "ospf",
            103 => "pim",
            112 => "vrrp",
            132 => "sctp",
            136 => "udplite",
            number => return Some(number.to_string()),
        };
        Some(name.into())
    }

    /// Depends on all words.
    pub(super) fn hash(&self) -> u8 {
        let mix = |hash: u64, word: &u64| (hash ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
        (self.0.iter().fold(0, mix) >> 32) as u8
    }
}
