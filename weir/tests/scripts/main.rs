//! The scripts of the repository: what they ask for, what they install, and the unit that is among it.

mod api;
mod contrib;
mod install;
mod need;
mod unit;

#[path = "../support/mod.rs"]
#[allow(dead_code, unused_imports, unused_macros)]
mod support;

#[path = "../support/running.rs"]
#[allow(dead_code)]
mod running;

use std::path::Path;
use support::program::WEIR;
use support::run as said;

/// The folder of the repository.
fn repository() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
}

/// Says why the test ends here if a program is not there.
fn has(program: &str) -> bool {
    let there = support::tools(&[program]);
    if let Err(why) = &there {
        eprintln!("skipped: {why}");
    }
    there.is_ok()
}
