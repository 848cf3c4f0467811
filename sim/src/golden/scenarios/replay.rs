//! A run laid beside the rows of the data set.
use std::collections::HashMap;
use std::fs::File;
use std::io::Read;
use std::path::Path;

use flate2::read::MultiGzDecoder;
use serde_json::{Map, Value};

use super::spec::{Described, Scenario};
use super::tables::Run;

/// How one table agrees for one scenario.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Table and scenario, as `pfc_events/incast8_pfc_b4`.
    pub name: String,
    /// Rows that agree in every cell that is judged.
    pub matched: u64,
    /// Rows of the data set, or of the run if it has more.
    pub total: u64,
    /// The first row that differs, both sides.
    pub first_mismatch: Option<Difference>,
}

/// A row that differs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// Number of the row within table and scenario, from 1.
    pub row: u64,
    /// First column that differs.
    pub column: String,
    /// Row of the data set, or nothing when it has ended.
    pub expected: String,
    /// Row of the run, or nothing when it has ended.
    pub got: String,
}

impl Outcome {
    /// Every row agrees.
    pub fn is_match(&self) -> bool {
        self.matched == self.total && self.first_mismatch.is_none()
    }
}

/// One table, its rows by scenario.
#[derive(Debug)]
struct Table {
    columns: Vec<String>,
    rows: HashMap<String, Vec<Vec<String>>>,
}

/// The whole folder in memory.
#[derive(Debug)]
pub struct DataSet {
    described: Described,
    tables: HashMap<&'static str, Table>,
}

const TABLES: [&str; 6] =
    ["fct.csv", "pfc_events.csv.gz", "qdepth_1us.csv.gz", "rate_events.csv.gz", "seeds.csv", "summary.csv"];

impl DataSet {
    /// Reads a folder.
    ///
    /// # Errors
    /// The file and what is wrong with it, in words.
    pub fn read(dir: &Path) -> Result<Self, String> {
        let path = dir.join("scenarios.json");
        let describe = |what: &dyn std::fmt::Display| format!("{}: {what}", path.display());
        let text = std::fs::read(&path).map_err(|e| describe(&e))?;
        let described = serde_json::from_slice(&text).map_err(|e| describe(&e))?;
        let mut tables = HashMap::new();
        for file in TABLES {
            let path = dir.join(file);
            let table = Table::read(&path).map_err(|what| format!("{}: {what}", path.display()))?;
            tables.insert(file.split('.').next().unwrap_or(file), table);
        }
        Ok(Self { described, tables })
    }

    /// The description of the scenarios.
    pub fn described(&self) -> &Described {
        &self.described
    }

    /// The logged rows of a scenario, the name left out; nothing for an unknown table.
    pub fn rows(&self, table: &str, scenario: &str) -> &[Vec<String>] {
        self.tables.get(table).and_then(|t| t.rows.get(scenario)).map_or(&[], Vec::as_slice)
    }

    /// The columns of a table, the name left out.
    pub fn columns(&self, table: &str) -> &[String] {
        self.tables.get(table).map_or(&[], |t| &t.columns)
    }

    /// Replays one scenario that has no random draw: one outcome per table.
    ///
    /// # Errors
    /// When the run cannot be built.
    pub fn replay(&self, scenario: &Scenario) -> Result<Vec<Outcome>, String> {
        let run = Run::new(scenario, scenario.config.seed).map_err(|e| format!("{}: {e}", scenario.name))?;
        let mut outcomes = vec![
            self.compare("fct", scenario, &run.completions()),
            self.compare("pfc_events", scenario, run.pfc_events()),
            self.compare("qdepth_1us", scenario, run.depths()),
            self.compare("summary", scenario, &[self.summary_row(scenario, &run)]),
            maxima("switch_stats", scenario, &scenario.switch_stats, |entry, key| {
                run.switch_stat(entry, key)
            }),
            maxima("port_queue_stats", scenario, &scenario.queue_stats, |e, key| run.queue_stat(e, key)),
        ];
        if scenario.config.dcqcn.is_some() && !self.rows("rate_events", &scenario.name).is_empty() {
            outcomes.push(self.compare("rate_events", scenario, run.rate_events()));
        }
        Ok(outcomes)
    }

    /// The run's summary; cells it has nothing to say about are taken over.
    fn summary_row(&self, scenario: &Scenario, run: &Run<'_>) -> Vec<String> {
        let logged = self.rows("summary", &scenario.name).first();
        let cell = |(i, column): (usize, &String)| {
            run.summary(column).or_else(|| logged?.get(i).cloned()).unwrap_or_default()
        };
        self.columns("summary").iter().enumerate().map(cell).collect()
    }

    fn compare(&self, table: &str, scenario: &Scenario, got: &[Vec<String>]) -> Outcome {
        compare(table, scenario, self.columns(table), self.rows(table, &scenario.name), got)
    }
}

impl Table {
    fn read(path: &Path) -> Result<Self, String> {
        let file = File::open(path).map_err(|e| e.to_string())?;
        let packed = path.extension().is_some_and(|ending| ending == "gz");
        let bytes: Box<dyn Read> = if packed { Box::new(MultiGzDecoder::new(file)) } else { Box::new(file) };
        let mut reader = csv::Reader::from_reader(bytes);
        let columns =
            reader.headers().map_err(|e| e.to_string())?.iter().skip(1).map(str::to_owned).collect();
        let mut rows: HashMap<String, Vec<Vec<String>>> = HashMap::new();
        for record in reader.records() {
            let record = record.map_err(|e| e.to_string())?;
            let mut cells = record.iter().map(str::to_owned);
            let name = cells.next().unwrap_or_default();
            rows.entry(name).or_default().push(cells.collect());
        }
        Ok(Self { columns, rows })
    }
}

/// Equal text, or the same double.
fn agrees(logged: &str, ours: &str) -> bool {
    let real = |text: &str| text.parse::<f64>().ok().map(f64::to_bits);
    logged == ours || (real(logged).is_some() && real(logged) == real(ours))
}

fn compare(
    table: &str,
    scenario: &Scenario,
    columns: &[String],
    logged: &[Vec<String>],
    got: &[Vec<String>],
) -> Outcome {
    let total = logged.len().max(got.len());
    let mut outcome = Outcome {
        name: format!("{table}/{}", scenario.name),
        matched: 0,
        total: total as u64,
        first_mismatch: None,
    };
    for i in 0..total {
        let (expected, ours) = (logged.get(i), got.get(i));
        let wrong = match (expected, ours) {
            (Some(e), Some(o)) if e.len() == o.len() => e.iter().zip(o).position(|(e, o)| !agrees(e, o)),
            _ => Some(0),
        };
        let Some(column) = wrong else {
            outcome.matched += 1;
            continue;
        };
        let show = |row: Option<&Vec<String>>| row.map(|cells| cells.join(",")).unwrap_or_default();
        outcome.first_mismatch.get_or_insert_with(|| Difference {
            row: i as u64 + 1,
            column: columns.get(column).cloned().unwrap_or_default(),
            expected: show(expected),
            got: show(ours),
        });
    }
    outcome
}

/// Compares the entries of a list of the description, key by key.
fn maxima(
    table: &str,
    scenario: &Scenario,
    entries: &[Map<String, Value>],
    ours: impl Fn(&Map<String, Value>, &str) -> Option<u64>,
) -> Outcome {
    let columns: Vec<String> = entries.first().map_or_else(Vec::new, |e| e.keys().cloned().collect());
    let logged: Vec<Vec<String>> =
        entries.iter().map(|entry| entry.values().map(ToString::to_string).collect()).collect();
    let got: Vec<Vec<String>> = entries
        .iter()
        .map(|entry| {
            let cell =
                |(key, v): (&String, &Value)| ours(entry, key).map_or(v.to_string(), |n| n.to_string());
            entry.iter().map(cell).collect()
        })
        .collect();
    compare(table, scenario, &columns, &logged, &got)
}
