//! The sending half of a reliable connection: segmentation, window, go-back-N, retries (IBTA 9.7).
//!
//! Packets are counted from the first one of the connection in 64 bits and only the wire sees their
//! low 24 bits plus the start PSN, so nothing here can confuse a wrap with a step back.

use super::pacer::Pacer;
use super::psn::Psn;
use super::qp::QpConfig;
use super::verbs::{SendWr, Sge, Status};
use super::wire::{Extensions, Nak, Opcode, Reth, Syndrome, rnr_wait};
use std::collections::VecDeque;
use weir_dataplane::types::Nanos;

/// A responder that is asked for nothing stays silent, so a long message asks on its way, like
/// Linux rxe, at least this often.
const PACKETS_PER_ACK: u64 = 64;
/// `rnr_retry` that never gives up (IBTA 9.7.5.2.8).
const RNR_RETRY_FOREVER: u8 = 7;

#[derive(Debug)]
struct Posted {
    wr: SendWr,
    /// Number of its first packet.
    first: u64,
    /// Number after its last packet.
    end: u64,
}

/// One packet to be sent.
#[derive(Debug)]
pub(super) struct Segment {
    /// How many older requests are outstanding.
    pub request: usize,
    pub opcode: Opcode,
    pub psn: Psn,
    pub ack_req: bool,
    pub ext: Extensions,
    pub sge: Sge,
}

#[derive(Debug)]
pub(super) struct Requester {
    mtu: u32,
    window: u64,
    ack_every: u64,
    depth: usize,
    retry_cnt: u8,
    rnr_retry: u8,
    ack_timeout: Nanos,
    start: Psn,
    /// Oldest packet not acknowledged.
    una: u64,
    /// Next packet to send; falls back to `una` on loss.
    next: u64,
    /// After the newest packet ever sent.
    sent_end: u64,
    /// After the newest packet, since the last step back, that asked for an answer.
    asked_end: u64,
    /// After the last packet posted.
    tail: u64,
    queue: VecDeque<Posted>,
    /// Requests that may be in flight at one time.
    outstanding: u32,
    retries_left: u8,
    rnr_retries_left: u8,
    ack_deadline: Option<Nanos>,
    rnr_until: Nanos,
    pub pacer: Pacer,
}

impl Requester {
    pub fn new(config: &QpConfig) -> Self {
        let window = u64::from(config.window).clamp(1, 1 << 22);
        Self {
            mtu: u32::from(config.mtu),
            window,
            ack_every: (window / 2).clamp(1, PACKETS_PER_ACK),
            depth: config.sq_depth,
            retry_cnt: config.retry_cnt,
            rnr_retry: config.rnr_retry,
            ack_timeout: config.ack_timeout,
            start: Psn::default(),
            una: 0,
            next: 0,
            sent_end: 0,
            asked_end: 0,
            tail: 0,
            queue: VecDeque::with_capacity(config.sq_depth),
            outstanding: u32::MAX,
            retries_left: config.retry_cnt,
            rnr_retries_left: config.rnr_retry,
            ack_deadline: None,
            rnr_until: 0,
            pacer: Pacer::new(config.rate).with_slack(config.slack),
        }
    }

    /// The PSN of the first packet, for a connection that is only now set up.
    pub fn start_at(&mut self, psn: Psn) {
        self.start = psn;
    }

    /// Queues a request; `false` if the queue is full.
    pub fn post(&mut self, wr: SendWr) -> bool {
        let room = self.queue.len() < self.depth;
        if room {
            let packets = u64::from(wr.sge.len.div_ceil(self.mtu).max(1));
            self.queue.push_back(Posted { wr, first: self.tail, end: self.tail + packets });
            self.tail += packets;
        }
        room
    }

    /// Requests that may be in flight from now on (CC-003); 0 stops the queue pair.
    pub fn set_outstanding(&mut self, requests: u32) {
        self.outstanding = requests;
    }

    /// How many older requests are in flight when the next packet leaves.
    fn request_of_next(&self) -> usize {
        self.queue.partition_point(|p| p.end <= self.next)
    }

    /// When the next packet may leave, if one waits and the window is open.
    pub fn ready_at(&self) -> Option<Nanos> {
        let open = self.next < self.tail.min(self.una + self.window)
            && (self.outstanding == u32::MAX || self.request_of_next() < self.outstanding as usize);
        open.then(|| self.pacer.ready().max(self.rnr_until))
    }

    /// When an acknowledgement is overdue.
    pub fn ack_deadline(&self) -> Option<Nanos> {
        self.ack_deadline
    }

    /// The packet to be sent at `now`, if any. It counts as sent only after [`Self::sent`].
    pub fn segment(&self, now: Nanos) -> Option<Segment> {
        self.ready_at().filter(|&at| at <= now)?;
        let at = self.request_of_next();
        let Posted { wr, first, end } = self.queue.get(at)?;
        // Messages have at most 2^31 bytes, so offsets fit.
        let offset = ((self.next - first) * u64::from(self.mtu)) as u32;
        let len = (wr.sge.len - offset).min(self.mtu);
        let (is_first, is_last) = (self.next == *first, self.next + 1 == *end);
        let imm = wr.op.imm().filter(|_| is_last);
        let reth = wr.op.target().filter(|_| is_first);
        let reth = reth.map(|(va, rkey)| Reth { va, rkey, len: wr.sge.len });
        Some(Segment {
            request: at,
            opcode: opcode(wr.op.target().is_some(), is_first, is_last, imm.is_some()),
            psn: self.start.plus(self.next),
            ack_req: is_last || (self.next + 1).is_multiple_of(self.ack_every),
            ext: Extensions { reth, imm, ..Extensions::default() },
            sge: Sge { addr: wr.sge.addr + u64::from(offset), len, ..wr.sge },
        })
    }

    /// The packet from [`Self::segment`] left as a frame of `len` bytes. `true`: it had been sent before.
    pub fn sent(&mut self, len: u64, ack_req: bool, now: Nanos) -> bool {
        let again = self.next < self.sent_end;
        self.next += 1;
        self.sent_end = self.sent_end.max(self.next);
        // Only a packet that asks starts the clock, else a slow flow would time out before it has
        // asked; and only the oldest one, else a lost NAK would go unnoticed while packets flow.
        if ack_req {
            self.asked_end = self.next;
            self.ack_deadline = self.ack_deadline.or(Some(now.saturating_add(self.ack_timeout)));
        }
        self.pacer.sent(len, now);
        again
    }

    /// An acknowledge packet arrived. Error: the oldest request failed with this status.
    pub fn answer(&mut self, psn: Psn, syndrome: Syndrome, now: Nanos) -> Result<(), Status> {
        let distance = psn.since(self.start.plus(self.una));
        let Ok(distance) = u64::try_from(distance) else {
            return Ok(()); // An old answer: all it says is known.
        };
        let at = self.una + distance;
        if at >= self.sent_end {
            return Ok(()); // About a packet never sent.
        }
        match syndrome {
            Syndrome::Ack(_) => self.advance(at + 1, now),
            Syndrome::Nak(nak) => {
                self.advance(at, now);
                match nak {
                    Nak::Sequence => return self.go_back(),
                    Nak::InvalidRequest => return Err(Status::RemoteInvalidRequest),
                    Nak::RemoteAccess => return Err(Status::RemoteAccess),
                    Nak::RemoteOperational => return Err(Status::RemoteOperational),
                }
            }
            Syndrome::Rnr(timer) => {
                self.advance(at, now);
                return self.wait_for_receiver(timer, now);
            }
            Syndrome::Reserved(_) => {}
        }
        Ok(())
    }

    /// All packets before `una` are acknowledged (cumulative, DEV-71).
    fn advance(&mut self, una: u64, now: Nanos) {
        if una == self.una {
            return;
        }
        self.una = una;
        self.next = self.next.max(una);
        self.retries_left = self.retry_cnt;
        self.rnr_retries_left = self.rnr_retry;
        self.ack_deadline = (self.una < self.asked_end).then(|| now.saturating_add(self.ack_timeout));
    }

    /// Sends again from the oldest packet not acknowledged, if retries are left.
    fn go_back(&mut self) -> Result<(), Status> {
        if self.next == self.una {
            return Ok(()); // On its way back already.
        }
        self.retries_left = self.retries_left.checked_sub(1).ok_or(Status::RetryExceeded)?;
        self.step_back();
        Ok(())
    }

    fn step_back(&mut self) {
        self.next = self.una;
        self.asked_end = self.una;
        self.ack_deadline = None;
    }

    fn wait_for_receiver(&mut self, timer: u8, now: Nanos) -> Result<(), Status> {
        if self.rnr_retry != RNR_RETRY_FOREVER {
            self.rnr_retries_left = self.rnr_retries_left.checked_sub(1).ok_or(Status::RnrRetryExceeded)?;
        }
        self.step_back();
        self.rnr_until = now.saturating_add(rnr_wait(timer));
        Ok(())
    }

    /// `Ok(true)`: an acknowledgement was overdue and sending starts again.
    pub fn handle_timeout(&mut self, now: Nanos) -> Result<bool, Status> {
        if self.ack_deadline.is_none_or(|at| at > now) {
            return Ok(false);
        }
        self.go_back().map(|()| true)
    }

    /// Takes the oldest request whose packets are all acknowledged.
    pub fn pop_acknowledged(&mut self) -> Option<SendWr> {
        self.queue.front().filter(|p| p.end <= self.una)?;
        self.queue.pop_front().map(|p| p.wr)
    }

    /// Takes all requests, oldest first, after a failure. Nothing more is sent.
    pub fn abandon(&mut self) -> impl Iterator<Item = SendWr> + '_ {
        self.ack_deadline = None;
        self.next = self.tail;
        self.queue.drain(..).map(|p| p.wr)
    }
}

/// Opcode of a packet by its place in the message.
fn opcode(write: bool, first: bool, last: bool, imm: bool) -> Opcode {
    let send = match (first, last, imm) {
        (true, true, false) => Opcode::RC_SEND_ONLY,
        (true, true, true) => Opcode::RC_SEND_ONLY_IMM,
        (false, true, false) => Opcode::RC_SEND_LAST,
        (false, true, true) => Opcode::RC_SEND_LAST_IMM,
        (true, false, _) => Opcode::RC_SEND_FIRST,
        (false, false, _) => Opcode::RC_SEND_MIDDLE,
    };
    // The write opcodes follow the send opcodes in the same order.
    if write { Opcode(send.0 + Opcode::RC_WRITE_FIRST.0) } else { send }
}
