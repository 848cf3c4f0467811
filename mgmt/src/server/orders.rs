//! Orders over HTTP: who may give them, what they must look like, and what is said of the configuration.

use super::guard::{MISDIRECTED, host_is_ours, presented};
use super::inc;
use super::problem::{fault, problem};
use super::routes::{Via, json_text, parameters, text};
use super::watching;
use super::{App, STALE};
use crate::admin::{Answer, Desk, Done, Order, Refusal, explain as questions, inc as jobs};
use crate::sonic;
use axum::Router;
use axum::body::Body;
use axum::extract::{RawQuery, Request, State};
use axum::http::{HeaderMap, Method, Response, StatusCode, header};
use axum::routing::{delete, get, post};
use bytes::Bytes;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::{Duration, Instant};
use weir_dataplane::explain::Occupancy;

/// What an order must look like.
struct Rule {
    path: &'static str,
    /// Media type of its body; `None`: it has none.
    kind: Option<&'static str>,
    /// Longest body, bytes.
    most: u64,
}

const RULES: [Rule; 5] = [
    Rule { path: "/v1/config", kind: Some("application/toml"), most: 1 << 20 },
    Rule { path: "/v1/config/confirm", kind: None, most: 0 },
    Rule { path: "/v1/config/rollback", kind: None, most: 0 },
    Rule { path: jobs::PATH, kind: Some("application/json"), most: jobs::LONGEST },
    Rule { path: watching::PATH, kind: Some("application/json"), most: 4096 },
];

/// Longest time in which an order may be confirmed.
const LONGEST: Duration = Duration::from_secs(24 * 3600);

type Shared = State<Arc<App>>;

/// The routes.
pub(super) fn routes(router: Router<Arc<App>>) -> Router<Arc<App>> {
    router
        .route("/v1/explain", get(explain))
        .route(watching::PATH, post(watching::watch))
        .route("/v1/config", get(config).post(apply))
        .route(sonic::PATH, get(tables))
        .route(jobs::PATH, post(inc::add))
        .route("/v1/inc/jobs/{id}", delete(inc::end))
        .route(
            "/v1/config/confirm",
            post(|state: Shared| simple(state, Order::Confirm, "/v1/config/confirm")),
        )
        .route(
            "/v1/config/rollback",
            post(|state: Shared| simple(state, Order::Rollback, "/v1/config/rollback")),
        )
}

/// What has no rule of its own is an order all the same, without a body.
const OTHER: Rule = Rule { path: "", kind: None, most: 4096 };

/// For an order, which is every request that does not only read: `Some` with what is wrong with it, before its body is
/// read. `None`: it is no order.
pub(super) fn refuse(app: &App, via: Via, request: &Request, path: &str) -> Option<Option<Response<Body>>> {
    if matches!(*request.method(), Method::GET | Method::HEAD) {
        return None;
    }
    let is_its = |rule: &&Rule| rule.path == path && request.method() == Method::POST;
    let rule = RULES.iter().find(is_its).unwrap_or(&OTHER);
    let refused = allowed(app, via, request, rule).err();
    Some(refused.map(|(status, detail)| {
        let mut refusal = problem(status, path, detail, None);
        // A body that nobody reads must not be taken for the next request.
        refusal.headers_mut().insert(header::CONNECTION, header::HeaderValue::from_static("close"));
        refusal
    }))
}

fn allowed(app: &App, via: Via, request: &Request, rule: &Rule) -> Result<(), (StatusCode, &'static str)> {
    let headers = request.headers();
    if headers.contains_key(header::TRANSFER_ENCODING) {
        return Err((StatusCode::LENGTH_REQUIRED, "say the length of the body: Content-Length"));
    }
    let length =
        match headers.get(header::CONTENT_LENGTH).map(|v| v.to_str().ok().and_then(|v| v.parse().ok())) {
            None if rule.kind.is_some() => {
                return Err((StatusCode::LENGTH_REQUIRED, "say the length of the body: Content-Length"));
            }
            None => 0,
            Some(None) => return Err((StatusCode::BAD_REQUEST, "Content-Length is no number")),
            Some(Some(length)) => length,
        };
    if length > rule.most {
        return Err((StatusCode::PAYLOAD_TOO_LARGE, "the body is too long for this order"));
    }
    let Some(desk) = &app.desk else {
        return Err((StatusCode::FORBIDDEN, "this switch takes no orders"));
    };
    if via == Via::Tcp {
        may_order(app, desk, request)?;
    }
    let kind = headers.get(header::CONTENT_TYPE).and_then(|v| v.to_str().ok()).unwrap_or("");
    let kind = kind.split(';').next().unwrap_or("").trim();
    match rule.kind {
        Some(wanted) if !kind.eq_ignore_ascii_case(wanted) => Err((
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "Content-Type: application/toml for a configuration, application/json for the rest",
        )),
        _ => Ok(()),
    }
}

/// Over TCP only whoever has the token for orders.
fn may_order(app: &App, desk: &Desk, request: &Request) -> Result<(), (StatusCode, &'static str)> {
    let headers: &HeaderMap = request.headers();
    let given = presented(headers);
    let may = desk.token.as_ref().is_some_and(|token| token.fits(given));
    if !host_is_ours(request.uri().authority(), headers, app.token.is_some(), may) {
        return Err((StatusCode::MISDIRECTED_REQUEST, MISDIRECTED));
    }
    if may {
        Ok(())
    } else if desk.token.is_none() {
        Err((StatusCode::FORBIDDEN, "TCP is read-only: use the Unix socket, or set mgmt.admin_token_file"))
    } else if app.token.as_ref().is_some_and(|token| token.fits(given)) {
        Err((StatusCode::FORBIDDEN, "this token may only read: present that of mgmt.admin_token_file"))
    } else {
        Err((StatusCode::UNAUTHORIZED, "present the token for orders: Authorization: Bearer ..."))
    }
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
    const PATH: &str = "/v1/config";
    let given = match parameters(query.as_deref(), &["name", "confirm", "dry_run"], PATH) {
        Ok(given) => given,
        Err(refusal) => return *refusal,
    };
    let value = |name: &str| given.iter().find(|(n, _)| n == name).map(|(_, value)| value.as_str());
    let bad = |detail: &str, name: &str| problem(StatusCode::BAD_REQUEST, PATH, detail, Some(name));
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
        return problem(StatusCode::BAD_REQUEST, PATH, "a configuration is UTF-8", None);
    };
    let name = value("name").filter(|name| !name.is_empty()).unwrap_or("(posted)").to_owned();
    simple(State(app), Order::Apply { name, text, confirm, dry_run }, PATH).await
}

/// Every effective value of the configuration in force, and where it comes from.
async fn config(State(app): Shared, RawQuery(query): RawQuery) -> Response<Body> {
    const PATH: &str = "/v1/config";
    if let Err(refusal) = parameters(query.as_deref(), &[], PATH) {
        return *refusal;
    }
    let Some(desk) = &app.desk else {
        return problem(StatusCode::SERVICE_UNAVAILABLE, PATH, "the configuration is not to be had", None);
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
    const PATH: &str = "/v1/explain";
    let given = match parameters(query.as_deref(), &questions::PARAMETERS, PATH) {
        Ok(given) => given,
        Err(refusal) => return *refusal,
    };
    let Some(desk) = &app.desk else {
        return problem(StatusCode::SERVICE_UNAVAILABLE, PATH, "the configuration is not to be had", None);
    };
    let (in_force, snapshot) = (desk.shown.get(), app.snapshot());
    let gauges = snapshot.now.ports.iter().map(|port| &port.gauges);
    let seen = Occupancy::of(&in_force.params, gauges);
    match questions::answer(&in_force.config, &in_force.params, &seen, &questions::Question(given)) {
        Ok(document) => json_text(&document),
        Err(fault) => problem(StatusCode::BAD_REQUEST, PATH, &fault.detail, Some(&fault.path)),
    }
}

/// Effective values as JSON.
pub fn values(config: &weir_config::Config) -> Vec<Value> {
    let row = |row: weir_config::Explained| json!({ "key": row.key, "value": row.value, "origin": row.origin.to_string(), "why": row.why });
    config.explain().into_iter().map(row).collect()
}
