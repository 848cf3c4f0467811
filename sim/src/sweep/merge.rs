//! Results of several folders put together.

use super::SweepError;
use super::store::{Described, place, read};
use crate::digest::Digest;
use serde_json::Value;
use std::path::{Path, PathBuf};
use weir_config::VERSION;

/// All results of a sweep that are there.
#[derive(Clone, Debug, PartialEq)]
pub struct Merged {
    /// Name of the sweep.
    pub name: String,
    /// Points it has.
    pub points: usize,
    /// Points without a result, in order.
    pub missing: Vec<usize>,
    /// Points that were refused, in order, with the reason.
    pub broken: Vec<(usize, String)>,
    /// Of all results that are there, in the order of the points.
    pub digest: String,
    pub(crate) axes: Vec<String>,
    /// By point: values of the axes, and the result.
    pub(crate) rows: Vec<(Vec<String>, Option<Value>)>,
    /// By point: what its result is called.
    addresses: Vec<String>,
}

/// Puts the results in `dirs` together: they hold shards of one sweep.
///
/// # Errors
/// A folder without a sweep or with another one, a damaged result, or two results of one point.
pub fn merge(dirs: &[PathBuf]) -> Result<Merged, SweepError> {
    let Some(first) = dirs.first() else { return Err(SweepError::Nothing(PathBuf::from("."))) };
    let plan = Described::read(first)?;
    for dir in &dirs[1..] {
        let other = Described::read(dir)?;
        if other != plan {
            let (theirs, ours) = (other.digest(), plan.digest());
            return Err(SweepError::TwoPlans { path: dir.clone(), theirs, first: first.clone(), ours });
        }
    }
    let mut digest = Digest::of(plan.digest().as_bytes());
    let mut merged = Merged {
        name: plan.name,
        points: plan.points.len(),
        missing: Vec::new(),
        broken: Vec::new(),
        digest: String::new(),
        axes: plan.axes,
        rows: Vec::new(),
        addresses: Vec::new(),
    };
    for (index, point) in plan.points.into_iter().enumerate() {
        let found = find(dirs, &point.address)?;
        match &found {
            None => merged.missing.push(index),
            Some((bytes, value)) => {
                digest = digest.feed(point.address.as_bytes()).feed(bytes);
                if let Some(error) = value["error"].as_str() {
                    merged.broken.push((index, error.into()));
                }
            }
        }
        merged.rows.push((point.values, found.map(|(_, value)| value)));
        merged.addresses.push(point.address);
    }
    merged.digest = digest.to_string();
    Ok(merged)
}

fn find(dirs: &[PathBuf], address: &str) -> Result<Option<(Vec<u8>, Value)>, SweepError> {
    let mut found: Option<(&Path, (Vec<u8>, Value))> = None;
    for dir in dirs {
        let Some(result) = read(&place(dir, address), address)? else { continue };
        match &found {
            Some((before, earlier)) if earlier.0 != result.0 => {
                return Err(SweepError::Contradiction { a: place(before, address), b: place(dir, address) });
            }
            Some(_) => {}
            None => found = Some((dir, result)),
        }
    }
    Ok(found.map(|(_, result)| result))
}

/// What of a result becomes columns: name and place.
const COLUMNS: [(&str, &[&str]); 23] = [
    ("fct_p50_ns", &["fct_ns", "p50"]),
    ("fct_p99_ns", &["fct_ns", "p99"]),
    ("fct_max_ns", &["fct_ns", "max"]),
    ("slowdown_p50_milli", &["slowdown_milli", "p50"]),
    ("slowdown_p99_milli", &["slowdown_milli", "p99"]),
    ("completion_ns", &["completion_ns"]),
    ("flows_done", &["flows_done"]),
    ("flows_finite", &["flows_finite"]),
    ("delivered_bytes", &["delivered_bytes"]),
    ("lost_bytes", &["bytes_lost"]),
    ("frames_sent", &["frames_sent"]),
    ("frames_dropped", &["frames_dropped"]),
    ("lossless_drops", &["lossless_drops"]),
    ("frames_lost", &["frames_lost"]),
    ("pfc_pauses", &["pfc_pauses"]),
    ("host_pfc_frames", &["host_pfc_frames"]),
    ("host_paused_ns", &["host_paused_ns"]),
    ("ecn_marks", &["ecn_marks"]),
    ("queue_max_bytes", &["queue_max_bytes"]),
    ("queue_mean_bytes", &["queue_mean_bytes"]),
    ("headroom_peak_bytes", &["headroom_peak_bytes"]),
    ("frame_delay_mean_ns", &["frame_delay_mean_ns"]),
    ("verdict", &["verdict"]),
];

impl Merged {
    /// One line per point that has a result: values of the axes, then numbers and the verdict, then why it was refused, its
    /// number, and its address.
    pub fn csv(&self) -> String {
        let Self { name, digest, points, .. } = self;
        let name = name.replace(['\n', '\r'], " ");
        let about = format!(
            "# weir {}, sweep `{name}`: {} of {points} points; digest {digest}\n# units: _ns nanoseconds; _milli \
             thousandths; _bytes bytes; else counts\n",
            VERSION,
            points - self.missing.len(),
        );
        let names = self.axes.iter().map(|a| quoted(a)).chain(COLUMNS.iter().map(|(name, _)| (*name).into()));
        let head: Vec<String> = names.chain(["error", "point", "address"].map(Into::into)).collect();
        let row = |(index, (values, result)): (usize, &(Vec<String>, Option<Value>))| {
            let result = result.as_ref()?;
            let cell =
                |(_, path): &(&str, &[&str])| match path.iter().fold(&result["summary"], |at, key| &at[*key])
                {
                    Value::String(text) => quoted(text),
                    at => at.as_u64().map_or(String::new(), |n| n.to_string()),
                };
            let values = values.iter().map(|v| quoted(v.trim_matches('"')));
            let error = quoted(result["error"].as_str().unwrap_or(""));
            let place = [error, index.to_string(), self.addresses[index].clone()];
            let cells: Vec<String> = values.chain(COLUMNS.iter().map(cell)).chain(place).collect();
            Some(cells.join(",") + "\n")
        };
        let rows: String = self.rows.iter().enumerate().filter_map(row).collect();
        format!("{about}{}\n{rows}", head.join(","))
    }
}

/// A text as a CSV cell.
fn quoted(text: &str) -> String {
    if text.contains(['"', ',', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.into()
    }
}
