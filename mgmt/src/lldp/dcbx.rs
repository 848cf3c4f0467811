//! What DCBX says in LLDP (802.1Q annex D, formerly 802.1Qaz): ETS, PFC and application priorities, each a TLV of its own.

use weir_dataplane::types::PRIORITIES;

/// Octets of the information behind OUI and subtype, ETS.
const ETS_BYTES: usize = 21;

/// How frames of a traffic class are selected for transmission (802.1Q table 34-1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithm {
    /// Strict priority.
    Strict,
    /// Credit-based shaper.
    CreditBased,
    /// Enhanced transmission selection: a share of the bandwidth.
    Ets,
    /// The vendor's own.
    Vendor,
    /// Reserved.
    Other(u8),
}

impl Algorithm {
    fn of(code: u8) -> Self {
        match code {
            0 => Self::Strict,
            1 => Self::CreditBased,
            2 => Self::Ets,
            255 => Self::Vendor,
            other => Self::Other(other),
        }
    }

    fn code(self) -> u8 {
        match self {
            Self::Strict => 0,
            Self::CreditBased => 1,
            Self::Ets => 2,
            Self::Vendor => 255,
            Self::Other(code) => code,
        }
    }

    /// As it is shown.
    pub fn word(self) -> &'static str {
        match self {
            Self::Strict => "strict",
            Self::CreditBased => "credit_based",
            Self::Ets => "ets",
            Self::Vendor => "vendor",
            Self::Other(_) => "reserved",
        }
    }
}

/// ETS: which priority is in which traffic class, and how classes share the link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ets {
    /// Traffic class of each priority, 0 to 7.
    pub class: [u8; PRIORITIES],
    /// Percent of the bandwidth of each traffic class, where it has [`Algorithm::Ets`].
    pub bandwidth: [u8; PRIORITIES],
    /// Of each traffic class.
    pub algorithm: [Algorithm; PRIORITIES],
}

impl Ets {
    /// Algorithm and bandwidth that a priority gets.
    pub fn of_priority(&self, priority: usize) -> (Algorithm, u8) {
        let class = usize::from(self.class[priority % PRIORITIES]) % PRIORITIES;
        let algorithm = self.algorithm[class];
        (algorithm, if algorithm == Algorithm::Ets { self.bandwidth[class] } else { 0 })
    }

    fn decode(info: &[u8; ETS_BYTES]) -> Option<Self> {
        let nibble = |priority: usize| info[1 + priority / 2] >> (4 * (1 - priority % 2)) & 15;
        let class: [u8; PRIORITIES] = std::array::from_fn(nibble);
        class.iter().all(|class| *class < 8).then(|| Self {
            class,
            bandwidth: std::array::from_fn(|class| info[5 + class]),
            algorithm: std::array::from_fn(|class| Algorithm::of(info[13 + class])),
        })
    }

    fn encode(&self, flags: u8, out: &mut Vec<u8>) {
        out.push(flags);
        out.extend(self.class.chunks(2).map(|pair| pair[0] << 4 | pair[1] & 15));
        out.extend(self.bandwidth);
        out.extend(self.algorithm.map(Algorithm::code));
    }
}

/// The ETS configuration TLV (subtype 9).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EtsConfiguration {
    /// It takes over what the neighbour recommends.
    pub willing: bool,
    /// It has credit-based shapers.
    pub credit_based: bool,
    /// Traffic classes it has, 1 to 8.
    pub classes: u8,
    /// What is in force.
    pub ets: Ets,
}

impl EtsConfiguration {
    /// Of an information string behind OUI and subtype.
    pub(super) fn decode(info: &[u8]) -> Option<Self> {
        let info: &[u8; ETS_BYTES] = info.try_into().ok()?;
        Some(Self {
            willing: info[0] & 0x80 != 0,
            credit_based: info[0] & 0x40 != 0,
            // Zero stands for eight.
            classes: match info[0] & 7 {
                0 => 8,
                n => n,
            },
            ets: Ets::decode(info)?,
        })
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        let flags = u8::from(self.willing) << 7 | u8::from(self.credit_based) << 6 | self.classes & 7;
        self.ets.encode(flags, out);
    }
}

/// The ETS recommendation TLV (subtype 10).
pub(super) fn decode_recommendation(info: &[u8]) -> Option<Ets> {
    Ets::decode(info.try_into().ok()?)
}

pub(super) fn encode_recommendation(ets: &Ets, out: &mut Vec<u8>) {
    ets.encode(0, out);
}

/// The PFC configuration TLV (subtype 11).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pfc {
    /// It takes over what the neighbour has.
    pub willing: bool,
    /// It cannot pause a priority without MACsec bypass.
    pub macsec_bypass: bool,
    /// Priorities it can have PFC for at once, 0 to 15.
    pub capability: u8,
    /// Priorities with PFC, a bit each.
    pub enable: u8,
}

impl Pfc {
    pub(super) fn decode(info: &[u8]) -> Option<Self> {
        let [flags, enable] = *info else { return None };
        Some(Self {
            willing: flags & 0x80 != 0,
            macsec_bypass: flags & 0x40 != 0,
            capability: flags & 15,
            enable,
        })
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        let flags = u8::from(self.willing) << 7 | u8::from(self.macsec_bypass) << 6 | self.capability & 15;
        out.extend([flags, self.enable]);
    }
}

/// An entry of the application priority TLV (subtype 12): frames of this protocol have this priority.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Application {
    /// 0 to 7.
    pub priority: u8,
    /// What `protocol` is, 0 to 7: see [`Application::selector_word`].
    pub selector: u8,
    /// EtherType, port or DSCP.
    pub protocol: u16,
}

impl Application {
    /// `protocol` is a DSCP.
    pub const DSCP: u8 = 5;

    /// What the number of the protocol is.
    pub fn selector_word(self) -> &'static str {
        match self.selector {
            1 => "ethertype",
            2 => "tcp_port",
            3 => "udp_port",
            4 => "port",
            Self::DSCP => "dscp",
            _ => "reserved",
        }
    }

    pub(super) fn decode_all(info: &[u8]) -> Option<Vec<Self>> {
        let (_, entries) = info.split_first()?;
        let one = |entry: &[u8]| Self {
            priority: entry[0] >> 5,
            selector: entry[0] & 7,
            protocol: u16::from_be_bytes([entry[1], entry[2]]),
        };
        entries.len().is_multiple_of(3).then(|| entries.chunks_exact(3).map(one).collect())
    }

    pub(super) fn encode_all(all: &[Self], out: &mut Vec<u8>) {
        out.push(0);
        for Self { priority, selector, protocol } in all {
            let [high, low] = protocol.to_be_bytes();
            out.extend([priority << 5 | selector & 7, high, low]);
        }
    }
}
