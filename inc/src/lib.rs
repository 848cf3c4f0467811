//! In-network aggregation, sans-IO: the sums of a tree of switches for hosts that speak nothing but RoCEv2.
//!
//! Hosts send contributions over reliable connections to an engine; it folds what belongs together in rank order and sends
//! the result back, or up to the next engine of the tree. Knows no DPDK, no clock, no thread and no I/O: frames and
//! times go in, frames and deadlines come out.
//!
//! Start at [`engine::Engine`]. [`params`] says what a job is, [`immediate`] how hosts name operations and what results say
//! of themselves, [`kernels`] what exactly is computed, [`plan`] which engines sum for which hosts of a fabric.
#![deny(unsafe_code)]

mod collector;
pub mod controller;
pub mod drops;
pub mod engine;
pub mod immediate;
pub mod job;
pub mod kernels;
mod outbox;
pub mod params;
pub mod peer;
pub mod places;
pub mod plan;
pub mod reference;
pub mod remote;
pub mod rendezvous;
pub mod report;
pub mod spec;
pub mod trace;
