//! Orders about jobs of in-network aggregation.

use super::{Fault, Refusal};
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_path_to_error::Track;
use std::fmt;
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
            let read = value.is_object().then(|| serde_json::from_value(value).ok()).flatten();
            read.ok_or(error)
        };
        let spec = job(body).or_else(again);
        spec.map(|spec| Self::Add(Box::new(spec))).map_err(|error: NoJob| {
            let fault = Fault {
                path: error.key().unwrap_or_else(|| "job".to_owned()),
                line: Some(error.inner().line()),
                column: Some(error.inner().column()),
                detail: error.to_string(),
                remedy: "docs/inc.md lists the keys of a job".into(),
                ..Fault::default()
            };
            Refusal { status: 422, detail: format!("no job: {error}"), faults: vec![fault] }
        })
    }
}

/// Why a text is no job, and at which key.
#[derive(Debug)]
pub struct NoJob(serde_path_to_error::Error<serde_json::Error>);

impl NoJob {
    /// The key, as `children[1].qpn`; `None`: it is about all of it.
    fn key(&self) -> Option<String> {
        let path = self.0.path();
        path.iter().next().map(|_| path.to_string())
    }

    fn inner(&self) -> &serde_json::Error {
        self.0.inner()
    }
}

impl fmt::Display for NoJob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.key() {
            Some(key) => write!(f, "{key}: {}", self.inner()),
            None => self.inner().fmt(f),
        }
    }
}

impl std::error::Error for NoJob {}

/// The job in this JSON.
///
/// # Errors
/// It is no object with the keys of a job.
pub fn job(text: &[u8]) -> Result<JobSpec, NoJob> {
    struct Job;
    impl<'de> Visitor<'de> for Job {
        type Value = JobSpec;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a job, which is an object with the keys of docs/inc.md: { \"id\": 7, ... }")
        }

        fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<JobSpec, A::Error> {
            JobSpec::deserialize(MapAccessDeserializer::new(map))
        }
    }
    let mut json = serde_json::Deserializer::from_slice(text);
    let mut track = Track::new();
    let spec = serde_path_to_error::Deserializer::new(&mut json, &mut track).deserialize_any(Job);
    let spec = spec.and_then(|spec| json.end().map(|()| spec));
    spec.map_err(|error| NoJob(serde_path_to_error::Error::new(track.path(), error)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_object_is_told_what_a_job_is() {
        for text in ["[]", "7", "null", "[1, null, 2, 3]"] {
            let refusal = JobOrder::add(text.as_bytes()).unwrap_err();
            assert!(
                refusal.detail.contains("expected a job, which is an object"),
                "{text}: {}",
                refusal.detail
            );
        }
        let text = include_str!("../../../configs/inc-job.json");
        let twice = JobOrder::add(format!("{text}{text}").as_bytes()).unwrap_err();
        assert!(twice.detail.contains("trailing characters"), "{}", twice.detail);
        let without = JobOrder::add(b"{}").unwrap_err();
        assert!(without.detail.contains("missing field `id`"), "{}", without.detail);
    }

    #[test]
    fn a_value_of_another_type_is_told_with_its_key() {
        let text = include_str!("../../../configs/inc-job.json");
        for (from, to, key) in [
            ("\"ranks\": 2", "\"ranks\": \"2\"", "ranks"),
            ("\"qpn\": 257", "\"qpn\": []", "children[1].qpn"),
            ("\"ip\": \"10.0.0.1\"", "\"ip\": \"10.0.0\"", "children[0].ip"),
            ("\"recv_psn\": 9", "\"recv_psn\": -9", "children[0].recv_psn"),
            ("\"sum\"", "\"avg\"", "operation.operator"),
        ] {
            assert!(text.contains(from), "{from}");
            let refusal = JobOrder::add(text.replacen(from, to, 1).as_bytes()).unwrap_err();
            assert_eq!(refusal.faults[0].path, key, "{refusal:?}");
            assert!(refusal.detail.contains(&format!("{key}: ")), "{}", refusal.detail);
            let line = 1 + text[..text.find(from).unwrap()].matches('\n').count();
            assert_eq!(refusal.faults[0].line, Some(line), "{refusal:?}");
        }
    }

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
