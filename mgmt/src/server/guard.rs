//! What a request has to pass before it is looked at: size, `Host`, token. And what every answer gets.

use super::problem::{explain, problem};
use super::routes::Via;
use super::{App, lock};
use crate::page;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::uri::Authority;
use axum::http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use axum::middleware::Next;
use std::net::IpAddr;
use std::sync::Arc;

/// Longest body that is read past, bytes: nothing here wants one.
const MAX_BODY: u64 = 4096;

/// Documents without data: a browser gets them before it can present a token.
fn is_public(path: &str) -> bool {
    path == "/healthz" || page::FILES.iter().any(|file| file.path == path)
}

pub(super) async fn guard(
    State((app, via)): State<(Arc<App>, Via)>,
    request: Request,
    next: Next,
) -> Response<Body> {
    let path = request.uri().path().to_owned();
    let refusal = match super::orders::refuse(&app, via, &request, &path) {
        Some(order) => order,
        None => refuse(&app, via, &request, &path),
    };
    let mut response = match refusal {
        Some(refusal) => refusal,
        None => explain(next.run(request).await, &path),
    };
    let headers = response.headers_mut();
    for (name, value) in [
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::CACHE_CONTROL, "no-store"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::CONTENT_SECURITY_POLICY, "default-src 'self'; base-uri 'none'; frame-ancestors 'none'"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    *lock(&app.answers).entry(response.status().as_u16()).or_default() += 1;
    response
}

fn refuse(app: &App, via: Via, request: &Request, path: &str) -> Option<Response<Body>> {
    let headers = request.headers();
    let length =
        headers.get(header::CONTENT_LENGTH).map(|v| v.to_str().ok().and_then(|v| v.parse::<u64>().ok()));
    if headers.contains_key(header::TRANSFER_ENCODING)
        || length.is_some_and(|n| n.is_none_or(|n| n > MAX_BODY))
    {
        let mut refusal =
            problem(StatusCode::PAYLOAD_TOO_LARGE, path, "this interface only reads: send no body", None);
        // What follows is the body nobody will read.
        refusal.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
        return Some(refusal);
    }
    if via == Via::Unix {
        return None;
    }
    let admin = app.desk.as_ref().and_then(|desk| desk.token.as_ref());
    let tokens = [app.token.as_ref(), admin];
    let known = tokens.into_iter().flatten().any(|token| token.fits(presented(headers)));
    // What a token protects has no need of the name.
    let named = known || (app.token.is_some() && is_public(path));
    if !host_is_ours(request.uri().authority(), headers, app.token.is_some(), named) {
        return Some(problem(StatusCode::MISDIRECTED_REQUEST, path, MISDIRECTED, None));
    }
    if known || app.token.is_none() || is_public(path) {
        return None;
    }
    let mut refusal =
        problem(StatusCode::UNAUTHORIZED, path, "present the token: Authorization: Bearer ...", None);
    refusal.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    Some(refusal)
}

pub(super) const MISDIRECTED: &str =
    "Host names another server: use 127.0.0.1, [::1] or localhost, or present a token";

/// A page of another site that makes its own name point here (DNS rebinding) still sends its own name: without a token
/// only addresses and `localhost` are ours. Such a page has no token, so with one (`named`) any name will do. `exposed`: beyond
/// loopback the token is what protects.
pub(super) fn host_is_ours(
    authority: Option<&Authority>,
    headers: &HeaderMap,
    exposed: bool,
    named: bool,
) -> bool {
    let mut hosts = headers.get_all(header::HOST).iter();
    let (Some(host), None) = (hosts.next(), hosts.next()) else { return false };
    let Some(host) = host.to_str().ok().and_then(|host| host.parse::<Authority>().ok()) else { return false };
    if authority.is_some_and(|asked| *asked != host) {
        return false;
    }
    let name = host.host().trim_start_matches('[').trim_end_matches(']');
    match name.parse::<IpAddr>() {
        Ok(ip) => exposed || ip.is_loopback(),
        Err(_) => named || name.eq_ignore_ascii_case("localhost"),
    }
}

pub(super) fn presented(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ours(host: &str, exposed: bool) -> bool {
        let mut headers = HeaderMap::new();
        headers.insert(header::HOST, HeaderValue::from_str(host).unwrap());
        host_is_ours(None, &headers, exposed, false)
    }

    #[test]
    fn only_addresses_and_localhost_are_ours() {
        for host in ["127.0.0.1", "127.0.0.1:9470", "[::1]:9470", "localhost:1", "LOCALHOST", "127.8.8.8"] {
            assert!(ours(host, false), "{host}");
        }
        for host in
            ["evil.example", "localhost.evil.example", "10.0.0.1", "", "127.0.0.1.evil.example:80", "a b"]
        {
            assert!(!ours(host, false), "{host}");
        }
        assert!(ours("10.0.0.1:9470", true) && !ours("evil.example", true));
    }

    #[test]
    fn one_host_only() {
        let mut headers = HeaderMap::new();
        assert!(!host_is_ours(None, &headers, false, true));
        headers.append(header::HOST, HeaderValue::from_static("localhost"));
        assert!(!host_is_ours(Some(&Authority::from_static("evil.example")), &headers, false, true));
        headers.append(header::HOST, HeaderValue::from_static("localhost"));
        assert!(!host_is_ours(None, &headers, false, true));
    }
}
