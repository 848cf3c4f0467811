//! The sending end of a queue pair of messages that are headers only: go-back-N or selective repeat, paced.

use super::frame::{HeaderFrame, PacketHeaders, Route, Sack};
use super::selective::Repair;
use crate::congestion::telemetry::Stamp;
use crate::congestion::{Ack, Algorithm, CongestionControl};
use crate::dcqcn::firmware::{Dcqcn, DcqcnError, RateController};
use crate::dcqcn::reaction_point::Params;
use crate::dcqcn::scheme::UNLIMITED;
use crate::rc::answer::{Nak, Syndrome};
use crate::rc::flight::Flight;
use crate::rc::psn::Psn;
use crate::roce::qp::TrafficClass;
use crate::roce::shape::Shape;
use crate::roce::wire::Opcode;
use weir_dataplane::frame::Frame;
use weir_dataplane::pfc::NEVER;
use weir_dataplane::types::{Nanos, wire_bytes};

/// How fast a flow sends.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pace {
    /// As fast as the link goes.
    Line,
    /// At this rate on the wire, bits/s.
    Fixed(u64),
    /// As fast as DCQCN allows.
    Dcqcn(Params),
    /// As an adapter does under one of its schemes.
    Scheme {
        /// Rate control.
        dcqcn: Dcqcn,
        /// Packets of a work request: what counts as in flight.
        request: u32,
    },
    /// As an algorithm says that hears of every acknowledgement. Marks come back in those: there are no CNPs.
    Acks(Algorithm),
}

impl Pace {
    /// The rate it has whatever comes back, bits/s on the wire.
    pub(super) fn fixed(&self) -> Option<u64> {
        if let Self::Fixed(rate) = self { Some(*rate) } else { None }
    }

    /// Bytes a frame carries for it, behind its headers.
    pub fn header_bytes(&self) -> u16 {
        if let Self::Acks(algorithm) = self { algorithm.header_bytes() } else { 0 }
    }
}

/// What the receiver says about frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// It takes packets in order and acknowledges; from what is lost on all is sent again (go-back-N).
    Reliable,
    /// It takes packets in any order and says which; what is lost is sent again, and nothing else.
    SelectiveRepeat(SelectiveRepeat),
    /// Nothing: an unreliable connection.
    Unreliable,
}

impl Transport {
    /// It acknowledges.
    pub fn is_reliable(self) -> bool {
        self != Self::Unreliable
    }
}

/// How far packets may be out of order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SelectiveRepeat {
    /// Packets from the oldest one not acknowledged on that may be sent, and that a receiver has room for; 1 to 2^22.
    pub window: u32,
    /// A packet is lost when one sent so many packets after it has arrived, and it has not; at least 1.
    pub reorder_threshold: u32,
    /// Shortest round trip, ns, and what is taken for it as long as none was measured: after two without a word the last packet is sent
    /// again, to learn what is missing.
    pub initial_round_trip: Nanos,
    /// Time that `reorder_threshold` packets take on the line, ns: before that is over, too, no packet of the tail is late.
    pub reorder_time: Nanos,
}

/// One message from one host to another. Both ends hold the same value. What is not of the message alone (from
/// `payload` on, but for `start`) is of the queue pair, and the same for all its messages.
#[derive(Clone, Copy, Debug, PartialEq)]
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
    /// Acknowledgements go in the class of CNPs instead of that of the data.
    pub acks_as_cnps: bool,
    /// Reliability.
    pub transport: Transport,
    /// Pace.
    pub pace: Pace,
    /// The receiver is asked to acknowledge every so many packets, and the last one of a message and of a work
    /// request.
    pub ack_every: u16,
    /// Silence after a packet that asked for an acknowledgement, or after the last progress, before everything
    /// unacknowledged is sent again, ns.
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

    /// Marks of its data.
    pub(super) fn class(&self) -> TrafficClass {
        TrafficClass::of_data(self.dscp, self.priority)
    }
}

/// What a sender has done for a message. Only grows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sent {
    /// Packets handed to the link, again or for the first time.
    pub packets: u64,
    /// Packets sent again.
    pub resent: u64,
    /// Times the timeout struck.
    pub timeouts: u64,
    /// Times the last packet was sent again to ask what had arrived (selective repeat).
    pub probes: u64,
    /// NAKs for a missing packet.
    pub naks: u64,
    /// CNPs.
    pub cnps: u64,
}

/// A message that is sent.
#[derive(Clone, Copy, Debug)]
struct Message {
    flow: Flow,
    /// Number of its first packet, from the first of the queue pair, and the one after its last.
    first: u64,
    end: u64,
    /// Number of its first work request.
    first_request: u64,
    sent: Sent,
}

/// When a sender has something to do if nothing arrives until then; [`NEVER`]: not before something does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Due {
    /// The next frame may go if the link is free, ns.
    pub frame: Nanos,
    /// The same before rounding, ps, and what is left of one, in units of 1 / rate.
    frame_ps: u64,
    rest: u64,
    /// [`Sender::run_timers`] has something to do, ns.
    pub timer: Nanos,
}

/// The sending end. Packets are counted from the first one of the queue pair.
#[derive(Debug)]
pub struct Sender {
    /// `None`: something has changed since it was reckoned.
    due: Option<Due>,
    template: HeaderFrame,
    /// What the template has for a payload, bytes; 0: none yet.
    carried: u16,
    control: Option<Box<dyn CongestionControl>>,
    /// Packets of a work request; 0: nothing counts them.
    request: u64,
    messages: Vec<Message>,
    /// Messages that [`Sender::take_completed`] has named.
    completed: usize,
    /// Packets of all messages.
    packets: u64,
    flight: Flight,
    /// What arrived out of order, and what was lost: of selective repeat.
    repair: Option<Box<Repair>>,
    /// When the last packet was sent, ns.
    sent_at: Nanos,
    /// Departure of the last frame (picoseconds, and of a fixed rate the rest of one in units of 1 / rate) and its bits, from which
    /// the next is due.
    last_ps: u64,
    last_rest: u64,
    last_bits: u64,
    /// The flow whose last packet was the one that was sent last.
    left: Option<u32>,
    /// State of the draws that algorithms take: a linear congruence (Knuth, MMIX) from the number of the flow.
    draws: u64,
}

/// Frames that a flow at a fixed rate makes up for, when others of its adapter or a pause have held it back.
const MADE_UP: u64 = 8;

/// Within so many ps of its time a frame that nothing else holds back leaves: the link is asked at whole ns, and the frame before
/// has left it up to as late.
const ROUNDING_PS: u64 = 2000;

const DRAW_FACTOR: u64 = 6_364_136_223_846_793_005;
const DRAW_STEP: u64 = 1_442_695_040_888_963_407;

impl Sender {
    /// A queue pair that will send `flow`.
    ///
    /// # Errors
    /// DCQCN parameters that contradict one another.
    pub fn new(flow: Flow, route: &Route) -> Result<Self, DcqcnError> {
        let control: Option<Box<dyn CongestionControl>> = match flow.pace {
            Pace::Dcqcn(params) => Some(Box::new(RateController::new(&Dcqcn::plain(params), flow.start)?)),
            Pace::Scheme { dcqcn, .. } => Some(Box::new(RateController::new(&dcqcn, flow.start)?)),
            Pace::Acks(algorithm) => Some(algorithm.controller()),
            Pace::Line | Pace::Fixed(_) => None,
        };
        let request =
            if let Pace::Scheme { request, .. } = flow.pace { u64::from(request.max(1)) } else { 0 };
        let repair = match flow.transport {
            Transport::SelectiveRepeat(config) => Some(Box::new(Repair::new(config))),
            Transport::Reliable | Transport::Unreliable => None,
        };
        let mut sender = Self {
            due: None,
            repair,
            template: route.data(flow.class()),
            carried: 0,
            control,
            request,
            messages: Vec::with_capacity(1),
            completed: 0,
            packets: 0,
            flight: Flight::new(Psn::default()),
            sent_at: 0,
            last_ps: 0,
            last_rest: 0,
            last_bits: 0,
            left: None,
            draws: u64::from(flow.id),
        };
        sender.append(flow);
        Ok(sender)
    }

    /// One more message behind the others. The rate is what congestion has made of it.
    pub fn append(&mut self, flow: Flow) {
        self.due = None;
        let first_request = self.messages.last().map_or(0, |m| {
            if self.request == 0 { 0 } else { m.first_request + (m.end - m.first).div_ceil(self.request) }
        });
        let (first, end) = (self.packets, self.packets + flow.packets());
        self.messages.push(Message { flow, first, end, first_request, sent: Sent::default() });
        self.packets = end;
    }

    /// What the queue pair is: the flow it was made for.
    pub fn flow(&self) -> &Flow {
        &self.messages[0].flow
    }

    /// What it has done for message `nth`.
    pub fn sent(&self, nth: usize) -> &Sent {
        &self.messages[nth].sent
    }

    /// Every packet of message `nth` has been sent, lost or not.
    pub fn has_sent(&self, nth: usize) -> bool {
        self.messages[nth].end <= self.flight.sent_end()
    }

    /// Rate it may send at now, bits/s; `None`: whatever the link does.
    pub fn rate(&self) -> Option<u64> {
        match self.flow().pace {
            Pace::Line => None,
            Pace::Fixed(rate) => Some(rate.max(1)),
            Pace::Dcqcn(_) | Pace::Scheme { .. } | Pace::Acks(_) => {
                self.control.as_ref().map(|control| control.permit().rate_bps)
            }
        }
    }

    /// The adapter that says how fast it may send; `None`: another algorithm does, or none.
    pub fn rate_controller(&self) -> Option<&RateController> {
        self.control.as_ref()?.rate_controller()
    }

    /// The same, to be changed.
    pub(super) fn rate_controller_mut(&mut self) -> Option<&mut RateController> {
        self.due = None;
        self.control.as_mut()?.rate_controller_mut()
    }

    /// Nothing remains to be done.
    pub fn is_done(&self) -> bool {
        match self.flow().transport {
            Transport::Reliable | Transport::SelectiveRepeat(_) => self.flight.una() == self.packets,
            Transport::Unreliable => self.flight.next() == self.packets,
        }
    }

    /// The flow of the next message that is complete, each once: all of it is acknowledged or, of datagrams, sent.
    pub(super) fn take_completed(&mut self) -> Option<u32> {
        let Message { flow, end, .. } = self.messages.get(self.completed)?;
        let upto = if flow.transport.is_reliable() { self.flight.una() } else { self.flight.next() };
        let complete = *end <= upto;
        self.completed += usize::from(complete);
        complete.then_some(flow.id)
    }

    /// The message packet `number` belongs to; the last one behind its end.
    fn of(&self, number: u64) -> usize {
        self.messages.partition_point(|m| m.first <= number) - 1
    }

    /// The message whose packet is the oldest one not acknowledged.
    fn oldest(&mut self) -> &mut Sent {
        let at = self.of(self.flight.una());
        &mut self.messages[at].sent
    }

    /// When packet `number` is due, ps, and the rest of one.
    fn due_ps(&self, number: u64) -> (u64, u64) {
        // Bits are below 2^19, and the rest is below the rate.
        let (gap, rest) = self.rate().map_or((0, 0), |rate| {
            let span = self.last_bits * 1_000_000_000_000 + self.last_rest;
            (span / rate, span % rate)
        });
        let start = self.messages[self.of(number)].flow.start.saturating_mul(1000);
        (self.last_ps.saturating_add(gap), rest).max((start, 0))
    }

    /// When it has something to do. Reckoned once for all who ask before something changes.
    #[inline]
    pub(super) fn due(&mut self) -> Due {
        debug_assert!(self.due.is_none_or(|due| due == self.reckon_due()), "it was not told of a change");
        match self.due {
            Some(due) => due,
            None => *self.due.insert(self.reckon_due()),
        }
    }

    fn reckon_due(&self) -> Due {
        let number = match self.lost() {
            // What was lost is in flight no longer, and its work request is under way.
            Some(lost) if self.is_window_open() || !self.flight.has_asked() => Some(lost),
            None if self.flight.next() < self.packets && self.is_admitted() => Some(self.flight.next()),
            _ => None,
        };
        let (frame_ps, rest) = number.map_or((NEVER, 0), |number| self.due_ps(number));
        let frame = if number.is_some() {
            frame_ps.saturating_add(u64::from(rest > 0)).div_ceil(1000)
        } else {
            NEVER
        };
        Due { frame, frame_ps, rest, timer: self.next_timer() }
    }

    /// The packet that selective repeat sends again before all others.
    fn lost(&self) -> Option<u64> {
        self.repair.as_ref()?.first_lost()
    }

    /// Packets sent from the oldest one on that is not acknowledged.
    fn outstanding(&self) -> u64 {
        self.flight.next() - self.flight.una()
    }

    /// Packets in flight.
    fn in_flight(&self) -> u64 {
        match &self.repair {
            None => self.outstanding(),
            Some(repair) => self.flight.next().saturating_sub(repair.delivered + repair.lost()),
        }
    }

    /// The work request of packet `number`, from the first of the queue pair.
    fn request_of(&self, number: u64) -> u64 {
        let m = &self.messages[self.of(number)];
        m.first_request + (number - m.first) / self.request
    }

    /// The next packet may be in flight, and its work request.
    fn is_admitted(&self) -> bool {
        if self.repair.as_ref().is_some_and(|repair| self.outstanding() >= repair.window()) {
            return false;
        }
        if let Pace::Acks(_) = self.flow().pace {
            // A window that shrank below what is in flight could leave nobody who asks: then one goes that does.
            return self.is_window_open() || !self.flight.has_asked();
        }
        if self.request == 0 {
            return true;
        }
        match self.control.as_ref().map_or(UNLIMITED, |control| control.permit().requests) {
            UNLIMITED => true,
            limit => {
                let oldest = self.request_of(self.flight.una());
                self.request_of(self.flight.next()) - oldest < u64::from(limit)
            }
        }
    }

    /// Less is in flight than the algorithm allows.
    fn is_window_open(&self) -> bool {
        let window = self.control.as_ref().map_or(u64::MAX, |control| control.permit().window);
        self.in_flight() * u64::from(self.flow().payload) < window
    }

    /// When [`Sender::run_timers`] has something to do.
    fn next_timer(&self) -> Nanos {
        let control = self.control.as_ref().and_then(|control| control.next_timer()).unwrap_or(NEVER);
        self.flight.deadline().min(control).min(self.tail_probe())
    }

    /// When the last packet is sent again to ask what has arrived; [`NEVER`]: others are still to be sent, or none has to.
    fn tail_probe(&self) -> Nanos {
        let waits = self.flight.next() == self.packets && self.flight.una() < self.packets;
        let repair = self.repair.as_ref().filter(|_| waits);
        repair.and_then(|repair| repair.tail_probe(self.flight.sent_end(), self.sent_at)).unwrap_or(NEVER)
    }

    /// Runs what is due by `now`.
    pub(super) fn run_timers(&mut self, now: Nanos) {
        self.due = None;
        if let Some(control) = &mut self.control {
            control.run_timers(now);
        }
        if now >= self.flight.deadline() {
            self.oldest().timeouts += 1;
            match &mut self.repair {
                None => self.flight.step_back(),
                Some(repair) => {
                    repair.timeout(self.flight.una(), self.flight.sent_end());
                    self.flight.forget_asked();
                    self.flight.stop_clock();
                }
            }
            if let Some(control) = &mut self.control {
                control.on_timeout(now);
            }
        }
        if now >= self.tail_probe()
            && let Some(repair) = &mut self.repair
        {
            repair.probe_tail(self.flight.sent_end(), now);
            // It goes whatever the window is, and asks.
            self.flight.forget_asked();
            self.oldest().probes += 1;
        }
    }

    fn on_loss(&mut self, now: Nanos) {
        if let Some(control) = &mut self.control {
            control.on_loss(now);
        }
    }

    /// The flow whose last packet was the one that was sent last, if it was one.
    #[inline]
    pub(super) fn left(&self) -> Option<u32> {
        self.left
    }

    /// The next frame; call only when it is due.
    pub(super) fn send(&mut self, now: Nanos) -> HeaderFrame {
        let Due { frame_ps: due, rest, .. } = self.due();
        self.due = None;
        let lost = self.lost();
        let number = lost.unwrap_or(self.flight.next());
        let at = self.of(number);
        let Message { flow, first, end, .. } = self.messages[at];
        let packet = number - first;
        let last = number + 1 == end;
        let (opcode, ack_req) = match flow.transport {
            Transport::Unreliable => (Opcode::UC_SEND_ONLY, false),
            Transport::Reliable | Transport::SelectiveRepeat(_) => {
                let opcode = Shape { first: packet == 0, last, write: false }.opcode(false);
                // The last packet of a work request asks, like that of a verb: else what is in flight could reach
                // its limit while nobody has been asked, and nothing would ever leave again.
                let every = u64::from(flow.ack_every.max(1));
                let ends_request = self.request > 0 && (packet + 1).is_multiple_of(self.request);
                (opcode, last || ends_request || (packet + 1).is_multiple_of(every))
            }
        };
        // Nearly all have the same length, and what follows from that is there.
        let carried = flow.payload_of(packet) + flow.pace.header_bytes();
        if carried != self.carried {
            self.carried = carried;
            self.template.set_payload(carried);
        }
        let mut frame = self.template;
        let psn = self.flight.psn(number);
        let again = lost.is_some() || self.flight.sent();
        // So do the last one a window admits, and the last one of those that are sent again.
        let mut ack_req = ack_req || (matches!(flow.pace, Pace::Acks(_)) && !self.is_window_open());
        if let Some(repair) = &mut self.repair {
            if lost.is_some() {
                repair.sent_again(number, self.flight.sent_end());
                ack_req |= repair.lost() == 0;
            }
            ack_req |= self.flight.next() - self.flight.una() >= repair.window();
            if ack_req && !again {
                repair.asks(number, now);
            }
        }
        frame.set_data(opcode, psn, ack_req);
        self.sent_at = now;
        self.left = last.then_some(flow.id);
        let sent = &mut self.messages[at].sent;
        sent.packets += 1;
        sent.resent += u64::from(again);
        if ack_req {
            self.flight.asks(number, now.saturating_add(flow.timeout));
        }
        let len = frame.len() as u64;
        self.last_bits = wire_bytes(len) * 8;
        // The next frame counts from when this one was due, unless it is too late for that: at a fixed rate by as many frames as a
        // flow makes up for, else by more than rounding. Rates of algorithms change: of these no rest is kept.
        let now_ps = now.saturating_mul(1000);
        (self.last_ps, self.last_rest) = match flow.pace {
            Pace::Fixed(rate) => {
                let latest =
                    now_ps.saturating_sub(MADE_UP * self.last_bits * 1_000_000_000_000 / rate.max(1));
                (due, rest).max((latest, 0))
            }
            _ if due.saturating_add(ROUNDING_PS) > now_ps => (due, 0),
            _ => (now_ps, 0),
        };
        if let Some(control) = &mut self.control {
            control.on_sent(len, now);
        }
        frame
    }

    /// An answer or a CNP arrived, in the frame `bytes`. `true`: it has nothing to do sooner than it said before that.
    #[must_use]
    pub(super) fn on_answer(
        &mut self,
        headers: &PacketHeaders,
        bytes: &[u8],
        stamp: Option<&Stamp>,
        now: Nanos,
    ) -> bool {
        let before = (self.due.take(), self.flight.next());
        self.hear(headers, bytes, stamp, now);
        // What limits how much is in flight, and what was lost, may let it go on; an acknowledgement does nothing else for it than
        // to put off a timer.
        let limited = self.repair.is_some() || self.request > 0 || matches!(self.flow().pace, Pace::Acks(_));
        match before {
            (Some(due), next)
                if !limited
                    && next == self.flight.next()
                    && matches!(headers.syndrome, Some(Syndrome::Ack(_))) =>
            {
                self.due = Some(Due { timer: self.next_timer(), ..due });
                true
            }
            _ => false,
        }
    }

    fn hear(&mut self, headers: &PacketHeaders, bytes: &[u8], stamp: Option<&Stamp>, now: Nanos) {
        let Some(syndrome) = headers.syndrome else {
            self.oldest().cnps += 1;
            if let Some(control) = &mut self.control {
                control.on_cnp(now);
            }
            return;
        };
        let expected = match syndrome {
            Syndrome::Ack(_) => headers.psn.plus(1),
            Syndrome::Nak(Nak::Sequence) => headers.psn,
            _ => return,
        };
        let sent_end = self.flight.sent_end();
        let Some(acked) = self.flight.number(expected).filter(|acked| *acked <= sent_end) else { return };
        let revealed = match &mut self.repair {
            None => 0,
            Some(repair) => {
                // An answer that speaks of what was never sent is none.
                let Some(sack) = Sack::read(bytes) else { return };
                let reach = acked.checked_add_signed(sack.end.since(expected).into());
                let Some(reach) = reach.filter(|reach| (acked..=sent_end).contains(reach)) else { return };
                if u64::from(sack.beyond) > reach - acked {
                    return;
                }
                repair.answer(acked, (reach, sent_end), &sack, now)
            }
        };
        let timeout = self.flow().timeout;
        self.flight.advance(acked, now.saturating_add(timeout));
        if syndrome == Syndrome::Nak(Nak::Sequence) && acked == self.flight.una() && self.repair.is_none() {
            self.oldest().naks += 1;
            self.flight.step_back();
            self.on_loss(now);
        }
        (0..revealed).for_each(|_| self.on_loss(now));
        let (delivered, next) = match &self.repair {
            None => (acked, self.flight.next()),
            Some(repair) => (repair.delivered, repair.delivered + self.in_flight()),
        };
        if let (Some(control), Some(stamp)) = (&mut self.control, stamp) {
            let payload = u64::from(self.messages[0].flow.payload);
            self.draws = self.draws.wrapping_mul(DRAW_FACTOR).wrapping_add(DRAW_STEP);
            control.on_ack(&Ack {
                now,
                acked: delivered * payload,
                next: next * payload,
                rtt: now.saturating_sub(stamp.sent),
                marks: stamp.marks,
                hops: stamp.hops(),
                power: stamp.power(),
                draw: (self.draws >> 33) as u32,
            });
        }
    }
}
