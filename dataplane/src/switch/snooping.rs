//! IGMP and MLD snooping (RFC 4541): where frames of multicast groups go that hosts join.
//!
//! The switch holds tables and no state of the protocols: in a VLAN that is snooped, frames by which hosts join and routers ask are read
//! by whoever keeps that state ([`LocalProtocol::Membership`](super::LocalProtocol)), besides being forwarded, and says which group has
//! which ports ([`Switch::set_members`]), and where those go that nobody has joined ([`Switch::snoop`]). No decision is kept about such
//! frames, so each of them is looked at; all others never are.

use super::flow_cache::Several;
use super::local::LocalProtocol;
use super::receive::{Action, ParsedFrame, RxContext};
use super::{Observer, Switch};
use crate::fdb::{FdbFull, GroupId};
use crate::frame::Frame;
use crate::mmu::Admission;
use crate::multicast::{IpVersion, group_of, is_for_all};
use crate::parse::{KeyParts, MembershipFrame};
use crate::portset::PortSet;
use crate::storm_control::FloodKind;
use std::collections::BTreeMap;

/// By [`IpVersion`] the ports that get what is sent to groups that nobody has joined; `None`: all, within the limits of storm
/// control.
pub type Unjoined = [Option<PortSet>; 2];

/// VLANs that are snooped, and the ports of what nobody has joined there.
#[derive(Debug, Default)]
pub(super) struct Snooping(BTreeMap<u16, [Option<GroupId>; 2]>);

impl Snooping {
    fn unjoined(&self, vid: u16, version: IpVersion) -> Option<GroupId> {
        self.0.get(&vid).and_then(|groups| groups[version as usize])
    }
}

/// What becomes of a frame by which hosts join groups or routers ask for them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Snooped {
    /// It goes there.
    Goes(Several),
    /// It was read, and no router is there to hear it.
    Ends,
}

impl<F: Frame, A: Admission, O: Observer> Switch<F, A, O> {
    /// From now on a VLAN (0: frames without a tag, where ports know of no VLANs) is snooped, and frames for groups that nobody has
    /// joined go `to` these ports; `None`: it is not snooped.
    ///
    /// # Errors
    /// There are no more groups to be had: what nobody has joined is flooded.
    pub fn snoop(&mut self, vid: u16, to: Option<Unjoined>) -> Result<(), FdbFull> {
        let was = self.snooping.0.get(&vid).copied();
        let (mut groups, mut changed, mut full) =
            (was.unwrap_or_default(), was.is_some() != to.is_some(), false);
        for (group, ports) in groups.iter_mut().zip(to.unwrap_or_default()) {
            match (*group, ports) {
                (Some(id), Some(ports)) => self.fdb.set_group(id, ports),
                (None, None) => {}
                (Some(id), None) => {
                    self.fdb.free_group(id);
                    (*group, changed) = (None, true);
                }
                (None, Some(ports)) => {
                    *group = self.fdb.new_group(ports);
                    changed |= group.is_some();
                    full |= group.is_none();
                }
            }
        }
        match to {
            Some(_) => self.snooping.0.insert(vid, groups),
            None => self.snooping.0.remove(&vid),
        };
        if changed {
            self.invalidate_decisions();
        }
        if full { Err(FdbFull) } else { Ok(()) }
    }

    /// The ports of a group, by the key of its address; `None`: nobody has joined it. A configured group stays what it is.
    ///
    /// # Errors
    /// The forwarding table has no room for it: it stays a group that nobody has joined.
    pub fn set_members(&mut self, key: u64, ports: Option<PortSet>) -> Result<(), FdbFull> {
        self.fdb.set_members(key, ports)
    }

    /// Where frames for a group go that is not in the forwarding table.
    #[cold]
    pub(super) fn unjoined(&self, key: u64) -> Several {
        let of = |(vid, version, mac)| self.snooping.unjoined(vid, version).filter(|_| !is_for_all(mac));
        let group = group_of(key).filter(|_| !self.snooping.0.is_empty()).and_then(of);
        group.map_or(Several::Flood(FloodKind::of_group(key)), Several::Group)
    }

    /// Reads a frame by which hosts join groups or routers ask for them, if it is one and its VLAN is snooped: what hosts say is for
    /// routers alone, what these say is for all (RFC 4541 2.1.1).
    #[cold]
    #[inline(never)]
    pub(super) fn snooped(&mut self, rx: &RxContext, frame: &F, headers: &ParsedFrame) -> Option<Snooped> {
        let vid = KeyParts::of(headers.dst_key).vid;
        let groups = *self.snooping.0.get(&vid)?;
        let own = &mut self.ports[rx.port.index()];
        let kind = own.params.profile.membership_frame(frame.bytes())?;
        let queue = own.local[LocalProtocol::Membership as usize].as_mut();
        let read = queue.is_some_and(|queue| queue.put(frame.bytes(), headers.meta.header.rx_ns, vid));
        own.stats.rx_igmp += u64::from(read);
        own.stats.igmp_unread += u64::from(!read);
        let version = group_of(headers.dst_key).map(|(_, version, _)| version);
        let routers = version.and_then(|version| groups[version as usize]);
        Some(match (kind, routers) {
            (MembershipFrame::OfHost, Some(routers)) => {
                let heard = !self.fdb.group(routers).without(rx.fdb_port).is_empty();
                if heard || !read { Snooped::Goes(Several::Group(routers)) } else { Snooped::Ends }
            }
            _ => Snooped::Goes(Several::Flood(FloodKind::Multicast)),
        })
    }

    /// A frame that was read and goes no further.
    #[cold]
    #[inline(never)]
    pub(super) fn end_here(&mut self, rx: &RxContext, frame: F, headers: &ParsedFrame, followed: bool) {
        if followed {
            let mut headers = *headers;
            headers.action = Action::Consume;
            self.receive_watched(rx.port, frame, &headers, |_, frame, _| drop(frame));
        }
    }
}

#[cfg(test)]
#[path = "snooping_tests.rs"]
mod tests;
