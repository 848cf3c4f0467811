//! A whole network in virtual time: built once, then run event by event.
use weir_dataplane::mmu::hpcc::{Hpcc, HpccEcn, HpccParams};
use weir_dataplane::types::{Nanos, PRIORITIES};
use weir_endpoint::dcqcn::ns3::{Params, Timer};

use super::cell::{Cell, Kind};
use super::config::{BuildError, Config, FlowSpec, Link, Topology};
use super::engine::Engine;
use super::flow::{AlphaTicks, FlowRx, FlowTx};
use super::host::{Host, HostTotals};
use super::port::{ACK_BYTES, PAYLOAD, Port};
use super::record::Recorder;
use super::rng::{SplitMix, mix};
use super::routing::{End, Routes, ends, largest_bdp};
use super::switch::Switch;
use super::units::transmit_ns;

/// Shift of the threshold at ports no faster than the hosts.
const BASE_SHIFT: u32 = 3;

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
    pub(super) rate_control: bool,
    pub(super) ack_gate: u8,
    pub(super) seed: u64,
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
        let routes = Routes::new(topology, &ends);
        check_flows(topology, flows, &ends, &routes)?;
        let host_rate = ends.first().and_then(|e| e.first()).map_or(0, |end| topology.links[end.link].rate);
        let window = match config.dcqcn {
            Some(dcqcn) if dcqcn.window => largest_bdp(topology, &ends, PAYLOAD.into()),
            _ => 0,
        };
        let hosts = build_hosts(topology, &ends, config);
        let flow_tx = |&spec: &FlowSpec| FlowTx::new(spec, window, &hosts[spec.src as usize].params);
        let mut sim = Self {
            engine: Engine::default(),
            ports: build_ports(topology, &ends, config),
            switches: build_switches(topology, &ends, config, host_rate)?,
            switch_ports: ends[topology.hosts as usize..]
                .iter()
                .map(|ends| ends.iter().map(|end| end.port).collect())
                .collect(),
            flows: flows.iter().map(flow_tx).collect(),
            receivers: vec![FlowRx::default(); flows.len()].into(),
            hosts,
            routes,
            recorder,
            totals: HostTotals::default(),
            rate_control: config.dcqcn.is_some(),
            ack_gate: config.ack_gate % PRIORITIES as u8,
            seed: config.seed,
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
        while let Some(index) = self.engine.next(self.stop) {
            let &Cell { kind, target, rank, .. } = self.engine.slab.get(index);
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
                Kind::Alpha => self.flow_timer(target, Timer::Alpha, rank),
                Kind::Decrease => self.flow_timer(target, Timer::Decrease, rank),
                Kind::Increase => self.flow_timer(target, Timer::Increase, rank),
                Kind::Release => self.release_flows(),
                Kind::Start => self.start_flow(target),
                _ => self.take_sample(),
            }
        }
    }

    /// Starts are scheduled by the start before them, and run after all else of their nanosecond.
    fn release_flows(&mut self) {
        let now = self.engine.now();
        while let Some(flow) = self.flows.get(self.released) {
            if flow.spec.start > now {
                self.engine.post(Cell::event(Kind::Release, 0), flow.spec.start);
                return;
            }
            self.engine.post(Cell::event(Kind::Start, self.released as u32), now);
            self.released += 1;
        }
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
    #[inline]
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
    #[inline]
    pub(super) fn transmit(&mut self, port: u32, index: u32) {
        let p = &mut self.ports[port as usize];
        let cell = self.engine.slab.get_mut(index);
        cell.target = p.peer;
        let tx = p.transmit_ns(cell.bytes);
        let end = self.engine.now() + tx;
        p.free = self.engine.reserve(end);
        p.free_scheduled = false;
        self.engine.schedule(index, end + p.delay);
    }

    /// The recorder.
    pub fn recorder(&self) -> &R {
        &self.recorder
    }

    /// All switches, in the order of their node ids.
    pub fn switches(&self) -> &[Switch] {
        &self.switches
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

/// Also bounds the nodes by the links, before anything is sized by them.
fn check_links(topology: &Topology) -> Result<(), BuildError> {
    let (nodes, ends) = (topology.hosts.checked_add(topology.switches), 2 * topology.links.len());
    let nodes = nodes.filter(|&nodes| nodes as usize <= ends).ok_or(BuildError::Lonely(ends))?;
    for (i, link) in topology.links.iter().enumerate() {
        if link.a == link.b || link.a >= nodes || link.b >= nodes {
            return Err(BuildError::Link(i));
        }
        if link.rate == 0 {
            return Err(BuildError::Rate(i));
        }
    }
    Ok(())
}

fn check_flows(
    t: &Topology,
    flows: &[FlowSpec],
    ends: &[Vec<End>],
    routes: &Routes,
) -> Result<(), BuildError> {
    // A host's one neighbour must be a switch with a way to the other host.
    let reaches = |from: u32, to: u32| match ends[from as usize][0].peer.checked_sub(t.hosts) {
        Some(switch) => routes.reaches(switch, to),
        None => false,
    };
    for (i, flow) in flows.iter().enumerate() {
        let known = flow.src < t.hosts && flow.dst < t.hosts && flow.src != flow.dst;
        if !(known && reaches(flow.src, flow.dst) && reaches(flow.dst, flow.src)) {
            return Err(BuildError::Path(i));
        }
        if flow.bytes == 0 || !(1..PRIORITIES as u8).contains(&flow.prio) {
            return Err(BuildError::Flow(i));
        }
        if i > 0 && flow.start < flows[i - 1].start {
            return Err(BuildError::Order(i));
        }
    }
    Ok(())
}

fn build_ports(topology: &Topology, ends: &[Vec<End>], config: &Config) -> Box<[Port]> {
    let mut locals = vec![0; 2 * topology.links.len()];
    for node in ends {
        for (local, end) in node.iter().enumerate() {
            locals[end.port as usize] = local as u16;
        }
    }
    let port = |number: u32, node: u32, link: &Link| {
        let on_host = node < topology.hosts;
        let owner = if on_host { node } else { node - topology.hosts };
        let local = locals[number as usize];
        Port::new(number ^ 1, owner, local, on_host, link.rate, link.delay, marking(config, link.rate))
    };
    let both = |(i, link): (usize, &Link)| {
        let first = 2 * i as u32;
        [port(first, link.a, link), port(first + 1, link.b, link)]
    };
    topology.links.iter().enumerate().flat_map(both).collect()
}

fn marking(config: &Config, rate: u64) -> HpccEcn {
    let known = config.marking.iter().find(|m| m.rate == rate);
    known.map_or(HpccEcn { kmin: u32::MAX, kmax: u32::MAX, pmax: 0.0 }, |m| HpccEcn {
        kmin: m.kmin,
        kmax: m.kmax,
        pmax: m.pmax,
    })
}

fn build_switches(
    topology: &Topology,
    ends: &[Vec<End>],
    config: &Config,
    host_rate: u64,
) -> Result<Box<[Switch]>, BuildError> {
    let build = |node: u32| {
        let links = || ends[node as usize].iter().map(|end| &topology.links[end.link]);
        let params = HpccParams {
            buffer: config.buffer,
            reserve: config.reserve,
            resume_offset: config.resume_offset,
            headroom: links().map(headroom).collect(),
            shift: links().map(|link| shift(link.rate, host_rate)).collect(),
        };
        Ok(Switch {
            mmu: Hpcc::new(&params).map_err(|error| BuildError::Mmu(node, error))?,
            rng: SplitMix::new(mix(config.seed ^ u64::from(node) << 32)),
            forwarded: 0,
            drops: 0,
            marks: 0,
            pauses: 0,
            resumes: 0,
            params,
        })
    };
    (topology.hosts..topology.hosts + topology.switches).map(build).collect()
}

/// Three times the bytes of the link's delay; no term for frames in flight at the ends.
fn headroom(link: &Link) -> u32 {
    let bytes = u128::from(link.rate) * u128::from(link.delay) / 8_000_000_000;
    u32::try_from(3 * bytes).unwrap_or(u32::MAX)
}

/// One less for each doubling of the port's rate over the host's.
fn shift(rate: u64, host_rate: u64) -> u32 {
    let doublings = (0..BASE_SHIFT).take_while(|&n| rate >> n > host_rate).count();
    BASE_SHIFT - doublings as u32
}

fn build_hosts(topology: &Topology, ends: &[Vec<End>], config: &Config) -> Box<[Host]> {
    let build = |host: u32| {
        let end = ends[host as usize][0];
        let link = &topology.links[end.link];
        let params = match config.dcqcn {
            Some(dcqcn) => Params { line_bps: link.rate, ..dcqcn.params },
            None => Params { line_bps: link.rate, ..Params::default() },
        };
        let ack_lead = transmit_ns(ACK_BYTES, link.rate) + link.delay;
        Host {
            port: end.port,
            flows: Vec::new(),
            last: 0,
            wake: false,
            params,
            ticks: AlphaTicks::new(ack_lead, params.alpha_period.get()),
        }
    };
    (0..topology.hosts).map(build).collect()
}
