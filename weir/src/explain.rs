//! `weir explain`: what would happen to a frame, on the running switch or on one that is only written down.

use crate::Outcome;
use crate::check;
use crate::output::OUT;
use crate::refusal::refuse;
use crate::which::Which;
use anyhow::Result;
use clap::Args;
use std::path::Path;
use std::path::PathBuf;
use weir_config::runtime::{Device, switch_params};
use weir_config::units::size;
use weir_config::{Config, workers};
use weir_dataplane::explain::{Explanation, Occupancy, explain as ask};
use weir_dataplane::mmu::Held;
use weir_dataplane::types::{Mac, PRIORITIES};
use weir_layout::grouped;
use weir_mgmt::admin::Fault;
use weir_mgmt::admin::explain::{Question, answer, fault as why, text};
use weir_mgmt::api::documents::{ExplainedFrame, json};
use weir_mgmt::mcast::McastReading;
use weir_mgmt::{api, client};

/// `weir explain`
#[derive(Debug, Args)]
pub struct ExplainArgs {
    /// Configuration file, for a switch that does not run; the running switch, as it is now, unless given.
    pub config: Option<PathBuf>,
    /// Port the frame arrives on.
    #[arg(long)]
    pub port: String,
    /// Port or LAG it leaves by, of a LAG the member whose queue is the fullest; the port whose queue is the fullest unless given. Of a
    /// frame with several copies the one to be shown.
    #[arg(long)]
    pub to: Option<String>,
    /// Its destination address: it goes where the forwarding table says.
    #[arg(long, value_name = "ADDRESS", conflicts_with_all = ["flood", "group"])]
    pub dst: Option<String>,
    /// Bytes, without FCS.
    #[arg(long, default_value_t = 1024)]
    pub len: u32,
    /// DSCP of its IP header.
    #[arg(long)]
    pub dscp: Option<u8>,
    /// PCP of its VLAN tag.
    #[arg(long)]
    pub pcp: Option<u8>,
    /// VID of its VLAN tag; with --pcp alone it is a priority tag, VID 0.
    #[arg(long)]
    pub vid: Option<u16>,
    /// Its AFH traffic-class octet.
    #[arg(long)]
    pub tc: Option<u8>,
    /// Its ECN code point; ect0 unless given, if it is IP.
    #[arg(long, value_parser = ["not-ect", "ect1", "ect0", "ce"])]
    pub ecn: Option<String>,
    /// What it is: CNP and ACK frames have a class of their own.
    #[arg(long, default_value = "data", value_parser = ["data", "cnp", "ack", "lldp"])]
    pub kind: String,
    /// Treat it as flooded, of this kind: the flood limits of the arrival port apply.
    #[arg(long, value_parser = ["broadcast", "unknown_unicast", "multicast"])]
    pub flood: Option<String>,
    /// Multicast group it is for, an IP or MAC address: it goes where the group is joined, and to routers.
    #[arg(long, value_name = "ADDRESS", conflicts_with = "flood")]
    pub group: Option<String>,
    /// With a file: bytes its priority group holds, without those in headroom, e.g. 200KB.
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
    /// Which switch.
    #[command(flatten)]
    pub which: Which,
}

pub fn explain(args: &ExplainArgs) -> Result<Outcome> {
    let question = question(args);
    let document = match &args.config {
        Some(path) => on_paper(path, args, &question)?,
        None => {
            let query: Vec<String> =
                question.0.iter().map(|(name, value)| format!("{name}={}", client::encode(value))).collect();
            let target = format!("{}?{}", api::EXPLAIN, query.join("&"));
            let answer = client::get(&args.which.socket()?, &target)?;
            client::read(&answer)?
        }
    };
    OUT.text(&if args.json { format!("{:#}\n", json(&document)) } else { text(&document) });
    Ok(Outcome::Good)
}

fn question(args: &ExplainArgs) -> Question {
    let number = |n: Option<u8>| n.map(|n| n.to_string());
    let all = [
        ("port", Some(args.port.clone())),
        ("to", args.to.clone()),
        ("dst", args.dst.clone()),
        ("len", Some(args.len.to_string())),
        ("dscp", number(args.dscp)),
        ("pcp", number(args.pcp)),
        ("vid", args.vid.map(|vid| vid.to_string())),
        ("tc", number(args.tc)),
        ("ecn", args.ecn.clone()),
        ("kind", Some(args.kind.clone())),
        ("flood", args.flood.clone()),
        ("group", args.group.clone()),
    ];
    Question(all.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect())
}

/// Refuses what no switch of this configuration can hold.
fn check_occupancy(args: &ExplainArgs, config: &Config, plain: &Explanation) -> Result<()> {
    let of_group = plain.group.as_ref().map(|group| group.before);
    let (reserved, headroom) = of_group.map_or((0, 0), |group| (group.reserved, group.headroom_limit));
    let shared = config.buffer.shared;
    let control = plain.group.as_ref().is_some_and(|group| group.control.is_some());
    let used = if control { config.buffer.control_bytes } else { reserved + shared };
    // The control pool has nothing of what all share.
    let of_pool = if control { 0 } else { args.used };
    for (option, asked, most, of) in [
        ("--used", args.used, used, "what its group may hold without headroom"),
        ("--headroom-used", args.headroom_used, headroom, "the headroom of its group"),
        ("--others", args.others, shared, "the shared pool"),
        (
            "--used and --others",
            of_pool.saturating_add(args.others),
            reserved + shared,
            "what there is of the pool",
        ),
        ("--queued", args.queued, config.buffer.size, "the buffer"),
    ] {
        if asked > most {
            let detail = format!("{} bytes are more than {of}, {}", grouped(asked), grouped(most));
            return Err(refuse(option, detail, "weir check FILE --explain shows the division of the buffer"));
        }
    }
    Ok(())
}

/// A switch that does not run, holding what the command line says.
fn on_paper(path: &Path, args: &ExplainArgs, question: &Question) -> Result<ExplainedFrame> {
    let config = check::load(path)?.config;
    // The drivers would be asked; on paper they can do all that is asked of them.
    let device = Device { mac: Mac::default(), pfc: true, ..Device::default() };
    // One shard answers, of a buffer that is divided for all of them.
    let params = switch_params(&config, &vec![device; config.ports.len()], workers(&config.ports))?;
    let fault = |fault: Box<Fault>| {
        refuse(format!("--{}", fault.path), fault.detail, "weir explain --help says what it takes")
    };
    // Nobody has joined any group yet.
    let mcast = McastReading::default();
    let (asked, _) = question.asked(&config, &params, &mcast, None).map_err(fault)?;
    // What it is charged to does not depend on what is held; what becomes of it follows from that.
    let plain = ask(&params, &Occupancy::default(), &asked).map_err(|error| fault(why(error)))?;
    check_occupancy(args, &config, &plain)?;
    let n = config.ports.len() * PRIORITIES;
    let mut seen = Occupancy { groups: vec![Held::default(); n], queues: vec![0; n], ..Occupancy::default() };
    let group = plain.group.as_ref().map_or(usize::MAX, |group| group.ix.0 as usize);
    match seen.groups.get_mut(group) {
        Some(held) => {
            *held = Held { used: args.used, headroom: args.headroom_used, xoff: args.headroom_used > 0 };
        }
        // Behind those of the ports is the control pool.
        None => seen.control = vec![args.used],
    }
    // What counts is what it leaves of the pool: the port that is asked about has nothing of it, unless there is no other.
    let of_port = |i: &usize| i / PRIORITIES == asked.port.index();
    let other = (0..n).find(|i| !of_port(i)).or_else(|| (0..n).find(|i| *i != group)).unwrap_or(0);
    seen.groups[other].used += if args.others > 0 { args.others + params.mmu.pgs[other].reserved } else { 0 };
    if let (Some(copy), Some(class)) = (plain.shown, plain.class) {
        seen.queues[copy.out.index() * PRIORITIES + usize::from(class.queue)] = args.queued;
    }
    answer(&config, &params, &seen, &mcast, None, question).map_err(fault)
}
