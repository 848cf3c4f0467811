//! The MMU of the HPCC simulator (ns-3.17 base, commit 9f4be2a), quirks included.
//!
//! For comparison runs in virtual time only: same inputs, same counters as the published model, to
//! the byte. One ingress pool, per group a reserve, a shared part under a dynamic threshold and a
//! headroom; the egress side never refuses.
//!
//! What a product should **not** copy (DEV-53), and this module copies on purpose:
//! - Reserve and headroom are subtracted from the pool once per *port* but charged per *(port,
//!   priority)*, and nothing is compared with the buffer: more bytes than the buffer can be held.
//! - The reserve is no guarantee: a frame that fits the group's own reserve is refused when both
//!   threshold and headroom are spent.
//! - A headroom below one frame makes a lossless class lossy: the frame that would cross the
//!   threshold is refused, so the threshold is hardly ever crossed and a pause hardly ever sent.
//! - The pool is unsigned 32-bit: a buffer smaller than its parts wraps to a huge threshold.
//! - The frame that crosses the threshold goes to headroom whole.

use weir_dataplane::types::{MAX_PORTS, PRIORITIES};

/// Reserve of each ingress group as published, bytes.
pub const RESERVE: u32 = 4096;
/// How far below its threshold a paused group resumes as published, bytes.
pub const RESUME_OFFSET: u32 = 3072;

/// Sizes and thresholds of one switch, in bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HpccParams {
    /// The buffer of the switch.
    pub buffer: u32,
    /// Reserve of each ingress group ([`RESERVE`] in the original).
    pub reserve: u32,
    /// A paused group resumes this far below its threshold ([`RESUME_OFFSET`] in the original).
    pub resume_offset: u32,
    /// Headroom of every group of a port; one element per port.
    pub headroom: Vec<u32>,
    /// Threshold shift of a port: alpha = 2^-shift; one element per port, each below 32.
    pub shift: Vec<u32>,
}

/// Why an [`HpccParams`] is not a switch.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HpccParamsError {
    /// No ports or more than [`MAX_PORTS`].
    #[error("{0} ports; 1 to {MAX_PORTS} are possible")]
    Ports(usize),
    /// `headroom` and `shift` differ in length.
    #[error("{headroom} values of headroom but {shift} of shift; both need one per port")]
    Lengths {
        /// Elements of `headroom`.
        headroom: usize,
        /// Elements of `shift`.
        shift: usize,
    },
    /// A 32-bit pool cannot be shifted by 32 or more.
    #[error("shift {shift} of port index {port} is not below 32")]
    Shift {
        /// Port index from 0.
        port: usize,
        /// The refused value.
        shift: u32,
    },
}

/// What became of a frame offered to [`Hpcc::admit`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Neither threshold nor headroom has room; nothing changed.
    Refused,
    /// The frame is charged; its group stays as paused or unpaused as it was.
    Stored,
    /// The frame is charged and its group is now paused: send a pause to the upstream port.
    StoredPause,
}

/// Ingress state of one (port, priority).
#[derive(Clone, Copy, Debug, Default)]
struct Group {
    /// I: bytes in reserve and shared.
    used: u32,
    /// H: bytes in headroom.
    headroom: u32,
    /// Z: upstream is paused.
    paused: bool,
}

/// Per-port constants.
#[derive(Clone, Copy, Debug)]
struct Port {
    headroom_limit: u32,
    shift: u32,
}

/// The counters of one switch. Ports and priorities are indices from 0.
///
/// Methods panic on a port or priority outside the switch. Arithmetic is 32-bit and wraps, as in
/// the original.
#[derive(Clone, Debug)]
pub struct Hpcc {
    reserve: u32,
    resume_offset: u32,
    /// buffer - sum(headroom) - ports * reserve, modulo 2^32.
    pool: u32,
    /// S: bytes held in the shared part.
    shared: u32,
    held: u64,
    ports: Box<[Port]>,
    groups: Box<[[Group; PRIORITIES]]>,
    egress: Box<[[u32; PRIORITIES]]>,
}

impl Hpcc {
    /// An empty switch with one port per element of `headroom` and `shift`.
    ///
    /// # Errors
    /// When the lists differ in length, are empty or too long, or a shift is 32 or more. A buffer
    /// smaller than its parts is *not* refused: the original wraps.
    pub fn new(params: &HpccParams) -> Result<Self, HpccParamsError> {
        let HpccParams { headroom, shift, .. } = params;
        if headroom.len() != shift.len() {
            return Err(HpccParamsError::Lengths { headroom: headroom.len(), shift: shift.len() });
        }
        if headroom.is_empty() || headroom.len() > MAX_PORTS {
            return Err(HpccParamsError::Ports(headroom.len()));
        }
        if let Some(port) = shift.iter().position(|&s| s >= u32::BITS) {
            return Err(HpccParamsError::Shift { port, shift: shift[port] });
        }
        let pool = headroom
            .iter()
            .fold(params.buffer, |rest, &headroom| rest.wrapping_sub(headroom).wrapping_sub(params.reserve));
        let ports = headroom
            .iter()
            .zip(shift)
            .map(|(&headroom_limit, &shift)| Port { headroom_limit, shift })
            .collect();
        Ok(Self {
            reserve: params.reserve,
            resume_offset: params.resume_offset,
            pool,
            shared: 0,
            held: 0,
            ports,
            groups: vec![[Group::default(); PRIORITIES]; headroom.len()].into(),
            egress: vec![[0; PRIORITIES]; headroom.len()].into(),
        })
    }

    /// Offers a frame of `bytes` that came in by (`in_port`, `prio`) and leaves by (`out_port`, `prio`).
    ///
    /// Refused frames change nothing. The threshold that admits and charges is taken before the
    /// change, the one that pauses after it.
    #[inline]
    pub fn admit(&mut self, in_port: usize, prio: usize, out_port: usize, bytes: u32) -> Verdict {
        let threshold = self.threshold(in_port);
        let limit = self.ports[in_port].headroom_limit;
        let reserve = self.reserve;
        let group = &mut self.groups[in_port][prio];
        let fits_headroom = group.headroom.wrapping_add(bytes) <= limit;
        let fits_shared = group.used.saturating_sub(reserve).wrapping_add(bytes) <= threshold;
        if !(fits_headroom || fits_shared) {
            return Verdict::Refused;
        }
        let after = group.used.wrapping_add(bytes);
        if after <= reserve {
            group.used = after;
        } else if after - reserve > threshold {
            group.headroom = group.headroom.wrapping_add(bytes);
        } else {
            group.used = after;
            self.shared = self.shared.wrapping_add(bytes.min(after - reserve));
        }
        let depth = &mut self.egress[out_port][prio];
        *depth = depth.wrapping_add(bytes);
        self.held += u64::from(bytes);
        if self.pause_due(in_port, prio) {
            self.groups[in_port][prio].paused = true;
            return Verdict::StoredPause;
        }
        Verdict::Stored
    }

    /// Takes back a frame that was admitted with the same arguments.
    ///
    /// True when its group is now resumed: send a resume to the upstream port. Only the group of the
    /// departing frame is examined, so another group whose threshold rose waits for its own frames.
    #[inline]
    pub fn release(&mut self, in_port: usize, prio: usize, out_port: usize, bytes: u32) -> bool {
        let group = &mut self.groups[in_port][prio];
        let from_headroom = group.headroom.min(bytes);
        let rest = bytes - from_headroom;
        let from_shared = rest.min(group.used.saturating_sub(self.reserve));
        group.headroom -= from_headroom;
        group.used = group.used.wrapping_sub(rest);
        self.shared = self.shared.wrapping_sub(from_shared);
        let depth = &mut self.egress[out_port][prio];
        *depth = depth.wrapping_sub(bytes);
        self.held = self.held.wrapping_sub(u64::from(bytes));
        let resume = self.resume_due(in_port, prio);
        if resume {
            self.groups[in_port][prio].paused = false;
        }
        resume
    }

    /// The pause rule: not paused, and headroom in use or shared use at the threshold.
    ///
    /// [`admit`](Self::admit) acts on it after each stored frame and nobody else does, so it may
    /// hold for long without a pause.
    #[inline]
    pub fn pause_due(&self, in_port: usize, prio: usize) -> bool {
        let group = &self.groups[in_port][prio];
        !group.paused && (group.headroom > 0 || self.shared_of(in_port, prio) >= self.threshold(in_port))
    }

    /// The resume rule: paused, no headroom in use, and nothing shared or the offset below the threshold.
    ///
    /// [`release`](Self::release) acts on it after each frame and nobody else does.
    #[inline]
    pub fn resume_due(&self, in_port: usize, prio: usize) -> bool {
        let group = &self.groups[in_port][prio];
        let shared = self.shared_of(in_port, prio);
        group.paused
            && group.headroom == 0
            && (shared == 0 || shared.wrapping_add(self.resume_offset) <= self.threshold(in_port))
    }

    /// T: the pause threshold of every group of a port, (pool - S) >> shift.
    #[inline]
    pub fn threshold(&self, in_port: usize) -> u32 {
        self.pool.wrapping_sub(self.shared) >> self.ports[in_port].shift
    }

    /// Reserve of every group, in bytes.
    pub fn reserve(&self) -> u32 {
        self.reserve
    }

    /// Most bytes a group of a port may hold in headroom.
    pub fn headroom_limit(&self, in_port: usize) -> u32 {
        self.ports[in_port].headroom_limit
    }

    /// How far below its threshold a paused group resumes, in bytes.
    pub fn resume_offset(&self) -> u32 {
        self.resume_offset
    }

    /// U: shared bytes in use by a group.
    #[inline]
    pub fn shared_of(&self, in_port: usize, prio: usize) -> u32 {
        self.groups[in_port][prio].used.saturating_sub(self.reserve)
    }

    /// I: bytes of a group in reserve and shared.
    #[inline]
    pub fn used(&self, in_port: usize, prio: usize) -> u32 {
        self.groups[in_port][prio].used
    }

    /// H: bytes of a group in headroom.
    #[inline]
    pub fn headroom(&self, in_port: usize, prio: usize) -> u32 {
        self.groups[in_port][prio].headroom
    }

    /// Z: whether a group has paused its upstream port.
    #[inline]
    pub fn paused(&self, in_port: usize, prio: usize) -> bool {
        self.groups[in_port][prio].paused
    }

    /// E: bytes of an egress queue.
    #[inline]
    pub fn egress(&self, out_port: usize, prio: usize) -> u32 {
        self.egress[out_port][prio]
    }

    /// Size of the shared part of the switch, in bytes.
    #[inline]
    pub fn pool(&self) -> u32 {
        self.pool
    }

    /// S: bytes held in the shared part of the switch.
    #[inline]
    pub fn shared(&self) -> u32 {
        self.shared
    }

    /// All bytes held; may exceed the buffer (see the top of this module).
    #[inline]
    pub fn held(&self) -> u64 {
        self.held
    }

    /// Number of ports.
    pub fn ports(&self) -> usize {
        self.ports.len()
    }
}

/// Marking at dequeue: never up to kmin, linear from 0 to pmax up to kmax, always above it.
///
/// The depth is the one left behind in the egress queue. Queue 0 is never marked; that rule is the
/// caller's. The step at kmax is from pmax to 1, not from pmax to pmax as in classic RED.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HpccEcn {
    /// No mark up to this depth, in bytes.
    pub kmin: u32,
    /// Always a mark above this depth, in bytes.
    pub kmax: u32,
    /// Probability at kmax.
    pub pmax: f64,
}

/// Outcome of the marking law for one depth.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum MarkLaw {
    /// Not marked.
    Never,
    /// Marked when a uniform draw from [0, 1) is below this.
    Below(f64),
    /// Marked without a draw.
    Always,
}

impl HpccEcn {
    /// The law at a depth of `bytes`, evaluated in double as pmax * (E - kmin) / (kmax - kmin).
    #[inline]
    pub fn law(&self, bytes: u32) -> MarkLaw {
        if bytes > self.kmax {
            MarkLaw::Always
        } else if bytes > self.kmin {
            // kmin < bytes <= kmax here, so neither difference wraps and the divisor is not 0.
            MarkLaw::Below(self.pmax * f64::from(bytes - self.kmin) / f64::from(self.kmax - self.kmin))
        } else {
            MarkLaw::Never
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn params(ports: usize) -> HpccParams {
        HpccParams {
            buffer: 1 << 20,
            reserve: 4096,
            resume_offset: 3072,
            headroom: vec![37_500; ports],
            shift: vec![3; ports],
        }
    }

    #[test]
    fn a_frame_may_straddle_reserve_and_shared() {
        let mut mmu = Hpcc::new(&params(4)).unwrap();
        assert_eq!(mmu.threshold(0), 882_192 >> 3);
        assert_eq!(mmu.admit(2, 6, 3, 9018), Verdict::Stored);
        assert_eq!((mmu.used(2, 6), mmu.shared(), mmu.egress(3, 6)), (9018, 4922, 9018));
        assert_eq!(mmu.threshold(2), 109_658);
        assert!(!mmu.release(2, 6, 3, 9018));
        assert_eq!((mmu.used(2, 6), mmu.shared(), mmu.egress(3, 6), mmu.held()), (0, 0, 0, 0));
    }

    /// Crossing frame to headroom whole, pause on it, refusal when spent, resume on the way back.
    #[test]
    fn one_group_pauses_refuses_and_resumes() {
        let mut mmu = Hpcc::new(&params(4)).unwrap();
        let mut stored = 0;
        while mmu.admit(0, 3, 1, 1048) == Verdict::Stored {
            stored += 1;
            assert!(stored < 1000, "never paused");
        }
        assert!(mmu.paused(0, 3));
        assert!(mmu.headroom(0, 3) == 1048 || mmu.shared_of(0, 3) >= mmu.threshold(0));
        stored += 1;
        while mmu.admit(0, 3, 1, 1048) != Verdict::Refused {
            stored += 1;
            assert!(stored < 1000, "never refused");
        }
        assert_eq!(mmu.headroom(0, 3), 37_500 / 1048 * 1048);
        assert_eq!(mmu.held(), stored * 1048);
        let mut released = 0;
        while !mmu.release(0, 3, 1, 1048) {
            released += 1;
            assert!(mmu.paused(0, 3));
        }
        assert!(released >= 35 && mmu.headroom(0, 3) == 0 && !mmu.paused(0, 3));
    }

    /// DEV-53: headroom is budgeted per port and charged per priority, so the buffer overflows.
    #[test]
    fn the_buffer_is_overcommitted_as_in_the_original() {
        let mut mmu = Hpcc::new(&HpccParams { buffer: 400_000, ..params(8) }).unwrap();
        for port in 0..8 {
            for prio in 0..8 {
                while mmu.admit(port, prio, 0, 1500) != Verdict::Refused {}
            }
        }
        assert!(mmu.held() > 2 * 400_000, "{}", mmu.held());
    }

    #[test]
    fn a_buffer_smaller_than_its_parts_wraps_to_a_huge_threshold() {
        let mmu = Hpcc::new(&HpccParams { buffer: 100_000, ..params(4) }).unwrap();
        assert_eq!(mmu.threshold(0), 100_000u32.wrapping_sub(4 * 41_596) >> 3);
        assert!(mmu.threshold(0) > 500_000_000);
    }

    #[test]
    fn parameters_that_are_no_switch_are_refused() {
        assert_eq!(Hpcc::new(&params(0)).unwrap_err(), HpccParamsError::Ports(0));
        assert_eq!(Hpcc::new(&params(257)).unwrap_err(), HpccParamsError::Ports(257));
        let uneven = HpccParams { shift: vec![3; 2], ..params(4) };
        assert_eq!(Hpcc::new(&uneven).unwrap_err(), HpccParamsError::Lengths { headroom: 4, shift: 2 });
        let wide = HpccParams { shift: vec![3, 32, 0, 0], ..params(4) };
        assert_eq!(Hpcc::new(&wide).unwrap_err(), HpccParamsError::Shift { port: 1, shift: 32 });
    }

    #[test]
    fn marking_steps_from_pmax_to_one_above_kmax() {
        let ecn = HpccEcn { kmin: 100_000, kmax: 400_000, pmax: 0.2 };
        assert_eq!(ecn.law(100_000), MarkLaw::Never);
        assert_eq!(ecn.law(250_000), MarkLaw::Below(0.1));
        assert_eq!(ecn.law(400_000), MarkLaw::Below(0.2));
        assert_eq!(ecn.law(400_001), MarkLaw::Always);
        let step = HpccEcn { kmin: 400_000, kmax: 400_000, pmax: 0.2 };
        assert_eq!(step.law(400_000), MarkLaw::Never);
        assert_eq!(step.law(400_001), MarkLaw::Always);
        let inverted = HpccEcn { kmin: 9, kmax: 5, pmax: 1.0 };
        assert_eq!((inverted.law(5), inverted.law(6)), (MarkLaw::Never, MarkLaw::Always));
    }
}
