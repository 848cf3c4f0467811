//! Switches from the weir configuration of a spec: the same checks, presets and defaults as on DPDK.

use super::FabricError;
use super::multicast::{self, GroupPorts};
use super::policy::{self, Buffer, Policy};
use super::rclink;
use super::sim_frame::SimFrame;
use super::source;
use super::spec::{FabricSpec, FlowControlKind, Protocol};
use super::topology::{Plan, hop_mac};
use std::collections::BTreeMap;
use std::sync::Arc;
use toml::{Table, Value};
use weir_config::runtime::{Device, switch_params};
use weir_config::{Config, PortRate};
use weir_dataplane::switch::{Switch, UnknownUnicast};
use weir_dataplane::turn::Platform;
use weir_dataplane::types::{Mac, PortId};

/// A switch of a fabric, whatever its buffer policy.
pub(super) type FabricSwitch = Switch<SimFrame, Buffer>;

/// Signal speed in a cable: 5 ns per metre.
const NS_PER_METRE: u64 = 5;
/// Frames with several destinations that a switch holds at once.
const COPIED: usize = 1024;

/// The configuration of one switch: that of the spec, and a port per link of the node.
pub(super) fn config_of(plan: &Plan, spec: &FabricSpec, node: usize) -> Result<Config, FabricError> {
    let mut table = spec.switch.config.clone();
    if table.contains_key("port") {
        return Err(FabricError::Switch("the topology makes the ports: take `[[port]]` out".into()));
    }
    if table.contains_key("mirror") {
        return Err(FabricError::Switch("no host looks at copies: take `[[mirror]]` out".into()));
    }
    if table.contains_key("lag") {
        return Err(FabricError::Switch("routing divides flows among links: take `[[lag]]` out".into()));
    }
    if table.get("port_defaults").is_some_and(|defaults| defaults.get("vlan").is_some()) {
        return Err(FabricError::Switch(
            "hosts send no tags, and the topology makes one network of them: take `port_defaults.vlan` out"
                .into(),
        ));
    }
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
    // again, its peer's.
    let s = &spec.switch;
    let pipeline = 2 * (s.ingress.0 + s.crossbar.0 + s.egress.0) + spec.host.response.0;
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
    let loaded = weir_config::load_for(
        Platform::Simulated,
        &format!("{} (switch {})", spec.name, plan.names[node]),
        &text,
    );
    let errors = |found: Vec<weir_config::Diagnostic>| {
        let shown: Vec<String> = found.iter().filter(|d| d.is_error()).map(ToString::to_string).collect();
        FabricError::Switch(shown.join("\n"))
    };
    loaded.map(|loaded| loaded.config).map_err(errors)
}

/// Seed of everything random in the switch of `node`.
fn seed_of(spec: &FabricSpec, node: usize) -> u64 {
    spec.seed.wrapping_add(node as u64) & 0xffff_ffff
}

/// Configurations by what tells switches apart: rate and delay of the link at each port.
#[derive(Default)]
pub(super) struct Configs(BTreeMap<Vec<(u64, u64)>, Arc<Config>>);

impl Configs {
    /// That of the switch of `node`, but for its name and its seed: switches that are cabled alike share one.
    pub fn of(&mut self, plan: &Plan, spec: &FabricSpec, node: usize) -> Result<Arc<Config>, FabricError> {
        let link = |link: &usize| (plan.links[*link].spec.rate.0, plan.links[*link].spec.delay.0);
        let cables: Vec<(u64, u64)> = plan.ports[node].iter().map(link).collect();
        if let Some(known) = self.0.get(&cables) {
            return Ok(Arc::clone(known));
        }
        let config = Arc::new(config_of(plan, spec, node)?);
        self.0.insert(cables, Arc::clone(&config));
        Ok(config)
    }
}

/// What a reader says of a key in a fabric file, or in the configuration of its switches, that does not exist, and its line of the
/// file; `None`: there is no such key. Other faults are not looked for, nor is a file that the fabric names.
pub(crate) fn unknown_key(text: &str) -> Option<(Option<usize>, String)> {
    let spec: FabricSpec = match toml::from_str(text) {
        Ok(spec) => spec,
        Err(error) => {
            let said = error.message();
            let line = error.span().and_then(|at| source::line_at(text, at.start));
            return said.starts_with("unknown field").then(|| (line, said.to_owned()));
        }
    };
    let mut table = spec.switch.config;
    policy::take(&mut table);
    let config = toml::to_string(&table).ok()?;
    let found = weir_config::load_for(Platform::Simulated, "switch.config", &config).err()?;
    let unknown = found.into_iter().find(|diagnostic| diagnostic.rule == "unknown_key")?;
    let line = source::same_line(&config, unknown.span.start, text, &["switch", "config"]);
    Some((line, format!("[switch.config]: {}; {}", unknown.message, unknown.remedy)))
}

/// Builds the switch of `node` with its static addresses and groups.
pub(super) fn build(
    plan: &Plan,
    spec: &FabricSpec,
    policy: &Policy,
    node: usize,
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
    params.seed = seed_of(spec, node);
    for port in &mut params.ports {
        // The link keeps the rate; quanta and headroom were computed from it.
        port.rate = None;
        port.learning = false;
        port.unknown_unicast = UnknownUnicast::Drop;
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
    let buffer = policy.build(&params, &rates)?;
    Switch::with_admission(&params, buffer).map_err(|e| refused(&e))
}
