//! Frames as hosts and routers send them, and as nobody should.

use super::*;

fn v4_frame(source: [u8; 4], to: [u8; 4], protocol: u8, body: &[u8]) -> Vec<u8> {
    let mut packet = vec![0x46, 0xc0, 0, (24 + body.len()) as u8, 0, 0, 0x40, 0, 1, protocol, 0, 0];
    packet.extend(source.iter().chain(&to).chain(&[0x94, 4, 0, 0]));
    put_checksum(&mut packet, 10, 0);
    framed(&[0x08, 0x00], to.into(), &[packet, body.to_vec()].concat())
}

fn framed(ethertype: &[u8], to: IpAddr, packet: &[u8]) -> Vec<u8> {
    [&mac_of(to).0[..], &[2, 0, 0, 0, 0, 9], ethertype, packet].concat()
}

/// IGMP with the checksum that it should have.
fn igmp_frame(body: &[u8]) -> Vec<u8> {
    let mut body = body.to_vec();
    body[2..4].fill(0);
    put_checksum(&mut body, 2, 0);
    v4_frame([10, 0, 0, 1], [239, 1, 2, 3], IGMP, &body)
}

/// The same of MLD, behind a router alert, from this address.
fn mld_frame(source: Ipv6Addr, body: &[u8]) -> Vec<u8> {
    let to: Ipv6Addr = "ff02::16".parse().unwrap();
    let mut packet = vec![0x60, 0, 0, 0, 0, (8 + body.len()) as u8, 0, 1];
    packet.extend(source.octets().iter().chain(&to.octets()));
    packet.extend([58, 0, 5, 2, 0, 0, 1, 0]);
    let mut body = body.to_vec();
    let pseudo = pseudo_header(source, to, ICMPV6, body.len());
    put_checksum(&mut body, 2, pseudo);
    framed(&[0x86, 0xdd], to.into(), &[packet, body].concat())
}

fn link_local() -> Ipv6Addr {
    "fe80::1".parse().unwrap()
}

fn report(records: &[(&str, bool)]) -> Message {
    let record = |(group, joins): &(&str, bool)| {
        let wish = if *joins { Wish::Join } else { Wish::Leave };
        Record { group: group.parse().unwrap(), wish }
    };
    Message::Report(records.iter().map(record).collect())
}

#[test]
fn hosts_join_and_leave_in_every_version_of_igmp() {
    let said = |body: &[u8]| decode(&igmp_frame(body)).unwrap();
    for kind in [0x12, 0x16] {
        assert_eq!(said(&[kind, 0, 0, 0, 239, 1, 2, 3]), report(&[("239.1.2.3", true)]));
    }
    assert_eq!(said(&[0x17, 0, 0, 0, 239, 1, 2, 3]), report(&[("239.1.2.3", false)]));
    // Every kind of record: without sources, and with one.
    let of = |kind: u8, sources: u8| {
        let mut body = vec![0x22, 0, 0, 0, 0, 0, 0, 2, kind, 0, 0, sources, 239, 1, 1, kind];
        (0..sources).for_each(|_| body.extend([10, 0, 0, 7]));
        body.extend([4, 1, 0, 0, 239, 9, 9, 9, 1, 2, 3, 4]);
        match said(&body) {
            Message::Report(records) => {
                assert_eq!(
                    records.last(),
                    Some(&Record { group: "239.9.9.9".parse().unwrap(), wish: Wish::Join })
                );
                (records.len() == 2).then(|| records[0].wish)
            }
            other => panic!("{other:?}"),
        }
    };
    let [in_none, exclude_none, to_in_none] = [of(1, 0), of(2, 0), of(3, 0)];
    let [join, leave] = [Some(Wish::Join), Some(Wish::Leave)];
    assert_eq!([in_none, exclude_none, to_in_none], [leave, join, leave]);
    assert_eq!([of(4, 0), of(5, 0), of(6, 0), of(9, 0)], [join, None, None, None]);
    assert_eq!([1, 2, 3, 4, 5].map(|kind| of(kind, 1)), [join; 5]);
    assert_eq!(of(6, 1), Some(Wish::Less), "a member still, perhaps");
    assert_eq!(said(&[0x13, 0, 0, 0, 0, 0, 0, 0]), Message::Other, "DVMRP");
}

#[test]
fn hosts_join_and_leave_in_both_versions_of_mld() {
    let group: Ipv6Addr = "ff05::1:3".parse().unwrap();
    let said = |source, body: &[u8]| decode(&mld_frame(source, body)).unwrap();
    let v1 = |kind: u8| [&[kind, 0, 0, 0, 0, 0, 0, 0][..], &group.octets()].concat();
    assert_eq!(said(link_local(), &v1(131)), report(&[("ff05::1:3", true)]));
    assert_eq!(said(Ipv6Addr::UNSPECIFIED, &v1(131)), report(&[("ff05::1:3", true)]));
    assert_eq!(said(link_local(), &v1(132)), report(&[("ff05::1:3", false)]));
    let v2 = [&[143, 0, 0, 0, 0, 0, 0, 1, 3, 0, 0, 0][..], &group.octets()].concat();
    assert_eq!(said(link_local(), &v2), report(&[("ff05::1:3", false)]));
}

#[test]
fn what_is_sent_is_understood() {
    let mac = Mac([2, 0, 0, 0, 0, 1]);
    for (address, group) in [("10.0.0.9", "239.1.2.3"), ("0.0.0.0", "225.1.2.3"), ("fe80::9", "ff05::7")] {
        for tag in [None, Some(20)] {
            for group in [None, Some(group.parse().unwrap())] {
                let from = QuerySource { mac, address: address.parse().unwrap(), tag };
                let frame = query(&from, group, 10_000, 125_000);
                let source = from.address;
                let want = Message::Query { source, group, of_sources: false, response_ms: 10_000 };
                assert_eq!(decode(&frame), Ok(want));
                assert_eq!(frame[12..14] == TPID.to_be_bytes(), tag.is_some());
            }
        }
    }
    assert_eq!([to_code8(127), to_code8(128), to_code8(135), to_code8(1 << 30)], [127, 128, 128, 255]);
    assert_eq!((from_code8(0xff), from_code16(0x8000)), (31_744, 32_768));
}

#[test]
fn queries_of_every_version_say_how_long_hosts_have() {
    let asks = |body: &[u8]| match decode(&igmp_frame(body)) {
        Ok(Message::Query { response_ms, group, .. }) => (response_ms, group.is_some()),
        other => panic!("{other:?}"),
    };
    assert_eq!(asks(&[0x11, 0, 0, 0, 0, 0, 0, 0]), (10_000, false));
    assert_eq!(asks(&[0x11, 100, 0, 0, 239, 1, 1, 1]), (10_000, true));
    assert_eq!(asks(&[0x11, 0x8f, 0, 0, 0, 0, 0, 0, 2, 125, 0, 0]), (24_800, false));
    assert_eq!(decode(&igmp_frame(&[0x11, 1, 0, 0, 0, 0, 0, 0, 2, 1])), Err(Malformed::Length));
}

#[test]
fn a_query_is_as_long_as_its_sources() {
    let of_sources = |message| matches!(message, Message::Query { of_sources: true, .. });
    let igmp = |sources: u16, bytes: usize| {
        let head = [&[0x11, 1, 0, 0, 239, 1, 1, 1, 2, 125][..], &sources.to_be_bytes()].concat();
        decode(&igmp_frame(&[head, vec![10; bytes]].concat())).map(of_sources)
    };
    let mld = |sources: u16, bytes: usize| {
        let group: Ipv6Addr = "ff05::7".parse().unwrap();
        let head =
            [&[130, 0, 0, 0, 0, 1, 0, 0][..], &group.octets(), &[2, 125], &sources.to_be_bytes()].concat();
        decode(&mld_frame(link_local(), &[head, vec![32; bytes]].concat())).map(of_sources)
    };
    for (sources, igmp_bytes, mld_bytes, want) in [
        (0, 0, 0, Ok(false)),
        (2, 8, 32, Ok(true)),
        // What follows the sources is for versions to come.
        (2, 12, 40, Ok(true)),
        (2, 7, 31, Err(Malformed::Length)),
        (1, 0, 0, Err(Malformed::Length)),
        (u16::MAX, 0, 0, Err(Malformed::Length)),
    ] {
        assert_eq!((igmp(sources, igmp_bytes), mld(sources, mld_bytes)), (want, want), "{sources}");
    }
}

#[test]
fn routers_are_known_by_their_hellos() {
    let mut hello = [0x20, 0, 0, 0, 0, 1, 0, 2, 0, 105];
    put_checksum(&mut hello, 2, 0);
    let frame = v4_frame([10, 0, 0, 1], [224, 0, 0, 13], PIM, &hello);
    assert_eq!(decode(&frame), Ok(Message::Hello(IpVersion::V4)));
    let mut bad = frame.clone();
    *bad.last_mut().unwrap() ^= 1;
    assert_eq!(decode(&bad), Err(Malformed::Checksum));
    let mut join = [0x23, 0, 0, 0];
    put_checksum(&mut join, 2, 0);
    assert_eq!(decode(&v4_frame([10, 0, 0, 1], [224, 0, 0, 13], PIM, &join)), Ok(Message::Other));
}

#[test]
fn what_is_not_as_it_should_be_is_refused_by_name() {
    let good = igmp_frame(&[0x16, 0, 0, 0, 239, 1, 2, 3]);
    let with = |at: usize, byte: u8| {
        let mut frame = good.clone();
        frame[at] = byte;
        decode(&frame)
    };
    assert_eq!(with(38, 0x17), Err(Malformed::Checksum));
    assert_eq!(with(22, 2), Err(Malformed::Ip), "the checksum of the header");
    let mut routed = good.clone();
    (routed[14 + 8], routed[24], routed[25]) = (2, 0, 0);
    put_checksum(&mut routed[14..38], 10, 0);
    assert_eq!(decode(&routed), Err(Malformed::NotOfLink));
    assert_eq!(with(14, 0x44), Err(Malformed::Ip));
    assert_eq!(with(17, 200), Err(Malformed::Ip), "longer than the frame");
    assert_eq!(decode(&igmp_frame(&[0x16, 0, 0, 0, 10, 1, 2, 3])), Err(Malformed::NotAGroup));
    assert_eq!(decode(&igmp_frame(&[0x11, 0, 0, 0, 10, 1, 2, 3])), Err(Malformed::NotAGroup));
    let more = [0x22, 0, 0, 0, 0, 0, 0xff, 0xff, 4, 0, 0, 0, 239, 1, 1, 1];
    assert_eq!(decode(&igmp_frame(&more)), Err(Malformed::Length));
    let sources = [0x22, 0, 0, 0, 0, 0, 0, 1, 4, 0, 0xff, 0xff, 239, 1, 1, 1];
    assert_eq!(decode(&igmp_frame(&sources)), Err(Malformed::Length));
    let group: Ipv6Addr = "ff05::7".parse().unwrap();
    let body = [&[131, 0, 0, 0, 0, 0, 0, 0][..], &group.octets()].concat();
    assert_eq!(decode(&mld_frame("2001:db8::1".parse().unwrap(), &body)), Err(Malformed::NotOfLink));
    let asks = [&[130, 0, 0, 0, 0, 0, 0, 0][..], &group.octets()].concat();
    assert_eq!(decode(&mld_frame(Ipv6Addr::UNSPECIFIED, &asks)), Err(Malformed::NotOfLink));
    let mut far = mld_frame(link_local(), &body);
    far[14 + 7] = 64;
    assert_eq!(decode(&far), Err(Malformed::NotOfLink));
    let mut silent = mld_frame(link_local(), &body);
    silent[14 + 42] = 1;
    assert_eq!(decode(&silent), Err(Malformed::NotOfLink), "no router alert");
    assert_eq!(decode(&good[..13]), Err(Malformed::Ip));
}

#[test]
fn no_frame_ends_in_a_panic() {
    bolero::check!().for_each(|bytes: &[u8]| {
        let _ = decode(bytes);
        // The same behind headers that are as they should be.
        let _ = decode(&[&[0; 12][..], &IPV4.to_be_bytes(), bytes].concat());
        let _ = decode(&[&[0; 12][..], &IPV6.to_be_bytes(), bytes].concat());
        if bytes.len() >= 4 {
            let bytes = &bytes[..bytes.len().min(200)];
            let _ = decode(&igmp_frame(bytes));
            let _ = decode(&mld_frame(link_local(), bytes));
        }
    });
}
