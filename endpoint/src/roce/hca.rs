//! A RoCEv2 host channel adapter without I/O: the one object a host talks to.
//!
//! Post work, hand in frames with [`Hca::handle_frame`], take frames with [`Hca::poll_transmit`] until
//! there are none, call [`Hca::handle_timeout`] when [`Hca::next_timeout`] is reached, and read
//! [`Hca::poll_cq`] and [`Hca::poll_event`]. How fast a queue pair may send is set from outside
//! with [`Hca::set_rate`]; CNPs that should change it are events.

use super::cq::{Cq, CqId};
use super::frame::{ECN_CE, Frame, ParseError};
use super::memory::{Access, Memory, Mr};
use super::qp::{Path, Qp, QpConfig};
use super::responder::Outcome;
use super::ud::{FIRST_UD_QPN, UdQp};
use super::verbs::{Completion, MAX_MESSAGE, PostError, RecvWr, SendWr, Sge, Status};
use super::wire::{Bth, Extensions, Nak, Opcode, Packet, Qpn, Syndrome};
use crate::timetable::Timetable;
use std::collections::{BTreeSet, VecDeque};
use thiserror::Error;
use weir_dataplane::pfc::NEVER;
use weir_dataplane::types::Nanos;

/// Number of the first queue pair, as on Linux rxe; lower ones are for management.
pub const FIRST_QPN: u32 = 0x11;
/// Reserved bytes after the BTH of a CNP (IBTA annex A17.9.3).
const CNP_RESERVED: [u8; 16] = [0; 16];

/// Why a queue pair can not be made or connected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum QpError {
    /// The MTU is not one of the five.
    #[error("path MTU {0}: it is 256, 512, 1024, 2048 or 4096")]
    Mtu(u16),
    /// The window is outside 1 to 2^22 packets.
    #[error("window of {0} packets: it is 1 to 4194304, a quarter of the PSN space")]
    Window(u32),
    /// A completion queue of another adapter.
    #[error("unknown completion queue {0:?}")]
    UnknownCq(CqId),
    /// No queue pair has this number.
    #[error("no queue pair {0:?}")]
    UnknownQp(Qpn),
    /// It is connected already.
    #[error("queue pair {0:?} is connected")]
    Connected(Qpn),
    /// All numbers below those of datagram queue pairs are taken.
    #[error("no queue pair number is left")]
    Numbers,
    /// Source and destination are not both IPv4 or both IPv6.
    #[error("source and destination address are of two families")]
    Family,
}

/// Something the owner of a queue pair should know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The peer saw congestion: rate control should cut. CNPs between two polls are one event.
    Cnp(Qpn),
    /// The queue pair failed for this reason, on one side or the other.
    QpFailed(Qpn, Failure),
}

impl Event {
    /// The queue pair it is about.
    pub fn qpn(self) -> Qpn {
        match self {
            Self::Cnp(qpn) | Self::QpFailed(qpn, _) => qpn,
        }
    }
}

/// What ended a queue pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// A request of this side failed.
    Request(Status),
    /// A request of the peer was refused.
    Response,
}

/// What a frame from [`Hca::poll_transmit`] is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TxKind {
    /// A request or READ response packet: it is paced and counts for DCQCN's byte counter.
    Data,
    /// ACK or NAK.
    Ack,
    /// Congestion notification.
    Cnp,
}

/// A frame to be sent, without FCS; the bytes are valid until the next call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transmit<'a> {
    /// Queue pair it belongs to.
    pub qpn: Qpn,
    /// What it is.
    pub kind: TxKind,
    /// Priority of its traffic class.
    pub priority: u8,
    /// The frame.
    pub bytes: &'a [u8],
}

/// What an adapter has seen; only grows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Frames handed in.
    pub rx_frames: u64,
    /// Frames of other protocols.
    pub rx_not_roce: u64,
    /// Frames with a wrong ICRC.
    pub rx_bad_icrc: u64,
    /// Frames malformed in another way.
    pub rx_malformed: u64,
    /// Frames for no queue pair here, or not from its peer, or of another partition.
    pub rx_no_matching_qp: u64,
    /// Frames for a queue pair that has failed.
    pub rx_not_ready: u64,
    /// Packets of another transport service than RC and UD, or not that of their queue pair.
    pub rx_unsupported: u64,
    /// Responses to READs and atomics that nobody asked for.
    pub rx_unasked: u64,
    /// Requests in order.
    pub rx_requests: u64,
    /// Requests seen before.
    pub rx_duplicates: u64,
    /// Requests ahead of the expected PSN.
    pub rx_out_of_sequence: u64,
    /// Requests that found no receive buffer.
    pub rx_rnr: u64,
    /// Frames marked CE.
    pub rx_ce: u64,
    /// CNPs received.
    pub rx_cnp: u64,
    /// Answers that asked for a sequence to be sent again.
    pub rx_nak_sequence: u64,
    /// Answers that said that the peer had no room, and when to try again.
    pub rx_nak_rnr: u64,
    /// Request packets sent.
    pub tx_data: u64,
    /// Those of them sent again.
    pub tx_retransmitted: u64,
    /// READ response packets sent.
    pub tx_read_responses: u64,
    /// Datagrams taken.
    pub rx_datagrams: u64,
    /// Datagrams sent.
    pub tx_datagrams: u64,
    /// ACKs and NAKs sent.
    pub tx_acks: u64,
    /// Gaps named with a NAK.
    pub tx_nak_sequence: u64,
    /// CNPs sent.
    pub tx_cnp: u64,
    /// Acknowledgements overdue.
    pub timeouts: u64,
}

/// The adapter.
#[derive(Debug)]
pub struct Hca {
    first_qpn: u32,
    qps: Vec<Qp>,
    /// Queue pairs that are to send a CNP, and those that owe an acknowledge packet.
    cnps: BTreeSet<usize>,
    acks: BTreeSet<usize>,
    /// When each may send data, by its priority, and when an acknowledgement is overdue.
    data: Timetable,
    pub(super) ud: Vec<UdQp>,
    pub(super) cqs: Vec<Cq>,
    pub(super) memory: Memory,
    events: VecDeque<Event>,
    pub(super) counters: Counters,
    /// Priorities stopped by PFC, bit p for priority p.
    pub(super) paused: u8,
    /// For each kind of frame, the queue pair after the one served last.
    cursors: [usize; 3],
    /// The same for datagrams.
    pub(super) ud_cursor: usize,
    /// Datagrams go before connections this time; it changes with every data frame.
    datagrams_first: bool,
    pub(super) ip_id: u16,
    pub(super) frame: Vec<u8>,
}

impl Default for Hca {
    fn default() -> Self {
        Self::new()
    }
}

impl Hca {
    /// An adapter without queue pairs.
    pub fn new() -> Self {
        Self::with_first_qpn(FIRST_QPN)
    }

    /// An adapter whose queue pairs count from this number, below [`FIRST_UD_QPN`].
    pub fn with_first_qpn(first_qpn: u32) -> Self {
        Self {
            first_qpn,
            qps: Vec::new(),
            cnps: BTreeSet::new(),
            acks: BTreeSet::new(),
            data: Timetable::default(),
            ud: Vec::new(),
            cqs: Vec::new(),
            memory: Memory::default(),
            events: VecDeque::new(),
            counters: Counters::default(),
            paused: 0,
            cursors: [0; 3],
            ud_cursor: 0,
            datagrams_first: false,
            ip_id: 0,
            frame: Vec::new(),
        }
    }

    /// A completion queue of `depth` entries.
    pub fn create_cq(&mut self, depth: usize) -> CqId {
        self.cqs.push(Cq::new(depth));
        CqId(self.cqs.len() - 1)
    }

    /// A completion queue has room for so many entries from now on; those that are in it stay. Without effect on one of another
    /// adapter.
    pub fn resize_cq(&mut self, cq: CqId, depth: usize) {
        if let Some(cq) = self.cqs.get_mut(cq.0) {
            cq.resize(depth);
        }
    }

    /// Registers memory at the addresses `addr ..`; `None` if they pass the end of the address space.
    pub fn register(&mut self, addr: u64, bytes: Vec<u8>, access: Access) -> Option<Mr> {
        self.memory.register(addr, bytes, access, None)
    }

    /// The same under a remote key of the owner's choice; `None`, too, if it is taken.
    pub fn register_as(&mut self, rkey: u32, addr: u64, bytes: Vec<u8>, access: Access) -> Option<Mr> {
        self.memory.register(addr, bytes, access, Some(rkey))
    }

    /// Ends a registration. Requests that still use it fail with a protection status.
    pub fn deregister(&mut self, lkey: u32) -> Option<Vec<u8>> {
        self.memory.deregister(lkey)
    }

    /// Registered bytes.
    pub fn memory(&self, sge: Sge) -> Option<&[u8]> {
        self.memory.local(sge)
    }

    /// Registered bytes, for writing.
    pub fn memory_mut(&mut self, sge: Sge) -> Option<&mut [u8]> {
        self.memory.local_mut(sge)
    }

    /// A queue pair that takes receive buffers and waits to be connected.
    pub fn create_qp(&mut self, config: QpConfig) -> Result<Qpn, QpError> {
        if !matches!(config.mtu, 256 | 512 | 1024 | 2048 | 4096) {
            return Err(QpError::Mtu(config.mtu));
        }
        if !(1..=1 << 22).contains(&config.window) {
            return Err(QpError::Window(config.window));
        }
        if let Some(cq) = [config.send_cq, config.recv_cq].into_iter().find(|cq| cq.0 >= self.cqs.len()) {
            return Err(QpError::UnknownCq(cq));
        }
        let qpn = Qpn(self.first_qpn.saturating_add(self.qps.len() as u32));
        if qpn.0 >= FIRST_UD_QPN {
            return Err(QpError::Numbers);
        }
        self.qps.push(Qp::new(qpn, config));
        self.data.make_room(self.qps.len());
        Ok(qpn)
    }

    /// Connects a queue pair: from now on it sends and receives.
    pub fn connect(&mut self, qpn: Qpn, path: Path) -> Result<(), QpError> {
        let at = self.index(qpn).ok_or(QpError::UnknownQp(qpn))?;
        if path.outer(path.data, 0).is_none() {
            return Err(QpError::Family);
        }
        let qp = &mut self.qps[at];
        if qp.path.is_some() {
            return Err(QpError::Connected(qpn));
        }
        qp.connect(path);
        self.changed(at);
        Ok(())
    }

    /// Returns a queue pair to the state after its creation, to be connected anew. Work requests
    /// that are not done are forgotten without completions, as verbs do.
    pub fn reset(&mut self, qpn: Qpn) -> Result<(), QpError> {
        let at = self.index(qpn).ok_or(QpError::UnknownQp(qpn))?;
        self.events.retain(|event| event.qpn() != qpn);
        self.data.set(at, self.qps[at].priority(), NEVER, NEVER);
        self.cnps.remove(&at);
        self.acks.remove(&at);
        self.qps[at] = Qp::new(qpn, self.qps[at].config);
        Ok(())
    }

    fn index(&self, qpn: Qpn) -> Option<usize> {
        let at = qpn.0.checked_sub(self.first_qpn)? as usize;
        (at < self.qps.len()).then_some(at)
    }

    /// Something has changed of a queue pair that is connected: notes what it has to do, and when.
    fn changed(&mut self, at: usize) {
        let qp = &self.qps[at];
        let (due, overdue) = (qp.due().unwrap_or(NEVER), qp.requester.ack_deadline().unwrap_or(NEVER));
        self.data.set(at, qp.priority(), due, overdue);
        if qp.responder.owes() {
            self.acks.insert(at);
        } else {
            self.acks.remove(&at);
        }
    }

    /// Queues a send or write.
    pub fn post_send(&mut self, qpn: Qpn, wr: SendWr) -> Result<(), PostError> {
        let at = self.index(qpn).ok_or(PostError::UnknownQp(qpn))?;
        let qp = &mut self.qps[at];
        if qp.failed || qp.path.is_none() {
            return Err(PostError::NotReady);
        }
        if wr.sge.len > MAX_MESSAGE {
            return Err(PostError::TooLong);
        }
        self.memory.local(wr.sge).ok_or(PostError::Protection)?;
        let posted = qp.requester.post(wr);
        self.changed(at);
        posted.then_some(()).ok_or(PostError::QueueFull)
    }

    /// Queues a receive buffer.
    pub fn post_recv(&mut self, qpn: Qpn, wr: RecvWr) -> Result<(), PostError> {
        if let Some(at) = self.ud_index(qpn) {
            return self.post_recv_ud(at, wr);
        }
        let at = self.index(qpn).ok_or(PostError::UnknownQp(qpn))?;
        let qp = &mut self.qps[at];
        if qp.failed {
            return Err(PostError::NotReady);
        }
        self.memory.receive_buffer(wr.sge).ok_or(PostError::Protection)?;
        qp.responder.post(wr).then_some(()).ok_or(PostError::QueueFull)
    }

    /// The next completion.
    pub fn poll_cq(&mut self, cq: CqId) -> Option<Completion> {
        self.cqs.get_mut(cq.0)?.poll()
    }

    /// Completions lost because the queue was full.
    pub fn cq_overruns(&self, cq: CqId) -> Option<u64> {
        Some(self.cqs.get(cq.0)?.overruns)
    }

    /// The next event.
    pub fn poll_event(&mut self) -> Option<Event> {
        let event = self.events.pop_front()?;
        if let Event::Cnp(qpn) = event
            && let Some(at) = self.index(qpn)
        {
            self.qps[at].cnp_reported = false;
        }
        Some(event)
    }

    /// Sets the rate of a queue pair in bits/s on the wire, for the packets to come.
    pub fn set_rate(&mut self, qpn: Qpn, rate: u64) {
        if let Some(at) = self.index(qpn) {
            self.qps[at].requester.pacer.set_rate(rate);
            self.changed(at);
        }
    }

    /// Rate of a queue pair in bits/s.
    pub fn rate(&self, qpn: Qpn) -> Option<u64> {
        Some(self.qps[self.index(qpn)?].requester.pacer.rate())
    }

    /// Sets the least time between two CNPs of a queue pair, ns.
    pub fn set_cnp_interval(&mut self, qpn: Qpn, interval: Nanos) {
        if let Some(at) = self.index(qpn) {
            self.qps[at].np.set_interval(interval);
        }
    }

    /// Least time between two CNPs of a queue pair, ns.
    pub fn cnp_interval(&self, qpn: Qpn) -> Option<Nanos> {
        Some(self.qps[self.index(qpn)?].np.interval())
    }

    /// Work requests of a queue pair that may be in flight, for the packets to come; 0 sends nothing. New
    /// queue pairs have no limit (`u32::MAX`).
    pub fn set_outstanding(&mut self, qpn: Qpn, requests: u32) {
        if let Some(at) = self.index(qpn) {
            self.qps[at].requester.set_outstanding(requests);
            self.changed(at);
        }
    }

    /// Priorities that PFC holds back, bit p for priority p: nothing of theirs is sent.
    pub fn set_paused(&mut self, priorities: u8) {
        self.paused = priorities;
    }

    /// Priorities that PFC holds back.
    pub(crate) fn paused(&self) -> u8 {
        self.paused
    }

    /// The frame written last.
    pub(crate) fn frame(&self) -> &[u8] {
        &self.frame
    }

    /// What was seen so far.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Takes a frame from the wire (without FCS). What can not be used is counted.
    pub fn handle_frame(&mut self, bytes: &[u8], now: Nanos) {
        self.counters.rx_frames += 1;
        let frame = match Frame::parse(bytes) {
            Ok(frame) => frame,
            Err(e) => return self.count_refused(e),
        };
        let bth = &frame.packet.bth;
        if let Some(at) = self.ud_index(bth.dest_qp) {
            return self.datagram(at, bytes, &frame);
        }
        let at = self.index(bth.dest_qp).filter(|&at| {
            let qp = &self.qps[at];
            // Only the low 15 bits are the key, bit 15 is full or limited membership.
            let same_partition = (bth.pkey ^ qp.config.pkey) & 0x7fff == 0;
            same_partition && qp.path.is_some_and(|path| path.matches(&frame.outer))
        });
        let Some(at) = at else {
            self.counters.rx_no_matching_qp += 1;
            return;
        };
        if self.qps[at].failed {
            self.counters.rx_not_ready += 1;
            return;
        }
        if frame.outer.ip.ecn == ECN_CE && bth.opcode != Opcode::CNP {
            self.counters.rx_ce += 1;
            if self.qps[at].np.on_ce(now) {
                self.cnps.insert(at);
            }
        }
        match bth.opcode {
            Opcode::CNP => self.congestion(at),
            Opcode::RC_ACK => self.answer(at, &frame.packet, now),
            // Responses to READs and atomics, which nobody here asks for: no requests, whatever their PSN.
            Opcode(0x0d..=0x10 | 0x12) => self.counters.rx_unasked += 1,
            Opcode(0..0x20) => self.request(at, &frame.packet),
            _ => self.counters.rx_unsupported += 1,
        }
        self.changed(at);
    }

    #[cold]
    fn count_refused(&mut self, error: ParseError) {
        *match error {
            ParseError::NotRoce => &mut self.counters.rx_not_roce,
            ParseError::Icrc => &mut self.counters.rx_bad_icrc,
            _ => &mut self.counters.rx_malformed,
        } += 1;
    }

    fn congestion(&mut self, at: usize) {
        self.counters.rx_cnp += 1;
        let qp = &mut self.qps[at];
        if !std::mem::replace(&mut qp.cnp_reported, true) {
            self.events.push_back(Event::Cnp(qp.qpn));
        }
    }

    fn answer(&mut self, at: usize, packet: &Packet<'_>, now: Nanos) {
        let Some(aeth) = packet.ext.aeth else { return };
        let syndrome = Syndrome::decode(aeth.syndrome);
        match syndrome {
            Syndrome::Nak(Nak::Sequence) => self.counters.rx_nak_sequence += 1,
            Syndrome::Rnr(_) => self.counters.rx_nak_rnr += 1,
            _ => {}
        }
        let qp = &mut self.qps[at];
        let result = qp.requester.answer(packet.bth.psn, syndrome, now);
        qp.complete_sends(&mut self.cqs);
        if let Err(status) = result {
            self.fail_request(at, 0, status);
        }
    }

    fn request(&mut self, at: usize, packet: &Packet<'_>) {
        let qp = &mut self.qps[at];
        let qpn = qp.qpn;
        match qp.responder.request(packet, &mut self.memory) {
            Outcome::Taken => self.counters.rx_requests += 1,
            Outcome::Received { wr, verb, len, imm } => {
                self.counters.rx_requests += 1;
                let completion = Completion {
                    wr_id: wr.wr_id,
                    qpn,
                    verb,
                    status: Status::Success,
                    len,
                    imm,
                    src_qp: None,
                };
                self.cqs[qp.config.recv_cq.0].push(completion);
            }
            Outcome::Duplicate => self.counters.rx_duplicates += 1,
            Outcome::OutOfSequence(named) => {
                self.counters.rx_out_of_sequence += 1;
                self.counters.tx_nak_sequence += u64::from(named);
            }
            Outcome::NotReady => self.counters.rx_rnr += 1,
            Outcome::Fatal(status) => {
                qp.flush_sends(0, Status::Flushed, &mut self.cqs);
                qp.flush_receives(status.unwrap_or(Status::Flushed), &mut self.cqs);
                self.events.push_back(Event::QpFailed(qpn, Failure::Response));
            }
        }
    }

    /// The `nth` oldest request of a queue pair failed.
    #[cold]
    fn fail_request(&mut self, at: usize, nth: usize, status: Status) {
        let qp = &mut self.qps[at];
        qp.flush_sends(nth, status, &mut self.cqs);
        qp.flush_receives(Status::Flushed, &mut self.cqs);
        self.events.push_back(Event::QpFailed(qp.qpn, Failure::Request(status)));
    }

    /// No queue pair fails if it has to send again so often without progress.
    pub fn survives(&self, times: u64) -> bool {
        self.qps.iter().all(|qp| qp.requester.survives(times))
    }

    /// The next frame to be sent at `now`, if any: CNPs first, then answers, then requests and
    /// datagrams whose time has come, queue pairs in turn.
    pub fn poll_transmit(&mut self, now: Nanos) -> Option<Transmit<'_>> {
        let (qpn, kind, priority) = self
            .in_turn(TxKind::Cnp, now)
            .or_else(|| self.in_turn(TxKind::Ack, now))
            .or_else(|| self.send_data(now))?;
        Some(Transmit { qpn, kind, priority, bytes: &self.frame })
    }

    /// Connections and datagrams in turn, where both have something to send.
    fn send_data(&mut self, now: Nanos) -> Option<(Qpn, TxKind, u8)> {
        self.datagrams_first = !self.datagrams_first;
        if self.datagrams_first {
            self.send_datagram(now).or_else(|| self.in_turn(TxKind::Data, now))
        } else {
            self.in_turn(TxKind::Data, now).or_else(|| self.send_datagram(now))
        }
    }

    /// Writes a frame of this kind for the queue pair whose turn it is.
    fn in_turn(&mut self, kind: TxKind, now: Nanos) -> Option<(Qpn, TxKind, u8)> {
        // One whose memory has gone sends nothing, and has less to send than before.
        while let Some(at) = self.next_turn(kind, now) {
            let served = self.send(at, kind, now);
            self.changed(at);
            if served.is_some() {
                self.cursors[kind as usize] = at + 1;
                return served;
            }
        }
        None
    }

    /// The queue pair whose turn it is to send a frame of this kind: they follow each other, beginning after the one served last.
    fn next_turn(&self, kind: TxKind, now: Nanos) -> Option<usize> {
        let cursor = self.cursors[kind as usize];
        let next = match kind {
            TxKind::Data => {
                let first = |places| self.data.first_frame(places, self.paused, now);
                first(cursor..self.qps.len()).or_else(|| first(0..cursor))
            }
            TxKind::Cnp | TxKind::Ack => {
                let waiting = if kind == TxKind::Cnp { &self.cnps } else { &self.acks };
                let in_turn = waiting.range(cursor..).chain(waiting.range(..cursor));
                in_turn.copied().find(|at| self.may_send(*at, kind))
            }
        };
        debug_assert_eq!(next, self.ask_all(kind, now));
        next
    }

    /// Frames of this kind of a queue pair are not held back by PFC.
    fn may_send(&self, at: usize, kind: TxKind) -> bool {
        self.qps[at].path.is_some_and(|path| self.paused >> (path.class(kind).priority & 7) & 1 == 0)
    }

    /// What [`Self::next_turn`] finds, by asking each of them.
    fn ask_all(&self, kind: TxKind, now: Nanos) -> Option<usize> {
        let cursor = self.cursors[kind as usize];
        let has = |at: &usize| match kind {
            TxKind::Cnp => self.cnps.contains(at),
            TxKind::Ack => self.qps[*at].responder.owes(),
            TxKind::Data => self.qps[*at].due().is_some_and(|due| due <= now),
        };
        (cursor..self.qps.len()).chain(0..cursor).find(|at| has(at) && self.may_send(*at, kind))
    }

    /// Writes a frame of this kind for one queue pair that PFC does not hold back, if it has one to send.
    fn send(&mut self, at: usize, kind: TxKind, now: Nanos) -> Option<(Qpn, TxKind, u8)> {
        let qp = &mut self.qps[at];
        let path = qp.path?;
        let class = path.class(kind);
        let mut response = false;
        let mut bth = Bth { pkey: qp.config.pkey, ..Bth::new(Opcode::CNP, path.dest_qp, path.send_psn) };
        let (ext, payload): (Extensions, &[u8]) = match kind {
            TxKind::Cnp => {
                self.cnps.remove(&at);
                bth.becn = true;
                bth.psn = Default::default();
                (Extensions::default(), &CNP_RESERVED)
            }
            TxKind::Ack => {
                let (psn, aeth) = qp.responder.answer()?;
                (bth.opcode, bth.psn) = (Opcode::RC_ACK, psn);
                (Extensions { aeth: Some(aeth), ..Extensions::default() }, &[])
            }
            TxKind::Data => {
                if let Some(part) = qp.next_response(now) {
                    // Looked up when the request came, but the memory may have gone since.
                    let Some(payload) = self.memory.remote(part.rkey, part.va, part.len) else {
                        qp.responder.refuse_read();
                        return None;
                    };
                    (bth.opcode, bth.psn) = (part.opcode, part.psn);
                    response = true;
                    (Extensions { aeth: part.aeth, ..Extensions::default() }, payload)
                } else {
                    let segment = qp.requester.segment(now)?;
                    let Some(payload) = self.memory.local(segment.sge) else {
                        self.fail_request(at, segment.request, Status::LocalProtection);
                        return None;
                    };
                    (bth.opcode, bth.psn, bth.ack_req) = (segment.opcode, segment.psn, segment.ack_req);
                    (segment.ext, payload)
                }
            }
        };
        let outer = path.outer(class, self.ip_id)?;
        self.ip_id = self.ip_id.wrapping_add(1);
        Frame { outer, packet: Packet { bth, ext, payload } }.emit(&mut self.frame);
        match kind {
            TxKind::Cnp => self.counters.tx_cnp += 1,
            TxKind::Ack => self.counters.tx_acks += 1,
            TxKind::Data if response => {
                qp.response_sent(self.frame.len() as u64, now);
                self.counters.tx_read_responses += 1;
            }
            TxKind::Data => {
                qp.response_last = false;
                let again = qp.requester.sent(self.frame.len() as u64, bth.ack_req, now);
                self.counters.tx_data += 1;
                self.counters.tx_retransmitted += u64::from(again);
            }
        }
        Some((qp.qpn, kind, class.priority))
    }

    /// The earliest time at which [`Self::handle_timeout`] or [`Self::poll_transmit`] has something to
    /// do. A time that is not in the future means that a frame waits for the link or for PFC.
    pub fn next_timeout(&self) -> Option<Nanos> {
        let datagrams = self.ud.iter().filter_map(UdQp::ready_at);
        Some(datagrams.fold(self.data.due(0, NEVER), Nanos::min)).filter(|at| *at != NEVER)
    }

    /// The earliest such time after `now`.
    pub fn next_timeout_after(&self, now: Nanos) -> Option<Nanos> {
        let datagrams = self.ud.iter().filter_map(UdQp::ready_at).filter(|at| *at > now);
        Some(datagrams.fold(self.data.after(now), Nanos::min)).filter(|at| *at != NEVER)
    }

    /// Sends again what was not acknowledged in time, or gives up.
    pub fn handle_timeout(&mut self, now: Nanos) {
        let mut from = 0;
        while let Some(at) = self.data.first_timer(from..self.qps.len(), now) {
            match self.qps[at].requester.handle_timeout(now) {
                Ok(fired) => self.counters.timeouts += u64::from(fired),
                Err(status) => {
                    self.counters.timeouts += 1;
                    self.fail_request(at, 0, status);
                }
            }
            self.changed(at);
            from = at + 1;
        }
    }
}
