//! Table A: classification.

use crate::harness::frames::{host, ipv4, ipv6, other, tagged};
use crate::harness::{Bench, Block, Plan, TEST_DSCP_OF_PRIORITY, classifier_of};
use weir_dataplane::classify::{Classifier, Maps, TrustSource};
use weir_dataplane::mmu::MmuParams;
use weir_dataplane::pfc::frame::PfcFrame;
use weir_dataplane::switch::SwitchParams;
use weir_dataplane::types::PortId;

/// The class of a DSCP or PCP under the maps of the reference suite, looked up by hand.
fn tc_of_dscp(dscp: u8) -> u8 {
    TEST_DSCP_OF_PRIORITY.iter().find(|(d, _)| *d == dscp).map_or(1, |(_, tc)| *tc)
}

fn tc_of_pcp(pcp: u8) -> u8 {
    match pcp {
        0 => 1,
        1 => 0,
        n => n,
    }
}

fn pg_of_tc(tc: u8) -> usize {
    if matches!(tc, 3 | 4 | 7) { usize::from(tc) } else { 0 }
}

fn maps() -> Maps {
    Maps {
        dscp_to_tc: std::array::from_fn(|d| tc_of_dscp(d as u8)),
        pcp_to_tc: std::array::from_fn(|p| tc_of_pcp(p as u8)),
        tc_to_pg: std::array::from_fn(|tc| pg_of_tc(tc as u8) as u8),
        ..Maps::default()
    }
}

fn params(classifier: &Classifier) -> SwitchParams {
    let mut params = Plan::new(2).params();
    params.mmu = MmuParams::lossy(2, 10_000_000);
    params.ports.iter_mut().for_each(|p| p.classifier = classifier.clone());
    params
}

/// Sends frames from port 0 to a blocked port 1 and says in which queue and group each was counted.
fn classes(classifier: &Classifier, frames: &[Vec<u8>]) -> Vec<(usize, usize)> {
    let mut b = Bench::new(params(classifier));
    b.block(1, Block::Hold);
    let mut classes = Vec::new();
    for frame in frames {
        let counts = |b: &Bench| {
            let queues: [u32; 8] = std::array::from_fn(|q| b.s.queue_frames(PortId(1), q));
            (queues, b.stats(0).pg_packets, std::array::from_fn::<_, 8, _>(|pg| b.pg(0, pg as u8).used))
        };
        let before = counts(&b);
        b.put(0, frame.clone());
        let after = counts(&b);
        let one = |grown: Vec<usize>| {
            assert_eq!(grown.len(), 1, "exactly one counter rises");
            grown[0]
        };
        let queue = one((0..8).filter(|q| after.0[*q] == before.0[*q] + 1).collect());
        let pg = one((0..8).filter(|g| after.1[*g] == before.1[*g] + 1).collect());
        let charged = one((0..8).filter(|g| after.2[*g] == before.2[*g] + frame.len() as u64).collect());
        assert_eq!(pg, charged, "the counter and the charge agree");
        classes.push((queue, pg));
    }
    b.unblock(1);
    let mut sent = b.pull_all(1);
    let mut want = frames.to_vec();
    sent.sort();
    want.sort();
    assert!(sent == want, "every frame leaves unchanged");
    classes
}

#[test]
fn a1_a2_every_dscp_meets_its_queue_and_group() {
    let frames: Vec<_> = (0..64).map(|d| ipv4(host(0), host(1), d, 0, 64)).collect();
    for (dscp, (queue, pg)) in classes(&classifier_of(&maps()), &frames).into_iter().enumerate() {
        let tc = tc_of_dscp(dscp as u8);
        assert_eq!((queue, pg), (usize::from(tc), pg_of_tc(tc)), "DSCP {dscp}");
    }
}

#[test]
fn a3_pcp_of_the_outer_tag_decides() {
    let plain = ipv4(host(0), host(1), 46, 0, 64);
    let single: Vec<_> = (0..8).map(|p| tagged(&plain, 0x8100, p)).collect();
    let double: Vec<_> = (0..8).map(|p| tagged(&tagged(&plain, 0x8100, 7 - p), 0x88a8, p)).collect();
    for frames in [single, double] {
        for (pcp, (queue, pg)) in classes(&classifier_of(&maps()), &frames).into_iter().enumerate() {
            let tc = tc_of_pcp(pcp as u8);
            assert_eq!((queue, pg), (usize::from(tc), pg_of_tc(tc)), "PCP {pcp}");
        }
    }
}

#[test]
fn a4_the_traffic_class_of_ipv6_is_a_dscp() {
    let frames: Vec<_> = (0..64).map(|d| ipv6(host(0), host(1), d, 0, 80)).collect();
    for (dscp, (queue, pg)) in classes(&classifier_of(&maps()), &frames).into_iter().enumerate() {
        let tc = tc_of_dscp(dscp as u8);
        assert_eq!((queue, pg), (usize::from(tc), pg_of_tc(tc)), "DSCP {dscp}");
    }
}

#[test]
fn a5_the_port_default_and_the_order_of_trust() {
    let maps = Maps { port_tc: 5, ..maps() };
    let (ip, raw) = (ipv4(host(0), host(1), 48, 0, 64), other(host(0), host(1), 64));
    let class = |trust: &[TrustSource], frame: &[u8]| {
        classes(&Classifier::new(&maps, trust).unwrap(), &[frame.to_vec()])[0].0
    };
    use TrustSource::{Dscp, Pcp, Port};
    assert_eq!(class(&[Pcp, Dscp], &raw), 5, "untagged, not IP");
    assert_eq!(class(&[Pcp], &ip), 5, "untagged IP where PCP is trusted");
    assert_eq!(class(&[Dscp], &tagged(&raw, 0x8100, 7)), 5, "tagged, not IP, where DSCP is trusted");
    let tagged_ip = tagged(&ip, 0x8100, 2);
    assert_eq!(class(&[Pcp, Dscp], &tagged_ip), 2, "the first source wins");
    assert_eq!(class(&[Dscp, Pcp], &tagged_ip), 6);
    assert_eq!(class(&[Port, Dscp], &tagged_ip), 5);
}

#[test]
fn a6_pfc_is_sent_and_obeyed_on_the_mapped_index_only() {
    // Priority 3 is held by group 6 and waits in queue 1; priority 4 by group 7 in queue 2.
    let mut plan = Plan::new(2);
    plan.lossless = 0b1100_0000;
    let mut params = plan.params();
    let maps =
        Maps { tc_to_pg: [0, 0, 0, 6, 7, 0, 0, 0], tc_to_queue: [0, 5, 6, 1, 2, 3, 4, 7], ..Maps::default() };
    for port in &mut params.ports {
        port.classifier = classifier_of(&maps);
        (port.pg_priorities, port.pg_queues) = ([0; 8], [0; 8]);
        (port.pg_priorities[6], port.pg_queues[6]) = (1 << 3, 1 << 1);
        (port.pg_priorities[7], port.pg_queues[7]) = (1 << 4, 1 << 2);
        (port.generate.enabled, port.react.enabled) = (0b0001_1000, 0b0001_1000);
        port.react.pfc_to_queue = [0, 5, 6, 1, 2, 3, 4, 7];
    }
    params.mmu.queues.iter_mut().for_each(|q| q.limit = weir_dataplane::mmu::Limit::UNLIMITED);
    let mut b = Bench::new(params);
    b.block(1, Block::Hold);
    b.fill_to_xoff(0, 1, 3, 1500);
    assert_eq!(b.s.generator(PortId(0)).paused_mask(), 1 << 3);
    let cause = b.s.generator(PortId(0)).cause(3).unwrap();
    assert_eq!((cause.out_port, cause.queue), (1, 1));
    b.send(0, 1, 4, 100);
    b.s.hold_back(PortId(1), 0);
    b.control(1, &PfcFrame::uniform(1 << 3, 0xffff));
    assert_eq!(b.pull_all(1).len(), 1, "priority 4 goes on");
    assert_eq!(b.s.queue_frames(PortId(1), 2), 0);
    assert!(b.s.queue_frames(PortId(1), 1) > 0, "priority 3 waits in its queue");
    b.control(1, &PfcFrame::uniform(1 << 1, 0));
    assert!(b.pull_all(1).is_empty(), "resuming priority 1 resumes nothing of priority 3");
    b.control(1, &PfcFrame::uniform(1 << 3, 0));
    assert!(!b.pull_all(1).is_empty());
    assert_eq!(b.pfc(0).unwrap(), PfcFrame::uniform(1 << 3, 0));
}

#[test]
fn a6_all_priorities_of_a_group_are_paused_and_resumed_for_it() {
    // Priorities 3 and 4 share group 3: frames of 3 alone fill it, but either would go into its headroom.
    let mut plan = Plan::new(2);
    plan.lossless = 1 << 3;
    let mut params = plan.params();
    let mut maps = Maps::default();
    maps.tc_to_pg[4] = 3;
    for port in &mut params.ports {
        port.classifier = classifier_of(&maps);
        (port.pg_priorities[3], port.pg_priorities[4]) = (0b0001_1000, 0);
        (port.pg_queues[3], port.generate.enabled) = (0b0001_1000, 0b0001_1000);
    }
    let mut b = Bench::new(params);
    b.block(1, Block::Hold);
    let both = |quanta| PfcFrame::uniform(0b0001_1000, quanta);
    let told = (0..1000).find_map(|_| {
        assert_eq!(b.send(0, 1, 3, 1500), None);
        b.pfc(0)
    });
    assert_eq!(told, Some(both(0xffff)));
    b.unblock(1);
    b.pull_all(1);
    assert_eq!(b.pfc(0), Some(both(0)));
}

#[test]
fn a7_a_new_map_takes_new_frames_and_leaves_old_ones_alone() {
    let mut b = Bench::new(params(&classifier_of(&Maps::default())));
    b.block(1, Block::Hold);
    let frame = |n: u64| {
        let mut f = ipv4(host(0), host(1), 24, 0, 64);
        crate::harness::frames::stamp(&mut f, 1, n);
        f
    };
    (0..10).for_each(|n| b.put(0, frame(n)));
    let mut map = Maps::default();
    map.dscp_to_tc[24] = 2;
    b.s.reclassify(PortId(0), classifier_of(&map));
    (10..20).for_each(|n| b.put(0, frame(n)));
    assert_eq!([2, 3].map(|q| b.s.queue_frames(PortId(1), q)), [10, 10]);
    assert_eq!([2, 3].map(|g| b.pg(0, g).used), [640, 640]);
    b.unblock(1);
    let order: Vec<_> = b.pull_all(1).iter().map(|f| crate::harness::frames::stamp_of(f).1).collect();
    assert_eq!(order, (0..20).collect::<Vec<_>>(), "none lost, old ones in order, new ones in order");
    assert_eq!([2, 3].map(|g| b.pg(0, g).used), [0, 0]);
}

#[test]
fn a8_ecn_bits_do_not_classify() {
    for ecn in 0..4 {
        for make in [ipv4, ipv6] {
            let frames: Vec<_> = (0..64).map(|d| make(host(0), host(1), d, ecn, 80)).collect();
            for (dscp, (queue, _)) in classes(&classifier_of(&maps()), &frames).into_iter().enumerate() {
                assert_eq!(queue, usize::from(tc_of_dscp(dscp as u8)));
            }
        }
    }
}
