//! A service manager is told when the switch forwards and that it still does (`sd_notify`). Without one nothing happens.

use sd_notify::NotifyState;
use std::time::{Duration, Instant};
use weir_dataplane::stats::{LoopStats, Published};

/// How often the status is told where no watchdog asks for more.
const STATUS: Duration = Duration::from_secs(5);

/// What is told, and when.
#[derive(Debug)]
pub struct Notifier {
    loops: Vec<Published>,
    every: Duration,
    told: Instant,
    /// Clock of each worker when last told of.
    seen: Vec<u64>,
}

impl Notifier {
    /// Tells that the switch forwards, with these workers.
    pub fn ready(name: &str, loops: Vec<Published>) -> Self {
        say(&[NotifyState::Ready, NotifyState::Status(&format!("{name}: forwarding"))]);
        // Three chances per watchdog period.
        let every = sd_notify::watchdog_enabled().map_or(STATUS, |period| period / 3).min(STATUS);
        let seen = vec![0; loops.len()];
        Self { loops, every, told: Instant::now(), seen }
    }

    /// Feeds the watchdog if every worker has gone on since it was fed last.
    pub fn look(&mut self) {
        if self.told.elapsed() < self.every {
            return;
        }
        self.told = Instant::now();
        let now: Vec<LoopStats> = self.loops.iter().map(Published::read).collect();
        let stuck = now.iter().zip(&self.seen).filter(|(l, seen)| l.at_ns <= **seen).count();
        if stuck > 0 {
            say(&[NotifyState::Status(&format!("{stuck} of {} workers stand still", now.len()))]);
            return;
        }
        self.seen = now.iter().map(|l| l.at_ns).collect();
        let sum = |get: fn(&LoopStats) -> u64| now.iter().map(get).sum::<u64>();
        let status = format!(
            "forwarding: received {}, sent {}, dropped {}, held {}",
            sum(|l| l.received),
            sum(|l| l.transmitted),
            sum(|l| l.dropped),
            sum(|l| l.held)
        );
        say(&[NotifyState::Watchdog, NotifyState::Status(&status)]);
    }

    /// Tells that the end has begun.
    pub fn stopping() {
        say(&[NotifyState::Stopping, NotifyState::Status("draining")]);
    }
}

/// A manager that does not listen is no reason to stop forwarding.
fn say(state: &[NotifyState<'_>]) {
    let _ = sd_notify::notify(state);
}
