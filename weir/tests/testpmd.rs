//! The program beside DPDK's testpmd, another process on shared memory: `testpmd-scenarios/`.

use std::path::Path;
use std::process::Command;
use std::sync::{Mutex, PoisonError};

/// Every scenario polls with several threads: one after the other.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// What a `run` script ends with where it cannot run.
const SKIPPED: i32 = 77;

fn folder() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../testpmd-scenarios"))
}

fn passes(name: &str) {
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let run = folder().join(name).join("run");
    let output = Command::new(&run)
        .env("WEIR", env!("CARGO_BIN_EXE_weir"))
        .output()
        .unwrap_or_else(|e| panic!("{}: {e}", run.display()));
    let text = String::from_utf8_lossy(&output.stdout);
    print!("{text}");
    if output.status.code() != Some(SKIPPED) {
        assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    }
}

macro_rules! scenarios {
    ($($test:ident: $name:literal;)+) => {
        $(#[test] fn $test() { passes($name); })+

        #[test]
        fn every_scenario_has_its_test() {
            let folders = std::fs::read_dir(folder()).unwrap().map(Result::unwrap);
            let names = folders.filter(|f| f.path().is_dir()).map(|f| f.file_name().into_string().unwrap());
            let mut names: Vec<String> = names.collect();
            names.sort();
            assert_eq!(names, [$($name),+]);
        }
    };
}

scenarios! {
    l2_forward: "l2-forward";
    d1_pfc_pause: "pfc-pause";
}
