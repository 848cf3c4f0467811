//! What is played: frames, or flows as rates.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What is played: the level of abstraction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// Every frame.
    #[default]
    Packet,
    /// Flows as rates that are max-min fair at any time: no queues, no marks, no pauses, no losses.
    Flow,
}

impl Level {
    /// Frames are played.
    pub fn is_packet(&self) -> bool {
        *self == Self::Packet
    }
}
