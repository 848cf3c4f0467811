//! LACP (802.1AX clause 6): which links of a LAG lead to one partner that takes frames by them. Nothing here knows a wire or a clock;
//! `weir run` brings frames and time.

pub mod agent;
mod events;
pub mod frame;
pub mod group;
pub mod port;
pub mod settings;

pub use agent::{Agent, LacpReading, MemberReading};
pub(crate) use events::{Told, observe};
pub use frame::{Lacpdu, Malformed, PortInfo, Slow, State, SystemId};
pub use group::{Group, GroupSettings, Why};
pub use port::{Mux, Port, PortSettings, Receive};
pub use settings::Settings;

#[cfg(test)]
mod converge_tests;
#[cfg(test)]
pub(crate) mod fake;
