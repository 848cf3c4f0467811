//! One RC Link endpoint without I/O: queue pairs, multicast, raw Ethernet, and one way of flow control.
//!
//! Post payloads, hand in frames with [`Endpoint::handle_frame`], take frames with [`Endpoint::poll_transmit`], call
//! [`Endpoint::handle_timeout`] when [`Endpoint::next_timeout`] is reached. What arrived waits in the receive
//! memories until [`Endpoint::poll_event`] takes it: an owner that does not ask fills them, and then PFC or
//! the credits hold the peers back.

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

use super::cbfc::{CreditReceiver, CreditSender};
use super::cc_window::{CcWindow, ThresholdError};
use super::class::Class;
use super::cnp_merge::CnpMerge;
use super::frame::Station;
use super::requester::Requester;
use super::rh::{MAX_QP, MAX_WINDOW, Psn};
use super::watermark::ReceiveBuffer;
use crate::rc::in_order::InOrder;
use std::collections::VecDeque;
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
    sender: Requester,
    order: InOrder<12>,
    /// Timestamp of the packet that the answer to come is for.
    echo: Option<u16>,
    cnp_due: bool,
    /// An [`Event::Cnp`] waits for its owner; CNPs until then are the same event.
    cnp_reported: bool,
    failed: bool,
    counters: QpCounters,
    round_trip: Option<Nanos>,
}

/// Credits between this endpoint and another.
#[derive(Debug)]
struct Peer {
    station: Station,
    credits: [CreditSender; PRIORITIES],
    grants: [CreditReceiver; PRIORITIES],
    report_due: bool,
    /// Channels whose count of credits consumed is to be sent.
    repair_due: u8,
    timer: Option<Nanos>,
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
    peers: Vec<Peer>,
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
            peers: Vec::new(),
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
        let peer = self.peer_of(config.peer);
        if self.config.codec.lite() && self.qps.iter().any(|qp| qp.peer == peer && qp.channel == channel) {
            return Err(EndpointError::Channel(channel));
        }
        self.qps.push(Qp {
            config,
            peer,
            channel,
            sender: Requester::new(config.reliability, config.depth, cc),
            order: InOrder::default(),
            echo: None,
            cnp_due: false,
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

    /// Index of a peer, which becomes one if it is not.
    fn peer_of(&mut self, station: Station) -> usize {
        let bits = self.config.codec.station(station.mac);
        if let Some(at) = self.known_peer(bits) {
            return at;
        }
        self.peers.push(Peer {
            station,
            credits: Default::default(),
            grants: Default::default(),
            report_due: false,
            repair_due: 0,
            timer: None,
        });
        self.peers.len() - 1
    }

    fn known_peer(&self, bits: u64) -> Option<usize> {
        self.peers.iter().position(|peer| self.config.codec.station(peer.station.mac) == bits)
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
        to.sender.post(payload).map_err(PostError::Full)
    }

    /// A queue pair takes one more message now.
    pub fn has_room(&self, qp: u16) -> bool {
        self.qps.get(usize::from(qp)).is_some_and(|qp| !qp.failed && qp.sender.has_room())
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
        self.poll_event_if(now, |_| true)
    }

    /// The first event that `accept` takes: what is left keeps its place in the receive memory.
    pub fn poll_event_if(&mut self, now: Nanos, mut accept: impl FnMut(&Event) -> bool) -> Option<Event> {
        let at = self.events.iter().position(|(event, _)| accept(event))?;
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

    /// Changes the bytes on the wire per window of a queue pair: the reaction to [`Event::Cnp`].
    ///
    /// # Errors
    /// A threshold that does not fit; an unknown queue pair is ignored.
    pub fn set_threshold(&mut self, qp: u16, length_thr: u32) -> Result<(), ThresholdError> {
        self.qps.get_mut(usize::from(qp)).map_or(Ok(()), |qp| qp.sender.cc.set_threshold(length_thr))
    }

    /// Last round trip of a queue pair, from the timestamps, in steps of [`TIMESTAMP_NS`].
    pub fn round_trip(&self, qp: u16) -> Option<Nanos> {
        self.qps.get(usize::from(qp))?.round_trip
    }

    /// Credits out towards the peer of a queue pair on its channel.
    pub fn credits_in_use(&self, qp: u16) -> Option<u32> {
        let qp = self.qps.get(usize::from(qp))?;
        Some(self.peers[qp.peer].credits[usize::from(qp.channel)].in_use())
    }

    /// Channels on which a message waits for credits and for nothing else but its rate (WAIT_CRD, SW-041), one bit each.
    pub fn credit_wait(&self) -> u8 {
        let waits = |qp: &&Qp| !qp.failed && qp.sender.segment().is_some() && !self.has_data(qp);
        self.qps.iter().filter(waits).fold(0, |mask, qp| mask | 1 << qp.channel)
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

    fn free_credits(&mut self, peer: usize, channel: u8, cost: u32, now: Nanos) {
        let FlowControl::Cbfc { credits, interval } = &self.config.flow_control else { return };
        let peer = &mut self.peers[peer];
        let grants = &mut peer.grants[usize::from(channel & 7)];
        grants.free(cost);
        peer.report_due |= grants.report_due(credits);
        peer.timer = peer.timer.or(Some(now.saturating_add(*interval)));
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
        let held = |priority: u8, at: Nanos| if paused >> priority & 1 == 1 { at.max(resume) } else { at };
        let classes = &self.config.classes;
        let mut next = self.generator.next_deadline();
        for peer in &self.peers {
            next = next.min(peer.timer.unwrap_or(NEVER));
            if peer.report_due {
                next = next.min(held(classes.of(Class::Ack), 0));
            }
            if peer.repair_due != 0 {
                next = 0;
            }
        }
        for qp in self.qps.iter().filter(|qp| !qp.failed) {
            next = next.min(qp.sender.deadline().unwrap_or(NEVER));
            if qp.cnp_due {
                next = next.min(held(classes.of(Class::Cnp), 0));
            }
            if qp.order.owes() {
                next = next.min(held(classes.of(Class::Ack), 0));
            }
            if self.has_data(qp) {
                next = next.min(held(qp.channel, qp.sender.cc.ready_at(now)));
            }
        }
        if !self.multicast.is_empty() {
            next = next.min(held(classes.of(Class::Multicast), 0));
        }
        if !self.raw.is_empty() {
            next = next.min(held(classes.of(Class::Raw), 0));
        }
        (next != NEVER).then_some(next)
    }

    /// Runs the timers that have expired by `now`.
    pub fn handle_timeout(&mut self, now: Nanos) {
        for at in 0..self.qps.len() {
            let fired = self.qps[at].sender.handle_timeout(now);
            let struck = u64::from(fired != Ok(false));
            self.counters.timeouts += struck;
            self.qps[at].counters.timeouts += struck;
            if fired.is_err() {
                self.fail(at);
            }
        }
        for peer in &mut self.peers {
            if peer.timer.is_some_and(|at| at <= now) {
                peer.timer = None;
                peer.report_due |= peer.grants.iter().any(CreditReceiver::unreported);
                for (channel, credits) in peer.credits.iter().enumerate() {
                    peer.repair_due |= u8::from(credits.in_use() > 0) << channel;
                }
            }
        }
    }

    #[cold]
    fn fail(&mut self, at: usize) {
        let qp = &mut self.qps[at];
        qp.sender.abandon();
        qp.failed = true;
        self.events.push_back((Event::Failed(at as u16), None));
    }
}
