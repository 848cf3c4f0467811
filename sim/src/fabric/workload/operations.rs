//! From the operations that files list, rank by rank, to a graph.

use super::MAX_FLOWS;
use super::collectives::{Builder, Kind, PerRank};
use crate::fabric::FabricError;
use crate::fabric::graph::{Graph, OpId};
use std::collections::{BTreeMap, BTreeSet};
use weir_dataplane::types::Nanos;

/// Where an operation stands, for messages: a place in a list of files, and a line (0: there are none).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::fabric) struct Place {
    pub file: usize,
    pub line: usize,
}

/// What an operation is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::fabric) enum Does {
    Send {
        to: u64,
        bytes: u64,
        tag: u64,
        stream: u32,
    },
    Recv {
        from: u64,
        bytes: Option<u64>,
        tag: u64,
    },
    Compute {
        ns: Nanos,
        stream: u32,
    },
    /// With all ranks that name the group or, where it has no name, all that do anything; the nth of each are one. `bytes` as
    /// nccl-tests counts them or, if `each`, what one rank has of them.
    Collective {
        kind: Kind,
        bytes: u64,
        each: bool,
        group: String,
    },
    Nothing,
}

/// An operation of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::fabric) struct Listed {
    pub place: Place,
    pub rank: u64,
    /// Unlike that of any other of the rank.
    pub id: u64,
    pub does: Does,
    /// Operations of the rank that end before.
    pub after: Vec<u64>,
}

/// The group without a name.
const WORLD: &str = "";

/// Operations of a circle that are named.
const MAX_NAMED: usize = 8;

/// What is wrong with a file, and where.
pub(in crate::fabric) type Wrong<'a> = &'a dyn Fn(Place, String) -> FabricError;

/// An operation that is refused.
type Refused = (Place, String);

/// Sendings and receptions of one pair of ranks and a tag, in order.
#[derive(Default)]
struct Channel {
    sends: Vec<usize>,
    receives: Vec<usize>,
}

struct Reader<'a> {
    listed: &'a [Listed],
    /// Host of each rank.
    hosts: &'a [usize],
    /// First and last operation of each of the listed ones.
    ops: Vec<(OpId, OpId)>,
}

/// The graph of these operations of ranks on these hosts.
///
/// # Errors
/// Ranks that are not there, messages with one end, operations that wait for one another.
pub(super) fn graph(
    listed: &[Listed],
    hosts: &[usize],
    start: &dyn Fn(usize) -> Nanos,
    wrong: Wrong<'_>,
) -> Result<Graph, FabricError> {
    let mut graph = Graph::default();
    let mut reader = Reader { listed, hosts, ops: vec![(0, 0); listed.len()] };
    let refused = |(place, problem): Refused| wrong(place, problem);
    reader.check().map_err(refused)?;
    let mut builder = Builder::new(&mut graph, start);
    if listed.iter().any(|op| matches!(op.does, Does::Send { .. })) {
        let ends = |op: &Listed| match op.does {
            Does::Send { to, .. } => vec![op.rank, to],
            _ => Vec::new(),
        };
        let ranks: BTreeSet<u64> = listed.iter().flat_map(ends).collect();
        builder.begin_other("messages", ranks.len());
    }
    // Where there are collectives, too, nobody knows whose computations are.
    let is_alone = !listed.iter().any(|op| matches!(op.does, Does::Collective { .. }));
    let with = builder.graph.collectives.first().filter(|_| is_alone).map(|_| 0);
    reader.messages(&mut builder, start).map_err(refused)?;
    reader.collectives(&mut builder).map_err(refused)?;
    reader.others(builder.graph, start, with);
    reader.dependencies(builder.graph).map_err(refused)?;
    match graph.circle() {
        Some(circle) => Err(reader.circle(&circle, wrong)),
        None => Ok(graph),
    }
}

impl Listed {
    fn name(&self) -> String {
        format!("operation {} of rank {}", self.id, self.rank)
    }

    fn wrong(&self, problem: impl std::fmt::Display) -> Refused {
        (self.place, format!("{} {problem}", self.name()))
    }
}

impl Reader<'_> {
    fn host(&self, rank: u64) -> Option<usize> {
        self.hosts.get(usize::try_from(rank).ok()?).copied()
    }

    /// Every rank that is named is there.
    fn check(&self) -> Result<(), Refused> {
        let (ranks, last) = (self.hosts.len(), self.hosts.len().saturating_sub(1));
        for op in self.listed {
            let other = match op.does {
                Does::Send { to: other, .. } | Does::Recv { from: other, .. } => Some(other),
                _ => None,
            };
            for rank in [Some(op.rank), other].into_iter().flatten() {
                if self.host(rank).is_none() {
                    let problem = format!(
                        "names rank {rank}, but there are {ranks}, 0 to {last}; correct it or `ranks`"
                    );
                    return Err(op.wrong(problem));
                }
            }
            if other == Some(op.rank) {
                return Err(op.wrong("is between a rank and itself; leave it out"));
            }
        }
        Ok(())
    }

    /// Sendings and receptions, matched in order by ranks and tag.
    fn messages(&mut self, builder: &mut Builder<'_>, start: &dyn Fn(usize) -> Nanos) -> Result<(), Refused> {
        let mut channels: BTreeMap<(u64, u64, u64), Channel> = BTreeMap::new();
        for (at, op) in self.listed.iter().enumerate() {
            match op.does {
                Does::Send { to, tag, .. } => channels.entry((op.rank, to, tag)).or_default().sends.push(at),
                Does::Recv { from, tag, .. } => {
                    channels.entry((from, op.rank, tag)).or_default().receives.push(at);
                }
                _ => {}
            }
        }
        // Messages keep the order of the file.
        let mut numbers = vec![0; self.listed.len()];
        for (at, op) in self.listed.iter().enumerate() {
            if let Does::Send { to, bytes, stream, .. } = op.does
                && let (Some(from), Some(to)) = (self.host(op.rank), self.host(to))
            {
                let (op, number) = builder.send(0, (from, to, stream), bytes, start(from), Vec::new());
                self.ops[at] = (op, op);
                numbers[at] = number;
            }
        }
        for ((from, to, tag), channel) in &channels {
            let paired = channel.sends.len().min(channel.receives.len());
            if let Some(at) = channel.sends.get(paired) {
                let problem = format!(
                    "is sent and not received: rank {to} receives {paired} messages from rank {from} with tag {tag}"
                );
                return Err(self.listed[*at].wrong(problem + "; add a recv there"));
            }
            if let Some(at) = channel.receives.get(paired) {
                let problem = format!(
                    "is received and not sent: rank {from} sends {paired} messages to rank {to} with tag {tag}"
                );
                return Err(self.listed[*at].wrong(problem + "; add a send there"));
            }
            for (send, receive) in channel.sends.iter().zip(&channel.receives) {
                let (sender, receiver) = (&self.listed[*send], &self.listed[*receive]);
                if let (Does::Send { bytes: sent, .. }, Does::Recv { bytes: Some(wanted), .. }) =
                    (&sender.does, &receiver.does)
                    && sent != wanted
                {
                    let problem =
                        format!("expects {wanted} bytes, and {} sends {sent}; correct one", sender.name());
                    return Err(receiver.wrong(problem));
                }
                let op = builder.graph.receive(numbers[*send], Vec::new());
                self.ops[*receive] = (op, op);
            }
        }
        Ok(())
    }

    /// Collectives: the nth of a group at each of its ranks are one.
    fn collectives(&mut self, builder: &mut Builder<'_>) -> Result<(), Refused> {
        let mut groups: BTreeMap<&str, BTreeMap<u64, Vec<usize>>> = BTreeMap::new();
        for (at, op) in self.listed.iter().enumerate() {
            if let Does::Collective { group, .. } = &op.does {
                groups.entry(group).or_default().entry(op.rank).or_default().push(at);
            }
        }
        if let Some(world) = groups.get_mut(WORLD) {
            for op in self.listed {
                world.entry(op.rank).or_default();
            }
        }
        for (group, ranks) in groups {
            let whose = match group {
                WORLD => "all ranks".to_owned(),
                name => format!("group `{name}`"),
            };
            let longest = ranks.values().max_by_key(|ops| ops.len()).cloned().unwrap_or_default();
            for (nth, longest) in longest.iter().enumerate() {
                let of_lowest = ranks.values().find_map(|ops| ops.get(nth)).unwrap_or(longest);
                let (first, longest) = (&self.listed[*of_lowest], &self.listed[*longest]);
                let hosts: Vec<usize> = ranks.keys().filter_map(|rank| self.host(*rank)).collect();
                let mut members = Vec::new();
                for (rank, ops) in &ranks {
                    let Some(at) = ops.get(nth) else {
                        let problem = format!(
                            "is number {} of {whose}, and rank {rank} has {}; add it there{}",
                            nth + 1,
                            if ops.is_empty() { "none".to_owned() } else { format!("{} only", ops.len()) },
                            if group == WORLD { ", or name the group of those that have it" } else { "" }
                        );
                        return Err(longest.wrong(problem));
                    };
                    if self.listed[*at].does != first.does {
                        let problem = format!(
                            "and {} are number {} of {whose} and differ; make them the same",
                            first.name(),
                            nth + 1
                        );
                        return Err(self.listed[*at].wrong(problem));
                    }
                    members.push(*at);
                }
                let Does::Collective { kind, bytes, each, .. } = first.does else { continue };
                let bytes = if each { bytes.saturating_mul(hosts.len() as u64) } else { bytes };
                let entry: Vec<OpId> = members.iter().map(|_| builder.graph.join(Vec::new())).collect();
                let begin: PerRank = entry.iter().map(|op| vec![*op]).collect();
                let ends = builder.usual(kind, &hosts, bytes, begin);
                for ((at, first), end) in members.iter().zip(entry).zip(ends) {
                    // Alone in its group it waits for nobody.
                    let end = end.into_iter().chain([first]).collect();
                    self.ops[*at] = (first, builder.graph.join(end));
                }
                // Before all of them are made.
                if builder.graph.messages.len() > MAX_FLOWS {
                    return Err(first.wrong(format!(
                        "brings the messages of this file to more than {MAX_FLOWS}, which is all that are possible: take some out, or play fewer ranks"
                    )));
                }
            }
        }
        Ok(())
    }

    /// What involves no other rank. Computations are reported with this collective.
    fn others(&mut self, graph: &mut Graph, start: &dyn Fn(usize) -> Nanos, with: Option<u32>) {
        for (at, op) in self.listed.iter().enumerate() {
            let one = match op.does {
                Does::Compute { ns, stream } => {
                    let Some(host) = self.host(op.rank) else { continue };
                    graph.compute((host, stream), (start(host), ns), with, Vec::new())
                }
                Does::Nothing => graph.join(Vec::new()),
                _ => continue,
            };
            self.ops[at] = (one, one);
        }
    }

    fn dependencies(&self, graph: &mut Graph) -> Result<(), Refused> {
        let mut known: BTreeMap<(u64, u64), usize> = BTreeMap::new();
        for (at, op) in self.listed.iter().enumerate() {
            if known.insert((op.rank, op.id), at).is_some() {
                return Err(op.wrong("is there twice; give each operation of a rank an id of its own"));
            }
        }
        for (at, op) in self.listed.iter().enumerate() {
            let before: BTreeSet<u64> = op.after.iter().copied().collect();
            let mut after = Vec::with_capacity(before.len());
            for id in before {
                let Some(other) = known.get(&(op.rank, id)) else {
                    return Err(
                        op.wrong(format!("waits for operation {id}, which rank {} does not have", op.rank))
                    );
                };
                after.push(self.ops[*other].1);
            }
            graph.wait(self.ops[at].0, after);
        }
        Ok(())
    }

    fn circle(&self, circle: &[OpId], wrong: Wrong<'_>) -> FabricError {
        let listed = self.ops.iter().zip(self.listed);
        let listed: BTreeMap<OpId, &Listed> =
            listed.flat_map(|((first, last), op)| [(*first, op), (*last, op)]).collect();
        let of = |op: &OpId| listed.get(op).copied();
        let mut names: Vec<String> = circle.iter().filter_map(of).map(Listed::name).collect();
        names.dedup();
        if names.len() > MAX_NAMED {
            names.truncate(MAX_NAMED);
            names.push("...".into());
        }
        let place = circle.iter().find_map(of).map_or(Place { file: 0, line: 0 }, |op| op.place);
        let problem = "operations wait for one another in a circle, so none of them ever begins";
        wrong(place, format!("{problem}: {}; let one of them wait for fewer", names.join(", ")))
    }
}
