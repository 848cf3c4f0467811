use super::super::tests::{assert_conserved, frame, params, receive, transmit};
use super::super::{Change, Filter, SwitchParams, Tap, TapOrder, What};
use super::*;
use crate::frame::OwnedFrame;
use crate::rng::Rng;
use crate::switch::Tapped;
use crate::switch::UnknownUnicast;
use crate::types::BURST;
use crate::vlan::PortVlans;

const EVERYBODY: u64 = 0xffff_ffff_ffff - 0x0200_0000_0000;

fn access(vid: u16) -> Option<PortVlans> {
    Some(PortVlans { native: Some(vid), members: [vid].into_iter().collect() })
}

fn trunk(native: Option<u16>, vids: &[u16]) -> Option<PortVlans> {
    Some(PortVlans { native, members: vids.iter().copied().chain(native).collect() })
}

/// Ports 0 and 1 in VLAN 10, 2 in 20, 3 a trunk of both, 4 a trunk with native VLAN 20.
fn five() -> SwitchParams {
    let mut params = params(5);
    let vlans = [access(10), access(10), access(20), trunk(None, &[10, 20]), trunk(Some(20), &[10])];
    params.ports.iter_mut().zip(vlans).for_each(|(port, vlans)| port.vlans = vlans);
    params
}

/// A frame with these tags: EtherType, PCP, VID.
fn tagged(from: u64, to: u64, tags: &[(u16, u16, u16)]) -> OwnedFrame {
    let mut bytes = frame(from, to, 8 * 4, 80).bytes().to_vec();
    let tags = tags.iter().flat_map(|(tpid, pcp, vid)| [*tpid, pcp << 13 | vid].map(u16::to_be_bytes));
    let tags: Vec<u8> = tags.flatten().collect();
    bytes.splice(12..12, tags);
    OwnedFrame::new(bytes)
}

fn q(pcp: u16, vid: u16) -> (u16, u16, u16) {
    (0x8100, pcp, vid)
}

/// What left by each port.
fn left(s: &mut Tapped<OwnedFrame>) -> Vec<Vec<Vec<u8>>> {
    let ports = s.ports() as u16;
    (0..ports).map(|out| transmit(s, out, 1).frames).collect()
}

fn drops(s: &Tapped<OwnedFrame>, port: u16) -> Vec<(DropReason, u64)> {
    let counted = &s.stats(PortId(port)).drops.0;
    DropReason::ALL
        .iter()
        .map(|reason| (*reason, counted[*reason as usize]))
        .filter(|(_, n)| *n > 0)
        .collect()
}

#[test]
fn a_flooded_frame_stays_in_its_vlan_and_leaves_with_a_tag_or_without() {
    let mut s = Tapped::<OwnedFrame>::observed(five()).unwrap();
    let (plain, in_10) = (tagged(1, EVERYBODY, &[]), tagged(1, EVERYBODY, &[q(4, 10)]));
    receive(&mut s, 0, [plain.clone()], 0);
    let (plain, in_10) = (plain.bytes().to_vec(), in_10.bytes().to_vec());
    assert_eq!(left(&mut s), [vec![], vec![plain.clone()], vec![], vec![in_10.clone()], vec![in_10.clone()]]);
    assert_conserved(&s);
    assert_eq!(s.stats(PortId(0)).copies, 2);
    receive(&mut s, 3, [OwnedFrame::new(in_10.clone())], 0);
    assert_eq!(left(&mut s), [vec![plain.clone()], vec![plain], vec![], vec![], vec![in_10]]);
    // VLAN 20 is native at port 4.
    let (plain, in_20) = (tagged(2, EVERYBODY, &[]), tagged(2, EVERYBODY, &[q(0, 20)]));
    receive(&mut s, 3, [in_20.clone()], 0);
    assert_eq!(left(&mut s)[2..], [vec![plain.bytes().to_vec()], vec![], vec![plain.bytes().to_vec()]]);
    receive(&mut s, 4, [in_20.clone(), plain.clone()], 0);
    let (plain, pushed) = (plain.bytes().to_vec(), tagged(2, EVERYBODY, &[q(4, 20)]).bytes().to_vec());
    let seen = left(&mut s);
    // The two are of different classes: PCP 0, DSCP class 4.
    assert_eq!((seen[2].clone(), seen[3].len()), (vec![plain.clone(), plain], 2));
    assert!(seen[3].contains(&pushed) && seen[3].contains(&in_20.bytes().to_vec()), "{seen:x?}");
    assert_conserved(&s);
}

#[test]
fn what_is_no_member_is_dropped_by_name() {
    let mut s = Tapped::<OwnedFrame>::observed(five()).unwrap();
    receive(&mut s, 0, [tagged(1, 2, &[q(0, 20)]), tagged(1, 2, &[q(0, 4095)])], 0);
    receive(&mut s, 3, [tagged(1, 2, &[]), tagged(1, 2, &[q(3, 0)]), tagged(1, 2, &[(0x88a8, 0, 10)])], 0);
    assert_eq!(drops(&s, 0), [(DropReason::VlanReserved, 1), (DropReason::VlanIngressFiltered, 1)]);
    assert_eq!(drops(&s, 3), [(DropReason::VlanUntagged, 3)]);
    assert_eq!(s.fdb().len(), 0, "nothing is learned from what is dropped");
    assert_conserved(&s);
}

/// BPDUs among them: a bridge behind a trunk takes none with a tag, and there is no loop through ports that share no VLAN.
#[test]
fn what_is_passed_on_between_bridges_is_of_no_vlan() {
    let to = [(0, vec![1, 3, 4]), (2, vec![3, 4]), (3, vec![0, 1, 2, 4]), (4, vec![0, 1, 2, 3]), (5, vec![])];
    for ((from, to), watched) in to.iter().flat_map(|case| [(case, false), (case, true)]) {
        let mut params = five();
        params.ports.iter_mut().for_each(|port| port.link_local = 1);
        // A trunk of another VLAN, and one of none.
        params.ports.extend(params.ports[..2].to_vec());
        (params.ports[5].vlans, params.ports[6].vlans) = (trunk(None, &[30]), trunk(None, &[]));
        params.mmu = super::super::tests::params(7).mmu;
        let mut s = Tapped::<OwnedFrame>::observed(params).unwrap();
        if watched {
            let port = PortId(*from);
            let order = TapOrder { port, filter: Filter::default(), count: 64, bytes: 64, drops: false };
            s.arm(Some(Box::new(Tap::new(order).0)));
        }
        for tags in
            [&[][..], &[q(3, 0)], &[q(3, 10)], &[q(0, 20)], &[q(0, 99)], &[q(0, 4095)], &[(0x88a8, 5, 7)]]
        {
            let mut bytes = tagged(1, 2, tags).bytes().to_vec();
            bytes[..6].copy_from_slice(&[1, 0x80, 0xc2, 0, 0, 0]);
            // By itself, and several of a burst.
            for burst in [1, 3] {
                receive(&mut s, *from, vec![OwnedFrame::new(bytes.clone()); burst], 0);
                let mut want = vec![vec![]; 7];
                to.iter().for_each(|out| want[*out] = vec![bytes.clone(); burst]);
                assert_eq!(left(&mut s), want, "from {from}, tags {tags:x?}, watched {watched}");
            }
        }
        let nowhere = if to.is_empty() { vec![(DropReason::LookupNoPort, 28)] } else { vec![] };
        assert_eq!((drops(&s, *from), s.fdb().len()), (nowhere, 0));
        assert_conserved(&s);
    }
}

#[test]
fn a_station_is_known_in_its_vlan_only() {
    let mut s = Tapped::<OwnedFrame>::observed(five()).unwrap();
    // The same address in two VLANs, at two ports.
    receive(&mut s, 1, [tagged(7, 99, &[])], 0);
    receive(&mut s, 2, [tagged(7, 99, &[])], 0);
    left(&mut s);
    for round in 0..3 {
        let burst = [(10, 1), (20, 2)].map(|(vid, n)| tagged(n, 7, &[q(5, vid), (0x8100, 1, 99)]));
        let single = [(10, 1), (20, 2)].map(|(vid, n)| tagged(n, 7, &[q(5, vid)]));
        receive(&mut s, 3, burst.into_iter().chain(single), 0);
        let seen = left(&mut s);
        let want = |n| [tagged(n, 7, &[(0x8100, 1, 99)]), tagged(n, 7, &[])].map(|f| f.bytes().to_vec());
        assert_eq!(seen, [vec![], want(1).into(), want(2).into(), vec![], vec![]], "round {round}");
    }
    // And back: a tag is pushed, with the PCP of the class, whether the decision is kept or not.
    for _ in 0..3 {
        receive(&mut s, 1, [tagged(7, 1, &[]), tagged(7, 1, &[q(3, 0)]), tagged(7, 1, &[q(2, 10)])], 0);
        let mut seen = left(&mut s);
        seen[3].sort();
        let want = [2, 3, 4].map(|pcp| tagged(7, 1, &[q(pcp, 10)]).bytes().to_vec());
        assert_eq!(seen[3], want);
    }
    assert_conserved(&s);
    assert_eq!(drops(&s, 1), []);
}

/// What a frame of the usual kind leaves with, without a tag and with one, and where its ECN field is marked then.
#[test]
fn the_ecn_field_is_found_where_it_has_moved_to() {
    use crate::ecn::{MarkAt, ONE_Q32, Wred};
    let mut params = five();
    let always = Wred { kmin: 0, kmax: 0, pmax: ONE_Q32, at: MarkAt::Dequeue };
    params.ports.iter_mut().for_each(|port| port.mark = [Some(always); 8]);
    let mut s = Tapped::<OwnedFrame>::observed(params).unwrap();
    receive(&mut s, 3, [tagged(9, 99, &[q(0, 10)])], 0);
    receive(&mut s, 1, [tagged(7, 99, &[])], 0);
    left(&mut s);
    for _ in 0..3 {
        // The second one leaves nothing behind it.
        receive(&mut s, 1, [tagged(7, 9, &[]), tagged(7, 9, &[])], 0);
        let seen = left(&mut s).swap_remove(3);
        assert_eq!(seen[0][19] & 3, 3);
        assert_eq!(seen[1], tagged(7, 9, &[q(4, 10)]).bytes());
        let back = |n| tagged(9, 7, &[q(n, 10)]);
        receive(&mut s, 3, [back(4), back(4)], 0);
        let seen = left(&mut s).swap_remove(1);
        assert_eq!(seen[0][15] & 3, 3);
        assert_eq!(seen[1], tagged(9, 7, &[]).bytes());
    }
    assert_conserved(&s);
}

#[test]
fn a_tag_that_makes_a_frame_too_long_is_not_pushed() {
    let mut params = five();
    params.ports[3].mtu = 1500;
    let mut s = Tapped::<OwnedFrame>::observed(params).unwrap();
    receive(&mut s, 3, [tagged(9, 99, &[q(0, 10)])], 0);
    left(&mut s);
    for _ in 0..3 {
        receive(&mut s, 1, [frame(7, 9, 0, 1496), frame(7, 9, 0, 1497), frame(7, 9, 0, 1500)], 0);
        let seen = left(&mut s);
        assert_eq!(seen[3].iter().map(Vec::len).collect::<Vec<_>>(), [1500]);
    }
    assert_eq!(drops(&s, 1), [(DropReason::VlanTooLong, 6)]);
    // Where it is flooded, the other ports get it: 0 without a tag, 4 with one.
    receive(&mut s, 1, [frame(7, 55, 0, 1497)], 0);
    assert_eq!(
        left(&mut s).iter().map(|port| port.iter().map(Vec::len).collect()).collect::<Vec<Vec<_>>>(),
        [vec![1497], vec![], vec![], vec![], vec![1501]]
    );
    assert_eq!(drops(&s, 1), [(DropReason::VlanTooLong, 7)]);
    assert_conserved(&s);
    // Nobody else is there.
    [0, 4].iter().for_each(|port| s.set_link(PortId(*port), false, 0));
    receive(&mut s, 1, [frame(7, 55, 0, 1497)], 0);
    assert_eq!(drops(&s, 1), [(DropReason::VlanTooLong, 8)]);
    assert_conserved(&s);
}

#[test]
fn another_membership_takes_effect_at_once() {
    let (old, mut new) = (five(), five());
    new.ports[1].vlans = access(20);
    let mut s = Tapped::<OwnedFrame>::observed(old.clone()).unwrap();
    receive(&mut s, 1, [tagged(7, 99, &[])], 0);
    receive(&mut s, 0, [tagged(1, 7, &[]), tagged(1, 7, &[])], 0);
    assert_eq!(left(&mut s)[1].len(), 2);
    let mut change = Change::between(&old, &new).unwrap();
    s.apply(&mut change, 0).unwrap();
    // The station is known in VLAN 10 at a port that is not in it, until the table has been gone through.
    receive(&mut s, 0, [tagged(1, 7, &[])], 0);
    assert_eq!(drops(&s, 0), [(DropReason::VlanEgressFiltered, 1)]);
    (0..1000).for_each(|now| s.tick(now));
    receive(&mut s, 0, [tagged(1, 7, &[])], 0);
    let seen = left(&mut s);
    assert_eq!((seen[1].len(), seen[3].len()), (0, 1), "flooded, but not to port 1");
    receive(&mut s, 1, [tagged(7, 99, &[])], 0);
    assert_eq!(left(&mut s)[2].len(), 1);
    s.apply(&mut change, 0).unwrap();
    receive(&mut s, 1, [tagged(7, 99, &[])], 0);
    assert_eq!(left(&mut s)[0].len(), 1, "the way back");
    assert_conserved(&s);
}

/// Who follows a flooded frame is told of the copies that leave as it came; the others are counted.
#[test]
fn of_a_followed_frame_the_copies_with_another_tag_are_aside() {
    let (tap, mut reader) =
        Tap::new(TapOrder { port: PortId(0), filter: Filter::default(), count: 2, bytes: 64, drops: false });
    let mut params = five();
    // Two copies of each kind; then one without a tag.
    params.ports[2].vlans = access(10);
    let mut s = Tapped::<OwnedFrame>::observed(params).unwrap();
    s.arm(Some(Box::new(tap)));
    receive(&mut s, 0, [tagged(1, EVERYBODY, &[])], 5);
    s.set_link(PortId(2), false, 5);
    receive(&mut s, 0, [tagged(1, EVERYBODY, &[q(3, 10)])], 7);
    (0..5).for_each(|out| drop(transmit(&mut s, out, 9)));
    let (mut arrived, mut left) = (Vec::new(), Vec::new());
    for (record, _) in &mut reader {
        match record.what {
            What::Arrived(a) => arrived.push((a.vlan.unwrap().vid, a.copies, a.aside, a.lost)),
            What::Left { out, .. } => left.push((record.key.rx_ns, out.0)),
            // Port 2 had one in its queue.
            What::Flushed { out, .. } => left.push((record.key.rx_ns, out.0)),
            What::Lost { .. } => panic!(),
        }
    }
    left.sort_unstable();
    assert_eq!(arrived, [(10, 2, 2, None), (10, 2, 1, None)]);
    assert_eq!(left, [(5, 1), (5, 2), (7, 3), (7, 4)]);
    assert_conserved(&s);
    assert!(s.copies.are_free() && s.held() == 0);
}

/// Frames of all kinds in bursts, against what the rules say of each by itself.
#[test]
fn whatever_comes_leaves_as_its_vlan_says() {
    for (seed, shards) in [(1, 1), (2, 1), (3, 2)] {
        let mut params = five();
        params.ports.iter_mut().for_each(|port| port.shard = port.mac.0[5] % shards as u8);
        params.stations = (0..5)
            .flat_map(|n| {
                [10u64, 20].map(|vid| {
                    (params.ports[0].profile.key(0x0200_0000_0000 + n, vid as u16), PortId(n as u16))
                })
            })
            .collect();
        params.ports.iter_mut().for_each(|port| port.unknown_unicast = UnknownUnicast::Flood);
        let vlans: Vec<PortVlans> = params.ports.iter().map(|port| port.vlans.clone().unwrap()).collect();
        let owner: Vec<usize> = params.ports.iter().map(|port| port.shard.into()).collect();
        let mut switches = Tapped::<OwnedFrame>::observed_shards(&params, shards).unwrap();
        let mut rng = Rng::new(seed);
        let mut below = |n: usize| rng.next_u32() as usize % n;
        let mut want: Vec<Vec<Vec<u8>>> = vec![vec![]; 5];
        let mut lost = 0;
        let mut seen: Vec<Vec<Vec<u8>>> = vec![vec![]; 5];
        for round in 0..400u64 {
            let port = below(5);
            let mut burst = Vec::new();
            for n in 0..1 + below(40) {
                let to = [0, 1, 2, 3, 4, 77, EVERYBODY][below(7)];
                let vid = [0, 10, 20, 30, 4095][below(5)];
                let pcp = below(8) as u16;
                let tags = [vec![], vec![q(pcp, vid)], vec![q(pcp, vid), q(1, 10)], vec![(0x88a8, pcp, 10)]];
                let tags = &tags[below(4)];
                let mut came = tagged(50, to, tags).bytes().to_vec();
                let at = came.len() - 8;
                came[at..].copy_from_slice(&(round << 16 | n as u64).to_be_bytes());
                burst.push(OwnedFrame::new(came.clone()));
                // What becomes of it.
                let own = &vlans[port];
                let (vlan, has_tag) = match tags.first() {
                    Some((0x8100, _, 0)) => (own.native, true),
                    Some((0x8100, _, vid)) => (Some(*vid).filter(|vid| own.members.contains(*vid)), true),
                    _ => (own.native, false),
                };
                let outs: Vec<usize> = match vlan {
                    None => vec![],
                    Some(vlan) => (0..5)
                        .filter(|out| *out != port && vlans[*out].members.contains(vlan))
                        .filter(|out| to > 4 || to as usize == *out)
                        .collect(),
                };
                lost += u64::from(outs.is_empty());
                // A frame's class is that of its outermost tag, else its DSCP (4).
                let class = tags.first().map_or(4, |(_, pcp, _)| *pcp);
                for out in outs {
                    let mut bytes = came.clone();
                    if has_tag {
                        bytes.drain(12..16);
                    }
                    let vlan = vlan.unwrap();
                    if vlans[out].native != Some(vlan) {
                        let [high, low] = (class << 13 | vlan).to_be_bytes();
                        bytes.splice(12..12, [0x81, 0, high, low]);
                    }
                    want[out].push(bytes);
                }
            }
            receive(&mut switches[owner[port]], port as u16, burst, round);
            for _ in 0..3 {
                switches.iter_mut().for_each(|s| s.tick(round));
                for (out, seen) in seen.iter_mut().enumerate() {
                    seen.extend(transmit(&mut switches[owner[out]], out as u16, round).frames);
                }
            }
        }
        for (out, (seen, want)) in seen.iter_mut().zip(&mut want).enumerate() {
            seen.sort();
            want.sort();
            assert_eq!(seen.len(), want.len(), "port {out}");
            assert!(seen == want, "port {out}");
        }
        let dropped: u64 =
            (0..5u16).map(|port| switches[owner[usize::from(port)]].stats(PortId(port)).drops.total()).sum();
        assert_eq!(dropped, lost);
        switches.iter().for_each(|s| assert_eq!((s.conservation().error(), s.held()), (0, 0)));
        if shards == 1 {
            assert_conserved(&switches[0]);
            assert_eq!(switches[0].admission().held_bytes(), 0);
        }
        assert!(seen.iter().map(Vec::len).sum::<usize>() > BURST && lost > 0);
    }
}
