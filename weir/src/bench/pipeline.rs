//! The three verbs on frames in memory: no driver, no device.
//!
//! Stages are told apart by readings of the clock between them, whose own cost is taken off. The switch is told a time
//! that passes by [`SPACING_NS`] with every frame received, so what it does is the same in every run. For instructions per
//! frame, run under `valgrind --tool=callgrind --toggle-collect='*verbs_*'` and divide by the frames printed.

use super::TURNS;
use super::setup::{Load, Replayed};
use anyhow::Result;
use std::hint::black_box;
use std::time::Instant;
use weir_dataplane::fdb::{Fdb, Learned, Lookup};
use weir_dataplane::frame::Frame;
use weir_dataplane::switch::{
    Change, Conservation, Filter, MirrorReader, MirrorTo, PortParams, SwitchParams, Tap, TapOrder, TapReader,
    Tapped, Wire,
};
use weir_dataplane::types::{BURST, Burst, Nanos, PortId};

/// ns from one frame to the next: about as fast as one lcore forwards them.
const SPACING_NS: u64 = 25;

/// The frames of a port, and where those go that it sends.
struct Loop {
    capture: Vec<Replayed>,
    changed: bool,
    next: usize,
    sent: Vec<Replayed>,
    taken_at: Option<Instant>,
}

impl Loop {
    fn new(capture: Vec<Replayed>, changed: bool) -> Self {
        Self { capture, changed, next: 0, sent: Vec::with_capacity(BURST), taken_at: None }
    }

    fn fill(&mut self, burst: &mut Burst<Replayed>) {
        while !burst.is_full() {
            let frame = &self.capture[self.next];
            burst.push(if self.changed { frame.unshared() } else { frame.clone() });
            self.next = (self.next + 1) % self.capture.len();
        }
    }
}

impl Wire<Replayed> for Loop {
    fn send(&mut self, frames: &mut Burst<Replayed>) -> usize {
        self.taken_at = Some(Instant::now());
        let n = frames.len();
        self.sent.extend(frames.drain(..));
        n
    }

    fn send_control(&mut self, _: &[u8]) -> bool {
        true
    }
}

#[inline(never)]
fn verbs_receive(switch: &mut Tapped<Replayed>, port: PortId, burst: &mut Burst<Replayed>, now: Nanos) {
    switch.receive(port, burst, now);
}

#[inline(never)]
fn verbs_transmit(switch: &mut Tapped<Replayed>, port: PortId, now: Nanos, wire: &mut Loop) -> usize {
    switch.transmit(port, BURST, now, wire)
}

#[inline(never)]
fn verbs_transmit_granted(switch: &mut Tapped<Replayed>, port: PortId, now: Nanos, wire: &mut Loop) -> usize {
    switch.transmit_granted(port, BURST, now, wire)
}

#[inline(never)]
fn verbs_apply(switch: &mut Tapped<Replayed>, change: &mut Change, now: Nanos) -> Result<()> {
    Ok(switch.apply(change, now)?)
}

#[inline(never)]
fn verbs_tick(switch: &mut Tapped<Replayed>, now: Nanos) {
    switch.tick(now);
}

/// Nanoseconds per frame and stage.
#[derive(Clone, Copy, Debug, Default)]
pub struct Stages {
    pub receive: f64,
    pub schedule: f64,
    pub release: f64,
    /// The third verb, sending on the ports that are not busy, and what other shards were granted to send.
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
    /// Received while it was measured.
    pub frames: u64,
    pub lost: u64,
    pub conservation_error: i64,
}

struct Bench {
    params: SwitchParams,
    /// Each has one port of so many.
    shards: Vec<Tapped<Replayed>>,
    loops: Vec<Loop>,
    /// Who reads copies of mirrors and what is followed.
    mirrored: Vec<MirrorReader>,
    followed: Option<TapReader>,
    /// Ports that have frames.
    busy: usize,
    now: Nanos,
}

/// The best of `windows` windows of a switch in `shards` pieces, that one thread drives in turn. `follow`: which frames of the first
/// port are followed, if any. `apply`: before each window the configuration is applied, which is part of no stage.
///
/// # Errors
/// No switch can be made of the parameters.
pub fn measure(
    load: Load,
    shards: u8,
    windows: usize,
    (follow, apply): (Option<Filter>, bool),
) -> Result<Report> {
    let (parse, lookup) = parts(&load, windows);
    let mut bench = Bench::new(load, shards, follow)?;
    bench.introduce();
    let before = bench.books();
    let mut burst = Burst::new();
    let overhead = clock_cost();
    let mut stages: Option<Stages> = None;
    for _ in 0..windows {
        if apply {
            bench.apply()?;
        }
        let window = bench.window(&mut burst, overhead);
        stages = stages.filter(|best| best.total() <= window.total()).or(Some(window));
    }
    let books = bench.books();
    Ok(Report {
        stages: stages.unwrap_or_default(),
        parse,
        lookup,
        frames: books.received - before.received,
        lost: books.dropped - before.dropped,
        conservation_error: books.error(),
    })
}

impl Bench {
    fn new(load: Load, shards: u8, follow: Option<Filter>) -> Result<Self> {
        let Load { mut params, mut captures, changed, .. } = load;
        let busy = captures.len();
        captures.resize_with(params.ports.len(), Vec::new);
        let loops = captures.into_iter().map(|capture| Loop::new(capture, changed)).collect();
        let to_reader = params.mirrors.iter().any(|mirror| matches!(mirror.to, MirrorTo::Reader { .. }));
        for (shard, port) in (0..shards).cycle().zip(&mut params.ports) {
            (port.shard, port.tx_per_lcore) = (shard, shards > 1);
        }
        let mut shards = Tapped::observed_shards(&params, usize::from(shards))?;
        let mirrored = shards.iter_mut().filter(|_| to_reader).map(Tapped::read_mirrors).collect();
        let followed = follow.map(|filter| {
            let order = TapOrder { port: PortId(0), filter, count: u64::MAX, bytes: 64, drops: false };
            let (tap, reader) = Tap::new(order);
            shards[0].arm(Some(Box::new(tap)));
            reader
        });
        Ok(Self { params, shards, loops, mirrored, followed, busy, now: 1 })
    }

    /// The shard that has a port.
    fn shard_of(&self, port: usize) -> usize {
        port % self.shards.len()
    }

    fn books(&self) -> Conservation {
        let mut books = Conservation::default();
        self.shards.iter().for_each(|shard| books.add(&shard.conservation()));
        books
    }

    /// What the configuration says, anew.
    fn apply(&mut self) -> Result<()> {
        let mut change = Change::between(&self.params, &self.params)?;
        self.shards.iter_mut().try_for_each(|shard| verbs_apply(shard, &mut change, self.now))
    }

    /// Takes what is there for those who read beside the switch.
    fn read(&mut self) {
        let mut bytes = Vec::new();
        for reader in &mut self.mirrored {
            while reader.next_into(&mut bytes).is_some() {
                bytes.clear();
            }
        }
        self.followed.iter_mut().flatten().for_each(drop);
    }

    /// Lets each shard send what others have granted it, and everything else that is not of a port.
    fn end_turn(&mut self) {
        let Self { shards, loops, now, .. } = self;
        for switch in shards {
            for (port, wire) in loops.iter_mut().enumerate() {
                let port = PortId(port as u16);
                while switch.has_grants(port) && verbs_transmit_granted(switch, port, *now, wire) > 0 {}
            }
            verbs_tick(switch, *now);
        }
    }

    /// Every port sends a burst.
    fn send_all(&mut self) {
        for port in 0..self.loops.len() {
            let (shard, now) = (self.shard_of(port), self.now);
            self.shards[shard].transmit(PortId(port as u16), BURST, now, &mut self.loops[port]);
        }
        self.end_turn();
        self.loops.iter_mut().for_each(|port| port.sent.clear());
        self.read();
    }

    /// Forwards all frames twice, so that every station is known and every decision made.
    fn introduce(&mut self) {
        let longest = self.loops.iter().map(|port| port.capture.len()).max().unwrap_or(0);
        let mut burst = Burst::new();
        for _ in 0..(2 * longest).div_ceil(BURST) {
            for port in 0..self.busy {
                self.loops[port].fill(&mut burst);
                self.now += burst.len() as u64 * SPACING_NS;
                let (shard, now) = (self.shard_of(port), self.now);
                self.shards[shard].receive(PortId(port as u16), &mut burst, now);
            }
            self.send_all();
        }
        // What was flooded to idle ports is not to stand in the way of what is measured.
        loop {
            let before = self.books().transmitted;
            self.send_all();
            if self.books().transmitted == before {
                break;
            }
        }
    }

    /// Turns of a polling loop with a reading of the clock between the stages; a reading costs `overhead` ns.
    fn window(&mut self, burst: &mut Burst<Replayed>, overhead: f64) -> Stages {
        let (mut sum, mut received) = (Stages::default(), 0);
        let ns = |from: Instant, to: Instant| (to - from).as_nanos() as f64 - overhead;
        for _ in 0..TURNS {
            for port in 0..self.busy {
                self.loops[port].fill(burst);
                received += burst.len();
                self.now += burst.len() as u64 * SPACING_NS;
                let (shard, start) = (self.shard_of(port), Instant::now());
                verbs_receive(&mut self.shards[shard], PortId(port as u16), burst, self.now);
                sum.receive += ns(start, Instant::now());
            }
            for port in 0..self.busy {
                let (shard, start) = (self.shard_of(port), Instant::now());
                let wire = &mut self.loops[port];
                verbs_transmit(&mut self.shards[shard], PortId(port as u16), self.now, wire);
                let end = Instant::now();
                if let Some(taken) = wire.taken_at.take() {
                    sum.schedule += ns(start, taken);
                    sum.release += ns(taken, end);
                }
                wire.sent.clear();
            }
            let start = Instant::now();
            for port in self.busy..self.loops.len() {
                // As much as may have been flooded from all others.
                let (shard, wire) = (self.shard_of(port), &mut self.loops[port]);
                for _ in 0..self.busy {
                    verbs_transmit(&mut self.shards[shard], PortId(port as u16), self.now, wire);
                }
            }
            self.end_turn();
            sum.tick += ns(start, Instant::now());
            // What was flooded to them, or granted to others: a driver would have taken it.
            self.loops.iter_mut().for_each(|port| {
                port.sent.clear();
                port.taken_at = None;
            });
            self.read();
        }
        let n = received.max(1) as f64;
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

/// Best window of parsing and classification alone, and of look-up and learning alone, ns per frame of the first two
/// ports.
fn parts(load: &Load, windows: usize) -> (f64, f64) {
    let ports = || load.captures.iter().zip(&load.params.ports).take(2).enumerate();
    let parse = |params: &PortParams, frame: &Replayed| params.profile.parse(frame.bytes(), frame.len()).ok();
    let mut keys = Vec::new();
    for (port, (frames, params)) in ports() {
        let read = frames.iter().filter_map(|frame| parse(params, frame));
        keys.extend(read.map(|parsed| (PortId(port as u16), parsed.dst_key, parsed.src_key)));
    }
    let mut fdb = Fdb::new(load.params.fdb_capacity, 300, 1);
    (0..2).for_each(|port| fdb.set_learning(PortId(port), true, u32::MAX));
    let per_frame = |start: Instant| start.elapsed().as_nanos() as f64 / keys.len().max(1) as f64;
    let (mut parsing, mut lookup) = (f64::MAX, f64::MAX);
    for _ in 0..windows {
        let start = Instant::now();
        for (_, (frames, params)) in ports() {
            for parsed in frames.iter().filter_map(|frame| parse(black_box(params), frame)) {
                black_box((params.classifier.class(&parsed), parsed.dst_key, parsed.src_key));
            }
        }
        parsing = parsing.min(per_frame(start));
        let start = Instant::now();
        for (port, dst, src) in &keys {
            let learned = fdb.learn(*src, *port, 5);
            black_box((matches!(learned, Learned::Known), matches!(fdb.lookup(*dst), Lookup::Port(_))));
        }
        lookup = lookup.min(per_frame(start));
    }
    (parsing, lookup)
}
