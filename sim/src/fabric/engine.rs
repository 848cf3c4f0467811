//! The event loop: frames on wires, switches and hosts called when something is due.

mod core;

use super::agenda::Agenda;
use super::congestion::{Leaving, Telemetry};
use super::hosts::{self, Host, Opening};
use super::latency::{Journey, LatencyRecorder};
use super::links::{Direction, directions};
use super::parcel::{Address, Parcel};
use super::play::{Progress, lanes, port_names};
use super::reasons::Context;
use super::report::{FlowResult, HostResult, LinkResult, PortResult, Report, Sample, Spread, SwitchResult};
use super::routes::Routes;
use super::spec::{Congestion, FabricSpec, Forwarding};
use super::time::{PS, Ps};
use super::timeline::Tape;
use super::topology::{Plan, lay_out};
use super::workload::{Planned, flows, is_finite};
use super::{FabricError, switches};
use core::Core;
use std::collections::BTreeMap;
use weir_config::Config;
use weir_dataplane::drops::DropReason;
use weir_dataplane::frame::Frame;
use weir_dataplane::pfc::frame::CONTROL_DA;
use weir_dataplane::rng::Rng;
use weir_dataplane::stats::PortStats;
use weir_dataplane::switch::{Switch, Wire};
use weir_dataplane::types::{Burst, MIN_FRAME_BYTES, Mac, Nanos, PRIORITIES, PortId, wire_bytes};
use weir_endpoint::flow::HeaderFrame;

/// FCS and preamble: what is on the wire of a frame before its last bit.
const FCS_AND_PREAMBLE: u64 = 12;
/// Events between two looks at the progress.
const EVENTS_PER_STEP: u64 = 1 << 16;
/// Bytes after which a cut-through switch has seen all headers: a shortest frame.
const HEAD_BYTES: u64 = MIN_FRAME_BYTES + FCS_AND_PREAMBLE;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum What {
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
    /// Time to record.
    Sample,
}

/// A frame on its way and when its last bit arrives.
#[derive(Debug)]
struct Flying {
    /// `None`: it has arrived.
    frame: Option<Parcel>,
    tail: Ps,
}

/// What a switch hands to the wire in one call.
#[derive(Default)]
struct Tap {
    data: Option<Parcel>,
    control: Option<Parcel>,
}

impl Wire<Parcel> for Tap {
    fn send(&mut self, frames: &mut Burst<Parcel>) -> usize {
        if self.control.is_some() || self.data.is_some() || frames.is_empty() {
            return 0;
        }
        self.data = Some(frames.remove(0));
        1
    }

    fn send_control(&mut self, frame: &[u8]) -> bool {
        let free = self.control.is_none() && self.data.is_none();
        if free {
            self.control = Some(Parcel::new(HeaderFrame::new(frame, frame.len()), None));
        }
        free
    }
}

/// Depth of a port's queues over time.
#[derive(Clone, Copy, Debug, Default)]
struct Gauge {
    bytes: u64,
    since: Ps,
    integral: u128,
    max: u64,
}

struct SwitchNode {
    /// The switch; with a crossbar one for each port, that receives by it.
    parts: Vec<Switch<Parcel>>,
    core: Option<Box<Core>>,
    /// Priorities it holds back, all ports together.
    pausing: i32,
    /// The same by port.
    holding: Vec<i8>,
    gauges: Vec<Gauge>,
    config: Config,
}

impl SwitchNode {
    /// What receives by `port`, and generates and obeys PFC there.
    #[inline]
    fn part(&self, port: usize) -> &Switch<Parcel> {
        &self.parts[if self.parts.len() == 1 { 0 } else { port }]
    }

    #[inline]
    fn part_mut(&mut self, port: usize) -> &mut Switch<Parcel> {
        let at = if self.parts.len() == 1 { 0 } else { port };
        &mut self.parts[at]
    }

    /// Bytes that wait for the line of `port`.
    #[inline]
    fn waiting_bytes(&self, port: usize) -> u64 {
        let id = PortId(port as u16);
        let queued =
            |part: &Switch<Parcel>| (0..PRIORITIES).map(|queue| part.queue_bytes(id, queue)).sum::<u64>();
        match &self.core {
            None => queued(&self.parts[0]),
            Some(core) => core.bytes(port) + self.parts.iter().map(queued).sum::<u64>(),
        }
    }

    /// Hands a frame to what receives by `port`; with a crossbar a PFC frame to all, as each holds frames for the port.
    fn receive(&mut self, port: usize, frame: Parcel, is_pfc: bool, ns: Nanos) {
        let (first, last) = match self.parts.len() - 1 {
            0 => (0, 0),
            last if is_pfc => (0, last),
            _ => (port, port),
        };
        let mut frame = Some(frame);
        for at in first..=last {
            let next = if at == last { frame.take() } else { frame.as_ref().and_then(Parcel::share) };
            let Some(next) = next else { continue };
            let mut burst = Burst::new();
            burst.push(next);
            self.parts[at].receive(PortId(port as u16), &mut burst, ns);
        }
    }

    /// Lets part `part` send by `port`.
    fn transmit(&mut self, part: usize, port: PortId, budget: usize, ns: Nanos) -> Tap {
        let mut tap = Tap::default();
        self.parts[part].transmit(port, budget, ns, &mut tap);
        tap
    }
}

/// A queue pair: its number at both ends.
#[derive(Clone, Copy, Debug)]
struct Pair {
    sender: u32,
    receiver: u32,
    /// Flows it was given.
    flows: usize,
}

/// Where a flow's ends are, once it has started.
#[derive(Clone, Copy, Debug)]
struct Started {
    sender: u32,
    receiver: u32,
    /// Its place among the flows of its queue pair.
    nth: usize,
    at: Nanos,
}

struct Fabric<'a> {
    spec: &'a FabricSpec,
    plan: Plan,
    routes: Routes,
    /// First address of each host, shifted, with its number; sorted.
    owners: Vec<(u64, usize)>,
    dirs: Vec<Direction>,
    /// Outgoing direction of every port of every node.
    out: Vec<Vec<usize>>,
    hosts: Vec<Host>,
    switches: Vec<SwitchNode>,
    flows: Vec<Planned>,
    started: Vec<Option<Started>>,
    /// Queue pairs, by the number of their first flow.
    pairs: Vec<Option<Pair>>,
    /// Priorities each host obeys pauses of, one bit each.
    obeyed: Vec<u8>,
    followers: Vec<Vec<u32>>,
    agenda: Agenda<What>,
    slab: Vec<Flying>,
    unused: Vec<u32>,
    /// Earliest call asked for, by direction.
    wake: Vec<Ps>,
    rng: Rng,
    telemetry: Option<Telemetry>,
    latency: Option<Box<LatencyRecorder>>,
    now: Ps,
    events: u64,
    finite: usize,
    /// Of those, flows that were delivered, and flows of which nothing more will come.
    done: usize,
    ended: usize,
    frames_sent: u64,
    samples: Vec<Sample>,
    tape: Tape,
    /// First number of each switch's ports on the tape.
    first_port: Vec<usize>,
    /// What each flow adds to on the tape.
    rate_of: Vec<usize>,
}

/// Plays `spec`.
pub(super) fn run(spec: &FabricSpec, progress: &mut dyn FnMut(Progress)) -> Result<Report, FabricError> {
    let mut fabric = Fabric::new(spec)?;
    fabric.play(progress);
    Ok(fabric.report())
}

impl<'a> Fabric<'a> {
    fn new(spec: &'a FabricSpec) -> Result<Self, FabricError> {
        if !(1..=64).contains(&spec.paths) {
            let got = spec.paths.to_string();
            return Err(FabricError::Range { what: "paths".into(), got, must: "1 to 64".into() });
        }
        hosts::check(spec)?;
        core::check(spec)?;
        let plan = lay_out(spec)?;
        let routes = Routes::new(&plan, spec.paths as usize, spec.seed);
        let flows = flows(spec, &plan, &routes)?;
        hosts::count(spec, &plan, &flows)?;
        let build = |node: usize| -> Result<SwitchNode, FabricError> {
            let rates: Vec<u64> = plan.ports[node].iter().map(|l| plan.links[*l].spec.rate.0).collect();
            let core = Core::new(spec, &rates, spec.seed ^ (node as u64) << 32)?;
            let (config, first) = switches::build(&plan, spec, &routes, node)?;
            let mut parts = vec![first];
            for _ in 1..if core.is_some() { rates.len() } else { 1 } {
                parts.push(switches::build(&plan, spec, &routes, node)?.1);
            }
            let gauges = vec![Gauge::default(); plan.ports[node].len()];
            let holding = vec![0; gauges.len()];
            Ok(SwitchNode { parts, core, pausing: 0, holding, gauges, config })
        };
        let switches = (plan.hosts..plan.names.len()).map(build).collect::<Result<Vec<_>, FabricError>>()?;
        let dirs = directions(&plan);
        let out = plan.ports.iter().enumerate().map(|(node, links)| {
            let side = |(port, link): (usize, &usize)| {
                let first = plan.links[*link].ends[0];
                link * 2 + usize::from(!(first.node == node && first.port == port))
            };
            links.iter().enumerate().map(side).collect()
        });
        let out: Vec<Vec<usize>> = out.collect();
        let configs: Vec<&Config> = switches.iter().map(|s| &s.config).collect();
        let obeyed = (0..plan.hosts).map(|host| hosts::obeyed(spec, &plan, host, &configs));
        let obeyed = obeyed.collect::<Result<Vec<u8>, _>>()?;
        let made = obeyed.iter().enumerate().map(|(host, obey)| Host::new(spec, &plan, host, *obey));
        let hosts = made.collect::<Result<_, _>>()?;
        let mut owners: Vec<(u64, usize)> =
            plan.macs.iter().enumerate().map(|(i, mac)| (mac.to_u64() >> 8, i)).collect();
        owners.sort_unstable();
        let mut followers = vec![Vec::new(); flows.len()];
        for planned in &flows {
            if let Some(before) = planned.after {
                followers[before as usize].push(planned.flow.id);
            }
        }
        let (rates, rate_of) = lanes(&plan, &flows);
        let tape = Tape::new(port_names(&plan), rates);
        let ports = |s: usize| plan.ports[plan.hosts..][..s].iter().map(Vec::len).sum();
        let first_port = (0..switches.len()).map(ports).collect();
        Ok(Self {
            tape,
            first_port,
            rate_of,
            rng: Rng::new(spec.seed ^ 0x6c69_6e6b),
            telemetry: Telemetry::new(spec, &flows, dirs.len()),
            latency: spec.latency.then(|| Box::new(LatencyRecorder::new())),
            wake: vec![Ps::MAX; dirs.len()],
            started: vec![None; flows.len()],
            pairs: vec![None; flows.len()],
            obeyed,
            finite: flows.iter().filter(|f| is_finite(f)).count(),
            spec,
            plan,
            routes,
            owners,
            dirs,
            out,
            hosts,
            switches,
            flows,
            followers,
            agenda: Agenda::new(),
            slab: Vec::new(),
            unused: Vec::new(),
            now: 0,
            events: 0,
            done: 0,
            ended: 0,
            frames_sent: 0,
            samples: Vec::new(),
        })
    }

    /// Whole nanoseconds, never before the event.
    #[inline]
    fn ns(&self) -> Nanos {
        self.now.div_ceil(PS)
    }

    #[inline]
    fn at(&mut self, time: Ps, what: What) {
        self.agenda.push(time, what);
    }

    fn play(&mut self, progress: &mut dyn FnMut(Progress)) {
        for flow in 0..self.flows.len() {
            if self.flows[flow].after.is_none() {
                let start = self.flows[flow].flow.start.saturating_mul(PS);
                self.at(start, What::Start { flow: flow as u32 });
            }
        }
        for dir in 0..self.dirs.len() {
            self.at(0, What::Wake { dir: dir as u32 });
        }
        if let Some(every) = self.spec.sample.filter(|every| every.0 > 0) {
            self.at(every.0 * PS, What::Sample);
        }
        let until = self.spec.until.0.saturating_mul(PS);
        while let Some((time, what)) = self.agenda.pop() {
            if time > until || (self.ended == self.finite && self.finite == self.flows.len()) {
                break;
            }
            self.now = time;
            self.events += 1;
            if self.events.is_multiple_of(EVENTS_PER_STEP) {
                let (now_ns, until_ns) = (self.ns(), self.spec.until.0);
                let (done, flows, events) = (self.done, self.flows.len(), self.events);
                progress(Progress { now_ns, until_ns, done, flows, events });
            }
            match what {
                What::Arrive { dir, slot } => self.arrive(dir as usize, slot),
                What::Head { dir, slot } => self.head(dir as usize, slot),
                What::Free { dir } => {
                    self.dirs[dir as usize].freeing = false;
                    self.pump(dir as usize);
                }
                What::Wake { dir } => self.woken(dir as usize),
                What::Start { flow } => self.start(flow),
                What::Slot { switch } => self.slot(switch as usize),
                What::Sample => self.sample(),
            }
        }
        if self.ended < self.finite || self.finite < self.flows.len() {
            self.now = until;
        }
    }

    fn start(&mut self, flow: u32) {
        let ns = self.ns();
        let planned = &mut self.flows[flow as usize];
        planned.flow.start = planned.flow.start.max(ns);
        let Planned { flow, from, to, pair, cc, .. } = *planned;
        let backs_off = cc == Congestion::Backoff;
        let path = planned.path as u64;
        let known = self.pairs[pair as usize];
        let Pair { sender, receiver, flows: nth } = known.unwrap_or_else(|| Pair {
            sender: self.hosts[from].next().0,
            receiver: self.hosts[to].next().1,
            flows: 0,
        });
        self.pairs[pair as usize] = Some(Pair { sender, receiver, flows: nth + 1 });
        self.started[flow.id as usize] = Some(Started { sender, receiver, nth, at: flow.start });
        if known.is_some() {
            self.hosts[to].open_more(flow, false, receiver);
            self.hosts[from].open_more(flow, true, sender);
        } else {
            let address = |host: usize| (host, Mac::from_u64(self.plan.macs[host].to_u64() + path));
            let opening = Opening { flow, path, ends: [address(from), address(to)], backs_off };
            self.hosts[to].open(&opening, false, sender);
            self.hosts[from].open(&opening, true, receiver);
        }
        self.pump(self.out[from][0]);
    }

    fn woken(&mut self, dir: usize) {
        if self.wake[dir] <= self.now {
            self.wake[dir] = Ps::MAX;
        }
        let node = self.dirs[dir].from.node;
        if node >= self.plan.hosts {
            self.settle(node - self.plan.hosts);
            self.kick_core(node - self.plan.hosts);
        }
        self.pump(dir);
    }

    fn wake_at(&mut self, dir: usize, ns: Nanos) {
        let at = ns.max(self.ns() + 1).saturating_mul(PS);
        if at < self.wake[dir] {
            self.wake[dir] = at;
            self.at(at, What::Wake { dir: dir as u32 });
        }
    }

    /// Somebody waits for the end of what `dir` sends.
    #[inline]
    fn await_free(&mut self, dir: usize) {
        let d = &mut self.dirs[dir];
        if !d.freeing {
            d.freeing = true;
            let free = d.line.free();
            self.at(free, What::Free { dir: dir as u32 });
        }
    }

    /// Lets the sender of `dir` send if its transmitter is free; else there will be a [`What::Free`].
    fn pump(&mut self, dir: usize) {
        if self.dirs[dir].line.free() > self.now {
            return self.await_free(dir);
        }
        let (from, ns) = (self.dirs[dir].from, self.ns());
        if from.node < self.plan.hosts {
            if let Some(frame) = self.hosts[from.node].poll_transmit(ns) {
                let (to, stamp) = (self.address(&frame), self.hosts[from.node].carried());
                let mut frame = Parcel::new(frame, to).carrying(stamp);
                if self.latency.is_some() {
                    let (tx, delay) = (self.spec.host.tx_delay.0 * PS, self.dirs[dir].delay);
                    *frame.journey() = Some(Box::new(Journey::new(dir, self.now, tx, delay)));
                }
                self.launch(dir, frame);
            }
            let next = self.hosts[from.node].next_transmit(ns);
            return self.come_back(dir, next);
        }
        let (s, port) = (from.node - self.plan.hosts, PortId(from.port as u16));
        if self.switches[s].core.is_some() {
            return self.pump_core(dir, s, from.port);
        }
        // Without a crossbar there is one part.
        let switch = self.switches[s].part(from.port);
        // A data frame is taken off its queue only when it can go: not beside a PFC frame.
        let budget = usize::from(!switch.generator(port).due(ns));
        let queued = self.latency.as_ref().map(|_| queued_frames(switch, port));
        let tap = self.switches[s].transmit(0, port, budget, ns);
        if let Some(frame) = tap.control {
            self.note_pfc(s, from.port, &frame);
            self.launch(dir, frame);
        } else if let Some(mut frame) = tap.data {
            self.stamp(dir, s, port, &mut frame);
            if let Some(before) = queued {
                self.leaves(dir, s, port, &before, &mut frame);
            }
            self.launch(dir, frame);
            self.measure(s, from.port);
            self.stir(s);
        }
        let next = self.switches[s].part_mut(from.port).next_event(port, ns);
        self.come_back(dir, next);
    }

    /// A data frame is about to leave a switch: it takes a record along if its sender wants one.
    #[inline]
    fn stamp(&mut self, dir: usize, s: usize, port: PortId, frame: &mut Parcel) {
        if let Some(telemetry) = &mut self.telemetry
            && let Some(stamp) = frame.stamp_mut()
        {
            let d = &self.dirs[dir];
            let queued = self.switches[s].waiting_bytes(port.index());
            let now = self.now.div_ceil(PS);
            telemetry.stamp(stamp, &Leaving { dir, now, rate: d.line.rate(), sent: d.bytes, queued });
        }
    }

    /// A data frame leaves a switch whose queues held `before` frames: its wait is over.
    fn leaves(&self, dir: usize, s: usize, port: PortId, before: &[u32; PRIORITIES], frame: &mut Parcel) {
        let Some(journey) = frame.journey() else { return };
        let switch = self.switches[s].part(port.index());
        let after = queued_frames(switch, port);
        let Some(queue) = (0..PRIORITIES).find(|q| after[*q] < before[*q]) else { return };
        let held = switch.reaction(port).held_ns(queue, self.ns());
        let (egress, delay) = (self.spec.switch.egress.0 * PS, self.dirs[dir].delay);
        journey.cross(self.now, queue, held);
        journey.leave(dir, self.now, egress, delay);
    }

    /// The sender of `dir` may have something at `next`.
    #[inline]
    fn come_back(&mut self, dir: usize, next: Option<Nanos>) {
        let Some(at) = next else { return };
        let free = self.dirs[dir].line.free();
        if free > self.now && at.saturating_mul(PS) <= free {
            self.await_free(dir);
        } else {
            self.wake_at(dir, at);
        }
    }

    #[cold]
    fn note_pfc(&mut self, s: usize, port: usize, frame: &Parcel) {
        let Some(times) = frame.bytes().get(17..18 + 2 * PRIORITIES) else { return };
        for priority in (0..PRIORITIES).filter(|p| times[0] >> p & 1 == 1) {
            let pause = times[1 + 2 * priority] | times[2 + 2 * priority] != 0;
            let more = self.tape.pfc(self.first_port[s] + port, priority, self.now.div_ceil(PS), pause);
            self.switches[s].pausing += i32::from(more);
            self.switches[s].holding[port] += more;
        }
    }

    /// A frame left: where nothing is held back nothing can resume.
    #[inline]
    fn stir(&mut self, s: usize) {
        if self.switches[s].pausing > 0 {
            self.settle(s);
        }
    }

    /// What a switch does on no frame's account: ticks, and PFC frames that have become due anywhere.
    fn settle(&mut self, s: usize) {
        let ns = self.ns();
        self.switches[s].parts.iter_mut().for_each(|part| part.tick(ns));
        // Elsewhere nothing is held back that could go on, or must be told so again.
        for port in 0..self.switches[s].gauges.len() {
            if self.switches[s].holding[port] == 0 {
                continue;
            }
            let due = self.switches[s].part(port).generator(PortId(port as u16)).due(ns);
            if due {
                self.pump(self.out[self.plan.hosts + s][port]);
            }
        }
    }

    /// Puts a frame on the wire now.
    fn launch(&mut self, dir: usize, frame: Parcel) {
        let (hosts, spec) = (self.plan.hosts, &self.spec.switch);
        let d = &mut self.dirs[dir];
        let len = frame.len() as u64;
        let is_pause = frame.bytes().starts_with(&CONTROL_DA.0);
        let from_host = d.from.node < hosts;
        let begin =
            self.now + d.delay + if from_host { self.spec.host.tx_delay.0 } else { spec.egress.0 } * PS;
        let to_switch = d.to.node >= hosts;
        let pipeline = match (to_switch, is_pause) {
            (true, _) => (spec.ingress.0 + spec.crossbar.0) * PS,
            (false, true) => self.spec.host.response.0 * PS,
            (false, false) => self.spec.host.rx_delay.0 * PS,
        };
        let tail = begin + pipeline + d.line.takes(len.max(MIN_FRAME_BYTES) + FCS_AND_PREAMBLE);
        let head = begin + pipeline + d.line.takes(HEAD_BYTES);
        d.line.occupy(self.now, wire_bytes(len));
        d.carried += 1;
        d.bytes += wire_bytes(len);
        if let Some(telemetry) = &mut self.telemetry {
            telemetry.sent(dir, wire_bytes(len), self.now.div_ceil(PS));
        }
        let lost = d.loses(is_pause, &mut self.rng);
        self.frames_sent += u64::from(!is_pause);
        let dir = dir as u32;
        if lost {
            return;
        }
        let flying = Flying { frame: Some(frame), tail };
        let slot = match self.unused.pop() {
            Some(slot) => {
                self.slab[slot as usize] = flying;
                slot
            }
            None => {
                self.slab.push(flying);
                self.slab.len() as u32 - 1
            }
        };
        if to_switch && !is_pause && spec.forwarding == Forwarding::CutThrough && head < tail {
            self.at(head, What::Head { dir, slot });
        } else {
            self.at(tail, What::Arrive { dir, slot });
        }
    }

    /// Whose address a frame bears.
    fn address(&self, frame: &HeaderFrame) -> Option<Address> {
        let mac = Mac(*frame.bytes().first_chunk()?).to_u64();
        let at = self.owners.binary_search_by_key(&(mac >> 8), |(base, _)| *base).ok()?;
        Some(Address { host: self.owners[at].1 as u32, path: (mac & 0xff) as u32 })
    }

    /// The egress port of a frame at a switch.
    #[inline]
    fn egress(&self, s: usize, frame: &Parcel) -> Option<usize> {
        let Address { host, path } = frame.to()?;
        self.routes.port(s, host as usize, path as usize)
    }

    /// The headers are in: the frame may cut through if nothing is in its way.
    fn head(&mut self, dir: usize, slot: u32) {
        let Flying { frame, tail } = &self.slab[slot as usize];
        let (tail, to) = (*tail, self.dirs[dir].to);
        let s = to.node - self.plan.hosts;
        let egress = frame.as_ref().and_then(|frame| self.egress(s, frame));
        let clear = egress.is_some_and(|port| {
            let out = &self.dirs[self.out[to.node][port]].line;
            let (switch, id) = (self.switches[s].part(port), PortId(port as u16));
            out.free() <= self.now
                && out.rate() <= self.dirs[dir].line.rate()
                && (0..PRIORITIES).all(|queue| switch.queue_frames(id, queue) == 0)
                && switch.reaction(id).queues_paused() == 0
                && !switch.generator(id).due(self.ns())
        });
        if clear {
            self.arrive(dir, slot);
        } else {
            self.at(tail, What::Arrive { dir: dir as u32, slot });
        }
    }

    fn arrive(&mut self, dir: usize, slot: u32) {
        let Some(mut frame) = self.slab[slot as usize].frame.take() else { return };
        self.unused.push(slot);
        let (to, ns) = (self.dirs[dir].to, self.ns());
        if to.node < self.plan.hosts {
            let arrival = self.hosts[to.node].handle_frame(&frame, ns);
            if let (Some(latency), Some(journey)) = (&mut self.latency, frame.journey().take()) {
                latency.arrived(*journey, self.now, self.spec.host.rx_delay.0 * PS, arrival.is_some());
            }
            if let Some(arrival) = arrival {
                // Endless flows never end.
                self.ended += arrival.ended as usize;
                if arrival.delivered {
                    self.delivered(arrival.flow);
                }
                self.tape.delivered(self.rate_of[arrival.flow as usize], ns, arrival.bytes);
            }
            return self.pump(self.out[to.node][0]);
        }
        let s = to.node - self.plan.hosts;
        let egress = self.egress(s, &frame);
        if let (Some(journey), Some(port)) = (frame.journey(), egress) {
            let reaction = self.switches[s].part(port).reaction(PortId(port as u16));
            let held = std::array::from_fn(|queue| reaction.held_ns(queue, ns));
            let spec = &self.spec.switch;
            journey.admit(self.now, spec.ingress.0 * PS, spec.crossbar.0 * PS, held);
        }
        let node = &mut self.switches[s];
        if let (Some(_), Some(port)) = (&node.core, egress) {
            let held = |node: &SwitchNode| -> u32 {
                queued_frames(node.part(to.port), PortId(port as u16)).iter().sum()
            };
            let before = held(node);
            node.receive(to.port, frame, false, ns);
            let admitted = held(node) > before;
            if let (true, Some(core)) = (admitted, &mut node.core) {
                core.admitted(to.port, port);
            }
        } else {
            let is_pfc = egress.is_none() && frame.bytes().starts_with(&CONTROL_DA.0);
            node.receive(to.port, frame, is_pfc, ns);
        }
        let switch = self.switches[s].part(to.port);
        // What came in can only have filled its own groups.
        let due = switch.generator(PortId(to.port as u16)).due(ns);
        if let Some(port) = egress {
            self.measure(s, port);
        }
        if due {
            self.pump(self.out[to.node][to.port]);
        }
        self.kick_core(s);
        // A pause frame ends or begins something at the port it came in by.
        self.pump(self.out[to.node][egress.unwrap_or(to.port)]);
    }

    fn delivered(&mut self, flow: u32) {
        self.done += usize::from(is_finite(&self.flows[flow as usize]));
        for follower in std::mem::take(&mut self.followers[flow as usize]) {
            let start = self.flows[follower as usize].flow.start.saturating_mul(PS).max(self.now);
            self.at(start, What::Start { flow: follower });
        }
    }

    /// Brings the queue depth of a port up to date.
    fn measure(&mut self, s: usize, port: usize) {
        let from = self.spec.measure_from.0.saturating_mul(PS);
        let node = &mut self.switches[s];
        let bytes = node.waiting_bytes(port);
        node.gauges[port].advance(self.now, from);
        node.gauges[port].bytes = bytes;
        node.gauges[port].max = node.gauges[port].max.max(bytes);
        self.tape.depth(self.first_port[s] + port, self.now.div_ceil(PS), bytes);
    }

    fn sample(&mut self) {
        let delivered = |planned: &Planned| {
            let started = self.started[planned.flow.id as usize];
            started.map_or(0, |s| self.hosts[planned.to].received(s.receiver, s.nth).bytes)
        };
        let fullest = |node: &SwitchNode| node.gauges.iter().map(|g| g.bytes).max().unwrap_or(0);
        let sample = Sample {
            at_ns: self.ns(),
            delivered: self.flows.iter().map(delivered).collect(),
            queues: self.switches.iter().map(fullest).collect(),
        };
        self.samples.push(sample);
        let every = self.spec.sample.map_or(u64::MAX, |every| every.0);
        self.at(self.now.saturating_add(every * PS), What::Sample);
    }
}

/// Frames in each queue of a port.
fn queued_frames(switch: &Switch<Parcel>, port: PortId) -> [u32; PRIORITIES] {
    std::array::from_fn(|queue| switch.queue_frames(port, queue))
}

impl Gauge {
    fn advance(&mut self, now: Ps, from: Ps) {
        let begin = self.since.max(from);
        if now > begin {
            self.integral += u128::from(self.bytes) * u128::from(now - begin);
        }
        self.since = now;
    }
}

impl Fabric<'_> {
    fn report(mut self) -> Report {
        let ns = self.ns();
        let from = self.spec.measure_from.0.saturating_mul(PS);
        let now = self.now;
        let tape = std::mem::replace(&mut self.tape, Tape::new(Vec::new(), Vec::new()));
        self.switches.iter_mut().flat_map(|s| &mut s.gauges).for_each(|g| g.advance(now, from));
        let flows: Vec<FlowResult> = self.flows.iter().map(|f| self.flow_result(f)).collect();
        let done = flows.iter().filter_map(|f| f.fct_ns.map(|fct| (fct, f.ideal_ns)));
        let slow = |(fct, ideal): (u64, u64)| (fct * 1000).div_ceil(ideal.max(1));
        let parts = || self.switches.iter().flat_map(|s| &s.parts);
        let errors = parts().map(|part| part.conservation().error().unsigned_abs());
        let dropped = parts().map(|part| part.conservation().dropped);
        let context =
            Context { config: self.switches.first().map(|s| s.config.clone()), deaf: self.deaf_hosts() };
        Report {
            flows_finite: self.finite,
            flows_done: self.done,
            fct_ns: Spread::of(done.clone().map(|(fct, _)| fct).collect()),
            slowdown_milli: Spread::of(done.map(slow).collect()),
            frames_sent: self.frames_sent,
            frames_lost: self.dirs.iter().map(|d| d.lost).sum(),
            frames_dropped: dropped.sum(),
            lossless_drops: self.ports().map(|p| p.lossless_drops()).sum(),
            lossless_drops_watchdog: self.ports().map(|p| p.lossless_drops_watchdog()).sum(),
            conservation_error: errors.sum(),
            flows,
            switches: (0..self.switches.len()).map(|s| self.switch_result(s)).collect(),
            hosts: (0..self.hosts.len()).map(|h| self.host_result(h)).collect(),
            links: self.dirs.iter().map(|d| self.link_result(d)).collect(),
            samples: std::mem::take(&mut self.samples),
            timeline: tape.finish(ns),
            latency: self.latency.as_ref().map(|latency| latency.report(|dir| self.leg_name(dir))),
            ..Report::begin(self.spec, ns, self.events)
        }
        .explained(&context)
    }

    /// Counters of all ports of all switches.
    fn ports(&self) -> impl Iterator<Item = &PortStats> {
        let parts = self.switches.iter().flat_map(|s| s.parts.iter().map(|part| (part, s.gauges.len())));
        parts.flat_map(|(part, ports)| (0..ports).map(|i| part.stats(PortId(i as u16))))
    }

    /// Ports of switches that paused a host which does not obey, by switch and port: the host, and the priorities.
    fn deaf_hosts(&self) -> BTreeMap<(String, usize), (String, Vec<usize>)> {
        let mut deaf = BTreeMap::new();
        for (s, node) in self.switches.iter().enumerate() {
            let name = &self.plan.names[self.plan.hosts + s];
            for (i, port) in node.config.ports.iter().enumerate() {
                let peer = self.dirs[self.out[self.plan.hosts + s][i]].to.node;
                let Some(obeyed) = self.obeyed.get(peer) else { continue };
                let sent = &node.part(i).gauges(PortId(i as u16), self.ns()).pfc_tx_xoff;
                let ignored = |p: &usize| (port.pfc.enable & !obeyed) >> p & 1 == 1 && sent[*p] > 0;
                let ignored: Vec<usize> = (0..PRIORITIES).filter(ignored).collect();
                if !ignored.is_empty() {
                    deaf.insert((name.clone(), i), (self.plan.names[peer].clone(), ignored));
                }
            }
        }
        deaf
    }

    fn flow_result(&self, planned: &Planned) -> FlowResult {
        let started = self.started[planned.flow.id as usize];
        let (sent, rate) =
            started.map(|s| self.hosts[planned.from].sent(s.sender, s.nth)).unwrap_or_default();
        let got = started.map(|s| self.hosts[planned.to].received(s.receiver, s.nth)).unwrap_or_default();
        FlowResult {
            id: planned.flow.id,
            from: self.plan.names[planned.from].clone(),
            to: self.plan.names[planned.to].clone(),
            bytes: is_finite(planned).then_some(planned.flow.bytes),
            start_ns: started.map(|s| s.at),
            fct_ns: got.delivered().zip(started).map(|(done, s)| done - s.at),
            ideal_ns: self.ideal(planned),
            delivered: got.bytes,
            lost: got.lost,
            packets: sent.packets,
            resent: sent.resent,
            useless: Some(got.useless),
            marked: Some(got.marked),
            cnps: Some(got.cnps),
            timeouts: sent.timeouts,
            rate_bps: rate,
        }
    }

    /// Time of a flow alone on its path: N switches, N + 1 links (DEV-33). Store-and-forward pays the
    /// serialization of one packet on every further link, cut-through that of the headers.
    fn ideal(&self, planned: &Planned) -> Nanos {
        let flow = &planned.flow;
        let more = u64::from(flow.pace.header_bytes());
        let frame = |payload: u64| hosts::packet_bytes(self.spec, payload + more);
        let full = flow.bytes / u64::from(flow.payload);
        let rest = flow.bytes % u64::from(flow.payload);
        let last = if rest > 0 { rest } else { u64::from(flow.payload) };
        let wire = full.saturating_mul(frame(flow.payload.into())) + if rest > 0 { frame(rest) } else { 0 };
        let spec = &self.spec.switch;
        let mut dir = self.out[planned.from][0];
        let slowest = |rate: u64| (u128::from(wire) * 8 * 1_000_000_000_000 / u128::from(rate)) as u64;
        let mut rate = self.dirs[dir].line.rate();
        let mut fixed = self.dirs[dir].delay + (self.spec.host.tx_delay.0 + self.spec.host.rx_delay.0) * PS;
        while self.dirs[dir].to.node >= self.plan.hosts {
            let node = self.dirs[dir].to.node;
            let next = self.routes.port(node - self.plan.hosts, planned.to, planned.path);
            let Some(port) = next else { break };
            let held = match spec.forwarding {
                Forwarding::StoreAndForward => frame(last) - 12,
                Forwarding::CutThrough => HEAD_BYTES,
            };
            fixed +=
                self.dirs[dir].line.takes(held) + (spec.ingress.0 + spec.crossbar.0 + spec.egress.0) * PS;
            dir = self.out[node][port];
            fixed += self.dirs[dir].delay;
            rate = rate.min(self.dirs[dir].line.rate());
        }
        // The gap after the last frame is nobody's waiting time.
        (slowest(rate).saturating_add(fixed) - self.dirs[dir].line.takes(12)).div_ceil(PS)
    }

    fn switch_result(&self, s: usize) -> SwitchResult {
        let node = &self.switches[s];
        let span = self.now.saturating_sub(self.spec.measure_from.0.saturating_mul(PS)).max(1);
        let port = |i: usize| {
            let id = PortId(i as u16);
            let (stats, g) = (node.part(i).stats(id), node.part(i).gauges(id, self.ns()));
            // What an output sends, and loses, is in the memories of all inputs.
            let all =
                |of: fn(&PortStats) -> u64| node.parts.iter().map(|part| of(part.stats(id))).sum::<u64>();
            let sum = |of: &[u64; PRIORITIES]| of.iter().sum::<u64>();
            let max = |of: &[u64; PRIORITIES]| of.iter().copied().max().unwrap_or(0);
            let lossless = |pg: &usize| node.config.ports[i].pgs[*pg].lossless;
            let lost =
                |reason: usize| node.parts.iter().map(|part| part.stats(id).drops.0[reason]).sum::<u64>();
            let reasons = DropReason::ALL.iter().enumerate().map(|(at, reason)| (reason, lost(at)));
            let reasons = reasons.filter(|(_, count)| *count > 0);
            PortResult {
                port: i,
                peer: self.plan.names[self.dirs[self.out[self.plan.hosts + s][i]].to.node].clone(),
                rx_frames: stats.rx_packets,
                tx_frames: all(|stats| stats.tx_packets),
                queue_max: node.gauges[i].max,
                queue_mean: Some((node.gauges[i].integral / u128::from(span)) as u64),
                marked: all(|stats| stats.ecn_marked.iter().sum()),
                drops: reasons.map(|(reason, count)| (reason.name(), count)).collect(),
                pfc_tx_xoff: sum(&g.pfc_tx_xoff),
                pfc_tx_xon: sum(&g.pfc_tx_xon),
                pfc_rx: g.pfc_rx_frames,
                tx_paused_ns: Some(max(&g.tx_paused_ns)),
                rx_paused_ns: Some(max(&g.rx_paused_ns)),
                pg_peak: (0..PRIORITIES).filter(lossless).map(|pg| g.pg_shared_peak[pg]).max().unwrap_or(0),
                headroom_peak: max(&g.pg_headroom_peak),
                headroom: node.config.ports[i].pgs.iter().map(|pg| pg.xoff).max().unwrap_or(0),
                storms: sum(&g.storms_detected),
            }
        };
        SwitchResult {
            name: self.plan.names[self.plan.hosts + s].clone(),
            buffer: node.config.buffer.size,
            shared: node.config.buffer.shared,
            ports: (0..node.gauges.len()).map(port).collect(),
        }
    }

    fn host_result(&self, host: usize) -> HostResult {
        let report = self.hosts[host].report(self.ns());
        HostResult {
            name: self.plan.names[host].clone(),
            mac: self.plan.macs[host].to_string(),
            paused_ns: report.paused_ns,
            pauses: report.pauses,
            pfc_rx: report.pfc_frames,
            unexpected: report.unexpected,
        }
    }

    /// A node and where it sends.
    fn leg_name(&self, dir: usize) -> String {
        let (from, to) = (self.dirs[dir].from, self.dirs[dir].to);
        let name = |node: usize| &self.plan.names[node];
        if from.node < self.plan.hosts {
            return format!("{} \u{2192} {}", name(from.node), name(to.node));
        }
        format!("{} port {} \u{2192} {}", name(from.node), from.port, name(to.node))
    }

    fn link_result(&self, d: &Direction) -> LinkResult {
        let busy = u128::from(d.bytes) * 8 * 1_000_000_000_000 / u128::from(d.line.rate());
        LinkResult {
            from: self.plan.names[d.from.node].clone(),
            to: self.plan.names[d.to.node].clone(),
            rate_bps: d.line.rate(),
            frames: d.carried,
            busy_milli: (busy * 1000 / u128::from(self.now.max(1))) as u64,
            lost: d.lost,
            lost_pauses: d.lost_pauses,
        }
    }
}
