//! A capture put through a switch in virtual time.
//!
//! The switch is the one of `weir run`: its configuration, its shapers, one lcore. Frames come to the ports they were
//! captured at, those of one time stamp as the burst they were, and every port sends at the instant it may: no polling
//! gap lies between. A port without `rate` sends at once.

use std::collections::{BTreeMap, BTreeSet};
use std::iter::Peekable;
use std::vec::IntoIter;
use weir_config::Config;
use weir_config::runtime::{Device, RuntimeError, switch_params};
use weir_dataplane::frame::{Frame, SizedFrames};
use weir_dataplane::lag::LagMember;
use weir_dataplane::switch::{Filter, SwitchError, Tap, TapOrder, TapReader, Tapped, Wire};
use weir_dataplane::types::{BURST, Burst, Mac, Nanos, PortId};
use weir_dataplane::vlan::TAG_BYTES;

/// Virtual time of the first frame, ns: what a switch does once at its start is over by then.
pub const FIRST_FRAME_AT: Nanos = 1_000_000_000;

/// Why a capture cannot be put through a switch.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// The configuration makes no switch.
    #[error(transparent)]
    Config(#[from] RuntimeError),
    /// Nor do the numbers that follow from it.
    #[error(transparent)]
    Switch(#[from] SwitchError),
}

/// A frame of a capture: its first bytes, and how long it was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CapturedFrame {
    bytes: Vec<u8>,
    len: usize,
}

impl CapturedFrame {
    /// The first `bytes` of a frame of `len` bytes without FCS.
    pub fn new(bytes: Vec<u8>, len: usize) -> Self {
        let len = len.max(bytes.len());
        Self { bytes, len }
    }
}

impl Frame for CapturedFrame {
    type Row = SizedFrames<Self>;
    type Staged = Burst<Self>;

    fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.bytes
    }

    fn len(&self) -> usize {
        self.len
    }

    fn share(&self) -> Option<Self> {
        Some(self.clone())
    }

    fn make_unique(&mut self) -> bool {
        true
    }

    fn insert_tag(&mut self, at: usize, tag: [u8; TAG_BYTES]) -> bool {
        let fits = at <= self.bytes.len();
        if fits {
            self.bytes.splice(at..at, tag);
            self.len += TAG_BYTES;
        }
        fits
    }

    fn remove_tag(&mut self, at: usize) -> bool {
        let fits = at + TAG_BYTES <= self.bytes.len();
        if fits {
            self.bytes.drain(at..at + TAG_BYTES);
            self.len -= TAG_BYTES;
        }
        fits
    }
}

/// A frame that comes to a port.
#[derive(Clone, Debug)]
pub struct Arrival {
    /// When, ns after the first one.
    pub at: Nanos,
    /// Where.
    pub port: PortId,
    /// The frame.
    pub frame: CapturedFrame,
    /// Port its destination was known to be at; of a LAG any member.
    pub to: Option<PortId>,
}

/// A frame of a capture in its turn, and the place of its destination, where it moves before this frame comes.
#[derive(Clone, Debug)]
struct Next {
    arrival: Arrival,
    moved: Option<(u64, PortId)>,
}

/// Takes every frame at once: the shaper of the port has let it go.
struct Open;

impl Wire<CapturedFrame> for Open {
    fn send(&mut self, frames: &mut Burst<CapturedFrame>) -> usize {
        let all = frames.len();
        frames.clear();
        all
    }

    fn send_control(&mut self, _frame: &[u8]) -> bool {
        true
    }
}

/// A switch and the frames that will come to it.
#[derive(Debug)]
pub struct Replay {
    switch: Tapped<CapturedFrame>,
    arrivals: Peekable<IntoIter<Next>>,
    /// Next call of each port, ns.
    wake: Vec<Nanos>,
    now: Nanos,
}

impl Replay {
    /// A switch of this configuration, to which these frames come in this order. It knows the destinations that were
    /// known when the frames were captured, from the start on where the first frame for them went and then where they moved, and
    /// learns where frames came from as configured.
    ///
    /// # Errors
    /// [`ReplayError`]: the configuration is beyond what makes a switch.
    pub fn new(config: &Config, arrivals: Vec<Arrival>) -> Result<Self, ReplayError> {
        let device = |i: usize| Device {
            mac: Mac::from_u64(0x0201_0000_0000 | i as u64),
            pfc: true,
            ..Device::default()
        };
        let devices: Vec<Device> = (0..config.ports.len()).map(device).collect();
        let mut params = switch_params(config, &devices, 1)?;
        let configured: BTreeSet<u64> = params.stations.iter().map(|(key, _)| *key).collect();
        // Which member a frame leaves by is no matter of where its destination is.
        let fdb_port = |port: PortId| {
            let lag = params.lags.iter().find(|lag| lag.members.contains(port));
            lag.and_then(|lag| lag.members.iter().next()).unwrap_or(port)
        };
        let (mut known, mut places) = (BTreeMap::new(), BTreeMap::new());
        let next = |arrival: Arrival| {
            let Arrival { port, frame, to, .. } = &arrival;
            let key = params.ports[port.index()].destination(frame.bytes(), frame.len());
            let place = key.filter(|key| !configured.contains(key)).zip(to.map(fdb_port));
            let moved = place.filter(|(key, port)| {
                known.entry(*key).or_insert(*port);
                places.insert(*key, *port).is_some_and(|before| before != *port)
            });
            Next { arrival, moved }
        };
        let arrivals: Vec<Next> = arrivals.into_iter().map(next).collect();
        params.stations.extend(known);
        params.fdb_capacity = params.fdb_capacity.max(2 * params.stations.len());
        params.ageing = None;
        // Each frame that is followed has a count of its own.
        params.copied += arrivals.len();
        let speak_lacp: Vec<PortId> =
            (0..).map(PortId).zip(&params.ports).filter(|(_, port)| port.lacp).map(|(id, _)| id).collect();
        let mut switch = Tapped::observed(params)?;
        // No partner speaks in virtual time.
        speak_lacp.into_iter().for_each(|port| switch.set_lag_member(port, LagMember::Distributing, 0));
        Ok(Self {
            wake: vec![Nanos::MAX; config.ports.len()],
            switch,
            arrivals: arrivals.into_iter().peekable(),
            now: 0,
        })
    }

    /// Follows all frames that come to `port`, keeping `bytes` of each, however many wait at once. One port at a time.
    pub fn follow(&mut self, port: PortId, bytes: u32) -> TapReader {
        let order = TapOrder { port, filter: Filter::default(), count: u64::MAX, bytes, drops: false };
        let (tap, reader) = Tap::new(order);
        let frames = self.arrivals.clone().filter(|next| next.arrival.port == port).count();
        self.switch.arm(Some(Box::new(tap.following(frames))));
        reader
    }

    /// Plays the next instant at which something happens. `read` is called again and again, before a reader has no more room.
    /// `false`: all frames have come, and none waits.
    pub fn step(&mut self, mut read: impl FnMut()) -> bool {
        let arrival = self.arrivals.peek().map(|next| next.arrival.at.saturating_add(FIRST_FRAME_AT));
        if arrival.is_none() && self.switch.held() == 0 {
            return false;
        }
        let wake = self.wake.iter().copied().min().unwrap_or(Nanos::MAX);
        let next = match arrival {
            // A look just before the frame makes up for those that are left out.
            Some(arrival) if wake < arrival && self.switch.is_at_rest() => arrival - 1,
            arrival => arrival.unwrap_or(Nanos::MAX).min(wake),
        };
        if next == Nanos::MAX {
            return false;
        }
        self.now = self.now.max(next);
        while let Some((port, mut burst)) = self.burst() {
            self.switch.receive(port, &mut burst, self.now);
            read();
        }
        self.switch.tick(self.now);
        read();
        for port in 0..self.wake.len() {
            let id = PortId(port as u16);
            while self.switch.transmit(id, BURST, self.now, &mut Open) > 0 {
                read();
            }
            let next = self.switch.next_event(id, self.now);
            self.wake[port] = next.map_or(Nanos::MAX, |at| at.max(self.now + 1));
        }
        true
    }

    /// Frames that come now, to one port.
    fn burst(&mut self) -> Option<(PortId, Burst<CapturedFrame>)> {
        let now = self.now;
        let due = |next: &Next| next.arrival.at.saturating_add(FIRST_FRAME_AT) <= now;
        let Next { arrival: first, moved } = self.arrivals.next_if(due)?;
        if let Some((key, port)) = moved {
            // There is room: it has had a place from the start.
            let _ = self.switch.move_station(key, port);
        }
        let mut burst = Burst::new();
        burst.push(first.frame);
        let goes_on = |next: &Next| due(next) && next.arrival.port == first.port && next.moved.is_none();
        while burst.len() < BURST
            && let Some(next) = self.arrivals.next_if(goes_on)
        {
            burst.push(next.arrival.frame);
        }
        Some((first.port, burst))
    }
}
