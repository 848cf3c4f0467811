//! What a switch puts down to flows, against what has become of each frame.

use crate::drops::DropReason;
use crate::ecn::{MarkAt, ONE_Q32, Wred};
use crate::egress::{BatchHeader, VoqOrder};
use crate::flows::{Addresses, Cause, Counted, Epoch, FlowParams, PAUSE_LOOKS, Where};
use crate::frame::{Frame, OwnedFrame};
use crate::mmu::{Admission, Limit, MmuParams, PgParams, PoolId};
use crate::pfc::generate::{self, LastCause};
use crate::rng::Rng;
use crate::switch::Tapped;
use crate::switch::lost::where_lost;
use crate::switch::tests::{assert_conserved, receive, transmit};
use crate::switch::{MirrorParams, MirrorTo, SwitchParams, Tap, TapOrder};
use crate::types::{BURST, Nanos, PRIORITIES, PortId};
use std::collections::BTreeMap;
use std::net::IpAddr;

const FLOWS: FlowParams = FlowParams { sample: 64, epoch: Nanos::MAX };

/// Three ports; class 3 is lossless, with little room; class 0 is lossy; both are marked.
fn params(flows: Option<FlowParams>, order: VoqOrder) -> SwitchParams {
    let mut params = crate::switch::tests::params(3);
    params.mmu = MmuParams::lossy(3, 200_000);
    (params.flows, params.voq) = (flows, order);
    for (i, port) in params.ports.iter_mut().enumerate() {
        let wred = Wred { kmin: 2_000, kmax: 20_000, pmax: ONE_Q32 / 2, at: MarkAt::Dequeue };
        port.mark[0] = Some(Wred { at: MarkAt::Enqueue, ..wred });
        port.mark[3] = Some(wred);
        port.early_drop[0] = Some(Wred { kmin: 30_000, kmax: 60_000, ..wred });
        params.mmu.queues[i * PRIORITIES + 3].pool = PoolId::Lossless;
        params.mmu.pgs[i * PRIORITIES + 3] = PgParams {
            reserved: 4096,
            limit: Limit::fixed(20_000),
            headroom: 8_000,
            xon: 0,
            xon_offset: 3000,
            lossless: true,
        };
    }
    params
}

/// RoCEv2 from 10.0.0.`from` at port 0 or 1 to 10.0.0.9 at port 2, to queue pair `qp`; every third is not ECT.
fn frame(from: u8, qp: u8, class: u8, len: usize) -> OwnedFrame {
    let mut bytes = vec![0; len];
    bytes[..12].copy_from_slice(&[2, 0, 0, 0, 0, 9, 2, 0, 0, 0, 0, from]);
    bytes[12..16].copy_from_slice(&[8, 0, 0x45, class << 5 | if qp % 3 == 2 { 0 } else { 2 }]);
    bytes[16..18].copy_from_slice(&(len as u16 - 14).to_be_bytes());
    bytes[22..24].copy_from_slice(&[64, 17]);
    bytes[26..34].copy_from_slice(&[10, 0, 0, from, 10, 0, 0, 9]);
    bytes[34..38].copy_from_slice(&[0xc0, 0, 0x12, 0xb7]);
    bytes[49] = qp;
    OwnedFrame::new(bytes)
}

type Key = (u8, u8);

/// Which of ours it is.
fn key(bytes: &[u8]) -> Key {
    (bytes[29], bytes[49])
}

fn key_of(flow: &Counted) -> Key {
    let Some(Addresses::Ip(IpAddr::V4(src), _)) = flow.id.addresses() else { panic!("{flow:?}") };
    (src.octets()[3], flow.id.qp().unwrap() as u8)
}

fn counts(epoch: &Epoch, cause: Cause) -> BTreeMap<Key, u64> {
    let mut all = BTreeMap::new();
    epoch.flows[cause as usize].flows().for_each(|flow| {
        assert_eq!(flow.over, 0, "few flows");
        *all.entry(key_of(&flow)).or_default() += flow.count;
    });
    all
}

/// Seeded traffic that overloads port 2, `steps` steps of `step` ns. What left, and what came, by flow; frames marked by flow.
struct Ran {
    switch: Tapped<OwnedFrame>,
    came: BTreeMap<Key, u64>,
    left: BTreeMap<Key, u64>,
    marked: BTreeMap<Key, u64>,
    all: Vec<Vec<u8>>,
}

fn run(params: SwitchParams, steps: u64, step: Nanos) -> Ran {
    let mut switch = Tapped::<OwnedFrame>::observed(params).unwrap();
    // Everybody knows where 9 is.
    let mut hello = frame(9, 0, 0, 100).bytes().to_vec();
    hello[..6].copy_from_slice(&[2, 0, 0, 0, 0, 1]);
    receive(&mut switch, 2, [OwnedFrame::new(hello)], 0);
    for port in 0..2 {
        transmit(&mut switch, port, 0);
    }
    let mut rng = Rng::new(5);
    let mut ran = Ran {
        switch,
        came: BTreeMap::new(),
        left: BTreeMap::new(),
        marked: BTreeMap::new(),
        all: Vec::new(),
    };
    for n in 1..=steps {
        let now = n * step;
        for port in 0..2u16 {
            let count = rng.next_u32() as usize % 24;
            let burst: Vec<_> = (0..count)
                .map(|_| {
                    let random = rng.next_u32();
                    let from = 1 + port as u8 + 2 * (random & 1) as u8;
                    let class = if random >> 8 & 1 == 0 { 0 } else { 3 };
                    frame(from, (random >> 1 & 3) as u8, class, 100 + (random >> 16) as usize % 4 * 300)
                })
                .collect();
            burst.iter().for_each(|f| *ran.came.entry(key(f.bytes())).or_default() += 1);
            receive(&mut ran.switch, port, burst, now);
        }
        let mut tap = crate::switch::tests::Tap::of(BURST);
        ran.switch.transmit(PortId(2), 1 + rng.next_u32() as usize % 14, now, &mut tap);
        for bytes in &tap.frames {
            *ran.left.entry(key(bytes)).or_default() += 1;
            if bytes[15] & 3 == 3 {
                *ran.marked.entry(key(bytes)).or_default() += 1;
            }
        }
        ran.all.extend(tap.frames);
        ran.switch.tick(now);
    }
    ran
}

/// Ten milliseconds a step: each mark and loss is looked at, so all are exact; without recording the same frames leave.
#[test]
fn marks_and_losses_are_put_down_to_the_flows_they_happened_to() {
    for order in [VoqOrder::Fair, VoqOrder::Fifo] {
        let ran = run(params(Some(FLOWS), order), 300, 10_000_000);
        let silent = run(params(None, order), 300, 10_000_000);
        assert!(ran.all == silent.all, "who looks changes nothing");
        assert!(silent.switch.flows(PortId(2)).is_none());
        let Ran { switch, came, left, marked, .. } = ran;
        let epochs: Vec<&Epoch> = (0..3).map(|port| &switch.flows(PortId(port)).unwrap().current).collect();
        let total = |cause: Cause| epochs.iter().map(|epoch| epoch.totals[cause as usize]).sum::<u64>();
        let stats: Vec<_> = (0..3).map(|port| switch.stats(PortId(port))).collect();
        // Marks on departure are those of what left; marks on arrival may still wait.
        let marks = counts(epochs[2], Cause::Mark);
        assert_eq!(total(Cause::Mark), stats.iter().map(|s| s.ecn_marked.iter().sum::<u64>()).sum());
        assert_eq!(marks.values().sum::<u64>(), total(Cause::Mark));
        assert!(marked.values().sum::<u64>() > 500, "{marked:?}");
        for (flow, frames) in &marks {
            let waits = came[flow] - left.get(flow).copied().unwrap_or(0);
            let seen = marked.get(flow).copied().unwrap_or(0);
            assert!((seen..=seen + waits).contains(frames), "{flow:?}: {frames}, {seen}");
        }
        let lost: Vec<_> = (0..3).map(|port| counts(epochs[port], Cause::Drop)).collect();
        let mut gone: BTreeMap<Key, u64> = BTreeMap::new();
        lost.iter().flatten().for_each(|(flow, frames)| *gone.entry(*flow).or_default() += frames);
        assert_eq!(total(Cause::Drop), stats.iter().map(|s| s.drops.total()).sum());
        assert_eq!(gone.values().sum::<u64>(), total(Cause::Drop));
        let losses: Vec<u64> = stats.iter().map(|s| s.drops.total()).collect();
        assert!(losses.iter().all(|frames| *frames > 100), "at every port: {losses:?}");
        let held: u64 = came.iter().map(|(flow, n)| n - gone[flow] - left.get(flow).unwrap_or(&0)).sum();
        assert_eq!(held, switch.held());
        // Each reason and queue by itself.
        for (port, epoch) in epochs.iter().enumerate() {
            let mut reasons = stats[port].drops.clone();
            for flow in epoch.flows[Cause::Drop as usize].flows() {
                reasons.0[flow.id.place().reason.unwrap() as usize] -= flow.count;
            }
            assert_eq!(reasons.total(), 0, "port {port}");
        }
        let pauses = total(Cause::Pause);
        assert!(pauses >= 2 * PAUSE_LOOKS && pauses.is_multiple_of(PAUSE_LOOKS), "{pauses}");
        for (port, epoch) in epochs[..2].iter().enumerate() {
            let groups = epoch.flows[Cause::Pause as usize].flows();
            // Who pauses port 0 came in by it, in the class that was paused.
            groups.for_each(|flow| {
                assert_eq!((flow.id.place().priority, usize::from(flow.id.place().in_port)), (3, port));
                assert_eq!(usize::from(key_of(&flow).0 + 1) % 2, port);
            });
        }
        let depth = epochs[2].totals[Cause::Depth as usize];
        let shown: u64 = epochs[2].flows[Cause::Depth as usize].flows().map(|flow| flow.count).sum();
        assert!(depth > 300 * 10_000 && shown == depth, "{depth} {shown}");
        assert_conserved(&switch);
    }
}

/// A microsecond a step: more happens than can be looked at. Totals stay exact, shares near the truth.
#[test]
fn what_is_too_much_is_sampled_and_totals_are_exact() {
    let Ran { switch, marked, .. } = run(params(Some(FLOWS), VoqOrder::Fair), 20_000, 1_000);
    let epoch = &switch.flows(PortId(2)).unwrap().current;
    let stats = switch.stats(PortId(2));
    assert_eq!(epoch.totals[Cause::Mark as usize], stats.ecn_marked.iter().sum::<u64>());
    assert_eq!(epoch.totals[Cause::Drop as usize], stats.drops.total());
    assert!(epoch.looked[Cause::Mark as usize] * 20 < epoch.totals[Cause::Mark as usize]);
    let all: u64 = marked.values().sum();
    let shown = counts(epoch, Cause::Mark);
    assert!(shown.values().sum::<u64>() <= epoch.totals[Cause::Mark as usize]);
    for (flow, frames) in marked {
        let (is, seen) = (frames as f64 / all as f64, shown[&flow] as f64 / all as f64);
        assert!((is - seen).abs() < 0.05, "{flow:?}: {is} {seen}");
    }
}

/// What waits is told as it is: three quarters of one flow, the rest of another.
#[test]
fn depth_follows_what_waits() {
    let mut params = params(Some(FLOWS), VoqOrder::Fifo);
    params.mmu = MmuParams::lossy(3, 4 << 20);
    (params.frames, params.ports[2].mark, params.ports[2].early_drop) = (4096, [None; 8], [None; 8]);
    let mut switch = Tapped::<OwnedFrame>::observed(params).unwrap();
    let mut hello = frame(9, 0, 0, 100).bytes().to_vec();
    hello[..6].copy_from_slice(&[2, 0, 0, 0, 0, 1]);
    receive(&mut switch, 2, [OwnedFrame::new(hello)], 0);
    let mut rng = Rng::new(8);
    for step in 1..=2000u64 {
        let now = step * 10_000_000;
        let burst = (0..4).map(|n| frame(if n == rng.next_u32() % 4 { 3 } else { 1 }, 1, 0, 400));
        let burst: Vec<_> = burst.collect();
        receive(&mut switch, 0, burst, now);
        switch.tick(now);
        // From here on as much leaves as comes.
        if step > 400 {
            switch.transmit(PortId(2), 4, now, &mut crate::switch::tests::Tap::of(4));
        }
    }
    let epoch = &switch.flows(PortId(2)).unwrap().current;
    let shown = counts(epoch, Cause::Depth);
    let share = shown[&(1, 1)] as f64 / epoch.totals[Cause::Depth as usize] as f64;
    assert!((share - 0.75).abs() < 0.04, "{share}");
    let mean = epoch.totals[Cause::Depth as usize] / epoch.looks;
    assert!((500_000..700_000).contains(&mean), "{mean}");
}

/// Frames of another lcore are told by their flows, too.
#[test]
fn two_lcores_tell_the_same_flows() {
    let mut params = params(Some(FLOWS), VoqOrder::Fair);
    params.ports.iter_mut().for_each(|port| port.tx_per_lcore = true);
    params.ports[2].shard = 1;
    let shards = Tapped::<OwnedFrame>::observed_shards(&params, 2).unwrap();
    let [mut a, mut b]: [_; 2] = shards.try_into().unwrap();
    let mut hello = frame(9, 0, 0, 100).bytes().to_vec();
    hello[..6].copy_from_slice(&[2, 0, 0, 0, 0, 1]);
    receive(&mut b, 2, [OwnedFrame::new(hello)], 0);
    // Where it is has been told, so that nothing is flooded.
    b.tick(0);
    a.tick(0);
    let tap = || crate::switch::tests::Tap::of(12);
    for step in 1..=400u64 {
        let now = step * 10_000_000;
        receive(&mut a, 0, (0..24).map(|n| frame(1, (n % 2) as u8, 3, 700)).collect::<Vec<_>>(), now);
        a.tick(now);
        b.tick(now);
        b.transmit(PortId(2), 12, now, &mut tap());
        a.tick(now);
        a.transmit_granted(PortId(2), 12, now, &mut tap());
        b.tick(now);
        // The peer is told to pause.
        a.ports[0].generator.poll(now);
    }
    let at_b = &b.flows(PortId(2)).unwrap().current;
    let marks = b.stats(PortId(2)).ecn_marked[3];
    assert_eq!((at_b.totals[0], counts(at_b, Cause::Mark).values().sum::<u64>()), (marks, marks));
    assert!(marks > 100);
    let of = |epoch: &Epoch, cause| counts(epoch, cause).keys().copied().collect::<Vec<_>>();
    assert_eq!(of(at_b, Cause::Depth), [(1, 0), (1, 1)]);
    // The queue is the other lcore's: frames that crossed the line stand for it, and say which one it is.
    let blamed = LastCause::Queue(generate::Cause { out_port: 2, queue: 3 });
    assert_eq!(a.ports[0].generator.last_cause(3), blamed);
    let at_a = &a.flows(PortId(0)).unwrap().current;
    assert!(at_a.totals[Cause::Pause as usize] > 0 && !of(at_a, Cause::Pause).is_empty());
    assert_eq!(at_a.totals[Cause::Drop as usize], a.stats(PortId(0)).drops.total());
}

/// Who follows lost frames and who counts their flows see the same.
#[test]
fn a_tap_on_losses_agrees() {
    let mut switch = Tapped::<OwnedFrame>::observed(params(Some(FLOWS), VoqOrder::Fair)).unwrap();
    let order = TapOrder { port: PortId(0), filter: Default::default(), count: 1000, bytes: 64, drops: true };
    let (tap, reader) = Tap::new(order);
    switch.arm(Some(Box::new(tap)));
    let mut hello = frame(9, 0, 0, 100).bytes().to_vec();
    hello[..6].copy_from_slice(&[2, 0, 0, 0, 0, 1]);
    receive(&mut switch, 2, [OwnedFrame::new(hello)], 0);
    receive(&mut switch, 0, (0..90).map(|n| frame(1, n % 4, 3, 700)), 10);
    let seen = reader.fold(BTreeMap::<Key, u64>::new(), |mut seen, (_, bytes)| {
        *seen.entry(key(&bytes)).or_default() += 1;
        seen
    });
    assert_eq!(counts(&switch.flows(PortId(0)).unwrap().current, Cause::Drop), seen);
    assert!(seen.values().sum::<u64>() > 20);
}

/// A copy for a mirror and a frame of the control pool are charged to groups of no port, whose numbers follow from how many ports
/// there are: what is shown is their class.
#[test]
fn what_is_charged_to_no_port_is_lost_with_its_class() {
    let to = MirrorTo::Port { port: PortId(2), queue: 5 };
    let rx = [PortId(0)].into_iter().collect();
    for ports in 3..6 {
        let mut params = crate::switch::tests::params(ports);
        (params.flows, params.mmu.mirror, params.mmu.control) = (Some(FLOWS), 1, 10_000);
        params.mirrors = vec![MirrorParams { rx, tx: Default::default(), filter: Default::default(), to }];
        let mut switch = Tapped::<OwnedFrame>::observed(params).unwrap();
        receive(&mut switch, 0, [frame(1, 0, 3, 700)], 0);
        let lost = switch.flows(PortId(0)).unwrap().current.flows[Cause::Drop as usize].flows();
        let places: Vec<Where> = lost.map(|flow| flow.id.place()).collect();
        let place = |in_port, priority, reason| Where { in_port, priority, reason: Some(reason) };
        assert_eq!(places, [place(0, 5, DropReason::MirrorNoRoom)], "{ports} ports");
        let group = switch.admission().control_pg().unwrap().0 as u16;
        let own = BatchHeader { in_port: 1, queue: 4, pg: 8 + 3, ..BatchHeader::NONE };
        let pooled = BatchHeader { pg: group, ..own };
        let control = switch.ports.params(1).classifier.control_class().pg;
        for (header, reason, priority) in [
            (own, DropReason::IngressNoSlot, 3),
            (own, DropReason::EgressPortDown, 4),
            (pooled, DropReason::IngressNoSlot, control),
            (pooled, DropReason::EgressPortDown, 4),
        ] {
            let seen = where_lost(&switch.ports, switch.admission(), reason, &header);
            assert_eq!(seen, place(1, priority, reason), "{ports} ports");
        }
    }
}
