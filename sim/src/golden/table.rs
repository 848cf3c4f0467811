//! Tables read row by row, plain or compressed.

use std::fs::File;
use std::io::Read;
use std::path::PathBuf;

use csv::StringRecord;
use flate2::read::MultiGzDecoder;

use super::GoldenError;
use super::folder::Table;

/// A table whose header has been checked.
pub(super) struct Rows {
    file: PathBuf,
    columns: &'static [&'static str],
    reader: csv::Reader<Box<dyn Read>>,
    record: StringRecord,
    row: u64,
}

/// One row; lives until the next is read.
pub(super) struct Row<'a> {
    file: &'a PathBuf,
    pub(super) columns: &'static [&'static str],
    pub(super) cells: &'a StringRecord,
    /// Number of the row from 1, the header not counted.
    pub(super) number: u64,
}

impl Rows {
    /// Opens a table that must have exactly these columns.
    pub(super) fn open(table: &Table, columns: &'static [&'static str]) -> Result<Self, GoldenError> {
        let file = table.path.clone();
        let open = File::open(&file).map_err(|error| GoldenError::Io { path: file.clone(), error })?;
        let packed = file.extension().is_some_and(|ending| ending == "gz");
        let bytes: Box<dyn Read> = if packed { Box::new(MultiGzDecoder::new(open)) } else { Box::new(open) };
        let mut rows = Self {
            file,
            columns,
            reader: csv::Reader::from_reader(bytes),
            record: StringRecord::new(),
            row: 0,
        };
        rows.check_header()?;
        Ok(rows)
    }

    fn check_header(&mut self) -> Result<(), GoldenError> {
        let header = match self.reader.headers() {
            Ok(header) => header.clone(),
            Err(error) => return Err(self.damaged(0, &error)),
        };
        let longest = header.len().max(self.columns.len());
        for position in 0..longest {
            let (wanted, found) = (self.columns.get(position), header.get(position));
            if wanted.copied() != found {
                let shown =
                    |name: Option<&str>| name.map_or_else(|| "absent".to_owned(), |n| format!("`{n}`"));
                return Err(GoldenError::Header {
                    file: self.file.clone(),
                    position: position + 1,
                    wanted: shown(wanted.copied()),
                    found: shown(found),
                });
            }
        }
        Ok(())
    }

    /// The next row, or `None` at the end of a table that had at least one.
    pub(super) fn next(&mut self) -> Result<Option<Row<'_>>, GoldenError> {
        match self.reader.read_record(&mut self.record) {
            Ok(true) => {
                self.row += 1;
                Ok(Some(Row {
                    file: &self.file,
                    columns: self.columns,
                    cells: &self.record,
                    number: self.row,
                }))
            }
            Ok(false) if self.row == 0 => Err(GoldenError::NoRows { file: self.file.clone() }),
            Ok(false) => Ok(None),
            Err(error) => Err(self.damaged(self.row + 1, &error)),
        }
    }

    /// `line` is the last one that was read whole.
    fn damaged(&self, line: u64, error: &csv::Error) -> GoldenError {
        let what = match error.kind() {
            csv::ErrorKind::Io(error) => error.to_string(),
            csv::ErrorKind::UnequalLengths { expected_len, len, .. } => {
                format!("a row of {len} cells where the header has {expected_len}")
            }
            csv::ErrorKind::Utf8 { err, .. } => err.to_string(),
            _ => error.to_string(),
        };
        GoldenError::Damaged { file: self.file.clone(), line, what }
    }
}

impl Row<'_> {
    /// The text of a column.
    pub(super) fn text(&self, column: &'static str) -> &str {
        let position = self.columns.iter().position(|&name| name == column);
        position.and_then(|i| self.cells.get(i)).unwrap_or("")
    }

    /// The number in a column, at least `low` and at most `high`.
    pub(super) fn uint(&self, column: &'static str, low: u64, high: u64) -> Result<u64, GoldenError> {
        let number = self.text(column).parse().ok().filter(|n| (low..=high).contains(n));
        number.ok_or_else(|| self.bad(column, format!("a whole number from {low} to {high}")))
    }

    /// The finite real number in a column.
    pub(super) fn real(&self, column: &'static str) -> Result<f64, GoldenError> {
        let number = self.text(column).parse().ok().filter(|x: &f64| x.is_finite());
        number.ok_or_else(|| self.bad(column, "a number"))
    }

    /// The error for a cell that does not hold what is `wanted`.
    pub(super) fn bad(&self, column: &'static str, wanted: impl Into<String>) -> GoldenError {
        GoldenError::Cell {
            file: self.file.clone(),
            line: self.number + 1,
            column,
            found: self.text(column).to_owned(),
            wanted: wanted.into(),
        }
    }
}
