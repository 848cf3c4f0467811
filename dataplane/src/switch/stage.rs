//! Frames that were taken off their queues and are with the wire, or about to be.
//!
//! Frames of one kind are accounted for together, wherever they stand among others: weighted queues take turns of a few
//! frames. Which frame is of which entry is asked only when the wire takes some of them.

use crate::egress::{BatchHeader, BatchTotals};
use crate::frame::{Frame, FrameList};
use crate::types::{BURST, Nanos, PRIORITIES, PortId};
use arrayvec::ArrayVec;

/// Frames of one header that stand in the stage.
#[derive(Clone, Copy, Debug)]
pub(super) struct Staged {
    pub header: BatchHeader,
    pub totals: BatchTotals,
    /// The port they leave by.
    pub out: PortId,
    /// ns of their wait in which received pauses held their queue.
    pub paused_ns: Nanos,
}

impl Staged {
    /// They are of one kind with those before them, and can be counted together.
    #[inline(always)]
    pub fn continues(&self, before: &Staged) -> bool {
        before.header == self.header
            && before.out == self.out
            && before.paused_ns == self.paused_ns
            && self.header.is_single()
    }
}

/// Frames that follow each other in the stage and are of one entry.
#[derive(Clone, Copy, Debug)]
struct Run {
    entry: u8,
    frames: u16,
}

const _: () = assert!(BURST - 1 <= u8::MAX as usize, "a run names its entry by an octet");

/// See the module. There is room for what can be said of as many frames as are ever staged, so that nothing is allocated later.
#[derive(Debug)]
pub(super) struct Stage<F: Frame> {
    frames: F::Staged,
    entries: Vec<Staged>,
    runs: Vec<Run>,
    /// The entry that was added to last, by queue.
    last: [u8; PRIORITIES],
}

impl<F: Frame> Default for Stage<F> {
    fn default() -> Self {
        let (entries, runs) =
            (Vec::with_capacity(F::Staged::CAPACITY), Vec::with_capacity(F::Staged::CAPACITY));
        Self { frames: F::Staged::default(), entries, runs, last: [0; PRIORITIES] }
    }
}

impl<F: Frame> Stage<F> {
    pub fn len(&self) -> usize {
        self.frames.len()
    }

    pub fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }

    pub fn capacity(&self) -> usize {
        F::Staged::CAPACITY
    }

    /// The frames, to add some at the end: then [`Stage::note`] says what these were.
    #[inline(always)]
    pub fn frames_mut(&mut self) -> &mut F::Staged {
        &mut self.frames
    }

    /// Adds a frame at the end.
    #[inline(always)]
    pub fn push(&mut self, frame: F) {
        self.frames.push(frame);
    }

    /// What was added to the frames.
    #[inline(always)]
    pub fn note(&mut self, staged: Staged) {
        let entry = self.account(staged);
        self.note_run(entry, staged.totals.frames);
    }

    /// Accounts for frames; the number of their entry.
    #[inline(always)]
    pub fn account(&mut self, staged: Staged) -> u8 {
        let last = &mut self.last[usize::from(staged.header.queue) % PRIORITIES];
        match self.entries.get_mut(usize::from(*last)) {
            Some(entry) if staged.continues(entry) => entry.totals.add(staged.totals),
            _ => {
                *last = self.entries.len() as u8;
                self.entries.push(staged);
            }
        }
        *last
    }

    /// The last frames are of this entry.
    #[inline(always)]
    pub fn note_run(&mut self, entry: u8, frames: u32) {
        match self.runs.last_mut() {
            Some(run) if run.entry == entry => run.frames += frames as u16,
            _ => self.runs.push(Run { entry, frames: frames as u16 }),
        }
    }

    /// Frames for which there is an entry.
    #[inline(always)]
    pub fn add(&mut self, entry: u8, totals: BatchTotals) {
        if let Some(entry) = self.entries.get_mut(usize::from(entry)) {
            entry.totals.add(totals);
        }
    }

    /// Bytes on the wire.
    pub fn wire(&self) -> u64 {
        self.entries.iter().map(|entry| entry.totals.wire()).sum()
    }

    /// The frames from the last to be sent to the first, with the place and the entry of each.
    pub fn backwards(&self) -> impl Iterator<Item = (usize, &Staged, &F)> {
        let entry = |run: &Run| std::iter::repeat_n(&self.entries[usize::from(run.entry)], run.frames.into());
        let entries = self.runs.iter().rev().flat_map(entry);
        entries.zip(self.frames.iter().enumerate().rev()).map(|(entry, (at, frame))| (at, entry, frame))
    }

    /// The wire took all frames: their entries are gone.
    #[inline(always)]
    pub fn clear(&mut self) {
        self.frames.clear();
        self.entries.clear();
        self.runs.clear();
    }

    /// The wire took as many frames as are missing now, from the front. The entries are those of the frames that are left;
    /// those of the frames it took are returned. Frames are charged `charge_of(length)`.
    #[cold]
    pub fn split(&mut self, charge_of: impl Fn(u32) -> u32) -> ArrayVec<Staged, BURST> {
        let mut taken: ArrayVec<Staged, BURST> = self.entries.drain(..).collect();
        let runs: ArrayVec<Run, BURST> = self.runs.drain(..).collect();
        let mut gone = runs.iter().map(|run| usize::from(run.frames)).sum::<usize>() - self.frames.len();
        let mut at = 0;
        // Frames of each entry that stood before the run.
        let mut before = [0; BURST];
        for run in runs {
            let skipped = gone.min(usize::from(run.frames));
            let first = before[usize::from(run.entry)] + skipped as u32;
            before[usize::from(run.entry)] += u32::from(run.frames);
            gone -= skipped;
            let left = usize::from(run.frames) - skipped;
            if left == 0 {
                continue;
            }
            let mut totals = BatchTotals { frames: left as u32, bytes: 0, charge: 0 };
            for frame in &self.frames[at..at + left] {
                totals.bytes += frame.len() as u32;
                totals.charge += charge_of(frame.len() as u32);
            }
            at += left;
            let entry = &mut taken[usize::from(run.entry)];
            entry.totals = entry.totals.without(totals);
            let left = Staged { totals, header: entry.header.behind(first), ..*entry };
            self.note(left);
        }
        taken.retain(|entry| entry.totals.frames > 0);
        taken
    }

    /// What the stage holds, by kind.
    pub fn entries(&self) -> &[Staged] {
        &self.entries
    }

    /// The frames in the order of departure, with what is known of each.
    pub fn into_frames(self) -> impl Iterator<Item = (BatchHeader, F)> {
        let Self { frames, entries, runs, .. } = self;
        let header =
            move |run: Run| std::iter::repeat_n(entries[usize::from(run.entry)].header, run.frames.into());
        runs.into_iter().flat_map(header).zip(frames)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::egress::Numbered;
    use crate::rng::Rng;

    fn staged(queue: u8, totals: BatchTotals) -> Staged {
        Staged { header: BatchHeader { queue, ..BatchHeader::NONE }, totals, out: PortId(1), paused_ns: 0 }
    }

    fn cells(len: u32) -> u32 {
        len.div_ceil(100) * 100
    }

    /// Frames of several queues in turns of some, of which the wire takes some at a time: what is said to have gone is
    /// what is gone, by queue, frame for frame.
    #[test]
    fn what_the_wire_took_is_accounted_for_whoever_stood_beside_it() {
        let mut rng = Rng::new(7);
        let mut below = |n: usize| rng.next_u32() as usize % n;
        for _ in 0..200 {
            let mut stage = Stage::default();
            let mut waiting = std::collections::VecDeque::new();
            for n in 0..1 + below(40) {
                let (queue, frames) = (below(3) as u8, 1 + below(4));
                let mut totals = BatchTotals::default();
                for _ in 0..frames {
                    let len = 60 + below(1400) as u16;
                    let (bytes, charge) = (u32::from(len), cells(u32::from(len)));
                    totals.add(BatchTotals { frames: 1, bytes, charge });
                    stage.push(Numbered::new(n, len));
                    waiting.push_back((queue, bytes, charge));
                }
                stage.note(staged(queue, totals));
            }
            assert!(stage.entries().len() <= 3, "one entry for each kind");
            while !stage.is_empty() {
                let taken = 1 + below(stage.len());
                stage.frames_mut().drain(..taken);
                let gone = match stage.is_empty() {
                    true => std::mem::take(&mut stage).entries().iter().copied().collect(),
                    false => stage.split(cells),
                };
                let mut want = [BatchTotals::default(); 3];
                for (queue, bytes, charge) in waiting.drain(..taken) {
                    want[usize::from(queue)].add(BatchTotals { frames: 1, bytes, charge });
                }
                let mut got = [BatchTotals::default(); 3];
                gone.iter().for_each(|entry| got[usize::from(entry.header.queue)].add(entry.totals));
                assert_eq!(got, want);
                let places = stage.backwards().map(|(at, entry, _)| (at, entry.header.queue));
                let left = waiting.iter().enumerate().rev().map(|(at, (queue, ..))| (at, *queue));
                assert!(places.eq(left));
            }
        }
    }
}
