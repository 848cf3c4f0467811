//! How far it is: a bar on a terminal, nothing anywhere else.

use indicatif::{HumanDuration, ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::{Duration, Instant};
use weir_layout::{Unit, counted};
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

/// When it will be over, from how fast it was since it began to come on.
#[derive(Clone, Copy, Debug, Default)]
struct Eta {
    /// The first share that was told, and when.
    first: Option<(f64, Instant)>,
}

impl Eta {
    /// What is left at `now`, when `share` of it is done; `None`, as long as that is not known.
    fn left(&mut self, share: f64, now: Instant) -> Option<Duration> {
        let (first, since) = *self.first.get_or_insert((share, now));
        let left = (1.0 - share) / (share - first) * now.duration_since(since).as_secs_f64();
        Duration::try_from_secs_f64(left).ok().filter(|_| share > first)
    }
}

/// The same in words; nothing of what is not known.
fn words(left: Option<Duration>) -> String {
    left.map_or(String::new(), |left| format!(", {:#} left", HumanDuration(left)))
}

/// Of one run.
#[derive(Debug)]
pub struct RunBar {
    bar: ProgressBar,
    begun: Instant,
    /// Of its time, and of what is delivered.
    etas: Cell<[Eta; 2]>,
}

impl RunBar {
    pub fn new(name: &str) -> Self {
        let bar = bar(STEPS, "  {prefix} [{bar:30}] {percent}% {msg}");
        bar.set_prefix(name.to_owned());
        Self { bar, begun: Instant::now(), etas: Cell::default() }
    }

    pub fn show(&self, progress: Progress) {
        let (now, mut etas) = (Instant::now(), self.etas.get());
        let left = etas.iter_mut().zip(progress.shares()).filter_map(|(eta, share)| eta.left(share, now));
        // What ends it first.
        let left = words(left.min());
        self.etas.set(etas);
        self.bar.set_position((progress.share() * STEPS as f64) as u64);
        let rate = progress.events as f64 / self.begun.elapsed().as_secs_f64().max(1e-3);
        self.bar.set_message(format!("{}, {rate:.2e} events/s{left}", message(progress)));
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
    /// Shares of the points that are being played.
    at: BTreeMap<usize, f64>,
    eta: Eta,
}

impl SweepBar {
    pub fn new(points: usize) -> Self {
        let bar = bar(points as u64 * STEPS, "  [{bar:30}] {msg}");
        Self { bar, state: Mutex::default() }
    }

    pub fn show(&self, seen: &Seen<'_>) {
        let Ok(mut state) = self.state.lock() else { return };
        let index = seen.point.index;
        match seen.step {
            Step::At(progress) => {
                state.at.insert(index, progress.share());
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
        let length = (seen.of as u64).saturating_sub(state.before);
        let position = state.played as f64 + state.at.values().sum::<f64>();
        let left = words(state.eta.left(position / length.max(1) as f64, Instant::now()));
        self.bar.set_length(length * STEPS);
        self.bar.set_position((position * STEPS as f64) as u64);
        self.bar.set_message(format!(
            "{over}/{}, {} at once{left}",
            counted(seen.of, "point"),
            state.at.len().max(1)
        ));
    }

    pub fn end(&self) {
        self.bar.finish_and_clear();
    }
}

fn message(progress: Progress) -> String {
    let Progress { now_ns, done, flows, .. } = progress;
    format!("{}, {done}/{}", Unit::MS.digits(3).text(now_ns as f64), counted(flows, "flow"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_goes_by_how_fast_it_was_and_is_not_known_at_first() {
        let (mut eta, begun) = (Eta::default(), Instant::now());
        let mut after =
            |seconds: u64, share: f64| words(eta.left(share, begun + Duration::from_secs(seconds)));
        // What was done before it was first told took time that nobody knows.
        assert_eq!((after(0, 0.1), after(5, 0.1)), (String::new(), String::new()));
        assert_eq!(after(100, 0.11), ", 2h left");
        assert_eq!((after(100, 0.2), after(200, 0.9)), (", 13m left".to_owned(), ", 25s left".to_owned()));
        assert_eq!(after(220, 1.0), ", 0s left");
    }
}
