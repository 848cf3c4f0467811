//! Table C: PFC generation, on the wire and in time.

mod harness;

use harness::{Bench, Block, End, Flow, G, Lab, Plan, oracle};
use weir_dataplane::drops::DropReason;
use weir_dataplane::egress::{Discipline, QueueSchedule};
use weir_dataplane::mmu::Limit;
use weir_dataplane::mmu::headroom::{HeadroomInput, Model, PeerResponse, headroom};
use weir_dataplane::pfc::frame::PfcFrame;
use weir_dataplane::types::PortId;

const MS: u64 = 1_000_000;

/// Headroom for frames of `mtu` over `delay` ns of cable to a peer that stops within `quanta`.
fn promise(rate: u64, delay: u64, mtu: u32, quanta: u64) -> u64 {
    let mut input = HeadroomInput::new(rate, (delay / 5) as u32, mtu, mtu);
    input.peer = PeerResponse::Quanta(quanta);
    headroom(Model::Weir, &input).unwrap().xoff
}

fn at_10g(ports: usize) -> Plan {
    Plan { rate: 10 * G, headroom: promise(10 * G, 500, 1500, 0), ..Plan::new(ports) }
}

#[test]
fn c1_the_frame_bit_for_bit() {
    let mut b = Bench::new(Plan::new(2).params());
    b.block(1, Block::Hold);
    let bytes = loop {
        b.send(0, 1, 3, 1500);
        if let Some(bytes) = b.pfc_bytes(0) {
            break bytes;
        }
    };
    let mut want = vec![0u8; 60];
    want[..6].copy_from_slice(&[0x01, 0x80, 0xc2, 0, 0, 0x01]);
    want[6..12].copy_from_slice(&[0x02, 0, 0, 0, 0xff, 0]);
    want[12..18].copy_from_slice(&[0x88, 0x08, 0x01, 0x01, 0x00, 1 << 3]);
    want[24..26].copy_from_slice(&[0xff, 0xff]);
    assert_eq!(bytes, want);
}

#[test]
fn c2_refresh_leaves_no_gap() {
    for quanta in [0xffff, 4000] {
        let plan = Plan { quanta, rate: 10 * G, ..Plan::new(2) };
        let mut lab = Lab::star(&plan.params(), 500);
        lab.switches[0].hold_back(PortId(1), 0xff);
        let flow = lab.flow(0, Flow::new(1, 3, 1500));
        lab.run_until(if quanta == 0xffff { 10_000 * MS } else { 500 * MS });
        let log = &lab.testers[0].pfc_log;
        let pause = oracle::quanta_ns(u64::from(quanta), plan.rate);
        assert!(log.iter().all(|(_, f)| *f == PfcFrame::uniform(1 << 3, quanta)));
        assert!(log.windows(2).all(|w| w[1].0 - w[0].0 <= pause / 2));
        assert!(lab.now - log.last().unwrap().0 <= pause / 2);
        assert_eq!(lab.lost(), 0);
        let sent = lab.sent(flow);
        lab.run_for(10 * MS);
        assert_eq!(lab.sent(flow), sent, "not one frame slips through");
    }
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
    // One out, one in, a thousand times: not one more control frame.
    for _ in 0..1000 {
        b.pull(1, 1);
        b.send(0, 1, 3, 1000);
        assert_eq!(b.pfc(0), None);
    }
}

#[test]
fn c5_two_lossless_priorities_are_paused_alike() {
    let mut params = at_10g(3).params();
    let share = QueueSchedule { discipline: Discipline::Dwrr(15), level: 0, cir: None, pir: None };
    params.ports.iter_mut().for_each(|p| p.queues = [share; 8]);
    let mut lab = Lab::star(&params, 500);
    for from in 0..2 {
        for priority in [3, 4] {
            lab.flow(from, Flow::new(2, priority, 1500));
        }
    }
    lab.run_until(100 * MS);
    let mut total = [0; 2];
    for port in 0..2 {
        for (i, priority) in [3, 4].into_iter().enumerate() {
            total[i] += lab.switches[0].generator(PortId(port)).paused_ns(priority, lab.now);
        }
    }
    assert!(total[0] > 10 * MS && total[0].abs_diff(total[1]) * 10 <= total[0], "{total:?}");
    lab.assert_lossless();
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

#[test]
fn c7_no_congestion_no_loss_no_pfc() {
    let imix = [64, 64, 64, 64, 64, 64, 64, 570, 570, 570, 570, 1500];
    for (lossless, lossy) in [(88, 12), (40, 60), (100, 0)] {
        for lens in [&imix[..], &[1500]] {
            let mut lab = Lab::star(&at_10g(4).params(), 500);
            for (from, to) in [(0, 1), (2, 3)] {
                for (priority, percent) in [(3, lossless), (0, lossy)] {
                    if percent > 0 {
                        let rate = 10 * G * percent / 100;
                        lab.flow(from, Flow::new(to, priority, 0).lens(lens).rate(rate));
                    }
                }
            }
            lab.run_until(10 * MS);
            assert_eq!(lab.xoffs(), 0);
            lab.assert_lossless();
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
    for (lossless, lossy, weights) in
        [([35.0, 35.0], [22.5, 22.5], (1, 1)), ([40.0, 20.0], [20.0, 40.0], (1, 1))]
    {
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
        // Half the line each where both want half or more; else what one leaves, the other gets.
        let line = 50 * MS * 10 / (1524 * 8);
        let offered = [lossless, lossy].map(|o| o[0] + o[1]);
        let want = match offered {
            [a, b] if a >= 50.0 && b >= 50.0 => [line / 2, line / 2],
            [_, b] => [line - (line as f64 * b / 100.0) as u64, (line as f64 * b / 100.0) as u64],
        };
        for (class, want) in want.into_iter().enumerate() {
            assert!(got[class].abs_diff(want) * 100 <= want, "{offered:?}: {got:?} for {want}");
        }
        assert_eq!(lab.drops(DropReason::IngressHeadroom), 0);
        assert_eq!(lab.lost(), lab.drops(DropReason::EgressQueueFull));
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
    let (lost, ..) = with_lost_xoff(u64::MAX, 0);
    assert_eq!(lost, 0);
}

/// One sender that obeys after `response` quanta, into headroom made for `promised` quanta.
fn slow_peer(promised: u64, response: u64, delay: u64, size: usize) -> u64 {
    let plan = Plan {
        rate: 10 * G,
        shared: 60_000,
        headroom: promise(10 * G, delay, size as u32, promised),
        ..Plan::new(3)
    };
    let mut params = plan.params();
    (params.ports[2].generate.rate, params.ports[2].react.rate) = (G, G);
    let mut lab = Lab::star(&params, delay);
    lab.testers[0].response = oracle::quanta_ns(response, 10 * G);
    lab.flow(0, Flow::new(2, 3, size));
    // The worst moment for the PFC frame: port 0 is sending full frames itself.
    lab.flow(1, Flow::new(0, 0, size));
    lab.run_until(MS);
    assert!(lab.xoffs() > 0);
    assert_eq!(lab.lost(), lab.drops(DropReason::IngressHeadroom));
    lab.lost()
}

#[test]
fn c12_every_response_up_to_the_promise() {
    for (delay, size) in [(50, 1500), (1500, 9000), (500, 64)] {
        for response in 0..=80 {
            assert_eq!(slow_peer(80, response, delay, size), 0, "{response} quanta, {delay} ns, {size} B");
        }
        let worst = 80 + 8 * (size as u64).div_ceil(64) + 50;
        assert!(slow_peer(80, worst, delay, size) > 0, "beyond the promise there is loss, and it is counted");
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
            let storm = harness::Storm {
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
        assert!(arrived <= crossed + frame + oracle::wire_ns(60, 10 * G) + 500, "{arrived} after {crossed}");
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
}
