//! How the buffer is divided, at start and again while frames are held.

use super::ledger::Ledger;
use super::xoff_groups::XoffGroups;
use super::{Cells, Mmu, Pg, PortLimit, Queue};
use crate::mmu::account::{Account, Limit};
use crate::mmu::params::{MmuError, MmuParams, PoolId};
use crate::mmu::watermark::Watermark;
use crate::types::PRIORITIES;
use std::sync::Arc;

impl Mmu {
    /// An MMU for a switch in one piece.
    ///
    /// # Errors
    /// [`MmuError`] when the division does not add up.
    pub fn new(params: MmuParams) -> Result<Self, MmuError> {
        params.shared()?;
        let ledger = Arc::new(Ledger::new(1, params.pgs.len() + 2));
        Self::shard(params, 0, 1, ledger)
    }

    /// One MMU per shard, sharing a ledger. Every shard knows all groups; it charges only its own.
    ///
    /// # Errors
    /// [`MmuError`] when the division does not add up.
    pub fn sharded(params: &MmuParams, shards: usize) -> Result<Vec<Self>, MmuError> {
        params.shared()?;
        let ledger = Arc::new(Ledger::new(shards, params.pgs.len() + 2 * shards));
        (0..shards).map(|shard| Self::shard(params.clone(), shard, shards, Arc::clone(&ledger))).collect()
    }

    pub(super) fn shard(
        params: MmuParams,
        shard: usize,
        shards: usize,
        ledger: Arc<Ledger>,
    ) -> Result<Self, MmuError> {
        let (ports, pgs) = (params.ports(), params.pgs.len() + 2 * shards);
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
            // The control pools are groups of their own, one per shard, with nothing but a minimum, and so are those of
            // mirrors behind them.
            pgs: vec![empty_pg(0); pgs],
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
            xoff_groups: XoffGroups::new(pgs),
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
        self.xoff_groups.set_floor(0);
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
        let shards = self.ledger.shards.len();
        for (i, pg) in self.pgs[params.pgs.len()..].iter_mut().enumerate() {
            let before = pg.account.shared();
            pg.account.reserved = (if i < shards { params.control } else { params.mirror }) / shards as u64;
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

    /// Ends the overcommitment as soon as both pools hold no more than they are large.
    #[cold]
    pub(super) fn settle(&mut self) {
        self.overcommitted &= self.shared_used + self.others_shared > self.shared_size
            || self.headroom_used + self.others_headroom > self.headroom_size;
        if !self.overcommitted {
            self.hard_limit = self.params.total - self.params.staleness;
        }
        self.plain = !self.overcommitted && self.port_ingress.is_empty() && self.port_egress.is_empty();
    }

    /// Whether `bytes` more are there at all. Only an overcommitted buffer can promise what it has not.
    #[cold]
    pub(super) fn has_room(&mut self, bytes: u64) -> bool {
        self.settle();
        !self.overcommitted || self.held + self.others_held + bytes <= self.hard_limit
    }
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
