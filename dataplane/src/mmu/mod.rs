//! mmu/mod.

pub mod headroom;
