//! How far it is: a bar on a terminal, nothing anywhere else.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::time::Duration;
use weir_sim::fabric::Progress;

/// Steps of a bar that stands for one run.
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
pub fn run(name: &str) -> ProgressBar {
    let bar = bar(STEPS, "  {prefix} [{bar:30}] {percent}% {msg}, {eta} left");
    bar.set_prefix(name.to_owned());
    bar
}

/// One run goes on.
pub fn show(bar: &ProgressBar, progress: Progress) {
    bar.set_position(progress.milli());
    bar.set_message(message(progress));
}

/// Of many runs.
pub fn sweep(points: u64) -> ProgressBar {
    bar(points, "  [{bar:30}] {pos}/{len} points, {eta} left; {msg}")
}

pub fn message(progress: Progress) -> String {
    let Progress { now_ns, done, flows, .. } = progress;
    format!("{:.3} ms, {done}/{flows} flows", now_ns as f64 / 1e6)
}
