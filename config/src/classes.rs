//! A class followed the whole way: from what says it, through group and queue, and back from a pause.
//!
//! A lossless class is lossless only if every step is: the group it enters has headroom and pauses whoever sends the class,
//! the queue it leaves by does not drop, and a pause of the peer stops that queue and no other. Maps can break each
//! step alone, and no map is wrong by itself.

use std::collections::{BTreeSet, HashSet};

use super::diag::Span;
use super::port::PortAt;
use super::read::Ctx;
use super::types::{Config, PfcMode, PfcRx, PortConfig, Trust};
use weir_dataplane::vlan::{PortVlans, TAG_BYTES};

/// Classes, groups, queues or priorities, a bit each.
type Set = u8;

fn has(set: Set, n: usize) -> bool {
    set >> n & 1 == 1
}

pub(super) fn members(set: Set) -> impl Iterator<Item = usize> {
    (0..8).filter(move |n| has(set, *n))
}

fn set(of: impl Iterator<Item = usize>) -> Set {
    of.fold(0, |set, n| set | 1 << n)
}

/// `1, 3`, for people.
fn list(set: Set) -> String {
    members(set).map(|n| n.to_string()).collect::<Vec<_>>().join(", ")
}

/// Classes that frames received on a port can have.
pub(super) fn classes(config: &Config, port: &PortConfig) -> Set {
    let all = |map: &[u8]| set(map.iter().map(|tc| usize::from(*tc)));
    let said = port.trust.iter().take_while(|t| **t != Trust::Port).fold(0, |sum, source| match source {
        Trust::Dscp | Trust::Tc => sum | all(&port.maps.dscp_to_tc),
        Trust::Pcp if config.formats[port.format].vlan => sum | all(&port.maps.pcp_to_tc),
        Trust::Pcp | Trust::Port => sum,
    });
    said | 1 << port.default_tc | config.control_tc.map_or(0, |tc| 1 << tc)
}

/// What one port makes of classes and pauses.
struct Way<'a> {
    port: &'a PortConfig,
    at: Span,
    /// Classes that come in here.
    comes: Set,
    /// Priorities PFC is sent for.
    sends: Set,
    /// Priorities whose PFC is obeyed.
    obeys: Set,
}

impl Way<'_> {
    fn group(&self, tc: usize) -> usize {
        usize::from(self.port.maps.tc_to_pg[tc])
    }

    fn queue(&self, tc: usize) -> usize {
        usize::from(self.port.maps.tc_to_queue[tc])
    }

    /// Priorities that are paused when this group fills.
    fn pauses(&self, pg: usize) -> Set {
        set(members(self.sends).filter(|p| usize::from(self.port.maps.pfc_to_pg[*p]) == pg))
    }

    /// The queue a pause of this priority stops.
    fn stops(&self, priority: usize) -> usize {
        usize::from(self.port.maps.pfc_to_queue[priority])
    }
}

/// Follows every class of every port.
pub(super) fn follow<'c>(ctx: &mut Ctx<'_>, config: &'c Config, at: &[PortAt]) {
    let way = |(port, at): (&'c PortConfig, &PortAt)| {
        let pfc = &port.pfc;
        let obeys = matches!(pfc.rx, PfcRx::Enabled | PfcRx::All);
        Way {
            port,
            at: at.enable,
            comes: classes(config, port),
            sends: if pfc.tx { pfc.enable } else { 0 },
            obeys: if obeys { pfc.enable } else { 0 },
        }
    };
    let ways: Vec<Way<'_>> = config.ports.iter().zip(at).map(way).collect();
    fits(ctx, &ways);
    let goes = ways.iter().fold(0, |all, way| all | way.comes);
    let mut once = HashSet::new();
    for way in &ways {
        arrives(ctx, &ways, way, &mut once);
        kept(ctx, way, &mut once);
        obeyed(ctx, way, &mut once);
        told(ctx, config, way, &mut once);
        held(ctx, way, goes, &mut once);
    }
    for (way, at) in ways.iter().zip(at) {
        flooded(ctx, way, at.storm_control, &mut once);
    }
}

type Once = HashSet<(&'static str, Span, usize)>;

/// A limit on what is flooded loses frames whatever their class.
fn flooded(ctx: &mut Ctx<'_>, way: &Way<'_>, at: Span, once: &mut Once) {
    let lossless = set(members(way.comes).filter(|tc| way.port.pgs[way.group(*tc)].lossless));
    if way.port.storm_control.is_none() || lossless == 0 || !once.insert(("class.flooded", at, 0)) {
        return;
    }
    let message = format!(
        "frames of lossless class {} that port `{}` would flood above its storm_control are dropped: no pause prevents that",
        list(lossless),
        way.port.name
    );
    let remedy =
        "keep what is flooded in lossy classes, and stations of lossless ones in the table ([[fdb.static]])";
    ctx.warn(at, "class.flooded", message, remedy);
}

/// A class whose queue is lossless enters a lossless group.
fn arrives(ctx: &mut Ctx<'_>, ways: &[Way<'_>], way: &Way<'_>, once: &mut Once) {
    for tc in members(way.comes) {
        let pg = way.group(tc);
        if way.port.pgs[pg].lossless {
            continue;
        }
        let lossless = |out: &&Way<'_>| out.port.queues[out.queue(tc)].lossless;
        let Some(out) = ways.iter().find(lossless) else { continue };
        if !once.insert(("class.lossy", way.at, tc)) {
            continue;
        }
        let message = format!(
            "class {tc} waits in lossless queue {} of port `{}`, but port `{}` takes it into group {pg}, which is lossy: \
             frames of it are dropped there, and nobody is paused",
            out.queue(tc),
            out.port.name,
            way.port.name
        );
        let groups = set((0..8).filter(|pg| way.port.pgs[*pg].lossless));
        let remedy = match groups {
            0 => format!(
                "bind group {pg} to a lossless profile with [[buffer.pg]], or queue {} to a lossy one",
                out.queue(tc)
            ),
            _ => format!(
                "map class {tc} to a lossless group ({}) in tc_to_pg, or its queue to a lossy profile",
                list(groups)
            ),
        };
        // Where PFC is sent, somebody relies on it.
        if way.sends == 0 {
            ctx.warn(way.at, "class.lossy", message, remedy);
        } else {
            ctx.error(way.at, "class.lossy", message, remedy);
        }
    }
}

/// A class of a lossless group has somebody who is paused for it.
fn kept(ctx: &mut Ctx<'_>, way: &Way<'_>, once: &mut Once) {
    let (port, pfc) = (way.port, &way.port.pfc);
    let why = match (pfc.mode, pfc.visible) {
        (PfcMode::Hardware, _) => {
            "pfc.mode = \"hardware\" leaves it to a NIC, which does not know this buffer"
        }
        (_, Some(false)) => "pfc.visible = false says that PFC frames do not pass",
        _ => return,
    };
    for tc in members(way.comes).filter(|tc| port.pgs[way.group(*tc)].lossless) {
        if once.insert(("pfc.nobody", way.at, tc)) {
            let message = format!(
                "class {tc} enters lossless group {} of port `{}`, and nobody is paused for it: {why}. What finds no room \
                 is dropped, and counted as a lossless drop",
                way.group(tc),
                port.name
            );
            let remedy = "send PFC for it, or bind the group to a lossy profile with [[buffer.pg]]";
            ctx.warn(way.at, "pfc.nobody", message, remedy);
        }
    }
}

/// Who pauses a lossless queue is obeyed.
fn obeyed(ctx: &mut Ctx<'_>, way: &Way<'_>, once: &mut Once) {
    let (port, pfc) = (way.port, &way.port.pfc);
    let queues = set((0..8).filter(|queue| port.queues[*queue].lossless));
    if pfc.rx == PfcRx::None && pfc.enable != 0 && queues != 0 && once.insert(("pfc.deaf", way.at, 0)) {
        let message = format!(
            "port `{}` does not obey pauses (pfc.rx = \"none\"): its peer loses frames of lossless queue {}",
            port.name,
            list(queues)
        );
        ctx.warn(way.at, "pfc.deaf", message, "write pfc.rx = \"enabled\"");
    }
}

/// Lossless frames fit every port they may leave by: those of their format.
fn fits(ctx: &mut Ctx<'_>, ways: &[Way<'_>]) {
    let carries = |way: &&Way<'_>| members(way.comes).any(|tc| way.port.pgs[way.group(tc)].lossless);
    for format in ways.iter().map(|way| way.port.format).collect::<BTreeSet<_>>() {
        let those = || ways.iter().filter(|way| way.port.format == format);
        let pairs = those().filter(carries).flat_map(|from| those().map(move |to| (from, to)));
        let too_long =
            pairs.filter(|(from, to)| from.port.mtu > to.port.mtu && is_too_long(from.port, to.port));
        if let Some((longest, shortest)) = too_long.max_by_key(|(from, to)| from.port.mtu - to.port.mtu) {
            let message = format!(
                "port `{}` takes frames of lossless classes of up to {} bytes, and port `{}` is for {}: its device, or \
                 whoever is behind it, may drop longer ones",
                longest.port.name, longest.port.mtu, shortest.port.name, shortest.port.mtu
            );
            ctx.warn(shortest.at, "mtu.differs", message, "give all ports the same mtu");
        }
    }
}

/// The longest frame of `from` is longer than what `to` is for when it leaves there as it came, or without its tag. (Those that get one
/// are looked at with the VLANs of a port.)
fn is_too_long(from: &PortConfig, to: &PortConfig) -> bool {
    let (Some(here), Some(there)) = (&from.vlans, &to.vlans) else { return true };
    let tagged = |of: &PortVlans, vid| of.native != Some(vid) && of.members.contains(vid);
    let popped = there.native.is_some_and(|vid| tagged(here, vid));
    if popped && from.mtu > to.mtu.saturating_add(TAG_BYTES as u16) {
        return true;
    }
    let untagged = here.native.is_some() && here.native == there.native;
    untagged || here.members.iter().any(|vid| tagged(here, vid) && tagged(there, vid))
}

/// Groups that send PFC hold something, and pause those who fill them.
fn told(ctx: &mut Ctx<'_>, config: &Config, way: &Way<'_>, once: &mut Once) {
    let filled = set(members(way.comes).map(|tc| way.group(tc)));
    for priority in members(way.sends) {
        let pg = usize::from(way.port.maps.pfc_to_pg[priority]);
        let idle = way.port.pgs[pg].lossless && !has(filled, pg);
        if !idle || !once.insert(("pfc.empty_group", way.at, priority)) {
            continue;
        }
        let message = format!(
            "port `{}` sends PFC for priority {priority} when group {pg} fills, and no class enters it: the pause is never sent",
            way.port.name
        );
        let remedy = format!("map a class to group {pg} in tc_to_pg, or correct pfc_to_pg or pfc.enable");
        ctx.warn(way.at, "pfc.empty_group", message, remedy);
    }
    let tagged = way.port.trust.contains(&Trust::Pcp) && config.formats[way.port.format].vlan;
    for pcp in (0..8).filter(|_| tagged) {
        let tc = usize::from(way.port.maps.pcp_to_tc[pcp]);
        let pg = way.group(tc);
        let pauses = way.pauses(pg);
        if !way.port.pgs[pg].lossless || pauses == 0 || has(pauses, pcp) {
            continue;
        }
        if once.insert(("pfc.foreign_sender", way.at, pcp)) {
            let message = format!(
                "frames with PCP {pcp} enter lossless group {pg} of port `{}`, which pauses priority {} only: whoever sends \
                 them goes on",
                way.port.name,
                list(pauses)
            );
            let remedy =
                format!("map PCP {pcp} to a class of a lossy group, or send PFC for priority {pcp}, too");
            ctx.warn(way.at, "pfc.foreign_sender", message, remedy);
        }
    }
}

/// A pause of the peer stops the queue of the classes it means, and no other.
fn held(ctx: &mut Ctx<'_>, way: &Way<'_>, goes: Set, once: &mut Once) {
    let queued = |q: usize| set(members(goes).filter(|tc| way.queue(*tc) == q));
    // The peer maps as this port does: its group of a priority holds the classes ours would hold.
    let meant = |priority: usize| {
        let pg = usize::from(way.port.maps.pfc_to_pg[priority]);
        set(members(goes).filter(|tc| way.group(*tc) == pg))
    };
    let stopped = set(members(way.obeys).map(|p| way.stops(p)));
    let shared = |queue| members(way.obeys).filter(move |p| way.stops(*p) == queue);
    for priority in members(way.obeys) {
        let (queue, meant_here) = (way.stops(priority), meant(priority));
        let others = queued(queue) & !shared(queue).fold(0, |all, p| all | meant(p));
        let missed = members(meant_here).find(|tc| !has(stopped, way.queue(*tc)));
        let stops =
            format!("a pause for priority {priority} stops queue {queue} of port `{}`", way.port.name);
        if let Some(tc) = missed {
            if once.insert(("pfc.missed_queue", way.at, priority)) {
                let empty = if queued(queue) == 0 { ", which is empty" } else { "" };
                let message = format!(
                    "{stops}{empty}, but class {tc} leaves by queue {}, which no pause stops: the peer loses frames of it",
                    way.queue(tc)
                );
                let remedy = format!("map priority {priority} to queue {} in pfc_to_queue", way.queue(tc));
                ctx.error(way.at, "pfc.missed_queue", message, remedy);
            }
        } else if others != 0 && once.insert(("pfc.foreign_queue", way.at, priority)) {
            let message =
                format!("{stops}, which class {} leaves by, too: it would stand still with it", list(others));
            let remedy = format!(
                "give class {} a queue of its own in tc_to_queue, or correct pfc_to_queue",
                list(others)
            );
            ctx.warn(way.at, "pfc.foreign_queue", message, remedy);
        }
    }
}
