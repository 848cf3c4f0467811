//! Endpoints of a lossless fabric, sans-IO: frames and times come in, frames and deadlines go out.
//!
//! Knows no DPDK, no clock, no thread and no I/O, like the dataplane. [`roce`] is an RC transport
//! that speaks to real RNICs; [`rclink`] is the scale-up link of PAXI; [`dcqcn`] decides how fast a queue pair may send; [`traffic`] are plain
//! hosts with known frames that check what arrives.
#![forbid(unsafe_code)]

mod checksum;
pub mod dcqcn;
pub mod rclink;
pub mod roce;
pub mod traffic;
