//! The built program, from outside: what its command line promises, what bad input gets, and real
//! frames over real devices, made and seen by tools that are not ours.
//!
//! A test that needs root, veth or a tool that is not there prints why it is skipped.
#![forbid(unsafe_code)]

#[path = "../support/mod.rs"]
mod support;

mod admin;
mod bridge;
mod contract;
mod host;
mod hostile;
mod inc;
mod incast;
mod json;
mod kernel;
mod lacp;
mod lag;
mod lcores;
mod leftovers;
mod link_down;
mod lldp;
mod mcast;
mod memif;
mod mirror;
mod output;
mod qp;
mod ranks;
mod refused;
mod sockets;
mod storm_control;
mod stp;
mod top;
mod vlan;
