//! A fabric falls into groups of nodes, and comes together again.

use super::membership::Membership;
use super::partition::Partition;
use crate::fabric::engine::event_loop::{Event, Flying};
use crate::fabric::engine::held::Held;
use crate::fabric::engine::world::Fabric;
use crate::fabric::graph::Work;
use crate::fabric::latency::LatencyRecorder;
use crate::fabric::orders::Orders;
use crate::fabric::sim_frame::Spares;
use crate::fabric::time::Queue;
use std::sync::Arc;

impl<'a> Fabric<'a> {
    /// Falls into groups. What is left has the events that are of no node, and everything groups do not need.
    pub(super) fn split(&mut self, partition: &Partition) -> Vec<Self> {
        let of: Arc<[u8]> = partition.of.as_slice().into();
        let groups = 0..partition.groups as u8;
        let member = |own| Membership::new(own, Arc::clone(&of));
        let mut groups: Vec<Self> = groups.map(|own| self.group(member(own))).collect();
        let mut queue = Queue::new(self.now, self.queue.next_order());
        for (time, order, what) in std::mem::replace(&mut self.queue, Queue::new(0, 0)).drain() {
            let Some(node) = self.node_of(what) else {
                queue.push_as(time, order, what);
                continue;
            };
            let what = groups[usize::from(of[node])].adopt(self, what);
            groups[usize::from(of[node])].queue.push_as(time, order, what);
        }
        self.queue = queue;
        (self.slab, self.unused) = (Vec::new(), Vec::new());
        groups
    }

    /// A group with the nodes of its own.
    fn group(&mut self, membership: Membership) -> Self {
        let (plan, flows) = (Arc::clone(&self.plan), Arc::clone(&self.flows));
        let (of, own) = (Arc::clone(&membership.of), membership.own);
        let mine = |node: usize| of[node] == own;
        let mut hosts = Held::none(self.hosts.len());
        hosts.take_some(&mut self.hosts, mine);
        let mut switches = Held::none(self.switches.len());
        switches.take_some(&mut self.switches, |s| mine(plan.hosts + s));
        let mut lines = Held::none(self.lines.len());
        lines.take_some(&mut self.lines, |dir| mine(self.dirs[dir].from.node));
        let switch_of = |port: usize| self.first_port.partition_point(|first| *first <= port) - 1;
        let receivers = self.receivers_of_rates();
        let timeline = self.timeline.split(
            |port| mine(plan.hosts + switch_of(port)),
            |rate| receivers.get(rate).is_some_and(|host| mine(*host)),
        );
        let paused = self.paused.iter().filter(|(flow, _)| mine(flows[**flow as usize].from));
        let paused = paused.map(|(flow, time)| (*flow, *time)).collect();
        Self {
            spec: self.spec,
            plan,
            there: Vec::new(),
            collectives: Arc::clone(&self.collectives),
            routes: Arc::clone(&self.routes),
            by_flow: self.by_flow,
            failures: Vec::new(),
            owners: Arc::clone(&self.owners),
            address_mask: self.address_mask,
            dirs: Arc::clone(&self.dirs),
            lines,
            out: Arc::clone(&self.out),
            hosts,
            switches,
            warnings: Vec::new(),
            flows,
            numbers: Arc::clone(&self.numbers),
            started: self.started.share(),
            pairs: self.pairs.share(),
            obeyed: Vec::new(),
            operations: self.operations.split(),
            orders: Orders::default(),
            reported: Vec::new(),
            paused,
            queue: Queue::new(self.now, 0),
            measure_from: self.measure_from,
            window: None,
            slab: Vec::new(),
            unused: Vec::new(),
            spares: Spares::default(),
            telemetry: self.telemetry.clone(),
            latency: self.latency.as_ref().map(|_| Box::new(LatencyRecorder::new())),
            now: self.now,
            now_ns: self.now_ns,
            events: 0,
            finite: self.finite,
            done: 0,
            ended: 0,
            stopped: false,
            frames_sent: 0,
            samples: Vec::new(),
            timeline,
            first_port: Arc::clone(&self.first_port),
            rate_of: Arc::clone(&self.rate_of),
            membership: Some(Box::new(membership)),
        }
    }

    /// The host that receives what adds to each rate on the timeline.
    fn receivers_of_rates(&self) -> Vec<usize> {
        let mut receivers = Vec::new();
        for (planned, rate) in self.flows.iter().zip(self.rate_of.iter()) {
            if receivers.len() <= *rate {
                receivers.resize(rate + 1, 0);
            }
            receivers[*rate] = planned.to;
        }
        receivers
    }

    /// The node an event happens at; `None`: it is of the whole fabric.
    fn node_of(&self, what: Event) -> Option<usize> {
        Some(match what {
            Event::Arrive { dir, .. } | Event::Head { dir, .. } => self.dirs[dir as usize].to.node,
            Event::Free { dir } | Event::Wake { dir } => self.dirs[dir as usize].from.node,
            Event::Start { flow } => self.flows[flow as usize].from,
            Event::Slot { switch } | Event::Tick { switch } => self.plan.hosts + switch as usize,
            Event::Ready { op } | Event::Computed { op } => match self.operations.op(op).work {
                Work::Compute { host, .. } => host as usize,
                Work::Send(_) | Work::Receive(_) | Work::Join => return None,
            },
            Event::Sample
            | Event::Window
            | Event::Link { .. }
            | Event::Converge { .. }
            | Event::Order { .. } => {
                return None;
            }
        })
    }

    /// Takes over an event of `other`, and the frame it is about.
    fn adopt(&mut self, other: &mut Self, what: Event) -> Event {
        let mut take = |slot: u32| {
            let flying = &mut other.slab[slot as usize];
            let Flying { tail, dir, .. } = *flying;
            self.keep(Flying { frame: flying.frame.take(), tail, dir })
        };
        match what {
            Event::Arrive { dir, slot } => Event::Arrive { dir, slot: take(slot) },
            Event::Head { dir, slot } => Event::Head { dir, slot: take(slot) },
            what => what,
        }
    }

    /// The groups come together; everything they were told has been heard. `order`: number of the next event.
    pub(super) fn join(&mut self, mut groups: Vec<Self>, order: u64) {
        self.started.join(groups.iter_mut().map(|group| std::mem::take(&mut group.started)));
        self.pairs.join(groups.iter_mut().map(|group| std::mem::take(&mut group.pairs)));
        self.set_now(groups.iter().map(|group| group.now).fold(self.now, u64::max));
        let mut queue = Queue::new(self.now, order);
        self.queue.drain().for_each(|(time, order, what)| {
            queue.push_as(time, order, what);
        });
        self.paused.clear();
        for mut group in groups {
            for (time, order, what) in std::mem::replace(&mut group.queue, Queue::new(0, 0)).drain() {
                let what = self.adopt(&mut group, what);
                queue.push_as(time, order, what);
            }
            self.take_back(group);
        }
        self.queue = queue;
    }

    /// Takes back what a group had, but for its events.
    fn take_back(&mut self, mut group: Self) {
        let Some(membership) = group.membership.take() else { return };
        self.hosts.take_all(&mut group.hosts);
        self.switches.take_all(&mut group.switches);
        self.lines.take_all(&mut group.lines);
        if let (Some(own), Some(other)) = (&mut self.telemetry, &group.telemetry) {
            let mine = |dir: &usize| membership.other(self.dirs[*dir].from.node).is_none();
            (0..self.dirs.len()).filter(mine).for_each(|dir| own.take_port(dir, other));
        }
        self.operations.join(group.operations);
        self.paused.append(&mut group.paused);
        if let (Some(own), Some(other)) = (&mut self.latency, &group.latency) {
            own.join(other);
        }
        self.events += group.events;
        self.done += group.done;
        self.ended += group.ended;
        self.frames_sent += group.frames_sent;
        self.timeline.join(group.timeline);
    }
}
