//! How many bytes still arrive after Xoff was decided, and where each of them comes from.
//!
//! Two named models. [`Model::Sonic`] is the published vendor formula with its constants, so that a
//! table known from hardware can be compared. [`Model::Weir`] is what is physically in flight towards
//! this switch and nothing else: one frame in each direction, the cable, the peer's response, and the
//! terms a software switch adds (RX ring, loop turn, TX ring). Reference: `qos-scenarios.md` 2.3 and
//! 4.2; REQ FND-002; DEV-26, DEV-53. Everything is exact integer arithmetic, rounded up.

use crate::types::{Nanos, WIRE_OVERHEAD_BYTES, wire_bytes};

/// Bytes one pause quantum stands for at any rate: 512 bit times.
pub const QUANTUM_BYTES: u64 = 64;

/// Longest time a conforming peer may take to stop, in quanta, by port rate in bit/s
/// (802.3 31B.3.7 as used by SONiC; reference 4.2).
pub const PEER_RESPONSE: [(u64, u64); 10] = [
    (100_000_000, 1),
    (1_000_000_000, 2),
    (10_000_000_000, 67),
    (25_000_000_000, 80),
    (40_000_000_000, 118),
    (50_000_000_000, 147),
    (100_000_000_000, 394),
    (200_000_000_000, 453),
    (400_000_000_000, 905),
    (800_000_000_000, 905),
];

/// Highest port rate the calculator accepts, bit/s. Keeps every product inside 128 bits.
pub const MAX_RATE: u64 = 10_000_000_000_000;

/// Which formula.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Model {
    /// The vendor formula with the constants of [`Asic`], rounded up to 1 KiB.
    Sonic,
    /// What is in flight, byte for byte, with weir's own terms.
    Weir,
}

/// How long the peer takes to stop after the PFC frame reached it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PeerResponse {
    /// The limit of the standard for the port's rate, from [`PEER_RESPONSE`].
    ByRate,
    /// This many quanta of 512 bit times.
    Quanta(u64),
}

/// Constants of the vendor formula. Delays given as bytes are thousandths of a byte, since the
/// published ones are fractions of a KiB.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asic {
    /// Buffer cell, bytes.
    pub cell_bytes: u32,
    /// Delay of MAC and PHY, thousandths of a byte.
    pub mac_phy_millibytes: u32,
    /// Pipeline latency, bytes: what `xon` must cover.
    pub pipeline_bytes: u32,
    /// Peer response if the rate is not in the table, thousandths of a byte.
    pub unknown_rate_response_millibytes: u32,
    /// Delay between the tiles of the chip, ns at the rate of the port (0: monolithic).
    pub tile_ns: u32,
    /// Delay of a gearbox, ns (0: none). Passed in both directions.
    pub gearbox_ns: u32,
    /// The port has eight lanes: twice the pipeline latency and one MTU more.
    pub eight_lanes: bool,
}

impl Asic {
    /// Spectrum-4: 192-byte cells, 0.8 KiB, 19 KiB, 3.8 KiB, 120 ns between tiles.
    pub const SPECTRUM4: Asic = Asic {
        cell_bytes: 192,
        mac_phy_millibytes: 819_200,
        pipeline_bytes: 19 * 1024,
        unknown_rate_response_millibytes: 3_891_200,
        tile_ns: 120,
        gearbox_ns: 0,
        eight_lanes: false,
    };
}

/// What may wait in the RX ring, not yet seen by admission, when Xoff is decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RxRing {
    /// A full ring: descriptors, each holding the largest frame that fits it (bytes without FCS).
    Descriptors {
        /// Number of RX descriptors.
        count: u32,
        /// Largest frame, bytes without FCS.
        frame: u32,
    },
    /// What arrives at line rate in this time: the longest gap between two polls that is planned for.
    Time(Nanos),
}

/// What this switch adds to the wire. On hardware these are zero; here they are measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OwnTerms {
    /// Bytes of the frame whose admission crosses the Xoff line: it is the first one in headroom.
    pub crossing_frame: u32,
    /// Frames received by the NIC before the decision and admitted after it.
    pub rx_ring: RxRing,
    /// Longest time from the decision to the TX call that carries the PFC frame, ns.
    pub loop_turn: Nanos,
    /// Time the wire takes to send what may stand before the PFC frame in the TX ring (it cannot be recalled), ns.
    pub tx_ring: Nanos,
}

impl OwnTerms {
    /// Nothing but the wire: the examples of DEV-26.
    pub const WIRE_ONLY: OwnTerms =
        OwnTerms { crossing_frame: 0, rx_ring: RxRing::Time(0), loop_turn: 0, tx_ring: 0 };
}

/// Everything either model needs. Sizes are frame bytes without FCS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeadroomInput {
    /// Rate of the port, bit/s.
    pub rate: u64,
    /// Length of the cable, metres.
    pub cable_m: u32,
    /// Largest frame of any priority on the port: what may be leaving when PFC wants to.
    pub mtu: u32,
    /// Largest frame of the lossless priority: what the peer may have begun to send. A frame, not the
    /// payload a RoCE MTU speaks of (DEV-31).
    pub lossless_mtu: u32,
    /// The peer's response.
    pub peer: PeerResponse,
    /// Frames of 64 bytes among 100 frames of the lossless priority (vendor formula: they waste cells).
    pub small_packet_percentage: u32,
    /// Headroom is taken from a shared pool, so `size` is `xon` alone.
    pub shared_pool: bool,
    /// Constants of the vendor formula.
    pub asic: Asic,
    /// weir's own terms.
    pub own: OwnTerms,
}

impl HeadroomInput {
    /// A port in virtual time: response by rate, no ring and no loop turn, and the frame that crosses
    /// the line counted. Add the ring terms of a real port in [`HeadroomInput::own`].
    pub fn new(rate: u64, cable_m: u32, mtu: u32, lossless_mtu: u32) -> Self {
        Self {
            rate,
            cable_m,
            mtu,
            lossless_mtu,
            peer: PeerResponse::ByRate,
            small_packet_percentage: 100,
            shared_pool: false,
            asic: Asic::SPECTRUM4,
            own: OwnTerms { crossing_frame: lossless_mtu, ..OwnTerms::WIRE_ONLY },
        }
    }
}

/// One line of the sum.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Term {
    /// Stable name: part of the output of `weir check`.
    pub name: &'static str,
    /// Bytes it adds to `xoff`.
    pub bytes: u64,
    /// The arithmetic with its numbers.
    pub formula: String,
}

/// The answer: `xoff` is the sum of the terms.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Headroom {
    /// The sum, line by line.
    pub terms: Vec<Term>,
    /// Bytes that may arrive after the Xoff decision: headroom of the PG.
    pub xoff: u64,
    /// Bytes the PG should still hold when Xon is sent, so that its egress does not run dry before the
    /// first frame is back.
    pub xon: u64,
    /// Bytes of buffer for the PG: `xoff + xon`, or `xon` with a shared headroom pool.
    pub size: u64,
}

/// Why there is no answer. A lossless priority without one is refused (SONiC #480).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HeadroomError {
    /// The rate is unknown or beyond what the arithmetic can hold.
    #[error("port rate {0} bit/s: headroom needs a rate between 1 and {MAX_RATE}")]
    Rate(u64),
    /// A frame size of zero or above 65535.
    #[error("{name} {bytes} B: headroom needs a frame size between 1 and 65535")]
    Frame {
        /// Which size.
        name: &'static str,
        /// What was given.
        bytes: u32,
    },
    /// More than 100 of 100 frames are small.
    #[error("small packet percentage {0}: must be 0 to 100")]
    Percentage(u32),
    /// The sum does not fit 64 bits.
    #[error("the headroom does not fit 64 bits: check cable, ring and response")]
    TooLarge,
}

/// Quanta a peer at `rate` bit/s may take to stop. Between two rows of [`PEER_RESPONSE`] the faster row
/// counts; above the last one the same time counts, in more quanta.
pub fn peer_response_quanta(rate: u64) -> u64 {
    let (top_rate, top) = PEER_RESPONSE[PEER_RESPONSE.len() - 1];
    match PEER_RESPONSE.iter().find(|(r, _)| *r >= rate) {
        Some(&(_, quanta)) => quanta,
        None => (u128::from(top) * u128::from(rate)).div_ceil(u128::from(top_rate)) as u64,
    }
}

/// Bytes that pass at `rate` bit/s in `ns`, rounded up; saturates at 2^64 - 1.
pub fn bytes_in(rate: u64, ns: Nanos) -> u64 {
    let bytes = (u128::from(rate) * u128::from(ns)).div_ceil(8_000_000_000);
    u64::try_from(bytes).unwrap_or(u64::MAX)
}

/// Headroom by `model`.
///
/// # Errors
/// [`HeadroomError`] if a number makes the question meaningless.
pub fn headroom(model: Model, input: &HeadroomInput) -> Result<Headroom, HeadroomError> {
    if !(1..=MAX_RATE).contains(&input.rate) {
        return Err(HeadroomError::Rate(input.rate));
    }
    let sizes = [
        ("mtu", input.mtu),
        ("lossless_mtu", input.lossless_mtu),
        ("cell", input.asic.cell_bytes),
        ("crossing frame", input.own.crossing_frame.max(1)),
    ];
    for (name, bytes) in sizes {
        if !(1..=65_535).contains(&bytes) {
            return Err(HeadroomError::Frame { name, bytes });
        }
    }
    if input.small_packet_percentage > 100 {
        return Err(HeadroomError::Percentage(input.small_packet_percentage));
    }
    match model {
        Model::Sonic => sonic(input),
        Model::Weir => weir(input),
    }
}

/// Signal speed of the vendor formula, m/s.
const VENDOR_SIGNAL_SPEED: u128 = 198_000_000;

/// Unit of the vendor sum: bytes times the common denominator of cable (8 bits at 198 000 000 m/s) and of
/// thousandths of a byte. With it the whole formula is exact until its one rounding.
const UNIT: u128 = VENDOR_SIGNAL_SPEED * 8 * 1000;

fn sonic(i: &HeadroomInput) -> Result<Headroom, HeadroomError> {
    let (rate, asic) = (u128::from(i.rate), &i.asic);
    let time = |ns: u32, passes: u128| passes * rate * u128::from(ns) * (UNIT / 8_000_000_000);
    let response = match i.peer {
        PeerResponse::Quanta(q) => Ok(q),
        PeerResponse::ByRate => {
            let row = PEER_RESPONSE.iter().find(|(r, _)| *r == i.rate);
            row.map(|(_, q)| *q).ok_or(asic.unknown_rate_response_millibytes)
        }
    };
    let (response, response_text) = match response {
        Ok(q) if q > u64::from(u32::MAX) => return Err(HeadroomError::TooLarge),
        Ok(q) => (u128::from(q * QUANTUM_BYTES) * UNIT, format!("{q} quanta * 64")),
        Err(m) => (u128::from(m) * (UNIT / 1000), format!("{m} / 1000, rate not in the table")),
    };
    let (p, lossless) = (u128::from(i.small_packet_percentage), u128::from(i.lossless_mtu));
    let cell = u128::from(asic.cell_bytes);
    let worst = if cell > 128 { cell.div_ceil(64) } else { (2 * cell).div_ceil(1 + cell) };
    let (small, large) = (64 * p, lossless * (100 - p));

    let mut sum = Telescope { exact: 0, terms: Vec::with_capacity(9) };
    sum.add("port_mtu", u128::from(i.mtu) * UNIT, format!("{}", i.mtu));
    let cable = 2 * u128::from(i.cable_m) * rate * (UNIT / (8 * VENDOR_SIGNAL_SPEED));
    sum.add("cable", cable, format!("2 * {} m * {} / 198000000 / 8", i.cable_m, i.rate));
    let gearbox = format!("2 * {} ns * {} / 8e9", asic.gearbox_ns, i.rate);
    sum.add("gearbox", time(asic.gearbox_ns, 2), gearbox);
    let mac_phy = u128::from(asic.mac_phy_millibytes) * (UNIT / 1000);
    sum.add("mac_phy", mac_phy, format!("{} / 1000", asic.mac_phy_millibytes));
    sum.add("peer_response", response, response_text);
    sum.add("tile", time(asic.tile_ns, 1), format!("{} ns * {} / 8e9", asic.tile_ns, i.rate));
    // Small frames fill `worst` times their bytes in cells; their share is a share of bytes.
    let wasted = (sum.exact * small * (worst - 1)).div_ceil(small + large);
    sum.add("cells", wasted, format!("sum * {small} / {} * ({worst} - 1)", small + large));
    sum.add("lossless_mtu", lossless * UNIT, format!("{lossless}"));
    let padding = sum.exact.next_multiple_of(1024 * UNIT) - sum.exact;
    sum.add("round_up", padding, "to 1024".into());

    let lanes = if asic.eight_lanes { 2 } else { 1 };
    let xon = (u64::from(asic.pipeline_bytes) * lanes).next_multiple_of(1024);
    let speed_overhead = if asic.eight_lanes { u64::from(i.mtu) } else { 0 };
    finish(sum.terms, xon, speed_overhead, i.shared_pool)
}

/// Adds exact fractions and hands out whole bytes that sum to the rounded-up total.
struct Telescope {
    exact: u128,
    terms: Vec<Term>,
}

impl Telescope {
    fn add(&mut self, name: &'static str, units: u128, formula: String) {
        let before = self.exact.div_ceil(UNIT);
        self.exact += units;
        let bytes = (self.exact.div_ceil(UNIT) - before) as u64;
        self.terms.push(Term { name, bytes, formula });
    }
}

/// Signal delay of the physical model, ns per metre of fibre or copper.
const NS_PER_METRE: u64 = 5;

fn weir(i: &HeadroomInput) -> Result<Headroom, HeadroomError> {
    let own = &i.own;
    let frame = |bytes: u32| wire_bytes(u64::from(bytes));
    let in_time = |ns: Nanos| (bytes_in(i.rate, ns), format!("{ns} ns * {} / 8e9", i.rate));
    let quanta = match i.peer {
        PeerResponse::Quanta(q) => q,
        PeerResponse::ByRate => peer_response_quanta(i.rate),
    };
    let framed = |bytes: u32| (frame(bytes), format!("{bytes} + {WIRE_OVERHEAD_BYTES}"));
    let (cable, _) = in_time(2 * NS_PER_METRE * u64::from(i.cable_m));
    let cable_text = format!("2 * {} m * {NS_PER_METRE} ns/m * {} / 8e9", i.cable_m, i.rate);
    let response = quanta.checked_mul(QUANTUM_BYTES).ok_or(HeadroomError::TooLarge)?;
    let ring = match own.rx_ring {
        RxRing::Time(ns) => in_time(ns),
        RxRing::Descriptors { count, frame: f } => {
            let text = format!("{count} descriptors * ({f} + {WIRE_OVERHEAD_BYTES})");
            (u64::from(count) * frame(f), text)
        }
    };
    let crossing = match own.crossing_frame {
        0 => (0, "0".into()),
        bytes => (u64::from(bytes), format!("{bytes}")),
    };
    // From decision to the first byte the peer no longer sends, and back: also what Xon takes.
    let round_trip: [(&'static str, (u64, String)); 6] = [
        ("loop_turn", in_time(own.loop_turn)),
        ("tx_ring", in_time(own.tx_ring)),
        ("frame_leaving", framed(i.mtu)),
        ("pfc_frame", framed(60)),
        ("cable", (cable, cable_text)),
        ("peer_response", (response, format!("{quanta} quanta * {QUANTUM_BYTES}"))),
    ];
    let xon = round_trip.iter().try_fold(0u64, |sum, (_, (b, _))| sum.checked_add(*b));
    let here = [("crossing_frame", crossing), ("rx_ring", ring)];
    let there = [("frame_arriving", framed(i.lossless_mtu))];
    let terms = here.into_iter().chain(round_trip).chain(there);
    let terms = terms.map(|(name, (bytes, formula))| Term { name, bytes, formula }).collect();
    finish(terms, xon.ok_or(HeadroomError::TooLarge)?, 0, i.shared_pool)
}

fn finish(terms: Vec<Term>, xon: u64, extra: u64, shared: bool) -> Result<Headroom, HeadroomError> {
    let sum = |a: u64, b: u64| a.checked_add(b).ok_or(HeadroomError::TooLarge);
    let xoff = terms.iter().try_fold(0, |total, t| sum(total, t.bytes))?;
    let size = if shared { xon } else { sum(sum(xoff, xon)?, extra)? };
    Ok(Headroom { terms, xoff, xon, size })
}

#[cfg(test)]
#[path = "headroom_tests.rs"]
mod tests;
