//! What was found wrong so far. To show a finding takes as long as its text is, so of a text that is wrong in a
//! hundred thousand places only those found first are made ready to be shown.

use super::diag::{Diagnostic, Severity, Span};

/// Findings shown of each severity; of the rest, how many there are.
pub(super) const MOST: usize = 100;

/// The notes.
#[derive(Debug, Default)]
pub(super) struct Findings {
    /// Each with how many others like it stand at the same place (a default for all ports).
    kept: Vec<(Diagnostic, usize)>,
    /// Errors and warnings that are not shown, and where the first of them stands.
    others: [(usize, Option<Span>); 2],
    /// All of them.
    pub noted: usize,
}

impl Findings {
    /// Notes one, in the text `source` (name and text).
    pub fn note(
        &mut self,
        severity: Severity,
        source: (&str, &str),
        at: Span,
        rule: &'static str,
        message: String,
        remedy: String,
    ) {
        self.noted += 1;
        let same = |d: &Diagnostic| (d.span, d.severity, d.rule, &d.remedy) == (at, severity, rule, &remedy);
        if let Some((d, more)) = self.kept.iter_mut().find(|(d, _)| same(d)) {
            *more += usize::from(d.message != message);
        } else if self.kept.iter().filter(|(d, _)| d.severity == severity).count() < MOST {
            self.kept.push((Diagnostic::new(severity, source, at, rule, message, remedy), 0));
        } else {
            let (count, first) = &mut self.others[severity as usize];
            *count += 1;
            first.get_or_insert(at);
        }
    }

    /// Nothing is wrong, nor odd.
    pub fn is_empty(&self) -> bool {
        self.noted == 0
    }

    /// Something is wrong.
    pub fn has_errors(&self) -> bool {
        self.kept.iter().any(|(d, _)| d.is_error())
    }

    /// In the order of the text, and then how many there are besides.
    pub fn in_order(mut self, source: (&str, &str)) -> Vec<Diagnostic> {
        self.kept.sort_by_key(|(d, _)| (d.span, d.severity));
        let counted = self.kept.into_iter().map(|(mut d, more)| {
            if more > 0 {
                d.message.push_str(&format!(" (and {more} more like this)"));
            }
            d
        });
        let mut all: Vec<_> = counted.collect();
        for (severity, kind) in [(Severity::Error, "errors"), (Severity::Warning, "warnings")] {
            if let (count, Some(at)) = self.others[severity as usize] {
                let (message, remedy) =
                    (format!("{count} more {kind} are not shown"), "correct those that are");
                let mut rest = Diagnostic::new(severity, source, at, "more", message, remedy.into());
                rest.count = count;
                all.push(rest);
            }
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::super::load;
    use super::*;

    /// Faults of the text and the findings made ready: each costs at most the length of the text.
    fn found(text: &str) -> (usize, usize) {
        let found = load("t.toml", text).unwrap_err();
        let errors = found.iter().filter(|d| d.is_error());
        (errors.map(|d| d.count).sum(), found.len())
    }

    #[test]
    fn many_faults_are_counted_and_the_first_are_shown() {
        let lines = |n: usize, line: &dyn Fn(usize) -> String| (0..n).map(line).collect::<String>();
        for n in [20, 20_000] {
            let shown = (n + 1).min(MOST + 1);
            // No port is an error of its own.
            assert_eq!(found(&lines(n, &|i| format!("key{i} = 1\n"))), (n + 1, shown));
            let inline = format!("buffer = {{ {} }}\n", lines(n, &|i| format!("key{i} = 1, ")));
            assert_eq!(found(&inline.replace(", }", "}")), (n + 1, shown));
            let (count, ready) = found(&lines(n, &|_| "x = = 1\n".into()));
            assert!(count >= n && ready <= MOST + 1, "{count} {ready}");
        }
        let text = lines(300, &|i| format!("key{i} = 1\n"));
        let found = load("t.toml", &text).unwrap_err();
        let rest: Vec<_> = found.iter().filter(|d| d.rule == "more").map(|d| d.message.as_str()).collect();
        assert_eq!(rest, ["201 more errors are not shown"]);
    }

    /// One place that is wrong for all ports does not hide what else is wrong.
    #[test]
    fn what_is_wrong_in_the_same_way_at_the_same_place_is_one_finding() {
        let mut findings = Findings::default();
        for i in 0..10 * MOST {
            findings.note(
                Severity::Warning,
                ("t", "x"),
                Span::default(),
                "a",
                format!("port {i}"),
                String::new(),
            );
        }
        findings.note(Severity::Error, ("t", "x"), Span::default(), "b", "wrong".into(), String::new());
        let all = findings.in_order(("t", "x"));
        assert_eq!((all.len(), all[0].rule), (2, "b"));
        assert_eq!(all[1].message, format!("port 0 (and {} more like this)", 10 * MOST - 1));
    }
}
