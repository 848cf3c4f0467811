//! One direction of a link: who sends, who hears, what is lost.

use super::lots;
use super::report::LinkResult;
use super::spec::FabricSpec;
use super::time::{LineRate, PS, Ps, Transmitter};
use super::topology::{End, Plan, Wire};
use weir_dataplane::rng::Rng;

/// A direction as it is laid out. Direction `d` and `d ^ 1` are the two of one link.
#[derive(Clone, Copy, Debug)]
pub(super) struct Direction {
    pub from: End,
    pub to: End,
    pub delay: Ps,
    pub rate: LineRate,
}

impl Direction {
    /// Those of a link.
    pub fn both(link: &Wire) -> [Self; 2] {
        let [a, b] = link.ends;
        let (delay, rate) = (link.spec.delay.0 * PS, LineRate::new(link.spec.rate.0));
        [(a, b), (b, a)].map(|(from, to)| Self { from, to, delay, rate })
    }

    /// From the last bit of a frame at the other end, a switch unless it is one of the first `hosts` nodes, to its effect there.
    pub fn pipeline(&self, spec: &FabricSpec, hosts: usize, is_pause: bool) -> Ps {
        let time = match (self.to.node >= hosts, is_pause) {
            (true, _) => spec.switch.ingress.0 + spec.switch.crossbar.0,
            (false, true) => spec.host.pfc_response_delay.0,
            (false, false) => spec.host.rx_delay.0,
        };
        time * PS
    }

    /// From the beginning of the transmission of a frame to its effect at the other end, but for the time its bits take.
    pub fn span(&self, spec: &FabricSpec, hosts: usize, is_pause: bool) -> Ps {
        let out = if self.from.node < hosts { spec.host.tx_delay.0 } else { spec.switch.egress.0 } * PS;
        out + self.delay + self.pipeline(spec, hosts, is_pause)
    }
}

/// What its sender knows of a direction: all that a frame needs that is sent.
#[derive(Clone, Debug)]
pub(super) struct Line {
    pub transmitter: Transmitter,
    /// Earliest call its sender asked for.
    pub wake: Ps,
    /// As it is laid out.
    pub from: End,
    pub to: End,
    /// From the beginning of a transmission to the effect of the frame, but for the time its bits take; of a pause frame.
    pub spans: [Ps; 2],
    pub carried: u64,
    pub bytes: u64,
    /// Its end of transmission is in the event queue: somebody waits for it.
    pub freeing: bool,
    /// Failures that are not repaired yet. While there is one, frames that are put on it come nowhere.
    pub failures: u32,
    /// Chances of loss, 2^32 is certain.
    loss: u64,
    pause_loss: u64,
    lots: Rng,
    pub lost: u64,
    /// Data frames lost because it was down.
    pub lost_down: u64,
    pub lost_pauses: u64,
}

/// Both directions of all links.
pub(super) fn directions(plan: &Plan) -> Vec<Direction> {
    plan.links.iter().flat_map(Direction::both).collect()
}

/// The lines of all [`directions`], in a run of `spec`.
pub(super) fn lines(plan: &Plan, spec: &FabricSpec) -> impl Iterator<Item = Line> {
    let chance = |share: f64| (share * 4_294_967_296.0) as u64;
    plan.links.iter().enumerate().flat_map(move |(number, link)| {
        let [there, back] = Direction::both(link);
        [(2 * number, there), (2 * number + 1, back)].map(|(dir, laid)| Line {
            transmitter: Transmitter::new(link.spec.rate.0),
            wake: Ps::MAX,
            from: laid.from,
            to: laid.to,
            spans: [false, true].map(|is_pause| laid.span(spec, plan.hosts, is_pause)),
            carried: 0,
            bytes: 0,
            freeing: false,
            failures: 0,
            loss: chance(link.spec.loss),
            pause_loss: chance(link.spec.pause_loss),
            lots: lots::stream(spec.seed, lots::LOSS, dir),
            lost: 0,
            lost_down: 0,
            lost_pauses: 0,
        })
    })
}

/// Outgoing direction of every port of every node.
pub(super) fn outgoing(plan: &Plan) -> Vec<Vec<usize>> {
    let of_node = |(node, links): (usize, &Vec<usize>)| {
        let side = |(port, link): (usize, &usize)| {
            let first = plan.links[*link].ends[0];
            link * 2 + usize::from(!(first.node == node && first.port == port))
        };
        links.iter().enumerate().map(side).collect()
    };
    plan.ports.iter().enumerate().map(of_node).collect()
}

impl Line {
    /// What it came to by `now` in this direction, in a fabric whose nodes have these names.
    pub fn result(&self, dir: &Direction, names: &[String], now: Ps) -> LinkResult {
        let busy = u128::from(self.bytes) * 8 * 1_000_000_000_000 / u128::from(dir.rate.bps());
        LinkResult {
            from: names[dir.from.node].clone(),
            to: names[dir.to.node].clone(),
            from_port: dir.from.port,
            to_port: dir.to.port,
            rate_bps: dir.rate.bps(),
            frames: self.carried,
            bytes: self.bytes,
            // A frame that is on the line at the end counts as a whole; and in a hybrid run frames and rates know nothing of one another, and
            // may be more for a while than it carries.
            busy_milli: ((busy * 1000 / u128::from(now.max(1))) as u64).min(1000),
            lost: self.lost,
            lost_down: self.lost_down,
            lost_pauses: self.lost_pauses,
            bottleneck_milli: None,
        }
    }

    /// It is free, and who sends on it is called some time after `ns`, the whole nanosecond of `now`.
    #[inline]
    pub fn waits(&self, now: Ps, ns: u64) -> bool {
        self.transmitter.free() <= now && !self.freeing && self.wake > ns.saturating_mul(PS)
    }

    /// Whether it has failed.
    pub fn is_down(&self) -> bool {
        self.failures > 0
    }

    /// Whether the frame that is sent now is lost on the way; counts it.
    pub fn loses(&mut self, is_pause: bool) -> bool {
        if self.is_down() {
            self.cut(is_pause);
            return true;
        }
        let chance = if is_pause { self.pause_loss } else { self.loss };
        let lost = chance > 0 && u64::from(self.lots.next_u32()) < chance;
        self.lost += u64::from(lost && !is_pause);
        self.lost_pauses += u64::from(lost && is_pause);
        lost
    }

    /// Counts a frame that is lost because the link is down.
    pub fn cut(&mut self, is_pause: bool) {
        self.lost_down += u64::from(!is_pause);
        self.lost_pauses += u64::from(is_pause);
    }
}
