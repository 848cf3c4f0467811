//! Neighbours that come, stay, change and go; and what is sent when.

use super::*;
use crate::lldp::fake;
use weir_dataplane::rng::Rng;

const HOST: Mac = Mac([2, 0, 0, 0, 0, 7]);

/// An agent whose links are up, and what it has sent: port and time to live.
struct Bench {
    agent: Agent,
    sent: Vec<(usize, u64, u16)>,
    up: [bool; 2],
    takes: bool,
}

impl Bench {
    fn new() -> Self {
        Self { agent: Agent::new(fake::settings()), sent: Vec::new(), up: [true; 2], takes: true }
    }

    fn tick(&mut self, now: u64) -> bool {
        let Self { agent, sent, up, takes } = self;
        agent.tick(now, &|port| up[port], &mut |port, frame| {
            if *takes {
                sent.push((port, now, decode(&frame).unwrap().pdu.ttl));
            }
            *takes
        })
    }

    /// As the main thread does, every 20 ms.
    fn run(&mut self, times: std::ops::Range<u64>) {
        for now in times.step_by(20) {
            self.tick(now);
        }
    }

    fn hear(&mut self, number: u8, ttl: u16, now: u64) {
        let says = Lldpdu { ttl, ..fake::host(number, 1 << 3) };
        self.agent.receive(0, &says.encode(HOST), now);
    }

    fn known(&self, port: usize) -> PortNeighbours {
        self.agent.reading(0).ports[port].clone()
    }

    /// Who is there, and who has gone why.
    fn names(&self) -> (Vec<String>, Vec<&'static str>) {
        let known = self.known(0);
        let names = known.neighbours.iter().filter_map(|n| n.says.system_name.clone()).collect();
        (names, known.gone.iter().map(|(_, why)| why.word()).collect())
    }
}

#[test]
fn neighbours_stay_as_long_as_they_say() {
    let mut b = Bench::new();
    b.tick(0);
    b.hear(7, 3, 1_000);
    b.hear(8, 120, 1_000);
    assert!(!b.tick(3_999));
    assert_eq!(b.names(), (vec!["host7".into(), "host8".into()], vec![]));
    assert!(b.tick(4_000));
    assert_eq!(b.names(), (vec!["host8".into()], vec!["ttl_expired"]));
    // What is said anew holds anew, and a change is taken over.
    b.agent.receive(0, &fake::host(8, 0).encode(HOST), 100_000);
    b.tick(200_000);
    let known = b.known(0).neighbours;
    assert_eq!((known[0].heard, known[0].frames, known[0].expires), ((1_000, 100_000), 2, 221_000));
    assert_eq!(known[0].says.pfc.unwrap().enable, 0);
    b.hear(8, 0, 200_001);
    b.hear(9, 0, 200_001);
    assert_eq!(b.names(), (vec![], vec!["ttl_expired", "shutdown"]));
    b.hear(8, 120, 200_002);
    b.up[0] = false;
    assert!(b.tick(200_003));
    assert_eq!(b.names(), (vec![], vec!["ttl_expired", "shutdown", "link_down"]));
}

#[test]
fn no_more_is_kept_than_there_is_room_for() {
    let mut b = Bench::new();
    for number in 0..200 {
        b.hear(number, 120, 0);
    }
    let known = b.known(0);
    assert_eq!((known.neighbours.len(), known.counters.too_many), (NEIGHBOURS, 192));
    for number in 0..200 {
        b.hear(number, 0, 1);
        b.hear(number, 120, 1);
    }
    assert_eq!((b.known(0).neighbours.len(), b.known(0).gone.len()), (NEIGHBOURS, GONE));
    b.agent.receive(0, &[0; 60], 2);
    b.agent.receive(9, &[0; 60], 2);
    assert_eq!(b.known(0).counters.malformed, 1);
}

#[test]
fn frames_leave_fast_at_first_and_then_now_and_again() {
    let mut b = Bench::new();
    b.run(0..100_000);
    // Port 1 only receives.
    let times: Vec<u64> = b.sent.iter().map(|(_, now, _)| *now).collect();
    assert!(b.sent.iter().all(|(port, _, ttl)| (*port, *ttl) == (0, 121)));
    assert_eq!(times, [0, 1_000, 2_000, 3_000, 33_000, 63_000, 93_000]);
    // A neighbour that comes is told soon, one that flaps not more than once a second.
    b.sent.clear();
    for now in (100_000..110_000).step_by(20) {
        b.hear(7, if now % 40 == 0 { 120 } else { 0 }, now);
        b.tick(now);
    }
    assert_eq!(b.sent.len(), 10);
    // A link that is down takes nothing; it is told as soon as it is up.
    b.sent.clear();
    b.up[0] = false;
    b.run(110_000..200_000);
    assert_eq!(b.sent, []);
    b.up[0] = true;
    b.tick(200_000);
    assert_eq!(b.sent, [(0, 200_000, 121)]);
    // Whoever does not take a frame is asked again after a second.
    b.takes = false;
    b.run(200_020..203_000);
    assert_eq!(b.known(0).counters.not_sent, 2);
    b.takes = true;
    b.agent.end(&mut |port, frame| {
        b.sent.push((port, 0, decode(&frame).unwrap().pdu.ttl));
        true
    });
    assert_eq!(b.sent[1..], [(0, 0, 0)]);
}

#[test]
fn another_configuration_is_said_at_once() {
    let mut b = Bench::new();
    b.run(0..20_000);
    b.hear(7, 120, 20_000);
    b.run(20_000..30_000);
    b.sent.clear();
    let mut farewells = Vec::new();
    let mut configure = |b: &mut Bench, settings: Settings, now| {
        b.agent.configure(settings, now, &mut |port, frame| {
            farewells.push((port, decode(&frame).unwrap().pdu.ttl));
            true
        });
        b.tick(now);
    };
    configure(&mut b, fake::settings(), 30_000);
    assert_eq!(b.sent, []);
    let mut other = fake::settings();
    other.ports[0].says.max_frame = Some(9220);
    configure(&mut b, other.clone(), 30_001);
    assert_eq!(b.sent, [(0, 30_001, 121)]);
    other.ports[0].mode = LldpMode::Receive;
    configure(&mut b, other.clone(), 40_000);
    assert_eq!((b.names().0.len(), b.sent.len()), (1, 1));
    other.ports[0].mode = LldpMode::Off;
    configure(&mut b, other.clone(), 50_000);
    b.hear(7, 120, 50_001);
    assert_eq!(b.names(), (vec![], vec!["lldp_off"]));
    b.run(50_000..120_000);
    assert_eq!(b.sent.len(), 1);
    assert_eq!(farewells, [(0, 0)]);
}

/// Any bytes at any time, at links that go up and down: bounds hold, and whoever is there has not expired.
#[test]
fn whatever_comes_is_bounded() {
    bolero::check!().with_iterations(300).with_type::<u64>().for_each(|seed| {
        let (mut rng, mut b, mut now) = (Rng::new(*seed), Bench::new(), 0);
        for _ in 0..300 {
            now += u64::from(rng.next_u32() % 2_000);
            match rng.next_u32() % 4 {
                0 => b.up[0] = rng.next_u32() % 8 != 0,
                1 => b.agent.receive(0, &rng.next_u64().to_be_bytes().repeat(8), now),
                _ => b.hear((rng.next_u32() % 20) as u8, (rng.next_u32() % 10) as u16, now),
            }
            b.tick(now);
            let known = b.known(0);
            assert!(known.neighbours.len() <= NEIGHBOURS && known.gone.len() <= GONE);
            assert!(known.neighbours.iter().all(|n| n.expires > now));
            let mut keys: Vec<_> = known.neighbours.iter().map(Neighbour::key).collect();
            keys.sort();
            keys.dedup();
            assert_eq!(keys.len(), known.neighbours.len());
        }
        assert!(b.sent.windows(2).all(|pair| pair[1].1 - pair[0].1 >= 1_000));
    });
}
