//! Two adapters and a link that loses, repeats and marks frames, in virtual time.

mod support;

use proptest::prelude::*;
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use weir_dataplane::types::{Mac, Nanos};
use weir_endpoint::roce::cq::CqId;
use weir_endpoint::roce::frame::{Addresses, Frame, IpHeader, Outer};
use weir_endpoint::roce::hca::{Event, Failure, Hca, TxKind};
use weir_endpoint::roce::icrc::icrc;
use weir_endpoint::roce::memory::{Access, Mr};
use weir_endpoint::roce::psn::Psn;
use weir_endpoint::roce::qp::{Path, QpConfig};
use weir_endpoint::roce::verbs::{Completion, PostError, RecvWr, SendOp, SendWr, Sge, Status, Verb};
use weir_endpoint::roce::wire::{Aeth, Bth, Extensions, Nak, Opcode, Packet, Qpn, Reth, Syndrome};

const BASE: u64 = 0x10_0000;

/// One host: an adapter, a queue pair and a region of memory.
struct Host {
    hca: Hca,
    cq: CqId,
    qpn: Qpn,
    mr: Mr,
}

fn address(host: u8) -> (Mac, IpAddr) {
    (Mac([2, 0, 0, 0, 0, host]), Ipv4Addr::new(10, 0, 0, host).into())
}

impl Host {
    fn new(memory: usize, change: impl Fn(&mut QpConfig)) -> Self {
        let mut hca = Hca::new();
        let cq = hca.create_cq(1 << 12);
        let access = Access { local_write: true, remote_write: true, remote_read: true };
        let mr = hca.register(BASE, vec![0; memory], access).unwrap();
        let mut config = QpConfig { sq_depth: 1 << 10, rq_depth: 1 << 10, ..QpConfig::new(cq, cq) };
        change(&mut config);
        let qpn = hca.create_qp(config).unwrap();
        Self { hca, cq, qpn, mr }
    }

    fn sge(&self, offset: u64, len: u32) -> Sge {
        Sge { lkey: self.mr.lkey, addr: BASE + offset, len }
    }

    fn send(&mut self, wr_id: u64, op: SendOp, offset: u64, len: u32) {
        let sge = self.sge(offset, len);
        self.hca.post_send(self.qpn, SendWr { wr_id, op, sge }).unwrap();
    }

    fn recv(&mut self, wr_id: u64, offset: u64, len: u32) {
        let sge = self.sge(offset, len);
        self.hca.post_recv(self.qpn, RecvWr { wr_id, sge }).unwrap();
    }

    fn fill(&mut self, offset: u64, bytes: &[u8]) {
        let sge = self.sge(offset, bytes.len() as u32);
        self.hca.memory_mut(sge).unwrap().copy_from_slice(bytes);
    }

    fn bytes(&self, offset: u64, len: u32) -> &[u8] {
        self.hca.memory(self.sge(offset, len)).unwrap()
    }

    fn completions(&mut self) -> Vec<Completion> {
        std::iter::from_fn(|| self.hca.poll_cq(self.cq)).collect()
    }

    /// The packets sent at `now`, each as (opcode, PSN, AckReq, payload length).
    fn sent(&mut self, now: Nanos) -> Vec<(Opcode, u32, bool, usize)> {
        let mut all = Vec::new();
        while let Some(packet) = self.sent_one(now) {
            all.push(packet);
        }
        all
    }

    fn sent_one(&mut self, now: Nanos) -> Option<(Opcode, u32, bool, usize)> {
        let bytes = self.hca.poll_transmit(now)?.bytes.to_vec();
        let Packet { bth, payload, .. } = Frame::parse(&bytes).unwrap().packet;
        Some((bth.opcode, bth.psn.get(), bth.ack_req, payload.len()))
    }
}

/// Connects host 1 and host 2, both directions beginning at the given PSNs.
fn connect(a: &mut Host, b: &mut Host, psn_a: u32, psn_b: u32) {
    let mut path = Path::new(address(1), address(2), b.qpn);
    (path.send_psn, path.recv_psn) = (Psn::new(psn_a), Psn::new(psn_b));
    a.hca.connect(a.qpn, path).unwrap();
    let mut path = Path::new(address(2), address(1), a.qpn);
    (path.send_psn, path.recv_psn) = (Psn::new(psn_b), Psn::new(psn_a));
    b.hca.connect(b.qpn, path).unwrap();
}

fn pair(change: impl Fn(&mut QpConfig) + Copy) -> [Host; 2] {
    let (mut a, mut b) = (Host::new(1 << 20, change), Host::new(1 << 20, change));
    connect(&mut a, &mut b, 0xff_fff0, 0xff_fffe);
    [a, b]
}

/// Numbers from a seed (splitmix64).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    fn percent(&mut self, p: u64) -> bool {
        self.next() % 100 < p
    }
}

/// What the link does to frames, in percent.
#[derive(Clone, Copy, Debug, Default)]
struct Faults {
    lost: u64,
    twice: u64,
    marked: u64,
}

/// A link of 1 us between two hosts. Order is kept.
struct Net {
    hosts: [Host; 2],
    now: Nanos,
    flight: BTreeMap<(Nanos, u64), (usize, Vec<u8>)>,
    sent: u64,
    faults: Faults,
    random: Random,
}

impl Net {
    fn new(hosts: [Host; 2], faults: Faults, seed: u64) -> Self {
        Self { hosts, now: 0, flight: BTreeMap::new(), sent: 0, faults, random: Random(seed) }
    }

    fn transmit(&mut self) {
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
    fn run(&mut self) {
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
fn mark_ce(bytes: &mut Vec<u8>) {
    let mut copy = Vec::new();
    let mut frame = Frame::parse(bytes).unwrap();
    frame.outer.ip.ecn = 3;
    frame.emit(&mut copy);
    *bytes = copy;
}

fn pattern(len: usize, seed: u64) -> Vec<u8> {
    let mut random = Random(seed);
    (0..len).map(|_| random.next() as u8).collect()
}

/// Messages of many sizes both ways over a faulty link: each arrives once, whole, in order.
fn deliver(seed: u64, faults: Faults, window: u32, mtu: u16, messages: u64) -> Net {
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

#[test]
fn a_lossy_link_delivers_every_message_once_in_order_across_the_psn_wrap() {
    let faults = Faults { lost: 5, twice: 3, marked: 0 };
    for seed in 0..8 {
        let net = deliver(seed, faults, 16, 1024, 120);
        let c = net.hosts[0].hca.counters();
        assert!(c.tx_retransmitted > 0 && c.rx_duplicates > 0 && c.rx_out_of_sequence > 0);
    }
}

#[test]
fn a_clean_link_needs_no_packet_twice() {
    let net = deliver(1, Faults::default(), 64, 4096, 120);
    for host in &net.hosts {
        let c = host.hca.counters();
        assert_eq!((c.tx_retransmitted, c.rx_duplicates, c.rx_out_of_sequence, c.timeouts), (0, 0, 0, 0));
        assert!(c.tx_data > 150);
    }
}

#[test]
fn same_seed_same_run_to_the_last_counter() {
    let run = || deliver(42, Faults { lost: 8, twice: 2, marked: 10 }, 8, 256, 60);
    let (one, two) = (run(), run());
    assert_eq!(one.now, two.now);
    assert_eq!(one.hosts[0].hca.counters(), two.hosts[0].hca.counters());
    assert_eq!(one.hosts[1].hca.counters(), two.hosts[1].hca.counters());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn any_window_mtu_and_fault_rate_delivers(
        seed: u64, lost in 0u64..12, twice in 0u64..10, marked in 0u64..30,
        window in 1u32..70, mtu in prop::sample::select(vec![256u16, 512, 1024, 2048, 4096]),
    ) {
        deliver(seed, Faults { lost, twice, marked }, window, mtu, 24);
    }

    /// Whatever arrives from the peer's address, with a right ICRC, nothing panics and no byte is
    /// written outside the receive buffers.
    #[test]
    fn hostile_peers_end_in_counters(packets in prop::collection::vec(
        (any::<u8>(), 0u32..4, any::<u8>(), 0u64..64, 0u32..64, 0usize..40), 1..40)
    ) {
        let [mut a, mut b] = pair(|c| c.mtu = 256);
        for i in 0..4 {
            b.recv(i, 100, 64);
        }
        b.send(1, SendOp::Send, 0, 600);
        let rkey = b.mr.rkey;
        a.send(9, SendOp::Send, 0, 0);
        let bytes = a.hca.poll_transmit(0).unwrap().bytes.to_vec();
        for (now, (opcode, ahead, syndrome, va, len, payload)) in packets.into_iter().enumerate() {
            let opcode = Opcode(opcode);
            let Some(layout) = opcode.layout() else { continue };
            let _ = b.hca.poll_transmit(now as Nanos);
            let mut frame = Frame::parse(&bytes).unwrap();
            let data = vec![0xaa; payload];
            frame.packet.bth.opcode = opcode;
            frame.packet.bth.psn = Psn::new(0xff_fff0 + ahead);
            frame.packet.ext = Extensions {
                deth: layout.deth.then_some(weir_endpoint::roce::wire::Deth { qkey: 0, src_qp: Qpn(1) }),
                reth: layout.reth.then_some(weir_endpoint::roce::wire::Reth { va: BASE + 100 + va, rkey, len }),
                aeth: layout.aeth.then_some(Aeth { syndrome, msn: 0 }),
                imm: layout.imm.then_some(5),
            };
            frame.packet.payload = &data;
            let mut out = Vec::new();
            frame.emit(&mut out);
            b.hca.handle_frame(&out, now as Nanos);
        }
        prop_assert!(b.bytes(0, 100).iter().chain(b.bytes(228, 1000)).all(|&byte| byte == 0));
    }
}

/// A frame of the peer with any bytes from its BTH on, sealed with a right ICRC.
#[test]
fn fuzz_sealed_packets_never_panic() {
    let [mut a, _] = pair(|_| {});
    a.send(1, SendOp::Send, 0, 0);
    let header = a.hca.poll_transmit(0).unwrap().bytes[..42].to_vec();
    bolero::check!().for_each(|packet: &[u8]| {
        let [_, mut b] = pair(|_| {});
        b.recv(0, 0, 64);
        b.send(0, SendOp::Send, 0, 3000);
        let _ = b.hca.poll_transmit(0);
        let len = packet.len().min(5000);
        let mut frame = [&header, &packet[..len]].concat();
        let (ip, udp) = (20 + 8 + len + 4, 8 + len + 4);
        frame[16..18].copy_from_slice(&(ip as u16).to_be_bytes());
        frame[38..40].copy_from_slice(&(udp as u16).to_be_bytes());
        frame[24..26].fill(0);
        let sum: u32 = frame[14..34].chunks(2).map(|w| u32::from(w[0]) << 8 | u32::from(w[1])).sum();
        let sum = (sum & 0xffff) + (sum >> 16);
        frame[24..26].copy_from_slice(&(!((sum & 0xffff) + (sum >> 16)) as u16).to_be_bytes());
        let crc = weir_endpoint::roce::icrc::icrc(&frame[14..]).unwrap_or_default();
        frame.extend(crc);
        b.hca.handle_frame(&frame, 0);
        let c = b.hca.counters();
        assert_eq!(c.rx_not_roce + c.rx_bad_icrc * u64::from(len >= 12), 0, "the seal is right");
        while b.hca.poll_transmit(0).is_some() {}
    });
}

/// A hand-made answer from host 2 to host 1.
fn answer(a: &mut Host, psn: u32, syndrome: Syndrome, now: Nanos) {
    let mut out = Vec::new();
    let path = Path::new(address(2), address(1), a.qpn);
    let mut probe = Host::new(16, |_| {});
    probe.hca.connect(probe.qpn, path).unwrap();
    probe.send(0, SendOp::Send, 0, 0);
    let bytes = probe.hca.poll_transmit(0).unwrap().bytes.to_vec();
    let outer = Frame::parse(&bytes).unwrap().outer;
    let ext =
        Extensions { aeth: Some(Aeth { syndrome: syndrome.encode(), msn: 0 }), ..Extensions::default() };
    let bth = Bth::new(Opcode::RC_ACK, a.qpn, Psn::new(psn));
    Frame { outer, packet: Packet { bth, ext, payload: &[] } }.emit(&mut out);
    a.hca.handle_frame(&out, now);
}

/// Section 5 of the vectors: the wire order of a Linux host with window 8 across the PSN wrap.
#[test]
fn go_back_n_across_the_wrap_in_the_order_seen_on_the_wire() {
    let mut a = Host::new(64, |c| {
        c.window = 8;
        c.rate = u64::MAX;
        c.ack_timeout = 1_000_000;
    });
    let mut path = Path::new(address(1), address(2), Qpn(0x100));
    path.send_psn = Psn::new(0xff_fff0);
    a.hca.connect(a.qpn, path).unwrap();
    for i in 0..64 {
        a.send(i, SendOp::Send, 0, 16);
    }
    const ACK: Syndrome = Syndrome::ACK_NO_CREDITS;
    const NAK: Syndrome = Syndrome::Nak(Nak::Sequence);
    let mut wire: Vec<u32> = Vec::new();
    let psns = |sent: Vec<(Opcode, u32, bool, usize)>| sent.into_iter().map(|p| p.1).collect::<Vec<_>>();
    wire.extend(psns(a.sent(0)));
    assert_eq!(a.hca.next_timeout(), Some(1_000_000));
    a.hca.handle_timeout(999_999);
    assert_eq!(psns(a.sent(999_999)), []);
    a.hca.handle_timeout(1_000_000);
    wire.extend(psns(a.sent(1_000_000)));
    answer(&mut a, 0xff_fff1, NAK, 1_100_000);
    wire.extend(psns(a.sent(1_100_000)));
    answer(&mut a, 0xff_fff8, ACK, 1_200_000);
    wire.extend(psns(a.sent(1_200_000)));
    answer(&mut a, 0x00_0000, ACK, 1_300_000);
    for _ in 0..6 {
        wire.push(a.sent_one(1_300_000).unwrap().1);
    }
    answer(&mut a, 0x00_0005, NAK, 1_400_000);
    for _ in 0..2 {
        wire.push(a.sent_one(1_400_000).unwrap().1);
    }
    let seen = "fffff0 fffff1 fffff2 fffff3 fffff4 fffff5 fffff6 fffff7 fffff0 fffff1 fffff2 fffff3 fffff4 \
        fffff5 fffff6 fffff7 fffff1 fffff2 fffff3 fffff4 fffff5 fffff6 fffff7 fffff8 fffff9 fffffa fffffb \
        fffffc fffffd fffffe ffffff 000000 000001 000002 000003 000004 000005 000006 000005 000006";
    let wire: Vec<String> = wire.iter().map(|psn| format!("{psn:06x}")).collect();
    assert_eq!(wire.join(" "), seen);
    // fffff0 to 000004 were acknowledged, cumulatively: 21 sends are complete.
    assert_eq!(a.completions().iter().map(|c| c.wr_id).collect::<Vec<_>>(), (0..21).collect::<Vec<_>>());
}

#[test]
fn messages_are_cut_as_a_linux_host_cuts_them() {
    // G2 to G4: 4000 bytes at MTU 1024, only the last packet asks for an acknowledgement.
    let [mut a, b] = pair(|c| c.rate = u64::MAX);
    a.send(1, SendOp::Send, 0, 4000);
    let target = SendOp::WriteImm { va: BASE, rkey: b.mr.rkey, imm: 9 };
    a.send(2, target, 0, 2048);
    a.send(3, SendOp::SendImm(1), 0, 0);
    let first = 0xff_fff0;
    let expected = [
        (Opcode::RC_SEND_FIRST, first, false, 1024),
        (Opcode::RC_SEND_MIDDLE, first + 1, false, 1024),
        (Opcode::RC_SEND_MIDDLE, first + 2, false, 1024),
        (Opcode::RC_SEND_LAST, first + 3, true, 928),
        (Opcode::RC_WRITE_FIRST, first + 4, false, 1024),
        (Opcode::RC_WRITE_LAST_IMM, first + 5, true, 1024),
        (Opcode::RC_SEND_ONLY_IMM, first + 6, true, 0),
    ];
    assert_eq!(a.sent(0), expected);
}

#[test]
fn writes_land_where_they_are_told_and_announce_themselves_only_with_immediate() {
    let [mut a, mut b] = pair(|_| {});
    let data = pattern(5000, 3);
    a.fill(0, &data);
    b.recv(77, 0, 0);
    let rkey = b.mr.rkey;
    a.send(1, SendOp::Write { va: BASE + 1000, rkey }, 0, 5000);
    a.send(2, SendOp::WriteImm { va: BASE + 10_000, rkey, imm: 0xfeed }, 100, 3000);
    let mut net = Net::new([a, b], Faults::default(), 0);
    net.run();
    let [a, b] = &mut net.hosts;
    assert_eq!(b.bytes(1000, 5000), data);
    assert_eq!(b.bytes(10_000, 3000), &data[100..3100]);
    let done = b.completions();
    assert_eq!(done.len(), 1);
    assert_eq!((done[0].wr_id, done[0].verb, done[0].len), (77, Verb::RecvWriteImm, 3000));
    assert_eq!(done[0].imm, Some(0xfeed));
    assert!(a.completions().iter().all(|c| c.status == Status::Success && c.verb == Verb::Write));
}

#[test]
fn a_wrong_remote_key_or_bound_is_refused_before_a_byte_is_written() {
    for (key_change, offset) in [(0u32, (1u64 << 20) - 100), (2, 0), (1, 0)] {
        let [mut a, b] = pair(|_| {});
        a.fill(0, &[0x55; 3000]);
        let rkey = b.mr.rkey ^ key_change;
        a.send(1, SendOp::Write { va: BASE + offset, rkey }, 0, 3000);
        a.send(2, SendOp::Send, 0, 10);
        let mut net = Net::new([a, b], Faults::default(), 0);
        net.run();
        let [a, b] = &mut net.hosts;
        assert!(b.bytes(0, 1 << 20).iter().all(|&byte| byte == 0));
        let status: Vec<Status> = a.completions().iter().map(|c| c.status).collect();
        assert_eq!(status, [Status::RemoteAccess, Status::Flushed]);
        let failed = Failure::Request(Status::RemoteAccess);
        assert_eq!(a.hca.poll_event(), Some(Event::QpFailed(a.qpn, failed)));
        assert_eq!(b.hca.poll_event(), Some(Event::QpFailed(b.qpn, Failure::Response)));
        let sge = a.sge(0, 1);
        let again = a.hca.post_send(a.qpn, SendWr { wr_id: 3, op: SendOp::Send, sge });
        assert_eq!(again, Err(PostError::NotReady));
    }
}

#[test]
fn a_message_longer_than_its_buffer_fails_both_sides() {
    let [mut a, mut b] = pair(|_| {});
    b.recv(5, 0, 1500);
    b.recv(6, 0, 1500);
    a.send(1, SendOp::Send, 0, 2000);
    let mut net = Net::new([a, b], Faults::default(), 0);
    net.run();
    let [a, b] = &mut net.hosts;
    let status = |h: &mut Host| h.completions().iter().map(|c| c.status).collect::<Vec<_>>();
    assert_eq!(status(a), [Status::RemoteInvalidRequest]);
    assert_eq!(status(b), [Status::LocalLength, Status::Flushed]);
}

#[test]
fn a_receiver_that_is_not_ready_is_waited_for_as_long_as_it_asks() {
    let [mut a, b] = pair(|c| c.min_rnr_timer = 14);
    a.fill(0, b"late");
    a.send(1, SendOp::Send, 0, 4);
    a.send(2, SendOp::Send, 0, 4);
    let mut net = Net::new([a, b], Faults::default(), 0);
    // Up to the RNR NAK: the first packet arrives at 1 us, its answer at 2 us.
    for now in [0, 1000, 2000] {
        net.now = now;
        while let Some(entry) = net.flight.first_entry().filter(|e| e.key().0 <= now) {
            let (to, bytes) = entry.remove();
            net.hosts[to].hca.handle_frame(&bytes, now);
        }
        net.transmit();
    }
    assert_eq!(net.hosts[0].hca.next_timeout(), Some(2000 + 1_280_000));
    assert_eq!(net.hosts[1].hca.counters().rx_rnr, 1);
    // The packet behind the refused one is silence, not a gap to be named.
    assert_eq!(net.hosts[1].hca.counters().tx_nak_sequence, 0);
    net.hosts[1].recv(8, 100, 4);
    net.hosts[1].recv(9, 200, 4);
    net.run();
    assert_eq!(net.hosts[1].bytes(200, 4), b"late");
    assert!(net.hosts[0].completions().iter().all(|c| c.status == Status::Success));
}

#[test]
fn retries_are_bounded() {
    // A receiver that never posts a buffer.
    let [mut a, b] = pair(|c| c.rnr_retry = 3);
    a.send(1, SendOp::Send, 0, 4);
    let mut net = Net::new([a, b], Faults::default(), 0);
    net.run();
    assert_eq!(net.hosts[0].completions()[0].status, Status::RnrRetryExceeded);
    assert_eq!(net.hosts[1].hca.counters().rx_rnr, 4);

    // A link that is cut: one transmission and `retry_cnt` more.
    let [mut a, b] = pair(|c| {
        c.retry_cnt = 5;
        c.ack_timeout = 10_000;
    });
    a.send(1, SendOp::Send, 0, 4);
    a.send(2, SendOp::Send, 0, 4);
    let mut net = Net::new([a, b], Faults { lost: 100, ..Faults::default() }, 0);
    net.run();
    let [a, _] = &mut net.hosts;
    let status: Vec<Status> = a.completions().iter().map(|c| c.status).collect();
    assert_eq!(status, [Status::RetryExceeded, Status::Flushed]);
    assert_eq!((a.hca.counters().tx_data, a.hca.counters().timeouts), (12, 6));
}

#[test]
fn a_failed_pair_works_again_after_a_reset() {
    let [mut a, mut b] = pair(|c| {
        c.retry_cnt = 0;
        c.ack_timeout = 10_000;
    });
    a.send(1, SendOp::Send, 0, 4);
    assert_eq!(a.sent(0).len(), 1); // and it is lost
    a.hca.handle_timeout(20_000);
    assert_eq!(a.completions()[0].status, Status::RetryExceeded);
    a.hca.reset(a.qpn).unwrap();
    b.hca.reset(b.qpn).unwrap();
    assert_eq!(a.hca.poll_event(), None);
    let sge = a.sge(0, 4);
    let wr = SendWr { wr_id: 2, op: SendOp::Send, sge };
    assert_eq!(a.hca.post_send(a.qpn, wr), Err(PostError::NotReady));
    connect(&mut a, &mut b, 7, 9);
    b.recv(1, 0, 4);
    a.send(2, SendOp::Send, 0, 4);
    let mut net = Net::new([a, b], Faults::default(), 0);
    net.run();
    let done = net.hosts[0].completions();
    assert_eq!((done[0].wr_id, done[0].status), (2, Status::Success));
}

/// Marks on every frame: the reaction point of host 1 hears the CNPs and the pair slows down; when
/// the marks end, it rises again.
#[test]
fn cnps_reach_the_rate_control_and_its_rate_reaches_the_wire() {
    use weir_endpoint::dcqcn::standard::{Params, RateControl};
    const LINE: u64 = 10_000_000_000;
    let [mut a, mut b] = pair(|c| {
        c.rate = LINE;
        c.window = 4096;
        c.mtu = 4096;
    });
    let mut control = RateControl::new(Params::paper(LINE), 0).unwrap();
    for i in 0..1000 {
        b.recv(i, 0, 40_000);
        a.send(i, SendOp::Send, 0, 40_000);
    }
    let mut flight: BTreeMap<(Nanos, u64), Vec<u8>> = BTreeMap::new();
    let (mut now, mut sent, mut rates) = (0, 0, Vec::new());
    // Marked until 1 ms; 40 MB at 10 Gb/s take 32 ms.
    while now < 30_000_000 {
        control.handle_timeout(now);
        while let Some(Event::Cnp(_)) = a.hca.poll_event() {
            control.on_cnp(now);
        }
        a.hca.set_rate(a.qpn, control.rate());
        while let Some(tx) = a.hca.poll_transmit(now) {
            let mut bytes = tx.bytes.to_vec();
            control.on_sent(bytes.len() as u64, now);
            if now < 1_000_000 {
                mark_ce(&mut bytes);
            }
            flight.insert((now + 1000, sent), bytes);
            sent += 1;
        }
        rates.push((now, control.rate()));
        let timers = [a.hca.next_timeout(), control.next_timeout()].into_iter().flatten();
        now = timers.chain(flight.keys().next().map(|k| k.0)).min().unwrap();
        while let Some(entry) = flight.first_entry().filter(|e| e.key().0 <= now) {
            b.hca.handle_frame(&entry.remove(), now);
            while let Some(tx) = b.hca.poll_transmit(now) {
                a.hca.handle_frame(tx.bytes, now);
            }
        }
    }
    let rate_at = |t: Nanos| rates.iter().rev().find(|r| r.0 <= t).unwrap().1;
    // 1 ms of marks: at most 20 CNPs, and fewer once packets are further apart than 50 us.
    assert!((10..=20).contains(&b.hca.counters().tx_cnp), "{}", b.hca.counters().tx_cnp);
    assert!(rate_at(1_000_000) < LINE / 50, "{}", rate_at(1_000_000));
    assert!(rate_at(29_000_000) > LINE / 4, "{}", rate_at(29_000_000));
    assert_eq!(a.hca.counters().tx_retransmitted, 0);
    assert_eq!(a.hca.rate(a.qpn), Some(control.rate()));
}

/// A slow flow asks late: the clock starts with the question, and the oldest one counts.
#[test]
fn the_clock_starts_with_the_oldest_packet_that_asked() {
    let [mut a, _] = pair(|c| {
        c.rate = 10_000_000; // 884.8 us a packet
        c.ack_timeout = 1_500_000;
        c.window = 8; // asks at every fourth packet
    });
    a.send(1, SendOp::Send, 0, 9 * 1024);
    let mut asked = Vec::new();
    let mut now = 0;
    loop {
        a.hca.handle_timeout(now);
        if a.hca.counters().timeouts > 0 {
            break;
        }
        match a.sent_one(now) {
            Some((_, _, true, _)) => asked.push(now),
            Some(_) => {}
            None => now = a.hca.next_timeout().unwrap(),
        }
    }
    assert_eq!(asked, [3 * 884_800]);
    assert_eq!(now, 3 * 884_800 + 1_500_000);
}

#[test]
fn an_answer_about_a_packet_never_sent_is_ignored() {
    let [mut a, _] = pair(|c| c.window = 2);
    for i in 0..3 {
        a.send(i, SendOp::Send, 0, 4);
    }
    while a.hca.counters().tx_data < 2 {
        let now = a.hca.next_timeout().unwrap();
        a.sent(now);
    }
    for syndrome in [Syndrome::ACK_NO_CREDITS, Syndrome::Nak(Nak::Sequence), Syndrome::Rnr(1)] {
        answer(&mut a, 0xff_fff2, syndrome, 1000);
        answer(&mut a, 0x7f_fff0, syndrome, 1000);
    }
    assert_eq!((a.completions(), a.sent(1000)), (vec![], vec![]));
    answer(&mut a, 0xff_fff1, Syndrome::ACK_NO_CREDITS, 1000);
    assert_eq!(a.completions().len(), 2);
}

#[test]
fn a_nak_that_arrives_twice_costs_one_retry() {
    let [mut a, _] = pair(|c| c.retry_cnt = 1);
    a.send(0, SendOp::Send, 0, 4);
    assert_eq!(a.sent(0).len(), 1);
    answer(&mut a, 0xff_fff0, Syndrome::Nak(Nak::Sequence), 1000);
    answer(&mut a, 0xff_fff0, Syndrome::Nak(Nak::Sequence), 1001);
    assert_eq!(a.completions(), []);
    assert_eq!(a.sent(1001).len(), 1);
    answer(&mut a, 0xff_fff0, Syndrome::Nak(Nak::Sequence), 2000);
    assert_eq!(a.completions()[0].status, Status::RetryExceeded);
}

#[test]
fn a_late_ack_after_a_step_back_spares_the_packets_it_names() {
    let [mut a, _] = pair(|c| {
        c.rate = u64::MAX;
        c.ack_timeout = 1000;
    });
    for i in 0..4 {
        a.send(i, SendOp::Send, 0, 4);
    }
    assert_eq!(a.sent(0).len(), 4);
    a.hca.handle_timeout(1000);
    answer(&mut a, 0xff_fff2, Syndrome::ACK_NO_CREDITS, 1000);
    assert_eq!(a.sent(1000).iter().map(|p| p.1).collect::<Vec<_>>(), [0xff_fff3]);
}

/// A frame from host 1 to host 2 that no requester here makes: opcode, PSN, extension headers, payload.
fn foreign(b: &Host, opcode: Opcode, psn: u32, ext: Extensions, payload: &[u8]) -> Vec<u8> {
    let ((src, IpAddr::V4(src_ip)), (dst, IpAddr::V4(dst_ip))) = (address(1), address(2)) else {
        unreachable!()
    };
    let addresses = Addresses::V4 { src: src_ip, dst: dst_ip, id: 1, dont_fragment: true };
    let ip = IpHeader { addresses, dscp: 26, ecn: 2, ttl: 64 };
    let outer = Outer { dst, src, vlan: None, ip, src_port: 0xc000, udp_checksum: 0 };
    let bth = Bth { ack_req: true, ..Bth::new(opcode, b.qpn, Psn::new(psn)) };
    let mut bytes = Vec::new();
    Frame { outer, packet: Packet { bth, ext, payload } }.emit(&mut bytes);
    bytes
}

fn read_request(b: &Host, psn: u32, offset: u64, len: u32) -> Vec<u8> {
    let reth = Some(Reth { va: BASE + offset, rkey: b.mr.rkey, len });
    foreign(b, Opcode::RC_READ_REQUEST, psn, Extensions { reth, ..Extensions::default() }, &[])
}

/// Everything host `b` sends in the half millisecond from `from`.
fn said(b: &mut Host, from: Nanos) -> Vec<(Opcode, u32, Vec<u8>)> {
    (from..from + 500_000).step_by(10_000).flat_map(|now| said_at(b, now)).collect()
}

/// Everything host `b` sends at `now`: opcode, PSN, payload.
fn said_at(b: &mut Host, now: Nanos) -> Vec<(Opcode, u32, Vec<u8>)> {
    let mut all = Vec::new();
    while let Some(tx) = b.hca.poll_transmit(now) {
        let Packet { bth, payload, .. } = Frame::parse(tx.bytes).unwrap().packet;
        all.push((bth.opcode, bth.psn.get(), payload.to_vec()));
    }
    all
}

const FIRST: u32 = 0xff_fff0;

#[test]
fn reads_are_answered_in_order_and_what_comes_after_them_waits() {
    let [_, mut b] = pair(|c| c.rate = 1_000_000_000_000);
    let data = pattern(3000, 7);
    b.fill(100, &data);
    b.hca.handle_frame(&read_request(&b, FIRST, 100, 3000), 0);
    // A SEND behind the READ is taken at once; its ACK waits for the response, which takes three numbers.
    b.recv(9, 0, 64);
    let send = foreign(&b, Opcode::RC_SEND_ONLY, FIRST + 3, Extensions::default(), b"after");
    b.hca.handle_frame(&send, 0);
    assert_eq!(b.completions().len(), 1);
    let first = b.hca.poll_transmit(0).unwrap();
    let aeth = Frame::parse(first.bytes).unwrap().packet.ext.aeth.unwrap();
    assert_eq!((first.kind, aeth.syndrome, aeth.msn), (TxKind::Data, 0x1f, 1));
    let got = said(&mut b, 1_000_000);
    let shapes: Vec<_> = got.iter().map(|(opcode, psn, bytes)| (*opcode, *psn, bytes.len())).collect();
    assert_eq!(
        shapes,
        [
            (Opcode::RC_READ_RESPONSE_MIDDLE, FIRST + 1, 1024),
            (Opcode::RC_READ_RESPONSE_LAST, FIRST + 2, 952),
            (Opcode::RC_ACK, FIRST + 3, 0),
        ]
    );
    assert_eq!([&got[0].2[..], &got[1].2[..]].concat(), data[1024..]);
    assert_eq!((b.hca.counters().tx_read_responses, b.hca.counters().rx_requests), (3, 2));
    // The requester missed the end and asks for it again, as rxe does: from the middle, behind it the SEND.
    b.hca.handle_frame(&read_request(&b, FIRST + 2, 100 + 2048, 952), 5_000_000);
    b.hca.handle_frame(&send, 5_000_000);
    let again = said(&mut b, 6_000_000);
    assert_eq!(again[0], (Opcode::RC_READ_RESPONSE_ONLY, FIRST + 2, data[2048..].to_vec()));
    assert_eq!((again[1].0, again[1].1), (Opcode::RC_ACK, FIRST + 3));
    assert!(b.hca.poll_event().is_none(), "nothing failed");
}

#[test]
fn a_read_shares_the_queue_pair_with_requests_and_keeps_to_its_rate() {
    let [_, mut b] = pair(|c| c.rate = 10_000_000_000);
    b.hca.handle_frame(&read_request(&b, FIRST, 0, 100 * 1024), 0);
    b.send(1, SendOp::Send, 0, 100 * 1024);
    let (mut now, mut read, mut sent) = (0, 0, 0);
    while read + sent < 40 {
        for (opcode, ..) in said_at(&mut b, now) {
            *if opcode.0 >= 0x0c { &mut read } else { &mut sent } += 1;
        }
        now = b.hca.next_timeout_after(now).unwrap();
    }
    assert_eq!((read, sent), (20, 20), "in turn");
    // 40 frames of 1106 or 1110 bytes on the wire, about 0.886 us each.
    assert!((33_000..37_000).contains(&now), "{now}");
}

#[test]
fn reads_of_what_is_not_there_are_refused_and_no_byte_leaves() {
    for (offset, len, nak) in [(1 << 20, 1, 0x62), (1 << 19, 1 << 20, 0x62), (0, u32::MAX, 0x61)] {
        let [_, mut b] = pair(|_| {});
        b.hca.handle_frame(&read_request(&b, FIRST, offset, len), 0);
        let tx = b.hca.poll_transmit(0).unwrap();
        let packet = Frame::parse(tx.bytes).unwrap().packet;
        assert_eq!((packet.bth.opcode, packet.ext.aeth.unwrap().syndrome), (Opcode::RC_ACK, nak));
        assert!(matches!(b.hca.poll_event(), Some(Event::QpFailed(_, Failure::Response))));
        assert!(b.hca.poll_transmit(1_000_000).is_none());
    }
}

#[test]
fn what_is_not_spoken_draws_a_nak_and_answers_nobody_asked_for_change_nothing() {
    let raw = |b: &Host, opcode: Opcode, extra: usize| {
        // Sealed with the opcode of a SEND of as many bytes, then given its own.
        let mut bytes = foreign(b, Opcode::RC_SEND_ONLY, FIRST, Extensions::default(), &vec![0; extra]);
        bytes[42] = opcode.0;
        let (packet, seal) = bytes[14..].split_last_chunk_mut::<4>().unwrap();
        *seal = icrc(packet).unwrap();
        bytes
    };
    let spoken_not = [
        (Opcode::RC_COMPARE_SWAP, 28),
        (Opcode::RC_FETCH_ADD, 28),
        (Opcode::RC_SEND_ONLY_INVALIDATE, 8),
        (Opcode(0x15), 0),
        (Opcode(0x1f), 0),
    ];
    for (opcode, extra) in spoken_not {
        let [_, mut b] = pair(|_| {});
        b.hca.handle_frame(&raw(&b, opcode, extra), 0);
        let tx = b.hca.poll_transmit(0).unwrap();
        let Packet { bth, ext, .. } = Frame::parse(tx.bytes).unwrap().packet;
        let nak = (Opcode::RC_ACK, FIRST, Syndrome::Nak(Nak::InvalidRequest).encode());
        assert_eq!((bth.opcode, bth.psn.get(), ext.aeth.unwrap().syndrome), nak, "{opcode:?}");
    }
    let stray = [
        (Opcode::RC_READ_RESPONSE_FIRST, 8),
        (Opcode::RC_READ_RESPONSE_MIDDLE, 8),
        (Opcode::RC_READ_RESPONSE_LAST, 8),
        (Opcode::RC_READ_RESPONSE_ONLY, 8),
        (Opcode::RC_ATOMIC_ACK, 12),
    ];
    let [_, mut b] = pair(|_| {});
    for (n, (opcode, extra)) in stray.into_iter().enumerate() {
        b.hca.handle_frame(&raw(&b, opcode, extra), 0);
        assert_eq!(b.hca.counters().rx_unasked, n as u64 + 1, "{opcode:?}");
    }
    assert!(b.hca.poll_transmit(0).is_none() && b.hca.poll_event().is_none());
    b.recv(1, 0, 64);
    b.hca.handle_frame(&foreign(&b, Opcode::RC_SEND_ONLY, FIRST, Extensions::default(), b"alive"), 0);
    assert_eq!((b.completions().len(), b.hca.counters().rx_requests), (1, 1));
}

#[test]
fn a_write_whose_length_is_not_the_one_announced_is_refused() {
    for (announced, sent) in [(16, 8), (8, 16), (0, 8), (8, 0)] {
        let [mut a, mut b] = pair(|_| {});
        a.send(1, SendOp::Write { va: BASE, rkey: b.mr.rkey }, 0, sent);
        let bytes = a.hca.poll_transmit(0).unwrap().bytes.to_vec();
        let mut frame = Frame::parse(&bytes).unwrap();
        frame.packet.ext.reth.as_mut().unwrap().len = announced;
        let mut changed = Vec::new();
        frame.emit(&mut changed);
        b.hca.handle_frame(&changed, 0);
        let bytes = b.hca.poll_transmit(0).unwrap().bytes.to_vec();
        let aeth = Frame::parse(&bytes).unwrap().packet.ext.aeth.unwrap();
        assert_eq!(Syndrome::decode(aeth.syndrome), Syndrome::Nak(Nak::InvalidRequest));
    }
}

#[test]
fn a_gap_filled_before_its_nak_was_sent_is_not_named() {
    let [mut a, mut b] = pair(|c| c.rate = u64::MAX);
    let mut frames = Vec::new();
    for i in 0..3 {
        b.recv(i, 0, 4);
        a.send(i, SendOp::Send, 0, 4);
        frames.push(a.hca.poll_transmit(0).unwrap().bytes.to_vec());
    }
    for i in [0, 2, 1] {
        b.hca.handle_frame(&frames[i], 0);
    }
    let bytes = b.hca.poll_transmit(0).unwrap().bytes.to_vec();
    let packet = Frame::parse(&bytes).unwrap().packet;
    assert_eq!(packet.bth.psn, Psn::new(0xff_fff1));
    assert_eq!(packet.ext.aeth, Some(Aeth { syndrome: 0x1f, msn: 2 }));
}

#[test]
fn one_nak_names_a_gap_and_counts_messages() {
    let [mut a, mut b] = pair(|_| {});
    for i in 0..6 {
        b.recv(i, 0, 4);
        a.send(i, SendOp::Send, 0, 4);
    }
    let mut frames = Vec::new();
    let mut now = 0;
    while let Some(at) = a.hca.next_timeout().filter(|_| frames.len() < 6) {
        now = at;
        while let Some(tx) = a.hca.poll_transmit(now) {
            frames.push(tx.bytes.to_vec());
        }
    }
    // The third of six is lost.
    for (i, frame) in frames.iter().enumerate().filter(|(i, _)| *i != 2) {
        b.hca.handle_frame(frame, now + i as u64);
    }
    let bytes = b.hca.poll_transmit(now).unwrap().bytes.to_vec();
    let packet = Frame::parse(&bytes).unwrap().packet;
    assert_eq!(packet.bth.psn, Psn::new(0xff_fff2));
    assert_eq!(packet.ext.aeth, Some(Aeth { syndrome: 0x60, msn: 2 }));
    assert_eq!(b.hca.poll_transmit(now), None);
    assert_eq!((b.hca.counters().tx_nak_sequence, b.hca.counters().rx_out_of_sequence), (1, 3));
    a.hca.handle_frame(&bytes, now);
    assert_eq!(a.completions().len(), 2);
    // Answers to what follows are coalesced into one ACK of the newest packet.
    for (i, frame) in frames[2..].iter().enumerate() {
        b.hca.handle_frame(frame, now + 10 + i as u64);
    }
    let bytes = b.hca.poll_transmit(now).unwrap().bytes.to_vec();
    let packet = Frame::parse(&bytes).unwrap().packet;
    assert_eq!(packet.bth.psn, Psn::new(0xff_fff5));
    assert_eq!(packet.ext.aeth, Some(Aeth { syndrome: 0x1f, msn: 6 }));
    assert_eq!(b.hca.poll_transmit(now), None);
}

#[test]
fn marks_are_answered_with_one_cnp_per_interval_and_the_sender_is_told() {
    let [mut a, mut b] = pair(|c| {
        c.rate = 1_000_000_000;
        c.window = 128;
    });
    for i in 0..100 {
        b.recv(i, 0, 1024);
        a.send(i, SendOp::Send, 0, 1024);
    }
    let mut net = Net::new([a, b], Faults { marked: 100, ..Faults::default() }, 0);
    net.run();
    let [a, b] = &mut net.hosts;
    // 100 frames, 8.848 us apart, from 1 us on: marks at 1.000 us, then at the first after 50 us more.
    assert_eq!(b.hca.counters().rx_ce, 100);
    assert_eq!(b.hca.counters().tx_cnp, 17);
    assert_eq!(a.hca.counters().rx_cnp, 17);
    assert_eq!(a.hca.poll_event(), Some(Event::Cnp(a.qpn)));
    assert_eq!(a.hca.poll_event(), None);
}

#[test]
fn a_cnp_looks_like_one_of_a_real_adapter() {
    support::need_golden!();
    let [mut a, mut b] = pair(|_| {});
    a.send(1, SendOp::Send, 0, 4);
    b.recv(1, 0, 4);
    let mut bytes = a.hca.poll_transmit(0).unwrap().bytes.to_vec();
    mark_ce(&mut bytes);
    b.hca.handle_frame(&bytes, 0);
    let tx = b.hca.poll_transmit(0).unwrap();
    assert_eq!((tx.kind, tx.priority), (TxKind::Cnp, 6));
    let real = support::vector("A1");
    let (ours, real) = (Frame::parse(tx.bytes).unwrap(), Frame::parse(&real).unwrap());
    let expected = Bth { dest_qp: a.qpn, ..real.packet.bth };
    assert_eq!((ours.packet.bth, ours.packet.payload), (expected, real.packet.payload));
    assert_eq!((ours.outer.ip.dscp, ours.outer.ip.ecn), (real.outer.ip.dscp, real.outer.ip.ecn));
}

#[test]
fn packets_keep_to_the_rate_and_paused_priorities_stay() {
    let [mut a, _] = pair(|c| c.rate = 10_000_000_000);
    a.send(1, SendOp::Send, 0, 4000);
    let mut times = Vec::new();
    a.hca.set_paused(1 << 3);
    assert_eq!(a.hca.poll_transmit(500), None);
    a.hca.set_paused(!(1 << 3));
    let mut now = 500;
    while times.len() < 4 {
        match a.sent_one(now) {
            Some(_) => times.push(now),
            None => now = a.hca.next_timeout().unwrap(),
        }
    }
    // 1082 B frames are 1106 B on the wire: 884.8 ns.
    assert_eq!(times, [500, 1384, 2269, 3154]);
}

#[test]
fn frames_of_strangers_are_counted_and_change_nothing() {
    let [mut a, mut b] = pair(|_| {});
    b.recv(1, 0, 100);
    a.send(1, SendOp::Send, 0, 4);
    let good = a.hca.poll_transmit(0).unwrap().bytes.to_vec();
    let reject = |b: &mut Host, change: &dyn Fn(&mut Frame<'_>)| {
        let mut frame = Frame::parse(&good).unwrap();
        change(&mut frame);
        let mut out = Vec::new();
        frame.emit(&mut out);
        b.hca.handle_frame(&out, 0);
    };
    reject(&mut b, &|f| f.outer.dst = Mac([9; 6]));
    reject(&mut b, &|f| f.packet.bth.dest_qp = Qpn(0));
    reject(&mut b, &|f| f.packet.bth.dest_qp = Qpn(0xff_ffff));
    reject(&mut b, &|f| f.packet.bth.pkey = 0x7ffe);
    assert_eq!(b.hca.counters().rx_unknown_qp, 4);
    reject(&mut b, &|f| f.packet.bth.opcode = Opcode::UC_SEND_ONLY);
    assert_eq!(b.hca.counters().rx_unsupported, 1);
    let mut bad = good.clone();
    *bad.last_mut().unwrap() ^= 1;
    b.hca.handle_frame(&bad, 0);
    b.hca.handle_frame(&good[..40], 0);
    b.hca.handle_frame(&[0; 64], 0);
    let c = *b.hca.counters();
    assert_eq!((c.rx_bad_icrc, c.rx_malformed, c.rx_not_roce), (1, 1, 1));
    assert_eq!((c.rx_requests, b.hca.poll_transmit(0)), (0, None));
    b.hca.handle_frame(&good, 0);
    assert_eq!(b.hca.counters().rx_requests, 1);
}

#[test]
fn cc003_work_requests_in_flight_are_limited_and_a_masked_pair_is_silent() {
    let [mut a, b] = pair(|config| config.rate = u64::MAX);
    let op = SendOp::Write { va: BASE, rkey: b.mr.rkey };
    (0..20).for_each(|n| a.send(n, op, 0, 2000));
    a.hca.set_outstanding(a.qpn, 0);
    assert_eq!((a.sent(0), a.hca.next_timeout()), (vec![], None));
    a.hca.set_outstanding(a.qpn, 8);
    // Two packets each.
    assert_eq!(a.sent(1).len(), 16);
    // Three requests are acknowledged, so three more may go.
    answer(&mut a, 0xff_fff0 + 5, Syndrome::ACK_NO_CREDITS, 2);
    assert_eq!(a.sent(3).len(), 6);
    a.hca.set_outstanding(a.qpn, u32::MAX);
    assert_eq!(a.sent(4).len(), 40 - 22);
}
