//! What a NIC has seen.

use super::pauses::HeldBack;
use super::receiving::can_answer;
use super::role::Role;
use super::{FIRST_DATAGRAM, RcLinkNic};
use crate::flow::messages::Received;
use crate::flow::nic::NicReport;
use crate::flow::sender::Sent;
use crate::rclink::class::Class;
use crate::rclink::endpoint::FlowControl;
use weir_dataplane::types::{Nanos, PRIORITIES};

/// Who has read nothing for so many round trips waits for more than what is under way.
const STILL: Nanos = 100;

/// Requests that fill the memory of a NIC until it can queue responses, of which as many as may be are under way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unanswered {
    /// Flows of the responses.
    pub responses: Vec<u32>,
    /// Priority of responses.
    pub channel: u8,
    /// Priorities that the requests have paused, or of whose credits they have taken, one bit each.
    pub holds: u8,
    /// Nothing but acknowledgements makes room for responses, and the NIC itself has paused their priority.
    pub holds_answers: bool,
}

/// How long each channel has waited for credits.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct CreditWait {
    pub total: [Nanos; PRIORITIES],
    waiting: u8,
    since: Nanos,
}

impl CreditWait {
    /// From `now` on the channels in `waiting` wait.
    pub fn note(&mut self, waiting: u8, now: Nanos) {
        let past = now.saturating_sub(self.since);
        for channel in (0..PRIORITIES).filter(|channel| self.waiting >> channel & 1 == 1) {
            self.total[channel] += past;
        }
        (self.waiting, self.since) = (waiting, now);
    }
}

impl RcLinkNic {
    /// What the sending end `at` has done for its flow `nth`.
    pub fn sent(&self, at: usize, nth: usize) -> Sent {
        if let Some(at) = at.checked_sub(FIRST_DATAGRAM) {
            return self.datagrams.sent(at).0;
        }
        let Role::Sends { flows, .. } = &self.ends[at] else { return Sent::default() };
        flows[nth].sent
    }

    /// What the receiving end `at` has seen of its flow `nth`.
    pub fn received(&self, at: usize, nth: usize) -> Received {
        if let Some(at) = at.checked_sub(FIRST_DATAGRAM) {
            return self.datagrams.received(at as u32);
        }
        match &self.ends[at] {
            Role::Receives { incoming, .. } => *incoming.received(nth),
            Role::Sends { .. } => Received::default(),
        }
    }

    /// The sending end `at` has handed every packet of its flow `nth` to the endpoint.
    pub fn has_sent(&self, at: usize, nth: usize) -> bool {
        if let Some(at) = at.checked_sub(FIRST_DATAGRAM) {
            return self.datagrams.has_sent(at);
        }
        let Role::Sends { flows, .. } = &self.ends[at] else { return false };
        flows.get(nth).is_some_and(|out| out.posted == out.flow.packets())
    }

    /// What the receiving end `at` has seen of its flow `nth`, if the rest has yet to come over the line; `None`: it does not expect
    /// that flow yet, or messages may wait to be read, or be lost for good.
    pub fn has_received(&self, at: usize, nth: usize) -> Option<&Received> {
        if self.reader.is_some() || !self.endpoint.is_reliable() {
            return None;
        }
        let Role::Receives { incoming, answers: None, .. } = self.ends.get(at)? else { return None };
        incoming.has_received(nth)
    }

    /// Rate the sending end `at` may send at, bits/s; `None`: as fast as the line.
    pub fn rate(&self, at: usize) -> Option<u64> {
        if let Some(at) = at.checked_sub(FIRST_DATAGRAM) {
            return self.datagrams.sent(at).1;
        }
        self.endpoint.rate(u16::try_from(at).ok()?)
    }

    /// What the NIC saw until `now`.
    pub fn report(&self, now: Nanos) -> NicReport {
        let (reaction, counters) = (self.endpoint.reaction(), self.endpoint.counters());
        NicReport {
            paused_ns: std::array::from_fn(|p| reaction.paused_ns(p, now)),
            pauses: std::array::from_fn::<_, PRIORITIES, _>(|p| reaction.transitions(p)),
            pfc_frames: reaction.counters().pfc_frames,
            pfc_sent: counters.tx_pfc,
            memory_peak: self.memory_peak,
            no_room: counters.rx_no_room,
            credit_wait_ns: {
                let mut wait = self.credit_wait;
                wait.note(0, now);
                wait.total
            },
            unexpected: counters.rx_unknown + counters.rx_malformed + self.datagrams.unexpected,
        }
    }

    /// When it has held its link partner back until `now`, and how many more times there were than are kept.
    pub fn held_back(&self, now: Nanos) -> (Vec<HeldBack>, u64) {
        self.held_back.until(now)
    }

    /// What it sends stays in its queue until it is acknowledged; else, in LITE mode, until it is sent.
    pub fn is_reliable(&self) -> bool {
        self.endpoint.is_reliable()
    }

    /// Something lies in its memory that is not delivered yet.
    pub fn has_unread(&self) -> bool {
        self.endpoint.has_events()
    }

    /// Requests that fill the memory at `now` and none of which can be read, since responses to them cannot be queued, for so long that
    /// no acknowledgement is on its way; `None`: something can.
    pub fn unanswered(&self, now: Nanos) -> Option<Unanswered> {
        let channel = self.config.classes.of(Class::Response);
        let endpoint = &self.endpoint;
        let holds = endpoint.held_by_unread();
        let still = STILL.saturating_mul(self.config.round_trip);
        let lately = now.saturating_sub(self.last_read) < still;
        let has_credits = match self.config.flow_control {
            FlowControl::Pfc { .. } => false,
            FlowControl::Cbfc { .. } => endpoint.credit_wait() >> channel & 1 == 0,
        };
        if holds == 0
            || has_credits
            || lately
            || endpoint.unread().any(|qp| can_answer(endpoint, &self.ends, qp.into()))
        {
            return None;
        }
        let response = |qp: u16| match self.ends.get(usize::from(qp)) {
            Some(Role::Receives { answers, .. }) => *answers,
            _ => None,
        };
        let mut ends: Vec<usize> = endpoint.unread().filter_map(response).collect();
        ends.sort_unstable();
        ends.dedup();
        let paused = self.held_back.since(self.config.classes.of(Class::Ack));
        let holds_answers = paused.is_some_and(|since| now.saturating_sub(since) >= still)
            && ends.iter().all(|at| endpoint.awaits_answers(*at as u16));
        let flows = ends.into_iter().filter_map(|at| match &self.ends[at] {
            Role::Sends { flows, .. } => Some(flows.iter().filter(|out| out.posted < out.flow.packets())),
            Role::Receives { .. } => None,
        });
        let responses = flows.flatten().map(|out| out.flow.id).collect();
        Some(Unanswered { responses, channel, holds, holds_answers })
    }
}
