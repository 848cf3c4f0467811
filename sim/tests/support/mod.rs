//! Where the published data is.

use std::path::PathBuf;

/// A folder of the published data, or `None` with the reason printed.
pub fn published(data_set: &str) -> Option<PathBuf> {
    let root = std::env::var_os("WEIR_GOLDEN")
        .map_or_else(|| concat!(env!("CARGO_MANIFEST_DIR"), "/../../shared/golden").into(), PathBuf::from);
    let folder = root.join(data_set);
    if folder.is_dir() {
        return Some(folder);
    }
    eprintln!("skipped: no folder {} (set WEIR_GOLDEN)", folder.display());
    None
}
