//! The reliability header of RC Link: 64 bits, bit 63 first on the wire (gap 4 of the requirements).
//!
//! `opcode 2 | fack 1 | pad 2 | reserved 2 | timestamp_en 1 | timestamp 16 | pkey 8 |
//! length or syndrome 7 | psn 12 | dest_qp 13`, from bit 63 down.

use crate::rc::answer::{Nak, Syndrome};
use crate::rc::psn;

/// Bytes of the header.
pub const RH_BYTES: usize = 8;
/// Queue pair numbers have 13 bits.
pub const MAX_QP: u16 = (1 << 13) - 1;
/// Packets in flight can not be told apart beyond half of the 12-bit number space.
pub const MAX_WINDOW: u16 = 2048;

/// A 12-bit packet sequence number.
pub type Psn = psn::Psn<12>;

/// What a packet is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Opcode {
    /// Data.
    Send,
    /// Acknowledgement or its refusal, by the syndrome.
    Ack,
    /// Congestion notification.
    Cnp,
    /// Reserved in the published header; here a credit message ([`super::cbfc::Update`]).
    Credit,
}

/// The header in parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rh {
    /// What the packet is.
    pub opcode: Opcode,
    /// The receiver shall acknowledge at once.
    pub force_ack: bool,
    /// Bytes, 0 to 3, that fill the payload to a multiple of four.
    pub pad: u8,
    /// Time of sending for the round trip, echoed by the acknowledgement.
    pub timestamp: Option<u16>,
    /// Partition.
    pub pkey: u8,
    /// SEND: length of header and payload if at most 127, else 0. ACK: syndrome. 7 bits.
    pub length_or_syndrome: u8,
    /// Sequence number.
    pub psn: Psn,
    /// Queue pair at the receiver, 13 bits.
    pub dest_qp: u16,
}

impl Rh {
    /// A header for a queue pair that says nothing else.
    pub fn new(opcode: Opcode, dest_qp: u16, pkey: u8) -> Self {
        Self {
            opcode,
            force_ack: false,
            pad: 0,
            timestamp: None,
            pkey,
            length_or_syndrome: 0,
            psn: Psn::default(),
            dest_qp,
        }
    }

    /// The length field of a SEND with `payload` bytes (DEV-22: lets the receiver remove padding).
    pub fn length_field(payload: usize) -> u8 {
        match payload + RH_BYTES {
            short @ ..=127 => short as u8,
            _ => 0,
        }
    }

    /// What an acknowledgement says; `None`: a code that is not known here. The 7-bit codes are not published, these are ours: 0,
    /// everything up to and including the PSN has arrived; 1, everything before it has, and it was skipped.
    pub fn syndrome(&self) -> Option<Syndrome> {
        match self.length_or_syndrome {
            0 => Some(Syndrome::ACK_NO_CREDITS),
            1 => Some(Syndrome::Nak(Nak::Sequence)),
            _ => None,
        }
    }

    /// Its code.
    pub fn syndrome_code(syndrome: Syndrome) -> u8 {
        u8::from(syndrome == Syndrome::Nak(Nak::Sequence))
    }

    /// The bytes on the wire. Values wider than their fields lose their high bits.
    pub fn encode(&self) -> [u8; RH_BYTES] {
        let word = (self.opcode as u64) << 62
            | u64::from(self.force_ack) << 61
            | u64::from(self.pad & 3) << 59
            | u64::from(self.timestamp.is_some()) << 56
            | u64::from(self.timestamp.unwrap_or(0)) << 40
            | u64::from(self.pkey) << 32
            | u64::from(self.length_or_syndrome & 0x7f) << 25
            | u64::from(self.psn.get()) << 13
            | u64::from(self.dest_qp & MAX_QP);
        word.to_be_bytes()
    }

    /// Reads a header. Reserved bits are ignored.
    pub fn decode(bytes: [u8; RH_BYTES]) -> Self {
        let word = u64::from_be_bytes(bytes);
        let opcode = match word >> 62 {
            0 => Opcode::Send,
            1 => Opcode::Ack,
            2 => Opcode::Cnp,
            _ => Opcode::Credit,
        };
        Self {
            opcode,
            force_ack: word >> 61 & 1 == 1,
            pad: (word >> 59 & 3) as u8,
            timestamp: (word >> 56 & 1 == 1).then_some((word >> 40) as u16),
            pkey: (word >> 32) as u8,
            length_or_syndrome: (word >> 25 & 0x7f) as u8,
            psn: Psn::new((word >> 13) as u32),
            dest_qp: word as u16 & MAX_QP,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn some() -> Rh {
        Rh {
            opcode: Opcode::Cnp,
            force_ack: false,
            pad: 0,
            timestamp: None,
            pkey: 0,
            length_or_syndrome: 0,
            psn: Psn::new(0),
            dest_qp: 0,
        }
    }

    #[test]
    fn sw034_cnp_is_opcode_binary_10_in_the_first_two_bits() {
        assert_eq!(some().encode(), [0x80, 0, 0, 0, 0, 0, 0, 0]);
    }

    #[test]
    fn every_field_is_where_the_table_says() {
        let fields: [(Rh, u32, u32); 7] = [
            (Rh { dest_qp: MAX_QP, ..some() }, 0, 12),
            (Rh { psn: Psn::new(0xfff), ..some() }, 13, 24),
            (Rh { length_or_syndrome: 0x7f, ..some() }, 25, 31),
            (Rh { pkey: 0xff, ..some() }, 32, 39),
            (Rh { timestamp: Some(0xffff), ..some() }, 40, 56),
            (Rh { pad: 3, ..some() }, 59, 60),
            (Rh { force_ack: true, ..some() }, 61, 61),
        ];
        for (rh, low, high) in fields {
            let word = u64::from_be_bytes(rh.encode()) & !(3 << 62);
            assert_eq!(word, ((1u64 << (high - low + 1)) - 1) << low, "{rh:?}");
        }
    }

    proptest! {
        #[test]
        fn any_header_round_trips(word in any::<u64>()) {
            // Reserved bits, and the timestamp that is not enabled, are not kept.
            let mut kept = word & !(3 << 57);
            if word >> 56 & 1 == 0 {
                kept &= !(0xffff << 40);
            }
            prop_assert_eq!(u64::from_be_bytes(Rh::decode(word.to_be_bytes()).encode()), kept);
        }
    }

    #[test]
    fn dev22_short_packets_say_their_length() {
        assert_eq!([0, 119, 120, 1344].map(Rh::length_field), [8, 127, 0, 0]);
    }
}
