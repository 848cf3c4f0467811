//! A queue pair: configuration, path to the peer, and the two halves of the connection.

use super::cnp::NotificationPoint;
use super::cq::{Cq, CqId};
use super::frame::{Addresses, ECN_ECT0, IpHeader, Outer};
use super::hca::TxKind;
use super::requester::Requester;
use super::responder::{ReadPart, Responder};
use super::verbs::{Completion, SendOp, SendWr, Status, Verb};
use super::wire::{DEFAULT_PKEY, Qpn};
use crate::rc::psn::Psn;
use std::net::IpAddr;
use weir_dataplane::types::{Mac, Nanos};

/// What a queue pair is made with.
#[derive(Clone, Copy, Debug)]
pub struct QpConfig {
    /// Queue of completions of sends and writes.
    pub send_cq: CqId,
    /// Queue of completions of receives.
    pub recv_cq: CqId,
    /// Send work requests outstanding.
    pub sq_depth: usize,
    /// Receive work requests outstanding.
    pub rq_depth: usize,
    /// Path MTU in payload bytes: 256, 512, 1024, 2048 or 4096.
    pub mtu: u16,
    /// Packets sent and not acknowledged; 1 to 2^22.
    pub window: u32,
    /// Times a packet is sent again without progress before the queue pair fails.
    pub retry_cnt: u8,
    /// The same for a receiver that is not ready; 7: without end.
    pub rnr_retry: u8,
    /// Silence after a packet that asked for an answer, or after the last progress, before sending
    /// starts again, in ns (verbs: 4096 * 2^timeout).
    pub ack_timeout: Nanos,
    /// Code of the wait asked of the peer when no receive buffer is posted.
    pub min_rnr_timer: u8,
    /// Rate until [`Hca::set_rate`](super::hca::Hca::set_rate), in bits/s on the wire.
    pub rate: u64,
    /// Time between two looks at the adapter that the rate makes up for, in ns; 0 where it is asked in time.
    pub slack: Nanos,
    /// Least time between two CNPs sent to the peer, in ns (DEV-41: 50 us in the paper).
    pub cnp_interval: Nanos,
    /// Partition key.
    pub pkey: u16,
}

impl QpConfig {
    /// Usual values: MTU 1024, window 64, 7 retries, 67 ms timeout, RNR timer 0.64 ms, 100 Gb/s.
    pub fn new(send_cq: CqId, recv_cq: CqId) -> Self {
        Self {
            send_cq,
            recv_cq,
            sq_depth: 128,
            rq_depth: 128,
            mtu: 1024,
            window: 64,
            retry_cnt: 7,
            rnr_retry: 7,
            ack_timeout: 4096 << 14,
            min_rnr_timer: 12,
            rate: 100_000_000_000,
            slack: 0,
            cnp_interval: 50_000,
            pkey: DEFAULT_PKEY,
        }
    }
}

/// How one kind of packet is marked for the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TrafficClass {
    /// DSCP, 6 bits.
    pub dscp: u8,
    /// ECN code point.
    pub ecn: u8,
    /// 802.1p priority, 0 to 7: in the VLAN tag if there is one, and the PFC class that stops it.
    pub priority: u8,
}

/// The rule of all endpoints. Everything is ECT(0), as of an adapter: the traffic class of a queue pair is that of all
/// its packets, and a captured CNP of a ConnectX-4 Lx has it, too (vector A1; annex A17.9.3 says nothing of it). So none
/// of them is dropped early where others would be marked.
impl TrafficClass {
    /// Of requests, READ responses, ACKs and NAKs: one class, so that no ACK overtakes a READ response of its queue
    /// pair, which the requester would take for a loss of the response.
    pub fn of_data(dscp: u8, priority: u8) -> Self {
        Self { dscp, ecn: ECN_ECT0, priority }
    }

    /// Of CNPs, which no order binds: a class of their own. A mark on one means nothing to anybody.
    pub fn of_cnps(dscp: u8, priority: u8) -> Self {
        Self { dscp, ecn: ECN_ECT0, priority }
    }
}

/// The way to the peer and the numbers agreed with it.
#[derive(Clone, Copy, Debug)]
pub struct Path {
    /// Next hop.
    pub dst: Mac,
    /// This port.
    pub src: Mac,
    /// Address of the peer.
    pub dst_ip: IpAddr,
    /// Own address, of the same family.
    pub src_ip: IpAddr,
    /// 802.1Q VLAN id, if frames are tagged (0: priority tag).
    pub vlan: Option<u16>,
    /// UDP source port.
    pub src_port: u16,
    /// TTL or hop limit.
    pub ttl: u8,
    /// Marks of requests.
    pub data: TrafficClass,
    /// Marks of ACK and NAK.
    pub ack: TrafficClass,
    /// Marks of CNPs.
    pub cnp: TrafficClass,
    /// Queue pair of the peer.
    pub dest_qp: Qpn,
    /// PSN of the first packet sent.
    pub send_psn: Psn,
    /// PSN of the first packet received.
    pub recv_psn: Psn,
}

impl Path {
    /// A path with usual marks: data and ACK DSCP 26 priority 3, CNP DSCP 48 priority 6 (ConnectX: `cnp_dscp`,
    /// `cnp_802p_prio`), TTL 64, no tag, both PSNs 0.
    pub fn new((src, src_ip): (Mac, IpAddr), (dst, dst_ip): (Mac, IpAddr), dest_qp: Qpn) -> Self {
        let data = TrafficClass::of_data(26, 3);
        Self {
            dst,
            src,
            dst_ip,
            src_ip,
            vlan: None,
            src_port: 0xc000 | (dest_qp.0 & 0x3fff) as u16,
            ttl: 64,
            data,
            ack: data,
            cnp: TrafficClass::of_cnps(48, 6),
            dest_qp,
            send_psn: Psn::default(),
            recv_psn: Psn::default(),
        }
    }

    /// How frames of this kind are marked.
    pub(super) fn class(&self, kind: TxKind) -> TrafficClass {
        match kind {
            TxKind::Data => self.data,
            TxKind::Ack => self.ack,
            TxKind::Cnp => self.cnp,
        }
    }

    /// Headers of a frame of this class. `None`: the addresses are of two families.
    pub fn outer(&self, class: TrafficClass, id: u16) -> Option<Outer> {
        let addresses = match (self.src_ip, self.dst_ip) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => Addresses::V4 { src, dst, id, dont_fragment: true },
            (IpAddr::V6(src), IpAddr::V6(dst)) => {
                Addresses::V6 { src, dst, flow_label: u32::from(self.src_port) }
            }
            _ => return None,
        };
        Some(Outer {
            dst: self.dst,
            src: self.src,
            vlan: self.vlan.map(|id| u16::from(class.priority & 7) << 13 | id & 0xfff),
            ip: IpHeader { addresses, dscp: class.dscp & 0x3f, ecn: class.ecn, ttl: self.ttl },
            src_port: self.src_port,
            udp_checksum: 0,
        })
    }

    /// The frame comes from the peer and was meant for this port.
    pub fn matches(&self, outer: &Outer) -> bool {
        outer.dst == self.src
            && outer.ip.addresses.src() == self.dst_ip
            && outer.ip.addresses.dst() == self.src_ip
    }
}

/// One queue pair of an HCA.
#[derive(Debug)]
pub(super) struct Qp {
    pub qpn: Qpn,
    pub config: QpConfig,
    /// Set by connect; a queue pair without a path only collects receive buffers.
    pub path: Option<Path>,
    pub failed: bool,
    pub requester: Requester,
    pub responder: Responder,
    pub np: NotificationPoint,
    /// The last packet was a READ response: a request of ours, if there is one, goes next.
    pub response_last: bool,
    /// A CNP event waits to be polled: further CNPs add nothing to it.
    pub cnp_reported: bool,
}

impl Qp {
    pub fn new(qpn: Qpn, config: QpConfig) -> Self {
        Self {
            qpn,
            config,
            path: None,
            failed: false,
            requester: Requester::new(&config),
            responder: Responder::new(&config),
            np: NotificationPoint::new(config.cnp_interval),
            response_last: false,
            cnp_reported: false,
        }
    }

    pub fn connect(&mut self, path: Path) {
        self.requester.start_at(path.send_psn);
        self.responder.expect(path.recv_psn);
        self.path = Some(path);
    }

    /// The next packet of a READ response, if it is its turn at `now`. Responses are paced with the requests of the
    /// queue pair, in turn.
    pub fn next_response(&self, now: Nanos) -> Option<ReadPart> {
        let may = self.requester.pacer.ready() <= now;
        let ours = self.response_last && self.requester.ready_at().is_some_and(|at| at <= now);
        if may && !ours { self.responder.read_part() } else { None }
    }

    /// That packet left as a frame of `len` bytes.
    pub fn response_sent(&mut self, len: u64, now: Nanos) {
        self.responder.part_sent();
        self.requester.pacer.sent(len, now);
        self.response_last = true;
    }

    /// When it may send the next request or READ response, if there is one.
    pub fn due(&self) -> Option<Nanos> {
        let response = self.responder.read_part().map(|_| self.requester.pacer.ready());
        self.requester.ready_at().into_iter().chain(response).min()
    }

    /// Priority of requests and READ responses; nobody sends before there is a path.
    pub fn priority(&self) -> u8 {
        self.path.map_or(0, |path| path.data.priority)
    }

    /// Completes what the peer has acknowledged.
    pub fn complete_sends(&mut self, cqs: &mut [Cq]) {
        while let Some(wr) = self.requester.pop_acknowledged() {
            cqs[self.config.send_cq.0].push(sent(self.qpn, &wr, Status::Success));
        }
    }

    /// Ends the queue pair: the `nth` oldest send gets its status, the others are flushed. The last
    /// answer, a NAK that tells the peer why, is still sent.
    pub fn flush_sends(&mut self, nth: usize, status: Status, cqs: &mut [Cq]) {
        self.failed = true;
        for (i, wr) in self.requester.abandon().enumerate() {
            let status = if i == nth { status } else { Status::Flushed };
            cqs[self.config.send_cq.0].push(sent(self.qpn, &wr, status));
        }
    }

    /// The same for the receive buffers; the oldest gets the status.
    pub fn flush_receives(&mut self, oldest: Status, cqs: &mut [Cq]) {
        self.failed = true;
        for (i, wr) in self.responder.abandon().enumerate() {
            let status = if i == 0 { oldest } else { Status::Flushed };
            let (qpn, wr_id) = (self.qpn, wr.wr_id);
            let completion =
                Completion { wr_id, qpn, verb: Verb::Recv, status, len: 0, imm: None, src_qp: None };
            cqs[self.config.recv_cq.0].push(completion);
        }
    }
}

/// The completion of a send or write.
fn sent(qpn: Qpn, wr: &SendWr, status: Status) -> Completion {
    let verb = match wr.op {
        SendOp::Send | SendOp::SendImm(_) => Verb::Send,
        SendOp::Write { .. } | SendOp::WriteImm { .. } => Verb::Write,
    };
    Completion { wr_id: wr.wr_id, qpn, verb, status, len: wr.sge.len, imm: None, src_qp: None }
}
