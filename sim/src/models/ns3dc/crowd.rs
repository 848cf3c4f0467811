//! n_q: how many queues of a priority are congested, in fractions.

use weir_dataplane::types::PRIORITIES;

/// A queue of this many bytes counts as one whole congested queue.
pub(super) const FULL_BYTES: u64 = 20_480;

/// Sum over ports of min(1, bytes / 20480), each term as last remembered.
///
/// The sum is kept by differences, as in the original, so its rounding depends on its history.
#[derive(Clone, Debug)]
pub(super) struct Crowd {
    share: Box<[[f64; PRIORITIES]]>,
    sum: [f64; PRIORITIES],
}

impl Crowd {
    pub(super) fn new(ports: usize) -> Self {
        Self { share: vec![[0.0; PRIORITIES]; ports].into(), sum: [0.0; PRIORITIES] }
    }

    /// The factor 1 / max(1, n_q), with the asked queue at `bytes` and the others as remembered.
    #[inline]
    pub(super) fn factor(&self, port: usize, prio: usize, bytes: u64) -> f64 {
        let sum = self.sum[prio] + (share(bytes) - self.share[port][prio]);
        1.0 / sum.max(1.0)
    }

    /// Remembers that a queue holds `bytes`.
    #[inline]
    pub(super) fn remember(&mut self, port: usize, prio: usize, bytes: u64) {
        let now = share(bytes);
        self.sum[prio] += now - self.share[port][prio];
        self.share[port][prio] = now;
    }
}

#[inline]
fn share(bytes: u64) -> f64 {
    (bytes as f64 / FULL_BYTES as f64).min(1.0)
}
