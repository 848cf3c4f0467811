//! Reads a parsed TOML document key by key, remembering where each value stands and noting everything wrong.
//!
//! A section is a stack of tables: the user's first, then defaults for all ports, then the preset. The first
//! that has a key provides it. A value that is refused is reported once and replaced by the default, so one
//! pass finds every error.

use std::fmt;
use std::ops::RangeInclusive;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::diag::{Diagnostic, Severity, Span};
use super::found::Findings;
use super::schema::Table;
use super::units::{Bad, COUNT, Kind, SIGNED, wrong_type};

/// Where an effective value comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// weir's default.
    Default,
    /// Computed from other values.
    Derived,
    /// The preset of this name.
    Preset(String),
    /// This line of the configuration.
    File {
        /// Name of the configuration.
        file: String,
        /// Line from 1.
        line: usize,
    },
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::Derived => f.write_str("derived"),
            Self::Preset(name) => write!(f, "preset {name}"),
            Self::File { file, line } => write!(f, "{file}:{line}"),
        }
    }
}

/// One effective value and its reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explained {
    /// Dotted key, e.g. `port.p0.mtu`.
    pub key: String,
    /// The value, with its unit.
    pub value: String,
    /// Where it comes from.
    pub origin: Origin,
    /// Why it is so; empty where the user set it.
    pub why: String,
}

/// A value, where it stands, and who set it.
#[derive(Clone, Debug)]
pub(super) struct Val<T> {
    pub v: T,
    /// Where to point when this value clashes: for a default the section, for a preset its name.
    pub span: Span,
    pub origin: Origin,
}

/// The notes taken while reading.
pub(super) struct Ctx<'a> {
    pub file: &'a str,
    pub text: &'a str,
    /// Name of the preset and where it is chosen.
    pub preset: Option<(&'static str, Span)>,
    pub found: Findings,
    pub explained: Vec<Explained>,
    /// Names of LAGs with their members as written: somebody may take one for a port.
    pub lags: Vec<(String, Vec<String>)>,
    /// Where each line starts, ascending.
    lines: Vec<usize>,
}

impl<'a> Ctx<'a> {
    pub fn new(file: &'a str, text: &'a str) -> Self {
        let lines = text.bytes().enumerate().filter(|(_, b)| *b == b'\n').map(|(i, _)| i + 1).collect();
        Self { file, text, preset: None, found: Findings::default(), explained: vec![], lags: vec![], lines }
    }

    fn note(&mut self, severity: Severity, at: Span, rule: &'static str, message: String, remedy: String) {
        self.found.note(severity, (self.file, self.text), at, rule, message, remedy);
    }

    /// All that was found, in the order of the text.
    pub fn in_order(self) -> Vec<Diagnostic> {
        self.found.in_order((self.file, self.text))
    }

    pub fn error(
        &mut self,
        at: Span,
        rule: &'static str,
        message: impl Into<String>,
        remedy: impl Into<String>,
    ) {
        self.note(Severity::Error, at, rule, message.into(), remedy.into());
    }

    /// An error at `at`, which clashes with what stands at `first`.
    pub fn clash(
        &mut self,
        (at, first): (Span, Span),
        rule: &'static str,
        message: impl Into<String>,
        remedy: impl Into<String>,
    ) {
        let line = self.line(first);
        let source = (self.file, self.text);
        if let Some(noted) = self.found.note(Severity::Error, source, at, rule, message.into(), remedy.into())
        {
            noted.first_line = Some(line);
        }
    }

    pub fn warn(
        &mut self,
        at: Span,
        rule: &'static str,
        message: impl Into<String>,
        remedy: impl Into<String>,
    ) {
        self.note(Severity::Warning, at, rule, message.into(), remedy.into());
    }

    pub fn explain(
        &mut self,
        key: impl Into<String>,
        value: impl Into<String>,
        origin: Origin,
        why: impl Into<String>,
    ) {
        self.explained.push(Explained { key: key.into(), value: value.into(), origin, why: why.into() });
    }

    /// Line of a byte of the user's text.
    pub fn line(&self, at: Span) -> usize {
        self.lines.partition_point(|start| *start <= at.start) + 1
    }

    fn place(&self, layer: &Layer<'_>, span: Span) -> (Span, Origin) {
        match (layer.preset, self.preset) {
            (true, Some((name, at))) => (at, Origin::Preset(name.to_owned())),
            _ => (span, Origin::File { file: self.file.to_owned(), line: self.line(span) }),
        }
    }
}

/// One table of a section.
#[derive(Clone, Copy)]
pub(super) struct Layer<'a> {
    pub table: &'a DeTable<'a>,
    pub at: Span,
    pub preset: bool,
}

/// Tables read as one, the first that has a key winning.
#[derive(Clone)]
pub(super) struct Section<'a> {
    pub path: String,
    schema: &'static Table,
    layers: Vec<Layer<'a>>,
}

impl<'a> Section<'a> {
    /// A section over these tables; unknown keys of the user's own tables are reported.
    pub fn new(ctx: &mut Ctx<'_>, schema: &'static Table, path: String, layers: Vec<Layer<'a>>) -> Self {
        for layer in layers.iter().filter(|l| !l.preset) {
            unknown_keys(ctx, schema, layer.table);
        }
        Self { path, schema, layers }
    }

    /// The same section with further tables below.
    pub fn over(mut self, below: &Self) -> Self {
        self.layers.extend(&below.layers);
        self
    }

    /// The first of its tables alone: what stands there is the whole.
    pub fn nearest(mut self) -> Self {
        self.layers.truncate(1);
        self
    }

    /// Where the section stands; the start of the text if it is not written.
    pub fn span(&self, ctx: &Ctx<'_>) -> Span {
        self.layers.first().map_or(Span::default(), |l| ctx.place(l, l.at).0)
    }

    /// Whether any table is behind this section.
    pub fn is_empty(&self) -> bool {
        self.layers.is_empty()
    }

    fn entries(&self, key: &str) -> impl Iterator<Item = (&Layer<'a>, &'a Spanned<DeValue<'a>>)> {
        debug_assert!(self.schema.has(key), "{key} is missing in the schema of {}", self.schema.path);
        self.layers.iter().filter_map(move |l| l.table.get(key).map(|v| (l, v)))
    }

    /// The raw value of a key.
    pub fn raw(&self, ctx: &Ctx<'_>, key: &str) -> Option<Val<&'a DeValue<'a>>> {
        let (layer, value) = self.entries(key).next()?;
        let (span, origin) = ctx.place(layer, value.span().into());
        Some(Val { v: value.get_ref(), span, origin })
    }

    /// The value of a key, if it is set and well formed; explained by where it stands.
    pub fn get<T>(&self, ctx: &mut Ctx<'_>, key: &str, kind: &Kind<T>) -> Option<Val<T>> {
        let raw = self.raw(ctx, key)?;
        match (kind.parse)(raw.v) {
            Ok(v) => {
                ctx.explain(self.key(key), (kind.show)(&v), raw.origin.clone(), "");
                Some(Val { v, span: raw.span, origin: raw.origin })
            }
            Err(bad) => {
                ctx.error(raw.span, "value", format!("{}: {}", self.key(key), bad.message), bad.remedy);
                None
            }
        }
    }

    /// The value of a key or its default, explained with its reason.
    pub fn or<T>(&self, ctx: &mut Ctx<'_>, key: &str, kind: &Kind<T>, default: T, why: &str) -> Val<T> {
        self.get(ctx, key, kind).unwrap_or_else(|| {
            ctx.explain(self.key(key), (kind.show)(&default), Origin::Default, why);
            Val { v: default, span: self.span(ctx), origin: Origin::Default }
        })
    }

    /// A required value.
    pub fn need<T>(&self, ctx: &mut Ctx<'_>, key: &str, kind: &Kind<T>) -> Option<Val<T>> {
        if self.raw(ctx, key).is_none() {
            let at = self.span(ctx);
            ctx.error(at, "required", format!("{} is missing", self.key(key)), self.schema.remedy(key));
        }
        self.get(ctx, key, kind)
    }

    /// An integer within a range; out of it is an error and `None`.
    pub fn int(&self, ctx: &mut Ctx<'_>, key: &str, range: RangeInclusive<u64>) -> Option<Val<u64>> {
        let val = self.get(ctx, key, &COUNT)?;
        self.within(ctx, key, val, &range, |n| n.to_string())
    }

    /// Like [`Section::int`], with a default.
    pub fn int_or(
        &self,
        ctx: &mut Ctx<'_>,
        key: &str,
        range: RangeInclusive<u64>,
        default: u64,
        why: &str,
    ) -> Val<u64> {
        self.int(ctx, key, range).unwrap_or_else(|| {
            ctx.explain(self.key(key), default.to_string(), Origin::Default, why);
            Val { v: default, span: self.span(ctx), origin: Origin::Default }
        })
    }

    /// A signed integer within a range.
    pub fn signed(&self, ctx: &mut Ctx<'_>, key: &str, range: RangeInclusive<i64>) -> Option<Val<i64>> {
        let val = self.get(ctx, key, &SIGNED)?;
        self.within(ctx, key, val, &range, |n| n.to_string())
    }

    /// Refuses a value outside `range`.
    pub fn within<T: PartialOrd>(
        &self,
        ctx: &mut Ctx<'_>,
        key: &str,
        val: Val<T>,
        range: &RangeInclusive<T>,
        show: fn(&T) -> String,
    ) -> Option<Val<T>> {
        if range.contains(&val.v) {
            return Some(val);
        }
        let (low, high) = (show(range.start()), show(range.end()));
        let message = format!("{} = {} is outside {low} to {high}", self.key(key), show(&val.v));
        ctx.error(val.span, "range", message, format!("use a value from {low} to {high}"));
        None
    }

    /// The table at `key`, as a section of its own; empty if nobody sets it.
    pub fn table(&self, ctx: &mut Ctx<'_>, key: &str, schema: &'static Table) -> Section<'a> {
        let mut layers = Vec::new();
        for (layer, value) in self.entries(key) {
            let at = value.span().into();
            match value.get_ref() {
                DeValue::Table(table) => layers.push(Layer { table, at, preset: layer.preset }),
                other => {
                    let bad = wrong_type(other, "write a table");
                    ctx.error(at, "value", format!("{}: {}", self.key(key), bad.message), bad.remedy);
                }
            }
        }
        Section::new(ctx, schema, self.key(key), layers)
    }

    /// The tables of an array of tables, preset entries first so that the user's come later and win.
    pub fn items(&self, ctx: &mut Ctx<'_>, key: &str, schema: &'static Table) -> Vec<Section<'a>> {
        let mut items = Vec::new();
        let entries: Vec<_> = self.entries(key).collect();
        for (layer, value) in entries.into_iter().rev() {
            let DeValue::Array(array) = value.get_ref() else {
                let remedy = format!("write it as {}", schema.path);
                let message = format!("{} must be a list of tables", self.key(key));
                ctx.error(value.span().into(), "value", message, remedy);
                continue;
            };
            for (i, item) in array.iter().enumerate() {
                let at = item.span().into();
                match item.get_ref() {
                    DeValue::Table(table) => {
                        let layer = Layer { table, at, preset: layer.preset };
                        items.push(Section::new(ctx, schema, format!("{}[{i}]", self.key(key)), vec![layer]));
                    }
                    other => {
                        let bad = wrong_type(other, "write a table");
                        ctx.error(at, "value", format!("{}: {}", self.key(key), bad.message), bad.remedy);
                    }
                }
            }
        }
        items
    }

    /// Array elements or, for a single value, that value; each with its own span.
    pub fn list(&self, ctx: &Ctx<'_>, key: &str) -> Option<Vec<Val<&'a DeValue<'a>>>> {
        let (layer, value) = self.entries(key).next()?;
        let one = |v: &'a Spanned<DeValue<'a>>| {
            let (span, origin) = ctx.place(layer, v.span().into());
            Val { v: v.get_ref(), span, origin }
        };
        Some(match value.get_ref() {
            DeValue::Array(array) => array.iter().map(one).collect(),
            _ => vec![one(value)],
        })
    }

    /// Explains a list that is written at a key by what was made of it.
    pub fn explain_list<T: ToString>(
        &self,
        ctx: &mut Ctx<'_>,
        key: &str,
        items: impl IntoIterator<Item = T>,
    ) {
        let Some(raw) = self.raw(ctx, key) else { return };
        let items: Vec<String> = items.into_iter().map(|item| item.to_string()).collect();
        ctx.explain(self.key(key), items.join(", "), raw.origin, "");
    }

    /// Every `(key, value)` of the section's tables, lowest layer first.
    pub fn free(&self, ctx: &Ctx<'_>) -> Vec<(Val<String>, Val<&'a DeValue<'a>>)> {
        let mut all = Vec::new();
        for layer in self.layers.iter().rev() {
            for (k, v) in layer.table {
                let (kspan, origin) = ctx.place(layer, k.span().into());
                let (vspan, _) = ctx.place(layer, v.span().into());
                let key = Val { v: k.get_ref().to_string(), span: kspan, origin: origin.clone() };
                all.push((key, Val { v: v.get_ref(), span: vspan, origin }));
            }
        }
        all
    }

    /// Dotted name of a key.
    pub fn key(&self, key: &str) -> String {
        if self.path.is_empty() { key.to_owned() } else { format!("{}.{key}", self.path) }
    }
}

fn unknown_keys(ctx: &mut Ctx<'_>, schema: &'static Table, table: &DeTable<'_>) {
    if schema.free {
        return;
    }
    for key in table.keys() {
        let name = key.get_ref().as_ref();
        if !schema.has(name) {
            let remedy = match schema.nearest(name) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("known here: {}", schema.names().join(", ")),
            };
            let message = match schema.path {
                "" => format!("`{name}` is not a key at the top level"),
                path => format!("`{name}` is not a key of {path}"),
            };
            ctx.error(key.span().into(), "unknown_key", message, remedy);
        }
    }
}

/// Names become labels, keys and parts of paths, and are shown in terminals.
pub(super) fn check_name(ctx: &mut Ctx<'_>, name: &Val<String>, whose: &str) {
    if !fits_name(&name.v) {
        let shown: String = name.v.chars().take(40).flat_map(char::escape_default).collect();
        let message = format!("`{shown}` cannot be the name of {whose}");
        let remedy = "use 1 to 32 letters, digits and _ - . /, a letter, digit or _ first, and no `..`";
        ctx.error(name.span, "name", message, remedy);
    }
}

/// Whether a text may be a name.
pub(super) fn fits_name(name: &str) -> bool {
    let ok = |c: char| c.is_ascii_alphanumeric() || "_-./".contains(c);
    let starts = |c: char| c.is_ascii_alphanumeric() || c == '_';
    (1..=32).contains(&name.len()) && name.chars().all(ok) && name.starts_with(starts) && !name.contains("..")
}

/// One of a list of words.
pub(super) fn word<T: Copy>(v: &DeValue<'_>, all: &[T], name: fn(T) -> &'static str) -> Result<T, Bad> {
    let words = || all.iter().map(|w| format!("\"{}\"", name(*w))).collect::<Vec<_>>().join(", ");
    let text = v.as_str().ok_or_else(|| wrong_type(v, &format!("use one of {}", words())))?;
    let found = all.iter().find(|w| name(**w) == text).copied();
    found.ok_or_else(|| Bad::new(format!("`{text}` is not known here"), format!("use one of {}", words())))
}

/// Indices below `limit` from an integer or a text of indices and ranges: `3`, `"0-2,5"`, `"*"` for all.
pub(super) fn indices(v: &DeValue<'_>, limit: u64) -> Result<Vec<u8>, Bad> {
    match v {
        DeValue::Integer(_) => {
            let n = (COUNT.parse)(v)?;
            index(n, limit).map(|n| vec![n])
        }
        DeValue::String(s) => ranges(s, limit),
        _ => Err(wrong_type(v, "write 3, \"0-2,5\" or \"*\"")),
    }
}

fn index(n: u64, limit: u64) -> Result<u8, Bad> {
    let bad = || Bad::new(format!("{n} is outside 0 to {}", limit - 1), format!("use 0 to {}", limit - 1));
    if n < limit { u8::try_from(n).map_err(|_| bad()) } else { Err(bad()) }
}

/// `"0-2,5"` as indices, `"*"` as all of them.
pub(super) fn ranges(text: &str, limit: u64) -> Result<Vec<u8>, Bad> {
    if matches!(text, "*" | "all") {
        return (0..limit).map(|n| index(n, limit)).collect();
    }
    let mut all = Vec::new();
    for (low, high) in number_ranges(text)? {
        all.extend(index(low, limit)?..=index(high, limit)?);
    }
    Ok(all)
}

/// `"0-2,5"` as the first and last number of each range.
pub(super) fn number_ranges(text: &str) -> Result<Vec<(u64, u64)>, Bad> {
    let bad = || {
        Bad::new(
            format!("`{text}` is not a list of numbers and ranges"),
            "write it like \"3\", \"0-2\" or \"0-2,5\"",
        )
    };
    let number = |s: &str| match s.trim() {
        s if !s.is_empty() && s.bytes().all(|b| b.is_ascii_digit()) => s.parse::<u64>().map_err(|_| bad()),
        _ => Err(bad()),
    };
    let range = |part: &str| {
        let (low, high) = part.split_once('-').unwrap_or((part, part));
        let (low, high) = (number(low)?, number(high)?);
        if low > high {
            return Err(Bad::new(
                format!("the range {low}-{high} runs backwards"),
                format!("write {high}-{low}"),
            ));
        }
        Ok((low, high))
    };
    text.split(',').map(range).collect()
}
