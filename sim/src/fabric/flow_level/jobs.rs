//! What cannot be played apart: flows and operations of which one waits for another, directly or by way of others.

use crate::fabric::graph::Work;
use crate::fabric::operations::Operations;
use crate::fabric::workload::Planned;
use std::collections::BTreeMap;

/// Which job each flow and each operation is of: the same number, the same job.
#[derive(Debug)]
pub(super) struct Jobs {
    pub flows: Vec<usize>,
    pub ops: Vec<usize>,
}

/// Trees of things that belong together; the root of a tree is its parent.
struct Parents(Vec<usize>);

impl Parents {
    fn root(&mut self, mut at: usize) -> usize {
        while self.0[at] != at {
            self.0[at] = self.0[self.0[at]];
            at = self.0[at];
        }
        at
    }

    fn join(&mut self, a: usize, b: usize) {
        let (a, b) = (self.root(a), self.root(b));
        self.0[a.max(b)] = a.min(b);
    }
}

impl Jobs {
    /// Of all flows and operations of a fabric.
    pub fn new(flows: &[Planned], operations: &Operations) -> Self {
        let (first, count) = (flows.len(), operations.len());
        let mut parents = Parents((0..first + count).collect());
        // Messages of a queue pair wait for one another, and so do computations of a stream of a host.
        flows.iter().for_each(|f| parents.join(f.flow.id as usize, f.pair as usize));
        let mut streams: BTreeMap<(u32, u32), usize> = BTreeMap::new();
        for op in 0..count {
            match operations.op(op as u32).work {
                Work::Send(flow) | Work::Receive(flow) => parents.join(flow as usize, first + op),
                Work::Compute { host, stream, .. } => {
                    let one = *streams.entry((host, stream)).or_insert(first + op);
                    parents.join(one, first + op);
                }
                Work::Join => {}
            }
        }
        operations
            .dependencies()
            .for_each(|(before, after)| parents.join(first + before as usize, first + after as usize));
        let mut roots: Vec<usize> = (0..first + count).map(|at| parents.root(at)).collect();
        let ops = roots.split_off(first);
        Self { flows: roots, ops }
    }

    /// These flows, and all others of their jobs.
    pub fn whole(&self, flows: &[bool]) -> Vec<bool> {
        let jobs = self.played(flows);
        self.flows.iter().map(|job| jobs[*job]).collect()
    }

    /// Operations of the jobs of these flows.
    pub fn ops_of(&self, flows: &[bool]) -> Vec<bool> {
        let jobs = self.played(flows);
        self.ops.iter().map(|job| jobs[*job]).collect()
    }

    /// By number of the job: one of these flows is of it.
    fn played(&self, flows: &[bool]) -> Vec<bool> {
        let mut jobs = vec![false; self.flows.len() + self.ops.len()];
        self.flows.iter().zip(flows).filter(|(_, played)| **played).for_each(|(job, _)| jobs[*job] = true);
        jobs
    }
}
