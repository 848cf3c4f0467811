//! `weir qp`: queue pairs of a running `weir host`.

use crate::Outcome;
use crate::host::operate::{Order, Which, ask};
use crate::output::{OUT, say};
use crate::refusal::refuse;
use anyhow::Result;
use clap::{Args, Subcommand};
use serde_json::{Value, json};
use std::path::PathBuf;
use weir_layout::{Grid, Unit};

/// `weir qp`
#[derive(Debug, Subcommand)]
pub enum QpCommand {
    /// List queue pairs: rates, congestion control, messages.
    Show(ShowArgs),
    /// Set parameters of a section dcqcn (`gain=8 alpha_period=50us`), or registers by their address (`0x600028=1280`).
    Set(SetArgs),
    /// Record rate changes: up to 64 events of each queue pair.
    #[command(subcommand)]
    Trace(TraceCommand),
}

/// Which host, which queue pairs.
#[derive(Clone, Debug, Args)]
pub struct WhichArgs {
    /// Socket of the host, its --socket.
    #[arg(long, value_name = "PATH")]
    pub socket: PathBuf,
    /// Queue pairs of this port; of all unless given.
    #[arg(long)]
    pub port: Option<String>,
    /// The queue pair with this number; all unless given.
    #[arg(long)]
    pub qpn: Option<u32>,
}

/// `weir qp show`
#[derive(Debug, Args)]
pub struct ShowArgs {
    #[command(flatten)]
    pub which: WhichArgs,
    /// JSON, with parameters and registers.
    #[arg(long, short)]
    pub json: bool,
    /// The registers, with their addresses.
    #[arg(long, conflicts_with = "json")]
    pub registers: bool,
}

/// `weir qp set`
#[derive(Debug, Args)]
pub struct SetArgs {
    /// KEY=VALUE: a key of the section dcqcn with a value as in a file, or the address of a register and a number.
    #[arg(required = true, value_name = "KEY=VALUE")]
    pub values: Vec<String>,
    #[command(flatten)]
    pub which: WhichArgs,
    /// JSON: queue pairs whose parameters are set, and registers.
    #[arg(long, short)]
    pub json: bool,
}

/// `weir qp trace`
#[derive(Debug, Subcommand)]
pub enum TraceCommand {
    /// Start to record, from an empty trace.
    Start(RecordArgs),
    /// Stop; what was recorded stays.
    Stop(RecordArgs),
    /// Print what was recorded: how it began, each event, and how many there were of each class.
    Show(RecordArgs),
}

/// `weir qp trace start`, `stop` and `show`
#[derive(Debug, Args)]
pub struct RecordArgs {
    #[command(flatten)]
    pub which: WhichArgs,
    /// As JSON.
    #[arg(long, short)]
    pub json: bool,
}

impl WhichArgs {
    fn which(&self) -> Which {
        Which { port: self.port.clone(), qpn: self.qpn }
    }

    fn ask(&self, order: &Order) -> Result<Vec<Value>> {
        ask(&self.socket, order)
    }
}

pub fn qp(command: &QpCommand) -> Result<Outcome> {
    match command {
        QpCommand::Show(args) => show(args)?,
        QpCommand::Set(args) => set(args)?,
        QpCommand::Trace(TraceCommand::Start(args)) => record(args, true)?,
        QpCommand::Trace(TraceCommand::Stop(args)) => record(args, false)?,
        QpCommand::Trace(TraceCommand::Show(args)) => show_trace(args)?,
    }
    Ok(Outcome::Good)
}

fn number(row: &Value, key: &str) -> u64 {
    row[key].as_u64().unwrap_or(0)
}

/// Port and number of a connection, and what it is where that is no queue pair.
pub fn name(row: &Value) -> String {
    let port = row["port"].as_str().unwrap_or("");
    match ["multicast", "raw"].into_iter().find(|kind| row[*kind].is_u64()) {
        Some(kind) => format!("{port} {kind} {}", number(row, kind)),
        None => format!("{port} {}", number(row, "qpn")),
    }
}

fn rate(row: &Value, key: &str) -> f64 {
    number(row, key) as f64
}

fn show(args: &ShowArgs) -> Result<()> {
    let rows = args.which.ask(&Order::Show(args.which.which()))?;
    if args.json {
        OUT.json(&Value::Array(rows));
        return Ok(());
    }
    if args.registers {
        let mut grid = Grid::new(&["<queue pair", ">address", ">register", ">value"]);
        for row in &rows {
            for register in row["registers"].as_array().into_iter().flatten() {
                let hex = |key: &str| format!("{:#x}", number(register, key));
                let called = register["name"].as_str().unwrap_or("").to_owned();
                grid.push([name(row), hex("address"), called, hex("value")]);
            }
        }
        OUT.text(&grid.text());
        return Ok(());
    }
    let heads = [
        "<queue pair",
        ">peer",
        ">state",
        ">Gb/s",
        ">target",
        ">alpha",
        ">T",
        ">BC",
        ">posted",
        ">acked",
        ">CNPs",
    ];
    let mut grid = Grid::new(&heads);
    for row in &rows {
        let register = |name: &str| {
            let all = row["registers"].as_array().into_iter().flatten();
            all.into_iter().find(|r| r["name"] == name).map(|r| number(r, "value"))
        };
        let or_dash = |value: Option<u64>| value.map_or("-".into(), |value| value.to_string());
        let counts = register("T_BC_MEM");
        let state = match (&row["failure"], &row["connected"]) {
            (Value::String(_), _) => "failed",
            (_, Value::Bool(true)) => "connected",
            _ => "unknown",
        };
        grid.push([
            name(row),
            row["peer"].as_str().unwrap_or("").to_owned(),
            state.to_owned(),
            Unit::GBPS.number(rate(row, "rate_bps")),
            row["target_bps"].as_u64().map_or("-".into(), |bps| Unit::GBPS.number(bps as f64)),
            or_dash(register("ALPHA_MEM")),
            or_dash(counts.map(|counts| counts >> 16)),
            or_dash(counts.map(|counts| counts & 0xffff)),
            number(row, "posted").to_string(),
            number(row, "acknowledged").to_string(),
            number(row, "cnps").to_string(),
        ]);
    }
    OUT.text(&grid.text());
    Ok(())
}

/// A number as people write registers.
fn register_number(text: &str) -> Result<u64> {
    let text = text.replace('_', "");
    let parsed = match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16),
        None => text.parse(),
    };
    let wrong = || refuse(text.clone(), "not a number", "write it in decimal, or in hexadecimal behind 0x");
    parsed.map_err(|_| wrong())
}

fn set(args: &SetArgs) -> Result<()> {
    let mut parameters = String::new();
    let mut writes = Vec::new();
    for value in &args.values {
        let Some((key, value)) = value.split_once('=') else {
            return Err(refuse(value, "not an assignment", "write KEY=VALUE, e.g. gain=8 or 0x10=1"));
        };
        let (key, value) = (key.trim(), value.trim());
        if key.starts_with("0x") {
            writes.push((register_number(key)?, register_number(value)?));
            continue;
        }
        // A value as it stands in a file, or without its quotes.
        let bare = format!("{key} = {value}\n");
        let quoted = format!("{key} = {value:?}\n");
        let is_toml = bare.parse::<toml::Table>().is_ok();
        parameters += if is_toml { &bare } else { &quoted };
    }
    let which = args.which.which();
    if which.qpn.is_some() && !writes.is_empty() {
        let problem = "the address of a register has its queue pair in it";
        return Err(refuse("--qpn", problem, "leave it out, or set parameters by their keys"));
    }
    let rows = args.which.ask(&Order::Set(which, parameters, writes))?;
    let (registers, set): (Vec<_>, Vec<_>) = rows.into_iter().partition(|row| !row["address"].is_null());
    if args.json {
        OUT.json(&json!({ "queue_pairs": set, "registers": registers }));
        return Ok(());
    }
    set.iter().for_each(|row| say!("{}: set", name(row)));
    for row in &registers {
        let port = row["port"].as_str().unwrap_or("");
        say!("{port}: {:#x} is {:#x}", number(row, "address"), number(row, "value"));
    }
    Ok(())
}

fn record(args: &RecordArgs, on: bool) -> Result<()> {
    let rows = args.which.ask(&Order::Record(args.which.which(), on))?;
    if args.json {
        OUT.json(&Value::Array(rows));
        return Ok(());
    }
    for row in rows {
        let said = match (row["dcqcn"].is_null(), on, row["recorded"] == true) {
            (true, ..) => "has a fixed rate, there is nothing to record",
            (false, true, _) => "recording",
            (false, false, true) => "stopped",
            (false, false, false) => "nothing was recorded",
        };
        say!("{}: {said}", name(&row));
    }
    Ok(())
}

fn show_trace(args: &RecordArgs) -> Result<()> {
    let rows = args.which.ask(&Order::Trace(args.which.which()))?;
    if args.json {
        OUT.json(&Value::Array(rows));
        return Ok(());
    }
    for row in &rows {
        let trace = &row["trace"];
        if trace.is_null() {
            say!("{}: nothing was recorded; `weir qp trace start` begins", name(row));
            continue;
        }
        let (initial, counts) = (&trace["initial"], &trace["counts"]);
        say!(
            "{}: began at {}, target {}, alpha {}, T {}, BC {}{}",
            name(row),
            Unit::GBPS.text(rate(initial, "rate_bps")),
            Unit::GBPS.text(rate(initial, "target_bps")),
            number(initial, "alpha"),
            number(initial, "time_count"),
            number(initial, "byte_count"),
            if trace["running"] == true { ", still recording" } else { "" }
        );
        let mut grid = Grid::new(&["<", ">time", "<code", "<event", ">rate"]);
        for entry in trace["entries"].as_array().into_iter().flatten() {
            grid.push([
                String::new(),
                format!("{} ns", number(entry, "time_ns")),
                format!("{:03b}", number(entry, "code")),
                entry["event"].as_str().unwrap_or("").to_owned(),
                Unit::GBPS.text(rate(entry, "rate_bps")),
            ]);
        }
        OUT.text(&grid.body());
        say!(
            "  {} cuts, {} increases by the byte counter, {} by the timer",
            number(counts, "decrease"),
            number(counts, "byte_counter"),
            number(counts, "timer")
        );
    }
    Ok(())
}
