//! What an [`Ns3Dc`](super::Ns3Dc) switch holds, and how frames are charged to it.

use super::params::{DcParams, DcParamsError};
use weir_dataplane::types::PRIORITIES;

/// Ingress state of one (port, priority), in bytes.
#[derive(Clone, Copy, Debug, Default)]
struct Group {
    /// I: everything held, headroom included.
    used: u64,
    /// H: the part in headroom.
    headroom: u64,
    /// Z: upstream is paused.
    paused: bool,
}

/// Counters and constants of one switch; the view a [`Policy`](super::Policy) decides on.
///
/// Ports and priorities are indices from 0; methods panic on one outside the switch.
#[derive(Clone, Debug)]
pub struct Counters {
    params: DcParams,
    /// XT: sum of all headroom.
    xoff_total: u64,
    /// RT: sum of all reserves.
    reserve_total: u64,
    groups: Box<[[Group; PRIORITIES]]>,
    egress: Box<[[u64; PRIORITIES]]>,
    /// EP: bytes in the lossless and the lossy egress pool.
    egress_pool: [u64; 2],
    total: u64,
    headroom_total: u64,
    reserve_used: u64,
}

impl Counters {
    pub(super) fn new(params: DcParams) -> Result<Self, DcParamsError> {
        params.check()?;
        let ports = params.xoff.len();
        Ok(Self {
            xoff_total: params.xoff.iter().flatten().sum(),
            reserve_total: params.reserve.iter().flatten().sum(),
            groups: vec![[Group::default(); PRIORITIES]; ports].into(),
            egress: vec![[0; PRIORITIES]; ports].into(),
            egress_pool: [0; 2],
            total: 0,
            headroom_total: 0,
            reserve_used: 0,
            params,
        })
    }

    /// The constants of the switch.
    pub fn params(&self) -> &DcParams {
        &self.params
    }

    /// Whether a priority is lossy.
    #[inline]
    pub fn lossy(&self, prio: usize) -> bool {
        self.params.lossy_mask >> prio & 1 == 1
    }

    /// I: bytes of an ingress group, headroom included.
    #[inline]
    pub fn used(&self, in_port: usize, prio: usize) -> u64 {
        self.groups[in_port][prio].used
    }

    /// H: bytes of an ingress group in headroom.
    #[inline]
    pub fn headroom(&self, in_port: usize, prio: usize) -> u64 {
        self.groups[in_port][prio].headroom
    }

    /// Z: whether a group has paused its upstream port.
    #[inline]
    pub fn paused(&self, in_port: usize, prio: usize) -> bool {
        self.groups[in_port][prio].paused
    }

    /// E: bytes of an egress queue.
    #[inline]
    pub fn egress(&self, out_port: usize, prio: usize) -> u64 {
        self.egress[out_port][prio]
    }

    /// EP: bytes in the egress pool of a type.
    #[inline]
    pub fn egress_pool(&self, lossy: bool) -> u64 {
        self.egress_pool[usize::from(lossy)]
    }

    /// EPmax: size of the egress pool of a type.
    #[inline]
    pub fn egress_pool_limit(&self, lossy: bool) -> u64 {
        if lossy { self.params.egress_lossy_pool } else { self.params.egress_lossless_pool }
    }

    /// Tot: all bytes held.
    #[inline]
    pub fn total(&self) -> u64 {
        self.total
    }

    /// HT: all bytes in headroom.
    #[inline]
    pub fn headroom_total(&self) -> u64 {
        self.headroom_total
    }

    /// RU: bytes in reserves, the sum over groups of min(I, reserve).
    #[inline]
    pub fn reserve_used(&self) -> u64 {
        self.reserve_used
    }

    /// Tot - HT: bytes outside headroom.
    #[inline]
    pub fn outside_headroom(&self) -> u64 {
        self.total - self.headroom_total
    }

    /// Shared bytes of the ingress pool: all but the reserves.
    #[inline]
    pub fn ingress_shared(&self) -> u64 {
        self.params.ingress_pool - self.reserve_total
    }

    /// Free shared bytes of the ingress pool, 0 when it is full.
    ///
    /// Unsigned as in the original: when headroom bytes also count as reserve, the use wraps below 0
    /// and the pool reads as full.
    #[inline]
    pub fn ingress_free(&self) -> u64 {
        let used = self.outside_headroom().wrapping_sub(self.reserve_used);
        self.ingress_shared().saturating_sub(used)
    }

    /// Free bytes of the egress pool of a type, 0 when it is full.
    #[inline]
    pub fn egress_free(&self, lossy: bool) -> u64 {
        self.egress_pool_limit(lossy).saturating_sub(self.egress_pool(lossy))
    }

    /// Lossless ingress test, the same for every policy.
    ///
    /// Headroom limits are looked at only once headroom is in use, so the first frame that enters it
    /// is not limited by `xoff`.
    #[inline]
    pub(super) fn lossless_ingress_fits(&self, in_port: usize, prio: usize, bytes: u64) -> bool {
        let group = &self.groups[in_port][prio];
        let DcParams { buffer, ingress_pool, xoff, reserve, .. } = &self.params;
        let in_headroom = group.headroom > 0;
        let over_reserve = bytes + group.used > reserve[in_port][prio];
        let over_xoff = in_headroom && bytes + group.headroom > xoff[in_port][prio];
        let over_headroom_pool = in_headroom && bytes + self.headroom_total > self.xoff_total;
        !(over_reserve && over_xoff
            || over_headroom_pool
            || bytes + self.total > ingress_pool + self.xoff_total
            || bytes + self.total > *buffer)
    }

    /// Charges a frame to its ingress group and to the reserve.
    #[inline]
    pub(super) fn charge_ingress(&mut self, in_port: usize, prio: usize, bytes: u64) {
        self.set_used(in_port, prio, self.groups[in_port][prio].used + bytes);
        self.total += bytes;
    }

    /// Counts a frame already charged to its group as headroom, whole.
    #[inline]
    pub(super) fn charge_headroom(&mut self, in_port: usize, prio: usize, bytes: u64) {
        self.groups[in_port][prio].headroom += bytes;
        self.headroom_total += bytes;
    }

    #[inline]
    pub(super) fn charge_egress(&mut self, out_port: usize, prio: usize, bytes: u64) {
        self.egress[out_port][prio] += bytes;
        self.egress_pool[usize::from(self.lossy(prio))] += bytes;
    }

    /// Takes a frame back on both sides; headroom is given back first.
    #[inline]
    pub(super) fn discharge(&mut self, in_port: usize, prio: usize, out_port: usize, bytes: u64) {
        self.set_used(in_port, prio, self.groups[in_port][prio].used - bytes);
        self.total -= bytes;
        if !self.lossy(prio) {
            let group = &mut self.groups[in_port][prio];
            let from_headroom = group.headroom.min(bytes);
            group.headroom -= from_headroom;
            self.headroom_total -= from_headroom;
        }
        self.egress[out_port][prio] -= bytes;
        self.egress_pool[usize::from(self.lossy(prio))] -= bytes;
    }

    #[inline]
    pub(super) fn set_paused(&mut self, in_port: usize, prio: usize, paused: bool) {
        self.groups[in_port][prio].paused = paused;
    }

    #[inline]
    fn set_used(&mut self, in_port: usize, prio: usize, used: u64) {
        let reserve = self.params.reserve[in_port][prio];
        let group = &mut self.groups[in_port][prio];
        self.reserve_used = self.reserve_used - group.used.min(reserve) + used.min(reserve);
        group.used = used;
    }
}
