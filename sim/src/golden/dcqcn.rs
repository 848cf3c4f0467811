//! `ns3-dcqcn`: a DCQCN sender driven by CNPs at given times, and its state after every event.
//!
//! Known by a `params.json` whose entries name a `line_bps`. The times of the `first` and `cnp` rows
//! are the script; every other row is the model's own. Alpha is compared as a double, rates as integers.

use std::num::NonZeroU64;

use serde::Deserialize;
use weir_dataplane::types::Nanos;
use weir_endpoint::dcqcn::ns3::{Params, Sender, Step, Timer, Timers};

use super::folder::{Folder, Table};
use super::report::{Got, Tally};
use super::table::Rows;
use super::{FileReport, GoldenError, Kind, Sink};
use crate::event_queue::EventQueue;

/// The kind of these data sets.
pub(super) const KIND: Kind = Kind { name: "ns3-dcqcn", claims: |f| f.params_mention("line_bps"), replay };

const COLUMNS: &[&str] = &["time_ns", "event", "rate_bps", "target_bps", "alpha", "stage"];

/// No rate in bit/s and no time in ns is larger: a factor of 1000 and any sum of two stay in 64 bits.
const MAX: u64 = 1 << 50;

/// One entry of `params.json`.
#[derive(Deserialize)]
struct Entry {
    line_bps: u64,
    g: f64,
    alpha_period_us: NonZeroU64,
    decrease_period_us: NonZeroU64,
    increase_period_us: NonZeroU64,
    fast_recovery_steps: u32,
    ai_bps: u64,
    hai_bps: u64,
    min_rate_bps: u64,
    clamp_target: bool,
    rate_on_first_cnp: f64,
    end_us: NonZeroU64,
}

impl Entry {
    /// The sender's parameters and the end of the run, or the key that is out of range.
    fn checked(self) -> Result<(Params, Nanos), String> {
        let limited = |key: &str, n: u64| {
            if n <= MAX { Ok(n) } else { Err(format!("`{key}` is {n}, more than {MAX}")) }
        };
        let micros = |key: &str, n: NonZeroU64| {
            limited(key, n.get().saturating_mul(1000)).map(|ns| NonZeroU64::new(ns).unwrap_or(n))
        };
        let fraction = |key: &str, x: f64| {
            if (0.0..=1.0).contains(&x) { Ok(x) } else { Err(format!("`{key}` is {x}, not from 0 to 1")) }
        };
        let params = Params {
            line_bps: limited("line_bps", self.line_bps)?,
            g: fraction("g", self.g)?,
            alpha_period: micros("alpha_period_us", self.alpha_period_us)?,
            decrease_period: micros("decrease_period_us", self.decrease_period_us)?,
            increase_period: micros("increase_period_us", self.increase_period_us)?,
            fast_recovery_steps: self.fast_recovery_steps,
            ai_bps: limited("ai_bps", self.ai_bps)?,
            hai_bps: limited("hai_bps", self.hai_bps)?,
            min_rate_bps: limited("min_rate_bps", self.min_rate_bps)?,
            clamp_target: self.clamp_target,
            rate_on_first_cnp: fraction("rate_on_first_cnp", self.rate_on_first_cnp)?,
        };
        Ok((params, micros("end_us", self.end_us)?.get()))
    }
}

/// CNPs and timers to come.
struct Schedule {
    /// The timer; `None`: a CNP.
    pending: EventQueue<Option<usize>, 0>,
    /// Number of the live run of each timer; older runs are cancelled.
    live: [u64; TIMERS.len()],
}

const TIMERS: [Timer; 3] = [Timer::Alpha, Timer::Decrease, Timer::Increase];

impl Timers for Schedule {
    fn arm(&mut self, timer: Timer, at: Nanos) {
        let index = TIMERS.iter().position(|&t| t == timer).unwrap_or(0);
        self.live[index] = self.pending.next_order();
        self.pending.push(at, Some(index));
    }
}

/// A sender and what it waits for.
struct Run {
    params: Params,
    end: Nanos,
    sender: Sender,
    schedule: Schedule,
}

impl Run {
    /// The next event before the end: its time and its name.
    fn step(&mut self) -> Option<(Nanos, &'static str)> {
        loop {
            let (now, number, timer) = self.schedule.pending.pop_before((self.end, 0))?;
            let step = match timer {
                None => self.sender.on_cnp(&self.params, now, &mut self.schedule),
                Some(index) if self.schedule.live[index] != number => continue,
                Some(index) => self.sender.on_timer(&self.params, TIMERS[index], now, &mut self.schedule),
            };
            let event = match step {
                Step::First => "first",
                Step::Cnp => "cnp",
                Step::Alpha => "alpha",
                Step::Cut => "dec",
                Step::NoCut => "nodec",
                Step::Raise => "inc",
            };
            return Some((now, event));
        }
    }

    fn row(&self, event: Option<(Nanos, &'static str)>) -> [Got; COLUMNS.len()] {
        let (time, event) = event.map_or((Got::Text("the end"), "none"), |(now, event)| (now.into(), event));
        [
            time,
            Got::Text(event),
            self.sender.rate_bps().into(),
            self.sender.target_bps().into(),
            Got::Real(self.sender.alpha()),
            self.sender.stage().into(),
        ]
    }
}

fn replay(folder: &Folder, sink: Sink<'_>) -> Result<(), GoldenError> {
    folder.tables.iter().try_for_each(|table| replay_table(folder, table).map(&mut *sink))
}

fn replay_table(folder: &Folder, table: &Table) -> Result<FileReport, GoldenError> {
    let entry: Entry = folder.params_of(table)?;
    let (params, end) = entry.checked().map_err(|what| folder.bad_params(table, &what))?;
    let mut schedule = Schedule { pending: EventQueue::new(0, 1), live: [0; TIMERS.len()] };
    let mut script = Rows::open(table, COLUMNS)?;
    while let Some(row) = script.next()? {
        if matches!(row.text("event"), "first" | "cnp") {
            schedule.pending.push(row.uint("time_ns", 0, MAX)?, None);
        }
    }
    let mut run = Run { sender: Sender::new(&params), params, end, schedule };
    let mut tally = Tally::new(&table.name);
    let mut rows = Rows::open(table, COLUMNS)?;
    while let Some(row) = rows.next()? {
        let event = run.step();
        tally.row(&row, &run.row(event));
    }
    if let Some(event) = run.step() {
        let cells = run.row(Some(event)).map(|cell| cell.to_string());
        tally.left_over(cells.join(","));
    }
    Ok(tally.finish())
}
