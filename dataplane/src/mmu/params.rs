//! What the MMU is told: the division of the buffer and the limits of every holder.

use super::account::Limit;
use crate::types::PRIORITIES;

/// An egress pool: a view of the same bytes from the egress side, with a limit of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PoolId {
    /// Queues whose frames may be dropped.
    Lossy = 0,
    /// Queues whose frames are never dropped at egress (B11).
    Lossless = 1,
}

/// Limits of one ingress priority group (SONiC BUFFER_PG and its BUFFER_PROFILE).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PgParams {
    /// Guaranteed bytes (`size` of a profile with shared headroom).
    pub reserved: u64,
    /// Share of the pool (`dynamic_th` or `static_th`).
    pub limit: Limit,
    /// Bytes the group may hold after Xoff (`xoff`). Zero for a lossy group.
    pub headroom: u64,
    /// Resume at or below this many bytes in use...
    pub xon: u64,
    /// ...or at or below the moving limit less this many bytes, whichever is higher.
    pub xon_offset: u64,
    /// Sends Xoff instead of dropping.
    pub lossless: bool,
}

impl PgParams {
    /// Nothing is set aside, and nothing but the pool is a limit.
    pub const UNUSED: Self =
        Self { reserved: 0, limit: Limit::UNLIMITED, headroom: 0, xon: 0, xon_offset: 0, lossless: false };
}

/// Limits of one egress queue (SONiC BUFFER_QUEUE).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueParams {
    /// Guaranteed bytes.
    pub reserved: u64,
    /// Share of the egress pool.
    pub limit: Limit,
    /// The egress pool the queue draws from.
    pub pool: PoolId,
}

/// The whole buffer. Bytes throughout; `pgs` and `queues` have `ports * 8` elements.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MmuParams {
    /// All bytes there are.
    pub total: u64,
    /// Charge granularity: 1 for bytes, an ASIC's cell size to mimic it (charges round up).
    pub cell_bytes: u32,
    /// A frame is charged at least so much, however short it is, and so is each copy of a flooded one: its part of the
    /// memory for frames. While no more than `total` is charged, no more than `total / least_charge` frames are held.
    pub least_charge: u32,
    /// Priority groups, `port * 8 + pg`.
    pub pgs: Vec<PgParams>,
    /// Egress queues, `port * 8 + queue`.
    pub queues: Vec<QueueParams>,
    /// Bytes all headrooms share; `None`: every group has its own in full.
    pub headroom_pool: Option<u64>,
    /// Size of the lossy and of the lossless egress pool. `None`: the lossy one is as large as the ingress pool, the
    /// lossless one never refuses (B11).
    pub egress_pools: [Option<u64>; 2],
    /// Most bytes of the shared pool all groups of a port may hold together; `None`: no such limit.
    pub port_ingress_limit: Vec<Option<u64>>,
    /// Most bytes of the lossy egress pool all queues of a port may hold together, beyond the reserve of each; `None`: no such limit.
    pub port_egress_limit: Vec<Option<u64>>,
    /// Bytes set apart for CNPs; they fall back to their group when it is full.
    pub control: u64,
    /// Bytes set apart for copies that mirrors make.
    pub mirror: u64,
    /// Bytes set apart because what shards know of each other is old: each of the others may admit an equal part of it
    /// before it says so.
    pub staleness: u64,
}

/// Why a division of the buffer is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MmuError {
    /// More is promised than there is (DEV-18, DEV-19, DEV-53).
    #[error(
        "the buffer is over-committed: reserved {reserved} + headroom {headroom} + control {control} + \
         mirror {mirror} + staleness {staleness} = {sum} bytes, but the buffer has {total}; make it at least {sum} bytes plus \
         what is to be shared, or reserve less"
    )]
    OverCommitted {
        /// Sum of all guaranteed minimums.
        reserved: u64,
        /// Headroom pool, or the sum of private headrooms.
        headroom: u64,
        /// Control pool.
        control: u64,
        /// Copies of mirrors.
        mirror: u64,
        /// Cross-shard allowance.
        staleness: u64,
        /// Their sum.
        sum: u64,
        /// Buffer size.
        total: u64,
    },
    /// A lossless group that would drop at once when it pauses (SONiC issue 480; B4).
    #[error("priority group {pg} of port {port} is lossless but has no headroom: give its profile `xoff`")]
    NoHeadroom {
        /// Port index.
        port: usize,
        /// Group index.
        pg: usize,
    },
    /// Array lengths disagree.
    #[error("{what}: {got} entries for {ports} ports")]
    Shape {
        /// Which array.
        what: &'static str,
        /// Its length.
        got: usize,
        /// Ports of the switch.
        ports: usize,
    },
}

impl MmuParams {
    /// Number of ports these parameters describe.
    pub fn ports(&self) -> usize {
        self.pgs.len() / PRIORITIES
    }

    /// Sum of every guaranteed minimum of the ingress side.
    pub fn reserved(&self) -> u64 {
        self.pgs.iter().map(|pg| pg.reserved).sum()
    }

    /// Bytes set apart for frames that arrive after Xoff.
    pub fn headroom(&self) -> u64 {
        self.headroom_pool.unwrap_or_else(|| self.pgs.iter().map(|pg| pg.headroom).sum())
    }

    /// What is left to share once all promises are set apart (DEV-18: `B - sum(S) - sum(headroom)`).
    ///
    /// # Errors
    /// [`MmuError`] if nothing adds up.
    pub fn shared(&self) -> Result<u64, MmuError> {
        let ports = self.ports();
        for (what, got, want) in [
            ("pgs", self.pgs.len(), ports * PRIORITIES),
            ("queues", self.queues.len(), ports * PRIORITIES),
            ("port_ingress_limit", self.port_ingress_limit.len(), ports),
            ("port_egress_limit", self.port_egress_limit.len(), ports),
        ] {
            if got != want {
                return Err(MmuError::Shape { what, got, ports });
            }
        }
        if let Some(i) = self.pgs.iter().position(|pg| pg.lossless && pg.headroom == 0) {
            return Err(MmuError::NoHeadroom { port: i / PRIORITIES, pg: i % PRIORITIES });
        }
        let (reserved, headroom) = (self.reserved(), self.headroom());
        let sum = reserved + headroom + self.control + self.mirror + self.staleness;
        if sum > self.total {
            return Err(MmuError::OverCommitted {
                reserved,
                headroom,
                control: self.control,
                mirror: self.mirror,
                staleness: self.staleness,
                sum,
                total: self.total,
            });
        }
        Ok(self.total - sum)
    }

    /// A switch of `ports` lossy ports sharing `total` bytes with alpha 1 at egress: what remains
    /// when nothing is configured.
    pub fn lossy(ports: usize, total: u64) -> Self {
        let alpha_one = Limit::dynamic(0).unwrap_or(Limit::UNLIMITED);
        let queue = QueueParams { reserved: 0, limit: alpha_one, pool: PoolId::Lossy };
        Self {
            total,
            cell_bytes: 1,
            least_charge: 1,
            pgs: vec![PgParams::UNUSED; ports * PRIORITIES],
            queues: vec![queue; ports * PRIORITIES],
            headroom_pool: None,
            egress_pools: [None; 2],
            port_ingress_limit: vec![None; ports],
            port_egress_limit: vec![None; ports],
            control: 0,
            mirror: 0,
            staleness: 0,
        }
    }
}
