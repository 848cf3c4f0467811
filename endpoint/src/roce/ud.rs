//! Unreliable datagrams: one message, one packet, no connection, no answer (IBTA 9.8.3).
//!
//! A receive buffer begins with 40 bytes for the network header, which RoCEv2 fills with the IP header:
//! IPv6 whole, IPv4 in the last 20 bytes (DEV-85, annex A17).

use super::cq::CqId;
use super::frame::{Addresses, Frame};
use super::hca::{Hca, QpError, TxKind};
use super::pacer::Pacer;
use super::qp::Path;
use super::verbs::{Completion, PostError, RecvWr, Sge, Status, Verb};
use super::wire::{Bth, Deth, Extensions, Opcode, Packet, Qpn};
use crate::rc::psn::Psn;
use std::collections::VecDeque;
use weir_dataplane::types::Nanos;

/// Number of the first datagram queue pair.
pub const FIRST_UD_QPN: u32 = 0x8000;
/// Bytes of a receive buffer in front of the message.
pub const NETWORK_HEADER_BYTES: u32 = 40;
/// A work request with this bit in its Q_Key uses that of its queue pair (IBTA 10.2.5).
const CONTROLLED_QKEY: u32 = 1 << 31;

/// What a datagram queue pair is made with.
#[derive(Clone, Copy, Debug)]
pub struct UdConfig {
    /// Queue of completions of sends.
    pub send_cq: CqId,
    /// Queue of completions of receives.
    pub recv_cq: CqId,
    /// Send work requests outstanding.
    pub sq_depth: usize,
    /// Receive work requests outstanding.
    pub rq_depth: usize,
    /// Longest message: 256, 512, 1024, 2048 or 4096 bytes.
    pub mtu: u16,
    /// Q_Key that arriving datagrams must carry.
    pub qkey: u32,
    /// Partition key.
    pub pkey: u16,
    /// Bits/s on the wire.
    pub rate: u64,
}

/// A datagram to send.
#[derive(Clone, Copy, Debug)]
pub struct UdSendWr {
    /// Returned in the completion.
    pub wr_id: u64,
    /// Where the bytes are.
    pub sge: Sge,
    /// Immediate data.
    pub imm: Option<u32>,
    /// Where to: addresses, marks of data, `dest_qp`. The PSNs are not used.
    pub path: Path,
    /// Q_Key of the receiver.
    pub qkey: u32,
}

/// One datagram queue pair.
#[derive(Debug)]
pub(super) struct UdQp {
    qpn: Qpn,
    config: UdConfig,
    sends: VecDeque<UdSendWr>,
    receives: VecDeque<RecvWr>,
    psn: Psn,
    pacer: Pacer,
}

impl UdQp {
    /// When it can send next, if it has something to send.
    pub(super) fn ready_at(&self) -> Option<Nanos> {
        self.sends.front().map(|_| self.pacer.ready())
    }
}

impl Hca {
    /// A datagram queue pair, ready at once.
    ///
    /// # Errors
    /// An MTU that is none of the five, or a completion queue of another adapter.
    pub fn create_ud_qp(&mut self, config: UdConfig) -> Result<Qpn, QpError> {
        if !matches!(config.mtu, 256 | 512 | 1024 | 2048 | 4096) {
            return Err(QpError::Mtu(config.mtu));
        }
        if let Some(cq) = [config.send_cq, config.recv_cq].into_iter().find(|cq| cq.0 >= self.cqs.len()) {
            return Err(QpError::UnknownCq(cq));
        }
        let qpn = Qpn(FIRST_UD_QPN + self.ud.len() as u32);
        self.ud.push(UdQp {
            qpn,
            config,
            sends: VecDeque::with_capacity(config.sq_depth),
            receives: VecDeque::with_capacity(config.rq_depth),
            psn: Psn::default(),
            pacer: Pacer::new(config.rate),
        });
        Ok(qpn)
    }

    pub(super) fn ud_index(&self, qpn: Qpn) -> Option<usize> {
        let at = qpn.0.checked_sub(FIRST_UD_QPN)? as usize;
        (at < self.ud.len()).then_some(at)
    }

    /// Queues a datagram.
    ///
    /// # Errors
    /// Why it is not taken.
    pub fn post_send_ud(&mut self, qpn: Qpn, wr: UdSendWr) -> Result<(), PostError> {
        let at = self.ud_index(qpn).ok_or(PostError::UnknownQp(qpn))?;
        let qp = &mut self.ud[at];
        if wr.sge.len > u32::from(qp.config.mtu) {
            return Err(PostError::LongerThanMtu(qp.config.mtu));
        }
        if wr.path.outer(wr.path.data, 0).is_none() {
            return Err(PostError::Family);
        }
        self.memory.local(wr.sge).ok_or(PostError::Protection)?;
        if qp.sends.len() >= qp.config.sq_depth {
            return Err(PostError::QueueFull);
        }
        qp.sends.push_back(wr);
        Ok(())
    }

    /// Queues a receive buffer: room for the network header and the message.
    pub(super) fn post_recv_ud(&mut self, at: usize, wr: RecvWr) -> Result<(), PostError> {
        self.memory.receive_buffer(wr.sge).ok_or(PostError::Protection)?;
        let qp = &mut self.ud[at];
        if qp.receives.len() >= qp.config.rq_depth {
            return Err(PostError::QueueFull);
        }
        qp.receives.push_back(wr);
        Ok(())
    }

    /// Writes the next datagram, if one may leave at `now`. It is done with that.
    pub(super) fn send_datagram(&mut self, now: Nanos) -> Option<(Qpn, TxKind, u8)> {
        let paused = self.paused;
        let may = |qp: &UdQp| {
            let front = qp.sends.front().filter(|_| qp.pacer.ready() <= now);
            front.is_some_and(|wr| paused >> (wr.path.data.priority & 7) & 1 == 0)
        };
        let (n, cursor) = (self.ud.len(), self.ud_cursor);
        let at = (cursor..n).chain(0..cursor).find(|at| may(&self.ud[*at]))?;
        self.ud_cursor = (at + 1) % n;
        let qp = &mut self.ud[at];
        let wr = qp.sends.pop_front()?;
        let (qpn, class) = (qp.qpn, wr.path.data);
        let done = |status| Completion {
            wr_id: wr.wr_id,
            qpn,
            verb: Verb::Send,
            status,
            len: wr.sge.len,
            imm: None,
            src_qp: None,
        };
        let (Some(payload), Some(outer)) = (self.memory.local(wr.sge), wr.path.outer(class, self.ip_id))
        else {
            self.cqs[qp.config.send_cq.0].push(done(Status::LocalProtection));
            return None;
        };
        self.ip_id = self.ip_id.wrapping_add(1);
        let opcode = if wr.imm.is_some() { Opcode::UD_SEND_ONLY_IMM } else { Opcode::UD_SEND_ONLY };
        let qkey = if wr.qkey & CONTROLLED_QKEY != 0 { qp.config.qkey } else { wr.qkey };
        let bth = Bth { pkey: qp.config.pkey, ..Bth::new(opcode, wr.path.dest_qp, qp.psn) };
        qp.psn = qp.psn.plus(1);
        let deth = Some(Deth { qkey, src_qp: qpn });
        let ext = Extensions { deth, imm: wr.imm, ..Extensions::default() };
        Frame { outer, packet: Packet { bth, ext, payload } }.emit(&mut self.frame);
        qp.pacer.sent(self.frame.len() as u64, now);
        self.counters.tx_datagrams += 1;
        self.cqs[qp.config.send_cq.0].push(done(Status::Success));
        Some((qpn, TxKind::Data, class.priority))
    }

    /// Takes a datagram for queue pair `at`. What does not fit is dropped: nobody is told (IBTA 9.8.3).
    pub(super) fn datagram(&mut self, at: usize, bytes: &[u8], frame: &Frame<'_>) {
        let qp = &mut self.ud[at];
        let packet = &frame.packet;
        let Some(deth) = packet.ext.deth else {
            self.counters.rx_unsupported += 1;
            return;
        };
        let same_partition = (packet.bth.pkey ^ qp.config.pkey) & 0x7fff == 0;
        if !same_partition || deth.qkey != qp.config.qkey {
            self.counters.rx_no_matching_qp += 1;
            return;
        }
        let Some(wr) = qp.receives.pop_front() else {
            self.counters.rx_rnr += 1;
            return;
        };
        // At most the largest MTU.
        let len = NETWORK_HEADER_BYTES + packet.payload.len() as u32;
        let target = Sge { len, ..wr.sge };
        let buffer = if len <= wr.sge.len { self.memory.receive_buffer(target) } else { None };
        let status = match buffer {
            Some(buffer) => {
                let (header, message) = buffer.split_at_mut(NETWORK_HEADER_BYTES as usize);
                network_header(bytes, frame, header);
                message.copy_from_slice(packet.payload);
                Status::Success
            }
            None if len > wr.sge.len => Status::LocalLength,
            None => Status::LocalProtection,
        };
        self.counters.rx_datagrams += u64::from(status == Status::Success);
        self.cqs[qp.config.recv_cq.0].push(Completion {
            wr_id: wr.wr_id,
            qpn: qp.qpn,
            verb: Verb::Recv,
            status,
            len,
            imm: packet.ext.imm,
            src_qp: Some(deth.src_qp),
        });
    }
}

/// Copies the IP header of a frame that was parsed to the end of `header`, zeros before it.
fn network_header(bytes: &[u8], frame: &Frame<'_>, header: &mut [u8]) {
    let start = if frame.outer.vlan.is_some() { 18 } else { 14 };
    let len = match frame.outer.ip.addresses {
        Addresses::V4 { .. } => 20,
        Addresses::V6 { .. } => 40,
    };
    let (unused, ip) = header.split_at_mut(header.len() - len);
    unused.fill(0);
    if let Some(sent) = bytes.get(start..start + len) {
        ip.copy_from_slice(sent);
    }
}
