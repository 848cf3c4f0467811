//! What is known of jobs, in a file: written whole beside it and put in its place, so that it is always one or the other.

use anyhow::{Context, Result};
use std::fs::File;
use std::io::{ErrorKind, Write};
use std::path::PathBuf;
use weir_inc::controller::desk::Saved;

/// The file, if there is one.
pub(super) struct Store {
    path: Option<PathBuf>,
    saved: Saved,
}

impl Store {
    /// Reads what was kept.
    ///
    /// # Errors
    /// There is a file and it cannot be read.
    pub(super) fn open(path: Option<PathBuf>) -> Result<Self> {
        let Some(file) = &path else { return Ok(Self { path, saved: Saved::default() }) };
        let saved = match std::fs::read_to_string(file) {
            Ok(text) => serde_json::from_str(&text)
                .with_context(|| format!("{}: not what a controller keeps; move it away", file.display()))?,
            Err(error) if error.kind() == ErrorKind::NotFound => Saved::default(),
            Err(error) => return Err(error).with_context(|| format!("cannot read {}", file.display())),
        };
        Ok(Self { path, saved })
    }

    /// What was kept.
    pub(super) fn take(&mut self) -> Saved {
        std::mem::take(&mut self.saved)
    }

    /// Keeps this.
    ///
    /// # Errors
    /// It cannot be written: jobs would not outlive the controller.
    pub(super) fn put(&self, saved: &Saved) -> Result<()> {
        let Some(path) = &self.path else { return Ok(()) };
        let beside = path.with_extension("new");
        let text = serde_json::to_string_pretty(saved)?;
        let write = || {
            let mut file = File::create(&beside)?;
            file.write_all(text.as_bytes())?;
            file.sync_all()?;
            std::fs::rename(&beside, path)
        };
        write().with_context(|| format!("cannot write {}", path.display()))
    }
}
