//! A switch that is asked what becomes of a frame: it takes over a state that was seen elsewhere, and takes the frame as it takes any.
//! See [`crate::explain`].

use super::flow_cache::{Destination, Several};
use super::local::LocalProtocol;
use super::receive::{Action, ParsedFrame, RxContext};
use super::{Switch, SwitchParams};
use crate::drops::{DropReason, Side};
use crate::ecn::{self, ONE_Q32};
use crate::explain::{Asked, AskedCopy, AskedGroup, AskedMmu, ControlPool, Explanation, Occupancy};
use crate::fdb::Lookup;
use crate::frame::{Frame, OwnedFrame};
use crate::lag::LagMember;
use crate::mmu::{Admission, AdmitVerdict, Held, MmuError, PgIx, PgView, QueueIx, QueueView};
use crate::parse::{Kind, NoField};
use crate::pfc::bits;
use crate::pfc::generate::Source;
use crate::portset::PortSet;
use crate::types::{Burst, PRIORITIES, PortId};
use crate::vlan::Retag;

/// Instant of the question: what depends on time was seen then.
const NOW: u64 = 0;

impl Switch<OwnedFrame, AskedMmu> {
    /// Goes over to what was seen elsewhere, with so many bytes in the control pool.
    ///
    /// # Errors
    /// The division of the buffer does not add up.
    pub(crate) fn assume(&mut self, seen: &Occupancy, control: u64) -> Result<(), MmuError> {
        for port in self.ports.ids() {
            let member = match port {
                _ if seen.not_collecting.contains(port) => LagMember::Detached,
                _ if seen.not_distributing.contains(port) => LagMember::Collecting,
                _ => LagMember::Distributing,
            };
            self.set_lag_member(port, member, NOW);
            self.set_link(port, !seen.down.contains(port), NOW);
        }
        let groups = self.ports.len() * PRIORITIES;
        let mut held = seen.groups.clone();
        held.resize(groups, Held::default());
        held.push(Held { used: control, ..Held::default() });
        self.admission.mmu.restore(&held, &seen.queues)?;
        for port in self.ports.ids() {
            let (at, first) = (port.index(), port.index() * PRIORITIES);
            let own = &mut self.ports[at];
            own.storm_drop |= seen.storm_drop.get(at).copied().unwrap_or(0);
            if let (Some(policers), Some(exceeded)) = (&mut own.policers, seen.flood_exceeded.get(at)) {
                policers.assume(*exceeded);
            }
            for ix in 0..PRIORITIES {
                if let Some(Some(reason)) = seen.flushing.get(first + ix) {
                    own.flushing |= 1 << ix;
                    own.flush_as[ix] = *reason;
                }
                if held[first + ix].xoff {
                    for priority in bits(own.params.pg_priorities[ix]) {
                        own.generator.xoff(priority, Source::Buffer, None);
                    }
                }
                let depth = seen.depths.get(first + ix).or(seen.queues.get(first + ix));
                self.queues.assume_bytes(port, ix, depth.copied().unwrap_or(0));
            }
            self.note_slow_path_queues(port);
        }
        Ok(())
    }

    /// What becomes of a frame, which is the first one.
    ///
    /// # Errors
    /// Frames of its port cannot say what is asked.
    pub(crate) fn ask(&mut self, params: &SwitchParams, asked: &Asked) -> Result<Explanation, NoField> {
        let port = asked.port;
        let (frame, headers) = self.frame_asked(params, asked)?;
        let rx = self.rx_context(port, NOW);
        let queue = usize::from(headers.meta.header.queue) % PRIORITIES;
        let is_lost = self.ports[port.index()].refuses.is_some();
        let down = if headers.forwards() { self.settle_station(&rx, asked, &frame, &headers) } else { None };
        let headers = self.headers_asked(&rx, &frame);
        let destination = (!is_lost).then(|| self.decide(&rx, &frame, &headers).destination());
        let flood = destination.and_then(|to| match to {
            Destination::Several(Several::Flood(kind)) => Some(kind),
            _ => None,
        });
        let exceeded = self.ports[port.index()].policers.as_ref().map_or(0, |all| all.exceeded(NOW));
        let limits = self.ports[port.index()].params.storm_control;
        let flood_limit = flood.and_then(|kind| {
            let limit = limits.and_then(|limits| limits.limit(kind))?;
            Some((limit, exceeded >> kind as u64 & 1 == 1))
        });
        let groups: Vec<PgView> =
            (0..=self.ports.len() * PRIORITIES).map(|pg| self.admission.pg_view(PgIx(pg as u32))).collect();
        let pools = self.admission.mmu.pools();
        let queues: Vec<AskedCopy> =
            self.ports.ids().map(|out| self.queue_asked(out, queue, &frame, &headers)).collect();
        // Frames of which only some are dropped early: what is told is what becomes of the others.
        for copy in queues.iter().filter(|copy| (1..ONE_Q32).contains(&copy.early_drop)) {
            let own = &mut self.ports[copy.out.index()];
            own.drops_early &= !(1 << queue);
            own.params.early_drop[queue] = None;
            self.note_slow_path_queues(copy.out);
        }
        // Whoever reads what ends here is not on this switch.
        let _readers = [LocalProtocol::Lldp, LocalProtocol::Lacp].map(|it| self.read_local(port, it));
        self.receive(port, &mut Burst::from_iter([frame.clone()]), NOW);

        let mut lost = Vec::new();
        for &reason in DropReason::ALL {
            let frames = self.ports.own().map(|port| port.stats.drops.0[reason as usize]).sum();
            lost.extend((frames > 0).then_some((reason, frames)));
        }
        let copies: Vec<AskedCopy> =
            queues.into_iter().filter_map(|copy| self.arrived(copy, queue)).collect();
        let named = asked.to.unwrap_or_default();
        let of_named = copies.iter().filter(|copy| named.contains(copy.out));
        let shown = fullest(of_named).or_else(|| fullest(copies.iter())).copied();
        let group = (!copies.is_empty() || !self.admission.groups.is_empty())
            .then(|| self.group_asked(port, &headers, &groups));
        let retag = shown.map_or(Some(Retag::Keep), |copy| self.retag(copy.out, &headers));
        let parsed = self.ports[port.index()].params.profile.parse(frame.bytes(), frame.len()).ok();
        let parsed = parsed.filter(|parsed| parsed.kind != Kind::Reserved || headers.forwards());
        Ok(Explanation {
            class: parsed.map(|parsed| self.ports[port.index()].params.classifier.class(&parsed)),
            ecn: ecn::codepoint(frame.bytes(), headers.meta.header.ecn.place()),
            vlan: headers.vlan.zip(retag).map(|(vlan, retag)| (vlan.vid, retag)),
            down,
            flood,
            flood_limit,
            consumed: headers.action == Action::Consume && lost.is_empty(),
            lost,
            group,
            shown,
            copies,
            pools,
        })
    }

    fn headers_asked(&self, rx: &RxContext, frame: &OwnedFrame) -> ParsedFrame {
        rx.read(frame, None, &self.ports[rx.port.index()].params, &self.fdb)
    }

    /// The frame. An address that was not asked for is one that the configuration does not know.
    fn frame_asked(
        &self,
        params: &SwitchParams,
        asked: &Asked,
    ) -> Result<(OwnedFrame, ParsedFrame), NoField> {
        let rx = self.rx_context(asked.port, NOW);
        let mut n = 0;
        loop {
            let frame = asked.frame(params, n)?;
            let headers = self.headers_asked(&rx, &frame);
            let is_new =
                self.fdb.lookup(headers.dst_key) == Lookup::Miss && headers.dst_key != headers.src_key;
            if is_new || asked.dst.is_some() || n > self.fdb.len() as u64 {
                return Ok((frame, headers));
            }
            n += 1;
        }
    }

    /// Has the forwarding table know the destination where it was asked for. Returns the ports it is behind if frames can leave by none
    /// of them, and why one for a static station there is lost.
    fn settle_station(
        &mut self,
        rx: &RxContext,
        asked: &Asked,
        frame: &OwnedFrame,
        headers: &ParsedFrame,
    ) -> Option<(PortSet, DropReason)> {
        let queue = usize::from(headers.meta.header.queue) % PRIORITIES;
        let is_free = self.fdb.lookup(headers.dst_key) == Lookup::Miss;
        let single = asked.flood.is_none() && headers.action == Action::Forward && is_free;
        let mut named = asked.to.filter(|named| !named.is_empty());
        if single && named.is_none() && asked.dst.is_none() {
            let other = self.any_other(rx, headers, queue);
            named = other.map(|out| PortSet::from_iter([out]));
        }
        self.choose_members(named.unwrap_or_default(), queue);
        if let Some(ports) = asked.group {
            // Where the table is full the group is one that nobody has joined, as on a switch that runs.
            let _ = self.fdb.set_members(headers.dst_key, Some(ports));
        }
        let named = named.filter(|_| single)?;
        let station = self.lags.fdb_port(named.iter().next()?);
        self.fdb.add_static(headers.dst_key, station).ok()?;
        let decision = self.decide(rx, frame, &self.headers_asked(rx, frame));
        match decision.destination() {
            Destination::Nowhere(
                reason @ (DropReason::LookupPortDown
                | DropReason::LookupAdminDown
                | DropReason::LookupLagInactive),
            ) => {
                // What was learned there is forgotten.
                self.fdb.remove(headers.dst_key);
                Some((self.lags.whole(named), reason))
            }
            _ => None,
        }
    }

    /// The port whose queue is the fullest of those that the frame may leave by.
    fn any_other(&self, rx: &RxContext, headers: &ParsedFrame, queue: usize) -> Option<PortId> {
        let lag = self.lags.whole(PortSet::from_iter([rx.port]));
        let may = |out: &PortId| {
            self.ports.is_up(*out) && !lag.contains(*out) && self.retag(*out, headers).is_some()
        };
        let outs = self.ports[rx.port.index()].flood.iter().filter(may);
        outs.max_by_key(|out| self.fullness(*out, queue))
    }

    fn fullness(&self, out: PortId, queue: usize) -> (u64, std::cmp::Reverse<u16>) {
        (self.admission.queue_view(QueueIx::of(out, queue)).used, std::cmp::Reverse(out.0))
    }

    /// A hash of the flow says by which member of a LAG a frame leaves: here it is a named one, or else the one whose queue is the fullest.
    fn choose_members(&mut self, named: PortSet, queue: usize) {
        let up: PortSet = self.ports.ids().filter(|port| self.ports.is_up(*port)).collect();
        let chosen = |port: PortId| {
            let lag = self.lags.whole(PortSet::from_iter([port])).intersection(&up);
            let of_named = lag.intersection(&named);
            let among = if of_named.is_empty() { lag } else { of_named };
            among.iter().max_by_key(|port| self.fullness(*port, queue)) == Some(port)
        };
        let chosen: PortSet = up.iter().filter(|port| chosen(*port)).collect();
        self.lags.set_up(|port| chosen.contains(port));
    }

    /// A queue before the frame, and what its laws say of it.
    fn queue_asked(&self, out: PortId, queue: usize, frame: &OwnedFrame, headers: &ParsedFrame) -> AskedCopy {
        let ecn = headers.meta.header.ecn;
        let is_markable = ecn::mark(frame.clone().bytes_mut(), ecn.place());
        let depth = self.queues.bytes(out, queue);
        // On arrival a frame finds the queue, at departure it leaves it behind: the same depth if it stays.
        let share = |law: crate::ecn::Wred| if is_markable { law.share(depth) } else { 0 };
        AskedCopy {
            out,
            queue: self.admission.queue_view(QueueIx::of(out, queue)),
            lost: None,
            depth,
            mark: self.ports[out.index()].params.mark[queue].map(|law| (law, share(law))),
            early_drop: match self.ports[out.index()].shut(queue) {
                Some(_) => 0,
                None => self.early_drop_share(out, queue, frame, ecn),
            },
        }
    }

    /// What has become of the copy for a queue; `None`: there was none.
    fn arrived(&self, copy: AskedCopy, queue: usize) -> Option<AskedCopy> {
        let stats = &self.ports[copy.out.index()].stats;
        if self.queues.frames(copy.out, queue) > 0 {
            return Some(copy);
        }
        let at_departure =
            |reason: &DropReason| reason.side() == Side::Departure && stats.drops.0[*reason as usize] > 0;
        let lost = DropReason::ALL.iter().copied().find(at_departure);
        let lost = lost.filter(|_| stats.queue_drops[queue] > 0);
        let AskedMmu { groups, queues, .. } = &self.admission;
        let at_arrival = || match groups.last() {
            Some((_, _, AdmitVerdict::Refused(reason))) => Some(*reason),
            _ => None,
        };
        let is_asked = queues.contains(&QueueIx::of(copy.out, queue));
        let lost = lost.or_else(|| at_arrival().filter(|_| is_asked))?;
        Some(AskedCopy { lost: Some(lost), ..copy })
    }

    /// The group that was to be charged.
    fn group_asked(&self, port: PortId, headers: &ParsedFrame, before: &[PgView]) -> AskedGroup {
        let (asked, pool) = (&self.admission.groups, self.admission.control_pg());
        // What does not fit the control pool is charged to the group of its class, which says more.
        let own = asked.iter().rev().map(|(pg, ..)| *pg).find(|pg| Some(*pg) != pool);
        let ix = own.or(asked.last().map(|(pg, ..)| *pg)).unwrap_or(PgIx(u32::from(headers.meta.header.pg)));
        let charge = asked.iter().filter(|(pg, ..)| *pg == ix).map(|(_, bytes, _)| bytes).sum();
        let in_pool = asked.iter().filter(|(pg, ..)| Some(*pg) == pool);
        let admitted = |verdict: &AdmitVerdict| !matches!(verdict, AdmitVerdict::Refused(_));
        let pooled =
            in_pool.clone().filter(|(_, _, verdict)| admitted(verdict)).map(|(_, bytes, _)| bytes).sum();
        let after = self.admission.pg_view(ix);
        let input = &self.ports[port.index()];
        let pauses = match ix.0 as usize / PRIORITIES == port.index() && after.xoff {
            true => input.params.pg_priorities[ix.0 as usize % PRIORITIES] & input.generator.wanted(),
            false => 0,
        };
        AskedGroup {
            ix,
            control: match pool {
                Some(pool) if pool == ix => Some(ControlPool::Room),
                _ if in_pool.count() > 0 => Some(ControlPool::Full(pooled)),
                _ => None,
            },
            charge,
            before: before.get(ix.0 as usize).copied().unwrap_or_default(),
            after,
            xoff: asked.iter().any(|(pg, _, verdict)| *pg == ix && *verdict == AdmitVerdict::AdmittedXoff),
            pauses,
        }
    }
}

/// Of copies the one whose queue is the fullest, of several the first.
fn fullest<'a>(copies: impl Iterator<Item = &'a AskedCopy>) -> Option<&'a AskedCopy> {
    copies
        .max_by_key(|AskedCopy { queue: QueueView { used, .. }, out, .. }| (*used, std::cmp::Reverse(out.0)))
}
