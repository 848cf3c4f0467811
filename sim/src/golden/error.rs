//! What can be wrong with a data set, always with the file and the place in it.

use std::path::{Path, PathBuf};

/// A data set that cannot be replayed.
#[derive(Debug, thiserror::Error)]
pub enum GoldenError {
    /// The file or folder cannot be opened or listed.
    #[error("{}: {error}", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// What the system said.
        error: std::io::Error,
    },
    /// No data set below the folder.
    #[error("{}: no known data set here; known are {known}. Data sets are logs of published simulators and do not come \
             with weir: docs/testing.md, \"Published data\", says what they are made from and how a folder looks", dir.display())]
    Nothing {
        /// The folder that was searched.
        dir: PathBuf,
        /// Names of the known kinds.
        known: String,
    },
    /// A table that belongs to no data set.
    #[error("{}: no known data set describes this file (is its params.json missing?); known are {known}", file.display())]
    Unknown {
        /// The table.
        file: PathBuf,
        /// Names of the known kinds.
        known: String,
    },
    /// A table in a known data set whose description has no entry for it.
    #[error("{}: {} has no entry `{entry}`", file.display(), description.display())]
    NoEntry {
        /// The table.
        file: PathBuf,
        /// The description file.
        description: PathBuf,
        /// The entry looked for.
        entry: String,
    },
    /// The description is not what its kind needs.
    #[error("{}: {entry}{}{what}", file.display(), if entry.is_empty() { "" } else { ": " })]
    Description {
        /// The description file.
        file: PathBuf,
        /// The entry in it, or nothing when the whole file is meant.
        entry: String,
        /// What is wrong.
        what: String,
    },
    /// Damaged compression, damaged text, or a row of the wrong length.
    #[error("{} after line {line}: {what}", file.display())]
    Damaged {
        /// The table.
        file: PathBuf,
        /// Last line that was read whole.
        line: u64,
        /// What is wrong.
        what: String,
    },
    /// The header is not the one of this kind of table.
    #[error("{} line 1: column {position} should be {wanted} but is {found}", file.display())]
    Header {
        /// The table.
        file: PathBuf,
        /// Position of the column, from 1.
        position: usize,
        /// What should be there.
        wanted: String,
        /// What is there.
        found: String,
    },
    /// A header and nothing else.
    #[error("{}: a table without rows", file.display())]
    NoRows {
        /// The table.
        file: PathBuf,
    },
    /// An operand that is not what its column holds.
    #[error("{} line {line}: `{column}` is `{found}`, not {wanted}", file.display())]
    Cell {
        /// The table.
        file: PathBuf,
        /// Line in the file, from 1.
        line: u64,
        /// The column.
        column: &'static str,
        /// The cell.
        found: String,
        /// What it should hold.
        wanted: String,
    },
}

impl GoldenError {
    /// The file or folder it is about.
    pub fn place(&self) -> &Path {
        match self {
            Self::Io { path, .. } => path,
            Self::Nothing { dir, .. } => dir,
            Self::Unknown { file, .. }
            | Self::NoEntry { file, .. }
            | Self::Description { file, .. }
            | Self::Damaged { file, .. }
            | Self::Header { file, .. }
            | Self::NoRows { file }
            | Self::Cell { file, .. } => file,
        }
    }
}
