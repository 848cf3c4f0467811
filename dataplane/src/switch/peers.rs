//! What crosses between lcores, in single-producer single-consumer rings: tickets for frames of another lcore's ports,
//! orders to send frames that came from there, reports of what became of them, and news for the forwarding table.
//!
//! ```text
//! lcore that received a frame            lcore that owns its egress port
//!   charges the priority group  -- ticket -->  charges the queue, schedules
//!   sends, releases the group   <-- order --
//!                               -- report -->  counts, releases the queue
//! ```
//!
//! A ticket and an order name frames whose memory the owner of the port does not touch. Where a device has not a
//! transmit queue for each lcore there are no orders: the owner takes the frames, and sends them itself.

use super::stage::Staged;
use super::tap::Taken;
use crate::drops::DropReason;
use crate::egress::{PACK, Parcel, Ticket};
use crate::fdb::FdbEvent;
use crate::types::{BURST, Nanos, PortId};
use rtrb::{Consumer, Producer, RingBuffer};
use std::collections::VecDeque;

/// Places of a ring: for what two bursts are if each frame goes by itself, and few enough to stay in a near cache.
const RING: usize = 2 * BURST;

/// News that wait at most, per direction.
const NEWS: usize = 1024;

/// Frames that the lcore which received them is to send. A cache line, as all of which much crosses.
#[derive(Debug)]
#[repr(align(64))]
pub(super) struct Order<F> {
    pub staged: Staged,
    /// Their box; `None`: they are the next of those that come loose.
    pub parcel: Option<Parcel<F>>,
}

/// What else the owner of a port says to an lcore whose frames it was given.
#[derive(Debug)]
pub(super) enum Note<F> {
    /// Your box, empty.
    Empty(Parcel<F>),
    /// The link of this port is up, or down: what was ordered for it is to be dropped.
    Link(PortId, bool),
    /// Of a frame that may be followed, and whose order comes next.
    Taken(Taken),
}

/// What became of frames that were ordered to be sent.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
pub(super) struct Report {
    pub staged: Staged,
    pub fate: Fate,
}

/// See [`Report`].
#[derive(Clone, Copy, Debug)]
pub(super) enum Fate {
    /// Sent, and when.
    Sent(Nanos),
    /// Lost, and why.
    Lost(DropReason),
}

/// One end of a direction and one of the other: a ring, and what is to go into it.
///
/// What is said is written down first and put into the ring together: places of the ring are in the cache of the
/// lcore that reads it, and a core waits for them with whatever it was about to read of its own recent writes.
#[derive(Debug)]
pub(super) struct Link<T> {
    to: Producer<T>,
    from: Consumer<T>,
    said: VecDeque<T>,
    /// How much [`Link::say`] lets wait when the ring is full.
    most_waiting: usize,
}

impl<T> Link<T> {
    /// Says something, which is heard after the next [`Link::flush`].
    ///
    /// # Errors
    /// What was to be said, when as much waits as ever may.
    #[inline(always)]
    pub fn say(&mut self, what: T) -> Result<(), T> {
        if self.said.len() >= self.most_waiting && self.is_full() {
            return Err(what);
        }
        self.put(what);
        Ok(())
    }

    /// The same where what may wait is bounded by something else.
    #[inline(always)]
    pub fn put(&mut self, what: T) {
        self.said.push_back(what);
    }

    #[cold]
    fn is_full(&self) -> bool {
        self.said.len() >= self.most_waiting + self.to.slots()
    }

    /// Puts what was said into the ring, as much as there is room for.
    #[inline(always)]
    pub fn flush(&mut self) {
        if !self.said.is_empty() {
            self.flush_some();
        }
    }

    fn flush_some(&mut self) {
        let mut count = self.said.len();
        if self.to.write_chunk_uninit(count).is_err() {
            // Meanwhile there may be room for all of it, and for more.
            count = count.min(self.to.slots());
        }
        if let Ok(places) = self.to.write_chunk_uninit(count) {
            places.fill_from_iter(self.said.drain(..count));
        }
        if self.said.is_empty() {
            // It begins at its beginning again, which is in a near cache.
            self.said.clear();
        }
    }

    #[inline(always)]
    pub fn pop(&mut self) -> Option<T> {
        self.from.pop().ok()
    }

    /// The first of those that have come, where it is.
    #[inline(always)]
    pub fn peek(&self) -> Option<&T> {
        self.from.peek().ok()
    }

    /// Moves the first `count` of those that have come behind those of `to`. `false`: there are not as many yet.
    #[inline(always)]
    pub fn take(&mut self, count: usize, to: &mut VecDeque<T>) -> bool {
        let come = self.from.read_chunk(count);
        come.map(|chunk| to.extend(chunk)).is_ok()
    }

    /// Looks at the first `count` of those that have come, where they are, and takes them.
    #[inline(always)]
    pub fn drain(&mut self, count: usize, look: impl FnMut(&T)) {
        if let Ok(chunk) = self.from.read_chunk(count) {
            let (first, rest) = chunk.as_slices();
            first.iter().chain(rest).for_each(look);
            chunk.commit_all();
        }
    }

    /// How many have come.
    #[inline(always)]
    pub fn come(&self) -> usize {
        self.from.slots()
    }

    /// Asks for the first `most` of those that have come.
    #[inline(always)]
    pub fn ask(&mut self, most: usize, ask: impl Fn(&T)) {
        if let Ok(come) = self.from.read_chunk(most) {
            let (first, rest) = come.as_slices();
            first.iter().chain(rest).for_each(ask);
        }
    }

    /// What is on its way here, and what waits to be sent.
    pub fn len(&self) -> usize {
        self.from.slots() + self.said.len()
    }
}

/// The ends a shard holds towards one other shard.
#[derive(Debug)]
pub struct Peer<F> {
    pub(super) tickets: Link<Ticket<F>>,
    pub(super) orders: Link<Order<F>>,
    /// Frames of orders that name no box.
    pub(super) loose: Link<F>,
    pub(super) reports: Link<Report>,
    pub(super) notes: Link<Note<F>>,
    pub(super) news_to: Producer<FdbEvent>,
    pub(super) news_from: Consumer<FdbEvent>,
}

impl<F> Peer<F> {
    /// Lets the other one hear what was said.
    #[inline(always)]
    pub(super) fn flush(&mut self) {
        self.tickets.flush();
        // What is said of a frame comes before its order, and so does the frame, if there is room for it.
        self.notes.flush();
        self.loose.flush();
        self.orders.flush();
        self.reports.flush();
    }

    /// Orders frames without a box to be sent, together with those that were ordered last if these are of the same kind:
    /// at most a pack, which finds room in a ring.
    #[inline(always)]
    pub(super) fn order_loose(&mut self, staged: Staged, frames: impl Iterator<Item = F>) {
        self.loose.said.extend(frames);
        match self.orders.said.back_mut() {
            Some(Order { staged: last, parcel: None })
                if staged.continues(last) && (last.sums.frames + staged.sums.frames) as usize <= PACK =>
            {
                last.sums.add(staged.sums);
            }
            _ => self.orders.put(Order { staged, parcel: None }),
        }
    }
}

/// Both ends of a pair of rings with `ring` places, for which `waiting` may wait: memory is reserved for these here, and
/// touched when it is needed.
fn link<T>(ring: usize, waiting: usize) -> (Link<T>, Link<T>) {
    let (to_b, from_a) = RingBuffer::new(ring);
    let (to_a, from_b) = RingBuffer::new(ring);
    let said = || VecDeque::with_capacity(ring + waiting);
    let end = |to, from| Link { to, from, said: said(), most_waiting: waiting };
    (end(to_b, from_b), end(to_a, from_a))
}

/// The rings between `shards` shards, with room for a ticket for each of `frames` frames, of which `away` may be on order:
/// element `[a][b]` is what `a` holds towards `b`; `None` towards itself.
#[allow(clippy::needless_range_loop, reason = "two rows are filled at once")]
pub fn peers<F>(shards: usize, frames: usize, away: usize) -> Vec<Vec<Option<Peer<F>>>> {
    let mut all: Vec<Vec<Option<Peer<F>>>> =
        (0..shards).map(|_| (0..shards).map(|_| None).collect()).collect();
    for a in 0..shards {
        for b in a + 1..shards {
            let ring = RING.min(frames);
            let (tickets_a, tickets_b) = link(ring, frames - ring);
            // These are bounded by what was ordered and is not yet reported.
            let (orders_a, orders_b) = link(RING, away);
            let (loose_a, loose_b) = link(RING, away);
            let (reports_a, reports_b) = link(RING, away);
            let (notes_a, notes_b) = link(RING, away);
            let (news_ab, news_from_a) = RingBuffer::new(NEWS);
            let (news_ba, news_from_b) = RingBuffer::new(NEWS);
            all[a][b] = Some(Peer {
                tickets: tickets_a,
                orders: orders_a,
                loose: loose_a,
                reports: reports_a,
                notes: notes_a,
                news_to: news_ab,
                news_from: news_from_b,
            });
            all[b][a] = Some(Peer {
                tickets: tickets_b,
                orders: orders_b,
                loose: loose_b,
                reports: reports_b,
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
    fn orders_and_reports_are_a_cache_line_each() {
        assert_eq!((size_of::<Order<OwnedFrame>>(), size_of::<Report>()), (64, 64));
    }

    #[test]
    fn what_finds_the_ring_full_comes_behind_it_and_no_more_than_was_agreed() {
        let (mut a, mut b) = link(2, 3);
        let said: Vec<_> = (0..7).map(|n| a.say(n)).collect();
        assert_eq!(said, [Ok(()), Ok(()), Ok(()), Ok(()), Ok(()), Err(5), Err(6)]);
        assert_eq!(b.come(), 0);
        a.flush();
        assert_eq!((a.len(), b.len(), b.come()), (3, 2, 2));
        assert_eq!((b.pop(), a.say(7), a.say(8)), (Some(0), Ok(()), Err(8)));
        let mut seen = Vec::new();
        for _ in 0..4 {
            a.flush();
            b.drain(b.come(), |n| seen.push(*n));
        }
        assert_eq!((seen, a.len() + b.len()), (vec![1, 2, 3, 4, 7], 0));
    }

    #[test]
    fn a_ring_that_is_emptied_while_it_is_filled_loses_nothing() {
        const ALL: u32 = 300_000;
        let (mut a, mut b) = link(8, ALL as usize);
        let reader = std::thread::spawn(move || {
            let mut next = 0;
            while next < ALL {
                b.drain(b.come(), |n| {
                    assert_eq!(*n, next);
                    next += 1;
                });
                std::thread::yield_now();
            }
        });
        for n in 0..ALL {
            assert_eq!(a.say(n), Ok(()));
            a.flush();
        }
        while a.len() > 0 {
            a.flush();
            std::thread::yield_now();
        }
        reader.join().unwrap();
    }
}
