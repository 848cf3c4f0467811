//! Which of many senders may have something to post: those whose time has come and those of which something has changed.

use crate::timetable::Times;
use std::collections::BTreeSet;
use weir_dataplane::pfc::NEVER;
use weir_dataplane::types::Nanos;

/// Senders are numbered from 0.
#[derive(Debug, Default)]
pub(crate) struct Starts {
    /// When those begin, or may go on, that wait for nothing but a time.
    times: Times,
    /// Those that are to be asked.
    changed: BTreeSet<u32>,
}

impl Starts {
    /// Something has changed of a sender.
    pub fn change(&mut self, sender: u32) {
        self.changed.insert(sender);
    }

    /// A sender waits for this time, after now.
    pub fn wait(&mut self, sender: u32, until: Nanos) {
        self.times.make_room(sender as usize + 1);
        self.times.set(sender as usize, until);
    }

    /// Those whose time has come by `now` are to be asked.
    fn begin(&mut self, now: Nanos) {
        while let Some(sender) = self.times.first(0, now) {
            self.times.set(sender, NEVER);
            self.changed.insert(sender as u32);
        }
    }

    /// The next one to be asked at `now`, in the order of their numbers.
    pub fn next(&mut self, now: Nanos) -> Option<u32> {
        self.begin(now);
        self.changed.pop_first()
    }

    /// When the first of those that wait goes on, after `now`; `until` says what a sender waits for. Who waits for no time is asked
    /// when something else calls for it.
    pub fn next_start(&mut self, now: Nanos, mut until: impl FnMut(u32) -> Nanos) -> Nanos {
        self.begin(now);
        let times = &mut self.times;
        self.changed.retain(|sender| {
            let until = until(*sender);
            if until > now {
                times.make_room(*sender as usize + 1);
                times.set(*sender as usize, until);
            }
            until <= now
        });
        self.times.least()
    }
}
