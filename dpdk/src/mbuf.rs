//! One frame.

use std::cell::Cell;
use std::marker::PhantomData;
use std::mem::MaybeUninit;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU16, AtomicU32, Ordering};

use arrayvec::ArrayVec;
use weir_dataplane::frame::{Frame, SizedFrames};
use weir_dataplane::parse::EcnCode;
use weir_dataplane::vlan::TAG_BYTES;
use weir_dpdk_sys as sys;
use weir_dpdk_sys::weir_mbuf_offset::{
    WEIR_MBUF_BUF_ADDR, WEIR_MBUF_BUF_LEN, WEIR_MBUF_DATA_LEN, WEIR_MBUF_DATA_OFF, WEIR_MBUF_NB_SEGS,
    WEIR_MBUF_OL_FLAGS, WEIR_MBUF_PKT_LEN, WEIR_MBUF_POOL, WEIR_MBUF_REFCNT, WEIR_MBUF_USER,
};

use crate::Burst;

/// An owned handle to a frame in DPDK's memory; dropping it gives the frame back to its pool.
///
/// Several handles may share one frame ([`Frame::share`]); bytes and length are changed only through a
/// handle that is alone ([`Frame::make_unique`]).
///
/// Ports are configured without scattered reception, so a frame is one segment. Where a driver chains segments
/// nevertheless, its receive queue joins them ([`join_segments`](Mbuf::join_segments)). A frame that stays chained is
/// served: [`Frame::len`] is the whole frame, [`Frame::bytes`] its first segment, in which the headers are; the rest is
/// forwarded, shared, copied and freed with it.
#[repr(transparent)]
pub struct Mbuf(NonNull<sys::rte_mbuf>, PhantomData<Cell<()>>);

// SAFETY: an mbuf belongs to no thread. The reference count is atomic where it exceeds one; a handle
// itself is used by one thread at a time, being !Sync (DPDK raises a count of one without atomics).
unsafe impl Send for Mbuf {}

impl std::fmt::Debug for Mbuf {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Mbuf").field("len", &self.len()).field("bytes", &self.bytes()).finish()
    }
}

impl Mbuf {
    /// # Safety
    /// `raw` is NULL or an initialised mbuf, one reference of which is the caller's to give.
    #[inline(always)]
    pub(crate) unsafe fn from_raw(raw: *mut sys::rte_mbuf) -> Option<Self> {
        NonNull::new(raw).map(|raw| Self(raw, PhantomData))
    }

    #[inline(always)]
    fn at<T>(&self, offset: u32) -> *mut T {
        // SAFETY: the offsets are those of the fields, taken by the C compiler; all lie within the mbuf.
        unsafe { self.0.as_ptr().cast::<u8>().add(offset as usize).cast() }
    }

    /// # Safety
    /// `T` is the type of the field at `offset`.
    #[inline(always)]
    unsafe fn get<T: Copy>(&self, offset: u32) -> T {
        // SAFETY: the field is within the mbuf, aligned and initialised.
        unsafe { self.at::<T>(offset).read() }
    }

    /// What the mbuf has room for beside the frame. A copy of the mbuf has it, too; another handle to it writes the same.
    #[inline(always)]
    fn user(&self) -> &AtomicU32 {
        // SAFETY: hash.usr is `uint32_t` and is there as long as the mbuf; a driver writes it before the frame is ours and does
        // not read it, and everybody else comes through here.
        unsafe { AtomicU32::from_ptr(self.at(WEIR_MBUF_USER)) }
    }

    /// First byte of the frame.
    #[inline(always)]
    fn data(&self) -> *mut u8 {
        // SAFETY: buf_addr is `void *`, data_off `uint16_t`, and the sum lies in the buffer.
        unsafe {
            self.get::<*mut u8>(WEIR_MBUF_BUF_ADDR).add(usize::from(self.get::<u16>(WEIR_MBUF_DATA_OFF)))
        }
    }

    #[inline(always)]
    fn data_len(&self) -> u16 {
        // SAFETY: data_len is `uint16_t`.
        unsafe { self.get(WEIR_MBUF_DATA_LEN) }
    }

    /// No other handle reaches these bytes.
    #[inline(always)]
    pub fn is_unique(&self) -> bool {
        // SAFETY: refcnt is a `uint16_t` changed with atomic instructions by those who share the frame;
        // ol_flags is `uint64_t` and written only by an owner who is alone.
        unsafe {
            AtomicU16::from_ptr(self.at(WEIR_MBUF_REFCNT)).load(Ordering::Acquire) == 1
                && self.get::<u64>(WEIR_MBUF_OL_FLAGS) & sys::weir_mbuf_flag::WEIR_MBUF_INDIRECT == 0
        }
    }

    /// Alone, and one segment: its length may be changed.
    fn can_resize(&self) -> bool {
        // SAFETY: nb_segs is `uint16_t`.
        self.is_unique() && unsafe { self.get::<u16>(WEIR_MBUF_NB_SEGS) } == 1
    }

    /// # Safety
    /// `can_resize`, and `data_off + len` bytes lie within the buffer.
    unsafe fn set_range(&mut self, data_off: u16, len: u16) {
        // SAFETY: types as in struct rte_mbuf; we are alone.
        unsafe {
            self.at::<u16>(WEIR_MBUF_DATA_OFF).write(data_off);
            self.at::<u16>(WEIR_MBUF_DATA_LEN).write(len);
            self.at::<u32>(WEIR_MBUF_PKT_LEN).write(u32::from(len));
        }
    }

    /// Lets the frame begin so many bytes further behind, or, if that is negative, in front: those bytes are whatever stood
    /// there. Segments behind the first one stay as they are. `false`, and nothing changed, if that is not within the
    /// buffer, or if the frame is shared.
    fn move_start(&mut self, by: i16) -> bool {
        let (off, len, _) = self.range();
        let (Some(off), Some(len)) = (off.checked_add_signed(by), len.checked_add_signed(-by)) else {
            return false;
        };
        if !self.is_unique() {
            return false;
        }
        // SAFETY: we are alone; the end of the segment stays where it is and its new start is not in front of the buffer,
        // all bytes of which are initialised memory of the pool. pkt_len is at least data_len.
        unsafe {
            let all = self.get::<u32>(WEIR_MBUF_PKT_LEN).wrapping_add_signed(-i32::from(by));
            self.at::<u16>(WEIR_MBUF_DATA_OFF).write(off);
            self.at::<u16>(WEIR_MBUF_DATA_LEN).write(len);
            self.at::<u32>(WEIR_MBUF_PKT_LEN).write(all);
        }
        true
    }

    /// Offset and length of the frame, and length of the buffer.
    fn range(&self) -> (u16, u16, u16) {
        // SAFETY: all three are `uint16_t`.
        unsafe { (self.get(WEIR_MBUF_DATA_OFF), self.data_len(), self.get(WEIR_MBUF_BUF_LEN)) }
    }

    /// Copies all segments behind the first one into its buffer. `false`, and nothing changed, if they do not fit or
    /// the frame is shared.
    pub fn join_segments(&mut self) -> bool {
        // SAFETY: the frame is ours alone, and nobody has a reference to its bytes.
        self.is_unique() && unsafe { sys::rte_pktmbuf_linearize(self.0.as_ptr()) == 0 }
    }

    /// Adds bytes at the end. `false`, and nothing changed, if they do not fit, or if the frame is
    /// shared or in segments.
    #[must_use]
    pub fn append(&mut self, bytes: &[u8]) -> bool {
        let (off, len, room) = self.range();
        let Ok(more) = u16::try_from(bytes.len()) else { return false };
        if !self.can_resize() || usize::from(off) + usize::from(len) + bytes.len() > usize::from(room) {
            return false;
        }
        // SAFETY: off + len + more is within the buffer, which is ours alone.
        unsafe {
            self.data().add(usize::from(len)).copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
            self.set_range(off, len + more);
        }
        true
    }

    /// Adds bytes in front, into the headroom. `false` as for [`append`](Self::append).
    #[must_use]
    pub fn prepend(&mut self, bytes: &[u8]) -> bool {
        let (off, len, _) = self.range();
        let Some(new_off) = u16::try_from(bytes.len()).ok().and_then(|more| off.checked_sub(more)) else {
            return false;
        };
        let Some(new_len) = len.checked_add(off - new_off) else { return false };
        if !self.can_resize() {
            return false;
        }
        // SAFETY: new_off is within the buffer in front of the frame, which is ours alone.
        unsafe {
            self.set_range(new_off, new_len);
            self.data().copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
        }
        true
    }

    /// Takes `n` bytes off the front. `false`, and nothing changed, if there are fewer, or if the frame
    /// is shared or in segments.
    #[must_use]
    pub fn trim_front(&mut self, n: usize) -> bool {
        let (off, len, _) = self.range();
        let Some(n) = u16::try_from(n).ok().filter(|&n| n <= len) else { return false };
        if !self.can_resize() {
            return false;
        }
        // SAFETY: a part of the range it was.
        unsafe { self.set_range(off + n, len - n) };
        true
    }

    /// Shortens the frame to `n` bytes. `false` as for [`trim_front`](Self::trim_front).
    #[must_use]
    pub fn truncate(&mut self, n: usize) -> bool {
        let (off, len, _) = self.range();
        let Some(n) = u16::try_from(n).ok().filter(|&n| n <= len) else { return false };
        if !self.can_resize() {
            return false;
        }
        // SAFETY: a part of the range it was.
        unsafe { self.set_range(off, n) };
        true
    }
}

impl Frame for Mbuf {
    type Row = SizedFrames<Self>;
    type Staged = Burst;

    #[inline(always)]
    fn bytes(&self) -> &[u8] {
        // SAFETY: data_len bytes from data() are in the buffer, initialised by whoever filled the frame,
        // and nobody writes them while this handle lives: writing needs the only handle, mutably.
        unsafe { std::slice::from_raw_parts(self.data(), usize::from(self.data_len())) }
    }

    /// The bytes for writing; empty if the frame is shared, since others read them.
    #[inline(always)]
    fn bytes_mut(&mut self) -> &mut [u8] {
        let len = if self.is_unique() { usize::from(self.data_len()) } else { 0 };
        // SAFETY: as for `bytes`; nobody else reaches them while we are alone and mutably borrowed.
        unsafe { std::slice::from_raw_parts_mut(self.data(), len) }
    }

    #[inline(always)]
    fn len(&self) -> usize {
        // SAFETY: pkt_len is `uint32_t`.
        unsafe { self.get::<u32>(WEIR_MBUF_PKT_LEN) as usize }
    }

    #[inline]
    fn share(&self) -> Option<Self> {
        // SAFETY: the mbuf is ours; one reference more is what the new handle owns.
        unsafe {
            match sys::weir_mbuf_share(self.0.as_ptr()) {
                0 => Self::from_raw(self.0.as_ptr()),
                _ => None,
            }
        }
    }

    #[inline]
    fn make_unique(&mut self) -> bool {
        self.is_unique() || self.copy_out()
    }

    fn insert_tag(&mut self, at: usize, tag: [u8; TAG_BYTES]) -> bool {
        let inserted = at <= usize::from(self.data_len()) && self.move_start(-(TAG_BYTES as i16));
        if inserted {
            let bytes = self.bytes_mut();
            bytes.copy_within(TAG_BYTES..TAG_BYTES + at, 0);
            bytes[at..at + TAG_BYTES].copy_from_slice(&tag);
        }
        inserted
    }

    fn remove_tag(&mut self, at: usize) -> bool {
        if at + TAG_BYTES > usize::from(self.data_len()) || !self.is_unique() {
            return false;
        }
        self.bytes_mut().copy_within(0..at, TAG_BYTES);
        self.move_start(TAG_BYTES as i16)
    }

    const KEEPS_ECN: bool = true;

    #[inline(always)]
    fn ecn(&self) -> EcnCode {
        EcnCode::from_bits(self.user().load(Ordering::Relaxed) as u16)
    }

    #[inline(always)]
    fn set_ecn(&mut self, ecn: EcnCode) {
        self.user().store(ecn.bits().into(), Ordering::Relaxed);
    }

    #[inline(always)]
    fn prefetch<T>(what: &T) {
        #[cfg(target_arch = "x86_64")]
        for line in (0..size_of::<T>()).step_by(64) {
            use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            let line = std::ptr::from_ref(what).cast::<i8>().wrapping_add(line);
            // SAFETY: a prefetch changes nothing, whatever the address.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(line) };
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = what;
    }

    #[inline(always)]
    fn append<const N: usize, const M: usize>(from: &mut ArrayVec<Self, N>, to: &mut ArrayVec<Self, M>) {
        let (n, behind) = (from.len(), to.len());
        assert!(n <= M - behind, "no room for {n} frames");
        // Halves of a length known to the compiler are copied in place: a call takes as long as some frames do.
        let half = const { N / 2 };
        // SAFETY: `from` has n frames, `to` room for them, and they are two arrays; `from` forgets what it had. What is
        // copied beyond the n is within both arrays, too, and part of neither's frames.
        unsafe {
            from.set_len(0);
            let (src, dst) = (from.as_ptr().cast::<MaybeUninit<Self>>(), to.as_mut_ptr().add(behind).cast());
            if M - behind >= N {
                std::ptr::copy_nonoverlapping(src, dst, half);
                if n > half {
                    std::ptr::copy_nonoverlapping(src.add(half), dst.add(half), N - half);
                }
            } else {
                std::ptr::copy_nonoverlapping(src, dst, n);
            }
            to.set_len(behind + n);
        }
    }

    #[inline(always)]
    fn drain<const N: usize>(burst: &mut ArrayVec<Self, N>) -> impl Iterator<Item = Self> {
        Drain::of(burst)
    }

    #[inline]
    fn discard<const N: usize>(frames: &mut ArrayVec<Self, N>) {
        let n = frames.len();
        // SAFETY: n owned handles, which are forgotten here before DPDK takes them.
        unsafe {
            frames.set_len(0);
            sys::rte_pktmbuf_free_bulk(frames.as_mut_ptr().cast(), n as u32);
        }
    }

    /// Both lines of the header and the first one of the bytes. Into the second-level cache: a core can wait for more
    /// lines there than for the first one.
    #[inline(always)]
    fn fetch(&self) {
        ask::<2>(self.0, &[0, 64, BYTES]);
    }
}

/// Where our pools put the bytes of a frame, from the beginning of its mbuf: to ask the mbuf would be to wait for it.
const BYTES: usize = (sys::weir_limit::WEIR_MBUF_SIZE + sys::weir_limit::WEIR_HEADROOM) as usize;

/// Asks for lines of an mbuf, into the first-level cache or the second.
#[inline(always)]
fn ask<const LEVEL: u8>(mbuf: NonNull<sys::rte_mbuf>, lines: &[usize]) {
    #[cfg(target_arch = "x86_64")]
    for line in lines {
        use std::arch::x86_64::{_MM_HINT_T0, _MM_HINT_T2, _mm_prefetch};
        let line = mbuf.as_ptr().cast::<i8>().wrapping_add(*line);
        // SAFETY: a prefetch changes nothing, whatever the address.
        unsafe {
            match LEVEL {
                1 => _mm_prefetch::<_MM_HINT_T0>(line),
                _ => _mm_prefetch::<_MM_HINT_T2>(line),
            }
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (mbuf, lines);
}

/// How far ahead of a frame that is taken the headers of another one are asked for: as far as the processor does not get
/// by itself.
const FAR: usize = 6;

/// The frames of a burst. The headers of each begin to come into the first-level cache a little before it is taken: since
/// the driver wrote them, those of the frames behind have driven them out.
struct Drain<'a>(std::slice::Iter<'a, NonNull<sys::rte_mbuf>>);

impl<'a> Drain<'a> {
    #[inline(always)]
    fn of<const N: usize>(burst: &'a mut ArrayVec<Mbuf, N>) -> Self {
        let count = burst.len();
        // SAFETY: the burst forgets its frames, which are pointers; whoever takes a pointer from here has the frame.
        let frames = unsafe {
            burst.set_len(0);
            std::slice::from_raw_parts(burst.as_ptr().cast(), count)
        };
        Self(frames.iter())
    }
}

impl Iterator for Drain<'_> {
    type Item = Mbuf;

    #[inline(always)]
    fn next(&mut self) -> Option<Mbuf> {
        if let Some(later) = self.0.as_slice().get(FAR) {
            ask::<1>(*later, &[0, BYTES]);
        }
        self.0.next().map(|frame| Mbuf(*frame, PhantomData))
    }
}

impl Drop for Drain<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        self.for_each(drop);
    }
}

impl Mbuf {
    /// Replaces the shared frame by a copy from the same pool.
    #[cold]
    fn copy_out(&mut self) -> bool {
        // SAFETY: the mbuf and its pool are alive; the copy is ours alone.
        let copy = unsafe {
            Self::from_raw(sys::rte_pktmbuf_copy(self.0.as_ptr(), self.get(WEIR_MBUF_POOL), 0, u32::MAX))
        };
        match copy {
            Some(copy) => {
                *self = copy;
                true
            }
            None => false,
        }
    }
}

impl Drop for Mbuf {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: this handle's reference ends here.
        unsafe { sys::rte_pktmbuf_free(self.0.as_ptr()) }
    }
}

/// Drops all frames of a burst at once: several times cheaper than one by one.
#[inline]
pub fn free_burst(burst: &mut Burst) {
    Mbuf::discard(burst);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Eal, Mempool};

    #[test]
    fn segments_are_joined_where_there_is_room() {
        let eal = Eal::init(&["--no-huge", "--no-shconf", "--no-telemetry", "-m", "64"]).expect("EAL starts");
        let pool = Mempool::new(&eal, "segments", 7, 0, 2048).expect("memory for a small pool");
        let chained = |first: usize, second: usize| {
            let bytes: Vec<u8> = (0..first + second).map(|i| (i * 7) as u8).collect();
            let (head, tail) = bytes.split_at(first);
            let (head, tail) =
                (pool.frame(head).unwrap(), std::mem::ManuallyDrop::new(pool.frame(tail).unwrap()));
            // SAFETY: both are one segment and ours; the second one belongs to the first from now on.
            assert_eq!(unsafe { sys::rte_pktmbuf_chain(head.0.as_ptr(), tail.0.as_ptr()) }, 0);
            (head, bytes)
        };
        let (mut frame, bytes) = chained(1000, 500);
        assert_eq!((frame.len(), frame.bytes().len()), (1500, 1000));
        let other = frame.share().unwrap();
        assert!(!frame.join_segments(), "others read it");
        drop(other);
        assert!(frame.join_segments());
        assert_eq!((frame.bytes(), pool.in_use()), (&bytes[..], 1));
        let (mut long, _) = chained(2000, 500);
        assert!(!long.join_segments());
        assert_eq!((long.len(), long.bytes().len()), (2500, 2000));
        drop((frame, long));
        assert_eq!(pool.in_use(), 0);
    }
}
