//! Takes snapshots: keeps the readings of a short window, from which rates follow. Nothing is ever
//! cleared; who wants a difference keeps a baseline.

use crate::flows::Minute;
use crate::snapshot::{LcoreRates, OffCore, PortRates, PortReading, Reading, Snapshot, SwitchInfo};
use std::collections::VecDeque;
use std::sync::Arc;
use weir_dataplane::drops::DROP_REASONS;
use weir_dataplane::stats::{Histogram, LoopStats, Stage};
use weir_dataplane::types::{Nanos, PRIORITIES};

/// Readings kept: at ten per second, a window of one second.
pub const WINDOW: usize = 10;

/// Bits a frame takes on the wire beyond its bytes without FCS: FCS 4, preamble 8, gap 12 bytes.
const OVERHEAD_BITS: f64 = 24.0 * 8.0;

/// Turns readings into snapshots.
#[derive(Debug)]
pub struct Sampler {
    info: Arc<SwitchInfo>,
    history: VecDeque<Arc<Reading>>,
    last_drop: Vec<[Option<u64>; DROP_REASONS]>,
    flows: Vec<Option<Minute>>,
}

impl Sampler {
    /// For this switch.
    pub fn new(info: SwitchInfo) -> Self {
        let last_drop = vec![[None; DROP_REASONS]; info.ports.len()];
        let flows = vec![None; info.ports.len()];
        Self { info: Arc::new(info), history: VecDeque::new(), last_drop, flows }
    }

    /// Limits have changed; ports and workers are the same.
    pub fn renew(&mut self, info: SwitchInfo) {
        self.info = Arc::new(info);
    }

    /// Takes a reading, made at this wall-clock time and this long after start, into account.
    pub fn sample(&mut self, reading: Reading, unix_ms: u64, uptime_ms: u64) -> Snapshot {
        let mut reading = reading;
        for (minute, port) in self.flows.iter_mut().zip(&mut reading.ports) {
            if let Some(reading) = port.flows.take() {
                minute.get_or_insert_default().observe(reading);
            }
        }
        let now = Arc::new(reading);
        if let Some(previous) = self.history.back() {
            for ((port, before), last) in now.ports.iter().zip(&previous.ports).zip(&mut self.last_drop) {
                for (reason, at) in last.iter_mut().enumerate() {
                    if port.stats.drops.0[reason] > before.stats.drops.0[reason] {
                        *at = Some(uptime_ms);
                    }
                }
            }
        }
        let oldest = self.history.front().unwrap_or(&now);
        let ports = (0..now.ports.len())
            .map(|i| {
                let line = self.info.ports.get(i).and_then(|port| port.rate);
                oldest.ports.get(i).map(|then| port_rates(&now.ports[i], then, line)).unwrap_or_default()
            })
            .collect();
        let hz = self.info.hz;
        let mut lcores: Vec<LcoreRates> =
            now.loops.iter().zip(&oldest.loops).map(|(now, then)| lcore_rates(now, then, hz)).collect();
        for ((rates, now), then) in lcores.iter_mut().zip(&now.off_core).zip(&oldest.off_core) {
            rates.off_core = off_core(*now, *then);
        }
        let engines = now.engines.iter().zip(&oldest.engines).map(|(now, then)| now.rates(then)).collect();
        let starting = self.history.len() < WINDOW;
        if !starting {
            self.history.pop_front();
        }
        self.history.push_back(Arc::clone(&now));
        let (info, last_drop, flows) = (Arc::clone(&self.info), self.last_drop.clone(), self.flows.clone());
        let (export, credentials) = Default::default();
        Snapshot {
            info,
            unix_ms,
            uptime_ms,
            starting,
            now,
            ports,
            lcores,
            flows,
            export,
            credentials,
            engines,
            last_drop,
        }
    }
}

/// `count` per second over `window` ns; nothing over no time.
fn per_second(now: u64, then: u64, window: Nanos) -> f64 {
    if window == 0 { 0.0 } else { now.saturating_sub(then) as f64 * 1e9 / window as f64 }
}

fn share(now: u64, then: u64, window: Nanos) -> f64 {
    (per_second(now, then, window) / 1e9).min(1.0)
}

/// What was counted since `then`.
fn since(now: &Histogram, then: &Histogram) -> Histogram {
    let mut difference = Histogram::default();
    for ((d, now), then) in difference.0.iter_mut().zip(&now.0).zip(&then.0) {
        *d = now.saturating_sub(*then);
    }
    difference
}

fn port_rates(now: &PortReading, then: &PortReading, line: Option<u64>) -> PortRates {
    // Each reading carries the time it was published at, so a late sample is not a wrong rate.
    let window = now.gauges.at_ns.saturating_sub(then.gauges.at_ns);
    let rate = |now: u64, then: u64| per_second(now, then, window);
    let (s, t, g, h) = (&now.stats, &then.stats, &now.gauges, &then.gauges);
    let each = |f: &dyn Fn(usize) -> f64| -> [f64; PRIORITIES] { std::array::from_fn(f) };
    let (rx_pps, tx_pps) = (rate(s.rx_packets, t.rx_packets), rate(s.tx_packets, t.tx_packets));
    let (rx_bps, tx_bps) = (rate(s.rx_bytes, t.rx_bytes) * 8.0, rate(s.tx_bytes, t.tx_bytes) * 8.0);
    let used = |bps: f64, pps: f64| line.map_or(0.0, |line| (bps + pps * OVERHEAD_BITS) / line.max(1) as f64);
    PortRates {
        window,
        rx_pps,
        tx_pps,
        rx_bps,
        tx_bps,
        rx_utilisation: used(rx_bps, rx_pps),
        tx_utilisation: used(tx_bps, tx_pps),
        drops: s.drops.0.iter().zip(&t.drops.0).map(|(now, then)| rate(*now, *then)).collect(),
        queue_bps: each(&|q| rate(s.queue_bytes[q], t.queue_bytes[q]) * 8.0),
        queue_pps: each(&|q| rate(s.queue_packets[q], t.queue_packets[q])),
        marked_pps: each(&|q| rate(s.ecn_marked[q], t.ecn_marked[q])),
        rx_paused: each(&|p| share(g.rx_paused_ns[p], h.rx_paused_ns[p], window)),
        tx_paused: each(&|p| share(g.tx_paused_ns[p], h.tx_paused_ns[p], window)),
        latency: std::array::from_fn(|q| now.latency[q].since(&then.latency[q])),
        carried_bps: now.carried.iter().zip(&then.carried).map(|(n, t)| rate(*n, *t) * 8.0).collect(),
    }
}

/// Cycles per frame: of those received up to the queues, of those sent behind them, of both for the rest.
fn stage_cycles(now: &LoopStats, then: &LoopStats, hz: u64) -> [f64; Stage::ALL.len()] {
    let received = now.timed_received.saturating_sub(then.timed_received) as f64;
    let sent = now.timed_sent.saturating_sub(then.timed_sent) as f64;
    Stage::ALL.map(|stage| {
        let ns = now.stage_ns[stage as usize].saturating_sub(then.stage_ns[stage as usize]);
        let frames = match stage {
            Stage::RxDriver | Stage::Receive => received,
            Stage::Transmit | Stage::TxDriver => sent,
            Stage::Tick => (received + sent) / 2.0,
        };
        if frames == 0.0 { 0.0 } else { ns as f64 * hz as f64 / 1e9 / frames }
    })
}

fn lcore_rates(now: &LoopStats, then: &LoopStats, hz: u64) -> LcoreRates {
    let window = now.at_ns.saturating_sub(then.at_ns);
    LcoreRates {
        window,
        turns: per_second(now.turns, then.turns, window),
        busy: share(now.busy_ns, then.busy_ns, window),
        off_core: None,
        turn: since(&now.turn, &then.turn),
        stage_cycles: stage_cycles(now, then, hz),
    }
}

/// Share of the time between two looks; `None` where there were none.
fn off_core(now: Option<OffCore>, then: Option<OffCore>) -> Option<f64> {
    let (now, then) = (now?, then?);
    let window = now.at_ns.saturating_sub(then.at_ns);
    (window > 0).then(|| share(now.ns, then.ns, window))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake;
    use crate::snapshot::{Link, NicStats, Phase};
    use weir_config::AdminStatus;
    use weir_dataplane::drops::DropReason;

    #[test]
    fn rates_follow_the_ports_own_clock() {
        let mut sampler = Sampler::new(fake::info());
        let first = sampler.sample(fake::reading(1), 1_000, 0);
        assert_eq!((first.ports[0].window, first.ports[0].rx_bps), (0, 0.0));
        // The second reading is of 100 ms later, whenever it is taken.
        let second = sampler.sample(fake::reading(2), 9_000, 8_000);
        let rates = &second.ports[0];
        assert_eq!((rates.window, rates.rx_pps, rates.rx_bps), (100_000_000, 10_000.0, 8e7));
        // 1000 bytes and 24 of overhead, 10 000 times a second, at 1 Gb/s.
        assert!((rates.rx_utilisation - 0.08192).abs() < 1e-9, "{}", rates.rx_utilisation);
        assert_eq!((rates.rx_paused[3], rates.tx_paused[3]), (0.25, 0.5));
        assert_eq!(rates.latency[3].frames(), 1000);
        assert_eq!((second.lcores[0].busy, second.lcores[0].turns), (0.4, 100_000.0));
        assert!(second.workers_alive());
        // 500 frames in and 500 out in the timed turns of each step, 50 ns per frame and stage, at 2 GHz.
        assert_eq!(second.lcores[0].stage_cycles, [100.0; 5]);
        assert_eq!(second.ports[1].carried_bps, [8e7, 0.0]);
    }

    /// Whatever is wrong is named, and nothing of it is healthy.
    #[test]
    fn faults_are_named() {
        let faults_of = |info, change: &dyn Fn(&mut Reading)| {
            let mut sampler = Sampler::new(info);
            let [mut first, mut second] = [fake::reading(1), fake::reading(2)];
            [&mut first, &mut second].into_iter().for_each(change);
            sampler.sample(first, 0, 0);
            sampler.sample(second, 100, 100).faults()
        };
        let faults = |change: &dyn Fn(&mut Reading)| faults_of(fake::info(), change);
        let lost = |p: &mut PortReading, reason: DropReason, n| {
            (p.stats.drops.0[reason as usize], p.stats.lossless.0[reason as usize]) = (n + 5, n);
        };
        assert!(faults(&|_| {}).is_empty());
        // The losses of a lossy class are no fault, those of a lossless one are, for whatever reason.
        assert!(faults(&|r| lost(&mut r.ports[0], DropReason::EgressQueueFull, 0)).is_empty());
        for reason in [DropReason::IngressHeadroom, DropReason::IngressNoSlot, DropReason::LookupPortDown] {
            assert_eq!(faults(&|r| lost(&mut r.ports[1], reason, 7)), ["7 lossless drops"]);
        }
        let watchdog = faults(&|r| lost(&mut r.ports[1], DropReason::WatchdogDrop, 9));
        assert_eq!(watchdog, ["9 lossless drops by the watchdog"]);
        assert!(faults(&|r| lost(&mut r.ports[1], DropReason::EgressAdminDown, 9)).is_empty());
        let missed = |r: &mut Reading| {
            r.ports[0].nic = NicStats { rx_missed: 3, rx_no_mbuf: 4, tx_lost: 5, ..NicStats::default() };
        };
        assert_eq!(faults(&missed), ["12 possible lossless drops by drivers"]);
        let off = |r: &mut Reading| {
            let at_ns = r.loops[0].at_ns;
            r.off_core = vec![None, Some(OffCore { ns: at_ns * 3 / 5, at_ns })];
        };
        assert_eq!(faults(&off), ["lcore 2: the worker was off its core 60 % of the time"]);
        // Nor is the link of a port that an operator has switched off.
        let down = |r: &mut Reading| r.ports[1].link = Some(Link { up: false, mbps: None });
        let mut switched_off = fake::info();
        switched_off.ports[1].admin = AdminStatus::Down;
        assert_eq!(
            (faults(&down), faults_of(switched_off, &down)),
            (vec!["link down".to_owned()], Vec::new())
        );
        let all = |r: &mut Reading| {
            r.ports[0].gauges.stormed_queues = 8;
            r.ports[1].link = Some(Link { up: false, mbps: None });
            r.loops[0].received += 1;
            r.phase = Phase::Drain;
        };
        assert_eq!(faults(&all), ["1 frames unaccounted for", "PFC storm", "link down", "draining"]);
    }

    #[test]
    fn the_window_slides() {
        let mut sampler = Sampler::new(fake::info());
        for n in 1..=30 {
            sampler.sample(fake::reading(n), n * 100, n * 100);
        }
        let s = sampler.sample(fake::reading(31), 3_100, 3_100);
        assert_eq!(s.ports[0].window, WINDOW as u64 * 100_000_000);
        assert_eq!(s.ports[0].rx_pps, 10_000.0);
    }

    #[test]
    fn a_worker_that_stands_still_is_noticed() {
        let mut sampler = Sampler::new(fake::info());
        // In the first second nobody knows whether it is about to begin.
        for _ in 0..WINDOW {
            let s = sampler.sample(fake::reading(5), 0, 0);
            assert!(!s.workers_alive());
            assert_eq!(s.faults(), ["starting"]);
        }
        let s = sampler.sample(fake::reading(5), 0, 0);
        assert!(!s.workers_alive());
        assert_eq!(s.faults(), ["a worker stands still"]);
        assert_eq!((s.ports[0].rx_pps, s.lcores[0].busy), (0.0, 0.0));
    }

    #[test]
    fn drops_are_dated_and_conservation_is_by_shard() {
        let mut sampler = Sampler::new(fake::info());
        let mut reading = fake::reading(1);
        let reason = DropReason::IngressHeadroom as usize;
        sampler.sample(reading.clone(), 100, 0);
        reading.ports[1].stats.drops.0[reason] += 2;
        let s = sampler.sample(reading.clone(), 200, 100);
        let s2 = sampler.sample(reading.clone(), 300, 200);
        let when = [s.last_drop[1][reason], s2.last_drop[1][reason], s2.last_drop[0][reason]];
        assert_eq!(when, [Some(100), Some(100), None]);
        assert_eq!(s2.conservation_error(), 0);
        // Errors of two shards do not cancel.
        reading.loops[0].received += 1;
        reading.loops[1].transmitted += 1;
        assert_eq!(sampler.sample(reading, 400, 300).conservation_error(), 2);
    }
}
