//! `weir sim`: a fabric in virtual time, from a file; a summary on the terminal, everything in files.

mod bar;
mod compare;
mod many;
mod replay;

use crate::Outcome;
use crate::check;
use crate::kinds::{self, Kind};
use crate::output::{say, say_err};
use crate::refusal::cannot;
use crate::run::Stop;
use anyhow::{Result, bail};
use bar::RunBar;
use clap::{Args, Subcommand, ValueEnum};
use std::num::NonZeroUsize;
use std::ops::ControlFlow;
use std::path::Path;
use std::path::PathBuf;
use weir_layout::{Unit, counted};
use weir_sim::fabric::{self, FlowsFormat, Report};
use weir_sim::file::Part;
use weir_sim::sweep::holds_a_sweep;

/// Collectives that are printed.
const MAX_COLLECTIVES: usize = 8;

/// `weir sim`
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub struct SimArgs {
    /// Many runs instead of one.
    #[command(subcommand)]
    pub many: Option<SimCommand>,
    /// Description of the fabric and its traffic.
    #[arg(required = true)]
    pub file: Option<PathBuf>,
    /// Write the report as page (report.html), JSON and tables (flows, ports) into this folder. Tables that a run before has left there
    /// and this one has not are removed; nothing else is.
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// How the table of flows is written: as text, flows.csv, or as columns with types, flows.parquet.
    #[arg(long, value_name = "FORMAT", requires = "out", default_value = "csv")]
    pub flows: TableFormat,
    /// Print the report as JSON instead of a summary.
    #[arg(short, long)]
    pub json: bool,
    /// Threads at most; all cores unless given. The report is the same for any number. Where one thread plays all although you ask for
    /// more, a note on standard error says why.
    #[arg(long, value_name = "N")]
    pub threads: Option<NonZeroUsize>,
}

/// How a table is written.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum TableFormat {
    /// Text.
    Csv,
    /// Apache Parquet.
    Parquet,
}

impl From<TableFormat> for FlowsFormat {
    fn from(format: TableFormat) -> Self {
        match format {
            TableFormat::Csv => Self::Csv,
            TableFormat::Parquet => Self::Parquet,
        }
    }
}

/// As many as this process may run on.
fn cores() -> NonZeroUsize {
    std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN)
}

/// `weir sim sweep`, `weir sim merge`, `weir sim compare`, `weir sim replay` and `weir sim schema`
#[derive(Debug, Subcommand)]
pub enum SimCommand {
    /// Play the points of a plan; those whose result is in DIR already are left out.
    Sweep(many::SweepArgs),
    /// Put the results of shards together: a table, what is missing, and a digest of it all.
    Merge(many::MergeArgs),
    /// Put results beside one another: figures, the difference of each to the first, and a page of their distributions.
    Compare(compare::CompareArgs),
    /// Put a capture through a switch in virtual time, and say where the result differs from what was captured.
    Replay(replay::ReplayArgs),
    /// Print the JSON Schema of fabric files, for editors.
    Schema,
}

pub fn sim(args: &SimArgs) -> Result<Outcome> {
    match (&args.many, &args.file) {
        (Some(SimCommand::Sweep(args)), _) => many::sweep(args),
        (Some(SimCommand::Merge(args)), _) => many::merge(args),
        (Some(SimCommand::Compare(args)), _) => compare::compare(args),
        (Some(SimCommand::Replay(args)), _) => replay::replay(args),
        (Some(SimCommand::Schema), _) => {
            say!("{:#}", fabric::json_schema());
            Ok(Outcome::Good)
        }
        (None, Some(file)) => one(file, args),
        (None, None) => unreachable!("the command line requires a file"),
    }
}

/// Longest fabric that is read, bytes: flows may stand in it one by one.
const LONGEST: u64 = 256 << 20;

fn one(file: &Path, args: &SimArgs) -> Result<Outcome> {
    let (out, json) = (args.out.as_deref(), args.json);
    let name = file.display().to_string();
    let text = check::read_at_most(file, LONGEST)?;
    kinds::expect(Kind::Fabric, file, &text)?;
    let spec = fabric::load(&name, &text)?;
    // Not after hours of a run.
    out.map(folder).transpose()?;
    let bar = RunBar::new(&spec.name);
    // While the fabric is built there is nothing to leave: a signal ends it.
    let mut stop = None;
    let report = fabric::run_with(&spec, args.threads.unwrap_or_else(cores).get(), &mut |progress| {
        // Whoever sees how far it is can stop it.
        if stop.is_none() {
            stop = Stop::on_signal().ok();
        }
        bar.show(progress);
        match stop.as_ref().is_some_and(Stop::asked) {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    })?;
    bar.end();
    report.warnings.iter().for_each(|warning| say_err!("{warning}\n"));
    let several = args.threads.filter(|threads| threads.get() > 1);
    if let (Some(threads), Some(why)) = (several, report.undivided) {
        say_err!("{}: one thread of {threads} played it: {why}", report.name);
    }
    if json {
        say!("{}", report.to_json());
    } else {
        print(&report);
    }
    if let Some(dir) = out {
        let Written { files, removed } = write(dir, &report, args.flows.into())?;
        if !json {
            say!("  written   {}/{}", dir.display(), files.join(", "));
        }
        if !json && !removed.is_empty() {
            say!("  removed   {}/{}, of a run before", dir.display(), removed.join(", "));
        }
    }
    Ok(if report.findings.is_empty() { Outcome::Good } else { Outcome::Bad })
}

fn print(r: &Report) {
    say!("{}: profile {}, seed {}, config {}, weir {}", r.name, r.profile, r.seed, r.config_hash, r.weir);
    say!("  {} of virtual time, {} events", Unit::MS.digits(3).text(r.end_ns as f64), r.events);
    say!("  flows     {} of {} delivered", r.flows_done, r.flows_finite);
    if let Some(fct) = &r.fct_ns {
        let [p50, p99, max] = [fct.p50, fct.p99, fct.max].map(|ns| Unit::US.text(ns as f64));
        say!("  fct       p50 {p50}, p99 {p99}, max {max}");
    }
    if let Some(s) = &r.slowdown_milli {
        let [p50, p99, max] = [s.p50, s.p99, s.max].map(|milli| Unit::MILLI.text(milli as f64));
        say!("  slowdown  p50 {p50}, p99 {p99}, max {max}");
    }
    if r.level.has_frames() {
        let (sent, dropped, lost) = (r.frames_sent, r.frames_dropped, r.frames_lost);
        say!("  frames    {sent} sent, {dropped} dropped, {lost} lost on links");
        let (pauses, marks, queue) = (r.pauses(), r.marks(), r.queue_max());
        let by_hosts = match r.host_pfc() {
            0 => String::new(),
            frames => format!(" of switches, {} of hosts", counted(frames, "PFC frame")),
        };
        say!(
            "  pfc       {pauses} pause frames{by_hosts}, marks {marks}, longest queue {}",
            counted(queue, "byte")
        );
    }
    for c in r.collectives.iter().take(MAX_COLLECTIVES) {
        say!("  {}", c.line());
    }
    if r.collectives.len() > MAX_COLLECTIVES {
        say!("  ... and {} more in the report", r.collectives.len() - MAX_COLLECTIVES);
    }
    if let Some(line) = r.latency.as_ref().and_then(weir_sim::fabric::Latency::line) {
        say!("  latency   {line}");
    }
    r.causes().iter().for_each(|sentence| say!("  {sentence}"));
    let good = || {
        if !r.level.has_frames() {
            return "every flow that has an end was delivered".to_owned();
        }
        let lost = [(r.frames_lost, "links lost"), (r.frames_dropped, "switches dropped")];
        let lost: Vec<String> = lost
            .iter()
            .filter(|(n, _)| *n > 0)
            .map(|(n, who)| format!("{who} {}", counted(*n, "frame")))
            .collect();
        match &lost[..] {
            [] => "every flow that has an end was delivered, nothing was lost".to_owned(),
            lost => {
                format!("every flow that has an end was delivered, although {}", lost.join(" and "))
            }
        }
    };
    let found = if r.findings.is_empty() { good() } else { r.findings.join("; ") };
    say!("  verdict: {}: {found}", r.verdict);
}

/// Makes the folder of a report.
fn folder(dir: &Path) -> Result<()> {
    if holds_a_sweep(dir) {
        bail!(
            "{}: has a sweep, and would hold two results; give the report a folder of its own",
            dir.display()
        );
    }
    std::fs::create_dir_all(dir).map_err(cannot("make the folder", dir))
}

/// What is in the folder of a report.
struct Written {
    /// Names of the files of this run.
    files: Vec<&'static str>,
    /// Names of tables of a run before, which this run has not; they were removed.
    removed: Vec<&'static str>,
}

/// Writes everything there is, or nothing.
fn write(dir: &Path, report: &Report, flows: FlowsFormat) -> Result<Written> {
    let tables = report.all_tables(flows)?;
    let absent: Vec<&str> =
        tables.iter().filter(|(_, table)| table.is_none()).map(|(name, _)| *name).collect();
    let pages = report.pages().map(|(name, text)| (name, text.into_bytes()));
    let tables = tables.into_iter().filter_map(|(name, table)| Some((name, table?)));
    let beside = |(name, content): (&'static str, Vec<u8>)| {
        let path = dir.join(name);
        let part = Part::with(&path, &content).map_err(cannot("write", &path))?;
        Ok((name, part))
    };
    let parts = pages.into_iter().chain(tables).map(beside).collect::<Result<Vec<_>>>()?;
    let mut files = Vec::with_capacity(parts.len());
    for (name, part) in parts {
        part.take_place().map_err(cannot("write", &dir.join(name)))?;
        files.push(name);
    }
    // A folder tells of one run.
    let mut removed = Vec::new();
    for name in absent {
        let path = dir.join(name);
        if fabric::is_table(&path) {
            std::fs::remove_file(&path).map_err(cannot("remove", &path))?;
            removed.push(name);
        }
    }
    Ok(Written { files, removed })
}
