//! config/mod.
