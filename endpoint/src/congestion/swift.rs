//! Swift (Kumar et al., SIGCOMM 2020, algorithm 1): a window steered by the delay of acknowledgements.
//!
//! The target delay grows with the hops of the path and, for small windows, with the inverse root of the window:
//! many flows need a longer queue. A window below one packet becomes a pause between packets. The endpoint's own
//! delay, which the paper steers with a second window, is part of the round trip here: hosts answer at once.
use super::{Ack, CongestionControl, Permit};
use weir_dataplane::types::{Nanos, wire_bytes};

/// What a sender is configured with. Windows are in packets.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Params {
    /// Line rate of the sender, bit/s.
    pub line_bps: u64,
    /// Payload bytes of a packet.
    pub payload: u64,
    /// Target delay of a path without hops and with a large window, ns.
    pub base_target: Nanos,
    /// Added to the target per hop, ns.
    pub hop_scale: Nanos,
    /// Switches on the path.
    pub hops: u32,
    /// Most that a small window adds to the target, ns.
    pub flow_range: Nanos,
    /// Window from which on nothing is added.
    pub flow_max: f64,
    /// Window below which all of it is.
    pub flow_min: f64,
    /// Packets added per round trip.
    pub ai: f64,
    /// Share of the excess delay that a decrease takes.
    pub beta: f64,
    /// Largest share a decrease takes.
    pub max_mdf: f64,
    /// Smallest window.
    pub min_cwnd: f64,
    /// Largest window.
    pub max_cwnd: f64,
    /// The first.
    pub initial_cwnd: f64,
    /// Timeouts in a row after which the window is the smallest.
    pub retx_reset: u32,
}

/// One sender.
#[derive(Clone, Debug)]
pub struct Swift {
    params: Params,
    cwnd: f64,
    /// Slope and offset of what a window adds to the target, ns.
    slope: f64,
    offset: f64,
    rtt: Nanos,
    /// Bits on the wire of the last frame: what a sender spaces by a rate.
    frame_bits: u64,
    acked: u64,
    last_decrease: Nanos,
    timeouts: u32,
}

impl Swift {
    /// A sender with the first window.
    pub fn new(params: Params) -> Self {
        let (min, max) = (params.flow_min.sqrt().recip(), params.flow_max.sqrt().recip());
        let slope = params.flow_range as f64 / (min - max);
        Self {
            params,
            cwnd: params.initial_cwnd,
            slope,
            offset: -slope * max,
            rtt: 0,
            frame_bits: 0,
            acked: 0,
            last_decrease: 0,
            timeouts: 0,
        }
    }

    /// Window, packets.
    pub fn cwnd(&self) -> f64 {
        self.cwnd
    }

    /// The delay it aims at now, ns.
    pub fn target(&self) -> f64 {
        let p = &self.params;
        let scaled = self.slope / self.cwnd.sqrt() + self.offset;
        (p.base_target + u64::from(p.hops) * p.hop_scale) as f64 + scaled.clamp(0.0, p.flow_range as f64)
    }

    fn may_decrease(&self, now: Nanos) -> bool {
        now.saturating_sub(self.last_decrease) >= self.rtt
    }

    fn set(&mut self, cwnd: f64, now: Nanos) {
        let cwnd = cwnd.clamp(self.params.min_cwnd, self.params.max_cwnd);
        if cwnd < self.cwnd {
            self.last_decrease = now;
        }
        self.cwnd = cwnd;
    }

    /// As far as it goes at once, if it may.
    fn decrease(&mut self, now: Nanos) {
        if self.may_decrease(now) {
            self.set(self.cwnd * (1.0 - self.params.max_mdf), now);
        }
    }
}

impl CongestionControl for Swift {
    fn permit(&self) -> Permit {
        let p = &self.params;
        // Whole packets: the next one goes if all of it is within the window.
        let window = self.cwnd.max(1.0) as u64 * p.payload;
        if self.cwnd >= 1.0 || self.rtt == 0 {
            return Permit::windowed(p.line_bps, window);
        }
        // The rate at which the next packet goes a round trip over the window after the last one.
        let rate = self.cwnd * self.frame_bits as f64 * 1e9 / self.rtt as f64;
        Permit::windowed((rate as u64).clamp(1, p.line_bps), window)
    }

    fn on_ack(&mut self, ack: &Ack<'_>) {
        let p = self.params;
        let packets = ack.acked.saturating_sub(self.acked) as f64 / p.payload as f64;
        self.acked = self.acked.max(ack.acked);
        (self.rtt, self.timeouts) = (ack.rtt, 0);
        let (delay, target) = (ack.rtt as f64, self.target());
        if delay < target {
            let step = if self.cwnd >= 1.0 { p.ai / self.cwnd * packets } else { p.ai * packets };
            self.set(self.cwnd + step, ack.now);
        } else if self.may_decrease(ack.now) {
            let left = (1.0 - p.beta * (delay - target) / delay).max(1.0 - p.max_mdf);
            self.set(self.cwnd * left, ack.now);
        }
    }

    fn on_sent(&mut self, bytes: u64, _: Nanos) {
        self.frame_bits = wire_bytes(bytes) * 8;
    }

    // Whoever is told of a loss is answered: only silence counts towards the smallest window.
    fn on_loss(&mut self, now: Nanos) {
        self.timeouts = 0;
        self.decrease(now);
    }

    fn on_timeout(&mut self, now: Nanos) {
        self.timeouts += 1;
        if self.timeouts >= self.params.retx_reset {
            self.set(self.params.min_cwnd, now);
        } else {
            self.decrease(now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn params() -> Params {
        Params {
            line_bps: 100_000_000_000,
            payload: 1000,
            base_target: 25_000,
            hop_scale: 1000,
            hops: 2,
            flow_range: 100_000,
            flow_max: 100.0,
            flow_min: 0.1,
            ai: 1.0,
            beta: 0.8,
            max_mdf: 0.5,
            min_cwnd: 0.001,
            max_cwnd: 100.0,
            initial_cwnd: 100.0,
            retx_reset: 5,
        }
    }

    fn ack(now: Nanos, acked: u64, rtt: Nanos) -> Ack<'static> {
        Ack { now, acked, next: acked, rtt, marks: 0, hops: &[], power: 0, draw: 0 }
    }

    /// Section 3.5 of the paper: nothing is added at the largest window, all of it at the smallest.
    #[test]
    fn the_target_grows_as_the_window_shrinks() {
        let mut swift = Swift::new(params());
        assert!((swift.target() - 27_000.0).abs() < 1e-6, "{}", swift.target());
        swift.cwnd = 0.1;
        assert!((swift.target() - 127_000.0).abs() < 1e-6, "{}", swift.target());
        swift.cwnd = 0.001;
        assert!((swift.target() - 127_000.0).abs() < 1e-6);
        swift.cwnd = 1.0;
        let one = swift.target();
        swift.cwnd = 4.0;
        assert!(one > swift.target() && swift.target() > 27_000.0);
    }

    /// Algorithm 1: `ai` packets per window of acknowledgements; one decrease per round trip, of at most `max_mdf`.
    #[test]
    fn windows_move_as_in_algorithm_1() {
        let mut swift = Swift::new(params());
        swift.on_ack(&ack(1_000_000, 1000, 200_000));
        // 1 - 0.8 * (200 - 27) / 200 = 0.308 is less than half.
        assert!((swift.cwnd() - 50.0).abs() < 1e-9);
        swift.on_ack(&ack(1_000_100, 2000, 200_000));
        assert!((swift.cwnd() - 50.0).abs() < 1e-9, "one decrease per round trip");
        for i in 0..50 {
            swift.on_ack(&ack(1_000_200 + i, 3000 + i * 1000, 20_000));
        }
        assert!((swift.cwnd() - 51.0).abs() < 0.02, "{}", swift.cwnd());
    }

    /// Algorithm 1: timeouts in a row are counted, losses that somebody tells of are not, however many at once.
    #[test]
    fn only_silence_leads_to_the_smallest_window() {
        let mut swift = Swift::new(params());
        swift.on_ack(&ack(900_000, 1000, 20_000));
        (0..20).for_each(|i| swift.on_loss(1_000_000 + i));
        assert!((swift.cwnd() - 50.0).abs() < 1e-9, "one decrease per round trip: {}", swift.cwnd());
        (0..4).for_each(|i| swift.on_timeout(2_000_000 + i));
        swift.on_loss(3_000_000);
        (0..4).for_each(|i| swift.on_timeout(4_000_000 + i));
        assert!(swift.cwnd() > 1.0, "{}", swift.cwnd());
        swift.on_timeout(5_000_000);
        assert!((swift.cwnd() - 0.001).abs() < 1e-9, "{}", swift.cwnd());
    }

    #[test]
    fn less_than_a_packet_is_a_pace() {
        let mut swift = Swift::new(Params { max_cwnd: 0.5, initial_cwnd: 0.5, ..params() });
        swift.on_sent(1066, 0);
        swift.on_ack(&ack(1, 0, 20_000));
        let permit = swift.permit();
        // 0.5 packets, of 1090 bytes on the wire, per 20 us.
        assert_eq!((permit.rate_bps, permit.window), (218_000_000, 1000));
    }
}
