//! `weir top`: the running switch in a terminal, once a second.

mod view;

use crate::Outcome;
use crate::cli::TopArgs;
use crate::show::socket;
use anyhow::{Context, Result, bail};
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use serde_json::Value;
use std::io::IsTerminal;
use std::path::Path;
use std::time::{Duration, Instant};
use view::VIEWS;
use weir_mgmt::client;

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
    let socket = socket(args.socket.as_deref())?;
    // The first answer before the screen is cleared: what is wrong is said where it can be read.
    let mut top = Top { data: snapshot(&socket)?, ..Top::default() };
    let mut terminal = ratatui::try_init().context("no terminal to draw on")?;
    let watched = watch(&mut top, &mut terminal, &socket, args.interval);
    ratatui::restore();
    watched.map(|()| Outcome::Good)
}

fn snapshot(socket: &Path) -> Result<Value> {
    serde_json::from_str(&client::get(socket, "/v1/snapshot")?).context("the answer is no JSON")
}

fn watch(top: &mut Top, terminal: &mut DefaultTerminal, socket: &Path, interval: Duration) -> Result<()> {
    let mut next = Instant::now() + interval;
    loop {
        terminal.draw(|frame| top.draw(frame))?;
        if event::poll(next.saturating_duration_since(Instant::now()))? {
            if let Event::Key(key) = event::read()?
                && top.pressed(key)
            {
                return Ok(());
            }
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
    use serde_json::json;

    fn data() -> Value {
        let lane = |i: u64, bps: u64| {
            json!({ "port": "p0", "queue": i, "depth_bytes": bps / 100, "limit_bytes": null, "peak_bytes": bps / 50,
                    "pps": bps as f64 / 8000.0, "bps": bps as f64, "drops": 0, "paused": i == 3, "storm": false,
                    "kmin_bytes": null, "kmax_bytes": null, "packets": bps, "bytes": bps })
        };
        let port = |i: usize| {
            json!({ "port": format!("p{i}"), "link": true, "rate_bps": 1_000_000_000u64, "rx_bps": 9.5e8, "tx_bps": 1.0e6,
                    "rx_pps": 1.2e5, "tx_pps": 100.0, "rx_utilisation": 0.97, "tx_utilisation": 0.001,
                    "rx_packets": 12u64, "tx_packets": "18446744073709551615", "rx_drops": 0, "tx_drops": 3, "nic_missed": 0 })
        };
        json!({
            "switch_name": "leaf1",
            "uptime_seconds": 3725.2,
            "switch": [{ "phase": "forwarding", "lossless_drops": 2, "conservation_error": 0, "held": 17 }],
            "buffer": [{ "pool": "shared", "size_bytes": 1000, "used_bytes": 250, "peak_bytes": 900 },
                       { "pool": "headroom", "size_bytes": 1000, "used_bytes": 10, "peak_bytes": 20 }],
            "ports": (0..40).map(port).collect::<Vec<_>>(),
            "queues": [lane(0, 0), lane(3, 800_000_000)],
            "pgs": [], "pfc": [], "latency": [], "lcores": [],
            "drops": [{ "port": "p3", "reason": "ingress.headroom_exhausted", "frames": 2, "pps": 0.5, "remedy": "raise headroom" }],
        })
    }

    fn drawn(top: &Top) -> Vec<String> {
        let mut terminal = Terminal::new(TestBackend::new(80, 24)).unwrap();
        terminal.draw(|frame| top.draw(frame)).unwrap();
        let buffer = terminal.backend().buffer();
        let line = |y: u16| (0..80).map(|x| buffer[(x, y)].symbol()).collect::<String>();
        (0..24).map(line).collect()
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
            "97.0%",
            "q quit",
        ] {
            assert!(all.contains(wanted), "{wanted}:\n{all}");
        }
        assert!(lines.iter().all(|line| line.chars().count() == 80));
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
        assert_eq!(top.rows().len(), 1);
        press(&mut top, KeyCode::Char('a'));
        assert_eq!(top.rows().len(), 2);
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
