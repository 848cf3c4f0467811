//! Copies of frames for several ports: they are made port by port, and those of frames for the same ports and queue share batches.

use super::Switch;
use super::flood::FloodPart;
use super::lost::count_lost;
use crate::drops::DropReason;
use crate::egress::{BATCH_MAX, BatchHeader, BatchList, Meta};
use crate::frame::{Frame, FrameRow};
use crate::mmu::Admission;
use crate::parse::EcnCode;
use crate::pfc::bits;
use crate::types::{PRIORITIES, PortId};
use arrayvec::ArrayVec;
use std::ops::Range;

/// Ports that may be ahead of others: where more are, all get their copies.
const AHEAD: usize = 32;

/// Frames for one queue, whose copies share batches.
#[derive(Debug)]
pub(super) struct FloodGroup<F: Frame> {
    /// What they have in common but for their copy counts.
    header: BatchHeader,
    frames: F::Row,
    /// The first frames have copy counts, since there are copies of them.
    counts: ArrayVec<Run, BATCH_MAX>,
    /// How many.
    counted: usize,
    /// Ports that have copies of so many of the first frames: another frame for the same queue came behind these.
    ahead: ArrayVec<(PortId, u8), AHEAD>,
}

impl<F: Frame> Default for FloodGroup<F> {
    fn default() -> Self {
        Self {
            header: BatchHeader::NONE,
            frames: F::Row::default(),
            counts: ArrayVec::new(),
            counted: 0,
            ahead: ArrayVec::new(),
        }
    }
}

impl<F: Frame> FloodGroup<F> {
    /// Adds a frame behind the others.
    ///
    /// # Errors
    /// The frame, if there is no room, or it is not of their header.
    pub fn add(&mut self, frame: F, meta: &Meta) -> Result<(), F> {
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
        Ok(())
    }
}

/// Frames whose copy counts follow each other, as those of a batch do.
#[derive(Clone, Copy, Debug)]
struct Run {
    first: u32,
    frames: u8,
}

/// Copies that a port has already.
fn done(ahead: &[(PortId, u8)], out: PortId) -> usize {
    ahead.iter().find(|(port, _)| *port == out).map_or(0, |(_, done)| usize::from(*done))
}

/// What is left of frames with these counts behind the first ones: the count of one, and which follow it in turn with it.
#[inline(always)]
fn behind(counts: &[Run], done: usize) -> impl Iterator<Item = (u32, Range<usize>)> {
    let mut end = 0;
    counts.iter().filter_map(move |run| {
        let (from, start) = (end, done.max(end));
        end += usize::from(run.frames);
        (start < end).then(|| (run.first + (start - from) as u32, start..end))
    })
}

const _: () = assert!(BATCH_MAX <= u8::MAX as usize, "the frames of a group are counted in an octet");

impl<F: Frame, A: Admission> Switch<F, A> {
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
        let FloodPart { copies, ref groups, .. } = self.flood.parts[part];
        for at in groups[queue].counted..groups[queue].frames.len() {
            let charge =
                self.charge_of_copied(self.flood.parts[part].groups[queue].frames.lens()[at].into(), copies);
            let count = self.copies.begin_reserved(copies, charge);
            let FloodGroup { counts, counted, .. } = &mut self.flood.parts[part].groups[queue];
            *counted += 1;
            match counts.last_mut() {
                Some(run) if run.first + u32::from(run.frames) == count => run.frames += 1,
                _ => counts.push(Run { first: count, frames: 1 }),
            }
        }
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
        let FloodPart { outs, last, waiting, groups, .. } = &mut self.flood.parts[part];
        *waiting &= !(1 << queue);
        let Some(last) = *last else { return };
        let (others, group) = (outs.without(last), std::mem::take(&mut groups[queue]));
        others.iter().for_each(|out| self.share_with(out, &group));
        let FloodGroup { header, mut frames, counts, ahead, .. } = group;
        let done = done(&ahead, last);
        let count = frames.len() - done;
        let mut left = frames.drain_last(count).map(|frame| (frame.len(), Some(frame)));
        for (first, these) in behind(&counts, done) {
            let first = BatchHeader { copies: first, ..header };
            self.copy_run(last, &first, these.len(), left.by_ref().take(these.len()));
        }
    }

    /// A port gets what waits for this queue of it, before another frame for it does.
    #[cold]
    #[inline(never)]
    pub(super) fn copy_first_to(&mut self, out: PortId, queue: usize) {
        let waits = |part: &FloodPart<F>| part.waiting >> queue & 1 == 1 && part.outs.contains(out);
        let Some(part) = self.flood.parts.iter().position(waits) else { return };
        self.begin_counts(part, queue);
        let mut group = std::mem::take(&mut self.flood.parts[part].groups[queue]);
        self.share_with(out, &group);
        group.ahead.retain(|(port, _)| *port != out);
        let full = group.ahead.try_push((out, group.counted as u8)).is_err();
        self.flood.parts[part].groups[queue] = group;
        if full {
            self.make_copies(part, queue);
        }
    }

    /// Copies of those frames of a group, all of which have a count, that a port does not have yet.
    fn share_with(&mut self, out: PortId, group: &FloodGroup<F>) {
        let FloodGroup { header, frames, counts, ahead, .. } = group;
        for (first, these) in behind(counts, done(ahead, out)) {
            let (first, count) = (BatchHeader { copies: first, ..*header }, these.len());
            let copies = frames.frames()[these].iter().map(|frame| (frame.len(), frame.share()));
            self.copy_run(out, &first, count, copies);
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
