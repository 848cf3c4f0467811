//! Frames with several destinations: broadcast, multicast, stations nobody knows.
//!
//! A frame is charged to its group as it comes. Its copies are made at the end of the burst, port by port, together with
//! those of other frames for the same queue, whatever their lengths and their other ports. A port to which another frame of the burst goes by
//! that queue gets the copies of those before it first, it alone. Where some ports send a frame with a tag and others without one it becomes two
//! frames, whatever the number of ports.

use super::copying::FloodGroup;
use super::gate::Charged;
use super::ports::PortStatus;
use super::receive::{Received, RxContext};
use super::{Observer, Switch};
use crate::drops::DropReason;
use crate::egress::{BatchHeader, Meta};
use crate::frame::Frame;
use crate::mmu::Admission;
use crate::portset::PortSet;
use crate::types::{PRIORITIES, PortId};
use crate::vlan::{FrameVlan, Retag, TAG_BYTES};

/// What the ports that take a copy of a frame depend on, within a burst.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FloodKey {
    ports: PortSet,
    vlan: Option<FrameVlan>,
    /// Its length, where it grows: not every port may send it then.
    len: usize,
}

/// Keys of a burst whose ports are kept: of frames of so many VLANs or groups in any order.
pub(super) const KEYS_KEPT: usize = 32;

/// Where frames with several destinations go.
#[derive(Clone, Copy, Debug)]
pub(super) struct Destinations {
    /// Ports that may not send the frame: it would be too long.
    too_long: usize,
    /// Why there is no port at all, where there is none.
    nowhere: DropReason,
    /// Those that take it as it came, or as most do, and those that take it with another tag. No port is in both.
    pub parts: [Outs; 2],
}

/// Ports that take copies of a frame with the same tag.
#[derive(Clone, Copy, Debug)]
pub(super) struct Outs {
    pub ports: PortSet,
    /// The last of them, and how many there are.
    last: Option<PortId>,
    pub copies: usize,
    /// What is done to tags there.
    retag: Retag,
}

impl Outs {
    fn new((ports, retag): (PortSet, Retag)) -> Self {
        Self { ports, last: ports.last(), copies: ports.len(), retag }
    }
}

/// Where the frames of a burst with several destinations go, and those that wait for their copies. Room for these is made when the first
/// such frame comes, and stays: a fabric in virtual time has thousands of switches that never have one.
#[derive(Debug)]
pub(super) struct Flood<F: Frame> {
    /// What was found out in this burst, of [`KEYS_KEPT`] at most. It is forgotten when no frame waits.
    known: Vec<(FloodKey, Destinations)>,
    /// Which of these are those of the frame at hand.
    at: usize,
    pub parts: [FloodPart<F>; 2],
}

impl<F: Frame> Default for Flood<F> {
    fn default() -> Self {
        Self { known: Vec::new(), at: 0, parts: [FloodPart::default(), FloodPart::default()] }
    }
}

impl<F: Frame> Flood<F> {
    /// Links, tables and VLANs may not be what they were.
    #[inline(always)]
    pub fn begin_burst(&mut self) {
        debug_assert_eq!(self.waiting(), 0);
        self.known.clear();
    }

    /// Where the frame at hand goes: [`Switch::set_destinations`] has found out.
    #[inline(always)]
    fn destinations(&self) -> &Destinations {
        self.destinations_of(self.at as u8)
    }

    /// Where a frame that waits goes.
    #[inline(always)]
    pub fn destinations_of(&self, at: u8) -> &Destinations {
        &self.known[usize::from(at)].1
    }

    /// Where frames that wait go, by the number that [`Flood::destinations_of`] asks for.
    #[inline(always)]
    pub fn destinations_by_number(&self) -> impl Iterator<Item = &Destinations> {
        self.known.iter().map(|(_, destinations)| destinations)
    }

    /// The one port there is, and what is done to tags there.
    pub fn only_one(&self) -> Option<(PortId, Retag)> {
        let Destinations { too_long, parts: [Outs { last, copies, retag, .. }, others], .. } =
            self.destinations();
        last.filter(|_| *copies == 1 && *too_long == 0 && others.copies == 0).map(|out| (out, *retag))
    }

    /// A port takes copies of the frame at hand.
    fn goes_to(&self, out: PortId) -> bool {
        self.destinations().parts.iter().any(|part| part.ports.contains(out))
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

/// Frames of a burst that leave as they came, or as most do; or those that leave with another tag.
#[derive(Debug)]
pub(super) struct FloodPart<F: Frame> {
    /// Queues with frames, a bit each.
    pub waiting: u8,
    /// One for each queue, or none: no frame has come yet.
    pub groups: Vec<FloodGroup<F>>,
}

impl<F: Frame> Default for FloodPart<F> {
    fn default() -> Self {
        Self { waiting: 0, groups: Vec::new() }
    }
}

impl<F: Frame> FloodPart<F> {
    /// Adds a frame behind those for its queue.
    ///
    /// # Errors
    /// As of [`FloodGroup::add`].
    fn add(&mut self, queue: usize, frame: F, meta: &Meta, to: (u8, &PortSet)) -> Result<(), F> {
        if self.groups.is_empty() {
            self.groups.resize_with(PRIORITIES, FloodGroup::default);
        }
        self.groups[queue].add(frame, meta, to)?;
        self.waiting |= 1 << queue;
        Ok(())
    }

    /// Frames wait for this queue of one of these ports.
    #[inline(always)]
    fn waits_for(&self, queue: usize, ports: &PortSet) -> bool {
        self.waiting >> queue & 1 == 1 && self.groups[queue].shares_a_port_with(ports)
    }
}

impl<F: Frame, A: Admission, O: Observer> Switch<F, A, O> {
    /// Notes which of `ports` take a copy of a frame of this VLAN and length, and with which tag.
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
        if self.flood.known.get(self.flood.at).is_none_or(|(of, _)| *of != key) {
            self.change_destinations(port, key);
        }
    }

    #[inline(never)]
    fn change_destinations(&mut self, port: PortId, key: FloodKey) {
        let known = self.flood.known.iter().position(|(of, _)| *of == key);
        self.flood.at = known.unwrap_or_else(|| {
            let found = self.find_destinations(port, &key);
            if self.flood.known.len() == KEYS_KEPT {
                self.copy_waiting();
                self.flood.known.clear();
            }
            self.flood.known.reserve_exact(KEYS_KEPT - self.flood.known.len());
            self.flood.known.push((key, found));
            self.flood.known.len() - 1
        });
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
            0 if live.is_empty() => {
                PortStatus::nowhere(self.lags.whole(others).iter().map(|out| self.ports.status(out)))
            }
            0 => DropReason::LookupNoPort,
            _ => DropReason::VlanTooLong,
        };
        Destinations { too_long, nowhere, parts: parts.map(Outs::new) }
    }

    /// A frame to its destinations, which are set.
    pub(super) fn multicast(&mut self, port: PortId, frame: F, headers: &Received) {
        let Destinations { too_long, nowhere, parts: [part, others] } = *self.flood.destinations();
        let has_others = !others.ports.is_empty();
        if part.ports.is_empty() {
            self.copies_not_made(port, DropReason::VlanTooLong, headers, too_long.saturating_sub(1));
            return self.drop_frame(port, nowhere, frame, &headers.meta.header);
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
        let Destinations { nowhere, parts, .. } = *self.flood.destinations();
        let Outs { ports, last, copies, retag } = parts[part];
        let (frame, mut meta) = match retag {
            Retag::Keep => (frame, class.0),
            _ => match self.retagged(frame, class, retag) {
                Some(retagged) => retagged,
                None => return,
            },
        };
        let queue = usize::from(meta.header.queue) % PRIORITIES;
        let Some(last) = last else {
            return self.drop_frame(port, nowhere, frame, &meta.header);
        };
        if copies == 1 {
            if self.flood.waits_for(queue) {
                self.copy_first_to(last, queue);
            }
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
        // What came before it with another tag is in front of it.
        if self.flood.parts[1 - part].waits_for(queue, &ports) {
            self.copy_waiting();
        }
        let to = (self.flood.at as u8, &ports);
        if let Err(frame) = self.flood.parts[part].add(queue, frame, &meta, to) {
            self.make_copies(part, queue);
            let added = self.flood.parts[part].add(queue, frame, &meta, to);
            debug_assert!(added.is_ok(), "an empty group takes any frame");
        }
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
