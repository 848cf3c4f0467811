//! Where frames of groups go in VLANs that are snooped, and which are read on the way.

use super::super::tests::{assert_conserved, frame, params, receive, transmit};
use super::super::{Filter, LocalReader, Tap, TapOrder, What};
use super::*;
use crate::drops::DropReason;
use crate::frame::OwnedFrame;
use crate::parse::Profile;
use crate::switch::Tapped;
use crate::types::{Mac, PortId};
use crate::vlan::PortVlans;

const GROUP: u64 = 0x0100_5e01_0203;
const OF_IPV6: u64 = 0x3333_0009_0009;

fn set(ports: &[u16]) -> PortSet {
    ports.iter().copied().map(PortId).collect()
}

fn key(mac: u64, vid: u16) -> u64 {
    Profile::standard().key(mac, vid)
}

/// IPv4 of a protocol whose first byte is `first`, with so many words of options.
fn ipv4(to: u64, protocol: u8, first: u8, options: usize) -> OwnedFrame {
    let mut bytes = frame(1, 2, 0, 60).bytes().to_vec();
    bytes[..6].copy_from_slice(&Mac::from_u64(to).0);
    let header = 20 + 4 * options;
    bytes[12..34].copy_from_slice(&[
        8,
        0,
        0x40 | (header / 4) as u8,
        0,
        0,
        (header + 8) as u8,
        0,
        0,
        0,
        0,
        1,
        protocol,
        0,
        0,
        10,
        0,
        0,
        1,
        239,
        1,
        2,
        3,
    ]);
    bytes[14 + header] = first;
    OwnedFrame::new(bytes)
}

/// ICMPv6 of this type behind a router alert.
fn mld(to: u64, kind: u8) -> OwnedFrame {
    let mut bytes = frame(1, 2, 0, 90).bytes().to_vec();
    bytes[..6].copy_from_slice(&Mac::from_u64(to).0);
    bytes[12..22].copy_from_slice(&[0x86, 0xdd, 0x60, 0, 0, 0, 0, 36, 0, 1]);
    bytes[54..63].copy_from_slice(&[58, 0, 5, 2, 0, 0, 1, 0, kind]);
    OwnedFrame::new(bytes)
}

/// A switch of four ports of which all frames of port 0 that are to be read can be.
fn switch(snooped: Option<Unjoined>) -> (Tapped<OwnedFrame>, LocalReader) {
    let mut s = Tapped::<OwnedFrame>::observed(params(4)).unwrap();
    s.snoop(0, snooped).unwrap();
    let reader = s.read_local(PortId(0), LocalProtocol::Membership);
    (s, reader)
}

/// How often frames of port 0 leave by each of the others, and what is lost.
fn left(s: &mut Tapped<OwnedFrame>, frames: impl IntoIterator<Item = OwnedFrame>) -> ([usize; 3], u64) {
    let lost = |s: &Tapped<OwnedFrame>| s.stats(PortId(0)).drops.0[DropReason::LookupNoReceiver as usize];
    let before = lost(s);
    receive(s, 0, frames, 1);
    let left = [1, 2, 3].map(|out| transmit(s, out, 1).frames.len());
    assert_conserved(s);
    (left, lost(s) - before)
}

#[test]
fn what_nobody_has_joined_goes_to_routers_and_what_is_joined_to_members() {
    let data = || [ipv4(GROUP, 17, 0, 0), ipv4(GROUP, 17, 0, 0)];
    let (mut s, _) = switch(Some([None, None]));
    assert_eq!(left(&mut s, data()), ([2, 2, 2], 0), "nobody asks for members: flooded");
    s.snoop(0, Some([Some(set(&[0, 3])), None])).unwrap();
    assert_eq!(left(&mut s, data()), ([0, 0, 2], 0), "to the router");
    assert_eq!(left(&mut s, [mld(OF_IPV6, 200)]), ([1, 1, 1], 0), "of IPv6 nobody asks");
    s.set_members(key(GROUP, 0), Some(set(&[0, 1, 3]))).unwrap();
    assert_eq!(left(&mut s, data()), ([2, 0, 2], 0));
    s.set_members(key(GROUP, 0), Some(set(&[2]))).unwrap();
    assert_eq!(left(&mut s, data()), ([0, 2, 0], 0), "the decision that is kept holds");
    s.set_members(key(GROUP, 0), Some(set(&[0]))).unwrap();
    assert_eq!(left(&mut s, data()), ([0, 0, 0], 2), "the sender alone has joined");
    s.set_members(key(GROUP, 0), None).unwrap();
    assert_eq!(left(&mut s, data()), ([0, 0, 2], 0));
    s.snoop(0, Some([Some(set(&[])), None])).unwrap();
    assert_eq!(left(&mut s, data()), ([0, 0, 0], 2), "nobody has, and no router is known");
    assert_eq!(s.stats(PortId(0)).lossless_drops(), 0);
    // What is of the link, and what is no group of IP, is for all.
    for to in [0x0100_5e00_00fb, 0x3333_ff01_0203, 0xffff_ffff_ffff, 0x0180_c200_0010, 0x0100_0000_0001] {
        assert_eq!(left(&mut s, [ipv4(to, 17, 0, 0)]), ([1, 1, 1], 0), "{to:x}");
    }
    s.snoop(0, None).unwrap();
    assert_eq!(left(&mut s, data()), ([2, 2, 2], 0));
}

#[test]
fn hosts_speak_to_routers_and_routers_to_all_and_both_are_read() {
    let (mut s, mut reader) = switch(Some([Some(set(&[3])), Some(set(&[2]))]));
    s.set_members(key(GROUP, 0), Some(set(&[1, 3]))).unwrap();
    let hosts =
        [(0x16, 1), (0x12, 0), (0x17, 1), (0x22, 1)].map(|(kind, options)| ipv4(GROUP, 2, kind, options));
    // Data of the same host to the same group, about which a decision is kept by now.
    assert_eq!(left(&mut s, [ipv4(GROUP, 17, 0, 0)]), ([1, 0, 1], 0));
    assert_eq!(left(&mut s, hosts), ([0, 0, 4], 0));
    assert_eq!(left(&mut s, [131, 132, 143].map(|kind| mld(OF_IPV6, kind))), ([0, 3, 0], 0));
    assert_eq!(left(&mut s, [ipv4(GROUP, 2, 0x11, 1), mld(OF_IPV6, 130)]), ([2, 2, 2], 0));
    assert_eq!(left(&mut s, [ipv4(0x0100_5e00_000d, 103, 0x20, 0)]), ([1, 1, 1], 0));
    assert_eq!((reader.by_ref().count(), s.stats(PortId(0)).rx_igmp), (10, 10));
    // Where no router is to hear it what hosts say ends here, and is no data frame.
    s.snoop(0, Some([Some(set(&[0])), Some(set(&[2]))])).unwrap();
    let received = s.stats(PortId(0)).rx_packets;
    assert_eq!(left(&mut s, [ipv4(GROUP, 2, 0x16, 1)]), ([0, 0, 0], 0));
    assert_eq!((s.stats(PortId(0)).rx_packets, reader.by_ref().count()), (received, 1));
    s.snoop(0, Some([Some(set(&[3])), Some(set(&[2]))])).unwrap();
    // Other types are data.
    assert_eq!(left(&mut s, [ipv4(GROUP, 2, 0x99, 0), mld(OF_IPV6, 129)]), ([1, 1, 1], 0));
    // More than the reader takes go on all the same.
    assert_eq!(left(&mut s, (0..32).map(|_| ipv4(GROUP, 2, 0x16, 1))), ([0, 0, 32], 0));
    for _ in 0..4 {
        left(&mut s, (0..32).map(|_| ipv4(GROUP, 2, 0x16, 1)));
    }
    assert_eq!((reader.count(), s.stats(PortId(0)).igmp_unread), (128, 32));
    s.snoop(0, None).unwrap();
    assert_eq!(left(&mut s, [ipv4(GROUP, 2, 0x16, 1)]), ([1, 0, 1], 0), "as other frames of the group");
    assert_eq!(s.stats(PortId(0)).rx_igmp, 139);
}

#[test]
fn only_its_own_vlan_is_snooped() {
    let mut params = params(4);
    let trunk = PortVlans { native: Some(10), members: [10, 20].into_iter().collect() };
    params.ports.iter_mut().for_each(|port| port.vlans = Some(trunk.clone()));
    let mut s = Tapped::<OwnedFrame>::observed(params).unwrap();
    let reader = s.read_local(PortId(0), LocalProtocol::Membership);
    s.snoop(10, Some([Some(set(&[1])), None])).unwrap();
    s.set_members(key(GROUP, 10), Some(set(&[2]))).unwrap();
    let tagged = |frame: OwnedFrame| {
        let mut bytes = frame.bytes().to_vec();
        bytes.splice(12..12, [0x81, 0, 0, 20]);
        OwnedFrame::new(bytes)
    };
    assert_eq!(left(&mut s, [ipv4(GROUP, 17, 0, 0), ipv4(GROUP, 2, 0x16, 1)]), ([1, 1, 0], 0));
    let others = [tagged(ipv4(GROUP, 17, 0, 0)), tagged(ipv4(GROUP, 2, 0x16, 1))];
    assert_eq!(left(&mut s, others), ([2, 2, 2], 0));
    assert_eq!(reader.map(|frame| frame.vid).collect::<Vec<_>>(), [10]);
}

#[test]
fn a_configured_group_stays_what_it_is_and_others_make_room() {
    let mut params = params(4);
    params.groups = vec![(key(GROUP, 0), set(&[1, 2]))];
    params.fdb_capacity = 16;
    let mut s = Tapped::<OwnedFrame>::observed(params).unwrap();
    s.snoop(0, Some([Some(set(&[3])), None])).unwrap();
    for ports in [Some(set(&[3])), None] {
        s.set_members(key(GROUP, 0), ports).unwrap();
        assert_eq!(left(&mut s, [ipv4(GROUP, 17, 0, 0)]), ([1, 1, 0], 0));
    }
    receive(&mut s, 0, (10..60).map(|from| frame(from, 2, 0, 60)), 1);
    let mut groups = (GROUP + 1..).map(|mac| key(mac, 0));
    assert!(
        groups.by_ref().take(15).all(|key| s.set_members(key, Some(set(&[1]))).is_ok()),
        "stations make room"
    );
    let full = groups.next().unwrap();
    assert_eq!(s.set_members(full, Some(set(&[1]))), Err(FdbFull));
    s.set_members(key(GROUP + 1, 0), None).unwrap();
    s.set_members(full, Some(set(&[1]))).unwrap();
}

/// Decisions about other groups and stations hold when members come and go (A12).
#[test]
fn a_group_that_changes_leaves_other_decisions_what_they_are() {
    let (mut s, _) = switch(Some([Some(set(&[3])), None]));
    left(&mut s, [ipv4(GROUP, 17, 0, 0), frame(1, 2, 0, 60)]);
    left(&mut s, [ipv4(GROUP, 17, 0, 0), frame(1, 2, 0, 60)]);
    let voids = s.flow_cache.begin_look();
    s.set_members(key(GROUP + 1, 0), Some(set(&[1]))).unwrap();
    s.set_members(key(GROUP + 1, 0), Some(set(&[1, 2]))).unwrap();
    s.snoop(0, Some([Some(set(&[2])), None])).unwrap();
    assert_eq!(left(&mut s, [ipv4(GROUP, 17, 0, 0)]), ([0, 1, 0], 0), "another router");
    s.set_members(key(GROUP + 1, 0), None).unwrap();
    left(&mut s, [ipv4(GROUP, 17, 0, 0)]);
    assert!(s.flow_cache.hold(voids));
    s.set_members(key(GROUP, 0), Some(set(&[1]))).unwrap();
    assert_eq!(left(&mut s, [ipv4(GROUP, 17, 0, 0)]), ([1, 0, 0], 0));
    assert!(s.flow_cache.hold(voids + 1), "those about the group alone");
}

#[test]
fn every_shard_sends_to_members_wherever_they_are() {
    let mut params = params(4);
    params.ports[1].shard = 1;
    params.ports[2].shard = 1;
    let mut shards = Tapped::<OwnedFrame>::observed_shards(&params, 2).unwrap();
    for s in &mut shards {
        s.snoop(0, Some([Some(set(&[3])), None])).unwrap();
        s.set_members(key(GROUP, 0), Some(set(&[0, 2]))).unwrap();
    }
    receive(&mut shards[1], 1, [ipv4(GROUP, 17, 0, 0), ipv4(GROUP + 1, 17, 0, 0)], 1);
    receive(&mut shards[0], 3, [ipv4(GROUP, 17, 0, 0)], 1);
    let mut out = [0; 4];
    for _ in 0..4 {
        for (s, ports) in shards.iter_mut().zip([[0, 3], [1, 2]]) {
            s.tick(1);
            for port in 0..4 {
                let mut tap = crate::switch::tests::Tap::of(32);
                let sent = match ports.contains(&port) {
                    true => s.transmit(PortId(port), 32, 1, &mut tap),
                    false => s.transmit_granted(PortId(port), 32, 1, &mut tap),
                };
                out[usize::from(port)] += sent;
            }
        }
    }
    assert_eq!(out, [2, 0, 2, 1]);
}

#[test]
fn whoever_follows_a_frame_sees_that_nobody_receives_it() {
    let (mut s, _) = switch(Some([Some(set(&[])), None]));
    let (tap, mut reader) =
        Tap::new(TapOrder { port: PortId(0), filter: Filter::default(), count: 4, bytes: 64, drops: false });
    s.arm(Some(Box::new(tap)));
    receive(&mut s, 0, [ipv4(GROUP, 17, 0, 0)], 1);
    s.tick(2);
    let lost = reader.by_ref().filter_map(|(record, _)| match record.what {
        What::Arrived(arrival) => Some(arrival.lost),
        _ => None,
    });
    let lost: Vec<_> = lost.collect();
    assert_eq!(lost, [Some(DropReason::LookupNoReceiver)]);
    let _reader = s.read_local(PortId(0), LocalProtocol::Membership);
    receive(&mut s, 0, [ipv4(GROUP, 2, 0x16, 1)], 3);
    s.tick(4);
    let arrived = reader.filter_map(|(record, _)| match record.what {
        What::Arrived(arrival) => Some((arrival.copies, arrival.lost)),
        _ => None,
    });
    assert_eq!(arrived.collect::<Vec<_>>(), [(0, None)], "read, and no further");
}
