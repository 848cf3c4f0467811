//! An admission policy that does what weir's own does and keeps what it was asked, for questions about a frame.

use crate::drops::DropReason;
use crate::mmu::{Admission, AdmitVerdict, Mmu, PgIx, PgView, QueueIx, QueueView};

/// Weir's own policy, and what was asked of it.
#[derive(Debug)]
pub(crate) struct AskedMmu {
    pub mmu: Mmu,
    /// Priority groups that were to be charged, with the bytes and the answer, in this order.
    pub groups: Vec<(PgIx, u32, AdmitVerdict)>,
    /// Queues that were to be charged together with a group.
    pub queues: Vec<QueueIx>,
}

impl AskedMmu {
    pub fn new(mmu: Mmu) -> Self {
        Self { mmu, groups: Vec::new(), queues: Vec::new() }
    }

    fn note(&mut self, pg: PgIx, bytes: u32, verdict: AdmitVerdict) -> AdmitVerdict {
        self.groups.push((pg, bytes, verdict));
        verdict
    }
}

/// Nothing is admitted together, which makes no difference but that each frame is asked about.
impl Admission for AskedMmu {
    fn admit(&mut self, pg: PgIx, queue: QueueIx, bytes: u32) -> AdmitVerdict {
        let verdict = self.mmu.admit(pg, queue, bytes);
        self.queues.push(queue);
        self.note(pg, bytes, verdict)
    }

    fn admit_ingress(&mut self, pg: PgIx, bytes: u32) -> AdmitVerdict {
        let verdict = self.mmu.admit_ingress(pg, bytes);
        self.note(pg, bytes, verdict)
    }

    fn admit_egress(&mut self, queue: QueueIx, bytes: u32) -> Result<(), DropReason> {
        self.mmu.admit_egress(queue, bytes)
    }

    fn release_egress(&mut self, queue: QueueIx, bytes: u32) {
        self.mmu.release_egress(queue, bytes);
    }

    fn release_ingress(&mut self, pg: PgIx, bytes: u32) -> bool {
        self.mmu.release_ingress(pg, bytes)
    }

    fn held_bytes(&self) -> u64 {
        self.mmu.held_bytes()
    }

    fn charge(&self, len: u32) -> u32 {
        self.mmu.charge(len)
    }

    fn charge_for_copies(&self, charge: u32, copies: u32) -> u32 {
        self.mmu.charge_for_copies(charge, copies)
    }

    fn control_pg(&self) -> Option<PgIx> {
        self.mmu.control_pg()
    }

    fn mirror_pg(&self) -> Option<PgIx> {
        self.mmu.mirror_pg()
    }

    fn is_mirror(&self, pg: PgIx) -> bool {
        self.mmu.is_mirror(pg)
    }

    fn is_lossless(&self, pg: PgIx) -> bool {
        self.mmu.is_lossless(pg)
    }

    fn pg_view(&self, pg: PgIx) -> PgView {
        self.mmu.pg_view(pg)
    }

    fn queue_view(&self, queue: QueueIx) -> QueueView {
        self.mmu.queue_view(queue)
    }
}
