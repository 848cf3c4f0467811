//! Published and captured RoCEv2 frames: read, verified, and written again byte for byte.

mod support;

use proptest::prelude::*;
use support::{capture, need_golden, vector, vectors};
use weir_endpoint::rc::psn::Psn;
use weir_endpoint::roce::frame::{Addresses, Frame, ParseError};
use weir_endpoint::roce::icrc::icrc;
use weir_endpoint::roce::wire::{Aeth, Deth, Extensions, Nak, Opcode, Qpn, Reth, Syndrome};

#[test]
fn every_vector_parses_and_is_written_again_byte_for_byte() {
    need_golden!();
    let all = vectors();
    let ids: Vec<&str> = all.iter().map(|v| v.id.as_str()).collect();
    let expected = "A1 B1 B2 B3 B4 B5 B6 B7 B8 B9 C1 C2 C3 C4 C5 D1 D2 D3 D4 D5 D6 E1 F1 G1 G2 G3 G4";
    assert_eq!(ids.join(" "), expected);
    let mut written = Vec::new();
    for v in &all {
        let frame = Frame::parse(&v.frame).unwrap_or_else(|e| panic!("{}: {e}", v.id));
        frame.emit(&mut written);
        assert_eq!(written, v.frame, "{}", v.id);
        let (packet, sent) = v.frame[14..].split_last_chunk::<4>().unwrap();
        assert_eq!(icrc(packet).as_ref(), Some(sent), "{}", v.id);
    }
}

#[test]
fn fields_of_the_vectors_are_those_described() {
    need_golden!();
    let frame = vector("A1");
    let a1 = Frame::parse(&frame).unwrap();
    assert_eq!((a1.packet.bth.opcode, a1.packet.bth.becn), (Opcode::CNP, true));
    assert_eq!((a1.outer.ip.dscp, a1.outer.ip.ecn, a1.outer.src_port), (48, 2, 0));
    assert_eq!((a1.packet.bth.dest_qp, a1.packet.payload), (Qpn(0x118), &[0; 16][..]));

    let frame = vector("B1");
    let b1 = Frame::parse(&frame).unwrap();
    assert_eq!((b1.packet.bth.opcode, b1.packet.bth.ack_req), (Opcode::RC_SEND_ONLY, true));
    assert_eq!((b1.packet.bth.dest_qp, b1.packet.bth.psn), (Qpn(0x100), Psn::new(0)));
    assert_eq!(b1.packet.payload, [0x8000_0000u32, 1, 2, 3].map(u32::to_be_bytes).concat());

    let frame = vector("B4");
    let b4 = Frame::parse(&frame).unwrap();
    assert_eq!(b4.packet.ext, Extensions { imm: Some(0xffff_1000), ..Extensions::default() });
    assert_eq!((b4.packet.bth.opcode, b4.packet.bth.psn), (Opcode::RC_SEND_ONLY_IMM, Psn::new(0x10)));

    let frame = vector("B7");
    let b7 = Frame::parse(&frame).unwrap();
    let reth = Reth { va: 0x55c2_c46b_c000, rkey: 0x0270, len: 16 };
    assert_eq!((b7.packet.bth.opcode, b7.packet.ext.reth), (Opcode::RC_WRITE_ONLY, Some(reth)));
    assert_eq!(b7.packet.payload.len(), 16);

    let frame = vector("D1");
    let d1 = Frame::parse(&frame).unwrap();
    assert_eq!((d1.packet.payload, d1.outer.udp_checksum), (&[0xde, 0xad, 0xbe][..], 0x7f22));
    assert!(matches!(d1.outer.ip.addresses, Addresses::V6 { flow_label: 0x34567, .. }));
    let frame = vector("D2");
    assert_eq!(Frame::parse(&frame).unwrap().packet.payload.len(), 5);

    let frame = vector("E1");
    let e1 = Frame::parse(&frame).unwrap();
    assert_eq!((e1.packet.bth.opcode, e1.packet.bth.mig_req), (Opcode::UC_SEND_ONLY, true));
    assert_eq!((e1.outer.ip.ecn, e1.outer.udp_checksum), (1, 0xaca2));
}

#[test]
fn answers_in_the_vectors_mean_what_is_described() {
    need_golden!();
    let sequence = Syndrome::Nak(Nak::Sequence);
    let table = [
        ("B3", 0, Syndrome::ACK_NO_CREDITS, 1),
        ("B5", 0xff_ffe3, sequence, 3),
        ("B9", 0xdb_fd26, Syndrome::ACK_NO_CREDITS, 1),
        ("C1", 0, Syndrome::ACK_NO_CREDITS, 1),
        ("C4", 0xff_fff1, sequence, 1),
        ("C5", 0x104, Syndrome::Rnr(14), 1),
        ("D3", 0x11_2235, Syndrome::ACK_NO_CREDITS, 0x44_5566),
        ("D4", 0x11_2233, Syndrome::Rnr(25), 0x44_5566),
        ("D5", 0x11_2234, sequence, 0x44_5566),
        ("D6", 0x11_2235, Syndrome::Nak(Nak::InvalidRequest), 0x44_5566),
    ];
    for (id, psn, syndrome, msn) in table {
        let frame = vector(id);
        let packet = Frame::parse(&frame).unwrap().packet;
        assert_eq!(packet.bth.psn, Psn::new(psn), "{id}");
        let aeth = packet.ext.aeth.unwrap();
        assert_eq!(Syndrome::decode(aeth.syndrome), syndrome, "{id}");
        assert_eq!(aeth.msn, msn, "{id}");
    }
    let frame = vector("B6");
    let aeth = Frame::parse(&frame).unwrap().packet.ext.aeth.unwrap();
    assert_eq!(Syndrome::decode(aeth.syndrome), Syndrome::Rnr(12));
}

/// Section 4 of the vectors: which bytes the ICRC protects. `at` is a byte of B1, `mask` is toggled.
#[test]
fn icrc_invariance_table() {
    need_golden!();
    let b1 = vector("B1");
    let table = [
        ("TTL 64 -> 63", 22, 64 ^ 63, true),
        ("TOS 0 -> CE", 15, 0x03, true),
        ("IP header checksum", 24, 0x55, true),
        ("UDP checksum", 41, 0x55, true),
        ("BECN", 46, 0x40, true),
        ("destination MAC", 0, 0x02, true),
        ("source MAC", 11, 0x02, true),
        ("IP identification", 19, 1, false),
        ("DF", 20, 0x40, false),
        ("UDP source port", 35, 1, false),
        ("SE", 43, 0x80, false),
        ("MigReq", 43, 0x40, false),
        ("AckReq", 50, 0x80, false),
        ("PSN + 1", 53, 1, false),
        ("payload bit", 60, 0x10, false),
        ("destination IP", 33, 1, false),
    ];
    for (what, at, mask, valid) in table {
        let mut frame = b1.clone();
        frame[at] ^= mask;
        let (packet, sent) = frame[14..].split_last_chunk::<4>().unwrap();
        assert_eq!(icrc(packet).as_ref() == Some(sent), valid, "{what}");
    }
}

#[test]
fn captures_of_a_linux_endpoint_verify_and_are_written_again() {
    need_golden!();
    let mut written = Vec::new();
    for (name, least) in
        [("allreduce_2hosts_16B.pcap", 16), ("allreduce_2hosts_imm.pcap", 16), ("rxe_nak_rnr.pcap", 4)]
    {
        let mut roce = 0;
        for frame in capture(name) {
            match Frame::parse(&frame) {
                Ok(parsed) => {
                    parsed.emit(&mut written);
                    assert_eq!(written, frame, "{name}");
                    roce += 1;
                }
                // ARP and the like; anything on port 4791 has to verify.
                Err(e) => assert_eq!(e, ParseError::NotRoce, "{name}"),
            }
        }
        assert!(roce >= least, "{name}: {roce} RoCE frames");
    }
}

/// Replaces the last four bytes by the right ICRC and repairs the IPv4 checksum, so that damage
/// elsewhere reaches the checks behind these two.
fn reseal(frame: &mut [u8]) {
    if frame.len() < 14 + 20 + 4 {
        return;
    }
    if frame[14] == 0x45 {
        frame[24..26].fill(0);
        let sum: u32 = frame[14..34].chunks(2).map(|w| u32::from(w[0]) << 8 | u32::from(w[1])).sum();
        let sum = (sum & 0xffff) + (sum >> 16);
        let sum = !((sum & 0xffff) + (sum >> 16)) as u16;
        frame[24..26].copy_from_slice(&sum.to_be_bytes());
    }
    let end = frame.len() - 4;
    if let Some(crc) = icrc(&frame[14..end]) {
        frame[end..].copy_from_slice(&crc);
    }
}

proptest! {
    #[test]
    fn damaged_frames_never_panic_and_what_parses_survives_a_round_trip(
        pick in 0usize..27, cut in 0usize..80, edits in prop::collection::vec((12usize..110, any::<u8>()), 0..4),
    ) {
        if !support::present() {
            return Ok(());
        }
        let mut frame = vectors().swap_remove(pick).frame;
        frame.truncate(frame.len().saturating_sub(cut / 2));
        for (at, byte) in edits {
            let at = at % frame.len();
            frame[at] = byte;
        }
        reseal(&mut frame);
        if let Ok(parsed) = Frame::parse(&frame) {
            let mut written = Vec::new();
            parsed.emit(&mut written);
            prop_assert_eq!(Frame::parse(&written), Ok(parsed));
        }
    }
}

#[test]
fn fuzz_arbitrary_bytes_never_panic() {
    bolero::check!().for_each(|bytes: &[u8]| {
        let _ = Frame::parse(bytes);
    });
}

#[test]
fn contradictions_are_refused_by_name() {
    need_golden!();
    let b1 = vector("B1");
    let refused = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut frame = b1.clone();
        change(&mut frame);
        reseal(&mut frame);
        Frame::parse(&frame).map(|_| ()).unwrap_err()
    };
    assert_eq!(refused(&|f| f[12] = 0x88), ParseError::NotRoce);
    assert_eq!(refused(&|f| f[23] = 6), ParseError::NotRoce);
    assert_eq!(refused(&|f| f[37] = 0xb8), ParseError::NotRoce);
    assert_eq!(refused(&|f| f[39] += 4), ParseError::Length);
    assert_eq!(refused(&|f| f[17] += 4), ParseError::Length);
    assert_eq!(refused(&|f| f[20] = 0x20), ParseError::IpForm);
    assert_eq!(refused(&|f| f[14] = 0x46), ParseError::IpForm);
    assert_eq!(refused(&|f| f[43] = 1), ParseError::Version);
    assert_eq!(refused(&|f| f[42] = 0xa4), ParseError::Opcode(0xa4), "XRC");
    let mut frame = b1.clone();
    frame[24] ^= 1;
    assert_eq!(Frame::parse(&frame), Err(ParseError::IpChecksum));
    let mut frame = b1.clone();
    frame[60] ^= 1;
    assert_eq!(Frame::parse(&frame), Err(ParseError::Icrc));
    // Three pad bytes announced where no payload is.
    let mut ack = vector("D3");
    ack[14 + 40 + 8 + 1] |= 0x30;
    reseal(&mut ack);
    assert_eq!(Frame::parse(&ack), Err(ParseError::Pad));
    for len in 0..b1.len() {
        assert!(Frame::parse(&b1[..len]).is_err(), "cut to {len}");
    }
}

#[test]
fn a_vlan_tag_and_a_datagram_header_survive() {
    need_golden!();
    let frame = vector("B1");
    let mut parts = Frame::parse(&frame).unwrap();
    parts.outer.vlan = Some(3 << 13 | 100);
    parts.packet.bth.opcode = Opcode::UD_SEND_ONLY_IMM;
    parts.packet.ext.deth = Some(Deth { qkey: 0x1111_1111, src_qp: Qpn(0x11) });
    parts.packet.ext.imm = Some(7);
    let mut written = Vec::new();
    parts.emit(&mut written);
    assert_eq!(written.len(), frame.len() + 4 + 8 + 4);
    assert_eq!(Frame::parse(&written), Ok(parts));
    parts.packet.bth.opcode = Opcode::RC_ACK;
    parts.packet.ext = Extensions { aeth: Some(Aeth { syndrome: 0x60, msn: 9 }), ..Extensions::default() };
    parts.packet.payload = &[];
    parts.emit(&mut written);
    assert_eq!(Frame::parse(&written), Ok(parts));
}
