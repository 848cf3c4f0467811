//! DPDK's run time: started once, torn down when nobody uses it.

use std::collections::BTreeSet;
use std::ffi::{CStr, CString, c_char, c_int};
use std::path::PathBuf;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use weir_dpdk_sys as sys;

use crate::args::Args;
use crate::error::{EalError, last_reason};
use crate::folder;
use crate::worker::Lcore;

static STARTED: AtomicBool = AtomicBool::new(false);

/// A handle to DPDK's run time (EAL). Clones share it; ports, pools and workers hold one each, and the
/// last one dropped runs `rte_eal_cleanup`.
///
/// `rte_eal_init` pins the thread that calls it, and every thread spawned from it later inherits the
/// pin. It therefore runs on a thread of its own, which ends: the caller's affinity is untouched, and no
/// thread but a [`Worker`](crate::Worker) has an lcore id.
#[derive(Clone, Debug)]
pub struct Eal(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    /// DPDK keeps pointers into its arguments.
    _argv: Vec<CString>,
    lcores: Vec<Lcore>,
    capture: AtomicBool,
    /// Run-time folder to remove at the end, unless it is that of another process.
    own_folder: Option<PathBuf>,
    state: Mutex<State>,
}

/// Who uses what. One lock, taken when things begin and end, never per frame.
#[derive(Debug, Default)]
pub(crate) struct State {
    /// Lcores with a worker, by id.
    pub busy: BTreeSet<u32>,
    /// Ports with an owner, by DPDK's id.
    pub ports: BTreeSet<u16>,
    /// The kernel tells of devices that come and go.
    pub watches_devices: bool,
    /// Pools nobody holds any more, waiting for their last frame.
    retired: Vec<RetiredPool>,
}

#[derive(Debug)]
struct RetiredPool(NonNull<sys::rte_mempool>);

// SAFETY: a retired pool is reached through `State`'s lock only, and DPDK's pools know no owner thread.
unsafe impl Send for RetiredPool {}

/// How much DPDK says on standard error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LogLevel {
    /// Something does not work.
    Error = 4,
    /// Something is odd: the default.
    Warning = 5,
    /// Worth knowing.
    Notice = 6,
    /// Every step.
    Info = 7,
    /// Everything.
    Debug = 8,
}

impl Eal {
    /// Starts DPDK with `args` (no program name) and a default for what they leave open: `--no-huge`
    /// (unless an argument chooses the memory or brings devices of a bus: [`wants_hugepages`](crate::args::wants_hugepages)),
    /// `--no-pci` (unless one chooses devices), a `--file-prefix` of this process's own, a worker lcore on each
    /// allowed core with the main lcore floating, and warnings only on the log.
    ///
    /// # Errors
    /// [`EalError`]; one attempt per process.
    pub fn init<S: AsRef<str>>(args: &[S]) -> Result<Self, EalError> {
        Self::start(&Args::complete(&owned(args), None, std::process::id(), &allowed_cpus()))
    }

    /// The same with so much memory where nobody says how much and there are no hugepages. Hugepages are taken as they
    /// are needed.
    ///
    /// # Errors
    /// [`EalError`]; one attempt per process.
    pub fn init_with<S: AsRef<str>>(args: &[S], mebibytes: u64) -> Result<Self, EalError> {
        Self::start(&Args::complete(&owned(args), Some(mebibytes), std::process::id(), &allowed_cpus()))
    }

    /// Starts DPDK with `args` and nothing added but the program name.
    ///
    /// # Errors
    /// [`EalError`]; one attempt per process.
    pub fn init_exact<S: AsRef<str>>(args: &[S]) -> Result<Self, EalError> {
        Self::start(&Args::exact(&owned(args)))
    }

    fn start(args: &Args) -> Result<Self, EalError> {
        let argv = args
            .argv
            .iter()
            .map(|a| CString::new(a.as_str()).map_err(|_| EalError::ZeroByte(a.clone())))
            .collect::<Result<Vec<_>, _>>()?;
        let old = sys::weir_limit::WEIR_VERSION < sys::weir_limit::WEIR_VERSION_25_11;
        if old && args.has("--no-huge") && args.has("--in-memory") {
            return Err(EalError::InMemoryWithoutHugepages);
        }
        if STARTED.swap(true, Ordering::SeqCst) {
            return Err(EalError::AlreadyInitialised);
        }
        let files = raise_file_limit();
        if files < FILES {
            return Err(EalError::FewFiles { limit: files, needed: FILES });
        }
        let expected = args.prefix.as_ref().map(|prefix| folder::parent().join(prefix));
        if let Some(folder) = expected.filter(|folder| !folder::wait_for_end(folder, ENDING)) {
            return Err(EalError::Ending { folder: folder.display().to_string() });
        }
        let init = std::thread::spawn(move || {
            let done = rte_eal_init(&argv);
            (argv, done)
        });
        let (argv, done) = init.join().expect("the initialising thread runs C code and cannot panic");
        let own_folder = args.prefix.as_ref().and_then(|prefix| {
            let folder = runtime_folder();
            (folder.file_name() == Some(prefix.as_ref())).then_some(folder)
        });
        if let Some(folder) = &own_folder {
            folder::remove_stale(folder);
        }
        if let Err((errno, reason)) = done {
            let error = explain(args, errno, reason);
            remove_folder(own_folder.as_ref().filter(|folder| !folder::is_in_use(folder)));
            return Err(error);
        }
        Ok(Self(Arc::new(Inner {
            _argv: argv,
            lcores: Lcore::workers(),
            capture: AtomicBool::new(false),
            own_folder,
            state: Mutex::default(),
        })))
    }

    /// Cores that have a worker lcore, busy or not, ascending.
    pub fn cores(&self) -> Vec<usize> {
        let cores: BTreeSet<usize> = self.0.lcores.iter().flat_map(|l| l.cpus.iter().copied()).collect();
        cores.into_iter().collect()
    }

    /// Whether `dpdk-dumpcap` can attach ([`Self::allow_capture`]).
    pub fn can_capture(&self) -> bool {
        self.0.capture.load(Ordering::SeqCst)
    }

    /// Lets `dpdk-dumpcap` and `dpdk-proc-info` attach, if they can: secondary processes map the primary's memory, so it
    /// takes hugepages. At the end of a capture `dpdk-dumpcap` frees a ring and a pool that a worker may be copying to
    /// at that moment, which ends this process: nobody is let in by default.
    pub fn allow_capture(&self) -> bool {
        let _one_at_a_time = self.state();
        // SAFETY: the EAL is up; one caller at a time, and it is undone once, when the EAL goes.
        let open =
            self.can_capture() || unsafe { sys::rte_eal_has_hugepages() != 0 && sys::rte_pdump_init() == 0 };
        self.0.capture.store(open, Ordering::SeqCst);
        open
    }

    /// Folder of DPDK's run-time files, among them the telemetry socket.
    pub fn runtime_folder(&self) -> PathBuf {
        runtime_folder()
    }

    /// DPDK's version, as it names itself.
    pub fn version(&self) -> String {
        // SAFETY: a static string.
        unsafe { CStr::from_ptr(sys::rte_version()) }.to_string_lossy().into_owned()
    }

    /// Sets what DPDK writes to standard error from now on.
    pub fn set_log_level(&self, level: LogLevel) {
        // SAFETY: stores a number.
        unsafe { sys::rte_log_set_global_level(level as u32) }
    }

    /// Runs `start` while this thread, and every thread `start` makes, stays off the CPUs of pinned workers on
    /// `cores`; then this thread may run where it could before. Where no other CPU is left nothing changes.
    pub fn beside_workers<T>(&self, cores: &[usize], start: impl FnOnce() -> T) -> T {
        let pinned =
            |cpu: &usize| cores.contains(cpu) && self.lcores().iter().any(|lcore| lcore.cpus[..] == [*cpu]);
        let allowed = allowed_cpus();
        let spare: Vec<usize> = allowed.iter().copied().filter(|cpu| !pinned(cpu)).collect();
        let moved = !spare.is_empty() && spare.len() < allowed.len() && stay_on(&spare);
        let done = start();
        if moved {
            stay_on(&allowed);
        }
        done
    }

    pub(crate) fn lcores(&self) -> &[Lcore] {
        &self.0.lcores
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Takes a pool whose last handle is gone, and frees it once its frames are home.
    pub(crate) fn retire(&mut self, pool: NonNull<sys::rte_mempool>) {
        self.retired.push(RetiredPool(pool));
        self.sweep();
    }

    /// Frees retired pools that are full.
    ///
    /// A worker gives frames back through its lcore's cache, which counts a frame before it stores it;
    /// so while any worker runs, a pool that looks full may still be written to. A worker cannot begin
    /// during the sweep, as that takes this lock.
    pub(crate) fn sweep(&mut self) {
        if !self.busy.is_empty() {
            return;
        }
        self.retired.retain(|pool| {
            let pool = pool.0.as_ptr();
            // SAFETY: no handle to the pool is left, so no frame can leave it; full means that none
            // is abroad. Without workers nothing writes to its caches.
            unsafe {
                let full = sys::rte_mempool_avail_count(pool) == sys::weir_pool_size(pool);
                if full {
                    sys::rte_mempool_free(pool);
                }
                !full
            }
        });
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        state.sweep();
        // While a frame is still held somewhere (some drivers, `net_af_xdp` of 22.11 among them, never
        // give all of theirs back) its memory must stay, so DPDK stays up until the process ends.
        if state.retired.is_empty() {
            // SAFETY: all ports, pools and workers held a handle and are gone; no frame is abroad.
            unsafe {
                if self.capture.load(Ordering::SeqCst) {
                    sys::rte_pdump_uninit();
                }
                sys::rte_eal_cleanup();
            }
        }
        remove_folder(self.own_folder.as_ref());
    }
}

/// Left-over files harm nobody, so there is nothing to do about a failure.
fn remove_folder(folder: Option<&PathBuf>) {
    if let Some(folder) = folder {
        let _ = std::fs::remove_dir_all(folder);
    }
}

fn rte_eal_init(argv: &[CString]) -> Result<(), (i32, String)> {
    let mut pointers: Vec<*mut c_char> = argv.iter().map(|a| a.as_ptr().cast_mut()).collect();
    pointers.push(std::ptr::null_mut());
    let count = c_int::try_from(argv.len()).unwrap_or(c_int::MAX);
    // SAFETY: argv is a NULL-terminated vector of strings that outlive the EAL or this failed call; DPDK
    // permutes the vector and leaves the strings alone. Called once per process.
    unsafe {
        sys::weir_log_to_stderr();
        if sys::rte_eal_init(count, pointers.as_mut_ptr()) >= 0 {
            return Ok(());
        }
        Err((sys::weir_errno(), last_reason()))
    }
}

fn explain(args: &Args, errno: i32, reason: String) -> EalError {
    let wants_hugepages = !args.has("--no-huge");
    let runtime = runtime_folder();
    if runtime.as_os_str().is_empty() {
        // DPDK makes it as soon as it has read its arguments: these are wrong, or it could not.
        let parent = folder::parent();
        if !folder::can_be_made(&parent) {
            return EalError::Folder { folder: parent.display().to_string() };
        }
    }
    if folder::is_in_use(&runtime) {
        return EalError::InUse { folder: runtime.display().to_string() };
    }
    match errno {
        libc::EACCES | libc::ENOMEM if wants_hugepages && free_hugepages() == Some(0) => {
            EalError::NoHugepages
        }
        libc::EACCES if wants_hugepages && !args.has("--in-memory") && !folder::is_hugetlbfs_mounted() => {
            EalError::NoHugetlbfs
        }
        libc::EACCES | libc::EPERM => {
            EalError::NoPermission { reason, runtime: runtime_folder().display().to_string() }
        }
        _ => EalError::Failed { reason, arguments: args.argv[1..].join(" ") },
    }
}

/// For so long a start waits for a process that was killed and whose devices the kernel still closes.
const ENDING: Duration = Duration::from_secs(5);

/// Open files the EAL, its devices and management need at least.
const FILES: u64 = 64;

/// Raises the limit of open files as far as we may; what it is then. DPDK aborts where it runs out of them.
fn raise_file_limit() -> u64 {
    // SAFETY: both calls read or fill one struct of numbers.
    unsafe {
        let mut limit: libc::rlimit = std::mem::zeroed();
        if libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) != 0 {
            return u64::MAX;
        }
        let wanted = libc::rlimit { rlim_cur: limit.rlim_max, ..limit };
        match libc::setrlimit(libc::RLIMIT_NOFILE, &raw const wanted) {
            0 => wanted.rlim_cur,
            _ => limit.rlim_cur,
        }
    }
}

/// Free hugepages of all sizes, or `None` where the system does not tell.
fn free_hugepages() -> Option<u64> {
    let mut free = 0;
    for size in std::fs::read_dir("/sys/kernel/mm/hugepages").ok()? {
        let text = std::fs::read_to_string(size.ok()?.path().join("free_hugepages")).ok()?;
        free += text.trim().parse::<u64>().ok()?;
    }
    Some(free)
}

fn runtime_folder() -> PathBuf {
    // SAFETY: a static string, empty before the EAL has parsed its arguments.
    let folder = unsafe { CStr::from_ptr(sys::rte_eal_get_runtime_dir()) };
    PathBuf::from(folder.to_string_lossy().into_owned())
}

fn owned<S: AsRef<str>>(args: &[S]) -> Vec<String> {
    args.iter().map(|a| a.as_ref().to_owned()).collect()
}

/// Keeps this thread, and those it will make, on these CPUs. `false`: the system refuses.
fn stay_on(cpus: &[usize]) -> bool {
    // SAFETY: cpu_set_t is a bitmap, valid when zero; the macros check their range; the call reads its size.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        for cpu in cpus.iter().filter(|cpu| **cpu < libc::CPU_SETSIZE as usize) {
            libc::CPU_SET(*cpu, &mut set);
        }
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const set) == 0
    }
}

/// CPUs this thread may run on, ascending.
fn allowed_cpus() -> Vec<usize> {
    // SAFETY: cpu_set_t is a bitmap, valid when zero; the call fills at most its size.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        if libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &raw mut set) != 0 {
            return Vec::new();
        }
        (0..libc::CPU_SETSIZE as usize).filter(|&cpu| libc::CPU_ISSET(cpu, &set)).collect()
    }
}
