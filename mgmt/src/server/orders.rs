//! Orders over HTTP, and what is said of the configuration.

use super::routes::{JSON, json_text, text};
use super::{App, STALE};
use crate::admin::fdb::Question as FdbQuestion;
use crate::admin::{Answer, Desk, Done, Fault, Order, Refusal, explain as questions};
use crate::api::documents::{ConfigInForce, EffectiveValue, json};
use crate::api::given::Given;
use crate::lacp::Mux;
use axum::body::Body;
use axum::http::{Response, StatusCode};
use std::sync::Arc;
use std::time::{Duration, Instant};
use weir_dataplane::explain::Occupancy;
use weir_dataplane::fdb::{FdbFilter, FdbPage};
use weir_dataplane::parse::KeyParts;
use weir_dataplane::portset::PortSet;
use weir_dataplane::types::PortId;

fn answer(answer: Answer, given: &Given) -> Response<Body> {
    match answer {
        Ok(Done::Said(document)) => json_text(&document),
        // Orders of their own, with answers of their own.
        Ok(Done::Watching(_) | Done::Fdb(_)) => {
            given.problem(StatusCode::INTERNAL_SERVER_ERROR, "an unexpected answer")
        }
        Err(refusal) => given.refused(&refusal),
    }
}

pub(super) async fn simple(app: Arc<App>, order: Order, given: &Given) -> Response<Body> {
    let Some(desk) = &app.desk else {
        return given.problem(StatusCode::FORBIDDEN, "this switch takes no orders");
    };
    let done = desk.order(order).await;
    if done.is_ok() {
        // Whoever asks next is shown what has become of the order.
        let _ = tokio::time::timeout(STALE, app.looks.notified()).await;
    }
    answer(done, given)
}

pub(super) async fn confirm(app: Arc<App>, given: Given) -> Response<Body> {
    simple(app, Order::Confirm, &given).await
}

pub(super) async fn roll_back(app: Arc<App>, given: Given) -> Response<Body> {
    simple(app, Order::Rollback, &given).await
}

pub(super) async fn apply(app: Arc<App>, given: Given) -> Response<Body> {
    let Ok(text) = String::from_utf8(given.body.to_vec()) else {
        return given.problem(StatusCode::UNPROCESSABLE_ENTITY, "a configuration is UTF-8");
    };
    let order = Order::Apply {
        name: given.text("name").filter(|name| !name.is_empty()).unwrap_or("(posted)").to_owned(),
        text,
        confirm: given.number("confirm").map(Duration::from_millis),
        dry_run: given.flag("dry_run").unwrap_or(false),
    };
    simple(app, order, &given).await
}

/// Every effective value of the configuration in force, and where it comes from.
pub(super) async fn config(app: Arc<App>, given: Given) -> Response<Body> {
    let Some(desk) = &app.desk else {
        return given.problem(StatusCode::SERVICE_UNAVAILABLE, "the configuration is not to be had");
    };
    let in_force = desk.shown.get();
    let left = in_force.unconfirmed.map(|at| at.saturating_duration_since(Instant::now()).as_millis() as u64);
    json_text(&json(&ConfigInForce {
        source: in_force.source.clone(),
        unconfirmed_ms: left,
        unsettled: in_force.unsettled.clone(),
        values: values(&in_force.config),
    }))
}

/// The configuration in force as SONiC's tables.
pub(super) async fn tables(app: Arc<App>, given: Given) -> Response<Body> {
    let Some(desk) = &app.desk else {
        return given.problem(StatusCode::SERVICE_UNAVAILABLE, "the configuration is not to be had");
    };
    text(JSON, weir_config::sonic::export(&desk.shown.get().config).json)
}

/// What would happen to a frame now.
pub(super) async fn explain(app: Arc<App>, given: Given) -> Response<Body> {
    let Some(desk) = &app.desk else {
        return given.problem(StatusCode::SERVICE_UNAVAILABLE, "the configuration is not to be had");
    };
    let (in_force, snapshot) = (desk.shown.get(), app.snapshot());
    let gauges = snapshot.now.ports.iter().map(|port| &port.gauges);
    let ports = snapshot.now.ports.iter().zip(0..);
    let down =
        ports.filter(|(port, _)| port.link.is_some_and(|link| !link.up)).map(|(_, at)| PortId(at)).collect();
    let carries_less = |than: Mux| -> PortSet {
        let members = snapshot.now.lacp.lags.iter().flat_map(|lag| &lag.members);
        members.filter(|member| member.mux < than).map(|member| member.port).collect()
    };
    let seen = Occupancy {
        down,
        not_distributing: carries_less(Mux::Distributing),
        not_collecting: carries_less(Mux::Collecting),
        ..Occupancy::of(gauges, snapshot.now.loops.iter().map(|worker| worker.control_used))
    };
    let question = given.values().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    let question = questions::Question(question);
    let wrong =
        |fault: Box<Fault>| given.wrong(StatusCode::BAD_REQUEST, &fault.detail, &fault.path, fault.remedy);
    let learned = match question.station(&in_force.config, &in_force.params) {
        Ok(None) => None,
        Ok(Some(key)) => match learned_at(desk, snapshot.info.lcores.len(), key).await {
            Ok(ports) => ports,
            Err(refusal) => return given.refused(&refusal),
        },
        Err(fault) => return wrong(fault),
    };
    let mcast = &snapshot.now.mcast;
    match questions::answer(&in_force.config, &in_force.params, &seen, mcast, learned, &question) {
        Ok(document) => json_text(&json(&document)),
        Err(fault) => wrong(fault),
    }
}

/// Where a station was learned, by whichever worker; `None`: nowhere.
async fn learned_at(desk: &Desk, workers: usize, key: u64) -> Result<Option<PortSet>, Refusal> {
    let KeyParts { address, vid, .. } = KeyParts::of(key);
    for worker in 0..workers {
        let mut next = 0;
        while next != FdbPage::DONE {
            let filter = FdbFilter { port: None, address: Some(address), vid: Some(vid), learned_only: true };
            let order = Order::Fdb(FdbQuestion { worker, next, filter, most: 16 });
            let Done::Fdb(page) = desk.order(order).await? else { break };
            if let Some(row) = page.page.rows().iter().find(|row| row.key == key) {
                return Ok(Some(row.ports));
            }
            next = page.page.next;
        }
    }
    Ok(None)
}

/// Effective values.
pub fn values(config: &weir_config::Config) -> Vec<EffectiveValue> {
    let row = |row: weir_config::Explained| EffectiveValue {
        key: row.key,
        value: row.value,
        origin: row.origin.to_string(),
        why: row.why,
    };
    config.explain().into_iter().map(row).collect()
}
