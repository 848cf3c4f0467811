//! Files that commands write.

use crate::refusal::{cannot, refuse_file};
use anyhow::Result;
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Writes a file, whole or not at all; to what is no plain file (a device, a pipe) as it is.
///
/// # Errors
/// It cannot be written.
pub fn write_file(path: &Path, bytes: impl AsRef<[u8]>) -> Result<()> {
    weir_sim::file::put(path, bytes.as_ref()).map_err(cannot("write", path))
}

/// That files can be written at the end of what may take long: each of these.
///
/// # Errors
/// The first that cannot.
pub fn can_write<'a>(paths: impl IntoIterator<Item = &'a PathBuf>) -> Result<()> {
    paths.into_iter().try_for_each(|path| weir_sim::file::can_put(path).map_err(cannot("write", path)))
}

/// That `written` is none of the files `read`, by whatever names: what is read would be replaced by what becomes of it.
///
/// # Errors
/// It is one of them.
pub fn not_over<'a>(written: Option<&Path>, read: impl IntoIterator<Item = &'a Path>) -> Result<()> {
    // A device or a pipe is not replaced.
    let file = |path: &Path| {
        let there = std::fs::metadata(path).ok().filter(Metadata::is_file)?;
        Some((there.dev(), there.ino()))
    };
    let Some((path, identity)) = written.and_then(|path| Some((path, file(path)?))) else { return Ok(()) };
    match read.into_iter().find(|read| file(read) == Some(identity)) {
        None => Ok(()),
        Some(read) => {
            let what = format!("it is the file that is read, {}, and would be replaced", read.display());
            Err(refuse_file(path, None, what, "write to another file"))
        }
    }
}

/// The same of results, which are files or folders of files.
///
/// # Errors
/// See [`not_over`].
pub fn not_over_results(written: Option<&Path>, results: &[PathBuf]) -> Result<()> {
    let inside = |folder: &PathBuf| {
        std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path())
    };
    let files: Vec<PathBuf> =
        results.iter().flat_map(|result| std::iter::once(result.clone()).chain(inside(result))).collect();
    not_over(written, files.iter().map(PathBuf::as_path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_read_is_not_written_over_by_any_of_its_names() {
        let folder = tempfile::tempdir().unwrap();
        let [read, link, hard, other] =
            ["read", "link", "hard", "other"].map(|name| folder.path().join(name));
        std::fs::write(&read, "kept").unwrap();
        std::fs::write(&other, "kept").unwrap();
        std::os::unix::fs::symlink(&read, &link).unwrap();
        std::fs::hard_link(&read, &hard).unwrap();
        for written in [&read, &link, &hard] {
            let error = not_over(Some(written), [other.as_path(), read.as_path()]).unwrap_err().to_string();
            assert!(
                error.starts_with(&written.display().to_string()) && error.contains("another file"),
                "{error}"
            );
        }
        assert!(not_over_results(Some(&link), &[folder.path().to_owned()]).is_err());
        not_over_results(Some(&other), std::slice::from_ref(&read)).unwrap();
        let null = Path::new("/dev/null");
        for written in [Some(other.as_path()), Some(&folder.path().join("new")), Some(null), None] {
            not_over(written, [read.as_path(), null]).unwrap();
        }
    }

    #[test]
    fn what_cannot_be_written_is_known_beforehand_and_what_is_there_stays() {
        let folder = tempfile::tempdir().unwrap();
        let [old, new, missing] = ["old", "new", "none/new"].map(|name| folder.path().join(name));
        std::fs::write(&old, "kept").unwrap();
        can_write([&old, &new, &PathBuf::from("/dev/null")]).unwrap();
        assert_eq!(std::fs::read(&old).unwrap(), b"kept");
        assert_eq!(folder.path().read_dir().unwrap().count(), 1, "nothing is left behind");
        for bad in [&missing, &folder.path().to_owned()] {
            let error = can_write([&old, bad]).unwrap_err().to_string();
            assert!(error.contains(&bad.display().to_string()), "{error}");
        }
    }
}
