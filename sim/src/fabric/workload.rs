//! From traffic patterns to flows.

pub(in crate::fabric) mod collectives;
pub(in crate::fabric) mod imported;
mod jobs;
pub(in crate::fabric) mod operations;
mod pipeline;
pub(in crate::fabric) mod poisson;
mod storage;
mod trees;

use super::collective::Collectives;
use super::faults::{Faults, both};
use super::graph::{Collective, Graph, Message, Op, OpId, Part, Work};
use super::import::RANK;
use super::rclink;
use super::routes::{self, Routes};
use super::spec::{
    ACK_EVERY, Congestion, FabricSpec, FrameType, KEYS_OF_ALL, Pattern, Profile, Protocol, Workload,
};
use super::topology::Plan;
use super::units::Rate;
use super::{FabricError, congestion, hosts, multicast, rate_control, transport};
use collectives::Kind;
use std::collections::BTreeMap;
use weir_dataplane::rng::Rng;
use weir_dataplane::types::{Nanos, PRIORITIES};
use weir_endpoint::flow::{Flow, Pace};
use weir_layout::counted;

/// Packets of a chunk of a tree all-reduce that says none.
const CHUNK_PACKETS: u64 = 32;
/// Payload of a flow without end: more than any run can carry.
const ENDLESS: u64 = u64::MAX >> 8;
/// Longest message that has an end, bytes: that of a size of the fabric file.
pub(super) const MAX_BYTES: u64 = 1_000_000_000_000_000;

/// What is wrong with a message of so many bytes; `None`: nothing.
pub(super) fn too_long(profile: Profile, bytes: u64) -> Option<String> {
    let (most, whose) = match profile {
        Profile::Weir => (MAX_BYTES, ""),
        Profile::Ns3Hpcc => (u32::MAX.into(), " in profile = \"ns3-hpcc\""),
    };
    (bytes > most).then(|| format!("a message of {bytes} bytes; at most {most} are possible{whose}"))
}

/// Most flows of a run.
const MAX_FLOWS: usize = 1 << 22;

/// A flow and where it goes.
#[derive(Clone, Debug)]
pub(super) struct Planned {
    pub from: usize,
    pub to: usize,
    /// UDP source port of both ends of its queue pair.
    pub src_port: u16,
    /// See [`Message::dst_port`].
    pub dst_port: u16,
    /// Hash of its 5-tuple; 0 where the hosts do not speak RoCEv2.
    pub path: u64,
    /// Number of the first flow of its queue pair: its own, or that of the flow before it.
    pub pair: u32,
    pub flow: Flow,
    /// Its congestion control.
    pub cc: Congestion,
    /// It is a rank, this one of its host, and goes to an engine.
    pub seat: Option<usize>,
    /// What it is a part of.
    pub part: Option<Part>,
    /// It is the responses to this flow, a packet for each.
    pub answers: Option<u32>,
    /// Base round trip that its congestion control measures by, ns.
    pub base_rtt: Nanos,
    /// That of its own path, where acknowledgements drive it.
    pub own_rtt: Nanos,
    /// What its frames are.
    pub carriage: Carriage,
}

/// What the frames of a flow are, and how they find its receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Carriage {
    /// Those of a queue pair.
    Pair,
    /// Multicast. A flow is what one member of the group hears, and all but the first are copies of that.
    Group { number: u16, copy_of: Option<u32> },
    /// Raw frames.
    Raw,
}

impl Planned {
    /// The flow of its group whose frames it hears, if that is another.
    pub fn sent_with(&self) -> Option<u32> {
        if let Carriage::Group { copy_of, .. } = self.carriage { copy_of } else { None }
    }
}

/// All traffic of a run.
#[derive(Clone, Debug, Default)]
pub(super) struct Traffic {
    /// Flows, in the order of their numbers.
    pub flows: Vec<Planned>,
    pub ops: Vec<Op>,
    /// Collectives, and the numbers of their workloads.
    pub collectives: Vec<(usize, Collective)>,
}

/// Whether a flow has an end.
pub(super) fn is_finite(planned: &Planned) -> bool {
    planned.flow.bytes < ENDLESS
}

/// What of these flows has to do with the end of the run or with their links, in sentences.
pub(super) fn notes<'a>(plan: &Plan, until: Nanos, flows: impl Iterator<Item = &'a Planned>) -> Vec<String> {
    let (mut endless, mut late) = (0_u64, Vec::new());
    // Those that are to go at a rate above that of their link: how many, and the fastest of these links.
    let mut fast: BTreeMap<u64, (usize, u64)> = BTreeMap::new();
    for planned in flows.filter(|planned| planned.sent_with().is_none()) {
        endless += u64::from(!is_finite(planned));
        let line = plan.line_of(planned.from);
        if let Pace::Fixed(rate) = planned.flow.pace
            && rate > line
        {
            let (count, fastest) = fast.entry(rate).or_default();
            (*count, *fastest) = (*count + 1, line.max(*fastest));
        }
        late.extend((planned.flow.start >= until).then_some(planned.flow.start));
    }
    let endless = (endless > 0).then(|| {
        format!(
            "{} without an end: the run goes on to `stop_time`, {until} ns, unless it is stopped before.",
            counted(endless as usize, "flow")
        )
    });
    let late = late.iter().min().map(|first| {
        format!(
            "{} never began, the first at {first} ns: the run ends at {until} ns. Remedy: a later `stop_time`, an earlier `start`, \
             or of a file its `origin`.",
            counted(late.len(), "flow")
        )
    });
    let fast = fast.into_iter().map(|(rate, (count, line))| {
        format!(
            "`rate` is {} for {}, and the links of their senders carry {} at most: they go at the rate of their link.",
            Rate::of(rate),
            counted(count, "flow"),
            Rate::of(line)
        )
    });
    endless.into_iter().chain(late).chain(fast).collect()
}

struct Reader<'a> {
    plan: &'a Plan,
    collectives: &'a Collectives,
    index: usize,
    w: &'a Workload,
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

    /// So many messages, a product, are not too many.
    fn check_count<const N: usize>(&self, factors: [usize; N]) -> Result<(), FabricError> {
        match factors.into_iter().fold(1, usize::saturating_mul) {
            count if count <= MAX_FLOWS => Ok(()),
            count => Err(self.wrong(format!("{count} messages; at most {MAX_FLOWS} are possible"))),
        }
    }

    /// Keys that say nothing to this kind, or contradict one another.
    fn check(&self, spec: &FabricSpec) -> Result<(), FabricError> {
        let w = self.w;
        let mut faults = Faults::default();
        let mut wrong = |problem: String| faults.add(self.wrong(problem));
        let own = w.kind.keys();
        let set = spec.source.keys_of_item("workload", self.index);
        let idle = set.iter().filter(|key| !KEYS_OF_ALL.contains(key) && !own.contains(key));
        idle.for_each(|key| wrong(format!("`{key}` means nothing here; take it out")));
        if w.bytes.is_some() && w.sizes.is_some() {
            wrong("`sizes` and `bytes` both say how long messages are; take one out".into());
        }
        if w.bytes.is_some_and(|bytes| bytes.0 == 0) {
            wrong("`bytes` is 0: there is nothing to send; give it some, or take the workload out".into());
        }
        if w.chunk.is_some_and(|chunk| chunk.0 == 0) {
            wrong("`chunk` is 0: nothing would be sent; take it out, or write chunk = \"512KB\"".into());
        }
        if w.rate.is_some_and(|rate| rate.0 == 0) {
            wrong("`rate` is 0: nothing would be sent; take it out, or write rate = \"1G\"".into());
        }
        let (cc, steers) = (w.cc().word(), w.cc() == Congestion::Dcqcn || w.cc().hears_acks());
        if steers && w.rate.is_some() {
            wrong(format!("`rate` and `cc = \"{cc}\"` both set the pace; take one out"));
        }
        if steers && !w.reliable {
            let needs = "needs a receiver that answers; take `reliable = false` out";
            wrong(format!("`cc = \"{cc}\"` {needs}"));
        }
        faults.refuse()
    }

    fn graph(&self, spec: &FabricSpec, rng: &mut Rng) -> Result<Graph, FabricError> {
        let (w, n) = (self.w, self.plan.stations());
        if n < 2 {
            return Err(self.wrong("needs two hosts"));
        }
        let bytes = w.bytes.map_or(ENDLESS, |size| size.0);
        let hosts = self.ranks(spec, rng)?;
        let ranks = hosts.len();
        let start = |i: usize| w.start.0.saturating_add(w.stagger.0.saturating_mul(i as u64));
        let message = |(from, to): (usize, usize)| Message::new(from, to, bytes);
        let pairs: Vec<(usize, usize)> = match w.kind {
            Pattern::Flow if w.frames == FrameType::Type2 => return self.multicast(start(0), bytes),
            Pattern::Flow => vec![both(self.host("from", &w.from), self.host("to", &w.to))?],
            Pattern::Incast => {
                let to = self.host("to", &w.to)?;
                let senders = w.senders.unwrap_or(n - 1);
                if !(1..n).contains(&senders) {
                    let others = n - 1;
                    let problem =
                        format!("{senders} senders of {others} other hosts; `senders` is 1 to {others}");
                    return Err(self.wrong(problem));
                }
                (0..n).filter(|h| *h != to).take(senders).map(|from| (from, to)).collect()
            }
            Pattern::Permutation => {
                if let Some(shift) = w.shift.filter(|shift| shift % ranks == 0) {
                    let problem = format!(
                        "a `shift` of {shift} leaves each of {ranks} ranks with itself; give one that is no multiple of {ranks}"
                    );
                    return Err(self.wrong(problem));
                }
                let pairs = permutation(ranks, w.shift, rng).into_iter();
                pairs.map(|(from, to)| (hosts[from], hosts[to])).collect()
            }
            Pattern::AllToAll => {
                self.check_count([ranks, ranks - 1])?;
                // Everybody begins with another partner, as collectives do.
                let all =
                    (1..ranks).flat_map(|shift| (0..ranks).map(move |from| (from, (from + shift) % ranks)));
                all.map(|(from, to)| (hosts[from], hosts[to])).collect()
            }
            Pattern::TreeAllReduce => {
                let whole = self.need("bytes", w.bytes)?.0;
                let half = whole.div_ceil(2).max(1);
                let chunk = w.chunk.map_or(CHUNK_PACKETS * u64::from(spec.host.payload), |chunk| chunk.0);
                let chunks = half.div_ceil(chunk);
                // Up and down, in two trees.
                self.check_count([4, chunks.try_into().unwrap_or(usize::MAX), ranks - 1])?;
                let mut graph = trees::all_reduce(&hosts, (half, chunks), start);
                graph.collectives.push(Kind::AllReduce.described(w.kind.word(), ranks, whole));
                return Ok(graph);
            }
            Pattern::IncAllReduce => {
                let engines = self.collectives.engines_of(self.index);
                let mut graph = Graph::default();
                let part = Some(Part { collective: 0, step: 0 });
                for (from, (seat, to)) in engines.enumerate() {
                    let message = Message { seat: Some(seat), part, ..message((from, to)) };
                    graph.send(message, start(from), Vec::new());
                }
                graph.collectives.push(Kind::AllReduce.described(w.kind.word(), n, bytes));
                return Ok(graph);
            }
            Pattern::AllReduce
            | Pattern::ReduceScatter
            | Pattern::AllGather
            | Pattern::HalvingDoublingAllReduce
            | Pattern::HierarchicalAllReduce
            | Pattern::RailAllReduce
            | Pattern::AllToAllV => return self.collective(spec, &hosts),
            Pattern::Pipeline => return self.pipeline(&hosts),
            Pattern::Storage => return self.storage(&hosts, rng),
            Pattern::Poisson => return self.poisson(rng),
            Pattern::HtsimMatrix => return self.htsim_matrix(spec),
            Pattern::HpccFlows => return self.hpcc_flows(spec),
            Pattern::Operations | Pattern::Chakra => return self.operations(spec, &hosts),
        };
        if pairs.iter().any(|(from, to)| from == to) {
            return Err(self.wrong("a host does not send to itself"));
        }
        let mut graph = Graph::default();
        let is_collective = w.kind == Pattern::AllToAll && w.bytes.is_some();
        for (i, pair) in pairs.into_iter().enumerate() {
            // Of an all-to-all: the nth messages of all ranks, then the next ones.
            let (step, rank) = (i / ranks, i % ranks);
            let part = is_collective.then_some(Part { collective: 0, step: step as u32 });
            graph.send(Message { part, ..message(pair) }, start(rank), Vec::new());
        }
        if is_collective {
            let all = bytes.saturating_mul(ranks as u64);
            graph.collectives.push(Kind::AllToAll.described(w.kind.word(), ranks, all));
        }
        Ok(graph)
    }

    /// One message for each member of a group.
    fn multicast(&self, start: Nanos, bytes: u64) -> Result<Graph, FabricError> {
        let from = self.host("from", &self.w.from)?;
        let others = || (0..self.plan.stations()).filter(|host| *host != from).collect();
        let named = |names: &Vec<String>| {
            let mut members = Vec::with_capacity(names.len());
            for name in names {
                match self.host("members", &Some(name.clone()))? {
                    host if host == from => return Err(self.wrong("`members` names the sender")),
                    host if members.contains(&host) => {
                        return Err(self.wrong(format!("`members` names `{name}` twice")));
                    }
                    host => members.push(host),
                }
            }
            if members.is_empty() { Err(self.wrong("a group without `members`")) } else { Ok(members) }
        };
        let members: Vec<usize> = self.w.members.as_ref().map_or_else(|| Ok(others()), named)?;
        let mut graph = Graph::default();
        for (nth, to) in members.into_iter().enumerate() {
            let copy_of = (nth > 0).then_some(0);
            graph.send(Message { copy_of, ..Message::new(from, to, bytes) }, start, Vec::new());
        }
        Ok(graph)
    }

    /// Responses to the flows from number `first` on, if they are answered.
    fn answers(&self, spec: &FabricSpec, first: usize, all: &mut Vec<Planned>) -> Result<(), FabricError> {
        let Some(size) = self.w.response else { return Ok(()) };
        if spec.host.protocol != Protocol::Rclink {
            return Err(self.wrong("`response` needs protocol = \"rclink\", which has classes for both"));
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

/// All flows, the operations on them, and what they are parts of.
pub(super) fn flows(
    spec: &FabricSpec,
    plan: &Plan,
    routes: &Routes,
    engines: &Collectives,
) -> Result<Traffic, FabricError> {
    let host = &spec.host;
    let mut faults: Faults = [
        in_range("host.payload", host.payload.into(), 1, 4096),
        in_range("host.ack_every", host.ack_every.unwrap_or(ACK_EVERY).into(), 1, 4096),
        in_range("host.timeout", host.timeout.0, 1, u64::MAX),
    ]
    .into_iter()
    .collect();
    let rng = Rng::new(spec.seed ^ 0x776f_726b);
    let mut planner = Planner { spec, plan, routes, engines, rng, groups: 0, all: Traffic::default() };
    if faults.is_empty() {
        for (index, w) in spec.workloads.iter().enumerate() {
            faults.keep(planner.add(index, w));
        }
    }
    faults.refuse()?;
    let mut all = planner.all;
    if all.flows.is_empty() {
        return Err(nothing_sent(spec));
    }
    congestion::set_paces(spec, plan, routes, &mut all.flows)?;
    Ok(all)
}

/// Why a run would have no flow.
fn nothing_sent(spec: &FabricSpec) -> FabricError {
    let idle = |(index, w): (usize, &Workload)| {
        let problem = match w.kind {
            Pattern::Poisson => {
                "sends nothing: no message comes within `duration`; make it longer, or `load` higher"
            }
            Pattern::AllToAllV => "sends nothing: all of `matrix` is 0; give two ranks something to send",
            Pattern::Chakra if w.file.as_ref().is_some_and(|file| !file.contains(RANK)) => {
                "sends nothing: `file` is the trace of one rank, which is alone; write {rank} where the names of all traces have \
                 their number"
            }
            Pattern::Chakra => {
                "sends nothing: there is no message in `file`, or each rank is alone in its process groups; add one"
            }
            _ if w.file.is_some() => "sends nothing: there is no message in `file`; add one",
            _ => "sends nothing; take it out, or add a workload that does",
        };
        Err(FabricError::Workload { index: index + 1, kind: w.kind.word(), problem: problem.into() })
    };
    let (what, must) = ("workload".into(), "a list with at least one workload".into());
    match spec.workloads.is_empty() {
        true => FabricError::Range { what, got: "empty".into(), must },
        false => spec.workloads.iter().enumerate().map(idle).collect::<Faults>().into_error(),
    }
}

/// A value of the file.
fn in_range(what: &str, got: u64, low: u64, high: u64) -> Result<(), FabricError> {
    let must = format!("{low} to {high}");
    let wrong = || FabricError::Range { what: what.into(), got: got.to_string(), must };
    if (low..=high).contains(&got) { Ok(()) } else { Err(wrong()) }
}

/// Makes flows of workloads, one after the other.
struct Planner<'a> {
    spec: &'a FabricSpec,
    plan: &'a Plan,
    routes: &'a Routes,
    engines: &'a Collectives,
    rng: Rng,
    /// Groups that hear multicast messages.
    groups: u16,
    all: Traffic,
}

impl Planner<'_> {
    /// All flows of a workload.
    fn add(&mut self, index: usize, w: &Workload) -> Result<(), FabricError> {
        let Self { spec, plan, engines, .. } = *self;
        let reader = Reader { plan, collectives: engines, index, w };
        let values = [("priority", w.priority, PRIORITIES as u64 - 1), ("dscp", w.dscp, 63)];
        let in_range =
            |(key, got, high)| in_range(&format!("workload.{index}.{key}"), u64::from(got), 0, high);
        let found = [reader.check(spec), multicast::check(spec, index, w)];
        values.map(in_range).into_iter().chain(found).collect::<Faults>().refuse()?;
        let first = self.all.flows.len();
        let graph = reader.graph(spec, &mut self.rng)?;
        let group = self.groups;
        if w.frames == FrameType::Type2 {
            self.groups = group.checked_add(1).ok_or_else(|| reader.wrong("more than 65535 groups"))?;
        }
        let (starts, before) = (graph.starts(), self.all.collectives.len() as u32);
        add_operations(&graph, first as u32, before, &mut self.all.ops);
        self.all.collectives.extend(graph.collectives.into_iter().map(|collective| (index, collective)));
        for (message, start) in graph.messages.into_iter().zip(starts) {
            let planned = self.flow(&reader, &message, start, (first as u32, before, group))?;
            self.all.flows.push(planned);
        }
        let requests = self.all.flows.len();
        reader.answers(spec, first, &mut self.all.flows)?;
        let answer = |planned: &Planned| Op::send(planned.flow.id, planned.flow.start, Vec::new());
        self.all.ops.extend(self.all.flows[requests..].iter().map(answer));
        Ok(())
    }

    /// The flow of a message of a workload whose first flow and first collective have these numbers, and that is sent to this group.
    fn flow(
        &mut self,
        reader: &Reader<'_>,
        message: &Message,
        start: Nanos,
        (first, collectives, group): (u32, u32, u16),
    ) -> Result<Planned, FabricError> {
        let Self { spec, plan, routes, .. } = *self;
        let (w, all) = (reader.w, &self.all.flows);
        let Message { from, to, bytes, seat, part, copy_of, pair, dst_port } = *message;
        if all.len() >= MAX_FLOWS {
            return Err(reader.wrong(format!("more than {MAX_FLOWS} flows")));
        }
        if let Some(problem) = too_long(spec.profile, bytes).filter(|_| bytes != ENDLESS) {
            return Err(reader.wrong(problem));
        }
        let host = &spec.host;
        let line = plan.line_of(from);
        let pace = match (w.cc(), w.rate) {
            (Congestion::Dcqcn, _) => rate_control::pace(host, line)?,
            (_, Some(rate)) => Pace::Fixed(rate.0),
            (_, None) => Pace::Line,
        };
        rate_control::check(&pace).map_err(|e| reader.wrong(format!("[host.dcqcn]: {e}")))?;
        let id = all.len() as u32;
        let pair = pair.map_or(id, |pair| first + pair);
        let known = all.get(pair as usize).map(|first| first.src_port);
        // Every flow draws, whether it needs to or not.
        let drawn = 0xc000 | self.rng.next_u64() as u16;
        let src_port = known.unwrap_or(drawn);
        let path = match (host.protocol, seat) {
            (Protocol::Rocev2, None) => routes::roce_flow(hosts::ip(from), hosts::ip(to), src_port),
            _ => 0,
        };
        let reach = |from: usize, to: usize| path_exists(plan, routes, from, to, path);
        if !(reach(from, to) && reach(to, from)) {
            let (from, to) = (plan.names[from].clone(), plan.names[to].clone());
            return Err(FabricError::NoPath { from, to });
        }
        let flow = Flow {
            id,
            bytes,
            payload: host.payload,
            start,
            priority: match (host.protocol, w.frames) {
                (Protocol::Rclink, FrameType::Type2) => rclink::classes(spec).multicast,
                (Protocol::Rclink, FrameType::Type3) => rclink::classes(spec).raw,
                _ => w.priority,
            },
            dscp: w.dscp,
            acks_as_cnps: host.acks_as_cnps(w.cc()),
            transport: transport::of(spec, w.reliable),
            pace,
            ack_every: host.ack_every.unwrap_or(ACK_EVERY),
            timeout: host.timeout.0,
        };
        let carriage = match w.frames {
            FrameType::Type1 => Carriage::Pair,
            FrameType::Type2 => {
                Carriage::Group { number: group, copy_of: copy_of.map(|copied| first + copied) }
            }
            FrameType::Type3 => Carriage::Raw,
        };
        Ok(Planned {
            from,
            to,
            src_port,
            dst_port,
            path,
            pair,
            flow,
            cc: w.cc(),
            seat,
            part: part.map(|part| Part { collective: collectives + part.collective, ..part }),
            answers: None,
            base_rtt: 0,
            own_rtt: 0,
            carriage,
        })
    }
}

/// Adds the operations of a workload whose first flow has number `first`, and its first collective `collectives`.
fn add_operations(graph: &Graph, first: u32, collectives: u32, ops: &mut Vec<Op>) {
    let before = ops.len() as OpId;
    ops.extend(graph.ops.iter().map(|op| Op {
        work: match op.work {
            Work::Send(message) => Work::Send(first + message),
            Work::Receive(message) => Work::Receive(first + message),
            Work::Compute { host, stream, ns, collective } => {
                Work::Compute { host, stream, ns, collective: collective.map(|of| collectives + of) }
            }
            Work::Join => Work::Join,
        },
        after: op.after.iter().map(|op| before + op).collect(),
        ..*op
    }));
}

/// Follows the tables from host to host.
fn path_exists(plan: &Plan, routes: &Routes, from: usize, to: usize, path: u64) -> bool {
    let mut node = plan.peer(from, 0).node;
    for _ in 0..plan.names.len() {
        if node < plan.hosts {
            return node == to;
        }
        match routes.port(node - plan.hosts, to, path) {
            Some(port) => node = plan.peer(node, port).node,
            None => return false,
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

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
