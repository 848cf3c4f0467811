//! Folders of DPDK's run-time files, one per process: whose they are, and what is left of those that are gone.

use std::fs::{File, TryLockError};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Between two looks whether a process is gone.
const LOOK: Duration = Duration::from_millis(10);

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
    holder(folder).is_some()
}

/// The process that is not this one and holds the lock every primary process holds.
fn holder(folder: &Path) -> Option<libc::pid_t> {
    let config = File::options().read(true).write(true).open(folder.join("config")).ok()?;
    // SAFETY: the call reads and fills one struct of numbers, valid when zero, which means the whole file.
    unsafe {
        let mut lock: libc::flock = std::mem::zeroed();
        lock.l_type = libc::F_WRLCK as i16;
        let asked = libc::fcntl(config.as_raw_fd(), libc::F_GETLK, &raw mut lock);
        (asked == 0 && lock.l_type != libc::F_UNLCK as i16).then_some(lock.l_pid)
    }
}

/// Waits until the process that ran here, if it was killed, has let go of its files: it does so one by one, and closing a packet
/// socket between them takes a while. `false`: it has not after `patience`.
pub(crate) fn wait_for_end(folder: &Path, patience: Duration) -> bool {
    let deadline = Instant::now() + patience;
    while is_ending(folder) {
        if Instant::now() >= deadline {
            return false;
        }
        std::thread::sleep(LOOK);
    }
    true
}

/// The process that ran here is dying: it holds what every primary process holds, or holds that no longer and its memory still.
fn is_ending(folder: &Path) -> bool {
    match holder(folder) {
        Some(pid) => is_dying(pid),
        None => {
            let files = std::fs::read_dir(folder).into_iter().flatten().flatten();
            let mut arrays =
                files.filter(|file| file.file_name().as_encoded_bytes().starts_with(b"fbarray_"));
            arrays.any(|file| is_locked(&file.path()))
        }
    }
}

/// The kernel takes the process apart, or has and nobody has asked how it ended.
fn is_dying(pid: libc::pid_t) -> bool {
    /// `PF_EXITING` of the ninth field of proc_pid_stat(5).
    const EXITING: u64 = 0x4;
    let Ok(stat) = std::fs::read_to_string(format!("/proc/{pid}/stat")) else { return false };
    // The second field is a name in parentheses, of any bytes.
    let mut fields = stat.rsplit(')').next().unwrap_or_default().split_ascii_whitespace();
    let state = fields.next();
    let flags = fields.nth(5).and_then(|flags| flags.parse::<u64>().ok()).unwrap_or(0);
    matches!(state, Some("Z" | "X")) || flags & EXITING != 0
}

/// Somebody holds the lock that each process has on the files of its memory, shared, and the next primary asks for alone.
fn is_locked(path: &Path) -> bool {
    let Ok(file) = File::open(path) else { return false };
    matches!(file.try_lock(), Err(TryLockError::WouldBlock))
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
    fn a_start_waits_until_a_process_that_was_killed_has_let_go_of_its_files() {
        let base = std::env::temp_dir().join(format!("weir-ending-{}", std::process::id()));
        std::fs::create_dir_all(&base).unwrap();
        assert!(wait_for_end(&base, Duration::ZERO) && wait_for_end(&base.join("none"), Duration::ZERO));
        std::fs::write(base.join("config"), "x").unwrap();
        let array = File::create(base.join("fbarray_memzone")).unwrap();
        assert!(wait_for_end(&base, Duration::ZERO), "left by one that is gone");
        array.lock_shared().unwrap();
        assert!(!wait_for_end(&base, Duration::from_millis(30)));
        let waits = std::thread::spawn({
            let base = base.clone();
            move || wait_for_end(&base, Duration::from_secs(60))
        });
        drop(array);
        assert!(waits.join().unwrap());
        // This process lives, and so does whoever has it as its child.
        assert!(!is_dying(std::process::id() as libc::pid_t) && !is_dying(0));
        // Without the environment, which drivers change while EAL starts in the test beside this one.
        let mut child = std::process::Command::new("/bin/true").env_clear().spawn().unwrap();
        let deadline = Instant::now() + Duration::from_secs(60);
        while !is_dying(child.id() as libc::pid_t) {
            assert!(Instant::now() < deadline, "it has ended, and nobody has asked how");
            std::thread::sleep(LOOK);
        }
        child.wait().unwrap();
        std::fs::remove_dir_all(&base).unwrap();
    }

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
