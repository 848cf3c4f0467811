//! Frames by hand, cut everywhere, and at random.

use super::*;
use crate::types::Mac;
use proptest::prelude::*;

const STATION_A: [u8; 6] = [2, 0, 0, 0, 0, 0xa];
const STATION_B: [u8; 6] = [2, 0, 0, 0, 0, 0xb];
const PAUSE: [u8; 6] = [1, 0x80, 0xc2, 0, 0, 1];
const CNP: u8 = 0x81;
const ACK: u8 = 0x11;

fn ethernet(dst: [u8; 6], src: [u8; 6], tags: &[(u16, u16)], ethertype: u16, payload: &[u8]) -> Vec<u8> {
    let mut frame = [dst, src].concat();
    for (tpid, tci) in tags {
        frame.extend(tpid.to_be_bytes());
        frame.extend(tci.to_be_bytes());
    }
    frame.extend(ethertype.to_be_bytes());
    frame.extend(payload);
    frame
}

fn udp(port: u16, payload: &[u8]) -> Vec<u8> {
    let mut header = vec![0xc0, 0x00];
    header.extend(port.to_be_bytes());
    header.extend((8 + payload.len() as u16).to_be_bytes());
    header.extend([0, 0]);
    header.extend(payload);
    header
}

fn ipv4(tos: u8, options: usize, proto: u8, payload: &[u8]) -> Vec<u8> {
    let total = (20 + options + payload.len()) as u16;
    let mut header = vec![0x45 + (options / 4) as u8, tos];
    header.extend(total.to_be_bytes());
    header.extend([0, 1, 0x40, 0, 64, proto, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    header.extend(vec![1; options]);
    header.extend(payload);
    header
}

fn ipv6(class: u8, next: u8, payload: &[u8]) -> Vec<u8> {
    let mut header = vec![0x60 | class >> 4, class << 4, 0, 0];
    header.extend((payload.len() as u16).to_be_bytes());
    header.extend([next, 64]);
    header.extend([0xfd; 32]);
    header.extend(payload);
    header
}

fn bth(opcode: u8) -> [u8; 12] {
    let mut header = [0; 12];
    header[0] = opcode;
    header
}

fn roce(opcode: u8) -> Vec<u8> {
    ethernet(STATION_B, STATION_A, &[], 0x0800, &ipv4(0x62, 0, 17, &udp(4791, &bth(opcode))))
}

fn parse(profile: &Profile, frame: &[u8]) -> ParseResult {
    profile.parse(frame, frame.len())
}

fn padded(mut frame: Vec<u8>) -> Vec<u8> {
    frame.resize(frame.len().max(60), 0);
    frame
}

fn all_profiles() -> Vec<Profile> {
    let mut all = vec![Profile::standard(), Profile::standard_rclink(), Profile::afh_gen1()];
    for variant in [Variant::Public, Variant::RcLink] {
        all.extend([Profile::afh_gen2_16b(variant), Profile::afh_lite(variant)]);
        let mut spec = FormatSpec::afh_gen2_16b(variant);
        spec.ecn = EcnSource::Tc;
        all.push(Profile::new(&spec).unwrap());
    }
    all
}

#[test]
fn standard_roce_frame() {
    let profile = Profile::standard();
    let parsed = parse(&profile, &roce(4)).unwrap();
    let space = 1 << 60;
    assert_eq!(
        parsed,
        Parsed {
            dst_key: space | Mac(STATION_B).to_u64(),
            src_key: space | Mac(STATION_A).to_u64(),
            group: false,
            pcp: None,
            dscp: Some(0x18),
            tc: None,
            ecn: EcnField { place: EcnPlace::Ipv4(14), codepoint: 2 },
            kind: Kind::Data,
            malformed_l3: false,
        }
    );
    assert_eq!(profile.key(Mac(STATION_B).to_u64(), 0), parsed.dst_key);
}

/// Frames of every kind as on the wire: see [`unpadded_kinds`].
fn kinds_of_frames(opcode: u8) -> Vec<Vec<u8>> {
    unpadded_kinds(opcode).into_iter().map(padded).collect()
}

/// RoCE over IPv4 and IPv6, TCP, ARP, TYPE1, as they are and tagged once or twice.
fn unpadded_kinds(opcode: u8) -> Vec<Vec<u8>> {
    let payloads = [
        (0x0800, ipv4(0x62, 0, 17, &udp(4791, &bth(opcode)))),
        (0x0800, ipv4(0x62, 8, 17, &udp(4791, &bth(opcode)))),
        (0x0800, ipv4(0x02, 0, 6, &[0; 20])),
        (0x86dd, ipv6(0x62, 17, &udp(4791, &bth(opcode)))),
        (0x86dd, ipv6(0x63, 6, &[0; 20])),
        (0x0806, vec![0; 28]),
        (0x88b5, [&[opcode][..], &[0; 15]].concat()),
    ];
    let tags: [&[(u16, u16)]; 3] = [&[], &[(0x8100, 0x6007)], &[(0x88a8, 0xe064), (0x8100, 7)]];
    let all = payloads.iter().flat_map(|(ethertype, payload)| {
        tags.iter().map(|tags| ethernet(STATION_B, STATION_A, tags, *ethertype, payload))
    });
    all.collect()
}

/// What a decision is made from. CNPs alone are told from other kinds.
fn decisive(parsed: &Parsed) -> impl PartialEq + std::fmt::Debug + use<> {
    let Parsed { dst_key, src_key, group, pcp, dscp, tc, ecn, kind, .. } = *parsed;
    (dst_key, src_key, group, pcp, dscp, tc, ecn, kind == Kind::Cnp)
}

/// Frames with the same key say the same of all that a decision is made from, and nothing stands in its way.
#[test]
fn fuzz_a_flow_key_determines_what_a_frame_says() {
    let mut profiles = all_profiles();
    // Two octets more than Ethernet between addresses and EtherType.
    let long = FormatSpec { header_len: 16, ethertype_off: Some(112), ..FormatSpec::standard() };
    profiles.push(Profile::new(&long).unwrap());
    let mut seen = std::collections::HashMap::new();
    bolero::check!().with_iterations(4_000).with_type::<(u8, [u8; 2], u8, u8)>().for_each(
        |(opcode, twist, at, len)| {
            for mut frame in kinds_of_frames(*opcode & 0x93) {
                let at = usize::from(*at) % (frame.len() - 1);
                frame[at..at + 2].copy_from_slice(twist);
                frame.truncate(frame.len().min(usize::from(*len)));
                for (n, profile) in profiles.iter().enumerate() {
                    if profile.header_len == 16 && frame.len() >= 12 {
                        frame.splice(12..12, [0; 2]);
                    }
                    for len in [frame.len(), frame.len() + 1000, 10_000] {
                        let Some(key) = profile.flow_key(&frame, len) else { continue };
                        let parsed = profile.parse(&frame, len).expect("nothing is wrong with it");
                        assert!(!parsed.malformed_l3, "{parsed:?}");
                        assert!(!matches!(parsed.kind, Kind::MacControl | Kind::Reserved), "{parsed:?}");
                        let now = decisive(&parsed);
                        match seen.entry((n, key)) {
                            std::collections::hash_map::Entry::Occupied(before) => {
                                assert_eq!(before.get(), &now, "{frame:x?}");
                            }
                            std::collections::hash_map::Entry::Vacant(place) => drop(place.insert(now)),
                        }
                    }
                }
            }
        },
    );
}

#[test]
fn frames_of_a_kind_have_one_key_in_every_format() {
    for profile in all_profiles() {
        for (n, frame) in kinds_of_frames(4).into_iter().enumerate() {
            let key = profile.flow_key(&frame, frame.len());
            assert!(key.is_some(), "kind {n}");
            // What comes later, and an IPv6 flow label, are no part of it.
            let (mut other, last, ip) = (frame.clone(), frame.len() - 1, 14 + n % 3 * 4);
            other[last] ^= 0xff;
            if frame[ip - 2..ip] == [0x86, 0xdd] {
                (other[ip + 1], other[ip + 2]) = (other[ip + 1] ^ 0x0f, other[ip + 2] ^ 0xff);
            }
            assert_eq!(profile.flow_key(&other, other.len()), key, "kind {n}");
            for longest in [frame.len() - 1, frame.len()] {
                let profile = profile.clone().with_max_frame(longest);
                assert_eq!(
                    profile.flow_key(&frame, frame.len()).is_some(),
                    key.is_some() && longest == frame.len()
                );
            }
        }
    }
    let standard = Profile::standard();
    let key = |frame: &[u8]| standard.flow_key(frame, frame.len()).unwrap();
    let tagged = |tags: &[(u16, u16)]| padded(ethernet(STATION_B, STATION_A, tags, 0x88b5, &[]));
    let [one, two, inner, three] =
        [&[(0x8100, 7)][..], &[(0x8100, 7), (0x8100, 8)], &[(0x8100, 7), (0x88a8, 9)], &[(0x8100, 7); 3]]
            .map(|tags| key(&tagged(tags)));
    assert!(one != two && two == inner, "of the inner tag only that it is there");
    assert!(three != two, "a third one is payload of an EtherType of its own");
    let [data, cnp, ack] = [4, CNP, ACK].map(|opcode| key(&kinds_of_frames(opcode)[0]));
    assert!(data != cnp && data == ack, "CNPs alone have a class of their own");
}

/// Devices that are no wire do not pad: ARP, a TCP ACK and the shortest datagrams come as they are.
#[test]
fn frames_that_are_not_padded_have_the_key_of_those_that_are() {
    let mut short = 0;
    for profile in all_profiles() {
        for frame in unpadded_kinds(4) {
            let key = profile.flow_key(&frame, frame.len());
            assert!(key.is_some(), "{frame:x?}");
            assert_eq!(key, profile.flow_key(&padded(frame.clone()), frame.len().max(60)), "{frame:x?}");
            short += usize::from(frame.len() < 60);
            // What is in another segment cannot be read.
            let segment = &frame[..frame.len().min(59)];
            assert_eq!(profile.flow_key(segment, frame.len().max(60)), None, "{frame:x?}");
        }
    }
    assert!(short > 0);
}

/// What tells of members of groups is sent to groups: with a destination of its own such a packet is like any other.
#[test]
fn packets_of_protocols_that_tell_of_members_have_a_key_unless_they_are_for_a_group() {
    let profile = Profile::standard();
    let packets = [
        (0x0800, ipv4(0, 0, 2, &[0x11; 40])),
        (0x0800, ipv4(0, 4, 103, &[0; 40])),
        (0x86dd, ipv6(0, 0, &[0; 40])),
        (0x86dd, ipv6(0, 103, &[0; 40])),
    ];
    for (ethertype, packet) in packets {
        for tags in [&[][..], &[(0x8100, 7)]] {
            let key = |dst| {
                let frame = padded(ethernet(dst, STATION_A, tags, ethertype, &packet));
                profile.flow_key(&frame, frame.len())
            };
            assert!(key(STATION_B).is_some() && key([1, 0, 0x5e, 0, 0, 1]).is_none(), "{tags:?} {packet:x?}");
        }
    }
}

#[test]
fn dev01_gen1_traffic_class_is_not_part_of_the_station() {
    let profile = Profile::afh_gen1();
    let mut keys = std::collections::HashSet::new();
    // 0x01 and 0x02 would be the group and local bits of a MAC address.
    for tc in [0, 1, 2, 3, 0x80, 0xff] {
        let mut src = STATION_A;
        src[0] = tc;
        let frame = padded(ethernet(STATION_B, src, &[], 0x88b5, &[0; 8]));
        let parsed = parse(&profile, &frame).unwrap();
        assert_eq!(parsed.tc, Some(tc));
        keys.insert(parsed.src_key);
    }
    assert_eq!(keys.len(), 1);
    // The answer to that station finds the entry learned from it.
    let back = parse(&profile, &padded(ethernet(STATION_A, STATION_B, &[], 0x88b5, &[]))).unwrap();
    assert!(keys.contains(&back.dst_key));
    assert!(!profile.learning());
}

#[test]
fn dev01_gen2_station_is_sixteen_bits_of_either_variant() {
    for (variant, flags_at, tc_at) in [(Variant::Public, 0, 6), (Variant::RcLink, 6, 0)] {
        for profile in [Profile::afh_gen2_16b(variant), Profile::afh_lite(variant)] {
            let mut frame = vec![0x5a; 60];
            frame[4..6].copy_from_slice(&[0x12, 0x34]);
            frame[10..12].copy_from_slice(&[0x56, 0x78]);
            frame[12..14].copy_from_slice(&[0x88, 0xb5]);
            (frame[flags_at], frame[tc_at]) = (0x82, 0x9d);
            let unicast = parse(&profile, &frame).unwrap();
            assert_eq!(unicast.dst_key, profile.key(0x1234, 0));
            assert_eq!(unicast.src_key, profile.key(0x5678, 0));
            assert_eq!((unicast.tc, unicast.group), (Some(0x9d), false));
            assert_eq!(unicast.ecn.place, EcnPlace::None);
            frame[flags_at] = 0x83;
            let group = parse(&profile, &frame).unwrap();
            assert!(group.group);
            assert_eq!(group.dst_key, profile.key(GROUP_BIT | 0x1234, 0));
        }
    }
}

#[test]
fn dev01_group_source_is_dropped_where_there_is_a_group_bit() {
    let frame = padded(ethernet(STATION_B, [3, 0, 0, 0, 0, 1], &[], 0x0800, &ipv4(0, 0, 6, &[0; 20])));
    assert_eq!(parse(&Profile::standard(), &frame), Err(DropReason::ParseGroupSource));
    for profile in all_profiles().iter().filter(|p| p.key_space() != key_space::STANDARD) {
        assert!(parse(profile, &frame).is_ok());
    }
}

#[test]
fn formats_have_key_spaces_of_their_own() {
    let profiles = [
        Profile::standard(),
        Profile::afh_gen1(),
        Profile::afh_gen2_16b(Variant::Public),
        Profile::afh_lite(Variant::Public),
    ];
    let keys: std::collections::HashSet<_> = profiles.iter().map(|p| p.key(0x0005, 0)).collect();
    assert_eq!(keys.len(), 4);
    assert_eq!(KeyParts::of(profiles[1].key(0xff, 7)), KeyParts { space: 2, vid: 7, address: 0xff });
}

#[test]
fn dev02_lite_payload_is_never_an_ethertype() {
    let profile = Profile::afh_lite(Variant::Public);
    for ethertype in [0x8100u16, 0x88a8, 0x9100, 0x0800, 0x86dd, 0x8808, 0x88b5] {
        let mut frame = vec![0xff; 60];
        frame[..12].copy_from_slice(&[0x82, 0, 0, 0, 0, 1, 0x0c, 0, 0, 0, 0, 2]);
        frame[12..14].copy_from_slice(&ethertype.to_be_bytes());
        let parsed = parse(&profile, &frame).unwrap();
        assert_eq!((parsed.kind, parsed.pcp, parsed.dscp), (Kind::Data, None, None), "{ethertype:#x}");
        assert_eq!(parsed.dst_key, profile.key(1, 0));
        assert!(!parsed.malformed_l3);
    }
}

#[test]
fn dev02_link_local_frames_are_seen_before_any_profile() {
    for profile in all_profiles() {
        for tags in [&[][..], &[(0x8100, 0x6001)], &[(0x88a8, 1), (0x8100, 2)]] {
            let frame = padded(ethernet(PAUSE, [0; 6], tags, 0x8808, &[1, 1, 0, 8]));
            assert_eq!(parse(&profile, &frame).unwrap().kind, Kind::MacControl);
        }
        for last in 0..16 {
            let mut lldp = padded(ethernet([1, 0x80, 0xc2, 0, 0, last], STATION_A, &[], 0x88cc, &[]));
            assert_eq!(parse(&profile, &lldp).unwrap().kind, Kind::Reserved);
            lldp[5] = 0x10;
            assert_ne!(parse(&profile, &lldp).map(|p| p.kind), Ok(Kind::Reserved));
        }
    }
}

/// D11: MAC control with a unicast destination is the port's to count, never a frame to forward.
#[test]
fn d11_unicast_mac_control_is_mac_control() {
    for tags in [&[][..], &[(0x8100, 0)]] {
        let frame = padded(ethernet(STATION_B, STATION_A, tags, 0x8808, &[1, 1]));
        assert_eq!(parse(&Profile::standard(), &frame).unwrap().kind, Kind::MacControl);
        assert_eq!(parse(&Profile::afh_gen1(), &frame).unwrap().kind, Kind::MacControl);
    }
}

#[test]
fn dev04_frames_up_to_the_mtu_are_accepted() {
    let frame = roce(4);
    let profile = Profile::standard();
    assert!(profile.parse(&frame, 9216).is_ok());
    assert_eq!(profile.parse(&frame, 9217), Err(DropReason::ParseTooLong));
    let small = profile.with_max_frame(1518);
    assert!(small.parse(&frame, 1518).is_ok());
    assert_eq!(small.parse(&frame, 1519), Err(DropReason::ParseTooLong));
}

#[test]
fn dev05_any_udp_checksum_is_accepted() {
    for checksum in [[0, 0], [0xff, 0xff], [0x12, 0x34]] {
        let mut frame = roce(CNP);
        frame[40..42].copy_from_slice(&checksum);
        assert_eq!(parse(&Profile::standard(), &frame).unwrap().kind, Kind::Cnp);
    }
}

#[test]
fn dev06_udp_port_and_transport_are_data() {
    let mut spec = FormatSpec::standard();
    spec.udp_port = 5000;
    let moved = Profile::new(&spec).unwrap();
    assert_eq!(parse(&moved, &roce(CNP)).unwrap().kind, Kind::Data);
    let frame = ethernet(STATION_B, STATION_A, &[], 0x0800, &ipv4(0, 0, 17, &udp(5000, &bth(CNP))));
    assert_eq!(parse(&moved, &frame).unwrap().kind, Kind::Cnp);

    // RC Link: opcode in the top two bits of the first byte, RH of eight bytes.
    for (first, kind) in [(0x00, Kind::Data), (0x7f, Kind::Ack), (0x80, Kind::Cnp), (0xc0, Kind::Data)] {
        let rh = [first, 0, 0, 0, 0, 0, 0, 0];
        let frame = padded(ethernet(STATION_B, STATION_A, &[], 0x0800, &ipv4(0, 0, 17, &udp(4791, &rh))));
        assert_eq!(parse(&Profile::standard_rclink(), &frame).unwrap().kind, kind);
        let frame = padded(ethernet(STATION_B, STATION_A, &[(0x8100, 0x2000)], 0x88b5, &rh));
        for profile in [Profile::afh_gen1(), Profile::afh_gen2_16b(Variant::Public)] {
            assert_eq!(parse(&profile, &frame).unwrap().kind, kind);
            // TYPE2 has no reliability header.
            let mut type2 = frame.clone();
            type2[17] = 0xb6;
            assert_eq!(parse(&profile, &type2).unwrap().kind, Kind::Data);
        }
    }
}

#[test]
fn dev07_traffic_class_is_markable_only_when_asked() {
    let mut spec = FormatSpec::afh_gen2_16b(Variant::Public);
    let mut frame = vec![0; 60];
    frame[6] = 0x9e;
    assert_eq!(parse(&Profile::new(&spec).unwrap(), &frame).unwrap().ecn.place, EcnPlace::None);
    spec.ecn = EcnSource::Tc;
    let ecn = parse(&Profile::new(&spec).unwrap(), &frame).unwrap().ecn;
    assert_eq!(ecn, EcnField { place: EcnPlace::Tc(6), codepoint: 2 });
}

#[test]
fn dev22_padded_acks_are_classified() {
    let ack = roce(ACK);
    assert_eq!(parse(&Profile::standard(), &padded(ack)).unwrap().kind, Kind::Ack);
    let rh = [0x40, 0, 0, 0, 0, 0, 0, 0];
    let short = ethernet(STATION_B, STATION_A, &[], 0x0800, &ipv4(0, 0, 17, &udp(4791, &rh)));
    assert_eq!(short.len(), 50);
    // Virtual ports may bring it without the padding.
    for frame in [short.clone(), padded(short)] {
        assert_eq!(parse(&Profile::standard_rclink(), &frame).unwrap().kind, Kind::Ack);
    }
    let gen1 = ethernet(STATION_B, STATION_A, &[], 0x88b5, &rh);
    assert_eq!(gen1.len(), 22);
    for frame in [gen1.clone(), padded(gen1)] {
        assert_eq!(parse(&Profile::afh_gen1(), &frame).unwrap().kind, Kind::Ack);
    }
}

#[test]
fn outermost_tag_gives_pcp_and_vid() {
    let profile = Profile::standard();
    let inner = ipv4(0xb9, 0, 17, &udp(4791, &bth(ACK)));
    for tpid in [0x8100, 0x88a8, 0x9100] {
        for (tags, offset) in [(vec![(tpid, 0xa064)], 18), (vec![(tpid, 0xa064), (0x8100, 0x2005)], 22)] {
            let parsed = parse(&profile, &ethernet(STATION_B, STATION_A, &tags, 0x0800, &inner)).unwrap();
            assert_eq!((parsed.pcp, parsed.dscp, parsed.kind), (Some(5), Some(46), Kind::Ack));
            assert_eq!(parsed.ecn, EcnField { place: EcnPlace::Ipv4(offset), codepoint: 1 });
            assert_eq!(parsed.dst_key, profile.key(Mac(STATION_B).to_u64(), 0x64));
            assert_eq!(KeyParts::of(parsed.src_key).vid, 0x64);
        }
    }
    // Priority-tagged is VID 0, like untagged; a third tag hides what follows, and that is no error.
    let parsed =
        parse(&profile, &ethernet(STATION_B, STATION_A, &[(0x8100, 0xe000)], 0x0800, &inner)).unwrap();
    assert_eq!((parsed.pcp, KeyParts::of(parsed.dst_key).vid), (Some(7), 0));
    let three = [(0x88a8, 1), (0x8100, 2), (0x8100, 3)];
    let parsed = parse(&profile, &ethernet(STATION_B, STATION_A, &three, 0x0800, &inner)).unwrap();
    assert_eq!((parsed.dscp, parsed.kind, parsed.malformed_l3), (None, Kind::Data, false));
}

#[test]
fn ip_options_fragments_and_ipv6() {
    let profile = Profile::standard();
    let of = |payload: &[u8], ethertype| {
        parse(&profile, &ethernet(STATION_B, STATION_A, &[], ethertype, payload)).unwrap()
    };
    for options in [0, 4, 40] {
        let parsed = of(&ipv4(0, options, 17, &udp(4791, &bth(CNP))), 0x0800);
        assert_eq!((parsed.kind, parsed.dscp), (Kind::Cnp, Some(0)));
    }
    for (fragment, kind) in [([0x20, 0], Kind::Cnp), ([0, 1], Kind::Data), ([0x1f, 0xff], Kind::Data)] {
        let mut packet = ipv4(0, 0, 17, &udp(4791, &bth(CNP)));
        packet[6..8].copy_from_slice(&fragment);
        let parsed = of(&packet, 0x0800);
        assert_eq!((parsed.kind, parsed.malformed_l3), (kind, false), "{fragment:?}");
    }
    let parsed = of(&ipv6(0x6b, 17, &udp(4791, &bth(CNP))), 0x86dd);
    assert_eq!((parsed.kind, parsed.dscp), (Kind::Cnp, Some(0x1a)));
    assert_eq!(parsed.ecn, EcnField { place: EcnPlace::Ipv6(14), codepoint: 3 });
    assert_eq!(of(&ipv6(0, 0, &udp(4791, &bth(CNP))), 0x86dd).kind, Kind::Data);
    // Not UDP: the bytes where a port would be mean nothing.
    assert_eq!(of(&ipv4(0, 0, 6, &udp(4791, &bth(CNP))), 0x0800).kind, Kind::Data);
}

#[test]
fn malformed_ip_is_forwarded_by_its_ethernet_header() {
    let good = ipv4(0xff, 0, 17, &udp(4791, &bth(CNP)));
    let bad_at = |at: usize, value: u8| {
        let mut packet = good.clone();
        packet[at] = value;
        (packet, 0x0800)
    };
    let mut long6 = ipv6(0xff, 17, &udp(4791, &bth(CNP)));
    long6[5] += 1;
    let cases = [
        bad_at(0, 0x44), // IHL under 5
        bad_at(0, 0x65), // version 6 under the IPv4 EtherType
        bad_at(0, 0x4f), // header longer than the packet says
        bad_at(2, 0xff), // total length beyond the frame
        bad_at(3, 19),   // total length under the header
        (long6, 0x86dd),
        (good.clone(), 0x86dd),
    ];
    let profile = Profile::standard();
    for (packet, ethertype) in cases {
        let parsed = parse(&profile, &ethernet(STATION_B, STATION_A, &[], ethertype, &packet)).unwrap();
        assert!(parsed.malformed_l3);
        assert_eq!((parsed.dscp, parsed.kind, parsed.ecn.place), (None, Kind::Data, EcnPlace::None));
        assert_eq!(parsed.dst_key, profile.key(Mac(STATION_B).to_u64(), 0));
    }
    // A good IP header keeps its DSCP when the transport header is cut by the total length.
    for payload in [&[0; 7][..], &udp(4791, &[CNP; 11])] {
        let frame = padded(ethernet(STATION_B, STATION_A, &[], 0x0800, &ipv4(0x40, 0, 17, payload)));
        let parsed = parse(&profile, &frame).unwrap();
        assert_eq!((parsed.malformed_l3, parsed.dscp, parsed.kind), (true, Some(16), Kind::Data));
    }
}

#[test]
fn a_cut_at_every_byte_ends_in_the_right_reason() {
    let payload = ipv4(0x62, 0, 17, &udp(4791, &bth(CNP)));
    for tags in [&[][..], &[(0x8100, 0x6001)], &[(0x88a8, 0x6001), (0x8100, 2)]] {
        let whole = ethernet(STATION_B, STATION_A, tags, 0x0800, &payload);
        let l3 = 14 + 4 * tags.len();
        for cut in 0..=whole.len() {
            let want = if cut < 14 {
                Err(DropReason::ParseTooShort)
            } else if cut < l3 {
                Err(DropReason::ParseTruncatedVlan)
            } else {
                Ok(cut < whole.len())
            };
            let got = parse(&Profile::standard(), &whole[..cut]);
            assert_eq!(got.map(|p| p.malformed_l3), want, "{} tags, {cut} bytes", tags.len());
            // Only headers represented: the same bytes of a longer frame never make it worse.
            let got = Profile::standard().parse(&whole[..cut], 1500);
            if cut >= l3 + 29 {
                assert_eq!(got.map(|p| (p.kind, p.malformed_l3)), Ok((Kind::Cnp, false)));
            }
        }
    }
}

#[test]
fn format_rules_have_clear_errors() {
    let refused = |change: &dyn Fn(&mut FormatSpec)| {
        let mut spec = FormatSpec::afh_gen2_16b(Variant::Public);
        change(&mut spec);
        Profile::new(&spec).unwrap_err().to_string()
    };
    type Case<'a> = (&'a dyn Fn(&mut FormatSpec), &'a str);
    let cases: [Case; 14] = [
        (&|s| s.key_space = 0, "key_space = 0"),
        (&|s| s.key_space = 8, "key_space = 8"),
        (&|s| s.header_len = 17, "header_len = 17"),
        (&|s| s.src = Field::new(100, 16), "src ends at bit 116, but the header has only 112"),
        (&|s| s.tc = Some(Field::new(u16::MAX, u16::MAX)), "tc ends at bit 131070"),
        (&|s| s.dst = Field::new(0, 49), "at most 48"),
        (&|s| s.dst = Field::new(32, 0), "dst has no bits"),
        (&|s| s.dst = Field::new(24, 24), "dst has 24 bits and src 16"),
        (&|s| s.src = Field::new(40, 16), "dst and src share bits"),
        (&|s| s.tc = Some(Field::new(50, 8)), "one whole byte"),
        (&|s| s.tc = Some(Field::new(0, 8)), "flags and tc share bits"),
        (&|s| s.ethertype_off = None, "vlan needs an EtherType"),
        (&|s| s.header_len = 16, "does not end the header"),
        (&|s| s.ecn = EcnSource::Ip, "ecn = \"ipv4\" needs ip = true"),
    ];
    for (change, text) in cases {
        let message = refused(change);
        assert!(message.contains(text), "`{message}` does not say `{text}`");
    }
    assert!(refused(&|s| s.dst_group = Some(50)).contains("tc and dst_group share bits"));
    let odd_group = FormatSpec { dst_group: Some(6), ..FormatSpec::standard() };
    assert_eq!(odd_group.check(), Err(FormatError::GroupBit { off: 6, len: 48 }));
    assert!(refused(&|s| (s.tc, s.ecn) = (None, EcnSource::Tc)).contains("needs a tc field"));
}

proptest! {
    /// Any place for the fields that passes the check reads exactly those bits.
    #[test]
    fn fields_are_read_where_the_format_says(
        dst in 0u16..64, src_gap in 0u16..32, len in 1u16..=48, header in prop::array::uniform16(any::<u8>()),
    ) {
        let spec = FormatSpec {
            key_space: 5, header_len: 16, dst: Field::new(dst, len), src: Field::new(dst + len + src_gap, len),
            dst_group: None, src_group: None, flags: None, tc: None, ethertype_off: None,
            vlan: false, ip: false, ecn: EcnSource::None, transport: Transport::None,
            ..FormatSpec::standard()
        };
        prop_assume!(spec.check().is_ok());
        let bits = u128::from_be_bytes(header);
        let field = |f: Field| (bits >> (128 - f.off - f.len)) as u64 & ((1 << f.len) - 1);
        let parsed = parse(&Profile::new(&spec).unwrap(), &header).unwrap();
        if parsed.kind == Kind::Data {
            prop_assert_eq!(parsed.dst_key, 5 << 60 | field(spec.dst));
            prop_assert_eq!(parsed.src_key, 5 << 60 | field(spec.src));
        }
    }
}

/// What must hold of any bytes in any profile.
fn sane(profile: &Profile, bytes: &[u8], len: usize) {
    let Ok(parsed) = profile.parse(bytes, len) else { return };
    assert_eq!(KeyParts::of(parsed.dst_key).space, profile.key_space());
    assert_eq!(KeyParts::of(parsed.src_key).space, profile.key_space());
    assert!(
        parsed.ecn.codepoint < 4 && parsed.dscp.is_none_or(|d| d < 64) && parsed.pcp.is_none_or(|p| p < 8)
    );
    match parsed.ecn.place {
        EcnPlace::None => assert_eq!(parsed.ecn.codepoint, 0),
        EcnPlace::Ipv4(at) => assert_eq!(bytes[usize::from(at) + 1] & 3, parsed.ecn.codepoint),
        EcnPlace::Ipv6(at) => assert_eq!(bytes[usize::from(at) + 1] >> 4 & 3, parsed.ecn.codepoint),
        EcnPlace::Tc(at) => assert_eq!(bytes[usize::from(at)] & 3, parsed.ecn.codepoint),
    }
    assert_eq!(parsed, profile.parse(bytes, len).unwrap());
}

#[test]
fn fuzz_any_bytes_in_every_profile() {
    let profiles = all_profiles();
    bolero::check!().with_iterations(4_000).with_type::<(Vec<u8>, u16)>().for_each(|(bytes, extra)| {
        for profile in &profiles {
            sane(profile, bytes, bytes.len() + usize::from(*extra));
        }
    });
}

/// Random bytes seldom look like a header: start from one.
#[test]
fn fuzz_damaged_headers_in_every_profile() {
    let profiles = all_profiles();
    let seeds = [
        roce(CNP),
        ethernet(
            STATION_B,
            STATION_A,
            &[(0x88a8, 7), (0x8100, 3)],
            0x86dd,
            &ipv6(1, 17, &udp(4791, &[0; 12])),
        ),
        ethernet(STATION_B, STATION_A, &[(0x8100, 7)], 0x0800, &ipv4(3, 12, 17, &udp(4791, &[0; 12]))),
        ethernet(PAUSE, STATION_A, &[], 0x8808, &[1, 1, 0, 0xff]),
        ethernet(STATION_B, STATION_A, &[(0x8100, 7)], 0x88b5, &[0x80; 8]),
    ];
    bolero::check!().with_iterations(4_000).with_type::<(u8, [(u8, u8); 3], u8)>().for_each(
        |(seed, changes, cut)| {
            let mut frame = seeds[usize::from(*seed) % seeds.len()].clone();
            for (at, value) in changes {
                let at = usize::from(*at) % frame.len();
                frame[at] = *value;
            }
            frame.truncate(frame.len().saturating_sub(usize::from(*cut) / 3));
            for profile in &profiles {
                sane(profile, &frame, frame.len());
            }
        },
    );
}
