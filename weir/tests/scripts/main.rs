//! The scripts of the repository: what they ask for, what they install, and the unit that is among it.

mod api;
mod contrib;
mod install;
mod need;
mod unit;

use std::path::Path;
use std::process::Command;

/// The folder of the repository.
fn repository() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
}

const WEIR: &str = env!("CARGO_BIN_EXE_weir");

/// Says why the test ends here if a program is not there.
fn has(program: &str) -> bool {
    let folders = std::env::var_os("PATH").unwrap_or_default();
    let there = std::env::split_paths(&folders).any(|folder| folder.join(program).is_file());
    if !there {
        eprintln!("skipped: {program} is not installed");
    }
    there
}

/// What a command that ends well says.
fn said(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(
        output.status.success(),
        "{command:?}: {}{}{}",
        output.status,
        text(&output.stdout),
        text(&output.stderr)
    );
    text(&output.stdout)
}
