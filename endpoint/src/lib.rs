//! Endpoints of a lossless fabric, sans-IO: frames and times come in, frames and deadlines go out.
//!
//! Knows no DPDK, no clock, no thread and no I/O, like the dataplane. [`roce`] is an RC transport
//! that speaks to real RNICs; [`rclink`] is the scale-up link of PAXI; [`flow`] are RC flows of headers only, for fabrics; the
//! reliable connection of all three is [`rc`]. [`dcqcn`] decides how fast a queue pair may send, [`congestion`] has the other
//! algorithms and the trait of all; [`station`] is a host with queue pairs, DCQCN and checked traffic, for real ports;
//! [`traffic`] are plain hosts with known frames that check what arrives.
#![deny(unsafe_code)]

mod checksum;
pub mod congestion;
pub mod dcqcn;
pub mod flow;
pub mod rc;
pub mod rclink;
pub mod roce;
mod starts;
pub mod station;
mod timetable;
pub mod traffic;
