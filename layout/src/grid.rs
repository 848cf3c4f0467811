//! Text in columns.

/// A column: its heading, and at which side its cells stand.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Column {
    head: String,
    left: bool,
    /// It is so wide at least.
    least: usize,
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
            Some(head) => (head.to_owned(), true),
            None => (head.trim_start_matches('>').to_owned(), false),
        };
        Self::of(heads.iter().map(column))
    }

    /// Headings that are known only now, with true for those whose cells stand to the left.
    pub fn of(heads: impl IntoIterator<Item = (String, bool)>) -> Self {
        let columns = heads.into_iter().map(|(head, left)| Column { head, left, least: 0 }).collect();
        Self { columns, rows: Vec::new(), widest: usize::MAX }
    }

    /// The same, where one long cell is not to make its column wide.
    #[must_use]
    pub fn at_most(self, widest: usize) -> Self {
        Self { widest, ..self }
    }

    /// The same, where the first columns are so wide at least: for tables that come row by row, or again and again, and are to
    /// line up with what is there.
    #[must_use]
    pub fn at_least(mut self, widths: &[usize]) -> Self {
        self.columns.iter_mut().zip(widths).for_each(|(column, least)| column.least = *least);
        self
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
            cells.max().unwrap_or(0).min(self.widest).max(head).max(column.least)
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

    #[test]
    fn columns_line_up() {
        let mut grid = Grid::new(&["<port", ">frames"]);
        grid.push(["ä".to_owned(), "12345678".to_owned()]);
        grid.push(["longer".to_owned(), "1".to_owned()]);
        assert_eq!(grid.text(), "port      frames\nä       12345678\nlonger         1\n");
        assert_eq!(grid.ruled().lines().nth(1), Some("------  --------"));
        assert_eq!(grid.body().lines().count(), 2);
        assert_eq!(grid.clone().at_most(4).body(), "ä     12345678\nlonger     1\n");
        assert_eq!(grid.clone().at_least(&[8]).body().lines().nth(1), Some("longer           1"));
        let cells: Vec<Vec<_>> = grid.cells().map(Iterator::collect).collect();
        assert_eq!(cells[1], [("port", "longer"), ("frames", "1")]);
    }
}
