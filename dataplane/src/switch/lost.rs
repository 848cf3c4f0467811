//! The one place where a lost frame is counted: where, why, and whether it was of a lossless class.

use super::flow_cache::{Destination, ForwardingDecision};
use super::gate::Charged;
use super::ports::Ports;
use super::receive::header_of;
use super::{Observer, Switch};
use crate::drops::{DropReason, LosslessLoss, Side};
use crate::egress::{BatchHeader, BatchList, FrameBatch, Queues};
use crate::flows::{Cause, Where};
use crate::frame::Frame;
use crate::mmu::{Admission, PgIx};
use crate::pfc::watchdog::Seen;
use crate::types::{PRIORITIES, PortId};

impl<F: Frame, A: Admission, O: Observer> Switch<F, A, O> {
    fn where_lost(&self, reason: DropReason, header: &BatchHeader) -> Where {
        where_lost(&self.ports, &self.admission, reason, header)
    }

    /// Counts a lost frame of `header`. The only way a frame in hand may be lost.
    #[cold]
    pub(super) fn drop_frame(&mut self, at: PortId, reason: DropReason, frame: F, header: &BatchHeader) {
        let profile = &self.ports[at.index()].params.profile;
        self.observer.lost(at, reason, profile, frame.bytes(), frame.len());
        let place = self.where_lost(reason, header);
        self.ports[at.index()].attribute_loss(place, 1, |_| Some(&frame));
        drop(frame);
        count_lost(&mut self.ports, &self.admission, at, reason, header, 1);
    }

    /// Frames that were received by `port` and go nowhere, for the reason the decision says.
    #[cold]
    #[inline(never)]
    pub(super) fn lose_group(&mut self, port: PortId, decision: ForwardingDecision, list: BatchList) {
        let Destination::Nowhere(reason) = decision.destination() else { return };
        let (mut list, header) = (list, header_of(port, decision, 0));
        let totals = self.queues.seal(&list, |_| 0);
        self.count_received(port, decision.tc(), u64::from(totals.frames), u64::from(totals.bytes));
        let place = self.where_lost(reason, &header);
        let Self { ports, queues, admission, observer, .. } = self;
        let input = &mut ports[port.index()];
        while !list.is_empty() {
            queues.take_first(&mut list, |batch| {
                let frames = batch.len() as u32;
                if observer.looks_on() {
                    for frame in (0..frames).filter_map(|at| batch.any(at as usize)) {
                        observer.lost(port, reason, &input.params.profile, frame.bytes(), frame.len());
                    }
                }
                input.attribute_loss(place, frames, |at| batch.any(at as usize));
                batch.clear();
            });
        }
        count_lost(ports, admission, port, reason, &header, u64::from(totals.frames));
    }

    /// A frame that may not join its queue at `out`, or is taken out of it.
    #[cold]
    pub(super) fn refuse(&mut self, out: PortId, frame: F, header: &BatchHeader, reason: DropReason) {
        let reason = self.reason_for(header, reason);
        let at = self.note_refused(out, header, reason, 1);
        self.drop_frame(at, reason, frame, header);
    }

    /// The frames of the first batch of a list follow one of this header that was turned away, if all of them are `len` long, as it was.
    #[cold]
    pub(super) fn turn_away_alike(
        &mut self,
        charged: Charged,
        out: PortId,
        (list, len): (&BatchList, u16),
        header: &BatchHeader,
        reason: DropReason,
    ) {
        let alike = self.queues.first_alike(list, len);
        let Some(totals) = alike.map(FrameBatch::totals).filter(|totals| totals.frames > 0) else { return };
        self.count_refused(out, header, reason, totals.frames, |queues, nth| {
            queues.first_alike(list, len)?.any(nth as usize)
        });
        self.queues.discard_first(list, len);
        if !charged.group() {
            self.release_from_group(&header.behind(1), totals);
        }
    }

    /// Counts frames of a list that may not join their queue at `out` and are about to be dropped: `frame` finds each of them by its
    /// number.
    pub(super) fn count_refused(
        &mut self,
        out: PortId,
        header: &BatchHeader,
        reason: DropReason,
        frames: u32,
        frame: impl Fn(&Queues<F>, u32) -> Option<&F>,
    ) {
        let at = self.note_refused(out, header, reason, u64::from(frames));
        let place = self.where_lost(reason, header);
        let Self { ports, queues, admission, .. } = self;
        ports[at.index()].attribute_loss(place, frames, |nth| frame(queues, nth));
        count_lost(ports, admission, at, reason, header, u64::from(frames));
    }

    /// The port where a refusal counts: that of departure, with the queue, if that is the side of the reason or the port of
    /// arrival is another lcore's; else that of arrival, with the group.
    fn note_refused(&mut self, out: PortId, header: &BatchHeader, reason: DropReason, frames: u64) -> PortId {
        let input = PortId(header.in_port);
        if reason.side() == Side::Departure || !self.ports.is_own(input) {
            self.note_drops_at_queue(out, header, reason, frames);
            return out;
        }
        self.note_drops_at_group(header, frames);
        input
    }

    /// Ingress reasons count at the port of arrival and at the priority group.
    fn note_drops_at_group(&mut self, header: &BatchHeader, frames: u64) {
        let Some(group) = group_at_arrival(&self.ports, &self.admission, header) else { return };
        let pg = usize::from(group) % PRIORITIES;
        let port = &mut self.ports[usize::from(header.in_port)];
        port.stats.pg_drops[pg] += frames;
        port.count_in_storm(pg, Seen::RxDrop, frames);
    }

    /// Egress reasons count at the port of departure and at the queue.
    fn note_drops_at_queue(&mut self, out: PortId, header: &BatchHeader, reason: DropReason, frames: u64) {
        let (port, queue) = (&mut self.ports[out.index()], usize::from(header.queue));
        port.stats.queue_drops[queue] += frames;
        if reason == DropReason::WatchdogDrop
            && let Some(watchdog) = &mut port.watchdog
        {
            watchdog.count(queue, Seen::TxDrop, frames);
        }
    }
}

/// Counts lost frames of one header, of which nothing is left to drop: another lcore had them, or a copy was never made.
#[cold]
pub(super) fn count_lost<F: Frame, A: Admission>(
    ports: &mut Ports<F>,
    admission: &A,
    at: PortId,
    reason: DropReason,
    header: &BatchHeader,
    frames: u64,
) {
    let lossless =
        !matches!(reason.lossless(), LosslessLoss::Never(_)) && is_lossless(ports, admission, header);
    let stats = &mut ports[at.index()].stats;
    stats.drops.0[reason as usize] += frames;
    stats.lossless.0[reason as usize] += frames * u64::from(lossless);
    if let Some(flows) = &mut ports[at.index()].flows {
        flows.count(Cause::Drop, frames);
    }
}

/// A class is lossless where its priority group at the port of arrival is.
fn is_lossless<F: Frame, A: Admission>(ports: &Ports<F>, admission: &A, header: &BatchHeader) -> bool {
    group_at_arrival(ports, admission, header).is_some_and(|pg| admission.is_lossless(PgIx(u32::from(pg))))
}

/// The priority group of frames at their port of arrival. Frames in the control pool are of the group they fall back to when it
/// is full; copies for mirrors are of none.
fn group_at_arrival<F: Frame, A: Admission>(
    ports: &Ports<F>,
    admission: &A,
    header: &BatchHeader,
) -> Option<u16> {
    if admission.is_mirror(PgIx(u32::from(header.pg))) {
        return None;
    }
    let own = usize::from(header.pg) < ports.len() * PRIORITIES;
    Some(if own { header.pg } else { control_group(ports, header.in_port) })
}

/// Where frames of a header are lost, for those who ask which flow lost them: with the priority of the side they are counted at.
pub(super) fn where_lost<F: Frame, A: Admission>(
    ports: &Ports<F>,
    admission: &A,
    reason: DropReason,
    header: &BatchHeader,
) -> Where {
    let group = match reason.side() {
        Side::Departure => None,
        Side::Arrival => group_at_arrival(ports, admission, header),
    };
    // A copy for a mirror has the class it would have left with.
    let priority = group.map_or(header.queue, |pg| (usize::from(pg) % PRIORITIES) as u8);
    Where { in_port: header.in_port, priority, reason: Some(reason) }
}

/// The priority group of control frames that are not charged to the control pool.
pub(super) fn control_group<F: Frame>(ports: &Ports<F>, in_port: u16) -> u16 {
    let class = ports.params(usize::from(in_port)).classifier.control_class();
    in_port * PRIORITIES as u16 + u16::from(class.pg)
}
