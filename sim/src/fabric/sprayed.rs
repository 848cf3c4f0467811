//! What a flow takes alone whose frames are sprayed: a time that no choice among its paths is faster than.
//!
//! It is the most that any end of the flow takes, its last frames from a certain one on, from when the first of these begins: one
//! frame by the path that is soonest for it, and several through the links that are equally far from the sender, each of
//! which lets so many pass.

use super::ways::{Frames, Leg};

/// Picoseconds in a second, and bits in a byte.
const UNIT: u128 = 8 * 1_000_000_000_000;

/// A link that a frame may take.
struct Choice {
    /// From the begin of a full frame, and of the last one, at the sender to when it can begin here.
    soonest: [u128; 2],
    /// From the begin of such a frame here to its effect at the receiver.
    rest: [u128; 2],
    /// Frames that can begin here at once, and bit/s of those that follow.
    burst: u64,
    rate: u64,
    /// It is the links before that let no more come. A short frame follows a full one sooner here than it does there.
    is_fed_slowly: bool,
}

impl Choice {
    /// Full frames that begin within so much time, from the first on.
    fn begins_within(&self, time: u128, full: u64) -> u128 {
        u128::from(self.burst) + time * u128::from(self.rate) / (u128::from(full) * UNIT)
    }
}

/// The links of all paths, those that are equally far from the sender together.
pub(super) struct Sprayed {
    frames: Frames,
    levels: Vec<Vec<Choice>>,
}

impl Sprayed {
    /// `legs`: the links that frames may take at each place of the way.
    pub fn new(legs: &[Vec<Leg<'_>>], frames: Frames) -> Self {
        let kinds = [frames.full, frames.last];
        let mut levels: Vec<Vec<Choice>> = Vec::with_capacity(legs.len());
        for (place, here) in legs.iter().enumerate() {
            let before = place.checked_sub(1).map(|before| (&legs[before], &levels[before]));
            let choice = |leg: &Leg<'_>| {
                let (own, rest) = (leg.dir.rate.bps(), kinds.map(|bytes| u128::from(leg.brings(bytes))));
                let Some((legs, choices)) = before else {
                    return Choice { soonest: [0; 2], rest, burst: 1, rate: own, is_fed_slowly: false };
                };
                let feeding =
                    || legs.iter().zip(choices).filter(|(from, _)| from.dir.to.node == leg.dir.from.node);
                let soonest = [0, 1].map(|kind| {
                    let through = |(from, choice): (&Leg<'_>, &Choice)| {
                        choice.soonest[kind] + u128::from(from.hands_on(leg, kinds[kind]))
                    };
                    feeding().map(through).min().unwrap_or(0)
                });
                let sum = |of: fn(&Choice) -> u64| {
                    feeding().map(|(_, choice)| of(choice)).fold(0, u64::saturating_add)
                };
                let fed = sum(|choice| choice.rate);
                let is_fed_slowly = fed < own;
                let burst = if is_fed_slowly { sum(|choice| choice.burst) } else { 1 };
                Choice { soonest, rest, burst, rate: own.min(fed), is_fed_slowly }
            };
            let level = here.iter().map(choice).collect();
            levels.push(level);
        }
        for place in (1..legs.len()).rev() {
            let (before, behind) = levels.split_at_mut(place);
            for (choice, leg) in before[place - 1].iter_mut().zip(&legs[place - 1]) {
                let onward = || {
                    legs[place].iter().zip(&behind[0]).filter(|(to, _)| to.dir.from.node == leg.dir.to.node)
                };
                choice.rest = [0, 1].map(|kind| {
                    let through = |(to, choice): (&Leg<'_>, &Choice)| {
                        choice.rest[kind] + u128::from(leg.hands_on(to, kinds[kind]))
                    };
                    onward().map(through).min().unwrap_or(choice.rest[kind])
                });
            }
        }
        Self { frames, levels }
    }

    /// From the start of the flow to the effect of its last frame, ps.
    pub fn takes(&self) -> u128 {
        let before = self.frames.before;
        let Some(first) = self.levels.first().and_then(|level| level.first()) else { return 0 };
        let mut time = self.frames.begins(before) + first.rest[1];
        // Ends that are shorter by half each: what matters is what the sender lets go, or what links let pass.
        let ends = std::iter::successors(Some(before), |end| (*end > 1).then(|| end / 2));
        for end in ends.filter(|end| *end > 0) {
            let begins = self.frames.begins(before - end);
            for level in &self.levels {
                time = time.max(begins + self.takes_through(level, end, time - begins));
            }
        }
        time
    }

    /// The least time from `least` on in which the last `full` full frames and the last one can go through links and arrive,
    /// from the begin of the first of them at the sender.
    fn takes_through(&self, level: &[Choice], full: u64, least: u128) -> u128 {
        if self.pass(level, full, least) {
            return least;
        }
        let (mut less, mut step) = (least, 1);
        while !self.pass(level, full, less + step) {
            (less, step) = (less + step, step * 2);
        }
        let mut enough = less + step;
        while enough - less > 1 {
            let middle = less.midpoint(enough);
            *(if self.pass(level, full, middle) { &mut enough } else { &mut less }) = middle;
        }
        enough
    }

    /// Whether these have arrived after so much time.
    fn pass(&self, level: &[Choice], full: u64, time: u128) -> bool {
        let Frames { before, full: bytes, .. } = self.frames;
        let last_begins = self.frames.begins(before) - self.frames.begins(before - full);
        let mut passed = 0;
        // What the last frame costs the link that it takes.
        let mut cost: Option<u128> = None;
        for choice in level {
            let first = choice.soonest[0].min(last_begins + choice.soonest[1]);
            let first_before_last = if choice.is_fed_slowly { choice.soonest[1] } else { first };
            let without = time.checked_sub(first + choice.rest[0]);
            let with = time.checked_sub(first_before_last + choice.rest[1]);
            let without = without.map_or(0, |time| choice.begins_within(time, bytes));
            passed += without;
            if let Some(time) = with {
                let costs = without.saturating_sub(choice.begins_within(time, bytes) - 1);
                cost = Some(cost.map_or(costs, |least| least.min(costs)));
            }
        }
        cost.is_some_and(|cost| passed - cost >= full.into())
    }
}
