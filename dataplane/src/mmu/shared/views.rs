//! What readers see of the MMU, and the check that its sums agree with their parts.

use super::{Mmu, PortLimit, resume_point};
use crate::mmu::params::PoolId;
use crate::mmu::watermark::Watermark;
use crate::mmu::{PgIx, QueueIx};
use crate::types::PRIORITIES;

/// All priority groups, or all lossy queues, of a port together, where their use of the shared pool is limited. Bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortView {
    /// Held in the shared pool.
    pub shared: u64,
    /// Most they may hold of it.
    pub limit: u64,
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
    /// Its port; `None`: no limit is on that.
    pub port: Option<PortView>,
    /// Guaranteed bytes.
    pub reserved: u64,
    /// Most the group may hold in headroom.
    pub headroom_limit: u64,
    /// Resume point as it stands now: most of `used`.
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

impl PgView {
    /// The resume point in bytes of the shared pool, as `shared` and `limit` are; 0: no more than the guaranteed part, or less.
    pub fn xon_shared(&self) -> u64 {
        self.xon_at.saturating_sub(self.reserved)
    }

    /// Bytes of the shared pool that it may take still.
    pub fn shared_left(&self) -> u64 {
        let of_port = self.port.map_or(u64::MAX, |port| port.limit.saturating_sub(port.shared));
        self.limit.saturating_sub(self.shared).min(of_port)
    }
}

/// The limit of the port of a group or queue, where there is one.
fn port_of(limits: &[PortLimit], ix: u32) -> Option<PortView> {
    let port = limits.get(ix as usize / PRIORITIES).filter(|port| port.limit < u64::MAX)?;
    Some(PortView { shared: port.used, limit: port.limit })
}

/// An egress queue as a reader sees it. Bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueView {
    /// Held, until the driver has taken them.
    pub used: u64,
    /// Most the queue may hold now.
    pub limit: u64,
    /// Its port; `None`: no limit is on that, or none for queues of its pool.
    pub port: Option<PortView>,
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
    /// One group, for readers.
    pub fn pg(&self, ix: PgIx) -> PgView {
        let pg = &self.pgs[ix.0 as usize];
        let free = self.free_shared();
        PgView {
            used: pg.account.used,
            shared: pg.account.shared(),
            headroom: pg.headroom_used,
            limit: pg.account.limit.bytes(free),
            port: port_of(&self.port_ingress, ix.0),
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
            port: port_of(&self.port_egress, ix.0).filter(|_| queue.pool == PoolId::Lossy),
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
