//! The same flows over RC Link: a NIC whose frames are those of [`crate::rclink`], headers and a length.
//!
//! A flow is a row of messages of one frame each, over a queue pair of its own or that of the flow before it. The payload is
//! zeros that are never carried; so there is no CRC. Of a credit message the counts are within the headers that are. Flows of
//! multicast messages and of raw frames have no queue pair ([`Datagram`]).

mod datagrams;
mod pauses;
mod receiving;
mod role;
mod seen;
mod sending;

pub use datagrams::Datagram;
pub use pauses::HeldBack;
pub use seen::Unanswered;

use super::messages::Incoming;
use super::sender::{Flow, Sent};
use crate::congestion::backoff::{Backoff, BackoffError, BackoffParams};
use crate::rclink::Reliability;
use crate::rclink::cc_window::{MAX_LENGTH_THR, Window};
use crate::rclink::class::{Class, ClassMap};
use crate::rclink::endpoint::{self, Endpoint, EndpointConfig, EndpointError, FlowControl};
use crate::rclink::frame::{Codec, MAX_PAYLOAD, Station};
use crate::rclink::rh::{MAX_QP, MAX_WINDOW};
use crate::rclink::watermark::PauseWatermarks;
use crate::starts::Starts;
use crate::timetable::Times;
use crate::traffic::Clock;
use datagrams::Datagrams;
use pauses::Pauses;
use role::{Outgoing, Role};
use seen::CreditWait;
use std::collections::VecDeque;
use thiserror::Error;
use weir_dataplane::types::Nanos;

/// Number of the first sender that has no queue pair; of a receiver the flow that messages name is added to it.
const FIRST_DATAGRAM: usize = MAX_QP as usize + 1;
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
    /// Frames it has taken although later ones of the same queue pair were there, without retransmission.
    overtaken: u64,
    /// Flows that are complete at their sender, until somebody asks.
    completed: VecDeque<u32>,
    /// The flow whose last packet was sent last, until somebody asks.
    left: Option<u32>,
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
            overtaken: 0,
            completed: VecDeque::new(),
            left: None,
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
                retries: None,
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
            true => Role::Sends { flows: Vec::new(), unposted: 0, unacknowledged: 0, timeouts: 0, backoff },
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
        match &mut self.ends[at as usize] {
            Role::Sends { flows, .. } => {
                let end = flows.last().map_or(0, |last| last.end).saturating_add(flow.packets());
                let sent = Sent::default();
                flows.push(Outgoing { flow, end, posted: 0, acknowledged: 0, sent, asked: None });
                self.starts.change(at);
            }
            Role::Receives { incoming, .. } => incoming.append(flow),
        }
    }
}
