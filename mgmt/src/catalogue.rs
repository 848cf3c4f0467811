//! Everything that is shown, and where: `docs/metrics.md` is printed from here, and a walk over all counters of the data path
//! finds each of them shown, or hidden for a reason.

use crate::metrics::{self, Samples};
use crate::table::{self, Form};
use std::fmt::Write;

/// Counters that nobody sees as they are, with the reason.
const HIDDEN: &[(&str, &str)] = &[
    ("gauges.storm_backlog", "told by the event `storm` when it is detected"),
    ("gauges.storm_stalled_ns", "told by the event `storm` when it is detected"),
    ("gauges.storm_dropping", "what the watchdog does is told by the event `storm`"),
    ("gauges.storm_forwarding", "what the watchdog does is told by the event `storm`"),
    ("gauges.pg_xoff", "for `weir explain`; who is paused is shown as `xoff_priorities`"),
    ("gauges.queue_depth", "for `weir explain`; what queues hold is shown as it is charged"),
    ("gauges.queue_flushing", "for `weir explain`; what is flushed is told by its drop reason"),
    ("loop.fdb_move_key", "the last move is told by the event `fdb` and by `weir show fdb`"),
    ("loop.fdb_move_from", "the last move is told by the event `fdb` and by `weir show fdb`"),
    ("loop.fdb_move_to", "the last move is told by the event `fdb` and by `weir show fdb`"),
    ("loop.timed_turns", "cycles are shown per frame timed, not per turn"),
];

/// The unit a name ends in.
fn unit(name: &str) -> &'static str {
    const UNITS: [(&str, &str); 17] = [
        ("_bits_per_second", "bit/s"),
        ("_bps", "bit/s"),
        ("_pps", "frames/s"),
        ("_packets", "frames"),
        ("_frames", "frames"),
        ("frames", "frames"),
        ("_bytes", "bytes"),
        ("_seconds", "s"),
        ("_ns", "ns"),
        ("_ms", "ms"),
        ("_hz", "Hz"),
        ("_ppm", "1e-6"),
        ("_share", "1"),
        ("_utilisation", "1"),
        ("_ratio", "1"),
        ("_cycles", "cycles"),
        ("_drops", "frames"),
    ];
    UNITS.iter().find(|(end, _)| name.ends_with(end)).map_or("", |(_, unit)| unit)
}

fn kind(samples: &Samples) -> &'static str {
    match samples {
        Samples::Counters(_) | Samples::Counts(_) => "counter",
        Samples::Gauges(_) => "gauge",
        Samples::Histograms(_) => "histogram",
        Samples::Info(_) => "info",
    }
}

fn form(form: Form) -> &'static str {
    match form {
        Form::Text => "text",
        Form::Flag => "true, false",
        Form::Count => "integer",
        Form::Maybe => "integer, null",
        Form::Rate => "number",
        Form::Share => "part of one",
    }
}

/// `docs/metrics.md`.
pub fn page() -> String {
    let mut page = "# Metrics and tables\n\n\
        All that a switch shows, printed from the lists in `mgmt/src/metrics/families.rs` and `mgmt/src/table`:\n\
        `WEIR_WRITE_DOCS=1 cargo test -p weir-mgmt catalogue`. How to ask for it: [management.md](management.md).\n\n\
        ## /metrics\n\n\
        `port` is a name; `priority` stands for the egress queue or priority group of that number, too. A counter ends in `_total`.\n\n\
        | Metric | Kind | Unit | What |\n| --- | --- | --- | --- |\n"
        .to_owned();
    for family in metrics::ALL {
        let names: Vec<String> = family.sample_names().iter().map(|name| format!("`{name}`")).collect();
        let (kind, unit) = (kind(&family.samples), unit(family.name));
        let _ = writeln!(page, "| {} | {kind} | {unit} | {} |", names.join(", "), family.help);
    }
    for table in table::ALL {
        let (name, path) = (table.name, table.path);
        let _ = write!(page, "\n## {path}\n\n{} `weir show {name}`", table.what);
        page.push_str(if table.by_port { "; `?port=NAME` selects.\n\n" } else { ".\n\n" });
        page.push_str("| Key | Heading | Form | Unit | What |\n| --- | --- | --- | --- | --- |\n");
        for c in table.columns {
            let (form, unit) = (form(c.form), unit(c.name));
            let _ = writeln!(page, "| `{}` | {} | {form} | {unit} | {} |", c.name, c.head, c.what);
        }
    }
    page.push_str(
        "\n## What is not shown\n\nEvery other counter of the data path is in one of the above, which a test sees to.\n\n\
         | Counter | Why not |\n| --- | --- |\n",
    );
    for (name, why) in HIDDEN {
        let _ = writeln!(page, "| `{name}` | {why} |");
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake;
    use crate::metrics::{OwnCounters, Scrape};
    use crate::sample::Sampler;
    use crate::snapshot::Reading;
    use std::collections::BTreeSet;
    use std::sync::Arc;
    use weir_dataplane::stats::{LoopStats, PortGauges, PortStats, Words};

    #[test]
    fn the_page_of_metrics_is_the_list_in_the_code() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/metrics.md");
        if std::env::var_os("WEIR_WRITE_DOCS").is_some() {
            std::fs::write(path, page()).unwrap();
        }
        let committed = std::fs::read_to_string(path).unwrap_or_default();
        assert!(
            committed == page(),
            "docs/metrics.md is stale: WEIR_WRITE_DOCS=1 cargo test -p weir-mgmt catalogue"
        );
    }

    /// Another value in every word of one counter.
    fn change(block: &mut impl Words, fields: &[(&str, usize)], field: &str) {
        let at = fields.iter().position(|(name, _)| *name == field).unwrap();
        let first: usize = fields[..at].iter().map(|(_, words)| words).sum();
        let mut word = 0;
        block.words(&mut |words| {
            for value in words {
                // Bits of every priority, and more than any limit of the buffer that is fake; a limit where there was none.
                if (first..first + fields[at].1).contains(&word) {
                    *value = if *value > 1 << 60 { 12_345 } else { (*value ^ 0xff) + (1 << 20) };
                }
                word += 1;
            }
        });
    }

    /// What everybody is shown after the second reading.
    fn shown(second: Reading) -> [String; 2] {
        let mut sampler = Sampler::new(fake::info());
        sampler.sample(fake::reading(1), 1_700_000_000_000, 100);
        let snapshot = sampler.sample(second, 1_700_000_000_100, 200);
        let scrape = Scrape { snapshot: Arc::new(snapshot.clone()), own: OwnCounters::default() };
        [table::everything(&snapshot).to_string(), metrics::open_metrics(scrape).to_string()]
    }

    #[test]
    fn every_counter_is_shown_or_hidden_for_a_reason() {
        let before = shown(fake::reading(2));
        let mut unseen = BTreeSet::new();
        let mut look = |name: String, change: &dyn Fn(&mut Reading)| {
            let mut reading = fake::reading(2);
            change(&mut reading);
            if shown(reading) == before {
                unseen.insert(name);
            }
        };
        for (field, _) in PortStats::FIELDS {
            look(format!("port.{field}"), &|r| change(&mut r.ports[0].stats, PortStats::FIELDS, field));
        }
        for (field, _) in PortGauges::FIELDS {
            look(format!("gauges.{field}"), &|r| change(&mut r.ports[0].gauges, PortGauges::FIELDS, field));
        }
        for (field, _) in LoopStats::FIELDS {
            look(format!("loop.{field}"), &|r| change(&mut r.loops[0], LoopStats::FIELDS, field));
        }
        let hidden: BTreeSet<String> = HIDDEN.iter().map(|(name, _)| (*name).to_owned()).collect();
        assert_eq!(unseen, hidden, "left: shown nowhere; right: said to be hidden");
    }
}
