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
        serde_json::from_slice(body).map(|spec| Self::Add(Box::new(spec))).map_err(|error| {
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
