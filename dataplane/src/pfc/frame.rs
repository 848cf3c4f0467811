//! PFC and PAUSE frames: bytes in and out, quanta and nanoseconds.
//!
//! 802.1Qbb / 802.3 annex 31D (PFC, opcode 0x0101) and annex 31B (PAUSE, opcode 0x0001). Frames are
//! without FCS: 60 bytes. Scenarios C1 and D11; reference `formats-dcqcn.md` R8.

use crate::parse::is_tag;
use crate::types::{Mac, Nanos, PRIORITIES};

/// Destination of every MAC control frame; a bridge never forwards it.
pub const CONTROL_DA: Mac = Mac([0x01, 0x80, 0xc2, 0, 0, 0x01]);

/// Whether a frame is addressed to MAC control. Cheaper than a comparison of slices, which is a call.
#[inline]
pub fn is_mac_control(frame: &[u8]) -> bool {
    frame.first_chunk() == Some(&CONTROL_DA.0)
}

/// EtherType of MAC control.
pub const CONTROL_ETHERTYPE: u16 = 0x8808;

/// Length of a MAC control frame without FCS.
pub const CONTROL_BYTES: usize = 60;

/// The longest pause one frame can ask for.
pub const MAX_QUANTA: u16 = u16::MAX;

const OPCODE_PAUSE: u16 = 0x0001;
const OPCODE_PFC: u16 = 0x0101;

/// One PFC frame. A time whose enable bit is clear has no meaning and is kept zero (DEV-80).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct PfcFrame {
    /// Bit n set: `time[n]` is for priority n.
    pub enable: u8,
    /// Pause in quanta; 0 resumes.
    pub time: [u16; PRIORITIES],
}

impl PfcFrame {
    /// Asks for `quanta` on every priority of `mask` and says nothing about the others.
    pub fn uniform(mask: u8, quanta: u16) -> Self {
        let mut frame = Self { enable: mask, time: [0; PRIORITIES] };
        for priority in super::bits(mask) {
            frame.time[priority] = quanta;
        }
        frame
    }

    /// The bytes on the wire without FCS, from the port with address `source`. Never tagged.
    pub fn encode(&self, source: Mac) -> [u8; CONTROL_BYTES] {
        let mut out = control_header(source, OPCODE_PFC);
        out[17] = self.enable;
        for priority in super::bits(self.enable) {
            let at = 18 + 2 * priority;
            out[at..at + 2].copy_from_slice(&self.time[priority].to_be_bytes());
        }
        out
    }
}

/// One 802.3x PAUSE frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PauseFrame {
    /// Pause of the whole link in quanta; 0 resumes.
    pub quanta: u16,
}

impl PauseFrame {
    /// The bytes on the wire without FCS, from the port with address `source`.
    pub fn encode(&self, source: Mac) -> [u8; CONTROL_BYTES] {
        let mut out = control_header(source, OPCODE_PAUSE);
        out[16..18].copy_from_slice(&self.quanta.to_be_bytes());
        out
    }
}

fn control_header(source: Mac, opcode: u16) -> [u8; CONTROL_BYTES] {
    let mut out = [0; CONTROL_BYTES];
    out[..6].copy_from_slice(&CONTROL_DA.0);
    out[6..12].copy_from_slice(&source.0);
    out[12..14].copy_from_slice(&CONTROL_ETHERTYPE.to_be_bytes());
    out[14..16].copy_from_slice(&opcode.to_be_bytes());
    out
}

/// What a MAC control frame says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Control {
    /// Priority flow control. The enable vector may be zero: valid, and about nobody (D4).
    Pfc(PfcFrame),
    /// 802.3x PAUSE of the whole link.
    Pause(PauseFrame),
    /// Not to be obeyed; counted as "invalid MAC control" (D11).
    Invalid(Invalid),
}

/// Why a MAC control frame is not obeyed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Invalid {
    /// Shorter than 60 bytes: no conforming MAC sends it.
    TooShort,
    /// Not sent to 01-80-C2-00-00-01.
    Destination,
    /// Behind a VLAN tag.
    Tagged,
    /// Not MAC control at all.
    EtherType,
    /// Neither PAUSE nor PFC.
    Opcode,
    /// The high byte of the class-enable vector is not zero.
    Vector,
}

impl Invalid {
    /// Every reason, in the order of the counters.
    pub const ALL: [Invalid; 6] = [
        Invalid::TooShort,
        Invalid::Destination,
        Invalid::Tagged,
        Invalid::EtherType,
        Invalid::Opcode,
        Invalid::Vector,
    ];

    /// Stable name for counters.
    pub fn name(self) -> &'static str {
        match self {
            Invalid::TooShort => "too_short",
            Invalid::Destination => "destination",
            Invalid::Tagged => "tagged",
            Invalid::EtherType => "ethertype",
            Invalid::Opcode => "opcode",
            Invalid::Vector => "vector",
        }
    }
}

/// Reads a frame without FCS. The source address is not looked at: all-zero is honoured (SONiC #418).
/// Bytes behind the fields are reserved and ignored.
pub fn decode(bytes: &[u8]) -> Control {
    let Some(head) = bytes.first_chunk::<CONTROL_BYTES>() else {
        return Control::Invalid(Invalid::TooShort);
    };
    let word = |at: usize| u16::from_be_bytes([head[at], head[at + 1]]);
    if head[..6] != CONTROL_DA.0 {
        return Control::Invalid(Invalid::Destination);
    }
    match word(12) {
        CONTROL_ETHERTYPE => {}
        tag if is_tag(tag) => return Control::Invalid(Invalid::Tagged),
        _ => return Control::Invalid(Invalid::EtherType),
    }
    match word(14) {
        OPCODE_PAUSE => Control::Pause(PauseFrame { quanta: word(16) }),
        OPCODE_PFC if head[16] != 0 => Control::Invalid(Invalid::Vector),
        OPCODE_PFC => {
            let mut frame = PfcFrame { enable: head[17], time: [0; PRIORITIES] };
            for priority in super::bits(frame.enable) {
                frame.time[priority] = word(18 + 2 * priority);
            }
            Control::Pfc(frame)
        }
        _ => Control::Invalid(Invalid::Opcode),
    }
}

/// Nanoseconds `quanta` last at `rate` bit/s, rounded up: a sender that waits this long has not resumed
/// early. One quantum is 512 bit times. A rate of zero counts as 1 bit/s.
pub fn quanta_to_ns(quanta: u16, rate: u64) -> Nanos {
    (u64::from(quanta) * 512 * 1_000_000_000).div_ceil(rate.max(1))
}

/// The same rounded down: within this time no receiver has resumed. For refresh.
pub fn quanta_to_ns_floor(quanta: u16, rate: u64) -> Nanos {
    u64::from(quanta) * 512 * 1_000_000_000 / rate.max(1)
}

/// Fewest quanta that last at least `ns` at `rate` bit/s; [`MAX_QUANTA`] if no frame can ask for so long.
pub fn ns_to_quanta(ns: Nanos, rate: u64) -> u16 {
    let quanta = (u128::from(ns) * u128::from(rate)).div_ceil(512 * 1_000_000_000);
    u16::try_from(quanta).unwrap_or(MAX_QUANTA)
}

#[cfg(test)]
#[path = "frame_tests.rs"]
mod tests;
