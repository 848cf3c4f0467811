//! Frames of the slow protocols LACP and marker (802.1AX 6.4.2.3, 6.5.3): bytes in and out. What comes in is hostile: lengths before
//! bytes, an error for everything that is not as it should be.

use weir_dataplane::switch::SLOW_ETHERTYPE;
use weir_dataplane::types::Mac;

/// Where their frames are sent: no bridge passes them on.
pub const SLOW_PROTOCOLS: Mac = Mac([0x01, 0x80, 0xc2, 0, 0, 0x02]);
/// Addresses and EtherType.
const HEADER: usize = 14;
/// Bytes of a LACPDU and of a marker PDU, without header and FCS.
const PDU: usize = 110;

/// Subtypes of the slow protocols.
mod subtype {
    pub const LACP: u8 = 1;
    pub const MARKER: u8 = 2;
}

/// The version that is sent. Later ones are read as this one: what they add stands behind it.
const VERSION: u8 = 1;

/// Types and lengths of TLVs.
mod tlv {
    pub const ACTOR: [u8; 2] = [1, 20];
    pub const PARTNER: [u8; 2] = [2, 20];
    pub const COLLECTOR: [u8; 2] = [3, 16];
    pub const MARKER: [u8; 2] = [1, 16];
    pub const MARKER_RESPONSE: [u8; 2] = [2, 16];
}

/// A system: whoever aggregates. The lower one is the more important.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct SystemId {
    /// Priority; the lower, the more important.
    pub priority: u16,
    /// Its address.
    pub mac: Mac,
}

impl std::fmt::Display for SystemId {
    /// Priority and address, as others show it: `65535,02:00:00:00:00:01`.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{},{}", self.priority, self.mac)
    }
}

/// State of a port, a bit each (802.1AX figure 6-9).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct State(pub u8);

impl State {
    /// Speaks whether or not it is spoken to.
    pub const ACTIVITY: Self = Self(1);
    /// Wants a LACPDU every second, and gives up after 3; else every 30 s, and after 90.
    pub const SHORT_TIMEOUT: Self = Self(1 << 1);
    /// May be one of several links.
    pub const AGGREGATION: Self = Self(1 << 2);
    /// Is attached to the right LAG.
    pub const SYNC: Self = Self(1 << 3);
    /// Takes frames.
    pub const COLLECTING: Self = Self(1 << 4);
    /// Sends frames.
    pub const DISTRIBUTING: Self = Self(1 << 5);
    /// Knows of no partner: what it says of it is made up.
    pub const DEFAULTED: Self = Self(1 << 6);
    /// Has heard nothing of its partner for too long.
    pub const EXPIRED: Self = Self(1 << 7);

    /// Bits by letter, from 0 on.
    const LETTERS: [u8; 8] = *b"ATGSCDFE";

    /// All bits of `other` are set.
    pub fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// With the bits of `other` set where `on`, else cleared.
    #[must_use]
    pub fn with(self, other: Self, on: bool) -> Self {
        Self(if on { self.0 | other.0 } else { self.0 & !other.0 })
    }
}

impl std::fmt::Display for State {
    /// A letter for each bit: Activity, Timeout short, aGgregation, Synchronization, Collecting, Distributing, deFaulted, Expired;
    /// `-` where it is not set.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let letter = |bit: usize| if self.0 >> bit & 1 == 1 { Self::LETTERS[bit] } else { b'-' };
        (0..8).try_for_each(|bit| write!(f, "{}", char::from(letter(bit))))
    }
}

/// What a LACPDU says of one end of a link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortInfo {
    /// Its system.
    pub system: SystemId,
    /// Ports of a system that may be of one LAG have one key.
    pub key: u16,
    /// Priority of the port.
    pub port_priority: u16,
    /// Its number within the system.
    pub port: u16,
    /// Its state.
    pub state: State,
}

impl PortInfo {
    /// The same end of the same link, whatever its state.
    pub fn is_same_port(&self, other: &Self) -> bool {
        Self { state: State::default(), ..*self } == Self { state: State::default(), ..*other }
    }

    fn decode(bytes: &[u8; 15]) -> Self {
        let [s0, s1, m0, m1, m2, m3, m4, m5, k0, k1, p0, p1, n0, n1, state] = *bytes;
        Self {
            system: SystemId { priority: u16::from_be_bytes([s0, s1]), mac: Mac([m0, m1, m2, m3, m4, m5]) },
            key: u16::from_be_bytes([k0, k1]),
            port_priority: u16::from_be_bytes([p0, p1]),
            port: u16::from_be_bytes([n0, n1]),
            state: State(state),
        }
    }

    fn encode(&self, out: &mut Vec<u8>) {
        out.extend(self.system.priority.to_be_bytes());
        out.extend(self.system.mac.0);
        out.extend(self.key.to_be_bytes());
        out.extend(self.port_priority.to_be_bytes());
        out.extend(self.port.to_be_bytes());
        out.extend([self.state.0, 0, 0, 0]);
    }
}

/// What one end tells the other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lacpdu {
    /// Of itself.
    pub actor: PortInfo,
    /// What it has understood of the other.
    pub partner: PortInfo,
}

/// A frame of a slow protocol.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Slow {
    /// LACP.
    Lacp(Lacpdu),
    /// A marker, and the frame that answers it but for its source address.
    Marker(Vec<u8>),
    /// An answer to a marker; we send none.
    MarkerResponse,
    /// Another protocol, by its subtype.
    Other(u8),
}

/// Why a frame says nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// No EtherType, or another one.
    #[error("no slow protocol")]
    NotSlow,
    /// It ends too early.
    #[error("shorter than a PDU of its protocol")]
    Truncated,
    /// A TLV is of another type or length than stands there in version 1.
    #[error("a TLV has another type or length than it can have")]
    Tlv,
    /// Who sends it says that it is a group, or nobody: a system has an individual address (802.1AX 6.3.2), and none at all
    /// stands for a partner that has said nothing.
    #[error("the actor is no system")]
    NotASystem,
}

/// The bytes of a TLV that begins at `at`.
fn info<const N: usize>(pdu: &[u8; PDU], at: usize, tlv: [u8; 2]) -> Result<&[u8; N], Malformed> {
    let (head, info) = pdu[at..].split_at(tlv.len());
    if head != tlv {
        return Err(Malformed::Tlv);
    }
    info.first_chunk().ok_or(Malformed::Truncated)
}

/// Reads a frame, from its destination address on and without FCS.
///
/// # Errors
/// [`Malformed`].
pub fn decode(frame: &[u8]) -> Result<Slow, Malformed> {
    let (header, pdu) = frame.split_first_chunk::<HEADER>().ok_or(Malformed::NotSlow)?;
    if header[12..] != SLOW_ETHERTYPE.to_be_bytes() {
        return Err(Malformed::NotSlow);
    }
    let subtype = *pdu.first().ok_or(Malformed::Truncated)?;
    if !matches!(subtype, subtype::LACP | subtype::MARKER) {
        return Ok(Slow::Other(subtype));
    }
    // Whatever is behind it is padding.
    let pdu: &[u8; PDU] = pdu.first_chunk().ok_or(Malformed::Truncated)?;
    if subtype == subtype::LACP {
        let (actor, partner) = (info(pdu, 2, tlv::ACTOR)?, info(pdu, 22, tlv::PARTNER)?);
        // How long the other end may keep frames is of no use here, but it tells a LACPDU from what is none.
        info::<14>(pdu, 42, tlv::COLLECTOR)?;
        let (actor, partner) = (PortInfo::decode(actor), PortInfo::decode(partner));
        let system = actor.system.mac;
        if system.is_group() || system == Mac::default() {
            return Err(Malformed::NotASystem);
        }
        return Ok(Slow::Lacp(Lacpdu { actor, partner }));
    }
    if info::<14>(pdu, 2, tlv::MARKER_RESPONSE).is_ok() {
        return Ok(Slow::MarkerResponse);
    }
    let marker: &[u8; 14] = info(pdu, 2, tlv::MARKER)?;
    let mut response = begin(Mac::default(), subtype::MARKER);
    response.extend(tlv::MARKER_RESPONSE);
    response.extend(marker);
    Ok(Slow::Marker(end(response)))
}

/// A frame up to its version.
fn begin(source: Mac, subtype: u8) -> Vec<u8> {
    let mut out = Vec::with_capacity(HEADER + PDU);
    out.extend(SLOW_PROTOCOLS.0);
    out.extend(source.0);
    out.extend(SLOW_ETHERTYPE.to_be_bytes());
    out.extend([subtype, VERSION]);
    out
}

/// Fills it up: the TLV that ends it is zeros, too.
fn end(frame: Vec<u8>) -> Vec<u8> {
    let mut frame = frame;
    frame.resize(HEADER + PDU, 0);
    frame
}

/// A frame from a port with this address.
#[must_use]
pub fn sent_from(source: Mac, frame: Vec<u8>) -> Vec<u8> {
    let mut frame = frame;
    frame[6..12].copy_from_slice(&source.0);
    frame
}

impl Lacpdu {
    /// The frame from a port with address `source`, without FCS.
    pub fn encode(&self, source: Mac) -> Vec<u8> {
        let mut out = begin(source, subtype::LACP);
        out.extend(tlv::ACTOR);
        self.actor.encode(&mut out);
        out.extend(tlv::PARTNER);
        self.partner.encode(&mut out);
        // A switch keeps no frames back: a delay of 0.
        out.extend(tlv::COLLECTOR);
        end(out)
    }
}

#[cfg(test)]
#[path = "frame_tests.rs"]
mod tests;
