//! IGMP, MLD and PIM, as far as a bridge has to tell their frames from others: whoever keeps the state reads them in full.

use super::Profile;
use super::headers::{IPV4, IPV6, endpoints, tags};

/// Protocol numbers of IP.
const HOP_BY_HOP: u8 = 0;
const IGMP: u8 = 2;
const ICMPV6: u8 = 58;
const PIM: u8 = 103;

/// A frame that tells where members of multicast groups or routers are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MembershipFrame {
    /// A host joins or leaves groups: for routers alone.
    OfHost,
    /// A router asks who has joined, or says that it is there (PIM): for all.
    OfRouter,
}

/// IPv4 packets of this protocol to a group may be [`MembershipFrame`]s: no decision is kept about them.
#[inline(always)]
pub(super) fn is_of_ipv4(protocol: u8) -> bool {
    matches!(protocol, IGMP | PIM)
}

/// The same of what follows an IPv6 header: MLD stands behind a router alert.
#[inline(always)]
pub(super) fn is_of_ipv6(next_header: u8) -> bool {
    matches!(next_header, HOP_BY_HOP | PIM)
}

impl Profile {
    /// What a frame is that has no key ([`Profile::flow_key`]), if it is of IGMP, MLD or PIM.
    pub fn membership_frame(&self, bytes: &[u8]) -> Option<MembershipFrame> {
        use MembershipFrame::{OfHost, OfRouter};
        let tags = tags(bytes, self.ethertype.filter(|_| self.ip)?, self.vlan)?;
        let packet = endpoints(bytes, tags.ethertype, tags.payload)?;
        let byte = |at: usize| bytes.get(packet.behind + at).copied();
        match (tags.ethertype, packet.protocol) {
            (IPV4 | IPV6, PIM) => Some(OfRouter),
            (IPV4, IGMP) => match byte(0)? {
                0x11 => Some(OfRouter),
                0x12 | 0x16 | 0x17 | 0x22 => Some(OfHost),
                _ => None,
            },
            (IPV6, HOP_BY_HOP) if byte(0)? == ICMPV6 => match byte(8 * (1 + usize::from(byte(1)?)))? {
                130 => Some(OfRouter),
                131 | 132 | 143 => Some(OfHost),
                _ => None,
            },
            _ => None,
        }
    }
}
