//! The comparison as one HTML page.

use super::course::{Course, QueuePeaks};
use super::{Comparison, letter};
use crate::page::{distribution, fill, weighted_distribution};
use serde_json::{Value, json};

const HTML: &str = include_str!("../../assets/compare.html");
const SCRIPT: &str = include_str!("../../assets/compare.js");

impl Comparison {
    /// The page: the table, and distributions and queues of those settings of which more than figures was kept.
    pub fn to_html(&self) -> String {
        fill(HTML, SCRIPT, "weir sim compare", &self.page_data())
    }

    fn page_data(&self) -> Value {
        let kept: Vec<Option<Course>> = self.sides.iter().map(super::Side::course).collect();
        let courses: Vec<Course> = kept.iter().map(|course| course.clone().unwrap_or_default()).collect();
        let period_ns = courses.iter().flat_map(|course| &course.queues).map(|run| run.period_ns).max();
        let queues = |course: &Course| {
            let runs = course.queues.iter();
            weighted_distribution(runs.flat_map(|run| run.widened(period_ns.unwrap_or(0))).collect())
        };
        // Over time those of one run can be drawn.
        let first = |course: &Course| course.queues.first().cloned();
        let over_time = |run: QueuePeaks| {
            let values: Vec<u64> = run.peaks.iter().map(|(peak, _)| *peak).collect();
            json!({ "values": values, "period_ns": run.period_ns })
        };
        let side = |(i, side): (usize, &super::Side)| {
            let course = &courses[i];
            json!({
                "name": format!("{}  {}", letter(i), side.name), "kept": kept[i].is_some(),
                "fct": distribution(course.fct_ns.clone()), "slowdown": distribution(course.slowdown_milli.clone()),
                "paused": distribution(course.paused_ppm.clone()), "queues": queues(course),
                "depths": first(course).map(over_time),
            })
        };
        json!({
            "legend": self.legend(), "notes": self.notes(), "heads": self.heads(), "rows": self.rows(),
            "queues_period_ns": period_ns, "depths_end_ns": courses.iter().filter_map(first).map(|run| run.end_ns).max(),
            "sides": self.sides.iter().enumerate().map(side).collect::<Vec<_>>(),
        })
    }
}
