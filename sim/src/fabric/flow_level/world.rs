//! Flows that begin, share, and end.

use super::max_min::{BYTE, MaxMin, units};
use super::scope;
use crate::fabric::collective::lay_out_with_engines;
use crate::fabric::computations::Computations;
use crate::fabric::faults::both;
use crate::fabric::graph::{Collective, OpId};
use crate::fabric::hosts;
use crate::fabric::links::{Direction, Line, directions, lines, outgoing};
use crate::fabric::operations::{Due, Operations};
use crate::fabric::play::{Progress, lanes};
use crate::fabric::routes::{self, Routes};
use crate::fabric::spec::FabricSpec;
use crate::fabric::time::{PS, Ps, Queue};
use crate::fabric::timeline::{MAX_RATES, TimelineRecorder};
use crate::fabric::topology::Plan;
use crate::fabric::ways::{Stream, Ways};
use crate::fabric::workload::{Planned, Traffic, flows, is_finite};
use crate::fabric::{FabricError, idle};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::ControlFlow;
use weir_dataplane::types::{Nanos, wire_bytes};
use weir_endpoint::flow::Pace;

/// Rounds between two looks at the progress.
const ROUNDS_PER_STEP: u64 = 1 << 10;
/// Never.
pub(super) const NEVER: u64 = u64::MAX;
/// An acknowledgement of RoCEv2: headers, AETH and ICRC, bytes without FCS.
const ACK_BYTES: u64 = 62;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// A flow may start.
    Start { flow: u32 },
    /// A computation is over.
    Computed { op: u32 },
    /// The last byte of a flow has arrived.
    Delivered { flow: u32 },
    /// Its sender knows.
    Acknowledged { flow: u32 },
}

impl From<Due> for Event {
    fn from(due: Due) -> Self {
        match due {
            Due::Start { flow } => Self::Start { flow },
            Due::Computed { op } => Self::Computed { op },
        }
    }
}

/// What was left of a flow from some time on, and how fast it became less.
#[derive(Clone, Copy, Debug)]
struct Course {
    since: Ps,
    /// In units of rate times picoseconds.
    left: u128,
    rate: u64,
}

impl Course {
    fn left_at(&self, time: Ps) -> u128 {
        self.left.saturating_sub(u128::from(self.rate) * u128::from(time.saturating_sub(self.since)))
    }
}

/// A flow that is being sent, or on its way.
#[derive(Clone, Debug)]
pub(super) struct Sending {
    pub flow: u32,
    /// Its rate and, as far back as something is under way, those before, latest last.
    course: VecDeque<Course>,
    /// When it will have been sent at this rate, but for `last`.
    end: Ps,
    pub path: Vec<u32>,
    /// Bytes on the wire, and those of them that are a last frame, which waits for the end of what is sent at a pace and has none.
    pub wire: u64,
    last: u64,
    /// From the end of its sending to the arrival of its last byte.
    rest: Ps,
    /// The link that stands for the rate it has at most.
    cap: Option<u32>,
}

impl Sending {
    fn new(flow: u32, path: Vec<u32>, stream: &Stream, cap: Option<u32>, now: Ps) -> Self {
        let Stream { wire, last, rest } = *stream;
        let course = VecDeque::from([Course { since: now, left: u128::from(wire) * BYTE, rate: 0 }]);
        Self { flow, course, end: NEVER, path, wire, last, rest, cap }
    }

    /// When it got the rate it has.
    fn since(&self) -> Ps {
        self.course.back().map_or(0, |course| course.since)
    }

    /// Another rate from now on.
    fn change(&mut self, now: Ps, rate: u64) {
        let left = self.course.back().map_or(0, |course| course.left_at(now));
        self.course.push_back(Course { since: now, left, rate });
        while self.course.get(1).is_some_and(|next| next.since.saturating_add(self.rest) <= now) {
            self.course.pop_front();
        }
        let takes = left.saturating_sub(u128::from(self.last) * BYTE).checked_div(rate.into());
        let takes = takes.and_then(|takes| u64::try_from(takes).ok());
        self.end = takes.map_or(NEVER, |takes| now.saturating_add(takes));
    }

    /// All of it has been sent, but for `last`. What that lacked for times are whole picoseconds is made up.
    fn ended(&mut self, now: Ps) {
        self.change(now, 0);
        if let Some(course) = self.course.back_mut() {
            course.left = u128::from(self.last) * BYTE;
        }
    }

    /// Bytes on the wire it has sent by `now`, and those of them that have arrived.
    pub fn progress(&self, now: Ps) -> (u64, u64) {
        (self.sent(now), now.checked_sub(self.rest).map_or(0, |then| self.sent(then)))
    }

    /// Bytes on the wire it has sent by `time`, which may lie back by what is under way.
    fn sent(&self, time: Ps) -> u64 {
        let course = self.course.iter().rev().find(|course| course.since <= time);
        let left = course.map_or(u128::from(self.wire) * BYTE, |course| course.left_at(time));
        ((u128::from(self.wire) * BYTE - left) / BYTE) as u64
    }
}

/// What became of a flow.
#[derive(Clone, Copy, Debug)]
pub(super) struct Outcome {
    /// It could be sent, or [`NEVER`].
    pub start: Ps,
    /// Its last byte arrived, or [`NEVER`].
    pub done: Ps,
}

/// How long a link has been a bottleneck that several flows share.
#[derive(Clone, Copy, Debug)]
pub(super) struct Contention {
    /// [`NEVER`]: it is none now.
    pub since: Ps,
    pub total: Ps,
}

pub(super) struct World<'a> {
    pub spec: &'a FabricSpec,
    pub plan: Plan,
    pub routes: Routes,
    pub dirs: Vec<Direction>,
    pub lines: Vec<Line>,
    pub out: Vec<Vec<usize>>,
    pub flows: Vec<Planned>,
    pub outcomes: Vec<Outcome>,
    pub operations: Operations,
    /// What is reported together, and the numbers of its workloads.
    pub reported: Vec<(usize, Collective)>,
    rates: MaxMin,
    queue: Queue<Event>,
    /// Ends of flows that are being sent, with their numbers in `sending`.
    ends: BTreeSet<(Ps, u32)>,
    /// By number of the flow in `rates`.
    pub sending: Vec<Option<Sending>>,
    /// Flows that were sent and have not arrived, by number.
    pub under_way: BTreeMap<u32, Sending>,
    /// Queue pairs that send a flow, by the number of their first, and the flows that wait for it.
    busy: BTreeMap<u32, VecDeque<u32>>,
    pub contention: Vec<Contention>,
    pub timeline: TimelineRecorder,
    /// What each flow adds to on the timeline.
    lane_of: Vec<Option<usize>>,
    pub now: Ps,
    pub events: u64,
    pub finite: usize,
    pub done: usize,
    pub stopped: bool,
}

/// The lanes to which most bytes go, with their names, and to which of them each flow adds.
fn busiest_lanes(plan: &Plan, flows: &[Planned]) -> (Vec<String>, Vec<Option<usize>>) {
    let (mut names, lane_of) = lanes(plan, flows);
    let mut bytes = vec![0u64; names.len()];
    for (flow, lane) in flows.iter().zip(&lane_of) {
        bytes[*lane] = bytes[*lane].saturating_add(flow.flow.bytes);
    }
    let mut busiest: Vec<usize> = (0..names.len()).collect();
    busiest.sort_by_key(|lane| Reverse(bytes[*lane]));
    busiest.truncate(MAX_RATES);
    busiest.sort_unstable();
    let kept = lane_of.iter().map(|lane| busiest.binary_search(lane).ok()).collect();
    (busiest.iter().map(|lane| std::mem::take(&mut names[*lane])).collect(), kept)
}

impl<'a> World<'a> {
    pub fn new(spec: &'a FabricSpec) -> Result<Self, FabricError> {
        let ((), (plan, engines)) = both(scope::check(spec), lay_out_with_engines(spec))?;
        scope::check_plan(spec, &plan)?;
        let routes = Routes::new(&plan, spec.seed, |_| true);
        idle::of_paths(spec, &plan, &routes).refuse()?;
        let Traffic { flows, ops, collectives } = flows(spec, &plan, &routes, &engines)?;
        let dirs = directions(&plan);
        let mut rates = MaxMin::default();
        for dir in &dirs {
            rates.add_link(units(dir.rate.bps()));
        }
        let (names, lane_of) = busiest_lanes(&plan, &flows);
        Ok(Self {
            spec,
            routes,
            out: outgoing(&plan),
            lines: lines(&plan, spec.seed).collect(),
            plan,
            rates,
            contention: vec![Contention { since: NEVER, total: 0 }; dirs.len()],
            dirs,
            outcomes: vec![Outcome { start: NEVER, done: NEVER }; flows.len()],
            operations: Operations::new(ops, flows.len()),
            reported: collectives,
            queue: Queue::new(0, 0),
            ends: BTreeSet::new(),
            sending: Vec::new(),
            under_way: BTreeMap::new(),
            busy: BTreeMap::new(),
            timeline: TimelineRecorder::new(Vec::new(), names),
            lane_of,
            now: 0,
            events: 0,
            finite: flows.iter().filter(|f| is_finite(f)).count(),
            flows,
            done: 0,
            stopped: false,
        })
    }

    /// What has become of computations; `without`: operations that are left out.
    pub fn computations(&self, without: &[bool]) -> Computations {
        let is_out = |op: OpId| without.get(op as usize).is_some_and(|out| *out);
        self.operations.computations(self.now, |op| !is_out(op))
    }

    /// All of a flow was sent.
    pub fn was_sent(&self, flow: u32) -> bool {
        self.under_way.contains_key(&flow) || self.outcomes[flow as usize].done != NEVER
    }

    /// Directions that were the bottleneck of several flows at some time.
    pub fn congested(&self) -> Vec<bool> {
        self.contention.iter().map(|at| at.since != NEVER || at.total > 0).collect()
    }

    pub fn ways(&self) -> Ways<'_> {
        let Self { spec, plan, dirs, out, routes, .. } = self;
        Ways { spec, plan, dirs, out, routes }
    }

    /// Whole nanoseconds, never before the event.
    pub fn ns(&self) -> Nanos {
        self.now.div_ceil(PS)
    }

    /// All there was to do has ended.
    fn is_over(&self) -> bool {
        self.done == self.flows.len() && !self.operations.computing()
    }

    /// Plays up to `stop_time`, ns.
    pub fn play(&mut self, until: Nanos, progress: &mut dyn FnMut(Progress) -> ControlFlow<()>) {
        self.operations.begin_free(0, &mut |at, due| self.queue.push(at, due.into()));
        let until = until.saturating_mul(PS);
        let mut rounds = 0u64;
        while let Some(now) = self.next().filter(|now| *now <= until && !self.is_over()) {
            self.now = now;
            self.play_round();
            rounds += 1;
            if rounds.is_multiple_of(ROUNDS_PER_STEP) {
                let (now_ns, until_ns) = (self.ns(), self.spec.stop_time.0);
                let (done, flows, events) = (self.done, self.flows.len(), self.events);
                if progress(Progress { now_ns, until_ns, done, flows, events }).is_break() {
                    self.stopped = true;
                    return;
                }
            }
        }
        if !self.is_over() {
            self.now = until;
        }
    }

    fn next(&self) -> Option<Ps> {
        let end = self.ends.first().map(|(end, _)| *end).filter(|end| *end < NEVER);
        end.into_iter().chain(self.queue.next_time()).min()
    }

    /// Everything that happens now, and the rates that come of it.
    fn play_round(&mut self) {
        while let Some((_, number)) = self.ends.first().copied().filter(|(end, _)| *end == self.now) {
            self.events += 1;
            self.end_sending(number);
        }
        while let Some((.., event)) = self.queue.pop_before((self.now, u64::MAX)) {
            self.events += 1;
            let (now, queue) = (self.now, &mut self.queue);
            let mut at = |time, due: Due| queue.push(time, due.into());
            match event {
                Event::Start { flow } => self.start(flow),
                Event::Computed { op } => self.operations.computed(op, now, &mut at),
                Event::Acknowledged { flow } => self.operations.acknowledged(flow, now, &mut at),
                Event::Delivered { flow } => {
                    self.operations.received(flow, now, &mut at);
                    self.under_way.remove(&flow);
                    self.outcomes[flow as usize].done = self.now;
                    self.done += 1;
                }
            }
        }
        for number in self.rates.settle() {
            self.change_rate(number);
        }
        for link in self.rates.visited() {
            let contended = self.rates.is_contended(*link);
            let Some(at) = self.contention.get_mut(*link as usize) else { continue };
            match (at.since, contended) {
                (NEVER, true) => at.since = self.now,
                (since, false) if since != NEVER => {
                    (at.since, at.total) = (NEVER, at.total + self.now - since)
                }
                _ => {}
            }
        }
    }

    /// Flows of a queue pair are sent one after the other.
    fn start(&mut self, flow: u32) {
        let planned = &self.flows[flow as usize];
        self.outcomes[flow as usize].start = planned.flow.start.saturating_mul(PS).max(self.now);
        if let Some(waiting) = self.busy.get_mut(&planned.pair) {
            waiting.push_back(flow);
            return;
        }
        self.busy.insert(planned.pair, VecDeque::new());
        self.begin_sending(flow);
    }

    fn begin_sending(&mut self, flow: u32) {
        let planned = &self.flows[flow as usize];
        let ways = self.ways();
        let stream = ways.stream(planned);
        let path: Vec<u32> =
            ways.path(planned.from, planned.to, planned.path).map(|dir| dir as u32).collect();
        let cap = match planned.flow.pace {
            Pace::Fixed(rate) => Some(self.rates.add_link(units(rate))),
            _ => None,
        };
        let sending = Sending::new(flow, path, &stream, cap, self.now);
        self.share(sending);
    }

    /// A flow has its part of the links of its path from now on.
    fn share(&mut self, sending: Sending) {
        let shared: Vec<u32> = sending.path.iter().copied().chain(sending.cap).collect();
        let number = self.rates.add(&shared);
        if self.sending.len() <= number as usize {
            self.sending.resize(number as usize + 1, None);
        }
        self.sending[number as usize] = Some(sending);
        self.ends.insert((NEVER, number));
    }

    /// A flow has been sent, or all of it that has a pace.
    fn end_sending(&mut self, number: u32) {
        let Some(mut sending) = self.sending[number as usize].take() else { return };
        self.ends.remove(&(sending.end, number));
        self.rates.remove(number);
        sending.cap.into_iter().for_each(|cap| self.rates.remove_link(cap));
        self.draw(&sending, self.now);
        sending.ended(self.now);
        if sending.last > 0 {
            // The last frame of a flow that has a pace follows the others at the rate that the links have for it.
            return self.share(Sending { end: NEVER, last: 0, cap: None, ..sending });
        }
        let planned = &self.flows[sending.flow as usize];
        let Planned { flow, from, to, src_port, pair, .. } = *planned;
        for link in &sending.path {
            let line = &mut self.lines[*link as usize];
            (line.carried, line.bytes) = (line.carried + flow.packets(), line.bytes + sending.wire);
        }
        let arrival = self.now.saturating_add(sending.rest);
        self.queue.push(arrival, Event::Delivered { flow: flow.id });
        self.under_way.insert(flow.id, sending);
        if self.operations.follows_sends() {
            let known = if flow.transport.is_reliable() {
                let path = routes::roce_flow(hosts::ip(to), hosts::ip(from), src_port);
                arrival.saturating_add(self.ways().frame(to, from, path, wire_bytes(ACK_BYTES)))
            } else {
                self.now
            };
            self.queue.push(known, Event::Acknowledged { flow: flow.id });
        }
        match self.busy.get_mut(&pair).and_then(VecDeque::pop_front) {
            Some(next) => self.begin_sending(next),
            None => drop(self.busy.remove(&pair)),
        }
    }

    /// What a flow has sent since its rate last changed goes onto the timeline.
    fn draw(&mut self, sending: &Sending, now: Ps) {
        let Some(lane) = self.lane_of[sending.flow as usize] else { return };
        let flow = &self.flows[sending.flow as usize].flow;
        let payload = |wire: u64| {
            // Of endless flows a part of the wire that their frames have.
            (u128::from(wire) * u128::from(flow.bytes) / u128::from(sending.wire.max(1))) as u64
        };
        let since = sending.since();
        let bytes = payload(sending.sent(now)) - payload(sending.sent(since));
        self.timeline.delivered_evenly(lane, since / PS, now / PS, bytes);
    }

    fn change_rate(&mut self, number: u32) {
        let Some(mut sending) = self.sending[number as usize].take() else { return };
        self.draw(&sending, self.now);
        self.ends.remove(&(sending.end, number));
        sending.change(self.now, self.rates.rate(number));
        self.ends.insert((sending.end, number));
        self.sending[number as usize] = Some(sending);
    }

    /// Puts what is still being sent onto the timeline, and counts it on its links.
    pub fn close(&mut self) {
        let now = self.now;
        for number in 0..self.sending.len() {
            let Some(sending) = self.sending[number].take() else { continue };
            self.draw(&sending, now);
            let (bytes, _) = sending.progress(now);
            sending.path.iter().for_each(|link| self.lines[*link as usize].bytes += bytes);
            self.sending[number] = Some(sending);
        }
    }
}
