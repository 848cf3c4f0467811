//! Storm control in the switch: what is limited, what is not, and where it is counted.

use super::{assert_conserved, frame, params, receive, transmit};
use crate::drops::DropReason;
use crate::frame::{Frame, OwnedFrame};
use crate::mmu::{Limit, MmuParams};
use crate::portset::PortSet;
use crate::storm_control::{FloodKind, FloodLimit, StormControl};
use crate::switch::Tapped;
use crate::switch::{Change, Filter, SwitchParams, Tap, TapOrder, UnknownUnicast, What};
use crate::types::{Nanos, PortId};

const EVERYBODY: u64 = 0xffff_ffff_ffff - 0x0200_0000_0000;
/// 03:00:00:00:00:nn is a group.
const GROUP: u64 = 0x0100_0000_0000;
const MS: Nanos = 1_000_000;

/// One frame per ms, and `burst` of them at once.
fn limited(kinds: &[FloodKind], burst: Nanos) -> SwitchParams {
    let mut params = params(4);
    let mut limits = [None; 3];
    kinds.iter().for_each(|kind| limits[*kind as usize] = Some(FloodLimit::Frames(1_000)));
    params.ports[0].storm_control = Some(StormControl { limits, burst: burst * MS });
    params
}

fn drops(s: &Tapped<OwnedFrame>, port: u16) -> Vec<(DropReason, u64)> {
    let counted = &s.stats(PortId(port)).drops.0;
    let all = DropReason::ALL.iter().map(|reason| (*reason, counted[*reason as usize]));
    all.filter(|(_, n)| *n > 0).collect()
}

/// Frames that have left by each port.
fn left(s: &mut Tapped<OwnedFrame>, now: Nanos) -> Vec<usize> {
    (0..4).map(|out| transmit(s, out, now).frames.len()).collect()
}

#[test]
fn each_kind_is_cut_to_its_rate_and_lost_by_its_name() {
    for (kind, to) in [
        (FloodKind::Broadcast, EVERYBODY),
        (FloodKind::UnknownUnicast, 99),
        (FloodKind::Multicast, GROUP + 1),
    ] {
        let mut s = Tapped::<OwnedFrame>::observed(limited(&[kind], 3)).unwrap();
        let burst = |n: usize| (0..n).map(|_| frame(1, to, 0, 64));
        receive(&mut s, 0, burst(10), 100 * MS);
        assert_eq!(left(&mut s, 100 * MS), [0, 4, 4, 4], "{kind:?}");
        receive(&mut s, 0, burst(10), 102 * MS);
        assert_eq!(left(&mut s, 102 * MS), [0, 2, 2, 2], "{kind:?}");
        assert_eq!(drops(&s, 0), [(kind.reason(), 14)]);
        assert_eq!((s.gauges(PortId(0), 102 * MS).flood_exceeded), 1 << kind as u64);
        assert_eq!((s.gauges(PortId(0), 103 * MS).flood_exceeded), 0);
        // Of the other kinds everything passes, and other ports have no limit.
        let others = [EVERYBODY, 99, GROUP + 1].into_iter().filter(|other| *other != to);
        receive(&mut s, 0, others.flat_map(|to| (0..10).map(move |_| frame(1, to, 0, 64))), 102 * MS);
        receive(&mut s, 1, (0..10).map(|_| frame(2, to, 0, 64)), 102 * MS);
        assert_eq!(left(&mut s, 102 * MS), [10, 20, 30, 30], "{kind:?}");
        assert_eq!(drops(&s, 0), [(kind.reason(), 14)]);
        assert_eq!(s.stats(PortId(0)).rx_packets, 40);
        assert_conserved(&s);
    }
}

#[test]
fn what_is_not_flooded_has_no_limit() {
    let mut params = limited(&FloodKind::ALL, 0);
    let standard = crate::parse::Profile::standard();
    params.groups = vec![(standard.key(0x0300_0000_0007, 0), [PortId(2)].into_iter().collect::<PortSet>())];
    params.stations = vec![(standard.key(0x0200_0000_0009, 0), PortId(3))];
    let mut s = Tapped::<OwnedFrame>::observed(params).unwrap();
    // A known station, a static entry, a static group, a bridge of the spanning tree.
    receive(&mut s, 1, [frame(5, 9, 0, 64)], 0);
    left(&mut s, 0);
    let mut bpdu = frame(1, 0, 0, 64).bytes().to_vec();
    bpdu[..6].copy_from_slice(&[1, 0x80, 0xc2, 0, 0, 0]);
    for _ in 0..3 {
        let burst = [5, 9, GROUP + 7].map(|to| frame(1, to, 0, 64)).into_iter();
        let burst = burst.chain([OwnedFrame::new(bpdu.clone())]);
        receive(&mut s, 0, burst.collect::<Vec<_>>(), 0);
        assert_eq!(left(&mut s, 0), [0, 2, 2, 2]);
    }
    assert_eq!(drops(&s, 0), []);
    assert_conserved(&s);
}

#[test]
fn a_station_that_is_to_be_dropped_anyway_takes_nothing_of_the_limit() {
    let mut params = limited(&[FloodKind::UnknownUnicast], 0);
    params.ports[0].unknown_unicast = UnknownUnicast::Drop;
    let mut s = Tapped::<OwnedFrame>::observed(params).unwrap();
    receive(&mut s, 0, (0..5).map(|_| frame(1, 99, 0, 64)), 0);
    assert_eq!(drops(&s, 0), [(DropReason::LookupUnknown, 5)]);
    assert_eq!(s.gauges(PortId(0), 0).flood_exceeded, 0);
}

/// The sender is learned from what is dropped: its station is where it is, and unicast to it goes one way.
#[test]
fn a_policed_frame_is_learned_from() {
    let mut s = Tapped::<OwnedFrame>::observed(limited(&[FloodKind::Broadcast], 0)).unwrap();
    receive(&mut s, 0, [frame(1, EVERYBODY, 0, 64), frame(2, EVERYBODY, 0, 64)], 0);
    assert_eq!(left(&mut s, 0), [0, 1, 1, 1]);
    receive(&mut s, 3, [frame(7, 2, 0, 64)], 0);
    assert_eq!(left(&mut s, 0), [1, 0, 0, 0]);
}

#[test]
fn a_lossless_frame_above_the_limit_is_a_lossless_loss() {
    let mut params = limited(&[FloodKind::Broadcast], 0);
    params.mmu = MmuParams::lossy(4, 1 << 20);
    params.mmu.pgs[3].lossless = true;
    (params.mmu.pgs[3].limit, params.mmu.pgs[3].headroom) = (Limit::fixed(1 << 16), 1 << 14);
    let mut s = Tapped::<OwnedFrame>::observed(params).unwrap();
    receive(&mut s, 0, (0..3).map(|_| frame(1, EVERYBODY, 24, 64)), 0);
    receive(&mut s, 0, (0..4).map(|_| frame(1, EVERYBODY, 0, 64)), 0);
    assert_eq!(drops(&s, 0), [(DropReason::IngressBroadcastLimit, 6)]);
    assert_eq!(s.stats(PortId(0)).lossless_drops(), 2);
    left(&mut s, 0);
    assert_conserved(&s);
}

#[test]
fn limits_come_change_and_go_while_the_switch_runs() {
    let none = params(4);
    let one = limited(&[FloodKind::Broadcast], 0);
    let mut s = Tapped::<OwnedFrame>::observed(none.clone()).unwrap();
    let mut go = |from: &SwitchParams, to: &SwitchParams, now| {
        s.apply(&mut Change::between(from, to).unwrap(), now).unwrap();
        receive(&mut s, 0, (0..5).map(|_| frame(1, EVERYBODY, 0, 64)), now);
        left(&mut s, now)[1]
    };
    assert_eq!(go(&none, &one, 10 * MS), 1);
    let mut other = one.clone();
    other.ageing = Some(1_000_000_000_000);
    assert_eq!(go(&one, &other, 10 * MS + 1), 0, "another key gives no new bucket");
    let mut more = one.clone();
    more.ports[0].storm_control.as_mut().unwrap().burst = 2 * MS;
    assert_eq!(go(&other, &more, 20 * MS), 3);
    assert_eq!(go(&more, &none, 20 * MS), 5);
}

#[test]
fn who_follows_a_frame_sees_why_it_is_lost() {
    let mut s = Tapped::<OwnedFrame>::observed(limited(&[FloodKind::Broadcast], 0)).unwrap();
    let order = TapOrder { port: PortId(0), filter: Filter::default(), count: 2, bytes: 0, drops: false };
    let (tap, reader) = Tap::new(order);
    s.arm(Some(Box::new(tap)));
    receive(&mut s, 0, (0..2).map(|_| frame(1, EVERYBODY, 0, 64)), 0);
    let lost: Vec<_> = reader
        .filter_map(|(record, _)| match record.what {
            What::Arrived(arrival) => Some((arrival.lost, arrival.copies)),
            _ => None,
        })
        .collect();
    assert_eq!(lost, [(None, 3), (Some(DropReason::IngressBroadcastLimit), 0)]);
}
