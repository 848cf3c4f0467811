//! Trust order and PCP/DSCP/TC maps: from what a frame says to traffic class, queue and PG.
//!
//! Everything that can be decided by configuration is decided in [`Classifier::new`]; a frame costs
//! one small table look-up. SW-056 (order of the sources), DEV-11 (default priorities), AFH TC byte:
//! its bits 7:2 go through the DSCP map.

use crate::parse::{Kind, Parsed};
use crate::types::PRIORITIES;
use serde::Deserialize;

/// Where a frame's priority may come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TrustSource {
    /// PCP of the outermost VLAN tag.
    Pcp,
    /// DSCP of the IP header.
    Dscp,
    /// Bits 7:2 of the AFH traffic-class byte.
    Tc,
    /// The default of the port, whatever the frame says.
    #[serde(alias = "port_default")]
    Port,
}

/// Priority sources in the order in which they are tried; when none applies the port default does.
pub type Trust = Vec<TrustSource>;

/// The order used where none is configured: PCP, then DSCP, then the port (SW-056).
pub fn default_trust() -> Trust {
    vec![TrustSource::Pcp, TrustSource::Dscp, TrustSource::Port]
}

/// The maps of one port, in SONiC's terms. Every value is below [`PRIORITIES`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Maps {
    /// DSCP 0..63 to traffic class; AFH TC[7:2] uses it too.
    pub dscp_to_tc: [u8; 64],
    /// PCP 0..7 to traffic class.
    pub pcp_to_tc: [u8; PRIORITIES],
    /// Traffic class to egress queue.
    pub tc_to_queue: [u8; PRIORITIES],
    /// Traffic class to ingress priority group.
    pub tc_to_pg: [u8; PRIORITIES],
    /// Traffic class of a frame no trusted source speaks about.
    pub port_tc: u8,
    /// Traffic class of CNP and ACK frames, whatever they carry; `None` treats them like data.
    pub control_tc: Option<u8>,
}

impl Default for Maps {
    /// PCP, queue and PG one to one, DSCP by class selector (its top three bits), port default 0.
    fn default() -> Self {
        let same = std::array::from_fn(|i| i as u8);
        Self {
            dscp_to_tc: std::array::from_fn(|dscp| dscp as u8 >> 3),
            pcp_to_tc: same,
            tc_to_queue: same,
            tc_to_pg: same,
            port_tc: 0,
            control_tc: None,
        }
    }
}

/// A map has a value outside 0..7.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{map}[{index}] = {value}, but classes, queues and priority groups go from 0 to 7")]
pub struct MapError {
    /// Name of the map, as in the configuration.
    pub map: &'static str,
    /// Index into the map (0 for a single value).
    pub index: usize,
    /// The value found there.
    pub value: u8,
}

/// What a frame was classified to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Class {
    /// Traffic class 0..7.
    pub tc: u8,
    /// Egress queue 0..7.
    pub queue: u8,
    /// Ingress priority group 0..7.
    pub pg: u8,
}

const PCP_AT: usize = 64;
const PORT_AT: usize = PCP_AT + PRIORITIES;
const CONTROL_AT: usize = PORT_AT + 1;

/// The maps of one port, flattened.
#[derive(Clone, Debug)]
pub struct Classifier {
    /// By DSCP, then by PCP, then port default, then control class.
    table: [Class; CONTROL_AT + 1],
    /// Which source wins, by what the frame has: bit 0 PCP, bit 1 DSCP, bit 2 TC.
    winner: [TrustSource; 8],
    control: bool,
}

impl Classifier {
    /// Checks and flattens the maps of a port.
    ///
    /// # Errors
    /// The first map value above 7.
    pub fn new(maps: &Maps, trust: &[TrustSource]) -> Result<Self, MapError> {
        check("dscp_to_tc", &maps.dscp_to_tc)?;
        check("pcp_to_tc", &maps.pcp_to_tc)?;
        check("tc_to_queue", &maps.tc_to_queue)?;
        check("tc_to_pg", &maps.tc_to_pg)?;
        check("default_tc", &[maps.port_tc])?;
        check("control_tc", maps.control_tc.as_slice())?;
        let class = |tc: u8| Class {
            tc,
            queue: maps.tc_to_queue[usize::from(tc)],
            pg: maps.tc_to_pg[usize::from(tc)],
        };
        let mut table = [class(maps.port_tc); CONTROL_AT + 1];
        for (slot, &tc) in table.iter_mut().zip(maps.dscp_to_tc.iter().chain(&maps.pcp_to_tc)) {
            *slot = class(tc);
        }
        table[CONTROL_AT] = class(maps.control_tc.unwrap_or(maps.port_tc));
        let winner = std::array::from_fn(|present| {
            let has = |source: &TrustSource| match source {
                TrustSource::Pcp => present & 1 != 0,
                TrustSource::Dscp => present & 2 != 0,
                TrustSource::Tc => present & 4 != 0,
                TrustSource::Port => true,
            };
            trust.iter().copied().find(has).unwrap_or(TrustSource::Port)
        });
        Ok(Self { table, winner, control: maps.control_tc.is_some() })
    }

    /// Class of CNP and ACK frames.
    pub fn control_class(&self) -> Class {
        self.table[CONTROL_AT]
    }

    /// Class of a parsed frame.
    #[inline]
    pub fn class(&self, frame: &Parsed) -> Class {
        let present = usize::from(frame.pcp.is_some())
            | usize::from(frame.dscp.is_some()) << 1
            | usize::from(frame.tc.is_some()) << 2;
        let mut at = match self.winner[present & 7] {
            TrustSource::Dscp => usize::from(frame.dscp.unwrap_or(0) & 63),
            TrustSource::Pcp => PCP_AT + usize::from(frame.pcp.unwrap_or(0) & 7),
            TrustSource::Tc => usize::from(frame.tc.unwrap_or(0) >> 2),
            TrustSource::Port => PORT_AT,
        };
        if self.control && matches!(frame.kind, Kind::Cnp | Kind::Ack) {
            at = CONTROL_AT;
        }
        self.table[at]
    }
}

fn check(map: &'static str, values: &[u8]) -> Result<(), MapError> {
    match values.iter().position(|&v| usize::from(v) >= PRIORITIES) {
        Some(index) => Err(MapError { map, index, value: values[index] }),
        None => Ok(()),
    }
}
