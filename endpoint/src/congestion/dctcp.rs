//! DCTCP (Alizadeh et al., SIGCOMM 2010) as the published simulator has it: `CC_MODE 8`, a rate of which the
//! window follows.
use super::{Ack, CongestionControl, Permit, Window};

/// What a sender is configured with.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Params {
    /// Line rate of the sender: its first rate and its highest, bit/s.
    pub line_bps: u64,
    /// Gain of alpha (`EWMA_GAIN`).
    pub g: f64,
    /// Added once per window (`DCTCP_RATE_AI`), bit/s.
    pub ai_bps: u64,
    /// Lowest rate (`MIN_RATE`), bit/s.
    pub min_rate_bps: u64,
    /// Payload bytes of a full packet: what a window is counted in.
    pub payload: u64,
}

impl Default for Params {
    /// The published preset for 100 Gb/s.
    fn default() -> Self {
        Self {
            line_bps: 100_000_000_000,
            g: 0.0625,
            ai_bps: 615_000_000,
            min_rate_bps: 1_000_000_000,
            payload: 1000,
        }
    }
}

/// What an acknowledgement did.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Update {
    /// It ended a window.
    pub new_batch: bool,
    /// The rate was cut.
    pub cut: bool,
    /// Share of marked packets that moved alpha.
    pub fraction: Option<f64>,
    /// Marks and packets that share was made of.
    pub used: (u64, u64),
}

/// One sender.
#[derive(Clone, Debug)]
pub struct Dctcp {
    params: Params,
    window: Window,
    rate: u64,
    alpha: f64,
    /// Marks since the window began.
    marks: u64,
    /// Packets of the window.
    batch: u64,
    /// A cut has been made, and what it was made for has not left the network.
    reduced: bool,
    /// Next byte at the last cut.
    high: u64,
    last_update: u64,
}

impl Dctcp {
    /// A sender at line rate.
    pub fn new(params: Params, window: Window) -> Self {
        Self {
            params,
            window,
            rate: params.line_bps,
            alpha: 1.0,
            marks: 0,
            batch: 0,
            reduced: false,
            high: 0,
            last_update: 0,
        }
    }

    /// Rate, bit/s.
    #[inline]
    pub fn rate_bps(&self) -> u64 {
        self.rate
    }

    /// Estimate of congestion, 0 to 1.
    pub fn alpha(&self) -> f64 {
        self.alpha
    }

    /// Marks and packets of the window that runs.
    pub fn batch(&self) -> (u64, u64) {
        (self.marks, self.batch)
    }

    /// No further cut: the last one has not taken effect; and the next byte when it was made.
    pub fn reduced(&self) -> (bool, u64) {
        (self.reduced, self.high)
    }

    /// An acknowledgement beyond this byte ends a window.
    pub fn last_update(&self) -> u64 {
        self.last_update
    }

    /// Takes an acknowledgement; `None`: nothing worth a word.
    pub fn update(&mut self, ack: &Ack<'_>) -> Option<Update> {
        let (p, before) = (self.params, (self.rate, self.reduced));
        let mut update = Update { new_batch: false, cut: false, fraction: None, used: (0, 0) };
        self.marks += ack.marks;
        if ack.acked > self.last_update {
            update.new_batch = true;
            if self.last_update == 0 {
                // Marks so far count in the window that begins.
                self.batch = ack.next / p.payload + 1;
            } else {
                let fraction = (self.marks as f64 / self.batch as f64).min(1.0);
                self.alpha = (1.0 - p.g) * self.alpha + p.g * fraction;
                (update.fraction, update.used) = (Some(fraction), (self.marks, self.batch));
                self.marks = 0;
                self.batch = ack.next.saturating_sub(ack.acked) / p.payload + 1;
            }
            self.last_update = ack.next;
        }
        if self.reduced && ack.acked > self.high {
            self.reduced = false;
        }
        if ack.marks > 0 && !self.reduced {
            let cut = (self.rate as f64 * (1.0 - self.alpha / 2.0)) as u64;
            self.rate = cut.max(p.min_rate_bps);
            (self.reduced, self.high, update.cut) = (true, ack.next, true);
        }
        if !self.reduced && update.new_batch {
            self.rate = self.rate.saturating_add(p.ai_bps).min(p.line_bps);
        }
        // A cut changes both.
        (update.new_batch || before != (self.rate, self.reduced)).then_some(update)
    }
}

impl CongestionControl for Dctcp {
    fn permit(&self) -> Permit {
        Permit::windowed(self.rate, self.window.at(self.rate, self.params.line_bps))
    }

    fn on_ack(&mut self, ack: &Ack<'_>) {
        self.update(ack);
    }
}
