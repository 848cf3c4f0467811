//! `weir show`: asks a running switch over its socket, prints what it says.

use crate::Outcome;
use crate::output::{OUT, say};
use crate::which::Which;
use anyhow::{Context, Result, bail};
use clap::Args;
use serde_json::Value;
use std::io::BufRead;
use std::path::Path;
use std::time::Duration;
use weir_dataplane::flows::Cause;
use weir_mgmt::sonic::{ALL, Answers, View};
use weir_mgmt::table::Table;
use weir_mgmt::{api, client, show as tables, sonic};

/// `weir show`
#[derive(Debug, Args)]
pub struct ShowArgs {
    /// What to look at.
    #[arg(value_parser = ["switch", "ports", "queues", "pgs", "buffer", "pfc", "ecn", "marking", "matrix", "vlans", "storm_control", "lag", "mirrors", "drops", "reasons", "latency", "fdb", "inc", "inc_ranks", "inc_engines", "inc_drops", "lcores", "flows", "lldp", "events", "interfaces", "queue", "priority-group", "pfcwd", "buffer_pool", "headroom-pool", "mac"])]
    pub what: String,
    /// SONiC's commands, with its columns: interfaces status|counters, pfc counters|priority|asymmetric, queue
    /// counters|wredcounters|watermark, priority-group watermark|drop counters, pfcwd stats|config, buffer
    /// pool|configuration, buffer_pool watermark, headroom-pool watermark, mac.
    #[arg(value_name = "WORDS")]
    pub more: Vec<String>,
    /// This port only.
    #[arg(long)]
    pub port: Option<String>,
    /// With fdb: this address only, as 02:00:00:00:00:01.
    #[arg(long)]
    pub mac: Option<String>,
    /// With fdb: this VLAN only; 0: untagged.
    #[arg(long)]
    pub vlan: Option<u16>,
    /// With flows: what is behind this only.
    #[arg(long, value_parser = Cause::ALL.map(Cause::word))]
    pub cause: Option<String>,
    /// With flows: this queue or priority group only.
    #[arg(long, value_parser = clap::value_parser!(u8).range(0..8))]
    pub priority: Option<u8>,
    /// With flows: of the last two seconds, not of the last minute.
    #[arg(long)]
    pub now: bool,
    /// Rows in which nothing was counted, too.
    #[arg(long)]
    pub all: bool,
    /// JSON, as the switch answers it.
    #[arg(short, long)]
    pub json: bool,
    /// Look again every second; follow events as they come.
    #[arg(long)]
    pub watch: bool,
    /// Latency as a percentile distribution since start for the tools of HdrHistogram (.hgrm).
    #[arg(long, conflicts_with_all = ["json", "watch", "hlog"])]
    pub hgrm: bool,
    /// With --hgrm or --hlog: this part of the time.
    #[arg(long, value_parser = ["residence", "queueing", "pause"], default_value = "residence")]
    pub part: String,
    /// With --hgrm: of the last second, not since start.
    #[arg(long, requires = "hgrm")]
    pub window: bool,
    /// With --hlog: one interval since start, not second by second.
    #[arg(long, requires = "hlog")]
    pub cumulative: bool,
    /// Latency second by second as an interval log for the tools of HdrHistogram (.hlog).
    #[arg(long, conflicts_with_all = ["json", "watch"])]
    pub hlog: bool,
    /// Which switch.
    #[command(flatten)]
    pub which: Which,
}

/// Entries of the forwarding table asked for at a time.
const FDB_PAGE: usize = 4096;

/// Between two looks of `--watch`.
const LOOK: Duration = Duration::from_secs(1);

pub fn show(args: &ShowArgs) -> Result<Outcome> {
    let socket = args.which.socket()?;
    if args.hgrm || args.hlog {
        return latency(args, &socket);
    }
    if !matches!(args.what.as_str(), "fdb" | "mac") && (args.mac.is_some() || args.vlan.is_some()) {
        bail!("--mac and --vlan select entries of the forwarding table: weir show fdb --mac ...");
    }
    if args.what != "flows" && (args.cause.is_some() || args.priority.is_some() || args.now) {
        bail!("--cause, --priority and --now select flows: weir show flows --cause ...");
    }
    let words = std::iter::once(args.what.as_str()).chain(args.more.iter().map(String::as_str));
    let words = words.collect::<Vec<_>>().join(" ");
    match (Table::named(&words), View::named(&words), words.as_str()) {
        (Some(table), ..) => look(args, &|| rows(args, table, &socket))?,
        (None, Some(view), _) => look(args, &|| sonics(args, view, &socket))?,
        (None, None, "fdb" | "mac") => look(args, &|| fdb(args, &socket))?,
        (None, None, "flows") => look(args, &|| flows(args, &socket))?,
        (None, None, "lldp") => look(args, &|| lldp(args, &socket))?,
        (None, None, "events") => events(args, &socket)?,
        (None, None, _) => bail!("{}", known(&args.what)),
    }
    Ok(Outcome::Good)
}

/// What there is that begins with this word.
fn known(word: &str) -> String {
    let alike = ALL.iter().filter(|view| view.words.split(' ').next() == Some(word));
    let alike: Vec<_> = alike.map(|view| format!("  weir show {:36} {}", view.words, view.what)).collect();
    match alike.is_empty() {
        true => format!("weir show {word} takes no further words"),
        false => format!("weir show {word}: one of\n{}", alike.join("\n")),
    }
}

/// What SONiC would show.
fn sonics(args: &ShowArgs, view: &View, socket: &Path) -> Result<String> {
    let read = |target: &str| -> Result<Value> {
        serde_json::from_str(&client::get(socket, target)?).context("the answer is no JSON")
    };
    let mut answers = Answers::new(args.port.as_deref());
    for table in view.tables.iter().filter_map(|name| Table::named(name)) {
        let mut document = read(&target(args, table))?;
        answers.add_table(table.name, document[table.name].take());
    }
    if view.config {
        answers.add_config(read(sonic::PATH)?);
    }
    Ok(match args.json {
        true => format!("{:#}", view.json(&answers, args.all)),
        false => view.text(&answers, args.all),
    })
}

/// Where a table is asked for: of the port that was named, if its rows belong to ports.
fn target(args: &ShowArgs, table: &Table) -> String {
    match &args.port {
        Some(port) if table.by_port => format!("{}?port={}", table.path, client::encode(port)),
        _ => table.path.to_owned(),
    }
}

/// Latency as a file.
fn latency(args: &ShowArgs, socket: &Path) -> Result<Outcome> {
    if args.what != "latency" {
        bail!("--hgrm and --hlog show latency: weir show latency --hgrm");
    }
    let kind = if args.hgrm { "hgrm" } else { "hlog" };
    let port = args.port.as_ref().map(|port| format!("&port={}", client::encode(port))).unwrap_or_default();
    let flag = if args.window { "&window=true" } else { "" };
    let flag = if args.cumulative { "&cumulative=true" } else { flag };
    OUT.text(&client::get(socket, &format!("/v1/latency.{kind}?part={}{port}{flag}", args.part))?);
    Ok(Outcome::Good)
}

fn look(args: &ShowArgs, text: &dyn Fn() -> Result<String>) -> Result<()> {
    loop {
        let text = text()?;
        if args.watch && OUT.is_terminal() {
            OUT.raw("\x1b[2J\x1b[H");
        }
        say!("{}", text.trim_end());
        if !args.watch || OUT.is_broken() {
            return Ok(());
        }
        std::thread::sleep(LOOK);
    }
}

/// A table, as it is to be printed.
fn rows(args: &ShowArgs, table: &Table, socket: &Path) -> Result<String> {
    if args.port.is_some() && !table.by_port {
        bail!("`weir show {}` is not by port: leave out --port", table.name);
    }
    let body = client::get(socket, &target(args, table))?;
    if args.json {
        return Ok(body);
    }
    let document: Value = serde_json::from_str(&body).context("the answer is no JSON")?;
    let rows = document[table.name].as_array().map_or(&[][..], Vec::as_slice);
    Ok(tables::text(table, rows, args.all))
}

/// The forwarding table: all its pages, in the order of VLAN and address.
fn fdb(args: &ShowArgs, socket: &Path) -> Result<String> {
    let vlan = args.vlan.map(|vlan| vlan.to_string());
    let given = [("port", &args.port), ("mac", &args.mac), ("vlan", &vlan)];
    let mut target = format!("{}?limit={FDB_PAGE}", weir_mgmt::admin::fdb::PATH);
    for (name, value) in given.into_iter().filter_map(|(name, value)| Some((name, value.as_ref()?))) {
        target.push_str(&format!("&{name}={}", client::encode(value)));
    }
    let (mut entries, mut after) = (Vec::new(), String::new());
    loop {
        let body = client::get(socket, &format!("{target}{after}"))?;
        let mut document: Value = serde_json::from_str(&body).context("the answer is no JSON")?;
        if let Value::Array(page) = document["fdb"].take() {
            entries.extend(page);
        }
        if let Some(next) = document["next"].as_str() {
            after = format!("&after={}", client::encode(next));
            continue;
        }
        entries.sort_by_cached_key(tables::fdb_order);
        // One that was pushed elsewhere in the table between two pages is told twice.
        entries.dedup_by_key(|entry| tables::fdb_order(entry));
        document["fdb"] = entries.into();
        return Ok(if args.json { document.to_string() } else { tables::fdb(&document) });
    }
}

/// The flows behind marks, losses, pauses and depth.
fn flows(args: &ShowArgs, socket: &Path) -> Result<String> {
    let priority = args.priority.map(|priority| priority.to_string());
    let window = args.now.then(|| "now".to_owned());
    let limit = args.all.then(|| weir_mgmt::flows::LIMIT.to_string());
    let given = [
        ("port", &args.port),
        ("cause", &args.cause),
        ("priority", &priority),
        ("window", &window),
        ("limit", &limit),
    ];
    document(args, socket, (weir_mgmt::flows::PATH, &given), tables::flows)
}

/// Neighbours, and what they are told.
fn lldp(args: &ShowArgs, socket: &Path) -> Result<String> {
    document(args, socket, (weir_mgmt::lldp::PATH, &[("port", &args.port)]), tables::lldp)
}

/// The answer of a path to what was given, as it is or for people.
fn document(
    args: &ShowArgs,
    socket: &Path,
    (path, given): (&str, &[(&str, &Option<String>)]),
    text: fn(&Value) -> String,
) -> Result<String> {
    let given = given.iter().filter_map(|(name, value)| Some((name, value.as_ref()?)));
    let query: Vec<_> = given.map(|(name, value)| format!("{name}={}", client::encode(value))).collect();
    let body = client::get(socket, &format!("{path}?{}", query.join("&")))?;
    if args.json {
        return Ok(body);
    }
    Ok(text(&serde_json::from_str(&body).context("the answer is no JSON")?))
}

fn events(args: &ShowArgs, socket: &Path) -> Result<()> {
    let stream = client::open(socket, &format!("{}?format=ndjson&follow={}", api::EVENTS, args.watch))?;
    for line in stream.lines() {
        let line = line.context("the switch has gone")?;
        if line.is_empty() {
            continue;
        }
        let event: Value = serde_json::from_str(&line).context("the answer is no JSON")?;
        if args.port.as_ref().is_some_and(|port| event["port"] != *port) {
            continue;
        }
        if args.json {
            say!("{line}");
        } else {
            say!("{}", tables::event(&event));
        }
        if OUT.is_broken() {
            break;
        }
    }
    Ok(())
}
