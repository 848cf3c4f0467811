//! Hosts on their links: the loop that moves frames between stations and DPDK queues, for `weir host` and for
//! the hosts of `weir lab`.

use crate::run::io::{DpdkWire, Transmit};
use std::fmt::{self, Debug, Formatter};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use weir_config::RING_HAND;
use weir_dataplane::frame::Frame;
use weir_dataplane::switch::Wire;
use weir_dpdk::{Burst, Clock, Mempool, Polling, RxQueue};
use weir_endpoint::station::Station;

/// How often the loop tells how far it is, ns.
const LOOK: u64 = 10_000_000;

/// So long a loop that is to end goes on taking what arrives, ns.
const LINGER: u64 = 300_000_000;

/// One host and its link.
#[derive(Debug)]
pub struct Seat {
    /// The host.
    pub station: Station,
    rx: RxQueue,
    wire: DpdkWire,
    /// Frames the device has not taken yet.
    waiting: Burst,
}

/// How far the hosts are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum Phase {
    Send = 0,
    Listen = 1,
    Freeze = 2,
    End = 3,
}

/// Sums over all hosts, for people who watch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Look {
    /// Nanoseconds since the start.
    pub at: u64,
    /// Bytes of messages acknowledged by their receivers.
    pub acknowledged: u64,
    /// Bytes of messages received and right.
    pub received: u64,
    /// Messages that arrived wrong.
    pub wrong: u64,
    /// Frames sent again.
    pub retransmitted: u64,
    /// CNPs received.
    pub cnps: u64,
    /// Nanoseconds held back by PFC, all priorities added up.
    pub paused: u64,
}

/// Something the loop is to do between two of its turns, told what time it is.
pub type Ordered = Box<dyn FnOnce(&mut [Seat], u64) + Send>;

/// What the hosts' thread and the others know of each other.
#[derive(Default)]
pub struct Shared {
    /// There are orders.
    ordered: AtomicBool,
    orders: Mutex<Vec<Ordered>>,
    phase: AtomicU8,
    done: AtomicBool,
    frozen: AtomicBool,
    last_frame: AtomicU64,
    look: Mutex<Look>,
}

impl Debug for Shared {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").field("look", &self.look()).finish_non_exhaustive()
    }
}

impl Shared {
    /// Has the loop do something.
    pub fn order(&self, order: Ordered) {
        self.orders.lock().unwrap_or_else(PoisonError::into_inner).push(order);
        self.ordered.store(true, Relaxed);
    }

    /// What it is to do.
    fn take_orders(&self) -> Vec<Ordered> {
        if !self.ordered.load(Relaxed) {
            return Vec::new();
        }
        self.ordered.store(false, Relaxed);
        std::mem::take(&mut *self.orders.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Nothing new is sent; what is on its way is still received and acknowledged.
    pub fn stop_sending(&self) {
        self.phase.store(Phase::Listen as u8, Relaxed);
        self.done.store(false, Relaxed);
    }

    /// Nothing at all is sent any more, not even answers.
    pub fn freeze(&self) {
        self.phase.store(Phase::Freeze as u8, Relaxed);
    }

    /// Nothing is sent any more, and everything made before is on the wire.
    pub fn is_frozen(&self) -> bool {
        self.frozen.load(Relaxed)
    }

    /// The loop ends once nothing comes in any more.
    pub fn end(&self) {
        self.phase.store(Phase::End as u8, Relaxed);
    }

    /// Every host has done all it was to do.
    pub fn is_done(&self) -> bool {
        self.done.load(Relaxed)
    }

    /// When the last frame came or went, ns.
    pub fn last_frame(&self) -> u64 {
        self.last_frame.load(Relaxed)
    }

    /// Sums at the last look.
    pub fn look(&self) -> Look {
        *self.look.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Seat {
    /// A host on a link.
    pub fn new(station: Station, rx: RxQueue, wire: DpdkWire) -> Self {
        Self { station, rx, wire, waiting: Burst::new() }
    }

    /// Its link went down or came up.
    pub fn link_changed(&mut self) {
        self.wire.link_changed();
    }

    /// Receives and sends what there is; `true` if there was anything. Frozen, it makes no new frames.
    fn turn(&mut self, pool: &Mempool, clock: &Clock, frozen: bool) -> bool {
        let mut burst = Burst::new();
        let mut busy = self.rx.receive(&mut burst) > 0;
        let now = clock.now();
        for frame in &burst {
            self.station.handle_frame(frame.bytes(), now);
        }
        drop(burst);
        while !frozen && self.waiting.len() < RING_HAND as usize {
            // Memory first: a frame the host has made is a frame it has sent.
            let Some(mut mbuf) = pool.alloc() else { break };
            let Some(bytes) = self.station.poll_transmit(now) else { break };
            if !mbuf.append(bytes) {
                break;
            }
            self.waiting.push(mbuf);
        }
        if !self.waiting.is_empty() {
            busy |= self.wire.send(&mut self.waiting) > 0;
        }
        busy
    }
}

/// Runs the hosts until told to end. `rest`: the sleep when no host had anything to do. `polling`: where it stands still
/// while interrupts are served.
pub fn work(
    mut seats: Vec<Seat>,
    pool: &Mempool,
    clock: &Clock,
    rest: Duration,
    shared: &Arc<Shared>,
    polling: Option<&Polling>,
) -> Vec<Seat> {
    let (mut sending, mut frozen, mut look_at, mut ends_at) = (true, false, 0, None);
    loop {
        let mut busy = false;
        for seat in &mut seats {
            busy |= seat.turn(pool, clock, frozen);
        }
        if let Some(polling) = polling {
            polling.between_bursts();
        }
        let now = clock.now();
        if busy {
            shared.last_frame.store(now, Relaxed);
        }
        for order in shared.take_orders() {
            order(&mut seats, now);
        }
        let phase = shared.phase.load(Relaxed);
        if sending && phase != Phase::Send as u8 {
            sending = false;
            seats.iter_mut().for_each(|seat| seat.station.stop());
        }
        if phase >= Phase::Freeze as u8 {
            frozen = true;
            shared.frozen.store(seats.iter().all(|seat| seat.waiting.is_empty()), Relaxed);
        }
        if now >= look_at || phase != Phase::Send as u8 {
            look_at = now + LOOK;
            shared.done.store(seats.iter().all(|seat| seat.station.is_done()), Relaxed);
            if let Ok(mut look) = shared.look.try_lock() {
                *look = sum(&seats, now);
            }
        }
        // What has arrived is taken, unless more comes without end.
        if phase == Phase::End as u8 && (!busy || now >= *ends_at.get_or_insert(now.saturating_add(LINGER))) {
            return seats;
        }
        if !busy && !rest.is_zero() {
            std::thread::sleep(rest);
        }
    }
}

fn sum(seats: &[Seat], now: u64) -> Look {
    let mut look = Look { at: now, ..Look::default() };
    for seat in seats {
        let report = seat.station.report(now);
        look.retransmitted += report.adapter.retransmitted();
        look.paused += report.paused_ns.iter().sum::<u64>();
        for pair in seat.station.pairs() {
            look.acknowledged += pair.progress.acknowledged_bytes;
            look.received += pair.progress.received_bytes;
            let p = &pair.progress;
            look.wrong += p.out_of_order + p.corrupted + p.lost;
            look.cnps += pair.progress.cnps;
        }
    }
    look
}
