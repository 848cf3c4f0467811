//! Frames with several destinations: broadcast, multicast, stations nobody knows.
//!
//! A frame is charged to its group as it comes. Its copies are made at the end of the burst, port by port, together with
//! those of the frames like it that followed.

use super::Switch;
use super::gate::Charged;
use super::lost::count_lost;
use super::ports::PortStatus;
use crate::drops::DropReason;
use crate::egress::{BATCH_MAX, BatchHeader, BatchList, Meta};
use crate::frame::Frame;
use crate::mmu::Admission;
use crate::portset::PortSet;
use crate::types::{MAX_PORTS, PRIORITIES, PortId};
use arrayvec::ArrayVec;

/// Frames of a burst that go to the same ports, of one kind and length, each with the copy count behind that of the one
/// before: such copies share batches.
#[derive(Debug)]
pub(super) struct FloodGroup<F> {
    /// Where they are to go,
    ports: PortSet,
    /// and those of these ports that take copies.
    outs: ArrayVec<PortId, MAX_PORTS>,
    /// Of the first one.
    header: BatchHeader,
    frames: ArrayVec<F, BATCH_MAX>,
}

impl<F> Default for FloodGroup<F> {
    fn default() -> Self {
        let (outs, frames) = (ArrayVec::new(), ArrayVec::new());
        Self { ports: PortSet::EMPTY, outs, header: BatchHeader::NONE, frames }
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
    /// Why a frame that came by `port` can be flooded to none of `ports`.
    #[cold]
    pub(super) fn nowhere_to(&self, port: PortId, ports: PortSet) -> DropReason {
        let others = ports.intersection(&self.ports[port.index()].flood).without(port);
        PortStatus::nowhere(others.iter().map(|out| self.ports.status(out)))
    }

    /// Charges a frame once to its group, as much as its copies take of the memory for frames; each copy is charged to its
    /// queue (B16) when it is made.
    pub(super) fn multicast_as_it_is(&mut self, port: PortId, ports: PortSet, frame: F, meta: Meta) {
        if self.flood.frames.is_empty() || self.flood.ports != ports {
            self.copy_waiting();
            let Self { flood, ports: all, .. } = self;
            let may = |out: &PortId| *out != port && all.is_up(*out);
            flood.outs.clear();
            flood.outs.extend(ports.intersection(&all[port.index()].flood).iter().filter(may));
            flood.ports = ports;
        }
        let (mut meta, copies) = (meta, self.flood.outs.len());
        let Some(&last) = self.flood.outs.last() else {
            let reason = self.nowhere_to(port, ports);
            return self.drop_frame(port, reason, frame, &meta.header());
        };
        if copies == 1 {
            return self.forward(last, frame, meta);
        }
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
        if !self.flood.has_room_for(&meta) {
            self.make_copies();
            self.flood.header = meta.header();
        }
        self.flood.frames.push(frame);
        if self.tap.is_some() {
            // Whoever follows a frame looks at what becomes of it before the next one comes.
            self.make_copies();
        }
    }

    /// Copies the frames of the flood group to their ports; none is left in it.
    #[inline(always)]
    pub(super) fn copy_waiting(&mut self) {
        if !self.flood.frames.is_empty() {
            self.make_copies();
        }
    }

    #[cold]
    #[inline(never)]
    fn make_copies(&mut self) {
        let frames = std::mem::take(&mut self.flood.frames);
        let header = self.flood.header;
        let outs = self.flood.outs.clone();
        let Some((&last, others)) = outs.split_last().filter(|_| !frames.is_empty()) else { return };
        for &out in others {
            self.copy_to(out, &header, frames.iter().map(|frame| (frame.len(), frame.share())));
        }
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
        let (input, queue) = (PortId(header.in_port), usize::from(header.queue));
        if !self.ports.is_own(out) {
            self.hand_off_list(out, list);
        } else if !self.admit_all(Charged::Queue(out), header.pg, queue, totals) {
            let mut list = list;
            while let Some((frame, meta)) = self.unlist(&mut list) {
                self.accept_one(out, frame, meta, meta.rx_ns);
            }
        } else if self.queues.append(input, out, queue, &list, totals) {
            self.ports[out.index()].scheduler.wake(queue);
        }
    }

    /// A copy that has no others behind it: it joins those before it in the queue.
    fn copy_alone(&mut self, out: PortId, frame: F, meta: Meta) {
        if self.ports.is_own(out) {
            self.accept_one(out, frame, meta, meta.rx_ns);
        } else {
            self.hand_off_one(out, frame, &meta);
        }
    }
}
