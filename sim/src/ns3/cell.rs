//! One small record for everything that waits: frames on a wire, frames in a queue, timers.
//!
//! Records live in one [`Slab`] and move between lists by index, so a frame is written once when it
//! is sent and never copied on its way.
use weir_dataplane::types::Nanos;

/// No record.
pub const NIL: u32 = u32::MAX;

/// What a record is, and thereby what happens when its time comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Payload of a flow from byte `psn`, on its way to its receiver.
    Data,
    /// Everything below byte `psn` has arrived.
    Ack,
    /// As `Ack`, and the sender shall go back to `psn`.
    Nack,
    /// PFC: stop a priority.
    Pause,
    /// PFC: a priority may go on.
    Resume,
    /// A port has finished a transmission.
    Free,
    /// A paced host looks for a flow whose time has come.
    Wake,
    /// DCQCN timers of a flow, in the order of their numbers.
    Alpha,
    /// See [`Kind::Alpha`].
    Decrease,
    /// See [`Kind::Alpha`].
    Increase,
    /// The next flows of the list are due to start.
    Release,
    /// The flows `flow` up to, not including, `psn` are about to start.
    Begin,
    /// A flow starts.
    Start,
    /// The recorder takes a sample.
    Sample,
}

/// A record.
#[derive(Clone, Copy, Debug)]
pub struct Cell {
    /// Next in the list this record is part of.
    pub next: u32,
    /// Port where a frame arrives or which is free; host, or flow of a timer.
    pub target: u32,
    /// Flow of a frame.
    pub flow: u32,
    /// Byte position of a frame in its flow.
    pub psn: u32,
    /// Bytes on the wire.
    pub bytes: u16,
    /// Local index of the port by which a queued frame entered the switch.
    pub in_port: u16,
    /// What this is.
    pub kind: Kind,
    /// Priority of a frame; the paused priority of a PFC frame.
    pub prio: u8,
    /// Congestion experienced (data); congestion seen by the receiver (ACK, NACK).
    pub marked: bool,
}

impl Cell {
    /// A record that is no frame.
    pub fn event(kind: Kind, target: u32) -> Self {
        Self { next: NIL, target, flow: 0, psn: 0, bytes: 0, in_port: 0, kind, prio: 0, marked: false }
    }
}

/// A queue of records, first in first out: the index of the last one, whose `next` is the first.
#[derive(Clone, Copy, Debug)]
pub struct List {
    tail: u32,
}

impl Default for List {
    fn default() -> Self {
        Self { tail: NIL }
    }
}

impl List {
    /// Nothing waits here.
    #[inline]
    pub fn is_empty(self) -> bool {
        self.tail == NIL
    }
}

/// All records of one simulation; freed ones are used again, last freed first.
#[derive(Debug, Default)]
pub struct Slab {
    cells: Vec<Cell>,
    spare: Vec<u32>,
}

impl Slab {
    /// Stores `cell` and returns its index.
    #[inline]
    pub fn alloc(&mut self, cell: Cell) -> u32 {
        if let Some(index) = self.spare.pop() {
            self.cells[index as usize] = cell;
            return index;
        }
        self.grow(cell)
    }

    #[cold]
    fn grow(&mut self, cell: Cell) -> u32 {
        let index = u32::try_from(self.cells.len()).expect("fewer than 2^32 records");
        self.cells.push(cell);
        index
    }

    /// Gives a record back.
    #[inline]
    pub fn release(&mut self, index: u32) {
        self.spare.push(index);
    }

    /// The record at `index`.
    #[inline]
    pub fn get(&self, index: u32) -> &Cell {
        &self.cells[index as usize]
    }

    /// The record at `index`, to be changed.
    #[inline]
    pub fn get_mut(&mut self, index: u32) -> &mut Cell {
        &mut self.cells[index as usize]
    }

    /// The records of a list, the last one first, then from the first one on.
    pub fn iter(&self, list: List) -> impl Iterator<Item = &Cell> {
        let at = |index: u32| (index != NIL).then(|| (index, self.get(index)));
        let next = move |(_, cell): &(u32, &Cell)| at(cell.next).filter(|(index, _)| *index != list.tail);
        std::iter::successors(at(list.tail), next).map(|(_, cell)| cell)
    }

    /// Appends a record.
    #[inline]
    pub fn push(&mut self, list: &mut List, index: u32) {
        let first = match list.tail {
            NIL => index,
            tail => std::mem::replace(&mut self.get_mut(tail).next, index),
        };
        self.get_mut(index).next = first;
        list.tail = index;
    }

    /// Removes the first record of a list that is not empty.
    #[inline]
    pub fn pop(&mut self, list: &mut List) -> u32 {
        let tail = list.tail;
        let first = self.get(tail).next;
        if first == tail {
            list.tail = NIL;
        } else {
            self.get_mut(tail).next = self.get(first).next;
        }
        first
    }
}

/// When something runs: first by time, then by rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Key {
    /// Absolute time.
    pub at: Nanos,
    /// Rank among equal times; 0 is before everything.
    pub rank: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn freed_records_are_used_again() {
        let mut slab = Slab::default();
        let first = slab.alloc(Cell::event(Kind::Wake, 1));
        slab.release(first);
        assert_eq!(slab.alloc(Cell::event(Kind::Wake, 2)), first);
        assert_eq!(std::mem::size_of::<Cell>(), 24);
    }
}
