//! A run laid beside the rows of the data set.

use std::collections::HashMap;
use std::path::Path;

use serde_json::{Map, Value};

use super::super::folder::{self, Folder, Table};
use super::super::table::Rows;
use super::super::{FileReport, GoldenError, Mismatch};
use super::dialect::{Dialect, SENDER_TABLES};
use super::spec::{Described, Scenario};
use super::tables::Run;

/// The description file of a folder of scenarios.
pub(super) const DESCRIPTION: &str = "scenarios.json";

/// The rows of one table by scenario, the name left out.
type ByScenario = HashMap<String, Vec<Vec<String>>>;

/// The whole folder in memory.
#[derive(Debug)]
pub struct DataSet {
    dir: std::path::PathBuf,
    described: Described,
    dialect: &'static Dialect,
    tables: HashMap<&'static str, ByScenario>,
}

impl DataSet {
    /// Reads a folder of scenarios.
    ///
    /// # Errors
    /// When a file is missing or damaged, or a table is not one of these data sets.
    pub fn read(dir: &Path) -> Result<Self, GoldenError> {
        let folders = folder::all_below(dir)?;
        let folder = folders.iter().find(|folder| folder.path == dir);
        Self::from_folder(
            folder.ok_or_else(|| GoldenError::Nothing { dir: dir.into(), known: DESCRIPTION.into() })?,
        )
    }

    pub(super) fn from_folder(folder: &Folder) -> Result<Self, GoldenError> {
        let path = folder.path.join(DESCRIPTION);
        let text = std::fs::read(&path).map_err(|error| GoldenError::Io { path: path.clone(), error })?;
        let described = serde_json::from_slice(&text).map_err(|error| GoldenError::Description {
            file: path,
            entry: String::new(),
            what: error.to_string(),
        })?;
        let dialect = Dialect::of(folder.tables.iter().map(|table| table.name.as_str()));
        let mut tables = HashMap::new();
        for table in &folder.tables {
            let known = dialect.tables.iter().find(|(name, _)| *name == table.name);
            let &(name, columns) = known.ok_or_else(|| GoldenError::Unknown {
                file: table.path.clone(),
                known: dialect.tables.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", "),
            })?;
            tables.insert(name, read_table(table, columns)?);
        }
        Ok(Self { dir: folder.path.clone(), described, dialect, tables })
    }

    /// The description of the scenarios.
    pub fn described(&self) -> &Described {
        &self.described
    }

    /// One scenario, ready to be run.
    ///
    /// # Errors
    /// When its entry is not what the profile needs.
    pub fn scenario(&self, name: &str) -> Result<Scenario, GoldenError> {
        let scenario = self.described.scenario(name).map_err(|what| self.bad_entry(name, &what))?;
        let sampler = scenario.sampler.filter(|_| self.tables.contains_key("qdepth_1us"));
        Ok(Scenario { sampler, ..scenario })
    }

    /// The error for an entry of the description.
    pub(super) fn bad_entry(&self, name: &str, what: &impl ToString) -> GoldenError {
        GoldenError::Description {
            file: self.dir.join(DESCRIPTION),
            entry: name.to_owned(),
            what: what.to_string(),
        }
    }

    /// The logged rows of a scenario, the name left out; nothing for an unknown table.
    pub fn rows(&self, table: &str, scenario: &str) -> &[Vec<String>] {
        self.tables.get(table).and_then(|t| t.get(scenario)).map_or(&[], Vec::as_slice)
    }

    /// One column of the logged rows of a scenario, as whole numbers.
    ///
    /// # Errors
    /// When a cell is no whole number.
    pub(super) fn column(&self, table: &str, scenario: &str, column: &str) -> Result<Vec<u64>, GoldenError> {
        let place = self.dialect.columns(table).iter().position(|c| *c == column);
        let cell = |row: &Vec<String>| place.and_then(|i| row.get(i)).and_then(|cell| cell.parse().ok());
        let numbers = self.rows(table, scenario).iter().map(cell).collect::<Option<_>>();
        numbers.ok_or_else(|| self.bad_entry(scenario, &format!("table {table} has no numbers in {column}")))
    }

    /// Replays one scenario that has no random draw: one report per table, and two for the maxima in the
    /// description.
    ///
    /// # Errors
    /// When the run cannot be built.
    pub fn replay(&self, scenario: &Scenario) -> Result<Vec<FileReport>, GoldenError> {
        let run = self.run(scenario, scenario.config.seed)?;
        let mut reports = vec![
            self.compare("fct", scenario, &run.completions()),
            self.compare("pfc_events", scenario, &run.pfc_events()),
            self.compare("qdepth_1us", scenario, run.depths()),
            self.compare("summary", scenario, &[self.summary_row(scenario, &run)]),
            maxima("switch_stats", scenario, &scenario.switch_stats, |entry, key| {
                run.switch_stat(entry, key)
            }),
            maxima("port_queue_stats", scenario, &scenario.queue_stats, |e, key| run.queue_stat(e, key)),
        ];
        // Without rate control there are no rate events; the table has them for every exact run with it.
        if !self.rows("rate_events", &scenario.name).is_empty() {
            reports.push(self.compare("rate_events", scenario, run.rate_events()));
        }
        if self.tables.contains_key("digests") {
            reports.extend(self.replay_acks(scenario, &run));
        }
        reports.retain(|report| report.total > 0);
        Ok(reports)
    }

    /// A run of a scenario with a seed for the marking coin.
    pub(super) fn run<'a>(&self, scenario: &'a Scenario, seed: u64) -> Result<Run<'a>, GoldenError> {
        Run::new(self.dialect, scenario, seed).map_err(|e| self.bad_entry(&scenario.name, &e))
    }

    /// What only senders driven by acknowledgements have.
    fn replay_acks(&self, scenario: &Scenario, run: &Run<'_>) -> Vec<FileReport> {
        let name = &scenario.name;
        let logged = scenario.largest.map(|n| n.map_or_else(String::new, |n| n.to_string()));
        let ours = run.largest().map(|n| n.to_string());
        let mut reports = vec![
            self.compare("digests", scenario, &run.acks().digests()),
            self.compare("drops_nacks", scenario, run.losses()),
            compare("largest", scenario, &["max_rtt_ns", "max_bdp_B"], &[logged.to_vec()], &[ours.to_vec()]),
        ];
        // Rows of a scenario are in the tables whole, or without the updates between windows, or not at all.
        for table in SENDER_TABLES {
            let logged = self.rows(table, name);
            if logged.is_empty() {
                continue;
            }
            let place = self.dialect.columns(table).iter().position(|column| *column == "kind");
            let between = logged.iter().any(|row| place.is_none_or(|at| row[at] == "2"));
            let ours = run.acks().rows_of(if between { &[0, 1, 2] } else { &[0, 1] });
            reports.push(self.compare(table, scenario, &ours));
        }
        if !self.rows("hpcc_updates", name).is_empty() {
            reports.push(self.compare("hpcc_updates", scenario, &run.acks().updates));
        }
        reports
    }

    /// The run's summary; cells it has nothing to say about are taken over.
    fn summary_row(&self, scenario: &Scenario, run: &Run<'_>) -> Vec<String> {
        let logged = self.rows("summary", &scenario.name).first();
        let cell = |(i, column): (usize, &&str)| {
            run.summary(column).or_else(|| logged?.get(i).cloned()).unwrap_or_default()
        };
        self.dialect.columns("summary").iter().enumerate().map(cell).collect()
    }

    fn compare(&self, table: &str, scenario: &Scenario, got: &[Vec<String>]) -> FileReport {
        compare(table, scenario, self.dialect.columns(table), self.rows(table, &scenario.name), got)
    }
}

fn read_table(table: &Table, columns: &'static [&'static str]) -> Result<ByScenario, GoldenError> {
    let mut rows = Rows::open(table, columns)?;
    let mut by_scenario = ByScenario::new();
    while let Some(row) = rows.next()? {
        let cells = row.cells.iter().skip(1).map(str::to_owned).collect();
        by_scenario.entry(row.text("scenario").to_owned()).or_default().push(cells);
    }
    Ok(by_scenario)
}

/// Equal text, or the same double.
fn agrees(logged: &str, ours: &str) -> bool {
    let real = |text: &str| text.parse::<f64>().ok().map(f64::to_bits);
    if logged == ours || (real(logged).is_some() && real(logged) == real(ours)) {
        return true;
    }
    // A list of numbers: records of hops.
    let parts = |text: &str| text.split([' ', ':']).map(real).collect::<Option<Vec<_>>>();
    logged.contains(':') && parts(logged).is_some_and(|p| parts(ours) == Some(p))
}

fn compare<C: AsRef<str>>(
    table: &str,
    scenario: &Scenario,
    columns: &[C],
    logged: &[Vec<String>],
    got: &[Vec<String>],
) -> FileReport {
    let total = logged.len().max(got.len());
    let name = format!("{table}/{}", scenario.name);
    let mut report = FileReport { name, matched: 0, total: total as u64, first_mismatch: None };
    for i in 0..total {
        let (expected, ours) = (logged.get(i), got.get(i));
        let wrong = match (expected, ours) {
            (Some(e), Some(o)) if e.len() == o.len() => e.iter().zip(o).position(|(e, o)| !agrees(e, o)),
            _ => Some(0),
        };
        let Some(column) = wrong else {
            report.matched += 1;
            continue;
        };
        let cell = |row: Option<&Vec<String>>| {
            row.and_then(|row| row.get(column)).map_or("no further row", String::as_str).to_owned()
        };
        let whole = |row: Option<&Vec<String>>| row.map_or_else(String::new, |row| row.join(","));
        report.first_mismatch.get_or_insert_with(|| Mismatch {
            row: i as u64 + 1,
            column: columns.get(column).map_or_else(String::new, |c| c.as_ref().to_owned()),
            expected: cell(expected),
            got: cell(ours),
            expected_row: whole(expected),
            got_row: whole(ours),
        });
    }
    report
}

/// Compares the entries of a list of the description, key by key.
fn maxima(
    table: &str,
    scenario: &Scenario,
    entries: &[Map<String, Value>],
    ours: impl Fn(&Map<String, Value>, &str) -> Option<u64>,
) -> FileReport {
    let columns: Vec<&String> = entries.first().map_or_else(Vec::new, |entry| entry.keys().collect());
    let logged: Vec<Vec<String>> =
        entries.iter().map(|entry| entry.values().map(ToString::to_string).collect()).collect();
    let row = |entry: &Map<String, Value>| {
        let cell = |(key, v): (&String, &Value)| ours(entry, key).map_or(v.to_string(), |n| n.to_string());
        entry.iter().map(cell).collect()
    };
    let got: Vec<Vec<String>> = entries.iter().map(row).collect();
    compare(table, scenario, &columns, &logged, &got)
}
