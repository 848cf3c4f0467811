//! Table B: shared buffer admission, against closed forms.

use crate::harness::frames::{host, ipv4};
use crate::harness::{Bench, Block, Flow, G, Lab, Plan, oracle, seed};
use weir_dataplane::drops::DropReason;
use weir_dataplane::mmu::{Admission, Limit, PoolId};
use weir_dataplane::rng::Rng;
use weir_dataplane::switch::Change;
use weir_dataplane::types::PortId;

fn blocked(plan: &Plan, how: Block) -> Bench {
    let mut b = Bench::new(plan.params());
    (0..plan.ports as u16).for_each(|port| b.block(port, how));
    b
}

#[test]
fn b1_one_group_meets_its_threshold() {
    for how in [Block::Hold, Block::Storm] {
        for reserved in [0, 9000, 12_345] {
            for size in [64, 1500, 9000] {
                let plan = Plan { reserved, ..Plan::new(2) };
                let got = blocked(&plan, how).fill_to_xoff(0, 1, 3, size);
                assert_eq!(
                    got,
                    oracle::xoff_frame(plan.shared, (1, 1), reserved, size as u64),
                    "{how:?} {size}"
                );
            }
        }
    }
}

/// 13 071 cells of 208 bytes, 6 of them guaranteed to each group: what a Tomahawk publishes.
fn tomahawk(ports: usize) -> Plan {
    let cell = 208;
    Plan { shared: 13_071 * cell, reserved: 6 * cell, headroom: 520 * cell, ..Plan::new(ports) }
}

fn in_cells(plan: &Plan) -> Bench {
    let mut params = plan.params();
    params.mmu.cell_bytes = 208;
    let mut b = Bench::new(params);
    (0..plan.ports as u16).for_each(|port| b.block(port, Block::Hold));
    b
}

#[test]
fn b1_tomahawk_pauses_at_packet_6542() {
    assert_eq!(in_cells(&tomahawk(2)).fill_to_xoff(0, 1, 3, 64), 6542);
}

#[test]
fn b2_tomahawk_pauses_ten_groups_at_packet_1194() {
    // Five ports, priorities 3 and 4 of each, filled in turn towards the sixth.
    let mut b = in_cells(&tomahawk(6));
    let groups: Vec<_> = (0..5).flat_map(|port| [(port, 3), (port, 4)]).collect();
    let mut xoff: Vec<Option<u64>> = vec![None; groups.len()];
    for n in 1..=1300 {
        for (i, &(port, priority)) in groups.iter().enumerate() {
            if xoff[i].is_none() {
                assert_eq!(b.send(port, 5, priority, 64), None);
                xoff[i] = b.pfc(port).map(|_| n);
            }
        }
    }
    // 1194.27 packets are each group's share: none pauses within it, all do at the first packet beyond, but for
    // the two that had their turn before the sum was reached.
    assert_eq!(xoff, [1196, 1196, 1195, 1195, 1195, 1195, 1195, 1195, 1195, 1195].map(Some));
}

#[test]
fn b2_equal_groups_share_alike() {
    for n in [1u64, 2, 3, 7, 12] {
        for th in [-2, 0, 1, 3] {
            for (reserved, size) in [(3000, 1000), (0, 1000), (12_345, 64), (500, 9000)] {
                let plan = Plan { reserved, limit: Limit::dynamic(th).unwrap(), ..Plan::new(13) };
                let mut b = blocked(&plan, Block::Hold);
                let mut got = vec![0; n as usize];
                for round in 1.. {
                    for port in (0..n as u16).filter(|p| got[usize::from(*p)] == 0).collect::<Vec<_>>() {
                        assert_eq!(b.send(port, 12, 3, size as usize), None);
                        if b.pfc(port).is_some() {
                            got[usize::from(port)] = round;
                        }
                    }
                    if !got.contains(&0) {
                        break;
                    }
                }
                let what = format!("alpha 2^{th}, {n} groups of {reserved} and frames of {size}");
                assert_eq!(
                    got,
                    oracle::xoff_frames_in_turn(plan.shared, oracle::alpha(th), reserved, size, n),
                    "{what}"
                );
                // The first frame over the closed form, or one more where its turn came before the sum was reached.
                let first = (oracle::fair_share(plan.shared, oracle::alpha(th), n) + reserved) / size + 1;
                assert!(
                    got.iter().all(|frame| (first..=first + 1).contains(frame)),
                    "{what}: {got:?}, {first}"
                );
            }
        }
    }
}

#[test]
fn b3_every_alpha_and_a_constant() {
    for th in -8..=7 {
        let plan = Plan { limit: Limit::dynamic(th).unwrap(), ..Plan::new(2) };
        let got = blocked(&plan, Block::Hold).fill_to_xoff(0, 1, 3, 100);
        assert_eq!(got, oracle::xoff_frame(plan.shared, oracle::alpha(th), 0, 100), "alpha 2^{th}");
    }
    let plan = Plan { limit: Limit::fixed(70_000), reserved: 1000, ..Plan::new(2) };
    let mut b = blocked(&plan, Block::Hold);
    assert_eq!(b.fill_to_xoff(0, 1, 3, 100), 711);
    assert_eq!(b.fill_to_xoff(0, 1, 4, 100), 711, "whatever others hold");
}

#[test]
fn b4_the_first_drop_is_one_headroom_after_xoff() {
    for (headroom, size) in [(100_000u64, 1000usize), (99_999, 1000), (64_000, 64), (30_000, 9000)] {
        for th in [-3, 0, 4] {
            let plan = Plan { headroom, limit: Limit::dynamic(th).unwrap(), ..Plan::new(3) };
            let mut b = blocked(&plan, Block::Hold);
            let xoff = b.fill_to_xoff(0, 1, 3, size);
            let (more, reason) = b.fill_to_drop(0, 1, 3, size);
            assert_eq!(reason, DropReason::IngressHeadroom);
            let alpha = oracle::alpha(th);
            let shared = oracle::crossing_frame_is_shared(plan.shared, alpha, 0, size as u64);
            let want = headroom / size as u64 - u64::from(!shared);
            assert_eq!(more, want, "Xoff at {xoff}, frames of {size}");
            assert_eq!((b.stats(0).pg_drops, b.stats(0).drops.total()), ([0, 0, 0, 1, 0, 0, 0, 0], 1));
            assert_eq!((b.stats(1).drops.total(), b.stats(1).queue_drops), (0, [0; 8]));
        }
    }
}

#[test]
fn b5_nobody_takes_anothers_private_headroom() {
    let plan = Plan { headroom: 50_000, ..Plan::new(4) };
    let mut b = blocked(&plan, Block::Hold);
    b.fill_to_xoff(0, 3, 3, 1000);
    let other_xoff = b.fill_to_xoff(1, 3, 3, 1000);
    assert!(other_xoff > 0);
    // Port 0 overruns without end; port 1 and another priority of port 0 still have all of theirs.
    b.fill_to_drop(0, 3, 3, 1000);
    (0..200).for_each(|_| assert_eq!(b.send(0, 3, 3, 1000), Some(DropReason::IngressHeadroom)));
    for (port, priority) in [(1, 3), (0, 4)] {
        if priority == 4 {
            b.fill_to_xoff(port, 3, priority, 1000);
        }
        let before = b.pg(port, priority).headroom;
        let (more, _) = b.fill_to_drop(port, 3, priority, 1000);
        assert_eq!(before + 1000 * more, 50_000);
    }
}

#[test]
fn b6_shared_headroom_pool() {
    // Twelve groups of 520 cells share 5041: nine take all theirs, the tenth 361, the others none.
    let cell = 208;
    let plan = Plan { headroom_pool: Some(5041 * cell), ..tomahawk(7) };
    let mut b = in_cells(&plan);
    let groups: Vec<_> = (0..6).flat_map(|port| [(port, 3), (port, 4)]).collect();
    for &(port, priority) in &groups {
        b.fill_to_xoff(port, 6, priority, 64);
    }
    let mut took = Vec::new();
    for &(port, priority) in &groups {
        assert_eq!(b.fill_to_drop(port, 6, priority, 64).1, DropReason::IngressHeadroom);
        took.push(b.pg(port, priority).headroom / cell);
    }
    // Frames that crossed the line may sit in headroom since their Xoff.
    let early: u64 = took[10..].iter().sum();
    assert_eq!(took[..9], [520; 9]);
    assert_eq!(took[9] + early, 361);
    assert!(early <= 2);
    assert_eq!(b.s.admission().pools().headroom_used, 5041 * cell);
    assert_eq!(b.lost(), 12);
}

#[test]
fn b7_a_guaranteed_minimum_is_there_when_the_pool_is_gone() {
    let plan = Plan { reserved: 20_000, limit: Limit::dynamic(7).unwrap(), headroom: 1, ..Plan::new(4) };
    let mut b = blocked(&plan, Block::Hold);
    b.fill_to_drop(0, 3, 3, 1000);
    b.fill_to_drop(1, 3, 3, 1000);
    for (port, priority) in [(0, 4), (2, 3), (2, 4)] {
        for _ in 0..20 {
            assert_eq!(b.send(port, 3, priority, 1000), None);
        }
        assert_eq!(b.pg(port, priority).used, 20_000);
        assert!(b.pfc(port).is_none_or(|f| f.enable >> priority & 1 == 0), "no pause inside it");
    }
}

#[test]
fn b7_a_lossy_group_has_its_minimum_too() {
    let mut params = Plan { limit: Limit::dynamic(7).unwrap(), headroom: 1, ..Plan::new(4) }.params();
    // Group 0 of port 2 has a minimum, group 1 has none; their queues take what comes.
    params.mmu.pgs[2 * 8].reserved = 20_000;
    params.mmu.total += 20_000;
    for queue in &mut params.mmu.queues {
        (queue.limit, queue.pool) = (Limit::UNLIMITED, PoolId::Lossless);
    }
    let mut b = Bench::new(params);
    (0..4).for_each(|port| b.block(port, Block::Hold));
    b.fill_to_drop(0, 3, 3, 1000);
    b.fill_to_drop(1, 3, 3, 1000);
    let free = b.s.admission().pools().shared_size - b.s.admission().pools().shared_used;
    assert!(free < 10_000, "the pool is gone but for {free} bytes");
    let held = |b: &mut Bench, priority| b.fill_to_drop(2, 3, priority, 1000).0;
    assert_eq!(held(&mut b, 1), free / 1000);
    assert_eq!(held(&mut b, 0), 20, "its minimum and no more");
    assert_eq!(b.pfc(2), None);
}

#[test]
fn b8_a_lossy_queue_ends_at_its_threshold() {
    for size in [64, 1000, 9000] {
        let plan = Plan::new(2);
        let mut b = blocked(&plan, Block::Hold);
        let (held, reason) = b.fill_to_drop(0, 1, 0, size);
        assert_eq!(held, oracle::lossy_frames(plan.shared, (1, 1), size as u64));
        assert!((held * size as u64).abs_diff(plan.shared / 2) <= size as u64);
        assert_eq!(reason, DropReason::EgressQueueFull);
        assert_eq!((b.stats(0).drops.total(), b.stats(0).pg_drops), (0, [0; 8]));
        assert_eq!(b.stats(1).queue_drops, [1, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!((b.pfc(0), b.pfc(1)), (None, None));
    }
}

#[test]
fn b9_two_sources_share_one_lossy_queue() {
    let plan = Plan::new(3);
    let mut b = blocked(&plan, Block::Hold);
    let mut drops = [0; 2];
    for _ in 0..600 {
        for port in 0..2 {
            drops[usize::from(port)] += u64::from(b.send(port, 2, 0, 1000).is_some());
        }
    }
    let held = oracle::lossy_frames(plan.shared, (1, 1), 1000);
    assert_eq!(u64::from(b.s.queue_frames(PortId(2), 0)), held);
    assert_eq!((drops[0] + drops[1], b.stats(2).queue_drops[0]), (1200 - held, 1200 - held));
    assert!(drops[0] > 0 && drops[1] > 0);
}

#[test]
fn b10_lossy_cannot_hurt_lossless() {
    let plan = Plan::new(3);
    let mut b = blocked(&plan, Block::Hold);
    // Four lossy queues fill all they may.
    for priority in [0, 1, 2, 5] {
        b.fill_to_drop(0, 2, priority, 1000);
    }
    let lossy = b.s.admission().held_bytes();
    let xoff = b.fill_to_xoff(1, 2, 3, 1000);
    assert_eq!(
        xoff,
        oracle::xoff_frame(plan.shared - lossy, (1, 1), 0, 1000),
        "the threshold shrinks as DT says"
    );
    let before = b.pg(1, 3).headroom;
    let (more, _) = b.fill_to_drop(1, 2, 3, 1000);
    assert_eq!(before + more * 1000, plan.headroom, "and the headroom is untouched");
}

#[test]
fn b10_lossy_never_enters_headroom() {
    let plan = Plan { limit: Limit::dynamic(7).unwrap(), ..Plan::new(3) };
    let mut b = blocked(&plan, Block::Hold);
    b.fill_to_drop(0, 2, 3, 1000);
    assert_eq!(b.pg(0, 3).headroom, plan.headroom);
    let free = plan.shared - b.pg(0, 3).shared;
    let (held, reason) = b.fill_to_drop(1, 2, 0, 1000);
    assert_eq!((held, reason), (free / 1000, DropReason::IngressBufferFull));
    assert_eq!(b.s.admission().pools().headroom_used, plan.headroom);
    assert_eq!(b.pg(1, 0).headroom, 0);
}

#[test]
fn b11_lossless_is_never_dropped_at_egress() {
    // All that may be held is held for one queue: shared, headrooms, minimums, and flooded copies.
    for th in [0, 7] {
        let plan = Plan { reserved: 5000, limit: Limit::dynamic(th).unwrap(), ..Plan::new(5) };
        let mut b = blocked(&plan, Block::Hold);
        for port in 0..4 {
            for priority in [3, 4] {
                assert_eq!(b.fill_to_drop(port, 4, priority, 1000).1, DropReason::IngressHeadroom);
            }
        }
        for port in 0..5 {
            assert_eq!(b.stats(port).queue_drops, [0; 8]);
        }
    }
    let plan = Plan::new(5);
    let mut b = blocked(&plan, Block::Hold);
    let broadcast = ipv4(host(0), weir_dataplane::types::Mac([0xff; 6]), 24, 0, 1000);
    (0..700).for_each(|_| b.put(0, broadcast.clone()));
    assert!(b.drops(DropReason::IngressHeadroom) > 0);
    for port in 0..5 {
        assert_eq!(b.stats(port).queue_drops, [0; 8]);
    }
}

#[test]
fn b12_reserves_to_the_last_byte() {
    let plan = Plan { shared: 0, reserved: 30_000, ..Plan::new(4) };
    let mut b = blocked(&plan, Block::Hold);
    let groups: Vec<_> = (0..4).flat_map(|port| [(port, 3), (port, 4)]).collect();
    for &(port, priority) in &groups {
        for _ in 0..30 {
            assert_eq!(b.send(port, (port + 1) % 4, priority, 1000), None);
            assert_eq!(b.pfc(port), None);
        }
    }
    assert_eq!(b.s.admission().held_bytes(), 8 * 30_000);
    for &(port, priority) in &groups {
        assert_eq!(b.send(port, (port + 1) % 4, priority, 64), None);
        assert_eq!(b.pfc(port).unwrap().enable, 1 << priority);
    }
}

#[test]
fn b13_random_load_is_conserved_and_drains_to_nothing() {
    let mut rng = Rng::new(seed(13));
    let plan = Plan { reserved: 2000, shared: 200_000, headroom: 20_000, ..Plan::new(6) };
    let mut b = Bench::new(plan.params());
    let mut pick = |n: u64| rng.next_u64() % n;
    for _ in 0..40_000 {
        let (port, len) = (pick(6) as u16, 64 + pick(9000) as usize);
        match pick(10) {
            0..=5 => {
                let to = (port + 1 + pick(5) as u16) % 6;
                b.send(port, to, pick(8) as u8, len);
            }
            6 => b.put(port, ipv4(host(port), weir_dataplane::types::Mac([0xff; 6]), pick(64) as u8, 0, len)),
            7 => b.s.hold_back(PortId(port), pick(256) as u8),
            _ => drop(b.pull(port, pick(40) as usize)),
        }
    }
    assert!(b.lost() > 100, "the load was heavy enough to mean something");
    (0..6).for_each(|port| b.s.hold_back(PortId(port), 0));
    (0..6).for_each(|port| drop(b.pull_all(port)));
    let mmu = b.s.admission();
    assert_eq!((b.s.held(), mmu.held_bytes(), mmu.queued_bytes(), mmu.pools().shared_used), (0, 0, 0, 0));
    assert_eq!(mmu.pools().headroom_used, 0);
    for port in 0..6 {
        assert!((0..8).all(|pg| b.pg(port, pg).used + b.pg(port, pg).headroom == 0 && !b.pg(port, pg).xoff));
        assert_eq!(
            b.pfc(port).map_or(0, |f| f.time.iter().map(|t| u32::from(*t)).sum()),
            0,
            "nobody stays paused"
        );
        assert_eq!(b.s.generator(PortId(port)).paused_mask(), 0);
    }
}

#[test]
fn b14_sizes_and_mixes() {
    // One size at a time: Xoff, drop and tail drop as the closed forms say, for sizes that divide nothing.
    for size in [64u64, 65, 127, 1499, 1518, 4097, 9215, 9216] {
        let plan = Plan { reserved: 777, ..Plan::new(2) };
        let mut b = blocked(&plan, Block::Hold);
        assert_eq!(
            b.fill_to_xoff(0, 1, 3, size as usize),
            oracle::xoff_frame(plan.shared, (1, 1), 777, size)
        );
        let shared = oracle::crossing_frame_is_shared(plan.shared, (1, 1), 777, size);
        let (more, _) = b.fill_to_drop(0, 1, 3, size as usize);
        assert_eq!(more, plan.headroom / size - u64::from(!shared));
        let mut b = blocked(&plan, Block::Hold);
        // The lossy egress pool covers the four minimums as well.
        let pool = plan.shared + 4 * 777;
        assert_eq!(b.fill_to_drop(0, 1, 0, size as usize).0, oracle::lossy_frames(pool, (1, 1), size));
    }
    // The same in cells: what counts is the frame rounded up, whether cells are a power of two or not.
    for cell in [208u64, 256, 144] {
        for size in [64u64, 207, 208, 209, 256, 257, 1500, 9216] {
            let charge = size.div_ceil(cell) * cell;
            let plan = Plan { reserved: 5 * cell, ..Plan::new(2) };
            let new = || {
                let mut params = plan.params();
                params.mmu.cell_bytes = cell as u32;
                let mut b = Bench::new(params);
                (0..2).for_each(|port| b.block(port, Block::Hold));
                b
            };
            let mut b = new();
            let xoff = oracle::xoff_frame(plan.shared, (1, 1), plan.reserved, charge);
            assert_eq!(b.fill_to_xoff(0, 1, 3, size as usize), xoff, "{size} in cells of {cell}");
            let shared = oracle::crossing_frame_is_shared(plan.shared, (1, 1), plan.reserved, charge);
            let more = plan.headroom / charge - u64::from(!shared);
            assert_eq!(b.fill_to_drop(0, 1, 3, size as usize).0, more, "{size} in cells of {cell}");
            let pool = plan.shared + 4 * plan.reserved;
            assert_eq!(
                new().fill_to_drop(0, 1, 0, size as usize).0,
                oracle::lossy_frames(pool, (1, 1), charge)
            );
        }
    }
    // A mix: the frame that sends Xoff is the first whose bytes leave the threshold behind.
    let mut rng = Rng::new(seed(14));
    for _ in 0..20 {
        let plan = Plan::new(2);
        let mut b = blocked(&plan, Block::Hold);
        let mut bytes = 0;
        loop {
            let size = 64 + rng.next_u64() % 9153;
            assert_eq!(b.send(0, 1, 3, size as usize), None);
            bytes += size;
            let over = bytes > plan.shared - bytes;
            assert_eq!(b.pfc(0).is_some(), over, "{bytes}");
            if over {
                break;
            }
        }
        // From there on a frame goes to headroom, unless it is small enough for what is left below the threshold;
        // lost is the first that fits neither.
        let (mut shared, mut headroom) = (b.pg(0, 3).shared, b.pg(0, 3).headroom);
        assert_eq!(shared + headroom, bytes);
        loop {
            let size = 64 + rng.next_u64() % 9153;
            let (below, within) = (shared + size <= plan.shared - shared, headroom + size <= plan.headroom);
            assert_eq!(
                b.send(0, 1, 3, size as usize).is_none(),
                below || within,
                "{size} on top of {headroom}"
            );
            match (below, within) {
                (true, _) => shared += size,
                (_, true) => headroom += size,
                _ => break,
            }
            assert_eq!((b.pg(0, 3).shared, b.pg(0, 3).headroom), (shared, headroom));
        }
        // A lossy queue refuses the first frame that does not fit what its limit is without that frame.
        let mut b = blocked(&plan, Block::Hold);
        let mut held = 0;
        loop {
            let size = 64 + rng.next_u64() % 9153;
            let lost = b.send(0, 1, 0, size as usize);
            assert_eq!(lost.is_some(), held + size > plan.shared - held, "{size} on top of {held}");
            if lost.is_some() {
                break;
            }
            held += size;
        }
    }
}

#[test]
fn b15_limits_change_under_load() {
    let plan = Plan::new(3);
    let mut b = blocked(&plan, Block::Hold);
    (0..400).for_each(|_| assert_eq!(b.send(0, 2, 3, 1000), None));
    assert_eq!(b.pfc(0), None);
    // A smaller alpha: the next frame pauses, and it is not lost.
    let mut less = Plan { limit: Limit::dynamic(-2).unwrap(), ..plan.clone() }.mmu();
    b.s.admission_mut().apply(less.clone()).unwrap();
    assert_eq!(b.send(0, 2, 3, 1000), None);
    assert!(b.pfc(0).is_some());
    // Less shared pool than is in use, and more headroom (a longer cable) out of it.
    let total = less.total;
    for pg in less.pgs.iter_mut().filter(|pg| pg.lossless) {
        pg.headroom = 240_000;
    }
    less.headroom_pool = Some(1_500_000);
    b.s.admission_mut().apply(less.clone()).unwrap();
    assert_eq!(less.total, total);
    let before = b.pg(0, 3).headroom;
    let (more, reason) = b.fill_to_drop(0, 2, 3, 1000);
    assert_eq!((before + 1000 * more, reason), (240_000, DropReason::IngressHeadroom));
    // Shrunk to hardly anything while full: nothing underflows, all of it leaves, and Xon follows.
    let mut tiny = Plan { headroom: 1000, ..plan.clone() }.mmu();
    (tiny.total, tiny.headroom_pool) = (total, Some(total - 2000));
    b.s.admission_mut().apply(tiny).unwrap();
    b.s.hold_back(PortId(2), 0);
    let lost = b.lost();
    b.now += 1;
    assert_eq!(b.pull_all(2).len(), 400 + 1 + more as usize);
    assert_eq!(b.pfc(0).unwrap().time[3], 0);
    assert_eq!((b.lost(), b.s.admission().held_bytes()), (lost, 0));
    // Back to the start: the old threshold to the frame.
    b.s.admission_mut().apply(plan.mmu()).unwrap();
    b.block(2, Block::Hold);
    assert_eq!(b.fill_to_xoff(0, 2, 3, 1000), oracle::xoff_frame(plan.shared, (1, 1), 0, 1000));
}

#[test]
fn b15_nothing_lossless_is_lost_however_limits_move() {
    // Two senders to one port and a third in the other direction; every 50 us another alpha, reserve, cable (that is
    // headroom: never below what the links need), resume point, headroom pool and size of the shared pool.
    let mut rng = Rng::new(seed(15));
    let need = 12_000;
    let plan = Plan { rate: 10 * G, headroom: need, shared: 400_000, ..Plan::new(4) };
    let mut old = plan.params();
    let mut lab = Lab::star(&old, 500);
    for (from, to) in [(0, 3), (1, 3), (3, 2)] {
        for priority in [3, 4] {
            lab.flow(from, Flow::new(to, priority, 1500));
        }
    }
    let mut alphas = [0; 16];
    for _ in 0..600 {
        lab.run_for(50_000);
        let mut pick = |n: u64| rng.next_u64() % n;
        let th = pick(16) as i8 - 8;
        alphas[(th + 8) as usize] += 1;
        let other = Plan {
            limit: if pick(8) == 0 { Limit::fixed(pick(200_000)) } else { Limit::dynamic(th).unwrap() },
            reserved: pick(4) * 2000,
            headroom: need + pick(30_000),
            xon: pick(2) * pick(20_000),
            xon_offset: pick(50_000),
            ..plan.clone()
        };
        let mut new = other.params();
        new.mmu.total = plan.mmu().total;
        let all = new.mmu.headroom();
        new.mmu.headroom_pool = (pick(2) == 0).then_some(all);
        if new.mmu.shared().is_err() {
            continue;
        }
        let mut change = Change::between(&old, &new).unwrap();
        let now = lab.now;
        lab.switches[0].apply(&mut change, now).unwrap();
        lab.touch();
        old = new;
    }
    assert!(alphas.iter().all(|n| *n > 10));
    assert!(lab.xoffs() > 300);
    lab.assert_lossless();
    lab.testers.iter_mut().flat_map(|t| &mut t.flows).for_each(|f| f.stop = 0);
    lab.run_for(20_000_000);
    let mmu = lab.switches[0].admission();
    assert_eq!((mmu.held_bytes(), mmu.pools().shared_used, mmu.pools().headroom_used), (0, 0, 0));
}

#[test]
fn b15_a_buffer_divided_anew_while_it_is_full_holds_no_more_than_it_has() {
    // The shared pool is full; then most of it is made headroom, or reserves. The bench looks after every frame
    // whether more is held than there is.
    for reserved in [0, 100_000] {
        let plan = Plan { limit: Limit::dynamic(7).unwrap(), ..Plan::new(5) };
        let mut b = blocked(&plan, Block::Hold);
        for port in 0..2 {
            b.fill_to_drop(port, 4, 3, 1000);
        }
        let mut new = Plan { reserved, ..plan.clone() }.mmu();
        new.total = plan.mmu().total;
        new.headroom_pool = Some(new.total - new.reserved());
        if reserved == 0 {
            new.pgs.iter_mut().filter(|pg| pg.lossless).for_each(|pg| pg.headroom = 400_000);
        }
        assert_eq!(new.shared(), Ok(0));
        b.s.admission_mut().apply(new.clone()).unwrap();
        for port in 0..4 {
            for priority in [3, 4] {
                b.fill_to_drop(port, 4, priority, 1000);
            }
        }
        assert!(b.s.admission().held_bytes() > new.total - 1000, "and all it has is of use");
        b.unblock(4);
        b.pull_all(4);
        // Emptied, it is what the new division says.
        b.block(4, Block::Hold);
        b.fill_to_drop(0, 4, 3, 1000);
        assert_eq!(b.pg(0, 3).used + b.pg(0, 3).headroom, reserved + new.pgs[3].headroom);
    }
}

#[test]
fn b16_a_flooded_frame_is_charged_once_and_queued_n_times() {
    let mut b = blocked(&Plan::new(5), Block::Hold);
    let flooded = ipv4(host(0), host(77), 0, 0, 1000);
    (0..10).for_each(|_| b.put(0, flooded.clone()));
    assert_eq!(b.pg(0, 0).used, 10_000);
    assert_eq!(b.s.admission().queued_bytes(), 40_000);
    for port in 1..5 {
        b.s.hold_back(PortId(port), 0);
        assert_eq!(b.pull_all(port).len(), 10);
        let left = u64::from(4 - port);
        assert_eq!(b.pg(0, 0).used, if left > 0 { 10_000 } else { 0 }, "held until the last copy");
        assert_eq!(b.s.admission().queued_bytes(), left * 10_000);
    }
}

#[test]
fn b16_a_flood_sends_xoff_and_xon_like_any_frame() {
    let plan = Plan { reserved: 2000, ..Plan::new(4) };
    let mut b = blocked(&plan, Block::Hold);
    let flooded = ipv4(host(0), host(77), 24, 0, 1000);
    let xoff = oracle::xoff_frame(plan.shared, (1, 1), plan.reserved, 1000);
    for n in 1..=xoff {
        b.put(0, flooded.clone());
        assert_eq!(b.pfc(0).is_some(), n == xoff, "{n}");
    }
    // Two of three ports empty themselves: the last copies still hold every byte.
    for port in 1..3 {
        b.unblock(port);
        b.pull_all(port);
        assert_eq!((b.pfc(0), b.pg(0, 3).used + b.pg(0, 3).headroom), (None, xoff * 1000));
    }
    b.unblock(3);
    b.pull_all(3);
    assert_eq!(b.pfc(0).map(|f| (f.enable, f.time[3])), Some((1 << 3, 0)));
    assert_eq!(b.lost(), 0);
}
