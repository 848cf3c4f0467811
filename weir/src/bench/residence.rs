//! How long frames are in the switch while its ports are loaded to a part of their rate: the worker of `weir run` on
//! frames in memory that come when a wire would bring them.

use super::setup::{Load, Replayed};
use crate::run::control::{Control, Phase};
use crate::run::io::{Io, Receive, Source, Time, Transmit};
use crate::run::off_core::Thread;
use crate::run::worker::{RING_LIMIT_EIGHTHS, Worker, WorkerEnds, WorkerPort};
use anyhow::{Result, bail};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};
use weir_dataplane::frame::{Frame, SizedFrames};
use weir_dataplane::parse::EcnCode;
use weir_dataplane::rng::Rng;
use weir_dataplane::stats::Histogram;
use weir_dataplane::switch::{Conservation, Tapped, Wire};
use weir_dataplane::turn;
use weir_dataplane::types::{Burst, Nanos, PortId, wire_bytes};

/// Length of a window.
const WINDOW: Duration = Duration::from_millis(100);
/// Frames of a receive ring.
const RING: usize = 1024;
/// Random times between frames that go round, at least.
const GAPS: usize = 1 << 16;

/// A frame and when its last bit came, ns since start.
#[derive(Clone, Debug)]
struct Arrived {
    frame: Replayed,
    at: Nanos,
}

impl Frame for Arrived {
    type Row = SizedFrames<Self>;
    type Staged = Burst<Self>;

    #[inline(always)]
    fn bytes(&self) -> &[u8] {
        self.frame.bytes()
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        self.frame.bytes_mut()
    }

    fn share(&self) -> Option<Self> {
        Some(self.clone())
    }

    fn make_unique(&mut self) -> bool {
        self.frame.make_unique()
    }

    const KEEPS_ECN: bool = Replayed::KEEPS_ECN;

    #[inline(always)]
    fn ecn(&self) -> EcnCode {
        self.frame.ecn()
    }

    #[inline(always)]
    fn set_ecn(&mut self, ecn: EcnCode) {
        self.frame.set_ecn(ecn);
    }

    #[inline(always)]
    fn prefetch<T>(what: &T) {
        Replayed::prefetch(what);
    }
}

/// The time of this process.
#[derive(Clone, Copy, Debug)]
struct Since(Instant);

impl Time for Since {
    #[inline(always)]
    fn now(&self) -> Nanos {
        self.0.elapsed().as_nanos() as Nanos
    }
}

/// A wire that brings the frames of a capture over and over, and the receive ring behind it. Between two frames the wire is
/// idle for a time that is drawn from an exponential distribution, so that it is busy for a given share of the time.
#[derive(Debug)]
struct Arrivals {
    capture: Vec<Replayed>,
    /// From each last bit to the next one, ns: drawn before, since a logarithm costs as much as forwarding a frame. A
    /// multiple of the capture, so that each is of one frame.
    gaps: Vec<Nanos>,
    /// The next of those, and when its frame has come.
    next: usize,
    at: Nanos,
    /// Frames that have come and wait: their place in the capture, and since when.
    ring: VecDeque<(usize, Nanos)>,
    /// Frames that found it full.
    missed: u64,
    clock: Since,
}

impl Arrivals {
    fn new(capture: Vec<Replayed>, rate: u64, share: f64, seed: u64, clock: Since) -> Self {
        let mut rng = Rng::new(seed);
        let mut gap = |frame: &Replayed| {
            let wire_ns = wire_bytes(frame.len() as u64) as f64 * 8e9 / rate as f64;
            // 53 bits of chance in (0, 1].
            let chance = ((rng.next_u64() >> 11) + 1) as f64 / (1u64 << 53) as f64;
            (wire_ns * (1.0 - (1.0 / share - 1.0) * chance.ln())).round() as Nanos
        };
        let rounds = GAPS.div_ceil(capture.len().max(1));
        let gaps = (0..rounds).flat_map(|_| &capture).map(&mut gap).collect();
        Self { capture, gaps, next: 0, at: 0, ring: VecDeque::with_capacity(RING), missed: 0, clock }
    }

    /// Puts into the ring what has come until now.
    #[inline]
    fn arrive(&mut self, now: Nanos) {
        while let Some(gap) = self.gaps.get(self.next)
            && self.at + gap <= now
        {
            self.at += gap;
            if self.ring.len() < RING {
                self.ring.push_back((self.next % self.capture.len(), self.at));
            } else {
                self.missed += 1;
            }
            self.next = if self.next + 1 == self.gaps.len() { 0 } else { self.next + 1 };
        }
    }
}

impl Receive<Arrived> for Arrivals {
    #[inline]
    fn receive(&mut self, burst: &mut Burst<Arrived>, most: usize) -> usize {
        self.arrive(self.clock.now());
        let count = most.min(burst.remaining_capacity()).min(self.ring.len());
        let came = self.ring.drain(..count);
        burst.extend(came.map(|(frame, at)| Arrived { frame: self.capture[frame].clone(), at }));
        count
    }

    fn backlog(&self) -> Option<u32> {
        Some(self.ring.len() as u32)
    }
}

/// Takes every frame and notes for how long it was on its way, window by window.
#[derive(Debug)]
struct Departures {
    windows: Vec<Histogram>,
    window: Arc<AtomicUsize>,
    clock: Since,
}

impl Transmit<Arrived> for Departures {}

impl Wire<Arrived> for Departures {
    #[inline]
    fn send(&mut self, frames: &mut Burst<Arrived>) -> usize {
        let now = self.clock.now();
        if let Some(window) = self.windows.get_mut(self.window.load(Relaxed)) {
            frames.iter().for_each(|frame| window.note(now - frame.at, 1));
        }
        let count = frames.len();
        frames.clear();
        count
    }

    fn send_control(&mut self, _: &[u8]) -> bool {
        true
    }
}

/// No engine is behind any port, so no frame is made.
#[derive(Debug)]
struct Nothing;

impl Source<Arrived> for Nothing {
    fn empty(&self) -> Option<Arrived> {
        None
    }

    fn append(_: &mut Arrived, _: &[u8]) -> bool {
        false
    }
}

#[derive(Debug)]
struct Memory;

impl Io for Memory {
    type Frame = Arrived;
    type Rx = Arrivals;
    type Tx = Departures;
    type Pool = Nothing;
    type Clock = Since;
}

/// What was measured.
#[derive(Debug)]
pub struct Report {
    pub windows: usize,
    /// Windows in which the kernel gave the core to the worker alone.
    pub quiet_windows: usize,
    /// From the last bit of a frame to its transmit, in those windows and in all.
    pub quiet: Histogram,
    pub all: Histogram,
    /// From the frame's receive to its transmit, by the switch's own counters, in all windows and what came before.
    pub residence: Histogram,
    /// Frames that found the receive ring full.
    pub missed: u64,
    pub books: Conservation,
}

/// Lets a worker run for so many windows, on ports of `load` that are busy for `share` of the time.
///
/// # Errors
/// A port without a rate, or no switch can be made of the parameters.
pub fn measure(
    load: impl FnOnce() -> Result<Load> + Send + 'static,
    share: f64,
    windows: usize,
) -> Result<Report> {
    let (window, control, thread) = (Arc::new(AtomicUsize::new(usize::MAX)), Control::new(1), Thread::new());
    let worker = {
        let (window, control, thread) = (window.clone(), control.clone(), thread.clone());
        std::thread::spawn(move || -> Result<_> {
            thread.is_this_one();
            let done = worker(load()?, share, windows, &window, &control)?.run();
            let queues = |port: &WorkerPort<Memory>| done.switch.latency(port.id).residence;
            let residence = added(done.ports.iter().flat_map(queues).collect::<Vec<_>>().iter());
            let books = done.switch.conservation();
            let missed = done.ports.iter().map(|port| port.rx.missed).sum::<u64>();
            let of_ports = done.ports.into_iter().map(|port| port.wire.windows);
            Ok((of_ports.collect::<Vec<_>>(), residence, missed, books))
        })
    };
    let mut quiet = Vec::with_capacity(windows);
    // Stations are learned and decisions made before it counts.
    std::thread::sleep(WINDOW);
    for number in 0..windows {
        let before = thread.off_core().map(|off| off.ns);
        window.store(number, Relaxed);
        std::thread::sleep(WINDOW);
        let after = thread.off_core().map(|off| off.ns);
        quiet.push(before.is_some() && before == after);
    }
    control.enter(Phase::Stop);
    let Ok(ended) = worker.join() else { bail!("the worker ended by a panic") };
    let (ports, residence, missed, books) = ended?;
    let of = |wanted: &dyn Fn(usize) -> bool| {
        added(
            ports.iter().flat_map(|port| port.iter().enumerate()).filter(|(n, _)| wanted(*n)).map(|(_, h)| h),
        )
    };
    Ok(Report {
        windows,
        quiet_windows: quiet.iter().filter(|quiet| **quiet).count(),
        quiet: of(&|number| quiet[number]),
        all: of(&|_| true),
        residence,
        missed,
        books,
    })
}

fn added<'a>(histograms: impl Iterator<Item = &'a Histogram>) -> Histogram {
    histograms.fold(Histogram::default(), |mut sum, histogram| {
        sum.add(histogram);
        sum
    })
}

fn worker(
    load: Load,
    share: f64,
    windows: usize,
    window: &Arc<AtomicUsize>,
    control: &Control,
) -> Result<Worker<Memory>> {
    let Load { params, mut captures, poll_gap, .. } = load;
    let count = params.ports.len();
    captures.resize_with(count, Vec::new);
    let clock = Since(Instant::now());
    let mut ports = Vec::with_capacity(count);
    for (n, (capture, port)) in captures.into_iter().zip(&params.ports).enumerate() {
        let Some(rate) = port.rate else { bail!("port {n} has no rate to be loaded by: give it one") };
        let rx = Arrivals::new(capture, rate, share, 1 + n as u64, clock);
        let wire = Departures { windows: vec![Histogram::default(); windows], window: window.clone(), clock };
        ports.push(WorkerPort::new(PortId(n as u16), rx, wire, Some(RING as u32 * RING_LIMIT_EIGHTHS / 8)));
    }
    let ends = WorkerEnds {
        commands: rtrb::RingBuffer::new(1).1,
        replies: rtrb::RingBuffer::new(1).0,
        departed: rtrb::RingBuffer::new(1).0,
    };
    let frames = turn::frames(count, poll_gap);
    let mut worker = Worker::new((0, Tapped::observed(params)?), frames, clock, control.clone(), ends);
    worker.ports = ports;
    Ok(worker)
}
