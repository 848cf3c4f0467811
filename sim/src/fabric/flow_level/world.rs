//! Flows that begin, share, and end.

use super::bundle::{Bundle, Key};
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
use crate::fabric::ways::{self, Load, Stream, Ways};
use crate::fabric::workload::{Planned, Traffic, flows, is_finite};
use crate::fabric::{FabricError, idle};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::ControlFlow;
use weir_dataplane::types::{Nanos, wire_bytes};
use weir_endpoint::flow::{Flow, Pace};

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
    /// A computation has come to its start.
    Ready { op: u32 },
    /// A computation is over.
    Computed { op: u32 },
    /// The last byte of a flow has arrived.
    Delivered { flow: u32 },
    /// The last frame of a flow that has a pace has arrived, unless it was held up.
    Due { flow: u32 },
    /// The pace of a flow lets the next one of its queue pair go.
    Next { flow: u32 },
    /// Its sender knows.
    Acknowledged { flow: u32 },
}

impl From<Due> for Event {
    fn from(due: Due) -> Self {
        match due {
            Due::Start { flow } => Self::Start { flow },
            Due::Ready { op } => Self::Ready { op },
            Due::Computed { op } => Self::Computed { op },
        }
    }
}

/// The part of a flow that is sent as one of a bundle.
#[derive(Clone, Copy, Debug)]
struct Stint {
    bundle: u32,
    /// What the clock of the bundle said when it began.
    begin: u128,
    since: Ps,
    /// When all of it had been sent, or [`NEVER`].
    until: Ps,
}

/// A flow that is being sent, or on its way.
#[derive(Clone, Debug)]
pub(super) struct Sending {
    pub flow: u32,
    /// All of it but the last frame of a flow that has a pace. That is there as soon as its links let it, and what is behind it on its
    /// queue pair keeps the pace.
    stint: Stint,
    last: Option<Stint>,
    pub load: Load,
    /// Bytes on the wire of such a last frame.
    last_wire: u64,
    /// From the end of its first stint to the arrival of its last byte, if nothing holds up what follows.
    rest: Ps,
    /// What all of it takes on its last link.
    on_last_link: Ps,
}

/// What became of a flow.
#[derive(Clone, Copy, Debug)]
pub(super) struct Outcome {
    /// It could be sent, or [`NEVER`].
    pub start: Ps,
    /// Its last byte arrived, or [`NEVER`].
    pub done: Ps,
}

/// By how much so many bytes are late that are sent at a pace, bit/s, after `time`. Rates of links are whole numbers: a byte is nothing.
fn lateness(bytes: u64, pace: u64, time: Ps) -> Ps {
    if time_of(bytes + 1, pace) >= time { 0 } else { time - time_of(bytes, pace) }
}

/// Picoseconds that so many bytes take at a rate, bit/s.
fn time_of(bytes: u64, rate: u64) -> Ps {
    Ps::try_from(ways::takes(bytes.into(), rate)).unwrap_or(Ps::MAX)
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
    /// Of which flows have yet to arrive. Numbers are given again.
    bundles: Vec<Option<Bundle>>,
    unused: Vec<u32>,
    bundle_of: BTreeMap<Key, u32>,
    /// By number of the bundle in `rates`.
    by_share: Vec<u32>,
    /// When the next flow of each bundle will have been sent.
    ends: BTreeSet<(Ps, u32)>,
    /// Flows that are being sent, and those that were sent and have not arrived, by number.
    pub sending: BTreeMap<u32, Sending>,
    pub under_way: BTreeMap<u32, Sending>,
    /// Queue pairs that send a flow, by the number of their first, and the flows that wait for it.
    busy: BTreeMap<u32, VecDeque<u32>>,
    /// When what they sent last arrives, if it has not.
    arrivals: BTreeMap<u32, Ps>,
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
    let (mut names, lane_of) = lanes(plan, flows, 0..);
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
            lines: lines(&plan, spec).collect(),
            plan,
            rates,
            contention: vec![Contention { since: NEVER, total: 0 }; dirs.len()],
            dirs,
            outcomes: vec![Outcome { start: NEVER, done: NEVER }; flows.len()],
            operations: Operations::new(ops, flows.len()),
            reported: collectives,
            queue: Queue::new(0, 0),
            bundles: Vec::new(),
            unused: Vec::new(),
            bundle_of: BTreeMap::new(),
            by_share: Vec::new(),
            ends: BTreeSet::new(),
            sending: BTreeMap::new(),
            under_way: BTreeMap::new(),
            busy: BTreeMap::new(),
            arrivals: BTreeMap::new(),
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

    /// Frames and bytes that a flow has put onto each of its links, once what is being sent is there, too ([`Self::close`]).
    pub fn on_links(&self, flow: u32) -> (u64, u64) {
        let planned = &self.flows[flow as usize];
        match self.sending.get(&flow) {
            Some(sending) if sending.last.is_none() => (0, self.progress(sending).0),
            None if !self.under_way.contains_key(&flow) && self.outcomes[flow as usize].done == NEVER => {
                (0, 0)
            }
            Some(_) | None => (planned.flow.packets(), self.ways().load(planned).wire),
        }
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
                let now = Progress { now_ns, until_ns, done, flows, events, ..Progress::default() };
                if progress(now).is_break() {
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
        let end = self.ends.first().map(|(end, _)| *end);
        end.into_iter().chain(self.queue.next_time()).min()
    }

    /// Everything that happens now, and the rates that come of it.
    fn play_round(&mut self) {
        while let Some((_, bundle)) = self.ends.first().copied().filter(|(end, _)| *end == self.now) {
            self.events += 1;
            self.end_stint(bundle);
        }
        while let Some((.., event)) = self.queue.pop_before((self.now, u64::MAX)) {
            self.events += 1;
            let (now, queue) = (self.now, &mut self.queue);
            let mut at = |time, due: Due| queue.push(time, due.into());
            match event {
                Event::Start { flow } => self.start(flow),
                Event::Ready { op } => self.operations.ready(op, now, &mut at),
                Event::Computed { op } => self.operations.computed(op, now, &mut at),
                Event::Acknowledged { flow } => self.operations.acknowledged(flow, now, &mut at),
                Event::Delivered { flow } => self.delivered(flow),
                Event::Due { flow } => self.due(flow),
                Event::Next { flow } => self.send_next(flow),
            }
        }
        for share in self.rates.settle() {
            let rate = self.rates.rate(share);
            self.with_bundle(self.by_share[share as usize], |bundle, now| bundle.change(now, rate));
        }
        for link in self.rates.visited() {
            let Some(at) = self.contention.get_mut(*link as usize) else { continue };
            match (at.since, self.rates.is_contended(*link)) {
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
        let Stream { load, last: last_wire, rest, on_last_link } = ways.stream(planned);
        let path = ways.path(planned.from, planned.to, planned.path).map(|dir| dir as u32).collect();
        // A frame that is alone has no pace, but for what is behind it.
        let pace = match planned.flow.pace {
            Pace::Fixed(rate) if planned.flow.packets() > 1 => Some(units(rate)),
            _ => None,
        };
        let stint = self.join((flow, load.wire, rest), (path, pace), load.wire - last_wire);
        let sending = Sending { flow, stint, last: None, load, last_wire, rest, on_last_link };
        self.sending.insert(flow, sending);
    }

    /// So many bytes `wire` of a flow, which has `all`, are sent as part of the bundle of this kind from now on.
    fn join(&mut self, (flow, all, rest): (u32, u64, Ps), key: Key, wire: u64) -> Stint {
        let number = self.bundle_of.get(&key).copied().unwrap_or_else(|| {
            let bundle = Bundle::new(key.clone(), self.now);
            let number = match self.unused.pop() {
                Some(number) => {
                    self.bundles[number as usize] = Some(bundle);
                    number
                }
                None => {
                    self.bundles.push(Some(bundle));
                    self.bundles.len() as u32 - 1
                }
            };
            self.bundle_of.insert(key, number);
            number
        });
        let lane = self.lane_of[flow as usize];
        let parts = (self.flows[flow as usize].flow.bytes, all);
        let begin = self.with_bundle(number, |bundle, now| {
            lane.into_iter().for_each(|lane| bundle.draws(lane, parts, true));
            bundle.join(flow, wire, rest, now)
        });
        self.share(number);
        Stint { bundle: number, begin: begin.unwrap_or(0), since: self.now, until: NEVER }
    }

    /// One flow more of a bundle has its part of the links.
    fn share(&mut self, number: u32) {
        let Some(bundle) = &mut self.bundles[number as usize] else { return };
        let (path, pace) = &bundle.key;
        if bundle.sending() > 1 {
            bundle
                .cap
                .iter()
                .zip(pace)
                .for_each(|(cap, pace)| self.rates.resize_pace(*cap, bundle.sending(), *pace));
            return self.rates.add_to(bundle.share);
        }
        bundle.cap = pace.map(|pace| self.rates.add_pace(pace));
        let links: Vec<u32> = path.iter().copied().chain(bundle.cap).collect();
        bundle.share = self.rates.add(&links);
        if self.by_share.len() <= bundle.share as usize {
            self.by_share.resize(bundle.share as usize + 1, 0);
        }
        self.by_share[bundle.share as usize] = number;
    }

    /// One flow less of a bundle, which is not among those that are sent any more.
    fn unshare(&mut self, number: u32) {
        let Some(bundle) = &mut self.bundles[number as usize] else { return };
        self.rates.remove(bundle.share);
        let Some(pace) = bundle.key.1 else { return };
        match bundle.sending() {
            0 => bundle.cap.take().into_iter().for_each(|cap| self.rates.remove_link(cap)),
            flows => bundle.cap.iter().for_each(|cap| self.rates.resize_pace(*cap, flows, pace)),
        }
    }

    /// Something happens to a bundle: what its flows have sent before goes onto the timeline.
    fn with_bundle<R>(&mut self, number: u32, happens: impl FnOnce(&mut Bundle, Ps) -> R) -> Option<R> {
        let (now, timeline) = (self.now, &mut self.timeline);
        let bundle = self.bundles[number as usize].as_mut()?;
        bundle.draw(now, |lane, since, bytes| timeline.delivered_evenly(lane, since / PS, now / PS, bytes));
        self.ends.remove(&(bundle.end, number));
        let done = happens(bundle, now);
        if bundle.end != NEVER {
            self.ends.insert((bundle.end, number));
        }
        Some(done)
    }

    /// A stint of the next flow of a bundle is over.
    fn end_stint(&mut self, number: u32) {
        let Some(flow) = self.with_bundle(number, Bundle::leave).flatten() else { return };
        self.unshare(number);
        let Some(mut sending) = self.sending.remove(&flow) else { return };
        if let Some(lane) = self.lane_of[flow as usize] {
            let parts = (self.flows[flow as usize].flow.bytes, sending.load.wire);
            self.with_bundle(number, |bundle, _| bundle.draws(lane, parts, false));
        }
        if let Some(last) = &mut sending.last {
            last.until = self.now;
            return self.end_sending(sending);
        }
        sending.stint.until = self.now;
        let Some(key) = self.bundles[number as usize].as_ref().map(|bundle| bundle.key.clone()) else {
            return;
        };
        let Flow { transport, .. } = self.flows[flow as usize].flow;
        let packets = self.flows[flow as usize].flow.packets();
        for link in key.0.iter() {
            let line = &mut self.lines[*link as usize];
            (line.carried, line.bytes) = (line.carried + packets, line.bytes + sending.load.wire);
        }
        // Of datagrams a sender knows that they have left, the last one, too.
        if self.operations.follows_sends() && !transport.is_reliable() {
            let line = self.dirs[key.0[0] as usize].rate.bps();
            let known = self.now.saturating_add(time_of(sending.last_wire, line));
            self.queue.push(known, Event::Acknowledged { flow });
        }
        if sending.last_wire == 0 {
            return self.end_sending(sending);
        }
        let Sending { load, last_wire, rest, .. } = sending;
        sending.last = Some(self.join((flow, load.wire, rest), key, last_wire));
        self.queue.push(self.now.saturating_add(rest), Event::Due { flow });
        self.sending.insert(flow, sending);
    }

    /// All of a flow has been sent, and when it arrives is known.
    fn end_sending(&mut self, mut sending: Sending) {
        let Sending { flow, stint, last, load, rest, on_last_link, last_wire } = sending;
        let (planned, Load { wire, pace, slowest }) = (&self.flows[flow as usize], load);
        let (pair, paced_alone) = (planned.pair, if planned.flow.packets() == 1 { wire } else { 0 });
        if self.outcomes[flow as usize].done == NEVER {
            let late = last.map_or(0, |last| {
                let late = lateness(last_wire, pace, self.now - last.since);
                // What waits for others leaves behind them all, as fast as its link is, not at its pace.
                late + late.min(time_of(last_wire, pace) - time_of(last_wire, slowest))
            });
            // Nothing overtakes what is before it on its queue pair.
            let behind = self.arrivals.get(&pair).map_or(0, |before| before.saturating_add(on_last_link));
            let arrival = stint.until.saturating_add(rest).saturating_add(late).max(behind).max(self.now);
            self.queue.push(arrival, Event::Delivered { flow });
            self.arrivals.insert(pair, arrival);
            sending.rest = arrival - stint.until;
            self.under_way.insert(flow, sending);
        } else {
            self.release_all(&sending);
        }
        let next = stint.since.saturating_add(time_of(paced_alone, pace));
        match next > self.now {
            true => self.queue.push(next, Event::Next { flow }),
            false => self.send_next(flow),
        }
    }

    /// The queue pair of a flow may send its next one.
    fn send_next(&mut self, flow: u32) {
        let pair = self.flows[flow as usize].pair;
        match self.busy.get_mut(&pair).and_then(VecDeque::pop_front) {
            Some(next) => self.begin_sending(next),
            None => drop(self.busy.remove(&pair)),
        }
    }

    /// The last frame of a flow that has a pace arrives if nothing has held it up.
    fn due(&mut self, flow: u32) {
        let Some(sending) = self.sending.get(&flow) else { return };
        let Some(last) = sending.last else { return };
        let pace = sending.load.pace;
        let sent =
            self.bundles[last.bundle as usize].as_ref().map_or(0, |b| b.clock_at(self.now)) - last.begin;
        if lateness((sent / BYTE) as u64, pace, self.now - last.since) == 0 {
            self.arrivals.insert(self.flows[flow as usize].pair, self.now);
            self.delivered(flow);
        }
    }

    fn delivered(&mut self, flow: u32) {
        let (now, queue) = (self.now, &mut self.queue);
        self.operations.received(flow, now, &mut |time, due: Due| queue.push(time, due.into()));
        let Planned { flow: Flow { transport, .. }, from, to, src_port, pair, .. } =
            self.flows[flow as usize];
        if self.operations.follows_sends() && transport.is_reliable() {
            let path = routes::roce_flow(hosts::ip(to), hosts::ip(from), src_port);
            let known = now.saturating_add(self.ways().frame(to, from, path, wire_bytes(ACK_BYTES)));
            self.queue.push(known, Event::Acknowledged { flow });
        }
        if let Some(sending) = self.under_way.remove(&flow) {
            self.release_all(&sending);
            if self.arrivals.get(&pair) == Some(&now) {
                self.arrivals.remove(&pair);
            }
        }
        self.outcomes[flow as usize].done = now;
        self.done += 1;
    }

    /// Nobody asks any more what a flow has sent with its bundles.
    fn release_all(&mut self, sending: &Sending) {
        for stint in [Some(sending.stint), sending.last].into_iter().flatten() {
            self.release(stint.bundle);
        }
    }

    /// Nobody asks any more what one of its flows has sent with a bundle.
    fn release(&mut self, number: u32) {
        let at = &mut self.bundles[number as usize];
        if let Some(bundle) = at {
            bundle.open -= 1;
        }
        if let Some(bundle) = at.take_if(|bundle| bundle.open == 0) {
            self.bundle_of.remove(&bundle.key);
            self.unused.push(number);
        }
    }

    /// Most bundles that there were at once.
    #[cfg(test)]
    pub fn most_bundles(&self) -> usize {
        self.bundles.len()
    }

    /// Bytes on the wire that a flow has sent by now, and those of them that have arrived.
    pub fn progress(&self, sending: &Sending) -> (u64, u64) {
        let Sending { stint, last, load, last_wire, rest, .. } = sending;
        let of = |stint: &Stint, wire: u64, time: Ps| {
            if stint.until <= time {
                return wire;
            }
            let clock = self.bundles[stint.bundle as usize].as_ref().map_or(0, |b| b.clock_at(time));
            if stint.since <= time { (clock.saturating_sub(stint.begin) / BYTE) as u64 } else { 0 }
        };
        let first = |time: Ps| of(stint, load.wire - last_wire, time);
        let of_last = last.as_ref().map_or(0, |last| of(last, *last_wire, self.now));
        (first(self.now) + of_last, self.now.checked_sub(*rest).map_or(0, first))
    }

    /// Puts what is still being sent onto the timeline, and counts it on its links.
    pub fn close(&mut self) {
        for number in 0..self.bundles.len() as u32 {
            // Nothing but what is drawn before.
            self.with_bundle(number, |_, _| ());
        }
        // With the first stint all of a flow was counted.
        for sending in self.sending.values().filter(|sending| sending.last.is_none()) {
            let (bytes, _) = self.progress(sending);
            let bundle = self.bundles[sending.stint.bundle as usize].as_ref();
            for link in bundle.iter().flat_map(|bundle| bundle.key.0.iter()) {
                self.lines[*link as usize].bytes += bytes;
            }
        }
    }
}
