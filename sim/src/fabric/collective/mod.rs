//! Workloads `inc_all_reduce`: engines are placed, trees planned, ranks seated.
//!
//! An engine is an endpoint of the fabric behind an internal port of its switch, so what goes to it and comes from it is
//! switched like everything else. Plans are those of a controller ([`weir_inc::plan`]).

mod engine;
mod host;
mod rank;

pub(super) use engine::EnginePort;
pub(super) use host::RoceHost;
pub(super) use rank::{Rank, RankConfig};

use super::FabricError;
use super::faults::both;
use super::hosts;
use super::spec::{Congestion, FabricSpec, LinkSpec, Pattern, Protocol, Workload};
use super::topology::{Plan, lay_out};
use super::units::Rate;
use std::collections::{BTreeMap, BTreeSet};
use weir_dataplane::mmu::headroom::MAX_RATE;
use weir_dataplane::rng::Rng;
use weir_dataplane::types::MAX_PORTS;
use weir_endpoint::flow::Flow;
use weir_endpoint::rc::psn::Psn;
use weir_endpoint::roce::hca::FIRST_QPN;
use weir_endpoint::roce::qp::TrafficClass;
use weir_endpoint::roce::wire::Qpn;
use weir_inc::immediate::Primitive;
use weir_inc::kernels::{ByteOrder, DataType, Fold, Operator};
use weir_inc::params::{JobParams, MAX_CHILDREN};
use weir_inc::plan::{Below, EngineEnd, Fabric, HostEnd, JobPlan, Marks, Node, Tree};

/// First queue pair of an engine.
const ENGINE_QPN: u32 = 0x100;

/// A job of all hosts.
#[derive(Debug)]
struct Collective {
    /// Number of its workload, from 0.
    workload: usize,
    tree: Tree,
    jobs: JobPlan,
}

/// All of them.
#[derive(Debug, Default)]
pub(super) struct Collectives {
    all: Vec<Collective>,
    /// The engine of each switch that has one, as a node of the fabric.
    nodes: BTreeMap<usize, usize>,
}

fn is_collective(w: &Workload) -> bool {
    w.kind == Pattern::IncAllReduce
}

/// What an engine, or a rank, cannot do.
fn check(spec: &FabricSpec) -> Result<(), FabricError> {
    let mut collectives = spec.workloads.iter().enumerate().filter(|(_, w)| is_collective(w)).peekable();
    if collectives.peek().is_none() {
        if spec.source.sets("inc") {
            let (got, must) = ("set".into(), "absent without a workload of kind `inc_all_reduce`".into());
            return Err(FabricError::Range { what: "inc".into(), got, must });
        }
        return Ok(());
    }
    for (index, w) in collectives {
        let kind = w.kind.word();
        let wrong = |problem: &str| FabricError::Workload { index: index + 1, kind, problem: problem.into() };
        if spec.host.protocol == Protocol::Rclink {
            return Err(wrong("hosts speak RC Link, engines RoCEv2; take `protocol` out of [host]"));
        }
        if !w.reliable {
            return Err(wrong("a sum needs every contribution; take `reliable = false` out"));
        }
        if !matches!(w.cc(), Congestion::None | Congestion::Dcqcn) {
            return Err(wrong("ranks know `cc = \"dcqcn\"` and \"none\" only"));
        }
        let bytes = w.bytes.ok_or_else(|| wrong("needs `bytes`"))?.0;
        if bytes == 0 || bytes % 4 != 0 {
            return Err(wrong("`bytes` is of 32-bit numbers: a multiple of 4, not 0"));
        }
    }
    let range = |what: &str, got: u64, must: &str| {
        Err(FabricError::Range { what: what.into(), got: got.to_string(), must: must.into() })
    };
    if !matches!(spec.host.payload, 256 | 512 | 1024 | 2048 | 4096) {
        let must = "256, 512, 1024, 2048 or 4096: a path MTU, as ranks have";
        return range("host.payload", spec.host.payload.into(), must);
    }
    let window = spec.inc.window;
    if !window.is_power_of_two() || !(4..=4096).contains(&window) {
        return range("inc.window", window.into(), "a power of two, 4 to 4096");
    }
    if spec.host.timeout.0 == 0 {
        return range("host.timeout", 0, "above 0 where engines sum");
    }
    if spec.inc.rate.is_some_and(|rate| rate.0 == 0) {
        return range("inc.rate", 0, "above 0");
    }
    Ok(())
}

/// The fabric as a planner sees it.
fn graph(spec: &FabricSpec, plan: &Plan) -> Result<Fabric, FabricError> {
    let switches = &plan.names[plan.hosts..];
    let named = spec.inc.switches.iter().flatten();
    if let Some(name) = named.clone().find(|name| !switches.contains(name)) {
        let (what, got, must) = ("inc.switches".into(), format!("`{name}`"), "names of switches".into());
        return Err(FabricError::Range { what, got, must });
    }
    let node = |(at, name): (usize, &String)| {
        let has = spec.inc.switches.as_ref().is_none_or(|named| named.contains(name));
        match at < plan.hosts {
            true => Node::Host,
            false => Node::Switch { fan_in: if has { MAX_CHILDREN } else { 0 } },
        }
    };
    let nodes = plan.names.iter().enumerate().map(node).collect();
    let links = plan.links.iter().map(|link| (link.ends[0].node, link.ends[1].node)).collect();
    Ok(Fabric { nodes, links })
}

/// Lays the fabric out with the engines its workloads need.
///
/// # Errors
/// What in the spec cannot be.
pub(super) fn lay_out_with_engines(spec: &FabricSpec) -> Result<(Plan, Collectives), FabricError> {
    let ((), bare) = both(check(spec), lay_out(spec))?;
    let workloads = spec.workloads.iter().enumerate().filter(|(_, w)| is_collective(w));
    let (fabric, hosts) = (graph(spec, &bare)?, (0..bare.hosts).collect::<Vec<_>>());
    let mut trees = Vec::new();
    for (stripe, (workload, w)) in workloads.enumerate() {
        let tree = Tree::over(&fabric, &hosts, stripe).map_err(|error| FabricError::Workload {
            index: workload + 1,
            kind: w.kind.word(),
            problem: error.map(|node| format!("`{}`", bare.names[node])).to_string(),
        })?;
        trees.push((workload, tree));
    }
    let used: BTreeSet<usize> =
        trees.iter().flat_map(|(_, tree)| &tree.branches).map(|b| b.switch - bare.hosts).collect();
    let used: Vec<usize> = used.into_iter().collect();
    if let Some(full) = used.iter().map(|s| bare.hosts + s).find(|node| bare.ports[*node].len() >= MAX_PORTS)
    {
        let got = format!("an engine at `{}`, whose {MAX_PORTS} ports all have links", bare.names[full]);
        let must = "a list of switches with a port left: there is no port left for an engine; take fewer hosts or links";
        return Err(FabricError::Range { what: "inc.switches".into(), got, must: must.into() });
    }
    let nodes: BTreeMap<usize, usize> =
        used.iter().zip(bare.hosts..).map(|(switch, node)| (bare.hosts + switch, node)).collect();
    let plan = bare.with_engines(&used, |plan, switch| internal(spec, plan, switch));
    let mut engines: BTreeMap<usize, EngineEnd> = BTreeMap::new();
    for (switch, node) in &nodes {
        let qpns = ((MAX_CHILDREN + 1) * trees.len()) as u32;
        engines.insert(*switch, EngineEnd::new(hosts::address(&plan, *node), ENGINE_QPN, qpns));
    }
    let mut rng = Rng::new(spec.seed ^ 0x0069_6e63);
    let mut all = Vec::new();
    for (job, (workload, tree)) in trees.into_iter().enumerate() {
        let w = &spec.workloads[workload];
        let template = template(spec, job as u32);
        let marks = Marks {
            vlan: None,
            data: TrafficClass::of_data(w.dscp, w.priority),
            cnp: TrafficClass::of_cnps(hosts::CNP_DSCP, spec.host.cnp_priority),
        };
        let qpn = Qpn(FIRST_QPN + job as u32);
        let ends: Vec<HostEnd> =
            (0..plan.stations()).map(|at| HostEnd { address: hosts::address(&plan, at), qpn }).collect();
        let first_psn = || Psn::new(rng.next_u32() & 0xff_ffff);
        let planned = tree.jobs(&template, marks, &ends, &mut engines, first_psn);
        // There are numbers for all, so nothing is refused that was not before.
        let jobs = planned.map_err(|error| FabricError::Workload {
            index: workload + 1,
            kind: w.kind.word(),
            problem: error.to_string(),
        })?;
        all.push(Collective { workload, tree, jobs });
    }
    Ok((plan, Collectives { all, nodes }))
}

/// The line between a switch and its engine.
fn internal(spec: &FabricSpec, plan: &Plan, switch: usize) -> LinkSpec {
    let ports = || plan.ports[switch].iter().map(|link| plan.links[*link].spec.rate.0).sum();
    let rate = spec.inc.rate.unwrap_or_else(|| Rate::of(MAX_RATE.min(ports())));
    LinkSpec { rate, delay: spec.inc.delay, loss: 0.0, pause_loss: 0.0 }
}

/// What all engines of a job have in common.
fn template(spec: &FabricSpec, id: u32) -> JobParams {
    let sum = Fold::new(Operator::Sum, DataType::I32, ByteOrder::Big);
    let operation = sum.map_or(Primitive::Barrier, Primitive::AllReduce);
    JobParams {
        mtu: spec.host.payload,
        window: spec.inc.window,
        results: spec.inc.window,
        ack_timeout: spec.host.timeout.0,
        cnp_interval: spec.host.cnp_interval.0,
        ..JobParams::new(id, 0, operation)
    }
}

impl Collectives {
    fn node(&self, switch: usize) -> usize {
        self.nodes.get(&switch).copied().unwrap_or(switch)
    }

    /// Which rank of its host, and the engine, of every host in the job of a workload.
    pub fn engines_of(&self, workload: usize) -> impl Iterator<Item = (usize, usize)> {
        let found = self.all.iter().enumerate().filter(move |(_, c)| c.workload == workload);
        found.flat_map(|(job, collective)| {
            let mut engine = vec![0; collective.tree.seats.len()];
            for branch in &collective.tree.branches {
                for below in &branch.children {
                    if let Below::Host(host) = below {
                        engine[*host] = self.node(branch.switch);
                    }
                }
            }
            engine.into_iter().map(move |engine| (job, engine))
        })
    }

    /// Nodes at which the numbers of rank `job` of `host` stop, on their way up and back.
    pub fn stops(&self, job: usize, host: usize) -> Vec<usize> {
        let tree = &self.all[job].tree;
        let above = |below: Below| tree.branches.iter().position(|b| b.children.contains(&below));
        let mut up = Vec::new();
        let mut at = above(Below::Host(host));
        while let Some(branch) = at {
            up.push(self.node(tree.branches[branch].switch));
            at = above(Below::Engine(branch));
        }
        let down: Vec<usize> = up.iter().rev().skip(1).copied().chain([host]).collect();
        up.into_iter().chain(down).collect()
    }

    /// Name of job `job`, and the nodes of its engines.
    pub fn engines(&self, job: usize) -> impl Iterator<Item = (u32, usize)> {
        self.all[job].jobs.engines.iter().map(|(switch, params)| (params.id, self.node(*switch)))
    }

    /// The engine at a node.
    pub fn engine(&self, node: usize, rate: u64, obey: u8) -> Option<EnginePort> {
        let of_node = |(switch, _): &&(usize, JobParams)| self.node(*switch) == node;
        let jobs = self.all.iter().flat_map(|c| c.jobs.engines.iter().filter(of_node));
        let jobs: Vec<JobParams> = jobs.map(|(_, job)| job.clone()).collect();
        let qpns = ((MAX_CHILDREN + 1) * self.all.len()) as u32;
        EnginePort::new(&jobs, (ENGINE_QPN, qpns), rate, obey)
    }

    /// What rank `job` of `host` is made with.
    pub fn rank(&self, job: usize, host: usize, spec: &FabricSpec, flow: Flow) -> RankConfig {
        let seat = self.all[job].jobs.seats[host];
        RankConfig {
            qpn: Qpn(FIRST_QPN + job as u32),
            path: seat.path,
            rank: seat.rank,
            ranks: self.all[job].jobs.seats.len() as u16,
            window: spec.inc.window,
            cnp_interval: spec.host.cnp_interval.0,
            flow,
        }
    }
}
