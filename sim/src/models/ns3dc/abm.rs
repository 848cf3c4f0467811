//! ABM (SIGCOMM '22): dynamic thresholds divided by the crowd and scaled by the drain rate.

use super::crowd::{Crowd, FULL_BYTES};
use super::{Counters, DcParams, DcParamsError, Dt, Ns3Dc, Policy};
use weir_dataplane::types::PRIORITIES;

/// A queue that sent no more than this in a window keeps its full rate.
const IDLE_BYTES: u64 = 2_048;

/// The measuring window of [`Abm`].
#[derive(Clone, Debug, PartialEq)]
pub struct AbmParams {
    /// Length of the window between two ticks, in nanoseconds.
    pub window_ns: f64,
    /// Rate of each port, in bit/s: one element per port. The original has one rate for all.
    pub port_bps: Vec<f64>,
}

/// One side of the switch: crowds, bytes sent in the window, and rates of the last window.
#[derive(Clone, Debug)]
struct Side {
    crowd: Crowd,
    sent: Box<[[u64; PRIORITIES]]>,
    /// r: share of the port's rate, 1 for queues that are short or idle.
    rate: Box<[[f64; PRIORITIES]]>,
}

impl Side {
    fn new(ports: usize) -> Self {
        Self {
            crowd: Crowd::new(ports),
            sent: vec![[0; PRIORITIES]; ports].into(),
            rate: vec![[1.0; PRIORITIES]; ports].into(),
        }
    }

    /// alpha * free * (1 / max(1, n_q)) * r, left to right.
    #[inline]
    fn threshold(&self, alpha: f64, free: u64, port: usize, prio: usize, bytes: u64) -> u64 {
        let factor = self.crowd.factor(port, prio, bytes);
        (alpha * free as f64 * factor * self.rate[port][prio]) as u64
    }

    fn tick(&mut self, params: &AbmParams, held: impl Fn(usize, usize) -> u64) {
        let sides = self.rate.iter_mut().zip(&mut self.sent).zip(&params.port_bps);
        for (port, ((rates, sents), port_bps)) in sides.enumerate() {
            for (prio, (rate, sent)) in rates.iter_mut().zip(sents).enumerate() {
                let busy = held(port, prio) > FULL_BYTES && *sent > IDLE_BYTES;
                *rate = if busy { *sent as f64 * 8e9 / params.window_ns / port_bps } else { 1.0 };
                *sent = 0;
            }
        }
    }
}

/// Active buffer management. The owner calls [`Ns3Dc::tick`] once per window.
///
/// Lossless egress stays plain [`Dt`].
#[derive(Clone, Debug)]
pub struct Abm {
    params: AbmParams,
    ingress: Side,
    egress: Side,
}

impl Ns3Dc<Abm> {
    /// An empty switch that measures rates as `window` says.
    ///
    /// # Errors
    /// See [`DcParams::check`].
    pub fn abm(params: DcParams, window: AbmParams) -> Result<Self, DcParamsError> {
        let ports = params.xoff.len();
        if window.port_bps.len() != ports {
            return Err(DcParamsError::Length {
                list: "port_bps",
                found: window.port_bps.len(),
                wanted: ports,
            });
        }
        let policy = Abm { params: window, ingress: Side::new(ports), egress: Side::new(ports) };
        Ok(Self { counters: Counters::new(params)?, policy })
    }
}

impl Policy for Abm {
    #[inline]
    fn ingress_threshold(&self, counters: &Counters, in_port: usize, prio: usize) -> u64 {
        let alpha = counters.params().alpha_ingress[in_port][prio];
        let bytes = counters.used(in_port, prio);
        self.ingress.threshold(alpha, counters.ingress_free(), in_port, prio, bytes)
    }

    #[inline]
    fn egress_threshold(&self, counters: &Counters, out_port: usize, prio: usize) -> u64 {
        if !counters.lossy(prio) {
            return Dt.egress_threshold(counters, out_port, prio);
        }
        let alpha = counters.params().alpha_egress[out_port][prio];
        let bytes = counters.egress(out_port, prio);
        self.egress.threshold(alpha, counters.egress_free(true), out_port, prio, bytes)
    }

    #[inline]
    fn remember_ingress(&mut self, counters: &Counters, in_port: usize, prio: usize) {
        self.ingress.crowd.remember(in_port, prio, counters.used(in_port, prio));
    }

    #[inline]
    fn remember_egress(&mut self, counters: &Counters, out_port: usize, prio: usize) {
        if counters.lossy(prio) {
            self.egress.crowd.remember(out_port, prio, counters.egress(out_port, prio));
        }
    }

    /// Rates follow from what was sent in the window, and counting starts anew.
    fn window_ended(&mut self, counters: &Counters) {
        self.ingress.tick(&self.params, |port, prio| counters.used(port, prio));
        self.egress.tick(&self.params, |port, prio| counters.egress(port, prio));
    }

    fn released(&mut self, _: &Counters, in_port: usize, prio: usize, out_port: usize, bytes: u64) {
        self.ingress.sent[in_port][prio] += bytes;
        self.egress.sent[out_port][prio] += bytes;
    }
}
