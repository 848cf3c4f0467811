//! Copies of frames for several ports: they are made port by port, and those of frames for the same port and queue share batches.

use super::flood::{FloodPart, KEYS_KEPT};
use super::lost::count_lost;
use super::{Observer, Switch};
use crate::drops::DropReason;
use crate::egress::{BATCH_MAX, BatchHeader, BatchList, Meta};
use crate::frame::{Frame, FrameRow};
use crate::mmu::Admission;
use crate::parse::EcnCode;
use crate::pfc::bits;
use crate::portset::PortSet;
use crate::types::{PRIORITIES, PortId};
use arrayvec::ArrayVec;

/// Ports that may be ahead of others: where more are, all get their copies.
const AHEAD: usize = 32;

/// Frames for one queue, whose copies share batches.
#[derive(Debug)]
pub(super) struct FloodGroup<F: Frame> {
    /// What they have in common but for their copy counts.
    header: BatchHeader,
    frames: F::Row,
    /// Where each of them goes (`Flood::destinations_of`): the number, and by number a bit of each frame.
    to: ArrayVec<u8, BATCH_MAX>,
    members: [u64; KEYS_KEPT],
    /// All ports that any of them goes to.
    ports: PortSet,
    /// Copy counts of the first ones: there are copies of them.
    counts: ArrayVec<u32, BATCH_MAX>,
    /// Each count is the one before it and one.
    in_turn: bool,
    /// Ports that have copies of so many of the first frames: another frame for the same queue came behind these.
    ahead: ArrayVec<(PortId, u8), AHEAD>,
}

impl<F: Frame> Default for FloodGroup<F> {
    fn default() -> Self {
        Self {
            header: BatchHeader::NONE,
            frames: F::Row::default(),
            to: ArrayVec::new(),
            members: [0; KEYS_KEPT],
            ports: PortSet::EMPTY,
            counts: ArrayVec::new(),
            in_turn: true,
            ahead: ArrayVec::new(),
        }
    }
}

impl<F: Frame> FloodGroup<F> {
    /// Adds a frame behind the others, for the ports of a number.
    ///
    /// # Errors
    /// The frame, if there is no room, or it is not of their header.
    pub fn add(&mut self, frame: F, meta: &Meta, (to, ports): (u8, &PortSet)) -> Result<(), F> {
        let header = BatchHeader { copies: BatchHeader::SINGLE, ..meta.header };
        let (mut frame, ecn) = (frame, self.header.ecn);
        if self.frames.is_empty() {
            self.header = header;
        } else if self.frames.room() == 0 {
            return Err(frame);
        } else if header != self.header {
            if !F::KEEPS_ECN || (BatchHeader { ecn, ..header }) != self.header {
                return Err(frame);
            }
            if ecn != EcnCode::EACH {
                self.frames.frames_mut().iter_mut().for_each(|frame| frame.set_ecn(ecn));
                self.header.ecn = EcnCode::EACH;
            }
            frame.set_ecn(header.ecn);
        }
        self.frames.push(frame, meta.len);
        if self.to.last() != Some(&to) {
            self.ports = self.ports.union(ports);
        }
        self.members[usize::from(to)] |= 1 << self.to.len();
        self.to.push(to);
        Ok(())
    }

    /// There are copies of one frame more.
    fn count(&mut self, count: u32) {
        self.in_turn &= self.counts.last().is_none_or(|last| last + 1 == count);
        self.counts.push(count);
    }

    /// Some of the frames go to one of these ports.
    #[inline(always)]
    pub fn shares_a_port_with(&self, ports: &PortSet) -> bool {
        !self.ports.intersection(ports).is_empty()
    }
}

const _: () = assert!(BATCH_MAX <= u64::BITS as usize, "the frames of a group have a bit each");

impl<F: Frame, A: Admission, O: Observer> Switch<F, A, O> {
    /// There will be a copy count for one more frame.
    #[inline(always)]
    pub(super) fn reserve_count(&mut self) -> bool {
        self.copies.reserve() || {
            self.copy_waiting();
            self.copies.reserve()
        }
    }

    /// What a frame of `len` bytes is charged in its group while there are so many copies of it.
    #[inline(always)]
    pub(super) fn charge_of_copied(&self, len: u32, copies: usize) -> u32 {
        self.admission.charge_for_copies(self.admission.charge(len), copies as u32)
    }

    /// Gives each frame of a group a copy count.
    fn begin_counts(&mut self, part: usize, queue: usize) {
        let group = &self.flood.parts[part].groups[queue];
        for at in group.counts.len()..group.frames.len() {
            let FloodGroup { frames, to, .. } = &self.flood.parts[part].groups[queue];
            let (len, copies) = (frames.lens()[at], self.flood.destinations_of(to[at]).parts[part].copies);
            let charge = self.charge_of_copied(len.into(), copies);
            let count = self.copies.begin_reserved(copies, charge);
            self.flood.parts[part].groups[queue].count(count);
        }
    }

    /// The frames of a group that a port takes and does not have yet, a bit each.
    fn frames_for(&self, out: PortId, part: usize, group: &FloodGroup<F>) -> u64 {
        let done = group.ahead.iter().find(|(port, _)| *port == out).map_or(0, |(_, done)| u32::from(*done));
        let sets = self.flood.destinations_by_number().zip(&group.members);
        let goes_there = sets.filter(|(to, _)| to.parts[part].ports.contains(out));
        let frames = goes_there.fold(0, |all, (_, frames)| all | frames);
        frames & u64::MAX.checked_shl(done).unwrap_or(0)
    }

    /// Copies the frames that wait to their ports; none is left.
    #[inline(always)]
    pub(super) fn copy_waiting(&mut self) {
        if self.flood.waiting() != 0 {
            self.copy_all();
        }
    }

    #[cold]
    #[inline(never)]
    fn copy_all(&mut self) {
        for part in 0..self.flood.parts.len() {
            bits(self.flood.parts[part].waiting).for_each(|queue| self.make_copies(part, queue));
        }
    }

    /// Copies the frames of a group to their ports. The last one gets the frames themselves.
    #[inline(never)]
    pub(super) fn make_copies(&mut self, part: usize, queue: usize) {
        self.begin_counts(part, queue);
        let FloodPart { waiting, groups } = &mut self.flood.parts[part];
        *waiting &= !(1 << queue);
        let mut group = std::mem::take(&mut groups[queue]);
        let Some(last) = group.ports.last() else { return };
        group.ports.without(last).iter().for_each(|out| self.share_with(out, part, &group));
        let selected = self.frames_for(last, part, &group);
        let mut frames = std::mem::take(&mut group.frames);
        let frames =
            frames.drain_last(group.counts.len()).enumerate().filter(|(at, _)| selected >> at & 1 == 1);
        self.copy_frames(last, &group, selected, frames.map(|(_, frame)| (frame.len(), Some(frame))));
    }

    /// A port gets what waits for this queue of it, before another frame for it does.
    #[cold]
    #[inline(never)]
    pub(super) fn copy_first_to(&mut self, out: PortId, queue: usize) {
        let waits =
            |part: &FloodPart<F>| part.waiting >> queue & 1 == 1 && part.groups[queue].ports.contains(out);
        let Some(part) = self.flood.parts.iter().position(waits) else { return };
        self.begin_counts(part, queue);
        let mut group = std::mem::take(&mut self.flood.parts[part].groups[queue]);
        self.share_with(out, part, &group);
        group.ahead.retain(|(port, _)| *port != out);
        let full = group.ahead.try_push((out, group.counts.len() as u8)).is_err();
        self.flood.parts[part].groups[queue] = group;
        if full {
            self.make_copies(part, queue);
        }
    }

    /// Copies of those frames of a group, all of which have a count, that go to a port that does not have them yet.
    fn share_with(&mut self, out: PortId, part: usize, group: &FloodGroup<F>) {
        let selected = self.frames_for(out, part, group);
        let frames = group.frames.frames();
        let copies = bits(selected).map(|at| (frames[at].len(), frames[at].share()));
        self.copy_frames(out, group, selected, copies);
    }

    /// The `selected` ones of the frames of a group, all of which have a count, to one port.
    #[inline(always)]
    fn copy_frames(
        &mut self,
        out: PortId,
        FloodGroup { header, counts, in_turn, .. }: &FloodGroup<F>,
        selected: u64,
        mut copies: impl Iterator<Item = (usize, Option<F>)>,
    ) {
        let (first, frames) = (selected.trailing_zeros(), selected.count_ones());
        if frames == 0 {
            return;
        }
        let without_gap = first + frames + selected.leading_zeros() == u64::BITS;
        let numbered = match *in_turn && without_gap || frames == 1 {
            true => Some(counts[first as usize]),
            false => self.copies.list(bits(selected).map(|at| counts[at])),
        };
        match numbered {
            Some(first) => {
                let first = BatchHeader { copies: first, ..*header };
                self.copy_run(out, &first, frames as usize, copies);
            }
            // No list is free.
            None => bits(selected).for_each(|at| {
                let one = BatchHeader { copies: counts[at], ..*header };
                self.copy_run(out, &one, 1, copies.by_ref().take(1));
            }),
        }
    }

    /// `count` copies to one port, ours or another lcore's, with the length of each. `None`: there was no memory for it.
    #[inline(always)]
    fn copy_run(
        &mut self,
        out: PortId,
        first: &BatchHeader,
        count: usize,
        copies: impl Iterator<Item = (usize, Option<F>)>,
    ) {
        let held_ns = self.held_ns(out.index() * PRIORITIES + usize::from(first.queue), first.rx_ns);
        let mut list = BatchList::NONE;
        for (number, (len, copy)) in copies.enumerate() {
            let header = first.behind(number as u32);
            let Some(copy) = copy else {
                self.admit_copies(out, first, std::mem::replace(&mut list, BatchList::NONE));
                self.refused_watched(out, &header, len as u32, DropReason::IngressNoCopy);
                self.release_group(&header.meta(len as u16, held_ns));
                let Self { ports, admission, .. } = self;
                count_lost(ports, admission, PortId(header.in_port), DropReason::IngressNoCopy, &header, 1);
                continue;
            };
            let unlisted = match self.queues.open(&list) {
                _ if count == 1 => Err(copy),
                Some(batch) => {
                    batch.put(copy);
                    Ok(())
                }
                None => self.queues.extend(&mut list, &header, held_ns, copy),
            };
            if let Err(copy) = unlisted {
                let meta = header.meta_of(&copy, held_ns);
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
