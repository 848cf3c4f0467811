//! Queues of a started port: where frames enter and leave.

use std::cell::Cell;
use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use weir_dpdk_sys as sys;

use super::device::{Device, Setup, devargs_of};
use super::tx_ring::{self, TxRing};
use crate::error::PortError;
use crate::{Burst, Mbuf};

/// A receive queue. One owner, who may take it to another thread; the port runs while it lives.
#[derive(Debug)]
pub struct RxQueue {
    of: Handle,
    /// Its driver may receive a frame in several segments: it uses less of a buffer than there is (`net_e1000_em` rounds
    /// down to a power of two).
    chains: bool,
}

/// A transmit queue. One owner, who may take it to another thread; the port runs while it lives.
#[derive(Debug)]
pub struct TxQueue {
    of: Handle,
    /// Of `net_af_packet`: what its driver leaves in the ring is seen to here.
    ring: Option<TxRing>,
}

/// Numbers beside the pointer, so that a burst touches this line only.
#[derive(Debug)]
struct Handle {
    port: u16,
    queue: u16,
    device: Arc<Device>,
    direction: Direction,
    not_sync: PhantomData<Cell<()>>,
}

#[derive(Clone, Copy, Debug)]
enum Direction {
    Rx,
    Tx,
}

impl Direction {
    fn queues(self, setup: &mut Setup) -> (&mut std::collections::BTreeSet<u16>, u16, &'static str) {
        match self {
            Self::Rx => (&mut setup.rx_taken, setup.config.rx_queues, "RX"),
            Self::Tx => (&mut setup.tx_taken, setup.config.tx_queues, "TX"),
        }
    }
}

impl Handle {
    fn take(device: &Arc<Device>, direction: Direction, queue: u16) -> Result<Self, PortError> {
        let mut setup = device.setup();
        let (taken, count, direction_name) = direction.queues(&mut setup);
        if queue >= count || !taken.insert(queue) {
            return Err(PortError::NoQueue { port: device.name.clone(), direction: direction_name, queue });
        }
        drop(setup);
        Ok(Self { port: device.id, queue, device: device.clone(), direction, not_sync: PhantomData })
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        let mut setup = self.device.setup();
        self.direction.queues(&mut setup).0.remove(&self.queue);
    }
}

impl RxQueue {
    pub(super) fn take(device: &Arc<Device>, queue: u16) -> Result<Self, PortError> {
        let of = Handle::take(device, Direction::Rx, queue)?;
        // SAFETY: the port is open; DPDK refuses a queue it does not know.
        let chains = unsafe { sys::weir_eth_rx_chains(device.id, queue) };
        Ok(Self { of, chains })
    }

    /// Appends received frames to the burst, as many as there are and fit, and tells how many. Best with
    /// an empty burst: vectorised drivers receive in fours or eights and give nothing where fewer fit.
    #[inline]
    pub fn receive(&mut self, burst: &mut Burst) -> usize {
        self.receive_at_most(burst, usize::MAX)
    }

    /// The same, but no more than `most` frames.
    #[inline]
    pub fn receive_at_most(&mut self, burst: &mut Burst, most: usize) -> usize {
        let (len, room) = (burst.len(), burst.remaining_capacity().min(most));
        // SAFETY: the port is started while this handle lives, and the queue is ours alone; the spare
        // part of the burst has room for `room` pointers, of which DPDK writes the first n, each an mbuf
        // it gives away; an Mbuf is such a pointer.
        unsafe {
            let spare = burst.as_mut_ptr().add(len).cast::<*mut sys::rte_mbuf>();
            let n = usize::from(sys::rte_eth_rx_burst(self.of.port, self.of.queue, spare, room as u16));
            burst.set_len(len + n);
            if self.chains {
                join_segments(&mut burst[len..]);
            }
            n
        }
    }
}

/// Drivers that send frames of one segment only do not look whether there are more: they would cut the frame.
#[cold]
fn join_segments(frames: &mut [Mbuf]) {
    for frame in frames {
        // One that does not fit is longer than the port's MTU, and refused for that.
        let _ = frame.join_segments();
    }
}

impl RxQueue {
    /// Frames that wait to be received, where the driver can tell. A filling queue is about to lose
    /// frames before the switch sees them.
    pub fn backlog(&self) -> Option<u32> {
        if let Some(ring) = &self.of.device.rx_ring {
            return Some(ring.count());
        }
        // SAFETY: the port is started while this handle lives.
        let count = unsafe { sys::rte_eth_rx_queue_count(self.of.port, self.of.queue) };
        u32::try_from(count).ok()
    }
}

impl TxQueue {
    pub(super) fn take(device: &Arc<Device>, queue: u16) -> Result<Self, PortError> {
        let of = Handle::take(device, Direction::Tx, queue)?;
        let socket = device.setup().sockets.get(usize::from(queue)).copied();
        let ring = match socket {
            Some(socket) => {
                Some(TxRing::of(socket, &devargs_of(device.id)).map_err(|error| PortError::Driver {
                    port: device.name.clone(),
                    step: "transmit ring",
                    reason: error.to_string(),
                })?)
            }
            None => None,
        };
        Ok(Self { of, ring })
    }

    /// Hands frames to the device from the front of the burst, as many as it takes, and tells how many.
    /// The others stay in the burst, in order: they are not lost, and not yet sent.
    #[inline]
    #[must_use = "what the device did not take is still in the burst"]
    pub fn transmit(&mut self, burst: &mut Burst) -> usize {
        if self.ring.is_some() { self.transmit_by_ring(burst) } else { self.hand_over(burst) }
    }

    #[inline(always)]
    fn hand_over(&mut self, burst: &mut Burst) -> usize {
        let len = burst.len();
        // SAFETY: the port is started while this handle lives, and the queue is ours alone; DPDK takes
        // ownership of the first n frames, which the burst forgets, the rest moving to the front.
        unsafe {
            let frames = burst.as_mut_ptr();
            let n =
                usize::from(sys::rte_eth_tx_burst(self.of.port, self.of.queue, frames.cast(), len as u16));
            burst.set_len(len - n);
            if n < len {
                keep_rest(frames, n, len);
            }
            n
        }
    }

    /// The same where the driver leaves frames in its ring that it counts as lost: they are, then.
    #[inline(never)]
    fn transmit_by_ring(&mut self, burst: &mut Burst) -> usize {
        tx_ring::clear_errno();
        let n = self.hand_over(burst);
        if tx_ring::was_refused() {
            self.discard(n);
        }
        n
    }

    /// The link went down or came up: frames the device took and has not sent are lost, and counted as
    /// [`Stats::tx_errors`](super::Stats::tx_errors). Only ports of `net_af_packet` keep such frames.
    #[cold]
    pub fn discard_unsent(&mut self) {
        self.discard(0);
    }

    /// `counted`: as many of them the driver has counted already.
    #[cold]
    fn discard(&mut self, counted: usize) {
        let discarded = self.ring.as_mut().map_or(0, TxRing::discard);
        let more = (discarded as u64).wrapping_sub(counted as u64);
        self.of.device.tx_discarded.fetch_add(more, Relaxed);
    }
}

/// # Safety
/// `frames` has `len` elements, of which the first `n` are forgotten.
#[cold]
unsafe fn keep_rest(frames: *mut Mbuf, n: usize, len: usize) {
    // SAFETY: both ranges are within the array.
    unsafe { std::ptr::copy(frames.add(n), frames, len - n) }
}
