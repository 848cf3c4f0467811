//! Tags of frames between the VLANs of their ports ([`crate::vlan`]): they are changed before a frame is charged, so that
//! what is charged, queued, shaped and sent has one length.

use super::batching::AdmissionGroup;
use super::lost::{count_lost, where_lost};
use super::receive::{ParsedFrame, Received, RxContext};
use super::{Observer, Switch};
use crate::drops::DropReason;
use crate::egress::Meta;
use crate::frame::Frame;
use crate::mmu::Admission;
use crate::types::PortId;
use crate::vlan::{FrameVlan, Retag};

/// A tag for frames of a port without one.
#[derive(Clone, Copy)]
struct NewTag {
    at: usize,
    pcp: u8,
    vid: u16,
}

impl<F: Frame, A: Admission, O: Observer> Switch<F, A, O> {
    /// What is done to the tag of a frame that leaves by `out`. `None`: that is no member of its VLAN.
    pub(super) fn retag(&self, out: PortId, headers: &ParsedFrame) -> Option<Retag> {
        match (headers.vlan, &self.vlans) {
            (Some(vlan), Some(vlans)) => vlans.retag(vlan, out),
            _ => Some(Retag::Keep),
        }
    }

    /// The VLAN of a frame that has been found to be in one, if its port knows of VLANs.
    pub(super) fn vlan_of(&self, rx: &RxContext, frame: &F) -> Option<FrameVlan> {
        let params = &self.ports[rx.port.index()].params;
        params.vlans.as_ref()?.classify(&params.profile, frame.bytes()).ok()
    }

    fn new_tag(&self, port: PortId, tc: usize) -> NewTag {
        let params = &self.ports[port.index()].params;
        NewTag {
            // Formats that can have no tag have no place for one, and none will be found there.
            at: params.profile.tag_at().unwrap_or(usize::MAX >> 1),
            pcp: params.classifier.pcp_of(tc as u8),
            vid: params.vlans.as_ref().and_then(|vlans| vlans.native).unwrap_or(0),
        }
    }

    /// Frames of this length, tag included, are not longer than the port may send.
    pub(super) fn fits(&self, out: PortId, len: usize) -> bool {
        len <= self.ports.params(out.index()).profile.max_frame()
    }

    /// [`Switch::admit_waiting`] of a port that knows of VLANs.
    #[inline(never)]
    pub(super) fn admit_waiting_retagged(&mut self, rx: &mut RxContext) {
        while rx.waiting != 0 {
            self.admit_retagged(rx.port, rx.waiting.trailing_zeros() as usize);
            rx.waiting &= rx.waiting - 1;
        }
    }

    /// [`Switch::admit_group`] of frames that get the tag they leave with before they are charged.
    #[inline(never)]
    pub(super) fn admit_retagged(&mut self, port: PortId, at: usize) {
        let retag = self.groups[at].decision.retag();
        if retag == Retag::Keep {
            return self.admit_group(port, at);
        }
        let AdmissionGroup { decision, mut list } =
            std::mem::replace(&mut self.groups[at], AdmissionGroup::NONE);
        let new = self.new_tag(port, decision.tc());
        let longest = self.ports.params(decision.out().index()).profile.max_frame();
        let header = super::receive::header_of(port, decision, 0);
        let Self { ports, queues, admission, observer, .. } = self;
        let came = queues.seal(&list, |len| admission.charge(len));
        let (mut too_long, mut no_memory) = (0, 0);
        queues.edit(&mut list, |frame, _| {
            let (reason, lost) = if retag == Retag::Push && frame.len() + crate::vlan::TAG_BYTES > longest {
                (DropReason::VlanTooLong, &mut too_long)
            } else if !retag.apply(frame, new.at, new.pcp, new.vid) {
                (DropReason::IngressNoCopy, &mut no_memory)
            } else {
                return true;
            };
            *lost += 1;
            let profile = &ports[port.index()].params.profile;
            observer.lost(port, reason, profile, frame.bytes(), frame.len());
            let place = where_lost(ports, admission, reason, &header);
            ports[port.index()].attribute_loss(place, 1, |_| Some(&*frame));
            false
        });
        let totals = queues.seal(&list, |len| admission.charge(len));
        self.count_received(port, decision.tc(), u64::from(came.frames), u64::from(came.bytes));
        for (reason, frames) in [(DropReason::VlanTooLong, too_long), (DropReason::IngressNoCopy, no_memory)]
        {
            if frames > 0 {
                count_lost(&mut self.ports, &self.admission, port, reason, &header, frames);
            }
        }
        if !list.is_empty() {
            self.admit_list(port, decision, list, totals);
        }
    }

    /// A frame with the tag it leaves with, and what is known of it then. `None`: it is dropped.
    pub(super) fn retagged(&mut self, frame: F, (meta, tc): (Meta, u8), retag: Retag) -> Option<(F, Meta)> {
        let (mut frame, mut meta, port) = (frame, meta, PortId(meta.header.in_port));
        let NewTag { at, pcp, vid } = self.new_tag(port, usize::from(tc));
        if !retag.apply(&mut frame, at, pcp, vid) {
            self.drop_frame(port, DropReason::IngressNoCopy, frame, &meta.header);
            return None;
        }
        (meta.len, meta.header.ecn) = (frame.len() as u16, retag.moved(meta.header.ecn));
        Some((frame, meta))
    }

    /// [`Switch::forward`] of a frame that gets another tag, or keeps its own.
    #[cold]
    pub(super) fn forward_retagged(&mut self, out: PortId, frame: F, headers: &Received, retag: Retag) {
        if retag == Retag::Push && !self.fits(out, frame.len() + crate::vlan::TAG_BYTES) {
            let port = PortId(headers.meta.header.in_port);
            return self.drop_frame(port, DropReason::VlanTooLong, frame, &headers.meta.header);
        }
        if let Some((frame, meta)) = self.retagged(frame, (headers.meta, headers.tc), retag) {
            self.forward(out, frame, meta);
        }
    }

    /// Copies that were to be made and are lost before.
    pub(super) fn copies_not_made(
        &mut self,
        port: PortId,
        reason: DropReason,
        headers: &Received,
        copies: usize,
    ) {
        if copies > 0 {
            self.ports[port.index()].stats.copies += copies as u64;
            let header = headers.meta.header;
            count_lost(&mut self.ports, &self.admission, port, reason, &header, copies as u64);
        }
    }
}

#[cfg(test)]
#[path = "vlan_tests.rs"]
mod tests;
