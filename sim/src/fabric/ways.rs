//! The ways flows take, and what they need there alone: what completion times are compared with.

use super::hosts;
use super::links::Direction;
use super::multicast;
use super::routes::Routes;
use super::spec::{FabricSpec, Forwarding, Protocol, RoutingMode};
use super::sprayed::Sprayed;
use super::time::{PS, Ps};
use super::topology::Plan;
use super::workload::{Carriage, Planned};
use std::collections::BTreeSet;
use weir_dataplane::types::{MIN_FRAME_BYTES, Nanos};
use weir_endpoint::flow::Pace;

/// FCS and preamble: what is on the wire of a frame before its last bit.
pub(super) const FCS_AND_PREAMBLE: u64 = 12;
/// Bytes after which a cut-through switch has seen all headers: a shortest frame.
pub(super) const HEAD_BYTES: u64 = MIN_FRAME_BYTES + FCS_AND_PREAMBLE;
/// The gap behind a frame on the wire.
const GAP: u64 = 12;

/// A fabric as flows see it.
pub(super) struct Ways<'a> {
    pub spec: &'a FabricSpec,
    pub plan: &'a Plan,
    pub dirs: &'a [Direction],
    /// Outgoing direction of every port of every node.
    pub out: &'a [Vec<usize>],
    pub routes: &'a Routes,
}

/// What a flow is to its path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Load {
    /// All its frames, bytes on the wire.
    pub wire: u64,
    /// The rate at which they are sent at most, bit/s: that of its workload, or of no line.
    pub pace: u64,
    /// The rate of the slowest link it must pass, bit/s.
    pub slowest: u64,
}

/// A flow as a stream that shares its path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stream {
    pub load: Load,
    /// Those of its last frame where there are others and the flow has a pace: it is there as soon as its links let it, though the next flow
    /// of its queue pair keeps the pace behind it. Else 0.
    pub last: u64,
    /// From the end of what is sent before that to the effect of its last frame.
    pub rest: Ps,
    /// What all of it takes on the last link.
    pub on_last_link: Ps,
}

/// The frames of a flow as its sender lets them go.
#[derive(Clone, Copy)]
pub(super) struct Frames {
    /// Bytes on the wire of all but the last, and of the last one.
    pub full: u64,
    pub last: u64,
    /// How many there are besides the last.
    pub before: u64,
    /// bit/s.
    pub rate: u64,
}

impl Frames {
    /// When the `nth` begins, ps.
    pub fn begins(&self, nth: u64) -> u128 {
        takes(u128::from(nth) * u128::from(self.full), self.rate)
    }
}

/// Picoseconds that so many bytes take.
pub(super) fn takes(bytes: u128, rate: u64) -> u128 {
    bytes * 8 * 1_000_000_000_000 / u128::from(rate)
}

fn ps(time: u128) -> Ps {
    Ps::try_from(time).unwrap_or(Ps::MAX)
}

/// A link of a path.
#[derive(Clone, Copy)]
pub(super) struct Leg<'a> {
    pub dir: &'a Direction,
    /// What it leads to has all of a frame before it sends it on.
    stores: bool,
    /// From the begin of a frame to its effect at the other end, besides its bits.
    way: Ps,
}

impl Leg<'_> {
    /// From the begin of a frame of so many bytes on the wire to its effect at the other end.
    pub fn brings(&self, bytes: u64) -> Ps {
        self.way + self.dir.rate.takes(bytes - GAP)
    }

    /// From the begin of such a frame to its begin on the link `to` behind, if that is free.
    pub fn hands_on(&self, to: &Self, bytes: u64) -> Ps {
        match self.cuts(to) {
            true => self.way + self.dir.rate.takes(HEAD_BYTES.min(bytes - GAP)),
            false => self.brings(bytes),
        }
    }

    /// Frames are cut through to `to`. A line that is faster would run dry in the middle of a frame.
    fn cuts(&self, to: &Self) -> bool {
        !self.stores && to.dir.rate.bps() <= self.dir.rate.bps()
    }
}

/// A flow that has its path for itself, on one link of it: when its frames begin. All but the last are alike.
struct Train {
    frames: Frames,
    /// When the first ones begin; the others follow the last of these evenly, as `rate` lets them. They are one if all
    /// switches store frames. A cut-through switch delays one frame where lines become slower, one more each time.
    first: Vec<u128>,
    /// The slowest so far of paces and lines, bit/s.
    rate: u64,
    /// When the last one begins.
    last_begins: u128,
}

impl Train {
    /// Frames on the first of so many links.
    fn new(frames: Frames, legs: usize) -> Self {
        let first = (0..frames.before.min(legs as u64)).map(|nth| frames.begins(nth)).collect();
        Self { frames, first, rate: frames.rate, last_begins: frames.begins(frames.before) }
    }

    /// When the last of the full frames begins, if there is one.
    fn before_last(&self) -> Option<u128> {
        let further = self.frames.before - self.first.len() as u64;
        Some(self.first.last()? + takes(u128::from(further) * u128::from(self.frames.full), self.rate))
    }

    /// From the begins on one link to those on the next.
    fn pass(&mut self, from: &Leg<'_>, to: &Leg<'_>) {
        let Frames { full, last, .. } = self.frames;
        let onward = |begin: u128, bytes: u64, free: u128| {
            let head = begin + u128::from(from.hands_on(to, bytes));
            // What has to wait is there as a whole when it goes on.
            if free <= head { head } else { free.max(begin + u128::from(from.brings(bytes))) }
        };
        let busy = |begin: u128| begin + takes(full.into(), to.dir.rate.bps());
        let mut free = 0;
        for begin in &mut self.first {
            *begin = onward(*begin, full, free);
            free = busy(*begin);
        }
        self.rate = self.rate.min(to.dir.rate.bps());
        self.last_begins = onward(self.last_begins, last, self.before_last().map_or(0, busy));
    }
}

impl Ways<'_> {
    /// Directions from one host to another by ECMP, `path` being the hash of the 5-tuple; they end where there is no way on.
    pub fn path(&self, from: usize, to: usize, path: u64) -> impl Iterator<Item = usize> {
        std::iter::successors(Some(self.out[from][0]), move |dir| {
            let node = self.dirs[*dir].to.node;
            let switch = node.checked_sub(self.plan.hosts)?;
            self.routes.port(switch, to, path).map(|port| self.out[node][port])
        })
    }

    /// Bytes on the wire of a frame of a flow with so much payload.
    pub fn frame_bytes(&self, planned: &Planned, payload: u64) -> u64 {
        let payload = payload + u64::from(planned.flow.pace.header_bytes());
        hosts::frame_bytes(self.spec, planned.carriage, payload)
    }

    /// A flow alone on its path (DEV-33), from its start to the effect of its last frame; sprayed, what no choice of paths is
    /// faster than. It goes to each of `stops` in turn: that of a rank leads to its engine, up to the root, and back.
    pub fn alone(&self, planned: &Planned, stops: &[usize]) -> Nanos {
        let time = match (planned.carriage, self.spec.routing.mode) {
            (Carriage::Group { .. }, _) => self.takes_alone(planned, &self.legs_of_group(planned)),
            (_, RoutingMode::Ecmp) => {
                self.takes_alone(planned, &self.legs(planned.from, stops, planned.path))
            }
            (_, RoutingMode::Spray) => {
                let choices = self.choices(planned.from, stops);
                let frames = self.frames(planned, choices.first().and_then(|first| first.first()));
                Sprayed::new(&choices, frames).takes()
            }
        };
        ps(time).div_ceil(PS)
    }

    /// What a flow is to its path; sprayed, its ends are all that it must pass.
    pub fn load(&self, planned: &Planned) -> Load {
        let legs = self.legs(planned.from, &[planned.to], planned.path);
        let Frames { full, last, before, .. } = self.frames(planned, legs.first());
        let rate = |leg: &Leg<'_>| leg.dir.rate.bps();
        let slowest = match self.spec.routing.mode {
            RoutingMode::Ecmp => legs.iter().map(rate).min(),
            RoutingMode::Spray => legs.first().into_iter().chain(legs.last()).map(rate).min(),
        };
        Load {
            wire: before.saturating_mul(full).saturating_add(last),
            pace: self.pace(planned).unwrap_or(u64::MAX),
            slowest: slowest.unwrap_or(1),
        }
    }

    /// The same flow as a stream, whose last frame arrives when it does frame by frame.
    pub fn stream(&self, planned: &Planned) -> Stream {
        let legs = self.legs(planned.from, &[planned.to], planned.path);
        let load = self.load(planned);
        let (Load { wire, slowest, .. }, Frames { last, before, .. }) =
            (load, self.frames(planned, legs.first()));
        let pace = if before > 0 { load.pace } else { u64::MAX };
        let last = if pace < slowest { last } else { 0 };
        let sending = takes((wire - last).into(), pace.min(slowest));
        let rest = self.takes_alone(planned, &legs).saturating_sub(sending);
        let last_link = legs.last().map_or(1, |leg| leg.dir.rate.bps());
        Stream { load, last, rest: ps(rest), on_last_link: ps(takes(wire.into(), last_link)) }
    }

    /// From the making of a frame of so many bytes on the wire to its effect, alone.
    pub fn frame(&self, from: usize, to: usize, path: u64, wire: u64) -> Ps {
        let alone = Frames { full: wire, last: wire, before: 0, rate: 1 };
        ps(travel(Train::new(alone, 0), &self.legs(from, &[to], path)))
    }

    fn takes_alone(&self, planned: &Planned, legs: &[Leg<'_>]) -> u128 {
        let uneven = if legs.iter().all(|leg| leg.stores) { 1 } else { legs.len() };
        travel(Train::new(self.frames(planned, legs.first()), uneven), legs)
    }

    /// The frames of a flow whose sender has this link.
    fn frames(&self, planned: &Planned, first: Option<&Leg<'_>>) -> Frames {
        let flow = &planned.flow;
        let before = flow.packets() - 1;
        let rest = flow.bytes - before * u64::from(flow.payload);
        let bytes = |payload| self.frame_bytes(planned, payload);
        let line = first.map_or(1, |leg| leg.dir.rate.bps());
        let rate = self.pace(planned).map_or(line, |pace| pace.min(line));
        Frames { full: bytes(flow.payload.into()), last: bytes(rest), before, rate }
    }

    /// The rate at which a flow is sent frame by frame. RC Link counts bytes by window: less than one goes at once.
    fn pace(&self, planned: &Planned) -> Option<u64> {
        match planned.flow.pace {
            Pace::Fixed(pace) if self.spec.host.protocol == Protocol::Rocev2 => Some(pace),
            _ => None,
        }
    }

    /// Links to all `stops`, one after the other.
    fn legs(&self, mut from: usize, stops: &[usize], path: u64) -> Vec<Leg<'_>> {
        let mut legs = Vec::with_capacity(8);
        for stop in stops {
            legs.extend(self.path(from, *stop, path).map(|dir| self.leg(dir)));
            from = *stop;
        }
        legs
    }

    /// Links to a member of a group, whose frames are not cut through.
    fn legs_of_group(&self, planned: &Planned) -> Vec<Leg<'_>> {
        let Planned { from, to, path, .. } = *planned;
        let mut dirs: Vec<usize> = self.path(from, to, path).collect();
        if !multicast::trees_lead_from_senders(self.plan) {
            dirs = self.path(to, from, path).map(|dir| dir ^ 1).collect();
            dirs.reverse();
        }
        dirs.into_iter().map(|dir| Leg { stores: true, ..self.leg(dir) }).collect()
    }

    /// Links to all `stops` of frames that are sprayed: at each place of the way all links that one may take.
    fn choices(&self, mut from: usize, stops: &[usize]) -> Vec<Vec<Leg<'_>>> {
        let mut choices = Vec::with_capacity(8);
        for stop in stops {
            let mut dirs = BTreeSet::from([self.out[from][0]]);
            while !dirs.is_empty() {
                choices.push(dirs.iter().map(|dir| self.leg(*dir)).collect());
                let reached: BTreeSet<usize> = dirs.iter().map(|dir| self.dirs[*dir].to.node).collect();
                let switches = reached.into_iter().filter(|node| *node >= self.plan.hosts);
                let onward = |node: usize| {
                    let ports = self.routes.ports(node - self.plan.hosts, *stop);
                    ports.into_iter().map(move |port| self.out[node][port])
                };
                dirs = switches.flat_map(onward).collect();
            }
            from = *stop;
        }
        choices
    }

    fn leg(&self, dir: usize) -> Leg<'_> {
        let (dir, hosts) = (&self.dirs[dir], self.plan.hosts);
        let stores = dir.to.node < hosts || self.spec.switch.forwarding == Forwarding::StoreAndForward;
        Leg { dir, stores, way: dir.span(self.spec, hosts, false) }
    }
}

fn travel(mut train: Train, legs: &[Leg<'_>]) -> u128 {
    legs.windows(2).for_each(|pair| train.pass(&pair[0], &pair[1]));
    legs.last().map_or(0, |last| train.last_begins + u128::from(last.brings(train.frames.last)))
}
