//! Following frames: the order for it, and what is told of each frame, put together from what several workers say.

mod engine;

use super::{Fault, Refusal, verdict};
use crate::api::documents::{
    FrameClass, WatchLine, WatchedArrival, WatchedGroup, WatchedHeaders, WatchedQueue,
};
use crate::snapshot::SwitchInfo;
use data_encoding::HEXLOWER;
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;
use weir_dataplane::fdb::Lookup;
use weir_dataplane::parse::{EcnPlace, Kind};
use weir_dataplane::storm_control::FloodKind;
use weir_dataplane::switch::{Arrival, Filter, Key, Record, TapReader, What, kind_word};
use weir_dataplane::types::{Mac, PortId};
use weir_inc::trace::{FollowerReader, Record as EngineRecord};
use weir_layout::{Grid, counted, time};

/// Frames at most.
pub const MOST_FRAMES: u64 = 1_000_000;

/// Bytes of a frame at most: the longest there are.
pub const MOST_BYTES: u64 = 16_384;

/// Longest time.
pub const LONGEST: Duration = Duration::from_secs(24 * 3600);

/// An order to follow frames.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Watch {
    /// Port on which they arrive, or at which they are lost.
    pub port: String,
    /// Which.
    pub filter: Filter,
    /// How many.
    pub count: u64,
    /// Bytes kept of each.
    pub bytes: u32,
    /// Those that are lost, wherever they came from.
    pub drops: bool,
    /// Only those that this switch marks are told, and count: a frame is told when it has left.
    pub marked: bool,
    /// What engines do with them is told, too.
    pub engines: bool,
    /// Most time it may take.
    pub time: Duration,
}

/// Readers of the taps of all workers.
#[derive(Debug)]
pub struct Watching {
    /// One per worker.
    pub readers: Vec<TapReader>,
    /// One per engine that is asked, too.
    pub engines: Vec<FollowerReader>,
    /// The same instant as ns since 1970 and by the clock of the workers.
    pub anchor: (u64, u64),
    /// Frames are followed while this lives, wherever it goes: whoever asked may be gone before the answer.
    pub held: Arc<()>,
}

impl Watch {
    /// From the body of a request.
    ///
    /// # Errors
    /// 400 with the path of the fault, a JSON pointer; the place in the text if it is no JSON at all.
    pub fn from_json(text: &[u8]) -> Result<Self, Refusal> {
        let mut body: Value = serde_json::from_slice(text).map_err(|error| Refusal {
            status: 400,
            detail: "the body is not JSON".into(),
            faults: vec![Fault {
                path: String::new(),
                line: Some(error.line()),
                column: Some(error.column()),
                detail: error.to_string(),
                ..Fault::default()
            }],
        })?;
        super::integers(&mut body);
        let fields = Fields::of(
            &body,
            "",
            &["port", "filter", "count", "bytes", "drops", "marked", "engines", "timeout_ms"],
        )?;
        let nothing = json!({});
        let inner = fields.value("filter").unwrap_or(&nothing);
        let inner =
            Fields::of(inner, "/filter", &["dst", "src", "ethertype", "dscp", "udp_port", "ip", "qp"])?;
        let small = |name: &str, most: u64| inner.number(name, most).map(|n| n.map(|n| n as u16));
        let port = fields.text("port")?.ok_or_else(|| fields.wrong("port", "the name of a port"))?;
        let flag = |name: &str| fields.flag(name).map(Option::unwrap_or_default);
        let (drops, marked) = (flag("drops")?, flag("marked")?);
        if drops && marked {
            let remedy = "leave out `drops` or `marked`";
            return Err(Refusal::with_remedy(400, "/marked: what is lost is not marked", "/marked", remedy));
        }
        let count = fields.number("count", MOST_FRAMES)?.unwrap_or(10);
        if count == 0 {
            return Err(fields.wrong("count", "an integer from 1 on"));
        }
        Ok(Self {
            port: port.to_owned(),
            filter: Filter {
                dst: inner.mac("dst")?,
                src: inner.mac("src")?,
                ethertype: small("ethertype", 0xffff)?,
                dscp: small("dscp", 63)?.map(|n| n as u8),
                udp_port: small("udp_port", 0xffff)?,
                ip: inner.ip("ip")?,
                qp: inner.number("qp", 0xff_ffff)?.map(|n| n as u32),
            },
            count,
            bytes: fields.number("bytes", MOST_BYTES)?.unwrap_or(128) as u32,
            drops,
            marked,
            engines: fields.flag("engines")?.unwrap_or(true),
            time: fields
                .number("timeout_ms", LONGEST.as_millis() as u64)?
                .map_or(Duration::from_secs(60), Duration::from_millis),
        })
    }

    /// Frames that have to be followed to find as many as are asked for, at most.
    pub fn followed(&self) -> u64 {
        if self.marked { MOST_FRAMES } else { self.count }
    }

    /// As [`Watch::from_json`] reads it.
    pub fn json(&self) -> Value {
        let f = &self.filter;
        let mut filter = Map::new();
        let mut add =
            |name: &str, value: Option<Value>| drop(value.map(|v| filter.insert(name.to_owned(), v)));
        add("dst", f.dst.map(|mac| json!(mac.to_string())));
        add("src", f.src.map(|mac| json!(mac.to_string())));
        add("ethertype", f.ethertype.map(|n| json!(n)));
        add("dscp", f.dscp.map(|n| json!(n)));
        add("udp_port", f.udp_port.map(|n| json!(n)));
        add("ip", f.ip.map(|ip| json!(ip.to_string())));
        add("qp", f.qp.map(|n| json!(n)));
        json!({
            "port": self.port,
            "filter": filter,
            "count": self.count,
            "bytes": self.bytes,
            "drops": self.drops,
            "marked": self.marked,
            "engines": self.engines,
            "timeout_ms": self.time.as_millis() as u64,
        })
    }
}

/// The fields of an object, and where it stands.
struct Fields<'a> {
    object: &'a Map<String, Value>,
    path: &'a str,
}

impl<'a> Fields<'a> {
    fn of(value: &'a Value, path: &'a str, known: &[&str]) -> Result<Self, Refusal> {
        let Some(object) = value.as_object() else { return Err(bad(path, "an object")) };
        if let Some(unknown) = object.keys().find(|key| !known.contains(&key.as_str())) {
            return Err(bad(&format!("{path}/{unknown}"), &format!("one of {}", known.join(", "))));
        }
        Ok(Self { object, path })
    }

    fn value(&self, name: &str) -> Option<&'a Value> {
        self.object.get(name).filter(|value| !value.is_null())
    }

    fn wrong(&self, name: &str, wanted: &str) -> Refusal {
        bad(&format!("{}/{name}", self.path), wanted)
    }

    fn text(&self, name: &str) -> Result<Option<&'a str>, Refusal> {
        let text = |value: &'a Value| value.as_str().ok_or_else(|| self.wrong(name, "a text"));
        self.value(name).map(text).transpose()
    }

    fn number(&self, name: &str, most: u64) -> Result<Option<u64>, Refusal> {
        let number = |value: &Value| {
            let fits = value.as_u64().filter(|n| *n <= most);
            fits.ok_or_else(|| self.wrong(name, &format!("an integer from 0 to {most}")))
        };
        self.value(name).map(number).transpose()
    }

    fn flag(&self, name: &str) -> Result<Option<bool>, Refusal> {
        let flag = |value: &Value| value.as_bool().ok_or_else(|| self.wrong(name, "true or false"));
        self.value(name).map(flag).transpose()
    }

    fn ip(&self, name: &str) -> Result<Option<IpAddr>, Refusal> {
        let address = |text: &str| text.parse().map_err(|_| self.wrong(name, "an IP address"));
        self.text(name)?.map(address).transpose()
    }

    fn mac(&self, name: &str) -> Result<Option<Mac>, Refusal> {
        self.text(name)?
            .map(|text| {
                text.parse().map_err(|_: String| self.wrong(name, "a MAC address, as 02:00:00:00:00:01"))
            })
            .transpose()
    }
}

/// What stands at `path` is not what is wanted there.
fn bad(path: &str, wanted: &str) -> Refusal {
    Refusal::with_remedy(400, format!("{path}: {wanted} is wanted here"), path, &format!("write {wanted}"))
}

/// A frame some of whose copies are still on their way.
#[derive(Debug)]
struct Open {
    number: u64,
    copies: u32,
    /// Copies that went to engines, of which more is to be told.
    at_engines: u32,
}

impl Open {
    fn is_over(&self) -> bool {
        (self.copies, self.at_engines) == (0, 0)
    }
}

/// Puts together what workers say of the same frame.
#[derive(Debug)]
pub struct Joiner {
    watching: Watching,
    count: u64,
    frames: u64,
    open: BTreeMap<Key, Open>,
    /// Told by one worker before another told of the arrival; or of a frame nobody follows. With an age.
    early: Vec<(Record, u32)>,
    /// The same of engines, with their port.
    early_engines: Vec<(PortId, EngineRecord, u32)>,
    /// Where only frames that were marked are told: what is known of each that is still on its way, and how many were told.
    marked: Option<(BTreeMap<u64, Vec<WatchLine>>, u64)>,
    /// Records without room that were told of.
    missed: u64,
}

/// Looks after which a record without a frame is that of a frame nobody follows.
const EARLY: u32 = 4;

impl Joiner {
    /// For this many frames.
    pub fn new(watching: Watching, count: u64) -> Self {
        Self {
            watching,
            count,
            frames: 0,
            open: BTreeMap::new(),
            early: Vec::new(),
            early_engines: Vec::new(),
            marked: None,
            missed: 0,
        }
    }

    /// The same, of frames that this switch marks.
    #[must_use]
    pub fn only_marked(self, only: bool) -> Self {
        Self { marked: only.then(Default::default), ..self }
    }

    /// All workers follow frames.
    pub fn is_armed(&self) -> bool {
        self.watching.readers.iter().all(TapReader::is_armed)
    }

    /// The first line, once they do: two clocks at one instant.
    pub fn head(&self) -> WatchLine {
        let (unix_ns, at_ns) = self.watching.anchor;
        WatchLine::Armed { unix_ns: unix_ns.to_string(), at_ns }
    }

    /// The last line.
    pub fn foot(&self, why: &str) -> WatchLine {
        let missed = self.missed();
        let frames = self.marked.as_ref().map_or(self.frames, |(_, told)| *told);
        let on_their_way = if self.marked.is_some() { 0 } else { self.open.len() };
        WatchLine::End { why: why.to_owned(), frames, on_their_way, missed }
    }

    /// Records that found no room.
    fn missed(&self) -> u64 {
        let engines: u64 = self.watching.engines.iter().map(FollowerReader::lost).sum();
        self.watching.readers.iter().map(TapReader::lost).sum::<u64>() + engines
    }

    /// All frames that were asked for have come and gone.
    pub fn is_done(&self) -> bool {
        if let Some((_, told)) = &self.marked {
            return *told >= self.count;
        }
        self.frames >= self.count && self.open.is_empty()
    }

    /// What has happened since last asked.
    pub fn poll(&mut self, info: &SwitchInfo) -> Vec<WatchLine> {
        // Engines first: that a frame has left for one is told before what that does with it, by the same worker.
        let mut engines: Vec<(PortId, EngineRecord, u32)> = std::mem::take(&mut self.early_engines);
        for reader in &mut self.watching.engines {
            let port = reader.port;
            engines.extend(reader.map(|record| (port, record, 0)));
        }
        let mut records: Vec<(Record, Vec<u8>)> = Vec::new();
        for reader in &mut self.watching.readers {
            records.extend(reader);
        }
        // Arrivals first: another worker may be ahead of the one that received the frame.
        records.sort_by_key(|(record, _)| !matches!(record.what, What::Arrived(_) | What::Lost { .. }));
        let mut told = Vec::new();
        let mut later: Vec<(Record, u32)> = std::mem::take(&mut self.early);
        for (record, bytes) in &records {
            match &record.what {
                What::Arrived(arrival) => {
                    self.frames += 1;
                    if arrival.copies > 0 {
                        let open = Open { number: self.frames, copies: arrival.copies, at_engines: 0 };
                        self.open.insert(record.key, open);
                    }
                    let frame = arrived(info, self.frames, record, arrival, bytes);
                    told.push(WatchLine::Arrived(Box::new(frame)));
                }
                What::Lost { .. } => {
                    self.frames += 1;
                    told.extend(departed(info, record, bytes, self.frames));
                }
                What::Left { .. } | What::Flushed { .. } => later.push((*record, 0)),
            }
        }
        for (record, age) in later {
            match self.open.get_mut(&record.key) {
                Some(open) => {
                    open.copies -= 1;
                    let number = open.number;
                    if let What::Left { out, .. } = record.what {
                        let told = self.watching.engines.iter().any(|engine| engine.port == out);
                        open.at_engines += u32::from(told);
                    }
                    if open.is_over() {
                        self.open.remove(&record.key);
                    }
                    told.extend(departed(info, &record, &[], number));
                }
                None if age < EARLY => self.early.push((record, age + 1)),
                None => {}
            }
        }
        for (port, record, age) in engines {
            match self.open.get_mut(&record.key).filter(|open| open.at_engines > 0) {
                Some(open) => {
                    let number = open.number;
                    open.at_engines -= u32::from(record.last);
                    if open.is_over() {
                        self.open.remove(&record.key);
                    }
                    let line = engine::told(number, name(info, port), &record);
                    told.push(WatchLine::Engine(Box::new(line)));
                }
                None if age < EARLY => self.early_engines.push((port, record, age + 1)),
                None => {}
            }
        }
        let mut told = self.choose(told);
        let missed = self.missed();
        if missed > std::mem::replace(&mut self.missed, missed) {
            told.push(WatchLine::Missed { missed });
        }
        told
    }

    /// Of frames that are told whole, those that were marked, numbered anew.
    fn choose(&mut self, lines: Vec<WatchLine>) -> Vec<WatchLine> {
        let Self { marked: Some((stories, told)), open, count, .. } = self else { return lines };
        for mut line in lines {
            if let Some(number) = frame_of(&mut line).copied() {
                stories.entry(number).or_default().push(line);
            }
        }
        let under_way: BTreeSet<u64> = open.values().map(|open| open.number).collect();
        let whole: Vec<u64> = stories.keys().copied().filter(|number| !under_way.contains(number)).collect();
        let mut chosen = Vec::new();
        for mut story in whole.iter().filter_map(|number| stories.remove(number)) {
            if *told < *count && story.iter().any(|line| matches!(line, WatchLine::Left { marked: true, .. }))
            {
                *told += 1;
                story.iter_mut().filter_map(frame_of).for_each(|frame| *frame = *told);
                chosen.extend(story);
            }
        }
        chosen
    }
}

/// The number of the frame a line is about.
fn frame_of(line: &mut WatchLine) -> Option<&mut u64> {
    match line {
        WatchLine::Arrived(arrival) => Some(&mut arrival.frame),
        WatchLine::Engine(engine) => Some(&mut engine.frame),
        WatchLine::Left { frame, .. } | WatchLine::Flushed { frame, .. } | WatchLine::Lost { frame, .. } => {
            Some(frame)
        }
        WatchLine::Armed { .. } | WatchLine::Missed { .. } | WatchLine::End { .. } => None,
    }
}

/// What is told of a frame that went or was lost; nothing of one that has arrived.
fn departed(info: &SwitchInfo, record: &Record, bytes: &[u8], frame: u64) -> Option<WatchLine> {
    let residence_ns = record.at.saturating_sub(record.key.rx_ns);
    let at_ns = record.at;
    Some(match record.what {
        What::Left { out, queue, taken_at, depth, marked } => WatchLine::Left {
            frame,
            at_ns,
            port: name(info, out),
            queue,
            queued_ns: taken_at.saturating_sub(record.key.rx_ns),
            residence_ns,
            depth_bytes: depth,
            marked,
        },
        What::Flushed { out, reason } => WatchLine::Flushed {
            frame,
            at_ns,
            port: name(info, out),
            residence_ns,
            stage: reason.stage().to_string(),
            reason: reason.name().to_string(),
            remedy: reason.remedy().to_string(),
        },
        What::Lost { reason } => WatchLine::Lost {
            frame,
            at_ns,
            port: name(info, PortId(record.key.in_port)),
            len_bytes: record.len,
            bytes: HEXLOWER.encode(bytes),
            stage: reason.stage().to_string(),
            reason: reason.name().to_string(),
            remedy: reason.remedy().to_string(),
        },
        What::Arrived(_) => return None,
    })
}

fn name(info: &SwitchInfo, port: PortId) -> String {
    info.ports.get(port.index()).map_or_else(|| port.0.to_string(), |port| port.name.clone())
}

fn arrived(info: &SwitchInfo, frame: u64, record: &Record, a: &Arrival, bytes: &[u8]) -> WatchedArrival {
    let mac =
        |at: usize| bytes.get(at..at + 6).map(|b| Mac([b[0], b[1], b[2], b[3], b[4], b[5]]).to_string());
    let lookup = match a.lookup {
        Lookup::Port(out) => format!("port {}", name(info, out)),
        Lookup::Group(group) => format!("group {}", group.0),
        Lookup::Miss if a.parsed.kind == Kind::Reserved => "link-local".to_owned(),
        Lookup::Miss if a.parsed.group => FloodKind::of_group(a.parsed.dst_key).word().to_owned(),
        Lookup::Miss => "unknown".to_owned(),
    };
    let [before, after] = &a.pg;
    let verdict = match a.lost {
        Some(_) if a.copies == 0 => verdict::DROPPED,
        Some(_) => verdict::SOME_DROPPED,
        None if a.copies == 0 => verdict::CONSUMED,
        None if after.xoff && !before.xoff => verdict::XOFF_REACHED,
        None if after.headroom > before.headroom => verdict::INTO_HEADROOM,
        None => verdict::ADMITTED,
    };
    let limit = |bytes: u64| (bytes < u64::MAX >> 3).then_some(bytes);
    let p = &a.parsed;
    WatchedArrival {
        frame,
        at_ns: record.at,
        port: name(info, PortId(record.key.in_port)),
        len_bytes: record.len,
        bytes: HEXLOWER.encode(bytes),
        parsed: WatchedHeaders {
            dst: mac(0),
            src: mac(6),
            pcp: p.pcp,
            dscp: p.dscp,
            tc: p.tc,
            ecn: (p.ecn.place != EcnPlace::None).then_some(p.ecn.codepoint),
            kind: kind_word(p.kind).to_owned(),
            malformed_l3: p.malformed_l3,
        },
        vlan: a.vlan.map(|vlan| vlan.vid),
        class: FrameClass { tc: a.class.tc, pg: a.class.pg, queue: a.class.queue },
        lookup,
        charge_bytes: a.charge,
        group: WatchedGroup {
            control_pool: a.control_pool,
            used_bytes: [before.used, after.used],
            shared_bytes: [before.shared, after.shared],
            headroom_bytes: [before.headroom, after.headroom],
            limit_bytes: limit(before.limit),
            xoff: [before.xoff, after.xoff],
        },
        queue: a.queue.map(|[before, after]| WatchedQueue {
            used_bytes: [before.used, after.used],
            limit_bytes: limit(before.limit),
        }),
        verdict: verdict.to_owned(),
        stage: a.lost.map(|reason| reason.stage().to_string()),
        reason: a.lost.map(|reason| reason.name().to_string()),
        remedy: a.lost.map(|reason| reason.remedy().to_string()),
        copies: a.copies,
        copies_aside: a.aside,
    }
}

/// Bytes written as hexadecimal digits; `None`: they are not.
pub fn unhex(text: &str) -> Option<Vec<u8>> {
    HEXLOWER.decode(text.as_bytes()).ok()
}

/// An event for people: one line or several, each with the number of the frame.
pub fn lines(event: &WatchLine) -> Vec<String> {
    let (frame, stages) = match event {
        WatchLine::Armed { .. } => return Vec::new(),
        WatchLine::Arrived(arrival) => (arrival.frame, story_of_arrival(arrival)),
        WatchLine::Left { frame, .. } => (*frame, vec![("left", departure(event))]),
        WatchLine::Engine(told) => (told.frame, engine::story(told).into_iter().collect()),
        WatchLine::Flushed { frame, port, reason, remedy, .. } => {
            (*frame, vec![("FLUSHED", format!("at {port}: {reason}: {remedy}"))])
        }
        WatchLine::Lost { frame, port, reason, remedy, len_bytes, .. } => {
            (*frame, vec![("LOST", format!("at {port}: {reason}: {remedy}, {len_bytes} bytes"))])
        }
        WatchLine::Missed { missed } => return vec![format!("{} found no room", counted(*missed, "record"))],
        WatchLine::End { why, frames, on_their_way, missed } => {
            return vec![format!(
                "{why}: {}, {on_their_way} still on their way, {} found no room",
                counted(*frames, "frame"),
                counted(*missed, "record")
            )];
        }
    };
    // Lines of one frame come with those of others between them.
    let mut grid = Grid::new(&["<frame", "<stage", "<text"]).at_least(&[4, 7]);
    stages.into_iter().for_each(|(stage, text)| grid.push([format!("#{frame}"), stage.to_owned(), text]));
    grid.body().lines().map(str::to_owned).collect()
}

/// How a frame left; empty: this is about something else.
pub(super) fn departure(event: &WatchLine) -> String {
    let WatchLine::Left { port, queue, queued_ns, residence_ns, depth_bytes, marked, .. } = event else {
        return String::new();
    };
    let marked = if *marked { ", marked CE" } else { "" };
    let [residence, queued] = [residence_ns, queued_ns].map(|ns| time(*ns as f64, 3));
    format!("{port} queue {queue} after {residence} ({queued} queued), {depth_bytes} bytes behind it{marked}")
}

fn story_of_arrival(arrival: &WatchedArrival) -> Vec<(&'static str, String)> {
    let p = &arrival.parsed;
    let address = |address: &Option<String>| address.clone().unwrap_or_default();
    let mut headers = format!("{} -> {}", address(&p.src), address(&p.dst));
    for (key, value) in [("pcp", p.pcp), ("dscp", p.dscp), ("tc", p.tc), ("ecn", p.ecn)] {
        headers.extend(value.map(|n| format!(", {key} {n}")));
    }
    headers.extend(arrival.vlan.map(|vid| format!(", VLAN {vid}")));
    headers += &format!(", {}", p.kind);
    let (FrameClass { tc, pg, queue }, g, q) = (arrival.class, &arrival.group, &arrival.queue);
    let moved = |[before, after]: [u64; 2]| format!("{before} -> {after}");
    let limit = |limit: Option<u64>| limit.map_or("no limit".to_owned(), |n| n.to_string());
    let reserved = [0, 1].map(|at| g.used_bytes[at] - g.shared_bytes[at]);
    let group = match g.control_pool {
        true => format!("the control pool {}", moved(g.used_bytes)),
        false => {
            let (reserved, shared) = (moved(reserved), moved(g.shared_bytes));
            let (limit, headroom) = (limit(g.limit_bytes), moved(g.headroom_bytes));
            format!("reserved {reserved}, shared {shared} of {limit}, headroom {headroom}")
        }
    };
    let mut stages = vec![
        ("arrived", format!("{}, {} bytes", arrival.port, arrival.len_bytes)),
        ("parsed", headers),
        ("class", format!("tc {tc}, priority group {pg}, queue {queue}")),
        ("lookup", arrival.lookup.clone()),
        ("group", group),
    ];
    if arrival.lookup.starts_with("port") {
        let told = q.as_ref().map(|q| format!("{} of {}", moved(q.used_bytes), limit(q.limit_bytes)));
        stages.push(("queue", told.unwrap_or_else(|| "another lcore's: known at departure".to_owned())));
    }
    stages.push(match &arrival.reason {
        Some(reason) => ("DROPPED", format!("{reason}: {}", arrival.remedy.as_deref().unwrap_or_default())),
        None => {
            let copies =
                if arrival.copies > 1 { format!(" for {} copies", arrival.copies) } else { String::new() };
            ("verdict", format!("{}, charged {}{copies}", arrival.verdict, arrival.charge_bytes))
        }
    });
    if arrival.copies_aside > 0 {
        let aside = arrival.copies_aside;
        stages
            .push(("aside", format!("{aside} more copies with another tag or none, which are not followed")));
    }
    stages
}

#[cfg(test)]
#[path = "watch_tests.rs"]
mod tests;
