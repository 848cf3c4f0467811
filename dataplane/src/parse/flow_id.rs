//! Which flow a frame belongs to, for whoever wants to name it. Not on the path of a frame.

use super::headers::{self, Endpoints, IPV4, TCP, UDP, be16, endpoints};
use super::{Profile, Transport};
use crate::flows::FlowId;

impl Profile {
    /// The flow of a frame of `len` bytes of which `bytes` can be read. `None`: it has no addresses.
    #[cold]
    pub fn flow_id(&self, bytes: &[u8], len: usize) -> Option<FlowId> {
        if bytes.len() < self.header_len {
            return None;
        }
        let tags = self.ethertype.and_then(|at| headers::tags(bytes, at, self.vlan));
        if self.ip
            && let Some(tags) = &tags
            && let Some((id, l4)) = internet(bytes, len, tags.ethertype, tags.payload)
        {
            return Some(match l4 {
                Some((protocol, at)) => self.with_transport(id, bytes, protocol, at),
                None => id,
            });
        }
        let parsed = self.addresses(bytes, None, tags.map_or(0, |tags| tags.vid));
        let id = FlowId::of_stations(parsed.src_key, parsed.dst_key);
        let behind = tags.filter(|tags| !self.ip && tags.ethertype == self.type1_ethertype);
        Some(match behind.and_then(|tags| self.qp(bytes, tags.payload)) {
            Some(qp) => id.with_qp(qp),
            None => id,
        })
    }

    /// Source and destination port of UDP over IP. `None`: it is none, or a later fragment of it.
    pub fn udp_ports(&self, bytes: &[u8]) -> Option<[u16; 2]> {
        let tags = headers::tags(bytes, self.ethertype.filter(|_| self.ip)?, self.vlan)?;
        let ip = endpoints(bytes, tags.ethertype, tags.payload)?;
        if ip.protocol != UDP || ip.is_later_fragment() {
            return None;
        }
        Some([be16(bytes, ip.behind)?, be16(bytes, ip.behind + 2)?])
    }

    fn with_transport(&self, id: FlowId, bytes: &[u8], protocol: u8, at: usize) -> FlowId {
        let (UDP | TCP, Some(src), Some(dst)) = (protocol, be16(bytes, at), be16(bytes, at + 2)) else {
            return id;
        };
        let id = id.with_ports(src, dst);
        let qp = self.qp(bytes, at + 8).filter(|_| protocol == UDP && dst == self.udp_port);
        qp.map_or(id, |qp| id.with_qp(qp))
    }

    /// Destination queue pair of the transport header of this format.
    fn qp(&self, bytes: &[u8], at: usize) -> Option<u32> {
        let half = |from: usize| bytes.get(from..)?.first_chunk().map(|word| u32::from_be_bytes(*word));
        match self.transport {
            Transport::None => None,
            // BTH: opcode, flags, partition, 8 reserved bits, 24 bits of the queue pair.
            Transport::Bth => half(at + 4).map(|word| word & 0x00ff_ffff),
            // RH: the lowest 13 bits of 64.
            Transport::RcLink => half(at + 4).map(|word| word & 0x1fff),
        }
    }
}

/// The flow by a well-formed IP header alone, and the protocol and place of what follows it, if that is not the rest of a fragmented
/// packet.
fn internet(bytes: &[u8], len: usize, ethertype: u16, at: usize) -> Option<(FlowId, Option<(u8, usize)>)> {
    let ip = endpoints(bytes, ethertype, at)?;
    let Endpoints { ends: [src, dst], protocol, behind, end, .. } = ip;
    if end < behind || end > len || behind > bytes.len() {
        return None;
    }
    let id = match ethertype {
        IPV4 => FlowId::of_ipv4(protocol, src as u32, dst as u32),
        _ => FlowId::of_ipv6(protocol, src, dst),
    };
    Some((id, (!ip.is_later_fragment()).then_some((protocol, behind))))
}
