//! Orders, questions and what they are answered with, for the OpenAPI document.

use serde_json::{Map, Value, json};

fn text(name: &str, what: &str) -> Value {
    json!({ "name": name, "in": "query", "description": what, "schema": { "type": "string" } })
}

fn answers(what: &str, kind: &str) -> Value {
    let content = Map::from_iter([(kind.to_owned(), json!({ "schema": { "type": "object" } }))]);
    let problem = json!({ "$ref": "#/components/schemas/Problem" });
    json!({
        "200": { "description": what, "content": content },
        "default": {
            "description": "why not; `faults` names the path of each fault",
            "content": { "application/problem+json": { "schema": problem } },
        },
    })
}

fn fdb() -> Value {
    let what = "A page of the forwarding table, in no order, and what workers have counted.";
    let mut answers = answers(what, "application/json");
    answers["200"]["content"]["application/json"]["schema"] = super::fdb::schema();
    json!({
        "summary": what,
        "parameters": [
            text("limit", "entries of a page, 1 to 4096; default 1024"),
            text("after", "`next` of the page before"),
            text("port", "entries that point to this port"),
            text("mac", "entries of this address"),
            text("vlan", "entries of this VLAN; 0: untagged"),
        ],
        "responses": answers,
    })
}

/// The paths.
pub fn paths() -> Map<String, Value> {
    let order = |what: &str, kind: Option<&str>, parameters: Vec<Value>, answer: &str| {
        let mut operation = json!({
            "summary": what,
            "parameters": parameters,
            "responses": answers(what, answer),
        });
        if let Some(kind) = kind {
            let schema =
                json!({ "schema": { "type": if kind.ends_with("json") { "object" } else { "string" } } });
            let content = Map::from_iter([(kind.to_owned(), schema)]);
            operation["requestBody"] = json!({ "required": true, "content": content });
        }
        operation
    };
    let read = |what: &str, parameters: Vec<Value>| json!({ "summary": what, "parameters": parameters, "responses": answers(what, "application/json") });
    const JSON: &str = "application/json";
    let apply = vec![
        text("name", "what the configuration is called in messages"),
        text("confirm", "milliseconds after which it is taken back unless confirmed"),
        text("dry_run", "true: only say what would change"),
    ];
    let question =
        super::explain::PARAMETERS.iter().map(|name| text(name, "as `weir explain --NAME`")).collect();
    let end = vec![
        json!({ "name": "id", "in": "path", "required": true, "schema": { "type": "integer" } }),
        text("port", "port of its engine; may be left out where there is one engine"),
    ];
    let paths = [
        (
            "/v1/inc/jobs/{id}",
            json!({ "delete": order("Tell the ranks of a job that it has ended, and forget it.", None, end, JSON) }),
        ),
        (
            "/v1/config",
            json!({
                "get": read("Every effective value of the configuration in force, with its origin.", vec![]),
                "post": order(
                    "Go over to another configuration, all of it or nothing.",
                    Some("application/toml"),
                    apply,
                    JSON,
                ),
            }),
        ),
        (
            crate::sonic::PATH,
            json!({ "get": read("The configuration in force as SONiC's tables (config_db.json).", vec![]) }),
        ),
        ("/v1/config/confirm", json!({ "post": order("Keep what was applied.", None, vec![], JSON) })),
        ("/v1/config/rollback", json!({ "post": order("Go back to what was before.", None, vec![], JSON) })),
        (super::fdb::PATH, json!({ "get": fdb() })),
        ("/v1/explain", json!({ "get": read("What would happen to a frame now.", question) })),
        (
            "/v1/watch",
            json!({
                "post": order("Follow frames, told as they come.", Some(JSON), vec![], "application/x-ndjson"),
            }),
        ),
    ];
    let add = order("Take a job of in-network aggregation (docs/inc.md).", Some(JSON), vec![], JSON);
    let jobs = (super::inc::PATH, json!({ "post": add }));
    paths.into_iter().chain([jobs]).map(|(path, item)| (path.to_owned(), item)).collect()
}
