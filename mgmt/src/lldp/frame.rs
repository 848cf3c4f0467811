//! LLDP frames (802.1AB): bytes in and out. What comes in is hostile: lengths before bytes, an error or a count for
//! everything that is not as it should be.

use super::dcbx::{self, Application, EtsConfiguration, Pfc};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use weir_dataplane::switch::LLDP_ETHERTYPE;
use weir_dataplane::types::Mac;

/// The nearest bridge: passed on by none (802.1AB table 7-1).
const NEAREST_BRIDGE: Mac = Mac([0x01, 0x80, 0xc2, 0, 0, 0x0e]);
/// Shortest frame without FCS.
const LEAST: usize = 60;
/// Bytes in front of the LLDPDU.
const HEADER: usize = 14;
/// Most bytes of the information of a TLV.
const MOST: usize = 511;
/// Most bytes of an identifier or a text.
const TEXT: usize = 255;

const OUI_802_1: [u8; 3] = [0x00, 0x80, 0xc2];
const OUI_802_3: [u8; 3] = [0x00, 0x12, 0x0f];

/// Types of TLVs (802.1AB table 8-1).
mod kind {
    pub const END: u8 = 0;
    pub const CHASSIS: u8 = 1;
    pub const PORT: u8 = 2;
    pub const TTL: u8 = 3;
    pub const PORT_DESCRIPTION: u8 = 4;
    pub const SYSTEM_NAME: u8 = 5;
    pub const SYSTEM_DESCRIPTION: u8 = 6;
    pub const CAPABILITIES: u8 = 7;
    pub const MANAGEMENT_ADDRESS: u8 = 8;
    pub const ORGANISATION: u8 = 127;
}

/// Subtypes of the organisations' TLVs.
mod subtype {
    pub const ETS_CONFIGURATION: u8 = 9;
    pub const ETS_RECOMMENDATION: u8 = 10;
    pub const PFC: u8 = 11;
    pub const APPLICATION: u8 = 12;
    pub const MAX_FRAME: u8 = 4;
}

/// Names of the subtypes of a chassis identifier, from 1 on (802.1AB table 8-2).
pub const CHASSIS_KINDS: [&str; 7] = [
    "chassis component",
    "interface alias",
    "port component",
    "mac address",
    "network address",
    "interface name",
    "local",
];

/// Names of the subtypes of a port identifier, from 1 on (802.1AB table 8-3).
pub const PORT_KINDS: [&str; 7] = [
    "interface alias",
    "port component",
    "mac address",
    "network address",
    "interface name",
    "agent circuit id",
    "local",
];

/// An identifier of a chassis or of a port.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Id {
    /// What it is: a place in [`CHASSIS_KINDS`] or [`PORT_KINDS`], from 1 on.
    pub subtype: u8,
    /// 1 to 255 bytes.
    pub value: Vec<u8>,
}

impl Id {
    /// What it is.
    pub fn kind(&self, kinds: &[&'static str; 7]) -> &'static str {
        usize::from(self.subtype).checked_sub(1).and_then(|at| kinds.get(at)).copied().unwrap_or("reserved")
    }

    /// For people: an address, a text, or else its bytes.
    pub fn text(&self, kinds: &[&'static str; 7]) -> String {
        let hex = || self.value.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(":");
        match (self.kind(kinds), &self.value[..]) {
            ("network address", [family, address @ ..]) => {
                ip(*family, address).map_or_else(hex, |ip| ip.to_string())
            }
            ("mac address" | "agent circuit id" | "reserved", _) => hex(),
            (_, value) => text(value),
        }
    }

    fn decode(info: &[u8]) -> Option<Self> {
        let (subtype, value) = info.split_first()?;
        (1..=TEXT).contains(&value.len()).then(|| Self { subtype: *subtype, value: value.to_vec() })
    }
}

/// An address of a family of IANA's.
fn ip(family: u8, address: &[u8]) -> Option<IpAddr> {
    match family {
        1 => Some(Ipv4Addr::from(<[u8; 4]>::try_from(address).ok()?).into()),
        2 => Some(Ipv6Addr::from(<[u8; 16]>::try_from(address).ok()?).into()),
        _ => None,
    }
}

/// A neighbour's text, of which nothing moves a cursor or hides what stands beside it.
fn text(bytes: &[u8]) -> String {
    let odd = |c: char| {
        c.is_control()
            || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
    };
    let end = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    String::from_utf8_lossy(&bytes[..end]).chars().map(|c| if odd(c) { '\u{fffd}' } else { c }).collect()
}

/// What a station says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lldpdu {
    /// The station.
    pub chassis: Id,
    /// Its port.
    pub port: Id,
    /// For how long this holds, s; 0: no longer.
    pub ttl: u16,
    /// What the port is.
    pub port_description: Option<String>,
    /// Name of the station.
    pub system_name: Option<String>,
    /// What it is.
    pub system_description: Option<String>,
    /// What it can be, and what of that it is, a bit each: [`CAPABILITIES`].
    pub capabilities: Option<(u16, u16)>,
    /// Where it is managed: the first IP address that it names.
    pub management: Option<IpAddr>,
    /// ETS, as in force.
    pub ets: Option<EtsConfiguration>,
    /// ETS, as recommended to the neighbour.
    pub ets_recommendation: Option<dcbx::Ets>,
    /// PFC, as in force.
    pub pfc: Option<Pfc>,
    /// Priorities of applications.
    pub applications: Option<Vec<Application>>,
    /// Longest frame of its MAC, bytes with FCS.
    pub max_frame: Option<u16>,
}

/// Names of capabilities, from bit 0 on (802.1AB table 8-4).
pub const CAPABILITIES: [&str; 11] = [
    "other",
    "repeater",
    "bridge",
    "wlan_access_point",
    "router",
    "telephone",
    "docsis",
    "station",
    "c_vlan",
    "s_vlan",
    "two_port_mac_relay",
];

/// Why an LLDP frame says nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// No EtherType, or another one.
    #[error("no LLDP")]
    NotLldp,
    /// It ends inside a TLV.
    #[error("cut off inside a TLV")]
    Truncated,
    /// It does not begin with chassis, port and time to live, in this order and once each.
    #[error("chassis, port and time to live are not its first TLVs")]
    Mandatory,
    /// An identifier or a time to live of another length than it can have.
    #[error("an identifier or the time to live has no length that it can have")]
    Length,
}

/// A frame that was read, and how many of its TLVs said nothing that makes sense.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decoded {
    /// What it says.
    pub pdu: Lldpdu,
    /// Where it came from.
    pub source: Mac,
    /// TLVs of known kinds that were malformed, or there twice: the first of them counts.
    pub discarded: u64,
}

/// A TLV, and what is behind it.
struct Tlv<'a> {
    kind: u8,
    info: &'a [u8],
    behind: &'a [u8],
}

/// The first TLV; `Ok(None)`: the end.
fn tlv(bytes: &[u8]) -> Result<Option<Tlv<'_>>, Malformed> {
    let [first, second, rest @ ..] = bytes else {
        return if bytes.is_empty() { Ok(None) } else { Err(Malformed::Truncated) };
    };
    let (kind, len) = (first >> 1, usize::from(first & 1) << 8 | usize::from(*second));
    let (info, behind) = rest.split_at_checked(len).ok_or(Malformed::Truncated)?;
    Ok((kind != kind::END).then_some(Tlv { kind, info, behind }))
}

/// Reads a frame, from its destination address on and without FCS.
///
/// # Errors
/// [`Malformed`]: 802.1AB has such a frame thrown away as a whole.
pub fn decode(frame: &[u8]) -> Result<Decoded, Malformed> {
    let (header, mut rest) = frame.split_first_chunk::<HEADER>().ok_or(Malformed::NotLldp)?;
    if header[12..] != LLDP_ETHERTYPE.to_be_bytes() {
        return Err(Malformed::NotLldp);
    }
    let mut mandatory = |wanted: u8| match tlv(rest)? {
        Some(Tlv { kind, info, behind }) if kind == wanted => {
            rest = behind;
            Ok(info)
        }
        _ => Err(Malformed::Mandatory),
    };
    let chassis = Id::decode(mandatory(kind::CHASSIS)?).ok_or(Malformed::Length)?;
    let port = Id::decode(mandatory(kind::PORT)?).ok_or(Malformed::Length)?;
    let ttl = mandatory(kind::TTL)?.first_chunk().ok_or(Malformed::Length)?;
    let mut pdu = Lldpdu::new(chassis, port, u16::from_be_bytes(*ttl));
    let mut discarded = 0;
    while let Some(Tlv { kind, info, behind }) = tlv(rest)? {
        if matches!(kind, kind::CHASSIS | kind::PORT | kind::TTL) {
            return Err(Malformed::Mandatory);
        }
        discarded += u64::from(pdu.take(kind, info).is_none());
        rest = behind;
    }
    let mut source = Mac::default();
    source.0.copy_from_slice(&header[6..12]);
    Ok(Decoded { pdu, source, discarded })
}

/// Fills a place that was empty.
fn put<T>(place: &mut Option<T>, value: Option<T>) -> Option<()> {
    let value = value?;
    place.is_none().then(|| *place = Some(value))
}

impl Lldpdu {
    /// One that says nothing beyond who it is from and for how long it holds.
    pub fn new(chassis: Id, port: Id, ttl: u16) -> Self {
        Self {
            chassis,
            port,
            ttl,
            port_description: None,
            system_name: None,
            system_description: None,
            capabilities: None,
            management: None,
            ets: None,
            ets_recommendation: None,
            pfc: None,
            applications: None,
            max_frame: None,
        }
    }

    /// Takes what a TLV says. `None`: nothing that makes sense.
    fn take(&mut self, kind: u8, info: &[u8]) -> Option<()> {
        let words = || (info.len() <= TEXT).then(|| text(info));
        match kind {
            kind::PORT_DESCRIPTION => put(&mut self.port_description, words()),
            kind::SYSTEM_NAME => put(&mut self.system_name, words()),
            kind::SYSTEM_DESCRIPTION => put(&mut self.system_description, words()),
            kind::CAPABILITIES => {
                let of = |info: &[u8; 4]| {
                    (u16::from_be_bytes([info[0], info[1]]), u16::from_be_bytes([info[2], info[3]]))
                };
                put(&mut self.capabilities, info.try_into().ok().map(of))
            }
            kind::MANAGEMENT_ADDRESS => {
                let (len, rest) = info.split_first()?;
                let (family, address) = rest.get(..usize::from(*len))?.split_first()?;
                // There may be several, of other families, too.
                self.management = self.management.or(ip(*family, address));
                Some(())
            }
            kind::ORGANISATION => {
                let (oui, info) = info.split_first_chunk::<3>()?;
                let (subtype, info) = info.split_first()?;
                self.take_of(*oui, *subtype, info)
            }
            // What nobody knows here is nothing against it.
            _ => Some(()),
        }
    }

    fn take_of(&mut self, oui: [u8; 3], subtype: u8, info: &[u8]) -> Option<()> {
        match (oui, subtype) {
            (OUI_802_1, subtype::ETS_CONFIGURATION) => put(&mut self.ets, EtsConfiguration::decode(info)),
            (OUI_802_1, subtype::ETS_RECOMMENDATION) => {
                put(&mut self.ets_recommendation, dcbx::decode_recommendation(info))
            }
            (OUI_802_1, subtype::PFC) => put(&mut self.pfc, Pfc::decode(info)),
            (OUI_802_1, subtype::APPLICATION) => put(&mut self.applications, Application::decode_all(info)),
            (OUI_802_3, subtype::MAX_FRAME) => {
                put(&mut self.max_frame, info.try_into().ok().map(u16::from_be_bytes))
            }
            _ => Some(()),
        }
    }

    /// The frame from a port with address `source`, without FCS. Texts are cut to what a TLV holds.
    pub fn encode(&self, source: Mac) -> Vec<u8> {
        let mut out = Vec::with_capacity(512);
        out.extend(NEAREST_BRIDGE.0);
        out.extend(source.0);
        out.extend(LLDP_ETHERTYPE.to_be_bytes());
        let id = |id: &Id| [&[id.subtype][..], &id.value].concat();
        put_tlv(&mut out, kind::CHASSIS, &id(&self.chassis));
        put_tlv(&mut out, kind::PORT, &id(&self.port));
        put_tlv(&mut out, kind::TTL, &self.ttl.to_be_bytes());
        for (kind, words) in [
            (kind::PORT_DESCRIPTION, &self.port_description),
            (kind::SYSTEM_NAME, &self.system_name),
            (kind::SYSTEM_DESCRIPTION, &self.system_description),
        ] {
            if let Some(words) = words {
                put_tlv(&mut out, kind, cut(words).as_bytes());
            }
        }
        if let Some((system, enabled)) = self.capabilities {
            put_tlv(&mut out, kind::CAPABILITIES, &[system.to_be_bytes(), enabled.to_be_bytes()].concat());
        }
        if let Some(address) = self.management {
            put_tlv(&mut out, kind::MANAGEMENT_ADDRESS, &management(address));
        }
        let mut of = |oui: [u8; 3], subtype: u8, write: &dyn Fn(&mut Vec<u8>)| {
            let mut info = oui.to_vec();
            info.push(subtype);
            write(&mut info);
            put_tlv(&mut out, kind::ORGANISATION, &info);
        };
        if let Some(ets) = &self.ets {
            of(OUI_802_1, subtype::ETS_CONFIGURATION, &|info| ets.encode(info));
        }
        if let Some(ets) = &self.ets_recommendation {
            of(OUI_802_1, subtype::ETS_RECOMMENDATION, &|info| dcbx::encode_recommendation(ets, info));
        }
        if let Some(pfc) = &self.pfc {
            of(OUI_802_1, subtype::PFC, &|info| pfc.encode(info));
        }
        if let Some(all) = &self.applications {
            of(OUI_802_1, subtype::APPLICATION, &|info| Application::encode_all(all, info));
        }
        if let Some(bytes) = self.max_frame {
            of(OUI_802_3, subtype::MAX_FRAME, &|info| info.extend(bytes.to_be_bytes()));
        }
        put_tlv(&mut out, kind::END, &[]);
        out.resize(out.len().max(LEAST), 0);
        out
    }
}

/// A management address, of an interface that has no number (802.1AB 8.5.9).
fn management(address: IpAddr) -> Vec<u8> {
    const UNKNOWN_INTERFACE: [u8; 5] = [1, 0, 0, 0, 0];
    const NO_OBJECT: u8 = 0;
    let (family, bytes) = match address {
        IpAddr::V4(ip) => (1, ip.octets().to_vec()),
        IpAddr::V6(ip) => (2, ip.octets().to_vec()),
    };
    let mut info = vec![1 + bytes.len() as u8, family];
    info.extend(bytes);
    info.extend(UNKNOWN_INTERFACE);
    info.push(NO_OBJECT);
    info
}

/// As much of a text as a TLV holds.
fn cut(words: &str) -> &str {
    let ends = words.char_indices().map(|(at, c)| at + c.len_utf8());
    &words[..ends.take_while(|end| *end <= TEXT).last().unwrap_or(0)]
}

fn put_tlv(out: &mut Vec<u8>, kind: u8, info: &[u8]) {
    debug_assert!(info.len() <= MOST);
    let info = &info[..info.len().min(MOST)];
    out.extend((u16::from(kind) << 9 | info.len() as u16).to_be_bytes());
    out.extend(info);
}

#[cfg(test)]
#[path = "frame_tests.rs"]
mod tests;
