//! mmu/mod.

pub mod hpcc;
pub mod ns3dc;
