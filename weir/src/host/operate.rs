//! `weir qp`, on the side of the host: what is asked on a Unix socket is done by the loop that moves the frames, between two
//! turns of it.
//!
//! One JSON object per line each way ([`Order`]; the answer is [`Said`]).

use super::build::{rate_control, words};
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
use weir_config::CongestionControl;
use weir_config::host::{self, HostConfig, HostDcqcn, HostQp, HostTraffic};
use weir_dataplane::types::Nanos;
use weir_endpoint::dcqcn::firmware::Dcqcn;
use weir_endpoint::dcqcn::trace::Trace;
use weir_endpoint::roce::wire::Qpn;
use weir_endpoint::station::roce::{OrderError, Station as Roce};
use weir_endpoint::station::{ConnectionReport, Station};

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

    fn is(&self, port: &str, qpn: u32) -> bool {
        self.has(port) && self.qpn.is_none_or(|asked| asked == qpn)
    }
}

/// `[dcqcn]` of queue pairs, by port and number.
type Parameters = BTreeMap<(String, u32), HostDcqcn>;

/// What is asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    /// What queue pairs do, their parameters and registers.
    Show(Which),
    /// Other parameters: TOML of `[dcqcn]`, over what holds now.
    Set(Which, String),
    /// A register to be written, at its address.
    Write(Which, u64, u64),
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
    /// Queue pairs, by port and number, with their `[dcqcn]` as it was changed last.
    pairs: BTreeMap<(String, u32), toml::Table>,
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
        let dcqcn = file.get("dcqcn").and_then(toml::Value::as_table).cloned().unwrap_or_default();
        let pairs = match &config.traffic {
            HostTraffic::Roce { qps, .. } => {
                let key = |qp: &HostQp| (config.ports[qp.port].port.name.clone(), qp.qpn);
                qps.iter().map(|qp| (key(qp), dcqcn.clone())).collect()
            }
            HostTraffic::RcLink(_) => BTreeMap::new(),
        };
        let (listener, path) = weir_mgmt::server::unix_listener(path)
            .with_context(|| format!("cannot listen on {}", path.display()))?;
        let ports = config.ports.iter().map(|port| port.port.name.clone()).collect();
        Ok(Self { listener, path, ports, file, pairs })
    }

    /// Where it listens.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Answers whoever has come first.
    pub fn turn(&mut self, shared: &Shared) {
        if let Ok((stream, _)) = self.listener.accept() {
            // Who says nothing, or goes away, is not waited for.
            let _ = self.answer(&stream, shared);
        }
    }

    fn answer(&mut self, mut stream: &UnixStream, shared: &Shared) -> Result<()> {
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

    fn carry_out(&mut self, order: Order, shared: &Shared) -> Result<Value> {
        let mut changed = BTreeMap::new();
        let mut parameters = BTreeMap::new();
        if let Order::Set(which, toml) = &order {
            let new: toml::Table =
                toml.parse().map_err(|error: toml::de::Error| anyhow!("{}", error.message()))?;
            if let Some(key) = OF_THE_START.into_iter().find(|key| new.contains_key(*key)) {
                return Err(anyhow!(
                    "`{key}` is of the start of a queue pair; set it in [dcqcn] of the file, before the hosts begin"
                ));
            }
            for (key, own) in self.pairs.iter().filter(|((port, qpn), _)| which.is(port, *qpn)) {
                let mut table = own.clone();
                if new.get("parameters").and_then(toml::Value::as_str) == Some(CongestionControl::Off.word())
                {
                    // The others say nothing any more.
                    table.retain(|key, _| key == "cnp_interval");
                }
                let beside = table.keys().filter(|key| !new.contains_key(*key)).cloned().collect::<Vec<_>>();
                table.extend(new.clone());
                let all = self.parameters(&table).with_context(|| {
                    let (port, qpn) = key;
                    let new = new.keys().map(|key| format!("`{key}`")).collect::<Vec<_>>().join(", ");
                    let beside = match beside.is_empty() {
                        true => String::new(),
                        false => format!(" (which has {} already)", beside.join(", ")),
                    };
                    format!("{new} of queue pair {qpn} of {port}{beside}")
                })?;
                parameters.insert(key.clone(), all);
                changed.insert(key.clone(), table);
            }
        }
        let (said, answer) = channel();
        let ports = self.ports.clone();
        shared.order(Box::new(move |seats, now| {
            let _ = said.send(obey(&order, &parameters, &ports, seats, now));
        }));
        let done =
            answer.recv_timeout(PATIENCE).map_err(|_| anyhow!("the hosts have ended, or are held up"))??;
        self.pairs.extend(changed);
        Ok(done)
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

/// Whether what is ordered can be done, for all queue pairs it is about.
fn check(order: &Order, parameters: &Parameters, ports: &[String], seats: &[Seat], now: Nanos) -> Result<()> {
    let stations = ports.iter().zip(seats).filter_map(|(name, seat)| match &seat.station {
        Station::Roce(station) => Some((name, station)),
        Station::RcLink(_) => None,
    });
    for (name, station) in stations {
        if let Order::Write(which, address, value) = order
            && which.has(name)
        {
            station.can_write(*address, *value, now)?;
        }
        for ((_, qpn), parameters) in parameters.iter().filter(|((port, _), _)| port == name) {
            if let Some(rate) = station.highest_rate(Qpn(*qpn)) {
                station
                    .can_configure(Qpn(*qpn), &rate_control(parameters, rate), now)
                    .with_context(|| format!("queue pair {qpn} of {name}"))?;
            }
        }
    }
    Ok(())
}

/// Does what is ordered, for each queue pair it is about: for all of them or, where one refuses, for none.
fn obey(
    order: &Order,
    parameters: &Parameters,
    ports: &[String],
    seats: &mut [Seat],
    now: Nanos,
) -> Result<Value> {
    let (Order::Show(which)
    | Order::Set(which, _)
    | Order::Write(which, ..)
    | Order::Read(which, _)
    | Order::Record(which, _)
    | Order::Trace(which)) = order;
    check(order, parameters, ports, seats, now)?;
    let mut rows = Vec::new();
    for (name, seat) in ports.iter().zip(seats).filter(|(name, _)| which.has(name)) {
        if let (Station::Roce(station), Order::Write(_, address, _) | Order::Read(_, address)) =
            (&mut seat.station, order)
        {
            if let Order::Write(_, address, value) = order {
                station.write(*address, *value, now)?;
            }
            let value = station.read(*address, now)?;
            rows.push(json!({ "port": name, "address": address, "value": value }));
            continue;
        }
        let pairs: Vec<ConnectionReport> = seat.station.pairs().collect();
        for pair in pairs.iter().filter(|pair| which.is(name, pair.number)) {
            let more = match &mut seat.station {
                Station::Roce(station) => {
                    let own = parameters.get(&(name.clone(), pair.number));
                    of_pair(order, own, station, pair, now)?
                }
                Station::RcLink(_) if matches!(order, Order::Show(_)) => json!({}),
                Station::RcLink(_) => return Err(anyhow!("RC Link hosts have no DCQCN")),
            };
            rows.push(row(name, pair, more));
        }
    }
    match rows.is_empty() {
        true => Err(anyhow!("there is no such queue pair; `weir qp show` lists them")),
        false => Ok(Value::Array(rows)),
    }
}

/// What a queue pair does, and what only one that reacts to congestion has.
fn row(port: &str, pair: &ConnectionReport, more: Value) -> Value {
    let p = &pair.progress;
    let mut row = json!({
        "port": port, "qpn": pair.number, "peer": pair.peer_name(), "connected": pair.connected,
        "failure": pair.failure.map(|failure| format!("{failure:?}")), "rate_bps": pair.rate, "posted": p.posted,
        "acknowledged": p.acknowledged, "received": p.received, "cnps": p.cnps,
    });
    if let (Some(row), Value::Object(more)) = (row.as_object_mut(), more) {
        row.extend(more);
    }
    row
}

fn of_pair(
    order: &Order,
    parameters: Option<&HostDcqcn>,
    station: &mut Roce,
    pair: &ConnectionReport,
    now: Nanos,
) -> Result<Value> {
    let qpn = Qpn(pair.number);
    let fixed = |error| match error {
        // All were meant, and this one has a rate of its own.
        OrderError::Fixed(_) => Ok(()),
        other => Err(other),
    };
    match order {
        Order::Set(..) => {
            if let (Some(parameters), Some(rate)) = (parameters, station.highest_rate(qpn)) {
                station.configure(qpn, &rate_control(parameters, rate), now)?;
                station.set_cnp_interval(qpn, parameters.cnp_interval)?;
            }
        }
        Order::Record(_, on) => station.record(qpn, *on).or_else(fixed)?,
        Order::Trace(_) => return Ok(json!({ "trace": station.trace(qpn).map(trace) })),
        Order::Show(_) | Order::Write(..) | Order::Read(..) => {}
    }
    let interval = station.cnp_interval(qpn);
    let Some(dcqcn) = station.dcqcn(qpn) else {
        return Ok(json!({ "cnp_interval": interval, "dcqcn": null }));
    };
    let parameters = shown(dcqcn);
    let register = |(register, address, value): (weir_endpoint::dcqcn::registers::Register, u64, u32)| json!({ "name": register.name(), "address": address, "value": value });
    let registers: Vec<Value> = station.registers(qpn, now).into_iter().map(register).collect();
    Ok(json!({
        "target_bps": station.target(qpn), "cnp_interval": interval, "recorded": station.trace(qpn).is_some(),
        "dcqcn": parameters, "registers": registers,
    }))
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
