//! What is left to chance where a frame joins a queue of ours, by the depth that the frame finds: early drop from a lossy queue
//! (WRED), marking on arrival (DEV-28's other option). Frames draw the same random numbers whether they come alone or with others.

use super::channels::Note;
use super::gate::Charged;
use super::{Observer, OwnPort, Switch};
use crate::drops::DropReason;
use crate::ecn::{self, MarkAt, Wred};
use crate::egress::{BATCH_MAX, BatchHeader, BatchList, BatchTotals, FrameBatch, Meta};
use crate::frame::Frame;
use crate::mmu::Admission;
use crate::parse::EcnCode;
use crate::rng::Rng;
use crate::types::{BURST, PRIORITIES, PortId};

/// What the configuration of a queue leaves to chance.
#[derive(Clone, Copy, Debug)]
struct Chance {
    /// Drops frames.
    drops: Option<Wred>,
    /// Frames that say that their transport heeds marks are spared.
    spares_ect: bool,
    /// Marks frames on arrival.
    marks: Option<Wred>,
}

/// What becomes of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ChanceVerdict {
    Passes,
    IsMarked,
    IsDropped,
}

/// One bit for each of the frames that came together.
#[derive(Clone, Copy, Default)]
struct Chosen([u64; BURST / 64]);

const _: () = assert!(BURST.is_multiple_of(64), "each frame of a burst has a bit");

impl Chosen {
    fn insert(&mut self, at: usize) {
        self.0[at / 64 % (BURST / 64)] |= 1 << (at % 64);
    }

    /// All from this place on.
    fn insert_from(&mut self, at: usize) {
        for (first, word) in (0..).step_by(64).zip(&mut self.0) {
            let before = at.saturating_sub(first);
            *word |= if before < 64 { u64::MAX << before } else { 0 };
        }
    }

    fn contains(&self, at: usize) -> bool {
        self.0[at / 64 % (BURST / 64)] >> (at % 64) & 1 == 1
    }

    /// The place of one of them, by its number among them.
    fn nth(&self, nth: usize) -> usize {
        (0..BURST).filter(|at| self.contains(*at)).nth(nth).unwrap_or(BURST)
    }
}

impl Chance {
    /// Random numbers that each frame draws if none is dropped.
    fn draws(&self) -> u64 {
        u64::from(self.drops.is_some()) + u64::from(self.marks.is_some())
    }

    /// At this depth something may happen.
    fn acts_at(&self, depth: u64) -> bool {
        [self.drops, self.marks].into_iter().flatten().any(|wred| wred.decide(depth, 0))
    }

    /// Above this depth every frame is dropped, whatever it draws.
    fn sure_above(&self) -> u64 {
        self.drops.filter(|_| !self.spares_ect).map_or(u64::MAX, |wred| wred.kmax)
    }

    /// The frame is dropped, that finds this depth.
    #[inline(always)]
    fn drops<F: Frame>(&self, frame: &F, ecn: EcnCode, depth: u64, rng: &mut Rng) -> bool {
        let Some(wred) = self.drops else { return false };
        let chosen = wred.decide(depth, rng.next_u32());
        chosen && !self.spares(frame, ecn)
    }

    #[inline(always)]
    fn spares<F: Frame>(&self, frame: &F, ecn: EcnCode) -> bool {
        self.spares_ect && is_ect(frame, ecn)
    }

    /// The frame, that passes and finds this depth, is marked.
    #[inline(always)]
    fn marks(&self, depth: u64, rng: &mut Rng) -> bool {
        self.marks.is_some_and(|wred| wred.decide(depth, rng.next_u32()))
    }

    #[inline(always)]
    fn draw<F: Frame>(&self, frame: &F, ecn: EcnCode, depth: u64, rng: &mut Rng) -> ChanceVerdict {
        if self.drops(frame, ecn, depth, rng) {
            ChanceVerdict::IsDropped
        } else if self.marks(depth, rng) {
            ChanceVerdict::IsMarked
        } else {
            ChanceVerdict::Passes
        }
    }
}

impl<F: Frame> OwnPort<F> {
    fn chance(&self, queue: usize) -> Chance {
        let params = &self.params;
        Chance {
            drops: params.early_drop[queue],
            spares_ect: params.mark[queue].is_some(),
            marks: params.mark[queue].filter(|wred| wred.at == MarkAt::Enqueue),
        }
    }
}

impl<F: Frame, A: Admission, O: Observer> Switch<F, A, O> {
    /// What chance decides about frames that come together for this queue; `None`: there is more to ask about each of them than
    /// that and limits.
    fn chance_alone(&self, out: PortId, queue: usize) -> Option<Chance> {
        let port = self.ports.get_own(out.index())?;
        let more = self.draining || port.shut(queue).is_some() || port.bursts.is_some();
        (!more).then(|| port.chance(queue))
    }

    /// How many random numbers frames draw for nothing, if the queue stays too short to do anything even with all of them in it.
    #[inline(never)]
    pub(super) fn draws_in_vain(&self, out: PortId, queue: usize, totals: BatchTotals) -> Option<u64> {
        let chance = self.chance_alone(out, queue)?;
        let depth = self.queues.bytes(out, queue) + u64::from(totals.bytes);
        (!chance.acts_at(depth)).then(|| u64::from(totals.frames) * chance.draws())
    }

    /// Lets those frames of a list pass together that chance does not drop, and loses the others. Returns what is left of the list;
    /// `None`: limits are near, or there is more to ask. Then nothing has happened, and each is to be asked about.
    #[inline(never)]
    pub(super) fn admit_by_chance(
        &mut self,
        charged: Charged,
        header: &BatchHeader,
        list: &mut BatchList,
        totals: BatchTotals,
    ) -> Option<BatchTotals> {
        let out = charged.queue()?;
        if self.observer.looks_on() || !header.is_single() {
            // Each is looked at, or has its own count.
            return None;
        }
        let queue = usize::from(header.queue) % PRIORITIES;
        let mut chance = self.chance_alone(out, queue)?;
        if chance.draws() == 0 || totals.frames as usize > BURST {
            return None;
        }
        chance.spares_ect = chance.spares_ect && self.has_ect(list);
        let Self { queues, admission, .. } = self;
        let (mut rng, mut depth) = (self.rng.clone(), queues.bytes(out, queue));
        let (mut dropped, mut marked, mut marks) = (Chosen::default(), Chosen::default(), false);
        let (mut left, mut lost) = (BatchTotals::default(), 0);
        queues.each(list, |frame, len, ecn| {
            if depth > chance.sure_above() {
                return false;
            }
            let at = (left.frames + lost) as usize;
            match chance.draw(frame, ecn, depth, &mut rng) {
                ChanceVerdict::IsDropped => {
                    dropped.insert(at);
                    lost += 1;
                    return true;
                }
                ChanceVerdict::IsMarked => {
                    marked.insert(at);
                    marks = true;
                }
                ChanceVerdict::Passes => {}
            }
            depth += u64::from(len);
            left.add(BatchTotals { frames: 1, bytes: len.into(), charge: admission.charge(len.into()) });
            true
        });
        // None of the others stays, and the depth is the same for all of them.
        let seen = left.frames + lost;
        if seen < totals.frames {
            rng.skip((totals.frames - seen).into());
            dropped.insert_from(seen as usize);
            lost = totals.frames - left.frames;
        }
        if left.frames > 0 && !self.charge_all(charged, header.pg, queue, left) {
            return None;
        }
        self.rng = rng;
        if lost > 0 || marks {
            self.drop_and_mark(out, header, list, (&dropped, &marked), (lost, left.frames == 0));
        }
        if lost > 0 && !charged.group() {
            self.release_from_group(header, totals.without(left));
        }
        Some(left)
    }

    fn has_ect(&self, list: &BatchList) -> bool {
        let mut none = true;
        self.queues.each(list, |frame, _, ecn| {
            none = !is_ect(frame, ecn);
            none
        });
        !none
    }

    /// Drops and marks the frames of a list that chance has chosen. `lost` of them are dropped, `all` if none is left.
    fn drop_and_mark(
        &mut self,
        out: PortId,
        header: &BatchHeader,
        list: &mut BatchList,
        (dropped, marked): (&Chosen, &Chosen),
        (lost, all): (u32, bool),
    ) {
        if lost > 0 {
            self.count_refused(out, header, DropReason::EgressWred, lost, |queues, nth| {
                queues.nth(list, dropped.nth(nth as usize))
            });
        }
        let Self { ports, queues, admission, .. } = self;
        let buffer = queues.first_mut(list).and_then(FrameBatch::open);
        if all {
            queues.discard(list);
        } else {
            let (port, mut frames) = (&mut ports[out.index()], 0..);
            queues.edit(list, |frame, header| {
                let at = frames.next().unwrap_or(BURST);
                if marked.contains(at) {
                    port.mark(frame, &header.meta_of(frame, 0));
                }
                !dropped.contains(at)
            });
            queues.seal(list, |len| admission.charge(len));
        }
        let Some(buffer) = buffer else { return };
        match queues.first_mut(list) {
            // There are buffers for what waits in batches that are half full.
            Some(batch) if 2 * batch.len() >= BATCH_MAX => batch.close(buffer),
            _ => self.return_path().note(PortId(header.in_port), Note::Empty(buffer)),
        }
    }

    /// Share of 2^32 random values for which a frame is dropped early that joins a queue of ours now.
    pub(super) fn early_drop_share(&self, out: PortId, queue: usize, frame: &F, ecn: EcnCode) -> u64 {
        let (chance, depth) = (self.ports[out.index()].chance(queue), self.queues.bytes(out, queue));
        chance.drops.filter(|_| !chance.spares(frame, ecn)).map_or(0, |wred| wred.share(depth))
    }

    /// A frame is dropped early, rather than joins its queue.
    #[cold]
    pub(super) fn drops_early(&mut self, out: PortId, frame: &F, meta: &Meta) -> bool {
        let queue = usize::from(meta.header.queue);
        let (chance, depth) = (self.ports[out.index()].chance(queue), self.queues.bytes(out, queue));
        chance.drops(frame, meta.header.ecn, depth, &mut self.rng)
    }

    /// A frame that is about to join its queue is marked, perhaps.
    #[cold]
    pub(super) fn mark_on_arrival(&mut self, out: PortId, frame: &mut F, meta: &Meta) {
        let queue = usize::from(meta.header.queue);
        let (chance, depth) = (self.ports[out.index()].chance(queue), self.queues.bytes(out, queue));
        if chance.marks(depth, &mut self.rng) {
            self.ports[out.index()].mark(frame, meta);
        }
    }
}

/// A frame says that its transport heeds marks.
fn is_ect<F: Frame>(frame: &F, code: EcnCode) -> bool {
    ecn::codepoint(frame.bytes(), code.place()).is_some_and(|bits| bits != 0)
}
