//! A whole network in virtual time: built once, then run event by event.
use weir_dataplane::types::{Nanos, PRIORITIES};
use weir_endpoint::dcqcn::ns3::Timer;

use super::build::{
    FlowKey, build_hosts, build_ports, build_switches, check_flows, check_links, flow_keys, path_times,
    window,
};
use super::cell::{Cell, Kind};
use super::config::{BuildError, Config, FlowSpec, Topology};
use super::control::{Controller, PathTimes};
use super::engine::Engine;
use super::flow::{FlowRx, FlowTx};
use super::host::{Host, HostTotals};
use super::port::{FrameSizes, Port};
use super::record::Recorder;
use super::routing::{Neighbours, Routes, ends};
use super::switch::Switch;
use super::telemetry::Telemetry;

/// A network of the compatibility profile.
#[derive(Debug)]
pub struct Sim<R> {
    pub(super) engine: Engine,
    pub(super) ports: Box<[Port]>,
    pub(super) switches: Box<[Switch]>,
    /// Global port numbers by switch and local index.
    pub(super) switch_ports: Box<[Box<[u32]>]>,
    pub(super) hosts: Box<[Host]>,
    pub(super) flows: Box<[FlowTx]>,
    pub(super) receivers: Box<[FlowRx]>,
    pub(super) routes: Routes,
    pub(super) recorder: R,
    pub(super) totals: HostTotals,
    /// What frames carry for their senders; none where these need nothing.
    pub(super) telemetry: Option<Box<Telemetry>>,
    pub(super) sizes: FrameSizes,
    pub(super) nack_interval: Nanos,
    pub(super) ack_gate: u8,
    pub(super) keys: Box<[FlowKey]>,
    /// Of switches, from the first on.
    pub(super) switch_numbers: Box<[u32]>,
    released: usize,
    sampler: Option<Sampler>,
    stop: Nanos,
}

/// Which egress port is sampled, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sampler {
    /// Switch, counted from 0.
    pub switch: u32,
    /// Local index of the port, from 0.
    pub port: u16,
    /// Period.
    pub every: Nanos,
    /// Time of the last sample.
    pub until: Nanos,
}

impl<R: Recorder> Sim<R> {
    /// Builds the network. Flows are in the order of their starts; equal starts run in that order.
    ///
    /// # Errors
    /// When topology, flows or buffers do not fit together; see [`BuildError`].
    pub fn new(
        topology: &Topology,
        flows: &[FlowSpec],
        config: &Config,
        recorder: R,
    ) -> Result<Self, BuildError> {
        check_links(topology)?;
        let ends = ends(topology);
        for host in 0..topology.hosts {
            let links = ends[host as usize].len();
            if links != 1 {
                return Err(BuildError::Host(host, links));
            }
        }
        let neighbours = Neighbours::new(topology, &ends);
        let routes = Routes::new(&neighbours);
        check_flows(topology, flows, &ends, &routes)?;
        let host_rate = ends.first().and_then(|e| e.first()).map_or(0, |end| topology.links[end.link].rate);
        if !(1..=9000).contains(&config.payload) {
            return Err(BuildError::Payload(config.payload));
        }
        let sizes = FrameSizes::new(config.payload, config.control.header_bytes());
        let hosts = build_hosts(topology, &ends, config, sizes);
        let (paths, base_rtt) = path_times(&neighbours, flows, config)?;
        let telemetry = Telemetry::new(&config.control, topology, base_rtt, config.epoch)?;
        let flow_tx = |(&spec, &path): (&FlowSpec, &PathTimes)| {
            let (line, window) = (hosts[spec.src as usize].params.line_bps, window(config, path));
            let own = config.controls.iter().find(|(rate, _)| *rate == line);
            let control = own.map_or(&config.control, |(_, control)| control);
            let controller = Controller::new(control, line, path, window);
            FlowTx::new(spec, controller, window, config.rate_bound, sizes)
        };
        let mut sim = Self {
            engine: Engine::default(),
            ports: build_ports(topology, &ends, config, sizes),
            switches: build_switches(topology, &ends, config, host_rate)?,
            switch_ports: ends[topology.hosts as usize..]
                .iter()
                .map(|ends| ends.iter().map(|end| end.port).collect())
                .collect(),
            flows: flows.iter().zip(&paths).map(flow_tx).collect(),
            receivers: vec![FlowRx::default(); flows.len()].into(),
            hosts,
            routes,
            recorder,
            totals: HostTotals::default(),
            telemetry,
            sizes,
            nack_interval: config.nack_interval,
            ack_gate: config.ack_gate % PRIORITIES as u8,
            keys: flow_keys(topology, flows),
            switch_numbers: (topology.hosts..topology.hosts + topology.switches)
                .map(|switch| topology.number(switch))
                .collect(),
            released: 0,
            sampler: None,
            stop: config.stop,
        };
        if let Some(first) = flows.first() {
            sim.engine.post(Cell::event(Kind::Release, 0), first.start);
        }
        Ok(sim)
    }

    /// Samples a queue while running.
    pub fn sample(&mut self, sampler: Sampler) {
        self.sampler = Some(sampler);
        self.engine.post(Cell::event(Kind::Sample, 0), self.engine.now());
    }

    /// Runs to the end: nothing is pending, or the time to stop has come.
    pub fn run(&mut self) {
        self.run_some(u64::MAX);
    }

    /// Runs at most `events` events. False: that was the end.
    pub fn run_some(&mut self, events: u64) -> bool {
        for _ in 0..events {
            let Some(index) = self.engine.next(self.stop) else { return false };
            let &Cell { kind, target, flow, psn, .. } = self.engine.slab.get(index);
            match kind {
                Kind::Data | Kind::Ack | Kind::Nack | Kind::Pause | Kind::Resume => {
                    if self.ports[target as usize].on_host {
                        self.host_receive(index, target);
                    } else {
                        self.switch_receive(index, target);
                    }
                    continue;
                }
                _ => self.engine.slab.release(index),
            }
            match kind {
                Kind::Free => {
                    let port = &self.ports[target as usize];
                    if port.on_host {
                        self.kick_host(port.owner);
                    } else {
                        self.kick_switch(target);
                    }
                }
                Kind::Wake => self.wake_host(target),
                Kind::Alpha => self.flow_timer(target, Timer::Alpha),
                Kind::Decrease => self.flow_timer(target, Timer::Decrease),
                Kind::Increase => self.flow_timer(target, Timer::Increase),
                Kind::Release => self.release_flows(),
                Kind::Begin => self.begin_flows(flow, psn),
                Kind::Start => self.start_flow(target),
                _ => self.take_sample(),
            }
        }
        true
    }

    /// Flows start two steps behind the event of their time, and that is scheduled when the one before it ran.
    fn release_flows(&mut self) {
        let now = self.engine.now();
        let first = self.released;
        while self.flows.get(self.released).is_some_and(|flow| flow.spec.start <= now) {
            self.released += 1;
        }
        let begin = Cell { flow: first as u32, psn: self.released as u32, ..Cell::event(Kind::Begin, 0) };
        self.engine.post(begin, now);
        if let Some(flow) = self.flows.get(self.released) {
            self.engine.post(Cell::event(Kind::Release, 0), flow.spec.start);
        }
    }

    fn begin_flows(&mut self, from: u32, to: u32) {
        let now = self.engine.now();
        (from..to).for_each(|flow| self.engine.post(Cell::event(Kind::Start, flow), now));
    }

    fn take_sample(&mut self) {
        let now = self.engine.now();
        let Some(sampler) = self.sampler.filter(|s| now <= s.until) else {
            return;
        };
        let mmu = &self.switches[sampler.switch as usize].mmu;
        let egress = (0..PRIORITIES).map(|q| mmu.egress(sampler.port.into(), q)).sum();
        self.recorder.sampled(now, egress, mmu.shared());
        self.engine.post(Cell::event(Kind::Sample, 0), now + sampler.every.max(1));
    }

    /// Whether `port` can send now. If not, it will be kicked when it can.
    #[inline(always)]
    pub(super) fn line_is_free(&mut self, port: u32) -> bool {
        let busy = self.engine.is_ahead(self.ports[port as usize].free);
        if busy {
            self.schedule_free(port);
        }
        !busy
    }

    /// The end of the running transmission becomes an event: somebody waits for it.
    #[inline]
    pub(super) fn schedule_free(&mut self, port: u32) {
        let p = &mut self.ports[port as usize];
        if !p.free_scheduled {
            p.free_scheduled = true;
            let index = self.engine.slab.alloc(Cell::event(Kind::Free, port));
            self.engine.schedule_reserved(index, p.free);
        }
    }

    /// Puts frame `index` on the line of `port`.
    #[inline(always)]
    pub(super) fn transmit(&mut self, port: u32, index: u32) {
        let p = &mut self.ports[port as usize];
        let cell = self.engine.slab.get_mut(index);
        cell.target = p.peer;
        let bytes = cell.bytes;
        if let Some(telemetry) = &mut self.telemetry {
            telemetry.sent(port, bytes, self.engine.now());
        }
        let tx = p.transmit_ns(bytes);
        let end = self.engine.now() + tx;
        p.free = self.engine.reserve(end);
        p.free_scheduled = false;
        self.engine.schedule(index, end + p.delay);
    }

    /// The recorder, taken out of the network.
    pub fn into_recorder(self) -> R {
        self.recorder
    }

    /// The recorder.
    pub fn recorder(&self) -> &R {
        &self.recorder
    }

    /// All switches, in the order of their node ids.
    pub fn switches(&self) -> &[Switch] {
        &self.switches
    }

    /// Bytes of a priority that came into a switch by `in_port` and wait at its port `port` while the peer there has paused that
    /// priority; 0: it has not.
    pub fn held_back(&self, switch: usize, in_port: usize, port: usize, prio: usize) -> u64 {
        let p = &self.ports[self.switch_ports[switch][port] as usize];
        if p.paused >> prio & 1 == 0 {
            return 0;
        }
        let cells = self.engine.slab.iter(p.queues[prio]);
        cells.filter(|cell| usize::from(cell.in_port) == in_port).map(|cell| u64::from(cell.bytes)).sum()
    }

    /// All flows, in the order in which they were given.
    pub fn flows(&self) -> &[FlowTx] {
        &self.flows
    }

    /// What the hosts counted.
    pub fn totals(&self) -> HostTotals {
        self.totals
    }

    /// Events run so far.
    pub fn events(&self) -> u64 {
        self.engine.executed()
    }

    /// Time of the last event.
    pub fn now(&self) -> Nanos {
        self.engine.now()
    }
}
