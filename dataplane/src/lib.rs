//! The switch itself: frames and times come in, frames go out.
//!
//! Knows no DPDK, no clock, no thread and no I/O. The same value runs on a polling lcore and in
//! virtual time. Read [`switch`] first: the three verbs are the path of a frame.
#![forbid(unsafe_code)]

pub mod classify;
pub mod drops;
pub mod ecn;
pub mod egress;
pub mod explain;
pub mod fdb;
pub mod flows;
pub mod frame;
mod frame_row;
pub mod lag;
pub mod mmu;
pub mod multicast;
pub mod parse;
pub mod pfc;
pub mod portset;
mod published;
pub mod rng;
pub mod stats;
pub mod storm_control;
pub mod switch;
mod sync;
pub mod turn;
pub mod types;
pub mod vlan;
