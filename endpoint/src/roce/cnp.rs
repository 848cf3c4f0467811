//! The notification point of DCQCN: at most one CNP per queue pair and interval (DEV-41, CC-002).

use weir_dataplane::types::Nanos;

/// Decides when a CE mark is answered with a CNP.
#[derive(Clone, Copy, Debug)]
pub struct NotificationPoint {
    interval: Nanos,
    /// The last CNP.
    sent: Option<Nanos>,
}

impl NotificationPoint {
    /// CNPs at least `interval` apart; zero answers every mark.
    pub fn new(interval: Nanos) -> Self {
        Self { interval, sent: None }
    }

    /// Another interval, from the last CNP on.
    pub fn set_interval(&mut self, interval: Nanos) {
        self.interval = interval;
    }

    /// Least time between two CNPs, ns.
    pub fn interval(&self) -> Nanos {
        self.interval
    }

    /// A frame marked CE arrived. `true`: send a CNP now.
    pub fn on_ce(&mut self, now: Nanos) -> bool {
        let due = self.sent.is_none_or(|sent| now >= sent.saturating_add(self.interval));
        if due {
            self.sent = Some(now);
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
        np.set_interval(20_000);
        assert_eq!((np.on_ce(169_999), np.on_ce(170_000)), (false, true), "from the last one on");
    }
}
