//! Which frames somebody wants to see: a trace, a capture, a mirror.

use crate::flows::{Addresses, FlowId};
use crate::parse::{Parsed, Profile};
use crate::types::Mac;
use std::net::IpAddr;

/// Which frames: all conditions that are set must hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// Destination address.
    pub dst: Option<Mac>,
    /// Source address.
    pub src: Option<Mac>,
    /// EtherType, behind VLAN tags.
    pub ethertype: Option<u16>,
    /// DSCP of the IP header.
    pub dscp: Option<u8>,
    /// Source or destination port of UDP over IP.
    pub udp_port: Option<u16>,
    /// Source or destination address of the IP header.
    pub ip: Option<IpAddr>,
    /// Destination queue pair of RoCE or RC Link.
    pub qp: Option<u32>,
}

impl Filter {
    /// A frame of `len` bytes of which these can be read, in the format of `profile`, and of which this was read, is meant.
    pub fn admits(&self, profile: &Profile, bytes: &[u8], len: usize, parsed: &Parsed) -> bool {
        self.admits_addresses(bytes, parsed)
            && self.admits_ethertype(profile, bytes)
            && self
                .udp_port
                .is_none_or(|port| profile.udp_ports(bytes).is_some_and(|ends| ends.contains(&port)))
            && (self.ip.is_none() && self.qp.is_none() || self.is_flow(profile.flow_id(bytes, len)))
    }

    fn admits_ethertype(&self, profile: &Profile, bytes: &[u8]) -> bool {
        self.ethertype.is_none_or(|wanted| profile.ethertype_of(bytes) == Some(wanted))
    }

    fn admits_addresses(&self, bytes: &[u8], parsed: &Parsed) -> bool {
        let is =
            |at: usize, mac: Option<Mac>| mac.is_none_or(|mac| bytes.get(at..at + 6) == Some(&mac.0[..]));
        is(0, self.dst) && is(6, self.src) && self.dscp.is_none_or(|dscp| parsed.dscp == Some(dscp))
    }

    /// Frames with the same [`crate::parse::FlowKey`] as this one may be meant.
    pub(super) fn admits_kind(&self, profile: &Profile, bytes: &[u8], parsed: &Parsed) -> bool {
        self.admits_addresses(bytes, parsed) && self.admits_ethertype(profile, bytes)
    }

    fn is_flow(&self, flow: Option<FlowId>) -> bool {
        let ends = match flow.and_then(|flow| flow.addresses()) {
            Some(Addresses::Ip(src, dst)) => [Some(src), Some(dst)],
            _ => [None; 2],
        };
        self.ip.is_none_or(|ip| ends.contains(&Some(ip)))
            && self.qp.is_none_or(|qp| flow.and_then(|flow| flow.qp()) == Some(qp))
    }
}
