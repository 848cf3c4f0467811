//! What a request has to pass before it is looked at: `Host`, role, size, media type. And what every answer gets.

use super::problem::{explain, problem};
use super::routes::Via;
use super::{App, lock};
use crate::access::Role;
use crate::api::{self, Endpoint};
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::uri::Authority;
use axum::http::{HeaderMap, HeaderValue, Method, Response, StatusCode, Version, header};
use axum::middleware::Next;
use std::net::IpAddr;
use std::sync::Arc;

type Refusal = (StatusCode, String);

pub(super) async fn guard(
    State((app, via)): State<(Arc<App>, Via)>,
    request: Request,
    next: Next,
) -> Response<Body> {
    let path = request.uri().path().to_owned();
    let mut response = match refuse(&app, via, &request, &path) {
        Ok(()) => explain(next.run(request).await, &path),
        Err((status, detail)) => refused(status, &detail, &path, &request),
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

fn refused(status: StatusCode, detail: &str, path: &str, request: &Request) -> Response<Body> {
    let mut refusal = problem(status, path, detail, None);
    let headers = request.headers();
    if !reads(request)
        || headers.contains_key(header::CONTENT_LENGTH)
        || headers.contains_key(header::TRANSFER_ENCODING)
    {
        // A body that nobody reads must not be taken for the next request.
        refusal.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    if status == StatusCode::UNAUTHORIZED {
        // RFC 6750 3.1: an error is told to those who have presented a token.
        let wanted = presented(headers).map_or("Bearer", |_| "Bearer error=\"invalid_token\"");
        refusal.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static(wanted));
    }
    refusal
}

/// Every request that does not only read is an order, whether there is such a thing or not.
fn reads(request: &Request) -> bool {
    matches!(*request.method(), Method::GET | Method::HEAD)
}

/// What is wrong with a request, before its body is read and before it is known what it asks for.
fn refuse(app: &App, via: Via, request: &Request, path: &str) -> Result<(), Refusal> {
    let (found, reads) = (api::find(request.method().as_str(), path), reads(request));
    if !reads && app.desk.is_none() {
        return Err((StatusCode::FORBIDDEN, "this switch takes no orders".into()));
    }
    let needed = found.map_or(if reads { Role::Read } else { Role::Admin }, |endpoint| endpoint.role);
    // Who may not do it is told so, and nothing of what he asked for.
    check_role(app, via, request, needed)?;
    check_body(request, found, reads)?;
    match found {
        // A route that nobody has listed is none. One that takes other methods is told by the router.
        None if reads && !api::is_path(path) => {
            Err((StatusCode::NOT_FOUND, "there is nothing here: /v1 lists what there is".into()))
        }
        _ => check_kind(request.headers(), found),
    }
}

fn check_body(request: &Request, found: Option<&Endpoint>, reads: bool) -> Result<(), Refusal> {
    let headers = request.headers();
    let length =
        headers.get(header::CONTENT_LENGTH).map(|v| v.to_str().ok().and_then(|v| v.parse::<u64>().ok()));
    let most = found.map_or(api::UNUSED, Endpoint::most);
    let chunked = headers.contains_key(header::TRANSFER_ENCODING);
    if reads {
        return match chunked || length.is_some_and(|n| n != Some(0)) {
            true => Err((StatusCode::PAYLOAD_TOO_LARGE, "this only reads: send no body".into())),
            false => Ok(()),
        };
    }
    let has_body = found.is_some_and(|endpoint| endpoint.body.is_some());
    match length {
        _ if chunked => Err((StatusCode::LENGTH_REQUIRED, SAY_LENGTH.into())),
        None if has_body => Err((StatusCode::LENGTH_REQUIRED, SAY_LENGTH.into())),
        Some(None) => Err((StatusCode::BAD_REQUEST, "Content-Length is not a number".into())),
        Some(Some(length)) if length > most => {
            Err((StatusCode::PAYLOAD_TOO_LARGE, format!("at most {most} bytes of body for this order")))
        }
        _ => Ok(()),
    }
}

const SAY_LENGTH: &str = "say the length of the body: Content-Length";

fn check_role(app: &App, via: Via, request: &Request, needed: Role) -> Result<(), Refusal> {
    let headers = request.headers();
    let tokens = app.credentials.tokens.tokens();
    let presented = tokens.role(presented(headers));
    let role = match (via, presented) {
        (Via::Owner, _) => Role::Admin,
        (_, Some(role)) => role,
        // Where nobody asks for a token everybody on this machine may read.
        (Via::Tcp, None) if tokens.read.is_none() => Role::Read,
        (Via::Tcp | Via::Stranger, None) => Role::Anybody,
    };
    if via == Via::Tcp {
        let exposed = tokens.read.is_some();
        // What a token protects has no need of the name.
        let named = presented.is_some() || (exposed && needed == Role::Anybody);
        let host = asked_host(request).ok_or_else(|| (StatusCode::BAD_REQUEST, BAD_HOST.into()))?;
        if host.is_some_and(|host| !is_ours(&host, exposed, named, &app.hosts)) {
            return Err((StatusCode::MISDIRECTED_REQUEST, MISDIRECTED.into()));
        }
    }
    if role >= needed {
        return Ok(());
    }
    let key = needed.key();
    if needed > Role::Read && !tokens.grant(needed) {
        return Err((
            StatusCode::FORBIDDEN,
            format!("nobody may do this here: use the Unix socket, or set {key}"),
        ));
    }
    match presented {
        Some(role) => {
            let word = role.word();
            Err((StatusCode::FORBIDDEN, format!("this token is for `{word}`: present that of {key}")))
        }
        None => {
            Err((StatusCode::UNAUTHORIZED, format!("present the token of {key}: Authorization: Bearer ...")))
        }
    }
}

fn check_kind(headers: &HeaderMap, found: Option<&Endpoint>) -> Result<(), Refusal> {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|v| v.to_str().ok()).unwrap_or("");
    let kind = kind.split(';').next().unwrap_or("").trim();
    match found.and_then(|endpoint| endpoint.body) {
        Some(wanted) if !kind.eq_ignore_ascii_case(wanted.media) => {
            Err((StatusCode::UNSUPPORTED_MEDIA_TYPE, format!("Content-Type: {}", wanted.media)))
        }
        _ => Ok(()),
    }
}

pub(super) const MISDIRECTED: &str = "Host names another server: use 127.0.0.1, [::1] or localhost, list the name in mgmt.hosts, or present a token";

const BAD_HOST: &str = "say once whom you ask, and the same in the target if it is a URI: Host";

/// Whom a request means. HTTP/1.1 has to say so by one `Host` (RFC 9112 3.2), else the outer `None`: it is a bad request, as is one whose
/// target is a URI of somebody else. HTTP/1.0 may leave it out, then the inner `None`: no browser speaks it.
fn asked_host(request: &Request) -> Option<Option<Authority>> {
    let mut given = request.headers().get_all(header::HOST).iter();
    let uri = request.uri().authority();
    match (given.next(), given.next()) {
        (None, _) if request.version() == Version::HTTP_10 => Some(uri.cloned()),
        (Some(host), None) => {
            let host = host.to_str().ok()?.parse::<Authority>().ok()?;
            uri.is_none_or(|uri| *uri == host).then_some(Some(host))
        }
        _ => None,
    }
}

/// A page of another site that makes its own name point here (DNS rebinding) still sends its own name: without a token
/// only addresses, `localhost` and the names of `hosts` are ours. Such a page has no token, so with one (`named`) any name
/// will do. `exposed`: beyond loopback the token is what protects.
fn is_ours(host: &Authority, exposed: bool, named: bool, hosts: &[String]) -> bool {
    let name = host.host().trim_start_matches('[').trim_end_matches(']');
    match name.parse::<IpAddr>() {
        Ok(ip) => exposed || ip.is_loopback(),
        Err(_) => {
            let is_name = |known: &str| name.eq_ignore_ascii_case(known);
            named || is_name("localhost") || hosts.iter().any(|known| is_name(known))
        }
    }
}

fn presented(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ours(host: &str, exposed: bool) -> bool {
        is_ours(&host.parse().unwrap(), exposed, false, &["leaf1.example".to_owned()])
    }

    fn asked(version: Version, target: &str, hosts: &[&str]) -> Option<Option<String>> {
        let mut request = Request::builder().version(version).uri(target);
        for host in hosts {
            request = request.header(header::HOST, *host);
        }
        let host = asked_host(&request.body(Body::empty()).unwrap());
        host.map(|host| host.map(|host| host.as_str().to_owned()))
    }

    #[test]
    fn only_addresses_and_localhost_are_ours() {
        for host in ["127.0.0.1", "127.0.0.1:9470", "[::1]:9470", "localhost:1", "LOCALHOST", "127.8.8.8"] {
            assert!(ours(host, false), "{host}");
        }
        for host in ["evil.example", "localhost.evil.example", "10.0.0.1", "127.0.0.1.evil.example:80"] {
            assert!(!ours(host, false), "{host}");
        }
        assert!(ours("10.0.0.1:9470", true) && !ours("evil.example", true));
        assert!(
            ours("leaf1.example:9470", false)
                && ours("LEAF1.example", true)
                && !ours("leaf1.example.evil", true)
        );
    }

    #[test]
    fn one_host_only() {
        let is = |host: &str| Some(Some(host.to_owned()));
        for version in [Version::HTTP_10, Version::HTTP_11] {
            assert_eq!(asked(version, "/v1", &["localhost:1"]), is("localhost:1"));
            assert_eq!(asked(version, "http://a/v1", &["a"]), is("a"));
            for (target, hosts) in [
                ("/v1", &["localhost", "localhost"][..]),
                ("/v1", &["a b"]),
                ("/v1", &[""]),
                ("http://evil.example/v1", &["localhost"]),
            ] {
                assert_eq!(asked(version, target, hosts), None, "{version:?} {target} {hosts:?}");
            }
        }
        assert_eq!(asked(Version::HTTP_11, "/v1", &[]), None);
        assert_eq!(asked(Version::HTTP_10, "/v1", &[]), Some(None));
        assert_eq!(asked(Version::HTTP_10, "http://evil.example/v1", &[]), is("evil.example"));
    }
}
