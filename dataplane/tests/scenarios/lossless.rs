//! A lossless class is a matter of the frame: for whatever reason and at whatever stage one is lost, it is counted
//! as lossless; a frame of another class, lost in the same way, never is.

use crate::harness::frames::{host, ipv4, stamp, tagged};
use crate::harness::{Alone, Plan, dscp};
use std::collections::BTreeSet;
use weir_dataplane::classify::Maps;
use weir_dataplane::drops::{DropReason, LosslessLoss, Side};
use weir_dataplane::ecn::{MarkAt, ONE_Q32, Wred};
use weir_dataplane::egress::BATCH_MAX;
use weir_dataplane::frame::{Frame, OwnedFrame};
use weir_dataplane::lag::LagMember;
use weir_dataplane::mmu::{Limit, PoolId};
use weir_dataplane::pfc::watchdog::{Action, WatchdogConfig};
use weir_dataplane::stats::{PortStats, Reasons};
use weir_dataplane::storm_control::{FloodKind, FloodLimit, StormControl};
use weir_dataplane::switch::{Change, Switch, SwitchParams, UnknownUnicast, Wire};
use weir_dataplane::types::{BURST, Burst, Mac, PortId};
use weir_dataplane::vlan::PortVlans;

/// The lossless class, and one that is not. All others of [`Plan::new`] are like the second.
const LOSSLESS: u8 = 3;
const LOSSY: u8 = 0;

const EVERYBODY: Mac = Mac([0xff; 6]);

/// A driver whose ring is full.
struct Full;

impl<F: Frame> Wire<F> for Full {
    fn send(&mut self, _: &mut F::Staged) -> usize {
        0
    }
    fn send_control(&mut self, _: &[u8]) -> bool {
        false
    }
}

/// One case: a switch, or its shards, and what was done to it.
struct Case {
    shards: Vec<Switch<OwnedFrame>>,
    params: SwitchParams,
    class: u8,
    seq: u64,
}

impl Case {
    fn new(class: u8, change: impl FnOnce(&mut SwitchParams)) -> Self {
        let mut params = Plan { headroom: 2000, shared: 20_000, ..Plan::new(4) }.params();
        change(&mut params);
        let shards = usize::from(params.ports.iter().map(|port| port.shard).max().unwrap()) + 1;
        Self { shards: Switch::sharded(&params, shards).unwrap(), params, class, seq: 0 }
    }

    /// An operator switches these ports off, while the switch runs.
    fn switch_off(&mut self, ports: &[usize]) -> &mut Self {
        let mut off = self.params.clone();
        ports.iter().for_each(|port| off.ports[*port].admin_down = true);
        for shard in &mut self.shards {
            shard.apply(&mut Change::between(&self.params, &off).unwrap(), 7).unwrap();
        }
        self.params = off;
        self
    }

    /// Frames of the class arrive on port 0.
    fn send(&mut self, to: Mac, count: u64, len: usize) -> &mut Self {
        for _ in 0..count {
            let mut frame = ipv4(host(0), to, dscp(self.class), 0, len);
            self.seq += 1;
            stamp(&mut frame, 1, self.seq);
            let mut burst: Burst<_> = [OwnedFrame::new(frame)].into_iter().collect();
            self.shards[0].receive(PortId(0), &mut burst, self.seq);
        }
        self
    }

    /// The same with a tag of this VLAN.
    fn send_tagged(&mut self, vid: u16, count: u64) -> &mut Self {
        for _ in 0..count {
            let mut frame = tagged(&ipv4(host(0), host(1), dscp(self.class), 0, 64), 0x8100, self.class);
            frame[14] |= (vid >> 8) as u8;
            frame[15] = vid as u8;
            self.shards[0].receive(PortId(0), &mut [OwnedFrame::new(frame)].into_iter().collect(), 0);
        }
        self
    }

    /// Each shard hears from the others, twice: there and back.
    fn tick(&mut self) -> &mut Self {
        for now in 0..4 {
            self.shards.iter_mut().for_each(|shard| shard.tick(now));
        }
        self
    }

    /// On the shard that owns the port, which is the last one.
    fn with(&mut self, act: impl FnOnce(&mut Switch<OwnedFrame>)) -> &mut Self {
        act(self.shards.last_mut().unwrap());
        self
    }

    fn drain(&mut self) -> &mut Self {
        self.shards.iter_mut().for_each(Switch::drain);
        self
    }

    fn lost(&self) -> [Reasons; 2] {
        let of = |s: &'_ Switch<OwnedFrame>| -> Vec<(u16, PortStats)> {
            let own = (0..s.ports() as u16).filter(|port| s.owns(PortId(*port)));
            own.map(|port| (port, s.stats(PortId(port)).clone())).collect()
        };
        added(self.shards.iter().flat_map(of))
    }
}

/// Frames lost, and those of them of lossless classes. All frames came in by port 0, and were to leave by others.
fn added(ports: impl Iterator<Item = (u16, PortStats)>) -> [Reasons; 2] {
    let mut sums = [Reasons::default(), Reasons::default()];
    for (port, stats) in ports {
        let side = if port == 0 { Side::Arrival } else { Side::Departure };
        for reason in DropReason::ALL.iter().filter(|reason| stats.drops.0[**reason as usize] > 0) {
            assert_eq!(reason.side(), side, "{} at port {port}", reason.name());
        }
        for (sum, counted) in sums.iter_mut().zip([&stats.drops, &stats.lossless]) {
            sum.0.iter_mut().zip(&counted.0).for_each(|(sum, n)| *sum += n);
        }
    }
    sums
}

fn watchdog(big_red_switch: bool) -> WatchdogConfig {
    let (poll, detection, restoration) = (1_000_000, 1_000_000, 1_000_000);
    let (action, recurrence) = (Action::Drop, None);
    WatchdogConfig { queues: 0xff, poll, detection, restoration, action, recurrence, big_red_switch }
}

/// A queue that may hold 5000 bytes.
fn small_queue(class: u8) -> impl Fn(&mut SwitchParams) {
    move |p| {
        let queue = &mut p.mmu.queues[8 + usize::from(class)];
        (queue.limit, queue.pool) = (Limit::fixed(5000), PoolId::Lossy);
    }
}

/// Port 1 belongs to another lcore, which has a transmit queue there or has not.
fn remote(tx_per_lcore: bool) -> impl Fn(&mut SwitchParams) {
    move |p| {
        (p.ports[1].shard, p.ports[1].tx_per_lcore) = (1, tx_per_lcore);
    }
}

/// One change and another.
fn both(one: &dyn Fn(&mut SwitchParams), other: &dyn Fn(&mut SwitchParams)) -> impl Fn(&mut SwitchParams) {
    move |p| {
        one(p);
        other(p);
    }
}

/// Every way to lose a frame of `class`: what it is, and what was counted.
fn losses(class: u8) -> Vec<(&'static str, [Reasons; 2])> {
    let hold = |s: &mut Switch<OwnedFrame>| s.hold_back(PortId(1), 0xff);
    let down = |s: &mut Switch<OwnedFrame>| s.set_link(PortId(1), false, 5);
    let staged = |s: &mut Switch<OwnedFrame>| assert_eq!(s.transmit(PortId(1), BURST, 3, &mut Full), 0);
    let new = || Case::new(class, |_| {});
    let mut found = Vec::new();
    let mut case = |name, case: &Case| found.push((name, case.lost()));

    case(
        "unknown",
        Case::new(class, |p| p.ports[0].unknown_unicast = UnknownUnicast::Drop).send(host(77), 2, 64),
    );
    case(
        "nowhere to flood to",
        new().with(|s| (1..4).for_each(|port| s.set_link(PortId(port), false, 0))).send(EVERYBODY, 2, 64),
    );
    case("to a link that is down", new().with(down).send(host(1), 2, 64));
    case("nowhere but to ports that are off", new().switch_off(&[1, 2, 3]).send(EVERYBODY, 2, 64));
    case("to a port that is off", new().switch_off(&[1]).send(host(1), 2, 64));
    case("queued when the port was switched off", new().with(hold).send(host(1), 3, 64).switch_off(&[1]));
    case(
        "ordered from another lcore when the port was switched off",
        Case::new(class, remote(true))
            .send(host(1), 3, 64)
            .tick()
            .with(staged)
            .tick()
            .switch_off(&[1])
            .tick(),
    );
    case(
        "on its way to another lcore when the port was switched off",
        Case::new(class, remote(false)).send(host(1), 3, 64).switch_off(&[1]).tick(),
    );
    let lacp = |port: usize| Case::new(class, move |p| p.ports[port].lacp = true);
    let told = |member| move |s: &mut Switch<OwnedFrame>| s.set_lag_member(PortId(1), member, 5);
    case("received by a member that LACP has take nothing", lacp(0).send(host(1), 2, 64));
    case("to a member that LACP does not let send", lacp(1).send(host(1), 2, 64));
    case(
        "queued when LACP took the member out",
        lacp(1)
            .with(told(LagMember::Distributing))
            .with(hold)
            .send(host(1), 3, 64)
            .with(told(LagMember::Collecting)),
    );
    case("group full", new().with(hold).send(host(1), 100, 1000));
    case("flooded, group full", new().with(hold).send(EVERYBODY, 100, 1000));
    case("group full of another lcore's", Case::new(class, remote(true)).with(hold).send(host(1), 100, 1000));
    case("queue full", Case::new(class, small_queue(class)).with(hold).send(host(1), 9, 1000));
    case("copies to a full queue", Case::new(class, small_queue(class)).with(hold).send(EVERYBODY, 9, 1000));
    case(
        "queue of another lcore full",
        Case::new(class, both(&remote(true), &small_queue(class))).with(hold).send(host(1), 9, 1000).tick(),
    );
    case(
        "port's share full",
        Case::new(class, |p| {
            p.mmu.queues[8 + usize::from(class)].pool = PoolId::Lossy;
            p.mmu.port_egress_limit[1] = Some(5000);
        })
        .with(hold)
        .send(host(1), 9, 1000),
    );
    case("no slot", Case::new(class, |p| p.frames = 3).with(hold).send(host(1), 9, 64));
    let frame = || OwnedFrame::new(ipv4(host(0), host(1), dscp(class), 0, 64));
    let burst = |s: &mut Switch<OwnedFrame>| {
        s.receive(PortId(0), &mut (0..3 * BATCH_MAX).map(|_| frame()).collect(), 0)
    };
    case("no slot for a pack", Case::new(class, |p| p.frames = 1).with(hold).with(burst));
    case(
        "early",
        Case::new(class, |p| {
            let wred = Wred { kmin: 500, kmax: 500, pmax: ONE_Q32, at: MarkAt::Enqueue };
            p.ports[1].early_drop[usize::from(class)] = Some(wred);
        })
        .with(hold)
        .send(host(1), 3, 1000),
    );
    case("queued when the link went down", new().with(hold).send(host(1), 3, 64).with(down));
    case("with the driver when the link went down", new().send(host(1), 3, 64).with(staged).with(down));
    case(
        "ordered from another lcore when the link went down",
        Case::new(class, remote(true)).send(host(1), 3, 64).tick().with(staged).tick().with(down).tick(),
    );
    case(
        "on its way to another lcore when the link went down",
        Case::new(class, remote(false)).send(host(1), 3, 64).with(down).tick(),
    );
    case("in a storm", Case::new(class, |p| p.watchdog = Some(watchdog(true))).send(host(1), 3, 64));
    case(
        "flushed by the watchdog",
        Case::new(class, |p| p.watchdog = Some(watchdog(false)))
            .send(host(1), 3, 64)
            .with(|s| s.set_watchdog(watchdog(true), 9)),
    );
    // The other lcore does not come to take what is its own.
    case("handed over", Case::new(class, both(&remote(false), &|p| p.frames = 3)).send(host(1), 5, 64));
    case("draining", new().drain().send(host(1), 3, 64));
    case("flooded while draining", new().drain().send(EVERYBODY, 3, 64));
    case("draining, another lcore's port", Case::new(class, remote(true)).drain().send(host(1), 3, 64));
    case("never sent", new().with(hold).send(host(1), 3, 64).with(Switch::abandon));

    // Port 0 is in VLAN 10 without a tag, or with one, port 1 in VLAN `other` with a tag.
    let vlans = |native: bool, other: u16, mtu: usize| {
        Case::new(class, |p| {
            for port in &mut p.ports {
                port.vlans = Some(PortVlans { native: None, members: [10].into_iter().collect() });
            }
            p.ports[0].vlans =
                Some(PortVlans { native: native.then_some(10), members: [10].into_iter().collect() });
            p.ports[1].vlans = Some(PortVlans { native: None, members: [other].into_iter().collect() });
            p.ports[1].mtu = mtu;
            p.stations = vec![(p.ports[0].profile.key(host(1).to_u64(), 10), PortId(1))];
        })
    };
    case("VID 4095", vlans(true, 10, 9216).send_tagged(4095, 2));
    case("of another VLAN", vlans(true, 10, 9216).send_tagged(11, 2));
    case("without a tag", vlans(false, 10, 9216).send(host(1), 2, 64));
    case("to a port that has left the VLAN", vlans(true, 11, 9216).send(host(1), 2, 64));
    case("too long with its tag", vlans(true, 10, 1500).send(host(1), 2, 1498));
    case("too long with its tag, flooded", vlans(true, 10, 1500).send(EVERYBODY, 2, 1498));

    let limited = |kind: FloodKind| {
        Case::new(class, move |p| {
            let mut limits = [None; 3];
            limits[kind as usize] = Some(FloodLimit::Frames(1));
            p.ports[0].storm_control = Some(StormControl { limits, burst: 0 });
        })
    };
    case("too many broadcasts", limited(FloodKind::Broadcast).send(EVERYBODY, 3, 64));
    case("too many for strangers", limited(FloodKind::UnknownUnicast).send(host(77), 3, 64));
    let group = Mac::from_u64(0x0100_5e00_0001);
    case("too many for a group", limited(FloodKind::Multicast).send(group, 3, 64));

    let mut alone: Switch<Alone> = Switch::new(Plan::new(4).params()).unwrap();
    let broadcast = Alone(OwnedFrame::new(ipv4(host(0), EVERYBODY, dscp(class), 0, 64)));
    alone.receive(PortId(0), &mut [broadcast].into_iter().collect(), 0);
    found.push(("no copy", added((0..4).map(|port| (port, alone.stats(PortId(port)).clone())))));
    found
}

#[test]
fn every_loss_of_a_lossless_class_is_counted_as_one() {
    let mut met: BTreeSet<DropReason> = BTreeSet::new();
    for (name, [lost, lossless]) in losses(LOSSLESS) {
        assert!(lost.total() > 0, "{name}: nothing was lost");
        assert_eq!(lossless, lost, "{name}");
        met.extend(DropReason::ALL.iter().filter(|reason| lossless.0[**reason as usize] > 0));
    }
    let possible =
        DropReason::ALL.iter().filter(|reason| !matches!(reason.lossless(), LosslessLoss::Never(_)));
    let missed: Vec<_> =
        possible.filter(|reason| !met.contains(reason)).map(|reason| reason.name()).collect();
    assert!(missed.is_empty(), "made by no case above: {missed:?}");
}

#[test]
fn no_loss_of_another_class_is_counted_as_one() {
    for (name, [lost, lossless]) in losses(LOSSY) {
        assert!(lost.total() > 0, "{name}: nothing was lost");
        assert_eq!(lossless.total(), 0, "{name}");
    }
}

/// What is dropped before it has a class, and what a bridge filters, is no loss of a lossless class, even where group
/// 0, that of frames without a class, is lossless.
#[test]
fn what_has_no_class_or_is_filtered_is_none() {
    let new = || {
        let mut params = Plan { lossless: 0xff, ..Plan::new(2) }.params();
        params.ports[0].mtu = 1514;
        Switch::<OwnedFrame>::new(params).unwrap()
    };
    let plain = |len| ipv4(host(0), host(1), 0, 0, len);
    let with = |at: usize, bytes: &[u8]| {
        let mut frame = plain(64);
        frame[at..at + bytes.len()].copy_from_slice(bytes);
        frame
    };
    for frame in [
        vec![2; 13],
        [&[2; 12][..], &[0x81, 0, 0, 0]].concat(),
        plain(1515),
        with(6, &[1]),
        with(0, &[1, 0x80, 0xc2, 0, 0, 0x0e]),
        with(0, &host(0).0),
    ] {
        let mut s = new();
        s.receive(PortId(0), &mut [OwnedFrame::new(frame)].into_iter().collect(), 0);
        let stats = s.stats(PortId(0));
        assert_eq!((stats.drops.total(), stats.lossless.total()), (1, 0));
        let reason = DropReason::ALL[stats.drops.0.iter().position(|n| *n > 0).unwrap()];
        assert!(matches!(reason.lossless(), LosslessLoss::Never(_)), "{}", reason.name());
    }
}

/// Frames in the control pool belong to the class of control frames.
#[test]
fn a_control_frame_is_of_the_class_of_control_frames() {
    for (control_tc, lossless) in [(LOSSLESS, 2), (LOSSY, 0)] {
        let mut case = Case::new(LOSSY, |p| {
            p.mmu.control = 1000;
            p.mmu.total += 1000;
            p.ports[0].control_pool = true;
            let maps = Maps { control_tc: Some(control_tc), ..Maps::default() };
            p.ports[0].classifier = crate::harness::classifier_of(&maps);
        });
        // CNPs: RoCEv2 (UDP port 4791), BTH opcode 0x81.
        let cnp = || {
            let mut frame = ipv4(host(0), host(1), 48, 0, 74);
            frame[23] = 17;
            frame[36..38].copy_from_slice(&4791u16.to_be_bytes());
            frame[42] = 0x81;
            OwnedFrame::new(frame)
        };
        case.with(|s| {
            s.receive(PortId(0), &mut [cnp(), cnp()].into_iter().collect(), 0);
            let control = s.queue_frames(PortId(1), usize::from(control_tc));
            assert_eq!((control, s.gauges(PortId(0), 0).pg_used), (2, [0; 8]), "in the control pool");
            s.set_link(PortId(1), false, 0);
        });
        let [lost, counted] = case.lost();
        assert_eq!((lost.total(), counted.total()), (2, lossless));
    }
}

/// What an operator takes away is named, and part of no other number; a link that goes as well changes nothing about that.
#[test]
fn drops_of_a_port_that_is_switched_off_are_apart() {
    let mut case = Case::new(LOSSLESS, |p| p.ports[1].shard = 1);
    let down = |s: &mut Switch<OwnedFrame>| s.set_link(PortId(1), false, 9);
    case.with(|s| s.hold_back(PortId(1), 0xff))
        .send(host(1), 3, 64)
        .tick()
        .switch_off(&[1])
        .with(down)
        .tick();
    case.send(host(1), 2, 64);
    let counted = |case: &Case| {
        let of = |s: &Switch<OwnedFrame>, port| s.stats(PortId(port)).clone();
        [of(&case.shards[0], 0), of(&case.shards[1], 1)]
            .map(|stats| (stats.lossless_drops(), stats.lossless_drops_operator()))
    };
    assert_eq!(counted(&case), [(0, 2), (0, 3)]);
    // The other way round: the link was gone before, and the switch was to forward.
    let mut case = Case::new(LOSSLESS, |p| p.ports[1].shard = 1);
    case.with(down).tick().send(host(1), 1, 64).switch_off(&[1]).tick().send(host(1), 1, 64);
    assert_eq!(counted(&case), [(1, 1), (0, 0)]);
}

/// The watchdog drops because the operator told it to: shown apart, and part of no other number.
#[test]
fn drops_of_the_watchdog_are_apart() {
    let mut case = Case::new(LOSSLESS, |p| p.watchdog = Some(watchdog(true)));
    case.send(host(1), 3, 64);
    let stats = case.shards[0].stats(PortId(1));
    assert_eq!((stats.lossless_drops(), stats.lossless_drops_watchdog()), (0, 3));
    case.with(|s| s.set_link(PortId(1), false, 0)).send(host(1), 2, 64);
    let stats = case.shards[0].stats(PortId(0));
    assert_eq!((stats.lossless_drops(), stats.lossless_drops_watchdog()), (2, 0));
}
