//! `xoff = "auto"`: what may still come after Xoff, from the port and from who polls it; and what may still leave after a
//! received pause, which the peer's headroom has to allow for.

use super::diag::Span;
use super::port::PortAt;
use super::read::{Ctx, Origin};
use super::types::{BufferConfig, DeviceKind, PfcRx, PortConfig, RING_FRAMES, RING_HAND};
use super::units::{show_rate, show_size};
use weir_dataplane::mmu::headroom::{
    Headroom, HeadroomInput, Model, OwnTerms, PeerResponse, QUANTUM_BYTES, RxRing, Term, headroom,
};
use weir_dataplane::pfc::response::{Paused, response};
use weir_dataplane::turn::Turns;
use weir_dataplane::types::{MIN_FRAME_BYTES, wire_bytes};
use weir_dataplane::vlan::TAG_BYTES;

/// What an automatic headroom depends on beside the port.
#[derive(Clone, Copy)]
pub(super) struct Charged<'a> {
    pub turns: Turns,
    /// [`longest_leaving`].
    pub leaving: u32,
    pub buffer: &'a BufferConfig,
}

/// Longest frame that may leave by `port`, bytes without FCS: the `mtu` of a port is asked of what it receives, so another port of
/// the same format may have received it.
pub fn longest_leaving(port: &PortConfig, ports: &[PortConfig]) -> u32 {
    let alike = ports.iter().filter(|other| other.format == port.format);
    alike.fold(port.mtu, |longest, other| longest.max(other.mtu)).into()
}

impl Charged<'_> {
    /// A headroom of `bytes` on the wire, as it is charged. An in-process ring bounds the number of frames, so the
    /// largest count; on a wire those waste most that are charged most for their time: the shortest, or the shortest that take one
    /// byte of a cell of their own.
    fn as_charged(self, bytes: u64, port: &PortConfig) -> (u64, String) {
        let mtu = u64::from(port.mtu);
        // A frame is charged with the tag it leaves with.
        let native = port.vlans.as_ref().is_some_and(|vlans| vlans.native.is_some());
        let tag = if native { TAG_BYTES as u64 } else { 0 };
        let (frame, wire) = match port.kind {
            DeviceKind::Ring | DeviceKind::Inc => (mtu, mtu),
            DeviceKind::Pci | DeviceKind::Vdev => {
                let full = (MIN_FRAME_BYTES + tag - 1).next_multiple_of(self.buffer.cell_bytes);
                let one_more = (full + 1 - tag).min(mtu);
                let waste = |frame: &u64| {
                    (u128::from(self.buffer.charge(frame + tag)) << 32) / u128::from(wire_bytes(*frame))
                };
                let most =
                    [MIN_FRAME_BYTES, one_more].into_iter().max_by_key(waste).unwrap_or(MIN_FRAME_BYTES);
                (most, wire_bytes(most))
            }
        };
        let frame = frame + tag;
        let charged = self.buffer.charge(frame);
        if charged <= wire {
            return (bytes, String::new());
        }
        let more = u128::from(bytes) * u128::from(charged) / u128::from(wire);
        let why = format!("; times {charged} / {wire}, as {charged} B are charged for {frame}");
        (u64::try_from(more).unwrap_or(u64::MAX), why)
    }
}

/// What the headroom of a port is computed from: the longest frame that it receives and the longest that may leave by it in
/// bytes, cable in mm. A NIC's ring holds what the wire brought in a gap; an in-process ring whatever fits into it, and what
/// its sender has in hand. A pause stands behind what the shaper let into the transmit ring at once. However short that ring,
/// it takes no less: where it is full, the pause is put into it a turn later.
pub fn headroom_input(
    kind: DeviceKind,
    rate: u64,
    cable_mm: u64,
    (mtu, leaving): (u32, u32),
    turns: Turns,
) -> HeadroomInput {
    let mut input = HeadroomInput::new(rate, cable_mm.div_ceil(1000) as u32, leaving, mtu);
    let rx_ring = match kind {
        DeviceKind::Ring | DeviceKind::Inc => {
            RxRing::Descriptors { count: RING_FRAMES + RING_HAND, frame: mtu }
        }
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
    let input = port_input(port, rate, cable_mm, charged);
    match headroom(Model::Weir, &input) {
        Ok(Headroom { terms, xoff, .. }) => {
            let (rate, key) = (show_rate(rate), format!("port.{}.xoff", port.name));
            let (xoff, cells) = charged.as_charged(xoff, port);
            let why = format!("at {rate}: {}{cells}", sum_of(&terms));
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

/// [`headroom_input`] of this port, whose peer may be said to take longer than 802.3 allows it.
fn port_input(port: &PortConfig, rate: u64, cable_mm: u64, charged: Charged<'_>) -> HeadroomInput {
    let Charged { turns, leaving, .. } = charged;
    let input = headroom_input(port.kind, rate, cable_mm, (port.mtu.into(), leaving), turns);
    let said = port.peer_response.map(|bytes| PeerResponse::Quanta(bytes.div_ceil(QUANTUM_BYTES)));
    HeadroomInput { peer: said.unwrap_or(input.peer), ..input }
}

fn sum_of(terms: &[Term]) -> String {
    let used = terms.iter().filter(|t| t.bytes > 0);
    used.map(|t| format!("{} {} ({})", t.name, t.bytes, t.formula)).collect::<Vec<_>>().join(" + ")
}

/// A headroom that was written is less than what may come to one of `ports`: told of the one that needs most.
pub(super) fn warn_if_short<'p>(
    ctx: &mut Ctx<'_>,
    (profile, xoff, at): (&str, u64, Span),
    ports: impl Iterator<Item = (&'p PortConfig, Charged<'p>)>,
) {
    let need = |(port, charged): (&'p PortConfig, Charged<'_>)| {
        let input = port_input(port, port.rate.bps()?, port.cable_mm?, charged);
        let Headroom { terms, xoff, .. } = headroom(Model::Weir, &input).ok()?;
        let (most, cells) = charged.as_charged(xoff, port);
        Some((most, &port.name, format!("{}{cells}", sum_of(&terms))))
    };
    if let Some((most, port, sum)) = ports.filter_map(need).max()
        && xoff < most
    {
        let message = format!(
            "`{profile}` has a headroom of {xoff}, but {most} may come to port `{port}` after Xoff: {sum}"
        );
        let remedy = "set xoff = \"auto\", or leave it if the peer is known to send less";
        ctx.warn(at, "headroom.short", message, remedy);
    }
}

/// What may still leave by one of `ports` after a pause has come in, where it obeys pauses and keeps a `rate` in bit/s.
pub fn pause_response(
    port: &PortConfig,
    ports: &[PortConfig],
    rate: Option<u64>,
    turns: Turns,
    tx_per_lcore: bool,
) -> Option<Vec<Term>> {
    let tx_descriptors = match port.kind {
        DeviceKind::Ring | DeviceKind::Inc => RING_FRAMES,
        DeviceKind::Pci | DeviceKind::Vdev => port.tx_descriptors.into(),
    };
    let obeys = port.pfc.in_use() && port.pfc.rx != PfcRx::None;
    let mtu = longest_leaving(port, ports);
    let paused = |rate| Paused { rate, mtu, turns, tx_descriptors, tx_per_lcore };
    rate.filter(|_| obeys).map(|rate| response(&paused(rate)))
}

/// The same for a port on paper, explained: as if every lcore had a transmit queue there.
pub(super) fn explain_response(
    ctx: &mut Ctx<'_>,
    port: &PortConfig,
    ports: &[PortConfig],
    turns: Turns,
    workers: usize,
) {
    let queues = workers > 1 && !port.kind.is_in_process();
    if let Some(terms) = pause_response(port, ports, port.rate.bps(), turns, queues) {
        let bytes = terms.iter().map(|t| t.bytes).sum();
        let why = format!("{}: what the peer's headroom is to allow for", sum_of(&terms));
        ctx.explain(format!("port.{}.pause_response", port.name), show_size(bytes), Origin::Derived, why);
    }
}
