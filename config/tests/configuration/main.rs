//! Files as people write them: what is made of them, what is refused, what each key does.
//!
//! One program: to link each part for itself takes longer than to run it.

#[path = "../../../dataplane/tests/harness/mod.rs"]
mod harness;

mod apply;
mod configured;
mod explain;
mod flows;
mod host_keys;
mod input_memories;
mod keys;
mod lag;
mod lldp;
mod mcast_snooping;
mod memory;
mod mirror;
mod mutate;
mod order;
mod response;
mod sonic;
mod sonic_damaged;
mod sonic_keys;
mod sonic_left_out;
mod sonic_platforms;
mod sonic_round_trip;
mod sonic_vlan;
mod storm_control;
mod vlan;
mod walk;
