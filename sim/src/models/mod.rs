//! Published models as admission policies of a whole switch, for comparison in virtual time.
//!
//! A model knows one priority per frame, where the pipeline knows a group and a queue: the priority is the queue's
//! number, so a lossless group must be the one of its queue. A model releases a frame as a whole, where the pipeline
//! releases the queue and then the group: the first is remembered until the second. Models carry unicast only, as their
//! originals do; a switch on one of them has one shard.

pub mod hpcc;
pub mod ns3dc;

use hpcc::Hpcc;
use ns3dc::{Ns3Dc, Policy};
use weir_dataplane::drops::DropReason;
use weir_dataplane::mmu::{Admission, AdmitVerdict, PgIx, PgView, QueueIx, QueueView, Watermark};
use weir_dataplane::types::PRIORITIES;

/// What a model must offer to be an [`Admission`]. Ports and priorities are indices from 0, sizes are bytes.
pub trait Model: Send {
    /// Offers a frame.
    fn store(&mut self, in_port: usize, priority: usize, out_port: usize, bytes: u32) -> AdmitVerdict;

    /// Takes back a frame that was stored with the same arguments. `true`: its group resumes.
    fn take(&mut self, in_port: usize, priority: usize, out_port: usize, bytes: u32) -> bool;

    /// Bytes stored now.
    fn stored_bytes(&self) -> u64;

    /// Bytes that groups share: what a threshold is a part of as long as nothing is stored.
    fn shared_bytes(&self) -> u64;

    /// Ingress group of a priority, for readers: peaks and whether it is lossless are not the model's.
    fn group(&self, port: usize, priority: usize) -> PgView;

    /// Egress queue of a priority, for readers, without its peak.
    fn queue(&self, port: usize, priority: usize) -> QueueView;

    /// A measuring window ends. Models without one do nothing.
    fn end_window(&mut self) {}
}

impl<M: Model + ?Sized> Model for Box<M> {
    fn store(&mut self, in_port: usize, priority: usize, out_port: usize, bytes: u32) -> AdmitVerdict {
        (**self).store(in_port, priority, out_port, bytes)
    }

    fn take(&mut self, in_port: usize, priority: usize, out_port: usize, bytes: u32) -> bool {
        (**self).take(in_port, priority, out_port, bytes)
    }

    fn stored_bytes(&self) -> u64 {
        (**self).stored_bytes()
    }

    fn shared_bytes(&self) -> u64 {
        (**self).shared_bytes()
    }

    fn group(&self, port: usize, priority: usize) -> PgView {
        (**self).group(port, priority)
    }

    fn queue(&self, port: usize, priority: usize) -> QueueView {
        (**self).queue(port, priority)
    }

    fn end_window(&mut self) {
        (**self).end_window();
    }
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

    fn shared_bytes(&self) -> u64 {
        self.pool().into()
    }

    fn group(&self, port: usize, priority: usize) -> PgView {
        let limit = self.threshold(port);
        PgView {
            used: self.used(port, priority).into(),
            shared: self.shared_of(port, priority).into(),
            headroom: self.headroom(port, priority).into(),
            limit: limit.into(),
            reserved: self.reserve().into(),
            headroom_limit: self.headroom_limit(port).into(),
            xon_at: u64::from(self.reserve()) + u64::from(limit.saturating_sub(self.resume_offset())),
            xoff: self.paused(port, priority),
            ..PgView::default()
        }
    }

    fn queue(&self, port: usize, priority: usize) -> QueueView {
        // The egress side never refuses.
        QueueView { used: self.egress(port, priority).into(), limit: u64::MAX, ..QueueView::default() }
    }
}

impl<P: Policy> Model for Ns3Dc<P> {
    #[inline]
    fn store(&mut self, in_port: usize, priority: usize, out_port: usize, bytes: u32) -> AdmitVerdict {
        match self.admit(in_port, priority, out_port, bytes) {
            ns3dc::Verdict::Stored => AdmitVerdict::Admitted,
            ns3dc::Verdict::StoredPause => AdmitVerdict::AdmittedXoff,
            ns3dc::Verdict::RefusedEgress => AdmitVerdict::Refused(DropReason::EgressQueueFull),
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

    fn shared_bytes(&self) -> u64 {
        self.policy().shared_bytes(self.counters())
    }

    fn group(&self, port: usize, priority: usize) -> PgView {
        let (counters, params) = (self.counters(), self.counters().params());
        let (headroom, limit) = (counters.headroom(port, priority), self.ingress_threshold(port, priority));
        let used = counters.used(port, priority) - headroom;
        PgView {
            used,
            shared: used.saturating_sub(params.reserve[port][priority]),
            headroom,
            limit,
            reserved: params.reserve[port][priority],
            headroom_limit: params.xoff[port][priority],
            xon_at: params.xon.max(limit.saturating_sub(params.xon_offset)),
            xoff: counters.paused(port, priority),
            ..PgView::default()
        }
    }

    fn queue(&self, port: usize, priority: usize) -> QueueView {
        let limit = self.egress_threshold(port, priority);
        QueueView { used: self.counters().egress(port, priority), limit, ..QueueView::default() }
    }

    fn end_window(&mut self) {
        self.tick();
    }
}

/// Peaks of a group and the queue of its number.
#[derive(Clone, Copy, Debug, Default)]
struct Peaks {
    shared: Watermark,
    headroom: Watermark,
    queue: Watermark,
}

/// A model in the place of an MMU.
#[derive(Clone, Debug)]
pub struct Modelled<M> {
    model: M,
    /// Groups whose upstream is paused, by their index: in a model every group may pause.
    lossless: Box<[bool]>,
    peaks: Box<[Peaks]>,
    /// The queue that has just let go of a frame whose group has not.
    leaving: QueueIx,
}

impl<M: Model> Modelled<M> {
    /// An empty switch's MMU; `lossless` says of each group, `port * 8 + group`, whether its upstream can be paused.
    pub fn new(model: M, lossless: impl IntoIterator<Item = bool>) -> Self {
        let lossless: Box<[bool]> = lossless.into_iter().collect();
        Self { model, peaks: vec![Peaks::default(); lossless.len()].into(), lossless, leaving: QueueIx(0) }
    }

    /// The model and its counters.
    pub fn model(&self) -> &M {
        &self.model
    }

    /// A measuring window of the model ends.
    pub fn end_window(&mut self) {
        self.model.end_window();
    }
}

/// Port and priority of a group or queue index.
fn place(ix: u32) -> (usize, usize) {
    (ix as usize / PRIORITIES, ix as usize % PRIORITIES)
}

impl<M: Model> Admission for Modelled<M> {
    #[inline]
    fn admit(&mut self, pg: PgIx, queue: QueueIx, bytes: u32) -> AdmitVerdict {
        let (in_port, (out_port, priority)) = (place(pg.0).0, place(queue.0));
        let lossless = self.lossless[pg.0 as usize];
        debug_assert!(!lossless || priority == place(pg.0).1, "a lossless group has the number of its queue");
        match self.model.store(in_port, priority, out_port, bytes) {
            AdmitVerdict::AdmittedXoff if !lossless => AdmitVerdict::Admitted,
            // A model of one kind of frame has one word for it; headroom is that of frames that are paused for.
            AdmitVerdict::Refused(DropReason::IngressHeadroom) if !lossless => {
                AdmitVerdict::Refused(DropReason::IngressShared)
            }
            verdict => verdict,
        }
    }

    fn admit_ingress(&mut self, _: PgIx, _: u32) -> AdmitVerdict {
        AdmitVerdict::Refused(DropReason::IngressNoCopy)
    }

    fn admit_egress(&mut self, _: QueueIx, _: u32) -> Result<(), DropReason> {
        Err(DropReason::IngressNoCopy)
    }

    #[inline]
    fn release_egress(&mut self, queue: QueueIx, _: u32) {
        self.leaving = queue;
    }

    // Occupancy is noted before it falls, as a peak asks.
    #[inline]
    fn release_ingress(&mut self, pg: PgIx, bytes: u32) -> bool {
        let (in_port, (out_port, priority)) = (place(pg.0).0, place(self.leaving.0));
        let group = self.model.group(in_port, priority);
        let peaks = &mut self.peaks[pg.0 as usize];
        peaks.shared.note(group.shared);
        peaks.headroom.note(group.headroom);
        let queued = self.model.queue(out_port, priority).used;
        self.peaks[self.leaving.0 as usize].queue.note(queued);
        self.model.take(in_port, priority, out_port, bytes)
    }

    fn held_bytes(&self) -> u64 {
        self.model.stored_bytes()
    }

    fn is_lossless(&self, pg: PgIx) -> bool {
        self.lossless[pg.0 as usize]
    }

    fn pg_view(&self, pg: PgIx) -> PgView {
        let (port, priority) = place(pg.0);
        let (view, peaks) = (self.model.group(port, priority), &self.peaks[pg.0 as usize]);
        PgView {
            lossless: self.lossless[pg.0 as usize],
            shared_peak: peaks.shared.with(view.shared),
            headroom_peak: peaks.headroom.with(view.headroom),
            ..view
        }
    }

    fn queue_view(&self, queue: QueueIx) -> QueueView {
        let (port, priority) = place(queue.0);
        let view = self.model.queue(port, priority);
        QueueView { peak: self.peaks[queue.0 as usize].queue.with(view.used), ..view }
    }
}
