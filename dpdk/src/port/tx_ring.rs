//! The transmit ring that `net_af_packet` shares with a packet socket.
//!
//! The driver puts frames into slots, marks each to be sent and has the kernel send them (`sendto`). What the kernel does not send stays
//! marked, and leaves with the next frames, however late that is. It fails with `ENETDOWN` while the interface is down, and once more
//! for the error that waits in the socket since then. The driver counts those frames as errors: they have to be lost. It
//! fails with `ENOBUFS` while a veth's peer is down, or a queue is full, which the driver counts as sent: they may leave while the link is
//! the same.

use std::io::{Error, Result};
use std::os::fd::RawFd;
use std::ptr::NonNull;

/// What the driver has without `framesz` and `framecnt`; without `blocksz` a block is a page.
const FRAME: usize = 2048;
const COUNT: usize = 512;

/// Slots of a socket, mapped a second time.
#[derive(Debug)]
pub(super) struct TxRing {
    /// The receive ring, and as much behind it the transmit ring.
    map: NonNull<libc::c_void>,
    bytes: usize,
    /// Bytes of a slot.
    frame: usize,
}

// SAFETY: a mapping of the process, of no thread.
unsafe impl Send for TxRing {}

/// Bytes of a slot, and of the transmit ring, as the driver has them with these arguments.
fn geometry(devargs: &str, page: usize) -> Option<(usize, usize)> {
    let number = |key: &str, default| {
        let mut values = devargs.split(',').filter_map(|one| one.strip_prefix(key)?.strip_prefix('='));
        values.next_back().map_or(Some(default), |text| text.parse().ok())
    };
    let (frame, block, count) =
        (number("framesz", FRAME)?, number("blocksz", page)?, number("framecnt", COUNT)?);
    let blocks = count.checked_div(block.checked_div(frame)?)?;
    (frame.is_multiple_of(align_of::<libc::tpacket2_hdr>())).then_some((frame, block.checked_mul(blocks)?))
}

fn page_size() -> usize {
    // SAFETY: asks for a number.
    usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096)
}

impl TxRing {
    /// That of a socket whose driver has these arguments.
    ///
    /// # Errors
    /// Its rings are of another size, or there is no memory.
    pub fn of(socket: RawFd, devargs: &str) -> Result<Self> {
        let Some((frame, ring)) = geometry(devargs, page_size()) else {
            return Err(Error::from_raw_os_error(libc::EINVAL));
        };
        let bytes = 2 * ring;
        let access = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping, which the kernel refuses if it is not as long as both rings.
        let map = unsafe { libc::mmap(std::ptr::null_mut(), bytes, access, libc::MAP_SHARED, socket, 0) };
        match NonNull::new(map).filter(|map| map.as_ptr() != libc::MAP_FAILED) {
            Some(map) => Ok(Self { map, bytes, frame }),
            None => Err(Error::last_os_error()),
        }
    }

    /// Has the kernel pass over the frames that wait to be sent, and says how many those are. They get a length the kernel frees a
    /// slot for without sending it (`PACKET_LOSS` of packet(7), which the driver sets): a slot that is freed here would stop the
    /// kernel, which looks at one after the other.
    pub fn discard(&mut self) -> usize {
        let slots = self.bytes / 2 / self.frame;
        let waits = |slot: &usize| {
            // SAFETY: within the mapping, which is aligned to a page and slots to a header. Nobody else is at the ring: driver and kernel
            // work on it in the thread that has the queue.
            unsafe {
                let header =
                    self.map.byte_add(self.bytes / 2 + slot * self.frame).cast::<libc::tpacket2_hdr>();
                let (status, len) =
                    (&raw mut (*header.as_ptr()).tp_status, &raw mut (*header.as_ptr()).tp_len);
                let waits =
                    status.read_volatile() == libc::TP_STATUS_SEND_REQUEST && len.read_volatile() != 0;
                if waits {
                    len.write_volatile(0);
                }
                waits
            }
        };
        (0..slots).filter(waits).count()
    }
}

impl Drop for TxRing {
    fn drop(&mut self) {
        // SAFETY: mapped in `of`, and nothing points there any more.
        unsafe { libc::munmap(self.map.as_ptr(), self.bytes) };
    }
}

/// Before the driver is called.
pub(super) fn clear_errno() {
    // SAFETY: this thread's.
    unsafe { *libc::__errno_location() = 0 };
}

/// The driver's last system call, `sendto`, failed, and it has counted the frames of the burst as errors. With the others it has not;
/// `EINTR` is of the call before it.
pub(super) fn was_refused() -> bool {
    let errno = Error::last_os_error().raw_os_error().unwrap_or(0);
    !matches!(errno, 0 | libc::EAGAIN | libc::ENOBUFS | libc::EINTR)
}

#[cfg(test)]
mod tests {
    use super::geometry;

    #[test]
    fn rings_are_as_the_driver_makes_them() {
        let of = |devargs| geometry(devargs, 4096);
        assert_eq!(of("iface=a"), Some((2048, 1 << 20)));
        assert_eq!(geometry("iface=a", 1 << 16), of("iface=a"));
        assert_eq!(of("iface=a,framesz=10240,blocksz=20480"), Some((10240, 512 * 10240)));
        assert_eq!(of("iface=a,blocksz=16384,framecnt=64"), Some((2048, 64 * 2048)));
        for wrong in ["framesz=0", "framesz=4096,blocksz=2048", "framesz=x", "framesz=18446744073709551615"] {
            assert_eq!(of(wrong), None, "{wrong}");
        }
    }
}
