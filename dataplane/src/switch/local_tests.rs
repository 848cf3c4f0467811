//! Frames of LLDP and LACP: read, passed on, dropped, each counted once.

use super::*;
use crate::frame::OwnedFrame;
use crate::lag::LagMember;
use crate::switch::Tapped;
use crate::switch::tests::{Tap, assert_conserved, params};
use crate::switch::{Filter, TapOrder, What};
use crate::types::{BURST, Burst};

/// To 01:80:c2:00:00:`last`, with this EtherType, told apart by `seed`.
fn frame(last: u8, ethertype: u16, len: usize, seed: u8) -> OwnedFrame {
    let mut bytes = vec![seed; len];
    bytes[..12].copy_from_slice(&[1, 0x80, 0xc2, 0, 0, last, 2, 0, 0, 0, 0, 9]);
    bytes[12..14].copy_from_slice(&ethertype.to_be_bytes());
    OwnedFrame::new(bytes)
}

fn receive(s: &mut Tapped<OwnedFrame>, frames: impl IntoIterator<Item = OwnedFrame>, now: Nanos) {
    let mut burst: Burst<_> = frames.into_iter().collect();
    s.receive(PortId(0), &mut burst, now);
}

fn sent(s: &mut Tapped<OwnedFrame>, port: u16) -> usize {
    let mut wire = Tap::of(BURST);
    s.transmit(PortId(port), BURST, 0, &mut wire)
}

fn dropped(s: &Tapped<OwnedFrame>, reason: DropReason) -> u64 {
    s.stats(PortId(0)).drops.0[reason as usize]
}

#[test]
fn slow_protocols_are_read_where_lacp_is_spoken_and_have_room_of_their_own() {
    let mut params = params(3);
    params.ports.iter_mut().for_each(|port| port.link_local = 0xfffd);
    (params.ports[0].lacp, params.ports[0].lldp) = (true, true);
    let mut s = Tapped::<OwnedFrame>::observed(params).unwrap();
    let [mut lldp, mut lacp] =
        [LocalProtocol::Lldp, LocalProtocol::Lacp].map(|protocol| s.read_local(PortId(0), protocol));
    // Whether or not it may carry data.
    for (member, seed) in [(LagMember::Detached, 1), (LagMember::Distributing, 2)] {
        s.set_lag_member(PortId(0), member, 0);
        receive(&mut s, (0..20).map(|_| frame(14, LLDP_ETHERTYPE, 60, seed)), 5);
        receive(&mut s, (0..18).map(|_| frame(2, SLOW_ETHERTYPE, 124, seed)), 5);
        assert_eq!((lldp.by_ref().count(), lacp.by_ref().count()), (16, 16));
        let n = u64::from(seed);
        assert_eq!((s.stats(PortId(0)).rx_lacp, s.stats(PortId(0)).rx_lldp), (16 * n, 16 * n));
        assert_eq!(dropped(&s, DropReason::ControlLacpNoRoom), 2 * n);
        assert_eq!(dropped(&s, DropReason::ControlLldpNoRoom), 4 * n);
        assert_eq!((sent(&mut s, 1), sent(&mut s, 2)), (0, 0));
    }
    // Elsewhere they are what they were.
    let mut burst = [frame(2, SLOW_ETHERTYPE, 124, 0)].into_iter().collect();
    s.receive(PortId(1), &mut burst, 0);
    assert_eq!((sent(&mut s, 0), sent(&mut s, 2)), (1, 1));
    assert_conserved(&s);
}

/// A switch of three ports whose first takes LLDP.
fn switch(link_local: u16) -> Tapped<OwnedFrame> {
    let mut params = params(3);
    params.ports.iter_mut().for_each(|port| port.link_local = link_local);
    params.ports[0].lldp = true;
    Tapped::<OwnedFrame>::observed(params).unwrap()
}

#[test]
fn lldp_is_read_whatever_is_passed_on_and_nothing_else_is() {
    for link_local in [0, 1, 0xfffd] {
        let mut s = switch(link_local);
        let mut reader = s.read_local(PortId(0), LocalProtocol::Lldp);
        receive(&mut s, (0..16).map(|last| frame(last, LLDP_ETHERTYPE, 60, last)), 7);
        let read: Vec<_> = reader.by_ref().collect();
        assert_eq!(read.iter().map(|frame| frame.bytes[5]).collect::<Vec<_>>(), [0, 3, 14]);
        assert!(read.iter().all(|read| read.at == 7 && read.bytes.len() == 60));
        assert_eq!(read[1].bytes, frame(3, LLDP_ETHERTYPE, 60, 3).bytes());
        // What goes to these addresses and is no LLDP, or is in a VLAN, is what it was.
        let others = [frame(0, 46, 60, 0), frame(3, 0x888e, 60, 0), frame(14, 0x8100, 64, 0)];
        receive(&mut s, others, 7);
        assert_eq!(reader.next(), None);
        let stats = s.stats(PortId(0));
        // MAC control's address is never passed on.
        let passed = (0u16..16).filter(|last| ![0, 3, 14].contains(last)).chain([0, 3, 14]);
        let passed = passed.filter(|last| link_local >> last & 1 == 1).count();
        assert_eq!((stats.rx_lldp, stats.rx_control), (3, 0));
        assert_eq!(stats.rx_packets, 16);
        assert_eq!(dropped(&s, DropReason::ControlReserved), 16 - passed as u64);
        assert_eq!((sent(&mut s, 1), sent(&mut s, 2)), (passed, passed));
        // Nobody is learned from it.
        assert_eq!(s.fdb().len(), 0);
        assert_conserved(&s);
    }
}

#[test]
fn what_nobody_reads_or_takes_is_dropped_by_name() {
    let mut s = switch(0);
    receive(&mut s, [frame(14, LLDP_ETHERTYPE, 60, 0)], 0);
    assert_eq!((dropped(&s, DropReason::ControlReserved), s.stats(PortId(0)).rx_lldp), (1, 0));
    let mut reader = s.read_local(PortId(0), LocalProtocol::Lldp);
    // Too many; then one that leaves no room for another; then one of the greatest length there is.
    receive(&mut s, (0..20).map(|seed| frame(14, LLDP_ETHERTYPE, 60, seed)), 0);
    assert_eq!((dropped(&s, DropReason::ControlLldpNoRoom), reader.by_ref().count()), (4, 16));
    receive(&mut s, [9216, 9000].map(|len| frame(14, LLDP_ETHERTYPE, len, 1)), 0);
    assert_eq!((dropped(&s, DropReason::ControlLldpNoRoom), reader.by_ref().count()), (5, 1));
    let stats = s.stats(PortId(0));
    assert_eq!((stats.rx_lldp, stats.rx_packets, stats.lossless_drops()), (17, 6, 0));
    assert_eq!(s.conservation().dropped, 6);
    assert_conserved(&s);
    // A port that takes none.
    let mut other = s.read_local(PortId(1), LocalProtocol::Lldp);
    let mut burst = [frame(14, LLDP_ETHERTYPE, 60, 0)].into_iter().collect();
    s.receive(PortId(1), &mut burst, 0);
    assert_eq!(other.next(), None);
    assert_eq!(s.stats(PortId(1)).drops.0[DropReason::ControlReserved as usize], 1);
    assert_conserved(&s);
}

#[test]
fn what_is_sent_is_counted_if_the_wire_takes_it() {
    let mut s = switch(0);
    let mut wire = Tap::of(0);
    assert!(s.send_local(PortId(1), LocalProtocol::Lldp, &[1; 60], &mut wire));
    s.set_link(PortId(1), false, 0);
    assert!(!s.send_local(PortId(1), LocalProtocol::Lldp, &[2; 60], &mut wire));
    assert_eq!((s.stats(PortId(1)).tx_lldp, s.stats(PortId(1)).tx_packets), (1, 0));
    assert_conserved(&s);
}

/// Somebody who follows frames is told that it was consumed, or why it was lost.
#[test]
fn a_frame_that_is_followed_is_read_all_the_same() {
    let mut s = switch(0);
    let mut reader = s.read_local(PortId(0), LocalProtocol::Lldp);
    let order = TapOrder { port: PortId(0), filter: Filter::default(), count: 100, bytes: 64, drops: false };
    let (tap, mut told) = crate::switch::Tap::new(order);
    s.arm(Some(Box::new(tap)));
    receive(&mut s, (0..17).map(|seed| frame(14, LLDP_ETHERTYPE, 60, seed)), 0);
    assert_eq!(reader.by_ref().count(), 16);
    let lost: Vec<_> = told
        .by_ref()
        .map(|(record, _)| match record.what {
            What::Arrived(arrival) => (arrival.lost, arrival.copies),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(lost[..16], [(None, 0); 16]);
    assert_eq!(lost[16..], [(Some(DropReason::ControlLldpNoRoom), 0)]);
    assert_conserved(&s);
}
