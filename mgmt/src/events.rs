//! What happened, derived by comparing snapshots: pauses, storms, links, bursts, loss.
//!
//! Bursts and pauses are episodes with a start, updates and an end (Arista LANZ): counters tell of
//! those that began and ended between two samples, so none is missed, and however fast a pause
//! toggles it is one episode until a whole sample passes without it.

use crate::flows;
use crate::inc;
use crate::lldp;
use crate::server::SAMPLE;
use crate::snapshot::{NicStats, Snapshot};
use serde_json::{Map, Value, json};
use std::collections::VecDeque;
use weir_config::{LoopAlarm, show_flood_limit};
use weir_dataplane::drops::DropReason;
use weir_dataplane::flows::{Cause, Where};
use weir_dataplane::parse::KeyParts;
use weir_dataplane::stats::{PortGauges, PortStats, Reasons};
use weir_dataplane::storm_control::FloodKind;
use weir_dataplane::types::PRIORITIES;

/// Events kept for readers who come later.
pub const KEPT: usize = 1024;

/// How often an episode under way tells of itself, ms.
const UPDATE: u64 = 1_000;

/// An event: a number that only grows, and its document.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// Its number, from 1.
    pub id: u64,
    /// What happened.
    pub body: Value,
}

/// The last events.
#[derive(Debug, Default)]
pub struct Log {
    events: VecDeque<Event>,
    next: u64,
}

impl Log {
    pub(crate) fn push(&mut self, body: Map<String, Value>) {
        self.next += 1;
        tell(&body);
        let mut body = body;
        body.insert("id".into(), json!(self.next));
        if self.events.len() == KEPT {
            self.events.pop_front();
        }
        self.events.push_back(Event { id: self.next, body: Value::Object(body) });
    }

    /// Number of the last event.
    pub fn last(&self) -> u64 {
        self.next
    }

    /// Those after number `id`, oldest first, as far as they are kept.
    pub fn after(&self, id: u64) -> impl Iterator<Item = &Event> {
        self.events.iter().filter(move |event| event.id > id)
    }
}

/// To the log of the program, where one was asked for.
fn tell(body: &Map<String, Value>) {
    const NAMED: [&str; 5] = ["event", "phase", "port", "priority", "unix_ms"];
    let word = |key: &str| body.get(key).and_then(Value::as_str).unwrap_or("");
    let (event, phase, port) = (word("event"), word("phase"), word("port"));
    let priority = body.get("priority").and_then(Value::as_u64);
    let rest: Map<String, Value> = body
        .iter()
        .filter(|(k, _)| !NAMED.contains(&k.as_str()))
        .map(|(k, v)| (k.clone(), v.clone()))
        .collect();
    let detail = Value::Object(rest).to_string();
    if phase == "alarm" || event == "storm" {
        tracing::warn!(event, phase, port, priority, detail, "event");
    } else {
        tracing::info!(event, phase, port, priority, detail, "event");
    }
}

/// An episode under way.
#[derive(Clone, Copy, Debug)]
struct Episode {
    /// When it began, for people: ms since 1970.
    since: u64,
    /// When it last told of itself, as [`Snapshot::uptime_ms`].
    told: u64,
    /// Counter and time at its start.
    count: u64,
    ns: u64,
    peak: u64,
}

/// What is known of one (port, priority).
#[derive(Clone, Debug, Default)]
struct Lane {
    rx_pause: Option<Episode>,
    tx_pause: Option<Episode>,
    burst: Option<Episode>,
}

/// Compares each snapshot with the one before.
#[derive(Debug, Default)]
pub struct Watcher {
    lanes: Vec<[Lane; PRIORITIES]>,
    /// What of each port is being flooded above its limit, by [`FloodKind`].
    flooding: Vec<[Option<Episode>; 3]>,
    /// When the receive ring of each port last lost frames, as [`Snapshot::uptime_ms`].
    overrun_at: Vec<Option<u64>>,
    /// Samples for which the addresses of each worker have moved as in a loop.
    looping: Vec<u32>,
    /// What was told of the neighbours of each port.
    neighbours: Vec<lldp::Told>,
    before: Option<Snapshot>,
    lost_count: u64,
}

/// Numbers of one thing at the sample before and now.
struct Change {
    on: bool,
    count: (u64, u64),
    ns: (u64, u64),
}

impl Watcher {
    /// Adds what has happened since the last snapshot.
    pub fn observe(&mut self, now: &Snapshot, log: &mut Log) {
        let before = self.before.replace(now.clone());
        self.lanes.resize(now.now.ports.len(), Default::default());
        self.flooding.resize(now.now.ports.len(), Default::default());
        self.overrun_at.resize(now.now.ports.len(), None);
        self.looping.resize(now.now.loops.len(), 0);
        // The first snapshot has nothing to be compared with: counters from before are no news.
        let Some(before) = before else {
            self.neighbours = (0..now.now.ports.len()).map(|port| lldp::Told::of(now, port)).collect();
            return;
        };
        flows::export::report(before.export.as_ref(), now, log);
        for port in 0..now.now.ports.len() {
            link(&before, now, port, log);
            drops(&before, now, port, log);
            for (kind, episode) in FloodKind::ALL.into_iter().zip(&mut self.flooding[port]) {
                rate_limit(episode, &before, now, (port, kind), log);
            }
            overrun(&mut self.overrun_at[port], &before, now, port, log);
            lldp::observe(&mut self.neighbours[port], now, port, log);
            for priority in 0..PRIORITIES {
                let lane = &mut self.lanes[port][priority];
                storms(&before, now, (port, priority), log);
                pauses(lane, &before, now, (port, priority), log);
                burst(lane, &before, now, (port, priority), log);
            }
        }
        inc::observe(&before, now, log);
        if before.now.phase != now.now.phase {
            log.push(event(now, "switch", now.now.phase.word()));
        }
        for worker in 0..now.now.loops.len() {
            moves(&mut self.looping[worker], &before, now, worker, log);
        }
        let error = now.conservation_error();
        if error != self.lost_count {
            self.lost_count = error;
            let mut body = event(now, "conservation", "alarm");
            body.insert("error".into(), json!(error));
            log.push(body);
        }
    }
}

/// Adds an event that snapshots do not tell of.
pub fn report(now: &Snapshot, kind: &str, phase: &str, fields: Map<String, Value>, log: &mut Log) {
    let mut body = event(now, kind, phase);
    body.extend(fields);
    log.push(body);
}

fn event(now: &Snapshot, kind: &str, phase: &str) -> Map<String, Value> {
    let fields = [("unix_ms", json!(now.unix_ms)), ("event", json!(kind)), ("phase", json!(phase))];
    fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

pub(crate) fn at_port(now: &Snapshot, kind: &str, phase: &str, port: usize) -> Map<String, Value> {
    let mut body = event(now, kind, phase);
    body.insert("port".into(), json!(now.info.ports[port].name));
    body
}

fn at_lane(now: &Snapshot, kind: &str, phase: &str, lane: (usize, usize)) -> Map<String, Value> {
    let mut body = at_port(now, kind, phase, lane.0);
    body.insert("priority".into(), json!(lane.1));
    body
}

fn link(before: &Snapshot, now: &Snapshot, port: usize, log: &mut Log) {
    let up = |s: &Snapshot| s.now.ports.get(port).and_then(|p| p.link).map(|link| link.up);
    if let (Some(was), Some(is)) = (up(before), up(now))
        && was != is
    {
        log.push(at_port(now, "link", if is { "up" } else { "down" }, port));
    }
}

/// Addresses that have changed ports: the last one by name, as those of a loop are many. So many in one sample after the
/// other that no stations walk about is a loop, told once until it is over.
fn moves(looping: &mut u32, before: &Snapshot, now: &Snapshot, worker: usize, log: &mut Log) {
    let (Some(was), is) = (before.now.loops.get(worker), &now.now.loops[worker]) else { return };
    let moves = is.fdb_moved.saturating_sub(was.fdb_moved);
    let LoopAlarm { moves: many, time } = now.info.loop_alarm;
    let long = time.div_ceil(SAMPLE.as_nanos() as u64) as u32;
    let on = many > 0 && moves >= many;
    let looped = std::mem::replace(looping, if on { looping.saturating_add(1) } else { 0 });
    if moves == 0 && looped < long {
        return;
    }
    let name = |port: u64| now.info.ports.get(port as usize).map(|port| &port.name);
    let mut body = event(now, "fdb", "moved");
    body.insert("lcore".into(), json!(now.info.lcores.get(worker)));
    body.insert("moves".into(), json!(moves));
    let key = KeyParts::of(is.fdb_move_key);
    body.insert("address".into(), json!(key.to_string()));
    body.insert("vlan".into(), json!(key.vid));
    body.insert("from".into(), json!(name(is.fdb_move_from)));
    body.insert("port".into(), json!(name(is.fdb_move_to)));
    let edge = |phase: &str, remedy: &str| {
        let fields = [("event", "loop"), ("phase", phase), ("remedy", remedy)];
        let fields = fields.map(|(name, value)| (name.to_owned(), json!(value)));
        body.clone().into_iter().chain(fields).collect::<Map<_, _>>()
    };
    match (looped >= long, *looping >= long) {
        (false, true) => log.push(edge(
            "alarm",
            "the ports are joined beyond the switch: pull a cable, or run STP on that bridge",
        )),
        (true, false) => log.push(edge("end", "")),
        _ => {}
    }
    if moves > 0 {
        log.push(body);
    }
}

/// Nothing has happened for a while: never, or long ago.
fn is_quiet(last: Option<u64>, now: &Snapshot) -> bool {
    last.is_none_or(|last| now.uptime_ms.saturating_sub(last) > UPDATE)
}

fn drops(before: &Snapshot, now: &Snapshot, port: usize, log: &mut Log) {
    let (now_here, then_here) = (&now.now.ports[port].stats, &before.now.ports[port].stats);
    for reason in DropReason::ALL {
        let i = *reason as usize;
        let since = |of: fn(&PortStats) -> &Reasons| of(now_here).0[i].saturating_sub(of(then_here).0[i]);
        let (frames, lossless) = (since(|s| &s.drops), since(|s| &s.lossless));
        // A run of drops is told once: when the reason was quiet at the sample before. What the watchdog does to
        // lossless frames is told by its storms.
        let alarm = lossless > 0 && *reason != DropReason::WatchdogDrop;
        // What limits on flooding cost has an event of its own.
        let elsewhere = FloodKind::ALL.iter().any(|kind| kind.reason() == *reason);
        if frames > 0 && (alarm || !elsewhere && is_quiet(before.last_drop[port][i], now)) {
            let mut body = at_port(now, "drops", if alarm { "alarm" } else { "start" }, port);
            body.insert("reason".into(), json!(reason.name()));
            body.insert("frames".into(), json!(frames));
            body.insert("lossless".into(), json!(lossless));
            body.insert("remedy".into(), json!(reason.remedy()));
            add_flow(now, port, Cause::Drop, |place| place.reason == Some(*reason), &mut body);
            log.push(body);
        }
    }
}

/// Names the flow that is behind most of it, where one is known.
fn add_flow(
    now: &Snapshot,
    port: usize,
    cause: Cause,
    wanted: impl Fn(&Where) -> bool,
    body: &mut Map<String, Value>,
) {
    let Some(minute) = now.flows.get(port).and_then(Option::as_ref) else { return };
    if let Some((flow, share)) = flows::main_flow(minute, cause, |id| wanted(&id.place())) {
        body.insert("flow".into(), json!(flow.to_string()));
        body.insert("flow_share".into(), json!((share * 100.0).round() / 100.0));
        let from = now.info.ports.get(usize::from(flow.place().in_port));
        body.insert("flow_from".into(), json!(from.map(|port| &port.name)));
    }
}

/// What a port receives and would flood is above its limit: from the first frame lost until none was for a while.
fn rate_limit(
    episode: &mut Option<Episode>,
    before: &Snapshot,
    now: &Snapshot,
    (port, kind): (usize, FloodKind),
    log: &mut Log,
) {
    let reason = kind.reason();
    let lost = |s: &Snapshot| s.now.ports[port].stats.drops.0[reason as usize];
    let phase = match &episode {
        None if lost(now) > lost(before) => "start",
        Some(_) if is_quiet(now.last_drop[port][reason as usize], now) => "end",
        Some(e) if now.uptime_ms >= e.told + UPDATE => "update",
        _ => return,
    };
    let begun = Episode { since: now.unix_ms, told: 0, count: lost(before), ns: 0, peak: 0 };
    let e = episode.get_or_insert(begun);
    e.told = now.uptime_ms;
    let mut body = at_port(now, "rate_limit", phase, port);
    let limit = now.info.ports[port].storm_control.and_then(|limits| limits.limit(kind));
    body.insert("kind".into(), json!(kind.word()));
    body.insert("limit".into(), json!(limit.map(|limit| show_flood_limit(&limit))));
    body.insert("since_unix_ms".into(), json!(e.since));
    body.insert("frames".into(), json!(lost(now).saturating_sub(e.count)));
    if phase == "start" {
        body.insert("remedy".into(), json!(reason.remedy()));
    }
    if phase == "end" {
        *episode = None;
    }
    log.push(body);
}

/// Frames lost before the switch saw them: the receive ring was full, or there was no memory to receive into (I4); and
/// those that the driver took and did not send.
fn overrun(last: &mut Option<u64>, before: &Snapshot, now: &Snapshot, port: usize, log: &mut Log) {
    let more = |count: fn(&NicStats) -> u64| {
        let of = |s: &Snapshot| s.now.ports[port].nic.as_ref().map_or(0, count);
        of(now).saturating_sub(of(before))
    };
    let received = (more(NicStats::rx_lost), "nic.rx_ring");
    let sent = (more(|nic| nic.tx_lost), "nic.tx");
    for (frames, reason) in [received, sent].into_iter().filter(|(frames, _)| *frames > 0) {
        lost_by_driver(last, now, port, frames, reason, log);
    }
}

fn lost_by_driver(
    last: &mut Option<u64>,
    now: &Snapshot,
    port: usize,
    frames: u64,
    reason: &str,
    log: &mut Log,
) {
    // What is lost here has no priority yet: on a port with lossless ones it is an alarm each time.
    let lossless = now.info.ports[port].lossless != 0;
    if lossless || is_quiet(*last, now) {
        let mut body = at_port(now, "drops", if lossless { "alarm" } else { "start" }, port);
        body.insert("reason".into(), json!(reason));
        body.insert("frames".into(), json!(frames));
        body.insert("possibly_lossless".into(), json!(lossless));
        body.insert(
            "remedy".into(),
            json!(match reason {
                "nic.tx" => "the device did not send them: longer than its MTU, or its link went down",
                _ => "its lcore came too late: fewer ports for it, or a longer rx ring",
            }),
        );
        log.push(body);
    }
    *last = Some(now.uptime_ms);
}

fn storms(before: &Snapshot, now: &Snapshot, lane: (usize, usize), log: &mut Log) {
    let gauges = |s: &Snapshot| {
        let g = &s.now.ports[lane.0].gauges;
        [("detected", g.storms_detected[lane.1]), ("restored", g.storms_restored[lane.1])]
    };
    for ((phase, is), (_, was)) in gauges(now).into_iter().zip(gauges(before)) {
        if is > was {
            let mut body = at_lane(now, "storm", phase, lane);
            body.insert("storms".into(), json!(is - was));
            body.extend(evidence(&now.now.ports[lane.0].gauges, lane.1, phase));
            log.push(body);
        }
    }
}

/// What a storm was detected by and is answered with, or what it has cost.
fn evidence(g: &PortGauges, queue: usize, phase: &str) -> Map<String, Value> {
    let action = match (g.storm_dropping >> queue & 1, g.storm_forwarding >> queue & 1) {
        (1, _) => "drop",
        (_, 1) => "forward",
        // A storm that is over already had what its frames tell of.
        _ if g.stormed_queues >> queue & 1 == 0 && g.storm_last_tx_drop[queue] > 0 => "drop",
        _ if g.stormed_queues >> queue & 1 == 0 && g.storm_last_tx_ok[queue] > 0 => "forward",
        _ => "alert",
    };
    let fields = match phase {
        "detected" => vec![
            ("action", json!(action)),
            ("backlog_bytes", json!(g.storm_backlog[queue])),
            ("stalled_ns", json!(g.storm_stalled_ns[queue])),
        ],
        _ => vec![
            ("tx_ok", json!(g.storm_last_tx_ok[queue])),
            ("tx_drop", json!(g.storm_last_tx_drop[queue])),
            ("rx_ok", json!(g.storm_last_rx_ok[queue])),
            ("rx_drop", json!(g.storm_last_rx_drop[queue])),
        ],
    };
    fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// Xoff and Xon, both directions: the pauses of an episode are counted and timed.
fn pauses(lane: &mut Lane, before: &Snapshot, now: &Snapshot, at: (usize, usize), log: &mut Log) {
    let (old, new) = (&before.now.ports[at.0].gauges, &now.now.ports[at.0].gauges);
    let p = at.1;
    let tx = Change {
        on: new.xoff_priorities >> p & 1 == 1,
        count: (old.tx_pauses[p], new.tx_pauses[p]),
        ns: (old.tx_paused_ns[p], new.tx_paused_ns[p]),
    };
    let rx = Change {
        on: false,
        count: (old.rx_pauses[p], new.rx_pauses[p]),
        ns: (old.rx_paused_ns[p], new.rx_paused_ns[p]),
    };
    for (direction, change, episode) in [("tx", tx, &mut lane.tx_pause), ("rx", rx, &mut lane.rx_pause)] {
        let active = change.on || change.count.1 > change.count.0 || change.ns.1 > change.ns.0;
        let phase = match (&episode, active) {
            (None, false) => continue,
            (None, true) => "start",
            (Some(e), true) if now.uptime_ms >= e.told + UPDATE => "update",
            (Some(_), true) => continue,
            (Some(_), false) => "end",
        };
        let e = episode.get_or_insert(Episode {
            since: now.unix_ms,
            told: 0,
            count: change.count.0,
            ns: change.ns.0,
            peak: 0,
        });
        e.told = now.uptime_ms;
        let kind = if phase == "end" { "xon" } else { "xoff" };
        let mut body = at_lane(now, kind, phase, at);
        body.insert("direction".into(), json!(direction));
        body.insert("since_unix_ms".into(), json!(e.since));
        body.insert("pauses".into(), json!(change.count.1.saturating_sub(e.count)));
        body.insert("paused_ns".into(), json!(change.ns.1.saturating_sub(e.ns)));
        if let Some(blame) = now.blame(at.0, p).filter(|_| direction == "tx") {
            body.insert("cause".into(), json!(blame.word()));
            if let Some((port, queue)) = blame.queue() {
                body.insert("cause_port".into(), json!(now.info.ports.get(port).map(|port| &port.name)));
                body.insert("cause_queue".into(), json!(queue));
            }
        }
        if direction == "tx" {
            // A group pauses all priorities that fill it.
            let groups = now.info.ports[at.0].pg_priorities;
            add_flow(
                now,
                at.0,
                Cause::Pause,
                |place| groups[usize::from(place.priority)] >> p & 1 == 1,
                &mut body,
            );
        }
        if phase == "end" {
            *episode = None;
        }
        log.push(body);
    }
}

/// Depth above which a queue is in a burst: Kmax, or an eighth of the shared buffer.
pub fn burst_threshold(now: &Snapshot, port: usize, queue: usize) -> u64 {
    let marking = now.info.ports[port].marking[queue];
    marking.map_or(now.info.buffer.shared / 8, |m| m.kmax).max(1)
}

/// Starts above the threshold, ends below half of it.
fn burst(lane: &mut Lane, before: &Snapshot, now: &Snapshot, at: (usize, usize), log: &mut Log) {
    let (old, new) = (&before.now.ports[at.0].gauges, &now.now.ports[at.0].gauges);
    let (depth, record) = (new.queue_bytes[at.1], new.queue_peak[at.1]);
    let threshold = burst_threshold(now, at.0, at.1);
    // A new record above the threshold is a burst even if both samples were below.
    let unseen = if record > old.queue_peak[at.1] { record } else { 0 };
    let high = depth.max(unseen);
    let over = depth * 2 > threshold;
    let mut tell = |phase: &str, e: &Episode| {
        let mut body = at_lane(now, "burst", phase, at);
        body.insert("since_unix_ms".into(), json!(e.since));
        body.insert("depth_bytes".into(), json!(depth));
        body.insert("peak_bytes".into(), json!(e.peak));
        body.insert("threshold_bytes".into(), json!(threshold));
        add_flow(now, at.0, Cause::Depth, |place| usize::from(place.priority) == at.1, &mut body);
        log.push(body);
    };
    match &mut lane.burst {
        None if high > threshold => {
            let e = Episode { since: now.unix_ms, told: now.uptime_ms, count: 0, ns: 0, peak: high };
            tell("start", &e);
            if over {
                lane.burst = Some(e);
            } else {
                tell("end", &e);
            }
        }
        None => {}
        Some(e) => {
            e.peak = e.peak.max(high);
            if !over {
                tell("end", e);
                lane.burst = None;
            } else if now.uptime_ms >= e.told + UPDATE {
                e.told = now.uptime_ms;
                tell("update", e);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake;
    use crate::sample::Sampler;
    use crate::snapshot::{Link, Reading};

    /// Feeds readings, 100 ms apart, and gives the events as `event/phase` of each.
    struct Feed {
        sampler: Sampler,
        watcher: Watcher,
        log: Log,
        ms: u64,
        seen: u64,
    }

    impl Feed {
        fn new() -> Self {
            let sampler = Sampler::new(fake::info());
            Self { sampler, watcher: Watcher::default(), log: Log::default(), ms: 0, seen: 0 }
        }

        fn step(&mut self, reading: &Reading) -> Vec<Value> {
            self.ms += 100;
            let snapshot = self.sampler.sample(reading.clone(), self.ms, self.ms);
            self.watcher.observe(&snapshot, &mut self.log);
            let new: Vec<_> = self.log.after(self.seen).map(|e| e.body.clone()).collect();
            self.seen = self.log.last();
            new
        }
    }

    fn names(events: &[Value]) -> Vec<String> {
        let text = |e: &Value, key: &str| e[key].as_str().unwrap_or("").to_owned();
        events.iter().map(|e| format!("{}/{}", text(e, "event"), text(e, "phase"))).collect()
    }

    #[test]
    fn a_job_that_waits_is_told_of_unless_it_has_failed() {
        use weir_inc::immediate::Failure;
        use weir_inc::report::State;
        let mut feed = Feed::new();
        let mut reading = fake::reading(7);
        feed.step(&reading);
        let mut step = |waiting: Option<u64>, state: State| {
            let job = &mut reading.engines[0].jobs[0];
            (job.waiting, job.state) = (waiting, state);
            names(&feed.step(&reading))
        };
        assert_eq!(step(Some(1_000_000_000), State::Running), ["inc/straggler"]);
        assert_eq!(step(None, State::Running), ["inc/resumed"]);
        let failed = State::Failed(Failure::Unreachable, 1, 0);
        assert_eq!(step(Some(900_000_000), failed), ["inc/alarm"]);
        assert!(step(Some(1_100_000_000), failed).is_empty());
    }

    #[test]
    fn a_first_look_is_no_news_and_quiet_is_quiet() {
        let mut feed = Feed::new();
        let reading = fake::reading(7);
        assert!(feed.step(&reading).is_empty());
        assert!(feed.step(&reading).is_empty());
    }

    /// Who is behind a pause, a burst and a loss stands in their events.
    #[test]
    fn events_name_the_flow_behind_most() {
        let mut feed = Feed::new();
        let mut reading = fake::reading(1);
        feed.step(&reading);
        reading.ports[1].gauges.tx_pauses[3] += 1;
        reading.ports[1].gauges.queue_bytes[3] = 90_000;
        reading.ports[1].stats.drops.0[DropReason::EgressQueueFull as usize] += 1;
        let events = feed.step(&reading);
        let of =
            |kind: &str| events.iter().find(|event| event["event"] == kind && event["port"] != "p0").unwrap();
        for kind in ["xoff", "burst"] {
            let told = ["flow", "flow_share", "flow_from"].map(|key| of(kind)[key].clone());
            assert_eq!(told, [json!("10.0.0.7 -> 10.0.0.9 QP 0x17"), json!(0.7), json!("p0")], "{kind}");
        }
        // Nothing is known of losses, and nothing at all of the other port.
        assert!(of("drops")["flow"].is_null());
        assert!(events.iter().all(|event| event["port"] != "p0" || event["flow"].is_null()));
    }

    #[test]
    fn a_loop_is_an_alarm_and_stations_that_move_are_none() {
        let mut feed = Feed::new();
        let mut reading = fake::reading(1);
        feed.step(&reading);
        let mut moves = |n: u64| {
            reading.loops[0].fdb_moved += n;
            names(&feed.step(&reading))
        };
        // A hundred machines that change their place at once, and one that goes on doing so.
        assert_eq!(moves(100), ["fdb/moved"]);
        assert_eq!([moves(0), moves(1), moves(1), moves(1)].concat(), ["fdb/moved"; 3]);
        assert_eq!([moves(900), moves(900)].concat(), ["fdb/moved"; 2]);
        assert_eq!(moves(900), ["loop/alarm", "fdb/moved"]);
        assert_eq!([moves(900), moves(900)].concat(), ["fdb/moved"; 2]);
        assert_eq!(moves(0), ["loop/end"]);
        assert!(moves(0).is_empty());
    }

    /// `loop_moves` and `loop_time`.
    #[test]
    fn how_many_moves_for_how_long_are_a_loop_is_configured() {
        let run = |moves: u64, ms: u64| {
            let mut feed = Feed::new();
            let mut info = fake::info();
            info.loop_alarm = LoopAlarm { moves, time: ms * 1_000_000 };
            feed.sampler = Sampler::new(info);
            let mut reading = fake::reading(1);
            feed.step(&reading);
            let mut step = |moves: u64| {
                reading.loops[0].fdb_moved += moves;
                names(&feed.step(&reading)).iter().any(|name| name == "loop/alarm")
            };
            (0..20).position(|_| step(50))
        };
        assert_eq!(run(20, 300), Some(2));
        assert_eq!((run(50, 100), run(50, 450), run(51, 100), run(0, 100)), (Some(0), Some(4), None, None));
    }

    #[test]
    fn links_and_storms() {
        let mut feed = Feed::new();
        let mut reading = fake::reading(1);
        feed.step(&reading);
        reading.ports[1].link = Some(Link { up: false, mbps: None });
        reading.ports[0].gauges.storms_detected[3] = 1;
        let events = feed.step(&reading);
        assert_eq!(names(&events), ["storm/detected", "link/down"]);
        assert_eq!((&events[0]["port"], &events[0]["priority"]), (&json!("p0"), &json!(3)));
        reading.ports[0].gauges.storms_restored[3] = 1;
        assert_eq!(names(&feed.step(&reading)), ["storm/restored"]);
    }

    #[test]
    fn h5_a_storm_is_told_with_its_evidence() {
        for (dropping, forwarding, action) in [(1 << 3, 0, "drop"), (0, 1 << 3, "forward"), (0, 0, "alert")] {
            let mut feed = Feed::new();
            let mut reading = fake::reading(1);
            feed.step(&reading);
            let g = &mut reading.ports[1].gauges;
            (g.storms_detected[3], g.stormed_queues, g.storm_dropping, g.storm_forwarding) =
                (1, 1 << 3, dropping, forwarding);
            (g.storm_backlog[3], g.storm_stalled_ns[3]) = (45_000, 200_000_001);
            let event = &feed.step(&reading)[0];
            let want = json!({
                "id": event["id"], "unix_ms": 200, "event": "storm", "phase": "detected", "port": "p\"1\\",
                "priority": 3, "storms": 1, "action": action, "backlog_bytes": 45_000, "stalled_ns": 200_000_001,
            });
            assert_eq!(event, &want);
            let g = &mut reading.ports[1].gauges;
            (g.storms_restored[3], g.stormed_queues, g.storm_dropping, g.storm_forwarding) = (1, 0, 0, 0);
            (g.storm_last_tx_ok[3], g.storm_last_tx_drop[3]) = (1, 2);
            (g.storm_last_rx_ok[3], g.storm_last_rx_drop[3]) = (3, 4);
            let event = &feed.step(&reading)[0];
            let frames = ["tx_ok", "tx_drop", "rx_ok", "rx_drop"].map(|key| event[key].as_u64());
            assert_eq!(
                (names(std::slice::from_ref(event)), frames),
                (vec!["storm/restored".into()], [1, 2, 3, 4].map(Some))
            );
        }
    }

    #[test]
    fn pauses_that_toggle_are_one_episode() {
        let mut feed = Feed::new();
        let mut reading = fake::reading(1);
        feed.step(&reading);
        let mut all = Vec::new();
        for _ in 0..15 {
            reading.ports[0].gauges.tx_pauses[3] += 40;
            reading.ports[0].gauges.tx_paused_ns[3] += 10_000_000;
            all.extend(feed.step(&reading));
        }
        assert_eq!(names(&all), ["xoff/start", "xoff/update"]);
        let end = feed.step(&reading);
        assert_eq!(names(&end), ["xon/end"]);
        assert_eq!((&end[0]["pauses"], &end[0]["paused_ns"]), (&json!(600), &json!(150_000_000)));
        assert_eq!((&end[0]["direction"], &end[0]["since_unix_ms"]), (&json!("tx"), &json!(200)));
        assert!(feed.step(&reading).is_empty());
    }

    #[test]
    fn a_burst_starts_updates_ends_with_hysteresis() {
        let mut feed = Feed::new();
        let mut reading = fake::reading(1);
        feed.step(&reading);
        let mut at = |depth: u64| {
            reading.ports[0].gauges.queue_bytes[3] = depth;
            let peak = &mut reading.ports[0].gauges.queue_peak[3];
            *peak = depth.max(*peak);
            feed.step(&reading)
        };
        assert_eq!(names(&at(50_000)), ["burst/start"]);
        for _ in 0..9 {
            assert!(at(30_000).is_empty(), "below Kmax, above half of it");
        }
        let update = at(60_000);
        assert_eq!((names(&update), &update[0]["peak_bytes"]), (vec!["burst/update".into()], &json!(60_000)));
        assert_eq!(names(&at(1_000)), ["burst/end"]);
    }

    #[test]
    fn a_burst_between_two_samples_is_seen_by_its_record() {
        let mut feed = Feed::new();
        let mut reading = fake::reading(1);
        feed.step(&reading);
        reading.ports[0].gauges.queue_bytes[3] = 0;
        reading.ports[0].gauges.queue_peak[3] = 90_000;
        let events = feed.step(&reading);
        assert_eq!(names(&events), ["burst/start", "burst/end"]);
        assert_eq!(events[0]["peak_bytes"], json!(90_000));
        assert!(feed.step(&reading).is_empty());
    }

    #[test]
    fn loss_is_told_once_per_run_but_lossless_loss_always() {
        let mut feed = Feed::new();
        let mut reading = fake::reading(1);
        feed.step(&reading);
        let mut lose = |reason: DropReason, lossless: u64| {
            let stats = &mut reading.ports[0].stats;
            stats.drops.0[reason as usize] += 5;
            stats.lossless.0[reason as usize] += lossless;
            let events = feed.step(&reading);
            (0..20).for_each(|_| assert!(feed.step(&reading).is_empty()));
            events
        };
        // What counts is the class of the frame, whatever the reason.
        for reason in [DropReason::IngressHeadroom, DropReason::IngressNoSlot, DropReason::EgressPortDown] {
            let first = lose(reason, 3);
            assert_eq!((names(&first), &first[0]["frames"]), (vec!["drops/alarm".into()], &json!(5)));
            assert_eq!((&first[0]["reason"], &first[0]["lossless"]), (&json!(reason.name()), &json!(3)));
            assert_eq!(names(&lose(reason, 0)), ["drops/start"]);
        }
        // What the watchdog drops is told, and told apart.
        let watchdog = lose(DropReason::WatchdogDrop, 5);
        assert_eq!((names(&watchdog), &watchdog[0]["lossless"]), (vec!["drops/start".into()], &json!(5)));
        let mut again = |lossless: u64| {
            let stats = &mut reading.ports[0].stats;
            stats.drops.0[DropReason::EgressQueueFull as usize] += 5;
            stats.lossless.0[DropReason::EgressQueueFull as usize] += lossless;
            names(&feed.step(&reading))
        };
        assert_eq!(
            [again(0), again(0), again(1), again(1)].map(|e| e.join(" ")),
            ["drops/start", "", "drops/alarm", "drops/alarm"]
        );
    }

    #[test]
    fn flooding_above_a_limit_is_one_episode_and_lossless_loss_an_alarm_beside_it() {
        let mut feed = Feed::new();
        let mut reading = fake::reading(1);
        feed.step(&reading);
        let mut lose = |frames: u64, lossless: u64| {
            let stats = &mut reading.ports[0].stats;
            stats.drops.0[DropReason::IngressBroadcastLimit as usize] += frames;
            stats.lossless.0[DropReason::IngressBroadcastLimit as usize] += lossless;
            feed.step(&reading)
        };
        let start = lose(5, 0);
        assert_eq!(names(&start), ["rate_limit/start"]);
        let fields = ["port", "kind", "limit"].map(|key| start[0][key].as_str());
        assert_eq!(fields, [Some("p0"), Some("broadcast"), Some("5Kpps")]);
        assert!(start[0]["remedy"].as_str().is_some_and(|remedy| remedy.contains("storm_control")));
        // A second later it says how much that was, although it paused meanwhile.
        let later: Vec<_> = (0..15).flat_map(|n| lose(n % 2, 0)).collect();
        assert_eq!((names(&later), &later[0]["frames"]), (vec!["rate_limit/update".to_owned()], &json!(10)));
        assert_eq!(names(&lose(1, 1)), ["drops/alarm"]);
        let end: Vec<_> = (0..30).flat_map(|_| lose(0, 0)).collect();
        let phases = names(&end);
        assert_eq!(phases.last().map(String::as_str), Some("rate_limit/end"), "{phases:?}");
        assert_eq!(end.last().unwrap()["frames"], json!(13));
        assert_eq!(names(&lose(2, 0)), ["rate_limit/start"]);
    }

    /// A wall clock that is set back by an hour keeps no event back.
    #[test]
    fn a_clock_that_is_set_back_silences_nothing() {
        let run = |set_back: i64| {
            let (mut sampler, mut watcher, mut log) =
                (Sampler::new(fake::info()), Watcher::default(), Log::default());
            let mut reading = fake::reading(1);
            for n in 0..40 {
                let unix = 1_700_000_000_000 + n * 100 - if n < 10 { 0 } else { set_back };
                if n != 0 {
                    reading.ports[0].gauges.tx_pauses[3] += 1;
                }
                if n % 15 == 8 {
                    reading.ports[1].stats.drops.0[DropReason::EgressQueueFull as usize] += 1;
                    reading.ports[1].nic.as_mut().unwrap().rx_missed += 1;
                }
                reading.ports[0].gauges.queue_bytes[3] = if n % 20 < 15 { 60_000 } else { 0 };
                watcher.observe(&sampler.sample(reading.clone(), unix as u64, n as u64 * 100), &mut log);
            }
            names(&log.after(0).map(|event| event.body.clone()).collect::<Vec<_>>())
        };
        let usual = run(0);
        assert!(usual.contains(&"xoff/update".to_owned()) && usual.contains(&"burst/update".to_owned()));
        assert_eq!(run(3_600_000), usual);
    }

    #[test]
    fn i4_an_overrun_of_the_receive_ring_is_never_silent() {
        for (lossless, phases) in [(1 << 3, ["drops/alarm", "drops/alarm"].as_slice()), (0, &["drops/start"])]
        {
            let mut feed = Feed::new();
            let mut info = fake::info();
            info.ports[1].lossless = lossless;
            feed.sampler = Sampler::new(info);
            let mut reading = fake::reading(1);
            // Well after the start of time, so that "never" is long ago.
            (0..20).for_each(|_| drop(feed.step(&reading)));
            let mut all = Vec::new();
            for _ in 0..2 {
                let nic = reading.ports[1].nic.as_mut().unwrap();
                (nic.rx_missed, nic.rx_no_mbuf) = (nic.rx_missed + 5, nic.rx_no_mbuf + 1);
                all.extend(feed.step(&reading));
            }
            assert_eq!(names(&all), phases);
            assert!(
                all.iter().all(|e| e["reason"] == "nic.rx_ring" && e["frames"] == 6 && e["port"] == "p\"1\\")
            );
            assert!(feed.step(&reading).is_empty());
            // Well after that, what it took and did not send.
            (0..20).for_each(|_| drop(feed.step(&reading)));
            reading.ports[1].nic.as_mut().unwrap().tx_lost += 4;
            let sent = feed.step(&reading);
            assert_eq!(names(&sent), phases[..1]);
            assert_eq!((&sent[0]["reason"], &sent[0]["frames"]), (&json!("nic.tx"), &json!(4)));
        }
    }

    #[test]
    fn a_pause_names_who_is_to_blame() {
        let mut feed = Feed::new();
        let mut reading = fake::reading(1);
        reading.ports[1].gauges.paused_queues = 0;
        feed.step(&reading);
        reading.ports[0].gauges.tx_pauses[3] += 1;
        let event = &feed.step(&reading)[0];
        assert_eq!((&event["direction"], &event["cause"]), (&json!("tx"), &json!("queue")));
        assert_eq!((&event["cause_port"], &event["cause_queue"]), (&json!("p\"1\\"), &json!(3)));
    }

    #[test]
    fn addresses_that_move_and_phases_that_pass() {
        let mut feed = Feed::new();
        let mut reading = fake::reading(1);
        feed.step(&reading);
        let worker = &mut reading.loops[1];
        (worker.fdb_moved, worker.fdb_move_key, worker.fdb_move_to) = (3, 1 << 60 | 5 << 48 | 0x02_00ab, 1);
        let moved = feed.step(&reading);
        assert_eq!((names(&moved), &moved[0]["moves"]), (vec!["fdb/moved".into()], &json!(3)));
        assert_eq!((&moved[0]["from"], &moved[0]["port"]), (&json!("p0"), &json!("p\"1\\")));
        assert_eq!((&moved[0]["address"], &moved[0]["vlan"]), (&json!("00:00:00:02:00:ab"), &json!(5)));
        assert_eq!(moved[0]["lcore"], json!(2));
        reading.phase = crate::snapshot::Phase::Drain;
        assert_eq!(names(&feed.step(&reading)), ["switch/draining"]);
    }

    #[test]
    fn lost_count_is_an_alarm() {
        let mut feed = Feed::new();
        let mut reading = fake::reading(1);
        feed.step(&reading);
        reading.loops[0].received += 1;
        assert_eq!(names(&feed.step(&reading)), ["conservation/alarm"]);
        assert!(feed.step(&reading).is_empty());
    }

    #[test]
    fn the_log_is_bounded_and_resumable() {
        let mut log = Log::default();
        for _ in 0..KEPT + 10 {
            log.push(Map::new());
        }
        assert_eq!(log.after(0).count(), KEPT);
        assert_eq!(
            log.after(log.last() - 3).map(|e| e.id).collect::<Vec<_>>(),
            [KEPT as u64 + 8, KEPT as u64 + 9, KEPT as u64 + 10]
        );
        assert_eq!(log.after(u64::MAX).count(), 0);
    }
}
