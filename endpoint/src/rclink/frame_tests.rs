use super::super::rh::Psn;
use super::*;
use proptest::prelude::*;
use weir_dataplane::parse::{Kind, Profile};

fn station(n: u8) -> Station {
    Station { mac: Mac([2, 0, 0x5e, 0x10, n, 0x40 + n]), ip: Ipv4Addr::new(10, 1, 0, n) }
}

fn head(kind: TcType, channel: u8) -> Head {
    Head { dst: station(1), src: station(2), tag: None, tc: TrafficClass { kind, channel }, ecn: 2 }
}

fn rh(opcode: Opcode) -> Rh {
    Rh {
        opcode,
        force_ack: true,
        pad: 0,
        timestamp: Some(0xbeef),
        pkey: 5,
        length_or_syndrome: 0,
        psn: Psn::new(0xabc),
        dest_qp: 0x1234,
    }
}

/// The four formats, GEN2 and Lite in both octet orders, and the profile the switch reads them with.
fn formats() -> [(Format, Profile); 6] {
    let [public, rclink] = [Variant::Public, Variant::RcLink];
    [
        (Format::Standard, Profile::standard_rclink()),
        (Format::AfhGen1, Profile::afh_gen1()),
        (Format::AfhGen2(public), Profile::afh_gen2_16b(public)),
        (Format::AfhGen2(rclink), Profile::afh_gen2_16b(rclink)),
        (Format::AfhLite(public), Profile::afh_lite(public)),
        (Format::AfhLite(rclink), Profile::afh_lite(rclink)),
    ]
}

fn emitted(codec: &Codec, head: &Head, rh: &Rh, payload: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    codec.emit(head, rh, payload, &mut out);
    out
}

#[test]
fn sw003_the_switch_and_the_endpoint_read_the_same_frame() {
    for (format, profile) in formats() {
        let codec = Codec::new(format);
        for tag in [None, Some((100, 5))] {
            if tag.is_some() && codec.lite() {
                continue;
            }
            let head = Head { tag, ..head(TcType::Type1, 3) };
            let frame = emitted(&codec, &head, &rh(Opcode::Send), &[7; 100]);
            let parsed = profile.parse(&frame, frame.len()).unwrap();
            let vid = tag.map_or(0, |(vid, _)| vid);
            assert_eq!(parsed.dst_key, profile.key(station(1).mac.to_u64() & !(1 << 40), vid), "{format:?}");
            assert_eq!(parsed.src_key, profile.key(station(2).mac.to_u64() & !(1 << 40), vid), "{format:?}");
            assert!(!parsed.group && !parsed.malformed_l3);
            assert_eq!(parsed.pcp, tag.map(|(_, pcp)| pcp));
            let tc = head.tc.byte();
            match format {
                Format::Standard => {
                    assert_eq!((parsed.dscp, parsed.ecn.codepoint, parsed.tc), (Some(tc >> 2), 2, None));
                }
                _ => assert_eq!((parsed.dscp, parsed.tc), (None, Some(tc))),
            }
        }
    }
}

#[test]
fn sw044_the_switch_knows_ack_and_cnp() {
    for (format, profile) in formats() {
        let codec = Codec { crc: true, ..Codec::new(format) };
        if codec.lite() {
            continue;
        }
        for (opcode, kind) in [
            (Opcode::Send, Kind::Data),
            (Opcode::Ack, Kind::Ack),
            (Opcode::Cnp, Kind::Cnp),
            (Opcode::Credit, Kind::Data),
        ] {
            let frame = emitted(&codec, &head(TcType::Type1, 7), &rh(opcode), &[]);
            assert_eq!(profile.parse(&frame, frame.len()).unwrap().kind, kind, "{format:?}");
        }
    }
}

#[test]
fn type2_goes_to_a_group() {
    let group = Station { mac: Mac([3, 0, 0, 0, 0x12, 0x34]), ip: Ipv4Addr::new(239, 0, 0, 1) };
    for (format, profile) in formats() {
        let codec = Codec::new(format);
        let head = Head { dst: group, ..head(TcType::Type2, 1) };
        let frame = emitted(&codec, &head, &rh(Opcode::Send), &[1; 64]);
        let read = codec.read(&frame).unwrap();
        match read.body {
            Body::Type2(got, payload) => assert_eq!((got.dest_qp, payload), (0x1234, &[1u8; 64][..])),
            Body::Lite(payload) => assert_eq!((read.tc.kind, payload), (TcType::Type2, &[1u8; 64][..])),
            other => panic!("{other:?}"),
        }
        // With flags behind the destination the M bit of the octet order is the group bit all the same.
        assert!(profile.parse(&frame, frame.len()).unwrap().group, "{format:?}");
    }
}

#[test]
fn sw006_header_bytes() {
    let bytes = |format, tag| {
        let head = Head { tag, ..head(TcType::Type1, 3) };
        emitted(&Codec::new(format), &head, &rh(Opcode::Send), &[0; 1000]).len() - 1000
    };
    let tag = Some((1, 0));
    assert_eq!([bytes(Format::Standard, None), bytes(Format::Standard, tag)], [50, 54]);
    assert_eq!([bytes(Format::AfhGen1, None), bytes(Format::AfhGen1, tag)], [22, 26]);
    let gen2 = Format::AfhGen2(Variant::Public);
    assert_eq!([bytes(gen2, None), bytes(gen2, tag)], [22, 26]);
    assert_eq!(bytes(Format::AfhLite(Variant::Public), None), 12);
}

#[test]
fn sw134_dev35_bandwidth_efficiency() {
    // Payload of 1344 bytes as hundredths of a percent of frame with FCS, and of its time on the wire.
    let efficiency = |format, tag| {
        let codec = Codec { crc: true, ..Codec::new(format) };
        let head = Head { tag, ..head(TcType::Type1, 3) };
        let frame = emitted(&codec, &head, &rh(Opcode::Send), &[0; MAX_PAYLOAD]).len() + 4;
        let share = |of: usize| (MAX_PAYLOAD * 20_000 / of).div_ceil(2);
        (frame, share(frame), share(frame + 20))
    };
    let tag = Some((1, 0));
    assert_eq!(efficiency(Format::AfhLite(Variant::Public), None), (1360, 9882, 9739));
    assert_eq!(efficiency(Format::Standard, tag), (1406, 9559, 9425));
    assert_eq!(efficiency(Format::Standard, None).1, 9586);
    assert_eq!(efficiency(Format::AfhGen1, None).1, 9782);
    assert_eq!(efficiency(Format::AfhGen2(Variant::Public), tag).1, 9753);
}

#[test]
fn dev22_acks_are_padded_and_the_padding_is_removed() {
    for (format, _) in formats() {
        let codec = Codec { crc: true, ..Codec::new(format) };
        if codec.lite() {
            continue;
        }
        for (opcode, payload) in [(Opcode::Ack, 0), (Opcode::Cnp, 0), (Opcode::Send, 5), (Opcode::Send, 0)] {
            let sent = rh(opcode);
            let frame = emitted(&codec, &head(TcType::Type1, 7), &sent, &vec![9; payload]);
            assert!(frame.len() >= 60);
            let Body::Type1(got, content) = codec.read(&frame).unwrap().body else { panic!() };
            assert_eq!((got.opcode, got.psn, got.dest_qp), (sent.opcode, sent.psn, sent.dest_qp));
            assert_eq!(content, vec![9; payload]);
        }
    }
}

#[test]
fn other_ethernet_is_type3() {
    for (format, _) in formats() {
        let codec = Codec::new(format);
        let arp = [&[0xff; 6][..], &station(2).mac.0, &[8, 6], &[0; 46]].concat();
        match codec.read(&arp) {
            Ok(frame) if !codec.lite() => assert_eq!(frame.body, Body::Raw(&arp)),
            // Lite has no EtherType: whatever comes is a Lite frame or none (DEV-02).
            Ok(frame) => assert!(matches!(frame.body, Body::Lite(_))),
            Err(why) => assert_eq!(why, FrameError::Type),
        }
    }
}

#[test]
fn a_changed_byte_fails_the_crc() {
    let codec = Codec { crc: true, ..Codec::new(Format::AfhGen1) };
    let good = emitted(&codec, &head(TcType::Type1, 3), &rh(Opcode::Send), &[5; 200]);
    for at in 14..good.len() {
        let mut bad = good.clone();
        bad[at] ^= 0x10;
        assert!(codec.read(&bad).is_err(), "{at}");
    }
}

proptest! {
    #[test]
    fn any_payload_round_trips(
        payload in proptest::collection::vec(any::<u8>(), 48..=MAX_PAYLOAD),
        short in 0usize..48,
        at in 0usize..6,
        crc in any::<bool>(),
        tagged in any::<bool>(),
        padding in 0usize..20,
    ) {
        let (format, _) = &formats()[at];
        let codec = Codec { crc, ..Codec::new(*format) };
        let payload = if codec.lite() || crc { &payload[..] } else { &payload[..short] };
        let tag = tagged.then_some((7, 3));
        let head = Head { tag, ..head(TcType::Type1, 4) };
        let mut frame = emitted(&codec, &head, &rh(Opcode::Send), payload);
        prop_assert_eq!(frame.len(), codec.frame_len(payload.len(), tagged && !codec.lite()));
        if *format == Format::Standard {
            frame.resize(frame.len() + padding, 0xee);
        }
        let read = codec.read(&frame).unwrap();
        prop_assert_eq!((read.dst, read.src), (codec.station(head.dst.mac), codec.station(head.src.mac)));
        prop_assert_eq!(read.tc, head.tc);
        match read.body {
            Body::Type1(got, content) => {
                prop_assert_eq!(content, payload);
                prop_assert_eq!((got.psn, got.timestamp), (Psn::new(0xabc), Some(0xbeef)));
            }
            Body::Lite(content) => prop_assert_eq!(content, payload),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn no_bytes_panic(mut bytes in proptest::collection::vec(any::<u8>(), 0..160), at in 0usize..6, ours in 0..3) {
        if ours > 0 && bytes.len() > 40 {
            bytes[12..14].copy_from_slice(if ours == 1 { &[0x88, 0xb5] } else { &[8, 0] });
            (bytes[14], bytes[20], bytes[21], bytes[23]) = (0x45, 0, 0, 17);
            bytes[36..38].copy_from_slice(&UDP_PORT.to_be_bytes());
        }
        for crc in [false, true] {
            let _ = Codec { crc, ..Codec::new(formats()[at].0) }.read(&bytes);
        }
    }
}
