//! mmu/mod.

pub mod hpcc;
