//! Shared-buffer memory management: who may hold how many bytes.
//!
//! [`Admission`] is the one narrow interface the pipeline sees. [`Mmu`] is weir's own
//! implementation (reserved + Dynamic Threshold + headroom, `qos-scenarios` section 2). Others that
//! implement the interface take its place in a whole switch: published models in virtual time do.

mod account;
pub mod headroom;
mod params;
mod shared;
mod watermark;

pub use account::{Limit, alpha_q8};
pub use params::{MmuError, MmuParams, PgParams, PoolId, QueueParams};
pub use shared::{Held, Ledger, Mmu, PgView, PoolView, PortView, QueueView};
pub use watermark::{PERSISTENT, WATERMARK_READERS, Watermark};

use crate::drops::DropReason;
use crate::types::{PRIORITIES, PortId};

/// A priority group of the whole switch: `port * 8 + pg`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PgIx(pub u32);

impl PgIx {
    /// Priority group `pg` (0 to 7) of a port.
    #[inline(always)]
    pub fn of(port: PortId, pg: usize) -> Self {
        Self((port.index() * PRIORITIES + pg) as u32)
    }
}

/// An egress queue of the whole switch: `port * 8 + queue`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct QueueIx(pub u32);

impl QueueIx {
    /// Queue `queue` (0 to 7) of a port.
    #[inline(always)]
    pub fn of(port: PortId, queue: usize) -> Self {
        Self((port.index() * PRIORITIES + queue) as u32)
    }
}

/// What admission decided about a frame at its priority group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AdmitVerdict {
    /// Charged; the upstream may go on.
    Admitted,
    /// Charged, and this frame crossed the line: send Xoff for this priority group now.
    AdmittedXoff,
    /// Nothing charged.
    Refused(DropReason),
}

/// Charges and releases. Both the ingress and the egress test must pass (REQ MMU-004).
///
/// `bytes` is the charge of one frame, already rounded up to cells where cells are configured.
pub trait Admission {
    /// Charges a frame to its priority group and to its only egress queue: both or neither.
    fn admit(&mut self, pg: PgIx, queue: QueueIx, bytes: u32) -> AdmitVerdict;

    /// Charges several frames of one group and queue, `bytes` together, if [`Admission::admit`] would
    /// admit each of them without Xoff. `false`: nothing is charged, ask frame by frame.
    #[inline(always)]
    fn admit_together(&mut self, pg: PgIx, queue: QueueIx, bytes: u32) -> bool {
        let _ = (pg, queue, bytes);
        false
    }

    /// A frame is charged to its group and queue and at once given back, where [`Admission::admit`] would admit it without Xoff, and
    /// nobody waits to go on. `false`: nothing has happened, and it is to be charged.
    #[inline(always)]
    fn pass(&mut self, pg: PgIx, queue: QueueIx, bytes: u32) -> bool {
        let _ = (pg, queue, bytes);
        false
    }

    /// Charges a frame to its priority group alone; its queues are charged copy by copy with
    /// [`Admission::admit_egress`], or by the lcore that owns them.
    fn admit_ingress(&mut self, pg: PgIx, bytes: u32) -> AdmitVerdict;

    /// Charges several frames of one group, `bytes` together, if [`Admission::admit_ingress`] would admit
    /// each of them without Xoff. `false`: nothing is charged, ask frame by frame.
    fn admit_ingress_together(&mut self, pg: PgIx, bytes: u32) -> bool {
        let _ = (pg, bytes);
        false
    }

    /// Charges one copy to an egress queue.
    ///
    /// # Errors
    /// The reason for which the queue refuses it; nothing is charged then.
    fn admit_egress(&mut self, queue: QueueIx, bytes: u32) -> Result<(), DropReason>;

    /// Gives back what copies took from an egress queue.
    fn release_egress(&mut self, queue: QueueIx, bytes: u32);

    /// Gives back what frames took from a priority group. `true`: Xon is due.
    #[must_use]
    fn release_ingress(&mut self, pg: PgIx, bytes: u32) -> bool;

    /// Priority groups in Xoff that may resume although none of their own frames left, because the
    /// limit moved: called once per tick. Each is handed to `resume` once.
    fn resume_moved(&mut self, resume: &mut dyn FnMut(PgIx)) {
        let _ = resume;
    }

    /// Bytes the buffer holds now, by this shard's count.
    fn held_bytes(&self) -> u64;

    /// What a frame of `len` bytes is charged: its bytes, unless the policy counts what it takes of a memory.
    #[inline(always)]
    fn charge(&self, len: u32) -> u32 {
        len
    }

    /// What a frame that is charged `charge` in each queue is charged in its group while there are `copies` of it.
    fn charge_for_copies(&self, charge: u32, copies: u32) -> u32 {
        let _ = copies;
        charge
    }

    /// The group that stands for the control pool, if the policy has one.
    #[inline(always)]
    fn control_pg(&self) -> Option<PgIx> {
        None
    }

    /// The group that copies for mirrors are charged to, if the policy has one.
    #[inline(always)]
    fn mirror_pg(&self) -> Option<PgIx> {
        None
    }

    /// The group, of whatever shard, is one that copies for mirrors are charged to.
    fn is_mirror(&self, pg: PgIx) -> bool {
        let _ = pg;
        false
    }

    /// Frames of this group wait rather than be lost. `false` where the policy does not say.
    fn is_lossless(&self, pg: PgIx) -> bool {
        let _ = pg;
        false
    }

    /// One group, for readers; all zero where the policy does not say.
    fn pg_view(&self, pg: PgIx) -> PgView {
        let _ = pg;
        PgView::default()
    }

    /// One queue, for readers; all zero where the policy does not say.
    fn queue_view(&self, queue: QueueIx) -> QueueView {
        let _ = queue;
        QueueView::default()
    }

    /// Shards only: publishes this shard's sums and reads the others'.
    fn exchange(&mut self) {}

    /// Shards only: this group now holds bytes in a queue of another shard.
    fn mark_remote(&mut self, pg: PgIx) {
        let _ = pg;
    }

    /// Shards only: this shard's queue let go of a frame whose group another shard owns.
    fn release_for_owner(&mut self, pg: PgIx, bytes: u32) {
        let _ = (pg, bytes);
    }

    /// Shards only: applies what other shards released of this shard's groups; `resume` gets each
    /// group whose Xon is due.
    fn collect_remote(&mut self, resume: &mut dyn FnMut(PgIx)) {
        let _ = resume;
    }
}
