//! Both ends of a transfer: go-back-N, pacing, rate control.
use weir_dataplane::types::Nanos;
use weir_endpoint::congestion::{UNLIMITED_WINDOW, Window};
use weir_endpoint::dcqcn::ns3::{Timer, Timers};

use super::cell::{Cell, Key, Kind};
use super::config::FlowSpec;
use super::control::Controller;
use super::engine::Engine;
use super::port::FrameSizes;
use super::units::transmit_ns;

/// A NACK for the same byte is repeated no sooner than this, as published.
pub const NACK_INTERVAL: Nanos = 500_000;

/// The sending end.
#[derive(Debug)]
pub struct FlowTx {
    /// What is to be sent.
    pub spec: FlowSpec,
    /// Bytes below this are acknowledged.
    pub acked: u32,
    /// Next byte to send.
    pub next: u32,
    /// Bytes below this have been sent at least once.
    pub highest: u32,
    /// No frame before this time.
    pub next_send: Nanos,
    /// When the last ACK came.
    pub finished: Option<Nanos>,
    /// Rate machine.
    pub controller: Controller,
    /// Timers of the rate machine.
    pub timers: FlowTimers,
    sizes: FrameSizes,
    line: u64,
    /// How the limit to the bytes in flight follows the rate, and that limit now.
    window: Window,
    limit: u64,
    /// The rate frames are spaced by is the current one; else that of the line.
    rate_bound: bool,
    /// Gap after a full frame.
    full_gap: Nanos,
    /// Bytes of the last data frame.
    last_bytes: u16,
}

impl FlowTx {
    /// A flow that has sent nothing.
    pub fn new(
        spec: FlowSpec,
        controller: Controller,
        window: Window,
        rate_bound: bool,
        sizes: FrameSizes,
    ) -> Self {
        let mut flow = Self {
            spec,
            acked: 0,
            next: 0,
            highest: 0,
            next_send: 0,
            finished: None,
            line: controller.rate_bps(),
            controller,
            timers: FlowTimers::default(),
            sizes,
            window,
            limit: UNLIMITED_WINDOW,
            rate_bound,
            full_gap: 0,
            last_bytes: sizes.data,
        };
        flow.rate_changed();
        flow
    }

    /// Recomputes what depends on the rate. The gap that runs already keeps its length.
    pub fn rate_changed(&mut self) {
        self.full_gap = self.gap(self.sizes.data);
        let rate = self.controller.rate_bps();
        self.limit = match self.window {
            // The product has 64 bits, as published.
            Window::Variable(bytes) => (bytes.wrapping_mul(rate) / self.line.max(1)).max(1),
            other => other.at(rate, self.line),
        };
    }

    /// Also the gap that runs takes the new rate; `before`: the old one, bit/s.
    pub fn rate_changed_at_once(&mut self, before: u64) {
        let after = self.controller.rate_bps();
        let longer = transmit_ns(self.last_bytes, after) as i64 - transmit_ns(self.last_bytes, before) as i64;
        self.next_send = self.next_send.saturating_add_signed(longer);
        self.rate_changed();
    }

    /// Time from a frame to the next.
    fn gap(&self, bytes: u16) -> Nanos {
        transmit_ns(bytes, if self.rate_bound { self.controller.rate_bps() } else { self.line })
    }

    /// Bytes that may be in flight; 0: any number.
    pub fn window_bytes(&self) -> u64 {
        if self.limit == UNLIMITED_WINDOW { 0 } else { self.limit }
    }

    /// Whether payload is left to send, or to send again.
    #[inline]
    pub fn has_more(&self) -> bool {
        self.next < self.spec.bytes
    }

    /// Whether the window holds the flow back. As published: after a second NACK about one gap acknowledgements of what was under way
    /// may overtake `next`, and what is in flight is then less than nothing, without a sign, so that the flow never goes on.
    #[inline]
    pub fn window_full(&self) -> bool {
        let in_flight = u64::from(self.next).wrapping_sub(self.acked.into());
        in_flight >= self.limit && self.limit != UNLIMITED_WINDOW
    }

    /// Takes the next frame, which leaves at `now`: its first byte and its bytes on the wire.
    #[inline]
    pub fn take_frame(&mut self, now: Nanos) -> (u32, u16) {
        let psn = self.next;
        let payload = self.sizes.payload.min(self.spec.bytes - psn);
        self.next += payload;
        let bytes = payload as u16 + self.sizes.headers;
        let gap = if bytes == self.sizes.data { self.full_gap } else { self.gap(bytes) };
        self.next_send = now + gap;
        self.last_bytes = bytes;
        (psn, bytes)
    }
}

/// The receiving end.
#[derive(Clone, Copy, Debug, Default)]
pub struct FlowRx {
    expected: u32,
    last_nack: u32,
    nack_again: Nanos,
}

impl FlowRx {
    /// A frame of `payload` bytes from byte `psn` arrived: the answer and its byte, if there is one.
    #[inline]
    pub fn receive(
        &mut self,
        psn: u32,
        payload: u32,
        now: Nanos,
        nack_interval: Nanos,
    ) -> Option<(Kind, u32)> {
        if psn == self.expected {
            self.expected += payload;
            return Some((Kind::Ack, self.expected));
        }
        if psn < self.expected || (now < self.nack_again && self.last_nack == self.expected) {
            return None;
        }
        self.nack_again = now.saturating_add(nack_interval);
        self.last_nack = self.expected;
        Some((Kind::Nack, self.expected))
    }
}

/// How the alpha timer of a flow runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AlphaTicks {
    /// No events: caught up when alpha is needed. A tick at the time of a CNP counts before it.
    BeforeCnp,
    /// No events, and a tick at the time of a CNP counts after it.
    AfterCnp,
    /// One event per tick: the order at equal times hangs on what else happened one period ago.
    Events,
}

impl AlphaTicks {
    /// Ticks are scheduled one period ahead, ACKs their time on the link ahead; who was scheduled
    /// first runs first.
    pub fn new(ack_lead: Nanos, period: Nanos) -> Self {
        match ack_lead.cmp(&period) {
            std::cmp::Ordering::Less => Self::BeforeCnp,
            std::cmp::Ordering::Greater => Self::AfterCnp,
            std::cmp::Ordering::Equal => Self::Events,
        }
    }
}

/// The timers of one rate machine. An armed timer that is armed again for later keeps its place in
/// the queue and moves on when its first time comes.
#[derive(Clone, Copy, Debug, Default)]
pub struct FlowTimers {
    /// When each timer runs; rank 0: not armed.
    due: [Key; 3],
    queued: [bool; 3],
    /// Next tick of an alpha timer without events; 0 when it does not run.
    alpha_at: Nanos,
}

const KINDS: [Kind; 3] = [Kind::Alpha, Kind::Decrease, Kind::Increase];

impl FlowTimers {
    /// The flow is complete.
    pub fn stop(&mut self) {
        self.due = [Key::default(); 3];
        self.alpha_at = 0;
    }

    /// An event of `timer` runs. True when the timer is due.
    pub fn is_due(&mut self, engine: &mut Engine, flow: u32, timer: Timer) -> bool {
        let t = timer as usize;
        self.queued[t] = false;
        let due = self.due[t];
        if due.rank > 0 && due.rank != engine.rank() {
            self.enqueue(engine, flow, t);
        }
        due.rank == engine.rank()
    }

    fn enqueue(&mut self, engine: &mut Engine, flow: u32, t: usize) {
        self.queued[t] = true;
        let index = engine.slab.alloc(Cell::event(KINDS[t], flow));
        engine.schedule_reserved(index, self.due[t]);
    }

    /// Alpha ticks up to `until`, inclusive, that have not been counted yet.
    #[inline]
    pub fn take_ticks(&mut self, until: Nanos, period: Nanos) -> u64 {
        if self.alpha_at == 0 || self.alpha_at > until {
            return 0;
        }
        let ticks = (until - self.alpha_at) / period + 1;
        self.alpha_at += ticks * period;
        ticks
    }
}

/// Arms the timers of one flow.
#[derive(Debug)]
pub struct Arm<'a> {
    /// The event queue.
    pub engine: &'a mut Engine,
    /// Timers of the flow.
    pub timers: &'a mut FlowTimers,
    /// Index of the flow.
    pub flow: u32,
    /// How its alpha timer runs.
    pub ticks: AlphaTicks,
}

impl Timers for Arm<'_> {
    fn arm(&mut self, timer: Timer, at: Nanos) {
        if timer == Timer::Alpha && self.ticks != AlphaTicks::Events {
            self.timers.alpha_at = at;
            return;
        }
        let t = timer as usize;
        self.timers.due[t] = self.engine.reserve(at);
        if !self.timers.queued[t] {
            self.timers.enqueue(self.engine, self.flow, t);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_nack_per_gap_until_the_interval_is_over() {
        let mut rx = FlowRx::default();
        assert_eq!(rx.receive(0, 1000, 0, NACK_INTERVAL), Some((Kind::Ack, 1000)));
        assert_eq!(rx.receive(2000, 1000, 10, NACK_INTERVAL), Some((Kind::Nack, 1000)));
        assert_eq!(rx.receive(3000, 1000, 20, NACK_INTERVAL), None);
        assert_eq!(rx.receive(0, 1000, 30, NACK_INTERVAL), None, "a duplicate is not answered");
        assert_eq!(rx.receive(4000, 1000, 10 + NACK_INTERVAL, NACK_INTERVAL), Some((Kind::Nack, 1000)));
        assert_eq!(rx.receive(1000, 1000, 600_000, NACK_INTERVAL), Some((Kind::Ack, 2000)));
        assert_eq!(rx.receive(3000, 1000, 600_001, NACK_INTERVAL), Some((Kind::Nack, 2000)), "another gap");
    }
}
