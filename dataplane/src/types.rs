//! The words every module shares: time, ports, priorities, sizes.

/// Absolute time in nanoseconds, handed in by whoever drives the switch. The switch owns no clock.
pub type Nanos = u64;

/// Traffic classes, priorities, priority groups and queues per port (802.1Q, 802.1Qbb: eight).
pub const PRIORITIES: usize = 8;

/// Most ports one switch value can have.
pub const MAX_PORTS: usize = 256;

/// Most frames moved by one call of `receive` or staged by one call of `transmit`.
pub const BURST: usize = 256;

/// Frame bytes that never reach software but pass on the wire: FCS 4, preamble and SFD 8, gap 12.
pub const WIRE_OVERHEAD_BYTES: u64 = 24;

/// Shortest frame on the wire without its FCS; shorter ones are padded by the sender.
pub const MIN_FRAME_BYTES: u64 = 60;

/// Index of a port of one switch, from 0, in the order of the configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PortId(pub u16);

impl PortId {
    /// The index as a `usize`, for arrays with one element per port.
    #[inline]
    pub fn index(self) -> usize {
        usize::from(self.0)
    }
}

/// A burst of frames with fixed capacity: no allocation on the path of a frame.
pub type Burst<F> = arrayvec::ArrayVec<F, BURST>;

/// Bytes a frame of `len` bytes (without FCS) occupies on the wire, padding and gap included.
#[inline]
pub fn wire_bytes(len: u64) -> u64 {
    len.max(MIN_FRAME_BYTES) + WIRE_OVERHEAD_BYTES
}

/// An Ethernet MAC address as it stands on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Mac(pub [u8; 6]);

impl Mac {
    /// The 48 address bits as a number, first wire byte most significant.
    pub fn to_u64(self) -> u64 {
        let [a, b, c, d, e, f] = self.0;
        u64::from_be_bytes([0, 0, a, b, c, d, e, f])
    }

    /// The address whose 48 bits are the low bits of `n`.
    pub fn from_u64(n: u64) -> Self {
        let b = n.to_be_bytes();
        Self([b[2], b[3], b[4], b[5], b[6], b[7]])
    }

    /// Group (multicast or broadcast) address: the I/G bit of the first byte (802 section 8.2).
    pub fn is_group(self) -> bool {
        self.0[0] & 1 == 1
    }
}

impl std::fmt::Display for Mac {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

impl std::str::FromStr for Mac {
    type Err = String;

    /// Six hexadecimal octets separated by `:` or `-`.
    fn from_str(s: &str) -> Result<Self, String> {
        let mut mac = [0; 6];
        let mut parts = s.split([':', '-']);
        for byte in &mut mac {
            let part = parts.next().filter(|p| p.len() == 2);
            *byte = part
                .and_then(|p| u8::from_str_radix(p, 16).ok())
                .ok_or_else(|| format!("`{s}` is not a MAC address; write it as 02:00:00:00:00:01"))?;
        }
        match parts.next() {
            None => Ok(Self(mac)),
            Some(_) => Err(format!("`{s}` has more than six octets")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mac_text_and_number_round_trip() {
        let mac: Mac = "02:00:5e:10:00:ff".parse().unwrap();
        assert_eq!(mac.to_string(), "02:00:5e:10:00:ff");
        assert_eq!(Mac::from_u64(mac.to_u64()), mac);
        assert!(!mac.is_group());
        assert!("01-80-c2-00-00-01".parse::<Mac>().unwrap().is_group());
    }

    #[test]
    fn odd_mac_text_is_refused() {
        for text in ["", "02:00", "02:00:00:00:00:0g", "2:0:0:0:0:1", "02:00:00:00:00:01:02"] {
            assert!(text.parse::<Mac>().is_err(), "{text}");
        }
    }

    #[test]
    fn wire_bytes_pad_short_frames() {
        assert_eq!(wire_bytes(42), 84);
        assert_eq!(wire_bytes(60), 84);
        assert_eq!(wire_bytes(1402), 1426);
    }
}
