//! Replay of logged behaviour of published models, row by row, against weir's re-creations of them.
//!
//! A data set is a folder that describes itself: a description file beside tables (`.csv`, `.csv.gz`).
//! [`replay_dir`] finds the folders it knows, at any depth, feeds the operations of each table to the
//! model and compares every column of every row.
//!
//! To teach it a further kind, write a module with a `pub(super) const KIND: Kind` and list it in
//! `KINDS`.

mod dcqcn;
mod error;
mod folder;
mod mmu;
mod report;
pub mod scenarios;
mod table;

use std::path::Path;

pub use error::GoldenError;
use folder::Folder;
pub use report::{FileReport, Mismatch};

/// One kind of data set.
struct Kind {
    /// What the kind is called in messages.
    name: &'static str,
    /// Whether a folder is of this kind, judged by its description file.
    claims: fn(&Folder) -> bool,
    /// Replays every table of a claimed folder, in the order of their names, and hands each report on.
    ///
    /// A table the description does not cover is an error: nothing is passed over in silence.
    replay: fn(&Folder, Sink<'_>) -> Result<(), GoldenError>,
}

/// Takes each report as soon as its table has been replayed.
type Sink<'a> = &'a mut dyn FnMut(FileReport);

/// Every kind of data set known.
const KINDS: &[Kind] = &[mmu::KIND, dcqcn::KIND, scenarios::KIND];

/// Replays every known data set in `dir` and the folders below it, in the order of their names.
///
/// # Errors
/// As [`replay_each`]; what had been replayed before is lost.
pub fn replay_dir(dir: &Path) -> Result<Vec<FileReport>, GoldenError> {
    let mut reports = Vec::new();
    replay_each(dir, &mut |report| reports.push(report))?;
    Ok(reports)
}

/// Like [`replay_dir`], but hands over each report as soon as its table has been replayed.
///
/// # Errors
/// When a file cannot be read or is damaged, when a table belongs to no known data set, or when there
/// is none at all. A row that differs is no error; it is in the report.
pub fn replay_each(dir: &Path, sink: &mut dyn FnMut(FileReport)) -> Result<(), GoldenError> {
    let mut found = false;
    for folder in folder::all_below(dir)? {
        if let Some(kind) = KINDS.iter().find(|kind| (kind.claims)(&folder)) {
            found |= !folder.tables.is_empty();
            (kind.replay)(&folder, sink)?;
        } else if let Some(table) = folder.tables.first() {
            return Err(GoldenError::Unknown { file: table.path.clone(), known: known() });
        }
    }
    if found { Ok(()) } else { Err(GoldenError::Nothing { dir: dir.to_owned(), known: known() }) }
}

/// The names of all kinds, for messages.
fn known() -> String {
    KINDS.iter().map(|kind| kind.name).collect::<Vec<_>>().join(", ")
}
