//! A host of a collective: one queue pair of endpoint's adapter, as stock verbs have it.

use std::collections::VecDeque;
use weir_dataplane::types::Nanos;
use weir_endpoint::roce::cq::CqId;
use weir_endpoint::roce::hca::Hca;
use weir_endpoint::roce::memory::{Access, Mr};
use weir_endpoint::roce::qp::{Path, QpConfig};
use weir_endpoint::roce::verbs::{RecvWr, SendOp, SendWr, Sge, Status, Verb};
use weir_endpoint::roce::wire::Qpn;
use weir_inc::immediate::{Immediate, Primitive};
use weir_inc::remote::Memory;

/// A message to be sent.
#[derive(Clone, Debug)]
pub struct Message {
    pub imm: Option<u32>,
    pub bytes: Vec<u8>,
    /// Results this rank gets for it.
    pub results: u64,
}

impl Message {
    pub fn data(bytes: Vec<u8>) -> Self {
        Self { imm: None, bytes, results: 1 }
    }

    /// Names the operation of what follows.
    pub fn header(operation: Primitive) -> Self {
        Self { imm: Some(operation.encode()), bytes: Vec::new(), results: 0 }
    }

    pub fn barrier() -> Self {
        Self { results: 1, ..Self::header(Primitive::Barrier) }
    }

    pub fn with(self, operation: Primitive) -> Self {
        Self { imm: Some(operation.encode()), ..self }
    }

    pub fn silent(self) -> Self {
        Self { results: 0, ..self }
    }
}

/// A message received.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Received {
    pub bytes: Vec<u8>,
    pub imm: Option<u32>,
}

/// Makes message n, until there are no more.
type Script = Box<dyn FnMut(u64) -> Option<Message>>;
/// Looks at result n; `false`: it need not be kept.
type Check = Box<dyn FnMut(u64, &[u8], Option<u32>) -> bool>;

const SLOTS: u64 = 64;
const MESSAGE: u32 = 8192;
const BASE: u64 = 0x10_0000;

/// How a rank contributes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    Send,
    /// WRITEs into this memory, with immediate data where there is a word to say.
    Write(Memory, Option<u32>),
    /// WRITEs that name where the result goes.
    Mirror,
}

/// Where results may be written.
pub const RESULTS: Memory = Memory { addr: BASE + SLOTS * MESSAGE as u64, rkey: 0x1234, len: SLOTS * 256 };

pub struct Rank {
    pub rank: u16,
    mtu: u16,
    pub by: By,
    /// Lengths of messages whose results are to come.
    lengths: VecDeque<u32>,
    /// Packets of results so far.
    packets: u64,

    hca: Hca,
    cq: CqId,
    qpn: Qpn,
    mr: Mr,
    script: Script,
    pub check: Check,
    /// Results outstanding at most.
    pub ahead: u64,
    waiting: Option<Message>,
    posted: u64,
    acknowledged: u64,
    expected: u64,
    pub results: u64,
    pub received: Vec<Received>,
    /// The first error completion.
    pub error: Option<Status>,
    /// The word of a failed job.
    pub told: Option<Immediate>,
    pub done: bool,
    /// Nothing in, nothing out.
    pub killed: bool,
    /// Sends nothing before.
    pub sleeps_until: Nanos,
    /// Receive buffers are not posted again before.
    pub deaf_until: Nanos,
    free: Vec<u64>,
    slot_in: u64,
}

impl std::fmt::Debug for Rank {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { rank, posted, acknowledged, expected, results, error, .. } = self;
        write!(
            f,
            "rank {rank}: {posted} posted, {acknowledged} acknowledged, {results} of {expected} results, {error:?}"
        )
    }
}

impl Rank {
    pub fn new(rank: u16, mtu: u16, path: Path) -> Self {
        Self::with_timeout(rank, mtu, path, 2_000_000)
    }

    /// `ack_timeout` in ns.
    pub fn with_timeout(rank: u16, mtu: u16, path: Path, ack_timeout: Nanos) -> Self {
        let mut hca = Hca::new();
        let cq = hca.create_cq(4 * SLOTS as usize);
        let access = Access { local_write: true, remote_write: true, ..Access::default() };
        // Sends in the first half, receives in the second.
        let memory = vec![0; (2 * SLOTS * u64::from(MESSAGE)) as usize];
        let mr = hca.register_as(RESULTS.rkey, BASE, memory, access).unwrap();
        let config = QpConfig {
            mtu,
            ack_timeout,
            sq_depth: SLOTS as usize,
            rq_depth: SLOTS as usize,
            ..QpConfig::new(cq, cq)
        };
        let qpn = hca.create_qp(config).unwrap();
        let mut new = Self {
            rank,
            mtu,
            by: By::Send,
            lengths: VecDeque::new(),
            packets: 0,
            hca,
            cq,
            qpn,
            mr,
            script: Box::new(|_| None),
            check: Box::new(|_, _, _| true),
            ahead: 16,
            waiting: None,
            posted: 0,
            acknowledged: 0,
            expected: 0,
            results: 0,
            received: Vec::new(),
            error: None,
            told: None,
            done: false,
            killed: false,
            sleeps_until: 0,
            deaf_until: 0,
            free: (0..SLOTS).collect(),
            slot_in: 0,
        };
        new.post_receives();
        new.hca.connect(qpn, path).unwrap();
        new
    }

    pub fn play(&mut self, script: impl FnMut(u64) -> Option<Message> + 'static) {
        self.script = Box::new(script);
    }

    pub fn play_all(&mut self, messages: Vec<Message>) {
        let mut messages = messages.into_iter();
        self.play(move |_| messages.next());
    }

    /// All messages are sent and all results are here.
    pub fn is_complete(&self) -> bool {
        self.done && self.acknowledged == self.posted && self.results == self.expected
    }

    fn sge(&self, half: u64, slot: u64, len: u32) -> Sge {
        Sge { lkey: self.mr.lkey, addr: BASE + (half * SLOTS + slot) * u64::from(MESSAGE), len }
    }

    fn post_receives(&mut self) {
        while let Some(slot) = self.free.pop() {
            let sge = self.sge(1, slot, MESSAGE);
            if self.hca.post_recv(self.qpn, RecvWr { wr_id: slot, sge }).is_err() {
                return;
            }
        }
    }

    pub fn receive(&mut self, bytes: &[u8], now: Nanos) {
        if !self.killed {
            self.hca.handle_frame(bytes, now);
        }
    }

    /// Polls completions, posts what may be posted, sends what is due.
    pub fn run(&mut self, now: Nanos, out: &mut Vec<Vec<u8>>) {
        if self.killed {
            return;
        }
        self.hca.handle_timeout(now);
        while let Some(completion) = self.hca.poll_cq(self.cq) {
            if completion.status != Status::Success {
                self.error = self.error.or(Some(completion.status));
                continue;
            }
            match completion.verb {
                Verb::Recv => {
                    let sge = self.sge(1, completion.wr_id, completion.len);
                    let imm = completion.imm;
                    let word = imm.and_then(Immediate::decode);
                    if let Some(failed @ Immediate::Failed(..)) = word {
                        self.told = Some(failed);
                    } else {
                        let bytes = self.hca.memory(sge).unwrap().to_vec();
                        self.packets += bytes.len().div_ceil(self.mtu.into()).max(1) as u64;
                        self.lengths.pop_front();
                        self.result(&bytes, imm);
                    }
                    self.free.push(completion.wr_id);
                }
                // A WRITE for each packet; this is the last of a message.
                Verb::RecvWriteImm => {
                    let len = self.lengths.pop_front().unwrap();
                    let mut bytes = Vec::new();
                    while bytes.len() < len as usize {
                        let left = (len - bytes.len() as u32).min(self.mtu.into());
                        let at = RESULTS.place(self.packets, self.mtu, 0).va;
                        let sge = Sge { lkey: self.mr.lkey, addr: at, len: left };
                        bytes.extend_from_slice(self.hca.memory(sge).unwrap());
                        self.packets += 1;
                    }
                    self.result(&bytes, completion.imm);
                    self.free.push(completion.wr_id);
                }
                Verb::Write if self.by == By::Mirror => {
                    self.acknowledged += 1;
                    let len = self.lengths.pop_front().unwrap();
                    let bytes = self.hca.memory(self.sge(1, completion.wr_id, len)).unwrap().to_vec();
                    self.result(&bytes, None);
                }
                Verb::Send | Verb::Write => self.acknowledged += 1,
            }
        }
        if now >= self.deaf_until {
            self.post_receives();
        }
        if now >= self.sleeps_until {
            self.post_sends();
        }
        while let Some(transmit) = self.hca.poll_transmit(now) {
            out.push(transmit.bytes.to_vec());
        }
    }

    fn result(&mut self, bytes: &[u8], imm: Option<u32>) {
        if (self.check)(self.results, bytes, imm) {
            self.received.push(Received { bytes: bytes.to_vec(), imm });
        }
        self.results += 1;
    }

    fn post_sends(&mut self) {
        while self.error.is_none() && self.told.is_none() && self.posted - self.acknowledged < SLOTS {
            if self.waiting.is_none() {
                self.waiting = (self.script)(self.posted);
            }
            let Some(message) = &self.waiting else {
                self.done = true;
                return;
            };
            if message.results > 0 && self.expected + message.results - self.results > self.ahead {
                return;
            }
            let (imm, results) = (message.imm, message.results);
            let (slot, len) = (self.slot_in % SLOTS, message.bytes.len() as u32);
            let sge = self.sge(0, slot, len);
            self.hca.memory_mut(sge).unwrap().copy_from_slice(&message.bytes);
            let op = match self.by {
                By::Send => imm.map_or(SendOp::Send, SendOp::SendImm),
                By::Write(memory, word) => {
                    let room = memory.len + 1 - u64::from(len);
                    let (va, rkey) = (memory.addr + self.slot_in * 52 % room, memory.rkey);
                    let imm = imm.or(word);
                    imm.map_or(SendOp::Write { va, rkey }, |imm| SendOp::WriteImm { va, rkey, imm })
                }
                By::Mirror => SendOp::Write { va: self.sge(1, slot, len).addr, rkey: self.mr.rkey },
            };
            if self.hca.post_send(self.qpn, SendWr { wr_id: slot, op, sge }).is_err() {
                return;
            }
            self.waiting = None;
            self.slot_in += 1;
            self.posted += 1;
            self.expected += results;
            if results > 0 {
                self.lengths.push_back(len);
            }
        }
    }

    /// A collective has failed for this rank: it was told, or its queue pair has failed.
    pub fn heard_of_failure(&self) -> bool {
        self.error.is_some() || self.told.is_some()
    }

    pub fn next_event(&self) -> Option<Nanos> {
        if self.killed {
            return None;
        }
        let sleeps =
            Some(self.sleeps_until).filter(|_| !self.done && self.posted == 0 && self.sleeps_until > 0);
        let deaf = Some(self.deaf_until).filter(|_| !self.free.is_empty());
        [self.hca.next_timeout(), sleeps, deaf].into_iter().flatten().min()
    }
}
