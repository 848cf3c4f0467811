//! Text in columns.

use comfy_table::{CellAlignment, ColumnConstraint, ContentArrangement, Table, Width, presets};

/// Columns between one and the next.
const GAP: u16 = 2;

/// A column: its heading, and at which side its cells stand.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Column {
    head: String,
    left: bool,
    /// It is so wide at least.
    least: u16,
}

/// Text in columns, each as wide as its longest cell: no cell is cut or broken into lines, whatever the width of a terminal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grid {
    columns: Vec<Column>,
    rows: Vec<Vec<String>>,
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
        Self { columns, rows: Vec::new() }
    }

    /// The same, where the first columns are so wide at least: for tables that come row by row, or again and again, and are to
    /// line up with what is there.
    #[must_use]
    pub fn at_least(mut self, widths: &[u16]) -> Self {
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
        lines(&self.headed())
    }

    /// The same, with a rule between headings and rows, as SONiC has it: below each column, not between them.
    pub fn ruled(&self) -> String {
        let mut table = self.headed();
        let widths = table.column_max_content_widths();
        let ruled = |(column, width): (&Column, u16)| {
            format!("{}\n{}", column.head, "-".repeat(width.max(column.least).into()))
        };
        table.set_header(self.columns.iter().zip(widths).map(ruled));
        lines(&table)
    }

    /// Rows alone.
    pub fn body(&self) -> String {
        lines(&self.table(&self.rows))
    }

    /// The same, where one long cell is not to make its column wide: a cell of more characters than `widest` pushes what is
    /// behind it, in its own row alone.
    pub fn body_at_most(&self, widest: usize) -> String {
        let short = |cell: &String| cell.chars().take(widest).collect();
        let all_short: Vec<Vec<String>> =
            self.rows.iter().map(|row| row.iter().map(short).collect()).collect();
        let columns = self.clone().at_least(&self.table(&all_short).column_max_content_widths());
        self.rows.iter().map(|row| lines(&columns.table(std::slice::from_ref(row)))).collect()
    }

    /// Headings and cells of each row, for a document.
    pub fn cells(&self) -> impl Iterator<Item = impl Iterator<Item = (&str, &str)>> {
        let heads = || self.columns.iter().map(|column| column.head.as_str());
        self.rows.iter().map(move |row| heads().zip(row.iter().map(String::as_str)))
    }

    fn headed(&self) -> Table {
        let mut table = Table::new();
        table.set_header(self.columns.iter().map(|column| &column.head));
        self.filled(table, &self.rows)
    }

    /// Some rows, in these columns.
    fn table(&self, rows: &[Vec<String>]) -> Table {
        self.filled(Table::new(), rows)
    }

    fn filled(&self, mut table: Table, rows: &[Vec<String>]) -> Table {
        table
            .load_style(presets::NOTHING)
            .set_content_arrangement(ContentArrangement::Disabled)
            .add_rows(rows);
        for (laid, column) in table.column_iter_mut().zip(&self.columns) {
            laid.set_padding((0, GAP));
            laid.set_cell_alignment(if column.left { CellAlignment::Left } else { CellAlignment::Right });
            let least = column.least.saturating_add(GAP);
            laid.set_constraint(ColumnConstraint::LowerBoundary(Width::Fixed(least)));
        }
        table
    }
}

/// Each ends with its last character, and a newline.
fn lines(table: &Table) -> String {
    table.lines().map(|line| line.trim_end().to_owned() + "\n").collect()
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
        assert_eq!(grid.body_at_most(4), "ä     12345678\nlonger     1\n");
        assert_eq!(grid.clone().at_least(&[8]).body().lines().nth(1), Some("longer           1"));
        let cells: Vec<Vec<_>> = grid.cells().map(Iterator::collect).collect();
        assert_eq!(cells[1], [("port", "longer"), ("frames", "1")]);
    }

    #[test]
    fn a_cell_is_as_wide_as_it_looks_and_stays_in_one_piece() {
        let mut grid = Grid::new(&["<name", ">frames"]);
        grid.push(["交換機".to_owned(), "1".to_owned()]);
        grid.push(["o\u{308}stlich".to_owned(), "2".to_owned()]);
        let (wide, combined) = ("交換機", "o\u{308}stlich");
        assert_eq!(
            grid.ruled(),
            format!("name     frames\n-------  ------\n{wide}        1\n{combined}       2\n")
        );
        let long = ["a cell of many words "; 40].concat();
        grid.push([long.clone(), "3".to_owned()]);
        assert!(grid.text().ends_with(&format!("\n{long}       3\n")), "{}", grid.text());
        assert_eq!(grid.body_at_most(7), format!("{wide}   1\n{combined}  2\n{long}  3\n"));
    }

    #[test]
    fn headings_without_rows_are_shown() {
        let grid = Grid::new(&["<port", ">frames"]);
        assert_eq!(grid.ruled(), "port  frames\n----  ------\n");
        assert_eq!((grid.body(), grid.body_at_most(3)), (String::new(), String::new()));
    }
}
