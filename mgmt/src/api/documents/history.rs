//! The last minute.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The last minute in steps. Each list has one value per step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct History {
    /// Name of the switch.
    pub switch_name: String,
    /// Length of a step, ms.
    pub step_ms: u64,
    /// Steps kept.
    pub kept: u64,
    /// When each step ended, ms since 1970.
    pub unix_ms: Vec<u64>,
    /// When each step ended, ms of uptime.
    pub uptime_ms: Vec<u64>,
    /// Bytes used of the shared pool.
    pub shared_used: Vec<u64>,
    /// Bytes used of the headroom pool.
    pub headroom_used: Vec<u64>,
    /// Ports and priorities in which something happened.
    pub lanes: Vec<HistoryLane>,
    /// Time inside by priority and part.
    pub latency: Vec<HistoryLatency>,
}

/// A port and priority over the last minute.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HistoryLane {
    /// Port.
    pub port: String,
    /// Priority, queue and priority group.
    #[schemars(range(max = 7))]
    pub priority: u8,
    /// Bytes in the egress queue.
    pub depth: Vec<Option<u32>>,
    /// Bytes of the shared pool the group holds.
    pub shared: Vec<Option<u32>>,
    /// Bytes of headroom it holds.
    pub headroom: Vec<Option<u32>>,
    /// Bytes at which it sends Xoff; null: no limit.
    pub xoff: Vec<Option<u32>>,
    /// Bytes at which it sends Xon; null: no limit.
    pub xon: Vec<Option<u32>>,
    /// Frames that left.
    pub packets: Vec<u32>,
    /// Frames selected for marking.
    pub selected: Vec<u32>,
    /// Share of the step in which the peer paused us; absent: never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rx_paused: Option<Vec<f64>>,
    /// Share of the step in which we paused the peer; absent: never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tx_paused: Option<Vec<f64>>,
    /// Why we paused it: a word, and port and queue where it was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<Vec<Option<Vec<WordOrNumber>>>>,
}

/// A text or an integer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum WordOrNumber {
    /// A text.
    Word(String),
    /// An integer.
    Number(u64),
}

/// Time inside over the last minute.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HistoryLatency {
    /// Of which priority.
    #[schemars(range(max = 7))]
    pub priority: u8,
    /// `residence`, `queueing` or `pause`.
    pub part: String,
    /// Bounds of the buckets, ns: one more than there are buckets.
    pub bounds_ns: Vec<u64>,
    /// Frames per bucket that has any, as pairs of bucket and frames.
    pub frames: Vec<Vec<[u64; 2]>>,
    /// Median, ns; null: no frames.
    pub p50_ns: Vec<Option<u64>>,
    /// 99 %, ns.
    pub p99_ns: Vec<Option<u64>>,
    /// 99.9 %, ns.
    pub p999_ns: Vec<Option<u64>>,
    /// Longest, ns.
    pub max_ns: Vec<Option<u64>>,
}
