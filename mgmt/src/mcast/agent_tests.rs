//! VLANs, LAGs, configurations that change, and what the tables are told.

use super::*;
use crate::mcast::vlan::Rules;

const S: u64 = 1_000;
const MAC: Mac = Mac([0x01, 0, 0x5e, 1, 2, 3]);

fn settings() -> Settings {
    let ports = |tagged: bool| (0..4).map(|port| VlanPort { port: PortId(port), tagged }).collect();
    let vlan = |vid, tagged| VlanSettings { vid, ports: ports(tagged), configured: BTreeSet::new() };
    Settings {
        vlans: vec![vlan(10, false), vlan(20, true)],
        rules: Rules {
            fast_leave: true,
            querier: true,
            query_interval: 125 * S,
            response: 10 * S,
            max_groups: 8,
            port_max_groups: 4,
        },
        addresses: vec!["10.0.0.9".parse().unwrap(), "fe80::9".parse().unwrap()],
        macs: (1..5).map(|n| Mac([2, 0, 0, 0, 0, n])).collect(),
        // The last two are a LAG.
        known_at: [0, 1, 2, 2].map(PortId).to_vec(),
    }
}

fn key(vid: u16) -> u64 {
    Profile::standard().key(MAC.to_u64(), vid)
}

fn report(kind: u8) -> Vec<u8> {
    // IGMP has the checksum of its own words: 0x1600 or 0x1700, 0xef01 and 0x0203.
    let mut frame = [&MAC.0[..], &[2, 0, 0, 0, 0, 7, 8, 0, 0x45, 0, 0, 28, 0, 0, 0, 0, 1, 2, 0, 0]].concat();
    frame.extend([10, 0, 0, 1, 239, 1, 2, 3, kind, 0, 0, 0, 239, 1, 2, 3]);
    let sum = |bytes: &[u8]| {
        let all: u32 = bytes.chunks(2).map(|two| u32::from(two[0]) << 8 | u32::from(two[1])).sum();
        (!((all & 0xffff) + (all >> 16)) as u16).to_be_bytes()
    };
    let (head, body) = (sum(&frame[14..34]), sum(&frame[34..42]));
    frame[24..26].copy_from_slice(&head);
    frame[36..38].copy_from_slice(&body);
    frame
}

/// All that is told, and sent by each port.
fn step(agent: &mut Agent, now: u64, up: &dyn Fn(usize) -> bool) -> (Vec<Told>, Vec<(usize, Vec<u8>)>) {
    let (mut told, mut sent) = (Vec::new(), Vec::new());
    agent.tick(now, up, &mut |port, frame| {
        sent.push((port, frame));
        port != 1
    });
    agent.tell(&mut |one| {
        told.push(one);
        true
    });
    (told, sent)
}

fn set(ports: &[u16]) -> PortSet {
    ports.iter().copied().map(PortId).collect()
}

#[test]
fn tables_are_told_what_is_new_and_queries_have_the_tag_of_their_vlan() {
    let mut agent = Agent::default();
    agent.configure(settings());
    assert_eq!(step(&mut agent, 0, &|port| port != 0).1.len(), 6, "one VLAN after the other");
    agent.configure(settings());
    let (told, sent) = step(&mut agent, 20, &|port| port != 0);
    assert_eq!(told, [Told::Vlan(10, Some([None; 2])), Told::Vlan(20, Some([None; 2]))]);
    // Two versions, three ports with a link.
    assert_eq!(sent.len(), 6);
    let tagged = |frame: &[u8]| frame[12..16] == [0x81, 0, 0, 20];
    assert_eq!(sent.iter().filter(|(_, frame)| tagged(frame)).count(), 6);
    assert_eq!(agent.reading(0).ports.iter().map(|port| port.not_sent).collect::<Vec<_>>(), [0, 4, 0, 0]);
    assert_eq!(step(&mut agent, 500, &|_| true).1.len(), 0, "again in a second");
    agent.receive(3, 10, &report(0x16), 600);
    let empty = Some(PortSet::EMPTY);
    let (told, _) = step(&mut agent, 10 * S, &|_| true);
    let of_lag = Told::Group(key(10), Some(set(&[2])));
    assert_eq!(told, [Told::Vlan(10, Some([empty; 2])), Told::Vlan(20, Some([empty; 2])), of_lag]);
    assert_eq!(step(&mut agent, 10 * S, &|_| true).0, [of_lag], "it may have been lost");
    // A member of the LAG is enough.
    assert_eq!(step(&mut agent, 10 * S, &|port| port != 3).0, [of_lag]);
    assert_eq!(step(&mut agent, 10 * S, &|port| port < 2).0, [Told::Group(key(10), None)]);
    agent.receive(1, 10, &report(0x16), 10 * S);
    step(&mut agent, 10 * S, &|_| true);
    agent.receive(1, 10, &report(0x17), 10 * S);
    assert_eq!(step(&mut agent, 10 * S, &|_| true).0, [Told::Group(key(10), None)]);
}

#[test]
fn what_finds_no_room_is_told_at_the_next_look() {
    let mut agent = Agent::default();
    agent.configure(settings());
    let mut told = Vec::new();
    let mut once = |agent: &mut Agent| {
        let mut left = 1;
        agent.tell(&mut |one| {
            let taken = left > 0;
            left = 0;
            told.extend(taken.then_some(one));
            taken
        });
    };
    agent.tick(0, &|_| true, &mut |_, _| true);
    (0..3).for_each(|_| once(&mut agent));
    assert_eq!(told, [Told::Vlan(10, Some([None; 2])), Told::Vlan(20, Some([None; 2]))]);
}

#[test]
fn a_configuration_that_changes_keeps_what_it_says_nothing_of() {
    let mut agent = Agent::default();
    agent.configure(settings());
    step(&mut agent, 0, &|_| true);
    agent.receive(1, 10, &report(0x16), 5);
    agent.receive(1, 20, &report(0x16), 5);
    step(&mut agent, 10 * S, &|_| true);
    // A configured group is left alone: whoever has it in its table does not hear of it again but once.
    let mut other = settings();
    other.vlans[0].configured.insert(MAC);
    other.vlans.pop();
    agent.configure(other);
    let (told, _) = step(&mut agent, 11 * S, &|_| true);
    let empty = Some(PortSet::EMPTY);
    assert_eq!(
        told,
        [
            Told::Vlan(10, Some([empty; 2])),
            Told::Vlan(20, None),
            Told::Group(key(10), None),
            Told::Group(key(20), None)
        ]
    );
    assert_eq!(agent.reading(11 * S).vlans[0].groups.len(), 1, "it is known all the same");
    agent.configure(settings());
    let (told, _) = step(&mut agent, 12 * S, &|_| true);
    assert!(told.contains(&Told::Group(key(10), Some(set(&[1])))), "{told:?}");
    agent.configure(Settings::default());
    let (told, sent) = step(&mut agent, 13 * S, &|_| true);
    assert_eq!((told.last(), sent.len()), (Some(&Told::Group(key(10), None)), 0));
    assert!(agent.reading(13 * S).vlans.is_empty());
}

/// Ports of the VLAN where the group has members; tables have it so.
fn members(agent: &mut Agent, vid: u16, now: u64) -> Vec<u16> {
    step(agent, now, &|_| true);
    let reading = agent.reading(now);
    let vlan = reading.vlans.iter().find(|vlan| vlan.vid == vid && vlan.version == IpVersion::V4).unwrap();
    let known: Vec<u16> =
        vlan.groups.iter().flat_map(|group| &group.members).map(|(port, _)| port.0).collect();
    let in_tables = agent.groups.get(&key(vid)).copied();
    assert_eq!(in_tables, Some(set(&known)).filter(|_| !known.is_empty()));
    known
}

#[test]
fn a_configuration_voids_what_was_known_at_ports_that_left_their_vlan_and_nothing_else() {
    let with = |change: &dyn Fn(&mut Settings)| {
        let mut agent = Agent::default();
        agent.configure(settings());
        step(&mut agent, 0, &|_| true);
        for port in [1, 3] {
            agent.receive(port, 10, &report(0x16), 5);
            agent.receive(port, 20, &report(0x16), 5);
        }
        step(&mut agent, 10 * S, &|_| true);
        let mut other = settings();
        change(&mut other);
        agent.configure(other);
        agent
    };
    for change in [
        (&|of: &mut Settings| of.rules.fast_leave = false) as &dyn Fn(&mut Settings),
        &|of| of.rules.port_max_groups = 9,
        &|of| of.rules.max_groups = 1,
        &|of| of.rules.query_interval = 20 * S,
        &|of| of.addresses[0] = "10.0.0.1".parse().unwrap(),
        // A LAG elsewhere.
        &|of| of.known_at[1] = PortId(0),
    ] {
        let mut agent = with(change);
        let elsewhere = u16::from(agent.settings.known_at[1] == PortId(1));
        for vid in [10, 20] {
            assert_eq!(members(&mut agent, vid, 11 * S), [elsewhere, 2], "{:?}", agent.settings);
        }
    }
    // Those of a LAG are behind any of its links, and what was behind a link is behind its LAG.
    let mut apart = with(&|of| of.known_at[3] = PortId(3));
    assert_eq!(members(&mut apart, 10, 11 * S), [1, 2, 3]);
    apart.receive(2, 10, &report(0x17), 11 * S);
    assert_eq!(members(&mut apart, 10, 11 * S), [1, 3]);
    let mut first_left = settings();
    first_left.known_at[3] = PortId(1);
    apart.configure(first_left);
    assert_eq!(members(&mut apart, 10, 12 * S), [1]);
    // A port that has left a VLAN, and a LAG of which one link has.
    let mut agent = with(&|of| of.vlans[0].ports.retain(|of| ![1, 2].contains(&of.port.0)));
    assert_eq!((members(&mut agent, 10, 11 * S), members(&mut agent, 20, 11 * S)), (vec![2], vec![1, 2]));
    agent.configure(settings());
    assert_eq!(members(&mut agent, 10, 12 * S), [2], "it has been forgotten");
    let mut agent = with(&|of| drop(of.vlans.remove(0)));
    agent.configure(settings());
    assert_eq!((members(&mut agent, 10, 11 * S), members(&mut agent, 20, 11 * S)), (vec![], vec![1, 2]));
}

#[test]
fn new_limits_and_intervals_hold_from_then_on() {
    let mut agent = Agent::default();
    agent.configure(settings());
    let ask = |agent: &mut Agent, now: u64| {
        let mut sent = 0;
        agent.tick(now, &|_| true, &mut |_, _| {
            sent += 1;
            true
        });
        sent
    };
    assert_eq!((0..=132).map(|s| ask(&mut agent, s * S)).sum::<u32>(), 2 * 2 * 2 * 4);
    agent.receive(1, 10, &report(0x16), 132 * S);
    let mut other = settings();
    (other.rules.max_groups, other.rules.port_max_groups, other.rules.query_interval) = (1, 0, 10 * S);
    agent.configure(other);
    agent.receive(0, 10, &report(0x16), 132 * S);
    assert_eq!((members(&mut agent, 10, 132 * S), agent.reading(0).ports[0].refused), (vec![1], 1));
    let sent: u32 = (133..=143).map(|s| ask(&mut agent, s * S)).sum();
    assert_eq!(sent, 2 * 2 * 4, "all are asked after the new interval, not the old one");
}

#[test]
fn who_asks_stays_where_it_is() {
    let mut agent = Agent::default();
    agent.configure(settings());
    let from = QuerySource { mac: MAC, address: "10.0.0.1".parse().unwrap(), tag: None };
    agent.receive(3, 10, &query(&from, None, 10_000, 125_000), 0);
    let at = |agent: &Agent| (agent.reading(1).vlans[0].asker, agent.reading(1).vlans[0].routers);
    let other = |port| Asker::Other { address: from.address, port: PortId(port) };
    assert_eq!(at(&agent), (other(2), set(&[2])));
    let mut first_left = settings();
    first_left.known_at[3] = PortId(3);
    first_left.vlans[0].ports.remove(2);
    agent.configure(first_left);
    assert_eq!(at(&agent), (other(3), set(&[3])));
    let mut gone = settings();
    gone.vlans[0].ports.truncate(2);
    agent.configure(gone);
    step(&mut agent, 1, &|_| true);
    assert_eq!(at(&agent), (Asker::Switch, PortSet::EMPTY));
}

#[test]
fn frames_are_counted_by_what_they_are() {
    let mut agent = Agent::default();
    agent.configure(settings());
    let mut bad = report(0x16);
    bad[37] ^= 1;
    agent.receive(1, 10, &bad, 0);
    agent.receive(1, 10, &report(0x16), 0);
    agent.receive(1, 10, &report(0x99), 0);
    agent.receive(1, 99, &report(0x16), 0);
    for (n, address) in [("10.0.0.1", 10), ("10.0.0.2", 11)].into_iter().enumerate() {
        let from = QuerySource { mac: MAC, address: address.0.parse().unwrap(), tag: None };
        agent.receive(0, 10, &query(&from, None, 10_000, 125_000), n as u64);
    }
    let reading = agent.reading(0);
    let want = Counters { reports: 1, other: 1, malformed: [0, 0, 1, 0, 0], ..Counters::default() };
    assert_eq!((reading.ports[1], reading.ports[0].queries), (want, 2));
    let asker = Asker::Other { address: "10.0.0.1".parse().unwrap(), port: PortId(0) };
    assert_eq!((reading.vlans[0].asker, reading.vlans[1].asker), (asker, Asker::Nobody));
}
