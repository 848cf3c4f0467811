//! Results beside one another: figures, the difference of each to the first, and a page of their distributions.
//!
//! What is compared are settings (`side.rs`): the run of a report, or the points of a sweep that differ in `seed` alone. Where
//! two settings have two seeds or more in common, their difference is that of the runs with one seed each, in the mean,
//! with its 95 % confidence interval (`difference.rs`); else that of the means, without one. Where a run has no such figure, none
//! is given.

mod course;
mod difference;
mod figures;
mod page;
mod side;

use crate::sweep::SweepError;
use serde_json::{Value, json};
use side::Side;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use weir_layout::Grid;
use weir_layout::counted;

/// Settings that are compared at most: a page has so many colours.
const MOST: usize = 16;

/// Settings and what they came to.
#[derive(Clone, Debug)]
pub struct Comparison {
    sides: Vec<Side>,
}

/// Why nothing is compared.
#[derive(Debug, thiserror::Error)]
pub enum CompareError {
    /// A file that cannot be read.
    #[error("cannot read {}: {error}", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        error: std::io::Error,
    },
    /// A folder with no results in it.
    #[error(
        "{}: neither report.json nor plan.json is in it; give a folder that `weir sim FILE --out DIR` or `weir sim sweep` \
         has written", .0.display()
    )]
    Nothing(PathBuf),
    /// A file that is no report.
    #[error(
        "{}: no report of `weir sim`: {problem}; give a report.json that `weir sim FILE --out DIR` has written",
        path.display()
    )]
    NoReport {
        /// Which.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// A report of another version.
    #[error("{}: layout {got} of reports, and this weir reads {}: play it again", path.display(), crate::fabric::SCHEMA)]
    Layout {
        /// Which.
        path: PathBuf,
        /// Its layout.
        got: u32,
    },
    /// A sweep of which no point has a result.
    #[error("{}: no point of this sweep has a result{}", path.display(), match refused {
        None => "; play it with `weir sim sweep`".to_owned(),
        Some(why) => format!(": {why}; mend that, and play it with `weir sim sweep` into another folder"),
    })]
    Empty {
        /// Its folder.
        path: PathBuf,
        /// Points that were played and refused, and the reason of the first.
        refused: Option<String>,
    },
    /// A folder of a sweep that cannot be used.
    #[error(transparent)]
    Sweep(#[from] SweepError),
    /// Too few or too many to compare.
    #[error("{}, and 2 to {MOST} can be compared: {}{}", counted(*count, "setting"), match count {
        0 | 1 => "give more folders, or sweeps with more values (those of the axis `seed` are runs of one setting)",
        _ => "give fewer folders, or sweeps with fewer values (those of the axis `seed` are runs of one setting)",
    }, left_out.iter().map(|what| format!("; {what}")).collect::<String>())]
    Count {
        /// Settings.
        count: usize,
        /// Points of sweeps without a result, in words.
        left_out: Vec<String>,
    },
}

/// The results in these folders and files beside one another.
///
/// # Errors
/// What cannot be read, is no result, or too few or too many of them.
pub fn compare(paths: &[PathBuf]) -> Result<Comparison, CompareError> {
    let mut sides = Vec::new();
    for path in paths {
        sides.append(&mut side::read(path)?);
    }
    if !(2..=MOST).contains(&sides.len()) {
        let left_out = sides.iter().filter_map(|side| side.left_out.clone()).collect();
        return Err(CompareError::Count { count: sides.len(), left_out });
    }
    Ok(Comparison { sides })
}

/// A, B, C: settings have long names.
fn letter(index: usize) -> char {
    (b'A' + index as u8) as char
}

impl Comparison {
    /// A line for each setting.
    fn legend(&self) -> Vec<String> {
        let line = |(i, side): (usize, &Side)| format!("{}  {}: {}", letter(i), side.name, side.seeds());
        self.sides.iter().enumerate().map(line).collect()
    }

    /// What a reader of the figures has to know.
    fn notes(&self) -> Vec<String> {
        let lettered = || self.sides.iter().enumerate().map(|(i, side)| (letter(i), side));
        let (first, mut notes) = (&self.sides[0], Vec::new());
        for (letter, side) in lettered().skip(1) {
            if side.neighbours != first.neighbours {
                let (a, b) = (first.size(), side.size());
                notes.push(format!("the topology of {letter} is not that of A: {b}; of A: {a}"));
            }
            let common = first.pairs(side).count();
            if common >= 2 {
                notes.push(format!(
                    "{letter} to A: mean difference of {common} pairs of runs with one seed each, and its 95 % confidence \
                     interval (Student's t)"
                ));
            } else if first.runs.len().max(side.runs.len()) > 1 {
                notes.push(format!(
                    "{letter} to A: fewer than two seeds in common, so the means are compared"
                ));
            }
        }
        for (letter, side) in lettered() {
            if side.has_flow_level() {
                notes.push(format!("{letter}: flow level, which has no frames, queues, marks and pauses"));
            }
            notes.extend(side.left_out.iter().map(|why| format!("{letter}: {why}")));
            let lacking: BTreeSet<u64> =
                figures::of(&self.sides).iter().flat_map(|figure| side.lacks(figure)).collect();
            notes.extend(Self::lacking(&lacking).map(|seeds| {
                format!(
                    "{letter}: {seeds} lacks figures that other runs have, as something did not end: means with a count are of \
                     the others, which are the faster ones, and no difference is given"
                )
            }));
            let failed = side.runs.iter().filter(|(_, run)| !run.findings.is_empty());
            notes.extend(
                failed.map(|(seed, run)| {
                    format!("{letter}: FAIL with seed {seed}: {}", run.findings.join("; "))
                }),
            );
        }
        notes
    }

    /// Seeds in words; `None`: there are none.
    fn lacking(seeds: &BTreeSet<u64>) -> Option<String> {
        let count = seeds.len();
        let first: Vec<String> = seeds.iter().take(4).map(u64::to_string).collect();
        let more =
            if count > first.len() { format!(" and {} more", count - first.len()) } else { String::new() };
        (count > 0).then(|| format!("seed {}{more}", first.join(", ")))
    }

    /// Figures as texts: the name with its unit, the mean of the first setting, then mean and difference of each other one.
    fn rows(&self) -> Vec<Vec<String>> {
        let row = |figure: &figures::Figure| {
            let of = |side: &Side| {
                let (text, runs) = (figure.text(side.mean(figure)), side.runs.len());
                match side.lacks(figure).len() {
                    0 => text,
                    lack => format!("{text} ({} of {runs})", runs - lack),
                }
            };
            let first = &self.sides[0];
            let others = self.sides[1..].iter().flat_map(|side| {
                let difference = difference::between(first, side, figure);
                [of(side), difference.map_or_else(|| "-".into(), |d| d.to_string())]
            });
            [figure.name.clone(), of(first)].into_iter().chain(others).collect()
        };
        figures::of(&self.sides).iter().map(row).collect()
    }

    /// Names of the columns of `rows`.
    fn heads(&self) -> Vec<String> {
        let others =
            (1..self.sides.len()).flat_map(|i| [letter(i).to_string(), format!("{} to A", letter(i))]);
        ["".into(), "A".into()].into_iter().chain(others).collect()
    }

    /// The same as a document: settings, notes, and of each figure the mean of every setting and its difference to the first,
    /// in percent, with half the width of its 95 % confidence interval.
    pub fn json(&self) -> Value {
        let setting = |side: &Side| json!({ "name": side.name, "runs": side.seeds() });
        let figure = |figure: &figures::Figure| {
            let first = &self.sides[0];
            let of = |side: &Side| {
                let to_first =
                    difference::between(first, side, figure).filter(|_| !std::ptr::eq(first, side));
                json!({
                    "mean": side.mean(figure),
                    "runs": side.runs.values().filter(|run| figure.of(&run.figures).is_some()).count(),
                    "difference_percent": to_first.map(|d| d.percent),
                    "difference_half_percent": to_first.and_then(|d| d.half),
                })
            };
            json!({ "name": figure.name, "settings": self.sides.iter().map(of).collect::<Vec<_>>() })
        };
        json!({
            "settings": self.sides.iter().map(setting).collect::<Vec<_>>(),
            "notes": self.notes(),
            "figures": figures::of(&self.sides).iter().map(figure).collect::<Vec<_>>(),
        })
    }

    /// Settings, notes and the table for a terminal.
    pub fn text(&self) -> String {
        let mut grid = Grid::of(self.heads().into_iter().enumerate().map(|(i, head)| (head, i == 0)));
        self.rows().into_iter().for_each(|row| grid.push(row));
        let notes = self.notes().into_iter().map(|note| format!("   {note}"));
        let lines: Vec<String> = self.legend().into_iter().chain(notes).collect();
        format!("{}\n{}", lines.join("\n"), grid.text().trim_end())
    }
}

/// The folder or file a result is in, as a reader calls it.
fn name_of(path: &Path) -> String {
    path.display().to_string()
}

#[cfg(test)]
mod tests;
