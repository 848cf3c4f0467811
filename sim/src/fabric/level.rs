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
    /// Every frame of flows that pass a congested link, the others as rates.
    Hybrid,
}

impl Level {
    /// All frames are played.
    pub fn is_packet(&self) -> bool {
        *self == Self::Packet
    }

    /// Some frames are played: there are queues, marks and pauses.
    pub fn has_frames(&self) -> bool {
        *self != Self::Flow
    }

    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Packet => "packet",
            Self::Flow => "flow",
            Self::Hybrid => "hybrid",
        }
    }
}
