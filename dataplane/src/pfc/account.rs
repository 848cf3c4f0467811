//! How long and how often each of eight priorities was paused, exact in both directions.
//!
//! Scenario D15; SONiC's PFC history (transitions, total, most recent) without the estimating.

use crate::types::{Nanos, PRIORITIES};

/// Pause time and transitions of eight priorities (or queues).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PauseAccount {
    active: u8,
    since: [Nanos; PRIORITIES],
    total: [Nanos; PRIORITIES],
    last: [Nanos; PRIORITIES],
    transitions: [u64; PRIORITIES],
}

impl PauseAccount {
    /// `priority` is paused from `now` on. Already paused: nothing changes, the pause goes on.
    pub fn begin(&mut self, priority: usize, now: Nanos) {
        if self.active & 1 << priority == 0 {
            self.active |= 1 << priority;
            self.since[priority] = now;
            self.transitions[priority] += 1;
        }
    }

    /// `priority` was paused until `at`.
    pub fn end(&mut self, priority: usize, at: Nanos) {
        if self.active & 1 << priority != 0 {
            self.active &= !(1 << priority);
            self.last[priority] = at.saturating_sub(self.since[priority]);
            self.total[priority] += self.last[priority];
        }
    }

    /// Paused priorities, one bit each.
    #[inline]
    pub fn active(&self) -> u8 {
        self.active
    }

    /// Start of the running pause, if there is one.
    pub fn since(&self, priority: usize) -> Option<Nanos> {
        (self.active & 1 << priority != 0).then(|| self.since[priority])
    }

    /// Nanoseconds paused until `now`, the running pause included.
    pub fn total(&self, priority: usize, now: Nanos) -> Nanos {
        self.total[priority] + self.since(priority).map_or(0, |since| now.saturating_sub(since))
    }

    /// Times a pause began.
    pub fn transitions(&self, priority: usize) -> u64 {
        self.transitions[priority]
    }

    /// Length in nanoseconds of the most recent pause that has ended; zero before the first.
    pub fn last(&self, priority: usize) -> Nanos {
        self.last[priority]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn d15_running_and_ended_pauses_add_up() {
        let mut a = PauseAccount::default();
        a.begin(3, 100);
        a.begin(3, 150);
        assert_eq!((a.total(3, 160), a.since(3), a.active()), (60, Some(100), 8));
        a.end(3, 180);
        a.end(3, 200);
        assert_eq!((a.total(3, 999), a.last(3), a.since(3)), (80, 80, None));
        a.begin(3, 300);
        a.end(3, 310);
        assert_eq!((a.total(3, 999), a.last(3), a.transitions(3), a.transitions(4)), (90, 10, 2, 0));
    }
}
