//! From a named shape to nodes, ports and links.

use super::FabricError;
use super::faults::{Faults, both};
use super::idle;
use super::import::hpcc;
use super::spec::{
    CustomLink, CustomSpec, DragonflyPlusSpec, DumbbellSpec, FabricSpec, FatTreeSpec, LeafSpineSpec,
    LinkSpec, RailSpec, RowSpec, StarSpec, Topology,
};
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
        Self { plan, link: spec.link.clone(), trunk: spec.trunk.beside(&spec.link) }
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
    Mac::from_u64(hop_address(port))
}

/// The same as a number.
#[inline]
pub(super) fn hop_address(port: usize) -> u64 {
    0x0200_0000_0000 + (1 + port + port / 255) as u64
}

impl Plan {
    /// What is at the other end of the link of a port.
    pub fn peer(&self, node: usize, port: usize) -> End {
        let [a, b] = self.links[self.ports[node][port]].ends;
        if a == (End { node, port }) { b } else { a }
    }

    /// Rate of the line of a host, bit/s.
    pub fn line_of(&self, host: usize) -> u64 {
        self.links[self.ports[host][0]].spec.rate.0
    }

    /// Delay of that line, ns.
    pub fn cable_of(&self, host: usize) -> u64 {
        self.links[self.ports[host][0]].spec.delay.0
    }

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

fn range(key: &str, got: usize, low: usize, high: usize, why: &str) -> Result<(), FabricError> {
    if (low..=high).contains(&got) {
        return Ok(());
    }
    let must = format!("{low} to {high}{why}");
    Err(FabricError::Range { what: format!("topology.{key}"), got: got.to_string(), must })
}

/// All of these sizes, up to which a switch has ports.
fn sizes<const N: usize>(sizes: [(&str, usize); N]) -> Result<(), FabricError> {
    let each = sizes.into_iter().map(|(key, got)| range(key, got, 1, MAX_PORTS, ""));
    each.collect::<Faults>().refuse()
}

/// Shares of loss are shares.
fn check_loss(name: &str, loss: Option<f64>, pause_loss: Option<f64>) -> Result<(), FabricError> {
    let share = |(key, share): (&str, f64)| match (0.0..=1.0).contains(&share) {
        true => Ok(()),
        false => Err(FabricError::Range {
            what: format!("{name}.{key}"),
            got: share.to_string(),
            must: "0 to 1".into(),
        }),
    };
    let all = [("loss", loss), ("pause_loss", pause_loss)];
    let given = all.into_iter().filter_map(|(key, share)| Some((key, share?)));
    given.map(share).collect::<Faults>().refuse()
}

/// Both ends of the link of this number are switches.
pub(super) fn joins_switches(plan: &Plan, link: usize) -> bool {
    plan.links[link].ends.iter().all(|end| end.node >= plan.hosts)
}

/// One end of the link of this number is an engine.
fn joins_engine(plan: &Plan, link: usize) -> bool {
    plan.links[link].ends.iter().any(|end| (plan.stations()..plan.hosts).contains(&end.node))
}

/// The key `key` that says of the link of this number what `[link]` says of all; `own`: whether a link of a custom topology says it itself,
/// and `[trunk]`.
fn key_of(
    spec: &FabricSpec,
    plan: &Plan,
    link: usize,
    key: &str,
    own: (impl Fn(&CustomLink) -> bool, bool),
) -> String {
    let (of_link, of_trunk) = own;
    match &spec.topology {
        _ if joins_engine(plan, link) => format!("inc.{key}"),
        Topology::HpccFile(_) => "topology.file".into(),
        Topology::Custom(custom) if custom.links.get(link).is_some_and(of_link) => {
            format!("topology.links.{link}.{key}")
        }
        Topology::Custom(_) => format!("link.{key}"),
        _ if joins_switches(plan, link) && of_trunk => format!("trunk.{key}"),
        _ => format!("link.{key}"),
    }
}

/// The key that gives the link of this number its delay.
pub(super) fn key_of_delay(spec: &FabricSpec, plan: &Plan, link: usize) -> String {
    key_of(spec, plan, link, "delay", (|own: &CustomLink| own.delay.is_some(), spec.trunk.delay.is_some()))
}

/// The key that gives the link of this number its share of lost data frames.
pub(super) fn key_of_loss(spec: &FabricSpec, plan: &Plan, link: usize) -> String {
    key_of(spec, plan, link, "loss", (|own: &CustomLink| own.loss.is_some(), spec.trunk.loss.is_some()))
}

/// The key that gives the link of this number its rate.
pub(super) fn key_of_rate(spec: &FabricSpec, plan: &Plan, link: usize) -> String {
    match &spec.topology {
        Topology::LeafSpine(LeafSpineSpec { oversubscription: Some(_), .. })
        | Topology::Rail(RailSpec { oversubscription: Some(_), .. })
            if joins_switches(plan, link) =>
        {
            "topology.oversubscription".into()
        }
        _ => key_of(
            spec,
            plan,
            link,
            "rate",
            (|own: &CustomLink| own.rate.is_some(), spec.trunk.rate.is_some()),
        ),
    }
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
    let link = check_loss("link", Some(spec.link.loss), Some(spec.link.pause_loss));
    let trunk = check_loss("trunk", spec.trunk.loss, spec.trunk.pause_loss);
    let ((), plan) = both(both(link, trunk).map(drop), nodes_and_links(spec))?;
    both(check(spec, &plan), idle::of_network(spec, &plan).refuse())?;
    Ok(plan)
}

fn nodes_and_links(spec: &FabricSpec) -> Result<Plan, FabricError> {
    Ok(match &spec.topology {
        Topology::Direct(_) => {
            let mut b = Builder::new(spec, 2, 0);
            b.connect(0, 1, spec.link.clone());
            b.plan
        }
        Topology::Star(StarSpec { hosts }) => row(spec, ("", 1, 1), ("hosts", *hosts, 0))?,
        Topology::Dumbbell(DumbbellSpec { pairs }) => row(spec, ("", 2, 1), ("pairs", *pairs, 1))?,
        Topology::Chain(RowSpec { switches, hosts_per_switch }) => {
            let trunks = (*switches).clamp(1, 3) - 1;
            row(spec, ("switches", *switches, 1), ("hosts_per_switch", *hosts_per_switch, trunks))?
        }
        Topology::LeafSpine(leaf_spine) => leaf_spine_of(spec, leaf_spine)?,
        Topology::Rail(rail) => rails(spec, rail)?,
        Topology::DragonflyPlus(dragonfly) => dragonfly_plus(spec, dragonfly)?,
        Topology::FatTree(FatTreeSpec { k }) => fat_tree(spec, *k)?,
        Topology::Ring(RowSpec { switches, hosts_per_switch }) => {
            let mut plan = row(spec, ("switches", *switches, 3), ("hosts_per_switch", *hosts_per_switch, 2))?;
            let mut b = Builder::new(spec, 0, 0);
            std::mem::swap(&mut b.plan, &mut plan);
            b.trunk(switches - 1, 0);
            b.plan.clockwise = true;
            b.plan
        }
        Topology::HpccFile(_) => from_hpcc_file(spec)?,
        Topology::Custom(custom) => as_listed(spec, custom)?,
    })
}

fn leaf_spine_of(spec: &FabricSpec, shape: &LeafSpineSpec) -> Result<Plan, FabricError> {
    let LeafSpineSpec { leaves, spines, hosts_per_leaf, links_per_spine, oversubscription } = *shape;
    sizes([
        ("leaves", leaves),
        ("spines", spines),
        ("hosts_per_leaf", hosts_per_leaf),
        ("links_per_spine", links_per_spine),
    ])?;
    let mut b = Builder::new(spec, leaves * hosts_per_leaf, leaves + spines);
    b.oversubscribe(spec, oversubscription, hosts_per_leaf, spines * links_per_spine)?;
    (0..leaves * hosts_per_leaf).for_each(|h| b.host(h, h / hosts_per_leaf));
    for i in 0..leaves * spines {
        (0..links_per_spine).for_each(|_| b.trunk(i / spines, leaves + i % spines));
    }
    Ok(b.plan)
}

fn rails(spec: &FabricSpec, shape: &RailSpec) -> Result<Plan, FabricError> {
    let RailSpec { servers, rails, servers_per_unit, spines, oversubscription } = *shape;
    let unit = servers_per_unit.unwrap_or(servers);
    let known = range("servers", servers, 1, 1 << 16, "");
    let why = ", as many as a switch has ports: give units, e.g. servers_per_unit = 32";
    let units = match servers_per_unit {
        Some(unit) => range("servers_per_unit", unit, 1, MAX_PORTS, ""),
        None if known.is_ok() => range("servers", servers, 1, MAX_PORTS, why),
        None => Ok(()),
    };
    [known, sizes([("rails", rails), ("spines", spines)]), units].into_iter().collect::<Faults>().refuse()?;
    let (hosts, leaves) = (servers * rails, servers.div_ceil(unit) * rails);
    let mut b = Builder::new(spec, hosts, leaves + spines);
    b.oversubscribe(spec, oversubscription, unit, spines)?;
    (0..hosts).for_each(|h| b.host(h, h / rails / unit * rails + h % rails));
    (0..leaves * spines).for_each(|i| b.trunk(i / spines, leaves + i % spines));
    Ok(b.plan)
}

fn dragonfly_plus(spec: &FabricSpec, shape: &DragonflyPlusSpec) -> Result<Plan, FabricError> {
    let DragonflyPlusSpec { groups, leaves, spines, hosts_per_leaf, links_per_pair } = *shape;
    let groups_fit = range("groups", groups, 2, 1024, "");
    let rest = sizes([
        ("leaves", leaves),
        ("spines", spines),
        ("hosts_per_leaf", hosts_per_leaf),
        ("links_per_pair", links_per_pair),
    ]);
    both(groups_fit, rest)?;
    let (all, per_group) = (groups * leaves, leaves + spines);
    let mut b = Builder::new(spec, all * hosts_per_leaf, groups * per_group);
    let leaf = |group: usize, nth: usize| group * leaves + nth;
    let spine = |group: usize, nth: usize| all + group * spines + nth % spines;
    (0..all * hosts_per_leaf).for_each(|h| b.host(h, h / hosts_per_leaf));
    for group in 0..groups {
        (0..leaves * spines).for_each(|i| b.trunk(leaf(group, i / spines), spine(group, i % spines)));
    }
    for (x, y) in (0..groups).flat_map(|x| (x + 1..groups).map(move |y| (x, y))) {
        // Seen from either group the others come one after the other, each with as many links.
        let first = |from: usize, to: usize| ((to + groups - from) % groups - 1) * links_per_pair;
        for i in 0..links_per_pair {
            b.trunk(spine(x, first(x, y) + i), spine(y, first(y, x) + i));
        }
    }
    Ok(b.plan)
}

fn as_listed(spec: &FabricSpec, custom: &CustomSpec) -> Result<Plan, FabricError> {
    let CustomSpec { hosts, switches, links, macs } = custom;
    let mut b = Builder::new(spec, hosts.len(), switches.len());
    b.plan.names = hosts.iter().chain(switches).cloned().collect();
    let mut faults = Faults::default();
    b.plan.macs = faults.keep(custom_macs(hosts, macs)).unwrap_or_default();
    for (list, names) in [("hosts", hosts), ("switches", switches)] {
        faults.keep(can_be_seen(list, names));
    }
    faults.keep(two_names(&b.plan));
    for (at, link) in links.iter().enumerate() {
        let find = |name: &String| {
            let at = b.plan.names.iter().position(|n| n == name);
            let (a, b) = (link.a.clone(), link.b.clone());
            at.ok_or_else(|| FabricError::DanglingLink { a, b, missing: name.clone() })
        };
        let ends = faults.keep(both(find(&link.a), find(&link.b)));
        let weight = link.weight;
        faults.keep(range(&format!("links.{at}.weight"), weight as usize, 1, 64, ""));
        faults.keep(check_loss(&format!("topology.links.{at}"), link.loss, link.pause_loss));
        let Some((x, y)) = ends else { continue };
        if x == y {
            faults.add(FabricError::LinkToItself { at, node: link.a.clone() });
            continue;
        }
        let base = &spec.link;
        let own = LinkSpec {
            rate: link.rate.unwrap_or(base.rate),
            delay: link.delay.unwrap_or(base.delay),
            loss: link.loss.unwrap_or(base.loss),
            pause_loss: link.pause_loss.unwrap_or(base.pause_loss),
        };
        b.connect(x, y, own);
        b.plan.links.last_mut().into_iter().for_each(|link| link.weight = weight);
    }
    faults.refuse().map(|()| b.plan)
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

/// Switches in a row, the first hosts on the first switch. Of both the key, and how many they are; of switches how many they are at
/// least, of hosts how many trunks a switch has besides.
fn row(
    spec: &FabricSpec,
    (key, switches, least): (&str, usize, usize),
    (hosts_key, hosts, trunks): (&str, usize, usize),
) -> Result<Plan, FabricError> {
    let why = match trunks {
        0 => format!(
            ": a switch has {MAX_PORTS} ports; for more use e.g. kind = \"leaf_spine\" or \"fat_tree\""
        ),
        n => format!(": a switch has {MAX_PORTS} ports, and here {n} of them for trunks; take more switches"),
    };
    let hosts_fit = range(hosts_key, hosts, 1, MAX_PORTS - trunks, &why);
    both(range(key, switches, least, 256, ""), hosts_fit)?;
    let mut b = Builder::new(spec, switches * hosts, switches);
    (0..switches * hosts).for_each(|h| b.host(h, h / hosts));
    (1..switches).for_each(|s| b.trunk(s - 1, s));
    Ok(b.plan)
}

/// Al-Fares et al., SIGCOMM 2008: edge switches first, then aggregation, then core.
fn fat_tree(spec: &FabricSpec, k: usize) -> Result<Plan, FabricError> {
    range("k", k, 2, 128, "")?;
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
    let wrong = |name: &str, got: String, must: &str| FabricError::Range {
        what: format!("topology.macs.{name}"),
        got,
        must: must.into(),
    };
    let mut faults = Faults::default();
    for name in macs.keys().filter(|name| !hosts.contains(name)) {
        faults.add(wrong(name, "set".into(), "absent: no host is called so; correct the name"));
    }
    let mac = |(i, name): (usize, &String)| {
        let Some(text) = macs.get(name) else { return Ok(host_mac(i)) };
        let mac: Result<Mac, String> = text.parse();
        let must = "a unicast address whose last byte is 00 (in those of next hops it is not)";
        mac.ok().filter(|mac| !mac.is_group() && mac.0[5] == 0).ok_or_else(|| wrong(name, text.clone(), must))
    };
    let parsed = hosts.iter().enumerate().filter_map(|host| faults.keep(mac(host))).collect();
    faults.refuse().map(|()| parsed)
}

/// Names that nobody can read, or tell from others, in a table or in a message.
fn can_be_seen(list: &str, names: &[String]) -> Result<(), FabricError> {
    let is_seen = |name: &str| !name.is_empty() && name.trim() == name && !name.chars().any(char::is_control);
    let unseen = names.iter().enumerate().filter(|(_, name)| !is_seen(name));
    let wrong = |(at, name): (usize, &String)| {
        let must = "a name: not empty, without control characters, without blanks at its ends".into();
        Err(FabricError::Range { what: format!("topology.{list}.{at}"), got: format!("{name:?}"), must })
    };
    unseen.map(wrong).collect::<Faults>().refuse()
}

fn two_names(plan: &Plan) -> Result<(), FabricError> {
    let mut seen = BTreeSet::new();
    let again = plan.names.iter().filter(|name| !seen.insert(*name));
    again.map(|name| Err(FabricError::TwoNames(name.clone()))).collect::<Faults>().refuse()
}

fn check(spec: &FabricSpec, plan: &Plan) -> Result<(), FabricError> {
    let mut faults = Faults::default();
    faults.keep(two_names(plan));
    let mut owners: BTreeMap<Mac, usize> = BTreeMap::new();
    for (host, mac) in plan.macs.iter().enumerate() {
        if let Some(other) = owners.insert(*mac, host) {
            let (a, b) = (plan.names[other].clone(), plan.names[host].clone());
            faults.add(FabricError::TwoMacs { a, b, mac: mac.to_string() });
        }
    }
    // Those of one kind have as many links: one of them is named.
    let mut told = BTreeSet::new();
    for (node, links) in plan.ports[..plan.hosts].iter().enumerate().filter(|(_, links)| links.len() != 1) {
        if told.insert(links.len()) {
            let (host, links) = (plan.names[node].clone(), links.len());
            let others = plan.ports[node + 1..plan.hosts].iter().filter(|of| of.len() == links).count();
            faults.add(FabricError::HostLinks { host, links, others });
        }
    }
    told.clear();
    for (node, links) in plan.ports.iter().enumerate().skip(plan.hosts) {
        if !(1..=MAX_PORTS).contains(&links.len()) && told.insert(links.len()) {
            let (what, got) = (format!("number of links of `{}`", plan.names[node]), links.len().to_string());
            let must = format!(
                "1 to {MAX_PORTS}, the ports of a switch: take more or fewer of them, or fewer links"
            );
            faults.add(FabricError::Range { what, got, must });
        }
    }
    let mut told = BTreeSet::new();
    for (at, link) in plan.links.iter().enumerate().filter(|(_, link)| link.spec.rate.0 == 0) {
        let [a, b] = link.ends.map(|end| plan.names[end.node].clone());
        let key = key_of_rate(spec, plan, at);
        if told.insert(key.clone()) {
            faults.add(FabricError::RateZero { key, a, b });
        }
    }
    faults.refuse()
}

#[cfg(test)]
mod tests {
    use super::super::{load, run};

    fn refused(topology: &str, more: &str) -> String {
        let text = format!(
            "name = \"x\"\nstop_time = \"1ms\"\n[topology]\n{topology}\n[[workload]]\nkind = \"permutation\"\nbytes = 1000\n{more}"
        );
        load("x.toml", &text)
            .and_then(|spec| run(&spec))
            .map_or_else(|e| e.to_string(), |report| report.verdict.into())
    }

    /// Names of a custom topology are for people.
    #[test]
    fn names_that_nobody_can_see_are_refused() {
        let of = |hosts: &str, switches: &str, a: &str| {
            let links = format!("links = [{{ a = {a}, b = \"s\" }}, {{ a = \"h2\", b = \"s\" }}]");
            refused(&format!("kind = \"custom\"\nhosts = [{hosts}]\nswitches = [{switches}]\n{links}"), "")
        };
        for good in ["\"h1\"", "\"rack 1 host 2\"", "\"gpu\u{e9}\""] {
            assert_eq!(of(&format!("{good}, \"h2\""), "\"s\"", good), "PASS", "{good}");
        }
        for bad in ["\"\"", "\" \"", "\"h1 \"", "\"h\\t1\"", "\"h\\n1\"", "\"h\\u001b[2J\""] {
            let said = of(&format!("{bad}, \"h2\""), "\"s\"", bad);
            assert!(
                said.starts_with("x.toml:5: topology.hosts.0 is \"") && said.contains("it must be a name: "),
                "{said}"
            );
            let said = of("\"h1\", \"h2\"", &format!("\"s\", {bad}"), "\"h1\"");
            assert!(said.contains("x.toml:6: topology.switches.1 is \""), "{said}");
        }
    }

    /// A switch has 256 ports: so many hosts, less its trunks, and whoever wants more learns what to take.
    #[test]
    fn a_switch_has_as_many_hosts_as_ports_and_refusals_name_the_key() {
        let buffer = "[switch.config.buffer]\nsize = \"64MiB\"\n";
        assert_eq!(refused("kind = \"star\"\nhosts = 256", buffer), "PASS");
        for (topology, line, what) in [
            (
                "kind = \"star\"\nhosts = 257",
                5,
                "topology.hosts is 257; it must be 1 to 256: a switch has 256 ports; for more use",
            ),
            ("kind = \"dumbbell\"\npairs = 256", 5, "topology.pairs is 256; it must be 1 to 255"),
            (
                "kind = \"chain\"\nswitches = 3\nhosts_per_switch = 255",
                6,
                "topology.hosts_per_switch is 255; it must be 1 to 254",
            ),
            (
                "kind = \"ring\"\nswitches = 2\nhosts_per_switch = 2",
                5,
                "topology.switches is 2; it must be 3 to 256",
            ),
            (
                "kind = \"rail\"\nservers = 300\nrails = 2\nspines = 2",
                5,
                "give units, e.g. servers_per_unit = 32",
            ),
            (
                "kind = \"leaf_spine\"\nleaves = 0\nspines = 300\nhosts_per_leaf = 2",
                5,
                "topology.leaves is 0",
            ),
            (
                "kind = \"leaf_spine\"\nleaves = 2\nspines = 60\nhosts_per_leaf = 200",
                3,
                "number of links of `s0` is 260",
            ),
        ] {
            let said = refused(topology, "");
            assert!(said.starts_with(&format!("x.toml:{line}: ")) && said.contains(what), "{said}");
        }
        let both = refused("kind = \"leaf_spine\"\nleaves = 0\nspines = 300\nhosts_per_leaf = 2", "");
        assert!(both.contains("x.toml:6: topology.spines is 300"), "{both}");
        // The usual buffer has no room for the reserves of so many ports: the line is that of the shape.
        let usual = refused("kind = \"star\"\nhosts = 256", "");
        assert!(
            usual.starts_with("x.toml:3: [switch.config]: ") && usual.contains("set buffer.size to"),
            "{usual}"
        );
        let gen2 = "[host]\nprotocol = \"rclink\"\n[host.rclink]\nformat = \"afh_gen2_16b\"\n";
        let gen2 = refused("kind = \"fat_tree\"\nk = 12", gen2);
        let words = "host.rclink.format is afh_gen2_16b; it must be standard or afh_gen1: its addresses have 16 bits, and h0 and h256";
        assert!(gen2.starts_with(&format!("x.toml:12: {words}")), "{gen2}");
        // An engine of a switch takes a port, too.
        let engine = refused(
            "kind = \"leaf_spine\"\nleaves = 2\nspines = 254\nhosts_per_leaf = 2",
            "[[workload]]\nkind = \"inc_all_reduce\"\nbytes = 4096\n",
        );
        assert!(engine.contains("no port left for an engine"), "{engine}");
    }

    /// What a switch is configured with follows from keys of the fabric: those are named, not what was made of them.
    #[test]
    fn what_follows_from_a_key_of_the_fabric_is_told_as_a_fault_of_that_key() {
        let star = "kind = \"star\"\nhosts = 4";
        for (more, what) in [
            (
                "[switch]\negress = 5\ningress = \"20ms\"\n",
                "x.toml:11: switch.ingress is 20000000; it must be ",
            ),
            (
                "[host]\npfc_response_delay = \"20ms\"\n",
                "x.toml:10: host.pfc_response_delay is 20000000; it must be ",
            ),
            ("[link]\ndelay = \"2ms\"\n", "x.toml:10: link.delay is 2000000; it must be "),
            (
                "[switch.config.pfc]\npoll_gap = \"20ms\"\n",
                "x.toml:10: [switch.config]: pfc.poll_gap = 20ms is outside",
            ),
            (
                "[[switch.config.port]]\nname = \"p\"\n[[switch.config.mirror]]\nname = \"m\"\n",
                "x.toml:11: switch.config.mirror is set; it must be absent",
            ),
        ] {
            let said = refused(star, more);
            assert!(said.contains(what), "{said}\n--- should say: {what}");
        }
        let many = refused(star, "[link]\ndelay = \"2ms\"\n[switch]\ncrossbar = \"1s\"\n");
        assert_eq!(many.lines().count(), 2, "{many}");
    }

    /// What gives a link its rate is what is to be changed.
    #[test]
    fn a_fault_of_a_rate_names_the_key_that_gives_it() {
        let leaves = "kind = \"leaf_spine\"\nleaves = 2\nspines = 2\nhosts_per_leaf = 4";
        let hpcc = "cc = \"hpcc\"\n";
        for (topology, more, what) in [
            (leaves.to_owned(), "[trunk]\nrate = 0\n".to_owned(), "x.toml:12: link s0 - s2 has rate 0; give `trunk.rate`"),
            (leaves.to_owned(), "[link]\nrate = 0\n[trunk]\nrate = 0\n".to_owned(), "x.toml:12: link h0 - s0 has rate 0; give `link.rate`"),
            (leaves.to_owned(), format!("{hpcc}[trunk]\nrate = \"30G\"\n"), "x.toml:13: trunk.rate is 30000000000"),
            // What a trunk does not say is that of other links.
            (leaves.to_owned(), "[link]\nrate = 0\n[trunk]\ndelay = 5\n".to_owned(), "x.toml:12: link h0 - s0 has rate 0; give `link.rate`"),
            (leaves.to_owned(), format!("{hpcc}[link]\nrate = \"30G\"\n[trunk]\ndelay = 5\n"), "x.toml:13: link.rate is 30000000000"),
            (format!("{leaves}\noversubscription = 3.0"), hpcc.to_owned(), "x.toml:8: topology.oversubscription is what gives link s0 - s2 a rate of 66666666667"),
            (
                "kind = \"custom\"\nhosts = [\"a\", \"b\"]\nswitches = [\"s\"]\nlinks = [{ a = \"a\", b = \"s\" },\n{ a = \"b\", b = \"s\", rate = \"3G\" }]".to_owned(),
                hpcc.to_owned(),
                "x.toml:8: topology.links.1.rate is 3000000000",
            ),
        ] {
            let said = refused(&topology, &more);
            assert!(said.contains(what), "{said}\n--- should say: {what}");
        }
    }
}
