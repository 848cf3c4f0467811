//! Replay of logged behaviour of published models against weir's re-creations of them.
pub mod scenarios;
