//! The ns-3 compatibility profile: the published HPCC simulator, event for event.
//!
//! Frames have sizes but no bytes. Times are cut to whole nanoseconds where the reference cuts them,
//! equal times run in the order of scheduling, and every quirk of the reference stays: see
//! [`crate::models::hpcc`] for those of the buffer, [`weir_endpoint::dcqcn::ns3`] and [`weir_endpoint::congestion`]
//! for those of the senders. Without a random draw a run agrees with the reference in every PFC frame, every rate
//! change and every completion time.
//!
//! [`sim`] is the network, [`switch`] and [`host`] what happens in a node, [`engine`] the event queue.
mod build;
pub mod cell;
pub mod config;
pub mod control;
pub mod engine;
pub mod flow;
pub mod host;
pub mod port;
pub mod record;
pub mod rng;
pub mod routing;
pub mod sim;
pub mod switch;
pub mod telemetry;
pub mod units;

#[cfg(test)]
mod tests;
