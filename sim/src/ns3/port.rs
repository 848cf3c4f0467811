//! A port of a switch or host: what it sends next, and when it can.
use crate::models::hpcc::HpccEcn;
use weir_dataplane::types::{Nanos, PRIORITIES};

use super::cell::{Key, List};
use super::config::Link;
use super::units::transmit_ns;

/// Payload of a full data frame unless told.
pub const PAYLOAD: u32 = 1000;
/// Headers of a data frame without what congestion control adds.
pub const HEADERS: u16 = 48;
/// A PFC frame on the wire.
pub const PFC_BYTES: u16 = 43;
/// Headers of an ACK without what congestion control adds, and the least that follows them.
const ACK_HEADERS: u16 = 46;
const ACK_REST: u16 = 14;

/// Sizes of frames on the wire, bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameSizes {
    /// Payload of a full data frame.
    pub payload: u32,
    /// Headers of a data frame.
    pub headers: u16,
    /// A full data frame.
    pub data: u16,
    /// An ACK or NACK.
    pub ack: u16,
}

impl FrameSizes {
    /// With `extra` bytes of headers for congestion control.
    pub fn new(payload: u32, extra: u16) -> Self {
        let headers = HEADERS + extra;
        Self { payload, headers, data: payload as u16 + headers, ack: ACK_HEADERS + extra.max(ACK_REST) }
    }
}

/// State of one end of a link.
#[derive(Debug)]
#[repr(align(64))]
pub struct Port {
    /// Port at the other end, global number.
    pub peer: u32,
    /// Index of the switch or host this port belongs to.
    pub owner: u32,
    /// Index among the ports of the owner.
    pub local: u16,
    /// Whether the owner is a host.
    pub on_host: bool,
    /// The event that ends the running transmission is in the queue.
    pub free_scheduled: bool,
    /// Bit q: priority q is paused by the peer. The time field of a pause is ignored.
    pub paused: u8,
    /// Bit q: queue q holds frames.
    pub backlog: u8,
    /// Queue served last; queue 0 does not count.
    pub last: u8,
    /// When the running transmission ends.
    pub free: Key,
    /// Frames waiting. On a host, queue 0 holds the ACKs and the others are unused.
    pub queues: [List; PRIORITIES],
    /// Marking of what leaves.
    pub ecn: HpccEcn,
    /// Propagation delay of the link.
    pub delay: Nanos,
    rate: u64,
    sizes: FrameSizes,
    data_ns: u32,
    ack_ns: u32,
    pfc_ns: u32,
}

impl Port {
    /// An idle port on a link. Transmit times beyond 4 s are cut to that.
    pub fn new(
        peer: u32,
        owner: u32,
        local: u16,
        on_host: bool,
        link: &Link,
        ecn: HpccEcn,
        sizes: FrameSizes,
    ) -> Self {
        let Link { rate, delay, .. } = *link;
        let ns = |bytes| u32::try_from(transmit_ns(bytes, rate)).unwrap_or(u32::MAX);
        Self {
            peer,
            owner,
            local,
            on_host,
            free_scheduled: false,
            paused: 0,
            backlog: 0,
            last: 0,
            free: Key::default(),
            queues: [List::default(); PRIORITIES],
            ecn,
            delay,
            rate,
            sizes,
            data_ns: ns(sizes.data),
            ack_ns: ns(sizes.ack),
            pfc_ns: ns(PFC_BYTES),
        }
    }

    /// Time a frame occupies the line.
    #[inline]
    pub fn transmit_ns(&self, bytes: u16) -> Nanos {
        if bytes == self.sizes.data {
            self.data_ns.into()
        } else if bytes == self.sizes.ack {
            self.ack_ns.into()
        } else if bytes == PFC_BYTES {
            self.pfc_ns.into()
        } else {
            transmit_ns(bytes, self.rate)
        }
    }

    /// Queues that may send: not empty, and not paused unless it is queue 0.
    #[inline]
    pub fn sendable(&self) -> u8 {
        self.backlog & (!self.paused | 1)
    }

    /// The queue whose turn it is among [`sendable`](Self::sendable), which is not 0: queue 0 first,
    /// else one frame per turn, from the queue after the last served one.
    #[inline]
    pub fn choose(&mut self, sendable: u8) -> usize {
        if sendable & 1 == 0 {
            let from = self.last as u32 + 1;
            self.last = ((from + sendable.rotate_right(from).trailing_zeros()) % PRIORITIES as u32) as u8;
            return self.last.into();
        }
        0
    }

    /// Takes note of a pause or resume from the peer.
    #[inline]
    pub fn set_paused(&mut self, prio: u8, pause: bool) {
        let bit = 1u8.wrapping_shl(prio.into());
        if pause {
            self.paused |= bit;
        } else {
            self.paused &= !bit;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Data and ACK of HPCC with INT, TIMELY, DCTCP, HPCC with PINT.
    #[test]
    fn sizes_of_the_reference() {
        let of = |extra| FrameSizes::new(PAYLOAD, extra);
        assert_eq!([42, 8, 0, 2].map(|x| of(x).data), [1090, 1056, 1048, 1050]);
        assert_eq!([42, 8, 0, 2].map(|x| of(x).ack), [88, 60, 60, 60]);
    }

    #[test]
    fn control_first_then_one_frame_per_queue_in_turn() {
        let ecn = HpccEcn { kmin: u32::MAX, kmax: u32::MAX, pmax: 0.0 };
        let sizes = FrameSizes::new(PAYLOAD, 0);
        let link = Link { a: 0, b: 1, rate: 100_000_000_000, delay: 1000 };
        let mut port = Port::new(0, 0, 0, false, &link, ecn, sizes);
        port.backlog = 0b0010_1001;
        assert_eq!(port.choose(port.sendable()), 0);
        port.backlog &= !1;
        let turns: Vec<usize> = (0..4).map(|_| port.choose(port.sendable())).collect();
        assert_eq!(turns, [3, 5, 3, 5]);
        port.set_paused(3, true);
        port.set_paused(0, true);
        port.backlog |= 1;
        assert_eq!(port.sendable(), 0b0010_0001, "queue 0 is never paused");
    }
}
