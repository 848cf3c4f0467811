//! OpenMetrics: every family once, with base units, made from a snapshot.

mod families;
mod samples;

use crate::snapshot::Snapshot;
use crate::text::Text;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;
use std::fmt;
use std::sync::Arc;
use weir_dataplane::stats::{BUCKETS, Histogram, bucket_start};

pub use families::ALL;

/// Content type of OpenMetrics 1.0.
pub const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
/// Content type of the older text form.
pub const PLAIN_TEXT: &str = "text/plain; version=0.0.4; charset=utf-8";

/// What the management thread counts about itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OwnCounters {
    /// Answers by status code.
    pub answers: Vec<(u16, u64)>,
    /// Connections refused for want of room.
    pub refused: u64,
    /// Requests that were not HTTP.
    pub malformed: u64,
    /// Connections closed because the client was too slow.
    pub slow: u64,
}

/// Labels of one sample.
pub type Labels = Vec<(&'static str, String)>;

/// Takes the histograms of a family, one by one.
pub type Each<'a> = dyn FnMut(Labels, &Histogram) -> fmt::Result + 'a;

/// What a family's samples are.
pub enum Samples {
    /// They only grow.
    Counters(fn(&Scrape) -> Vec<(Labels, f64)>),
    /// They only grow; integers, exact.
    Counts(fn(&Scrape) -> Vec<(Labels, u64)>),
    /// They come and go.
    Gauges(fn(&Scrape) -> Vec<(Labels, f64)>),
    /// Times, handed on one by one: they are large.
    Histograms(fn(&Scrape, &mut Each<'_>) -> fmt::Result),
    /// Labels alone.
    Info(fn(&Scrape) -> Labels),
}

/// A metric family.
pub struct Family {
    /// Its name, without the suffixes of its kind.
    pub name: &'static str,
    /// What it means.
    pub help: &'static str,
    /// Its samples.
    pub samples: Samples,
}

impl fmt::Debug for Samples {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Counters(_) | Self::Counts(_) => "counters",
            Self::Gauges(_) => "gauges",
            Self::Histograms(_) => "histograms",
            Self::Info(_) => "info",
        })
    }
}

impl fmt::Debug for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Family").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Family {
    /// The names its samples have.
    pub fn sample_names(&self) -> Vec<String> {
        let with = |suffixes: &[&str]| suffixes.iter().map(|s| format!("{}{s}", self.name)).collect();
        match self.samples {
            Samples::Counters(_) | Samples::Counts(_) => with(&["_total"]),
            Samples::Gauges(_) => with(&[""]),
            Samples::Histograms(_) => with(&["_bucket", "_sum", "_count"]),
            Samples::Info(_) => with(&["_info"]),
        }
    }
}

/// All a scrape is made from.
#[derive(Clone, Debug)]
pub struct Scrape {
    /// The snapshot.
    pub snapshot: Arc<Snapshot>,
    /// The thread's own counters.
    pub own: OwnCounters,
}

impl Collector for Scrape {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        ALL.iter().try_for_each(|family| self.family(family, &mut encoder))
    }
}

impl Scrape {
    fn family(&self, family: &Family, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let kind = match family.samples {
            Samples::Counters(_) | Samples::Counts(_) => MetricType::Counter,
            Samples::Gauges(_) => MetricType::Gauge,
            Samples::Histograms(_) => MetricType::Histogram,
            Samples::Info(_) => MetricType::Info,
        };
        let mut metric = encoder.encode_descriptor(family.name, family.help, None, kind)?;
        match &family.samples {
            Samples::Counters(get) => each(&get(self), &mut metric, |metric, value| {
                metric.encode_counter::<Labels, _, f64>(value, None)
            }),
            Samples::Counts(get) => each(&get(self), &mut metric, |metric, value| {
                metric.encode_counter::<Labels, _, f64>(value, None)
            }),
            Samples::Gauges(get) => each(&get(self), &mut metric, |metric, value| metric.encode_gauge(value)),
            Samples::Histograms(walk) => {
                walk(self, &mut |labels, times| histogram(&mut metric.encode_family(&labels)?, times))
            }
            Samples::Info(get) => metric.encode_info(&get(self)),
        }
    }
}

/// Every sample of a family; without labels there are no braces either.
fn each<V>(
    samples: &[(Labels, V)],
    metric: &mut MetricEncoder<'_>,
    encode: impl Fn(&mut MetricEncoder<'_>, &V) -> fmt::Result,
) -> fmt::Result {
    samples.iter().try_for_each(|(labels, value)| match labels.is_empty() {
        true => encode(metric, value),
        false => encode(&mut metric.encode_family(labels)?, value),
    })
}

/// One bucket per doubling from 256 ns to 8.6 s, the last without end. The sum is taken from the
/// middles of the much finer buckets the workers keep.
fn histogram(metric: &mut MetricEncoder<'_>, values: &Histogram) -> fmt::Result {
    const FIRST: u32 = 8;
    const LAST: u32 = 33;
    let mut buckets: Vec<(f64, u64)> = (FIRST..=LAST).map(|e| ((1u64 << e) as f64 / 1e9, 0)).collect();
    buckets.push((f64::INFINITY, 0));
    let mut sum = 0.0;
    for (i, n) in values.0.iter().enumerate().filter(|(_, n)| **n > 0) {
        let (start, end) = (bucket_start(i), bucket_start((i + 1).min(BUCKETS)));
        sum += (start as f64 + (end - 1) as f64) / 2e9 * *n as f64;
        // A fine bucket never straddles a power of two, and its highest value is below its end.
        let bucket = (FIRST..=LAST).position(|e| end - 1 <= 1 << e).unwrap_or(buckets.len() - 1);
        buckets[bucket].1 += n;
    }
    metric.encode_histogram::<Labels>(sum, values.count(), &buckets, None)
}

/// The scrape as OpenMetrics 1.0 text.
pub fn open_metrics(scrape: Scrape) -> Text {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(scrape));
    let mut text = Text::default();
    // Writing into a text does not fail.
    let _ = prometheus_client::encoding::text::encode(&mut text, &registry);
    text
}

/// The same in the older text form, for scrapers that do not ask for OpenMetrics.
pub fn plain_text(scrape: Scrape) -> Text {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(scrape));
    let mut plain = Plain::default();
    // Writing into a text does not fail.
    let _ = prometheus_client::encoding::text::encode(&mut plain, &registry);
    plain.text
}

/// Takes OpenMetrics and keeps the older form of each line as soon as it is whole.
#[derive(Default)]
struct Plain {
    text: Text,
    line: String,
}

impl fmt::Write for Plain {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for part in text.split_inclusive('\n') {
            self.line.push_str(part);
            if self.line.ends_with('\n') {
                if self.line != "# EOF\n" && !self.line.starts_with("# UNIT") {
                    self.text.push_str(&plain_line(&self.line));
                }
                self.line.clear();
            }
        }
        Ok(())
    }
}

/// A line with its end. In the older form the descriptor carries the name of the samples, and there is no info type.
fn plain_line(line: &str) -> String {
    let mut words = line.splitn(4, ' ');
    let (Some("#"), Some(what), Some(name), Some(rest)) =
        (words.next(), words.next(), words.next(), words.next())
    else {
        return line.to_owned();
    };
    let family = ALL.iter().find(|family| family.name == name);
    let (name, kind) = match family.map(|family| &family.samples) {
        Some(Samples::Counters(_) | Samples::Counts(_)) => (format!("{name}_total"), "counter"),
        Some(Samples::Info(_)) => (format!("{name}_info"), "gauge"),
        _ => (name.to_owned(), rest),
    };
    match what {
        "TYPE" => format!("# {what} {name} {}\n", kind.trim_end()),
        _ => format!("# {what} {name} {rest}"),
    }
}

/// Whether an `Accept` header asks for OpenMetrics at least as much as for plain text.
pub fn wants_open_metrics(accept: &str) -> bool {
    let weight = |kind: &str| {
        let mut best: Option<f64> = None;
        for item in accept.split(',') {
            let mut parts = item.split(';').map(str::trim);
            let media = parts.next().unwrap_or("");
            let q = parts.find_map(|p| p.strip_prefix("q=")).map_or(Some(1.0), |q| q.parse().ok());
            if let (true, Some(q)) = (media.eq_ignore_ascii_case(kind), q) {
                best = Some(best.map_or(q, |b| b.max(q)));
            }
        }
        best
    };
    let open = weight("application/openmetrics-text").unwrap_or(0.0);
    open > 0.0 && open >= weight("text/plain").unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake;
    use crate::times::Times;
    use std::collections::{HashMap, HashSet};
    use weir_dataplane::stats::PauseStats;

    fn scrape() -> Scrape {
        let own = OwnCounters { answers: vec![(200, 5), (404, 1)], ..OwnCounters::default() };
        Scrape { snapshot: Arc::new(fake::snapshot()), own }
    }

    /// Samples of an exposition by name and labels; panics on a line that is none.
    fn samples(text: &str) -> HashMap<String, f64> {
        let mut all = HashMap::new();
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let (name, value) = line.rsplit_once(' ').unwrap_or_else(|| panic!("{line}"));
            assert!(all.insert(name.to_owned(), value.parse().unwrap()).is_none(), "twice: {name}");
        }
        all
    }

    #[test]
    fn families_are_named_by_the_rules() {
        let mut seen = HashSet::new();
        for family in ALL {
            assert!(seen.insert(family.name), "{}", family.name);
            assert!(family.name.starts_with("weir_"), "{}", family.name);
            assert!(!family.name.ends_with("_total") && !family.name.ends_with("_info"), "{}", family.name);
            assert!(!family.help.is_empty() && !family.help.ends_with('.'), "{}", family.name);
        }
    }

    #[test]
    fn values_labels_and_escapes() {
        let text = open_metrics(scrape()).to_string();
        assert!(text.ends_with("# EOF\n"));
        let all = samples(&text);
        assert_eq!(all["weir_port_rx_packets_total{port=\"p0\"}"], 2000.0);
        assert_eq!(all["weir_queue_depth_bytes{port=\"p\\\"1\\\\\",priority=\"3\"}"], 20_000.0);
        assert_eq!(all["weir_pfc_paused_seconds_total{port=\"p0\",priority=\"3\",direction=\"tx\"}"], 0.1);
        assert_eq!(all["weir_ecn_threshold_bytes{port=\"p0\",priority=\"3\",bound=\"kmax\"}"], 40_000.0);
        assert_eq!(all["weir_conservation_error_packets"], 0.0);
        assert_eq!(all["weir_http_requests_total{code=\"404\"}"], 1.0);
        assert!(text.contains("# TYPE weir_build info\n"), "{text}");
        assert!(!all.keys().any(|name| name.contains("weir_queue_limit_bytes")), "no limit, no sample");
    }

    #[test]
    fn histograms_are_cumulative_and_end_in_infinity() {
        let all = samples(&open_metrics(scrape()).to_string());
        let le = |bound: &str| {
            all[&format!("weir_residence_seconds_bucket{{le=\"{bound}\",port=\"p0\",priority=\"3\"}}")]
        };
        // 50 us lies between 2^15 and 2^16 ns.
        assert_eq!((le("0.000032768"), le("0.000065536"), le("+Inf")), (0.0, 2000.0, 2000.0));
        assert_eq!(all["weir_residence_seconds_count{port=\"p0\",priority=\"3\"}"], 2000.0);
        let mean = all["weir_residence_seconds_sum{port=\"p0\",priority=\"3\"}"] / 2000.0;
        assert!((mean - 50e-6).abs() < 50e-6 / 8.0, "{mean}");
        assert!(!all.keys().any(|name| name.contains("1.79")), "f64::MAX is no bound");
    }

    #[test]
    fn the_parts_of_a_wait_are_told_of_queues_that_have_sent() {
        let all = samples(&open_metrics(scrape()).to_string());
        let of = |family: &str, more: &str| {
            all.get(&format!("{family}{{{more}port=\"p0\",priority=\"3\"}}")).copied()
        };
        for family in ["weir_queueing_seconds", "weir_pause_seconds"] {
            assert_eq!(of(&format!("{family}_count"), ""), Some(2000.0));
            assert!(!all.keys().any(|name| name.starts_with(family) && name.contains("priority=\"0\"")));
        }
        // Every tenth of 2000 frames was held for 20 us.
        assert_eq!(of("weir_pause_seconds_bucket", "le=\"2.56e-7\","), Some(1800.0));
        assert_eq!(of("weir_pause_seconds_bucket", "le=\"0.000032768\","), Some(2000.0));
        assert_eq!(of("weir_queueing_seconds_bucket", "le=\"0.000032768\","), Some(200.0));
        assert_eq!(of("weir_pause_wait_seconds_total", ""), Some(0.004));
    }

    #[test]
    fn exact_powers_of_two_count_within_their_bound() {
        let mut h = Histogram::default();
        h.note(0, 1);
        h.note(u64::MAX, 1);
        let mut scrape = scrape();
        let mut snapshot = (*scrape.snapshot).clone();
        let mut reading = (*snapshot.now).clone();
        reading.ports[0].latency[0] = Times::of(&h, &PauseStats::default(), 0);
        snapshot.now = Arc::new(reading);
        scrape.snapshot = Arc::new(snapshot);
        let all = samples(&open_metrics(scrape).to_string());
        let bucket = |le: &str| {
            all[&format!("weir_residence_seconds_bucket{{le=\"{le}\",port=\"p0\",priority=\"0\"}}")]
        };
        assert_eq!((bucket("2.56e-7"), bucket("8.589934592"), bucket("+Inf")), (1.0, 1.0, 2.0));
    }

    #[test]
    fn the_older_form_has_the_same_samples() {
        let (new, old) = (open_metrics(scrape()).to_string(), plain_text(scrape()).to_string());
        assert_eq!(samples(&new), samples(&old));
        assert!(!old.contains("# EOF") && !old.contains(" info\n"));
        assert!(old.contains("# TYPE weir_port_rx_packets_total counter\n"));
        assert!(old.contains("# TYPE weir_build_info gauge\n"));
    }

    #[test]
    fn every_sample_belongs_to_a_family() {
        let names: HashSet<String> = ALL.iter().flat_map(Family::sample_names).collect();
        for sample in samples(&open_metrics(scrape()).to_string()).keys() {
            let name = sample.split('{').next().unwrap();
            assert!(names.contains(name), "{name}");
        }
    }

    #[test]
    fn content_negotiation() {
        let prometheus = "application/openmetrics-text;version=1.0.0;q=0.5,application/openmetrics-text;version=0.0.1;q=0.4,text/plain;version=0.0.4;q=0.3,*/*;q=0.2";
        assert!(wants_open_metrics(prometheus));
        for accept in ["", "*/*", "text/plain", "text/plain, application/openmetrics-text;q=0.1", "a;q=x,,;"]
        {
            assert!(!wants_open_metrics(accept), "{accept}");
        }
        assert!(wants_open_metrics("Application/OpenMetrics-Text"));
    }
}
