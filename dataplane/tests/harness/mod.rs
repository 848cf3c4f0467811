//! The laboratory of the scenario tests: frames, switches, links with rate and delay, and testers that send,
//! count and obey PFC, all in virtual time.
//!
//! [`Bench`] drives one switch by hand, frame by frame, for scenarios without time. [`Lab`] is an event queue in
//! whole nanoseconds over switches, links and testers. [`oracle`] holds the closed forms results are compared
//! with; it shares no code with the switch.
#![allow(dead_code, unused_imports)]

mod alone;
mod bench;
mod build;
pub mod frames;
mod lab;
pub mod oracle;
mod tester;

pub use alone::Alone;
pub use bench::{Bench, Block};
pub use build::{G, Plan, TEST_DSCP_OF_PRIORITY, classifier_of, dscp};
pub use lab::{End, Lab, audit_mmu};
pub use tester::{Flow, Rx, Storm, Tester};

/// Seed of everything random in a test: `WEIR_SEED`, or the given default. Printed, so that a failure can be repeated.
pub fn seed(default: u64) -> u64 {
    let seed = std::env::var("WEIR_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(default);
    println!("repeat with WEIR_SEED={seed}");
    seed
}
