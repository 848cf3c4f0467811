//! The MMU of ns3-datacenter (ns-3.39 base, commit 6ddb4a4), quirks included.
//!
//! For comparison runs in virtual time only: same inputs, same counters as the published model. An
//! ingress pool with reserves, a headroom pool, and one egress pool for lossless and one for lossy
//! queues. What the thresholds are is a [`Policy`]: [`Dt`] (dynamic thresholds), [`Reverie`] or [`Abm`].
//! Thresholds are doubles, evaluated in the order of the original and truncated.
//!
//! What a product should **not** copy, and this module copies on purpose:
//! - The first frame that enters headroom is not limited by `xoff`.
//! - Headroom is sticky: once it is in use, every further frame of the group goes there, whole.
//! - A group counts its reserve and headroom when compared with the threshold (I, not the shared part).
//! - Nothing compares the pools with the buffer at start.
//! - Looking at a threshold changes it: [`Reverie`] and [`Abm`] remember a queue's size only when its
//!   threshold is asked for, and a refused lossless frame asks once more than an admitted one needs.

mod abm;
mod counters;
mod crowd;
mod dt;
mod params;
mod reverie;

pub use abm::{Abm, AbmParams};
pub use counters::Counters;
pub use dt::Dt;
pub use params::{DcParams, DcParamsError, PerQueue};
pub use reverie::Reverie;

/// What became of a frame offered to [`Ns3Dc::admit`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The ingress side refused; nothing is charged.
    RefusedIngress,
    /// The ingress side passed, the egress side refused; nothing is charged.
    RefusedEgress,
    /// The frame is charged; its group stays as paused or unpaused as it was.
    Stored,
    /// The frame is charged and its group is now paused: send a pause to the upstream port.
    StoredPause,
}

/// How thresholds follow from the counters.
///
/// Thresholds are pure; what a policy remembers of a queue it takes in `remember_*`, which the MMU
/// calls at exactly the places where the original evaluates a threshold.
pub trait Policy: Send {
    /// Tin: threshold of an ingress group in bytes, as of now.
    fn ingress_threshold(&self, counters: &Counters, in_port: usize, prio: usize) -> u64;

    /// Teg: threshold of an egress queue in bytes, as of now.
    fn egress_threshold(&self, counters: &Counters, out_port: usize, prio: usize) -> u64;

    /// Bytes that ingress groups share.
    fn shared_bytes(&self, counters: &Counters) -> u64 {
        counters.ingress_shared()
    }

    /// The threshold of an ingress group was evaluated.
    fn remember_ingress(&mut self, _counters: &Counters, _in_port: usize, _prio: usize) {}

    /// The threshold of an egress queue was evaluated.
    fn remember_egress(&mut self, _counters: &Counters, _out_port: usize, _prio: usize) {}

    /// The level of an ingress group that headroom entry and resume compare with the threshold.
    fn ingress_level(&self, counters: &Counters, in_port: usize, prio: usize) -> u64 {
        counters.used(in_port, prio)
    }

    /// Ingress test of a lossy frame.
    fn lossy_ingress_fits(&mut self, counters: &Counters, in_port: usize, prio: usize, bytes: u64) -> bool {
        self.remember_ingress(counters, in_port, prio);
        let params = counters.params();
        let group = bytes + counters.used(in_port, prio);
        let over_group =
            group > self.ingress_threshold(counters, in_port, prio) && group > params.reserve[in_port][prio];
        !(over_group
            || bytes + counters.outside_headroom() > params.ingress_pool
            || bytes + counters.total() > params.buffer)
    }

    /// Egress test of a frame of either type.
    fn egress_fits(&mut self, counters: &Counters, out_port: usize, prio: usize, bytes: u64) -> bool {
        self.remember_egress(counters, out_port, prio);
        let lossy = counters.lossy(prio);
        !(bytes + counters.egress(out_port, prio) > self.egress_threshold(counters, out_port, prio)
            || bytes + counters.egress_pool(lossy) > counters.egress_pool_limit(lossy)
            || bytes + counters.total() > counters.params().buffer)
    }

    /// A measuring window has ended.
    fn window_ended(&mut self, _counters: &Counters) {}

    /// A frame of `bytes` has left; the counters are those after it.
    fn released(&mut self, _counters: &Counters, _in: usize, _prio: usize, _out: usize, _bytes: u64) {}
}

/// One switch: counters and the policy that admits to them. Ports and priorities are indices from 0;
/// methods panic on one outside the switch.
#[derive(Clone, Debug)]
pub struct Ns3Dc<P> {
    counters: Counters,
    policy: P,
}

impl Ns3Dc<Dt> {
    /// An empty switch with dynamic thresholds and one port per element of `params.xoff`.
    ///
    /// # Errors
    /// See [`DcParams::check`].
    pub fn dt(params: DcParams) -> Result<Self, DcParamsError> {
        Ok(Self { counters: Counters::new(params)?, policy: Dt })
    }
}

impl<P: Policy> Ns3Dc<P> {
    /// Offers a frame that came in by (`in_port`, `prio`) and leaves by (`out_port`, `prio`).
    ///
    /// Both sides must pass, ingress first. Pause is examined here only, for the frame's own group.
    #[inline]
    pub fn admit(&mut self, in_port: usize, prio: usize, out_port: usize, bytes: u32) -> Verdict {
        let Self { counters, policy } = self;
        let bytes = u64::from(bytes);
        let lossy = counters.lossy(prio);
        let passes = if lossy {
            policy.lossy_ingress_fits(counters, in_port, prio, bytes)
        } else {
            counters.lossless_ingress_fits(in_port, prio, bytes)
        };
        if !passes {
            // The original's log line of a refusal evaluates the threshold once more.
            policy.remember_ingress(counters, in_port, prio);
            return Verdict::RefusedIngress;
        }
        if !policy.egress_fits(counters, out_port, prio, bytes) {
            return Verdict::RefusedEgress;
        }
        counters.charge_ingress(in_port, prio, bytes);
        if !lossy {
            policy.remember_ingress(counters, in_port, prio);
            let level = policy.ingress_level(counters, in_port, prio);
            let over = level > policy.ingress_threshold(counters, in_port, prio);
            if over || counters.headroom(in_port, prio) > 0 {
                counters.charge_headroom(in_port, prio, bytes);
            }
        }
        counters.charge_egress(out_port, prio, bytes);
        if self.pause_due(in_port, prio) {
            self.counters.set_paused(in_port, prio, true);
            return Verdict::StoredPause;
        }
        Verdict::Stored
    }

    /// Takes back a frame that was admitted with the same arguments.
    ///
    /// True when its group is now resumed: send a resume to the upstream port.
    #[inline]
    pub fn release(&mut self, in_port: usize, prio: usize, out_port: usize, bytes: u32) -> bool {
        let Self { counters, policy } = self;
        let bytes = u64::from(bytes);
        counters.discharge(in_port, prio, out_port, bytes);
        policy.released(counters, in_port, prio, out_port, bytes);
        if !counters.paused(in_port, prio) || counters.headroom(in_port, prio) > 0 {
            return false;
        }
        let level = policy.ingress_level(counters, in_port, prio);
        if level >= counters.params().xon {
            policy.remember_ingress(counters, in_port, prio);
            let threshold = policy.ingress_threshold(counters, in_port, prio);
            if level + counters.params().xon_offset > threshold {
                return false;
            }
        }
        counters.set_paused(in_port, prio, false);
        true
    }

    /// A measuring window of the policy ends; the owner calls this once per window.
    pub fn tick(&mut self) {
        self.policy.window_ended(&self.counters);
    }

    /// The pause rule: not paused, and headroom in use. [`admit`](Self::admit) acts on it.
    #[inline]
    pub fn pause_due(&self, in_port: usize, prio: usize) -> bool {
        !self.counters.paused(in_port, prio) && self.counters.headroom(in_port, prio) > 0
    }

    /// What the switch holds.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// The policy and what it remembers.
    pub fn policy(&self) -> &P {
        &self.policy
    }

    /// Tin of an ingress group, without the memory a test of it leaves.
    pub fn ingress_threshold(&self, in_port: usize, prio: usize) -> u64 {
        self.policy.ingress_threshold(&self.counters, in_port, prio)
    }

    /// Teg of an egress queue, without the memory a test of it leaves.
    pub fn egress_threshold(&self, out_port: usize, prio: usize) -> u64 {
        self.policy.egress_threshold(&self.counters, out_port, prio)
    }
}

#[cfg(test)]
mod tests;
