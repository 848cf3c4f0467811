//! Replay of `hpcc_*` tables against [`Hpcc`].

use crate::models::hpcc::{Hpcc, HpccEcn, HpccParams, MarkLaw, Verdict};
use serde::Deserialize;

use super::super::report::{Got, Tally};
use super::super::table::Rows;
use super::{FileReport, Folder, GoldenError, Held, Op, Table, identity};

const COLUMNS: &[&str] = &[
    "op", "in", "out", "q", "size", "adm", "ingress", "hdrm", "shared", "egress", "thr", "cp", "cr",
    "paused", "ecn",
];

/// One entry of `params.json`.
#[derive(Deserialize)]
struct Entry {
    ports: usize,
    buffer: u32,
    reserve: u32,
    resume_offset: u32,
    headroom: Vec<u32>,
    shift: Vec<u32>,
    kmin: u32,
    kmax: u32,
    pmax: f64,
}

pub(super) fn replay(folder: &Folder, table: &Table) -> Result<FileReport, GoldenError> {
    let Entry { ports, buffer, reserve, resume_offset, headroom, shift, kmin, kmax, pmax } =
        folder.params_of(table)?;
    if headroom.len() != ports {
        let what = format!("{ports} ports but {} values of headroom", headroom.len());
        return Err(folder.bad_params(table, &what));
    }
    let params = HpccParams { buffer, reserve, resume_offset, headroom, shift };
    let mut mmu = Hpcc::new(&params).map_err(|error| folder.bad_params(table, &error))?;
    let ecn = HpccEcn { kmin, kmax, pmax };

    let mut held = Held::new(ports);
    let mut tally = Tally::new(&table.name);
    let mut rows = Rows::open(table, COLUMNS)?;
    while let Some(row) = rows.next()? {
        let op = Op::read(&row, ports)?;
        let (mut admitted, mut pauses, mut resumes, mut popped) = (true, false, false, None);
        if op.enqueue {
            let verdict = mmu.admit(op.in_port, op.prio, op.out_port, op.bytes);
            admitted = verdict != Verdict::Refused;
            pauses = verdict == Verdict::StoredPause;
            if admitted {
                held.push(&op);
            }
        } else {
            popped = held.pop(&op);
            if let Some((in_port, bytes)) = popped {
                resumes = mmu.release(in_port, op.prio, op.out_port, bytes);
            }
        }
        let (port, prio) = (popped.map_or(op.in_port, |(in_port, _)| in_port), op.prio);
        let depth = mmu.egress(op.out_port, prio);
        let [came_in, size] = identity(&op, popped);
        let got = [
            came_in,
            Got::Uint(op.out_port as u64 + 1),
            Got::Uint(prio as u64),
            size,
            admitted.into(),
            mmu.used(port, prio).into(),
            mmu.headroom(port, prio).into(),
            mmu.shared().into(),
            depth.into(),
            mmu.threshold(port).into(),
            // The predicates as they stood before the operation acted on them.
            (pauses || !resumes && mmu.pause_due(port, prio)).into(),
            (resumes || !pauses && mmu.resume_due(port, prio)).into(),
            mmu.paused(port, prio).into(),
            Got::Text(zone(prio, ecn.law(depth))),
        ];
        tally.row(&row, &got);
    }
    Ok(tally.finish())
}

/// The `ecn` column. Queue 0 carries control frames and is never marked.
fn zone(prio: usize, law: MarkLaw) -> &'static str {
    match law {
        _ if prio == 0 => "N",
        MarkLaw::Never => "N",
        MarkLaw::Below(_) => "P",
        MarkLaw::Always => "Y",
    }
}
