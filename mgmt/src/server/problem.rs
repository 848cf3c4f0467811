//! Errors as `application/problem+json` (RFC 9457), naming the place of the fault.

use crate::api::documents::{Fault, Problem, json};
use crate::api::uses;
use axum::body::Body;
use axum::http::{HeaderValue, Response, StatusCode, header};

/// Its media type.
pub(crate) const PROBLEM: &str = "application/problem+json";

/// A problem: `path` is what was asked for, `parameter` the parameter at fault, if one is.
pub(crate) fn problem(
    status: StatusCode,
    path: &str,
    detail: &str,
    parameter: Option<&str>,
) -> Response<Body> {
    answer(status, path, detail, parameter, Vec::new())
}

/// The problem of a parameter, and what to write in its place.
pub(crate) fn wrong_parameter(
    status: StatusCode,
    path: &str,
    detail: &str,
    parameter: &str,
    remedy: String,
) -> Response<Body> {
    let fault = Fault { path: parameter.to_owned(), detail: detail.to_owned(), remedy, ..Fault::default() };
    answer(status, path, detail, Some(parameter), vec![fault])
}

/// A problem with several faults, each with its path.
pub(crate) fn fault(status: StatusCode, path: &str, detail: &str, faults: Vec<Fault>) -> Response<Body> {
    answer(status, path, detail, None, faults)
}

/// A whole answer for whoever gets no further than to the connection, which ends.
pub(super) fn message(status: StatusCode, detail: &str) -> Vec<u8> {
    let body = document(status, "", detail, None, Vec::new());
    let length = body.len();
    let head = format!("content-type: {PROBLEM}\r\ncontent-length: {length}\r\nconnection: close\r\n");
    format!("HTTP/1.1 {status}\r\n{head}\r\n{body}").into_bytes()
}

fn answer(
    status: StatusCode,
    path: &str,
    detail: &str,
    parameter: Option<&str>,
    faults: Vec<Fault>,
) -> Response<Body> {
    let mut response = Response::new(Body::from(document(status, path, detail, parameter, faults)));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(PROBLEM));
    response
}

fn document(
    status: StatusCode,
    path: &str,
    detail: &str,
    parameter: Option<&str>,
    mut faults: Vec<Fault>,
) -> String {
    if faults.is_empty() {
        let path = parameter.unwrap_or(path).to_owned();
        faults.push(Fault { path, detail: detail.to_owned(), ..Fault::default() });
    }
    for fault in faults.iter_mut().filter(|fault| fault.remedy.is_empty()) {
        fault.remedy = remedy(status).to_owned();
    }
    let body = Problem {
        r#type: "about:blank".into(),
        title: status.canonical_reason().unwrap_or("Error").into(),
        status: status.as_u16(),
        detail: detail.into(),
        instance: path.into(),
        parameter: parameter.map(Into::into),
        faults,
    };
    json(&body).to_string()
}

/// What to do about a status, where whoever refuses says no more than that.
fn remedy(status: StatusCode) -> &'static str {
    match status {
        StatusCode::UNAUTHORIZED => "send the token of a role that may, as `Authorization: Bearer TOKEN`",
        StatusCode::FORBIDDEN => "ask as a role that may; docs/management.md says which endpoint wants which",
        StatusCode::NOT_FOUND => "GET /v1 lists what there is",
        StatusCode::METHOD_NOT_ALLOWED => "use the method /v1/openapi.json names",
        StatusCode::REQUEST_TIMEOUT => "send the request at once",
        StatusCode::CONFLICT => {
            "look at what the switch does now (weir show), and ask again when that has ended"
        }
        StatusCode::PAYLOAD_TOO_LARGE => "send less; /v1/openapi.json says how much",
        StatusCode::UNSUPPORTED_MEDIA_TYPE => "send the media type that /v1/openapi.json names",
        status if status.is_server_error() => {
            "ask again later; if it stays so, look at the events (weir show events)"
        }
        _ => "ask as /v1/openapi.json says",
    }
}

/// Gives an error that has no explanation yet one; its headers stay.
pub(super) fn explain(response: Response<Body>, path: &str) -> Response<Body> {
    let status = response.status();
    let explained = response.headers().contains_key(header::CONTENT_TYPE);
    if !(status.is_client_error() || status.is_server_error()) || explained {
        return response;
    }
    let detail = match status {
        StatusCode::NOT_FOUND => "there is nothing here: /v1 lists what there is".to_owned(),
        StatusCode::METHOD_NOT_ALLOWED => format!("not this method: {}", uses(path)),
        _ => "the request cannot be served".to_owned(),
    };
    let mut fresh = problem(status, path, &detail, None);
    for (name, value) in response.headers() {
        if name != header::CONTENT_LENGTH {
            fresh.headers_mut().insert(name.clone(), value.clone());
        }
    }
    fresh
}
