//! What can go wrong, and what to change.

/// The EAL did not start.
#[derive(Debug, thiserror::Error)]
pub enum EalError {
    /// DPDK starts once per process, whether it succeeded or not.
    #[error("DPDK was already initialised in this process; it can be once only, clone the first Eal instead")]
    AlreadyInitialised,
    /// An argument with a zero byte inside.
    #[error("EAL argument {0:?} has a zero byte in it")]
    ZeroByte(String),
    /// `--no-huge` implies legacy memory, which `--in-memory` excludes before DPDK 25.11.
    #[error(
        "--no-huge and --in-memory exclude each other in this DPDK; drop --in-memory, or drop --no-huge \
         and reserve hugepages (sysctl vm.nr_hugepages=512)"
    )]
    InMemoryWithoutHugepages,
    /// Hugepages were asked for, and none are free.
    #[error(
        "no free hugepages: reserve some (sysctl vm.nr_hugepages=512), or add --no-huge (slower, no secondary processes)"
    )]
    NoHugepages,
    /// Hugepages are there, and no way to them.
    #[error(
        "hugepages are reserved, but no hugetlbfs is mounted: mount -t hugetlbfs nodev /dev/hugepages, or add --in-memory"
    )]
    NoHugetlbfs,
    /// Another process has this prefix.
    #[error(
        "another process runs in {folder}: give each its own --file-prefix=NAME, or leave it out for one of its own"
    )]
    InUse {
        /// Folder of the run-time files.
        folder: String,
    },
    /// The process that had this prefix was killed, and is not gone yet; or one that was attached to it lives on.
    #[error(
        "files in {folder} are still held by a process that is ending, or by one that was attached to it (dpdk-dumpcap): start \
         again when that is gone (fuser -v {folder}/*), or with another --file-prefix=NAME"
    )]
    Ending {
        /// Folder of the run-time files.
        folder: String,
    },
    /// Run-time files cannot be made.
    #[error(
        "cannot make a folder in {folder}: it must belong to this user; set XDG_RUNTIME_DIR (in a service RUNTIME_DIRECTORY, \
         one folder and no list) to one that does"
    )]
    Folder {
        /// Where run-time folders are.
        folder: String,
    },
    /// The limit of open files is too low, and may not be raised.
    #[error("{limit} files may be open, {needed} are needed: ulimit -n 1024, or LimitNOFILE= of the service")]
    FewFiles {
        /// The limit.
        limit: u64,
        /// What it should be at least.
        needed: u64,
    },
    /// The system refused.
    #[error(
        "DPDK was refused a resource ({reason}): run as root or give CAP_NET_ADMIN, CAP_IPC_LOCK and access \
         to the hugepage mount and {runtime}"
    )]
    NoPermission {
        /// DPDK's words for its error number.
        reason: String,
        /// Folder of the run-time files.
        runtime: String,
    },
    /// Anything else; DPDK has logged why on standard error.
    #[error(
        "DPDK did not initialise: {reason} (arguments: {arguments}); its log on standard error says more"
    )]
    Failed {
        /// DPDK's words for its error number.
        reason: String,
        /// The arguments handed to it, those added by default included.
        arguments: String,
    },
}

/// No pool of frames.
#[derive(Debug, thiserror::Error)]
pub enum MempoolError {
    /// DPDK's memory is too small, or too scattered.
    #[error(
        "pool `{name}` of {count} frames of {data_bytes} bytes needs {mebibytes} MiB and got none ({reason}): \
         give EAL more memory (-m {suggest_mebibytes} with --no-huge; else more hugepages) or use fewer frames"
    )]
    NoMemory {
        /// Name of the pool.
        name: String,
        /// Frames asked for.
        count: u32,
        /// Bytes per frame.
        data_bytes: u16,
        /// Memory asked for, rounded up.
        mebibytes: u64,
        /// A value of `-m` that should do.
        suggest_mebibytes: u64,
        /// DPDK's words.
        reason: String,
    },
    /// Names are unique, and short.
    #[error("pool name `{0}` is taken, empty, too long or has a zero byte")]
    Name(String),
    /// Numbers DPDK does not take.
    #[error(
        "pool `{name}`: {count} frames with a cache of {cache} per core: the cache may be {max_cache} and at \
         most two thirds of the frames"
    )]
    Size {
        /// Name of the pool.
        name: String,
        /// Frames asked for.
        count: u32,
        /// Cache asked for.
        cache: u32,
        /// DPDK's limit.
        max_cache: u32,
    },
}

/// No frame was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// The pool is empty.
    #[error("the pool has no free frame")]
    PoolEmpty,
    /// The bytes do not fit a frame of this pool.
    #[error("{len} bytes do not fit a frame of {room}")]
    TooLong {
        /// Bytes given.
        len: usize,
        /// Bytes a frame can hold.
        room: usize,
    },
}

/// A port refused.
#[derive(Debug, thiserror::Error)]
pub enum PortError {
    /// No such device, or no driver for it.
    #[error(
        "cannot attach `{devargs}`: {reason}; for a NIC: is it bound (dpdk-devbind.py --status) and is EAL \
         run without --no-pci? for a virtual device: is the driver installed, does the interface exist?"
    )]
    Probe {
        /// What was asked for.
        devargs: String,
        /// DPDK's words.
        reason: String,
    },
    /// The device is there but gives no port, or all of them have an owner.
    #[error("device `{0}` has no port that is free; each port has one owner")]
    InUse(String),
    /// A driver sees its arguments once.
    #[error(
        "device `{name}` came up with {} and cannot be given `{asked}` any more: write `-a {name},{asked}` in the EAL \
         arguments, or leave it out there",
        if has.is_empty() { "no arguments".to_owned() } else { format!("`{has}`") }
    )]
    Devargs {
        /// The device.
        name: String,
        /// Arguments asked for.
        asked: String,
        /// Arguments it has.
        has: String,
    },
    /// The device was taken away and given up.
    #[error("port {0}: its device was taken away")]
    Gone(String),
    /// A name with a zero byte, empty or too long.
    #[error("`{0}` is no usable name for a port")]
    Name(String),
    /// A setting the device cannot have.
    #[error("port {port}: {what}")]
    Config {
        /// Name of the port.
        port: String,
        /// The rule and the two numbers that clash.
        what: String,
    },
    /// A call into the driver failed.
    #[error("port {port}: {step} failed: {reason}")]
    Driver {
        /// Name of the port.
        port: String,
        /// The call.
        step: &'static str,
        /// DPDK's words.
        reason: String,
    },
    /// `start` or a queue before `configure`.
    #[error("port {0} is not configured")]
    NotConfigured(String),
    /// A queue has one owner at a time.
    #[error("port {port} has no free {direction} queue {queue}")]
    NoQueue {
        /// Name of the port.
        port: String,
        /// `RX` or `TX`.
        direction: &'static str,
        /// Index asked for.
        queue: u16,
    },
}

/// A worker was not started.
#[derive(Debug, thiserror::Error)]
pub enum LaunchError {
    /// The core is not one of the EAL's worker lcores, or has a worker already.
    #[error(
        "no idle worker lcore on core {core}; idle ones are on cores {idle:?} (the EAL's main lcore runs none; see -l and --lcores)"
    )]
    NoLcore {
        /// Core asked for.
        core: usize,
        /// Cores that would do.
        idle: Vec<usize>,
    },
    /// The EAL refused.
    #[error("lcore {lcore} did not take the work: {reason}")]
    Refused {
        /// DPDK's number of the lcore.
        lcore: u32,
        /// DPDK's words.
        reason: String,
    },
}

/// DPDK does not take a telemetry command.
#[derive(Debug, thiserror::Error)]
#[error("telemetry command {command}: {reason}")]
pub struct TelemetryError {
    /// The command.
    pub command: String,
    /// DPDK's words.
    pub reason: String,
}

/// Interrupts cannot be held back.
#[derive(Debug, thiserror::Error)]
pub enum InterruptError {
    /// By the system, or by DPDK.
    #[error("an interrupt of our own is refused: {0}")]
    Refused(String),
    /// Its interrupt thread is stuck.
    #[error("DPDK's interrupt thread does not answer")]
    Silent,
    /// Nobody can tell when something has come for that thread.
    #[error("/proc/self/fdinfo does not show what DPDK's interrupt thread waits for: is /proc mounted?")]
    Unseen,
}

/// DPDK's words for an error number of either sign.
pub(crate) fn reason(errno: i32) -> String {
    if errno == -1 {
        // What drivers return that have no number at hand; as an error number it would be EPERM.
        return "the driver gave no reason, see its log (-1)".into();
    }
    // SAFETY: rte_strerror takes any number and returns a string that is static or of this thread.
    let text = unsafe { std::ffi::CStr::from_ptr(weir_dpdk_sys::rte_strerror(errno.saturating_abs())) };
    format!("{} ({errno})", text.to_string_lossy())
}

/// [`reason`] of this thread's last DPDK error.
pub(crate) fn last_reason() -> String {
    // SAFETY: reads a thread-local number.
    reason(unsafe { weir_dpdk_sys::weir_errno() })
}
