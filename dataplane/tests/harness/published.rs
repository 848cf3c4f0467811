//! Where the published data is. Tests of all crates take this file in, so not each of them uses all of it.
#![allow(dead_code)]

use std::path::PathBuf;

/// The folder of all data sets, beside that of the repository unless `WEIR_GOLDEN` says otherwise.
pub fn root() -> PathBuf {
    std::env::var_os("WEIR_GOLDEN")
        .map_or_else(|| concat!(env!("CARGO_MANIFEST_DIR"), "/../../shared/golden").into(), PathBuf::from)
}

/// The folder of a data set, or `None` with the reason printed.
pub fn published(data_set: &str) -> Option<PathBuf> {
    let folder = root().join(data_set);
    if folder.is_dir() {
        return Some(folder);
    }
    eprintln!("skipped: no folder {} (set WEIR_GOLDEN)", folder.display());
    None
}
