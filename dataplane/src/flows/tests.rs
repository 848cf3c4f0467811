//! A summary against exact counts, and what is looked at against what happened.

use super::*;
use crate::parse::{FormatSpec, Profile, Transport, Variant};
use crate::rng::Rng;
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::net::IpAddr;

fn id(n: u64) -> FlowId {
    FlowId::of_ipv4(17, n as u32, 1).with_ports(n as u16, 4791)
}

fn exact_of(stream: &[(u64, u64)]) -> BTreeMap<FlowWords, u64> {
    stream.iter().fold(BTreeMap::new(), |mut exact, (n, weight)| {
        *exact.entry(id(*n).0).or_default() += weight;
        exact
    })
}

type FlowWords = [u64; 6];

proptest! {
    /// The bounds of Space-Saving, for any stream: nothing is lost of the sum, each flow has at least `count - over` and at
    /// most `count`, what is too much is a 32nd of all at most, and so is what is not shown.
    #[test]
    fn a_summary_keeps_its_bounds(
        stream in proptest::collection::vec((any::<u32>(), 0u32..3, 1u64..2000), 0..600),
        few in 1u64..200,
    ) {
        let stream: Vec<(u64, u64)> = stream
            .into_iter()
            // Some flows come far more often than others.
            .map(|(n, skew, weight)| (u64::from(n) % (few >> (2 * skew)).max(1), weight))
            .collect();
        let exact = exact_of(&stream);
        let all: u64 = exact.values().sum();
        let mut summary = Summary::default();
        stream.iter().for_each(|(n, weight)| summary.add(&id(*n), *weight));
        let shown: BTreeMap<FlowWords, Counted> = summary.flows().map(|flow| (flow.id.0, flow)).collect();
        prop_assert_eq!(shown.values().map(|flow| flow.count).sum::<u64>(), all);
        prop_assert_eq!(shown.len(), exact.len().min(ENTRIES));
        let bound = all / ENTRIES as u64;
        for flow in shown.values() {
            let own = exact[&flow.id.0];
            prop_assert!(flow.count - flow.over <= own && own <= flow.count && flow.over <= bound);
        }
        for (words, own) in &exact {
            if !shown.contains_key(words) {
                prop_assert!(*own <= summary.unseen() && summary.unseen() <= bound);
            }
        }
        if exact.len() <= ENTRIES {
            prop_assert!(shown.values().all(|flow| flow.over == 0) && (exact.len() == ENTRIES || summary.unseen() == 0));
        }
        // It can be begun anew.
        summary.clear();
        summary.add(&id(7), 5);
        prop_assert_eq!(summary.flows().collect::<Vec<_>>(), [Counted { id: id(7), count: 5, over: 0 }]);
    }

    /// Whatever comes in whatever portions: what is looked at stands for everything before it, and while there is a budget
    /// each event for itself.
    #[test]
    fn each_event_is_stood_for_once(
        portions in proptest::collection::vec((0u32..300, any::<bool>()), 1..60), sample in 1u32..100, seed in any::<u64>(),
    ) {
        let mut flows = FlowRecorder::new(FlowParams { sample, epoch: Nanos::MAX }, seed);
        let (mut happened, mut stood_for, mut last) = (0u64, 0, 0);
        let mut since = 0;
        for (now, (events, publish)) in portions.into_iter().enumerate() {
            let mut next = 0;
            while let Some((at, weight)) = flows.due(Cause::Drop, events - next) {
                next += at + 1;
                prop_assert!(next <= events);
                let index = happened + u64::from(next);
                prop_assert_eq!(index - last, weight);
                (stood_for, last) = (stood_for + weight, index);
            }
            (happened, since) = (happened + u64::from(events), since + events);
            if (1..=128).contains(&since) {
                prop_assert_eq!(stood_for, happened, "while there is a budget");
            }
            if publish {
                flows.publish(now as u64);
                since = 0;
            }
        }
        prop_assert!(stood_for <= happened && happened - stood_for < 2 * u64::from(sample));
    }
}

/// Beyond the budget shares are estimates: near the truth, also where traffic repeats itself with the period of the sample.
#[test]
fn a_sample_is_fair() {
    let mut flows = FlowRecorder::new(FlowParams { sample: 64, epoch: Nanos::MAX }, 3);
    const ALL: u64 = 400_000;
    for n in 0..ALL {
        // Of each 64, 16 are of flow 1, and always the same places.
        let flow = u64::from(n % 64 < 16);
        flows.count(Cause::Mark, 1);
        if let Some((_, weight)) = flows.due(Cause::Mark, 1) {
            flows.add(Cause::Mark, &id(flow), weight);
        }
    }
    let epoch = &flows.seen().current;
    let of = |n| epoch.flows[0].flows().find(|flow| flow.id == id(n)).unwrap().count as f64;
    assert!((of(1) / ALL as f64 - 0.25).abs() < 0.02, "{}", of(1));
    assert!(epoch.looked[0] > ALL / 80 && epoch.looked[0] < ALL / 50, "{}", epoch.looked[0]);
    assert!(epoch.totals[0] == ALL && of(0) + of(1) <= ALL as f64 && of(0) + of(1) > (ALL - 128) as f64);
}

/// A burst that ends is known nearly to its end, and a flow that comes late in it is not hidden by the first ones.
#[test]
fn what_comes_last_in_a_burst_is_seen() {
    for (seed, early, late) in
        (0..50).flat_map(|seed| [(seed, 300, 0), (seed, 129, 250), (seed, 5_000, 20_000)])
    {
        let mut flows = FlowRecorder::new(FlowParams { sample: 256, epoch: Nanos::MAX }, seed);
        for n in 0..early + late {
            flows.count(Cause::Drop, 1);
            if let Some((_, weight)) = flows.due(Cause::Drop, 1) {
                flows.add(Cause::Drop, &id(u64::from(n >= early)), weight);
            }
        }
        let epoch = &flows.seen().current;
        let (all, covered) = (early + late, epoch.covered[Cause::Drop as usize]);
        assert!(all - covered <= all / 16, "{seed}: {covered} of {all}");
        let of = |n| epoch.flows[1].flows().find(|flow| flow.id == id(n)).map_or(0, |flow| flow.count);
        assert_eq!(of(0) + of(1), covered);
        assert!(of(1).abs_diff(late) <= all / 12, "{seed}: {} of {late}", of(1));
    }
}

#[test]
fn stretches_of_time_follow_each_other() {
    let mut flows = FlowRecorder::new(FlowParams { sample: 1, epoch: EPOCH }, 1);
    let cell = flows.published();
    let happen = |flows: &mut FlowRecorder, n: u64| {
        for _ in 0..n {
            flows.count(Cause::Drop, 1);
            if let Some((_, weight)) = flows.due(Cause::Drop, 1) {
                flows.add(Cause::Drop, &id(n), weight);
            }
        }
    };
    let read = || {
        let PortFlows { current, previous } = cell.read();
        [current, previous].map(|epoch| (epoch.number, epoch.totals[1], epoch.flows[1].flows().next()))
    };
    let shown = |n| Some(Counted { id: id(n), count: n, over: 0 });
    happen(&mut flows, 3);
    flows.publish(5);
    assert_eq!(read(), [(1, 3, shown(3)), (0, 0, None)]);
    happen(&mut flows, 4);
    assert_eq!(read()[0].1, 3, "not yet published");
    flows.publish(EPOCH);
    assert_eq!(read(), [(2, 0, None), (1, 7, shown(3))]);
    happen(&mut flows, 5);
    flows.publish(EPOCH + 9);
    assert_eq!(read(), [(2, 5, shown(5)), (1, 7, shown(3))]);
    // Nobody published for a while.
    flows.publish(9 * EPOCH);
    assert_eq!(read(), [(10, 0, None), (2, 5, shown(5))]);
}

#[test]
fn depth_is_divided_among_the_frames_looked_at() {
    let mut flows = FlowRecorder::new(FlowParams { sample: 64, epoch: EPOCH }, 1);
    let mut looks = 0;
    flows.look_at_queue(1003, |_| {
        looks += 1;
        (looks != 2).then(|| id(looks))
    });
    let epoch = &flows.seen().current;
    let counts: Vec<u64> = epoch.flows[3].flows().map(|flow| flow.count).collect();
    assert_eq!((looks, epoch.totals[3], counts), (4, 1003, vec![250, 251, 251]));
    // A queue of two bytes has no four parts.
    flows.look_at_queue(2, |_| Some(id(9)));
    assert_eq!(flows.seen().current.flows[3].flows().last(), Some(Counted { id: id(9), count: 2, over: 0 }));
}

/// What its parts say of a flow.
#[derive(Debug, PartialEq)]
struct Told(Option<Addresses>, u8, Option<(u16, u16)>, Option<u32>);

fn told(profile: &Profile, bytes: &[u8]) -> Option<Told> {
    let id = profile.flow_id(bytes, bytes.len())?;
    Some(Told(id.addresses(), id.protocol(), id.ports(), id.qp()))
}

fn ipv4(protocol: u8, fragment: u16, payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0, 0x45, 0];
    frame.extend(((20 + payload.len()) as u16).to_be_bytes());
    frame.extend([0, 0]);
    frame.extend(fragment.to_be_bytes());
    frame.extend([64, protocol, 0, 0, 10, 0, 0, 7, 10, 0, 0, 9]);
    frame.extend(payload);
    frame
}

/// UDP from 49152 to `dst`, then 12 bytes of which those behind the first five are the queue pair of a BTH.
fn datagram(dst: u16, behind: &[u8]) -> Vec<u8> {
    let mut udp = vec![0xc0, 0];
    udp.extend(dst.to_be_bytes());
    udp.extend([0, 8 + behind.len() as u8, 0, 0]);
    udp.extend(behind);
    udp
}

const BTH: [u8; 12] = [4, 0, 0xff, 0xff, 0xee, 0x12, 0x34, 0x56, 0, 0, 0, 9];

#[test]
fn flows_are_read_from_frames_of_every_format() {
    let v4 = |n: u8| IpAddr::from([10, 0, 0, n]);
    let ends = Some(Addresses::Ip(v4(7), v4(9)));
    let standard = Profile::standard();
    let roce = ipv4(17, 0, &datagram(4791, &BTH));
    let same = Some(Told(ends, 17, Some((0xc000, 4791)), Some(0x12_3456)));
    assert_eq!(told(&standard, &roce), same);
    // The same behind two tags.
    let mut tagged = roce.clone();
    tagged.splice(12..12, [0x88, 0xa8, 0, 5, 0x81, 0, 0, 6]);
    assert_eq!(told(&standard, &tagged), same);
    // RC Link has 13 bits of a queue pair in the same place of another header.
    let rh = 0x4000_1234_5678_ffffu64.to_be_bytes();
    let rclink = Profile::standard_rclink();
    let frame = ipv4(17, 0, &datagram(4791, &rh));
    assert_eq!(told(&rclink, &frame), Some(Told(ends, 17, Some((0xc000, 4791)), Some(0x1fff))));
    // Another port of UDP, TCP, what has no ports, and the rest of a packet whose first part had them.
    let plain = told(&standard, &ipv4(17, 0x4000, &datagram(53, &BTH)));
    assert_eq!(plain, Some(Told(ends, 17, Some((0xc000, 53)), None)));
    let tcp = told(&standard, &ipv4(6, 0, &datagram(4791, &BTH)));
    assert_eq!(tcp, Some(Told(ends, 6, Some((0xc000, 4791)), None)));
    assert_eq!(told(&standard, &ipv4(1, 0, &[8, 0, 1, 2])), Some(Told(ends, 1, None, None)));
    assert_eq!(told(&standard, &ipv4(17, 99, &datagram(4791, &BTH))), Some(Told(ends, 17, None, None)));
    // IPv6.
    let mut frame = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x86, 0xdd, 0x60, 0, 0, 0, 0, 20, 17, 64];
    frame.extend([0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
    frame.extend([0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2]);
    frame.extend(datagram(4791, &BTH));
    let v6 = |n: u16| IpAddr::from([0xfd00, 0, 0, 0, 0, 0, 0, n]);
    let ends = Some(Addresses::Ip(v6(1), v6(2)));
    assert_eq!(told(&standard, &frame), Some(Told(ends, 17, Some((0xc000, 4791)), Some(0x12_3456))));
}

#[test]
fn frames_without_ip_are_told_by_their_stations() {
    let stations = |id: Option<Told>| match id {
        Some(Told(Some(Addresses::Stations(src, dst)), 0, None, qp)) => {
            (src.address, dst.address, src.vid, qp)
        }
        other => panic!("{other:?}"),
    };
    let mut arp = vec![0xff; 6];
    arp.extend([2, 0, 0, 0, 0, 1, 0x81, 0, 0x20, 5, 8, 6]);
    arp.extend([0; 46]);
    let standard = Profile::standard();
    assert_eq!(stations(told(&standard, &arp)), (0x0200_0000_0001, 0xffff_ffff_ffff, 5, None));
    // An IP header that contradicts itself is none.
    let mut broken = ipv4(17, 0, &datagram(4791, &BTH));
    broken[16] = 0xff;
    assert_eq!(stations(told(&standard, &broken)).0, 0x0200_0000_0001);
    let mut afh = vec![0x82, 0, 0, 0, 0, 9, 0x0c, 0, 0, 0, 0, 7, 0x88, 0xb5];
    afh.extend(0x0000_0000_0000_0123u64.to_be_bytes());
    afh.extend([0; 40]);
    let gen2 = Profile::afh_gen2_16b(Variant::Public);
    assert_eq!(stations(told(&gen2, &afh)), (7, 9, 0, Some(0x123)));
    // A format that knows no transport has no queue pair.
    let none = FormatSpec { transport: Transport::None, ..FormatSpec::afh_gen2_16b(Variant::Public) };
    assert_eq!(stations(told(&Profile::new(&none).unwrap(), &afh)).3, None);
}

/// Any bytes at all: no panic, and what is told does not depend on where it was seen.
#[test]
fn any_bytes_have_a_flow_or_none() {
    let mut rng = Rng::new(11);
    let good = ipv4(17, 0, &datagram(4791, &BTH));
    let profiles = [
        Profile::standard(),
        Profile::standard_rclink(),
        Profile::afh_gen1(),
        Profile::afh_lite(Variant::Public),
    ];
    for round in 0..40_000 {
        let mut bytes = good.clone();
        bytes.truncate(rng.next_u32() as usize % (bytes.len() + 1));
        for _ in 0..round % 5 {
            let at = rng.next_u32() as usize % bytes.len().max(1);
            if let Some(byte) = bytes.get_mut(at) {
                *byte = rng.next_u32() as u8;
            }
        }
        for profile in &profiles {
            let Some(id) = profile.flow_id(&bytes, bytes.len() + round % 3) else { continue };
            let reason = Some(crate::drops::DropReason::ALL[round % crate::drops::DROP_REASONS]);
            let place = Where { in_port: rng.next_u32() as u16, priority: round as u8 % 8, reason };
            let seen = id.at(place);
            assert_eq!((seen.place(), seen.anywhere()), (place, id));
            assert_eq!((seen.addresses(), seen.qp()), (id.addresses(), id.qp()));
        }
    }
    assert_eq!(FlowId::default().addresses(), None);
}

#[test]
fn names_say_what_there_is() {
    let text = |id: FlowId| id.to_string();
    let with = |word: u64, ports: u64| text(FlowId([word, ports, 0x0a00_0001, 0, 0x0a00_0002, 0]));
    assert_eq!(with(2, 0), "10.0.0.1 -> 10.0.0.2");
    assert_eq!(with(2 | 1 << 8, 0), "10.0.0.1 -> 10.0.0.2 icmp");
    assert_eq!(with(2 | 4 | 6 << 8, 80 << 16 | 1024), "10.0.0.1:1024 -> 10.0.0.2:80 tcp");
    let v6 = FlowId([3 | 4 | 17 << 8, 53 << 16 | 9, 1, 0xfd << 56, 2, 0xfd << 56]);
    assert_eq!(text(v6), "[fd00::1]:9 -> [fd00::2]:53 udp");
    assert_eq!(text(FlowId([2 | 8 | 132 << 8, 0x1a << 32, 1, 0, 2, 0])), "0.0.0.1 -> 0.0.0.2 QP 0x1a");
    // Ways of one queue pair are of several source ports.
    let way = |port: u64| with(2 | 4 | 8 | 17 << 8, 0x1a << 32 | 4791 << 16 | port);
    assert_eq!(
        [way(49_152), way(7)],
        ["10.0.0.1:49152 -> 10.0.0.2 QP 0x1a", "10.0.0.1:7 -> 10.0.0.2 QP 0x1a"]
    );
    let stations = FlowId([1, 0, 1 << 60 | 0x0200_0000_0001, 0, 3 << 60 | 0x1f, 0]);
    assert_eq!(text(stations), "02:00:00:00:00:01 -> 0x1f");
    assert_eq!(text(FlowId::default()), "unknown -> unknown");
    assert_eq!(with(2 | 132 << 8, 0), "10.0.0.1 -> 10.0.0.2 sctp");
    assert_eq!(with(2 | 200 << 8, 0), "10.0.0.1 -> 10.0.0.2 protocol 200");
}
