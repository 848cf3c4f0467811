//! Frames as others send them, whatever bytes there are, and what is sent read back.

use super::*;
use crate::lldp::dcbx::{Algorithm, Ets};
use crate::lldp::fake;
use weir_dataplane::rng::Rng;

const SOURCE: Mac = Mac([2, 0, 0, 0, 0, 7]);

/// A frame with these TLVs behind the three that must be there.
fn frame(tlvs: &[(u8, &[u8])]) -> Vec<u8> {
    let mut out = [&NEAREST_BRIDGE.0[..], &SOURCE.0, &[0x88, 0xcc]].concat();
    let first: [(u8, &[u8]); 3] = [(1, &[4, 2, 0, 0, 0, 0, 7]), (2, &[5, b'e', b'0']), (3, &[0, 120])];
    first.iter().chain(tlvs).for_each(|(kind, info)| put_tlv(&mut out, *kind, info));
    out
}

fn read(tlvs: &[(u8, &[u8])]) -> Decoded {
    decode(&frame(tlvs)).unwrap()
}

#[test]
fn what_is_sent_is_what_the_standards_say() {
    let bytes = fake::says("p0").encode(SOURCE);
    let mut want = vec![1, 0x80, 0xc2, 0, 0, 0x0e, 2, 0, 0, 0, 0, 7, 0x88, 0xcc];
    want.extend([2, 7, 4, 2, 0, 0, 0, 0xff, 0, 4, 3, 5, b'p', b'0', 6, 2, 0, 121]);
    want.extend([
        8, 4, b'r', b'i', b'n', b'g', 10, 5, b'l', b'e', b'a', b'f', b'1', 12, 4, b'w', b'e', b'i', b'r',
    ]);
    want.extend([14, 4, 0, 4, 0, 4]);
    // ETS configuration: not willing, 8 classes; priorities 0 to 7 in classes 0 to 7; shares; algorithm 2.
    let ets = [0x01, 0x23, 0x45, 0x67, 10, 10, 10, 30, 10, 10, 10, 10, 2, 2, 2, 2, 2, 2, 2, 2];
    want.extend([0xfe, 25, 0, 0x80, 0xc2, 9, 0]);
    want.extend(ets);
    want.extend([0xfe, 25, 0, 0x80, 0xc2, 10, 0]);
    want.extend(ets);
    want.extend([0xfe, 6, 0, 0x80, 0xc2, 11, 8, 1 << 3]);
    want.extend([0xfe, 6, 0, 0x12, 0x0f, 4, 0x05, 0xee, 0, 0]);
    assert_eq!(bytes, want);
    let short =
        Lldpdu::new(Id { subtype: 7, value: b"x".to_vec() }, Id { subtype: 7, value: b"y".to_vec() }, 0);
    assert_eq!(short.encode(SOURCE).len(), 60);
    assert_eq!(decode(&short.encode(SOURCE)).unwrap().pdu, short);
}

#[test]
fn what_others_say_is_read() {
    let ets = [0x80 | 0x40 | 4, 0x00, 0x11, 0x22, 0x33, 40, 60, 0, 0, 0, 0, 0, 0, 2, 2, 0, 1, 255, 9, 0, 0];
    let ets = [&[0, 0x80, 0xc2, 9][..], &ets].concat();
    let address = [5, 1, 192, 0, 2, 1, 2, 0, 0, 0, 1, 0];
    let six = [&[17, 2][..], &[0xfd; 16], &[2, 0, 0, 0, 1, 0]].concat();
    let read = read(&[
        (5, b"spine\x1b[2J\xff\0"),
        (7, &[0, 0x94, 0, 0x90]),
        (8, &six),
        (8, &address),
        (127, &ets),
        (127, &[0, 0x80, 0xc2, 11, 0xc0 | 4, 0b0001_1000]),
        (127, &[0, 0x80, 0xc2, 12, 0, 3 << 5 | 3, 0x12, 0xb7, 5 << 5 | 5, 0, 46]),
        (127, &[0, 0x12, 0x0f, 4, 0x24, 0x00]),
        // Nobody knows these here; the second is IEEE 802.1's VLAN id.
        (99, &[1]),
        (127, &[0, 0x80, 0xc2, 1, 0, 1]),
        (127, &[0, 0x1b, 0x21, 2, 0]),
    ]);
    let pdu = read.pdu;
    assert_eq!((read.source, read.discarded, pdu.ttl), (SOURCE, 0, 120));
    assert_eq!(pdu.chassis.text(&CHASSIS_KINDS), "02:00:00:00:00:07");
    assert_eq!((pdu.port.text(&PORT_KINDS), pdu.port.kind(&PORT_KINDS)), ("e0".into(), "interface name"));
    assert_eq!(pdu.system_name.as_deref(), Some("spine\u{fffd}[2J\u{fffd}"));
    assert_eq!((pdu.capabilities, pdu.max_frame), (Some((0x94, 0x90)), Some(9216)));
    assert_eq!(pdu.management, Some("fdfd:fdfd:fdfd:fdfd:fdfd:fdfd:fdfd:fdfd".parse().unwrap()));
    let ets = pdu.ets.unwrap();
    assert_eq!((ets.willing, ets.credit_based, ets.classes), (true, true, 4));
    let of = |priority| ets.ets.of_priority(priority);
    assert_eq!((of(0), of(3), of(4)), ((Algorithm::Ets, 40), (Algorithm::Ets, 60), (Algorithm::Strict, 0)));
    assert_eq!(
        (of(7).0.word(), ets.ets.algorithm[4], ets.ets.algorithm[5]),
        ("credit_based", Algorithm::Vendor, Algorithm::Other(9))
    );
    assert_eq!(pdu.pfc, Some(Pfc { willing: true, macsec_bypass: true, capability: 4, enable: 0x18 }));
    let roce = Application { priority: 3, selector: 3, protocol: 4791 };
    let ef = Application { priority: 5, selector: 5, protocol: 46 };
    assert_eq!(pdu.applications, Some(vec![roce, ef]));
    assert_eq!((roce.selector_word(), ef.selector_word()), ("udp_port", "dscp"));
}

#[test]
fn what_is_malformed_is_thrown_away_whole() {
    let good = frame(&[]);
    let cut = |bytes: usize| decode(&good[..bytes]).map(|_| ());
    for bytes in 0..good.len() {
        assert!(cut(bytes).is_err(), "{bytes}");
    }
    // The end may be missing; whatever is behind it is padding.
    assert!(decode(&good).is_ok());
    assert!(decode(&[&good[..], &[0, 0, 0xff, 0xff]].concat()).is_ok());
    assert_eq!(cut(0), Err(Malformed::NotLldp));
    assert_eq!(decode(&[0; 60]).unwrap_err(), Malformed::NotLldp);
    for (tlvs, why) in [
        (&[(1, &[4, 2, 0, 0, 0, 0, 7][..])][..], Malformed::Mandatory),
        (&[(3, &[0, 1])], Malformed::Mandatory),
    ] {
        assert_eq!(decode(&frame(tlvs)).unwrap_err(), why);
    }
    let of = |tlvs: &[(u8, &[u8])]| {
        let mut out = good[..14].to_vec();
        tlvs.iter().for_each(|(kind, info)| put_tlv(&mut out, *kind, info));
        decode(&out).map(|_| ())
    };
    assert_eq!(of(&[]), Err(Malformed::Mandatory));
    assert_eq!(of(&[(2, &[5, 1]), (1, &[4, 1]), (3, &[0, 1])]), Err(Malformed::Mandatory));
    assert_eq!(of(&[(1, &[4]), (2, &[5, 1]), (3, &[0, 1])]), Err(Malformed::Length));
    assert_eq!(of(&[(1, &[4, 1]), (2, &[5; 257]), (3, &[0, 1])]), Err(Malformed::Length));
    assert_eq!(of(&[(1, &[4, 1]), (2, &[5, 1]), (3, &[0])]), Err(Malformed::Length));
    // One that announces more than there is.
    assert_eq!(decode(&[&good[..], &[10, 200, b'x']].concat()).unwrap_err(), Malformed::Truncated);
}

#[test]
fn tlvs_that_make_no_sense_are_counted_and_the_others_stay() {
    let long = [b'x'; 256];
    for (tlvs, discarded) in [
        (&[(5, &b"a"[..]), (5, b"b")][..], 1),
        (&[(5, &b"a"[..]), (4, &long)], 1),
        (&[(5, &b"a"[..]), (7, &[0; 3]), (8, &[]), (8, &[9, 1, 2]), (127, &[0, 0x80])], 4),
        // PFC and ETS of other lengths; a priority in class 8; an application of two bytes.
        (&[(5, &b"a"[..]), (127, &[0, 0x80, 0xc2, 11, 8])], 1),
        (&[(5, &b"a"[..]), (127, &[0, 0x80, 0xc2, 9, 0, 0])], 1),
        (
            &[
                (5, &b"a"[..]),
                (127, &[0, 0x80, 0xc2, 10, 0, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]),
            ],
            1,
        ),
        (&[(5, &b"a"[..]), (127, &[0, 0x80, 0xc2, 12, 0, 1, 2])], 1),
        (&[(5, &b"a"[..]), (127, &[0, 0x12, 0x0f, 4, 1])], 1),
    ] {
        let read = read(tlvs);
        assert_eq!((read.discarded, read.pdu.system_name.as_deref()), (discarded, Some("a")), "{tlvs:?}");
        assert_eq!((read.pdu.pfc, read.pdu.ets, read.pdu.max_frame), (None, None, None));
    }
}

#[test]
fn texts_are_cut_where_a_character_ends() {
    let pdu = Lldpdu { system_name: Some("ä".repeat(200)), ..fake::says("p0") };
    let read = decode(&pdu.encode(SOURCE)).unwrap();
    assert_eq!((read.pdu.system_name, read.discarded), (Some("ä".repeat(127)), 0));
}

/// Anything that a station may say.
fn any(rng: &mut Rng) -> Lldpdu {
    let mut below = |n: u32| rng.next_u32() % n;
    let mut id = |kinds: u32| Id {
        subtype: below(kinds) as u8,
        value: (0..1 + below(255)).map(|_| below(256) as u8).collect(),
    };
    let (chassis, port) = (id(9), id(9));
    let mut pdu = Lldpdu::new(chassis, port, below(65_536) as u16);
    let mut ets = || Ets {
        class: std::array::from_fn(|_| below(8) as u8),
        bandwidth: std::array::from_fn(|_| below(101) as u8),
        algorithm: std::array::from_fn(|_| {
            [
                Algorithm::Strict,
                Algorithm::CreditBased,
                Algorithm::Ets,
                Algorithm::Vendor,
                Algorithm::Other(7),
            ][below(5) as usize]
        }),
    };
    let (one, other) = (ets(), ets());
    let mut maybe = || below(2) == 1;
    let has: [bool; 9] = std::array::from_fn(|_| maybe());
    let flags: [bool; 4] = std::array::from_fn(|_| maybe());
    let mut words = || {
        (0..below(120))
            .filter_map(|_| char::from_u32(0x21 + below(0x2000)))
            .filter(|c| text(c.to_string().as_bytes()) == c.to_string())
            .take(80)
            .collect::<String>()
    };
    pdu.port_description = has[0].then(&mut words);
    pdu.system_name = has[1].then(&mut words);
    pdu.system_description = has[2].then(&mut words);
    pdu.capabilities = has[3].then(|| (below(65_536) as u16, below(65_536) as u16));
    let classes = 1 + below(8) as u8;
    pdu.ets =
        has[4].then_some(EtsConfiguration { willing: flags[0], credit_based: flags[1], classes, ets: one });
    pdu.ets_recommendation = has[5].then_some(other);
    let (capability, enable) = (below(16) as u8, below(256) as u8);
    pdu.pfc = has[6].then_some(Pfc { willing: flags[2], macsec_bypass: flags[3], capability, enable });
    let mut application =
        || Application { priority: below(8) as u8, selector: below(8) as u8, protocol: below(65_536) as u16 };
    pdu.applications = has[7].then(|| (0..7).map(|_| application()).collect());
    pdu.max_frame = has[8].then(|| below(65_536) as u16);
    pdu
}

#[test]
fn what_is_sent_is_read_as_it_was_meant() {
    bolero::check!().with_iterations(2000).with_type::<u64>().for_each(|seed| {
        let pdu = any(&mut Rng::new(*seed));
        let read = decode(&pdu.encode(SOURCE)).unwrap();
        assert_eq!((read.pdu, read.discarded, read.source), (pdu, 0, SOURCE));
    });
}

/// Whatever comes ends in a value or an error, and what was read can be shown, sent and read again.
#[test]
fn no_bytes_end_in_a_panic() {
    bolero::check!().with_iterations(20_000).with_type::<(u64, Vec<(u16, u8)>)>().for_each(
        |(seed, changes)| {
            let mut bytes = any(&mut Rng::new(*seed)).encode(SOURCE);
            for (at, value) in changes {
                let at = usize::from(*at) % (bytes.len() + 1);
                match value % 4 {
                    0 => bytes.truncate(at.max(14)),
                    1 => bytes.insert(at, *value),
                    _ => {
                        let last = bytes.len() - 1;
                        bytes[at.min(last)] = *value;
                    }
                }
            }
            again(&bytes);
        },
    );
    bolero::check!().with_iterations(20_000).with_type::<Vec<u8>>().for_each(|bytes| {
        again(bytes);
        again(&[&fake::says("p0").encode(SOURCE)[..14], &bytes[..]].concat());
    });
}

fn again(bytes: &[u8]) {
    let Ok(read) = decode(bytes) else { return };
    let _ = (read.pdu.chassis.text(&CHASSIS_KINDS), read.pdu.port.text(&PORT_KINDS));
    let sent = decode(&read.pdu.encode(read.source)).unwrap();
    // Damaged characters are longer than what they stand for, and may no longer fit.
    let texts = |pdu: &Lldpdu| {
        [&pdu.port_description, &pdu.system_name, &pdu.system_description]
            .map(|t| t.as_deref().map(|t| cut(t).to_owned()))
    };
    assert_eq!(texts(&sent.pdu), texts(&read.pdu));
    let plain =
        |pdu: Lldpdu| Lldpdu { port_description: None, system_name: None, system_description: None, ..pdu };
    assert_eq!((plain(sent.pdu), sent.discarded), (plain(read.pdu), 0));
}
