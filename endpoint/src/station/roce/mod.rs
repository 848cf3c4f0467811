//! A host with RoCEv2 queue pairs: an adapter ([`Hca`](crate::roce::hca::Hca)), ARP, and DCQCN per queue pair.

pub mod arp;
mod config;
mod echo;
mod host;
mod rank;
#[cfg(test)]
mod tests;
mod traffic;

pub use config::{Operation, PairConfig, Peer, Rate, Remote, SLOTS, StationConfig, StationError, Stream};
pub use host::{Change, OrderError, Station};
pub use rank::{Collective, Ended, Judgement, Results};
