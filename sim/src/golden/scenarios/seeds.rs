//! Scenarios with the marking coin: our seeds beside the ten logged ones.
//!
//! The two generators differ, so no single run can agree. The rule: for every judged column the median
//! of [`OUR_SEEDS`] runs lies within the range of the logged ten. For equal distributions the ten miss
//! the middle of the distribution on one side once in five hundred columns. Where the logged ones are
//! all the same, so is our median. (The completion time of the last flow has a long tail when a late
//! mark hits a flow; the median does not follow it, a mean would.)
use super::super::{FileReport, GoldenError, Mismatch};
use super::replay::DataSet;
use super::spec::Scenario;

/// Columns of `seeds` that are judged, and the columns of `summary` that hold the same.
const JUDGED: [(&str, &str); 6] = [
    ("fct_mean_ns", "fct_mean_ns"),
    ("fct_max_ns", "fct_max_ns"),
    ("ecn_marked", "ecn_marked_frames"),
    ("pauses", "pauses_sent"),
    ("drops", "drops"),
    ("max_egress_B", "max_egress_queue_B"),
];

/// Our runs of a scenario: seeds 1 to this, an odd number.
pub const OUR_SEEDS: u64 = 31;

/// One judged column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spread {
    /// Name of the column in `seeds`.
    pub column: &'static str,
    /// Logged values, sorted.
    pub logged: Vec<u64>,
    /// Our values, sorted.
    pub ours: Vec<u64>,
}

impl Spread {
    /// The middle one of our values, if every seed has one.
    fn median(&self) -> Option<u64> {
        let complete = self.ours.len() as u64 == OUR_SEEDS;
        self.ours.get(self.ours.len() / 2).copied().filter(|_| complete)
    }

    /// The rule above.
    pub fn agrees(&self) -> bool {
        match (&self.logged[..], self.median()) {
            ([low, .., high], Some(median)) => (low..=high).contains(&&median),
            _ => false,
        }
    }
}

/// Runs the scenario with [`OUR_SEEDS`] seeds.
///
/// # Errors
/// When the run cannot be built or a logged cell is no number.
pub fn compare(set: &DataSet, scenario: &Scenario) -> Result<Vec<Spread>, GoldenError> {
    let mut spreads = Vec::new();
    for (column, _) in JUDGED {
        let mut logged = set.column("seeds", &scenario.name, column)?;
        logged.sort_unstable();
        spreads.push(Spread { column, logged, ours: Vec::new() });
    }
    for seed in 1..=OUR_SEEDS {
        let run = set.run(scenario, seed)?;
        for (spread, (_, summary)) in spreads.iter_mut().zip(JUDGED) {
            // A run in which no flow completes has no times; it then has one value too few to agree.
            spread.ours.extend(run.summary(summary).and_then(|text| text.parse::<u64>().ok()));
        }
    }
    spreads.iter_mut().for_each(|spread| spread.ours.sort_unstable());
    Ok(spreads)
}

/// The same as a report: one row per judged column.
pub(super) fn replay(set: &DataSet, scenario: &Scenario) -> Result<Vec<FileReport>, GoldenError> {
    let spreads = compare(set, scenario)?;
    let wrong = spreads.iter().enumerate().find(|(_, spread)| !spread.agrees());
    let range = |v: &[u64]| format!("{:?} to {:?}", v.first(), v.last());
    let first_mismatch = wrong.map(|(row, spread)| Mismatch {
        row: row as u64 + 1,
        column: spread.column.to_owned(),
        expected: format!("a median from {}", range(&spread.logged)),
        got: format!("{:?}", spread.median()),
        expected_row: format!("{:?}", spread.logged),
        got_row: format!("{:?}", spread.ours),
    });
    Ok(vec![FileReport {
        name: format!("seeds/{}", scenario.name),
        matched: spreads.iter().filter(|spread| spread.agrees()).count() as u64,
        total: spreads.len() as u64,
        first_mismatch,
    }])
}
