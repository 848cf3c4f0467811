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

/// What a message of a queue pair begins with where nobody sends again: its number, from the first of the queue pair. Those of frames
/// begin anew after 4096.
pub(super) fn payload(number: u64, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    if let Some(first) = bytes.first_chunk_mut() {
        *first = number.to_be_bytes();
    }
    bytes
}

/// That number; `None`: the message is too short for it.
fn number_in(payload: &[u8]) -> Option<u64> {
    payload.first_chunk().map(|number| u64::from_be_bytes(*number))
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
            self.account(&rh, number_in(payload), ce, &before);
        }
        self.scratch = bytes;
        let arrival = self.read(now);
        self.note_credits(now);
        arrival
    }

    /// Frames of data it has taken, those among them that wait to be read.
    pub fn frames_taken(&self) -> u64 {
        self.endpoint.counters().rx_data
    }

    /// What a frame meant to the end it was for. `said`: the number in its payload.
    fn account(&mut self, rh: &Rh, said: Option<u64>, ce: bool, before: &Counters) {
        let (after, is_reliable) = (*self.endpoint.counters(), self.endpoint.is_reliable());
        if after.rx_unknown > before.rx_unknown {
            return;
        }
        match (rh.opcode, self.ends.get_mut(usize::from(rh.dest_qp))) {
            (Opcode::Send, Some(Role::Receives { incoming, arrived, unread, marked, .. })) => {
                let nearest =
                    || arrived.saturating_add_signed(rh.psn.since(Psn::default().plus(*arrived)).into());
                let number = said.filter(|_| !is_reliable).unwrap_or_else(nearest);
                if ce {
                    incoming.seen(number).marked += 1;
                    *marked = number;
                }
                if after.rx_data > before.rx_data {
                    unread.push_back(number);
                    *arrived = number.saturating_add(1).max(*arrived);
                } else {
                    incoming.seen(number).useless += 1;
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
                        incoming.seen(number).useless += 1;
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

    /// The next flow that has become complete at its sender: every packet is acknowledged or, of datagrams, sent. In LITE mode no
    /// other ever is.
    pub fn poll_completed(&mut self) -> Option<u32> {
        self.completed.pop_front()
    }
}
