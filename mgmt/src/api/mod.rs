//! The management API as a list: every endpoint there is, with all that is known of it. What is not listed is not served.
//!
//! The list itself is `server/endpoints.rs`. The router, the guard, the index `/v1`, the OpenAPI document and the client are made
//! from it, so an endpoint is one entry. Names and values of parameters are checked against the entry before a handler is
//! asked; what goes in and comes out are the types of [`documents`].

pub mod documents;
pub(crate) mod given;

use crate::access::Role;
use crate::server::{self, Serve};
use crate::table::Table;
use schemars::{JsonSchema, SchemaGenerator};
use serde_json::Value;
use std::borrow::Cow;
use std::sync::LazyLock;

/// What a parameter may be.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// Name of a port of this switch.
    Port,
    /// Name of a port or of a LAG of this switch.
    PortOrLag,
    /// Any text.
    Text,
    /// A text that fits this regular expression; its handler reads it.
    Pattern(&'static str),
    /// An integer from the first to the second.
    Integer(u64, u64),
    /// `true` or `false`.
    Flag,
    /// One of these words.
    Word(fn() -> Vec<&'static str>),
}

/// A parameter of an endpoint.
#[derive(Clone, Copy, Debug)]
pub struct Parameter {
    /// Its name.
    pub name: &'static str,
    /// What it says.
    pub what: &'static str,
    /// What it may be.
    pub kind: Kind,
    /// It must be given. One that stands in the path always must.
    pub required: bool,
}

/// A parameter of this kind that may be left out.
pub(crate) const fn parameter(name: &'static str, what: &'static str, kind: Kind) -> Parameter {
    Parameter { name, what, kind, required: false }
}

impl Parameter {
    /// It stands in the path, not in the query.
    pub fn is_in(&self, path: &str) -> bool {
        path.split('/')
            .any(|part| part.strip_prefix('{').is_some_and(|p| p.strip_suffix('}') == Some(self.name)))
    }
}

/// Makes the schema of a document, with what it refers to left in the generator.
pub type Schema = fn(&mut SchemaGenerator) -> Value;

fn schema_of<T: JsonSchema>(generator: &mut SchemaGenerator) -> Value {
    generator.subschema_for::<T>().into()
}

/// The body of a request.
#[derive(Clone, Copy, Debug)]
pub struct Body {
    /// Its media type.
    pub media: &'static str,
    /// What it is.
    pub schema: Schema,
    /// Longest body, bytes.
    pub most: u64,
    /// An example.
    pub example: &'static str,
}

impl Body {
    /// JSON of this type.
    pub(crate) const fn json<T: JsonSchema>(most: u64, example: &'static str) -> Self {
        Self { media: "application/json", schema: schema_of::<T>, most, example }
    }
}

/// What an answer holds.
#[derive(Clone, Copy, Debug)]
pub enum Content {
    /// Rows of a table.
    Rows(&'static Table),
    /// Every table.
    Everything,
    /// JSON of a type.
    Json(Schema),
    /// Text.
    Text,
    /// Documents of a type, one per line; empty lines are signs of life.
    Lines(Schema),
    /// Server-Sent Events whose data are documents of a type.
    Events(Schema),
}

/// An answer that is no problem.
#[derive(Clone, Copy, Debug)]
pub struct Answer {
    /// HTTP status.
    pub status: u16,
    /// Its media type.
    pub media: &'static str,
    /// What it holds.
    pub content: Content,
}

impl Answer {
    const fn new(media: &'static str, content: Content) -> Self {
        Self { status: 200, media, content }
    }

    /// JSON of this type.
    pub(crate) const fn json<T: JsonSchema>() -> Self {
        Self::new("application/json", Content::Json(schema_of::<T>))
    }

    /// Rows of a table.
    pub(crate) const fn rows(table: &'static Table) -> Self {
        Self::new("application/json", Content::Rows(table))
    }

    /// Every table.
    pub(crate) const EVERYTHING: Self = Self::new("application/json", Content::Everything);

    /// Text of this media type.
    pub(crate) const fn text(media: &'static str) -> Self {
        Self::new(media, Content::Text)
    }

    /// Documents of this type, one per line.
    pub(crate) const fn lines<T: JsonSchema>() -> Self {
        Self::new("application/x-ndjson", Content::Lines(schema_of::<T>))
    }

    /// Documents of this type as Server-Sent Events.
    pub(crate) const fn events<T: JsonSchema>() -> Self {
        Self::new("text/event-stream", Content::Events(schema_of::<T>))
    }
}

/// A method of a path, and all that is known of it.
pub struct Endpoint {
    /// Its name: `operationId` of the OpenAPI document, a function of a generated client.
    pub id: Cow<'static, str>,
    /// GET (HEAD is the same without a body), POST or DELETE.
    pub method: &'static str,
    /// The path; `{id}` stands for any one part of it.
    pub path: &'static str,
    /// What it is about, in one word; empty for the files of the page, which are no part of the API.
    pub tag: &'static str,
    /// What it does.
    pub what: &'static str,
    /// Who may.
    pub role: Role,
    /// What may be said in path and query.
    pub parameters: &'static [Parameter],
    /// Its body; `None`: it has none.
    pub body: Option<Body>,
    /// What it is answered with, problems aside.
    pub answers: Vec<Answer>,
    pub(crate) serve: Serve,
}

impl std::fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Endpoint")
            .field("method", &self.method)
            .field("path", &self.path)
            .finish_non_exhaustive()
    }
}

impl Endpoint {
    /// Bytes of body that are taken at most.
    pub fn most(&self) -> u64 {
        match (self.body, self.method) {
            (Some(body), _) => body.most,
            // A body here is for another order.
            (None, "POST") => 0,
            (None, _) => UNUSED,
        }
    }

    /// It changes or does something.
    pub fn is_order(&self) -> bool {
        self.method != "GET"
    }
}

/// What a request without use for a body may carry all the same, bytes: some clients send one.
pub(crate) const UNUSED: u64 = 4096;

/// Where all tables are answered at once.
pub const SNAPSHOT: &str = "/v1/snapshot";
/// Where what is there is listed.
pub const INDEX: &str = "/v1";
/// The last minute.
pub const HISTORY: &str = "/v1/history";
/// What happened and what happens.
pub const EVENTS: &str = "/v1/events";
/// The configuration in force, and another one.
pub const CONFIG: &str = "/v1/config";
/// Where what was applied is kept.
pub const CONFIRM: &str = "/v1/config/confirm";
/// Where what was applied is taken back.
pub const ROLLBACK: &str = "/v1/config/rollback";
/// What would happen to a frame.
pub const EXPLAIN: &str = "/v1/explain";
/// Frames that are followed.
pub const WATCH: &str = "/v1/watch";
/// This list as an OpenAPI document.
pub const OPENAPI: &str = "/v1/openapi.json";

static LIST: LazyLock<Vec<Endpoint>> = LazyLock::new(server::endpoints);

/// All of them, with the files of the page.
pub(crate) fn all() -> &'static [Endpoint] {
    &LIST
}

/// All of them, but for the files of the page.
pub fn endpoints() -> impl Iterator<Item = &'static Endpoint> {
    LIST.iter().filter(|endpoint| !endpoint.tag.is_empty())
}

/// The endpoint a request is for, if there is one.
pub fn find(method: &str, path: &str) -> Option<&'static Endpoint> {
    let method = if method == "HEAD" { "GET" } else { method };
    LIST.iter().find(|endpoint| endpoint.method == method && is_at(endpoint.path, path))
}

/// Something is served at this path, by whatever method.
pub fn is_path(path: &str) -> bool {
    LIST.iter().any(|endpoint| is_at(endpoint.path, path))
}

/// What may be asked for at a path, and below it: for who has taken the wrong method.
pub fn uses(path: &str) -> String {
    let mut uses: Vec<(&str, Vec<&str>)> = Vec::new();
    for endpoint in LIST.iter().filter(|at| is_at(at.path, path) || at.path.starts_with(&format!("{path}/")))
    {
        match uses.iter_mut().find(|(at, _)| *at == endpoint.path) {
            Some((_, methods)) => methods.push(endpoint.method),
            None => uses.push((endpoint.path, vec![endpoint.method])),
        }
    }
    let uses: Vec<_> =
        uses.iter().map(|(at, methods)| format!("{at} takes {}", methods.join(" and "))).collect();
    uses.join(", ")
}

/// The path is one of those the pattern stands for.
fn is_at(pattern: &str, path: &str) -> bool {
    let fits = |(of, part): (&str, &str)| of == part || (of.starts_with('{') && !part.is_empty());
    pattern.split('/').count() == path.split('/').count() && pattern.split('/').zip(path.split('/')).all(fits)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn the_document_has_every_endpoint_and_no_other() {
        let document = crate::openapi::json(true);
        let mut told = BTreeSet::new();
        for (path, item) in document["paths"].as_object().unwrap() {
            for (method, operation) in item.as_object().unwrap() {
                let method = method.to_uppercase();
                let endpoint = find(&method, path).unwrap_or_else(|| panic!("{method} {path} is closed"));
                assert_eq!(operation["x-role"], endpoint.role.word(), "{method} {path}");
                assert_eq!(operation["operationId"], endpoint.id.as_ref());
                let kind = operation["requestBody"]["content"].as_object();
                let kind = kind.and_then(|kinds| kinds.keys().next().map(String::as_str));
                assert_eq!(kind, endpoint.body.map(|body| body.media), "{method} {path}");
                told.insert((method, path.clone()));
            }
        }
        let all = endpoints().map(|endpoint| (endpoint.method.to_owned(), endpoint.path.to_owned()));
        assert_eq!(told, all.collect());
    }

    #[test]
    fn names_are_unique_words_and_every_endpoint_says_what_it_is() {
        let mut ids = BTreeSet::new();
        for endpoint in endpoints() {
            let id = endpoint.id.as_ref();
            assert!(id.chars().all(|c| c.is_ascii_lowercase() || c == '_'), "{id}");
            assert!(!id.contains("_v1"), "{id}");
            assert!(ids.insert(id), "{id} twice");
            assert!(endpoint.what.ends_with('.') && !endpoint.answers.is_empty(), "{id}");
            if let Some(body) = endpoint.body {
                assert!((body.example.len() as u64) < body.most && !body.example.is_empty(), "{id}");
            }
            let inside = endpoint.path.matches('{').count();
            let parameters = endpoint.parameters.iter();
            assert_eq!(parameters.filter(|p| p.is_in(endpoint.path) && p.required).count(), inside, "{id}");
        }
    }

    #[test]
    fn who_takes_the_wrong_method_is_told_the_right_ones() {
        assert_eq!(uses("/v1/inc/jobs"), "/v1/inc/jobs takes GET and POST, /v1/inc/jobs/{id} takes DELETE");
        assert_eq!(uses("/v1/inc/jobs/7"), "/v1/inc/jobs/{id} takes DELETE");
        assert_eq!(uses("/v1/ports"), "/v1/ports takes GET");
    }

    #[test]
    fn what_is_not_listed_is_no_endpoint() {
        let id = |method: &str, path: &str| find(method, path).map(|endpoint| endpoint.id.as_ref());
        assert_eq!((id("HEAD", "/v1/ports"), id("GET", "/v1/ports")), (Some("get_ports"), Some("get_ports")));
        assert_eq!(find("GET", "/").map(|endpoint| endpoint.role), Some(Role::Anybody));
        assert_eq!(id("DELETE", "/v1/inc/jobs/7"), Some("end_inc_job"));
        for (method, path) in [
            ("DELETE", "/v1/inc/jobs/"),
            ("DELETE", "/v1/inc/jobs/7/8"),
            ("PUT", CONFIG),
            ("POST", "/v1/ports"),
            ("GET", WATCH),
            ("GET", "/v1/ports/"),
        ] {
            assert_eq!(id(method, path), None, "{method} {path}");
        }
    }
}
