//! Dynamic thresholds: alpha times what is free.

use super::{Counters, Policy};

/// Choudhury and Hahne's dynamic thresholds with a real alpha per (port, priority) and side.
///
/// Tin = alpha * free shared bytes of the ingress pool; Teg = alpha * free bytes of the type's egress pool.
#[derive(Clone, Copy, Debug, Default)]
pub struct Dt;

impl Policy for Dt {
    #[inline]
    fn ingress_threshold(&self, counters: &Counters, in_port: usize, prio: usize) -> u64 {
        (counters.params().alpha_ingress[in_port][prio] * counters.ingress_free() as f64) as u64
    }

    #[inline]
    fn egress_threshold(&self, counters: &Counters, out_port: usize, prio: usize) -> u64 {
        let free = counters.egress_free(counters.lossy(prio));
        (counters.params().alpha_egress[out_port][prio] * free as f64) as u64
    }
}
