//! The hosts of a fabric: of one kind, behind one face.

use super::collective::{Collectives, EnginePort, Rank, RankConfig, RoceHost};
use super::faults::Faults;
use super::rclink;
use super::sim_frame::{Body, SimFrame};
use super::spec::{Congestion, FabricSpec, Protocol};
use super::switches;
use super::topology::Plan;
use super::workload::Carriage;
use super::{FabricError, congestion, idle, multicast, transport};
use std::net::{IpAddr, Ipv4Addr};
use weir_config::Config;
use weir_dataplane::frame::Frame;
use weir_dataplane::types::{Mac, Nanos, PRIORITIES, wire_bytes};
use weir_endpoint::congestion::telemetry::Stamp;
use weir_endpoint::flow::{
    Arrival, Datagram, Flow, HeldBack, Nic, NicConfig, NicReport, RcLinkNic, Received, Route, Sent,
    Unanswered,
};
use weir_endpoint::rclink::class::Class;
use weir_endpoint::rclink::endpoint::raw_message_len;
use weir_endpoint::rclink::frame::Station;
use weir_endpoint::roce::qp::TrafficClass;
use weir_endpoint::station::MIN_MESSAGE;
use weir_inc::engine::Engine;

/// DSCP of CNPs, that of adapters (`cnp_dscp`). The presets put CNPs in their class whatever it is.
pub(super) const CNP_DSCP: u8 = 48;
/// Ethernet, IP, UDP, BTH, ICRC: what a RoCE packet has around its payload.
const ROCE_HEADERS: u64 = 58;

/// A host.
#[derive(Debug)]
pub(super) enum Host {
    /// RoCEv2.
    Roce(Box<RoceHost>),
    /// RC Link.
    RcLink(Box<RcLinkNic>),
    /// No host: the engine of a switch.
    Engine(Box<EnginePort>),
}

/// A flow about to start, and the addresses of its ends.
pub(super) struct Opening {
    pub flow: Flow,
    pub src_port: u16,
    /// Sender and receiver: number, address.
    pub ends: [(usize, Mac); 2],
    /// CNPs slow it down, in RC Link.
    pub backs_off: bool,
    /// Its class in RC Link.
    pub class: Class,
    pub carriage: Carriage,
}

pub(super) fn ip(host: usize) -> Ipv4Addr {
    Ipv4Addr::new(10, (host >> 16) as u8, (host >> 8) as u8, host as u8)
}

/// How a host or an engine is addressed.
pub(super) fn address(plan: &Plan, at: usize) -> (Mac, IpAddr) {
    (plan.macs[at], ip(at).into())
}

/// Bytes on the wire of a packet of a queue pair with this payload.
pub(super) fn packet_bytes(spec: &FabricSpec, payload: u64) -> u64 {
    match spec.host.protocol {
        // Padded to four bytes.
        Protocol::Rocev2 => wire_bytes(payload.next_multiple_of(4) + ROCE_HEADERS),
        Protocol::Rclink => wire_bytes(rclink::codec(spec).frame_len(payload as usize, true) as u64),
    }
}

/// Bytes on the wire of a frame that carries so many of a flow.
pub(super) fn frame_bytes(spec: &FabricSpec, carriage: Carriage, bytes: u64) -> u64 {
    match carriage {
        Carriage::Pair => packet_bytes(spec, bytes),
        Carriage::Group { .. } => packet_bytes(spec, bytes.max(MIN_MESSAGE.into())),
        Carriage::Raw => wire_bytes(raw_message_len(bytes.max(MIN_MESSAGE.into()) as usize, true) as u64),
    }
}

/// What contradicts the kind of hosts.
pub(super) fn check(spec: &FabricSpec) -> Result<(), FabricError> {
    let mut faults: Faults = [congestion::check(spec), transport::check(spec)].into_iter().collect();
    let range = |what: &str, got: String, must: &str| -> Result<(), FabricError> {
        Err(FabricError::Range { what: what.into(), got, must: must.into() })
    };
    let host = &spec.host;
    let priorities = host.pfc_priorities.iter().flatten().map(|p| ("host.pfc_priorities", *p));
    for (key, priority) in priorities.chain([("host.cnp_priority", host.cnp_priority)]) {
        if usize::from(priority) >= PRIORITIES {
            faults.keep(range(key, priority.to_string(), "0 to 7"));
        }
    }
    for (i, w) in spec.workloads.iter().enumerate() {
        let own = format!("workload.{i}.cc");
        let cc = if spec.source.sets("host.congestion_control") && !spec.source.sets_in(i, "cc") {
            "host.congestion_control".to_owned()
        } else {
            own
        };
        match (host.protocol, w.cc()) {
            (Protocol::Rocev2, Congestion::Backoff) => {
                let must = format!(
                    "{}: hosts speak RoCEv2",
                    idle::any_of(&Congestion::OF_ROCE.map(Congestion::word))
                );
                faults.keep(range(&cc, "backoff".into(), &must));
            }
            (Protocol::Rclink, Congestion::Backoff) if !rclink::is_marked(spec) => {
                let must = "none: frames of that `format` cannot be marked, and no CNP would ever come";
                faults.keep(range(&cc, "backoff".into(), must));
            }
            (Protocol::Rclink, other) if !matches!(other, Congestion::Backoff | Congestion::None) => {
                faults.keep(range(&cc, other.word().into(), "backoff or none: hosts speak RC Link"));
            }
            _ => {}
        }
    }
    if host.protocol == Protocol::Rclink {
        faults.keep(rclink::check(spec));
    }
    faults.refuse()
}

/// PFC priorities host `at` obeys, one bit each: as told, else those its neighbour keeps lossless. `switches`: their
/// configurations. Two hosts without a switch keep those of the configuration a switch between them would have.
///
/// # Errors
/// That configuration is refused.
pub(super) fn obeyed(
    spec: &FabricSpec,
    plan: &Plan,
    at: usize,
    switches: &[&Config],
) -> Result<u8, FabricError> {
    if let Some(told) = spec.host.pfc_priorities.as_ref().filter(|_| at < plan.stations()) {
        return Ok(told.iter().fold(0, |mask, p| mask | 1 << (p & 7)));
    }
    let [a, b] = plan.links[plan.ports[at][0]].ends;
    let far = if a.node == at { b } else { a };
    match far.node.checked_sub(plan.hosts) {
        Some(switch) => Ok(switches[switch].ports[far.port].pfc.enable),
        None => Ok(switches::config_of(plan, spec, at)?.config.ports[0].pfc.enable),
    }
}

impl Host {
    /// The host `at` without flows, which obeys pauses of the priorities in `obey`.
    pub fn new(spec: &FabricSpec, plan: &Plan, at: usize, obey: u8) -> Result<Self, FabricError> {
        let host = &spec.host;
        let rate = plan.line_of(at);
        let config = match host.protocol {
            Protocol::Rocev2 => {
                return Ok(Self::Roce(Box::new(RoceHost::new(NicConfig {
                    rate,
                    obey,
                    cnp: TrafficClass::of_cnps(CNP_DSCP, host.cnp_priority),
                    cnp_interval: host.cnp_interval.0,
                }))));
            }
            Protocol::Rclink => rclink::config(spec, plan, at, obey, ip(at)),
        };
        let refused = |e: weir_endpoint::flow::RcLinkNicError| FabricError::Range {
            what: "host.rclink".into(),
            got: "set".into(),
            must: e.to_string(),
        };
        RcLinkNic::new(config).map(|nic| Self::RcLink(Box::new(nic))).map_err(refused)
    }

    /// The engine at node `at`, which obeys pauses of the priorities in `obey`.
    pub fn engine(collectives: &Collectives, plan: &Plan, at: usize, obey: u8) -> Result<Self, FabricError> {
        let rate = plan.line_of(at);
        let refused = || FabricError::Range {
            what: "inc".into(),
            got: format!("set so that `{}` refuses a job", plan.names[at]),
            must: "smaller".into(),
        };
        let port = collectives.engine(at, rate, obey).ok_or_else(refused)?;
        Ok(Self::Engine(Box::new(port)))
    }

    /// One more rank; the first of a host is its rank 0.
    pub fn join(&mut self, config: &RankConfig) {
        // What is not possible was refused when jobs were planned.
        let made = self.roce().is_some_and(|host| host.join(config));
        debug_assert!(made);
    }

    /// A RoCEv2 host: one that can have ranks.
    pub fn roce(&mut self) -> Option<&mut RoceHost> {
        if let Self::Roce(host) = self { Some(host) } else { None }
    }

    /// The queue pairs of a RoCEv2 host that has no ranks: what it sends is theirs.
    #[inline]
    pub fn only_flows(&mut self) -> Option<&mut Nic> {
        if let Self::Roce(host) = self { host.only_flows() } else { None }
    }

    /// Queue pairs of a RoCEv2 host.
    pub fn nic(&self) -> Option<&Nic> {
        if let Self::Roce(host) = self { Some(&host.nic) } else { None }
    }

    /// Its rank `seat`.
    pub fn rank(&self, seat: usize) -> Option<&Rank> {
        if let Self::Roce(host) = self { host.rank(seat) } else { None }
    }

    /// What it is if it is an engine.
    pub fn as_engine(&self) -> Option<&Engine> {
        if let Self::Engine(port) = self { Some(port.engine()) } else { None }
    }

    /// A failure that time, not a frame, has brought.
    pub fn take_late(&mut self) -> Option<Arrival> {
        self.roce()?.take_late()
    }

    /// Number of the next end that [`Self::open`] sends by.
    pub fn next_sender(&self) -> u32 {
        match self {
            Self::Roce(host) => host.nic.next_sender(),
            Self::Engine(_) => 0,
            Self::RcLink(nic) => nic.next_datagram(),
        }
    }

    /// A queue pair of RC Link is connected, before its first flow: it sends, or receives, and its other end has the number `peer`.
    pub fn connect(&mut self, opening: &Opening, sends: bool, peer: u32) {
        let Self::RcLink(nic) = self else { return };
        let other = if sends { opening.ends[1] } else { opening.ends[0] };
        let station = Station { mac: other.1, ip: ip(other.0) };
        let backs_off = opening.backs_off && sends;
        // What is not possible was refused when flows were made.
        let made = nic.connect(&opening.flow, station, peer, opening.class, sends, backs_off);
        debug_assert!(made.is_ok());
    }

    /// A queue pair of RoCEv2 that sends a flow, or receives it, with its number here and that of its other end; of RC Link a flow
    /// that has none.
    pub fn open(&mut self, opening: &Opening, sends: bool, [number, peer]: [u32; 2]) {
        debug_assert!(!sends || number == self.next_sender());
        let [own, other] = if sends { opening.ends } else { [opening.ends[1], opening.ends[0]] };
        // What is not possible was refused when flows were made.
        let made = match self {
            Self::Roce(host) => {
                let nic = &mut host.nic;
                let route = Route {
                    src: own.1,
                    dst: other.1,
                    src_ip: ip(own.0),
                    dst_ip: ip(other.0),
                    qpn: peer,
                    src_port: opening.src_port,
                };
                if sends {
                    nic.send(opening.flow, &route).is_ok()
                } else {
                    nic.expect(number, opening.flow, route);
                    true
                }
            }
            Self::RcLink(nic) => {
                let station = Station { mac: other.1, ip: ip(other.0) };
                let flow = opening.flow;
                let (kind, to, copy_of) = match opening.carriage {
                    Carriage::Pair => return debug_assert!(false, "it was connected before"),
                    Carriage::Group { number, copy_of } => {
                        (Datagram::Multicast, multicast::station(number), copy_of)
                    }
                    Carriage::Raw => (Datagram::Raw, station, None),
                };
                match sends {
                    true => nic.send_datagrams(flow, kind, to),
                    false => nic.expect_datagrams(flow, copy_of.unwrap_or(flow.id)),
                }
                true
            }
            // A rank is seated.
            Self::Engine(_) => false,
        };
        debug_assert!(made);
    }

    /// A flow over queue pair `at`, which is there.
    pub fn open_more(&mut self, flow: Flow, sends: bool, at: u32) {
        match self {
            Self::Roce(host) if sends => host.nic.send_more(at, flow),
            Self::Roce(host) => host.nic.expect_more(at, flow),
            Self::RcLink(nic) => nic.add(at, flow),
            Self::Engine(_) => {}
        }
    }

    /// Answers every message of its receiving end `request` with one of its sending end `response`, in RC Link.
    pub fn answer(&mut self, request: u32, response: u32) {
        if let Self::RcLink(nic) = self {
            nic.answer(request, response);
        }
    }

    /// Reads what has arrived before and may be read now, one message; `None`: there is none.
    pub fn read(&mut self, now: Nanos) -> Option<Arrival> {
        if let Self::RcLink(nic) = self { nic.read(now) } else { None }
    }

    /// When it may have read more, if nothing arrives until then.
    #[inline]
    pub fn next_read(&self, now: Nanos) -> Option<Nanos> {
        if let Self::RcLink(nic) = self { nic.next_read(now) } else { None }
    }

    /// What it sends leaves its queue at once, since nobody acknowledges it: LITE mode of RC Link.
    #[inline]
    pub fn sends_once(&self) -> bool {
        matches!(self, Self::RcLink(nic) if !nic.is_reliable())
    }

    /// Takes a frame from the wire.
    pub fn handle_frame(&mut self, frame: &SimFrame, now: Nanos) -> Option<Arrival> {
        match self {
            Self::Roce(host) => host.handle_frame(frame, now),
            Self::RcLink(nic) => nic.handle_frame(frame, now),
            Self::Engine(port) => {
                port.handle_frame(frame.bytes(), now);
                None
            }
        }
    }

    /// Its cable is cut, or whole again: pauses on both sides are forgotten. An engine has none.
    pub fn set_carrier(&mut self, carrier: bool, now: Nanos) {
        match self {
            Self::Roce(host) if !carrier => host.nic.lose_carrier(now),
            Self::RcLink(nic) => nic.set_carrier(carrier, now),
            Self::Roce(_) | Self::Engine(_) => {}
        }
    }

    /// Frames of data it has taken, where they may wait in a memory before they arrive.
    pub fn frames_taken(&self) -> Option<u64> {
        if let Self::RcLink(nic) = self { Some(nic.frames_taken()) } else { None }
    }

    /// When it has held its switch back until `now`, and how many more times there were than are kept (RC Link).
    pub fn held_back(&self, now: Nanos) -> (Vec<HeldBack>, u64) {
        if let Self::RcLink(nic) = self { nic.held_back(now) } else { (Vec::new(), 0) }
    }

    /// Something has come that is not delivered yet, and will be when it is read (RC Link).
    pub fn has_unread(&self) -> bool {
        matches!(self, Self::RcLink(nic) if nic.has_unread())
    }

    /// Requests that fill its memory until it can queue responses (RC Link).
    pub fn unanswered(&self, now: Nanos) -> Option<Unanswered> {
        if let Self::RcLink(nic) = self { nic.unanswered(now) } else { None }
    }

    /// The next frame to put on the wire.
    pub fn poll_transmit(&mut self, now: Nanos) -> Option<Body> {
        match self {
            Self::Roce(host) => host.poll_transmit(now),
            Self::RcLink(nic) => nic.poll_transmit(now).map(Body::Headers),
            Self::Engine(port) => port.poll_transmit(now).map(Body::Whole),
        }
    }

    /// What that frame carries for congestion control.
    pub fn carried(&self) -> Option<Stamp> {
        match self {
            Self::Roce(host) => host.nic.carried().copied(),
            Self::RcLink(_) | Self::Engine(_) => None,
        }
    }

    /// The flow whose last packet that frame was, again or for the first time; of a rank none.
    pub fn take_left(&mut self) -> Option<u32> {
        match self {
            Self::Roce(host) => host.nic.take_left(),
            Self::RcLink(nic) => nic.take_left(),
            Self::Engine(_) => None,
        }
    }

    /// The next flow that it has sent and knows to have arrived; of datagrams, that it has sent.
    pub fn poll_completed(&mut self) -> Option<u32> {
        match self {
            Self::Roce(host) => host.nic.poll_completed(),
            Self::RcLink(nic) => nic.poll_completed(),
            Self::Engine(_) => None,
        }
    }

    /// When there may be another.
    pub fn next_transmit(&mut self, now: Nanos) -> Option<Nanos> {
        match self {
            Self::Roce(host) => host.next_transmit(now),
            Self::RcLink(nic) => nic.next_transmit(now),
            Self::Engine(port) => port.next_transmit(now),
        }
    }

    /// Nothing has happened since [`Self::next_transmit`] was asked last that lets it send sooner than that has said, for certain.
    #[inline]
    pub fn is_as_told(&self) -> bool {
        matches!(self, Self::Roce(host) if host.is_as_told())
    }

    /// What its sending end `at` has done for its flow `nth`, and the rate it may send at.
    pub fn sent(&self, at: u32, nth: usize) -> (Sent, Option<u64>) {
        let at = at as usize;
        match self {
            Self::Roce(host) => (*host.nic.senders()[at].sent(nth), host.nic.senders()[at].rate()),
            Self::Engine(_) => Default::default(),
            Self::RcLink(nic) => (nic.sent(at, nth), nic.rate(at)),
        }
    }

    /// Its sending end `at` may have sent every packet of its flow `nth`.
    pub fn has_sent(&self, at: u32, nth: usize) -> bool {
        match self {
            Self::Roce(host) => host.nic.senders()[at as usize].has_sent(nth),
            Self::Engine(_) => true,
            Self::RcLink(nic) => nic.has_sent(at as usize, nth),
        }
    }

    /// What its receiving end `at` has seen of its flow `nth`, if it expects that by now and the rest has yet to come over its line.
    pub fn has_received(&self, at: u32, nth: usize) -> Option<&Received> {
        match self {
            Self::Roce(host) => host.nic.receiver(at)?.has_received(nth),
            Self::Engine(_) => None,
            Self::RcLink(nic) => nic.has_received(at as usize, nth),
        }
    }

    /// What its receiving end `at` has seen of its flow `nth`.
    pub fn received(&self, at: u32, nth: usize) -> Received {
        match self {
            Self::Roce(host) => {
                host.nic.receiver(at).map_or_else(Received::default, |end| *end.received(nth))
            }
            Self::Engine(_) => Received::default(),
            Self::RcLink(nic) => nic.received(at as usize, nth),
        }
    }

    /// What it saw until `now`.
    pub fn report(&self, now: Nanos) -> NicReport {
        match self {
            Self::Roce(host) => {
                let report = host.nic.report(now);
                NicReport { unexpected: report.unexpected + host.unexpected(), ..report }
            }
            Self::Engine(port) => port.report(now),
            Self::RcLink(nic) => nic.report(now),
        }
    }
}
