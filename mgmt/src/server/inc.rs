//! `POST /v1/inc/jobs`, `DELETE /v1/inc/jobs/ID`.

use super::orders::{refused, simple};
use super::problem::problem;
use super::routes::parameters;
use super::{App, STALE};
use crate::admin::Order;
use crate::admin::inc::{JobOrder, PATH};
use axum::body::Body;
use axum::extract::{Path, RawQuery, State};
use axum::http::{Response, StatusCode};
use bytes::Bytes;
use std::sync::Arc;

pub(super) async fn add(app: State<Arc<App>>, body: Bytes) -> Response<Body> {
    match JobOrder::add(&body) {
        Ok(order) => carry_out(app, order).await,
        Err(refusal) => refused(&refusal, PATH),
    }
}

pub(super) async fn end(
    app: State<Arc<App>>,
    Path(id): Path<String>,
    RawQuery(query): RawQuery,
) -> Response<Body> {
    let given = match parameters(query.as_deref(), &["port"], PATH) {
        Ok(given) => given,
        Err(refusal) => return *refusal,
    };
    let Ok(id) = id.parse() else {
        return problem(StatusCode::BAD_REQUEST, PATH, "a job is called by a number: /v1/inc/jobs/7", None);
    };
    let port = given.into_iter().next().map(|(_, port)| port);
    carry_out(app, JobOrder::End { id, port }).await
}

async fn carry_out(app: State<Arc<App>>, order: JobOrder) -> Response<Body> {
    let answer = simple(app.clone(), Order::Job(order), PATH).await;
    if answer.status() == StatusCode::OK {
        // What the first look finds was read before: engines are read between two looks.
        let _ = tokio::time::timeout(STALE, app.looks.notified()).await;
    }
    answer
}
