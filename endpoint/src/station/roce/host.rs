//! The station: adapter, link, PFC, ARP, and the messages of every connection.

use super::arp::Arp;
use super::config::{PairConfig, Rate, Remote, SLOTS, StationConfig, StationError};
use super::echo;
use super::rank::{Collective, Ended, Rank, Results};
use super::traffic::{Incoming, Outgoing};
use crate::dcqcn::firmware::RateController as Control;
use crate::dcqcn::trace::Trace;
use crate::roce::cq::CqId;
use crate::roce::hca::{Event, Failure, Hca, QpError, TxKind};
use crate::roce::memory::Access;
use crate::roce::qp::{Path, QpConfig};
use crate::roce::verbs::{Completion, MAX_MESSAGE, Status, Verb};
use crate::roce::wire::Qpn;
use crate::starts::Starts;
use crate::station::MIN_MESSAGE;
use crate::station::cable::Cable;
use crate::station::pattern::{Pattern, mix};
use crate::station::report::{Address, ConnectionReport, EndpointCounters, Kind, Progress, StationReport};
use crate::timetable::Times;
use std::collections::VecDeque;
use std::net::IpAddr;
use weir_dataplane::pfc::NEVER;
use weir_dataplane::pfc::frame::is_mac_control;
use weir_dataplane::pfc::react::{ReactConfig, Reaction};
use weir_dataplane::types::{Mac, Nanos, PRIORITIES};

/// Time between two questions for a peer that does not answer, ns.
const ASK_EVERY: Nanos = 100_000_000;
/// Answers that can wait for the link; who asks more often asks again.
const ANSWERS: usize = 64;
/// Priority of ARP and echo replies: untagged, or PCP 0.
const SMALL_PRIORITY: u8 = 0;

#[derive(Debug)]
struct Connection {
    qpn: Qpn,
    config: PairConfig,
    connected: bool,
    /// No message before this time.
    settled_at: Nanos,
    failure: Option<Failure>,
    control: Option<Control>,
    outgoing: Option<Outgoing>,
    incoming: Incoming,
    /// Messages are contributions and sums.
    rank: Option<Rank>,
    progress: Progress,
}

impl Connection {
    /// From when on it may post; `None`: not yet, or not any more.
    fn posts_from(&self) -> Option<Nanos> {
        let may = self.connected && self.failure.is_none();
        self.outgoing.as_ref().filter(|_| may).map(|out| out.stream.start.max(self.settled_at))
    }

    /// Posts what may be posted.
    fn post(&mut self, hca: &mut Hca, now: Nanos) {
        if let Some(outgoing) = &mut self.outgoing {
            while outgoing.post(self.qpn, hca, &mut self.progress, self.rank.as_mut(), now) {}
        }
    }

    /// All it is to do has been done, or can not be done any more.
    fn is_done(&self) -> bool {
        if let Some(rank) = &self.rank {
            let acknowledged = self.progress.acknowledged == self.progress.posted;
            return self.failure.is_some() || rank.ended.is_some() || (rank.is_done() && acknowledged);
        }
        let sent = self.outgoing.as_ref().is_none_or(|out| {
            out.all_posted(self.progress.posted) && self.progress.acknowledged == self.progress.posted
        });
        let received = self.config.expect.is_none_or(|all| self.progress.received >= all);
        self.failure.is_some() || (sent && received)
    }
}

#[path = "operate.rs"]
mod operate;
pub use operate::{Change, OrderError};

/// What tells an end of a connection apart from all others.
fn end(ip: IpAddr, qpn: Qpn) -> u64 {
    let address = match ip {
        IpAddr::V4(ip) => u64::from(u32::from(ip)) << 24,
        IpAddr::V6(ip) => {
            let bits = u128::from(ip);
            mix((bits >> 64) as u64 ^ mix(bits as u64)) << 24
        }
    };
    address | u64::from(qpn.0)
}

/// A host. Bytes and times in, bytes and times out.
#[derive(Debug)]
pub struct Station {
    config: StationConfig,
    hca: Hca,
    reaction: Reaction,
    link: Cable,
    /// Completions of all connections.
    cq: CqId,
    pairs: Vec<Connection>,
    /// Connections that may have something to post, and when the rate control of each has something to do.
    starts: Starts,
    controls: Times,
    /// Connections whose peer is not known.
    unknown: usize,
    ask_at: Nanos,
    /// ARP messages and echo replies to be sent.
    small: VecDeque<Vec<u8>>,
    small_frame: Vec<u8>,
    rx_arp: u64,
    rx_echo: u64,
}

impl Station {
    /// A station without connections.
    pub fn new(config: StationConfig) -> Self {
        let reaction = Reaction::new(ReactConfig::host(config.rate, config.obey));
        let mut hca = Hca::with_first_qpn(config.first_qpn);
        let cq = hca.create_cq(0);
        Self {
            config,
            hca,
            reaction,
            link: Cable::new(config.rate, config.slack),
            cq,
            pairs: Vec::new(),
            starts: Starts::default(),
            controls: Times::default(),
            unknown: 0,
            ask_at: 0,
            small: VecDeque::with_capacity(ANSWERS),
            small_frame: Vec::new(),
            rx_arp: 0,
            rx_echo: 0,
        }
    }

    /// How others address this station.
    pub fn address(&self) -> (Mac, IpAddr) {
        (self.config.mac, self.config.ip)
    }

    /// Adds a connection; its queue pair is the one after that of the connection before.
    ///
    /// # Errors
    /// What does not fit.
    pub fn add(&mut self, config: PairConfig) -> Result<Qpn, StationError> {
        let sizes = [config.stream.map_or(0, |s| s.bytes), config.receive_bytes];
        let odd = |bytes: &u32| *bytes != 0 && !(MIN_MESSAGE..=MAX_MESSAGE).contains(bytes);
        if let Some(bytes) = sizes.into_iter().find(odd) {
            return Err(StationError::Message(bytes));
        }
        if config.stream.is_some_and(|s| s.bytes == 0) {
            return Err(StationError::Message(0));
        }
        if config.peer.ip.is_ipv4() != self.config.ip.is_ipv4() {
            return Err(QpError::Family.into());
        }
        if config.peer.ip.is_ipv6() && config.peer.mac.is_none() {
            return Err(StationError::Unknown(config.peer.ip));
        }
        let control = match config.rate {
            Rate::Fixed(_) => None,
            Rate::Dcqcn(d) => Some(Control::new(&d, 0)?),
        };
        let qpn = self.hca.create_qp(self.qp_config(&config, self.cq))?;
        self.hca.resize_cq(self.cq, 4 * SLOTS as usize * (self.pairs.len() + 1));
        let (here, there) = (end(self.config.ip, qpn), end(config.peer.ip, config.peer.qpn));
        let Remote { va, rkey } = config.memory;
        let taken = self.memory(va, config.receive_bytes, Some(rkey))?;
        let sent = self.memory(va, config.stream.map_or(0, |s| s.bytes), None)?;
        let incoming =
            Incoming::new(Pattern::new(there, here), taken, va, config.receive_bytes, config.verify);
        if config.receive_bytes > 0 {
            (0..SLOTS).for_each(|slot| incoming.post(slot, qpn, &mut self.hca));
        }
        let outgoing = config.stream.map(|s| Outgoing::new(s, Pattern::new(here, there), sent, va));
        self.pairs.push(Connection {
            qpn,
            config,
            connected: false,
            settled_at: 0,
            failure: None,
            control,
            outgoing,
            incoming,
            rank: None,
            progress: Progress::new(),
        });
        let at = self.pairs.len() - 1;
        self.unknown += 1;
        self.controls.make_room(self.pairs.len());
        if config.trace
            && let Some(control) = &mut self.pairs[at].control
        {
            control.start_trace();
        }
        self.apply_rate(at);
        if let Some(mac) = config.peer.mac {
            self.connect(at, mac)?;
        }
        Ok(qpn)
    }

    /// Adds a connection to an engine: what is sent are contributions, as many as the stream says, what comes are sums, in the way
    /// of `results`. Of sums that are written [`PairConfig::receive_bytes`] are whole packets.
    ///
    /// # Errors
    /// What does not fit.
    pub fn add_rank(
        &mut self,
        config: PairConfig,
        collective: Box<dyn Collective>,
        results: Results,
    ) -> Result<Qpn, StationError> {
        let qpn = self.add(config)?;
        let packets = config.stream.map_or(1, |s| s.bytes.div_ceil(u32::from(config.mtu)));
        let ahead = u64::from(config.window / packets.max(1));
        let rounds = config.stream.and_then(|s| s.messages);
        if let Some(pair) = self.pairs.last_mut() {
            pair.rank = Some(Rank::new(collective, results, ahead, rounds));
        }
        Ok(qpn)
    }

    fn qp_config(&self, config: &PairConfig, cq: CqId) -> QpConfig {
        QpConfig {
            sq_depth: SLOTS as usize,
            rq_depth: SLOTS as usize,
            mtu: config.mtu,
            window: config.window,
            retry_cnt: config.retries,
            ack_timeout: config.ack_timeout,
            rate: match config.rate {
                Rate::Fixed(rate) => rate,
                Rate::Dcqcn(d) => d.params.initial_rate,
            },
            slack: self.config.slack,
            cnp_interval: config.cnp_interval,
            ..QpConfig::new(cq, cq)
        }
    }

    /// Registers the slots of one direction, for peers under a key; the local key.
    fn memory(&mut self, va: u64, bytes: u32, rkey: Option<u32>) -> Result<u32, StationError> {
        let no_memory = StationError::Memory(bytes);
        let len = usize::try_from(u64::from(bytes) * SLOTS).map_err(|_| no_memory)?;
        let mut region = Vec::new();
        region.try_reserve_exact(len).map_err(|_| no_memory)?;
        region.resize(len, 0);
        va.checked_add(len as u64).ok_or(no_memory)?;
        let remote = rkey.is_some();
        let access = Access { local_write: true, remote_write: remote, remote_read: remote };
        let mr = match rkey {
            Some(rkey) => self.hca.register_as(rkey, va, region, access).ok_or(StationError::Key(rkey))?,
            None => self.hca.register(va, region, access).ok_or(no_memory)?,
        };
        Ok(mr.lkey)
    }

    /// The peer of a pair is known.
    fn connect(&mut self, at: usize, mac: Mac) -> Result<(), StationError> {
        let pair = &mut self.pairs[at];
        let config = &pair.config;
        let here = (self.config.mac, self.config.ip);
        let there = (mac, config.peer.ip);
        let path = Path {
            vlan: config.vlan,
            data: config.data,
            ack: config.data,
            cnp: config.cnp,
            send_psn: config.send_psn,
            recv_psn: config.recv_psn,
            ..Path::new(here, there, config.peer.qpn)
        };
        self.hca.connect(pair.qpn, path)?;
        pair.connected = true;
        self.unknown -= 1;
        self.starts.change(at as u32);
        Ok(())
    }

    /// No more messages. What is under way is finished.
    pub fn stop(&mut self) {
        for pair in &mut self.pairs {
            match (&mut pair.rank, &mut pair.outgoing) {
                (Some(rank), _) => rank.stop(),
                (None, Some(outgoing)) => outgoing.stop(),
                (None, None) => {}
            }
        }
        (0..self.pairs.len() as u32).for_each(|at| self.starts.change(at));
    }

    /// Every message that was to be sent is acknowledged, every one that was to come has come.
    pub fn is_done(&self) -> bool {
        self.pairs.iter().all(Connection::is_done)
    }

    /// The connections, in the order they were added.
    pub fn pairs(&self) -> impl Iterator<Item = ConnectionReport> + '_ {
        self.pairs.iter().map(|pair| ConnectionReport {
            kind: Kind::Qp,
            number: pair.qpn.0,
            peer: (Address::Ip(pair.config.peer.ip), pair.config.peer.qpn.0),
            connected: pair.connected,
            reliable: true,
            failure: pair.failure,
            rate: self.hca.rate(pair.qpn).unwrap_or(0),
            sends: pair.outgoing.is_some(),
            expect: pair.config.expect,
            ended: pair.rank.as_ref().and_then(|rank| rank.ended),
            progress: pair.progress,
        })
    }

    /// The traces recorded, by queue pair.
    pub fn traces(&self) -> impl Iterator<Item = (u32, &Trace)> {
        self.pairs.iter().filter_map(|pair| Some((pair.qpn.0, pair.control.as_ref()?.trace()?)))
    }

    /// What the station saw until `now`.
    pub fn report(&self, now: Nanos) -> StationReport {
        let carried = &self.link.carried;
        StationReport {
            adapter: EndpointCounters::Roce(*self.hca.counters()),
            paused_ns: std::array::from_fn(|p| self.reaction.paused_ns(p, now)),
            pauses: std::array::from_fn::<_, PRIORITIES, _>(|p| self.reaction.transitions(p)),
            control: *self.reaction.counters(),
            tx_frames: carried.tx_frames,
            tx_bytes: carried.tx_bytes,
            rx_frames: carried.rx_frames,
            rx_bytes: carried.rx_bytes,
            rx_flooded: carried.rx_flooded,
            rx_arp: self.rx_arp,
            rx_echo: self.rx_echo,
            rx_other: carried.rx_other,
        }
    }

    /// Takes a frame from the wire, without FCS.
    pub fn handle_frame(&mut self, bytes: &[u8], now: Nanos) {
        if is_mac_control(bytes) {
            self.reaction.receive(bytes, now);
            return;
        }
        self.link.arrived(bytes.len());
        let ours = bytes.starts_with(&self.config.mac.0);
        let group = bytes.first().is_some_and(|b| b & 1 == 1);
        if !ours && !group {
            let carried = &mut self.link.carried;
            *if bytes.len() < 14 { &mut carried.rx_other } else { &mut carried.rx_flooded } += 1;
            return;
        }
        if let Some(arp) = Arp::read(bytes) {
            self.rx_arp += 1;
            return self.arp_arrived(&arp, now);
        }
        if let IpAddr::V4(own) = self.config.ip
            && let Some(reply) = echo::reply(bytes, own)
        {
            self.rx_echo += 1;
            return self.send_small(reply);
        }
        let before = self.hca.counters().rx_not_roce;
        self.hca.handle_frame(bytes, now);
        self.link.carried.rx_other += self.hca.counters().rx_not_roce - before;
        self.collect(now);
    }

    #[cold]
    fn arp_arrived(&mut self, arp: &Arp, now: Nanos) {
        let (mac, ip) = arp.sender;
        if mac.is_group() {
            return;
        }
        for at in 0..self.pairs.len() {
            let pair = &self.pairs[at];
            if !pair.connected && pair.config.peer.ip == IpAddr::V4(ip) && pair.config.vlan == arp.vlan {
                // A pair that could not be connected would have been refused when it was added.
                let _ = self.connect(at, mac);
                self.pairs[at].settled_at = now.saturating_add(self.config.settle);
                self.starts.change(at as u32);
            }
        }
        if let IpAddr::V4(own) = self.config.ip
            && !arp.reply
            && arp.target.1 == own
        {
            let sender = (self.config.mac, own);
            self.send_arp(Arp { reply: true, vlan: arp.vlan, sender, target: arp.sender });
        }
    }

    fn send_arp(&mut self, arp: Arp) {
        let mut frame = Vec::new();
        arp.write(&mut frame);
        self.send_small(frame);
    }

    /// What no queue pair sends; more than can wait is forgotten.
    fn send_small(&mut self, frame: Vec<u8>) {
        if self.small.len() < ANSWERS {
            self.small.push_back(frame);
        }
    }

    /// Place of a connection: the adapter numbers them in the order they were added.
    fn index(&self, qpn: Qpn) -> Option<usize> {
        let at = qpn.0.checked_sub(self.config.first_qpn)? as usize;
        (at < self.pairs.len()).then_some(at)
    }

    /// Takes what the adapter has to say.
    fn collect(&mut self, now: Nanos) {
        while let Some(event) = self.hca.poll_event() {
            let Some(at) = self.index(event.qpn()) else { continue };
            match event {
                Event::Cnp(_) => {
                    self.pairs[at].progress.cnps += 1;
                    if let Some(control) = &mut self.pairs[at].control {
                        control.on_cnp(now);
                        self.apply_rate(at);
                    }
                }
                Event::QpFailed(_, failure) => self.pairs[at].failure = Some(failure),
            }
        }
        while let Some(completion) = self.hca.poll_cq(self.cq) {
            if let Some(at) = self.index(completion.qpn) {
                self.completed(at, &completion, now);
                // A slot is free, or a sum has come.
                self.starts.change(at as u32);
            }
        }
    }

    fn completed(&mut self, at: usize, completion: &Completion, now: Nanos) {
        if completion.status != Status::Success {
            return; // The failure of the queue pair is an event of its own.
        }
        let Connection { qpn, config, incoming, progress, outgoing, rank, .. } = &mut self.pairs[at];
        match (completion.verb, completion.imm, rank) {
            (Verb::Send | Verb::Write, ..) => {
                progress.acknowledged += 1;
                progress.acknowledged_bytes += u64::from(outgoing.as_ref().map_or(0, |out| out.stream.bytes));
                progress.last_ack = now;
            }
            (Verb::RecvWriteImm, imm, Some(rank)) => {
                // This is its last packet, before which there are as many as it has room for.
                let before = incoming.bytes.saturating_sub(u32::from(config.mtu));
                let len = before.saturating_add(completion.len);
                let bytes = incoming.bytes(rank.place(), len, &self.hca);
                rank.received(Results::Written, bytes.unwrap_or_default(), imm, progress, now);
                incoming.post(completion.wr_id, *qpn, &mut self.hca);
            }
            (Verb::Recv, imm, Some(rank)) => {
                let bytes = incoming.bytes(completion.wr_id, completion.len, &self.hca);
                rank.received(Results::Sent, bytes.unwrap_or_default(), imm, progress, now);
                if let Some(Ended::Came(_)) = rank.ended {
                    // The engine is not to take it for one that goes on: it waits, and so do all other ranks.
                    self.hca.reset(*qpn).expect("a connection has its queue pair");
                    return;
                }
                incoming.post(completion.wr_id, *qpn, &mut self.hca);
            }
            (Verb::RecvWriteImm, Some(imm), None) => {
                incoming.written(completion.len, imm, &self.hca, progress, now);
                incoming.post(completion.wr_id, *qpn, &mut self.hca);
            }
            (Verb::Recv | Verb::RecvWriteImm, _, None) => {
                let bytes = incoming.bytes(completion.wr_id, completion.len, &self.hca);
                incoming.sent(bytes, completion.len, progress, now);
                incoming.post(completion.wr_id, *qpn, &mut self.hca);
            }
        }
    }

    /// Tells the adapter what the rate control allows.
    fn apply_rate(&mut self, at: usize) {
        let pair = &mut self.pairs[at];
        self.controls.set(at, pair.control.as_ref().and_then(Control::next_timeout).unwrap_or(NEVER));
        if let Some(control) = &pair.control {
            let allowed = control.allowance();
            self.hca.set_rate(pair.qpn, allowed.rate);
            self.hca.set_outstanding(pair.qpn, allowed.outstanding);
            pair.progress.lowest_rate = pair.progress.lowest_rate.min(allowed.rate);
        }
    }

    /// Runs all timers that have expired, and posts what can be posted.
    fn run(&mut self, now: Nanos) {
        self.hca.set_paused(self.reaction.paused_mask(now));
        let mut from = 0;
        while let Some(at) = self.controls.first(from, now) {
            if let Some(control) = &mut self.pairs[at].control {
                control.handle_timeout(now);
            }
            self.apply_rate(at);
            from = at + 1;
        }
        self.hca.handle_timeout(now);
        self.collect(now);
        while let Some(at) = self.starts.next(now) {
            let pair = &mut self.pairs[at as usize];
            match pair.posts_from() {
                Some(start) if start > now => self.starts.wait(at, start),
                Some(_) => pair.post(&mut self.hca, now),
                None => {}
            }
        }
        if self.unknown > 0 && now >= self.ask_at {
            self.ask(now);
        }
    }

    /// Asks for every peer that is not known.
    #[cold]
    fn ask(&mut self, now: Nanos) {
        self.ask_at = now.saturating_add(ASK_EVERY);
        let unknown = self.pairs.iter().filter(|pair| !pair.connected);
        let mut wanted: Vec<_> = unknown.map(|pair| (pair.config.peer.ip, pair.config.vlan)).collect();
        wanted.dedup();
        for (ip, vlan) in wanted {
            if let (IpAddr::V4(own), IpAddr::V4(ip)) = (self.config.ip, ip) {
                let sender = (self.config.mac, own);
                self.send_arp(Arp { reply: false, vlan, sender, target: (Mac([0; 6]), ip) });
            }
        }
    }

    /// The next frame to put on the wire at `now`, without FCS. It counts as sent: call only with room for it.
    pub fn poll_transmit(&mut self, now: Nanos) -> Option<&[u8]> {
        self.run(now);
        if self.link.ready() > now {
            return None;
        }
        if self.hca.paused() >> SMALL_PRIORITY & 1 == 0
            && let Some(frame) = self.small.pop_front()
        {
            self.small_frame = frame;
            self.link.sent(self.small_frame.len(), now);
            return Some(&self.small_frame);
        }
        let tx = self.hca.poll_transmit(now)?;
        let (qpn, kind, len) = (tx.qpn, tx.kind, tx.bytes.len());
        self.link.sent(len, now);
        if kind == TxKind::Data
            && let Some(at) = self.index(qpn)
        {
            let pair = &mut self.pairs[at];
            pair.progress.data_frames += 1;
            if let Some(control) = &mut pair.control {
                control.on_sent(len as u64, now);
                self.apply_rate(at);
            }
        }
        Some(self.hca.frame())
    }

    /// The earliest time after `now` at which [`Self::poll_transmit`] may have a frame if it has none at `now`
    /// and nothing arrives until then.
    pub fn next_event(&mut self, now: Nanos) -> Option<Nanos> {
        let later = |at: Nanos| if at > now { at } else { NEVER };
        let mut next = later(self.link.ready()).min(later(self.reaction.next_expiry()));
        next = next.min(self.hca.next_timeout_after(now).unwrap_or(NEVER));
        next = next.min(self.controls.after(now));
        if self.unknown > 0 {
            next = next.min(later(self.ask_at));
        }
        let pairs = &self.pairs;
        next = next.min(self.starts.next_start(now, |at| pairs[at as usize].posts_from().unwrap_or(0)));
        (next != NEVER).then_some(next)
    }
}
