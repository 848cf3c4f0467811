//! What may still leave by a port after a pause has come in: the number that its peer's headroom needs.

use crate::mmu::headroom::{Term, bytes_in};
use crate::switch::{FRAMES_IN_FLIGHT, bytes_in_flight};
use crate::turn::Turns;
use crate::types::{BURST, wire_bytes};

/// A port that is to be paused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Paused {
    /// Rate its shaper keeps, bit/s.
    pub rate: u64,
    /// Longest frame, bytes without FCS.
    pub mtu: u32,
    /// How late it is looked at.
    pub turns: Turns,
    /// Frames its transmit ring holds.
    pub tx_descriptors: u32,
    /// Other lcores send by it what they received.
    pub tx_per_lcore: bool,
}

/// Bytes on the wire that may leave after the last bit of a pause has come in, term by term. What is in the transmit ring
/// or waits for room there cannot be recalled, and the shaper has counted it; nor can what other lcores were ordered
/// to send.
pub fn response(port: &Paused) -> Vec<Term> {
    let Paused { rate, turns, .. } = *port;
    let longest = wire_bytes(port.mtu.into());
    let in_time = |ns| (bytes_in(rate, ns), format!("{ns} ns * {rate} / 8e9"));
    let frames = |count: u64| (count.saturating_mul(longest), format!("{count} frames * {longest}"));
    // Every frame is in it or waits for it, if the lcore has the port for itself.
    let ring = match port.tx_per_lcore {
        false => in_time(turns.burst).min(frames(u64::from(port.tx_descriptors) + BURST as u64)),
        true => in_time(turns.burst),
    };
    let away = match bytes_in_flight(rate, turns.burst) {
        Some(most) => {
            // Looked at before, not after they are ordered: a burst comes on top.
            let all = most.saturating_add(bytes_in(rate, turns.burst)).saturating_add(longest);
            (all, format!("{most} + {} ns * {rate} / 8e9 + {longest}", turns.burst))
        }
        None => (u64::MAX, String::new()),
    };
    let elsewhere =
        if port.tx_per_lcore { away.min(frames(FRAMES_IN_FLIGHT as u64)) } else { (0, "0".into()) };
    [
        ("rx_ring", in_time(turns.gap)),
        ("tx_ring", ring),
        ("frame_leaving", (longest, format!("{longest}"))),
        ("other_lcores", elsewhere),
    ]
    .map(|(name, (bytes, formula))| Term { name, bytes, formula })
    .into()
}
