//! Folders that may hold a data set.

use std::fs;
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::GoldenError;

/// Folders nested deeper than this are not searched.
const MAX_DEPTH: usize = 8;

/// A CSV file of a folder, plain or compressed.
#[derive(Debug)]
pub(super) struct Table {
    pub(super) path: PathBuf,
    /// File name without `.csv` or `.csv.gz`: the key in a description, the name in a report.
    pub(super) name: String,
}

/// One folder: its tables by name, and the parameters that describe them.
#[derive(Debug)]
pub(super) struct Folder {
    pub(super) path: PathBuf,
    pub(super) tables: Vec<Table>,
    /// Content of `params.json`, one entry per table; `None` without that file.
    pub(super) params: Option<Map<String, Value>>,
}

impl Folder {
    /// Path of the description file of most kinds.
    pub(super) fn params_path(&self) -> PathBuf {
        self.path.join("params.json")
    }

    /// Whether `params.json` has an entry with this key in it.
    pub(super) fn params_mention(&self, key: &str) -> bool {
        self.params.as_ref().is_some_and(|all| all.values().any(|entry| entry.get(key).is_some()))
    }

    /// The entry of `params.json` for a table.
    pub(super) fn params_of<T: DeserializeOwned>(&self, table: &Table) -> Result<T, GoldenError> {
        let entry = self.params.as_ref().and_then(|all| all.get(&table.name));
        let entry = entry.ok_or_else(|| GoldenError::NoEntry {
            file: table.path.clone(),
            description: self.params_path(),
            entry: table.name.clone(),
        })?;
        T::deserialize(entry).map_err(|error| self.bad_params(table, &error))
    }

    /// The error for an entry of `params.json` that `what` is wrong with.
    pub(super) fn bad_params(&self, table: &Table, what: &impl ToString) -> GoldenError {
        GoldenError::Description {
            file: self.params_path(),
            entry: table.name.clone(),
            what: what.to_string(),
        }
    }

    fn read(path: &Path) -> Result<(Self, Vec<PathBuf>), GoldenError> {
        let io = |error| GoldenError::Io { path: path.to_owned(), error };
        let mut folder = Self { path: path.to_owned(), tables: Vec::new(), params: None };
        let mut inner = Vec::new();
        for entry in fs::read_dir(path).map_err(io)? {
            let entry = entry.map_err(io)?;
            if entry.file_type().map_err(io)?.is_dir() {
                inner.push(entry.path());
                continue;
            }
            let file_name = entry.file_name();
            let Some(file_name) = file_name.to_str() else { continue };
            let stem = file_name.strip_suffix(".gz").unwrap_or(file_name);
            if let Some(name) = stem.strip_suffix(".csv") {
                folder.tables.push(Table { path: entry.path(), name: name.to_owned() });
            } else if file_name == "params.json" {
                folder.params = Some(read_object(&entry.path())?);
            }
        }
        folder.tables.sort_by(|a, b| a.name.cmp(&b.name));
        inner.sort();
        Ok((folder, inner))
    }
}

/// `dir` and the folders below it, in the order of their names. Links to folders are not followed.
pub(super) fn all_below(dir: &Path) -> Result<Vec<Folder>, GoldenError> {
    let mut found = Vec::new();
    let mut open = vec![(dir.to_owned(), 0)];
    while let Some((path, depth)) = open.pop() {
        let (folder, inner) = Folder::read(&path)?;
        found.push(folder);
        if depth < MAX_DEPTH {
            open.extend(inner.into_iter().rev().map(|path| (path, depth + 1)));
        }
    }
    Ok(found)
}

/// A JSON file that is one object.
fn read_object(path: &Path) -> Result<Map<String, Value>, GoldenError> {
    let text = fs::read(path).map_err(|error| GoldenError::Io { path: path.to_owned(), error })?;
    serde_json::from_slice(&text).map_err(|error| GoldenError::Description {
        file: path.to_owned(),
        entry: String::new(),
        what: error.to_string(),
    })
}
