//! `weir qp`, on the side of the host: what is asked on a Unix socket is done by the loop that moves the frames, between two
//! turns of it.
//!
//! One JSON object per line each way ([`Order`]; the answer is [`Said`]).

use super::build::{changed, words};
use super::seats::{Seat, Shared};
use crate::refusal::refuse;
use anyhow::{Context, Result, anyhow};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::mpsc::channel;
use std::time::Duration;
use weir_config::host::{self, HostConfig, HostDcqcn, HostTraffic};
use weir_config::{CongestionControl, DcqcnScheme};
use weir_dataplane::types::Nanos;
use weir_endpoint::dcqcn::firmware::Dcqcn;
use weir_endpoint::dcqcn::trace::Trace;
use weir_endpoint::roce::wire::Qpn;
use weir_endpoint::station::roce::{Change, OrderError, Station as Roce};
use weir_endpoint::station::{ConnectionReport, Kind, Station};

/// Longest line, bytes.
const LONGEST: u64 = 64 << 10;
/// Time for the loop to do what is asked.
const PATIENCE: Duration = Duration::from_secs(2);
/// Time to say a line once connected: the hosts have other things to do.
const LINE: Duration = Duration::from_millis(50);

/// Parameters that a queue pair takes into account as it begins, and never again.
const OF_THE_START: [&str; 2] = ["initial_alpha", "initial_rate"];

/// Which queue pairs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Which {
    /// Of this port; of all unless given.
    pub port: Option<String>,
    /// With this number; all unless given.
    pub qpn: Option<u32>,
}

impl Which {
    fn has(&self, port: &str) -> bool {
        self.port.as_deref().is_none_or(|asked| asked == port)
    }

    fn is(&self, port: &str, pair: &ConnectionReport) -> bool {
        self.has(port) && self.qpn.is_none_or(|asked| pair.kind == Kind::Qp && asked == pair.number)
    }
}

/// Keys of `[dcqcn]` that are set, and what they are for queue pairs, by port and number.
#[derive(Debug, Default)]
struct Parameters {
    named: toml::Table,
    pairs: BTreeMap<(String, u32), HostDcqcn>,
}

/// What is asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    /// What queue pairs do, their parameters and registers.
    Show(Which),
    /// Other parameters: TOML of `[dcqcn]`, over what holds now; then registers to be written, addresses and values. The
    /// answer has an object for each of these, too.
    Set(Which, String, Vec<(u64, u64)>),
    /// A register to be read.
    Read(Which, u64),
    /// Record what moves rates, or stop that.
    Record(Which, bool),
    /// What was recorded.
    Trace(Which),
}

/// The answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Said {
    /// Done: a list with an object per queue pair.
    Done(Value),
    /// Not done.
    Refused(String),
}

/// Where orders come in.
#[derive(Debug)]
pub struct Operator {
    listener: UnixListener,
    path: PathBuf,
    /// Names of the ports, by place.
    ports: Vec<String>,
    /// The file of the hosts.
    file: toml::Table,
}

impl Drop for Operator {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

impl Operator {
    /// Listens on a socket; `text`: the file of the hosts.
    ///
    /// # Errors
    /// The socket cannot be made.
    pub fn listen(path: &Path, config: &HostConfig, text: &str) -> Result<Self> {
        let file: toml::Table = text.parse().context("the file of the hosts")?;
        let (listener, path) = weir_mgmt::server::unix_listener(path)
            .with_context(|| format!("cannot listen on {}", path.display()))?;
        let ports = config.ports.iter().map(|port| port.port.name.clone()).collect();
        Ok(Self { listener, path, ports, file })
    }

    /// Where it listens.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Answers whoever has come first.
    pub fn turn(&self, shared: &Shared) {
        if let Ok((stream, _)) = self.listener.accept() {
            // Who says nothing, or goes away, is not waited for.
            let _ = self.answer(&stream, shared);
        }
    }

    fn answer(&self, mut stream: &UnixStream, shared: &Shared) -> Result<()> {
        stream.set_nonblocking(false)?;
        stream.set_read_timeout(Some(LINE))?;
        stream.set_write_timeout(Some(LINE))?;
        let mut line = String::new();
        BufReader::new(stream.take(LONGEST)).read_line(&mut line)?;
        let done = serde_json::from_str(&line)
            .context("not understood")
            .and_then(|order| self.carry_out(order, shared));
        let said = match done {
            Ok(rows) => Said::Done(rows),
            Err(error) => Said::Refused(format!("{error:#}")),
        };
        writeln!(stream, "{}", serde_json::to_string(&said)?)?;
        Ok(())
    }

    fn carry_out(&self, order: Order, shared: &Shared) -> Result<Value> {
        let parameters = match &order {
            Order::Set(which, toml, _) => self.read(which, toml, shared)?,
            _ => Parameters::default(),
        };
        let ports = self.ports.clone();
        in_the_loop(shared, move |seats, now| obey(&order, &parameters, &ports, seats, now))?
    }

    /// What keys of `[dcqcn]` are for the queue pairs they are to be set of, each checked as in a file.
    fn read(&self, which: &Which, toml: &str, shared: &Shared) -> Result<Parameters> {
        let named: toml::Table =
            toml.parse().map_err(|error: toml::de::Error| anyhow!("{}", error.message()))?;
        if named.is_empty() {
            return Ok(Parameters::default());
        }
        if let Some(key) = OF_THE_START.into_iter().find(|key| named.contains_key(*key)) {
            return Err(anyhow!(
                "`{key}` is of the start of a queue pair; set it in [dcqcn] of the file, before the hosts begin"
            ));
        }
        let (ports, asked) = (self.ports.clone(), which.clone());
        let mut pairs = BTreeMap::new();
        for (key, held) in in_the_loop(shared, move |seats, _| held(&asked, &ports, seats))? {
            let all = self.parameters(&beside(&named, held.as_ref())).with_context(|| {
                let named = named.keys().map(|key| format!("`{key}`")).collect::<Vec<_>>().join(", ");
                let (port, qpn) = &key;
                format!("{named} of queue pair {qpn} of {port}")
            })?;
            pairs.insert(key, all);
        }
        Ok(Parameters { named, pairs })
    }

    /// What a `[dcqcn]` of the file would be.
    fn parameters(&self, dcqcn: &toml::Table) -> Result<HostDcqcn> {
        let mut file = self.file.clone();
        file.insert("dcqcn".into(), dcqcn.clone().into());
        let loaded = host::load("dcqcn", &toml::to_string(&file)?).map_err(|found| {
            let errors = found.iter().filter(|diagnostic| diagnostic.is_error());
            anyhow!(
                "{}",
                errors.map(|d| format!("{}; {}", d.told(), d.remedy)).collect::<Vec<_>>().join("; ")
            )
        })?;
        match loaded.config.traffic {
            HostTraffic::Roce { dcqcn, .. } => Ok(dcqcn),
            HostTraffic::RcLink(_) => Err(anyhow!("RC Link hosts have no DCQCN")),
        }
    }
}

/// Has the loop that moves the frames do something, and waits for what comes of it.
fn in_the_loop<T: Send + 'static>(
    shared: &Shared,
    what: impl FnOnce(&mut [Seat], Nanos) -> T + Send + 'static,
) -> Result<T> {
    let (said, answer) = channel();
    shared.order(Box::new(move |seats, now| {
        let _ = said.send(what(seats, now));
    }));
    answer.recv_timeout(PATIENCE).map_err(|_| anyhow!("the hosts have ended, or are held up"))
}

/// How queue pairs react to congestion now, by port and number; `None`: they have a fixed rate.
fn held(which: &Which, ports: &[String], seats: &[Seat]) -> Vec<((String, u32), Option<Dcqcn>)> {
    let mut all = Vec::new();
    for (name, seat) in ports.iter().zip(seats) {
        if let Station::Roce(station) = &seat.station {
            let pairs = seat.station.pairs().filter(|pair| which.is(name, pair));
            all.extend(
                pairs.map(|pair| ((name.clone(), pair.number), station.dcqcn(Qpn(pair.number)).copied())),
            );
        }
    }
    all
}

/// `[dcqcn]` of a file that says what `named` says beside what holds: with the keys that others are checked against.
fn beside(named: &toml::Table, held: Option<&Dcqcn>) -> toml::Table {
    let word = |key| named.get(key).and_then(toml::Value::as_str);
    let mut table = toml::Table::new();
    match (word("parameters"), held) {
        // A fixed rate, from which another preset begins.
        (Some(parameters), _) if parameters == CongestionControl::Off.word() => {}
        (Some(_), None) => {}
        (None, None) => {
            table.insert("parameters".into(), CongestionControl::Off.word().into());
        }
        (_, Some(held)) => {
            let (own, algorithm) = words(held);
            let scheme = word("scheme").unwrap_or(own);
            table.insert("scheme".into(), scheme.into());
            if scheme != DcqcnScheme::Hardware.word() {
                table.insert("firmware_algorithm".into(), algorithm.into());
            }
            if scheme != DcqcnScheme::Firmware.word() {
                table.insert("outstanding".into(), held.outstanding.normal.into());
                table.insert("outstanding_after_cnp".into(), held.outstanding.reduced.into());
            }
        }
    }
    table.extend(named.clone());
    table
}

/// Sets parameters and writes registers: all of it or, where one is refused, nothing.
fn set(
    which: &Which,
    parameters: &Parameters,
    writes: &[(u64, u64)],
    ports: &[String],
    seats: &mut [Seat],
    now: Nanos,
) -> Result<Value> {
    let mut planned = Vec::new();
    for (name, seat) in ports.iter().zip(&*seats).filter(|(name, _)| which.has(name)) {
        let Station::Roce(station) = &seat.station else {
            return Err(anyhow!("RC Link hosts have no DCQCN"));
        };
        let own = parameters.pairs.iter().filter(|((port, _), _)| port == name);
        let configure = own.filter_map(|((_, qpn), new)| {
            let (qpn, held) = (Qpn(*qpn), station.dcqcn(Qpn(*qpn)));
            let rate = changed(new, &parameters.named, held, station.highest_rate(qpn)?);
            Some(Change::Configure(qpn, rate))
        });
        let changes: Vec<_> =
            configure.chain(writes.iter().map(|(address, value)| Change::Write(*address, *value))).collect();
        station.can(&changes, now).map_err(|(at, error)| match changes[at] {
            Change::Configure(qpn, _) => anyhow!(error).context(format!("queue pair {} of {name}", qpn.0)),
            Change::Write(..) => error.into(),
        })?;
        planned.push(changes);
    }
    let (mut set, mut written) = (Vec::new(), Vec::new());
    let seats = ports.iter().zip(seats).filter(|(name, _)| which.has(name));
    for ((name, seat), changes) in seats.zip(planned) {
        let Station::Roce(station) = &mut seat.station else { continue };
        for change in changes {
            match change {
                Change::Configure(qpn, rate) => station.configure(qpn, &rate, now)?,
                Change::Write(address, value) => {
                    station.write(address, value, now)?;
                    let value = station.read(address, now)?;
                    written.push(json!({ "port": name, "address": address, "value": value }));
                }
            }
        }
        for ((_, qpn), new) in parameters.pairs.iter().filter(|((port, _), _)| port == name) {
            if parameters.named.contains_key("cnp_interval") {
                station.set_cnp_interval(Qpn(*qpn), new.cnp_interval)?;
            }
        }
        let own = |pair: &ConnectionReport| parameters.pairs.contains_key(&(name.clone(), pair.number));
        let pairs: Vec<_> = station.pairs().filter(own).collect();
        set.extend(pairs.iter().map(|pair| row(name, pair, reaction(station, Qpn(pair.number), now))));
    }
    set.extend(written);
    rows_of_some(set)
}

/// An answer about what there is.
fn rows_of_some(rows: Vec<Value>) -> Result<Value> {
    match rows.is_empty() {
        true => Err(anyhow!("there is no such queue pair; `weir qp show` lists them")),
        false => Ok(Value::Array(rows)),
    }
}

/// Does what is ordered, for each queue pair it is about.
fn obey(
    order: &Order,
    parameters: &Parameters,
    ports: &[String],
    seats: &mut [Seat],
    now: Nanos,
) -> Result<Value> {
    let which = match order {
        Order::Set(which, _, writes) => return set(which, parameters, writes, ports, seats, now),
        Order::Show(which) | Order::Read(which, _) | Order::Record(which, _) | Order::Trace(which) => which,
    };
    let mut rows = Vec::new();
    for (name, seat) in ports.iter().zip(seats).filter(|(name, _)| which.has(name)) {
        if let (Station::Roce(station), Order::Read(_, address)) = (&seat.station, order) {
            let value = station.read(*address, now)?;
            rows.push(json!({ "port": name, "address": address, "value": value }));
            continue;
        }
        let pairs: Vec<ConnectionReport> = seat.station.pairs().collect();
        for pair in pairs.iter().filter(|pair| which.is(name, pair)) {
            let more = match &mut seat.station {
                Station::Roce(station) => of_pair(order, station, Qpn(pair.number), now)?,
                Station::RcLink(_) if matches!(order, Order::Show(_)) => json!({}),
                Station::RcLink(_) => return Err(anyhow!("RC Link hosts have no DCQCN")),
            };
            rows.push(row(name, pair, more));
        }
    }
    rows_of_some(rows)
}

/// What a queue pair does, and what only one that reacts to congestion has.
fn row(port: &str, pair: &ConnectionReport, more: Value) -> Value {
    let p = &pair.progress;
    let mut row = json!({
        "port": port, "peer": pair.peer_name(), "connected": pair.connected,
        "failure": pair.failure.map(|failure| format!("{failure:?}")), "rate_bps": pair.rate, "posted": p.posted,
        "acknowledged": p.acknowledged, "received": p.received, "cnps": p.cnps,
    });
    row[pair.kind.key()] = json!(pair.number);
    if let (Some(row), Value::Object(more)) = (row.as_object_mut(), more) {
        row.extend(more);
    }
    row
}

fn of_pair(order: &Order, station: &mut Roce, qpn: Qpn, now: Nanos) -> Result<Value> {
    let fixed = |error| match error {
        // All were meant, and this one has a rate of its own.
        OrderError::Fixed(_) => Ok(()),
        other => Err(other),
    };
    match order {
        Order::Record(_, on) => station.record(qpn, *on).or_else(fixed)?,
        Order::Trace(_) => return Ok(json!({ "trace": station.trace(qpn).map(trace) })),
        Order::Show(_) | Order::Set(..) | Order::Read(..) => {}
    }
    Ok(reaction(station, qpn, now))
}

/// How a queue pair reacts to congestion.
fn reaction(station: &Roce, qpn: Qpn, now: Nanos) -> Value {
    let interval = station.cnp_interval(qpn);
    let Some(dcqcn) = station.dcqcn(qpn) else {
        return json!({ "cnp_interval": interval, "dcqcn": null });
    };
    let parameters = shown(dcqcn);
    let register = |(register, address, value): (weir_endpoint::dcqcn::registers::Register, u64, u32)| json!({ "name": register.name(), "address": address, "value": value });
    let registers: Vec<Value> = station.registers(qpn, now).into_iter().map(register).collect();
    json!({
        "target_bps": station.target(qpn), "cnp_interval": interval, "recorded": station.trace(qpn).is_some(),
        "dcqcn": parameters, "registers": registers,
    })
}

/// Parameters by the keys of `[dcqcn]`, times in ns, rates in bits/s.
fn shown(dcqcn: &Dcqcn) -> Value {
    let (p, o) = (&dcqcn.params, &dcqcn.outstanding);
    let (scheme, firmware_algorithm) = words(dcqcn);
    json!({
        "scheme": scheme, "max_rate": p.max_rate, "min_rate": p.min_rate,
        "gain": p.gain, "initial_alpha": p.initial_alpha, "rate_shift": p.rate_shift, "alpha_period": p.alpha_period,
        "cut_period": p.cut_period, "increase_period": p.increase_period, "byte_threshold": p.byte_threshold,
        "stages": p.stages, "additive": p.additive, "hyper": p.hyper, "min_left_percent": p.min_left_percent,
        "first_cnp_rate": p.first_cnp_rate, "outstanding": o.normal, "outstanding_after_cnp": o.reduced,
        "restore_after": o.restore_after, "firmware_period": dcqcn.firmware_period,
        "firmware_algorithm": firmware_algorithm,
    })
}

/// What was recorded (CC-021 to CC-023).
fn trace(trace: &Trace) -> Value {
    let (initial, counts) = (trace.initial(), trace.counts());
    let entry = |entry: &weir_endpoint::dcqcn::trace::Entry| {
        json!({
            "time_ns": entry.at, "code": entry.cause as u8, "event": entry.cause.name(), "rate_bps": entry.rate,
            "dcqcn_dfx_info": entry.info(),
        })
    };
    json!({
        "running": trace.is_running(),
        "initial": {
            "rate_bps": initial.current, "target_bps": initial.target, "alpha": initial.alpha,
            "byte_count": initial.byte_count, "time_count": initial.time_count,
        },
        "counts": { "decrease": counts.decrease, "byte_counter": counts.byte_counter, "timer": counts.timer },
        "entries": trace.entries().iter().map(entry).collect::<Vec<_>>(),
    })
}

/// Asks the hosts behind a socket.
///
/// # Errors
/// Nobody is there, or what they say against it.
pub fn ask(path: &Path, order: &Order) -> Result<Vec<Value>> {
    let place = || path.display().to_string();
    let nobody = |error: &dyn std::fmt::Display| {
        let what = format!("no `weir host --socket` answers there ({error})");
        refuse(place(), what, "start `weir host` with --socket, or name its socket")
    };
    let mut stream = UnixStream::connect(path).map_err(|error| nobody(&error))?;
    stream.set_read_timeout(Some(2 * PATIENCE))?;
    writeln!(stream, "{}", serde_json::to_string(order)?).map_err(|error| nobody(&error))?;
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line).map_err(|error| match error.kind() {
        ErrorKind::WouldBlock | ErrorKind::TimedOut => {
            refuse(place(), "no answer", "ask again; if nothing answers, see whether the hosts still run")
        }
        _ => nobody(&error),
    })?;
    match serde_json::from_str(&line).map_err(|error| nobody(&error))? {
        Said::Done(Value::Array(rows)) => Ok(rows),
        Said::Done(other) => Err(nobody(&other)),
        Said::Refused(why) => Err(anyhow!("{why}")),
    }
}

#[cfg(test)]
mod tests {
    use super::super::remedy::tests::nothing;
    use super::*;

    /// RC Link counts its queue pairs, multicast and raw connections each from 0.
    #[test]
    fn connections_of_other_kinds_have_no_queue_pair_number() {
        let pairs = [Kind::Qp, Kind::Multicast, Kind::Raw].map(|kind| ConnectionReport {
            kind,
            number: 0,
            ..nothing()
        });
        let rows = pairs.each_ref().map(|pair| row("h", pair, json!({})));
        assert_eq!(rows.each_ref().map(crate::qp::name), ["h 0", "h multicast 0", "h raw 0"]);
        let numbers = rows.each_ref().map(|row| ["qpn", "multicast", "raw"].map(|key| row[key].as_u64()));
        assert_eq!(numbers, [[Some(0), None, None], [None, Some(0), None], [None, None, Some(0)]]);
        let zero = Which { port: None, qpn: Some(0) };
        assert_eq!(pairs.each_ref().map(|pair| zero.is("h", pair)), [true, false, false]);
        assert!(pairs.iter().all(|pair| Which::default().is("h", pair)));
    }
}
