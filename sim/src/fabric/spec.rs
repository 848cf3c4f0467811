//! What a fabric file says. Every key with its default; unknown keys are errors.

use super::FabricError;
use super::congestion::{DctcpSpec, HpccSpec, SwiftSpec, TimelySpec, WindowKind};
use super::import::Files;
use super::level::Level;
use super::ns3_spec::Ns3Spec;
use super::nscc::NsccSpec;
use super::orders::OrderSpec;
use super::sizes::SizeDistribution;
use super::source::Source;
use super::transport::{SelectiveSpec, TransportKind};
use super::units::{Duration, Rate, Size};
use crate::digest::Digest;
use schemars::JsonSchema;
use serde::de::Error;
use serde::{Deserialize, Deserializer};
use std::collections::BTreeMap;
use std::path::Path;

/// A whole experiment.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FabricSpec {
    /// Name in output.
    pub name: String,
    /// Whose switches and hosts.
    #[serde(default)]
    pub profile: Profile,
    /// Frame by frame, or flows as rates.
    #[serde(default)]
    pub level: Level,
    /// Seed of everything random.
    #[serde(default = "one::<u64>")]
    pub seed: u64,
    /// The run ends here at the latest.
    pub until: Duration,
    /// Mean queue depths count from here.
    #[serde(default)]
    pub measure_from: Duration,
    /// Delivered bytes and queue depths are recorded this often; absent: not at all.
    pub sample: Option<Duration>,
    /// The time of every frame is split into its parts, end to end and per leg.
    #[serde(default)]
    pub latency: bool,
    /// Who is connected with whom.
    pub topology: Topology,
    /// Links of hosts.
    #[serde(default)]
    pub link: LinkSpec,
    /// Links between switches; like those of hosts unless given.
    pub trunk: Option<LinkSpec>,
    /// How switches choose among equal paths.
    #[serde(default)]
    pub routing: RoutingSpec,
    /// Links that fail.
    #[serde(default, rename = "failure")]
    pub failures: Vec<FailureSpec>,
    /// All switches.
    #[serde(default)]
    pub switch: SwitchSpec,
    /// All hosts.
    #[serde(default)]
    pub host: HostSpec,
    /// Engines of switches that sum for hosts.
    #[serde(default)]
    pub inc: IncSpec,
    /// Constants of profile "ns3-hpcc".
    #[serde(default)]
    pub ns3: Ns3Spec,
    /// The traffic.
    #[serde(rename = "workload")]
    pub workloads: Vec<Workload>,
    /// What is done to queue pairs while it runs.
    #[serde(default, rename = "order")]
    pub orders: Vec<OrderSpec>,
    /// Where it was read from.
    #[serde(skip)]
    #[schemars(skip)]
    pub(super) source: Source,
    /// Files it names.
    #[serde(skip)]
    #[schemars(skip)]
    pub(super) files: Files,
}

/// Whose switches and hosts play.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
pub enum Profile {
    /// weir's: the switch that runs on DPDK, hosts with RoCE headers, Ethernet's preamble, FCS and gap.
    #[default]
    #[serde(rename = "weir")]
    Weir,
    /// Those of the published HPCC simulator, quirks included ([`crate::ns3`]).
    #[serde(rename = "ns3-hpcc")]
    Ns3Hpcc,
}

/// Who is connected with whom. Hosts are `h0`, `h1`, ... and switches `s0`, ... except in `custom`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Topology {
    /// Two hosts and a cable: scenario A.
    Direct,
    /// One switch.
    Star {
        /// Hosts.
        hosts: usize,
    },
    /// Two switches; `pairs` hosts on each side.
    Dumbbell {
        /// Hosts on each side: `h0`.. left, then right.
        pairs: usize,
    },
    /// Switches in a row: scenarios B and C with two, the PFC chain with more.
    Chain {
        /// Switches.
        switches: usize,
        /// Hosts on each.
        hosts_per_switch: usize,
    },
    /// Every leaf to every spine.
    LeafSpine {
        /// Leaves.
        leaves: usize,
        /// Spines.
        spines: usize,
        /// Hosts on each leaf.
        hosts_per_leaf: usize,
        /// Links between a leaf and a spine.
        #[serde(default = "one::<usize>")]
        links_per_spine: usize,
        /// Rate of the hosts of a leaf in that of its trunks, from which it follows; `[trunk] rate` unless given.
        oversubscription: Option<f64>,
    },
    /// Servers of `rails` hosts each. Host r of every server of a unit is at leaf r of the unit; all leaves at all spines.
    Rail {
        /// Servers. Host r of server n is `h(n * rails + r)`.
        servers: usize,
        /// Hosts of a server.
        rails: usize,
        /// Servers that share their leaves; all unless given.
        servers_per_unit: Option<usize>,
        /// Spines.
        spines: usize,
        /// As of `leaf_spine`.
        oversubscription: Option<f64>,
    },
    /// Groups of leaves and spines, all leaves of a group at all its spines, and links between the spines of every two
    /// groups.
    DragonflyPlus {
        /// Groups.
        groups: usize,
        /// Leaves of a group.
        leaves: usize,
        /// Spines of a group.
        spines: usize,
        /// Hosts on each leaf.
        hosts_per_leaf: usize,
        /// Links between two groups, by the spines of both in turn.
        links_per_pair: usize,
    },
    /// Three stages, k pods of k/2 edge and k/2 aggregation switches, k^3/4 hosts.
    FatTree {
        /// Ports per switch, even.
        k: usize,
    },
    /// Switches in a ring, all frames clockwise: the shape in which PFC can deadlock.
    Ring {
        /// Switches.
        switches: usize,
        /// Hosts on each.
        hosts_per_switch: usize,
    },
    /// The topology file of the HPCC simulator. Hosts are `h` and switches `s` with their number in it.
    HpccFile {
        /// The file; beside this one unless the path is absolute.
        file: String,
    },
    /// As listed.
    Custom {
        /// Names of hosts.
        hosts: Vec<String>,
        /// Names of switches.
        switches: Vec<String>,
        /// Links.
        links: Vec<CustomLink>,
        /// Addresses of hosts that do not get one by their place in the list.
        #[serde(default)]
        macs: BTreeMap<String, String>,
    },
}

/// A link of a custom topology.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CustomLink {
    /// One end.
    pub a: String,
    /// The other end.
    pub b: String,
    /// Rate; that of `[link]` unless given.
    pub rate: Option<Rate>,
    /// One-way delay; that of `[link]` unless given.
    pub delay: Option<Duration>,
    /// Its share among equal paths, 1 to 64; 1 unless given.
    pub weight: Option<u32>,
}

/// Which of its equal paths a switch sends a frame by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RoutingMode {
    /// One for all frames of a flow, by a hash of the 5-tuple.
    #[default]
    Ecmp,
    /// Any, frame by frame: packet spraying.
    Spray,
}

/// Routing in switches.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct RoutingSpec {
    /// Among equal paths.
    pub mode: RoutingMode,
    /// From the failure or the repair of a link to routes that know of it.
    pub convergence: Duration,
}

impl Default for RoutingSpec {
    fn default() -> Self {
        Self { mode: RoutingMode::Ecmp, convergence: Duration::of(100_000) }
    }
}

/// Links between two nodes fail, both ways.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FailureSpec {
    /// One end.
    pub a: String,
    /// The other end.
    pub b: String,
    /// When.
    pub at: Duration,
    /// When they work again; never unless given.
    pub repair: Option<Duration>,
}

/// A kind of link.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct LinkSpec {
    /// bit/s, both ways.
    pub rate: Rate,
    /// One-way delay of the cable.
    pub delay: Duration,
    /// Share of data frames lost on it.
    pub loss: f64,
    /// Share of PFC frames lost on it.
    pub pause_loss: f64,
}

impl Default for LinkSpec {
    fn default() -> Self {
        Self { rate: Rate::of(100_000_000_000), delay: Duration::of(1000), loss: 0.0, pause_loss: 0.0 }
    }
}

/// When a switch begins to send a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Forwarding {
    /// When its last bit is in.
    StoreAndForward,
    /// When its headers are in, if the egress is free, unpaused, empty, and not faster than the
    /// ingress (it would run dry); otherwise like store-and-forward.
    CutThrough,
}

/// What joins the inputs of a switch to its outputs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CoreKind {
    /// One memory, from which every output takes as fast as its line.
    #[default]
    OutputQueued,
    /// A memory per input, a crossbar, iSLIP.
    Islip,
    /// The same with parallel iterative matching.
    Pim,
    /// The same with one FIFO per input: what is in front holds back all behind it.
    Fifo,
}

/// How frames pass a crossbar.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CrossbarMode {
    /// A match lasts as long as its frame.
    #[default]
    Packet,
    /// A match lasts one cell; frames are put together at the output.
    Cell,
}

/// All switches.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct SwitchSpec {
    /// When frames begin to leave.
    pub forwarding: Forwarding,
    /// What joins inputs and outputs. With a crossbar `buffer.size` is the memory of each input.
    pub core: CoreKind,
    /// Iterations of a match (islip, pim).
    pub iterations: u32,
    /// Speed of the crossbar, in those of the fastest line.
    pub speedup: f64,
    /// How frames pass it.
    pub crossbar_mode: CrossbarMode,
    /// Bytes of a cell: what a slot moves.
    pub cell: Size,
    /// Bytes at an output from which on it takes no further frame.
    pub output_buffer: Size,
    /// From the wire to admission (SW-121 T_ingress).
    pub ingress: Duration,
    /// Through the fabric of the switch (T_crossbar), counted before admission.
    pub crossbar: Duration,
    /// From the queue to the wire (T_egress).
    pub egress: Duration,
    /// A weir configuration without ports: `[qos]`, `[buffer]`, `[[wred]]`, `[pfc]`, `[watchdog]`, ...
    #[schemars(schema_with = "super::json_schema::switch_config")]
    pub config: toml::Table,
}

impl Default for SwitchSpec {
    fn default() -> Self {
        Self {
            forwarding: Forwarding::StoreAndForward,
            core: CoreKind::OutputQueued,
            iterations: 1,
            speedup: 1.0,
            crossbar_mode: CrossbarMode::Packet,
            cell: Size::of(64),
            output_buffer: Size::of(16 << 10),
            ingress: Duration::of(0),
            crossbar: Duration::of(0),
            egress: Duration::of(0),
            config: toml::Table::new(),
        }
    }
}

/// What hosts speak.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Protocol {
    /// RoCEv2.
    #[default]
    Rocev2,
    /// RC Link, the endpoint side of PAXI.
    Rclink,
}

/// Formats of RC Link frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum LinkFormat {
    /// Ethernet, IPv4, UDP.
    #[default]
    Standard,
    /// Traffic class in the source address.
    AfhGen1,
    /// Stations of 16 bits.
    #[serde(rename = "afh_gen2_16b")]
    AfhGen2,
    /// The same without EtherType, tag and reliability header: nothing is sent again.
    AfhLite,
}

/// What holds senders back (CBFC_EN).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FlowControlKind {
    /// Pauses, from the switch and from receive memories.
    #[default]
    Pfc,
    /// Credits, end to end and per virtual channel; hosts neither send nor obey pauses, and switches send none.
    Cbfc,
}

/// Priority, or virtual channel, of each class of RC Link traffic.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct LinkPriorities {
    /// Raw Ethernet (TYPE3).
    pub raw: Option<u8>,
    /// Multicast (TYPE2).
    pub multicast: Option<u8>,
    /// Responses.
    pub response: Option<u8>,
    /// Requests of banks 0 to 3.
    #[serde(deserialize_with = "banks")]
    pub request: Option<[u8; 4]>,
    /// Acknowledgements and credits.
    pub ack: Option<u8>,
}

/// Types of RC Link frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum FrameType {
    /// Frames of a queue pair.
    #[default]
    Type1,
    /// Multicast: one message to all members of a group, once.
    Type2,
    /// Raw Ethernet, sent once.
    Type3,
}

impl FrameType {
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Type1 => "type1",
            Self::Type2 => "type2",
            Self::Type3 => "type3",
        }
    }
}

/// One priority for each bank. The reader of TOML would pass over further ones.
fn banks<'de, D: Deserializer<'de>>(from: D) -> Result<Option<[u8; 4]>, D::Error> {
    let given = Vec::deserialize(from)?;
    let wrong = |given: Vec<u8>| D::Error::custom(format!("{} priorities; requests have 4", given.len()));
    given.try_into().map(Some).map_err(wrong)
}

/// Windows of RC Link's rate control.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
pub enum CcWindow {
    /// 4.096 us.
    #[default]
    #[serde(rename = "4us")]
    Us4,
    /// 8.192 us.
    #[serde(rename = "8us")]
    Us8,
    /// 16.384 us.
    #[serde(rename = "16us")]
    Us16,
    /// 32.768 us.
    #[serde(rename = "32us")]
    Us32,
    /// 65.536 us.
    #[serde(rename = "65us")]
    Us65,
}

/// RC Link hosts.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct LinkHostSpec {
    /// Format of the frames.
    pub format: LinkFormat,
    /// Go-back-N; without it (LITE mode) everything is sent once.
    pub retransmit: bool,
    /// Packets in flight.
    pub window: u16,
    /// Bytes are counted per such window.
    pub cc_window: CcWindow,
    /// `cc = "backoff"`: a flow halves its rate at most once per such time,
    pub cut_period: Duration,
    /// and raises it by a hundredth after each such time.
    pub raise_period: Duration,
    /// Pauses or credits.
    pub flow_control: FlowControlKind,
    /// Bytes of a credit: 32, 64, 128, 256, 1024 or 2048.
    pub credit_bytes: u16,
    /// Credits of each channel and peer: the memory of the receiver.
    pub credits: u32,
    /// Freed credits are reported once they are worth so many longest frames, 1 to 7,
    pub credit_report: u8,
    /// and at least this often, which mends losses.
    pub credit_interval: Duration,
    /// Messages are read this fast at most, in frames with gaps; as they come unless given.
    pub read_rate: Option<Rate>,
    /// What receive memories have room for after a pause was asked for; what the cable, the pipeline and two frames take
    /// unless given.
    pub round_trip: Option<Duration>,
    /// Priority of each class.
    pub priorities: LinkPriorities,
}

impl Default for LinkHostSpec {
    fn default() -> Self {
        Self {
            format: LinkFormat::Standard,
            retransmit: true,
            window: 512,
            cc_window: CcWindow::Us4,
            cut_period: Duration::of(50_000),
            raise_period: Duration::of(10_000),
            flow_control: FlowControlKind::Pfc,
            credit_bytes: 256,
            credits: 4096,
            credit_report: 2,
            credit_interval: Duration::of(10_000),
            read_rate: None,
            round_trip: None,
            priorities: LinkPriorities::default(),
        }
    }
}

/// All hosts.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct HostSpec {
    /// What they speak.
    pub protocol: Protocol,
    /// RC Link hosts.
    pub rclink: LinkHostSpec,
    /// PFC priorities they obey; those that are lossless at the switch they are connected to unless given.
    pub obey: Option<Vec<u8>>,
    /// From the arrival of a PFC frame to its effect.
    pub response: Duration,
    /// From the making of a frame to the line.
    pub tx_delay: Duration,
    /// From the last bit of a frame to its effect.
    pub rx_delay: Duration,
    /// Payload bytes of a full packet.
    pub payload: u16,
    /// Packets per ACK; 16, or 1 where congestion control follows every one of them, unless given.
    pub ack_every: Option<u16>,
    /// Retransmission timeout.
    pub timeout: Duration,
    /// What they do about frames that are lost or overtake one another.
    pub transport: TransportKind,
    /// Constants of `transport = "selective_repeat"`.
    pub selective_repeat: SelectiveSpec,
    /// Least time between two CNPs of a flow.
    pub cnp_interval: Duration,
    /// Priority of CNPs, of which pauses hold them back; ACKs go with their data. Of RoCEv2: RC Link has classes of its
    /// own.
    pub cnp_priority: u8,
    /// Congestion control of all workloads that do not say another in `cc`.
    pub congestion_control: Option<Congestion>,
    /// Rate control of flows with `cc = "dcqcn"`.
    pub dcqcn: DcqcnSpec,
    /// HPCC, with INT or PINT.
    pub hpcc: HpccSpec,
    /// TIMELY.
    pub timely: TimelySpec,
    /// DCTCP.
    pub dctcp: DctcpSpec,
    /// Swift.
    pub swift: SwiftSpec,
    /// NSCC.
    pub nscc: NsccSpec,
    /// How the bytes in flight of HPCC, TIMELY and DCTCP follow the rate; variable unless given, of TIMELY none.
    pub window: Option<WindowKind>,
    /// Bytes in flight at line rate; the largest bandwidth-delay product of the flows unless given.
    pub window_bytes: Option<Size>,
    /// Base round trip of HPCC and NSCC; the largest of the flows unless given.
    pub base_rtt: Option<Duration>,
}

impl Default for HostSpec {
    fn default() -> Self {
        Self {
            protocol: Protocol::Rocev2,
            rclink: LinkHostSpec::default(),
            obey: None,
            response: Duration::of(0),
            tx_delay: Duration::of(0),
            rx_delay: Duration::of(0),
            payload: 1024,
            ack_every: None,
            timeout: Duration::of(4_000_000),
            transport: TransportKind::default(),
            selective_repeat: SelectiveSpec::default(),
            cnp_interval: Duration::of(50_000),
            cnp_priority: 6,
            congestion_control: None,
            dcqcn: DcqcnSpec::default(),
            hpcc: HpccSpec::default(),
            timely: TimelySpec::default(),
            dctcp: DctcpSpec::default(),
            swift: SwiftSpec::default(),
            nscc: NsccSpec::default(),
            window: None,
            window_bytes: None,
            base_rtt: None,
        }
    }
}

/// Who of an adapter decides how fast a flow sends (CC-018 to CC-020).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Scheme {
    /// Scheme 1: hardware computes the rate and keeps it.
    Hardware,
    /// Scheme 2: firmware writes the rate, hardware keeps it.
    FirmwareRate,
    /// Scheme 3: firmware stops and starts the flow.
    Firmware,
}

/// DCQCN: a named set of parameters and what differs from it.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct DcqcnSpec {
    /// ConnectX defaults instead of the paper's.
    pub connectx: bool,
    /// Gain of alpha, 1024ths.
    pub gain: Option<u32>,
    /// Alpha at the first CNP, 1024ths.
    pub initial_alpha: Option<u32>,
    /// Additive increase.
    pub additive: Option<Rate>,
    /// Hyper increase.
    pub hyper: Option<Rate>,
    /// Increase timer.
    pub increase_period: Option<Duration>,
    /// Alpha decays after each such time without a CNP.
    pub alpha_period: Option<Duration>,
    /// One cut per such time.
    pub cut_period: Option<Duration>,
    /// Bytes between two increases.
    pub byte_threshold: Option<Size>,
    /// A cut takes alpha / 2^shift.
    pub rate_shift: Option<u32>,
    /// Increases before the next stage.
    pub stages: Option<u32>,
    /// A cut leaves at least this percentage of the rate.
    pub min_left_percent: Option<u32>,
    /// Rate set by the first CNP instead of a cut.
    pub first_cnp_rate: Option<Rate>,
    /// Lowest rate.
    pub min_rate: Option<Rate>,
    /// Rate at the start.
    pub initial_rate: Option<Rate>,
    /// As an adapter does under this scheme; absent: the algorithm alone, nothing limits what is in flight.
    pub scheme: Option<Scheme>,
    /// Firmware looks this often (schemes 2 and 3).
    pub firmware_period: Option<Duration>,
    /// Bytes of a work request, of which a flow is made: what is counted as in flight.
    pub message: Option<Size>,
    /// Work requests in flight (schemes 1 and 2).
    pub outstanding: Option<u32>,
    /// The same for a while after a CNP.
    pub outstanding_after_cnp: Option<u32>,
    /// That while.
    pub restore_after: Option<Duration>,
}

/// In-network aggregation: engines behind internal ports of switches, of workloads `inc_all_reduce`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct IncSpec {
    /// Switches with an engine; all unless given.
    pub switches: Option<Vec<String>>,
    /// Rate of the internal port; all other ports of the switch together unless given.
    pub rate: Option<Rate>,
    /// Time between switch and engine, each way.
    pub delay: Duration,
    /// Packets a rank may be ahead of the slowest.
    pub window: u32,
}

impl Default for IncSpec {
    fn default() -> Self {
        Self { switches: None, rate: None, delay: Duration::of(0), window: 256 }
    }
}

/// Traffic. Which keys a kind needs is in its own line.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Workload {
    /// What is sent.
    pub kind: Pattern,
    /// Payload bytes: of each flow; all-reduce: of the whole vector. Absent where allowed: endless.
    pub bytes: Option<Size>,
    /// First flow not before this.
    #[serde(default)]
    pub start: Duration,
    /// Each further flow starts this much later.
    #[serde(default)]
    pub stagger: Duration,
    /// Sending host (flow).
    pub from: Option<String>,
    /// Receiving host (flow, incast; poisson, where it is any unless given).
    pub to: Option<String>,
    /// Sending hosts (incast); all but the receiver unless given.
    pub senders: Option<usize>,
    /// Host i sends to host i + shift (permutation); a random permutation unless given.
    pub shift: Option<usize>,
    /// Offered load of each host's link, 0 to 1 (poisson).
    pub load: Option<f64>,
    /// Flow sizes (poisson, unless all have `bytes`).
    pub sizes: Option<SizeDistribution>,
    /// Flows arrive for this long (poisson).
    pub duration: Option<Duration>,
    /// What is sent (htsim_matrix, hpcc_flows, operations, chakra); beside this file unless the path is absolute.
    pub file: Option<String>,
    /// Time of that file that is `start` here.
    #[serde(default)]
    pub origin: Duration,
    /// Hosts of the ranks, in their order.
    pub hosts: Option<Vec<String>>,
    /// How many ranks there are; one for each host unless given.
    pub ranks: Option<usize>,
    /// Which hosts they are on.
    pub placement: Option<Placement>,
    /// Ranks of a group (hierarchical_all_reduce, rail_all_reduce); those of a server in a `rail` topology unless given.
    pub group: Option<usize>,
    /// Bytes from each rank, a row, to each (all_to_allv).
    pub matrix: Option<Vec<Vec<Size>>>,
    /// Micro-batches of a step (pipeline).
    pub microbatches: Option<usize>,
    /// Time of a micro-batch at a stage (pipeline).
    pub forward: Option<Duration>,
    /// The same on the way back (pipeline).
    pub backward: Option<Duration>,
    /// Ranks that store (storage).
    pub servers: Option<usize>,
    /// Reads and writes of each client (storage).
    pub ios: Option<usize>,
    /// Those of them that are under way at once (storage); 1 unless given.
    pub depth: Option<usize>,
    /// Share of reads (storage); 1 unless given.
    pub reads: Option<f64>,
    /// Servers that what is written goes to, one after the other (storage); 1 unless given.
    pub replicas: Option<usize>,
    /// Time of a server for each, one after the other (storage); none unless given.
    pub service: Option<Duration>,
    /// Reliable, or datagrams nobody acknowledges.
    #[serde(default = "yes")]
    pub reliable: bool,
    /// Congestion control; that of `[host]` unless given.
    pub cc: Option<Congestion>,
    /// Rate on the wire without congestion control; the link's unless given.
    pub rate: Option<Rate>,
    /// PFC priority of the data at the host.
    #[serde(default = "three")]
    pub priority: u8,
    /// DSCP of the data.
    #[serde(default = "dscp_26")]
    pub dscp: u8,
    /// Every packet is answered with a response of so many bytes, once the receiver reads it (RC Link).
    pub response: Option<Size>,
    /// Type of its frames (RC Link).
    #[serde(default, rename = "type")]
    pub frames: FrameType,
    /// Who hears a group (type2); all other hosts unless given.
    pub members: Option<Vec<String>>,
}

/// Who sends to whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Pattern {
    /// One flow: `from`, `to`.
    Flow,
    /// Many to one: `to`, `bytes`.
    Incast,
    /// Each to one other: `shift` or at random.
    Permutation,
    /// Each to every other.
    AllToAll,
    /// Ring all-reduce of `bytes` over all hosts: 2(N-1) steps, each waits for the one before. A host's steps
    /// share one queue pair: what congestion has made of its rate stays.
    AllReduce,
    /// All-reduce of `bytes` over all hosts by two binary trees, of half the vector each: sums go up in chunks of 32 packets,
    /// the result comes down. An inner host of one tree is a leaf of the other.
    TreeAllReduce,
    /// All-reduce of `bytes` over all hosts by engines of the switches: every host sends its vector to the engine it is
    /// planned to, gets the sum, and checks every bit of it. A flow is a host; it is delivered with its last result.
    IncAllReduce,
    /// Flows of random `sizes`, or of `bytes` each, between random hosts or to one, `load`, for `duration`.
    Poisson,
    /// The connection matrix of htsim in `file`, triggers included.
    HtsimMatrix,
    /// The flow file of the HPCC simulator in `file`.
    HpccFlows,
    /// Ring reduce-scatter of `bytes` at each rank.
    ReduceScatter,
    /// Ring all-gather to `bytes` at each rank.
    AllGather,
    /// Each to every other what `matrix` says.
    #[serde(rename = "all_to_allv")]
    AllToAllV,
    /// All-reduce of `bytes` by recursive halving and doubling, of a power of two of ranks.
    HalvingDoublingAllReduce,
    /// All-reduce of `bytes`: each `group` of ranks sends to its first, the first ones form a ring, and send back.
    HierarchicalAllReduce,
    /// All-reduce of `bytes`: ring reduce-scatter within each `group`, a ring of the ranks with the same place in all groups,
    /// ring all-gather within each group.
    RailAllReduce,
    /// A training step of a pipeline, one forward, one backward: ranks are stages, `bytes` go from one to the next for each of
    /// `microbatches`, and back; `forward` and `backward` are computed.
    Pipeline,
    /// The last `servers` ranks store; each other reads and writes `ios` times `bytes`.
    Storage,
    /// The operations in `file`, rank by rank.
    Operations,
    /// The Chakra execution traces in `file`, one for each rank.
    Chakra,
}

/// Which hosts the ranks of a job are on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Placement {
    /// The first ones.
    #[default]
    Packed,
    /// Equally far apart in the order of their numbers.
    Spread,
    /// At random.
    Random,
}

/// How a flow reacts to marks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Congestion {
    /// DCQCN.
    Dcqcn,
    /// Fewer bytes per window after a CNP, in RC Link.
    Backoff,
    /// HPCC with INT.
    Hpcc,
    /// HPCC with PINT.
    #[serde(rename = "hpcc-pint")]
    HpccPint,
    /// TIMELY.
    Timely,
    /// DCTCP.
    Dctcp,
    /// Swift.
    Swift,
    /// NSCC of Ultra Ethernet.
    Nscc,
    /// Line rate, `window_bytes` in flight.
    FixedWindow,
    /// Not at all.
    #[default]
    None,
}

impl Workload {
    /// Its congestion control. [`load`] has set that of the hosts where it says none.
    pub fn cc(&self) -> Congestion {
        self.cc.unwrap_or_default()
    }
}

fn one<T: From<u8>>() -> T {
    1.into()
}

fn yes() -> bool {
    true
}

fn three() -> u8 {
    3
}

fn dscp_26() -> u8 {
    26
}

/// Line and column, from 1, of a place in a text.
fn position(text: &str, at: usize) -> (usize, usize) {
    let before = text.get(..at).unwrap_or(text);
    let column = before.rsplit('\n').next().map_or(0, |line| line.chars().count());
    (before.matches('\n').count() + 1, column + 1)
}

/// Reads a spec from TOML, calling it `file` in messages, and the files it names, which are beside that one.
///
/// # Errors
/// [`FabricError::Syntax`], or a file that cannot be read; what the spec says is checked by [`super::run`].
pub fn load(file: &str, text: &str) -> Result<FabricSpec, FabricError> {
    load_in(file, text, Path::new(file).parent().unwrap_or(Path::new("")))
}

/// The same with the files it names in `folder`.
///
/// # Errors
/// As [`load`].
pub fn load_in(file: &str, text: &str, folder: &Path) -> Result<FabricSpec, FabricError> {
    let wrong = |e: toml::de::Error| FabricError::Syntax {
        file: file.into(),
        at: e.span().map(|span| position(text, span.start)),
        message: e.to_string().trim_end().into(),
    };
    let mut spec: FabricSpec = toml::from_str(text).map_err(wrong)?;
    let common = spec.host.congestion_control.unwrap_or_default();
    for w in &mut spec.workloads {
        w.cc = w.cc.or(Some(common));
    }
    spec.source = Source { file: file.into(), text: text.into() };
    spec.files = Files::read(&spec, folder).map_err(|e| spec.locate(e))?;
    Ok(spec)
}

impl FabricSpec {
    /// 128-bit FNV-1a hash of everything the spec says, defaults included, as 32 hexadecimal digits.
    pub fn hash(&self) -> String {
        Digest::of(format!("{self:?}").as_bytes()).to_string()
    }
}
