//! Orders over HTTP, and what is said of the configuration.

use super::inc;
use super::problem::{fault, problem};
use super::routes::{json_text, parameters, text};
use super::watching;
use super::{App, STALE};
use crate::access::{CONFIG, CONFIRM, EXPLAIN, JOB, ROLLBACK, WATCH};
use crate::admin::{Answer, Done, Order, Refusal, explain as questions, inc as jobs};
use crate::sonic;
use axum::Router;
use axum::body::Body;
use axum::extract::{RawQuery, State};
use axum::http::{Response, StatusCode};
use axum::routing::{delete, get, post};
use bytes::Bytes;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::{Duration, Instant};
use weir_dataplane::explain::Occupancy;

/// Longest time in which an order may be confirmed.
const LONGEST: Duration = Duration::from_secs(24 * 3600);

type Shared = State<Arc<App>>;

/// The routes.
pub(super) fn routes(router: Router<Arc<App>>) -> Router<Arc<App>> {
    router
        .route(EXPLAIN, get(explain))
        .route(WATCH, post(watching::watch))
        .route(CONFIG, get(config).post(apply))
        .route(sonic::PATH, get(tables))
        .route(jobs::PATH, post(inc::add))
        .route(JOB, delete(inc::end))
        .route(CONFIRM, post(|state: Shared| simple(state, Order::Confirm, CONFIRM)))
        .route(ROLLBACK, post(|state: Shared| simple(state, Order::Rollback, ROLLBACK)))
}

fn answer(answer: Answer, path: &str) -> Response<Body> {
    match answer {
        Ok(Done::Said(document)) => json_text(&document),
        // Orders of their own, with answers of their own.
        Ok(Done::Watching(_) | Done::Fdb(_)) => {
            problem(StatusCode::INTERNAL_SERVER_ERROR, path, "an unexpected answer", None)
        }
        Err(refusal) => refused(&refusal, path),
    }
}

pub(super) fn refused(refusal: &Refusal, path: &str) -> Response<Body> {
    let status = StatusCode::from_u16(refusal.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    fault(status, path, &refusal.detail, refusal.faults())
}

pub(super) async fn simple(State(app): Shared, order: Order, path: &'static str) -> Response<Body> {
    let Some(desk) = &app.desk else {
        return problem(StatusCode::FORBIDDEN, path, "this switch takes no orders", None);
    };
    let done = desk.order(order).await;
    if done.is_ok() {
        // Whoever asks next is shown what has become of the order.
        let _ = tokio::time::timeout(STALE, app.looks.notified()).await;
    }
    answer(done, path)
}

async fn apply(State(app): Shared, RawQuery(query): RawQuery, body: Bytes) -> Response<Body> {
    let given = match parameters(query.as_deref(), &["name", "confirm", "dry_run"], CONFIG) {
        Ok(given) => given,
        Err(refusal) => return *refusal,
    };
    let value = |name: &str| given.iter().find(|(n, _)| n == name).map(|(_, value)| value.as_str());
    let bad = |detail: &str, name: &str| problem(StatusCode::BAD_REQUEST, CONFIG, detail, Some(name));
    let confirm = match value("confirm").map(|text| text.parse().map(Duration::from_millis)) {
        None => None,
        Some(Ok(time)) if time > Duration::ZERO && time <= LONGEST => Some(time),
        Some(_) => return bad("milliseconds, 1 to a day", "confirm"),
    };
    let dry_run = match value("dry_run") {
        None | Some("false") => false,
        Some("true") => true,
        Some(_) => return bad("true or false", "dry_run"),
    };
    let Ok(text) = String::from_utf8(body.into()) else {
        return problem(StatusCode::BAD_REQUEST, CONFIG, "a configuration is UTF-8", None);
    };
    let name = value("name").filter(|name| !name.is_empty()).unwrap_or("(posted)").to_owned();
    simple(State(app), Order::Apply { name, text, confirm, dry_run }, CONFIG).await
}

/// Every effective value of the configuration in force, and where it comes from.
async fn config(State(app): Shared, RawQuery(query): RawQuery) -> Response<Body> {
    if let Err(refusal) = parameters(query.as_deref(), &[], CONFIG) {
        return *refusal;
    }
    let Some(desk) = &app.desk else {
        return problem(StatusCode::SERVICE_UNAVAILABLE, CONFIG, "the configuration is not to be had", None);
    };
    let in_force = desk.shown.get();
    let left = in_force.unconfirmed.map(|at| at.saturating_duration_since(Instant::now()).as_millis() as u64);
    json_text(&json!({
        "source": in_force.source,
        "unconfirmed_ms": left,
        "unsettled": in_force.unsettled,
        "values": values(&in_force.config),
    }))
}

/// The configuration in force as SONiC's tables.
async fn tables(State(app): Shared, RawQuery(query): RawQuery) -> Response<Body> {
    if let Err(refusal) = parameters(query.as_deref(), &[], sonic::PATH) {
        return *refusal;
    }
    let Some(desk) = &app.desk else {
        return problem(
            StatusCode::SERVICE_UNAVAILABLE,
            sonic::PATH,
            "the configuration is not to be had",
            None,
        );
    };
    text(super::routes::JSON, weir_config::sonic::export(&desk.shown.get().config).json)
}

/// What would happen to a frame now.
async fn explain(State(app): Shared, RawQuery(query): RawQuery) -> Response<Body> {
    let given = match parameters(query.as_deref(), &questions::PARAMETERS, EXPLAIN) {
        Ok(given) => given,
        Err(refusal) => return *refusal,
    };
    let Some(desk) = &app.desk else {
        return problem(StatusCode::SERVICE_UNAVAILABLE, EXPLAIN, "the configuration is not to be had", None);
    };
    let (in_force, snapshot) = (desk.shown.get(), app.snapshot());
    let gauges = snapshot.now.ports.iter().map(|port| &port.gauges);
    let seen = Occupancy::of(&in_force.params, gauges);
    match questions::answer(&in_force.config, &in_force.params, &seen, &questions::Question(given)) {
        Ok(document) => json_text(&document),
        Err(fault) => problem(StatusCode::BAD_REQUEST, EXPLAIN, &fault.detail, Some(&fault.path)),
    }
}

/// Effective values as JSON.
pub fn values(config: &weir_config::Config) -> Vec<Value> {
    let row = |row: weir_config::Explained| json!({ "key": row.key, "value": row.value, "origin": row.origin.to_string(), "why": row.why });
    config.explain().into_iter().map(row).collect()
}
