//! Graphs of files of other simulators.

use super::{ENDLESS, Reader};
use crate::fabric::FabricError;
use crate::fabric::graph::{Graph, Message, OpId};
use crate::fabric::import::{File, hpcc, htsim};
use crate::fabric::spec::{FabricSpec, Pattern, StartUnit, Topology, Workload};
use htsim::{Begin, Connection, Fires};
use std::collections::BTreeMap;
use weir_dataplane::types::Nanos;

/// Connections of a circle that are named.
const MAX_NAMED: usize = 16;

/// Activations, and connections, of a trigger.
#[derive(Default)]
struct Trigger {
    /// Line of the first connection that names it.
    line: usize,
    activations: Vec<OpId>,
    /// Places of connections.
    starts: Vec<usize>,
}

/// A file whose hosts have numbers: `n` is host `hn` or, in a custom topology, that at place n of the list.
struct Numbered<'a> {
    file: File<'a>,
    hosts: BTreeMap<u64, usize>,
}

impl Numbered<'_> {
    fn host(&self, line: usize, number: u64) -> Result<usize, FabricError> {
        self.hosts.get(&number).copied().ok_or_else(|| {
            let numbers = || self.hosts.keys();
            let (first, last) = (numbers().next().unwrap_or(&0), numbers().next_back().unwrap_or(&0));
            let problem =
                format!("there is no host {number}: [topology] has {}, {first} to {last}", self.hosts.len());
            self.file.wrong(line, problem + "; correct one of the two")
        })
    }

    /// The hosts of a line.
    fn ends(&self, line: usize, [src, dst]: [u64; 2]) -> Result<(usize, usize), FabricError> {
        if src == dst {
            return Err(self
                .file
                .wrong(line, format!("host {src} does not send to itself; correct one of the two")));
        }
        Ok((self.host(line, src)?, self.host(line, dst)?))
    }
}

/// Starts of matrices that are read as picoseconds for want of a `start_unit`, and are too small for that.
pub(in crate::fabric) fn small_starts(spec: &FabricSpec) -> Vec<String> {
    let of = |(index, w): (usize, &Workload)| {
        let unsaid = w.kind == Pattern::HtsimMatrix && w.start_unit.is_none();
        let file = spec.files.get(&format!("workload.{index}.file")).filter(|_| unsaid)?;
        let connections = htsim::matrix(file, StartUnit::Ps).ok()?.connections;
        let last = connections.iter().filter_map(|connection| match connection.begin {
            Begin::At(at) => Some(at),
            Begin::Trigger(_) => None,
        });
        last.max().filter(|last| (1..1000).contains(last)).map(|last| {
            format!(
                "Workload {} (htsim_matrix) has all its starts within {last} ns, as picoseconds: if its file means microseconds, \
                 as htsim_uec, htsim_roce and htsim_swift play it, set `start_unit = \"us\"`.",
                index + 1
            )
        })
    };
    spec.workloads.iter().enumerate().filter_map(of).collect()
}

impl Reader<'_> {
    fn file<'s>(&self, spec: &'s FabricSpec) -> Result<File<'s>, FabricError> {
        let file = spec.files.get(&format!("workload.{}.file", self.index));
        file.ok_or_else(|| self.wrong("needs `file`"))
    }

    /// The hosts of the fabric by their numbers in a file.
    fn numbered<'s>(&self, spec: &'s FabricSpec) -> Result<Numbered<'s>, FabricError> {
        let hosts = self.plan.names[..self.plan.stations()].iter().enumerate();
        let number = |(at, name): (usize, &String)| match spec.topology {
            Topology::Custom(_) => Some((at as u64, at)),
            _ => Some((name.strip_prefix('h')?.parse().ok()?, at)),
        };
        Ok(Numbered { file: self.file(spec)?, hosts: hosts.filter_map(number).collect() })
    }

    /// A time of a file on the clock of the run.
    fn on_our_clock(&self, file: File<'_>, line: usize, at: Nanos) -> Result<Nanos, FabricError> {
        let from = self.w.origin.0;
        let since = at.checked_sub(from).ok_or_else(|| {
            let problem = format!("begins {at} ns after 0, before `origin`, {from} ns; take `origin` back");
            file.wrong(line, problem)
        })?;
        Ok(self.w.start.0.saturating_add(since))
    }

    /// Flows of the HPCC simulator.
    pub(super) fn hpcc_flows(&self, spec: &FabricSpec) -> Result<Graph, FabricError> {
        let numbered = self.numbered(spec)?;
        let file = numbered.file;
        let mut graph = Graph::default();
        for flow in hpcc::flows(file)? {
            let hpcc::HpccFlow { line, src, dst, pg, dst_port, bytes, start } = flow;
            let (from, to) = numbered.ends(line, [src, dst])?;
            let own = self.w.priority;
            if pg != u64::from(own) {
                let problem = format!(
                    "priority group {pg}, but `priority` of the workload is {own}: one workload for each group, with \
                     its `priority` and `dscp`"
                );
                return Err(file.wrong(line, problem));
            }
            let start = self.on_our_clock(file, line, start)?;
            graph.send(Message { dst_port, ..Message::new(from, to, bytes) }, start, Vec::new());
        }
        Ok(graph)
    }

    /// A connection matrix of htsim.
    pub(super) fn htsim_matrix(&self, spec: &FabricSpec) -> Result<Graph, FabricError> {
        let numbered = self.numbered(spec)?;
        let file = numbered.file;
        let matrix = htsim::matrix(file, self.w.start_unit.unwrap_or_default())?;
        let (nodes, line) = matrix.nodes;
        if nodes > self.plan.stations() as u64 {
            let hosts = self.plan.stations();
            let problem =
                format!("`Nodes {nodes}`, but the fabric has {hosts} hosts; correct it or [topology]");
            return Err(file.wrong(line, problem));
        }
        let mut graph = Graph::default();
        let mut triggers: BTreeMap<u64, Trigger> = BTreeMap::new();
        for (at, connection) in matrix.connections.iter().enumerate() {
            let Connection { line, src, dst, begin, bytes, .. } = *connection;
            if let Some(host) = [src, dst].into_iter().find(|host| *host >= nodes) {
                let problem =
                    format!("host {host}, but `Nodes {nodes}` has 0 to {} only", nodes.saturating_sub(1));
                return Err(file.wrong(line, problem));
            }
            let (from, to) = numbered.ends(line, [src, dst])?;
            let start = match begin {
                Begin::At(at) => self.on_our_clock(file, line, at)?,
                Begin::Trigger(id) => {
                    let trigger = triggers.entry(id).or_default();
                    trigger.starts.push(at);
                    trigger.line = if trigger.line == 0 { line } else { trigger.line };
                    self.w.start.0
                }
            };
            let bytes = bytes.unwrap_or(ENDLESS);
            graph.send(Message::new(from, to, bytes), start, Vec::new());
        }
        for (at, connection) in (0..).zip(&matrix.connections) {
            let received = connection.recv_done.map(|id| (id, graph.receive(at, Vec::new())));
            for (id, op) in connection.send_done.map(|id| (id, at)).into_iter().chain(received) {
                let trigger = triggers.entry(id).or_default();
                trigger.activations.push(op);
                trigger.line = if trigger.line == 0 { connection.line } else { trigger.line };
            }
        }
        for (id, trigger) in triggers {
            let Some((fires, line)) = matrix.triggers.get(&id) else {
                let problem = format!("trigger {id} is defined nowhere; add e.g. `trigger id {id} oneshot`");
                return Err(file.wrong(trigger.line, problem));
            };
            bind(&mut graph, &trigger, *fires)
                .map_err(|problem| file.wrong(*line, format!("trigger {id} {problem}")))?;
        }
        if let Some(circle) = graph.circle() {
            let connections = circle.iter().filter_map(|op| matrix.connections.get(*op as usize));
            let lines = connections.map(|connection| connection.line.to_string());
            let lines: Vec<String> = lines.take(MAX_NAMED).collect();
            let line = circle.iter().find_map(|op| Some(matrix.connections.get(*op as usize)?.line));
            let problem = format!(
                "connections wait for one another in a circle, so none of them ever begins: lines {}; let one of \
                 them `start` at a time",
                lines.join(", ")
            );
            return Err(file.wrong(line.unwrap_or(0), problem));
        }
        Ok(graph)
    }
}

/// Lets the connections of a trigger wait for its activations. `Err`: what of it can never be, in words.
fn bind(graph: &mut Graph, trigger: &Trigger, fires: Fires) -> Result<(), String> {
    let (activations, starts) = (&trigger.activations, &trigger.starts);
    let count = activations.len() as u64;
    match fires {
        _ if activations.is_empty() => {
            return Err(
                "is activated by nobody; name it as send_done_trigger or recv_done_trigger of a connection"
                    .to_owned(),
            );
        }
        Fires::OneShot if count != 1 => {
            return Err(format!(
                "fires once and is activated by {count} connections; make it a barrier of {count}"
            ));
        }
        Fires::Barrier(needed) if count != needed => {
            return Err(format!("waits for {needed} activations and gets {count}; write count {count}"));
        }
        Fires::MultiShot if count < starts.len() as u64 => {
            let idle = starts.len() as u64 - count;
            return Err(format!(
                "is activated {count} times and starts {} connections, one each: {idle} would never begin; add \
                 activations or give these a `start`",
                starts.len()
            ));
        }
        _ => {}
    }
    // One operation for all of a barrier: edges are the sum of both sides, not their product.
    let shared = matches!(fires, Fires::Barrier(_)).then(|| graph.join(activations.clone()));
    for (nth, start) in (1..).zip(starts) {
        let op = &mut graph.ops[*start];
        (op.after, op.needs) = match (fires, shared) {
            (Fires::MultiShot, _) => (activations.clone(), nth),
            (_, Some(join)) => (vec![join], 1),
            (_, None) => (activations.clone(), 1),
        };
    }
    Ok(())
}
