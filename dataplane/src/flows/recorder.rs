//! What one port records.

use super::{CAUSES, Cause, DEPTH_LOOKS, FlowId, PortFlows};
use crate::rng::Rng;
use crate::stats::{Published, Words};
use crate::types::Nanos;

/// Events of a port that are looked at one by one between two publications of its counters (10 ms).
const BUDGET: u32 = 128;

/// Beyond these one in so many is looked at as this part of all there were: what comes after the last look is a small part, too.
const PART: u32 = 32;

/// How flows are recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowParams {
    /// Beyond the first ones of each publication marks, losses and Xoffs are looked at ever more rarely, at random, down to one
    /// in so many; at least 1.
    pub sample: u32,
    /// Length of a stretch of time, ns; [`Nanos::MAX`]: all of a run is one.
    pub epoch: Nanos,
}

/// Counts the flows of a port. Written by the lcore that owns it, read through [`Published`].
#[derive(Debug)]
pub struct FlowRecorder {
    seen: PortFlows,
    params: FlowParams,
    /// Frames that may still be looked at one by one.
    budget: u32,
    /// By cause: how many pass until the next one that is looked at, and how many have passed since the last one.
    pass: [u32; CAUSES],
    passed: [u32; CAUSES],
    /// By cause: how many there were since the counters were published, up to the last one looked at.
    since: [u32; CAUSES],
    rng: Rng,
    changed: bool,
    published: Published,
}

impl FlowRecorder {
    /// Nothing is recorded yet. Its random numbers are its own: nothing else depends on what is looked at.
    pub fn new(params: FlowParams, seed: u64) -> Self {
        Self {
            seen: PortFlows::default(),
            params: FlowParams { sample: params.sample.max(1), epoch: params.epoch.max(1) },
            budget: BUDGET,
            pass: [0; CAUSES],
            passed: [0; CAUSES],
            since: [0; CAUSES],
            rng: Rng::new(seed),
            changed: false,
            published: Published::new::<PortFlows>(),
        }
    }

    /// What was recorded, by the thread that records.
    pub fn seen(&self) -> &PortFlows {
        &self.seen
    }

    /// The cell through which others read it: [`PortFlows`].
    pub fn published(&self) -> Published {
        self.published.clone()
    }

    /// So much has happened, in the unit of the cause.
    #[inline]
    pub(crate) fn count(&mut self, cause: Cause, amount: u64) {
        self.seen.current.totals[cause as usize] += amount;
        self.changed = true;
    }

    /// Of `events` alike, which one is to be looked at next, and for how many it stands: itself and those since the
    /// one before. To be asked again about those behind it, until it says `None`.
    #[inline]
    pub(crate) fn due(&mut self, cause: Cause, events: u32) -> Option<(u32, u64)> {
        let (pass, passed) = (&mut self.pass[cause as usize], &mut self.passed[cause as usize]);
        if *pass >= events {
            *pass -= events;
            *passed = passed.saturating_add(events);
            return None;
        }
        let (at, weight) = (*pass, u64::from(*passed) + u64::from(*pass) + 1);
        let since = &mut self.since[cause as usize];
        *since = since.saturating_add(weight as u32);
        *passed = 0;
        *pass = if self.budget > 0 {
            self.budget -= 1;
            0
        } else {
            // From nothing to twice the mean: traffic that repeats itself does not meet the same place again and again.
            let mean = (*since / PART).clamp(1, self.params.sample);
            self.rng.next_u32() % (2 * mean - 1)
        };
        Some((at, weight))
    }

    /// A frame of this flow was looked at, which stands for so much.
    pub(crate) fn add(&mut self, cause: Cause, id: &FlowId, weight: u64) {
        let epoch = &mut self.seen.current;
        epoch.looked[cause as usize] += 1;
        epoch.covered[cause as usize] += weight;
        epoch.flows[cause as usize].add(id, weight);
        self.changed = true;
    }

    /// A queue holds so many bytes; `flow` reads a frame of it by a random number.
    pub(crate) fn look_at_queue(&mut self, bytes: u64, mut flow: impl FnMut(u32) -> Option<FlowId>) {
        self.count(Cause::Depth, bytes);
        let mut left = bytes;
        for look in (1..=DEPTH_LOOKS).rev() {
            let part = left / look;
            left -= part;
            let random = self.random();
            if let Some(id) = flow(random).filter(|_| part > 0) {
                self.add(Cause::Depth, &id, part);
            }
        }
    }

    /// A random number.
    pub(crate) fn random(&mut self) -> u32 {
        self.rng.next_u32()
    }

    /// Counters are published: the next stretch of time may begin.
    pub(crate) fn publish(&mut self, now: Nanos) {
        self.budget = BUDGET;
        (self.pass, self.since) = ([0; CAUSES], [0; CAUSES]);
        let number = now / self.params.epoch + 1;
        let PortFlows { current, previous } = &mut self.seen;
        if current.number == 0 {
            // What came before the first publication belongs to its stretch.
            current.number = number;
        } else if current.number != number {
            std::mem::swap(current, previous);
            (current.number, current.looks) = (number, 0);
            (current.totals, current.looked, current.covered) = ([0; CAUSES], [0; CAUSES], [0; CAUSES]);
            current.flows.iter_mut().for_each(super::Summary::clear);
            // What is looked at next stands for nothing that is behind.
            self.passed = [0; CAUSES];
            self.seen.current.looks += 1;
            self.changed = false;
            return self.published.publish(&mut self.seen);
        }
        self.seen.current.looks += 1;
        if std::mem::take(&mut self.changed) {
            let current = &mut self.seen.current;
            self.published.publish_all(|f| current.words(f));
        }
    }
}
