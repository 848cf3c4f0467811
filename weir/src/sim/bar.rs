//! How far it is: a bar on a terminal, nothing anywhere else.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::{Duration, Instant};
use weir_layout::Unit;
use weir_sim::fabric::Progress;
use weir_sim::sweep::{Done, Seen, Step};

/// Steps of a bar that stand for one run.
const STEPS: u64 = 1000;

fn bar(steps: u64, template: &str) -> ProgressBar {
    // Standard error; indicatif draws nothing where that is no terminal.
    let bar = ProgressBar::with_draw_target(Some(steps), ProgressDrawTarget::stderr());
    bar.set_style(ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar()));
    // Short runs end before it has been drawn.
    bar.enable_steady_tick(Duration::from_millis(400));
    bar
}

/// Of one run.
#[derive(Debug)]
pub struct RunBar {
    bar: ProgressBar,
    begun: Instant,
}

impl RunBar {
    pub fn new(name: &str) -> Self {
        let bar = bar(STEPS, "  {prefix} [{bar:30}] {percent}% {msg}, {eta} left");
        bar.set_prefix(name.to_owned());
        Self { bar, begun: Instant::now() }
    }

    pub fn show(&self, progress: Progress) {
        self.bar.set_position(progress.milli());
        let rate = progress.events as f64 / self.begun.elapsed().as_secs_f64().max(1e-3);
        self.bar.set_message(format!("{}, {rate:.2e} events/s", message(progress)));
    }

    pub fn end(&self) {
        self.bar.finish_and_clear();
    }
}

/// Of many runs.
#[derive(Debug)]
pub struct SweepBar {
    bar: ProgressBar,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Points whose results were there: they say nothing of the time the others take.
    before: u64,
    played: u64,
    /// Steps of the points that are being played.
    at: BTreeMap<usize, u64>,
}

impl SweepBar {
    pub fn new(points: usize) -> Self {
        let bar = bar(points as u64 * STEPS, "  [{bar:30}] {msg}, {eta} left");
        Self { bar, state: Mutex::default() }
    }

    pub fn show(&self, seen: &Seen<'_>) {
        let Ok(mut state) = self.state.lock() else { return };
        let index = seen.point.index;
        match seen.step {
            Step::At(progress) => {
                state.at.insert(index, progress.milli());
            }
            Step::Over(done) => {
                state.at.remove(&index);
                match done {
                    Done::Before => state.before += 1,
                    Done::Now | Done::Broken => state.played += 1,
                }
                if done == Done::Broken {
                    self.bar.println(format!("  point {index} is refused; its file says why"));
                }
            }
        }
        let over = state.before + state.played;
        self.bar.set_length((seen.of as u64).saturating_sub(state.before) * STEPS);
        self.bar.set_position(state.played * STEPS + state.at.values().sum::<u64>());
        self.bar.set_message(format!("{over}/{} points, {} at once", seen.of, state.at.len().max(1)));
    }

    pub fn end(&self) {
        self.bar.finish_and_clear();
    }
}

fn message(progress: Progress) -> String {
    let Progress { now_ns, done, flows, .. } = progress;
    format!("{}, {done}/{flows} flows", Unit::MS.digits(3).text(now_ns as f64))
}
