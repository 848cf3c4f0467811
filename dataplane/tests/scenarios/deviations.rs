//! What the literal formulas of the seed documents would do, beside what the switch does (`requirements` B1, B3).
//! Each test computes the literal rule itself, shows that it fails, and holds the switch to the corrected one.

use crate::harness::frames::{host, ipv4};
use crate::harness::{Bench, Block, Flow, G, Lab, Plan, oracle};
use weir_dataplane::drops::DropReason;
use weir_dataplane::mmu::{Limit, Mmu, MmuError};
use weir_dataplane::parse::{Profile, Variant};
use weir_dataplane::pfc::frame::PfcFrame;
use weir_dataplane::types::PortId;

const MS: u64 = 1_000_000;

#[test]
fn dev01_one_afh_station_is_one_address_whatever_its_traffic_class() {
    // Literal: the 48 bits of the source are the station. GEN1 carries TC in the top byte of the source.
    let frame = |from: u64, to: u64, tc: u8| {
        let mut f = vec![0; 100];
        f[..6].copy_from_slice(&to.to_be_bytes()[2..]);
        f[6..12].copy_from_slice(&from.to_be_bytes()[2..]);
        f[6] = tc;
        f
    };
    let sources: std::collections::HashSet<_> =
        (0..64u8).map(|tc| frame(5, 6, tc << 2)[6..12].to_vec()).collect();
    assert_eq!(sources.len(), 64, "a table of 48-bit addresses has 64 stations for one");
    let mut params = Plan::new(3).params();
    params.stations.clear();
    for port in &mut params.ports {
        (port.profile, port.learning) = (Profile::afh_gen1(), true);
    }
    let mut b = Bench::new(params);
    for tc in 0..64u8 {
        b.put(0, frame(5, 6, tc << 2));
    }
    assert_eq!(b.s.fdb().len(), 1);
    (0..3).for_each(|port| drop(b.pull_all(port)));
    b.put(1, frame(6, 5, 0));
    assert_eq!((b.pull_all(0).len(), b.pull_all(2).len()), (1, 0), "and it is found by its address");
}

#[test]
fn dev02_payload_of_a_lite_frame_is_not_an_ethertype() {
    // Literal: read the EtherType at bytes 12 and 13. On Lite those are payload.
    let mut params = Plan::new(2).params();
    params.stations.clear();
    params.ports.iter_mut().for_each(|p| p.profile = Profile::afh_lite(Variant::Public));
    for (payload, literal) in [([0x88, 0x08], "MAC control"), ([0x81, 0x00], "VLAN"), ([0x08, 0x00], "IPv4")]
    {
        let mut b = Bench::new(params.clone());
        let mut f = vec![0; 64];
        f[..12].copy_from_slice(&[0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 1]);
        f[12..14].copy_from_slice(&payload);
        b.put(0, f.clone());
        assert_eq!(b.pull_all(1), [f], "taken for {literal}");
        assert_eq!((b.stats(0).rx_control, b.lost()), (0, 0));
    }
}

#[test]
fn dev18_a_guarantee_is_not_part_of_the_pool() {
    // Literal: shared = B - sum(used), quota = alpha * shared, admit while used < S + quota, nothing set apart.
    let (total, s, alpha, frame, groups) = (400_000u64, 20_000u64, 8u64, 1000u64, 16usize);
    let mut used = vec![0u64; groups];
    let admit = |used: &mut Vec<u64>, i: usize| {
        let sum: u64 = used.iter().sum();
        let shared = total - sum;
        let ok = used[i] < s + alpha * shared && frame <= shared;
        used[i] += if ok { frame } else { 0 };
        ok
    };
    while (0..4).any(|i| admit(&mut used, i)) {}
    let literal = (0..20).filter(|_| admit(&mut used, 15)).count();
    assert!(literal < 20, "busy groups have eaten an idle one's guarantee: {literal} frames of 20");
    // The switch: sixteen groups of two priorities, the same numbers.
    let plan = Plan {
        reserved: s,
        limit: Limit::dynamic(3).unwrap(),
        headroom: 1,
        shared: total - 16 * s,
        ..Plan::new(8)
    };
    let mut b = Bench::new(plan.params());
    (0..8).for_each(|port| b.block(port, Block::Hold));
    for (port, priority) in [(0, 3), (0, 4), (1, 3), (1, 4)] {
        b.fill_to_drop(port, 7, priority, frame as usize);
    }
    for (port, priority) in [(2, 3), (6, 4), (7, 3)] {
        assert!(
            (0..20).all(|_| b.send(port, if port == 7 { 0 } else { 7 }, priority, frame as usize).is_none())
        );
    }
}

#[test]
fn dev19_guarantees_that_do_not_fit_are_refused_at_start() {
    // Literal: 128 KiB for each VOQ of 8, 16, 32 ports.
    let kib = 1024;
    for (voqs, buffer) in [(256u64, 16 * kib * kib), (1024, 64 * kib * kib), (8192, 64 * kib * kib)] {
        assert!(voqs * 128 * kib > buffer);
    }
    let mut params = Plan { lossless: 0xff, headroom: 1, reserved: 128 * kib, ..Plan::new(32) }.mmu();
    params.total = 16 * kib * kib;
    let error = Mmu::new(params).unwrap_err();
    let MmuError::OverCommitted { reserved, sum, total, .. } = &error else { panic!("{error}") };
    assert_eq!((*reserved, *sum > *total), (256 * 128 * kib, true));
    assert!(error.to_string().contains(&sum.to_string()), "the message has the numbers: {error}");
}

#[test]
fn dev23_a_resume_resumes() {
    // Literal: on PAUSE paused = true and timer = quanta; each tick timer -= 1, resumed when it is 0.
    let (mut paused, mut timer) = (false, 0i64);
    let mut pause = |quanta: i64| (paused, timer) = (true, quanta);
    pause(1000);
    pause(0);
    for _ in 0..1_000_000 {
        timer -= 1;
        if timer == 0 {
            paused = false;
        }
    }
    assert!(paused, "permanent");
    let mut b = Bench::new(Plan::new(2).params());
    b.send(0, 1, 3, 100);
    b.control(1, &PfcFrame::uniform(1 << 3, 1000));
    assert!(b.pull_all(1).is_empty());
    b.control(1, &PfcFrame::uniform(1 << 3, 0));
    assert_eq!(b.pull_all(1).len(), 1);
}

#[test]
fn dev24_stop_above_the_high_line_go_below_the_low_one() {
    // Literal: pause when depth > pfc_xon (85 %), resume when depth < pfc_xoff (70 %), with the names and the figure
    // swapped: pause above the low line, resume below the high one.
    let (low, high) = (70_000, 85_000);
    let (mut paused, mut depth) = (false, 60_000i64);
    for step in 0..200 {
        depth += if paused || step % 2 == 1 { -1000 } else { 3000 };
        let before = paused;
        if !paused && depth > low {
            paused = true;
        }
        if paused && depth < high {
            paused = false;
        }
        if !before && depth > low && depth < high {
            assert!(!paused, "between the lines both rules hold and the pause undoes itself");
        }
    }
    assert!(
        depth >= high - 1000,
        "so the buffer is full to the high line before anybody is stopped: {depth}"
    );
    // The switch: stop above 85 000, go at 70 000, and nothing in between.
    let plan = Plan { limit: Limit::fixed(85_000), xon: 70_000, xon_offset: u64::MAX, ..Plan::new(2) };
    let mut b = Bench::new(plan.params());
    b.block(1, Block::Hold);
    assert_eq!(b.fill_to_xoff(0, 1, 3, 1000), 86);
    b.unblock(1);
    for left in (71..86).rev() {
        b.pull(1, 1);
        assert_eq!(b.pfc(0), None, "{left}");
    }
    b.pull(1, 1);
    assert_eq!(b.pfc(0).unwrap(), PfcFrame::uniform(1 << 3, 0));
}

#[test]
fn dev25_innocent_inputs_are_not_paused() {
    // Port 0 overloads the slow port 3; port 1 sends a little to it, port 2 something else to port 4.
    let mut params = Plan { rate: 10 * G, headroom: 50_000, ..Plan::new(5) }.params();
    (params.ports[3].generate.rate, params.ports[3].react.rate) = (G, G);
    let mut lab = Lab::star(&params, 500);
    lab.flow(0, Flow::new(3, 3, 1500));
    let little = lab.flow(1, Flow::new(3, 3, 1500).rate(G / 10));
    let other = lab.flow(2, Flow::new(4, 3, 1500).rate(9 * G));
    lab.run_until(30 * MS);
    // Literal: output 3 is congested, so pause every input connected to it.
    let connected = [0u16, 1, 2, 4];
    assert!(lab.switches[0].queue_bytes(PortId(3), 3) > 100_000);
    let paused: Vec<_> =
        connected.iter().filter(|p| !lab.testers[usize::from(**p)].pfc_log.is_empty()).collect();
    assert_eq!(paused, [&0], "only the input whose own bytes fill the buffer");
    assert!(lab.rx(little).frames > 200 && lab.rx(other).frames > 20_000);
    lab.assert_lossless();
}

#[test]
fn dev26_a_threshold_without_headroom_loses_frames() {
    let mut no_headroom = Plan::new(2).mmu();
    no_headroom.pgs[3].headroom = 0;
    assert!(matches!(Mmu::new(no_headroom), Err(MmuError::NoHeadroom { port: 0, pg: 3 })));
    // The nearest thing that starts: a headroom of one byte, and a sender 2 us away.
    let run = |headroom| {
        let plan = Plan { rate: 10 * G, headroom, shared: 100_000, ..Plan::new(3) };
        let mut lab = Lab::star(&plan.params(), 2000);
        (0..2).for_each(|from| assert!(lab.flow(from, Flow::new(2, 3, 1500)) > 0));
        lab.run_until(5 * MS);
        assert_eq!(lab.lost(), lab.drops(DropReason::IngressHeadroom));
        lab.lost()
    };
    assert!(run(1) > 0);
    // 2 * BW * t_prop + MTU(tx) + MTU(rx) + PFC frame, and the frame that crossed the line.
    let wire = 2 * 2000 * 10 / 8 + 2 * 1524 + 84 + 1500;
    assert_eq!(run(wire), 0);
}

#[test]
fn dev51_a_lost_resume_is_not_for_ever() {
    // Literal: a pause lasts until a RESUME arrives.
    let mut lab = Lab::star(&Plan { rate: 10 * G, quanta: 1000, ..Plan::new(2) }.params(), 500);
    lab.switches[0].hold_back(PortId(1), 0xff);
    let flow = lab.flow(0, Flow::new(1, 3, 1500));
    lab.run_until(5 * MS);
    assert!(lab.testers[0].paused_until[3] > lab.now);
    // The sender is deaf while the resume passes; its timer alone lets it go on.
    lab.testers[0].obeys = false;
    lab.switches[0].hold_back(PortId(1), 0);
    let (sent, now) = (lab.sent(flow), lab.now);
    lab.touch();
    lab.run_for(oracle::quanta_ns(1000, 10 * G) + 1000);
    assert!(lab.sent(flow) > sent, "after at most one pause time from {now}");
    // And a resume nobody asked for disturbs nobody.
    let mut b = Bench::new(Plan::new(2).params());
    b.control(1, &PfcFrame::uniform(0xff, 0));
    b.send(0, 1, 3, 100);
    assert_eq!(b.pull_all(1).len(), 1);
}

#[test]
fn dev52_pfc_is_a_mac_control_frame_and_never_forwarded() {
    // Literal: an IPv4 packet of protocol 0xfe to 255.255.255.255. That is data here, and is flooded.
    let mut b = Bench::new(Plan::new(3).params());
    let mut f = ipv4(host(0), weir_dataplane::types::Mac([0xff; 6]), 0, 0, 64);
    f[23] = 0xfe;
    f[30..34].fill(0xff);
    b.put(0, f);
    assert_eq!([1, 2].map(|port| b.pull_all(port).len()), [1, 1]);
    b.control(0, &PfcFrame::uniform(0xff, 1));
    assert_eq!([1, 2].map(|port| b.pull_all(port).len()), [0, 0]);
}
