//! The notification point of DCQCN: at most one CNP per queue pair and interval (DEV-41, CC-002).

use weir_dataplane::types::Nanos;

/// Decides when a CE mark is answered with a CNP.
#[derive(Clone, Copy, Debug)]
pub struct NotificationPoint {
    interval: Nanos,
    quiet_until: Nanos,
}

impl NotificationPoint {
    /// CNPs at least `interval` apart; zero answers every mark.
    pub fn new(interval: Nanos) -> Self {
        Self { interval, quiet_until: 0 }
    }

    /// A frame marked CE arrived. `true`: send a CNP now.
    pub fn on_ce(&mut self, now: Nanos) -> bool {
        let due = now >= self.quiet_until;
        if due {
            self.quiet_until = now.saturating_add(self.interval);
        }
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_cnp_per_interval_however_many_marks() {
        let mut np = NotificationPoint::new(50_000);
        let sent: Vec<Nanos> = (0..200_000).step_by(1_000).filter(|&t| np.on_ce(t)).collect();
        assert_eq!(sent, [0, 50_000, 100_000, 150_000]);
    }
}
