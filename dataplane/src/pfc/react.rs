//! Obeying the peer: what a port must not send, until when.
//!
//! Absolute deadlines per priority. A new frame overwrites, time 0 resumes at once, a clear enable bit
//! leaves its priority alone. REQ SW-100..102; DEV-23, DEV-80; scenarios D1 to D9, D15.

use super::account::PauseAccount;
use super::frame::{Control, Invalid, PauseFrame, PfcFrame, decode, quanta_to_ns};
use super::{NEVER, bits};
use crate::types::{Nanos, PRIORITIES};

/// Which received pauses a port obeys. PFC and link PAUSE exclude each other (802.1Qbb), so it is one choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum RxMode {
    /// None: received pauses are counted only.
    None,
    /// PFC of the priorities PFC is enabled on.
    #[default]
    Enabled,
    /// PFC of all eight priorities (asymmetric PFC).
    All,
    /// 802.3x PAUSE, which stops every priority; PFC is counted only.
    Link,
}

/// How a port reacts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReactConfig {
    /// Rate of the port, bit/s: what a quantum is.
    pub rate: u64,
    /// Priorities PFC is enabled on, one bit each.
    pub enabled: u8,
    /// Which pauses count.
    pub mode: RxMode,
    /// Egress queue of each PFC priority.
    pub pfc_to_queue: [u8; PRIORITIES],
}

impl ReactConfig {
    /// A host's: it obeys PFC on the priorities in `enabled` (a bit each), and each is a queue of its own.
    pub fn host(rate: u64, enabled: u8) -> Self {
        Self { rate, enabled, mode: RxMode::Enabled, pfc_to_queue: std::array::from_fn(|p| p as u8) }
    }

    fn obeyed(&self) -> u8 {
        match self.mode {
            RxMode::None | RxMode::Link => 0,
            RxMode::Enabled => self.enabled,
            RxMode::All => 0xff,
        }
    }
}

/// Frames received by a port. They only grow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct RxCounters {
    /// Valid PFC frames, whatever they carry.
    pub pfc_frames: u64,
    /// Valid 802.3x PAUSE frames.
    pub pause_frames: u64,
    /// PFC frames that asked to pause this priority, enabled or not.
    pub xoff: [u64; PRIORITIES],
    /// PFC frames that resumed this priority, enabled or not.
    pub xon: [u64; PRIORITIES],
    /// Invalid MAC control frames by [`Invalid`].
    pub invalid: [u64; Invalid::ALL.len()],
}

/// What the peer of one port told it.
#[derive(Clone, Debug)]
pub struct Reaction {
    /// Earliest deadline of a paused priority, [`NEVER`] without one: the one compare of the hot path.
    next: Nanos,
    /// Queues that must not send, derived from the paused priorities.
    queues: u8,
    /// Queues whose pauses are not obeyed: those of a storm the watchdog forwards.
    ignored: u8,
    config: ReactConfig,
    deadline: [Nanos; PRIORITIES],
    last_frame: [Option<Nanos>; PRIORITIES],
    account: PauseAccount,
    /// By queue: how long pauses held it, whichever of its priorities they named.
    held: PauseAccount,
    counters: RxCounters,
}

impl Reaction {
    /// A port nobody has paused yet.
    pub fn new(config: ReactConfig) -> Self {
        Self {
            next: NEVER,
            queues: 0,
            ignored: 0,
            config,
            deadline: [0; PRIORITIES],
            last_frame: [None; PRIORITIES],
            account: PauseAccount::default(),
            held: PauseAccount::default(),
            counters: RxCounters::default(),
        }
    }

    /// Reads and obeys one MAC control frame (without FCS) and says what it was. The frame ends here.
    pub fn receive(&mut self, bytes: &[u8], now: Nanos) -> Control {
        let control = decode(bytes);
        match control {
            Control::Pfc(frame) => self.on_pfc(&frame, now),
            Control::Pause(frame) => self.on_pause(frame, now),
            Control::Invalid(why) => self.counters.invalid[why as usize] += 1,
        }
        control
    }

    /// Obeys a PFC frame received at `now`.
    pub fn on_pfc(&mut self, frame: &PfcFrame, now: Nanos) {
        self.counters.pfc_frames += 1;
        for priority in bits(frame.enable) {
            self.last_frame[priority] = Some(now);
            let counter = match frame.time[priority] {
                0 => &mut self.counters.xon,
                _ => &mut self.counters.xoff,
            };
            counter[priority] += 1;
        }
        let enable = frame.enable & self.config.obeyed();
        self.apply(&PfcFrame { enable, ..*frame }, now);
    }

    /// Counts an 802.3x PAUSE frame and obeys it in [`RxMode::Link`] (D8).
    pub fn on_pause(&mut self, frame: PauseFrame, now: Nanos) {
        self.counters.pause_frames += 1;
        if self.config.mode == RxMode::Link {
            self.apply(&PfcFrame::uniform(0xff, frame.quanta), now);
        }
    }

    fn apply(&mut self, frame: &PfcFrame, now: Nanos) {
        self.expire(now);
        for priority in bits(frame.enable) {
            match frame.time[priority] {
                0 => self.account.end(priority, now),
                quanta => {
                    self.account.begin(priority, now);
                    self.deadline[priority] = now.saturating_add(quanta_to_ns(quanta, self.config.rate));
                }
            }
        }
        self.derive(now);
    }

    /// Paused priorities at `now`, one bit each. A pause ends exactly at its deadline.
    #[inline]
    pub fn paused_mask(&mut self, now: Nanos) -> u8 {
        if now >= self.next {
            self.expire_now(now);
        }
        self.account.active()
    }

    /// Queues that must not send at `now`, one bit each.
    #[inline]
    pub fn paused_queues(&mut self, now: Nanos) -> u8 {
        if now >= self.next {
            self.expire_now(now);
        }
        self.queues
    }

    /// Queues that must not send, one bit each, for the data path: right only where `now` is before
    /// [`Reaction::next_expiry`]. Whoever only reads asks [`Reaction::queues_paused_at`].
    #[inline]
    pub(crate) fn queues_when_told(&self) -> u8 {
        self.queues
    }

    /// Queues that received pauses stop at `now`, one bit each, whether or not what sends has looked since the last
    /// of them ran out.
    pub fn queues_paused_at(&self, now: Nanos) -> u8 {
        self.queues_of(
            bits(self.account.active()).fold(0, |running, p| running | u8::from(self.deadline[p] > now) << p),
        )
    }

    /// When the next pause ends unless something else arrives; [`NEVER`] if nothing is paused.
    #[inline]
    pub fn next_expiry(&self) -> Nanos {
        self.next
    }

    #[cold]
    fn expire_now(&mut self, now: Nanos) {
        self.expire(now);
        self.derive(now);
    }

    /// Ends what ended by `now`, at its deadline: the accounting does not depend on when it is asked.
    fn expire(&mut self, now: Nanos) {
        let mut last = [0; PRIORITIES];
        for priority in bits(self.account.active()) {
            let deadline = self.deadline[priority];
            if deadline <= now {
                self.account.end(priority, deadline);
                bits(self.queues_of(1 << priority)).for_each(|q| last[q] = deadline.max(last[q]));
            }
        }
        // A queue is held until the last of the pauses that hold it ends.
        for queue in bits(self.held.active() & !self.queues_of(self.account.active())) {
            self.held.end(queue, last[queue]);
        }
    }

    /// Queues that stand still while these priorities are paused.
    fn queues_of(&self, priorities: u8) -> u8 {
        match self.config.mode {
            RxMode::Link if priorities != 0 => 0xff,
            _ => bits(priorities).fold(0, |queues, p| queues | 1 << (self.config.pfc_to_queue[p] & 7)),
        }
    }

    /// What follows from the pauses that run at `now`.
    fn derive(&mut self, now: Nanos) {
        let paused = self.account.active();
        self.next = bits(paused).map(|p| self.deadline[p]).min().unwrap_or(NEVER);
        self.queues = self.queues_of(paused);
        let (held, before) = (self.queues & !self.ignored, self.held.active());
        bits(before & !held).for_each(|queue| self.held.end(queue, now));
        bits(held & !before).for_each(|queue| self.held.begin(queue, now));
    }

    /// Pauses of these queues (a bit each) are not obeyed from `now` on, those of all others are.
    pub fn ignore(&mut self, queues: u8, now: Nanos) {
        if queues != self.ignored {
            self.expire(now);
            self.ignored = queues;
            self.derive(now);
        }
    }

    /// Nanoseconds until `now` in which pauses held `queue`: each instant once, however many priorities share the
    /// queue, and none in which they were ignored ([`Reaction::ignore`]). The running pause counts up to its
    /// deadline.
    pub fn held_ns(&self, queue: usize, now: Nanos) -> Nanos {
        match self.held.since(queue) {
            None => self.held.total(queue, now),
            Some(_) => self.held.total(queue, now.min(self.held_until(queue))),
        }
    }

    /// Pauses hold `queue` at `now`.
    pub fn holds(&self, queue: usize, now: Nanos) -> bool {
        self.held.active() >> queue & 1 == 1 && now < self.held_until(queue)
    }

    /// When the running pauses of a queue end, unless something else arrives.
    fn held_until(&self, queue: usize) -> Nanos {
        let running = bits(self.account.active()).filter(|p| self.maps(*p, queue));
        running.map(|p| self.deadline[p]).max().unwrap_or(0)
    }

    /// The rate in whose bit times pauses are counted, bit/s.
    pub fn rate(&self) -> u64 {
        self.config.rate
    }

    /// New settings. A running pause goes on unless its priority is no longer obeyed.
    pub fn configure(&mut self, config: ReactConfig, now: Nanos) {
        self.expire(now);
        let keep = match (config.mode, self.config.mode) {
            (RxMode::Link, RxMode::Link) => 0xff,
            (_, RxMode::Link) => 0,
            _ => config.obeyed(),
        };
        for priority in bits(self.account.active() & !keep) {
            self.account.end(priority, now);
        }
        self.config = config;
        self.derive(now);
    }

    /// The link went down: nothing the peer said holds any more (C14). Counters stay.
    pub fn link_down(&mut self, now: Nanos) {
        self.expire(now);
        for priority in bits(self.account.active()) {
            self.account.end(priority, now);
        }
        self.last_frame = [None; PRIORITIES];
        self.derive(now);
    }

    /// Frames received so far.
    pub fn counters(&self) -> &RxCounters {
        &self.counters
    }

    /// Times `priority` went from running to paused.
    pub fn transitions(&self, priority: usize) -> u64 {
        self.account.transitions(priority)
    }

    /// Length of the most recent ended pause of `priority`.
    pub fn last_pause(&self, priority: usize) -> Nanos {
        self.account.last(priority)
    }

    /// Nanoseconds `priority` was paused until `now`, from receipt to resume or deadline (D15).
    pub fn paused_ns(&self, priority: usize, now: Nanos) -> Nanos {
        self.account.total(priority, now.min(self.deadline[priority]))
    }

    /// Since when `queue` is paused without a break, `None` if it may send at `now`. Where several
    /// priorities share a queue this is the longest of the running pauses.
    pub fn queue_paused_since(&self, queue: usize, now: Nanos) -> Option<Nanos> {
        let running = bits(self.account.active()).filter(|p| self.deadline[*p] > now && self.maps(*p, queue));
        running.filter_map(|p| self.account.since(p)).min()
    }

    /// When a PFC frame last named a priority of `queue`, resume included. `None`: never since link up.
    pub fn queue_last_frame(&self, queue: usize) -> Option<Nanos> {
        let named = self.last_frame.iter().enumerate().filter(|(p, _)| self.maps(*p, queue));
        named.filter_map(|(_, at)| *at).max()
    }

    fn maps(&self, priority: usize, queue: usize) -> bool {
        self.config.mode == RxMode::Link || usize::from(self.config.pfc_to_queue[priority] & 7) == queue
    }
}

#[cfg(test)]
#[path = "react_tests.rs"]
mod tests;
