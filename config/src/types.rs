//! The checked configuration: plain numbers in base units, everything resolved per port.
//!
//! Bytes, bit/s, nanoseconds and millimetres as `u64`, shares as parts per million (`u32`). Names are
//! resolved to indices; whoever builds runtime tables only copies.

use super::Explained;
use super::format::FormatConfig;
pub use super::words::*;
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use weir_dataplane::storm_control::StormControl;
use weir_dataplane::switch::Filter;
use weir_dataplane::turn::{Platform, Turns};
use weir_dataplane::types::{BURST, Mac, Nanos, PRIORITIES, PortId};
use weir_dataplane::vlan::PortVlans;
use weir_inc::engine::EngineParams;
use weir_inc::spec::Address;

/// One value of a configuration file, checked.
#[derive(Clone, Debug)]
pub struct Config {
    /// Who moves the frames: what waits for it is part of every automatic headroom.
    pub platform: Platform,
    /// Name of this switch in output and metrics.
    pub name: String,
    /// Seed of the switch's generator.
    pub seed: u64,
    /// EAL arguments, before those of the command line.
    pub eal_args: Vec<String>,
    /// Format profiles; the four built-in ones first.
    pub formats: Vec<FormatConfig>,
    /// Ports; [`PortId`] is the index.
    pub ports: Vec<PortConfig>,
    /// Forwarding table.
    pub fdb: FdbConfig,
    /// The shared buffer.
    pub buffer: BufferConfig,
    /// Order inside an egress queue.
    pub voq: Voq,
    /// Class of CNPs, if they have one of their own.
    pub control_tc: Option<u8>,
    /// Link aggregation groups.
    pub lags: Vec<LagConfig>,
    /// Names of `[[scheduler]]`, as indexed by queues.
    pub schedulers: Vec<String>,
    /// Names of `[[wred]]`, as indexed by queues.
    pub wreds: Vec<String>,
    /// Port mirrors.
    pub mirrors: Vec<MirrorConfig>,
    /// PFC timing.
    pub pfc: PfcConfig,
    /// The watchdog, if on.
    pub watchdog: Option<WatchdogConfig>,
    /// Traffic of `weir lab`.
    pub lab: LabConfig,
    /// Which flows are behind what happens.
    pub flows: FlowsConfig,
    /// LLDP.
    pub lldp: LldpConfig,
    /// LACP.
    pub lacp: LacpConfig,
    /// IGMP and MLD snooping.
    pub mcast: McastConfig,
    /// Management.
    pub mgmt: MgmtConfig,
    pub(super) explained: Vec<Explained>,
}

/// A link aggregation group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LagConfig {
    /// Its name.
    pub name: String,
    /// Its ports, in order: at least one.
    pub members: Vec<PortId>,
    /// What its hash looks at.
    pub hash: LagHash,
    /// Down: all of its members are, whatever they say themselves.
    pub admin: AdminStatus,
    /// How it speaks LACP; `None`: it is static.
    pub lacp: Option<LagLacp>,
}

/// How a LAG speaks LACP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LagLacp {
    /// Whoever is there is spoken to, not only who speaks.
    pub active: bool,
    /// Its partner is to speak every second.
    pub fast: bool,
    /// With fewer links to one partner it carries nothing.
    pub min_links: u8,
    /// Without any partner one link carries frames all the same.
    pub fallback: bool,
    /// Tells it from other LAGs of the switch.
    pub key: u16,
}

/// A port mirror.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MirrorConfig {
    /// Its name.
    pub name: String,
    /// Ports whose frames are copied, in order.
    pub ports: Vec<PortId>,
    /// Which of their frames.
    pub direction: MirrorDirection,
    /// And of these.
    pub filter: Filter,
    /// Where the copies go.
    pub to: MirrorTarget,
}

/// Where the copies of a mirror go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MirrorTarget {
    /// Another port.
    Port {
        /// Which.
        port: PortId,
        /// Class of the copies there.
        tc: u8,
    },
    /// Files on this machine.
    File(MirrorFile),
}

/// Files with the copies of a mirror (pcapng): the one that is written, and older ones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MirrorFile {
    /// The one that is written; older ones have `.1`, `.2` behind it.
    pub path: String,
    /// Bytes of a file at most.
    pub size: u64,
    /// Files at most, the one that is written among them.
    pub files: u16,
    /// Bytes of each frame at most.
    pub snaplen: u32,
}

impl LagConfig {
    /// The port at which the forwarding table knows the stations behind it: the first in the order of ports.
    fn fdb_port(&self) -> Option<PortId> {
        self.members.iter().min().copied()
    }
}

impl Config {
    /// How frames of `queue` of a port are marked; `None`: never, as they have no field of the kind that is to be.
    pub fn marking_of(&self, port: &PortConfig, queue: usize) -> Option<WredConfig> {
        let of_frames = self.formats[port.format].ecn;
        port.queues[queue].wred.filter(|wred| wred.ecn != EcnMode::None && wred.ecn == of_frames)
    }

    /// What a port does with LLDP.
    pub fn lldp_of(&self, port: &PortConfig) -> LldpMode {
        if self.lldp.enable { port.lldp } else { LldpMode::Off }
    }

    /// Whether a port is to carry frames: neither it nor the LAG it is in is switched off.
    pub fn admin_of(&self, port: PortId) -> AdminStatus {
        match self.lag_of(port).map(|lag| lag.admin) {
            Some(AdminStatus::Down) => AdminStatus::Down,
            _ => self.ports[port.index()].admin,
        }
    }

    /// A LAG speaks LACP. Nobody does in virtual time, where all links lead where they should.
    pub fn speaks_lacp(&self, lag: &LagConfig) -> bool {
        self.platform == Platform::Polled && lag.lacp.is_some()
    }

    /// The LAG that a port is in.
    pub fn lag_of(&self, port: PortId) -> Option<&LagConfig> {
        self.lags.iter().find(|lag| lag.members.contains(&port))
    }

    /// The port at which the forwarding table knows the stations behind this one.
    pub fn fdb_port(&self, port: PortId) -> PortId {
        self.lag_of(port).and_then(LagConfig::fdb_port).unwrap_or(port)
    }
}

impl MirrorConfig {
    /// The port that the copies go to, if it is one, and their class there.
    pub fn port(&self) -> Option<(PortId, u8)> {
        match self.to {
            MirrorTarget::Port { port, tc } => Some((port, tc)),
            MirrorTarget::File(_) => None,
        }
    }

    /// The files that the copies go to, if they do.
    pub fn file(&self) -> Option<&MirrorFile> {
        match &self.to {
            MirrorTarget::Port { .. } => None,
            MirrorTarget::File(file) => Some(file),
        }
    }

    /// A number that is that of its name and of no other: a mirror keeps it whatever becomes of the others.
    pub fn number(&self) -> u64 {
        // FNV-1a.
        self.name
            .bytes()
            .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
    }
}

/// Egress queue of frames of a class at a port.
pub fn queue_of(tc: u8, at: &PortConfig) -> u8 {
    at.maps.tc_to_queue[usize::from(tc) % PRIORITIES]
}

/// Speed of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PortRate {
    /// bit/s, enforced by the egress shaper.
    Fixed(u64),
    /// Not shaped.
    Unlimited,
    /// That of the link, whenever it is up.
    Link,
}

impl PortRate {
    /// bit/s if known from the configuration.
    pub fn bps(self) -> Option<u64> {
        if let Self::Fixed(bps) = self { Some(bps) } else { None }
    }

    /// bit/s on a link of this speed, where both or one of them is known: nothing leaves faster than the link.
    pub fn within(self, link: Option<u64>) -> Option<u64> {
        match self {
            Self::Fixed(bps) => Some(link.map_or(bps, |link| link.min(bps))),
            Self::Unlimited => None,
            Self::Link => link,
        }
    }
}

/// Frames an in-process ring (`device = "ring"`) holds each way. What waits in it when a worker is held
/// up, and the burst its sender has in hand, must fit the headroom of a lossless group.
pub const RING_FRAMES: u32 = 127;

/// Frames the host at the far end of an in-process ring has in hand at most when it is told to pause.
pub const RING_HAND: u32 = 32;

/// How a port reaches the world.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceKind {
    /// A NIC by PCI address.
    Pci,
    /// A DPDK virtual device, created from its devargs.
    Vdev,
    /// An in-process ring pair.
    Ring,
    /// An engine of in-network aggregation, behind such a pair.
    Inc,
}

impl DeviceKind {
    /// Its frames pass through in-process rings: no wire, no driver's queues.
    pub fn is_in_process(self) -> bool {
        matches!(self, Self::Ring | Self::Inc)
    }
}

/// An engine of in-network aggregation in the place of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EngineConfig {
    /// Where hosts find it.
    pub address: Address,
    /// What it has for jobs.
    pub params: EngineParams,
}

/// One port.
#[derive(Clone, Debug)]
pub struct PortConfig {
    /// Unique name.
    pub name: String,
    /// What `device` is.
    pub kind: DeviceKind,
    /// PCI address with optional devargs, vdev devargs, `ring` or `inc`.
    pub device: String,
    /// The engine, of device `inc`.
    pub engine: Option<EngineConfig>,
    /// Whether it is switched off.
    pub admin: AdminStatus,
    /// Speed.
    pub rate: PortRate,
    /// Lcore that polls the port; `None`: the first worker if there is one, else the main lcore.
    pub lcore: Option<u16>,
    /// Largest frame accepted, in bytes without FCS.
    pub mtu: u16,
    /// Source address of PFC frames; `None`: the device's.
    pub mac: Option<Mac>,
    /// Index into [`Config::formats`].
    pub format: usize,
    /// Sources of the traffic class, in order.
    pub trust: Vec<Trust>,
    /// Class of frames no trusted source speaks for.
    pub default_tc: u8,
    /// Learn source addresses.
    pub learning: bool,
    /// Most addresses learnt on this port.
    pub learn_limit: Option<u32>,
    /// Unknown unicast received here.
    pub unknown_unicast: UnknownUnicast,
    /// The VLANs it is a member of; `None`: the switch knows nothing of VLANs, or its frames have no tags.
    pub vlans: Option<PortVlans>,
    /// Limits on what is flooded of the frames received here; `None`: there are none.
    pub storm_control: Option<StormControl>,
    /// What it does with LLDP, if the switch speaks it.
    pub lldp: LldpMode,
    /// Cable length in mm; `None`: unknown.
    pub cable_mm: Option<u64>,
    /// Bytes the peer may still send after a pause has reached it; `None`: 802.3's limit for the rate.
    pub peer_response: Option<u64>,
    /// Frames the receive ring of the device holds.
    pub rx_descriptors: u16,
    /// Frames the transmit ring of the device holds.
    pub tx_descriptors: u16,
    /// PFC of the port.
    pub pfc: PortPfc,
    /// Class maps.
    pub maps: Maps,
    /// By the key of a map (`dscp_to_tc`) the table `[map.NAME]` that was laid over it last.
    pub map_names: BTreeMap<&'static str, String>,
    /// Ingress limits by priority group.
    pub pgs: [PgConfig; PRIORITIES],
    /// Egress limits, scheduling and marking by queue.
    pub queues: [QueueConfig; PRIORITIES],
    /// Most bytes of the shared ingress pool the port may hold.
    pub ingress_limit: Option<u64>,
    /// Most bytes of the lossy egress pool that may wait for the port.
    pub egress_limit: Option<u64>,
}

/// PFC of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortPfc {
    /// Bit n: PFC enabled for priority n (SONiC PORT_QOS_MAP.pfc_enable).
    pub enable: u8,
    /// Who does it.
    pub mode: PfcMode,
    /// PFC frames pass between the wire and software, both ways; `None`: as is known of the driver.
    pub visible: Option<bool>,
    /// Which pauses are obeyed.
    pub rx: PfcRx,
    /// Whether pauses are sent; `false` with `rx` on is semi-lossless.
    pub tx: bool,
}

impl PortPfc {
    /// The port sends pauses or obeys some: MAC control frames must come to software.
    pub fn in_use(&self) -> bool {
        self.enable != 0 || matches!(self.rx, PfcRx::All | PfcRx::Link)
    }
}

/// Class maps of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Maps {
    /// DSCP to traffic class.
    pub dscp_to_tc: [u8; 64],
    /// PCP to traffic class.
    pub pcp_to_tc: [u8; PRIORITIES],
    /// Traffic class to egress queue.
    pub tc_to_queue: [u8; PRIORITIES],
    /// Traffic class to ingress priority group.
    pub tc_to_pg: [u8; PRIORITIES],
    /// PFC priority to the priority group whose fill sends it.
    pub pfc_to_pg: [u8; PRIORITIES],
    /// PFC priority to the queue it pauses.
    pub pfc_to_queue: [u8; PRIORITIES],
}

/// Limit on shared buffer use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SharedLimit {
    /// `2^n` times the free shared buffer, n from -8 to 7.
    Dynamic(i8),
    /// Bytes.
    Static(u64),
}

/// Ingress limits of one priority group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PgConfig {
    /// Index into [`BufferConfig::profiles`].
    pub profile: usize,
    /// Guaranteed bytes.
    pub reserved: u64,
    /// Limit on shared use.
    pub shared: SharedLimit,
    /// Resume when use is at most `max(xon, limit - xon_offset)`.
    pub xon: u64,
    /// See [`PgConfig::xon`].
    pub xon_offset: u64,
    /// Headroom in bytes after Xoff; 0 for a lossy group.
    pub xoff: u64,
    /// Frames are lost only when the headroom is exhausted.
    pub lossless: bool,
}

/// One egress queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueConfig {
    /// Index into [`BufferConfig::profiles`].
    pub profile: usize,
    /// Guaranteed bytes.
    pub reserved: u64,
    /// Limit on shared use.
    pub shared: SharedLimit,
    /// Admission is never refused by this queue: the ingress side holds the frame back.
    pub lossless: bool,
    /// Scheduling.
    pub scheduler: SchedulerConfig,
    /// Index into [`Config::schedulers`]; `None`: nothing is bound to it.
    pub scheduler_profile: Option<usize>,
    /// Marking, if any.
    pub wred: Option<WredConfig>,
    /// Index into [`Config::wreds`].
    pub wred_profile: Option<usize>,
}

/// Scheduling of one queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SchedulerConfig {
    /// Strict or weighted.
    pub kind: SchedulerType,
    /// Share among weighted queues, 1 to 100.
    pub weight: u8,
    /// Level of a strict queue, 0 to 7, higher first; `None`: the queue number.
    pub priority: Option<u8>,
    /// Guaranteed rate in bit/s.
    pub cir: Option<u64>,
    /// Most rate in bit/s.
    pub pir: Option<u64>,
}

/// Marking of one queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WredConfig {
    /// Nothing is marked below, in bytes.
    pub kmin: u64,
    /// Everything is marked above, in bytes.
    pub kmax: u64,
    /// Probability at `kmax`, in parts per million.
    pub pmax: u32,
    /// Which field is marked.
    pub ecn: EcnMode,
    /// Which depth decides.
    pub mark: MarkPoint,
    /// Frames that cannot be marked are dropped instead (lossy queues only).
    pub wred_drop: bool,
}

/// What a switch receives frames into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Memories {
    /// One memory of all ports: output-queued.
    Shared,
    /// A memory for each port, of `buffer.size` each: input-queued.
    PerPort,
}

/// What a memory sets aside for the ports that receive into it, and what is left; bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Division {
    /// See [`BufferConfig::reserved`].
    pub reserved: u64,
    /// See [`BufferConfig::headroom`].
    pub headroom: u64,
    /// See [`BufferConfig::shared`].
    pub shared: u64,
}

/// The shared buffer. `size = reserved + headroom + control + mirrors + shared`, exactly. Where each port has a memory of its own
/// this is the one that has least to share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BufferConfig {
    /// Bytes in all.
    pub size: u64,
    /// Most frames held at once: there are so many slots for them in each worker, and so many mbufs.
    pub frames: u64,
    /// Bytes one cell accounts for; 1 counts bytes.
    pub cell_bytes: u64,
    /// Bytes set aside for CNPs.
    pub control_bytes: u64,
    /// Bytes set aside for copies of mirrors.
    pub mirror_bytes: u64,
    /// Sum of the priority groups' reserves.
    pub reserved: u64,
    /// Headroom set aside: the pool if there is one, else the sum over lossless groups.
    pub headroom: u64,
    /// Headroom is one pool for all lossless groups (SONiC: shared headroom pool).
    pub headroom_pooled: bool,
    /// Set aside because what workers know of each other is old, see [`BufferConfig::staleness_of`].
    pub staleness: u64,
    /// What dynamic thresholds divide.
    pub shared: u64,
    /// The memory of each port, where each has its own; empty: there is one for all.
    pub of_ports: Vec<Division>,
    /// Most bytes waiting in lossy egress queues.
    pub egress_lossy_pool: u64,
    /// Names of the profiles, as indexed by groups and queues.
    pub profiles: Vec<String>,
}

impl BufferConfig {
    /// Bytes every frame is charged at least, so that `frames` of them are charged all of the buffer: what is reserved
    /// or shared of its bytes is reserved or shared of the memory for frames, too.
    pub fn least_charge(&self) -> u32 {
        u32::try_from(self.size.div_ceil(self.frames.max(1))).unwrap_or(u32::MAX)
    }

    /// What a frame of `bytes` is charged.
    pub fn charge(&self, bytes: u64) -> u64 {
        (bytes.div_ceil(self.cell_bytes) * self.cell_bytes).max(u64::from(self.least_charge()))
    }

    /// Bytes that are nobody's to share.
    pub fn promised(&self) -> u64 {
        let parts = [self.reserved, self.headroom, self.control_bytes, self.mirror_bytes, self.staleness];
        parts.into_iter().fold(0, u64::saturating_add)
    }

    /// The memory that a port receives into.
    pub fn of_port(&self, port: usize) -> Division {
        let Self { reserved, headroom, shared, .. } = *self;
        self.of_ports.get(port).copied().unwrap_or(Division { reserved, headroom, shared })
    }

    /// How [`BufferConfig::shared`] comes about, in words.
    pub fn division(&self) -> String {
        let Self { size, reserved, headroom, control_bytes, mirror_bytes, staleness, .. } = self;
        let mirrors = if *mirror_bytes > 0 { format!(" - mirrors {mirror_bytes}") } else { String::new() };
        let workers = if *staleness > 0 { format!(" - staleness {staleness}") } else { String::new() };
        format!(
            "size {size} - reserved {reserved} - headroom {headroom} - control {control_bytes}{mirrors}{workers}"
        )
    }

    /// Bytes that workers besides the one that looks may have admitted before they say so: a burst of the longest
    /// frames each.
    pub fn staleness_of(&self, ports: &[PortConfig], workers: usize) -> u64 {
        let longest = ports.iter().map(|port| u64::from(port.mtu)).max().unwrap_or(0);
        (workers as u64).saturating_sub(1) * BURST as u64 * self.charge(longest)
    }
}

/// Workers these ports need: one for each lcore they name.
pub fn workers(ports: &[PortConfig]) -> usize {
    ports.iter().map(|port| port.lcore).collect::<std::collections::BTreeSet<_>>().len()
}

/// How late each of these ports may be looked at. Ports without an lcore may be on that of any other.
pub(super) fn turns(platform: Platform, ports: &[PortConfig], poll_gap: Nanos) -> Vec<Turns> {
    let together =
        |a: &PortConfig, b: &PortConfig| a.lcore.is_none() || b.lcore.is_none() || a.lcore == b.lcore;
    let beside = |port| ports.iter().filter(move |other| together(port, other));
    ports.iter().map(|port| turns_of(platform, beside(port), poll_gap)).collect()
}

/// How late the ports of one lcore may be looked at: an engine among them takes its part of each turn.
pub fn turns_of<'a>(
    platform: Platform,
    ports: impl Iterator<Item = &'a PortConfig>,
    poll_gap: Nanos,
) -> Turns {
    let (count, aside) = ports.fold((0, 0), |(count, aside), port| {
        (count + 1, aside + if port.engine.is_some() { weir_inc::engine::TURN_NS } else { 0 })
    });
    let turns = platform.turns(count, poll_gap);
    match platform {
        Platform::Polled => Turns { gap: turns.gap + aside, burst: turns.burst + aside },
        Platform::Simulated => turns,
    }
}

/// Forwarding table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FdbConfig {
    /// Entries.
    pub capacity: u32,
    /// Age at which a learnt entry is forgotten; 0 never.
    pub ageing: Nanos,
    /// Default of the ports.
    pub unknown_unicast: UnknownUnicast,
    /// Addresses 01:80:c2:00:00:00 to :0f whose frames are passed on, a bit each.
    pub link_local: u16,
    /// When moves of addresses are a loop.
    pub loop_alarm: LoopAlarm,
    /// Fixed entries.
    pub statics: Vec<StaticEntry>,
    /// Multicast groups.
    pub groups: Vec<GroupEntry>,
}

/// How many addresses have to change ports for how long to be an alarm: only a loop moves many of them all the time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoopAlarm {
    /// Moves in each 100 ms, by one worker; 0: there is no alarm.
    pub moves: u64,
    /// How long, ns.
    pub time: Nanos,
}

impl Default for LoopAlarm {
    fn default() -> Self {
        Self { moves: 20, time: 300_000_000 }
    }
}

/// How the flows behind marks, losses, pauses and depth are recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowsConfig {
    /// They are.
    pub enable: bool,
    /// Where there are many, one in so many is looked at.
    pub sample: u32,
    /// Who is told of them.
    pub export: Option<FlowExport>,
}

/// A collector of flows (IPFIX, RFC 7011, over UDP), and how it is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowExport {
    /// Where it is.
    pub collector: SocketAddr,
    /// Between two exports, ns.
    pub interval: Nanos,
    /// Observation domain.
    pub domain: u32,
    /// Private enterprise number of the information elements for which there is no standard.
    pub enterprise: u32,
}

/// LLDP, for the whole switch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LldpConfig {
    /// Where the switch is managed, as it is sent; `None`: where `mgmt.listen` is, if others can reach that.
    pub management_address: Option<IpAddr>,
    /// Ports speak it, each as it says.
    pub enable: bool,
    /// Between two frames, ns.
    pub interval: Nanos,
    /// Intervals for which what was sent holds.
    pub hold: u8,
    /// System name that is sent.
    pub system_name: String,
}

/// LACP, for the whole switch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LacpConfig {
    /// Priority of the switch.
    pub system_priority: u16,
    /// Address that the switch is known by; `None`: the lowest of its ports.
    pub system_id: Option<Mac>,
}

/// IGMP and MLD snooping, the same in all VLANs that are snooped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct McastConfig {
    /// Those VLANs, in order; 0: what has no tag, where ports know of no VLANs.
    pub vlans: Vec<u16>,
    /// A port leaves a group at once.
    pub fast_leave: bool,
    /// The switch asks for members.
    pub querier: bool,
    /// Source of its IGMP queries.
    pub querier_address: Ipv4Addr,
    /// Between two of its queries, ns.
    pub query_interval: Nanos,
    /// Hosts answer within this, ns.
    pub query_response_interval: Nanos,
    /// Most groups of a VLAN, of each version of IP.
    pub max_groups: u32,
    /// Most of them at one port.
    pub port_max_groups: u32,
}

impl McastConfig {
    /// A VLAN is snooped.
    pub fn snoops(&self, vid: u16) -> bool {
        self.vlans.binary_search(&vid).is_ok()
    }
}

/// A fixed forwarding entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StaticEntry {
    /// Address, or AFH key, in the low bits.
    pub key: u64,
    /// VLAN id; 0 untagged.
    pub vlan: u16,
    /// Index into [`Config::formats`]: the key space.
    pub format: usize,
    /// Where the address is.
    pub port: PortId,
}

/// A multicast group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupEntry {
    /// Group address, or AFH key, in the low bits.
    pub key: u64,
    /// VLAN id; 0 untagged.
    pub vlan: u16,
    /// Index into [`Config::formats`]: the key space.
    pub format: usize,
    /// Members, in order, without repetition.
    pub ports: Vec<PortId>,
}

/// PFC timing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PfcConfig {
    /// Pause time put into frames, in quanta of 512 bit times.
    pub quanta: u16,
    /// Longest planned gap between two polls of a port, where its lcore has no more ports than fit into it: enters automatic
    /// headrooms by way of [`Platform::turns`].
    pub poll_gap: Nanos,
    /// A pause is refreshed after this share of it, in parts per million.
    pub refresh: u32,
}

/// The PFC watchdog.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WatchdogConfig {
    /// What it does.
    pub action: WatchdogAction,
    /// Paused, backlogged and without departures for this long is a storm.
    pub detection: Nanos,
    /// Without pause for this long the storm is over.
    pub restoration: Nanos,
    /// Interval between looks.
    pub poll: Nanos,
    /// Every lossless queue is in storm until this is switched off.
    pub big_red_switch: bool,
    /// After this many storms within the window recovery is manual.
    pub reoccurrence: Option<Reoccurrence>,
    /// Times are as written, even if one legal pause is longer.
    pub allow_short: bool,
}

/// Limit on repeated storms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reoccurrence {
    /// Storms.
    pub count: u32,
    /// Time they are counted over.
    pub window: Nanos,
}

/// Traffic of the lab hosts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LabConfig {
    /// Pattern between ports; with flows listed, only they are sent.
    pub pattern: LabPattern,
    /// Offered load per sending port, in parts per million of its rate.
    pub load: u32,
    /// Frame length in bytes without FCS.
    pub frame_bytes: u16,
    /// DSCP of the frames.
    pub dscp: u8,
    /// Rate control of the hosts.
    pub dcqcn: CongestionControl,
    /// What they speak.
    pub hosts: HostProtocol,
    /// Flows of their own.
    pub flows: Vec<LabFlow>,
}

/// One flow of the lab.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LabFlow {
    /// Port whose host sends.
    pub from: PortId,
    /// Port whose host receives.
    pub to: PortId,
    /// bit/s on the wire; `None`: as fast as the port goes.
    pub rate: Option<u64>,
    /// Frame length in bytes without FCS.
    pub frame_bytes: u16,
    /// DSCP of the frames.
    pub dscp: u8,
    /// PCP, if tagged.
    pub pcp: Option<u8>,
    /// VLAN id, if tagged.
    pub vlan: Option<u16>,
}

/// Where a running switch may be looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MgmtConfig {
    /// TCP address; `None`: off. Beyond loopback only with a token.
    pub listen: Option<SocketAddr>,
    /// The address is the user's choice: it must be had, or nothing starts.
    pub chosen: bool,
    /// The Unix socket.
    pub socket: MgmtSocket,
    /// File with the token TCP clients present.
    pub token_file: Option<String>,
    /// File with the token of TCP clients that may also look into frames.
    pub operate_token_file: Option<String>,
    /// File with the token of TCP clients that may also change the configuration; `None`: nobody may over TCP.
    pub admin_token_file: Option<String>,
    /// Names TCP clients may call this machine by without a token.
    pub hosts: Vec<String>,
    /// TCP clients are answered with TLS.
    pub tls: Option<MgmtTls>,
    /// `dpdk-dumpcap` may attach.
    pub dumpcap: bool,
}

/// Files of TLS, in PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MgmtTls {
    /// Certificate, and those behind it.
    pub cert: String,
    /// Its private key.
    pub key: String,
}

/// The Unix socket of management.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MgmtSocket {
    /// Named after the switch, in the run-time folder.
    Default,
    /// This path.
    Path(String),
    /// None.
    Off,
}

impl Config {
    /// Every effective value that was derived or defaulted, with where it comes from and why it is so.
    pub fn explain(&self) -> Vec<Explained> {
        self.explained.clone()
    }

    /// The port of this name.
    pub fn port(&self, name: &str) -> Option<PortId> {
        self.ports.iter().position(|p| p.name == name).map(|i| PortId(i as u16))
    }

    /// What is configured of the port with this name.
    pub fn port_named(&self, name: &str) -> Option<&PortConfig> {
        self.ports.iter().find(|port| port.name == name)
    }
}
