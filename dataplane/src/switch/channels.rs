//! What crosses between lcores, in single-producer single-consumer rings: requests for frames of another lcore's ports,
//! grants to send frames that came from there, completions of what became of them, and news for the forwarding table.
//!
//! ```text
//! lcore that received a frame            lcore that owns its egress port
//!   charges the priority group  -- request -->  charges the queue, schedules
//!   sends, releases the group   <-- grant --
//!                               -- completion ->  counts, releases the queue
//! ```
//!
//! A request and a grant name frames whose memory the owner of the port does not touch. Where a device has not a
//! transmit queue for each lcore there are no grants: the owner takes the frames, and sends them itself.

use super::observer::Taken;
use super::ports::PortStatus;
use super::stage::Staged;
use crate::drops::DropReason;
use crate::egress::{BATCH_MAX, BatchBuffer, EnqueueRequest};
use crate::fdb::FdbEvent;
use crate::frame::Frame;
use crate::types::{BURST, Nanos, PortId};
use arrayvec::ArrayVec;
use rtrb::{Consumer, Producer, RingBuffer};
use std::collections::VecDeque;

/// Places of a ring: for what two bursts are if each frame goes by itself, and few enough to stay in a near cache.
const RING: usize = 2 * BURST;

/// The same of frames that come without a buffer, in lines.
const LINES: usize = RING / 2;

/// Handles that a cache line holds, beside their number.
const LINE: usize = 7;

const _: () = assert!(LINES >= BATCH_MAX, "the lines of a grant are taken at once");

/// Frames of a grant that come without a buffer.
pub(super) type FrameLine<F> = ArrayVec<F, LINE>;

/// News that wait at most, per direction.
const NEWS: usize = 1024;

/// Frames that the lcore which received them is to send. A cache line, as all of which much crosses.
#[derive(Debug)]
#[repr(align(64))]
pub(super) struct TxGrant<F> {
    pub staged: Staged,
    pub frames: GrantFrames<F>,
}

/// Where the frames of a grant are.
#[derive(Debug)]
pub(super) enum GrantFrames<F> {
    /// In the buffer they came in.
    Buffer(BatchBuffer<F>),
    /// In the next lines, so many.
    Lines(u8),
}

/// What else the owner of a port says to an lcore whose frames it was given.
#[derive(Debug)]
pub(super) enum Note<F> {
    /// Your buffer, empty.
    Empty(BatchBuffer<F>),
    /// Frames can leave by this port, or not: then what was granted for it is to be dropped.
    Link(PortId, PortStatus),
    /// Of a frame that may be followed, and whose grant comes next.
    Taken(Taken),
}

/// What became of frames that another lcore was granted to send.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
pub(super) struct TxCompletion {
    pub staged: Staged,
    pub outcome: TxOutcome,
}

/// See [`TxCompletion`].
#[derive(Clone, Copy, Debug)]
pub(super) enum TxOutcome {
    /// Sent, and when.
    Sent(Nanos),
    /// Lost, and why.
    Lost(DropReason),
}

/// One end of a direction and one of the other: a ring, and what is to go into it.
///
/// Entries wait in `pending` first and are put into the ring together: its slots are in the cache of the
/// lcore that reads it, so that each store to one is a coherence miss, which later loads of the same core wait behind.
/// Entries that do not fit wait in `pending`, in order.
#[derive(Debug)]
pub(super) struct Channel<T> {
    to: Producer<T>,
    from: Consumer<T>,
    pending: VecDeque<T>,
    /// How much [`Channel::send`] lets wait when the ring is full.
    most_waiting: usize,
}

impl<T> Channel<T> {
    /// Queues an entry, which the reader finds after the next [`Channel::flush`].
    ///
    /// # Errors
    /// The entry, when as many wait as ever may.
    #[inline(always)]
    pub fn send(&mut self, what: T) -> Result<(), T> {
        if self.pending.len() >= self.most_waiting && self.is_full() {
            return Err(what);
        }
        self.queue(what);
        Ok(())
    }

    /// The same where what may wait is bounded by something else.
    #[inline(always)]
    pub fn queue(&mut self, what: T) {
        self.pending.push_back(what);
    }

    #[cold]
    fn is_full(&self) -> bool {
        self.pending.len() >= self.most_waiting + self.to.slots()
    }

    /// Moves pending entries into the ring, as many as there is room for.
    #[inline(always)]
    pub fn flush(&mut self) {
        if !self.pending.is_empty() {
            self.flush_some();
        }
    }

    fn flush_some(&mut self) {
        let mut count = self.pending.len();
        if self.to.write_chunk_uninit(count).is_err() {
            // Meanwhile there may be room for all of it, and for more.
            count = count.min(self.to.slots());
        }
        if let Ok(places) = self.to.write_chunk_uninit(count) {
            places.fill_from_iter(self.pending.drain(..count));
        }
        if self.pending.is_empty() {
            // Reset to slot 0: keeps the buffer cache-hot.
            self.pending.clear();
        }
    }

    #[inline(always)]
    pub fn pop(&mut self) -> Option<T> {
        self.from.pop().ok()
    }

    /// Takes the first of `count` available entries, up to one that `may` says no to, or whoever iterates leaves.
    #[inline(always)]
    pub fn take_while(&mut self, count: usize, mut may: impl FnMut(&T) -> bool) -> impl Iterator<Item = T> {
        let chunk = self.from.read_chunk(count).ok();
        let most = chunk.as_ref().map_or(0, |chunk| {
            let (first, rest) = chunk.as_slices();
            first.iter().chain(rest).take_while(|entry| may(entry)).count()
        });
        chunk.into_iter().flatten().take(most)
    }

    /// Looks at the first `count` available entries, where they are, and takes them.
    #[inline(always)]
    pub fn drain(&mut self, count: usize, look: impl FnMut(&T)) {
        if let Ok(chunk) = self.from.read_chunk(count) {
            let (first, rest) = chunk.as_slices();
            first.iter().chain(rest).for_each(look);
            chunk.commit_all();
        }
    }

    /// Entries that can be read.
    #[inline(always)]
    pub fn available(&self) -> usize {
        self.from.slots()
    }

    /// Prefetches the first `most` available entries.
    #[inline(always)]
    pub fn prefetch(&mut self, most: usize, prefetch: impl Fn(&T)) {
        if let Ok(available) = self.from.read_chunk(most) {
            let (first, rest) = available.as_slices();
            first.iter().chain(rest).for_each(prefetch);
        }
    }

    /// What is on its way here, and what waits to be sent.
    pub fn len(&self) -> usize {
        self.from.slots() + self.pending.len()
    }
}

/// The ends a shard holds towards one other shard.
#[derive(Debug)]
pub struct Peer<F> {
    pub(super) requests: Channel<EnqueueRequest<F>>,
    pub(super) grants: Channel<TxGrant<F>>,
    /// Frames of grants that name no buffer.
    pub(super) loose: Channel<FrameLine<F>>,
    pub(super) completions: Channel<TxCompletion>,
    pub(super) notes: Channel<Note<F>>,
    pub(super) news_to: Producer<FdbEvent>,
    pub(super) news_from: Consumer<FdbEvent>,
}

impl<F> Peer<F> {
    /// Makes pending entries available to the other shard.
    #[inline(always)]
    pub(super) fn flush(&mut self) {
        self.requests.flush();
        // A note about a frame comes before its grant, and so does the frame, if there is room for it.
        self.notes.flush();
        self.loose.flush();
        self.grants.flush();
        self.completions.flush();
    }
}

impl<F: Frame> Peer<F> {
    /// Grants frames without a buffer, together with those that were granted last if these are of the same kind:
    /// at most a batch.
    #[inline(always)]
    pub(super) fn grant_loose(&mut self, staged: Staged, frames: &mut ArrayVec<F, BATCH_MAX>) {
        let pending = &mut self.loose.pending;
        match self.grants.pending.back_mut() {
            Some(TxGrant { staged: last, frames: GrantFrames::Lines(lines) })
                if staged.continues(last)
                    && (last.totals.frames + staged.totals.frames) as usize <= BATCH_MAX =>
            {
                last.totals.add(staged.totals);
                if let Some(line) = pending.back_mut() {
                    line.extend(frames.drain(..line.remaining_capacity().min(frames.len())));
                }
                *lines += put_in_lines(frames, pending);
            }
            _ => {
                let frames = GrantFrames::Lines(put_in_lines(frames, pending));
                self.grants.queue(TxGrant { staged, frames });
            }
        }
    }
}

/// Moves frames behind those of `to`; how many lines they take.
#[inline(always)]
fn put_in_lines<F: Frame>(frames: &mut ArrayVec<F, BATCH_MAX>, to: &mut VecDeque<FrameLine<F>>) -> u8 {
    let mut lines = 0;
    while !frames.is_empty() {
        let mut line = FrameLine::new();
        if frames.len() <= LINE {
            F::append(frames, &mut line);
        } else {
            line.extend(frames.drain(..LINE));
        }
        to.push_back(line);
        lines += 1;
    }
    lines
}

/// Both ends of a pair of rings with `ring` places, for which `waiting` may wait: memory is reserved for these here, and
/// touched when it is needed.
fn channel<T>(ring: usize, waiting: usize) -> (Channel<T>, Channel<T>) {
    let (to_b, from_a) = RingBuffer::new(ring);
    let (to_a, from_b) = RingBuffer::new(ring);
    let pending = || VecDeque::with_capacity(ring + waiting);
    let end = |to, from| Channel { to, from, pending: pending(), most_waiting: waiting };
    (end(to_b, from_b), end(to_a, from_a))
}

/// The rings between `shards` shards, with room for a request for each of `frames` frames, of which `in_flight` may be granted:
/// element `[a][b]` is what `a` holds towards `b`; `None` towards itself.
#[allow(clippy::needless_range_loop, reason = "two rows are filled at once")]
pub fn peers<F>(shards: usize, frames: usize, in_flight: usize) -> Vec<Vec<Option<Peer<F>>>> {
    let mut all: Vec<Vec<Option<Peer<F>>>> =
        (0..shards).map(|_| (0..shards).map(|_| None).collect()).collect();
    for a in 0..shards {
        for b in a + 1..shards {
            let ring = RING.min(frames);
            let (requests_a, requests_b) = channel(ring, frames - ring);
            // These are bounded by what was granted and is not yet completed.
            let (grants_a, grants_b) = channel(RING, in_flight);
            let (loose_a, loose_b) = channel(LINES, in_flight);
            let (completions_a, completions_b) = channel(RING, in_flight);
            let (notes_a, notes_b) = channel(RING, in_flight);
            let (news_ab, news_from_a) = RingBuffer::new(NEWS);
            let (news_ba, news_from_b) = RingBuffer::new(NEWS);
            all[a][b] = Some(Peer {
                requests: requests_a,
                grants: grants_a,
                loose: loose_a,
                completions: completions_a,
                notes: notes_a,
                news_to: news_ab,
                news_from: news_from_b,
            });
            all[b][a] = Some(Peer {
                requests: requests_b,
                grants: grants_b,
                loose: loose_b,
                completions: completions_b,
                notes: notes_b,
                news_to: news_ba,
                news_from: news_from_a,
            });
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::OwnedFrame;

    #[test]
    fn grants_completions_and_lines_are_a_cache_line_each() {
        assert_eq!((size_of::<TxGrant<OwnedFrame>>(), size_of::<TxCompletion>()), (64, 64));
        assert_eq!(size_of::<FrameLine<OwnedFrame>>(), 64);
    }

    #[test]
    fn entries_that_do_not_fit_wait_in_order_and_no_more_than_was_agreed() {
        let (mut a, mut b) = channel(2, 3);
        let pending: Vec<_> = (0..7).map(|n| a.send(n)).collect();
        assert_eq!(pending, [Ok(()), Ok(()), Ok(()), Ok(()), Ok(()), Err(5), Err(6)]);
        assert_eq!(b.available(), 0);
        a.flush();
        assert_eq!((a.len(), b.len(), b.available()), (3, 2, 2));
        assert_eq!((b.pop(), a.send(7), a.send(8)), (Some(0), Ok(()), Err(8)));
        let mut seen = Vec::new();
        for _ in 0..4 {
            a.flush();
            b.drain(b.available(), |n| seen.push(*n));
        }
        assert_eq!((seen, a.len() + b.len()), (vec![1, 2, 3, 4, 7], 0));
    }

    #[test]
    fn a_ring_that_is_emptied_while_it_is_filled_loses_nothing() {
        const ALL: u32 = if cfg!(miri) { 300 } else { 300_000 };
        let (mut a, mut b) = channel(8, ALL as usize);
        let reader = std::thread::spawn(move || {
            let mut next = 0;
            while next < ALL {
                b.drain(b.available(), |n| {
                    assert_eq!(*n, next);
                    next += 1;
                });
                std::thread::yield_now();
            }
        });
        for n in 0..ALL {
            assert_eq!(a.send(n), Ok(()));
            a.flush();
        }
        while a.len() > 0 {
            a.flush();
            std::thread::yield_now();
        }
        reader.join().unwrap();
    }
}
