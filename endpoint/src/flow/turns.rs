//! Whose turn it is of many senders behind one link: those whose time has come, one after the other, found without asking the others.

use super::sender::Due;
use crate::timetable::Timetable;
use std::ops::Range;
use weir_dataplane::pfc::NEVER;
use weir_dataplane::types::Nanos;

/// Senders that are not done, in the order of their turns.
#[derive(Debug, Default)]
pub(super) struct Turns {
    /// The sender at each place; `None`: it is done.
    senders: Vec<Option<u32>>,
    /// The place of each sender, also of one that is done.
    places: Vec<u32>,
    /// Those of which something has changed since they said when they are due.
    changed: Vec<u32>,
    /// Place after the sender that sent last.
    next: usize,
    times: Timetable,
}

impl Turns {
    /// A sender that has something to do: its turn is at the end of the round that is under way, as in the published simulator. Those
    /// that have had their turn in this round wait for it.
    pub fn join(&mut self, sender: u32) {
        if self.senders.len() == self.times.room() {
            self.make_room();
        }
        if self.places.len() <= sender as usize {
            self.places.resize(sender as usize + 1, 0);
        }
        self.places[sender as usize] = self.senders.len() as u32;
        self.senders.push(Some(sender));
        self.changed.push(sender);
    }

    /// Closes up, and makes room for as many again.
    fn make_room(&mut self) {
        let kept = |place: &usize| self.senders[*place].is_some();
        let kept: Vec<usize> = (0..self.senders.len()).filter(kept).collect();
        self.times.keep(&kept, (2 * kept.len()).max(1));
        self.next = kept.partition_point(|place| *place < self.next);
        self.senders = kept.iter().map(|place| self.senders[*place]).collect();
        for (place, sender) in self.senders.iter().enumerate() {
            sender.iter().for_each(|sender| self.places[*sender as usize] = place as u32);
        }
    }

    /// A sender has nothing more to do, or never had.
    pub fn retire(&mut self, sender: u32, priority: u8) {
        if !self.has(sender) {
            return;
        }
        let place = self.places[sender as usize] as usize;
        self.senders[place] = None;
        self.times.set(place, priority, NEVER, NEVER);
    }

    /// It is not done.
    pub fn has(&self, sender: u32) -> bool {
        let place = self.places.get(sender as usize).map(|place| *place as usize);
        place.and_then(|place| self.senders.get(place)) == Some(&Some(sender))
    }

    /// Something has changed of a sender.
    #[inline]
    pub fn change(&mut self, sender: u32) {
        if self.changed.last() != Some(&sender) {
            self.changed.push(sender);
        }
    }

    /// One of which something has changed, if it is not done: [`Turns::expect`] is to be told.
    #[inline]
    pub fn take_changed(&mut self) -> Option<u32> {
        loop {
            let sender = self.changed.pop()?;
            if self.has(sender) {
                return Some(sender);
            }
        }
    }

    /// A sender of that priority is due then.
    #[inline]
    pub fn expect(&mut self, sender: u32, priority: u8, due: &Due) {
        self.times.set(self.places[sender as usize] as usize, priority, due.frame, due.timer);
    }

    /// Where the search for the next turn begins.
    pub fn begin(&self) -> usize {
        self.next
    }

    /// The first place of these whose frame is due, of a priority that is not in `held`, or whose timers are; and who is there.
    pub fn first(&self, places: Range<usize>, held: u8, now: Nanos) -> Option<(usize, u32)> {
        let place = self.times.first(places, held, now)?;
        Some((place, self.senders.get(place).copied().flatten()?))
    }

    /// All of them, in the order of their turns.
    pub fn in_order(&self) -> impl Iterator<Item = u32> {
        let (before, from) = self.senders.split_at(self.next.min(self.senders.len()));
        from.iter().chain(before).flatten().copied()
    }

    /// The one at this place has sent.
    pub fn sent(&mut self, place: usize) {
        self.next = place + 1;
    }

    /// When the first of them has something to do, if those of priorities in `held` may not send before `resume`.
    #[inline]
    pub fn due(&self, held: u8, resume: Nanos) -> Nanos {
        self.times.due(held, resume)
    }
}
