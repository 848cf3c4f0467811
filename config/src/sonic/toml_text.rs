//! TOML as text. Names come from a file of somebody else's: whoever writes one here has checked it.

use std::collections::BTreeMap;
use std::fmt::Write;

/// The text as it grows.
#[derive(Default)]
pub(super) struct TomlText(String);

impl TomlText {
    /// `# line`
    pub fn comment(&mut self, line: &str) {
        let _ = writeln!(self.0, "# {line}");
    }

    /// `[name]` or, of one entry of a list, `[[name]]`, after an empty line.
    pub fn table(&mut self, header: &str) {
        let _ = writeln!(self.0, "\n{header}");
    }

    /// `name = value`
    pub fn key(&mut self, name: &str, value: impl std::fmt::Display) {
        let _ = writeln!(self.0, "{name} = {value}");
    }

    /// `name = value` where there is one.
    pub fn maybe(&mut self, name: &str, value: Option<impl std::fmt::Display>) {
        if let Some(value) = value {
            self.key(name, value);
        }
    }

    /// The text.
    pub fn into_text(self) -> String {
        self.0
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
