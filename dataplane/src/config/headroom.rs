//! `xoff = "auto"`: what may still come after Xoff, from the port and from who polls it.

use super::port::PortAt;
use super::read::{Ctx, Origin};
use super::types::{BufferConfig, DeviceKind, PortConfig, RING_FRAMES, RING_HAND};
use super::units::{show_rate, show_size};
use crate::mmu::headroom::{Headroom, HeadroomInput, Model, OwnTerms, RxRing, headroom};
use crate::turn::Turns;
use crate::types::{MIN_FRAME_BYTES, wire_bytes};

/// What an automatic headroom depends on beside the port.
#[derive(Clone, Copy)]
pub(super) struct Charged<'a> {
    pub turns: Turns,
    pub buffer: &'a BufferConfig,
}

impl Charged<'_> {
    /// A headroom of `bytes` on the wire, as it is charged. An in-process ring bounds the number of frames, so the
    /// largest count; on a wire the smallest waste most.
    fn as_charged(self, bytes: u64, mtu: u64, kind: DeviceKind) -> (u64, String) {
        let (frame, wire) = match kind {
            DeviceKind::Ring => (mtu, mtu),
            DeviceKind::Pci | DeviceKind::Vdev => (MIN_FRAME_BYTES, wire_bytes(MIN_FRAME_BYTES)),
        };
        let charged = self.buffer.charge(frame);
        if charged <= wire {
            return (bytes, String::new());
        }
        let more = u128::from(bytes) * u128::from(charged) / u128::from(wire);
        let why = format!("; times {charged} / {wire}, as {charged} B are charged for {frame}");
        (u64::try_from(more).unwrap_or(u64::MAX), why)
    }
}

/// What the headroom of a port is computed from: longest frame in bytes, cable in mm. A NIC's ring holds what the wire
/// brought in a gap; an in-process ring whatever fits into it, and what its sender has in hand. A pause stands behind
/// what the shaper let into the transmit ring at once. However short that ring, it takes no less: where it is full, the
/// pause is put into it a turn later.
pub fn headroom_input(kind: DeviceKind, rate: u64, cable_mm: u64, mtu: u32, turns: Turns) -> HeadroomInput {
    let mut input = HeadroomInput::new(rate, cable_mm.div_ceil(1000) as u32, mtu, mtu);
    let rx_ring = match kind {
        DeviceKind::Ring => RxRing::Descriptors { count: RING_FRAMES + RING_HAND, frame: mtu },
        DeviceKind::Pci | DeviceKind::Vdev => RxRing::Time(turns.gap),
    };
    input.own = OwnTerms { rx_ring, loop_turn: turns.gap, tx_ring: turns.burst, ..input.own };
    input
}

/// How far below its limit a group resumes unless its profile says: two frames of the port's mtu, in bytes.
pub fn xon_offset(mtu: u32) -> u64 {
    2 * u64::from(mtu)
}

/// Headroom of a lossless group of this port, explained term by term; an error where it cannot be known.
pub(super) fn auto_headroom(
    ctx: &mut Ctx<'_>,
    port: &PortConfig,
    at: &PortAt,
    charged: Charged<'_>,
) -> Option<u64> {
    let Some(rate) = port.rate.bps() else {
        let message = format!(
            "port `{}` is lossless but its rate is not known here: headroom depends on it",
            port.name
        );
        ctx.error(
            at.rate,
            "headroom.rate",
            message,
            "set rate = \"100G\" (or the link's speed), or give xoff as a size",
        );
        return None;
    };
    let Some(cable_mm) = port.cable_mm else {
        let message = format!(
            "port `{}` is lossless but its cable length is unknown: headroom depends on it",
            port.name
        );
        ctx.error(
            at.cable,
            "headroom.cable",
            message,
            "set cable = \"5m\" (or its length), or give xoff as a size",
        );
        return None;
    };
    let mtu = u32::from(port.mtu);
    let input = headroom_input(port.kind, rate, cable_mm, mtu, charged.turns);
    match headroom(Model::Weir, &input) {
        Ok(Headroom { terms, xoff, .. }) => {
            let used = terms.iter().filter(|t| t.bytes > 0);
            let sum: Vec<_> = used.map(|t| format!("{} {} ({})", t.name, t.bytes, t.formula)).collect();
            let (rate, key) = (show_rate(rate), format!("port.{}.xoff", port.name));
            let (xoff, cells) = charged.as_charged(xoff, u64::from(mtu), port.kind);
            let why = format!("at {rate}: {}{cells}", sum.join(" + "));
            ctx.explain(key, show_size(xoff), Origin::Derived, why);
            Some(xoff)
        }
        Err(e) => {
            ctx.error(
                at.rate,
                "headroom.rate",
                format!("port `{}`: {e}", port.name),
                "correct it, or give xoff as a size",
            );
            None
        }
    }
}
