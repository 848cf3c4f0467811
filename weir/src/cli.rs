//! The command line: `weir [EAL options] -- COMMAND ...`, or without EAL options `weir COMMAND ...`.

use clap::{Args, Parser, Subcommand};
use std::path::PathBuf;
use std::time::Duration;
use weir_config::units::{self, rate, size};
use weir_dataplane::types::Mac;

/// A lossless Ethernet switch in software.
///
/// EAL options of DPDK may stand before a `--`: `weir -l 1-2 --vdev net_null0 -- run CONFIG`. They
/// come after those of the configuration's `[eal] args`.
#[derive(Debug, Parser)]
#[command(name = "weir", version)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Forward frames until SIGINT or SIGTERM: drain, print totals, check conservation.
    Run(RunArgs),
    /// See it work: hosts on in-process rings, a live table, a verdict. No root, no NIC, no hugepages.
    Lab(LabArgs),
    /// Be a traffic host: RoCEv2 connections over DPDK ports, checked at the receiver.
    Host(HostArgs),
    /// Look at a running switch.
    Show(ShowArgs),
    /// Save the page of a running switch, with its last minute, as one file that opens anywhere.
    Report(ReportArgs),
    /// Watch a running switch in the terminal.
    Top(TopArgs),
    /// Change the configuration of a running switch, all of it or nothing, without losing a lossless frame.
    Apply(ApplyArgs),
    /// Look at a configuration: every effective value, and where it comes from.
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Say what would happen to a frame now: class, limits, verdict, pause, mark.
    Explain(ExplainArgs),
    /// Follow frames through a running switch, stage by stage.
    Trace(TraceArgs),
    /// Write frames of a running switch, and what happened to each, to a pcapng file.
    Capture(CaptureArgs),
    /// Say what on this machine stands in the way of a switch, and what to do about it.
    Doctor(DoctorArgs),
    /// Print a completion script for a shell.
    Completions(CompletionsArgs),
    /// Write manual pages, one per command, into a folder.
    Man(ManArgs),
    /// Show every error of a configuration, with line, caret, rule and remedy.
    Check(CheckArgs),
    /// Play a fabric of switches, hosts and links in virtual time.
    Sim(SimArgs),
    /// Replay every published data set under a folder, row by row.
    Golden(GoldenArgs),
    /// Measure what parts of weir cost by themselves.
    #[command(subcommand)]
    Bench(BenchCommand),
    /// Compute the headroom a lossless priority group needs, term by term.
    Headroom(HeadroomArgs),
    /// Advise a configuration for ports, cables and a buffer, each number with its reason.
    Advise(AdviseArgs),
}

/// `weir run`
#[derive(Debug, Args)]
pub struct RunArgs {
    /// Configuration file.
    pub config: PathBuf,
    /// Stop after this time, e.g. 10s.
    #[arg(long = "for", value_name = "TIME", value_parser = time)]
    pub duration: Option<Duration>,
    /// Write totals, drops, latency and conservation to this file as JSON.
    #[arg(long, value_name = "FILE")]
    pub summary: Option<PathBuf>,
    /// Log events on standard error.
    #[arg(long, value_name = "FORMAT", value_parser = ["text", "json"])]
    pub log: Option<String>,
}

/// `weir lab`
#[derive(Debug, Args)]
pub struct LabArgs {
    /// Configuration file whose ports are all `device = "ring"`; a built-in one unless given.
    pub config: Option<PathBuf>,
    /// Stop after this time, e.g. 10s.
    #[arg(long = "for", value_name = "TIME", value_parser = time)]
    pub duration: Option<Duration>,
    /// Preset of the built-in configuration.
    #[arg(long, conflicts_with = "config", value_name = "NAME")]
    pub preset: Option<String>,
    /// This many hosts send to one (built-in configuration). DPDK has 32 ports, and a ring takes two.
    #[arg(long, conflicts_with = "config", value_name = "N", value_parser = clap::value_parser!(u8).range(1..=15))]
    pub incast: Option<u8>,
    /// What the hosts speak: rclink with a paxi preset or AFH ports, else rocev2, unless `[lab] hosts` says.
    #[arg(long, value_name = "KIND")]
    pub hosts: Option<HostsArg>,
    /// Hosts ignore PFC and CNPs: see what they are good for.
    #[arg(long)]
    pub deaf: bool,
    /// Hosts keep to their rates whatever is marked: PFC alone holds them back.
    #[arg(long)]
    pub no_dcqcn: bool,
    /// Write totals, drops, latency and conservation to this file as JSON.
    #[arg(long, value_name = "FILE")]
    pub summary: Option<PathBuf>,
    /// Log events on standard error.
    #[arg(long, value_name = "FORMAT", value_parser = ["text", "json"])]
    pub log: Option<String>,
    /// Write what moved the rates of the hosts to this file as CSV.
    #[arg(long, value_name = "FILE")]
    pub trace: Option<PathBuf>,
}

/// What the hosts of a lab speak.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum HostsArg {
    /// RoCEv2.
    Rocev2,
    /// RC Link, the endpoint side of PAXI.
    Rclink,
}

/// `weir host`
#[derive(Debug, Args)]
pub struct HostArgs {
    /// Configuration file.
    pub config: PathBuf,
    /// Stop sending after this time, e.g. 10s.
    #[arg(long = "for", value_name = "TIME", value_parser = time)]
    pub duration: Option<Duration>,
    /// Write totals and the verdict to this file as JSON.
    #[arg(long, value_name = "FILE")]
    pub summary: Option<PathBuf>,
    /// Write what moved the rates to this file as CSV.
    #[arg(long, value_name = "FILE")]
    pub trace: Option<PathBuf>,
}

/// `weir report`
#[derive(Debug, Args)]
pub struct ReportArgs {
    /// Where to write it.
    #[arg(long, value_name = "FILE.html", default_value = "weir-report.html")]
    pub out: PathBuf,
    /// Socket of the switch; found by itself if only one runs.
    #[arg(long, value_name = "PATH")]
    pub socket: Option<PathBuf>,
}

/// `weir show`
#[derive(Debug, Args)]
pub struct ShowArgs {
    /// What to look at.
    #[arg(value_parser = ["switch", "ports", "queues", "pgs", "buffer", "pfc", "ecn", "marking", "matrix", "drops", "reasons", "latency", "fdb", "lcores", "events", "interfaces", "queue", "priority-group", "pfcwd", "buffer_pool", "headroom-pool", "mac"])]
    pub what: String,
    /// SONiC's commands, with its columns: interfaces status|counters, pfc counters|priority|asymmetric, queue
    /// counters|wredcounters|watermark, priority-group watermark|drop counters, pfcwd stats|config, buffer
    /// pool|configuration, buffer_pool watermark, headroom-pool watermark, mac.
    #[arg(value_name = "WORDS")]
    pub more: Vec<String>,
    /// This port only.
    #[arg(long)]
    pub port: Option<String>,
    /// With fdb: this address only, as 02:00:00:00:00:01.
    #[arg(long)]
    pub mac: Option<String>,
    /// With fdb: this VLAN only; 0: untagged.
    #[arg(long)]
    pub vlan: Option<u16>,
    /// Rows in which nothing was counted, too.
    #[arg(long)]
    pub all: bool,
    /// JSON, as the switch answers it.
    #[arg(short, long)]
    pub json: bool,
    /// Look again every second; follow events as they come.
    #[arg(long)]
    pub watch: bool,
    /// Latency as a percentile distribution since start for the tools of HdrHistogram (.hgrm).
    #[arg(long, conflicts_with_all = ["json", "watch", "hlog"])]
    pub hgrm: bool,
    /// With --hgrm or --hlog: this part of the time.
    #[arg(long, value_parser = ["residence", "queueing", "pause"], default_value = "residence")]
    pub part: String,
    /// With --hgrm: of the last second, not since start.
    #[arg(long, requires = "hgrm")]
    pub window: bool,
    /// With --hlog: one interval since start, not second by second.
    #[arg(long, requires = "hlog")]
    pub cumulative: bool,
    /// Latency second by second as an interval log for the tools of HdrHistogram (.hlog).
    #[arg(long, conflicts_with_all = ["json", "watch"])]
    pub hlog: bool,
    /// Socket of the switch; found by itself if only one runs.
    #[arg(long, value_name = "PATH")]
    pub socket: Option<PathBuf>,
}

/// `weir top`
#[derive(Debug, Args)]
pub struct TopArgs {
    /// Time between two looks, e.g. 500ms.
    #[arg(long, value_name = "TIME", value_parser = time, default_value = "1s")]
    pub interval: Duration,
    /// Socket of the switch; found by itself if only one runs.
    #[arg(long, value_name = "PATH")]
    pub socket: Option<PathBuf>,
}

/// `weir apply`
#[derive(Debug, Args)]
pub struct ApplyArgs {
    /// Configuration file. Without one: confirm or take back what was applied.
    #[arg(required_unless_present_any = ["confirm", "rollback"])]
    pub config: Option<PathBuf>,
    /// With a file: go back unless confirmed within this time, e.g. 30s. Without: confirm.
    #[arg(long, value_name = "TIME", num_args = 0..=1, value_parser = time)]
    pub confirm: Option<Option<Duration>>,
    /// Go back to what was before the configuration that waits to be confirmed.
    #[arg(long, conflicts_with_all = ["config", "confirm", "dry_run"])]
    pub rollback: bool,
    /// Only say what would change.
    #[arg(long)]
    pub dry_run: bool,
    /// Socket of the switch; found by itself if only one runs.
    #[arg(long, value_name = "PATH")]
    pub socket: Option<PathBuf>,
}

/// `weir config`
#[derive(Debug, Subcommand)]
pub enum ConfigCommand {
    /// Print values of a file, or of the running switch.
    Show(ConfigShowArgs),
    /// Make a configuration from that of another system, and say what became of every row.
    Import(ConfigImportArgs),
    /// Write a configuration as that of another system, and say what cannot be.
    Export(ConfigExportArgs),
}

/// Whose configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum ForeignArg {
    /// SONiC: config_db.json, or the files it is made of.
    Sonic,
}

/// `weir config import`
#[derive(Debug, Args)]
pub struct ConfigImportArgs {
    /// What made the files.
    pub from: ForeignArg,
    /// config_db.json, or several files: buffers.json, qos.json, pg_profile_lookup.ini. Of what is said twice the later
    /// file counts.
    #[arg(required = true)]
    pub files: Vec<PathBuf>,
    /// `device` of every port: {port} stands for its name, {n} for its number.
    #[arg(long, value_name = "DEVICE", default_value = "ring")]
    pub device: String,
    /// Size of the buffer; what the pools come to unless given.
    #[arg(long, value_name = "SIZE", value_parser = size)]
    pub buffer: Option<u64>,
    /// Lossless groups get the headroom this switch needs, not the one written for a chip.
    #[arg(long)]
    pub auto_headroom: bool,
    /// Write the configuration here, and the report to standard output; else the configuration goes to standard output and
    /// the report to standard error.
    #[arg(short, long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// The report as JSON.
    #[arg(short, long)]
    pub json: bool,
}

/// `weir config export`
#[derive(Debug, Args)]
pub struct ConfigExportArgs {
    /// For whom.
    pub to: ForeignArg,
    /// Configuration file.
    pub config: PathBuf,
    /// Write the tables here, and the report to standard output; else the tables go to standard output and the report to
    /// standard error.
    #[arg(short, long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// The report as JSON.
    #[arg(short, long)]
    pub json: bool,
}

/// `weir config show`
#[derive(Debug, Args)]
pub struct ConfigShowArgs {
    /// Configuration file; that of the running switch unless given.
    pub config: Option<PathBuf>,
    /// Every value that holds, not only those somebody set.
    #[arg(long)]
    pub effective: bool,
    /// Where each value comes from (line, preset, derived, default), and why it is so.
    #[arg(long)]
    pub origin: bool,
    /// JSON.
    #[arg(short, long)]
    pub json: bool,
    /// Socket of the switch; found by itself if only one runs.
    #[arg(long, value_name = "PATH", conflicts_with = "config")]
    pub socket: Option<PathBuf>,
}

/// `weir explain`
#[derive(Debug, Args)]
pub struct ExplainArgs {
    /// Configuration file, for a switch that does not run; the running switch, as it is now, unless given.
    pub config: Option<PathBuf>,
    /// Port the frame arrives on.
    #[arg(long)]
    pub port: String,
    /// Port it leaves by; the one whose queue is the fullest unless given.
    #[arg(long)]
    pub to: Option<String>,
    /// Bytes, without FCS.
    #[arg(long, default_value_t = 1024)]
    pub len: u32,
    /// DSCP of its IP header.
    #[arg(long)]
    pub dscp: Option<u8>,
    /// PCP of its VLAN tag.
    #[arg(long)]
    pub pcp: Option<u8>,
    /// Its AFH traffic-class octet.
    #[arg(long)]
    pub tc: Option<u8>,
    /// Its ECN code point.
    #[arg(long, default_value = "ect0", value_parser = ["not-ect", "ect1", "ect0", "ce"])]
    pub ecn: String,
    /// What it is: CNP and ACK frames have a class of their own.
    #[arg(long, default_value = "data", value_parser = ["data", "cnp", "ack"])]
    pub kind: String,
    /// With a file: bytes its priority group holds, e.g. 200KB.
    #[arg(long, value_name = "SIZE", value_parser = size, default_value = "0", requires = "config")]
    pub used: u64,
    /// With a file: bytes its priority group holds in headroom.
    #[arg(long, value_name = "SIZE", value_parser = size, default_value = "0", requires = "config")]
    pub headroom_used: u64,
    /// With a file: bytes the queue it leaves by holds.
    #[arg(long, value_name = "SIZE", value_parser = size, default_value = "0", requires = "config")]
    pub queued: u64,
    /// With a file: bytes all others hold of the shared pool.
    #[arg(long, value_name = "SIZE", value_parser = size, default_value = "0", requires = "config")]
    pub others: u64,
    /// JSON.
    #[arg(short, long)]
    pub json: bool,
    /// Socket of the switch; found by itself if only one runs.
    #[arg(long, value_name = "PATH", conflicts_with = "config")]
    pub socket: Option<PathBuf>,
}

/// Which frames
#[derive(Debug, Args)]
pub struct FilterArgs {
    /// Destination address.
    #[arg(long, value_name = "MAC")]
    pub dst: Option<Mac>,
    /// Source address.
    #[arg(long, value_name = "MAC")]
    pub src: Option<Mac>,
    /// EtherType, behind VLAN tags, e.g. 0x0800.
    #[arg(long, value_parser = number)]
    pub ethertype: Option<u16>,
    /// DSCP of the IP header.
    #[arg(long)]
    pub dscp: Option<u8>,
    /// Source or destination port of UDP, e.g. 4791.
    #[arg(long)]
    pub udp_port: Option<u16>,
}

/// `weir trace`
#[derive(Debug, Args)]
pub struct TraceArgs {
    /// Port the frames arrive on.
    #[arg(long)]
    pub port: String,
    /// Frames to follow.
    #[arg(long, default_value_t = 10)]
    pub count: u64,
    /// Which frames: all conditions must hold.
    #[command(flatten)]
    pub filter: FilterArgs,
    /// Wait this long at most, e.g. 10s.
    #[arg(long = "for", value_name = "TIME", value_parser = time, default_value = "60s")]
    pub time: Duration,
    /// JSON, a line per event.
    #[arg(short, long)]
    pub json: bool,
    /// Socket of the switch; found by itself if only one runs.
    #[arg(long, value_name = "PATH")]
    pub socket: Option<PathBuf>,
}

/// `weir capture`
#[derive(Debug, Args)]
pub struct CaptureArgs {
    /// Port the frames arrive on; with --drops the port they are lost at.
    #[arg(long)]
    pub port: String,
    /// File to write, `-` for standard output.
    #[arg(short = 'w', long = "write", value_name = "FILE")]
    pub file: PathBuf,
    /// Frames to write.
    #[arg(long, default_value_t = 1000)]
    pub count: u64,
    /// Frames that are lost, and nothing else.
    #[arg(long)]
    pub drops: bool,
    /// Bytes of each frame to keep.
    #[arg(long, default_value_t = 256)]
    pub snaplen: u32,
    /// Which frames: all conditions must hold.
    #[command(flatten)]
    pub filter: FilterArgs,
    /// Stop after this time, e.g. 10s.
    #[arg(long = "for", value_name = "TIME", value_parser = time, default_value = "60s")]
    pub time: Duration,
    /// Socket of the switch; found by itself if only one runs.
    #[arg(long, value_name = "PATH")]
    pub socket: Option<PathBuf>,
}

/// `weir doctor`
#[derive(Debug, Args)]
pub struct DoctorArgs {
    /// Configuration the machine is to run; without it what can be said of any.
    pub config: Option<PathBuf>,
    /// JSON.
    #[arg(short, long)]
    pub json: bool,
    /// Socket of a switch that runs; found by itself if only one does.
    #[arg(long, value_name = "PATH")]
    pub socket: Option<PathBuf>,
}

/// `weir completions`
#[derive(Debug, Args)]
pub struct CompletionsArgs {
    /// The shell.
    pub shell: clap_complete::Shell,
}

/// `weir man`
#[derive(Debug, Args)]
pub struct ManArgs {
    /// Folder to write to; made if it is not there.
    pub dir: PathBuf,
}

/// `weir check`
#[derive(Debug, Args)]
pub struct CheckArgs {
    /// Configuration file.
    pub config: PathBuf,
    /// Print every effective value, where it comes from and why it is so.
    #[arg(long)]
    pub explain: bool,
}

/// `weir sim`
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub struct SimArgs {
    /// Many runs instead of one.
    #[command(subcommand)]
    pub many: Option<SimCommand>,
    /// Description of the fabric and its traffic.
    #[arg(required = true)]
    pub file: Option<PathBuf>,
    /// Write the report as page (report.html), JSON and CSV (flows, ports) into this folder.
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Print the report as JSON instead of a summary.
    #[arg(short, long)]
    pub json: bool,
}

/// `weir sim sweep` and `weir sim merge`
#[derive(Debug, Subcommand)]
pub enum SimCommand {
    /// Play the points of a plan; those whose result is in DIR already are left out.
    Sweep(SweepArgs),
    /// Put the results of shards together: a table, what is missing, and a digest of it all.
    Merge(MergeArgs),
}

/// `weir sim sweep`
#[derive(Debug, Args)]
pub struct SweepArgs {
    /// The plan: `name`, `base` (a fabric file beside it) and `[[axis]]` with `key` and `values`.
    #[arg(long, value_name = "FILE")]
    pub plan: PathBuf,
    /// Only this part of the points, e.g. 2/3; any sharding gives the same results.
    #[arg(long, value_name = "I/N", default_value = "1/1")]
    pub shard: String,
    /// Folder of the results.
    #[arg(long, value_name = "DIR")]
    pub out: PathBuf,
}

/// `weir sim merge`
#[derive(Debug, Args)]
pub struct MergeArgs {
    /// Folders of results of one plan.
    #[arg(required = true)]
    pub dirs: Vec<PathBuf>,
    /// Write the table to this file as CSV.
    #[arg(long, value_name = "FILE")]
    pub csv: Option<PathBuf>,
}

/// `weir golden`
#[derive(Debug, Args)]
pub struct GoldenArgs {
    /// Folder with data sets, or one data set: logs of published simulators, which do not come with weir (docs/testing.md).
    pub dir: PathBuf,
}

/// `weir bench`
#[derive(Debug, Subcommand)]
pub enum BenchCommand {
    /// The three verbs alone over frames in memory: cycles per frame and stage, as JSON.
    Pipeline(PipelineArgs),
}

/// `weir bench pipeline`
#[derive(Debug, Args)]
pub struct PipelineArgs {
    /// Stations behind each port.
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub macs: u32,
    /// Ports of the switch.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u16).range(2..=64))]
    pub ports: u16,
    /// Ports that carry traffic; all of them unless given.
    #[arg(long, value_parser = clap::value_parser!(u16).range(2..=64))]
    pub busy: Option<u16>,
    /// Length of the frames with FCS.
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u16).range(64..=9216))]
    pub frame_bytes: u16,
    /// Priorities in use, frame by frame in turn.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=8))]
    pub classes: u8,
    /// Windows of some hundred microseconds, of which the best counts.
    #[arg(long, default_value_t = 300)]
    pub windows: u32,
    /// A switch of one's own in place of the one the options above describe; its devices are not opened.
    #[arg(long, requires = "capture", conflicts_with_all = ["macs", "ports", "busy", "frame_bytes", "classes"])]
    pub config: Option<PathBuf>,
    /// pcap file with the frames that come to the first, second, ... port of --config, over and over.
    #[arg(long, requires = "config")]
    pub capture: Vec<PathBuf>,
}

/// What is at the other end of a port.
#[derive(Clone, Copy, Debug, Args)]
pub struct LinkArgs {
    /// Rate of the port, e.g. 100G.
    #[arg(long, value_parser = rate)]
    pub rate: u64,
    /// Length of the cable, e.g. 40m.
    #[arg(long, value_parser = metres)]
    pub cable: u32,
    /// Longest frame, bytes without FCS.
    #[arg(long, value_parser = frame, default_value = "9216")]
    pub mtu: u32,
}

/// `weir headroom`
#[derive(Debug, Args)]
pub struct HeadroomArgs {
    /// Rate, cable and longest frame.
    #[command(flatten)]
    pub link: LinkArgs,
    /// Longest frame of a lossless priority, bytes without FCS; the mtu unless given.
    #[arg(long, value_parser = frame)]
    pub lossless_mtu: Option<u32>,
    /// One column only: `software` is what is in flight to and from this switch, its polling loop counted, and what
    /// `xoff = "auto"` sets; `hardware` is the same without a loop; `sonic` is the vendor formula with Spectrum-4
    /// constants.
    #[arg(long, value_parser = ["software", "hardware", "sonic"])]
    pub model: Option<String>,
    /// Longest gap between two polls of the port, e.g. 10us.
    #[arg(long, default_value = "10us", value_parser = gap)]
    pub poll_gap: Duration,
    /// Ports that share the lcore of this one: with more than fit into the gap it is longer.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub ports: u16,
    /// Share of small packets in the lossless traffic, percent (`sonic`).
    #[arg(long, default_value_t = 100)]
    pub small_packets: u32,
    /// JSON.
    #[arg(short, long)]
    pub json: bool,
}

/// `weir advise`
#[derive(Debug, Args)]
pub struct AdviseArgs {
    /// Ports of the switch.
    #[arg(long, value_parser = clap::value_parser!(u16).range(2..=256))]
    pub ports: u16,
    /// Rate, longest cable and longest frame.
    #[command(flatten)]
    pub link: LinkArgs,
    /// Size of the buffer, e.g. 32MiB.
    #[arg(long, value_parser = size)]
    pub buffer: u64,
    /// The groups share a headroom pool of this part of the sum: 2 is half of it.
    #[arg(long, value_name = "RATIO", value_parser = clap::value_parser!(u8).range(2..=64))]
    pub oversubscribe: Option<u8>,
    /// Write SONiC's config_db.json for the chip that is planned, with the headroom of SONiC's formula; the reasons go to
    /// standard error.
    #[arg(long)]
    pub sonic: bool,
    /// Lcores that poll the ports; as many as leave most to share unless given.
    #[arg(long, conflicts_with = "sonic", value_parser = clap::value_parser!(u16).range(1..=128))]
    pub lcores: Option<u16>,
    /// Longest gap between two polls of a port, e.g. 10us.
    #[arg(long, default_value = "10us", value_parser = gap)]
    pub poll_gap: Duration,
    /// `device` of every port, {n} stands for its number; PCI addresses to be replaced unless given.
    #[arg(long, value_name = "DEVICE")]
    pub device: Option<String>,
}

/// Splits the arguments at the first `--`: EAL options before it, ours (with the program name) behind.
pub fn split(mut args: Vec<String>) -> (Vec<String>, Vec<String>) {
    let Some(at) = args.iter().position(|arg| arg == "--") else { return (Vec::new(), args) };
    let own = args.split_off(at + 1);
    args.pop();
    let program = if args.is_empty() { "weir".to_owned() } else { args.remove(0) };
    (args, std::iter::once(program).chain(own).collect())
}

/// How long something goes on: with a unit, in minutes (`5m`), or a bare number of seconds.
fn time(text: &str) -> Result<Duration, String> {
    let number = |text: &str| {
        text.parse::<f64>().ok().filter(|n| (0.0..1e9).contains(n) && !text.contains(['e', 'E']))
    };
    if let Some(seconds) = number(text) {
        return Ok(Duration::from_secs_f64(seconds));
    }
    if let Some(minutes) = text.strip_suffix('m').and_then(number) {
        return Ok(Duration::from_secs_f64(60.0 * minutes));
    }
    units::time(text).map(Duration::from_nanos)
}

/// Between two polls: nobody means seconds.
fn gap(text: &str) -> Result<Duration, String> {
    units::time(text).map(Duration::from_nanos)
}

/// Bytes of one frame.
fn frame(text: &str) -> Result<u32, String> {
    let bytes = units::size(text)?;
    u32::try_from(bytes).map_err(|_| format!("`{text}` is longer than any frame"))
}

/// Decimal, or hexadecimal behind `0x`.
fn number(text: &str) -> Result<u16, String> {
    let number =
        text.strip_prefix("0x").map_or_else(|| text.parse(), |digits| u16::from_str_radix(digits, 16));
    number.map_err(|_| format!("`{text}` is no number from 0 to 0xffff"))
}

fn metres(text: &str) -> Result<u32, String> {
    u32::try_from(units::length(text)?.div_ceil(1000))
        .map_err(|_| format!("`{text}` is longer than any cable"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    fn words(text: &str) -> Vec<String> {
        text.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn show_knows_every_table() {
        for table in weir_mgmt::table::ALL {
            assert!(Cli::try_parse_from(["weir", "show", table.name]).is_ok(), "{}", table.name);
        }
        for view in weir_mgmt::sonic::ALL {
            let line = format!("weir show {} --json", view.words);
            assert!(Cli::try_parse_from(words(&line)).is_ok(), "{line}");
        }
        assert!(Cli::try_parse_from(["weir", "show", "events", "--watch", "-j"]).is_ok());
        assert!(Cli::try_parse_from(["weir", "show", "colours"]).is_err());
    }

    #[test]
    fn eal_options_stand_before_two_dashes() {
        assert_eq!(split(words("weir run x")), (vec![], words("weir run x")));
        assert_eq!(split(words("weir -l 1 -- run x")), (words("-l 1"), words("weir run x")));
        assert_eq!(split(words("weir -- run x -- y")), (vec![], words("weir run x -- y")));
        assert_eq!(split(vec![]), (vec![], vec![]));
    }

    #[test]
    fn a_simulation_is_one_run_or_many() {
        let parse = |text: &str| Cli::try_parse_from(words(text));
        for good in [
            "weir sim a.toml",
            "weir sim a.toml --out x --json",
            "weir sim sweep --plan p --out d",
            "weir sim sweep --plan p --shard 2/3 --out d",
            "weir sim merge a b --csv c",
        ] {
            assert!(parse(good).is_ok(), "{good}");
        }
        for bad in
            ["weir sim", "weir sim sweep", "weir sim sweep --plan p", "weir sim merge", "weir sim --out x"]
        {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn quantities_have_units() {
        assert_eq!(rate("2.5G"), Ok(2_500_000_000));
        assert_eq!((rate("100g"), rate("100Gbps")), (Ok(100_000_000_000), Ok(100_000_000_000)));
        assert_eq!(time("10s"), Ok(Duration::from_secs(10)));
        assert_eq!((time("10"), time("1.5m")), (Ok(Duration::from_secs(10)), Ok(Duration::from_secs(90))));
        assert_eq!((metres("300m"), metres("40")), (Ok(300), Ok(40)));
        assert_eq!((frame("9K"), frame("9216")), (Ok(9000), Ok(9216)));
        for bad in ["", "ten", "-1s", "1e3s", "1e3", "inf", "nan"] {
            let text = time(bad).unwrap_err();
            assert!(text.contains("write a time as"), "{bad}: {text}");
        }
        assert!(gap("10").unwrap_err().contains("has no unit"));
        assert!(frame("nine").unwrap_err().contains("write a size as"));
    }

    #[test]
    fn units_are_read_by_every_command_in_the_same_way() {
        let parse = |text: &str| Cli::try_parse_from(words(text)).map_err(|e| e.to_string());
        for good in [
            "weir run x --for 10",
            "weir lab --for 1.5s",
            "weir headroom --rate 100g --cable 40 --mtu 9K",
            "weir headroom --rate 100Gbps --cable 40m --mtu 9KiB --poll-gap 1us",
        ] {
            assert!(parse(good).is_ok(), "{good}: {:?}", parse(good).err());
        }
        let wrong = parse("weir headroom --rate 100G --cable 40m --mtu nine").unwrap_err();
        assert!(wrong.contains("write a size as"), "{wrong}");
    }
}
