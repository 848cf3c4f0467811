//! Jobs: ranks on hosts, and what they do together.

use super::collectives::{Builder, Kind, PerRank};
use super::operations::{self, Place};
use super::{Pattern, Reader};
use crate::fabric::FabricError;
use crate::fabric::graph::Graph;
use crate::fabric::import::{File, chakra};
use crate::fabric::spec::{FabricSpec, Placement, Topology};
use std::collections::BTreeMap;
use weir_dataplane::rng::Rng;
use weir_dataplane::types::Nanos;
use weir_layout::counted;

impl Reader<'_> {
    /// The host of each rank.
    pub(super) fn ranks(&self, spec: &FabricSpec, rng: &mut Rng) -> Result<Vec<usize>, FabricError> {
        let (w, n) = (self.w, self.plan.stations());
        // A rank for each trace.
        let traces = (w.kind == Pattern::Chakra).then(|| self.files(spec).len());
        if let Some(names) = &w.hosts {
            if w.ranks.or(w.placement.map(|_| 0)).is_some() {
                return Err(self.wrong("`hosts` says where the ranks are; take `ranks` and `placement` out"));
            }
            let hosts = names.iter().map(|name| self.host("hosts", &Some(name.clone())));
            let hosts = hosts.collect::<Result<Vec<usize>, _>>()?;
            if let Some((at, _)) = hosts.iter().enumerate().find(|(at, host)| hosts[..*at].contains(host)) {
                return Err(
                    self.wrong(format!("`hosts` names `{}` twice; a host has one rank of a job", names[at]))
                );
            }
            return self.enough(hosts);
        }
        let ranks = w.ranks.or(traces).unwrap_or(n);
        if ranks > n {
            let what = if w.ranks.is_some() { "`ranks`" } else { "traces" };
            return Err(self.wrong(format!("{ranks} {what}, but only {n} hosts")));
        }
        let hosts = match w.placement.unwrap_or_default() {
            Placement::Packed => (0..ranks).collect(),
            Placement::Spread => (0..ranks).map(|rank| rank * n / ranks).collect(),
            Placement::Random => {
                // The first of a random order (Fisher, Yates).
                let mut order: Vec<usize> = (0..n).collect();
                for at in 0..ranks {
                    let other = at + ((u64::from(rng.next_u32()) * (n - at) as u64) >> 32) as usize;
                    order.swap(at, other);
                }
                order.truncate(ranks);
                order
            }
        };
        self.enough(hosts)
    }

    fn files<'f>(&self, spec: &'f FabricSpec) -> Vec<File<'f>> {
        spec.files.all(&format!("workload.{}.file", self.index)).collect()
    }

    fn enough(&self, hosts: Vec<usize>) -> Result<Vec<usize>, FabricError> {
        // A trace may be of a rank alone.
        if hosts.len() < 2 && self.w.kind != Pattern::Chakra {
            return Err(self.wrong(format!("{}; a job has two at least", counted(hosts.len(), "rank"))));
        }
        Ok(hosts)
    }

    /// When the hosts of these ranks may begin, ns.
    pub(super) fn starts(&self, hosts: &[usize]) -> BTreeMap<usize, Nanos> {
        let start = |rank: usize| self.w.start.0.saturating_add(self.w.stagger.0.saturating_mul(rank as u64));
        hosts.iter().enumerate().map(|(rank, host)| (*host, start(rank))).collect()
    }

    /// Ranks of a group.
    fn group(&self, spec: &FabricSpec, ranks: usize) -> Result<usize, FabricError> {
        let group = match (self.w.group, &spec.topology) {
            (Some(group), _) => group,
            (None, Topology::Rail(rail)) => rail.rails,
            _ => {
                return Err(
                    self.wrong("needs `group`, the ranks of a server, where the topology is not `rail`")
                );
            }
        };
        if group == 0 || !ranks.is_multiple_of(group) {
            let problem =
                format!("{ranks} ranks are no whole number of groups of {group}; change `group` or `ranks`");
            return Err(self.wrong(problem));
        }
        Ok(group)
    }

    /// One collective of all ranks.
    pub(super) fn collective(&self, spec: &FabricSpec, hosts: &[usize]) -> Result<Graph, FabricError> {
        let (w, ranks) = (self.w, hosts.len());
        let starts = self.starts(hosts);
        let start = |host: usize| starts.get(&host).copied().unwrap_or_default();
        let mut graph = Graph::default();
        let mut builder = Builder::new(&mut graph, &start);
        let free: PerRank = vec![Vec::new(); ranks];
        let rounds = match w.kind {
            Pattern::AllReduce => 2 * (ranks - 1),
            Pattern::HalvingDoublingAllReduce => 2 * ranks.ilog2() as usize,
            Pattern::RailAllReduce | Pattern::HierarchicalAllReduce => 1,
            _ => ranks - 1,
        };
        self.check_count([ranks, rounds])?;
        if w.kind == Pattern::AllToAllV {
            self.all_to_allv(&mut builder, hosts, &free)?;
            return Ok(graph);
        }
        let bytes = self.need("bytes", w.bytes)?.0;
        let kind = match w.kind {
            Pattern::ReduceScatter => Kind::ReduceScatter,
            Pattern::AllGather => Kind::AllGather,
            _ => Kind::AllReduce,
        };
        builder.begin(w.kind.word(), kind, ranks, bytes);
        match w.kind {
            Pattern::ReduceScatter | Pattern::AllGather => builder.ring_half(hosts, bytes, free),
            Pattern::HalvingDoublingAllReduce if !ranks.is_power_of_two() => {
                return Err(self.wrong(format!("{ranks} ranks are no power of two; set `ranks` to one")));
            }
            Pattern::HalvingDoublingAllReduce => builder.halving_doubling(hosts, bytes, free),
            Pattern::HierarchicalAllReduce => {
                builder.hierarchical(hosts, self.group(spec, ranks)?, bytes, &free)
            }
            Pattern::RailAllReduce => builder.by_rails(hosts, self.group(spec, ranks)?, bytes, free),
            _ => builder.ring_all_reduce(hosts, bytes, free),
        };
        Ok(graph)
    }

    fn all_to_allv(
        &self,
        builder: &mut Builder<'_>,
        hosts: &[usize],
        free: &PerRank,
    ) -> Result<(), FabricError> {
        let ranks = hosts.len();
        let matrix = self.w.matrix.as_ref().ok_or_else(|| self.wrong("needs `matrix`"))?;
        let odd = matrix.iter().find(|row| row.len() != ranks);
        if odd.is_some() || matrix.len() != ranks {
            let one = odd.map_or_else(String::new, |row| format!(", one of {},", counted(row.len(), "size")));
            let (rows, ranks) = (counted(matrix.len(), "row"), counted(ranks, "rank"));
            return Err(self.wrong(format!("`matrix` has {rows}{one} for {ranks}; it must be square")));
        }
        let bytes = |from: usize, to: usize| matrix[from][to].0;
        let sent = |from: usize| (0..ranks).filter(|to| *to != from).map(|to| bytes(from, to)).sum::<u64>();
        // As nccl-tests counts: what a rank has to send, and here the one that has most.
        let most = (0..ranks).map(sent).max().unwrap_or(0);
        if most == 0 {
            return Err(self.wrong("`matrix` has nothing to send from one rank to another; give it sizes"));
        }
        let size = u128::from(most) * ranks as u128 / (ranks as u128 - 1);
        builder.begin(self.w.kind.word(), Kind::AllToAll, ranks, size as u64);
        builder.all_to_all(hosts, &bytes, free);
        Ok(())
    }

    /// Operations of files.
    pub(super) fn operations(&self, spec: &FabricSpec, hosts: &[usize]) -> Result<Graph, FabricError> {
        let files = self.files(spec);
        let first = *files.first().ok_or_else(|| self.wrong("needs `file`"))?;
        let listed = match self.w.kind {
            Pattern::Chakra => chakra::read(&files)?,
            _ => crate::fabric::import::operations::read(first)?,
        };
        if self.w.kind == Pattern::Chakra && files.len() != hosts.len() {
            let problem = format!(
                "{}, but {}; change `ranks`, `hosts` or [topology]",
                counted(files.len(), "trace"),
                counted(hosts.len(), "rank")
            );
            return Err(self.wrong(problem));
        }
        let starts = self.starts(hosts);
        let start = |host: usize| starts.get(&host).copied().unwrap_or_default();
        let wrong = |place: Place, problem: String| {
            files.get(place.file).unwrap_or(&first).wrong(place.line, problem)
        };
        operations::graph(&listed, hosts, &start, &wrong)
    }
}
