//! The last minute, for the page and for reports: what tables cannot show because it moves.
//!
//! A step is what happened between two samples. Columns are kept per step and lane (port, priority), and served
//! only for lanes in which something happened.

use crate::snapshot::{Blame, Reading, Snapshot};
use crate::text::Text;
use crate::times::{Part, Times};
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::fmt::{Display, Write};
use std::sync::Arc;
use weir_dataplane::stats::{Histogram, bucket_start};
use weir_dataplane::types::PRIORITIES;

/// Length of a step, ms.
pub const STEP: u64 = 200;

/// Steps kept: a minute.
pub const KEPT: usize = 300;

/// A number of bytes that is none: no limit.
const NONE: u32 = u32::MAX;

/// What one (port, priority) did in a step. Small, since there are many.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Lane {
    depth: u32,
    shared: u32,
    headroom: u32,
    xoff: u32,
    xon: u32,
    packets: u32,
    selected: u32,
    rx_paused: f32,
    tx_paused: f32,
    blame: Option<Blame>,
}

impl Lane {
    fn is_busy(&self) -> bool {
        let counts = [self.depth, self.shared, self.headroom, self.packets, self.selected];
        counts.iter().any(|n| *n > 0) || self.rx_paused > 0.0 || self.tx_paused > 0.0
    }
}

#[derive(Debug)]
struct Step {
    /// When it ended, as [`Snapshot::uptime_ms`]...
    uptime_ms: u64,
    /// ...and for people.
    unix_ms: u64,
    lanes: Vec<[Lane; PRIORITIES]>,
    /// By priority, all ports.
    latency: [Times; PRIORITIES],
    shared_used: u64,
    headroom_used: u64,
}

/// The last minute.
#[derive(Debug, Default)]
pub struct History {
    steps: VecDeque<Step>,
    before: Option<(u64, Arc<Reading>)>,
}

/// Steps that ended later than both.
#[derive(Clone, Copy, Debug, Default)]
pub struct Behind {
    /// ms since 1970. Of little use behind a clock that was set back.
    pub unix_ms: u64,
    /// As [`Snapshot::uptime_ms`].
    pub uptime_ms: u64,
}

fn small(n: u64) -> u32 {
    u32::try_from(n).unwrap_or(NONE)
}

impl History {
    /// Takes a snapshot into account, if a step has passed since the last one it took.
    pub fn observe(&mut self, snapshot: &Snapshot) {
        let Some((at, before)) = &self.before else {
            self.before = Some((snapshot.uptime_ms, Arc::clone(&snapshot.now)));
            return;
        };
        // Samples come a little early or late: the nearest one ends the step.
        if snapshot.uptime_ms.saturating_sub(*at) + STEP / 4 < STEP {
            return;
        }
        let step = step(snapshot, before);
        if self.steps.len() == KEPT {
            self.steps.pop_front();
        }
        self.steps.push_back(step);
        self.before = Some((snapshot.uptime_ms, Arc::clone(&snapshot.now)));
    }

    /// What was asked for as one JSON document. Written as text at once: as a tree of values a large switch would take
    /// ten times the memory.
    pub fn json(&self, snapshot: &Snapshot, Behind { unix_ms, uptime_ms }: Behind) -> Text {
        let wanted = |step: &&Step| step.unix_ms > unix_ms && step.uptime_ms > uptime_ms;
        let steps: Vec<&Step> = self.steps.iter().filter(wanted).collect();
        let mut out = Text::default();
        let name = json!(snapshot.info.name);
        let _ = write!(out, "{{\"switch_name\":{name},\"step_ms\":{STEP},\"kept\":{KEPT}");
        column(&mut out, "unix_ms", steps.iter().map(|s| s.unix_ms));
        column(&mut out, "uptime_ms", steps.iter().map(|s| s.uptime_ms));
        column(&mut out, "shared_used", steps.iter().map(|s| s.shared_used));
        column(&mut out, "headroom_used", steps.iter().map(|s| s.headroom_used));
        out.push_str(",\"lanes\":[");
        for (port, info) in snapshot.info.ports.iter().enumerate() {
            for priority in 0..PRIORITIES {
                let all = || steps.iter().filter_map(|s| Some(&s.lanes.get(port)?[priority]));
                if all().any(Lane::is_busy) {
                    separate(&mut out);
                    let _ = write!(out, "{{\"port\":{},\"priority\":{priority}", json!(info.name));
                    lane(&mut out, snapshot, all);
                    out.push_str("}");
                }
            }
        }
        out.push_str("],\"latency\":[");
        for priority in 0..PRIORITIES {
            let all = || steps.iter().map(|s| &s.latency[priority]);
            if all().any(|times| !times.is_empty()) {
                for part in Part::ALL {
                    separate(&mut out);
                    latency(&mut out, priority, part, all);
                }
            }
        }
        out.push_str("]}\n");
        out
    }
}

/// A comma, unless this is the first of its kind.
fn separate(out: &mut Text) {
    if !out.ends_with(b'[') {
        out.push_str(",");
    }
}

/// `,"name":[...]`
fn column<T: Display>(out: &mut Text, name: &str, values: impl Iterator<Item = T>) {
    let _ = write!(out, ",\"{name}\":[");
    for value in values {
        separate(out);
        let _ = write!(out, "{value}");
    }
    out.push_str("]");
}

/// A number, or null.
struct Maybe<T>(Option<T>);

impl<T: Display> Display for Maybe<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.0 {
            Some(value) => value.fmt(f),
            None => f.write_str("null"),
        }
    }
}

fn step(snapshot: &Snapshot, before: &Reading) -> Step {
    let mut latency: [Times; PRIORITIES] = Default::default();
    let both = snapshot.now.ports.iter().zip(&before.ports).enumerate();
    let lanes = both
        .map(|(port, (now, then))| {
            for ((sum, now), then) in latency.iter_mut().zip(&now.latency).zip(&then.latency) {
                *sum += &now.since(then);
            }
            let (s, t, g, h) = (&now.stats, &then.stats, &now.gauges, &then.gauges);
            let window = g.at_ns.saturating_sub(h.at_ns).max(1) as f32;
            let share = |now: u64, then: u64| (now.saturating_sub(then) as f32 / window).min(1.0);
            std::array::from_fn(|p| {
                let tx_paused = share(g.tx_paused_ns[p], h.tx_paused_ns[p]);
                Lane {
                    depth: small(g.queue_bytes[p]),
                    shared: small(g.pg_shared[p]),
                    headroom: small(g.pg_headroom[p]),
                    xoff: small(g.pg_limit[p]),
                    xon: small(g.pg_xon[p]),
                    packets: small(s.queue_packets[p].saturating_sub(t.queue_packets[p])),
                    selected: small(s.ecn_selected[p].saturating_sub(t.ecn_selected[p])),
                    rx_paused: share(g.rx_paused_ns[p], h.rx_paused_ns[p]),
                    tx_paused,
                    blame: if tx_paused > 0.0 { snapshot.blame(port, p) } else { None },
                }
            })
        })
        .collect();
    let most = |get: fn(&weir_dataplane::stats::LoopStats) -> u64| {
        snapshot.now.loops.iter().map(get).max().unwrap_or(0)
    };
    Step {
        uptime_ms: snapshot.uptime_ms,
        unix_ms: snapshot.unix_ms,
        lanes,
        latency,
        shared_used: most(|l| l.shared_used),
        headroom_used: most(|l| l.headroom_used),
    }
}

fn lane<'a, I: Iterator<Item = &'a Lane>>(out: &mut Text, snapshot: &Snapshot, all: impl Fn() -> I) {
    let bytes = |n: u32| Maybe((n != NONE).then_some(n));
    let share = |x: f32| (f64::from(x) * 1e4).round() / 1e4;
    column(out, "depth", all().map(|l| bytes(l.depth)));
    column(out, "shared", all().map(|l| bytes(l.shared)));
    column(out, "headroom", all().map(|l| bytes(l.headroom)));
    column(out, "xoff", all().map(|l| bytes(l.xoff)));
    column(out, "xon", all().map(|l| bytes(l.xon)));
    column(out, "packets", all().map(|l| l.packets));
    column(out, "selected", all().map(|l| l.selected));
    if all().any(|l| l.rx_paused > 0.0) {
        column(out, "rx_paused", all().map(|l| share(l.rx_paused)));
    }
    if all().any(|l| l.tx_paused > 0.0) {
        column(out, "tx_paused", all().map(|l| share(l.tx_paused)));
        column(out, "cause", all().map(|l| Maybe(l.blame.map(|blame| blame_json(snapshot, blame)))));
    }
}

/// `[word]`, or `[word, port, queue]`.
fn blame_json(snapshot: &Snapshot, blame: Blame) -> Value {
    match blame.queue() {
        None => json!([blame.word()]),
        Some((port, queue)) => {
            let name = snapshot.info.ports.get(port).map_or("", |port| port.name.as_str());
            json!([blame.word(), name, queue])
        }
    }
}

/// Buckets in use over all steps (`[from, to)` in ns), and by step frames per bucket and quantiles.
fn latency<'a, I: Iterator<Item = &'a Times>>(
    out: &mut Text,
    priority: usize,
    part: Part,
    steps: impl Fn() -> I,
) {
    let used = |h: &Histogram| (h.0.iter().position(|n| *n > 0), h.0.iter().rposition(|n| *n > 0));
    let bounds = steps().map(|step| used(&step.part(part))).filter_map(|(first, last)| first.zip(last));
    let (first, last) = bounds.reduce(|all, one| (all.0.min(one.0), all.1.max(one.1))).unwrap_or_default();
    let _ = write!(out, "{{\"priority\":{priority},\"part\":\"{}\"", part.name());
    column(out, "bounds_ns", (first..=last + 1).map(bucket_start));
    out.push_str(",\"frames\":[");
    for step in steps() {
        separate(out);
        out.push_str("[");
        let frames = step.part(part);
        let buckets = frames.0.iter().enumerate().filter(|(_, n)| **n > 0);
        for (bucket, n) in buckets {
            separate(out);
            let _ = write!(out, "[{},{n}]", bucket - first);
        }
        out.push_str("]");
    }
    out.push_str("]");
    for (name, q) in [("p50_ns", 0.5), ("p99_ns", 0.99), ("p999_ns", 0.999), ("max_ns", 1.0)] {
        column(out, name, steps().map(|step| Maybe(step.quantile(part, q))));
    }
    out.push_str("}");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake;
    use crate::sample::Sampler;

    impl History {
        fn document(&self, snapshot: &Snapshot, unix_ms: u64) -> Value {
            self.behind(snapshot, Behind { unix_ms, uptime_ms: 0 })
        }

        fn behind(&self, snapshot: &Snapshot, behind: Behind) -> Value {
            let text = self.json(snapshot, behind).to_string();
            let document = serde_json::from_str(&text).expect("it is JSON");
            let typed: crate::api::documents::History =
                serde_json::from_str(&text).expect("as its type says");
            assert_eq!(crate::api::documents::json(&typed), document, "left: what the type says");
            document
        }
    }

    fn after(steps: u64) -> (History, Snapshot) {
        let (mut sampler, mut history) = (Sampler::new(fake::info()), History::default());
        let mut snapshot = Snapshot::default();
        for n in 0..=steps * 2 {
            snapshot = sampler.sample(fake::reading(n), n * 100, n * 100);
            history.observe(&snapshot);
        }
        (history, snapshot)
    }

    #[test]
    fn a_step_is_two_samples_and_only_busy_lanes_are_told() {
        let (history, snapshot) = after(3);
        let document = history.document(&snapshot, 0);
        assert_eq!(document["unix_ms"], json!([200, 400, 600]));
        let lanes = document["lanes"].as_array().unwrap();
        assert_eq!(lanes.len(), 2);
        let lane = &lanes[0];
        assert_eq!((&lane["port"], &lane["priority"]), (&json!("p0"), &json!(3)));
        assert_eq!(lane["depth"], json!([20_000, 20_000, 20_000]));
        assert_eq!(lane["packets"], json!([2000, 2000, 2000]));
        assert_eq!((&lane["rx_paused"][0], &lane["tx_paused"][0]), (&json!(0.25), &json!(0.5)));
        // Its cause is a queue whose own peer holds it back a quarter of the time.
        assert_eq!(lane["cause"][2], json!(["paused_queue", "p\"1\\", 3]));
        // The limit of a queue without one is no number.
        assert_eq!(lane["xoff"][0], json!(300_000));
        assert_eq!(document["shared_used"], json!([40_000, 40_000, 40_000]));
    }

    /// An hour's step of the wall clock, there or back, loses no step and makes none longer.
    #[test]
    fn a_clock_that_is_set_changes_nothing() {
        for step in [-3_600_000, 3_600_000] {
            let (mut sampler, mut history) = (Sampler::new(fake::info()), History::default());
            let mut snapshot = Snapshot::default();
            for n in 0..=20 {
                let unix = 1_700_000_000_000 + n as i64 * 100 + if n < 11 { 0 } else { step };
                snapshot = sampler.sample(fake::reading(n), unix as u64, n * 100);
                history.observe(&snapshot);
            }
            let all = history.document(&snapshot, 0);
            let ends: Vec<u64> = (1..=10).map(|step| step * 200).collect();
            assert_eq!(all["uptime_ms"], json!(ends));
            assert_eq!(all["lanes"][0]["packets"], json!(vec![2000; 10]));
            let rest = history.behind(&snapshot, Behind { unix_ms: 0, uptime_ms: 1600 });
            assert_eq!(rest["uptime_ms"], json!([1800, 2000]));
        }
    }

    #[test]
    fn latency_is_told_by_bucket_and_quantile() {
        let (history, snapshot) = after(2);
        let latency = &history.document(&snapshot, 0)["latency"];
        let parts: Vec<_> = latency.as_array().unwrap().iter().map(|l| l["part"].as_str().unwrap()).collect();
        assert_eq!(parts, ["residence", "queueing", "pause"]);
        let bounds = latency[0]["bounds_ns"].as_array().unwrap();
        assert_eq!(bounds.len(), 2);
        assert!(bounds[0].as_u64() <= Some(50_000) && bounds[1].as_u64() > Some(50_000));
        // Two ports, two samples of 1000 frames a step.
        assert_eq!(latency[0]["frames"], json!([[[0, 4000]], [[0, 4000]]]));
        assert!(latency[0]["p99_ns"][1].as_u64() >= Some(50_000));
        // Every tenth of them was held by a pause for 20 us.
        let of = |part: usize, column: &str| latency[part][column].clone();
        let cells = |part: usize| -> Vec<(u64, u64)> {
            let bounds = of(part, "bounds_ns");
            let step = of(part, "frames")[1].as_array().unwrap().clone();
            step.iter()
                .map(|cell| {
                    (bounds[cell[0].as_u64().unwrap() as usize].as_u64().unwrap(), cell[1].as_u64().unwrap())
                })
                .collect()
        };
        assert_eq!(cells(2), [(0, 3600), (18_432, 400)]);
        assert_eq!(cells(1), [(28_672, 400), (49_152, 3600)]);
        assert_eq!((of(2, "p50_ns")[1].clone(), of(2, "p99_ns")[1].clone()), (json!(0), json!(20_479)));
    }

    #[test]
    fn it_is_bounded_and_can_be_resumed() {
        let (history, snapshot) = after(KEPT as u64 + 10);
        let all = history.document(&snapshot, 0);
        assert_eq!(all["unix_ms"].as_array().unwrap().len(), KEPT);
        let last = snapshot.unix_ms;
        assert_eq!(history.document(&snapshot, last - STEP)["unix_ms"], json!([last]));
        let none = history.document(&snapshot, last);
        assert_eq!(
            (&none["unix_ms"], &none["lanes"], &none["latency"]),
            (&json!([]), &json!([]), &json!([]))
        );
    }
}
