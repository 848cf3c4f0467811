//! ARP: a host asks for its peers before it sends to them, so that it neither talks to nobody nor makes the
//! switch flood (RFC 826).

use std::net::Ipv4Addr;
use weir_dataplane::types::Mac;

const ETHERTYPE_ARP: [u8; 2] = [0x08, 0x06];
const ETHERTYPE_VLAN: [u8; 2] = [0x81, 0x00];
/// Ethernet hardware, IPv4 protocol, and the lengths of their addresses.
const FORM: [u8; 6] = [0, 1, 8, 0, 6, 4];
/// Shortest Ethernet frame without FCS.
const MIN_FRAME: usize = 60;

/// An ARP message for IPv4 over Ethernet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arp {
    /// An answer, not a question.
    pub reply: bool,
    /// VLAN it travels in.
    pub vlan: Option<u16>,
    /// Who sends it.
    pub sender: (Mac, Ipv4Addr),
    /// Whom it is for, the address all zeros in a question.
    pub target: (Mac, Ipv4Addr),
}

impl Arp {
    /// Reads a frame; `None`: not ARP for IPv4 over Ethernet, or cut short.
    pub fn read(bytes: &[u8]) -> Option<Self> {
        let (mut rest, mut vlan) = (bytes.get(12..)?, None);
        if let Some(tagged) = rest.strip_prefix(&ETHERTYPE_VLAN) {
            let (tci, inner) = tagged.split_first_chunk::<2>()?;
            (vlan, rest) = (Some(u16::from_be_bytes(*tci) & 0xfff), inner);
        }
        let rest = rest.strip_prefix(&ETHERTYPE_ARP)?.strip_prefix(&FORM)?;
        let [0, operation @ 1..=2, body @ ..] = rest.first_chunk::<22>()? else { return None };
        let address = |at: usize| {
            let mac = std::array::from_fn(|i| body[at + i]);
            let ip: [u8; 4] = std::array::from_fn(|i| body[at + 6 + i]);
            (Mac(mac), Ipv4Addr::from(ip))
        };
        Some(Self { reply: *operation == 2, vlan, sender: address(0), target: address(10) })
    }

    /// Writes the frame over `out`: a question to everybody, an answer to who asked.
    pub fn write(&self, out: &mut Vec<u8>) {
        out.clear();
        out.extend(if self.reply { self.target.0.0 } else { [0xff; 6] });
        out.extend(self.sender.0.0);
        if let Some(vlan) = self.vlan {
            out.extend(ETHERTYPE_VLAN);
            out.extend((vlan & 0xfff).to_be_bytes());
        }
        out.extend(ETHERTYPE_ARP);
        out.extend(FORM);
        out.extend([0, if self.reply { 2 } else { 1 }]);
        for (mac, ip) in [self.sender, self.target] {
            out.extend(mac.0);
            out.extend(ip.octets());
        }
        out.resize(out.len().max(MIN_FRAME), 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn questions_and_answers_round_trip() {
        let sender = (Mac([2, 0, 0, 0, 0, 1]), Ipv4Addr::new(10, 0, 0, 1));
        let target = (Mac([2, 0, 0, 0, 0, 2]), Ipv4Addr::new(10, 0, 0, 2));
        let mut frame = Vec::new();
        for (reply, vlan) in [(false, None), (true, None), (false, Some(7)), (true, Some(4094))] {
            let arp = Arp { reply, vlan, sender, target };
            arp.write(&mut frame);
            assert_eq!(frame.len(), 60);
            assert_eq!(frame[..6], if reply { target.0.0 } else { [0xff; 6] });
            assert_eq!(Arp::read(&frame), Some(arp));
            assert_eq!(Arp::read(&frame[..if vlan.is_some() { 45 } else { 41 }]), None);
        }
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes in proptest::collection::vec(any::<u8>(), 0..70), arp in any::<bool>()) {
            let mut bytes = bytes;
            if arp && bytes.len() > 22 {
                bytes[12..14].copy_from_slice(&ETHERTYPE_ARP);
                bytes[14..20].copy_from_slice(&FORM);
            }
            let _ = Arp::read(&bytes);
        }
    }
}
