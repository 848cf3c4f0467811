//! What is asked for and answered: messages, writes, reads; what is refused, and strangers.

#[path = "support/pair.rs"]
mod pair;

use pair::{BASE, Faults, Host, Net, address, pair, pattern};
use std::net::IpAddr;
use weir_dataplane::types::{Mac, Nanos};
use weir_endpoint::rc::psn::Psn;
use weir_endpoint::roce::frame::{Addresses, Frame, IpHeader, Outer};
use weir_endpoint::roce::hca::{Event, Failure, TxKind};
use weir_endpoint::roce::icrc::icrc;
use weir_endpoint::roce::verbs::{PostError, SendOp, SendWr, Status, Verb};
use weir_endpoint::roce::wire::{Aeth, Bth, Extensions, Nak, Opcode, Packet, Qpn, Reth, Syndrome};

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
    assert_eq!(b.hca.counters().rx_no_matching_qp, 4);
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
