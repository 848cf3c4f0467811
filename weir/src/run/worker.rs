//! The polling loop: what runs on a worker lcore, and nothing else. No allocation, no lock, no
//! system call, no log.

use super::control::{Command, Control, Obeyed, Phase, Reply, Told};
use super::inc::EngineEnd;
use super::io::{Dpdk, Io, Receive, Time, Transmit};
use super::links::Queues;
use super::local::Outbox;
use super::stages::{Stopwatch, Unwatched, Watch, Watched};
use weir_dataplane::egress::BATCH_MAX;
use weir_dataplane::fdb::FdbPage;
use weir_dataplane::stats::{LoopStats, MarkingCurve, Published, Stage};
use weir_dataplane::switch::{LocalProtocol, Tapped};
use weir_dataplane::turn::{LEAST, Ration, frames_behind, share};
use weir_dataplane::types::{BURST, Burst, PortId};
use weir_dpdk::Polling;
use weir_mgmt::mcast;

/// A port, as the worker that owns it sees it.
#[derive(Debug)]
pub struct WorkerPort<D: Io = Dpdk> {
    /// Which port of the switch it is.
    pub id: PortId,
    /// Where its frames come from.
    pub rx: D::Rx,
    /// Where its frames go.
    pub wire: D::Tx,
    /// The receive queue is filling above this many frames; `None`: not watched.
    pub ring_limit: Option<u32>,
    ring_full: bool,
    /// Frames of protocols that end here, to be sent.
    pub outboxes: Vec<(LocalProtocol, Outbox)>,
    /// How its queues mark, seen in the turns that are timed. Large, and not what a turn should step over.
    pub curve: Box<MarkingCurve>,
    /// The cell through which other threads read that.
    pub published_curve: Published,
}

impl<D: Io> WorkerPort<D> {
    /// A port with both its queues.
    pub fn new(id: PortId, rx: D::Rx, wire: D::Tx, ring_limit: Option<u32>) -> Self {
        Self {
            id,
            rx,
            wire,
            ring_limit,
            ring_full: false,
            outboxes: Vec::new(),
            curve: Box::default(),
            published_curve: Published::new::<MarkingCurve>(),
        }
    }
}

/// One worker: a shard of the switch and the ports it owns.
#[derive(Debug)]
pub struct Worker<D: Io = Dpdk> {
    /// Its number.
    pub shard: usize,
    /// Its part of the switch.
    pub switch: Tapped<D::Frame>,
    /// Its ports.
    pub ports: Vec<WorkerPort<D>>,
    /// Its transmit queues of other workers' ports.
    pub others: Vec<(PortId, D::Tx)>,
    /// Engines behind its ports.
    pub engines: Vec<EngineEnd<D>>,
    /// Messages from the main thread.
    pub commands: rtrb::Consumer<Command<D>>,
    /// What it says about them.
    pub replies: rtrb::Producer<Reply>,
    /// What it has done of that.
    pub obeyed: Obeyed,
    /// Ports whose devices were taken away.
    pub departed: rtrb::Producer<Queues<D>>,
    /// The word all workers read.
    pub control: Control,
    /// Where it stands still while interrupts are served, if a driver needs that.
    pub polling: Option<Polling>,
    /// Nanoseconds since start.
    pub clock: D::Clock,
    /// What the loop counts about itself.
    pub stats: LoopStats,
    /// The cell through which other threads read it.
    pub published: Published,
    /// Port whose curve was published last.
    pub curve_cursor: usize,
    /// Frames it receives in a turn at most ([`weir_dataplane::turn::frames`]).
    pub frames: usize,
    /// The first of the ports that had to wait in the last turn for frames that could be sent; it sends first.
    pub waiting: Option<usize>,
    /// A page of the forwarding table that somebody waits for.
    pub page: Option<Box<FdbPage>>,
}

/// What a turn came to.
#[derive(Default)]
struct Turn {
    /// When its frames were done with, ns.
    now: u64,
    /// Ports that gave frames.
    busy: usize,
    /// Frames received.
    received: usize,
    /// Frames sent.
    sent: usize,
}

/// How old the published block of a loop may be, ns.
const PUBLISH: u64 = 10_000_000;

/// One turn of so many is timed stage by stage.
const TIMED: u64 = 128;

/// No turn that moves so many frames takes longer by itself, ns: far above what any frame costs.
fn longest(frames: usize) -> u64 {
    10_000 + 4_000 * frames as u64
}

/// Buckets of the forwarding table read in one turn, while somebody asks: as many cache lines, some 2 us.
const BUCKETS_PER_TURN: usize = 16;

/// Most bursts a port sends in one turn of the loop.
const BURSTS_PER_TURN: usize = 2;

/// A receive queue this full (of its ring) means frames are about to be lost.
pub const RING_LIMIT_EIGHTHS: u32 = 6;

/// The worker's ends of the rings between it and the main thread.
#[derive(Debug)]
pub struct WorkerEnds<D: Io = Dpdk> {
    pub commands: rtrb::Consumer<Command<D>>,
    pub replies: rtrb::Producer<Reply>,
    pub departed: rtrb::Producer<Queues<D>>,
}

impl<D: Io> Worker<D> {
    /// A worker without ports, which receives at most `frames` in a turn.
    pub fn new(
        (shard, switch): (usize, Tapped<D::Frame>),
        frames: usize,
        clock: D::Clock,
        control: Control,
        WorkerEnds { commands, replies, departed }: WorkerEnds<D>,
    ) -> Self {
        Self {
            shard,
            switch,
            ports: Vec::new(),
            others: Vec::new(),
            engines: Vec::new(),
            commands,
            replies,
            obeyed: Obeyed::default(),
            departed,
            control,
            polling: None,
            clock,
            stats: LoopStats::default(),
            published: Published::new::<LoopStats>(),
            curve_cursor: 0,
            frames,
            waiting: None,
            page: None,
        }
    }

    /// Polls until told to stop. Gives itself back with all it counted.
    pub fn run(mut self) -> Self {
        let mut burst = Burst::new();
        let mut before = Turn { now: self.clock.now(), ..Turn::default() };
        let mut publish_at = 0;
        let mut draining = false;
        loop {
            let turn = match self.stats.turns % TIMED {
                0 => self.timed_turn(&mut burst, &before),
                _ => self.turn(&mut burst, &before, &mut Unwatched),
            };
            let now = turn.now;
            self.count_turn(now - before.now, turn.received + turn.sent > 0);
            before = turn;
            if now >= publish_at {
                publish_at = now + PUBLISH;
                self.publish(now);
            }
            if !self.commands.is_empty() {
                self.obey(now);
            }
            if self.page.is_some() {
                self.read_fdb();
            }
            if let Some(polling) = &self.polling {
                polling.between_bursts();
            }
            match self.control.phase() {
                Phase::Forward => {}
                Phase::Drain => {
                    if !draining {
                        draining = true;
                        self.switch.drain();
                    }
                    let coming = u64::from(self.switch.expects_more());
                    self.control.report_held(self.shard, self.switch.held() + coming);
                }
                Phase::Stop => {
                    self.switch.publish_all(now);
                    self.publish(now);
                    // It need not be waited for any more.
                    self.polling = None;
                    return self;
                }
            }
        }
    }

    /// One turn: every port is emptied, what other lcores said is heard and what is due is done, every port is filled.
    /// What they said is heard in between so that it is acted upon in the same turn: a frame that waits for a turn
    /// more is further away in the cache. It moves at most twice `frames` frames.
    #[inline(always)]
    fn turn<W: Watch>(&mut self, burst: &mut Burst<D::Frame>, before: &Turn, watch: &mut W) -> Turn {
        let (busy, received) = self.receive(burst, before, watch);
        let now = self.clock.now();
        self.switch.tick(now);
        watch.lap(&self.clock, Stage::Tick);
        let (now, sent) = self.transmit(now, 2 * self.frames - received.min(self.frames), watch);
        for engine in &mut self.engines {
            engine.expect(&mut self.switch);
            engine.turn(burst, now);
        }
        Turn { now, busy, received, sent }
    }

    /// Every port gives what it has, within the frames of the turn. How many gave some, and how many frames.
    #[inline(always)]
    fn receive<W: Watch>(
        &mut self,
        burst: &mut Burst<D::Frame>,
        before: &Turn,
        watch: &mut W,
    ) -> (usize, usize) {
        let (mut busy, mut received) = (0, 0);
        let frames = if self.waiting.is_some() { frames_behind(self.frames) } else { self.frames };
        let share = share(frames, self.ports.len(), before.busy).min(BURST);
        let mut ration = Ration::new(frames, self.ports.len());
        for port in &mut self.ports {
            let came = port.rx.receive(burst, ration.next(share));
            watch.lap(&self.clock, Stage::RxDriver);
            if came > 0 {
                busy += 1;
                received += came;
                ration.take(came);
                self.switch.receive(port.id, burst, self.clock.now());
                // A driver may have rounded down what it was asked for, but not below this.
                if came >= LEAST || port.ring_full {
                    watch_ring(&mut self.switch, port);
                }
                watch.lap(&self.clock, Stage::Receive);
            } else if port.ring_full {
                watch_ring(&mut self.switch, port);
            }
        }
        (busy, received)
    }

    /// Every port sends what it may, `left` frames together; those that have to wait are first in the next turn. What time
    /// it is then, and how many frames the wires took.
    #[inline(always)]
    fn transmit<W: Watch>(&mut self, now: u64, left: usize, watch: &mut W) -> (u64, usize) {
        let (own, all) = (self.ports.len(), self.ports.len() + self.others.len());
        let most = self.frames.min(BURST);
        let first = self.waiting.take().unwrap_or(0);
        let (mut now, mut left, mut sent) = (now, left, 0);
        for step in 0..all {
            let at = if first + step < all { first + step } else { first + step - all };
            if let Some(port) = self.ports.get_mut(at) {
                if self.switch.is_idle(port.id, now) {
                    continue;
                }
                if self.switch.staged(port.id) > left {
                    self.waiting.get_or_insert(at);
                    self.switch.transmit_due_control(port.id, now, &mut port.wire);
                    continue;
                }
                watch.before(&self.clock, &self.switch, port.id);
                let mut wire = Watched { wire: &mut port.wire, watch, clock: &self.clock };
                // A queue that other lcores fill must be able to empty faster than one burst per turn fills it: frames
                // that wait for long are cold in every cache.
                for _ in 0..BURSTS_PER_TURN {
                    now = self.clock.now();
                    let (budget, in_flight) = (left.min(most), self.switch.in_flight(port.id));
                    let n = self.switch.transmit(port.id, budget, now, &mut wire);
                    sent += n;
                    left = left.saturating_sub(n);
                    let granted = self.switch.in_flight(port.id) - in_flight;
                    if (n < budget || left == 0) && granted < BURST || self.switch.waiting(port.id) == 0 {
                        break;
                    }
                }
                if left == 0 && self.switch.waiting(port.id) != 0 {
                    self.waiting.get_or_insert(at);
                }
                watch.lap(&self.clock, Stage::Transmit);
                watch.after(&self.clock, &self.switch, port.id, &mut port.curve);
            } else if let Some((port, wire)) = self.others.get_mut(at - own)
                && self.switch.has_grants(*port)
            {
                // A grant is carried out whole.
                if left < BATCH_MAX || self.switch.staged(*port) > left {
                    self.waiting.get_or_insert(at);
                    continue;
                }
                let mut wire = Watched { wire, watch, clock: &self.clock };
                // As for own ports: what has gathered here while the lcore was away must be able to leave faster than it
                // comes, or the queues stay as deep as that made them.
                for _ in 0..BURSTS_PER_TURN {
                    now = self.clock.now();
                    let n = self.switch.transmit_granted(*port, left.min(most), now, &mut wire);
                    sent += n;
                    left = left.saturating_sub(n);
                    if n == 0 || left < BATCH_MAX || !self.switch.has_grants(*port) {
                        break;
                    }
                }
                if self.switch.has_grants(*port) {
                    self.waiting.get_or_insert(at);
                }
                watch.lap(&self.clock, Stage::Transmit);
            }
        }
        (now, sent)
    }

    /// A turn with a stopwatch. An idle one says nothing about frames, one the processor was taken away from
    /// nothing about the switch: neither is counted.
    #[cold]
    fn timed_turn(&mut self, burst: &mut Burst<D::Frame>, before: &Turn) -> Turn {
        let mut watch = Stopwatch::new(&self.clock);
        let turn = self.turn(burst, before, &mut watch);
        if turn.received + turn.sent > 0 && watch.ns.iter().sum::<u64>() < longest(turn.received + turn.sent)
        {
            self.stats.timed_turns += 1;
            self.stats.timed_received += turn.received as u64;
            self.stats.timed_sent += turn.sent as u64;
            for (sum, ns) in self.stats.stage_ns.iter_mut().zip(watch.ns) {
                *sum += ns;
            }
        }
        turn
    }

    #[inline(always)]
    fn count_turn(&mut self, ns: u64, busy: bool) {
        let stats = &mut self.stats;
        stats.turns += 1;
        stats.busy_turns += u64::from(busy);
        stats.busy_ns += if busy { ns } else { 0 };
        stats.longest_turn_ns = stats.longest_turn_ns.max(ns);
        stats.turn.note(ns, 1);
    }

    #[cold]
    fn publish(&mut self, now: u64) {
        self.stats.at_ns = now;
        self.switch.fill_loop_stats(&mut self.stats);
        self.published.publish(&mut self.stats);
        // One port at a time: curves are long and change slowly.
        self.curve_cursor += 1;
        if self.curve_cursor >= self.ports.len() {
            self.curve_cursor = 0;
        }
        if let Some(port) = self.ports.get_mut(self.curve_cursor) {
            port.published_curve.publish(&mut *port.curve);
        }
        let Self { switch, ports, .. } = self;
        for WorkerPort { id, outboxes, wire, .. } in ports {
            for (protocol, outbox) in outboxes {
                outbox.empty(|frame| switch.send_local(*id, *protocol, frame, wire));
            }
        }
    }

    #[cold]
    fn obey(&mut self, now: u64) {
        while let Ok(next) = self.commands.peek() {
            // What is behind it waits too: orders are obeyed in the order they were given.
            if matches!(next, Command::Apply { at, .. } if *at > now) {
                return;
            }
            match self.commands.pop() {
                Ok(Command::Link(id, up)) => {
                    if let Some(port) = self.ports.iter_mut().find(|port| port.id == id) {
                        port.wire.link_changed();
                    }
                    self.switch.set_link(id, up, now);
                }
                Ok(Command::LagMember(port, member)) => self.switch.set_lag_member(port, member, now),
                // What finds no room is counted, and flooded or not as what nobody has joined.
                Ok(Command::Mcast(mcast::Told::Vlan(vid, to))) => {
                    self.switch.snoop(vid, to).unwrap_or_default()
                }
                Ok(Command::Mcast(mcast::Told::Group(key, ports))) => {
                    self.switch.set_members(key, ports).unwrap_or_default();
                }
                Ok(Command::Detach(id)) => {
                    let port = self.ports.iter().position(|port| port.id == id).map(|i| self.ports.remove(i));
                    let wire = self.others.iter().position(|(port, _)| *port == id);
                    let wire = wire.map(|i| self.others.remove(i).1);
                    // There is room for each port once.
                    let _ = self.departed.push(Queues { id, port, wire });
                }
                // There was room for them before they were given back.
                Ok(Command::Attach(Queues { id, port, wire })) => {
                    if let Some(mut port) = port {
                        port.curve.follow(self.switch.marking(id));
                        self.ports.push(port);
                    }
                    self.others.extend(wire.map(|wire| (id, wire)));
                }
                Ok(Command::Apply { id, undoes, mut change, .. }) => {
                    let result = match self.obeyed.carries_out(id, undoes) {
                        true => self.switch.apply(&mut change, now),
                        false => Ok(()),
                    };
                    for port in &mut self.ports {
                        port.curve.follow(self.switch.marking(port.id));
                    }
                    for engine in &mut self.engines {
                        engine.keep_rate(self.switch.reaction(engine.id).rate(), now);
                    }
                    // Nobody is sent more orders than there is room for answers.
                    let _ = self.replies.push(Reply::Applied { id, at: now, change, result });
                }
                Ok(Command::Tap(tap, mut followers)) => {
                    let before = self.switch.arm(tap);
                    for (port, follower) in &mut followers {
                        if let Some(engine) = self.engines.iter_mut().find(|engine| engine.id == *port) {
                            *follower = engine.follow(follower.take());
                        }
                    }
                    let _ = self.replies.push(Reply::Tapped(before, followers));
                }
                Ok(Command::Job { id, port, order }) => {
                    let engine = self.engines.iter_mut().find(|engine| engine.id == port);
                    let told = engine.map_or(Told::Unknown, |engine| engine.obey(order, now));
                    let _ = self.replies.push(Reply::Job { id, told });
                }
                Ok(Command::Fdb(page)) => {
                    // Whoever waited for another one has given up.
                    if let Some(old) = self.page.replace(page) {
                        let _ = self.replies.push(Reply::Fdb(old));
                    }
                }
                Err(_) => return,
            }
        }
    }

    /// Goes on with a page, for no longer than frames can wait.
    #[cold]
    fn read_fdb(&mut self) {
        let Some(mut page) = self.page.take() else { return };
        self.switch.read_fdb(&mut page, BUCKETS_PER_TURN);
        if page.is_full() {
            let _ = self.replies.push(Reply::Fdb(page));
        } else {
            self.page = Some(page);
        }
    }
}

/// Raises Xoff while the receive queue is nearly full, takes it back when it is half empty.
#[cold]
fn watch_ring<D: Io>(switch: &mut Tapped<D::Frame>, port: &mut WorkerPort<D>) {
    let (Some(limit), Some(backlog)) = (port.ring_limit, port.rx.backlog()) else { return };
    let filling = backlog >= if port.ring_full { limit / 2 } else { limit };
    if filling != port.ring_full {
        port.ring_full = filling;
        switch.rx_ring(port.id, filling);
    }
}

#[cfg(test)]
#[path = "worker_tests.rs"]
mod tests;
