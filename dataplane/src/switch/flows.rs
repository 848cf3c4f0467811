//! What was decided about a frame holds for the next one with the same first 16 bytes.
//!
//! Destination, source, EtherType, IP version and ToS of a plain untagged IPv4 frame, and its port,
//! determine everything the switch does with it up to admission, as long as tables and maps stay what
//! they are. Such decisions are kept in a direct-mapped table: one comparison takes the place of parsing,
//! two look-ups and classification. What changes in a map makes all of them void at once (a new epoch), a station that
//! moves or goes away those of its frames ([`Index`]), so a decision is never older than what it was made from.
//!
//! Only unicast between two stations that are both known is kept: nothing a stranger sends gets in.

mod index;

use super::Switch;
use crate::fdb::Changed;
use crate::frame::Frame;
use crate::parse::{EcnCode, FlowKey, Profile};
use crate::types::{PRIORITIES, PortId};
use index::Index;

/// The way of a frame through the switch in one word: nothing but admission is left to decide. Frames with the
/// same way are accounted for together.
///
/// From the low bits: traffic class 4, egress queue of the whole switch 16, priority group 16, [`EcnCode`] 10, and 1 in
/// the top bit. A group of frames takes 16 bytes: where the queue stands, its number is the place of its group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Way(u64);

impl Way {
    /// Not decided.
    pub const NONE: Self = Self(0);

    #[inline(always)]
    pub fn new(out: PortId, queue: u8, pg: u16, tc: u8, ecn: EcnCode) -> Self {
        let queue = u64::from(out.0) * PRIORITIES as u64 + u64::from(queue);
        Self(1 << 63 | u64::from(ecn.bits()) << 36 | u64::from(pg) << 20 | queue << 4 | u64::from(tc & 7))
    }

    #[inline(always)]
    pub fn is_decided(self) -> bool {
        self != Self::NONE
    }

    /// Egress queue of the whole switch.
    #[inline(always)]
    pub fn queue(self) -> u32 {
        (self.0 >> 4 & 0xffff) as u32
    }

    #[inline(always)]
    pub fn out(self) -> PortId {
        PortId((self.queue() as usize / PRIORITIES) as u16)
    }

    #[inline(always)]
    pub fn pg(self) -> u16 {
        (self.0 >> 20) as u16
    }

    #[inline(always)]
    pub fn tc(self) -> usize {
        self.0 as usize % PRIORITIES
    }

    #[inline(always)]
    pub fn ecn(self) -> EcnCode {
        EcnCode::from_bits((self.0 >> 36) as u16)
    }
}

/// Decisions kept. 256 KiB: they stay in the second-level cache.
const FLOWS: usize = 8192;
/// The MAC address in a key of the forwarding table.
const ADDRESS_MASK: u64 = (1 << 48) - 1;
/// Of a tag, below the epoch.
const PORT_BITS: u32 = 16;
/// One in so many newcomers takes a place that is taken.
const PATIENCE: u64 = 16;

#[derive(Clone, Copy, Debug)]
#[repr(align(32))]
struct Flow {
    key: FlowKey,
    /// Epoch and port.
    tag: u64,
    way: Way,
}

/// The decisions of one shard.
#[derive(Debug)]
pub(super) struct Flows {
    flows: Box<[Flow; FLOWS]>,
    epoch: u64,
    /// Who is concerned by which.
    index: Index,
    /// State of the forwarding table the decisions were made from.
    seen: (u64, u32),
    /// Times that some or all became void.
    voids: u64,
    /// Decisions that found their place taken.
    refused: u64,
}

impl Flows {
    pub fn new() -> Self {
        let nothing = Flow { key: FlowKey::NONE, tag: 0, way: Way::NONE };
        let flows = vec![nothing; FLOWS].into_boxed_slice().try_into().expect("so many were made");
        Self { flows, epoch: 1, index: Index::new(FLOWS), seen: (0, 0), voids: 0, refused: 0 }
    }

    /// All decisions are void.
    pub fn forget(&mut self) {
        self.epoch += 1;
        self.voids += 1;
    }

    /// Decisions are void that rely on what is no longer so in the forwarding table: on stations that have changed, or
    /// all.
    #[inline(always)]
    pub fn follow(&mut self, version: u64, tick: u32, changed: &mut Changed) {
        if self.seen != (version, tick) {
            self.seen = (version, tick);
            self.forget();
            changed.clear();
        } else if !changed.is_empty() {
            changed.drain(..).for_each(|key| self.void(key));
        }
    }

    /// Decisions about frames from and to a station are void; all, where these are more than can be gone through.
    #[cold]
    fn void(&mut self, key: u64) {
        let Self { index, flows, epoch, .. } = self;
        self.voids += 1;
        let concerned = |at: usize| {
            let found = flows[at].key.addresses().contains(&(key & ADDRESS_MASK));
            if found {
                flows[at].tag = 0;
            }
            found
        };
        if !index.remove(key, *epoch, concerned) {
            self.forget();
        }
    }

    /// Changes whenever a decision that was found may no longer hold.
    pub fn voids(&self) -> u64 {
        self.voids
    }

    /// What an entry for frames of `port` carries at present.
    #[inline(always)]
    pub fn tag(&self, port: PortId) -> u64 {
        self.epoch << PORT_BITS | u64::from(port.0)
    }

    #[inline(always)]
    fn place(key: &FlowKey) -> usize {
        (key.hash() >> (64 - FLOWS.ilog2())) as usize % FLOWS
    }

    /// The decision about a frame; `tag` as [`Flows::tag`] gives it.
    #[inline(always)]
    pub fn decide<F: Frame>(&self, frame: &F, profile: &Profile, tag: u64) -> Way {
        match frame.bytes().first_chunk() {
            Some(head) if profile.is_ordinary(head, frame.len()) => self.find(&FlowKey::of(head), tag),
            _ => Way::NONE,
        }
    }

    /// The decision about frames with this key, if there is a valid one.
    #[inline(always)]
    fn find(&self, key: &FlowKey, tag: u64) -> Way {
        let flow = &self.flows[Self::place(key)];
        if flow.key == *key && flow.tag == tag { flow.way } else { Way::NONE }
    }

    /// Keeps a decision. One that holds the place with right gives way only now and then: where there are more
    /// kinds of frames than places, most of those that have one should keep it long enough to be of use.
    ///
    /// `stations`: the keys of source and destination in the forwarding table.
    #[inline(never)]
    pub fn keep(&mut self, key: &FlowKey, port: PortId, way: Way, stations: [u64; 2]) {
        let (tag, at) = (self.tag(port), Self::place(key));
        let flow = &mut self.flows[at];
        self.refused += u64::from(flow.tag >> PORT_BITS == self.epoch);
        if flow.tag >> PORT_BITS != self.epoch || self.refused.is_multiple_of(PATIENCE) {
            self.index.replace(at, flow.tag >> PORT_BITS == self.epoch, self.epoch, stations);
            *flow = Flow { key: *key, tag, way };
        }
    }
}

impl<F, A> Switch<F, A> {
    /// Maps or tables have changed: no decision about frames holds any longer.
    pub(super) fn forget_ways(&mut self) {
        self.flows.forget();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse::{EcnField, EcnPlace};

    #[test]
    fn a_way_says_what_was_put_into_it() {
        let places =
            [EcnPlace::None, EcnPlace::Ipv4(14), EcnPlace::Ipv6(22), EcnPlace::Tc(3), EcnPlace::Ipv4(63)];
        for (n, place) in places.into_iter().enumerate() {
            let (out, queue, pg, tc) = (PortId(255 - n as u16), 7 - n as u8, 2050 - n as u16, n as u8);
            let ecn = EcnField { place, codepoint: n as u8 & 3 };
            let way = Way::new(out, queue, pg, tc, ecn.code());
            assert!(way.is_decided());
            assert_eq!((way.ecn().field(), way.tc()), (ecn, usize::from(tc)));
            assert_eq!((way.out(), way.queue() % 8, way.pg()), (out, u32::from(queue), pg));
        }
    }

    #[test]
    fn a_decision_holds_for_its_key_and_port_until_something_changes() {
        let mut flows = Flows::new();
        let key = |n: u8| FlowKey::of(&[n; 47]);
        let way = Way::new(PortId(3), 1, 2, 0, EcnCode::NONE);
        flows.keep(&key(9), PortId(1), way, [1, 2]);
        let find = |flows: &Flows, n, port| flows.find(&key(n), flows.tag(PortId(port)));
        assert_eq!(find(&flows, 9, 1), way);
        assert_eq!((find(&flows, 9, 2), find(&flows, 8, 1)), (Way::NONE, Way::NONE));
        flows.follow(0, 0, &mut Changed::new());
        assert_eq!(find(&flows, 9, 1), way);
        flows.follow(1, 0, &mut Changed::new());
        assert_eq!(find(&flows, 9, 1), Way::NONE);
    }

    #[test]
    fn a_place_that_is_taken_is_given_up_now_and_then() {
        let mut flows = Flows::new();
        let key = |n: u8| FlowKey::of(&[n; 47]);
        let first = key(0);
        // Another key with the same place.
        let mut head = [0u8; 47];
        let second = (1u64..)
            .map(|n| {
                head[..8].copy_from_slice(&n.to_le_bytes());
                FlowKey::of(&head)
            })
            .find(|key| Flows::place(key) == Flows::place(&first))
            .unwrap();
        let find = |flows: &Flows, key| flows.find(key, flows.tag(PortId(1)));
        let way = Way::new(PortId(3), 1, 2, 0, EcnCode::NONE);
        let port = PortId(1);
        flows.keep(&first, port, way, [1, 2]);
        let tries = (1..).find(|_| {
            flows.keep(&second, port, way, [3, 4]);
            find(&flows, &second) == way
        });
        assert_eq!(tries, Some(PATIENCE));
        assert_eq!(find(&flows, &first), Way::NONE);
        // One that is void is no obstacle.
        flows.forget();
        flows.keep(&first, port, way, [1, 2]);
        assert_eq!(find(&flows, &first), way);
    }
    /// Untagged IPv4 between two stations.
    fn head(src: u64, dst: u64) -> [u8; 47] {
        let mut head = [0; 47];
        head[..6].copy_from_slice(&dst.to_be_bytes()[2..]);
        head[6..12].copy_from_slice(&src.to_be_bytes()[2..]);
        head
    }

    #[test]
    fn a_station_that_moves_voids_the_decisions_about_its_own_frames_and_no_others() {
        let (mut flows, space) = (Flows::new(), 1 << 60);
        let way = Way::new(PortId(3), 1, 2, 0, EcnCode::NONE);
        // 40 stations talk with each other; a decision that found its place taken was not kept.
        let pairs: Vec<_> =
            (1..=40).flat_map(|a| (1..=40).map(move |b| (a, b))).filter(|(a, b)| a != b).collect();
        let key = |(a, b): (u64, u64)| FlowKey::of(&head(a, b));
        assert_eq!(key((5, 6)).addresses(), [6, 5]);
        for (a, b) in &pairs {
            flows.keep(&key((*a, *b)), PortId(1), way, [space | a, space | b]);
        }
        let find = |flows: &Flows, pair| flows.find(&key(pair), flows.tag(PortId(1))) == way;
        let kept =
            |flows: &Flows| pairs.iter().copied().filter(|pair| find(flows, *pair)).collect::<Vec<_>>();
        let before = kept(&flows);
        assert!(before.len() > 1000, "{}", before.len());
        for station in [7, 9, 7] {
            flows.follow(0, 0, &mut Changed::from_iter([space | station]));
        }
        let others: Vec<_> =
            before.into_iter().filter(|(a, b)| ![7, 9].contains(a) && ![7, 9].contains(b)).collect();
        assert!(kept(&flows) == others);
        // Its next frames are decided upon anew, and may be voided again, as often as somebody pretends to be it.
        for _ in 0..100 {
            flows.keep(&key((7, 1)), PortId(1), way, [space | 7, space | 1]);
            flows.follow(0, 0, &mut Changed::from_iter([space | 7]));
            assert!(!find(&flows, (7, 1)));
        }
        assert!(kept(&flows).iter().all(|pair| others.contains(pair)));
        assert!(kept(&flows).len() + 100 / PATIENCE as usize + 1 >= others.len());
    }

    #[test]
    fn a_station_with_more_decisions_than_can_be_gone_through_voids_all() {
        let mut flows = Flows::new();
        let way = Way::new(PortId(3), 1, 2, 0, EcnCode::NONE);
        for n in 2..2000 {
            flows.keep(&FlowKey::of(&head(n, 1)), PortId(1), way, [n, 1]);
        }
        let tag = flows.tag(PortId(1));
        flows.follow(0, 0, &mut Changed::from_iter([1]));
        assert_ne!(flows.tag(PortId(1)), tag);
    }
}
