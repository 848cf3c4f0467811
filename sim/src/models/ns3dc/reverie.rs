//! Reverie (NSDI '24): one shared pool for both types, thresholds on low-pass filtered sizes.

use super::crowd::Crowd;
use super::{Counters, DcParams, DcParamsError, Ns3Dc, Policy};
use weir_dataplane::types::PRIORITIES;

/// Low-pass filtered sizes of ingress groups (lossless) and egress queues (lossy), and their crowds.
///
/// The filter moves only when a frame leaves and never exceeds the live size: a burst is seen late
/// when it builds up and at once when it is gone. Lossy frames are judged at egress only, lossless
/// ones at ingress only. The bytes of the shared pool, lossless bytes outside headroom plus lossy
/// bytes at egress, are [`Counters::outside_headroom`]: every frame is charged on both sides.
#[derive(Clone, Debug)]
pub struct Reverie {
    shared_pool: u64,
    /// L of lossless ingress groups.
    ingress: Box<[[u64; PRIORITIES]]>,
    /// L of lossy egress queues.
    egress: Box<[[u64; PRIORITIES]]>,
    ingress_crowd: Crowd,
    egress_crowd: Crowd,
}

impl Reverie {
    fn new(ports: usize, shared_pool: u64) -> Self {
        Self {
            shared_pool,
            ingress: vec![[0; PRIORITIES]; ports].into(),
            egress: vec![[0; PRIORITIES]; ports].into(),
            ingress_crowd: Crowd::new(ports),
            egress_crowd: Crowd::new(ports),
        }
    }

    /// L of an ingress group; stays 0 for lossy priorities.
    pub fn filtered_ingress(&self, in_port: usize, prio: usize) -> u64 {
        self.ingress[in_port][prio]
    }

    /// L of an egress queue; stays 0 for lossless priorities.
    pub fn filtered_egress(&self, out_port: usize, prio: usize) -> u64 {
        self.egress[out_port][prio]
    }

    fn free(&self, counters: &Counters) -> f64 {
        self.shared_pool.saturating_sub(counters.outside_headroom()) as f64
    }
}

impl Ns3Dc<Reverie> {
    /// An empty switch with one pool of `shared_pool` bytes shared by both types.
    ///
    /// # Errors
    /// See [`DcParams::check`].
    pub fn reverie(params: DcParams, shared_pool: u64) -> Result<Self, DcParamsError> {
        let policy = Reverie::new(params.xoff.len(), shared_pool);
        Ok(Self { counters: Counters::new(params)?, policy })
    }
}

/// One step of the filter, weight 0.01 written as 1 - 0.99, truncated and capped by the live value.
#[inline]
fn filtered(old: u64, live: u64) -> u64 {
    let next = 0.99 * old as f64 + (1.0 - 0.99) * live as f64;
    live.min(next as u64)
}

impl Policy for Reverie {
    fn shared_bytes(&self, _: &Counters) -> u64 {
        self.shared_pool
    }

    #[inline]
    fn ingress_threshold(&self, counters: &Counters, in_port: usize, prio: usize) -> u64 {
        let alpha = counters.params().alpha_ingress[in_port][prio];
        let factor = self.ingress_crowd.factor(in_port, prio, self.ingress[in_port][prio]);
        (alpha * self.free(counters) * factor) as u64
    }

    #[inline]
    fn egress_threshold(&self, counters: &Counters, out_port: usize, prio: usize) -> u64 {
        let alpha = counters.params().alpha_egress[out_port][prio];
        let factor = self.egress_crowd.factor(out_port, prio, self.egress[out_port][prio]);
        (alpha * self.free(counters) * factor) as u64
    }

    #[inline]
    fn remember_ingress(&mut self, _: &Counters, in_port: usize, prio: usize) {
        self.ingress_crowd.remember(in_port, prio, self.ingress[in_port][prio]);
    }

    #[inline]
    fn remember_egress(&mut self, _: &Counters, out_port: usize, prio: usize) {
        self.egress_crowd.remember(out_port, prio, self.egress[out_port][prio]);
    }

    fn ingress_level(&self, _: &Counters, in_port: usize, prio: usize) -> u64 {
        self.ingress[in_port][prio]
    }

    fn lossy_ingress_fits(&mut self, _: &Counters, _: usize, _: usize, _: u64) -> bool {
        true
    }

    fn egress_fits(&mut self, counters: &Counters, out_port: usize, prio: usize, bytes: u64) -> bool {
        if !counters.lossy(prio) {
            return true;
        }
        self.remember_egress(counters, out_port, prio);
        let level = bytes + self.egress[out_port][prio];
        !(level > self.egress_threshold(counters, out_port, prio)
            || bytes + counters.outside_headroom() > self.shared_pool
            || bytes + counters.total() > counters.params().buffer)
    }

    fn released(&mut self, counters: &Counters, in_port: usize, prio: usize, out_port: usize, _: u64) {
        if counters.lossy(prio) {
            let level = &mut self.egress[out_port][prio];
            *level = filtered(*level, counters.egress(out_port, prio));
        } else {
            let level = &mut self.ingress[in_port][prio];
            *level = filtered(*level, counters.used(in_port, prio));
        }
    }
}
