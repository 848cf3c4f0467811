//! `POST /v1/inc/jobs`, `DELETE /v1/inc/jobs/ID`.

use super::orders::simple;
use super::{App, STALE};
use crate::admin::Order;
use crate::admin::inc::JobOrder;
use crate::api::given::Given;
use axum::body::Body;
use axum::http::{Response, StatusCode};
use std::sync::Arc;

pub(super) async fn add(app: Arc<App>, given: Given) -> Response<Body> {
    match JobOrder::add(&given.body) {
        Ok(order) => carry_out(app, order, given).await,
        Err(refusal) => given.refused(&refusal),
    }
}

pub(super) async fn end(app: Arc<App>, given: Given) -> Response<Body> {
    // Its entry says that it is there, and of 32 bits.
    let id = given.number("id").unwrap_or(0) as u32;
    let port = given.text("port").map(str::to_owned);
    carry_out(app, JobOrder::End { id, port }, given).await
}

async fn carry_out(app: Arc<App>, order: JobOrder, given: Given) -> Response<Body> {
    let answer = simple(Arc::clone(&app), Order::Job(order), &given).await;
    if answer.status() == StatusCode::OK {
        // What the first look finds was read before: engines are read between two looks.
        let _ = tokio::time::timeout(STALE, app.looks.notified()).await;
    }
    answer
}
