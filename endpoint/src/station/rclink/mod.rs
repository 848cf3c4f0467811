//! A host with RC Link connections: an endpoint ([`Link`](crate::rclink::link::Link)), messages of one frame
//! each, back-off on CNPs, and a reader that may be slower than the link, so that the receive memories pause
//! their senders.

mod config;
mod host;
#[cfg(test)]
mod tests;
mod traffic;

pub use config::{PairConfig, Route, StationConfig, StationError, Stream};
pub use host::Station;
