//! Endpoints of a lossless fabric, sans-IO: frames and times come in, frames and deadlines go out.
//!
//! Knows no DPDK, no clock, no thread and no I/O, like the dataplane. [`roce`] is an RC transport
//! that speaks to real RNICs; [`dcqcn`] decides how fast a queue pair may send.
#![forbid(unsafe_code)]

pub mod dcqcn;
pub mod roce;
