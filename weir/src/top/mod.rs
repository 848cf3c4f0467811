//! `weir top`: the running switch in a terminal, once a second.

mod view;

use crate::Outcome;
use crate::quantity::time;
use crate::run::Stop;
use crate::which::Which;
use anyhow::{Context, Result, bail};
use clap::Args;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use ratatui::crossterm::execute;
use ratatui::crossterm::terminal::{EnterAlternateScreen, size};
use ratatui::layout::Rect;
use ratatui::{DefaultTerminal, TerminalOptions, Viewport};
use serde_json::Value;
use std::io::IsTerminal;
use std::path::Path;
use std::time::{Duration, Instant};
use view::VIEWS;
use weir_mgmt::{api, client};

/// `weir top`
#[derive(Debug, Args)]
pub struct TopArgs {
    /// Time between two looks, e.g. 500ms.
    #[arg(long, value_name = "TIME", value_parser = time, default_value = "1s")]
    pub interval: Duration,
    /// Which switch.
    #[command(flatten)]
    pub which: Which,
}

/// Between two looks whether a signal has come.
const LOOK: Duration = Duration::from_millis(100);

/// Columns and rows that are drawn on at most. Each cell takes memory and is compared in each picture; no table is wider, and no screen has
/// more rows.
const COLUMNS: u16 = 1000;
const ROWS: u16 = 500;

/// What the screen shows, and how.
#[derive(Debug, Default)]
pub struct Top {
    /// Which of [`VIEWS`].
    view: usize,
    /// First row shown.
    first: usize,
    /// Rows in which nothing happens, too.
    all: bool,
    /// The picture stands still.
    frozen: bool,
    /// The last snapshot.
    data: Value,
    /// Why there is no newer one.
    trouble: Option<String>,
}

pub fn top(args: &TopArgs) -> Result<Outcome> {
    if !std::io::stdout().is_terminal() {
        bail!("weir top draws on a terminal: for a file or a pipe there is `weir show ports --watch`");
    }
    let socket = args.which.socket()?;
    // The first answer before the screen is cleared: what is wrong is said where it can be read.
    let mut top = Top { data: snapshot(&socket)?, ..Top::default() };
    let stop = Stop::on_signal()?;
    let screen = TerminalOptions { viewport: Viewport::Fixed(screen()?) };
    let terminal = ratatui::try_init_with_options(screen).context("no terminal to draw on")?;
    let watched = execute!(std::io::stdout(), EnterAlternateScreen).context("no terminal to draw on");
    let watched = watched.and_then(|()| watch(&mut top, terminal, &socket, (args.interval, &stop)));
    ratatui::restore();
    watched.map(|()| Outcome::Good)
}

/// Where is drawn: all of the terminal, as far as it is not larger than any screen. A terminal says of itself what it likes.
fn screen() -> Result<Rect> {
    let (columns, rows) = size().context("no terminal to draw on")?;
    Ok(Rect::new(0, 0, columns.min(COLUMNS), rows.min(ROWS)))
}

fn snapshot(socket: &Path) -> Result<Value> {
    Ok(client::ask(socket, api::SNAPSHOT)?)
}

/// Until a key or a signal ends it: the terminal is given back as it was in either case.
fn watch(
    top: &mut Top,
    mut terminal: DefaultTerminal,
    socket: &Path,
    (interval, stop): (Duration, &Stop),
) -> Result<()> {
    let mut next = Instant::now() + interval;
    while !stop.asked() {
        let screen = screen()?;
        if terminal.get_frame().area() != screen {
            terminal.resize(screen)?;
        }
        terminal.draw(|frame| top.draw(frame))?;
        let left = next.saturating_duration_since(Instant::now());
        if event::poll(left.min(LOOK))? {
            if let Event::Key(key) = event::read()?
                && top.pressed(key)
            {
                return Ok(());
            }
            continue;
        }
        if left > LOOK {
            continue;
        }
        next = Instant::now() + interval;
        if !top.frozen {
            match snapshot(socket) {
                Ok(data) => (top.data, top.trouble) = (data, None),
                Err(error) => top.trouble = Some(error.to_string()),
            }
        }
    }
    Ok(())
}

impl Top {
    /// `true`: it was the last key.
    fn pressed(&mut self, key: KeyEvent) -> bool {
        if key.kind == KeyEventKind::Release {
            return false;
        }
        let (last, page) = (VIEWS.len() - 1, 10);
        let view = self.view;
        match key.code {
            KeyCode::Char('q') | KeyCode::Esc => return true,
            KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => return true,
            KeyCode::Char('a') => self.all = !self.all,
            KeyCode::Char(' ') => self.frozen = !self.frozen,
            KeyCode::Char(digit @ '1'..='9') => self.view = (digit as usize - '1' as usize).min(last),
            KeyCode::Tab | KeyCode::Right => self.view = if view == last { 0 } else { view + 1 },
            KeyCode::BackTab | KeyCode::Left => self.view = view.checked_sub(1).unwrap_or(last),
            KeyCode::Down => self.first += 1,
            KeyCode::Up => self.first = self.first.saturating_sub(1),
            KeyCode::PageDown => self.first += page,
            KeyCode::PageUp => self.first = self.first.saturating_sub(page),
            KeyCode::Home => self.first = 0,
            _ => {}
        }
        if self.view != view {
            self.first = 0;
        }
        let rows = self.rows().len();
        self.first = self.first.min(rows.saturating_sub(1));
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;
    use ratatui::style::Color;
    use serde_json::json;
    use weir_dataplane::drops::DropReason;
    use weir_dataplane::stats::LoopStats;
    use weir_mgmt::sample::Sampler;
    use weir_mgmt::snapshot::{
        BufferInfo, Link, OffCore, PortInfo, PortReading, Reading, Snapshot, SwitchInfo,
    };
    use weir_mgmt::table;

    /// What the switch itself would answer: forty ports, of which one is down and one has lost two lossless frames, and a
    /// worker kept off its core.
    fn data() -> Value {
        let port = |i: usize| PortInfo {
            name: format!("p{i}"),
            rate: Some(1_000_000_000),
            lossless: 1 << 3,
            ..PortInfo::default()
        };
        let info = SwitchInfo {
            name: "leaf1".into(),
            ports: (0..40).map(port).collect(),
            lcores: vec![4],
            buffer: BufferInfo {
                size: 4000,
                reserved: 1000,
                headroom: 1000,
                control: 1000,
                mirrors: 0,
                shared: 1000,
            },
            ..SwitchInfo::default()
        };
        let reading = |n: u64| {
            let port = |i: u64| {
                let mut port =
                    PortReading { link: Some(Link { up: i != 7, mbps: None }), ..PortReading::default() };
                port.gauges.at_ns = n * 1_000_000_000;
                port.stats.rx_bytes = n * 118_750_000;
                port.stats.rx_packets = n * 120_000;
                port.stats.queue_packets[3] = n * 120_000;
                port.gauges.queue_bytes[3] = 5000;
                let frames = if i == 3 { 2 } else { 0 };
                for lost in [&mut port.stats.drops, &mut port.stats.lossless] {
                    lost.0[DropReason::IngressHeadroom as usize] = frames;
                }
                port
            };
            let at_ns = n * 1_000_000_000;
            Reading {
                ports: (0..40).map(port).collect(),
                loops: vec![LoopStats { at_ns, shared_used: 250, shared_peak: 900, ..LoopStats::default() }],
                off_core: vec![Some(OffCore { ns: n * 600_000_000, at_ns })],
                ..Reading::default()
            }
        };
        let mut sampler = Sampler::new(info);
        sampler.sample(reading(0), 0, 3_724_200);
        answer(&sampler.sample(reading(1), 1000, 3_725_200))
    }

    fn answer(snapshot: &Snapshot) -> Value {
        serde_json::from_str(&table::everything(snapshot).to_string()).unwrap()
    }

    /// Rows of the screen in which something is red.
    fn red(top: &Top) -> Vec<String> {
        let mut terminal = Terminal::new(TestBackend::new(80, 24)).unwrap();
        terminal.draw(|frame| top.draw(frame)).unwrap();
        let buffer = terminal.backend().buffer();
        let rows = (0..24).filter(|y| (0..80).any(|x| buffer[(x, *y)].fg == Color::Red));
        rows.map(|y| (0..80).map(|x| buffer[(x, y)].symbol()).collect()).collect()
    }

    fn drawn(top: &Top) -> Vec<String> {
        drawn_at(top, 80)
    }

    fn drawn_at(top: &Top, width: u16) -> Vec<String> {
        let mut terminal = Terminal::new(TestBackend::new(width, 24)).unwrap();
        terminal.draw(|frame| top.draw(frame)).unwrap();
        let buffer = terminal.backend().buffer();
        let line = |y: u16| (0..width).map(|x| buffer[(x, y)].symbol()).collect::<String>();
        (0..24).map(line).collect()
    }

    #[test]
    fn a_view_that_does_not_fit_says_so_and_cuts_no_number() {
        for (view, of) in VIEWS.iter().enumerate() {
            let top = Top { data: data(), view, ..Top::default() };
            let says = |width: u16| drawn_at(&top, width).join(" ").contains("needs");
            assert!(says(40) && !says(80), "{}", of.name);
        }
        let narrow = drawn_at(&Top { data: data(), ..Top::default() }, 60).join("\n");
        assert!(narrow.contains("ports: needs 80 columns, and the terminal has 60"), "{narrow}");
        assert!(!narrow.contains("97.3%"), "{narrow}");
    }

    /// Names as SONiC has them are told apart in any width.
    #[test]
    fn ports_have_their_names() {
        let names = ["Ethernet100", "Ethernet104", "Ethernet108"];
        let mut data = data();
        let port = data["ports"][0].clone();
        data["ports"] = names
            .iter()
            .map(|name| {
                let mut port = port.clone();
                port["port"] = (*name).into();
                port
            })
            .collect();
        let top = Top { data, all: true, ..Top::default() };
        let rows = |width: u16| drawn_at(&top, width);
        for name in names {
            assert!(rows(120).iter().any(|row| row.starts_with(&format!("{name} "))), "{name}");
            let end = format!("\u{2026}{} ", &name[2..]);
            assert!(rows(80).iter().any(|row| row.starts_with(&end)), "{end}: {:?}", rows(80));
        }
    }

    fn press(top: &mut Top, code: KeyCode) -> bool {
        top.pressed(KeyEvent::from(code))
    }

    #[test]
    fn eighty_by_twenty_four_shows_all_there_is_to_know() {
        let lines = drawn(&Top { data: data(), ..Top::default() });
        let all = lines.join("\n");
        for wanted in [
            "leaf1",
            "1h02m",
            "forwarding",
            "lossless lost 2",
            "shared 25%",
            "p0",
            "950.00M",
            "97.3%",
            "q quit",
        ] {
            assert!(all.contains(wanted), "{wanted}:\n{all}");
        }
        assert!(lines.iter().all(|line| line.chars().count() == 80));
    }

    #[test]
    fn what_is_wrong_is_red_and_said() {
        let mut top = Top { data: data(), ..Top::default() };
        let lines = red(&top);
        let has = |lines: &[String], words: &str| lines.iter().any(|line| line.contains(words));
        assert!(has(&lines, "lossless lost 2"), "{lines:?}");
        assert!(
            has(&lines, "2 lossless drops, lcore 4: the worker was off its core 60 % of the time"),
            "{lines:?}"
        );
        assert!(lines.iter().any(|line| line.starts_with("p7 ") && line.contains(" DOWN ")), "{lines:?}");
        assert_eq!(lines.len(), 3, "nothing else: {lines:?}");
        assert!(has(&drawn(&top), "p6         up "), "a word, not a JSON text");
        press(&mut top, KeyCode::Char('5'));
        assert!(has(&red(&top), "ingress.headroom_exhausted"));
        press(&mut top, KeyCode::Char('7'));
        assert!(has(&drawn(&top), " 60.0%"));
    }

    #[test]
    fn a_peak_that_is_not_kept_is_not_nothing() {
        let mut data = data();
        let pools = data["buffer"].as_array_mut().unwrap();
        let shared = pools.iter_mut().find(|pool| pool["pool"] == "shared").unwrap();
        shared["peak_bytes"] = Value::Null;
        let all = drawn(&Top { data, ..Top::default() }).join("\n");
        assert!(all.contains("shared 25%  ") && !all.contains("shared 25% (peak"), "{all}");
    }

    /// Every column of a view is one of the switch's tables, of a form it can write.
    #[test]
    fn views_show_columns_there_are() {
        for view in VIEWS {
            let table = table::Table::named(view.name).unwrap();
            for (key, form) in view.columns.iter().flat_map(view::Column::reads) {
                let column = table.columns.iter().find(|column| column.name == key);
                let column = column.unwrap_or_else(|| panic!("{}: no column {key}", view.name));
                assert!(form.writes(column.form), "{}: {key} is {:?}, not {form:?}", view.name, column.form);
            }
        }
    }

    #[test]
    fn every_view_fits_and_has_its_heads() {
        let mut top = Top { data: data(), ..Top::default() };
        for (i, view) in VIEWS.iter().enumerate() {
            press(&mut top, KeyCode::Char((b'1' + i as u8) as char));
            assert_eq!(top.view, i);
            let all = drawn(&top).join("\n");
            for column in view.columns {
                assert!(all.contains(column.head), "{}: {}\n{all}", view.name, column.head);
            }
        }
    }

    #[test]
    fn idle_rows_come_on_demand_and_rows_scroll() {
        let mut top = Top { data: data(), ..Top::default() };
        press(&mut top, KeyCode::Char('2'));
        assert_eq!(top.rows().len(), 40);
        press(&mut top, KeyCode::Char('a'));
        assert_eq!(top.rows().len(), 320);
        press(&mut top, KeyCode::Char('1'));
        assert!(!drawn(&top).join("\n").contains("p39 "));
        assert!((0..10).all(|_| !press(&mut top, KeyCode::PageDown)));
        assert_eq!(top.first, 39);
        assert!(drawn(&top).join("\n").contains("p39 "));
    }

    #[test]
    fn a_switch_that_has_gone_is_told_and_q_leaves() {
        let mut top = Top { data: data(), trouble: Some("no such socket".into()), ..Top::default() };
        assert!(drawn(&top).join("\n").contains("no such socket"));
        assert!(!press(&mut top, KeyCode::Left) && top.view == VIEWS.len() - 1);
        assert!(!press(&mut top, KeyCode::Char(' ')) && top.frozen);
        top.trouble = None;
        assert!(drawn(&top).join("\n").contains("frozen"));
        assert!(press(&mut top, KeyCode::Char('q')));
    }

    #[test]
    fn any_document_draws() {
        for data in [json!(null), json!({ "ports": 3 }), json!({ "ports": [1, null, {}], "switch": [] })] {
            drawn(&Top { data, ..Top::default() });
        }
    }
}
