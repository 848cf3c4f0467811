//! What a fabric is made of: hosts, switches and wires, and where every flow stands.

use super::core::{self, Core};
use super::event_loop::{Event, Flying};
use super::failures::{self, LinkChange};
use super::groups::Membership;
use super::held::{Held, Notes};
use super::numbers::Numbers;
use super::probe::Gauge;
use super::section::Section;
use crate::fabric::collective::{Collectives, lay_out_with_engines};
use crate::fabric::collective_report::PauseTotals;
use crate::fabric::congestion::Telemetry;
use crate::fabric::faults::Faults;
use crate::fabric::graph::Collective;
use crate::fabric::hosts::{self, Host};
use crate::fabric::latency::LatencyRecorder;
use crate::fabric::links::{Direction, Line, directions, lines, outgoing};
use crate::fabric::operations::Operations;
use crate::fabric::orders::Orders;
use crate::fabric::play::{lanes, port_names};
use crate::fabric::policy::Policy;
use crate::fabric::rclink;
use crate::fabric::report::Sample;
use crate::fabric::routes::{self, Hop, Routes};
use crate::fabric::sim_frame::{Address, SimFrame, Spares};
use crate::fabric::spec::{FabricSpec, Protocol, RoutingMode, check_times};
use crate::fabric::switches::FabricSwitch;
use crate::fabric::time::{PS, Ps, Queue};
use crate::fabric::timeline::TimelineRecorder;
use crate::fabric::topology::{End, Plan, hop_address};
use crate::fabric::units::Duration;
use crate::fabric::ways::Ways;
use crate::fabric::workload::{Planned, Traffic, flows, is_finite};
use crate::fabric::{FabricError, idle, lots, multicast, switches};
use arrayvec::ArrayVec;
use std::collections::BTreeMap;
use std::sync::Arc;
use weir_config::{Config, Diagnostic};
use weir_dataplane::frame::Frame;
use weir_dataplane::rng::Rng;
use weir_dataplane::switch::Wire;
use weir_dataplane::types::{Mac, Nanos, PortId};
use weir_endpoint::flow::HeaderFrame;

/// The group bit of a destination, which MAC control has, too.
#[inline]
fn is_for_many(frame: &[u8]) -> bool {
    frame.first().is_some_and(|first| first & 1 == 1)
}

/// What a switch hands to the wire in one call.
#[derive(Default)]
pub(super) struct OneFrameWire {
    pub(super) data: Option<SimFrame>,
    pub(super) control: Option<SimFrame>,
}

impl Wire<SimFrame> for OneFrameWire {
    fn send(&mut self, frames: &mut ArrayVec<SimFrame, 1>) -> usize {
        if self.control.is_some() || self.data.is_some() {
            return 0;
        }
        self.data = frames.pop();
        usize::from(self.data.is_some())
    }

    fn send_control(&mut self, frame: &[u8]) -> bool {
        let free = self.control.is_none() && self.data.is_none();
        if free {
            self.control = Some(SimFrame::new(HeaderFrame::new(frame, frame.len()), None));
        }
        free
    }
}

pub(super) struct SwitchNode {
    /// The switch; with a crossbar one for each port, that receives by it.
    pub(super) parts: Vec<FabricSwitch>,
    pub(super) core: Option<Box<Core>>,
    /// Priorities it holds back, all ports together.
    pub(super) pausing: i32,
    /// The same by port.
    pub(super) holding: Vec<i8>,
    /// None of those is told again before, ns.
    pub(super) refresh_at: Nanos,
    /// When it is to tick whatever its lines do; [`Ps::MAX`]: at no time.
    pub(super) tick_at: Ps,
    pub(super) gauges: Vec<Gauge>,
    /// What it sprays frames by.
    pub(super) lots: Rng,
    /// But for its name and its seed.
    pub(super) config: Arc<Config>,
}

impl SwitchNode {
    /// What receives by `port`, and generates and obeys PFC there.
    #[inline]
    pub(super) fn part(&self, port: usize) -> &FabricSwitch {
        &self.parts[if self.parts.len() == 1 { 0 } else { port }]
    }

    #[inline]
    pub(super) fn part_mut(&mut self, port: usize) -> &mut FabricSwitch {
        let at = if self.parts.len() == 1 { 0 } else { port };
        &mut self.parts[at]
    }

    /// Bytes that wait for the line of `port`.
    #[inline]
    pub(super) fn waiting_bytes(&self, port: usize) -> u64 {
        let id = PortId(port as u16);
        match &self.core {
            None => self.parts[0].port_bytes(id),
            Some(core) => {
                debug_assert_eq!(core.waiting(port), self.counted(core, port));
                core.waiting(port)
            }
        }
    }

    /// When a watchdog of it looks next; [`Nanos::MAX`]: none does.
    pub(super) fn next_look(&self) -> Nanos {
        let inputs = self.parts.iter().map(FabricSwitch::next_look);
        let outputs = self.core.iter().flat_map(|core| core.looks());
        inputs.chain(outputs).min().unwrap_or(Nanos::MAX)
    }

    /// Hands a frame to what receives by `port`.
    #[inline]
    pub(super) fn receive(&mut self, port: usize, frame: SimFrame, ns: Nanos) {
        self.part_mut(port).receive_one(PortId(port as u16), frame, ns);
    }

    /// The same of a PFC frame: with a crossbar to all parts, as each holds frames for the port.
    pub(super) fn receive_pfc(&mut self, port: usize, frame: &SimFrame, ns: Nanos) {
        let id = PortId(port as u16);
        self.parts.iter_mut().for_each(|part| part.receive_one(id, frame.clone(), ns));
    }

    /// Lets part `part` send by `port`, one frame. A data frame is taken off its queue only when it can go: not beside a PFC frame.
    #[inline]
    pub(super) fn transmit(&mut self, part: usize, port: PortId, ns: Nanos) -> OneFrameWire {
        let switch = &mut self.parts[part];
        let due = switch.generator(port).due(ns);
        if !due && switch.is_plain() {
            return OneFrameWire { data: switch.transmit_one(port, ns), control: None };
        }
        let mut tap = OneFrameWire::default();
        switch.transmit(port, usize::from(!due), ns, &mut tap);
        tap
    }
}

/// A queue pair: its number at both ends.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pair {
    pub(super) sender: u32,
    pub(super) receiver: u32,
    /// Flows it was given.
    pub(super) flows: usize,
}

/// Where a flow's ends are, once it has started.
#[derive(Clone, Copy, Debug)]
pub(super) struct Started {
    pub(super) sender: u32,
    pub(super) receiver: u32,
    /// Its place among the flows of its queue pair.
    pub(super) nth: usize,
    pub(super) at: Nanos,
}

pub(super) struct Fabric<'a> {
    pub(super) spec: &'a FabricSpec,
    pub(super) plan: Arc<Plan>,
    /// Nodes that are there, in a part of a fabric.
    pub(super) there: Vec<bool>,
    pub(super) collectives: Arc<Collectives>,
    pub(super) routes: Arc<Routes>,
    /// Where a frame goes may depend on its flow: some switch has a choice, or may have one when links fail and are repaired.
    pub(super) by_flow: bool,
    /// When which link goes down or up.
    pub(super) failures: Vec<LinkChange>,
    /// First address of each host, shifted, with its number; sorted.
    pub(super) owners: Arc<[(u64, usize)]>,
    /// Bits of an address that tell hosts apart.
    pub(super) address_mask: u64,
    pub(super) dirs: Arc<[Direction]>,
    /// What is known of each by who sends on it.
    pub(super) lines: Held<Box<Line>>,
    /// Outgoing direction of every port of every node.
    pub(super) out: Arc<[Vec<usize>]>,
    pub(super) hosts: Held<Host>,
    pub(super) switches: Held<SwitchNode>,
    /// What their configurations warn of.
    pub(super) warnings: Vec<Diagnostic>,
    pub(super) flows: Arc<[Planned]>,
    pub(super) numbers: Arc<Numbers>,
    pub(super) started: Notes<Started>,
    /// Queue pairs, by the number of their first flow.
    pub(super) pairs: Notes<Pair>,
    /// Priorities each host obeys pauses of, one bit each.
    pub(super) obeyed: Vec<u8>,
    pub(super) operations: Operations,
    pub(super) orders: Orders,
    /// What is reported together, and the numbers of its workloads.
    pub(super) reported: Vec<(usize, Collective)>,
    /// How long the host of each flow had been held back. Of parts of collectives only.
    pub(super) paused: BTreeMap<u32, PauseTotals>,
    pub(super) queue: Queue<Event>,
    /// Nothing is measured before.
    pub(super) measure_from: Ps,
    /// Buffer policies measure over windows of this length.
    pub(super) window: Option<Duration>,
    pub(super) slab: Vec<Flying>,
    pub(super) unused: Vec<u32>,
    pub(super) spares: Spares,
    pub(super) telemetry: Option<Telemetry>,
    pub(super) latency: Option<Box<LatencyRecorder>>,
    pub(super) now: Ps,
    /// The same in whole nanoseconds, never before the event.
    pub(super) now_ns: Nanos,
    pub(super) events: u64,
    pub(super) finite: usize,
    /// Of those, flows that were delivered, and flows of which nothing more will come.
    pub(super) done: usize,
    pub(super) ended: usize,
    /// Whether it was told to end before its time.
    pub(super) stopped: bool,
    pub(super) frames_sent: u64,
    pub(super) samples: Vec<Sample>,
    pub(super) timeline: TimelineRecorder,
    /// First number of each switch's ports on the timeline.
    pub(super) first_port: Arc<[usize]>,
    /// What each flow adds to on the timeline.
    pub(super) rate_of: Arc<[usize]>,
    /// What it needs to know of other nodes, and to tell them, if it is a group of nodes and not all of them.
    pub(super) membership: Option<Box<Membership>>,
}

impl<'a> Fabric<'a> {
    /// The fabric of `spec`, or a part of it.
    pub(super) fn new(spec: &'a FabricSpec, section: Option<&Section>) -> Result<Self, FabricError> {
        if spec.source.sets("ns3") {
            return Err(FabricError::Range {
                what: "ns3".into(),
                got: "given".into(),
                must: "left out unless profile = \"ns3-hpcc\", whose constants it has".into(),
            });
        }
        let mut faults: Faults =
            [check_times(spec), hosts::check(spec), core::check(spec)].into_iter().collect();
        let policy = faults.keep(Policy::of(spec));
        let laid = faults.keep(lay_out_with_engines(spec));
        let failures = laid.as_ref().and_then(|(plan, _)| faults.keep(failures::planned(spec, plan)));
        let all = (policy, laid, failures, faults.is_empty());
        let (Some(policy), Some((plan, collectives)), Some(failures), true) = all else {
            return Err(faults.into_error());
        };
        let routes = Routes::new(&plan, spec.seed, |_| true);
        idle::of_paths(spec, &plan, &routes).refuse()?;
        let traffic = flows(spec, &plan, &routes, &collectives)?;
        failures::check_ways(spec, &plan, &failures, &traffic.flows)?;
        let Traffic { mut flows, ops, collectives: reported } = match section {
            Some(section) => section.traffic(traffic),
            None => traffic,
        };
        let there: Vec<bool> =
            section.map_or_else(|| vec![true; plan.names.len()], |section| section.nodes.clone());
        if spec.host.protocol == Protocol::Rclink {
            rclink::count(spec, &plan, &flows)?;
        }
        let groups = multicast::trees(&plan, &routes, &flows);
        let mut configs = switches::Configs::default();
        let build = |node: usize| -> Result<SwitchNode, FabricError> {
            let ports: &[usize] = if there[node] { &plan.ports[node] } else { &[] };
            let rates: Vec<u64> = ports.iter().map(|l| plan.links[*l].spec.rate.0).collect();
            let config = configs.of(&plan, spec, node)?;
            let mut core = Core::new(spec, &config, &rates, node)?;
            let parts = if core.is_some() { rates.len() } else { rates.len().min(1) };
            let groups = &groups[node - plan.hosts];
            let parts =
                (0..parts).map(|input| switches::build(&plan, spec, &policy, (node, input), &config, groups));
            let mut parts = parts.collect::<Result<Vec<_>, _>>()?;
            core.iter_mut().for_each(|core| core.take_watchdogs(&mut parts));
            let gauges = vec![Gauge::default(); rates.len()];
            let holding = vec![0; gauges.len()];
            let lots = lots::stream(spec.seed, lots::SPRAY, node - plan.hosts);
            Ok(SwitchNode {
                parts,
                core,
                pausing: 0,
                holding,
                refresh_at: 0,
                tick_at: Ps::MAX,
                gauges,
                lots,
                config,
            })
        };
        let switches = (plan.hosts..plan.names.len()).map(build).collect::<Result<Held<_>, FabricError>>()?;
        let warnings = configs.warnings;
        let dirs = directions(&plan);
        let lines = lines(&plan, spec).map(Box::new).collect();
        let out = outgoing(&plan);
        let configs: Vec<&Config> = switches.iter().map(|s| &*s.config).collect();
        let obeyed = (0..plan.hosts).map(|host| match there[host] {
            true => hosts::obeyed(spec, &plan, host, &configs),
            false => Ok(0),
        });
        let obeyed = obeyed.collect::<Result<Vec<u8>, _>>()?;
        let made = obeyed.iter().enumerate().map(|(at, obey)| match at < plan.stations() {
            true => Host::new(spec, &plan, at, *obey),
            false => Host::engine(&collectives, &plan, at, *obey),
        });
        let mut hosts = made.collect::<Result<Held<Host>, _>>()?;
        for (planned, seat) in flows.iter().filter_map(|planned| Some((planned, planned.seat?))) {
            hosts[planned.from].join(&collectives.rank(seat, planned.from, spec, planned.flow));
        }
        let address_mask = rclink::address_mask(spec);
        let mut owners: Vec<(u64, usize)> =
            plan.macs.iter().enumerate().map(|(i, mac)| ((mac.to_u64() & address_mask) >> 8, i)).collect();
        owners.sort_unstable();
        let operations = Operations::new(ops, flows.len());
        let orders = Orders::new(spec, &plan, &flows)?;
        let numbers = section.map_or_else(|| (0..flows.len() as u32).collect(), Section::flow_numbers);
        let (rates, rate_of) = lanes(&plan, &flows, numbers.into_iter());
        let timeline = TimelineRecorder::new(port_names(&plan), rates);
        let ports = |s: usize| plan.ports[plan.hosts..][..s].iter().map(Vec::len).sum();
        let first_port = (0..switches.len()).map(ports).collect();
        let numbers = Numbers::new(spec.host.protocol, &flows, &operations, hosts.len());
        if spec.host.protocol == Protocol::Rclink && routes.has_choices() {
            for planned in &mut flows {
                planned.path = rclink::path(spec, &plan, planned, numbers.receiver(planned.pair));
            }
        }
        Ok(Self {
            timeline,
            first_port,
            rate_of: rate_of.into(),
            membership: None,
            telemetry: Telemetry::new(spec, &flows, dirs.len()),
            latency: spec.latency.then(|| Box::new(LatencyRecorder::new())),
            numbers: Arc::new(numbers),
            started: Notes::none(flows.len()),
            pairs: Notes::none(flows.len()),
            obeyed,
            finite: flows.iter().filter(|f| is_finite(f)).count(),
            spec,
            plan: Arc::new(plan),
            there,
            collectives: Arc::new(collectives),
            by_flow: routes.has_choices() || !failures.is_empty(),
            routes: Arc::new(routes),
            failures,
            owners: owners.into(),
            address_mask,
            dirs: dirs.into(),
            lines,
            out: out.into(),
            hosts,
            switches,
            warnings,
            flows: flows.into(),
            operations,
            orders,
            reported,
            paused: BTreeMap::new(),
            queue: Queue::new(0, 0),
            measure_from: spec.measure_from.0.saturating_mul(PS),
            window: policy.window(),
            slab: Vec::new(),
            unused: Vec::new(),
            spares: Spares::default(),
            now: 0,
            now_ns: 0,
            events: 0,
            done: 0,
            stopped: false,
            ended: 0,
            frames_sent: 0,
            samples: Vec::new(),
        })
    }

    pub(super) fn ways(&self) -> Ways<'_> {
        let Self { spec, plan, dirs, out, routes, .. } = self;
        Ways { spec, plan, dirs, out, routes }
    }

    /// Whole nanoseconds, never before the event.
    #[inline]
    pub(super) fn ns(&self) -> Nanos {
        self.now_ns
    }

    /// It is this late now.
    #[inline]
    pub(super) fn set_now(&mut self, now: Ps) {
        (self.now, self.now_ns) = (now, now.saturating_add(PS - 1) / PS);
    }

    #[inline]
    pub(super) fn at(&mut self, time: Ps, what: Event) {
        self.queue.push(time, what);
    }

    /// Whose address a frame bears; `None`: that of a group, or of whoever is at the other end of the link.
    #[inline]
    pub(super) fn address(&self, frame: &[u8]) -> Option<Address> {
        if is_for_many(frame) {
            return None;
        }
        let mac = Mac(*frame.first_chunk()?).to_u64() & self.address_mask;
        let at = self.owner_of(mac >> 8)?;
        let flow = if self.by_flow { routes::flow_of(frame, self.address_mask) } else { 0 };
        Some(Address { host: self.owners[at].1 as u32, flow })
    }

    /// Place of an address, shifted, among [`Fabric::owners`]. Hosts are numbered in a row unless the file gives them others:
    /// then nobody has to search.
    #[inline]
    fn owner_of(&self, base: u64) -> Option<usize> {
        let guess = base.wrapping_sub(self.owners.first()?.0) as usize;
        if self.owners.get(guess).is_some_and(|(there, _)| *there == base) {
            return Some(guess);
        }
        self.owners.binary_search_by_key(&base, |(there, _)| *there).ok()
    }

    /// The egress port of a frame that came to a port of a switch, which addresses it to the next hop.
    #[inline]
    pub(super) fn egress(&mut self, at: End, frame: &mut SimFrame) -> Option<usize> {
        let Address { host, flow } = frame.to()?;
        let (s, from, host) = (at.node - self.plan.hosts, Some(at.port), host as usize);
        let hop = match self.spec.routing.mode {
            RoutingMode::Ecmp => self.routes.by_flow(s, host, from, flow),
            RoutingMode::Spray => self.routes.hop(s, host, from, || self.switches[s].lots.next_u64()),
        };
        // Without a route the address of the host stays, which this switch does not know.
        let address = match hop {
            Some(Hop { port, last: false }) => hop_address(port),
            _ => self.plan.macs[host].to_u64(),
        };
        // The address is the first 48 bits of a word.
        if let Some(bytes) = frame.bytes_mut().first_chunk_mut() {
            let (word, mask) = (u64::from_be_bytes(*bytes), self.address_mask << 16);
            *bytes = (word & !mask | address << 16 & mask).to_be_bytes();
        }
        hop.map(|hop| hop.port)
    }
}
