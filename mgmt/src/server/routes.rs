//! What is served where.

use super::guard::guard;
use super::problem::problem;
use super::{App, lock, stream};
use crate::access::{
    EVENTS, HEALTHZ, HGRM, HISTORY, HLOG, INDEX, METRICS, OPENAPI, READYZ, SNAPSHOT, endpoints,
};
use crate::admin::fdb;
use crate::history::Behind;
use crate::latency::{self, Selection};
use crate::metrics::{self, Scrape};
use crate::openapi;
use crate::page;
use crate::snapshot::Snapshot;
use crate::table::{self, Table};
use crate::text::Text;
use crate::times::Part;
use axum::Router;
use axum::body::Body;
use axum::extract::{RawQuery, State};
use axum::http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use axum::middleware::from_fn_with_state;
use axum::routing::get;
use serde_json::{Value, json};
use std::fmt::Write;
use std::sync::Arc;
use weir_dataplane::types::PRIORITIES;

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

type Shared = State<Arc<App>>;

/// The routes.
pub(super) fn router(app: &Arc<App>, via: Via) -> Router {
    let mut router = Router::new()
        .route(HEALTHZ, get(healthz))
        .route(READYZ, get(readyz))
        .route(METRICS, get(scrape))
        .route(INDEX, get(index))
        .route(SNAPSHOT, get(snapshot))
        .route(OPENAPI, get(|| async { json_text(&openapi::document()) }))
        .route(EVENTS, get(stream::events))
        .route(fdb::PATH, get(super::fdb::page))
        .route(HISTORY, get(history))
        .route(HGRM, get(hgrm))
        .route(HLOG, get(hlog));
    for page in page::FILES {
        router = router.route(page.path, get(|| async { text(page.kind, page.text) }));
    }
    for table in table::ALL {
        router =
            router.route(table.path, get(move |state: Shared, query: RawQuery| rows(table, state, query)));
    }
    super::orders::routes(router)
        .with_state(Arc::clone(app))
        .layer(from_fn_with_state((Arc::clone(app), via), guard))
}

pub(super) fn text(kind: &'static str, body: impl Into<Body>) -> Response<Body> {
    let mut response = Response::new(body.into());
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}

pub(super) fn json_text(value: &Value) -> Response<Body> {
    text("application/json", format!("{value}\n"))
}

/// The query's parameters by name, if they are all among `known`; else the problem.
pub(super) fn parameters(
    query: Option<&str>,
    known: &[&str],
    path: &str,
) -> Result<Vec<(String, String)>, Box<Response<Body>>> {
    let mut all: Vec<(String, String)> = Vec::new();
    for part in query.unwrap_or("").split('&').filter(|part| !part.is_empty()) {
        let (name, value) = part.split_once('=').unwrap_or((part, ""));
        let refuse = |detail: &str, name: &str| {
            Err(Box::new(problem(StatusCode::BAD_REQUEST, path, detail, Some(name))))
        };
        let (Some(name), Some(value)) = (decode(name), decode(value)) else {
            return refuse("not UTF-8 in percent-encoding", part);
        };
        if !known.contains(&name.as_str()) {
            return refuse(&format!("unknown parameter; known here: {}", known.join(", ")), &name);
        }
        if all.iter().any(|(other, _)| *other == name) {
            return refuse("given twice", &name);
        }
        all.push((name, value));
    }
    Ok(all)
}

/// Percent-decoding; `None` if it is malformed.
fn decode(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'%' => {
                let digit = |b: Option<u8>| (b? as char).to_digit(16);
                (digit(rest.next())? * 16 + digit(rest.next())?) as u8
            }
            b'+' => b' ',
            byte => byte,
        });
    }
    String::from_utf8(bytes).ok()
}

/// The port a parameter names.
fn port(snapshot: &Snapshot, name: &str, path: &str) -> Result<usize, Box<Response<Body>>> {
    snapshot.info.ports.iter().position(|port| port.name == name).ok_or_else(|| {
        let names: Vec<_> = snapshot.info.ports.iter().map(|port| port.name.as_str()).collect();
        let detail = format!("no port of this name; there are {}", names.join(", "));
        Box::new(problem(StatusCode::NOT_FOUND, path, &detail, Some("port")))
    })
}

async fn rows(table: &'static Table, State(app): Shared, RawQuery(query): RawQuery) -> Response<Body> {
    let known: &[&str] = if table.by_port { &["port"] } else { &[] };
    let snapshot = app.snapshot();
    let selected = parameters(query.as_deref(), known, table.path)
        .and_then(|p| p.first().map(|(_, name)| port(&snapshot, name, table.path)).transpose());
    match selected {
        Ok(port) => long(&app, table.path, JSON, || table.document(&snapshot, port)).await,
        Err(refusal) => *refusal,
    }
}

async fn snapshot(State(app): Shared) -> Response<Body> {
    long(&app, SNAPSHOT, JSON, || table::everything(&app.snapshot())).await
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
async fn history(State(app): Shared, RawQuery(query): RawQuery) -> Response<Body> {
    match behind(query.as_deref()) {
        Ok(behind) => long(&app, HISTORY, JSON, || lock(&app.history).json(&app.snapshot(), behind)).await,
        Err(refusal) => *refusal,
    }
}

fn behind(query: Option<&str>) -> Result<Behind, Box<Response<Body>>> {
    let mut behind = Behind::default();
    for (name, value) in parameters(query, &["since", "after"], HISTORY)? {
        let (bound, what) = match name.as_str() {
            "since" => (&mut behind.unix_ms, "ms since 1970 are an integer"),
            _ => (&mut behind.uptime_ms, "an uptime in ms is an integer"),
        };
        *bound = value.parse().map_err(|_| bad(HISTORY, what, &name))?;
    }
    Ok(behind)
}

fn bad(path: &str, detail: &str, parameter: &str) -> Box<Response<Body>> {
    Box::new(problem(StatusCode::BAD_REQUEST, path, detail, Some(parameter)))
}

/// What a latency file is about: `port`, `queue`, `part`, and a switch of the name `flag`.
fn selection(
    snapshot: &Snapshot,
    query: Option<&str>,
    flag: &str,
    path: &str,
) -> Result<(Selection, bool), Box<Response<Body>>> {
    let mut which = (Selection::default(), false);
    for (name, value) in parameters(query, &["port", "queue", "part", flag], path)? {
        match name.as_str() {
            "port" => which.0.port = Some(port(snapshot, &value, path)?),
            "queue" => {
                let queue = value.parse().ok().filter(|queue| *queue < PRIORITIES);
                which.0.queue = Some(queue.ok_or_else(|| bad(path, "a queue is 0 to 7", "queue"))?);
            }
            "part" => {
                let part = Part::named(&value);
                which.0.part = part.ok_or_else(|| bad(path, "residence, queueing or pause", "part"))?;
            }
            _ => which.1 = value.parse().map_err(|_| bad(path, "true or false", flag))?,
        }
    }
    Ok(which)
}

/// The percentile distribution since start, or with `window=true` of the last second.
async fn hgrm(State(app): Shared, RawQuery(query): RawQuery) -> Response<Body> {
    let snapshot = app.snapshot();
    match selection(&snapshot, query.as_deref(), "window", HGRM) {
        Ok((which, window)) => file(latency::hgrm(&snapshot, which, window).map(Body::from), HGRM),
        Err(refusal) => *refusal,
    }
}

/// The interval log of the last minute, or with `cumulative=true` everything since start.
async fn hlog(State(app): Shared, RawQuery(query): RawQuery) -> Response<Body> {
    let snapshot = app.snapshot();
    match selection(&snapshot, query.as_deref(), "cumulative", HLOG) {
        Ok(_) if !app.sending.room(app.patience).await => crowded(HLOG),
        Ok((which, cumulative)) => {
            let made = lock(&app.intervals).hlog(&snapshot, which, cumulative);
            file(made.map(|made| Body::new(app.sending.body(made))), HLOG)
        }
        Err(refusal) => *refusal,
    }
}

fn file(made: Result<Body, latency::WriteError>, path: &str) -> Response<Body> {
    match made {
        Ok(body) => text("text/plain; charset=utf-8", body),
        Err(error) => problem(StatusCode::INTERNAL_SERVER_ERROR, path, &error.to_string(), None),
    }
}

async fn index() -> Response<Body> {
    let tables: Vec<Value> = table::ALL.iter().map(|t| json!({ "path": t.path, "what": t.what })).collect();
    let is_table = |path: &str| table::ALL.iter().any(|table| table.path == path);
    let others = endpoints().filter(|endpoint| endpoint.method == "GET" && !is_table(endpoint.path));
    let others: Vec<&str> = others.map(|endpoint| endpoint.path).filter(|path| *path != INDEX).collect();
    json_text(&json!({ "tables": tables, "other": others }))
}

async fn scrape(State(app): Shared, headers: HeaderMap) -> Response<Body> {
    let accept = headers.get(header::ACCEPT).and_then(|accept| accept.to_str().ok()).unwrap_or("");
    let (kind, make): (_, fn(Scrape) -> Text) = match metrics::wants_open_metrics(accept) {
        true => (metrics::OPEN_METRICS, metrics::open_metrics),
        false => (metrics::PLAIN_TEXT, metrics::plain_text),
    };
    long(&app, METRICS, kind, || make(Scrape { snapshot: app.snapshot(), own: app.own() })).await
}

/// The thread lives and looks.
async fn healthz(State(app): Shared) -> Response<Body> {
    checks(&[("sampling", app.is_fresh(), "the switch is looked at ten times a second".to_owned())], true)
}

/// The switch forwards.
async fn readyz(State(app): Shared, RawQuery(query): RawQuery) -> Response<Body> {
    let verbose = match parameters(query.as_deref(), &["verbose"], READYZ) {
        Ok(parameters) => !parameters.is_empty(),
        Err(refusal) => return *refusal,
    };
    let s = app.snapshot();
    let dead: Vec<String> = s
        .lcores
        .iter()
        .enumerate()
        .filter(|(_, lcore)| lcore.window == 0)
        .map(|(i, _)| s.info.lcores.get(i).copied().unwrap_or(i).to_string())
        .collect();
    let workers = match &dead[..] {
        [] => format!("{} publish", s.lcores.len()),
        dead => format!("lcore {} has not published for a second", dead.join(", ")),
    };
    let error = s.conservation_error();
    let unsettled = app.desk.as_ref().and_then(|desk| desk.shown.get().unsettled.clone());
    let checks_of = [
        ("sampling", app.is_fresh(), "the switch is looked at ten times a second".to_owned()),
        ("phase", s.now.phase == crate::snapshot::Phase::Forward, s.now.phase.word().to_owned()),
        ("workers", s.workers_alive() && !s.lcores.is_empty(), workers),
        ("conservation", error == 0, format!("the books are out by {error} frames")),
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
