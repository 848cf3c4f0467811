//! Why a command did nothing: the error it gives up with, and the document that `--json` promises, the same for every command, on
//! one line as those that stream want it.
//!
//! Each fault of the document has a place and says what to change. Errors of weir's own commands bring both ([`Refusal`],
//! [`cannot`]); of what other crates refuse they follow from its type.

use crate::check::Refused;
use anyhow::Error;
use clap::error::{ContextKind, ContextValue};
use serde_json::{Value, json};
use std::error::Error as StdError;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use weir_inc::spec::SpecError;
use weir_mgmt::admin::Fault;
use weir_mgmt::client::ClientError;
use weir_sim::compare::CompareError;
use weir_sim::fabric::FabricError;
use weir_sim::golden::GoldenError;
use weir_sim::sweep::SweepError;

/// Something a command does not do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}{what}; {remedy}", prefix(place))]
pub struct Refusal {
    place: String,
    /// The file that is the place, and the line in it, from 1.
    file: Option<String>,
    line: Option<usize>,
    what: String,
    remedy: String,
}

fn prefix(place: &str) -> String {
    if place.is_empty() { String::new() } else { format!("{place}: ") }
}

/// What a command gives up with: the option, file or port at fault, what is wrong there, and what to change. The place is empty where
/// whoever hands the error on names it ([`at`]).
pub fn refuse(place: impl Into<String>, what: impl Into<String>, remedy: impl Into<String>) -> Error {
    Refusal { place: place.into(), file: None, line: None, what: what.into(), remedy: remedy.into() }.into()
}

/// The same where the place is a file, and a line of it.
pub fn refuse_file(
    path: &Path,
    line: Option<usize>,
    what: impl Into<String>,
    remedy: impl Into<String>,
) -> Error {
    let file = path.display().to_string();
    let place = line.map_or_else(|| file.clone(), |line| format!("{file}:{line}"));
    Refusal { place, file: Some(file), line, what: what.into(), remedy: remedy.into() }.into()
}

/// A file, or what stands for one, that something is not to be done with.
#[derive(Debug, thiserror::Error)]
#[error("cannot {doing} {}", path.display())]
struct FileError {
    doing: &'static str,
    path: PathBuf,
    source: io::Error,
}

/// The error of a file: `doing` is the verb, "read" or "write".
pub fn cannot(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Error + use<> {
    let path = path.to_owned();
    move |source| FileError { doing, path, source }.into()
}

/// Where an error is, for those that do not know it themselves.
#[derive(Clone, Debug)]
struct Place {
    name: String,
    /// It is a file.
    is_file: bool,
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.name)
    }
}

/// The same error, of which `place` is named as where it is.
pub fn at<T, E>(place: impl std::fmt::Display, result: Result<T, E>) -> anyhow::Result<T>
where
    Result<T, E>: anyhow::Context<T, E>,
{
    anyhow::Context::with_context(result, || Place { name: place.to_string(), is_file: false })
}

/// The same error, which is about the file `path`.
pub fn in_file<T, E>(path: &Path, result: Result<T, E>) -> anyhow::Result<T>
where
    Result<T, E>: anyhow::Context<T, E>,
{
    anyhow::Context::with_context(result, || Place { name: path.display().to_string(), is_file: true })
}

/// An error with its causes, on one line. A cause that the words before end with is not told again.
pub fn told<'a>(causes: impl Iterator<Item = &'a (dyn StdError + 'static)>) -> String {
    causes.map(ToString::to_string).fold(String::new(), |told, next| match told.is_empty() {
        true => next,
        false if told.ends_with(&next) => told,
        false => format!("{told}: {next}"),
    })
}

/// `error`: what is wrong, on one line; `faults`: one by one, as the management API tells them. `command`: the words it was
/// asked with, `weir show`.
pub fn document(error: &Error, command: &str) -> Value {
    let text = told(error.chain());
    // Faults stand on lines of their own behind what the switch answers.
    let is_answer = error.chain().any(|cause| cause.is::<Refused>() || cause.is::<ClientError>());
    let lines = text.lines().map(str::trim).take(if is_answer { 1 } else { usize::MAX });
    json!({ "error": lines.collect::<Vec<_>>().join(" "), "faults": faults(error, command) })
}

/// What is wrong one by one, each with a place and what to change.
pub fn faults(error: &Error, command: &str) -> Vec<Fault> {
    let place = error.downcast_ref::<Place>();
    let mut faults = error.chain().find_map(of_cause).unwrap_or_default();
    if faults.is_empty() {
        faults.push(Fault { detail: format!("{:#}", error.root_cause()), ..Fault::default() });
    }
    for fault in &mut faults {
        if let Some(place) = place.filter(|place| place.is_file && fault.path.is_empty()) {
            fault.file = Some(place.name.clone());
        }
        if fault.path.is_empty() {
            fault.path = place.map_or_else(|| command.to_owned(), |place| place.name.clone());
        }
        if fault.remedy.is_empty() {
            fault.remedy = format!("{command} --help says what it takes");
        }
    }
    faults
}

/// The same for what is wrong with the command line.
pub fn usage(error: &clap::Error, command: &str) -> Value {
    let text = error.to_string();
    let what = text.lines().map(str::trim).take_while(|line| !line.starts_with("Usage:"));
    let what = what.filter(|line| !line.is_empty()).collect::<Vec<_>>().join(" ");
    let what = what.trim_start_matches("error: ");
    let of = |kind: ContextKind| match error.get(kind)? {
        ContextValue::String(text) => Some(text.clone()),
        ContextValue::Strings(all) if !all.is_empty() => Some(all.join(", ")),
        _ => None,
    };
    let place = of(ContextKind::InvalidArg).or_else(|| of(ContextKind::InvalidSubcommand));
    let remedy = match (
        of(ContextKind::SuggestedArg).or_else(|| of(ContextKind::SuggestedValue)),
        of(ContextKind::ValidValue),
    ) {
        (Some(near), _) => format!("write {near}"),
        (None, Some(all)) => format!("write one of {all}"),
        (None, None) => format!("{command} --help says what it takes"),
    };
    let fault = Fault {
        path: place.unwrap_or_else(|| command.to_owned()),
        detail: what.to_owned(),
        remedy,
        ..Fault::default()
    };
    json!({ "error": what, "faults": [fault] })
}

/// What an error says of its place and of what to change; what is left empty is filled by [`document`].
fn of_cause(cause: &(dyn StdError + 'static)) -> Option<Vec<Fault>> {
    if let Some(refused) = cause.downcast_ref::<Refused>() {
        return Some(refused.found.iter().filter(|found| found.is_error()).map(Fault::from).collect());
    }
    let one = |path: String, remedy: &str| {
        vec![Fault { path, detail: cause.to_string(), remedy: remedy.to_owned(), ..Fault::default() }]
    };
    if let Some(Refusal { place, file, line, what, remedy }) = cause.downcast_ref() {
        return Some(vec![Fault {
            path: place.clone(),
            file: file.clone(),
            line: *line,
            detail: what.clone(),
            remedy: remedy.clone(),
            ..Fault::default()
        }]);
    }
    if let Some(FileError { path, source, .. }) = cause.downcast_ref() {
        return Some(of_file(path, cause, source));
    }
    if let Some(error) = cause.downcast_ref() {
        return Some(of_client(error));
    }
    if let Some(error) = cause.downcast_ref() {
        return Some(of_fabric(error));
    }
    if let Some(error) = cause.downcast_ref() {
        return Some(of_sweep(error));
    }
    if let Some(error) = cause.downcast_ref::<CompareError>() {
        return Some(match error {
            CompareError::File { path, error } => of_file(path, cause, error),
            CompareError::Sweep(error) => of_sweep(error),
            CompareError::Count { count: 0 | 1, .. } => {
                one("RESULT".into(), "give 2 to 16 settings: more folders, or sweeps with more values")
            }
            CompareError::Count { .. } => {
                one("RESULT".into(), "give 2 to 16 settings: fewer folders, or sweeps with fewer values")
            }
            CompareError::Empty { path, refused: Some(_) } => one(
                path.display().to_string(),
                "mend what was refused, and play it with `weir sim sweep` into another folder",
            ),
            CompareError::Nothing(path)
            | CompareError::NoReport { path, .. }
            | CompareError::Layout { path, .. }
            | CompareError::Empty { path, .. } => {
                one(path.display().to_string(), "play it with `weir sim FILE --out DIR` or `weir sim sweep`")
            }
        });
    }
    if let Some(error) = cause.downcast_ref::<GoldenError>() {
        return Some(one(
            error.place().display().to_string(),
            "docs/testing.md, \"Published data\", says how a data set looks",
        ));
    }
    if let Some(error) = cause.downcast_ref::<serde_json::Error>() {
        let (line, column) = (Some(error.line()), Some(error.column()));
        let remedy = "write JSON as docs/inc.md describes it".to_owned();
        return Some(vec![Fault { detail: error.to_string(), remedy, line, column, ..Fault::default() }]);
    }
    if cause.is::<SpecError>() {
        return Some(one(String::new(), "docs/inc.md says what a job is"));
    }
    cause.downcast_ref().map(|error: &io::Error| {
        vec![Fault { detail: error.to_string(), remedy: of_kind(error).to_owned(), ..Fault::default() }]
    })
}

fn of_file(path: &Path, cause: &(dyn StdError + 'static), error: &io::Error) -> Vec<Fault> {
    let path = path.display().to_string();
    let mut detail = told(anyhow::Chain::new(cause));
    if !detail.contains(&error.to_string()) {
        detail = format!("{detail}: {error}");
    }
    vec![Fault {
        file: Some(path.clone()),
        path,
        detail,
        remedy: of_kind(error).to_owned(),
        ..Fault::default()
    }]
}

/// What to do about what the system says.
fn of_kind(error: &io::Error) -> &'static str {
    match error.kind() {
        ErrorKind::NotFound => "name what is there, or make it",
        ErrorKind::PermissionDenied => "run it as a user who may, or change the rights of it",
        ErrorKind::InvalidData => "name a file of text in UTF-8",
        ErrorKind::AlreadyExists => "name another place, or move away what is there",
        ErrorKind::IsADirectory => "name a file in it",
        ErrorKind::NotADirectory => "one of its folders is a file: name another place",
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => "make room, or name another place",
        ErrorKind::ConnectionRefused | ErrorKind::ConnectionReset => {
            "see whether the program that listens there still runs"
        }
        ErrorKind::AddrInUse => "stop the program that has it, or name another place",
        ErrorKind::TimedOut | ErrorKind::WouldBlock => {
            "ask again; if nothing answers, see whether the program is held up"
        }
        _ => "see what the system says of it (dmesg), or name another place",
    }
}

fn of_client(error: &ClientError) -> Vec<Fault> {
    let one = |path: &str, remedy: &str| {
        let (detail, remedy) = (error.to_string(), remedy.to_owned());
        vec![Fault { path: path.to_owned(), detail, remedy, ..Fault::default() }]
    };
    match error {
        ClientError::Nobody(_) => one("--socket", "start `weir run` or `weir lab`, or say --socket PATH"),
        ClientError::Denied(_) => {
            one("--socket", "ask as the user it runs as or as root, or say --socket PATH")
        }
        ClientError::Several(ways) => one("--name", &format!("say one of {ways}")),
        ClientError::Unknown(_, ways) => one("--name", &format!("say one of {ways}")),
        ClientError::Io(path, source) => of_file(path, error, source),
        ClientError::Answer(_) => {
            one("--socket", "name the socket of a switch of this version (weir run says it at its start)")
        }
        ClientError::Refused { problem, .. } => problem.faults.clone(),
    }
}

fn of_fabric(error: &FabricError) -> Vec<Fault> {
    error.faults().iter().map(of_one).collect()
}

fn of_one(error: &FabricError) -> Fault {
    let (file, (line, column)) = (error.file().map(str::to_owned), error.position());
    Fault {
        path: file.clone().unwrap_or_default(),
        detail: error.what(),
        remedy: "docs/simulation.md and `weir sim schema` say what a fabric file can say".to_owned(),
        file,
        line,
        column,
    }
}

fn of_sweep(error: &SweepError) -> Vec<Fault> {
    let (path, remedy) = match error {
        SweepError::File { path, error: source } => return of_file(path, error, source),
        SweepError::Several(all) => return all.iter().flat_map(of_sweep).collect(),
        SweepError::Plan { file, line, column, problem } => {
            return vec![Fault {
                path: file.clone(),
                detail: problem.clone(),
                remedy: "docs/simulation.md says what a plan has".to_owned(),
                file: Some(file.clone()),
                line: *line,
                column: *column,
            }];
        }
        SweepError::Shard(_) => ("--shard".to_owned(), "write i/n with 1 <= i <= n, e.g. 2/3"),
        SweepError::OtherPlan { path, .. } | SweepError::HasReport(path) => {
            (path.display().to_string(), "use another folder")
        }
        SweepError::TwoPlans { path, .. } => (path.display().to_string(), "merge folders of one plan"),
        SweepError::Damaged { path, .. } => (path.display().to_string(), "delete it and run its shard again"),
        SweepError::Contradiction { a, .. } => {
            (a.display().to_string(), "delete the one that another version has made, and run its shard again")
        }
        SweepError::Nothing(path) => {
            (path.display().to_string(), "name a folder that `weir sim sweep` has written")
        }
    };
    vec![Fault { path, detail: error.to_string(), remedy: remedy.to_owned(), ..Fault::default() }]
}
