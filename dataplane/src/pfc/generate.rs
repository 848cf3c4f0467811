//! Telling the peer to stop and to go on: Xoff, refresh, Xon.
//!
//! The generator compares what should hold (the requests) with what the peer was told, and makes one
//! frame of the difference. A request that is withdrawn before a frame was made costs no frame. Scenarios
//! C1 to C3, C6, C11, C14; REQ SW-103; DEV-24 to DEV-26.

use super::account::PauseAccount;
use super::frame::{PfcFrame, quanta_to_ns_floor};
use super::{NEVER, bits};
use crate::types::{Nanos, PRIORITIES, PortId};

/// Who asks for Xoff. A priority is resumed when nobody asks any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Source {
    /// The priority group crossed its Xoff line.
    Buffer = 1,
    /// The RX ring of the port is filling: frames are lost before admission sees them.
    RxRing = 2,
}

/// The egress queue whose backlog led to an Xoff: for events and for deadlock search, not for decisions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cause {
    /// Egress port index.
    pub out_port: u16,
    /// Egress queue.
    pub queue: u8,
}

impl From<(PortId, u8)> for Cause {
    fn from((out, queue): (PortId, u8)) -> Self {
        Self { out_port: out.0, queue }
    }
}

/// Why the peer was last told to pause a priority.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum LastCause {
    /// It never was.
    #[default]
    Never,
    /// No queue is to blame: the receive ring was filling, or the frames had left in the meantime.
    NoQueue,
    /// The backlog of this queue.
    Queue(Cause),
}

impl LastCause {
    /// As one number, for counters.
    pub fn word(self) -> u64 {
        match self {
            Self::Never => 0,
            Self::NoQueue => 1,
            Self::Queue(c) => 2 + u64::from(c.out_port) * PRIORITIES as u64 + u64::from(c.queue),
        }
    }

    /// From [`LastCause::word`].
    pub fn of_word(word: u64) -> Self {
        let Some(ix) = word.checked_sub(2) else {
            return if word == 0 { Self::Never } else { Self::NoQueue };
        };
        let (port, queue) = (ix / PRIORITIES as u64, ix % PRIORITIES as u64);
        Self::Queue(Cause { out_port: port as u16, queue: queue as u8 })
    }
}

/// How a port pauses its peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GenerateConfig {
    /// Rate of the port, bit/s: what a quantum is.
    pub rate: u64,
    /// Priorities for which PFC may be sent, one bit each. Requests for others are ignored (C6, C15).
    pub enabled: u8,
    /// Pause asked for in one frame, quanta; at least 1.
    pub quanta: u16,
    /// A running pause is asked for again after this share of it, in parts per million: [`REFRESH`] unless the
    /// operator knows better.
    pub refresh: u32,
}

/// Three eighths of a pause. Half is the most C2 allows, but then the refresh after a lost one arrives with the
/// expiry; so a lost frame leaves a quarter of the pause for a late one (C11).
pub const REFRESH: u32 = 375_000;

/// `ppm` parts per million of `whole`, rounded down; at most `whole`.
fn share_of(whole: Nanos, ppm: u32) -> Nanos {
    (u128::from(whole) * u128::from(ppm.min(1_000_000)) / 1_000_000) as Nanos
}

/// Frames a port made. They only grow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct TxCounters {
    /// PFC frames.
    pub pfc_frames: u64,
    /// Those of them that paused a priority or more, or refreshed its pause.
    pub xoff_frames: u64,
    /// Those that resumed a priority or more.
    pub xon_frames: u64,
    /// Frames that paused this priority or refreshed its pause.
    pub xoff: [u64; PRIORITIES],
    /// Frames that resumed this priority.
    pub xon: [u64; PRIORITIES],
}

/// What one port tells its peer. In the order of the declaration: whether a frame is due is asked for every frame that leaves, and
/// stands in one cache line.
#[derive(Clone, Debug)]
#[repr(C)]
pub struct Generator {
    /// Priorities whose last word to the peer differs from what should hold.
    changed: u8,
    /// Earliest refresh, [`NEVER`] if the peer is not paused.
    next_refresh: Nanos,
    /// Priorities the peer was told to pause.
    told: u8,
    up: bool,
    config: GenerateConfig,
    requests: [u8; PRIORITIES],
    refresh_at: [Nanos; PRIORITIES],
    cause: [Option<Cause>; PRIORITIES],
    last_cause: [LastCause; PRIORITIES],
    account: PauseAccount,
    counters: TxCounters,
}

impl Generator {
    /// A port with its link up that has not paused anybody.
    pub fn new(config: GenerateConfig) -> Self {
        Self {
            changed: 0,
            next_refresh: NEVER,
            told: 0,
            up: true,
            config,
            requests: [0; PRIORITIES],
            refresh_at: [NEVER; PRIORITIES],
            cause: [None; PRIORITIES],
            last_cause: [LastCause::Never; PRIORITIES],
            account: PauseAccount::default(),
            counters: TxCounters::default(),
        }
    }

    /// `source` wants `priority` paused. `cause` is kept from the first request until the last one goes.
    /// Asking again changes nothing.
    pub fn xoff(&mut self, priority: usize, source: Source, cause: Option<Cause>) {
        let before = self.requests[priority];
        if before == 0 {
            self.cause[priority] = cause;
        }
        self.requests[priority] = before | source as u8;
        if before != self.requests[priority] {
            self.compare();
        }
    }

    /// `source` no longer wants `priority` paused. Xon follows when no other source does.
    pub fn xon(&mut self, priority: usize, source: Source) {
        let before = self.requests[priority];
        self.requests[priority] = before & !(source as u8);
        if before != 0 && self.requests[priority] == 0 {
            self.cause[priority] = None;
            self.compare();
        }
    }

    /// Priorities that should be paused now, one bit each.
    pub fn wanted(&self) -> u8 {
        let asked = self.requests.iter().rev().fold(0, |mask, r| mask << 1 | u8::from(*r != 0));
        asked & self.config.enabled
    }

    fn compare(&mut self) {
        self.changed = if self.up { self.wanted() ^ self.told } else { 0 };
    }

    /// A frame must leave: something changed or a refresh is due. One or two compares.
    #[inline]
    pub fn due(&self, now: Nanos) -> bool {
        self.changed != 0 || now >= self.next_refresh
    }

    /// When [`Generator::due`] becomes true: 0 if it is, [`NEVER`] if only a request can make it so.
    #[inline]
    pub fn next_deadline(&self) -> Nanos {
        if self.changed != 0 { 0 } else { self.next_refresh }
    }

    /// The frame to send at `now`, if one is due: every priority that changed and every refresh that is
    /// due, in one frame. It goes ahead of all data and is not subject to pause (C13). The caller must
    /// send it: ask [`Generator::due`] first where memory for a frame may be missing. Xon is sent once; if
    /// it is lost the peer goes on when its pause runs out.
    #[inline]
    pub fn poll(&mut self, now: Nanos) -> Option<PfcFrame> {
        if self.due(now) { Some(self.build(now)) } else { None }
    }

    #[cold]
    fn build(&mut self, now: Nanos) -> PfcFrame {
        let wanted = self.told ^ self.changed;
        let refresh = bits(self.told & wanted).filter(|p| self.refresh_at[*p] <= now);
        let xoff = refresh.fold(wanted & self.changed, |mask, p| mask | 1 << p);
        let xon = self.changed & !wanted;
        for priority in bits(xoff & !self.told) {
            self.last_cause[priority] = self.cause[priority].map_or(LastCause::NoQueue, LastCause::Queue);
        }
        for priority in bits(xoff) {
            self.account.begin(priority, now);
            self.counters.xoff[priority] += 1;
            self.refresh_at[priority] = now.saturating_add(self.refresh_interval());
        }
        for priority in bits(xon) {
            self.account.end(priority, now);
            self.counters.xon[priority] += 1;
        }
        self.counters.pfc_frames += 1;
        self.counters.xoff_frames += u64::from(xoff != 0);
        self.counters.xon_frames += u64::from(xon != 0);
        self.told = wanted;
        self.changed = 0;
        self.next_refresh = bits(wanted).map(|p| self.refresh_at[p]).min().unwrap_or(NEVER);
        PfcFrame { enable: xoff | xon, ..PfcFrame::uniform(xoff, self.config.quanta) }
    }

    fn refresh_interval(&self) -> Nanos {
        let pause = quanta_to_ns_floor(self.config.quanta, self.config.rate);
        share_of(pause, self.config.refresh).max(1)
    }

    /// New settings. A priority that may no longer be paused is resumed by the next frame; pauses that go
    /// on are refreshed at once, since the peer may count other quanta now.
    pub fn configure(&mut self, config: GenerateConfig, now: Nanos) {
        self.config = config;
        for priority in bits(self.told) {
            self.refresh_at[priority] = now;
        }
        self.next_refresh = if self.told == 0 { NEVER } else { now };
        self.compare();
    }

    /// The link went down: the peer has forgotten what it was told, and nothing is sent (C14).
    pub fn link_down(&mut self, now: Nanos) {
        for priority in bits(self.told) {
            self.account.end(priority, now);
        }
        self.told = 0;
        self.next_refresh = NEVER;
        self.up = false;
        self.compare();
    }

    /// The link is back: what is still asked for is told again.
    pub fn link_up(&mut self) {
        self.up = true;
        self.compare();
    }

    /// Priorities the peer was told to pause, one bit each.
    #[inline]
    pub fn paused_mask(&self) -> u8 {
        self.told
    }

    /// Why `priority` was asked to pause, while somebody asks.
    pub fn cause(&self, priority: usize) -> Option<Cause> {
        self.cause[priority]
    }

    /// Why the peer was last told to pause `priority`, long ago or now.
    pub fn last_cause(&self, priority: usize) -> LastCause {
        self.last_cause[priority]
    }

    /// Frames made so far.
    pub fn counters(&self) -> &TxCounters {
        &self.counters
    }

    /// Times the peer was told to pause `priority` while it was running.
    pub fn transitions(&self, priority: usize) -> u64 {
        self.account.transitions(priority)
    }

    /// Length of the most recent pause of `priority` that was ended by us.
    pub fn last_pause(&self, priority: usize) -> Nanos {
        self.account.last(priority)
    }

    /// Nanoseconds until `now` between the Xoff and the Xon frames of `priority`.
    pub fn paused_ns(&self, priority: usize, now: Nanos) -> Nanos {
        self.account.total(priority, now)
    }
}

#[cfg(test)]
#[path = "generate_tests.rs"]
mod tests;
