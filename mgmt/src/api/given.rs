//! What somebody has said in path, query and body of a request, checked against the entry of its endpoint.

use super::{Endpoint, Kind, Parameter};
use crate::admin::Refusal;
use crate::server::problem::{fault, problem, wrong_parameter};
use crate::snapshot::SwitchInfo;
use axum::body::Body;
use axum::http::{HeaderMap, Response, StatusCode};
use bytes::Bytes;
use percent_encoding::percent_decode_str;

/// A request that fits its endpoint.
#[derive(Debug)]
pub(crate) struct Given {
    /// The endpoint.
    pub endpoint: &'static Endpoint,
    /// The path as it was asked for.
    pub path: String,
    /// Its headers.
    pub headers: HeaderMap,
    /// Its body.
    pub body: Bytes,
    /// It came over the local socket.
    pub local: bool,
    values: Vec<(&'static str, String)>,
}

/// A parameter that is wrong.
pub(crate) struct Wrong {
    status: StatusCode,
    detail: String,
    parameter: String,
    remedy: String,
}

impl Wrong {
    fn new(
        status: StatusCode,
        detail: impl Into<String>,
        parameter: &str,
        remedy: impl Into<String>,
    ) -> Self {
        Self { status, detail: detail.into(), parameter: parameter.to_owned(), remedy: remedy.into() }
    }

    fn answer(self, path: &str) -> Response<Body> {
        wrong_parameter(self.status, path, &self.detail, &self.parameter, self.remedy)
    }
}

impl Given {
    /// Reads path and query.
    pub fn read(
        endpoint: &'static Endpoint,
        path: &str,
        query: Option<&str>,
        info: &SwitchInfo,
    ) -> Result<Self, Box<Response<Body>>> {
        let values = values(endpoint, path, query, info).map_err(|wrong| Box::new(wrong.answer(path)))?;
        let (path, headers, body) = (path.to_owned(), HeaderMap::new(), Bytes::new());
        Ok(Self { endpoint, path, headers, body, local: false, values })
    }

    /// The same with headers and body; `local`: it came over the local socket.
    pub fn with(self, headers: HeaderMap, body: Bytes, local: bool) -> Self {
        Self { headers, body, local, ..self }
    }

    /// The value of a parameter, if it was given.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.values.iter().find(|(n, _)| *n == name).map(|(_, value)| value.as_str())
    }

    /// That of an integer.
    pub fn number(&self, name: &str) -> Option<u64> {
        self.text(name)?.parse().ok()
    }

    /// That of a flag, if it was given.
    pub fn flag(&self, name: &str) -> Option<bool> {
        self.text(name).map(|value| value == "true")
    }

    /// The port of this name.
    pub fn port(&self, name: &str, info: &SwitchInfo) -> Option<usize> {
        let name = self.text(name)?;
        info.ports.iter().position(|port| port.name == name)
    }

    /// All parameters that were given.
    pub fn values(&self) -> impl Iterator<Item = (&'static str, &str)> {
        self.values.iter().map(|(name, value)| (*name, value.as_str()))
    }

    /// An answer that says what is wrong.
    pub fn problem(&self, status: StatusCode, detail: &str) -> Response<Body> {
        problem(status, &self.path, detail, None)
    }

    /// An answer that says what is wrong with a parameter, and what to write in its place.
    pub fn wrong(&self, status: StatusCode, detail: &str, parameter: &str, remedy: String) -> Response<Body> {
        wrong_parameter(status, &self.path, detail, parameter, remedy)
    }

    /// An answer that says why an order is not carried out.
    pub fn refused(&self, refusal: &Refusal) -> Response<Body> {
        let status = StatusCode::from_u16(refusal.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        fault(status, &self.path, &refusal.detail, refusal.faults.clone())
    }
}

fn values(
    endpoint: &'static Endpoint,
    path: &str,
    query: Option<&str>,
    info: &SwitchInfo,
) -> Result<Vec<(&'static str, String)>, Wrong> {
    let in_query = |known: &&'static Parameter| !known.is_in(endpoint.path);
    let mut all: Vec<(&'static str, String)> = Vec::new();
    for (part, of) in path.split('/').zip(endpoint.path.split('/')).filter(|(_, of)| of.starts_with('{')) {
        let name = of.trim_matches(['{', '}']);
        let Some(known) = endpoint.parameters.iter().find(|known| known.name == name) else { continue };
        let value = decode(part).ok_or_else(|| malformed(part))?;
        all.push((known.name, check(known, value, info)?));
    }
    for part in query.unwrap_or("").split('&').filter(|part| !part.is_empty()) {
        let (name, value) = part.split_once('=').unwrap_or((part, ""));
        // As in a form a plus sign is a space, here and not in a path.
        let decode = |text: &str| decode(&text.replace('+', " "));
        let (Some(name), Some(value)) = (decode(name), decode(value)) else { return Err(malformed(part)) };
        let mut known = endpoint.parameters.iter().filter(in_query);
        let Some(known) = known.find(|known| known.name == name) else {
            let names: Vec<_> = endpoint.parameters.iter().filter(in_query).map(|known| known.name).collect();
            let (detail, remedy) = match &names[..] {
                [] => ("unknown parameter: none is known here".to_owned(), "leave it out".to_owned()),
                names => {
                    let names = names.join(", ");
                    (
                        format!("unknown parameter; known here: {names}"),
                        format!("use one of {names}, or leave it out"),
                    )
                }
            };
            return Err(Wrong::new(StatusCode::BAD_REQUEST, detail, &name, remedy));
        };
        if all.iter().any(|(other, _)| *other == name) {
            return Err(Wrong::new(StatusCode::BAD_REQUEST, "given twice", &name, "give it once"));
        }
        all.push((known.name, check(known, value, info)?));
    }
    match endpoint
        .parameters
        .iter()
        .find(|known| known.required && !all.iter().any(|(n, _)| *n == known.name))
    {
        Some(missing) => {
            let detail = format!("missing: {}", missing.what);
            Err(Wrong::new(StatusCode::BAD_REQUEST, detail, missing.name, format!("add {}=", missing.name)))
        }
        None => Ok(all),
    }
}

fn malformed(part: &str) -> Wrong {
    let remedy = "write other characters than letters and digits as % and two hexadecimal digits";
    Wrong::new(StatusCode::BAD_REQUEST, "not UTF-8 in percent-encoding", part, remedy)
}

fn check(known: &Parameter, value: String, info: &SwitchInfo) -> Result<String, Wrong> {
    let bad = |wanted: String| {
        let detail = format!("`{value}` is not {wanted}");
        Err(Wrong::new(StatusCode::BAD_REQUEST, detail, known.name, format!("write {wanted}")))
    };
    match known.kind {
        Kind::Text | Kind::Pattern(_) => {}
        Kind::Integer(least, most) => {
            // As Rust reads it a plus sign would do, too.
            let digits = !value.is_empty() && value.bytes().all(|b| b.is_ascii_digit());
            if !digits || value.parse::<u64>().map_or(true, |n| !(least..=most).contains(&n)) {
                return bad(match most {
                    u64::MAX => format!("an integer from {least} on"),
                    most => format!("an integer from {least} to {most}"),
                });
            }
        }
        Kind::Flag if !matches!(value.as_str(), "true" | "false") => return bad("true or false".into()),
        Kind::Flag => {}
        Kind::Word(words) if !words().contains(&value.as_str()) => {
            let words: Vec<_> = words().into_iter().filter(|word| !word.is_empty()).collect();
            return bad(format!("one of {}", words.join(", ")));
        }
        Kind::Word(_) => {}
        Kind::Port | Kind::PortOrLag => {
            let lags: &[_] = if matches!(known.kind, Kind::Port) { &[] } else { &info.lags };
            let ports = info.ports.iter().map(|port| port.name.as_str());
            let names: Vec<_> = ports.chain(lags.iter().map(|lag| lag.name.as_str())).collect();
            if !names.contains(&value.as_str()) {
                let (detail, remedy) =
                    (format!("no port is called `{value}`"), format!("name one of {}", names.join(", ")));
                return Err(Wrong::new(StatusCode::NOT_FOUND, detail, known.name, remedy));
            }
        }
    }
    Ok(value)
}

/// Percent-decoding; `None` if it is malformed.
fn decode(text: &str) -> Option<String> {
    let is_hex = |digits: &[u8]| digits.iter().all(u8::is_ascii_hexdigit);
    let whole = text.split('%').skip(1).all(|rest| rest.as_bytes().get(..2).is_some_and(is_hex));
    whole.then(|| percent_decode_str(text).decode_utf8().ok())?.map(Into::into)
}
