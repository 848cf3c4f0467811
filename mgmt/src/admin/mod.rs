//! Orders: what an administrator may ask of a running switch. The server takes them in, the program that runs
//! the switch carries them out ([`Orders`]), one after the other.

pub mod comment;
pub mod explain;
pub mod fdb;
pub mod inc;
pub mod verdict;
pub mod watch;

pub use crate::api::documents::Fault;

use crate::api::documents::{self, ChangedValue};
use crate::board::Board;
use serde::Serialize;
use serde_json::Value;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;
use tokio::sync::oneshot;
use weir_config::{Config, Diagnostic, Difference, Fixed, Origin};
use weir_dataplane::switch::SwitchParams;

/// An order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Order {
    /// Go over to another configuration.
    Apply {
        /// What it is called in messages.
        name: String,
        /// Its text.
        text: String,
        /// Go back unless [`Order::Confirm`] comes within this time.
        confirm: Option<Duration>,
        /// Only say what would happen.
        dry_run: bool,
    },
    /// Keep what was applied.
    Confirm,
    /// Go back to what was before.
    Rollback,
    /// Read a page of a worker's forwarding table: a question, which changes nothing.
    Fdb(fdb::Question),
    /// Follow frames, as long as somebody holds what this is answered with.
    Watch(watch::Watch),
    /// About a job of in-network aggregation.
    Job(inc::JobOrder),
}

impl From<&Diagnostic> for Fault {
    fn from(d: &Diagnostic) -> Self {
        Self {
            path: d.rule.to_owned(),
            file: Some(d.file.clone()),
            line: Some(d.line),
            column: Some(d.column),
            detail: d.told(),
            remedy: d.remedy.clone(),
        }
    }
}

impl From<&Fixed> for Fault {
    fn from(f: &Fixed) -> Self {
        Self {
            path: f.key.clone(),
            line: f.line,
            detail: format!("{}: {}", f.message, f.why),
            remedy: "leave it as it is, or restart the switch".into(),
            ..Self::default()
        }
    }
}

/// An order that is not carried out. Nothing has changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// HTTP status: 400 malformed, 404 no such thing, 409 not now or not at run time, 422 wrong, 500, 503.
    pub status: u16,
    /// What is wrong.
    pub detail: String,
    /// One by one.
    pub faults: Vec<Fault>,
}

impl Refusal {
    /// Without single faults.
    pub fn new(status: u16, detail: impl Into<String>) -> Self {
        Self { status, detail: detail.into(), faults: Vec::new() }
    }

    /// With what to do about it, for whoever has asked for `path`.
    pub fn with_remedy(status: u16, detail: impl Into<String>, path: &str, remedy: &str) -> Self {
        let detail = detail.into();
        let (path, remedy) = (path.to_owned(), remedy.to_owned());
        let fault = Fault { path, detail: detail.clone(), remedy, ..Fault::default() };
        Self { status, detail, faults: vec![fault] }
    }
}

/// Writes integers as integers: to JSON `3.0` is the same number as `3`, to a reader of integers it is none.
fn integers(value: &mut Value) {
    /// Above it an `f64` does not tell integers apart.
    const EXACT: f64 = (1u64 << 53) as f64;
    match value {
        Value::Number(number) if number.is_f64() => {
            let whole = number.as_f64().filter(|n| n.fract() == 0.0 && (0.0..=EXACT).contains(n));
            if let Some(whole) = whole {
                *value = (whole as u64).into();
            }
        }
        Value::Array(all) => all.iter_mut().for_each(integers),
        Value::Object(fields) => fields.values_mut().for_each(integers),
        _ => {}
    }
}

/// What came of an order that was carried out.
#[derive(Debug)]
pub enum Done {
    /// This is said about it.
    Said(Value),
    /// A page was read.
    Fdb(fdb::Page),
    /// Frames are followed.
    Watching(watch::Watching),
}

impl Done {
    /// This document is said about it.
    pub fn said(document: &impl Serialize) -> Self {
        Self::Said(documents::json(document))
    }
}

/// What came of an order.
pub type Answer = Result<Done, Refusal>;

impl From<&Difference> for ChangedValue {
    fn from(d: &Difference) -> Self {
        Self {
            key: d.key.clone(),
            was: d.was.clone(),
            is: d.is.clone(),
            origin: d.origin.as_ref().map(Origin::to_string),
        }
    }
}

/// The configuration in force.
#[derive(Clone, Debug)]
pub struct InForce {
    /// Where it was read.
    pub source: String,
    /// It.
    pub config: Config,
    /// What the switch made of it.
    pub params: SwitchParams,
    /// Time left to confirm it, if it waits for that.
    pub unconfirmed: Option<std::time::Instant>,
    /// Why workers may disagree about it; the switch is not ready until they agree.
    pub unsettled: Option<String>,
}

/// What is in force, for both sides: replaced whole, never changed in part.
pub type Shown = Board<InForce>;

/// Where orders are handed in: the server's end.
#[derive(Clone, Debug)]
pub struct Desk {
    orders: Sender<Call>,
    /// What is in force.
    pub shown: Shown,
}

/// An order, and where its answer goes.
#[derive(Debug)]
pub struct Call {
    /// The order.
    pub order: Order,
    answer: oneshot::Sender<Answer>,
}

impl Call {
    /// Answers it. Whoever asked may be gone: what was done for them goes, too.
    pub fn answer(self, answer: Answer) {
        let _ = self.answer.send(answer);
    }
}

/// Where orders come out: the end of the program that runs the switch.
#[derive(Debug)]
pub struct Orders(Receiver<Call>);

impl Orders {
    /// The next order, if one comes within `time`; else that time has passed.
    pub fn next(&self, time: Duration) -> Option<Call> {
        match self.0.recv_timeout(time) {
            Ok(call) => Some(call),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => {
                std::thread::sleep(time);
                None
            }
        }
    }
}

/// Both ends.
pub fn desk(shown: Shown) -> (Desk, Orders) {
    let (sender, receiver) = channel();
    (Desk { orders: sender, shown }, Orders(receiver))
}

impl Desk {
    /// Hands an order in and waits for its answer.
    pub(crate) async fn order(&self, order: Order) -> Answer {
        let (sender, receiver) = oneshot::channel();
        let gone = || Refusal::new(503, "the switch takes no orders any more");
        self.orders.send(Call { order, answer: sender }).map_err(|_| gone())?;
        receiver.await.map_err(|_| gone())?
    }
}
