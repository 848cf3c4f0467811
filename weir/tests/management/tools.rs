//! DPDK's own tools on a running switch: the telemetry socket, and secondary processes that attach to it.

use crate::support::{Lab, Program, WEIR, run, tool, turn};
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
    assert!(answers[7]["/weir/latency"]["3"]["p99_ns"].is_u64());
    assert_eq!(answers[8]["/weir/switch"]["conservation_error"], 0);
    assert!(answers[9]["/weir/pfc"].is_null(), "{}", answers[9]);
    assert!(answers[10]["/help"]["/weir/pfc"].as_str().unwrap().contains("Parameters"));
}

/// Hugepages for a while: as many as were there before are there after.
struct Hugepages(String);

const PAGES: &str = "/proc/sys/vm/nr_hugepages";

impl Hugepages {
    fn some() -> Result<Self, String> {
        let before = std::fs::read_to_string(PAGES).map_err(|e| format!("{PAGES}: {e}"))?;
        let kept = Self(before.trim().to_owned());
        let wanted = kept.0.parse::<u64>().unwrap_or(0) + 512;
        std::fs::write(PAGES, wanted.to_string()).map_err(|e| format!("{PAGES}: {e}"))?;
        let got = std::fs::read_to_string(PAGES).unwrap_or_default();
        let mounted = std::fs::read_to_string("/proc/mounts").unwrap_or_default().contains(" hugetlbfs ");
        match got.trim().parse::<u64>() {
            Ok(n) if n >= wanted && mounted => Ok(kept),
            _ => {
                Err(format!("no 512 hugepages of 2 MiB and a hugetlbfs to be had here (got {})", got.trim()))
            }
        }
    }
}

impl Drop for Hugepages {
    fn drop(&mut self) {
        // Nothing depends on it here.
        let _ = std::fs::write(PAGES, &self.0);
    }
}

#[test]
fn secondary_processes_attach_to_a_switch_on_hugepages() {
    let tools = ["dpdk-proc-info", "dpdk-dumpcap"].map(|name| tool(&[name]));
    let [Some(proc_info), Some(dumpcap)] = tools else {
        eprintln!("skipped: dpdk-proc-info and dpdk-dumpcap are not installed (package dpdk)");
        return;
    };
    let _turn = turn();
    let _pages = match Hugepages::some() {
        Ok(pages) => pages,
        Err(why) => {
            eprintln!("skipped: {why}");
            return;
        }
    };
    let folder = tempfile::tempdir().unwrap();
    // A frame of 256 bytes, again and again.
    let (input, config, out) =
        (folder.path().join("in.pcap"), folder.path().join("switch.toml"), folder.path().join("out.pcapng"));
    let mut frame = vec![0x02, 0, 0, 0, 0, 2, 0x02, 0, 0, 0, 0, 1, 0x88, 0xb5];
    frame.resize(256, 0x5a);
    let mut pcap: Vec<u8> =
        [0xa1b2_c3d4_u32, 0x0004_0002, 0, 0, 65_535, 1].iter().flat_map(|w| w.to_le_bytes()).collect();
    pcap.extend([0_u32, 0, 256, 256].iter().flat_map(|w| w.to_le_bytes()));
    pcap.extend(&frame);
    std::fs::write(&input, pcap).unwrap();
    let prefix = format!("weir-tools-{}", std::process::id());
    std::fs::write(
        &config,
        format!(
            "[eal]\nargs = [\"--file-prefix={prefix}\", \"--socket-mem=256\"]\n\
             [buffer]\nsize = \"2MiB\"\nframes = 4096\n[port_defaults]\nrate = \"1G\"\nmtu = 1518\n\
             [[port]]\nname = \"left\"\ndevice = \"net_pcap0,rx_pcap={},infinite_rx=1\"\n\
             [[port]]\nname = \"right\"\ndevice = \"net_null0\"\n[mgmt]\nlisten = \"off\"\nsocket = \"off\"\n",
            input.display()
        ),
    )
    .unwrap();
    let switch = Program::start(Command::new(WEIR).arg("run").arg(&config));
    switch.says("switch ");

    let output = run(Command::new(&proc_info)
        .arg(format!("--file-prefix={prefix}"))
        .args(["--no-pci", "--", "--xstats"]));
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        text.contains("rx_good_packets: ") && text.contains("NIC extended statistics for port 1"),
        "{text}{}",
        String::from_utf8_lossy(&output.stderr)
    );

    let listed = run(Command::new(&dumpcap).arg(format!("--file-prefix={prefix}")).arg("-D"));
    let text = String::from_utf8_lossy(&listed.stdout);
    assert!(
        text.contains("net_pcap0") && text.contains("net_null0"),
        "{text}{}",
        String::from_utf8_lossy(&listed.stderr)
    );
    let captured = run(Command::new(&dumpcap)
        .arg(format!("--file-prefix={prefix}"))
        .args(["-i", "net_pcap0", "-c", "50", "-a", "duration:10", "-w"])
        .arg(&out));
    let said = String::from_utf8_lossy(&captured.stderr).into_owned();
    let file = std::fs::read(&out).unwrap_or_default();
    let seen = file.windows(frame.len()).filter(|bytes| **bytes == frame[..]).count();
    assert!(seen >= 50, "{seen} frames in {} bytes: {said}", file.len());

    // It did not notice.
    switch.signal("-INT");
    let (status, said) = switch.ended();
    assert!(status.success() && said.contains("error 0"), "{said}");
}
