//! What a switch that runs may do no longer, and what one that has ended leaves.

use crate::host::{Host, port};
use crate::support::program::{Running, WEIR, floating, turn};
use crate::support::wait_for;
use nix::sys::signal::Signal;
use std::path::{Path, PathBuf};
use std::process::Command;

const RING: &str =
    "[[port]]\nname = \"p0\"\ndevice = \"ring\"\nrate = \"1G\"\n[buffer]\nsize = \"1MiB\"\nframes = 2048\n";

/// The rights of a unit, CAP_NET_ADMIN, CAP_NET_RAW, CAP_IPC_LOCK and CAP_SYS_NICE.
const KEPT: u64 = 1 << 12 | 1 << 13 | 1 << 14 | 1 << 23;

/// Of each thread the capabilities it has and may get, and whether it may get more.
fn threads(process: u32) -> Vec<(u64, u64, String)> {
    let tasks = std::fs::read_dir(format!("/proc/{process}/task")).unwrap();
    let status = tasks.filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("status")).ok());
    status
        .map(|status| {
            let value =
                |key: &str| status.lines().find_map(|line| line.strip_prefix(key)).unwrap().trim().to_owned();
            let mask = |key: &str| u64::from_str_radix(&value(key), 16).unwrap();
            (mask("CapPrm:"), mask("CapBnd:"), value("NoNewPrivs:"))
        })
        .collect()
}

fn has_given_up((held, bounds, no_new): &(u64, u64, String)) -> bool {
    let root = nix::unistd::geteuid().is_root();
    held & !KEPT == 0 && no_new == "1" && (!root || bounds & !KEPT == 0)
}

/// They are told after their devices are open, and give up before they tell the first numbers.
#[test]
fn labs_and_hosts_that_run_have_given_them_up_too() {
    let folder = tempfile::tempdir().unwrap();
    let _turn = turn();
    let lab = Running::start(Command::new(WEIR).arg(floating()).args(["--", "lab", "--for", "60s"]));
    let rest = port(1, "net_null0") + "[[qp]]\npeer_ip = \"10.0.0.2\"\npeer_qpn = 17\nexpect = 1\n";
    let host = Host::start(Command::new(WEIR), folder.path(), "rights", &rest).program;
    for program in [lab, host] {
        wait_for("less rights", || {
            let all = threads(program.id());
            (all.len() >= 3 && all.iter().all(has_given_up)).then_some(())
        });
        program.stop(Signal::SIGTERM);
    }
}

#[test]
fn a_switch_that_runs_has_given_up_the_rights_it_does_not_need() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("switch.toml");
    std::fs::write(&file, format!("[eal]\nargs = [{:?}]\n{RING}", floating())).unwrap();
    let _turn = turn();
    let mut program = Running::start(Command::new(WEIR).arg("run").arg(&file).args(["--log", "text"]));
    program.says("switch ");
    let all = threads(program.id());
    // Main thread, main lcore, worker, management at least.
    assert!(all.len() >= 4 && all.iter().all(has_given_up), "{all:?}");
    // It reads its file again all the same, and ends well.
    program.signal(Signal::SIGHUP);
    wait_for("the reload", || program.stderr().contains("reload").then_some(()));
    let ended = program.stop(Signal::SIGTERM);
    assert_eq!(ended.code(), Some(0), "{ended:?}");
}

/// Where DPDK keeps its files of a run.
fn files_of(parent: &Path, prefix: &str) -> PathBuf {
    parent.join("dpdk").join(prefix)
}

/// With a name of its own or without, by itself or by a signal, refused or not: nothing is left of DPDK's files.
#[test]
fn the_folder_of_a_run_that_has_ended_is_removed() {
    let folder = tempfile::tempdir().unwrap();
    let (file, parent) = (folder.path().join("switch.toml"), folder.path().join("run"));
    std::fs::create_dir(&parent).unwrap();
    std::fs::write(&file, RING).unwrap();
    let _turn = turn();
    for prefix in ["leaf1", "weir-of-its-own"] {
        for (more, code) in [(&["--for", "50ms"][..], 0), (&["--for", "0ms", "--summary", "/proc/none/s"], 2)]
        {
            let mut command = Command::new(WEIR);
            command.env("RUNTIME_DIRECTORY", &parent).arg(format!("--file-prefix={prefix}")).arg(floating());
            let ended = Running::start(command.args(["--", "run"]).arg(&file).args(more)).ended();
            assert_eq!(ended.code(), Some(code), "{ended:?}");
            assert!(!files_of(&parent, prefix).exists(), "{prefix}");
        }
    }
    // Of one that was killed they stay, and the next one of that name takes them away.
    let start = || {
        let file_prefix = ["--file-prefix".to_owned(), "killed".to_owned(), floating()];
        let mut command = Command::new(WEIR);
        command.env("RUNTIME_DIRECTORY", &parent).args(file_prefix).args(["--", "run"]).arg(&file);
        let mut program = Running::start(&mut command);
        program.says("switch ");
        program
    };
    start().stop(Signal::SIGKILL);
    assert!(files_of(&parent, "killed").exists());
    let ended = start().stop(Signal::SIGTERM);
    assert_eq!(ended.code(), Some(0), "{ended:?}");
    assert!(!files_of(&parent, "killed").exists());
}
