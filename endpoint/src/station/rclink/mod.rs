//! A host with RC Link connections: an endpoint ([`Endpoint`](crate::rclink::endpoint::Endpoint)), messages of one frame
//! each, back-off on CNPs, and a reader that may be slower than the link, so that the receive memories pause
//! their senders.

mod config;
mod host;
#[cfg(test)]
mod tests;
mod traffic;

pub use config::{PairConfig, Route, StationConfig, StationError, Stream};
pub use host::Station;
