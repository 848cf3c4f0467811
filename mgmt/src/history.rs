//! The last minute, for the page and for reports: what tables cannot show because it moves.
//!
//! A step is what happened between two samples. Columns are kept per step and lane (port, priority), and served
//! only for lanes in which something happened.

use crate::sample::since;
use crate::snapshot::{Blame, Reading, Snapshot};
use serde_json::{Map, Value, json};
use std::collections::VecDeque;
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

/// Buckets in use of the residence of one priority, all ports: (bucket, frames).
type Sparse = Vec<(u16, u32)>;

#[derive(Debug)]
struct Step {
    unix_ms: u64,
    lanes: Vec<[Lane; PRIORITIES]>,
    residence: [Sparse; PRIORITIES],
    shared_used: u64,
    headroom_used: u64,
}

/// The last minute.
#[derive(Debug, Default)]
pub struct History {
    steps: VecDeque<Step>,
    before: Option<(u64, Arc<Reading>)>,
}

fn small(n: u64) -> u32 {
    u32::try_from(n).unwrap_or(NONE)
}

impl History {
    /// Takes a snapshot into account, if a step has passed since the last one it took.
    pub fn observe(&mut self, snapshot: &Snapshot) {
        let Some((at, before)) = &self.before else {
            self.before = Some((snapshot.unix_ms, Arc::clone(&snapshot.now)));
            return;
        };
        // Samples come a little early or late: the nearest one ends the step.
        if snapshot.unix_ms.saturating_sub(*at) + STEP / 4 < STEP {
            return;
        }
        let step = step(snapshot, before);
        if self.steps.len() == KEPT {
            self.steps.pop_front();
        }
        self.steps.push_back(step);
        self.before = Some((snapshot.unix_ms, Arc::clone(&snapshot.now)));
    }

    /// Steps that ended after `since` (ms since 1970) as one document.
    pub fn document(&self, snapshot: &Snapshot, since: u64) -> Value {
        let steps: Vec<&Step> = self.steps.iter().filter(|step| step.unix_ms > since).collect();
        let ports = &snapshot.info.ports;
        let lanes: Vec<Value> = (0..ports.len())
            .flat_map(|port| (0..PRIORITIES).map(move |priority| (port, priority)))
            .filter_map(|(port, priority)| {
                let all: Vec<Lane> =
                    steps.iter().filter_map(|s| Some(s.lanes.get(port)?[priority])).collect();
                all.iter().any(Lane::is_busy).then(|| lane(snapshot, &all, (port, priority)))
            })
            .collect();
        let latency: Vec<Value> = (0..PRIORITIES)
            .filter(|priority| steps.iter().any(|s| !s.residence[*priority].is_empty()))
            .map(|priority| latency(priority, steps.iter().map(|s| &s.residence[priority])))
            .collect();
        let column = |get: fn(&Step) -> u64| steps.iter().map(|s| json!(get(s))).collect::<Vec<_>>();
        json!({
            "switch_name": snapshot.info.name,
            "step_ms": STEP,
            "kept": KEPT,
            "unix_ms": column(|s| s.unix_ms),
            "shared_used": column(|s| s.shared_used),
            "headroom_used": column(|s| s.headroom_used),
            "lanes": lanes,
            "latency": latency,
        })
    }
}

fn step(snapshot: &Snapshot, before: &Reading) -> Step {
    let mut residence: [Histogram; PRIORITIES] = Default::default();
    let both = snapshot.now.ports.iter().zip(&before.ports).enumerate();
    let lanes = both
        .map(|(port, (now, then))| {
            for ((sum, now), then) in
                residence.iter_mut().zip(&now.stats.residence).zip(&then.stats.residence)
            {
                sum.add(&since(now, then));
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
        unix_ms: snapshot.unix_ms,
        lanes,
        residence: residence.map(|h| sparse(&h)),
        shared_used: most(|l| l.shared_used),
        headroom_used: most(|l| l.headroom_used),
    }
}

/// The buckets in use.
fn sparse(histogram: &Histogram) -> Sparse {
    let used = histogram.0.iter().enumerate().filter(|(_, frames)| **frames > 0);
    used.map(|(bucket, frames)| (bucket as u16, small(*frames))).collect()
}

fn lane(snapshot: &Snapshot, all: &[Lane], (port, priority): (usize, usize)) -> Value {
    let bytes = |n: u32| if n == NONE { Value::Null } else { json!(n) };
    let share = |x: f32| json!((f64::from(x) * 1e4).round() / 1e4);
    let column = |get: &dyn Fn(&Lane) -> Value| Value::Array(all.iter().map(get).collect());
    let mut columns: Map<String, Value> = [
        ("port", json!(snapshot.info.ports[port].name)),
        ("priority", json!(priority)),
        ("depth", column(&|l| bytes(l.depth))),
        ("shared", column(&|l| bytes(l.shared))),
        ("headroom", column(&|l| bytes(l.headroom))),
        ("xoff", column(&|l| bytes(l.xoff))),
        ("xon", column(&|l| bytes(l.xon))),
        ("packets", column(&|l| json!(l.packets))),
        ("selected", column(&|l| json!(l.selected))),
    ]
    .into_iter()
    .map(|(name, value)| (name.to_owned(), value))
    .collect();
    if all.iter().any(|l| l.rx_paused > 0.0) {
        columns.insert("rx_paused".into(), column(&|l| share(l.rx_paused)));
    }
    if all.iter().any(|l| l.tx_paused > 0.0) {
        let cause = |l: &Lane| l.blame.map_or(Value::Null, |blame| blame_json(snapshot, blame));
        columns.insert("tx_paused".into(), column(&|l| share(l.tx_paused)));
        columns.insert("cause".into(), column(&cause));
    }
    Value::Object(columns)
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
fn latency<'a>(priority: usize, steps: impl Iterator<Item = &'a Sparse> + Clone) -> Value {
    let used = || steps.clone().flatten().map(|(bucket, _)| usize::from(*bucket));
    let (first, last) = (used().min().unwrap_or(0), used().max().unwrap_or(0));
    let bounds: Vec<u64> = (first..=last + 1).map(bucket_start).collect();
    let mut frames = Vec::new();
    let mut quantiles: [Vec<Value>; 4] = Default::default();
    for step in steps {
        let mut histogram = Histogram::default();
        for (bucket, n) in step {
            histogram.0[usize::from(*bucket)] = u64::from(*n);
        }
        frames.push(
            step.iter().map(|(bucket, n)| json!([usize::from(*bucket) - first, n])).collect::<Vec<_>>(),
        );
        for (column, q) in quantiles.iter_mut().zip([0.5, 0.99, 0.999, 1.0]) {
            column.push(json!(histogram.quantile(q)));
        }
    }
    let [p50, p99, p999, max] = quantiles;
    json!({
        "priority": priority,
        "bounds_ns": bounds,
        "frames": frames,
        "p50_ns": p50,
        "p99_ns": p99,
        "p999_ns": p999,
        "max_ns": max,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake;
    use crate::sample::Sampler;

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

    #[test]
    fn latency_is_told_by_bucket_and_quantile() {
        let (history, snapshot) = after(2);
        let latency = &history.document(&snapshot, 0)["latency"];
        assert_eq!(latency.as_array().unwrap().len(), 1);
        let bounds = latency[0]["bounds_ns"].as_array().unwrap();
        assert_eq!(bounds.len(), 2);
        assert!(bounds[0].as_u64() <= Some(50_000) && bounds[1].as_u64() > Some(50_000));
        // Two ports, two samples of 1000 frames a step.
        assert_eq!(latency[0]["frames"], json!([[[0, 4000]], [[0, 4000]]]));
        assert!(latency[0]["p99_ns"][1].as_u64() >= Some(50_000));
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
