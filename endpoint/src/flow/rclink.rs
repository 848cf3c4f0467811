//! The same flows over RC Link: a NIC whose frames are those of [`crate::rclink`], headers and a length.
//!
//! A flow is a row of messages of one frame each, over a queue pair of its own or that of the flow before it. The payload is zeros that are never
//! carried; so there is no CRC, and no credits, whose counts would be in it.

use super::frame::HeaderFrame;
use super::messages::{Arrival, Incoming, Received};
use super::nic::NicReport;
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

/// A flow that is sent.
#[derive(Clone, Copy, Debug)]
struct Outgoing {
    flow: Flow,
    posted: u64,
    /// What the queue pair had done before this flow began.
    before: Sent,
}

/// What an end of a queue pair does.
#[derive(Clone, Debug)]
enum Role {
    Sends {
        flows: Vec<Outgoing>,
        sent: Sent,
        backoff: Option<Backoff>,
    },
    Receives {
        incoming: Incoming,
        /// Gaps end so many flows, which is told with the packet that showed it.
        ended: u32,
        /// CNPs the queue pair had sent before each flow began.
        cnps: Vec<u64>,
    },
}

impl Role {
    /// The flow whose next packet is to be posted at `now`.
    fn open(&mut self, now: Nanos) -> Option<&mut Outgoing> {
        let Self::Sends { flows, .. } = self else { return None };
        flows.iter_mut().find(|out| out.posted < out.flow.packets()).filter(|out| out.flow.start <= now)
    }

    fn backoff(&mut self) -> Option<&mut Backoff> {
        if let Self::Sends { backoff, .. } = self { backoff.as_mut() } else { None }
    }
}

/// A NIC. Queue pair numbers are indices, for both ends of flows.
#[derive(Debug)]
pub struct LinkNic {
    config: LinkNicConfig,
    link: Link,
    ends: Vec<Role>,
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
        self.ends.push(match sends {
            true => Role::Sends {
                flows: vec![Outgoing { flow, posted: 0, before: Sent::default() }],
                sent: Sent::default(),
                backoff,
            },
            false => Role::Receives { incoming: Incoming::new(flow), ended: 0, cnps: vec![0] },
        });
        Ok(())
    }

    /// One more flow over the queue pair of end `at`, behind the others.
    pub fn add_more(&mut self, at: u32, flow: Flow) {
        let (before, cnps_before) = (self.sent_so_far(at as usize), self.cnps_so_far(at as usize));
        match &mut self.ends[at as usize] {
            Role::Sends { flows, .. } => flows.push(Outgoing { flow, posted: 0, before }),
            Role::Receives { incoming, cnps, .. } => {
                incoming.append(flow);
                cnps.push(cnps_before);
            }
        }
    }

    /// What the queue pair of the sending end `at` has done.
    fn sent_so_far(&self, at: usize) -> Sent {
        let counters = self.link.qp_counters(at as u16).unwrap_or_default();
        let Role::Sends { sent, .. } = &self.ends[at] else { return Sent::default() };
        Sent { resent: counters.tx_retransmitted, timeouts: counters.timeouts, ..*sent }
    }

    /// CNPs the queue pair of end `at` has sent.
    fn cnps_so_far(&self, at: usize) -> u64 {
        self.link.qp_counters(at as u16).unwrap_or_default().tx_cnp
    }

    /// What the sending end `at` has done from the start of its flow `nth` to that of the next.
    pub fn sent(&self, at: usize, nth: usize) -> Sent {
        let Role::Sends { flows, .. } = &self.ends[at] else { return Sent::default() };
        let from = flows[nth].before;
        let to = flows.get(nth + 1).map_or_else(|| self.sent_so_far(at), |next| next.before);
        Sent {
            packets: to.packets - from.packets,
            resent: to.resent - from.resent,
            timeouts: to.timeouts - from.timeouts,
            naks: to.naks - from.naks,
            cnps: to.cnps - from.cnps,
        }
    }

    /// What the receiving end `at` has seen of its flow `nth`.
    pub fn received(&self, at: usize, nth: usize) -> Received {
        match &self.ends[at] {
            Role::Receives { incoming, cnps, .. } => {
                let to = cnps.get(nth + 1).copied().unwrap_or_else(|| self.cnps_so_far(at));
                Received { cnps: to - cnps[nth], ..*incoming.received(nth) }
            }
            Role::Sends { .. } => Received::default(),
        }
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
        if let Ok(crate::rclink::frame::Frame { body: Body::Type1(rh, _), ce, .. }) =
            self.config.codec.read(&bytes)
        {
            self.account(&rh, ce, &before, now);
        }
        self.scratch = bytes;
        self.collect(now)
    }

    /// What a frame meant to the end it was for.
    fn account(&mut self, rh: &Rh, ce: bool, before: &link::Counters, now: Nanos) {
        let after = *self.link.counters();
        if after.rx_unknown > before.rx_unknown {
            return;
        }
        match (rh.opcode, self.ends.get_mut(usize::from(rh.dest_qp))) {
            (Opcode::Send, Some(Role::Receives { incoming, ended, .. })) => {
                incoming.seen().marked += u64::from(ce);
                if after.rx_data > before.rx_data {
                    // Where nobody sends again, the link takes what comes: what is before it is lost.
                    let gap = rh.psn.since(Psn::new(incoming.expected)).max(0) as u64;
                    *ended += incoming.skip_to(incoming.expected + gap, now);
                } else {
                    incoming.seen().useless += 1;
                }
            }
            (Opcode::Cnp, Some(Role::Sends { sent, .. })) => sent.cnps += 1,
            (Opcode::Ack, Some(Role::Sends { sent, .. })) if rh.length_or_syndrome == 1 => sent.naks += 1,
            _ => {}
        }
    }

    /// Reads what arrived; of messages there is one at most.
    fn collect(&mut self, now: Nanos) -> Option<Arrival> {
        let mut arrival = None;
        while let Some(event) = self.link.poll_event(now) {
            match event {
                Event::Received { qp, payload } => {
                    if let Role::Receives { incoming, ended, .. } = &mut self.ends[usize::from(qp)]
                        && let Some(taken) = incoming.take(payload.len() as u64, now)
                    {
                        arrival = Some(Arrival { ended: taken.ended + std::mem::take(ended), ..taken });
                    }
                }
                Event::Cnp(qp) => {
                    if let Some(backoff) = self.ends[usize::from(qp)].backoff() {
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
        for (qp, end) in self.ends.iter_mut().enumerate() {
            if let Some(backoff) = end.backoff().filter(|b| b.next_timeout().is_some_and(|at| at <= now)) {
                backoff.handle_timeout(now);
                let _ = self.link.set_threshold(qp as u16, backoff.threshold());
            }
            while let Some(out) = end.open(now) {
                let full = u64::from(out.flow.payload);
                let len = out.flow.bytes.saturating_sub(out.posted * full).min(full);
                if self.link.post(qp as u16, vec![0; len as usize]).is_err() {
                    break;
                }
                out.posted += 1;
            }
        }
    }

    /// The next frame to put on the wire at `now`. It counts as sent: call only when the link is free.
    pub fn poll_transmit(&mut self, now: Nanos) -> Option<HeaderFrame> {
        self.run(now);
        if let link::Sent::Data(qp) = self.link.poll_transmit(now)?.kind
            && let Role::Sends { sent, .. } = &mut self.ends[usize::from(qp)]
        {
            sent.packets += 1;
        }
        let bytes = self.link.frame();
        Some(HeaderFrame::new(bytes, bytes.len()))
    }

    /// Earliest time after which [`LinkNic::poll_transmit`] may have a frame if nothing arrives until then.
    /// `None`: nothing to do.
    pub fn next_transmit(&mut self, now: Nanos) -> Option<Nanos> {
        let mut next = self.link.next_timeout(now).unwrap_or(NEVER);
        for end in &mut self.ends {
            next = next.min(end.backoff().and_then(|b| b.next_timeout()).unwrap_or(NEVER));
            // What is open waits for room in the link's queue; what is not waits for its start.
            let Role::Sends { flows, .. } = end else { continue };
            let waiting = flows.iter().find(|out| out.posted < out.flow.packets()).map(|out| out.flow.start);
            next = next.min(waiting.filter(|start| *start > now).unwrap_or(NEVER));
        }
        (next != NEVER).then(|| next.max(now))
    }
}
