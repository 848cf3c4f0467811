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
