//! Frames that are asked about and frames that are followed.

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

/// Where a frame is put.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FrameClass {
    /// Traffic class.
    pub tc: u8,
    /// Priority group.
    pub pg: u8,
    /// Egress queue.
    pub queue: u8,
}

/// What would happen to a frame now.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ExplainedFrame {
    /// Port it arrives on.
    pub port: String,
    /// Port it leaves by, or that of the copy that is shown; null: it comes to no queue.
    pub to: Option<String>,
    /// The LAG that port is in; null: none.
    pub lag: Option<String>,
    /// Bytes, without FCS.
    pub len_bytes: u32,
    /// DSCP, if it is IP.
    pub dscp: Option<u8>,
    /// PCP of its VLAN tag.
    pub pcp: Option<u8>,
    /// VID of its VLAN tag.
    pub vid: Option<u16>,
    /// Its VLAN, and what is done to its tag.
    pub vlan: Option<ExplainedVlan>,
    /// ECN code point: `not-ect`, `ect0`, `ect1` or `ce`; null: it has none.
    pub ecn: Option<String>,
    /// The port or LAG it was to leave by, if frames cannot leave there now: what follows is of a copy that is flooded.
    pub down: Option<ExplainedDown>,
    /// The limit on flooding it meets, if it is flooded.
    pub flood: Option<ExplainedFlood>,
    /// The multicast group it is for, if that was asked: where it goes, and why.
    pub multicast: Option<ExplainedMulticast>,
    /// Where it is put; null: it ends or is lost before that is known.
    pub class: Option<FrameClass>,
    /// Bytes its group is charged, for all copies; 0: it does not come so far.
    pub charge_bytes: u32,
    /// Queues it comes to.
    pub copies: usize,
    /// Its priority group; null: it does not come so far.
    pub group: Option<ExplainedGroup>,
    /// The pools.
    pub pool: ExplainedPool,
    /// Its egress queue; null: it comes to none.
    pub queue: Option<QueueUse>,
    /// What admission says.
    pub verdict: String,
    /// Why it is dropped, if it is.
    pub reason: Option<String>,
    /// What to do about it.
    pub remedy: Option<String>,
    /// What it takes.
    pub takes: ExplainedTakes,
    /// Headroom left to its group after it, bytes.
    pub headroom_left_bytes: u64,
    /// Priorities the peer is told to pause on its account.
    pub pauses: Vec<usize>,
    /// Marking of its queue; null: it does not mark.
    pub mark: Option<ExplainedMark>,
    /// Share of such frames that are dropped early at this depth: below one, the rest tells of a frame that is not.
    pub early_drop_probability: f64,
}

/// The VLAN of a frame.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ExplainedVlan {
    /// VID.
    pub vid: u16,
    /// What is done to its tag.
    pub tag: String,
}

/// A port or LAG without a link, switched off, or kept out by LACP. Its learned stations are forgotten: frames to them are unknown unicast.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ExplainedDown {
    /// What it is called.
    pub to: String,
    /// Why a frame to a static station there is dropped, which is not flooded.
    pub static_reason: String,
}

/// Where a frame for a multicast group goes: what else is told of it is of one copy.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ExplainedMulticast {
    /// The group.
    pub group: String,
    /// The address of its frames.
    pub mac: String,
    /// `joined` or `not_joined` where members are known, `configured` by an `[[fdb.group]]`; else it is flooded: `for_all`, `not_snooped`,
    /// `not_asked` or `just_asked`.
    pub why: String,
    /// Ports with members.
    pub members: Vec<String>,
    /// Ports with routers.
    pub routers: Vec<String>,
    /// The same in words.
    pub text: String,
}

/// A limit on flooding.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ExplainedFlood {
    /// `broadcast`, `unknown_unicast` or `multicast`.
    pub kind: String,
    /// The limit; null: none.
    pub limit: Option<String>,
    /// It is exceeded now.
    pub exceeded: bool,
}

/// A priority group, bytes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ExplainedGroup {
    /// Its frames are not to be lost.
    pub lossless: bool,
    /// `used`: it is the control pool. `full`: that had no room for this CNP. Null: it has nothing to do with it.
    pub control_pool: Option<String>,
    /// Held in all but headroom.
    pub used_bytes: u64,
    /// Reserved for it.
    pub reserved_bytes: u64,
    /// Held of the shared pool.
    pub shared_bytes: u64,
    /// It may hold of the shared pool; null: no limit.
    pub limit_bytes: Option<u64>,
    /// All groups of its port together; null: their use of the shared pool has no limit (`ingress_limit`).
    pub port: Option<ExplainedPortLimit>,
    /// It may take of the shared pool still; null: no limit.
    pub shared_left_bytes: Option<u64>,
    /// Held of headroom.
    pub headroom_bytes: u64,
    /// It may hold of headroom.
    pub headroom_size_bytes: u64,
    /// Shared bytes at which it sends Xon; 0: none beyond its reserve; null: no limit.
    pub xon_bytes: Option<u64>,
    /// It has paused its peer.
    pub xoff: bool,
}

/// The groups or the lossy queues of a port, bytes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ExplainedPortLimit {
    /// Held of the shared pool.
    pub shared_bytes: u64,
    /// They may hold of it.
    pub limit_bytes: u64,
}

/// The pools, bytes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ExplainedPool {
    /// Size of the shared pool.
    pub shared_size_bytes: u64,
    /// Free of it.
    pub shared_free_bytes: u64,
    /// Size of the headroom pool.
    pub headroom_size_bytes: u64,
    /// Free of it.
    pub headroom_free_bytes: u64,
}

/// An egress queue, bytes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct QueueUse {
    /// Held.
    pub used_bytes: u64,
    /// It may hold; null: no limit.
    pub limit_bytes: Option<u64>,
    /// All lossy queues of its port together; null: they have no limit (`egress_limit`), or it is lossless.
    pub port: Option<ExplainedPortLimit>,
}

/// What a frame takes, bytes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ExplainedTakes {
    /// Of the reserve.
    pub reserved_bytes: u64,
    /// Of the shared pool.
    pub shared_bytes: u64,
    /// Of headroom.
    pub headroom_bytes: u64,
}

/// Marking of a queue.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ExplainedMark {
    /// Kmin.
    pub kmin_bytes: u64,
    /// Kmax.
    pub kmax_bytes: u64,
    /// Pmax, of one.
    pub pmax: f64,
    /// Bytes of the frames that wait in the queue, which these are compared with: not as they are charged.
    pub depth_bytes: u64,
    /// Share of such frames that are marked at this depth, of one.
    pub probability: f64,
}

/// An order to follow frames.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WatchOrder {
    /// Port on which they arrive, or at which they are lost.
    pub port: String,
    /// Which; all unless given.
    #[serde(default)]
    pub filter: Option<WatchFilter>,
    /// How many; 10 unless given.
    #[serde(default)]
    #[schemars(range(min = 1, max = 1_000_000))]
    pub count: Option<u64>,
    /// Bytes told of each; 128 unless given.
    #[serde(default)]
    #[schemars(range(max = 16_384))]
    pub bytes: Option<u32>,
    /// Those that are lost, wherever they came from.
    #[serde(default)]
    pub drops: Option<bool>,
    /// Only those that this switch marks are told, and count: a frame is told when it has left. Not with `drops`.
    #[serde(default)]
    pub marked: Option<bool>,
    /// What engines of in-network aggregation do with them is told, too; so it is unless false. Not of those that are lost.
    #[serde(default)]
    pub engines: Option<bool>,
    /// Most time it may take, ms; a minute unless given, a day at most.
    #[serde(default)]
    #[schemars(range(max = 86_400_000))]
    pub timeout_ms: Option<u64>,
}

/// Which frames to follow: those that fit all that is given.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WatchFilter {
    /// Destination, as 02:00:00:00:00:01.
    #[serde(default)]
    #[schemars(regex(pattern = "^([0-9a-fA-F]{2}:){5}[0-9a-fA-F]{2}$"))]
    pub dst: Option<String>,
    /// Source.
    #[serde(default)]
    #[schemars(regex(pattern = "^([0-9a-fA-F]{2}:){5}[0-9a-fA-F]{2}$"))]
    pub src: Option<String>,
    /// EtherType behind VLAN tags.
    #[serde(default)]
    pub ethertype: Option<u16>,
    /// DSCP.
    #[serde(default)]
    #[schemars(range(max = 63))]
    pub dscp: Option<u8>,
    /// Source or destination port of UDP over IP.
    #[serde(default)]
    pub udp_port: Option<u16>,
    /// Source or destination address of the IP header.
    #[serde(default)]
    #[schemars(schema_with = "ip_address")]
    pub ip: Option<String>,
    /// Destination queue pair of RoCE or RC Link.
    #[serde(default)]
    #[schemars(range(max = 0xff_ffff))]
    pub qp: Option<u32>,
}

/// An IPv4 or IPv6 address, or null.
fn ip_address(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "anyOf": [
            { "type": "string", "format": "ipv4" },
            { "type": "string", "format": "ipv6" },
            { "type": "null" },
        ],
    })
}

/// A line about frames that are followed. Times of frames are ns by the clock of the workers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "event", rename_all = "lowercase")]
pub enum WatchLine {
    /// The first line: the same instant by two clocks.
    Armed {
        /// ns since 1970, as text.
        unix_ns: String,
        /// By the clock of the workers.
        at_ns: u64,
    },
    /// A frame arrived, was classified and looked up, and admission has decided.
    Arrived(Box<WatchedArrival>),
    /// It left.
    Left {
        /// Which frame, from 1.
        frame: u64,
        /// When.
        at_ns: u64,
        /// By which port.
        port: String,
        /// Of which queue.
        queue: u8,
        /// From its arrival until the scheduler took it, ns.
        queued_ns: u64,
        /// From its arrival until the driver took it, ns.
        residence_ns: u64,
        /// Bytes it left behind in its queue.
        depth_bytes: u64,
        /// It became CE.
        marked: bool,
    },
    /// It was lost after it had been queued.
    Flushed {
        /// Which frame, from 1.
        frame: u64,
        /// When.
        at_ns: u64,
        /// Port it waited for.
        port: String,
        /// From its arrival until then, ns.
        residence_ns: u64,
        /// Stage that lost it.
        stage: String,
        /// Why.
        reason: String,
        /// What to do about it.
        remedy: String,
    },
    /// A frame was lost at the port.
    Lost {
        /// Which frame, from 1.
        frame: u64,
        /// When.
        at_ns: u64,
        /// Port it came by.
        port: String,
        /// Its length.
        len_bytes: u32,
        /// Its first bytes, hexadecimal.
        bytes: String,
        /// Stage that lost it.
        stage: String,
        /// Why.
        reason: String,
        /// What to do about it.
        remedy: String,
    },
    /// The engine of in-network aggregation behind the port it left by does something with it.
    Engine(Box<WatchedEngine>),
    /// More records have found no room.
    Missed {
        /// Records that found no room, since the first line.
        missed: u64,
    },
    /// The last line.
    End {
        /// Why it ends.
        why: String,
        /// Frames that were followed.
        frames: u64,
        /// Of these, still on their way.
        on_their_way: usize,
        /// Records that found no room.
        missed: u64,
    },
}

impl WatchLine {
    /// The frame it is about, if it is about one.
    pub fn frame(&self) -> Option<u64> {
        match self {
            Self::Arrived(arrival) => Some(arrival.frame),
            Self::Engine(engine) => Some(engine.frame),
            Self::Left { frame, .. } | Self::Flushed { frame, .. } | Self::Lost { frame, .. } => Some(*frame),
            Self::Armed { .. } | Self::Missed { .. } | Self::End { .. } => None,
        }
    }
}

/// What an engine does with a frame, or for it. One of the lines, with their `event`: no schema by itself.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
pub struct WatchedEngine {
    /// Which frame, from 1.
    pub frame: u64,
    /// When.
    pub at_ns: u64,
    /// Port of the engine.
    pub port: String,
    /// From the arrival of the frame until then, ns.
    pub since_ns: u64,
    /// `came`: the engine has looked at it; `folded`: the packet it contributes to is summed; `sent`: something was sent for it; `failed`: its
    /// job has, or was ended; `over`: nothing more comes of it.
    pub step: String,
    /// Of `came` what it is: `stored`, `result` (of the engine above), `operation` (names one), `end` (ends the job), `ack`, `nak`, `rnr_nak`, `cnp`,
    /// `arp`, `dropped`; of `sent` what was sent: `ack`, `nak`, `rnr_nak`, `result`, `sum` (to the engine above); of `failed` why.
    pub what: String,
    /// The job, if it is for one.
    pub job: Option<u32>,
    /// First rank of the peer it is from or that is sent to, or that is to blame; null: the engine above, or nobody.
    pub rank: Option<u16>,
    /// Queue pair of that peer.
    pub qp: Option<u32>,
    /// Queue pair of the engine that it is for.
    pub engine_qp: Option<u32>,
    /// PSN; of an answer the one it is about.
    pub psn: Option<u32>,
    /// Number of the packet that it contributes to, from the start of the job.
    pub number: Option<u64>,
    /// Slot of the window that holds it.
    pub slot: Option<u64>,
    /// First ranks of the children that packet still waits for; empty: it is complete.
    pub waits_for: Option<Vec<u16>>,
    /// Ranks in the sum, where the last packet of a message says so.
    pub ranks: Option<u16>,
    /// Why it is not used, as `/v1/inc/drops` names it; of a NAK what it says.
    pub reason: Option<String>,
    /// What that means; the operation it names.
    pub text: Option<String>,
    /// Time that an RNR NAK asks to wait, ns.
    pub wait_ns: Option<u64>,
    /// Nothing more will be told of the frame here.
    pub last: bool,
}

/// A frame that arrived. One of the lines, with their `event`: no schema by itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
pub struct WatchedArrival {
    /// Which frame, from 1.
    pub frame: u64,
    /// When.
    pub at_ns: u64,
    /// By which port.
    pub port: String,
    /// Its length.
    pub len_bytes: u32,
    /// Its first bytes, hexadecimal.
    pub bytes: String,
    /// What its headers say.
    pub parsed: WatchedHeaders,
    /// Its VLAN; 0: none; null: ports know of none.
    pub vlan: Option<u16>,
    /// Where it is put.
    pub class: FrameClass,
    /// What the forwarding table says: `port NAME`, `group N` or `unknown`.
    pub lookup: String,
    /// Bytes its group is charged, for all its copies.
    pub charge_bytes: u32,
    /// Its priority group before and after.
    pub group: WatchedGroup,
    /// Its egress queue before and after; null: not known, it goes to several ports or to one of another lcore.
    pub queue: Option<WatchedQueue>,
    /// What admission says.
    pub verdict: String,
    /// Stage that lost it, if one did.
    pub stage: Option<String>,
    /// Why.
    pub reason: Option<String>,
    /// What to do about it.
    pub remedy: Option<String>,
    /// Queues it waits in.
    pub copies: u32,
    /// Further copies, with another tag or none, which are not followed.
    pub copies_aside: u32,
}

/// What the headers of a frame say.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WatchedHeaders {
    /// Destination; null where fewer bytes were asked for.
    pub dst: Option<String>,
    /// Source.
    pub src: Option<String>,
    /// PCP of the outermost tag.
    pub pcp: Option<u8>,
    /// DSCP.
    pub dscp: Option<u8>,
    /// Traffic-class byte of an AFH header.
    pub tc: Option<u8>,
    /// ECN code point.
    pub ecn: Option<u8>,
    /// What kind of frame it is.
    pub kind: String,
    /// The IP or transport header is malformed.
    pub malformed_l3: bool,
}

/// A priority group before and after a frame.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WatchedGroup {
    /// It is the control pool.
    pub control_pool: bool,
    /// Bytes held.
    pub used_bytes: [u64; 2],
    /// Bytes held of the shared pool.
    pub shared_bytes: [u64; 2],
    /// Bytes held of headroom.
    pub headroom_bytes: [u64; 2],
    /// Shared bytes it might hold before; null: no limit.
    pub limit_bytes: Option<u64>,
    /// It has paused its peer.
    pub xoff: [bool; 2],
}

/// An egress queue before and after a frame.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WatchedQueue {
    /// Bytes held.
    pub used_bytes: [u64; 2],
    /// Bytes it might hold before; null: no limit.
    pub limit_bytes: Option<u64>,
}
