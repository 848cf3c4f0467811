//! What happened, derived by comparing snapshots: pauses, storms, links, bursts, loss.
//!
//! Bursts and pauses are episodes with a start, updates and an end (Arista LANZ): counters tell of
//! those that began and ended between two samples, so none is missed, and however fast a pause
//! toggles it is one episode until a whole sample passes without it.

use crate::credentials;
use crate::flows;
use crate::inc;
use crate::lacp;
use crate::lldp;
use crate::mcast;
use crate::server::SAMPLE;
use crate::snapshot::{NicStats, Snapshot};
use serde_json::{Map, Value, json};
use std::array;
use std::collections::VecDeque;
use weir_config::{LoopAlarm, show_flood_limit};
use weir_dataplane::drops::{DROP_REASONS, DropReason, LosslessLoss};
use weir_dataplane::flows::{Cause, Where};
use weir_dataplane::parse::KeyParts;
use weir_dataplane::stats::{PortGauges, Reasons};
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

/// How often a peer may be told of, however often it changes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Allowance {
    /// Time that the events told so far still cost, ms, and when that was so, as [`Snapshot::uptime_ms`].
    spent: u64,
    at: u64,
}

impl Allowance {
    /// Events at once, and how long one more takes to become due, ms.
    const AT_ONCE: u64 = 16;
    const EACH: u64 = 1_000;

    /// Another event may be told.
    pub fn may(&mut self, now: u64) -> bool {
        self.spent = self.spent.saturating_sub(now.saturating_sub(self.at));
        self.at = now;
        let may = self.spent < Self::AT_ONCE * Self::EACH;
        self.spent += if may { Self::EACH } else { 0 };
        may
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

impl Episode {
    /// One that begins now, with the counter and time it had at the sample before.
    fn new(now: &Snapshot, count: u64, ns: u64) -> Self {
        Self { since: now.unix_ms, told: 0, count, ns, peak: 0 }
    }
}

/// What is to be told now, `start`, `update` or `end`, and of which episode: of `begun` where none is under way. `None`: nothing.
fn step(
    episode: &mut Option<Episode>,
    begun: Episode,
    (begins, ends): (bool, bool),
    now: &Snapshot,
) -> Option<(&'static str, Episode)> {
    let phase = match episode {
        None if begins => "start",
        Some(_) if ends => "end",
        Some(e) if now.uptime_ms >= e.told + UPDATE => "update",
        _ => return None,
    };
    let e = episode.get_or_insert(begun);
    e.told = now.uptime_ms;
    let told = *e;
    if phase == "end" {
        *episode = None;
    }
    Some((phase, told))
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
    /// What each port loses, by reason, and what its driver does, received and sent.
    losses: Vec<([Loss; DROP_REASONS], [Loss; 2])>,
    /// Whether the addresses of each worker move as in a loop.
    looping: Vec<Looping>,
    /// Stations that each worker does not learn, and when it last met one, as [`Snapshot::uptime_ms`].
    refusing: Vec<(Option<Episode>, Option<u64>)>,
    /// What was told of the neighbours of each port.
    neighbours: Vec<lldp::Told>,
    /// What was told of each port as a member of a LAG.
    members: Vec<lacp::Told>,
    /// What was told of groups and of who asks for their members.
    groups: mcast::Events,
    /// What was told of the certificate and of the files with tokens.
    credentials: credentials::Told,
    before: Option<Snapshot>,
    lost_count: u64,
}

/// Samples on end in which addresses moved as in a loop, or did not.
#[derive(Clone, Copy, Debug, Default)]
struct Looping {
    moving: u32,
    calm: u32,
    told: bool,
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
        self.losses
            .resize_with(now.now.ports.len(), || (array::from_fn(|_| Loss::default()), Default::default()));
        self.looping.resize(now.now.loops.len(), Looping::default());
        self.refusing.resize(now.now.loops.len(), Default::default());
        credentials::observe(&mut self.credentials, now, log);
        // The first snapshot has nothing to be compared with: counters from before are no news.
        let Some(before) = before else {
            self.neighbours = (0..now.now.ports.len()).map(|port| lldp::Told::of(now, port)).collect();
            self.members = (0..now.now.ports.len()).map(|port| lacp::Told::at(now, port)).collect();
            self.groups = mcast::Events::of(now);
            return;
        };
        flows::export::report(before.export.as_ref(), now, log);
        for port in 0..now.now.ports.len() {
            link(&before, now, port, log);
            drops(&mut self.losses[port].0, &before, now, port, log);
            for (kind, episode) in FloodKind::ALL.into_iter().zip(&mut self.flooding[port]) {
                rate_limit(episode, &before, now, (port, kind), log);
            }
            overrun(&mut self.losses[port].1, &before, now, port, log);
            lldp::observe(&mut self.neighbours[port], now, port, log);
            lacp::observe(&mut self.members[port], now, port, log);
            for priority in 0..PRIORITIES {
                let lane = &mut self.lanes[port][priority];
                storms(&before, now, (port, priority), log);
                pauses(lane, &before, now, (port, priority), log);
                burst(lane, &before, now, (port, priority), log);
            }
        }
        mcast::observe(&mut self.groups, now, log);
        inc::observe(&before, now, log);
        if before.now.phase != now.now.phase {
            log.push(event(now, "switch", now.now.phase.word()));
        }
        for worker in 0..now.now.loops.len() {
            moves(&mut self.looping[worker], &before, now, worker, log);
            refused(&mut self.refusing[worker], &before, now, worker, log);
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

pub(crate) fn event(now: &Snapshot, kind: &str, phase: &str) -> Map<String, Value> {
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
/// other that no stations walk about is a loop, told once until there were fewer for as long: a worker may have published nothing
/// for a sample.
fn moves(looping: &mut Looping, before: &Snapshot, now: &Snapshot, worker: usize, log: &mut Log) {
    let (Some(was), is) = (before.now.loops.get(worker), &now.now.loops[worker]) else { return };
    let moves = is.fdb_moved.saturating_sub(was.fdb_moved);
    let LoopAlarm { moves: many, time } = now.info.loop_alarm;
    let long = time.div_ceil(SAMPLE.as_nanos() as u64) as u32;
    let on = many > 0 && moves >= many;
    let count = |on: bool, samples: u32| if on { samples.saturating_add(1) } else { 0 };
    (looping.moving, looping.calm) = (count(on, looping.moving), count(!on, looping.calm));
    let was_told = looping.told;
    looping.told = if was_told { looping.calm < long } else { looping.moving >= long };
    if moves == 0 && looping.told == was_told {
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
    let edge = |phase: &str, remedy: Option<&str>| {
        let fields = [("event", Some("loop")), ("phase", Some(phase)), ("remedy", remedy)];
        let fields = fields.into_iter().filter_map(|(name, value)| Some((name.to_owned(), json!(value?))));
        body.clone().into_iter().chain(fields).collect::<Map<_, _>>()
    };
    match (was_told, looping.told) {
        (false, true) => log.push(edge(
            "alarm",
            Some("the ports are joined beyond the switch: pull a cable, or run STP on that bridge"),
        )),
        (true, false) => log.push(edge("end", None)),
        _ => {}
    }
    if moves > 0 {
        log.push(body);
    }
}

/// Stations that are not learned: frames to them go to every port. From the first one until there was none for a while.
fn refused(
    (episode, last): &mut (Option<Episode>, Option<u64>),
    before: &Snapshot,
    now: &Snapshot,
    worker: usize,
    log: &mut Log,
) {
    let (Some(was), is) = (before.now.loops.get(worker), &now.now.loops[worker]) else { return };
    let grown = is.fdb_refused > was.fdb_refused;
    if grown {
        *last = Some(now.uptime_ms);
    }
    let begun = Episode::new(now, was.fdb_refused, 0);
    let Some((phase, e)) = step(episode, begun, (grown, is_quiet(*last, now)), now) else { return };
    let mut body = event(now, "fdb_refused", phase);
    body.insert("lcore".into(), json!(now.info.lcores.get(worker)));
    body.insert("since_unix_ms".into(), json!(e.since));
    body.insert("frames".into(), json!(is.fdb_refused - e.count));
    body.insert("entries".into(), json!(is.fdb_entries));
    body.insert("capacity".into(), json!(now.info.fdb_capacity));
    if phase == "start" {
        let full = is.fdb_entries >= u64::from(now.info.fdb_capacity);
        let key = if full {
            "[fdb] capacity"
        } else {
            "learn_limit of the ports that are at theirs, or [fdb] capacity"
        };
        body.insert(
            "remedy".into(),
            json!(format!("raise {key}: frames to stations that are not learned are flooded")),
        );
    }
    log.push(body);
}

/// Nothing has happened for a while: never, or long ago.
fn is_quiet(last: Option<u64>, now: &Snapshot) -> bool {
    last.is_none_or(|last| now.uptime_ms.saturating_sub(last) > UPDATE)
}

/// Frames lost for one reason: an episode, and an alarm once one of them was lossless.
#[derive(Clone, Debug, Default)]
struct Loss {
    episode: Option<Episode>,
    is_alarm: bool,
    /// When frames were last lost, as [`Snapshot::uptime_ms`].
    last: Option<u64>,
    /// Frames since start at the last look that told of them.
    told: u64,
    /// Lossless frames since start when the episode began.
    lossless: u64,
}

impl Loss {
    /// How many lossless frames had been lost when the episode began: `before`, where none is under way.
    fn lossless(&mut self, before: u64) -> u64 {
        if self.episode.is_none() {
            self.lossless = before;
        }
        self.lossless
    }

    /// What is to be told now that since start not `frames.0` but `frames.1` were lost, which begins an episode or not, and of which
    /// episode; `alarm`: lossless ones are among them.
    fn step(
        &mut self,
        now: &Snapshot,
        frames: (u64, u64),
        (begins, alarm): (bool, bool),
    ) -> Option<(&'static str, Episode)> {
        if frames.1 > frames.0 {
            self.last = Some(now.uptime_ms);
        }
        let rises = alarm && !self.is_alarm;
        self.is_alarm |= alarm;
        let told = match &mut self.episode {
            Some(e) if rises => {
                e.told = now.uptime_ms;
                Some(("alarm", *e))
            }
            episode => {
                let begun = Episode::new(now, frames.0, 0);
                let told = step(episode, begun, (begins, is_quiet(self.last, now)), now);
                told.map(|(phase, e)| (if rises { "alarm" } else { phase }, e))
            }
        };
        self.is_alarm &= self.episode.is_some();
        // What was lost is told; that nothing more was is no news before it is the end.
        let told = told.filter(|(phase, _)| *phase != "update" || self.told != frames.1);
        if told.is_some() {
            self.told = frames.1;
        }
        told
    }
}

fn drops(losses: &mut [Loss; DROP_REASONS], before: &Snapshot, now: &Snapshot, port: usize, log: &mut Log) {
    let (is, was) = (&now.now.ports[port].stats, &before.now.ports[port].stats);
    for (reason, loss) in DropReason::ALL.iter().zip(losses) {
        let of = |reasons: &Reasons| reasons.0[*reason as usize];
        // What the watchdog does to lossless frames is told by its storms, and what an operator's order costs is no alarm.
        let alarm = of(&is.lossless) > of(&was.lossless) && reason.lossless() == LosslessLoss::Alarm;
        // What limits on flooding cost has an event of its own.
        let elsewhere = FloodKind::ALL.iter().any(|kind| kind.reason() == *reason);
        let frames = (of(&was.drops), of(&is.drops));
        let begins = alarm || !elsewhere && frames.1 > frames.0;
        let lossless = loss.lossless(of(&was.lossless));
        let Some((phase, e)) = loss.step(now, frames, (begins, alarm)) else { continue };
        let mut body = at_port(now, "drops", phase, port);
        body.insert("reason".into(), json!(reason.name()));
        body.insert("since_unix_ms".into(), json!(e.since));
        body.insert("frames".into(), json!(frames.1.saturating_sub(e.count)));
        body.insert("lossless".into(), json!(of(&is.lossless).saturating_sub(lossless)));
        if phase != "end" {
            body.insert("remedy".into(), json!(reason.remedy()));
            add_flow(now, port, Cause::Drop, |place| place.reason == Some(*reason), &mut body);
        }
        log.push(body);
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
    let quiet = is_quiet(now.last_drop[port][reason as usize], now);
    let begun = Episode::new(now, lost(before), 0);
    let Some((phase, e)) = step(episode, begun, (lost(now) > lost(before), quiet), now) else { return };
    let mut body = at_port(now, "rate_limit", phase, port);
    let limit = now.info.ports[port].storm_control.and_then(|limits| limits.limit(kind));
    body.insert("kind".into(), json!(kind.word()));
    body.insert("limit".into(), json!(limit.map(|limit| show_flood_limit(&limit))));
    body.insert("since_unix_ms".into(), json!(e.since));
    body.insert("frames".into(), json!(lost(now).saturating_sub(e.count)));
    if phase == "start" {
        body.insert("remedy".into(), json!(reason.remedy()));
    }
    log.push(body);
}

/// Frames lost before the switch saw them: the receive ring was full, or there was no memory to receive into (I4); and
/// those that the driver took and did not send.
fn overrun(losses: &mut [Loss; 2], before: &Snapshot, now: &Snapshot, port: usize, log: &mut Log) {
    // What is lost here has no priority yet.
    let lossless = now.info.ports[port].lossless != 0;
    let received: (fn(&NicStats) -> u64, _, _) = (
        NicStats::rx_lost,
        "nic.rx_ring",
        "its lcore came too late: fewer ports for it, or a longer rx ring",
    );
    let sent: (fn(&NicStats) -> u64, _, _) = (
        |nic| nic.tx_lost,
        "nic.tx",
        "the device did not send them: longer than its MTU, or its link went down",
    );
    for (loss, (count, reason, remedy)) in losses.iter_mut().zip([received, sent]) {
        let of = |s: &Snapshot| count(&s.now.ports[port].nic);
        let frames = (of(before), of(now));
        let more = frames.1 > frames.0;
        let Some((phase, e)) = loss.step(now, frames, (more, more && lossless)) else { continue };
        let mut body = at_port(now, "drops", phase, port);
        body.insert("reason".into(), json!(reason));
        body.insert("since_unix_ms".into(), json!(e.since));
        body.insert("frames".into(), json!(frames.1.saturating_sub(e.count)));
        body.insert("possibly_lossless".into(), json!(lossless));
        if phase != "end" {
            body.insert("remedy".into(), json!(remedy));
        }
        log.push(body);
    }
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
    let queue = now.info.ports[at.0].pfc_to_queue[p];
    let rx = Change {
        // A pause that lasts while its worker is off its core adds nothing to what it has published.
        on: lane.rx_pause.is_some() && new.paused_queues >> queue & 1 == 1,
        count: (old.rx_pauses[p], new.rx_pauses[p]),
        ns: (old.rx_paused_ns[p], new.rx_paused_ns[p]),
    };
    for (direction, change, episode) in [("tx", tx, &mut lane.tx_pause), ("rx", rx, &mut lane.rx_pause)] {
        let active = change.on || change.count.1 > change.count.0 || change.ns.1 > change.ns.0;
        let begun = Episode::new(now, change.count.0, change.ns.0);
        let Some((phase, e)) = step(episode, begun, (active, !active), now) else { continue };
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
    let begun = Episode { peak: high, ..Episode::new(now, 0, 0) };
    if let Some(e) = &mut lane.burst {
        e.peak = e.peak.max(high);
    }
    let told = step(&mut lane.burst, begun, (high > threshold, !over), now);
    // One that nothing is left of ends in the sample that tells of it.
    let is_over = told.is_some_and(|(phase, _)| phase == "start") && !over;
    let ended = if is_over { step(&mut lane.burst, begun, (false, true), now) } else { None };
    for (phase, e) in told.into_iter().chain(ended) {
        let mut body = at_lane(now, "burst", phase, at);
        body.insert("since_unix_ms".into(), json!(e.since));
        body.insert("depth_bytes".into(), json!(depth));
        body.insert("peak_bytes".into(), json!(e.peak));
        body.insert("threshold_bytes".into(), json!(threshold));
        add_flow(now, at.0, Cause::Depth, |place| usize::from(place.priority) == at.1, &mut body);
        log.push(body);
    }
}

#[cfg(test)]
#[path = "events_tests.rs"]
mod tests;
