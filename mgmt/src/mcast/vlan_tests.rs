//! Hosts, routers and time.

use super::*;
use std::collections::HashMap;
use weir_dataplane::rng::Rng;

const S: u64 = 1_000;

fn rules() -> Rules {
    Rules {
        fast_leave: false,
        querier: false,
        query_interval: 125 * S,
        response: 10 * S,
        max_groups: 8,
        port_max_groups: 4,
    }
}

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn ports(ports: &[u16]) -> PortSet {
    ports.iter().copied().map(PortId).collect()
}

fn says(group: &str, joins: bool) -> Message {
    let wish = if joins { Wish::Join } else { Wish::Leave };
    Message::Report(vec![Record { group: ip(group), wish }])
}

fn wants_less(group: &str) -> Message {
    Message::Report(vec![Record { group: ip(group), wish: Wish::Less }])
}

fn asks(source: &str, group: Option<&str>) -> Message {
    Message::Query { source: ip(source), group: group.map(ip), of_sources: false, response_ms: S }
}

/// A VLAN, its rules, and the time.
struct Bed {
    vlan: Vlan,
    rules: Rules,
    now: u64,
    down: PortSet,
    asked: Vec<Ask>,
    /// Queries can be sent.
    takes: bool,
}

impl Bed {
    fn new(own: &str, rules: Rules) -> Self {
        Self {
            vlan: Vlan::new(ip(own), 0),
            rules,
            now: 5,
            down: PortSet::EMPTY,
            asked: Vec::new(),
            takes: true,
        }
    }

    fn hear(&mut self, port: u16, message: &Message) -> Took {
        let took = self.vlan.take(PortId(port), message, &self.rules, self.now);
        self.look();
        took
    }

    fn look(&mut self) {
        let down = self.down;
        self.vlan.tick(&self.rules, self.now, &|port| !down.contains(port), &mut |ask| {
            self.asked.push(ask);
            self.takes
        });
    }

    /// So much time passes, a tenth of a second after the other.
    fn wait(&mut self, ms: u64) {
        let end = self.now + ms;
        while self.now < end {
            self.now = (self.now + 100).min(end);
            self.look();
        }
    }

    fn at(&self, group: &str) -> Option<PortSet> {
        self.vlan.ports(mac_of(ip(group)))
    }
}

#[test]
fn what_is_joined_goes_to_members_once_somebody_has_asked_and_they_could_answer() {
    let mut b = Bed::new("0.0.0.0", rules());
    b.hear(1, &says("239.1.2.3", true));
    b.wait(20 * S);
    assert_eq!((b.at("239.1.2.3"), b.vlan.unjoined()), (None, None), "nobody asks: all is flooded");
    b.hear(0, &asks("10.0.0.1", None));
    b.wait(9 * S);
    assert_eq!(b.vlan.unjoined(), None, "others may still answer");
    b.hear(2, &says("239.1.2.3", true));
    b.wait(S);
    assert_eq!((b.at("239.1.2.3"), b.vlan.unjoined()), (Some(ports(&[0, 1, 2])), Some(ports(&[0]))));
    assert_eq!(b.at("239.1.2.4"), None);
    // Another group with the same address.
    b.hear(3, &says("224.129.2.3", true));
    assert_eq!(b.at("239.1.2.3"), Some(ports(&[0, 1, 2, 3])));
    assert_eq!(b.vlan.take_changed(), [mac_of(ip("239.1.2.3"))].into_iter().collect());
    // Who asks is gone after 255 s, and members after 260.
    b.wait(246 * S);
    assert!(b.vlan.querier().is_none() && b.vlan.unjoined().is_none() && b.at("239.1.2.3").is_none());
    assert_eq!(b.vlan.len(), 2);
    b.wait(20 * S);
    assert!(b.vlan.is_empty() && b.vlan.routers().is_empty());
}

#[test]
fn who_leaves_is_asked_for_by_the_switch_if_it_asks_and_others_stay() {
    let mut b = Bed::new("10.0.0.9", Rules { querier: true, ..rules() });
    b.wait(15 * S);
    let general = Ask { port: None, group: None, response: 10 * S };
    assert_eq!(b.asked, [general]);
    [1, 2].iter().for_each(|port| {
        b.hear(*port, &says("239.1.2.3", true));
    });
    b.asked.clear();
    b.hear(1, &says("239.1.2.3", false));
    b.wait(1_500);
    let about = Ask { port: Some(PortId(1)), group: Some(ip("239.1.2.3")), response: S };
    assert_eq!(b.asked, [about; 2]);
    b.hear(1, &says("239.1.2.3", true));
    b.wait(3 * S);
    assert_eq!(b.at("239.1.2.3"), Some(ports(&[1, 2])), "another host behind the port stays");
    b.hear(1, &says("239.1.2.3", false));
    b.wait(2 * S);
    assert_eq!(b.at("239.1.2.3"), Some(ports(&[2])));
    // At once, where that is wanted.
    b.rules.fast_leave = true;
    b.asked.clear();
    b.hear(2, &says("239.1.2.3", false));
    assert_eq!((b.at("239.1.2.3"), b.asked.len()), (None, 0));
    // What cannot be sent is tried again, and nobody is forgotten who was not asked.
    b.rules.fast_leave = false;
    b.takes = false;
    b.hear(2, &says("239.1.2.3", true));
    b.hear(2, &says("239.1.2.3", false));
    b.wait(5 * S);
    assert_eq!(b.at("239.1.2.3"), Some(ports(&[2])));
    b.takes = true;
    b.wait(2_100);
    assert_eq!(b.at("239.1.2.3"), None);
    // A general query at a quarter of the interval, and then at every interval.
    b.asked.clear();
    b.wait(300 * S);
    assert_eq!(b.asked, [general; 3]);
}

#[test]
fn who_leaves_is_asked_for_by_the_router_if_there_is_one() {
    let mut b = Bed::new("0.0.0.0", rules());
    b.hear(0, &asks("10.0.0.1", None));
    b.wait(10 * S);
    [1, 2].iter().for_each(|port| {
        b.hear(*port, &says("239.1.2.3", true));
    });
    b.hear(1, &says("239.1.2.3", false));
    b.wait(5 * S);
    assert_eq!(b.at("239.1.2.3"), Some(ports(&[0, 1, 2])), "nobody has asked yet");
    b.hear(0, &asks("10.0.0.1", Some("239.1.2.3")));
    b.wait(S);
    b.hear(2, &says("239.1.2.3", true));
    b.wait(S);
    assert_eq!((b.at("239.1.2.3"), b.asked.len()), (Some(ports(&[0, 2])), 0));
}

/// A host that included sources and leaves says which it wants no more, and nothing else.
#[test]
fn who_wants_fewer_sources_is_asked_for_and_no_other_member_is_lost() {
    for fast_leave in [false, true] {
        let mut b = Bed::new("10.0.0.9", Rules { querier: true, fast_leave, ..rules() });
        b.wait(15 * S);
        [1, 2].iter().for_each(|port| {
            b.hear(*port, &says("232.7.7.7", true));
        });
        b.asked.clear();
        b.hear(1, &wants_less("232.7.7.7"));
        assert_eq!(b.at("232.7.7.7"), Some(ports(&[1, 2])), "others may want other sources");
        b.wait(1_500);
        let about = Ask { port: Some(PortId(1)), group: Some(ip("232.7.7.7")), response: S };
        assert_eq!(b.asked, [about; 2]);
        b.hear(1, &says("232.7.7.7", true));
        b.wait(3 * S);
        assert_eq!(b.at("232.7.7.7"), Some(ports(&[1, 2])), "it does");
        b.hear(1, &wants_less("232.7.7.7"));
        b.wait(2 * S);
        assert_eq!(b.at("232.7.7.7"), Some(ports(&[2])), "nobody does");
        b.asked.clear();
        b.hear(1, &wants_less("232.7.7.7"));
        assert!(b.asked.is_empty(), "no member is there to ask");
    }
    // A router asks about the sources, and members that want others do not answer.
    let mut b = Bed::new("0.0.0.0", rules());
    b.hear(0, &asks("10.0.0.1", None));
    b.wait(10 * S);
    b.hear(1, &says("232.7.7.7", true));
    b.hear(1, &wants_less("232.7.7.7"));
    let Message::Query { source, group, response_ms, .. } = asks("10.0.0.1", Some("232.7.7.7")) else {
        unreachable!("a query")
    };
    b.hear(0, &Message::Query { source, group, of_sources: true, response_ms });
    b.wait(5 * S);
    assert_eq!((b.at("232.7.7.7"), b.asked.len()), (Some(ports(&[0, 1])), 0));
}

#[test]
fn whoever_has_the_lowest_address_asks() {
    for (own, other, stays) in [
        ("10.0.0.9", "10.0.0.10", true),
        ("10.0.0.9", "10.0.0.8", false),
        ("10.0.0.9", "0.0.0.0", true),
        ("0.0.0.0", "0.0.0.0", true),
        ("0.0.0.0", "10.0.0.1", false),
        ("fe80::5", "fe80::4", false),
        ("fe80::5", "fe80::6", true),
    ] {
        let mut b = Bed::new(own, Rules { querier: true, ..rules() });
        b.look();
        b.hear(3, &asks(other, None));
        assert_eq!(b.vlan.is_querier(), stays, "{own} {other}");
        b.wait(254 * S);
        assert_eq!(b.vlan.is_querier(), stays);
        b.wait(2 * S);
        assert!(b.vlan.is_querier() && b.vlan.querier().is_none(), "the other one has gone");
        assert_eq!(b.vlan.unjoined(), Some(ports(&[3])), "without a break");
        b.wait(5 * S);
        assert_eq!(b.vlan.unjoined(), Some(PortSet::EMPTY));
    }
    let mut b = Bed::new("0.0.0.0", rules());
    b.hear(1, &asks("10.0.0.7", None));
    b.hear(2, &asks("10.0.0.9", None));
    assert_eq!(b.vlan.querier().unwrap().port, PortId(1));
    b.hear(3, &asks("10.0.0.5", None));
    assert_eq!(b.vlan.querier().unwrap().port, PortId(3));
    b.hear(4, &Message::Hello(IpVersion::V4));
    assert_eq!(b.vlan.routers(), ports(&[1, 2, 3, 4]));
}

#[test]
fn what_was_behind_a_link_that_is_lost_is_gone_with_it() {
    let mut b = Bed::new("0.0.0.0", rules());
    b.hear(0, &asks("10.0.0.1", None));
    b.hear(4, &Message::Hello(IpVersion::V4));
    b.wait(10 * S);
    [1, 2].iter().for_each(|port| {
        b.hear(*port, &says("239.1.2.3", true));
    });
    b.down = ports(&[1, 4]);
    b.look();
    assert_eq!((b.at("239.1.2.3"), b.vlan.unjoined()), (Some(ports(&[0, 2])), Some(ports(&[0]))));
    b.down = ports(&[0]);
    b.look();
    assert_eq!((b.at("239.1.2.3"), b.vlan.unjoined()), (None, None));
}

#[test]
fn there_is_room_for_so_many_groups_of_a_port_and_of_a_vlan() {
    let mut b = Bed::new("0.0.0.0", rules());
    let join = |b: &mut Bed, port: u16, n: u16| b.hear(port, &says(&format!("239.9.9.{n}"), true)).refused;
    assert_eq!((0..6).map(|n| join(&mut b, 1, n)).sum::<u64>(), 2);
    assert_eq!((2..6).map(|n| join(&mut b, 2, n)).sum::<u64>(), 0);
    assert_eq!((6..10).map(|n| join(&mut b, 3, n)).sum::<u64>(), 2, "eight are there");
    assert_eq!((0..2).map(|n| join(&mut b, 3, n)).sum::<u64>(), 0, "another port of one that is there");
    b.rules.fast_leave = true;
    b.hear(1, &says("239.9.9.1", false));
    b.hear(3, &says("239.9.9.1", false));
    assert_eq!(join(&mut b, 1, 20), 0, "what leaves makes room");
    assert_eq!(b.hear(1, &says("224.0.0.251", true)).for_all, 1);
    assert_eq!(b.vlan.len(), 8);
}

/// Whatever is heard and whenever: no limit is exceeded, counts are those of what is there, members that said so last and in time are
/// there, those that said nothing for long are not, and every address whose ports have changed was named.
#[test]
fn whatever_is_said_what_is_known_follows_from_it() {
    bolero::check!().with_type::<(u64, u8)>().for_each(|(seed, steps)| {
        let mut rng = Rng::new(*seed);
        let querier = rng.next_u32() & 1 == 0;
        let rules = Rules {
            querier,
            fast_leave: rng.next_u32() & 1 == 0,
            max_groups: 6,
            port_max_groups: 3,
            ..rules()
        };
        let mut b = Bed::new("10.0.0.5", rules);
        let mut told: HashMap<Mac, PortSet> = HashMap::new();
        // When a port has last joined a group that there was room for.
        let mut joined: HashMap<(u16, IpAddr), u64> = HashMap::new();
        for _ in 0..*steps {
            let port = (rng.next_u32() % 4) as u16;
            let group = format!("{}.1.1.{}", [239, 238][rng.next_u32() as usize % 2], rng.next_u32() % 5);
            match rng.next_u32() % 13 {
                0..4 => {
                    if b.hear(port, &says(&group, true)).refused == 0 {
                        joined.insert((port, ip(&group)), b.now);
                    }
                }
                4 => {
                    b.hear(port, &says(&group, false));
                    joined.remove(&(port, ip(&group)));
                }
                5 => {
                    b.hear(port, &asks(["10.0.0.4", "10.0.0.6"][rng.next_u32() as usize % 2], None));
                }
                6 => {
                    b.hear(port, &asks("10.0.0.4", Some(&group)));
                    joined.retain(|(_, of), _| *of != ip(&group));
                }
                7 => {
                    b.hear(port, &Message::Hello(IpVersion::V4));
                }
                8 => {
                    b.down = ports(&[port]);
                    b.look();
                    joined.retain(|(at, _), _| *at != port);
                    b.down = PortSet::EMPTY;
                }
                9 => {
                    b.hear(port, &wants_less(&group));
                    if b.vlan.is_querier() {
                        joined.remove(&(port, ip(&group)));
                    }
                }
                _ => b.wait(u64::from(rng.next_u32() % 40_000)),
            }
            let groups: Vec<_> = b.vlan.groups().map(|(group, ports)| (group, ports.clone())).collect();
            assert_eq!(b.vlan.len(), groups.len());
            assert!(groups.len() <= 6 && groups.iter().all(|(_, ports)| !ports.is_empty()));
            for port in (0..4).map(PortId) {
                let of_port = groups.iter().filter(|(_, ports)| ports.contains_key(&port)).count();
                assert!(of_port <= 3 && b.vlan.of_port.get(&port).copied().unwrap_or(0) == of_port);
            }
            let is_member = |port: u16, group| {
                groups.iter().any(|(of, ports)| *of == group && ports.contains_key(&PortId(port)))
            };
            for ((port, group), at) in &joined {
                assert_eq!(is_member(*port, *group), b.now < at + 260 * S, "{port} {group}");
            }
            // What was told of an address holds until it is named.
            for mac in b.vlan.take_changed() {
                told.remove(&mac);
                if let Some(ports) = b.vlan.ports(mac) {
                    told.insert(mac, ports);
                }
            }
            for mac in groups.iter().map(|(group, _)| mac_of(*group)) {
                assert_eq!(told.get(&mac).copied(), b.vlan.ports(mac));
            }
            assert!(told.iter().all(|(mac, ports)| b.vlan.ports(*mac) == Some(*ports)));
        }
    });
}
