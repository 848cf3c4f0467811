//! Every key of a schema has an effect: the walk behind `keys.rs`, for any schema and any observer.
//!
//! A schema is a list of [`Table`]s. [`walk`] fails for a key without a [`Case`], for a case whose two values cannot be
//! told apart, and for a case of a key that is not in the schema; so a key can neither be forgotten nor be ignored.

#![allow(dead_code)] // Not every schema needs all of it.

use std::collections::{BTreeSet, HashMap};
use weir_config::schema::Table;

/// How the effect of one key is shown.
pub struct Case {
    /// [`Table::path`] of its table.
    pub table: &'static str,
    /// Its name.
    pub key: &'static str,
    pub shown: Shown,
}

/// By what.
pub enum Shown {
    /// An observer tells two files apart that differ in nothing but the value of the key.
    Differs(String, String),
    /// A test of this name, in this file of the repository, which speaks of the key: for what no observer here can see.
    By { file: &'static str, test: &'static str },
}

/// All that can be seen of a file's effect, or why the file was refused.
pub type Observed = Result<String, String>;

/// Every key of `tables` that no case shows to have an effect, and every case that shows nothing.
pub fn walk(tables: &[&Table], cases: &[Case], observe: impl Fn(&str) -> Observed) -> Vec<String> {
    let known: BTreeSet<_> =
        tables.iter().flat_map(|t| t.keys.iter().map(move |k| (t.path, k.name))).collect();
    let cased: BTreeSet<_> = cases.iter().map(|case| (case.table, case.key)).collect();
    let missing = known.difference(&cased).map(|(table, key)| format!("{table} {key}: no case"));
    let stale = cased.difference(&known).map(|(table, key)| format!("{table} {key}: no such key"));
    let mut wrong: Vec<String> = missing.chain(stale).collect();
    let mut cache = HashMap::new();
    let mut seen = |text: &str| cache.entry(text.to_owned()).or_insert_with(|| observe(text)).clone();
    for case in cases {
        let name = format!("{} {}", case.table, case.key);
        match &case.shown {
            Shown::Differs(one, other) if one == other => wrong.push(format!("{name}: the same file twice")),
            Shown::Differs(one, other) => match (seen(one), seen(other)) {
                (Err(why), _) | (_, Err(why)) => {
                    wrong.push(format!("{name}: both values must be legal: {why}"))
                }
                (Ok(a), Ok(b)) if a == b => {
                    wrong.push(format!("{name}: nothing differs between\n{}", difference(one, other)));
                }
                _ => {}
            },
            Shown::By { file, test } => {
                let path = format!("{}/../{file}", env!("CARGO_MANIFEST_DIR"));
                let text = std::fs::read_to_string(path).unwrap_or_default();
                if !text.contains(&format!("fn {test}(")) || !text.contains(case.key) {
                    wrong.push(format!("{name}: no test `{test}` in {file} that speaks of it"));
                }
            }
        }
    }
    wrong
}

/// The lines that two files do not share.
fn difference(one: &str, other: &str) -> String {
    let only = |of: &str, not: &str| -> Vec<String> {
        let not: BTreeSet<_> = not.lines().collect();
        of.lines().filter(|line| !not.contains(line)).map(str::to_owned).collect()
    };
    format!("{:?} and {:?}", only(one, other), only(other, one))
}

/// `text` with `key = value` in the first table of this `header`, in place of the line of that key if it is there; a
/// table that is not there is added. An empty `value` takes the line away.
pub fn with(text: &str, header: &str, key: &str, value: &str) -> String {
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let start = match lines.iter().position(|line| line == header) {
        Some(at) => at + 1,
        None => {
            lines.push(header.to_owned());
            lines.len()
        }
    };
    let end = (start..lines.len()).find(|i| lines[*i].starts_with('[')).unwrap_or(lines.len());
    let own = (start..end).find(|i| lines[*i].split('=').next().is_some_and(|k| k.trim() == key));
    if let Some(own) = own {
        lines.remove(own);
    }
    if !value.is_empty() {
        lines.insert(start, format!("{key} = {value}"));
    }
    lines.join("\n") + "\n"
}
