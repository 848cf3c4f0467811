//! The OpenAPI 3.1 document, made from the list of endpoints ([`crate::api`]), the types of what they take and answer, and the
//! columns of the tables. The one in `docs/openapi.json` is compared with it.

use crate::access::Role;
use crate::api::documents::{Count, Problem, Stamp};
use crate::api::{self, Answer, Body, Content, Endpoint, Kind, Parameter};
use crate::server::problem::PROBLEM;
use crate::table::{self, Form, Table};
use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, SchemaGenerator};
use serde_json::{Map, Value, json};

/// The document of a switch that lets everybody read who can reach it, or asks for a token.
pub fn document(everybody_reads: bool) -> Value {
    let mut schemas = Schemas::default();
    let mut paths = Map::new();
    for endpoint in api::endpoints() {
        let operation = operation(endpoint, everybody_reads, &mut schemas);
        let item = paths.entry(endpoint.path).or_insert_with(|| json!({}));
        item[endpoint.method.to_lowercase()] = operation;
    }
    let problem = json!({ PROBLEM: { "schema": schemas.answered::<Problem>() } });
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "weir management",
            "version": "1",
            "description": "Reads a running switch, and takes orders for it. Counters only grow; integers above 2^53 are decimal text. `x-role` says who may: over the Unix socket its owner may do all; over TCP tokens give roles, and reading takes none where no token for it is configured.",
            "license": { "name": env!("CARGO_PKG_LICENSE"), "identifier": env!("CARGO_PKG_LICENSE") },
        },
        "paths": paths,
        "components": {
            "schemas": schemas.all(),
            "responses": {
                "Problem": { "description": "What is wrong, and where.", "content": problem },
            },
            "securitySchemes": { "token": { "type": "http", "scheme": "bearer" } },
        },
    })
}

/// The document as it is committed: that of a switch without a token for reading.
pub fn text() -> String {
    format!("{:#}\n", document(true))
}

/// Schemas of what is posted and answered, by name.
struct Schemas {
    answers: SchemaGenerator,
    bodies: SchemaGenerator,
    tables: Map<String, Value>,
}

impl Default for Schemas {
    fn default() -> Self {
        let mut settings = SchemaSettings::draft2020_12();
        settings.definitions_path = "/components/schemas".into();
        settings.meta_schema = None;
        let bodies = settings.clone().for_deserialize().into_generator();
        Self { answers: settings.for_serialize().into_generator(), bodies, tables: Map::new() }
    }
}

impl Schemas {
    fn answered<T: JsonSchema>(&mut self) -> Value {
        self.answers.subschema_for::<T>().into()
    }

    fn all(mut self) -> Map<String, Value> {
        let mut all = self.tables;
        all.extend(self.answers.take_definitions(false));
        all.extend(self.bodies.take_definitions(false));
        all.values_mut().for_each(plain);
        all
    }

    /// A document with the rows of a table.
    fn rows(&mut self, table: &Table) -> Value {
        let name = format!("{}Table", pascal(table.name));
        let (stamp, required) = self.stamp();
        let rows = self.array(table);
        let properties: Map<_, _> = stamp.into_iter().chain([(table.name.to_owned(), rows)]).collect();
        let required: Vec<_> = required.into_iter().chain([json!(table.name)]).collect();
        self.named(name, object(table.what, &properties, &required))
    }

    /// A document with every table.
    fn everything(&mut self) -> Value {
        let (stamp, required) = self.stamp();
        let tables = table::ALL.iter().map(|table| (table.name.to_owned(), self.array(table)));
        let properties: Map<_, _> = stamp.into_iter().chain(tables).collect();
        let required: Vec<_> =
            required.into_iter().chain(table::ALL.iter().map(|table| json!(table.name))).collect();
        self.named("Snapshot".into(), object("Every table at one instant.", &properties, &required))
    }

    fn named(&mut self, name: String, schema: Value) -> Value {
        let reference = json!({ "$ref": format!("#/components/schemas/{name}") });
        self.tables.insert(name, schema);
        reference
    }

    fn array(&mut self, table: &Table) -> Value {
        let row = row(table, &self.answered::<Count>());
        let items = self.named(format!("{}Row", pascal(table.name)), row);
        json!({ "type": "array", "items": items })
    }

    /// What every document with tables begins with, and its names.
    fn stamp(&mut self) -> (Map<String, Value>, Vec<Value>) {
        let stamp = Value::from(Stamp::json_schema(&mut self.answers));
        let properties = stamp["properties"].as_object().cloned().unwrap_or_default();
        (properties, stamp["required"].as_array().cloned().unwrap_or_default())
    }
}

/// `storm_control`: `StormControl`
fn pascal(name: &str) -> String {
    let word = |word: &str| {
        let mut letters = word.chars();
        letters.next().map(|c| c.to_ascii_uppercase()).into_iter().chain(letters).collect::<String>()
    };
    name.split('_').map(word).collect()
}

fn object(what: &str, properties: &Map<String, Value>, required: &[Value]) -> Value {
    json!({ "type": "object", "description": what, "properties": properties, "required": required })
}

fn row(table: &Table, count: &Value) -> Value {
    let columns = table.columns.iter().map(|column| {
        let mut schema = match column.form {
            Form::Text => json!({ "type": "string" }),
            Form::Flag => json!({ "type": "boolean" }),
            Form::Count => count.clone(),
            Form::Maybe => {
                let mut count = count.clone();
                count["type"] = json!(["integer", "string", "null"]);
                count
            }
            Form::Rate => json!({ "type": "number" }),
            Form::Share => json!({ "type": "number", "minimum": 0 }),
        };
        schema["description"] = json!(column.what);
        (column.name.to_owned(), schema)
    });
    let required: Vec<_> = table.columns.iter().map(|column| json!(column.name)).collect();
    object(table.what, &columns.collect(), &required)
}

/// Says what generators of clients want to be told: the most an integer of so many bits can be, which its format alone does not
/// say, and that words which have descriptions are one enumeration.
fn plain(schema: &mut Value) {
    let words = |one: &Value| one["type"] == "string" && one["const"].is_string();
    if let Some(all) = schema.get("oneOf").and_then(Value::as_array).filter(|all| all.iter().all(words)) {
        let words: Vec<Value> = all.iter().map(|one| one["const"].clone()).collect();
        let what = all.iter().map(|one| {
            format!("{}: {}", one["const"].as_str().unwrap_or(""), one["description"].as_str().unwrap_or(""))
        });
        let what = what.collect::<Vec<_>>().join(" ");
        *schema = json!({ "type": "string", "enum": words, "description": what });
    }
    let most = match schema.get("format").and_then(Value::as_str) {
        Some("uint8") => Some(u64::from(u8::MAX)),
        Some("uint16") => Some(u64::from(u16::MAX)),
        Some("uint32") => Some(u64::from(u32::MAX)),
        Some("uint64") => Some(u64::MAX),
        _ => None,
    };
    if let (Some(most), Value::Object(fields)) = (most, &mut *schema) {
        fields.entry("maximum").or_insert(json!(most));
    }
    match schema {
        Value::Object(fields) => fields.values_mut().for_each(plain),
        Value::Array(all) => all.iter_mut().for_each(plain),
        _ => {}
    }
}

fn operation(endpoint: &Endpoint, everybody_reads: bool, schemas: &mut Schemas) -> Value {
    let parameters: Vec<Value> = endpoint.parameters.iter().map(|p| parameter(endpoint, p)).collect();
    let mut operation = json!({
        "operationId": endpoint.id,
        "tags": [endpoint.tag],
        "summary": endpoint.what,
        "parameters": parameters,
        "responses": responses(endpoint, everybody_reads, schemas),
        "x-role": endpoint.role.word(),
        "security": match endpoint.role {
            Role::Anybody => json!([]),
            Role::Read if everybody_reads => json!([{}, { "token": [] }]),
            _ => json!([{ "token": [] }]),
        },
    });
    if let Some(body) = endpoint.body {
        let schema = (body.schema)(&mut schemas.bodies);
        operation["requestBody"] = json!({
            "required": true,
            "description": format!("At most {} bytes.", body.most),
            "content": { body.media: { "schema": schema, "example": example(&body) } },
        });
    }
    operation
}

/// A value where the body is JSON, else the text.
fn example(body: &Body) -> Value {
    match body.media {
        "application/json" => serde_json::from_str(body.example).unwrap_or_default(),
        _ => json!(body.example),
    }
}

fn parameter(endpoint: &Endpoint, parameter: &Parameter) -> Value {
    let place = if parameter.is_in(endpoint.path) { "path" } else { "query" };
    json!({
        "name": parameter.name,
        "in": place,
        "description": parameter.what,
        "required": parameter.required,
        "schema": parameter.schema(),
    })
}

fn responses(endpoint: &Endpoint, everybody_reads: bool, schemas: &mut Schemas) -> Value {
    let mut responses = Map::new();
    for answer in &endpoint.answers {
        let response = responses
            .entry(answer.status.to_string())
            .or_insert_with(|| json!({ "description": endpoint.what, "content": {} }));
        response["content"][answer.media] = json!({ "schema": schema(answer, schemas) });
    }
    for status in problems(endpoint, everybody_reads) {
        let problem = json!({ "$ref": "#/components/responses/Problem" });
        responses.entry(status).or_insert(problem);
    }
    Value::Object(responses)
}

/// What may go wrong; `default` stands for what may go wrong with any request.
fn problems(endpoint: &Endpoint, everybody_reads: bool) -> Vec<String> {
    let (order, body) = (endpoint.is_order(), endpoint.body.is_some());
    let by_name = endpoint
        .parameters
        .iter()
        .any(|p| matches!(p.kind, Kind::Port | Kind::PortOrLag) || p.is_in(endpoint.path));
    let asks = match endpoint.role {
        Role::Anybody => false,
        Role::Read => !everybody_reads,
        Role::Operate | Role::Admin => true,
    };
    let all = [
        (400, true),
        (401, asks),
        (403, order),
        (404, by_name || body),
        (409, order),
        (413, body),
        (415, body),
        (422, body),
    ];
    let some = all.into_iter().filter(|(_, may)| *may).map(|(status, _)| status.to_string());
    some.chain(["default".to_owned()]).collect()
}

fn schema(answer: &Answer, schemas: &mut Schemas) -> Value {
    match answer.content {
        Content::Rows(table) => schemas.rows(table),
        Content::Everything => schemas.everything(),
        Content::Json(schema) => schema(&mut schemas.answers),
        Content::Text => json!({ "type": "string" }),
        Content::Lines(schema) => {
            let line = schema(&mut schemas.answers);
            json!({
                "type": "string",
                "description": "One document per line; empty lines are signs of life.",
                "contentMediaType": "application/x-ndjson",
                "contentSchema": line,
            })
        }
        // OpenAPI 3.1 does not say whether this is the schema of the stream or of an event of it: it holds for both.
        Content::Events(schema) => {
            let data = json!({
                "type": "string",
                "contentMediaType": "application/json",
                "contentSchema": schema(&mut schemas.answers),
            });
            let event = json!({
                "type": "object",
                "properties": { "id": { "type": "string" }, "data": data },
                "required": ["id", "data"],
            });
            json!({ "anyOf": [{ "type": "string" }, event] })
        }
    }
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
        let document = document(true);
        let text = document.to_string();
        for reference in text.split("\"$ref\":\"#").skip(1) {
            let pointer = reference.split('"').next().unwrap();
            assert!(document.pointer(pointer).is_some(), "{pointer}");
        }
    }

    /// Objects whose keys nobody has said are answers without a type.
    #[test]
    fn every_answer_and_body_has_a_type() {
        fn look(schema: &Value, at: &str) {
            let bare = schema["type"] == "object"
                && ["properties", "additionalProperties", "oneOf"]
                    .iter()
                    .all(|key| schema.get(key).is_none());
            assert!(!bare, "{at}");
            match schema {
                Value::Object(fields) => {
                    fields.iter().for_each(|(name, inner)| look(inner, &format!("{at}/{name}")));
                }
                Value::Array(all) => all.iter().for_each(|inner| look(inner, at)),
                _ => {}
            }
        }
        let document = document(true);
        for (path, item) in document["paths"].as_object().unwrap() {
            for operation in item.as_object().unwrap().values() {
                look(&operation["responses"], path);
                look(&operation["requestBody"], path);
            }
        }
        look(&document["components"]["schemas"], "schemas");
    }

    #[test]
    fn security_is_that_of_the_switch_that_is_asked() {
        let of = |everybody_reads: bool, path: &str, method: &str| {
            document(everybody_reads)["paths"][path][method]["security"].clone()
        };
        let token = json!([{ "token": [] }]);
        assert_eq!((of(true, "/healthz", "get"), of(false, "/healthz", "get")), (json!([]), json!([])));
        assert_eq!(of(true, "/v1/ports", "get"), json!([{}, { "token": [] }]));
        assert_eq!((of(false, "/v1/ports", "get"), of(true, "/v1/config", "post")), (token.clone(), token));
    }
}
