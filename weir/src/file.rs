//! Files that commands write.

use crate::refusal::cannot;
use anyhow::Result;
use std::path::Path;

/// Writes a file, whole or not at all; to what is no plain file (a device, a pipe) as it is.
///
/// # Errors
/// It cannot be written.
pub fn write_file(path: &Path, bytes: impl AsRef<[u8]>) -> Result<()> {
    weir_sim::file::put(path, bytes.as_ref()).map_err(cannot("write", path))
}
