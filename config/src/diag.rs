//! What is wrong with a configuration, shown where it stands: file, line, caret, rule, remedy.

use annotate_snippets::{AnnotationKind, Level, Renderer, Snippet};
use std::fmt;
use std::ops::Range;

/// Columns that a diagnostic takes; of a longer source line it shows the part around the value.
const WIDTH: usize = 130;

/// Bytes `start..end` of the configuration text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Span {
    /// First byte.
    pub start: usize,
    /// One past the last byte.
    pub end: usize,
}

impl From<std::ops::Range<usize>> for Span {
    fn from(r: std::ops::Range<usize>) -> Self {
        Self { start: r.start, end: r.end }
    }
}

/// Whether a configuration with this diagnostic may run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// It may not; the program ends with exit code 2.
    Error,
    /// It may; the operator should know.
    Warning,
}

/// One finding. Displays as a few lines with the source line and a caret under the value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct Diagnostic {
    /// Error or warning.
    pub severity: Severity,
    /// Name of the configuration, as given to `load`.
    pub file: String,
    /// Where the offending value stands.
    pub span: Span,
    /// Line of the span's start, from 1.
    pub line: usize,
    /// Column of the span's start in characters, from 1.
    pub column: usize,
    /// Stable name of the rule that is broken, e.g. `watchdog.order`.
    pub rule: &'static str,
    /// What clashes, with the numbers.
    pub message: String,
    /// Line of what it clashes with, from 1, where that stands in the same text.
    pub first_line: Option<usize>,
    /// What to change.
    pub remedy: String,
    /// Findings it stands for: 1, but for the last, which tells how many are not shown.
    pub count: usize,
    /// The source line, and which of its bytes are marked.
    excerpt: String,
    marked: Range<usize>,
}

impl Diagnostic {
    /// A finding at `span` of `text`. A span outside the text or inside a character is moved to the nearest
    /// place that exists.
    pub fn new(
        severity: Severity,
        (file, text): (&str, &str),
        span: Span,
        rule: &'static str,
        message: String,
        remedy: String,
    ) -> Self {
        let start = floor_boundary(text, span.start);
        let end = floor_boundary(text, span.end).max(start);
        let head = &text[..start];
        let line_start = head.rfind('\n').map_or(0, |i| i + 1);
        let rest = text[start..].lines().next().unwrap_or_default();
        let (marked, behind) = rest.split_at(rest.len().min(end - start));
        let [before, marked, behind] =
            [&text[line_start..start], marked, behind].map(|part| plain(part.to_owned()));
        let line = head.matches('\n').count() + 1;
        Self {
            severity,
            file: file.to_owned(),
            span,
            line,
            column: before.chars().count() + 1,
            rule,
            message: plain(message),
            first_line: None,
            remedy: plain(remedy),
            count: 1,
            marked: before.len()..before.len() + marked.len(),
            excerpt: before + &marked + &behind,
        }
    }

    /// The message, and the line of what it clashes with: for those who see the text.
    pub fn told(&self) -> String {
        match self.first_line {
            Some(line) => format!("{}, first in line {line}", self.message),
            None => self.message.clone(),
        }
    }

    /// True if the configuration may not run.
    pub fn is_error(&self) -> bool {
        self.severity == Severity::Error
    }
}

/// The same without what moves a cursor: the text comes from outside and goes to a terminal.
pub(super) fn plain(text: String) -> String {
    if text.contains(char::is_control) { text.replace(char::is_control, " ") } else { text }
}

fn floor_boundary(text: &str, at: usize) -> usize {
    let mut at = at.min(text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let level = if self.is_error() { Level::ERROR } else { Level::WARNING };
        let marked = AnnotationKind::Primary.span(self.marked.clone());
        let source = Snippet::source(&self.excerpt).line_start(self.line).path(&self.file).annotation(marked);
        let title = level.primary_title(self.told()).id(self.rule);
        let report = [title.element(source).element(Level::HELP.message(&self.remedy))];
        f.write_str(&Renderer::plain().term_width(WIDTH).render(&report))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn at(text: &str, start: usize, end: usize) -> Diagnostic {
        Diagnostic::new(
            Severity::Error,
            ("a.toml", text),
            Span { start, end },
            "test.rule",
            "wrong".into(),
            "right it".into(),
        )
    }

    #[test]
    fn points_at_the_value() {
        let text = "[switch]\nname = \"ä\"\nseed = -1\n";
        let start = text.find("-1").unwrap();
        let shown = at(text, start, start + 2).to_string();
        let want = "error[test.rule]: wrong\n --> a.toml:3:8\n  |\n3 | seed = -1\n  |        ^^\n  |\n  = help: right it";
        assert_eq!(shown, want);
    }

    #[test]
    fn tabs_and_escapes_do_not_reach_the_terminal() {
        let shown = at("\tx = \"\u{1b}[31m\"\r\n", 1, 2).to_string();
        assert!(!shown.contains(['\t', '\u{1b}', '\r']), "{shown:?}");
        assert!(shown.contains("1 |  x ="), "{shown}");
    }

    #[test]
    fn a_long_line_is_cut_around_the_value() {
        let text = format!("x = [{}9]", "1, ".repeat(1000));
        let d = at(&text, text.len() - 2, text.len() - 1);
        assert!(d.to_string().lines().all(|l| l.chars().count() < 140), "{d}");
        let lines: Vec<String> = d.to_string().lines().map(str::to_owned).collect();
        let caret = lines[4].find('^').unwrap();
        assert_eq!(lines[3].as_bytes()[caret], b'9');
    }

    proptest! {
        #[test]
        fn any_span_of_any_text_renders(text in ".{0,80}", start in 0usize..400, end in 0usize..400) {
            prop_assert!(at(&text, start, end).to_string().contains('^'));
        }
    }
}
