//! Max-min fair rates of flows over links, kept up to date as flows come and go.
//!
//! Progressive filling (Bertsekas and Gallager, Data Networks, 6.5.2) raises all rates together; a link that is full fixes those of
//! its flows at its level. What comes or goes can change a level only from the lowest one it touches on, and from there what
//! shares a link with a rate that changes: links are visited by rising level, and where a level stays as it was nothing behind it
//! is looked at. So a change costs what it changes, not what there is. Flows over the same links have the same rate: they are one
//! share, and cost what one of them does.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Rates are whole numbers of 2^-14 bit/s: the fastest link of a fabric file (10^15 bit/s) fits 64 bits.
const UNIT_SHIFT: u32 = 14;
/// No level: the link is not full.
const NONE: u64 = u64::MAX;
/// No link.
const NOWHERE: u32 = u32::MAX;

/// A rate in bit/s, in units of this module.
pub(super) fn units(bps: u64) -> u64 {
    bps.checked_mul(1 << UNIT_SHIFT).unwrap_or(NONE - 1)
}

/// Units that a byte takes at this module's rates and picoseconds: rate times time makes such units.
pub(super) const BYTE: u128 = (8 * 1_000_000_000_000) << UNIT_SHIFT;

#[derive(Clone, Debug)]
struct Link {
    capacity: u128,
    /// Rate of each flow it holds back; [`NONE`]: it holds back none.
    level: u64,
    shares: Vec<u32>,
    /// Flows of all of them.
    flows: u64,
    /// Level at which it is to be visited; [`NONE`]: it is not.
    queued: u64,
    /// It is in the list of those visited.
    noted: bool,
    /// It is the pace of the flows of a share, and of no others.
    is_pace: bool,
}

/// What flows over the same links have of them, each as much.
#[derive(Clone, Debug, Default)]
struct Share {
    /// Links, and its place in the list of each.
    path: Vec<(u32, u32)>,
    flows: u64,
    /// Of each of them.
    rate: u64,
    /// The link that holds them back; [`NOWHERE`]: they have no rate yet.
    bottleneck: u32,
    /// Its rate before this round of changes, if it may have another.
    before: Option<u64>,
}

/// Links and the flows on them.
#[derive(Clone, Debug, Default)]
pub(super) struct MaxMin {
    links: Vec<Link>,
    shares: Vec<Share>,
    unused_links: Vec<u32>,
    unused_shares: Vec<u32>,
    queue: BinaryHeap<Reverse<(u64, u32)>>,
    touched: Vec<u32>,
    visited: Vec<u32>,
}

impl MaxMin {
    /// One more link; [`units`] of its rate. Links are numbered from 0.
    pub fn add_link(&mut self, capacity: u64) -> u32 {
        let capacity = u128::from(capacity.max(1));
        let link = Link {
            capacity,
            level: NONE,
            shares: Vec::new(),
            flows: 0,
            queued: NONE,
            noted: false,
            is_pace: false,
        };
        if let Some(at) = self.unused_links.pop() {
            self.links[at as usize] = link;
            return at;
        }
        self.links.push(link);
        self.links.len() as u32 - 1
    }

    /// A link for a share alone, that gives each of its flows so much.
    pub fn add_pace(&mut self, each: u64) -> u32 {
        let pace = self.add_link(each);
        self.links[pace as usize].is_pace = true;
        pace
    }

    /// Takes a link away that no flow is on.
    pub fn remove_link(&mut self, link: u32) {
        self.unused_links.push(link);
    }

    /// A pace is that of so many flows. To be said with each flow that comes or goes.
    pub fn resize_pace(&mut self, link: u32, flows: usize, each: u64) {
        self.links[link as usize].capacity = (u128::from(each) * flows as u128).max(1);
    }

    /// A share of one flow over these links, of which there is one at least, none twice. It has a rate after
    /// [`MaxMin::settle`]. Numbers of shares that were removed are given again.
    pub fn add(&mut self, path: &[u32]) -> u32 {
        let at = self.unused_shares.pop().unwrap_or_else(|| {
            self.shares.push(Share::default());
            self.shares.len() as u32 - 1
        });
        let place = |link: &u32| {
            let shares = &mut self.links[*link as usize].shares;
            shares.push(at);
            (*link, shares.len() as u32 - 1)
        };
        let path = path.iter().map(place).collect();
        self.shares[at as usize] = Share { path, flows: 0, rate: 0, bottleneck: NOWHERE, before: None };
        self.add_to(at);
        at
    }

    /// One more flow of a share.
    pub fn add_to(&mut self, share: u32) {
        self.touch(share);
        let Self { links, shares, .. } = self;
        let at = &mut shares[share as usize];
        (at.flows, at.bottleneck) = (at.flows + 1, NOWHERE);
        at.path.iter().for_each(|(link, _)| links[*link as usize].flows += 1);
        self.visit_path(share, 0);
    }

    /// Takes a flow of a share away, with the last one the share.
    pub fn remove(&mut self, share: u32) {
        let at = &mut self.shares[share as usize];
        at.flows -= 1;
        let is_last = at.flows == 0;
        for nth in 0..at.path.len() {
            let (link, place) = self.shares[share as usize].path[nth];
            self.links[link as usize].flows -= 1;
            if is_last {
                self.take_off(link, place);
            }
            self.visit_if_full(link);
        }
        if is_last {
            self.shares[share as usize].path.clear();
            self.unused_shares.push(share);
        }
    }

    /// The share at this place of a link is no longer there.
    fn take_off(&mut self, link: u32, place: u32) {
        let shares = &mut self.links[link as usize].shares;
        shares.swap_remove(place as usize);
        if let Some(moved) = shares.get(place as usize) {
            let path = &mut self.shares[*moved as usize].path;
            path.iter_mut().filter(|(other, _)| *other == link).for_each(|(_, at)| *at = place);
        }
    }

    /// Rate of each flow of a share, in units.
    pub fn rate(&self, share: u32) -> u64 {
        self.shares[share as usize].rate
    }

    /// Whether a link holds a flow back for the sake of others: it would have more without them.
    pub fn is_contended(&self, link: u32) -> bool {
        let Link { level, flows, shares, .. } = &self.links[link as usize];
        let alone = |other: &Link| {
            let is_alone = other.is_pace || other.flows == 1;
            is_alone && other.capacity / u128::from(other.flows) <= u128::from(*level)
        };
        let is_held = |share: &Share| {
            share.bottleneck == link
                && !share.path.iter().any(|(other, _)| alone(&self.links[*other as usize]))
        };
        *level != NONE && *flows > 1 && shares.iter().any(|share| is_held(&self.shares[*share as usize]))
    }

    /// Links of which [`MaxMin::is_contended`] may have changed with the last round.
    pub fn visited(&self) -> &[u32] {
        &self.visited
    }

    fn visit(&mut self, link: u32, level: u64) {
        let at = &mut self.links[link as usize];
        if level < at.queued {
            at.queued = level;
            self.queue.push(Reverse((level, link)));
        }
    }

    fn visit_if_full(&mut self, link: u32) {
        let level = self.links[link as usize].level;
        if level != NONE {
            self.visit(link, level);
        }
    }

    fn visit_path(&mut self, share: u32, level: u64) {
        for nth in 0..self.shares[share as usize].path.len() {
            let (link, _) = self.shares[share as usize].path[nth];
            self.visit(link, level);
        }
    }

    fn touch(&mut self, share: u32) {
        let at = &mut self.shares[share as usize];
        if at.before.is_none() {
            at.before = Some(at.rate);
            self.touched.push(share);
        }
    }

    /// The level to which a link could raise the flows that nothing else holds back: those that others hold back have the rates
    /// they have, or that level if it is lower. [`NONE`]: there is room for all.
    fn potential(&self, link: u32) -> u64 {
        let at = &self.links[link as usize];
        let held = |share: &Share| share.bottleneck != link && share.bottleneck != NOWHERE;
        let mut level = NONE;
        let mut below = 0;
        // Each round leaves fewer flows at the level, which can only rise.
        loop {
            let (mut open, mut sum) = (0u64, 0u128);
            for share in at.shares.iter().map(|share| &self.shares[*share as usize]) {
                match held(share) && (level == NONE || share.rate <= level) {
                    true => sum += u128::from(share.rate) * u128::from(share.flows),
                    false => open += share.flows,
                }
            }
            if level != NONE && open == below {
                return level;
            }
            let Some(left) = at.capacity.checked_sub(sum) else {
                // More than fits, which the level of all has to say.
                (level, below) = ((at.capacity / u128::from(at.flows)) as u64, 0);
                continue;
            };
            if open == 0 {
                return NONE;
            }
            (level, below) = ((left / u128::from(open)) as u64, open);
        }
    }

    /// Gives all flows the rates they have after what came and went; the shares whose rate is another one now, in the order in
    /// which they were found.
    pub fn settle(&mut self) -> Vec<u32> {
        for link in self.visited.drain(..) {
            self.links[link as usize].noted = false;
        }
        let mut reached = 0;
        while let Some(Reverse((level, link))) = self.queue.pop() {
            let at = &mut self.links[link as usize];
            if at.queued != level {
                continue;
            }
            debug_assert!(reached <= level, "link {link} at {level} after {reached}");
            reached = level;
            at.queued = NONE;
            if !at.noted {
                at.noted = true;
                self.visited.push(link);
            }
            let (before, now) = (at.level, self.potential(link));
            match before.min(now) {
                NONE => {}
                next if next > level => self.visit(link, next),
                _ if now > before => {
                    self.release(link);
                    if now != NONE {
                        self.visit(link, now);
                    }
                }
                _ => self.fix(link, now),
            }
        }
        let mut touched = std::mem::take(&mut self.touched);
        touched.retain(|share| {
            let at = &mut self.shares[*share as usize];
            let before = at.before.take();
            !at.path.is_empty() && before.is_some_and(|before| before != at.rate)
        });
        touched
    }

    /// A link can give more than its level: its flows have no rate until some link fixes one.
    fn release(&mut self, link: u32) {
        let level = std::mem::replace(&mut self.links[link as usize].level, NONE);
        for nth in 0..self.links[link as usize].shares.len() {
            let share = self.links[link as usize].shares[nth];
            if self.shares[share as usize].bottleneck == link {
                self.touch(share);
                self.shares[share as usize].bottleneck = NOWHERE;
                self.visit_path(share, level);
            }
        }
    }

    /// A link is the lowest one that is open: what nobody holds back below this level it does.
    fn fix(&mut self, link: u32, level: u64) {
        self.links[link as usize].level = level;
        for nth in 0..self.links[link as usize].shares.len() {
            let share = self.links[link as usize].shares[nth];
            let Share { rate, bottleneck, .. } = self.shares[share as usize];
            let (own, free) = (bottleneck == link, bottleneck == NOWHERE);
            if own && rate == level || !own && !free && rate <= level {
                continue;
            }
            self.touch(share);
            let at = &mut self.shares[share as usize];
            (at.rate, at.bottleneck) = (level, link);
            for nth in 0..at.path.len() {
                let (other, _) = self.shares[share as usize].path[nth];
                if other != link {
                    self.visit_if_full(other);
                }
            }
        }
    }
}

#[cfg(test)]
#[path = "max_min_tests.rs"]
mod tests;
