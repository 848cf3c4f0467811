//! What is posted and answered, as types. Their JSON Schemas are those of the OpenAPI document.
//!
//! Rows of tables are not here: their types are the columns of [`crate::table`]. Answers that may be long (history, forwarding
//! table) are written as text piece by piece; tests read them back into these types.

mod config;
mod flows;
mod frames;
mod history;
mod inc;
mod lldp;

pub use config::*;
pub use flows::*;
pub use frames::*;
pub use history::*;
pub use inc::*;
pub use lldp::*;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::borrow::Cow;
use std::fmt;

/// A document as JSON. Types whose keys are texts always have one.
pub fn json<T: Serialize>(document: &T) -> Value {
    serde_json::to_value(document).unwrap_or_default()
}

/// A counter: an integer while every reader of JSON keeps it exactly (up to 2^53), else its digits.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Count {
    /// Up to 2^53.
    Number(u64),
    /// Above it.
    Digits(String),
}

impl fmt::Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(n) => n.fmt(f),
            Self::Digits(digits) => f.write_str(digits),
        }
    }
}

impl JsonSchema for Count {
    fn schema_name() -> Cow<'static, str> {
        "Count".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": ["integer", "string"], "minimum": 0, "pattern": "^[0-9]+$" })
    }
}

/// When a document was made, of which switch, and over what time rates are taken.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Stamp {
    /// Name of the switch.
    pub switch_name: String,
    /// When, ms since 1970.
    pub unix_ms: u64,
    /// Time since the management thread came up, s.
    pub uptime_seconds: f64,
    /// Time rates are taken over, s.
    pub window_seconds: f64,
}

/// What is wrong with a request, or why an order is not carried out (RFC 9457).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Problem {
    /// Always `about:blank`: the status says which kind of problem it is.
    pub r#type: String,
    /// The status in words.
    pub title: String,
    /// HTTP status.
    #[schemars(range(min = 400, max = 599))]
    pub status: u16,
    /// What is wrong.
    pub detail: String,
    /// Path that was asked for.
    pub instance: String,
    /// Query or path parameter at fault.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parameter: Option<String>,
    /// Faults one by one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub faults: Vec<Fault>,
}

/// Something wrong with an order, and where.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Fault {
    /// The key, parameter or rule at fault; a JSON pointer where the body is JSON.
    pub path: String,
    /// What is wrong.
    pub detail: String,
    /// What to change.
    pub remedy: String,
    /// File, where there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// Line, from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<usize>,
    /// Column, from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub column: Option<usize>,
}

/// What there is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Index {
    /// Tables.
    pub tables: Vec<IndexedTable>,
    /// Paths of what else can be read.
    pub other: Vec<String>,
}

/// A table of the index.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct IndexedTable {
    /// Where it is.
    pub path: String,
    /// What it shows.
    pub what: String,
}

/// An OpenAPI document.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct OpenApi {
    /// Version of OpenAPI.
    pub openapi: String,
    /// Title and version.
    pub info: Map<String, Value>,
    /// Operations by path.
    pub paths: Map<String, Value>,
    /// Schemas and what else operations refer to.
    pub components: Map<String, Value>,
}

/// Something that has happened. Which further keys there are depends on `event` and `phase`: docs/management.md.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Event {
    /// Its number, from 1.
    #[schemars(range(min = 1))]
    pub id: u64,
    /// When, ms since 1970.
    pub unix_ms: u64,
    /// What kind of thing.
    pub event: String,
    /// What of it: `start`, `update`, `end`, `alarm` ...
    pub phase: String,
    /// At which port.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<String>,
    /// Of which priority or queue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = 7))]
    pub priority: Option<u8>,
    /// What to do about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remedy: Option<String>,
    /// Everything else.
    #[serde(flatten)]
    pub more: Map<String, Value>,
}

/// An entry of the forwarding table.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FdbEntry {
    /// 0: untagged.
    #[schemars(range(max = 4095))]
    pub vlan: u16,
    /// Address; a number in hexadecimal in formats with shorter addresses.
    pub mac: String,
    /// Port, of a LAG its first; those of a group with commas between them.
    pub port: String,
    /// The LAG it is behind; null: it is behind a port of no LAG, or it is a group.
    pub lag: Option<String>,
    /// Whether it was learned.
    pub r#type: FdbKind,
    /// Since it was last seen, in steps of a sixteenth of the ageing time; null: it does not age.
    pub age_seconds: Option<f64>,
    /// Core of the worker that learned it.
    pub lcore: Option<usize>,
}

/// Whether an entry was learned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum FdbKind {
    /// It was learned.
    Dynamic,
    /// It is configured.
    Static,
    /// It is a group that hosts have joined.
    Joined,
}

/// The last address that moved.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FdbMove {
    /// It.
    pub mac: String,
    /// 0: untagged.
    #[schemars(range(max = 4095))]
    pub vlan: u16,
    /// Port it was at.
    pub from: String,
    /// Port it is at.
    pub to: String,
}

/// What a worker has counted of its forwarding table.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FdbWorker {
    /// Its core.
    pub lcore: Option<usize>,
    /// Entries it has.
    pub entries: Count,
    /// Addresses it has learned.
    pub learned: Count,
    /// Addresses that appeared on another port.
    pub moved: Count,
    /// Addresses that aged out.
    pub aged: Count,
    /// Addresses that found no room.
    pub refused: Count,
    /// The last one that moved.
    pub last_move: Option<FdbMove>,
}

/// A page of the forwarding table, in no order.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FdbPage {
    /// When.
    #[serde(flatten)]
    pub stamp: Stamp,
    /// Entries of the whole table.
    pub entries: u64,
    /// What workers have counted.
    pub workers: Vec<FdbWorker>,
    /// The page.
    pub fdb: Vec<FdbEntry>,
    /// `after` of the next page; null: this was the last.
    pub next: Option<String>,
}
