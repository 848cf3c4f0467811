//! A switch with a LAG of two ports, and what it says to partners.

use super::*;
use crate::lacp::frame::{Lacpdu, SLOW_PROTOCOLS, State};
use crate::lacp::{GroupSettings, PortSettings};
use weir_dataplane::rng::Rng;
use weir_dataplane::types::Mac;

fn mac(n: u8) -> Mac {
    Mac([2, 0, 0, 0, 0, n])
}

fn info(system: u8, port: u16) -> PortInfo {
    PortInfo {
        system: SystemId { priority: 65535, mac: mac(system) },
        key: 1,
        port_priority: 0x8000,
        port,
        state: State::default(),
    }
}

/// Ports 1 and 3 of the switch.
fn settings() -> Settings {
    let port = |port| PortSettings { actor: info(1, port), active: true, fast: true };
    let lag = LagSettings {
        name: "po1".into(),
        members: vec![PortId(1), PortId(3)],
        group: GroupSettings { min_links: 1, fallback: false },
        ports: vec![port(2), port(4)],
        macs: vec![mac(0x11), mac(0x13)],
    };
    Settings { lags: vec![lag] }
}

#[derive(Default)]
struct Bench {
    agent: Agent,
    sent: Vec<(usize, Vec<u8>)>,
    carried: Vec<(PortId, LagMember)>,
    /// A partner speaks at each of these ports.
    partners: Vec<usize>,
}

impl Bench {
    fn new() -> Self {
        let mut bench = Self::default();
        bench.configure(settings(), 0);
        bench
    }

    fn configure(&mut self, settings: Settings, now: u64) {
        let sent = &mut self.sent;
        self.agent.configure(settings, now, &mut |port, frame| {
            sent.push((port, frame));
            true
        });
    }

    fn hear(&mut self, port: usize, frame: &[u8], now: u64) {
        let sent = &mut self.sent;
        self.agent.receive(port, frame, now, &mut |port, frame| {
            sent.push((port, frame));
            true
        });
    }

    fn run(&mut self, times: std::ops::Range<u64>) {
        for now in times.step_by(20) {
            for port in self.partners.clone() {
                let Some(member) = self.agent.reading().member(port).copied() else { continue };
                let actor = PortInfo { state: State(0x3f), ..info(2, port as u16) };
                self.hear(port, &Lacpdu { actor, partner: member.actor }.encode(mac(9)), now);
            }
            let Self { agent, sent, carried, .. } = self;
            carried.clear();
            agent.tick(
                now,
                &|_| true,
                &mut |port, member| carried.push((port, member)),
                &mut |port, frame| {
                    sent.push((port, frame));
                    true
                },
            );
        }
    }

    /// The last LACPDU sent by a port.
    fn last(&self, port: usize) -> (Mac, Lacpdu) {
        let (_, frame) = self.sent.iter().rev().find(|(at, _)| *at == port).expect("a frame");
        let Ok(Slow::Lacp(pdu)) = decode(frame) else { panic!("{frame:x?}") };
        (Mac(*frame[6..].first_chunk().unwrap()), pdu)
    }
}

#[test]
fn members_carry_what_was_agreed_and_partners_are_told_when_it_ends() {
    let mut b = Bench::new();
    b.partners = vec![1];
    b.run(0..4_000);
    assert_eq!(b.carried, [(PortId(1), LagMember::Distributing), (PortId(3), LagMember::Detached)]);
    let reading = b.agent.reading();
    assert_eq!(reading.lags[0].partner, Some((info(2, 0).system, 1)));
    let [one, other] = reading.lags[0].members[..] else { panic!() };
    assert_eq!((one.mux, one.why, one.partner.unwrap().port), (Mux::Distributing, Why::Sends, 1));
    assert_eq!((other.why, other.partner), (Why::NoPartner, None));
    assert!(reading.member(0).is_none());
    assert_eq!(b.last(1).0, mac(0x11));
    assert_eq!((b.last(1).1.actor.port, b.last(3).1.actor.port), (2, 4));
    // Another rate is told, and costs nothing.
    let mut slow = settings();
    slow.lags[0].ports.iter_mut().for_each(|port| port.fast = false);
    b.configure(slow, 4_000);
    b.run(4_000..4_100);
    assert!(!b.last(1).1.actor.state.has(State::SHORT_TIMEOUT));
    assert_eq!(b.carried[0].1, LagMember::Distributing);
    // Another member is another LAG.
    let mut less = settings();
    less.lags[0].members.pop();
    less.lags[0].macs.pop();
    less.lags[0].ports.pop();
    b.configure(less, 4_100);
    assert!(!b.last(1).1.actor.state.has(State::SYNC), "told at once");
    b.run(4_100..8_000);
    assert_eq!(b.carried, [(PortId(1), LagMember::Distributing)]);
    let Bench { agent, sent, .. } = &mut b;
    agent.end(8_000, &mut |port, frame| {
        sent.push((port, frame));
        true
    });
    assert_eq!(b.last(1).1.actor.state.0 & 0b0011_1000, 0);
    b.configure(Settings::default(), 9_000);
    assert_eq!(b.agent.reading(), LacpReading::default());
}

#[test]
fn markers_are_answered_and_the_rest_is_counted() {
    let mut b = Bench::new();
    let mut marker = Lacpdu::default().encode(mac(9));
    marker[14..20].copy_from_slice(&[2, 1, 1, 16, 0xab, 0xcd]);
    for n in 0..20 {
        b.hear(3, &marker, n * 10);
    }
    assert_eq!(b.sent.len(), usize::from(MARKERS));
    let (port, answer) = b.sent[0].clone();
    assert_eq!((port, &answer[..6], &answer[6..12]), (3, &SLOW_PROTOCOLS.0[..], &mac(0x13).0[..]));
    assert_eq!(answer[14..20], [2, 1, 2, 16, 0xab, 0xcd]);
    b.hear(3, &marker, 1_500);
    assert_eq!(b.sent.len(), 1 + usize::from(MARKERS));
    b.hear(3, &answer, 1_500);
    b.hear(3, &marker[..40], 1_500);
    let mut oam = marker.clone();
    oam[14] = 3;
    b.hear(3, &oam, 1_500);
    // Port 0 is of no LAG.
    b.hear(0, &marker, 1_500);
    let counters = b.agent.reading().member(3).unwrap().counters;
    let wanted = Counters { lacpdus: 0, markers: 21, malformed: 1, unknown: 2, not_sent: 0 };
    assert_eq!(counters, wanted);
}

#[test]
fn a_link_that_takes_nothing_is_tried_again_and_counted() {
    let mut b = Bench::new();
    for now in (0..2_000).step_by(20) {
        b.agent.tick(now, &|_| true, &mut |_, _| {}, &mut |_, _| false);
    }
    let counters = b.agent.reading().member(1).unwrap().counters;
    assert!((3..=6).contains(&counters.not_sent), "{counters:?}");
}

/// Any bytes at any time, at links that go up and down.
#[test]
fn whatever_comes_is_survived() {
    bolero::check!().with_iterations(200).with_type::<u64>().for_each(|seed| {
        let mut rng = Rng::new(*seed);
        let mut b = Bench::new();
        let mut now = 0;
        for _ in 0..400 {
            now += u64::from(rng.next_u32() % 3_000);
            let port = rng.next_u32() as usize % 5;
            let mut frame = Lacpdu { actor: info(2, 7), partner: info(1, 2) }.encode(mac(9));
            for _ in 0..rng.next_u32() % 30 {
                let at = rng.next_u32() as usize % frame.len();
                frame[at] = rng.next_u32() as u8;
            }
            b.hear(port, &frame, now);
            let up = rng.next_u32() & 7 != 0;
            b.agent.tick(now, &|_| up, &mut |_, _| {}, &mut |_, _| true);
            let reading = b.agent.reading();
            assert!(up || reading.lags[0].members.iter().all(|member| member.mux == Mux::Detached));
        }
    });
}
