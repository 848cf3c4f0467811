//! `weir doctor`: what on this machine stands in the way of a switch, and what to do about it.

use crate::Outcome;
use crate::check;
use crate::machine::{Hugepages, Machine, list};
use crate::output::OUT;
use crate::run::af_packet;
use crate::run::devargs::{self, address};
use crate::run::devices;
use crate::run::kernel;
use crate::run::memory::PoolSize;
use crate::run::mgmt;
use crate::which::Which;
use anyhow::Result;
use clap::Args;
use serde_json::{Value, json};
use std::path::PathBuf;
use weir_config::{Config, DeviceKind, PfcMode, PortConfig};
use weir_dpdk::args;
use weir_layout::{Grid, counted};
use weir_mgmt::{api, client};

/// `weir doctor`
#[derive(Debug, Args)]
pub struct DoctorArgs {
    /// Configuration the machine is to run; without it, only checks that need none are made.
    pub config: Option<PathBuf>,
    /// JSON.
    #[arg(short, long)]
    pub json: bool,
    /// Which switch.
    #[command(flatten)]
    pub which: Which,
}

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Level {
    Ok,
    Warn,
    Fail,
}

impl Level {
    fn word(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warn => "warn",
            Self::Fail => "FAIL",
        }
    }
}

/// One finding; the remedy is empty where there is nothing to do.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Finding {
    level: Level,
    what: &'static str,
    text: String,
    remedy: String,
}

fn finding(level: Level, what: &'static str, text: impl Into<String>, remedy: impl Into<String>) -> Finding {
    Finding { level, what, text: text.into(), remedy: remedy.into() }
}

fn ok(what: &'static str, text: impl Into<String>) -> Finding {
    finding(Level::Ok, what, text, "")
}

pub fn doctor(args: &DoctorArgs) -> Result<Outcome> {
    let mut findings = Vec::new();
    let config = args.config.as_ref().and_then(|path| match check::load(path) {
        Ok(loaded) => Some(loaded.config),
        // The machine can be looked at all the same.
        Err(error) => {
            let remedy = format!("weir check {}; nothing below knows of it", path.display());
            findings.push(finding(Level::Fail, "config", format!("{error:#}"), remedy));
            None
        }
    });
    // A switch that runs knows its cores and what its drivers show; without one the files must do.
    let running = match args.which.is_said() {
        true => Some(args.which.socket()?),
        // A configuration may be that of another switch.
        false if args.config.is_some() => None,
        false => args.which.socket().ok(),
    };
    let seen =
        running.and_then(|socket| serde_json::from_str(&client::get(&socket, api::SNAPSHOT).ok()?).ok());
    findings.extend(examine(&Machine::here(), config.as_ref(), seen.as_ref()));
    findings.extend(config.as_ref().map(files).into_iter().flatten());
    let text = match args.json {
        true => format!("{:#}\n", json!(findings.iter().map(document).collect::<Vec<_>>())),
        false => table(&findings),
    };
    OUT.text(&text);
    let worst = findings.iter().map(|finding| finding.level).max();
    Ok(if worst == Some(Level::Fail) { Outcome::Bad } else { Outcome::Good })
}

fn document(f: &Finding) -> Value {
    json!({ "level": f.level.word().to_lowercase(), "what": f.what, "text": f.text, "remedy": f.remedy })
}

/// A row for each finding, and one below it for what to do.
fn table(findings: &[Finding]) -> String {
    let mut grid = Grid::new(&["<level", "<what", "<text"]);
    for f in findings {
        grid.push([f.level.word(), f.what, &f.text].map(str::to_owned));
        if !f.remedy.is_empty() {
            grid.push([String::new(), String::new(), format!("-> {}", f.remedy)]);
        }
    }
    grid.body()
}

/// Everything, in the order in which it hurts.
fn examine(machine: &Machine, config: Option<&Config>, running: Option<&Value>) -> Vec<Finding> {
    let workers = workers(config, running);
    let mut found = vec![hugepages(machine, config), locked_memory(machine, config)];
    found.extend(drivers(machine, config));
    found.extend(rights(machine, config));
    found.extend(mtus(machine, config));
    found.extend(cores(machine, &workers));
    found.push(clock(machine));
    found.extend(numa(machine, config));
    found.extend(pfc(machine, config, running));
    found.extend(kernel_ports(config, running));
    found
}

/// Files with tokens and certificates, which management reads.
fn files(config: &Config) -> Vec<Finding> {
    let refused = mgmt::refused_files(&config.mgmt);
    let remedy = "mend the file, or take its key out of the configuration";
    let refused =
        refused.iter().map(|error| finding(Level::Fail, "management", format!("{error:#}"), remedy));
    let misdated = mgmt::misdated(&config.mgmt);
    let misdated = misdated.map(|(what, remedy)| finding(Level::Warn, "management", what, remedy));
    refused.chain(misdated).collect()
}

/// Cores that run workers, as far as anybody says.
fn workers(config: Option<&Config>, running: Option<&Value>) -> Vec<usize> {
    let ports = config.map_or(&[][..], |config| &config.ports);
    let mut cores: Vec<usize> = ports.iter().filter_map(|port| port.lcore).map(usize::from).collect();
    if cores.is_empty()
        && let Some(running) = running
    {
        let lcores = running["lcores"].as_array().into_iter().flatten();
        cores.extend(lcores.filter_map(|row| row["lcore"].as_u64()).map(|core| core as usize));
    }
    cores.sort_unstable();
    cores.dedup();
    cores
}

/// Kernel drivers of a device that DPDK can use: those that hand it over, and those that share it.
pub const DPDK_DRIVERS: [&str; 6] =
    ["vfio-pci", "uio_pci_generic", "igb_uio", "mlx5_core", "mlx4_core", "mana"];

fn needs_hardware(config: Option<&Config>) -> bool {
    config.is_some_and(|config| config.ports.iter().any(|port| port.kind == DeviceKind::Pci))
}

/// Hugepages there are, and those the configuration takes.
fn hugepages(machine: &Machine, config: Option<&Config>) -> Finding {
    const WHAT: &str = "hugepages";
    let pages = machine.hugepages();
    let mebibytes = |of: fn(&Hugepages) -> u64| pages.iter().map(|p| of(p) * p.kibibytes).sum::<u64>() / 1024;
    let (total, free) = (mebibytes(|p| p.total), mebibytes(|p| p.free));
    let there = format!("{total} MiB, {free} free");
    let needed = config.and_then(hugepage_mebibytes);
    let Some(needed) = needed else {
        return match (config.is_some(), free) {
            (true, _) => ok(WHAT, format!("{there}; this configuration takes none")),
            (false, 0) => finding(Level::Warn, WHAT, there, "NICs need them: sysctl vm.nr_hugepages=512"),
            (false, _) => ok(WHAT, there),
        };
    };
    let text = format!("{there}; this configuration takes {needed} MiB");
    if free >= needed {
        return ok(WHAT, text);
    }
    let pages = pages_wanted(&pages, needed);
    let remedy =
        format!("sysctl vm.nr_hugepages={pages} (a switch that runs holds its own), or a smaller [buffer]");
    finding(Level::Fail, WHAT, text, remedy)
}

/// How many hugepages of the smallest size there have to be for so much memory to be free. Those of the first size, the
/// smallest, can be had while the system runs.
pub fn pages_wanted(pages: &[Hugepages], mebibytes: u64) -> u64 {
    let free: u64 = pages.iter().map(|p| p.free * p.kibibytes).sum();
    let (size, have) = pages.first().map_or((2048, 0), |p| (p.kibibytes, p.total));
    have + (mebibytes * 1024).saturating_sub(free).div_ceil(size)
}

/// Memory a configuration takes from hugepages, MiB; `None`: it does without them.
pub fn hugepage_mebibytes(config: &Config) -> Option<u64> {
    let args = devices::eal_args(&config.ports, &config.eal_args, &[]).ok()?;
    let lcores = workers(Some(config), None).len().max(1);
    args::wants_hugepages(&args).then(|| PoolSize::of(config, lcores, 0).mebibytes(lcores))
}

fn locked_memory(machine: &Machine, config: Option<&Config>) -> Finding {
    const WHAT: &str = "memory lock";
    let limits = machine.text("proc/self/limits").unwrap_or_default();
    let line = limits.lines().find_map(|line| line.strip_prefix("Max locked memory"));
    match line.and_then(|line| line.split_whitespace().next()) {
        None => finding(Level::Warn, WHAT, "the limit cannot be read", ""),
        Some("unlimited") => ok(WHAT, "unlimited"),
        Some(bytes) => {
            let enough = bytes.parse::<u64>().is_ok_and(|bytes| bytes >= 1 << 30);
            let level = match (enough, needs_hardware(config)) {
                (true, _) => Level::Ok,
                (false, true) => Level::Fail,
                (false, false) => Level::Warn,
            };
            let remedy =
                if enough { "" } else { "ulimit -l unlimited, or LimitMEMLOCK=infinity in the unit" };
            finding(level, WHAT, format!("{bytes} bytes; VFIO pins all of a switch's memory"), remedy)
        }
    }
}

/// Which driver has the devices of the configuration; without one, those of the network there are.
fn drivers(machine: &Machine, config: Option<&Config>) -> Vec<Finding> {
    const WHAT: &str = "driver";
    let Some(config) = config else {
        let nics = machine.network_devices();
        let one = |(address, driver): (String, Option<String>)| {
            ok(WHAT, format!("{address}: {}", driver.unwrap_or_else(|| "none".into())))
        };
        return nics.into_iter().map(one).collect();
    };
    let mut found = Vec::new();
    for port in config.ports.iter().filter(|port| port.kind == DeviceKind::Pci) {
        let address = address(&port.device);
        let text = |driver: &str| format!("{} ({address}): {driver}", port.name);
        if !machine.exists(&format!("sys/bus/pci/devices/{address}")) {
            let remedy = "lspci lists what there is; write its address into the port's `device`";
            found.push(finding(Level::Fail, WHAT, text("no such device"), remedy));
            continue;
        }
        found.push(match machine.driver(&address).as_deref() {
            Some(driver) if DPDK_DRIVERS.contains(&driver) => ok(WHAT, text(driver)),
            other => finding(
                Level::Fail,
                WHAT,
                text(&format!("bound to {}", other.unwrap_or("nothing"))),
                format!("weir prepare CONFIG, or dpdk-devbind.py -b vfio-pci {address}"),
            ),
        });
        let vfio = machine.driver(&address).as_deref() == Some("vfio-pci");
        if vfio && machine.entries("sys/kernel/iommu_groups").is_empty() {
            let remedy = "boot with intel_iommu=on or amd_iommu=on iommu=pt; in a machine without one: \
                          modprobe vfio enable_unsafe_noiommu_mode=1";
            found.push(finding(Level::Fail, "iommu", "VFIO finds no IOMMU group", remedy));
        }
    }
    found
}

/// What whoever asks may not do; the switch may run as somebody else.
fn rights(machine: &Machine, config: Option<&Config>) -> Option<Finding> {
    let ports = config.map_or(&[][..], |config| &config.ports);
    let (lacking, (what, remedy)) =
        ports.iter().find_map(|port| Some((port, af_packet::lacks_rights(port, machine)?)))?;
    Some(finding(Level::Fail, "rights", format!("{}: {what}", lacking.name), remedy))
}

/// Ports with an interface of the kernel: `mtu` counts the Ethernet header, that of an interface does not, and it takes a
/// VLAN tag besides.
fn mtus(machine: &Machine, config: Option<&Config>) -> Vec<Finding> {
    const WHAT: &str = "mtu";
    const HEADER: u32 = 14;
    const TAG: u32 = 4;
    let mut found = Vec::new();
    for port in config.map_or(&[][..], |config| &config.ports) {
        let interfaces = match port.kind {
            DeviceKind::Pci => machine.interfaces(&address(&port.device)),
            DeviceKind::Vdev => {
                let drivers = ["net_af_packet", "net_af_xdp", "net_tap"];
                devargs::argument(&port.device, &drivers, "iface").into_iter().map(str::to_owned).collect()
            }
            DeviceKind::Ring | DeviceKind::Inc => Vec::new(),
        };
        for interface in interfaces {
            let Some(behind) = machine.mtu(&interface) else { continue };
            let (own, longest) = (u32::from(port.mtu), behind + HEADER + TAG);
            let text = format!(
                "{}: mtu = {own} with the Ethernet header; {interface} has {behind} without, that is frames of up to {} \
                 or {longest} with a VLAN tag",
                port.name,
                behind + HEADER
            );
            found.push(if own > longest {
                let remedy = format!(
                    "ip link set {interface} mtu {}, or mtu = {longest}: it loses longer frames",
                    own - HEADER - TAG
                );
                // A NIC's driver can be told; a port on an interface does not start.
                let level = if port.kind == DeviceKind::Pci { Level::Warn } else { Level::Fail };
                finding(level, WHAT, text, remedy)
            } else if own < behind + HEADER {
                let remedy = format!(
                    "mtu = {longest}, or ip link set {interface} mtu {}: longer frames are dropped",
                    own.saturating_sub(HEADER)
                );
                finding(Level::Warn, WHAT, text, remedy)
            } else {
                ok(WHAT, text)
            });
        }
    }
    found
}

/// What else runs on the cores of the workers.
fn cores(machine: &Machine, workers: &[usize]) -> Vec<Finding> {
    if workers.is_empty() {
        return vec![finding(
            Level::Warn,
            "cores",
            "nobody says which cores the workers have",
            "give a configuration with `lcore`, or look while the switch runs",
        )];
    }
    let names: Vec<String> = workers.iter().map(usize::to_string).collect();
    let names = names.join(",");
    let mut found = Vec::new();
    let allowed = machine.allowed_cpus();
    let beyond: Vec<_> =
        workers.iter().filter(|core| !allowed.is_empty() && !allowed.contains(core)).collect();
    if !beyond.is_empty() {
        let remedy = "choose cores of this machine, or widen the cpuset of the container";
        found.push(finding(Level::Fail, "cores", format!("workers may not run on {beyond:?}"), remedy));
    }
    for (what, path, option) in [
        ("isolation", "sys/devices/system/cpu/isolated", "isolcpus"),
        ("ticks", "sys/devices/system/cpu/nohz_full", "nohz_full"),
    ] {
        let set = machine.text(path).map(|text| list(text.trim())).unwrap_or_default();
        let missing: Vec<_> =
            workers.iter().filter(|core| !set.contains(core)).map(usize::to_string).collect();
        found.push(match missing.is_empty() {
            true => ok(what, format!("{option} covers cores {names}")),
            false => finding(
                Level::Warn,
                what,
                format!("{option} does not cover cores {}", missing.join(",")),
                format!("boot with {option}={names}; a worker that is interrupted polls late, which headroom must cover"),
            ),
        });
    }
    let irqs = machine.irqs_on(workers);
    found.push(match &irqs[..] {
        [] => ok("interrupts", format!("none may go to cores {names}")),
        some => {
            let few: Vec<_> = some.iter().take(8).cloned().collect();
            finding(
                Level::Warn,
                "interrupts",
                format!("{} may go to cores {names}: {}{}", some.len(), few.join(", "), if some.len() > 8 { ", ..." } else { "" }),
                "stop irqbalance and write other cores to /proc/irq/N/smp_affinity_list, or boot with irqaffinity=",
            )
        }
    });
    let slow: Vec<_> = workers
        .iter()
        .filter_map(|core| {
            let path = format!("sys/devices/system/cpu/cpu{core}/cpufreq/scaling_governor");
            machine.text(&path).map(|text| (core, text.trim().to_owned()))
        })
        .filter(|(_, governor)| governor != "performance")
        .map(|(core, governor)| format!("core {core}: {governor}"))
        .collect();
    found.push(match slow.is_empty() {
        true => ok("governor", "performance, or not this machine's to choose"),
        false => finding(Level::Warn, "governor", slow.join(", "), "cpupower frequency-set -g performance"),
    });
    let shared = machine.siblings_among(workers);
    if !shared.is_empty() {
        let text = format!("cores {} are two threads of one core", shared.join(" and "));
        found.push(finding(Level::Warn, "siblings", text, "give each worker a physical core of its own"));
    }
    found
}

fn clock(machine: &Machine) -> Finding {
    const WHAT: &str = "clock";
    let source = machine.text("sys/devices/system/clocksource/clocksource0/current_clocksource");
    let source = source.as_deref().map_or("unknown", str::trim).to_owned();
    let info = machine.text("proc/cpuinfo").unwrap_or_default();
    let steady = ["constant_tsc", "nonstop_tsc"].iter().all(|flag| info.contains(flag));
    match (source.as_str(), steady) {
        ("tsc", _) | (_, true) => ok(
            WHAT,
            format!(
                "{source}, the time-stamp counter is steady: {}",
                if steady { "yes" } else { "the kernel says so" }
            ),
        ),
        _ => finding(
            Level::Warn,
            WHAT,
            format!("{source}, and the processor does not promise a steady time-stamp counter"),
            "rates and pauses are timed by it: boot with tsc=reliable if it is, or choose another machine",
        ),
    }
}

/// A port far from its core pays for every frame.
fn numa(machine: &Machine, config: Option<&Config>) -> Vec<Finding> {
    const WHAT: &str = "numa";
    let nodes = machine.nodes();
    if nodes < 2 {
        return vec![ok(WHAT, "one node")];
    }
    let ports = config.map_or(&[][..], |config| &config.ports);
    let far = ports.iter().filter(|port| port.kind == DeviceKind::Pci).filter_map(|port| {
        let device = machine.node_of_device(&address(&port.device))?;
        let core = machine.node_of_core(usize::from(port.lcore?))?;
        (device != core).then(|| {
            finding(
                Level::Warn,
                WHAT,
                format!("{} is on node {device}, its core on node {core}", port.name),
                format!("choose an lcore of node {device}"),
            )
        })
    });
    let far: Vec<_> = far.collect();
    if far.is_empty() { vec![ok(WHAT, format!("{nodes} nodes, no port far from its core"))] } else { far }
}

/// Whether PFC frames pass between wire and software at each port with lossless priorities.
fn pfc(machine: &Machine, config: Option<&Config>, running: Option<&Value>) -> Vec<Finding> {
    const WHAT: &str = "pfc";
    if let Some(rows) = running.and_then(|running| running["ports"].as_array()) {
        let one = |row: &Value| {
            let word = |key: &str| row[key].as_str().unwrap_or("?").to_owned();
            let mode = word("pfc_mode");
            let text = format!("{} ({}): {mode}; {}", word("port"), word("driver"), word("pfc_frames"));
            match mode.as_str() {
                "off" | "software" => ok(WHAT, text),
                _ => finding(Level::Warn, WHAT, text, remedy(machine, &address(&word("device")))),
            }
        };
        return rows.iter().map(one).collect();
    }
    let Some(config) = config else { return Vec::new() };
    let lossless = config.ports.iter().filter(|port| port.pfc.enable != 0);
    lossless
        .map(|port| match (port.kind, port.pfc.mode, port.pfc.visible) {
            (DeviceKind::Pci, PfcMode::Hardware, _) => finding(
                Level::Warn,
                WHAT,
                format!(
                    "{}: left to the NIC, which does not know how full the switch's buffer is",
                    port.name
                ),
                "only drops at the NIC are prevented; lossless priorities want pfc.mode = \"auto\"",
            ),
            (_, _, Some(true)) => ok(WHAT, format!("{}: software, as pfc.visible says", port.name)),
            (DeviceKind::Pci, ..) => finding(
                Level::Warn,
                WHAT,
                format!(
                    "{}: which driver DPDK has for it, and whether PFC frames pass, is known at start",
                    port.name
                ),
                format!(
                    "start the switch and look again; if they do not: {}",
                    remedy(machine, &address(&port.device))
                ),
            ),
            _ => ok(WHAT, format!("{}: software, the device is virtual", port.name)),
        })
        .collect()
}

/// Ports on interfaces of the kernel: whether hosts there cut their data into frames themselves.
fn kernel_ports(config: Option<&Config>, running: Option<&Value>) -> Vec<Finding> {
    const WHAT: &str = "offloads";
    if let Some(running) = running {
        let rows = |table: &str| running[table].as_array().into_iter().flatten();
        let word = |row: &Value, key: &str| row[key].as_str().unwrap_or_default().to_owned();
        let too_long = |port: &str| {
            let row = rows("drops")
                .find(|row| word(row, "port") == port && word(row, "reason") == "parse.too_long");
            row.and_then(|row| row["frames"].as_u64()).unwrap_or(0)
        };
        return rows("ports")
            .filter(|row| kernel::DRIVERS.contains(&&*word(row, "driver")))
            .map(|row| {
                let port = word(row, "port");
                match too_long(&port) {
                    0 => ok(WHAT, format!("{port}: no frame was longer than its mtu")),
                    frames => finding(
                        Level::Warn,
                        WHAT,
                        format!(
                            "{port}: {} longer than its mtu: a host left cutting them to a NIC",
                            counted(frames, "frame")
                        ),
                        kernel::remedy(&format!("the interface of {port}")),
                    ),
                }
            })
            .collect();
    }
    let ports = config.map_or(&[][..], |config| &config.ports);
    let of = |port: &PortConfig| {
        let interface = kernel::interface(&port.device)?;
        let text =
            format!("{}: hosts behind {interface} must cut their data into frames themselves", port.name);
        Some(finding(Level::Warn, WHAT, text, kernel::remedy(interface)))
    };
    ports.iter().filter_map(of).collect()
}

/// What can be done where PFC frames do not pass. A NIC the kernel has given up cannot be set with the kernel's tools.
fn remedy(machine: &Machine, address: &str) -> String {
    match machine.interfaces(address).first() {
        Some(interface) => format!(
            "dcb pfc set dev {interface} prio-pfc 3:on with pfc.mode = \"hardware\" (the NIC alone, not the switch's \
             buffer), or a NIC that docs/management.md lists"
        ),
        None => {
            "a NIC that docs/management.md lists; pfc.visible = true if you know that they pass".to_owned()
        }
    }
}

#[cfg(test)]
mod tests;
