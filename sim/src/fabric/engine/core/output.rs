//! The end of a crossbar: what has crossed waits for its line in a queue for each class.
//!
//! An output knows how much waits for its line wherever that is, which is the depth that frames are marked by, and whether it has come
//! to a stop, which is what a watchdog looks for.
//! Every queue has room of its own, so a class that the peer has paused takes none from others. A crossbar may be faster than the line
//! or not, so the schedule of the port is kept twice: by what crosses, and by what the line sends of what has crossed.

use crate::crossbar::ClassOrder;
use crate::fabric::sim_frame::SimFrame;
use std::collections::VecDeque;
use weir_dataplane::egress::{Discipline, QueueSchedule, Scheduler};
use weir_dataplane::frame::Frame;
use weir_dataplane::pfc::react::Reaction;
use weir_dataplane::pfc::watchdog::{Observation, Watchdog};
use weir_dataplane::switch::Dequeued;
use weir_dataplane::types::{Nanos, PRIORITIES, wire_bytes};

/// What waits for the line of an output, and whose turn it is to cross and to be sent.
pub(super) struct Output {
    /// What has crossed, by queue.
    ready: [VecDeque<Dequeued<SimFrame>>; PRIORITIES],
    /// Bytes that wait for the line by queue, at inputs, on their way and here.
    waiting: [u64; PRIORITIES],
    /// Those of them that have left their input.
    left: [u64; PRIORITIES],
    /// Since when some have, ns, and frames that the line has sent, by queue.
    since: [Nanos; PRIORITIES],
    sent: [u64; PRIORITIES],
    pub watchdog: Option<Box<Watchdog>>,
    crossing: Scheduler,
    line: Scheduler,
    /// By queue: how an input values a grant; 0 of weighted queues.
    ranks: [u8; PRIORITIES],
    /// Queues that asked in the last slot, a bit each.
    asked: u8,
    /// Queues in a storm whose frames are dropped, a bit each.
    dropping: u8,
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
            waiting: [0; PRIORITIES],
            left: [0; PRIORITIES],
            since: [0; PRIORITIES],
            sent: [0; PRIORITIES],
            watchdog: None,
            crossing: Scheduler::new(&unlimited, 0),
            line: Scheduler::new(queues, 0),
            ranks: queues.map(rank),
            asked: 0,
            dropping: 0,
        }
    }

    /// Bytes that wait for the line, by queue.
    pub fn waiting(&self) -> &[u64; PRIORITIES] {
        &self.waiting
    }

    /// Those of them that have left their input.
    pub fn left(&self) -> u64 {
        self.left.iter().sum()
    }

    /// So many bytes of a queue have come to an input.
    pub fn expect(&mut self, queue: usize, bytes: u64, now: Nanos) {
        if self.waiting[queue] == 0 {
            self.since[queue] = now;
        }
        self.waiting[queue] += bytes;
    }

    /// Inputs hold so many bytes by queue, after some may have been dropped there.
    pub fn recount(&mut self, at_inputs: [u64; PRIORITIES]) {
        self.waiting = std::array::from_fn(|queue| self.left[queue] + at_inputs[queue]);
    }

    /// What the watchdog does if it looks now: queues whose frames it drops, and queues whose pauses it does not obey, a bit each.
    pub fn watch(&mut self, pauses: &Reaction, now: Nanos) -> Option<[u8; 2]> {
        let Self { watchdog, waiting, since, sent, .. } = self;
        let watchdog = watchdog.as_mut().filter(|watchdog| now >= watchdog.next_poll())?;
        watchdog.poll(now, |queue| Observation {
            backlog: waiting[queue],
            departures: sent[queue],
            // Of a queue that was stopped since a pause began the first frame came before that, or when there was none.
            head_since: since[queue],
            paused_since: pauses.queue_paused_since(queue, now),
            last_pfc: pauses.queue_last_frame(queue),
        });
        self.dropping = watchdog.drop_queues();
        Some([self.dropping, watchdog.forward_queues()])
    }

    /// Takes what has crossed of queues in a storm, to be dropped.
    pub fn condemned(&mut self) -> Vec<Dequeued<SimFrame>> {
        let mut all = Vec::new();
        for queue in (0..PRIORITIES).filter(|queue| self.dropping >> queue & 1 == 1) {
            let bytes: u64 = self.ready[queue].iter().map(|next| next.frame.len() as u64).sum();
            self.left[queue] -= bytes;
            self.waiting[queue] -= bytes;
            all.extend(self.ready[queue].drain(..));
        }
        all
    }

    /// The line carries nothing any more: storms are over.
    pub fn line_down(&mut self, now: Nanos) {
        self.watchdog.iter_mut().for_each(|watchdog| watchdog.link_down(now));
        self.dropping = 0;
    }

    /// When the watchdog looks next.
    pub fn next_look(&self) -> Option<Nanos> {
        self.watchdog.as_ref().map(|watchdog| watchdog.next_poll())
    }

    /// Frames that the line has sent.
    pub fn sent(&self) -> u64 {
        self.sent.iter().sum()
    }

    /// Storms it has seen.
    pub fn storms(&self) -> u64 {
        let seen = |watchdog: &Watchdog| (0..PRIORITIES).map(|queue| watchdog.counters(queue).detected).sum();
        self.watchdog.as_deref().map_or(0, seen)
    }

    /// Queues of which less than so many bytes have left inputs, a bit each.
    pub fn roomy(&self, room: u64) -> u8 {
        set(|queue| self.left[queue] < room)
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
    pub fn leave_input(&mut self, queue: usize, bytes: u64) {
        self.left[queue] += bytes;
    }

    /// So much of a queue crosses, in bytes of the wire.
    pub fn charge(&mut self, queue: usize, frames: u64, wire: u64) {
        self.crossing.sent(queue, frames, wire, wire);
    }

    /// A frame has crossed.
    pub fn land(&mut self, queue: usize, frame: Dequeued<SimFrame>) {
        if self.ready[queue].is_empty() {
            self.line.wake(queue);
        }
        self.ready[queue].push_back(frame);
    }

    /// When there is something for the line, of the queues that are not `paused`: in the past, if it is there now.
    pub fn next_at(&self, paused: u8) -> Option<Nanos> {
        self.line.open_at(self.ready() & !paused)
    }

    /// The next frame for the line, of the queues that are not `paused`, and the bytes of its queue that wait still.
    pub fn next_frame(&mut self, paused: u8, now: Nanos) -> Option<(Dequeued<SimFrame>, u64)> {
        self.line.refill(now);
        let queue = self.line.pick(self.ready() & !paused)?.queue;
        let next = self.ready[queue].pop_front()?;
        let bytes = next.frame.len() as u64;
        self.left[queue] -= bytes;
        self.waiting[queue] -= bytes;
        self.sent[queue] += 1;
        self.line.sent(queue, 1, wire_bytes(bytes), wire_bytes(bytes));
        Some((next, self.waiting[queue]))
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
