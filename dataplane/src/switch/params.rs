//! What a switch is made from: checked parameters in, a switch or its shards out.

use super::batching::{AdmissionGroup, GROUPS};
use super::copies::Copies;
use super::flood::Flood;
use super::flow_cache::FlowCache;
use super::handoff::{FRAMES_IN_FLIGHT, most_in_flight_wire, stock};
use super::ports::{PortStatus, Ports, RemotePort};
use super::snooping::Snooping;
use super::stage::Stage;
use super::tick::Ageing;
use super::{MirrorParams, Observer, OwnPort, Peer, Switch, peers};
use crate::classify::Classifier;
use crate::drops::DropReason;
use crate::ecn::{MarkAt, Wred};
use crate::egress::{BATCH_MAX, QueueSchedule, Queues, Scheduler, Shaper, VoqOrder};
use crate::fdb::{Fdb, FdbFull};
use crate::flows::{FlowParams, FlowRecorder};
use crate::frame::{Frame, FrameRow};
use crate::lag::{LagMember, LagParams, Lags};
use crate::mmu::{Admission, Mmu, MmuError, MmuParams};
use crate::parse::{Profile, in_vlan};
use crate::pfc::generate::{GenerateConfig, Generator};
use crate::pfc::react::{ReactConfig, Reaction};
use crate::pfc::watchdog::{Watchdog, WatchdogConfig};
use crate::portset::PortSet;
use crate::rng::Rng;
use crate::stats::{LatencyStats, PauseStats, PortGauges, PortStats, Published};
use crate::storm_control::{Policers, StormControl};
use crate::types::{MAX_PORTS, Mac, Nanos, PRIORITIES, PortId};
use crate::vlan::{PortVlans, Vlans};

/// What happens to unicast whose destination is unknown (SW-053).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnknownUnicast {
    /// Send it to every other port of the same format.
    Flood,
    /// Drop it and count it.
    Drop,
}

/// One port.
#[derive(Clone, Debug)]
pub struct PortParams {
    /// Switched off: as without a link, and what is received all the same is dropped.
    pub admin_down: bool,
    /// Source address of the PFC frames it sends.
    pub mac: Mac,
    /// Longest frame it accepts, bytes without FCS.
    pub mtu: usize,
    /// Rate the shaper keeps, bit/s; `None`: as fast as the wire takes frames.
    pub rate: Option<u64>,
    /// Lateness the shaper makes up for, ns. Zero in virtual time.
    pub burst: Nanos,
    /// How its frames are read.
    pub profile: Profile,
    /// Checksums that senders left to hardware are made up on arrival.
    pub complete_checksums: bool,
    /// How they are classified.
    pub classifier: Classifier,
    /// What happens to unknown unicast from here.
    pub unknown_unicast: UnknownUnicast,
    /// Limits on what is flooded from here; `None`: there are none.
    pub storm_control: Option<StormControl>,
    /// Addresses 01-80-C2-00-00-00 to -0F, a bit each, whose frames go to every other port. MAC control is consumed
    /// whatever stands here.
    pub link_local: u16,
    /// LLDP frames go to whoever reads them here ([`Switch::read_local`]), whatever `link_local` says; if nobody does, they are
    /// dropped.
    pub lldp: bool,
    /// LACP says what the port carries ([`Switch::set_lag_member`]), nothing at first. Frames of the slow protocols go to whoever reads
    /// them, as with `lldp`.
    pub lacp: bool,
    /// The VLANs it is a member of; `None`: it knows nothing of VLANs. All ports of a switch know of them, or none.
    pub vlans: Option<PortVlans>,
    /// Source addresses are learned.
    pub learning: bool,
    /// Most addresses learned here.
    pub learn_limit: u32,
    /// How its queues are scheduled.
    pub queues: [QueueSchedule; PRIORITIES],
    /// How its queues mark; `None`: not at all.
    pub mark: [Option<Wred>; PRIORITIES],
    /// How its lossy queues drop not-ECT frames early; `None`: not at all. Never for a lossless
    /// queue (F7, B11).
    pub early_drop: [Option<Wred>; PRIORITIES],
    /// How it obeys pause.
    pub react: ReactConfig,
    /// How it pauses its peer.
    pub generate: GenerateConfig,
    /// Priorities (a bit each) whose frames each priority group holds: whom to pause for it.
    pub pg_priorities: [u8; PRIORITIES],
    /// Queues (a bit each) that frames of each priority group go to: where to look for a cause.
    pub pg_queues: [u8; PRIORITIES],
    /// CNPs are charged to the control pool while it has room (DEV-55).
    pub control_pool: bool,
    /// Shard (lcore) that owns the port.
    pub shard: u8,
    /// Every shard has a transmit queue of the port, and sends the frames it received itself.
    pub tx_per_lcore: bool,
}

impl PortParams {
    /// The format of the frames it takes, with the longest that both the format and the port have room for.
    pub fn accepted(&self) -> Profile {
        self.profile.clone().with_max_frame(self.mtu.min(self.profile.max_frame()))
    }

    /// The key by which the forwarding table knows the destination of a frame of `len` bytes that comes in here: in the VLAN of its tag,
    /// if it is in none of the port. `None`: it cannot be read.
    pub fn destination(&self, bytes: &[u8], len: usize) -> Option<u64> {
        let key = self.profile.parse(bytes, len).ok()?.dst_key;
        let Some(vlans) = &self.vlans else { return Some(key) };
        Some(vlans.classify(&self.profile, bytes).map_or(key, |found| in_vlan(key, found.vid)))
    }
}

/// A whole switch.
#[derive(Clone, Debug)]
pub struct SwitchParams {
    /// Its ports, in order.
    pub ports: Vec<PortParams>,
    /// The division of the buffer.
    pub mmu: MmuParams,
    /// Most frames each shard holds at once, those in hand included.
    pub frames: usize,
    /// How inputs share a queue.
    pub voq: VoqOrder,
    /// Decisions about frames that each shard keeps, at least: 32 bytes each, and 24 to void those of a station.
    pub flow_cache: usize,
    /// Entries of the forwarding table, at least.
    pub fdb_capacity: usize,
    /// An address not seen for this long is forgotten, ns; `None`: never.
    pub ageing: Option<Nanos>,
    /// Frames with several destinations of which each shard holds copies at once, at most.
    pub copied: usize,
    /// Somebody reads what ports publish, and how long frames were in their queues. If not, neither is kept: it is most of the
    /// memory of a port.
    pub observed: bool,
    /// Static stations: key and port.
    pub stations: Vec<(u64, PortId)>,
    /// Static multicast groups: key and ports.
    pub groups: Vec<(u64, PortSet)>,
    /// Ports that are one to the forwarding table. Static stations and groups behind one are at its first port.
    pub lags: Vec<LagParams>,
    /// Ports whose frames are copied to others.
    pub mirrors: Vec<MirrorParams>,
    /// PFC watchdog, the same for all ports; `None`: off.
    pub watchdog: Option<WatchdogConfig>,
    /// How the flows behind marks, losses, pauses and depth are recorded; `None`: not at all.
    pub flows: Option<FlowParams>,
    /// Seed of everything random.
    pub seed: u64,
}

/// Why a switch cannot be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SwitchError {
    /// The buffer does not add up.
    #[error(transparent)]
    Mmu(#[from] MmuError),
    /// Static entries do not fit the forwarding table.
    #[error(transparent)]
    Fdb(#[from] FdbFull),
    /// Too many ports, or none.
    #[error("a switch has 1 to {MAX_PORTS} ports, not {0}")]
    Ports(usize),
    /// The MMU was made for another number of ports.
    #[error("the buffer is divided for {mmu} ports, the switch has {ports}")]
    MmuPorts {
        /// Ports of the division.
        mmu: usize,
        /// Ports of the switch.
        ports: usize,
    },
    /// More frames than there is memory for.
    #[error(
        "a buffer of {frames} frames takes {bytes} bytes to keep their places, more than there is memory for; reduce `buffer.size`"
    )]
    Memory {
        /// Frames that fit into the buffer.
        frames: usize,
        /// Bytes to hold what waits.
        bytes: usize,
    },
}

/// Ports whose frames have the same shape: a frame never leaves by a port of another format.
fn flood_sets(params: &SwitchParams) -> Vec<PortSet> {
    let same_format = |a: &PortParams, b: &PortParams| a.profile.key_space() == b.profile.key_space();
    let set_of = |i: usize, port: &PortParams| {
        let mut set = PortSet::default();
        for (j, other) in params.ports.iter().enumerate() {
            if i != j && same_format(port, other) {
                set.insert(PortId(j as u16));
            }
        }
        set
    };
    params.ports.iter().enumerate().map(|(i, port)| set_of(i, port)).collect()
}

/// The ports of each VLAN; `None`: no port knows of VLANs.
pub(super) fn vlans_of(ports: &[PortParams]) -> Option<Vlans> {
    Vlans::of(ports.iter().map(|port| port.vlans.as_ref()))
}

/// Marking at departure by queue; queues that mark on arrival and queues that drop early, a bit each.
pub(super) fn marking(port: &PortParams) -> ([Wred; PRIORITIES], u8, u8) {
    let mask = |has: &dyn Fn(usize) -> bool| (0..PRIORITIES).filter(|q| has(*q)).fold(0u8, |m, q| m | 1 << q);
    (
        port.mark.map(|wred| wred.filter(|w| w.at == MarkAt::Dequeue).unwrap_or(Wred::OFF)),
        mask(&|q| port.mark[q].is_some_and(|wred| wred.at == MarkAt::Enqueue)),
        mask(&|q| port.early_drop[q].is_some()),
    )
}

impl<F: Frame> Switch<F> {
    /// A switch in one piece, for one lcore or for virtual time, that nobody looks at.
    ///
    /// # Errors
    /// [`SwitchError`].
    pub fn new(params: SwitchParams) -> Result<Self, SwitchError> {
        Self::observed(params)
    }

    /// One that nobody looks at, in `shards` pieces: see [`Switch::observed_shards`].
    ///
    /// # Errors
    /// [`SwitchError`].
    pub fn sharded(params: &SwitchParams, shards: usize) -> Result<Vec<Self>, SwitchError> {
        Self::observed_shards(params, shards)
    }
}

impl<F: Frame, O: Observer + Default> Switch<F, Mmu, O> {
    /// A switch in one piece with an observer.
    ///
    /// # Errors
    /// [`SwitchError`].
    pub fn observed(params: SwitchParams) -> Result<Self, SwitchError> {
        let mut params = params;
        params.ports.iter_mut().for_each(|port| port.shard = 0);
        let mut shards = Self::observed_shards(&params, 1)?;
        Ok(shards.swap_remove(0))
    }

    /// One switch in `shards` pieces, each to be driven by one lcore and with an observer of its own. A shard touches only the ports
    /// whose `shard` is its index.
    ///
    /// # Errors
    /// [`SwitchError`].
    pub fn observed_shards(params: &SwitchParams, shards: usize) -> Result<Vec<Self>, SwitchError> {
        let mmus = Mmu::sharded(&params.mmu, shards)?;
        let rings = peers(shards, params.frames, params.frames.min(params.ports.len() * FRAMES_IN_FLIGHT));
        mmus.into_iter()
            .zip(rings)
            .zip(copies::<F>(params, shards))
            .enumerate()
            .map(|(shard, ((mmu, rings), copies))| Self::assemble(params, mmu, shard, rings, copies))
            .collect()
    }
}

/// Copy counts, and lists of them for each batch there may be; where a batch is one frame its counts follow each other anyway.
fn copies<F: Frame>(params: &SwitchParams, shards: usize) -> Vec<Copies> {
    let lists = if F::Row::default().room() > 1 { params.copied / BATCH_MAX } else { 0 };
    Copies::sharded(params.copied, lists, shards)
}

impl<F: Frame, A: Admission> Switch<F, A> {
    /// A switch in one piece, that nobody looks at, with another admission policy, for comparison in virtual time.
    ///
    /// # Errors
    /// [`SwitchError`].
    pub fn with_admission(params: &SwitchParams, admission: A) -> Result<Self, SwitchError> {
        let copies = copies::<F>(params, 1).swap_remove(0);
        Self::assemble(params, admission, 0, vec![None], copies)
    }
}

impl<F: Frame, A: Admission, O: Observer + Default> Switch<F, A, O> {
    fn assemble(
        params: &SwitchParams,
        admission: A,
        shard: usize,
        peers: Vec<Option<Peer<F>>>,
        copies: Copies,
    ) -> Result<Self, SwitchError> {
        let n = params.ports.len();
        if n == 0 || n > MAX_PORTS {
            return Err(SwitchError::Ports(n));
        }
        if params.mmu.ports() != n {
            return Err(SwitchError::MmuPorts { mmu: params.mmu.ports(), ports: n });
        }
        let no_memory = |bytes| SwitchError::Memory { frames: params.frames, bytes };
        let queues = Queues::try_new(n, params.frames, params.voq).map_err(no_memory)?;
        let ageing = Ageing::new(params.ageing);
        let mut fdb = Fdb::new(params.fdb_capacity, ageing.ticks(), params.seed);
        for (key, port) in &params.stations {
            fdb.add_static(*key, *port)?;
        }
        for (key, ports) in &params.groups {
            fdb.add_group(*key, *ports)?;
        }
        for (i, port) in params.ports.iter().enumerate() {
            fdb.set_learning(PortId(i as u16), port.learning, port.learn_limit);
        }
        let lags = Lags::new(&params.lags, n, params.seed);
        let flood = flood_sets(params);
        let checked_params = |port: &PortParams| PortParams { profile: port.accepted(), ..port.clone() };
        let cell = |make: &dyn Fn() -> Published| match params.observed {
            true => make(),
            false => Published::of_words(0),
        };
        let own = |at: usize| {
            let port = &params.ports[at];
            OwnPort {
                flood: flood[at],
                fdb_port: lags.fdb_port(PortId(at as u16)),
                link: true,
                member: LagMember::Detached,
                status: PortStatus::Up,
                refuses: None,
                held_back: 0,
                // The big red switch may be on from the start (H15).
                storm_drop: params.watchdog.map_or(0, |config| Watchdog::new(config, 0).drop_queues()),
                storm_forward: 0,
                flushing: 0,
                flush_as: [DropReason::EgressPortDown; PRIORITIES],
                scheduler: Scheduler::new(&port.queues, port.burst),
                shaper: port.rate.map(|rate| Shaper::new(rate, port.burst)),
                mark: marking(port).0,
                mark_on_arrival: marking(port).1,
                drops_early: marking(port).2,
                reaction: Reaction::new(port.react),
                generator: Generator::new(port.generate),
                watchdog: params.watchdog.map(|config| Box::new(Watchdog::new(config, 0))),
                bursts: None,
                stage: Stage::default(),
                lanes: 0,
                in_flight: 0,
                in_flight_wire: 0,
                most_in_flight_wire: most_in_flight_wire(port),
                stats: PortStats::default(),
                latency: params.observed.then(Box::default),
                told_sent: 0,
                pauses: params.observed.then(Box::default),
                pauses_new: false,
                published: cell(&Published::new::<((PortStats, LatencyStats), PauseStats)>),
                gauges: cell(&Published::new::<PortGauges>),
                carried: cell(&|| Published::of_words(n)),
                policers: port.storm_control.map(|config| Box::new(Policers::new(config))),
                flows: params.flows.map(|flows| {
                    // Streams of their own: what the switch draws stays what it is.
                    Box::new(FlowRecorder::new(flows, !params.seed ^ (at as u64) << 32))
                }),
                local: Default::default(),
                params: checked_params(port),
            }
        };
        let remote = |at: usize| {
            let port = &params.ports[at];
            RemotePort::new(checked_params(port), if port.tx_per_lcore { FRAMES_IN_FLIGHT } else { 0 })
        };
        let is_own = |at: usize| usize::from(params.ports[at].shard) == shard;
        let mut switch = Self {
            ports: Ports::new(n, is_own, own, remote),
            owner: params.ports.iter().map(|port| port.shard).collect(),
            slow_path_queues: vec![0; n],
            shard: shard as u8,
            fdb,
            vlans: vlans_of(&params.ports),
            mirrors: params.mirrors.clone(),
            mirror_queue: None,
            lags,
            snooping: Snooping::default(),
            flow_cache: FlowCache::new(params.flow_cache),
            admission,
            groups: [AdmissionGroup::NONE; GROUPS],
            flood: Flood::default(),
            unsent: PortSet::default(),
            flushing: PortSet::default(),
            granted: PortSet::default(),
            buffers: if peers.len() > 1 { stock(params.frames) } else { Vec::new() },
            queues,
            rng: Rng::new(params.seed ^ shard as u64),
            peers,
            first_peer: 0,
            received_since_tick: 0,
            handed_in: 0,
            handed_out: 0,
            copies,
            ageing,
            watch_at: 0,
            publish_cursor: 0,
            publish_at: if params.observed { 0 } else { Nanos::MAX },
            draining: false,
            observer: O::default(),
        };
        switch.ports.ids().for_each(|port| switch.note_slow_path_queues(port));
        let own: Vec<PortId> = switch.ports.own_ids().collect();
        for port in own {
            switch.follow_link(port, 0);
            // How it begins is no change.
            switch.ports[port.index()].stats.lag_changes = 0;
        }
        Ok(switch)
    }
}
