//! A fabric as it is written down (TOML).

use crate::params::MAX_CHILDREN;
use crate::plan::{EngineEnd, Fabric, Node};
use crate::spec::{is_ones_ip, is_ones_mac};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::PathBuf;
use thiserror::Error;
use weir_dataplane::types::Mac;

/// Switches, hosts and links.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Topology {
    /// Switches.
    #[serde(rename = "switch")]
    pub switches: Vec<SwitchSpec>,
    /// Hosts.
    #[serde(rename = "host")]
    pub hosts: Vec<HostSpec>,
    /// Links between switches.
    #[serde(rename = "link", default)]
    pub links: Vec<LinkSpec>,
}

/// A switch.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SwitchSpec {
    /// Its name.
    pub name: String,
    /// Its management interface: HOST:PORT, or the path of its socket. Not needed without an engine.
    pub api: Option<String>,
    /// File with the token that lets orders in, over TCP.
    pub token_file: Option<PathBuf>,
    /// What sums.
    pub engine: Option<EngineSpec>,
}

/// An engine of a switch, as its configuration has it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EngineSpec {
    /// Its port; may be left out where the switch has one engine.
    pub port: Option<String>,
    /// Its MAC address.
    pub mac: String,
    /// Its IP address.
    pub ip: IpAddr,
    /// First of its queue pair numbers.
    #[serde(default = "first_qpn")]
    pub first_qpn: u32,
    /// How many there are.
    #[serde(default = "qpns")]
    pub qpns: u32,
    /// Most children of a job.
    #[serde(default = "fan_in")]
    pub fan_in: usize,
}

fn first_qpn() -> u32 {
    crate::engine::EngineParams::default().first_qpn.0
}

fn qpns() -> u32 {
    crate::engine::EngineParams::default().qpns
}

fn fan_in() -> usize {
    MAX_CHILDREN
}

/// A host.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HostSpec {
    /// Its name.
    pub name: String,
    /// Address of its queue pairs: how it is known.
    pub ip: IpAddr,
    /// Its MAC address; whatever it says unless given.
    pub mac: Option<String>,
    /// The switch it is connected to.
    pub switch: String,
}

/// A link between switches.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LinkSpec {
    /// One end.
    pub a: String,
    /// The other.
    pub b: String,
}

/// What is wrong with a topology.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum TopologyError {
    /// Two nodes, or two of their addresses, are the same.
    #[error("`{0}` is there twice; names and addresses are unique")]
    Twice(String),
    /// No such switch.
    #[error("{0}: there is no switch `{1}`; list it under [[switch]]")]
    NoSwitch(String, String),
    /// No address.
    #[error("`{0}`: {1}")]
    Mac(String, String),
    /// An address that is not one of somebody.
    #[error("`{0}`: {1} is not the address of one host")]
    Nobody(String, String),
    /// Nobody sums, or nobody can be asked to.
    #[error("no switch has an engine; give one `engine = {{ mac = ..., ip = ... }}`")]
    NoEngine,
    /// An engine that takes no orders.
    #[error("switch `{0}` has an engine and no `api`; jobs are posted there")]
    NoApi(String),
    /// A number out of range.
    #[error("switch `{0}`: fan_in is {1}; it is 1 to 64")]
    FanIn(String, usize),
    /// Queue pair numbers that are no host's.
    #[error("switch `{0}`: {2} queue pairs from {1} on; theirs are the numbers 2 to 16777215")]
    Numbers(String, u32, u32),
}

/// A topology that was checked: hosts first, then switches.
#[derive(Clone, Debug)]
pub struct Map {
    /// As a planner sees it.
    pub fabric: Fabric,
    /// Names of its nodes.
    pub names: Vec<String>,
    /// Node of each host, by address.
    pub hosts: BTreeMap<IpAddr, usize>,
    /// MAC addresses that hosts must have.
    pub macs: BTreeMap<usize, Mac>,
    /// Engines, by node.
    pub engines: BTreeMap<usize, EngineEnd>,
    /// Their ports, where they are named.
    pub ports: BTreeMap<usize, String>,
}

impl Topology {
    /// Checks it.
    ///
    /// # Errors
    /// What to change.
    pub fn map(&self) -> Result<Map, TopologyError> {
        let names: Vec<String> = self
            .hosts
            .iter()
            .map(|h| &h.name)
            .chain(self.switches.iter().map(|s| &s.name))
            .cloned()
            .collect();
        let twice = |at: usize| names[..at].contains(&names[at]);
        if let Some(at) = (0..names.len()).find(|at| twice(*at)) {
            return Err(TopologyError::Twice(names[at].clone()));
        }
        let switch = |who: &str, name: &str| {
            let at = self.switches.iter().position(|s| s.name == name);
            at.map(|at| self.hosts.len() + at)
                .ok_or_else(|| TopologyError::NoSwitch(who.to_owned(), name.to_owned()))
        };
        let mac = |who: &str, text: &str| {
            let mac: Mac = text.parse().map_err(|error| TopologyError::Mac(who.to_owned(), error))?;
            match is_ones_mac(mac) {
                true => Ok(mac),
                false => Err(TopologyError::Nobody(who.to_owned(), text.to_owned())),
            }
        };
        let ip = |who: &str, ip: IpAddr| match is_ones_ip(ip) {
            true => Ok(ip),
            false => Err(TopologyError::Nobody(who.to_owned(), ip.to_string())),
        };
        let mut map = Map {
            fabric: Fabric::default(),
            names: names.clone(),
            hosts: BTreeMap::new(),
            macs: BTreeMap::new(),
            engines: BTreeMap::new(),
            ports: BTreeMap::new(),
        };
        for (at, host) in self.hosts.iter().enumerate() {
            map.fabric.nodes.push(Node::Host);
            map.fabric.links.push((at, switch(&format!("host `{}`", host.name), &host.switch)?));
            if map.hosts.insert(ip(&host.name, host.ip)?, at).is_some() {
                return Err(TopologyError::Twice(host.ip.to_string()));
            }
            if let Some(text) = &host.mac {
                map.macs.insert(at, mac(&host.name, text)?);
            }
        }
        for (at, spec) in (self.hosts.len()..).zip(&self.switches) {
            let fan_in = spec.engine.as_ref().map_or(0, |engine| engine.fan_in);
            map.fabric.nodes.push(Node::Switch { fan_in });
            let Some(engine) = &spec.engine else { continue };
            if !(1..=MAX_CHILDREN).contains(&fan_in) {
                return Err(TopologyError::FanIn(spec.name.clone(), fan_in));
            }
            if spec.api.is_none() {
                return Err(TopologyError::NoApi(spec.name.clone()));
            }
            let (first, qpns) = (engine.first_qpn, engine.qpns);
            if first < 2 || qpns == 0 || u64::from(first) + u64::from(qpns) > 1 << 24 {
                return Err(TopologyError::Numbers(spec.name.clone(), first, qpns));
            }
            let address = (mac(&spec.name, &engine.mac)?, ip(&spec.name, engine.ip)?);
            let others = || map.engines.values().map(|end| end.address);
            if map.macs.values().copied().chain(others().map(|other| other.0)).any(|other| other == address.0)
            {
                return Err(TopologyError::Twice(address.0.to_string()));
            }
            if map.hosts.contains_key(&address.1) || others().any(|other| other.1 == address.1) {
                return Err(TopologyError::Twice(address.1.to_string()));
            }
            map.engines.insert(at, EngineEnd::new(address, engine.first_qpn, engine.qpns));
            map.ports.extend(engine.port.clone().map(|port| (at, port)));
        }
        for link in &self.links {
            let who = format!("link {} - {}", link.a, link.b);
            map.fabric.links.push((switch(&who, &link.a)?, switch(&who, &link.b)?));
        }
        if map.engines.is_empty() {
            return Err(TopologyError::NoEngine);
        }
        Ok(map)
    }
}
