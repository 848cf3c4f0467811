//! Published models as admission policies of a whole switch, for comparison in virtual time.
//!
//! A model knows one priority per frame, where the pipeline knows a group and a queue: maps of priority to group and
//! to queue must be the same. A model releases a frame as a whole, where the pipeline releases the queue and then the
//! group: the first is remembered until the second. Models carry unicast only, as their originals do; a switch on one
//! of them has one shard.

pub mod hpcc;
pub mod ns3dc;

use hpcc::Hpcc;
use ns3dc::{Ns3Dc, Policy};
use weir_dataplane::drops::DropReason;
use weir_dataplane::mmu::{Admission, AdmitVerdict, PgIx, QueueIx};
use weir_dataplane::types::PRIORITIES;

/// What a model must offer to be an [`Admission`]. Ports and priorities are indices from 0, sizes are bytes.
pub trait Model {
    /// Offers a frame.
    fn store(&mut self, in_port: usize, priority: usize, out_port: usize, bytes: u32) -> AdmitVerdict;

    /// Takes back a frame that was stored with the same arguments. `true`: its group resumes.
    fn take(&mut self, in_port: usize, priority: usize, out_port: usize, bytes: u32) -> bool;

    /// Bytes stored now.
    fn stored_bytes(&self) -> u64;
}

impl Model for Hpcc {
    #[inline]
    fn store(&mut self, in_port: usize, priority: usize, out_port: usize, bytes: u32) -> AdmitVerdict {
        match self.admit(in_port, priority, out_port, bytes) {
            hpcc::Verdict::Stored => AdmitVerdict::Admitted,
            hpcc::Verdict::StoredPause => AdmitVerdict::AdmittedXoff,
            hpcc::Verdict::Refused => AdmitVerdict::Refused(DropReason::IngressHeadroom),
        }
    }

    #[inline]
    fn take(&mut self, in_port: usize, priority: usize, out_port: usize, bytes: u32) -> bool {
        self.release(in_port, priority, out_port, bytes)
    }

    fn stored_bytes(&self) -> u64 {
        self.held()
    }
}

impl<P: Policy> Model for Ns3Dc<P> {
    #[inline]
    fn store(&mut self, in_port: usize, priority: usize, out_port: usize, bytes: u32) -> AdmitVerdict {
        match self.admit(in_port, priority, out_port, bytes) {
            ns3dc::Verdict::Stored => AdmitVerdict::Admitted,
            ns3dc::Verdict::StoredPause => AdmitVerdict::AdmittedXoff,
            ns3dc::Verdict::RefusedEgress => AdmitVerdict::Refused(DropReason::EgressQueueFull),
            ns3dc::Verdict::RefusedIngress if self.counters().lossy(priority) => {
                AdmitVerdict::Refused(DropReason::IngressShared)
            }
            ns3dc::Verdict::RefusedIngress => AdmitVerdict::Refused(DropReason::IngressHeadroom),
        }
    }

    #[inline]
    fn take(&mut self, in_port: usize, priority: usize, out_port: usize, bytes: u32) -> bool {
        self.release(in_port, priority, out_port, bytes)
    }

    fn stored_bytes(&self) -> u64 {
        self.counters().total()
    }
}

/// A model in the place of an MMU.
#[derive(Clone, Debug)]
pub struct Modelled<M> {
    model: M,
    /// Port of the queue that has just let go of a frame whose group has not.
    leaving: usize,
}

impl<M: Model> Modelled<M> {
    /// An empty switch's MMU.
    pub fn new(model: M) -> Self {
        Self { model, leaving: 0 }
    }

    /// The model and its counters.
    pub fn model(&self) -> &M {
        &self.model
    }
}

/// Port and priority of a group or queue index.
fn place(ix: u32) -> (usize, usize) {
    (ix as usize / PRIORITIES, ix as usize % PRIORITIES)
}

impl<M: Model> Admission for Modelled<M> {
    #[inline]
    fn admit(&mut self, pg: PgIx, queue: QueueIx, bytes: u32) -> AdmitVerdict {
        let (in_port, priority) = place(pg.0);
        debug_assert_eq!(priority, place(queue.0).1, "a model has one priority per frame");
        self.model.store(in_port, priority, place(queue.0).0, bytes)
    }

    fn admit_ingress(&mut self, _: PgIx, _: u32) -> AdmitVerdict {
        AdmitVerdict::Refused(DropReason::IngressNoCopy)
    }

    fn admit_egress(&mut self, _: QueueIx, _: u32) -> Result<(), DropReason> {
        Err(DropReason::IngressNoCopy)
    }

    #[inline]
    fn release_egress(&mut self, queue: QueueIx, _: u32) {
        self.leaving = place(queue.0).0;
    }

    #[inline]
    fn release_ingress(&mut self, pg: PgIx, bytes: u32) -> bool {
        let (in_port, priority) = place(pg.0);
        self.model.take(in_port, priority, self.leaving, bytes)
    }

    fn held_bytes(&self) -> u64 {
        self.model.stored_bytes()
    }
}
