//! `weir show`: asks a running switch over its socket, prints what it says.

use crate::Outcome;
use crate::cli::ShowArgs;
use anyhow::{Context, Result, bail};
use serde_json::Value;
use std::io::{self, BufRead, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;
use weir_mgmt::table::Table;
use weir_mgmt::{client, server, show as tables};

/// Between two looks of `--watch`.
const LOOK: Duration = Duration::from_secs(1);

pub fn show(args: &ShowArgs) -> Result<Outcome> {
    let socket = socket(args.socket.as_deref())?;
    if args.hgrm || args.hlog {
        return latency(args, &socket);
    }
    let printed = match Table::named(&args.what) {
        Some(table) => look(args, table, &socket),
        None => events(args, &socket),
    };
    match printed {
        // Whoever reads has seen enough.
        Err(error)
            if error.downcast_ref().is_some_and(|e: &io::Error| e.kind() == io::ErrorKind::BrokenPipe) =>
        {
            Ok(Outcome::Good)
        }
        printed => printed.map(|()| Outcome::Good),
    }
}

/// Prints a text as far as somebody reads it.
///
/// # Errors
/// It cannot be written for another reason than that nobody reads any more.
pub fn say(text: &str) -> Result<()> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(()),
    }
}

/// The socket that was named, or that of the only switch there is.
///
/// # Errors
/// There is none, or more than one.
pub fn socket(named: Option<&Path>) -> Result<PathBuf> {
    Ok(match named {
        Some(path) => path.to_owned(),
        None => client::find(&server::default_folder())?,
    })
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
    say(&client::get(socket, &format!("/v1/latency.{kind}?part={}{port}{flag}", args.part))?)?;
    Ok(Outcome::Good)
}

fn look(args: &ShowArgs, table: &Table, socket: &Path) -> Result<()> {
    let target = match &args.port {
        Some(port) => format!("{}?port={}", table.path, client::encode(port)),
        None => table.path.to_owned(),
    };
    let mut out = io::stdout().lock();
    loop {
        let body = client::get(socket, &target)?;
        if args.watch && io::stdout().is_terminal() {
            write!(out, "\x1b[2J\x1b[H")?;
        }
        if args.json {
            writeln!(out, "{}", body.trim_end())?;
        } else {
            let document: Value = serde_json::from_str(&body).context("the answer is no JSON")?;
            let rows = document[table.name].as_array().map_or(&[][..], Vec::as_slice);
            write!(out, "{}", tables::text(table, rows, args.all))?;
        }
        out.flush()?;
        if !args.watch {
            return Ok(());
        }
        std::thread::sleep(LOOK);
    }
}

fn events(args: &ShowArgs, socket: &Path) -> Result<()> {
    let stream = client::open(socket, &format!("/v1/events?format=ndjson&follow={}", args.watch))?;
    let mut out = io::stdout().lock();
    for line in stream.lines() {
        let line = line.context("the switch has gone")?;
        if line.is_empty() {
            continue;
        }
        if args.json {
            writeln!(out, "{line}")?;
        } else {
            let event: Value = serde_json::from_str(&line).context("the answer is no JSON")?;
            writeln!(out, "{}", tables::event(&event))?;
        }
        out.flush()?;
    }
    Ok(())
}
