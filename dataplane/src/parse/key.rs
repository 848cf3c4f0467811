//! The FDB key: key space, VLAN id and address bits in one word.
//!
//! Bits 62..60 key space (1..7, so no key is 0), 59..48 VLAN id, 47..0 address bits. Bit 40 is the
//! group bit in every format: it is the I/G bit of a MAC address, and the formats with shorter
//! addresses (DEV-01) put theirs in the same place.

use crate::types::Mac;
use std::fmt;

/// Bit of a key that says "group address".
pub const GROUP_BIT: u64 = 1 << 40;

/// Key spaces of the built-in formats: stations of different formats never match each other.
pub mod key_space {
    /// 48-bit MAC addresses.
    pub const STANDARD: u8 = 1;
    /// AFH_GEN1: 40 address bits.
    pub const AFH_GEN1: u8 = 2;
    /// AFH_GEN2_16b: 16 address bits.
    pub const AFH_GEN2_16B: u8 = 3;
    /// AFH_Lite: 16 address bits, frames without EtherType.
    pub const AFH_LITE: u8 = 4;
}

pub(super) const SPACE_SHIFT: u32 = 60;
pub(super) const VID_SHIFT: u32 = 48;
/// A key in another VLAN.
pub(crate) fn in_vlan(key: u64, vid: u16) -> u64 {
    key & !(0xfff << VID_SHIFT) | u64::from(vid & 0xfff) << VID_SHIFT
}

pub(super) const ADDRESS_MASK: u64 = (1 << 48) - 1;

/// A key taken apart, for display: it is written as the bytes of a MAC, or as a number in the formats with shorter addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyParts {
    /// Key space of the format, see [`key_space`].
    pub space: u8,
    /// VLAN id, 0 for untagged and priority-tagged frames.
    pub vid: u16,
    /// Address bits; bit 40 is the group bit.
    pub address: u64,
}

impl fmt::Display for KeyParts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.space {
            key_space::STANDARD => Mac::from_u64(self.address).fmt(f),
            _ => write!(f, "{:#x}", self.address),
        }
    }
}

impl KeyParts {
    /// The address all ones.
    pub fn is_broadcast(&self) -> bool {
        self.address == ADDRESS_MASK
    }

    /// Takes `key` apart.
    pub fn of(key: u64) -> Self {
        Self {
            space: (key >> SPACE_SHIFT & 7) as u8,
            vid: (key >> VID_SHIFT & 0xfff) as u16,
            address: key & ADDRESS_MASK,
        }
    }
}
