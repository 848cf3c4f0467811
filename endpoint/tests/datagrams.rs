//! Unreliable datagrams between two adapters.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use weir_dataplane::types::Mac;
use weir_endpoint::roce::cq::CqId;
use weir_endpoint::roce::frame::Frame;
use weir_endpoint::roce::hca::Hca;
use weir_endpoint::roce::memory::{Access, Mr};
use weir_endpoint::roce::qp::Path;
use weir_endpoint::roce::ud::{FIRST_UD_QPN, UdConfig, UdSendWr};
use weir_endpoint::roce::verbs::{Completion, PostError, RecvWr, Sge, Status};
use weir_endpoint::roce::wire::{DEFAULT_PKEY, Deth, Opcode, Qpn};

const BASE: u64 = 0x1000;
const QKEY: u32 = 0x1111_1111;

struct Host {
    hca: Hca,
    cq: CqId,
    qpn: Qpn,
    mr: Mr,
}

impl Host {
    fn new() -> Self {
        let mut hca = Hca::new();
        let cq = hca.create_cq(64);
        let access = Access { local_write: true, ..Access::default() };
        let bytes = (0..8192u32).map(|n| n as u8).collect();
        let mr = hca.register(BASE, bytes, access).unwrap();
        let config = UdConfig {
            send_cq: cq,
            recv_cq: cq,
            sq_depth: 4,
            rq_depth: 4,
            mtu: 1024,
            qkey: QKEY,
            pkey: DEFAULT_PKEY,
            rate: u64::MAX,
        };
        let qpn = hca.create_ud_qp(config).unwrap();
        Self { hca, cq, qpn, mr }
    }

    fn sge(&self, offset: u64, len: u32) -> Sge {
        Sge { lkey: self.mr.lkey, addr: BASE + offset, len }
    }

    fn completion(&mut self) -> Option<Completion> {
        self.hca.poll_cq(self.cq)
    }

    fn datagram(&self, len: u32) -> UdSendWr {
        UdSendWr { wr_id: 1, sge: self.sge(100, len), imm: Some(7), path: path(4), qkey: QKEY }
    }
}

fn path(family: u8) -> Path {
    let address = |n: u8| -> (Mac, IpAddr) {
        let ip: IpAddr = match family {
            4 => Ipv4Addr::new(10, 0, 0, n).into(),
            _ => Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, u16::from(n)).into(),
        };
        (Mac([2, 0, 0, 0, 0, n]), ip)
    };
    Path { vlan: (family == 6).then_some(5), ..Path::new(address(1), address(2), Qpn(FIRST_UD_QPN)) }
}

#[test]
fn dev85_a_datagram_arrives_behind_its_network_header() {
    for family in [4, 6] {
        let (mut a, mut b) = (Host::new(), Host::new());
        let wr = RecvWr { wr_id: 9, sge: b.sge(0, 1064) };
        b.hca.post_recv(b.qpn, wr).unwrap();
        a.hca.post_send_ud(a.qpn, UdSendWr { path: path(family), ..a.datagram(501) }).unwrap();
        assert_eq!(a.hca.next_timeout(), Some(0));
        let bytes = a.hca.poll_transmit(0).unwrap().bytes.to_vec();
        let sent = a.completion().unwrap();
        assert_eq!((sent.wr_id, sent.status), (1, Status::Success));
        let packet = Frame::parse(&bytes).unwrap().packet;
        assert_eq!(packet.bth.opcode, Opcode::UD_SEND_ONLY_IMM);
        assert_eq!(packet.ext.deth, Some(Deth { qkey: QKEY, src_qp: a.qpn }));
        b.hca.handle_frame(&bytes, 1);
        let got = b.completion().unwrap();
        assert_eq!((got.wr_id, got.status, got.len), (9, Status::Success, 541));
        assert_eq!((got.imm, got.src_qp), (Some(7), Some(a.qpn)));
        let buffer = b.hca.memory(b.sge(0, 541)).unwrap();
        match family {
            4 => assert_eq!((&buffer[..20], &buffer[20..40]), (&[0; 20][..], &bytes[14..34])),
            _ => assert_eq!(buffer[..40], bytes[18..58]),
        }
        assert!(buffer[40..].iter().zip(100u32..).all(|(byte, n)| *byte == n as u8));
    }
}

#[test]
fn datagrams_that_do_not_fit_are_dropped_without_a_word() {
    let (mut a, mut b) = (Host::new(), Host::new());
    let send = |a: &mut Host, b: &mut Host, wr: UdSendWr| {
        a.hca.post_send_ud(a.qpn, wr).unwrap();
        let bytes = a.hca.poll_transmit(0).unwrap().bytes.to_vec();
        b.hca.handle_frame(&bytes, 1);
        assert_eq!(b.hca.poll_transmit(2), None);
    };
    // No buffer.
    let wr = a.datagram(100);
    send(&mut a, &mut b, wr);
    assert_eq!(b.hca.counters().rx_rnr, 1);
    // A wrong key; one that says "mine", which happens to be right.
    b.hca.post_recv(b.qpn, RecvWr { wr_id: 3, sge: b.sge(0, 139) }).unwrap();
    send(&mut a, &mut b, UdSendWr { qkey: 5, ..wr });
    assert_eq!((b.hca.counters().rx_no_matching_qp, b.completion()), (1, None));
    // A buffer one byte too short.
    send(&mut a, &mut b, UdSendWr { qkey: 1 << 31, ..wr });
    assert_eq!(b.completion().map(|c| (c.wr_id, c.status)), Some((3, Status::LocalLength)));
    assert_eq!(b.hca.counters().rx_datagrams, 0);
}

#[test]
fn what_can_not_be_a_datagram_is_not_taken() {
    let mut a = Host::new();
    let good = a.datagram(1024);
    assert_eq!(a.hca.post_send_ud(a.qpn, a.datagram(1025)), Err(PostError::LongerThanMtu(1024)));
    let mixed = Path { dst_ip: Ipv6Addr::LOCALHOST.into(), ..path(4) };
    assert_eq!(a.hca.post_send_ud(a.qpn, UdSendWr { path: mixed, ..good }), Err(PostError::Family));
    let outside = UdSendWr { sge: a.sge(8000, 300), ..good };
    assert_eq!(a.hca.post_send_ud(a.qpn, outside), Err(PostError::Protection));
    assert_eq!(
        a.hca.post_send_ud(Qpn(FIRST_UD_QPN + 1), good),
        Err(PostError::UnknownQp(Qpn(FIRST_UD_QPN + 1)))
    );
    for _ in 0..4 {
        a.hca.post_send_ud(a.qpn, good).unwrap();
    }
    assert_eq!(a.hca.post_send_ud(a.qpn, good), Err(PostError::QueueFull));
    // Its priority is 3.
    a.hca.set_paused(8);
    assert_eq!(a.hca.poll_transmit(0), None);
    a.hca.set_paused(0);
    assert!(a.hca.poll_transmit(0).is_some());
}
