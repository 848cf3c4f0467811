//! What the loop asks of devices and of time: DPDK's in a switch that runs, made up ones in its tests. All of it is
//! known when the loop is compiled, and costs nothing.

use super::mtu::Carries;
use weir_dataplane::frame::Frame;
use weir_dataplane::switch::Wire;
use weir_dataplane::types::{Burst, Nanos};
use weir_dpdk::{Clock, Mbuf, Mempool, RxQueue, TxQueue};

/// A receive queue.
pub trait Receive<F>: std::fmt::Debug {
    /// Takes frames that have come, at most `most`, which is at least [`weir_dataplane::turn::LEAST`]. Fewer do not mean
    /// that no more are there: vector drivers give multiples of 4, 8 or 32, others no more than 32 or 64 at once.
    fn receive(&mut self, burst: &mut Burst<F>, most: usize) -> usize;

    /// Frames that wait in it, if the driver can tell.
    fn backlog(&self) -> Option<u32>;
}

/// A transmit queue.
pub trait Transmit<F: Frame>: Wire<F> + std::fmt::Debug {
    /// The link went down or came up: what has been taken and not been sent is lost.
    fn link_changed(&mut self) {}
}

/// What time it is.
pub trait Time: std::fmt::Debug {
    /// Nanoseconds since start.
    fn now(&self) -> Nanos;
}

/// Where frames come from that are made here.
pub trait Source<F>: std::fmt::Debug {
    /// An empty one; `None`: there is no memory.
    fn empty(&self) -> Option<F>;

    /// Adds bytes at its end. `false`: they do not fit.
    #[must_use]
    fn append(frame: &mut F, bytes: &[u8]) -> bool;
}

/// Devices, frames and time that belong together.
pub trait Io {
    /// What they carry.
    type Frame: Frame + std::fmt::Debug;
    /// Where frames come from.
    type Rx: Receive<Self::Frame>;
    /// Where they go.
    type Tx: Transmit<Self::Frame>;
    /// What frames are made from.
    type Pool: Source<Self::Frame>;
    /// The time.
    type Clock: Time;
}

/// DPDK's.
#[derive(Debug)]
pub struct Dpdk;

impl Io for Dpdk {
    type Frame = Mbuf;
    type Rx = RxQueue;
    type Tx = DpdkWire;
    type Pool = Mempool;
    type Clock = Clock;
}

impl Receive<Mbuf> for RxQueue {
    #[inline(always)]
    fn receive(&mut self, burst: &mut Burst<Mbuf>, most: usize) -> usize {
        self.receive_at_most(burst, most)
    }

    fn backlog(&self) -> Option<u32> {
        RxQueue::backlog(self)
    }
}

impl Source<Mbuf> for Mempool {
    #[inline(always)]
    fn empty(&self) -> Option<Mbuf> {
        self.alloc()
    }

    #[inline(always)]
    fn append(frame: &mut Mbuf, bytes: &[u8]) -> bool {
        frame.append(bytes)
    }
}

impl Time for Clock {
    #[inline(always)]
    fn now(&self) -> Nanos {
        Clock::now(self)
    }
}

/// A transmit queue, the pool control frames are made from, and what the interface behind it takes, if the driver does not say what
/// it lost.
#[derive(Debug)]
pub struct DpdkWire {
    tx: TxQueue,
    pool: Mempool,
    carries: Option<Carries>,
}

impl DpdkWire {
    /// A queue, where control frames come from, and what may be sent.
    pub fn new(tx: TxQueue, pool: Mempool, carries: Option<Carries>) -> Self {
        Self { tx, pool, carries }
    }
}

impl Wire<Mbuf> for DpdkWire {
    #[inline]
    fn send(&mut self, frames: &mut Burst<Mbuf>) -> usize {
        match &self.carries {
            Some(carries) if !carries.takes_all(frames) => {
                carries.send(frames, |frames| self.tx.transmit(frames))
            }
            _ => self.tx.transmit(frames),
        }
    }

    #[cold]
    fn send_control(&mut self, frame: &[u8]) -> bool {
        let Ok(frame) = self.pool.frame(frame) else { return false };
        let mut burst = Burst::new();
        burst.push(frame);
        self.tx.transmit(&mut burst) == 1
    }
}

impl Transmit<Mbuf> for DpdkWire {
    #[cold]
    fn link_changed(&mut self) {
        self.tx.discard_unsent();
    }
}
