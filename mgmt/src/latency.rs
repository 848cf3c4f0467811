//! Latency in the files of HdrHistogram: `.hgrm` for people and plots, `.hlog` (interval log V2) for its tools.
//!
//! Workers count in buckets an eighth wide; a value here is the upper end of its bucket, so quantiles are never
//! too low and at most an eighth too high.

use crate::snapshot::{Reading, Snapshot};
use crate::text::Text;
use crate::times::{Part, Times};
use hdrhistogram::Histogram as Hdr;
use hdrhistogram::serialization::V2DeflateSerializer;
use hdrhistogram::serialization::interval_log::{IntervalLogWriterBuilder, Tag};
use std::collections::VecDeque;
use std::fmt::Write;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use weir_dataplane::stats::{BUCKETS, Histogram, bucket_start};

/// Length of an interval of the log, ms.
pub const INTERVAL: u64 = 1_000;

/// Intervals kept.
pub const KEPT: usize = 60;

/// Times are logged in ns; tools show ms.
const NS_PER_MS: f64 = 1e6;

/// What left a queue in one interval: (port, queue, times).
type Lane = (u16, u8, Times);

#[derive(Debug)]
struct Interval {
    /// When it began, ms since 1970: for people.
    unix_ms: u64,
    /// From when until when, as [`Snapshot::uptime_ms`].
    from: u64,
    to: u64,
    lanes: Vec<Lane>,
}

/// The intervals of the last minute.
#[derive(Debug, Default)]
pub struct Intervals {
    kept: VecDeque<Interval>,
    before: Option<Start>,
}

/// What an interval under way began with.
#[derive(Debug)]
struct Start {
    unix_ms: u64,
    uptime_ms: u64,
    reading: Arc<Reading>,
}

/// What of the switch is looked at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// This port only.
    pub port: Option<usize>,
    /// This queue only.
    pub queue: Option<usize>,
    /// This part of the time.
    pub part: Part,
}

impl Selection {
    fn has(&self, port: u16, queue: u8) -> bool {
        self.port.is_none_or(|p| p == usize::from(port)) && self.queue.is_none_or(|q| q == usize::from(queue))
    }
}

/// Why a file cannot be made.
#[derive(Debug, thiserror::Error)]
#[error("the histogram cannot be written: {0}")]
pub struct WriteError(String);

impl Intervals {
    /// Takes a snapshot into account, if an interval has passed.
    pub fn observe(&mut self, snapshot: &Snapshot) {
        let Snapshot { unix_ms, uptime_ms, .. } = *snapshot;
        let now = Start { unix_ms, uptime_ms, reading: Arc::clone(&snapshot.now) };
        let Some(before) = &self.before else {
            self.before = Some(now);
            return;
        };
        if uptime_ms < before.uptime_ms + INTERVAL {
            return;
        }
        let both = lanes(&snapshot.now).zip(lanes(&before.reading));
        let lanes = both.map(|((port, queue, now), (_, _, then))| (port, queue, now.since(then)));
        let lanes = lanes.filter(|(_, _, times)| !times.is_empty()).collect();
        if self.kept.len() == KEPT {
            self.kept.pop_front();
        }
        let Start { unix_ms, uptime_ms: from, .. } = *before;
        self.kept.push_back(Interval { unix_ms, from, to: uptime_ms, lanes });
        self.before = Some(now);
    }

    /// An interval log of the last minute, a tag `PORT-prioN` per port and queue; or, if `cumulative`, one
    /// interval from the start until now.
    ///
    /// # Errors
    /// [`WriteError`].
    pub fn hlog(&self, snapshot: &Snapshot, which: Selection, cumulative: bool) -> Result<Text, WriteError> {
        let whole;
        let intervals: Vec<&Interval> = if cumulative {
            let to = snapshot.uptime_ms;
            let lanes = lanes(&snapshot.now).map(|(port, queue, times)| (port, queue, times.clone()));
            let unix_ms = snapshot.unix_ms.saturating_sub(to);
            whole = Interval { unix_ms, from: 0, to, lanes: lanes.collect() };
            vec![&whole]
        } else {
            self.kept.iter().collect()
        };
        let (unix_ms, start) =
            intervals.first().map_or((snapshot.unix_ms, 0), |first| (first.unix_ms, first.from));
        let time = SystemTime::UNIX_EPOCH + Duration::from_millis(unix_ms);
        let fail = |what: &dyn std::fmt::Debug| WriteError(format!("{what:?}"));
        let (mut out, mut serializer) = (Text::default(), V2DeflateSerializer::new());
        let named = format!(
            "[{} in {}, ns, upper ends of buckets an eighth wide]",
            which.part.name(),
            one_line(&snapshot.info.name)
        );
        let mut log = IntervalLogWriterBuilder::new()
            .add_comment("[Histogram log format version 1.3]")
            .add_comment(&named)
            .with_start_time(time)
            .with_base_time(time)
            .with_max_value_divisor(NS_PER_MS)
            .begin_log_with(&mut out, &mut serializer)
            .map_err(|e| fail(&e))?;
        for interval in intervals {
            for (port, queue, times) in interval.lanes.iter().filter(|(p, q, _)| which.has(*p, *q)) {
                if times.is_empty() {
                    continue;
                }
                let name = snapshot.info.ports.get(usize::from(*port)).map_or("", |p| p.name.as_str());
                let tag = format!("{}-prio{queue}", one_line(name));
                let histogram = hdr(&times.part(which.part))?;
                let (at, long) = (interval.from.saturating_sub(start), interval.to - interval.from);
                log.write_histogram(
                    &histogram,
                    Duration::from_millis(at),
                    Duration::from_millis(long),
                    Tag::new(&tag),
                )
                .map_err(|e| fail(&e))?;
            }
        }
        drop(log);
        Ok(out)
    }
}

/// Commas, spaces and line ends have a meaning in a log.
fn one_line(name: &str) -> String {
    name.chars().map(|c| if c == ',' || c.is_whitespace() || c.is_control() { '_' } else { c }).collect()
}

fn lanes(reading: &Reading) -> impl Iterator<Item = (u16, u8, &Times)> {
    let ports = reading.ports.iter().enumerate();
    ports.flat_map(|(port, p)| p.latency.iter().enumerate().map(move |(q, t)| (port as u16, q as u8, t)))
}

/// Two digits are more than the buckets have.
fn hdr(times: &Histogram) -> Result<Hdr<u64>, WriteError> {
    let mut histogram =
        Hdr::new_with_bounds(1, bucket_start(BUCKETS), 2).map_err(|e| WriteError(e.to_string()))?;
    for (bucket, frames) in times.0.iter().enumerate().filter(|(_, frames)| **frames > 0) {
        let value = bucket_start(bucket + 1) - 1;
        histogram.record_n(value, *frames).map_err(|e| WriteError(e.to_string()))?;
    }
    Ok(histogram)
}

/// The percentile distribution of what is selected, in microseconds: since start, or of the window rates are
/// taken over.
///
/// # Errors
/// [`WriteError`].
pub fn hgrm(snapshot: &Snapshot, which: Selection, window: bool) -> Result<String, WriteError> {
    let mut sum = Histogram::default();
    for (port, queue, all) in lanes(&snapshot.now).filter(|(p, q, _)| which.has(*p, *q)) {
        let lately = || Some(&snapshot.ports.get(usize::from(port))?.latency[usize::from(queue)]);
        if let Some(times) = if window { lately() } else { Some(all) } {
            times.add_to(which.part, &mut sum);
        }
    }
    let histogram = hdr(&sum)?;
    let micros = |ns: f64| ns / 1e3;
    let mut text = String::from("       Value     Percentile TotalCount 1/(1-Percentile)\n\n");
    let mut total = 0;
    for step in histogram.iter_quantiles(5) {
        total += step.count_since_last_iteration();
        let (value, q) = (micros(step.value_iterated_to() as f64), step.quantile_iterated_to());
        let _ = match q < 1.0 {
            true => writeln!(text, "{value:12.3} {q:2.12} {total:10} {:14.2}", 1.0 / (1.0 - q)),
            false => writeln!(text, "{value:12.3} {q:2.12} {total:10}"),
        };
    }
    let (mean, deviation) = (micros(histogram.mean()), micros(histogram.stdev()));
    let max = micros(if histogram.is_empty() { 0.0 } else { histogram.max() as f64 });
    let _ = write!(
        text,
        "#[Mean    = {mean:12.3}, StdDeviation   = {deviation:12.3}]\n\
         #[Max     = {max:12.3}, Total count    = {:12}]\n\
         #[Buckets = {:12}, SubBuckets     = {:12}]\n",
        histogram.len(),
        histogram.buckets(),
        histogram.distinct_values() / usize::from(histogram.buckets()).max(1),
    );
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake;
    use crate::sample::Sampler;
    use data_encoding::BASE64;
    use hdrhistogram::serialization::Deserializer;
    use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};

    fn run(seconds: u64) -> (Intervals, Snapshot) {
        let (mut sampler, mut intervals) = (Sampler::new(fake::info()), Intervals::default());
        let mut snapshot = Snapshot::default();
        for n in 0..=seconds * 10 {
            snapshot = sampler.sample(fake::reading(n), 1_000_000 + n * 100, n * 100);
            intervals.observe(&snapshot);
        }
        (intervals, snapshot)
    }

    /// Tag, start, length (ms), frames and longest of every interval of a log.
    fn read(log: &str) -> Vec<(String, u64, u64, u64, u64)> {
        let mut deserializer = Deserializer::new();
        IntervalLogIterator::new(log.as_bytes())
            .filter_map(|entry| match entry.expect("a valid log") {
                LogEntry::Interval(interval) => {
                    let bytes = BASE64.decode(interval.encoded_histogram().as_bytes()).unwrap();
                    let histogram: Hdr<u64> = deserializer.deserialize(&mut &bytes[..]).unwrap();
                    Some((
                        interval.tag().map(|t| t.as_str().to_owned()).unwrap_or_default(),
                        interval.start_timestamp().as_millis() as u64,
                        interval.duration().as_millis() as u64,
                        histogram.len(),
                        histogram.max(),
                    ))
                }
                _ => None,
            })
            .collect()
    }

    #[test]
    fn a_log_can_be_read_back() {
        let (intervals, snapshot) = run(3);
        let log = intervals.hlog(&snapshot, Selection::default(), false).unwrap().to_string();
        assert!(log.starts_with("#[Histogram log format version 1.3]\n"), "{log}");
        let all = read(&log);
        assert_eq!(all.len(), 6, "{log}");
        assert_eq!((&all[0].0[..], all[0].1, all[0].2, all[0].3), ("p0-prio3", 0, 1000, 10_000));
        assert_eq!((&all[5].0[..], all[5].1), ("p\"1\\-prio3", 2000));
        assert!(all.iter().all(|i| (50_000..57_000).contains(&i.4)), "{all:?}");
        let one = Selection { port: Some(1), ..Selection::default() };
        let whole = read(&intervals.hlog(&snapshot, one, true).unwrap().to_string());
        assert_eq!(whole.len(), 1);
        assert_eq!((whole[0].2, whole[0].3), (3000, 30_000));
        let none = Selection { queue: Some(0), ..Selection::default() };
        assert!(read(&intervals.hlog(&snapshot, none, true).unwrap().to_string()).is_empty());
    }

    #[test]
    fn a_clock_that_is_set_loses_no_interval() {
        for step in [-3_600_000, 3_600_000] {
            let (mut sampler, mut intervals) = (Sampler::new(fake::info()), Intervals::default());
            let mut snapshot = Snapshot::default();
            for n in 0..=30 {
                let unix = 1_700_000_000_000 + n as i64 * 100 + if n < 15 { 0 } else { step };
                snapshot = sampler.sample(fake::reading(n), unix as u64, n * 100);
                intervals.observe(&snapshot);
            }
            let port = Selection { port: Some(0), ..Selection::default() };
            let log = read(&intervals.hlog(&snapshot, port, false).unwrap().to_string());
            let seen: Vec<_> = log.iter().map(|i| (i.1, i.2, i.3)).collect();
            assert_eq!(seen, [(0, 1000, 10_000), (1000, 1000, 10_000), (2000, 1000, 10_000)]);
        }
    }

    #[test]
    fn parts_have_logs_and_distributions_of_their_own() {
        let (intervals, snapshot) = run(3);
        for (part, longest) in [(Part::Queueing, 49_000..57_000), (Part::Pause, 20_000..23_000)] {
            let which = Selection { part, ..Selection::default() };
            for cumulative in [false, true] {
                let log = intervals.hlog(&snapshot, which, cumulative).unwrap().to_string();
                assert!(log.contains(&format!("#[{} in leaf1", part.name())), "{log}");
                let all = read(&log);
                assert_eq!((all.len(), all[0].3), if cumulative { (2, 30_000) } else { (6, 10_000) });
                assert!(all.iter().all(|i| longest.contains(&i.4)), "{all:?}");
            }
            let text = hgrm(&snapshot, which, false).unwrap();
            assert!(text.contains("Total count    =        60000]"), "{text}");
            let max = text.split("#[Max     =").nth(1).unwrap().split(',').next().unwrap().trim();
            assert!(longest.contains(&((max.parse::<f64>().unwrap() * 1e3) as u64)), "{max}");
        }
    }

    #[test]
    fn intervals_are_bounded() {
        let (intervals, snapshot) = run(KEPT as u64 + 5);
        assert_eq!(intervals.kept.len(), KEPT);
        let log = intervals.hlog(&snapshot, Selection::default(), false).unwrap().to_string();
        let first = read(&log).remove(0);
        assert_eq!((first.1, first.3), (0, 10_000));
    }

    #[test]
    fn a_distribution_ends_with_everything() {
        let (_, snapshot) = run(2);
        let text = hgrm(&snapshot, Selection::default(), false).unwrap();
        let mut lines = text.lines();
        assert_eq!(lines.next(), Some("       Value     Percentile TotalCount 1/(1-Percentile)"));
        let last = text.lines().rfind(|line| !line.starts_with('#')).unwrap();
        let words: Vec<&str> = last.split_whitespace().collect();
        assert_eq!(words[1..], ["1.000000000000", "40000"]);
        let value: f64 = words[0].parse().unwrap();
        assert!((50.0..57.0).contains(&value), "{text}");
        assert!(text.contains("Total count    =        40000]"), "{text}");
        // The window is one second of two ports.
        assert!(hgrm(&snapshot, Selection::default(), true).unwrap().contains("=        20000]"));
        let nothing = hgrm(&snapshot, Selection { queue: Some(7), ..Selection::default() }, false).unwrap();
        assert!(nothing.contains("Total count    =            0]"), "{nothing}");
    }
}
