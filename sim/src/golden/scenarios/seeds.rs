//! Scenarios with the marking coin: our seeds beside the ten logged ones.
//!
//! The two generators differ, so no single run can agree. The rule: for every judged column the median
//! of [`OUR_SEEDS`] runs lies within the range of the logged ten. For equal distributions the ten miss
//! the middle of the distribution on one side once in five hundred columns. Where the logged ones are
//! all the same, so is our median. (The completion time of the last flow has a long tail when a late
//! mark hits a flow; the median does not follow it, a mean would.)
use super::replay::DataSet;
use super::spec::Scenario;
use super::tables::Run;

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
    /// The rule above.
    pub fn agrees(&self) -> bool {
        match (&self.logged[..], self.ours.get(self.ours.len() / 2)) {
            ([low, .., high], Some(median)) => (low..=high).contains(&median),
            _ => false,
        }
    }
}

/// Runs the scenario with [`OUR_SEEDS`] seeds.
///
/// # Errors
/// When the run cannot be built or a logged cell is no number.
pub fn compare(set: &DataSet, scenario: &Scenario) -> Result<Vec<Spread>, String> {
    let logged = set.rows("seeds", &scenario.name);
    let columns = set.columns("seeds");
    let mut spreads: Vec<Spread> =
        JUDGED.map(|(column, _)| Spread { column, logged: Vec::new(), ours: Vec::new() }).into();
    for (row, cells) in logged.iter().enumerate() {
        for (spread, (column, _)) in spreads.iter_mut().zip(JUDGED) {
            let cell = columns.iter().position(|c| c == column).and_then(|i| cells.get(i)?.parse().ok());
            spread.logged.push(cell.ok_or_else(|| format!("seeds row {}: {column} is no number", row + 1))?);
        }
    }
    for seed in 1..=OUR_SEEDS {
        let run = Run::new(scenario, seed).map_err(|e| e.to_string())?;
        for (spread, (_, summary)) in spreads.iter_mut().zip(JUDGED) {
            let ours = run.summary(summary).and_then(|text| text.parse().ok());
            spread.ours.push(ours.ok_or_else(|| format!("seed {seed}: no {summary}"))?);
        }
    }
    for spread in &mut spreads {
        spread.logged.sort_unstable();
        spread.ours.sort_unstable();
    }
    Ok(spreads)
}
