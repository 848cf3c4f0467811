//! A part of a fabric: some of its flows and operations, and the nodes that their frames pass.

use crate::fabric::graph::{Op, Work};
use crate::fabric::workload::{Planned, Traffic};

/// Which flows are played, which operations, and which nodes are there; by number. What waits for one another is all in it, or nothing of
/// it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::fabric) struct Section {
    pub flows: Vec<bool>,
    pub ops: Vec<bool>,
    pub nodes: Vec<bool>,
}

/// New numbers of those that are in it, one after the other.
fn numbers(is_in: &[bool]) -> Vec<u32> {
    let mut next = 0;
    let number = |is_in: &bool| {
        next += u32::from(*is_in);
        next.wrapping_sub(1)
    };
    is_in.iter().map(number).collect()
}

impl Section {
    /// The numbers that its flows have in the whole fabric.
    pub fn flow_numbers(&self) -> Vec<u32> {
        (0..).zip(&self.flows).filter(|(_, is_in)| **is_in).map(|(number, _)| number).collect()
    }

    /// Its traffic, with numbers of flows and operations that follow one another. Collectives keep their numbers, by which flows name
    /// them; those that are not in it have no messages.
    pub fn traffic(&self, all: Traffic) -> Traffic {
        let (flow_of, op_of) = (numbers(&self.flows), numbers(&self.ops));
        let of_section = |op: Op| {
            let work = match op.work {
                Work::Send(flow) => Work::Send(flow_of[flow as usize]),
                Work::Receive(flow) => Work::Receive(flow_of[flow as usize]),
                other => other,
            };
            let after = op.after.iter().map(|before| op_of[*before as usize]).collect();
            Op { work, after, ..op }
        };
        let ops = all.ops.into_iter().zip(&self.ops).filter(|(_, is_in)| **is_in);
        let ops = ops.map(|(op, _)| of_section(op)).collect();
        let is_in = |flow: u32| self.flows[flow as usize];
        let mut flows: Vec<Planned> = all.flows.into_iter().filter(|f| is_in(f.flow.id)).collect();
        for planned in &mut flows {
            planned.pair = flow_of[planned.pair as usize];
            planned.flow.id = flow_of[planned.flow.id as usize];
        }
        Traffic { flows, ops, collectives: all.collectives }
    }
}
