//! Safe Rust over DPDK.
//!
//! | Here | What it is | What keeps it safe |
//! |---|---|---|
//! | [`Eal`] | DPDK's run time, once per process | a counted handle that everything below holds |
//! | [`Mempool`], [`Mbuf`] | memory of frames; one owned handle to a frame | `Drop` gives the frame back |
//! | [`Port`] | a NIC or virtual device, `Stopped` or `Started` | closed on drop, after its last queue |
//! | [`RxQueue`], [`TxQueue`] | one queue of a started port | one owner each, `&mut` to move frames |
//! | [`Worker`] | a polling thread on a core of its own | joined on drop |
//! | [`Interrupts`] | DPDK's interrupt thread, which drivers use | held back while a worker is inside a burst |
//! | [`MemifListener`] | the socket of a `net_memif` server | peers that come and go never reach the driver half |
//! | [`Clock`] | nanoseconds from the time stamp counter | plain arithmetic |
//!
//! **Lifetimes.** A worker takes its queues with it, so nothing here borrows: handles count. The port
//! lives until its last queue is dropped, a pool as long as a port or a handle uses it, the EAL until
//! all of them are gone. The one exception is [`Mbuf`], which counts nothing, being made per frame: a
//! pool is given back only when all its frames are home, and while one is abroad neither the pool nor
//! the EAL is torn down.
//!
//! **Frames.** A queue takes ownership of what it sends. What it refuses stays in the burst, in order:
//! a lossless switch must not forget it.
//!
//! Needs DPDK 22.11 or later, before 26.

pub mod args;
mod capabilities;
mod clock;
mod eal;
mod error;
mod folder;
mod interrupts;
mod mbuf;
mod memif;
mod mempool;
pub mod port;
pub mod privileges;
pub mod telemetry;
mod worker;

pub use capabilities::{Capabilities, MacControl};
pub use clock::Clock;
pub use eal::{Eal, LogLevel};
pub use error::{EalError, FrameError, InterruptError, LaunchError, MempoolError, PortError, TelemetryError};
pub use interrupts::{Interrupts, Polling};
pub use mbuf::{Mbuf, free_burst};
pub use memif::{MemifAddress, MemifListener};
pub use mempool::Mempool;
pub use port::{
    Link, LinkWatch, MAX_PORTS, Port, PortConfig, RxQueue, StartError, Started, Stats, StopError, Stopped,
    TxQueue,
};
pub use worker::Worker;

/// A burst of frames: filled by [`RxQueue::receive`], emptied by [`TxQueue::transmit`].
pub type Burst = weir_dataplane::types::Burst<Mbuf>;
