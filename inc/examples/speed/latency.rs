//! How long it takes from the last contribution to a number until its first result is written.

use crate::case::{Case, STRIDE, TURN};
use std::time::{Duration, Instant};

/// What was measured of one run.
pub struct Latency {
    pub p50: Duration,
    pub p99: Duration,
    pub most: Duration,
}

/// Offset of the PSN in a frame without tag: Ethernet, IPv4, UDP, nine bytes of BTH. Packets of a child have the numbers of
/// their results.
const PSN: usize = 14 + 20 + 8 + 9;

/// Frames come one every `every`, whether or not the engine keeps up; a latency counts from when its frame should have come.
/// Times are of the monotonic clock, which reads the TSC where that is the machine's clock source.
pub fn measure(case: &Case, every: Duration) -> Latency {
    let (mut engine, mut out) = (case.engine(), vec![0; STRIDE]);
    let frames: Vec<&[u8]> = case.each().collect();
    let mut due = Vec::with_capacity(case.contributions / case.k);
    let mut latencies = Vec::with_capacity(case.contributions / case.k);
    let (mut at, mut arrived) = (0, 0);
    let start = Instant::now();
    while latencies.len() + TURN < case.contributions / case.k {
        let now = start.elapsed();
        let mut turn = 0;
        while turn < TURN && at < frames.len() && every * at as u32 <= now {
            if frames[at].len() > 100 {
                arrived += 1;
                // Bursts of children follow one another: those of the last child complete numbers.
                if (arrived - 1) / crate::case::BURST % case.k == case.k - 1 {
                    due.push(every * at as u32);
                }
            }
            engine.receive(frames[at], now.as_nanos() as u64 + 1);
            (at, turn) = (at + 1, turn + 1);
        }
        let now = start.elapsed().as_nanos() as u64 + 1;
        engine.tick(now);
        while let Some(transmit) = engine.transmit(now) {
            let Some(frame) = transmit.write(&mut out) else { continue };
            let is_result = frame.len() > 100;
            let psn = frame.get(PSN..PSN + 3).map_or(0, |b| usize::from(b[1]) << 8 | usize::from(b[2]));
            if is_result && psn == latencies.len() {
                latencies.push(start.elapsed().saturating_sub(due[psn]));
            }
        }
        assert!(
            at < frames.len() || latencies.len() + TURN >= case.contributions / case.k,
            "a result is missing"
        );
    }
    latencies.sort_unstable();
    let part = |percent: usize| latencies[(latencies.len() - 1) * percent / 100];
    Latency { p50: part(50), p99: part(99), most: part(100) }
}
