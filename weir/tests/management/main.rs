//! A running switch is looked at from all sides: over HTTP, in a browser, with DPDK's tools, by a service manager.
//!
//! A test that needs root, hugepages or a tool that is not there prints why it is skipped.
#![forbid(unsafe_code)]

#[path = "../support/mod.rs"]
#[allow(dead_code, unused_imports, unused_macros)]
mod support;

#[path = "../support/running.rs"]
#[allow(dead_code)]
mod running;

mod access;
mod browser;
mod controller;
mod fdb;
mod flows;
mod lab;
mod pauses;
mod pictures;
mod service;
mod sonic;
mod tools;
