//! Frames with several destinations: broadcast, multicast, stations nobody knows.
//!
//! A frame is charged to its group as it comes. Its copies are made at the end of the burst, port by port, together with
//! those of other frames for the same ports and queue, whatever their lengths. A port to which another frame of the burst goes by that queue
//! gets the copies of those before it first, it alone. Where some ports send a frame with a tag and others without one it becomes two frames,
//! whatever the number of ports.

use super::Switch;
use super::copying::FloodGroup;
use super::gate::Charged;
use super::ports::PortStatus;
use super::receive::{Received, RxContext};
use crate::drops::DropReason;
use crate::egress::{BatchHeader, Meta};
use crate::frame::Frame;
use crate::mmu::Admission;
use crate::portset::PortSet;
use crate::types::{PRIORITIES, PortId};
use crate::vlan::{FrameVlan, Retag, TAG_BYTES};
use arrayvec::ArrayVec;

/// What the ports that take a copy of a frame depend on, within a burst.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FloodKey {
    ports: PortSet,
    vlan: Option<FrameVlan>,
    /// Its length, where it grows: not every port may send it then.
    len: usize,
}

/// Keys of a burst whose ports are kept: of frames of so many VLANs or groups in any order.
const KEYS_KEPT: usize = 16;

/// Where frames with several destinations go.
#[derive(Clone, Copy, Debug)]
struct Destinations {
    /// Ports that may not send the frame: it would be too long.
    too_long: usize,
    /// Why there is no port at all, if there is none.
    nowhere: DropReason,
    /// Those that take it as it came, or as most do, and those that take it with another tag. No port is in both.
    parts: [(PortSet, Retag); 2],
}

/// Where the frames of a burst with several destinations go, and those that wait for their copies.
#[derive(Debug)]
pub(super) struct Flood<F: Frame> {
    key: Option<FloodKey>,
    /// What was found out in this burst.
    known: ArrayVec<(FloodKey, Destinations), KEYS_KEPT>,
    too_long: usize,
    nowhere: DropReason,
    pub parts: [FloodPart<F>; 2],
}

impl<F: Frame> Default for Flood<F> {
    fn default() -> Self {
        let parts = [FloodPart::default(), FloodPart::default()];
        let known = ArrayVec::new();
        Self { key: None, known, too_long: 0, nowhere: DropReason::LookupNoPort, parts }
    }
}

impl<F: Frame> Flood<F> {
    /// Links, tables and VLANs may not be what they were.
    #[inline(always)]
    pub fn begin_burst(&mut self) {
        self.key = None;
        self.known.clear();
    }

    /// The one port there is, and what is done to tags there.
    pub fn only_one(&self) -> Option<(PortId, Retag)> {
        let [FloodPart { last, copies, retag, .. }, others] = &self.parts;
        last.filter(|_| *copies == 1 && self.too_long == 0 && others.copies == 0).map(|out| (out, *retag))
    }

    /// A port takes copies.
    fn goes_to(&self, out: PortId) -> bool {
        self.parts.iter().any(|part| part.outs.contains(out))
    }

    /// Queues for which frames wait, a bit each.
    #[inline(always)]
    pub fn waiting(&self) -> u8 {
        self.parts[0].waiting | self.parts[1].waiting
    }

    /// Frames wait for this queue of some ports.
    #[inline(always)]
    pub fn waits_for(&self, queue: usize) -> bool {
        self.waiting() >> queue & 1 == 1
    }
}

/// Frames of a burst that go to the same ports, with the tags they leave with.
#[derive(Debug)]
pub(super) struct FloodPart<F: Frame> {
    /// The ports that take copies, the last one of them, and how many there are.
    pub outs: PortSet,
    pub last: Option<PortId>,
    pub copies: usize,
    /// What is done to tags there.
    retag: Retag,
    /// Queues with frames, a bit each.
    pub waiting: u8,
    pub groups: [FloodGroup<F>; PRIORITIES],
}

impl<F: Frame> Default for FloodPart<F> {
    fn default() -> Self {
        let groups = std::array::from_fn(|_| FloodGroup::default());
        Self { outs: PortSet::EMPTY, last: None, copies: 0, retag: Retag::Keep, waiting: 0, groups }
    }
}

impl<F: Frame, A: Admission> Switch<F, A> {
    /// Notes which of `ports` take a copy of a frame of this VLAN and length, and with which tag. Frames that wait for copies to
    /// other ports get theirs first.
    #[inline(always)]
    pub(super) fn set_destinations(
        &mut self,
        port: PortId,
        ports: PortSet,
        vlan: Option<FrameVlan>,
        len: usize,
    ) {
        let grows = vlan.is_some_and(|vlan| vlan.with_tag() == Retag::Push);
        let key = FloodKey { ports, vlan, len: if grows { len } else { 0 } };
        if self.flood.key != Some(key) {
            self.change_destinations(port, key);
        }
    }

    #[inline(never)]
    fn change_destinations(&mut self, port: PortId, key: FloodKey) {
        let known = self.flood.known.iter().find(|(of, _)| *of == key).map(|(_, known)| *known);
        let Destinations { too_long, nowhere, parts } = known.unwrap_or_else(|| {
            let found = self.find_destinations(port, &key);
            if self.flood.known.is_full() {
                self.flood.known.clear();
            }
            self.flood.known.push((key, found));
            found
        });
        // Frames of several VLANs or groups may go to the same ports: their tags have been changed when they are put to those that wait.
        if self.flood.parts.iter().zip(&parts).any(|(part, (outs, _))| part.outs != *outs) {
            self.copy_waiting();
        }
        for (part, (outs, retag)) in self.flood.parts.iter_mut().zip(parts) {
            (part.outs, part.last, part.copies, part.retag) = (outs, outs.last(), outs.len(), retag);
        }
        (self.flood.key, self.flood.too_long, self.flood.nowhere) = (Some(key), too_long, nowhere);
    }

    #[cold]
    fn find_destinations(&self, port: PortId, key: &FloodKey) -> Destinations {
        let mut others = key.ports.intersection(&self.ports[port.index()].flood).without(port);
        if let (Some(vlan), Some(vlans)) = (key.vlan, &self.vlans) {
            let members = vlans.ports(vlan.vid);
            others = others.intersection(&members.all());
        }
        let live: PortSet = others.iter().filter(|out| self.ports.is_up(*out)).collect();
        let (mut too_long, mut parts) = (0, [(live, Retag::Keep), (PortSet::EMPTY, Retag::Keep)]);
        if let (Some(vlan), Some(vlans)) = (key.vlan, &self.vlans) {
            let (members, retag) = (vlans.ports(vlan.vid), vlan.with_tag());
            let mut with = live.intersection(&members.tagged);
            if retag == Retag::Push {
                let fit: PortSet = with.iter().filter(|out| self.fits(*out, key.len + TAG_BYTES)).collect();
                (too_long, with) = (with.len() - fit.len(), fit);
            }
            parts = [(with, retag), (live.intersection(&members.untagged), vlan.without_tag())];
            // What leaves as it came is the frame itself.
            parts.sort_by_key(|(ports, retag)| (ports.is_empty(), *retag != Retag::Keep));
        }
        let nowhere = match too_long {
            0 => PortStatus::nowhere(self.lags.whole(others).iter().map(|out| self.ports.status(out))),
            _ => DropReason::VlanTooLong,
        };
        Destinations { too_long, nowhere, parts }
    }

    /// A frame to its destinations, which are set.
    pub(super) fn multicast(&mut self, port: PortId, frame: F, headers: &Received) {
        let Flood { too_long, parts: [part, others], .. } = &self.flood;
        let (too_long, none, has_others) = (*too_long, part.outs.is_empty(), !others.outs.is_empty());
        if none {
            self.copies_not_made(port, DropReason::VlanTooLong, headers, too_long.saturating_sub(1));
            return self.drop_frame(port, self.flood.nowhere, frame, &headers.meta.header);
        }
        self.copies_not_made(port, DropReason::VlanTooLong, headers, too_long);
        if has_others {
            match frame.share() {
                None => self.copies_not_made(port, DropReason::IngressNoCopy, headers, 1),
                Some(other) => self.aside(port, !headers.meta.header.is_single(), |switch| {
                    switch.ports[port.index()].stats.copies += 1;
                    let header = BatchHeader { copies: BatchHeader::SINGLE, ..headers.meta.header };
                    let meta = Meta { header, ..headers.meta };
                    switch.multicast_part(1, port, other, (meta, headers.tc));
                }),
            }
        }
        self.multicast_part(0, port, frame, (headers.meta, headers.tc));
    }

    /// Charges a frame once to its group, as much as its copies take of the memory for frames; each copy is charged to its
    /// queue (B16) when it is made.
    fn multicast_part(&mut self, part: usize, port: PortId, frame: F, class: (Meta, u8)) {
        let retag = self.flood.parts[part].retag;
        let (frame, mut meta) = match retag {
            Retag::Keep => (frame, class.0),
            _ => match self.retagged(frame, class, retag) {
                Some(retagged) => retagged,
                None => return,
            },
        };
        let FloodPart { copies, last: Some(last), .. } = self.flood.parts[part] else {
            return self.drop_frame(port, self.flood.nowhere, frame, &meta.header);
        };
        if copies == 1 {
            // What waits in the other part goes to other ports.
            return self.forward(last, frame, meta);
        }
        let followed = !meta.header.is_single();
        if !self.reserve_count() {
            return self.refuse(last, frame, &meta.header, DropReason::IngressNoCopy);
        }
        let charge = self.charge_of_copied(u32::from(meta.len), copies);
        if let Err(reason) = self.admit(Charged::Group, &frame, &mut meta, charge) {
            self.copies.unreserve();
            return self.refuse(last, frame, &meta.header, reason);
        }
        self.ports[port.index()].stats.copies += copies as u64 - 1;
        let queue = usize::from(meta.header.queue) % PRIORITIES;
        if let Err(frame) = self.flood.parts[part].groups[queue].add(frame, &meta) {
            self.make_copies(part, queue);
            let added = self.flood.parts[part].groups[queue].add(frame, &meta);
            debug_assert!(added.is_ok(), "an empty group takes any frame");
        }
        self.flood.parts[part].waiting |= 1 << queue;
        if followed {
            // Whoever follows a frame looks at what becomes of it before the next one comes.
            self.make_copies(part, queue);
        }
    }

    /// Admits the groups of a burst whose frames a frame for this queue of several ports must not overtake.
    pub(super) fn admit_before_copies(&mut self, rx: &mut RxContext, queue: u8) {
        let mut waiting = rx.waiting;
        while waiting != 0 {
            let at = waiting.trailing_zeros() as usize;
            waiting &= waiting - 1;
            let decision = self.groups[at].decision;
            let lane = decision.queue() as usize % PRIORITIES;
            if !decision.is_refused() && lane == usize::from(queue) && self.flood.goes_to(decision.out()) {
                self.admit_group_of(rx, at);
                rx.waiting &= !(1 << at);
            }
        }
    }
}

#[cfg(test)]
#[path = "flood_tests.rs"]
mod tests;
