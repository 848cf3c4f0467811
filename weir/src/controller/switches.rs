//! Switches, by their management interface: jobs are posted, ended and looked at.

use anyhow::{Context, Result};
use serde_json::Value;
use std::io::Read;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};
use weir_inc::controller::desk::{Event, JobState, NotTaken};
use weir_inc::spec::JobSpec;
use weir_mgmt::admin::inc::PATH as JOBS;
use weir_mgmt::client::{self, Place};
use weir_mgmt::token::Token;

/// Ranks of all jobs, with their queue pairs.
const RANKS: &str = "/v1/inc/ranks";

/// Time between two looks at the jobs of a switch.
const EVERY: Duration = Duration::from_secs(1);
/// How long a switch may be silent.
const PATIENCE: Duration = Duration::from_secs(2);
/// Longest answer, bytes.
const LONGEST: u64 = 16 << 20;

enum Order {
    Post(Box<JobSpec>),
    End(u32, Option<String>),
}

/// Orders for one switch.
pub(super) struct Orders(Sender<Order>);

impl Orders {
    /// Starts to look at the switch at `node`; what comes of orders and looks are events.
    ///
    /// # Errors
    /// A thread cannot be started.
    pub(super) fn start(node: usize, api: &str, token: Option<Token>, events: Sender<Event>) -> Result<Self> {
        let api = match api.contains('/') {
            true => Place::Unix(api.into()),
            false => Place::Tcp(api.to_owned(), token),
        };
        let (orders, given) = channel();
        let work = move || serve(node, &api, &given, &events);
        std::thread::Builder::new().name("switch".into()).spawn(work)?;
        Ok(Self(orders))
    }

    pub(super) fn post(&self, spec: JobSpec) {
        let _ = self.0.send(Order::Post(Box::new(spec)));
    }

    /// `port`: of the engine that has the job, where it is named.
    pub(super) fn end(&self, id: u32, port: Option<String>) {
        let _ = self.0.send(Order::End(id, port));
    }
}

/// Does what is ordered, and looks at the jobs now and then, until nobody orders any more.
fn serve(node: usize, api: &Place, given: &Receiver<Order>, events: &Sender<Event>) {
    let text = |error: anyhow::Error| format!("{error:#}");
    let mut next = Instant::now();
    loop {
        let event = match given.recv_timeout(next.saturating_duration_since(Instant::now())) {
            Ok(Order::Post(spec)) => {
                let id = spec.id;
                Event::Posted(node, id, post(api, &spec))
            }
            Ok(Order::End(id, port)) => Event::Ended(node, id, end(api, id, port.as_deref()).map_err(text)),
            Err(RecvTimeoutError::Timeout) => {
                let seen = Event::Jobs(node, jobs(api).map_err(text));
                next = Instant::now() + EVERY;
                seen
            }
            Err(RecvTimeoutError::Disconnected) => return,
        };
        if events.send(event).is_err() {
            return;
        }
    }
}

fn post(api: &Place, spec: &JobSpec) -> Result<(), NotTaken> {
    let body = serde_json::to_string(spec).map_err(|error| NotTaken::Refused(error.to_string()))?;
    match ask(api, "POST", JOBS, &body) {
        Ok(_) => Ok(()),
        Err(Refused { status: 400..500, text }) => Err(NotTaken::Refused(text)),
        Err(Refused { text, .. }) => Err(NotTaken::Silent(text)),
    }
}

/// Has a job forgotten, which one that is not there has been. Why it had failed, if it had: nobody can ask any more.
fn end(api: &Place, id: u32, port: Option<&str>) -> Result<Option<String>> {
    let why = rows(api)?.iter().find(|row| row["job"] == id).and_then(why);
    let port = port.map(|port| format!("?port={}", client::encode(port))).unwrap_or_default();
    match ask(api, "DELETE", &format!("{JOBS}/{id}{port}"), "") {
        Ok(_) | Err(Refused { status: 404, .. }) => Ok(why),
        Err(refused) => Err(refused.into()),
    }
}

/// The jobs of a switch, as it shows them.
fn rows(api: &Place) -> Result<Vec<Value>> {
    let document: Value = client::read(&ask(api, "GET", JOBS, "")?)?;
    Ok(document["inc"].as_array().context("the answer has no jobs")?.clone())
}

/// Why a job has failed, or is failing, and the rank to blame.
fn why(row: &Value) -> Option<String> {
    let reason = row["reason"].as_str().filter(|reason| !reason.is_empty())?;
    let rank = row["rank"].as_u64().map(|rank| format!(", rank {rank}")).unwrap_or_default();
    Some(format!("{reason}{rank}"))
}

fn jobs(api: &Place) -> Result<Vec<JobState>> {
    let document: Value = client::read(&ask(api, "GET", RANKS, "")?)?;
    let ranks = document["inc_ranks"].as_array().context("the answer has no ranks")?;
    let state = |row: &Value| {
        let id =
            row["job"].as_u64().and_then(|id| u32::try_from(id).ok()).context("a job without a number")?;
        let failed = (row["state"] == "failed").then(|| why(row).unwrap_or_else(|| "failed".to_owned()));
        let its = ranks.iter().filter(|rank| rank["job"] == id);
        let qpns = its.filter_map(|rank| rank["qpn"].as_u64()?.try_into().ok()).collect();
        Ok(JobState { id, failed, qpns })
    };
    rows(api)?.iter().map(state).collect()
}

/// An answer other than 200, or none (status 0).
#[derive(Debug, thiserror::Error)]
#[error("{text}")]
struct Refused {
    status: u16,
    text: String,
}

/// One request; the body of the answer.
fn ask(api: &Place, method: &str, target: &str, body: &str) -> Result<String, Refused> {
    let (status, text) = exchange(api, method, target, body)
        .map_err(|error| Refused { status: 0, text: format!("{error:#}") })?;
    if status == 200 {
        return Ok(text);
    }
    let problem: Value = serde_json::from_str(&text).unwrap_or_default();
    Err(Refused { status, text: format!("{target}: {status} ({})", client::detail(&problem)) })
}

fn exchange(api: &Place, method: &str, target: &str, body: &str) -> Result<(u16, String)> {
    let answer = client::exchange(api, method, target, body, PATIENCE);
    let answer = answer.with_context(|| match api {
        Place::Unix(path) => path.display().to_string(),
        Place::Tcp(address, _) => address.clone(),
    })?;
    let status = answer.status().as_u16();
    let mut text = String::new();
    answer.into_body().take(LONGEST).read_to_string(&mut text)?;
    Ok((status, text))
}
