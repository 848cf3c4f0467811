//! What is known of jobs, in a file: written whole beside it and put in its place, so that it is always one or the other.

use crate::file::write_file;
use crate::output::{say, say_err};
use crate::refusal::cannot;
use anyhow::{Context, Result, anyhow, bail};
use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};
use std::fs::File;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use weir_inc::controller::desk::Saved;

/// The file, if there is one.
pub(super) struct Store {
    path: Option<PathBuf>,
    saved: Saved,
    /// What is in the file is not what is known.
    behind: bool,
    /// No other controller writes the file.
    _lock: Option<Flock<File>>,
}

/// Whoever has this file open and locked owns the other; the kernel gives the lock back when its owner ends, however.
fn own(file: &Path) -> Result<Flock<File>> {
    let mut lock = file.as_os_str().to_owned();
    lock.push(".lock");
    let lock = PathBuf::from(lock);
    let open = File::options().write(true).create(true).truncate(false).open(&lock).with_context(|| {
        format!("cannot write {}; --state wants a folder that is there and can be written to", lock.display())
    })?;
    Flock::lock(open, FlockArg::LockExclusiveNonblock).map_err(|(_, error)| match error {
        Errno::EWOULDBLOCK => anyhow!(
            "{}: another controller keeps its jobs there; end it, or give this one a --state of its own",
            file.display()
        ),
        error => anyhow!("cannot lock {}: {error}", lock.display()),
    })
}

impl Store {
    /// Reads what was kept.
    ///
    /// # Errors
    /// There is a file and it cannot be read, nothing can be written there, or another controller does.
    pub(super) fn open(path: Option<PathBuf>) -> Result<Self> {
        let Some(file) = &path else {
            return Ok(Self { path, saved: Saved::default(), behind: false, _lock: None });
        };
        if file.exists() && !file.is_file() {
            bail!("--state {}: not a file; name one, or one that is not there yet", file.display());
        }
        let lock = own(file)?;
        let saved = match std::fs::read_to_string(file) {
            Ok(text) => serde_json::from_str(&text).with_context(|| {
                format!("{}: not the state of a controller; move it away", file.display())
            })?,
            Err(error) if error.kind() == ErrorKind::NotFound => Saved::default(),
            Err(error) => return Err(error).map_err(cannot("read", file)),
        };
        let store = Self { path, saved, behind: false, _lock: Some(lock) };
        store.put(&store.saved)?;
        Ok(store)
    }

    /// What was kept.
    pub(super) fn take(&mut self) -> Saved {
        std::mem::take(&mut self.saved)
    }

    /// Keeps this. A full disk ends no jobs: it is said once, and [`Self::is_behind`] until it is over.
    pub(super) fn keep(&mut self, saved: &Saved) {
        match self.put(saved) {
            Err(error) if !self.behind => {
                say_err!("weir: {error:#}; jobs go on, and would not outlive this controller");
                self.behind = true;
            }
            Ok(()) if self.behind => {
                say!("jobs are saved again");
                self.behind = false;
            }
            _ => {}
        }
    }

    /// What was to be kept last could not be.
    pub(super) fn is_behind(&self) -> bool {
        self.behind
    }

    fn put(&self, saved: &Saved) -> Result<()> {
        let Some(path) = &self.path else { return Ok(()) };
        let text = serde_json::to_string_pretty(saved)?;
        write_file(path, text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_has_one_owner_and_a_place() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("inc.json");
        let error = |path: &Path| format!("{:#}", Store::open(Some(path.to_owned())).err().unwrap());
        assert!(error(&folder.path().join("none/inc.json")).contains("wants a folder that is there"));
        assert!(error(folder.path()).contains("not a file; name one"));
        let store = Store::open(Some(path.clone())).unwrap();
        assert!(path.exists(), "what cannot be written is found at the start");
        assert!(error(&path).contains("another controller keeps its jobs there"));
        drop(store);
        Store::open(Some(path.clone())).unwrap();
        std::fs::write(&path, "{").unwrap();
        assert!(error(&path).contains("not the state of a controller; move it away"));
    }

    #[test]
    fn what_cannot_be_written_is_written_when_it_can() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("place");
        std::fs::create_dir(&place).unwrap();
        let path = place.join("inc.json");
        let mut store = Store::open(Some(path.clone())).unwrap();
        std::fs::remove_dir_all(&place).unwrap();
        store.keep(&Saved::default());
        assert!(store.is_behind());
        std::fs::create_dir(&place).unwrap();
        store.keep(&Saved::default());
        assert!(!store.is_behind() && path.exists());
    }
}
