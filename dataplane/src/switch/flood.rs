//! Frames with several destinations: broadcast, multicast, stations nobody knows.
//!
//! A frame is charged to its group as it comes. Its copies are made at the end of the burst, port by port, together with
//! those of the frames like it that followed. Where some ports send it with a tag and others without one it becomes two frames, whatever
//! the number of ports.

use super::Switch;
use super::gate::Charged;
use super::lost::count_lost;
use super::ports::PortStatus;
use super::receive::Received;
use crate::drops::DropReason;
use crate::egress::{BATCH_MAX, BatchHeader, BatchList, Meta};
use crate::frame::Frame;
use crate::mmu::Admission;
use crate::portset::PortSet;
use crate::types::{MAX_PORTS, PRIORITIES, PortId};
use crate::vlan::{FrameVlan, Retag, TAG_BYTES};
use arrayvec::ArrayVec;

/// What the ports that take a copy of a frame depend on, within a burst.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Asked {
    ports: PortSet,
    vlan: Option<FrameVlan>,
    /// Its length, where it grows: not every port may send it then.
    len: usize,
}

/// Where the frames of a burst with several destinations go, and those that wait for their copies.
#[derive(Debug)]
pub(super) struct Flood<F> {
    asked: Option<Asked>,
    /// Ports that may not send the frame: it would be too long.
    too_long: usize,
    /// Why there is no port at all, if there is none.
    nowhere: DropReason,
    /// Those that leave as they came, or as most do, and those that leave with another tag. No port is in both.
    parts: [FloodGroup<F>; 2],
}

impl<F> Default for Flood<F> {
    fn default() -> Self {
        let parts = [FloodGroup::default(), FloodGroup::default()];
        Self { asked: None, too_long: 0, nowhere: DropReason::LookupNoPort, parts }
    }
}

impl<F> Flood<F> {
    /// Links, tables and VLANs may not be what they were.
    #[inline(always)]
    pub fn begin_burst(&mut self) {
        self.asked = None;
    }

    /// The one port there is, and what is done to tags there.
    pub fn only_one(&self) -> Option<(PortId, Retag)> {
        let [FloodGroup { outs, retag, .. }, others] = &self.parts;
        match outs[..] {
            [out] if self.too_long == 0 && others.outs.is_empty() => Some((out, *retag)),
            _ => None,
        }
    }

    #[inline(always)]
    fn is_waiting(&self) -> bool {
        self.parts.iter().any(|part| !part.frames.is_empty())
    }
}

/// Frames of a burst that go to the same ports, of one kind and length, each with the copy count behind that of the one
/// before: such copies share batches.
#[derive(Debug)]
struct FloodGroup<F> {
    /// The ports that take copies.
    outs: ArrayVec<PortId, MAX_PORTS>,
    /// What is done to tags there.
    retag: Retag,
    /// Of the first frame.
    header: BatchHeader,
    frames: ArrayVec<F, BATCH_MAX>,
}

impl<F> Default for FloodGroup<F> {
    fn default() -> Self {
        let (outs, frames) = (ArrayVec::new(), ArrayVec::new());
        Self { outs, retag: Retag::Keep, header: BatchHeader::NONE, frames }
    }
}

impl<F: Frame> FloodGroup<F> {
    fn has_room_for(&self, meta: &Meta) -> bool {
        let next = self.header.behind(self.frames.len() as u32);
        !self.frames.is_full()
            && next == meta.header()
            && self.frames.first().is_some_and(|first| first.len() == usize::from(meta.len))
    }
}

impl<F: Frame, A: Admission> Switch<F, A> {
    /// Notes which of `ports` take a copy of a frame of this VLAN and length, and with which tag. Those that went elsewhere get
    /// their copies first.
    #[inline(always)]
    pub(super) fn set_destinations(
        &mut self,
        port: PortId,
        ports: PortSet,
        vlan: Option<FrameVlan>,
        len: usize,
    ) {
        let grows = vlan.is_some_and(|vlan| vlan.with_tag() == Retag::Push);
        let asked = Asked { ports, vlan, len: if grows { len } else { 0 } };
        if self.flood.asked != Some(asked) {
            self.find_destinations(port, asked);
        }
    }

    #[inline(never)]
    fn find_destinations(&mut self, port: PortId, asked: Asked) {
        self.copy_waiting();
        let mut others = asked.ports.intersection(&self.ports[port.index()].flood).without(port);
        if let (Some(vlan), Some(vlans)) = (asked.vlan, &self.vlans) {
            let members = vlans.ports(vlan.vid);
            others = others.intersection(&members.all());
        }
        let live: PortSet = others.iter().filter(|out| self.ports.is_up(*out)).collect();
        let (mut too_long, mut parts) = (0, [(live, Retag::Keep), (PortSet::EMPTY, Retag::Keep)]);
        if let (Some(vlan), Some(vlans)) = (asked.vlan, &self.vlans) {
            let (members, retag) = (vlans.ports(vlan.vid), vlan.with_tag());
            let mut with = live.intersection(&members.tagged);
            if retag == Retag::Push {
                let fit: PortSet = with.iter().filter(|out| self.fits(*out, asked.len + TAG_BYTES)).collect();
                (too_long, with) = (with.len() - fit.len(), fit);
            }
            parts = [(with, retag), (live.intersection(&members.untagged), vlan.without_tag())];
            // What leaves as it came is the frame itself.
            parts.sort_by_key(|(ports, retag)| (ports.is_empty(), *retag != Retag::Keep));
        }
        self.flood.asked = Some(asked);
        self.flood.nowhere = match too_long {
            0 => PortStatus::nowhere(self.lags.whole(others).iter().map(|out| self.ports.status(out))),
            _ => DropReason::VlanTooLong,
        };
        self.flood.too_long = too_long;
        for (part, (ports, retag)) in self.flood.parts.iter_mut().zip(parts) {
            part.outs.clear();
            part.outs.extend(ports);
            part.retag = retag;
        }
    }

    /// A frame to its destinations, which are set.
    pub(super) fn multicast(&mut self, port: PortId, frame: F, headers: &Received) {
        let Flood { too_long, parts: [part, others], .. } = &self.flood;
        let (too_long, none, has_others) = (*too_long, part.outs.is_empty(), !others.outs.is_empty());
        if none {
            self.copies_not_made(port, DropReason::VlanTooLong, headers, too_long.saturating_sub(1));
            return self.drop_frame(port, self.flood.nowhere, frame, &headers.meta.header());
        }
        self.copies_not_made(port, DropReason::VlanTooLong, headers, too_long);
        if has_others {
            match frame.share() {
                None => self.copies_not_made(port, DropReason::IngressNoCopy, headers, 1),
                Some(other) => self.aside(port, headers.meta.copies != Meta::SINGLE, |switch| {
                    switch.ports[port.index()].stats.copies += 1;
                    let meta = Meta { copies: Meta::SINGLE, ..headers.meta };
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
        let outs = &self.flood.parts[part].outs;
        let (copies, Some(&last)) = (outs.len(), outs.last()) else {
            return self.drop_frame(port, self.flood.nowhere, frame, &meta.header());
        };
        if copies == 1 {
            // What waits in the other part goes to other ports.
            return self.forward(last, frame, meta);
        }
        let followed = meta.copies != Meta::SINGLE;
        let Some(slot) = self.copies.next_free() else {
            return self.refuse(last, frame, &meta.header(), DropReason::IngressNoCopy);
        };
        let each = self.admission.charge(u32::from(meta.len));
        let charge = self.admission.charge_for_copies(each, copies as u32);
        if let Err(reason) = self.admit(Charged::Group, &frame, &mut meta, charge) {
            return self.refuse(last, frame, &meta.header(), reason);
        }
        meta.copies = slot;
        self.copies.begin(slot, copies);
        self.ports[port.index()].stats.copies += copies as u64 - 1;
        if !self.flood.parts[part].has_room_for(&meta) {
            self.make_copies(part);
            self.flood.parts[part].header = meta.header();
        }
        self.flood.parts[part].frames.push(frame);
        if followed {
            // Whoever follows a frame looks at what becomes of it before the next one comes.
            self.make_copies(part);
        }
    }

    /// Copies the frames that wait to their ports; none is left.
    #[inline(always)]
    pub(super) fn copy_waiting(&mut self) {
        if self.flood.is_waiting() {
            (0..self.flood.parts.len()).for_each(|part| self.make_copies(part));
        }
    }

    #[cold]
    #[inline(never)]
    fn make_copies(&mut self, part: usize) {
        let FloodGroup { outs, header, frames, .. } = &mut self.flood.parts[part];
        let (header, frames, count) = (*header, std::mem::take(frames), outs.len());
        if frames.is_empty() {
            return;
        }
        let out = |switch: &Self, at: usize| switch.flood.parts[part].outs[at];
        for at in 0..count - 1 {
            let copies = frames.iter().map(|frame| (frame.len(), frame.share()));
            self.copy_to(out(self, at), &header, copies);
        }
        let last = out(self, count - 1);
        self.copy_to(last, &header, frames.into_iter().map(|frame| (frame.len(), Some(frame))));
    }

    /// One copy of each frame to one port, ours or another lcore's, with the length of each. `None`: there was no memory for
    /// it.
    fn copy_to(
        &mut self,
        out: PortId,
        first: &BatchHeader,
        copies: impl ExactSizeIterator<Item = (usize, Option<F>)>,
    ) {
        let queue_ix = out.index() * PRIORITIES + usize::from(first.queue);
        let held_ns = self.held_ns(queue_ix, first.rx_ns);
        let (mut list, alone) = (BatchList::NONE, copies.len() == 1);
        for (number, (len, copy)) in copies.enumerate() {
            let header = first.behind(number as u32);
            let meta = header.meta(len as u16, held_ns);
            let Some(copy) = copy else {
                // Those of a batch have counts that follow each other.
                self.admit_copies(out, first, std::mem::replace(&mut list, BatchList::NONE));
                self.release_group(&meta);
                let Self { ports, admission, .. } = self;
                count_lost(ports, admission, PortId(header.in_port), DropReason::IngressNoCopy, &header, 1);
                continue;
            };
            let unlisted = match self.queues.open(&list) {
                _ if alone => Err(copy),
                Some(batch) => {
                    batch.put(copy);
                    Ok(())
                }
                None => self.queues.extend(&mut list, &header, held_ns, copy),
            };
            if let Err(copy) = unlisted {
                self.copy_alone(out, copy, meta);
            }
        }
        self.admit_copies(out, first, list);
    }

    /// Copies to one port, all in one batch.
    fn admit_copies(&mut self, out: PortId, header: &BatchHeader, list: BatchList) {
        if list.is_empty() {
            return;
        }
        let Self { queues, admission, .. } = self;
        let totals = queues.seal(&list, |len| admission.charge(len));
        if self.ports.is_own(out) {
            self.accept_list(out, header, list, totals);
        } else {
            self.hand_off_list(out, list);
        }
    }

    /// A copy that has no others behind it: it joins those before it in the queue.
    fn copy_alone(&mut self, out: PortId, frame: F, meta: Meta) {
        if self.ports.is_own(out) {
            self.accept_one(out, frame, meta);
        } else {
            self.hand_off_one(out, frame, &meta);
        }
    }
}
