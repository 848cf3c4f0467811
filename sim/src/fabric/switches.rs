//! Switches from the weir configuration of a spec: the same checks, presets and defaults as on DPDK.

use super::FabricError;
use super::faults::Faults;
use super::multicast::{self, GroupPorts};
use super::policy::{self, Buffer, Policy};
use super::rclink;
use super::sim_frame::SimFrame;
use super::source::{self, Source};
use super::spec::{self, CoreKind, FabricSpec, FlowControlKind, LinkSpec, Protocol};
use super::topology::{Plan, hop_mac, key_of_delay, key_of_rate};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use toml::{Table, Value};
use weir_config::runtime::{Device, input_params, switch_params};
use weir_config::{Config, Diagnostic, Loaded, Memories, PortRate};
use weir_dataplane::switch::{Switch, UnknownUnicast};
use weir_dataplane::turn::Platform;
use weir_dataplane::types::{Mac, PortId};

/// A switch of a fabric, whatever its buffer policy.
pub(super) type FabricSwitch = Switch<SimFrame, Buffer>;

/// Signal speed in a cable: 5 ns per metre.
const NS_PER_METRE: u64 = 5;
/// Frames with several destinations that a switch holds at once.
const COPIED: usize = 1024;

/// Keys of the configuration of a switch that a fabric has an answer for itself, and which.
pub(super) const NOT_OF_A_FABRIC: [(&str, &str); 26] = [
    ("port", "the topology makes the ports"),
    ("mirror", "no host looks at copies"),
    ("lag", "routing divides flows among links"),
    ("eal", "a fabric has no DPDK"),
    ("switch", "the topology names its switches, and `seed` is that of all"),
    ("fdb", "routes are the tables of switches: nothing is learnt, aged or flooded"),
    ("lldp", "neighbours are known"),
    ("lacp", "there are no LAGs"),
    ("mcast_snooping", "groups are those of the workloads"),
    ("mgmt", "nobody looks at a switch while it is played"),
    ("lab", "the traffic is that of [[workload]]"),
    ("port_defaults.format", "`host.protocol` and `host.rclink.format` say the format of frames"),
    ("port_defaults.vlan", "hosts send no tags, and the topology makes one network of them"),
    ("port_defaults.rate", "`link.rate` and `trunk.rate` say how fast ports are"),
    ("port_defaults.cable", "`link.delay` and `trunk.delay` say how long cables are"),
    ("port_defaults.lcore", "a fabric has no lcores"),
    ("port_defaults.learning", "nothing is learnt"),
    ("port_defaults.learn_limit", "nothing is learnt"),
    ("port_defaults.unknown_unicast", "a frame without a route is dropped"),
    ("port_defaults.rx_descriptors", "a fabric has no devices"),
    ("port_defaults.tx_descriptors", "a fabric has no devices"),
    ("port_defaults.storm_control", "nothing is flooded"),
    ("port_defaults.lldp", "neighbours are known"),
    ("port_defaults.mac", "the topology gives addresses"),
    ("port_defaults.pfc.mode", "switches of a fabric build and obey PFC themselves"),
    ("port_defaults.pfc.visible", "no NIC keeps PFC from a switch"),
];

/// Whether a table has what this path leads to.
fn has(table: &Table, path: &str) -> bool {
    match path.split_once('.') {
        None => table.contains_key(path),
        Some((first, rest)) => {
            table.get(first).and_then(Value::as_table).is_some_and(|table| has(table, rest))
        }
    }
}

/// What switches receive frames into.
fn memories(spec: &FabricSpec) -> Memories {
    match spec.switch.core {
        CoreKind::OutputQueued => Memories::Shared,
        CoreKind::Islip | CoreKind::Pim | CoreKind::Fifo => Memories::PerPort,
    }
}

/// The configuration of one switch: that of the spec, and a port per link of the node. Warnings stand in the file of the fabric.
pub(super) fn config_of(plan: &Plan, spec: &FabricSpec, node: usize) -> Result<Loaded, FabricError> {
    let mut table = spec.switch.config.clone();
    let faults = NOT_OF_A_FABRIC.into_iter().filter(|(key, _)| has(&table, key)).map(|(key, why)| {
        let (what, must) = (format!("switch.config.{key}"), format!("absent: {why}; take it out"));
        Err(FabricError::Range { what, got: "set".into(), must })
    });
    faults.collect::<Faults>().refuse()?;
    policy::take(&mut table);
    fn section<'a>(table: &'a mut Table, name: &str) -> Option<&'a mut Table> {
        table.entry(name).or_insert_with(|| Value::Table(Table::new())).as_table_mut()
    }
    if let Some(qos) = section(&mut table, "qos")
        && !qos.contains_key("preset")
    {
        let preset = match spec.host.protocol {
            Protocol::Rocev2 => "roce-lossless",
            Protocol::Rclink => rclink::switch_preset(spec.host.rclink.format).0,
        };
        qos.insert("preset".into(), preset.into());
    }
    if spec.host.protocol == Protocol::Rclink
        && let Some(ports) = section(&mut table, "port_defaults")
    {
        let (_, format) = rclink::switch_preset(spec.host.rclink.format);
        ports.insert("format".into(), format.into());
        // Credits pass a switch like any frame: it pauses nobody (SW-022).
        if spec.host.rclink.flow_control == FlowControlKind::Cbfc && !ports.contains_key("pfc") {
            let none = Table::from_iter([("enable".into(), Value::Array(Vec::new()))]);
            ports.insert("pfc".into(), none.into());
        }
    }
    // The time a frame spends in the pipeline is time it is not counted: this switch's and, the same
    // again, its peer's; of a host what is on its way to the line when a pause takes effect.
    let (s, host) = (&spec.switch, &spec.host);
    let pipeline =
        2 * (s.ingress.0 + s.crossbar.0 + s.egress.0) + host.pfc_response_delay.0 + host.tx_delay.0;
    if let Some(pfc) = section(&mut table, "pfc")
        && !pfc.contains_key("poll_gap")
    {
        pfc.insert("poll_gap".into(), format!("{pipeline}ns").into());
    }
    if let Some(about) = section(&mut table, "switch") {
        about.insert("name".into(), plan.names[node].clone().into());
        about.insert("seed".into(), (seed_of(spec, node) as i64).into());
    }
    let port = |(i, link): (usize, &usize)| {
        let link = &plan.links[*link].spec;
        let mut port = Table::new();
        port.insert("name".into(), format!("p{i}").into());
        // Never opened here. Not `ring`: the headroom of a wire has no ring of frames in it.
        port.insert("device".into(), format!("net_null{i}").into());
        port.insert("rate".into(), (link.rate.0 as i64).into());
        port.insert("cable".into(), format!("{}m", link.delay.0.div_ceil(NS_PER_METRE).max(1)).into());
        Value::Table(port)
    };
    table.insert("port".into(), Value::Array(plan.ports[node].iter().enumerate().map(port).collect()));
    let text = toml::to_string(&table).map_err(|e| FabricError::Switch(e.to_string()))?;
    let loaded = weir_config::load_with(
        Platform::Simulated,
        memories(spec),
        &format!("{} (switch {})", spec.name, plan.names[node]),
        &text,
    );
    let refused = |found: &[Diagnostic]| in_words_of_the_file(plan, spec, node, &text, found);
    let errors = |found: Vec<Diagnostic>| found.into_iter().filter(Diagnostic::is_error).collect::<Vec<_>>();
    let Loaded { config, warnings } = loaded.map_err(|found| refused(&errors(found)))?;
    // On DPDK such a limit is worth a warning; of the published models some have it. What is no policy is refused where it is built.
    let is_weir = matches!(Policy::of(spec), Ok(Policy::Weir {}));
    let (limits, warnings): (Vec<_>, Vec<_>) =
        warnings.into_iter().partition(|found| OF_LIMITS.contains(&found.rule));
    let (without_effect, limits): (Vec<_>, Vec<_>) =
        limits.into_iter().filter(|_| is_weir).partition(|found| found.rule == "profile.unlimited");
    if !without_effect.is_empty() {
        return Err(refused(&without_effect));
    }
    // What follows from the protocol of hosts is no fault of the file: with credits no switch pauses anybody, and frames of AFH have
    // nothing that could be marked.
    let is_meant = |found: &Diagnostic| match found.rule {
        "pfc.silent" => spec.host.rclink.flow_control == FlowControlKind::Cbfc,
        "wred.format" => spec.host.protocol == Protocol::Rclink && !spec.source.sets("switch.config.wred"),
        _ => false,
    };
    let warnings = limits.into_iter().chain(warnings).filter(|found| !is_meant(found));
    Ok(Loaded { config, warnings: warnings.map(|d| in_the_file(plan, spec, node, &text, d)).collect() })
}

/// Warnings about limits as weir's MMU computes them, which other policies have not.
const OF_LIMITS: [&str; 5] =
    ["profile.unlimited", "profile.xon_offset", "buffer.shared", "wred.xoff", "wred.crowd"];

/// A warning about the configuration `text` of a switch, at the place in the file of the fabric that it comes from.
fn in_the_file(plan: &Plan, spec: &FabricSpec, node: usize, text: &str, found: Diagnostic) -> Diagnostic {
    let path = source::path_in(text, found.span.start);
    let path: Vec<&str> = path.iter().map(String::as_str).collect();
    let link = |nth: &str| nth.parse().ok().and_then(|nth: usize| plan.ports[node].get(nth)).copied();
    let path: Vec<String> = match path[..] {
        ["port", nth, "cable"] => link(nth).map(|link| key_of_delay(spec, plan, link)),
        ["port", nth, "rate"] => link(nth).map(|link| key_of_rate(spec, plan, link)),
        _ => None,
    }
    .map_or_else(
        || ["switch", "config"].iter().chain(&path).map(|step| (*step).to_owned()).collect(),
        |key| key.split('.').map(str::to_owned).collect(),
    );
    let path: Vec<&str> = path.iter().map(String::as_str).collect();
    // Ports are called as in the report.
    let ports = 0..plan.ports[node].len();
    let in_words = |words: String| {
        ports.clone().fold(words, |words, i| words.replace(&format!("port `p{i}`"), &format!("port {i}")))
    };
    let message = format!("{}: {}", plan.names[node], in_words(found.message));
    spec.source.warning(&path, found.rule, message, in_words(found.remedy))
}

/// What is wrong with the configuration `text` of a switch, each with the key of the fabric file that it comes from.
fn in_words_of_the_file(
    plan: &Plan,
    spec: &FabricSpec,
    node: usize,
    text: &str,
    found: &[Diagnostic],
) -> FabricError {
    let mut faults = Faults::default();
    // Ports with links of one kind have one fault.
    let mut told = BTreeSet::new();
    for d in found {
        let Diagnostic { message, remedy, .. } = d;
        let path = source::path_in(text, d.span.start);
        let range = |what: String, got: String, why: &str| {
            let must = format!("what switches can be configured for: {message}{why}");
            FabricError::Range { what, got, must }
        };
        let link = |nth: &str| nth.parse().ok().and_then(|nth: usize| plan.ports[node].get(nth)).copied();
        let path: Vec<&str> = path.iter().map(String::as_str).collect();
        let fault = match path[..] {
            ["port", nth, key @ ("cable" | "rate")] if let Some(link) = link(nth) => {
                let LinkSpec { rate, delay, .. } = plan.links[link].spec;
                match key {
                    "cable" => range(key_of_delay(spec, plan, link), delay.0.to_string(), " (5 ns a metre)"),
                    _ => range(key_of_rate(spec, plan, link), rate.0.to_string(), ""),
                }
            }
            ["pfc", "poll_gap"] if !spec.source.sets("switch.config.pfc.poll_gap") => {
                let s = &spec.switch;
                let stages = [
                    ("switch.ingress", s.ingress),
                    ("switch.crossbar", s.crossbar),
                    ("switch.egress", s.egress),
                    ("host.pfc_response_delay", spec.host.pfc_response_delay),
                    ("host.tx_delay", spec.host.tx_delay),
                ];
                let (key, time) = stages.into_iter().max_by_key(|(_, time)| time.0).unwrap_or(stages[0]);
                let why = ", where poll_gap is twice the stages of a switch, host.pfc_response_delay and host.tx_delay";
                range(key.into(), time.0.to_string(), why)
            }
            _ => {
                // Ports are called by their numbers, of which switches have more and fewer.
                let whose = if d.rule == "port.unknown" {
                    format!("switch {}: ", plan.names[node])
                } else {
                    String::new()
                };
                let error = FabricError::Switch(format!("{whose}{message}; {remedy}"));
                match spec.source.same_line(text, d.span.start, &["switch", "config"]) {
                    None => error,
                    line => FabricError::At { file: spec.source.file.clone(), line, error: Box::new(error) },
                }
            }
        };
        let what =
            if let FabricError::Range { what, .. } = &fault { what.clone() } else { fault.to_string() };
        if told.insert(what) {
            faults.add(fault);
        }
    }
    faults.into_error()
}

/// Seed of everything random in the switch of `node`.
pub(super) fn seed_of(spec: &FabricSpec, node: usize) -> u64 {
    spec.seed.wrapping_add(node as u64) & 0xffff_ffff
}

/// Configurations by what tells switches apart: rate and delay of the link at each port.
#[derive(Default)]
pub(super) struct Configs {
    all: BTreeMap<Vec<(u64, u64)>, Arc<Config>>,
    /// What they warn of, once for each place in the file: of the first switch where that is so.
    pub warnings: Vec<Diagnostic>,
}

impl Configs {
    /// That of the switch of `node`, but for its name and its seed: switches that are cabled alike share one.
    pub fn of(&mut self, plan: &Plan, spec: &FabricSpec, node: usize) -> Result<Arc<Config>, FabricError> {
        let link = |link: &usize| (plan.links[*link].spec.rate.0, plan.links[*link].spec.delay.0);
        let cables: Vec<(u64, u64)> = plan.ports[node].iter().map(link).collect();
        if let Some(known) = self.all.get(&cables) {
            return Ok(Arc::clone(known));
        }
        let Loaded { config, warnings } = config_of(plan, spec, node)?;
        for warning in warnings {
            if !self.warnings.iter().any(|told| (told.rule, told.span) == (warning.rule, warning.span)) {
                self.warnings.push(warning);
            }
        }
        let config = Arc::new(config);
        self.all.insert(cables, Arc::clone(&config));
        Ok(config)
    }
}

/// Keys in a fabric file, or in the configuration of its switches, that do not exist: their lines in the file and what a reader says
/// of them. Other faults are not looked for, nor is a file that the fabric names.
pub(crate) fn unknown_keys(text: &str) -> Vec<(Option<usize>, String)> {
    let mut all = spec::unknown_keys(text);
    let table: Table = text.parse().unwrap_or_default();
    let config = table.get("switch").and_then(|switch| switch.get("config")).and_then(Value::as_table);
    let Some(mut config) = config.cloned() else { return all };
    policy::take(&mut config);
    let Ok(config) = toml::to_string(&config) else { return all };
    let found =
        weir_config::load_for(Platform::Simulated, "switch.config", &config).err().unwrap_or_default();
    all.extend(found.into_iter().filter(|diagnostic| diagnostic.rule == "unknown_key").map(|unknown| {
        let line = Source::new("", text).same_line(&config, unknown.span.start, &["switch", "config"]);
        (line, format!("[switch.config]: {}; {}", unknown.message, unknown.remedy))
    }));
    all
}

/// Builds the switch of `node` with its static addresses and groups; of one with a crossbar the memory of an input, each with random
/// numbers of its own.
pub(super) fn build(
    plan: &Plan,
    spec: &FabricSpec,
    policy: &Policy,
    (node, input): (usize, usize),
    config: &Config,
    groups: &[GroupPorts],
) -> Result<FabricSwitch, FabricError> {
    let device = |i: usize| Device {
        mac: Mac::from_u64(0x0201_0000_0000 | (node as u64) << 8 | i as u64),
        pfc: true,
        ..Device::default()
    };
    let devices: Vec<Device> = (0..config.ports.len()).map(device).collect();
    let refused = |e: &dyn std::fmt::Display| FabricError::Switch(e.to_string());
    let mut params = switch_params(config, &devices, 1).map_err(|e| refused(&e))?;
    params.seed = seed_of(spec, node) ^ (input as u64) << 32;
    for port in &mut params.ports {
        // The link keeps the rate; quanta and headroom were computed from it.
        port.rate = None;
        port.learning = false;
        port.unknown_unicast = UnknownUnicast::Drop;
        if memories(spec) == Memories::PerPort {
            // Rates of queues are kept by the outputs.
            port.queues.iter_mut().for_each(|queue| (queue.cir, queue.pir) = (None, None));
        }
    }
    if memories(spec) == Memories::PerPort {
        params.mmu = input_params(config, PortId(input as u16));
    }
    params.ageing = None;
    // Hosts send to one another only, and their fabric is looked at when it has ended.
    if groups.is_empty() {
        params.copied = params.copied.min(COPIED);
    }
    params.observed = false;
    // Its hosts, and a next hop behind every other port: frames come addressed to one of them.
    for (port, link) in plan.ports[node].iter().enumerate() {
        let [a, b] = plan.links[*link].ends;
        let far = if (a.node, a.port) == (node, port) { b.node } else { a.node };
        let mac = plan.macs.get(far).copied().unwrap_or_else(|| hop_mac(port));
        params.stations.push((params.ports[port].profile.key(mac.to_u64(), 0), PortId(port as u16)));
    }
    let profile = params.ports.first().map(|port| &port.profile);
    let key = |group: u16| profile.map(|profile| profile.key(multicast::station(group).mac.to_u64(), 0));
    params.groups = groups.iter().filter_map(|(group, ports)| Some((key(*group)?, *ports))).collect();
    // Nothing is learned.
    params.fdb_capacity = (params.stations.len() + groups.len()).max(64);
    debug_assert!(config.ports.iter().all(|port| matches!(port.rate, PortRate::Fixed(_))));
    let rates: Vec<u64> = plan.ports[node].iter().map(|link| plan.links[*link].spec.rate.0).collect();
    policy.check_limits(&spec.switch.config, config)?;
    let buffer = policy.build(&params, &rates)?;
    Switch::with_admission(&params, buffer).map_err(|e| refused(&e))
}
