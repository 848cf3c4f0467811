//! Two adapters, and a link that loses, repeats and marks frames, in virtual time.
#![allow(dead_code)] // Not every test file needs all of it.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use weir_dataplane::types::{Mac, Nanos};
use weir_endpoint::rc::psn::Psn;
use weir_endpoint::roce::cq::CqId;
use weir_endpoint::roce::frame::Frame;
use weir_endpoint::roce::hca::Hca;
use weir_endpoint::roce::memory::{Access, Mr};
use weir_endpoint::roce::qp::{Path, QpConfig};
use weir_endpoint::roce::verbs::{Completion, RecvWr, SendOp, SendWr, Sge, Status, Verb};
use weir_endpoint::roce::wire::{Opcode, Packet, Qpn};

pub const BASE: u64 = 0x10_0000;

/// One host: an adapter, a queue pair and a region of memory.
pub struct Host {
    pub hca: Hca,
    pub cq: CqId,
    pub qpn: Qpn,
    pub mr: Mr,
}

pub fn address(host: u8) -> (Mac, IpAddr) {
    (Mac([2, 0, 0, 0, 0, host]), Ipv4Addr::new(10, 0, 0, host).into())
}

impl Host {
    pub fn new(memory: usize, change: impl Fn(&mut QpConfig)) -> Self {
        let mut hca = Hca::new();
        let cq = hca.create_cq(1 << 12);
        let access = Access { local_write: true, remote_write: true, remote_read: true };
        let mr = hca.register(BASE, vec![0; memory], access).unwrap();
        let mut config = QpConfig { sq_depth: 1 << 10, rq_depth: 1 << 10, ..QpConfig::new(cq, cq) };
        change(&mut config);
        let qpn = hca.create_qp(config).unwrap();
        Self { hca, cq, qpn, mr }
    }

    pub fn sge(&self, offset: u64, len: u32) -> Sge {
        Sge { lkey: self.mr.lkey, addr: BASE + offset, len }
    }

    pub fn send(&mut self, wr_id: u64, op: SendOp, offset: u64, len: u32) {
        let sge = self.sge(offset, len);
        self.hca.post_send(self.qpn, SendWr { wr_id, op, sge }).unwrap();
    }

    pub fn recv(&mut self, wr_id: u64, offset: u64, len: u32) {
        let sge = self.sge(offset, len);
        self.hca.post_recv(self.qpn, RecvWr { wr_id, sge }).unwrap();
    }

    pub fn fill(&mut self, offset: u64, bytes: &[u8]) {
        let sge = self.sge(offset, bytes.len() as u32);
        self.hca.memory_mut(sge).unwrap().copy_from_slice(bytes);
    }

    pub fn bytes(&self, offset: u64, len: u32) -> &[u8] {
        self.hca.memory(self.sge(offset, len)).unwrap()
    }

    pub fn completions(&mut self) -> Vec<Completion> {
        std::iter::from_fn(|| self.hca.poll_cq(self.cq)).collect()
    }

    /// The packets sent at `now`, each as (opcode, PSN, AckReq, payload length).
    pub fn sent(&mut self, now: Nanos) -> Vec<(Opcode, u32, bool, usize)> {
        let mut all = Vec::new();
        while let Some(packet) = self.sent_one(now) {
            all.push(packet);
        }
        all
    }

    pub fn sent_one(&mut self, now: Nanos) -> Option<(Opcode, u32, bool, usize)> {
        let bytes = self.hca.poll_transmit(now)?.bytes.to_vec();
        let Packet { bth, payload, .. } = Frame::parse(&bytes).unwrap().packet;
        Some((bth.opcode, bth.psn.get(), bth.ack_req, payload.len()))
    }
}

/// Connects host 1 and host 2, both directions beginning at the given PSNs.
pub fn connect(a: &mut Host, b: &mut Host, psn_a: u32, psn_b: u32) {
    let mut path = Path::new(address(1), address(2), b.qpn);
    (path.send_psn, path.recv_psn) = (Psn::new(psn_a), Psn::new(psn_b));
    a.hca.connect(a.qpn, path).unwrap();
    let mut path = Path::new(address(2), address(1), a.qpn);
    (path.send_psn, path.recv_psn) = (Psn::new(psn_b), Psn::new(psn_a));
    b.hca.connect(b.qpn, path).unwrap();
}

pub fn pair(change: impl Fn(&mut QpConfig) + Copy) -> [Host; 2] {
    let (mut a, mut b) = (Host::new(1 << 20, change), Host::new(1 << 20, change));
    connect(&mut a, &mut b, 0xff_fff0, 0xff_fffe);
    [a, b]
}

/// Numbers from a seed (splitmix64).
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    pub fn percent(&mut self, p: u64) -> bool {
        self.next() % 100 < p
    }
}

/// What the link does to frames, in percent.
#[derive(Clone, Copy, Debug, Default)]
pub struct Faults {
    pub lost: u64,
    pub twice: u64,
    pub marked: u64,
}

/// A link of 1 us between two hosts. Order is kept.
pub struct Net {
    pub hosts: [Host; 2],
    pub now: Nanos,
    pub flight: BTreeMap<(Nanos, u64), (usize, Vec<u8>)>,
    pub sent: u64,
    pub faults: Faults,
    pub random: Random,
}

impl Net {
    pub fn new(hosts: [Host; 2], faults: Faults, seed: u64) -> Self {
        Self { hosts, now: 0, flight: BTreeMap::new(), sent: 0, faults, random: Random(seed) }
    }

    pub fn transmit(&mut self) {
        for from in 0..2 {
            while let Some(tx) = self.hosts[from].hca.poll_transmit(self.now) {
                let mut bytes = tx.bytes.to_vec();
                if self.random.percent(self.faults.marked) {
                    mark_ce(&mut bytes);
                }
                let copies = match () {
                    () if self.random.percent(self.faults.lost) => 0,
                    () if self.random.percent(self.faults.twice) => 2,
                    () => 1,
                };
                for _ in 0..copies {
                    self.flight.insert((self.now + 1000, self.sent), (1 - from, bytes.clone()));
                    self.sent += 1;
                }
            }
        }
    }

    /// Runs until nothing is left to do, or for 100 s of virtual time.
    pub fn run(&mut self) {
        loop {
            self.transmit();
            let arrival = self.flight.keys().next().map(|k| k.0);
            let timers = self.hosts.iter().filter_map(|h| h.hca.next_timeout());
            let Some(next) = timers.chain(arrival).min() else { return };
            assert!(next > self.now || arrival == Some(self.now), "time stands still at {next}");
            self.now = next;
            assert!(self.now < 100_000_000_000, "no end");
            while let Some(entry) = self.flight.first_entry().filter(|e| e.key().0 <= self.now) {
                let (to, bytes) = entry.remove();
                self.hosts[to].hca.handle_frame(&bytes, self.now);
            }
            for host in &mut self.hosts {
                host.hca.handle_timeout(self.now);
            }
        }
    }
}

/// Sets CE in an untagged IPv4 frame and repairs the header checksum.
pub fn mark_ce(bytes: &mut Vec<u8>) {
    let mut copy = Vec::new();
    let mut frame = Frame::parse(bytes).unwrap();
    frame.outer.ip.ecn = 3;
    frame.emit(&mut copy);
    *bytes = copy;
}

pub fn pattern(len: usize, seed: u64) -> Vec<u8> {
    let mut random = Random(seed);
    (0..len).map(|_| random.next() as u8).collect()
}

/// Messages of many sizes both ways over a faulty link: each arrives once, whole, in order.
pub fn deliver(seed: u64, faults: Faults, window: u32, mtu: u16, messages: u64) -> Net {
    let [mut a, mut b] = pair(|c| {
        c.window = window;
        c.mtu = mtu;
        c.ack_timeout = 100_000;
        c.rnr_retry = 7;
        c.retry_cnt = 20;
    });
    let mut random = Random(seed);
    let mut offset = 0;
    let mut expected = Vec::new();
    for i in 0..messages {
        let len = match i % 4 {
            0 => random.next() % 16,
            1 => u64::from(mtu) * (random.next() % 4),
            _ => random.next() % 6000,
        };
        for host in [&mut a, &mut b] {
            host.fill(offset, &pattern(len as usize, i));
            host.recv(i, 500_000 + offset, len as u32);
            let op = if i % 3 == 0 { SendOp::SendImm(i as u32) } else { SendOp::Send };
            host.send(i, op, offset, len as u32);
        }
        expected.push((i, len as u32, (i % 3 == 0).then_some(i as u32), offset));
        offset += len;
    }
    assert!(offset < 500_000);
    let mut net = Net::new([a, b], faults, seed);
    net.run();
    for host in &mut net.hosts {
        let done = host.completions();
        let (received, sent): (Vec<&Completion>, Vec<&Completion>) =
            done.iter().partition(|c| c.verb == Verb::Recv);
        assert!(done.iter().all(|c| c.status == Status::Success), "seed {seed}");
        let received: Vec<_> = received.iter().map(|c| (c.wr_id, c.len, c.imm)).collect();
        assert_eq!(received, expected.iter().map(|e| (e.0, e.1, e.2)).collect::<Vec<_>>());
        assert_eq!(sent.iter().map(|c| c.wr_id).collect::<Vec<_>>(), (0..messages).collect::<Vec<_>>());
        for &(i, len, _, at) in &expected {
            assert_eq!(host.bytes(500_000 + at, len), pattern(len as usize, i), "message {i}");
        }
    }
    net
}
