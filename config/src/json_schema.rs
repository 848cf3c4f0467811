//! The configuration as a JSON Schema, for editors that complete and check while one types.
//!
//! Made of the same keys as the reference in `docs/config.md`. It knows names of keys and tables, words, booleans, plain ranges and how
//! quantities are written; what they may come to, references and what depends on other keys are the reader's to check (`weir check`).

use crate::schema::{self, Key, Table};
use crate::units;
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
        ("", "lacp") => One(&schema::LACP),
        ("", "mcast_snooping") => One(&schema::MCAST_SNOOPING),
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
    if let Some(pattern) = units::pattern(listed) {
        // A bare number is of the base unit.
        return json!({ "type": ["integer", "string"], "minimum": 0, "pattern": pattern });
    }
    match accepted {
        "integer" => json!({ "type": "integer" }),
        "table" => json!({ "type": "object" }),
        "text" | "path" | "port name" | "scheduler name" | "profile name" | "format name" => {
            json!({ "type": "string" })
        }
        "MAC address" | "group MAC address" | "IP address" | "address" | "whole path of a .pcapng file" => {
            json!({ "type": "string" })
        }
        // One may stand for a list of one.
        _ if accepted == "numbers and ranges" || listed.contains("list of") && !listed.contains("field") => {
            match listed.contains(|c: char| c.is_ascii_digit()) || listed.contains("numbers") {
                true => json!({ "type": ["array", "string", "integer"] }),
                false => json!({ "type": ["array", "string"] }),
            }
        }
        _ => json!({}),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use regex::Regex;

    /// Where a document is not what the schema says: as much of JSON Schema as the one above uses.
    fn faults(schema: &Value, value: &Value, at: &str, found: &mut Vec<String>) {
        let is = |kind: &Value| match kind.as_str() {
            Some("object") => value.is_object(),
            Some("array") => value.is_array(),
            Some("string") => value.is_string(),
            Some("integer") => value.is_i64() || value.is_u64(),
            Some("boolean") => value.is_boolean(),
            _ => panic!("{kind} is no type"),
        };
        let fits = match &schema["type"] {
            Value::Null => true,
            Value::Array(kinds) => kinds.iter().any(is),
            kind => is(kind),
        };
        let written = schema["pattern"]
            .as_str()
            .zip(value.as_str())
            .is_none_or(|(pattern, text)| Regex::new(pattern).unwrap().is_match(text));
        let number = value.as_i64().unwrap_or(0);
        let below = schema["minimum"].as_i64().is_some_and(|least| number < least);
        let above = schema["maximum"].as_i64().is_some_and(|most| number > most);
        let word = schema["enum"].as_array().is_some_and(|words| !words.contains(value));
        if !fits || !written || below || above || word {
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
            ("[buffer]\ncontrol_bytes = false", ".buffer.control_bytes"),
            ("[buffer]\ncontrol_bytes = []", ".buffer.control_bytes"),
            ("[buffer]\nsize = \"12 parsecs\"", ".buffer.size"),
            ("[buffer]\nsize = -1", ".buffer.size"),
            ("rate = \"auto\"", ".port[0].rate"),
            ("rate = 1.5", ".port[0].rate"),
            ("cable = \"5 miles\"", ".port[0].cable"),
            ("storm_control = { broadcast = {} }", ".port[0].storm_control.broadcast"),
            ("[fdb]\nageing = \"5m\"", ".fdb.ageing"),
            ("[pfc]\nrefresh = \"half\"", ".pfc.refresh"),
            ("[watchdog]\ndetection_time = true", ".watchdog.detection_time"),
            ("trust = false", ".port[0].trust"),
            ("mac = 3", ".port[0].mac"),
        ] {
            let text = format!("{port}{more}\n");
            assert_eq!(wrong(&text), [at], "{more}");
            assert!(crate::load("t.toml", &text).is_err(), "{more}");
        }
    }

    /// Every key with values of all kinds: what the reader takes the schema does not refuse.
    #[test]
    fn the_schema_refuses_nothing_that_the_reader_takes() {
        const VALUES: [&str; 34] = [
            "false",
            "true",
            "0",
            "1",
            "3",
            "10",
            "200",
            "65536",
            "0x10",
            "-1",
            "1.5",
            "\"\"",
            "\"a\"",
            "\"*\"",
            "\"auto\"",
            "\"none\"",
            "\"unlimited\"",
            "\"10\"",
            "\"64 kib\"",
            "\"1.5MiB\"",
            "\"200ms\"",
            "\" 10us \"",
            "\"2.5g\"",
            "\"100Mbps\"",
            "\"7pps\"",
            "\"5%\"",
            "\"3m\"",
            "\"02:00:00:00:00:01\"",
            "\"10.0.0.1\"",
            "\"0-2,5\"",
            "[]",
            "[3]",
            "[\"a\", \"b\"]",
            "{}",
        ];
        let ports = "[[port]]\nname = \"a\"\ndevice = \"net_null0\"\n[[port]]\nname = \"b\"\ndevice = \"net_null1\"\n";
        // What a table needs beside the key; `=` stands where the table is a value of a port.
        let needs = |path: &str| match path {
            "[[fdb.static]]" => "mac = \"02:00:00:00:00:01\"\nport = \"a\"\n",
            "[[fdb.group]]" => "mac = \"01:00:5e:00:00:01\"\nports = \"a\"\n",
            "[[buffer.profile]]" | "[[scheduler]]" | "[[wred]]" => "name = \"x\"\n",
            "[[buffer.pg]]" => "pgs = 3\nprofile = \"ingress_default\"\n",
            "[[buffer.queue]]" => "queues = 3\nprofile = \"egress_default\"\n",
            "[[queue]]" => "queues = 3\n",
            "[[lag]]" => "name = \"x\"\nmembers = [\"a\", \"b\"]\n",
            "[[mirror]]" => "name = \"x\"\nto = \"b\"\n",
            _ => "",
        };
        let (schema, mut taken, mut both, mut refused) = (json_schema(), 0, 0, 0);
        for table in schema::ALL.iter().filter(|table| !table.free && !table.path.is_empty()) {
            for key in table.keys {
                for value in VALUES {
                    let (path, name) = (table.path, key.name);
                    let text = match path {
                        "[[port]]" if ["name", "device"].contains(&name) => continue,
                        "[[port]]" => format!("{ports}{name} = {value}\n"),
                        "keys of [format.NAME]" => format!("{ports}[format.x]\n{name} = {value}\n"),
                        "keys of [map.NAME]" => format!("{ports}[map.x]\n{name} = {value}\n"),
                        _ if path.contains("{ ... }") => {
                            let (outer, _) = path.split_once(" =").unwrap();
                            let of_port = path.ends_with("of a port");
                            let header = if of_port { "" } else { "[[mirror]]\nname = \"x\"\nto = \"b\"\n" };
                            format!("{ports}{header}{outer} = {{ {name} = {value} }}\n")
                        }
                        _ if path.starts_with('[') => {
                            let rest: String = needs(path)
                                .lines()
                                .filter(|line| !line.starts_with(&format!("{name} =")))
                                .map(|line| format!("{line}\n"))
                                .collect();
                            format!("{ports}{path}\n{rest}{name} = {value}\n")
                        }
                        _ => continue,
                    };
                    let Ok(parsed) = toml::from_str::<toml::Value>(&text) else { panic!("{text}") };
                    let mut found = Vec::new();
                    faults(&schema, &serde_json::to_value(parsed).unwrap(), "", &mut found);
                    match (crate::load("t.toml", &text).is_ok(), found.is_empty()) {
                        (true, _) => {
                            taken += 1;
                            assert!(found.is_empty(), "{path} {name} = {value}: {found:?}");
                        }
                        (false, true) => refused += 1,
                        (false, false) => both += 1,
                    }
                }
            }
        }
        assert!(taken > 300, "{taken}");
        assert!(both > 3 * refused, "{both} refused by both, {refused} by the reader alone");
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
