//! What scripts rely on: exit codes, signals, the summary, EAL arguments.

use crate::support::frames::{plain, write_pcap};
use crate::support::program::{Ended, Running, Summary, Switch, WEIR, floating, turn, weir};
use crate::support::wait_for;
use nix::sys::signal::Signal;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use weir_dataplane::types::Mac;

/// Two in-process ports: no root, no device.
const TWO_RINGS: &str = r#"
[buffer]
size = "2MiB"
frames = 4096
[port_defaults]
rate = "1G"
mtu = 1518
[[port]]
name = "left"
device = "ring"
[[port]]
name = "right"
device = "ring"
"#;

fn write(folder: &Path, eal: &str, rest: &str) -> PathBuf {
    let file = folder.join("switch.toml");
    std::fs::write(&file, format!("[eal]\nargs = [{eal}]\n{rest}")).unwrap();
    file
}

/// `weir run FILE --for 100ms` with more arguments, to its end.
fn short_run(file: &Path, more: &[&str]) -> Ended {
    let _turn = turn();
    Running::start(Command::new(WEIR).arg("run").arg(file).args(["--for", "100ms"]).args(more)).ended()
}

#[test]
fn the_summary_has_the_promised_keys() {
    let summary = Switch::start(TWO_RINGS).stop().0;
    let keys = |value: &serde_json::Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    for key in ["ports", "drops", "held", "conservation_error", "latency_ns", "seconds"] {
        assert!(keys(&summary).contains(&key.to_owned()), "{key} of {summary:#}");
    }
    let ports = summary["ports"].as_array().unwrap();
    let names: Vec<_> = ports.iter().map(|port| port["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["left", "right"]);
    for port in ports {
        for key in ["rx_packets", "tx_packets", "rx_bytes", "tx_bytes"] {
            assert_eq!(port[key].as_u64(), Some(0), "{key} of {port:#}");
        }
    }
    let mut quantiles = keys(&summary["latency_ns"]);
    quantiles.sort();
    assert_eq!(quantiles, ["max", "p50", "p99", "p999"]);
    assert!(summary["seconds"].as_f64().unwrap() > 0.0);
    assert!(
        summary["held"].is_u64() && summary["conservation_error"].is_i64() && summary["drops"].is_object()
    );
}

#[test]
fn both_polite_signals_stop_a_run_and_print_totals() {
    for signal in [Signal::SIGINT, Signal::SIGTERM] {
        let mut switch = Switch::start(TWO_RINGS);
        switch.program().signal(signal);
        let summary = switch.ended();
        assert_eq!(summary.code(), Some(0), "{signal}: {}", summary.stderr);
        assert!(summary.stdout.contains("conservation: received 0"), "{}", summary.stdout);
    }
}

/// Between the first signal and the end a run drains; whoever cannot wait sends another one.
#[test]
fn a_second_signal_kills() {
    let folder = tempfile::tempdir().unwrap();
    let frames: Vec<_> =
        (0..500).map(|seed| plain(Mac([2, 0, 0, 0, 0, 1]), Mac([2, 0, 0, 0, 0, 2]), 1500, seed)).collect();
    let input = folder.path().join("in.pcap");
    write_pcap(&input, &frames, 1);
    // 500 frames of 1500 bytes take six seconds: a drain lasts as long as it may.
    let rest = TWO_RINGS
        .replacen("device = \"ring\"", &format!("device = \"net_pcap0,rx_pcap={}\"", input.display()), 1)
        .replace("rate = \"1G\"", "rate = \"1M\"");
    let file = write(folder.path(), &format!("{:?}", floating()), &rest);
    let _turn = turn();
    let mut program = Running::start(Command::new(WEIR).arg("run").arg(&file));
    program.says("switch ");
    program.signal(Signal::SIGINT);
    while !program.has_ended() {
        program.signal(Signal::SIGTERM);
        std::thread::sleep(Duration::from_millis(20));
    }
    let ended = program.ended();
    let by = ended.status.signal();
    assert!(by == Some(Signal::SIGINT as i32) || by == Some(Signal::SIGTERM as i32), "{ended:?}");
}

/// A signal at any moment: whatever the program is doing, it ends by itself and says nothing of a panic.
#[test]
fn an_early_signal_ends_a_run_too() {
    let folder = tempfile::tempdir().unwrap();
    let file = write(folder.path(), &format!("{:?}, \"--file-prefix=weir-early\"", floating()), TWO_RINGS);
    let _turn = turn();
    for delay in [0, 2, 5, 10, 20, 40, 80, 160] {
        let program = Running::start(Command::new(WEIR).arg("run").arg(&file));
        std::thread::sleep(Duration::from_millis(delay));
        let ended = program.stop(Signal::SIGTERM);
        // SIGTERM, since a shell starts its background jobs with SIGINT ignored. Before the handlers stand, the signal itself ends it: nothing has been started then.
        let by_signal = ended.status.signal() == Some(Signal::SIGTERM as i32) && ended.stdout.is_empty();
        assert!(by_signal || ended.code() == Some(0), "after {delay} ms: {ended:?}");
        assert!(!ended.stderr.contains("panic"), "after {delay} ms: {}", ended.stderr);
    }
}

/// Who reloads a switch that is still starting does not end it: it reads its file again when it runs.
#[test]
fn an_early_reload_waits_for_the_switch() {
    let folder = tempfile::tempdir().unwrap();
    let file = write(folder.path(), &format!("{:?}, \"--file-prefix=weir-reload\"", floating()), TWO_RINGS);
    let (_turn, file) = (turn(), file.to_str().unwrap());
    for command in ["run", "lab"] {
        let mut program = Running::start(Command::new(WEIR).args([command, file, "--log", "text"]));
        // From the moment it would end well by SIGTERM.
        let catches = || {
            let status = std::fs::read_to_string(format!("/proc/{}/status", program.id())).unwrap();
            let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap().trim();
            u64::from_str_radix(caught, 16).unwrap() >> (Signal::SIGTERM as u32 - 1) & 1 == 1
        };
        while !catches() {
            std::thread::yield_now();
        }
        program.signal(Signal::SIGHUP);
        program.says("switch ");
        wait_for("the reload", || program.stderr().contains("reload").then_some(()));
        let ended = program.stop(Signal::SIGTERM);
        // A lab that ends at once has delivered no message.
        assert!(ended.code().is_some(), "{command}: {ended:?}");
    }
}

#[test]
fn eal_arguments_come_from_both_sides() {
    let folder = tempfile::tempdir().unwrap();
    let rest = TWO_RINGS.replacen("device = \"ring\"", "device = \"net_null0\"", 1);
    let file = write(folder.path(), "\"--vdev=net_null0\"", &rest);
    let _turn = turn();
    let run = |before: &[&str]| {
        let mut command = Command::new(WEIR);
        Running::start(command.args(before).arg("run").arg(&file).args(["--for", "50ms"])).ended()
    };
    // One lcore is the main one: nobody is left to work.
    let refused = run(&["--lcores=0@0", "--"]);
    assert_eq!(refused.code(), Some(2), "{refused:?}");
    assert!(refused.stderr.contains("no worker lcore"), "{}", refused.stderr);
    let lcores = floating();
    let started = run(&[&lcores, "--"]);
    assert_eq!(started.code(), Some(0), "{started:?}");
    assert!(started.stdout.contains("net_null"), "{}", started.stdout);
}

#[test]
fn a_full_disk_is_an_error_after_the_totals() {
    let folder = tempfile::tempdir().unwrap();
    let file = write(folder.path(), &format!("{:?}", floating()), TWO_RINGS);
    // Where none can be made at all is known before.
    for (target, after) in
        [("/dev/full", true), ("/nowhere/summary.json", false), ("/proc/summary.json", false)]
    {
        let ended = short_run(&file, &["--summary", target]);
        assert_eq!(ended.stdout.contains("conservation:"), after, "{target}: {}", ended.stdout);
        assert!(ended.stderr.contains(target), "{target}: {}", ended.stderr);
        assert!(ended.code().is_some_and(|code| code != 0), "{target}: {ended:?}");
    }
    assert!(std::fs::metadata("/dev/full").is_ok_and(|meta| !meta.is_file()), "the device is still one");
}

#[test]
fn a_summary_may_go_where_no_file_can_be_renamed_to() {
    let folder = tempfile::tempdir().unwrap();
    let file = write(folder.path(), &format!("{:?}", floating()), TWO_RINGS);
    let old = folder.path().join("summary.json");
    std::fs::write(&old, "an older one").unwrap();
    assert_eq!(short_run(&file, &["--summary", old.to_str().unwrap()]).code(), Some(0));
    assert_eq!(Summary::read(&old).total("held"), 0);
    let left: Vec<_> = std::fs::read_dir(folder.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(left.len(), 2, "only the configuration and the summary: {left:?}");
    let ended = short_run(&file, &["--summary", "/dev/stdout"]);
    assert_eq!(ended.code(), Some(0), "{}", ended.stderr);
    assert!(ended.stdout.contains("\"conservation_error\": 0"), "{}", ended.stdout);
}

#[test]
fn help_and_version_are_no_errors() {
    for (args, word) in [(["--help"], "Usage"), (["--version"], "weir "), (["help"], "headroom")] {
        let ended = weir(&args);
        assert_eq!(ended.code(), Some(0));
        assert!(ended.stdout.contains(word), "{}", ended.stdout);
    }
    for args in [&["fly"][..], &["run"], &["run", "a", "--for", "10"], &[]] {
        let ended = weir(args);
        assert_eq!(ended.code(), Some(2), "{args:?}");
        assert!(ended.stdout.is_empty() && !ended.stderr.is_empty(), "{args:?}: {ended:?}");
    }
}

/// `weir bench residence`: frames come at the load that was asked for, and each is timed.
#[test]
fn the_bench_of_the_residence_times_every_frame() {
    let ended = weir(&["bench", "residence", "--windows", "2", "--rate", "10M", "--load", "40"]);
    assert_eq!(ended.code(), Some(0), "{ended:?}");
    let report: serde_json::Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!((&report["lost"], &report["conservation_error"]), (&0.into(), &0.into()));
    let count = |times: &str| report[times]["frames"].as_u64().unwrap();
    // Two ports of 10 Mbit/s at 40 % bring 11 900 frames of 64 bytes in a second, some 3 570 while it runs; a machine that is
    // late is late with all of them.
    assert!(count("residence") > 0 && count("arrival_to_transmit") <= count("residence"), "{report}");
    assert!(report["residence"]["p50"].as_u64() <= report["residence"]["p99"].as_u64(), "{report}");
    for (args, wrong) in [(["--load", "0"], "1..=100"), (["--rate", "fast"], "write a rate as")] {
        let ended = weir(&[&["bench", "residence"][..], &args[..]].concat());
        assert_eq!(ended.code(), Some(2), "{ended:?}");
        assert!(ended.stderr.contains(wrong), "{ended:?}");
    }
}

/// `weir bench pipeline`: one JSON object, and nothing lost on the way to it.
#[test]
fn the_bench_of_the_pipeline_loses_nothing_and_prints_json() {
    let loads = [
        ["--ports", "4", "--classes", "8"],
        ["--macs", "3000", "--frame-bytes", "1518"],
        // One port is idle, headroom for so many, and more from other lcores in a turn than two bursts.
        ["--ports", "31", "--macs", "64"],
        ["--ports", "64", "--macs", "64"],
        ["--ports", "16", "--lcores", "2"],
        ["--ports", "18", "--lcores", "9"],
    ];
    for args in loads {
        let ended = weir(&[&["bench", "pipeline", "--windows", "1"][..], &args[..]].concat());
        assert_eq!(ended.code(), Some(0), "{ended:?}");
        let report: serde_json::Value = serde_json::from_str(&ended.stdout).unwrap();
        assert!(report["frames"].as_u64() > Some(0), "{report}");
        assert_eq!((&report["lost"], &report["conservation_error"]), (&0.into(), &0.into()));
        assert!(report["per_frame"]["total"].as_f64() > Some(0.0), "{report}");
    }
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().expect("a plain path").to_owned();
    // One frame of the smallest capture there is; nobody has heard of its receiver, so it is flooded to both others.
    let header = b"\xd4\xc3\xb2\xa1\x02\0\x04\0\0\0\0\0\0\0\0\0\xff\xff\0\0\x01\0\0\0";
    let frame = [&[2, 0, 0, 0, 0, 9, 2, 0, 0, 0, 0, 1, 0x88, 0xb5][..], &[0; 46]].concat();
    let record = [&[0; 8][..], &60u32.to_le_bytes(), &60u32.to_le_bytes(), &frame].concat();
    std::fs::write(path("one.pcap"), [&header[..], &record].concat()).unwrap();
    std::fs::write(path("none.pcap"), header).unwrap();
    std::fs::write(path("cut.pcap"), [&header[..], &record[..40]].concat()).unwrap();
    let ports: String = (0..3).map(|n| format!("[[port]]\nname = \"p{n}\"\ndevice = \"ring\"\n")).collect();
    std::fs::write(path("three.toml"), format!("[port_defaults]\nrate = \"10G\"\n{ports}")).unwrap();
    let bench = |capture: &str| {
        let own = ["--config", &path("three.toml"), "--capture", &path(capture)];
        weir(&[&["bench", "pipeline", "--windows", "1"][..], &own[..]].concat())
    };
    let ended = bench("one.pcap");
    assert_eq!(ended.code(), Some(0), "{ended:?}");
    let report: serde_json::Value = serde_json::from_str(&ended.stdout).unwrap();
    assert!(report["frames"].as_u64() > Some(0) && report["busy_ports"] == 1, "{report}");
    for (capture, said) in
        [("none.pcap", "no frames"), ("cut.pcap", "cut.pcap"), ("absent.pcap", "absent.pcap")]
    {
        let refused = bench(capture);
        assert_eq!(refused.code(), Some(2), "{refused:?}");
        assert!(refused.stderr.contains(said), "{refused:?}");
    }
    let odd = weir(&["bench", "pipeline", "--busy", "3", "--ports", "4"]);
    assert_eq!(odd.code(), Some(2), "{odd:?}");
    assert!(odd.stderr.contains("pairs"), "{odd:?}");
}
