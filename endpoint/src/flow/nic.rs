//! All flows of one host behind its link.

use super::frame::{HeaderFrame, Route, parse_headers};
use super::messages::Arrival;
use super::receiver::Receiver;
use super::sender::{Flow, Pace, Sender};
use super::turns::Turns;
use crate::congestion::telemetry::Stamp;
use crate::dcqcn::firmware::{DcqcnError, RateController};
use crate::roce::qp::TrafficClass;
use crate::roce::wire::Opcode;
use std::collections::VecDeque;
use weir_dataplane::pfc::NEVER;
use weir_dataplane::pfc::frame::is_mac_control;
use weir_dataplane::pfc::react::{ReactConfig, Reaction};
use weir_dataplane::types::{Nanos, PRIORITIES};

/// What a NIC is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NicConfig {
    /// Rate of its link, bits/s: PFC quanta are measured by it.
    pub rate: u64,
    /// PFC priorities it obeys, one bit each.
    pub obey: u8,
    /// Marks of CNPs. ACKs and NAKs go in the class of their data.
    pub cnp: TrafficClass,
    /// CNPs of one flow are at least this far apart, ns.
    pub cnp_interval: Nanos,
}

/// What a NIC saw of PFC, and frames it could not place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NicReport {
    /// ns each priority was paused.
    pub paused_ns: [Nanos; PRIORITIES],
    /// Times each priority went from running to paused.
    pub pauses: [u64; PRIORITIES],
    /// PFC frames received.
    pub pfc_frames: u64,
    /// PFC frames sent, for a receive memory that fills.
    pub pfc_sent: u64,
    /// Most bytes in receive memories.
    pub memory_peak: u64,
    /// Frames thrown away because a receive memory was full.
    pub no_room: u64,
    /// Time a message of each virtual channel waited for credits, ns.
    pub credit_wait_ns: [Nanos; PRIORITIES],
    /// Frames that belong to no flow.
    pub unexpected: u64,
}

/// A NIC. Queue pair numbers are indices: a flow's data goes to the receiver's, answers to the sender's. Ends that send are numbered
/// in the order they were added, those that receive as they are told.
#[derive(Debug)]
pub struct Nic {
    config: NicConfig,
    senders: Vec<Sender>,
    /// Those with something left to do.
    turns: Turns,
    receivers: Vec<Option<Receiver>>,
    /// Receivers with an answer to send, and with a CNP.
    answers: VecDeque<u32>,
    cnps: VecDeque<u32>,
    reaction: Reaction,
    unexpected: u64,
    /// Flows that are complete at their sender, until somebody asks.
    completed: VecDeque<u32>,
    /// What the last frame sent carries for an algorithm.
    carried: Option<Stamp>,
    /// The flow whose last packet was sent last, until somebody asks.
    left: Option<u32>,
    /// See [`Nic::is_as_told`].
    as_told: bool,
}

/// Notes the flows that have become complete at their sender.
#[inline]
fn note_completed(completed: &mut VecDeque<u32>, sender: &mut Sender) {
    while let Some(flow) = sender.take_completed() {
        completed.push_back(flow);
    }
}

impl Nic {
    /// A NIC without flows.
    pub fn new(config: NicConfig) -> Self {
        let reaction = Reaction::new(ReactConfig::host(config.rate, config.obey));
        Self {
            config,
            senders: Vec::new(),
            turns: Turns::default(),
            receivers: Vec::new(),
            answers: VecDeque::new(),
            cnps: VecDeque::new(),
            reaction,
            unexpected: 0,
            completed: VecDeque::new(),
            carried: None,
            left: None,
            as_told: false,
        }
    }

    /// Queue pair number the next sender will have: where answers go.
    pub fn next_sender(&self) -> u32 {
        self.senders.len() as u32
    }

    /// Adds a queue pair that sends `flow` along `route`.
    ///
    /// # Errors
    /// DCQCN parameters that contradict one another.
    pub fn send(&mut self, flow: Flow, route: &Route) -> Result<(), DcqcnError> {
        self.as_told = false;
        let sender = Sender::new(flow, route)?;
        self.turns.join(self.senders.len() as u32);
        self.senders.push(sender);
        Ok(())
    }

    /// Adds a queue pair that receives `flow`, with number `at`: where its data goes. Answers go along `back`.
    pub fn expect(&mut self, at: u32, flow: Flow, back: Route) {
        let at = at as usize;
        if self.receivers.len() <= at {
            self.receivers.resize_with(at + 1, || None);
        }
        self.receivers[at] = Some(Receiver::new(flow, back, &self.config));
    }

    /// One more flow over the queue pair that is sender number `at`.
    pub fn send_more(&mut self, at: u32, flow: Flow) {
        self.as_told = false;
        let sender = &mut self.senders[at as usize];
        if sender.is_done() {
            self.turns.join(at);
        } else {
            self.turns.change(at);
        }
        sender.append(flow);
    }

    /// One more flow over the queue pair that is receiver number `at`.
    pub fn expect_more(&mut self, at: u32, flow: Flow) {
        let receiver = self.receivers.get_mut(at as usize).and_then(Option::as_mut);
        debug_assert!(receiver.is_some(), "number {at} was not added");
        receiver.into_iter().for_each(|receiver| receiver.append(flow));
    }

    /// Sending ends, in the order they were added.
    pub fn senders(&self) -> &[Sender] {
        &self.senders
    }

    /// The adapters of its sending ends, in the order they were added; `None` of those that have none.
    pub fn rate_controllers_mut(&mut self) -> Vec<Option<&mut RateController>> {
        self.as_told = false;
        (0..self.senders.len() as u32).for_each(|sender| self.turns.change(sender));
        self.senders.iter_mut().map(Sender::rate_controller_mut).collect()
    }

    /// The receiving end number `at`, once it was added.
    pub fn receiver(&self, at: u32) -> Option<&Receiver> {
        self.receivers.get(at as usize)?.as_ref()
    }

    /// What the NIC saw until `now`.
    pub fn report(&self, now: Nanos) -> NicReport {
        NicReport {
            paused_ns: std::array::from_fn(|p| self.reaction.paused_ns(p, now)),
            pauses: std::array::from_fn(|p| self.reaction.transitions(p)),
            pfc_frames: self.reaction.counters().pfc_frames,
            unexpected: self.unexpected,
            ..NicReport::default()
        }
    }

    /// Takes a frame (at least its headers) from the wire, with what it carries for an algorithm.
    pub fn handle_frame(&mut self, bytes: &[u8], stamp: Option<&Stamp>, now: Nanos) -> Option<Arrival> {
        let as_told = std::mem::take(&mut self.as_told);
        if is_mac_control(bytes) {
            self.reaction.receive(bytes, now);
            return None;
        }
        let Some(headers) = parse_headers(bytes) else {
            self.unexpected += 1;
            return None;
        };
        let at = headers.qpn as usize;
        if headers.syndrome.is_some() || headers.opcode == Opcode::CNP {
            match self.senders.get_mut(at) {
                Some(sender) => {
                    self.as_told = sender.on_answer(&headers, bytes, stamp, now) && as_told;
                    self.turns.change(headers.qpn);
                    note_completed(&mut self.completed, sender);
                    if sender.is_done() {
                        self.retire(headers.qpn);
                    }
                }
                None => self.unexpected += 1,
            }
            return None;
        }
        let Some(Some(receiver)) = self.receivers.get_mut(at) else {
            self.unexpected += 1;
            return None;
        };
        let before = receiver.due();
        let arrival = receiver.on_data(&headers, stamp, now);
        let after = receiver.due();
        if after.0 && !before.0 {
            self.answers.push_back(headers.qpn);
        }
        if after.1 && !before.1 {
            self.cnps.push_back(headers.qpn);
        }
        self.as_told = as_told && after == before;
        arrival
    }

    /// PFC priority of the answers of receiving end `at`.
    fn answer_priority(&self, at: u32) -> u8 {
        self.receivers[at as usize].as_ref().map_or(0, Receiver::priority)
    }

    fn retire(&mut self, sender: u32) {
        self.turns.retire(sender, self.senders[sender as usize].flow().priority);
    }

    /// Everybody has said when it is due.
    #[inline]
    fn hear_changes(&mut self) {
        while let Some(sender) = self.turns.take_changed() {
            self.note_due(sender);
        }
    }

    #[inline]
    fn note_due(&mut self, at: u32) {
        let sender = &mut self.senders[at as usize];
        let due = sender.due();
        self.turns.expect(at, sender.flow().priority, &due);
    }

    /// The cable is cut: nothing the link partner said holds any more.
    pub fn lose_carrier(&mut self, now: Nanos) {
        self.as_told = false;
        self.reaction.link_down(now);
    }

    /// The next frame to put on the wire at `now`. It counts as sent: call only when the link is free.
    pub fn poll_transmit(&mut self, now: Nanos) -> Option<HeaderFrame> {
        (self.carried, self.as_told) = (None, false);
        let paused = self.reaction.paused_mask(now);
        let held = |priority: u8| paused >> priority & 1 == 1;
        if !held(self.config.cnp.priority)
            && let Some(at) = self.cnps.pop_front()
            && let Some(receiver) = &mut self.receivers[at as usize]
        {
            return Some(receiver.cnp(self.config.cnp));
        }
        // A NAK whose gap has been filled since leaves nothing to say.
        while !self.answers.is_empty()
            && let Some(nth) = self.answers.iter().position(|at| !held(self.answer_priority(*at)))
            && let Some(at) = if nth == 0 { self.answers.pop_front() } else { self.answers.remove(nth) }
        {
            if let Some(receiver) = &mut self.receivers[at as usize]
                && let Some((frame, echo)) = receiver.answer()
            {
                self.carried = echo;
                return Some(frame);
            }
        }
        self.hear_changes();
        let is_due = self.turns.due(paused, NEVER) <= now;
        debug_assert_eq!(is_due, self.asks_all(paused, now).is_some());
        if !is_due {
            return None;
        }
        // To the end of the row, and from its beginning to where that began.
        let begin = self.turns.begin();
        for places in [begin..usize::MAX, 0..begin] {
            let mut from = places.start;
            while let Some((place, at)) = self.turns.first(from..places.end, paused, now) {
                debug_assert!(from != begin || Some(at) == self.asks_all(paused, now));
                from = place + 1;
                let sender = &mut self.senders[at as usize];
                if sender.due().timer <= now {
                    sender.run_timers(now);
                    self.note_due(at);
                }
                let sender = &mut self.senders[at as usize];
                if sender.due().frame > now || held(sender.flow().priority) {
                    continue;
                }
                let frame = sender.send(now);
                self.left = sender.left();
                note_completed(&mut self.completed, sender);
                self.carried = matches!(sender.flow().pace, Pace::Acks(_)).then(|| Stamp::new(now));
                self.turns.sent(place);
                if sender.is_done() {
                    self.retire(at);
                } else {
                    self.turns.change(at);
                }
                return Some(frame);
            }
        }
        None
    }

    /// The sender whose turn it is, found by asking all: what [`Turns`] is to agree with.
    fn asks_all(&mut self, held: u8, now: Nanos) -> Option<u32> {
        self.turns.in_order().find(|at| {
            let sender = &mut self.senders[*at as usize];
            let priority = sender.flow().priority;
            let due = sender.due();
            due.timer <= now || due.frame <= now && held >> priority & 1 == 0
        })
    }

    /// The next flow that has become complete at its sender: every packet is acknowledged or, of datagrams, sent.
    pub fn poll_completed(&mut self) -> Option<u32> {
        self.completed.pop_front()
    }

    /// The flow whose last packet has just been sent, again or for the first time.
    pub fn take_left(&mut self) -> Option<u32> {
        self.left.take()
    }

    /// What the frame of the last [`Nic::poll_transmit`] carries for an algorithm.
    pub fn carried(&self) -> Option<&Stamp> {
        self.carried.as_ref()
    }

    /// Earliest time after which [`Nic::poll_transmit`] may have a frame if nothing arrives until
    /// then. It may turn out to have none; then ask again. `None`: nothing to do.
    pub fn next_transmit(&mut self, now: Nanos) -> Option<Nanos> {
        let paused = self.reaction.paused_mask(now);
        let resume = self.reaction.next_expiry();
        let held = |priority: u8| paused >> priority & 1 == 1;
        let mut next = NEVER;
        let waits = |priority: u8| if held(priority) { resume } else { now };
        if !self.cnps.is_empty() {
            next = waits(self.config.cnp.priority);
        }
        // With something to send now it does not matter when there will be more.
        if !self.answers.is_empty() {
            for at in &self.answers {
                if next <= now {
                    break;
                }
                next = next.min(waits(self.answer_priority(*at)));
            }
        }
        self.hear_changes();
        next = next.min(self.turns.due(paused, resume));
        self.as_told = next > now;
        (next != NEVER).then(|| next.max(now))
    }

    /// Nothing has happened since [`Nic::next_transmit`] was asked last that lets it send sooner than that has said: who waits until
    /// then need not ask again.
    #[inline]
    pub fn is_as_told(&self) -> bool {
        self.as_told
    }
}
