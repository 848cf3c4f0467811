//! TOML as text. Names come from a file of somebody else's: whoever writes one here has checked it.

use super::db::At;
use std::collections::BTreeMap;
use std::fmt::Write;

/// Where an entry comes from: a row, under the empty key, and fields by the key of weir they become.
pub(super) type Origin = BTreeMap<&'static str, At>;

/// The text as it grows.
#[derive(Default)]
pub(super) struct TomlText {
    text: String,
    /// Origin of the entry that is being written.
    origin: Origin,
    /// From where on the text comes from which place.
    places: Vec<(usize, Option<At>)>,
}

impl TomlText {
    /// `# line`
    pub fn comment(&mut self, line: &str) {
        let _ = writeln!(self.text, "# {line}");
    }

    /// `[name]` or, of one entry of a list, `[[name]]`, after an empty line.
    pub fn table(&mut self, header: &str) {
        self.entry(header, None);
    }

    /// [`TomlText::table`] of what comes from `origin`.
    pub fn entry(&mut self, header: &str, origin: Option<&Origin>) {
        self.origin = origin.cloned().unwrap_or_default();
        self.places.push((self.text.len(), self.origin.get("").copied()));
        let _ = writeln!(self.text, "\n{header}");
    }

    /// `name = value`
    pub fn key(&mut self, name: &str, value: impl std::fmt::Display) {
        let at = self.origin.get(name).or_else(|| self.origin.get(""));
        self.places.push((self.text.len(), at.copied()));
        let _ = writeln!(self.text, "{name} = {value}");
    }

    /// `name = value` where there is one.
    pub fn maybe(&mut self, name: &str, value: Option<impl std::fmt::Display>) {
        if let Some(value) = value {
            self.key(name, value);
        }
    }

    /// The text, and where it comes from.
    pub fn into_written(self) -> Written {
        Written { text: self.text, places: self.places }
    }
}

/// A text, and where each part of it comes from.
pub(super) struct Written {
    pub text: String,
    places: Vec<(usize, Option<At>)>,
}

impl Written {
    /// What is at this byte comes from there.
    pub fn origin(&self, at: usize) -> Option<At> {
        let next = self.places.partition_point(|(start, _)| *start <= at);
        self.places[..next].last().and_then(|(_, at)| *at)
    }
}

/// `"text"`
pub(super) fn quoted(text: &str) -> String {
    let escaped = text.chars().flat_map(|c| match c {
        '"' | '\\' => vec!['\\', c],
        c if c.is_control() => vec![' '],
        c => vec![c],
    });
    format!("\"{}\"", escaped.collect::<String>())
}

/// A key, in quotes where it needs them.
pub(super) fn key(name: &str) -> String {
    let is_bare = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    if name.chars().all(is_bare) { name.to_owned() } else { quoted(name) }
}

/// `["a", "b"]`
pub(super) fn list<'a>(texts: impl IntoIterator<Item = &'a str>) -> String {
    let all: Vec<_> = texts.into_iter().map(quoted).collect();
    format!("[{}]", all.join(", "))
}

/// Numbers in ranges: `0-2,5`.
pub(super) fn ranges(numbers: &[u8]) -> String {
    let mut parts: Vec<String> = Vec::new();
    let mut i = 0;
    while i < numbers.len() {
        let mut end = i;
        while end + 1 < numbers.len() && numbers[end + 1] == numbers[end] + 1 {
            end += 1;
        }
        let (from, to) = (numbers[i], numbers[end]);
        parts.push(if from == to { from.to_string() } else { format!("{from}-{to}") });
        i = end + 1;
    }
    parts.join(",")
}

/// A complete class map by what it leads to: `{ "0-2,5" = 0, "3" = 3 }`.
pub(super) fn class_map(map: &[u8]) -> String {
    let mut inputs: BTreeMap<u8, Vec<u8>> = BTreeMap::new();
    for (from, to) in map.iter().enumerate() {
        inputs.entry(*to).or_default().push(from as u8);
    }
    let entries: Vec<_> = inputs.iter().map(|(to, from)| format!("\"{}\" = {to}", ranges(from))).collect();
    format!("{{ {} }}", entries.join(", "))
}
