//! Arbitrary sequences of operations, each held against the rules written down a second time: sums are made from
//! their parts at every step, so nothing can be forgotten, counted twice or go below zero unseen.

use super::*;
use crate::mmu::Limit;
use crate::mmu::params::{PgParams, QueueParams};
use crate::mmu::{PERSISTENT, WATERMARK_READERS};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

const PORTS: usize = 2;
const LANES: usize = PORTS * PRIORITIES;

/// A buffer small enough that every limit is met within a few frames.
fn params(seed: &[u8; 24]) -> MmuParams {
    let mut n = 0;
    let mut pick = |below: u64| {
        n += 1;
        u64::from(seed[n % 24].wrapping_mul(31).wrapping_add(seed[(n * 7) % 24]).rotate_left(n as u32))
            % below
    };
    let limit = |kind: u64, value: u64| match kind {
        0 => Limit::UNLIMITED,
        1 => Limit::fixed(value * 100),
        _ => Limit::dynamic(value as i8 % 16 - 8).unwrap(),
    };
    let pgs = (0..LANES).map(|_| {
        let lossless = pick(2) == 0;
        PgParams {
            reserved: pick(3) * 700,
            limit: limit(pick(5), pick(64)),
            headroom: if lossless { 500 + pick(40) * 100 } else { 0 },
            xon: pick(3) * 500,
            xon_offset: pick(40) * 100,
            lossless,
        }
    });
    let pgs: Vec<_> = pgs.collect();
    let queues = (0..LANES).map(|i| QueueParams {
        reserved: pick(2) * 300,
        limit: limit(pick(4), pick(64)),
        pool: if pgs[i].lossless { PoolId::Lossless } else { PoolId::Lossy },
    });
    let queues = queues.collect();
    let mut params = MmuParams::lossy(PORTS, 0);
    (params.pgs, params.queues) = (pgs, queues);
    params.cell_bytes = [1, 208, 256][pick(3) as usize];
    params.headroom_pool = (pick(2) == 0).then(|| params.headroom() / 2 + 1);
    params.control = 2 * pick(3) * 500;
    if pick(3) == 0 {
        params.egress_pools = [Some(5000 + pick(200) * 100), Some(8000 + pick(200) * 200)];
    }
    for port in 0..PORTS {
        params.port_ingress_limit[port] = (pick(4) == 0).then(|| pick(200) * 100);
        params.port_egress_limit[port] = (pick(4) == 0).then(|| pick(200) * 100);
    }
    params.total = params.reserved() + params.headroom() + params.control + pick(200) * 150;
    params
}

#[derive(Clone, Copy, Default)]
struct Lane {
    used: u64,
    headroom: u64,
    xoff: bool,
    queued: u64,
    peaks: [u64; 3],
}

/// The rules, without a running sum.
struct Rules {
    p: MmuParams,
    /// Group, reserve of the control pool and queues; the control pool is the last lane.
    lanes: Vec<Lane>,
    overcommitted: bool,
    hard_limit: u64,
}

impl Rules {
    fn new(p: MmuParams) -> Self {
        let hard_limit = p.total;
        Self { p, lanes: vec![Lane::default(); LANES + 1], overcommitted: false, hard_limit }
    }

    fn reserved(&self, i: usize) -> u64 {
        if i < LANES { self.p.pgs[i].reserved } else { self.p.control }
    }

    fn shared(&self, i: usize) -> u64 {
        self.lanes[i].used.saturating_sub(self.reserved(i))
    }

    fn pool(&self) -> (u64, u64) {
        let size = self.p.total - self.p.reserved() - self.p.headroom() - self.p.control;
        ((0..=LANES).map(|i| self.shared(i)).sum(), size)
    }

    fn headroom(&self) -> (u64, u64) {
        (self.lanes.iter().map(|l| l.headroom).sum(), self.p.headroom())
    }

    fn held(&self) -> u64 {
        self.lanes.iter().map(|l| l.used + l.headroom).sum()
    }

    fn overcommitment(&mut self) -> bool {
        let over = |(used, size)| used > size;
        self.overcommitted &= over(self.pool()) || over(self.headroom());
        if !self.overcommitted {
            self.hard_limit = self.p.total;
        }
        self.overcommitted
    }

    fn apply(&mut self, p: MmuParams) {
        self.hard_limit = self.hard_limit.max(p.total);
        (self.p, self.overcommitted) = (p, true);
        self.overcommitment();
    }

    fn fits(used: u64, reserved: u64, bytes: u64, limit: Limit, free: u64) -> (bool, u64) {
        let growth = (used + bytes).saturating_sub(reserved) - used.saturating_sub(reserved);
        let within = used.saturating_sub(reserved) + growth <= limit.bytes(free);
        (growth == 0 || growth <= free && within, growth)
    }

    /// Free bytes of the egress pool of a queue.
    fn egress(&self, queue: usize) -> u64 {
        let pool = self.p.queues[queue].pool;
        let beyond = |i: usize| self.lanes[i].queued.saturating_sub(self.p.queues[i].reserved);
        let used: u64 = (0..LANES).filter(|i| self.p.queues[*i].pool == pool).map(beyond).sum();
        let without = match pool {
            PoolId::Lossy => self.pool().1 + self.p.reserved(),
            PoolId::Lossless => self.p.total * PORTS as u64,
        };
        self.p.egress_pools[pool as usize].unwrap_or(without).saturating_sub(used)
    }

    fn queue_takes(&mut self, queue: usize, bytes: u64) -> Result<(), DropReason> {
        let q = self.p.queues[queue];
        let (fits, growth) =
            Self::fits(self.lanes[queue].queued, q.reserved, bytes, q.limit, self.egress(queue));
        if !fits {
            return Err(DropReason::EgressQueueFull);
        }
        let port = queue / PRIORITIES;
        let of_port = (port * PRIORITIES..(port + 1) * PRIORITIES)
            .filter(|i| self.p.queues[*i].pool == PoolId::Lossy)
            .map(|i| self.lanes[i].queued.saturating_sub(self.p.queues[i].reserved))
            .sum::<u64>();
        let limit = self.p.port_egress_limit[port].filter(|_| q.pool == PoolId::Lossy);
        if growth > 0 && limit.is_some_and(|limit| of_port + growth > limit) {
            return Err(DropReason::EgressPortPool);
        }
        Ok(())
    }

    fn group_takes(&mut self, i: usize, bytes: u64) -> AdmitVerdict {
        let overcommitted = self.overcommitment();
        let lossless = i < LANES && self.p.pgs[i].lossless;
        if overcommitted && self.held() + bytes > self.hard_limit {
            let why = if lossless { DropReason::IngressHeadroom } else { DropReason::IngressBufferFull };
            return AdmitVerdict::Refused(why);
        }
        let limit = if i < LANES { self.p.pgs[i].limit } else { Limit::fixed(0) };
        let (used, size) = self.pool();
        let free = size.saturating_sub(used);
        let (fits, growth) = Self::fits(self.lanes[i].used, self.reserved(i), bytes, limit, free);
        let of_port =
            |port: usize| (port * PRIORITIES..(port + 1) * PRIORITIES).map(|i| self.shared(i)).sum::<u64>();
        let port_fits = i == LANES
            || growth == 0
            || self.p.port_ingress_limit[i / PRIORITIES]
                .is_none_or(|limit| of_port(i / PRIORITIES) + growth <= limit);
        if fits && port_fits {
            self.lanes[i].used += bytes;
            let over = overcommitted || growth > 0 && self.shared(i) > limit.bytes(free - growth);
            if lossless && over && !self.lanes[i].xoff {
                self.lanes[i].xoff = true;
                return AdmitVerdict::AdmittedXoff;
            }
            return AdmitVerdict::Admitted;
        }
        if !lossless {
            return AdmitVerdict::Refused(match (fits, growth > free) {
                (true, _) => DropReason::IngressPortPool,
                (_, true) => DropReason::IngressBufferFull,
                _ => DropReason::IngressShared,
            });
        }
        let (used, size) = self.headroom();
        if self.lanes[i].headroom + bytes > self.p.pgs[i].headroom || bytes > size.saturating_sub(used) {
            return AdmitVerdict::Refused(DropReason::IngressHeadroom);
        }
        self.lanes[i].headroom += bytes;
        match std::mem::replace(&mut self.lanes[i].xoff, true) {
            true => AdmitVerdict::Admitted,
            false => AdmitVerdict::AdmittedXoff,
        }
    }

    fn group_gives(&mut self, i: usize, bytes: u64) -> bool {
        let lane = &mut self.lanes[i];
        let first = bytes.min(lane.headroom);
        lane.headroom -= first;
        lane.used -= bytes - first;
        self.resumes(i)
    }

    fn resumes(&mut self, i: usize) -> bool {
        if !self.lanes[i].xoff || self.overcommitment() {
            return false;
        }
        let (used, size) = self.pool();
        let (hdrm_used, hdrm_size) = self.headroom();
        let pg = self.p.pgs[i];
        let limit = pg.reserved.saturating_add(pg.limit.bytes(size.saturating_sub(used)));
        let due = self.lanes[i].headroom == 0
            && self.lanes[i].used <= pg.xon.max(limit.saturating_sub(pg.xon_offset))
            && hdrm_size.saturating_sub(hdrm_used) >= pg.headroom.min(hdrm_size);
        self.lanes[i].xoff &= !due;
        due
    }

    fn note_peaks(&mut self) {
        for i in 0..LANES {
            let now = [self.shared(i), self.lanes[i].headroom, self.lanes[i].queued];
            let peaks = &mut self.lanes[i].peaks;
            peaks.iter_mut().zip(now).for_each(|(peak, now)| *peak = now.max(*peak));
        }
    }
}

/// A frame that is held: its group, its charge, and the queues its copies wait in.
struct Frame {
    pg: usize,
    bytes: u32,
    queues: Vec<usize>,
}

fn compare(mmu: &Mmu, rules: &mut Rules) {
    rules.note_peaks();
    mmu.audit().unwrap();
    assert_eq!(mmu.held_bytes(), rules.held());
    assert_eq!((mmu.pools().shared_used, mmu.pools().shared_size), rules.pool());
    assert_eq!((mmu.pools().headroom_used, mmu.pools().headroom_size), rules.headroom());
    if !rules.overcommitment() {
        assert!(mmu.held_bytes() <= rules.p.total);
    }
    for (i, lane) in rules.lanes[..LANES].iter().enumerate() {
        let (pg, queue) = (mmu.pg(PgIx(i as u32)), mmu.queue(QueueIx(i as u32)));
        assert_eq!((pg.used, pg.headroom, pg.xoff), (lane.used, lane.headroom, lane.xoff), "group {i}");
        assert_eq!(queue.used, lane.queued, "queue {i}");
        let peaks = [pg.shared_peak, pg.headroom_peak, queue.peak].map(|w| w.peak(PERSISTENT));
        assert_eq!(peaks, lane.peaks, "peaks of {i}");
    }
}

#[test]
fn fuzz_operations_keep_the_rules_and_every_byte() {
    let refused: [AtomicU64; crate::drops::DROP_REASONS] = std::array::from_fn(|_| AtomicU64::new(0));
    let seen: [AtomicU64; 4] = std::array::from_fn(|_| AtomicU64::new(0));
    let count = |what: usize| {
        seen[what].fetch_add(1, Relaxed);
    };
    type Input = ([u8; 24], [(u8, u8, u16); 150]);
    bolero::check!().with_iterations(1500).with_type::<Input>().for_each(|(seed, operations)| {
        let first = params(seed);
        let (mut mmu, mut rules) = (Mmu::new(first.clone()).unwrap(), Rules::new(first));
        let mut held: Vec<Frame> = Vec::new();
        for &(what, lane, len) in operations {
            let (pg, queue) = (usize::from(lane) % LANES, usize::from(lane / 16) % LANES);
            let bytes = mmu.charge(60 + u32::from(len) % 1500);
            match what % 16 {
                // Some frames come to the control pool, most to few groups, so that lines are met.
                0..=7 => {
                    let pg = if what == 0 { LANES } else { pg / 4 * 4 };
                    let queue = if what % 2 == 0 { queue } else { 3 };
                    let want = match rules.queue_takes(queue, bytes.into()) {
                        Err(reason) => AdmitVerdict::Refused(reason),
                        Ok(()) => rules.group_takes(pg, bytes.into()),
                    };
                    assert_eq!(mmu.admit(PgIx(pg as u32), QueueIx(queue as u32), bytes), want);
                    match want {
                        AdmitVerdict::Refused(reason) => {
                            refused[reason as usize].fetch_add(1, Relaxed);
                        }
                        _ => {
                            count(usize::from(want == AdmitVerdict::AdmittedXoff));
                            rules.lanes[queue].queued += u64::from(bytes);
                            held.push(Frame { pg, bytes, queues: vec![queue] });
                        }
                    }
                }
                8 => {
                    let want = rules.group_takes(pg, bytes.into());
                    assert_eq!(mmu.admit_ingress(PgIx(pg as u32), bytes), want);
                    if !matches!(want, AdmitVerdict::Refused(_)) {
                        let mut frame = Frame { pg, bytes, queues: Vec::new() };
                        for queue in [queue, (queue + PRIORITIES) % LANES] {
                            let want = rules.queue_takes(queue, bytes.into());
                            assert_eq!(mmu.admit_egress(QueueIx(queue as u32), bytes), want);
                            if want.is_ok() {
                                rules.lanes[queue].queued += u64::from(bytes);
                                frame.queues.push(queue);
                            }
                        }
                        held.push(frame);
                    }
                }
                9..=13 => {
                    if !held.is_empty() {
                        let frame = held.remove(usize::from(len) % held.len());
                        let_go(&mut mmu, &mut rules, frame);
                    }
                }
                14 => {
                    let mut other = *seed;
                    (other[usize::from(lane) % 24], other[3]) = (len as u8, what);
                    let mut next = params(&other);
                    next.cell_bytes = rules.p.cell_bytes;
                    mmu.apply(next.clone()).unwrap();
                    rules.apply(next);
                    count(2 + usize::from(rules.overcommitted));
                }
                _ => {
                    let mut resumed = Vec::new();
                    mmu.resume_moved(&mut |PgIx(pg)| resumed.push(pg as usize));
                    let want: Vec<_> = (0..LANES).filter(|i| rules.resumes(*i)).collect();
                    assert_eq!(resumed, want);
                    let reader = usize::from(lane) % WATERMARK_READERS;
                    mmu.clear_watermarks(reader);
                    if reader == PERSISTENT {
                        rules.lanes.iter_mut().for_each(|lane| lane.peaks = [0; 3]);
                    }
                }
            }
            compare(&mmu, &mut rules);
        }
        for frame in held {
            let_go(&mut mmu, &mut rules, frame);
        }
        mmu.resume_moved(&mut |_| {});
        assert_eq!((mmu.held_bytes(), mmu.queued_bytes()), (0, 0));
        assert!((0..LANES).all(|i| !mmu.pg(PgIx(i as u32)).xoff), "nobody stays paused by an empty buffer");
    });
    // The sequences were of use: all outcomes were seen, also changes of a buffer too full for them.
    let outcomes = [
        DropReason::IngressHeadroom,
        DropReason::IngressShared,
        DropReason::IngressPortPool,
        DropReason::IngressBufferFull,
        DropReason::EgressQueueFull,
        DropReason::EgressPortPool,
    ];
    assert!(outcomes.iter().all(|reason| refused[*reason as usize].load(Relaxed) > 20), "{refused:?}");
    assert!(seen.iter().all(|n| n.load(Relaxed) > 100), "{seen:?}");
}

fn let_go(mmu: &mut Mmu, rules: &mut Rules, frame: Frame) {
    for queue in frame.queues {
        mmu.release_egress(QueueIx(queue as u32), frame.bytes);
        rules.lanes[queue].queued -= u64::from(frame.bytes);
    }
    let want = rules.group_gives(frame.pg, frame.bytes.into());
    assert_eq!(mmu.release_ingress(PgIx(frame.pg as u32), frame.bytes), want);
}

/// Shards that hear of each other as seldom as may be, with groups that nothing but the pools holds back.
#[test]
fn all_shards_together_take_no_more_than_there_is() {
    for shards in 2..=4usize {
        let mut params = MmuParams::lossy(PORTS, 200_000);
        for pg in &mut params.pgs {
            (pg.headroom, pg.lossless) = (20_000, true);
        }
        for queue in &mut params.queues {
            (queue.limit, queue.pool) = (Limit::UNLIMITED, PoolId::Lossless);
        }
        params.headroom_pool = Some(50_000);
        params.staleness = (shards as u64 - 1) * 9000;
        let mut mmus = Mmu::sharded(&params, shards).unwrap();
        let mut held = vec![Vec::new(); shards];
        let mut state = 7u64;
        let mut below = |n: usize| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as usize % n
        };
        let mut most = 0;
        for _ in 0..20_000 {
            let shard = below(shards);
            let mmu = &mut mmus[shard];
            for _ in 0..below(60) {
                let bytes = 1 + below(1500) as u32;
                let (pg, queue) = (PgIx(below(LANES) as u32), QueueIx(0));
                let admitted = match below(3) {
                    0 => mmu.admit_together(pg, queue, bytes),
                    1 => mmu.admit_ingress_together(pg, bytes),
                    _ => !matches!(mmu.admit_ingress(pg, bytes), AdmitVerdict::Refused(_)),
                };
                if admitted {
                    held[shard].push((pg, bytes));
                }
            }
            let all: u64 = mmus.iter().map(Mmu::held_bytes).sum();
            most = most.max(all);
            assert!(all <= params.total, "{shards} shards hold {all} of {} bytes", params.total);
            let mmu = &mut mmus[shard];
            for _ in 0..below(40).min(held[shard].len()) {
                let one = below(held[shard].len());
                let (pg, bytes) = held[shard].swap_remove(one);
                let _ = mmu.release_ingress(pg, bytes);
            }
            if below(50) == 0 {
                mmu.exchange();
            }
        }
        assert!(most > params.total * 4 / 5, "{most} with {shards}: the pools were never full");
    }
}

#[test]
fn a_frame_and_each_copy_of_it_are_charged_what_they_take() {
    let charge = |cell_bytes, least_charge, len| {
        let params = MmuParams { cell_bytes, least_charge, ..MmuParams::lossy(1, 1 << 20) };
        let mmu = Mmu::new(params).unwrap();
        (mmu.charge(len), mmu.charge_for_copies(mmu.charge(len), 31))
    };
    assert_eq!(charge(1, 64, 0), (64, 31 * 64));
    assert_eq!(charge(1, 64, 65), (65, 31 * 64));
    assert_eq!(charge(1, 64, 9216), (9216, 9216));
    assert_eq!(charge(208, 250, 1), (250, 31 * 250));
    assert_eq!(charge(208, 250, 300), (416, 31 * 250));
    assert_eq!(charge(1, 1, 18), (18, 31));
}
