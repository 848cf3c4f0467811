//! HTML pages that need nothing else: no server, no network, no library.

use serde_json::Value;

const CSS: &str = include_str!("../assets/report.css");
/// What every page draws with.
const DRAW: &str = include_str!("../assets/draw.js");

/// Points of a distribution that are drawn.
const POINTS: usize = 200;

/// The page `html` with its style, a title, the script that is its own, and what is drawn.
pub(crate) fn fill(html: &str, script: &str, title: &str, data: &Value) -> String {
    // Inside a script element only `<` could end it.
    let data = data.to_string().replace('<', "\\u003c");
    let title = title.replace('&', "&amp;").replace('<', "&lt;");
    html.replace("/*css*/", CSS)
        .replace("<!--title-->", &title)
        .replace("/*script*/", &format!("{DRAW}\n{script}"))
        .replace("/*data*/", &data)
}

/// Some of the values in rising order, and how many thousandths of all are at most so large.
pub(crate) fn distribution(values: Vec<u64>) -> Vec<(u64, u64)> {
    weighted_distribution(values.into_iter().map(|value| (value, 1)).collect())
}

/// The same of values with their weights: thousandths of all weights.
pub(crate) fn weighted_distribution(mut values: Vec<(u64, u64)>) -> Vec<(u64, u64)> {
    values.sort_unstable();
    let step = values.len().div_ceil(POINTS).max(1);
    let last = values.len().saturating_sub(1);
    let total: u128 = values.iter().map(|(_, weight)| u128::from(*weight)).sum();
    let mut below = 0;
    let points = values.into_iter().enumerate().filter_map(|(i, (value, weight))| {
        below += u128::from(weight);
        (i % step == 0 || i == last).then(|| (value, (below * 1000 / total.max(1)) as u64))
    });
    points.collect()
}
