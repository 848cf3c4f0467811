//! Frames as the standard has them, as others send them, whatever bytes there are, and what is sent read back.

use super::*;
use weir_dataplane::rng::Rng;

const SOURCE: Mac = Mac([2, 0, 0, 0, 0, 9]);

fn pdu() -> Lacpdu {
    let actor = PortInfo {
        system: SystemId { priority: 0x8001, mac: Mac([2, 0, 0, 0, 0, 1]) },
        key: 0x0102,
        port_priority: 0x00ff,
        port: 3,
        state: State(0x3f),
    };
    let partner = PortInfo {
        system: SystemId { priority: 0xffff, mac: Mac([2, 0, 0, 0, 0, 2]) },
        key: 7,
        port_priority: 0x8000,
        port: 0x1234,
        state: State(0xc5),
    };
    Lacpdu { actor, partner }
}

/// Header and PDU, whose rest is zeros.
fn frame(pdu: &[u8]) -> Vec<u8> {
    let mut out = [&[1, 0x80, 0xc2, 0, 0, 2][..], &SOURCE.0, &[0x88, 0x09], pdu].concat();
    out.resize(124, 0);
    out
}

#[test]
fn what_is_sent_is_what_the_standard_says() {
    let mut want = vec![1, 1, 1, 20, 0x80, 0x01, 2, 0, 0, 0, 0, 1, 0x01, 0x02, 0, 0xff, 0, 3, 0x3f, 0, 0, 0];
    want.extend([2, 20, 0xff, 0xff, 2, 0, 0, 0, 0, 2, 0, 7, 0x80, 0, 0x12, 0x34, 0xc5, 0, 0, 0]);
    want.extend([3, 16]);
    assert_eq!(pdu().encode(SOURCE), frame(&want));
    assert_eq!(decode(&frame(&want)), Ok(Slow::Lacp(pdu())));
    assert_eq!(pdu().actor.system.to_string(), "32769,02:00:00:00:00:01");
    assert_eq!((State(0x3d).to_string(), State(0xc2).to_string()), ("A-GSCD--".into(), "-T----FE".into()));
}

#[test]
fn a_marker_is_answered_with_what_it_says() {
    let marker = |kind: u8| frame(&[2, 1, kind, 16, 0, 5, 2, 0, 0, 0, 0, 2, 0xde, 0xad, 0xbe, 0xef, 0, 0]);
    let Ok(Slow::Marker(answer)) = decode(&marker(1)) else { panic!() };
    assert_eq!(sent_from(SOURCE, answer), marker(2));
    assert_eq!(decode(&marker(2)), Ok(Slow::MarkerResponse));
    assert_eq!(decode(&marker(3)), Err(Malformed::Tlv));
}

#[test]
fn what_is_malformed_is_told_from_what_is_not() {
    let good = pdu().encode(SOURCE);
    for bytes in 0..good.len() {
        let why = if bytes < 14 { Malformed::NotSlow } else { Malformed::Truncated };
        assert_eq!(decode(&good[..bytes]), Err(why), "{bytes}");
    }
    // Padding, what a later version adds behind, and reserved bytes are nothing against it.
    assert!(decode(&[&good[..], &[0xff; 40]].concat()).is_ok());
    let with = |at: usize, byte: u8| {
        let mut frame = good.clone();
        frame[at] = byte;
        decode(&frame)
    };
    for (at, byte) in [(15, 2), (33, 0xff), (58, 0xff), (72, 9), (123, 0xff)] {
        assert_eq!(with(at, byte), Ok(Slow::Lacp(pdu())), "{at}");
    }
    // Types and lengths of its TLVs.
    for at in [16, 17, 36, 37, 56, 57] {
        assert_eq!(with(at, 0), Err(Malformed::Tlv), "{at}");
    }
    // Actors that are a group, all, or nobody; a partner that is nobody is one that has not been heard.
    let from = |mac| {
        decode(
            &Lacpdu { actor: PortInfo { system: SystemId { priority: 1, mac }, ..pdu().actor }, ..pdu() }
                .encode(SOURCE),
        )
    };
    for mac in [[3, 0, 0, 0, 0, 1], [0xff; 6], [0; 6]] {
        assert_eq!(from(Mac(mac)), Err(Malformed::NotASystem), "{mac:?}");
    }
    let alone = Lacpdu { partner: PortInfo::default(), ..pdu() };
    assert_eq!(decode(&alone.encode(SOURCE)), Ok(Slow::Lacp(alone)));
    assert_eq!(with(12, 0), Err(Malformed::NotSlow));
    assert_eq!((with(14, 3), with(14, 10)), (Ok(Slow::Other(3)), Ok(Slow::Other(10))));
}

/// Any bytes, and frames with some changed: no panic, and what is read is what would be sent.
#[test]
fn whatever_comes_is_read_or_refused() {
    bolero::check!().with_iterations(2_000).with_type::<(u64, Vec<u8>)>().for_each(|(seed, bytes)| {
        let _ = decode(bytes);
        let mut rng = Rng::new(*seed);
        let mut frame = pdu().encode(SOURCE);
        for _ in 0..rng.next_u32() % 6 {
            let at = rng.next_u32() as usize % frame.len();
            frame[at] = rng.next_u32() as u8;
        }
        frame.truncate(rng.next_u32() as usize % 140);
        if let Ok(Slow::Lacp(read)) = decode(&frame) {
            assert_eq!(decode(&read.encode(SOURCE)), Ok(Slow::Lacp(read)));
        }
    });
}
