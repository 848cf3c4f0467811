//! HPCC (Li et al., SIGCOMM 2019) as the published simulator has it: `CC_MODE 3`.
//!
//! Every acknowledgement brings the INT records of its path. The link with the largest load, in transmit rate and
//! queue, sets the pace; the smoothed load and the saved records move on every acknowledgement, the reference rate
//! once per window.
use super::telemetry::{IntHop, MAX_HOPS};
use super::{Ack, CongestionControl, Moment, Permit, Steer, Window};

/// What a sender is configured with.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Params {
    /// Line rate of the sender: its first rate and its highest, bit/s.
    pub line_bps: u64,
    /// Base round trip T, ns.
    pub base_rtt: u64,
    /// Bandwidth-delay product W, bytes: what queues are measured by.
    pub bdp: u64,
    /// Load aimed at (`U_TARGET`).
    pub target: f64,
    /// Added in every step (`RATE_AI`), bit/s.
    pub ai_bps: u64,
    /// Lowest rate (`MIN_RATE`), bit/s.
    pub min_rate_bps: u64,
    /// Additive steps in a row before one by a factor (`MI_THRESH`).
    pub mi_thresh: u32,
    /// The rate follows every acknowledgement, not one per window (`FAST_REACT`).
    pub fast_react: bool,
    /// A rate per hop, of which the lowest counts (`MULTI_RATE`).
    pub multi_rate: bool,
    /// Between windows, hops without a queue are passed over (`SAMPLE_FEEDBACK`).
    pub sample_feedback: bool,
    /// Multiplier of the units of INT records (`INT_MULTI`).
    pub int_multi: u64,
}

impl Default for Params {
    /// The published preset for 100 Gb/s; T and W are of a path.
    fn default() -> Self {
        Self {
            line_bps: 100_000_000_000,
            base_rtt: 4160,
            bdp: 52_000,
            target: 0.95,
            ai_bps: 40_000_000,
            min_rate_bps: 1_000_000_000,
            mi_thresh: 0,
            fast_react: true,
            multi_rate: false,
            sample_feedback: false,
            int_multi: 4,
        }
    }
}

/// State of one hop.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Hop {
    /// Load found by the last update; 0: not looked at.
    pub load: f64,
    /// Smoothed load (`MULTI_RATE`).
    pub ewma: f64,
    /// Reference rate (`MULTI_RATE`), bit/s.
    pub rate_bps: u64,
    /// Additive steps since the last one by a factor (`MULTI_RATE`).
    pub stage: u32,
}

/// What an acknowledgement did, and the state after it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Update {
    /// Which kind it was.
    pub moment: Moment,
    /// Largest load of a hop; 0 where none was computed.
    pub load: f64,
    /// Time it was measured over, ns.
    pub over: u64,
    /// Smoothed load by the target; 0 where none was computed.
    pub c: f64,
    /// A new rate was computed.
    pub rated: bool,
    /// Hops, in the order of the path.
    pub hops: [Hop; MAX_HOPS],
}

/// One sender.
#[derive(Clone, Debug)]
pub struct Hpcc {
    params: Params,
    window: Window,
    rate: u64,
    reference: u64,
    stage: u32,
    u: f64,
    last_update: u64,
    saved: [IntHop; MAX_HOPS],
    hops: [Hop; MAX_HOPS],
}

impl Hpcc {
    /// A sender at line rate.
    pub fn new(params: Params, window: Window) -> Self {
        let line = params.line_bps;
        let rate_bps = if params.multi_rate { line } else { 0 };
        Self {
            params,
            window,
            rate: line,
            reference: line,
            stage: 0,
            u: 1.0,
            last_update: 0,
            saved: [IntHop::default(); MAX_HOPS],
            hops: [Hop { load: 0.0, ewma: 1.0, rate_bps, stage: 0 }; MAX_HOPS],
        }
    }

    /// Rate, bit/s.
    #[inline]
    pub fn rate_bps(&self) -> u64 {
        self.rate
    }

    /// Rate that updates between windows start from, bit/s.
    pub fn reference_bps(&self) -> u64 {
        self.reference
    }

    /// Additive steps since the last one by a factor.
    pub fn stage(&self) -> u32 {
        self.stage
    }

    /// Smoothed load.
    pub fn load(&self) -> f64 {
        self.u
    }

    /// An acknowledgement beyond this byte ends a window.
    pub fn last_update(&self) -> u64 {
        self.last_update
    }

    fn steer(&self) -> Steer {
        let Params { line_bps, min_rate_bps, ai_bps, mi_thresh, .. } = self.params;
        Steer { line_bps, min_rate_bps, ai_bps, mi_thresh }
    }

    /// Takes an acknowledgement; `None`: it changed nothing.
    pub fn update(&mut self, ack: &Ack<'_>) -> Option<Update> {
        let hops = &ack.hops[..ack.hops.len().min(MAX_HOPS)];
        self.hops.iter_mut().for_each(|hop| hop.load = 0.0);
        if self.last_update == 0 {
            self.last_update = ack.next;
            self.saved[..hops.len()].copy_from_slice(hops);
            return Some(self.done(Moment::First, 0.0, 0, 0.0, false));
        }
        let full = ack.acked > self.last_update;
        if !full && !self.params.fast_react {
            return None;
        }
        let moment = if full { Moment::Full } else { Moment::Between };
        // Counters of other ports say nothing beside those that are saved (section 4.1 of the paper).
        let moved = hops.iter().zip(&self.saved).any(|(hop, saved)| hop.port != saved.port);
        let update = if moved {
            self.saved[..hops.len()].copy_from_slice(hops);
            self.done(moment, 0.0, 0, 0.0, false)
        } else if self.params.multi_rate {
            self.rate_per_hop(hops, full, moment)
        } else {
            self.rate_of_path(hops, full, moment)
        };
        if full && ack.next > self.last_update {
            self.last_update = ack.next;
        }
        Some(update)
    }

    /// The load of hop `i` since the saved record, and the time it is of; `None`: it is passed over.
    fn measure(&mut self, i: usize, hop: &IntHop, full: bool) -> Option<(f64, u64)> {
        if self.params.sample_feedback && !full && hop.qlen == 0 {
            return None;
        }
        let (p, saved) = (&self.params, &self.saved[i]);
        let tau = hop.since(saved);
        let bytes = hop.bytes_since(saved, p.int_multi);
        let queued = hop.queued(p.int_multi).min(saved.queued(p.int_multi));
        let line = hop.rate_bps() as f64;
        let tx = (8 * bytes) as f64 / (tau as f64 * 1e-9);
        let load = tx / line + queued as f64 * p.line_bps as f64 / line / p.bdp as f64;
        self.saved[i] = *hop;
        self.hops[i].load = load;
        Some((load, tau))
    }

    fn rate_of_path(&mut self, hops: &[IntHop], full: bool, moment: Moment) -> Update {
        let (mut largest, mut over, mut seen) = (0.0, 0, false);
        for (i, hop) in hops.iter().enumerate() {
            let Some((load, tau)) = self.measure(i, hop, full) else { continue };
            seen = true;
            if load > largest {
                (largest, over) = (load, tau);
            }
        }
        if !seen {
            return self.done(moment, 0.0, 0, 0.0, false);
        }
        let t = self.params.base_rtt;
        let over = over.min(t);
        self.u = (self.u * (t - over) as f64 + largest * over as f64) / t as f64;
        let c = self.u / self.params.target;
        let (rate, stage) = self.steer().step(self.reference, self.stage, c);
        self.rate = rate;
        if full {
            (self.reference, self.stage) = (rate, stage);
        }
        self.done(moment, largest, over, c, true)
    }

    fn rate_per_hop(&mut self, hops: &[IntHop], full: bool, moment: Moment) -> Update {
        let (t, mut lowest, mut seen) = (self.params.base_rtt, self.params.line_bps, false);
        for (i, hop) in hops.iter().enumerate() {
            let Some((load, tau)) = self.measure(i, hop, full) else {
                lowest = lowest.min(self.hops[i].rate_bps);
                continue;
            };
            seen = true;
            let tau = tau.min(t);
            let (steer, state) = (self.steer(), &mut self.hops[i]);
            state.ewma = (state.ewma * (t - tau) as f64 + load * tau as f64) / t as f64;
            let (rate, stage) = steer.step(state.rate_bps, state.stage, state.ewma / self.params.target);
            lowest = lowest.min(rate);
            if full {
                (state.rate_bps, state.stage) = (rate, stage);
            }
        }
        if seen {
            self.rate = lowest;
            if full {
                self.reference = lowest;
            }
        }
        self.done(moment, 0.0, 0, 0.0, seen)
    }

    fn done(&self, moment: Moment, load: f64, over: u64, c: f64, rated: bool) -> Update {
        Update { moment, load, over, c, rated, hops: self.hops }
    }
}

impl CongestionControl for Hpcc {
    fn permit(&self) -> Permit {
        Permit::windowed(self.rate, self.window.at(self.rate, self.params.line_bps))
    }

    fn on_ack(&mut self, ack: &Ack<'_>) {
        self.update(ack);
    }
}
