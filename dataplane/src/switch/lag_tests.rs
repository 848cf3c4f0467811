use super::super::tests::{assert_conserved, params, receive, transmit};
use super::super::{Change, Filter, SwitchParams, Tap, TapOrder, What};
use super::*;
use crate::drops::DropReason;
use crate::ecn::{MarkAt, ONE_Q32, Wred};
use crate::fdb::Lookup;
use crate::frame::OwnedFrame;
use crate::lag::{LagMember, LagParams};
use crate::parse::HashFields;
use crate::pfc::frame::PfcFrame;
use crate::rng::Rng;
use crate::switch::LocalProtocol;
use crate::switch::Tapped;
use crate::types::Mac;
use crate::vlan::PortVlans;
use std::collections::BTreeMap;

const LAG: [u16; 3] = [1, 2, 4];
const BROADCAST: [u8; 6] = [0xff; 6];

/// Ports 1, 2 and 4 of six are a LAG.
fn six(fields: HashFields) -> SwitchParams {
    let mut params = params(6);
    params.lags = vec![LagParams { members: LAG.into_iter().map(PortId).collect(), fields }];
    params
}

fn switch(fields: HashFields) -> Tapped<OwnedFrame> {
    Tapped::<OwnedFrame>::observed(six(fields)).unwrap()
}

fn mac(n: u8) -> [u8; 6] {
    [2, 0, 0, 0, 0, n]
}

/// The `number`th datagram of a flow.
fn udp(macs: [[u8; 6]; 2], ips: [u8; 2], ports: [u16; 2], number: u32) -> OwnedFrame {
    let [from, to] = macs;
    let mut bytes = [to, from].concat();
    bytes.extend([8, 0, 0x45, 2, 0, 46, 0, 0, 0, 0, 64, 17, 0, 0]);
    bytes.extend([10, 0, 0, ips[0], 10, 0, 0, ips[1]]);
    ports.iter().for_each(|port| bytes.extend(port.to_be_bytes()));
    bytes.extend([0, 26, 0, 0]);
    bytes.extend(number.to_be_bytes());
    bytes.resize(60, 0);
    OwnedFrame::new(bytes)
}

/// A flow of a station behind port 0 with one behind the LAG, as [`udp`] takes it.
type Flow = ([[u8; 6]; 2], [u8; 2], [u16; 2]);

fn of_flow((macs, ips, ports): Flow, number: u32) -> OwnedFrame {
    udp(macs, ips, ports, number)
}

fn back((macs, ips, ports): Flow) -> Flow {
    let turned = |[a, b]: [u16; 2]| [b, a];
    ([macs[1], macs[0]], [ips[1], ips[0]], turned(ports))
}

/// Flows between eight stations here and eight behind the LAG.
fn flows(count: usize) -> Vec<Flow> {
    let mut rng = Rng::new(17);
    let mut below = |n: u64| (rng.next_u64() % n) as u8;
    let flow = |_| {
        let (a, b) = (1 + below(8), 101 + below(8));
        ([mac(a), mac(b)], [a, b], [u16::from(below(200)) << 8 | u16::from(below(250)), 4791])
    };
    (0..count).map(flow).collect()
}

/// Which number of which flow each port sent, in order.
fn left(s: &mut Tapped<OwnedFrame>) -> Vec<Vec<(Vec<u8>, u32)>> {
    let number = |bytes: &[u8]| u32::from_be_bytes(*bytes[42..].first_chunk().unwrap());
    let one = |bytes: Vec<u8>| {
        let mut flow = bytes[..38].to_vec();
        // A mark and the checksum that goes with it make no other flow.
        flow[15] = 2;
        flow[24..26].fill(0);
        (flow, number(&bytes))
    };
    (0..s.ports() as u16).map(|out| transmit(s, out, 1).frames.into_iter().map(one).collect()).collect()
}

/// The stations behind the LAG have been seen, each by another member.
fn known(s: &mut Tapped<OwnedFrame>) {
    for n in 0..8 {
        receive(s, LAG[usize::from(n) % 3], [udp([mac(101 + n), mac(250)], [1, 2], [3, 4], 0)], 0);
        receive(s, 0, [udp([mac(1 + n), mac(250)], [1, 2], [3, 4], 0)], 0);
    }
    left(s);
}

/// Sends `rounds` frames of each flow in random order and says by which port each flow left. Within a flow nothing overtakes.
fn members_of(s: &mut Tapped<OwnedFrame>, flows: &[Flow], rounds: u32) -> Vec<Option<u16>> {
    let mut rng = Rng::new(rounds.into());
    let mut next = vec![0; flows.len()];
    let mut seen: BTreeMap<Vec<u8>, (u16, u32)> = BTreeMap::new();
    for _ in 0..flows.len() * rounds as usize / 32 {
        let burst: Vec<_> = (0..32)
            .map(|_| {
                let flow = rng.next_u64() as usize % flows.len();
                next[flow] += 1;
                of_flow(flows[flow], next[flow])
            })
            .collect();
        receive(s, 0, burst, 0);
        for (out, frames) in left(s).into_iter().enumerate() {
            for (flow, number) in frames {
                let (at, last) = seen.entry(flow).or_insert((out as u16, 0));
                assert_eq!((*at, *last + 1), (out as u16, number), "a flow has one member and one order");
                *last = number;
            }
        }
        assert_conserved(s);
    }
    let key = |flow: &Flow| of_flow(*flow, 0).bytes()[..38].to_vec();
    flows.iter().map(|flow| seen.get(&key(flow)).map(|(at, _)| *at)).collect()
}

#[test]
fn each_flow_has_a_member_both_ways_and_members_have_equal_shares() {
    for fields in [HashFields::L2, HashFields::L3, HashFields::L4] {
        let (mut s, flows) = (switch(fields), flows(600));
        known(&mut s);
        let members = members_of(&mut s, &flows, 16);
        let share = |port| members.iter().filter(|member| **member == Some(port)).count();
        let shares = LAG.map(share);
        assert_eq!(shares.iter().sum::<usize>(), 600, "{fields:?}: all have been seen, and nowhere else");
        // Of 64 pairs of stations five standard deviations are 19 of a third, of 600 flows 58 of 200.
        let least = if fields == HashFields::L4 { 142 } else { 20 };
        assert!(shares.iter().all(|n| *n >= least), "{fields:?}: {shares:?}");
        // The switch at the other end has them the same way.
        let mut other = switch(fields);
        for (flow, member) in flows.iter().zip(members) {
            let ([here, there], ..) = *flow;
            receive(&mut other, 5, [udp([here, mac(9)], [1, 2], [3, 4], 0)], 0);
            receive(&mut other, LAG[0], [udp([here, mac(9)], [1, 2], [3, 4], 0)], 0);
            receive(&mut other, 0, [udp([there, mac(9)], [1, 2], [3, 4], 0)], 0);
            left(&mut other);
            receive(&mut other, 0, [of_flow(back(*flow), 1)], 0);
            let outs: Vec<_> = left(&mut other).iter().map(Vec::len).collect();
            assert_eq!(outs.iter().sum::<usize>(), 1);
            assert_eq!(outs[usize::from(member.unwrap())], 1, "{flow:?}");
        }
    }
}

/// Who follows a frame sees the member it leaves by and that member's queue.
#[test]
fn a_followed_frame_is_looked_up_at_the_member_it_leaves_by() {
    let (mut s, flows) = (switch(HashFields::L4), flows(64));
    known(&mut s);
    let order = TapOrder { port: PortId(0), filter: Filter::default(), count: 64, bytes: 64, drops: false };
    let (tap, reader) = Tap::new(order);
    s.arm(Some(Box::new(tap)));
    let mut outs = Vec::new();
    for flow in &flows {
        receive(&mut s, 0, [of_flow(*flow, 1)], 0);
        outs.extend(left(&mut s).iter().enumerate().filter(|(_, sent)| !sent.is_empty()).map(|(out, _)| out));
    }
    let told = reader.fold(Vec::new(), |mut told, (record, _)| {
        if let What::Arrived(arrival) = record.what {
            let Lookup::Port(out) = arrival.lookup else { panic!("{arrival:?}") };
            let [before, after] = arrival.queue.unwrap();
            assert!(after.used > before.used, "its queue has grown: {arrival:?}");
            told.push(out.index());
        }
        told
    });
    assert_eq!((told.len(), &told), (64, &outs));
    assert!(LAG.iter().all(|port| told.contains(&usize::from(*port))));
}

#[test]
fn stations_are_known_at_the_lag_and_do_not_move_among_its_members() {
    let mut s = switch(HashFields::L4);
    known(&mut s);
    for round in 0..9 {
        receive(&mut s, LAG[round % 3], [udp([mac(101), mac(1)], [1, 2], [3, 4], 0)], 0);
    }
    assert_eq!((s.fdb().counters().moved, s.fdb().len()), (0, 16));
    assert_eq!(left(&mut s)[0].len(), 9);
    // From one member to a station behind another: where it came from.
    receive(&mut s, 2, [udp([mac(101), mac(102)], [1, 2], [3, 4], 0)], 0);
    assert_eq!(s.stats(PortId(2)).drops.0[DropReason::LookupSamePort as usize], 1);
    assert!(left(&mut s).iter().all(Vec::is_empty));
    assert_conserved(&s);
}

#[test]
fn a_lag_gets_one_copy_and_none_of_what_it_sent() {
    let mut s = switch(HashFields::L4);
    let mut by_member = [0; 6];
    for port in 0..300 {
        receive(&mut s, 0, [udp([mac(1), BROADCAST], [1, 2], [port, 4], 0)], 0);
        let outs: Vec<_> = left(&mut s).iter().map(Vec::len).collect();
        assert_eq!((outs[0], outs[3], outs[5], outs.iter().sum::<usize>()), (0, 1, 1, 3));
        LAG.iter().for_each(|port| by_member[usize::from(*port)] += outs[usize::from(*port)]);
    }
    assert!(LAG.iter().all(|port| by_member[usize::from(*port)] > 60), "{by_member:?}");
    for input in LAG {
        receive(&mut s, input, [udp([mac(101), BROADCAST], [1, 2], [3, 4], 0)], 0);
        let outs: Vec<_> = left(&mut s).iter().map(Vec::len).collect();
        assert_eq!(outs, [1, 0, 0, 1, 0, 1], "from {input}");
    }
    assert_eq!(s.stats(PortId(0)).copies, 600);
    assert_conserved(&s);
}

#[test]
fn a_static_group_with_a_lag_gets_one_copy_there() {
    let mut params = six(HashFields::L2);
    let key = params.ports[0].profile.key(0x0100_5e00_0001, 0);
    params.groups = vec![(key, [1, 3].into_iter().map(PortId).collect())];
    let mut s = Tapped::<OwnedFrame>::observed(params).unwrap();
    receive(&mut s, 0, [udp([mac(1), [1, 0, 0x5e, 0, 0, 1]], [1, 2], [3, 4], 0)], 0);
    let outs: Vec<_> = left(&mut s).iter().map(Vec::len).collect();
    assert_eq!((outs[3], LAG.map(|port| outs[usize::from(port)]).iter().sum::<usize>()), (1, 1));
    receive(&mut s, 4, [udp([mac(101), [1, 0, 0x5e, 0, 0, 1]], [1, 2], [3, 4], 0)], 0);
    assert_eq!(left(&mut s).iter().map(Vec::len).collect::<Vec<_>>(), [0, 0, 0, 1, 0, 0]);
}

#[test]
fn flows_of_a_lost_member_move_and_no_others_and_come_back() {
    for fields in [HashFields::L2, HashFields::L4] {
        let (mut s, flows) = (switch(fields), flows(200));
        known(&mut s);
        let before = members_of(&mut s, &flows, 20);
        s.set_link(PortId(1), false, 1);
        for _ in 0..s.fdb().buckets() {
            s.tick(1);
        }
        assert_eq!(s.fdb().len(), 16, "they are still behind the others");
        let during = members_of(&mut s, &flows, 21);
        for (was, is) in before.iter().zip(&during) {
            assert!(is.is_some_and(|is| is != 1) && (was == is || *was == Some(1)), "{was:?} {is:?}");
        }
        s.set_link(PortId(1), true, 1);
        assert_eq!(members_of(&mut s, &flows, 22), before);
        assert_eq!((s.stats(PortId(1)).lag_changes, s.stats(PortId(2)).lag_changes), (2, 0));
        // None is left: nobody is behind it any more.
        LAG.iter().for_each(|port| s.set_link(PortId(*port), false, 2));
        for _ in 0..s.fdb().buckets() {
            s.tick(2);
        }
        assert_eq!(s.fdb().len(), 8);
        receive(&mut s, 0, [of_flow(flows[0], 1)], 0);
        assert_eq!(left(&mut s).iter().map(Vec::len).collect::<Vec<_>>(), [0, 0, 0, 1, 0, 1]);
        assert_conserved(&s);
    }
}

/// A member that looks at each frame before it admits it takes part like any other.
#[test]
fn a_flow_keeps_its_member_whatever_stands_before_its_queue() {
    let mut params = six(HashFields::L4);
    let mark = Wred { kmin: 0, kmax: 0, pmax: ONE_Q32, at: MarkAt::Enqueue };
    params.ports[2].mark[0] = Some(mark);
    let (mut s, flows) = (Tapped::<OwnedFrame>::observed(params).unwrap(), flows(100));
    let mut plain = switch(HashFields::L4);
    known(&mut s);
    known(&mut plain);
    assert_eq!(members_of(&mut s, &flows, 20), members_of(&mut plain, &flows, 20));
    assert!(s.stats(PortId(2)).ecn_marked.iter().sum::<u64>() > 0);
}

#[test]
fn members_are_of_a_vlan_and_their_frames_leave_with_its_tag() {
    let mut params = six(HashFields::L4);
    for (at, port) in params.ports.iter_mut().enumerate() {
        let native = (!LAG.contains(&(at as u16))).then_some(if at == 5 { 20 } else { 10 });
        port.vlans = Some(PortVlans { native, members: [native.unwrap_or(10)].into_iter().collect() });
    }
    let mut s = Tapped::<OwnedFrame>::observed(params).unwrap();
    receive(&mut s, 0, [udp([mac(1), BROADCAST], [1, 2], [3, 4], 0)], 0);
    let outs: Vec<_> = (0..6).map(|out| transmit(&mut s, out, 1).frames).collect();
    let tagged: Vec<_> = LAG.iter().flat_map(|port| &outs[usize::from(*port)]).collect();
    assert_eq!((tagged.len(), outs[3].len(), outs[5].len()), (1, 1, 0));
    assert_eq!(tagged[0][12..16], [0x81, 0, 0, 10]);
    let answer = |member: u16, number| {
        let mut bytes = udp([mac(101), mac(1)], [2, 1], [4, 3], number).bytes().to_vec();
        bytes.splice(12..12, [0x81, 0, 0, 10]);
        (member, OwnedFrame::new(bytes))
    };
    for (member, frame) in LAG.map(|member| answer(member, 1)) {
        receive(&mut s, member, [frame], 0);
        assert_eq!(left(&mut s)[0].len(), 1);
    }
    for number in 0..20 {
        receive(&mut s, 0, (0..3).map(|n| udp([mac(1), mac(101)], [1, 2], [number, n], 0)), 0);
        let outs: Vec<_> = (0..6).map(|out| transmit(&mut s, out, 1).frames).collect();
        let sent: Vec<_> = LAG.iter().flat_map(|port| &outs[usize::from(*port)]).collect();
        assert!(sent.len() == 3 && sent.iter().all(|bytes| bytes[12..16] == [0x81, 0, 0, 10]));
    }
    assert_conserved(&s);
}

#[test]
fn lags_come_and_go_while_frames_flow() {
    let (apart, together) = (params(6), six(HashFields::L4));
    let mut s = Tapped::<OwnedFrame>::observed(apart.clone()).unwrap();
    known(&mut s);
    let learned = s.fdb().len();
    s.set_link(PortId(4), false, 1);
    s.apply(&mut Change::between(&apart, &together).unwrap(), 1).unwrap();
    s.set_link(PortId(4), true, 1);
    for _ in 0..s.fdb().buckets() {
        s.tick(1);
    }
    // What was known at ports that are now known as another one.
    assert!(s.fdb().len() < learned);
    known(&mut s);
    let members = members_of(&mut s, &flows(100), 20);
    assert!(LAG.iter().all(|port| members.contains(&Some(*port))));
    let mut other = together.clone();
    other.lags[0].fields = HashFields::L2;
    s.apply(&mut Change::between(&together, &other).unwrap(), 2).unwrap();
    assert_eq!(s.fdb().len(), 16);
    assert_ne!(members_of(&mut s, &flows(100), 21), members);
    s.apply(&mut Change::between(&other, &apart).unwrap(), 3).unwrap();
    for _ in 0..s.fdb().buckets() {
        s.tick(3);
    }
    assert_eq!(s.fdb().len(), 8, "who is behind which of them is to be learned");
    receive(&mut s, 1, [udp([mac(101), mac(102)], [1, 2], [3, 4], 0)], 0);
    assert_eq!(left(&mut s).iter().map(Vec::len).collect::<Vec<_>>(), [1, 0, 1, 1, 1, 1]);
    assert_conserved(&s);
}

/// Members of two lcores: a station whose flows come by both is at one port, and does not go from one to the other.
#[test]
fn members_of_several_lcores_are_one_port_to_all_of_them() {
    let mut params = six(HashFields::L4);
    params.ageing = Some(16_000);
    for (port, shard) in params.ports.iter_mut().zip([0, 0, 1, 1, 0, 1]) {
        port.shard = shard;
    }
    let mut shards = Tapped::<OwnedFrame>::observed_shards(&params, 2).unwrap();
    for round in 0..200u64 {
        let now = round * 500;
        receive(&mut shards[0], 1, [udp([mac(101), mac(1)], [1, 2], [3, 4], 0)], now);
        receive(&mut shards[1], 2, [udp([mac(101), mac(1)], [1, 2], [5, 4], 0)], now);
        receive(&mut shards[0], 0, [udp([mac(1), mac(101)], [1, 2], [3, 4], 0)], now);
        for turn in 0..shards[0].fdb().buckets() as u64 {
            for shard in &mut shards {
                shard.tick(now + turn);
            }
            for (shard, ports) in [(0, [0, 1, 4]), (1, [2, 3, 5])] {
                for port in ports {
                    transmit(&mut shards[shard], port, now + turn);
                }
            }
        }
        let moved = shards.iter().map(|s| s.fdb().counters().moved).sum::<u64>();
        assert_eq!(moved, 0, "round {round}");
    }
    // Nobody talks any more: it is forgotten by both.
    for turn in 0..400 {
        shards.iter_mut().for_each(|shard| shard.tick(200_000 + turn * 1_000));
    }
    assert!(shards.iter().all(|shard| shard.fdb().is_empty()));
}

/// With LACP members carry what it says, and nothing before it has said anything.
fn with_lacp(fields: HashFields) -> SwitchParams {
    let mut params = six(fields);
    LAG.iter().for_each(|port| params.ports[usize::from(*port)].lacp = true);
    params
}

fn lost(s: &Tapped<OwnedFrame>, port: u16, reason: DropReason) -> u64 {
    s.stats(PortId(port)).drops.0[reason as usize]
}

fn told(s: &mut Tapped<OwnedFrame>, member: LagMember) {
    LAG.iter().for_each(|port| s.set_lag_member(PortId(*port), member, 1));
}

#[test]
fn members_carry_what_lacp_says_and_nothing_before() {
    let mut s = Tapped::<OwnedFrame>::observed(with_lacp(HashFields::L4)).unwrap();
    let broadcast = |n: u8| udp([mac(n), BROADCAST], [1, 2], [3, 4], 0);
    let lens = |s: &mut Tapped<OwnedFrame>| left(s).iter().map(Vec::len).collect::<Vec<_>>();
    receive(&mut s, 0, [broadcast(1)], 0);
    assert_eq!(lens(&mut s), [0, 0, 0, 1, 0, 1], "none of its members");
    receive(&mut s, 2, [broadcast(101), broadcast(102)], 0);
    assert_eq!(lens(&mut s), [0; 6]);
    assert_eq!((lost(&s, 2, DropReason::IngressLagInactive), s.stats(PortId(2)).rx_packets), (2, 2));
    assert_eq!((s.fdb().len(), s.stats(PortId(2)).lag_changes), (1, 0), "nobody is learned from them");
    // Both ends of a link take frames before one of them sends.
    told(&mut s, LagMember::Collecting);
    receive(&mut s, 2, [broadcast(101)], 0);
    receive(&mut s, 0, [broadcast(1)], 0);
    assert_eq!(lens(&mut s), [1, 0, 0, 2, 0, 2]);
    told(&mut s, LagMember::Distributing);
    known(&mut s);
    let (flows, mut plain) = (flows(100), switch(HashFields::L4));
    known(&mut plain);
    assert_eq!(members_of(&mut s, &flows, 20), members_of(&mut plain, &flows, 20), "as without LACP");
    // One is taken out as if its link were lost, but for what is of the link itself.
    s.set_lag_member(PortId(1), LagMember::Detached, 2);
    plain.set_link(PortId(1), false, 2);
    assert_eq!(members_of(&mut s, &flows, 21), members_of(&mut plain, &flows, 21));
    assert_eq!((s.fdb().len(), s.stats(PortId(1)).lag_changes), (16, 2), "it joined and left");
    let mut wire = crate::switch::tests::Tap::of(0);
    assert!(s.send_local(PortId(1), LocalProtocol::Lacp, &[0; 124], &mut wire));
    // The last one: what was learned behind the LAG is flooded, to the others.
    told(&mut s, LagMember::Detached);
    for _ in 0..s.fdb().buckets() {
        s.tick(2);
    }
    receive(&mut s, 0, [of_flow(flows[0], 1)], 2);
    assert_eq!(lens(&mut s), [0, 0, 0, 1, 0, 1]);
    assert_conserved(&s);
}

#[test]
fn what_waits_at_a_member_that_is_taken_out_and_what_has_no_other_way_is_lost_by_name() {
    let mut params = with_lacp(HashFields::L2);
    let key = params.ports[0].profile.key(u64::from_be_bytes([0, 0, 2, 0, 0, 0, 0, 101]), 0);
    params.stations = vec![(key, PortId(1))];
    let mut s = Tapped::<OwnedFrame>::observed(params).unwrap();
    let one = || udp([mac(1), mac(101)], [1, 2], [3, 4], 0);
    receive(&mut s, 0, [one()], 0);
    assert_eq!(lost(&s, 0, DropReason::LookupLagInactive), 1);
    s.set_lag_member(PortId(2), LagMember::Distributing, 1);
    receive(&mut s, 0, (0..5).map(|_| one()), 1);
    s.set_lag_member(PortId(2), LagMember::Collecting, 2);
    s.tick(2);
    assert_eq!((lost(&s, 2, DropReason::EgressLagInactive), left(&mut s)[2].len()), (5, 0));
    // PFC does not depend on it: the link is there.
    receive(&mut s, 2, [OwnedFrame::new(PfcFrame::uniform(0xff, u16::MAX).encode(Mac::from_u64(2)))], 3);
    assert_eq!((s.stats(PortId(2)).rx_control, s.gauges(PortId(2), 4).paused_queues), (1, 0xff));
    s.set_lag_member(PortId(2), LagMember::Detached, 4);
    receive(&mut s, 2, [OwnedFrame::new(PfcFrame::uniform(0xff, 0).encode(Mac::from_u64(2)))], 5);
    assert_eq!((s.stats(PortId(2)).rx_control, s.gauges(PortId(2), 6).paused_queues), (2, 0));
    s.set_link(PortId(2), false, 7);
    s.set_lag_member(PortId(2), LagMember::Distributing, 8);
    receive(&mut s, 0, [one()], 8);
    assert_eq!((lost(&s, 0, DropReason::LookupPortDown), lost(&s, 0, DropReason::LookupLagInactive)), (0, 2));
    assert_conserved(&s);
}

/// What is flooded and finds nothing but members that LACP keeps out is not lost for want of a port. Links that are down are what is
/// left to say when no member has one.
#[test]
fn what_can_only_be_flooded_to_a_lag_that_is_kept_out_is_lost_for_that() {
    let mut s = Tapped::<OwnedFrame>::observed(with_lacp(HashFields::L4)).unwrap();
    for port in [3, 5] {
        s.set_link(PortId(port), false, 0);
    }
    let reasons = [DropReason::LookupNoPort, DropReason::LookupLagInactive, DropReason::LookupAdminDown];
    let flood = |s: &mut Tapped<OwnedFrame>, now| {
        let before = reasons.map(|reason| lost(s, 0, reason));
        receive(
            s,
            0,
            [udp([mac(1), BROADCAST], [1, 2], [3, 4], 0), udp([mac(1), mac(9)], [1, 2], [3, 4], 0)],
            now,
        );
        let after = reasons.map(|reason| lost(s, 0, reason));
        std::array::from_fn::<u64, 3, _>(|i| after[i] - before[i])
    };
    assert_eq!(flood(&mut s, 1), [0, 2, 0]);
    for (i, port) in LAG.iter().enumerate() {
        assert_eq!(flood(&mut s, 2 + i as u64), [0, 2, 0], "a member has a link");
        s.set_link(PortId(*port), false, 2 + i as u64);
    }
    assert_eq!(flood(&mut s, 9), [2, 0, 0]);
    assert_conserved(&s);
}

/// A LAG that gets LACP while frames flow carries nothing until both ends have agreed, and goes on at once where it loses it.
#[test]
fn lacp_comes_and_goes_while_frames_flow() {
    let (plain, lacp) = (six(HashFields::L4), with_lacp(HashFields::L4));
    let mut s = Tapped::<OwnedFrame>::observed(plain.clone()).unwrap();
    let sends = |s: &mut Tapped<OwnedFrame>| {
        receive(s, 0, [udp([mac(1), BROADCAST], [1, 2], [3, 4], 0)], 0);
        let outs = left(s);
        LAG.iter().map(|port| outs[usize::from(*port)].len()).sum::<usize>()
    };
    assert_eq!(sends(&mut s), 1);
    told(&mut s, LagMember::Distributing);
    s.apply(&mut Change::between(&plain, &lacp).unwrap(), 1).unwrap();
    assert_eq!(sends(&mut s), 0);
    told(&mut s, LagMember::Distributing);
    assert_eq!(sends(&mut s), 1);
    let mut other = lacp.clone();
    other.lags[0].fields = HashFields::L2;
    s.apply(&mut Change::between(&lacp, &other).unwrap(), 2).unwrap();
    assert_eq!(sends(&mut s), 1, "another hash is no reason to agree anew");
    told(&mut s, LagMember::Detached);
    s.apply(&mut Change::between(&other, &plain).unwrap(), 3).unwrap();
    assert_eq!(sends(&mut s), 1);
    assert_conserved(&s);
}

#[test]
fn other_lcores_hear_what_lacp_says() {
    let mut params = with_lacp(HashFields::L4);
    LAG.iter().for_each(|port| params.ports[usize::from(*port)].shard = 1);
    let mut shards = Tapped::<OwnedFrame>::observed_shards(&params, 2).unwrap();
    let mut sends = |member: Option<LagMember>| {
        if let Some(member) = member {
            told(&mut shards[1], member);
        }
        shards[0].tick(1);
        receive(&mut shards[0], 0, [udp([mac(1), BROADCAST], [1, 2], [3, 4], 0)], 1);
        shards.iter_mut().rev().for_each(|shard| shard.tick(2));
        LAG.iter().map(|port| transmit(&mut shards[1], *port, 3).frames.len()).sum::<usize>()
    };
    assert_eq!(sends(None), 0);
    assert_eq!(sends(Some(LagMember::Distributing)), 1);
    assert_eq!(sends(Some(LagMember::Collecting)), 0);
}
