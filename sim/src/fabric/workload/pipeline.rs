//! A training step of a pipeline: stages hand activations forward and gradients back, micro-batch by micro-batch.

use super::Reader;
use super::collectives::Builder;
use crate::fabric::FabricError;
use crate::fabric::faults::both;
use crate::fabric::graph::{Graph, OpId};

/// Micro-batches of a step at most.
const MAX_MICROBATCHES: usize = 1 << 16;

/// What a stage does with a micro-batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pass {
    Forward(usize),
    Backward(usize),
}

/// One forward, one backward (Narayanan et al., SOSP 2019): what a stage does, in order. Before its first way back a stage has
/// as many micro-batches on their way as there are stages from it to the end.
fn schedule(stages: usize, stage: usize, batches: usize) -> Vec<Pass> {
    let ahead = (stages - 1 - stage).min(batches);
    let warm_up = (0..ahead).map(Pass::Forward);
    let steady = (ahead..batches).flat_map(|n| [Pass::Forward(n), Pass::Backward(n - ahead)]);
    let cool_down = (batches - ahead..batches).map(Pass::Backward);
    warm_up.chain(steady).chain(cool_down).collect()
}

impl Reader<'_> {
    /// Ranks are stages, in their order.
    pub(super) fn pipeline(&self, hosts: &[usize]) -> Result<Graph, FabricError> {
        let (w, stages) = (self.w, hosts.len());
        let sizes = both(self.need("bytes", w.bytes), self.need("microbatches", w.microbatches));
        let times = both(self.need("forward", w.forward), self.need("backward", w.backward));
        let ((bytes, batches), (forward, backward)) = both(sizes, times)?;
        let (bytes, forward, backward) = (bytes.0, forward.0, backward.0);
        if !(1..=MAX_MICROBATCHES).contains(&batches) {
            return Err(self.wrong(format!("{batches} `microbatches`; it must be 1 to {MAX_MICROBATCHES}")));
        }
        self.check_count([2, stages - 1, batches])?;
        let starts = self.starts(hosts);
        let start = |host: usize| starts.get(&host).copied().unwrap_or_default();
        let mut graph = Graph::default();
        // What computes on each micro-batch at each stage, there and back.
        let mut passes = vec![vec![[0; 2]; stages]; batches];
        for (stage, host) in hosts.iter().enumerate() {
            let begin = graph.join(Vec::new());
            graph.ops[begin as usize].start = start(*host);
            let mut before: OpId = begin;
            for pass in schedule(stages, stage, batches) {
                let (batch, way, ns) = match pass {
                    Pass::Forward(batch) => (batch, 0, forward),
                    Pass::Backward(batch) => (batch, 1, backward),
                };
                before = graph.compute((*host, 0), (start(*host), ns), Some(0), vec![before]);
                passes[batch][stage][way] = before;
            }
        }
        let mut builder = Builder::new(&mut graph, &start);
        builder.begin_other(w.kind.word(), stages);
        for (batch, passes) in (0..).zip(&passes) {
            for stage in 1..stages {
                // The activations there, the gradients back.
                for (way, from, to) in [(0, stage - 1, stage), (1, stage, stage - 1)] {
                    let ends = (hosts[from], hosts[to], way as u32);
                    let computed = passes[from][way];
                    let (_, number) = builder.send(batch, ends, bytes, start(hosts[from]), vec![computed]);
                    let came = builder.graph.receive(number, Vec::new());
                    builder.graph.wait_too(passes[to][way], came);
                }
            }
        }
        Ok(graph)
    }
}

#[cfg(test)]
mod tests {
    use super::Pass::{Backward, Forward};
    use super::*;

    #[test]
    fn stages_do_one_forward_and_one_backward_in_turn() {
        assert_eq!(schedule(3, 2, 2), [Forward(0), Backward(0), Forward(1), Backward(1)]);
        assert_eq!(
            schedule(3, 0, 3),
            [Forward(0), Forward(1), Forward(2), Backward(0), Backward(1), Backward(2)]
        );
        assert_eq!(schedule(9, 0, 1), [Forward(0), Backward(0)]);
        for (stages, batches) in [(2, 1), (4, 3), (4, 9)] {
            for stage in 0..stages {
                let all = schedule(stages, stage, batches);
                assert_eq!(all.len(), 2 * batches);
                let place = |pass: Pass| all.iter().position(|p| *p == pass).unwrap();
                assert!((0..batches).all(|n| place(Forward(n)) < place(Backward(n))));
            }
        }
    }
}
