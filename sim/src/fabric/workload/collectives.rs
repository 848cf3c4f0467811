//! Collectives as messages among ranks, and what of them waits for what. Each begins, at each rank, after operations of that
//! rank, and ends with others, so that they can follow one another.

use crate::fabric::graph::{Collective, Graph, Message, OpId, Part};
use std::collections::BTreeMap;
use weir_dataplane::types::Nanos;

/// What each rank waits for, or is done with.
pub(super) type PerRank = Vec<Vec<OpId>>;

/// What a collective does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::fabric) enum Kind {
    AllReduce,
    ReduceScatter,
    AllGather,
    AllToAll,
    Broadcast,
    Barrier,
}

impl Kind {
    pub fn word(self) -> &'static str {
        match self {
            Self::AllReduce => "all_reduce",
            Self::ReduceScatter => "reduce_scatter",
            Self::AllGather => "all_gather",
            Self::AllToAll => "all_to_all",
            Self::Broadcast => "broadcast",
            Self::Barrier => "barrier",
        }
    }

    /// What is reported of one of so many ranks and bytes, as nccl-tests counts them.
    pub fn described(self, word: &'static str, ranks: usize, bytes: u64) -> Collective {
        let bytes = (self != Self::Barrier).then_some(bytes);
        Collective { kind: word, ranks, bytes, bus: Some(self.bus(ranks.max(1) as u64)) }
    }

    /// Bus bandwidth in algorithm bandwidth, as nccl-tests has it.
    fn bus(self, ranks: u64) -> (u64, u64) {
        match self {
            Self::AllReduce => (2 * (ranks - 1), ranks),
            Self::ReduceScatter | Self::AllGather | Self::AllToAll => (ranks - 1, ranks),
            Self::Broadcast | Self::Barrier => (1, 1),
        }
    }
}

/// Adds collectives to a graph.
pub(super) struct Builder<'a> {
    pub graph: &'a mut Graph,
    /// First message of the queue pair of two hosts and a stream.
    pairs: BTreeMap<(usize, usize, u32), u32>,
    /// When a host may send, ns.
    start: &'a dyn Fn(usize) -> Nanos,
    step: u32,
}

impl<'a> Builder<'a> {
    /// `start`: when a host may send.
    pub fn new(graph: &'a mut Graph, start: &'a dyn Fn(usize) -> Nanos) -> Self {
        Self { graph, pairs: BTreeMap::new(), start, step: 0 }
    }

    /// What is added from now on is one collective. `bytes` as nccl-tests counts them.
    pub fn begin(&mut self, word: &'static str, kind: Kind, ranks: usize, bytes: u64) {
        self.graph.collectives.push(kind.described(word, ranks, bytes));
        self.step = 0;
    }

    /// The same of what has no size that a bandwidth could be of.
    pub fn begin_other(&mut self, kind: &'static str, ranks: usize) {
        self.graph.collectives.push(Collective { kind, ranks, bytes: None, bus: None });
        self.step = 0;
    }

    /// The same of `bytes` that ranks move for themselves, not together.
    pub fn begin_transfers(&mut self, kind: &'static str, ranks: usize, bytes: u64) {
        self.graph.collectives.push(Collective { kind, ranks, bytes: Some(bytes), bus: None });
        self.step = 0;
    }

    /// A message of the collective over the queue pair of its ends and stream: the operation that sends it, and its number.
    pub fn send(
        &mut self,
        step: u32,
        ends: (usize, usize, u32),
        bytes: u64,
        start: Nanos,
        after: Vec<OpId>,
    ) -> (OpId, u32) {
        let (from, to, _) = ends;
        let number = self.graph.messages.len() as u32;
        let pair = *self.pairs.entry(ends).or_insert(number);
        let collective = (self.graph.collectives.len() as u32).checked_sub(1);
        let message = Message {
            pair: Some(pair),
            part: collective.map(|collective| Part { collective, step }),
            ..Message::new(from, to, bytes.max(1))
        };
        (self.graph.send(message, start, after), number)
    }

    /// One step: messages of ranks `(from, to, bytes)` after what their senders wait for. What has come to each rank: it
    /// counts as received once what that rank waits for is over, too (`begun`).
    fn exchange(
        &mut self,
        hosts: &[usize],
        messages: &[(usize, usize, u64)],
        after: &PerRank,
        begun: &PerRank,
    ) -> PerRank {
        let first = self.graph.messages.len() as u32;
        for (from, to, bytes) in messages {
            let (start, ends) = ((self.start)(hosts[*from]), (hosts[*from], hosts[*to], 0));
            self.send(self.step, ends, *bytes, start, after[*from].clone());
        }
        let mut came = vec![Vec::new(); hosts.len()];
        for (number, (_, to, _)) in (first..).zip(messages) {
            came[*to].push(self.graph.receive(number, begun[*to].clone()));
        }
        self.step += 1;
        came
    }

    /// `steps` steps around a ring: what came last goes on to the next, once all that was to come before has.
    fn ring(&mut self, hosts: &[usize], steps: usize, chunk: u64, entry: PerRank) -> PerRank {
        let n = hosts.len();
        let messages: Vec<_> = (0..n).map(|from| (from, (from + 1) % n, chunk)).collect();
        (0..steps).fold(entry, |came, _| self.exchange(hosts, &messages, &came, &came))
    }

    /// Ring all-reduce of `bytes`: N - 1 steps that reduce and scatter, N - 1 that gather.
    pub fn ring_all_reduce(&mut self, hosts: &[usize], bytes: u64, entry: PerRank) -> PerRank {
        self.ring(hosts, 2 * (hosts.len() - 1), bytes.div_ceil(hosts.len() as u64), entry)
    }

    /// Reduce-scatter of `bytes`, or all-gather to `bytes`, around a ring: the messages are the same.
    pub fn ring_half(&mut self, hosts: &[usize], bytes: u64, entry: PerRank) -> PerRank {
        self.ring(hosts, hosts.len() - 1, bytes.div_ceil(hosts.len() as u64), entry)
    }

    /// All-reduce by recursive halving and doubling (Thakur, Rabenseifner, Gropp, 2005). The number of hosts is a power of two.
    pub fn halving_doubling(&mut self, hosts: &[usize], bytes: u64, entry: PerRank) -> PerRank {
        let n = hosts.len();
        let rounds = n.ilog2();
        let distances = (0..rounds).chain((0..rounds).rev()).map(|round| n >> (round + 1));
        distances.fold(entry, |came, distance| {
            // Halves of halves: of the whole at distance n/2, of the least part at distance 1.
            let part = bytes.div_ceil((n / distance) as u64);
            let messages: Vec<_> = (0..n).map(|from| (from, from ^ distance, part)).collect();
            self.exchange(hosts, &messages, &came, &came)
        })
    }

    /// All-reduce of `bytes` by the first host of every `group`: all others of the group send to it, the first ones form a
    /// ring, and send the result back.
    pub fn hierarchical(&mut self, hosts: &[usize], group: usize, bytes: u64, entry: &PerRank) -> PerRank {
        let members: Vec<usize> = (0..hosts.len()).filter(|rank| !rank.is_multiple_of(group)).collect();
        let first = |rank: usize| rank / group * group;
        let up: Vec<_> = members.iter().map(|rank| (*rank, first(*rank), bytes)).collect();
        let sums = self.exchange(hosts, &up, entry, entry);
        let leaders: Vec<usize> = hosts.iter().step_by(group).copied().collect();
        let of_leaders = |all: PerRank| -> PerRank { all.into_iter().step_by(group).collect() };
        // A group of one has nothing to wait for but its own beginning.
        let ready = if group == 1 { of_leaders(entry.clone()) } else { of_leaders(sums) };
        let results = match leaders.len() {
            1 => ready,
            _ => self.ring_all_reduce(&leaders, bytes, ready),
        };
        let mut have = entry.clone();
        for (leader, result) in results.into_iter().enumerate() {
            have[leader * group] = result;
        }
        let down: Vec<_> = members.iter().map(|rank| (first(*rank), *rank, bytes)).collect();
        let came = self.exchange(hosts, &down, &have, entry);
        have.iter_mut().zip(came).filter(|(_, came)| !came.is_empty()).for_each(|(have, came)| *have = came);
        have
    }

    /// All-reduce of `bytes` along rails: ring reduce-scatter within each `group`, a ring all-reduce of the hosts with the same
    /// place in all groups, ring all-gather within each group.
    pub fn by_rails(&mut self, hosts: &[usize], group: usize, bytes: u64, entry: PerRank) -> PerRank {
        let groups = hosts.len() / group;
        let own = bytes.div_ceil(group as u64);
        let mut have = entry;
        for phase in 0..3 {
            let step = self.step;
            let mut last = step;
            // Rings beside one another: the same steps.
            for nth in 0..if phase == 1 { group } else { groups } {
                let ranks: Vec<usize> = match phase {
                    1 => (0..groups).map(|at| at * group + nth).collect(),
                    _ => (nth * group..(nth + 1) * group).collect(),
                };
                if ranks.len() == 1 {
                    continue;
                }
                let ring: Vec<usize> = ranks.iter().map(|rank| hosts[*rank]).collect();
                let begun: PerRank = ranks.iter().map(|rank| have[*rank].clone()).collect();
                self.step = step;
                let came = match phase {
                    1 => self.ring_all_reduce(&ring, own, begun),
                    _ => self.ring_half(&ring, bytes, begun),
                };
                last = last.max(self.step);
                ranks.into_iter().zip(came).for_each(|(rank, came)| have[rank] = came);
            }
            self.step = last;
        }
        have
    }

    /// Each sends to every other at once, `bytes(from, to)`; everybody begins with another partner. Where there is nothing to
    /// send, nothing is.
    pub fn all_to_all(
        &mut self,
        hosts: &[usize],
        bytes: &dyn Fn(usize, usize) -> u64,
        entry: &PerRank,
    ) -> PerRank {
        let n = hosts.len();
        let mut came = vec![Vec::new(); n];
        for shift in 1..n {
            let all = (0..n).map(|from| (from, (from + shift) % n));
            let messages: Vec<_> = all
                .map(|(from, to)| (from, to, bytes(from, to)))
                .filter(|(_, _, bytes)| *bytes > 0)
                .collect();
            let more = self.exchange(hosts, &messages, entry, entry);
            came.iter_mut().zip(more).for_each(|(came, more)| came.extend(more));
        }
        came
    }

    /// All of `bytes` from rank 0 to all, along a binomial tree: each sends one message after the other, when the one before is
    /// acknowledged, and is done with its last one.
    pub fn broadcast(&mut self, hosts: &[usize], bytes: u64, entry: &PerRank) -> PerRank {
        let n = hosts.len();
        // What each of them waits for next.
        let mut done = entry.clone();
        let mut distance = 1;
        while distance < n {
            for from in 0..distance.min(n - distance) {
                let to = from + distance;
                let ends = (hosts[from], hosts[to], 0);
                let (sent, number) = self.send(
                    self.step,
                    ends,
                    bytes,
                    (self.start)(hosts[from]),
                    std::mem::take(&mut done[from]),
                );
                done[from] = vec![sent];
                done[to] = vec![self.graph.receive(number, std::mem::take(&mut done[to]))];
            }
            distance *= 2;
            self.step += 1;
        }
        done
    }

    /// Nobody goes on before all have come: dissemination (Hensgen, Finkel, Manber, 1988), a byte each time.
    pub fn barrier(&mut self, hosts: &[usize], entry: PerRank) -> PerRank {
        let n = hosts.len();
        let (mut came, mut distance) = (entry, 1);
        while distance < n {
            let messages: Vec<_> = (0..n).map(|from| (from, (from + distance) % n, 1)).collect();
            came = self.exchange(hosts, &messages, &came, &came);
            distance *= 2;
        }
        came
    }

    /// A collective of this kind by its usual algorithm.
    pub fn usual(&mut self, kind: Kind, hosts: &[usize], bytes: u64, entry: PerRank) -> PerRank {
        self.begin(kind.word(), kind, hosts.len(), bytes);
        match kind {
            Kind::AllReduce => self.ring_all_reduce(hosts, bytes, entry),
            Kind::ReduceScatter | Kind::AllGather => self.ring_half(hosts, bytes, entry),
            Kind::AllToAll => {
                let each = bytes.div_ceil(hosts.len() as u64);
                self.all_to_all(hosts, &|_, _| each, &entry)
            }
            Kind::Broadcast => self.broadcast(hosts, bytes, &entry),
            Kind::Barrier => self.barrier(hosts, entry),
        }
    }
}
