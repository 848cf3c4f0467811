//! Folders of DPDK's run-time files, one per process: whose they are, and what is left of those that are gone.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

/// Where DPDK makes them: in the folder of a service (systemd.exec(5)), of root, or of a user's session.
pub(crate) fn parent() -> PathBuf {
    // SAFETY: asks for a number.
    let own = || match unsafe { libc::getuid() } {
        0 => "/var/run".into(),
        _ => std::env::var_os("XDG_RUNTIME_DIR").unwrap_or_else(|| "/tmp".into()),
    };
    PathBuf::from(std::env::var_os("RUNTIME_DIRECTORY").unwrap_or_else(own)).join("dpdk")
}

/// Whether a folder can be made in `parent`, which is made if need be, but not what is above it: as DPDK does.
pub(crate) fn can_be_made(parent: &Path) -> bool {
    let probe = parent.join(format!("weir-{}", std::process::id()));
    let _ = std::fs::create_dir(parent);
    std::fs::create_dir(&probe).is_ok() && std::fs::remove_dir(&probe).is_ok()
}

/// A process that is not this one holds the lock every primary process holds.
pub(crate) fn is_in_use(folder: &Path) -> bool {
    let Ok(config) = File::options().read(true).write(true).open(folder.join("config")) else { return false };
    // SAFETY: the call reads and fills one struct of numbers, valid when zero, which means the whole file.
    unsafe {
        let mut lock: libc::flock = std::mem::zeroed();
        lock.l_type = libc::F_WRLCK as i16;
        let asked = libc::fcntl(config.as_raw_fd(), libc::F_GETLK, &raw mut lock);
        asked == 0 && lock.l_type != libc::F_UNLCK as i16
    }
}

/// Removes what killed processes have left beside the folder of this one, `weir-PID`.
pub(crate) fn remove_stale(own: &Path) {
    let folders = own.parent().map(std::fs::read_dir);
    for folder in folders.into_iter().flatten().flatten().flatten().map(|entry| entry.path()) {
        let pid =
            folder.file_name().and_then(|name| name.to_str()).and_then(|name| name.strip_prefix("weir-"));
        let Some(pid) = pid.and_then(|pid| pid.parse::<u32>().ok()) else { continue };
        // A process in another container may share the folder and not the numbers: it holds the lock.
        if !Path::new(&format!("/proc/{pid}")).exists() && !is_in_use(&folder) {
            // Somebody else's may not be ours to remove.
            let _ = std::fs::remove_dir_all(&folder);
        }
    }
}

/// Some hugetlbfs is mounted.
pub(crate) fn is_hugetlbfs_mounted() -> bool {
    let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    mounts.lines().any(|line| line.split(' ').nth(2) == Some("hugetlbfs"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_folders_of_processes_that_are_gone_are_removed() {
        let base = std::env::temp_dir().join(format!("weir-folders-{}", std::process::id()));
        let make = |name: &str| {
            let folder = base.join(name);
            std::fs::create_dir_all(&folder).unwrap();
            std::fs::write(folder.join("config"), "x").unwrap();
            folder
        };
        // No process has the highest number there is.
        let (gone, alive) = (make("weir-4194999"), make(&format!("weir-{}", std::process::id())));
        let (named, other) = (make("weir-leaf1"), make("leaf-4194999"));
        remove_stale(&alive);
        assert!(!gone.exists() && alive.exists() && named.exists() && other.exists());
        assert!(!is_in_use(&alive), "a lock of our own is none");
        std::fs::remove_dir_all(&base).unwrap();
    }
}
