//! The receiving end of a queue pair.

use super::frame::{HeaderFrame, Heard, Route, SACK_BYTES};
use super::messages::{Arrival, Incoming, Received};
use super::reorder::{Placed, Reorder};
use super::sender::{Flow, Pace, Transport};
use crate::congestion::telemetry::Stamp;
use crate::roce::cnp::NotificationPoint;
use crate::roce::psn::Psn;
use crate::roce::qp::TrafficClass;
use crate::roce::wire::{Nak, Syndrome};
use weir_dataplane::types::Nanos;

/// The receiving end. What it has to answer waits here, not in a queue of frames: an answer says how things stand
/// when it leaves.
#[derive(Clone, Debug)]
pub struct Receiver {
    reliable: bool,
    /// Class of the data, and of its answers. Marks on those are not answered: nothing of theirs could slow down.
    class: TrafficClass,
    back: Route,
    /// What all its answers have in common.
    answer: HeaderFrame,
    np: NotificationPoint,
    incoming: Incoming,
    /// It takes packets in any order.
    reorder: Option<Box<Reorder>>,
    /// The gap before the expected packet has been named.
    gap_named: bool,
    /// The sender is driven by acknowledgements: what the newest packet carried, to go back with the next one.
    echo: Option<Box<Stamp>>,
    /// Bytes of a packet that are for the sender's algorithm, not payload.
    header_bytes: u16,
    ack_due: bool,
    nak_due: bool,
    cnp_due: bool,
}

impl Receiver {
    /// Expects `flow`; answers go along `back`; CNPs at least `cnp_interval` apart.
    pub fn new(flow: Flow, back: Route, cnp_interval: Nanos) -> Self {
        let (reorder, sack) = match flow.transport {
            Transport::SelectiveRepeat(config) => (Some(Box::new(Reorder::new(config.window))), SACK_BYTES),
            Transport::Reliable | Transport::Datagram => (None, 0),
        };
        Self {
            reliable: flow.transport.is_reliable(),
            class: flow.class(),
            incoming: Incoming::new(flow),
            answer: back.answer(flow.class(), flow.pace.header_bytes() + sack),
            reorder,
            back,
            np: NotificationPoint::new(cnp_interval),
            gap_named: false,
            echo: matches!(flow.pace, Pace::Acks(_)).then(Box::default),
            header_bytes: flow.pace.header_bytes(),
            ack_due: false,
            nak_due: false,
            cnp_due: false,
        }
    }

    /// Expects one more message behind the others.
    pub fn append(&mut self, flow: Flow) {
        self.incoming.append(flow);
    }

    /// What came of message `nth`.
    pub fn received(&self, nth: usize) -> &Received {
        self.incoming.received(nth)
    }

    /// The same; `None`: it does not expect that message.
    pub fn has_received(&self, nth: usize) -> Option<&Received> {
        self.incoming.has_received(nth)
    }

    /// PFC priority of the answers: that of the data, so that neither overtakes the other.
    pub(super) fn priority(&self) -> u8 {
        self.class.priority
    }

    /// An answer, and a CNP, waits to be sent.
    pub(super) fn due(&self) -> (bool, bool) {
        (self.ack_due || self.nak_due, self.cnp_due)
    }

    /// The answer, as things stand.
    pub(super) fn answer(&mut self) -> HeaderFrame {
        let expected = Psn::new(0).plus(self.incoming.expected);
        // A NAK acknowledges all before the gap, too.
        self.ack_due = false;
        let mut frame = self.answer;
        if std::mem::take(&mut self.nak_due) {
            frame.set_answer(expected, Syndrome::Nak(Nak::Sequence));
        } else {
            frame.set_answer(expected.previous(), Syndrome::ACK_NO_CREDITS);
        }
        if let Some(reorder) = &mut self.reorder {
            frame.set_sack(&reorder.sack(self.incoming.expected));
        }
        frame
    }

    /// What the answer carries back.
    pub(super) fn take_echo(&mut self) -> Option<Stamp> {
        let echo = self.echo.as_mut()?;
        let stamp = **echo;
        echo.marks = 0;
        Some(stamp)
    }

    /// The CNP.
    pub(super) fn cnp(&mut self, class: TrafficClass) -> HeaderFrame {
        self.cnp_due = false;
        self.back.cnp(class)
    }

    /// A data packet.
    pub(super) fn on_data(&mut self, heard: &Heard, stamp: Option<&Stamp>, now: Nanos) -> Option<Arrival> {
        if let (Some(echo), Some(stamp)) = (&mut self.echo, stamp) {
            let marks = echo.marks + u64::from(heard.ce);
            **echo = stamp.returning(marks);
        }
        let incoming = &mut self.incoming;
        let ahead = i64::from(heard.psn.since(Psn::new(0).plus(incoming.expected)));
        let known = incoming.expected.checked_add_signed(ahead).filter(|packet| *packet < incoming.end());
        let counted = known.unwrap_or(incoming.expected);
        if heard.ce {
            incoming.seen(counted).marked += 1;
            // Without acknowledgements there is nobody to slow down either.
            if self.reliable && self.echo.is_none() && self.np.on_ce(now) {
                incoming.seen(counted).cnps += 1;
                self.cnp_due = true;
            }
        }
        if let Some(reorder) = &mut self.reorder {
            let place = |packet| reorder.place(packet, incoming.expected, heard.ack_req);
            let placed = known.map_or(Placed::Useless, place);
            let (Some(packet), Placed::Upto(upto, owed)) = (known, placed) else {
                incoming.seen(counted).useless += 1;
                if heard.ack_req && known.is_some() {
                    self.ack_due = true;
                    reorder.came_again();
                }
                return None;
            };
            self.ack_due |= owed;
            let bytes = heard.payload.saturating_sub(self.header_bytes).into();
            return incoming.place(packet, upto, bytes, now);
        }
        let Some(packet) = known.filter(|_| ahead == 0 || (ahead > 0 && !self.reliable)) else {
            incoming.seen(counted).useless += 1;
            if ahead > 0 && self.reliable && !self.gap_named {
                (self.gap_named, self.nak_due) = (true, true);
                incoming.seen(counted).naks += 1;
            } else if ahead < 0 && self.reliable && heard.ack_req {
                self.ack_due = true;
            }
            return None;
        };
        let left_behind = incoming.skip_to(packet, now);
        // A NAK that has not left is about a gap that is filled now.
        (self.gap_named, self.nak_due) = (false, false);
        self.ack_due |= heard.ack_req;
        let arrival = incoming.take(u64::from(heard.payload.saturating_sub(self.header_bytes)), now)?;
        Some(Arrival { ended: arrival.ended + left_behind, ..arrival })
    }
}
