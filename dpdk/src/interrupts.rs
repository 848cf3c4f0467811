//! DPDK's interrupt thread, held back while somebody polls.
//!
//! `net_memif` (of 22.11, and as later sources read) takes memory it shares with a peer away in the interrupt thread as
//! soon as the peer has gone, whoever is inside a burst of that port; a worker that lost its CPU there finds nothing where
//! its frames were, and the process ends by a signal. So that thread is kept waiting in a callback of ours. When something
//! has come for it, a thread of ours has every polling thread stand between two bursts, lets it through and waits until it
//! is back. While nothing has come nobody stands; nor while no peer is connected, whose memory could go.

use std::ffi::c_void;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsRawFd, FromRawFd, RawFd};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use weir_dpdk_sys as sys;

use crate::error::{InterruptError, reason};
use crate::{Eal, Port, Started};

/// A thread that does not do its part by then will not.
const PATIENCE: Duration = Duration::from_secs(1);

/// Interrupts are served while nobody is inside a burst.
///
/// When this is dropped they are not served any more, for the rest of the process: it goes before the ports do, as no
/// driver expects a peer to leave while its port is closed, and the interrupt thread does not end when the EAL does,
/// which takes away the memory it works on.
#[derive(Debug)]
pub struct Interrupts {
    gate: &'static Gate,
    halt: Arc<Halt>,
    doorman: Option<JoinHandle<()>>,
    _eal: Eal,
}

/// Where the interrupt thread waits.
#[derive(Debug)]
struct Gate {
    /// Sends the thread here.
    event: File,
    /// Tells the doorman that it is over.
    leave: File,
    state: Mutex<At>,
    changed: Condvar,
}

/// Where the interrupt thread is.
#[derive(Debug, Default)]
struct At {
    /// How often it has come to the gate, and how often it was let through.
    came: u64,
    passed: u64,
    /// Nobody lets it through any more.
    shut: bool,
    /// It need not wait any more.
    open: bool,
    /// Its epoll instance, while it waits; it makes a new one when what it listens to changes.
    epoll: Option<RawFd>,
}

/// Where polling threads stand.
#[derive(Debug, Default)]
struct Halt {
    asked: AtomicBool,
    threads: AtomicUsize,
    standing: AtomicUsize,
}

/// A polling thread's part: as long as it lives, the thread is waited for.
#[derive(Debug)]
pub struct Polling(Arc<Halt>);

impl Polling {
    /// Stands still while interrupts are served: to be called between bursts, in every turn.
    #[inline(always)]
    pub fn between_bursts(&self) {
        if self.0.asked.load(SeqCst) {
            self.0.stand();
        }
    }
}

impl Drop for Polling {
    fn drop(&mut self) {
        self.0.threads.fetch_sub(1, SeqCst);
    }
}

impl Halt {
    #[cold]
    fn stand(&self) {
        self.standing.fetch_add(1, SeqCst);
        while self.asked.load(SeqCst) {
            std::thread::yield_now();
        }
        self.standing.fetch_sub(1, SeqCst);
    }

    /// Runs `f` while all polling threads stand, or not at all if one of them does not come to stand.
    fn while_standing(&self, f: impl FnOnce()) {
        let all = || self.standing.load(SeqCst) >= self.threads.load(SeqCst);
        self.asked.store(true, SeqCst);
        if wait_for(all) {
            f();
        }
        self.asked.store(false, SeqCst);
        // Nobody who still stands for this may be counted for the next time.
        wait_for(|| self.standing.load(SeqCst) == 0);
    }
}

fn wait_for(what: impl Fn() -> bool) -> bool {
    let deadline = Instant::now() + PATIENCE;
    while !what() {
        if Instant::now() > deadline {
            return false;
        }
        std::thread::sleep(Duration::from_micros(20));
    }
    true
}

/// An eventfd.
pub(crate) fn event() -> std::io::Result<File> {
    // SAFETY: makes a file descriptor, or says that it did not.
    let fd = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) };
    if fd < 0 {
        return Err(std::io::Error::last_os_error());
    }
    // SAFETY: the descriptor is ours, and nobody else knows it.
    Ok(unsafe { File::from_raw_fd(fd) })
}

/// Sets it.
pub(crate) fn set(mut event: &File) {
    // What could fail is a counter that is full after 2^64 times.
    let _ = event.write(&1_u64.to_ne_bytes());
}

impl Gate {
    fn new() -> std::io::Result<Self> {
        Ok(Self { event: event()?, leave: event()?, state: Mutex::default(), changed: Condvar::new() })
    }

    fn at(&self) -> MutexGuard<'_, At> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The interrupt thread: waits until it is let through.
    fn wait(&self) {
        let _ = (&self.event).read(&mut [0; 8]);
        let mut at = self.at();
        at.came += 1;
        at.epoll = epoll_with(self.event.as_raw_fd());
        // If nobody can tell that something has come, it must not be kept waiting.
        at.open |= at.epoll.is_none();
        self.changed.notify_all();
        while !at.open && at.passed < at.came {
            at = self.changed.wait(at).unwrap_or_else(PoisonError::into_inner);
        }
        at.epoll = None;
    }

    /// The interrupt thread need not wait here, now and later.
    fn open(&self) {
        self.at().open = true;
        self.changed.notify_all();
    }

    /// Lets the interrupt thread through; it serves what has come, and comes back.
    fn pass(&self) {
        set(&self.event);
        let mut at = self.at();
        let came = at.came;
        at.passed = came;
        self.changed.notify_all();
        drop(self.changed.wait_timeout_while(at, PATIENCE, |at| at.came == came));
    }

    /// Waits until something has come for the interrupt thread, which waits here. `false`: that is over.
    fn something_comes(&self) -> bool {
        let at = self.changed.wait_while(self.at(), |at| !at.shut && !at.open && at.passed == at.came);
        let at = at.unwrap_or_else(PoisonError::into_inner);
        let (over, epoll) = (at.shut || at.open, at.epoll);
        drop(at);
        let (false, Some(epoll)) = (over, epoll) else { return false };
        let mut what =
            [epoll, self.leave.as_raw_fd()].map(|fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 });
        // SAFETY: two entries, ours. The first descriptor stays what it is while its thread waits here.
        while unsafe { libc::poll(what.as_mut_ptr(), 2, -1) } <= 0 {}
        !self.at().shut
    }
}

impl Interrupts {
    /// Holds interrupts back from now on, for these ports. The thread this makes runs where the caller may.
    ///
    /// # Errors
    /// [`InterruptError`]: they come as they always do.
    pub fn hold<'a>(
        eal: &Eal,
        ports: impl IntoIterator<Item = &'a Port<Started>>,
    ) -> Result<Self, InterruptError> {
        let connected: Vec<_> = ports.into_iter().map(Port::link_probe).collect();
        let refused = |error: std::io::Error| InterruptError::Refused(error.to_string());
        let gate: &'static Gate = Box::leak(Box::new(Gate::new().map_err(refused)?));
        let (fd, with) = (gate.event.as_raw_fd(), std::ptr::from_ref(gate).cast_mut().cast());
        // SAFETY: the callback may be called until the process ends, and the gate is there as long.
        let registered = unsafe { sys::weir_interrupt_register(fd, Some(wait), with) };
        if registered != 0 {
            return Err(InterruptError::Refused(reason(registered)));
        }
        set(&gate.event);
        if !wait_for(|| gate.at().came > 0) {
            gate.open();
            return Err(InterruptError::Silent);
        }
        if gate.at().open {
            return Err(InterruptError::Unseen);
        }
        let halt = Arc::<Halt>::default();
        let halted = Arc::clone(&halt);
        let doorman = move || {
            while gate.something_comes() {
                if connected.iter().any(|port| port()) {
                    halted.while_standing(|| gate.pass());
                } else {
                    gate.pass();
                }
            }
        };
        let doorman =
            std::thread::Builder::new().name("interrupts".into()).spawn(doorman).map_err(|error| {
                gate.open();
                refused(error)
            })?;
        Ok(Self { gate, halt, doorman: Some(doorman), _eal: eal.clone() })
    }

    /// For a thread that polls ports: made before the thread starts.
    pub fn polling(&self) -> Polling {
        self.halt.threads.fetch_add(1, SeqCst);
        Polling(Arc::clone(&self.halt))
    }
}

impl Drop for Interrupts {
    fn drop(&mut self) {
        self.gate.at().shut = true;
        set(&self.gate.leave);
        self.gate.changed.notify_all();
        if let Some(doorman) = self.doorman.take() {
            let _ = doorman.join();
        }
    }
}

/// # Safety
/// `gate` is that of [`Interrupts::hold`].
unsafe extern "C" fn wait(gate: *mut c_void) {
    // SAFETY: as promised above.
    unsafe { &*gate.cast::<Gate>() }.wait();
}

/// The epoll instance of this process that listens to `fd`, as the kernel tells.
fn epoll_with(fd: RawFd) -> Option<RawFd> {
    let fd = fd.to_string();
    let listens = |info: &str| {
        let mut targets = info.lines().filter_map(|line| line.strip_prefix("tfd:"));
        targets.any(|target| target.split_whitespace().next() == Some(&fd))
    };
    let open = std::fs::read_dir("/proc/self/fdinfo").ok()?.flatten();
    let epoll = open
        .into_iter()
        .find(|entry| std::fs::read_to_string(entry.path()).is_ok_and(|info| listens(&info)))?;
    epoll.file_name().to_str()?.parse().ok()
}
