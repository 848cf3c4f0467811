//! `weir check`: what is wrong with a configuration, and what it comes to.

use crate::Outcome;
use crate::inc;
use crate::kinds::{self, Kind};
use crate::machine::Machine;
use crate::output::{OUT, say, say_err};
use crate::refusal::{self, at, cannot, in_file, refuse, refuse_file};
use crate::run::devices;
use crate::run::memory::{PoolSize, engines_fit, frames_fit};
use crate::run::mgmt;
use crate::run::misfits::misfits;
use anyhow::{Context, Error, Result};
use clap::Args;
use serde::Serialize;
use serde_json::json;
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::path::PathBuf;
use weir_config::{Config, Diagnostic, Explained, Loaded, show_size};
use weir_inc::engine::EngineParams;
use weir_inc::places::Places;
use weir_inc::spec::JobSpec;
use weir_layout::{Grid, counted};
use weir_mgmt::admin::Fault;
use weir_mgmt::admin::inc::job;

/// `weir check`
#[derive(Debug, Args)]
pub struct CheckArgs {
    /// Configuration file.
    pub config: PathBuf,
    /// Print every effective value, where it comes from and why it is so.
    #[arg(long)]
    pub explain: bool,
    /// Also check that this job of in-network aggregation fits, together with the others named here; may be repeated.
    #[arg(long = "job", value_name = "FILE")]
    pub jobs: Vec<PathBuf>,
    /// JSON: what was found, with its places, and what the configuration comes to.
    #[arg(short, long)]
    pub json: bool,
}

/// Reads and checks a configuration file; prints warnings.
///
/// # Errors
/// The file cannot be read, or it has errors: all of them are printed first.
pub fn load(path: &Path) -> Result<Loaded> {
    let text = read(path)?;
    kinds::expect(Kind::Switch, path, &text)?;
    load_text(&path.display().to_string(), &text)
}

/// Columns of values and reasons get no wider.
pub const WIDEST: usize = 40;

/// Longest configuration that is read, bytes. That of 64 ports with every key written out is a tenth of it.
const LONGEST: u64 = 4 << 20;

/// The text of a file, which may be a pipe.
///
/// # Errors
/// It cannot be read, or is longer than any configuration.
pub fn read(path: &Path) -> Result<String> {
    read_at_most(path, LONGEST)
}

/// The same, of `longest` bytes at most.
///
/// # Errors
/// It cannot be read, or is longer.
pub fn read_at_most(path: &Path, longest: u64) -> Result<String> {
    let mut bytes = Vec::new();
    let read = File::open(path).and_then(|file| file.take(longest + 1).read_to_end(&mut bytes));
    read.map_err(cannot("read", path))?;
    if bytes.len() as u64 > longest {
        let what = format!("longer than {} MiB: this is not a configuration", longest >> 20);
        return Err(refuse_file(path, None, what, "name a file of text"));
    }
    let text = String::from_utf8(bytes).map_err(|error| {
        let before = &error.as_bytes()[..error.utf8_error().valid_up_to()];
        let line = before.iter().filter(|byte| **byte == b'\n').count() + 1;
        refuse_file(path, Some(line), format!("not UTF-8: {}", error.utf8_error()), "save it as UTF-8")
    })?;
    // Some editors put a mark of the byte order in front.
    Ok(text.strip_prefix('\u{feff}').map(str::to_owned).unwrap_or(text))
}

/// As [`load`], for a text that is not a file.
///
/// # Errors
/// The text has errors.
pub fn load_text(name: &str, text: &str) -> Result<Loaded> {
    match weir_config::load(name, text) {
        Ok(loaded) => {
            for warning in &loaded.warnings {
                say_err!("{warning}\n");
            }
            Ok(loaded)
        }
        Err(found) => Err(refused(name, &found)),
    }
}

/// Prints what was found wrong with a text: the error to give up with.
pub fn refused(name: &str, found: &[Diagnostic]) -> anyhow::Error {
    for diagnostic in found {
        say_err!("{diagnostic}\n");
    }
    Refused { name: name.to_owned(), found: found.to_vec() }.into()
}

/// A text with errors, which are printed.
#[derive(Debug, thiserror::Error)]
#[error("{name}: {}", errors(found))]
pub struct Refused {
    name: String,
    /// What was found, warnings too.
    pub found: Vec<Diagnostic>,
}

fn errors(found: &[Diagnostic]) -> String {
    let errors: usize = found.iter().filter(|d| d.is_error()).map(|d| d.count).sum();
    counted(errors, "error")
}

pub fn check(args: &CheckArgs) -> Result<Outcome> {
    if args.json {
        return in_json(args);
    }
    let Loaded { config, warnings } = load(&args.config)?;
    let misfits = fits_machine(&config, &args.config)?;
    for misfit in &misfits {
        say_err!("warning: here `weir run` will be refused: {misfit:#}\n");
    }
    let misdated = misdated(&config);
    if let Some(misdated) = &misdated {
        say_err!("warning: {misdated:#}\n");
    }
    if args.explain {
        let mut grid = Grid::new(&["<key", "<value", "<origin", "<why"]);
        for row in config.explain() {
            grid.push([row.key, row.value, row.origin.to_string(), row.why]);
        }
        OUT.text(&grid.body_at_most(WIDEST));
    }
    say!(
        "{}: {}, {} bytes of buffer ({} shared), {}",
        args.config.display(),
        counted(config.ports.len(), "port"),
        config.buffer.size,
        config.buffer.shared,
        counted(warnings.len() + misfits.len() + misdated.iter().len(), "warning")
    );
    for Engine { port, mac, ip, jobs, most_jobs, used, memory, quota, first_qp, last_qp } in
        engines(&config, &args.jobs)?
    {
        let (used, memory, quota) = (show_size(used), show_size(memory), show_size(quota));
        say!(
            "{port}: engine {mac} {ip}: {} using {used} of {memory}, up to {most_jobs} and {quota} each; queue pairs {first_qp} \
             to {last_qp}",
            counted(jobs, "job")
        );
    }
    Ok(Outcome::Good)
}

/// What only the machine shows: memory, and what there is not of what the configuration asks for, files with secrets among it. The
/// latter is no fault of the file, which may be for another machine.
fn fits_machine(config: &Config, path: &Path) -> Result<Vec<Error>> {
    let workers = weir_config::workers(&config.ports);
    let eal_args = devices::eal_args(&config.ports, &config.eal_args, &[])?;
    let pool = PoolSize::of(config, workers, 0);
    let machine = Machine::here();
    pool.fits(&eal_args, workers)
        .and_then(|()| engines_fit(&config.ports, pool, (&eal_args, workers), &machine))
        .with_context(|| format!("{}: 1 error", path.display()))?;
    let mut found = misfits(&config.ports, &eal_args, &machine);
    found.extend(frames_fit(pool, (&eal_args, workers), &machine).err());
    found.extend(mgmt::refused_files(&config.mgmt));
    Ok(found)
}

fn misdated(config: &Config) -> Option<Error> {
    mgmt::misdated(&config.mgmt).map(|(what, remedy)| refuse("mgmt.tls_cert", what, remedy))
}

/// The same as one document.
fn in_json(args: &CheckArgs) -> Result<Outcome> {
    let Loaded { config, warnings } = load(&args.config)?;
    let mut misfits = fits_machine(&config, &args.config)?;
    misfits.extend(misdated(&config));
    let here = misfits.iter().flat_map(|error| refusal::faults(error, "weir run"));
    let mut told = json!({
        "config": args.config.display().to_string(),
        "error": null,
        "warnings": warnings.iter().map(Fault::from).chain(here).collect::<Vec<_>>(),
        "ports": config.ports.len(),
        "buffer_bytes": config.buffer.size,
        "shared_bytes": config.buffer.shared,
        "engines": engines(&config, &args.jobs)?,
    });
    if args.explain {
        let value = |row: &Explained| json!({ "key": row.key, "value": row.value, "origin": row.origin.to_string(), "why": row.why });
        told["values"] = config.explain().iter().map(value).collect();
    }
    OUT.json(&told);
    Ok(Outcome::Good)
}

/// What an engine has, and what of it jobs would take; bytes.
#[derive(Debug, Serialize)]
struct Engine {
    port: String,
    mac: String,
    ip: String,
    jobs: usize,
    most_jobs: usize,
    used: u64,
    memory: u64,
    quota: u64,
    first_qp: u32,
    last_qp: u32,
}

/// What each engine has, and what of it these jobs would take.
fn engines(config: &Config, files: &[PathBuf]) -> Result<Vec<Engine>> {
    let mut found = Vec::new();
    let mut jobs = Vec::new();
    for path in files {
        let spec = in_file(path, job(read(path)?.as_bytes()))?;
        jobs.push((path, spec));
    }
    let all: Vec<_> = config.ports.iter().filter_map(|port| Some((port, port.engine?))).collect();
    let is_its =
        |name: &str, spec: &JobSpec| spec.port.as_deref().map_or(all.len() == 1, |port| port == name);
    if let Some((path, spec)) =
        jobs.iter().find(|(_, spec)| !all.iter().any(|(port, _)| is_its(&port.name, spec)))
    {
        let names: Vec<_> = all.iter().map(|(port, _)| port.name.as_str()).collect();
        let what = format!("job {} is for none of the engines here", spec.id);
        let remedy = format!("say port = one of {}", names.join(", "));
        return Err(refuse_file(path, None, what, remedy));
    }
    for (port, engine) in &all {
        let mut places = Places::new(engine.params);
        let mut taken = 0;
        for (path, spec) in jobs.iter().filter(|(_, spec)| is_its(&port.name, spec)) {
            let fits = inc::fits(spec, engine, port.mtu).and_then(|params| Ok(places.take(&params)?));
            at(format_args!("{}: port {}", path.display(), port.name), fits)?;
            taken += 1;
        }
        let EngineParams { jobs, quota, first_qpn, qpns, .. } = engine.params;
        let (used, memory) = places.memory();
        found.push(Engine {
            port: port.name.clone(),
            mac: engine.address.mac.to_string(),
            ip: engine.address.ip.to_string(),
            jobs: taken,
            most_jobs: jobs,
            used,
            memory,
            quota,
            first_qp: first_qpn.0,
            last_qp: first_qpn.0 + qpns - 1,
        });
    }
    Ok(found)
}
