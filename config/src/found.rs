//! What was found wrong so far. To show a finding takes as long as its text is, so of a text that is wrong in a
//! hundred thousand places only those found first are made ready to be shown.

use super::diag::{Diagnostic, Severity, Span, plain};

/// Findings shown of each severity; of the rest, how many there are.
pub(super) const MOST: usize = 100;
/// Others like one finding that are named, if their names are no longer than this.
const NAMED: usize = 4;
const LONGEST_NAME: usize = 24;

/// The notes.
#[derive(Debug, Default)]
pub(super) struct Findings {
    /// Each with the others like it that stand at the same place (a default for all ports).
    kept: Vec<(Diagnostic, Alike)>,
    /// Errors and warnings that are not shown, and where the first of them stands.
    others: [(usize, Option<Span>); 2],
    /// All of them.
    pub noted: usize,
}

/// What is wrong in the same way at the same place.
#[derive(Debug, Default)]
struct Alike {
    count: usize,
    /// Messages of the first of them.
    first: Vec<String>,
}

impl Alike {
    fn add(&mut self, message: String) {
        self.count += 1;
        if self.first.len() < NAMED {
            self.first.push(message);
        }
    }

    /// What is said of them behind `message`: what they have in its place, if that is one short part.
    fn words(&self, message: &str) -> String {
        if self.count == 0 {
            return String::new();
        }
        let names: Option<Vec<&str>> = self.first.iter().map(|other| differs(message, other)).collect();
        let rest = self.count - self.first.len();
        match names {
            Some(names) if rest == 0 => format!(" (the same of {})", names.join(", ")),
            Some(names) => format!(" (the same of {} and {rest} more)", names.join(", ")),
            None => format!(" (and {} more like this)", self.count),
        }
    }
}

/// The part of `other` that is not as in `message`, whole words, if it is short.
fn differs<'a>(message: &str, other: &'a str) -> Option<&'a str> {
    let is_word = |c: char| c.is_alphanumeric() || c == '_' || c == '-';
    let same = |(a, b): &(char, char)| a == b;
    let length = |(_, c): (char, char)| c.len_utf8();
    let begin: usize = message.chars().zip(other.chars()).take_while(same).map(length).sum();
    let most = other.len().min(message.len()) - begin;
    let back = message.chars().rev().zip(other.chars().rev()).take_while(same).map(length);
    let end = back.scan(0, |sum, length| {
        *sum += length;
        (*sum <= most).then_some(*sum)
    });
    let end = other.len() - end.last().unwrap_or(0);
    // Names end where words do.
    let begin = other[..begin].trim_end_matches(is_word).len();
    let end = other.len() - other[end..].trim_start_matches(is_word).len();
    let name = other.get(begin..end)?;
    (!name.is_empty() && name.len() <= LONGEST_NAME).then_some(name)
}

impl Findings {
    /// Notes one, in the text `source` (name and text); it is there to say more of if it is none of those that are counted
    /// alone.
    pub fn note(
        &mut self,
        severity: Severity,
        source: (&str, &str),
        at: Span,
        rule: &'static str,
        message: String,
        remedy: String,
    ) -> Option<&mut Diagnostic> {
        self.noted += 1;
        // As it will be shown: it is compared, and parts of it are.
        let message = plain(message);
        let same = |d: &Diagnostic| (d.span, d.severity, d.rule, &d.remedy) == (at, severity, rule, &remedy);
        if let Some((d, alike)) = self.kept.iter_mut().find(|(d, _)| same(d)) {
            if d.message != message {
                alike.add(message);
            }
            None
        } else if self.kept.iter().filter(|(d, _)| d.severity == severity).count() < MOST {
            self.kept.push((Diagnostic::new(severity, source, at, rule, message, remedy), Alike::default()));
            self.kept.last_mut().map(|(d, _)| d)
        } else {
            let (count, first) = &mut self.others[severity as usize];
            *count += 1;
            first.get_or_insert(at);
            None
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
        let named = self.kept.into_iter().map(|(mut d, alike)| {
            d.message += &alike.words(&d.message);
            d
        });
        let mut all: Vec<_> = named.collect();
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
        assert_eq!(all[1].message, format!("port 0 (the same of 1, 2, 3, 4 and {} more)", 10 * MOST - 5));
    }

    #[test]
    fn what_is_alike_is_named_where_that_is_short() {
        let message = |messages: &[&str]| {
            let mut findings = Findings::default();
            for message in messages {
                let (text, at) = (("t", "x"), Span::default());
                findings.note(Severity::Error, text, at, "a", (*message).into(), String::new());
            }
            findings.in_order(("t", "x")).remove(0).message
        };
        assert_eq!(message(&["port.p0.mtu = 9", "port.p1.mtu = 9"]), "port.p0.mtu = 9 (the same of p1)");
        assert_eq!(
            message(&["port.p1.mtu = 9", "port.p11.mtu = 9", "port.p.mtu = 9", "port.p1.mtu = 9"]),
            "port.p1.mtu = 9 (the same of p11, p)"
        );
        assert_eq!(message(&["`ä`: wrong", "`ö`: wrong"]), "`ä`: wrong (the same of ö)");
        assert_eq!(
            message(&["p0 has 3 of 17 bytes of its queue", "p1 has 4 of 17 bytes of its buffer"]),
            "p0 has 3 of 17 bytes of its queue (and 1 more like this)"
        );
        assert_eq!(message(&["x", ""]), "x (and 1 more like this)");
        assert_eq!(message(&["p0: `\u{1b}`", "p1: `\u{1b}`"]), "p0: ` ` (the same of p1)");
    }
}
