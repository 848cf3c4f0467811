//! One port: what it makes of LACPDUs and of silence, and when it speaks.

use super::*;
use crate::lacp::frame::SystemId;
use weir_dataplane::types::Mac;

pub(super) fn info(system: u8, port: u16) -> PortInfo {
    PortInfo {
        system: SystemId { priority: 0xffff, mac: Mac([2, 0, 0, 0, 0, system]) },
        key: 1,
        port_priority: 0x8000,
        port,
        state: State::default(),
    }
}

fn settings(active: bool, fast: bool) -> PortSettings {
    PortSettings { actor: info(1, 1), active, fast }
}

/// What a partner says that knows of us, with this state.
fn says(state: u8, of_us: &Port) -> Lacpdu {
    Lacpdu { actor: PortInfo { state: State(state), ..info(2, 9) }, partner: of_us.actor() }
}

const IN_STEP: u8 = 0b0000_1101;
const COLLECTS: u8 = 0b0001_1101;

/// A port whose link is up at 0, and that is selected.
struct Bench {
    port: Port,
    selected: bool,
    sent: Vec<u64>,
}

impl Bench {
    fn new(active: bool, fast: bool) -> Self {
        Self::of(active, fast, true)
    }

    fn of(active: bool, fast: bool, selected: bool) -> Self {
        let mut bench = Self { port: Port::new(settings(active, fast)), selected, sent: vec![] };
        bench.tick(0);
        bench
    }

    fn tick(&mut self, now: u64) {
        self.port.look(true, now);
        self.port.step(self.selected, now);
        if self.port.is_due(now) {
            self.sent.push(now);
            self.port.has_tried(true, now);
        }
    }

    fn run(&mut self, times: std::ops::Range<u64>) -> Vec<u64> {
        self.sent.clear();
        times.step_by(20).for_each(|now| self.tick(now));
        std::mem::take(&mut self.sent)
    }

    fn hear(&mut self, state: u8, now: u64) {
        let pdu = says(state, &self.port);
        self.port.take(&pdu, now);
        self.tick(now);
    }

    /// What is known and whether it carries frames.
    fn is(&self) -> (Receive, Mux) {
        (self.port.receive(), self.port.mux())
    }
}

#[test]
fn frames_are_taken_and_sent_when_both_ends_are_ready() {
    let mut b = Bench::new(true, true);
    assert_eq!(b.is(), (Receive::Expired, Mux::Waiting));
    b.hear(0b0000_0101, 500);
    assert_eq!(b.is(), (Receive::Current, Mux::Waiting));
    // Whoever comes is somebody else than nobody: the wait begins anew.
    b.run(520..2_500);
    assert_eq!(b.port.mux(), Mux::Waiting);
    b.tick(2_500);
    assert_eq!(
        (b.is(), b.port.actor().state.to_string()),
        ((Receive::Current, Mux::Attached), "ATGS----".into())
    );
    // The partner attaches its end, then takes frames; and goes back the same way.
    for (state, mux) in [
        (IN_STEP, Mux::Collecting),
        (COLLECTS, Mux::Distributing),
        (IN_STEP, Mux::Collecting),
        (0b0001_0101, Mux::Attached),
        (COLLECTS, Mux::Distributing),
    ] {
        b.hear(state, 2_600);
        assert_eq!(b.port.mux(), mux, "{state:08b}");
    }
    b.selected = false;
    b.tick(2_700);
    assert_eq!((b.port.mux(), b.port.actor().state.to_string()), (Mux::Detached, "ATG-----".into()));
}

#[test]
fn a_partner_is_in_step_only_if_it_means_this_port() {
    let at = |change: fn(&mut Lacpdu)| {
        let mut b = Bench::new(true, false);
        b.hear(IN_STEP, 10);
        b.run(20..2_100);
        b.hear(COLLECTS, 2_100);
        let mut pdu = says(COLLECTS, &b.port);
        change(&mut pdu);
        b.port.take(&pdu, 2_110);
        b.tick(2_110);
        b.port.mux()
    };
    assert_eq!(at(|_| {}), Mux::Distributing);
    // It answers somebody else: the cable has been moved behind a converter.
    assert_eq!(at(|pdu| pdu.partner.port = 2), Mux::Attached);
    assert_eq!(at(|pdu| pdu.partner.system.mac.0[5] = 7), Mux::Attached);
    assert_eq!(at(|pdu| pdu.partner.key = 2), Mux::Attached);
    assert_eq!(at(|pdu| pdu.partner.state = State::default()), Mux::Attached);
    // Another one speaks: what was attached was so to the one before.
    assert_eq!(at(|pdu| pdu.actor.system.mac.0[5] = 3), Mux::Waiting);
    assert_eq!(at(|pdu| pdu.actor.port = 10), Mux::Waiting);
    // Neither end would speak unasked: nobody would notice that the other one is gone.
    let mut passive = Bench::new(false, false);
    passive.hear(IN_STEP & !1, 10);
    passive.run(20..3_000);
    assert_eq!(passive.port.mux(), Mux::Attached);
    // A link that the partner has for one of its own.
    assert_eq!(
        at(|pdu| {
            pdu.actor.state = State(COLLECTS).with(State::AGGREGATION, false);
            pdu.partner.state = State::default();
        }),
        Mux::Distributing
    );
}

#[test]
fn silence_is_noticed_after_three_lacpdus() {
    for (fast, timeout) in [(true, 3_000), (false, 90_000)] {
        let mut b = Bench::new(true, fast);
        b.hear(COLLECTS, 1_000);
        b.run(1_020..1_000 + timeout);
        b.tick(1_000 + timeout - 1);
        assert_eq!(b.port.receive(), Receive::Current, "{fast}");
        b.tick(1_000 + timeout);
        assert_eq!(b.is(), (Receive::Expired, Mux::Attached));
        assert!(b.port.partner().is_some() && b.port.actor().state.has(State::EXPIRED));
        b.tick(1_000 + timeout + 2_999);
        assert_eq!(b.port.receive(), Receive::Expired);
        b.tick(1_000 + timeout + 3_000);
        assert_eq!((b.port.receive(), b.port.partner()), (Receive::Defaulted, None));
        assert!(b.port.actor().state.has(State::DEFAULTED));
        b.hear(COLLECTS, 200_000);
        assert_eq!(b.port.receive(), Receive::Current);
    }
    let mut b = Bench::new(true, true);
    b.hear(COLLECTS, 10);
    b.port.look(false, 20);
    assert_eq!((b.port.receive(), b.port.partner()), (Receive::PortDisabled, None));
    b.port.take(&says(COLLECTS, &b.port), 30);
    assert_eq!(b.port.receive(), Receive::PortDisabled, "what was still on its way");
}

#[test]
fn the_partner_says_how_often_it_is_spoken_to() {
    // At first nobody is there: fast, for whoever comes soon knows us; then slowly.
    let mut b = Bench::of(true, false, false);
    assert_eq!(b.sent, [0]);
    let alone = b.run(20..93_000);
    assert_eq!(alone, [1_000, 2_000, 3_000, 33_000, 63_000], "{alone:?}");
    // One that is in a hurry is answered at once, and every second.
    b.hear(0b0000_0111, 95_000);
    assert_eq!(b.sent, [95_000]);
    assert_eq!(b.run(95_020..98_010), [96_000, 97_000, 98_000]);
    // A passive port is silent until it is spoken to, and so are two of them for ever.
    let mut b = Bench::of(false, true, false);
    assert_eq!((b.run(0..200_000), b.sent.len()), (vec![], 0));
    b.hear(0b0000_0100, 200_000);
    assert_eq!(b.run(200_020..202_000), Vec::<u64>::new());
    b.hear(0b0000_0111, 203_000);
    assert_eq!(b.run(203_020..204_010), [204_000]);
}

#[test]
fn a_partner_that_flaps_gets_no_more_than_three_a_second() {
    let mut b = Bench::new(true, true);
    b.run(20..10_000);
    b.sent.clear();
    for now in (10_000..20_000).step_by(20) {
        b.hear(if now % 40 == 0 { COLLECTS } else { 0b0000_0101 }, now);
    }
    assert!((20..=30).contains(&b.sent.len()), "{}", b.sent.len());
    assert!(b.sent.windows(4).all(|four| four[3] - four[0] >= FAST_PERIODIC));
    // A link that takes nothing is tried as often.
    let mut tries = 0;
    for now in (30_000..31_000).step_by(20) {
        b.hear(0b0000_0101, now);
        b.port.look(true, now);
        b.port.step(now % 40 == 0, now);
        if b.port.is_due(now) {
            tries += 1;
            b.port.has_tried(false, now);
        }
    }
    assert!(tries <= 3, "{tries}");
}

#[test]
fn other_settings_are_told_and_another_identity_begins_anew() {
    let mut b = Bench::new(true, true);
    b.hear(IN_STEP, 10);
    b.run(20..2_100);
    b.hear(COLLECTS, 2_100);
    b.run(2_120..4_000);
    b.hear(COLLECTS, 4_000);
    b.port.configure(settings(true, true));
    assert!(!b.port.is_due(4_001));
    b.port.configure(settings(true, false));
    assert!(b.port.is_due(4_001) && b.port.mux() == Mux::Distributing);
    b.port.configure(PortSettings { actor: info(1, 2), ..settings(true, false) });
    assert_eq!(b.is(), (Receive::PortDisabled, Mux::Detached));
}
