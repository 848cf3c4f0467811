//! LLDP with DCBX (802.1AB, 802.1Q annex D): who is at the other end of each link, whether its PFC, ETS and frame size fit ours, and
//! what it is told of us. Nothing here knows a wire or a clock; `weir run` brings frames and time.

pub mod agent;
pub mod dcbx;
pub mod differences;
mod document;
mod events;
pub mod frame;
pub mod settings;

pub use agent::{Agent, LldpReading};
pub use differences::Differences;
pub use document::document;
pub(crate) use document::{PARAMETERS, Query};
pub(crate) use events::{Told, observe};
pub use frame::Malformed;
pub use settings::Settings;

use weir_dataplane::types::PRIORITIES;

/// Numbers of the priorities in a mask.
fn priorities(mask: u8) -> Vec<usize> {
    (0..PRIORITIES).filter(|priority| mask >> priority & 1 == 1).collect()
}

/// Where all of it is shown.
pub const PATH: &str = "/v1/lldp";

#[cfg(test)]
pub(crate) mod fake;
