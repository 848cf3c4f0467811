//! What the three verbs cost on frames in memory: no driver, no device.
//!
//! ```text
//! cargo run --release -p weir-dataplane --example pipeline [plain|full|full32] [WINDOWS]
//! ```
//! * `plain`: 2 ports, 64 stations each, one lossy class, strict priority.
//! * `full`: 32 ports of which two carry all traffic, 8 priorities, three of them lossless, DWRR on all
//!   queues, ECN, PFC and watchdog armed.
//! * `full32`: the same, and every port carries traffic.
//!
//! One JSON object per scenario: TSC cycles per frame and stage of the best of many short windows, the
//! least disturbed one. Stages inside `receive` are measured alone on the same frames, the rest is the
//! difference. For instructions per frame, run under
//! `valgrind --tool=callgrind --toggle-collect='pipeline::verbs*'`, and divide by the frames printed.

use std::collections::VecDeque;
use std::hint::black_box;
use std::time::Instant;
use weir_dataplane::classify::{Classifier, Maps};
use weir_dataplane::ecn::{MarkAt, ONE_Q32, Wred};
use weir_dataplane::egress::{Discipline, QueueSchedule, VoqOrder};
use weir_dataplane::fdb::{Fdb, Learned, Lookup};
use weir_dataplane::frame::Frame;
use weir_dataplane::mmu::{Limit, MmuParams, PgParams, PoolId};
use weir_dataplane::parse::Profile;
use weir_dataplane::pfc::generate::GenerateConfig;
use weir_dataplane::pfc::react::{ReactConfig, RxMode};
use weir_dataplane::pfc::watchdog::{Action, WatchdogConfig};
use weir_dataplane::switch::{PortParams, Switch, SwitchParams, UnknownUnicast, Wire};
use weir_dataplane::types::{BURST, Burst, Mac, Nanos, PRIORITIES, PortId};

/// Frames that go round on each port.
const FRAMES: usize = 1024;
/// Loop turns per window: a few hundred microseconds.
const TURNS: usize = 64;
const STATIONS: u64 = 64;
const FRAME_BYTES: usize = 60;
const RATE: u64 = 100_000_000_000;
const LOSSLESS: u8 = 0b0001_1100;

/// Owned bytes that are never copied: the handle moves, as an mbuf's does.
struct Replayed(Box<[u8; FRAME_BYTES]>);

impl Frame for Replayed {
    #[inline(always)]
    fn bytes(&self) -> &[u8] {
        &*self.0
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        &mut *self.0
    }

    fn share(&self) -> Option<Self> {
        None
    }

    fn make_unique(&mut self) -> bool {
        true
    }
}

/// Where a port's frames come from and where what it sends goes: back to the port it came from.
struct Loop {
    waiting: VecDeque<Replayed>,
    taken_at: Option<Instant>,
    clock: bool,
}

impl Wire<Replayed> for Loop {
    fn send(&mut self, frames: &mut Burst<Replayed>) -> usize {
        if self.clock {
            self.taken_at = Some(Instant::now());
        }
        let n = frames.len();
        self.waiting.extend(frames.drain(..));
        n
    }

    fn send_control(&mut self, _: &[u8]) -> bool {
        true
    }
}

struct Scenario {
    name: &'static str,
    ports: usize,
    busy: usize,
    full: bool,
}

const SCENARIOS: [Scenario; 3] = [
    Scenario { name: "plain", ports: 2, busy: 2, full: false },
    Scenario { name: "full", ports: 32, busy: 2, full: true },
    Scenario { name: "full32", ports: 32, busy: 32, full: true },
];

impl Scenario {
    fn profile() -> Profile {
        Profile::standard()
    }

    fn classifier() -> Classifier {
        Classifier::new(&Maps::default(), Profile::standard().trust()).expect("the default maps are valid")
    }

    fn port(&self, index: usize) -> PortParams {
        let same = std::array::from_fn(|i| i as u8);
        let bits = std::array::from_fn(|i| 1 << i);
        let enabled = if self.full { LOSSLESS } else { 0 };
        let dwrr = |q: usize| QueueSchedule {
            discipline: Discipline::Dwrr(10 + 5 * q as u8),
            ..QueueSchedule::STRICT
        };
        let wred = Wred {
            kmin: 100_000,
            kmax: 400_000,
            pmax: ONE_Q32 / 10,
            at: MarkAt::Dequeue,
            drop_not_ect: false,
        };
        PortParams {
            mac: Mac::from_u64(0x0200_0000_ff00 + index as u64),
            mtu: 9216,
            rate: None,
            burst: 0,
            profile: Self::profile(),
            classifier: Self::classifier(),
            unknown_unicast: UnknownUnicast::Flood,
            learning: true,
            learn_limit: u32::MAX,
            queues: if self.full { std::array::from_fn(dwrr) } else { [QueueSchedule::STRICT; PRIORITIES] },
            mark: [self.full.then_some(wred); PRIORITIES],
            early_drop: [None; PRIORITIES],
            react: ReactConfig { rate: RATE, enabled, mode: RxMode::Enabled, pfc_to_queue: same },
            generate: GenerateConfig { rate: RATE, enabled, quanta: 0xffff },
            pg_priorities: bits,
            pg_queues: bits,
            control_pool: self.full,
            shard: 0,
        }
    }

    fn params(&self) -> SwitchParams {
        let mut mmu = MmuParams::lossy(self.ports, 32 << 20);
        if self.full {
            let lossless = |i: usize| LOSSLESS >> (i % PRIORITIES) & 1 == 1;
            for (i, pg) in mmu.pgs.iter_mut().enumerate().filter(|(i, _)| lossless(*i)) {
                let alpha = Limit::dynamic(0).expect("in range");
                *pg = PgParams {
                    reserved: 4096,
                    limit: alpha,
                    headroom: 65_536 + i as u64,
                    xon: 0,
                    xon_offset: 4096,
                    lossless: true,
                };
            }
            for (_, queue) in mmu.queues.iter_mut().enumerate().filter(|(i, _)| lossless(*i)) {
                queue.pool = PoolId::Lossless;
                queue.limit = Limit::UNLIMITED;
            }
            mmu.control = 1 << 20;
        }
        let watchdog = WatchdogConfig {
            queues: LOSSLESS,
            poll: 100_000_000,
            detection: 200_000_000,
            restoration: 200_000_000,
            action: Action::Drop,
            recurrence: None,
            big_red_switch: false,
        };
        SwitchParams {
            ports: (0..self.ports).map(|i| self.port(i)).collect(),
            mmu,
            frames: 32 * 1024,
            voq: VoqOrder::Fair,
            fdb_capacity: 16 * 1024,
            ageing: Some(300_000_000_000),
            stations: Vec::new(),
            groups: Vec::new(),
            watchdog: self.full.then_some(watchdog),
            seed: 1,
        }
    }

    /// Frames of `port`: from its stations to those of its neighbour, priorities in turn.
    fn frames(&self, port: usize) -> Vec<Replayed> {
        let station =
            |port: usize, n: u64| Mac::from_u64(0x0200_0000_0000 + (port as u64) * 256 + n % STATIONS);
        let one = |n: u64| {
            let mut bytes = Box::new([0; FRAME_BYTES]);
            bytes[..6].copy_from_slice(&station(port ^ 1, n * 7).0);
            bytes[6..12].copy_from_slice(&station(port, n).0);
            let tos = if self.full { (n as u8 % 8) << 5 | 2 } else { 0 };
            bytes[12..16].copy_from_slice(&[8, 0, 0x45, tos]);
            bytes[17] = FRAME_BYTES as u8 - 14;
            bytes[22..24].copy_from_slice(&[64, 17]);
            bytes[36..39].copy_from_slice(&[0, 9, 0]);
            bytes[39] = FRAME_BYTES as u8 - 34;
            Replayed(bytes)
        };
        (0..FRAMES as u64).map(one).collect()
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

struct Bench {
    switch: Switch<Replayed>,
    /// Frames to be received, and the wire of the port they will leave by.
    loops: Vec<Loop>,
    ports: usize,
    busy: usize,
    now: Nanos,
    began: Instant,
}

/// Stations speak to themselves once: they are learned, and the frames end as `lookup.same_port`.
fn introduce(switch: &mut Switch<Replayed>, port: PortId, frames: Vec<Replayed>) {
    let mut burst = Burst::new();
    for mut frame in frames {
        frame.0.copy_within(6..12, 0);
        burst.push(frame);
        switch.receive(port, &mut burst, 1);
    }
}

/// Nanoseconds per stage of one window.
#[derive(Clone, Copy, Default)]
struct Stages {
    receive: f64,
    schedule: f64,
    release: f64,
    tick: f64,
}

impl Bench {
    fn new(scenario: &Scenario) -> Self {
        let waiting = |i| if i < scenario.busy { scenario.frames(i).into() } else { VecDeque::new() };
        let one = |i| Loop { waiting: waiting(i), taken_at: None, clock: false };
        let mut switch = Switch::new(scenario.params()).expect("the scenario adds up");
        for port in 0..scenario.busy {
            introduce(&mut switch, PortId(port as u16), scenario.frames(port));
        }
        Self {
            switch,
            loops: (0..scenario.ports).map(one).collect(),
            ports: scenario.ports,
            busy: scenario.busy,
            now: 1,
            began: Instant::now(),
        }
    }

    fn fill(&mut self, port: usize, burst: &mut Burst<Replayed>) {
        let waiting = &mut self.loops[port].waiting;
        let n = waiting.len().min(BURST);
        burst.extend(waiting.drain(..n));
    }

    /// One turn of a polling loop; the clock is read once. Returns frames sent.
    #[inline(always)]
    fn turn(&mut self, burst: &mut Burst<Replayed>) -> usize {
        self.now = self.began.elapsed().as_nanos() as u64 + 1;
        for port in 0..self.busy {
            self.fill(port, burst);
            verbs_receive(&mut self.switch, PortId(port as u16), burst, self.now);
        }
        let mut sent = 0;
        for port in 0..self.ports {
            let wire = &mut self.loops[port ^ 1];
            sent += verbs_transmit(&mut self.switch, PortId(port as u16), self.now, wire);
        }
        verbs_tick(&mut self.switch, self.now);
        sent
    }

    /// The same with a clock reading between the stages; `overhead` is what a reading costs, ns.
    fn staged_window(&mut self, burst: &mut Burst<Replayed>, overhead: f64) -> Stages {
        let mut sum = Stages::default();
        let mut sent = 0;
        let ns = |from: Instant, to: Instant| (to - from).as_nanos() as f64 - overhead;
        for _ in 0..TURNS {
            self.now = self.began.elapsed().as_nanos() as u64 + 1;
            for port in 0..self.busy {
                self.fill(port, burst);
                let start = Instant::now();
                verbs_receive(&mut self.switch, PortId(port as u16), burst, self.now);
                sum.receive += ns(start, Instant::now());
            }
            for port in 0..self.busy {
                let wire = &mut self.loops[port ^ 1];
                wire.clock = true;
                let start = Instant::now();
                sent += verbs_transmit(&mut self.switch, PortId(port as u16), self.now, wire);
                let end = Instant::now();
                wire.clock = false;
                if let Some(taken) = wire.taken_at.take() {
                    sum.schedule += ns(start, taken);
                    sum.release += ns(taken, end);
                }
            }
            let start = Instant::now();
            for port in self.busy..self.ports {
                verbs_transmit(&mut self.switch, PortId(port as u16), self.now, &mut self.loops[port ^ 1]);
            }
            verbs_tick(&mut self.switch, self.now);
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
    let window = |_| {
        let start = Instant::now();
        for _ in 0..1000 {
            black_box(Instant::now());
        }
        start.elapsed().as_nanos() as f64 / 1001.0
    };
    (0..100).map(window).fold(f64::MAX, f64::min)
}

/// TSC rate in GHz as the kernel tells it; without it, the report is in nanoseconds.
fn ghz() -> Option<f64> {
    let info = std::fs::read_to_string("/proc/cpuinfo").ok()?;
    let line = info.lines().find(|l| l.starts_with("cpu MHz"))?;
    Some(line.split(':').nth(1)?.trim().parse::<f64>().ok()? / 1000.0)
}

/// Best window of parse and classify alone, and of look-up and learning alone, ns per frame.
fn parts(scenario: &Scenario, windows: usize) -> (f64, f64) {
    let (profile, classifier) = (Scenario::profile(), Scenario::classifier());
    let frames: Vec<_> = (0..2).flat_map(|port| scenario.frames(port)).collect();
    let keys: Vec<_> = frames
        .iter()
        .map(|f| profile.parse(f.bytes(), f.len()).expect("well-formed"))
        .map(|p| (p.dst_key, p.src_key))
        .collect();
    let mut fdb = Fdb::new(16 * 1024, 300, 1);
    for port in 0..2 {
        fdb.set_learning(PortId(port), true, u32::MAX);
    }
    let (mut parse, mut lookup) = (f64::MAX, f64::MAX);
    for _ in 0..windows {
        let start = Instant::now();
        for frame in &frames {
            if let Some(parsed) = black_box(&profile).glance(frame.bytes(), frame.len()) {
                let class = classifier.class_of_ip(parsed.dscp.unwrap_or(0), parsed.kind);
                black_box((class, parsed.dst_key, parsed.src_key, parsed.ecn));
            }
        }
        parse = parse.min(start.elapsed().as_nanos() as f64 / frames.len() as f64);
        let start = Instant::now();
        for (i, (dst, src)) in keys.iter().enumerate() {
            let learned = fdb.learn(*src, PortId((i / FRAMES) as u16), 5);
            black_box((matches!(learned, Learned::Known), matches!(fdb.lookup(*dst), Lookup::Port(_))));
        }
        lookup = lookup.min(start.elapsed().as_nanos() as f64 / frames.len() as f64);
    }
    (parse, lookup)
}

fn run(scenario: &Scenario, windows: usize) {
    let mut bench = Bench::new(scenario);
    let introduced = bench.switch.conservation().dropped;
    let mut burst = Burst::new();
    let (mut best, mut stages, mut frames) = (f64::MAX, Stages::default(), 0);
    let overhead = clock_cost();
    let mut stages_best = f64::MAX;
    for _ in 0..windows {
        let start = Instant::now();
        let sent: usize = (0..TURNS).map(|_| bench.turn(&mut burst)).sum();
        let ns = start.elapsed().as_nanos() as f64 / sent.max(1) as f64;
        best = best.min(ns);
        frames += sent;
        let s = bench.staged_window(&mut burst, overhead);
        let sum = s.receive + s.schedule + s.release + s.tick;
        if sum < stages_best {
            (stages_best, stages) = (sum, s);
        }
    }
    let (parse, lookup) = parts(scenario, windows);
    let conservation = bench.switch.conservation();
    assert_eq!((conservation.error(), conservation.dropped), (0, introduced), "a frame was lost");
    let ghz = ghz();
    let scale = ghz.unwrap_or(1.0);
    let unit = if ghz.is_some() { "cycles" } else { "ns" };
    println!(
        "{{\"scenario\": \"{}\", \"ports\": {}, \"unit\": \"{unit}\", \"ghz\": {scale:.3}, \
         \"per_frame\": {{\"total\": {:.1}, \"parse_classify\": {:.1}, \"lookup_learn\": {:.1}, \
         \"admit_enqueue\": {:.1}, \"schedule_dequeue\": {:.1}, \"hand_over_release\": {:.1}, \
         \"tick\": {:.1}}}, \"frames\": {}}}",
        scenario.name,
        scenario.ports,
        stages_best * scale,
        parse * scale,
        lookup * scale,
        (stages.receive - parse - lookup) * scale,
        stages.schedule * scale,
        stages.release * scale,
        stages.tick * scale,
        conservation.transmitted,
    );
    eprintln!(
        "{}: whole loop with its frame replay {:.1} {unit}, {frames} frames",
        scenario.name,
        best * scale
    );
}

fn main() {
    let mut args = std::env::args().skip(1);
    let name = args.next();
    let windows = args.next().and_then(|text| text.parse().ok()).unwrap_or(300);
    for scenario in SCENARIOS.iter().filter(|s| name.as_deref().is_none_or(|n| n == s.name)) {
        run(scenario, windows);
    }
}
