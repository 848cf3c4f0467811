//! Two ports in one process, joined by two rings: what one sends, the other receives.

use std::ptr::NonNull;
use std::sync::Arc;

use weir_dpdk_sys as sys;

use super::device::{Device, c_name};
use super::{Port, Stopped};
use crate::error::{PortError, last_reason};
use crate::{Burst, Eal, free_burst};

/// The rings, alive until both ports are closed.
#[derive(Debug)]
pub(super) struct RingPair {
    rings: [NonNull<sys::rte_ring>; 2],
    _eal: Eal,
}

// SAFETY: the rings are used through the ports; here they are only held, and emptied when no port is left.
unsafe impl Send for RingPair {}
// SAFETY: as above, nothing is done with them by reference.
unsafe impl Sync for RingPair {}

/// The ring a port receives from: to ask how full it is.
#[derive(Clone, Copy, Debug)]
pub(super) struct RxRing(NonNull<sys::rte_ring>);

// SAFETY: only the number of its entries is read, which DPDK allows from any thread.
unsafe impl Send for RxRing {}
// SAFETY: as above.
unsafe impl Sync for RxRing {}

impl RxRing {
    /// Frames waiting. The ring must be alive: its pair is held by the device of the port.
    pub(super) fn count(self) -> u32 {
        // SAFETY: see above.
        unsafe { sys::rte_ring_count(self.0.as_ptr()) }
    }
}

/// Two stopped ports back to back over single-producer, single-consumer rings of `size` frames, which is
/// rounded up to 2^n - 1. Frames pass by handle, not by copy. The ports are `net_ring_NAMEa` and
/// `net_ring_NAMEb`, with one queue each way.
///
/// # Errors
/// The name is in use or too long, or there is no memory for the rings.
pub fn ring_pair(eal: &Eal, name: &str, size: u32) -> Result<(Port<Stopped>, Port<Stopped>), PortError> {
    // "net_ring_" in front, "a" or "b" behind, "RG_" for the ring's memory.
    if name.is_empty() || name.len() + 10 > sys::weir_limit::WEIR_RING_NAME_MAX as usize {
        return Err(PortError::Name(name.to_owned()));
    }
    let first = Ring::new(&format!("{name}a"), size)?;
    let second = Ring::new(&format!("{name}b"), size)?;
    let rings = [first.release(), second.release()];
    let rings = Arc::new(RingPair { rings, _eal: eal.clone() });
    let [a, b] = rings.rings;
    let one = ring_port(eal, format!("{name}a"), a, b, &rings)?;
    let two = ring_port(eal, format!("{name}b"), b, a, &rings)?;
    Ok((one, two))
}

fn ring_port(
    eal: &Eal,
    name: String,
    rx: NonNull<sys::rte_ring>,
    tx: NonNull<sys::rte_ring>,
    rings: &Arc<RingPair>,
) -> Result<Port<Stopped>, PortError> {
    let c_name = c_name(&name)?;
    let rx_ring = rx;
    let (mut rx, mut tx) = (rx.as_ptr(), tx.as_ptr());
    // SAFETY: the rings live until the port is closed, held by its device; the arrays are read only during the call.
    let id = unsafe { sys::rte_eth_from_rings(c_name.as_ptr(), &raw mut rx, 1, &raw mut tx, 1, 0) };
    let Ok(id) = u16::try_from(id) else {
        return Err(PortError::Driver { port: name, step: "making a port of rings", reason: last_reason() });
    };
    let name = format!("net_ring_{name}");
    let device = Device::of_rings(eal, id, name, RxRing(rx_ring), rings.clone());
    Ok(Port::with(Arc::new(device)))
}

/// A ring not yet given to a pair; freed if it never is.
struct Ring(NonNull<sys::rte_ring>);

impl Ring {
    fn new(name: &str, size: u32) -> Result<Self, PortError> {
        let c_name = c_name(name)?;
        let slots = size.saturating_add(1).checked_next_power_of_two().unwrap_or(0).max(2);
        // SAFETY: the EAL is up; the name is a string.
        let ring = unsafe { sys::weir_ring_create_spsc(c_name.as_ptr(), slots) };
        NonNull::new(ring).map(Self).ok_or_else(|| PortError::Driver {
            port: name.to_owned(),
            step: "making a ring",
            reason: last_reason(),
        })
    }

    fn release(self) -> NonNull<sys::rte_ring> {
        let ring = self.0;
        std::mem::forget(self);
        ring
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: nobody else has seen the ring.
        unsafe { sys::rte_ring_free(self.0.as_ptr()) }
    }
}

impl Drop for RingPair {
    fn drop(&mut self) {
        let mut burst = Burst::new();
        for ring in self.rings {
            // SAFETY: both ports are closed, so we are the only user; the ring holds owned frames, and
            // the empty burst has room for its capacity of them.
            unsafe {
                loop {
                    let room = burst.capacity() as u32;
                    let n = sys::weir_ring_dequeue_mbufs(ring.as_ptr(), burst.as_mut_ptr().cast(), room);
                    if n == 0 {
                        break;
                    }
                    burst.set_len(n as usize);
                    free_burst(&mut burst);
                }
                sys::rte_ring_free(ring.as_ptr());
            }
        }
    }
}
