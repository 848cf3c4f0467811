//! The text a spec was read from, so that a refusal can name file and line.

use super::FabricError;
use super::spec::FabricSpec;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::OnceLock;
use toml::de::{DeTable, DeValue};
use toml::{Spanned, Table, Value};
use weir_config::{Diagnostic, Severity, Span};

/// A file and what it says.
#[derive(Clone, Default)]
pub(super) struct Source {
    pub file: String,
    text: String,
    /// The text as a table.
    root: Table,
    /// Where its keys stand, once somebody asks.
    places: OnceLock<Place>,
}

/// Where a text came from is no part of what it says: not hashed.
impl std::fmt::Debug for Source {
    fn fmt(&self, _: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        Ok(())
    }
}

/// Where something stands in a text, as an offset, and what is within it, by key or by number.
#[derive(Clone, Default)]
struct Place {
    at: usize,
    within: BTreeMap<String, Place>,
}

impl Place {
    fn of(text: &str) -> Self {
        let within = DeTable::parse(text).map(|table| Self::of_table(table.get_ref())).unwrap_or_default();
        Self { at: 0, within }
    }

    fn of_table(table: &DeTable<'_>) -> BTreeMap<String, Self> {
        let key = |(name, value): (&Spanned<Cow<'_, str>>, &Spanned<DeValue<'_>>)| {
            (
                name.get_ref().to_string(),
                Self { at: name.span().start, within: Self::of_value(value.get_ref()) },
            )
        };
        table.iter().map(key).collect()
    }

    fn of_value(value: &DeValue<'_>) -> BTreeMap<String, Self> {
        match value {
            DeValue::Table(table) => Self::of_table(table),
            DeValue::Array(items) => {
                let item = |(nth, item): (usize, &Spanned<DeValue<'_>>)| {
                    (nth.to_string(), Self { at: item.span().start, within: Self::of_value(item.get_ref()) })
                };
                items.iter().enumerate().map(item).collect()
            }
            _ => BTreeMap::new(),
        }
    }

    /// Where `path` leads, as far as the text goes along; `None`: not even its first step. Steps into an array are numbers.
    fn deepest(&self, path: &[&str]) -> Option<usize> {
        let (first, rest) = path.split_first()?;
        let next = self.within.get(*first)?;
        Some(next.deepest(rest).unwrap_or(next.at))
    }
}

/// Steps to the key or value that stands at `at` of a text.
pub(super) fn path_to(table: &DeTable<'_>, at: usize) -> Vec<String> {
    let here = |(name, value): (&Spanned<Cow<'_, str>>, &Spanned<DeValue<'_>>)| {
        let mut path = vec![name.get_ref().to_string()];
        let deeper = within(value.get_ref(), at);
        let found = name.span().contains(&at) || value.span().contains(&at) || !deeper.is_empty();
        path.extend(deeper);
        found.then_some(path)
    };
    table.iter().find_map(here).unwrap_or_default()
}

fn within(value: &DeValue<'_>, at: usize) -> Vec<String> {
    match value {
        DeValue::Table(table) => path_to(table, at),
        DeValue::Array(items) => {
            let item = |(i, item): (usize, &Spanned<DeValue<'_>>)| {
                let deeper = within(item.get_ref(), at);
                let found = item.span().contains(&at) || !deeper.is_empty();
                found.then(|| [vec![i.to_string()], deeper].concat())
            };
            items.iter().enumerate().find_map(item).unwrap_or_default()
        }
        _ => Vec::new(),
    }
}

/// The same of a text.
pub(super) fn path_in(text: &str, at: usize) -> Vec<String> {
    DeTable::parse(text).map_or_else(|_| Vec::new(), |table| path_to(table.get_ref(), at))
}

/// Line (from 1) of what stands at `at` of a text.
fn line_at(text: &str, at: usize) -> Option<usize> {
    Some(text.get(..at)?.bytes().filter(|b| *b == b'\n').count() + 1)
}

impl Source {
    /// A file that was read.
    pub fn new(file: &str, text: &str) -> Self {
        let root = text.parse().unwrap_or_default();
        Self { file: file.into(), text: text.into(), root, places: OnceLock::new() }
    }

    /// Line (from 1) of what `path` leads to, as far as the text goes along; `None`: not even its first step.
    /// Steps into an array are numbers.
    pub fn line(&self, path: &[&str]) -> Option<usize> {
        let places = self.places.get_or_init(|| Place::of(&self.text));
        line_at(&self.text, places.deepest(path)?)
    }

    /// Line (from 1) of the key that stands at `at` of `part`: `part` is what the text says beneath `path`, written anew.
    pub fn same_line(&self, part: &str, at: usize, path: &[&str]) -> Option<usize> {
        let beneath = path_in(part, at);
        let path: Vec<&str> = path.iter().copied().chain(beneath.iter().map(String::as_str)).collect();
        self.line(&path)
    }

    /// A warning about what `path` leads to, as far as the text goes along, or about the topology.
    pub fn warning(&self, path: &[&str], rule: &'static str, message: String, remedy: String) -> Diagnostic {
        let places = self.places.get_or_init(|| Place::of(&self.text));
        let start = places.deepest(path).or_else(|| places.deepest(&["topology"])).unwrap_or(0);
        let line = self.text[start..].lines().next().unwrap_or_default();
        let span = Span { start, end: start + line.trim_end().len() };
        Diagnostic::new(Severity::Warning, (&self.file, &self.text), span, rule, message, remedy)
    }

    /// What the text itself says of `dotted`. Steps into an array are numbers.
    pub fn get(&self, dotted: &str) -> Option<&Value> {
        let mut parts = dotted.split('.');
        let first = self.root.get(parts.next()?)?;
        parts.try_fold(first, |at, key| match at {
            Value::Array(items) => items.get(key.parse::<usize>().ok()?),
            _ => at.get(key),
        })
    }

    /// Whether the text itself sets what `dotted` names.
    pub fn sets(&self, dotted: &str) -> bool {
        self.get(dotted).is_some()
    }

    /// Keys of a table of the file.
    pub fn keys(&self, table: &str) -> Vec<String> {
        let table = self.get(table).and_then(Value::as_table);
        table.map_or_else(Vec::new, |table| table.keys().cloned().collect())
    }

    /// Keys of item `index` (from 0) of a list of tables.
    pub fn keys_of_item(&self, list: &str, index: usize) -> Vec<&str> {
        let item = self.get(list).and_then(|all| all.get(index)).and_then(Value::as_table);
        item.map_or_else(Vec::new, |item| item.keys().map(String::as_str).collect())
    }

    /// Whether workload `index` (from 0) sets `key` itself.
    pub fn sets_in(&self, index: usize, key: &str) -> bool {
        self.sets(&format!("workload.{index}.{key}"))
    }
}

impl FabricError {
    /// Its faults: itself, unless there are several.
    pub fn faults(&self) -> &[Self] {
        if let Self::Several(faults) = self { faults } else { std::slice::from_ref(self) }
    }

    /// The file it is about, where it is known.
    pub fn file(&self) -> Option<&str> {
        match self {
            Self::Syntax { file, .. } | Self::At { file, .. } => Some(file),
            _ => None,
        }
    }

    /// Line and column there, from 1, as far as they are known.
    pub fn position(&self) -> (Option<usize>, Option<usize>) {
        match self {
            Self::Syntax { at, .. } => at.unzip(),
            Self::At { line, .. } => (*line, None),
            _ => (None, None),
        }
    }

    /// What is wrong there, without its place.
    pub fn what(&self) -> String {
        match self {
            Self::Syntax { message, .. } => message.clone(),
            Self::At { error, .. } => error.to_string(),
            other => other.to_string(),
        }
    }
}

impl FabricSpec {
    /// Says where in the file the cause of `error` is.
    pub(super) fn locate(&self, error: FabricError) -> FabricError {
        let key = |dotted: &str| self.source.line(&dotted.split('.').collect::<Vec<_>>());
        // Nodes and links of a custom topology, by their names.
        let place = |list: &str, is_it: &dyn Fn(&Value) -> bool| {
            let at = self.source.get(&format!("topology.{list}"))?.as_array()?.iter().rposition(is_it)?;
            key(&format!("topology.{list}.{at}"))
        };
        let node = |name: &str| {
            let is_it = |node: &Value| node.as_str() == Some(name);
            place("hosts", &is_it).or_else(|| place("switches", &is_it)).or_else(|| key("topology"))
        };
        let link = |a: &str, b: &str| {
            let end =
                |link: &Value, key: &str, name: &str| link.get(key).and_then(Value::as_str) == Some(name);
            place("links", &|link| end(link, "a", a) && end(link, "b", b)).or_else(|| key("topology"))
        };
        let line = match &error {
            FabricError::Syntax { .. } | FabricError::At { .. } => return error,
            FabricError::Several(faults) => {
                let mut faults: Vec<_> = faults.iter().map(|fault| self.locate(fault.clone())).collect();
                faults.sort_by_key(|fault| fault.position().0);
                return FabricError::Several(faults);
            }
            FabricError::DanglingLink { a, b, .. } => link(a, b),
            FabricError::LinkToItself { at, .. } => key(&format!("topology.links.{at}")),
            FabricError::RateZero { key: set, .. } => key(set),
            FabricError::TwoMacs { a, b, .. } => {
                let named = |host: &String| self.source.sets(&format!("topology.macs.{host}"));
                let host = if named(b) { b } else { a };
                self.source.line(&["topology", "macs", host])
            }
            FabricError::TwoNames(name) | FabricError::HostLinks { host: name, .. } => node(name),
            FabricError::NoPath { .. } => key("topology.links").or_else(|| key("topology")),
            FabricError::Range { what, .. } => key(what).or_else(|| key("topology")),
            FabricError::Workload { index, problem, .. } => {
                // The first key of its own that the words name.
                let mut named = problem.split('`').skip(1).step_by(2);
                let key = |words: &'_ str| words.split(' ').next().unwrap_or_default().to_owned();
                let set = named.by_ref().map(key).find(|key| self.source.sets_in(index - 1, key));
                self.source.line(&["workload", &(index - 1).to_string(), &set.unwrap_or_default()])
            }
            FabricError::Profile { key: set, .. }
            | FabricError::Import { key: set, .. }
            | FabricError::Order { key: set, .. } => key(set),
            FabricError::Policy(_) => key("switch.config.buffer.policy"),
            // Without any configuration it is the shape that the usual one does not fit.
            FabricError::Switch(_) => key("switch.config").or_else(|| key("topology")),
        };
        FabricError::At { file: self.source.file.clone(), line, error: Box::new(error) }
    }
}
