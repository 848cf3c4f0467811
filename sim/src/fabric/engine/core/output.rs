//! The end of a crossbar: what has crossed waits for its line in a queue for each class.
//!
//! Every queue has room of its own, so a class that the peer has paused takes none from others. A crossbar may be faster than the line
//! or not, so the schedule of the port is kept twice: by what crosses, and by what the line sends of what has crossed.

use crate::crossbar::ClassOrder;
use crate::fabric::sim_frame::SimFrame;
use std::collections::VecDeque;
use weir_dataplane::egress::{Discipline, QueueSchedule, Scheduler};
use weir_dataplane::frame::Frame;
use weir_dataplane::types::{Nanos, PRIORITIES, wire_bytes};

/// What waits at an output for its line, and whose turn it is to cross and to be sent.
pub(super) struct Output {
    /// What has crossed, by queue.
    ready: [VecDeque<SimFrame>; PRIORITIES],
    /// The same in bytes, with what is on its way.
    bytes: [u64; PRIORITIES],
    crossing: Scheduler,
    line: Scheduler,
    /// By queue: how an input values a grant; 0 of weighted queues.
    ranks: [u8; PRIORITIES],
    /// Queues that asked in the last slot, a bit each.
    asked: u8,
}

impl Output {
    pub fn new(queues: &[QueueSchedule; PRIORITIES]) -> Self {
        // What the line holds back crosses no more when its room is full.
        let unlimited = queues.map(|queue| QueueSchedule { pir: None, ..queue });
        let rank = |queue: QueueSchedule| match queue.discipline {
            Discipline::Strict => queue.level.saturating_add(1),
            Discipline::Dwrr(_) | Discipline::Wrr(_) => 0,
        };
        Self {
            ready: Default::default(),
            bytes: [0; PRIORITIES],
            crossing: Scheduler::new(&unlimited, 0),
            line: Scheduler::new(queues, 0),
            ranks: queues.map(rank),
            asked: 0,
        }
    }

    /// Bytes that have left the inputs and not yet the switch.
    pub fn bytes(&self) -> u64 {
        self.bytes.iter().sum()
    }

    /// Queues that hold less than so many bytes, a bit each.
    pub fn roomy(&self, room: u64) -> u8 {
        set(|queue| self.bytes[queue] < room)
    }

    /// Queues of which something has crossed, a bit each.
    fn ready(&self) -> u8 {
        set(|queue| !self.ready[queue].is_empty())
    }

    /// These queues ask in a slot: those that did not before have no credit for that time.
    pub fn ask(&mut self, queues: u8, now: Nanos) {
        self.crossing.refill(now);
        let fresh = queues & !self.asked;
        (0..PRIORITIES).filter(|queue| fresh >> queue & 1 == 1).for_each(|queue| self.crossing.wake(queue));
        self.asked = queues;
    }

    /// A frame of so many bytes has left its input.
    pub fn expect(&mut self, queue: usize, bytes: u64) {
        self.bytes[queue] += bytes;
    }

    /// So much of a queue crosses, in bytes of the wire.
    pub fn charge(&mut self, queue: usize, frames: u64, wire: u64) {
        self.crossing.sent(queue, frames, wire, wire);
    }

    /// A frame has crossed.
    pub fn land(&mut self, queue: usize, frame: SimFrame) {
        if self.ready[queue].is_empty() {
            self.line.wake(queue);
        }
        self.ready[queue].push_back(frame);
    }

    /// When there is something for the line, of the queues that are not `paused`: in the past, if it is there now.
    pub fn next_at(&self, paused: u8) -> Option<Nanos> {
        self.line.open_at(self.ready() & !paused)
    }

    /// The next frame for the line, of the queues that are not `paused`.
    pub fn next_frame(&mut self, paused: u8, now: Nanos) -> Option<SimFrame> {
        self.line.refill(now);
        let queue = self.line.pick(self.ready() & !paused)?.queue;
        let frame = self.ready[queue].pop_front()?;
        let bytes = frame.len() as u64;
        self.bytes[queue] -= bytes;
        self.line.sent(queue, 1, wire_bytes(bytes), wire_bytes(bytes));
        Some(frame)
    }
}

/// Queues of which this is so, a bit each.
fn set(of: impl Fn(usize) -> bool) -> u8 {
    (0..PRIORITIES).fold(0, |set, queue| set | u8::from(of(queue)) << queue)
}

impl ClassOrder for Vec<Output> {
    fn serve(&mut self, output: usize, asking: u8) -> usize {
        self[output].crossing.pick(asking).map_or(0, |pick| pick.queue)
    }

    fn rank(&self, output: usize, class: usize) -> u8 {
        self[output].ranks[class]
    }

    /// What is sent is counted when it is known how much.
    fn matched(&mut self, _: usize, _: usize) {}
}
