//! `weir advise`: a configuration for ports, cables and a buffer, each number with its reason; for this switch, or as
//! SONiC's tables for the chip that is planned.
//!
//! Nothing is reckoned here: headrooms are those of `weir headroom`, marking thresholds and the division of the buffer those
//! `weir_config` works out for `"auto"`, written out as numbers.

use crate::Outcome;
use crate::check;
use crate::headroom::{Column, columns, table};
use crate::headroom::{HeadroomArgs, LinkArgs};
use crate::output::{ERR, OUT};
use crate::quantity::{device, gap};
use crate::refusal::refuse;
use crate::run::memory::PoolSize;
use anyhow::{Result, bail};
use clap::Args;
use serde_json::{Value, json};
use std::fmt::Write;
use std::time::Duration;
use weir_config::units::size;
use weir_config::{
    Config, DeviceKind, Diagnostic, MAX_LCORES, device_of, load_for, show_rate, show_size, show_time, sonic,
};
use weir_dataplane::turn::Platform;
use weir_dataplane::types::PRIORITIES;
use weir_layout::{Grid, counted, show_length};

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
    /// Share one headroom pool: the sum of all headrooms, divided by this number.
    #[arg(long, value_name = "RATIO", value_parser = clap::value_parser!(u8).range(2..=64))]
    pub oversubscribe: Option<u8>,
    /// Write SONiC's config_db.json for the chip that is planned, with the headroom of SONiC's formula; the reasons go to
    /// standard error.
    #[arg(long)]
    pub sonic: bool,
    /// Lcores that poll the ports; the number that leaves most of the buffer to share unless given.
    #[arg(long, conflicts_with = "sonic", value_parser = clap::value_parser!(u16).range(1..=MOST_WORKERS as i64))]
    pub lcores: Option<u16>,
    /// Longest gap between two polls of a port, e.g. 10us.
    #[arg(long, default_value = "10us", value_parser = gap)]
    pub poll_gap: Duration,
    /// `device` of every port: its name takes the place of `port` in braces, its number that of `n` in braces. PCI addresses
    /// to be replaced unless given.
    #[arg(long, value_name = "DEVICE", value_parser = device)]
    pub device: Option<String>,
    /// JSON: the configuration as a text (`toml`), or SONiC's tables (`config_db`) and the `reasons`.
    #[arg(short, long)]
    pub json: bool,
}

/// Lcores that can poll ports: one is the main lcore, which does not.
const MOST_WORKERS: u16 = MAX_LCORES as u16 - 1;
/// `--poll-gap` unless given.
const POLL_GAP: Duration = Duration::from_micros(10);
/// The priority that is lossless, and its group and queue (preset `roce-lossless`).
const LOSSLESS: usize = 3;
/// A buffer in which everything has room: what is promised does not depend on how much there is.
const ROOMY: u64 = 1 << 36;

/// Advises.
///
/// # Errors
/// The sums do not fit the buffer: which two numbers clash, and what to change.
pub fn advise(args: &AdviseArgs) -> Result<Outcome> {
    // Rings have no names outside.
    if args.device.as_ref().is_some_and(|device| device != "ring" && device_of(device, "", 0) == *device) {
        let remedy = "write {n} where the number of the port is to stand, or {port} for its name, e.g. \"net_memif{n}\"";
        return Err(refuse("--device", "every port needs a device of its own", remedy));
    }
    if args.sonic {
        let advice = for_hardware(args)?;
        if args.json {
            let tables: Value = serde_json::from_str(&advice.text)?;
            let reasons: Vec<&str> = advice.reasons.lines().collect();
            OUT.json(&json!({ "config_db": tables, "reasons": reasons }));
        } else {
            ERR.text(&advice.reasons);
            OUT.text(&advice.text);
        }
    } else {
        let text = for_this_switch(args)?;
        match args.json {
            true => OUT.json(&json!({ "toml": text })),
            false => OUT.text(&text),
        }
    }
    Ok(Outcome::Good)
}

/// Tables, and why each number is what it is.
struct Advice {
    text: String,
    reasons: String,
}

/// What is decided before a text is written.
struct Plan {
    /// Workers, each with an equal part of the ports; none: no polling loop.
    lcores: u16,
    /// Headroom of a group of a chip, and where it resumes. `None`: this switch.
    fixed: Option<(u64, u64)>,
    /// Headroom of every group of this switch: what the lcore with the most ports asks for. `None`: what each asks for.
    xoff: Option<u64>,
}

impl Plan {
    fn ports_per_lcore(&self, args: &AdviseArgs) -> u16 {
        args.ports.div_ceil(self.lcores.max(1))
    }

    /// A chip has no loop that comes round late.
    fn platform(&self) -> Platform {
        if self.lcores > 0 { Platform::Polled } else { Platform::Simulated }
    }
}

fn headroom_args(args: &AdviseArgs, ports: u16) -> HeadroomArgs {
    HeadroomArgs {
        link: args.link,
        lossless_mtu: None,
        model: None,
        poll_gap: args.poll_gap,
        ports,
        small_packets: 100,
        json: false,
    }
}

/// The text of a configuration; with `found` the numbers it came to stand in it, and why.
fn text(args: &AdviseArgs, plan: &Plan, size: u64, found: Option<&Config>) -> String {
    let mut out = String::new();
    let mut line = |text: String| {
        let _ = writeln!(out, "{text}");
    };
    if plan.lcores > 0 {
        line(format!("[eal]\nargs = [\"-l\", \"0-{}\"]\n", plan.lcores));
    }
    line("[qos]\npreset = \"roce-lossless\"\n".into());
    let LinkArgs { rate, cable, mtu } = args.link;
    let (rate, cable) = (show_rate(rate), show_length(cable));
    line(format!("[port_defaults]\nrate = \"{rate}\"\ncable = \"{cable}\"\nmtu = {mtu}\n"));
    line(format!("[buffer]\nsize = \"{}\"", show_size(size)));
    if plan.fixed.is_some() {
        line("control_bytes = 0  # a chip sets nothing aside for CNPs".into());
    }
    if let Some(ratio) = args.oversubscribe {
        line(format!(
            "over_subscribe_ratio = {ratio}  # the headroom pool holds 1/{ratio} of the sum: not all groups need theirs at once"
        ));
    }
    line("\n[[buffer.profile]]\nname = \"lossless\"".into());
    let mut rows = vec![(
        "dynamic_th = 0".to_owned(),
        "alpha 1: a lone group may hold half of what is shared, N full ones 1/(1 + N) each".to_owned(),
    )];
    if let (None, Some(config)) = (plan.fixed, found) {
        let pg = &config.ports[0].pgs[LOSSLESS];
        let sum = "headroom: the sum of column `software` above, as it is charged";
        rows.push((format!("xoff = {}", pg.xoff), sum.to_owned()));
        rows.push((
            format!("xon_offset = {}", pg.xon_offset),
            "two frames below the moving limit".to_owned(),
        ));
    }
    line(reasoned(rows));
    match (plan.fixed, found) {
        (Some((xoff, xon)), _) => {
            line(format!("reserved = {xon}\nxoff = {xoff}\nxon = {xon}\nxon_offset = 0"))
        }
        (None, Some(_)) => {}
        (None, None) => line(plan.xoff.map_or("xoff = \"auto\"".into(), |xoff| format!("xoff = {xoff}"))),
    }
    line(format!("\n[pfc]\npoll_gap = \"{}\"\n", show_time(args.poll_gap.as_nanos() as u64)));
    if let Some(config) = found {
        reasons_of_marking(config, &mut line);
        reasons_of_watchdog(config, &mut line);
    }
    for i in 0..args.ports {
        let device = match &args.device {
            Some(device) => device_of(device, &format!("Ethernet{i}"), i.into()),
            None => format!("0000:{:02x}:00.{}", 1 + i / 2, i % 2),
        };
        line(format!("\n[[port]]\nname = \"Ethernet{i}\"\ndevice = \"{device}\""));
        if plan.lcores > 0 {
            line(format!("lcore = {}", 1 + i / plan.ports_per_lcore(args)));
        }
    }
    out
}

/// Assignments, and why each has that value, as comments.
fn reasoned(rows: impl IntoIterator<Item = (String, String)>) -> String {
    let mut grid = Grid::new(&["<key = value", "<# why"]);
    rows.into_iter().for_each(|(assigned, why)| grid.push([assigned, format!("# {why}")]));
    grid.body().trim_end().to_owned()
}

/// Why a key has the value that was worked out for it.
fn why(config: &Config, key: &str) -> String {
    config.explain().into_iter().find(|row| row.key == key).map_or(String::new(), |row| row.why)
}

fn reasons_of_marking(config: &Config, line: &mut impl FnMut(String)) {
    let Some(wred) = config.ports[0].queues[LOSSLESS].wred else { return };
    let why = |what: &str| why(config, &format!("port.{}.queue.{LOSSLESS}.{what}", config.ports[0].name));
    line("[[wred]]\nname = \"roce\"".into());
    line(reasoned([
        (format!("kmin = {}", wred.kmin), why("kmin")),
        (format!("kmax = {}", wred.kmax), why("kmax")),
        ("pmax = \"20%\"".to_owned(), "at kmax, as HPCC's simulations have it".to_owned()),
    ]));
}

fn reasons_of_watchdog(config: &Config, line: &mut impl FnMut(String)) {
    let Some(watchdog) = config.watchdog else { return };
    let time = |key: &str, ns: u64| {
        (format!("{key} = \"{}ms\"", ns.div_ceil(1_000_000)), why(config, &format!("watchdog.{key}")))
    };
    line("\n[watchdog]".into());
    line(reasoned([
        ("action = \"drop\"".to_owned(), "a storm must not spread upstream".to_owned()),
        time("detection_time", watchdog.detection),
        time("restoration_time", watchdog.restoration),
    ]));
}

/// Bytes nobody may share, under the plan.
fn promised(args: &AdviseArgs, plan: &Plan) -> Result<Config> {
    let text = text(args, plan, ROOMY, None);
    read_back(&text, plan)
}

/// With so many lcores: one headroom for all groups, and what that promises.
fn on_lcores(args: &AdviseArgs, lcores: u16) -> Result<(Plan, Config)> {
    let auto = promised(args, &Plan { lcores, fixed: None, xoff: None })?;
    let xoff = auto.ports.iter().map(|port| port.pgs[LOSSLESS].xoff).max();
    let plan = Plan { lcores, fixed: None, xoff };
    let config = promised(args, &plan)?;
    Ok((plan, config))
}

/// Options, and the keys their values are written to.
const OPTIONS: [(&str, &str); 8] = [
    ("--rate", "rate"),
    ("--cable", "cable"),
    ("--mtu", "mtu"),
    ("--buffer", "size"),
    ("--oversubscribe", "over_subscribe_ratio"),
    ("--poll-gap", "poll_gap"),
    ("--device", "device"),
    ("--lcores", "lcore"),
];

/// What a text of this command comes to, on what the plan is for.
///
/// # Errors
/// A value is refused: the option it was given with, where there is one. What else is wrong may follow from it.
fn read_back(text: &str, plan: &Plan) -> Result<Config> {
    let found = match load_for(plan.platform(), "advice", text) {
        Ok(loaded) => return Ok(loaded.config),
        Err(found) => found,
    };
    let option_of = |diagnostic: &Diagnostic| {
        let line = text.lines().nth(diagnostic.line.checked_sub(1)?)?;
        let (key, _) = line.split_once('=')?;
        OPTIONS.iter().find(|(_, written)| *written == key.trim()).map(|(option, _)| *option)
    };
    let of_option = |diagnostic: &Diagnostic| Some((option_of(diagnostic)?, diagnostic.clone()));
    if let Some(late) = found.iter().find(|diagnostic| diagnostic.rule == "pfc.refresh") {
        let (option, remedy) = match plan.platform() {
            Platform::Polled => ("--lcores", "give more --lcores, a shorter --poll-gap, or fewer --ports"),
            Platform::Simulated => ("--poll-gap", "give a shorter --poll-gap, or a lower --rate"),
        };
        return Err(refuse(option, of_one(&late.message), remedy));
    }
    Err(match found.iter().filter(|diagnostic| diagnostic.is_error()).find_map(of_option) {
        Some((option, of)) => refuse(option, of_one(&of.message), of.remedy),
        None => check::refused("advice", &found),
    })
}

/// What is said of all ports alike, said of the option: without the key of the first port, and the others.
fn of_one(message: &str) -> &str {
    let message = message.strip_prefix("port.Ethernet0.").unwrap_or(message);
    message.split(" (the same of ").next().unwrap_or(message)
}

/// The sums fit: what is shared must hold two frames for each group that may be full.
fn fits(args: &AdviseArgs, roomy: &Config) -> Result<()> {
    let b = &roomy.buffer;
    let groups = u64::from(args.ports);
    let least = 2 * u64::from(args.link.mtu) * (1 + groups);
    let needed = b.promised().saturating_add(least);
    if needed <= args.buffer {
        return Ok(());
    }
    let other = needed - b.headroom;
    let mut change = format!("--buffer {}MiB or more", needed.div_ceil(1 << 20));
    let sum = roomy.ports.iter().flat_map(|p| &p.pgs).map(|pg| pg.xoff).fold(0, u64::saturating_add);
    let ratio = args
        .buffer
        .checked_sub(other)
        .and_then(|room| sum.checked_add(room)?.checked_sub(1)?.checked_div(room));
    // A pool holds at least what one group may need.
    if let Some(ratio) = ratio.filter(|ratio| (2..=groups.min(64)).contains(ratio)) {
        let _ = write!(change, ", --oversubscribe {ratio} (the groups share their headroom)");
    }
    let loops = if args.sonic { "" } else { ", a shorter --poll-gap" };
    let what = format!(
        "{} ports need {needed} bytes and the buffer has {}: headroom {} ({} for each of {groups} groups) + reserved {} + control {} + \
         staleness {} + {least} to share, two frames of {} for each group when all are full",
        args.ports,
        args.buffer,
        b.headroom,
        roomy.ports[0].pgs[LOSSLESS].xoff,
        b.reserved,
        b.control_bytes,
        b.staleness,
        args.link.mtu
    );
    let remedy = format!("give {change}, a shorter --cable, a smaller --mtu{loops}, or fewer --ports");
    Err(refuse("--buffer", what, remedy))
}

/// Headroom three ways, and the division of the buffer, as comments.
fn head(args: &AdviseArgs, config: &Config, ways: &[Column]) -> String {
    let b = &config.buffer;
    let groups = config.ports.iter().flat_map(|p| &p.pgs).filter(|pg| pg.lossless).count() as u64;
    let mut out = String::new();
    let mut given = format!(
        "weir advise --ports {} --rate {} --cable {} --mtu {} --buffer {}",
        args.ports,
        show_rate(args.link.rate),
        show_length(args.link.cable),
        args.link.mtu,
        show_size(args.buffer)
    );
    let mut also = |option: &str, value: Option<String>| {
        if let Some(value) = value {
            let _ = write!(given, " {option} {value}");
        }
    };
    also("--oversubscribe", args.oversubscribe.map(|ratio| ratio.to_string()));
    also("--lcores", args.lcores.map(|lcores| lcores.to_string()));
    also(
        "--poll-gap",
        Some(args.poll_gap).filter(|gap| *gap != POLL_GAP).map(|gap| show_time(gap.as_nanos() as u64)),
    );
    also("--device", args.device.as_ref().map(|device| format!("'{device}'")));
    if args.sonic {
        given.push_str(" --sonic");
    }
    let _ = writeln!(out, "# {given}\n#\n# Headroom of a lossless group, three ways:\n#");
    for line in table(ways) {
        let _ = writeln!(out, "{}", format!("#   {line}").trim_end());
    }
    let _ = writeln!(out, "#\n# The buffer: {} = {} to share.", b.division(), b.shared);
    let _ = writeln!(
        out,
        "# Xoff by alpha, of a group alone and of each of {groups} full ones (a / (1 + N a) of that, and its reserve):"
    );
    let mut grid = Grid::new(&["<dynamic_th", ">alone", ">each", "<which"]);
    for n in -2..=2i32 {
        // In quarters, so that alpha is a whole number.
        let alpha = 1u64 << (n + 2);
        let point =
            |users: u64| b.shared * alpha / (4 + users * alpha) + config.ports[0].pgs[LOSSLESS].reserved;
        let chosen = if n == 0 { "this file" } else { "" };
        grid.push([
            format!("#   dynamic_th {n}"),
            point(1).to_string(),
            point(groups).to_string(),
            chosen.to_owned(),
        ]);
    }
    out + &grid.body()
}

/// The lcores that leave most to share: each port added to one makes it look later at all of them, each lcore more may
/// have admitted a burst before it says so.
fn best(args: &AdviseArgs) -> Result<(Plan, Config)> {
    let counts: Vec<u16> = match args.lcores {
        Some(lcores) => vec![lcores.min(args.ports)],
        // More than one port fits into the gap of an lcore, so half as many as there are ports are enough to try.
        None => (1..=args.ports.div_ceil(2).min(MOST_WORKERS)).collect(),
    };
    let mut best: Option<(Plan, Config)> = None;
    let mut refused = None;
    for lcores in counts {
        // The same ports on each: another number of lcores with as many is a waste of one.
        let (plan, config) = match on_lcores(args, lcores) {
            Ok(found) => found,
            // Too few, perhaps, to look at every port in time: the most there are say what is wrong.
            Err(error) => {
                refused = Some(error);
                continue;
            }
        };
        if best.as_ref().is_none_or(|(_, known)| config.buffer.promised() < known.buffer.promised()) {
            best = Some((plan, config));
        }
    }
    best.ok_or_else(|| refused.unwrap_or_else(|| anyhow::anyhow!("no lcore to poll the ports")))
}

fn for_this_switch(args: &AdviseArgs) -> Result<String> {
    let (plan, roomy) = best(args)?;
    fits(args, &roomy)?;
    let config = read_back(&text(args, &plan, args.buffer, None), &plan)?;
    let ways = columns(&headroom_args(args, plan.ports_per_lcore(args)), config.ports[0].kind)?;
    let lcores = usize::from(plan.lcores);
    let memory = format!(
        "# {}, {} each at most: of all divisions this one leaves most to share.\n\
         # Memory for frames: {} MiB of hugepages, for buffer.frames = {} (size / 64) on each lcore.\n\n",
        counted(lcores, "lcore"),
        counted(plan.ports_per_lcore(args), "port"),
        PoolSize::of(&config, lcores, 0).mebibytes(lcores),
        config.buffer.frames
    );
    let text = head(args, &config, &ways) + &memory + &text(args, &plan, args.buffer, Some(&config));
    read_back(&text, &plan)?;
    Ok(text)
}

fn for_hardware(args: &AdviseArgs) -> Result<Advice> {
    let ways = columns(&headroom_args(args, 1), DeviceKind::Pci)?;
    let Some(chip) = ways.iter().find(|way| way.name == "sonic") else { bail!("no column of SONiC's") };
    let plan = Plan { lcores: 0, fixed: Some((chip.result.xoff, chip.xon)), xoff: None };
    fits(args, &promised(args, &plan)?)?;
    let config = read_back(&text(args, &plan, args.buffer, None), &plan)?;
    let made = sonic::export(&config);
    let mut reasons = head(args, &config, &ways);
    let _ = writeln!(
        reasons,
        "# BUFFER_PROFILE xoff and xon: column `sonic`; size: xon, and xoff unless a pool is shared."
    );
    let mut line = |text: String| {
        text.lines().for_each(|text| {
            let _ = writeln!(reasons, "# {text}");
        });
    };
    reasons_of_marking(&config, &mut line);
    reasons_of_watchdog(&config, &mut line);
    reasons.push_str(&sonic::report(&made.notes));
    Ok(Advice { text: made.json, reasons })
}

const _: () = assert!(LOSSLESS < PRIORITIES);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::{Cli, Command};
    use clap::Parser;
    use weir_config::load;

    fn args(more: &str) -> AdviseArgs {
        let line = format!("weir advise {more}");
        match Cli::parse_from(line.split_whitespace()).command {
            Command::Advise(args) => args,
            _ => panic!("{line}"),
        }
    }

    const FABRIC: &str = "--ports 32 --rate 100G --cable 100m --mtu 9216 --buffer 32MiB";

    #[test]
    fn advice_is_a_configuration_whose_numbers_are_those_of_auto() {
        for more in [
            FABRIC,
            "--ports 4 --rate 25G --cable 5m --mtu 1518 --buffer 4MiB",
            "--ports 2 --rate 1G --cable 2km --mtu 4200 --buffer 1MiB --lcores 1",
        ] {
            let args = args(more);
            let text = for_this_switch(&args).unwrap_or_else(|e| panic!("{more}: {e}"));
            let loaded = load("t", &text).unwrap();
            assert!(loaded.warnings.is_empty(), "{:?}", loaded.warnings);
            let config = loaded.config;
            assert_eq!((config.ports.len(), config.buffer.size), (usize::from(args.ports), args.buffer));
            let numbers = |c: &Config| {
                let port = &c.ports[c.ports.len() - 1];
                (
                    port.pgs[LOSSLESS].xoff,
                    port.pgs[LOSSLESS].xon_offset,
                    port.queues[LOSSLESS].wred,
                    c.watchdog,
                    c.buffer.shared,
                )
            };
            let plan = Plan { xoff: None, ..best(&args).unwrap().0 };
            let auto = super::text(&args, &plan, args.buffer, None);
            assert_eq!(numbers(&config), numbers(&load("t", &auto).unwrap().config));
            assert!(text.contains("# Memory for frames: "), "{text}");
            // The column it was taken from stands above it, and every number that was chosen has a reason.
            let xoff = config.ports[0].pgs[LOSSLESS].xoff.to_string();
            assert!(text.lines().any(|l| l.starts_with("#   xoff ") && l.contains(&xoff)), "{text}");
            for key in
                ["dynamic_th", "xoff", "xon_offset", "kmin", "kmax", "pmax", "action", "detection_time"]
            {
                let line = text
                    .lines()
                    .find(|l| l.starts_with(&format!("{key} =")))
                    .unwrap_or_else(|| panic!("{key}"));
                assert!(line.split('#').nth(1).is_some_and(|why| why.len() > 5), "{line}");
            }
        }
    }

    /// Ports that cannot be divided evenly: lcores with fewer of them would need less headroom, and the file has one for all.
    #[test]
    fn what_stands_above_the_file_is_what_it_comes_to() {
        for line in [
            "--ports 31 --rate 40G --cable 1m --mtu 9216 --buffer 256MiB",
            "--ports 31 --rate 40G --cable 1m --mtu 9216 --buffer 16MiB",
            "--ports 5 --rate 25G --cable 10m --mtu 1518 --buffer 8MiB --lcores 3",
        ] {
            let text = for_this_switch(&args(line)).unwrap();
            let loaded = load("t", &text).unwrap();
            assert!(loaded.warnings.is_empty(), "{line}: {:?}", loaded.warnings);
            let b = &loaded.config.buffer;
            let said = format!("# The buffer: {} = {} to share.", b.division(), b.shared);
            assert!(text.contains(&said), "{line}: {said}\n{text}");
            // What is chosen for a file that does not say when to mark.
            let kept = |l: &&str| !l.starts_with("kmin") && !l.starts_with("kmax");
            let unsaid: String = text.lines().filter(kept).map(|l| format!("{l}\n")).collect();
            let marks = |c: &Config| c.ports[0].queues[LOSSLESS].wred.map(|wred| (wred.kmin, wred.kmax));
            let auto = load("t", &unsaid).unwrap().config;
            assert_eq!(marks(&loaded.config), marks(&auto), "{line}");
        }
    }

    /// Whatever is worked out is within the range of its key, and as many lcores are chosen as it takes.
    #[test]
    fn advice_is_read_back_at_every_rate_and_number_of_ports() {
        let slow = for_this_switch(&args("--ports 2 --rate 1M --cable 1m --buffer 1GiB")).unwrap();
        let detection = slow.lines().find(|l| l.starts_with("detection_time")).unwrap();
        assert!(
            detection.contains("\"5000ms\"") && detection.contains("# the longest there is"),
            "{detection}"
        );
        assert!(for_hardware(&args("--ports 2 --rate 5M --cable 1m --buffer 1GiB --sonic")).is_ok());
        for (line, least) in [
            ("--ports 140 --rate 100G --cable 1m --buffer 1GiB", 2),
            ("--ports 256 --rate 10G --cable 1m --buffer 1GiB", 1),
            ("--ports 256 --rate 10G --cable 1m --buffer 1GiB --lcores 127", 86),
        ] {
            let text = for_this_switch(&args(line)).unwrap_or_else(|e| panic!("{line}: {e}"));
            let lcores = load("t", &text).unwrap().config.ports.iter().filter_map(|p| p.lcore).max().unwrap();
            assert!((least..=127).contains(&lcores), "{line}: {lcores}");
        }
        let few = for_this_switch(&args("--ports 200 --rate 100G --cable 1m --buffer 1GiB --lcores 1"));
        let told = crate::refusal::document(&few.unwrap_err(), "weir advise");
        assert_eq!(told["faults"][0]["path"], "--lcores", "{told:#}");
        assert!(told["faults"][0]["remedy"].as_str().unwrap().contains("more --lcores"), "{told:#}");
    }

    /// One number is one number: what kmin is half of is what a group has in the table.
    #[test]
    fn the_limit_of_a_full_group_is_one_number() {
        let toml = for_this_switch(&args(FABRIC)).unwrap();
        let (_, half) = toml.split_once("\nkmin = ").unwrap();
        let limit = half.split_once("half of ").unwrap().1.split_once(',').unwrap().0;
        let row = toml.lines().find(|line| line.ends_with("this file")).unwrap();
        assert_eq!(row.split_whitespace().nth(4), Some(limit), "{toml}");
        let small = "--ports 2 --rate 1G --cable 5m --mtu 1518 --buffer 8MiB --lcores 1";
        let one = for_this_switch(&args(small)).unwrap();
        assert!(one.contains("# 1 lcore, 2 ports each at most"), "{one}");
    }

    /// A ring holds another number of frames than a NIC sends in a gap.
    #[test]
    fn the_software_column_is_of_the_device_that_is_configured() {
        let mut sums = Vec::new();
        for device in ["", " --device ring", " --device net_af_packet{n},iface=e{n}"] {
            let line = FABRIC.replace("32MiB", "128MiB");
            let args = args(&format!("{line} --lcores 8{device}"));
            let plan = Plan { lcores: 8, fixed: None, xoff: None };
            let config = promised(&args, &plan).unwrap();
            let why = why(&config, "port.Ethernet0.xoff");
            let asked = headroom_args(&args, plan.ports_per_lcore(&args));
            let ways = columns(&asked, config.ports[0].kind).unwrap();
            for term in ways[0].result.terms.iter().filter(|term| term.bytes > 0) {
                let term = format!("{} {} ({})", term.name, term.bytes, term.formula);
                assert!(why.contains(&term), "{device}: {term}: {why}");
            }
            let text = for_this_switch(&args).unwrap();
            let xoff = text.lines().find(|line| line.starts_with("#   xoff ")).unwrap();
            assert_eq!(xoff.split_whitespace().nth(2), Some(&*ways[0].result.xoff.to_string()), "{text}");
            sums.push(ways[0].result.xoff);
        }
        assert!(sums[0] == sums[2] && sums[0] != sums[1], "{sums:?}");
    }

    /// As those of `weir config import`; and of a text that is never printed no line is cited.
    #[test]
    fn a_device_has_the_number_of_its_port_its_name_or_both() {
        let line = "--ports 2 --rate 1G --cable 5m --mtu 1518 --buffer 8MiB --lcores 1";
        let devices = |device: &str| {
            let args = args(&format!("{line} --device {device}"));
            let text = for_this_switch(&args)?;
            let found: Vec<String> =
                load("t", &text).unwrap().config.ports.into_iter().map(|p| p.device).collect();
            anyhow::Ok(found)
        };
        assert_eq!(
            devices("net_af_packet{n},iface={port}").unwrap(),
            ["net_af_packet0,iface=Ethernet0", "net_af_packet1,iface=Ethernet1"]
        );
        let error = devices("net_af_packet{n},iface=w0").unwrap_err().to_string();
        assert!(error.contains("`w0` is already used;") && !error.contains("line"), "{error}");
        let cli = Cli::try_parse_from(format!("weir advise {line} --device a\"{{n}}").split(' '));
        assert!(cli.is_err_and(|error| error.to_string().contains("quotes")));
    }

    /// Typed again it is the same advice.
    #[test]
    fn the_head_has_every_option_that_was_given() {
        for more in [
            "",
            " --oversubscribe 2 --lcores 4 --poll-gap 20us --device net_af_packet{n},iface=e{n}",
            " --sonic",
        ] {
            let line = FABRIC.replace("100m", "100.5m") + more;
            let args = args(&line);
            let config = promised(&args, &Plan { lcores: 1, fixed: None, xoff: None }).unwrap();
            let head = head(&args, &config, &columns(&headroom_args(&args, 1), DeviceKind::Pci).unwrap());
            let given = head.lines().next().unwrap().trim_start_matches("# weir advise ").replace('\'', "");
            assert_eq!(given, line);
            assert_eq!(config.ports[0].cable_mm, Some(100_500));
        }
    }

    #[test]
    fn advice_for_a_chip_is_sonics_tables_with_sonics_headroom() {
        let args = args(&format!("{FABRIC} --sonic"));
        let advice = for_hardware(&args).unwrap();
        let xoff = columns(&headroom_args(&args, 1), DeviceKind::Pci).unwrap().remove(2).result.xoff;
        let made = sonic::import(&[("config_db.json", &advice.text)], &sonic::Options::default()).unwrap();
        let config = load("t", &made.toml).unwrap().config;
        assert_eq!((config.ports.len(), config.ports[31].pgs[LOSSLESS].xoff), (32, xoff));
        assert_eq!(config.buffer.size, args.buffer);
        assert!(advice.reasons.contains("software") && advice.reasons.contains("kmax"), "{}", advice.reasons);
    }

    /// Those of a chip do not depend on what lcores can look at in time, and come back.
    #[test]
    fn advice_for_a_chip_needs_no_lcores_and_is_read_back_at_every_size() {
        let buffer = |ports: u16| format!("{}MiB", u32::from(ports) * 8);
        let large = [(64, "400G"), (128, "100G"), (32, "800G"), (33, "400G"), (256, "100G")];
        for (ports, rate) in large {
            let size = buffer(ports);
            let line = format!("--ports {ports} --rate {rate} --cable 300m --mtu 9216 --buffer {size}");
            let chip =
                for_hardware(&args(&format!("{line} --sonic"))).unwrap_or_else(|e| panic!("{line}: {e}"));
            let own = load("t", &for_this_switch(&args(&line)).unwrap()).unwrap().config;
            for json in [chip.text, sonic::export(&own).json] {
                let made = sonic::import(&[("config_db.json", &json)], &sonic::Options::default());
                let made = made.unwrap_or_else(|found| panic!("{line}: {found:?}"));
                let config = load("t", &made.toml).unwrap().config;
                assert_eq!(config.ports.len(), usize::from(ports));
                let lcores = made.notes.iter().filter(|note| note.why.contains("lcores poll the ports"));
                assert_eq!(lcores.count(), 1, "{line}: {:?}", made.notes);
                assert_eq!(sonic::export(&config).json.replace(&config.name, &own.name), json, "{line}");
            }
        }
    }

    #[test]
    fn a_value_that_is_refused_is_told_once_with_its_option() {
        let good = "--ports 4 --rate 100G --cable 5m --mtu 9216 --buffer 16MiB --poll-gap 10us";
        assert!(for_this_switch(&args(good)).is_ok());
        let with = |option: &str, value: &str| {
            let word = good.split_whitespace().skip_while(|word| *word != option).nth(1).unwrap();
            good.replace(&format!("{option} {word}"), &format!("{option} {value}"))
        };
        // What no port can have is refused where the command line is read.
        for (option, value, what) in [
            ("--mtu", "20", "`20` is no mtu of a port, which is 64 to 16128"),
            ("--mtu", "17000", "`17000` is no mtu"),
            ("--rate", "1000", "`1000` is less than 1M: nothing moves"),
            ("--rate", "1bps", "`1bps` is less than 1M"),
            ("--poll-gap", "2ms", "`2ms` is longer than 1ms, the longest poll_gap"),
        ] {
            let line = format!("weir advise {}", with(option, value));
            let told = Cli::try_parse_from(line.split_whitespace()).unwrap_err().to_string();
            assert!(told.contains(option) && told.contains(what), "{line}: {told}");
        }
        let line = with("--buffer", "1");
        for line in [line.clone(), format!("{line} --sonic")] {
            let args = args(&line);
            let outcome =
                if args.sonic { for_hardware(&args).map(|a| a.text) } else { for_this_switch(&args) };
            let told = crate::refusal::document(&outcome.unwrap_err(), "weir advise");
            let faults = told["faults"].as_array().unwrap();
            assert_eq!((faults.len(), &faults[0]["path"]), (1, &json!("--buffer")), "{line}: {told:#}");
        }
    }

    #[test]
    fn sums_that_cannot_be_are_refused_with_both_numbers() {
        let refused = |more: &str| {
            let args = args(more);
            let outcome =
                if args.sonic { for_hardware(&args).map(|a| a.text) } else { for_this_switch(&args) };
            outcome.unwrap_err().to_string()
        };
        let small = "--ports 32 --rate 100G --cable 100m --mtu 9216 --buffer 4MiB";
        for more in [small.to_owned(), format!("{small} --sonic")] {
            let why = refused(&more);
            assert!(
                why.contains("the buffer has 4194304")
                    && why.contains("bytes and")
                    && why.contains("give --buffer"),
                "{why}"
            );
            // What it says is enough is enough.
            let enough = why.split("--buffer ").nth(1).unwrap().split(' ').next().unwrap();
            let again = args(&more.replace("4MiB", enough));
            assert!(
                if again.sonic { for_hardware(&again).is_ok() } else { for_this_switch(&again).is_ok() },
                "{why}"
            );
        }
        let tight = "--ports 32 --rate 100G --cable 100m --mtu 9216 --buffer 5MiB --sonic";
        let why = refused(tight);
        let ratio = why.split("--oversubscribe ").nth(1).unwrap_or_else(|| panic!("{why}"));
        let ratio = ratio.split(' ').next().unwrap();
        let shared = for_hardware(&args(&format!("{tight} --oversubscribe {ratio}")));
        assert!(shared.is_ok(), "{why}: {:?}", shared.err());
    }
}
