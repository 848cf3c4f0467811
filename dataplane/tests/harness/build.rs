//! Parameters of the switches under test.

use super::frames::host;
use weir_dataplane::classify::{Classifier, Maps, default_trust};
use weir_dataplane::egress::{QueueSchedule, VoqOrder};
use weir_dataplane::mmu::{Limit, MmuParams, PgParams, PoolId};
use weir_dataplane::parse::Profile;
use weir_dataplane::pfc::generate::{GenerateConfig, REFRESH};
use weir_dataplane::pfc::react::{ReactConfig, RxMode};
use weir_dataplane::switch::{PortParams, SwitchParams, UnknownUnicast};
use weir_dataplane::types::{Mac, PRIORITIES, PortId};

/// One Gbit/s.
pub const G: u64 = 1_000_000_000;

/// DSCP 0..63 to traffic class as the reference suite has it (`qos-scenarios` 1.1).
pub const TEST_DSCP_OF_PRIORITY: [(u8, u8); 6] = [(3, 3), (4, 4), (5, 2), (8, 0), (46, 5), (48, 6)];

/// DSCP of a priority under the default map (class selector).
pub fn dscp(priority: u8) -> u8 {
    priority << 3
}

/// A classifier in the default trust order.
pub fn classifier_of(maps: &Maps) -> Classifier {
    Classifier::new(maps, &default_trust()).unwrap()
}

/// A switch of like ports, each with a station of its own ([`host`]).
#[derive(Clone, Debug)]
pub struct Plan {
    pub ports: usize,
    pub rate: u64,
    /// Bytes of the shared pool.
    pub shared: u64,
    /// Lossless priorities, a bit each; PG and queue have the same number.
    pub lossless: u8,
    pub reserved: u64,
    pub limit: Limit,
    pub headroom: u64,
    /// Shared headroom pool, if headroom is not private.
    pub headroom_pool: Option<u64>,
    pub xon: u64,
    pub xon_offset: u64,
    pub quanta: u16,
}

impl Plan {
    /// Priorities 3 and 4 lossless, alpha 1, 1 MB to share, 100 kB of headroom per group.
    pub fn new(ports: usize) -> Self {
        Self {
            ports,
            rate: 100 * G,
            shared: 1_000_000,
            lossless: 0b0001_1000,
            reserved: 0,
            limit: Limit::dynamic(0).unwrap(),
            headroom: 100_000,
            headroom_pool: None,
            xon: 0,
            xon_offset: 3000,
            quanta: 0xffff,
        }
    }

    fn pg(&self, pg: usize) -> PgParams {
        if self.lossless >> pg & 1 == 1 {
            PgParams {
                reserved: self.reserved,
                limit: self.limit,
                headroom: self.headroom,
                xon: self.xon,
                xon_offset: self.xon_offset,
                lossless: true,
            }
        } else {
            PgParams {
                reserved: 0,
                limit: Limit::UNLIMITED,
                headroom: 0,
                xon: 0,
                xon_offset: 0,
                lossless: false,
            }
        }
    }

    pub fn mmu(&self) -> MmuParams {
        let mut mmu = MmuParams::lossy(self.ports, 0);
        for (i, pg) in mmu.pgs.iter_mut().enumerate() {
            *pg = self.pg(i % PRIORITIES);
        }
        for (i, queue) in mmu.queues.iter_mut().enumerate() {
            if self.lossless >> (i % PRIORITIES) & 1 == 1 {
                queue.limit = Limit::UNLIMITED;
                queue.pool = PoolId::Lossless;
            }
        }
        mmu.headroom_pool = self.headroom_pool;
        mmu.total = self.shared + mmu.reserved() + mmu.headroom();
        mmu
    }

    fn port(&self, index: usize) -> PortParams {
        let bits = std::array::from_fn(|i| 1 << i);
        PortParams {
            mac: Mac::from_u64(0x0200_0000_ff00 + index as u64),
            mtu: 9216,
            rate: None,
            burst: 0,
            profile: Profile::standard(),
            complete_checksums: false,
            classifier: classifier_of(&Maps::default()),
            unknown_unicast: UnknownUnicast::Flood,
            link_local: 1,
            lldp: false,
            lacp: false,
            storm_control: None,
            vlans: None,
            learning: true,
            learn_limit: 1000,
            queues: [QueueSchedule::STRICT; PRIORITIES],
            mark: [None; PRIORITIES],
            early_drop: [None; PRIORITIES],
            react: ReactConfig {
                rate: self.rate,
                enabled: self.lossless,
                mode: RxMode::Enabled,
                pfc_to_queue: std::array::from_fn(|i| i as u8),
            },
            generate: GenerateConfig {
                rate: self.rate,
                enabled: self.lossless,
                quanta: self.quanta,
                refresh: REFRESH,
            },
            pg_priorities: bits,
            pg_queues: bits,
            control_pool: false,
            admin_down: false,
            shard: 0,
            tx_per_lcore: false,
        }
    }

    pub fn params(&self) -> SwitchParams {
        let station = |n: u16| (Profile::standard().key(host(n).to_u64(), 0), PortId(n));
        SwitchParams {
            ports: (0..self.ports).map(|i| self.port(i)).collect(),
            mmu: self.mmu(),
            frames: 1 << 16,
            voq: VoqOrder::Fair,
            flow_cache: 1024,
            fdb_capacity: 1024,
            ageing: None,
            copied: 1 << 16,
            observed: true,
            stations: (0..self.ports as u16).map(station).collect(),
            groups: Vec::new(),
            lags: Vec::new(),
            mirrors: Vec::new(),
            watchdog: None,
            flows: None,
            seed: 1,
        }
    }
}
