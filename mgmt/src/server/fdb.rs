//! `GET /v1/fdb`: asks a worker for a page of its table.

use super::App;
use super::routes::{JSON, long};
use crate::admin::fdb::Question;
use crate::admin::{Done, Order};
use crate::api::given::Given;
use axum::body::Body;
use axum::http::{Response, StatusCode};
use std::sync::Arc;

pub(super) async fn page(app: Arc<App>, given: Given) -> Response<Body> {
    let Some(desk) = &app.desk else {
        return given.problem(StatusCode::SERVICE_UNAVAILABLE, "the table is not to be had");
    };
    let question = match Question::of(&given, &app.snapshot()) {
        Ok(question) => question,
        Err((status, parameter, detail, remedy)) => return given.wrong(status, &detail, parameter, remedy),
    };
    match desk.order(Order::Fdb(question)).await {
        Ok(Done::Fdb(page)) => long(&app, &given.path, JSON, || page.document(&app.snapshot())).await,
        Ok(_) => given.problem(StatusCode::INTERNAL_SERVER_ERROR, "an unexpected answer"),
        Err(refusal) => given.refused(&refusal),
    }
}
