//! The polling loop: what runs on a worker lcore, and nothing else. No allocation, no lock, no
//! system call, no log.

use super::control::{Command, Control, Phase};
use weir_dataplane::switch::{Switch, Wire};
use weir_dataplane::types::{BURST, PortId};
use weir_dpdk::{Burst, Clock, Mbuf, Mempool, RxQueue, TxQueue};

/// A port, as the worker that owns it sees it.
#[derive(Debug)]
pub struct WorkerPort {
    /// Which port of the switch it is.
    pub id: PortId,
    /// Where its frames come from.
    pub rx: RxQueue,
    /// Where its frames go.
    pub wire: DpdkWire,
    /// The receive queue is filling above this many frames; `None`: not watched.
    pub ring_limit: Option<u32>,
    ring_full: bool,
}

impl WorkerPort {
    /// A port with both its queues.
    pub fn new(id: PortId, rx: RxQueue, tx: TxQueue, pool: Mempool, ring_limit: Option<u32>) -> Self {
        Self { id, rx, wire: DpdkWire { tx, pool }, ring_limit, ring_full: false }
    }
}

/// A transmit queue, and the pool control frames are made from.
#[derive(Debug)]
pub struct DpdkWire {
    tx: TxQueue,
    pool: Mempool,
}

impl Wire<Mbuf> for DpdkWire {
    #[inline]
    fn send(&mut self, frames: &mut Burst) -> usize {
        self.tx.transmit(frames)
    }

    #[cold]
    fn send_control(&mut self, frame: &[u8]) -> bool {
        let Ok(frame) = self.pool.frame(frame) else { return false };
        let mut burst = Burst::new();
        burst.push(frame);
        self.tx.transmit(&mut burst) == 1
    }
}

/// One worker: a shard of the switch and the ports it owns.
#[derive(Debug)]
pub struct Worker {
    /// Its number.
    pub shard: usize,
    /// Its part of the switch.
    pub switch: Switch<Mbuf>,
    /// Its ports.
    pub ports: Vec<WorkerPort>,
    /// Messages from the main thread.
    pub commands: rtrb::Consumer<Command>,
    /// The word all workers read.
    pub control: Control,
    /// Nanoseconds since start.
    pub clock: Clock,
    /// Turns of the loop, and those that moved a frame.
    pub turns: u64,
    /// Turns that moved at least one frame.
    pub busy_turns: u64,
    /// Longest turn, ns: the poll gap the headroom has to cover.
    pub longest_turn: u64,
}

/// A receive queue this full (of its ring) means frames are about to be lost.
pub const RING_LIMIT_EIGHTHS: u32 = 6;

impl Worker {
    /// Polls until told to stop. Gives itself back with all it counted.
    pub fn run(mut self) -> Self {
        let mut burst = Burst::new();
        let mut last = self.clock.now();
        let mut draining = false;
        loop {
            let mut moved = 0;
            for port in &mut self.ports {
                if port.rx.receive(&mut burst) > 0 {
                    moved += burst.len();
                    let full = burst.is_full();
                    self.switch.receive(port.id, &mut burst, self.clock.now());
                    // Only a full burst can mean that more is waiting.
                    if full || port.ring_full {
                        watch_ring(&mut self.switch, port);
                    }
                } else if port.ring_full {
                    watch_ring(&mut self.switch, port);
                }
            }
            for port in &mut self.ports {
                moved += self.switch.transmit(port.id, BURST, self.clock.now(), &mut port.wire);
            }
            let now = self.clock.now();
            self.switch.tick(now);
            self.turns += 1;
            self.busy_turns += u64::from(moved > 0);
            self.longest_turn = self.longest_turn.max(now - last);
            last = now;
            if !self.commands.is_empty() {
                self.obey(now);
            }
            match self.control.phase() {
                Phase::Forward => {}
                Phase::Drain => {
                    if !draining {
                        draining = true;
                        self.switch.drain();
                    }
                    self.control.report_held(self.shard, self.switch.held());
                }
                Phase::Stop => {
                    self.switch.publish_all(now);
                    return self;
                }
            }
        }
    }

    #[cold]
    fn obey(&mut self, now: u64) {
        while let Ok(command) = self.commands.pop() {
            match command {
                Command::Link(port, up) => self.switch.set_link(port, up, now),
            }
        }
    }
}

/// Raises Xoff while the receive queue is nearly full, takes it back when it is half empty.
#[cold]
fn watch_ring(switch: &mut Switch<Mbuf>, port: &mut WorkerPort) {
    let (Some(limit), Some(backlog)) = (port.ring_limit, port.rx.backlog()) else { return };
    let filling = backlog >= if port.ring_full { limit / 2 } else { limit };
    if filling != port.ring_full {
        port.ring_full = filling;
        switch.rx_ring(port.id, filling);
    }
}
