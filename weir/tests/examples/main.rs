//! What is shown is started: every file of `configs/`, every TOML block and every command line of README and docs, every
//! preset of `weir lab` with each of its options.
//!
//! Each runs for a moment, in a folder of its own, with what a machine may not have replaced by what it has: see
//! [`place::SUBSTITUTES`].
#![forbid(unsafe_code)]

#[path = "../support/mod.rs"]
#[allow(dead_code, unused_imports, unused_macros)]
mod support;

mod blocks;
mod commands;
mod files;
mod lab;
mod place;
mod readme;
mod recipes;
