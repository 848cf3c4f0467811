//! The receiving end of a flow.

use super::frame::{HeaderFrame, Heard, Route};
use super::sender::{Flow, Transport};
use crate::roce::cnp::NotificationPoint;
use crate::roce::psn::Psn;
use crate::roce::wire::{Nak, Syndrome};
use weir_dataplane::types::Nanos;

/// What a receiver has seen. Only grows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Received {
    /// Packets in order, each once.
    pub packets: u64,
    /// Their payload bytes.
    pub bytes: u64,
    /// Packets that came twice, or after a gap (go-back-N throws them away).
    pub useless: u64,
    /// Packets of an unreliable flow that never came.
    pub missing: u64,
    /// Packets marked CE.
    pub marked: u64,
    /// CNPs sent.
    pub cnps: u64,
    /// NAKs sent.
    pub naks: u64,
    /// When the last packet came, ns.
    pub done: Option<Nanos>,
}

/// The receiving end.
#[derive(Clone, Debug)]
pub struct Receiver {
    flow: Flow,
    packets: u64,
    back: Route,
    np: NotificationPoint,
    expected: u64,
    nak_sent: bool,
    received: Received,
}

impl Receiver {
    /// Expects `flow`; answers go along `back`; CNPs at least `cnp_interval` apart.
    pub fn new(flow: Flow, back: Route, cnp_interval: Nanos) -> Self {
        Self {
            packets: flow.packets(),
            flow,
            back,
            np: NotificationPoint::new(cnp_interval),
            expected: 0,
            nak_sent: false,
            received: Received::default(),
        }
    }

    /// The flow.
    pub fn flow(&self) -> &Flow {
        &self.flow
    }

    /// What came.
    pub fn received(&self) -> &Received {
        &self.received
    }

    /// A data packet; answers are handed to `answer`.
    pub(super) fn on_data(&mut self, heard: &Heard, now: Nanos, mut answer: impl FnMut(HeaderFrame)) {
        let r = &mut self.received;
        if heard.ce {
            r.marked += 1;
            // Without acknowledgements there is nobody to slow down either.
            if self.flow.transport == Transport::Reliable && self.np.on_ce(now) {
                r.cnps += 1;
                answer(self.back.cnp());
            }
        }
        let ahead = i64::from(heard.psn.since(Psn::new(0).plus(self.expected)));
        let reliable = self.flow.transport == Transport::Reliable;
        if ahead < 0 || (ahead > 0 && reliable) {
            r.useless += 1;
            if ahead > 0 && !self.nak_sent {
                self.nak_sent = true;
                r.naks += 1;
                let missing = Psn::new(0).plus(self.expected);
                answer(self.back.answer(missing, Syndrome::Nak(Nak::Sequence)));
            } else if ahead < 0 && reliable && heard.ack_req {
                let last = Psn::new(0).plus(self.expected).previous();
                answer(self.back.answer(last, Syndrome::ACK_NO_CREDITS));
            }
            return;
        }
        r.missing += ahead as u64;
        self.expected += ahead as u64 + 1;
        self.nak_sent = false;
        r.packets += 1;
        r.bytes += u64::from(heard.payload);
        if self.expected == self.packets && r.done.is_none() {
            r.done = Some(now);
        }
        if heard.ack_req {
            answer(self.back.answer(heard.psn, Syndrome::ACK_NO_CREDITS));
        }
    }
}
