//! What is to become of a frame: from what its headers say, from tables, maps and links, to a decision
//! ([`super::flow_cache`]). All of it is decided here, whether the decision is kept or not; a frame that is carried out by itself
//! differs from others of its kind in nothing else.

use super::flow_cache::{Destination, ForwardingDecision, Several};
use super::receive::{Action, ParsedFrame, Received, RxContext};
use super::{Observer, Switch};
use crate::drops::DropReason;
use crate::fdb::Lookup;
use crate::frame::Frame;
use crate::mmu::{Admission, PgIx};
use crate::parse::HashFields;
use crate::portset::PortSet;
use crate::storm_control::FloodKind;
use crate::switch::UnknownUnicast;
use crate::types::PortId;
use crate::vlan::Retag;

impl<F: Frame, A: Admission, O: Observer> Switch<F, A, O> {
    /// Where a frame goes and what it is charged to, as things are now. What is left open is whether it finds room.
    pub(super) fn decide(&self, rx: &RxContext, frame: &F, headers: &ParsedFrame) -> ForwardingDecision {
        let several = |ports| self.decide_for(rx.port, headers, Retag::Keep).for_several(ports);
        let nowhere = |reason| self.decide_for(rx.port, headers, Retag::Keep).refused(reason);
        let unknown = || match self.ports[rx.port.index()].params.unknown_unicast {
            UnknownUnicast::Flood => several(Several::Flood(FloodKind::UnknownUnicast)),
            UnknownUnicast::Drop => nowhere(DropReason::LookupUnknown),
        };
        let is_group = match headers.action {
            Action::Drop(reason) => return nowhere(reason),
            Action::PassOn => return several(Several::All),
            Action::ForwardGroup => true,
            Action::Forward | Action::Consume => false,
        };
        let out = match self.fdb.lookup_at(headers.dst_home, headers.dst_key) {
            Lookup::Group(group) => return several(Several::Group(group)),
            _ if is_group => return several(self.unjoined(headers.dst_key)),
            Lookup::Miss => return unknown(),
            Lookup::Port(out) if out == rx.fdb_port => return nowhere(DropReason::LookupSamePort),
            Lookup::Port(out) => out,
        };
        let member = self.leaves_by(out, rx.port, frame);
        if !self.ports.is_up(member) {
            // What was learned on a port that went down is on its way out of the table.
            let is_static = self.fdb.is_static(headers.dst_key);
            let lost = || {
                let members = self.lags.whole(PortSet::from_iter([out]));
                members.iter().map(|port| self.ports.status(port)).min().unwrap_or(self.ports.status(member))
            };
            return if is_static { nowhere(lost().lost_at_lookup()) } else { unknown() };
        }
        let Some(retag) = self.retag(member, headers) else {
            return nowhere(DropReason::VlanEgressFiltered);
        };
        let decision = self.decide_for(member, headers, retag);
        match self.lags.of(out) {
            Some(lag) if lag.fields != HashFields::L2 => decision.by(out).of_lag(),
            _ => decision,
        }
    }

    /// That it leaves by `out`.
    #[inline(always)]
    pub(super) fn decide_for(&self, out: PortId, headers: &ParsedFrame, retag: Retag) -> ForwardingDecision {
        let meta = &headers.meta;
        let control = self.admission.control_pg() == Some(PgIx(u32::from(meta.header.pg)));
        let (charged, ecn) = ((meta.header.pg, control), retag.moved(meta.header.ecn));
        ForwardingDecision::new(out, meta.header.queue, charged, headers.tc, ecn, retag)
    }

    /// Does with one frame, by itself and now, what was decided. It is counted as received, and none of its burst waits.
    pub(super) fn carry_out(
        &mut self,
        port: PortId,
        decision: ForwardingDecision,
        frame: F,
        headers: &Received,
    ) {
        match decision.destination() {
            Destination::Port(out) => {
                let out = self.leaves_by(out, port, &frame);
                self.forward_retagged(out, frame, headers, decision.retag());
            }
            Destination::Several(several) => match self.ports_of(port, several, &frame, headers) {
                Ok(ports) => {
                    self.set_destinations(port, ports, headers.vlan, frame.len());
                    self.multicast(port, frame, headers);
                }
                Err(reason) => self.drop_frame(port, reason, frame, &headers.meta.header),
            },
            Destination::Nowhere(reason) => self.drop_frame(port, reason, frame, &headers.meta.header),
        }
    }

    /// Puts a frame of a decision that says no port where its copies are made, or to the group of the one port there is.
    pub(super) fn put_to_several(
        &mut self,
        rx: &mut RxContext,
        decision: ForwardingDecision,
        several: Several,
        frame: F,
    ) {
        let meta = rx.header(decision).meta(frame.len() as u16, 0);
        let vlan = match several {
            // 802.1Q 8.6.3: what is passed on between bridges is of no VLAN, whatever its tag.
            Several::All => None,
            Several::Group(_) | Several::Flood(_) => self.vlan_of(rx, &frame),
        };
        let headers = Received { meta, tc: decision.tc() as u8, vlan };
        let ports = match self.ports_of(rx.port, several, &frame, &headers) {
            Ok(ports) => ports,
            Err(reason) => return self.put(rx, decision.refused(reason), frame),
        };
        self.set_destinations(rx.port, ports, headers.vlan, frame.len());
        if let Some((out, retag)) = self.flood.only_one() {
            return self.put(rx, decision.by(out).with_retag(retag), frame);
        }
        self.count_received(rx.port, decision.tc(), 1, frame.len() as u64);
        self.admit_before_copies(rx, meta.header.queue);
        self.multicast(rx.port, frame, &headers);
    }

    /// The ports of a frame that goes to several: one of each LAG.
    ///
    /// # Errors
    /// It is above a limit of its port, or of a group that has no other.
    fn ports_of(
        &mut self,
        port: PortId,
        several: Several,
        frame: &F,
        headers: &Received,
    ) -> Result<PortSet, DropReason> {
        let input = &mut self.ports[port.index()];
        let ports = match several {
            Several::Group(group) => self.fdb.group(group),
            // In no VLAN: they leave as they came.
            Several::All => match (&self.vlans, &input.params.vlans) {
                (Some(vlans), Some(_)) => input.flood.intersection(&vlans.sharing(port)),
                _ => input.flood,
            },
            Several::Flood(kind) => {
                if let Some(policers) = &mut input.policers
                    && !policers.admits(kind, frame.len() as u64, headers.meta.header.rx_ns)
                {
                    return Err(kind.reason());
                }
                input.stats.flooded += u64::from(kind == FloodKind::UnknownUnicast);
                input.flood
            }
        };
        let ports = if self.lags.is_empty() { ports } else { self.one_of_each_lag(port, ports, frame) };
        match several {
            Several::Group(_) if ports.without(port).is_empty() => Err(DropReason::LookupNoReceiver),
            _ => Ok(ports),
        }
    }
}
