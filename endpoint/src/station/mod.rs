//! A host with RoCEv2 queue pairs and traffic of its own, without I/O: what stands behind `weir host` and the
//! hosts of `weir lab`.
//!
//! A [`Station`] is an adapter ([`Hca`](crate::roce::hca::Hca)) with what a host adds to it: ARP, a link of a
//! given rate, obedience to PFC by priority, DCQCN per queue pair, messages to send whose content says who
//! sent them and which one they are, and the check of every message received. Frames and times in, frames and
//! times out; the same station runs on DPDK ports and in virtual time.

mod arp;
mod config;
mod host;
mod pattern;
mod report;
#[cfg(test)]
mod tests;
mod traffic;

pub use config::{
    Dcqcn, MIN_MESSAGE, Operation, PairConfig, Peer, Rate, Remote, SLOTS, StationConfig, StationError, Stream,
};
pub use host::Station;
pub use report::{PairReport, Progress, StationReport};
