//! From a named shape to nodes, ports and links.

use super::FabricError;
use super::import::hpcc;
use super::spec::{FabricSpec, LinkSpec, Topology};
use super::units::{Duration, Rate};
use std::collections::{BTreeMap, BTreeSet};
use weir_dataplane::types::{MAX_PORTS, Mac};

/// A port of a node. Hosts come first, then switches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct End {
    pub node: usize,
    pub port: usize,
}

/// A link, both ways.
#[derive(Clone, Debug)]
pub(super) struct Wire {
    pub ends: [End; 2],
    pub spec: LinkSpec,
    /// Its share among equal paths.
    pub weight: u32,
}

/// All nodes and links.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub names: Vec<String>,
    /// Nodes that forward nothing: hosts, then engines.
    pub hosts: usize,
    /// How many of those are engines of switches, each behind an internal port.
    pub engines: usize,
    pub macs: Vec<Mac>,
    pub links: Vec<Wire>,
    /// Links of each node, by port.
    pub ports: Vec<Vec<usize>>,
    pub clockwise: bool,
}

/// A builder that hands out ports in the order links are made.
struct Builder {
    plan: Plan,
    link: LinkSpec,
    trunk: LinkSpec,
}

impl Builder {
    fn new(spec: &FabricSpec, hosts: usize, switches: usize) -> Self {
        let names =
            (0..hosts).map(|i| format!("h{i}")).chain((0..switches).map(|i| format!("s{i}"))).collect();
        let plan = Plan {
            names,
            hosts,
            engines: 0,
            macs: (0..hosts).map(host_mac).collect(),
            links: Vec::new(),
            ports: vec![Vec::new(); hosts + switches],
            clockwise: false,
        };
        let trunk = spec.trunk.clone().unwrap_or_else(|| spec.link.clone());
        Self { plan, link: spec.link.clone(), trunk }
    }

    fn connect(&mut self, a: usize, b: usize, spec: LinkSpec) {
        let ends = [a, b].map(|node| {
            self.plan.ports[node].push(self.plan.links.len());
            End { node, port: self.plan.ports[node].len() - 1 }
        });
        self.plan.links.push(Wire { ends, spec, weight: 1 });
    }

    /// Host `h` to switch `s`.
    fn host(&mut self, h: usize, s: usize) {
        self.connect(h, self.plan.hosts + s, self.link.clone());
    }

    /// Gives trunks the rate with which `down` hosts have so many times that of `up` trunks.
    fn oversubscribe(
        &mut self,
        spec: &FabricSpec,
        ratio: Option<f64>,
        down: usize,
        up: usize,
    ) -> Result<(), FabricError> {
        let Some(ratio) = ratio else { return Ok(()) };
        let wrong = |got: String, must: &str| {
            let (what, must) = ("topology.oversubscription".into(), must.into());
            Err(FabricError::Range { what, got, must })
        };
        if spec.source.sets("trunk.rate") {
            return wrong(
                "set beside trunk.rate".into(),
                "absent, or trunk.rate: one follows from the other",
            );
        }
        if !(0.01..=100.0).contains(&ratio) {
            return wrong(ratio.to_string(), "0.01 to 100, e.g. 3.0");
        }
        let rate = down as f64 * self.link.rate.0 as f64 / (ratio * up as f64);
        self.trunk.rate = Rate::of(rate.round() as u64);
        Ok(())
    }

    /// Switch to switch.
    fn trunk(&mut self, a: usize, b: usize) {
        self.connect(self.plan.hosts + a, self.plan.hosts + b, self.trunk.clone());
    }
}

/// The address of host `i`. Its last byte is 0.
fn host_mac(i: usize) -> Mac {
    Mac::from_u64(0x0200_0000_0000 + ((i as u64) << 8))
}

/// The address of the next hop behind `port` of a switch, which no host has: its last byte is not 0. As routers do, a
/// switch puts it in place of that of the host; the last one puts that of the host back.
pub(super) fn hop_mac(port: usize) -> Mac {
    Mac::from_u64(0x0200_0000_0000 + (1 + port + port / 255) as u64)
}

impl Plan {
    /// Hosts of users.
    pub fn stations(&self) -> usize {
        self.hosts - self.engines
    }

    /// The same with an engine at each of these switches (numbered from 0), called after it, on a line of its rate.
    pub fn with_engines(mut self, switches: &[usize], line: impl Fn(&Self, usize) -> LinkSpec) -> Self {
        let (first, more) = (self.hosts, switches.len());
        let lines: Vec<LinkSpec> = switches.iter().map(|s| line(&self, first + s)).collect();
        for end in self.links.iter_mut().flat_map(|link| &mut link.ends).filter(|end| end.node >= first) {
            end.node += more;
        }
        let names: Vec<String> = switches.iter().map(|s| format!("{}.inc", self.names[first + s])).collect();
        self.names.splice(first..first, names);
        self.ports.splice(first..first, vec![Vec::new(); more]);
        self.macs.extend((first..first + more).map(host_mac));
        (self.hosts, self.engines) = (first + more, more);
        for ((at, switch), spec) in (first..).zip(switches).zip(lines) {
            let ends = [at, first + more + switch].map(|node| {
                self.ports[node].push(self.links.len());
                End { node, port: self.ports[node].len() - 1 }
            });
            self.links.push(Wire { ends, spec, weight: 1 });
        }
        self
    }
}

fn range(what: &str, got: usize, low: usize, high: usize) -> Result<(), FabricError> {
    if (low..=high).contains(&got) {
        return Ok(());
    }
    let must = format!("{low} to {high}");
    Err(FabricError::Range { what: what.into(), got: got.to_string(), must })
}

/// Shares of loss are shares.
fn check_loss(name: &str, link: &LinkSpec) -> Result<(), FabricError> {
    for (key, share) in [("loss", link.loss), ("pause_loss", link.pause_loss)] {
        if !(0.0..=1.0).contains(&share) {
            let (what, must) = (format!("{name}.{key}"), "0 to 1".into());
            return Err(FabricError::Range { what, got: share.to_string(), must });
        }
    }
    Ok(())
}

/// Both directions of each link as names, in order. Engines have none.
pub(crate) fn neighbours(spec: &FabricSpec) -> Result<Vec<(String, String)>, FabricError> {
    let plan = lay_out(spec)?;
    let both_ways = plan.links.iter().flat_map(|link| [link.ends, [link.ends[1], link.ends[0]]]);
    let mut names: Vec<_> =
        both_ways.map(|ends| (plan.names[ends[0].node].clone(), plan.names[ends[1].node].clone())).collect();
    names.sort_unstable();
    Ok(names)
}

/// Lays the fabric out.
pub(super) fn lay_out(spec: &FabricSpec) -> Result<Plan, FabricError> {
    check_loss("link", &spec.link)?;
    spec.trunk.as_ref().map_or(Ok(()), |trunk| check_loss("trunk", trunk))?;
    let plan = match &spec.topology {
        Topology::Direct => {
            let mut b = Builder::new(spec, 2, 0);
            b.connect(0, 1, spec.link.clone());
            b.plan
        }
        Topology::Star { hosts } => chain(spec, 1, *hosts)?,
        Topology::Dumbbell { pairs } => chain(spec, 2, *pairs)?,
        Topology::Chain { switches, hosts_per_switch } => chain(spec, *switches, *hosts_per_switch)?,
        Topology::LeafSpine { leaves, spines, hosts_per_leaf, links_per_spine, oversubscription } => {
            range("topology.leaves", *leaves, 1, MAX_PORTS)?;
            range("topology.spines", *spines, 1, MAX_PORTS)?;
            range("topology.hosts_per_leaf", *hosts_per_leaf, 1, MAX_PORTS)?;
            range("topology.links_per_spine", *links_per_spine, 1, MAX_PORTS)?;
            let mut b = Builder::new(spec, leaves * hosts_per_leaf, leaves + spines);
            b.oversubscribe(spec, *oversubscription, *hosts_per_leaf, spines * links_per_spine)?;
            (0..leaves * hosts_per_leaf).for_each(|h| b.host(h, h / hosts_per_leaf));
            for i in 0..leaves * spines {
                (0..*links_per_spine).for_each(|_| b.trunk(i / spines, leaves + i % spines));
            }
            b.plan
        }
        Topology::Rail { servers, rails, servers_per_unit, spines, oversubscription } => {
            range("topology.servers", *servers, 1, 1 << 16)?;
            range("topology.rails", *rails, 1, MAX_PORTS)?;
            range("topology.spines", *spines, 1, MAX_PORTS)?;
            let unit = servers_per_unit.unwrap_or(*servers);
            range("topology.servers_per_unit", unit, 1, MAX_PORTS)?;
            let (hosts, leaves) = (servers * rails, servers.div_ceil(unit) * rails);
            let mut b = Builder::new(spec, hosts, leaves + spines);
            b.oversubscribe(spec, *oversubscription, unit, *spines)?;
            (0..hosts).for_each(|h| b.host(h, h / rails / unit * rails + h % rails));
            (0..leaves * spines).for_each(|i| b.trunk(i / spines, leaves + i % spines));
            b.plan
        }
        Topology::DragonflyPlus { groups, leaves, spines, hosts_per_leaf, links_per_pair } => {
            range("topology.groups", *groups, 2, 1024)?;
            range("topology.leaves", *leaves, 1, MAX_PORTS)?;
            range("topology.spines", *spines, 1, MAX_PORTS)?;
            range("topology.hosts_per_leaf", *hosts_per_leaf, 1, MAX_PORTS)?;
            range("topology.links_per_pair", *links_per_pair, 1, MAX_PORTS)?;
            let (all, per_group) = (groups * leaves, leaves + spines);
            let mut b = Builder::new(spec, all * hosts_per_leaf, groups * per_group);
            let leaf = |group: usize, nth: usize| group * leaves + nth;
            let spine = |group: usize, nth: usize| all + group * spines + nth % spines;
            (0..all * hosts_per_leaf).for_each(|h| b.host(h, h / hosts_per_leaf));
            for group in 0..*groups {
                (0..leaves * spines).for_each(|i| b.trunk(leaf(group, i / spines), spine(group, i % spines)));
            }
            for (x, y) in (0..*groups).flat_map(|x| (x + 1..*groups).map(move |y| (x, y))) {
                // Seen from either group the others come one after the other, each with as many links.
                let first = |from: usize, to: usize| ((to + groups - from) % groups - 1) * links_per_pair;
                for i in 0..*links_per_pair {
                    b.trunk(spine(x, first(x, y) + i), spine(y, first(y, x) + i));
                }
            }
            b.plan
        }
        Topology::FatTree { k } => fat_tree(spec, *k)?,
        Topology::Ring { switches, hosts_per_switch } => {
            range("switches of a ring", *switches, 3, 256)?;
            let mut plan = chain(spec, *switches, *hosts_per_switch)?;
            let mut b = Builder::new(spec, 0, 0);
            std::mem::swap(&mut b.plan, &mut plan);
            b.trunk(switches - 1, 0);
            b.plan.clockwise = true;
            b.plan
        }
        Topology::HpccFile { .. } => from_hpcc_file(spec)?,
        Topology::Custom { hosts, switches, links, macs } => {
            let mut b = Builder::new(spec, hosts.len(), switches.len());
            b.plan.names = hosts.iter().chain(switches).cloned().collect();
            b.plan.macs = custom_macs(hosts, macs)?;
            for link in links {
                let find = |name: &String| {
                    let at = b.plan.names.iter().position(|n| n == name);
                    let (a, b) = (link.a.clone(), link.b.clone());
                    at.ok_or_else(|| FabricError::DanglingLink { a, b, missing: name.clone() })
                };
                let (x, y) = (find(&link.a)?, find(&link.b)?);
                let base = &spec.link;
                let rate: Rate = link.rate.unwrap_or(base.rate);
                let delay: Duration = link.delay.unwrap_or(base.delay);
                b.connect(x, y, LinkSpec { rate, delay, ..base.clone() });
                let (what, weight) = ("weight of a link", link.weight.unwrap_or(1));
                range(what, weight as usize, 1, 64)?;
                b.plan.links.last_mut().into_iter().for_each(|link| link.weight = weight);
            }
            b.plan
        }
    };
    check(&plan)?;
    Ok(plan)
}

/// That of the HPCC simulator's file. Rates, delays and losses are its own.
fn from_hpcc_file(spec: &FabricSpec) -> Result<Plan, FabricError> {
    let of_links = ["link", "trunk"]
        .map(|table| spec.source.keys(table).into_iter().map(move |key| format!("{table}.{key}")));
    if let Some(what) = of_links.into_iter().flatten().next() {
        let must = "absent: every link is as `topology.file` says".into();
        return Err(FabricError::Range { what, got: "set".into(), must });
    }
    let missing =
        || FabricError::Range { what: "topology.file".into(), got: "missing".into(), must: "a path".into() };
    let file = spec.files.get("topology.file").ok_or_else(missing)?;
    let network = hpcc::network(file)?;
    let is_switch = |node: &u64| network.switches.contains(node);
    let hosts: Vec<u64> = (0..network.nodes).filter(|node| !is_switch(node)).collect();
    let mut b = Builder::new(spec, hosts.len(), network.switches.len());
    let place = |node: u64| match hosts.binary_search(&node) {
        Ok(host) => host,
        Err(before) => hosts.len() + (node as usize - before),
    };
    let switches = network.switches.iter().map(|n| format!("s{n}"));
    b.plan.names = hosts.iter().map(|n| format!("h{n}")).chain(switches).collect();
    for link in &network.links {
        let (rate, delay) = (Rate::of(link.rate), Duration::of(link.delay));
        // The reference loses frames where they arrive, whatever they are.
        let spec = LinkSpec { rate, delay, loss: link.loss, pause_loss: link.loss };
        b.connect(place(link.a), place(link.b), spec);
    }
    Ok(b.plan)
}

/// Switches in a row, the first hosts on the first switch.
fn chain(spec: &FabricSpec, switches: usize, hosts: usize) -> Result<Plan, FabricError> {
    range("number of switches", switches, 1, 256)?;
    range("hosts on a switch", hosts, 1, MAX_PORTS - 2)?;
    let mut b = Builder::new(spec, switches * hosts, switches);
    (0..switches * hosts).for_each(|h| b.host(h, h / hosts));
    (1..switches).for_each(|s| b.trunk(s - 1, s));
    Ok(b.plan)
}

/// Al-Fares et al., SIGCOMM 2008: edge switches first, then aggregation, then core.
fn fat_tree(spec: &FabricSpec, k: usize) -> Result<Plan, FabricError> {
    range("topology.k", k, 2, 128)?;
    if k % 2 == 1 {
        return Err(FabricError::Range {
            what: "topology.k".into(),
            got: k.to_string(),
            must: "even".into(),
        });
    }
    let half = k / 2;
    let (edges, cores) = (k * half, half * half);
    let mut b = Builder::new(spec, edges * half, 2 * edges + cores);
    (0..edges * half).for_each(|h| b.host(h, h / half));
    for edge in 0..edges {
        let pod = edge / half;
        (0..half).for_each(|i| b.trunk(edge, edges + pod * half + i));
    }
    for aggregation in 0..edges {
        let row = aggregation % half;
        (0..half).for_each(|i| b.trunk(edges + aggregation, 2 * edges + row * half + i));
    }
    Ok(b.plan)
}

fn custom_macs(hosts: &[String], macs: &BTreeMap<String, String>) -> Result<Vec<Mac>, FabricError> {
    if let Some((name, _)) = macs.iter().find(|(name, _)| !hosts.contains(name)) {
        let must = "the name of a host".into();
        return Err(FabricError::Range { what: "topology.macs".into(), got: format!("for `{name}`"), must });
    }
    let parsed: Result<Vec<Mac>, FabricError> = hosts
        .iter()
        .enumerate()
        .map(|(i, name)| match macs.get(name) {
            None => Ok(host_mac(i)),
            Some(text) => {
                let mac: Result<Mac, String> = text.parse();
                let must = "a unicast address whose last byte is 00 (in those of next hops it is not)";
                mac.ok().filter(|mac| !mac.is_group() && mac.0[5] == 0).ok_or_else(|| FabricError::Range {
                    what: format!("topology.macs.{name}"),
                    got: text.clone(),
                    must: must.into(),
                })
            }
        })
        .collect();
    parsed
}

fn check(plan: &Plan) -> Result<(), FabricError> {
    let mut seen = BTreeSet::new();
    for name in &plan.names {
        if !seen.insert(name) {
            return Err(FabricError::TwoNames(name.clone()));
        }
    }
    let mut owners: BTreeMap<Mac, usize> = BTreeMap::new();
    for (host, mac) in plan.macs.iter().enumerate() {
        if let Some(other) = owners.insert(*mac, host) {
            let (a, b) = (plan.names[other].clone(), plan.names[host].clone());
            return Err(FabricError::TwoMacs { a, b, mac: mac.to_string() });
        }
    }
    for (node, links) in plan.ports.iter().enumerate() {
        if node < plan.hosts && links.len() != 1 {
            return Err(FabricError::HostLinks { host: plan.names[node].clone(), links: links.len() });
        }
        range(&format!("number of links of `{}`", plan.names[node]), links.len(), 1, MAX_PORTS)?;
    }
    for link in &plan.links {
        let [a, b] = link.ends.map(|end| plan.names[end.node].clone());
        if link.spec.rate.0 == 0 {
            return Err(FabricError::RateZero { a, b });
        }
    }
    Ok(())
}
