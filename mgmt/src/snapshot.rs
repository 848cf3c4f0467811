//! One value with everything there is to know at one instant. JSON, OpenMetrics, the page and the
//! command line are all made from it, so they cannot disagree.

use crate::credentials::CredentialsReading;
use crate::flows::export::ExportReading;
use crate::flows::{FlowsReading, Minute};
use crate::inc::{EngineInfo, EngineReading, JobRates};
use crate::lacp::LacpReading;
use crate::lldp::LldpReading;
use crate::mcast::McastReading;
use crate::mirror_files::MirrorFileReading;
use crate::times::Times;
use std::sync::Arc;
use weir_config::{
    AdminStatus, Config, FlowExport, LagConfig, LoopAlarm, MirrorConfig, PortConfig, SharedLimit,
    pause_response, turns_of,
};
use weir_dataplane::drops::DROP_REASONS;
use weir_dataplane::pfc::generate::LastCause;
use weir_dataplane::stats::{
    Histogram, LatencyStats, LoopStats, MarkingCurve, PauseStats, PortGauges, PortStats, Published, Stage,
};
use weir_dataplane::storm_control::StormControl;
use weir_dataplane::turn::Turns;
use weir_dataplane::types::{Nanos, PRIORITIES, PortId};
use weir_dataplane::vlan::PortVlans;
use weir_layout::Unit;

/// Where snapshots come from: the program that runs the switch, or a test.
pub trait Source: Send + 'static {
    /// What stays as it is while the switch runs.
    fn info(&self) -> SwitchInfo;

    /// Everything as it is now. Called a few times per second by the management thread; must not wait
    /// for a worker.
    fn read(&mut self) -> Reading;

    /// What has changed since last asked, beyond readings.
    fn news(&mut self) -> Vec<News> {
        Vec::new()
    }
}

/// What the program that runs the switch has to tell.
#[derive(Clone, Debug)]
pub enum News {
    /// The switch is another one now: its limits have changed.
    Info(Box<SwitchInfo>),
    /// Something happened.
    Event {
        /// What.
        kind: &'static str,
        /// Which part of it.
        phase: &'static str,
        /// More about it.
        fields: serde_json::Map<String, serde_json::Value>,
    },
}

/// What a switch is.
#[derive(Clone, Debug, Default)]
pub struct SwitchInfo {
    /// Its name.
    pub name: String,
    /// Version of weir.
    pub version: String,
    /// Version of DPDK, or what stands in for it.
    pub dpdk: String,
    /// Longest gap between two polls the headroom is planned for, ns.
    pub poll_gap: Nanos,
    /// Its ports, in order.
    pub ports: Vec<PortInfo>,
    /// When moves of addresses are a loop.
    pub loop_alarm: LoopAlarm,
    /// Entries that the forwarding table of each worker has room for.
    pub fdb_capacity: u32,
    /// Link aggregation groups, in order.
    pub lags: Vec<LagConfig>,
    /// Port mirrors, in order.
    pub mirrors: Vec<MirrorConfig>,
    /// Who is told of flows.
    pub export: Option<FlowExport>,
    /// How its buffer is divided.
    pub buffer: BufferInfo,
    /// Its workers' cores, in order.
    pub lcores: Vec<usize>,
    /// Engines of in-network aggregation, in the order of their ports.
    pub engines: Vec<EngineInfo>,
    /// Cycles per second of the counter that times the workers; 0: not known.
    pub hz: u64,
}

/// What a port is.
#[derive(Clone, Debug, Default)]
pub struct PortInfo {
    /// Its name.
    pub name: String,
    /// Its device, as configured.
    pub device: String,
    /// Whether it is switched off.
    pub admin: AdminStatus,
    /// The driver.
    pub driver: String,
    /// bit/s, where known.
    pub rate: Option<u64>,
    /// Core that polls it.
    pub lcore: usize,
    /// Priorities with PFC, a bit each.
    pub pfc: u8,
    /// Software sees the peer's PFC frames and sends its own.
    pub software_pfc: bool,
    /// What is known of PFC frames between wire and software, for people.
    pub pfc_frames: &'static str,
    /// Bytes that may still leave after a received pause, where software obeys it and the rate is known.
    pub pause_response: Option<u64>,
    /// Lossless priority groups, a bit each.
    pub lossless: u8,
    /// PFC priorities each group sends Xoff for, a bit each.
    pub pg_priorities: [u8; PRIORITIES],
    /// The queue that a received pause of each priority stops.
    pub pfc_to_queue: [u8; PRIORITIES],
    /// Headroom of each group, bytes.
    pub headroom: [u64; PRIORITIES],
    /// Exponent of each group's dynamic threshold; `None`: static.
    pub dynamic_th: [Option<i8>; PRIORITIES],
    /// The VLANs it is a member of, where ports know of VLANs.
    pub vlans: Option<PortVlans>,
    /// Limits on what is flooded of the frames received here.
    pub storm_control: Option<StormControl>,
    /// Marking of each queue.
    pub marking: [Option<Marking>; PRIORITIES],
}

/// A marking profile: bytes, and parts per million.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Marking {
    /// Nothing is marked up to here.
    pub kmin: u64,
    /// Everything is marked above.
    pub kmax: u64,
    /// Probability at `kmax`, in parts per million.
    pub pmax: u32,
}

/// How the buffer is divided, bytes. `size = reserved + headroom + control + mirrors + shared`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BufferInfo {
    /// All of it.
    pub size: u64,
    /// Guarantees of the priority groups.
    pub reserved: u64,
    /// Set aside for what arrives after Xoff.
    pub headroom: u64,
    /// Set aside for CNP, ACK and PFC frames.
    pub control: u64,
    /// Set aside for copies of mirrors.
    pub mirrors: u64,
    /// What dynamic thresholds divide.
    pub shared: u64,
}

/// What only the device of a port can say.
#[derive(Clone, Debug, Default)]
pub struct Granted {
    /// The driver.
    pub driver: String,
    /// Speed of its link in bit/s, if it has one.
    pub rate: Option<u64>,
    /// Core that polls it.
    pub lcore: usize,
    /// Software sees the peer's PFC frames and sends its own.
    pub software_pfc: bool,
    /// What is known of PFC frames between wire and software, for people.
    pub pfc_frames: &'static str,
    /// Every lcore has a transmit queue of its own.
    pub tx_per_lcore: bool,
}

impl SwitchInfo {
    /// The LAG that a port is in.
    pub fn lag_of(&self, port: PortId) -> Option<&LagConfig> {
        self.lags.iter().find(|lag| lag.members.contains(&port))
    }

    /// From a checked configuration and what the devices granted, port by port.
    pub fn of(config: &Config, dpdk: &str, lcores: Vec<usize>, granted: Vec<Granted>) -> Self {
        let beside = |lcore| {
            let all = config.ports.iter().zip(&granted);
            all.filter(move |(_, other)| other.lcore == lcore).map(|(port, _)| port)
        };
        let turns = |one: &Granted| turns_of(config.platform, beside(one.lcore), config.pfc.poll_gap);
        let turns: Vec<Turns> = granted.iter().map(turns).collect();
        let port = |(i, ((port, device), turns)): (usize, ((&PortConfig, Granted), Turns))| PortInfo {
            name: port.name.clone(),
            device: port.device.clone(),
            admin: config.admin_of(PortId(i as u16)),
            driver: device.driver,
            rate: port.rate.within(device.rate),
            lcore: device.lcore,
            pfc: port.pfc.enable,
            software_pfc: device.software_pfc,
            pfc_frames: device.pfc_frames,
            pause_response: pause_response(
                port,
                &config.ports,
                port.rate.within(device.rate).filter(|_| device.software_pfc),
                turns,
                device.tx_per_lcore,
            )
            .map(|terms| terms.iter().map(|term| term.bytes).sum()),
            lossless: mask(|pg| port.pgs[pg].lossless),
            pg_priorities: std::array::from_fn(|pg| {
                mask(|priority| {
                    usize::from(port.maps.pfc_to_pg[priority]) == pg && port.pfc.enable >> priority & 1 == 1
                })
            }),
            pfc_to_queue: port.maps.pfc_to_queue,
            headroom: port.pgs.map(|pg| pg.xoff),
            dynamic_th: port.pgs.map(|pg| match pg.shared {
                SharedLimit::Dynamic(n) => Some(n),
                SharedLimit::Static(_) => None,
            }),
            vlans: port.vlans.clone(),
            storm_control: port.storm_control,
            marking: std::array::from_fn(|queue| {
                let wred = config.marking_of(port, queue)?;
                Some(Marking { kmin: wred.kmin, kmax: wred.kmax, pmax: wred.pmax })
            }),
        };
        Self {
            name: config.name.clone(),
            version: weir_config::VERSION.to_owned(),
            dpdk: dpdk.to_owned(),
            poll_gap: config.pfc.poll_gap,
            ports: config.ports.iter().zip(granted).zip(turns).enumerate().map(port).collect(),
            loop_alarm: config.fdb.loop_alarm,
            fdb_capacity: config.fdb.capacity,
            lags: config.lags.clone(),
            mirrors: config.mirrors.clone(),
            export: config.flows.export,
            buffer: BufferInfo {
                size: config.buffer.size,
                reserved: config.buffer.reserved,
                headroom: config.buffer.headroom,
                control: config.buffer.control_bytes,
                mirrors: config.buffer.mirror_bytes,
                shared: config.buffer.shared,
            },
            lcores,
            engines: EngineInfo::all(config),
            hz: 0,
        }
    }
}

fn mask(has: impl Fn(usize) -> bool) -> u8 {
    (0..PRIORITIES).filter(|i| has(*i)).fold(0, |mask, i| mask | 1 << i)
}

/// How far a run has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Phase {
    /// Forwarding.
    #[default]
    Forward,
    /// Nothing new is admitted; what is queued may leave.
    Drain,
    /// Workers return.
    Stop,
}

impl Phase {
    /// The word for it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Forward => "forwarding",
            Self::Drain => "draining",
            Self::Stop => "stopping",
        }
    }
}

/// Everything read at one instant.
#[derive(Clone, Debug, Default)]
pub struct Reading {
    /// How far the run has come.
    pub phase: Phase,
    /// By port.
    pub ports: Vec<PortReading>,
    /// By worker.
    pub loops: Vec<LoopStats>,
    /// By worker: how long its thread was kept off its core; `None`: the system does not say.
    pub off_core: Vec<Option<OffCore>>,
    /// By engine, as last read.
    pub engines: Vec<EngineReading>,
    /// LLDP, as last told.
    pub lldp: Arc<LldpReading>,
    /// LACP, as last told.
    pub lacp: Arc<LacpReading>,
    /// IGMP and MLD snooping, as last told.
    pub mcast: Arc<McastReading>,
    /// Files of mirrors, as last told.
    pub mirror_files: Arc<Vec<MirrorFileReading>>,
}

/// Time for which a thread that could run had to wait, because its core did something else.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OffCore {
    /// Since the thread came up, ns.
    pub ns: Nanos,
    /// When that was read, ns by a clock that is never set.
    pub at_ns: Nanos,
}

/// One port at one instant.
#[derive(Clone, Debug, Default)]
pub struct PortReading {
    /// Counters.
    pub stats: PortStats,
    /// How long frames were here, by queue.
    pub latency: [Times; PRIORITIES],
    /// State, and the time both are of.
    pub gauges: PortGauges,
    /// The driver's own counters.
    pub nic: NicStats,
    /// The link; `None`: not to be had.
    pub link: Option<Link>,
    /// Where its device is.
    pub device: DeviceState,
    /// Bytes ever queued for this port, by the port they came in on.
    pub carried: Vec<u64>,
    /// How its queues mark, from the turns that are timed.
    pub curve: MarkingCurve,
    /// Which flows are behind what happens here; `None`: they are not recorded. Goes into [`Snapshot::flows`], as there
    /// is no use for old ones.
    pub flows: Option<Arc<FlowsReading>>,
}

impl PortReading {
    /// Counters and latency as a worker publishes them.
    pub fn counted(cell: &Published) -> (PortStats, [Times; PRIORITIES]) {
        let ((stats, latency), pauses): ((_, LatencyStats), PauseStats) = cell.read();
        let times = std::array::from_fn(|queue| Times::of(&latency.residence[queue], &pauses, queue));
        (stats, times)
    }
}

/// A driver's counters that tell of loss outside the switch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NicStats {
    /// Frames lost because no receive descriptor was free.
    pub rx_missed: u64,
    /// Receptions that found no memory.
    pub rx_no_mbuf: u64,
    /// Frames received with an error.
    pub rx_errors: u64,
    /// Frames that could not be sent, some drivers' refusals included.
    pub tx_errors: u64,
    /// Frames that the driver took and did not send.
    pub tx_lost: u64,
}

impl NicStats {
    /// Frames lost by the driver on their way in.
    pub fn rx_lost(&self) -> u64 {
        self.rx_missed + self.rx_no_mbuf
    }

    /// Frames lost by the driver, on their way in and out.
    pub fn lost(&self) -> u64 {
        self.rx_lost() + self.tx_lost
    }
}

/// Where the device of a port is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum DeviceState {
    /// In use.
    #[default]
    Present,
    /// Being taken away: workers give its queues back.
    Removing,
    /// Let go.
    Removed,
    /// Let go, and the interface that has its name now cannot be used: why.
    Refused(String),
}

impl DeviceState {
    /// The word for it.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Present => "present",
            Self::Removing => "removing",
            Self::Removed => "removed",
            Self::Refused(_) => "refused",
        }
    }
}

/// What the main thread of a switch knows of a port.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PortState {
    /// Frames can pass: the link is up, and the port is not switched off.
    pub up: bool,
    /// Where its device is.
    pub device: DeviceState,
}

/// State of a link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Link {
    /// Frames can pass.
    pub up: bool,
    /// Speed, where the driver knows.
    pub mbps: Option<u32>,
}

/// A reading, with what a reader who has seen earlier ones can add.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// What the switch is.
    pub info: Arc<SwitchInfo>,
    /// When it was taken, ms since 1970. For people: it may be set back, so nothing is reckoned with it.
    pub unix_ms: u64,
    /// Time since the management thread came up, ms.
    pub uptime_ms: u64,
    /// Fewer readings than the window holds were taken so far: a worker that has not gone on since the first may still begin.
    pub starting: bool,
    /// The reading.
    pub now: Arc<Reading>,
    /// By port, over the sliding window.
    pub ports: Vec<PortRates>,
    /// By worker, over the sliding window.
    pub lcores: Vec<LcoreRates>,
    /// By port: the flows behind what happened in the last minute; `None`: they are not recorded.
    pub flows: Vec<Option<Minute>>,
    /// What became of flows that were sent to a collector; `None`: there is none.
    pub export: Option<ExportReading>,
    /// What is known of the certificate and of the files with tokens.
    pub credentials: CredentialsReading,
    /// By engine and job, over the sliding window.
    pub engines: Vec<Vec<JobRates>>,
    /// By port and reason: when frames were last lost, as [`Snapshot::uptime_ms`]; `None`: not since the first sample.
    pub last_drop: Vec<[Option<u64>; DROP_REASONS]>,
}

/// What a port did over the sliding window, per second unless said otherwise.
#[derive(Clone, Debug, Default)]
pub struct PortRates {
    /// Length of the window by the port's own clock, ns; 0: no second sample yet.
    pub window: Nanos,
    /// Frames received.
    pub rx_pps: f64,
    /// Frames sent.
    pub tx_pps: f64,
    /// Bits received, without FCS.
    pub rx_bps: f64,
    /// Bits sent, without FCS.
    pub tx_bps: f64,
    /// Share of the line rate received, with FCS, preamble and gap; 0 where the rate is unknown.
    pub rx_utilisation: f64,
    /// Share of the line rate sent.
    pub tx_utilisation: f64,
    /// Frames lost, by reason.
    pub drops: Vec<f64>,
    /// Bits sent, by queue.
    pub queue_bps: [f64; PRIORITIES],
    /// Frames sent, by queue.
    pub queue_pps: [f64; PRIORITIES],
    /// Frames marked, by queue.
    pub marked_pps: [f64; PRIORITIES],
    /// Share of the window in which the peer held us back, by priority.
    pub rx_paused: [f64; PRIORITIES],
    /// Share of the window in which we held the peer back, by priority.
    pub tx_paused: [f64; PRIORITIES],
    /// How long the frames of the window were here, by queue.
    pub latency: [Times; PRIORITIES],
    /// Bits queued for this port, by the port they came in on.
    pub carried_bps: Vec<f64>,
}

/// What a worker did over the sliding window.
#[derive(Clone, Debug, Default)]
pub struct LcoreRates {
    /// Length of the window by the worker's own clock, ns; 0: it has not published since.
    pub window: Nanos,
    /// Turns per second.
    pub turns: f64,
    /// Share of the time spent in turns that moved a frame.
    pub busy: f64,
    /// Share of the time its thread was kept off its core; `None`: not known.
    pub off_core: Option<f64>,
    /// Lengths of the turns of the window.
    pub turn: Histogram,
    /// Cycles per frame in each stage, from the turns of the window that were timed; by [`Stage`].
    pub stage_cycles: [f64; Stage::ALL.len()],
}

/// Why a priority of the peer was last paused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blame {
    /// No queue: frames came faster than they could be taken off the receive ring.
    ReceiveRing,
    /// This queue was full of its frames: (port, queue).
    Queue(usize, usize),
    /// This queue was, and its own peer had paused it: the pause spreads.
    PausedQueue(usize, usize),
}

impl Blame {
    /// The word for it.
    pub fn word(self) -> &'static str {
        match self {
            Self::ReceiveRing => "receive_ring",
            Self::Queue(..) => "queue",
            Self::PausedQueue(..) => "paused_queue",
        }
    }

    /// The queue.
    pub fn queue(self) -> Option<(usize, usize)> {
        match self {
            Self::ReceiveRing => None,
            Self::Queue(port, queue) | Self::PausedQueue(port, queue) => Some((port, queue)),
        }
    }
}

impl Snapshot {
    /// Why the peer of `port` was last told to pause `priority`; `None`: it never was.
    pub fn blame(&self, port: usize, priority: usize) -> Option<Blame> {
        match LastCause::of_word(self.now.ports.get(port)?.gauges.tx_cause[priority]) {
            LastCause::Never => None,
            LastCause::NoQueue => Some(Blame::ReceiveRing),
            LastCause::Queue(cause) => {
                let (out, queue) = (usize::from(cause.out_port), usize::from(cause.queue));
                let now = self.now.ports.get(out)?.gauges.paused_queues >> queue & 1 == 1;
                let lately = self.ports.get(out).is_some_and(|rates| rates.rx_paused[queue] > 0.0);
                Some(if now || lately { Blame::PausedQueue(out, queue) } else { Blame::Queue(out, queue) })
            }
        }
    }

    /// What the books of all shards are out by: the sum of their absolute errors.
    pub fn conservation_error(&self) -> u64 {
        self.now.loops.iter().map(|l| l.conservation_error().unsigned_abs()).sum()
    }

    /// Sum of a term of the books over all shards.
    pub fn total(&self, term: fn(&LoopStats) -> u64) -> u64 {
        self.now.loops.iter().map(term).sum()
    }

    /// Frames between two lcores; shards are read one after the other, so this is near, not exact.
    pub fn in_flight(&self) -> u64 {
        self.total(|l| l.handed_out).saturating_sub(self.total(|l| l.handed_in))
    }

    /// Every worker has published within the window.
    pub fn workers_alive(&self) -> bool {
        self.standing().next().is_none()
    }

    /// Workers, by number, that have not published within the window.
    pub fn standing(&self) -> impl Iterator<Item = usize> {
        self.lcores.iter().enumerate().filter(|(_, lcore)| lcore.window == 0).map(|(worker, _)| worker)
    }

    /// Frames of lossless classes that were received and not delivered: [`PortStats::lossless_drops`] of all ports.
    pub fn lossless_drops(&self) -> u64 {
        self.now.ports.iter().map(|port| port.stats.lossless_drops()).sum()
    }

    /// Frames of lossless classes that the watchdog dropped.
    pub fn lossless_drops_watchdog(&self) -> u64 {
        self.now.ports.iter().map(|port| port.stats.lossless_drops_watchdog()).sum()
    }

    /// Frames of lossless classes that an operator's order cost: a port switched off, the end of a run. No fault.
    pub fn lossless_drops_operator(&self) -> u64 {
        self.now.ports.iter().map(|port| port.stats.lossless_drops_operator()).sum()
    }

    /// Frames that drivers lost on ports with lossless classes, before the switch saw them or after it had sent them: no class
    /// is known of them.
    pub fn lossless_drops_possible(&self) -> u64 {
        (0..self.now.ports.len()).map(|port| self.possible_at(port)).sum()
    }

    /// [`Snapshot::lossless_drops_possible`] of one port.
    pub fn possible_at(&self, port: usize) -> u64 {
        let lossless = self.info.ports.get(port).is_some_and(|port| port.lossless != 0);
        if lossless { self.now.ports[port].nic.lost() } else { 0 }
    }

    /// What is wrong, worst first. Empty: the switch is healthy. Loss counts since start: it does not heal.
    pub fn faults(&self) -> Vec<String> {
        let some = |frames: u64, what: &str| (frames > 0).then(|| format!("{frames} {what}"));
        let mut found: Vec<String> = [
            some(self.lossless_drops(), "lossless drops"),
            some(self.lossless_drops_watchdog(), "lossless drops by the watchdog"),
            some(self.lossless_drops_possible(), "possible lossless drops by drivers"),
            some(self.conservation_error(), "frames unaccounted for"),
        ]
        .into_iter()
        .flatten()
        .collect();
        if !self.workers_alive() {
            found.push(if self.starting { "starting" } else { "a worker stands still" }.to_owned());
        }
        for (worker, rates) in self.lcores.iter().enumerate() {
            if let Some(share) = rates.off_core.filter(|share| *share >= OFF_CORE_FAULT) {
                let lcore = self.info.lcores.get(worker).copied().unwrap_or(worker);
                found.push(format!("lcore {lcore}: {}", off_core_words(share)));
            }
        }
        if self.now.ports.iter().any(|port| port.gauges.stormed_queues != 0) {
            found.push("PFC storm".to_owned());
        }
        // A port that is switched off has no link because somebody wants it so.
        let down = |(info, port): (&PortInfo, &PortReading)| {
            info.admin == AdminStatus::Up && port.link.is_some_and(|link| !link.up)
        };
        if self.info.ports.iter().zip(&self.now.ports).any(down) {
            found.push("link down".to_owned());
        }
        found.extend(self.credentials.faults(self.unix_ms / 1_000));
        if self.now.phase != Phase::Forward {
            found.push(self.now.phase.word().to_owned());
        }
        found
    }
}

/// Share of its time that a worker may be kept off its core before that is a fault: a polling loop needs all of it.
pub const OFF_CORE_FAULT: f64 = 0.05;

/// How a share of time off the core is told.
pub fn off_core_words(share: f64) -> String {
    format!("the worker was off its core {} of the time", Unit::PERCENT.digits(0).text(share.min(1.0)))
}
