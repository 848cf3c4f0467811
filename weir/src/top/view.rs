//! What is drawn: a head that always stays, and one table at a time.

use super::Top;
use ratatui::Frame;
use ratatui::layout::{Alignment, Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span, Text};
use ratatui::widgets::{Cell, Paragraph, Row, Table, Wrap};
use serde_json::Value;
use weir_layout::{percent, scaled, since, time};
use weir_mgmt::client::number;

/// What `/v1/ports` calls a link that is down.
const DOWN: &str = "down";

/// A column of a view.
#[derive(Debug)]
pub struct Column {
    /// Its heading.
    pub head: &'static str,
    width: u16,
    key: &'static str,
    form: Form,
}

/// How a value is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    Text,
    Flag,
    /// State of a link.
    Link,
    Count,
    Rate,
    Share,
    /// ns.
    Time,
}

#[cfg(test)]
impl Form {
    /// It can write what such a column of a table holds.
    pub fn writes(self, column: weir_mgmt::table::Form) -> bool {
        use weir_mgmt::table::Form as Column;
        matches!(
            (self, column),
            (Self::Text | Self::Link, Column::Text)
                | (Self::Flag, Column::Flag)
                | (Self::Count | Self::Time, Column::Count | Column::Maybe)
                | (Self::Rate, Column::Rate)
                | (Self::Share, Column::Share)
        )
    }
}

/// A table of the snapshot, as far as it fits 80 columns.
#[derive(Debug)]
pub struct View {
    /// Its name: the key of its rows.
    pub name: &'static str,
    /// Its columns.
    pub columns: &'static [Column],
    /// A row in which all of these are nothing is idle; none: no row is.
    busy: &'static [&'static str],
}

/// The key of names of ports.
const PORT: &str = "port";

/// The end of a name that has no room for all of it: there names of ports differ.
fn ended(name: &str, room: usize) -> String {
    let count = name.chars().count();
    if count <= room {
        return name.to_owned();
    }
    let rest = name.chars().skip(count + 1 - room);
    std::iter::once('\u{2026}').chain(rest).collect()
}

const fn col(head: &'static str, width: u16, key: &'static str, form: Form) -> Column {
    Column { head, width, key, form }
}

/// Every view, in the order of the keys.
pub const VIEWS: &[View] = &[
    View {
        name: "ports",
        columns: &[
            col("Port", 10, "port", Form::Text),
            col("Link", 4, "link", Form::Link),
            col("Rx b/s", 8, "rx_bps", Form::Rate),
            col("Rx p/s", 8, "rx_pps", Form::Rate),
            col("Rx", 6, "rx_utilisation", Form::Share),
            col("Tx b/s", 8, "tx_bps", Form::Rate),
            col("Tx p/s", 8, "tx_pps", Form::Rate),
            col("Tx", 6, "tx_utilisation", Form::Share),
            col("Drops", 7, "rx_drops+tx_drops", Form::Count),
            col("Missed", 6, "nic_missed", Form::Count),
        ],
        busy: &[],
    },
    View {
        name: "queues",
        columns: &[
            col("Port", 10, "port", Form::Text),
            col("Q", 1, "queue", Form::Count),
            col("Depth", 9, "depth_bytes", Form::Count),
            col("Limit", 9, "limit_bytes", Form::Count),
            col("Peak", 9, "peak_bytes", Form::Count),
            col("b/s", 8, "bps", Form::Rate),
            col("p/s", 8, "pps", Form::Rate),
            col("Drops", 8, "drops", Form::Count),
            col("Paused", 6, "paused", Form::Flag),
        ],
        busy: &["packets", "drops", "depth_bytes"],
    },
    View {
        name: "pgs",
        columns: &[
            col("Port", 10, "port", Form::Text),
            col("PG", 2, "pg", Form::Count),
            col("Shared", 9, "shared_bytes", Form::Count),
            col("Xoff at", 9, "xoff_bytes", Form::Count),
            col("Headroom", 9, "headroom_bytes", Form::Count),
            col("of", 9, "headroom_size_bytes", Form::Count),
            col("Peak", 9, "headroom_peak_bytes", Form::Count),
            col("Xoff", 4, "xoff", Form::Flag),
            col("Drops", 8, "drops", Form::Count),
        ],
        busy: &["packets", "drops", "used_bytes"],
    },
    View {
        name: "pfc",
        columns: &[
            col("Port", 10, "port", Form::Text),
            col("P", 1, "priority", Form::Count),
            col("Rx Xoff", 9, "rx_xoff", Form::Count),
            col("RX paused", 9, "rx_paused_share", Form::Share),
            col("Tx Xoff", 9, "tx_xoff", Form::Count),
            col("TX paused", 9, "tx_paused_share", Form::Share),
            col("Now", 4, "xoff", Form::Flag),
            col("Storms", 7, "storms_detected", Form::Count),
        ],
        busy: &["rx_xoff", "tx_xoff", "storms_detected"],
    },
    View {
        name: "drops",
        columns: &[
            col("Port", 10, "port", Form::Text),
            col("Reason", 28, "reason", Form::Text),
            col("Frames", 10, "frames", Form::Count),
            col("p/s", 7, "pps", Form::Rate),
            col("What to check", 21, "remedy", Form::Text),
        ],
        busy: &[],
    },
    View {
        name: "latency",
        columns: &[
            col("Port", 10, "port", Form::Text),
            col("Q", 1, "queue", Form::Count),
            col("Frames", 9, "window_frames", Form::Count),
            col("p50", 7, "window_residence_p50_ns", Form::Time),
            col("p99", 7, "window_residence_p99_ns", Form::Time),
            col("p99.9", 7, "window_residence_p999_ns", Form::Time),
            col("Max", 7, "window_residence_max_ns", Form::Time),
            col("Queueing", 8, "window_queueing_p99_ns", Form::Time),
            col("Pause", 7, "window_pause_p99_ns", Form::Time),
        ],
        busy: &["frames"],
    },
    View {
        name: "lcores",
        columns: &[
            col("Lcore", 5, "lcore", Form::Count),
            col("Alive", 5, "alive", Form::Flag),
            col("Busy", 6, "busy_share", Form::Share),
            col("Off core", 8, "off_core_share", Form::Share),
            col("Turns/s", 8, "turns_per_second", Form::Rate),
            col("p50", 8, "turn_p50_ns", Form::Time),
            col("p99", 8, "turn_p99_ns", Form::Time),
            col("Longest", 8, "longest_turn_ns", Form::Time),
            col("Held", 8, "held", Form::Count),
            col("Error", 6, "conservation_error", Form::Count),
        ],
        busy: &[],
    },
];

impl Column {
    fn text(&self, row: &Value) -> String {
        // A sum where one column of the screen is two of the table.
        let value = match self.key.split_once('+') {
            Some((a, b)) => {
                let sum = number(&row[a]).unwrap_or(0.0) + number(&row[b]).unwrap_or(0.0);
                serde_json::json!(sum)
            }
            None => row[self.key].clone(),
        };
        match (self.form, &value) {
            (_, Value::Bool(yes)) => if *yes { "yes" } else { "no" }.into(),
            (Form::Link, Value::String(state)) if state == DOWN => "DOWN".into(),
            (Form::Text | Form::Link, Value::String(text)) => text.clone(),
            (_, Value::Null) => "-".into(),
            (form, value) => match (form, number(value)) {
                (Form::Share, Some(n)) => percent(n, 1),
                (Form::Time, Some(n)) => time(n, 2),
                (Form::Rate, Some(n)) => scaled(n),
                // Short numbers as they are, long ones as well as they fit.
                (Form::Count, Some(n)) if n < 10f64.powi(i32::from(self.width.min(9))) => format!("{n:.0}"),
                (_, Some(n)) => scaled(n),
                (_, None) => value.to_string(),
            },
        }
    }

    /// Columns of the table it is made from, and how it writes them.
    #[cfg(test)]
    pub fn reads(&self) -> impl Iterator<Item = (&'static str, Form)> {
        self.key.split('+').map(|key| (key, self.form))
    }

    fn width(&self) -> u16 {
        self.width.max(self.head.len() as u16)
    }

    fn left(&self) -> bool {
        matches!(self.form, Form::Text | Form::Link | Form::Flag)
    }
}

impl View {
    /// Columns of text it takes, those between its own included.
    fn width(&self) -> u16 {
        let gaps = self.columns.len() as u16 - 1;
        self.columns.iter().map(Column::width).sum::<u16>() + gaps
    }

    fn is_busy(&self, row: &Value) -> bool {
        self.busy.is_empty() || self.busy.iter().any(|key| number(&row[key]).is_some_and(|n| n > 0.0))
    }
}

impl Top {
    /// Rows of the view, those in which nothing happens only on demand.
    pub(super) fn rows(&self) -> Vec<&Value> {
        let view = &VIEWS[self.view];
        let rows = self.data[view.name].as_array().into_iter().flatten();
        rows.filter(|row| self.all || view.is_busy(row)).collect()
    }

    /// Draws everything.
    pub fn draw(&self, frame: &mut Frame<'_>) {
        let head = self.head();
        let parts = Layout::vertical([
            Constraint::Length(head.lines.len() as u16),
            Constraint::Length(1),
            Constraint::Min(1),
            Constraint::Length(1),
        ]);
        let [top, tabs, table, foot] = parts.areas(frame.area());
        frame.render_widget(Paragraph::new(head), top);
        frame.render_widget(Paragraph::new(self.tabs()), tabs);
        self.table(frame, table);
        frame.render_widget(Paragraph::new(self.foot()), foot);
    }

    fn head(&self) -> Text<'_> {
        let (d, switch) = (&self.data, &self.data["switch"][0]);
        let sum = |key: &str| -> f64 {
            d["ports"].as_array().into_iter().flatten().filter_map(|port| number(&port[key])).sum()
        };
        let count = |key: &str| number(&switch[key]).unwrap_or(0.0);
        let bold = Style::new().add_modifier(Modifier::BOLD);
        let alarm = |bad: bool| if bad { bold.fg(Color::Red) } else { Style::new() };
        let lost = count("lossless_drops");
        let first = Line::from(vec![
            Span::styled(d["switch_name"].as_str().unwrap_or("?").to_owned(), bold),
            Span::raw(format!(
                "  {}  up {}  rx {}b/s  tx {}b/s  ",
                switch["phase"].as_str().unwrap_or("?"),
                since(number(&d["uptime_seconds"]).unwrap_or(0.0)),
                scaled(sum("rx_bps")),
                scaled(sum("tx_bps"))
            )),
            Span::styled(format!("lossless lost {}", scaled(lost)), alarm(lost > 0.0)),
        ]);
        let mut second = vec![Span::raw(format!("held {}  buffer", scaled(count("held"))))];
        for pool in d["buffer"].as_array().into_iter().flatten() {
            let size = number(&pool["size_bytes"]).unwrap_or(0.0).max(1.0);
            let of = |key: &str| number(&pool[key]).map(|bytes| percent(bytes / size, 0));
            // Reserves and control pools have no use of their own.
            let Some(used) = of("used_bytes") else { continue };
            let name = pool["pool"].as_str().unwrap_or("?");
            let peak = of("peak_bytes").map(|peak| format!(" (peak {peak})")).unwrap_or_default();
            second.push(Span::raw(format!("  {name} {used}{peak}")));
        }
        let mut lines = vec![first, Line::from(second)];
        if let Some(faults) = switch["health"].as_str().filter(|health| *health != "healthy") {
            lines.push(Line::styled(faults.to_owned(), alarm(true)));
        }
        Text::from(lines)
    }

    fn tabs(&self) -> Line<'static> {
        let tab = |(i, view): (usize, &View)| {
            let style =
                if i == self.view { Style::new().add_modifier(Modifier::REVERSED) } else { Style::new() };
            [Span::styled(format!("{} {}", i + 1, view.name), style), Span::raw("  ")]
        };
        Line::from(VIEWS.iter().enumerate().flat_map(tab).collect::<Vec<_>>())
    }

    fn table(&self, frame: &mut Frame<'_>, area: Rect) {
        let view = &VIEWS[self.view];
        // A number without its first digits would be another one.
        if area.width < view.width() {
            let words =
                format!("{}: needs {} columns, and the terminal has {}", view.name, view.width(), area.width);
            return frame.render_widget(Paragraph::new(words).wrap(Wrap { trim: true }), area);
        }
        let cell = |column: &Column, text: String| {
            let side = if column.left() { Alignment::Left } else { Alignment::Right };
            Cell::from(Text::from(text).alignment(side))
        };
        let rows = self.rows();
        // What is over is for names of ports.
        let named = rows.iter().filter_map(|row| row[PORT].as_str()).map(|name| name.chars().count() as u16);
        let spare = area.width - view.width();
        let names = |c: &Column| named.clone().max().unwrap_or(0).clamp(c.width(), c.width() + spare);
        let width = |c: &Column| if c.key == PORT { names(c) } else { c.width() };
        let text = |c: &Column, row: &Value| match c.key {
            PORT => ended(&c.text(row), names(c).into()),
            _ => c.text(row),
        };
        let heads = view.columns.iter().map(|c| cell(c, c.head.to_owned()));
        let head = Row::new(heads).style(Style::new().add_modifier(Modifier::BOLD | Modifier::UNDERLINED));
        let shown = rows.iter().skip(self.first).take(usize::from(area.height).saturating_sub(1));
        let body = shown.map(|row| {
            // A loss of a lossless frame or of any at the receive ring, a storm, a link that is down: seen without
            // reading.
            let alarm = row["lossless"] == true && view.name == "drops"
                || number(&row["nic_missed"]).is_some_and(|frames| frames > 0.0)
                || row["storm"] == true
                || row["link"] == DOWN && row["admin"] != DOWN;
            let style =
                if alarm { Style::new().fg(Color::Red).add_modifier(Modifier::BOLD) } else { Style::new() };
            Row::new(view.columns.iter().map(|c| cell(c, text(c, row)))).style(style)
        });
        let widths = view.columns.iter().map(|c| Constraint::Length(width(c)));
        frame
            .render_widget(Table::new(body.collect::<Vec<_>>(), widths).header(head).column_spacing(1), area);
    }

    fn foot(&self) -> Line<'static> {
        if let Some(trouble) = &self.trouble {
            return Line::styled(trouble.clone(), Style::new().fg(Color::Red));
        }
        let rows = self.rows().len();
        let state = if self.frozen { "frozen" } else { "live" };
        let idle = if self.all { "all rows" } else { "busy rows" };
        Line::raw(format!(
            "q quit  1-{} tab view  arrows scroll  a {idle}  space {state}  {rows} rows",
            VIEWS.len()
        ))
    }
}
