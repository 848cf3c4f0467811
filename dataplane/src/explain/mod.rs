//! What would happen to a frame that arrived now. Nothing is computed here: the classifier, the MMU and the marking
//! law of the pipeline are put into the state that was seen, and asked.

use crate::classify::Class;
use crate::drops::DropReason;
use crate::ecn::{MarkAt, ONE_Q32, Wred};
use crate::lag::LagParams;
use crate::mmu::{Admission, AdmitVerdict, Held, Mmu, MmuError, PgIx, PgView, PoolView, QueueIx, QueueView};
use crate::parse::{EcnField, EcnPlace, Kind, Parsed};
use crate::portset::PortSet;
use crate::stats::PortGauges;
use crate::storm_control::{FloodKind, FloodLimit};
use crate::switch::{PortStatus, SwitchParams, UnknownUnicast};
use crate::types::{PRIORITIES, PortId};
use crate::vlan::{Retag, Vlans};

/// The frame that is asked about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asked {
    /// Port it arrives on.
    pub port: PortId,
    /// Ports it may leave by, of which the one whose queue of its class is the fullest is asked; `None`: any but that it
    /// arrives on and those of the same LAG.
    pub to: Option<PortSet>,
    /// Bytes, without FCS.
    pub len: u32,
    /// DSCP, if it is IP.
    pub dscp: Option<u8>,
    /// PCP, if it is tagged.
    pub pcp: Option<u8>,
    /// VID, if it is tagged with one.
    pub vid: Option<u16>,
    /// AFH traffic-class octet, if it has one.
    pub tc: Option<u8>,
    /// ECN code point: 0 not-ECT, 1 ECT(1), 2 ECT(0), 3 CE.
    pub ecn: u8,
    /// What it is to the switch: CNP and ACK frames have a class of their own; a reserved one is LLDP for the nearest bridge.
    pub kind: Kind,
    /// Why it goes to many ports; `None`: it goes to `to` alone.
    pub flood: Option<FloodKind>,
    /// It is for a multicast group: a copy goes to each port of `to`, of which there may be none.
    pub group: bool,
}

/// What the buffer held when it was looked at: `port * 8 + group` and `port * 8 + queue`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Occupancy {
    /// Priority groups.
    pub groups: Vec<Held>,
    /// Egress queues, bytes.
    pub queues: Vec<u64>,
    /// By port: kinds of flooded frames ([`FloodKind`]) that are above their limit, a bit each.
    pub flood_exceeded: Vec<u64>,
    /// Ports without a link.
    pub down: PortSet,
    /// Members of LAGs that LACP does not let send, and those of them that take nothing.
    pub not_distributing: PortSet,
    /// See [`Occupancy::not_distributing`].
    pub not_collecting: PortSet,
}

impl Occupancy {
    /// From the published state of all ports.
    pub fn of<'a>(params: &SwitchParams, gauges: impl Iterator<Item = &'a PortGauges>) -> Self {
        let mut seen = Self::default();
        for (port, gauges) in params.ports.iter().zip(gauges) {
            seen.groups.extend((0..PRIORITIES).map(|pg| Held {
                used: gauges.pg_used[pg],
                headroom: gauges.pg_headroom[pg],
                xoff: gauges.xoff_priorities as u8 & port.pg_priorities[pg] & port.generate.enabled != 0,
            }));
            seen.queues.extend(gauges.queue_bytes);
            seen.flood_exceeded.push(gauges.flood_exceeded);
        }
        seen
    }
}

/// What would happen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explanation {
    /// How it is classified.
    pub class: Class,
    /// Its VLAN and what is done to its tag, if ports know of VLANs and it is in one.
    pub vlan: Option<(u16, Retag)>,
    /// The ports it was to leave by, if frames can leave by none of them now, and why one to a static station there is lost. Learned
    /// stations there are forgotten: it is flooded.
    pub down: Option<(PortSet, DropReason)>,
    /// Why it goes to many ports; `None`: it goes to one alone.
    pub flood: Option<FloodKind>,
    /// The limit of its kind at its port, if it is flooded and there is one, and that it is exceeded.
    pub flood_limit: Option<(FloodLimit, bool)>,
    /// Bytes it is charged.
    pub charge: u32,
    /// Port it leaves by; `None`: there is none that it could be flooded to.
    pub to: Option<PortId>,
    /// Its group, its queue at that port and the pools before it.
    pub pg: PgView,
    /// See [`Explanation::pg`].
    pub queue: Option<QueueView>,
    /// See [`Explanation::pg`].
    pub pools: PoolView,
    /// What admission says.
    pub verdict: AdmitVerdict,
    /// It ends at the switch, which reads it: nothing is charged for it.
    pub consumed: bool,
    /// Bytes it takes of the reserve, of the shared pool and of headroom.
    pub takes: [u64; 3],
    /// The group and its pause after it.
    pub after: PgView,
    /// Priorities the peer is told to pause on its account, a bit each.
    pub pauses: u8,
    /// Marking of the queue, and the share of 2^32 frames that are marked at the depth of `queue.used`.
    pub mark: Option<(Wred, u64)>,
    /// Share of 2^32 frames of its kind that are dropped early at that depth.
    pub early_drop: u64,
}

/// Share of 2^32 random values for which the law signals at `depth`: asked of the law itself, which says yes to all
/// values below one of them.
pub fn share(wred: &Wred, depth: u64) -> u64 {
    let (mut low, mut high) = (0, ONE_Q32);
    while low < high {
        let middle = low + (high - low) / 2;
        if wred.decide(depth, middle as u32) { low = middle + 1 } else { high = middle }
    }
    low
}

/// Last four bits of the address 01:80:c2:00:00:0e.
const NEAREST_BRIDGE: u16 = 14;

/// Asks the pipeline of a switch with these parameters, in this state.
///
/// # Errors
/// [`MmuError`]: the parameters make no buffer.
pub fn explain(params: &SwitchParams, seen: &Occupancy, asked: &Asked) -> Result<Explanation, MmuError> {
    let port = &params.ports[asked.port.index()];
    let parsed = Parsed {
        pcp: asked.pcp,
        dscp: asked.dscp,
        tc: asked.tc,
        ecn: EcnField { place: EcnPlace::None, codepoint: asked.ecn },
        kind: asked.kind,
        ..Parsed::NOTHING
    };
    let class = port.classifier.class(&parsed);
    let mut mmu = Mmu::new(params.mmu.clone())?;
    mmu.restore(&seen.groups, &seen.queues)?;
    let queue_of = |port: usize| QueueIx::of(PortId(port as u16), usize::from(class.queue));
    let tag = asked.vid.or(asked.pcp.map(|_| 0));
    let reserved = asked.kind == Kind::Reserved;
    // What is passed on between bridges is of no VLAN.
    let vlan = port.vlans.as_ref().filter(|_| !reserved).map(|vlans| vlans.of_tag(tag));
    let vlans = Vlans::of(params.ports.iter().map(|port| port.vlans.as_ref()));
    let retag_at = |out: usize| match (vlan, &vlans) {
        (Some(Ok(vlan)), Some(vlans)) => vlans.retag(vlan, PortId(out as u16)),
        (None, Some(vlans)) if port.vlans.is_some() => {
            vlans.sharing(asked.port).contains(PortId(out as u16)).then_some(Retag::Keep)
        }
        _ => Some(Retag::Keep),
    };
    let lag = params.lags.iter().find(|lag| lag.members.contains(asked.port));
    let goes_back = |to: PortId| to == asked.port || lag.is_some_and(|lag| lag.members.contains(to));
    let status = |to: PortId| {
        let admin_down = params.ports[to.index()].admin_down;
        PortStatus::of(!seen.down.contains(to), admin_down, !seen.not_distributing.contains(to))
    };
    // Stations behind a member of a LAG are behind the others, too.
    let lag_of = |named: PortSet| {
        let all = |lag: &&LagParams| named.iter().all(|to| lag.members.contains(to));
        params.lags.iter().find(all).map_or(named, |lag| lag.members)
    };
    let is_up = |named: PortSet| named.iter().any(|to| status(to).is_up());
    let named = asked.to.filter(|named| asked.group || !named.is_empty());
    let no_receiver = named.is_some_and(|named| asked.group && named.iter().all(goes_back));
    // None goes back where it came from.
    let named = named
        .map(|named| if asked.group { named.iter().filter(|to| !goes_back(*to)).collect() } else { named });
    let named = named.map(|named| if is_up(named) { named } else { lag_of(named) });
    let away = named.filter(|named| !asked.group && !is_up(*named) && !named.iter().any(goes_back));
    let single = asked.flood.is_none() && !reserved;
    let down = away.filter(|_| single).and_then(|named| {
        let nearest = named.iter().map(status).min()?;
        Some((named, nearest.lost_at_lookup()))
    });
    let flood = asked.flood.or(down.map(|_| FloodKind::UnknownUnicast));
    let to = named.filter(|_| away.is_none());
    let among: PortSet = to.unwrap_or_else(|| {
        let all = (0..params.ports.len()).map(|i| PortId(i as u16));
        all.filter(|to| !goes_back(*to) && retag_at(to.index()).is_some()).collect()
    });
    let depth = |to: &PortId| (mmu.queue(queue_of(to.index())).used, std::cmp::Reverse(to.0));
    let live = among.iter().filter(|to| status(*to).is_up()).max_by_key(depth);
    // A port that is named is one, whatever its link.
    let to = live.or_else(|| to.filter(|_| !asked.group).and_then(|named| named.iter().max_by_key(depth)));
    let pg_ix = PgIx::of(asked.port, usize::from(class.pg));
    let (pg, pools) = (mmu.pg(pg_ix), mmu.pools());
    let queue = to.map(|to| mmu.queue(queue_of(to.index())));
    let retag = to.map_or(Some(Retag::Keep), |to| retag_at(to.index()));
    let leaves = asked.len.saturating_add_signed(retag.map_or(0, Retag::growth) as i32);
    let charge = mmu.charge(leaves);
    let fits = |to: PortId| params.ports[to.index()].accepted().short_enough(leaves as usize).is_ok();
    let arrives = port.accepted();
    let length =
        arrives.long_enough(asked.len as usize).and_then(|()| arrives.short_enough(asked.len as usize));
    let exceeded = seen.flood_exceeded.get(asked.port.index()).copied().unwrap_or(0);
    let flood_limit = flood.and_then(|kind| {
        let limit = port.storm_control.and_then(|limits| limits.limit(kind))?;
        Some((limit, exceeded >> kind as u64 & 1 == 1))
    });
    let not_flooded = flood.and_then(|kind| {
        if kind == FloodKind::UnknownUnicast && port.unknown_unicast == UnknownUnicast::Drop {
            return Some(DropReason::LookupUnknown);
        }
        flood_limit.filter(|(_, exceeded)| *exceeded).map(|_| kind.reason())
    });
    let consumed = reserved && port.lldp && !port.admin_down && length.is_ok();
    let not_passed_on =
        (reserved && port.link_local >> NEAREST_BRIDGE & 1 == 0).then_some(DropReason::ControlReserved);
    let refused = length.err().or(vlan.and_then(Result::err)).or(not_flooded).or(not_passed_on);
    let verdict = match (refused, to, retag) {
        _ if port.admin_down => AdmitVerdict::Refused(DropReason::IngressAdminDown),
        _ if consumed => AdmitVerdict::Admitted,
        _ if seen.not_collecting.contains(asked.port) => {
            AdmitVerdict::Refused(DropReason::IngressLagInactive)
        }
        (Some(reason), ..) => AdmitVerdict::Refused(reason),
        _ if no_receiver => AdmitVerdict::Refused(DropReason::LookupNoReceiver),
        (_, None, _) => AdmitVerdict::Refused(PortStatus::nowhere(among.iter().map(status))),
        (_, Some(to), _) if goes_back(to) => AdmitVerdict::Refused(DropReason::LookupSamePort),
        (_, Some(to), _) if !status(to).is_up() => AdmitVerdict::Refused(status(to).lost_at_lookup()),
        (_, _, None) => AdmitVerdict::Refused(DropReason::VlanEgressFiltered),
        (_, Some(to), Some(Retag::Push)) if !fits(to) => AdmitVerdict::Refused(DropReason::VlanTooLong),
        (_, Some(to), _) => mmu.admit(pg_ix, queue_of(to.index()), charge),
    };
    let after = mmu.pg(pg_ix);
    let reserve = |pg: &PgView| pg.used - pg.shared;
    let out = to.map(|to| &params.ports[to.index()]);
    let (lane, used) = (usize::from(class.queue), queue.map_or(0, |queue| queue.used));
    let mark = out.and_then(|out| out.mark[lane]).map(|wred| {
        // On arrival a frame finds the queue, at departure it leaves it behind: the same depth if it stays.
        debug_assert!(matches!(wred.at, MarkAt::Dequeue | MarkAt::Enqueue));
        (wred, share(&wred, used))
    });
    let early_drop = out.and_then(|out| out.early_drop[lane]).filter(|_| asked.ecn == 0);
    let early_drop = early_drop.map_or(0, |wred| share(&wred, used));
    Ok(Explanation {
        class,
        vlan: vlan.and_then(Result::ok).zip(retag).map(|(vlan, retag)| (vlan.vid, retag)),
        down,
        flood,
        flood_limit,
        charge,
        to,
        pg,
        queue,
        pools,
        verdict,
        consumed,
        takes: [reserve(&after) - reserve(&pg), after.shared - pg.shared, after.headroom - pg.headroom],
        pauses: if after.xoff {
            port.pg_priorities[usize::from(class.pg)] & port.generate.enabled
        } else {
            0
        },
        after,
        mark,
        early_drop,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_share_is_that_of_the_law(kmin in 0u64..1000, more in 0u64..1000, pmax in 0u64..=ONE_Q32, depth in 0u64..3000) {
            let wred = Wred { kmin, kmax: kmin + more, pmax, at: MarkAt::Dequeue };
            let share = share(&wred, depth);
            if share > 0 {
                prop_assert!(wred.decide(depth, (share - 1) as u32));
            }
            if share < ONE_Q32 {
                prop_assert!(!wred.decide(depth, share as u32));
            }
        }
    }
}
