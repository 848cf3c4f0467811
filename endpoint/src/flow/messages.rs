//! Messages that arrive one after the other on a queue pair, and what became of each.

use super::sender::Flow;
use weir_dataplane::types::Nanos;

/// What a receiver has seen of a message. Only grows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Received {
    /// Packets taken, each once: in order unless the receiver takes any.
    pub packets: u64,
    /// Their payload bytes.
    pub bytes: u64,
    /// Packets that came twice, after a gap (go-back-N throws them away) or beyond the window of selective repeat.
    pub useless: u64,
    /// Packets nobody sends again that never came.
    pub missing: u64,
    /// Their payload bytes.
    pub lost: u64,
    /// Packets marked CE.
    pub marked: u64,
    /// CNPs sent.
    pub cnps: u64,
    /// NAKs sent.
    pub naks: u64,
    /// When it was known that nothing more will come, ns.
    pub ended: Option<Nanos>,
}

impl Received {
    /// When the last byte came, ns; `None`: bytes are still to come, or will never.
    pub fn delivered(&self) -> Option<Nanos> {
        self.ended.filter(|_| self.missing == 0)
    }
}

/// What arrived with a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// Number of the flow.
    pub flow: u32,
    /// Payload bytes, each counted once.
    pub bytes: u64,
    /// All bytes of the flow are there.
    pub delivered: bool,
    /// Flows of the queue pair of which nothing more will come: this one, and those whose last packets this one
    /// left behind.
    pub ended: u32,
}

#[derive(Clone, Copy, Debug)]
struct Message {
    flow: Flow,
    /// Number after its last packet, from the first of the queue pair.
    end: u64,
    received: Received,
}

/// The messages of a queue pair at its receiving end.
#[derive(Clone, Debug, Default)]
pub(super) struct Incoming {
    messages: Vec<Message>,
    /// The message of the packet that is to come.
    at: usize,
    /// Number of the packet that is to come.
    pub expected: u64,
}

impl Incoming {
    pub fn new(flow: Flow) -> Self {
        let mut incoming = Self { messages: Vec::with_capacity(1), at: 0, expected: 0 };
        incoming.append(flow);
        incoming
    }

    /// One more message, behind all others.
    pub fn append(&mut self, flow: Flow) {
        let end = self.end() + flow.packets();
        self.messages.push(Message { flow, end, received: Received::default() });
    }

    /// Number after the last packet that can come.
    pub fn end(&self) -> u64 {
        self.messages.last().map_or(0, |m| m.end)
    }

    /// Payload bytes of the packet that is to come; 0: none is.
    pub fn next_bytes(&self) -> u64 {
        self.messages.get(self.at).map_or(0, |m| {
            let nth = self.expected + m.flow.packets() - m.end;
            m.flow.bytes.saturating_sub(nth * u64::from(m.flow.payload)).min(m.flow.payload.into())
        })
    }

    /// Payload bytes of a packet of `len` that has no number: any of its message that is to come, as they may have overtaken one
    /// another. The last one is what is left, so that a whole message has all its bytes, whichever packets were filled up.
    pub fn bytes_of(&self, len: u64) -> u64 {
        self.messages.get(self.at).map_or(0, |Message { flow, end, received }| {
            let left = flow.bytes - received.bytes;
            if self.expected + 1 == *end { left } else { left.min(len).min(flow.payload.into()) }
        })
    }

    /// What became of message `nth`.
    pub fn received(&self, nth: usize) -> &Received {
        &self.messages[nth].received
    }

    /// The same, of a message that may not be there yet.
    pub fn has_received(&self, nth: usize) -> Option<&Received> {
        self.messages.get(nth).map(|message| &message.received)
    }

    /// The record that packet `packet` counts in: of a packet that has come before that of its message, else that of the message in
    /// progress, or of the last one.
    pub fn seen(&mut self, packet: u64) -> &mut Received {
        self.message_of(packet.min(self.expected))
    }

    /// That of the message of a packet, or of the last one.
    pub fn message_of(&mut self, packet: u64) -> &mut Received {
        let last = self.messages.len() - 1;
        let at = match self.messages.get(self.at) {
            Some(m) if packet >= self.expected && packet < m.end => self.at,
            _ => self.messages.partition_point(|m| m.end <= packet),
        };
        &mut self.messages[at.min(last)].received
    }

    /// The packets before number `packet` will never come. Returns how many messages that ends.
    #[inline]
    pub fn skip_to(&mut self, packet: u64, now: Nanos) -> u32 {
        if packet <= self.expected { 0 } else { self.skip(packet, now) }
    }

    fn skip(&mut self, packet: u64, now: Nanos) -> u32 {
        let mut ended = 0;
        let packet = packet.min(self.end());
        while self.expected < packet {
            let Message { flow, end, received } = &mut self.messages[self.at];
            let upto = packet.min(*end);
            // Offset of a packet's first byte in its message.
            let offset = |number: u64| {
                let nth = number + flow.packets() - *end;
                nth.saturating_mul(u64::from(flow.payload)).min(flow.bytes)
            };
            received.missing += upto - self.expected;
            received.lost += offset(upto) - offset(self.expected);
            self.expected = upto;
            ended += self.close(now);
        }
        ended
    }

    /// The expected packet came, with so many bytes of payload.
    pub fn take(&mut self, bytes: u64, now: Nanos) -> Option<Arrival> {
        let Message { flow, received, .. } = self.messages.get_mut(self.at)?;
        let flow = flow.id;
        received.packets += 1;
        received.bytes += bytes;
        let whole = received.missing == 0;
        self.expected += 1;
        let ended = self.close(now);
        Some(Arrival { flow, bytes, delivered: ended > 0 && whole, ended })
    }

    /// Packet `packet`, of any message, came with so many bytes of payload and is placed; all before `upto` have come. A
    /// message is delivered with the last of its packets, whatever is missing of others.
    pub fn place(&mut self, packet: u64, upto: u64, bytes: u64, now: Nanos) -> Option<Arrival> {
        let Message { flow, received, .. } = self.of(packet)?;
        received.packets += 1;
        received.bytes += bytes;
        let (id, delivered) = (flow.id, received.packets == flow.packets());
        if delivered {
            received.ended = Some(now);
        }
        self.expected = upto;
        while self.messages.get(self.at).is_some_and(|m| m.end <= upto) {
            self.at += 1;
        }
        Some(Arrival { flow: id, bytes, delivered, ended: delivered.into() })
    }

    fn of(&mut self, packet: u64) -> Option<&mut Message> {
        let ahead = self.messages[self.at.min(self.messages.len())..].partition_point(|m| m.end <= packet);
        self.messages.get_mut(self.at + ahead)
    }

    /// Goes on to the next message if all packets of this one are accounted for.
    fn close(&mut self, now: Nanos) -> u32 {
        let Message { end, received, .. } = &mut self.messages[self.at];
        if self.expected < *end {
            return 0;
        }
        received.ended = Some(now);
        self.at += 1;
        1
    }
}
