//! Reads a fabric file, and tells all it does not say as it should: what was told of is taken out, and the rest is read again.

use super::FabricSpec;
use crate::fabric::FabricError;
use crate::fabric::faults::Faults;
use crate::fabric::source::path_to;
use serde::Deserialize;
use std::collections::BTreeSet;
use toml::de::{DeTable, DeValue, Deserializer, Error};

/// Faults that are told of at most.
const MOST: usize = 100;

/// Steps to a key or an item.
type Path = Vec<String>;

/// Line and column, from 1, of a place in a text.
fn position(text: &str, at: usize) -> (usize, usize) {
    let before = text.get(..at).unwrap_or(text);
    let column = before.rsplit('\n').next().map_or(0, |line| line.chars().count());
    (before.matches('\n').count() + 1, column + 1)
}

/// Takes out what is at the end of `path`.
fn take_out(table: &mut DeTable<'_>, path: &[String]) -> bool {
    let Some((first, rest)) = path.split_first() else { return false };
    if rest.is_empty() {
        let key = table.keys().find(|name| name.get_ref() == first).cloned();
        return key.is_some_and(|key| table.remove(&key).is_some());
    }
    let value = table.iter_mut().find(|(name, _)| name.get_ref() == first);
    value.is_some_and(|(_, value)| take_out_of(value.get_mut(), rest))
}

fn take_out_of(value: &mut DeValue<'_>, path: &[String]) -> bool {
    match (value, path) {
        (DeValue::Table(table), path) => take_out(table, path),
        (DeValue::Array(items), [nth, rest @ ..]) => match nth.parse::<usize>() {
            Ok(nth) if nth < items.len() && rest.is_empty() => {
                let others = items.iter().enumerate().filter(|(at, _)| *at != nth);
                *items = others.map(|(_, item)| item.clone()).collect();
                true
            }
            Ok(nth) => items.get_mut(nth).is_some_and(|item| take_out_of(item.get_mut(), rest)),
            Err(_) => false,
        },
        _ => false,
    }
}

/// The key that a table lacks, if an error is about that.
fn missing(error: &Error) -> Option<&str> {
    error.message().strip_prefix("missing field `")?.strip_suffix('`')
}

/// What `text` says, which messages call `file`.
///
/// # Errors
/// All that it does not say as it should: [`FabricError::Syntax`], or several of them.
pub(super) fn read(file: &str, text: &str) -> Result<FabricSpec, FabricError> {
    toml::from_str(text).map_err(|_| faults(file, text))
}

/// All faults of a text that has some.
fn faults(file: &str, text: &str) -> FabricError {
    let wrong = |mut error: Error| {
        error.set_input(Some(text));
        FabricError::Syntax {
            file: file.into(),
            at: error.span().map(|span| position(text, span.start)),
            message: error.to_string().trim_end().into(),
        }
    };
    let (mut document, errors) = DeTable::parse_recoverable(text);
    if !errors.is_empty() {
        let faults: Faults = errors.into_iter().map(|error| Err(wrong(error))).collect();
        return faults.into_error();
    }
    let mut found: Vec<FabricError> = Vec::new();
    let mut taken: BTreeSet<Path> = BTreeSet::new();
    loop {
        let again = FabricSpec::deserialize(Deserializer::from(document.clone()));
        let Err(error) = again else { break };
        // What the file itself lacks has the place of all of it.
        let within = error.span().filter(|at| *at != document.span());
        let path = within.map_or_else(Path::new, |at| path_to(document.get_ref(), at.start));
        let is_own = missing(&error).is_some_and(|key| {
            let key: Path = path.iter().cloned().chain([key.to_owned()]).collect();
            taken.contains(&key)
        });
        if !is_own {
            found.push(wrong(error));
        }
        if found.len() >= MOST || !take_out(document.get_mut(), &path) {
            break;
        }
        // Items of a list are read in order: those behind the one that was taken out have its numbers now.
        let list = path.split_last().filter(|(last, _)| last.parse::<usize>().is_ok());
        if let Some((_, list)) = list {
            taken.retain(|path| !path.starts_with(list));
        }
        taken.insert(path);
    }
    found.sort_by_key(|fault| fault.position());
    let faults: Faults = found.into_iter().map(Err).collect();
    faults.into_error()
}

#[cfg(test)]
mod tests {
    use crate::fabric::{FabricError, load, run};

    fn lines(error: &FabricError) -> Vec<Option<usize>> {
        error.faults().iter().map(|fault| fault.position().0).collect()
    }

    #[test]
    fn all_that_a_file_does_not_say_as_it_should_is_told_with_its_line() {
        let text = "name = 7\nuntil = \"1ms\"\nsede = 1\n[topology]\nkind = \"star\"\nhosts = 4\n[link]\nrate = \"100X\"\n\
                    delay = \"1parsec\"\n[host]\npayload = 70000\n[[workload]]\nkind = \"flood\"\n[[workload]]\nbytes = \"1KB\"\n\
                    [[workload]]\nkind = \"incast\"\nto = 3\nspeed = 2\n";
        let error = load("x.toml", text).unwrap_err();
        let want = [1, 3, 8, 9, 11, 13, 14, 18, 19].map(Some);
        assert_eq!(lines(&error), want, "{error}");
        assert!(error.to_string().contains("19 | speed = 2"), "{error}");
        let error = load("x.toml", "name = \"x\nuntil = \n[link]\nrate = = 1\n").unwrap_err();
        assert!(error.faults().len() > 1, "{error}");
        // What is there, but wrong, is not missing.
        let sections = "name = \"x\"\nuntil = \"1ms\"\n[topology]\nkind = \"star\"\nhosts = 4\n[[workload]]\nkind = \"permutation\"\n";
        for (right, wrong, line) in [
            ("\"1ms\"", "\"10parsecs\"", 2),
            ("hosts = 4", "hosts = 4\nhoots = 3", 3),
            ("\"star\"", "\"sta\"", 4),
            ("name = \"x\"", "name = 7", 1),
        ] {
            let error = load("x.toml", &sections.replace(right, wrong)).unwrap_err();
            assert_eq!(lines(&error), [Some(line)], "{error}");
        }
        // One is told as it was.
        let error = load("x.toml", "name = \"x\"\n").unwrap_err();
        assert!(matches!(error, FabricError::Syntax { .. }) && error.faults().len() == 1, "{error}");
    }

    #[test]
    fn faults_of_sections_and_of_workloads_are_told_beside_one_another() {
        let refused = |rest: &str| {
            let text =
                format!("name = \"x\"\nuntil = \"1ms\"\n[topology]\nkind = \"star\"\nhosts = 4\n{rest}");
            load("x.toml", &text).and_then(|spec| run(&spec)).unwrap_err()
        };
        let error = refused(
            "[host]\ncnp_priority = 9\nobey = [8]\n[switch]\ncore = \"islip\"\nspeedup = 9\n[switch.config.buffer]\npolicy = \"none\"\n\
             [[failure]]\na = \"h0\"\nb = \"h1\"\nat = \"1us\"\n[[workload]]\nkind = \"permutation\"\n",
        );
        assert_eq!(lines(&error), [7, 8, 11, 13, 14].map(Some), "{error}");
        let error = refused(
            "[[workload]]\nkind = \"incast\"\n[[workload]]\nkind = \"permutation\"\npriority = 8\n\
             [[workload]]\nkind = \"flow\"\nfrom = \"h0\"\nto = \"h9\"\n",
        );
        assert_eq!(lines(&error), [6, 10, 11].map(Some), "{error}");
    }
}
