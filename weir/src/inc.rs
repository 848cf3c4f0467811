//! `weir inc`: jobs of in-network aggregation on a running switch.

use crate::Outcome;
use crate::check;
use crate::controller::{self, ControllerArgs};
use crate::output::{OUT, say};
use crate::refusal::{at, in_file, refuse};
use crate::which::Which;
use anyhow::Result;
use clap::{Args, Subcommand};
use serde_json::Value;
use std::path::PathBuf;
use weir_config::EngineConfig;
use weir_inc::params::JobParams;
use weir_inc::spec::JobSpec;
use weir_mgmt::admin::inc::{PATH, job};
use weir_mgmt::api::documents::{JobDone, json};
use weir_mgmt::client;
use weir_mgmt::show as tables;
use weir_mgmt::table::Table;

/// `weir inc`
#[derive(Debug, Subcommand)]
pub enum IncCommand {
    /// Post a job to an engine of a running switch.
    Add(AddArgs),
    /// End a job: its ranks are told, then it is forgotten.
    End(EndArgs),
    /// List jobs, as `weir show inc`.
    List(ListArgs),
    /// Plan jobs for the hosts of a fabric, place their ranks, post jobs to its switches, detect failures.
    Controller(ControllerArgs),
}

/// `weir inc add`
#[derive(Debug, Args)]
pub struct AddArgs {
    /// Files with a job each, JSON.
    #[arg(required = true)]
    pub jobs: Vec<PathBuf>,
    /// JSON, a document for each file.
    #[arg(short, long)]
    pub json: bool,
    /// Which switch.
    #[command(flatten)]
    pub which: Which,
}

/// `weir inc end`
#[derive(Debug, Args)]
pub struct EndArgs {
    /// Name of the job: a number.
    pub job: u32,
    /// Port of its engine, where the switch has several.
    #[arg(long)]
    pub port: Option<String>,
    /// JSON, as the switch answers it.
    #[arg(short, long)]
    pub json: bool,
    /// Which switch.
    #[command(flatten)]
    pub which: Which,
}

/// `weir inc list`
#[derive(Debug, Args)]
pub struct ListArgs {
    /// JSON, as `weir show inc --json`.
    #[arg(short, long)]
    pub json: bool,
    /// Which switch.
    #[command(flatten)]
    pub which: Which,
}

pub fn inc(command: &IncCommand) -> Result<Outcome> {
    match command {
        IncCommand::Add(args) => add(args)?,
        IncCommand::End(args) => end(args)?,
        IncCommand::List(args) => list(args)?,
        IncCommand::Controller(args) => return controller::controller(args),
    }
    Ok(Outcome::Good)
}

/// The job as an engine behind a port that carries frames of `mtu` bytes would have it.
///
/// # Errors
/// It is no job, or its frames are longer.
pub fn fits(spec: &JobSpec, engine: &EngineConfig, mtu: u16) -> Result<JobParams> {
    let params = at(format_args!("job {}", spec.id), spec.params(&engine.address))?;
    params.check()?;
    let longest = params.longest_frame();
    if longest > usize::from(mtu) {
        let (id, packet) = (spec.id, params.mtu);
        let what =
            format!("packets of {packet} bytes make frames of up to {longest}, the port's mtu is {mtu}");
        return Err(refuse(
            format!("job {id}"),
            what,
            "make the packets of the job shorter, or the port's mtu larger",
        ));
    }
    Ok(params)
}

fn add(args: &AddArgs) -> Result<()> {
    let socket = args.which.socket()?;
    for path in &args.jobs {
        let text = check::read(path)?;
        // What is no job is found with its line before anybody is asked.
        in_file(path, job(text.as_bytes()))?;
        let answer = at(path.display(), client::order(&socket, PATH, &text))?;
        let said: JobDone = client::read(&answer)?;
        if args.json {
            OUT.json(&json(&said));
            continue;
        }
        say!("job {} on {}: {} bytes", said.job, said.port, said.memory_bytes.unwrap_or(0));
    }
    Ok(())
}

fn end(args: &EndArgs) -> Result<()> {
    let port = args.port.as_deref().map(|port| format!("?port={}", client::encode(port))).unwrap_or_default();
    let answer = client::delete(&args.which.socket()?, &format!("{PATH}/{}{port}", args.job))?;
    match args.json {
        true => OUT.json(&client::read(&answer)?),
        false => say!("job {}: its ranks are told", args.job),
    }
    Ok(())
}

fn list(args: &ListArgs) -> Result<()> {
    let Some(table) = Table::named("inc") else { return Ok(()) };
    let body = client::get(&args.which.socket()?, table.path)?;
    if args.json {
        OUT.json(&client::read(&body)?);
        return Ok(());
    }
    let document: Value = client::read(&body)?;
    let rows = document[table.name].as_array().map_or(&[][..], Vec::as_slice);
    say!("{}", tables::text(table, rows, true).trim_end());
    Ok(())
}
