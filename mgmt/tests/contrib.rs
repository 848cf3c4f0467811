//! Dashboards and alerts ask for metrics that exist, with labels they have.

use std::collections::BTreeSet;
use weir_mgmt::metrics::{self, Family};

fn read(path: &str) -> String {
    let path = format!("{}/../contrib/{path}", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{path}: {e}"))
}

/// Words that start with `weir_`.
fn metrics_in(text: &str) -> BTreeSet<&str> {
    let word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    text.split(|c| !word(c)).filter(|w| w.starts_with("weir_")).collect()
}

#[test]
fn every_query_names_an_existing_metric() {
    let known: BTreeSet<String> = metrics::ALL.iter().flat_map(Family::sample_names).collect();
    for file in ["grafana/weir.json", "prometheus/weir-rules.yml"] {
        let text = read(file);
        let used = metrics_in(&text);
        assert!(used.len() > 8, "{file}: {used:?}");
        for name in used {
            assert!(known.contains(name), "{file}: {name}");
        }
    }
}

#[test]
fn the_dashboard_is_whole() {
    let dashboard: serde_json::Value = serde_json::from_str(&read("grafana/weir.json")).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    let mut cells = BTreeSet::new();
    for panel in panels {
        let queries = panel["targets"].as_array().unwrap();
        assert!(
            !queries.is_empty()
                && queries.iter().all(|q| !metrics_in(q["expr"].as_str().unwrap()).is_empty())
        );
        let of = |key: &str| panel["gridPos"][key].as_u64().unwrap();
        for (x, y) in (0..of("w")).flat_map(|x| (0..of("h")).map(move |y| (x, y))) {
            assert!(
                of("x") + x < 24 && cells.insert((of("x") + x, of("y") + y)),
                "{} overlaps",
                panel["title"]
            );
        }
    }
}

#[test]
fn the_rules_say_what_is_asked_of_them() {
    let text = read("prometheus/weir-rules.yml");
    let alerts = text.matches("- alert: ").count();
    assert!(alerts > 0);
    for key in ["expr: ", "labels: ", "summary: "] {
        assert_eq!(text.matches(key).count(), alerts, "{key}");
    }
}
