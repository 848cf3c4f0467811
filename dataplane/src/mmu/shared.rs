//! weir's own MMU: reserved, then shared up to a Dynamic Threshold, then headroom.
//!
//! Ingress priority groups hold the bytes; egress queues are a second view of the same bytes with
//! limits of their own. A shard owns the groups and queues of its ports. What it must know of the
//! others is a few single-writer sums in the [`Ledger`].

mod divide;
mod ledger;
mod restore;
mod views;
mod xoff_groups;

pub use ledger::Ledger;
pub use restore::Held;
pub use views::{PgView, PoolView, PortView, QueueView};

use super::account::Account;
use super::params::{MmuParams, PoolId};
use super::watermark::Watermark;
use super::{Admission, AdmitVerdict, PgIx, QueueIx};
use crate::drops::DropReason;
use crate::types::PRIORITIES;
use std::num::NonZeroU32;
use std::sync::Arc;
use xoff_groups::XoffGroups;

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
    /// While there are none, a tick has nothing to look at.
    xoff_groups: XoffGroups,
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

impl Mmu {
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
        self.resume_room().is_some_and(|room| self.resumes_with(ix, &room))
    }

    /// The same, with what all groups may resume on account of.
    #[inline(always)]
    fn resumes_with(&mut self, ix: usize, room: &ResumeRoom) -> bool {
        let due = self.is_due(ix, room);
        let pg = &mut self.pgs[ix];
        if due {
            pg.xoff = false;
            self.xoff_groups.remove(ix);
        } else if pg.headroom_used == 0 {
            self.xoff_groups.lower_floor(resumes_at(pg));
        }
        due
    }

    #[inline(always)]
    fn is_due(&self, ix: usize, room: &ResumeRoom) -> bool {
        let pg = &self.pgs[ix];
        pg.headroom_used == 0
            && pg.account.used <= resume_point(pg, room.shared)
            && room.headroom >= pg.headroom_limit.min(self.headroom_size)
    }

    /// What groups may resume on account of; `None`: none may.
    fn resume_room(&mut self) -> Option<ResumeRoom> {
        if self.overcommitted {
            self.settle();
        }
        let (shared, headroom) = (self.free_shared(), self.free_headroom());
        (!self.overcommitted).then_some(ResumeRoom { shared, headroom })
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
        self.xoff_groups.insert(ix);
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
            self.xoff_groups.insert(ix);
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
}

fn resume_point(pg: &Pg, free: u64) -> u64 {
    let limit = pg.account.reserved.saturating_add(pg.account.limit.bytes(free));
    pg.xon.max(limit.saturating_sub(pg.xon_offset))
}

/// The free bytes of the shared pool from which on the use of a group is at its [`resume_point`] or below it.
fn resumes_at(pg: &Pg) -> u64 {
    let Account { reserved, used, limit } = pg.account;
    let wanted = match used <= pg.xon {
        true => 0,
        false => used.saturating_add(pg.xon_offset).saturating_sub(reserved),
    };
    limit.free_for(wanted)
}

/// Free memory, bytes, as groups in Xoff see it.
struct ResumeRoom {
    shared: u64,
    headroom: u64,
}

/// Control groups and those of mirrors stand behind the last port and have no port limit.
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

    // What is noted is what there was while it was here, as when it is released.
    #[inline]
    fn pass(&mut self, pg: PgIx, queue: QueueIx, bytes: u32) -> bool {
        let (free, bytes) = (self.free_shared(), u64::from(bytes));
        let (pg, queue) = (&mut self.pgs[pg.0 as usize], &mut self.queues[queue.0 as usize]);
        let pool = queue.pool as usize;
        let free_egress =
            self.egress_size[pool].saturating_sub(self.egress_used[pool] + self.others_egress[pool]);
        let (mut group, mut own) = (pg.account, queue.account);
        let Some(growth) = group.take_well_within(bytes, free) else { return false };
        if !self.plain
            || pg.xoff
            || pg.headroom_used > 0
            || own.take_well_within(bytes, free_egress).is_none()
        {
            return false;
        }
        queue.peak.note(own.used);
        pg.shared_peak.note(group.shared());
        self.shared_peak.note(self.shared_used + growth + self.others_shared);
        true
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
        // Or all would be looked at each time a frame leaves.
        if !self.overcommitted && !self.xoff_groups.may_resume(self.free_shared()) {
            let room = ResumeRoom { shared: self.free_shared(), headroom: self.free_headroom() };
            debug_assert!((0..self.pgs.len()).all(|ix| !self.pgs[ix].xoff || !self.is_due(ix, &room)));
            return;
        }
        // Nothing of it changes when a group resumes.
        let Some(room) = self.resume_room() else { return };
        self.xoff_groups.set_floor(u64::MAX);
        let mut from = 0;
        while let Some(ix) = self.xoff_groups.next(from) {
            if self.resumes_with(ix, &room) {
                resume(PgIx(ix as u32));
            }
            from = ix + 1;
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

    fn mirror_pg(&self) -> Option<PgIx> {
        Some(PgIx((self.ports * PRIORITIES + self.ledger.shards.len() + self.shard) as u32))
    }

    fn is_mirror(&self, PgIx(pg): PgIx) -> bool {
        pg as usize >= self.ports * PRIORITIES + self.ledger.shards.len()
    }

    fn exchange(&mut self) {
        self.exchange_sums();
    }

    fn mark_remote(&mut self, pg: PgIx) {
        self.pgs[pg.0 as usize].remote = true;
    }
    fn release_for_owner(&mut self, pg: PgIx, bytes: u32) {
        self.tell_owner(pg, bytes);
    }
    fn collect_remote(&mut self, resume: &mut dyn FnMut(PgIx)) {
        self.collect_released(resume);
    }
}

#[cfg(test)]
mod tests;
