//! Who may ask for what: every endpoint there is, with the role it takes. What is not listed here is not served.

use crate::token::Token;
use crate::{admin, page, sonic, table};

/// What somebody may do. Each may do what those before it may.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// Fetch documents without data.
    Anybody,
    /// Look at the switch.
    Read,
    /// Have work done that changes no configuration: look into frames, which slows the worker they come to; begin and end
    /// jobs of in-network aggregation.
    Operate,
    /// Change the configuration.
    Admin,
}

impl Role {
    /// As the documents call it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Anybody => "anybody",
            Self::Read => "read",
            Self::Operate => "operate",
            Self::Admin => "admin",
        }
    }

    /// The configuration key of the file with the token of this role.
    pub fn key(self) -> &'static str {
        match self {
            Self::Anybody | Self::Read => "mgmt.token_file",
            Self::Operate => "mgmt.operate_token_file",
            Self::Admin => "mgmt.admin_token_file",
        }
    }
}

/// A method of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// GET (HEAD is the same without a body), POST or DELETE.
    pub method: &'static str,
    /// The path; `{id}` stands for any one part of it.
    pub path: &'static str,
    /// Who may.
    pub role: Role,
    /// Media type of the body; `None`: it has none.
    pub body: Option<&'static str>,
    /// Longest body, bytes.
    pub most: u64,
}

/// What a request without use for a body may carry all the same, bytes: some clients send one.
pub(crate) const UNUSED: u64 = 4096;

const fn read(path: &'static str) -> Endpoint {
    Endpoint { method: "GET", path, role: Role::Read, body: None, most: UNUSED }
}

const fn order(path: &'static str, role: Role, body: Option<&'static str>, most: u64) -> Endpoint {
    Endpoint { method: "POST", path, role, body, most }
}

/// Where tables are listed; where all of them are answered at once.
pub(crate) const INDEX: &str = "/v1";
pub(crate) const SNAPSHOT: &str = "/v1/snapshot";
pub(crate) const METRICS: &str = "/metrics";
pub(crate) const HISTORY: &str = "/v1/history";
pub(crate) const HGRM: &str = "/v1/latency.hgrm";
pub(crate) const HLOG: &str = "/v1/latency.hlog";
pub(crate) const EVENTS: &str = "/v1/events";
pub(crate) const OPENAPI: &str = "/v1/openapi.json";
pub(crate) const HEALTHZ: &str = "/healthz";
pub(crate) const READYZ: &str = "/readyz";
pub(crate) const CONFIG: &str = "/v1/config";
pub(crate) const CONFIRM: &str = "/v1/config/confirm";
pub(crate) const ROLLBACK: &str = "/v1/config/rollback";
pub(crate) const EXPLAIN: &str = "/v1/explain";
pub(crate) const WATCH: &str = "/v1/watch";
pub(crate) const JOB: &str = "/v1/inc/jobs/{id}";

/// Those that are neither tables nor files of the page.
const OTHERS: [Endpoint; 20] = [
    Endpoint { role: Role::Anybody, ..read(HEALTHZ) },
    read(READYZ),
    read(INDEX),
    read(SNAPSHOT),
    read(METRICS),
    read(HISTORY),
    read(HGRM),
    read(HLOG),
    read(EVENTS),
    read(OPENAPI),
    read(admin::fdb::PATH),
    read(EXPLAIN),
    read(sonic::PATH),
    read(CONFIG),
    order(CONFIG, Role::Admin, Some("application/toml"), 1 << 20),
    order(CONFIRM, Role::Admin, None, 0),
    order(ROLLBACK, Role::Admin, None, 0),
    order(WATCH, Role::Operate, Some("application/json"), 4096),
    order(admin::inc::PATH, Role::Operate, Some("application/json"), admin::inc::LONGEST),
    Endpoint { method: "DELETE", ..order(JOB, Role::Operate, None, UNUSED) },
];

/// All of them, but for the files of the page.
pub fn endpoints() -> impl Iterator<Item = Endpoint> {
    let tables = table::ALL.iter().map(|table| read(table.path));
    tables.chain(OTHERS)
}

/// The endpoint a request is for, if there is one.
pub fn find(method: &str, path: &str) -> Option<Endpoint> {
    let method = if method == "HEAD" { "GET" } else { method };
    let files = page::FILES.iter().map(|file| Endpoint { role: Role::Anybody, ..read(file.path) });
    endpoints().chain(files).find(|endpoint| endpoint.method == method && is_at(endpoint.path, path))
}

/// What may be asked for at a path, and below it: for who has taken the wrong method.
pub fn uses(path: &str) -> String {
    let mut uses: Vec<(&str, Vec<&str>)> = Vec::new();
    for endpoint in endpoints().filter(|at| is_at(at.path, path) || at.path.starts_with(&format!("{path}/")))
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

/// What clients over TCP present, role by role; `None`: nobody has that role over TCP, but for reading, for which
/// nothing is then asked.
#[derive(Clone, Debug, Default)]
pub struct Tokens {
    /// For [`Role::Read`].
    pub read: Option<Token>,
    /// For [`Role::Operate`].
    pub operate: Option<Token>,
    /// For [`Role::Admin`].
    pub admin: Option<Token>,
}

impl Tokens {
    fn by_role(&self) -> [(Role, Option<&Token>); 3] {
        [
            (Role::Admin, self.admin.as_ref()),
            (Role::Operate, self.operate.as_ref()),
            (Role::Read, self.read.as_ref()),
        ]
    }

    /// The role of whoever presents this; `None`: it is no token here.
    pub fn role(&self, presented: Option<&str>) -> Option<Role> {
        let fits = |(role, token): (Role, Option<&Token>)| token?.fits(presented).then_some(role);
        self.by_role().into_iter().find_map(fits)
    }

    /// Somebody can have this role, or a higher one.
    pub fn grant(&self, role: Role) -> bool {
        self.by_role().iter().any(|(of, token)| *of >= role && token.is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn the_document_has_every_endpoint_and_no_other() {
        let document = crate::openapi::document();
        let mut told = BTreeSet::new();
        for (path, item) in document["paths"].as_object().unwrap() {
            for (method, operation) in item.as_object().unwrap() {
                let method = method.to_uppercase();
                let endpoint = find(&method, path).unwrap_or_else(|| panic!("{method} {path} is closed"));
                assert_eq!(operation["x-role"], endpoint.role.word(), "{method} {path}");
                assert_eq!(
                    operation["security"].is_array(),
                    endpoint.role > Role::Anybody,
                    "{method} {path}"
                );
                let kind = operation["requestBody"]["content"].as_object();
                let kind = kind.and_then(|kinds| kinds.keys().next().map(String::as_str));
                assert_eq!(kind, endpoint.body, "{method} {path}");
                told.insert((method, path.clone()));
            }
        }
        let all = endpoints().map(|endpoint| (endpoint.method.to_owned(), endpoint.path.to_owned()));
        assert_eq!(told, all.collect());
    }

    #[test]
    fn a_token_gives_its_role_and_the_highest_where_several_are_one() {
        let token = |text: &str| Some(Token::new(text));
        let tokens = Tokens { read: token("rr"), operate: token("oo"), admin: token("aa") };
        let roles = ["rr", "oo", "aa", "xx"].map(|presented| tokens.role(Some(presented)));
        assert_eq!(roles, [Some(Role::Read), Some(Role::Operate), Some(Role::Admin), None]);
        let one = Tokens { read: token("aa"), admin: token("aa"), operate: None };
        assert_eq!(one.role(Some("aa")), Some(Role::Admin));
        assert!(one.grant(Role::Operate), "an admin may operate");
        assert_eq!(Tokens::default().role(Some("")), None);
        assert!(!Tokens::default().grant(Role::Read));
    }

    #[test]
    fn who_takes_the_wrong_method_is_told_the_right_ones() {
        assert_eq!(uses("/v1/inc/jobs"), "/v1/inc/jobs takes GET and POST, /v1/inc/jobs/{id} takes DELETE");
        assert_eq!(uses("/v1/inc/jobs/7"), "/v1/inc/jobs/{id} takes DELETE");
        assert_eq!(uses("/v1/ports"), "/v1/ports takes GET");
    }

    #[test]
    fn what_is_not_listed_is_no_endpoint() {
        assert_eq!(find("HEAD", "/v1/ports"), find("GET", "/v1/ports"));
        assert_eq!(find("GET", "/").map(|endpoint| endpoint.role), Some(Role::Anybody));
        assert!(find("DELETE", "/v1/inc/jobs/7").is_some());
        for (method, path) in [
            ("DELETE", "/v1/inc/jobs/"),
            ("DELETE", "/v1/inc/jobs/7/8"),
            ("PUT", CONFIG),
            ("POST", "/v1/ports"),
            ("GET", WATCH),
            ("GET", "/v1/ports/"),
        ] {
            assert_eq!(find(method, path), None, "{method} {path}");
        }
    }
}
