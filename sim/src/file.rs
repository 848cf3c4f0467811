//! Files that are there whole or not at all.
//!
//! A file is written beside its place under a name of its own, and takes its place when all of it is on the disk: a program that is
//! killed, or a disk that is full, leaves what was there before. What is no plain file (a device, a pipe) must not be replaced: it is
//! written as it is.

use std::fs::{self, File, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use tempfile::TempPath;

/// That a file can be written when the time has come; what is there stays as it is.
///
/// # Errors
/// It cannot.
pub fn can_put(path: &Path) -> io::Result<()> {
    if path.is_dir() {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    // A device, or a pipe, which might wait for its reader.
    let Some(place) = place_of(path) else { return Ok(()) };
    let beside = place.parent().unwrap_or(Path::new(""));
    match tempfile::tempfile_in(beside) {
        Err(_) if place.exists() => fs::OpenOptions::new().append(true).open(place).map(drop),
        made => made.map(drop),
    }
}

/// A file that has not taken its place yet. Dropped before it is removed.
#[derive(Debug)]
pub struct Part {
    /// Where it is, and where it will be; `None`: it is there already.
    moves: Option<(TempPath, PathBuf)>,
}

/// What takes the place of `path`: of a link to a file what it leads to. `None`: that must not be replaced.
fn place_of(path: &Path) -> Option<PathBuf> {
    match (fs::metadata(path), fs::symlink_metadata(path)) {
        (Ok(there), _) => fs::canonicalize(path).ok().filter(|_| there.is_file()),
        (Err(_), Ok(_)) => None,
        (Err(_), Err(_)) => Some(path.to_owned()),
    }
}

impl Part {
    /// A new file that will be `path`, open for writing. Where none can be made beside it, or it is no plain file, it is `path` at once.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn create(path: &Path) -> io::Result<(File, Self)> {
        if let Some(place) = place_of(path) {
            let beside = place.parent().unwrap_or(Path::new(""));
            // Who may read it the umask says, as with any other file, or the one it replaces.
            let there = fs::metadata(&place).ok().map(|there| there.permissions());
            let new = tempfile::Builder::new().permissions(Permissions::from_mode(0o666)).tempfile_in(beside);
            if let Ok((file, part)) = new.map(|new| new.into_parts()) {
                there.map_or(Ok(()), |there| file.set_permissions(there))?;
                return Ok((file, Self { moves: Some((part, place)) }));
            }
        }
        Ok((File::create(path)?, Self { moves: None }))
    }

    /// A file that will be `path`, with all of this in it.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn with(path: &Path, bytes: &[u8]) -> io::Result<Self> {
        let (mut file, part) = Self::create(path)?;
        file.write_all(bytes)?;
        // Not every device can be told to keep what it got, and not every disk says at once that it is full.
        if part.moves.is_some() {
            file.sync_all()?;
        }
        Ok(part)
    }

    /// From now on it is at its place. What is written to it from now on is seen there.
    ///
    /// # Errors
    /// It cannot be moved.
    pub fn take_place(self) -> io::Result<()> {
        let Some((part, place)) = self.moves else { return Ok(()) };
        Ok(part.persist(place)?)
    }
}

/// Puts a file with these bytes at `path`. Whoever writes there at the same time does the same.
///
/// # Errors
/// It cannot be written; what was at `path` is still there.
pub fn put(path: &Path, bytes: &[u8]) -> io::Result<()> {
    Part::with(path, bytes)?.take_place()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    fn names(dir: &Path) -> Vec<String> {
        let mut names: Vec<String> =
            fs::read_dir(dir).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn what_is_not_finished_leaves_what_was_there() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.csv");
        put(&path, b"one").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        let (mut file, part) = Part::create(&path).unwrap();
        file.write_all(b"half of").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"one");
        drop(part);
        assert_eq!(
            (fs::read(&path).unwrap(), names(dir.path())),
            (b"one".to_vec(), vec!["a.csv".to_owned()])
        );
        let (mut file, part) = Part::create(&path).unwrap();
        part.take_place().unwrap();
        file.write_all(b"two").unwrap();
        assert_eq!(
            (fs::read(&path).unwrap(), names(dir.path())),
            (b"two".to_vec(), vec!["a.csv".to_owned()])
        );
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o640);
    }

    #[test]
    fn links_and_devices_stay_what_they_are() {
        let dir = tempfile::tempdir().unwrap();
        let (file, link, loose) = (dir.path().join("f"), dir.path().join("l"), dir.path().join("loose"));
        fs::write(&file, "old").unwrap();
        symlink(&file, &link).unwrap();
        put(&link, b"new").unwrap();
        assert_eq!(fs::read(&file).unwrap(), b"new");
        symlink(dir.path().join("far"), &loose).unwrap();
        put(&loose, b"made").unwrap();
        assert_eq!(fs::read(dir.path().join("far")).unwrap(), b"made");
        assert!([&link, &loose].iter().all(|link| fs::symlink_metadata(link).unwrap().is_symlink()));
        put(Path::new("/dev/null"), b"nowhere").unwrap();
        let full = put(Path::new("/dev/full"), b"too much").unwrap_err();
        assert_eq!(full.kind(), io::ErrorKind::StorageFull);
        assert_eq!(names(dir.path()), ["f", "far", "l", "loose"]);
    }

    #[test]
    fn a_file_is_the_new_one_or_the_old_one_and_nothing_stays_beside_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.json");
        fs::write(&path, "old").unwrap();
        put(&path, b"new").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"new");
        let plain = folder.path().join("plain");
        fs::write(&plain, "").unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode();
        assert_eq!(mode(&path), mode(&plain));
        // What cannot take the place of a folder leaves no trace.
        assert!(put(folder.path(), b"new").is_err());
        let inside = folder.path().join("none/a.json");
        assert_eq!(put(&inside, b"new").unwrap_err().kind(), io::ErrorKind::NotFound);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
    }
}
