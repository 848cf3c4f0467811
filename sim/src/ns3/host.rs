//! A host of the reference: one port, paced senders, receivers that answer every frame.
use weir_dataplane::types::Nanos;
use weir_endpoint::congestion::Ack;
use weir_endpoint::dcqcn::ns3::{Params, Step, Timer};

use super::cell::{Cell, Key, Kind};
use super::control::{Controller, Heeded};
use super::flow::{AlphaTicks, Arm, FlowRx};
use super::record::{RateChange, Recorder};
use super::sim::Sim;

/// One host.
#[derive(Debug)]
pub struct Host {
    /// Its port, global number.
    pub port: u32,
    /// Flows that send from here, in the order of their start; finished ones leave when passed.
    pub flows: Vec<u32>,
    /// Place in `flows` of the flow that sent last.
    pub last: usize,
    /// The wake-up that is pending. One that has been replaced still comes, and is no longer this one.
    pub wake: Option<Key>,
    /// Rate machine of its flows.
    pub params: Params,
    /// How their alpha timers run.
    pub ticks: AlphaTicks,
}

/// What all hosts counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HostTotals {
    /// Data frames sent.
    pub data_sent: u64,
    /// ACKs and NACKs received.
    pub acks_received: u64,
    /// ACKs and NACKs received that told of congestion.
    pub acks_with_cnp: u64,
    /// NACKs sent.
    pub nacks: u64,
}

impl<R: Recorder> Sim<R> {
    /// Frame `index` arrived at the port of a host.
    #[inline]
    pub(super) fn host_receive(&mut self, index: u32, port: u32) {
        let cell = *self.engine.slab.get(index);
        let host = self.ports[port as usize].owner;
        match cell.kind {
            Kind::Data => self.receive_data(index, port, &cell),
            Kind::Ack | Kind::Nack => {
                self.receive_ack(index, &cell);
                self.engine.slab.release(index);
                self.kick_host(host);
            }
            _ => {
                self.obey_pfc(index, port, &cell);
                if cell.kind == Kind::Resume {
                    self.kick_host(host);
                }
            }
        }
    }

    /// The answer to a data frame takes the frame's place.
    #[inline]
    fn receive_data(&mut self, index: u32, port: u32, cell: &Cell) {
        let payload = u32::from(cell.bytes - self.sizes.headers);
        let (now, interval) = (self.engine.now(), self.nack_interval);
        let answer = self.receivers[cell.flow as usize].receive(cell.psn, payload, now, interval);
        let Some((kind, psn)) = answer else {
            self.engine.slab.release(index);
            return;
        };
        self.totals.nacks += u64::from(kind == Kind::Nack);
        if kind == Kind::Ack && self.flows[cell.flow as usize].finished.is_none() {
            self.recorder.delivered(self.engine.now(), cell.flow, payload);
        }
        *self.engine.slab.get_mut(index) = Cell { kind, psn, bytes: self.sizes.ack, ..*cell };
        let p = &mut self.ports[port as usize];
        self.engine.slab.push(&mut p.queues[0], index);
        p.backlog |= 1;
        let host = p.owner;
        self.kick_host(host);
    }

    #[inline]
    fn receive_ack(&mut self, index: u32, cell: &Cell) {
        let now = self.engine.now();
        self.totals.acks_received += 1;
        self.totals.acks_with_cnp += u64::from(cell.marked);
        let flow = &mut self.flows[cell.flow as usize];
        if cell.kind == Kind::Nack {
            self.recorder.nack_received(now, cell.flow, cell.psn);
        }
        if flow.finished.is_some() {
            return;
        }
        flow.acked = flow.acked.max(cell.psn);
        if flow.acked >= flow.spec.bytes {
            flow.finished = Some(now);
            flow.timers.stop();
            self.recorder.completed(now, cell.flow);
            // As published: the receiver forgets it, and takes what still comes of it for a new flow that lacks its first byte.
            self.receivers[cell.flow as usize] = FlowRx::default();
        }
        if cell.kind == Kind::Nack {
            flow.next = flow.acked;
        }
        match flow.controller {
            Controller::Line(_) => {}
            Controller::Dcqcn(_) if cell.marked => self.receive_cnp(cell.flow),
            Controller::Dcqcn(_) => {}
            _ => self.heed(index, cell),
        }
    }

    /// An acknowledgement goes to a sender that is driven by them.
    fn heed(&mut self, index: u32, cell: &Cell) {
        let now = self.engine.now();
        let (stamp, draw) = match &mut self.telemetry {
            Some(telemetry) => (telemetry.stamp(index), telemetry.draw()),
            None => Default::default(),
        };
        let flow = &mut self.flows[cell.flow as usize];
        let ack = Ack {
            now,
            acked: cell.psn.into(),
            next: flow.next.into(),
            rtt: now - stamp.sent,
            marks: cell.marked.into(),
            hops: stamp.hops(),
            power: stamp.power(),
            draw,
        };
        let before = flow.controller.rate_bps();
        let Some(update) = flow.controller.on_ack(&ack) else { return };
        if update.moves_next_send() {
            flow.rate_changed_at_once(before);
            let (src, next_send) = (flow.spec.src, flow.next_send);
            self.wake_earlier(src, next_send);
        } else {
            flow.rate_changed();
        }
        let flow = &self.flows[cell.flow as usize];
        let (controller, window) = (&flow.controller, flow.window_bytes());
        self.recorder.heeded(&Heeded { at: now, flow: cell.flow, ack, update, controller, window });
    }

    /// A flow of host `h` may send at `at`: a later wake-up moves there.
    fn wake_earlier(&mut self, h: u32, at: Nanos) {
        if self.hosts[h as usize].wake.is_some_and(|wake| at < wake.at) {
            self.wake_at(h, at.max(self.engine.now()));
        }
    }

    fn wake_at(&mut self, h: u32, at: Nanos) {
        let key = self.engine.reserve(at);
        self.hosts[h as usize].wake = Some(key);
        let index = self.engine.slab.alloc(Cell::event(Kind::Wake, h));
        self.engine.schedule_reserved(index, key);
    }

    fn receive_cnp(&mut self, f: u32) {
        let now = self.engine.now();
        let flow = &mut self.flows[f as usize];
        let Controller::Dcqcn(sender) = &mut flow.controller else { return };
        let host = &self.hosts[flow.spec.src as usize];
        let counted = match host.ticks {
            AlphaTicks::BeforeCnp => now,
            AlphaTicks::AfterCnp | AlphaTicks::Events => now.saturating_sub(1),
        };
        let ticks = flow.timers.take_ticks(counted, host.params.alpha_period.get());
        sender.move_alpha(&host.params, ticks);
        let mut arm = Arm { engine: &mut self.engine, timers: &mut flow.timers, flow: f, ticks: host.ticks };
        let step = sender.on_cnp(&host.params, now, &mut arm);
        if step == Step::First {
            self.rate_event(f, step);
        }
    }

    /// A timer of flow `f` ran.
    pub(super) fn flow_timer(&mut self, f: u32, timer: Timer) {
        let now = self.engine.now();
        let flow = &mut self.flows[f as usize];
        if !flow.timers.is_due(&mut self.engine, f, timer) {
            return;
        }
        let Controller::Dcqcn(sender) = &mut flow.controller else { return };
        let host = &self.hosts[flow.spec.src as usize];
        if timer == Timer::Increase || sender.cut_due() {
            let ticks = flow.timers.take_ticks(now, host.params.alpha_period.get());
            sender.move_alpha(&host.params, ticks);
        }
        let mut arm = Arm { engine: &mut self.engine, timers: &mut flow.timers, flow: f, ticks: host.ticks };
        let step = sender.on_timer(&host.params, timer, now, &mut arm);
        if matches!(step, Step::Cut | Step::Raise) {
            self.rate_event(f, step);
        }
    }

    fn rate_event(&mut self, f: u32, step: Step) {
        let flow = &mut self.flows[f as usize];
        flow.rate_changed();
        let Controller::Dcqcn(sender) = &flow.controller else { return };
        self.recorder.rate_changed(RateChange {
            at: self.engine.now(),
            flow: f,
            step,
            rate: sender.rate_bps(),
            target: sender.target_bps(),
            alpha: sender.alpha(),
            stage: sender.stage(),
        });
    }

    /// Flow `f` begins.
    pub(super) fn start_flow(&mut self, f: u32) {
        let flow = &mut self.flows[f as usize];
        flow.next_send = self.engine.now();
        let src = flow.spec.src;
        self.hosts[src as usize].flows.push(f);
        self.kick_host(src);
    }

    /// Sends the next frame of a host, if the line is free.
    pub(super) fn kick_host(&mut self, h: u32) {
        let port = self.hosts[h as usize].port;
        if !self.line_is_free(port) {
            return;
        }
        let p = &mut self.ports[port as usize];
        if p.backlog & 1 != 0 && p.paused >> self.ack_gate & 1 == 0 {
            let index = self.engine.slab.pop(&mut p.queues[0]);
            if p.queues[0].is_empty() {
                p.backlog = 0;
            }
            self.recorder.answer_sent();
            return self.send(h, port, index);
        }
        let Some(f) = self.choose_flow(h) else {
            return self.set_wake(h);
        };
        let flow = &mut self.flows[f as usize];
        let (psn, bytes) = flow.take_frame(self.engine.now());
        let again = psn < flow.highest;
        flow.highest = flow.highest.max(flow.next);
        self.recorder.data_sent(f, again);
        let cell = Cell { flow: f, psn, bytes, prio: flow.spec.prio, ..Cell::event(Kind::Data, 0) };
        self.totals.data_sent += 1;
        let index = self.engine.slab.alloc(cell);
        if let Some(telemetry) = &mut self.telemetry {
            telemetry.begin(index, self.engine.now());
        }
        self.send(h, port, index);
    }

    #[inline]
    fn send(&mut self, h: u32, port: u32, index: u32) {
        self.transmit(port, index);
        // A finished flow is waited for, too: it leaves the list when the next turn is taken.
        let waits = |&f: &u32| {
            let flow = &self.flows[f as usize];
            flow.has_more() || flow.finished.is_some()
        };
        if self.ports[port as usize].backlog != 0 || self.hosts[h as usize].flows.iter().any(waits) {
            self.schedule_free(port);
        }
    }

    /// The flow whose turn it is: round robin over those that may send now.
    #[inline]
    fn choose_flow(&mut self, h: u32) -> Option<u32> {
        let now = self.engine.now();
        let host = &self.hosts[h as usize];
        let paused = self.ports[host.port as usize].paused;
        let count = host.flows.len();
        let mut finished = usize::MAX;
        let mut chosen = None;
        let mut place = host.last;
        for _ in 0..count {
            place = if place + 1 < count { place + 1 } else { (place + 1) % count };
            let flow = &self.flows[host.flows[place] as usize];
            let held = paused >> flow.spec.prio & 1 != 0 || flow.window_full();
            if flow.has_more() && !held {
                if flow.next_send <= now {
                    chosen = Some(host.flows[place]);
                    break;
                }
            } else if flow.finished.is_some() {
                finished = finished.min(place);
            }
        }
        let host = &mut self.hosts[h as usize];
        if finished < count {
            // From the first finished one that was passed on; those before it stay until they are passed.
            let flows = &self.flows;
            let mut at = 0;
            host.flows.retain(|&f| {
                at += 1;
                at <= finished || flows[f as usize].finished.is_none()
            });
            place = host.flows.iter().position(|&f| Some(f) == chosen).unwrap_or(0);
        }
        if chosen.is_some() {
            host.last = place;
        }
        chosen
    }

    /// Nothing may be sent now: looks again when the first flow's time comes.
    #[inline]
    fn set_wake(&mut self, h: u32) {
        let host = &self.hosts[h as usize];
        if host.wake.is_some() {
            return;
        }
        let waiting = host.flows.iter().map(|&f| &self.flows[f as usize]).filter(|flow| flow.has_more());
        let next: Option<Nanos> = waiting.map(|flow| flow.next_send).min();
        if let Some(at) = next.filter(|&at| at > self.engine.now()) {
            self.wake_at(h, at);
        }
    }

    /// A wake-up of host `h` ran.
    pub(super) fn wake_host(&mut self, h: u32) {
        let rank = self.engine.rank();
        let wake = &mut self.hosts[h as usize].wake;
        if wake.is_some_and(|wake| wake.rank == rank) {
            *wake = None;
            self.kick_host(h);
        }
    }
}
