//! The OpenAPI 3.1 document, made from the list of endpoints ([`crate::api`]), the types of what they take and answer, and the
//! columns of the tables. The one in `docs/openapi.json` is compared with it.

use crate::access::Role;
use crate::api::documents::{Count, Problem, Stamp};
use crate::api::{self, Answer, Body, Content, Endpoint, Kind};
use crate::server::problem::PROBLEM;
use crate::table::{self, Form, Table};
use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, SchemaGenerator};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use utoipa::openapi::extensions::ExtensionsBuilder;
use utoipa::openapi::path::{
    HttpMethod, Operation, OperationBuilder, Parameter, ParameterBuilder, ParameterIn, PathItem,
};
use utoipa::openapi::request_body::{RequestBody, RequestBodyBuilder};
use utoipa::openapi::schema::{AnyOfBuilder, SchemaType};
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityRequirement, SecurityScheme};
use utoipa::openapi::{
    ArrayBuilder, ComponentsBuilder, ContentBuilder, InfoBuilder, LicenseBuilder, Object, ObjectBuilder,
    OpenApi, OpenApiBuilder, PathsBuilder, Ref, RefOr, Required, ResponseBuilder, Responses,
    ResponsesBuilder, Schema, Type,
};

/// The name of the scheme by which tokens are shown, and of the response that all problems are.
const TOKEN: &str = "token";
const PROBLEM_RESPONSE: &str = "Problem";

/// The document of a switch that lets everybody read who can reach it, or asks for a token.
pub fn document(everybody_reads: bool) -> OpenApi {
    let mut schemas = Schemas::default();
    let mut paths = PathsBuilder::new();
    for endpoint in api::endpoints() {
        let operation = operation(endpoint, everybody_reads, &mut schemas);
        paths = paths.path(endpoint.path, PathItem::new(method(endpoint), operation));
    }
    let problem = content(schemas.answered::<Problem>());
    let license = env!("CARGO_PKG_LICENSE");
    let info = InfoBuilder::new()
        .title("weir management")
        .version("1")
        .description(Some(
            "Reads a running switch, and takes orders for it. Counters only grow; integers above 2^53 are decimal text. `x-role` says who may: over the Unix socket its owner may do all; over TCP tokens give roles, and reading takes none where no token for it is configured.",
        ))
        .license(Some(LicenseBuilder::new().name(license).identifier(Some(license)).build()));
    let components = ComponentsBuilder::new()
        .response(
            PROBLEM_RESPONSE,
            ResponseBuilder::new().description("What is wrong, and where.").content(PROBLEM, problem),
        )
        .security_scheme(
            TOKEN,
            SecurityScheme::Http(HttpBuilder::new().scheme(HttpAuthScheme::Bearer).build()),
        )
        .schemas_from_iter(schemas.all());
    OpenApiBuilder::new().info(info).paths(paths).components(Some(components.build())).build()
}

/// The same as it is answered: keys in the order of their names.
pub fn json(everybody_reads: bool) -> Value {
    serde_json::to_value(document(everybody_reads)).unwrap_or_default()
}

/// The document as it is committed: that of a switch without a token for reading.
pub fn text() -> String {
    format!("{:#}\n", json(true))
}

/// Schemas of what is posted and answered, by name.
struct Schemas {
    answers: SchemaGenerator,
    bodies: SchemaGenerator,
    tables: BTreeMap<String, RefOr<Schema>>,
}

impl Default for Schemas {
    fn default() -> Self {
        let mut settings = SchemaSettings::draft2020_12();
        settings.definitions_path = "/components/schemas".into();
        settings.meta_schema = None;
        let bodies = settings.clone().for_deserialize().into_generator();
        Self { answers: settings.for_serialize().into_generator(), bodies, tables: BTreeMap::new() }
    }
}

impl Schemas {
    fn answered<T: JsonSchema>(&mut self) -> RefOr<Schema> {
        typed(self.answers.subschema_for::<T>().into())
    }

    fn all(mut self) -> BTreeMap<String, RefOr<Schema>> {
        let answers = self.answers.take_definitions(false);
        let bodies = self.bodies.take_definitions(false);
        self.tables.extend(answers.into_iter().chain(bodies).map(|(name, schema)| (name, typed(schema))));
        self.tables
    }

    /// A document with the rows of a table.
    fn rows(&mut self, table: &Table) -> RefOr<Schema> {
        self.stamped(format!("{}Table", pascal(table.name)), table.what, std::slice::from_ref(table))
    }

    /// A document with every table.
    fn everything(&mut self) -> RefOr<Schema> {
        self.stamped("Snapshot".to_owned(), "Every table, of one reading.", table::ALL)
    }

    /// What every document with tables begins with, and the tables.
    fn stamped(&mut self, name: String, what: &str, tables: &[Table]) -> RefOr<Schema> {
        let mut document = match typed(Stamp::json_schema(&mut self.answers).into()) {
            RefOr::T(Schema::Object(stamp)) => stamp,
            _ => Object::new(),
        };
        document.description = Some(what.to_owned());
        for table in tables {
            let row = row(table, &self.answered::<Count>());
            let rows = ArrayBuilder::new().items(self.named(format!("{}Row", pascal(table.name)), row));
            document.properties.insert(table.name.to_owned(), rows.into());
            document.required.push(table.name.to_owned());
        }
        self.named(name, document)
    }

    fn named(&mut self, name: String, schema: Object) -> RefOr<Schema> {
        let reference = Ref::from_schema_name(&name);
        self.tables.insert(name, schema.into());
        reference.into()
    }
}

/// A schema of JSON Schema as one of OpenAPI. Its types have no place for every word there is, so a word that gets lost is
/// an error of ours: the types of the API are fixed, and a test of the document meets all of them.
fn typed(mut schema: Value) -> RefOr<Schema> {
    plain(&mut schema);
    let typed = serde_json::from_value(schema.clone()).unwrap_or_default();
    debug_assert_eq!(serde_json::to_value(&typed).unwrap_or_default(), schema);
    typed
}

/// `storm_control`: `StormControl`
fn pascal(name: &str) -> String {
    let word = |word: &str| {
        let mut letters = word.chars();
        letters.next().map(|c| c.to_ascii_uppercase()).into_iter().chain(letters).collect::<String>()
    };
    name.split('_').map(word).collect()
}

fn row(table: &Table, count: &RefOr<Schema>) -> Object {
    let mut row = ObjectBuilder::new().schema_type(Type::Object).description(Some(table.what));
    for column in table.columns {
        let mut schema = match (column.form, count) {
            (Form::Count | Form::Maybe, RefOr::T(Schema::Object(count))) => count.clone(),
            (Form::Flag, _) => Object::with_type(Type::Boolean),
            (Form::Rate, _) => Object::with_type(Type::Number),
            (Form::Share, _) => ObjectBuilder::new().schema_type(Type::Number).minimum(Some(0)).build(),
            _ => Object::with_type(Type::String),
        };
        if column.form == Form::Maybe {
            schema.schema_type = SchemaType::from_iter([Type::Integer, Type::String, Type::Null]);
        }
        schema.description = Some(column.what.to_owned());
        row = row.property(column.name, schema).required(column.name);
    }
    row.build()
}

/// Says what generators of clients want to be told: the most an integer of so many bits can be, which its format alone does not
/// say, and that words which have descriptions are one enumeration. A constant is an enumeration of one: OpenAPI's types have no
/// other word for it.
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
    if let Value::Object(fields) = schema {
        let most = match fields.get("format").and_then(Value::as_str) {
            Some("uint8") => Some(u64::from(u8::MAX)),
            Some("uint16") => Some(u64::from(u16::MAX)),
            Some("uint32") => Some(u64::from(u32::MAX)),
            Some("uint64") => Some(u64::MAX),
            _ => None,
        };
        if let Some(most) = most {
            fields.entry("maximum").or_insert(json!(most));
        }
        if let Some(word) = fields.remove("const") {
            fields.insert("enum".to_owned(), json!([word]));
        }
        // Nothing but that a key may be left out, which `required` says.
        if fields.get("default") == Some(&Value::Null) {
            fields.remove("default");
        }
    }
    match schema {
        Value::Object(fields) => fields.values_mut().for_each(plain),
        Value::Array(all) => all.iter_mut().for_each(plain),
        _ => {}
    }
}

fn method(endpoint: &Endpoint) -> HttpMethod {
    match endpoint.method {
        "POST" => HttpMethod::Post,
        "DELETE" => HttpMethod::Delete,
        _ => HttpMethod::Get,
    }
}

fn operation(endpoint: &Endpoint, everybody_reads: bool, schemas: &mut Schemas) -> Operation {
    let token = || SecurityRequirement::new(TOKEN, std::iter::empty::<&str>());
    OperationBuilder::new()
        .operation_id(Some(endpoint.id.as_ref()))
        .tag(endpoint.tag)
        .summary(Some(endpoint.what))
        .parameters(Some(endpoint.parameters.iter().map(|p| parameter(endpoint, p))))
        .request_body(endpoint.body.map(|body| request_body(&body, schemas)))
        .responses(responses(endpoint, everybody_reads, schemas))
        .extensions(Some(ExtensionsBuilder::new().add("x-role", endpoint.role.word()).build()))
        .securities(Some(match endpoint.role {
            Role::Anybody => vec![],
            Role::Read if everybody_reads => vec![SecurityRequirement::default(), token()],
            _ => vec![token()],
        }))
        .build()
}

fn request_body(body: &Body, schemas: &mut Schemas) -> RequestBody {
    // A value where the body is JSON, else the text.
    let example = match body.media {
        "application/json" => serde_json::from_str(body.example).unwrap_or_default(),
        _ => Value::from(body.example),
    };
    let content =
        ContentBuilder::new().schema(Some(typed((body.schema)(&mut schemas.bodies)))).example(Some(example));
    RequestBodyBuilder::new()
        .required(Some(Required::True))
        .description(Some(format!("At most {} bytes.", body.most)))
        .content(body.media, content.build())
        .build()
}

fn parameter(endpoint: &Endpoint, parameter: &api::Parameter) -> Parameter {
    let in_path = parameter.is_in(endpoint.path);
    ParameterBuilder::new()
        .name(parameter.name)
        .parameter_in(if in_path { ParameterIn::Path } else { ParameterIn::Query })
        .description(Some(parameter.what))
        .required(if parameter.required { Required::True } else { Required::False })
        .schema(Some(of_parameter(parameter.kind)))
        .build()
}

fn of_parameter(kind: Kind) -> ObjectBuilder {
    let text = ObjectBuilder::new().schema_type(Type::String);
    match kind {
        Kind::Port | Kind::PortOrLag | Kind::Text => text,
        Kind::Pattern(pattern) => text.pattern(Some(pattern)),
        Kind::Word(words) => text.enum_values(Some(words())),
        Kind::Flag => ObjectBuilder::new().schema_type(Type::Boolean),
        Kind::Integer(least, most) => {
            ObjectBuilder::new().schema_type(Type::Integer).minimum(Some(least)).maximum(Some(most))
        }
    }
}

fn responses(endpoint: &Endpoint, everybody_reads: bool, schemas: &mut Schemas) -> Responses {
    let mut good: BTreeMap<u16, ResponseBuilder> = BTreeMap::new();
    for answer in &endpoint.answers {
        let response = good.remove(&answer.status).unwrap_or_default().description(endpoint.what);
        good.insert(answer.status, response.content(answer.media, content(schema(answer, schemas))));
    }
    let problem = || RefOr::from(Ref::from_response_name(PROBLEM_RESPONSE));
    let problems = problems(endpoint, everybody_reads).into_iter().map(|status| (status, problem()));
    let good = good.into_iter().map(|(status, response)| (status.to_string(), response.build().into()));
    // The later one of a status counts.
    ResponsesBuilder::new().responses_from_iter(problems.chain(good)).build()
}

fn content(schema: RefOr<Schema>) -> utoipa::openapi::Content {
    ContentBuilder::new().schema(Some(schema)).build()
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

fn schema(answer: &Answer, schemas: &mut Schemas) -> RefOr<Schema> {
    let text = ObjectBuilder::new().schema_type(Type::String);
    match answer.content {
        Content::Rows(table) => schemas.rows(table),
        Content::Everything => schemas.everything(),
        Content::Json(schema) => typed(schema(&mut schemas.answers)),
        Content::Text => text.into(),
        Content::Lines(schema) => text
            .description(Some("One document per line; empty lines are signs of life."))
            .content_media_type("application/x-ndjson")
            .content_schema(Some(typed(schema(&mut schemas.answers))))
            .into(),
        // OpenAPI 3.1 does not say whether this is the schema of the stream or of an event of it: it holds for both.
        Content::Events(schema) => {
            let data = ObjectBuilder::new()
                .schema_type(Type::String)
                .content_media_type("application/json")
                .content_schema(Some(typed(schema(&mut schemas.answers))));
            let event = ObjectBuilder::new()
                .property("id", Object::with_type(Type::String))
                .property("data", data)
                .required("id")
                .required("data");
            AnyOfBuilder::new().item(text).item(event).into()
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
        let document = json(true);
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
        let document = json(true);
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
            json(everybody_reads)["paths"][path][method]["security"].clone()
        };
        let token = json!([{ "token": [] }]);
        assert_eq!((of(true, "/healthz", "get"), of(false, "/healthz", "get")), (json!([]), json!([])));
        assert_eq!(of(true, "/v1/ports", "get"), json!([{}, { "token": [] }]));
        assert_eq!((of(false, "/v1/ports", "get"), of(true, "/v1/config", "post")), (token.clone(), token));
    }
}
