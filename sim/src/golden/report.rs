//! What a replay found.

use std::fmt;

use super::table::Row;

/// The result of one table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileReport {
    /// Name of the table without its ending.
    pub name: String,
    /// Rows that agree in every column.
    pub matched: u64,
    /// Rows compared: those of the table, and one more when the model goes on after its end.
    pub total: u64,
    /// The first row that differs.
    pub first_mismatch: Option<Mismatch>,
}

/// A row that differs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mismatch {
    /// Number of the row from 1, the header not counted.
    pub row: u64,
    /// First column of the row that differs.
    pub column: String,
    /// The cell of the table.
    pub expected: String,
    /// What weir's model has there.
    pub got: String,
    /// The whole row of the table.
    pub expected_row: String,
    /// The whole row of weir's model; operands as in the table.
    pub got_row: String,
}

impl FileReport {
    /// Whether every row agrees.
    pub fn is_match(&self) -> bool {
        self.matched == self.total
    }
}

impl fmt::Display for FileReport {
    /// `NAME matched/total rows`, and below it the first row that differs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}/{} rows", self.name, self.matched, self.total)?;
        self.first_mismatch.as_ref().map_or(Ok(()), |mismatch| write!(f, "\n{mismatch}"))
    }
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { row, column, expected, got, expected_row, got_row } = self;
        writeln!(f, "  row {row}, column {column}: expected {expected}, got {got}")?;
        writeln!(f, "    expected {expected_row}")?;
        write!(f, "    got      {got_row}")
    }
}

/// What the model has for a cell.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Got {
    Uint(u64),
    /// Compared bit by bit with the double the cell denotes.
    Real(f64),
    Text(&'static str),
    /// The cell need not be met exactly: the caller has judged it.
    Judged {
        agrees: bool,
        shown: String,
    },
}

impl Got {
    fn agrees(&self, cell: &str) -> bool {
        match self {
            Self::Uint(n) => cell.parse() == Ok(*n),
            Self::Real(x) => cell.parse().is_ok_and(|cell: f64| cell.to_bits() == x.to_bits()),
            Self::Text(text) => cell == *text,
            Self::Judged { agrees, .. } => *agrees,
        }
    }
}

impl fmt::Display for Got {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Uint(n) => write!(f, "{n}"),
            Self::Real(x) => write!(f, "{x}"),
            Self::Text(text) => f.write_str(text),
            Self::Judged { shown, .. } => f.write_str(shown),
        }
    }
}

impl From<bool> for Got {
    fn from(flag: bool) -> Self {
        Self::Uint(flag.into())
    }
}

impl From<u32> for Got {
    fn from(n: u32) -> Self {
        Self::Uint(n.into())
    }
}

impl From<u64> for Got {
    fn from(n: u64) -> Self {
        Self::Uint(n)
    }
}

/// Counts rows and keeps the first that differs.
#[derive(Debug)]
pub(super) struct Tally(FileReport);

impl Tally {
    pub(super) fn new(name: &str) -> Self {
        Self(FileReport { name: name.to_owned(), matched: 0, total: 0, first_mismatch: None })
    }

    /// Compares a row with what the model has, given as the row's last columns in their order;
    /// the columns before them are operands and agree by definition.
    pub(super) fn row(&mut self, row: &Row<'_>, got: &[Got]) {
        debug_assert!(got.len() <= row.columns.len());
        self.0.total += 1;
        let operands = row.columns.len() - got.len();
        let cells = row.cells.iter().skip(operands);
        let Some(wrong) = cells.zip(got).position(|(cell, got)| !got.agrees(cell)) else {
            self.0.matched += 1;
            return;
        };
        self.0.first_mismatch.get_or_insert_with(|| {
            let column = operands + wrong;
            let shown = got.iter().map(ToString::to_string);
            let got_row: Vec<_> = row.cells.iter().take(operands).map(str::to_owned).chain(shown).collect();
            Mismatch {
                row: row.number,
                column: row.columns[column].to_owned(),
                expected: row.cells[column].to_owned(),
                got: got_row[column].clone(),
                expected_row: row.cells.iter().collect::<Vec<_>>().join(","),
                got_row: got_row.join(","),
            }
        });
    }

    /// The model has a further row where the table ends.
    pub(super) fn left_over(&mut self, got_row: String) {
        self.0.total += 1;
        let row = self.0.total;
        self.0.first_mismatch.get_or_insert_with(|| Mismatch {
            row,
            column: "all".to_owned(),
            expected: "the end of the table".to_owned(),
            got: "a further row".to_owned(),
            expected_row: String::new(),
            got_row,
        });
    }

    pub(super) fn finish(self) -> FileReport {
        self.0
    }
}
