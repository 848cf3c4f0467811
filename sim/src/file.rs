//! Files that are there whole or not at all.

use std::fs::Permissions;
use std::io::{self, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// Puts a file with these bytes at `path`: it is written beside it under a name of its own, and takes its place when all of
/// it is on the disk. Whoever writes there at the same time does the same.
///
/// # Errors
/// It cannot be written; what was at `path` is still there.
pub fn put(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let beside = path.parent().unwrap_or(Path::new(""));
    // Who may read it the umask says, as with any other file.
    let mut file = tempfile::Builder::new().permissions(Permissions::from_mode(0o666)).tempfile_in(beside)?;
    file.write_all(bytes)?;
    file.as_file().sync_all()?;
    file.persist(path)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{metadata, read, read_dir, write};

    #[test]
    fn a_file_is_the_new_one_or_the_old_one_and_nothing_stays_beside_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.json");
        write(&path, "old").unwrap();
        put(&path, b"new").unwrap();
        assert_eq!(read(&path).unwrap(), b"new");
        let plain = folder.path().join("plain");
        write(&plain, "").unwrap();
        let mode = |path: &Path| metadata(path).unwrap().permissions().mode();
        assert_eq!(mode(&path), mode(&plain));
        // What cannot take the place of a folder leaves no trace.
        assert!(put(folder.path(), b"new").is_err());
        let inside = folder.path().join("none/a.json");
        assert_eq!(put(&inside, b"new").unwrap_err().kind(), io::ErrorKind::NotFound);
        assert_eq!(read_dir(folder.path()).unwrap().count(), 2);
    }
}
