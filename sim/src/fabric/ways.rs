//! The ways flows take, and what they need there alone: what completion times are compared with.

use super::hosts;
use super::links::Direction;
use super::routes::Routes;
use super::spec::{FabricSpec, Forwarding};
use super::time::{PS, Ps};
use super::topology::Plan;
use super::workload::Planned;
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

/// A flow that has its path for itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Alone {
    /// All its frames, bytes on the wire.
    wire: u64,
    /// The slowest link, bit/s.
    rate: u64,
    /// What it takes besides `wire` at `rate`: delays, and the last frame on every further link.
    fixed: Ps,
    /// The gap behind the last frame, on the last link: nobody's waiting time.
    gap: Ps,
}

impl Alone {
    /// From its start to the effect of its last frame.
    pub fn ns(self) -> Nanos {
        self.ps().div_ceil(PS)
    }

    fn ps(self) -> Ps {
        (takes(self.wire.into(), self.rate) as u64).saturating_add(self.fixed) - self.gap
    }
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
        hosts::packet_bytes(self.spec, payload + u64::from(planned.flow.pace.header_bytes()))
    }

    /// Frames of a flow: bytes of all on the wire, and of the last one.
    fn frames(&self, planned: &Planned) -> (u64, u64) {
        let flow = &planned.flow;
        let frame = |payload: u64| self.frame_bytes(planned, payload);
        let full = flow.bytes / u64::from(flow.payload);
        let rest = flow.bytes % u64::from(flow.payload);
        let last = if rest > 0 { rest } else { u64::from(flow.payload) };
        let wire = full.saturating_mul(frame(flow.payload.into())) + if rest > 0 { frame(rest) } else { 0 };
        (wire, frame(last))
    }

    /// A flow alone on its path: N switches, N + 1 links (DEV-33). Store-and-forward pays the serialization of one packet on
    /// every further link, cut-through that of the headers. It goes to each of `stops` in turn: that of a rank leads to its
    /// engine, up to the root, and back.
    pub fn alone(&self, planned: &Planned, stops: &[usize]) -> Alone {
        let (wire, last) = self.frames(planned);
        self.passing(planned.from, stops, planned.path, (wire, last))
    }

    /// The same flow as a stream, whose last frame arrives when it does frame by frame: it goes behind full ones, which take
    /// longer on every link. What is sent at a pace of its own is all but the last frame, which has the line for itself.
    pub fn stream(&self, planned: &Planned) -> Stream {
        let (host, switch) = (&self.spec.host, &self.spec.switch);
        let (wire, last) = self.frames(planned);
        let full = self.frame_bytes(planned, planned.flow.payload.into());
        let before = u128::from(planned.flow.packets() - 1);
        let slowest = self.path(planned.from, planned.to, planned.path).map(|dir| self.dirs[dir].line.rate());
        let slowest = slowest.min().unwrap_or(1);
        let pace = match planned.flow.pace {
            Pace::Fixed(pace) => Some(pace).filter(|pace| *pace < slowest),
            _ => None,
        };
        // When the first frame begins on a link, and when the last one does and has arrived.
        let (mut first, mut arrived) = (0u128, 0u128);
        let mut rate = pace.unwrap_or(u64::MAX);
        for (nth, dir) in self.path(planned.from, planned.to, planned.path).enumerate() {
            let dir = &self.dirs[dir];
            rate = rate.min(dir.line.rate());
            let line = |bytes: u64| takes(bytes.into(), dir.line.rate());
            // Frames before the last one follow one another as the slowest link so far lets them.
            let behind = match before {
                0 => 0,
                n if nth == 0 => takes(n * u128::from(full), rate),
                n => first + takes((n - 1) * u128::from(full), rate) + line(full),
            };
            let stages = if dir.to.node < self.plan.hosts {
                0
            } else {
                switch.ingress.0 + switch.crossbar.0 + switch.egress.0
            };
            let way = u128::from(dir.delay + stages * PS);
            let known = |bytes: u64| match switch.forwarding {
                Forwarding::CutThrough if dir.to.node >= self.plan.hosts => line(HEAD_BYTES),
                _ => line(bytes - GAP),
            };
            arrived = behind.max(arrived) + known(last) + way;
            first += known(full) + way;
        }
        let last = if pace.is_some() { last } else { 0 };
        let ends = arrived + u128::from((host.tx_delay.0 + host.rx_delay.0) * PS);
        let sending = takes((wire - last).into(), pace.unwrap_or(slowest)) + takes(last.into(), slowest);
        let rest = ends.saturating_sub(sending);
        Stream { wire, last, rest: u64::try_from(rest).unwrap_or(Ps::MAX) }
    }

    /// From the making of a frame of so many bytes on the wire to its effect, alone.
    pub fn frame(&self, from: usize, to: usize, path: u64, wire: u64) -> Ps {
        self.passing(from, &[to], path, (wire, wire)).ps()
    }

    fn passing(&self, mut from: usize, stops: &[usize], path: u64, (wire, last): (u64, u64)) -> Alone {
        let (host, switch) = (&self.spec.host, &self.spec.switch);
        let held = match switch.forwarding {
            Forwarding::StoreAndForward => last - GAP,
            Forwarding::CutThrough => HEAD_BYTES,
        };
        let (mut rate, mut fixed) = (u64::MAX, 0);
        let mut before: Option<&Direction> = None;
        for stop in stops {
            // An engine has all of a frame before it sends the next.
            fixed += before.map_or(0, |dir| dir.line.takes(last - GAP));
            for (nth, dir) in self.path(from, *stop, path).enumerate() {
                fixed += match before {
                    Some(before) if nth > 0 => {
                        before.line.takes(held)
                            + (switch.ingress.0 + switch.crossbar.0 + switch.egress.0) * PS
                    }
                    _ => (host.tx_delay.0 + host.rx_delay.0) * PS,
                };
                let dir = &self.dirs[dir];
                fixed += dir.delay;
                rate = rate.min(dir.line.rate());
                before = Some(dir);
            }
            from = *stop;
        }
        Alone { wire, rate, fixed, gap: before.map_or(0, |dir| dir.line.takes(GAP)) }
    }
}
