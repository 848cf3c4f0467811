//! The three verbs on frames in memory: no driver, no device.
//!
//! Stages are told apart by readings of the clock between them, whose own cost is taken off. For
//! instructions per frame, run under `valgrind --tool=callgrind --toggle-collect='*::verbs_*'` and divide
//! by the frames printed.

use super::TURNS;
use super::setup::{Load, Replayed, frames};
use std::collections::VecDeque;
use std::hint::black_box;
use std::time::Instant;
use weir_dataplane::classify::{Classifier, Maps};
use weir_dataplane::fdb::{Fdb, Learned, Lookup};
use weir_dataplane::frame::Frame;
use weir_dataplane::parse::Profile;
use weir_dataplane::switch::{Switch, Wire};
use weir_dataplane::types::{BURST, Burst, Nanos, PortId};

/// Where a port's frames come from and where what it sends goes: back to the port it came from.
struct Loop {
    /// By class: what is received next has its class in turn, in whatever order frames were sent.
    waiting: Vec<VecDeque<Replayed>>,
    turn: usize,
    arrived: Vec<Replayed>,
    taken_at: Option<Instant>,
}

impl Loop {
    fn new(classes: u8, frames: Vec<Replayed>) -> Self {
        let waiting = (0..classes).map(|_| VecDeque::new()).collect();
        Self { waiting, turn: 0, arrived: frames, taken_at: None }
    }

    /// Fills a burst with the frames whose turn it is.
    fn fill(&mut self, burst: &mut Burst<Replayed>) {
        for frame in self.arrived.drain(..) {
            self.waiting[usize::from(frame.class())].push_back(frame);
        }
        let classes = self.waiting.len();
        let mut empty = 0;
        while !burst.is_full() && empty < classes {
            match self.waiting[self.turn].pop_front() {
                Some(frame) => {
                    burst.push(frame);
                    empty = 0;
                }
                None => empty += 1,
            }
            self.turn = (self.turn + 1) % classes;
        }
    }
}

impl Wire<Replayed> for Loop {
    fn send(&mut self, frames: &mut Burst<Replayed>) -> usize {
        self.taken_at = Some(Instant::now());
        let n = frames.len();
        self.arrived.extend(frames.drain(..));
        n
    }

    fn send_control(&mut self, _: &[u8]) -> bool {
        true
    }
}

#[inline(never)]
fn verbs_receive(switch: &mut Switch<Replayed>, port: PortId, burst: &mut Burst<Replayed>, now: Nanos) {
    switch.receive(port, burst, now);
}

#[inline(never)]
fn verbs_transmit(switch: &mut Switch<Replayed>, port: PortId, now: Nanos, wire: &mut Loop) -> usize {
    switch.transmit(port, BURST, now, wire)
}

#[inline(never)]
fn verbs_tick(switch: &mut Switch<Replayed>, now: Nanos) {
    switch.tick(now);
}

/// Nanoseconds per frame and stage.
#[derive(Clone, Copy, Debug, Default)]
pub struct Stages {
    pub receive: f64,
    pub schedule: f64,
    pub release: f64,
    /// The third verb, and sending on the ports that are not busy.
    pub tick: f64,
}

impl Stages {
    fn total(&self) -> f64 {
        self.receive + self.schedule + self.release + self.tick
    }
}

/// What was measured.
#[derive(Clone, Copy, Debug)]
pub struct Report {
    pub stages: Stages,
    /// Of a frame about which no decision is kept, ns: these two are part of its `receive`.
    pub parse: f64,
    pub lookup: f64,
    pub frames: u64,
    pub lost: u64,
    pub conservation_error: i64,
}

struct Bench {
    switch: Switch<Replayed>,
    /// Frames to be received, and the wire of the port they will leave by.
    loops: Vec<Loop>,
    load: Load,
    began: Instant,
}

/// The best of `windows` windows over `switch`.
pub fn measure(switch: Switch<Replayed>, load: &Load, windows: usize) -> Report {
    let mut bench = Bench::new(switch, load);
    let introduced = bench.switch.conservation().dropped;
    let mut burst = Burst::new();
    let overhead = clock_cost();
    let window = |_| bench.window(&mut burst, overhead);
    let stages = (0..windows.max(1)).map(window).min_by(|a, b| a.total().total_cmp(&b.total()));
    let (parse, lookup) = parts(load, windows);
    let books = bench.switch.conservation();
    Report {
        stages: stages.unwrap_or_default(),
        parse,
        lookup,
        frames: books.transmitted,
        lost: books.dropped - introduced,
        conservation_error: books.error(),
    }
}

impl Bench {
    fn new(mut switch: Switch<Replayed>, load: &Load) -> Self {
        let mut burst = Burst::new();
        for port in 0..load.busy {
            for frame in frames(load, port) {
                burst.push(frame.introduction());
                switch.receive(PortId(port as u16), &mut burst, 1);
            }
        }
        let waiting = |port| if port < load.busy { frames(load, port) } else { Vec::new() };
        let loops = (0..load.ports).map(|port| Loop::new(load.classes, waiting(port))).collect();
        Self { switch, loops, load: *load, began: Instant::now() }
    }

    /// Turns of a polling loop with a reading of the clock between the stages; a reading costs `overhead` ns.
    fn window(&mut self, burst: &mut Burst<Replayed>, overhead: f64) -> Stages {
        let (mut sum, mut sent) = (Stages::default(), 0);
        let ns = |from: Instant, to: Instant| (to - from).as_nanos() as f64 - overhead;
        for _ in 0..TURNS {
            let now = self.began.elapsed().as_nanos() as u64 + 1;
            for port in 0..self.load.busy {
                self.loops[port].fill(burst);
                let start = Instant::now();
                verbs_receive(&mut self.switch, PortId(port as u16), burst, now);
                sum.receive += ns(start, Instant::now());
            }
            for port in 0..self.load.busy {
                let wire = &mut self.loops[port ^ 1];
                let start = Instant::now();
                sent += verbs_transmit(&mut self.switch, PortId(port as u16), now, wire);
                let end = Instant::now();
                if let Some(taken) = wire.taken_at.take() {
                    sum.schedule += ns(start, taken);
                    sum.release += ns(taken, end);
                }
            }
            let start = Instant::now();
            for port in self.load.busy..self.load.ports {
                verbs_transmit(&mut self.switch, PortId(port as u16), now, &mut self.loops[port]);
            }
            verbs_tick(&mut self.switch, now);
            sum.tick += ns(start, Instant::now());
        }
        let n = sent.max(1) as f64;
        Stages {
            receive: sum.receive / n,
            schedule: sum.schedule / n,
            release: sum.release / n,
            tick: sum.tick / n,
        }
    }
}

/// Cost of reading the clock, ns: the best of many.
fn clock_cost() -> f64 {
    const READINGS: u32 = 1000;
    let window = |_| {
        let start = Instant::now();
        (0..READINGS).for_each(|_| {
            black_box(Instant::now());
        });
        start.elapsed().as_nanos() as f64 / f64::from(READINGS + 1)
    };
    (0..100).map(window).fold(f64::MAX, f64::min)
}

/// Best window of parsing and classification alone, and of look-up and learning alone, ns per frame.
fn parts(load: &Load, windows: usize) -> (f64, f64) {
    let profile = Profile::standard();
    let classifier = Classifier::new(&Maps::default(), profile.trust()).expect("the default maps are valid");
    let all: Vec<_> = (0..load.busy.min(2)).map(|port| frames(load, port)).collect();
    let frames = || all.iter().enumerate().flat_map(|(port, frames)| frames.iter().map(move |f| (port, f)));
    let parsed = |frame: &Replayed| profile.parse(frame.bytes(), frame.len()).expect("well-formed");
    let keys: Vec<_> = frames().map(|(port, f)| (port, parsed(f).dst_key, parsed(f).src_key)).collect();
    let mut fdb = Fdb::new(4 * load.macs as usize, 300, 1);
    (0..2).for_each(|port| fdb.set_learning(PortId(port), true, u32::MAX));
    let (mut parse, mut lookup) = (f64::MAX, f64::MAX);
    for _ in 0..windows.max(1) {
        let start = Instant::now();
        for (_, frame) in frames() {
            let parsed = black_box(&profile).parse(frame.bytes(), frame.len()).expect("well-formed");
            black_box((classifier.class(&parsed), parsed.dst_key, parsed.src_key));
        }
        parse = parse.min(start.elapsed().as_nanos() as f64 / keys.len() as f64);
        let start = Instant::now();
        for (port, dst, src) in &keys {
            let learned = fdb.learn(*src, PortId(*port as u16), 5);
            black_box((matches!(learned, Learned::Known), matches!(fdb.lookup(*dst), Lookup::Port(_))));
        }
        lookup = lookup.min(start.elapsed().as_nanos() as f64 / keys.len() as f64);
    }
    (parse, lookup)
}
