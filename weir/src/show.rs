//! `weir show`: asks a running switch over its socket, prints what it says.

use crate::Outcome;
use crate::output::{self, OUT, say};
use crate::refusal::refuse;
use crate::which::Which;
use anyhow::{Error, Result};
use clap::Args;
use clap::builder::PossibleValuesParser;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::path::Path;
use std::time::Duration;
use weir_dataplane::flows::Cause;
use weir_layout::Grid;
use weir_mgmt::api::documents::{Event, FdbPage, json};
use weir_mgmt::lldp::PATH as LLDP;
use weir_mgmt::sonic::{ALL, Also, Answers, View};
use weir_mgmt::table::Table;
use weir_mgmt::{api, client, show as tables, sonic};

/// `weir show`
#[derive(Debug, Args)]
pub struct ShowArgs {
    /// What to look at.
    #[arg(value_parser = PossibleValuesParser::new(first_words()))]
    pub what: String,
    #[arg(value_name = "WORDS", help = sonics_words())]
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
    /// Include rows in which nothing was counted.
    #[arg(long)]
    pub all: bool,
    /// With events: those after this one only, by its number.
    #[arg(long, value_name = "ID")]
    pub since: Option<u64>,
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
        let place = if args.mac.is_some() { "--mac" } else { "--vlan" };
        return Err(refuse(place, "selects entries of the forwarding table", "weir show fdb --mac ..."));
    }
    if args.what != "flows" && (args.cause.is_some() || args.priority.is_some() || args.now) {
        return Err(refuse("--cause, --priority, --now", "they select flows", "weir show flows --cause ..."));
    }
    if args.what != EVENTS && args.since.is_some() {
        return Err(refuse("--since", "selects events", "weir show events --since ..."));
    }
    let words = std::iter::once(args.what.as_str()).chain(args.more.iter().map(String::as_str));
    let words = words.collect::<Vec<_>>().join(" ");
    let document = DOCUMENTS.iter().find(|(name, _)| *name == words);
    match (Table::named(&words), View::named(&words), document) {
        (Some(table), ..) => look(args, &|| rows(args, table, &socket))?,
        (None, Some(view), _) => look(args, &|| sonics(args, view, &socket))?,
        (None, None, Some((_, look_at))) => look(args, &|| look_at(args, &socket))?,
        (None, None, None) if words == EVENTS => events(args, &socket)?,
        (None, None, None) => return Err(unknown(&args.what, &words)),
    }
    Ok(Outcome::Good)
}

/// What is no table, and how it is asked for.
type Look = fn(&ShowArgs, &Path) -> Result<String>;
const DOCUMENTS: [(&str, Look); 4] = [("flows", flows), ("lldp", lldp), ("fdb", fdb), ("mac", fdb)];
const EVENTS: &str = "events";

/// What may stand first: tables, what is no table, and the first word of each of SONiC's commands.
fn first_words() -> Vec<&'static str> {
    let tables = weir_mgmt::table::ALL.iter().map(|table| table.name);
    let all = tables.chain(DOCUMENTS.map(|(name, _)| name)).chain([EVENTS]);
    let mut words: Vec<&str> = Vec::new();
    for word in all.chain(ALL.iter().map(|view| first_word(view.words))) {
        if !words.contains(&word) {
            words.push(word);
        }
    }
    words
}

fn first_word(words: &str) -> &str {
    words.split(' ').next().unwrap_or(words)
}

/// SONiC's commands, those that begin alike together.
fn sonics_words() -> String {
    let mut all: Vec<(&str, Vec<&str>)> = Vec::new();
    for view in ALL {
        let (first, more) = view.words.split_once(' ').unwrap_or((view.words, ""));
        match all.last_mut().filter(|(last, _)| *last == first) {
            Some((_, found)) => found.push(more),
            None => all.push((first, vec![more])),
        }
    }
    let each = all.into_iter().map(|(first, more)| format!("{first} {}", more.join("|")));
    format!("SONiC's commands, with its columns: {}", each.collect::<Vec<_>>().join(", "))
}

/// Words that name nothing, and what there is that begins like them.
fn unknown(word: &str, words: &str) -> Error {
    let alike = ALL.iter().filter(|view| first_word(view.words) == word);
    let mut grid = Grid::new(&["<", "<words", "<what"]);
    alike.for_each(|view| {
        grid.push([String::new(), format!("weir show {}", view.words), view.what.to_owned()]);
    });
    let place = format!("`{words}`");
    match grid.body().trim_end() {
        "" => refuse(place, "unknown words", format!("write weir show {word}: it takes no further words")),
        all => refuse(place, "unknown words", format!("write one of\n{all}")),
    }
}

/// What SONiC would show.
fn sonics(args: &ShowArgs, view: &View, socket: &Path) -> Result<String> {
    let mut answers = Answers::new(args.port.as_deref());
    for table in view.tables.iter().filter_map(|name| Table::named(name)) {
        let mut document: Value = client::ask(socket, &target(args, table))?;
        client::rows(&document, table.name)?;
        answers.add_table(table.name, document[table.name].take());
    }
    match view.also {
        Also::Nothing => {}
        Also::Config => answers.add_config(client::ask(socket, sonic::PATH)?),
        Also::Lldp => {
            let port = args.port.as_ref().map(|port| format!("?port={}", client::encode(port)));
            answers.add_lldp(client::ask(socket, &format!("{LLDP}{}", port.unwrap_or_default()))?);
        }
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
        return Err(refuse("--hgrm, --hlog", "they show latency", "weir show latency --hgrm"));
    }
    let kind = if args.hgrm { "hgrm" } else { "hlog" };
    let port = args.port.as_ref().map(|port| format!("&port={}", client::encode(port))).unwrap_or_default();
    let flag = if args.window { "&window=true" } else { "" };
    let flag = if args.cumulative { "&cumulative=true" } else { flag };
    OUT.text(&client::get(socket, &format!("/v1/latency.{kind}?part={}{port}{flag}", args.part))?);
    Ok(Outcome::Good)
}

fn look(args: &ShowArgs, text: &dyn Fn() -> Result<String>) -> Result<()> {
    if args.watch {
        output::end_with_reader();
    }
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
        return Err(refuse("--port", format!("`weir show {}` is not by port", table.name), "leave it out"));
    }
    let body = client::get(socket, &target(args, table))?;
    if args.json {
        return Ok(body);
    }
    let document: Value = client::read(&body)?;
    Ok(tables::text(table, client::rows(&document, table.name)?, args.all))
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
        let mut page: FdbPage = client::ask(socket, &format!("{target}{after}"))?;
        entries.append(&mut page.fdb);
        if let Some(next) = &page.next {
            after = format!("&after={}", client::encode(next));
            continue;
        }
        entries.sort_by_cached_key(tables::fdb_order);
        // One that was pushed elsewhere in the table between two pages is told twice.
        entries.dedup_by_key(|entry| tables::fdb_order(entry));
        page.fdb = entries;
        return Ok(if args.json { json(&page).to_string() } else { tables::fdb(&page) });
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
fn document<T: DeserializeOwned>(
    args: &ShowArgs,
    socket: &Path,
    (path, given): (&str, &[(&str, &Option<String>)]),
    text: fn(&T) -> String,
) -> Result<String> {
    let given = given.iter().filter_map(|(name, value)| Some((name, value.as_ref()?)));
    let query: Vec<_> = given.map(|(name, value)| format!("{name}={}", client::encode(value))).collect();
    let body = client::get(socket, &format!("{path}?{}", query.join("&")))?;
    Ok(if args.json { body } else { text(&client::read(&body)?) })
}

fn events(args: &ShowArgs, socket: &Path) -> Result<()> {
    let port = args.port.as_ref().map(|port| format!("&port={}", client::encode(port))).unwrap_or_default();
    let since = args.since.map(|since| format!("&since={since}")).unwrap_or_default();
    let target = format!("{}?format=ndjson&follow={}{port}{since}", api::EVENTS, args.watch);
    if args.watch {
        output::end_with_reader();
    }
    for event in client::lines::<Event>(client::open(socket, &target)?) {
        let event = event?;
        match args.json {
            true => say!("{}", json(&event)),
            false => say!("{}", tables::event(&event)),
        }
        if OUT.is_broken() {
            break;
        }
    }
    Ok(())
}
