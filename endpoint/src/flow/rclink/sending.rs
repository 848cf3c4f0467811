//! What is posted and sent, and when.

use super::RcLinkNic;
use super::datagrams::Datagram;
use super::receiving::payload;
use super::role::Role;
use crate::congestion::backoff::Backoff;
use crate::flow::frame::HeaderFrame;
use crate::rclink::endpoint;
use weir_dataplane::pfc::NEVER;
use weir_dataplane::types::Nanos;

impl RcLinkNic {
    fn run(&mut self, now: Nanos) {
        self.idle_until(now);
        self.handle_timeouts(now);
        let mut from = 0;
        while let Some(at) = self.backoffs.first(from, now) {
            self.back_off(at, now, |backoff| backoff.handle_timeout(now));
            from = at + 1;
        }
        self.post(now);
    }

    /// Runs the timers of the endpoint that have expired by `now`. Those of a queue pair are of the flow of its oldest packet.
    fn handle_timeouts(&mut self, now: Nanos) {
        let before = self.endpoint.counters().timeouts;
        self.endpoint.handle_timeout(now);
        if self.endpoint.counters().timeouts == before {
            return;
        }
        for (at, end) in self.ends.iter_mut().enumerate() {
            let all = self.endpoint.qp_counters(at as u16).map_or(0, |counters| counters.timeouts);
            end.count_timeouts(all, self.endpoint.oldest(at as u16));
        }
    }

    /// Something happens to the back-off of an end, if it has one.
    pub(super) fn back_off(&mut self, at: usize, now: Nanos, happens: impl FnOnce(&mut Backoff)) {
        let Some(backoff) = self.ends[at].backoff() else { return };
        happens(backoff);
        self.backoffs.set(at, backoff.next_timeout().unwrap_or(NEVER));
        // Between two thresholds that were accepted.
        let _ = self.endpoint.set_threshold(at as u16, backoff.rate() as u32, now);
    }

    /// Queues what may be sent, as far as there is room.
    pub(super) fn post(&mut self, now: Nanos) {
        while let Some(at) = self.starts.next(now) {
            self.post_of(at, now);
        }
        debug_assert!(!self.has_open(now));
        self.datagrams.post(&mut self.endpoint, &self.config, self.lag, now);
    }

    /// The same for one end.
    fn post_of(&mut self, at: u32, now: Nanos) {
        let least = *self.config.codec.payload_range().start() as u64;
        let (qp, end) = (at as u16, &mut self.ends[at as usize]);
        while self.endpoint.has_room(qp)
            && let Some(out) = end.open(now)
        {
            let full = u64::from(out.flow.payload);
            let len = out.flow.bytes.saturating_sub(out.posted * full).min(full).max(least);
            // Nothing reads the number of one that comes in order.
            let number = if self.endpoint.is_reliable() { 0 } else { out.number() };
            if self.endpoint.post(qp, payload(number, len as usize)).is_err() {
                return;
            }
            out.posted += 1;
        }
        // Anything else that it can wait for is a change.
        if let Some(start) = end.next().map(|out| out.flow.start).filter(|start| *start > now) {
            self.starts.wait(at, start);
        }
    }

    /// An end has something to post and room for it, found by asking each of them.
    fn has_open(&mut self, now: Nanos) -> bool {
        let mut ends = self.ends.iter_mut().enumerate();
        ends.any(|(qp, end)| self.endpoint.has_room(qp as u16) && end.open(now).is_some())
    }

    /// The cable is cut, or whole again: pauses on both sides are forgotten.
    pub fn set_carrier(&mut self, carrier: bool, now: Nanos) {
        self.endpoint.set_carrier(carrier, now);
        if !carrier {
            self.held_back.end_all(now);
        }
    }

    /// The next frame to put on the wire at `now`. It counts as sent: call only when the link is free.
    pub fn poll_transmit(&mut self, now: Nanos) -> Option<HeaderFrame> {
        self.run(now);
        let kind = self.endpoint.poll_transmit(now).map(|frame| frame.kind);
        self.note_credits(now);
        match kind? {
            endpoint::Sent::Data { qp, number, again } => {
                if let Some(sent) = self.ends[usize::from(qp)].sent_of(number) {
                    sent.packets += 1;
                    sent.resent += u64::from(again);
                }
                self.left = self.ends[usize::from(qp)].ends_with(number);
                // It has left its queue.
                if !self.endpoint.is_reliable() {
                    self.starts.change(qp.into());
                    self.completed.extend(self.left);
                }
            }
            endpoint::Sent::Multicast => self.completed.extend(self.datagrams.left(Datagram::Multicast)),
            endpoint::Sent::Raw => self.completed.extend(self.datagrams.left(Datagram::Raw)),
            endpoint::Sent::Cnp(qp) => {
                if let Role::Receives { incoming, marked, .. } = &mut self.ends[usize::from(qp)] {
                    incoming.message_of(*marked).cnps += 1;
                }
            }
            endpoint::Sent::Pfc => self.held_back.sent(self.endpoint.frame(), now),
            endpoint::Sent::Control => {}
        }
        let bytes = self.endpoint.frame();
        Some(HeaderFrame::new(bytes, bytes.len()))
    }

    /// The flow whose last packet has just been sent, again or for the first time.
    pub fn take_left(&mut self) -> Option<u32> {
        self.left.take()
    }

    /// Earliest time after which [`RcLinkNic::poll_transmit`] may have a frame if nothing arrives until then.
    /// `None`: nothing to do.
    pub fn next_transmit(&mut self, now: Nanos) -> Option<Nanos> {
        // A frame that left may have made room, and what was read since may have asked for a response.
        self.post(now);
        let mut next = self.endpoint.next_timeout(now).unwrap_or(NEVER);
        // What is open waits for room in the link's queue; what is not waits for its start.
        let Self { starts, ends, .. } = self;
        let start = |at: u32| ends[at as usize].next().map_or(0, |out| out.flow.start);
        next = next.min(starts.next_start(now, start)).min(self.backoffs.least());
        next = next.min(self.datagrams.next_post(now));
        (next != NEVER).then(|| next.max(now))
    }
}
