//! Where the time of every frame goes: from the moment its sender puts it on the line to its receiver's hands, split
//! into parts whose sum is the whole, to the picosecond (SW-120, SW-121).
//!
//! A frame carries its own account ([`Journey`]): one entry per line it is sent on. At its end the account is added up
//! ([`LatencyRecorder`]); what is lost on the way counts nowhere. Copies of a multicast frame each have one, from its
//! sender on. Credits do not exist between the switches of a fabric, so nobody waits for them.

use super::histogram::Histogram;
use super::time::{PS, Ps};
use serde::Serialize;
use std::collections::BTreeMap;
use weir_dataplane::types::{Nanos, PRIORITIES};
use weir_layout::Unit;

/// A part of a frame's time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// In the sending endpoint.
    Tx,
    /// Bits onto the line: preamble to FCS, of a frame that cuts through its headers alone.
    Serialization,
    /// In the cable.
    Propagation,
    /// From the wire to admission.
    Ingress,
    /// Through the fabric of the switch, and waiting for the line behind it.
    Crossbar,
    /// In a queue that nobody held back.
    Queue,
    /// In a queue that the peer had paused.
    Pause,
    /// From the queue to the wire.
    Egress,
    /// In the receiving endpoint.
    Rx,
}

/// Names of the parts, in their order.
pub const PARTS: [&str; 9] =
    ["tx", "serialization", "propagation", "ingress", "crossbar", "queue", "pause", "egress", "rx"];

/// Picoseconds by part.
type Split = [Ps; PARTS.len()];

/// A frame on one line: the node before it, and the line.
#[derive(Clone, Debug)]
struct Leg {
    /// Direction it was sent on.
    dir: u32,
    split: Split,
}

/// The account of a frame.
#[derive(Clone, Debug)]
pub(super) struct Journey {
    born: Ps,
    /// When it was put on the line it is on, or was last; between queue and line, when it left the queue.
    launched: Ps,
    /// When it was admitted to the switch it is in.
    admitted: Ps,
    /// What every queue had been held by then, ns, of the ports it may leave by; of one that is not listed, none at all.
    held: Vec<(usize, [Nanos; PRIORITIES])>,
    legs: Vec<Leg>,
}

impl Journey {
    /// A frame that its host puts on line `dir` at `now`, `tx` after it was made.
    pub fn new(dir: usize, now: Ps, tx: Ps, propagation: Ps) -> Self {
        let mut split = Split::default();
        split[Part::Tx as usize] = tx;
        split[Part::Propagation as usize] = propagation;
        let legs = vec![Leg { dir: dir as u32, split }];
        Self { born: now, launched: now, admitted: 0, held: Vec::new(), legs }
    }

    /// The line has been passed by `now`: what none of the other parts took is serialization. `pipeline`: what lies
    /// between the line and the hands of who receives.
    fn land(&mut self, now: Ps, pipeline: Ps) {
        let Some(leg) = self.legs.last_mut() else { return };
        let known = [Part::Tx, Part::Egress, Part::Propagation].iter().map(|p| leg.split[*p as usize]);
        leg.split[Part::Serialization as usize] = now - self.launched - known.sum::<Ps>() - pipeline;
    }

    /// It is admitted to a switch after `ingress` and `crossbar`; `held`: of the ports it may leave by, time by which each queue has
    /// been paused so far, ns.
    pub fn admit(
        &mut self,
        now: Ps,
        ingress: Ps,
        crossbar: Ps,
        held: impl Iterator<Item = (usize, [Nanos; PRIORITIES])>,
    ) {
        self.land(now, ingress + crossbar);
        let mut split = Split::default();
        split[Part::Ingress as usize] = ingress;
        split[Part::Crossbar as usize] = crossbar;
        self.legs.push(Leg { dir: 0, split });
        self.admitted = now;
        self.held.clear();
        self.held.extend(held.filter(|(_, held)| *held != [0; PRIORITIES]));
    }

    /// It leaves queue `queue` of port `port` of a switch at `now`; `held`: as before, of that queue.
    pub fn cross(&mut self, now: Ps, port: usize, queue: usize, held: Nanos) {
        let Some(leg) = self.legs.last_mut() else { return };
        let waited = now - self.admitted;
        let before = self.held.iter().find(|(of, _)| *of == port).map_or(0, |(_, held)| held[queue]);
        let paused = (held.saturating_sub(before) * PS).min(waited);
        leg.split[Part::Pause as usize] = paused;
        leg.split[Part::Queue as usize] = waited - paused;
        self.launched = now;
    }

    /// It goes out by line `dir`: what has passed since it left its queue is the crossbar's.
    pub fn leave(&mut self, dir: usize, now: Ps, egress: Ps, propagation: Ps) {
        let Some(leg) = self.legs.last_mut() else { return };
        leg.dir = dir as u32;
        leg.split[Part::Crossbar as usize] += now - self.launched;
        leg.split[Part::Egress as usize] = egress;
        leg.split[Part::Propagation as usize] = propagation;
        self.launched = now;
    }

    /// It is in the hands of its receiver, `rx` after its last bit.
    pub fn end(&mut self, now: Ps, rx: Ps) {
        self.land(now, rx);
        if let Some(leg) = self.legs.last_mut() {
            leg.split[Part::Rx as usize] = rx;
        }
    }
}

/// Distribution of a time.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Distribution {
    /// Sum over all frames, ps: those of the parts add up to that of the total.
    pub sum_ps: u64,
    /// Mean, ps, cut.
    pub mean_ps: u64,
    /// Smallest, ps.
    pub min_ps: u64,
    /// Median, ps; this and the other percentiles from a histogram with 32 steps per doubling.
    pub p50_ps: u64,
    /// 90th percentile, ps.
    pub p90_ps: u64,
    /// 99th percentile, ps.
    pub p99_ps: u64,
    /// 99.9th percentile, ps.
    pub p999_ps: u64,
    /// Largest, ps.
    pub max_ps: u64,
    /// Steps of the histogram that are not empty: lower end, ps, and frames.
    pub histogram: Vec<(u64, u64)>,
}

/// The time of some frames.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LatencyOf {
    /// `data` (frames whose payload was delivered), `other` (answers, CNPs, frames that were thrown away), or a leg.
    pub name: String,
    /// How many.
    pub frames: u64,
    /// From the line of the sender to the hands of the receiver; of a leg, from admission to the next node.
    pub total: Distribution,
    /// The same by part.
    pub parts: BTreeMap<&'static str, Distribution>,
}

/// Where the time of all frames went.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Latency {
    /// `data` and `other`.
    pub end_to_end: Vec<LatencyOf>,
    /// Frames of both on each leg of their way: a node, and the line it sends on.
    pub legs: Vec<LatencyOf>,
}

#[derive(Clone, Debug)]
struct Totals {
    total: Histogram,
    parts: Box<[Histogram; PARTS.len()]>,
}

impl Totals {
    fn new() -> Self {
        let parts = Box::new(std::array::from_fn(|_| Histogram::default()));
        Self { total: Histogram::default(), parts }
    }

    fn add(&mut self, split: &Split) {
        self.total.add(split.iter().sum());
        self.parts.iter_mut().zip(split).for_each(|(part, time)| part.add(*time));
    }

    fn join(&mut self, other: &Self) {
        self.total.join(&other.total);
        self.parts.iter_mut().zip(other.parts.iter()).for_each(|(own, other)| own.join(other));
    }

    fn report(&self, name: String) -> LatencyOf {
        // A part that never took any time says nothing.
        let some = PARTS.into_iter().zip(self.parts.iter()).filter(|(_, part)| part.max() > 0);
        LatencyOf {
            name,
            frames: self.total.count(),
            total: self.total.distribution(),
            parts: some.map(|(name, part)| (name, part.distribution())).collect(),
        }
    }
}

/// Adds up the accounts of frames that arrived.
#[derive(Clone, Debug)]
pub(super) struct LatencyRecorder {
    data: Totals,
    other: Totals,
    legs: BTreeMap<u32, Totals>,
}

impl LatencyRecorder {
    /// Nothing yet.
    pub fn new() -> Self {
        Self { data: Totals::new(), other: Totals::new(), legs: BTreeMap::new() }
    }

    /// A frame arrived at `now`, `rx` after its last bit; `delivered`: its payload was taken.
    pub fn arrived(&mut self, mut journey: Journey, now: Ps, rx: Ps, delivered: bool) {
        journey.end(now, rx);
        let mut whole = Split::default();
        for leg in &journey.legs {
            whole.iter_mut().zip(leg.split).for_each(|(sum, time)| *sum += time);
            self.legs.entry(leg.dir).or_insert_with(Totals::new).add(&leg.split);
        }
        debug_assert_eq!(whole.iter().sum::<Ps>(), now - journey.born);
        if delivered { &mut self.data } else { &mut self.other }.add(&whole);
    }

    /// Takes over the accounts of another one.
    pub fn join(&mut self, other: &Self) {
        self.data.join(&other.data);
        self.other.join(&other.other);
        for (dir, leg) in &other.legs {
            self.legs.entry(*dir).or_insert_with(Totals::new).join(leg);
        }
    }

    /// What came of it; `name`: of a direction.
    pub fn report(&self, name: impl Fn(usize) -> String) -> Latency {
        let end_to_end = [("data", &self.data), ("other", &self.other)];
        Latency {
            end_to_end: end_to_end.map(|(name, totals)| totals.report(name.to_owned())).into(),
            legs: self.legs.iter().map(|(dir, totals)| totals.report(name(*dir as usize))).collect(),
        }
    }
}

impl Latency {
    /// All rows, end to end first: scope, frames, part (or `total`), distribution.
    fn rows(&self) -> impl Iterator<Item = (&str, u64, &str, &Distribution)> {
        self.end_to_end.iter().chain(&self.legs).flat_map(|of| {
            let parts = of.parts.iter().map(|(part, d)| (*part, d));
            [("total", &of.total)].into_iter().chain(parts).map(|(part, d)| (&*of.name, of.frames, part, d))
        })
    }

    /// `latency.csv` without its head.
    pub(super) fn csv(&self) -> String {
        let mut text =
            "scope,part,frames,sum_ps,mean_ps,min_ps,p50_ps,p90_ps,p99_ps,p999_ps,max_ps\n".to_owned();
        for (scope, frames, part, d) in self.rows() {
            let Distribution { sum_ps, mean_ps, min_ps, p50_ps, p90_ps, p99_ps, p999_ps, max_ps, .. } = d;
            let values = [sum_ps, mean_ps, min_ps, p50_ps, p90_ps, p99_ps, p999_ps, max_ps];
            let values: Vec<String> = values.map(u64::to_string).into();
            text += &format!("\"{}\",{part},{frames},{}\n", scope.replace('"', "\"\""), values.join(","));
        }
        text
    }

    /// `latency_histogram.csv` without its head.
    pub(super) fn histogram_csv(&self) -> String {
        let mut text = "scope,part,from_ps,frames\n".to_owned();
        for (scope, _, part, d) in self.rows() {
            let scope = scope.replace('"', "\"\"");
            d.histogram.iter().for_each(|(from, n)| text += &format!("\"{scope}\",{part},{from},{n}\n"));
        }
        text
    }

    /// One line for a terminal: of data, percentiles and the share of each part in percent.
    pub fn line(&self) -> Option<String> {
        let data = self.end_to_end.first().filter(|of| of.frames > 0)?;
        let us = |ps: u64| Unit::US.digits(3).text(ps as f64 / 1e3);
        let share = |(part, d): (&&str, &Distribution)| {
            let of_one = d.sum_ps as f64 / data.total.sum_ps.max(1) as f64;
            format!("{part} {}", Unit::PERCENT.text(of_one))
        };
        let shares: Vec<String> = data.parts.iter().map(share).collect();
        let Distribution { p50_ps, p99_ps, max_ps, .. } = data.total;
        let (p50, p99, max) = (us(p50_ps), us(p99_ps), us(max_ps));
        Some(format!("p50 {p50}, p99 {p99}, max {max}: {}", shares.join(", ")))
    }
}
