//! The event loop: switches and hosts are called when something is due for them.

use super::groups::{Groups, Message};
use super::probe::queued_frames;
use super::world::{Fabric, Pair, Started, SwitchNode};
use crate::fabric::congestion::Leaving;
use crate::fabric::hosts::Opening;
use crate::fabric::latency::Journey;
use crate::fabric::play::{Progress, Undivided};
use crate::fabric::rclink;
use crate::fabric::sim_frame::SimFrame;
use crate::fabric::spec::{Congestion, Forwarding, Protocol};
use crate::fabric::switches::FabricSwitch;
use crate::fabric::time::{PS, Ps};
use crate::fabric::topology::End;
use crate::fabric::ways::{FCS_AND_PREAMBLE, HEAD_BYTES};
use crate::fabric::workload::{Planned, is_finite};
use std::ops::{ControlFlow, Range};
use std::sync::Arc;
use weir_dataplane::frame::Frame;
use weir_dataplane::pfc::frame::is_mac_control;
use weir_dataplane::portset::PortSet;
use weir_dataplane::switch::Passed;
use weir_dataplane::types::{MIN_FRAME_BYTES, Nanos, PRIORITIES, PortId, wire_bytes};
use weir_endpoint::flow::{Arrival, Flow};
use weir_endpoint::rclink::class::Class;

/// Events between two looks at the progress.
pub(super) const EVENTS_PER_STEP: u64 = 1 << 16;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Event {
    /// The last bit of a frame (slot of the slab) has come out of direction `dir` and its pipeline.
    Arrive { dir: u32, slot: u32 },
    /// The same of its headers.
    Head { dir: u32, slot: u32 },
    /// The transmitter of `dir` may begin another frame.
    Free { dir: u32 },
    /// The sender of `dir` asked to be called.
    Wake { dir: u32 },
    /// A flow may start.
    Start { flow: u32 },
    /// A slot of the crossbar of a switch begins.
    Slot { switch: u32 },
    /// A switch looks at its queues, on no line's account.
    Tick { switch: u32 },
    /// Time to record.
    Sample,
    /// A window over which buffer policies measure ends.
    Window,
    /// A link goes down or up: an entry of the list of them.
    Link { change: u32 },
    /// Routes are those over the links that were up after this change.
    Converge { change: u32 },
    /// A computation has come to its start.
    Ready { op: u32 },
    /// A computation is over.
    Computed { op: u32 },
    /// Queue pairs are told something.
    Order { order: u32 },
}

/// A frame on its way and when its last bit arrives.
#[derive(Debug)]
pub(super) struct Flying {
    /// `None`: it has arrived, or was lost on the way.
    pub(super) frame: Option<SimFrame>,
    pub(super) tail: Ps,
    pub(super) dir: u32,
}

impl Fabric<'_> {
    /// Plays to the end, on so many threads at most. Returns why one played it, if more were allowed.
    pub(super) fn play(
        &mut self,
        threads: usize,
        progress: &mut dyn FnMut(Progress) -> ControlFlow<()>,
    ) -> Option<Undivided> {
        let groups = Groups::new(self, threads);
        self.begin();
        match &groups {
            Err(_) => {
                self.play_before((Ps::MAX, 0), u64::MAX, progress);
            }
            Ok(groups) => groups.play(self, progress),
        }
        if !self.is_over() && !self.stopped {
            self.set_now(self.until());
        }
        groups.err().filter(|_| threads > 1)
    }

    fn begin(&mut self) {
        self.connect_pairs();
        self.begin_operations();
        self.expect_orders();
        for dir in 0..self.dirs.len() {
            if self.there[self.dirs[dir].from.node] {
                self.at(0, Event::Wake { dir: dir as u32 });
            }
        }
        if let Some(every) = self.spec.sample.filter(|every| every.0 > 0) {
            self.at(every.0 * PS, Event::Sample);
        }
        for s in 0..self.switches.len() {
            if self.there[self.plan.hosts + s] {
                self.tick_at(s, self.switches[s].next_look());
            }
        }
        for change in 0..self.failures.len() {
            let at = self.failures[change].at.saturating_mul(PS);
            self.at(at, Event::Link { change: change as u32 });
        }
        self.expect_window();
    }

    /// The end at the latest.
    pub(super) fn until(&self) -> Ps {
        self.spec.stop_time.0.saturating_mul(PS)
    }

    /// Plays what happens before this time and number, but no more than so many events. `false`: nothing more will happen.
    // `bench/sim-instructions` counts what is under this symbol.
    #[inline(never)]
    pub(super) fn play_before(
        &mut self,
        limit: (Ps, u64),
        most: u64,
        progress: &mut dyn FnMut(Progress) -> ControlFlow<()>,
    ) -> bool {
        let end = (self.until().saturating_add(1), 0);
        let (limit, last) = (limit.min(end), self.events.saturating_add(most));
        while !self.is_over() {
            if self.events >= last {
                return true;
            }
            let Some((time, _, what)) = self.queue.pop_before(limit) else { return limit < end };
            self.set_now(time);
            self.events += 1;
            if self.events.is_multiple_of(EVENTS_PER_STEP)
                && self.tell(self.events, self.done, self.timeline.bytes(), progress)
            {
                return false;
            }
            self.handle(what);
        }
        false
    }

    /// Says how far the run is. `true`: it is told to end.
    pub(super) fn tell(
        &mut self,
        events: u64,
        done: usize,
        delivered: u64,
        progress: &mut dyn FnMut(Progress) -> ControlFlow<()>,
    ) -> bool {
        let (now_ns, until_ns, flows) = (self.ns(), self.spec.stop_time.0, self.flows.len());
        let now = Progress { now_ns, until_ns, done, flows, delivered, events, bytes: 0 };
        self.stopped = progress(now).is_break();
        self.stopped
    }

    #[inline(always)]
    pub(super) fn handle(&mut self, what: Event) {
        match what {
            Event::Arrive { dir, slot } => self.arrive(dir as usize, slot),
            Event::Free { dir } => {
                self.lines[dir as usize].freeing = false;
                self.try_transmit(dir as usize);
            }
            Event::Wake { dir } => self.woken(dir as usize),
            rare => self.handle_rare(rare),
        }
    }

    /// What is not of every frame.
    #[inline(never)]
    fn handle_rare(&mut self, what: Event) {
        match what {
            Event::Arrive { .. } | Event::Free { .. } | Event::Wake { .. } => {}
            Event::Head { dir, slot } => self.head(dir as usize, slot),
            Event::Start { flow } => self.start(flow),
            Event::Slot { switch } => self.slot(switch as usize),
            Event::Tick { switch } => self.ticked(switch as usize),
            Event::Sample => self.sample(),
            Event::Window => self.end_window(),
            Event::Link { change } => self.change_link(change as usize),
            Event::Converge { change } => self.converge(change as usize),
            Event::Ready { op } => self.ready(op),
            Event::Computed { op } => self.computed(op),
            Event::Order { order } => self.obey(order),
        }
    }

    /// All there was to do has ended.
    pub(super) fn is_over(&self) -> bool {
        self.ended >= self.finite && self.finite == self.flows.len() && !self.operations.computing()
    }

    fn expect_window(&mut self) {
        if let Some(window) = self.window {
            self.at(self.now.saturating_add(window.0.saturating_mul(PS)), Event::Window);
        }
    }

    fn end_window(&mut self) {
        let switches = self.switches.iter_mut().flat_map(|node| &mut node.parts);
        switches.for_each(|part| part.admission_mut().end_window());
        self.expect_window();
    }

    fn start(&mut self, flow: u32) {
        self.note_pause(flow);
        let planned = &self.flows[flow as usize];
        let Planned { from, to, pair, answers, .. } = *planned;
        let flow = self.starting(planned);
        if let Some(seat) = planned.seat {
            let (sender, receiver) = (seat as u32, seat as u32);
            self.started.note(flow.id, Started { sender, receiver, nth: 0, at: flow.start });
            self.hosts[from].roce().into_iter().for_each(|host| host.begin(seat));
            return self.try_transmit(self.out[from][0]);
        }
        // One flow of a group is sent, and heard by all members.
        let sent_with = planned.sent_with().and_then(|first| self.started.of(first));
        let known = self.pairs.of(pair);
        let Pair { sender, receiver, flows: nth } = known.unwrap_or_else(|| Pair {
            sender: sent_with.map_or_else(|| self.hosts[from].next_sender(), |first| first.sender),
            receiver: self.numbers.receiver(pair),
            flows: 0,
        });
        self.pairs.note(pair, Pair { sender, receiver, flows: nth + 1 });
        self.started.note(flow.id, Started { sender, receiver, nth, at: flow.start });
        let opening = known.is_none().then(|| self.opening(planned, flow));
        if self.hosts.holds(to) {
            match &opening {
                Some(opening) => self.hosts[to].open(opening, false, [receiver, sender]),
                None => self.hosts[to].open_more(flow, false, receiver),
            }
        } else {
            self.expect_elsewhere(flow, opening.is_some().then_some(sender));
        }
        match &opening {
            _ if sent_with.is_some() => {}
            Some(opening) => self.hosts[from].open(opening, true, [sender, receiver]),
            None => self.hosts[from].open_more(flow, true, sender),
        }
        if let Some(request) = answers {
            let request = self.numbers.receiver(self.flows[request as usize].pair);
            self.hosts[from].answer(request, sender);
        }
        self.try_transmit(self.out[from][0]);
    }

    /// RC Link hosts connect all their queue pairs before anything is sent.
    fn connect_pairs(&mut self) {
        let (numbers, flows) = (Arc::clone(&self.numbers), Arc::clone(&self.flows));
        for (pair, sender) in numbers.connected() {
            let (planned, receiver) = (&flows[pair as usize], numbers.receiver(pair));
            let opening = self.opening(planned, planned.flow);
            self.hosts[planned.from].connect(&opening, true, receiver);
            self.hosts[planned.to].connect(&opening, false, sender);
            self.pairs.note(pair, Pair { sender, receiver, flows: 0 });
        }
    }

    /// A flow that starts now.
    pub(super) fn starting(&self, planned: &Planned) -> Flow {
        Flow { start: planned.flow.start.max(self.ns()), ..planned.flow }
    }

    /// What its ends need to know of it.
    pub(super) fn opening(&self, planned: &Planned, flow: Flow) -> Opening {
        let Planned { from, to, cc, answers, src_port, .. } = *planned;
        let address = |host: usize| (host, self.plan.macs[host]);
        let class = rclink::class_of(&rclink::classes(self.spec), flow.priority, answers.is_some());
        let (class, backs_off) = (class.unwrap_or(Class::Request(0)), cc == Congestion::Backoff);
        let ends = [address(from), address(to)];
        Opening { flow, src_port, ends, backs_off, class, carriage: planned.carriage }
    }

    pub(super) fn woken(&mut self, dir: usize) {
        let line = &mut self.lines[dir];
        if line.wake <= self.now {
            line.wake = Ps::MAX;
        }
        let node = line.from.node;
        if node >= self.plan.hosts {
            self.run_switch_timers(node - self.plan.hosts);
            self.kick_core(node - self.plan.hosts);
        }
        self.try_transmit(dir);
    }

    pub(super) fn wake_at(&mut self, dir: usize, ns: Nanos) {
        let at = ns.max(self.ns() + 1).saturating_mul(PS);
        let line = &mut self.lines[dir];
        if at < line.wake {
            line.wake = at;
            self.at(at, Event::Wake { dir: dir as u32 });
        }
    }

    /// Somebody waits for the end of what `dir` sends.
    #[inline]
    pub(super) fn await_free(&mut self, dir: usize) {
        let line = &mut self.lines[dir];
        if !line.freeing {
            line.freeing = true;
            let free = line.transmitter.free();
            self.at(free, Event::Free { dir: dir as u32 });
        }
    }

    /// Lets the sender of `dir` send if its transmitter is free; else there will be a [`Event::Free`].
    #[inline]
    pub(super) fn try_transmit(&mut self, dir: usize) {
        if self.spec.host.protocol == Protocol::Rclink {
            self.read(dir);
        }
        let line = &self.lines[dir];
        if line.transmitter.free() > self.now {
            return self.await_free(dir);
        }
        let from = line.from;
        match from.node.checked_sub(self.plan.hosts) {
            None => self.transmit_from_host(dir, from.node),
            Some(s) => self.transmit_from_switch(dir, s, from.port),
        }
    }

    /// Lets the host that sends on `dir`, if one does, read what is in its memory, whether its line is free or not: whenever something may have
    /// become readable. One of RoCEv2 takes frames as they come.
    #[cold]
    fn read(&mut self, dir: usize) {
        let (ns, at) = (self.ns(), self.dirs[dir].from.node);
        if at >= self.plan.hosts {
            return;
        }
        while let Some(arrival) = self.hosts[at].read(ns) {
            self.arrived(&arrival);
        }
        if let Some(next) = self.hosts[at].next_read(ns) {
            self.wake_at(dir, next);
        }
    }

    /// The next frame of a host, if it has one to send.
    #[inline]
    fn poll_host(&mut self, at: usize) -> Option<SimFrame> {
        let ns = self.ns();
        if let Some(nic) = self.hosts[at].only_flows() {
            let frame = nic.poll_transmit(ns)?;
            let to = self.address(frame.bytes());
            return Some(self.spares.headers(&frame, to));
        }
        let frame = self.hosts[at].poll_transmit(ns)?;
        let to = self.address(frame.bytes());
        Some(self.spares.frame(frame, to))
    }

    #[inline(never)]
    fn transmit_from_host(&mut self, dir: usize, at: usize) {
        let ns = self.ns();
        let polled = self.poll_host(at);
        let mut host = &mut self.hosts[at];
        if let Some(frame) = polled {
            let (stamp, sends_once, left) = (host.carried(), host.sends_once(), host.take_left());
            let mut frame = frame.carrying(stamp);
            if self.latency.is_some() {
                let (tx, delay) = (self.spec.host.tx_delay.0 * PS, self.dirs[dir].delay);
                frame.set_journey(Journey::new(dir, self.now, tx, delay));
            }
            self.start_transmission(dir, frame);
            if let Some(flow) = left {
                self.note_pause(flow);
            }
            self.note_acknowledged(at);
            if sends_once {
                // The queue that it has left may have room for a response.
                self.read(dir);
            }
            host = &mut self.hosts[at];
        }
        if let Some(late) = host.take_late() {
            self.arrived(&late);
            host = &mut self.hosts[at];
        }
        let next = host.next_transmit(ns);
        self.schedule_next_wake(dir, next);
    }

    #[inline(never)]
    fn transmit_from_switch(&mut self, dir: usize, s: usize, at: usize) {
        let (ns, port) = (self.ns(), PortId(at as u16));
        if self.switches[s].core.is_some() {
            return self.try_transmit_core(dir, s, at);
        }
        let node = &mut self.switches[s];
        // Without a crossbar there is one part.
        let queued = self.latency.as_ref().map(|_| queued_frames(node.part(at), port));
        let tap = node.transmit(0, port, ns);
        if let Some(frame) = tap.control {
            self.note_pfc(s, at, &frame);
            self.start_transmission(dir, frame);
        } else if let Some(mut frame) = tap.data {
            if let Some(before) = queued {
                self.leaves(dir, s, port, &before, &mut frame);
            }
            self.measure_departure(s, at, frame.len() as u64);
            self.depart(dir, s, port, frame);
            self.frame_left(s);
        }
        let next = self.switches[s].part_mut(at).next_event(port, ns);
        self.schedule_next_wake(dir, next);
    }

    /// A data frame leaves a switch by its line.
    #[inline]
    fn depart(&mut self, dir: usize, s: usize, port: PortId, mut frame: SimFrame) {
        self.stamp(dir, s, port, &mut frame);
        self.start_transmission(dir, frame);
    }

    /// A frame that has come to `at` leaves by `port` at once, if that holds nothing and its line is free: as nearly all do where little
    /// is under way. Else it is given back, to be received.
    #[inline]
    fn pass(&mut self, at: End, port: usize, frame: SimFrame) -> Result<(), SimFrame> {
        let (s, dir, ns) = (at.node - self.plan.hosts, self.out[at.node][port], self.ns());
        let node = &mut self.switches[s];
        if self.lines[dir].transmitter.free() > self.now || node.core.is_some() || self.latency.is_some() {
            return Err(frame);
        }
        let (switch, from, to) = (node.part_mut(port), PortId(at.port as u16), PortId(port as u16));
        let Passed { frame, mut next } = switch.pass_one(from, to, frame, ns)?;
        self.measure_passing(s, port, frame.len() as u64);
        self.depart(dir, s, to, frame);
        if self.switches[s].pausing > 0 {
            // Who is told to go on may be told by this port.
            self.resume(s);
            next = self.switches[s].part_mut(port).next_event(to, ns);
        }
        self.schedule_next_wake(dir, next);
        Ok(())
    }

    /// A data frame is about to leave a switch: it takes a record along if its sender wants one.
    #[inline]
    pub(super) fn stamp(&mut self, dir: usize, s: usize, port: PortId, frame: &mut SimFrame) {
        if self.telemetry.is_some() {
            self.stamp_wanted(dir, s, port, frame);
        }
    }

    #[inline(never)]
    fn stamp_wanted(&mut self, dir: usize, s: usize, port: PortId, frame: &mut SimFrame) {
        if let Some(telemetry) = &mut self.telemetry
            && let Some(stamp) = frame.stamp_mut()
        {
            let line = &self.lines[dir];
            let queued = self.switches[s].waiting_bytes(port.index());
            let now = self.now_ns;
            telemetry.stamp(
                stamp,
                &Leaving { dir, now, rate: self.dirs[dir].rate.bps(), sent: line.bytes, queued },
            );
        }
    }

    /// The sender of `dir` may have something at `next`.
    #[inline]
    pub(super) fn schedule_next_wake(&mut self, dir: usize, next: Option<Nanos>) {
        let Some(at) = next else { return };
        let free = self.lines[dir].transmitter.free();
        // What there is by now goes when the line is free, even within this nanosecond.
        if free > self.now && (at <= self.ns() || at.saturating_mul(PS) <= free) {
            self.await_free(dir);
        } else {
            self.wake_at(dir, at);
        }
    }

    /// A frame left: where nothing is held back nothing can resume.
    #[inline]
    pub(super) fn frame_left(&mut self, s: usize) {
        if self.switches[s].pausing > 0 {
            self.resume(s);
        }
    }

    /// Tells whom switch `s` need not hold back any more.
    fn resume(&mut self, s: usize) {
        if self.ns() >= self.switches[s].refresh_at {
            return self.run_switch_timers(s);
        }
        if let Some(resumed) = self.tick(s) {
            resumed.iter().for_each(|port| _ = self.send_due_pfc(s, port.index()));
        }
    }

    /// A switch looks at its groups and queues. Returns the ports whose peer may go on, if there may be any.
    #[inline]
    fn tick(&mut self, s: usize) -> Option<PortSet> {
        let (ns, node) = (self.ns(), &mut self.switches[s]);
        node.watch(ns);
        node.parts.iter_mut().for_each(|part| part.tick(ns));
        // Nearly always there is none.
        node.parts.iter().any(FabricSwitch::has_news).then(|| self.hear_news(s))
    }

    /// What ticks of a switch have brought.
    #[inline(never)]
    fn hear_news(&mut self, s: usize) -> PortSet {
        let ns = self.ns();
        let news = |part: &mut FabricSwitch| (part.take_resumed(), part.take_flushed());
        let (resumed, flushed) = self.switches[s]
            .parts
            .iter_mut()
            .map(news)
            .fold((PortSet::EMPTY, false), |(all, any), (ports, flushed)| (all.union(&ports), any | flushed));
        if flushed {
            self.measure_drops(s);
            // What is left goes with the next ticks, whatever else keeps the line of the queue busy.
            self.tick_at(s, ns + 1);
        }
        resumed
    }

    /// Lets switch `s` tick at `ns`.
    fn tick_at(&mut self, s: usize, ns: Nanos) {
        let at = ns.max(self.ns()).saturating_mul(PS);
        let node = &mut self.switches[s];
        if at < node.tick_at {
            node.tick_at = at;
            self.at(at, Event::Tick { switch: s as u32 });
        }
    }

    /// Switch `s` ticks on time: its watchdogs look, and what they shut is emptied.
    fn ticked(&mut self, s: usize) {
        if self.switches[s].tick_at <= self.now {
            self.switches[s].tick_at = Ps::MAX;
        }
        self.run_switch_timers(s);
        self.kick_core(s);
        self.tick_at(s, self.switches[s].next_look());
    }

    /// What a switch does on no frame's account: ticks, and PFC frames that have become due anywhere.
    pub(super) fn run_switch_timers(&mut self, s: usize) {
        self.tick(s);
        let next = (0..self.switches[s].gauges.len()).map(|port| self.send_due_pfc(s, port)).min();
        self.switches[s].refresh_at = next.unwrap_or(Nanos::MAX);
    }

    /// Lets `port` of switch `s` send a PFC frame, if one is due. Returns when the next one is.
    fn send_due_pfc(&mut self, s: usize, port: usize) -> Nanos {
        // Without a pause there is nothing that could go on, or must be told again.
        if self.switches[s].holding[port] == 0 {
            return Nanos::MAX;
        }
        let id = PortId(port as u16);
        if self.switches[s].part(port).generator(id).due(self.ns()) {
            self.try_transmit(self.out[self.plan.hosts + s][port]);
        }
        self.switches[s].part(port).generator(id).next_deadline()
    }

    /// Puts a frame on the wire now.
    pub(super) fn start_transmission(&mut self, dir: usize, frame: SimFrame) {
        let line = &mut self.lines[dir];
        let (rate, to) = (line.transmitter.rate(), line.to.node);
        let len = frame.len() as u64;
        // Who has an address is no pause frame.
        let is_pause = frame.to().is_none() && is_mac_control(frame.bytes());
        let begin = self.now + line.spans[usize::from(is_pause)];
        let tail = begin + rate.takes(len.max(MIN_FRAME_BYTES) + FCS_AND_PREAMBLE);
        line.transmitter.occupy(self.now, wire_bytes(len));
        line.carried += 1;
        line.bytes += wire_bytes(len);
        if let Some(telemetry) = &mut self.telemetry {
            telemetry.sent(dir, wire_bytes(len), self.now_ns);
        }
        let lost = line.loses(is_pause);
        self.frames_sent += u64::from(!is_pause);
        if lost {
            return;
        }
        let cuts_through =
            self.spec.switch.forwarding == Forwarding::CutThrough && !is_pause && to >= self.plan.hosts;
        let head = if cuts_through { begin + rate.takes(HEAD_BYTES) } else { tail };
        let (is_head, time, dir) = (head < tail, head.min(tail), dir as u32);
        if let Some(membership) = &mut self.membership
            && let Some(group) = membership.other(to)
        {
            let message = Message::Frame { time, tail, dir, is_head, frame };
            return membership.send(group, self.queue.asked_elsewhere(), message);
        }
        let slot = self.keep(Flying { frame: Some(frame), tail, dir });
        self.at(time, if is_head { Event::Head { dir, slot } } else { Event::Arrive { dir, slot } });
    }

    /// Keeps a frame that is on its way.
    #[inline]
    pub(super) fn keep(&mut self, flying: Flying) -> u32 {
        match self.unused.pop() {
            Some(slot) => {
                self.slab[slot as usize] = flying;
                slot
            }
            None => {
                self.slab.push(flying);
                self.slab.len() as u32 - 1
            }
        }
    }

    /// The headers are in: the frame may cut through if nothing is in its way.
    pub(super) fn head(&mut self, dir: usize, slot: u32) {
        let (mut frame, tail) = (self.slab[slot as usize].frame.take(), self.slab[slot as usize].tail);
        let to = self.dirs[dir].to;
        let s = to.node - self.plan.hosts;
        let egress = frame.as_mut().and_then(|frame| {
            let egress = self.egress(to, frame);
            frame.set_egress(egress);
            egress
        });
        self.slab[slot as usize].frame = frame;
        let clear = egress.is_some_and(|port| {
            let out = self.out[to.node][port];
            let (switch, id) = (self.switches[s].part(port), PortId(port as u16));
            self.lines[out].transmitter.free() <= self.now
                && self.dirs[out].rate.bps() <= self.dirs[dir].rate.bps()
                && (0..PRIORITIES).all(|queue| switch.queue_frames(id, queue) == 0)
                && switch.reaction(id).queues_paused_at(self.ns()) == 0
                && !switch.generator(id).due(self.ns())
        });
        if clear {
            self.arrive(dir, slot);
        } else {
            self.at(tail, Event::Arrive { dir: dir as u32, slot });
        }
    }

    pub(super) fn arrive(&mut self, dir: usize, slot: u32) {
        let frame = self.slab[slot as usize].frame.take();
        self.unused.push(slot);
        let Some(mut frame) = frame else { return };
        let (to, ns) = (self.dirs[dir].to, self.ns());
        if to.node < self.plan.hosts {
            let host = &mut self.hosts[to.node];
            let before = self.latency.as_ref().and_then(|_| host.frames_taken());
            let arrival = host.handle_frame(&frame, ns);
            let taken = before.map_or(arrival.is_some(), |before| host.frames_taken() > Some(before));
            if let (Some(latency), Some(journey)) = (&mut self.latency, frame.take_journey()) {
                latency.arrived(*journey, self.now, self.spec.host.rx_delay.0 * PS, taken);
            }
            self.spares.put(frame);
            if let Some(arrival) = arrival {
                self.arrived(&arrival);
            }
            self.note_acknowledged(to.node);
            // It has one port, and this is the other direction of its link.
            let back = dir ^ 1;
            if self.hosts[to.node].is_as_told() && self.lines[back].waits(self.now, ns) {
                return;
            }
            return self.try_transmit(back);
        }
        let s = to.node - self.plan.hosts;
        if frame.to().is_none() && !is_mac_control(frame.bytes()) {
            return self.arrive_for_many(to, frame);
        }
        let known = frame.take_egress();
        let egress = known.or_else(|| self.egress(to, &mut frame));
        if let (Some(port), Some(journey)) = (egress, frame.journey()) {
            self.admit(s, journey, port..port + 1);
        }
        let frame = match egress {
            None => frame,
            Some(port) => match self.pass(to, port, frame) {
                Ok(()) => return,
                Err(frame) => frame,
            },
        };
        let node = &mut self.switches[s];
        if let (Some(_), Some(port)) = (&node.core, egress) {
            node.receive_to_cross(to.port, port..port + 1, frame, ns);
        } else if egress.is_none() && is_mac_control(frame.bytes()) {
            node.receive_pfc(to.port, &frame, ns);
        } else {
            node.receive(to.port, frame, ns);
        }
        let switch = self.switches[s].part(to.port);
        // What came in can only have filled its own groups.
        let due = switch.generator(PortId(to.port as u16)).due(ns);
        if let Some(port) = egress {
            self.measure(s, port);
        }
        let back = dir ^ 1;
        if due {
            self.try_transmit(back);
        }
        self.kick_core(s);
        // A pause frame ends or begins something at the port it came in by.
        self.try_transmit(egress.map_or(back, |port| self.out[to.node][port]));
    }

    /// A frame is about to be admitted to switch `s`, and may leave it by these ports: its account says so.
    #[cold]
    fn admit(&self, s: usize, journey: &mut Journey, ports: Range<usize>) {
        let (node, ns, spec) = (&self.switches[s], self.ns(), &self.spec.switch);
        let held = ports.map(|port| {
            let reaction = node.part(port).reaction(PortId(port as u16));
            (port, std::array::from_fn(|queue| reaction.held_ns(queue, ns)))
        });
        journey.admit(self.now, spec.ingress.0 * PS, spec.crossbar.0 * PS, held);
    }

    /// A frame for a group has come to a port of a switch.
    #[cold]
    fn arrive_for_many(&mut self, to: End, mut frame: SimFrame) {
        let (s, ns) = (to.node - self.plan.hosts, self.ns());
        let ports = self.switches[s].gauges.len();
        if let Some(journey) = frame.journey() {
            self.admit(s, journey, 0..ports);
        }
        let node = &mut self.switches[s];
        let held = |node: &SwitchNode| -> Vec<u32> {
            let of_port = |port: usize| queued_frames(node.part(to.port), PortId(port as u16)).iter().sum();
            (0..ports).map(of_port).collect()
        };
        let before = held(node);
        match node.core {
            None => node.receive(to.port, frame, ns),
            Some(_) => node.receive_to_cross(to.port, 0..ports, frame, ns),
        }
        let after = held(node);
        let copied: Vec<usize> = (0..ports).filter(|port| after[*port] > before[*port]).collect();
        let due = node.part(to.port).generator(PortId(to.port as u16)).due(ns);
        copied.iter().for_each(|port| self.measure(s, *port));
        if due {
            self.try_transmit(self.out[to.node][to.port]);
        }
        self.kick_core(s);
        for port in copied {
            self.try_transmit(self.out[to.node][port]);
        }
    }

    fn arrived(&mut self, arrival: &Arrival) {
        // Endless flows never end.
        self.ended += arrival.ended as usize;
        if arrival.delivered {
            self.delivered(arrival.flow);
        }
        self.timeline.delivered(self.rate_of[arrival.flow as usize], self.ns(), arrival.bytes);
    }

    pub(super) fn delivered(&mut self, flow: u32) {
        let planned = &self.flows[flow as usize];
        self.done += usize::from(is_finite(planned));
        // A rank has sent its part long before.
        if planned.seat.is_some() {
            self.note_pause(flow);
        }
        self.received(flow);
    }
}
