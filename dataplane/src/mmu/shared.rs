//! weir's own MMU: reserved, then shared up to a Dynamic Threshold, then headroom.
//!
//! Ingress priority groups hold the bytes; egress queues are a second view of the same bytes with
//! limits of their own. A shard owns the groups and queues of its ports. What it must know of the
//! others is a few single-writer sums in the [`Ledger`] (design section 3).

mod restore;

pub use restore::Held;

use super::account::{Account, Limit};
use super::params::{MmuError, MmuParams, PoolId};
use super::watermark::Watermark;
use super::{Admission, AdmitVerdict, PgIx, QueueIx};
use crate::drops::DropReason;
use crate::types::PRIORITIES;
use crossbeam_utils::CachePadded;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering, Ordering::Relaxed, fence};

/// One ingress priority group. What every frame touches is in the first cache line.
#[derive(Clone, Debug)]
#[repr(C, align(64))]
struct Pg {
    account: Account,
    headroom_used: u64,
    lossless: bool,
    xoff: bool,
    /// Holds bytes in another shard's queues (or may): its ledger entries must be read.
    remote: bool,
    /// Noted when use is about to fall, like all peaks: readers take present use into account.
    shared_peak: Watermark,
    headroom_limit: u64,
    xon: u64,
    xon_offset: u64,
    headroom_peak: Watermark,
}

/// One egress queue.
#[derive(Clone, Debug)]
#[repr(C, align(64))]
struct Queue {
    account: Account,
    pool: PoolId,
    peak: Watermark,
}

/// What one shard tells the others: single writer each.
#[derive(Debug)]
struct ShardSums {
    shared: AtomicU64,
    headroom: AtomicU64,
    egress: [AtomicU64; 2],
    held: AtomicU64,
    /// Bytes of each priority group this shard has released, ever. Read by the group's owner.
    released: Vec<AtomicU64>,
}

/// The sums shards exchange. One per switch, shared by its shards.
#[derive(Debug)]
pub struct Ledger {
    /// On cache lines of their own: each is written by another core.
    shards: Vec<CachePadded<ShardSums>>,
}

impl Ledger {
    fn new(shards: usize, pgs: usize) -> Self {
        let zeros = |n| (0..n).map(|_| AtomicU64::new(0)).collect();
        let one = |_| {
            CachePadded::new(ShardSums {
                shared: AtomicU64::new(0),
                headroom: AtomicU64::new(0),
                egress: [AtomicU64::new(0), AtomicU64::new(0)],
                held: AtomicU64::new(0),
                released: zeros(pgs),
            })
        };
        Self { shards: (0..shards).map(one).collect() }
    }
}

/// The shared-buffer MMU of one shard.
#[derive(Debug)]
pub struct Mmu {
    pgs: Vec<Pg>,
    queues: Vec<Queue>,
    /// Shared pool: its size and what this shard's groups use of it.
    shared_size: u64,
    shared_used: u64,
    shared_peak: Watermark,
    /// Headroom: what all groups together may hold after Xoff.
    headroom_size: u64,
    headroom_used: u64,
    headroom_peak: Watermark,
    egress_size: [u64; 2],
    egress_used: [u64; 2],
    /// Per-port limits; `u64::MAX` for none. Empty when no port has one: the usual case is not tested.
    port_ingress: Vec<PortLimit>,
    port_egress: Vec<PortLimit>,
    /// What the other shards use, as last read.
    others_shared: u64,
    others_headroom: u64,
    others_egress: [u64; 2],
    others_held: u64,
    /// Bytes admitted since the others were told what is used here, and how many these may be.
    unsaid: u64,
    most_unsaid: u64,
    /// Nothing but the pools stands between a frame and its group and queue: no port has a limit of its own, and
    /// nothing is overcommitted. The usual case, in one look.
    plain: bool,
    /// The buffer was divided anew while more was held than the new pools are large. Until they have emptied that
    /// far, what is promised may not be there: every frame is held against the whole buffer, and that of before if it
    /// was larger.
    overcommitted: bool,
    hard_limit: u64,
    /// Releases of own groups by other shards that have been applied, `[shard][pg]`.
    applied: Vec<Vec<u64>>,
    ledger: Arc<Ledger>,
    shard: usize,
    ports: usize,
    held: u64,
    /// Groups in Xoff: while there are none, a tick has nothing to look at.
    xoff_groups: u32,
    cells: Cells,
    params: MmuParams,
}

/// How charges are rounded up.
#[derive(Clone, Copy, Debug)]
struct Cells {
    /// The least there is.
    least: u32,
    /// Bytes of a cell, less one, if that is a power of two.
    rest: u32,
    /// Bytes of a cell, if that is none.
    odd: Option<NonZeroU32>,
}

impl Cells {
    fn of(params: &MmuParams) -> Self {
        let bytes = params.cell_bytes.max(1);
        let odd = NonZeroU32::new(bytes).filter(|_| !bytes.is_power_of_two());
        Self { least: params.least_charge, rest: bytes - 1, odd }
    }
}

#[derive(Clone, Copy, Debug)]
struct PortLimit {
    limit: u64,
    used: u64,
}

/// A priority group as a reader sees it. Bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PgView {
    /// Held in the guaranteed part and the shared pool.
    pub used: u64,
    /// Held in the shared pool.
    pub shared: u64,
    /// Held in headroom.
    pub headroom: u64,
    /// The Dynamic Threshold as it stands now: most the group may hold of the shared pool.
    pub limit: u64,
    /// Guaranteed bytes.
    pub reserved: u64,
    /// Most the group may hold in headroom.
    pub headroom_limit: u64,
    /// Resume point as it stands now.
    pub xon_at: u64,
    /// Upstream is stopped.
    pub xoff: bool,
    /// Sends Xoff instead of dropping.
    pub lossless: bool,
    /// Peak of `shared`, per reader.
    pub shared_peak: Watermark,
    /// Peak of `headroom`, per reader.
    pub headroom_peak: Watermark,
}

/// An egress queue as a reader sees it. Bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueView {
    /// Held, until the driver has taken them.
    pub used: u64,
    /// Most the queue may hold now.
    pub limit: u64,
    /// Peak of `used`, per reader.
    pub peak: Watermark,
}

/// The pools as a reader of this shard sees them. Bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolView {
    /// Size of the shared pool.
    pub shared_size: u64,
    /// In use of it, all shards.
    pub shared_used: u64,
    /// Size of the headroom (pool, or sum of the private ones).
    pub headroom_size: u64,
    /// In use of it, all shards.
    pub headroom_used: u64,
    /// Peak of the shared pool, as this shard saw it.
    pub shared_peak: Watermark,
    /// Peak of the headroom, as this shard saw it.
    pub headroom_peak: Watermark,
}

impl Mmu {
    /// An MMU for a switch in one piece.
    ///
    /// # Errors
    /// [`MmuError`] when the division does not add up.
    pub fn new(params: MmuParams) -> Result<Self, MmuError> {
        params.shared()?;
        let ledger = Arc::new(Ledger::new(1, params.pgs.len() + 1));
        Self::shard(params, 0, 1, ledger)
    }

    /// One MMU per shard, sharing a ledger. Every shard knows all groups; it charges only its own.
    ///
    /// # Errors
    /// [`MmuError`] when the division does not add up.
    pub fn sharded(params: &MmuParams, shards: usize) -> Result<Vec<Self>, MmuError> {
        params.shared()?;
        let ledger = Arc::new(Ledger::new(shards, params.pgs.len() + shards));
        (0..shards).map(|shard| Self::shard(params.clone(), shard, shards, Arc::clone(&ledger))).collect()
    }

    fn shard(params: MmuParams, shard: usize, shards: usize, ledger: Arc<Ledger>) -> Result<Self, MmuError> {
        let (ports, pgs) = (params.ports(), params.pgs.len() + shards);
        let empty_pg = |reserved| Pg {
            account: Account::new(reserved, Limit::fixed(0)),
            headroom_used: 0,
            headroom_limit: 0,
            xon: 0,
            xon_offset: 0,
            lossless: false,
            xoff: false,
            remote: false,
            shared_peak: Watermark::default(),
            headroom_peak: Watermark::default(),
        };
        let mut mmu = Self {
            // The control pools are groups of their own, one per shard, with nothing but a minimum.
            pgs: vec![empty_pg(params.control / shards as u64); pgs],
            queues: params
                .queues
                .iter()
                .map(|q| Queue {
                    account: Account::new(q.reserved, q.limit),
                    pool: q.pool,
                    peak: Watermark::default(),
                })
                .collect(),
            shared_size: 0,
            shared_used: 0,
            shared_peak: Watermark::default(),
            headroom_size: 0,
            headroom_used: 0,
            headroom_peak: Watermark::default(),
            egress_size: [0; 2],
            egress_used: [0; 2],
            port_ingress: Vec::new(),
            port_egress: Vec::new(),
            others_shared: 0,
            others_headroom: 0,
            others_egress: [0; 2],
            others_held: 0,
            unsaid: 0,
            most_unsaid: 0,
            plain: true,
            overcommitted: false,
            hard_limit: 0,
            applied: vec![vec![0; pgs]; shards],
            ledger,
            shard,
            ports,
            held: 0,
            xoff_groups: 0,
            cells: Cells::of(&params),
            params: params.clone(),
        };
        mmu.apply(params)?;
        Ok(mmu)
    }

    /// Replaces limits and sizes while frames are held; occupancies stay (B15). A limit below
    /// present use admits nothing more until use has fallen; nothing underflows.
    ///
    /// # Errors
    /// [`MmuError`]; the old parameters stay in force.
    pub fn apply(&mut self, params: MmuParams) -> Result<(), MmuError> {
        let mut params = params;
        self.replace(&mut params)
    }

    /// [`Mmu::apply`]; what was in force comes back in `params`.
    ///
    /// # Errors
    /// [`MmuError`]; the old parameters stay in force.
    pub fn replace(&mut self, params: &mut MmuParams) -> Result<(), MmuError> {
        let shared = params.shared()?;
        if params.ports() != self.ports {
            return Err(MmuError::Shape { what: "pgs", got: params.pgs.len(), ports: self.ports });
        }
        self.shared_peak.note(self.shared_used + self.others_shared);
        self.shared_size = shared;
        self.headroom_size = params.headroom();
        let [lossy, lossless] = params.egress_pools;
        // Headroom and flooded copies wait in lossless queues too: only a pool nothing can fill never refuses (B11).
        let unlimited = params.total.saturating_mul(self.ports as u64);
        self.egress_size = [lossy.unwrap_or(shared + params.reserved()), lossless.unwrap_or(unlimited)];
        for (pg, p) in self.pgs.iter_mut().zip(&params.pgs) {
            // Moving the minimum moves bytes between the guaranteed part and the pool.
            let before = pg.account.shared();
            pg.shared_peak.note(before);
            pg.account.reserved = p.reserved;
            pg.account.limit = p.limit;
            self.shared_used = self.shared_used + pg.account.shared() - before;
            pg.headroom_limit = p.headroom;
            pg.xon = p.xon;
            pg.xon_offset = p.xon_offset;
            pg.lossless = p.lossless;
        }
        let control = params.control / self.ledger.shards.len() as u64;
        for pg in &mut self.pgs[params.pgs.len()..] {
            let before = pg.account.shared();
            pg.account.reserved = control;
            self.shared_used = self.shared_used + pg.account.shared() - before;
        }
        for (queue, p) in self.queues.iter_mut().zip(&params.queues) {
            let before = queue.account.shared();
            self.egress_used[queue.pool as usize] -= before;
            queue.account.reserved = p.reserved;
            queue.account.limit = p.limit;
            queue.pool = p.pool;
            self.egress_used[queue.pool as usize] += queue.account.shared();
        }
        let used_by = |i: usize, port: usize| i / PRIORITIES == port;
        let shared_of = |port| {
            self.pgs
                .iter()
                .enumerate()
                .filter(|(i, _)| used_by(*i, port))
                .map(|(_, pg)| pg.account.shared())
                .sum()
        };
        self.port_ingress = port_limits(&params.port_ingress_limit, shared_of);
        let queued_of = |port| {
            let own =
                self.queues.iter().enumerate().filter(|(i, q)| used_by(*i, port) && q.pool == PoolId::Lossy);
            own.map(|(_, q)| q.account.shared()).sum()
        };
        self.port_egress = port_limits(&params.port_egress_limit, queued_of);
        self.cells = Cells::of(params);
        let others = self.ledger.shards.len() as u64 - 1;
        self.most_unsaid = params.staleness.checked_div(others).unwrap_or(u64::MAX);
        std::mem::swap(&mut self.params, params);
        self.overcommitted = true;
        self.hard_limit = self.hard_limit.max(self.params.total - self.params.staleness);
        self.settle();
        self.publish();
        Ok(())
    }

    /// The parameters in force.
    pub fn params(&self) -> &MmuParams {
        &self.params
    }

    #[inline(always)]
    fn free_shared(&self) -> u64 {
        self.shared_size.saturating_sub(self.shared_used + self.others_shared)
    }

    #[inline(always)]
    fn free_headroom(&self) -> u64 {
        self.headroom_size.saturating_sub(self.headroom_used + self.others_headroom)
    }

    #[inline(always)]
    fn free_egress(&self, pool: PoolId) -> u64 {
        let pool = pool as usize;
        self.egress_size[pool].saturating_sub(self.egress_used[pool] + self.others_egress[pool])
    }

    /// `bytes` are about to be admitted: if the others have not been told of too many before, they are told now, and
    /// asked what they hold. So whoever asked last knows what each of the others holds but for `most_unsaid`, and all
    /// together take no more than there is, `staleness` included.
    #[inline(always)]
    fn count_unsaid(&mut self, bytes: u64) {
        self.unsaid += bytes;
        if self.unsaid > self.most_unsaid {
            self.exchange();
            self.unsaid = bytes;
        }
    }

    /// Ends the overcommitment as soon as both pools hold no more than they are large.
    #[cold]
    fn settle(&mut self) {
        self.overcommitted &= self.shared_used + self.others_shared > self.shared_size
            || self.headroom_used + self.others_headroom > self.headroom_size;
        if !self.overcommitted {
            self.hard_limit = self.params.total - self.params.staleness;
        }
        self.plain = !self.overcommitted && self.port_ingress.is_empty() && self.port_egress.is_empty();
    }

    /// Whether `bytes` more are there at all. Only an overcommitted buffer can promise what it has not.
    #[cold]
    fn has_room(&mut self, bytes: u64) -> bool {
        self.settle();
        !self.overcommitted || self.held + self.others_held + bytes <= self.hard_limit
    }

    fn publish(&self) {
        let own = &self.ledger.shards[self.shard];
        own.shared.store(self.shared_used, Relaxed);
        own.headroom.store(self.headroom_used, Relaxed);
        own.egress[0].store(self.egress_used[0], Relaxed);
        own.egress[1].store(self.egress_used[1], Relaxed);
        own.held.store(self.held, Relaxed);
    }

    /// Which bytes leave first: headroom, then shared, then the minimum.
    #[inline(always)]
    fn release_pg(&mut self, ix: usize, bytes: u64) -> bool {
        let pg = &mut self.pgs[ix];
        pg.shared_peak.note(pg.account.shared());
        self.shared_peak.note(self.shared_used + self.others_shared);
        let from_headroom = bytes.min(pg.headroom_used);
        pg.headroom_used -= from_headroom;
        self.headroom_used -= from_headroom;
        let shrink = pg.account.give(bytes - from_headroom);
        self.shared_used -= shrink;
        self.held -= bytes;
        let xoff = pg.xoff;
        if !self.port_ingress.is_empty() {
            self.port_ingress_give(ix, shrink);
        }
        xoff && self.may_resume(ix)
    }

    /// Clears Xoff and says so, if the group is at or below its resume point (C4, DEV-24, DEV-50):
    /// headroom empty, use at most `max(xon, limit - xon_offset)`, and free headroom for the next Xoff.
    #[cold]
    fn may_resume(&mut self, ix: usize) -> bool {
        let (free, free_headroom, headroom_size) =
            (self.free_shared(), self.free_headroom(), self.headroom_size);
        if self.overcommitted {
            self.settle();
        }
        let overcommitted = self.overcommitted;
        let pg = &mut self.pgs[ix];
        let due = !overcommitted
            && pg.headroom_used == 0
            && pg.account.used <= resume_point(pg, free)
            && free_headroom >= pg.headroom_limit.min(headroom_size);
        if due {
            pg.xoff = false;
            self.xoff_groups -= 1;
        }
        due
    }

    #[cold]
    fn port_ingress_give(&mut self, ix: usize, bytes: u64) {
        if let Some(port) = self.port_ingress.get_mut(ix / PRIORITIES) {
            port.used -= bytes;
        }
    }

    /// The frame does not fit its share: headroom if the group is lossless, else it is refused.
    #[cold]
    fn admit_beyond(&mut self, ix: usize, bytes: u64) -> AdmitVerdict {
        let free_headroom = self.free_headroom();
        let (free, port_limits) = (self.free_shared(), !self.port_ingress.is_empty());
        let pg = &mut self.pgs[ix];
        if !pg.lossless {
            let fits = pg.account.fits(bytes, free);
            return AdmitVerdict::Refused(match (fits, port_limits, pg.account.growth(bytes) > free) {
                (true, true, _) => DropReason::IngressPortPool,
                (_, _, true) => DropReason::IngressBufferFull,
                _ => DropReason::IngressShared,
            });
        }
        if pg.headroom_used + bytes > pg.headroom_limit || bytes > free_headroom {
            return AdmitVerdict::Refused(DropReason::IngressHeadroom);
        }
        pg.headroom_used += bytes;
        pg.headroom_peak.note(pg.headroom_used);
        self.headroom_used += bytes;
        self.headroom_peak.note(self.headroom_used + self.others_headroom);
        self.held += bytes;
        if std::mem::replace(&mut pg.xoff, true) {
            return AdmitVerdict::Admitted;
        }
        self.xoff_groups += 1;
        AdmitVerdict::AdmittedXoff
    }

    /// The usual case of admission: group and queue have room to spare, no line is near.
    /// `false`: nothing is charged, and the decision takes a closer look.
    #[inline(always)]
    fn admit_well_within(&mut self, pg: usize, queue: usize, bytes: u64) -> bool {
        let free = self.free_shared();
        let (pg, queue) = (&mut self.pgs[pg], &mut self.queues[queue]);
        let pool = queue.pool as usize;
        let free_egress =
            self.egress_size[pool].saturating_sub(self.egress_used[pool] + self.others_egress[pool]);
        let used = pg.account.used;
        let Some(growth) = pg.account.take_well_within(bytes, free) else { return false };
        let Some(queue_growth) = queue.account.take_well_within(bytes, free_egress) else {
            pg.account.used = used;
            return false;
        };
        self.shared_used += growth;
        self.egress_used[pool] += queue_growth;
        self.held += bytes;
        true
    }

    #[inline(never)]
    fn admit_closely(&mut self, pg: PgIx, queue: QueueIx, bytes: u32) -> AdmitVerdict {
        let (queue, bytes) = (queue.0 as usize, u64::from(bytes));
        if !self.egress_fits(queue, bytes) {
            return AdmitVerdict::Refused(self.egress_reason(queue, bytes));
        }
        let verdict = self.ingress(pg.0 as usize, bytes);
        if !matches!(verdict, AdmitVerdict::Refused(_)) {
            self.egress_take(queue, bytes);
        }
        verdict
    }

    fn ingress(&mut self, ix: usize, bytes: u64) -> AdmitVerdict {
        self.count_unsaid(bytes);
        if self.overcommitted && !self.has_room(bytes) {
            let lossless = self.pgs[ix].lossless;
            return AdmitVerdict::Refused(match lossless {
                true => DropReason::IngressHeadroom,
                false => DropReason::IngressBufferFull,
            });
        }
        let (free, overcommitted) = (self.free_shared(), self.overcommitted);
        let pg = &mut self.pgs[ix];
        if !pg.account.fits(bytes, free)
            || (!self.port_ingress.is_empty() && !port_fits(&self.port_ingress, ix, pg.account.growth(bytes)))
        {
            return self.admit_beyond(ix, bytes);
        }
        let growth = pg.account.take(bytes);
        self.shared_used += growth;
        self.held += bytes;
        let shared = pg.account.shared();
        if !self.port_ingress.is_empty()
            && let Some(port) = self.port_ingress.get_mut(ix / PRIORITIES)
        {
            port.used += growth;
        }
        // B1: Xoff at the first frame that leaves the group over its (shrunken) threshold. While it is overcommitted not even a
        // minimum is sure, so nobody waits for the threshold (B15).
        let over = overcommitted || growth > 0 && shared > pg.account.limit.bytes(free - growth);
        if pg.lossless && over && !pg.xoff {
            pg.xoff = true;
            self.xoff_groups += 1;
            return AdmitVerdict::AdmittedXoff;
        }
        AdmitVerdict::Admitted
    }

    fn egress_fits(&self, ix: usize, bytes: u64) -> bool {
        let queue = &self.queues[ix];
        queue.account.fits(bytes, self.free_egress(queue.pool))
            && (self.port_egress.is_empty()
                || queue.pool == PoolId::Lossless
                || port_fits(&self.port_egress, ix, queue.account.growth(bytes)))
    }

    fn egress_take(&mut self, ix: usize, bytes: u64) {
        let queue = &mut self.queues[ix];
        let growth = queue.account.take(bytes);
        self.egress_used[queue.pool as usize] += growth;
        if !self.port_egress.is_empty() && queue.pool == PoolId::Lossy {
            self.port_egress[ix / PRIORITIES].used += growth;
        }
    }

    #[cold]
    fn egress_reason(&self, ix: usize, bytes: u64) -> DropReason {
        let queue = &self.queues[ix];
        if queue.account.fits(bytes, self.free_egress(queue.pool)) {
            DropReason::EgressPortPool
        } else {
            DropReason::EgressQueueFull
        }
    }

    /// One group, for readers.
    pub fn pg(&self, ix: PgIx) -> PgView {
        let pg = &self.pgs[ix.0 as usize];
        let free = self.free_shared();
        PgView {
            used: pg.account.used,
            shared: pg.account.shared(),
            headroom: pg.headroom_used,
            limit: pg.account.limit.bytes(free),
            reserved: pg.account.reserved,
            headroom_limit: pg.headroom_limit,
            xon_at: resume_point(pg, free),
            xoff: pg.xoff,
            lossless: pg.lossless,
            shared_peak: pg.shared_peak.with(pg.account.shared()),
            headroom_peak: pg.headroom_peak,
        }
    }

    /// One queue, for readers.
    pub fn queue(&self, ix: QueueIx) -> QueueView {
        let queue = &self.queues[ix.0 as usize];
        QueueView {
            used: queue.account.used,
            limit: queue
                .account
                .reserved
                .saturating_add(queue.account.limit.bytes(self.free_egress(queue.pool))),
            peak: queue.peak.with(queue.account.used),
        }
    }

    /// The pools, for readers.
    pub fn pools(&self) -> PoolView {
        PoolView {
            shared_size: self.shared_size,
            shared_used: self.shared_used + self.others_shared,
            headroom_size: self.headroom_size,
            headroom_used: self.headroom_used + self.others_headroom,
            shared_peak: self.shared_peak.with(self.shared_used + self.others_shared),
            headroom_peak: self.headroom_peak,
        }
    }

    /// Starts new peaks for one reader everywhere (G5).
    pub fn clear_watermarks(&mut self, reader: usize) {
        for pg in &mut self.pgs {
            pg.shared_peak.clear(reader, pg.account.shared());
            pg.headroom_peak.clear(reader, pg.headroom_used);
        }
        for queue in &mut self.queues {
            queue.peak.clear(reader, queue.account.used);
        }
        self.shared_peak.clear(reader, self.shared_used + self.others_shared);
        self.headroom_peak.clear(reader, self.headroom_used + self.others_headroom);
    }

    /// Checks that all sums agree with their parts (B13).
    ///
    /// # Errors
    /// A sentence with the two numbers that differ.
    pub fn audit(&self) -> Result<(), String> {
        let equal = |what: &str, sum: u64, total: u64| {
            if sum == total { Ok(()) } else { Err(format!("{what}: parts {sum}, total {total}")) }
        };
        equal("shared pool", self.pgs.iter().map(|p| p.account.shared()).sum(), self.shared_used)?;
        equal("headroom", self.pgs.iter().map(|p| p.headroom_used).sum(), self.headroom_used)?;
        equal("held", self.pgs.iter().map(|p| p.account.used + p.headroom_used).sum(), self.held)?;
        for pool in [PoolId::Lossy, PoolId::Lossless] {
            let parts = self.queues.iter().filter(|q| q.pool == pool).map(|q| q.account.shared()).sum();
            equal("egress pool", parts, self.egress_used[pool as usize])?;
        }
        Ok(())
    }

    /// Bytes in this shard's egress queues, by the egress side's count.
    pub fn queued_bytes(&self) -> u64 {
        self.queues.iter().map(|q| q.account.used).sum()
    }
}

fn resume_point(pg: &Pg, free: u64) -> u64 {
    let limit = pg.account.reserved.saturating_add(pg.account.limit.bytes(free));
    pg.xon.max(limit.saturating_sub(pg.xon_offset))
}

fn port_limits(limits: &[Option<u64>], used: impl Fn(usize) -> u64) -> Vec<PortLimit> {
    if limits.iter().all(Option::is_none) {
        return Vec::new();
    }
    let one = |(port, limit): (usize, &Option<u64>)| PortLimit {
        limit: limit.unwrap_or(u64::MAX),
        used: used(port),
    };
    limits.iter().enumerate().map(one).collect()
}

/// Control groups stand behind the last port and have no port limit.
fn port_fits(ports: &[PortLimit], ix: usize, growth: u64) -> bool {
    ports.get(ix / PRIORITIES).is_none_or(|port| growth == 0 || port.used + growth <= port.limit)
}

impl Admission for Mmu {
    fn admit(&mut self, pg: PgIx, queue: QueueIx, bytes: u32) -> AdmitVerdict {
        if self.admit_together(pg, queue, bytes) {
            return AdmitVerdict::Admitted;
        }
        self.admit_closely(pg, queue, bytes)
    }

    // Use only grows and free space only shrinks from frame to frame: what holds at the end held before.
    #[inline(always)]
    fn admit_together(&mut self, pg: PgIx, queue: QueueIx, bytes: u32) -> bool {
        self.count_unsaid(u64::from(bytes));
        self.plain && self.admit_well_within(pg.0 as usize, queue.0 as usize, u64::from(bytes))
    }

    fn admit_ingress(&mut self, pg: PgIx, bytes: u32) -> AdmitVerdict {
        self.ingress(pg.0 as usize, u64::from(bytes))
    }

    fn admit_ingress_together(&mut self, pg: PgIx, bytes: u32) -> bool {
        self.count_unsaid(u64::from(bytes));
        if !self.plain {
            return false;
        }
        let free = self.free_shared();
        let account = &mut self.pgs[pg.0 as usize].account;
        let Some(growth) = account.take_well_within(u64::from(bytes), free) else { return false };
        self.shared_used += growth;
        self.held += u64::from(bytes);
        true
    }

    fn admit_egress(&mut self, queue: QueueIx, bytes: u32) -> Result<(), DropReason> {
        let (queue, bytes) = (queue.0 as usize, u64::from(bytes));
        if !self.egress_fits(queue, bytes) {
            return Err(self.egress_reason(queue, bytes));
        }
        self.egress_take(queue, bytes);
        Ok(())
    }

    #[inline(always)]
    fn release_egress(&mut self, queue: QueueIx, bytes: u32) {
        let ix = queue.0 as usize;
        let queue = &mut self.queues[ix];
        queue.peak.note(queue.account.used);
        let shrink = queue.account.give(u64::from(bytes));
        let pool = queue.pool;
        self.egress_used[pool as usize] -= shrink;
        if !self.port_egress.is_empty() && pool == PoolId::Lossy {
            self.port_egress[ix / PRIORITIES].used -= shrink;
        }
    }

    #[inline(always)]
    fn release_ingress(&mut self, pg: PgIx, bytes: u32) -> bool {
        self.release_pg(pg.0 as usize, u64::from(bytes))
    }

    fn resume_moved(&mut self, resume: &mut dyn FnMut(PgIx)) {
        if self.xoff_groups == 0 {
            return;
        }
        for ix in 0..self.pgs.len() {
            if self.pgs[ix].xoff && self.may_resume(ix) {
                resume(PgIx(ix as u32));
            }
        }
    }

    fn held_bytes(&self) -> u64 {
        self.held
    }

    fn pg_view(&self, pg: PgIx) -> PgView {
        self.pg(pg)
    }

    fn queue_view(&self, queue: QueueIx) -> QueueView {
        self.queue(queue)
    }

    #[inline(always)]
    fn charge(&self, len: u32) -> u32 {
        // A division would cost as much as the rest of admission; real cells are powers of two but for one.
        let whole = match self.cells {
            Cells { odd: Some(cell), .. } => len.div_ceil(cell.get()) * cell.get(),
            Cells { rest, .. } => (len + rest) & !rest,
        };
        whole.max(self.cells.least)
    }

    fn charge_for_copies(&self, charge: u32, copies: u32) -> u32 {
        charge.max(copies.saturating_mul(self.cells.least))
    }

    fn is_lossless(&self, pg: PgIx) -> bool {
        self.pgs[pg.0 as usize].lossless
    }

    fn control_pg(&self) -> Option<PgIx> {
        Some(PgIx((self.ports * PRIORITIES + self.shard) as u32))
    }

    fn exchange(&mut self) {
        if self.ledger.shards.len() == 1 {
            return;
        }
        self.publish();
        self.unsaid = 0;
        // Of two that do this at the same time one sees what the other says.
        fence(Ordering::SeqCst);
        self.shared_peak.note(self.shared_used + self.others_shared);
        let (mut shared, mut headroom, mut egress, mut held) = (0, 0, [0; 2], 0);
        for (i, sums) in self.ledger.shards.iter().enumerate() {
            if i != self.shard {
                shared += sums.shared.load(Relaxed);
                headroom += sums.headroom.load(Relaxed);
                egress[0] += sums.egress[0].load(Relaxed);
                egress[1] += sums.egress[1].load(Relaxed);
                held += sums.held.load(Relaxed);
            }
        }
        (self.others_shared, self.others_headroom, self.others_egress) = (shared, headroom, egress);
        self.others_held = held;
    }

    fn mark_remote(&mut self, pg: PgIx) {
        self.pgs[pg.0 as usize].remote = true;
    }
    fn release_for_owner(&mut self, pg: PgIx, bytes: u32) {
        let counter = &self.ledger.shards[self.shard].released[pg.0 as usize];
        counter.store(counter.load(Relaxed) + u64::from(bytes), Relaxed);
    }
    fn collect_remote(&mut self, resume: &mut dyn FnMut(PgIx)) {
        let shards = self.ledger.shards.len();
        if shards == 1 {
            return;
        }
        for pg in 0..self.pgs.len() {
            if !self.pgs[pg].remote {
                continue;
            }
            for shard in 0..shards {
                let total = self.ledger.shards[shard].released[pg].load(Relaxed);
                let delta = total - std::mem::replace(&mut self.applied[shard][pg], total);
                if delta > 0 && self.release_pg(pg, delta) {
                    resume(PgIx(pg as u32));
                }
            }
            let p = &mut self.pgs[pg];
            p.remote = p.account.used + p.headroom_used > 0;
        }
    }
}

#[cfg(test)]
mod tests;
