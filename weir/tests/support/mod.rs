//! What the black-box tests stand on: the built program as a child, network namespaces of their own,
//! frames on files and wires.
//!
//! Everything here is bounded in time and cleans up on drop. No wait is for a time: each is for an
//! event, and [`PATIENCE`] only ends a test that would never end.

pub mod frames;
pub mod hosts;
pub mod namespace;
pub mod program;
pub mod wire;

use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

/// How long an event may take on a machine that is busy with other things.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// Ends the test early, with the reason printed, where the machine lacks something it needs.
macro_rules! need {
    ($what:expr) => {
        match $what {
            Ok(there) => there,
            Err(why) => {
                eprintln!("skipped: {why}");
                return;
            }
        }
    };
}
pub(crate) use need;

/// Looks until there is something to see.
///
/// # Panics
/// After [`PATIENCE`], with what was waited for.
pub fn wait_for<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(seen) = look() {
            return seen;
        }
        assert!(Instant::now() < deadline, "waited {PATIENCE:?} in vain for {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Where the first of these tools is that is installed.
pub fn tool(names: &[&str]) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders: Vec<PathBuf> = std::env::split_paths(&path).chain(["/usr/sbin".into()]).collect();
    names.iter().flat_map(|name| folders.iter().map(move |dir| dir.join(name))).find(|path| path.is_file())
}

/// The tools are installed.
pub fn tools(names: &[&str]) -> Result<(), String> {
    match names.iter().find(|name| tool(&[name]).is_none()) {
        Some(name) => Err(format!("{name} is not installed")),
        None => Ok(()),
    }
}

/// Runs a tool to its end.
///
/// # Panics
/// It failed: with what it said.
pub fn run(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|e| panic!("{command:?}: {e}"));
    assert!(
        output.status.success(),
        "{command:?}: {}\n{}{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8_lossy(&output.stdout).into_owned()
}
