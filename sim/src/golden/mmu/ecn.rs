//! Replay of `hpcc_ecn_mark_freq`: how often the original marked at given depths.
//!
//! A row matches when the law's probability is the table's to its eight decimals, and the number of
//! marks the original drew lies within four standard deviations of that probability (exactly on it
//! where the law needs no draw). No draw is made here, so the verdict cannot depend on a seed.

use crate::models::hpcc::{HpccEcn, MarkLaw};

use super::super::report::{Got, Tally};
use super::super::table::Rows;
use super::{FileReport, GoldenError, Table};

pub(super) const NAME: &str = "hpcc_ecn_mark_freq";

const COLUMNS: &[&str] = &["kmin", "kmax", "pmax", "egress_bytes", "p_formula", "marked", "draws"];

/// Standard deviations a count may be off; a right law fails one row in 16,000.
const SIGMAS: f64 = 4.0;

pub(super) fn replay(table: &Table) -> Result<FileReport, GoldenError> {
    let mut tally = Tally::new(&table.name);
    let mut rows = Rows::open(table, COLUMNS)?;
    while let Some(row) = rows.next()? {
        let bytes = |column| row.uint(column, 0, u32::MAX.into()).map(|n| n as u32);
        let ecn = HpccEcn { kmin: bytes("kmin")?, kmax: bytes("kmax")?, pmax: row.real("pmax")? };
        let depth = bytes("egress_bytes")?;
        let marked = row.real("marked")?;
        let draws = bytes("draws")?;

        let p = match ecn.law(depth) {
            MarkLaw::Never => 0.0,
            MarkLaw::Below(p) => p.clamp(0.0, 1.0),
            MarkLaw::Always => 1.0,
        };
        let mean = f64::from(draws) * p;
        let slack = SIGMAS * (mean * (1.0 - p)).sqrt();
        let formula = format!("{p:.8}");
        let got = [
            Got::Judged { agrees: row.text("p_formula") == formula, shown: formula },
            Got::Judged {
                agrees: (marked - mean).abs() <= slack,
                shown: format!("{mean:.0} within {slack:.0}"),
            },
            draws.into(),
        ];
        tally.row(&row, &got);
    }
    Ok(tally.finish())
}
