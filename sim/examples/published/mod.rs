//! The published HPCC simulator (`third` of alibaba-edu/High-Precision-Congestion-Control) on a run of this program.

use std::fs::{self, File};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use weir_sim::ns3::config::{Config, Control, FlowSpec, Marking, Topology};

use super::process::{cpu_seconds, peak_rss_kb};

/// When its flows begin, s: what is earlier is its start-up.
const ORIGIN: u64 = 2;

/// What it took, and found.
pub struct Played {
    pub cpu_seconds: f64,
    pub peak_rss_kb: Option<u64>,
    pub completed: usize,
    /// Completion of the last flow, ns from the origin.
    pub last_fct_ns: Option<u64>,
}

/// Plays a network with the program at `path`.
///
/// # Errors
/// Files that cannot be written, a program that does not start, or ends with an error; what it printed is then in `said`.
pub fn play(path: &str, topology: &Topology, flows: &[FlowSpec], config: &Config) -> std::io::Result<Played> {
    let folder = std::env::temp_dir().join(format!("ns3_speed-{}", std::process::id()));
    fs::create_dir_all(&folder)?;
    let file = |name: &str| folder.join(name);
    fs::write(file("topology"), topology_text(topology))?;
    fs::write(file("flows"), flows_text(flows))?;
    fs::write(file("traced"), "0\n")?;
    fs::write(file("config"), config_text(config, &folder))?;
    let said = File::create(file("said"))?;
    let mut child = Command::new(path)
        .arg(file("config"))
        .current_dir(&folder)
        .stdin(Stdio::null())
        .stdout(said.try_clone()?)
        .stderr(said)
        .spawn()?;
    let process = child.id().to_string();
    let mut peak = None;
    // A process that has ended and was not waited for has no memory any more, but its time.
    while !has_ended(&process) {
        peak = peak_rss_kb(&process).or(peak);
        sleep(Duration::from_millis(10));
    }
    let cpu = cpu_seconds(&process);
    let status = child.wait()?;
    if !status.success() {
        let said = file("said");
        return Err(std::io::Error::other(format!("{path}: {status}; see {}", said.display())));
    }
    let ends: Vec<u64> = fs::read_to_string(file("fct"))?.lines().filter_map(end_of).collect();
    fs::remove_dir_all(&folder)?;
    Ok(Played {
        cpu_seconds: cpu,
        peak_rss_kb: peak,
        completed: ends.len(),
        last_fct_ns: ends.iter().max().map(|end| end - ORIGIN * 1_000_000_000),
    })
}

fn has_ended(process: &str) -> bool {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    // The state is behind the name, which is in brackets.
    let state = stat.rsplit(") ").next().unwrap_or_default();
    state.is_empty() || state.starts_with(['Z', 'X'])
}

/// `sip dip sport dport bytes start fct standalone`, times in ns.
fn end_of(line: &str) -> Option<u64> {
    let mut words = line.split_whitespace().skip(5).map_while(|word| word.parse::<u64>().ok());
    Some(words.next()? + words.next()?)
}

fn topology_text(topology: &Topology) -> String {
    let nodes = topology.hosts + topology.switches;
    let switches: Vec<String> = (topology.hosts..nodes).map(|switch| switch.to_string()).collect();
    let links = topology.links.iter().map(|l| format!("{} {} {}bps {}ns 0\n", l.a, l.b, l.rate, l.delay));
    format!("{nodes} {} {}\n{}\n", switches.len(), topology.links.len(), switches.join(" "))
        + &links.collect::<String>()
}

/// Half a nanosecond more than the start: it cuts what it reads to whole ones.
fn flows_text(flows: &[FlowSpec]) -> String {
    let line = |f: &FlowSpec| {
        let start = f.start + ORIGIN * 1_000_000_000;
        let (seconds, nanos) = (start / 1_000_000_000, start % 1_000_000_000);
        format!("{} {} {} {} {} {seconds}.{nanos:09}5\n", f.src, f.dst, f.prio, f.dst_port, f.bytes)
    };
    format!("{}\n", flows.len()) + &flows.iter().map(line).collect::<String>()
}

/// The simulator's preset for 100G, as far as the runs of this program have it in common: what their `Config` has, too.
const PRESET: &str = "USE_DYNAMIC_PFC_THRESHOLD 1
ALPHA_RESUME_INTERVAL 1
RATE_DECREASE_INTERVAL 4
CLAMP_TARGET_RATE 0
RP_TIMER 300
EWMA_GAIN 0.00390625
FAST_RECOVERY_TIMES 1
RATE_AI 20Mb/s
RATE_HAI 200Mb/s
MIN_RATE 1000Mb/s
DCTCP_RATE_AI 1000Mb/s
ERROR_RATE_PER_LINK 0.0000
L2_CHUNK_SIZE 4000
L2_ACK_INTERVAL 1
L2_BACK_TO_ZERO 0
HAS_WIN 0
GLOBAL_T 1
VAR_WIN 0
FAST_REACT 0
U_TARGET 0.95
MI_THRESH 0
INT_MULTI 1
MULTI_RATE 0
SAMPLE_FEEDBACK 0
PINT_LOG_BASE 1.05
PINT_PROB 1.0
RATE_BOUND 1
ACK_HIGH_PRIO 1
LINK_DOWN 0 0 0
ENABLE_TRACE 0
QLEN_MON_START 4000000000000
QLEN_MON_END 4000000000001
";

/// Queues are looked at when all is over, which costs nothing.
fn config_text(config: &Config, folder: &Path) -> String {
    let by_rate = |value: fn(&Marking) -> f64| {
        let maps: Vec<String> = config.marking.iter().map(|m| format!("{} {}", m.rate, value(m))).collect();
        // Maps are read even where nothing is marked.
        let maps = if maps.is_empty() { vec!["100000000000 1".to_owned()] } else { maps };
        format!("{} {}", maps.len(), maps.join(" "))
    };
    let folder = folder.display();
    format!(
        "{PRESET}TOPOLOGY_FILE {folder}/topology
FLOW_FILE {folder}/flows
TRACE_FILE {folder}/traced
TRACE_OUTPUT_FILE {folder}/trace
FCT_OUTPUT_FILE {folder}/fct
PFC_OUTPUT_FILE {folder}/pfc
QLEN_MON_FILE {folder}/depths
SIMULATOR_STOP_TIME {}
CC_MODE {}
ENABLE_QCN {}
KMIN_MAP {}
KMAX_MAP {}
PMAX_MAP {}
PACKET_PAYLOAD_SIZE {}
BUFFER_SIZE {}
",
        ORIGIN + config.stop / 1_000_000_000,
        u8::from(matches!(config.control, Control::Dcqcn(_))),
        u8::from(!config.marking.is_empty()),
        by_rate(|m| f64::from(m.kmin / 1000)),
        by_rate(|m| f64::from(m.kmax / 1000)),
        by_rate(|m| m.pmax),
        config.payload,
        config.buffer >> 20,
    )
}
