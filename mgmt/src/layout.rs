//! How numbers and tables look to people: `weir show`, `top`, `explain`, and what runs print at their end.

use serde_json::Value;

/// A number of an answer; integers above 2^53 come as text.
pub fn number(value: &Value) -> Option<f64> {
    value.as_f64().or_else(|| value.as_str().and_then(|text| text.parse().ok()))
}

/// A counter of an answer; 0 where there is none.
pub fn counter(value: &Value) -> u64 {
    value.as_u64().or_else(|| value.as_str()?.parse().ok()).unwrap_or(0)
}

/// `1.25G`: a rate with the letter of its power of 1000.
pub fn scaled(value: f64) -> String {
    let scale =
        [(1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "K")].into_iter().find(|(unit, _)| value >= *unit);
    match scale {
        Some((unit, letter)) => format!("{:.2}{letter}", value / unit),
        None => format!("{value:.0}"),
    }
}

/// `12.50%`: a part of one, with so many digits.
pub fn percent(of_one: f64, digits: usize) -> String {
    format!("{:.digits$}%", of_one * 100.0)
}

/// `1.25us`: a time in ns with the unit that fits, and so many digits.
pub fn time(ns: f64, digits: usize) -> String {
    match ns {
        _ if ns >= 1e9 => format!("{:.digits$}s", ns / 1e9),
        _ if ns >= 1e6 => format!("{:.digits$}ms", ns / 1e6),
        _ if ns >= 1e3 => format!("{:.digits$}us", ns / 1e3),
        _ => format!("{ns:.0}ns"),
    }
}

/// `3h07m`: a time in seconds that people wait for.
pub fn since(seconds: f64) -> String {
    let s = seconds as u64;
    match s {
        0..60 => format!("{s}s"),
        60..3600 => format!("{}m{:02}s", s / 60, s % 60),
        _ => format!("{}h{:02}m", s / 3600, s / 60 % 60),
    }
}

/// `1 234 567`: digits in threes.
pub fn grouped(n: u64) -> String {
    let digits = n.to_string();
    let mut text = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(' ');
        }
        text.push(digit);
    }
    text
}

/// A column: its heading, and at which side its cells stand.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Column {
    head: String,
    left: bool,
}

/// Text in columns, each as wide as its longest cell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grid {
    columns: Vec<Column>,
    rows: Vec<Vec<String>>,
    /// No column gets wider: a longer cell pushes what is behind it.
    widest: usize,
}

impl Grid {
    /// Columns by their headings; as in a format string `<` before one puts its cells to the left, `>` to the right.
    pub fn new(heads: &[&str]) -> Self {
        let column = |head: &&str| match head.strip_prefix('<') {
            Some(head) => Column { head: head.to_owned(), left: true },
            None => Column { head: head.trim_start_matches('>').to_owned(), left: false },
        };
        Self { columns: heads.iter().map(column).collect(), rows: Vec::new(), widest: usize::MAX }
    }

    /// Headings that are known only now, with true for those whose cells stand to the left.
    pub fn of(heads: impl IntoIterator<Item = (String, bool)>) -> Self {
        let columns = heads.into_iter().map(|(head, left)| Column { head, left }).collect();
        Self { columns, rows: Vec::new(), widest: usize::MAX }
    }

    /// The same, where one long cell is not to make its column wide.
    #[must_use]
    pub fn at_most(self, widest: usize) -> Self {
        Self { widest, ..self }
    }

    /// Adds a row, a cell for each column.
    pub fn push(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().collect());
        debug_assert_eq!(self.rows.last().map(Vec::len), Some(self.columns.len()));
    }

    /// Rows, below their headings.
    pub fn text(&self) -> String {
        self.lines(true, false)
    }

    /// The same, with a rule between headings and rows, as SONiC has it.
    pub fn ruled(&self) -> String {
        self.lines(true, true)
    }

    /// Rows alone.
    pub fn body(&self) -> String {
        self.lines(false, false)
    }

    /// Headings and cells of each row, for a document.
    pub fn cells(&self) -> impl Iterator<Item = impl Iterator<Item = (&str, &str)>> {
        let heads = || self.columns.iter().map(|column| column.head.as_str());
        self.rows.iter().map(move |row| heads().zip(row.iter().map(String::as_str)))
    }

    fn lines(&self, headed: bool, ruled: bool) -> String {
        let longest = |(i, column): (usize, &Column)| {
            let cells = self.rows.iter().map(|row| row[i].chars().count());
            let head = if headed { column.head.chars().count() } else { 0 };
            cells.max().unwrap_or(0).min(self.widest).max(head)
        };
        let widths: Vec<usize> = self.columns.iter().enumerate().map(longest).collect();
        let line = |cells: &mut dyn Iterator<Item = &str>| {
            let padded =
                cells.zip(&self.columns).zip(&widths).map(|((cell, column), width)| match column.left {
                    true => format!("{cell:<width$}"),
                    false => format!("{cell:>width$}"),
                });
            padded.collect::<Vec<_>>().join("  ").trim_end().to_owned() + "\n"
        };
        let mut text = String::new();
        if headed {
            text += &line(&mut self.columns.iter().map(|column| column.head.as_str()));
        }
        if ruled {
            text += &widths.iter().map(|width| "-".repeat(*width)).collect::<Vec<_>>().join("  ");
            text.push('\n');
        }
        self.rows.iter().for_each(|row| text += &line(&mut row.iter().map(String::as_str)));
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn numbers_are_as_long_as_they_must_be() {
        assert_eq!([0.0, 999.0, 1500.0, 2.5e12].map(scaled), ["0", "999", "1.50K", "2.50T"]);
        assert_eq!([12.0, 1500.0, 2e6, 3e9].map(|ns| time(ns, 2)), ["12ns", "1.50us", "2.00ms", "3.00s"]);
        assert_eq!([59.0, 61.0, 11_220.0].map(since), ["59s", "1m01s", "3h07m"]);
        assert_eq!((grouped(7), grouped(1_234_567)), ("7".into(), "1 234 567".into()));
        assert_eq!((percent(0.125, 1), percent(1.0, 2)), ("12.5%".into(), "100.00%".into()));
        let above = json!("18446744073709551615");
        assert_eq!((counter(&above), number(&above)), (u64::MAX, Some(u64::MAX as f64)));
        assert_eq!((counter(&Value::Null), number(&Value::Null)), (0, None));
    }

    #[test]
    fn columns_line_up() {
        let mut grid = Grid::new(&["<port", ">frames"]);
        grid.push(["ä".to_owned(), "12345678".to_owned()]);
        grid.push(["longer".to_owned(), "1".to_owned()]);
        assert_eq!(grid.text(), "port      frames\nä       12345678\nlonger         1\n");
        assert_eq!(grid.ruled().lines().nth(1), Some("------  --------"));
        assert_eq!(grid.body().lines().count(), 2);
        assert_eq!(grid.clone().at_most(4).body(), "ä     12345678\nlonger     1\n");
        let cells: Vec<Vec<_>> = grid.cells().map(Iterator::collect).collect();
        assert_eq!(cells[1], [("port", "longer"), ("frames", "1")]);
    }
}
