//! Replay of `dc_*` tables against [`Ns3Dc`]: dynamic thresholds, Reverie and ABM.

use crate::models::ns3dc::{AbmParams, DcParams, DcParamsError, Ns3Dc, PerQueue, Policy, Reverie, Verdict};
use serde::Deserialize;
use weir_dataplane::types::PRIORITIES;

use super::super::report::{Got, Tally};
use super::super::table::{Row, Rows};
use super::{FileReport, Folder, GoldenError, Held, Op, Table, identity};

/// The one Reverie and the one ABM table; `params.json` leaves these two out.
pub(super) const REVERIE: &str = "dc_d8_p8_reverie";
pub(super) const ABM: &str = "dc_d9_p8_abm";

const COLUMNS: &[&str] = &[
    "op", "in", "out", "q", "ly", "size", "adm", "ingress", "hdrm", "egress", "totused", "hdrmtot", "epool",
    "rsvused", "thr_in", "thr_eg", "cp", "cr", "paused",
];

const REVERIE_COLUMNS: &[&str] = &[
    "op", "in", "out", "q", "ly", "size", "adm", "ingress", "hdrm", "egress", "totused", "hdrmtot", "epool",
    "rsvused", "shpool", "lpf_in", "lpf_eg", "thr_in", "thr_eg", "cp", "cr", "paused",
];

/// One entry of `params.json`.
#[derive(Deserialize)]
struct Entry {
    ports: usize,
    buffer: u64,
    ingress_pool: u64,
    egress_lossless_pool: u64,
    egress_lossy_pool: u64,
    xoff: PerQueue<u64>,
    reserve: PerQueue<u64>,
    alpha_ingress: PerQueue<f64>,
    alpha_egress: PerQueue<f64>,
    xon: u64,
    xon_offset: u64,
    lossy_mask: u8,
}

pub(super) fn replay_dt(folder: &Folder, table: &Table) -> Result<FileReport, GoldenError> {
    let e: Entry = folder.params_of(table)?;
    if e.xoff.len() != e.ports {
        let what = format!("{} ports but {} rows of xoff", e.ports, e.xoff.len());
        return Err(folder.bad_params(table, &what));
    }
    let params = DcParams {
        buffer: e.buffer,
        ingress_pool: e.ingress_pool,
        egress_lossless_pool: e.egress_lossless_pool,
        egress_lossy_pool: e.egress_lossy_pool,
        xoff: e.xoff,
        reserve: e.reserve,
        alpha_ingress: e.alpha_ingress,
        alpha_egress: e.alpha_egress,
        xon: e.xon,
        xon_offset: e.xon_offset,
        lossy_mask: e.lossy_mask,
    };
    let mmu = Ns3Dc::dt(params).map_err(|error| folder.bad_params(table, &error))?;
    replay(table, COLUMNS, mmu, |_, row| Err(row.bad("op", "E or D")), |_, _, _, _| Vec::new())
}

pub(super) fn replay_reverie(folder: &Folder, table: &Table) -> Result<FileReport, GoldenError> {
    let mmu = published(0, 0.25, |params| {
        let pool = params.ingress_pool;
        Ns3Dc::reverie(params, pool)
    });
    let mmu = mmu.map_err(|error| folder.bad_params(table, &error))?;
    let filtered = |mmu: &Ns3Dc<Reverie>, in_port, out_port, prio| {
        vec![
            mmu.counters().outside_headroom().into(),
            mmu.policy().filtered_ingress(in_port, prio).into(),
            mmu.policy().filtered_egress(out_port, prio).into(),
        ]
    };
    replay(table, REVERIE_COLUMNS, mmu, |_, row| Err(row.bad("op", "E or D")), filtered)
}

pub(super) fn replay_abm(folder: &Folder, table: &Table) -> Result<FileReport, GoldenError> {
    let window = AbmParams { window_ns: 25_000.0, port_bps: vec![25e9; 8] };
    let mmu = published(2_048, 0.5, |params| Ns3Dc::abm(params, window));
    let mmu = mmu.map_err(|error| folder.bad_params(table, &error))?;
    let tick = |mmu: &mut Ns3Dc<_>, _: &Row<'_>| {
        mmu.tick();
        Ok(())
    };
    replay(table, COLUMNS, mmu, tick, |_, _, _, _| Vec::new())
}

/// The switch both further policies were logged on: 8 ports, 4 MiB, priorities 1 to 3 lossy.
fn published<P>(
    reserve: u64,
    alpha_lossless: f64,
    build: impl FnOnce(DcParams) -> Result<Ns3Dc<P>, DcParamsError>,
) -> Result<Ns3Dc<P>, DcParamsError> {
    const PORTS: usize = 8;
    const LOSSY_MASK: u8 = 0x0e;
    fn by_type<T: Copy>(lossless: T, lossy: T) -> PerQueue<T> {
        let of = |prio: usize| if LOSSY_MASK >> prio & 1 == 1 { lossy } else { lossless };
        vec![std::array::from_fn::<T, PRIORITIES, _>(of); PORTS]
    }
    build(DcParams {
        buffer: 4_194_304,
        ingress_pool: 3_145_728,
        egress_lossless_pool: 4_194_304,
        egress_lossy_pool: 2_097_152,
        xoff: by_type(12_500, 0),
        reserve: by_type(reserve, reserve),
        alpha_ingress: by_type(alpha_lossless, 1.0),
        alpha_egress: by_type(1000.0, 0.5),
        xon: 1_248,
        xon_offset: 2_496,
        lossy_mask: LOSSY_MASK,
    })
}

/// Replays a table. `tick` acts on `T` rows, `further` fills the columns only one policy has.
fn replay<P: Policy>(
    table: &Table,
    columns: &'static [&'static str],
    mut mmu: Ns3Dc<P>,
    tick: impl Fn(&mut Ns3Dc<P>, &Row<'_>) -> Result<(), GoldenError>,
    further: impl Fn(&Ns3Dc<P>, usize, usize, usize) -> Vec<Got>,
) -> Result<FileReport, GoldenError> {
    let ports = mmu.counters().params().xoff.len();
    let mut held = Held::new(ports);
    let mut tally = Tally::new(&table.name);
    let mut rows = Rows::open(table, columns)?;
    while let Some(row) = rows.next()? {
        if row.text("op") == "T" {
            tick(&mut mmu, &row)?;
            tally.row(&row, &vec![Got::Uint(0); columns.len() - 1]);
            continue;
        }
        let op = Op::read(&row, ports)?;
        let (mut passed, mut pauses, mut resumes, mut popped) = (BOTH_PASSED, false, false, None);
        if op.enqueue {
            let verdict = mmu.admit(op.in_port, op.prio, op.out_port, op.bytes);
            passed = sides_passed(verdict);
            pauses = verdict == Verdict::StoredPause;
            if passed == BOTH_PASSED {
                held.push(&op);
            }
        } else {
            popped = held.pop(&op);
            if let Some((in_port, bytes)) = popped {
                resumes = mmu.release(in_port, op.prio, op.out_port, bytes);
            }
        }
        let (port, prio) = (popped.map_or(op.in_port, |(in_port, _)| in_port), op.prio);
        let counters = mmu.counters();
        let lossy = counters.lossy(prio);
        let [came_in, size] = identity(&op, popped);
        let mut got = vec![
            came_in,
            Got::Uint(op.out_port as u64 + 1),
            Got::Uint(prio as u64),
            lossy.into(),
            size,
            Got::Uint(passed),
            counters.used(port, prio).into(),
            counters.headroom(port, prio).into(),
            counters.egress(op.out_port, prio).into(),
            counters.total().into(),
            counters.headroom_total().into(),
            counters.egress_pool(lossy).into(),
            counters.reserve_used().into(),
        ];
        got.extend(further(&mmu, port, op.out_port, prio));
        got.extend([
            mmu.ingress_threshold(port, prio).into(),
            mmu.egress_threshold(op.out_port, prio).into(),
            // The predicates as they stood before the operation acted on them.
            (pauses || mmu.pause_due(port, prio)).into(),
            resumes.into(),
            counters.paused(port, prio).into(),
        ]);
        tally.row(&row, &got);
    }
    Ok(tally.finish())
}

const BOTH_PASSED: u64 = 3;

/// The `adm` column: bit 0 the ingress side passed, bit 1 the egress side, which is asked second.
fn sides_passed(verdict: Verdict) -> u64 {
    match verdict {
        Verdict::RefusedIngress => 0,
        Verdict::RefusedEgress => 1,
        Verdict::Stored | Verdict::StoredPause => BOTH_PASSED,
    }
}
