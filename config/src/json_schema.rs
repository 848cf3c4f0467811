//! The configuration as a JSON Schema, for editors that complete and check while one types.
//!
//! Made of the same keys as the reference in `docs/config.md`. It knows names of keys and tables, words, booleans and plain ranges;
//! units, references and what depends on other keys are the reader's to check (`weir check`).

use crate::schema::{self, Key, Table};
use serde_json::{Map, Value, json};

/// Which table stands behind a key.
enum Behind {
    /// This one.
    One(&'static Table),
    /// A list of this one.
    List(&'static Table),
    /// One for each name the user chooses.
    Named(&'static Table),
}

fn behind(table: &Table, key: &str) -> Option<Behind> {
    use Behind::{List, Named, One};
    Some(match (table.path, key) {
        ("", "switch") => One(&schema::SWITCH),
        ("", "eal") => One(&schema::EAL),
        ("", "port_defaults") => One(&schema::PORT),
        ("", "port") => List(&schema::PORT),
        ("", "format") => Named(&schema::FORMAT),
        ("", "fdb") => One(&schema::FDB),
        ("", "qos") => One(&schema::QOS),
        ("", "map") => Named(&schema::MAP),
        ("", "buffer") => One(&schema::BUFFER),
        ("", "scheduler") => List(&schema::SCHEDULER),
        ("", "wred") => List(&schema::WRED),
        ("", "queue") => List(&schema::QUEUE),
        ("", "lag") => List(&schema::LAG),
        ("", "mirror") => List(&schema::MIRROR),
        ("[[mirror]]", "filter") => One(&schema::MIRROR_FILTER),
        ("", "pfc") => One(&schema::PFC),
        ("", "watchdog") => One(&schema::WATCHDOG),
        ("", "flows") => One(&schema::FLOWS),
        ("", "lldp") => One(&schema::LLDP),
        ("", "mgmt") => One(&schema::MGMT),
        ("", "lab") => One(&schema::LAB),
        ("[[port]]", "pfc") => One(&schema::PORT_PFC),
        ("[[port]]", "vlan") => One(&schema::PORT_VLAN),
        ("[[port]]", "storm_control") => One(&schema::PORT_STORM_CONTROL),
        ("[[port]]", "inc") => One(&schema::PORT_INC),
        (path, "fdb_key") if path == schema::FORMAT.path => One(&schema::FDB_KEY),
        ("[fdb]", "static") => List(&schema::FDB_STATIC),
        ("[fdb]", "group") => List(&schema::FDB_GROUP),
        ("[buffer]", "profile") => List(&schema::PROFILE),
        ("[buffer]", "pg") => List(&schema::BUFFER_PG),
        ("[buffer]", "queue") => List(&schema::BUFFER_QUEUE),
        ("[buffer]", "port") => List(&schema::BUFFER_PORT),
        ("[watchdog]", "reoccurrence") => One(&schema::REOCCURRENCE),
        ("[lab]", "flow") => List(&schema::LAB_FLOW),
        _ => return None,
    })
}

/// The schema, as of draft 2020-12.
pub fn json_schema() -> Value {
    let mut schema = object(&schema::ROOT, true);
    schema["$schema"] = json!("https://json-schema.org/draft/2020-12/schema");
    schema["title"] = json!("Configuration of a weir switch");
    schema
}

/// `complete`: keys that are required have to be there; in `[port_defaults]` nothing has to.
fn object(table: &Table, complete: bool) -> Value {
    let one = |key: &Key| (key.name.to_owned(), property(table, key));
    let properties: Map<String, Value> = table.keys.iter().map(one).collect();
    let required = table.keys.iter().filter(|key| complete && key.form.ends_with(", required"));
    let required: Vec<&str> = required.map(|key| key.name).collect();
    json!({
        "type": "object",
        "description": table.what,
        "properties": properties,
        "required": required,
        "additionalProperties": false,
    })
}

fn property(table: &Table, key: &Key) -> Value {
    let mut value = match behind(table, key.name) {
        Some(Behind::One(inner)) => object(inner, key.name != "port_defaults"),
        Some(Behind::List(inner)) => json!({ "type": "array", "items": object(inner, true) }),
        Some(Behind::Named(inner)) => {
            json!({ "type": "object", "additionalProperties": object(inner, true) })
        }
        None => of_form(key.form),
    };
    value["description"] = json!(format!("{}: {}", key.form, key.what));
    value
}

/// What the form of a key says about its type; nothing where a value may be written in several ways.
fn of_form(form: &str) -> Value {
    let accepted = form.split([',', ';']).next().unwrap_or(form);
    if accepted == "boolean" {
        return json!({ "type": "boolean" });
    }
    // "a", "b" or "c": words alone.
    let listed = form.split(", default").next().unwrap_or(form);
    let words: Vec<&str> = listed.split('"').skip(1).step_by(2).collect();
    let between: String = listed.split('"').step_by(2).collect();
    if !words.is_empty() && between.split([' ', ',']).all(|word| matches!(word, "" | "or")) {
        return json!({ "enum": words });
    }
    if let Some((least, most)) = accepted.split_once(" to ")
        && let (Ok(least), Ok(most)) = (least.parse::<i64>(), most.parse::<i64>())
    {
        return json!({ "type": "integer", "minimum": least, "maximum": most });
    }
    match accepted {
        "integer" => json!({ "type": "integer" }),
        "table" => json!({ "type": "object" }),
        "text" | "path" | "port name" | "scheduler name" | "profile name" | "format name" => {
            json!({ "type": "string" })
        }
        "list of texts" | "list of names" | "list of port names" => {
            json!({ "type": "array", "items": { "type": "string" } })
        }
        _ => json!({}),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Where a document is not what the schema says: as much of JSON Schema as the one above uses.
    fn faults(schema: &Value, value: &Value, at: &str, found: &mut Vec<String>) {
        let fits = match schema["type"].as_str() {
            Some("object") => value.is_object(),
            Some("array") => value.is_array(),
            Some("string") => value.is_string(),
            Some("integer") => value.is_i64() || value.is_u64(),
            Some("boolean") => value.is_boolean(),
            _ => true,
        };
        let number = value.as_i64().unwrap_or(0);
        let below = schema["minimum"].as_i64().is_some_and(|least| number < least);
        let above = schema["maximum"].as_i64().is_some_and(|most| number > most);
        let word = schema["enum"].as_array().is_some_and(|words| !words.contains(value));
        if !fits || below || above || word {
            found.push(at.to_owned());
        }
        for (key, inner) in value.as_object().into_iter().flatten() {
            let at = format!("{at}.{key}");
            match (&schema["properties"][key], &schema["additionalProperties"]) {
                (Value::Null, Value::Bool(false)) => found.push(at),
                (Value::Null, more) => faults(more, inner, &at, found),
                (known, _) => faults(known, inner, &at, found),
            }
        }
        for name in schema["required"].as_array().into_iter().flatten() {
            if value.is_object() && value.get(name.as_str().unwrap()).is_none() {
                found.push(format!("{at}.{} is missing", name.as_str().unwrap()));
            }
        }
        for (i, inner) in value.as_array().into_iter().flatten().enumerate() {
            faults(&schema["items"], inner, &format!("{at}[{i}]"), found);
        }
    }

    fn wrong(text: &str) -> Vec<String> {
        let value: toml::Value = toml::from_str(text).unwrap();
        let mut found = Vec::new();
        faults(&json_schema(), &serde_json::to_value(value).unwrap(), "", &mut found);
        found
    }

    #[test]
    fn every_shipped_configuration_and_preset_is_as_the_schema_says() {
        let root = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
        let mut seen = 0;
        for folder in ["configs", "config/src/presets"] {
            for entry in std::fs::read_dir(format!("{root}/{folder}")).unwrap() {
                let path = entry.unwrap().path();
                let name = path.file_name().unwrap().to_str().unwrap();
                // Those of hosts have keys of their own.
                if !name.ends_with(".toml") || name.starts_with("host") {
                    continue;
                }
                let found = wrong(&std::fs::read_to_string(&path).unwrap());
                assert!(found.is_empty(), "{name}: {found:?}");
                seen += 1;
            }
        }
        assert!(seen > 8, "{seen}");
    }

    #[test]
    fn what_the_reader_refuses_by_name_word_or_range_the_schema_refuses() {
        let port = "[[port]]\nname = \"a\"\ndevice = \"ring\"\n";
        assert_eq!(wrong(port), Vec::<String>::new());
        for (more, at) in [
            ("lcroe = 1", ".port[0].lcroe"),
            ("default_tc = 8", ".port[0].default_tc"),
            ("default_tc = \"3\"", ".port[0].default_tc"),
            ("unknown_unicast = \"fload\"", ".port[0].unknown_unicast"),
            ("learning = 1", ".port[0].learning"),
            ("pfc = { moed = \"auto\" }", ".port[0].pfc.moed"),
            ("[[scheduler]]\nname = \"s\"\nweight = 0", ".scheduler[0].weight"),
            ("[[buffer.profile]]\nlossless = true", ".buffer.profile[0].name is missing"),
            ("[map.m]\ndscp_to_tv = {}", ".map.m.dscp_to_tv"),
            ("[colour]", ".colour"),
        ] {
            let text = format!("{port}{more}\n");
            assert_eq!(wrong(&text), [at], "{more}");
            assert!(crate::load("t.toml", &text).is_err(), "{more}");
        }
    }

    /// A table that no key leads to would be missing from the schema.
    #[test]
    fn every_table_is_behind_a_key() {
        let leads_to = |path: &str| {
            let of = |table: &&Table| {
                table.keys.iter().any(|key| {
                    behind(table, key.name).is_some_and(|behind| {
                        let (Behind::One(inner) | Behind::List(inner) | Behind::Named(inner)) = behind;
                        inner.path == path
                    })
                })
            };
            schema::ALL.iter().any(of)
        };
        for table in schema::ALL.iter().filter(|table| !table.path.is_empty() && !table.free) {
            assert!(leads_to(table.path), "{}", table.path);
        }
    }
}
