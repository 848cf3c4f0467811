//! The same flows over RC Link: a NIC whose frames are those of [`crate::rclink`], headers and a length.
//!
//! A flow is a queue pair at each end and a row of messages, one frame each. The payload is zeros that are never
//! carried; so there is no CRC, and no credits, whose counts would be in it.

use super::frame::HeaderFrame;
use super::nic::NicReport;
use super::receiver::Received;
use super::sender::{Flow, Pace, Sent};
use crate::rclink::Reliability;
use crate::rclink::backoff::{Backoff, BackoffError, BackoffParams};
use crate::rclink::cc_window::{MAX_LENGTH_THR, Window};
use crate::rclink::class::{Class, ClassMap};
use crate::rclink::frame::{Body, Codec, Station};
use crate::rclink::link::{self, Event, FlowControl, Link, LinkConfig, LinkError};
use crate::rclink::rh::{MAX_WINDOW, Opcode, Psn, Rh};
use crate::rclink::watermark::Marks;
use thiserror::Error;
use weir_dataplane::frame::Frame;
use weir_dataplane::pfc::NEVER;
use weir_dataplane::types::{Nanos, PRIORITIES};

/// Raises from nothing to the full rate.
const STEPS: u32 = 100;

/// What a NIC is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkNicConfig {
    /// Format of its frames, without CRC; not Lite, whose frames say of no flow.
    pub codec: Codec,
    /// Its addresses.
    pub station: Station,
    /// Rate of its link, bits/s.
    pub rate: u64,
    /// PFC priorities it obeys, one bit each.
    pub obey: u8,
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
pub enum LinkFlowError {
    /// The endpoint.
    #[error(transparent)]
    Link(#[from] LinkError),
    /// The back-off.
    #[error(transparent)]
    Backoff(#[from] BackoffError),
    /// No class of data has this priority.
    #[error("priority {0}: RC Link data has 2 (responses), 3 and 4 (requests)")]
    Priority(u8),
}

/// One end of a flow.
#[derive(Clone, Debug)]
struct End {
    flow: Flow,
    sends: bool,
    posted: u64,
    sent: Sent,
    backoff: Option<Backoff>,
    /// The packet that is to come, where none comes twice.
    expected: Psn,
    received: Received,
}

impl End {
    fn is_open(&self, now: Nanos) -> bool {
        self.sends && self.posted < self.flow.packets() && self.flow.start <= now
    }
}

/// What arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// Number of the flow.
    pub flow: u32,
    /// Payload bytes, each counted once.
    pub bytes: u64,
    /// The flow has arrived in full.
    pub done: bool,
}

/// A NIC. Queue pair numbers are indices, for both ends of flows.
#[derive(Debug)]
pub struct LinkNic {
    config: LinkNicConfig,
    link: Link,
    ends: Vec<End>,
    /// A frame with its payload.
    scratch: Vec<u8>,
}

impl LinkNic {
    /// A NIC without flows.
    ///
    /// # Errors
    /// What does not fit.
    pub fn new(config: LinkNicConfig) -> Result<Self, LinkFlowError> {
        // Messages are read as they come: the memories hold one at a time.
        let marks = Marks::unicast(config.rate, 0);
        let link = Link::new(LinkConfig {
            codec: config.codec,
            station: config.station,
            vlan: Some(0),
            classes: ClassMap::priorities(),
            flow_control: FlowControl::Pfc { priorities: config.obey },
            rate: config.rate,
            request: marks,
            response: marks,
            multicast: marks,
            cnp_merge: config.cnp_merge,
            ecn: true,
            retransmit: config.retransmit,
        })?;
        Ok(Self { config, link, ends: Vec::new(), scratch: Vec::new() })
    }

    /// Number the next end of a flow will have.
    pub fn next_end(&self) -> u32 {
        self.ends.len() as u32
    }

    /// Adds an end of a flow: this NIC sends, or its peer, whose end has the number `peer_end`. `backs_off`: CNPs
    /// slow it down.
    ///
    /// # Errors
    /// What does not fit.
    pub fn add(
        &mut self,
        flow: Flow,
        peer: Station,
        peer_end: u32,
        sends: bool,
        backs_off: bool,
    ) -> Result<(), LinkFlowError> {
        let rate =
            if let Pace::Fixed(rate) = flow.pace { rate.min(self.config.rate) } else { self.config.rate };
        let bytes = u128::from(rate) * u128::from(self.config.cc_window.ns()) / 8_000_000_000;
        let length_thr = u32::try_from(bytes).unwrap_or(MAX_LENGTH_THR).clamp(1, MAX_LENGTH_THR);
        let classes = ClassMap::priorities();
        let data = [Class::Request(0), Class::Request(2), Class::Response];
        let class = data.into_iter().find(|class| classes.of(*class) == flow.priority);
        let window = self.config.window.clamp(1, MAX_WINDOW);
        self.link.create_qp(link::QpConfig {
            peer,
            peer_qp: u16::try_from(peer_end).unwrap_or(u16::MAX),
            class: class.ok_or(LinkFlowError::Priority(flow.priority))?,
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
            least: step,
            cut_period: self.config.cut_period,
            raise_period: self.config.raise_period,
            raise: step,
        };
        let backoff = backs_off.then(|| Backoff::new(params, length_thr)).transpose()?;
        self.ends.push(End {
            flow,
            sends,
            posted: 0,
            sent: Sent::default(),
            backoff,
            expected: Psn::default(),
            received: Received::default(),
        });
        Ok(())
    }

    /// What the sending end `at` has done.
    pub fn sent(&self, at: usize) -> Sent {
        let counters = self.link.qp_counters(at as u16).unwrap_or_default();
        Sent { resent: counters.tx_retransmitted, timeouts: counters.timeouts, ..self.ends[at].sent }
    }

    /// What the receiving end `at` has seen.
    pub fn received(&self, at: usize) -> Received {
        let counters = self.link.qp_counters(at as u16).unwrap_or_default();
        Received { cnps: counters.tx_cnp, ..self.ends[at].received }
    }

    /// Rate the sending end `at` may send at, bits/s.
    pub fn rate(&self, at: usize) -> Option<u64> {
        self.link.rate(u16::try_from(at).ok()?)
    }

    /// What the NIC saw until `now`.
    pub fn report(&self, now: Nanos) -> NicReport {
        let (reaction, counters) = (self.link.reaction(), self.link.counters());
        NicReport {
            paused_ns: std::array::from_fn(|p| reaction.paused_ns(p, now)),
            pauses: std::array::from_fn::<_, PRIORITIES, _>(|p| reaction.transitions(p)),
            pfc_frames: reaction.counters().pfc_frames,
            unexpected: counters.rx_unknown + counters.rx_malformed + counters.rx_no_room,
        }
    }

    /// Takes a frame from the wire.
    pub fn handle_frame(&mut self, frame: &impl Frame, now: Nanos) -> Option<Arrival> {
        self.scratch.clear();
        self.scratch.extend_from_slice(frame.bytes());
        self.scratch.resize(frame.len().max(frame.bytes().len()), 0);
        let bytes = std::mem::take(&mut self.scratch);
        let before = *self.link.counters();
        self.link.handle_frame(&bytes, now);
        let arrival = match self.config.codec.read(&bytes) {
            Ok(crate::rclink::frame::Frame { body: Body::Type1(rh, _), ce, .. }) => {
                self.account(&rh, ce, &before, now)
            }
            _ => None,
        };
        self.scratch = bytes;
        self.collect(now).or(arrival)
    }

    /// What a frame meant to the end it was for.
    fn account(&mut self, rh: &Rh, ce: bool, before: &link::Counters, now: Nanos) -> Option<Arrival> {
        let after = *self.link.counters();
        if after.rx_unknown > before.rx_unknown {
            return None;
        }
        let end = self.ends.get_mut(usize::from(rh.dest_qp))?;
        match rh.opcode {
            Opcode::Send => {
                let r = &mut end.received;
                r.marked += u64::from(ce);
                if after.rx_data > before.rx_data {
                    r.missing += rh.psn.since(end.expected).max(0) as u64;
                    end.expected = rh.psn.plus(1);
                    if r.packets + r.missing == end.flow.packets() - 1 {
                        r.done = r.done.or(Some(now));
                    }
                } else {
                    r.useless += 1;
                }
            }
            Opcode::Cnp => end.sent.cnps += 1,
            Opcode::Ack if rh.length_or_syndrome == 1 => end.sent.naks += 1,
            Opcode::Ack | Opcode::Credit => {}
        }
        None
    }

    /// Reads what arrived; of messages there is one at most.
    fn collect(&mut self, now: Nanos) -> Option<Arrival> {
        let mut arrival = None;
        while let Some(event) = self.link.poll_event(now) {
            match event {
                Event::Received { qp, payload } => {
                    let end = &mut self.ends[usize::from(qp)];
                    end.received.packets += 1;
                    end.received.bytes += payload.len() as u64;
                    arrival = Some(Arrival {
                        flow: end.flow.id,
                        bytes: payload.len() as u64,
                        done: end.received.done == Some(now),
                    });
                }
                Event::Cnp(qp) => {
                    let end = &mut self.ends[usize::from(qp)];
                    if let Some(backoff) = &mut end.backoff {
                        backoff.on_cnp(now);
                        // Between two thresholds that were accepted.
                        let _ = self.link.set_threshold(qp, backoff.threshold());
                    }
                }
                Event::Acknowledged { .. } | Event::Multicast { .. } | Event::Raw(_) | Event::Failed(_) => {}
            }
        }
        arrival
    }

    fn run(&mut self, now: Nanos) {
        self.link.handle_timeout(now);
        for (qp, end) in self.ends.iter_mut().enumerate().filter(|(_, end)| end.sends) {
            if let Some(backoff) =
                end.backoff.as_mut().filter(|b| b.next_timeout().is_some_and(|at| at <= now))
            {
                backoff.handle_timeout(now);
                let _ = self.link.set_threshold(qp as u16, backoff.threshold());
            }
            while end.is_open(now) {
                let full = u64::from(end.flow.payload);
                let len = end.flow.bytes.saturating_sub(end.posted * full).min(full);
                if self.link.post(qp as u16, vec![0; len as usize]).is_err() {
                    break;
                }
                end.posted += 1;
            }
        }
    }

    /// The next frame to put on the wire at `now`. It counts as sent: call only when the link is free.
    pub fn poll_transmit(&mut self, now: Nanos) -> Option<HeaderFrame> {
        self.run(now);
        if let link::Sent::Data(qp) = self.link.poll_transmit(now)?.kind {
            self.ends[usize::from(qp)].sent.packets += 1;
        }
        let bytes = self.link.frame();
        Some(HeaderFrame::new(bytes, bytes.len()))
    }

    /// Earliest time after which [`LinkNic::poll_transmit`] may have a frame if nothing arrives until then.
    /// `None`: nothing to do.
    pub fn next_transmit(&mut self, now: Nanos) -> Option<Nanos> {
        let mut next = self.link.next_timeout(now).unwrap_or(NEVER);
        for end in self.ends.iter().filter(|end| end.sends) {
            next = next.min(end.backoff.as_ref().and_then(Backoff::next_timeout).unwrap_or(NEVER));
            if end.flow.start > now && end.posted == 0 {
                next = next.min(end.flow.start);
            }
        }
        (next != NEVER).then(|| next.max(now))
    }
}
