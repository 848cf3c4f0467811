//! The two directions of a connection: messages made and posted, messages received and checked.

use super::config::{Operation, SLOTS, Stream};
use super::rank::Rank;
use crate::roce::hca::Hca;
use crate::roce::verbs::{RecvWr, SendOp, SendWr, Sge};
use crate::roce::wire::Qpn;
use crate::station::pattern::Pattern;
use crate::station::report::Progress;
use weir_dataplane::types::Nanos;

/// Writes of a batch: the last of them tells the peer to look. Less than [`SLOTS`], so that nothing is written
/// over before it was looked at.
const BATCH: u64 = 8;

/// Messages to send.
#[derive(Debug)]
pub(super) struct Outgoing {
    pub stream: Stream,
    pub pattern: Pattern,
    /// Memory of all slots.
    pub lkey: u32,
    pub va: u64,
    stopped: bool,
    /// The peer has been told of all messages posted.
    announced: bool,
}

impl Outgoing {
    pub fn new(stream: Stream, pattern: Pattern, lkey: u32, va: u64) -> Self {
        Self { stream, pattern, lkey, va, stopped: false, announced: true }
    }

    /// No more messages, but for one if the peer has not been told of those before.
    pub fn stop(&mut self) {
        self.stopped = true;
    }

    /// Nothing will be posted any more.
    pub fn all_posted(&self, posted: u64) -> bool {
        (self.stopped && self.announced) || self.stream.messages.is_some_and(|all| posted >= all)
    }

    /// Posts the next message, if one is to come and its slot is free; that of a rank is a contribution.
    pub fn post(
        &mut self,
        qpn: Qpn,
        hca: &mut Hca,
        progress: &mut Progress,
        rank: Option<&mut Rank>,
        now: Nanos,
    ) -> bool {
        let number = progress.posted;
        let room = number - progress.acknowledged < SLOTS;
        let due = rank.as_ref().map_or(!self.all_posted(number), |rank| rank.may_post(number));
        if !room || !due || now < self.stream.start {
            return false;
        }
        let slot = number % SLOTS * u64::from(self.stream.bytes);
        let sge = Sge { lkey: self.lkey, addr: self.va + slot, len: self.stream.bytes };
        let Some(bytes) = hca.memory_mut(sge) else { return false };
        let word = rank.map(|rank| rank.contribute(number, bytes));
        if word.is_none() {
            self.pattern.fill(number, bytes);
        }
        let last = self.stopped || self.stream.messages == Some(number + 1);
        let announce = last || (number + 1).is_multiple_of(BATCH);
        let op = match (self.stream.operation, word) {
            (Operation::Send, _) => SendOp::Send,
            // An engine takes contributions in the order in which they come, and does not keep them where they are written.
            (Operation::Write(to), Some(imm)) => SendOp::WriteImm { va: to.va, rkey: to.rkey, imm },
            (Operation::Write(to), None) if announce => {
                SendOp::WriteImm { va: to.va + slot, rkey: to.rkey, imm: number as u32 }
            }
            (Operation::Write(to), None) => SendOp::Write { va: to.va + slot, rkey: to.rkey },
        };
        let posted = hca.post_send(qpn, SendWr { wr_id: number, op, sge }).is_ok();
        if posted {
            progress.posted += 1;
            progress.first_post.get_or_insert(now);
            self.announced = announce || self.stream.operation == Operation::Send;
        }
        posted
    }
}

/// Messages to receive.
#[derive(Debug)]
pub(super) struct Incoming {
    pub pattern: Pattern,
    pub lkey: u32,
    pub va: u64,
    /// Longest message.
    pub bytes: u32,
    verify: bool,
    /// Number of the message that is to come.
    next: u64,
}

impl Incoming {
    pub fn new(pattern: Pattern, lkey: u32, va: u64, bytes: u32, verify: bool) -> Self {
        Self { pattern, lkey, va, bytes, verify, next: 0 }
    }

    /// Posts the receive buffer of a slot.
    pub fn post(&self, slot: u64, qpn: Qpn, hca: &mut Hca) {
        let addr = self.va + slot * u64::from(self.bytes);
        let sge = Sge { lkey: self.lkey, addr, len: self.bytes };
        // The queue has room for every slot, and a queue pair that has failed takes no more.
        let _ = hca.post_recv(qpn, RecvWr { wr_id: slot, sge });
    }

    /// The first `len` bytes of a slot.
    pub fn bytes<'a>(&self, slot: u64, len: u32, hca: &'a Hca) -> Option<&'a [u8]> {
        hca.memory(Sge { lkey: self.lkey, addr: self.va + slot * u64::from(self.bytes), len })
    }

    /// A SEND of `len` bytes arrived, these.
    pub fn sent(&mut self, bytes: Option<&[u8]>, len: u32, progress: &mut Progress, now: Nanos) {
        let content = match self.verify {
            true => bytes.and_then(|bytes| self.pattern.check(bytes)),
            false => Some(self.next),
        };
        progress.look(content, &mut self.next, len, false, now);
    }

    /// The peer has written messages of `len` bytes up to the one whose number ends in `imm`.
    pub fn written(&mut self, len: u32, imm: u32, hca: &Hca, progress: &mut Progress, now: Nanos) {
        if !self.verify {
            // Where it stands is between the peer and its application.
            return progress.look(Some(self.next), &mut self.next, len, false, now);
        }
        let count = u64::from(imm.wrapping_sub(self.next as u32)) + 1;
        if count > SLOTS || len > self.bytes {
            progress.out_of_order += 1;
            return;
        }
        for number in self.next..self.next + count {
            // Written one after the other, each as long as this one.
            let addr = self.va + number % SLOTS * u64::from(len);
            let bytes = hca.memory(Sge { lkey: self.lkey, addr, len });
            self.sent(bytes, len, progress, now);
        }
    }
}
