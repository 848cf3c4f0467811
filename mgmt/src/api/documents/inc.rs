//! Orders about jobs of in-network aggregation. The job itself is [`weir_inc::spec::JobSpec`].

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What came of an order about a job.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct JobDone {
    /// Port of its engine.
    pub port: String,
    /// Name of the job.
    pub job: u32,
    /// Bytes of the engine's memory it takes, where one was added.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<u64>,
}
