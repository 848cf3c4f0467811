//! A part of a fabric: some of its flows, and the nodes that their frames pass.

use crate::fabric::graph::{Op, Work};
use crate::fabric::workload::{Planned, Traffic};

/// Which flows are played, and which nodes are there; by number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::fabric) struct Section {
    pub flows: Vec<bool>,
    pub nodes: Vec<bool>,
}

impl Section {
    /// Its traffic, with numbers of flows that follow one another, of which none waits for another. Collectives keep their numbers,
    /// by which flows name them; those that are not all in it have fewer messages.
    pub fn traffic(&self, all: Traffic) -> Traffic {
        let mut next = 0;
        let number = |is_in: &bool| {
            next += u32::from(*is_in);
            next.wrapping_sub(1)
        };
        let numbers: Vec<u32> = self.flows.iter().map(number).collect();
        let is_in = |flow: u32| self.flows[flow as usize];
        let op = |op: &Op| match op.work {
            Work::Send(flow) if is_in(flow) => Some(Op::send(numbers[flow as usize], op.start, Vec::new())),
            _ => None,
        };
        let ops = all.ops.iter().filter_map(op).collect();
        let mut flows: Vec<Planned> = all.flows.into_iter().filter(|f| is_in(f.flow.id)).collect();
        for planned in &mut flows {
            // Flows of a queue pair have one path.
            planned.pair = numbers[planned.pair as usize];
            planned.flow.id = numbers[planned.flow.id as usize];
        }
        Traffic { flows, ops, collectives: all.collectives }
    }
}
