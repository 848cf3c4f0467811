//! stats.
