//! Table I: the system as a whole.

use crate::harness::frames::{host, ipv4, stamp};
use crate::harness::{Bench, Block, Flow, G, Lab, Plan, Storm, classifier_of, seed};
use weir_dataplane::classify::Maps;
use weir_dataplane::drops::DropReason;
use weir_dataplane::mmu::Admission;
use weir_dataplane::pfc::frame::PfcFrame;
use weir_dataplane::pfc::watchdog::{Action, WatchdogConfig};
use weir_dataplane::rng::Rng;
use weir_dataplane::switch::Change;
use weir_dataplane::types::PortId;

const MS: u64 = 1_000_000;

#[test]
fn i1_full_mesh_of_all_pairs_and_priorities() {
    let n = 8;
    let mut lab = Lab::star(&Plan { rate: 10 * G, shared: 8_000_000, ..Plan::new(n) }.params(), 500);
    let mut flows = Vec::new();
    for from in 0..n {
        for to in (0..n).filter(|to| *to != from) {
            for priority in 0..8 {
                flows.push(lab.flow(from, Flow::new(to as u16, priority, 300).count(50).rate(G / 10)));
            }
        }
    }
    lab.run_until(50 * MS);
    lab.assert_lossless();
    assert!(flows.iter().all(|f| lab.rx(*f).frames == 50));
    let each = 50 * (n as u64 - 1);
    for port in 0..n as u16 {
        let stats = lab.switches[0].stats(PortId(port));
        assert_eq!((stats.rx_packets, stats.tx_packets), (8 * each, 8 * each));
        assert_eq!((stats.rx_priority_packets, stats.queue_packets), ([each; 8], [each; 8]));
        assert_eq!((stats.pg_packets, stats.queue_bytes), ([each; 8], [each * 300; 8]));
    }
}

#[test]
fn i2_the_same_configuration_again_under_load() {
    let plan = Plan { rate: 10 * G, ..Plan::new(4) };
    let params = plan.params();
    let run = |reload: bool, lossless: u64| {
        let mut lab = Lab::star(&params, 500);
        for from in 0..3 {
            for (priority, rate) in [(3, lossless), (0, 3 * G / 2)] {
                lab.flow(
                    from,
                    Flow::new(3, priority, 1500).rate(rate).count(if priority == 0 { 100 } else { u64::MAX }),
                );
            }
        }
        for _ in 0..100 {
            lab.run_for(MS / 10);
            if reload {
                let now = lab.now;
                lab.switches[0].apply(&mut Change::between(&params, &params).unwrap(), now).unwrap();
            }
            lab.touch();
        }
        lab.assert_lossless();
        let when: Vec<_> = lab.testers.iter().flat_map(|t| &t.pfc_log).map(|(at, f)| (*at, *f)).collect();
        (lab.testers[3].rx.values().map(|rx| (rx.frames, rx.bytes, rx.last_at)).collect::<Vec<_>>(), when)
    };
    // To the nanosecond as if nothing had been loaded: below the line, without a pause; and paused all the time.
    let (light, heavy) = (3 * G / 2, 4 * G);
    assert!(run(true, light) == run(false, light));
    assert!(run(true, light).1.is_empty());
    assert!(run(true, heavy) == run(false, heavy));
    assert!(run(true, heavy).1.len() > 10);
}

#[test]
fn i4_a_filling_rx_ring_pauses_until_it_is_served() {
    let mut b = Bench::new(Plan::new(2).params());
    b.s.rx_ring(PortId(0), true);
    let frame = b.pfc(0).unwrap();
    assert_eq!((frame.enable, frame.time[3] > 0, frame.time[4] > 0), (0b0001_1000, true, true));
    assert_eq!(b.pfc(1), None, "the other port is not concerned");
    // The group crosses its own line meanwhile: Xon comes when neither wants the pause any more.
    b.block(1, Block::Hold);
    while !b.pg(0, 3).xoff {
        b.send(0, 1, 3, 1500);
    }
    b.s.rx_ring(PortId(0), false);
    assert_eq!(b.pfc(0).unwrap(), PfcFrame::uniform(1 << 4, 0));
    b.unblock(1);
    b.pull_all(1);
    assert_eq!(b.pfc(0).unwrap(), PfcFrame::uniform(1 << 3, 0));
    assert_eq!(b.lost(), 0);
}

/// What a soak does at random moments.
fn disturb(lab: &mut Lab, plan: &Plan, rng: &mut Rng, down: &mut [bool]) {
    let ports = plan.ports as u64;
    let mut pick = |n: u64| rng.next_u64() % n;
    let port = pick(ports) as usize;
    let now = lab.now;
    match pick(40) {
        0..=24 => {
            let to = ((port as u64 + 1 + pick(ports - 1)) % ports) as u16;
            let lens = [60 + pick(9100) as usize, 60 + pick(1400) as usize, 64];
            let flow = Flow::new(to, pick(8) as u8, 0).lens(&lens).count(1 + pick(60));
            // Finished flows make room: a tester looks at all it has.
            lab.testers[port].flows.retain(|f| f.sent < f.count);
            lab.flow(port, flow);
        }
        25..=29 => {
            let quanta = 1 + pick(0xffff) as u16;
            let stop = now + 1 + pick(300) * MS;
            let mask = pick(256) as u8;
            lab.testers[port].storms.truncate(1000);
            lab.storm(port, Storm { mask, quanta, start: now, stop, period: 7 * MS, xon_after: None });
        }
        30 => lab.switches[0].hold_back(PortId(port as u16), pick(256) as u8),
        31..=34 => lab.switches[0].hold_back(PortId(port as u16), 0),
        35 => {
            down[port] = !down[port];
            lab.set_link(0, port as u16, !down[port]);
        }
        36 => {
            (0..plan.ports)
                .filter(|p| std::mem::take(&mut down[*p]))
                .for_each(|p| lab.set_link(0, p as u16, true));
        }
        37 => {
            let mut params = Plan { xon_offset: pick(20_000), reserved: pick(3000), ..plan.clone() }.mmu();
            params.headroom_pool = Some(params.headroom() - pick(10_000));
            params.total = plan.mmu().total;
            if params.shared().is_ok() {
                lab.switches[0].admission_mut().apply(params).unwrap();
            }
        }
        38 => {
            let mut maps = Maps::default();
            let (a, b) = (pick(8) as usize * 8, pick(8) as u8);
            maps.dscp_to_tc[a] = b;
            lab.switches[0].reclassify(PortId(port as u16), classifier_of(&maps));
        }
        _ => {
            let frame = ipv4(host(port as u16), host(200 + pick(2) as u16), 0, 1, 100 + pick(1000) as usize);
            let mut frame = frame;
            stamp(&mut frame, u32::MAX, 0);
            lab.testers[port].control.push_back(frame);
        }
    }
    lab.touch();
}

#[test]
fn i6_an_hour_of_everything() {
    let seed = seed(6);
    let mut rng = Rng::new(seed);
    let plan = Plan { rate: G, shared: 300_000, reserved: 2000, headroom: 30_000, ..Plan::new(6) };
    let mut params = plan.params();
    params.seed = seed;
    params.ageing = Some(300_000 * MS);
    params.watchdog = Some(WatchdogConfig {
        queues: 0b0001_1000,
        poll: 200 * MS,
        detection: 200 * MS,
        restoration: 200 * MS,
        action: Action::Drop,
        recurrence: None,
        big_red_switch: false,
    });
    let mut lab = Lab::star(&params, 500);
    let mut down = [false; 6];
    // Every event is followed by the checks of conservation, of the MMU's sums, and of the size of the buffer.
    while lab.now < 3_600_000 * MS {
        let pause = if rng.next_u64().is_multiple_of(20) { 3000 * MS } else { 30 * MS };
        lab.run_for(1 + rng.next_u64() % pause);
        disturb(&mut lab, &plan, &mut rng, &mut down);
    }
    println!("{} events, {} frames lost with a reason", lab.events, lab.lost());
    assert!(lab.events > 100_000 && lab.lost() > 100);
    // Then everything is let go: nothing is left anywhere, and nobody is paused.
    for port in 0..6 {
        lab.set_link(0, port, true);
        lab.switches[0].hold_back(PortId(port), 0);
        let tester = &mut lab.testers[usize::from(port)];
        tester.flows.iter_mut().for_each(|f| f.stop = 0);
        tester.storms.iter_mut().for_each(|s| s.stop = 0);
    }
    lab.touch();
    lab.run_for(10_000 * MS);
    let s = &lab.switches[0];
    assert_eq!((s.held(), s.admission().held_bytes(), s.admission().queued_bytes()), (0, 0, 0));
    let pools = s.admission().pools();
    assert_eq!((pools.shared_used, pools.headroom_used), (0, 0));
    for port in 0..6 {
        assert_eq!(s.generator(PortId(port)).paused_mask(), 0, "seed {seed}");
        assert_eq!(s.watchdog(PortId(port)).unwrap().stormed_queues(), 0, "seed {seed}");
    }
    assert_eq!(lab.drops(DropReason::IngressNoSlot), 0);
}

#[test]
fn i6_same_seed_same_end() {
    let run = || {
        let mut rng = Rng::new(66);
        let plan = Plan { rate: G, shared: 300_000, headroom: 30_000, ..Plan::new(6) };
        let mut lab = Lab::star(&plan.params(), 500);
        let mut down = [false; 6];
        for _ in 0..500 {
            lab.run_for(1 + rng.next_u64() % MS);
            disturb(&mut lab, &plan, &mut rng, &mut down);
        }
        (lab.events, lab.switches[0].conservation(), lab.testers.iter().map(|t| t.received()).sum::<u64>())
    };
    assert_eq!(run(), run());
}
