//! The ways flows take, and what they need there alone: what completion times are compared with.

use super::hosts;
use super::links::Direction;
use super::routes::Routes;
use super::spec::{FabricSpec, Forwarding, Protocol, RoutingMode};
use super::time::{PS, Ps};
use super::topology::Plan;
use super::workload::Planned;
use std::collections::BTreeMap;
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

/// A flow as a stream that shares its path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stream {
    /// All its frames, bytes on the wire.
    pub wire: u64,
    /// Those of its last frame where it is not sent at the flow's pace but as fast as its links let it; else 0.
    pub last: u64,
    /// From the end of its sending to the effect of its last frame.
    pub rest: Ps,
}

/// Picoseconds that so many bytes take.
fn takes(bytes: u128, rate: u64) -> u128 {
    bytes * 8 * 1_000_000_000_000 / u128::from(rate)
}

fn ps(time: u128) -> Ps {
    Ps::try_from(time).unwrap_or(Ps::MAX)
}

/// A link of a path.
#[derive(Clone, Copy)]
struct Leg<'a> {
    dir: &'a Direction,
    /// bit/s of all links that the flow is divided among here: those of this one, unless frames are sprayed.
    together: u64,
    /// What it leads to has all of a frame before it sends it on.
    stores: bool,
    /// From the begin of a frame to its effect at the other end, besides its bits.
    way: Ps,
}

/// A flow that has its path for itself, on one link of it: when its frames begin. All but the last are alike.
struct Train {
    /// Bytes on the wire of all but the last, and of the last one.
    full: u64,
    last: u64,
    /// How many there are besides the last.
    before: u64,
    /// When the first ones begin; the others follow the last of these evenly, as `rate` lets them. They are one if all
    /// switches store frames. A cut-through switch delays one frame where lines become slower, one more each time.
    first: Vec<u128>,
    /// The slowest so far of paces and lines, bit/s.
    rate: u64,
    /// Those that go ahead of that rate, as sprayed frames do that find a link of their own free, and the rate before it.
    ahead: (u64, u64),
    /// When the last one begins.
    last_begins: u128,
    /// The same if none of the others were in its way beyond the first link. Sprayed, it may come before them.
    last_alone: u128,
}

impl Train {
    /// Frames at `rate`, that of the first link or the flow's own.
    fn new(before: u64, (full, last): (u64, u64), rate: u64, legs: usize) -> Self {
        let begins = |frame: u64| takes(u128::from(frame) * u128::from(full), rate);
        let first = (0..before.min(legs as u64)).map(begins).collect();
        let last_begins = begins(before);
        Self { full, last, before, first, rate, ahead: (0, rate), last_begins, last_alone: last_begins }
    }

    /// When the last of the full frames begins, if there is one.
    fn before_last(&self) -> Option<u128> {
        let further = self.before - self.first.len() as u64;
        let (ahead, rate) = self.ahead;
        let at = |frames: u64, rate: u64| takes(u128::from(frames) * u128::from(self.full), rate);
        Some(self.first.last()? + at(further.saturating_sub(ahead), self.rate).max(at(further, rate)))
    }

    /// From the begins on one link to those on the next.
    fn pass(&mut self, from: &Leg<'_>, to: &Leg<'_>) {
        // A line that is faster would run dry in the middle of a frame.
        let cuts = !from.stores && to.dir.rate.bps() <= from.dir.rate.bps();
        let onward = |begin: u128, bytes: u64, free: u128| {
            let came = |bytes: u64| begin + u128::from(from.way + from.dir.rate.takes(bytes));
            match came(HEAD_BYTES.min(bytes - GAP)) {
                head if cuts && free <= head => head,
                _ => free.max(came(bytes - GAP)),
            }
        };
        // Sprayed, a frame waits for the one before it that takes the same of so many links.
        let line = to.dir.rate.bps();
        let links = ((to.together + line / 2) / line).max(1);
        let busy = |begin: u128| begin + takes(self.full.into(), line);
        for nth in 0..self.first.len() {
            let free = nth.checked_sub(links as usize).map_or(0, |before| busy(self.first[before]));
            self.first[nth] = onward(self.first[nth], self.full, free);
        }
        if to.together < self.rate {
            self.ahead = (links - 1, self.rate);
            self.rate = to.together;
        }
        let free = match self.before.checked_sub(links) {
            None => 0,
            Some(before) => match self.first.get(before as usize) {
                Some(begin) => busy(*begin),
                None => self.before_last().map_or(0, |begin| begin + takes(self.full.into(), to.together)),
            },
        };
        self.last_begins = onward(self.last_begins, self.last, free);
        self.last_alone = onward(self.last_alone, self.last, 0);
    }

    /// When all of them have had their effect at the end of the last link.
    fn arrived(&self, at: &Leg<'_>, are_sprayed: bool) -> u128 {
        let effect = |begin: u128, bytes: u64| begin + u128::from(at.way + at.dir.rate.takes(bytes - GAP));
        let in_order = effect(self.last_begins, self.last);
        match (self.first.first(), self.before_last()) {
            // It comes first to the link that all of them share, and the others follow.
            (Some(first), Some(before_last)) if are_sprayed && self.last_alone < *first => {
                let others = u128::from(self.before - 1) * u128::from(self.full) + u128::from(self.last);
                let behind = self.last_alone + takes(others, at.together);
                in_order.min(effect(before_last.max(behind), self.full))
            }
            _ => in_order,
        }
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

    /// A flow alone on its path (DEV-33), from its start to the effect of its last frame. It goes to each of `stops` in turn: that
    /// of a rank leads to its engine, up to the root, and back.
    pub fn alone(&self, planned: &Planned, stops: &[usize]) -> Nanos {
        let legs = self.legs(planned.from, stops, planned.path);
        ps(self.takes_alone(planned, &legs)).div_ceil(PS)
    }

    /// The same flow as a stream, whose last frame arrives when it does frame by frame. What is sent at a pace of its own is all
    /// but the last frame, which has the line for itself.
    pub fn stream(&self, planned: &Planned) -> Stream {
        let (full, last, before) = self.frames(planned);
        let legs = self.legs(planned.from, &[planned.to], planned.path);
        let slowest = legs.iter().map(|leg| leg.dir.rate.bps()).min().unwrap_or(1);
        let pace = self.pace(planned).filter(|pace| *pace < slowest);
        let wire = before.saturating_mul(full).saturating_add(last);
        let sent_last = if pace.is_some() { last } else { 0 };
        let sending =
            takes((wire - sent_last).into(), pace.unwrap_or(slowest)) + takes(sent_last.into(), slowest);
        let rest = self.takes_alone(planned, &legs).saturating_sub(sending);
        Stream { wire, last: sent_last, rest: ps(rest) }
    }

    /// From the making of a frame of so many bytes on the wire to its effect, alone.
    pub fn frame(&self, from: usize, to: usize, path: u64, wire: u64) -> Ps {
        ps(travel(Train::new(0, (wire, wire), 1, 0), &self.legs(from, &[to], path)))
    }

    fn takes_alone(&self, planned: &Planned, legs: &[Leg<'_>]) -> u128 {
        let (full, last, before) = self.frames(planned);
        let line = legs.first().map_or(1, |leg| leg.dir.rate.bps());
        let rate = self.pace(planned).map_or(line, |pace| pace.min(line));
        let uneven = if legs.iter().all(|leg| leg.stores) { 1 } else { legs.len() };
        travel(Train::new(before, (full, last), rate, uneven), legs)
    }

    /// Bytes on the wire of all frames of a flow but the last, of the last, and how many there are besides it.
    fn frames(&self, planned: &Planned) -> (u64, u64, u64) {
        let flow = &planned.flow;
        let before = flow.packets() - 1;
        let rest = flow.bytes - before * u64::from(flow.payload);
        (self.frame_bytes(planned, flow.payload.into()), self.frame_bytes(planned, rest), before)
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
        let (host, switch) = (&self.spec.host, &self.spec.switch);
        let mut legs = Vec::with_capacity(8);
        for stop in stops {
            let shares = self.shares(from, *stop);
            for dir in self.path(from, *stop, path) {
                let at = &self.dirs[dir];
                let [from_switch, to_switch] = [at.from, at.to].map(|end| end.node >= self.plan.hosts);
                let begins = if from_switch { switch.egress.0 } else { host.tx_delay.0 };
                let ends = if to_switch { switch.ingress.0 + switch.crossbar.0 } else { host.rx_delay.0 };
                let share = shares.get(&dir).copied().unwrap_or(1.0);
                legs.push(Leg {
                    dir: at,
                    together: (at.rate.bps() as f64 / share) as u64,
                    stores: !to_switch || switch.forwarding == Forwarding::StoreAndForward,
                    way: at.delay + (begins + ends) * PS,
                });
            }
            from = *stop;
        }
        legs
    }

    /// The part of a flow that each link carries whose frames are sprayed; empty: all go one way.
    fn shares(&self, from: usize, to: usize) -> BTreeMap<usize, f64> {
        let mut shares = BTreeMap::new();
        let first = match self.spec.routing.mode {
            RoutingMode::Ecmp => return shares,
            RoutingMode::Spray => self.out[from][0],
        };
        // Nodes that are equally far from the sender.
        let mut reached = BTreeMap::from([(self.dirs[first].to.node, 1.0)]);
        while !reached.is_empty() {
            for (node, share) in std::mem::take(&mut reached) {
                let Some(switch) = node.checked_sub(self.plan.hosts) else { continue };
                let ports = self.routes.ports(switch, to);
                for port in &ports {
                    let (dir, part) = (self.out[node][*port], share / ports.len() as f64);
                    *shares.entry(dir).or_default() += part;
                    *reached.entry(self.dirs[dir].to.node).or_default() += part;
                }
            }
        }
        shares
    }
}

fn travel(mut train: Train, legs: &[Leg<'_>]) -> u128 {
    legs.windows(2).for_each(|pair| train.pass(&pair[0], &pair[1]));
    let are_sprayed = legs.iter().any(|leg| leg.together > leg.dir.rate.bps());
    legs.last().map_or(0, |last| train.arrived(last, are_sprayed))
}
