//! Flows of multicast messages (TYPE2) and of messages in raw frames (TYPE3): sent once, not acknowledged, one way.
//!
//! Where a queue pair says by its number which flow a frame is of, and how many came before it, these say so themselves: a
//! message begins with the number of its flow and its own.

use super::RcLinkNicConfig;
use crate::flow::messages::{Arrival, Incoming, Received};
use crate::flow::sender::{Flow, Sent};
use crate::rclink::endpoint::{Endpoint, raw_message_len};
use crate::rclink::frame::Station;
use crate::starts::Starts;
use crate::station::MIN_MESSAGE;
use crate::traffic::Clock;
use std::collections::{BTreeMap, VecDeque};
use weir_dataplane::types::Nanos;

/// What carries them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Datagram {
    /// TYPE2, to a group.
    Multicast,
    /// TYPE3.
    Raw,
}

/// The sending end of a flow.
#[derive(Clone, Debug)]
struct Sending {
    flow: Flow,
    kind: Datagram,
    to: Station,
    posted: u64,
    sent: Sent,
    /// `None`: as fast as the line lets them.
    pace: Option<Clock>,
}

impl Sending {
    fn is_posted(&self) -> bool {
        self.posted == self.flow.packets()
    }

    /// When it may post the next message.
    fn ready(&self) -> Nanos {
        self.pace.map_or(0, |pace| pace.ready()).max(self.flow.start)
    }
}

/// All such flows of a NIC.
#[derive(Debug, Default)]
pub(super) struct Datagrams {
    /// Numbered from 0, in the order they are added.
    senders: Vec<Sending>,
    /// Those that may have something to post.
    starts: Starts,
    /// By the flow that messages name, which is their number.
    receivers: BTreeMap<u32, Incoming>,
    /// Senders whose messages wait in the endpoint, oldest first.
    groups: VecDeque<usize>,
    raws: VecDeque<usize>,
    /// Messages and frames that are of no flow.
    pub unexpected: u64,
}

/// What a message of so many bytes begins with.
fn message(flow: u32, number: u64, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    bytes[..4].copy_from_slice(&flow.to_be_bytes());
    bytes[4..12].copy_from_slice(&number.to_be_bytes());
    bytes
}

/// Flow and number of a message.
fn read(message: &[u8]) -> Option<(u32, u64)> {
    let (flow, rest) = message.split_first_chunk()?;
    Some((u32::from_be_bytes(*flow), u64::from_be_bytes(*rest.first_chunk()?)))
}

impl Datagrams {
    /// Number of the next sender.
    pub fn next(&self) -> usize {
        self.senders.len()
    }

    /// Adds a flow that is sent to `to`.
    pub fn send(&mut self, flow: Flow, kind: Datagram, to: Station) {
        let pace = flow.pace.fixed().map(|rate| Clock::new(rate, flow.start));
        self.starts.change(self.senders.len() as u32);
        self.senders.push(Sending { flow, kind, to, posted: 0, sent: Sent::default(), pace });
    }

    /// Adds a flow that is received; its messages name flow `sent_as`.
    pub fn expect(&mut self, flow: Flow, sent_as: u32) {
        self.receivers.insert(sent_as, Incoming::new(flow));
    }

    /// What sender `at` has sent, and its rate if it has one of its own, bits/s.
    pub fn sent(&self, at: usize) -> (Sent, Option<u64>) {
        let sending = &self.senders[at];
        (sending.sent, sending.flow.pace.fixed())
    }

    /// Sender `at` has handed every message to the endpoint.
    pub fn has_sent(&self, at: usize) -> bool {
        self.senders[at].is_posted()
    }

    /// What has come of the messages that name flow `sent_as`.
    pub fn received(&self, sent_as: u32) -> Received {
        self.receivers.get(&sent_as).map_or_else(Received::default, |incoming| *incoming.received(0))
    }

    /// Hands messages to the endpoint, of each flow as many as its window at most that have not left. The line may have been busy
    /// for `lag` ns.
    pub fn post(&mut self, endpoint: &mut Endpoint, config: &RcLinkNicConfig, lag: Nanos, now: Nanos) {
        let (codec, window) = (&config.codec, u64::from(config.window));
        let least = (*codec.payload_range().start()).max(MIN_MESSAGE as usize);
        while let Some(at) = self.starts.next(now) {
            let sending = &mut self.senders[at as usize];
            let Sending { flow, kind, to, posted, sent, .. } = *sending;
            for number in posted..flow.packets().min(sent.packets + window) {
                if sending.ready() > now {
                    self.starts.wait(at, sending.ready());
                    break;
                }
                let full = u64::from(flow.payload);
                let rest = flow.bytes.saturating_sub(number * full).min(full) as usize;
                let bytes = message(flow.id, number, rest.max(least));
                let frame = match kind {
                    Datagram::Multicast => codec.frame_len(bytes.len(), true),
                    Datagram::Raw => raw_message_len(bytes.len(), true),
                };
                let (waiting, taken) = match kind {
                    Datagram::Multicast => (&mut self.groups, endpoint.post_multicast(to, bytes).is_ok()),
                    Datagram::Raw => (&mut self.raws, endpoint.post_raw_message(to, &bytes).is_ok()),
                };
                // What does not fit was refused before.
                if !taken {
                    break;
                }
                waiting.push_back(at as usize);
                sending.posted += 1;
                if let Some(pace) = &mut sending.pace {
                    pace.not_before(now.saturating_sub(lag));
                    pace.advance(pace.step(frame));
                }
            }
        }
    }

    /// The oldest message that waited has left. The flow, if it was its last one.
    pub fn left(&mut self, kind: Datagram) -> Option<u32> {
        let waiting = match kind {
            Datagram::Multicast => &mut self.groups,
            Datagram::Raw => &mut self.raws,
        };
        let at = waiting.pop_front()?;
        self.starts.change(at as u32);
        let sending = &mut self.senders[at];
        sending.sent.packets += 1;
        (sending.sent.packets == sending.flow.packets()).then_some(sending.flow.id)
    }

    /// A message was read. `None`: it is of no flow, or one that was sent after it had come before.
    pub fn took(&mut self, bytes: &[u8], now: Nanos) -> Option<Arrival> {
        let said = read(bytes).and_then(|(flow, number)| Some((self.receivers.get_mut(&flow)?, number)));
        let Some((incoming, number)) = said else {
            self.unexpected += 1;
            return None;
        };
        if number < incoming.expected {
            incoming.seen(number).useless += 1;
            return None;
        }
        let ended = incoming.skip_to(number, now);
        let taken = incoming.take(incoming.next_bytes(), now)?;
        Some(Arrival { ended: taken.ended + ended, ..taken })
    }

    /// When the next message may be posted, after `now`; what waits for room waits for a frame to leave.
    pub fn next_post(&mut self, now: Nanos) -> Nanos {
        let senders = &self.senders;
        self.starts.next_start(now, |at| {
            let sending = &senders[at as usize];
            if sending.is_posted() { 0 } else { sending.ready() }
        })
    }
}
