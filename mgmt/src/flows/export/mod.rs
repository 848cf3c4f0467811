//! Flows to a collector: IPFIX (RFC 7011) over UDP, from the management thread.
//!
//! What is sent is what [`super::behind`] adds up for `weir show flows`, over the whole seconds since the export before. Nothing waits for
//! the collector: what the socket does not take is kept until the next export and then given up, and all that goes wrong
//! is counted.

mod elements;
mod message;
#[cfg(test)]
mod tests;

use super::{Seen, least};
use crate::events::{self, Log};
use crate::snapshot::Snapshot;
use elements::{Family, NAMES, OWN, TOTALS, TYPES, flow_fields, flow_template};
use message::{Message, Speaker, Writer, text};
use serde_json::{Map, json};
use std::collections::VecDeque;
use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};
use weir_config::FlowExport;
use weir_dataplane::drops::Side;
use weir_dataplane::flows::{Addresses, Cause, Counted, EPOCH, FlowId, PAUSE_LOOKS};

/// Exports without an error after which the collector is taken to be there again: an error of UDP is told with the message
/// behind the one that it is of.
const WELL: u32 = 3;

/// How the collector is told, and what became of it. Counted since the switch was started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExportReading {
    /// To whom, and how.
    pub settings: FlowExport,
    /// Messages given to the network.
    pub messages: u64,
    /// Data records in them.
    pub records: u64,
    /// Messages that could not be sent.
    pub failed: u64,
    /// Data records in these.
    pub lost: u64,
    /// Seconds of flows that passed before management looked.
    pub missed_seconds: u64,
    /// Why a message could not be sent last; `None`: all is well.
    pub error: Option<String>,
}

/// What of one port is to be told.
#[derive(Debug, Default)]
struct Pending {
    seen: Seen,
    /// The first second of it; `seen` has the last.
    first: u64,
    /// The last second that was ever taken.
    last: u64,
}

impl Pending {
    /// Takes a second; how many were missed before it.
    fn take(&mut self, second: &Seen) -> u64 {
        if second.number <= self.last {
            return 0;
        }
        let missed = if self.last == 0 { 0 } else { second.number - self.last - 1 };
        if self.seen.seconds == 0 {
            self.first = second.number;
        }
        self.seen.add(second);
        self.last = second.number;
        missed
    }
}

/// Tells a collector.
#[derive(Debug, Default)]
pub struct Exporter {
    session: Option<Session>,
    told: Option<ExportReading>,
    ports: Vec<Pending>,
}

/// With one collector, in one way.
#[derive(Debug)]
struct Session {
    settings: FlowExport,
    /// `None`: it could not be had, and is tried again.
    socket: Option<UdpSocket>,
    /// When the next export is due, as [`Snapshot::uptime_ms`].
    due: u64,
    sequence: u32,
    waiting: VecDeque<Message>,
    /// Exports without an error since the last one.
    well: u32,
    failed: bool,
}

impl Session {
    fn new(settings: FlowExport, now: u64) -> Self {
        let due = now + settings.interval / 1_000_000;
        Self { settings, socket: None, due, sequence: 0, waiting: VecDeque::new(), well: 0, failed: false }
    }

    fn send(&mut self, told: &mut ExportReading) {
        if self.waiting.is_empty() {
            return;
        }
        if self.socket.is_none() {
            match connect(&self.settings) {
                Ok(socket) => self.socket = Some(socket),
                Err(error) => return self.give_up(&error.to_string(), told),
            }
        }
        let Some(socket) = &self.socket else { return };
        while let Some(message) = self.waiting.front() {
            match socket.send(&message.bytes) {
                Ok(_) => {
                    told.messages += 1;
                    told.records += u64::from(message.records);
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) => {
                    told.failed += 1;
                    told.lost += u64::from(message.records);
                    told.error = Some(error.to_string());
                    self.failed = true;
                }
            }
            self.waiting.pop_front();
        }
    }

    /// What waits is lost.
    fn give_up(&mut self, why: &str, told: &mut ExportReading) {
        for message in self.waiting.drain(..) {
            told.failed += 1;
            told.lost += u64::from(message.records);
            told.error = Some(why.to_owned());
            self.failed = true;
        }
    }

    /// An export is over.
    fn judge(&mut self, told: &mut ExportReading) {
        self.well = if std::mem::take(&mut self.failed) { 0 } else { self.well.saturating_add(1) };
        if self.well >= WELL {
            told.error = None;
        }
    }
}

fn connect(settings: &FlowExport) -> std::io::Result<UdpSocket> {
    let any: IpAddr = match settings.collector {
        std::net::SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        std::net::SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let socket = UdpSocket::bind((any, 0))?;
    socket.set_nonblocking(true)?;
    socket.connect(settings.collector)?;
    Ok(socket)
}

impl Exporter {
    /// Takes a look at the switch into account, and sends what is due. What has been told so far goes into the snapshot.
    pub fn observe(&mut self, snapshot: &mut Snapshot) {
        self.follow(snapshot);
        if let (Some(session), Some(told)) = (&mut self.session, &mut self.told) {
            self.ports.resize_with(snapshot.flows.len(), Pending::default);
            let mut missed = 0;
            for (port, minute) in self.ports.iter_mut().zip(&snapshot.flows) {
                if let Some(minute) = minute {
                    missed = missed.max(port.take(&minute.reading.previous));
                }
            }
            told.missed_seconds += missed;
            session.send(told);
            if snapshot.uptime_ms >= session.due {
                session.give_up("the network takes no more", told);
                session.judge(told);
                let every = (session.settings.interval / 1_000_000).max(1);
                session.due += ((snapshot.uptime_ms - session.due) / every + 1) * every;
                export(session, &mut self.ports, snapshot);
                session.send(told);
            }
        }
        snapshot.export = self.told.clone();
    }

    /// The switch ends: what there is of the second under way is told, too.
    pub fn end(&mut self, snapshot: &Snapshot) {
        let (Some(session), Some(told)) = (&mut self.session, &mut self.told) else { return };
        for (port, minute) in self.ports.iter_mut().zip(&snapshot.flows) {
            if let Some(minute) = minute {
                port.take(&minute.reading.previous);
                port.take(&minute.reading.current);
            }
        }
        export(session, &mut self.ports, snapshot);
        session.send(told);
    }

    /// Another collector, or another way: what was not told to the one before is told to this one.
    fn follow(&mut self, snapshot: &Snapshot) {
        let wanted = snapshot.info.export;
        if self.session.as_ref().map(|session| session.settings) == wanted {
            return;
        }
        if let (Some(session), Some(told)) = (&mut self.session, &mut self.told) {
            session.give_up("the collector is another one now", told);
        }
        self.session = wanted.map(|settings| Session::new(settings, snapshot.uptime_ms));
        if wanted.is_none() {
            self.ports.clear();
        }
        let counted = self.told.take();
        self.told = wanted.map(|settings| match counted {
            Some(told) => ExportReading { settings, error: None, ..told },
            None => ExportReading {
                settings,
                messages: 0,
                records: 0,
                failed: 0,
                lost: 0,
                missed_seconds: 0,
                error: None,
            },
        });
    }
}

/// Tells that a collector could not be reached, or can be again.
pub(crate) fn report(before: Option<&ExportReading>, now: &Snapshot, log: &mut Log) {
    let Some(told) = &now.export else { return };
    let was = before.and_then(|told| told.error.as_ref());
    let mut fields = Map::new();
    fields.insert("collector".into(), json!(told.settings.collector.to_string()));
    match (was, &told.error) {
        (None, Some(error)) => {
            fields.insert("error".into(), json!(error));
            events::report(now, "flow_export", "start", fields, log);
        }
        (Some(_), None) => events::report(now, "flow_export", "end", fields, log),
        (None, None) | (Some(_), Some(_)) => {}
    }
}

/// What is pending becomes messages. Templates come first in each export: UDP may have lost those before (RFC 7011 8.4).
fn export(session: &mut Session, ports: &mut [Pending], snapshot: &Snapshot) {
    let FlowExport { domain, enterprise, .. } = session.settings;
    let time = (snapshot.unix_ms / 1000) as u32;
    let mut writer = Writer::new(Speaker { domain, enterprise, sequence: session.sequence, time });
    for family in Family::ALL {
        for cause in Cause::ALL {
            writer.template(flow_template(family, cause), &flow_fields(family, cause));
        }
    }
    for options in [&NAMES, &TOTALS, &TYPES] {
        writer.options_template(options);
    }
    for own in OWN {
        let (kind, semantics) = own.kind.numbers();
        let mut record = enterprise.to_be_bytes().to_vec();
        record.extend(own.number.to_be_bytes());
        record.extend([kind, semantics]);
        record.extend(own.units.to_be_bytes());
        text(own.name, &mut record);
        text(own.what, &mut record);
        writer.record(TYPES.id, &record);
    }
    for (port, info) in snapshot.info.ports.iter().enumerate() {
        let mut record = interface(port).to_be_bytes().to_vec();
        text(&info.name, &mut record);
        writer.record(NAMES.id, &record);
    }
    for (port, pending) in ports.iter_mut().enumerate() {
        let first = std::mem::take(&mut pending.first);
        let seen = std::mem::take(&mut pending.seen);
        if seen.seconds == 0 {
            continue;
        }
        let times = [first - 1, seen.number].map(|second| wall_clock(snapshot, port, second));
        for cause in Cause::ALL {
            flows(&mut writer, port, cause, &seen, times);
        }
    }
    let (messages, sequence) = writer.end();
    session.sequence = sequence;
    session.waiting.extend(messages);
}

/// What there was of one cause at a port.
fn flows(writer: &mut Writer, port: usize, cause: Cause, seen: &Seen, times: [u64; 2]) {
    let i = cause as usize;
    if seen.totals[i] == 0 {
        return;
    }
    let amount = |n: u64| match cause {
        Cause::Pause => n as f64 / PAUSE_LOOKS as f64,
        Cause::Mark | Cause::Drop | Cause::Depth => n as f64,
    };
    let mut record = interface(port).to_be_bytes().to_vec();
    text(cause.word(), &mut record);
    record.extend(times.into_iter().flat_map(u64::to_be_bytes));
    record.extend([seen.totals[i], seen.covered[i]].into_iter().flat_map(|n| amount(n).to_be_bytes()));
    record.extend([seen.looked[i], seen.looks].into_iter().flat_map(u64::to_be_bytes));
    writer.record(TOTALS.id, &record);
    for flow in &seen.flows[i] {
        let bounds = [least(flow), flow.count.min(seen.totals[i])];
        writer.record(
            flow_template(Family::of(&flow.id), cause),
            &flow_record(port, cause, flow, bounds, times),
        );
    }
}

/// A flow, in the order of [`flow_fields`].
fn flow_record(port: usize, cause: Cause, flow: &Counted, bounds: [u64; 2], times: [u64; 2]) -> Vec<u8> {
    let (id, place) = (&flow.id, flow.id.place());
    let leaves = match cause {
        Cause::Mark | Cause::Depth => true,
        Cause::Pause => false,
        Cause::Drop => place.reason.is_some_and(|reason| reason.side() == Side::Departure),
    };
    let mut record: Vec<u8> = times.into_iter().flat_map(u64::to_be_bytes).collect();
    record.extend(interface(usize::from(place.in_port)).to_be_bytes());
    record.extend(if leaves { interface(port) } else { 0 }.to_be_bytes());
    record.push(place.priority);
    addresses(id, &mut record);
    for bound in bounds {
        match cause {
            Cause::Pause => record.extend((bound as f64 / PAUSE_LOOKS as f64).to_be_bytes()),
            Cause::Mark | Cause::Drop | Cause::Depth => record.extend(bound.to_be_bytes()),
        }
    }
    if cause == Cause::Drop {
        text(place.reason.map_or("", |reason| reason.name()), &mut record);
    }
    record
}

fn addresses(id: &FlowId, record: &mut Vec<u8>) {
    match id.addresses() {
        Some(Addresses::Ip(src, dst)) => {
            for ip in [src, dst] {
                match ip {
                    IpAddr::V4(ip) => record.extend(ip.octets()),
                    IpAddr::V6(ip) => record.extend(ip.octets()),
                }
            }
            let (from, to) = id.ports().unwrap_or_default();
            record.push(id.protocol());
            record.extend([from, to].into_iter().flat_map(u16::to_be_bytes));
            record.extend(id.qp().unwrap_or(0).to_be_bytes());
        }
        Some(Addresses::Stations(src, dst)) => {
            record.extend([src, dst].iter().flat_map(|key| key.address.to_be_bytes()[2..].to_vec()));
        }
        None => record.extend([0; 12]),
    }
}

/// Number of a port as an interface: 1 is the first of the configuration, 0 is none.
fn interface(port: usize) -> u32 {
    port as u32 + 1
}

/// End of a second of the workers' clock, ms since 1970: as of the counters of the port, which say when they are of.
fn wall_clock(snapshot: &Snapshot, port: usize, second: u64) -> u64 {
    let at = snapshot.now.ports.get(port).map_or(0, |port| port.gauges.at_ns) as i64;
    let before = at - (second * EPOCH) as i64;
    (snapshot.unix_ms as i64 - before / 1_000_000).max(0) as u64
}
