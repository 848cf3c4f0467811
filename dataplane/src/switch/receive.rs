//! From a received frame to its queues: parse, consume control, classify, look up, learn, batch.
//!
//! A frame about whose kind a decision is kept ([`super::flow_cache`]) needs no more than its key. Another one and some
//! behind it are gone through twice: first their headers are parsed and the lines of the forwarding table fetched, then
//! each is put where it belongs. Unicast frames that only wait for admission are batched by decision
//! ([`super::batching`]), and each group is admitted as one ([`super::admit`]).

use super::flow_cache::{FlowCache, ForwardingDecision, Place, Several};
use super::lldp::is_lldp;
use super::{OwnPort, PortParams, Switch, UnknownUnicast};
use crate::classify::Class;
use crate::drops::DropReason;
use crate::egress::{BatchHeader, Meta};
use crate::fdb::{Fdb, Home, Learned, Lookup};
use crate::frame::Frame;
use crate::mmu::{Admission, PgIx};
use crate::parse::{Kind, Parsed, Profile, checksum, in_vlan};
use crate::storm_control::FloodKind;
use crate::types::{Burst, Nanos, PRIORITIES, PortId};
use crate::vlan::FrameVlan;
use arrayvec::ArrayVec;

/// Frames that are parsed before the first of them is acted upon: enough to hide the time their lines of the forwarding
/// table take to come.
const AT_ONCE: usize = 32;

/// What the headers of one frame said, between the pass that reads them and the pass that acts.
#[derive(Clone, Copy, Debug)]
pub(super) struct ParsedFrame {
    pub dst_key: u64,
    pub src_key: u64,
    dst_home: Home,
    src_home: Home,
    pub meta: Meta,
    pub tc: u8,
    /// Its VLAN, if ports know of VLANs.
    pub vlan: Option<FrameVlan>,
    action: Action,
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
    fn received(&self) -> Received {
        let Self { meta, tc, vlan, .. } = *self;
        Received { meta, tc, vlan }
    }

    /// The frame goes further than its port.
    pub(super) fn forwards(&self) -> bool {
        matches!(self.action, Action::Forward | Action::ForwardGroup | Action::PassOn)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    Forward,
    /// To a group address: static group or flood.
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
    fdb_port: PortId,
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

impl<F: Frame, A: Admission> Switch<F, A> {
    /// Frames received on `port`; takes all of them. Each is queued, consumed or dropped with a reason.
    #[inline]
    pub fn receive(&mut self, port: PortId, burst: &mut Burst<F>, now: Nanos) {
        self.sync_flow_cache();
        let mut rx = self.rx_context(port, now);
        let params = &self.ports[port.index()].params;
        if params.admin_down {
            return self.receive_disabled(&rx, burst);
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
            let (mut frames, tag) = (F::drain(burst), self.flow_cache.tag(port));
            let decide =
                |cache: &FlowCache, profile: &Profile, frame: &F| cache.decision(profile, tag, frame);
            while let Some(undecided) = self.batch_frames(&mut rx, &mut frames, decide) {
                let behind = frames.by_ref().take(AT_ONCE - 1);
                self.receive_some(&mut rx, std::iter::once(undecided).chain(behind).collect());
            }
        }
        self.admit_waiting(&mut rx);
        self.tell_peers();
    }

    #[inline(always)]
    fn rx_context(&self, port: PortId, now: Nanos) -> RxContext {
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

    /// A peer may send to a port that is switched off: not every device can take the link down. MAC control is no data here
    /// either, and a pause holds nothing: nothing is to leave.
    #[cold]
    #[inline(never)]
    fn receive_disabled(&mut self, rx: &RxContext, burst: &mut Burst<F>) {
        for frame in F::drain(burst) {
            let OwnPort { params, stats, .. } = &mut self.ports[rx.port.index()];
            let parsed = params.profile.parse(frame.bytes(), frame.len());
            if parsed.is_ok_and(|parsed| parsed.kind == Kind::MacControl) {
                stats.rx_control += 1;
                continue;
            }
            self.count_received(rx.port, 0, 1, frame.len() as u64);
            let header = rx.meta(frame.len(), Class::default(), &Parsed::NOTHING).header();
            self.drop_frame(rx.port, DropReason::IngressAdminDown, frame, &header);
        }
    }

    /// Frames whose decisions would be waited for one after the other: those of some are asked for together. Called rather
    /// than inlined: the other loop needs its registers.
    #[inline(never)]
    fn receive_far(&mut self, rx: &mut RxContext, frames: impl Iterator<Item = F>) {
        let (mut frames, mut some) = (frames, ArrayVec::<F, AT_ONCE>::new());
        let mut places = [Place::NOWHERE; AT_ONCE];
        loop {
            let profile = &self.ports[rx.port.index()].params.profile;
            let tag = self.flow_cache.tag(rx.port);
            for (place, frame) in places.iter_mut().zip(frames.by_ref()) {
                *place = self.flow_cache.find_place(profile, tag, &frame);
                some.push(frame);
            }
            if some.is_empty() {
                return;
            }
            let mut places = places.iter();
            let decide = |cache: &FlowCache, _: &Profile, _: &F| {
                places.next().map_or(ForwardingDecision::NONE, |place| cache.at(*place))
            };
            let mut some = some.drain(..);
            if let Some(undecided) = self.batch_frames(rx, &mut some, decide) {
                self.receive_some(rx, std::iter::once(undecided).chain(some).collect());
            }
        }
    }

    #[inline(always)]
    fn sync_flow_cache(&mut self) {
        self.flow_cache.sync_epoch(self.fdb.version(), self.ageing.now_tick(), self.fdb.changed());
    }

    #[cold]
    #[inline(never)]
    fn complete_checksums(&mut self, port: PortId, burst: &mut Burst<F>) {
        let completed = burst.iter_mut().map(checksum::complete).filter(|done| *done).count();
        self.ports[port.index()].stats.checksums_completed += completed as u64;
    }

    /// Admits all groups; before them the frames with several destinations, after which they came.
    #[inline(always)]
    fn admit_waiting(&mut self, rx: &mut RxContext) {
        self.copy_waiting();
        if rx.vlans {
            return self.admit_waiting_retagged(rx);
        }
        while rx.waiting != 0 {
            self.admit_group(rx.port, rx.waiting.trailing_zeros() as usize);
            rx.waiting &= rx.waiting - 1;
        }
    }

    /// A frame about which nothing was decided, and some behind it.
    #[inline(never)]
    fn receive_some(&mut self, rx: &mut RxContext, frames: ArrayVec<F, AT_ONCE>) {
        let port = rx.port;
        let (params, tag) = (&self.ports[port.index()].params, self.flow_cache.tag(port));
        let voids = self.flow_cache.voids();
        let look = |frame: &F| match self.flow_cache.decision(&params.profile, tag, frame) {
            decision if decision.is_decided() => Ok(decision),
            _ => Err(rx.read(frame, params, &self.fdb)),
        };
        let looks: ArrayVec<Result<ForwardingDecision, ParsedFrame>, AT_ONCE> =
            frames.iter().map(look).collect();
        for (frame, look) in frames.into_iter().zip(looks) {
            match look {
                Ok(decision) if self.flow_cache.voids() == voids => {
                    self.put(rx, decision, frame);
                    continue;
                }
                Ok(_) => self.receive_any(rx, frame, None),
                Err(headers) => self.receive_any(rx, frame, Some(&headers)),
            }
            // A station may have moved.
            self.sync_flow_cache();
        }
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
                read = rx.read(&frame, &self.ports[port.index()].params, &self.fdb);
                &read
            }
        };
        if headers.action == Action::Consume {
            return self.dispatch_or_watch(port, frame, headers);
        }
        self.ports[port.index()].stats.malformed_l3 += u64::from(headers.malformed_l3);
        if matches!(headers.action, Action::Forward | Action::ForwardGroup) {
            let now_tick = self.ageing.now_tick();
            let known =
                !rx.learning || self.fdb.knows(headers.src_home, headers.src_key, rx.fdb_port, now_tick);
            if !known {
                self.learn(rx.fdb_port, headers.src_key);
            }
            let decision = match headers.action {
                Action::Forward => self.decide(rx.fdb_port, &frame, headers),
                _ => self.decide_several(headers),
            };
            if let Some(decision) = decision {
                // Only where the next frame would change nothing in the table either.
                let profile = &self.ports[port.index()].params.profile;
                if known && let Some(key) = profile.flow_key(frame.bytes(), frame.len()) {
                    self.flow_cache.keep(key, port, decision, [headers.src_key, headers.dst_key]);
                }
                return self.put(rx, decision, frame);
            }
        }
        self.count_received(port, usize::from(headers.tc), 1, frame.len() as u64);
        if headers.forwards() && rx.waiting != 0 {
            // It must not overtake those of the burst that came before it.
            self.admit_waiting(rx);
        }
        self.dispatch_or_watch(port, frame, headers);
    }

    #[cold]
    #[inline(never)]
    fn dispatch_or_watch(&mut self, port: PortId, frame: F, headers: &ParsedFrame) {
        if self.tap.is_some() {
            return self.receive_watched(port, frame, headers, Self::dispatch);
        }
        self.dispatch(port, frame, headers);
    }

    /// What is to happen to a frame that does not just join its queue.
    fn dispatch(&mut self, port: PortId, frame: F, headers: &ParsedFrame) {
        match headers.action {
            Action::Forward => self.forward_any(port, frame, headers),
            Action::ForwardGroup => self.receive_group(port, frame, headers),
            Action::PassOn => {
                self.multicast(port, self.ports[port.index()].flood, frame, &headers.received())
            }
            Action::Drop(reason) => self.drop_frame(port, reason, frame, &headers.meta.header()),
            Action::Consume => self.consume(port, frame, headers),
        }
    }

    /// The decision about a unicast frame to a known station, if nothing but admission stands between it and its queue.
    #[inline(always)]
    fn decide(&self, input: PortId, frame: &F, headers: &ParsedFrame) -> Option<ForwardingDecision> {
        match self.fdb.lookup_at(headers.dst_home, headers.dst_key) {
            Lookup::Port(out) if out != input => match self.lags.of(out) {
                Some(lag) => self.decide_member((lag, out), frame, headers),
                None if self.is_fast_path(out, headers.meta.queue) => self.decide_for(out, headers),
                None => None,
            },
            _ => None,
        }
    }

    /// That it leaves by `out`.
    #[inline(always)]
    pub(super) fn decide_for(&self, out: PortId, headers: &ParsedFrame) -> Option<ForwardingDecision> {
        let (meta, retag) = (&headers.meta, self.retag(out, headers)?);
        let control = self.admission.control_pg() == Some(PgIx(u32::from(meta.pg)));
        let (charged, ecn) = ((meta.pg, control), retag.moved(meta.ecn));
        Some(ForwardingDecision::new(out, meta.queue, charged, headers.tc, ecn, retag))
    }

    /// Nothing but admission stands between a frame and this queue.
    #[inline(always)]
    pub(super) fn is_fast_path(&self, out: PortId, queue: u8) -> bool {
        self.slow_path_queues.get(out.index()).is_some_and(|queues| queues >> (queue & 7) & 1 == 0)
    }

    /// Notes anew which queues of a port have something to be looked at before admission: the port is
    /// down, the switch drains, the watchdog drops, the queue is being emptied, drops or marks on
    /// arrival, its depth is watched frame by frame.
    pub(super) fn note_slow_path_queues(&mut self, out: PortId) {
        let watched = self.tap.as_ref().is_some_and(|tap| tap.hinders());
        // What else stands between a frame and another lcore's queue is its owner's to look at.
        let own = self.ports.get_own(out.index());
        let all = !self.ports.is_up(out) || self.draining || watched;
        let slow_path_queues = match own {
            Some(port) if !all && port.bursts.is_none() => {
                port.storm_drop | port.flushing | port.drops_early | port.mark_on_arrival
            }
            None if !all => 0,
            _ => 0xff,
        };
        if std::mem::replace(&mut self.slow_path_queues[out.index()], slow_path_queues) != slow_path_queues {
            self.invalidate_decisions();
        }
    }

    #[cold]
    #[inline(never)]
    fn forward_any(&mut self, port: PortId, frame: F, headers: &ParsedFrame) {
        let found = match self.fdb.lookup(headers.dst_key) {
            Lookup::Port(out) if out == self.ports[port.index()].fdb_port => {
                return self.drop_frame(port, DropReason::LookupSamePort, frame, &headers.meta.header());
            }
            Lookup::Port(out) => Lookup::Port(self.leaves_by(out, port, &frame)),
            other => other,
        };
        match found {
            Lookup::Port(out) if self.ports.is_up(out) => match self.retag(out, headers) {
                Some(retag) => self.forward_retagged(out, frame, headers, retag),
                None => self.drop_frame(port, DropReason::VlanEgressFiltered, frame, &headers.meta.header()),
            },
            Lookup::Port(out) if self.fdb.is_static(headers.dst_key) => {
                let reason = self.ports.status(out).lost_at_lookup();
                self.drop_frame(port, reason, frame, &headers.meta.header());
            }
            // What was learned on a port that went down is on its way out of the table.
            Lookup::Port(_) => self.unknown(port, frame, headers),
            Lookup::Group(group) => self.multicast(port, self.fdb.group(group), frame, &headers.received()),
            Lookup::Miss => self.unknown(port, frame, headers),
        }
    }

    #[cold]
    #[inline(never)]
    fn learn(&mut self, port: PortId, key: u64) {
        // Without a place to tell the other shards, learning waits for the next frame.
        if self.peers.len() > 1 && !self.news_have_room() {
            return;
        }
        match self.fdb.learn(key, port, self.ageing.now_tick()) {
            Learned::Known | Learned::Refused(_) => {}
            Learned::New(event) | Learned::Moved(event) => self.tell(event),
        }
    }

    /// Broadcast and multicast start here.
    #[cold]
    fn receive_group(&mut self, port: PortId, frame: F, headers: &ParsedFrame) {
        self.send_to(port, self.ports_of_group(headers), frame, &headers.received());
    }

    fn ports_of_group(&self, headers: &ParsedFrame) -> Several {
        match self.fdb.lookup(headers.dst_key) {
            Lookup::Group(group) => Several::Group(group),
            _ => Several::Flood(FloodKind::of_group(headers.dst_key)),
        }
    }

    /// The decision about a frame to a group, where no VLAN has its own members.
    fn decide_several(&self, headers: &ParsedFrame) -> Option<ForwardingDecision> {
        let known = headers.vlan.is_none() && self.tap.is_none();
        let decision = known.then(|| self.decide_for(PortId(headers.meta.in_port), headers))??;
        decision.for_several(self.ports_of_group(headers))
    }

    /// Puts a frame where copies of it are made.
    pub(super) fn put_to_several(
        &mut self,
        rx: &mut RxContext,
        decision: ForwardingDecision,
        several: Several,
        frame: F,
    ) {
        self.count_received(rx.port, decision.tc(), 1, frame.len() as u64);
        if rx.waiting != 0 {
            // It must not overtake those of the burst that came before it.
            self.admit_waiting(rx);
        }
        let meta = rx.header(decision).meta(frame.len() as u16, 0);
        self.send_to(rx.port, several, frame, &Received { meta, tc: decision.tc() as u8, vlan: None });
    }

    fn send_to(&mut self, port: PortId, several: Several, frame: F, headers: &Received) {
        match several {
            Several::Group(group) => self.multicast(port, self.fdb.group(group), frame, headers),
            Several::Flood(kind) => self.flood(port, kind, frame, headers),
        }
    }

    /// To every other port, within the limit of this one.
    fn flood(&mut self, port: PortId, kind: FloodKind, frame: F, headers: &Received) {
        let input = &mut self.ports[port.index()];
        if let Some(policers) = &mut input.policers
            && !policers.admits(kind, frame.len() as u64, headers.meta.rx_ns)
        {
            return self.drop_frame(port, kind.reason(), frame, &headers.meta.header());
        }
        input.stats.flooded += u64::from(kind == FloodKind::UnknownUnicast);
        let ports = input.flood;
        self.multicast(port, ports, frame, headers);
    }

    #[cold]
    fn unknown(&mut self, port: PortId, frame: F, headers: &ParsedFrame) {
        if self.ports[port.index()].params.unknown_unicast == UnknownUnicast::Drop {
            return self.drop_frame(port, DropReason::LookupUnknown, frame, &headers.meta.header());
        }
        self.flood(port, FloodKind::UnknownUnicast, frame, &headers.received());
    }

    /// PAUSE, PFC and what pretends to be: never forwarded, never data (D4..D11). The same of LLDP.
    #[cold]
    fn consume(&mut self, port: PortId, frame: F, headers: &ParsedFrame) {
        if is_lldp(frame.bytes()) {
            return self.take_lldp(port, frame, headers);
        }
        let now = headers.meta.rx_ns;
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
        copies: Meta::SINGLE,
        pg: decision.pg(),
        in_port: port.0,
        queue: (decision.queue() as usize % PRIORITIES) as u8,
        ecn: decision.ecn(),
        home: BatchHeader::HERE,
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
        Meta {
            rx_ns: self.now,
            copies: Meta::SINGLE,
            len: len as u16,
            pg,
            in_port: self.port.0,
            queue: class.queue,
            ecn: parsed.ecn.code(),
            home: BatchHeader::HERE,
            // Known when the queue is.
            held_ns: 0,
        }
    }

    /// Reads the headers of any frame, and starts fetching the table lines it will need.
    #[inline(never)]
    fn read<F: Frame>(&self, frame: &F, params: &PortParams, fdb: &Fdb) -> ParsedFrame {
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
                (None, Kind::Reserved) if params.lldp && is_lldp(frame.bytes()) => Action::Consume,
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
