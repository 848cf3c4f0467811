//! What the reader takes the schema takes, and what it refuses by name, word or kind the schema refuses.

use super::keys::{every_legal_file, every_unknown_key};
use super::spec::Pattern;
use super::{json_schema, load};
use regex::Regex;
use serde_json::Value;

/// Where a document is not what the schema says: as much of JSON Schema as this one uses.
struct Checker {
    root: Value,
}

impl Checker {
    fn new() -> Self {
        Self { root: json_schema() }
    }

    fn follow<'a>(&'a self, schema: &'a Value) -> &'a Value {
        match schema["$ref"].as_str() {
            Some(to) => self.root.pointer(to.strip_prefix('#').unwrap()).unwrap_or_else(|| panic!("{to}")),
            None => schema,
        }
    }

    /// Faults of `value`, which is at `at`, beside this schema.
    fn faults(&self, schema: &Value, value: &Value, at: &str, found: &mut Vec<String>) {
        let known = [
            "$ref",
            "$defs",
            "$schema",
            "title",
            "description",
            "default",
            "x-default",
            "type",
            "enum",
            "const",
            "minimum",
            "maximum",
            "pattern",
            "properties",
            "patternProperties",
            "required",
            "additionalProperties",
            "items",
            "minItems",
            "maxItems",
            "anyOf",
            "oneOf",
            "format",
        ];
        for key in schema.as_object().into_iter().flatten().map(|(key, _)| key) {
            assert!(known.contains(&key.as_str()), "{key} of {schema}");
        }
        let of = |name: &str| match name {
            "object" => value.is_object(),
            "array" => value.is_array(),
            "string" => value.is_string(),
            "integer" => value.is_i64() || value.is_u64(),
            "number" => value.is_number(),
            "boolean" => value.is_boolean(),
            "null" => value.is_null(),
            other => panic!("{other}"),
        };
        let fits = match &schema["type"] {
            Value::String(name) => of(name),
            Value::Array(names) => names.iter().any(|name| of(name.as_str().unwrap())),
            _ => true,
        };
        let number = value.as_f64();
        let outside = number.is_some_and(|n| {
            schema["minimum"].as_f64().is_some_and(|least| n < least)
                || schema["maximum"].as_f64().is_some_and(|most| n > most)
        });
        let word = schema["enum"].as_array().is_some_and(|words| !words.contains(value))
            || schema.get("const").is_some_and(|word| word != value);
        let shape = schema["pattern"].as_str().zip(value.as_str());
        let shape = shape.is_some_and(|(pattern, text)| !Regex::new(pattern).unwrap().is_match(text));
        let count = value.as_array().map_or(0, Vec::len) as u64;
        let count = value.is_array()
            && (schema["minItems"].as_u64().is_some_and(|least| count < least)
                || schema["maxItems"].as_u64().is_some_and(|most| count > most));
        if !fits || outside || word || shape || count {
            found.push(at.to_owned());
            return;
        }
        if schema.get("$ref").is_some() {
            self.faults(self.follow(schema), value, at, found);
        }
        for several in ["anyOf", "oneOf"] {
            let Some(all) = schema[several].as_array() else { continue };
            let mut faults = Vec::new();
            for one in all {
                let mut own = Vec::new();
                self.faults(one, value, at, &mut own);
                faults.push(own);
            }
            let fit = faults.iter().filter(|own| own.is_empty()).count();
            if fit == 0 || (several == "oneOf" && fit > 1) {
                // The one that is meant has this kind, and fewest faults.
                let other = |own: &Vec<String>| (own.iter().any(|at| at.ends_with(".kind")), own.len());
                found.extend(faults.into_iter().min_by_key(other).unwrap());
            }
        }
        for (key, inner) in value.as_object().into_iter().flatten() {
            let at = format!("{at}.{key}");
            let by_pattern = schema["patternProperties"].as_object().into_iter().flatten();
            let by_pattern = by_pattern
                .filter(|(pattern, _)| Regex::new(pattern).unwrap().is_match(key))
                .map(|(_, s)| s)
                .next();
            match (schema["properties"].get(key).or(by_pattern), &schema["additionalProperties"]) {
                (Some(known), _) => self.faults(known, inner, &at, found),
                (None, Value::Bool(false)) => found.push(at),
                (None, more) => self.faults(more, inner, &at, found),
            }
        }
        for name in schema["required"].as_array().into_iter().flatten() {
            if value.is_object() && value.get(name.as_str().unwrap()).is_none() {
                found.push(format!("{at}.{} is missing", name.as_str().unwrap()));
            }
        }
        if let Some(items) = schema.get("items") {
            for (i, inner) in value.as_array().into_iter().flatten().enumerate() {
                self.faults(items, inner, &format!("{at}.{i}"), found);
            }
        }
    }

    fn wrong(&self, text: &str) -> Vec<String> {
        let value: toml::Value = toml::from_str(text).unwrap();
        let mut found = Vec::new();
        self.faults(&self.root, &serde_json::to_value(value).unwrap(), "", &mut found);
        found
    }
}

#[test]
fn every_shipped_fabric_is_as_the_schema_says() {
    let (checker, mut seen) = (Checker::new(), 0);
    for entry in std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../configs/sim")).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        if name.ends_with(".toml") && !name.ends_with(".plan.toml") {
            let found = checker.wrong(&std::fs::read_to_string(&path).unwrap());
            assert!(found.is_empty(), "{name}: {found:?}");
            seen += 1;
        }
    }
    assert!(seen > 30, "{seen}");
}

/// Each key of the reader with a value it takes.
#[test]
fn every_key_of_a_fabric_is_in_the_schema() {
    let (checker, mut seen) = (Checker::new(), 0);
    for (key, text) in every_legal_file() {
        let found = checker.wrong(&text);
        assert!(found.is_empty(), "{key}: {found:?}\n{text}");
        seen += 1;
    }
    assert!(seen > 200, "{seen}");
}

#[test]
fn a_key_that_no_table_has_is_refused_in_each() {
    let checker = Checker::new();
    for (place, text) in every_unknown_key() {
        let found = checker.wrong(&text);
        assert!(found.iter().any(|at| at.ends_with("no_such_key")), "{place}: {found:?}\n{text}");
        assert!(load("t.toml", &text).is_err(), "{place}");
    }
}

#[test]
fn what_the_reader_refuses_by_word_kind_or_unit_the_schema_refuses() {
    let checker = Checker::new();
    let base = "name = \"t\"\nstop_time = \"1ms\"\n[topology]\nkind = \"star\"\nhosts = 2\n[[workload]]\nkind = \"flow\"\nfrom = \"h0\"\nto = \"h1\"\n";
    assert_eq!(checker.wrong(base), Vec::<String>::new());
    for (from, to, at) in [
        ("kind = \"star\"", "kind = \"tsar\"", ".topology.kind"),
        ("hosts = 2", "hosts = \"2\"", ".topology.hosts"),
        ("hosts = 2\n", "", ".topology.hosts is missing"),
        ("hosts = 2", "hosts = 2\npairs = 2", ".topology.pairs"),
        ("\"1ms\"", "\"1 minute\"", ".stop_time"),
        ("\"1ms\"", "\"1m\"", ".stop_time"),
        ("\"1ms\"", "-1", ".stop_time"),
        ("stop_time = \"1ms\"\n", "", ".stop_time is missing"),
        ("kind = \"flow\"", "kind = \"flows\"", ".workload.0.kind"),
        ("kind = \"flow\"", "kind = \"flow\"\ncc = \"dcqn\"", ".workload.0.cc"),
        ("kind = \"flow\"", "kind = \"flow\"\npriority = 300", ".workload.0.priority"),
        ("[[workload]]", "[host]\ntransport = \"go-back-n\"\n[[workload]]", ".host.transport"),
        (
            "[[workload]]",
            "[host.rclink.priorities]\nrequest = [1, 2]\n[[workload]]",
            ".host.rclink.priorities.request",
        ),
        ("[[workload]]", "[link]\nrate = \"100 Gb\"\n[[workload]]", ".link.rate"),
        ("[[workload]]", "[[order]]\nset = { gian = 9 }\n[[workload]]", ".order.0.set.gian"),
    ] {
        let text = base.replacen(from, to, 1);
        assert_eq!(checker.wrong(&text), [at], "{to}");
        // What an order sets is read as it is planned.
        let refused = load("t.toml", &text).and_then(|spec| super::run(&spec));
        assert!(refused.is_err(), "{to}");
    }
    // Of the configuration of its switches, what the schema of those says.
    let switch =
        |text: &str| checker.wrong(&base.replacen("[[workload]]", &format!("{text}\n[[workload]]"), 1));
    assert_eq!(
        switch("[switch.config.buffer]\nsize = \"1MiB\"\npolicy = { kind = \"abm\", window = \"25us\" }"),
        Vec::<String>::new()
    );
    assert_eq!(switch("[switch.config.buffer]\nsize = \"1MiB\"\npolicy = \"reverie\""), Vec::<String>::new());
    assert!(
        switch("[switch.config.buffer]\npolicy = \"revrie\"")[0].starts_with(".switch.config.buffer.policy")
    );
    assert_eq!(switch("[switch.config.buffer]\nsze = \"1MiB\""), [".switch.config.buffer.sze"]);
    assert_eq!(switch("[[switch.config.port]]\nname = \"p\""), [".switch.config.port"]);
}

/// What an editor says of a key of a workload: where it names kinds, these are the kinds that have the key.
#[test]
fn descriptions_of_keys_name_the_kinds_that_have_them() {
    let schema = json_schema();
    let kinds = schema["$defs"]["Pattern"]["oneOf"].as_array().unwrap().iter().map(|kind| &kind["const"]);
    let kinds: Vec<(&str, Pattern)> =
        kinds.map(|word| (word.as_str().unwrap(), serde_json::from_value(word.clone()).unwrap())).collect();
    assert!(kinds.iter().all(|(word, kind)| kind.word() == *word));
    let aside = Regex::new(r"\(([^)]*)\)").unwrap();
    let mut compared = 0;
    for (key, property) in schema["$defs"]["Workload"]["properties"].as_object().unwrap() {
        let description = property["description"].as_str().unwrap_or_default();
        let aside: String = aside.captures_iter(description).map(|said| said[1].to_owned() + " ").collect();
        let names = |word: &str| Regex::new(&format!(r"(?-u:\b){word}(?-u:\b)")).unwrap().is_match(&aside);
        let named: Vec<&str> = kinds.iter().map(|(word, _)| *word).filter(|word| names(word)).collect();
        let have =
            kinds.iter().filter(|(_, kind)| kind.keys().contains(&key.as_str())).map(|(word, _)| *word);
        if !named.is_empty() {
            assert_eq!(named, have.collect::<Vec<_>>(), "{key}: {description}");
            compared += 1;
        }
    }
    assert!(compared > 12, "{compared}");
}
