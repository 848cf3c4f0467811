//! Trust order and PCP/DSCP/TC maps: from what a frame says to traffic class, queue and PG.
//!
//! Everything that can be decided by configuration is decided in [`Classifier::new`]; a frame costs
//! one small table look-up. SW-056 (order of the sources), DEV-11 (default priorities), AFH TC byte:
//! its bits 7:2 go through the DSCP map.

use crate::parse::{Kind, Parsed};
use crate::types::PRIORITIES;

/// Where a frame's priority may come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TrustSource {
    /// PCP of the outermost VLAN tag.
    Pcp,
    /// DSCP of the IP header.
    Dscp,
    /// Bits 7:2 of the AFH traffic-class byte.
    Tc,
    /// The default of the port, whatever the frame says.
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
    /// DSCP 0..63 to traffic class; bits 7:2 of the AFH traffic class use it too.
    pub dscp_to_tc: [u8; 64],
    /// PCP 0..7 to traffic class.
    pub pcp_to_tc: [u8; PRIORITIES],
    /// Traffic class to egress queue.
    pub tc_to_queue: [u8; PRIORITIES],
    /// Traffic class to ingress priority group.
    pub tc_to_pg: [u8; PRIORITIES],
    /// Traffic class of a frame no trusted source speaks about.
    pub port_tc: u8,
    /// Traffic class of CNPs, whatever they carry; `None` treats them like data. An ACK is never taken out of the class
    /// its headers say: a requester takes one that overtakes a READ response of the same queue pair as a loss.
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

/// How to find the table index of a frame that has certain sources: the value of the one that wins,
/// masked in, on top of where its part of the table starts.
#[derive(Clone, Copy, Debug)]
struct SourcePick {
    base: u8,
    pcp: u8,
    dscp: u8,
    tc: u8,
}

impl SourcePick {
    fn of(winner: TrustSource) -> Self {
        let none = Self { base: 0, pcp: 0, dscp: 0, tc: 0 };
        match winner {
            TrustSource::Pcp => Self { base: PCP_AT as u8, pcp: 7, ..none },
            TrustSource::Dscp => Self { dscp: 63, ..none },
            TrustSource::Tc => Self { tc: 63, ..none },
            TrustSource::Port => Self { base: PORT_AT as u8, ..none },
        }
    }
}

/// The maps of one port, flattened.
#[derive(Clone, Debug)]
pub struct Classifier {
    /// By DSCP, then by PCP, then port default, then control class.
    table: [Class; CONTROL_AT + 1],
    /// By what the frame has: bit 0 PCP, bit 1 DSCP, bit 2 TC.
    picks: [SourcePick; 8],
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
        let picks = std::array::from_fn(|present| {
            let has = |source: &TrustSource| match source {
                TrustSource::Pcp => present & 1 != 0,
                TrustSource::Dscp => present & 2 != 0,
                TrustSource::Tc => present & 4 != 0,
                TrustSource::Port => true,
            };
            SourcePick::of(trust.iter().copied().find(has).unwrap_or(TrustSource::Port))
        });
        Ok(Self { table, picks, control: maps.control_tc.is_some() })
    }

    /// Class of CNPs.
    pub fn control_class(&self) -> Class {
        self.table[CONTROL_AT]
    }

    /// PCP of a frame of this class that gets a tag: the class itself, or the first PCP that leads to it, or else 0.
    pub fn pcp_of(&self, tc: u8) -> u8 {
        let leads = |pcp: &u8| self.table[PCP_AT + usize::from(*pcp)].tc == tc;
        std::iter::once(tc & 7).chain(0..PRIORITIES as u8).find(leads).unwrap_or(0)
    }

    /// Class of a parsed frame. No branch depends on the frame: tagged and untagged, data and CNPs
    /// come in any order.
    #[inline(always)]
    pub fn class(&self, frame: &Parsed) -> Class {
        let present = usize::from(frame.pcp.is_some())
            | usize::from(frame.dscp.is_some()) << 1
            | usize::from(frame.tc.is_some()) << 2;
        let pick = self.picks[present & 7];
        let at = pick.base
            | frame.pcp.unwrap_or(0) & pick.pcp
            | frame.dscp.unwrap_or(0) & pick.dscp
            | frame.tc.unwrap_or(0) >> 2 & pick.tc;
        let control = self.control & (frame.kind == Kind::Cnp);
        self.table[if control { CONTROL_AT } else { usize::from(at).min(CONTROL_AT) }]
    }
}

fn check(map: &'static str, values: &[u8]) -> Result<(), MapError> {
    match values.iter().position(|&v| usize::from(v) >= PRIORITIES) {
        Some(index) => Err(MapError { map, index, value: values[index] }),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse::{EcnField, EcnPlace};

    fn frame(pcp: Option<u8>, dscp: Option<u8>, tc: Option<u8>) -> Parsed {
        Parsed {
            dst_key: 1 << 60,
            src_key: 1 << 60,
            group: false,
            pcp,
            dscp,
            tc,
            ecn: EcnField { place: EcnPlace::None, codepoint: 0 },
            kind: Kind::Data,
            malformed_l3: false,
        }
    }

    /// Maps in which no two neighbouring steps agree, so that a step left out shows.
    fn odd_maps() -> Maps {
        Maps {
            dscp_to_tc: std::array::from_fn(|d| (d * 5 % 8) as u8),
            pcp_to_tc: [1, 0, 3, 2, 5, 4, 7, 6],
            tc_to_queue: [7, 6, 5, 4, 3, 2, 1, 0],
            tc_to_pg: [3, 4, 5, 6, 7, 0, 1, 2],
            port_tc: 2,
            control_tc: None,
        }
    }

    fn want(maps: &Maps, tc: u8) -> Class {
        Class { tc, queue: maps.tc_to_queue[usize::from(tc)], pg: maps.tc_to_pg[usize::from(tc)] }
    }

    use TrustSource::{Dscp, Pcp, Port, Tc};

    #[test]
    fn a1_a2_a4_each_dscp_has_its_queue_and_pg() {
        let maps = odd_maps();
        let classifier = Classifier::new(&maps, &[Dscp, Port]).unwrap();
        for dscp in 0..64 {
            let got = classifier.class(&frame(None, Some(dscp), None));
            assert_eq!(got, want(&maps, maps.dscp_to_tc[usize::from(dscp)]));
        }
    }

    #[test]
    fn a3_each_pcp_has_its_queue_and_pg() {
        let maps = odd_maps();
        let classifier = Classifier::new(&maps, &default_trust()).unwrap();
        for pcp in 0..8 {
            // PCP is trusted before DSCP.
            for dscp in [None, Some(63)] {
                assert_eq!(classifier.class(&frame(Some(pcp), dscp, None)), want(&maps, pcp ^ 1));
            }
        }
    }

    #[test]
    fn a5_port_default_where_no_trusted_source_speaks() {
        let maps = odd_maps();
        let default = want(&maps, 2);
        let by_pcp = Classifier::new(&maps, &[Pcp]).unwrap();
        let by_dscp = Classifier::new(&maps, &[Dscp]).unwrap();
        let by_port = Classifier::new(&maps, &[Port, Pcp, Dscp]).unwrap();
        let none = Classifier::new(&maps, &[]).unwrap();
        assert_eq!(by_pcp.class(&frame(None, None, None)), default);
        assert_eq!(by_pcp.class(&frame(None, Some(46), None)), default);
        assert_eq!(by_dscp.class(&frame(Some(6), None, None)), default);
        for classifier in [by_port, none] {
            assert_eq!(classifier.class(&frame(Some(6), Some(46), Some(0xff))), default);
        }
    }

    #[test]
    fn a6_queue_and_pg_maps_need_not_be_the_identity() {
        let mut maps = Maps { port_tc: 3, ..Maps::default() };
        maps.tc_to_queue[3] = 5;
        maps.tc_to_pg[3] = 1;
        let classifier = Classifier::new(&maps, &default_trust()).unwrap();
        assert_eq!(classifier.class(&frame(None, None, None)), Class { tc: 3, queue: 5, pg: 1 });
        assert_eq!(classifier.class(&frame(Some(5), None, None)), Class { tc: 5, queue: 5, pg: 5 });
    }

    /// Through the parser: the ECN bits are no part of the class, IPv4 and IPv6 alike (A4).
    #[test]
    fn a8_class_is_independent_of_the_ecn_bits() {
        let maps = odd_maps();
        let classifier = Classifier::new(&maps, &default_trust()).unwrap();
        let profile = crate::parse::Profile::standard();
        for class in 0..=255u8 {
            let mut v4 = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0, 0x45, class, 0, 46];
            v4.extend([0, 0, 0, 0, 64, 6]);
            v4.resize(60, 0);
            let mut v6 = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x86, 0xdd];
            v6.extend([0x60 | class >> 4, class << 4, 0, 0, 0, 6, 6, 64]);
            v6.resize(60, 0);
            for bytes in [v4, v6] {
                let parsed = profile.parse(&bytes, 60).unwrap();
                assert_eq!(parsed.ecn.codepoint, class & 3);
                assert_eq!(classifier.class(&parsed), want(&maps, (class >> 2) % 8 * 5 % 8));
            }
        }
    }

    #[test]
    fn afh_traffic_class_goes_through_the_dscp_map() {
        let maps = odd_maps();
        let classifier = Classifier::new(&maps, &[Pcp, Tc, Port]).unwrap();
        for tc in 0..=255 {
            assert_eq!(classifier.class(&frame(None, None, Some(tc))), want(&maps, (tc >> 2) % 8 * 5 % 8));
        }
        assert_eq!(classifier.class(&frame(Some(0), None, Some(0xff))), want(&maps, 1));
    }

    #[test]
    fn cnps_alone_have_a_class_of_their_own_when_one_is_set() {
        let trust = default_trust();
        for kind in [Kind::Cnp, Kind::Ack, Kind::Data] {
            let parsed = Parsed { kind, ..frame(Some(0), None, None) };
            let mut maps = odd_maps();
            assert_eq!(Classifier::new(&maps, &trust).unwrap().class(&parsed), want(&maps, 1));
            maps.control_tc = Some(6);
            let tc = if kind == Kind::Cnp { 6 } else { 1 };
            assert_eq!(Classifier::new(&maps, &trust).unwrap().class(&parsed), want(&maps, tc));
        }
    }

    #[test]
    fn a_value_above_seven_is_refused_with_its_place() {
        let mut maps = Maps::default();
        maps.dscp_to_tc[46] = 8;
        let error = Classifier::new(&maps, &[]).unwrap_err();
        assert_eq!(error, MapError { map: "dscp_to_tc", index: 46, value: 8 });
        assert!(error.to_string().starts_with("dscp_to_tc[46] = 8"));
        for maps in [
            Maps { port_tc: 8, ..Maps::default() },
            Maps { control_tc: Some(9), ..Maps::default() },
            Maps { tc_to_pg: [255; 8], ..Maps::default() },
            Maps { tc_to_queue: [8; 8], ..Maps::default() },
            Maps { pcp_to_tc: [8; 8], ..Maps::default() },
        ] {
            assert!(Classifier::new(&maps, &[]).is_err());
        }
    }
}
