//! Memory for frames.

use std::ffi::CString;
use std::ptr::NonNull;
use std::sync::Arc;

use weir_dpdk_sys as sys;
use weir_dpdk_sys::weir_limit::{WEIR_MEMPOOL_CACHE_MAX, WEIR_MEMPOOL_NAME_MAX};

use crate::error::{FrameError, MempoolError, last_reason};
use crate::{Burst, Eal, Mbuf};

/// A pool of frames (mbufs), all allocated at creation. Clones share it.
///
/// When the last handle and the last port using it are gone, the pool is freed as soon as its frames
/// are home and no worker runs.
#[derive(Clone, Debug)]
pub struct Mempool(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    raw: NonNull<sys::rte_mempool>,
    eal: Eal,
    count: u32,
    data_bytes: u16,
}

// SAFETY: DPDK's pools may be used from any thread; the pointer is valid until `Drop`.
unsafe impl Send for Inner {}
// SAFETY: as above, all operations on a pool are thread safe.
unsafe impl Sync for Inner {}

/// Bytes of a page without hugepages.
const PAGE: u64 = 4096;

/// Bytes one frame with room for `data_bytes` takes in a pool, header and padding included.
fn element_bytes(data_bytes: u16) -> u64 {
    // SAFETY: arithmetic.
    u64::from(unsafe { sys::weir_pool_element_bytes(data_bytes) })
}

impl Mempool {
    /// A pool `name` of `count` frames with room for `data_bytes` each, plus DPDK's headroom of 128 in
    /// front (together at most 65535, to which `data_bytes` is cut).
    /// Each worker's lcore caches up to 1.5 times `cache` free frames (0: none), so `count` must exceed
    /// what is in use by that much per worker. `count` is best 2^n - 1.
    ///
    /// # Errors
    /// [`MempoolError::NoMemory`] says how much was asked for.
    pub fn new(eal: &Eal, name: &str, count: u32, cache: u32, data_bytes: u16) -> Result<Self, MempoolError> {
        Self::with(eal, name, count, cache, data_bytes, false, None)
    }

    /// The same on the memory node `socket` ([`Port::socket`](crate::Port::socket)) if there is memory left, so that a
    /// device does not reach across the machine for each frame.
    ///
    /// # Errors
    /// As for [`new`](Self::new).
    pub fn near(
        eal: &Eal,
        name: &str,
        count: u32,
        cache: u32,
        data_bytes: u16,
        socket: Option<u32>,
    ) -> Result<Self, MempoolError> {
        Self::with(eal, name, count, cache, data_bytes, false, socket)
    }

    /// [`near`](Self::near) for frames that one lcore takes from it and gives back: those given back last are taken first, while
    /// they are still in a cache of that core. Others may do so too, but wait for each other.
    ///
    /// # Errors
    /// As for [`new`](Self::new).
    pub fn of_one_lcore(
        eal: &Eal,
        name: &str,
        count: u32,
        cache: u32,
        data_bytes: u16,
        socket: Option<u32>,
    ) -> Result<Self, MempoolError> {
        Self::with(eal, name, count, cache, data_bytes, true, socket)
    }

    fn with(
        eal: &Eal,
        name: &str,
        count: u32,
        cache: u32,
        data_bytes: u16,
        last_first: bool,
        socket: Option<u32>,
    ) -> Result<Self, MempoolError> {
        let bad_name = || MempoolError::Name(name.to_owned());
        // DPDK puts "MP_" and "RG_MP_" in front for the memory zones of the same length.
        if name.is_empty() || name.len() + 6 > WEIR_MEMPOOL_NAME_MAX as usize {
            return Err(bad_name());
        }
        let c_name = CString::new(name).map_err(|_| bad_name())?;
        let max_cache = WEIR_MEMPOOL_CACHE_MAX;
        if count == 0 || cache > max_cache || u64::from(cache) * 3 > u64::from(count) * 2 {
            return Err(MempoolError::Size { name: name.to_owned(), count, cache, max_cache });
        }
        // Room for headroom and frame is counted in 16 bits.
        let data_bytes = data_bytes.min(u16::MAX - sys::weir_limit::WEIR_HEADROOM as u16);
        let socket = socket.and_then(|socket| i32::try_from(socket).ok()).unwrap_or(-1);
        // SAFETY: the EAL is up; the name is a string.
        let raw =
            unsafe { sys::weir_pool_create(c_name.as_ptr(), count, cache, data_bytes, last_first, socket) };
        let Some(raw) = NonNull::new(raw) else {
            // SAFETY: reads a thread-local number.
            let errno = unsafe { sys::weir_errno() };
            if errno == libc::EEXIST {
                return Err(bad_name());
            }
            let mebibytes = Self::memory_bytes(count, data_bytes).div_ceil(1 << 20);
            return Err(MempoolError::NoMemory {
                name: name.to_owned(),
                count,
                data_bytes,
                mebibytes,
                suggest_mebibytes: (mebibytes + mebibytes / 4 + 64).next_multiple_of(64),
                reason: last_reason(),
            });
        };
        Ok(Self(Arc::new(Inner { raw, eal: eal.clone(), count, data_bytes })))
    }

    /// Bytes `count` frames with room for `data_bytes` take where pages have 4 KiB: one that fits a page lies within one.
    pub fn memory_bytes(count: u32, data_bytes: u16) -> u64 {
        let element = element_bytes(data_bytes);
        match PAGE / element {
            0 => u64::from(count) * element,
            per_page => u64::from(count).div_ceil(per_page) * PAGE,
        }
    }

    /// Bytes DPDK sets apart for such a pool while it has as many: whole pages of 4 KiB for each frame. When it has less,
    /// [`Mempool::memory_bytes`] do.
    pub fn reserved_bytes(count: u32, data_bytes: u16) -> u64 {
        let element = element_bytes(data_bytes);
        if element <= PAGE {
            Self::memory_bytes(count, data_bytes)
        } else {
            u64::from(count) * element.next_multiple_of(PAGE)
        }
    }

    /// Frames the pool was made with.
    pub fn count(&self) -> u32 {
        self.0.count
    }

    /// Bytes a frame can hold.
    pub fn data_bytes(&self) -> u16 {
        self.0.data_bytes
    }

    /// Frames that are free, those in the caches of lcores included. Walks all caches: not for the path
    /// of a frame; exact while nobody allocates or frees.
    pub fn available(&self) -> u32 {
        // SAFETY: the pool is alive.
        unsafe { sys::rte_mempool_avail_count(self.raw().cast_const()) }
    }

    /// Frames held by anyone, rings and drivers included. See [`available`](Self::available).
    pub fn in_use(&self) -> u32 {
        self.0.count.saturating_sub(self.available())
    }

    /// An empty frame, or `None` when the pool is.
    pub fn alloc(&self) -> Option<Mbuf> {
        // SAFETY: the pool is alive; a frame it gives is ours alone.
        unsafe { Mbuf::from_raw(sys::rte_pktmbuf_alloc(self.raw())) }
    }

    /// Appends `n` empty frames to the burst: all of them, or none and `false` when the pool or the
    /// burst has not room for `n`.
    #[must_use]
    pub fn alloc_burst(&self, burst: &mut Burst, n: usize) -> bool {
        if n > burst.remaining_capacity() {
            return false;
        }
        let len = burst.len();
        // SAFETY: the spare part of the burst has room for n pointers, all of which DPDK writes on
        // success and none of which are counted on failure; an Mbuf is such a pointer.
        unsafe {
            let spare = burst.as_mut_ptr().add(len).cast::<*mut sys::rte_mbuf>();
            if sys::rte_pktmbuf_alloc_bulk(self.raw(), spare, n as u32) != 0 {
                return false;
            }
            burst.set_len(len + n);
        }
        true
    }

    /// A frame with these bytes.
    ///
    /// # Errors
    /// The pool is empty, or its frames are too short.
    pub fn frame(&self, bytes: &[u8]) -> Result<Mbuf, FrameError> {
        let mut frame = self.alloc().ok_or(FrameError::PoolEmpty)?;
        if frame.append(bytes) {
            Ok(frame)
        } else {
            Err(FrameError::TooLong { len: bytes.len(), room: usize::from(self.0.data_bytes) })
        }
    }

    pub(crate) fn raw(&self) -> *mut sys::rte_mempool {
        self.0.raw.as_ptr()
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.eal.state().retire(self.raw);
    }
}
