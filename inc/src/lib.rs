//! In-network aggregation, sans-IO: the sums of a tree of switches for hosts that speak nothing but RoCEv2.
//!
//! Hosts send contributions over reliable connections to an engine; it folds what belongs together in rank order and sends
//! the result back, or up to the next engine of the tree. Knows no DPDK, no clock, no thread and no I/O: frames and
//! times go in, frames and deadlines come out. [`kernels`] does the arithmetic.
#![deny(unsafe_code)]

pub mod kernels;
