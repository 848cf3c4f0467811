//! `GET /v1/flows`: the question and the answer.

use super::export::ExportReading;
use super::{Behind, Share, Window, behind};
use crate::api::documents::{FlowAmount, FlowCause, FlowExported, FlowShare, FlowTotal, FlowUnit};
use crate::api::given::Given;
use crate::api::{Kind, Parameter, parameter};
use crate::snapshot::Snapshot;
use crate::table::{counter, stamped};
use serde_json::{Value, json};
use weir_config::FlowExport;
use weir_dataplane::flows::{Cause, FlowId, PAUSE_LOOKS};
use weir_dataplane::types::PRIORITIES;

/// What is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Query {
    /// This port only.
    pub port: Option<usize>,
    /// This cause only.
    pub cause: Option<Cause>,
    /// This queue, or group, only.
    pub priority: Option<u8>,
    /// Over which time.
    pub window: Window,
    /// Most flows of a port and cause.
    pub limit: usize,
}

/// Flows of a port and cause unless somebody says otherwise.
const USUAL: usize = 10;
/// And at most.
pub const LIMIT: usize = 1000;

/// What may be asked for.
pub(crate) const PARAMETERS: [Parameter; 5] = [
    parameter("port", "this port only", Kind::Port),
    parameter("cause", "this cause only", Kind::Word(|| Cause::ALL.map(Cause::word).to_vec())),
    parameter("priority", "this queue or priority group only", Kind::Integer(0, PRIORITIES as u64 - 1)),
    parameter(
        "window",
        "over which time; minute unless given",
        Kind::Word(|| Window::ALL.map(Window::word).to_vec()),
    ),
    parameter("limit", "flows of a port and cause; 10 unless given", Kind::Integer(1, LIMIT as u64)),
];

impl Default for Query {
    fn default() -> Self {
        Self { port: None, cause: None, priority: None, window: Window::default(), limit: USUAL }
    }
}

impl Query {
    /// From what was given ([`PARAMETERS`]).
    pub(crate) fn of(given: &Given, snapshot: &Snapshot) -> Self {
        let word = |name| given.text(name);
        let window = word("window").and_then(|word| Window::ALL.into_iter().find(|w| w.word() == word));
        Self {
            port: given.port("port", &snapshot.info),
            cause: word("cause").and_then(|word| Cause::ALL.into_iter().find(|cause| cause.word() == word)),
            priority: given.number("priority").map(|priority| priority as u8),
            window: window.unwrap_or_default(),
            limit: given.number("limit").map_or(USUAL, |limit| limit as usize),
        }
    }
}

fn cause_of(cause: Cause) -> FlowCause {
    match cause {
        Cause::Mark => FlowCause::Mark,
        Cause::Drop => FlowCause::Drop,
        Cause::Pause => FlowCause::Pause,
        Cause::Depth => FlowCause::Depth,
    }
}

/// What a count is of, and of how many of its units one is made.
fn unit(cause: Cause, all: &Behind) -> (FlowUnit, u64) {
    match cause {
        Cause::Mark | Cause::Drop => (FlowUnit::Frames, 1),
        Cause::Pause => (FlowUnit::Pauses, PAUSE_LOOKS),
        Cause::Depth => (FlowUnit::MeanBytes, all.looks.max(1)),
    }
}

/// Finer than anybody shows it: who rounds again must not end elsewhere.
fn part(of: u64, all: u64) -> f64 {
    let share = if all == 0 { 0.0 } else { (of as f64 / all as f64).min(1.0) };
    (share * 1e6).round() / 1e6
}

/// In whole units where there are such. Of pauses there are eighths ([`PAUSE_LOOKS`]), told to the last digit: rows add up to their total.
fn amount(n: u64, unit: (FlowUnit, u64)) -> FlowAmount {
    match unit {
        (FlowUnit::Frames, _) => FlowAmount::Whole(counter(n)),
        (FlowUnit::Pauses, one) => FlowAmount::Part((n as f64 / one as f64 * 1e3).round() / 1e3),
        (FlowUnit::MeanBytes, one) => FlowAmount::Part((n as f64 / one as f64 * 100.0).round() / 100.0),
    }
}

fn row(snapshot: &Snapshot, port: usize, cause: Cause, all: &Behind, share: &Share) -> FlowShare {
    let id: &FlowId = &share.id;
    let (place, [src, dst], unit) = (id.place(), id.ends(), unit(cause, all));
    let named = |port: usize| snapshot.info.ports.get(port).map(|port| port.name.clone());
    FlowShare {
        port: named(port),
        cause: cause_of(cause),
        priority: place.priority,
        reason: place.reason.map(|reason| reason.name().to_string()),
        from: named(usize::from(place.in_port)),
        flow: id.to_string(),
        src,
        dst,
        protocol: id.protocol_name(),
        src_port: id.ports().map(|ports| ports.0),
        dst_port: id.ports().map(|ports| ports.1),
        qp: id.qp(),
        share: part(share.least, all.total),
        share_at_most: part(share.most, all.total),
        count: amount(share.least, unit),
        count_at_most: amount(share.most.min(all.total), unit),
        unit: unit.0,
    }
}

/// The answer ([`crate::api::documents::Flows`]).
pub fn document(snapshot: &Snapshot, query: &Query) -> Value {
    let (mut flows, mut totals) = (Vec::new(), Vec::new());
    let ports = (0..snapshot.now.ports.len()).filter(|port| query.port.is_none_or(|wanted| wanted == *port));
    for port in ports {
        let Some(minute) = snapshot.flows.get(port).and_then(Option::as_ref) else { continue };
        for cause in Cause::ALL.into_iter().filter(|cause| query.cause.is_none_or(|wanted| wanted == *cause))
        {
            let wanted = |id: &FlowId| query.priority.is_none_or(|priority| id.place().priority == priority);
            let all = behind(minute, cause, query.window, wanted);
            if all.total == 0 {
                continue;
            }
            let unit = unit(cause, &all);
            let known: u64 = all.flows.iter().map(|share| share.least).sum();
            totals.push(FlowTotal {
                port: snapshot.info.ports[port].name.clone(),
                cause: cause_of(cause),
                total: amount(all.total, unit),
                unit: unit.0,
                looked_at: all.looked,
                other_share: part(all.covered.saturating_sub(known), all.total),
                unseen_share: part(all.total.saturating_sub(all.covered), all.total),
                seconds: all.seconds,
            });
            let rows = all.flows.iter().take(query.limit);
            flows.extend(rows.map(|share| row(snapshot, port, cause, &all, share)));
        }
    }
    let mut answer = stamped(snapshot);
    answer.insert("recorded".into(), json!(snapshot.flows.iter().any(Option::is_some)));
    answer.insert("window".into(), json!(query.window.word()));
    answer.insert("flows".into(), json!(flows));
    answer.insert("totals".into(), json!(totals));
    answer.insert("export".into(), json!(snapshot.export.as_ref().map(exported)));
    Value::Object(answer)
}

fn exported(told: &ExportReading) -> FlowExported {
    let FlowExport { collector, interval, domain, enterprise } = told.settings;
    FlowExported {
        collector: collector.to_string(),
        interval_seconds: interval as f64 / 1e9,
        domain,
        enterprise,
        messages: counter(told.messages),
        records: counter(told.records),
        failed_messages: counter(told.failed),
        lost_records: counter(told.lost),
        missed_seconds: counter(told.missed_seconds),
        error: told.error.clone(),
    }
}
