//! The sending half of a reliable connection: work requests, their segmentation, their pace (IBTA 9.7).

use super::pacer::Pacer;
use super::qp::QpConfig;
use super::shape::Shape;
use super::verbs::{SendWr, Sge, Status};
use super::wire::{Extensions, Opcode, Reth, Syndrome};
use crate::rc::go_back_n::{GoBackN, Limits};
use crate::rc::psn::Psn;
use std::collections::VecDeque;
use weir_dataplane::types::Nanos;

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
    depth: usize,
    flight: GoBackN,
    /// After the last packet posted.
    tail: u64,
    queue: VecDeque<Posted>,
    /// Requests that may be in flight at one time.
    outstanding: u32,
    pub pacer: Pacer,
}

impl Requester {
    pub fn new(config: &QpConfig) -> Self {
        let limits = Limits {
            window: config.window,
            retry_cnt: Some(config.retry_cnt),
            rnr_retry: config.rnr_retry,
            ack_every: Limits::ack_every_of(config.window),
            ack_timeout: config.ack_timeout,
            doublings: 0,
        };
        Self {
            mtu: u32::from(config.mtu),
            depth: config.sq_depth,
            flight: GoBackN::new(limits, Psn::default()),
            tail: 0,
            queue: VecDeque::with_capacity(config.sq_depth),
            outstanding: u32::MAX,
            pacer: Pacer::new(config.rate).with_slack(config.slack),
        }
    }

    /// The PSN of the first packet, for a connection that is only now set up.
    pub fn start_at(&mut self, psn: Psn) {
        self.flight.start_at(psn);
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
        self.queue.partition_point(|p| p.end <= self.flight.next())
    }

    /// When the next packet may leave, if one waits and the window is open.
    pub fn ready_at(&self) -> Option<Nanos> {
        let open = self.flight.is_open(self.tail)
            && (self.outstanding == u32::MAX || self.request_of_next() < self.outstanding as usize);
        open.then(|| self.pacer.ready().max(self.flight.rnr_until()))
    }

    /// When an acknowledgement is overdue.
    pub fn ack_deadline(&self) -> Option<Nanos> {
        self.flight.ack_deadline()
    }

    /// The packet to be sent at `now`, if any. It counts as sent only after [`Self::sent`].
    pub fn segment(&self, now: Nanos) -> Option<Segment> {
        self.ready_at().filter(|&at| at <= now)?;
        let at = self.request_of_next();
        let Posted { wr, first, end } = self.queue.get(at)?;
        // Messages have at most 2^31 bytes, so offsets fit.
        let next = self.flight.next();
        let offset = ((next - first) * u64::from(self.mtu)) as u32;
        let len = (wr.sge.len - offset).min(self.mtu);
        let (is_first, is_last) = (next == *first, next + 1 == *end);
        let imm = wr.op.imm().filter(|_| is_last);
        let reth = wr.op.target().filter(|_| is_first);
        let reth = reth.map(|(va, rkey)| Reth { va, rkey, len: wr.sge.len });
        Some(Segment {
            request: at,
            opcode: Shape { first: is_first, last: is_last, write: wr.op.target().is_some() }
                .opcode(imm.is_some()),
            psn: self.flight.psn(),
            ack_req: is_last || self.flight.asks(),
            ext: Extensions { reth, imm, ..Extensions::default() },
            sge: Sge { addr: wr.sge.addr + u64::from(offset), len, ..wr.sge },
        })
    }

    /// The packet from [`Self::segment`] left as a frame of `len` bytes. `true`: it had been sent before.
    pub fn sent(&mut self, len: u64, ack_req: bool, now: Nanos) -> bool {
        let again = self.flight.sent(ack_req, now);
        self.pacer.sent(len, now);
        again
    }

    /// An acknowledge packet arrived. Error: the oldest request failed with this status.
    pub fn answer(&mut self, psn: Psn, syndrome: Syndrome, now: Nanos) -> Result<(), Status> {
        self.flight.answer(psn, syndrome, now).map(|_| ()).map_err(Status::from)
    }

    /// See [`GoBackN::survives`].
    pub fn survives(&self, times: u64) -> bool {
        self.flight.survives(times)
    }

    /// `Ok(true)`: an acknowledgement was overdue and sending starts again.
    pub fn handle_timeout(&mut self, now: Nanos) -> Result<bool, Status> {
        self.flight.handle_timeout(now).map_err(Status::from)
    }

    /// Takes the oldest request whose packets are all acknowledged.
    pub fn pop_acknowledged(&mut self) -> Option<SendWr> {
        self.queue.front().filter(|p| p.end <= self.flight.una())?;
        self.queue.pop_front().map(|p| p.wr)
    }

    /// Takes all requests, oldest first, after a failure. Nothing more is sent.
    pub fn abandon(&mut self) -> impl Iterator<Item = SendWr> + '_ {
        self.flight.abandon(self.tail);
        self.queue.drain(..).map(|p| p.wr)
    }
}
