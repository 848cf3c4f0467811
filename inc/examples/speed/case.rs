//! Frames of children, and an engine that sums them.

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
pub const BURST: usize = 8;
/// Frames taken before what there is is sent.
pub const TURN: usize = 16;
/// Frames are this far apart in memory.
pub const STRIDE: usize = 4224;

fn address(n: usize) -> (Mac, IpAddr) {
    (Mac([2, 0, 0, 0, 0, n as u8]), Ipv4Addr::new(10, 0, 0, n as u8).into())
}

fn qpn(job: usize, child: usize) -> Qpn {
    Qpn(FIRST_QPN + (job * 64 + child) as u32)
}

/// One set of frames: messages of one packet, from all children of all jobs.
pub struct Case {
    pub k: usize,
    bytes: usize,
    jobs: usize,
    operation: Primitive,
    /// Bursts of contributions and, behind them, of acknowledgements, in the order they come.
    frames: Vec<u8>,
    lengths: Vec<usize>,
    pub contributions: usize,
}

impl Case {
    pub fn new(k: usize, bytes: usize, jobs: usize, data_type: DataType) -> Self {
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

    pub fn each(&self) -> impl Iterator<Item = &[u8]> {
        let mut at = 0;
        self.lengths.iter().map(move |&len| {
            let frame = &self.frames[at..at + len];
            at += STRIDE.min(len.next_multiple_of(64) + 64);
            frame
        })
    }

    pub fn engine(&self) -> Engine {
        let params = EngineParams { memory: 1 << 32, quota: 1 << 32, ..EngineParams::default() };
        let mut engine = Engine::new(params);
        for job in 0..self.jobs {
            let children = (0..self.k).map(|child| Child {
                qpn: qpn(job, child),
                path: Path::new(address(200), address(child), Qpn(0x11 + job as u32)),
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
    pub fn run(&self, engine: &mut Engine, out: &mut [u8]) -> Duration {
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
    pub fn copy(&self, out: &mut [u8]) -> Duration {
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
    pub fn rate(&self, time: Duration) -> (f64, f64) {
        let ns = time.as_nanos() as f64 / self.contributions as f64;
        (self.bytes as f64 * 8.0 / ns, ns)
    }
}
