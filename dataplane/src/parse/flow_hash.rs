//! A number that all frames of a flow share, in both directions: which member of a LAG they leave by.

use super::headers::{Endpoints, TCP, UDP, be16, endpoints, tags};
use super::{KeyParts, Profile};

/// What of a frame says which flow it is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum HashFields {
    /// Its two addresses.
    L2 = 0,
    /// Its two IP addresses, where it has them.
    L3 = 1,
    /// And its two ports, where it is TCP, UDP, UDP-Lite or SCTP and no fragment.
    L4 = 2,
}

impl HashFields {
    /// The word for it in the configuration and in what is shown.
    pub fn word(self) -> &'static str {
        ["l2", "l3", "l4"][self as usize]
    }
}

const SCTP: u8 = 132;
const UDP_LITE: u8 = 136;

/// Every bit of the result depends on every bit of `x`: the finalizer of SplitMix64 (Steele, Lea, Flood 2014).
#[inline(always)]
fn mix(x: u64) -> u64 {
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// The two ends of a flow, in either order.
#[inline(always)]
fn between(ends: [u64; 2], seed: u64) -> u64 {
    mix(mix(ends[0] ^ seed).wrapping_add(mix(ends[1] ^ seed)))
}

/// Source and destination of an IP datagram, each folded to a word.
fn ip_ends(bytes: &[u8], ethertype: u16, at: usize, with_ports: bool) -> Option<[u64; 2]> {
    let Endpoints { ends, protocol, behind, fragment, .. } = endpoints(bytes, ethertype, at)?;
    // Nothing folds to nothing: an IPv4 address is itself.
    let ends = ends.map(|end| mix((end >> 64) as u64) ^ end as u64);
    // Only the first fragment has ports: none of a datagram's may go another way.
    let has_ports = with_ports && fragment == 0 && matches!(protocol, TCP | UDP | SCTP | UDP_LITE);
    match (be16(bytes, behind), be16(bytes, behind + 2)) {
        (Some(src), Some(dst)) if has_ports => {
            Some([mix(ends[0]) ^ u64::from(src), mix(ends[1]) ^ u64::from(dst)])
        }
        _ => Some(ends),
    }
}

impl Profile {
    /// Is the same for all frames of a flow and for those that come back, and another one for another `seed`. What has no IP
    /// header is told apart by its addresses, the VLAN aside.
    pub fn flow_hash(&self, bytes: &[u8], fields: HashFields, seed: u64) -> u64 {
        let ip = || {
            let at = self.ethertype.filter(|_| self.ip && fields != HashFields::L2)?;
            let tags = tags(bytes, at, self.vlan)?;
            ip_ends(bytes, tags.ethertype, tags.payload, fields == HashFields::L4)
        };
        let ends = ip().unwrap_or_else(|| self.stations(bytes).map(|key| KeyParts::of(key).address));
        between(ends, seed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse::Variant;
    use crate::rng::Rng;
    use HashFields::*;

    /// A UDP datagram between two of 256 hosts, and the one that comes back.
    fn both_ways(rng: &mut Rng, v6: bool) -> [Vec<u8>; 2] {
        let mut word = || rng.next_u64();
        let (macs, ips, ports) = ([word(), word()], [word() % 256, word() % 256], [word() as u16, 4791]);
        let one = |from: usize| {
            let to = 1 - from;
            let mac = |end: usize| {
                let mut mac = macs[end].to_be_bytes()[2..].to_vec();
                mac[0] &= 0xfe;
                mac
            };
            let mut bytes = [mac(to), mac(from)].concat();
            let ip = |end: usize| (0x0a00_0000 + ips[end] as u32).to_be_bytes();
            if v6 {
                bytes.extend([0x86, 0xdd, 0x60, 0, 0, 0, 0, 8, 17, 64]);
                for end in [from, to] {
                    bytes.extend([0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0]);
                    bytes.extend(ip(end));
                }
            } else {
                bytes.extend([8, 0, 0x45, 0, 0, 28, 0, 0, 0, 0, 64, 17, 0, 0]);
                bytes.extend(ip(from));
                bytes.extend(ip(to));
            }
            bytes.extend(ports[from].to_be_bytes());
            bytes.extend(ports[to].to_be_bytes());
            bytes.extend([0, 8, 0, 0]);
            bytes.resize(bytes.len().max(60), 0);
            bytes
        };
        [one(0), one(1)]
    }

    #[test]
    fn both_directions_have_one_hash_and_members_equal_shares() {
        let (mut rng, profile) = (Rng::new(3), Profile::standard());
        for (fields, v6) in [(L2, false), (L3, false), (L4, false), (L2, true), (L3, true), (L4, true)] {
            let mut shares = [0u32; 3];
            for _ in 0..6000 {
                let [there, back] = both_ways(&mut rng, v6).map(|b| profile.flow_hash(&b, fields, 1));
                assert_eq!(there, back, "{fields:?}");
                shares[(((there >> 32) * 3) >> 32) as usize] += 1;
            }
            // 2000 each; five standard deviations are 183.
            assert!(shares.iter().all(|n| n.abs_diff(2000) < 183), "{fields:?}: {shares:?}");
        }
    }

    #[test]
    fn what_is_not_among_the_fields_does_not_count_and_what_is_does() {
        let (mut rng, profile) = (Rng::new(4), Profile::standard());
        let [frame, _] = both_ways(&mut rng, false);
        let hash = |bytes: &[u8], fields| profile.flow_hash(bytes, fields, 1);
        let with = |at: usize, by: u8| {
            let mut other = frame.clone();
            other[at] ^= by;
            other
        };
        for (at, counts) in [
            (1, [true, false, false]),
            (29, [false, true, true]),
            (33, [false, true, true]),
            (35, [false, false, true]),
            (37, [false, false, true]),
            // TTL and identification.
            (22, [false; 3]),
            (19, [false; 3]),
        ] {
            let differs = [L2, L3, L4].map(|fields| hash(&with(at, 1), fields) != hash(&frame, fields));
            assert_eq!(differs, counts, "byte {at}");
        }
        // A tag moves all that stands behind it.
        let mut tagged = frame.clone();
        tagged.splice(12..12, [0x81, 0, 0x60, 9]);
        assert_eq!([L2, L3, L4].map(|f| hash(&tagged, f)), [L2, L3, L4].map(|f| hash(&frame, f)));
        // All fragments of a datagram go one way, as does what has no ports.
        let (first, later) = (with(20, 0x20), with(21, 0x40));
        assert_eq!((hash(&first, L4), hash(&later, L4)), (hash(&frame, L3), hash(&frame, L3)));
        assert_eq!(hash(&with(23, 17 ^ 1), L4), hash(&frame, L3));
        assert_ne!(profile.flow_hash(&frame, L4, 1), profile.flow_hash(&frame, L4, 2));
    }

    #[test]
    fn any_bytes_have_a_hash() {
        let mut rng = Rng::new(5);
        let profiles = [Profile::standard(), Profile::afh_gen1(), Profile::afh_lite(Variant::Public)];
        for len in 0..70 {
            let bytes: Vec<u8> = (0..len).map(|_| rng.next_u64() as u8).collect();
            for profile in &profiles {
                for fields in [L2, L3, L4] {
                    profile.flow_hash(&bytes, fields, 1);
                }
            }
        }
        let (lite, bytes) = (&profiles[2], (0..64).collect::<Vec<u8>>());
        assert_eq!(lite.flow_hash(&bytes, L4, 1), lite.flow_hash(&bytes, L2, 1), "no IP in this format");
    }
}
