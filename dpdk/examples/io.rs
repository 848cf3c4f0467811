//! Forwards between two devices on one worker and tells the cycles per frame of the best window: the
//! floor under a switch, to be laid beside testpmd's.
//!
//! `cargo run --release -p weir-dpdk --example io -- [EAL arguments] -- io|mac DEVARGS DEVARGS WINDOWS [FRAMES]`
//!
//! With `net_ring0 net_ring1`, whose rings feed themselves, FRAMES frames are put into each at first and
//! go round. `mac` also writes both addresses of each frame. The best window counts, since anything
//! else measures what shares the core.

use std::time::Instant;

use weir_dataplane::frame::Frame;
use weir_dpdk::{Burst, Eal, Mempool, Port, PortConfig, RxQueue, Started, TxQueue, free_burst};

type Failure = Box<dyn std::error::Error>;

/// Turns of the loop per window, about half a millisecond of full bursts.
const TURNS: usize = 2048;
const ADDRESSES: [u8; 12] = [2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];

fn main() -> Result<(), Failure> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let split = args
        .iter()
        .position(|a| a == "--")
        .ok_or("usage: io [EAL] -- io|mac DEVARGS DEVARGS WINDOWS [FRAMES]")?;
    let (eal_args, rest) = (&args[..split], &args[split + 1..]);
    let [mode, first, second, windows, frames @ ..] = rest else { return Err("too few arguments".into()) };
    let windows: usize = windows.parse()?;
    let frames: usize = frames.first().map_or(Ok(256), |f| f.parse())?;

    let eal = Eal::init(eal_args)?;
    println!("{}, capture {}", eal.version(), eal.can_capture());
    let pool = Mempool::new(&eal, "io", 8191, 256, 2048)?;
    let (a, b) = (open(&eal, first, &pool)?, open(&eal, second, &pool)?);
    let mut path = Path {
        rx: [a.rx_queue(0)?, b.rx_queue(0)?],
        tx: [b.tx_queue(0)?, a.tx_queue(0)?],
        burst: Burst::new(),
    };
    let core = *eal.cores().last().ok_or("no worker core")?;
    let touch = mode == "mac";
    let worker = eal.launch(core, move || {
        path.fill(&pool, frames);
        (0..windows)
            .map(|_| path.window(touch))
            .filter(|w| w.0 > 0)
            .map(|(n, ns)| (ns as f64 / n as f64, n))
            .fold((f64::MAX, 0), |best, (ns, n)| (best.0.min(ns), best.1 + n))
    })?;
    let (best, frames) = worker.join().map_err(|_| "the worker panicked")?;
    if frames == 0 {
        return Err("no frame came".into());
    }
    println!("core {core}: {frames} frames, best window {best:.2} ns per frame, {:.1} Mframes/s", 1e3 / best);
    for port in [a, b] {
        println!("{}: {:?}", port.name(), port.stats()?);
    }
    Ok(())
}

fn open(eal: &Eal, devargs: &str, pool: &Mempool) -> Result<Port<Started>, Failure> {
    let mut port = Port::probe(eal, devargs)?;
    port.configure(&PortConfig::default(), pool)?;
    let port = port.start()?;
    println!("{}: {:?}", port.name(), port.capabilities()?);
    Ok(port)
}

struct Path {
    rx: [RxQueue; 2],
    tx: [TxQueue; 2],
    burst: Burst,
}

impl Path {
    fn fill(&mut self, pool: &Mempool, frames: usize) {
        for tx in &mut self.tx {
            for _ in 0..frames {
                self.burst.extend(pool.frame(&[0; 60]).ok());
                // Devices that take no frame now lose it: they bring their own.
                if tx.transmit(&mut self.burst) == 0 {
                    free_burst(&mut self.burst);
                }
            }
        }
    }

    /// Frames moved in one window, and its length in nanoseconds.
    fn window(&mut self, touch: bool) -> (usize, u64) {
        let began = Instant::now();
        let mut moved = 0;
        for _ in 0..TURNS {
            for (rx, tx) in self.rx.iter_mut().zip(&mut self.tx) {
                rx.receive(&mut self.burst);
                if touch {
                    for frame in &mut self.burst {
                        if let Some(header) = frame.bytes_mut().first_chunk_mut() {
                            *header = ADDRESSES;
                        }
                    }
                }
                moved += tx.transmit(&mut self.burst);
                if !self.burst.is_empty() {
                    free_burst(&mut self.burst);
                }
            }
        }
        (moved, u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }
}
