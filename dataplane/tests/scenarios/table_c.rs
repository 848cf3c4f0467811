//! Table C: PFC generation, on the wire and in time.

use crate::harness::{Bench, Block, End, Flow, G, Lab, Plan, oracle};
use weir_dataplane::drops::DropReason;
use weir_dataplane::egress::{Discipline, QueueSchedule};
use weir_dataplane::mmu::Limit;
use weir_dataplane::mmu::headroom::{HeadroomInput, Model, PeerResponse, headroom};
use weir_dataplane::pfc::frame::PfcFrame;
use weir_dataplane::types::PortId;

const MS: u64 = 1_000_000;

/// Slow enough for 300 seconds of frames in a test.
const C7_RATE: u64 = 1_000_000;

/// Headroom for frames of `mtu` over `delay` ns of cable to a peer that stops within `quanta`.
fn promise(rate: u64, delay: u64, mtu: u32, quanta: u64) -> u64 {
    let mut input = HeadroomInput::new(rate, (delay / 5) as u32, mtu, mtu);
    input.peer = PeerResponse::Quanta(quanta);
    headroom(Model::Weir, &input).unwrap().xoff
}

fn at_10g(ports: usize) -> Plan {
    Plan { rate: 10 * G, headroom: promise(10 * G, 500, 1500, 0), ..Plan::new(ports) }
}

/// A PFC frame from port 0 of a bench, by hand.
fn by_hand(vector: u8, times: &[(usize, u16)]) -> Vec<u8> {
    let mut bytes = vec![0u8; 60];
    bytes[..6].copy_from_slice(&[0x01, 0x80, 0xc2, 0, 0, 0x01]);
    bytes[6..12].copy_from_slice(&[0x02, 0, 0, 0, 0xff, 0]);
    bytes[12..18].copy_from_slice(&[0x88, 0x08, 0x01, 0x01, 0x00, vector]);
    for (priority, time) in times {
        bytes[18 + 2 * priority..20 + 2 * priority].copy_from_slice(&time.to_be_bytes());
    }
    bytes
}

#[test]
fn c1_the_frame_bit_for_bit() {
    let fill = |b: &mut Bench, from: u16, to: u16, priority: u8| {
        (0..2000).find_map(|_| {
            b.send(from, to, priority, 1500);
            b.pfc_bytes(from)
        })
    };
    let mut b = Bench::new(Plan { quanta: 0x1234, ..Plan::new(3) }.params());
    b.block(1, Block::Hold);
    assert_eq!(fill(&mut b, 0, 1, 3).unwrap(), by_hand(1 << 3, &[(3, 0x1234)]));
    // A second priority speaks of itself alone; refreshed together they share a frame.
    assert_eq!(fill(&mut b, 0, 1, 4).unwrap(), by_hand(1 << 4, &[(4, 0x1234)]));
    b.now += oracle::quanta_ns(0x1234, 100 * G) / 2;
    assert_eq!(b.pfc_bytes(0).unwrap(), by_hand(0b0001_1000, &[(3, 0x1234), (4, 0x1234)]));
    // Xon: bits set, times zero.
    b.unblock(1);
    b.pull_all(1);
    assert_eq!(b.pfc_bytes(0).unwrap(), by_hand(0b0001_1000, &[]));
    // Each port has its own address.
    b.block(1, Block::Hold);
    let mut want = by_hand(1 << 3, &[(3, 0x1234)]);
    want[11] = 2;
    assert_eq!(fill(&mut b, 2, 1, 3).unwrap(), want);
}

#[test]
fn c2_refresh_leaves_no_gap() {
    for (quanta, rate) in [(0xffff, 10 * G), (4000, 10 * G), (0xffff, 100 * G)] {
        let plan = Plan { quanta, rate, ..Plan::new(2) };
        let mut lab = Lab::star(&plan.params(), 500);
        lab.switches[0].hold_back(PortId(1), 0xff);
        let flow = lab.flow(0, Flow::new(1, 3, 1500));
        lab.run_until(10 * MS);
        let sent = lab.sent(flow);
        lab.run_until(10_000 * MS);
        assert_eq!(lab.sent(flow), sent, "not one frame slips through");
        let log = &lab.testers[0].pfc_log;
        let pause = oracle::quanta_ns(u64::from(quanta), plan.rate);
        assert!(log[0].0 < 10 * MS && log.len() as u64 >= 9990 * MS / (pause / 2));
        assert!(log.iter().all(|(_, f)| *f == PfcFrame::uniform(1 << 3, quanta)));
        assert!(log.windows(2).all(|w| w[1].0 - w[0].0 <= pause / 2));
        assert!(lab.now - log.last().unwrap().0 <= pause / 2);
        assert_eq!(lab.lost(), 0);
    }
}

#[test]
fn c2_each_priority_is_refreshed_in_its_own_time() {
    // Priority 4 is paused a good third of a pause after priority 3: neither is ever left to run out.
    let plan = Plan { rate: 10 * G, quanta: 4000, ..Plan::new(3) };
    let pause = oracle::quanta_ns(4000, 10 * G);
    let mut lab = Lab::star(&plan.params(), 500);
    lab.switches[0].hold_back(PortId(1), 0xff);
    lab.flow(0, Flow::new(1, 3, 1500));
    lab.run_until(2 * MS);
    let rest = pause * 3 / 7;
    lab.run_for(rest);
    let second = lab.flow(0, Flow::new(1, 4, 1500));
    lab.run_for(50 * MS);
    assert!(lab.testers[0].paused_until[4] > lab.now && lab.sent(second) > 0);
    for p in [3, 4] {
        let log = lab.testers[0].pfc_log.iter().filter(|(_, f)| f.enable >> p & 1 == 1);
        let times: Vec<_> = log.map(|(at, _)| *at).collect();
        assert!(times.len() as u64 > 48 * MS / (pause / 2), "{p}");
        assert!(times.windows(2).all(|w| w[1] - w[0] <= pause / 2), "{p}");
    }
    let bits: std::collections::BTreeSet<_> = lab.testers[0].pfc_log.iter().map(|(_, f)| f.enable).collect();
    assert!(
        bits.contains(&(1 << 3)) && bits.contains(&(1 << 4)),
        "they are not always due together: {bits:?}"
    );
    assert_eq!(lab.lost(), 0);
}

#[test]
fn c3_xon_is_sent_once_and_at_once() {
    let mut lab = Lab::star(&at_10g(2).params(), 500);
    lab.switches[0].hold_back(PortId(1), 0xff);
    lab.flow(0, Flow::new(1, 3, 1500).count(2000));
    lab.run_until(5 * MS);
    assert!(lab.testers[0].paused_until[3] > lab.now);
    lab.testers[1].records = Some(Vec::new());
    lab.switches[0].hold_back(PortId(1), 0);
    lab.touch();
    lab.testers[0].flows[0].stop = 0;
    lab.run_for(20 * MS);
    let xons: Vec<_> = lab.testers[0].pfc_log.iter().filter(|(_, f)| f.time[3] == 0).collect();
    assert_eq!(xons.len(), 1);
    assert_eq!(xons[0].1, PfcFrame::uniform(1 << 3, 0));
    assert_eq!(lab.testers[0].pfc_log.last().unwrap().1.time[3], 0, "and nothing after it");
    // It left with the frame whose departure reached the resume point.
    let resumed = xons[0].0 - 500 - oracle::wire_ns(60, 10 * G);
    let frame = oracle::wire_ns(1500, 10 * G);
    let mut starts = lab.testers[1].records.as_ref().unwrap().iter().map(|(at, _, _)| at - 500 - frame);
    assert!(starts.any(|begin| begin.abs_diff(resumed) <= 1), "{resumed}");
    lab.assert_lossless();
}

#[test]
fn c4_xon_point_to_the_frame() {
    let size = 1000;
    for (xon, xon_offset, reserved, th) in [
        (0, 3000, 0, 0),
        (0, 40_000, 5000, 1),
        (300_000, 600_000, 0, 0),
        (10_000, u64::MAX, 0, -1),
        (0, 0, 0, 0),
    ] {
        let plan = Plan { xon, xon_offset, reserved, limit: Limit::dynamic(th).unwrap(), ..Plan::new(2) };
        let mut b = Bench::new(plan.params());
        b.block(1, Block::Hold);
        let xoff = b.fill_to_xoff(0, 1, 3, size);
        b.unblock(1);
        let mut drained = 0;
        let xon_frame = loop {
            assert_eq!(b.pull(1, 1).len(), 1);
            drained += 1;
            if let Some(frame) = b.pfc(0) {
                break frame;
            }
        };
        assert_eq!(xon_frame, PfcFrame::uniform(1 << 3, 0));
        // The first use at or below max(xon, limit - xon_offset), the limit moving as frames leave.
        let (num, den) = oracle::alpha(th);
        let due = |use_: u64| {
            let shared = use_.saturating_sub(reserved);
            let limit = reserved + num * (plan.shared - shared) / den;
            use_ <= xon.max(limit.saturating_sub(xon_offset))
        };
        let want = (1..=xoff).find(|k| due((xoff - k) * size as u64)).unwrap();
        assert_eq!(drained, want, "xon {xon} offset {xon_offset}");
    }
}

#[test]
fn c4_no_flapping_at_the_edge() {
    let mut b = Bench::new(Plan { xon_offset: 10_000, ..Plan::new(2) }.params());
    b.block(1, Block::Hold);
    b.fill_to_xoff(0, 1, 3, 1000);
    b.unblock(1);
    // One out, one in, a thousand times at the upper edge, and at the lower one a frame before it: not one more
    // control frame. Behind the lower edge one Xon, and again silence until the upper one.
    let in_turn = |b: &mut Bench| {
        for _ in 0..1000 {
            b.pull(1, 1);
            b.send(0, 1, 3, 1000);
            assert_eq!(b.pfc(0), None);
        }
    };
    in_turn(&mut b);
    let drained = (1..).find(|_| {
        b.pull(1, 1);
        b.pg(0, 3).used - 1000 <= b.pg(0, 3).xon_at + 1000
    });
    assert!(drained.is_some_and(|n| (3..12).contains(&n)), "{drained:?}");
    assert_eq!(b.pfc(0), None);
    b.send(0, 1, 3, 1000);
    in_turn(&mut b);
    let xon = (0..10).find_map(|_| {
        b.pull(1, 1);
        b.pfc(0)
    });
    assert_eq!(xon, Some(PfcFrame::uniform(1 << 3, 0)));
    for _ in 0..1000 {
        b.send(0, 1, 3, 1000);
        b.pull(1, 1);
        assert_eq!(b.pfc(0), None);
    }
}

#[test]
fn c4_xon_waits_for_the_headroom_of_the_next_xoff() {
    // Two groups share a headroom pool that holds one and a half of what each may take.
    let plan = Plan { headroom: 20_000, headroom_pool: Some(30_000), xon_offset: 0, ..Plan::new(4) };
    let mut b = Bench::new(plan.params());
    (2..4).for_each(|port| b.block(port, Block::Hold));
    b.fill_to_xoff(0, 2, 3, 1000);
    b.fill_to_xoff(1, 3, 3, 1000);
    assert_eq!(b.fill_to_drop(0, 2, 3, 1000).1, DropReason::IngressHeadroom);
    assert_eq!(b.pg(0, 3).headroom, 20_000);
    // The second is empty again, but a new Xoff of it would find 10 000 bytes instead of 20 000.
    b.unblock(3);
    b.pull_all(3);
    assert_eq!((b.pg(1, 3).used, b.pg(1, 3).headroom, b.pfc(1)), (0, 0, None));
    // Each frame that leaves frees a thousand bytes of headroom; the tenth is the last that is missing.
    b.unblock(2);
    for n in 1..=10 {
        b.pull(2, 1);
        assert_eq!(b.pfc(1), (n == 10).then(|| PfcFrame::uniform(1 << 3, 0)), "{n}");
    }
}

#[test]
fn c5_two_lossless_priorities_are_paused_alike() {
    let mut params = at_10g(3).params();
    let share = QueueSchedule { discipline: Discipline::Dwrr(15), level: 0, cir: None, pir: None };
    params.ports.iter_mut().for_each(|p| p.queues = [share; 8]);
    for lens in [&[1500][..], &[1500, 64, 900, 1200, 333]] {
        let mut lab = Lab::star(&params, 500);
        let flow = |from, priority| (from, Flow::new(2, priority, 0).lens(lens));
        let flows: Vec<_> = [flow(0, 3), flow(0, 4), flow(1, 3), flow(1, 4)].into();
        let flows: Vec<_> = flows.into_iter().map(|(from, flow)| lab.flow(from, flow)).collect();
        lab.run_until(100 * MS);
        // At one port the two may lock into a rhythm that favours one of them; over both ports they are alike.
        let paused = |p| [0, 1].map(|port| lab.switches[0].generator(PortId(port)).paused_ns(p, lab.now));
        let (three, four) = (paused(3), paused(4));
        assert!(three.iter().chain(&four).all(|ns| *ns > 20 * MS), "{three:?} {four:?}");
        let total = [three, four].map(|ns| ns.iter().sum::<u64>());
        assert!(total[0].abs_diff(total[1]) * 10 <= total[0], "{total:?}");
        let bytes: Vec<_> = flows.iter().map(|f| lab.rx(*f).bytes).collect();
        let mean = bytes.iter().sum::<u64>() / 4;
        assert!(bytes.iter().all(|b| b.abs_diff(mean) * 100 <= mean), "{bytes:?}");
        lab.assert_lossless();
    }
}

#[test]
fn c6_no_pfc_for_lossy_priorities() {
    let mut lab = Lab::star(&at_10g(3).params(), 500);
    for from in 0..2 {
        for priority in [0, 1, 2, 5, 6, 7] {
            lab.flow(from, Flow::new(2, priority, 1500));
        }
    }
    lab.run_until(20 * MS);
    assert!(lab.drops(DropReason::EgressQueueFull) > 1000);
    assert_eq!(lab.xoffs(), 0);
    assert_eq!(lab.lost(), lab.drops(DropReason::EgressQueueFull));
}

/// Two pairs of ports, each offered all its link can carry, in percent of lossless and lossy, for `ns`.
fn uncongested(rate: u64, (lossless, lossy): (u64, u64), lens: &[usize], ns: u64) {
    let plan = Plan { rate, headroom: promise(rate, 500, 1500, 0), ..Plan::new(4) };
    let mut lab = Lab::star(&plan.params(), 500);
    let mut flows = Vec::new();
    for (from, to) in [(0, 1), (2, 3)] {
        for (priority, percent) in [(3, lossless), (0, lossy)] {
            if percent > 0 {
                let id = lab.flow(from, Flow::new(to, priority, 0).lens(lens).rate(rate * percent / 100));
                flows.push((id, percent));
            }
        }
    }
    lab.run_until(ns);
    assert_eq!(lab.xoffs(), 0);
    lab.assert_lossless();
    let mean = lens.iter().map(|len| *len as u64 + 24).sum::<u64>() * 8 / lens.len() as u64;
    for (flow, percent) in flows {
        let want = (u128::from(ns) * u128::from(rate * percent / 100) / 1_000_000_000) as u64 / mean;
        let got = lab.rx(flow).frames;
        assert!(got.abs_diff(want) * 100 <= want, "{percent} % of {rate}: {got} for {want}");
    }
}

#[test]
fn c7_no_congestion_no_loss_no_pfc() {
    let imix = [64, 64, 64, 64, 64, 64, 64, 570, 570, 570, 570, 1500];
    for mix in [(88, 12), (40, 60), (100, 0)] {
        for lens in [&imix[..], &[1500]] {
            // The whole 300 seconds on slow links, and a shorter time at 10 Gb/s.
            uncongested(C7_RATE, mix, lens, 300_000 * MS);
            uncongested(10 * G, mix, lens, 20 * MS);
        }
    }
}

/// `senders` ports at line rate to one: nothing lost, in order, and the output never idle.
fn incast(plan: &Plan, senders: usize, egress_rate: u64, ns: u64) -> Lab {
    let mut params = plan.params();
    let last = params.ports.last_mut().unwrap();
    (last.generate.rate, last.react.rate) = (egress_rate, egress_rate);
    let to = plan.ports as u16 - 1;
    let mut lab = Lab::star(&params, 500);
    for from in 0..senders {
        lab.flow(from, Flow::new(to, 3, 1500));
    }
    lab.run_until(ns);
    lab.assert_lossless();
    let got: u64 = lab.testers[usize::from(to)].rx.values().map(|rx| (rx.bytes + 24 * rx.frames) * 8).sum();
    let most = u128::from(egress_rate) * u128::from(ns) / 1_000_000_000;
    assert!(u128::from(got) * 100 >= most * 99, "{got} of {most}");
    lab
}

#[test]
fn c8_incast_2_to_64() {
    for senders in [2, 4, 8, 16, 32, 64] {
        let plan = Plan { shared: 4_000_000, ..at_10g(senders + 1) };
        let mut lab = incast(&plan, senders, 10 * G, 8 * MS);
        assert!(lab.xoffs() >= senders);
        // And it is fair: no sender has less than nine tenths of its part.
        let to = &lab.testers[senders];
        let mean = to.received() / senders as u64;
        assert!(to.rx.values().all(|rx| rx.frames * 10 + 30 >= mean * 9), "{senders}");
        lab.testers.iter_mut().flat_map(|t| &mut t.flows).for_each(|f| f.stop = 0);
        lab.run_for(20 * MS);
        assert_eq!(lab.switches[0].held(), 0);
    }
}

#[test]
fn c9_mixed_incast() {
    // Offered in percent by each of two senders: lossless and lossy, with their weights at the output.
    for (lossless, lossy, weights) in [
        ([35.0, 35.0], [22.5, 22.5], (1, 1)),
        ([40.0, 20.0], [20.0, 40.0], (1, 1)),
        ([25.0, 25.0], [30.0, 30.0], (1, 1)),
        ([40.0, 40.0], [40.0, 40.0], (3, 1)),
    ] {
        let mut params = at_10g(3).params();
        for port in &mut params.ports {
            port.queues = [QueueSchedule::STRICT; 8];
            for (q, w) in [(3, weights.0), (0, weights.1)] {
                port.queues[q].discipline = Discipline::Dwrr(w);
            }
        }
        let mut lab = Lab::star(&params, 500);
        let rate = |percent: f64| (percent * 1e8) as u64;
        let mut flows = [Vec::new(), Vec::new()];
        for from in 0..2 {
            flows[0].push(lab.flow(from, Flow::new(2, 3, 1500).rate(rate(lossless[from]))));
            flows[1].push(lab.flow(from, Flow::new(2, 0, 1500).rate(rate(lossy[from]))));
        }
        lab.run_until(5 * MS);
        let at = |lab: &Lab, class: usize| -> u64 { flows[class].iter().map(|f| lab.rx(*f).frames).sum() };
        let before = [at(&lab, 0), at(&lab, 1)];
        lab.run_for(50 * MS);
        let got = [0, 1].map(|class| at(&lab, class) - before[class]);
        // By weight where both want their part or more; else what one leaves, the other gets.
        let line = 50 * MS * 10 / (1524 * 8);
        let offered = [lossless, lossy].map(|o| o[0] + o[1]);
        let part = 100.0 * f64::from(weights.1) / f64::from(weights.0 + weights.1);
        let second = (line as f64 * part.min(offered[1]) / 100.0) as u64;
        let want = [line - second, second];
        for (class, want) in want.into_iter().enumerate() {
            assert!(got[class].abs_diff(want) * 100 <= want, "{offered:?}: {got:?} for {want}");
        }
        assert_eq!(lab.drops(DropReason::IngressHeadroom), 0);
        assert_eq!(lab.lost(), lab.drops(DropReason::EgressQueueFull));
        assert_eq!(
            lab.lost() > 0,
            offered[1] > part,
            "{offered:?}: lossy is lost where it wants more, and only there"
        );
        for flow in &flows[0] {
            assert_eq!((lab.rx(*flow).gaps, lab.rx(*flow).reordered), (0, 0));
        }
    }
}

#[test]
fn c10_fast_in_slow_out() {
    let plan = Plan { rate: 40 * G, headroom: promise(40 * G, 500, 1500, 0), ..Plan::new(2) };
    for egress in [10 * G, G] {
        assert!(incast(&plan, 1, egress, 20 * MS).xoffs() > 0);
    }
}

/// A pause long enough that its refresh comes later than the headroom of a prompt peer lasts.
const LOST_XOFF_QUANTA: u16 = 1000;

/// Two senders to one port while every k-th Xoff towards them is lost. Frames lost, and pauses sent.
fn with_lost_xoff(k: u64, extra_headroom: u64) -> (u64, usize, Lab) {
    let mut plan = Plan { quanta: LOST_XOFF_QUANTA, ..at_10g(3) };
    plan.headroom += extra_headroom;
    let mut lab = Lab::star(&plan.params(), 500);
    for from in 0..2 {
        lab.lose_xoff(End::Switch(0, from), k);
        lab.flow(usize::from(from), Flow::new(2, 3, 1500));
    }
    lab.run_until(100 * MS);
    (lab.lost(), lab.xoffs(), lab)
}

#[test]
fn c11_a_lost_xoff_is_repaired_by_the_refresh() {
    // A refresh comes after three eighths of the pause; what arrives until then needs headroom too.
    let interval = oracle::quanta_ns(LOST_XOFF_QUANTA.into(), 10 * G) * 3 / 8;
    let until_refresh = interval * 10 / 8 + 1524;
    let mut without = 0;
    for k in [2, 3, 5, 7] {
        let (lost, xoffs, lab) = with_lost_xoff(k, until_refresh);
        assert!(xoffs > 100);
        assert_eq!(lost, 0, "one of {k}");
        lab.assert_lossless();
        let (lost, _, lab) = with_lost_xoff(k, 0);
        assert_eq!(lost, lab.drops(DropReason::IngressHeadroom));
        without += lost;
    }
    assert!(without > 0, "without that headroom the arithmetic says loss");
    // All of them lost: nothing repairs that, and what is lost is counted.
    let (lost, _, lab) = with_lost_xoff(1, until_refresh);
    assert!(lost > 0 && lost == lab.drops(DropReason::IngressHeadroom) && lab.xoffs() == 0);
    let (lost, ..) = with_lost_xoff(u64::MAX, 0);
    assert_eq!(lost, 0);
}

/// One sender that obeys after `response` quanta, into headroom made for `promised` quanta: frames lost. Port 0 is
/// sending full frames itself when PFC wants to leave; `phase` moves those frames in time.
fn slow_peer(promised: u64, response: u64, delay: u64, size: usize, phase: u64) -> u64 {
    let mut lab = Lab::star(&slow_peer_plan(promised, delay, size).params(), delay);
    lab.switches[0].hold_back(PortId(2), 0xff);
    lab.testers[0].response = oracle::quanta_ns(response, 10 * G);
    lab.flow(0, Flow::new(2, 3, size));
    lab.flow(1, Flow::new(0, 0, size).between(phase, u64::MAX));
    lab.run_until(MS / 2);
    assert!(lab.xoffs() > 0);
    assert_eq!(lab.lost(), lab.drops(DropReason::IngressHeadroom));
    lab.lost()
}

fn slow_peer_plan(promised: u64, delay: u64, size: usize) -> Plan {
    let headroom = promise(10 * G, delay, size as u32, promised);
    Plan { rate: 10 * G, shared: 60_000, headroom, ..Plan::new(3) }
}

/// The fewest quanta of response at which the frames that begin before the peer stops no longer fit the headroom:
/// PFC waits for a whole frame, crosses the cable, the peer answers, and its frames cross the cable.
fn first_loss(plan: &Plan, delay: u64, size: usize) -> u64 {
    let crossing = oracle::crossing_frame_is_shared(plan.shared, (1, 1), 0, size as u64);
    let early = if crossing { 0 } else { size as u64 };
    // In picoseconds: a byte at 10 Gb/s takes 800, a quantum 51 200.
    let (frame, delay) = ((size as u64 + 24) * 800, delay * 1000);
    let until_told = frame + 84 * 800 + delay;
    (0..)
        .find(|quanta| {
            let begun = (delay + until_told + quanta * 51_200).div_ceil(frame);
            early + begun * size as u64 > plan.headroom
        })
        .unwrap()
}

#[test]
fn c12_every_response_up_to_the_promise() {
    for (delay, size) in [(50, 1500), (1500, 9000), (500, 64)] {
        let frame = oracle::wire_ns(size, 10 * G);
        let edge = first_loss(&slow_peer_plan(80, delay, size), delay, size);
        assert!(edge > 80);
        for response in 0..=80 {
            let lost = slow_peer(80, response, delay, size, response * 97 % frame);
            assert_eq!(lost, 0, "{response} quanta, {delay} ns, {size} B");
        }
        // At the promise whenever PFC comes, and just as far beyond as the promise counts what is not stored (the gaps
        // between frames, and a crossing frame that stayed below the line): a few quanta more are lost and counted.
        let any_phase = |response| {
            let phases = (0..32).map(|n| frame * n / 32);
            phases.map(|phase| slow_peer(80, response, delay, size, phase)).max().unwrap()
        };
        assert_eq!(any_phase(80), 0, "{delay} ns, {size} B");
        assert_eq!(any_phase(edge - 1), 0, "{delay} ns, {size} B: {edge}");
        let phase_step = frame / 32 / 51 + 2;
        assert!(any_phase(edge + phase_step) > 0, "{delay} ns, {size} B: {edge}");
    }
}

#[test]
fn c13_pfc_goes_ahead_of_data_and_past_pause() {
    for paused in [false, true] {
        let plan = Plan { headroom: promise(10 * G, 500, 9000, 0), ..at_10g(3) };
        let mut lab = Lab::star(&plan.params(), 500);
        lab.testers[0].records = Some(Vec::new());
        // Port 0 sends without end (or is paused while it wants to), and is itself overloading port 1.
        lab.flow(2, Flow::new(0, 4, 9000));
        lab.flow(0, Flow::new(1, 3, 1500));
        lab.switches[0].hold_back(PortId(1), 0xff);
        if paused {
            let storm = crate::harness::Storm {
                mask: 0xff,
                quanta: 0xffff,
                start: 1000,
                stop: 5 * MS,
                period: MS,
                xon_after: None,
            };
            lab.storm(0, storm);
        }
        let frame = oracle::wire_ns(9000, 10 * G);
        while lab.switches[0].generator(PortId(0)).counters().pfc_frames == 0
            && !lab.switches[0].admission().pg(weir_dataplane::mmu::PgIx(3)).xoff
        {
            lab.run_for(10);
            assert!(lab.now < 5 * MS);
        }
        let crossed = lab.now;
        lab.run_for(2 * frame);
        let arrived = lab.testers[0].pfc_log[0].0;
        // A paused link is idle: PFC does not wait for anything.
        let wait = if paused { 0 } else { frame };
        assert!(arrived <= crossed + wait + oracle::wire_ns(60, 10 * G) + 500, "{arrived} after {crossed}");
        assert!(paused == (lab.switches[0].reaction(PortId(0)).transitions(4) > 0));
        assert!(lab.testers[0].received() > 0 || paused, "the port was sending");
    }
}

#[test]
fn c14_a_link_flap_leaves_no_stale_pause() {
    let mut lab = Lab::star(&at_10g(3).params(), 500);
    lab.switches[0].hold_back(PortId(1), 0xff);
    let first = lab.flow(0, Flow::new(1, 3, 1500).count(2000));
    lab.run_until(3 * MS);
    assert_eq!(lab.switches[0].generator(PortId(0)).paused_mask(), 1 << 3);
    lab.send_control(0, &PfcFrame::uniform(1 << 4, 0xffff));
    lab.run_for(MS / 10);
    assert_eq!(lab.switches[0].reaction(PortId(0)).transitions(4), 1);
    let control = lab.switches[0].stats(PortId(0)).tx_control;
    lab.set_link(0, 0, false);
    lab.run_for(MS);
    assert_eq!(lab.switches[0].generator(PortId(0)).paused_mask(), 0);
    assert_eq!(lab.switches[0].reaction(PortId(0)).queue_paused_since(4, lab.now), None);
    // The buffer drains while the link is down: nobody is told, and nothing of it is told later.
    lab.switches[0].hold_back(PortId(1), 0);
    lab.touch();
    lab.run_for(10 * MS);
    assert_eq!(lab.switches[0].held(), 0);
    let stats = lab.switches[0].stats(PortId(0));
    assert_eq!((stats.tx_control, stats.tx_control_no_memory), (control, 0));
    let told = lab.testers[0].pfc_log.len();
    lab.testers[0].flows[0].stop = 0;
    lab.set_link(0, 0, true);
    lab.run_for(10 * MS);
    assert_eq!(lab.testers[0].pfc_log.len(), told, "no stale Xoff after the link is back");
    // Priority 4 may leave by port 0 again, priority 3 may come in.
    let back = lab.flow(2, Flow::new(0, 4, 1500).count(10));
    let again = lab.flow(0, Flow::new(1, 3, 1500).count(10));
    lab.run_for(MS);
    assert_eq!((lab.rx(back).frames, lab.rx(again).frames), (10, 10));
    assert_eq!(
        lab.lost(),
        0,
        "frames already admitted are not lost by the flap of their input: flow {first}"
    );
}

#[test]
fn c14_what_is_still_over_the_line_is_told_again() {
    let mut lab = Lab::star(&at_10g(2).params(), 500);
    lab.switches[0].hold_back(PortId(1), 0xff);
    lab.flow(0, Flow::new(1, 3, 1500));
    lab.run_until(3 * MS);
    lab.set_link(0, 0, false);
    lab.run_for(MS);
    let told = lab.testers[0].pfc_log.len();
    lab.set_link(0, 0, true);
    lab.run_for(MS);
    assert!(lab.testers[0].pfc_log.len() > told);
    assert_eq!(lab.lost(), 0, "half the headroom is in use: the peer has to hear it before it sends");
}

#[test]
fn c15_without_pfc_an_overload_is_counted_loss() {
    let mut params = at_10g(3).params();
    params.ports.iter_mut().for_each(|p| p.generate.enabled = 1 << 4);
    let mut lab = Lab::star(&params, 500);
    for from in 0..2 {
        lab.flow(from, Flow::new(2, 3, 1500));
    }
    lab.run_until(10 * MS);
    let at_ports: u64 = (0..2).map(|p| lab.switches[0].stats(PortId(p)).pg_drops[3]).sum();
    assert!(at_ports > 1000);
    assert_eq!((lab.lost(), lab.drops(DropReason::IngressHeadroom), lab.xoffs()), (at_ports, at_ports, 0));
    let egress: Vec<_> = (0..3).map(|p| lab.switches[0].stats(PortId(p)).queue_drops).collect();
    assert_eq!(egress, [[0; 8]; 3]);
    lab.testers.iter_mut().flat_map(|t| &mut t.flows).for_each(|f| f.stop = 0);
    lab.run_for(20 * MS);
    let sent: u64 = lab.testers.iter().map(|t| t.sent()).sum();
    assert_eq!(sent, lab.testers[2].received() + lab.lost());
}
