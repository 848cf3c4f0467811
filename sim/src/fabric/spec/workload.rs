//! Traffic.

use super::one;
use crate::fabric::sizes::SizeDistribution;
use crate::fabric::units::{Duration, Rate, Size};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// In-network aggregation: engines behind internal ports of switches, of workloads `inc_all_reduce`.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct IncSpec {
    /// Switches with an engine; all unless given.
    pub switches: Option<Vec<String>>,
    /// Rate of the internal port; all other ports of the switch together, 10T at most, unless given.
    pub rate: Option<Rate>,
    /// Time between switch and engine, each way.
    pub delay: Duration,
    /// Packets a rank may be ahead of the slowest: a power of two, 4 to 4096.
    pub window: u32,
}

impl Default for IncSpec {
    fn default() -> Self {
        Self { switches: None, rate: None, delay: Duration::of(0), window: 256 }
    }
}

/// Default of a key that the kinds which have it cannot do without.
const REQUIRED: &str = "required";

/// Types of RC Link frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
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
    pub(in crate::fabric) fn word(self) -> &'static str {
        match self {
            Self::Type1 => "type1",
            Self::Type2 => "type2",
            Self::Type3 => "type3",
        }
    }
}

/// Traffic. Which keys a kind needs is in its own line.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Workload {
    /// What is sent.
    pub kind: Pattern,
    /// Payload bytes: of each flow; all-reduce: of the whole vector; without an end, where that can be, unless given.
    pub bytes: Option<Size>,
    /// First flow not before this.
    #[serde(default)]
    pub start: Duration,
    /// Each further flow starts this much later.
    #[serde(default)]
    pub stagger: Duration,
    /// Sending host (flow).
    #[schemars(extend("x-default" = REQUIRED))]
    pub from: Option<String>,
    /// Receiving host (flow, incast, poisson); of poisson any unless given.
    pub to: Option<String>,
    /// Sending hosts (incast); all but the receiver unless given.
    pub senders: Option<usize>,
    /// Host i sends to host i + shift, modulo their number (permutation); a random permutation unless given.
    pub shift: Option<usize>,
    /// Offered load of each host's link in bytes of payload, above 0 and at most 1: what is on the wire is more, by headers, preamble
    /// and gaps (poisson).
    #[schemars(extend("x-default" = REQUIRED))]
    pub load: Option<f64>,
    /// Flow sizes (poisson); all have `bytes` unless given.
    pub sizes: Option<SizeDistribution>,
    /// Flows arrive for this long (poisson).
    #[schemars(extend("x-default" = REQUIRED))]
    pub duration: Option<Duration>,
    /// What is sent (htsim_matrix, hpcc_flows, operations, chakra); beside this file unless the path is absolute.
    #[schemars(extend("x-default" = REQUIRED))]
    pub file: Option<String>,
    /// Time of `file` that is `start` here.
    #[serde(default)]
    pub origin: Duration,
    /// What `start` of a connection counts in `file`: htsim's reader says picoseconds, and some of its programs play microseconds
    /// (htsim_matrix).
    #[schemars(extend("default" = StartUnit::default()))]
    pub start_unit: Option<StartUnit>,
    /// Hosts of the ranks, in their order; as `placement` says unless given.
    pub hosts: Option<Vec<String>>,
    /// Number of ranks; one for each host unless given.
    pub ranks: Option<usize>,
    /// Which hosts the ranks are on.
    #[schemars(extend("default" = Placement::default()))]
    pub placement: Option<Placement>,
    /// Ranks of a group (hierarchical_all_reduce, rail_all_reduce); those of a server in a `rail` topology unless given.
    pub group: Option<usize>,
    /// Most bytes of the vector that go up and down a tree at once (tree_all_reduce); 32 packets unless given.
    pub chunk: Option<Size>,
    /// Bytes from each rank, a row, to each (all_to_allv).
    #[schemars(extend("x-default" = REQUIRED))]
    pub matrix: Option<Vec<Vec<Size>>>,
    /// Micro-batches of a step, 1 to 65536 (pipeline).
    #[schemars(extend("x-default" = REQUIRED))]
    pub microbatches: Option<usize>,
    /// Time of a micro-batch at a stage (pipeline).
    #[schemars(extend("x-default" = REQUIRED))]
    pub forward: Option<Duration>,
    /// Time of a micro-batch at a stage on the way back (pipeline).
    #[schemars(extend("x-default" = REQUIRED))]
    pub backward: Option<Duration>,
    /// Ranks that store (storage).
    #[schemars(extend("x-default" = REQUIRED))]
    pub servers: Option<usize>,
    /// Reads and writes of each client (storage).
    #[schemars(extend("x-default" = REQUIRED))]
    pub ios: Option<usize>,
    /// Reads and writes of a client that are under way at once (storage).
    #[serde(default = "one::<usize>")]
    pub depth: usize,
    /// Share of reads (storage).
    #[serde(default = "one::<f64>")]
    pub reads: f64,
    /// Servers that what is written goes to, one after the other (storage).
    #[serde(default = "one::<usize>")]
    pub replicas: usize,
    /// Time of a server for each read or write, one after the other (storage).
    #[serde(default)]
    pub service: Duration,
    /// Reliable, or datagrams nobody acknowledges.
    #[serde(default = "yes")]
    pub reliable: bool,
    /// Congestion control; that of `[host]` unless given.
    pub cc: Option<Congestion>,
    /// Rate on the wire without congestion control; the link's unless given.
    pub rate: Option<Rate>,
    /// PFC priority of the data at the host, 0 to 7.
    #[serde(default = "three")]
    pub priority: u8,
    /// DSCP of the data, 0 to 63.
    #[serde(default = "dscp_26")]
    pub dscp: u8,
    /// Every packet is answered with a response of so many bytes, once the receiver reads it (RC Link); not at all unless given.
    pub response: Option<Size>,
    /// Type of its frames (RC Link).
    #[serde(default, rename = "type")]
    pub frames: FrameType,
    /// Who hears a group (type2); all other hosts unless given.
    pub members: Option<Vec<String>>,
}

/// Makes [`Pattern`]: of each kind what it is called in a file, and its keys, besides those of all workloads.
macro_rules! patterns {
    ($($(#[$about:meta])+ $kind:ident = $word:literal { $($key:literal),+ })+) => {
        /// Who sends to whom.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
        pub enum Pattern { $($(#[$about])+ #[serde(rename = $word)] $kind,)+ }

        impl Pattern {
            /// Its name in a file.
            pub(in crate::fabric) fn word(self) -> &'static str {
                match self { $(Self::$kind => $word,)+ }
            }

            /// Keys of a workload that say something to this kind, and not to all.
            pub(in crate::fabric) fn keys(self) -> &'static [&'static str] {
                match self { $(Self::$kind => &[$($key),+],)+ }
            }
        }
    };
}

patterns! {
    /// One flow: `from`, `to`.
    Flow = "flow" { "bytes", "from", "to", "response" }
    /// Many to one: `to`, `bytes`.
    Incast = "incast" { "bytes", "to", "senders", "response", "stagger" }
    /// Each to one other: `shift` or at random.
    Permutation = "permutation" { "bytes", "shift", "response", "stagger", "hosts", "ranks", "placement" }
    /// Each to every other.
    AllToAll = "all_to_all" { "bytes", "response", "stagger", "hosts", "ranks", "placement" }
    /// Ring all-reduce of `bytes` over all hosts: 2(N-1) steps, each waits for the one before. A host's steps
    /// share one queue pair: what congestion has made of its rate stays.
    AllReduce = "all_reduce" { "bytes", "stagger", "hosts", "ranks", "placement" }
    /// All-reduce of `bytes` over all hosts by two binary trees, of half the vector each: sums go up in pieces of at most `chunk`,
    /// the result comes down. An inner host of one tree is a leaf of the other.
    TreeAllReduce = "tree_all_reduce" { "bytes", "chunk", "stagger", "hosts", "ranks", "placement" }
    /// All-reduce of `bytes` over all hosts by engines of the switches: every host sends its vector to the engine it is
    /// planned to, gets the sum, and checks every bit of it. A flow is a host; it is delivered with its last result.
    IncAllReduce = "inc_all_reduce" { "bytes", "stagger" }
    /// Flows of random `sizes`, or of `bytes` each, between random hosts or to one, `load`, for `duration`.
    Poisson = "poisson" { "bytes", "to", "load", "sizes", "duration" }
    /// The connection matrix of htsim in `file`, triggers included.
    HtsimMatrix = "htsim_matrix" { "file", "origin", "start_unit" }
    /// The flow file of the HPCC simulator in `file`.
    HpccFlows = "hpcc_flows" { "file", "origin" }
    /// Ring reduce-scatter of `bytes` at each rank.
    ReduceScatter = "reduce_scatter" { "bytes", "stagger", "hosts", "ranks", "placement" }
    /// Ring all-gather to `bytes` at each rank.
    AllGather = "all_gather" { "bytes", "stagger", "hosts", "ranks", "placement" }
    /// Each to every other what `matrix` says.
    AllToAllV = "all_to_allv" { "matrix", "stagger", "hosts", "ranks", "placement" }
    /// All-reduce of `bytes` by recursive halving and doubling, of a power of two of ranks.
    HalvingDoublingAllReduce = "halving_doubling_all_reduce" { "bytes", "stagger", "hosts", "ranks", "placement" }
    /// All-reduce of `bytes`: each `group` of ranks sends to its first, the first ones form a ring, and send back.
    HierarchicalAllReduce = "hierarchical_all_reduce" { "bytes", "group", "stagger", "hosts", "ranks", "placement" }
    /// All-reduce of `bytes`: ring reduce-scatter within each `group`, a ring of the ranks with the same place in all groups,
    /// ring all-gather within each group.
    RailAllReduce = "rail_all_reduce" { "bytes", "group", "stagger", "hosts", "ranks", "placement" }
    /// A training step of a pipeline, one forward, one backward: ranks are stages, `bytes` go from one to the next for each of
    /// `microbatches`, and back; `forward` and `backward` are computed.
    Pipeline = "pipeline" { "bytes", "microbatches", "forward", "backward", "stagger", "hosts", "ranks", "placement" }
    /// The last `servers` ranks store; each other reads and writes `ios` times `bytes`.
    Storage = "storage" { "bytes", "servers", "ios", "depth", "reads", "replicas", "service", "stagger", "hosts", "ranks", "placement" }
    /// The operations in `file`, rank by rank.
    Operations = "operations" { "file", "stagger", "hosts", "ranks", "placement" }
    /// The Chakra execution traces in `file`, one for each rank.
    Chakra = "chakra" { "file", "stagger", "hosts", "ranks", "placement" }
}

/// Keys of a workload of any kind.
pub(in crate::fabric) const KEYS_OF_ALL: [&str; 9] =
    ["kind", "start", "reliable", "cc", "rate", "priority", "dscp", "type", "members"];

/// Which hosts the ranks of a job are on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
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

/// What a start in a connection matrix counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum StartUnit {
    /// Picoseconds, as htsim_ndp plays them.
    #[default]
    Ps,
    /// Microseconds, as htsim_uec, htsim_roce and htsim_swift play them.
    Us,
}

impl StartUnit {
    /// Picoseconds of one.
    pub(in crate::fabric) fn ps(self) -> u64 {
        match self {
            Self::Ps => 1,
            Self::Us => 1_000_000,
        }
    }

    /// What it is called in full.
    pub(in crate::fabric) fn name(self) -> &'static str {
        match self {
            Self::Ps => "picoseconds",
            Self::Us => "microseconds",
        }
    }
}

/// How a flow reacts to marks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
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
    /// Its congestion control. [`super::load`] has set that of the hosts where it says none.
    pub fn cc(&self) -> Congestion {
        self.cc.unwrap_or_default()
    }
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
