//! HPCC over PINT (Ben Basat et al., SIGCOMM 2020) as the published simulator has it: `CC_MODE 10`.
//!
//! A switch keeps the smoothed load of each port and writes its logarithm, rounded at random, into the frame, where
//! the largest one of the path stays. Logarithms and powers are those of the C library.
use super::{Ack, CongestionControl, Moment, Permit, Steer, Window};
use weir_dataplane::types::Nanos;

/// Units of the load in a code: 1 is 512.
const LOAD_UNITS: f64 = 512.0;
/// A draw is heeded in units of this.
const DRAW: u32 = 65_536;
/// Fraction bits of a switch's logarithms.
const LOG_UNITS: f64 = 32_768.0;
/// Fraction bits of a switch's load.
const KEPT_UNITS: f64 = 8192.0;
/// Bits of an operand of a switch's logarithms.
const OPERAND_BITS: i32 = 16;

/// What a sender is configured with.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Params {
    /// Line rate of the sender: its first rate and its highest, bit/s.
    pub line_bps: u64,
    /// Load aimed at (`U_TARGET`).
    pub target: f64,
    /// Added in every step (`RATE_AI`), bit/s.
    pub ai_bps: u64,
    /// Lowest rate (`MIN_RATE`), bit/s.
    pub min_rate_bps: u64,
    /// Additive steps in a row before one by a factor (`MI_THRESH`).
    pub mi_thresh: u32,
    /// Base of the codes (`PINT_LOG_BASE`).
    pub log_base: f64,
    /// Share of the acknowledgements that are heeded (`PINT_PROB`).
    pub probability: f64,
}

impl Default for Params {
    /// The published preset for 100 Gb/s, base 1.05.
    fn default() -> Self {
        Self {
            line_bps: 100_000_000_000,
            target: 0.95,
            ai_bps: 40_000_000,
            min_rate_bps: 1_000_000_000,
            mi_thresh: 0,
            log_base: 1.05,
            probability: 1.0,
        }
    }
}

/// What an acknowledgement did.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Update {
    /// Which kind it was.
    pub moment: Moment,
    /// Load its code stands for; 0 where none was computed.
    pub load: f64,
    /// The same by the target.
    pub c: f64,
}

/// One sender.
#[derive(Clone, Debug)]
pub struct Pint {
    params: Params,
    window: Window,
    rate: u64,
    reference: u64,
    stage: u32,
    last_update: u64,
}

impl Pint {
    /// A sender at line rate.
    pub fn new(params: Params, window: Window) -> Self {
        let line = params.line_bps;
        Self { params, window, rate: line, reference: line, stage: 0, last_update: 0 }
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

    /// An acknowledgement beyond this byte ends a window.
    pub fn last_update(&self) -> u64 {
        self.last_update
    }

    /// Takes an acknowledgement with its draw; `None`: it is not heeded.
    pub fn update(&mut self, ack: &Ack<'_>) -> Option<Update> {
        let p = self.params;
        if ack.draw % DRAW >= (f64::from(DRAW) * p.probability) as u32 {
            return None;
        }
        if self.last_update == 0 {
            self.last_update = ack.next;
            return Some(Update { moment: Moment::First, load: 0.0, c: 0.0 });
        }
        let full = ack.acked > self.last_update;
        let load = p.log_base.powf(f64::from(ack.power)) / LOAD_UNITS;
        let c = load / p.target;
        let Params { line_bps, min_rate_bps, ai_bps, mi_thresh, .. } = p;
        let steer = Steer { line_bps, min_rate_bps, ai_bps, mi_thresh };
        let (rate, stage) = steer.step(self.reference, self.stage, c);
        self.rate = rate;
        if full {
            (self.reference, self.stage) = (rate, stage);
            if ack.next > self.last_update {
                self.last_update = ack.next;
            }
        }
        Some(Update { moment: if full { Moment::Full } else { Moment::Between }, load, c })
    }
}

impl CongestionControl for Pint {
    fn permit(&self) -> Permit {
        Permit::windowed(self.rate, self.window.at(self.rate, self.params.line_bps))
    }

    fn on_ack(&mut self, ack: &Ack<'_>) {
        self.update(ack);
    }
}

/// The load of one port as its switch keeps it.
#[derive(Clone, Copy, Debug, Default)]
pub struct PortLoad {
    load: f64,
    last_bytes: u64,
    last_at: Nanos,
}

/// What a data frame meets when it leaves.
#[derive(Clone, Copy, Debug)]
pub struct Departure {
    /// When; the clock began at 0 with the port idle.
    pub now: Nanos,
    /// Rate of the port, bit/s.
    pub rate_bps: u64,
    /// Bytes that wait behind it.
    pub queued: u64,
    /// Base round trip T, ns.
    pub base_rtt: Nanos,
    /// Base of the codes.
    pub log_base: f64,
}

impl PortLoad {
    /// A frame of any kind, `bytes` long, begins to leave.
    #[inline]
    pub fn sent(&mut self, bytes: u64, now: Nanos) {
        (self.last_bytes, self.last_at) = (bytes, now);
    }

    /// A data frame is about to leave: moves the load, and returns its code. `draw` gives 31 random bits.
    pub fn stamp(&mut self, d: &Departure, draw: &mut impl FnMut() -> u32) -> u16 {
        let t = d.base_rtt;
        let gap = (d.now - self.last_at).min(t);
        let log_t = (t as f64).log2() * LOG_UNITS;
        let log_rate = ((d.rate_bps / 8) as f64).log2() * LOG_UNITS;
        let log_second = 1e9f64.log2() * LOG_UNITS;
        let mut queue = 0.0;
        if d.queued >> 8 > 0 {
            let logs = log(gap, draw) + log(d.queued >> 8, draw);
            queue = 2f64.powf((f64::from(logs) + log_second - log_rate - 2.0 * log_t) / LOG_UNITS) * 256.0;
        }
        let mut sent = 0.0;
        if self.last_bytes > 0 {
            let logs = log(self.last_bytes, draw);
            sent = 2f64.powf((f64::from(logs) + log_second - log_rate - log_t) / LOG_UNITS);
        }
        let mut old = 0.0;
        if t > gap && self.load > 0.0 {
            let logs = log(t - gap, draw) + log((self.load * KEPT_UNITS).round() as u64, draw);
            old = 2f64.powf((f64::from(logs) - log_t) / LOG_UNITS) / KEPT_UNITS;
        }
        self.load = queue + sent + old;
        encode(self.load, d.log_base, draw)
    }
}

/// The base-2 logarithm of `x`, rounded at random to 16 bits of operand, in units of 2^-15. That of 0 is so small
/// that its power is 0.
fn log(x: u64, draw: &mut impl FnMut() -> u32) -> i32 {
    if x == 0 {
        return i32::MIN / 4;
    }
    let bits = (x as f64).log2() as i32 + 1;
    let mut rounded = x;
    if bits > OPERAND_BITS {
        let cut = bits - OPERAND_BITS;
        let mask = (1u64 << cut) - 1;
        rounded = x & !mask;
        if x & mask > u64::from(draw()) & mask {
            rounded += 1 << cut;
        }
    }
    ((rounded as f64).log2() * LOG_UNITS) as i32
}

/// The code of a load: one of the two nearest powers, at random.
fn encode(load: f64, base: f64, draw: &mut impl FnMut() -> u32) -> u16 {
    let n = (load * LOAD_UNITS).ceil().max(1.0);
    let power = n.ln() * (1.0 / base.ln());
    let (high, low) = (power.ceil(), power.floor());
    let (mut above, below) = (base.powf(high), base.powf(low));
    if high == low {
        above *= base;
    }
    let chance = (n - below) / (above - below) * f64::from(DRAW);
    let code = if f64::from(draw() % DRAW) < chance { high } else { low };
    code as u16
}

/// The sequence of the C library's `rand()` that was never seeded, from which the published simulator draws.
#[derive(Clone, Debug)]
pub struct LibcRand {
    state: [u32; 34],
    at: usize,
}

impl Default for LibcRand {
    /// The additive feedback generator of glibc (`TYPE_3`) with seed 1.
    fn default() -> Self {
        let mut r = [0u32; 34];
        r[0] = 1;
        for i in 1..31 {
            r[i] = (16_807 * u64::from(r[i - 1]) % 0x7fff_ffff) as u32;
        }
        for i in 31..34 {
            r[i] = r[i - 31];
        }
        let mut rand = Self { state: r, at: 0 };
        for _ in 34..344 {
            rand.step();
        }
        rand
    }
}

impl LibcRand {
    fn step(&mut self) -> u32 {
        // Entry `at` is 34 back, so 31 back is 3 further on, and 3 back is 31 further on.
        let n = self.state.len();
        let value = self.state[(self.at + 31) % n].wrapping_add(self.state[(self.at + 3) % n]);
        self.state[self.at] = value;
        self.at = (self.at + 1) % n;
        value
    }

    /// The next 31 bits.
    pub fn draw(&mut self) -> u32 {
        self.step() >> 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sequence_begins_as_published() {
        let mut rand = LibcRand::default();
        assert_eq!([rand.draw(), rand.draw(), rand.draw()], [1_804_289_383, 846_930_886, 1_681_692_777]);
    }

    /// A full port has a load of 1, whose code stands for 1 within a step of the base.
    #[test]
    fn a_busy_port_reads_as_full() {
        let (mut port, mut rand) = (PortLoad::default(), LibcRand::default());
        let mut draw = || rand.draw();
        let mut code = 0;
        for frame in 1..2000u64 {
            let now = 1_000_000 + frame * 84;
            let d = Departure { now, rate_bps: 100_000_000_000, queued: 0, base_rtt: 4160, log_base: 1.05 };
            code = port.stamp(&d, &mut draw);
            port.sent(1050, now);
        }
        let load = 1.05f64.powi(code.into()) / LOAD_UNITS;
        assert!((0.95..1.1).contains(&load), "{load}");
    }
}
