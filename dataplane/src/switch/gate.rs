//! The gate between a frame and its queue, the only one: the link, storms and flushes, the end of the run, early drop,
//! limits, Xoff, in this order, whether a frame comes alone or with others.
//!
//! A frame with several copies, or for a port of another lcore, passes it in two steps, each of which asks in this order what it has to ask:
//! first its group ([`Charged::Group`], [`Charged::Remote`]: the end of the run, limits, Xoff), where it came in; then each copy its queue
//! ([`Charged::Queue`]), where the link, storms, early drop and the limit of the queue are known. So a frame that two things stand against is lost
//! for the first of them on the way there, which is not the same one for every layout of lcores.

use super::lost::control_group;
use super::{Observer, OwnPort, Switch};
use crate::drops::DropReason;
use crate::egress::{BatchTotals, Meta};
use crate::frame::Frame;
use crate::mmu::{Admission, AdmitVerdict, PgIx, PgView, QueueIx};
use crate::pfc::generate::{Cause, Source};
use crate::pfc::watchdog::Seen;
use crate::types::{PRIORITIES, PortId};

/// What a frame is charged to as it passes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Charged {
    /// Its priority group and its queue, at this port of ours: both or neither.
    Both(PortId),
    /// Its priority group alone: its queue is one of another lcore's, at this port.
    Remote(PortId),
    /// Its priority group alone: each of its copies is charged to a queue.
    Group,
    /// Its queue alone: the group has been charged, once for all copies or by the lcore that received it.
    Queue(PortId),
}

impl Charged {
    pub fn queue(self) -> Option<PortId> {
        match self {
            Self::Both(out) | Self::Queue(out) => Some(out),
            Self::Remote(_) | Self::Group => None,
        }
    }

    pub fn group(self) -> bool {
        !matches!(self, Self::Queue(_))
    }
}

impl<F: Frame, A: Admission, O: Observer> Switch<F, A, O> {
    /// What is charged here for a frame with one destination.
    #[inline(always)]
    pub(super) fn charged_for(&self, out: PortId) -> Charged {
        if self.ports.is_own(out) { Charged::Both(out) } else { Charged::Remote(out) }
    }

    /// Lets frames of one group and queue pass together, where nothing but limits stands in their way and those are far.
    /// `false`: nothing is charged, ask for each.
    #[inline(always)]
    pub(super) fn admit_all(&mut self, charged: Charged, pg: u16, queue: usize, totals: BatchTotals) -> bool {
        let draws = match charged.queue() {
            Some(out) if !self.is_fast_path(out, queue as u8) => self.draws_in_vain(out, queue, totals),
            Some(_) => Some(0),
            None => (!self.draining).then_some(0),
        };
        let Some(draws) = draws else { return false };
        let admitted = self.charge_all(charged, pg, queue, totals);
        if admitted {
            self.rng.skip(draws);
        }
        admitted
    }

    /// Charges frames together that have a batch of their queues already. `false`: limits are near, nothing is charged.
    #[inline(always)]
    pub(super) fn charge_all(
        &mut self,
        charged: Charged,
        pg: u16,
        queue: usize,
        totals: BatchTotals,
    ) -> bool {
        let (group, charge) = (PgIx(u32::from(pg)), totals.charge);
        let admitted = match charged {
            Charged::Both(out) => self.admission.admit_together(group, QueueIx::of(out, queue), charge),
            Charged::Remote(_) | Charged::Group => self.admission.admit_ingress_together(group, charge),
            Charged::Queue(out) => self.admission.admit_egress(QueueIx::of(out, queue), charge).is_ok(),
        };
        if admitted && charged.group() {
            self.count_charged(pg, totals.frames);
        }
        admitted
    }

    /// Lets a frame pass that is charged `charge`.
    ///
    /// # Errors
    /// Why it may not; nothing is charged then. It may have been moved from the control pool to its own group.
    #[inline(always)]
    pub(super) fn admit(
        &mut self,
        charged: Charged,
        frame: &F,
        meta: &mut Meta,
        charge: u32,
    ) -> Result<(), DropReason> {
        let queue = usize::from(meta.header.queue);
        let port = charged.queue().map(|out| &self.ports[out.index()]);
        if let Some(reason) = port.and_then(|port| port.shut(queue)) {
            return Err(reason);
        }
        if self.draining && charged.group() {
            return Err(DropReason::RunDraining);
        }
        if let Some(out) = charged.queue()
            && self.ports[out.index()].drops_early >> queue & 1 == 1
            && self.drops_early(out, frame, meta)
        {
            return Err(DropReason::EgressWred);
        }
        let mut verdict = self.charge(charged, meta, charge);
        if matches!(verdict, AdmitVerdict::Refused(_)) && charged.group() && self.leave_control_pool(meta) {
            verdict = self.charge(charged, meta, charge);
        }
        if let AdmitVerdict::Refused(reason) = verdict {
            return Err(reason);
        }
        if charged.group() {
            self.count_charged(meta.header.pg, 1);
            if !meta.header.is_single() {
                // Whoever sends or drops the last copy gives it back.
                self.copies.set_charge(meta.header.copies, charge);
            }
        }
        if verdict == AdmitVerdict::AdmittedXoff {
            self.xoff(charged, frame, meta);
        }
        Ok(())
    }

    /// The limits.
    #[inline(always)]
    fn charge(&mut self, charged: Charged, meta: &Meta, charge: u32) -> AdmitVerdict {
        let (group, queue) = (PgIx(u32::from(meta.header.pg)), usize::from(meta.header.queue));
        match charged {
            Charged::Both(out) => self.admission.admit(group, QueueIx::of(out, queue), charge),
            Charged::Remote(_) | Charged::Group => self.admission.admit_ingress(group, charge),
            Charged::Queue(_) if !self.queues.has_room() => AdmitVerdict::Refused(DropReason::IngressNoSlot),
            Charged::Queue(out) => match self.admission.admit_egress(QueueIx::of(out, queue), charge) {
                Ok(()) => AdmitVerdict::Admitted,
                Err(reason) => AdmitVerdict::Refused(reason),
            },
        }
    }

    /// Frames are charged to a group of their port; the control pool is no such group.
    #[inline(always)]
    pub(super) fn count_charged(&mut self, pg: u16, frames: u32) {
        let (port, pg) = (usize::from(pg) / PRIORITIES, usize::from(pg) % PRIORITIES);
        if let Some(port) = self.ports.get_own_mut(port) {
            port.stats.pg_packets[pg] += u64::from(frames);
            if port.storm_drop | port.storm_forward != 0 {
                port.count_in_storm(pg, Seen::RxOk, u64::from(frames));
            }
        }
    }

    /// A frame that did not fit the control pool is charged to its priority group like any other.
    #[cold]
    fn leave_control_pool(&mut self, meta: &mut Meta) -> bool {
        if self.admission.control_pg() != Some(PgIx(u32::from(meta.header.pg))) {
            return false;
        }
        meta.header.pg = control_group(&self.ports, meta.header.in_port);
        if let Some(beside) = self.observer.beside() {
            beside.control_is_full = true;
        }
        true
    }

    /// A group crossed its line: pause every priority that fills it, and note which queue is to blame. To be called as
    /// soon as the frame is charged: if it finds no place after all, its release says Xon, and must be the last word.
    #[cold]
    fn xoff(&mut self, charged: Charged, frame: &F, meta: &Meta) {
        let group = PgIx(u32::from(meta.header.pg));
        let (port, pg) =
            (PortId(meta.header.pg / PRIORITIES as u16), usize::from(meta.header.pg) % PRIORITIES);
        let params = &self.ports[port.index()].params;
        let (priorities, queues) = (params.pg_priorities[pg], params.pg_queues[pg]);
        let here = self.queues.fullest(port, queues);
        let held_here = here.map_or(0, |(out, queue)| self.queues.bytes_from(port, out, usize::from(queue)));
        let PgView { used, headroom, .. } = self.admission.pg_view(group);
        let held = used + headroom;
        let blamed = match charged {
            // How long queues of other lcores are is not known here: the one that this frame is for stands for them, unless most
            // of what the group holds waits in a queue of ours.
            Charged::Remote(out) if 2 * held_here <= held => Some((out, meta.header.queue)),
            _ => here,
        };
        let cause = blamed.map(Cause::from);
        for priority in crate::pfc::bits(priorities) {
            self.ports[port.index()].generator.xoff(priority, Source::Buffer, cause);
        }
        self.attribute_pause((port, pg), cause, frame, meta.header.in_port);
    }
}

impl<F: Frame> OwnPort<F> {
    /// Why a queue takes no frames at all, if it takes none.
    pub(super) fn shut(&self, queue: usize) -> Option<DropReason> {
        if !self.status.is_up() {
            Some(self.status.lost_in_queue())
        } else if self.flushing >> queue & 1 == 1 {
            Some(self.flush_as[queue])
        } else {
            (self.storm_drop >> queue & 1 == 1).then_some(DropReason::WatchdogDrop)
        }
    }

    /// A frame received here met group `pg` while a queue of that group is in a storm on this port (H10).
    #[cold]
    pub(super) fn count_in_storm(&mut self, pg: usize, seen: Seen, frames: u64) {
        let stormed = (self.storm_drop | self.storm_forward) & self.params.pg_queues[pg];
        if let Some(watchdog) = &mut self.watchdog {
            crate::pfc::bits(stormed).for_each(|queue| watchdog.count(queue, seen, frames));
        }
    }
}
