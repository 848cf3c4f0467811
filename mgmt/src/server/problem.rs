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

/// A problem with several faults, each with its path.
pub(crate) fn fault(status: StatusCode, path: &str, detail: &str, faults: Vec<Fault>) -> Response<Body> {
    answer(status, path, detail, None, faults)
}

fn answer(
    status: StatusCode,
    path: &str,
    detail: &str,
    parameter: Option<&str>,
    faults: Vec<Fault>,
) -> Response<Body> {
    let body = Problem {
        r#type: "about:blank".into(),
        title: status.canonical_reason().unwrap_or("Error").into(),
        status: status.as_u16(),
        detail: detail.into(),
        instance: path.into(),
        parameter: parameter.map(Into::into),
        faults,
    };
    let mut response = Response::new(Body::from(json(&body).to_string()));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(PROBLEM));
    response
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
