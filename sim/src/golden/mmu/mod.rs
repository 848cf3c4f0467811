//! `ns3-mmu`: enqueues and dequeues on two published switch MMUs, and the counters after each.
//!
//! Known by a `params.json` whose entries name a `model`. A replay feeds the `E` and `D` rows to the
//! model and compares every column of every row, operands of dequeues included: the model keeps its own
//! queues, and its oldest frame must be the one the table takes out.

mod dc;
mod ecn;
mod hpcc;

use std::collections::VecDeque;

use weir_dataplane::types::PRIORITIES;

use super::folder::{Folder, Table};
use super::report::Got;
use super::table::Row;
use super::{FileReport, GoldenError, Kind, Sink};

/// The kind of these data sets.
pub(super) const KIND: Kind = Kind { name: "ns3-mmu", claims: |f| f.params_mention("model"), replay };

/// The one key every entry has.
#[derive(serde::Deserialize)]
struct Model {
    model: String,
}

fn replay(folder: &Folder, sink: Sink<'_>) -> Result<(), GoldenError> {
    folder.tables.iter().try_for_each(|table| replay_table(folder, table).map(&mut *sink))
}

fn replay_table(folder: &Folder, table: &Table) -> Result<FileReport, GoldenError> {
    match table.name.as_str() {
        ecn::NAME => return ecn::replay(table),
        dc::REVERIE => return dc::replay_reverie(folder, table),
        dc::ABM => return dc::replay_abm(folder, table),
        _ => {}
    }
    let Model { model } = folder.params_of(table)?;
    match model.as_str() {
        "hpcc" => hpcc::replay(folder, table),
        "dc" => dc::replay_dt(folder, table),
        _ => Err(folder.bad_params(table, &format!("model `{model}` is neither `hpcc` nor `dc`"))),
    }
}

/// The operation of a row, ports counted from 0.
struct Op {
    enqueue: bool,
    in_port: usize,
    out_port: usize,
    prio: usize,
    bytes: u32,
}

impl Op {
    fn read(row: &Row<'_>, ports: usize) -> Result<Self, GoldenError> {
        let enqueue = match row.text("op") {
            "E" => true,
            "D" => false,
            _ => return Err(row.bad("op", "E or D")),
        };
        let port = |column| Ok(row.uint(column, 1, ports as u64)? as usize - 1);
        Ok(Self {
            enqueue,
            in_port: port("in")?,
            out_port: port("out")?,
            prio: row.uint("q", 0, PRIORITIES as u64 - 1)? as usize,
            bytes: row.uint("size", 1, MAX_FRAME)? as u32,
        })
    }
}

/// No frame of a table is larger; keeps the 32-bit counters of a hostile table from wrapping unseen.
const MAX_FRAME: u64 = 1 << 20;

/// The frames a switch holds, oldest first per egress queue: (ingress port, bytes).
struct Held(Vec<[VecDeque<(usize, u32)>; PRIORITIES]>);

impl Held {
    fn new(ports: usize) -> Self {
        Self((0..ports).map(|_| Default::default()).collect())
    }

    fn push(&mut self, op: &Op) {
        self.0[op.out_port][op.prio].push_back((op.in_port, op.bytes));
    }

    fn pop(&mut self, op: &Op) -> Option<(usize, u32)> {
        self.0[op.out_port][op.prio].pop_front()
    }
}

/// The `in` and `size` cells of a row: the table's own for an enqueue, the popped frame for a dequeue.
fn identity(op: &Op, popped: Option<(usize, u32)>) -> [Got; 2] {
    match popped {
        None if !op.enqueue => [Got::Text("none held"), Got::Text("none held")],
        None => [Got::Uint(op.in_port as u64 + 1), op.bytes.into()],
        Some((in_port, bytes)) => [Got::Uint(in_port as u64 + 1), bytes.into()],
    }
}
