//! The configuration in force, and orders about it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;

/// The configuration in force.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ConfigInForce {
    /// Where it was read.
    pub source: String,
    /// Time left to confirm it, ms; null: it waits for nothing.
    pub unconfirmed_ms: Option<u64>,
    /// Why workers may disagree about it; null: they do not.
    pub unsettled: Option<String>,
    /// Every effective value.
    pub values: Vec<EffectiveValue>,
}

/// A value of the configuration, and where it comes from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct EffectiveValue {
    /// Dotted key, as `port.p0.mtu`.
    pub key: String,
    /// The value with its unit, as a file has it.
    pub value: String,
    /// File and line, preset, or `default`.
    pub origin: String,
    /// Why it is so; empty where the user set it.
    pub why: String,
}

/// A value that differs between two configurations.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ChangedValue {
    /// Dotted key.
    pub key: String,
    /// What it was; null: it was not there.
    pub was: Option<String>,
    /// What it is; null: it is gone.
    pub is: Option<String>,
    /// Where the new value comes from.
    pub origin: Option<String>,
}

/// What came of another configuration.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Applied {
    /// It is in force; false after a dry run.
    pub applied: bool,
    /// What differs.
    pub changed: Vec<ChangedValue>,
    /// Between the first worker that went over to it and the last, ns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spread_ns: Option<u64>,
    /// Time in which it must be confirmed, ms.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confirm_ms: Option<u64>,
}

/// What was applied stays.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Confirmed {
    /// The configuration in force.
    pub confirmed: String,
}

/// What was before is in force again.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RolledBack {
    /// The configuration in force.
    pub rolled_back_to: String,
}

/// SONiC's `config_db.json`: table, key, field; a field is a text or a list of texts.
pub type SonicConfig = BTreeMap<String, BTreeMap<String, BTreeMap<String, Value>>>;
