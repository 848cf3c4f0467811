//! Groups of IP multicast as a bridge knows them: by their MAC addresses, of which 32 groups of IPv4 share one (RFC 1112), and
//! many of IPv6 (RFC 2464). Which of these a bridge may send to members alone is RFC 4541.

use crate::parse::{KeyParts, key_space};
use crate::types::Mac;

/// Version of IP that a group is of: IGMP speaks of those of one, MLD of those of the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum IpVersion {
    /// IPv4, and IGMP.
    V4 = 0,
    /// IPv6, and MLD.
    V6 = 1,
}

impl IpVersion {
    /// Both, by number.
    pub const ALL: [Self; 2] = [Self::V4, Self::V6];

    /// That of a group address, if IP has any there.
    pub fn of_group(mac: Mac) -> Option<Self> {
        let address = mac.to_u64();
        match (address >> 23, address >> 32) {
            (0x0002_00bc, _) => Some(Self::V4),
            (_, 0x3333) => Some(Self::V6),
            _ => None,
        }
    }
}

/// Frames for this address go to every port of their VLAN, whoever has joined: 01:00:5e:00:00:xx, where 224.0.0.0/24 is (RFC 4541
/// 2.1.2), and of IPv6 33:33:00:00:00:xx and 33:33:00:01:00:xx, where the well-known groups of the link are, and 33:33:ff:xx:xx:xx, by
/// which neighbours are found.
pub fn is_for_all(mac: Mac) -> bool {
    let low = mac.to_u64() as u32;
    match IpVersion::of_group(mac) {
        Some(IpVersion::V4) => low & 0x7f_ff00 == 0,
        Some(IpVersion::V6) => low & 0xfffe_ff00 == 0 || low >> 24 == 0xff,
        None => false,
    }
}

/// VLAN, version of IP and address of a key that is that of a group of IP.
pub(crate) fn group_of(key: u64) -> Option<(u16, IpVersion, Mac)> {
    let KeyParts { space, vid, address } = KeyParts::of(key);
    let mac = Mac::from_u64(address);
    let version = IpVersion::of_group(mac).filter(|_| space == key_space::STANDARD)?;
    Some((vid, version, mac))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_groups_of_ip_are_known_by_their_addresses() {
        let of = |mac: u64| IpVersion::of_group(Mac::from_u64(mac));
        assert_eq!(of(0x0100_5e7f_ffff), Some(IpVersion::V4));
        assert_eq!(of(0x0100_5e00_0000), Some(IpVersion::V4));
        assert_eq!(of(0x0100_5e80_0000), None, "MPLS");
        assert_eq!(of(0x0180_c200_000e), None);
        assert_eq!(of(0x3333_0000_0000), Some(IpVersion::V6));
        assert_eq!(of(0x3334_0000_0000), None);
        assert_eq!(of(0xffff_ffff_ffff), None);
    }

    #[test]
    fn groups_of_the_link_are_for_all() {
        let all = |mac: u64| is_for_all(Mac::from_u64(mac));
        for mac in [0x0100_5e00_00fb, 0x3333_0000_0001, 0x3333_0000_00fb, 0x3333_0001_0002, 0x3333_ff12_3456]
        {
            assert!(all(mac), "{mac:x}");
        }
        for mac in [0x0100_5e00_0100, 0x0100_5e01_0001, 0x3333_0000_0101, 0x3333_0002_0001, 0xffff_ffff_ffff]
        {
            assert!(!all(mac), "{mac:x}");
        }
    }
}
