//! mmu/mod.
