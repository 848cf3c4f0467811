//! What is served where.

use super::guard::guard;
use super::problem::problem;
use super::{App, lock};
use crate::api::documents::{Index, IndexedTable, json};
use crate::api::given::Given;
use crate::api::{self, Endpoint};
use crate::flows;
use crate::history::Behind;
use crate::latency::{self, Selection};
use crate::lldp;
use crate::metrics::{self, Scrape};
use crate::openapi;
use crate::snapshot::Snapshot;
use crate::table::{self, Table};
use crate::text::Text;
use crate::times::Part;
use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::extract::rejection::BytesRejection;
use axum::http::{HeaderMap, HeaderValue, Response, StatusCode, Uri, header};
use axum::middleware::from_fn_with_state;
use axum::routing::{MethodRouter, delete, get, post};
use bytes::Bytes;
use serde_json::Value;
use std::fmt::Write;
use std::sync::Arc;
use weir_layout::counted;

/// Which way a request came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Via {
    /// From this machine, or from anywhere.
    Tcp,
    /// Over the Unix socket, by whoever runs the switch, or root.
    Owner,
    /// Over the Unix socket, by somebody else who was given access to it.
    Stranger,
}

pub(super) const JSON: &str = "application/json";

/// The routes.
pub(super) fn router(app: &Arc<App>, via: Via) -> Router {
    let all = api::all().iter();
    all.fold(Router::new(), |router, endpoint| router.route(endpoint.path, route(endpoint, via)))
        .with_state(Arc::clone(app))
        .layer(from_fn_with_state((Arc::clone(app), via), guard))
}

fn route(endpoint: &'static Endpoint, via: Via) -> MethodRouter<Arc<App>> {
    let serve = move |State(app): State<Arc<App>>,
                      uri: Uri,
                      headers: HeaderMap,
                      body: Result<Bytes, BytesRejection>| async move {
        let path = uri.path();
        let body = match body {
            Ok(body) => body,
            Err(error) => return problem(error.status(), path, "the body did not come as announced", None),
        };
        match Given::read(endpoint, path, uri.query(), &app.snapshot().info) {
            Ok(given) => {
                let given = given.with(headers, body, via != Via::Tcp);
                (endpoint.serve)(app, given).await
            }
            Err(refusal) => *refusal,
        }
    };
    match endpoint.method {
        "POST" => post(serve),
        "DELETE" => delete(serve),
        _ => get(serve),
    }
}

pub(super) fn text(kind: &'static str, body: impl Into<Body>) -> Response<Body> {
    let mut response = Response::new(body.into());
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}

pub(super) fn json_text(value: &Value) -> Response<Body> {
    text("application/json", format!("{value}\n"))
}

pub(super) async fn rows(table: &'static Table, app: Arc<App>, given: Given) -> Response<Body> {
    let snapshot = app.snapshot();
    let port = given.port("port", &snapshot.info);
    long(&app, &given.path, JSON, || table.document(&snapshot, port)).await
}

pub(super) async fn snapshot(app: Arc<App>, given: Given) -> Response<Body> {
    long(&app, &given.path, JSON, || table::everything(&app.snapshot())).await
}

pub(super) async fn document(app: Arc<App>, _: Given) -> Response<Body> {
    json_text(&openapi::json(app.credentials.tokens.tokens().read.is_none()))
}

/// An answer that may be long: made once there is room for it.
pub(super) async fn long(
    app: &App,
    path: &str,
    kind: &'static str,
    make: impl FnOnce() -> Text,
) -> Response<Body> {
    if !app.sending.room(app.patience).await {
        return crowded(path);
    }
    text(kind, Body::new(app.sending.body(make())))
}

fn crowded(path: &str) -> Response<Body> {
    let detail = "others have not read their answers yet: ask again";
    problem(StatusCode::SERVICE_UNAVAILABLE, path, detail, None)
}

/// The last minute, or what of it came after `since` (ms since 1970) and `after` (uptime in ms, as in the answer).
pub(super) async fn history(app: Arc<App>, given: Given) -> Response<Body> {
    let number = |name: &str| given.number(name).unwrap_or(0);
    let behind = Behind { unix_ms: number("since"), uptime_ms: number("after") };
    long(&app, &given.path, JSON, || lock(&app.history).json(&app.snapshot(), behind)).await
}

/// Which flows are behind marks, losses, pauses and depth.
pub(super) async fn behind_what(app: Arc<App>, given: Given) -> Response<Body> {
    let snapshot = app.snapshot();
    let query = flows::Query::of(&given, &snapshot);
    long(&app, &given.path, JSON, || line(&flows::document(&snapshot, &query))).await
}

/// Neighbours, and what they are told.
pub(super) async fn neighbours(app: Arc<App>, given: Given) -> Response<Body> {
    let snapshot = app.snapshot();
    let query = lldp::Query::of(&given, &snapshot);
    long(&app, &given.path, JSON, || line(&lldp::document(&snapshot, &query))).await
}

/// A document as a line.
fn line(document: &Value) -> Text {
    let mut text = Text::default();
    let _ = writeln!(text, "{document}");
    text
}

/// What a latency file is about.
fn selection(snapshot: &Snapshot, given: &Given) -> Selection {
    Selection {
        port: given.port("port", &snapshot.info),
        queue: given.number("queue").map(|queue| queue as usize),
        part: given.text("part").and_then(Part::named).unwrap_or_default(),
    }
}

/// The percentile distribution since start, or with `window=true` of the last second.
pub(super) async fn hgrm(app: Arc<App>, given: Given) -> Response<Body> {
    let snapshot = app.snapshot();
    let window = given.flag("window").unwrap_or(false);
    file(latency::hgrm(&snapshot, selection(&snapshot, &given), window).map(Body::from), &given.path)
}

/// The interval log of the last minute, or with `cumulative=true` everything since start.
pub(super) async fn hlog(app: Arc<App>, given: Given) -> Response<Body> {
    if !app.sending.room(app.patience).await {
        return crowded(&given.path);
    }
    let snapshot = app.snapshot();
    let cumulative = given.flag("cumulative").unwrap_or(false);
    let made = lock(&app.intervals).hlog(&snapshot, selection(&snapshot, &given), cumulative);
    file(made.map(|made| Body::new(app.sending.body(made))), &given.path)
}

fn file(made: Result<Body, latency::WriteError>, path: &str) -> Response<Body> {
    match made {
        Ok(body) => text("text/plain; charset=utf-8", body),
        Err(error) => problem(StatusCode::INTERNAL_SERVER_ERROR, path, &error.to_string(), None),
    }
}

pub(super) async fn index(_: Arc<App>, given: Given) -> Response<Body> {
    let tables =
        table::ALL.iter().map(|t| IndexedTable { path: t.path.into(), what: t.what.into() }).collect();
    let is_table = |path: &str| table::ALL.iter().any(|table| table.path == path);
    let others = api::endpoints().filter(|endpoint| !endpoint.is_order() && !is_table(endpoint.path));
    let others = others.map(|endpoint| endpoint.path.to_owned()).filter(|path| *path != given.endpoint.path);
    json_text(&json(&Index { tables, other: others.collect() }))
}

pub(super) async fn scrape(app: Arc<App>, given: Given) -> Response<Body> {
    let accept = given.headers.get(header::ACCEPT).and_then(|accept| accept.to_str().ok()).unwrap_or("");
    let (kind, make): (_, fn(Scrape) -> Text) = match metrics::wants_open_metrics(accept) {
        true => (metrics::OPEN_METRICS, metrics::open_metrics),
        false => (metrics::PLAIN_TEXT, metrics::plain_text),
    };
    long(&app, &given.path, kind, || make(Scrape { snapshot: app.snapshot(), own: app.own() })).await
}

/// The thread lives and looks.
pub(super) async fn healthz(app: Arc<App>, _: Given) -> Response<Body> {
    checks(&[("sampling", app.is_fresh(), "the switch is looked at ten times a second".to_owned())], true)
}

/// The switch forwards.
pub(super) async fn readyz(app: Arc<App>, given: Given) -> Response<Body> {
    let verbose = given.text("verbose").is_some_and(|verbose| verbose != "false");
    let s = app.snapshot();
    let dead: Vec<String> =
        s.standing().map(|i| s.info.lcores.get(i).copied().unwrap_or(i).to_string()).collect();
    let workers = match &dead[..] {
        [] => format!("{} publish", s.lcores.len()),
        dead if s.starting => format!("lcore {} is starting", dead.join(", ")),
        dead => format!("lcore {} has not published for a second", dead.join(", ")),
    };
    let error = s.conservation_error();
    let unsettled = app.desk.as_ref().and_then(|desk| desk.shown.get().unsettled.clone());
    let checks_of = [
        ("sampling", app.is_fresh(), "the switch is looked at ten times a second".to_owned()),
        ("phase", s.now.phase == crate::snapshot::Phase::Forward, s.now.phase.word().to_owned()),
        ("workers", s.workers_alive() && !s.lcores.is_empty(), workers),
        ("conservation", error == 0, format!("accounting error: {}", counted(error, "frame"))),
        (
            "configuration",
            unsettled.is_none(),
            unsettled.unwrap_or_else(|| "all workers have the same".into()),
        ),
    ];
    checks(&checks_of, verbose)
}

fn checks(checks: &[(&str, bool, String)], verbose: bool) -> Response<Body> {
    let good = checks.iter().all(|(_, good, _)| *good);
    let mut body = String::new();
    for (name, good, detail) in checks.iter().filter(|(_, good, _)| verbose || !good) {
        let _ = writeln!(body, "[{}] {name}: {detail}", if *good { '+' } else { '-' });
    }
    body.push_str(if good { "ok\n" } else { "not ok\n" });
    let mut response = text("text/plain; charset=utf-8", body);
    if !good {
        *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
    }
    response
}
