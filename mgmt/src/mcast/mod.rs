//! IGMP and MLD snooping (RFC 4541): who has joined which multicast groups, and who asks. Nothing here knows a wire or a clock; `weir run`
//! brings frames and time, and takes what is found to the tables of the switch.

pub mod agent;
mod events;
pub mod frame;
pub mod route;
pub mod settings;
pub mod vlan;

pub use agent::{Agent, Asker, McastReading, Told};
pub(crate) use events::{Told as Events, observe};
pub use settings::Settings;

#[cfg(test)]
pub(crate) mod fake;
