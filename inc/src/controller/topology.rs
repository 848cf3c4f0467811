//! A fabric as it is written down (TOML).

use crate::params::MAX_CHILDREN;
use crate::plan::{EngineEnd, Fabric, Node};
use crate::spec::{is_ones_ip, is_ones_mac};
use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use std::collections::BTreeMap;
use std::fmt::{self, Formatter};
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
    /// What sums: a table, or a list of them.
    #[serde(default, rename = "engine", deserialize_with = "one_or_more")]
    pub engines: Vec<EngineSpec>,
}

/// A table is a list of one.
fn one_or_more<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<EngineSpec>, D::Error> {
    struct Tables;
    impl<'de> Visitor<'de> for Tables {
        type Value = Vec<EngineSpec>;

        fn expecting(&self, f: &mut Formatter<'_>) -> fmt::Result {
            f.write_str("an engine, { mac = ..., ip = ... }, or a list of them")
        }

        fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
            EngineSpec::deserialize(MapAccessDeserializer::new(map)).map(|engine| vec![engine])
        }

        fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<Self::Value, A::Error> {
            Vec::deserialize(SeqAccessDeserializer::new(list))
        }
    }
    from.deserialize_any(Tables)
}

/// An engine of a switch, as its configuration has it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EngineSpec {
    /// Its port; may be left out where the switch has one engine and no other.
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
    /// Both ends of a link are one switch.
    #[error("a [[link]] leads from switch `{0}` to itself; name two switches, or leave it out")]
    Itself(String),
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
    /// Engines of a switch that cannot be told apart.
    #[error("switch `{0}` has several engines; each names a `port` of its own")]
    Port(String),
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
    /// Engines, by node; none of a node without.
    pub engines: BTreeMap<usize, Vec<Engine>>,
}

/// An engine of a switch.
#[derive(Clone, Debug)]
pub struct Engine {
    /// Its port, where it is named.
    pub port: Option<String>,
    /// Its address and numbers.
    pub end: EngineEnd,
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
        let mut map = Map {
            fabric: Fabric::default(),
            names: names.clone(),
            hosts: BTreeMap::new(),
            macs: BTreeMap::new(),
            engines: BTreeMap::new(),
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
            // A job may be given any of them.
            let fan_in = spec.engines.iter().map(|engine| engine.fan_in).min().unwrap_or(0);
            map.fabric.nodes.push(Node::Switch { fan_in });
            if !spec.engines.is_empty() && spec.api.is_none() {
                return Err(TopologyError::NoApi(spec.name.clone()));
            }
            let mut engines: Vec<Engine> = Vec::new();
            for engine in &spec.engines {
                let end = engine.end(&spec.name)?;
                let others = || map.engines.values().flatten().chain(&engines).map(|other| other.end.address);
                let macs = map.macs.values().copied().chain(others().map(|other| other.0));
                if macs.into_iter().any(|other| other == end.address.0) {
                    return Err(TopologyError::Twice(end.address.0.to_string()));
                }
                if map.hosts.contains_key(&end.address.1) || others().any(|other| other.1 == end.address.1) {
                    return Err(TopologyError::Twice(end.address.1.to_string()));
                }
                let alone = spec.engines.len() == 1;
                if !alone && (engine.port.is_none() || engines.iter().any(|other| other.port == engine.port))
                {
                    return Err(TopologyError::Port(spec.name.clone()));
                }
                engines.push(Engine { port: engine.port.clone(), end });
            }
            if !engines.is_empty() {
                map.engines.insert(at, engines);
            }
        }
        for link in &self.links {
            let who = format!("link {} - {}", link.a, link.b);
            let ends = (switch(&who, &link.a)?, switch(&who, &link.b)?);
            if ends.0 == ends.1 {
                return Err(TopologyError::Itself(link.a.clone()));
            }
            map.fabric.links.push(ends);
        }
        if map.engines.is_empty() {
            return Err(TopologyError::NoEngine);
        }
        Ok(map)
    }
}

impl Map {
    /// Which engine of each switch has the fewest connections.
    pub fn least_used(&self) -> BTreeMap<usize, usize> {
        let least = |engines: &[Engine]| (0..engines.len()).min_by_key(|at| engines[*at].end.used.len());
        self.engines.iter().filter_map(|(node, engines)| Some((*node, least(engines)?))).collect()
    }
}

impl EngineSpec {
    /// Its address and numbers, on switch `name`.
    fn end(&self, name: &str) -> Result<EngineEnd, TopologyError> {
        if !(1..=MAX_CHILDREN).contains(&self.fan_in) {
            return Err(TopologyError::FanIn(name.to_owned(), self.fan_in));
        }
        let (first, qpns) = (self.first_qpn, self.qpns);
        if first < 2 || qpns == 0 || u64::from(first) + u64::from(qpns) > 1 << 24 {
            return Err(TopologyError::Numbers(name.to_owned(), first, qpns));
        }
        Ok(EngineEnd::new((mac(name, &self.mac)?, ip(name, self.ip)?), first, qpns))
    }
}

/// The MAC address of `who`.
fn mac(who: &str, text: &str) -> Result<Mac, TopologyError> {
    let mac: Mac = text.parse().map_err(|error| TopologyError::Mac(who.to_owned(), error))?;
    match is_ones_mac(mac) {
        true => Ok(mac),
        false => Err(TopologyError::Nobody(who.to_owned(), text.to_owned())),
    }
}

/// The IP address of `who`.
fn ip(who: &str, ip: IpAddr) -> Result<IpAddr, TopologyError> {
    match is_ones_ip(ip) {
        true => Ok(ip),
        false => Err(TopologyError::Nobody(who.to_owned(), ip.to_string())),
    }
}
