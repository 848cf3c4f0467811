//! From traffic patterns to flows.

mod imported;
mod trees;

use super::collective::Collectives;
use super::graph::{Graph, Message, Op, OpId, Work};
use super::rclink;
use super::routes::{self, Routes};
use super::sizes::SizeDistribution;
use super::spec::{Congestion, FabricSpec, Pattern, Protocol, Topology, Workload};
use super::topology::Plan;
use super::{FabricError, congestion, hosts, rate_control};
use weir_dataplane::rng::Rng;
use weir_dataplane::types::{Nanos, PRIORITIES};
use weir_endpoint::flow::{Flow, Pace, Transport};

/// Packets of a chunk of a tree all-reduce.
const CHUNK_PACKETS: u64 = 32;
/// Payload of a flow without end: more than any run can carry.
const ENDLESS: u64 = u64::MAX >> 8;
/// Packets per ACK unless told.
const ACK_EVERY: u16 = 16;
/// Most flows of a run.
const MAX_FLOWS: usize = 1 << 22;

/// A flow and where it goes.
#[derive(Clone, Debug)]
pub(super) struct Planned {
    pub from: usize,
    pub to: usize,
    /// UDP source port of both ends of its queue pair.
    pub src_port: u16,
    /// Hash of its 5-tuple; 0 where the hosts do not speak RoCEv2.
    pub path: u64,
    /// Number of the first flow of its queue pair: its own, or that of the flow before it.
    pub pair: u32,
    pub flow: Flow,
    /// Its congestion control.
    pub cc: Congestion,
    /// It is a rank, this one of its host, and goes to an engine.
    pub seat: Option<usize>,
    /// It is the responses to this flow, a packet for each.
    pub answers: Option<u32>,
    /// Base round trip that its congestion control measures by, ns.
    pub base_rtt: Nanos,
}

/// Whether a flow has an end.
pub(super) fn is_finite(planned: &Planned) -> bool {
    planned.flow.bytes < ENDLESS
}

/// Sizes of flows.
#[derive(Clone, Copy)]
enum Sizes {
    All(u64),
    Drawn(SizeDistribution),
}

impl Sizes {
    fn mean(self) -> f64 {
        match self {
            Self::All(bytes) => bytes as f64,
            Self::Drawn(sizes) => sizes.mean(),
        }
    }

    fn draw(self, rng: &mut Rng) -> u64 {
        match self {
            Self::All(bytes) => bytes,
            Self::Drawn(sizes) => sizes.draw(rng),
        }
    }
}

struct Reader<'a> {
    plan: &'a Plan,
    collectives: &'a Collectives,
    index: usize,
    w: &'a Workload,
}

impl Pattern {
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Flow => "flow",
            Self::Incast => "incast",
            Self::Permutation => "permutation",
            Self::AllToAll => "all_to_all",
            Self::AllReduce => "all_reduce",
            Self::TreeAllReduce => "tree_all_reduce",
            Self::IncAllReduce => "inc_all_reduce",
            Self::Poisson => "poisson",
            Self::HtsimMatrix => "htsim_matrix",
            Self::HpccFlows => "hpcc_flows",
        }
    }
}

impl Reader<'_> {
    fn wrong(&self, problem: impl Into<String>) -> FabricError {
        FabricError::Workload { index: self.index + 1, kind: self.w.kind.word(), problem: problem.into() }
    }

    fn host(&self, key: &str, name: &Option<String>) -> Result<usize, FabricError> {
        let name = name.as_ref().ok_or_else(|| self.wrong(format!("needs `{key}`")))?;
        let hosts = &self.plan.names[..self.plan.stations()];
        let at = hosts.iter().position(|n| n == name);
        at.ok_or_else(|| self.wrong(format!("`{key}` names `{name}`, which is not a host")))
    }

    fn need<T: Copy>(&self, key: &str, value: Option<T>) -> Result<T, FabricError> {
        value.ok_or_else(|| self.wrong(format!("needs `{key}`")))
    }

    /// Keys that say nothing to this kind, or contradict one another.
    fn check(&self) -> Result<(), FabricError> {
        use Pattern::{Flow, HpccFlows, HtsimMatrix, Incast, Permutation, Poisson};
        const FILES: &[Pattern] = &[HtsimMatrix, HpccFlows];
        let w = self.w;
        let from_file = FILES.contains(&w.kind);
        let keys: [(&str, bool, &[Pattern]); 12] = [
            ("from", w.from.is_some(), &[Flow]),
            ("to", w.to.is_some(), &[Flow, Incast, Poisson]),
            ("senders", w.senders.is_some(), &[Incast]),
            ("shift", w.shift.is_some(), &[Permutation]),
            ("load", w.load.is_some(), &[Poisson]),
            ("sizes", w.sizes.is_some(), &[Poisson]),
            ("duration", w.duration.is_some(), &[Poisson]),
            ("sizes", w.bytes.is_some() && w.sizes.is_some(), &[]),
            ("stagger", w.stagger.0 > 0 && (w.kind == Poisson || from_file), &[]),
            ("bytes", w.bytes.is_some() && from_file, &[]),
            ("file", w.file.is_some(), FILES),
            ("origin", w.origin.0 > 0, FILES),
        ];
        if let Some((key, ..)) = keys.iter().find(|(_, set, of)| *set && !of.contains(&w.kind)) {
            return Err(self.wrong(format!("`{key}` means nothing here; take it out")));
        }
        if w.rate.is_some_and(|rate| rate.0 == 0) {
            return Err(self.wrong("`rate` is 0: nothing would be sent; take it out, or write rate = \"1G\""));
        }
        let (cc, steers) = (w.cc().word(), w.cc() == Congestion::Dcqcn || w.cc().hears_acks());
        if steers && w.rate.is_some() {
            return Err(self.wrong(format!("`rate` and `cc = \"{cc}\"` both set the pace; take one out")));
        }
        if steers && !w.reliable {
            let needs = "needs a receiver that answers; take `reliable = false` out";
            return Err(self.wrong(format!("`cc = \"{cc}\"` {needs}")));
        }
        Ok(())
    }

    fn graph(&self, spec: &FabricSpec, rng: &mut Rng) -> Result<Graph, FabricError> {
        let (w, n) = (self.w, self.plan.stations());
        if n < 2 {
            return Err(self.wrong("needs two hosts"));
        }
        let bytes = w.bytes.map_or(ENDLESS, |size| size.0.max(1));
        let start = |i: usize| w.start.0.saturating_add(w.stagger.0.saturating_mul(i as u64));
        let message = |(from, to): (usize, usize)| Message { from, to, bytes, pair: None, seat: None };
        let pairs: Vec<(usize, usize)> = match w.kind {
            Pattern::Flow => vec![(self.host("from", &w.from)?, self.host("to", &w.to)?)],
            Pattern::Incast => {
                let to = self.host("to", &w.to)?;
                let senders = w.senders.unwrap_or(n - 1);
                if senders >= n {
                    return Err(self.wrong(format!("{senders} senders, but only {} other hosts", n - 1)));
                }
                (0..n).filter(|h| *h != to).take(senders).map(|from| (from, to)).collect()
            }
            Pattern::Permutation => permutation(n, w.shift, rng),
            Pattern::AllToAll => {
                // Everybody begins with another partner, as collectives do.
                (1..n).flat_map(|shift| (0..n).map(move |from| (from, (from + shift) % n))).collect()
            }
            Pattern::AllReduce => {
                let whole = self.need("bytes", w.bytes)?.0;
                return Ok(all_reduce(n, whole.div_ceil(n as u64).max(1), start));
            }
            Pattern::TreeAllReduce => {
                let half = self.need("bytes", w.bytes)?.0.div_ceil(2).max(1);
                let chunks = half.div_ceil(CHUNK_PACKETS * u64::from(spec.host.payload));
                return Ok(trees::all_reduce(n, (half, chunks), start));
            }
            Pattern::IncAllReduce => {
                let engines = self.collectives.engines_of(self.index);
                let mut graph = Graph::default();
                for (from, (seat, to)) in engines.enumerate() {
                    graph.send(Message { seat: Some(seat), ..message((from, to)) }, start(from), Vec::new());
                }
                return Ok(graph);
            }
            Pattern::Poisson => return self.poisson(spec, rng),
            Pattern::HtsimMatrix => return self.htsim_matrix(spec),
            Pattern::HpccFlows => return self.hpcc_flows(spec),
        };
        if pairs.iter().any(|(from, to)| from == to) {
            return Err(self.wrong("a host does not send to itself"));
        }
        let mut graph = Graph::default();
        for (i, pair) in pairs.into_iter().enumerate() {
            graph.send(message(pair), start(i), Vec::new());
        }
        Ok(graph)
    }

    /// Responses to the flows from number `first` on, if they are answered.
    fn answers(&self, spec: &FabricSpec, first: usize, all: &mut Vec<Planned>) -> Result<(), FabricError> {
        let Some(size) = self.w.response else { return Ok(()) };
        if spec.host.protocol != Protocol::Rclink {
            return Err(self.wrong("`response` needs protocol = \"rclink\", which has classes for both"));
        }
        if !matches!(self.w.kind, Pattern::Flow | Pattern::Incast | Pattern::Permutation | Pattern::AllToAll)
        {
            return Err(self.wrong("`response` means nothing here; take it out"));
        }
        self.need("bytes", self.w.bytes)?;
        let payload = u16::try_from(size.0).ok().filter(|bytes| (1..=1344).contains(bytes));
        let payload =
            payload.ok_or_else(|| self.wrong(format!("`response` is {}; it must be 1 to 1344", size.0)))?;
        let requests: Vec<Planned> = all[first..].to_vec();
        for request in requests {
            let id = all.len() as u32;
            let flow = Flow {
                id,
                payload,
                bytes: request.flow.packets() * u64::from(payload),
                priority: rclink::classes(spec).response,
                ..request.flow
            };
            let (from, to, answers) = (request.to, request.from, Some(request.flow.id));
            all.push(Planned { from, to, pair: id, flow, answers, ..request });
        }
        Ok(())
    }

    fn poisson(&self, spec: &FabricSpec, rng: &mut Rng) -> Result<Graph, FabricError> {
        let load = self.need("load", self.w.load)?;
        let sizes = match self.w.bytes {
            Some(bytes) => Sizes::All(bytes.0.max(1)),
            None => Sizes::Drawn(self.need("sizes", self.w.sizes)?),
        };
        let duration = self.need("duration", self.w.duration)?.0;
        if !(load > 0.0 && load <= 1.0) {
            return Err(self.wrong(format!("`load` is {load}; it must be above 0 and at most 1")));
        }
        let n = self.plan.stations();
        let to = self.w.to.as_ref().map(|_| self.host("to", &self.w.to)).transpose()?;
        // The load of each sender's link, or of the one receiver's, which all others share.
        let (rate, senders) = match to {
            None => (self.offered_rate(spec)?, 1.0),
            Some(to) => (self.plan.links[self.plan.ports[to][0]].spec.rate.0, (n - 1) as f64),
        };
        let mean_gap = senders * sizes.mean() * 8.0 * 1e9 / (load * rate as f64);
        if n as f64 * duration as f64 / mean_gap > MAX_FLOWS as f64 {
            return Err(self.wrong(format!("more than {MAX_FLOWS} flows; make `duration` shorter")));
        }
        let mut graph = Graph::default();
        for from in (0..n).filter(|from| Some(*from) != to) {
            let mut at = exponential(mean_gap, rng);
            while at < duration {
                let to = to.unwrap_or_else(|| {
                    let other = ((u64::from(rng.next_u32()) * (n as u64 - 1)) >> 32) as usize;
                    if other < from { other } else { other + 1 }
                });
                let bytes = sizes.draw(rng);
                let message = Message { from, to, bytes, pair: None, seat: None };
                graph.send(message, self.w.start.0 + at, Vec::new());
                at += exponential(mean_gap, rng);
            }
        }
        Ok(graph)
    }
}

impl Reader<'_> {
    /// Rate of the links of hosts that all may send, bit/s: that of `[link]`, unless a file has the links.
    fn offered_rate(&self, spec: &FabricSpec) -> Result<u64, FabricError> {
        if !matches!(spec.topology, Topology::HpccFile { .. }) {
            return Ok(spec.link.rate.0);
        }
        let rate = |host: usize| self.plan.links[self.plan.ports[host][0]].spec.rate.0;
        match (1..self.plan.stations()).find(|host| rate(*host) != rate(0)) {
            None => Ok(rate(0)),
            Some(_) => Err(self.wrong("`load` is of links of one rate, and hosts have several; give a `to`")),
        }
    }
}

/// An exponentially distributed time by von Neumann's method: comparisons only, so every machine draws
/// the same.
fn exponential(mean: f64, rng: &mut Rng) -> u64 {
    let mut whole = 0.0;
    loop {
        let first = rng.next_u32();
        let (mut last, mut run) = (first, 1);
        loop {
            let next = rng.next_u32();
            if next >= last {
                break;
            }
            (last, run) = (next, run + 1);
        }
        if run % 2 == 1 {
            return ((whole + f64::from(first) / 4_294_967_296.0) * mean).round() as u64;
        }
        whole += 1.0;
    }
}

/// Everybody sends to one other and hears one other.
fn permutation(n: usize, shift: Option<usize>, rng: &mut Rng) -> Vec<(usize, usize)> {
    if let Some(shift) = shift {
        return (0..n).map(|from| (from, (from + shift % n) % n)).collect();
    }
    // A random cycle through all hosts (Sattolo) leaves nobody with himself.
    let mut order: Vec<usize> = (0..n).collect();
    for i in (1..n).rev() {
        let j = ((u64::from(rng.next_u32()) * i as u64) >> 32) as usize;
        order.swap(i, j);
    }
    (0..n).map(|from| (from, order[from])).collect()
}

/// Ring all-reduce: in step k host i passes on what it got in step k - 1.
fn all_reduce(n: usize, chunk: u64, start: impl Fn(usize) -> u64) -> Graph {
    let mut graph = Graph::default();
    let steps = 2 * (n - 1);
    // Receptions follow all sendings, in the same order.
    let came = |step: usize, from: usize| ((steps + step) * n + from) as OpId;
    for (step, from) in (0..steps).flat_map(|step| (0..n).map(move |from| (step, from))) {
        let message = Message { from, to: (from + 1) % n, bytes: chunk, pair: Some(from as u32), seat: None };
        let after = step.checked_sub(1).map(|before| came(before, (from + n - 1) % n));
        graph.send(message, start(from), after.into_iter().collect());
    }
    graph.receive_all();
    graph
}

/// All flows, in the order of their numbers, and the operations on them.
pub(super) fn flows(
    spec: &FabricSpec,
    plan: &Plan,
    routes: &Routes,
    collectives: &Collectives,
) -> Result<(Vec<Planned>, Vec<Op>), FabricError> {
    let host = &spec.host;
    let range = |what: &str, got: u64, low: u64, high: u64| {
        let must = format!("{low} to {high}");
        let wrong = || FabricError::Range { what: what.into(), got: got.to_string(), must: must.clone() };
        if (low..=high).contains(&got) { Ok(()) } else { Err(wrong()) }
    };
    range("host.payload", host.payload.into(), 1, 4096)?;
    range("host.ack_every", host.ack_every.unwrap_or(ACK_EVERY).into(), 1, 4096)?;
    range("host.timeout", host.timeout.0, 1, u64::MAX)?;
    let mut rng = Rng::new(spec.seed ^ 0x776f_726b);
    let (mut all, mut ops): (Vec<Planned>, Vec<Op>) = (Vec::new(), Vec::new());
    for (index, w) in spec.workloads.iter().enumerate() {
        let reader = Reader { plan, collectives, index, w };
        range(&format!("workload.{index}.priority"), w.priority.into(), 0, PRIORITIES as u64 - 1)?;
        range(&format!("workload.{index}.dscp"), w.dscp.into(), 0, 63)?;
        reader.check()?;
        let first = all.len();
        let graph = reader.graph(spec, &mut rng)?;
        if host.protocol == Protocol::Rclink && !rclink::is_acknowledged(spec) && graph.follows_sends() {
            let lite = "without retransmission nothing is acknowledged, and this waits for it";
            return Err(reader.wrong(format!("{lite}; wait for what is received, or use another format")));
        }
        add_operations(&graph, first as u32, &mut ops);
        let starts = graph.starts();
        for (d, start) in graph.messages.into_iter().zip(starts) {
            if all.len() >= MAX_FLOWS {
                return Err(reader.wrong(format!("more than {MAX_FLOWS} flows")));
            }
            let line = plan.links[plan.ports[d.from][0]].spec.rate.0;
            let pace = match (w.cc(), w.rate) {
                (Congestion::Dcqcn, _) => rate_control::pace(host, line)?,
                (_, Some(rate)) => Pace::Fixed(rate.0),
                (_, None) => Pace::Line,
            };
            rate_control::check(&pace).map_err(|e| reader.wrong(format!("[host.dcqcn]: {e}")))?;
            let id = all.len() as u32;
            let pair = d.pair.map_or(id, |pair| first as u32 + pair);
            let drawn = 0xc000 | rng.next_u64() as u16;
            let src_port = all.get(pair as usize).map_or(drawn, |first| first.src_port);
            let path = match (host.protocol, d.seat) {
                (Protocol::Rocev2, None) => routes::roce_flow(hosts::ip(d.from), hosts::ip(d.to), src_port),
                _ => 0,
            };
            let reach = |from: usize, to: usize| path_exists(plan, routes, from, to, path);
            if !(reach(d.from, d.to) && reach(d.to, d.from)) {
                let (from, to) = (plan.names[d.from].clone(), plan.names[d.to].clone());
                return Err(FabricError::NoPath { from, to });
            }
            let transport = if w.reliable { Transport::Reliable } else { Transport::Datagram };
            let flow = Flow {
                id,
                bytes: d.bytes,
                payload: host.payload,
                start,
                priority: w.priority,
                dscp: w.dscp,
                transport,
                pace,
                ack_every: host.ack_every.unwrap_or(ACK_EVERY),
                timeout: host.timeout.0,
            };
            let (Message { from, to, seat, .. }, cc) = (d, w.cc());
            all.push(Planned { from, to, src_port, path, pair, flow, cc, seat, answers: None, base_rtt: 0 });
        }
        let requests = all.len();
        reader.answers(spec, first, &mut all)?;
        let answer = |planned: &Planned| Op::send(planned.flow.id, planned.flow.start, Vec::new());
        ops.extend(all[requests..].iter().map(answer));
    }
    if all.is_empty() {
        let (what, must) = ("workload".into(), "a list with at least one flow".into());
        return Err(FabricError::Range { what, got: "empty".into(), must });
    }
    congestion::set_paces(spec, plan, routes, &mut all)?;
    Ok((all, ops))
}

/// Adds the operations of a workload whose first flow has number `first`.
fn add_operations(graph: &Graph, first: u32, ops: &mut Vec<Op>) {
    let before = ops.len() as OpId;
    ops.extend(graph.ops.iter().map(|op| Op {
        work: match op.work {
            Work::Send(message) => Work::Send(first + message),
            Work::Receive(message) => Work::Receive(first + message),
            Work::Join => Work::Join,
        },
        after: op.after.iter().map(|op| before + op).collect(),
        ..*op
    }));
}

/// Follows the tables from host to host.
fn path_exists(plan: &Plan, routes: &Routes, from: usize, to: usize, path: u64) -> bool {
    let far = |node: usize, port: usize| {
        let [a, b] = plan.links[plan.ports[node][port]].ends;
        if a.node == node && a.port == port { b.node } else { a.node }
    };
    let mut node = far(from, 0);
    for _ in 0..plan.names.len() {
        if node < plan.hosts {
            return node == to;
        }
        match routes.port(node - plan.hosts, to, path) {
            Some(port) => node = far(node, port),
            None => return false,
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exponential_times_have_their_mean_and_median() {
        let mut rng = Rng::new(2);
        let mut all: Vec<u64> = (0..100_000).map(|_| exponential(10_000.0, &mut rng)).collect();
        all.sort_unstable();
        let mean = all.iter().sum::<u64>() as f64 / 1e5;
        assert!((mean / 10_000.0 - 1.0).abs() < 0.02, "{mean}");
        assert!((all[50_000] as f64 / 6931.0 - 1.0).abs() < 0.02, "{}", all[50_000]);
    }

    #[test]
    fn a_random_permutation_leaves_nobody_with_himself() {
        for seed in 0..50 {
            let pairs = permutation(7, None, &mut Rng::new(seed));
            let mut targets: Vec<usize> = pairs.iter().map(|p| p.1).collect();
            assert!(pairs.iter().all(|(a, b)| a != b));
            targets.sort_unstable();
            assert_eq!(targets, (0..7).collect::<Vec<_>>());
        }
    }
}
