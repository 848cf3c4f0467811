//! A host of the reference: one port, paced senders, receivers that answer every frame.
use weir_dataplane::types::Nanos;
use weir_endpoint::dcqcn::ns3::{Params, Step, Timer};

use super::cell::{Cell, Kind};
use super::flow::{AlphaTicks, Arm};
use super::port::{ACK_BYTES, HEADERS};
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
    /// A wake-up is pending.
    pub wake: bool,
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
                self.engine.slab.release(index);
                self.receive_ack(&cell);
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
        let payload = u32::from(cell.bytes - HEADERS);
        let answer = self.receivers[cell.flow as usize].receive(cell.psn, payload, self.engine.now());
        let Some((kind, psn)) = answer else {
            self.engine.slab.release(index);
            return;
        };
        self.totals.nacks += u64::from(kind == Kind::Nack);
        if kind == Kind::Ack {
            self.recorder.delivered(self.engine.now(), cell.flow, payload);
        }
        *self.engine.slab.get_mut(index) = Cell { kind, psn, bytes: ACK_BYTES, ..*cell };
        let p = &mut self.ports[port as usize];
        self.engine.slab.push(&mut p.queues[0], index);
        p.backlog |= 1;
        let host = p.owner;
        self.kick_host(host);
    }

    #[inline]
    fn receive_ack(&mut self, cell: &Cell) {
        let now = self.engine.now();
        self.totals.acks_received += 1;
        let flow = &mut self.flows[cell.flow as usize];
        flow.acked = flow.acked.max(cell.psn);
        if flow.acked >= flow.spec.bytes && flow.finished.is_none() {
            flow.finished = Some(now);
            flow.timers.stop();
        }
        if cell.kind == Kind::Nack {
            flow.next = flow.acked;
        }
        if cell.marked {
            self.totals.acks_with_cnp += 1;
            if self.rate_control {
                self.receive_cnp(cell.flow);
            }
        }
    }

    fn receive_cnp(&mut self, f: u32) {
        let now = self.engine.now();
        let flow = &mut self.flows[f as usize];
        let host = &self.hosts[flow.spec.src as usize];
        let counted = match host.ticks {
            AlphaTicks::BeforeCnp => now,
            AlphaTicks::AfterCnp | AlphaTicks::Events => now.saturating_sub(1),
        };
        let ticks = flow.timers.take_ticks(counted, host.params.alpha_period.get());
        flow.sender.move_alpha(&host.params, ticks);
        let mut arm = Arm { engine: &mut self.engine, timers: &mut flow.timers, flow: f, ticks: host.ticks };
        let step = flow.sender.on_cnp(&host.params, now, &mut arm);
        if step == Step::First {
            self.rate_event(f, step);
        }
    }

    /// A timer of flow `f` ran.
    pub(super) fn flow_timer(&mut self, f: u32, timer: Timer, rank: u64) {
        let now = self.engine.now();
        let flow = &mut self.flows[f as usize];
        if !flow.timers.is_due(&mut self.engine, f, timer, rank) {
            return;
        }
        let host = &self.hosts[flow.spec.src as usize];
        if timer == Timer::Increase || flow.sender.cut_due() {
            let ticks = flow.timers.take_ticks(now, host.params.alpha_period.get());
            flow.sender.move_alpha(&host.params, ticks);
        }
        let mut arm = Arm { engine: &mut self.engine, timers: &mut flow.timers, flow: f, ticks: host.ticks };
        let step = flow.sender.on_timer(&host.params, timer, now, &mut arm);
        if matches!(step, Step::Cut | Step::Raise) {
            self.rate_event(f, step);
        }
    }

    fn rate_event(&mut self, f: u32, step: Step) {
        let flow = &mut self.flows[f as usize];
        flow.rate_changed();
        self.recorder.rate_changed(RateChange {
            at: self.engine.now(),
            flow: f,
            step,
            rate: flow.sender.rate_bps(),
            target: flow.sender.target_bps(),
            alpha: flow.sender.alpha(),
            stage: flow.sender.stage(),
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
        self.send(h, port, index);
    }

    #[inline]
    fn send(&mut self, h: u32, port: u32, index: u32) {
        self.transmit(port, index);
        let more = self.ports[port as usize].backlog != 0
            || self.hosts[h as usize].flows.iter().any(|&f| self.flows[f as usize].has_more());
        if more {
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
        let mut finished = false;
        let mut chosen = None;
        let mut place = host.last;
        for _ in 0..count {
            place = if place + 1 < count { place + 1 } else { (place + 1) % count };
            let flow = &self.flows[host.flows[place] as usize];
            finished |= flow.finished.is_some();
            let held = paused >> flow.spec.prio & 1 != 0 || flow.window_full(host.params.line_bps);
            if flow.has_more() && !held && flow.next_send <= now {
                chosen = Some(host.flows[place]);
                break;
            }
        }
        let host = &mut self.hosts[h as usize];
        if finished {
            let flows = &self.flows;
            host.flows.retain(|&f| flows[f as usize].finished.is_none());
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
        let host = &mut self.hosts[h as usize];
        if host.wake {
            return;
        }
        let waiting = host.flows.iter().map(|&f| &self.flows[f as usize]).filter(|flow| flow.has_more());
        let next: Option<Nanos> = waiting.map(|flow| flow.next_send).min();
        if let Some(at) = next.filter(|&at| at > self.engine.now()) {
            host.wake = true;
            self.engine.post(Cell::event(Kind::Wake, h), at);
        }
    }

    /// The wake-up of host `h` ran.
    pub(super) fn wake_host(&mut self, h: u32) {
        self.hosts[h as usize].wake = false;
        self.kick_host(h);
    }
}
