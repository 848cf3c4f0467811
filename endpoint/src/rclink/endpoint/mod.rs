//! One RC Link endpoint without I/O: queue pairs, multicast, raw Ethernet, and one way of flow control.
//!
//! Post payloads, hand in frames with [`Endpoint::handle_frame`], take frames with [`Endpoint::poll_transmit`], call
//! [`Endpoint::handle_timeout`] when [`Endpoint::next_timeout`] is reached. What arrived waits in the receive
//! memories until [`Endpoint::poll_event`] takes it: an owner that does not ask fills them, and then PFC or
//! the credits hold the peers back.

#[cfg(test)]
mod many_tests;
mod peers;
mod raw;
mod receive;
#[cfg(test)]
mod tests;
mod transmit;
mod types;

pub use raw::raw_message_len;
pub use types::{
    Counters, EndpointConfig, EndpointError, Event, FlowControl, PostError, QpConfig, QpCounters, Sent,
    Transmit,
};

use super::cc_window::{CcWindow, ThresholdError};
use super::class::Class;
use super::cnp_merge::CnpMerge;
use super::frame::Station;
use super::requester::Requester;
use super::rh::{MAX_QP, MAX_WINDOW, Psn};
use super::watermark::ReceiveBuffer;
use crate::rc::in_order::InOrder;
use crate::timetable::Timetable;
use peers::{Lane, Peers};
use std::collections::{BTreeSet, VecDeque};
use weir_dataplane::pfc::NEVER;
use weir_dataplane::pfc::frame::MAX_QUANTA;
use weir_dataplane::pfc::generate::{GenerateConfig, Generator, REFRESH, Source};
use weir_dataplane::pfc::react::{ReactConfig, Reaction, RxMode};
use weir_dataplane::types::{Nanos, PRIORITIES};

/// Unit of the 16-bit timestamp, ns: it wraps after a millisecond.
pub const TIMESTAMP_NS: Nanos = 16;

#[derive(Debug)]
struct Qp {
    config: QpConfig,
    peer: usize,
    /// Priority or channel of its data.
    channel: u8,
    /// A message waits for credits.
    waits: bool,
    sender: Requester,
    order: InOrder<12>,
    /// Timestamp of the packet that the answer to come is for.
    echo: Option<u16>,
    /// An [`Event::Cnp`] waits for its owner; CNPs until then are the same event.
    cnp_reported: bool,
    failed: bool,
    counters: QpCounters,
    round_trip: Option<Nanos>,
}

/// Which receive memory holds something, and the credits it goes back to.
#[derive(Clone, Copy, Debug)]
struct Held {
    memory: usize,
    bytes: u64,
    /// Peer, channel, credits.
    credits: Option<(usize, u8, u32)>,
}

const REQUEST: usize = 0;
const RESPONSE: usize = 1;
const MULTICAST: usize = 2;

/// The endpoint.
#[derive(Debug)]
pub struct Endpoint {
    config: EndpointConfig,
    qps: Vec<Qp>,
    /// When the data of each queue pair may be sent, by its channel, and when an answer to it is overdue.
    times: Timetable,
    /// Queue pairs whose messages wait for credits, by channel.
    waiting: [u32; PRIORITIES],
    /// Queue pairs that are to send a CNP, and those that owe an answer.
    cnps: BTreeSet<u16>,
    owing: BTreeSet<u16>,
    peers: Peers,
    memories: [ReceiveBuffer; 3],
    reaction: Reaction,
    generator: Generator,
    merge: CnpMerge,
    events: VecDeque<(Event, Option<Held>)>,
    multicast: VecDeque<(Station, Vec<u8>)>,
    multicast_psn: Psn,
    raw: VecDeque<Vec<u8>>,
    /// Queue pair after the one that sent data last.
    turn: usize,
    counters: Counters,
    frame: Vec<u8>,
}

impl Endpoint {
    /// An endpoint without queue pairs.
    ///
    /// # Errors
    /// Credits that do not fit.
    pub fn new(config: EndpointConfig) -> Result<Self, EndpointError> {
        let (enabled, mode) = match &config.flow_control {
            FlowControl::Pfc { priorities } => (*priorities, RxMode::Enabled),
            FlowControl::Cbfc { credits, .. } => {
                credits.check()?;
                (0, RxMode::None)
            }
        };
        let reaction = ReactConfig { mode, ..ReactConfig::host(config.rate, enabled) };
        Ok(Self {
            config,
            qps: Vec::new(),
            times: Timetable::default(),
            waiting: [0; PRIORITIES],
            cnps: BTreeSet::new(),
            owing: BTreeSet::new(),
            peers: Peers::default(),
            memories: [config.request, config.response, config.multicast].map(ReceiveBuffer::new),
            reaction: Reaction::new(reaction),
            generator: Generator::new(GenerateConfig {
                rate: config.rate,
                enabled,
                quanta: MAX_QUANTA,
                refresh: REFRESH,
            }),
            merge: CnpMerge::new(config.cnp_merge),
            events: VecDeque::new(),
            multicast: VecDeque::new(),
            multicast_psn: Psn::default(),
            raw: VecDeque::new(),
            turn: 0,
            counters: Counters::default(),
            frame: Vec::new(),
        })
    }

    /// A queue pair; its number is the one returned, counted from 0.
    ///
    /// # Errors
    /// What does not fit.
    pub fn create_qp(&mut self, config: QpConfig) -> Result<u16, EndpointError> {
        let number =
            u16::try_from(self.qps.len()).ok().filter(|n| *n <= MAX_QP).ok_or(EndpointError::QpNumbers)?;
        if config.peer_qp > MAX_QP {
            return Err(EndpointError::PeerQp(config.peer_qp));
        }
        if !matches!(config.class, Class::Request(0..=3) | Class::Response) {
            return Err(EndpointError::Class(config.class));
        }
        if !(1..=MAX_WINDOW).contains(&config.reliability.window) {
            return Err(EndpointError::Window(config.reliability.window));
        }
        let cc = CcWindow::new(config.window, config.length_thr)?.with_slack(config.slack);
        let channel = self.config.classes.of(config.class);
        let peer = self.peers.join(self.config.codec.station(config.peer.mac), config.peer);
        if self.config.codec.lite() && self.qp_to(peer, channel).is_some() {
            return Err(EndpointError::Channel(channel));
        }
        self.peers.add_qp(peer, number);
        self.times.make_room(self.qps.len() + 1);
        self.qps.push(Qp {
            config,
            peer,
            channel,
            waits: false,
            sender: Requester::new(config.reliability, config.depth, cc),
            order: InOrder::default(),
            echo: None,
            cnp_reported: false,
            failed: false,
            counters: QpCounters::default(),
            round_trip: None,
        });
        Ok(number)
    }

    /// Messages are sent again until they are acknowledged.
    fn retransmits(&self) -> bool {
        self.config.retransmit && !self.config.codec.lite()
    }

    /// The first queue pair to a peer on a channel.
    fn qp_to(&self, peer: usize, channel: u8) -> Option<usize> {
        let mut qps = self.peers.qps(peer).iter().map(|qp| usize::from(*qp));
        qps.find(|qp| self.qps[*qp].channel == channel)
    }

    /// What frames of a queue pair, by its number at the receiver, are counted with.
    fn lane(&self, channel: u8, qp: u16) -> Lane {
        Lane { channel: channel & 7, qp: if self.config.codec.lite() { 0 } else { qp } }
    }

    /// Something has changed of the sending half of a queue pair: notes when it has something to do.
    fn changed(&mut self, at: usize) {
        let (frame, timer, waits) = self.when(&self.qps[at]);
        let qp = &mut self.qps[at];
        let waiting = &mut self.waiting[usize::from(qp.channel) % PRIORITIES];
        *waiting = *waiting + u32::from(waits) - u32::from(qp.waits);
        qp.waits = waits;
        self.times.set(at, qp.channel, frame, timer);
    }

    /// The credits to a peer have changed, on a channel or on all.
    fn credits_changed(&mut self, peer: usize, channel: Option<u8>) {
        for nth in 0..self.peers.qps(peer).len() {
            let at = usize::from(self.peers.qps(peer)[nth]);
            if channel.is_none_or(|channel| channel == self.qps[at].channel) {
                self.changed(at);
            }
        }
    }

    /// When a queue pair may send its next message, when an answer is overdue, and whether it waits for credits.
    fn when(&self, qp: &Qp) -> (Nanos, Nanos, bool) {
        if qp.failed {
            return (NEVER, NEVER, false);
        }
        let timer = qp.sender.deadline().unwrap_or(NEVER);
        match qp.sender.segment() {
            None => (NEVER, timer, false),
            Some(segment) if self.has_credits(qp, segment.payload.len()) => {
                (qp.sender.cc.due(), timer, false)
            }
            Some(_) => (NEVER, timer, true),
        }
    }

    /// Queues a message for a queue pair.
    ///
    /// # Errors
    /// Why it is not taken; from a full queue the payload comes back.
    pub fn post(&mut self, qp: u16, payload: Vec<u8>) -> Result<(), PostError> {
        if !self.config.codec.payload_range().contains(&payload.len()) {
            return Err(PostError::Length(payload.len()));
        }
        let to = self.qps.get_mut(usize::from(qp)).filter(|qp| !qp.failed).ok_or(PostError::Qp(qp))?;
        to.sender.post(payload).map_err(PostError::Full)?;
        self.changed(qp.into());
        Ok(())
    }

    /// A queue pair takes one more message now.
    pub fn has_room(&self, qp: u16) -> bool {
        self.qps.get(usize::from(qp)).is_some_and(|qp| !qp.failed && qp.sender.has_room())
    }

    /// Number of the oldest message of a queue pair that is not acknowledged, from its first.
    pub fn oldest(&self, qp: u16) -> u64 {
        self.qps.get(usize::from(qp)).map_or(0, |qp| qp.sender.oldest())
    }

    /// All that the window of a queue pair admits has left: acknowledgements alone make room for more.
    pub fn awaits_answers(&self, qp: u16) -> bool {
        self.qps.get(usize::from(qp)).is_some_and(|qp| !qp.failed && qp.sender.awaits_answers())
    }

    /// Queues a multicast message (TYPE2) for a group. It is sent once and not acknowledged.
    ///
    /// # Errors
    /// A payload that does not fit a frame.
    pub fn post_multicast(&mut self, group: Station, payload: Vec<u8>) -> Result<(), PostError> {
        if !self.config.codec.payload_range().contains(&payload.len()) {
            return Err(PostError::Length(payload.len()));
        }
        self.multicast.push_back((group, payload));
        Ok(())
    }

    /// Queues an Ethernet frame (TYPE3), to be sent as it is.
    ///
    /// # Errors
    /// No Ethernet frame of 14 to 4096 bytes, or the format is Lite, which has none.
    pub fn post_raw(&mut self, frame: Vec<u8>) -> Result<(), PostError> {
        if self.config.codec.lite() || !(14..=4096).contains(&frame.len()) {
            return Err(PostError::Length(frame.len()));
        }
        self.raw.push_back(frame);
        Ok(())
    }

    /// The next event. Its place in the receive memory is free from now on.
    pub fn poll_event(&mut self, now: Nanos) -> Option<Event> {
        self.poll_event_if(now, |_, _| true)
    }

    /// The first event that `accept` takes: what is left keeps its place in the receive memory.
    pub fn poll_event_if(
        &mut self,
        now: Nanos,
        mut accept: impl FnMut(&Self, &Event) -> bool,
    ) -> Option<Event> {
        let at = self.events.iter().position(|(event, _)| accept(self, event))?;
        let (event, held) = self.events.remove(at)?;
        if let Some(held) = held {
            self.memories[held.memory].free(held.bytes);
            if let Some((peer, channel, cost)) = held.credits {
                self.free_credits(peer, channel, cost, now);
            }
            self.watch_memories();
        }
        if let Event::Cnp(qp) = event
            && let Some(qp) = self.qps.get_mut(usize::from(qp))
        {
            qp.cnp_reported = false;
        }
        Some(event)
    }

    /// Changes the bytes on the wire per window of a queue pair from `now` on: the reaction to [`Event::Cnp`].
    ///
    /// # Errors
    /// A threshold that does not fit; an unknown queue pair is ignored.
    pub fn set_threshold(&mut self, qp: u16, length_thr: u32, now: Nanos) -> Result<(), ThresholdError> {
        let Some(known) = self.qps.get_mut(usize::from(qp)) else { return Ok(()) };
        known.sender.cc.set_threshold(length_thr, now)?;
        self.changed(qp.into());
        Ok(())
    }

    /// Last round trip of a queue pair, from the timestamps, in steps of [`TIMESTAMP_NS`].
    pub fn round_trip(&self, qp: u16) -> Option<Nanos> {
        self.qps.get(usize::from(qp))?.round_trip
    }

    /// Credits out towards the peer of a queue pair on its channel.
    pub fn credits_in_use(&self, qp: u16) -> Option<u32> {
        let qp = self.qps.get(usize::from(qp))?;
        Some(self.peers.in_use(qp.peer, qp.channel))
    }

    /// Channels on which a message waits for credits and for nothing else but its rate (WAIT_CRD, SW-041), one bit each.
    pub fn credit_wait(&self) -> u8 {
        let bit = |(channel, waiting): (usize, &u32)| u8::from(*waiting > 0) << channel;
        self.waiting.iter().enumerate().map(bit).fold(0, |mask, bit| mask | bit)
    }

    /// Bytes in all receive memories.
    pub fn memory_used(&self) -> u64 {
        self.memories.iter().map(ReceiveBuffer::used).sum()
    }

    /// Rate on the wire that the window of a queue pair allows now, bits/s.
    pub fn rate(&self, qp: u16) -> Option<u64> {
        Some(self.qps.get(usize::from(qp))?.sender.cc.rate())
    }

    /// What was seen of one queue pair.
    pub fn qp_counters(&self, qp: u16) -> Option<QpCounters> {
        Some(self.qps.get(usize::from(qp))?.counters)
    }

    /// Messages are sent again until they are acknowledged.
    pub fn is_reliable(&self) -> bool {
        self.retransmits()
    }

    /// Queue pairs whose messages nobody has read, one of each message.
    pub fn unread(&self) -> impl Iterator<Item = u16> {
        self.events().filter_map(|event| match event {
            Event::Received { qp, .. } => Some(*qp),
            _ => None,
        })
    }

    /// What has arrived that nobody has read, in its order.
    pub fn events(&self) -> impl Iterator<Item = &Event> {
        self.events.iter().map(|(event, _)| event)
    }

    /// Priorities that messages which nobody has read hold back, one bit each: by a pause, or by the credits that they have taken.
    pub fn held_by_unread(&self) -> u8 {
        match &self.config.flow_control {
            FlowControl::Pfc { .. } if self.memories[REQUEST].paused() => self.request_channels(),
            FlowControl::Pfc { .. } => 0,
            FlowControl::Cbfc { .. } => {
                self.unread().fold(0, |mask, qp| mask | 1 << self.qps[usize::from(qp)].channel)
            }
        }
    }

    /// Channels of all banks of requests, one bit each.
    fn request_channels(&self) -> u8 {
        (0..4).fold(0, |mask, bank| mask | 1 << self.config.classes.of(Class::Request(bank)))
    }

    /// Something has arrived that nobody has read.
    pub fn has_events(&self) -> bool {
        !self.events.is_empty()
    }

    /// What was seen so far.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// What PFC of the link partner did.
    pub fn reaction(&self) -> &Reaction {
        &self.reaction
    }

    /// The cable is cut, or whole again: pauses on both sides are forgotten; the link partner hears of those that still are when it is back.
    pub fn set_carrier(&mut self, carrier: bool, now: Nanos) {
        if carrier {
            return self.generator.link_up();
        }
        self.generator.link_down(now);
        self.reaction.link_down(now);
    }

    fn free_credits(&mut self, peer: usize, channel: u8, cost: u32, now: Nanos) {
        let FlowControl::Cbfc { credits, interval } = &self.config.flow_control else { return };
        self.peers.free(peer, channel & 7, cost, credits, now.saturating_add(*interval));
    }

    /// Tells the generator which priorities the memories want paused (SW-024).
    fn watch_memories(&mut self) {
        let classes = &self.config.classes;
        let mut mask = 0u8;
        if self.memories[REQUEST].paused() {
            mask |= self.request_channels();
        }
        if self.memories[RESPONSE].paused() {
            mask |= 1 << classes.of(Class::Response);
        }
        if self.memories[MULTICAST].paused() {
            mask |= 1 << classes.of(Class::Multicast) | 1 << classes.of(Class::Raw);
        }
        for priority in 0..PRIORITIES {
            match mask >> priority & 1 {
                1 => self.generator.xoff(priority, Source::Buffer, None),
                _ => self.generator.xon(priority, Source::Buffer),
            }
        }
    }

    /// The earliest time at which [`Self::handle_timeout`] or [`Self::poll_transmit`] has something to do; a
    /// time that is not in the future means that a frame waits.
    pub fn next_timeout(&mut self, now: Nanos) -> Option<Nanos> {
        let (paused, resume) = (self.reaction.paused_mask(now), self.reaction.next_expiry());
        let held = |priority: u8| if paused >> priority & 1 == 1 { resume } else { 0 };
        let classes = &self.config.classes;
        let mut next = self.generator.next_deadline().min(self.peers.next_timeout());
        next = next.min(self.times.due(paused, resume));
        if self.peers.owes_repairs() {
            next = 0;
        }
        if !self.owing.is_empty() || self.peers.owes_reports() {
            next = next.min(held(classes.of(Class::Ack)));
        }
        if !self.cnps.is_empty() {
            next = next.min(held(classes.of(Class::Cnp)));
        }
        if !self.multicast.is_empty() {
            next = next.min(held(classes.of(Class::Multicast)));
        }
        if !self.raw.is_empty() {
            next = next.min(held(classes.of(Class::Raw)));
        }
        (next != NEVER).then_some(next)
    }

    /// Runs the timers that have expired by `now`.
    pub fn handle_timeout(&mut self, now: Nanos) {
        let mut from = 0;
        while let Some(at) = self.times.first_timer(from..self.qps.len(), now) {
            let fired = self.qps[at].sender.handle_timeout(now);
            let struck = u64::from(fired != Ok(false));
            self.counters.timeouts += struck;
            self.qps[at].counters.timeouts += struck;
            match fired {
                Ok(_) => self.changed(at),
                Err(_) => self.fail(at),
            }
            from = at + 1;
        }
        self.peers.handle_timeout(now);
    }

    #[cold]
    fn fail(&mut self, at: usize) {
        let qp = &mut self.qps[at];
        qp.sender.abandon();
        qp.failed = true;
        self.cnps.remove(&(at as u16));
        self.owing.remove(&(at as u16));
        self.changed(at);
        self.events.push_back((Event::Failed(at as u16), None));
    }
}
