//! The unit: systemd takes it, its score is the one the documents state, and what it forbids a switch does not do.

use crate::install::installed;
use crate::{WEIR, has, repository, said};
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::Command;
use tempfile::TempDir;

/// The unit beside the program it starts, which systemd looks for.
fn unit() -> (TempDir, PathBuf) {
    let root = installed("/usr");
    let path = root.path().join("usr/lib/systemd/system/weir@.service");
    let text = std::fs::read_to_string(&path).unwrap();
    let program = root.path().join("usr/bin/weir");
    std::fs::write(&path, text.replace("/usr/bin/weir", program.to_str().unwrap())).unwrap();
    (root, path)
}

#[test]
fn systemd_finds_no_fault_in_the_unit() {
    if !has("systemd-analyze") {
        return;
    }
    let (_root, unit) = unit();
    let output = Command::new("systemd-analyze").args(["verify", "--man=no"]).arg(&unit).output().unwrap();
    // Of the unit; what this machine lacks (a mount, a unit that is wanted) is its own matter.
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    let faults: Vec<&str> = told.lines().filter(|line| line.contains("weir@")).collect();
    assert!(output.status.success() && faults.is_empty(), "{told}");
}

#[test]
fn the_scores_of_the_unit_are_those_that_are_stated() {
    if !has("systemd-analyze") {
        return;
    }
    let (root, unit) = unit();
    let stated = include_str!("../../../docs/install.md");
    // Others weigh a little differently.
    let exactly = said(Command::new("systemd-analyze").arg("--version")).starts_with("systemd 252 ");
    for (drop_in, names, most) in [
        (None, "exposure level", 3.0),
        (Some("user.conf"), "systemd/user.conf", 2.5),
        (Some("uio.conf"), "systemd/uio.conf", 4.0),
    ] {
        let beside = unit.with_file_name("weir@.service.d");
        let _ = std::fs::remove_dir_all(&beside);
        if let Some(name) = drop_in {
            std::fs::create_dir(&beside).unwrap();
            std::fs::copy(root.path().join("usr/share/weir/systemd").join(name), beside.join(name)).unwrap();
        }
        let asked = ["security", "--offline=true", "--no-pager"];
        let table = said(Command::new("systemd-analyze").args(asked).arg(&unit));
        let line = table.lines().find(|line| line.contains("Overall exposure level")).expect(&table);
        let score = line.split(": ").nth(1).and_then(|rest| rest.split(' ').next()).expect(line);
        assert!(score.parse::<f64>().unwrap() < most, "{line}");
        let stated = stated.lines().find(|line| line.contains(names)).expect(names);
        assert!(!exactly || stated.contains(&format!("**{score}**")), "{score}: {stated}");
    }
}

/// System calls of a set of systemd, with the sets it holds.
fn set(name: &str) -> BTreeSet<String> {
    let text = said(Command::new("systemd-analyze").args(["syscall-filter", "--no-pager", name]));
    let mut calls = BTreeSet::new();
    for word in text.lines().skip(1).map(str::trim).filter(|word| !word.is_empty() && !word.starts_with('#'))
    {
        match word.starts_with('@') {
            true => calls.extend(set(word)),
            false => drop(calls.insert(word.to_owned())),
        }
    }
    calls
}

/// What the unit lets a process call.
fn allowed(unit: &str) -> BTreeSet<String> {
    let mut calls = BTreeSet::new();
    for filter in unit.lines().filter_map(|line| line.strip_prefix("SystemCallFilter=")) {
        let (without, names) = filter.strip_prefix('~').map_or((false, filter), |names| (true, names));
        for name in names.split_whitespace() {
            match without {
                true => calls = &calls - &set(name),
                false => calls.extend(set(name)),
            }
        }
    }
    calls
}

/// From start to end, with management asked by its own client; the ports are what needs no rights.
#[test]
fn a_switch_does_not_call_what_the_unit_forbids() {
    if !(has("systemd-analyze") && has("strace") && has("setpriv")) {
        return;
    }
    let unit = std::fs::read_to_string(repository().join("contrib/systemd/weir@.service")).unwrap();
    let allowed = allowed(&unit);
    assert!(allowed.contains("epoll_wait") && !allowed.contains("init_module"), "{allowed:?}");
    let folder = tempfile::tempdir().unwrap();
    let (config, calls) = (folder.path().join("switch.toml"), folder.path().join("calls"));
    std::fs::write(
        &config,
        "[buffer]\nsize = \"2MiB\"\nframes = 4096\n[port_defaults]\nrate = \"1G\"\nmtu = 1518\n\
         [[port]]\nname = \"a\"\ndevice = \"net_null0\"\n[[port]]\nname = \"b\"\ndevice = \"ring\"\n[mgmt]\nlisten = \"127.0.0.1:0\"\n",
    )
    .unwrap();
    // With the rights of the unit, so that there are none to give up.
    let mut traced = Command::new("setpriv");
    traced.arg("--no-new-privs");
    if nix::unistd::geteuid().is_root() {
        let kept = unit.lines().find_map(|line| line.strip_prefix("CapabilityBoundingSet=")).unwrap();
        let kept = kept.split_whitespace().map(|name| format!(",+{}", name["CAP_".len()..].to_lowercase()));
        traced.arg(format!("--bounding-set=-all{}", kept.collect::<String>()));
    }
    traced.args(["strace", "-f", "-qq", "-c", "-U", "name", "-o"]).arg(&calls);
    traced.arg(WEIR).arg("run").arg(&config).args(["--for", "1s", "--log", "text"]);
    let output = traced.env("XDG_RUNTIME_DIR", folder.path()).output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    if told.contains("Operation not permitted") && told.contains("ptrace") {
        eprintln!("skipped: this machine lets nobody trace");
        return;
    }
    assert!(output.status.success(), "{told}");
    let calls = std::fs::read_to_string(calls).unwrap();
    let is_name =
        |line: &&str| line.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_');
    let calls: BTreeSet<String> =
        calls.lines().map(str::trim).filter(|l| !l.is_empty()).filter(is_name).map(str::to_owned).collect();
    assert!(calls.contains("mmap") && calls.contains("bind"), "{calls:?}");
    // Head and foot of the table; and what DPDK tries and does without, as it does for everybody but root.
    let beside = ["syscall", "total", "iopl"];
    let forbidden: Vec<_> =
        calls.difference(&allowed).filter(|call| !beside.contains(&call.as_str())).collect();
    assert!(forbidden.is_empty(), "SystemCallFilter of the unit forbids {forbidden:?}");
}
