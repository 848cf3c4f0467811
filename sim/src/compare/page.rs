//! The comparison as one HTML page.

use super::side::Course;
use super::{Comparison, letter};
use crate::page::{distribution, fill};
use serde_json::{Value, json};

const HTML: &str = include_str!("../../assets/compare.html");
const SCRIPT: &str = include_str!("../../assets/compare.js");

impl Comparison {
    /// The page: the table, and distributions and queues of those settings that are reports.
    pub fn to_html(&self) -> String {
        fill(HTML, SCRIPT, "weir sim compare", &self.page_data())
    }

    fn page_data(&self) -> Value {
        let none = Course::default();
        let side = |(i, side): (usize, &super::Side)| {
            let course = side.course.as_ref().unwrap_or(&none);
            json!({
                "name": format!("{}  {}", letter(i), side.name),
                "fct": distribution(course.fct_ns.clone()), "slowdown": distribution(course.slowdown_milli.clone()),
                "paused": distribution(course.paused_ppm.clone()), "depths": course.depths, "period_ns": course.period_ns,
            })
        };
        let courses = self.sides.iter().filter_map(|side| side.course.as_ref());
        json!({
            "legend": self.legend(), "notes": self.notes(), "heads": self.heads(), "rows": self.rows(),
            "end_ns": courses.map(|course| course.end_ns).max().unwrap_or(0),
            "sides": self.sides.iter().enumerate().map(side).collect::<Vec<_>>(),
        })
    }
}
