//! The sending end of a flow: go-back-N over 24-bit PSNs, paced.

use super::frame::{HeaderFrame, Heard, Route};
use crate::dcqcn::firmware::{Adapter, Dcqcn, DcqcnError};
use crate::dcqcn::scheme::UNLIMITED;
use crate::dcqcn::standard::Params;
use crate::roce::psn::Psn;
use crate::roce::wire::{Nak, Opcode, Syndrome};
use weir_dataplane::frame::Frame;
use weir_dataplane::pfc::NEVER;
use weir_dataplane::types::{Nanos, wire_bytes};

/// How fast a flow sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// As fast as the link goes.
    Line,
    /// At this rate on the wire, bits/s.
    Fixed(u64),
    /// As fast as DCQCN allows.
    Dcqcn(Params),
    /// As an adapter does under one of its schemes.
    Adapter {
        /// Rate control.
        dcqcn: Dcqcn,
        /// Packets of a work request: what counts as in flight.
        request: u32,
    },
}

/// What the receiver says about frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// It acknowledges; what is lost is sent again.
    Reliable,
    /// Nothing: an unreliable connection.
    Datagram,
}

/// One message from one host to another. Both ends hold the same value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flow {
    /// Number of the flow, for whoever asks.
    pub id: u32,
    /// Payload bytes in all; at least 1.
    pub bytes: u64,
    /// Payload bytes of a full packet, 1 to 4096.
    pub payload: u16,
    /// Not before this time, ns.
    pub start: Nanos,
    /// PFC priority of the data at the sender.
    pub priority: u8,
    /// DSCP of the data.
    pub dscp: u8,
    /// Reliability.
    pub transport: Transport,
    /// Pace.
    pub pace: Pace,
    /// The receiver is asked to acknowledge every so many packets, and the last one.
    pub ack_every: u16,
    /// Without progress for this time everything unacknowledged is sent again, ns.
    pub timeout: Nanos,
}

impl Flow {
    /// Packets the message takes.
    pub fn packets(&self) -> u64 {
        self.bytes.div_ceil(u64::from(self.payload.max(1))).max(1)
    }

    fn payload_of(&self, packet: u64) -> u16 {
        let full = u64::from(self.payload);
        self.bytes.saturating_sub(packet * full).min(full) as u16
    }
}

/// What a sender has done. Only grows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sent {
    /// Packets handed to the link, again or for the first time.
    pub packets: u64,
    /// Packets sent again.
    pub resent: u64,
    /// Times the timeout struck.
    pub timeouts: u64,
    /// NAKs for a missing packet.
    pub naks: u64,
    /// CNPs.
    pub cnps: u64,
}

/// The sending end.
#[derive(Clone, Debug)]
pub struct Sender {
    flow: Flow,
    template: HeaderFrame,
    control: Option<Adapter>,
    /// Packets of a work request; 0: nothing counts them.
    request: u64,
    packets: u64,
    /// Packets acknowledged: all before this one.
    acked: u64,
    /// Next packet to send, and the highest that was ever sent.
    next: u64,
    highest: u64,
    /// Departure of the last frame (picoseconds) and its bits, from which the next is due.
    last_ps: u64,
    last_bits: u64,
    /// Last time something was acknowledged or the window was empty.
    progress: Nanos,
    sent: Sent,
}

impl Sender {
    /// A flow that will send.
    ///
    /// # Errors
    /// DCQCN parameters that contradict one another.
    pub fn new(flow: Flow, route: &Route) -> Result<Self, DcqcnError> {
        let control = match flow.pace {
            Pace::Dcqcn(params) => Some(Adapter::new(&Dcqcn::plain(params), flow.start)?),
            Pace::Adapter { dcqcn, .. } => Some(Adapter::new(&dcqcn, flow.start)?),
            Pace::Line | Pace::Fixed(_) => None,
        };
        let request =
            if let Pace::Adapter { request, .. } = flow.pace { u64::from(request.max(1)) } else { 0 };
        Ok(Self {
            template: route.data(flow.dscp),
            packets: flow.packets(),
            control,
            request,
            acked: 0,
            next: 0,
            highest: 0,
            last_ps: flow.start.saturating_mul(1000),
            last_bits: 0,
            progress: flow.start,
            sent: Sent::default(),
            flow,
        })
    }

    /// The flow.
    pub fn flow(&self) -> &Flow {
        &self.flow
    }

    /// What it has done.
    pub fn sent(&self) -> &Sent {
        &self.sent
    }

    /// Rate it may send at now, bits/s; `None`: whatever the link does.
    pub fn rate(&self) -> Option<u64> {
        match self.flow.pace {
            Pace::Line => None,
            Pace::Fixed(rate) => Some(rate.max(1)),
            Pace::Dcqcn(_) | Pace::Adapter { .. } => {
                self.control.as_ref().map(|control| control.allowance().rate)
            }
        }
    }

    /// Nothing remains to be done.
    pub fn is_done(&self) -> bool {
        match self.flow.transport {
            Transport::Reliable => self.acked == self.packets,
            Transport::Datagram => self.next == self.packets,
        }
    }

    fn due_ps(&self) -> u64 {
        let gap = self.rate().map_or(0, |rate| self.last_bits * 1_000_000_000_000 / rate);
        self.last_ps.saturating_add(gap)
    }

    /// When the next frame may go if the link is free; [`NEVER`]: nothing to send until an answer or
    /// a timeout.
    pub(super) fn ready(&self) -> Nanos {
        if self.next < self.packets && self.is_admitted() { self.due_ps().div_ceil(1000) } else { NEVER }
    }

    /// The work request of the next packet may be in flight.
    fn is_admitted(&self) -> bool {
        if self.request == 0 {
            return true;
        }
        match self.control.as_ref().map_or(UNLIMITED, |control| control.allowance().outstanding) {
            UNLIMITED => true,
            limit => self.next / self.request - self.acked / self.request < u64::from(limit),
        }
    }

    /// When [`Sender::run_timers`] has something to do.
    pub(super) fn next_timer(&self) -> Nanos {
        let waiting = self.flow.transport == Transport::Reliable && self.next > self.acked;
        let resend = if waiting { self.progress.saturating_add(self.flow.timeout) } else { NEVER };
        resend.min(self.control.as_ref().and_then(Adapter::next_timeout).unwrap_or(NEVER))
    }

    /// Runs what is due by `now`.
    pub(super) fn run_timers(&mut self, now: Nanos) {
        if let Some(control) = &mut self.control {
            control.handle_timeout(now);
        }
        let waiting = self.flow.transport == Transport::Reliable && self.next > self.acked;
        if waiting && now >= self.progress.saturating_add(self.flow.timeout) {
            self.sent.timeouts += 1;
            self.next = self.acked;
            self.progress = now;
        }
    }

    /// The next frame; call only when [`Sender::ready`].
    pub(super) fn send(&mut self, now: Nanos) -> HeaderFrame {
        let packet = self.next;
        let last = packet + 1 == self.packets;
        let every = u64::from(self.flow.ack_every.max(1));
        let (opcode, ack_req) = match self.flow.transport {
            Transport::Datagram => (Opcode::UC_SEND_ONLY, false),
            Transport::Reliable => {
                let opcode = match (packet == 0, last) {
                    (true, true) => Opcode::RC_SEND_ONLY,
                    (true, false) => Opcode::RC_SEND_FIRST,
                    (false, true) => Opcode::RC_SEND_LAST,
                    (false, false) => Opcode::RC_SEND_MIDDLE,
                };
                (opcode, last || (packet + 1).is_multiple_of(every))
            }
        };
        let mut frame = self.template;
        let payload = self.flow.payload_of(packet);
        frame.set_data(opcode, Psn::new(0).plus(packet), ack_req, payload);
        if self.next == self.acked {
            self.progress = now;
        }
        self.next += 1;
        self.sent.packets += 1;
        self.sent.resent += u64::from(self.next <= self.highest);
        self.highest = self.highest.max(self.next);
        let bytes = wire_bytes(frame.len() as u64);
        // The next frame counts from when this one was due, unless it is more than rounding late.
        let due = self.due_ps();
        let now_ps = now.saturating_mul(1000);
        self.last_ps = if due + 1000 > now_ps { due } else { now_ps };
        self.last_bits = bytes * 8;
        if let Some(control) = &mut self.control {
            control.on_sent(bytes, now);
        }
        frame
    }

    /// An answer or a CNP arrived.
    pub(super) fn on_answer(&mut self, heard: &Heard, now: Nanos) {
        let Some(syndrome) = heard.syndrome else {
            self.sent.cnps += 1;
            if let Some(control) = &mut self.control {
                control.handle_timeout(now);
                control.on_cnp(now);
            }
            return;
        };
        // The packet meant, by its distance from the first one not acknowledged.
        let distance = i64::from(heard.psn.since(Psn::new(0).plus(self.acked)));
        let Some(packet) = self.acked.checked_add_signed(distance) else { return };
        let acked = match syndrome {
            Syndrome::Ack(_) => packet + 1,
            Syndrome::Nak(Nak::Sequence) => packet,
            _ => return,
        };
        if acked > self.highest {
            return;
        }
        if acked > self.acked {
            self.acked = acked;
            self.progress = now;
            self.next = self.next.max(acked);
        }
        if syndrome == Syndrome::Nak(Nak::Sequence) && acked == self.acked {
            self.sent.naks += 1;
            self.next = acked;
            self.progress = now;
        }
    }
}
