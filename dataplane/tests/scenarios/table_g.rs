//! Table G: watermarks and counters.

use crate::harness::frames::{host, ipv4};
use crate::harness::{Alone, Bench, Block, Flow, G, Lab, Plan, oracle};
use weir_dataplane::drops::DropReason;
use weir_dataplane::ecn::{MarkAt, ONE_Q32, Wred};
use weir_dataplane::egress::{Microburst, MicroburstConfig};
use weir_dataplane::frame::OwnedFrame;
use weir_dataplane::mmu::{Limit, MmuParams, QueueIx, WATERMARK_READERS};
use weir_dataplane::pfc::watchdog::{Action, WatchdogConfig};
use weir_dataplane::stats::{PortStats, Published, Words};
use weir_dataplane::switch::{Switch, UnknownUnicast};
use weir_dataplane::types::{Mac, PortId};

const MS: u64 = 1_000_000;

#[test]
fn g1_g2_group_watermarks() {
    let plan = Plan { reserved: 10_000, shared: 400_000, headroom: 20_000, ..Plan::new(2) };
    let mut b = Bench::new(plan.params());
    b.block(1, Block::Hold);
    let peaks = |b: &Bench| (b.pg(0, 3).shared_peak.peak(0), b.pg(0, 3).headroom_peak.peak(0));
    (0..10).for_each(|_| assert_eq!(b.send(0, 1, 3, 1000), None));
    assert_eq!(peaks(&b), (0, 0), "nothing inside the minimum");
    for quarter in 1..=3u64 {
        (0..50).for_each(|_| assert_eq!(b.send(0, 1, 3, 1000), None));
        assert_eq!(peaks(&b), (quarter * 50_000, 0));
    }
    // The last quarter ends with Xoff at the first frame over alpha * B / (1 + alpha) = 200 000.
    let more = b.fill_to_xoff(0, 1, 3, 1000);
    assert_eq!(150 + more + 10, oracle::xoff_frame(plan.shared, (1, 1), 10_000, 1000));
    let in_headroom = u64::from(!oracle::crossing_frame_is_shared(plan.shared, (1, 1), 10_000, 1000)) * 1000;
    assert_eq!(peaks(&b), (201_000 - in_headroom, in_headroom));
    b.fill_to_drop(0, 1, 3, 1000);
    assert_eq!(peaks(&b), (201_000 - in_headroom, 20_000));
    b.unblock(1);
    b.pull_all(1);
    assert_eq!(peaks(&b), (201_000 - in_headroom, 20_000), "a peak outlives what made it");
}

#[test]
fn g3_pool_watermarks() {
    let plan = Plan { headroom: 20_000, headroom_pool: Some(50_000), ..Plan::new(6) };
    let mut b = Bench::new(plan.params());
    (0..6).for_each(|port| b.block(port, Block::Hold));
    let mut sum = 0;
    for port in 0..4 {
        b.fill_to_drop(port, 5, 3, 1000);
        sum += b.pg(port, 3).shared;
        let pools = b.s.admission().pools();
        assert_eq!((pools.shared_peak.peak(0), pools.shared_used), (sum, sum));
    }
    let (lossy, _) = b.fill_to_drop(4, 5, 0, 1000);
    let pools = b.s.admission().pools();
    assert_eq!(pools.shared_peak.peak(0), sum + lossy * 1000);
    assert_eq!(pools.headroom_peak.peak(0), 50_000);
}

#[test]
fn g4_every_queue_of_every_port() {
    let mut b = Bench::new(Plan { shared: 10_000_000, ..Plan::new(8) }.params());
    (0..8).for_each(|port| b.block(port, Block::Hold));
    let want = |port: u16, queue: u8| 1000 * (1 + u64::from(port) * 8 + u64::from(queue));
    for port in 0..8 {
        for queue in 0..8 {
            (0..want(port, queue) / 1000)
                .for_each(|_| assert_eq!(b.send((port + 1) % 8, port, queue, 1000), None));
        }
    }
    for port in 0..8 {
        b.s.hold_back(PortId(port), 0);
        b.pull_all(port);
        for queue in 0..8 {
            let view = b.s.admission().queue(QueueIx(u32::from(port) * 8 + u32::from(queue)));
            assert_eq!((view.peak.peak(0), view.used), (want(port, queue), 0));
        }
    }
}

#[test]
fn g5_readers_clear_their_own() {
    let mut b = Bench::new(Plan::new(2).params());
    b.block(1, Block::Hold);
    let peaks = |b: &Bench| -> Vec<u64> {
        (0..WATERMARK_READERS).map(|r| b.s.admission().queue(QueueIx(11)).peak.peak(r)).collect()
    };
    (0..50).for_each(|_| assert_eq!(b.send(0, 1, 3, 1000), None));
    b.s.hold_back(PortId(1), 0);
    b.pull(1, 40);
    b.s.admission_mut().clear_watermarks(0);
    assert_eq!(peaks(&b), [10_000, 50_000, 50_000, 50_000]);
    b.s.hold_back(PortId(1), 0xff);
    (0..5).for_each(|_| assert_eq!(b.send(0, 1, 3, 1000), None));
    b.s.admission_mut().clear_watermarks(2);
    assert_eq!(peaks(&b), [15_000, 50_000, 15_000, 50_000]);
    assert_eq!(b.pg(0, 3).shared_peak.peak(0), 15_000);
    assert_eq!(b.s.admission().pools().shared_peak.peak(0), 15_000);
    assert_eq!(b.s.admission().pools().shared_peak.peak(1), 50_000);
    // Headroom too: of a group, and of all together.
    b.fill_to_drop(0, 1, 3, 1000);
    b.unblock(1);
    b.pull_all(1);
    b.s.admission_mut().clear_watermarks(3);
    let peaks = |r| (b.pg(0, 3).headroom_peak.peak(r), b.s.admission().pools().headroom_peak.peak(r));
    assert_eq!([0, 1, 2, 3].map(peaks), [(100_000, 100_000), (100_000, 100_000), (100_000, 100_000), (0, 0)]);
}

#[test]
fn g6_each_cause_has_its_reason() {
    let mut params = Plan { headroom: 2000, shared: 20_000, ..Plan::new(4) }.params();
    params.ports[0].mtu = 1514;
    params.ports[0].unknown_unicast = UnknownUnicast::Drop;
    params.ports[3].early_drop[1] = Some(Wred { kmin: 500, kmax: 500, pmax: ONE_Q32, at: MarkAt::Enqueue });
    let new = || Bench::new(params.clone());
    let ip = |to: u16, priority: u8, len| ipv4(host(0), host(to), crate::harness::dscp(priority), 0, len);
    let change = |mut f: Vec<u8>, at: usize, with: &[u8]| {
        f[at..at + with.len()].copy_from_slice(with);
        f
    };
    // Frames that are refused by what they are.
    let singles: [(DropReason, Vec<u8>); 8] = [
        (DropReason::ParseTooShort, vec![2; 13]),
        (DropReason::ParseTruncatedVlan, change(vec![2; 16], 12, &[0x81, 0])),
        (DropReason::ParseTooLong, ip(1, 0, 1515)),
        (DropReason::ParseGroupSource, change(ip(1, 0, 64), 6, &[1])),
        (DropReason::ControlReserved, change(ip(1, 0, 64), 0, &[1, 0x80, 0xc2, 0, 0, 0x0e])),
        (DropReason::LookupSamePort, ip(0, 0, 64)),
        (DropReason::LookupUnknown, ip(77, 0, 64)),
        (DropReason::LookupPortDown, ip(2, 0, 64)),
    ];
    for (reason, frame) in singles {
        let mut b = new();
        b.s.set_link(PortId(2), false, 0);
        b.put(0, frame);
        assert_eq!((b.drops(reason), b.lost()), (1, 1), "{}", reason.name());
    }
    let mut b = new();
    (1..4).for_each(|port| b.s.set_link(PortId(port), false, 0));
    b.put(0, ipv4(host(0), Mac([0xff; 6]), 0, 0, 64));
    assert_eq!((b.drops(DropReason::LookupNoPort), b.lost()), (1, 1));
    // Frames that are refused by what is there already.
    let full = |priority: u8, change: &dyn Fn(&mut MmuParams)| {
        let mut p = params.clone();
        change(&mut p.mmu);
        let mut b = Bench::new(p);
        (0..4).for_each(|port| b.block(port, Block::Hold));
        let reason = b.fill_to_drop(0, 1, priority, 1000).1;
        assert_eq!(b.lost(), 1);
        reason
    };
    assert_eq!(full(3, &|_| {}), DropReason::IngressHeadroom);
    assert_eq!(full(0, &|_| {}), DropReason::EgressQueueFull);
    assert_eq!(full(0, &|m| m.pgs[0].limit = Limit::fixed(5000)), DropReason::IngressShared);
    assert_eq!(full(0, &|m| m.port_ingress_limit[0] = Some(5000)), DropReason::IngressPortPool);
    let unlimited_egress = |m: &mut MmuParams| {
        (m.queues[8].limit, m.egress_pools[0]) = (Limit::UNLIMITED, Some(1 << 30));
    };
    assert_eq!(full(0, &unlimited_egress), DropReason::IngressBufferFull);
    assert_eq!(full(0, &|m| m.port_egress_limit[1] = Some(5000)), DropReason::EgressPortPool);
    // The limit of a port is of what its queues hold beyond their reserves, with the frame that is asked for.
    for (limit, reserved, held) in [(5000, 0, 5), (4999, 0, 4), (5000, 1518, 6), (5000, 2000, 7)] {
        let mut p = params.clone();
        (p.mmu.port_egress_limit[1], p.mmu.queues[8].reserved) = (Some(limit), reserved);
        let mut b = Bench::new(p);
        (0..4).for_each(|port| b.block(port, Block::Hold));
        assert_eq!(b.fill_to_drop(0, 1, 0, 1000), (held, DropReason::EgressPortPool), "{limit} {reserved}");
    }
    let mut small = params.clone();
    small.frames = 3;
    let mut b = Bench::new(small);
    b.block(1, Block::Hold);
    assert_eq!(b.fill_to_drop(0, 1, 0, 64), (3, DropReason::IngressNoSlot));
    let mut b = new();
    b.block(3, Block::Hold);
    b.put(0, ip(3, 1, 1000));
    b.put(0, ip(3, 1, 1000));
    assert_eq!((b.drops(DropReason::EgressWred), b.lost()), (1, 1));
    // Frames that are lost later.
    let mut b = new();
    b.block(1, Block::Hold);
    (0..5).for_each(|_| b.put(0, ip(1, 0, 64)));
    b.s.set_link(PortId(1), false, 0);
    assert_eq!((b.drops(DropReason::EgressPortDown), b.lost()), (5, 5));
    let mut b = new();
    b.block(1, Block::Hold);
    b.put(0, ip(1, 0, 64));
    b.s.drain();
    b.put(0, ip(1, 0, 64));
    b.s.abandon();
    assert_eq!((b.drops(DropReason::RunDraining), b.drops(DropReason::RunUndrained), b.lost()), (1, 1, 2));
    let mut stormed = params.clone();
    stormed.watchdog = Some(WatchdogConfig {
        queues: 1 << 3,
        poll: MS,
        detection: MS,
        restoration: MS,
        action: Action::Drop,
        recurrence: None,
        big_red_switch: true,
    });
    let mut b = Bench::new(stormed);
    b.put(0, ip(1, 3, 64));
    assert_eq!((b.drops(DropReason::WatchdogDrop), b.lost()), (1, 1));
}

#[test]
fn g6_the_reasons_that_want_a_machine_in_need() {
    // Copies for which there is no memory: the frame itself goes on, each missing copy is counted.
    let mut s: Switch<Alone> = Switch::new(Plan::new(4).params()).unwrap();
    let broadcast = ipv4(host(0), Mac([0xff; 6]), 0, 0, 64);
    s.receive(PortId(0), &mut [Alone(OwnedFrame::new(broadcast))].into_iter().collect(), 0);
    let books = s.conservation();
    assert_eq!((books.dropped, books.held, books.error()), (2, 1, 0));
    assert_eq!(s.stats(PortId(0)).drops.0[DropReason::IngressNoCopy as usize], 2);
    // Another lcore that does not come to take what is its own.
    let mut params = Plan::new(2).params();
    (params.frames, params.ports[1].shard) = (3, 1);
    let mut shards: Vec<Switch<OwnedFrame>> = Switch::sharded(&params, 2).unwrap();
    for n in 0..5u64 {
        let mut frame = ipv4(host(0), host(1), crate::harness::dscp(n as u8), 0, 64);
        crate::harness::frames::stamp(&mut frame, 1, n);
        shards[0].receive(PortId(0), &mut [OwnedFrame::new(frame)].into_iter().collect(), n);
    }
    let full = shards[0].stats(PortId(0)).drops.0[DropReason::HandoffFull as usize];
    let mut books = shards[0].conservation();
    books.add(&shards[1].conservation());
    let under_way = books.handed_out - books.handed_in;
    assert_eq!((full, books.dropped, books.held, under_way, books.error()), (2, 2, 0, 3, 0));
}

#[test]
fn g6_the_sum_of_the_reasons_is_what_is_missing() {
    let mut lab = Lab::star(&Plan { rate: 10 * G, ..Plan::new(4) }.params(), 500);
    for from in 0..3 {
        for priority in 0..8 {
            lab.flow(from, Flow::new(3, priority, 0).lens(&[64, 9000, 1500, 700]));
        }
    }
    lab.run_until(10 * MS);
    lab.testers.iter_mut().flat_map(|t| &mut t.flows).for_each(|f| f.stop = 0);
    lab.run_for(20 * MS);
    let sent: u64 = lab.testers.iter().map(|t| t.sent()).sum();
    assert!(lab.lost() > 0);
    assert_eq!(sent - lab.testers[3].received(), lab.lost());
}

#[test]
fn g7_readings_are_of_one_instant_and_only_grow() {
    for interval in [10 * MS, 1000 * MS] {
        let mut lab = Lab::star(&Plan { rate: G / 10, ..Plan::new(2) }.params(), 500);
        let cells = [0, 1].map(|port| lab.switches[0].published(PortId(port)));
        lab.flow(0, Flow::new(1, 0, 1000));
        let mut last = [PortStats::default(), PortStats::default()];
        for _ in 0..5 {
            lab.run_for(interval);
            for (cell, last) in cells.iter().zip(&mut last) {
                let now: PortStats = cell.read();
                assert_eq!(now.rx_bytes, now.rx_packets * 1000);
                assert_eq!(now.tx_bytes, now.tx_packets * 1000);
                assert_eq!(now.queue_bytes[0], now.tx_bytes);
                assert!(now.rx_packets >= last.rx_packets && now.tx_packets >= last.tx_packets);
                *last = now;
            }
        }
        assert!(last[0].rx_packets > 0 && last[1].tx_packets > 0);
    }
}

#[test]
fn g7_the_largest_counts_are_read_as_they_are() {
    let mut stats = PortStats::default();
    let mut n = 0;
    stats.words(&mut |words| {
        for word in words {
            *word = u64::MAX - n;
            n += 1;
        }
    });
    let cell = Published::new::<PortStats>();
    cell.publish(&mut stats);
    assert_eq!(cell.read::<PortStats>(), stats);
    assert_eq!(cell.read::<PortStats>().rx_packets, u64::MAX);
}

#[test]
fn g8_a_burst_shorter_than_any_poll() {
    // 20 frames from each of two senders within 25 us: the queue is over 5000 bytes for some 20 us.
    let mut lab = Lab::star(&Plan { rate: 10 * G, ..Plan::new(3) }.params(), 500);
    lab.switches[0].watch_bursts(PortId(2), Some(MicroburstConfig { start: 5000, end: 1500, keep: 8 }));
    let start = 3 * MS + 77;
    for from in 0..2 {
        lab.flow(from, Flow::new(2, 3, 1500).count(20).between(start, u64::MAX));
    }
    lab.run_until(10 * MS);
    let bursts: Vec<Microburst> = lab.switches[0].microbursts(PortId(2)).unwrap().iter().copied().collect();
    assert_eq!(bursts.len(), 1);
    let burst = bursts[0];
    let frame = oracle::wire_ns(1500, 10 * G);
    // Two frames arrive and one leaves per frame time: n net frames are there after n frame times.
    let arrival = |n: u64| start + n * frame + 500;
    assert!(burst.since.abs_diff(arrival(4)) <= frame + 20, "{burst:?}");
    assert!(burst.peak_at.abs_diff(arrival(20)) <= frame + 20);
    assert!(burst.peak.abs_diff(19 * 1500) <= 1500);
    assert!(burst.until.unwrap().abs_diff(arrival(20) + 19 * frame) <= 2 * frame + 40);
}
