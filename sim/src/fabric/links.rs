//! One direction of a link: who sends, who hears, what is lost.

use super::lots;
use super::report::LinkResult;
use super::time::{PS, Ps, Transmitter};
use super::topology::{End, Plan};
use weir_dataplane::rng::Rng;

/// A direction. Direction `d` and `d ^ 1` are the two of one link.
#[derive(Clone, Debug)]
pub(super) struct Direction {
    pub from: End,
    pub to: End,
    pub line: Transmitter,
    /// Its end of transmission is in the event queue: somebody waits for it.
    pub freeing: bool,
    pub delay: Ps,
    /// Chances of loss, 2^32 is certain.
    loss: u64,
    pause_loss: u64,
    lots: Rng,
    pub carried: u64,
    pub bytes: u64,
    /// Frames that are put on it come nowhere.
    pub down: bool,
    pub lost: u64,
    /// Data frames lost because it was down.
    pub lost_down: u64,
    pub lost_pauses: u64,
}

/// Both directions of all links, in a run with this seed.
pub(super) fn directions(plan: &Plan, seed: u64) -> Vec<Direction> {
    let chance = |share: f64| (share * 4_294_967_296.0) as u64;
    let both = plan.links.iter().enumerate().flat_map(|(number, link)| {
        let [a, b] = link.ends;
        [(a, b, 2 * number), (b, a, 2 * number + 1)].map(|(from, to, dir)| Direction {
            from,
            to,
            line: Transmitter::new(link.spec.rate.0),
            freeing: false,
            delay: link.spec.delay.0 * PS,
            loss: chance(link.spec.loss),
            pause_loss: chance(link.spec.pause_loss),
            lots: lots::stream(seed, lots::LOSS, dir),
            carried: 0,
            bytes: 0,
            down: false,
            lost: 0,
            lost_down: 0,
            lost_pauses: 0,
        })
    });
    both.collect()
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

impl Direction {
    /// What it came to by `now`, in a fabric whose nodes have these names.
    pub fn result(&self, names: &[String], now: Ps) -> LinkResult {
        let busy = u128::from(self.bytes) * 8 * 1_000_000_000_000 / u128::from(self.line.rate());
        LinkResult {
            from: names[self.from.node].clone(),
            to: names[self.to.node].clone(),
            rate_bps: self.line.rate(),
            frames: self.carried,
            bytes: self.bytes,
            busy_milli: (busy * 1000 / u128::from(now.max(1))) as u64,
            lost: self.lost,
            lost_down: self.lost_down,
            lost_pauses: self.lost_pauses,
            bottleneck_milli: None,
        }
    }

    /// Whether the frame that is sent now is lost on the way; counts it.
    pub fn loses(&mut self, is_pause: bool) -> bool {
        if self.down {
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
