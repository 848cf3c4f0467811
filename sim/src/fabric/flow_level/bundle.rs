//! Flows that are sent over the same links at the same pace: they have the same rate at any time. What has been sent of one of
//! them follows from a clock that they have in common, so that another rate is a matter of that clock and not of each flow.

use super::max_min::BYTE;
use super::world::NEVER;
use crate::fabric::time::Ps;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::sync::Arc;

/// Parts of a byte of payload and of the wire in which what goes onto the timeline is counted.
const PAYLOAD_PART: u32 = 32;
const WIRE_PART: u32 = 20;

/// What a flow that is sent all the time had come to at some time, and how fast that became more.
#[derive(Clone, Copy, Debug)]
struct Course {
    since: Ps,
    /// In units of rate times picoseconds.
    sent: u128,
    rate: u64,
}

impl Course {
    fn sent_at(&self, time: Ps) -> u128 {
        self.sent + u128::from(self.rate) * u128::from(time.saturating_sub(self.since))
    }
}

/// What goes onto a lane of the timeline.
#[derive(Clone, Copy, Debug)]
struct Drawn {
    lane: usize,
    /// Payload for each byte on the wire, of all flows that are sent.
    payload: u128,
    /// Of what was drawn before: less than a byte.
    rest: u128,
}

/// What bundles are told apart by: their links, and the pace that their flows have at most.
pub(super) type Key = (Arc<[u32]>, Option<u64>);

#[derive(Clone, Debug)]
pub(super) struct Bundle {
    pub key: Key,
    /// The link that stands for the pace of all flows, and their number among the rates, while some are sent.
    pub cap: Option<u32>,
    pub share: u32,
    /// The rate they have and, as far back as something is under way, those before, latest last.
    clock: VecDeque<Course>,
    /// Flows, and what the clock says when they have been sent.
    ends: BinaryHeap<Reverse<(u128, u32)>>,
    /// When the first of them will have been sent at this rate.
    pub end: Ps,
    /// The longest time that something of its flows is under way.
    reach: Ps,
    /// Flows that have yet to arrive.
    pub open: u32,
    drawn: Vec<Drawn>,
    drawn_until: Ps,
}

impl Bundle {
    pub fn new(key: Key, now: Ps) -> Self {
        Self {
            key,
            cap: None,
            share: 0,
            clock: VecDeque::from([Course { since: now, sent: 0, rate: 0 }]),
            ends: BinaryHeap::with_capacity(1),
            end: NEVER,
            reach: 0,
            open: 0,
            drawn: Vec::new(),
            drawn_until: now,
        }
    }

    /// Flows that are being sent.
    pub fn sending(&self) -> usize {
        self.ends.len()
    }

    /// What the clock says at a time, which may lie back by what is under way.
    pub fn clock_at(&self, time: Ps) -> u128 {
        let course = self.clock.iter().rev().find(|course| course.since <= time);
        course.or(self.clock.front()).map_or(0, |course| course.sent_at(time))
    }

    /// One more flow of so many bytes on the wire, of which something is under way for `rest`. What the clock says.
    pub fn join(&mut self, flow: u32, wire: u64, rest: Ps, now: Ps) -> u128 {
        let begin = self.clock_at(now);
        self.reach = self.reach.max(rest);
        self.open += 1;
        self.ends.push(Reverse((begin + u128::from(wire) * BYTE, flow)));
        self.look_ahead(now);
        begin
    }

    /// The flow that has been sent.
    pub fn leave(&mut self, now: Ps) -> Option<u32> {
        let Reverse((_, flow)) = self.ends.pop()?;
        if self.ends.is_empty() {
            self.change(now, 0);
        }
        self.look_ahead(now);
        Some(flow)
    }

    /// Another rate from now on.
    pub fn change(&mut self, now: Ps, rate: u64) {
        let sent = self.clock_at(now);
        self.clock.push_back(Course { since: now, sent, rate });
        while self.clock.get(1).is_some_and(|next| next.since.saturating_add(self.reach) <= now) {
            self.clock.pop_front();
        }
        self.look_ahead(now);
    }

    fn look_ahead(&mut self, now: Ps) {
        let left = self.ends.peek().map(|Reverse((end, _))| end.saturating_sub(self.clock_at(now)));
        let rate = self.clock.back().map_or(0, |course| course.rate);
        let takes = left.and_then(|left| left.checked_div(rate.into()));
        let takes = takes.and_then(|takes| u64::try_from(takes).ok());
        self.end = takes.map_or(NEVER, |takes| now.saturating_add(takes));
    }

    /// From now on `payload` of the `wire` bytes of one more flow, or of one less, go onto a lane. To be told when all
    /// before was drawn.
    pub fn draws(&mut self, lane: usize, (payload, wire): (u64, u64), joins: bool) {
        let payload = (u128::from(payload) << PAYLOAD_PART) / u128::from(wire.max(1));
        let nth = self.drawn.iter().position(|drawn| drawn.lane == lane).unwrap_or_else(|| {
            self.drawn.reserve_exact(1);
            self.drawn.push(Drawn { lane, payload: 0, rest: 0 });
            self.drawn.len() - 1
        });
        let drawn = &mut self.drawn[nth];
        drawn.payload = if joins { drawn.payload + payload } else { drawn.payload - payload };
    }

    /// Calls `draw` with each lane, since when, and the bytes of payload that have been sent since.
    pub fn draw(&mut self, now: Ps, mut draw: impl FnMut(usize, Ps, u64)) {
        let since = std::mem::replace(&mut self.drawn_until, now);
        let wire = (self.clock_at(now) - self.clock_at(since)) / (BYTE >> WIRE_PART);
        for drawn in self.drawn.iter_mut().filter(|drawn| drawn.payload > 0 && wire > 0) {
            let parts = wire * drawn.payload + drawn.rest;
            let bytes = parts >> (WIRE_PART + PAYLOAD_PART);
            drawn.rest = parts - (bytes << (WIRE_PART + PAYLOAD_PART));
            draw(drawn.lane, since, bytes as u64);
        }
    }
}
