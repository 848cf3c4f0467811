//! How much one core sums: contributions from memory through an engine, results into memory.
//!
//! `bench/inc` runs it. Every frame's ICRC is checked, every frame sent has one; results are acknowledged. In the same run
//! the same frames are copied, for comparison. `--once K BYTES` runs one case a few times, for
//! callgrind, and prints how many contributions there were.

use std::hint::black_box;
use std::net::{IpAddr, Ipv4Addr};
use std::time::{Duration, Instant};
use weir_dataplane::types::{Mac, Nanos};
use weir_endpoint::roce::frame::Frame;
use weir_endpoint::roce::qp::Path;
use weir_endpoint::roce::wire::{Aeth, Bth, Extensions, Opcode, Packet, Qpn};
use weir_inc::engine::{Engine, EngineParams};
use weir_inc::immediate::Primitive;
use weir_inc::kernels::{ByteOrder, DataType, Fold, Operator};
use weir_inc::params::{Child, JobParams};

const FIRST_QPN: u32 = 0x100;
/// Frames of a child that come together, and are acknowledged together.
const BURST: usize = 8;
/// Frames taken before what there is is sent.
const TURN: usize = 16;
/// Frames are this far apart in memory.
const STRIDE: usize = 4224;

fn address(n: usize) -> (Mac, IpAddr) {
    (Mac([2, 0, 0, 0, 0, n as u8]), Ipv4Addr::new(10, 0, 0, n as u8).into())
}

fn qpn(job: usize, child: usize) -> Qpn {
    Qpn(FIRST_QPN + (job * 64 + child) as u32)
}

/// One set of frames: messages of one packet, from all children of all jobs.
struct Case {
    k: usize,
    bytes: usize,
    jobs: usize,
    operation: Primitive,
    /// Bursts of contributions and, behind them, of acknowledgements, in the order they come.
    frames: Vec<u8>,
    lengths: Vec<usize>,
    contributions: usize,
}

impl Case {
    fn new(k: usize, bytes: usize, jobs: usize, data_type: DataType) -> Self {
        let fold = Fold::new(Operator::Sum, data_type, ByteOrder::Little).expect("a sum");
        let mut new = Self {
            k,
            bytes,
            jobs,
            operation: Primitive::AllReduce(fold),
            frames: Vec::new(),
            lengths: Vec::new(),
            contributions: 0,
        };
        // About 4 MiB of contributions.
        let bursts = (4 << 20) / (k * jobs * BURST * bytes.max(256)) + 2;
        let payload: Vec<u8> = (0..bytes).map(|i| if i % 4 == 3 { 0x3f } else { i as u8 }).collect();
        for burst in 0..bursts {
            for job in 0..jobs {
                for child in 0..k {
                    for n in 0..BURST {
                        let number = burst * BURST + n;
                        new.push(job, child, Opcode::RC_SEND_ONLY, number, n + 1 == BURST, None, &payload);
                        new.contributions += 1;
                    }
                }
                // By now the results of the burst before the last have left.
                let Some(last) = ((burst * BURST).checked_sub(BURST)).and_then(|n| n.checked_sub(1)) else {
                    continue;
                };
                for child in 0..k {
                    let aeth = Some(Aeth { syndrome: 0x1f, msn: 0 });
                    new.push(job, child, Opcode::RC_ACK, last, false, aeth, &[]);
                }
            }
        }
        new
    }

    #[allow(clippy::too_many_arguments)]
    fn push(
        &mut self,
        job: usize,
        child: usize,
        opcode: Opcode,
        n: usize,
        ack_req: bool,
        aeth: Option<Aeth>,
        payload: &[u8],
    ) {
        let path = Path::new(address(child), address(200), qpn(job, child));
        let bth = Bth { ack_req, ..Bth::new(opcode, qpn(job, child), path.send_psn.plus(n as u64)) };
        let ext = Extensions { aeth, ..Extensions::default() };
        let outer = path.outer(path.data, n as u16).expect("one family");
        let mut bytes = Vec::new();
        Frame { outer, packet: Packet { bth, ext, payload } }.emit(&mut bytes);
        self.lengths.push(bytes.len());
        bytes.resize(STRIDE.min(bytes.len().next_multiple_of(64) + 64), 0);
        self.frames.extend(bytes);
    }

    fn each(&self) -> impl Iterator<Item = &[u8]> {
        let mut at = 0;
        self.lengths.iter().map(move |&len| {
            let frame = &self.frames[at..at + len];
            at += STRIDE.min(len.next_multiple_of(64) + 64);
            frame
        })
    }

    fn engine(&self) -> Engine {
        let params = EngineParams { memory: 1 << 32, quota: 1 << 32, ..EngineParams::default() };
        let mut engine = Engine::new(params);
        for job in 0..self.jobs {
            let children = (0..self.k).map(|child| Child {
                qpn: qpn(job, child),
                path: Path::new(address(200), address(child), Qpn(0x11)),
                first_rank: child as u16,
                ranks: 1,
                engine: false,
                remote: Default::default(),
            });
            let mtu = if self.bytes > 1024 { 4096 } else { 1024 };
            let params = JobParams {
                mtu,
                window: 32,
                results: 64,
                children: children.collect(),
                ..JobParams::new(job as u32, self.k as u16, self.operation)
            };
            engine.add(params).expect("a job that fits");
        }
        engine
    }

    /// Time for all frames once; results are written to a ring of buffers. Never inlined: callgrind counts what is in it.
    #[inline(never)]
    fn run(&self, engine: &mut Engine, out: &mut [u8]) -> Duration {
        let mut now: Nanos = 1;
        let (mut at, mut results) = (0, 0usize);
        let start = Instant::now();
        for (n, frame) in self.each().enumerate() {
            engine.receive(frame, now);
            if n % TURN == TURN - 1 {
                now += 1000;
                engine.tick(now);
                while let Some(transmit) = engine.transmit(now) {
                    let written = transmit.write(&mut out[at..]).map_or(0, |w| w.len());
                    results += usize::from(written > 100);
                    at = (at + STRIDE) % (64 * STRIDE);
                }
            }
        }
        let time = start.elapsed();
        let drops: u64 = engine.counters().drops.iter().sum();
        assert!(
            drops == 0 && results + TURN * self.k >= self.contributions,
            "{drops} drops, {results} results"
        );
        black_box(&out);
        time
    }

    /// Time to copy all frames once.
    fn copy(&self, out: &mut [u8]) -> Duration {
        let start = Instant::now();
        let mut at = 0;
        for frame in self.each() {
            out[at..at + frame.len()].copy_from_slice(black_box(frame));
            at = (at + STRIDE) % (64 * STRIDE);
        }
        let time = start.elapsed();
        black_box(&out);
        time
    }

    /// Gb/s of payload that children send, and ns a contribution.
    fn rate(&self, time: Duration) -> (f64, f64) {
        let ns = time.as_nanos() as f64 / self.contributions as f64;
        (self.bytes as f64 * 8.0 / ns, ns)
    }
}

fn main() {
    let mut out = vec![0; 66 * STRIDE];
    let args: Vec<String> = std::env::args().collect();
    if let [_, once, k, bytes] = &args[..]
        && once == "--once"
    {
        let case = Case::new(k.parse().expect("children"), bytes.parse().expect("bytes"), 1, DataType::F32);
        for _ in 0..3 {
            case.run(&mut case.engine(), &mut out);
        }
        println!("{}", 3 * case.contributions);
        return;
    }
    println!("kernels: {}", Engine::new(EngineParams::default()).kernels().name());
    println!("| children | bytes | jobs | type | Gb/s in | ns each | copy of the same Gb/s |");
    println!("| --- | --- | --- | --- | --- | --- | --- |");
    let (f32, i32, bf16) = (DataType::F32, DataType::I32, DataType::Bf16);
    let cases = [
        (8, 1024, 1, f32),
        (8, 1024, 1, i32),
        (8, 1024, 1, bf16),
        (2, 1024, 1, f32),
        (16, 1024, 1, f32),
        (64, 1024, 1, f32),
        (8, 256, 1, f32),
        (8, 4096, 1, f32),
        (8, 1024, 16, f32),
        (8, 1024, 64, f32),
    ];
    for (k, bytes, jobs, data_type) in cases {
        let case = Case::new(k, bytes, jobs, data_type);
        let best =
            |mut run: Box<dyn FnMut() -> Duration + '_>| (0..30).map(|_| run()).min().unwrap_or_default();
        let (mut out_a, mut out_b) = (out.clone(), out.clone());
        let sum = best(Box::new(|| case.run(&mut case.engine(), &mut out_a)));
        let copy = best(Box::new(|| case.copy(&mut out_b)));
        let ((rate, ns), (copied, _)) = (case.rate(sum), case.rate(copy));
        println!("| {k} | {bytes} | {jobs} | {data_type:?} | {rate:.1} | {ns:.0} | {copied:.0} |");
    }
}
