//! Fabric files as a JSON Schema, for editors that complete and check while one types.
//!
//! Made of the types the reader itself fills, with their descriptions; of `[switch.config]` it is the schema of a switch's
//! configuration. What depends on other keys, and most ranges, are for the run to check.

use super::policy::Policy;
use super::spec::{DcqcnSpec, FabricSpec};
use super::switches::NOT_OF_A_FABRIC;
use schemars::generate::SchemaSettings;
use schemars::{Schema, SchemaGenerator, json_schema};
use serde_json::{Value, json};

/// The schema of a fabric file, as of draft 2020-12.
pub fn json_schema() -> Value {
    let mut schema = SchemaSettings::draft2020_12().into_generator().into_root_schema_for::<FabricSpec>();
    schema.insert("title".into(), json!("Fabric of weir sim"));
    schema.to_value()
}

/// `[switch.config]`: the configuration of a switch without ports, and with buffer policies that a switch on DPDK does not have.
pub(super) fn switch_config(generator: &mut SchemaGenerator) -> Schema {
    let mut config = weir_config::json_schema();
    config["description"] = json!("A weir configuration without ports.");
    if let Some(root) = config.as_object_mut() {
        ["$schema", "title", "required"].iter().for_each(|key| drop(root.remove(*key)));
    }
    for (path, _) in NOT_OF_A_FABRIC {
        let (table, key) = path.rsplit_once('.').map_or(("", path), |(table, key)| (table, key));
        let at = if table.is_empty() {
            String::new()
        } else {
            format!("/properties/{}", table.replace('.', "/properties/"))
        };
        let keys = config.pointer_mut(&format!("{at}/properties")).and_then(Value::as_object_mut);
        keys.and_then(|keys| keys.remove(key));
    }
    let policy = generator.subschema_for::<Policy>();
    config["properties"]["buffer"]["properties"]["policy"] = json!({
        "description": "Who may hold how much of a shared buffer: a name, or a table of kind and the constants of that kind.",
        "anyOf": [{ "enum": super::policy::KINDS }, policy],
    });
    Schema::try_from(config).unwrap_or_default()
}

/// `set` of an order: keys of `[host.dcqcn]`, and registers by their addresses.
pub(super) fn order_set(generator: &mut SchemaGenerator) -> Schema {
    let keys = DcqcnSpec::json_schema_of(generator);
    json_schema!({
        "description": "Keys of [host.dcqcn] with other values, and registers (\"0x600008\") with numbers.",
        "type": "object",
        "properties": keys,
        "patternProperties": { "^0x[0-9A-Fa-f_]+$": { "type": "integer", "minimum": 0 } },
        "additionalProperties": false,
    })
}

impl DcqcnSpec {
    fn json_schema_of(generator: &mut SchemaGenerator) -> Value {
        <Self as schemars::JsonSchema>::json_schema(generator).get("properties").cloned().unwrap_or_default()
    }
}
