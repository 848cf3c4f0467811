//! The same flows over RC Link: a NIC whose frames are those of [`crate::rclink`], headers and a length.
//!
//! A flow is a row of messages of one frame each, over a queue pair of its own or that of the flow before it. The payload is
//! zeros that are never carried; so there is no CRC. Of a credit message the counts are within the headers that are. Flows of
//! multicast messages and of raw frames have no queue pair ([`Datagram`]).

mod datagrams;
mod pauses;
mod starts;

pub use datagrams::Datagram;
pub use pauses::HeldBack;

use super::frame::HeaderFrame;
use super::messages::{Arrival, Incoming, Received};
use super::nic::NicReport;
use super::sender::{Flow, Sent};
use crate::congestion::backoff::{Backoff, BackoffError, BackoffParams};
use crate::rclink::Reliability;
use crate::rclink::cc_window::{MAX_LENGTH_THR, Window};
use crate::rclink::class::{Class, ClassMap};
use crate::rclink::endpoint::{self, Endpoint, EndpointConfig, EndpointError, Event, FlowControl};
use crate::rclink::frame::{Body, Codec, MAX_PAYLOAD, Station};
use crate::rclink::rh::{MAX_QP, MAX_WINDOW, Opcode, Psn, Rh};
use crate::rclink::watermark::PauseWatermarks;
use crate::timetable::Times;
use crate::traffic::Clock;
use datagrams::Datagrams;
use pauses::Pauses;
use starts::Starts;
use std::collections::VecDeque;
use thiserror::Error;
use weir_dataplane::frame::Frame;
use weir_dataplane::pfc::NEVER;
use weir_dataplane::types::{Nanos, PRIORITIES};

/// Number of the first sender that has no queue pair; of a receiver the flow that messages name is added to it.
const FIRST_DATAGRAM: usize = MAX_QP as usize + 1;
/// Who has read nothing for so many round trips waits for more than what is under way.
const STILL: Nanos = 100;
/// Raises from nothing to the full rate.
const STEPS: u32 = 100;

/// What a NIC is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RcLinkNicConfig {
    /// Format of its frames, without CRC. The frames of Lite say of no queue pair: there is one for each peer and priority.
    pub codec: Codec,
    /// Priority, or virtual channel, of each class.
    pub classes: ClassMap,
    /// Its addresses.
    pub station: Station,
    /// Rate of its link, bits/s.
    pub rate: u64,
    /// Pauses that it obeys, and sends when a receive memory fills; or credits.
    pub flow_control: FlowControl,
    /// Messages are read this fast at most, bits/s of frames with gaps; `None`: as they come.
    pub read_rate: Option<u64>,
    /// What the receive memories have room for after a pause was asked for, ns. With credits a memory is what they are
    /// worth.
    pub round_trip: Nanos,
    /// Go-back-N; without it everything is sent once.
    pub retransmit: bool,
    /// Packets in flight.
    pub window: u16,
    /// Bytes are counted per such window.
    pub cc_window: Window,
    /// CNPs of one flow at most so far apart are one, ns.
    pub cnp_merge: Nanos,
    /// A flow that backs off halves its rate once per such time, ns, whatever CNPs come,
    pub cut_period: Nanos,
    /// and raises it by a hundredth after each such time without a cut, ns.
    pub raise_period: Nanos,
}

/// Why a flow is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum RcLinkNicError {
    /// The endpoint.
    #[error(transparent)]
    Endpoint(#[from] EndpointError),
    /// The back-off.
    #[error(transparent)]
    Backoff(#[from] BackoffError),
}

/// A flow that is sent.
#[derive(Clone, Copy, Debug)]
struct Outgoing {
    flow: Flow,
    posted: u64,
    /// Packets of it that the peer has acknowledged.
    acknowledged: u64,
    /// What the queue pair had done before this flow began.
    before: Sent,
    /// Answers: as many messages as have been read there may be. `None`: it answers nobody.
    asked: Option<u64>,
}

impl Outgoing {
    fn is_due(&self, now: Nanos) -> bool {
        self.flow.start <= now && self.asked.is_none_or(|asked| self.posted < asked)
    }
}

/// What an end of a queue pair does.
#[derive(Clone, Debug)]
enum Role {
    Sends {
        flows: Vec<Outgoing>,
        /// The first flow with packets that are not posted, and the first one with packets that are not acknowledged.
        unposted: usize,
        unacknowledged: usize,
        sent: Sent,
        backoff: Option<Backoff>,
    },
    Receives {
        incoming: Incoming,
        /// After the last packet that came, and the numbers of those that came and were not read: where nobody sends again
        /// there are gaps.
        arrived: u64,
        unread: VecDeque<u64>,
        /// The last packet that came marked: what the next CNP is sent for.
        marked: u64,
        /// The sending end that answers each message with one of its own: only what can be answered is read.
        answers: Option<usize>,
    },
}

/// Requests that fill the memory of a NIC until it can queue responses, of which as many as may be are under way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unanswered {
    /// Flows of the responses.
    pub responses: Vec<u32>,
    /// Priority of responses.
    pub channel: u8,
    /// Priorities that the requests have paused, or of whose credits they have taken, one bit each.
    pub holds: u8,
}

/// How long each channel has waited for credits.
#[derive(Clone, Copy, Debug, Default)]
struct CreditWait {
    total: [Nanos; PRIORITIES],
    waiting: u8,
    since: Nanos,
}

impl CreditWait {
    /// From `now` on the channels in `waiting` wait.
    fn note(&mut self, waiting: u8, now: Nanos) {
        let past = now.saturating_sub(self.since);
        for channel in (0..PRIORITIES).filter(|channel| self.waiting >> channel & 1 == 1) {
            self.total[channel] += past;
        }
        (self.waiting, self.since) = (waiting, now);
    }
}

/// Whether what the receiving end `at` reads can be answered at once: an answer that was asked for and has no room yet waits.
fn can_answer(ends: &[Role], at: usize) -> bool {
    match ends.get(at) {
        Some(Role::Receives { answers: Some(answers), .. }) => match &ends[*answers] {
            Role::Sends { flows, .. } => {
                flows.iter().all(|out| out.asked.is_none_or(|asked| asked == out.posted))
            }
            Role::Receives { .. } => true,
        },
        _ => true,
    }
}

/// Whether an event is for the reader and could be read at once if it were its turn.
fn is_readable(ends: &[Role], event: &Event) -> bool {
    match event {
        Event::Received { qp, .. } => can_answer(ends, usize::from(*qp)),
        Event::Multicast { .. } | Event::Raw(_) => true,
        Event::Acknowledged { .. } | Event::Cnp(_) | Event::Failed(_) => false,
    }
}

impl Role {
    /// The flow whose next packet is to be posted.
    fn next(&mut self) -> Option<&mut Outgoing> {
        let Self::Sends { flows, unposted, .. } = self else { return None };
        let of_rest = flows.iter().skip(*unposted);
        *unposted += of_rest.take_while(|out| out.posted == out.flow.packets()).count();
        flows.get_mut(*unposted)
    }

    /// The same at `now`.
    fn open(&mut self, now: Nanos) -> Option<&mut Outgoing> {
        self.next().filter(|out| out.is_due(now))
    }

    fn backoff(&mut self) -> Option<&mut Backoff> {
        if let Self::Sends { backoff, .. } = self { backoff.as_mut() } else { None }
    }
}

/// A NIC. Queue pair numbers are indices, for both ends of flows.
#[derive(Debug)]
pub struct RcLinkNic {
    config: RcLinkNicConfig,
    endpoint: Endpoint,
    ends: Vec<Role>,
    /// Sending ends that may have something to post, and when each back-off has something to do.
    starts: Starts,
    backoffs: Times,
    datagrams: Datagrams,
    reader: Option<Clock>,
    /// Time the longest frame takes on the line, ns.
    lag: Nanos,
    credit_wait: CreditWait,
    memory_peak: u64,
    /// When it has held its link partner back.
    held_back: Pauses,
    /// When a message was read last.
    last_read: Nanos,
    /// Flows that are complete at their sender, until somebody asks.
    completed: VecDeque<u32>,
    /// A frame with its payload.
    scratch: Vec<u8>,
}

impl RcLinkNic {
    /// A NIC without flows.
    ///
    /// # Errors
    /// What does not fit.
    pub fn new(config: RcLinkNicConfig) -> Result<Self, RcLinkNicError> {
        let (unicast, multicast) = match config.flow_control {
            FlowControl::Pfc { .. } => (
                PauseWatermarks::unicast(config.rate, config.round_trip),
                PauseWatermarks::multicast(config.rate, config.round_trip),
            ),
            // What a peer may send is bounded by its credits, whoever else sends.
            FlowControl::Cbfc { .. } => {
                let marks = PauseWatermarks { high: u64::MAX, low: 0, capacity: u64::MAX };
                (marks, marks)
            }
        };
        let endpoint = Endpoint::new(EndpointConfig {
            codec: config.codec,
            station: config.station,
            vlan: Some(0),
            classes: config.classes,
            flow_control: config.flow_control,
            rate: config.rate,
            request: unicast,
            response: unicast,
            multicast,
            cnp_merge: config.cnp_merge,
            ecn: true,
            retransmit: config.retransmit,
        })?;
        Ok(Self {
            config,
            endpoint,
            ends: Vec::new(),
            starts: Starts::default(),
            backoffs: Times::default(),
            datagrams: Datagrams::default(),
            lag: 8_000_000_000 * (MAX_PAYLOAD as u64 + 100) / config.rate.max(1),
            reader: config.read_rate.map(|rate| Clock::new(rate, 0)),
            credit_wait: CreditWait::default(),
            memory_peak: 0,
            held_back: Pauses::default(),
            last_read: 0,
            completed: VecDeque::new(),
            scratch: Vec::new(),
        })
    }

    /// Number the next sender of datagrams will have.
    pub fn next_datagram(&self) -> u32 {
        (FIRST_DATAGRAM + self.datagrams.next()) as u32
    }

    /// Number of the receiver of the datagrams that their sender knows as flow `sent_as`.
    pub fn datagram_receiver(sent_as: u32) -> u32 {
        FIRST_DATAGRAM as u32 + sent_as
    }

    /// This NIC sends a flow to a group, or in raw frames to a station.
    pub fn send_datagrams(&mut self, flow: Flow, kind: Datagram, to: Station) {
        self.datagrams.send(flow, kind, to);
    }

    /// It receives such a flow, which its sender knows as flow `sent_as`: another one, where several hear a group.
    pub fn expect_datagrams(&mut self, flow: Flow, sent_as: u32) {
        self.datagrams.expect(flow, sent_as);
    }

    /// Adds an end of a queue pair of this class, whose flows will be like `flow`: this NIC sends, or its peer, whose end has the
    /// number `peer_end`. Ends are numbered from 0, in the order they are added. `backs_off`: CNPs slow it down.
    ///
    /// # Errors
    /// What does not fit.
    pub fn connect(
        &mut self,
        flow: &Flow,
        peer: Station,
        peer_end: u32,
        class: Class,
        sends: bool,
        backs_off: bool,
    ) -> Result<(), RcLinkNicError> {
        let rate = flow.pace.fixed().map_or(self.config.rate, |rate| rate.min(self.config.rate));
        let length_thr = self.config.cc_window.bytes(rate).min(MAX_LENGTH_THR);
        let window = self.config.window.clamp(1, MAX_WINDOW);
        self.endpoint.create_qp(endpoint::QpConfig {
            peer,
            peer_qp: u16::try_from(peer_end).unwrap_or(u16::MAX),
            class,
            pkey: 0,
            depth: usize::from(window),
            reliability: Reliability {
                window,
                ack_every: flow.ack_every,
                ack_timeout: flow.timeout,
                retries: u8::MAX,
            },
            window: self.config.cc_window,
            length_thr,
            slack: 0,
        })?;
        let step = (length_thr / STEPS).max(1);
        let params = BackoffParams {
            least: step.into(),
            cut_period: self.config.cut_period,
            raise_period: self.config.raise_period,
            raise: step.into(),
        };
        let backoff = backs_off.then(|| Backoff::new(params, length_thr.into())).transpose()?;
        self.backoffs.make_room(self.ends.len() + 1);
        self.ends.push(match sends {
            true => Role::Sends {
                flows: Vec::new(),
                unposted: 0,
                unacknowledged: 0,
                sent: Sent::default(),
                backoff,
            },
            false => Role::Receives {
                incoming: Incoming::default(),
                arrived: 0,
                unread: VecDeque::new(),
                marked: 0,
                answers: None,
            },
        });
        Ok(())
    }

    /// From now on every message read by the receiving end `request` is answered with one of the sending end
    /// `response`, which sends no others; a message is read when its answer can be queued.
    pub fn answer(&mut self, request: u32, response: u32) {
        if let Some(Role::Sends { flows, .. }) = self.ends.get_mut(response as usize) {
            flows.iter_mut().for_each(|out| out.asked = Some(0));
            self.starts.change(response);
        }
        if let Some(Role::Receives { answers, .. }) = self.ends.get_mut(request as usize) {
            *answers = Some(response as usize);
        }
    }

    /// A flow over the queue pair of end `at`, behind the others.
    pub fn add(&mut self, at: u32, flow: Flow) {
        let before = self.sent_so_far(at as usize);
        match &mut self.ends[at as usize] {
            Role::Sends { flows, .. } => {
                flows.push(Outgoing { flow, posted: 0, acknowledged: 0, before, asked: None });
                self.starts.change(at);
            }
            Role::Receives { incoming, .. } => incoming.append(flow),
        }
    }

    /// What the queue pair of the sending end `at` has done.
    fn sent_so_far(&self, at: usize) -> Sent {
        let counters = self.endpoint.qp_counters(at as u16).unwrap_or_default();
        let Role::Sends { sent, .. } = &self.ends[at] else { return Sent::default() };
        Sent { resent: counters.tx_retransmitted, timeouts: counters.timeouts, ..*sent }
    }

    /// What the sending end `at` has done from the start of its flow `nth` to that of the next.
    pub fn sent(&self, at: usize, nth: usize) -> Sent {
        if let Some(at) = at.checked_sub(FIRST_DATAGRAM) {
            return self.datagrams.sent(at).0;
        }
        let Role::Sends { flows, .. } = &self.ends[at] else { return Sent::default() };
        let from = flows[nth].before;
        let to = flows.get(nth + 1).map_or_else(|| self.sent_so_far(at), |next| next.before);
        Sent {
            packets: to.packets - from.packets,
            resent: to.resent - from.resent,
            timeouts: to.timeouts - from.timeouts,
            probes: 0,
            naks: to.naks - from.naks,
            cnps: to.cnps - from.cnps,
        }
    }

    /// What the receiving end `at` has seen of its flow `nth`.
    pub fn received(&self, at: usize, nth: usize) -> Received {
        if let Some(at) = at.checked_sub(FIRST_DATAGRAM) {
            return self.datagrams.received(at as u32);
        }
        match &self.ends[at] {
            Role::Receives { incoming, .. } => *incoming.received(nth),
            Role::Sends { .. } => Received::default(),
        }
    }

    /// The sending end `at` has handed every packet of its flow `nth` to the endpoint.
    pub fn has_sent(&self, at: usize, nth: usize) -> bool {
        if let Some(at) = at.checked_sub(FIRST_DATAGRAM) {
            return self.datagrams.has_sent(at);
        }
        let Role::Sends { flows, .. } = &self.ends[at] else { return false };
        flows.get(nth).is_some_and(|out| out.posted == out.flow.packets())
    }

    /// What the receiving end `at` has seen of its flow `nth`, if the rest has yet to come over the line; `None`: it does not expect
    /// that flow yet, or messages may wait to be read, or be lost for good.
    pub fn has_received(&self, at: usize, nth: usize) -> Option<&Received> {
        if self.reader.is_some() || !self.endpoint.is_reliable() {
            return None;
        }
        let Role::Receives { incoming, answers: None, .. } = self.ends.get(at)? else { return None };
        incoming.has_received(nth)
    }

    /// Rate the sending end `at` may send at, bits/s; `None`: as fast as the line.
    pub fn rate(&self, at: usize) -> Option<u64> {
        if let Some(at) = at.checked_sub(FIRST_DATAGRAM) {
            return self.datagrams.sent(at).1;
        }
        self.endpoint.rate(u16::try_from(at).ok()?)
    }

    /// What the NIC saw until `now`.
    pub fn report(&self, now: Nanos) -> NicReport {
        let (reaction, counters) = (self.endpoint.reaction(), self.endpoint.counters());
        NicReport {
            paused_ns: std::array::from_fn(|p| reaction.paused_ns(p, now)),
            pauses: std::array::from_fn::<_, PRIORITIES, _>(|p| reaction.transitions(p)),
            pfc_frames: reaction.counters().pfc_frames,
            pfc_sent: counters.tx_pfc,
            memory_peak: self.memory_peak,
            no_room: counters.rx_no_room,
            credit_wait_ns: {
                let mut wait = self.credit_wait;
                wait.note(0, now);
                wait.total
            },
            unexpected: counters.rx_unknown + counters.rx_malformed + self.datagrams.unexpected,
        }
    }

    /// When it has held its link partner back until `now`, and how many more times there were than are kept.
    pub fn held_back(&self, now: Nanos) -> (Vec<HeldBack>, u64) {
        self.held_back.until(now)
    }

    /// Requests that fill the memory at `now` and none of which can be read, since responses to them cannot be queued, for so long that
    /// no acknowledgement is on its way; `None`: something can.
    pub fn unanswered(&self, now: Nanos) -> Option<Unanswered> {
        let channel = self.config.classes.of(Class::Response);
        let endpoint = &self.endpoint;
        let holds = endpoint.held_by_unread();
        let lately = now.saturating_sub(self.last_read) < STILL.saturating_mul(self.config.round_trip);
        let has_credits = match self.config.flow_control {
            FlowControl::Pfc { .. } => false,
            FlowControl::Cbfc { .. } => endpoint.credit_wait() >> channel & 1 == 0,
        };
        if holds == 0
            || has_credits
            || lately
            || endpoint.unread().any(|qp| can_answer(&self.ends, qp.into()))
        {
            return None;
        }
        let response = |qp: u16| match self.ends.get(usize::from(qp)) {
            Some(Role::Receives { answers, .. }) => *answers,
            _ => None,
        };
        let mut ends: Vec<usize> = endpoint.unread().filter_map(response).collect();
        ends.sort_unstable();
        ends.dedup();
        let flows = ends.into_iter().filter_map(|at| match &self.ends[at] {
            Role::Sends { flows, .. } => Some(flows.iter().filter(|out| out.asked > Some(out.posted))),
            Role::Receives { .. } => None,
        });
        Some(Unanswered { responses: flows.flatten().map(|out| out.flow.id).collect(), channel, holds })
    }

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
        if let Ok(crate::rclink::frame::Frame { body: Body::Type1(rh, _), ce, .. }) =
            self.config.codec.read(&bytes)
        {
            self.account(&rh, ce, &before);
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

    /// What a frame meant to the end it was for.
    fn account(&mut self, rh: &Rh, ce: bool, before: &endpoint::Counters) {
        let after = *self.endpoint.counters();
        if after.rx_unknown > before.rx_unknown {
            return;
        }
        match (rh.opcode, self.ends.get_mut(usize::from(rh.dest_qp))) {
            (Opcode::Send, Some(Role::Receives { incoming, arrived, unread, marked, .. })) => {
                let number =
                    arrived.saturating_add_signed(rh.psn.since(Psn::default().plus(*arrived)).into());
                if ce {
                    incoming.seen(number).marked += 1;
                    *marked = number;
                }
                if after.rx_data > before.rx_data {
                    unread.push_back(number);
                    *arrived = number + 1;
                } else {
                    incoming.seen(number).useless += 1;
                }
            }
            (Opcode::Cnp, Some(Role::Sends { sent, .. })) => sent.cnps += 1,
            (Opcode::Ack, Some(Role::Sends { sent, .. })) => {
                sent.naks += u64::from(rh.length_or_syndrome == 1);
                self.starts.change(rh.dest_qp.into());
            }
            _ => {}
        }
    }

    /// Notes what has changed for channels that wait for credits.
    fn note_credits(&mut self, now: Nanos) {
        if let FlowControl::Cbfc { .. } = self.config.flow_control {
            self.credit_wait.note(self.endpoint.credit_wait(), now);
        }
    }

    /// The next event that may be read: of messages those whose turn it is at the rate of the reader, and whose answer
    /// can be queued.
    fn next_event(&mut self, now: Nanos) -> Option<Event> {
        let Self { endpoint, ends, reader, .. } = self;
        let reads = reader.is_none_or(|reader| reader.ready() <= now);
        endpoint.poll_event_if(now, |event| match event {
            Event::Acknowledged { .. } | Event::Cnp(_) | Event::Failed(_) => true,
            read => reads && is_readable(ends, read),
        })
    }

    /// To be asked before anything may become readable at `now`: time in which there was nothing to read is not made up for. Where
    /// there was something it may be read up to a frame late, as the line may be busy, and that is.
    fn idle_until(&mut self, now: Nanos) {
        let Self { endpoint, ends, reader, .. } = self;
        if let Some(reader) = reader
            && !endpoint.events().any(|event| is_readable(ends, event))
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
                    let (ended, bytes) = match unread.pop_front() {
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
                    self.back_off(qp.into(), |backoff| backoff.on_cnp(now));
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

    fn run(&mut self, now: Nanos) {
        self.idle_until(now);
        self.endpoint.handle_timeout(now);
        let mut from = 0;
        while let Some(at) = self.backoffs.first(from, now) {
            self.back_off(at, |backoff| backoff.handle_timeout(now));
            from = at + 1;
        }
        self.post(now);
    }

    /// Something happens to the back-off of an end, if it has one.
    fn back_off(&mut self, at: usize, happens: impl FnOnce(&mut Backoff)) {
        let Some(backoff) = self.ends[at].backoff() else { return };
        happens(backoff);
        self.backoffs.set(at, backoff.next_timeout().unwrap_or(NEVER));
        // Between two thresholds that were accepted.
        let _ = self.endpoint.set_threshold(at as u16, backoff.rate() as u32);
    }

    /// Queues what may be sent, as far as there is room.
    fn post(&mut self, now: Nanos) {
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
            if self.endpoint.post(qp, vec![0; len as usize]).is_err() {
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

    /// The next frame to put on the wire at `now`. It counts as sent: call only when the link is free.
    pub fn poll_transmit(&mut self, now: Nanos) -> Option<HeaderFrame> {
        self.run(now);
        let kind = self.endpoint.poll_transmit(now).map(|frame| frame.kind);
        self.note_credits(now);
        match kind? {
            endpoint::Sent::Data(qp) => {
                if let Role::Sends { sent, .. } = &mut self.ends[usize::from(qp)] {
                    sent.packets += 1;
                }
                // It has left its queue.
                if !self.endpoint.is_reliable() {
                    self.starts.change(qp.into());
                }
            }
            endpoint::Sent::Multicast => self.completed.extend(self.datagrams.left(Datagram::Multicast)),
            endpoint::Sent::Raw => self.completed.extend(self.datagrams.left(Datagram::Raw)),
            endpoint::Sent::Cnp(qp) => {
                if let Role::Receives { incoming, marked, .. } = &mut self.ends[usize::from(qp)] {
                    incoming.seen(*marked).cnps += 1;
                }
            }
            endpoint::Sent::Pfc => self.held_back.sent(self.endpoint.frame(), now),
            endpoint::Sent::Control => {}
        }
        let bytes = self.endpoint.frame();
        Some(HeaderFrame::new(bytes, bytes.len()))
    }

    /// Earliest time after which [`RcLinkNic::poll_transmit`] may have a frame if nothing arrives until then.
    /// `None`: nothing to do.
    pub fn next_transmit(&mut self, now: Nanos) -> Option<Nanos> {
        let mut next = self.endpoint.next_timeout(now).unwrap_or(NEVER);
        // What could be read now has been.
        if let Some(reader) = self.reader.filter(|reader| reader.ready() > now && self.endpoint.has_events())
        {
            next = next.min(reader.ready());
        }
        // What is open waits for room in the link's queue; what is not waits for its start.
        let Self { starts, ends, .. } = self;
        let start = |at: u32| ends[at as usize].next().map_or(0, |out| out.flow.start);
        next = next.min(starts.next_start(now, start)).min(self.backoffs.least());
        next = next.min(self.datagrams.next_post(now));
        (next != NEVER).then(|| next.max(now))
    }
}
