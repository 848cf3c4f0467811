//! What does not happen on account of a frame: other lcores, resumes, watchdog, ageing, publishing.

use super::ports::Ports;
use super::{Observer, Switch};
use crate::drops::DropReason;
use crate::fdb::FdbEvent;
use crate::frame::Frame;
use crate::mmu::{Admission, PgIx};
use crate::pfc::bits;
use crate::pfc::generate::Source;
use crate::pfc::watchdog::{Observation, Watchdog};
use crate::types::{Nanos, PRIORITIES, PortId};

/// Buckets of the forwarding table looked at per tick: bounded work, a full sweep well within an
/// ageing time.
const AGE_BUCKETS: usize = 4;

/// How old published counters may be, ns.
const PUBLISH_ROUND: Nanos = 10_000_000;

/// The clock of the forwarding table: a coarse tick, so that an entry is written once per tick.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ageing {
    /// Length of a tick, ns.
    period: Nanos,
    /// Ticks without a sighting after which an entry is forgotten.
    ticks: u32,
    tick: u32,
    next: Nanos,
    /// Since when ticks have this length, and the tick it was.
    since: (Nanos, u32),
    /// Buckets of the table not yet looked at in this tick.
    buckets_left: usize,
}

impl Ageing {
    /// Ticks per ageing time: entries live between 1 and 1 + 1/16 ageing times.
    const TICKS: u32 = 16;

    pub(super) fn new(ageing: Option<Nanos>) -> Self {
        match ageing {
            Some(ns) => {
                let period = (ns / u64::from(Self::TICKS)).max(1);
                Self { period, ticks: Self::TICKS, tick: 0, next: period, since: (0, 0), buckets_left: 0 }
            }
            None => Self {
                period: Nanos::MAX,
                ticks: u32::MAX,
                tick: 0,
                next: Nanos::MAX,
                since: (0, 0),
                buckets_left: 0,
            },
        }
    }

    pub(super) fn ticks(&self) -> u32 {
        self.ticks
    }

    /// Length of a tick; [`Nanos::MAX`] where nothing ages.
    pub(super) fn tick_ns(&self) -> Nanos {
        self.period
    }

    #[inline(always)]
    pub(super) fn now_tick(&self) -> u32 {
        self.tick
    }

    #[inline(always)]
    fn advance(&mut self, now: Nanos) -> bool {
        if now < self.next {
            return false;
        }
        let (since, first) = self.since;
        let passed = (now - since) / self.period;
        self.tick = first.wrapping_add(passed as u32);
        self.next = since.saturating_add((passed + 1).saturating_mul(self.period));
        true
    }

    /// Another ageing time from `now` on. Ticks go on being counted, so an entry that has lived half of the old
    /// time has half of the new one left.
    pub(super) fn change(&mut self, ageing: Option<Nanos>, now: Nanos) {
        let Self { period, ticks, .. } = Self::new(ageing);
        if period != self.period {
            *self =
                Self { period, ticks, next: now.saturating_add(period), since: (now, self.tick), ..*self };
        }
    }
}

impl<F: Frame, A: Admission, O: Observer> Switch<F, A, O> {
    /// News can be told to everybody.
    pub(super) fn news_have_room(&self) -> bool {
        self.peers.iter().flatten().all(|peer| peer.news_to.slots() > 0)
    }

    #[cold]
    pub(super) fn tell(&mut self, event: FdbEvent) {
        for peer in self.peers.iter_mut().flatten() {
            // Room was there before the table made the event, and nobody else fills the ring.
            let _ = peer.news_to.push(event);
        }
    }

    /// Groups whose limit has moved far enough up since they sent Xoff.
    #[inline(always)]
    pub(super) fn resume_due(&mut self) {
        let Self { admission, ports, .. } = self;
        admission.resume_moved(&mut |pg| xon(ports, pg));
    }

    /// The watchdog of every port that is due.
    #[inline(always)]
    pub(super) fn watch(&mut self, now: Nanos) {
        if now >= self.watch_at {
            self.watch_ports(now);
        }
    }

    #[cold]
    fn watch_ports(&mut self, now: Nanos) {
        self.watch_at = Nanos::MAX;
        for id in self.ports.ids() {
            let next_poll = |ports: &Ports<F>| {
                let watchdog = ports.get_own(id.index()).and_then(|port| port.watchdog.as_deref());
                watchdog.map_or(Nanos::MAX, Watchdog::next_poll)
            };
            if now >= next_poll(&self.ports) {
                self.watch_port(id, now);
            }
            let next = next_poll(&self.ports);
            self.watch_at = self.watch_at.min(next);
        }
    }

    #[cold]
    fn watch_port(&mut self, id: PortId, now: Nanos) {
        let Self { ports, queues, .. } = self;
        let port = &mut ports[id.index()];
        let Some(mut watchdog) = port.watchdog.take() else { return };
        watchdog.poll(now, |queue| Observation {
            backlog: queues.bytes(id, queue),
            departures: port.stats.queue_packets[queue],
            head_since: queues.head_since(id, queue).unwrap_or(now),
            paused_since: port.reaction.queue_paused_since(queue, now),
            last_pfc: port.reaction.queue_last_frame(queue),
        });
        let (drop, forward) = (watchdog.drop_queues(), watchdog.forward_queues());
        port.watchdog = Some(watchdog);
        self.set_storm(id, drop, forward, now);
    }

    /// What is done to the queues of a port in a storm, a bit each: frames of some are dropped, pauses of others are not obeyed. For who
    /// has taken the watchdog of the port ([`Switch::take_watchdog`]) and looks himself.
    pub fn set_storm(&mut self, id: PortId, drop: u8, forward: u8, now: Nanos) {
        let port = &mut self.ports[id.index()];
        let begun = drop & !port.storm_drop;
        (port.storm_drop, port.storm_forward) = (drop, forward);
        self.note_slow_path_queues(id);
        self.note_held(id, now);
        for queue in bits(begun) {
            self.flush(id, queue, DropReason::WatchdogDrop);
        }
    }

    /// The watchdog of a port, which looks here no more, for who knows better what waits for its line.
    pub fn take_watchdog(&mut self, id: PortId) -> Option<Box<Watchdog>> {
        self.ports[id.index()].watchdog.take()
    }

    /// A few buckets of the forwarding table.
    #[inline(always)]
    pub(super) fn age(&mut self, now: Nanos) {
        if self.ageing.advance(now) {
            self.ageing.buckets_left = self.fdb.buckets();
        }
        if self.ageing.buckets_left == 0 && !self.fdb.is_flushing() || !self.news_have_room() {
            return;
        }
        let Self { fdb, peers, ageing, .. } = self;
        ageing.buckets_left = ageing.buckets_left.saturating_sub(AGE_BUCKETS);
        fdb.age(ageing.now_tick(), AGE_BUCKETS, |event| {
            for peer in peers.iter_mut().flatten() {
                let _ = peer.news_to.push(event);
            }
        });
    }

    /// Publishes the counters of one port after the other, all of them once per round.
    #[inline(always)]
    pub(super) fn publish_next(&mut self, now: Nanos) {
        if now < self.publish_at {
            return;
        }
        self.publish_at = now + PUBLISH_ROUND / self.ports.len() as u64;
        self.publish_cursor = (self.publish_cursor + 1) % self.ports.len();
        let port = PortId(self.publish_cursor as u16);
        if self.ports.is_own(port) {
            self.publish_port(port, now);
        }
    }

    #[cold]
    pub(super) fn publish_port(&mut self, id: PortId, now: Nanos) {
        let mut gauges = self.gauges(id, now);
        let port = &mut self.ports[id.index()];
        port.publish_stats();
        port.gauges.publish(&mut gauges);
        port.carried.publish_words(self.queues.carried(id));
        self.publish_flows(id, now);
    }
}

/// A group is back at its resume point: nobody needs to be paused on its account.
#[cold]
pub(super) fn xon<F: Frame>(ports: &mut Ports<F>, PgIx(pg): PgIx) {
    let (port, pg) = (pg as usize / PRIORITIES, pg as usize % PRIORITIES);
    // The control group stands behind the last port and pauses nobody.
    let Some(own) = ports.get_own_mut(port) else { return };
    for priority in bits(own.params.pg_priorities[pg]) {
        own.generator.xon(priority, Source::Buffer);
    }
    ports.resumed.insert(PortId(port as u16));
}
