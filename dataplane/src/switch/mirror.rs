//! Port mirrors (SPAN): copies of frames that a port receives or sends go to another port, for whoever looks there.
//!
//! A copy is a frame of its own. It is charged to the group of mirrors ([`crate::mmu::Admission::mirror_pg`]), which has a
//! minimum and no share: no copy takes anything that a lossless group could use, and none pauses anybody. What finds no room
//! there or in the queue of its class is lost as `mirror.no_room`.
//!
//! A frame is copied as it comes in, before anything is decided about it, and as it leaves, when the scheduler has taken
//! it. A switch without mirrors asks once per burst.

use super::Switch;
use super::lost::count_lost;
use super::tap::Filter;
use crate::drops::DropReason;
use crate::egress::{BatchHeader, Meta};
use crate::frame::Frame;
use crate::mmu::{Admission, PgIx};
use crate::parse::{EcnCode, Kind};
use crate::portset::PortSet;
use crate::types::{BURST, Burst, Nanos, PortId};
use arrayvec::ArrayVec;

/// A mirror.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MirrorParams {
    /// Ports whose received frames are copied.
    pub rx: PortSet,
    /// Ports whose sent frames are copied.
    pub tx: PortSet,
    /// Which of them.
    pub filter: Filter,
    /// Where the copies go: not one of those ports, and of their format.
    pub to: PortId,
    /// Egress queue of the copies there, a lossy one.
    pub queue: u8,
}

/// A frame that is to be copied, and the port of this lcore that its copies count at.
type Original<F> = (PortId, F);

impl<F: Frame, A: Admission> Switch<F, A> {
    /// Copies those frames of a burst that mirrors want.
    #[cold]
    #[inline(never)]
    pub(super) fn mirror_received(&mut self, port: PortId, burst: &Burst<F>, now: Nanos) {
        for at in 0..self.mirrors.len() {
            let mirror = self.mirrors[at];
            if mirror.rx.contains(port) {
                let frames = burst.iter().filter_map(|frame| self.wanted(&mirror, port, frame));
                let frames: ArrayVec<_, BURST> = frames.collect();
                self.mirror_to(&mirror, frames.into_iter().map(|frame| (port, frame)), now);
            }
        }
    }

    /// [`Switch::stage`] where there are mirrors.
    #[cold]
    #[inline(never)]
    pub(super) fn stage_mirrored(&mut self, out: PortId, budget: usize, now: Nanos) {
        let before = self.ports.stage(out).len();
        self.stage(out, budget, now);
        self.mirror_staged(out, before, now);
    }

    /// Copies those frames of the stage, from number `before` on, that mirrors want.
    #[cold]
    pub(super) fn mirror_staged(&mut self, out: PortId, before: usize, now: Nanos) {
        for at in 0..self.mirrors.len() {
            let mirror = self.mirrors[at];
            if mirror.tx.contains(out) {
                let counts_at = |in_port| if self.ports.is_own(out) { out } else { PortId(in_port) };
                let new = self.ports.stage(out).backwards().take_while(|(at, ..)| *at >= before);
                let wanted = new.filter_map(|(_, entry, frame)| {
                    Some((counts_at(entry.header.in_port), self.wanted(&mirror, out, frame)?))
                });
                let frames: ArrayVec<Original<Option<F>>, BURST> = wanted.collect();
                self.mirror_to(&mirror, frames.into_iter().rev(), now);
            }
        }
    }

    /// A frame of this port that the mirror is for, as its copy; inside, `None`: there is no memory for one. What is not
    /// whole is not copied, and MAC control never: a pause is meant for this link.
    fn wanted(&self, mirror: &MirrorParams, port: PortId, frame: &F) -> Option<Option<F>> {
        let (profile, bytes) = (&self.ports.params(port.index()).profile, frame.bytes());
        let parsed = profile.parse(bytes, frame.len()).ok()?;
        let wanted =
            parsed.kind != Kind::MacControl && mirror.filter.admits(profile, bytes, frame.len(), &parsed);
        wanted.then(|| frame.share())
    }

    fn mirror_to(
        &mut self,
        mirror: &MirrorParams,
        frames: impl Iterator<Item = Original<Option<F>>>,
        now: Nanos,
    ) {
        let Some(PgIx(pg)) = self.admission.mirror_pg().filter(|_| !self.draining) else { return };
        let out = mirror.to;
        for (at, copy) in frames {
            let stats = &mut self.ports[at.index()].stats;
            stats.copies += 1;
            stats.mirrored += 1;
            let header = BatchHeader {
                rx_ns: now,
                copies: Meta::SINGLE,
                pg: pg as u16,
                in_port: at.0,
                queue: mirror.queue,
                ecn: EcnCode::NONE,
                home: BatchHeader::HERE,
            };
            match copy {
                None => {
                    let Self { ports, admission, .. } = self;
                    count_lost(ports, admission, at, DropReason::IngressNoCopy, &header, 1);
                }
                Some(copy) if !self.fits(out, copy.len()) => {
                    self.drop_frame(at, DropReason::MirrorTooLong, copy, &header);
                }
                Some(copy) => {
                    let meta = header.meta(copy.len() as u16, 0);
                    self.forward(out, copy, meta);
                }
            }
        }
    }

    /// Why a frame of this header is refused: of copies for mirrors, whatever limit they have met, for lack of room.
    pub(super) fn reason_for(&self, header: &BatchHeader, reason: DropReason) -> DropReason {
        use DropReason::*;
        if !self.admission.is_mirror(PgIx(u32::from(header.pg))) {
            return reason;
        }
        match reason {
            IngressShared | IngressPortPool | IngressBufferFull | IngressNoSlot | EgressQueueFull
            | EgressPortPool | EgressWred => MirrorNoRoom,
            EgressPortDown => MirrorPortDown,
            other => other,
        }
    }
}

#[cfg(test)]
#[path = "mirror_tests.rs"]
mod tests;
