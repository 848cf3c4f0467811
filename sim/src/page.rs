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

/// Some values in rising order, and how many thousandths of all are at most so large.
pub(crate) fn distribution(mut values: Vec<u64>) -> Vec<(u64, usize)> {
    values.sort_unstable();
    let step = values.len().div_ceil(POINTS).max(1);
    let last = values.len().saturating_sub(1);
    let points = values.iter().enumerate().filter(|(i, _)| i % step == 0 || *i == last);
    points.map(|(i, value)| (*value, (i + 1) * 1000 / values.len())).collect()
}
