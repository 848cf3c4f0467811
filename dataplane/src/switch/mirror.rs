//! Port mirrors (SPAN): copies of frames that a port receives or sends go to another port, for whoever looks there, or to a
//! reader beside the switch ([`super::mirror_reader`]).
//!
//! A copy for a port is a frame of its own. It is charged to the group of mirrors ([`crate::mmu::Admission::mirror_pg`]), which has a
//! minimum and no share: no copy takes anything that a lossless group could use, and none pauses anybody. What finds no room
//! there or in the queue of its class is lost as `mirror.no_room`.
//!
//! A frame is copied as it comes in, before anything is decided about it, and as it leaves, when the scheduler has taken
//! it. A switch without mirrors asks once per burst.

use super::Filter;
use super::lost::count_lost;
use super::mirror_reader::MirrorHead;
use super::{Observer, Switch};
use crate::drops::DropReason;
use crate::egress::BatchHeader;
use crate::frame::Frame;
use crate::mmu::{Admission, PgIx};
use crate::parse::Kind;
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
    /// Where the copies go.
    pub to: MirrorTo,
}

/// Where copies go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MirrorTo {
    /// Another port.
    Port {
        /// Not one of those that are mirrored, and of their format.
        port: PortId,
        /// Egress queue of the copies there, a lossy one.
        queue: u8,
    },
    /// Whoever reads them ([`Switch::read_mirrors`]).
    Reader {
        /// What tells this mirror from others.
        number: u64,
        /// Bytes of each frame that are kept, at most.
        bytes: u32,
    },
}

/// A frame that is to be copied, and the port of this lcore that its copies count at.
type Original<F> = (PortId, F);

/// A copy of a frame of port `at`: of the group of copies for mirrors, whatever group the frame is of.
fn header_of_copy(admission: &impl Admission, at: PortId, queue: u8, now: Nanos) -> BatchHeader {
    let pg = admission.mirror_pg().map_or(0, |PgIx(pg)| pg as u16);
    BatchHeader { rx_ns: now, pg, in_port: at.0, queue, ..BatchHeader::NONE }
}

impl<F: Frame, A: Admission, O: Observer> Switch<F, A, O> {
    /// Copies those frames of a burst that mirrors want.
    #[cold]
    #[inline(never)]
    pub(super) fn mirror_received(&mut self, port: PortId, burst: &Burst<F>, now: Nanos) {
        for at in 0..self.mirrors.len() {
            let mirror = self.mirrors[at];
            if !mirror.rx.contains(port) {
                continue;
            }
            match mirror.to {
                MirrorTo::Port { port: to, queue } => {
                    let wanted = burst.iter().filter(|frame| self.wants(&mirror, port, frame));
                    let frames: ArrayVec<_, BURST> = wanted.map(|frame| (port, frame.share())).collect();
                    self.mirror_to((to, queue), frames.into_iter(), now);
                }
                MirrorTo::Reader { number, bytes } => {
                    for frame in burst.iter() {
                        if self.wants(&mirror, port, frame) {
                            let head = head_of(number, bytes, (port, false), frame, now);
                            self.mirror_for_reader(port, &head, frame.bytes());
                        }
                    }
                }
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
                let wanted = new.filter(|(_, _, frame)| self.wants(&mirror, out, frame));
                // A copy is made of what the reader gets, too: the stage is borrowed while the ring is written.
                let wanted = wanted.map(|(_, entry, frame)| (counts_at(entry.header.in_port), frame.share()));
                let frames: ArrayVec<Original<Option<F>>, BURST> = wanted.collect();
                match mirror.to {
                    MirrorTo::Port { port, queue } => {
                        self.mirror_to((port, queue), frames.into_iter().rev(), now);
                    }
                    MirrorTo::Reader { number, bytes } => {
                        for (at, frame) in frames.into_iter().rev() {
                            match frame {
                                Some(frame) => {
                                    let head = head_of(number, bytes, (out, true), &frame, now);
                                    self.mirror_for_reader(at, &head, frame.bytes());
                                }
                                None => self.lose_copy(at, DropReason::IngressNoCopy, now),
                            }
                        }
                    }
                }
            }
        }
    }

    /// A frame of this port is one that the mirror is for. What is not whole is not copied, and MAC control never: a pause is meant
    /// for this link.
    fn wants(&self, mirror: &MirrorParams, port: PortId, frame: &F) -> bool {
        let (profile, bytes) = (&self.ports.params(port.index()).profile, frame.bytes());
        profile.parse(bytes, frame.len()).is_ok_and(|parsed| {
            parsed.kind != Kind::MacControl && mirror.filter.admits(profile, bytes, frame.len(), &parsed)
        })
    }

    /// Gives what is wanted of a frame to the reader. It is no copy that the switch holds, but one that finds no room is counted as one
    /// that was made and lost.
    fn mirror_for_reader(&mut self, at: PortId, head: &MirrorHead, bytes: &[u8]) {
        if self.draining {
            return;
        }
        let bytes = &bytes[..bytes.len().min(head.kept as usize)];
        let head = MirrorHead { kept: bytes.len() as u32, ..*head };
        if self.mirror_queue.as_mut().is_some_and(|queue| queue.put(&head, bytes)) {
            self.ports[at.index()].stats.recorded += 1;
        } else {
            self.lose_copy(at, DropReason::MirrorFileNoRoom, head.at);
        }
    }

    /// A copy that is of no port is lost.
    fn lose_copy(&mut self, at: PortId, reason: DropReason, now: Nanos) {
        let Self { ports, admission, .. } = self;
        let stats = &mut ports[at.index()].stats;
        stats.copies += 1;
        stats.mirrored += 1;
        let header = header_of_copy(admission, at, 0, now);
        count_lost(ports, admission, at, reason, &header, 1);
    }

    fn mirror_to(
        &mut self,
        (out, queue): (PortId, u8),
        frames: impl Iterator<Item = Original<Option<F>>>,
        now: Nanos,
    ) {
        if self.draining || self.admission.mirror_pg().is_none() {
            return;
        }
        for (at, copy) in frames {
            let stats = &mut self.ports[at.index()].stats;
            stats.copies += 1;
            stats.mirrored += 1;
            let header = header_of_copy(&self.admission, at, queue, now);
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
            EgressPortDown | EgressAdminDown => MirrorPortDown,
            other => other,
        }
    }
}

fn head_of<F: Frame>(
    mirror: u64,
    bytes: u32,
    (port, sent): (PortId, bool),
    frame: &F,
    at: Nanos,
) -> MirrorHead {
    MirrorHead { mirror, at, port, sent, len: frame.len() as u32, kept: bytes }
}

#[cfg(test)]
#[path = "mirror_tests.rs"]
mod tests;
