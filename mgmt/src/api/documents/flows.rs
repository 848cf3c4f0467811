//! Flows, and what they are behind.

use super::{Count, Stamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;

/// What a flow is behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum FlowCause {
    /// Marks.
    Mark,
    /// Losses.
    Drop,
    /// Pauses of the peer.
    Pause,
    /// The depth of queues.
    Depth,
}

/// What flows are counted in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FlowUnit {
    /// Frames.
    Frames,
    /// Times the peer was told to pause.
    Pauses,
    /// Bytes that wait, on average.
    MeanBytes,
}

/// An amount in a unit: an integer of frames, else a number.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum FlowAmount {
    /// Frames.
    Whole(Count),
    /// Pauses, bytes.
    Part(f64),
}

impl fmt::Display for FlowCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Mark => "mark",
            Self::Drop => "drop",
            Self::Pause => "pause",
            Self::Depth => "depth",
        })
    }
}

impl fmt::Display for FlowUnit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Frames => "frames",
            Self::Pauses => "pauses",
            Self::MeanBytes => "mean_bytes",
        })
    }
}

impl fmt::Display for FlowAmount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Whole(frames) => frames.fmt(f),
            Self::Part(amount) => amount.fmt(f),
        }
    }
}

/// A flow, and what it is behind.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FlowShare {
    /// Where it happened.
    pub port: Option<String>,
    /// What happened.
    pub cause: FlowCause,
    /// Queue; of a pause, and of a loss on arrival, priority group.
    #[schemars(range(max = 7))]
    pub priority: u8,
    /// Why frames were lost.
    pub reason: Option<String>,
    /// Port the frames came in by.
    pub from: Option<String>,
    /// All of the following in one.
    pub flow: String,
    /// Address of the IP header, or else of the frame.
    pub src: String,
    /// The same of the destination.
    pub dst: String,
    /// Of the IP header.
    pub protocol: Option<String>,
    /// Of UDP or TCP.
    pub src_port: Option<u16>,
    /// Of UDP or TCP.
    pub dst_port: Option<u16>,
    /// Destination queue pair of RoCE or RC Link.
    pub qp: Option<u32>,
    /// Of the total of port and cause, at least.
    #[schemars(range(min = 0, max = 1))]
    pub share: f64,
    /// More than `share` where there are more flows than can be kept.
    #[schemars(range(min = 0, max = 1))]
    pub share_at_most: f64,
    /// The same in `unit`.
    pub count: FlowAmount,
    /// More than `count` where there are more flows than can be kept.
    pub count_at_most: FlowAmount,
    /// What `count` counts.
    pub unit: FlowUnit,
}

/// All there was of a cause at a port.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FlowTotal {
    /// Where it happened.
    pub port: String,
    /// What happened.
    pub cause: FlowCause,
    /// All there was, exact.
    pub total: FlowAmount,
    /// What `total` counts.
    pub unit: FlowUnit,
    /// Frames of which the flow was read.
    pub looked_at: u64,
    /// Share of flows that are not kept.
    #[schemars(range(min = 0, max = 1))]
    pub other_share: f64,
    /// Share of what came after the last frame of a second that was looked at: of any flow.
    #[schemars(range(min = 0, max = 1))]
    pub unseen_share: f64,
    /// Seconds added up, the one under way included.
    pub seconds: u64,
}

/// A collector that is told of the flows by IPFIX, and what became of it since the switch was started.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FlowExported {
    /// Its address and port.
    pub collector: String,
    /// Seconds between two exports.
    pub interval_seconds: f64,
    /// Observation domain.
    pub domain: u32,
    /// Private enterprise number of the elements for which there is no standard.
    pub enterprise: u32,
    /// Messages given to the network.
    pub messages: Count,
    /// Data records in them.
    pub records: Count,
    /// Messages that could not be sent.
    pub failed_messages: Count,
    /// Data records in these.
    pub lost_records: Count,
    /// Seconds of flows that passed before management looked.
    pub missed_seconds: Count,
    /// Why a message could not be sent last; none: all is well.
    pub error: Option<String>,
}

/// Flows behind marks, losses, pauses and the depth of queues.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Flows {
    /// When.
    #[serde(flatten)]
    pub stamp: Stamp,
    /// False: `[flows] enable = false`.
    pub recorded: bool,
    /// `now`: this second and the last; `minute`.
    pub window: String,
    /// The flows, largest first, by port and cause.
    pub flows: Vec<FlowShare>,
    /// All there was, by port and cause.
    pub totals: Vec<FlowTotal>,
    /// Who is told; none: nobody is.
    pub export: Option<FlowExported>,
}
