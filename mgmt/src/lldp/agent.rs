//! Who is at the other end of each link, and when to say who is at this one. Driven by whoever has the frames and the time, in ms since some
//! start.

use super::frame::{Id, Lldpdu, decode};
use super::settings::Settings;
use std::collections::VecDeque;
use std::sync::Arc;
use weir_config::LldpMode;
use weir_dataplane::types::Mac;

/// Neighbours of a port that are kept; a link has one, a hub a few.
pub const NEIGHBOURS: usize = 8;
/// Neighbours that have gone and whose end is still told.
const GONE: usize = NEIGHBOURS;
/// After a neighbour has come so many frames are sent a second apart, so that it soon knows us (802.1AB txFastInit).
const FAST: u8 = 4;
/// Least time between two frames of a port, ms.
const SECOND: u64 = 1_000;

/// A station at the other end of a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Neighbour {
    /// What it says.
    pub says: Lldpdu,
    /// Source of its frames.
    pub source: Mac,
    /// When it was first heard of, and when last, ms.
    pub heard: (u64, u64),
    /// Until when what it said holds, ms.
    pub expires: u64,
    /// Frames it has sent.
    pub frames: u64,
}

/// Which neighbour: chassis and port.
pub type Key = (Id, Id);

impl Neighbour {
    /// Which one it is.
    pub fn key(&self) -> Key {
        (self.says.chassis.clone(), self.says.port.clone())
    }
}

/// Why a neighbour has gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gone {
    /// It said nothing for as long as what it had said was to hold.
    Expired,
    /// It said that it would (time to live 0).
    SaidSo,
    /// The link is down.
    LinkDown,
    /// Nobody listens any more: the configuration has changed.
    Off,
}

impl Gone {
    /// For people.
    pub fn word(self) -> &'static str {
        match self {
            Self::Expired => "ttl_expired",
            Self::SaidSo => "shutdown",
            Self::LinkDown => "link_down",
            Self::Off => "lldp_off",
        }
    }
}

/// What became of frames, beside those that a port has taken and sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Frames thrown away because they are none, as [`super::Malformed`].
    pub malformed: u64,
    /// Frames of neighbours for which there was no place.
    pub too_many: u64,
    /// TLVs thrown away, of frames that were taken.
    pub tlvs_discarded: u64,
    /// Frames that could not be sent when they were due: the link does not take any.
    pub not_sent: u64,
}

/// What is known at a port.
#[derive(Clone, Debug, Default)]
pub struct PortNeighbours {
    /// Those that are there.
    pub neighbours: Vec<Neighbour>,
    /// Those that have gone, the last of them last.
    pub gone: VecDeque<(Key, Gone)>,
    /// See there.
    pub counters: Counters,
}

/// Everything that is known, at one instant.
#[derive(Clone, Debug, Default)]
pub struct LldpReading {
    /// When, ms.
    pub at: u64,
    /// What we say and do.
    pub settings: Arc<Settings>,
    /// By port.
    pub ports: Vec<PortNeighbours>,
}

/// A port.
#[derive(Clone, Debug, Default)]
struct Port {
    known: PortNeighbours,
    up: bool,
    /// When to send next, ms, and when it last did.
    due: u64,
    sent: Option<u64>,
    fast: u8,
}

/// Takes frames, says what to send.
#[derive(Debug)]
pub struct Agent {
    settings: Arc<Settings>,
    ports: Vec<Port>,
}

impl Agent {
    /// For a switch that says this.
    pub fn new(settings: Settings) -> Self {
        let ports = vec![Port::default(); settings.ports.len()];
        Self { settings: Arc::new(settings), ports }
    }

    /// Another configuration is in force. A port that falls silent has its neighbours forget it at once, as far as `send` takes the frame.
    pub fn configure(&mut self, settings: Settings, now: u64, send: &mut dyn FnMut(usize, Vec<u8>) -> bool) {
        if *self.settings == settings {
            return;
        }
        let old = std::mem::replace(&mut self.settings, Arc::new(settings));
        for (i, (was, is)) in old.ports.iter().zip(&self.settings.ports).enumerate() {
            let port = &mut self.ports[i];
            if is.mode == LldpMode::Off {
                port.forget(Gone::Off);
            }
            if was.mode == LldpMode::Both && port.up && is.mode != LldpMode::Both {
                send(i, farewell(was.mac, &was.says));
            }
            if was != is || old.interval_ms != self.settings.interval_ms {
                port.due = now;
            }
        }
    }

    /// A frame has come.
    pub fn receive(&mut self, port: usize, frame: &[u8], now: u64) {
        let mode = self.settings.ports.get(port).map_or(LldpMode::Off, |settings| settings.mode);
        let Some(port) = self.ports.get_mut(port).filter(|_| mode != LldpMode::Off) else { return };
        match decode(frame) {
            Err(_) => port.known.counters.malformed += 1,
            Ok(decoded) => {
                port.known.counters.tlvs_discarded += decoded.discarded;
                port.take(decoded.pdu, decoded.source, now);
            }
        }
    }

    /// Links are as `up` says, what has not been renewed is forgotten, and what is due is sent: `send` says whether it took a frame
    /// for a port. `true`: something has changed that may be worth telling.
    pub fn tick(
        &mut self,
        now: u64,
        up: &dyn Fn(usize) -> bool,
        send: &mut dyn FnMut(usize, Vec<u8>) -> bool,
    ) -> bool {
        let mut changed = false;
        for (i, (port, settings)) in self.ports.iter_mut().zip(&self.settings.ports).enumerate() {
            let was = std::mem::replace(&mut port.up, up(i));
            if was && !port.up {
                changed |= port.forget(Gone::LinkDown);
            }
            if !was && port.up {
                (port.due, port.fast) = (now, FAST);
            }
            changed |= port.age(now);
            let early = port.sent.is_some_and(|sent| now < sent + SECOND);
            if settings.mode != LldpMode::Both || !port.up || now < port.due || early {
                continue;
            }
            port.sent = Some(now);
            port.fast = port.fast.saturating_sub(1);
            port.due = now + if port.fast > 0 { SECOND } else { self.settings.interval_ms };
            if !send(i, settings.says.encode(settings.mac)) {
                port.known.counters.not_sent += 1;
                port.due = now + SECOND;
                changed = true;
            }
        }
        changed
    }

    /// The switch ends: neighbours are told so.
    pub fn end(&mut self, send: &mut dyn FnMut(usize, Vec<u8>) -> bool) {
        for (i, (port, settings)) in self.ports.iter().zip(&self.settings.ports).enumerate() {
            if settings.mode == LldpMode::Both && port.up {
                send(i, farewell(settings.mac, &settings.says));
            }
        }
    }

    /// All that is known.
    pub fn reading(&self, now: u64) -> LldpReading {
        LldpReading {
            at: now,
            settings: Arc::clone(&self.settings),
            ports: self.ports.iter().map(|port| port.known.clone()).collect(),
        }
    }
}

/// What has a neighbour forget us: nothing but who it is about.
fn farewell(mac: Mac, says: &Lldpdu) -> Vec<u8> {
    Lldpdu::new(says.chassis.clone(), says.port.clone(), 0).encode(mac)
}

impl Port {
    fn take(&mut self, says: Lldpdu, source: Mac, now: u64) {
        let key = (&says.chassis, &says.port);
        let known = self.known.neighbours.iter().position(|n| (&n.says.chassis, &n.says.port) == key);
        if says.ttl == 0 {
            return known.into_iter().for_each(|at| self.remove(at, Gone::SaidSo));
        }
        let expires = now + u64::from(says.ttl) * SECOND;
        if let Some(known) = known.map(|at| &mut self.known.neighbours[at]) {
            (known.says, known.source, known.expires) = (says, source, expires);
            (known.heard.1, known.frames) = (now, known.frames + 1);
        } else if self.known.neighbours.len() == NEIGHBOURS {
            self.known.counters.too_many += 1;
        } else {
            self.known.neighbours.push(Neighbour { says, source, heard: (now, now), expires, frames: 1 });
            (self.fast, self.due) = (FAST, now);
        }
    }

    fn remove(&mut self, at: usize, why: Gone) {
        let gone = self.known.neighbours.remove(at);
        if self.known.gone.len() == GONE {
            self.known.gone.pop_front();
        }
        self.known.gone.push_back((gone.key(), why));
    }

    fn forget(&mut self, why: Gone) -> bool {
        let any = !self.known.neighbours.is_empty();
        (0..self.known.neighbours.len()).rev().for_each(|at| self.remove(at, why));
        any
    }

    fn age(&mut self, now: u64) -> bool {
        let old = |n: &Neighbour| now >= n.expires;
        let before = self.known.neighbours.len();
        while let Some(at) = self.known.neighbours.iter().position(old) {
            self.remove(at, Gone::Expired);
        }
        self.known.neighbours.len() < before
    }
}

#[cfg(test)]
#[path = "agent_tests.rs"]
mod tests;
