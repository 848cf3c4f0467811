//! How long a host was held back, at any time of a window that is over.

use std::collections::VecDeque;
use weir_dataplane::types::{Nanos, PRIORITIES};

/// What is known from a time on.
#[derive(Clone, Copy, Debug)]
struct Step {
    at: Nanos,
    /// By priority, ns in all until then, and until the end of the pause that runs if no frame comes.
    until: [Nanos; PRIORITIES],
    at_most: [Nanos; PRIORITIES],
}

/// The time a host was held back, as it grows.
#[derive(Clone, Debug)]
pub(super) struct PauseCourse(VecDeque<Step>);

impl PauseCourse {
    /// `paused` says how long each priority was held back by a time, as things stand at `now`.
    pub fn new(now: Nanos, paused: impl Fn(Nanos) -> [Nanos; PRIORITIES]) -> Self {
        let mut course = Self(VecDeque::with_capacity(1));
        course.heard(now, paused);
        course
    }

    /// The host has heard a pause frame at `now`.
    pub fn heard(&mut self, now: Nanos, paused: impl Fn(Nanos) -> [Nanos; PRIORITIES]) {
        self.0.push_back(Step { at: now, until: paused(now), at_most: paused(Nanos::MAX) });
    }

    /// How long a priority was held back until `now`.
    pub fn paused(&self, priority: usize, now: Nanos) -> Nanos {
        let step = self.0.iter().rev().find(|step| step.at <= now).or(self.0.front());
        step.map_or(0, |s| {
            s.until[priority].saturating_add(now.saturating_sub(s.at)).min(s.at_most[priority])
        })
    }

    /// Nobody asks for times before `now` any more.
    pub fn forget(&mut self, now: Nanos) {
        while self.0.get(1).is_some_and(|second| second.at <= now) {
            self.0.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_dataplane::pfc::frame::PfcFrame;
    use weir_dataplane::pfc::react::{ReactConfig, Reaction};

    /// Asked later, it says what the host would have said at the time.
    #[test]
    fn the_past_is_what_it_was() {
        let mut host = Reaction::new(ReactConfig::host(100_000_000_000, 1 << 3));
        let of = |host: &Reaction, now| std::array::from_fn(|p| host.paused_ns(p, now));
        let mut course = PauseCourse::new(0, |now| of(&host, now));
        let mut said = Vec::new();
        // Pauses that are prolonged, resumed, and that run out: a quantum is 5.12 ns.
        for (at, quanta) in [(100, 10), (120, 20), (400, 1000), (450, 0), (460, 0), (900, 65_535)] {
            let before = said.last().map_or(0, |(now, _)| now + 1);
            for now in before..at {
                host.paused_mask(now);
                said.push((now, host.paused_ns(3, now)));
            }
            host.on_pfc(&PfcFrame::uniform(1 << 3, quanta), at);
            course.heard(at, |now| of(&host, now));
        }
        for (now, paused) in said {
            assert_eq!(course.paused(3, now), paused, "{now}");
        }
        course.forget(900);
        assert_eq!((course.0.len(), course.paused(3, 1000)), (1, host.paused_ns(3, 1000)));
    }
}
