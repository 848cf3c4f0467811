//! What arrives, and what is read of it.

use super::RcLinkNic;
use super::role::Role;
use crate::flow::messages::Arrival;
use crate::rclink::endpoint::{Counters, Endpoint, Event, FlowControl};
use crate::rclink::frame::{self, Body};
use crate::rclink::rh::{Opcode, Psn, Rh};
use weir_dataplane::frame::Frame;
use weir_dataplane::types::Nanos;

/// Whether what the receiving end `at` reads can be answered at once: there is room for the answer.
pub(super) fn can_answer(endpoint: &Endpoint, ends: &[Role], at: usize) -> bool {
    match ends.get(at) {
        Some(Role::Receives { answers: Some(answers), .. }) => endpoint.has_room(*answers as u16),
        _ => true,
    }
}

/// Whether an event is for the reader and could be read at once if it were its turn.
fn is_readable(endpoint: &Endpoint, ends: &[Role], event: &Event) -> bool {
    match event {
        Event::Received { qp, .. } => can_answer(endpoint, ends, usize::from(*qp)),
        Event::Multicast { .. } | Event::Raw(_) => true,
        Event::Acknowledged { .. } | Event::Cnp(_) | Event::Failed(_) => false,
    }
}

/// Bits of a [`Psn`].
const PSN_BITS: u32 = Psn::SPACE.ilog2();

/// A message of a queue pair where nobody sends again: it begins with what its number, from the first of the queue pair, has beyond that
/// of its frame, in eight bytes or as many as it has.
pub(super) fn payload(number: u64, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    let (beyond, room) = ((number >> PSN_BITS).to_be_bytes(), len.min(8));
    bytes[..room].copy_from_slice(&beyond[8 - room..]);
    bytes
}

/// That number: of those with these bits the one nearest to `expected`.
fn number_of(psn: Psn, payload: &[u8], expected: u64) -> u64 {
    let room = payload.len().min(8);
    let beyond = payload[..room].iter().fold(0, |bits: u64, byte| bits << 8 | u64::from(*byte));
    let said = beyond << PSN_BITS | u64::from(psn.get());
    let above = 64_u32.saturating_sub(PSN_BITS + 8 * room as u32);
    // The difference moved to the top of a word, so that its highest bit is the sign.
    let apart = (said.wrapping_sub(expected) << above) as i64 >> above;
    expected.saturating_add_signed(apart)
}

impl RcLinkNic {
    /// Takes a frame from the wire.
    pub fn handle_frame(&mut self, frame: &impl Frame, now: Nanos) -> Option<Arrival> {
        self.scratch.clear();
        self.scratch.extend_from_slice(frame.bytes());
        self.scratch.resize(frame.len().max(frame.bytes().len()), 0);
        let bytes = std::mem::take(&mut self.scratch);
        let before = *self.endpoint.counters();
        self.idle_until(now);
        self.endpoint.handle_frame(&bytes, now);
        self.memory_peak = self.memory_peak.max(self.endpoint.memory_used());
        if let Ok(frame::Frame { body: Body::Type1(rh, payload), ce, .. }) = self.config.codec.read(&bytes) {
            self.account(&rh, payload, ce, &before);
        }
        self.scratch = bytes;
        let arrival = self.read(now);
        self.note_credits(now);
        arrival
    }

    /// Frames of data it has taken, those among them that wait to be read, without those that will be thrown away then.
    pub fn frames_taken(&self) -> u64 {
        self.endpoint.counters().rx_data - self.overtaken
    }

    /// What a frame meant to the end it was for.
    fn account(&mut self, rh: &Rh, payload: &[u8], ce: bool, before: &Counters) {
        let (after, is_reliable) = (*self.endpoint.counters(), self.endpoint.is_reliable());
        if after.rx_unknown > before.rx_unknown {
            return;
        }
        match (rh.opcode, self.ends.get_mut(usize::from(rh.dest_qp))) {
            (Opcode::Send, Some(Role::Receives { incoming, arrived, unread, marked, .. })) => {
                // What is sent again has a number in its header alone, and a window of them.
                let number = number_of(rh.psn, if is_reliable { &[] } else { payload }, *arrived);
                let is_taken = after.rx_data > before.rx_data;
                // One that is not is of the message that lacks frames, unless it has come before.
                let own = if is_taken { number } else { number.min(*arrived) };
                let received = incoming.message_of(own);
                received.useless += u64::from(!is_taken);
                if ce {
                    received.marked += 1;
                    *marked = own;
                }
                if is_taken {
                    // Whoever reads in turn has read one that was sent after it by then, and throws it away.
                    self.overtaken += u64::from(number < *arrived);
                    unread.push_back(number);
                    *arrived = number.saturating_add(1).max(*arrived);
                }
            }
            (Opcode::Cnp, Some(end)) => {
                let sent = end.sent_of(self.endpoint.oldest(rh.dest_qp));
                sent.into_iter().for_each(|sent| sent.cnps += 1);
            }
            (Opcode::Ack, Some(end @ Role::Sends { .. })) => {
                let sent = end.sent_of(self.endpoint.oldest(rh.dest_qp));
                sent.into_iter().for_each(|sent| sent.naks += u64::from(rh.length_or_syndrome == 1));
                self.starts.change(rh.dest_qp.into());
            }
            _ => {}
        }
    }

    /// Notes what has changed for channels that wait for credits.
    pub(super) fn note_credits(&mut self, now: Nanos) {
        if let FlowControl::Cbfc { .. } = self.config.flow_control {
            self.credit_wait.note(self.endpoint.credit_wait(), now);
        }
    }

    /// The next event that may be read: of messages those whose turn it is at the rate of the reader, and whose answer
    /// can be queued.
    fn next_event(&mut self, now: Nanos) -> Option<Event> {
        let Self { endpoint, ends, reader, .. } = self;
        let reads = reader.is_none_or(|reader| reader.ready() <= now);
        endpoint.poll_event_if(now, |endpoint, event| match event {
            Event::Acknowledged { .. } | Event::Cnp(_) | Event::Failed(_) => true,
            read => reads && is_readable(endpoint, ends, read),
        })
    }

    /// To be asked before anything may become readable at `now`: time in which there was nothing to read is not made up for.
    pub(super) fn idle_until(&mut self, now: Nanos) {
        let Self { endpoint, ends, reader, .. } = self;
        if let Some(reader) = reader
            && !endpoint.events().any(|event| is_readable(endpoint, ends, event))
        {
            reader.not_before(now);
        }
    }

    /// Reads one message, if one may be read at `now`, and what lies before it. To be asked again until there is none.
    pub fn read(&mut self, now: Nanos) -> Option<Arrival> {
        let mut arrival = None;
        while arrival.is_none()
            && let Some(event) = self.next_event(now)
        {
            match event {
                Event::Received { qp, payload } => {
                    self.has_read(self.config.codec.frame_len(payload.len(), true), now);
                    let Role::Receives { incoming, unread, answers, .. } = &mut self.ends[usize::from(qp)]
                    else {
                        continue;
                    };
                    let number = unread.pop_front();
                    if let Some(number) = number.filter(|number| *number < incoming.expected) {
                        // One that was sent after it had come before: it counts as lost.
                        incoming.message_of(number).useless += 1;
                        continue;
                    }
                    let (ended, bytes) = match number {
                        // What is before it is lost, and may have been the end of flows.
                        Some(number) => (incoming.skip_to(number, now), incoming.next_bytes()),
                        // Frames of AFH_Lite have no number.
                        None => (0, incoming.bytes_of(payload.len() as u64)),
                    };
                    if let Some(taken) = incoming.take(bytes, now) {
                        arrival = Some(Arrival { ended: taken.ended + ended, ..taken });
                    }
                    let answers = *answers;
                    if let Some(at) = answers
                        && let Some(Role::Sends { flows, .. }) = self.ends.get_mut(at)
                    {
                        flows.iter_mut().filter_map(|out| out.asked.as_mut()).for_each(|asked| *asked += 1);
                        self.starts.change(at as u32);
                        self.post(now);
                    }
                }
                Event::Cnp(qp) => {
                    self.back_off(qp.into(), now, |backoff| backoff.on_cnp(now));
                }
                Event::Acknowledged { qp, messages } => self.acknowledged(qp, messages),
                Event::Multicast { payload, .. } => {
                    self.has_read(self.config.codec.frame_len(payload.len(), true), now);
                    arrival = self.datagrams.took(&payload, now);
                }
                Event::Raw(frame) => {
                    self.has_read(frame.len(), now);
                    let message = self.endpoint.raw_message(&frame).map_or(&[][..], |(_, message)| message);
                    arrival = self.datagrams.took(message, now);
                }
                Event::Failed(_) => {}
            }
        }
        arrival
    }

    /// Earliest time after `now` at which [`RcLinkNic::read`] may have a message that is here, whatever its line does meanwhile. What could be
    /// read before has been. `None`: nothing is here, or messages are read as they come.
    pub fn next_read(&self, now: Nanos) -> Option<Nanos> {
        let reader = self.reader.filter(|reader| reader.ready() > now && self.endpoint.has_events());
        reader.map(|reader| reader.ready())
    }

    /// A frame of so many bytes was read.
    fn has_read(&mut self, frame: usize, now: Nanos) {
        self.last_read = now;
        if let Some(reader) = &mut self.reader {
            reader.advance(reader.step(frame));
        }
    }

    /// The oldest messages of queue pair `qp` have arrived at the peer.
    fn acknowledged(&mut self, qp: u16, mut messages: u64) {
        let Some(Role::Sends { flows, unacknowledged, .. }) = self.ends.get_mut(usize::from(qp)) else {
            return;
        };
        while messages > 0
            && let Some(out) = flows.get_mut(*unacknowledged)
        {
            let taken = messages.min(out.flow.packets() - out.acknowledged);
            out.acknowledged += taken;
            messages -= taken;
            if out.acknowledged == out.flow.packets() {
                self.completed.push_back(out.flow.id);
                *unacknowledged += 1;
            }
        }
    }

    /// The next flow that has become complete at its sender: every packet is acknowledged or, of datagrams and in LITE mode, sent.
    pub fn poll_completed(&mut self) -> Option<u32> {
        self.completed.pop_front()
    }
}
