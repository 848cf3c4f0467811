//! A Linux host's part in captured collectives, played by our adapter: the switch's frames are
//! replayed, and what we send must be what the Linux host sent, but for the IP identification.

mod support;

use std::net::{IpAddr, Ipv4Addr};
use support::{capture, need_golden};
use weir_dataplane::types::Mac;
use weir_endpoint::rc::psn::Psn;
use weir_endpoint::roce::frame::{Addresses, Frame};
use weir_endpoint::roce::hca::{Hca, TxKind};
use weir_endpoint::roce::memory::Access;
use weir_endpoint::roce::qp::{Path, QpConfig, TrafficClass};
use weir_endpoint::roce::verbs::{RecvWr, SendOp, SendWr, Sge, Status, Verb};
use weir_endpoint::roce::wire::{Opcode, Qpn};

fn parse(bytes: &[u8]) -> Frame<'_> {
    Frame::parse(bytes).unwrap()
}

/// The frame with another IP identification, sealed anew.
fn with_id(bytes: &[u8], new: u16) -> Vec<u8> {
    let mut frame = parse(bytes);
    if let Addresses::V4 { id, .. } = &mut frame.outer.ip.addresses {
        *id = new;
    }
    let mut out = Vec::new();
    frame.emit(&mut out);
    out
}

/// Replays `name` from the view of `host`, whose first PSNs are `send_psn` and `recv_psn`.
fn replay(name: &str, host: u8, send_psn: u32, recv_psn: u32) {
    let frames = capture(name);
    let own: IpAddr = Ipv4Addr::new(10, 0, 0, host).into();
    let switch: IpAddr = Ipv4Addr::new(10, 0, 0, 254).into();
    let sent = |f: &&Vec<u8>| parse(f).outer.ip.addresses.src() == own;

    // What the Linux host sent: answers in order, and each request when it was first sent.
    let (acks, requests): (Vec<&Vec<u8>>, Vec<&Vec<u8>>) =
        frames.iter().filter(sent).partition(|f| parse(f).packet.bth.opcode == Opcode::RC_ACK);
    let mut requests = requests;
    let mut seen = Vec::new();
    requests.retain(|f| {
        let psn = parse(f).packet.bth.psn;
        let new = !seen.contains(&psn);
        seen.push(psn);
        new
    });
    assert_eq!(requests.len(), 4, "{name}");

    let mut hca = Hca::new();
    let cq = hca.create_cq(64);
    let qpn = hca.create_qp(QpConfig { rate: u64::MAX, ..QpConfig::new(cq, cq) }).unwrap();
    let first = parse(requests[0]);
    let plain = TrafficClass { dscp: 0, ecn: 0, priority: 0 };
    let path = Path {
        src_port: first.outer.src_port,
        data: plain,
        ack: plain,
        send_psn: Psn::new(send_psn),
        recv_psn: Psn::new(recv_psn),
        ..Path::new((first.outer.src, own), (first.outer.dst, switch), first.packet.bth.dest_qp)
    };
    assert_eq!((qpn, path.src), (Qpn(0x11), Mac([0x52, 0x54, 0, 0, 0, host - 1])));
    hca.connect(qpn, path).unwrap();
    let mr = hca.register(0, vec![0; 256], Access { local_write: true, ..Access::default() }).unwrap();
    let sge = |at: usize| Sge { lkey: mr.lkey, addr: at as u64 * 16, len: 16 };
    for (i, request) in requests.iter().enumerate() {
        let packet = parse(request).packet;
        hca.memory_mut(sge(i)).unwrap().copy_from_slice(packet.payload);
        let op = packet.ext.imm.map_or(SendOp::Send, SendOp::SendImm);
        hca.post_send(qpn, SendWr { wr_id: i as u64, op, sge: sge(i) }).unwrap();
        hca.post_recv(qpn, RecvWr { wr_id: i as u64, sge: sge(8 + i) }).unwrap();
    }

    let (mut our_acks, mut our_requests) = (Vec::new(), Vec::new());
    let mut drain = |hca: &mut Hca| {
        while let Some(tx) = hca.poll_transmit(0) {
            let list = if tx.kind == TxKind::Ack { &mut our_acks } else { &mut our_requests };
            list.push(with_id(tx.bytes, 0));
        }
    };
    drain(&mut hca);
    let mut results = Vec::new();
    for frame in frames.iter().filter(|f| parse(f).outer.ip.addresses.dst() == own) {
        let packet = parse(frame).packet;
        if packet.bth.opcode == Opcode::RC_SEND_ONLY && !results.contains(&packet.payload) {
            results.push(packet.payload);
        }
        hca.handle_frame(frame, 0);
        drain(&mut hca);
    }
    let cleared = |list: &[&Vec<u8>]| list.iter().map(|f| with_id(f, 0)).collect::<Vec<_>>();
    assert_eq!(our_requests, cleared(&requests), "{name}, host {host}");
    assert_eq!(our_acks, cleared(&acks), "{name}, host {host}");
    assert_eq!(results.len(), 4);
    for (i, result) in results.iter().enumerate() {
        assert_eq!(hca.memory(sge(8 + i)).unwrap(), *result);
    }
    let done: Vec<_> = std::iter::from_fn(|| hca.poll_cq(cq)).collect();
    assert!(done.iter().all(|c| c.status == Status::Success));
    assert_eq!(done.iter().filter(|c| c.verb == Verb::Recv).count(), 4);
    assert_eq!(done.len(), 8);
}

#[test]
fn a_captured_allreduce_draws_the_same_frames_from_us() {
    need_golden!();
    for host in [1, 2] {
        replay("allreduce_2hosts_16B.pcap", host, 0, 0);
        replay("allreduce_2hosts_imm.pcap", host, 0x10, 0x20);
    }
}
