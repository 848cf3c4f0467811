//! Rights that a process gives up once its devices and files are open.
//!
//! Capabilities (capabilities(7)) and `no_new_privs` (prctl(2)) are those of a thread, and by then DPDK and others have made threads
//! of their own. So each is sent a signal whose handler gives them up there, as libcap's psx does, and what the kernel says of every
//! thread afterwards decides whether it is done.

use std::fs;
use std::io;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::{Duration, Instant};

/// Files of others may be read and written.
pub const DAC_OVERRIDE: u64 = 1 << 1;
/// Interfaces of the kernel may be changed.
pub const NET_ADMIN: u64 = 1 << 12;
/// Packet sockets may be opened.
pub const NET_RAW: u64 = 1 << 13;
/// Memory may be locked.
pub const IPC_LOCK: u64 = 1 << 14;
/// Threads may be given other priorities.
pub const SYS_NICE: u64 = 1 << 23;

/// Rights were not given up by all.
#[derive(Debug, thiserror::Error)]
pub enum PrivilegeError {
    /// The signal cannot be caught, or threads cannot be listed.
    #[error("rights cannot be given up: {0}")]
    System(#[from] io::Error),
    /// These threads hold the signal back.
    #[error("rights are still held by {0}")]
    Held(String),
}

/// For so long a thread may hold the signal back.
const PATIENCE: Duration = Duration::from_secs(2);
/// Between two looks at all threads.
const LOOK: Duration = Duration::from_millis(1);
/// Capabilities a mask has room for; Linux has 41.
const CAPABILITIES: u64 = 64;

/// What the handler leaves each thread.
static KEEP: AtomicU64 = AtomicU64::new(u64::MAX);
/// One at a time.
static GIVING_UP: Mutex<()> = Mutex::new(());

/// Takes from all threads of this process all capabilities but those in `keep` (a bit each), and what they could get back
/// by starting another program. For good.
///
/// # Errors
/// Some threads have theirs still; nothing else has happened to them.
pub fn give_up(keep: u64) -> Result<(), PrivilegeError> {
    let _one_at_a_time = GIVING_UP.lock().unwrap_or_else(PoisonError::into_inner);
    KEEP.fetch_and(keep, SeqCst);
    // The last ones are for programs; the C library takes the first.
    let signal = libc::SIGRTMAX() - 1;
    catch(signal)?;
    let deadline = Instant::now() + PATIENCE;
    loop {
        // A thread that is made meanwhile has what its maker had: it is seen in the next round.
        let holders = holders(keep)?;
        if holders.is_empty() {
            return Ok(());
        }
        if Instant::now() >= deadline {
            let names: Vec<_> = holders.into_iter().map(|(_, name)| name).collect();
            return Err(PrivilegeError::Held(names.join(", ")));
        }
        for (thread, _) in holders {
            // SAFETY: sends a signal that is caught, to a thread of this process or to none.
            unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), thread, signal) };
        }
        std::thread::sleep(LOOK);
    }
}

/// Threads that have more than `keep`, by number and name.
fn holders(keep: u64) -> io::Result<Vec<(libc::pid_t, String)>> {
    let mut found = Vec::new();
    for task in fs::read_dir("/proc/self/task")? {
        let task = task?.path();
        // It may have ended.
        let Ok(status) = fs::read_to_string(task.join("status")) else { continue };
        let value = |key: &str| status.lines().find_map(|line| line.strip_prefix(key)).map(str::trim);
        let held = value("CapPrm:").and_then(|mask| u64::from_str_radix(mask, 16).ok()).unwrap_or(u64::MAX);
        if held & !keep == 0 && value("NoNewPrivs:") == Some("1") {
            continue;
        }
        let number = task.file_name().and_then(|name| name.to_str()?.parse().ok());
        found.extend(number.map(|number| (number, value("Name:").unwrap_or("?").to_owned())));
    }
    Ok(found)
}

/// Has the handler called by this signal, from now on: one that is on its way may come late.
fn catch(signal: libc::c_int) -> io::Result<()> {
    // SAFETY: the struct is valid when zero; the handler is one for a signal without more to tell, and calls the kernel alone.
    let caught = unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = in_this_thread as extern "C" fn(libc::c_int) as usize;
        action.sa_flags = libc::SA_RESTART;
        libc::sigfillset(&raw mut action.sa_mask);
        libc::sigaction(signal, &raw const action, std::ptr::null_mut())
    };
    if caught == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// One half of the sets of a thread, as capset(2) has them.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Sets {
    effective: u32,
    permitted: u32,
    inheritable: u32,
}

#[repr(C)]
struct Header {
    version: u32,
    thread: libc::c_int,
}

/// The handler. Nothing here allocates or locks.
extern "C" fn in_this_thread(_: libc::c_int) {
    const VERSION_3: u32 = 0x2008_0522;
    let keep = KEEP.load(SeqCst);
    // SAFETY: system calls that change this thread alone; the structs are those of version 3 and live through the calls. The
    // thread finds its errno as it was.
    unsafe {
        let errno = libc::__errno_location();
        let before = *errno;
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
        // Refused to those who have not the right to: they have none that would come back.
        for capability in (0..CAPABILITIES).filter(|capability| keep >> capability & 1 == 0) {
            libc::prctl(libc::PR_CAPBSET_DROP, capability, 0, 0, 0);
        }
        let header = Header { version: VERSION_3, thread: 0 };
        let mut sets = [Sets::default(); 2];
        if libc::syscall(libc::SYS_capget, &raw const header, sets.as_mut_ptr()) == 0 {
            for (half, set) in sets.iter_mut().enumerate() {
                let keep = (keep >> (32 * half)) as u32;
                set.effective &= keep;
                set.permitted &= keep;
                set.inheritable &= keep;
            }
            libc::syscall(libc::SYS_capset, &raw const header, sets.as_ptr());
        }
        *errno = before;
    }
}
