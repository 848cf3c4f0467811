//! The receiving end of a queue pair.

use super::frame::{HeaderFrame, PacketHeaders, Route, SACK_BYTES};
use super::messages::{Arrival, Incoming, Received};
use super::nic::NicConfig;
use super::reorder::{Placed, Reorder};
use super::sender::{Flow, Pace, Transport};
use crate::congestion::telemetry::Stamp;
use crate::rc::in_order::{InOrder, Turn};
use crate::roce::cnp::NotificationPoint;
use crate::roce::qp::TrafficClass;
use weir_dataplane::types::Nanos;

/// The receiving end. What it has to answer waits here, not in a queue of frames: an answer says how things stand
/// when it leaves.
#[derive(Clone, Debug)]
pub struct Receiver {
    reliable: bool,
    /// Priority of the answers.
    priority: u8,
    back: Route,
    /// What all its answers have in common.
    answer: HeaderFrame,
    np: NotificationPoint,
    incoming: Incoming,
    /// It takes packets in any order.
    reorder: Option<Box<Reorder>>,
    order: InOrder,
    /// The sender is driven by acknowledgements: what the newest packet carried, to go back with the next one.
    echo: Option<Box<Stamp>>,
    /// Bytes of a packet that are for the sender's algorithm, not payload.
    header_bytes: u16,
    cnp_due: bool,
}

impl Receiver {
    /// Expects `flow` at an adapter; answers go along `back`. Marks on those are not answered: nothing of theirs could slow down.
    pub fn new(flow: Flow, back: Route, nic: &NicConfig) -> Self {
        let class = if flow.acks_as_cnps { nic.cnp } else { flow.class() };
        let (reorder, sack) = match flow.transport {
            Transport::SelectiveRepeat(config) => (Some(Box::new(Reorder::new(config.window))), SACK_BYTES),
            Transport::Reliable | Transport::Unreliable => (None, 0),
        };
        Self {
            reliable: flow.transport.is_reliable(),
            priority: class.priority,
            incoming: Incoming::new(flow),
            answer: back.answer(class, flow.pace.header_bytes() + sack),
            reorder,
            back,
            np: NotificationPoint::new(nic.cnp_interval),
            order: InOrder::default(),
            echo: matches!(flow.pace, Pace::Acks(_)).then(Box::default),
            header_bytes: flow.pace.header_bytes(),
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

    /// PFC priority of the answers: that of the data, so that neither overtakes the other, or that of CNPs.
    pub(super) fn priority(&self) -> u8 {
        self.priority
    }

    /// An answer, and a CNP, waits to be sent.
    pub(super) fn due(&self) -> (bool, bool) {
        (self.order.owes(), self.cnp_due)
    }

    /// The answer that is owed, as things stand, and what it carries back.
    pub(super) fn answer(&mut self) -> Option<(HeaderFrame, Option<Stamp>)> {
        let (psn, syndrome) = self.order.answer()?;
        let mut frame = self.answer;
        frame.set_answer(psn, syndrome);
        if let Some(reorder) = &mut self.reorder {
            frame.set_sack(&reorder.sack(self.incoming.expected));
        }
        Some((frame, self.take_echo()))
    }

    fn take_echo(&mut self) -> Option<Stamp> {
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
    pub(super) fn on_data(
        &mut self,
        headers: &PacketHeaders,
        stamp: Option<&Stamp>,
        now: Nanos,
    ) -> Option<Arrival> {
        if let (Some(echo), Some(stamp)) = (&mut self.echo, stamp) {
            let marks = echo.marks + u64::from(headers.ce);
            **echo = stamp.returning(marks);
        }
        let incoming = &mut self.incoming;
        let order = &mut self.order;
        let ahead = i64::from(headers.psn.since(order.expected()));
        let known = incoming.expected.checked_add_signed(ahead).filter(|packet| *packet < incoming.end());
        let counted = known.unwrap_or(incoming.expected);
        if headers.ce {
            incoming.seen(counted).marked += 1;
            // Without acknowledgements there is nobody to slow down either.
            if self.reliable && self.echo.is_none() && self.np.on_ce(now) {
                incoming.seen(counted).cnps += 1;
                self.cnp_due = true;
            }
        }
        if let Some(reorder) = &mut self.reorder {
            let place = |packet| reorder.place(packet, incoming.expected, headers.ack_req);
            let placed = known.map_or(Placed::Useless, place);
            let (Some(packet), Placed::Upto(upto, owed)) = (known, placed) else {
                incoming.seen(counted).useless += 1;
                if headers.ack_req && known.is_some() {
                    order.acknowledge();
                    reorder.came_again();
                }
                return None;
            };
            order.taken(upto - incoming.expected, owed);
            let bytes = headers.payload.saturating_sub(self.header_bytes).into();
            return incoming.place(packet, upto, bytes, now);
        }
        let turn = if self.reliable { order.turn(headers.psn) } else { Turn::Next };
        let Some(packet) = known.filter(|_| turn == Turn::Next && ahead >= 0) else {
            incoming.seen(counted).useless += 1;
            match turn {
                Turn::Ahead(first) => incoming.seen(counted).naks += u64::from(first),
                Turn::Duplicate if headers.ack_req => order.acknowledge(),
                Turn::Duplicate | Turn::Next => {}
            }
            return None;
        };
        order.taken(packet + 1 - incoming.expected, headers.ack_req);
        let left_behind = incoming.skip_to(packet, now);
        let arrival = incoming.take(u64::from(headers.payload.saturating_sub(self.header_bytes)), now)?;
        Some(Arrival { ended: arrival.ended + left_behind, ..arrival })
    }
}
