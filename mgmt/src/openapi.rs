//! The OpenAPI 3.1 document, made from the tables. The one in `docs/openapi.json` is compared with it.

use crate::access::{self, Role};
use crate::table::{self, Form, Table};
use crate::times::Part;
use serde_json::{Map, Value, json};

/// The document.
pub fn document() -> Value {
    let mut paths = Map::new();
    let mut schemas = Map::new();
    for table in table::ALL {
        schemas.insert(row_name(table), row(table));
        paths.insert(table.path.to_owned(), json!({ "get": rows(table) }));
    }
    let everything: Map<String, Value> =
        table::ALL.iter().map(|t| (t.name.to_owned(), array(t))).chain(stamp()).collect();
    schemas.insert("Snapshot".into(), json!({ "type": "object", "properties": everything }));
    schemas.insert("Problem".into(), problem());
    let mut other = |path: &str, what: &str, parameters: Value, content: Value| {
        let ok = json!({ "description": what, "content": content });
        let operation = json!({
            "get": {
                "summary": what,
                "parameters": parameters,
                "responses": { "200": ok, "default": error() },
            }
        });
        paths.insert(path.to_owned(), operation);
    };
    let text = json!({ "text/plain": { "schema": { "type": "string" } } });
    let object = json!({ "application/json": { "schema": { "type": "object" } } });
    let snapshot = json!({ "application/json": { "schema": { "$ref": "#/components/schemas/Snapshot" } } });
    other("/v1", "What there is.", json!([]), object.clone());
    other("/v1/openapi.json", "This document.", json!([]), object);
    other("/v1/snapshot", "Every table at one instant.", json!([]), snapshot);
    other(
        "/v1/events",
        "Events kept, then events as they come.",
        json!([
            parameter("since", "number of the last event already known", &json!({ "type": "integer" })),
            parameter("format", "default: as Accept says, else sse", &json!({ "enum": ["sse", "ndjson"] })),
            parameter("follow", "false: only what is kept", &json!({ "type": "boolean" })),
        ]),
        json!({
            "text/event-stream": { "schema": { "type": "string" } },
            "application/x-ndjson": { "schema": { "type": "string" } },
        }),
    );
    let since =
        parameter("since", "steps that ended after this, ms since 1970", &json!({ "type": "integer" }));
    let after = parameter(
        "after",
        "steps that ended after this `uptime_ms`, which no clock that is set disturbs",
        &json!({ "type": "integer" }),
    );
    other(
        "/v1/history",
        "The last minute in steps, by port and priority; only what was busy.",
        json!([since, after]),
        json!({ "application/json": { "schema": { "type": "object" } } }),
    );
    let lane = || {
        let port = parameter("port", "this port only", &json!({ "type": "string" }));
        let queue = json!({ "type": "integer", "minimum": 0, "maximum": 7 });
        let parts: Vec<_> = Part::ALL.iter().map(|part| part.name()).collect();
        let part = parameter("part", "of the time; default: residence, all of it", &json!({ "enum": parts }));
        vec![port, parameter("queue", "this queue only", &queue), part]
    };
    let mut hgrm = lane();
    hgrm.push(parameter("window", "of the last second, not since start", &json!({ "type": "boolean" })));
    other("/v1/latency.hgrm", "HdrHistogram percentile distribution, us.", json!(hgrm), text.clone());
    let mut hlog = lane();
    hlog.push(parameter("cumulative", "since start, not second by second", &json!({ "type": "boolean" })));
    other("/v1/latency.hlog", "HdrHistogram interval log V2 of the last minute.", json!(hlog), text.clone());
    other(
        "/healthz",
        "200 while the management thread looks at the switch, else 503.",
        json!([]),
        text.clone(),
    );
    let verbose = parameter("verbose", "say what was checked", &json!({ "type": "string" }));
    other("/readyz", "200 while the switch forwards, else 503 with reasons.", json!([verbose]), text.clone());
    other(
        "/metrics",
        "OpenMetrics 1.0 if asked for, else text 0.0.4.",
        json!([]),
        json!({
            "application/openmetrics-text": { "schema": { "type": "string" } },
            "text/plain": { "schema": { "type": "string" } },
        }),
    );
    for (path, operations) in crate::admin::openapi::paths() {
        // What is shown and ordered in one place.
        match (paths.get_mut(&path), operations) {
            (Some(Value::Object(there)), Value::Object(more)) => there.extend(more),
            (_, operations) => drop(paths.insert(path, operations)),
        }
    }
    for (path, item) in &mut paths {
        for (method, operation) in item.as_object_mut().into_iter().flatten() {
            let Some(endpoint) = access::find(&method.to_uppercase(), path) else { continue };
            operation["operationId"] = json!(operation_id(method, path));
            operation["x-role"] = json!(endpoint.role.word());
            if endpoint.role > Role::Anybody {
                operation["security"] = json!([{ "token": [] }]);
            }
        }
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "weir management",
            "version": "1",
            "description": "Reads a running switch, and takes orders for it. Counters only grow; integers above 2^53 are decimal text. `x-role` says who may: over the Unix socket its owner may do all; over TCP tokens give roles, and reading takes none where no token for it is configured.",
        },
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": { "token": { "type": "http", "scheme": "bearer" } },
        },
    })
}

/// `get_v1_latency_hgrm`
fn operation_id(method: &str, path: &str) -> String {
    let words = path.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    std::iter::once(method).chain(words).collect::<Vec<_>>().join("_")
}

/// The document as it is committed.
pub fn text() -> String {
    format!("{:#}\n", document())
}

fn row_name(table: &Table) -> String {
    let mut letters = table.name.chars();
    let first = letters.next().map(|c| c.to_ascii_uppercase());
    first.into_iter().chain(letters).chain("Row".chars()).collect()
}

fn array(table: &Table) -> Value {
    json!({ "type": "array", "items": { "$ref": format!("#/components/schemas/{}", row_name(table)) } })
}

fn stamp() -> impl Iterator<Item = (String, Value)> {
    [
        ("switch_name", json!({ "type": "string" })),
        ("unix_ms", json!({ "type": "integer", "description": "when, ms since 1970" })),
        ("uptime_seconds", json!({ "type": "number" })),
        ("window_seconds", json!({ "type": "number", "description": "time rates are taken over" })),
    ]
    .into_iter()
    .map(|(name, schema)| (name.to_owned(), schema))
}

fn row(table: &Table) -> Value {
    let columns = table.columns.iter().map(|column| {
        let mut schema = match column.form {
            Form::Text => json!({ "type": "string" }),
            Form::Flag => json!({ "type": "boolean" }),
            Form::Count => json!({ "type": ["integer", "string"], "minimum": 0, "pattern": "^[0-9]+$" }),
            Form::Maybe => {
                json!({ "type": ["integer", "string", "null"], "minimum": 0, "pattern": "^[0-9]+$" })
            }
            Form::Rate => json!({ "type": "number" }),
            Form::Share => json!({ "type": "number", "minimum": 0 }),
        };
        schema["description"] = json!(column.what);
        (column.name.to_owned(), schema)
    });
    let properties: Map<String, Value> = columns.collect();
    let required: Vec<_> = table.columns.iter().map(|column| column.name).collect();
    json!({ "type": "object", "description": table.what, "properties": properties, "required": required })
}

fn rows(table: &Table) -> Value {
    let properties: Map<String, Value> = stamp().chain([(table.name.to_owned(), array(table))]).collect();
    let parameters = match table.by_port {
        true => json!([parameter("port", "rows of this port only", &json!({ "type": "string" }))]),
        false => json!([]),
    };
    json!({
        "summary": table.what,
        "parameters": parameters,
        "responses": {
            "200": {
                "description": table.what,
                "content": { "application/json": { "schema": { "type": "object", "properties": properties } } },
            },
            "default": error(),
        },
    })
}

fn parameter(name: &str, what: &str, schema: &Value) -> Value {
    json!({ "name": name, "in": "query", "description": what, "schema": schema })
}

fn error() -> Value {
    let content =
        json!({ "application/problem+json": { "schema": { "$ref": "#/components/schemas/Problem" } } });
    json!({ "description": "what is wrong, and where", "content": content })
}

fn problem() -> Value {
    json!({
        "type": "object",
        "properties": {
            "type": { "type": "string" },
            "title": { "type": "string" },
            "status": { "type": "integer" },
            "detail": { "type": "string" },
            "instance": { "type": "string", "description": "path asked for" },
            "parameter": { "type": "string", "description": "query parameter at fault" },
        },
        "required": ["type", "title", "status", "detail", "instance"],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `WEIR_WRITE_DOCS=1 cargo test -p weir-mgmt openapi` writes the file anew.
    #[test]
    fn the_committed_document_is_this_one() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/openapi.json");
        if std::env::var_os("WEIR_WRITE_DOCS").is_some() {
            std::fs::write(path, text()).unwrap();
        }
        let committed = std::fs::read_to_string(path).unwrap_or_default();
        assert!(
            committed == text(),
            "docs/openapi.json differs: WEIR_WRITE_DOCS=1 cargo test -p weir-mgmt openapi"
        );
    }

    #[test]
    fn every_reference_leads_somewhere() {
        let document = document();
        let text = document.to_string();
        for reference in text.split("\"$ref\":\"#").skip(1) {
            let pointer = reference.split('"').next().unwrap();
            assert!(document.pointer(pointer).is_some(), "{pointer}");
        }
    }
}
