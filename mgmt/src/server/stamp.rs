//! Whether files have been written to since they were read.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// What changes when a file is written to, replaced, or given to somebody else; `None`: it is not there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stamp(Option<[i64; 6]>);

impl Stamp {
    /// That of a file.
    pub fn of(path: &Path) -> Self {
        let of = |meta: std::fs::Metadata| {
            let (modified, changed) = ([meta.mtime(), meta.mtime_nsec()], [meta.ctime(), meta.ctime_nsec()]);
            [modified[0], modified[1], changed[0], changed[1], meta.ino() as i64, meta.len() as i64]
        };
        Self(std::fs::metadata(path).ok().map(of))
    }
}
