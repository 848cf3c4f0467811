//! `docs/simulation-keys.md`: every key of a fabric file with type, unit and default, printed from the JSON Schema of such files.

use super::json_schema;
use super::keys::{BASE, CASES, base, place, read, said_with, spec, value};
use super::run;
use serde_json::Value;
use std::fmt::Write as _;

/// Default of a key that a file has to say.
const REQUIRED: &str = "required";

/// A key, as a line of the reference.
struct Key {
    /// Where it stands: `host.dcqcn.gain`, `topology.star.hosts`, `workload.0.bytes`.
    path: String,
    name: String,
    kind: String,
    default: String,
    /// The default as TOML, where it is a value.
    value: Option<String>,
    what: String,
}

/// A table of a fabric file.
struct Section {
    title: String,
    what: String,
    keys: Vec<Key>,
}

struct Printer {
    root: Value,
    sections: Vec<Section>,
}

/// What a schema says of itself, on one line.
fn description(schema: &Value) -> String {
    let text = schema["description"].as_str().unwrap_or_default();
    let first = text.split("\n\n").next().unwrap_or_default();
    first.split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "\\|")
}

/// The schema of a value that may be left out.
fn present(schema: &Value) -> &Value {
    let several = schema["anyOf"].as_array();
    several.and_then(|all| all.iter().find(|one| one["type"] != "null")).unwrap_or(schema)
}

impl Printer {
    fn follow<'a>(&'a self, schema: &'a Value) -> &'a Value {
        let schema = present(schema);
        schema["$ref"].as_str().map_or(schema, |to| self.root.pointer(&to[1..]).unwrap())
    }

    /// Type and unit.
    fn kind(&self, schema: &Value) -> String {
        let to = present(schema)["$ref"].as_str().and_then(|to| to.rsplit('/').next());
        match to {
            Some("Rate") => return "rate, bit/s".into(),
            Some("Duration") => return "time, ns".into(),
            Some("Size") => return "size, bytes".into(),
            _ => {}
        }
        let schema = self.follow(schema);
        if let Some(words) = schema["oneOf"].as_array() {
            let word = |word: &Value| Some(format!("`{}`", word["const"].as_str()?));
            return words.iter().filter_map(word).collect::<Vec<_>>().join(", ");
        }
        let kinds = schema["type"].as_array().cloned().unwrap_or_else(|| vec![schema["type"].clone()]);
        match kinds[0].as_str() {
            Some("array") => format!("list: {}", self.kind(&schema["items"])),
            Some("object") => "table".into(),
            Some("string") => "text".into(),
            Some(other) => other.into(),
            None => panic!("{schema}"),
        }
    }

    /// What a key is where a file does not set it: in words, and as TOML; and the rest of what is said of it.
    fn default(&self, key: &Value, required: bool) -> (String, Option<String>, String) {
        let what = description(key);
        if required {
            return (REQUIRED.into(), None, what);
        }
        if let Some(text) = key["x-default"].as_str() {
            let first = text.split(';').next().and_then(|first| first.split(" at ").next());
            let has_unit = self.kind(key).contains(", ");
            let value = first.filter(|_| text != REQUIRED);
            let value = value.map(|first| if has_unit { format!("\"{first}\"") } else { first.into() });
            return (text.into(), value, what);
        }
        if let Some(default) = key.get("default").filter(|default| !default.is_null()) {
            let value = toml::Value::try_from(default).unwrap().to_string();
            return (format!("`{}`", value.trim_matches('"')), Some(value), what);
        }
        // "Share of reads; all unless given."
        let given = what.find(" unless given").unwrap_or_else(|| panic!("no default: {key}"));
        let from = what[..given].rfind([';', '.']).map_or(0, |at| at + 1);
        let (before, after) = (what[..from].trim_end_matches(';'), &what[given + " unless given".len()..]);
        let default = what[from..given].trim().trim_end_matches(',').to_owned();
        (default, None, format!("{before}{after}"))
    }

    /// The table `schema`, called `title` and at `path`, and those within it.
    fn table(&mut self, title: &str, path: &str, what: String, schema: &Value) {
        let schema = self.follow(schema).clone();
        if let Some(kinds) = schema["oneOf"].as_array() {
            self.sections.push(Section { title: title.into(), what, keys: Vec::new() });
            for kind in kinds {
                let word = kind["properties"]["kind"]["const"].as_str().unwrap();
                let path = if path == "topology." { format!("topology.{word}.") } else { path.to_owned() };
                self.table(&format!("{title} kind = \"{word}\""), &path, description(kind), kind);
            }
            return;
        }
        let at = self.sections.len();
        self.sections.push(Section { title: title.into(), what, keys: Vec::new() });
        let required =
            |name: &str| schema["required"].as_array().is_some_and(|all| all.iter().any(|key| key == name));
        for (name, key) in schema["properties"].as_object().unwrap() {
            if key.get("const").is_some() {
                continue;
            }
            let inner = self.follow(key).clone();
            let items = self.follow(&inner["items"]).clone();
            let beneath = title.trim_matches(['[', ']']);
            let beneath = if beneath == "top level" { String::new() } else { format!("{beneath}.") };
            let is_table = |schema: &Value| {
                schema.get("properties").is_some() || schema["oneOf"][0].get("properties").is_some()
            };
            if path == "switch." && name == "config" {
                let policy = &inner["properties"]["buffer"]["properties"]["policy"]["anyOf"][1];
                let what = description(&inner["properties"]["buffer"]["properties"]["policy"]);
                self.table("[switch.config.buffer.policy]", "switch.config.buffer.policy.", what, policy);
            } else if is_table(&items) && path != "topology.custom." {
                self.table(
                    &format!("[[{beneath}{name}]]"),
                    &format!("{path}{name}.0."),
                    description(key),
                    &items,
                );
                continue;
            } else if is_table(&items) {
                self.table("[[topology.links]]", "topology.custom.links.0.", description(key), &items);
                continue;
            } else if is_table(&inner) && path != "order.0." {
                self.table(&format!("[{beneath}{name}]"), &format!("{path}{name}."), description(key), key);
                continue;
            }
            let (default, value, what) = self.default(key, required(name));
            let kind = match (path, &**name) {
                ("switch.", "config") => "table ([config.md](config.md))".into(),
                _ => self.kind(key),
            };
            let key = Key { path: format!("{path}{name}"), name: name.clone(), kind, default, value, what };
            self.sections[at].keys.push(key);
        }
    }
}

/// All tables, in the order of the alphabet within one another.
fn sections() -> Vec<Section> {
    let root = json_schema();
    let mut printer = Printer { root: root.clone(), sections: Vec::new() };
    printer.table("top level", "", "Beside all tables.".into(), &root);
    printer.sections
}

fn page() -> String {
    let mut page = "# Keys of a fabric file\n\n\
        Of `weir sim`; what they are for is in [simulation.md](simulation.md), with the keys that belong together. A rate is `\"100G\"`, `\"2.5G\"`,\n\
        `\"400M\"` or a number of bit/s; a time `\"1us\"`, `\"20ms\"` or a number of ns; a size `\"64KiB\"`, `\"1MB\"` or a number of bytes. A default\n\
        \"at 100G\" follows the rate of the link of the host, as its description says. A key that would have no effect is refused.\n\n\
        This page is printed from the code that reads the file, with its defaults: `WEIR_WRITE_DOCS=1 cargo test -p weir-sim key_reference`.\n"
        .to_owned();
    for section in sections() {
        let title = section.title.replacen("] kind", "]`, `kind", 1);
        write!(page, "\n## `{title}`\n\n{}\n", section.what).unwrap();
        if !section.keys.is_empty() {
            page.push_str("\n| Key | Type, unit | Default | What |\n| --- | --- | --- | --- |\n");
        }
        for Key { name, kind, default, what, .. } in section.keys {
            writeln!(page, "| `{name}` | {kind} | {default} | {what} |").unwrap();
        }
    }
    page
}

#[test]
fn the_document_holds_every_key_with_its_default() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/simulation-keys.md");
    if std::env::var_os("WEIR_WRITE_DOCS").is_some() {
        std::fs::write(path, page()).unwrap();
    }
    let hint = "docs/simulation-keys.md is stale: WEIR_WRITE_DOCS=1 cargo test -p weir-sim key_reference";
    assert!(std::fs::read_to_string(path).unwrap_or_default() == page(), "{hint}");
}

/// A file that sets a key to its default says what one without the key says.
#[test]
fn a_default_of_the_document_is_what_a_file_without_the_key_has() {
    let keys: Vec<Key> = sections().into_iter().flat_map(|section| section.keys).collect();
    let (mut wrong, mut tried, base) = (Vec::new(), 0, BASE.parse::<toml::Table>().unwrap().into());
    for Key { path, default, value: at_first, .. } in &keys {
        let case = CASES.iter().find(|(case, ..)| case.replace("links.1.", "links.0.") == *path);
        let (Some((case, _, more)), Some(at_first)) = (case, at_first) else { continue };
        let name = format!("{} =", path.rsplit('.').next().unwrap_or_default());
        let in_base = place(case).split('.').try_fold(&base, |at: &toml::Value, key| at.get(key)).is_some();
        if in_base || more.iter().any(|(set, text)| *set == place(case) || text.contains(&name)) {
            continue;
        }
        tried += 1;
        let at_100g = default.contains("100G").then_some(("link.rate", "\"100G\""));
        let changes = || more.iter().copied().chain(at_100g);
        let said = |also: Option<(&str, &str)>| {
            said_with(case, changes().chain(also).map(|(key, text)| (key.to_owned(), value(text))))
        };
        let key = place(case);
        if said(None) != said(Some((&key, at_first))) {
            wrong.push(format!("{path} = {at_first}"));
        }
    }
    assert!(wrong.is_empty(), "these are no defaults: {wrong:?}");
    assert!(tried > 100, "{tried} of {}", keys.len());
}

/// What the document says a number may be is what a refusal of another says.
#[test]
fn a_range_of_the_document_is_the_one_that_is_kept() {
    let keys: Vec<Key> = sections().into_iter().flat_map(|section| section.keys).collect();
    for (path, range, others) in [
        ("inc.window", "a power of two, 4 to 4096", &["2", "100", "8192"][..]),
        ("host.payload", "1 to 4096", &["0", "4097"]),
        ("host.ack_every", "1 to 4096", &["0", "4097"]),
        ("host.rclink.window", "1 to 2048", &["0", "2049"]),
        ("host.selective_repeat.window", "2 to 1048576", &["1", "1048577"]),
        ("switch.iterations", "1 to 16", &["0", "17"]),
        ("switch.speedup", "1 to 8", &["0.9", "8.1"]),
        ("switch.cell", "16 to 16384", &["15", "16385"]),
        ("workload.0.microbatches", "1 to 65536", &["0", "65537"]),
        ("workload.0.priority", "0 to 7", &["8"]),
        ("workload.0.dscp", "0 to 63", &["64"]),
    ] {
        let what = &keys.iter().find(|key| key.path == path).unwrap().what;
        assert!(what.contains(range), "{path}: {what}");
        let (_, _, more) = CASES.iter().find(|(case, ..)| *case == path).unwrap();
        for other in others {
            let text = spec(base(more).into_iter().chain([(path.into(), value(other))]));
            let refused = read(&text).and_then(|spec| run(&spec)).unwrap_err().to_string();
            assert!(refused.contains(range), "{path} = {other}: {refused}");
        }
    }
}
