//! Not obeying pause for ever: storm detection, action, restoration.
//!
//! A queue is in a storm when it had a backlog, sent nothing and was paused without a break for the
//! whole detection time. The state is looked at on poll boundaries but judged by exact times: when
//! the running pause began and when the frame at the head of the queue arrived. So a storm is detected at
//! the first poll at or after its detection time, and jittery polls cannot raise a false alarm. It ends when
//! no PFC frame has named the priority for the restoration time. Reference 2.5 and 8.6; REQ FND-008;
//! DEV-81; scenarios H1 to H17.

use super::bits;
use crate::types::{Nanos, PRIORITIES};
use arrayvec::ArrayVec;

/// Most storms the recurrence limit can count.
pub const MAX_RECURRENCE: usize = 16;

/// What happens to a queue in a storm.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Action {
    /// Its frames are flushed and refused.
    #[default]
    Drop,
    /// Its pause is ignored.
    Forward,
    /// Nothing but the event; it ends as soon as the queue is no longer stalled.
    Alert,
}

/// After `storms` storms within `window` the queue stays in its action until an operator releases it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recurrence {
    /// Storms that are one too many: 1 to [`MAX_RECURRENCE`].
    pub storms: u8,
    /// Within this time, ns, from detection to detection.
    pub window: Nanos,
}

/// Settings of the watchdog of one port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WatchdogConfig {
    /// Watched queues, one bit each.
    pub queues: u8,
    /// Time between two looks, ns.
    pub poll: Nanos,
    /// Stalled for so long is a storm, ns.
    pub detection: Nanos,
    /// Without PFC for so long the storm is over, ns.
    pub restoration: Nanos,
    /// What to do.
    pub action: Action,
    /// Limit on repeated storms, if any (H17).
    pub recurrence: Option<Recurrence>,
    /// Detection off, every watched queue in drop (H15).
    pub big_red_switch: bool,
}

/// What the watchdog is told about one queue at a poll.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Observation {
    /// Bytes waiting.
    pub backlog: u64,
    /// Frames that have left the queue since start.
    pub departures: u64,
    /// When the frame at the head of the queue arrived; any value without a backlog.
    pub head_since: Nanos,
    /// Start of the running pause: [`super::react::Reaction::queue_paused_since`].
    pub paused_since: Option<Nanos>,
    /// Last PFC frame naming the queue: [`super::react::Reaction::queue_last_frame`].
    pub last_pfc: Option<Nanos>,
}

/// What happened to a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// A storm. With [`Action::Drop`] the queue is to be flushed now.
    Detected,
    /// A storm that reached the recurrence limit: as `Detected`, and it stays until released.
    Held,
    /// The storm is over.
    Restored,
}

/// One change of state, with its evidence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// Queue of the port.
    pub queue: u8,
    /// What happened.
    pub kind: EventKind,
    /// When it was seen.
    pub at: Nanos,
    /// Since when the queue had been stalled when the storm was detected.
    pub stalled_since: Nanos,
    /// What the decision was made of.
    pub observation: Observation,
}

/// Events of one poll: at most one per queue.
pub type Events = ArrayVec<Event, PRIORITIES>;

/// A frame that met a queue in a storm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seen {
    /// Sent from the queue.
    TxOk,
    /// Flushed from the queue or refused by it.
    TxDrop,
    /// Received in the priority group of the queue's port and admitted.
    RxOk,
    /// Received in the priority group of the queue's port and dropped.
    RxDrop,
}

/// Frames by [`Seen`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct StormFrames {
    /// See [`Seen::TxOk`].
    pub tx_ok: u64,
    /// See [`Seen::TxDrop`].
    pub tx_drop: u64,
    /// See [`Seen::RxOk`].
    pub rx_ok: u64,
    /// See [`Seen::RxDrop`].
    pub rx_drop: u64,
}

impl StormFrames {
    fn add(&mut self, seen: Seen, frames: u64) {
        match seen {
            Seen::TxOk => self.tx_ok += frames,
            Seen::TxDrop => self.tx_drop += frames,
            Seen::RxOk => self.rx_ok += frames,
            Seen::RxDrop => self.rx_drop += frames,
        }
    }
}

/// Counters of one queue. At every instant `detected` is `restored`, plus one during a storm.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct StormCounters {
    /// Storms that began.
    pub detected: u64,
    /// Storms that ended, by restoration, link down or configuration.
    pub restored: u64,
    /// Frames in all storms.
    pub total: StormFrames,
    /// Frames in the present storm, or else in the last one.
    pub last: StormFrames,
}

#[derive(Clone, Debug, Default)]
struct Queue {
    /// Departures at the last poll; `None` before the first.
    departures: Option<u64>,
    /// The queue was not stalled at this time: an observed departure, a restoration, a new start.
    alive_at: Nanos,
    stalled_since: Nanos,
    /// Nothing is allocated before the first storm.
    storms: Option<Box<Storms>>,
    counters: StormCounters,
}

/// The storms of one queue.
#[derive(Clone, Debug, Default)]
struct Storms {
    /// Times of the latest detections, newest first.
    detections: ArrayVec<Nanos, MAX_RECURRENCE>,
    /// The last detection.
    last: Option<Event>,
}

/// The watchdog of one port.
#[derive(Clone, Debug)]
pub struct Watchdog {
    drop: u8,
    forward: u8,
    next_poll: Nanos,
    last_poll: Nanos,
    stormed: u8,
    held: u8,
    config: WatchdogConfig,
    queues: [Queue; PRIORITIES],
}

impl Watchdog {
    /// Starts to watch at `now`; the first poll is one interval later.
    pub fn new(config: WatchdogConfig, now: Nanos) -> Self {
        let fresh = Queue { alive_at: now, ..Queue::default() };
        let mut watchdog = Self {
            drop: 0,
            forward: 0,
            next_poll: now.saturating_add(config.poll.max(1)),
            last_poll: now,
            stormed: 0,
            held: 0,
            config,
            queues: std::array::from_fn(|_| fresh.clone()),
        };
        watchdog.derive();
        watchdog
    }

    /// Queues whose frames are to be dropped, one bit each.
    #[inline]
    pub fn drop_queues(&self) -> u8 {
        self.drop
    }

    /// Queues whose pause is to be ignored, one bit each.
    #[inline]
    pub fn forward_queues(&self) -> u8 {
        self.forward
    }

    /// Queues in a storm, one bit each.
    pub fn stormed_queues(&self) -> u8 {
        self.stormed
    }

    /// Queues held in their storm by the recurrence limit, one bit each.
    pub fn held_queues(&self) -> u8 {
        self.held
    }

    /// When the next look is due.
    #[inline]
    pub fn next_poll(&self) -> Nanos {
        self.next_poll
    }

    /// Looks that find every queue empty change nothing from now on: no storm waits for its end, and what has left, by queue, was seen.
    pub fn is_at_rest(&self, departures: &[u64; PRIORITIES]) -> bool {
        let was_seen = |queue: usize| self.queues[queue].departures == Some(departures[queue]);
        self.config.big_red_switch || self.stormed & !self.held == 0 && bits(self.config.queues).all(was_seen)
    }

    /// Counters of `queue`.
    pub fn counters(&self, queue: usize) -> &StormCounters {
        &self.queues[queue].counters
    }

    /// The event that began the present storm of `queue`, or else its last one.
    pub fn last_storm(&self, queue: usize) -> Option<&Event> {
        self.queues[queue].storms.as_ref()?.last.as_ref()
    }

    /// Counts frames that met `queue` while it was in a storm or under the big red switch.
    pub fn count(&mut self, queue: usize, seen: Seen, frames: u64) {
        let counters = &mut self.queues[queue].counters;
        counters.total.add(seen, frames);
        counters.last.add(seen, frames);
    }

    /// Looks at every watched queue if a poll boundary has been reached.
    #[inline]
    pub fn poll(&mut self, now: Nanos, observe: impl FnMut(usize) -> Observation) -> Events {
        if now < self.next_poll { Events::new() } else { self.look(now, observe) }
    }

    #[cold]
    fn look(&mut self, now: Nanos, mut observe: impl FnMut(usize) -> Observation) -> Events {
        let poll = self.config.poll.max(1);
        let missed = (now - self.next_poll) / poll;
        self.next_poll = self.next_poll.saturating_add((missed + 1).saturating_mul(poll));
        let mut events = Events::new();
        if !self.config.big_red_switch {
            for queue in bits(self.config.queues) {
                let observation = observe(queue);
                if let Some(kind) = self.judge(queue, &observation, now) {
                    let stalled_since = self.queues[queue].stalled_since;
                    let event = Event { queue: queue as u8, kind, at: now, stalled_since, observation };
                    if kind != EventKind::Restored {
                        self.queues[queue].storms.get_or_insert_default().last = Some(event);
                    }
                    events.push(event);
                }
            }
        }
        self.last_poll = now;
        self.derive();
        events
    }

    fn judge(&mut self, queue: usize, o: &Observation, now: Nanos) -> Option<EventKind> {
        let q = &mut self.queues[queue];
        let left = q.departures.replace(o.departures).is_some_and(|before| before != o.departures);
        // A departure before the pause began says nothing; one during the pause does.
        if left && o.paused_since.is_some_and(|since| since <= self.last_poll) {
            q.alive_at = now;
        }
        let stalled = o.paused_since.filter(|_| o.backlog > 0).map(|s| s.max(o.head_since).max(q.alive_at));
        let bit = 1 << queue;
        if self.stormed & bit == 0 {
            let since = stalled.filter(|s| now.saturating_sub(*s) >= self.config.detection)?;
            q.stalled_since = since;
            return Some(self.detect(queue, now));
        }
        let over = match self.config.action {
            Action::Alert => stalled != Some(q.stalled_since),
            _ => o.last_pfc.is_none_or(|at| now.saturating_sub(at) >= self.config.restoration),
        };
        if !over || self.held & bit != 0 {
            return None;
        }
        self.end(queue, now);
        Some(EventKind::Restored)
    }

    fn detect(&mut self, queue: usize, now: Nanos) -> EventKind {
        self.stormed |= 1 << queue;
        let q = &mut self.queues[queue];
        q.counters.detected += 1;
        q.counters.last = StormFrames::default();
        let detections = &mut q.storms.get_or_insert_default().detections;
        detections.truncate(MAX_RECURRENCE - 1);
        detections.insert(0, now);
        let limit = self.config.recurrence.filter(|r| {
            let nth = usize::from(r.storms).clamp(1, MAX_RECURRENCE) - 1;
            detections.get(nth).is_some_and(|first| now - first <= r.window)
        });
        match limit {
            None => EventKind::Detected,
            Some(_) => {
                self.held |= 1 << queue;
                EventKind::Held
            }
        }
    }

    /// A storm ends. What is still stalled must be stalled anew to count.
    fn end(&mut self, queue: usize, now: Nanos) {
        self.stormed &= !(1 << queue);
        self.held &= !(1 << queue);
        self.queues[queue].counters.restored += 1;
        self.queues[queue].alive_at = now;
    }

    fn derive(&mut self) {
        (self.drop, self.forward) = match self.config.action {
            _ if self.config.big_red_switch => (self.config.queues, 0),
            Action::Drop => (self.stormed, 0),
            Action::Forward => (0, self.stormed),
            Action::Alert => (0, 0),
        };
    }

    /// New settings, at once (H11, H15). Storms on queues no longer watched end, and so do all storms when
    /// the big red switch is turned on. Returns the queues that are in drop now and were not: to be flushed.
    pub fn configure(&mut self, config: WatchdogConfig, now: Nanos) -> u8 {
        let before = self.drop;
        if config.poll != self.config.poll {
            self.next_poll = now.saturating_add(config.poll.max(1));
        }
        let end = if config.big_red_switch { self.stormed } else { self.stormed & !config.queues };
        for queue in bits(end) {
            self.end(queue, now);
        }
        if config.big_red_switch != self.config.big_red_switch {
            for queue in &mut self.queues {
                queue.alive_at = now;
                queue.counters.last = StormFrames::default();
            }
        }
        for queue in bits(config.queues & !self.config.queues) {
            self.queues[queue].alive_at = now;
        }
        self.config = config;
        self.derive();
        self.drop & !before
    }

    /// An operator releases a queue held by the recurrence limit; it is restored by the usual rule, and
    /// earlier storms no longer count.
    pub fn release(&mut self, queue: usize) {
        self.held &= !(1 << queue);
        if let Some(storms) = &mut self.queues[queue].storms {
            storms.detections.clear();
        }
    }

    /// The link went down: every storm ends and watching starts afresh (H14).
    pub fn link_down(&mut self, now: Nanos) {
        for queue in bits(self.stormed) {
            self.end(queue, now);
        }
        for queue in &mut self.queues {
            queue.alive_at = now;
        }
        self.derive();
    }
}

#[cfg(test)]
#[path = "watchdog_tests.rs"]
mod tests;
