//! DPDK's own tools on a running switch: the telemetry socket, and secondary processes that attach to it.

use crate::running::Lab;
use crate::support::program::{Running, WEIR, turn};
use crate::support::{tool, wait_for};
use nix::sys::signal::Signal;
use serde_json::Value;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

/// Asks DPDK's telemetry of one process.
fn telemetry(tool: &Path, prefix: &str, commands: &[&str]) -> Vec<Value> {
    let mut child =
        Command::new(tool).args(["-f", prefix]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let input = commands.join("\n") + "\nquit\n";
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    // Without a terminal it prints its answers one by one and no prompt.
    let answers =
        serde_json::Deserializer::from_str(&text[text.find("{\"/").unwrap_or(0)..]).into_iter::<Value>();
    let answers: Vec<Value> = answers.map_while(Result::ok).collect();
    assert_eq!(answers.len(), commands.len(), "{text}");
    answers
}

#[test]
fn telemetry_answers_from_the_same_snapshot() {
    let Some(tool) = tool(&["dpdk-telemetry.py"]) else {
        eprintln!("skipped: dpdk-telemetry.py is not installed (package dpdk)");
        return;
    };
    let lab = Lab::start();
    let prefix = format!("weir-{}", lab.program.id());
    // A histogram without a frame has no percentiles.
    wait_for("a frame of class 3 that left p0", || {
        let answers = telemetry(&tool, &prefix, &["/weir/latency,p0"]);
        answers[0]["/weir/latency"]["3"]["residence_p99_ns"].is_u64().then_some(())
    });
    let before = lab.json("/v1/ports");
    let asked = [
        "/weir/ports",
        "/weir/port,p0",
        "/weir/pfc,1",
        "/weir/queues,p0",
        "/weir/buffer",
        "/weir/lcores",
        "/weir/drops,p0",
        "/weir/latency,p0",
        "/weir/switch",
        "/weir/pfc,p9",
        "/help,/weir/pfc",
    ];
    let answers = telemetry(&tool, &prefix, &asked);
    let after = lab.json("/v1/ports");
    assert_eq!(answers[0]["/weir/ports"], serde_json::json!(["p0", "p1", "p2", "p3"]));
    let sent = |document: &Value| document["ports"][0]["tx_packets"].as_u64().unwrap();
    let told = answers[1]["/weir/port"]["tx_packets"].as_u64().unwrap();
    assert!((sent(&before)..=sent(&after)).contains(&told), "{told}");
    assert_eq!(answers[2]["/weir/pfc"]["3"]["enabled"], 1);
    assert!(answers[3]["/weir/queues"]["3"]["kmax_bytes"].is_u64());
    assert!(answers[4]["/weir/buffer"]["headroom"]["size_bytes"].is_u64());
    assert!(answers[7]["/weir/latency"]["3"]["residence_p99_ns"].is_u64());
    assert_eq!(answers[8]["/weir/switch"]["conservation_error"], 0);
    assert!(answers[9]["/weir/pfc"].is_null(), "{}", answers[9]);
    assert!(answers[10]["/help"]["/weir/pfc"].as_str().unwrap().contains("Parameters"));
}

/// Hugepages for a while, mounted: as many as were there before are there after.
struct Hugepages {
    before: String,
    folder: Option<tempfile::TempDir>,
}

const PAGES: &str = "/proc/sys/vm/nr_hugepages";
/// Of 2 MiB.
const WANTED: u64 = 512;

impl Hugepages {
    fn some() -> Result<Self, String> {
        let read = || std::fs::read_to_string(PAGES).map(|text| text.trim().to_owned());
        let before = read().map_err(|e| format!("{PAGES}: {e}"))?;
        let mut kept = Self { before, folder: None };
        let wanted = kept.before.parse::<u64>().unwrap_or(0) + WANTED;
        std::fs::write(PAGES, wanted.to_string()).map_err(|e| format!("{PAGES}: {e}"))?;
        let got = read().unwrap_or_default();
        if got.parse::<u64>().is_ok_and(|got| got < wanted) {
            return Err(format!("{WANTED} hugepages of 2 MiB are not to be had here: {got} of {wanted}"));
        }
        let folder = tempfile::tempdir().unwrap();
        let mut mount = Command::new("mount");
        let mounted = Running::start(mount.args(["-t", "hugetlbfs", "weir-test"]).arg(folder.path())).ended();
        if !mounted.status.success() {
            return Err(mounted.stderr.trim().to_owned());
        }
        kept.folder = Some(folder);
        Ok(kept)
    }

    fn folder(&self) -> &Path {
        self.folder.as_ref().expect("mounted").path()
    }
}

impl Drop for Hugepages {
    fn drop(&mut self) {
        // Nothing depends on it here.
        if let Some(folder) = &self.folder {
            let _ = Command::new("umount").arg(folder.path()).status();
        }
        let _ = std::fs::write(PAGES, &self.before);
    }
}

/// Packet blocks of a pcapng file so far, and bytes of the first packet.
fn packets(file: &Path) -> (usize, usize) {
    let bytes = std::fs::read(file).unwrap_or_default();
    let word = |at: usize| Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
    let (mut at, mut count, mut first) = (0, 0, 0);
    while let (Some(kind), Some(len)) = (word(at), word(at + 4)) {
        if kind == 6 {
            count += 1;
            first = if count == 1 { word(at + 20).unwrap_or(0) as usize } else { first };
        }
        at += len.max(12) as usize;
    }
    (count, first)
}

#[test]
fn secondary_processes_attach_to_a_switch_on_hugepages() {
    let tools = ["dpdk-proc-info", "dpdk-dumpcap"].map(|name| tool(&[name]));
    let [Some(proc_info), Some(dumpcap)] = tools else {
        eprintln!("skipped: dpdk-proc-info and dpdk-dumpcap are not installed (package dpdk-dev)");
        return;
    };
    let _turn = turn();
    let pages = match Hugepages::some() {
        Ok(pages) => pages,
        Err(why) => {
            eprintln!("skipped: {why}");
            return;
        }
    };
    let folder = tempfile::tempdir().unwrap();
    let (config, out) = (folder.path().join("switch.toml"), folder.path().join("out.pcapng"));
    let prefix = format!("weir-tools-{}", std::process::id());
    // `net_null` receives frames without end.
    std::fs::write(
        &config,
        format!(
            "[eal]\nargs = [\"--file-prefix={prefix}\", \"--socket-mem=256\", \"--huge-dir={}\"]\n\
             [buffer]\nsize = \"2MiB\"\n[port_defaults]\nrate = \"1G\"\nmtu = 1518\n\
             [[port]]\nname = \"left\"\ndevice = \"net_null0\"\n\
             [[port]]\nname = \"right\"\ndevice = \"net_null1\"\n\
             [mgmt]\nlisten = \"off\"\nsocket = \"off\"\ndumpcap = true\n",
            pages.folder().display()
        ),
    )
    .unwrap();
    let mut switch = Running::start(Command::new(WEIR).arg("run").arg(&config));
    switch.says("switch ");
    let attached = |tool: &Path, args: &[&str]| {
        let mut command = Command::new(tool);
        let ended = Running::start(command.arg(format!("--file-prefix={prefix}")).args(args)).ended();
        assert!(ended.status.success(), "{ended:?}");
        ended.stdout + &ended.stderr
    };
    let told = attached(&proc_info, &["--no-pci", "--", "--xstats"]);
    assert!(told.contains("NIC extended statistics for port 1"), "{told}");
    let received = told.lines().find_map(|line| line.strip_prefix("rx_good_packets: "));
    assert!(received.is_some_and(|n| n.trim().parse::<u64>().is_ok_and(|n| n > 0)), "{told}");
    let listed = attached(&dumpcap, &["-D"]);
    assert!(listed.contains("net_null0") && listed.contains("net_null1"), "{listed}");

    // The switch ends first: at the end of a capture DPDK 22.11 frees what a polling worker may still be using.
    let capture = Running::start(
        Command::new(&dumpcap)
            .arg(format!("--file-prefix={prefix}"))
            .args(["-q", "-i", "net_null1", "-w"])
            .arg(&out),
    );
    wait_for("captured frames", || (packets(&out).0 >= 50).then_some(()));
    assert_eq!(packets(&out).1, 64);
    let ended = switch.stop(Signal::SIGINT);
    assert!(ended.status.success() && ended.stdout.contains("error 0"), "{ended:?}");
    drop(capture);

    // Unless it is asked for nobody captures that way, and whoever tries ends himself alone.
    let text = std::fs::read_to_string(&config).unwrap();
    std::fs::write(&config, text.replace("dumpcap = true\n", "")).unwrap();
    let mut switch = Running::start(Command::new(WEIR).arg("run").arg(&config));
    switch.says("switch ");
    let refused = Running::start(
        Command::new(&dumpcap)
            .arg(format!("--file-prefix={prefix}"))
            .args(["-q", "-c", "1", "-i", "net_null1", "-w"])
            .arg(&out),
    )
    .ended();
    assert!(!refused.status.success(), "{refused:?}");
    let ended = switch.stop(Signal::SIGINT);
    assert!(ended.status.success() && ended.stdout.contains("error 0"), "{ended:?}");
}
