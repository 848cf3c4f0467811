//! The station: endpoint, link, reader, and the messages of every connection.

use super::config::{PairConfig, Route, StationConfig, StationError};
use super::traffic::{Incoming, Outgoing};
use crate::congestion::backoff::Backoff;
use crate::rclink::endpoint::{Endpoint, Event, QpConfig, Sent};
use crate::rclink::frame::Format;
use crate::roce::hca::Failure;
use crate::roce::verbs::Status;
use crate::starts::Starts;
use crate::station::MIN_MESSAGE;
use crate::station::cable::Cable;
use crate::station::pattern::Pattern;
use crate::station::report::{Address, ConnectionReport, EndpointCounters, Kind, Progress, StationReport};
use crate::timetable::Times;
use crate::traffic::Clock;
use std::collections::VecDeque;
use std::net::IpAddr;
use weir_dataplane::pfc::NEVER;
use weir_dataplane::pfc::frame::is_mac_control;
use weir_dataplane::types::{Mac, Nanos, PRIORITIES};

/// Messages made, and messages read, in one call at most.
const BATCH: usize = 32;
/// What is added to the end of a connection of another kind, so that its content differs.
const MULTICAST_END: u64 = 1 << 62;
const RAW_END: u64 = 1 << 63;

#[derive(Debug)]
struct Connection {
    kind: Kind,
    /// Its number among those of its kind: that of the queue pair.
    number: u16,
    /// Station bits of the peer.
    peer: u64,
    config: PairConfig,
    failure: Option<Failure>,
    backoff: Option<Backoff>,
    /// Pace of messages no queue pair paces.
    pace: Clock,
    outgoing: Option<Outgoing>,
    incoming: Incoming,
    progress: Progress,
}

impl Connection {
    /// All it is to do has been done, or can not be done any more.
    fn is_done(&self) -> bool {
        let p = &self.progress;
        let sent = self.outgoing.is_none_or(|out| out.all_posted(p.posted) && p.acknowledged == p.posted);
        let received = self.config.expect.is_none_or(|all| p.received + p.lost >= all);
        self.failure.is_some() || (sent && received)
    }

    /// From when on it may post its next message.
    fn posts_from(&self) -> Nanos {
        let start = self.outgoing.map_or(0, |out| out.stream.start);
        if self.kind == Kind::Qp { start } else { start.max(self.pace.ready()) }
    }

    /// Messages that wait or are in flight at most.
    fn depth(&self) -> u64 {
        u64::from(self.config.reliability.window)
    }
}

/// A host. Bytes and times in, bytes and times out.
#[derive(Debug)]
pub struct Station {
    config: StationConfig,
    endpoint: Endpoint,
    cable: Cable,
    reader: Option<Clock>,
    pairs: Vec<Connection>,
    /// The connection of each queue pair.
    qps: Vec<usize>,
    /// Connections that may have something to post, and those that have posted a batch and have more.
    starts: Starts,
    more: Vec<u32>,
    /// When the back-off of each has something to do.
    backoffs: Times,
    /// Whose multicast messages and raw frames wait in the endpoint, oldest first.
    groups: VecDeque<usize>,
    raws: VecDeque<usize>,
}

impl Station {
    /// A station without connections.
    ///
    /// # Errors
    /// Credits that do not fit.
    pub fn new(config: StationConfig) -> Result<Self, StationError> {
        Ok(Self {
            config,
            endpoint: Endpoint::new(config.endpoint)?,
            cable: Cable::new(config.endpoint.rate, config.slack),
            reader: config.read_rate.map(|rate| Clock::new(rate, 0)),
            pairs: Vec::new(),
            qps: Vec::new(),
            starts: Starts::default(),
            more: Vec::new(),
            backoffs: Times::default(),
            groups: VecDeque::new(),
            raws: VecDeque::new(),
        })
    }

    /// How others address this station: by IP in Standard, which has it.
    pub fn address(&self) -> Address {
        self.address_of(&self.config.endpoint.station)
    }

    fn address_of(&self, station: &crate::rclink::frame::Station) -> Address {
        match self.config.endpoint.codec.format {
            Format::Standard => Address::Ip(IpAddr::V4(station.ip)),
            _ => Address::Mac(station.mac),
        }
    }

    /// Adds a connection. Queue pairs are numbered from 0 in the order they are added; so are connections of
    /// the other kinds, apart.
    ///
    /// # Errors
    /// What does not fit.
    pub fn add(&mut self, config: PairConfig) -> Result<u16, StationError> {
        let codec = &self.config.endpoint.codec;
        let (kind, above) = match config.route {
            Route::Qp { .. } => (Kind::Qp, 0),
            Route::Multicast => (Kind::Multicast, MULTICAST_END),
            Route::Raw if codec.lite() => return Err(StationError::Raw),
            Route::Raw => (Kind::Raw, RAW_END),
        };
        let range = codec.payload_range();
        let (least, most) = ((*range.start() as u32).max(MIN_MESSAGE), *range.end() as u32);
        if let Some(bytes) = config.stream.map(|s| s.bytes).filter(|bytes| !(least..=most).contains(bytes)) {
            return Err(StationError::Message { bytes, least, most });
        }
        let (here, peer) = (codec.station(self.config.endpoint.station.mac), codec.station(config.peer.mac));
        let threshold = config.threshold();
        let backoff = config.backoff.map(|params| Backoff::new(params, threshold.into())).transpose()?;
        let (number, peer_qp) = match config.route {
            Route::Qp { peer_qp, class } => {
                let qp = QpConfig {
                    peer: config.peer,
                    peer_qp,
                    class,
                    pkey: config.pkey,
                    depth: usize::from(config.reliability.window),
                    reliability: config.reliability,
                    window: config.window,
                    length_thr: threshold,
                    slack: self.config.slack,
                };
                (self.endpoint.create_qp(qp)?, peer_qp)
            }
            Route::Multicast | Route::Raw => {
                (self.pairs.iter().filter(|pair| pair.kind == kind).count() as u16, 0)
            }
        };
        // What is sent to many is known by its sender alone.
        let end = |station: u64, qp: u16| station << 14 | u64::from(qp) | above;
        let [from_here, from_there] = match kind {
            Kind::Qp => [
                Pattern::new(end(here, number), end(peer, peer_qp)),
                Pattern::new(end(peer, peer_qp), end(here, number)),
            ],
            Kind::Multicast | Kind::Raw => [here, peer].map(|from| Pattern::new(end(from, 0), above)),
        };
        let reliable = kind == Kind::Qp && self.endpoint.is_reliable();
        let at = self.pairs.len();
        if kind == Kind::Qp {
            self.qps.push(at);
        }
        self.starts.change(at as u32);
        self.backoffs.make_room(at + 1);
        self.pairs.push(Connection {
            kind,
            number,
            peer,
            config,
            failure: None,
            backoff,
            pace: Clock::new(config.rate, 0),
            outgoing: config.stream.map(|stream| Outgoing::new(stream, from_here)),
            incoming: Incoming::new(from_there, !reliable),
            progress: Progress::new(),
        });
        Ok(number)
    }

    /// No more messages. What is under way is finished.
    pub fn stop(&mut self) {
        self.pairs.iter_mut().filter_map(|pair| pair.outgoing.as_mut()).for_each(Outgoing::stop);
        (0..self.pairs.len() as u32).for_each(|at| self.starts.change(at));
    }

    /// Every message that was to be sent is acknowledged or has left, every one that was to come has come or is
    /// lost, and all that came is read.
    pub fn is_done(&self) -> bool {
        !self.endpoint.has_events() && self.pairs.iter().all(Connection::is_done)
    }

    /// The connections, in the order they were added.
    pub fn pairs(&self) -> impl Iterator<Item = ConnectionReport> + '_ {
        self.pairs.iter().map(|pair| ConnectionReport {
            kind: pair.kind,
            number: u32::from(pair.number),
            peer: (
                self.address_of(&pair.config.peer),
                if let Route::Qp { peer_qp, .. } = pair.config.route { u32::from(peer_qp) } else { 0 },
            ),
            connected: true,
            reliable: pair.kind == Kind::Qp && self.endpoint.is_reliable(),
            failure: pair.failure,
            rate: match pair.kind {
                Kind::Qp => self.endpoint.rate(pair.number).unwrap_or(0),
                Kind::Multicast | Kind::Raw => pair.config.rate,
            },
            sends: pair.outgoing.is_some(),
            expect: pair.config.expect,
            ended: None,
            progress: pair.progress,
        })
    }

    /// What the station saw until `now`.
    pub fn report(&self, now: Nanos) -> StationReport {
        let (carried, reaction) = (&self.cable.carried, self.endpoint.reaction());
        StationReport {
            adapter: EndpointCounters::RcLink(*self.endpoint.counters()),
            paused_ns: std::array::from_fn(|p| reaction.paused_ns(p, now)),
            pauses: std::array::from_fn::<_, PRIORITIES, _>(|p| reaction.transitions(p)),
            control: *reaction.counters(),
            tx_frames: carried.tx_frames,
            tx_bytes: carried.tx_bytes,
            rx_frames: carried.rx_frames,
            rx_bytes: carried.rx_bytes,
            rx_flooded: carried.rx_flooded,
            rx_arp: 0,
            rx_echo: 0,
            rx_other: carried.rx_other,
        }
    }

    /// Takes a frame from the wire, without FCS.
    pub fn handle_frame(&mut self, bytes: &[u8], now: Nanos) {
        if !is_mac_control(bytes) {
            self.cable.arrived(bytes.len());
            let Some(head) = bytes.first_chunk::<12>() else {
                self.cable.carried.rx_other += 1;
                return;
            };
            let codec = &self.config.endpoint.codec;
            let to = codec.station(Mac(std::array::from_fn(|i| head[i])));
            if !codec.is_group(head) && to != codec.station(self.config.endpoint.station.mac) {
                self.cable.carried.rx_flooded += 1;
                return;
            }
        }
        self.endpoint.handle_frame(bytes, now);
        self.collect(now);
    }

    /// Reads what has arrived, as fast as the reader reads.
    fn collect(&mut self, now: Nanos) {
        for _ in 0..BATCH {
            if self.reader.is_some_and(|reader| reader.ready() > now) {
                return;
            }
            let Some(event) = self.endpoint.poll_event(now) else { return };
            match event {
                Event::Received { qp, payload } => self.took(Kind::Qp, u64::from(qp), &payload, now),
                Event::Multicast { src, payload } => self.took(Kind::Multicast, src, &payload, now),
                Event::Raw(frame) => self.raw_arrived(&frame, now),
                Event::Acknowledged { qp, messages } => {
                    let at = self.qps[usize::from(qp)];
                    self.gone(at, messages, now);
                }
                Event::Cnp(qp) => {
                    let at = self.qps[usize::from(qp)];
                    self.pairs[at].progress.cnps += 1;
                    self.back_off(at, now, |backoff| backoff.on_cnp(now));
                }
                Event::Failed(qp) => {
                    let failed = &mut self.pairs[self.qps[usize::from(qp)]];
                    failed.failure = Some(Failure::Request(Status::RetryExceeded));
                }
            }
        }
    }

    /// Messages of a connection are acknowledged, or have left where nobody acknowledges.
    fn gone(&mut self, at: usize, messages: u64, now: Nanos) {
        let pair = &mut self.pairs[at];
        if let Some(out) = pair.outgoing {
            out.gone(messages, &mut pair.progress, now);
            self.starts.change(at as u32);
        }
    }

    /// A message was read: of queue pair `from`, or of the station `from`.
    fn took(&mut self, kind: Kind, from: u64, payload: &[u8], now: Nanos) {
        if let Some(reader) = &mut self.reader {
            reader.not_before(now.saturating_sub(self.config.slack));
            let step = reader.step(payload.len());
            reader.advance(step);
        }
        let at = match kind {
            Kind::Qp => self.qps.get(from as usize).copied(),
            // Only who does not send hears: the peer of who sends is a group.
            Kind::Multicast | Kind::Raw => self
                .pairs
                .iter()
                .position(|pair| pair.kind == kind && pair.peer == from && pair.outgoing.is_none()),
        };
        match at.map(|at| &mut self.pairs[at]) {
            Some(pair) => pair.incoming.look(payload, &mut pair.progress, now),
            None => self.cable.carried.rx_other += 1,
        }
    }

    #[cold]
    fn raw_arrived(&mut self, frame: &[u8], now: Nanos) {
        match self.endpoint.raw_message(frame) {
            Some((from, message)) => self.took(Kind::Raw, from, message, now),
            None => self.cable.carried.rx_other += 1,
        }
    }

    /// Something happens to the back-off of a connection, if it has one: the endpoint is told what it allows.
    fn back_off(&mut self, at: usize, now: Nanos, happens: impl FnOnce(&mut Backoff)) {
        let pair = &mut self.pairs[at];
        let Some(backoff) = &mut pair.backoff else { return };
        happens(backoff);
        self.backoffs.set(at, backoff.next_timeout().unwrap_or(NEVER));
        // A threshold between two that were accepted.
        let _ = self.endpoint.set_threshold(pair.number, backoff.rate() as u32, now);
        let rate = self.endpoint.rate(pair.number).unwrap_or(u64::MAX);
        pair.progress.lowest_rate = pair.progress.lowest_rate.min(rate);
    }

    /// Runs all timers that have expired, reads, and posts what can be posted.
    fn run(&mut self, now: Nanos) {
        self.endpoint.handle_timeout(now);
        self.collect(now);
        let mut from = 0;
        while let Some(at) = self.backoffs.first(from, now) {
            self.back_off(at, now, |backoff| backoff.handle_timeout(now));
            from = at + 1;
        }
        while let Some(at) = self.starts.next(now) {
            self.post(at as usize, now);
        }
        // Their next batch is for the next turn.
        self.more.drain(..).for_each(|at| self.starts.change(at));
    }

    /// Hands messages of a connection to the endpoint.
    fn post(&mut self, at: usize, now: Nanos) {
        let pair = &mut self.pairs[at];
        let Some(out) = pair.outgoing.filter(|_| pair.failure.is_none()) else { return };
        for _ in 0..BATCH {
            let waiting = pair.progress.posted - pair.progress.acknowledged;
            if waiting >= pair.depth() || out.all_posted(pair.progress.posted) {
                return;
            }
            let start = pair.posts_from();
            if start > now {
                return self.starts.wait(at as u32, start);
            }
            let message = out.message(pair.progress.posted);
            let (peer, len) = (pair.config.peer, message.len());
            let taken = match pair.kind {
                Kind::Qp => self.endpoint.post(pair.number, message).is_ok(),
                Kind::Multicast => self.endpoint.post_multicast(peer, message).is_ok(),
                Kind::Raw => self.endpoint.post_raw_message(peer, &message).is_ok(),
            };
            if !taken {
                return; // Its queue is full, or the queue pair has failed.
            }
            match pair.kind {
                Kind::Qp => {}
                Kind::Multicast => self.groups.push_back(at),
                Kind::Raw => self.raws.push_back(at),
            }
            if pair.kind != Kind::Qp {
                pair.pace.not_before(now.saturating_sub(self.config.slack));
                let step = pair.pace.step(len);
                pair.pace.advance(step);
            }
            out.posted(&mut pair.progress, now);
        }
        self.more.push(at as u32);
    }

    /// The next frame to put on the wire at `now`, without FCS. It counts as sent: call only with room for it.
    pub fn poll_transmit(&mut self, now: Nanos) -> Option<&[u8]> {
        self.run(now);
        if self.cable.ready() > now {
            return None;
        }
        let frame = self.endpoint.poll_transmit(now)?;
        let (kind, len) = (frame.kind, frame.bytes.len());
        match kind {
            Sent::Pfc => self.cable.control(len, now),
            _ => self.cable.sent(len, now),
        }
        let reliable = self.endpoint.is_reliable();
        let at = match kind {
            Sent::Pfc | Sent::Control | Sent::Cnp(_) => None,
            Sent::Data { qp, .. } => Some(self.qps[usize::from(qp)]),
            Sent::Multicast => self.groups.pop_front(),
            Sent::Raw => self.raws.pop_front(),
        };
        if let Some(at) = at {
            self.pairs[at].progress.data_frames += 1;
            if !reliable || self.pairs[at].kind != Kind::Qp {
                self.gone(at, 1, now);
            }
        }
        Some(self.endpoint.frame())
    }

    /// The earliest time after `now` at which [`Self::poll_transmit`] may have a frame if it has none at `now`
    /// and nothing arrives until then.
    pub fn next_event(&mut self, now: Nanos) -> Option<Nanos> {
        let later = |at: Nanos| if at > now { at } else { NEVER };
        let mut next = later(self.cable.ready());
        next = next.min(later(self.endpoint.next_timeout(now).unwrap_or(NEVER)));
        if let Some(reader) = self.reader.filter(|_| self.endpoint.has_events()) {
            next = next.min(later(reader.ready()));
        }
        next = next.min(self.backoffs.after(now));
        let pairs = &self.pairs;
        next = next.min(self.starts.next_start(now, |at| pairs[at as usize].posts_from()));
        (next != NEVER).then_some(next)
    }
}
