//! The comparison as one HTML page.

use super::course::Course;
use super::{Comparison, letter};
use crate::page::{distribution, fill};
use serde_json::{Value, json};

const HTML: &str = include_str!("../../assets/compare.html");
const SCRIPT: &str = include_str!("../../assets/compare.js");

impl Comparison {
    /// The page: the table, and distributions and queues of those settings of which more than figures was kept.
    pub fn to_html(&self) -> String {
        fill(HTML, SCRIPT, "weir sim compare", &self.page_data())
    }

    fn page_data(&self) -> Value {
        let courses: Vec<Course> = self.sides.iter().map(|side| side.course().unwrap_or_default()).collect();
        let side = |(i, side): (usize, &super::Side)| {
            let course = &courses[i];
            json!({
                "name": format!("{}  {}", letter(i), side.name),
                "fct": distribution(course.fct_ns.clone()), "slowdown": distribution(course.slowdown_milli.clone()),
                "paused": distribution(course.paused_ppm.clone()), "queues": distribution(course.queues.clone()),
                "depths": course.depths, "period_ns": course.period_ns,
            })
        };
        json!({
            "legend": self.legend(), "notes": self.notes(), "heads": self.heads(), "rows": self.rows(),
            "depths_end_ns": courses.iter().map(|course| course.depths_end_ns).max().unwrap_or(0),
            "sides": self.sides.iter().enumerate().map(side).collect::<Vec<_>>(),
        })
    }
}
