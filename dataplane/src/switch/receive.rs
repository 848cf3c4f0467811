//! From a received frame to its queues: parse, consume control, classify, look up, learn, batch.
//!
//! A frame about whose kind a decision is kept ([`super::flow_cache`]) needs no more than its key. Another one and some
//! behind it are gone through twice: first their headers are parsed and the lines of the forwarding table fetched, then it is
//! decided about each ([`super::decide`]). Frames are batched by decision ([`super::batching`]), and each group is admitted,
//! or lost, as one ([`super::admit`]).

use super::flow_cache::{FlowCache, ForwardingDecision, Probe};
use super::local::LocalProtocol;
use super::observer::Interest;
use super::snooping::Snooped;
use super::{Observer, OwnPort, PortParams, Switch};
use crate::classify::Class;
use crate::drops::DropReason;
use crate::egress::{BatchHeader, Meta};
use crate::fdb::{Fdb, Home, Learned, Refusal};
use crate::frame::Frame;
use crate::mmu::Admission;
use crate::parse::{FlowKey, Kind, Parsed, Profile, checksum, in_vlan};
use crate::types::{Burst, Nanos, PRIORITIES, PortId};
use crate::vlan::{FrameVlan, Retag};
use arrayvec::ArrayVec;

/// Frames that are parsed before the first of them is acted upon: enough to hide the time their lines of the forwarding
/// table take to come.
const AT_ONCE: usize = 32;

/// What the headers of one frame said, between the pass that reads them and the pass that acts.
#[derive(Clone, Copy, Debug)]
pub(super) struct ParsedFrame {
    /// Under which a decision about it can be kept.
    key: Option<FlowKey>,
    pub dst_key: u64,
    pub src_key: u64,
    pub dst_home: Home,
    src_home: Home,
    pub meta: Meta,
    pub tc: u8,
    /// Its VLAN, if ports know of VLANs.
    pub vlan: Option<FrameVlan>,
    pub action: Action,
    malformed_l3: bool,
}

/// What of them the copies of a frame depend on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Received {
    pub meta: Meta,
    pub tc: u8,
    pub vlan: Option<FrameVlan>,
}

impl ParsedFrame {
    pub(super) fn received(&self) -> Received {
        let Self { meta, tc, vlan, .. } = *self;
        Received { meta, tc, vlan }
    }

    /// The frame goes further than its port.
    pub(super) fn forwards(&self) -> bool {
        matches!(self.action, Action::Forward | Action::ForwardGroup | Action::PassOn)
    }

    /// Its source is a station.
    fn tells_source(&self) -> bool {
        matches!(self.action, Action::Forward | Action::ForwardGroup)
    }
}

/// What the forwarding table has made of the source of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SourceLearning {
    /// The next frame from there will change and count nothing.
    Settled,
    /// The next one will be refused, too, unless there is room by then.
    Refused(Refusal),
    /// Something has changed.
    Changed,
}

/// What is to be done with a frame, by its headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    Forward,
    /// To a group address: a group of ports, or flooded.
    ForwardGroup,
    /// Between bridges: to every other port, and nobody is learned.
    PassOn,
    Consume,
    Drop(DropReason),
}

/// What all frames of a burst have in common.
#[derive(Clone, Copy, Debug)]
pub(super) struct RxContext {
    pub port: PortId,
    /// Where its stations are learned: another one if it is in a LAG.
    pub fdb_port: PortId,
    pub now: Nanos,
    learning: bool,
    /// The port knows of VLANs: frames may leave with another tag.
    pub vlans: bool,
    /// Priority group 0 of the port, and the group that stands for the control pool if the port uses it.
    first_pg: u16,
    control_pg: Option<u16>,
    /// Groups with frames, a bit each.
    pub waiting: u64,
}

impl<F: Frame, A: Admission, O: Observer> Switch<F, A, O> {
    /// Frames received on `port`; takes all of them. Each is queued, consumed or dropped with a reason.
    #[inline]
    pub fn receive(&mut self, port: PortId, burst: &mut Burst<F>, now: Nanos) {
        self.sync_flow_cache();
        self.received_since_tick += burst.len();
        self.flood.begin_burst();
        let mut rx = self.rx_context(port, now);
        let OwnPort { params, refuses, .. } = &self.ports[port.index()];
        if let Some(reason) = *refuses {
            return self.receive_refused(&mut rx, burst, reason);
        }
        if params.complete_checksums {
            self.complete_checksums(port, burst);
        }
        if !self.mirrors.is_empty() {
            self.mirror_received(port, burst, now);
        }
        if self.flow_cache.is_far() {
            self.receive_far(&mut rx, F::drain(burst));
        } else {
            let mut frames = F::drain(burst);
            loop {
                let stamp = self.flow_cache.stamp(port);
                let decide =
                    |cache: &FlowCache, profile: &Profile, frame: &F| cache.decision(profile, stamp, frame);
                let Some(undecided) = self.batch_frames(&mut rx, &mut frames, decide) else { break };
                let behind = frames.by_ref().take(AT_ONCE - 1);
                self.receive_some(&mut rx, std::iter::once(undecided).chain(behind).collect());
            }
        }
        self.admit_waiting(&mut rx);
        self.tell_peers();
    }

    #[inline(always)]
    pub(super) fn rx_context(&self, port: PortId, now: Nanos) -> RxContext {
        let OwnPort { params, fdb_port, .. } = &self.ports[port.index()];
        let control_pg = if params.control_pool { self.admission.control_pg() } else { None };
        RxContext {
            port,
            fdb_port: *fdb_port,
            now,
            learning: params.learning,
            vlans: params.vlans.is_some(),
            first_pg: (port.index() * PRIORITIES) as u16,
            control_pg: control_pg.map(|pg| pg.0 as u16),
            waiting: 0,
        }
    }

    /// A peer may send to a port that is switched off, since not every device can take the link down, or that LACP has it take nothing by.
    /// What is of the link itself is no data there either: read where LACP speaks, while a pause holds nothing where nothing is to leave.
    #[cold]
    #[inline(never)]
    fn receive_refused(&mut self, rx: &mut RxContext, burst: &mut Burst<F>, reason: DropReason) {
        for frame in F::drain(burst) {
            let OwnPort { params, stats, .. } = &mut self.ports[rx.port.index()];
            let headers = rx.read(&frame, None, params, &self.fdb);
            match headers.action {
                Action::Consume if reason == DropReason::IngressLagInactive => {
                    self.receive_any(rx, frame, Some(&headers));
                }
                Action::Consume if LocalProtocol::taken(frame.bytes(), params).is_none() => {
                    stats.rx_control += 1;
                }
                _ => {
                    let decision = self.decide_for(rx.port, &headers, Retag::Keep).refused(reason);
                    self.put(rx, decision, frame);
                }
            }
        }
        self.admit_waiting(rx);
        self.tell_peers();
    }

    /// Frames whose decisions would be waited for one after the other: those of some are asked for together. Called rather
    /// than inlined: the other loop needs its registers.
    #[inline(never)]
    fn receive_far(&mut self, rx: &mut RxContext, frames: impl Iterator<Item = F>) {
        let (mut frames, mut some) = (frames, ArrayVec::<F, AT_ONCE>::new());
        let mut probes = [Probe::NOWHERE; AT_ONCE];
        loop {
            let profile = &self.ports[rx.port.index()].params.profile;
            let stamp = self.flow_cache.stamp(rx.port);
            for (probe, frame) in probes.iter_mut().zip(frames.by_ref()) {
                *probe = self.flow_cache.probe(profile, stamp, &frame);
                some.push(frame);
            }
            if some.is_empty() {
                return;
            }
            let mut probes = probes.iter();
            let decide = |cache: &FlowCache, _: &Profile, _: &F| {
                probes.next().map_or(ForwardingDecision::NONE, |probe| cache.at(*probe))
            };
            let mut some = some.drain(..);
            if let Some(undecided) = self.batch_frames(rx, &mut some, decide) {
                self.receive_some(rx, std::iter::once(undecided).chain(some).collect());
            }
        }
    }

    #[inline(always)]
    pub(super) fn sync_flow_cache(&mut self) {
        self.flow_cache.sync_epoch(self.fdb.version(), self.ageing.now_tick(), self.fdb.changed());
    }

    #[cold]
    #[inline(never)]
    fn complete_checksums(&mut self, port: PortId, burst: &mut Burst<F>) {
        let completed = burst.iter_mut().map(checksum::complete).filter(|done| *done).count();
        self.ports[port.index()].stats.checksums_completed += completed as u64;
    }

    /// Admits all groups; before them the frames with several destinations, after which those of their queues came.
    #[inline(always)]
    pub(super) fn admit_waiting(&mut self, rx: &mut RxContext) {
        self.copy_waiting();
        if rx.vlans {
            return self.admit_waiting_retagged(rx);
        }
        while rx.waiting != 0 {
            self.admit_group(rx.port, rx.waiting.trailing_zeros() as usize);
            rx.waiting &= rx.waiting - 1;
        }
    }

    /// Admits one group.
    #[inline(always)]
    pub(super) fn admit_group_of(&mut self, rx: &RxContext, at: usize) {
        if rx.vlans {
            self.admit_retagged(rx.port, at);
        } else {
            self.admit_group(rx.port, at);
        }
    }

    /// A frame about which nothing was decided, and some behind it.
    #[inline(never)]
    fn receive_some(&mut self, rx: &mut RxContext, frames: ArrayVec<F, AT_ONCE>) {
        let port = rx.port;
        let voids = self.flow_cache.begin_look();
        let (params, stamp) = (&self.ports[port.index()].params, self.flow_cache.stamp(port));
        let look = |frame: &F| {
            let key = params.profile.flow_key(frame.bytes(), frame.len());
            match key.map(|key| self.flow_cache.at(self.flow_cache.probe_key(key, stamp))) {
                Some(decision) if decision.is_decided() => Ok(decision),
                _ => Err(rx.read(frame, key, params, &self.fdb)),
            }
        };
        let looks: ArrayVec<Result<ForwardingDecision, ParsedFrame>, AT_ONCE> =
            frames.iter().map(look).collect();
        for (frame, look) in frames.into_iter().zip(looks) {
            match look {
                Ok(decision) if self.flow_cache.hold(voids) && self.is_refused_again(rx, decision) => {
                    self.put(rx, decision.unlearned(None), frame);
                    continue;
                }
                Ok(_) => self.receive_any(rx, frame, None),
                Err(headers) => self.receive_any(rx, frame, Some(&headers)),
            }
            // A station may have moved.
            self.sync_flow_cache();
        }
    }

    /// The decision says all there is to say about the source of a frame. If that was refused by the forwarding table it is again,
    /// and counted.
    #[inline(always)]
    fn is_refused_again(&mut self, rx: &RxContext, decision: ForwardingDecision) -> bool {
        let again = |why| self.fdb.refuses_again(rx.fdb_port, why);
        decision.why_unlearned().is_none_or(again)
    }

    #[inline(always)]
    pub(super) fn count_received(&mut self, port: PortId, tc: usize, frames: u64, bytes: u64) {
        let stats = &mut self.ports[port.index()].stats;
        stats.rx_packets += frames;
        stats.rx_bytes += bytes;
        stats.rx_priority_packets[tc % PRIORITIES] += frames;
        stats.rx_priority_bytes[tc % PRIORITIES] += bytes;
    }

    /// A frame about which nothing was decided, with what its headers say if that was read before.
    #[inline(never)]
    fn receive_any(&mut self, rx: &mut RxContext, frame: F, headers: Option<&ParsedFrame>) {
        let port = rx.port;
        let read;
        let headers = match headers {
            Some(headers) => headers,
            None => {
                let params = &self.ports[port.index()].params;
                let key = params.profile.flow_key(frame.bytes(), frame.len());
                read = rx.read(&frame, key, params, &self.fdb);
                &read
            }
        };
        let profile = &self.ports[port.index()].params.profile;
        let interest = self.observer.interest(port, profile, frame.bytes(), frame.len());
        if headers.action == Action::Consume {
            return match interest {
                Interest::Frame => self.receive_watched(port, frame, headers, |switch, frame, headers| {
                    switch.consume(port, frame, headers);
                }),
                _ => self.consume(port, frame, headers),
            };
        }
        self.ports[port.index()].stats.malformed_l3 += u64::from(headers.malformed_l3);
        let source =
            if headers.tells_source() { self.learn_from(rx, headers) } else { SourceLearning::Settled };
        let snooped = match headers.key {
            None if headers.action == Action::ForwardGroup => self.snooped(rx, &frame, headers),
            _ => None,
        };
        let decision = match snooped {
            None => self.decide(rx, &frame, headers),
            Some(Snooped::Goes(to)) => self.decide_for(port, headers, Retag::Keep).for_several(to),
            Some(Snooped::Ends) => return self.end_here(rx, frame, headers, interest == Interest::Frame),
        };
        match interest {
            Interest::Frame => {
                self.count_received(port, usize::from(headers.tc), 1, frame.len() as u64);
                // It must not overtake those of the burst that came before it.
                self.admit_waiting(rx);
                self.receive_watched(port, frame, headers, |switch, frame, headers| {
                    switch.carry_out(port, decision, frame, &headers.received());
                });
            }
            // The next frame of its kind is to be looked at, too.
            Interest::Kind => self.put(rx, decision, frame),
            Interest::None => {
                self.keep_decision(rx, headers, decision, source);
                self.put(rx, decision, frame);
            }
        }
    }

    #[inline(always)]
    fn keep_decision(
        &mut self,
        rx: &RxContext,
        headers: &ParsedFrame,
        decision: ForwardingDecision,
        source: SourceLearning,
    ) {
        let why = match source {
            SourceLearning::Settled => None,
            SourceLearning::Refused(why) => Some(why),
            SourceLearning::Changed => return,
        };
        if let Some(key) = headers.key {
            let stations = [headers.src_key, headers.dst_key];
            self.flow_cache.keep(key, rx.port, decision.unlearned(why), stations);
        }
    }

    /// Nothing but admission stands between a frame and this queue.
    #[inline(always)]
    pub(super) fn is_fast_path(&self, out: PortId, queue: u8) -> bool {
        self.slow_path_queues.get(out.index()).is_some_and(|queues| queues >> (queue & 7) & 1 == 0)
    }

    /// Notes anew which queues of a port have something to be looked at before frames are charged, one by one: the port is
    /// down, the switch drains, the watchdog drops, the queue is being emptied, drops or marks on arrival, its depth is
    /// watched frame by frame.
    pub(super) fn note_slow_path_queues(&mut self, out: PortId) {
        // What else stands between a frame and another lcore's queue is its owner's to look at.
        let own = self.ports.get_own(out.index());
        let all = !self.ports.is_up(out) || self.draining;
        self.slow_path_queues[out.index()] = match own {
            Some(port) if !all && port.bursts.is_none() => {
                port.storm_drop | port.flushing | port.drops_early | port.mark_on_arrival
            }
            None if !all => 0,
            _ => 0xff,
        };
    }

    #[inline(always)]
    fn learn_from(&mut self, rx: &RxContext, headers: &ParsedFrame) -> SourceLearning {
        let (home, key) = (headers.src_home, headers.src_key);
        if !rx.learning || self.fdb.knows(home, key, rx.fdb_port, self.ageing.now_tick()) {
            return SourceLearning::Settled;
        }
        self.learn(rx.fdb_port, key)
    }

    #[cold]
    #[inline(never)]
    fn learn(&mut self, port: PortId, key: u64) -> SourceLearning {
        // Without a place to tell the other shards, learning waits for the next frame.
        if self.peers.len() > 1 && !self.news_have_room() {
            return SourceLearning::Changed;
        }
        match self.fdb.learn(key, port, self.ageing.now_tick()) {
            Learned::Known => SourceLearning::Settled,
            Learned::Refused(why) => SourceLearning::Refused(why),
            Learned::New(event) | Learned::Moved(event) => {
                self.tell(event);
                SourceLearning::Changed
            }
        }
    }

    /// PAUSE, PFC and what pretends to be: never forwarded, never data (D4..D11). The same of LLDP and LACP.
    #[cold]
    fn consume(&mut self, port: PortId, frame: F, headers: &ParsedFrame) {
        if let Some(protocol) = LocalProtocol::taken(frame.bytes(), &self.ports[port.index()].params) {
            return self.take_local(port, protocol, frame, headers);
        }
        let now = headers.meta.header.rx_ns;
        self.ports[port.index()].stats.rx_control += 1;
        self.ports[port.index()].reaction.receive(frame.bytes(), now);
        self.note_held(port, now);
    }
}

/// What frames of a decision have in common that came by `port` at `now`.
#[inline(always)]
pub(super) fn header_of(port: PortId, decision: ForwardingDecision, now: Nanos) -> BatchHeader {
    BatchHeader {
        rx_ns: now,
        pg: decision.pg(),
        in_port: port.0,
        queue: (decision.queue() as usize % PRIORITIES) as u8,
        ecn: decision.ecn(),
        ..BatchHeader::NONE
    }
}

impl RxContext {
    /// What the frames of a group have in common.
    #[inline(always)]
    pub fn header(&self, decision: ForwardingDecision) -> BatchHeader {
        header_of(self.port, decision, self.now)
    }

    #[inline(always)]
    fn meta(&self, len: usize, class: Class, parsed: &Parsed) -> Meta {
        let own = self.first_pg + u16::from(class.pg);
        let pg = match parsed.kind {
            Kind::Cnp if !parsed.group => self.control_pg.unwrap_or(own),
            _ => own,
        };
        let header = BatchHeader {
            rx_ns: self.now,
            pg,
            in_port: self.port.0,
            queue: class.queue,
            ecn: parsed.ecn.code(),
            ..BatchHeader::NONE
        };
        // How long its queue had been held is known when the queue is.
        header.meta(len as u16, 0)
    }

    /// Reads the headers of any frame, and starts fetching the table lines it will need.
    #[inline(never)]
    pub(super) fn read<F: Frame>(
        &self,
        frame: &F,
        key: Option<FlowKey>,
        params: &PortParams,
        fdb: &Fdb,
    ) -> ParsedFrame {
        let (mut parsed, mut refused) = match params.profile.parse(frame.bytes(), frame.len()) {
            Ok(parsed) => (parsed, None),
            Err(reason) => (Parsed::NOTHING, Some(Action::Drop(reason))),
        };
        let class = if refused.is_none() { params.classifier.class(&parsed) } else { Class::default() };
        let mut vlan = None;
        if let Some(vlans) = &params.vlans
            && refused.is_none()
            && matches!(parsed.kind, Kind::Data | Kind::Cnp | Kind::Ack)
        {
            match vlans.classify(&params.profile, frame.bytes()) {
                Ok(found) => {
                    parsed.dst_key = in_vlan(parsed.dst_key, found.vid);
                    parsed.src_key = in_vlan(parsed.src_key, found.vid);
                    vlan = Some(found);
                }
                Err(reason) => refused = Some(Action::Drop(reason)),
            }
        }
        let forward = if parsed.group { Action::ForwardGroup } else { Action::Forward };
        ParsedFrame {
            key,
            dst_key: parsed.dst_key,
            src_key: parsed.src_key,
            dst_home: fdb.prefetch::<F>(parsed.dst_key),
            src_home: fdb.prefetch::<F>(parsed.src_key),
            meta: self.meta(frame.len(), class, &parsed),
            tc: class.tc,
            vlan,
            action: match (refused, parsed.kind) {
                (Some(refused), _) => refused,
                (None, Kind::MacControl) => Action::Consume,
                (None, Kind::Reserved) if LocalProtocol::taken(frame.bytes(), params).is_some() => {
                    Action::Consume
                }
                // The last four bits tell which of the reserved addresses it is.
                (None, Kind::Reserved) if params.link_local >> (parsed.dst_key & 15) & 1 == 1 => {
                    Action::PassOn
                }
                (None, Kind::Reserved) => Action::Drop(DropReason::ControlReserved),
                (None, Kind::Data | Kind::Cnp | Kind::Ack) => forward,
            },
            malformed_l3: parsed.malformed_l3,
        }
    }
}
