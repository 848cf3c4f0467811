//! What is measured while a fabric runs, and the report made of it.

use super::event_loop::Event;
use super::world::{Fabric, SwitchNode};
use crate::fabric::collective_report::{self, Known, LateBy};
use crate::fabric::congestion;
use crate::fabric::deadlock::{self, Holding, Place};
use crate::fabric::orders;
use crate::fabric::policy::Policy;
use crate::fabric::rclink;
use crate::fabric::reasons::{CirclePause, Context, DeafPeer};
use crate::fabric::report::{
    FlowResult, FlowShare, HeadroomPool, HostResult, InputMemory, MarkingQueue, PortResult, Report, Sample,
    Spread, SwitchResult,
};
use crate::fabric::routes::Routes;
use crate::fabric::sim_frame::SimFrame;
use crate::fabric::spec::{FlowControlKind, Protocol, RoutingMode};
use crate::fabric::switches::FabricSwitch;
use crate::fabric::time::{PS, Ps};
use crate::fabric::timeline::{Pause, TimelineRecorder};
use crate::fabric::topology::End;
use crate::fabric::workload::{self, Carriage, Planned, is_finite};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use weir_config::{Config, PfcRx, PortConfig, PortPfc, Trust};
use weir_dataplane::drops::DropReason;
use weir_dataplane::frame::Frame;
use weir_dataplane::mmu::{Admission, PERSISTENT, PgIx, QueueIx};
use weir_dataplane::parse::{Kind, Profile};
use weir_dataplane::pfc::frame::is_mac_control;
use weir_dataplane::stats::PortStats;
use weir_dataplane::types::{PRIORITIES, PortId};
use weir_endpoint::flow::{HeldBack, Received, Sent, Transport, Unanswered};
use weir_inc::peer::PeerCounters;
use weir_layout::counted;

/// Depth of a port's queues over time.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Gauge {
    pub(super) bytes: u64,
    pub(super) since: Ps,
    pub(super) integral: u128,
    pub(super) max: u64,
}

impl Gauge {
    #[inline]
    pub(super) fn advance(&mut self, now: Ps, from: Ps) {
        let begin = self.since.max(from);
        // Nearly always nothing has waited where frames pass.
        if self.bytes > 0 && now > begin {
            self.integral += u128::from(self.bytes) * u128::from(now - begin);
        }
        self.since = now;
    }

    /// So many bytes wait at `now`, no fewer than from then on.
    #[inline]
    fn note(&mut self, now: Ps, from: Ps, [most, bytes]: [u64; 2]) {
        self.advance(now, from);
        (self.bytes, self.max) = (bytes, self.max.max(most));
    }
}

/// Frames in each queue of a port.
pub(super) fn queued_frames(switch: &FabricSwitch, port: PortId) -> [u32; PRIORITIES] {
    std::array::from_fn(|queue| switch.queue_frames(port, queue))
}

impl Fabric<'_> {
    /// A data frame leaves a switch whose queues held `before` frames: its wait is over.
    pub(super) fn leaves(
        &self,
        dir: usize,
        s: usize,
        port: PortId,
        before: &[u32; PRIORITIES],
        frame: &mut SimFrame,
    ) {
        let Some(journey) = frame.journey() else { return };
        let switch = self.switches[s].part(port.index());
        let after = queued_frames(switch, port);
        let Some(queue) = (0..PRIORITIES).find(|q| after[*q] < before[*q]) else { return };
        let held = switch.reaction(port).held_ns(queue, self.ns());
        let (egress, delay) = (self.spec.switch.egress.0 * PS, self.dirs[dir].delay);
        journey.cross(self.now, port.index(), queue, held);
        journey.leave(dir, self.now, egress, delay);
    }

    #[cold]
    pub(super) fn note_pfc(&mut self, s: usize, port: usize, frame: &SimFrame) {
        let Some(times) = frame.bytes().get(17..18 + 2 * PRIORITIES) else { return };
        for priority in (0..PRIORITIES).filter(|p| times[0] >> p & 1 == 1) {
            let pause = times[1 + 2 * priority] | times[2 + 2 * priority] != 0;
            self.note_held_back(s, port, priority, pause);
        }
        let node = &mut self.switches[s];
        let next = node.part(port).generator(PortId(port as u16)).next_deadline();
        node.refresh_at = node.refresh_at.min(next);
    }

    /// A port holds a priority back from now on, or does not any more.
    pub(super) fn note_held_back(&mut self, s: usize, port: usize, priority: usize, pause: bool) {
        let more = self.timeline.pfc(self.first_port[s] + port, priority, self.now_ns, pause);
        self.switches[s].pausing += i32::from(more);
        self.switches[s].holding[port] += more;
    }

    /// Brings the queue depth of a port up to date.
    #[inline]
    pub(super) fn measure(&mut self, s: usize, port: usize) {
        let bytes = self.switches[s].waiting_bytes(port);
        self.note_depth(s, port, bytes);
    }

    /// The same when a frame of `len` bytes has left it.
    #[inline]
    pub(super) fn measure_departure(&mut self, s: usize, port: usize, len: u64) {
        let bytes = self.switches[s].gauges[port].bytes - len;
        debug_assert_eq!(bytes, self.switches[s].waiting_bytes(port));
        self.note_depth(s, port, bytes);
    }

    /// The same when a frame of `len` bytes has come and left where nothing waits.
    #[inline]
    pub(super) fn measure_passing(&mut self, s: usize, port: usize, len: u64) {
        debug_assert_eq!(self.switches[s].waiting_bytes(port), 0);
        self.note_depths(s, port, [len, 0]);
    }

    /// The same of all ports of a switch whose watchdog may have dropped what waited.
    pub(super) fn measure_drops(&mut self, s: usize) {
        self.switches[s].recount();
        for port in 0..self.switches[s].gauges.len() {
            let bytes = self.switches[s].waiting_bytes(port);
            if bytes != self.switches[s].gauges[port].bytes {
                self.note_depth(s, port, bytes);
            }
        }
    }

    #[inline]
    fn note_depth(&mut self, s: usize, port: usize, bytes: u64) {
        self.note_depths(s, port, [bytes; 2]);
    }

    /// So many bytes wait now, and then so many.
    #[inline]
    fn note_depths(&mut self, s: usize, port: usize, depths: [u64; 2]) {
        self.switches[s].gauges[port].note(self.now, self.measure_from, depths);
        self.timeline.depths(self.first_port[s] + port, self.now_ns, depths);
    }

    pub(super) fn sample(&mut self) {
        let delivered = |planned: &Planned| self.progress(planned).2.bytes;
        let fullest = |node: &SwitchNode| node.gauges.iter().map(|g| g.bytes).max().unwrap_or(0);
        let sample = Sample {
            at_ns: self.ns(),
            delivered: self.flows.iter().map(delivered).collect(),
            queues: self.switches.iter().map(fullest).collect(),
        };
        self.samples.push(sample);
        let every = self.spec.sample.map_or(u64::MAX, |every| every.0);
        self.at(self.now.saturating_add(every * PS), Event::Sample);
    }

    pub(super) fn report(mut self) -> Report {
        let ns = self.ns();
        let (from, now) = (self.measure_from, self.now);
        if !self.failures.is_empty() {
            // What a flow takes alone it takes where nothing has failed.
            self.routes = Arc::new(Routes::new(&self.plan, self.spec.seed, |_| true));
        }
        let mut timeline =
            std::mem::replace(&mut self.timeline, TimelineRecorder::new(Vec::new(), Vec::new()));
        for host in (0..self.plan.hosts).filter(|host| self.there[*host]) {
            let (held_back, more) = self.hosts[host].held_back(ns);
            let peer = self.dirs[self.out[host][0]].to.node;
            let [node, peer] = [host, peer].map(|node| &self.plan.names[node]);
            let pauses = held_back.into_iter().map(|HeldBack { priority, from, to }| Pause {
                node: node.clone(),
                port: 0,
                peer: peer.clone(),
                priority,
                from_ns: from,
                to_ns: to,
            });
            timeline.host_pauses(pauses, more, ns);
        }
        self.switches.iter_mut().flat_map(|s| &mut s.gauges).for_each(|g| g.advance(now, from));
        let is_still = self.is_still();
        let flows: Vec<FlowResult> = self.flows.iter().map(|f| self.flow_result(f, is_still)).collect();
        let known: Vec<Option<Known>> = self.flows.iter().map(|f| self.known(f)).collect();
        let computations = self.computations();
        let collectives = collective_report::results(&self.reported, &flows, &known, &computations);
        let unanswered = self.unanswered(ns);
        let parts = || self.switches.iter().flat_map(|s| &s.parts);
        let errors = parts().map(|part| part.conservation().error().unsigned_abs());
        let dropped = parts().map(|part| part.conservation().dropped);
        let context = Context {
            config: self.switches.iter().next().map(|s| Config::clone(&s.config)),
            deaf: self.deaf_peers(),
            silent: self.silent_ports(),
            notes: [
                workload::notes(&self.plan, self.spec.stop_time.0, self.flows.iter()),
                congestion::notes(self.flows.iter()),
                rclink::notes(self.spec, &self.plan, self.flows.iter()),
                self.misplaced(),
                self.overtaken(&flows),
            ]
            .concat(),
            resent: self.flows.iter().all(|f| self.is_resent(f)),
            pause_loss: self.plan.links.iter().any(|link| link.spec.pause_loss > 0.0),
            failures: !self.spec.failures.is_empty(),
            repaired: self.spec.failures.iter().all(|failure| failure.repair.is_some()),
            policy: Policy::of(self.spec).unwrap_or(Policy::Weir {}),
            credits: self.has_credits(),
            circle: self.circle(ns),
            unanswered,
        };
        let links = self.dirs.iter().zip(self.lines.iter());
        let links = links.map(|(dir, line)| line.result(dir, &self.plan.names, self.now));
        let hosts = self.plan.names.iter().zip(self.hosts.iter());
        let traces =
            hosts.filter_map(|(name, host)| Some(orders::traces(name, host.nic()?))).flatten().collect();
        Report {
            traces,
            flows_finite: self.finite,
            flows_done: self.done,
            fct_ns: Spread::of(flows.iter().filter_map(|f| f.fct_ns).collect()),
            slowdown_milli: Spread::of(flows.iter().filter_map(FlowResult::slowdown_milli).collect()),
            frames_sent: self.frames_sent,
            frames_lost: self.lines.iter().map(|line| line.lost + line.lost_down).sum(),
            frames_dropped: dropped.sum(),
            lossless_drops: self.ports().map(|p| p.lossless_drops()).sum(),
            lossless_drops_watchdog: self.ports().map(|p| p.lossless_drops_watchdog()).sum(),
            conservation_error: errors.sum(),
            flows,
            switches: self.there[self.plan.hosts..]
                .iter()
                .zip(0..)
                .filter(|(there, _)| **there)
                .map(|(_, s)| self.switch_result(s))
                .collect(),
            hosts: self.there[..self.plan.hosts]
                .iter()
                .zip(0..)
                .filter(|(there, _)| **there)
                .map(|(_, h)| self.host_result(h))
                .collect(),
            links: links.collect(),
            collectives,
            unfinished: computations.unfinished(&self.plan.names, ns),
            held_for_nothing: self.held_for_nothing(),
            samples: std::mem::take(&mut self.samples),
            timeline: timeline.finish(ns),
            latency: self.latency.as_ref().map(|latency| latency.report(|dir| self.leg_name(dir))),
            orders: self.orders.results(),
            stopped: self.stopped,
            warnings: self.warnings,
            ..Report::begin(self.spec, ns, self.events)
        }
        .explained(&context)
    }

    /// What hosts threw away since later frames of the same flow were there: spraying and other routes are causes that nothing else
    /// names.
    fn overtaken(&self, flows: &[FlowResult]) -> Vec<String> {
        let keeps = |planned: &Planned| matches!(planned.flow.transport, Transport::SelectiveRepeat(_));
        let in_order = self.flows.iter().zip(flows).filter(|(planned, _)| !keeps(planned));
        let useless: u64 = in_order.filter_map(|(_, flow)| flow.useless).sum();
        let sprays = self.spec.routing.mode == RoutingMode::Spray;
        if useless == 0 || !sprays && self.spec.failures.is_empty() {
            return Vec::new();
        }
        let is_lost = self.lines.iter().any(|line| line.lost + line.lost_down > 0)
            || self.ports().any(|port| port.drops.0.iter().sum::<u64>() > 0);
        let too = if is_lost { ", and what follows a lost one is thrown away, too" } else { "" };
        let (cause, remedy) = match sprays {
            true => (
                "with `routing.mode = \"spray\"` frames overtake one another",
                "Over one path they come in order (`mode = \"ecmp\"`); reliable",
            ),
            false => (
                "frames overtake one another where routes change, when a [[failure]] begins and when it is repaired",
                "Reliable",
            ),
        };
        vec![format!(
            "Hosts threw away {} that came out of order, or again: {cause}{too}. {remedy} RoCEv2 flows keep what overtakes \
             with `host.transport = \"selective_repeat\"`.",
            counted(useless, "frame")
        )]
    }

    /// Whether what is lost of a flow is sent again.
    fn is_resent(&self, planned: &Planned) -> bool {
        let of_pair = planned.carriage == Carriage::Pair && planned.flow.transport.is_reliable();
        of_pair && (self.spec.host.protocol != Protocol::Rclink || rclink::is_acknowledged(self.spec))
    }

    /// What is known of a part of a collective.
    fn known(&self, planned: &Planned) -> Option<Known> {
        let held = self.paused.get(&planned.flow.id).copied().unwrap_or_default();
        planned.part.map(|part| Known { held, ..Known::of(&self.ways(), planned, part, LateBy::Queue) })
    }

    /// Counters of all ports of all switches.
    pub(super) fn ports(&self) -> impl Iterator<Item = &PortStats> {
        let parts = self.switches.iter().flat_map(|s| s.parts.iter().map(|part| (part, s.gauges.len())));
        parts.flat_map(|(part, ports)| (0..ports).map(|i| part.stats(PortId(i as u16))))
    }

    /// Ports of switches that lost frames of lossless groups, by switch and port, with the frames that each group lost.
    fn losing_ports(&self) -> impl Iterator<Item = (usize, usize, &PortConfig, [u64; PRIORITIES])> {
        let there = move |(s, _): &(usize, &SwitchNode)| self.there[self.plan.hosts + s];
        let ports = |(s, node): (usize, _)| {
            let node: &SwitchNode = node;
            let lost = move |i| node.part(i).stats(PortId(i as u16)).pg_drops;
            node.config.ports.iter().enumerate().map(move |(i, port)| (s, i, port, lost(i)))
        };
        let ports = self.switches.iter().enumerate().filter(there).flat_map(ports);
        ports.filter(|(_, _, port, lost)| (0..PRIORITIES).any(|pg| port.pgs[pg].lossless && lost[pg] > 0))
    }

    /// Priorities of whose pauses the peer of a port of a switch takes notice, a bit each.
    fn obeyed_by_peer(&self, s: usize, port: usize) -> u8 {
        let End { node, port } = self.dirs[self.out[self.plan.hosts + s][port]].to;
        let Some(peer) = node.checked_sub(self.plan.hosts) else { return self.obeyed[node] };
        let PortPfc { enable, rx, .. } = self.switches[peer].config.ports[port].pfc;
        match rx {
            PfcRx::Enabled => enable,
            PfcRx::All => u8::MAX,
            PfcRx::Link | PfcRx::None => 0,
        }
    }

    /// Ports of switches that paused a peer which does not obey, and lost what it went on sending, by switch and port.
    pub(super) fn deaf_peers(&self) -> BTreeMap<(String, usize), DeafPeer> {
        let mut deaf = BTreeMap::new();
        for (s, i, port, refused) in self.losing_ports() {
            let (id, obeyed) = (PortId(i as u16), self.obeyed_by_peer(s, i));
            let sent = self.switches[s].part(i).gauges(id, self.ns()).pfc_tx_xoff;
            let group = |p: usize| usize::from(port.maps.pfc_to_pg[p]);
            let ignored = |p: &usize| {
                (port.pfc.enable & !obeyed) >> p & 1 == 1 && sent[*p] > 0 && refused[group(*p)] > 0
            };
            let priorities: Vec<usize> = (0..PRIORITIES).filter(ignored).collect();
            if !priorities.is_empty() {
                let groups: BTreeSet<usize> = priorities.iter().map(|p| group(*p)).collect();
                let lost = groups.into_iter().map(|group| refused[group]).sum();
                let peer = self.dirs[self.out[self.plan.hosts + s][i]].to.node;
                let (name, is_host) = (self.plan.names[peer].clone(), peer < self.plan.hosts);
                let place = (self.plan.names[self.plan.hosts + s].clone(), i);
                deaf.insert(place, DeafPeer { name, is_host, priorities, lost });
            }
        }
        deaf
    }

    /// Ports of switches that lost lossless frames and ask nobody to stop for any group of which they lost some, by switch and port.
    fn silent_ports(&self) -> BTreeSet<(String, usize)> {
        let is_silent = |port: &PortConfig, lost: [u64; PRIORITIES]| {
            let told = |p: usize| port.pfc.tx && port.pfc.enable >> p & 1 == 1;
            let is_told =
                |pg: usize| (0..PRIORITIES).any(|p| told(p) && usize::from(port.maps.pfc_to_pg[p]) == pg);
            (0..PRIORITIES).all(|pg| lost[pg] == 0 || !port.pgs[pg].lossless || !is_told(pg))
        };
        let silent = self.losing_ports().filter(|(_, _, port, lost)| is_silent(port, *lost));
        silent.map(|(s, i, ..)| (self.plan.names[self.plan.hosts + s].clone(), i)).collect()
    }

    /// Who is held back at the end by switches that hold nothing of theirs, in sentences.
    fn held_for_nothing(&self) -> Vec<String> {
        let mut told = Vec::new();
        for (s, node) in self.switches.iter().enumerate() {
            let at = self.plan.hosts + s;
            let Some(part) = node.parts.first().filter(|_| self.there[at]) else { continue };
            for priority in 0..PRIORITIES {
                let group = |port: &usize| PgIx((port * PRIORITIES + priority) as u32);
                let ports: Vec<usize> = (0..node.gauges.len())
                    .filter(|port| part.admission().pauses_for_nothing(group(port)))
                    .collect();
                let Some(first) = ports.first() else { continue };
                let peers =
                    ports.iter().map(|port| self.plan.names[self.dirs[self.out[at][*port]].to.node].as_str());
                told.push(format!(
                    "{} holds back {} on priority {priority} for good and holds nothing of theirs: when the last frame left, the \
                     threshold of its `policy` was less than `xon_offset`, {} bytes, and it is looked at when frames leave. Remedy: \
                     `xon` above 0 in the lossless [[switch.config.buffer.profile]] (a group below it resumes whatever its \
                     threshold), a smaller `xon_offset`, or more to share (`dynamic_th`, `buffer.size`)",
                    self.plan.names[at],
                    peers.collect::<Vec<_>>().join(", "),
                    node.config.ports[*first].pgs[priority].xon_offset
                ));
            }
        }
        told
    }

    /// Hosts that can read no request until their responses go, by the hosts that hold these back in the same way: requests fill
    /// their memory on the priority of responses. A host by itself, if it has paused the acknowledgements that they wait for.
    fn unanswered(&self, ns: u64) -> BTreeMap<String, BTreeSet<String>> {
        let stuck: BTreeMap<usize, Unanswered> = (0..self.plan.hosts)
            .filter(|host| self.there[*host])
            .filter_map(|host| Some((host, self.hosts[host].unanswered(ns)?)))
            .collect();
        let ends: BTreeMap<u32, usize> = match stuck.is_empty() {
            true => BTreeMap::new(),
            false => self.flows.iter().map(|planned| (planned.flow.id, planned.to)).collect(),
        };
        let name = |host: &usize| self.plan.names[*host].clone();
        // A memory that pauses is that of all peers, credits are those of one.
        let has_part = |by: &Unanswered, host: &usize| {
            !self.has_credits() || by.responses.iter().any(|flow| ends.get(flow) == Some(host))
        };
        let waits = stuck.iter().map(|(host, of_host)| {
            let holds = |to: &&usize| {
                stuck.get(to).is_some_and(|by| by.holds >> of_host.channel & 1 == 1 && has_part(by, host))
            };
            // It waits for itself, whatever others do.
            if of_host.holds_answers {
                return (name(host), BTreeSet::from([name(host)]));
            }
            let to = of_host.responses.iter().filter_map(|flow| ends.get(flow)).filter(holds);
            (name(host), to.map(name).collect())
        });
        waits.collect()
    }

    fn has_credits(&self) -> bool {
        let host = &self.spec.host;
        host.protocol == Protocol::Rclink && host.rclink.flow_control == FlowControlKind::Cbfc
    }

    /// Pauses that wait for each other in a circle.
    fn circle(&self, ns: u64) -> Vec<CirclePause> {
        let switches = (0..self.switches.len()).filter(|s| self.there[self.plan.hosts + s]);
        let ports =
            switches.flat_map(|s| (0..self.switches[s].config.ports.len()).map(move |port| (s, port)));
        let places = ports.flat_map(|(s, port)| {
            self.pauses_at(s, port).map(move |priority| (self.plan.hosts + s, port, priority))
        });
        let pauses = places.map(|place| (place, self.holding(place, ns))).collect();
        deadlock::circle(pauses).into_iter().map(|place| CirclePause::new(place, &self.plan.names)).collect()
    }

    /// Priorities that a port of a switch has told its peer to hold back.
    fn pauses_at(&self, s: usize, port: usize) -> impl Iterator<Item = u8> {
        let mask = self.switches[s].part(port).generator(PortId(port as u16)).paused_mask();
        (0..PRIORITIES as u8).filter(move |priority| mask >> priority & 1 == 1)
    }

    /// What the group holds for which a port of a switch has paused its peer.
    fn holding(&self, (node, port, priority): Place, ns: u64) -> Holding {
        let node_of = &self.switches[node - self.plan.hosts];
        let (part, ports) = (node_of.part(port), &node_of.config.ports);
        let (id, maps) = (PortId(port as u16), &ports[port].maps);
        let pg = usize::from(maps.pfc_to_pg[usize::from(priority)]);
        let classes: Vec<usize> =
            (0..PRIORITIES).filter(|tc| usize::from(maps.tc_to_pg[*tc]) == pg).collect();
        let (mut held, mut behind) = (0, Vec::new());
        for (out, egress) in ports.iter().enumerate() {
            let queues: BTreeSet<u8> = classes.iter().map(|tc| egress.maps.tc_to_queue[*tc]).collect();
            for queue in queues {
                let bytes = part.queue_bytes_from(id, PortId(out as u16), queue.into());
                held += bytes;
                if bytes > 0 && part.reaction(PortId(out as u16)).holds(queue.into(), ns) {
                    behind.push((bytes, self.holders(node, out, queue)));
                }
            }
        }
        if let Some((out, queue)) = node_of.core.as_ref().and_then(|core| core.head(port)) {
            // Behind the head of a FIFO nothing leaves, wherever it is for.
            behind.clear();
            if part.reaction(PortId(out as u16)).holds(queue.into(), ns) {
                behind.push((held, self.holders(node, out, queue)));
            }
        }
        let admission = part.admission();
        let group = admission.pg_view(PgIx::of(id, pg));
        // Queues count the bytes of frames, a buffer may count cells.
        let charged = |bytes: u64| {
            u128::from(bytes) * u128::from(group.used + group.headroom) / u128::from(held.max(1))
        };
        behind.iter_mut().for_each(|(bytes, _)| *bytes = charged(*bytes) as u64);
        Holding {
            resumes_at: admission.resumes_at(&group),
            outside_headroom: group.used,
            memory: (node, if node_of.core.is_some() { port } else { 0 }),
            headroom_at: admission.headroom_at(&group),
            behind,
        }
    }

    /// Pauses that hold back a queue of a port: of the switch at the other end of its link.
    fn holders(&self, node: usize, port: usize, queue: u8) -> Vec<Place> {
        let peer = self.dirs[self.out[node][port]].to;
        let Some(s) = peer.node.checked_sub(self.plan.hosts) else { return Vec::new() };
        if !self.there[peer.node] {
            return Vec::new();
        }
        let to_queue = &self.switches[node - self.plan.hosts].config.ports[port].maps.pfc_to_queue;
        let holds = |priority: &u8| to_queue[usize::from(*priority)] == queue;
        self.pauses_at(s, peer.port).filter(holds).map(|priority| (peer.node, peer.port, priority)).collect()
    }

    /// Flows whose priority at the host is not the one their switch pauses for them, in sentences.
    fn misplaced(&self) -> Vec<String> {
        let roce = self.flows.iter().filter(|_| self.spec.host.protocol == Protocol::Rocev2);
        let classes: BTreeSet<_> = roce.map(|f| (f.from, f.flow.priority, f.flow.dscp)).collect();
        let mut told = BTreeSet::new();
        for (host, priority, dscp) in classes {
            let to = self.dirs[self.out[host][0]].to;
            let Some(s) = to.node.checked_sub(self.plan.hosts) else { continue };
            let port = &self.switches[s].config.ports[to.port];
            let group = |dscp: usize| port.maps.tc_to_pg[usize::from(port.maps.dscp_to_tc[dscp])];
            // Priorities that the group of a DSCP pauses, a bit each.
            let pauses = |dscp: usize| {
                let of_group = |p: &u8| port.maps.pfc_to_pg[usize::from(*p)] == group(dscp);
                (0..PRIORITIES as u8).filter(of_group).fold(0, |mask, p| mask | 1 << p) & port.pfc.enable
            };
            let paused = pauses(dscp.into());
            if !port.trust.contains(&Trust::Dscp) || paused == 0 || paused >> priority & 1 == 1 {
                continue;
            }
            let own = port.maps.pfc_to_pg[usize::from(priority)];
            let other = (0..64).find(|dscp| group(*dscp) == own);
            let other = other.map_or(String::new(), |dscp| format!(", or `dscp = {dscp}`"));
            let first = paused.trailing_zeros();
            let list: Vec<String> =
                (0..PRIORITIES).filter(|p| paused >> p & 1 == 1).map(|p| p.to_string()).collect();
            let (word, list) = (if list.len() == 1 { "priority" } else { "priorities" }, list.join(", "));
            told.insert(format!(
                "Frames of priority {priority} with DSCP {dscp} are in priority group {} of {}, whose pauses hold back {word} {list} of a \
                 host: not them. Remedy: `priority = {first}` in their [[workload]]{other}.",
                group(dscp.into()),
                self.plan.names[to.node]
            ));
        }
        told.into_iter().collect()
    }

    /// What a flow's sender has done, the rate it may send at, and what its receiver has seen. A rank is both, and so is its engine.
    fn progress(&self, planned: &Planned) -> (Sent, Option<u64>, Received) {
        let (from, to) = (&self.hosts[planned.from], &self.hosts[planned.to]);
        let Some(started) = self.started.of(planned.flow.id) else { return Default::default() };
        if let Some(rank) = planned.seat.and_then(|seat| from.rank(seat)) {
            let ((mut sent, rate), mut received) = (rank.sent(), rank.received());
            if let Some(seen) = self.seen_by_engine(planned) {
                sent.resent += seen.retransmitted;
                sent.timeouts += seen.timeouts;
                received.marked += seen.ce;
            }
            return (sent, rate, received);
        }
        let (sent, rate) = from.sent(started.sender, started.nth);
        (sent, rate, to.received(started.receiver, started.nth))
    }

    /// What the engine that a rank sends to has seen of it.
    fn seen_by_engine(&self, planned: &Planned) -> Option<PeerCounters> {
        let seat = planned.seat?;
        let engine = *self.collectives.stops(seat, planned.from).first()?;
        let (job, _) = self.collectives.engines(seat).find(|(_, node)| *node == engine)?;
        let peers = self.hosts[engine].as_engine()?.job(job)?.peers();
        let rank = peers.iter().find(|peer| peer.path.dst == self.plan.macs[planned.from])?;
        Some(rank.counters)
    }

    /// No data is on its way: what has been sent and has not come will not come. Hosts ask about credits, and answer, for as long as
    /// they live.
    fn is_still(&self) -> bool {
        let headers = Profile::standard();
        let is_data = |frame: &SimFrame| match self.spec.host.protocol {
            Protocol::Rocev2 => {
                headers.parse(frame.bytes(), frame.len()).is_ok_and(|parsed| parsed.kind == Kind::Data)
            }
            // Credits have no kind of their own.
            Protocol::Rclink => !is_mac_control(frame.bytes()) && rclink::is_message(self.spec, frame),
        };
        self.slab.iter().all(|flying| !flying.frame.as_ref().is_some_and(is_data))
            && self.switches.iter().flat_map(|s| &s.gauges).all(|gauge| gauge.bytes == 0)
            && !(0..self.plan.hosts).any(|host| self.there[host] && self.hosts[host].has_unread())
    }

    /// `is_still`: see [`Self::is_still`].
    fn flow_result(&self, planned: &Planned, is_still: bool) -> FlowResult {
        let started = self.started.of(planned.flow.id);
        let (sent, rate, got) = self.progress(planned);
        // Of the end of a flow nobody tells its receiver.
        let is_sent = is_finite(planned) && sent.packets >= planned.flow.packets();
        let lost = match is_still && is_sent && planned.seat.is_none() && !self.is_resent(planned) {
            true => planned.flow.bytes - got.bytes,
            false => got.lost,
        };
        let stops = match planned.seat {
            None => vec![planned.to],
            Some(seat) => self.collectives.stops(seat, planned.from),
        };
        FlowResult {
            id: planned.flow.id,
            from: self.plan.names[planned.from].clone(),
            to: self.plan.names[planned.to].clone(),
            bytes: is_finite(planned).then_some(planned.flow.bytes),
            start_ns: started.map(|s| s.at),
            fct_ns: got.delivered().zip(started).map(|(done, s)| done - s.at),
            ideal_ns: is_finite(planned).then(|| self.ways().alone(planned, &stops)),
            delivered: got.bytes,
            lost,
            packets: sent.packets,
            resent: sent.resent,
            useless: Some(got.useless),
            marked: Some(got.marked),
            cnps: Some(got.cnps),
            timeouts: sent.timeouts,
            probes: sent.probes,
            rate_bps: rate,
            level: None,
            error: planned.seat.and_then(|seat| self.hosts[planned.from].rank(seat)?.error()).map(Into::into),
        }
    }

    pub(super) fn switch_result(&self, s: usize) -> SwitchResult {
        let node = &self.switches[s];
        let span = self.now.saturating_sub(self.spec.measure_from.0.saturating_mul(PS));
        let buffer = &node.config.buffer;
        let memory = |i: usize| {
            let (own, peak) = (buffer.of_port(i), node.part(i).admission().headroom_peak());
            let pool = HeadroomPool { size: own.headroom, peak };
            InputMemory { shared: own.shared, headroom_pool: buffer.headroom_pooled.then_some(pool) }
        };
        let fullness = |pool: &HeadroomPool| u128::from(pool.peak) * 1_000_000 / u128::from(pool.size.max(1));
        let port = |i: usize| {
            let id = PortId(i as u16);
            let (stats, g) = (node.part(i).stats(id), node.part(i).gauges(id, self.ns()));
            let pfc = node.part(i).generator(id).counters();
            // What an output marks, and loses, is in the memories of all inputs.
            let all =
                |of: fn(&PortStats) -> u64| node.parts.iter().map(|part| of(part.stats(id))).sum::<u64>();
            let sum = |of: &[u64; PRIORITIES]| of.iter().sum::<u64>();
            let max = |of: &[u64; PRIORITIES]| of.iter().copied().max().unwrap_or(0);
            let lossless = |pg: &usize| node.config.ports[i].pgs[*pg].lossless;
            let lost =
                |reason: usize| node.parts.iter().map(|part| part.stats(id).drops.0[reason]).sum::<u64>();
            let reasons = DropReason::ALL.iter().enumerate().map(|(at, reason)| (reason, lost(at)));
            let reasons = reasons.filter(|(_, count)| *count > 0);
            // Most of the headroom of each lossless group that was in use, and what it has. A published model may let
            // others use it, too.
            let pgs = node.config.ports[i].pgs.iter().zip(g.pg_headroom_peak);
            let used = pgs.filter(|(pg, _)| pg.lossless).map(|(pg, peak)| (peak, pg.xoff));
            let share = |(peak, xoff): &(u64, u64)| {
                (u128::from(*peak) * 1_000_000 / u128::from((*xoff).max(1)), *xoff)
            };
            let (headroom_peak, headroom) = used.max_by_key(share).unwrap_or((0, 0));
            let marks = |queue: usize| {
                let wred = node.config.marking_of(&node.config.ports[i], queue)?;
                // Of a crossbar some of it has left the inputs, and is charged to nobody.
                let charged = node.core.is_none().then_some(g.queue_peak[queue]);
                let held = |queue: usize| {
                    let views =
                        node.parts.iter().map(|part| part.admission().queue_view(QueueIx::of(id, queue)));
                    views.map(|view| view.peak.peak(PERSISTENT)).sum::<u64>()
                };
                Some(MarkingQueue {
                    queue,
                    depth: node.gauges[i].max.min(charged.unwrap_or(u64::MAX)),
                    is_alone: (0..PRIORITIES).all(|other| other == queue || held(other) == 0),
                    chosen: node.parts.iter().map(|part| part.stats(id).ecn_selected[queue]).sum(),
                    begins: if wred.pmax == 0 { wred.kmax } else { wred.kmin },
                    is_drawn: wred.pmax > 0 && wred.kmin < wred.kmax,
                    mark: wred.mark,
                })
            };
            PortResult {
                port: i,
                peer: self.plan.names[self.dirs[self.out[self.plan.hosts + s][i]].to.node].clone(),
                rx_frames: stats.rx_packets,
                tx_frames: match &node.core {
                    Some(core) => core.sent(i),
                    None => stats.tx_packets,
                },
                queue_max: node.gauges[i].max,
                queue_mean: node.gauges[i].integral.checked_div(span.into()).map(|mean| mean as u64),
                marked: all(|stats| stats.ecn_marked.iter().sum()),
                drops: reasons.map(|(reason, count)| (reason.name(), count)).collect(),
                pfc_tx_xoff: pfc.xoff_frames,
                pfc_tx_xon: pfc.xon_frames,
                pfc_rx: g.pfc_rx_frames,
                tx_paused_ns: Some(max(&g.tx_paused_ns)),
                rx_paused_ns: Some(max(&g.rx_paused_ns)),
                pg_peak: (0..PRIORITIES).filter(lossless).map(|pg| g.pg_shared_peak[pg]).max().unwrap_or(0),
                headroom_peak,
                headroom,
                memory: node.core.as_ref().map(|_| memory(i)),
                storms: match &node.core {
                    Some(core) => core.storms(i),
                    None => sum(&g.storms_detected),
                },
                marking: (0..PRIORITIES).filter_map(marks).collect(),
                flows: FlowShare::of(
                    &node.parts.iter().filter_map(|part| part.flows(id)).collect::<Vec<_>>(),
                ),
            }
        };
        SwitchResult {
            name: self.plan.names[self.plan.hosts + s].clone(),
            buffer: buffer.size,
            shared: node.parts.first().and_then(|p| p.admission().shared()).unwrap_or(buffer.shared),
            headroom_pool: (0..node.parts.len())
                .filter_map(|input| memory(input).headroom_pool)
                .max_by_key(fullness),
            ports: (0..node.gauges.len()).map(port).collect(),
        }
    }

    pub(super) fn host_result(&self, host: usize) -> HostResult {
        let report = self.hosts[host].report(self.ns());
        HostResult {
            name: self.plan.names[host].clone(),
            mac: self.plan.macs[host].to_string(),
            paused_ns: report.paused_ns,
            pauses: report.pauses,
            pfc_rx: report.pfc_frames,
            pfc_tx: report.pfc_sent,
            memory_peak: report.memory_peak,
            no_room: report.no_room,
            credit_wait_ns: report.credit_wait_ns,
            unexpected: report.unexpected,
        }
    }

    /// A node and where it sends.
    pub(super) fn leg_name(&self, dir: usize) -> String {
        let (from, to) = (self.dirs[dir].from, self.dirs[dir].to);
        let name = |node: usize| &self.plan.names[node];
        if from.node < self.plan.hosts {
            return format!("{} \u{2192} {}", name(from.node), name(to.node));
        }
        format!("{} port {} \u{2192} {}", name(from.node), from.port, name(to.node))
    }
}
