//! NSCC: the sender-based congestion control of Ultra Ethernet (UET 1.0, section 3.6.13), a window steered by queueing
//! delay and marks.
//!
//! An acknowledgement with or without a mark, of a delay below or above the target, is one of four cases: proportional
//! increase (no mark, short), fair increase (no mark, long), multiplicative decrease (mark, long), nothing (mark,
//! short: the queue is about to end). Where far less arrives than the window allows, quick adapt takes what arrived in
//! a round trip for the new window. The order of the steps is that of the simulator of the Ultra Ethernet Consortium
//! (ultraethernet/uet-htsim, 40ccb05); windows are of bytes on the wire.
use super::{Ack, CongestionControl, Permit};
use weir_dataplane::types::Nanos;

/// Bytes in flight for which the published constants are given: 100 Gbit/s and 12 us.
const REFERENCE_BDP: f64 = 150_000.0;
/// Round trip for which they are given, ns.
const REFERENCE_RTT: f64 = 12_000.0;
/// A delay below which a path counts as empty, ns.
const EMPTY: Nanos = 1000;
/// Quick adapt looks at delays of so many targets.
const QUICK_ADAPT_TARGETS: Nanos = 4;
/// Increases are added once so many packets have been acknowledged, and once a round trip.
const ADJUST_PACKETS: f64 = 8.0;
/// A decrease leaves at least this share of the window.
const MIN_LEFT: f64 = 0.5;

/// What a sender is configured with. The four increases are in packets, as published for `REFERENCE_BDP` and scaled
/// with the bandwidth-delay product.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Params {
    /// Line rate of the sender, bit/s.
    pub line_bps: u64,
    /// Payload bytes of a full packet.
    pub payload: u64,
    /// Bytes of a full packet on the wire.
    pub packet: u64,
    /// Longest round trip of the network without queues, ns. The round trip of the path is taken to be this until a
    /// shorter one is seen.
    pub base_rtt: Nanos,
    /// Queueing delay aimed at, ns.
    pub target_delay: Nanos,
    /// Added per window of unmarked acknowledgements with a delay above the target.
    pub fair: f64,
    /// Added per window of unmarked acknowledgements without delay, for a target of 12 us; less with more delay.
    pub proportional: f64,
    /// Share of the acknowledged bytes that is added when a window of them had no delay.
    pub fast: f64,
    /// Added once per round trip.
    pub eta: f64,
    /// Share of the excess delay that a decrease takes.
    pub gamma: f64,
    /// Weight of the newest delay in the mean that decreases go by.
    pub delay_gain: f64,
    /// Largest window, and the first, in bandwidth-delay products.
    pub max_window: f64,
    /// Quick adapt acts when less than the largest window by two to the power of this has arrived in a round trip;
    /// `None`: never.
    pub quick_adapt_gate: Option<u32>,
}

/// One sender.
#[derive(Clone, Debug)]
pub struct Nscc {
    params: Params,
    /// Window, bytes on the wire.
    cwnd: f64,
    max_window: f64,
    /// Shortest round trip seen, ns.
    base_rtt: Nanos,
    /// Mean queueing delay, ns.
    avg_delay: f64,
    /// Bytes acknowledged so far, of payload.
    acked: u64,
    /// Increase that has not been added yet, bytes times bytes.
    pending: f64,
    /// Bytes acknowledged since the last increase was added.
    received: f64,
    /// Bytes acknowledged without delay, for a fast increase; and one is on.
    without_delay: f64,
    fast: bool,
    last_decrease: Nanos,
    last_adjust: Nanos,
    /// Bytes that arrived since quick adapt looked last, and when it looks next; 0: it has not begun.
    achieved: f64,
    quick_adapt_at: Nanos,
    /// Something was lost since quick adapt acted.
    lost: bool,
    /// Bytes in flight when it acted, whose marks say nothing new, and how many of those are acknowledged.
    to_ignore: f64,
    ignored: f64,
    in_flight: f64,
}

impl Nscc {
    /// A sender with the largest window.
    pub fn new(params: Params) -> Self {
        let max_window = largest(&params, params.base_rtt);
        Self {
            params,
            cwnd: max_window,
            max_window,
            base_rtt: params.base_rtt,
            avg_delay: 0.0,
            acked: 0,
            pending: 0.0,
            received: 0.0,
            without_delay: 0.0,
            fast: false,
            last_decrease: 0,
            last_adjust: 0,
            achieved: 0.0,
            quick_adapt_at: 0,
            lost: false,
            to_ignore: 0.0,
            ignored: 0.0,
            in_flight: 0.0,
        }
    }

    /// Window, bytes on the wire.
    pub fn window(&self) -> f64 {
        self.cwnd
    }

    /// How much larger the network is than the one of the published constants.
    fn scale(&self) -> f64 {
        self.params.base_rtt as f64 * self.params.line_bps as f64 / 8e9 / REFERENCE_BDP
    }

    fn on_wire(&self, payload: u64) -> f64 {
        payload as f64 * self.params.packet as f64 / self.params.payload as f64
    }

    fn clamp(&mut self) {
        self.cwnd = self.cwnd.min(self.max_window).max(self.params.packet as f64);
    }

    /// Takes a round trip into account and returns its queueing delay.
    fn delay(&mut self, rtt: Nanos, marked: bool) -> Nanos {
        if rtt < self.base_rtt {
            self.base_rtt = rtt;
            self.max_window = largest(&self.params, rtt);
        }
        let delay = rtt - self.base_rtt;
        self.average(delay, marked);
        delay
    }

    /// A delay above the target without a mark is that of a queue that has ended.
    fn average(&mut self, delay: Nanos, marked: bool) {
        let sample = if !marked && delay > self.params.target_delay {
            self.base_rtt as f64 * 0.25
        } else {
            delay as f64
        };
        self.avg_delay += self.params.delay_gain * (sample - self.avg_delay);
    }

    /// Sets the window to what arrived, once per round trip and target; `true`: no other rule applies now.
    fn quick_adapt(&mut self, marked: bool, delay: Nanos, loss: bool, now: Nanos) -> bool {
        let Some(gate) = self.params.quick_adapt_gate else { return false };
        let mut acted = false;
        if self.ignored < self.to_ignore && marked {
            acted = true;
        } else if now > self.quick_adapt_at {
            let congested = self.lost || loss || delay > QUICK_ADAPT_TARGETS * self.params.target_delay;
            let starved = self.achieved < self.max_window / f64::powi(2.0, gate as i32);
            if self.quick_adapt_at != 0 && congested && starved {
                self.cwnd = self.achieved.max(self.params.packet as f64);
                (self.to_ignore, self.ignored, self.lost) = (self.in_flight, 0.0, false);
                acted = true;
            }
            self.achieved = 0.0;
            self.quick_adapt_at = now + self.base_rtt + self.params.target_delay;
        }
        if acted {
            (self.pending, self.received) = (0.0, 0.0);
        }
        acted
    }

    fn increase(&mut self, bytes: f64, delay: Nanos) {
        let p = &self.params;
        let (scale, target) = (self.scale(), p.target_delay);
        if delay >= target {
            self.pending += p.fair * p.payload as f64 * scale * bytes;
            return;
        }
        if delay < EMPTY {
            self.without_delay += bytes;
            if self.without_delay > self.cwnd || self.fast {
                self.fast = true;
                self.cwnd += bytes * p.fast * scale;
                return;
            }
        } else {
            self.without_delay = 0.0;
        }
        self.fast = false;
        let per_ns = p.proportional * p.payload as f64 * scale / REFERENCE_RTT;
        self.pending += per_ns * bytes * (target - delay) as f64;
    }

    fn decrease(&mut self, now: Nanos) {
        (self.fast, self.without_delay) = (false, 0.0);
        let target = self.params.target_delay as f64;
        if self.avg_delay > target && now - self.last_decrease > self.base_rtt {
            let left = 1.0 - self.params.gamma * (self.avg_delay - target) / self.avg_delay;
            self.cwnd *= left.max(MIN_LEFT);
            self.last_decrease = now;
        }
    }

    /// Adds what the increases since the last time come to.
    fn adjust(&mut self, now: Nanos) {
        let since = now - self.last_adjust;
        let enough = ADJUST_PACKETS * self.params.packet as f64;
        if self.received <= enough && since <= self.params.base_rtt {
            return;
        }
        self.cwnd += self.pending / self.cwnd;
        if since >= self.params.base_rtt {
            self.cwnd += self.params.eta * self.params.payload as f64 * self.scale();
            self.last_adjust = now;
        }
        (self.pending, self.received) = (0.0, 0.0);
    }
}

/// The largest window with a round trip of `rtt` ns, bytes.
fn largest(params: &Params, rtt: Nanos) -> f64 {
    (params.max_window * rtt as f64 * params.line_bps as f64 / 8e9).max(params.packet as f64)
}

impl CongestionControl for Nscc {
    /// Whole packets: the next one goes if all of it is within the window.
    fn permit(&self) -> Permit {
        let packets = (self.cwnd / self.params.packet as f64) as u64;
        Permit::windowed(self.params.line_bps, packets.max(1) * self.params.payload)
    }

    fn on_ack(&mut self, ack: &Ack<'_>) {
        let bytes = self.on_wire(ack.acked.saturating_sub(self.acked));
        self.acked = self.acked.max(ack.acked);
        self.in_flight = self.on_wire(ack.next.saturating_sub(ack.acked));
        self.achieved += bytes;
        self.received += bytes;
        self.ignored += bytes;
        let marked = ack.marks > 0;
        let delay = self.delay(ack.rtt, marked);
        if self.quick_adapt(marked, delay, false, ack.now) {
            return;
        }
        match marked {
            false => self.increase(bytes, delay),
            true if delay >= self.params.target_delay => self.decrease(ack.now),
            true => {}
        }
        self.clamp();
        self.adjust(ack.now);
        self.clamp();
    }

    /// One packet less, and quick adapt has a reason.
    fn on_loss(&mut self, now: Nanos) {
        let packet = self.params.packet as f64;
        self.ignored += packet;
        self.average(self.params.base_rtt, true);
        self.lost = true;
        if !self.quick_adapt(true, 0, true, now) {
            self.cwnd -= packet;
            self.clamp();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The reference network: nothing is scaled.
    fn params() -> Params {
        Params {
            line_bps: 100_000_000_000,
            payload: 1000,
            packet: 1000,
            base_rtt: 12_000,
            target_delay: 12_000,
            fair: 5.0,
            proportional: 4.0,
            fast: 0.25,
            eta: 0.15,
            gamma: 0.8,
            delay_gain: 0.0125,
            max_window: 1.5,
            quick_adapt_gate: Some(3),
        }
    }

    /// A sender whose window is `cwnd`, with nothing to catch up.
    fn sender(cwnd: f64) -> Nscc {
        Nscc { cwnd, last_adjust: 1_000_000, quick_adapt_at: u64::MAX, ..Nscc::new(params()) }
    }

    fn ack(now: Nanos, acked: u64, rtt: Nanos, marks: u64) -> Ack<'static> {
        Ack { now, acked, next: acked + 50_000, rtt, marks, hops: &[], power: 0, draw: 0 }
    }

    /// Acknowledgements of a packet each.
    fn acks(nscc: &mut Nscc, n: u64, rtt: Nanos, marks: u64) {
        let first = nscc.acked / 1000;
        (1..=n).for_each(|i| nscc.on_ack(&ack(1_000_000 + i, (first + i) * 1000, rtt, marks)));
    }

    #[test]
    fn four_cases_of_delay_and_mark() {
        // A window of unmarked acknowledgements adds `fair` packets, or `proportional` times the share of the target
        // that is left, for a target as long as the reference.
        let mut fair = sender(90_000.0);
        acks(&mut fair, 90, 24_000, 0);
        assert!((fair.window() - 95_000.0).abs() < 300.0, "{}", fair.window());
        let mut proportional = sender(90_000.0);
        acks(&mut proportional, 90, 12_000 + 6000, 0);
        assert!((proportional.window() - 92_000.0).abs() < 100.0, "{}", proportional.window());
        // A mark behind a short queue changes nothing.
        let mut nothing = sender(90_000.0);
        acks(&mut nothing, 90, 12_000 + 6000, 1);
        assert!((nothing.window() - 90_000.0).abs() < 1.0, "{}", nothing.window());
        // Behind a long one the window falls by a share of what the mean is above the target, once a round trip.
        let mut less = Nscc { avg_delay: 24_000.0, ..sender(90_000.0) };
        acks(&mut less, 90, 12_000 + 24_000, 1);
        assert!((less.window() - 90_000.0 * 0.6).abs() < 1.0, "{}", less.window());
    }

    #[test]
    fn an_empty_path_is_filled_fast() {
        let mut nscc = sender(20_000.0);
        acks(&mut nscc, 20, 12_000, 0);
        let before = nscc.window();
        assert!(before < 24_000.0, "{before}");
        acks(&mut nscc, 20, 12_000, 0);
        assert!(nscc.window() > before + 0.2 * 19_000.0, "{} after {before}", nscc.window());
        acks(&mut nscc, 1000, 12_000, 0);
        assert!(
            (nscc.window() - 225_000.0).abs() < 1.0,
            "at most one and a half products: {}",
            nscc.window()
        );
    }

    /// A round trip in which a sixteenth of the largest window arrives, behind a queue of five targets.
    #[test]
    fn quick_adapt_takes_what_arrived() {
        for (gate, window) in [(Some(3), 13_000.0), (Some(5), 225_000.0), (None, 225_000.0)] {
            let mut nscc = Nscc::new(Params { quick_adapt_gate: gate, ..params() });
            nscc.on_ack(&ack(100_000, 1000, 72_000, 1));
            (0..12).for_each(|i| nscc.on_ack(&ack(102_000 + 1800 * i, 2000 + 1000 * i, 72_000, 0)));
            nscc.avg_delay = 0.0;
            nscc.on_ack(&ack(124_100, 14_000, 72_000, 1));
            assert!((nscc.window() - window).abs() < 500.0, "{gate:?}: {}", nscc.window());
            // Marks of what was in flight then say nothing new.
            if gate == Some(3) {
                nscc.avg_delay = 60_000.0;
                acks(&mut nscc, 40, 72_000, 1);
                assert!((nscc.window() - window).abs() < 500.0, "{}", nscc.window());
            }
        }
    }

    #[test]
    fn a_shorter_round_trip_is_the_base() {
        let mut nscc = sender(100_000.0);
        nscc.on_ack(&ack(1_000_001, 1000, 6000, 0));
        assert_eq!((nscc.base_rtt, nscc.permit().window), (6000, 100_000));
        acks(&mut nscc, 1000, 6000, 0);
        assert_eq!(nscc.permit().window, 112_000, "112 500 bytes are 112 whole packets");
    }

    #[test]
    fn losses_cost_a_packet_each_and_never_all() {
        let mut nscc = sender(10_000.0);
        nscc.on_loss(1_000_000);
        assert!((nscc.window() - 9000.0).abs() < 1e-6, "{}", nscc.window());
        (0..100).for_each(|i| nscc.on_loss(1_000_001 + i));
        assert_eq!(nscc.permit().window, 1000);
    }
}
