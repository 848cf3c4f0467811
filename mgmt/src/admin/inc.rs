//! Orders about jobs of in-network aggregation.

use super::{Fault, Refusal};
use weir_inc::spec::JobSpec;

/// Where jobs are posted and shown.
pub const PATH: &str = "/v1/inc/jobs";

/// Longest description of a job, bytes: 65 peers take a quarter of it.
pub const LONGEST: u64 = 64 << 10;

/// An order about a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JobOrder {
    /// Take this job.
    Add(Box<JobSpec>),
    /// Tell the ranks of a job that it has ended, and forget it.
    End {
        /// Its name.
        id: u32,
        /// Port of its engine; may be left out where there is one engine.
        port: Option<String>,
    },
}

impl JobOrder {
    /// The order to take the job in this JSON.
    ///
    /// # Errors
    /// It is no job: 422 with the place.
    pub fn add(body: &[u8]) -> Result<Self, Refusal> {
        let again = |error| {
            let mut value = serde_json::from_slice(body).unwrap_or_default();
            super::integers(&mut value);
            // The place of a fault is known where the text was read.
            serde_json::from_value(value).map_err(|_| error)
        };
        let spec = serde_json::from_slice(body).or_else(again);
        spec.map(|spec| Self::Add(Box::new(spec))).map_err(|error: serde_json::Error| {
            let fault = Fault {
                path: "job".into(),
                line: Some(error.line()),
                column: Some(error.column()),
                detail: error.to_string(),
                remedy: "docs/inc.md lists the keys of a job".into(),
                ..Fault::default()
            };
            Refusal { status: 422, detail: format!("no job: {error}"), faults: vec![fault] }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_the_same_however_it_is_written() {
        let text = include_str!("../../../configs/inc-job.json");
        let job = JobOrder::add(text.as_bytes()).unwrap();
        let other = text.replace("\"ranks\": 2", "\"ranks\": 2.0");
        assert_ne!(text, other);
        assert_eq!(JobOrder::add(other.as_bytes()), Ok(job));
        let wrong = JobOrder::add(text.replace("\"ranks\": 2", "\"ranks\": 2.5").as_bytes()).unwrap_err();
        assert!(wrong.status == 422 && wrong.faults[0].line.is_some_and(|line| line > 0), "{wrong:?}");
    }
}
