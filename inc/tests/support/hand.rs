//! An engine with peers moved by hand, frame by frame.

use super::{FIRST_QPN, address, sum_i32};
use weir_dataplane::types::Nanos;
use weir_endpoint::rc::psn::Psn;
use weir_endpoint::roce::frame::Frame;
use weir_endpoint::roce::icrc::icrc;
use weir_endpoint::roce::qp::Path;
use weir_endpoint::roce::wire::{Aeth, Bth, Extensions, Opcode, Packet, Qpn, Reth, Syndrome};
use weir_inc::drops::Drop;
use weir_inc::engine::{Engine, EngineParams};
use weir_inc::immediate::{Immediate, Status};
use weir_inc::job::Job;
use weir_inc::kernels::Flags;
use weir_inc::params::{Child, JobParams, Parent};
use weir_inc::report::JobReport;

pub const JOB: u32 = 7;
/// The parent, among peers.
pub const PARENT: usize = 64;
/// Queue pair of each peer at its own end, for the first job.
const PEER_QPN: Qpn = Qpn(0x11);
/// First PSN of each direction: both wrap soon.
pub const UP: u32 = 0xff_fffe;
pub const DOWN: u32 = 0xff_fffc;

pub struct Hand {
    pub engine: Engine,
    pub now: Nanos,
}

/// A frame the engine sent, with its PSN counted from the first of its direction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sent {
    pub to: usize,
    pub opcode: Opcode,
    pub number: i32,
    pub ack_req: bool,
    pub imm: Option<u32>,
    /// Address, key, bytes.
    pub reth: Option<(u64, u32, u32)>,
    pub syndrome: Option<Syndrome>,
    pub msn: Option<u32>,
    pub payload: Vec<u8>,
    pub bytes: Vec<u8>,
}

impl Sent {
    pub fn word(&self) -> Option<Immediate> {
        self.imm.and_then(Immediate::decode)
    }
}

pub fn status(count: u16) -> Option<Immediate> {
    Some(Immediate::Status(Status { count, flags: Flags::default() }))
}

fn path(peer: usize, job: u32) -> Path {
    let at_engine = Path::new(address(1000), address(peer), Qpn(PEER_QPN.0 + job));
    let offset = job * 17;
    let (down, up) = (Psn::new(DOWN + offset), Psn::new(UP + offset));
    // Upwards the engine sends what UP counts.
    let (send_psn, recv_psn) = if peer == PARENT { (up, down) } else { (down, up) };
    Path { send_psn, recv_psn, ..at_engine }
}

pub fn params(id: u32, children: usize, first_qpn: u32) -> JobParams {
    let children = (0..children).map(|at| Child {
        qpn: Qpn(first_qpn + at as u32),
        path: path(at, id - JOB),
        first_rank: at as u16,
        ranks: 1,
        engine: false,
        remote: Default::default(),
    });
    let children: Vec<Child> = children.collect();
    JobParams {
        window: 4,
        results: 8,
        children: children.clone(),
        ..JobParams::new(id, children.len() as u16, sum_i32())
    }
}

pub fn parent() -> Parent {
    Parent { qpn: Qpn(FIRST_QPN + PARENT as u32), path: path(PARENT, 0) }
}

impl Hand {
    /// A root with `k` ranks, window 4, 6 results.
    pub fn new(k: usize, change: impl FnOnce(&mut JobParams)) -> Self {
        let mut params = params(JOB, k, FIRST_QPN);
        change(&mut params);
        let mut engine = Engine::new(EngineParams::default());
        engine.add(params).unwrap();
        Self { engine, now: 1_000_000 }
    }

    pub fn job(&self) -> &Job {
        self.engine.job(JOB).unwrap()
    }

    pub fn report(&self) -> JobReport {
        self.engine.report(self.now).into_iter().find(|job| job.id == JOB).unwrap()
    }

    pub fn drops(&self, reason: Drop) -> u64 {
        self.engine.counters().drops[reason as usize]
    }

    /// A frame of a peer to the engine. `number` counts from its first PSN.
    pub fn frame(
        peer: usize,
        job: u32,
        opcode: Opcode,
        number: i32,
        ext: Extensions,
        payload: &[u8],
    ) -> Vec<u8> {
        let path = path(peer, job - JOB);
        let qpn = Qpn(FIRST_QPN + (job - JOB) * 128 + peer as u32);
        let back = Path::new(address(peer), address(1000), qpn);
        let start = if opcode == Opcode::RC_ACK { path.send_psn } else { path.recv_psn };
        let psn = Psn::new(start.get().wrapping_add_signed(number));
        let bth = Bth { ack_req: true, ..Bth::new(opcode, qpn, psn) };
        let outer = back.outer(back.data, 1).unwrap();
        let mut bytes = Vec::new();
        Frame { outer, packet: Packet { bth, ext, payload } }.emit(&mut bytes);
        bytes
    }

    pub fn give(&mut self, bytes: &[u8]) {
        self.engine.receive(bytes, self.now);
    }

    /// A frame that was damaged comes, and once more sealed again: only what the transport says of it is wrong then.
    pub fn give_damaged(&mut self, frame: &mut [u8]) {
        self.give(frame);
        let end = frame.len() - 4;
        if let Some(crc) = icrc(&frame[14..end]) {
            frame[end..].copy_from_slice(&crc);
            self.give(frame);
        }
    }

    /// A peer sends one packet.
    pub fn send(&mut self, peer: usize, number: i32, opcode: Opcode, imm: Option<u32>, payload: &[u8]) {
        let ext = Extensions { imm, ..Extensions::default() };
        self.give(&Self::frame(peer, JOB, opcode, number, ext, payload));
    }

    /// A peer sends a message of one packet.
    pub fn only(&mut self, peer: usize, number: i32, payload: &[u8]) {
        self.send(peer, number, Opcode::RC_SEND_ONLY, None, payload);
    }

    /// A peer WRITEs one packet, with a RETH if it is the first.
    pub fn write(
        &mut self,
        peer: usize,
        number: i32,
        opcode: Opcode,
        reth: Option<(u64, u32, u32)>,
        payload: &[u8],
    ) {
        let layout = opcode.layout().unwrap();
        let imm = layout.imm.then(|| sum_i32().encode());
        let reth = reth.map(|(va, rkey, len)| Reth { va, rkey, len });
        self.give(&Self::frame(
            peer,
            JOB,
            opcode,
            number,
            Extensions { imm, reth, ..Extensions::default() },
            payload,
        ));
    }

    /// The same with immediate data.
    pub fn with(&mut self, peer: usize, number: i32, imm: Immediate, payload: &[u8]) {
        self.send(peer, number, Opcode::RC_SEND_ONLY_IMM, Some(imm.encode()), payload);
    }

    /// A peer acknowledges everything up to `number`, or says something else of it.
    pub fn answer(&mut self, peer: usize, number: i32, syndrome: Syndrome) {
        let aeth = Some(Aeth { syndrome: syndrome.encode(), msn: 0 });
        let ext = Extensions { aeth, ..Extensions::default() };
        self.give(&Self::frame(peer, JOB, Opcode::RC_ACK, number, ext, &[]));
    }

    pub fn ack(&mut self, peer: usize, number: i32) {
        self.answer(peer, number, Syndrome::ACK_NO_CREDITS);
    }

    /// What the engine sends now.
    pub fn sent(&mut self) -> Vec<Sent> {
        let mut all = Vec::new();
        let mut bytes = Vec::new();
        while let Some(transmit) = self.engine.transmit(self.now) {
            transmit.write_to(&mut bytes);
            let frame = Frame::parse(&bytes).unwrap();
            let Packet { bth, ext, payload } = frame.packet;
            let std::net::IpAddr::V4(ip) = frame.outer.ip.addresses.dst() else { panic!("IPv6") };
            let to = usize::from(ip.octets()[3]);
            let up = (to == PARENT) != (bth.opcode == Opcode::RC_ACK);
            all.push(Sent {
                to,
                opcode: bth.opcode,
                number: bth.psn.since(Psn::new(if up { UP } else { DOWN })),
                ack_req: bth.ack_req,
                imm: ext.imm,
                reth: ext.reth.map(|r| (r.va, r.rkey, r.len)),
                syndrome: ext.aeth.map(|a| Syndrome::decode(a.syndrome)),
                msn: ext.aeth.map(|a| a.msn),
                payload: payload.to_vec(),
                bytes: bytes.clone(),
            });
        }
        all
    }

    /// Data the engine sends now.
    pub fn data(&mut self) -> Vec<Sent> {
        self.sent().into_iter().filter(|s| s.opcode != Opcode::RC_ACK).collect()
    }

    /// Answers it sends now: to whom, number, what.
    pub fn answers(&mut self) -> Vec<(usize, i32, Syndrome)> {
        let answers = self.sent().into_iter().filter(|s| s.opcode == Opcode::RC_ACK);
        answers.map(|s| (s.to, s.number, s.syndrome.unwrap())).collect()
    }

    /// Time passes, with ticks where they are due.
    pub fn wait(&mut self, time: Nanos) {
        let end = self.now + time;
        while let Some(at) = self.engine.next_event().filter(|&at| at <= end) {
            self.now = self.now.max(at);
            self.engine.tick(self.now);
            if self.engine.next_event().is_some_and(|at| at <= self.now) {
                break;
            }
        }
        self.now = end;
        self.engine.tick(end);
    }
}

pub fn words(numbers: &[i32]) -> Vec<u8> {
    numbers.iter().flat_map(|n| n.to_be_bytes()).collect()
}

/// Where frames went, their number and what they carried.
pub fn payloads(sent: &[Sent]) -> Vec<(usize, i32, Vec<u8>)> {
    sent.iter().map(|s| (s.to, s.number, s.payload.clone())).collect()
}
