//! The text a spec was read from, so that a refusal can name file and line.

use super::FabricError;
use super::spec::{FabricSpec, Topology};
use std::borrow::Cow;
use toml::de::{DeTable, DeValue};
use toml::{Spanned, Table, Value};

/// A file and what it says.
#[derive(Clone, Default)]
pub(super) struct Source {
    pub file: String,
    text: String,
    /// The text as a table.
    root: Table,
}

/// Where a text came from is no part of what it says: not hashed.
impl std::fmt::Debug for Source {
    fn fmt(&self, _: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        Ok(())
    }
}

/// Where `path` leads within `table`, as far as it goes: an offset into the text.
fn deepest(table: &DeTable<'_>, path: &[&str]) -> Option<usize> {
    let (first, rest) = path.split_first()?;
    let (name, value) = table.iter().find(|(name, _)| name.get_ref().as_ref() == *first)?;
    Some(inside(value.get_ref(), rest).unwrap_or(name.span().start))
}

fn inside(value: &DeValue<'_>, path: &[&str]) -> Option<usize> {
    let (first, rest) = path.split_first()?;
    match value {
        DeValue::Table(table) => deepest(table, path),
        DeValue::Array(items) => {
            let item = items.get(first.parse::<usize>().ok()?)?;
            Some(inside(item.get_ref(), rest).unwrap_or(item.span().start))
        }
        _ => None,
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

/// Line (from 1) in `text` of the key that stands at `at` of `part`: `part` is what `text` says beneath `path`, written anew.
pub(super) fn same_line(part: &str, at: usize, text: &str, path: &[&str]) -> Option<usize> {
    let beneath = path_to(DeTable::parse(part).ok()?.get_ref(), at);
    let path: Vec<&str> = path.iter().copied().chain(beneath.iter().map(String::as_str)).collect();
    line_of(text, &path)
}

/// Line (from 1) of what stands at `at` of a text.
pub(super) fn line_at(text: &str, at: usize) -> Option<usize> {
    Some(text.get(..at)?.bytes().filter(|b| *b == b'\n').count() + 1)
}

/// Line (from 1) in `text` of what `path` leads to, as far as the text goes along; `None`: not even its first step.
/// Steps into an array are numbers.
fn line_of(text: &str, path: &[&str]) -> Option<usize> {
    let root = DeTable::parse(text).ok()?;
    line_at(text, deepest(root.get_ref(), path)?)
}

impl Source {
    /// A file that was read.
    pub fn new(file: &str, text: &str) -> Self {
        Self { file: file.into(), text: text.into(), root: text.parse().unwrap_or_default() }
    }

    /// As [`line_of`], in the text.
    pub fn line(&self, path: &[&str]) -> Option<usize> {
        line_of(&self.text, path)
    }

    /// What the text itself says of `dotted`.
    pub fn get(&self, dotted: &str) -> Option<&Value> {
        let mut parts = dotted.split('.');
        let first = self.root.get(parts.next()?)?;
        parts.try_fold(first, |at, key| at.get(key))
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

    /// Whether workload `index` (from 0) sets `key` itself.
    pub fn sets_in(&self, index: usize, key: &str) -> bool {
        self.get("workload").and_then(|all| all.get(index)).is_some_and(|w| w.get(key).is_some())
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
        let link = |a: &String, b: &String| match &self.topology {
            Topology::Custom { links, .. } => links
                .iter()
                .position(|l| (&l.a, &l.b) == (a, b))
                .and_then(|i| key(&format!("topology.links.{i}")))
                .or_else(|| key("topology")),
            _ => None,
        };
        let line = match &error {
            FabricError::Syntax { .. } | FabricError::At { .. } => return error,
            FabricError::Several(faults) => {
                let mut faults: Vec<_> = faults.iter().map(|fault| self.locate(fault.clone())).collect();
                faults.sort_by_key(|fault| fault.position().0);
                return FabricError::Several(faults);
            }
            FabricError::DanglingLink { a, b, .. } => link(a, b),
            FabricError::RateZero { a, b } => {
                let own = matches!(&self.topology, Topology::Custom { links, .. }
                    if links.iter().any(|l| (&l.a, &l.b) == (a, b) && l.rate.is_some()));
                let trunk = self.link.rate.0 != 0;
                if own { link(a, b) } else { key(if trunk { "trunk.rate" } else { "link.rate" }) }
            }
            FabricError::TwoMacs { a, b, .. } => {
                let named = |host: &String| self.source.sets(&format!("topology.macs.{host}"));
                let host = if named(b) { b } else { a };
                self.source.line(&["topology", "macs", host])
            }
            FabricError::TwoNames(_) | FabricError::HostLinks { .. } | FabricError::NoPath { .. } => {
                key("topology.links").or_else(|| key("topology"))
            }
            FabricError::Range { what, .. } => key(what).or_else(|| key("topology")),
            FabricError::Workload { index, .. } => key(&format!("workload.{}", index - 1)),
            FabricError::Profile { key: set, .. } | FabricError::Import { key: set, .. } => key(set),
            FabricError::Policy(_) => key("switch.config.buffer.policy"),
            FabricError::Switch(_) => key("switch.config").or_else(|| key("switch")),
        };
        FabricError::At { file: self.source.file.clone(), line, error: Box::new(error) }
    }
}
