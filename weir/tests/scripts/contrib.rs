//! What lies in `contrib` and is built.

use crate::{has, repository, said};
use std::process::Command;

/// The library for hosts and its Python package, on a device that is not there.
#[test]
fn the_library_for_hosts_is_built_and_its_tests_pass() {
    for program in ["make", "cc", "python3"] {
        if !has(program) {
            return;
        }
    }
    let header = "#include <infiniband/verbs.h>\n";
    let folder = tempfile::tempdir().unwrap();
    let probe = folder.path().join("probe.c");
    std::fs::write(&probe, header).unwrap();
    if !Command::new("cc").arg("-fsyntax-only").arg(&probe).output().unwrap().status.success() {
        eprintln!("skipped: libibverbs-dev is not installed");
        return;
    }
    let make = || {
        let mut make = Command::new("make");
        make.arg("-C").arg(repository().join("contrib/inc")).arg(format!("OUT={}", folder.path().display()));
        make
    };
    let said = said(make().arg("test"));
    for test in ["sums: ok", "failures: ok", "comes_back: ok", "refusals: ok"] {
        assert!(said.contains(test), "{said}");
    }
}
