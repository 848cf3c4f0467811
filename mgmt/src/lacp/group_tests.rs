//! Which links of a LAG carry frames, with partners that are told what to say.

use super::*;
use crate::lacp::frame::Lacpdu;
use weir_dataplane::types::Mac;

const COLLECTS: u8 = 0b0001_1101;

fn info(system: u8, key: u16, port: u16) -> PortInfo {
    PortInfo {
        system: SystemId { priority: 0xffff, mac: Mac([2, 0, 0, 0, 0, system]) },
        key,
        port_priority: 0x8000,
        port,
        state: State(COLLECTS),
    }
}

/// A LAG of system 1; what is at the other end of each link.
struct Bench {
    group: Group,
    peers: Vec<Option<PortInfo>>,
    up: Vec<bool>,
    now: u64,
}

impl Bench {
    fn new(ports: u16, settings: GroupSettings) -> Self {
        let port = |port| PortSettings { actor: info(1, 1, port), active: true, fast: true };
        Self {
            group: Group::new(settings, (1..=ports).map(port)),
            peers: (1..=ports).map(|port| Some(info(2, 5, port))).collect(),
            up: vec![true; usize::from(ports)],
            now: 0,
        }
    }

    fn with(settings: GroupSettings) -> Self {
        Self::new(4, settings)
    }

    /// For so many ms each peer speaks every 100 ms.
    fn run(&mut self, ms: u64) -> &mut Self {
        for _ in 0..ms / 20 {
            if self.now.is_multiple_of(100) {
                for (port, peer) in self.group.ports.iter_mut().zip(&self.peers) {
                    if let Some(actor) = *peer {
                        port.take(&Lacpdu { actor, partner: port.actor() }, self.now);
                    }
                }
            }
            self.group.tick(&|port| self.up[port], self.now);
            self.now += 20;
        }
        self
    }

    /// Why each port does not send, in order.
    fn why(&self) -> Vec<&'static str> {
        (0..self.group.ports.len()).map(|port| self.group.why(port).word()).collect()
    }
}

const PLAIN: GroupSettings = GroupSettings { min_links: 1, fallback: false };

#[test]
fn links_to_one_partner_carry_frames() {
    let mut b = Bench::with(PLAIN);
    assert_eq!(b.run(1_000).why(), ["waiting"; 4]);
    assert_eq!(b.run(2_000).why(), [""; 4]);
    assert_eq!(b.group.partner(), Some((info(2, 5, 0).system, 5)));
    b.up[1] = false;
    assert_eq!(b.run(20).why(), ["", "link_down", "", ""]);
    b.up[1] = true;
    assert_eq!(b.run(3_000).why(), [""; 4]);
    // One falls silent: it is out as soon as that is noticed.
    b.peers[2] = None;
    assert_eq!(b.run(3_200).why(), ["", "", "partner_not_in_sync", ""]);
    assert_eq!(b.run(3_200).why(), ["", "", "no_partner", ""]);
    b.peers[3] = Some(PortInfo { state: State(COLLECTS).with(State::COLLECTING, false), ..info(2, 5, 4) });
    assert_eq!(b.run(200).why(), ["", "", "no_partner", "partner_not_collecting"]);
}

#[test]
fn a_cable_to_somebody_else_carries_nothing() {
    let mut b = Bench::with(PLAIN);
    b.peers[0] = Some(info(3, 5, 1));
    b.peers[1] = Some(info(2, 6, 2));
    b.peers[2] = Some(info(1, 1, 4));
    // One link each to system 2, key 5, to its key 6 and to system 3: the first in the configuration is chosen.
    assert_eq!(b.run(4_000).why(), ["", "other_partner", "loop", "other_partner"]);
    // More links decide, and as many do not.
    b.peers[2] = Some(info(2, 5, 3));
    assert_eq!(b.run(4_000).why(), ["other_partner", "other_partner", "", ""]);
    b.peers[1] = Some(info(3, 5, 2));
    assert_eq!(b.run(4_000).why(), ["other_partner", "other_partner", "", ""]);
    b.up[2] = false;
    assert_eq!(b.run(4_000).why(), ["", "", "link_down", "other_partner"]);
    // A cable that is moved to another system while it is up leaves at once.
    b.peers[0] = Some(info(4, 5, 1));
    assert_eq!(b.run(200).why(), ["other_partner", "", "link_down", "other_partner"]);
}

#[test]
fn with_too_few_links_there_is_none() {
    let mut b = Bench::with(GroupSettings { min_links: 3, fallback: true });
    b.peers[0] = None;
    b.up[1] = false;
    assert_eq!(b.run(8_000).why(), ["no_partner", "link_down", "min_links", "min_links"]);
    assert!(b.group.ports.iter().all(|port| !port.actor().state.has(State::SYNC)));
    b.up[1] = true;
    assert_eq!(b.run(4_000).why(), ["no_partner", "", "", ""]);
    b.up[3] = false;
    assert_eq!(b.run(20).why(), ["no_partner", "min_links", "min_links", "link_down"]);
    b.group.configure(
        PLAIN,
        &[1, 2, 3, 4].map(|port| PortSettings { actor: info(1, 1, port), active: true, fast: true }),
    );
    assert_eq!(b.run(4_000).why(), ["no_partner", "", "", "link_down"]);
}

#[test]
fn without_any_partner_one_port_is_fallen_back_to() {
    let mut b = Bench::with(GroupSettings { min_links: 1, fallback: true });
    b.peers = vec![None; 4];
    b.up[0] = false;
    assert_eq!(b.run(2_900).why(), ["link_down", "no_partner", "no_partner", "no_partner"]);
    assert_eq!(b.run(1_000).why(), ["link_down", "waiting", "no_partner", "no_partner"]);
    assert!(!b.group.is_fallback(1), "it carries nothing yet");
    assert_eq!(b.run(1_300).why(), ["link_down", "", "no_partner", "no_partner"]);
    assert!(b.group.is_fallback(1) && b.group.partner().is_none());
    // It stays the same one, until its link goes.
    b.up[0] = true;
    assert_eq!(b.run(6_000).why()[..2], ["no_partner", ""]);
    b.up[1] = false;
    assert_eq!(b.run(6_000).why(), ["", "link_down", "no_partner", "no_partner"]);
    // A partner at any port ends it.
    b.peers[3] = Some(info(2, 5, 4));
    assert_eq!(b.run(100).why(), ["no_partner", "link_down", "no_partner", "waiting"]);
    assert_eq!(b.run(3_000).why(), ["no_partner", "link_down", "no_partner", ""]);
    let mut none = Bench::with(PLAIN);
    none.peers = vec![None; 4];
    assert_eq!(none.run(20_000).why(), ["no_partner"; 4]);
    let mut too_few = Bench::with(GroupSettings { min_links: 2, fallback: true });
    too_few.peers = vec![None; 4];
    assert_eq!(too_few.run(20_000).why(), ["no_partner"; 4]);
}

#[test]
fn links_that_the_partner_does_not_aggregate_are_one_at_most() {
    let mut b = Bench::with(PLAIN);
    let alone =
        |port| Some(PortInfo { state: State(COLLECTS).with(State::AGGREGATION, false), ..info(2, 5, port) });
    b.peers = (1..=4).map(alone).collect();
    assert_eq!(b.run(4_000).why(), ["", "individual", "individual", "individual"]);
}
