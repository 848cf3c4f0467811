//! How long collectives took, step by step, and who held them up.

use super::computations::{Began, Computations, Span};
use super::graph::{Collective, Part};
use super::report::{FlowResult, quoted};
use super::time::PS;
use super::topology::Plan;
use super::ways::{self, Load, Ways};
use super::workload::Planned;
use serde::Serialize;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use weir_dataplane::types::Nanos;
use weir_layout::{Unit, counted};

/// A collective, from the begin of its first message or computation to the end of the last one.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CollectiveResult {
    /// Which one.
    #[serde(flatten)]
    pub identity: CollectiveIdentity,
    /// Its first message could be sent, or its first computation began; absent: neither ever was.
    pub start_ns: Option<u64>,
    /// What it came to.
    #[serde(flatten)]
    pub figures: CollectiveFigures,
    /// Step by step.
    pub steps: Vec<StepResult>,
}

/// A collective without its course.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CollectiveSummary {
    /// Which one.
    #[serde(flatten)]
    pub identity: CollectiveIdentity,
    /// What it came to.
    #[serde(flatten)]
    pub figures: CollectiveFigures,
}

/// Which collective it is.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CollectiveIdentity {
    /// Number of its workload, from 0.
    pub workload: usize,
    /// What it is, in the words of a fabric file.
    pub kind: &'static str,
    /// Ranks that take part.
    pub ranks: usize,
    /// Its size as nccl-tests counts it, bytes; absent: such a thing has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
}

/// What a collective came to.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CollectiveFigures {
    /// From its start to the end of the last message or computation, 0 of one rank alone; absent: not all have ended.
    pub time_ns: Option<u64>,
    /// Size by time, bytes per second (nccl-tests: `algbw`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub algbw_bytes_per_s: Option<u64>,
    /// The same times the share of the size that each line carries (nccl-tests: `busbw`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub busbw_bytes_per_s: Option<u64>,
    /// Who added most to the chain of messages that ended last.
    pub straggler: Option<Straggler>,
}

/// A step of a collective.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StepResult {
    /// From 0.
    pub step: u32,
    /// Messages.
    pub messages: usize,
    /// The first message could be sent; absent: none was.
    pub start_ns: Option<u64>,
    /// The last one had arrived; absent: not all have.
    pub end_ns: Option<u64>,
    /// Who sent what ended last.
    pub straggler: Option<Straggler>,
}

/// A rank that was late, and why.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Straggler {
    /// The sending host; of `line` the one whose line is slower or longer.
    pub host: String,
    /// Number of the flow.
    pub flow: u32,
    /// What took most of the time that a fabric of its own would not have taken: `start` (of the rank), `compute`, `pause` (of the
    /// host), `line` (of the host, slower or longer than others of the collective), `retransmission`, `queue` (everything else on the way, the rate of
    /// congestion control included; at flow level `contention`), or `none`.
    pub cause: &'static str,
    /// That time, ns.
    pub late_ns: u64,
}

/// What a message, or a whole collective, was late by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum LateBy {
    /// Its rank computed.
    Compute,
    /// At flow level: other flows on its links.
    Contention,
    /// The line of a host is slower or longer than others of the collective.
    Line,
    /// It was not late.
    None,
    /// Its host was held back by PFC.
    Pause,
    /// Everything else on the way, the rate of congestion control included.
    Queue,
    /// It was sent again in part.
    Retransmission,
    /// Its rank began late.
    Start,
}

impl LateBy {
    /// In the order of the colours they have on the page.
    pub(super) const ALL: [Self; 8] = [
        Self::Compute,
        Self::Queue,
        Self::None,
        Self::Pause,
        Self::Start,
        Self::Retransmission,
        Self::Contention,
        Self::Line,
    ];

    /// As reports call it.
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Compute => "compute",
            Self::Contention => "contention",
            Self::Line => "line",
            Self::None => "none",
            Self::Pause => "pause",
            Self::Queue => "queue",
            Self::Retransmission => "retransmission",
            Self::Start => "start",
        }
    }
}

impl CollectiveResult {
    /// Without its course.
    pub fn summary(&self) -> CollectiveSummary {
        CollectiveSummary { identity: self.identity.clone(), figures: self.figures.clone() }
    }

    /// In a sentence.
    pub fn line(&self) -> String {
        let CollectiveIdentity { kind, ranks, bytes, .. } = &self.identity;
        let CollectiveFigures { time_ns, algbw_bytes_per_s, busbw_bytes_per_s, straggler } = &self.figures;
        let bytes = bytes.map_or(String::new(), |bytes| format!(", {}", counted(bytes, "byte")));
        let what = format!("{kind} of {}{bytes}", counted(*ranks, "rank"));
        let Some(time) = *time_ns else { return format!("{what}: has not ended") };
        let of = |name: &str, bytes: Option<u64>| {
            bytes.map_or(String::new(), |bytes| format!(", {name} {}", Unit::GBYTES.text(bytes as f64)))
        };
        let bandwidth = of("algbw", *algbw_bytes_per_s) + &of("busbw", *busbw_bytes_per_s);
        let straggler = straggler.as_ref().filter(|s| s.late_ns > 0).map_or(String::new(), |s| {
            format!("; {} was late by {}: {}", s.host, Unit::US.text(s.late_ns as f64), s.cause)
        });
        let (time, steps) = (Unit::US.text(time as f64), self.steps.len());
        format!("{what}: {time} in {steps} steps{bandwidth}{straggler}")
    }

    /// Lines of a table, one for each step; it is the `nth` of its run, from 0.
    pub(super) fn csv(&self, nth: usize) -> Vec<String> {
        let cell = |n: Option<u64>| n.map_or(String::new(), |n| n.to_string());
        let CollectiveIdentity { workload, kind, ranks, bytes } = self.identity;
        let CollectiveFigures { time_ns, algbw_bytes_per_s, busbw_bytes_per_s, .. } = self.figures;
        let whole = [bytes, time_ns, algbw_bytes_per_s, busbw_bytes_per_s].map(cell).join(",");
        let line = |s: &StepResult| {
            let late = s.straggler.as_ref().map_or(",,".into(), |late| {
                format!("{},{},{}", quoted(&late.host), late.cause, late.late_ns)
            });
            let StepResult { step, messages, start_ns, end_ns, .. } = s;
            let times = [*start_ns, *end_ns].map(cell).join(",");
            format!("{nth},{workload},{kind},{ranks},{whole},{step},{messages},{times},{late}\n")
        };
        self.steps.iter().map(line).collect()
    }
}

/// The line of a host, the slowest one first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct HostLine {
    /// bit/s.
    rate: u64,
    /// Of its cable, ns.
    delay: Reverse<Nanos>,
}

impl HostLine {
    fn of(plan: &Plan, host: usize) -> Self {
        Self { rate: plan.line_of(host), delay: Reverse(plan.cable_of(host)) }
    }
}

/// What is known of a message beyond its flow.
#[derive(Clone, Copy, Debug)]
pub(super) struct Known {
    pub part: Part,
    /// Numbers of its hosts.
    pub ends: (u32, u32),
    /// Number of the first message of its queue pair.
    pub pair: u32,
    /// Lines of its hosts.
    pub lines: [HostLine; 2],
    /// Its rank begins no earlier, ns.
    pub start: Nanos,
    /// It goes to an engine, which answers when all ranks have begun.
    pub to_engine: bool,
    /// It is the response to this message.
    pub answers: Option<u32>,
    /// When it arrived, ns. `None`: when its start and its time say. Where both lie between two nanoseconds they are rounded each by
    /// itself.
    pub done: Option<Nanos>,
    /// What it is to its path.
    pub load: Load,
    pub held: PauseTotals,
    /// The cause of what it took longer than alone for no other cause.
    pub slowed: LateBy,
}

/// Time the host of a message had been held back by PFC, ns.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct PauseTotals {
    /// When the message could be sent.
    begin: Nanos,
    /// When its last packet was sent for the first time, and when for the last time; absent: never.
    sent: Option<[Nanos; 2]>,
}

/// Packets were sent again, and not all of them in vain.
fn is_resent(flow: &FlowResult) -> bool {
    flow.resent > flow.useless.unwrap_or(0)
}

impl PauseTotals {
    /// Of a message that can be sent now.
    pub fn new(now: Nanos) -> Self {
        Self { begin: now, sent: None }
    }

    /// Its last packet is sent.
    pub fn sent(&mut self, now: Nanos) {
        let [first, _] = self.sent.unwrap_or([now; 2]);
        self.sent = Some([first, now]);
    }

    /// When the last packet was sent: for the first time, if nothing that was sent again was of use.
    fn end(&self, flow: &FlowResult) -> Nanos {
        self.sent.map_or(self.begin, |[first, last]| if is_resent(flow) { last } else { first })
    }
}

impl Known {
    /// Of a message that was not held back, and takes longer than alone for `slowed`.
    pub fn of(ways: &Ways<'_>, planned: &Planned, part: Part, slowed: LateBy) -> Self {
        let plan = ways.plan;
        // An engine is no rank: it has no line of its own here.
        let to = if planned.seat.is_some() { planned.from } else { planned.to };
        Self {
            part,
            ends: (planned.from as u32, planned.to as u32),
            pair: planned.pair,
            lines: [planned.from, to].map(|host| HostLine::of(plan, host)),
            start: planned.flow.start,
            to_engine: planned.seat.is_some(),
            answers: planned.answers,
            done: None,
            load: ways.load(planned),
            held: PauseTotals::default(),
            slowed,
        }
    }
}

/// Nanoseconds that so many bytes take at a rate.
fn takes(bytes: u64, rate: u64) -> Nanos {
    (ways::takes(bytes.into(), rate) / u128::from(PS)) as Nanos
}

/// How computations began, by their hosts and ends.
type Ended = BTreeMap<(u32, Nanos), Began>;

/// What messages of a collective are held against.
struct Course<'a> {
    /// What ranks did before them.
    ended: &'a Ended,
    /// The rate of the fastest of their lines, and the delay of the shortest.
    best: HostLine,
    /// When each host could send its first message, and when it had the first one of another, ns.
    first: BTreeMap<u32, [Nanos; 2]>,
}

impl<'a> Course<'a> {
    fn new(ended: &'a Ended, all: &[Sent<'_>]) -> Self {
        let mut first: BTreeMap<u32, [Nanos; 2]> = BTreeMap::new();
        let mut note = |host, which: usize, at: Option<Nanos>| {
            let times = first.entry(host).or_insert([Nanos::MAX; 2]);
            times[which] = times[which].min(at.unwrap_or(Nanos::MAX));
        };
        for message in all {
            note(message.known.ends.0, 0, message.start);
            note(message.known.ends.1, 1, message.end());
        }
        let lines = || all.iter().flat_map(|message| message.known.lines);
        let rate = lines().map(|line| line.rate).max().unwrap_or(1);
        let delay = lines().map(|line| line.delay).max().unwrap_or(Reverse(0));
        Self { ended, best: HostLine { rate, delay }, first }
    }

    /// A message that could be sent at `start`, and whose host waited for no computation after `since`, is the first thing its rank
    /// has to do with the collective: what came before was none of it.
    fn joins(&self, host: u32, start: Nanos, since: Nanos) -> bool {
        self.first.get(&host).is_some_and(|[sent, heard]| start <= *sent && since < *heard)
    }
}

/// What a message could not be sent before.
struct Wait {
    /// Its host computed for so long, ns.
    computed: Nanos,
    /// Its rank began so much late, or came to the collective, ns.
    late: Nanos,
    /// Its host waited for neither before this, ns.
    since: Nanos,
}

/// A message.
#[derive(Clone, Copy)]
struct Sent<'a> {
    flow: &'a FlowResult,
    known: &'a Known,
    /// It could be sent; a response when its request had arrived, ns.
    start: Option<Nanos>,
}

impl<'a> Sent<'a> {
    /// `flows`: all there are, by number.
    fn new(flow: &'a FlowResult, known: &'a Known, flows: &[FlowResult]) -> Self {
        let start = flow.start_ns.and_then(|start| match known.answers {
            Some(request) => flows[request as usize].end_ns().map(|end| end.max(start)),
            None => Some(start),
        });
        Self { flow, known, start }
    }

    fn end(&self) -> Option<Nanos> {
        self.known.done.or_else(|| self.flow.end_ns())
    }

    /// Goes back over the computations before it, no further than to `from`.
    fn wait(&self, course: &Course<'_>, from: Nanos) -> Wait {
        let host = self.known.ends.0;
        let start = self.start.unwrap_or(0);
        let (mut since, mut is_start) = (start, start == self.known.start);
        while since > from
            && !is_start
            && let Some(began) = course.ended.get(&(host, since)).filter(|began| began.at < since)
        {
            (since, is_start) = (began.at, began.is_start);
        }
        let since = since.max(from);
        let late = if is_start || course.joins(host, start, since) { since - from } else { 0 };
        Wait { computed: start.max(from) - since, late, since }
    }

    /// The rate of the slower of its lines, bit/s, or its own.
    fn rate(&self) -> u64 {
        let [from, to] = self.known.lines;
        from.rate.min(to.rate).min(self.known.load.pace)
    }

    /// What it takes longer for the line of its sender and that of its receiver than for the best, ns: a slower rate is that of the slower
    /// end, and a cable is waited for by the first of several messages, not by one that is behind another.
    fn lines(&self, course: &Course<'_>, is_behind: bool) -> [Nanos; 2] {
        let Load { wire, pace, .. } = self.known.load;
        let slower = takes(wire, self.rate()) - takes(wire, course.best.rate.min(pace));
        let longer = |line: HostLine| if is_behind { 0 } else { line.delay.0 - course.best.delay.0 };
        let [from, to] = self.known.lines.map(longer);
        let is_of_sender = self.known.lines[0].rate <= self.known.lines[1].rate;
        if is_of_sender { [from + slower, to] } else { [from, to + slower] }
    }

    /// What it took longer than alone, from when it could be sent. `begun`: an engine has heard of all ranks.
    fn excess(&self, begun: Nanos) -> Nanos {
        let start = self.start.unwrap_or(0);
        let taken = self.end().unwrap_or(0).saturating_sub(start);
        let waited = if self.known.to_engine { begun.saturating_sub(start) } else { 0 };
        taken.saturating_sub(self.flow.ideal_ns.unwrap_or(0)).saturating_sub(waited)
    }

    /// By what it was late by so much on its way, behind the message before it on its queue pair, if it waited for one.
    fn lost(&self, course: &Course<'_>, ahead: Option<&Sent<'_>>, excess: Nanos) -> [(LateBy, Nanos); 4] {
        let start = self.start.unwrap_or(0);
        let from = ahead.and_then(Sent::end).map_or(start, |end| end.max(start));
        let taken = self.end().unwrap_or(0).saturating_sub(from);
        let held = self.known.held;
        let begin = ahead.map_or(held.begin, |ahead| held.begin.max(ahead.known.held.end(ahead.flow)));
        let paused = held.end(self.flow).saturating_sub(begin).min(excess);
        let rest = excess - paused;
        let (resent, queued) = if is_resent(self.flow) { (rest, 0) } else { (0, rest) };
        let (rate, best) = (self.rate(), course.best.rate.min(self.known.load.pace));
        // What waits in front of a slower line would have waited less, too.
        let waited = (u128::from(queued) * u128::from(best - rate) / u128::from(best.max(1))) as Nanos;
        let line: Nanos = self.lines(course, ahead.is_some()).into_iter().sum();
        [
            (LateBy::Retransmission, resent),
            (LateBy::Pause, paused),
            (self.known.slowed, queued - waited),
            (LateBy::Line, line.min(taken) + waited),
        ]
    }

    /// What each of its hosts has of so much that it lost by this cause: of lines, as each takes longer than the best.
    fn parts(&self, course: &Course<'_>, is_behind: bool, (cause, ns): (LateBy, Nanos)) -> [(u32, Nanos); 2] {
        let (from, to) = self.known.ends;
        let [of_from, of_to] = if cause == LateBy::Line { self.lines(course, is_behind) } else { [1, 0] };
        let of_to = (u128::from(ns) * u128::from(of_to) / u128::from(of_from + of_to).max(1)) as Nanos;
        [(from, ns - of_to), (to, of_to)]
    }

    fn straggler(&self, host: u32, cause: LateBy, late_ns: Nanos) -> Straggler {
        let host = if host == self.known.ends.0 { &self.flow.from } else { &self.flow.to };
        Straggler { host: host.clone(), flow: self.flow.id, cause: cause.word(), late_ns }
    }
}

/// What became of all collectives. `known` of each flow, in their order.
pub(super) fn results(
    collectives: &[(usize, Collective)],
    flows: &[FlowResult],
    known: &[Option<Known>],
    computations: &Computations,
) -> Vec<CollectiveResult> {
    let mut messages: Vec<BTreeMap<u32, Vec<Sent<'_>>>> = vec![BTreeMap::new(); collectives.len()];
    for (flow, known) in flows.iter().zip(known).filter_map(|(flow, known)| Some((flow, known.as_ref()?))) {
        let steps = &mut messages[known.part.collective as usize];
        steps.entry(known.part.step).or_default().push(Sent::new(flow, known, flows));
    }
    let all = (0..).zip(collectives.iter().zip(&messages));
    let one = |(number, ((workload, collective), steps)): (u32, (&(usize, _), _))| {
        let span = computations.spans.get(&number).copied();
        result(*workload, collective, steps, (span, &computations.ended))
    };
    all.map(one).collect()
}

fn start(messages: &[Sent<'_>]) -> Option<Nanos> {
    messages.iter().filter_map(|m| m.start).min()
}

/// The message that ended last, the first of several; `None`: not all have ended.
fn last<'a>(messages: &[Sent<'a>]) -> Option<Sent<'a>> {
    latest(messages, |_, end| (end, 0))
}

/// The message that the others of its step waited for: those to an engine end together, when the last has begun.
fn late<'a>(messages: &[Sent<'a>]) -> Option<Sent<'a>> {
    let begun = |m: &Sent<'_>| if m.known.to_engine { m.start.unwrap_or(0) } else { 0 };
    latest(messages, |m, end| (begun(m), end))
}

/// The message with the greatest key, made of it and its end.
fn latest<'a>(messages: &[Sent<'a>], key: impl Fn(&Sent<'a>, Nanos) -> (Nanos, Nanos)) -> Option<Sent<'a>> {
    let keys: Option<Vec<_>> = messages.iter().map(|m| Some((key(m, m.end()?), *m))).collect();
    keys?.into_iter().rev().max_by_key(|(key, _)| *key).map(|(_, m)| m)
}

/// The last of these messages could be sent.
fn begun(messages: &[Sent<'_>]) -> Nanos {
    messages.iter().filter_map(|m| m.start).max().unwrap_or(0)
}

fn result(
    workload: usize,
    collective: &Collective,
    steps: &BTreeMap<u32, Vec<Sent<'_>>>,
    (span, computed): (Option<Span>, &Ended),
) -> CollectiveResult {
    let all: Vec<Sent<'_>> = steps.values().flatten().copied().collect();
    let course = Course::new(computed, &all);
    let before = Before::new(&all);
    let step = |(step, messages): (&u32, &Vec<Sent<'_>>)| StepResult {
        step: *step,
        messages: messages.len(),
        start_ns: start(messages),
        end_ns: last(messages).and_then(|m| m.end()),
        straggler: late(messages).map(|late| {
            let from = start(messages).unwrap_or(0);
            straggler(late, (from, begun(messages)), Some(*step), &before, &course)
        }),
    };
    let last = last(&all);
    let start = start(&all).into_iter().chain(span.and_then(|span| span.begin)).min();
    let arrived = last.and_then(|m| m.end()).filter(|_| !span.is_some_and(|span| span.open));
    let end = arrived.map(|end| end.max(span.map_or(0, |span| span.end)));
    // One rank alone has nothing to wait for.
    let is_alone = collective.ranks == 1 && all.is_empty() && span.is_none();
    let time = end.zip(start).map(|(end, start)| end - start).or(is_alone.then_some(0));
    let per_second = |bytes: u64, (times, parts): (u64, u64), ns: Nanos| {
        let share = u128::from(bytes) * 1_000_000_000 * u128::from(times);
        (share / (u128::from(ns.max(1)) * u128::from(parts.max(1)))) as u64
    };
    let bandwidth = |share| Some(per_second(collective.bytes?, share, time.filter(|_| !is_alone)?));
    CollectiveResult {
        identity: CollectiveIdentity {
            workload,
            kind: collective.kind,
            ranks: collective.ranks,
            bytes: collective.bytes,
        },
        start_ns: start,
        figures: CollectiveFigures {
            time_ns: time,
            algbw_bytes_per_s: bandwidth((1, 1)),
            busbw_bytes_per_s: collective.bus.and_then(bandwidth),
            straggler: late(&all)
                .map(|late| straggler(late, (start.unwrap_or(0), begun(&all)), None, &before, &course)),
        },
        steps: steps.iter().map(step).collect(),
    }
}

/// What a message has to do with the one before it on its queue pair.
#[derive(Clone, Copy, Default)]
struct InPair<'a> {
    /// It waited for that one.
    ahead: Option<Sent<'a>>,
    /// By how much it ended later than if all of the queue pair had been alone, and that one, ns.
    late: Nanos,
    late_before: Nanos,
}

/// The messages of a queue pair, by their flows, in the order in which they ended: what each does alone behind the one before.
fn in_pair<'a>(pair: &[(Nanos, Sent<'a>)]) -> Vec<(u32, InPair<'a>)> {
    let ps = |ns: Nanos| u128::from(ns) * u128::from(PS);
    let takes = |bytes: u64, rate: u64| ways::takes(bytes.into(), rate);
    // The one before, when that would have begun to be sent and have ended alone, ps, and by how much it was late, ns.
    let mut before: Option<(Sent<'a>, u128, u128, Nanos)> = None;
    let mut all = Vec::with_capacity(pair.len());
    for (end, message) in pair {
        let Load { wire, slowest, .. } = message.known.load;
        let (start, ideal) = (ps(message.start.unwrap_or(0)), ps(message.flow.ideal_ns.unwrap_or(0)));
        let (mut sent, mut alone, mut place) = (start, start + ideal, InPair::default());
        if let Some((ahead, ahead_sent, ahead_alone, ahead_late)) = before {
            let Load { wire: ahead_wire, pace, .. } = ahead.known.load;
            let own = ahead.known.lines[0].rate.min(pace);
            sent = sent.max(ahead_sent + takes(ahead_wire, own));
            let on_link = takes(wire, slowest);
            alone = (sent + ideal).max(ahead_alone + on_link);
            let ahead_end = ps(ahead.end().unwrap_or(0));
            if alone.max(ahead_end + on_link) > start + ideal {
                (place.ahead, place.late_before) = (Some(ahead), ahead_late);
            }
        }
        place.late = (ps(*end).saturating_sub(alone) / u128::from(PS)) as Nanos;
        before = Some((*message, sent, alone, place.late));
        all.push((message.flow.id, place));
    }
    all
}

/// What messages of a collective waited for.
struct Before<'a> {
    /// What a host got the last byte of when: what was sent then waited for it.
    arrivals: BTreeMap<(u32, Nanos), Sent<'a>>,
    /// What begins neither by itself, nor after a computation or an arrival, waited for a message of its own host to be acknowledged: the
    /// last one that had arrived. By host, end and number.
    sent: BTreeMap<(u32, Nanos, u32), Sent<'a>>,
    /// By number.
    places: BTreeMap<u32, InPair<'a>>,
}

impl<'a> Before<'a> {
    fn new(all: &[Sent<'a>]) -> Self {
        let ended = || all.iter().filter_map(|m| Some((m.end()?, *m)));
        let mut pairs: BTreeMap<u32, Vec<(Nanos, Sent<'a>)>> = BTreeMap::new();
        for message in ended() {
            pairs.entry(message.1.known.pair).or_default().push(message);
        }
        pairs.values_mut().for_each(|pair| pair.sort_by_key(|(end, m)| (*end, m.flow.id)));
        Self {
            arrivals: ended().map(|(end, m)| ((m.known.ends.1, end), m)).collect(),
            sent: ended().map(|(end, m)| ((m.known.ends.0, end, m.flow.id), m)).collect(),
            places: pairs.values().flat_map(|pair| in_pair(pair)).collect(),
        }
    }

    fn in_pair(&self, message: &Sent<'_>) -> InPair<'a> {
        self.places.get(&message.flow.id).copied().unwrap_or_default()
    }

    /// What a host waited for that sent something at this time.
    fn sending(&self, host: u32, at: Nanos) -> Option<&Sent<'a>> {
        let acknowledged = || self.sent.range((host, 0, 0)..(host, at, 0)).next_back().map(|(_, m)| m);
        self.arrivals.get(&(host, at)).or_else(acknowledged)
    }
}

/// Goes back from the message that ended last to those it waited for, and to the begin of the collective; who of their senders added
/// most, and by what. Of a `step` no further than to what was before it on its queue pair in that step. `from`: the first message could be sent;
/// `begun`: the last.
fn straggler(
    last: Sent<'_>,
    (from, begun): (Nanos, Nanos),
    step: Option<u32>,
    others: &Before<'_>,
    course: &Course<'_>,
) -> Straggler {
    let mut added: BTreeMap<(u32, LateBy), (Nanos, Sent<'_>)> = BTreeMap::new();
    let (mut at, mut left) = (Some(last), others.sent.len());
    // What a message was late by and the one behind it was not has been made up for.
    let mut still_late = Nanos::MAX;
    while let Some(message) = at.filter(|_| left > 0) {
        left -= 1;
        let InPair { ahead, late, late_before } = others.in_pair(&message);
        let mut add = |cause, ns| {
            let parts = message.parts(course, ahead.is_some(), (cause, ns));
            for (host, ns) in parts.into_iter().filter(|(_, ns)| *ns > 0) {
                added.entry((host, cause)).or_insert((0, message)).0 += ns;
            }
        };
        let late = if ahead.is_some() { late } else { message.excess(begun) }.min(still_late);
        let lost = message.lost(course, ahead.as_ref(), late.saturating_sub(late_before));
        lost.into_iter().for_each(|(cause, ns)| add(cause, ns));
        if let Some(ahead) = ahead.filter(|ahead| step.is_none_or(|step| ahead.known.part.step == step)) {
            (at, still_late) = (Some(ahead), late.min(late_before));
            continue;
        }
        still_late = Nanos::MAX;
        let host = message.known.ends.0;
        let wait = message.wait(course, from);
        let before = [(LateBy::Start, wait.late), (LateBy::Compute, wait.computed)];
        before.into_iter().for_each(|(cause, ns)| add(cause, ns));
        // Whose rank began late waited for nobody. What takes no time at all would be found again.
        let goes_on = step.is_none() && wait.late == 0;
        let before = goes_on.then(|| others.sending(host, wait.since)).flatten();
        at = before.filter(|m| m.flow.id != message.flow.id).copied();
    }
    let most = added.into_iter().rev().max_by_key(|(_, (ns, _))| *ns);
    most.map_or_else(
        || last.straggler(last.known.ends.0, LateBy::None, 0),
        |((host, cause), (ns, message))| message.straggler(host, cause, ns),
    )
}
