//! Files that commands write.

use crate::refusal::cannot;
use anyhow::Result;
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

#[cfg(test)]
mod tests {
    use super::*;

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
