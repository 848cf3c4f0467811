//! Files that a fabric names beside its own: they are read when it is loaded, so that playing it needs none.

pub(super) mod chakra;
pub(super) mod hpcc;
pub(super) mod htsim;
pub(super) mod operations;

use super::FabricError;
use super::spec::{FabricSpec, HpccFileSpec, Profile, Topology};
use super::workload::too_long;
use crate::digest::Digest;
use std::collections::BTreeMap;
use std::io;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use toml::{Table, Value};

/// A file.
#[derive(Clone)]
struct Content {
    /// Its path, for messages.
    path: String,
    bytes: Vec<u8>,
    /// Who plays what is in it.
    profile: Profile,
}

/// Stands for the number of a rank in the name of a file that each rank has.
pub(super) const RANK: &str = "{rank}";

/// Numbers that are tried behind the last rank that has a file.
const BEYOND: usize = 1024;

/// The files that a name stands for, rank by rank, in `folder` unless it is absolute. One that is missing before the last that is there
/// is among them, and cannot be read.
pub(crate) fn paths(folder: &Path, name: &str) -> Vec<PathBuf> {
    let of = |rank| folder.join(of_rank(name, rank));
    let mut last = 0;
    let mut rank = 1;
    while name.contains(RANK) && rank <= last + BEYOND {
        if of(rank).exists() {
            last = rank;
        }
        rank += 1;
    }
    (0..=last).map(of).collect()
}

/// The file of a rank.
pub(crate) fn of_rank(name: &str, rank: usize) -> String {
    name.replace(RANK, &rank.to_string())
}

/// All of a file. What is none (a pipe, a device) may have no end, and is not there a second time, as sweeps want it.
///
/// # Errors
/// It cannot be read, or is no file.
pub(crate) fn read_file(path: &Path) -> io::Result<Vec<u8>> {
    let kind = std::fs::metadata(path)?.file_type();
    match kind.is_fifo() || kind.is_char_device() || kind.is_block_device() || kind.is_socket() {
        true => Err(io::Error::other("a pipe or a device, not a file: write what comes from it into one")),
        false => std::fs::read(path),
    }
}

impl Content {
    fn read(key: &str, path: &Path, profile: Profile) -> Result<Self, FabricError> {
        let place = path.display().to_string();
        match read_file(path) {
            Ok(bytes) => Ok(Self { path: place, bytes, profile }),
            Err(error) => {
                let problem = format!(
                    "cannot be read ({error}); paths count from the folder of the fabric file, ranks from 0 without gaps"
                );
                Err(FabricError::Import { key: key.into(), place, problem })
            }
        }
    }
}

/// Files by the keys that name them.
#[derive(Clone, Default)]
pub(super) struct Files(BTreeMap<String, Vec<Content>>);

/// What is hashed of them: what they say, not where they are.
impl std::fmt::Debug for Files {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list()
            .entries(self.0.values().flatten().map(|file| Digest::of(&file.bytes).to_string()))
            .finish()
    }
}

impl Files {
    /// Reads what `spec` names, from `folder` unless a path is absolute.
    ///
    /// # Errors
    /// A file that cannot be read.
    pub fn read(spec: &FabricSpec, folder: &Path) -> Result<Self, FabricError> {
        let mut named: Vec<(String, &String)> = Vec::new();
        if let Topology::HpccFile(HpccFileSpec { file }) = &spec.topology {
            named.push(("topology.file".into(), file));
        }
        let workloads = spec.workloads.iter().enumerate();
        named.extend(workloads.filter_map(|(i, w)| Some((format!("workload.{i}.file"), w.file.as_ref()?))));
        let mut all = BTreeMap::new();
        for (key, name) in named {
            let paths = paths(folder, name);
            let contents: Result<_, _> =
                paths.iter().map(|path| Content::read(&key, path, spec.profile)).collect();
            all.insert(key, contents?);
        }
        Ok(Self(all))
    }

    /// The file that `key` names; of files of several ranks that of rank 0.
    pub fn get(&self, key: &str) -> Option<File<'_>> {
        self.all(key).next()
    }

    /// The files that `key` names, rank by rank.
    pub fn all(&self, key: &str) -> impl Iterator<Item = File<'_>> {
        let named = self.0.get_key_value(key);
        named.into_iter().flat_map(|(key, all)| all.iter().map(move |content| File { key, content }))
    }
}

/// Names of files in a fabric that is not read yet.
pub(crate) fn file_names(spec: &mut Table) -> Vec<&mut Value> {
    spec.iter_mut().flat_map(|(key, value)| file_names_of(key, value)).collect()
}

/// Those in the value of a key of it, parts of which have dots between them.
pub(crate) fn file_names_of<'a>(key: &str, value: &'a mut Value) -> Vec<&'a mut Value> {
    match (&key.split('.').collect::<Vec<_>>()[..], value) {
        (["topology", "file"] | ["workload", _, "file"], name) => vec![name],
        (["topology"] | ["workload", _], Value::Table(table)) => table.get_mut("file").into_iter().collect(),
        (["workload"], Value::Array(all)) => {
            all.iter_mut().flat_map(|workload| file_names_of("workload.0", workload)).collect()
        }
        _ => Vec::new(),
    }
}

/// A file that is looked into.
#[derive(Clone, Copy)]
pub(super) struct File<'a> {
    key: &'a str,
    content: &'a Content,
}

impl<'a> File<'a> {
    /// What is wrong in a line (from 1; 0: with the whole file), and what to do.
    pub fn wrong(&self, line: usize, problem: impl Into<String>) -> FabricError {
        let path = &self.content.path;
        let place = if line == 0 { path.clone() } else { format!("{path}:{line}") };
        FabricError::Import { key: self.key.into(), place, problem: problem.into() }
    }

    /// Bytes of a message that a line (as above) gives.
    pub fn message(&self, line: usize, bytes: u64) -> Result<u64, FabricError> {
        too_long(self.content.profile, bytes).map_or(Ok(bytes), |problem| Err(self.wrong(line, problem)))
    }

    /// What is in it.
    pub fn bytes(&self) -> &'a [u8] {
        &self.content.bytes
    }

    /// Its text, without the mark of UTF-8 (BOM) that editors put before it.
    ///
    /// # Errors
    /// It is none.
    pub fn text(&self) -> Result<&'a str, FabricError> {
        let text = std::str::from_utf8(&self.content.bytes).map_err(|error| {
            let before = &self.content.bytes[..error.valid_up_to()];
            let line = before.iter().filter(|byte| **byte == b'\n').count() + 1;
            self.wrong(line, "is no text (UTF-8 is expected)")
        })?;
        Ok(text.strip_prefix('\u{feff}').unwrap_or(text))
    }
}
