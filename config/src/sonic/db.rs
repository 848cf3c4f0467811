//! Tables, rows and fields of `config_db.json`, each with where it stands.

use super::{MAPS, Note, Outcome};
use crate::diag::{Diagnostic, Severity, Span};
use crate::found::Findings;
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;
use std::collections::{HashMap, HashSet};
use std::fmt;
use std::ops::RangeInclusive;

/// Where something stands: index of the file, place in its text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct At {
    pub source: usize,
    pub span: Span,
}

/// One field of a row. SONiC writes numbers as texts.
#[derive(Debug)]
pub(super) struct Field {
    pub name: String,
    pub value: String,
    pub at: At,
    note: Option<(Outcome, String)>,
}

/// One row of a table.
#[derive(Debug)]
pub(super) struct Row {
    pub table: String,
    pub key: String,
    pub at: At,
    pub fields: Vec<Field>,
}

/// Fields that name a row of another table: their table, the field, the other table. Beside those of [`MAPS`].
const REFERENCES: [(&str, &str, &str); 5] = [
    ("BUFFER_PROFILE", "pool", "BUFFER_POOL"),
    ("BUFFER_PG", "profile", "BUFFER_PROFILE"),
    ("BUFFER_QUEUE", "profile", "BUFFER_PROFILE"),
    ("QUEUE", "scheduler", "SCHEDULER"),
    ("QUEUE", "wred_profile", "WRED_PROFILE"),
];

/// All rows, in the order of the files, and what is wrong with them.
#[derive(Default)]
pub(super) struct Db<'t> {
    sources: Vec<(&'t str, &'t str)>,
    rows: Vec<Row>,
    /// Where a row is in `rows`, by table and key, while files are read.
    places: HashMap<(String, String), usize>,
    pub found: Findings,
    pub notes: Vec<Note>,
}

/// The entries of an object, in order. Values are slices of the text, so that it is known where they stand.
struct Entries<'t>(Vec<(String, &'t RawValue)>);

impl<'de> Deserialize<'de> for Entries<'de> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Object;
        impl<'de> Visitor<'de> for Object {
            type Value = Entries<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Entries<'de>, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    entries.push(entry);
                }
                Ok(Entries(entries))
            }
        }
        from.deserialize_map(Object)
    }
}

impl<'t> Db<'t> {
    /// Reads those of the files, each a name and a text, that hold tables. Of a field that is said twice the later one
    /// counts, as with `sonic-cfggen`.
    pub fn read(sources: &[(&'t str, &'t str)], has_tables: impl Fn(&str) -> bool) -> Self {
        let mut db = Self { sources: sources.to_vec(), ..Self::default() };
        for (source, (_, text)) in sources.iter().enumerate().filter(|(_, (name, _))| has_tables(name)) {
            db.read_file(source, text);
        }
        db.places.clear();
        db.check_references();
        db
    }

    /// A reference in brackets says which table it is to, and that is the one its field names rows of.
    fn check_references(&mut self) {
        let maps = MAPS.map(|(table, field, ..)| ("PORT_QOS_MAP", field, table));
        let mut wrong = Vec::new();
        for (of, field, table) in REFERENCES.into_iter().chain(maps) {
            let rows = self.rows.iter().filter(|row| row.table == of);
            for (row, field) in rows.filter_map(|row| Some((row, row.field(field)?))) {
                if let Some(other) = table_of(&field.value).filter(|other| *other != table) {
                    let at = format!("{of}|{}|{}", shown(&row.key), field.name);
                    let message = format!(
                        "{at} = `{}`: it names rows of {table}, not of {}",
                        shown(&field.value),
                        shown(other)
                    );
                    let help = format!("write [{table}|NAME], or the name alone, of a row of {table}");
                    wrong.push((field.at, message, help));
                }
            }
        }
        for (at, message, help) in wrong {
            self.error(at, "sonic.reference", message, &help);
        }
    }

    /// Where the first file begins: for what is nowhere.
    pub fn start(&self) -> At {
        At { source: 0, span: Span::default() }
    }

    /// What is wrong, in the order of the text.
    pub fn into_found(self) -> Vec<Diagnostic> {
        self.found.in_order(self.sources.first().copied().unwrap_or_default())
    }

    fn read_file(&mut self, source: usize, text: &'t str) {
        let tables = match serde_json::from_str::<Entries<'t>>(text) {
            Ok(Entries(tables)) => tables,
            Err(error) => {
                let at = At { source, span: place(text, error.line(), error.column()) };
                let said = error.to_string();
                let what = said.split(" at line ").next().unwrap_or_default();
                let help = "config_db.json is an object of tables: { \"PORT\": { \"Ethernet0\": { ... } } }";
                return self.error(at, "sonic.syntax", format!("no JSON of tables: {what}"), help);
            }
        };
        for (table, rows) in tables {
            // Where a chassis has several ASICs its databases come in one file.
            if table == "localhost" || table.strip_prefix("asic").is_some_and(|n| n.parse::<u8>().is_ok()) {
                let at = At { source, span: span(text, rows) };
                let message = format!(
                    "{table} is a database of a switch with several ASICs; here one switch is one ASIC"
                );
                self.error(
                    at,
                    "sonic.asics",
                    message,
                    "import the tables of one of them: what is between the braces here",
                );
                continue;
            }
            let Some(rows) = self.object(source, &table, rows, "an object of rows") else { continue };
            for (key, fields) in rows {
                let place = format!("{table}|{key}");
                let at = At { source, span: span(text, fields) };
                let Some(fields) = self.object(source, &place, fields, "an object of fields") else {
                    continue;
                };
                let mut names = HashSet::new();
                let mut row = Row { table: table.clone(), key, at, fields: Vec::with_capacity(fields.len()) };
                for (name, raw) in fields {
                    if names.insert(name.clone()) {
                        row.fields.extend(self.field(source, &place, name, raw));
                    } else {
                        let at = At { source, span: span(text, raw) };
                        self.error(
                            at,
                            "sonic.twice",
                            format!("{place} says {name} twice"),
                            "keep one of them",
                        );
                    }
                }
                self.add(row);
            }
        }
    }

    fn object(
        &mut self,
        source: usize,
        place: &str,
        raw: &'t RawValue,
        what: &str,
    ) -> Option<Vec<(String, &'t RawValue)>> {
        match serde_json::from_str::<Entries<'t>>(raw.get()) {
            Ok(Entries(entries)) => Some(entries),
            Err(_) => {
                let at = At { source, span: span(self.sources[source].1, raw) };
                self.error(
                    at,
                    "sonic.type",
                    format!("{place} is not {what}"),
                    &format!("write {what}: {{ ... }}"),
                );
                None
            }
        }
    }

    fn field(&mut self, source: usize, place: &str, name: String, raw: &'t RawValue) -> Option<Field> {
        let at = At { source, span: span(self.sources[source].1, raw) };
        let text = raw.get();
        let value = match text.as_bytes().first() {
            Some(b'"') => serde_json::from_str::<String>(text).ok(),
            Some(b'[') => serde_json::from_str::<Vec<String>>(text).ok().map(|list| list.join(",")),
            Some(b'{') | None => None,
            _ => Some(text.to_owned()).filter(|text| text != "null"),
        };
        let Some(value) = value else {
            let message = format!("{place}|{name} is neither a text nor a list of texts");
            self.error(at, "sonic.type", message, "write the value as a text, such as \"100000\"");
            return None;
        };
        Some(Field { name, value, at, note: None })
    }

    /// A row that is there already keeps the fields the new one does not have.
    fn add(&mut self, mut row: Row) {
        let Some(&i) = self.places.get(&(row.table.clone(), row.key.clone())) else {
            self.places.insert((row.table.clone(), row.key.clone()), self.rows.len());
            return self.rows.push(row);
        };
        for field in std::mem::take(&mut self.rows[i].fields) {
            if row.field(&field.name).is_none() {
                row.fields.push(field);
            } else {
                let why = "said again later, which counts".to_owned();
                self.notes.push(row.noted(Outcome::Ignored, field.name, why));
            }
        }
        self.rows[i] = row;
    }

    /// Notes an error.
    pub fn error(&mut self, at: At, rule: &'static str, message: String, remedy: &str) {
        self.tell(Severity::Error, at, rule, message, remedy);
    }

    /// Notes something about a place.
    pub fn tell(&mut self, severity: Severity, at: At, rule: &'static str, message: String, remedy: &str) {
        let source = self.sources.get(at.source).copied().unwrap_or_default();
        self.found.note(severity, source, at.span, rule, message, remedy.into());
    }

    /// The rows of a table that nobody took.
    pub fn rows(&self, table: &str) -> impl Iterator<Item = &Row> {
        self.rows.iter().filter(move |row| row.table == table)
    }

    /// Takes the rows of a table.
    pub fn take(&mut self, table: &str) -> Vec<Row> {
        let (taken, left) = std::mem::take(&mut self.rows).into_iter().partition(|row| row.table == table);
        self.rows = left;
        taken
    }

    /// A row has been read: fields nobody asked for are ignored, for the reason given.
    pub fn done(&mut self, row: &Row, ignored: &str) {
        let mut groups: Vec<(Outcome, String, Vec<&str>)> = Vec::new();
        for field in &row.fields {
            let (outcome, why) = field.note.clone().unwrap_or((Outcome::Ignored, ignored.to_owned()));
            match groups.iter_mut().find(|(o, w, _)| *o == outcome && *w == why) {
                Some((.., names)) => names.push(&field.name),
                None => groups.push((outcome, why, vec![&field.name])),
            }
        }
        if groups.is_empty() {
            self.notes.push(row.noted(Outcome::Ignored, String::new(), "the row is empty".into()));
        }
        for (outcome, why, names) in groups {
            let note = row.noted(outcome, names.join(", "), why);
            self.notes.push(note);
        }
    }

    /// All of a row has become one thing, or nothing.
    pub fn whole(&mut self, row: &Row, outcome: Outcome, why: String) {
        self.notes.push(row.noted(outcome, String::new(), why));
    }

    /// What nobody took.
    pub fn rest(&mut self) -> Vec<Row> {
        std::mem::take(&mut self.rows)
    }

    /// A whole number of a field within `range`, if the row has the field.
    pub fn number(&mut self, row: &Row, name: &str, range: RangeInclusive<i64>) -> Option<i64> {
        let field = row.field(name)?;
        let number = field.value.trim().parse::<i64>().ok().filter(|n| range.contains(n));
        if number.is_none() {
            let message = format!("{}|{}|{name} = `{}`", row.table, row.key, shown(&field.value));
            let help = format!("write a whole number from {} to {}", range.start(), range.end());
            self.error(field.at, "sonic.value", message, &help);
        }
        number
    }

    /// One of these words.
    pub fn word<T: Copy>(&mut self, row: &Row, name: &str, words: &[(&str, T)]) -> Option<T> {
        let field = row.field(name)?;
        let found = words.iter().find(|(word, _)| field.value.eq_ignore_ascii_case(word)).map(|(_, v)| *v);
        if found.is_none() {
            let known: Vec<_> = words.iter().map(|(word, _)| format!("\"{word}\"")).collect();
            let message = format!("{}|{}|{name} = `{}`", row.table, row.key, shown(&field.value));
            self.error(field.at, "sonic.value", message, &format!("use one of {}", known.join(", ")));
        }
        found
    }
}

impl Row {
    /// The field of this name.
    pub fn field(&self, name: &str) -> Option<&Field> {
        self.fields.iter().find(|field| field.name == name)
    }

    /// The value of a field.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.field(name).map(|field| field.value.as_str())
    }

    /// The name a field refers to: `x`, or `[TABLE|x]` as SONiC wrote it before 202012.
    pub fn reference(&self, name: &str) -> Option<&str> {
        self.text(name).map(referred)
    }

    /// What became of fields, those the row has.
    pub fn note(&mut self, names: &[&str], outcome: Outcome, why: impl Into<String>) {
        let why = why.into();
        for field in self.fields.iter_mut().filter(|field| names.contains(&field.name.as_str())) {
            field.note = Some((outcome, why.clone()));
        }
    }

    fn noted(&self, outcome: Outcome, fields: String, why: String) -> Note {
        Note { outcome, table: self.table.clone(), key: self.key.clone(), fields, why }
    }
}

/// The name in `[TABLE|name]`, or the text itself.
pub(super) fn referred(text: &str) -> &str {
    inside(text).map_or(text, |inner| inner.split_once('|').map_or(inner, |(_, name)| name))
}

/// The table in `[TABLE|name]`.
fn table_of(text: &str) -> Option<&str> {
    inside(text)?.split_once('|').map(|(table, _)| table)
}

fn inside(text: &str) -> Option<&str> {
    text.strip_prefix('[')?.strip_suffix(']')
}

/// The beginning of a value, for a message.
pub(super) fn shown(text: &str) -> String {
    text.chars().take(40).collect()
}

/// Where a value stands in the text it is a slice of.
fn span(text: &str, raw: &RawValue) -> Span {
    let start = raw.get().as_ptr().addr().saturating_sub(text.as_ptr().addr());
    Span { start, end: start + raw.get().len() }
}

/// Line and column, from 1, as a place in the text.
fn place(text: &str, line: usize, column: usize) -> Span {
    let before: usize = text.split_inclusive('\n').take(line.saturating_sub(1)).map(str::len).sum();
    let start = (before + column.saturating_sub(1)).min(text.len());
    Span { start, end: start + 1 }
}
