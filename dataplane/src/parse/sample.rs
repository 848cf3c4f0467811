//! Frames that nobody has sent: with the headers that a question names, in the format of a port.

use super::checksum::{fold, sum};
use super::headers::{IPV4, UDP};
use super::profile::Load;
use super::{EcnSource, Kind, Profile};
use crate::vlan::TPID;

/// What a frame is to say. Addresses are those of [`Profile::key`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// Destination.
    pub dst: u64,
    /// Source.
    pub src: u64,
    /// PCP of its VLAN tag.
    pub pcp: Option<u8>,
    /// VID of its VLAN tag; with a PCP alone it is a priority tag.
    pub vid: Option<u16>,
    /// DSCP of its IP header.
    pub dscp: Option<u8>,
    /// Traffic-class octet.
    pub tc: Option<u8>,
    /// ECN code point: 0 not-ECT, 1 ECT(1), 2 ECT(0), 3 CE. `None`: ECT(0) if it has an IP header, else what `tc` says.
    pub ecn: Option<u8>,
    /// What it is. A reserved one is LLDP for the nearest bridge, whatever the format; there are none of MAC control.
    pub kind: Kind,
    /// Bytes, without FCS: what does not fit is cut off.
    pub len: usize,
}

/// Frames of the format have no such field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("frames of this port have no {0}")]
pub struct NoField(pub &'static str);

/// Source port of UDP and addresses of IP (those of documents, RFC 5737).
const UDP_SOURCE: u16 = 0xc000;
const ADDRESSES: [u8; 8] = [192, 0, 2, 1, 192, 0, 2, 2];
/// EtherTypes of experiments (802 table 1), and a protocol of experiments (RFC 3692).
const EXPERIMENTAL: [u16; 2] = [0x88b6, 0x88b5];
const EXPERIMENT: u8 = 253;

impl Load {
    fn put(self, bytes: &mut [u8], value: u64) {
        if let Some(word) = bytes.get_mut(self.byte..).and_then(<[u8]>::first_chunk_mut) {
            let others = u64::from_be_bytes(*word) & !(self.mask << self.shift);
            *word = (others | (value & self.mask) << self.shift).to_be_bytes();
        }
    }
}

impl Profile {
    /// A frame of this format that says all this.
    ///
    /// # Errors
    /// The first field that the format does not have.
    pub fn sample(&self, said: &Sample) -> Result<Vec<u8>, NoField> {
        let mut bytes = match said.kind {
            Kind::Reserved => Self::lldp(said),
            _ => self.sample_of_format(said)?,
        };
        bytes.resize(said.len, 0);
        Ok(bytes)
    }

    fn lldp(said: &Sample) -> Vec<u8> {
        let mut bytes = vec![0x01, 0x80, 0xc2, 0, 0, 0x0e];
        bytes.extend(&said.src.to_be_bytes()[2..]);
        bytes.extend(tag(said));
        bytes.extend([0x88, 0xcc]);
        bytes
    }

    fn sample_of_format(&self, said: &Sample) -> Result<Vec<u8>, NoField> {
        let mut bytes = vec![0; self.header_len];
        self.dst.put(&mut bytes, said.dst);
        self.dst_group.put(&mut bytes, said.dst >> 40);
        self.src.put(&mut bytes, said.src);
        let in_tc = said.ecn.filter(|_| self.ecn == EcnSource::Tc);
        if said.tc.is_some() || in_tc.is_some() {
            let at = self.tc.ok_or(NoField("traffic-class octet"))?;
            let tc = said.tc.unwrap_or(0);
            bytes[usize::from(at)] = in_tc.map_or(tc, |ecn| tc & !3 | ecn & 3);
        }
        if said.ecn.is_some() && self.ecn == EcnSource::None {
            return Err(NoField("ECN field"));
        }
        let tag = tag(said);
        if !tag.is_empty() && !self.vlan {
            return Err(NoField("VLAN tag"));
        }
        let is_transport = said.kind != Kind::Data;
        if is_transport && self.opcodes.header_len == 0 {
            return Err(NoField("transport header"));
        }
        if said.dscp.is_some() && !self.ip {
            return Err(NoField("IP header"));
        }
        let Some(at) = self.ethertype else { return Ok(bytes) };
        bytes.truncate(at);
        bytes.extend(tag);
        let first = match said.kind {
            Kind::Cnp => self.opcodes.cnp,
            Kind::Ack => self.opcodes.ack,
            _ => 0,
        };
        let says_ecn = said.ecn.is_some() && self.ecn == EcnSource::Ip;
        if self.ip && (said.dscp.is_some() || says_ecn || is_transport) {
            bytes.extend(IPV4.to_be_bytes());
            let left = said.len.saturating_sub(bytes.len());
            bytes.extend(ipv4(said, left, if is_transport { UDP } else { EXPERIMENT }));
            if is_transport {
                for word in [UDP_SOURCE, self.udp_port, left.saturating_sub(20) as u16, 0] {
                    bytes.extend(word.to_be_bytes());
                }
                bytes.push(first);
            }
        } else if is_transport {
            bytes.extend(self.type1_ethertype.to_be_bytes());
            bytes.push(first);
        } else {
            let other = EXPERIMENTAL.into_iter().find(|other| *other != self.type1_ethertype);
            bytes.extend(other.unwrap_or_default().to_be_bytes());
        }
        Ok(bytes)
    }
}

/// Its VLAN tag, if it has one.
fn tag(said: &Sample) -> Vec<u8> {
    if said.pcp.is_none() && said.vid.is_none() {
        return Vec::new();
    }
    let tci = u16::from(said.pcp.unwrap_or(0)) << 13 | said.vid.unwrap_or(0) & 0xfff;
    [TPID, tci].into_iter().flat_map(u16::to_be_bytes).collect()
}

/// A header of a packet of `len` bytes.
fn ipv4(said: &Sample, len: usize, protocol: u8) -> [u8; 20] {
    let mut header = [0; 20];
    header[0] = 0x45;
    header[1] = said.dscp.unwrap_or(0) << 2 | said.ecn.unwrap_or(2) & 3;
    header[2..4].copy_from_slice(&(len as u16).to_be_bytes());
    (header[8], header[9]) = (64, protocol);
    header[12..].copy_from_slice(&ADDRESSES);
    let checksum = !fold(sum(&header));
    header[10..12].copy_from_slice(&checksum.to_be_bytes());
    header
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse::Variant;
    use proptest::prelude::*;

    fn formats() -> Vec<Profile> {
        vec![
            Profile::standard(),
            Profile::standard_rclink(),
            Profile::afh_gen1(),
            Profile::afh_gen2_16b(Variant::Public),
            Profile::afh_gen2_16b(Variant::RcLink),
            Profile::afh_lite(Variant::Public),
            Profile::afh_lite(Variant::RcLink),
        ]
    }

    proptest! {
        #[test]
        fn a_frame_says_what_was_asked_of_it(
            format in 0..7usize,
            dst in 0u64..1 << 48,
            src in 0u64..1 << 40,
            pcp in proptest::option::of(0u8..8),
            vid in proptest::option::of(0u16..4096),
            dscp in proptest::option::of(0u8..64),
            tc in proptest::option::of(0u8..=255),
            ecn in proptest::option::of(0u8..4),
            kind in prop::sample::select(vec![Kind::Data, Kind::Cnp, Kind::Ack]),
            len in 64usize..1500,
        ) {
            let profile = &formats()[format];
            let src = src & !(1 << 40);
            let said = Sample { dst, src, pcp, vid, dscp, tc, ecn, kind, len };
            let Ok(bytes) = profile.sample(&said) else { return Ok(()) };
            let parsed = profile.parse(&bytes, bytes.len()).unwrap();
            let tag_vid = vid.unwrap_or(0);
            prop_assert_eq!(bytes.len(), len);
            prop_assert_eq!(parsed.dst_key, profile.key(dst, tag_vid));
            prop_assert_eq!(parsed.src_key, profile.key(src, tag_vid));
            prop_assert_eq!(parsed.pcp, pcp.or(vid.map(|_| 0)));
            prop_assert!(dscp.is_none() || parsed.dscp == dscp);
            prop_assert!(tc.is_none() || parsed.tc == tc);
            prop_assert!(ecn.is_none_or(|ecn| parsed.ecn.codepoint == ecn));
            prop_assert_eq!((parsed.kind, parsed.malformed_l3), (kind, false));
        }
    }
}
