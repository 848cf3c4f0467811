//! `GET /v1/fdb`: asks a worker for a page of its table.

use super::App;
use super::orders::refused;
use super::problem::problem;
use super::routes::{JSON, long, parameters};
use crate::admin::fdb::{PARAMETERS, PATH, Question};
use crate::admin::{Done, Order};
use axum::body::Body;
use axum::extract::{RawQuery, State};
use axum::http::{Response, StatusCode};
use std::sync::Arc;

pub(super) async fn page(State(app): State<Arc<App>>, RawQuery(query): RawQuery) -> Response<Body> {
    let given = match parameters(query.as_deref(), &PARAMETERS, PATH) {
        Ok(given) => given,
        Err(refusal) => return *refusal,
    };
    let Some(desk) = &app.desk else {
        return problem(StatusCode::SERVICE_UNAVAILABLE, PATH, "the table is not to be had", None);
    };
    let question = match Question::of(&given, &app.snapshot()) {
        Ok(question) => question,
        Err((parameter @ "port", detail)) => {
            return problem(StatusCode::NOT_FOUND, PATH, &detail, Some(parameter));
        }
        Err((parameter, detail)) => return problem(StatusCode::BAD_REQUEST, PATH, &detail, Some(parameter)),
    };
    match desk.order(Order::Fdb(question)).await {
        Ok(Done::Fdb(page)) => long(&app, PATH, JSON, || page.document(&app.snapshot())).await,
        Ok(_) => problem(StatusCode::INTERNAL_SERVER_ERROR, PATH, "an unexpected answer", None),
        Err(refusal) => refused(&refusal, PATH),
    }
}
