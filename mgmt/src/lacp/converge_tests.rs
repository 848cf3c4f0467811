//! Two LAGs with a lossy link between each pair of ports: whatever is lost, delayed or pulled, they agree once nothing is any more.

use super::frame::{PortInfo, SystemId, decode};
use super::{Group, GroupSettings, Mux, PortSettings, Slow, State};
use weir_dataplane::rng::Rng;
use weir_dataplane::types::Mac;

const PORTS: usize = 4;
const TICK: u64 = 20;

/// A frame on its way: when it arrives, at which end and port.
type OnItsWay = (u64, usize, usize, Vec<u8>);

struct Bench {
    ends: [Group; 2],
    /// Port at the other end of each port of the first.
    cables: [usize; PORTS],
    up: [bool; PORTS],
    on_their_way: Vec<OnItsWay>,
    rng: Rng,
    now: u64,
}

fn mac(end: usize) -> Mac {
    Mac([2, 0, 0, 0, 0, end as u8 + 1])
}

impl Bench {
    fn new(seed: u64, active: [bool; 2], settings: GroupSettings) -> Self {
        let mut rng = Rng::new(seed);
        let mut end = |end: usize| {
            let fast = rng.next_u32() & 1 == 0;
            let port = |port: usize| PortSettings {
                actor: PortInfo {
                    system: SystemId { priority: 0xffff, mac: mac(end) },
                    key: 7 + end as u16,
                    port_priority: 0x8000,
                    port: port as u16 + 1,
                    state: State::default(),
                },
                active: active[end],
                fast,
            };
            Group::new(settings, (0..PORTS).map(port))
        };
        let ends = [end(0), end(1)];
        let first = rng.next_u32() as usize;
        Self {
            ends,
            cables: std::array::from_fn(|port| (port + first) % PORTS),
            up: [true; PORTS],
            on_their_way: Vec::new(),
            rng,
            now: 0,
        }
    }

    /// For so many ms, with one of `lost` frames lost (0: none).
    fn run(&mut self, ms: u64, lost: u32) {
        for _ in 0..ms / TICK {
            self.tick(lost);
            for port in 0..PORTS {
                self.check(port);
            }
        }
    }

    fn tick(&mut self, lost: u32) {
        let Self { ends, cables, up, on_their_way, rng, now } = self;
        let arrived: Vec<OnItsWay> = on_their_way.extract_if(.., |frame| frame.0 <= *now).collect();
        for (_, end, port, bytes) in arrived {
            let Ok(Slow::Lacp(pdu)) = decode(&bytes) else { panic!("{bytes:x?}") };
            ends[end].ports[port].take(&pdu, *now);
        }
        for (end, group) in ends.iter_mut().enumerate() {
            let cable = |port: usize| match end {
                0 => port,
                _ => cables.iter().position(|to| *to == port).unwrap(),
            };
            group.tick(&|port| up[cable(port)], *now);
            for (i, port) in group.ports.iter_mut().enumerate() {
                if !port.is_due(*now) {
                    continue;
                }
                port.has_tried(true, *now);
                let is_lost = lost > 0 && rng.next_u32().is_multiple_of(lost);
                if up[cable(i)] && !is_lost {
                    let there = if end == 0 { cables[i] } else { cable(i) };
                    let arrives = *now + u64::from(rng.next_u32() % 200);
                    on_their_way.push((arrives, 1 - end, there, port.pdu().encode(mac(end))));
                }
            }
        }
        *now += TICK;
    }

    /// Who sends has been told that the other end takes frames.
    fn check(&self, port: usize) {
        for (end, port) in [(0, port), (1, self.cables[port])] {
            let port = &self.ends[end].ports[port];
            let told = port.partner().is_some_and(|partner| partner.state.has(State::COLLECTING));
            assert!(port.mux() != Mux::Distributing || told, "{port:?}");
        }
    }

    fn sending(&self) -> [usize; 2] {
        let sends = |group: &Group| group.ports.iter().filter(|port| port.mux() == Mux::Distributing).count();
        [sends(&self.ends[0]), sends(&self.ends[1])]
    }
}

/// Both ends have every cable that is up in use, and no other, a while after the last loss: the time both may need to notice, at the slow
/// rate, and to speak again.
const SETTLED: u64 = 200_000;

#[test]
fn two_ends_agree_whatever_was_lost() {
    bolero::check!().with_iterations(60).with_type::<u64>().for_each(|seed| {
        let mut rng = Rng::new(!*seed);
        let one_active = rng.next_u32() & 1 == 0;
        let settings = GroupSettings { min_links: 1 + rng.next_u32() as usize % 3, fallback: false };
        let mut b = Bench::new(*seed, [true, one_active], settings);
        for _ in 0..1 + rng.next_u32() % 4 {
            b.run(u64::from(rng.next_u32() % 40_000), 1 + rng.next_u32() % 4);
            b.up[rng.next_u32() as usize % PORTS] ^= true;
        }
        b.run(SETTLED, 0);
        let up = b.up.iter().filter(|up| **up).count();
        let wanted = if up < settings.min_links { 0 } else { up };
        assert_eq!(b.sending(), [wanted; 2], "{:?} of {up}", b.up);
        // And they stay so.
        b.run(SETTLED, 0);
        assert_eq!(b.sending(), [wanted; 2]);
        // One frame of ten is lost: with three to each timeout hardly anything is noticed, and it mends itself.
        b.run(100_000, 10);
        b.run(SETTLED, 0);
        assert_eq!(b.sending(), [wanted; 2]);
    });
}

#[test]
fn two_passive_ends_carry_nothing() {
    let mut b = Bench::new(3, [false; 2], GroupSettings { min_links: 1, fallback: false });
    b.run(SETTLED, 0);
    assert_eq!(b.sending(), [0; 2]);
    assert!(b.ends.iter().flat_map(|end| &end.ports).all(|port| port.partner().is_none()));
}

/// Frames that are taken before they are sent, as the ends see it at every instant: with frames at no delay, no end sends to one that does
/// not take.
#[test]
fn who_sends_is_taken_from_at_start() {
    let mut b = Bench::new(5, [true; 2], GroupSettings { min_links: 1, fallback: false });
    for _ in 0..20_000 / TICK {
        b.tick(0);
        for (one, other) in b.cables.into_iter().enumerate() {
            let (one, other) = (b.ends[0].ports[one].mux(), b.ends[1].ports[other].mux());
            assert!(one != Mux::Distributing || other >= Mux::Collecting, "{one:?} {other:?}");
            assert!(other != Mux::Distributing || one >= Mux::Collecting, "{one:?} {other:?}");
        }
    }
    assert_eq!(b.sending(), [PORTS; 2]);
}
