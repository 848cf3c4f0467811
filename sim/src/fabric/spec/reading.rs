//! Reads a fabric file, and tells all it does not say as it should: what was told of is taken out, what is missing is put in, and
//! the rest is read again.

use super::FabricSpec;
use crate::fabric::FabricError;
use crate::fabric::faults::Faults;
use crate::fabric::source::path_to;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use toml::Spanned;
use toml::de::{DeTable, DeValue, Deserializer, Error, ValueDeserializer};
use weir_config::Tables;

/// Faults that are told of at most.
const MOST: usize = 100;
/// What stands for a value that is missing: one of them reads.
const STAND_INS: &str = "a = 1\nb = \"flow\"\nc = []\nd = { direct = {} }";

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

/// As much of `[topology]` as says what the rest of it means.
#[derive(Deserialize)]
#[serde(expecting = "a table with `kind`")]
struct Kind {
    kind: Spanned<String>,
}

/// Keys that had another name once, by their section.
const RENAMED: [(Option<&str>, &str, &str); 3] = [
    (None, "until", "stop_time"),
    (Some("host"), "obey", "pfc_priorities"),
    (Some("host"), "response", "pfc_response_delay"),
];

/// What is to be done to a document before it is read as a fabric.
fn fabric(document: &mut DeTable<'_>) -> Result<(), Error> {
    for (section, old, new) in RENAMED {
        let path: Vec<String> = section.into_iter().map(str::to_owned).collect();
        if let Some(table) = table_at(document, &path) {
            call_by_new_name(table, old, new);
        }
    }
    beneath_kind(document)
}

/// A key has its new name, unless that is there, too: then the old one is unknown.
fn call_by_new_name(table: &mut DeTable<'_>, old: &str, new: &'static str) {
    let is_new = table.iter().any(|(name, _)| name.get_ref() == new);
    let key = table.iter().find(|(name, _)| !is_new && name.get_ref() == old).map(|(name, _)| name.clone());
    if let Some(key) = key
        && let Some(value) = table.remove(&key)
    {
        table.insert(Spanned::new(key.span(), Cow::Borrowed(new)), value);
    }
}

/// Puts what `[topology]` says beneath its kind, as a variant of an enum is read. Read beside it the keys would lose their places.
fn beneath_kind(document: &mut DeTable<'_>) -> Result<(), Error> {
    let topology = document.iter_mut().find(|(name, _)| name.get_ref() == TOPOLOGY);
    let Some((_, topology)) = topology else { return Ok(()) };
    let Kind { kind } = Kind::deserialize(Tables(ValueDeserializer::from(topology.clone())))?;
    let span = topology.span();
    if let DeValue::Table(keys) = topology.get_mut() {
        take_out(keys, &["kind".to_owned()]);
        let keys = Spanned::new(span, DeValue::Table(std::mem::take(keys)));
        let kind = Spanned::new(kind.span(), Cow::Owned(kind.into_inner()));
        *topology.get_mut() = DeValue::Table(DeTable::from_iter([(kind, keys)]));
    }
    Ok(())
}

const TOPOLOGY: &str = "topology";

/// What makes a document ready to be read.
type Prepare = fn(&mut DeTable<'_>) -> Result<(), Error>;

fn value_of<T: DeserializeOwned>(document: Spanned<DeTable<'_>>) -> Result<T, Error> {
    T::deserialize(Tables(Deserializer::from(document)))
}

/// What `text` says.
///
/// # Errors
/// What the reader says of the first fault.
fn parse<T: DeserializeOwned>(text: &str, prepare: Prepare) -> Result<T, Error> {
    let mut document = DeTable::parse(text)?;
    prepare(document.get_mut())?;
    value_of(document)
}

/// What the text of a file that is no fabric says; messages call it `file`.
///
/// # Errors
/// All that it does not say as it should: [`FabricError::Syntax`], or several of them.
pub(crate) fn read_toml<T: DeserializeOwned>(file: &str, text: &str) -> Result<T, FabricError> {
    parse(text, |_| Ok(())).map_err(|_| told::<T>(file, text, |_| Ok(())))
}

/// What the text of a fabric says; messages call it `file`.
///
/// # Errors
/// All that it does not say as it should: [`FabricError::Syntax`], or several of them.
pub(super) fn read(file: &str, text: &str) -> Result<FabricSpec, FabricError> {
    parse(text, fabric).map_err(|_| told::<FabricSpec>(file, text, fabric))
}

/// Keys of the text of a fabric that the reader does not know, with their lines and what it says. Other faults are passed over.
pub(in crate::fabric) fn unknown_keys(text: &str) -> Vec<(Option<usize>, String)> {
    if parse::<FabricSpec>(text, fabric).is_ok() {
        return Vec::new();
    }
    let all = faults::<FabricSpec>(text, fabric).into_iter();
    let unknown = all.filter(|error| error.message().starts_with("unknown field"));
    let line = |error: &Error| error.span().map(|at| position(text, at.start).0);
    unknown.map(|error| (line(&error), error.message().to_owned())).collect()
}

/// The table at the end of `path`.
fn table_at<'a, 'i>(table: &'a mut DeTable<'i>, path: &[String]) -> Option<&'a mut DeTable<'i>> {
    let Some((first, mut rest)) = path.split_first() else { return Some(table) };
    let (_, value) = table.iter_mut().find(|(name, _)| name.get_ref() == first)?;
    let mut value = value.get_mut();
    loop {
        value = match value {
            DeValue::Table(table) => return table_at(table, rest),
            DeValue::Array(items) => {
                let (nth, further) = rest.split_first()?;
                rest = further;
                items.get_mut(nth.parse::<usize>().ok()?)?.get_mut()
            }
            _ => return None,
        }
    }
}

/// What was put in for a key that is missing.
struct StandIn {
    /// The table, and the key it lacks.
    table: Path,
    key: String,
    /// Which of [`STAND_INS`] is next, if this one does not read.
    next: usize,
}

impl StandIn {
    /// Puts in the next one, as if it stood at `place`. `false`: nothing that is known reads.
    fn put_in<'i>(&mut self, document: &mut DeTable<'i>, values: &[DeValue<'i>], place: usize) -> bool {
        let (value, table) = (values.get(self.next), table_at(document, &self.table));
        let (Some(value), Some(table)) = (value, table) else { return false };
        self.next += 1;
        let name = Spanned::new(place..place + 1, Cow::Owned(self.key.clone()));
        table.insert(name, Spanned::new(place..place + 1, value.clone()));
        true
    }
}

/// All faults of a text that has some, in words.
fn told<T: DeserializeOwned>(file: &str, text: &str, prepare: Prepare) -> FabricError {
    let mut all = faults::<T>(text, prepare);
    all.sort_by_key(|error| error.span().map(|at| at.start));
    let told = all.into_iter().map(|mut error| {
        error.set_input(Some(text));
        Err(FabricError::Syntax {
            file: file.into(),
            at: error.span().map(|span| position(text, span.start)),
            message: error.to_string().trim_end().into(),
        })
    });
    told.collect::<Faults>().into_error()
}

/// All faults of a text that has some.
fn faults<T: DeserializeOwned>(text: &str, prepare: Prepare) -> Vec<Error> {
    let (mut document, errors) = DeTable::parse_recoverable(text);
    if !errors.is_empty() {
        return errors;
    }
    let values = DeTable::parse(STAND_INS).map(Spanned::into_inner).unwrap_or_default();
    let values: Vec<DeValue<'_>> = values.into_iter().map(|(_, value)| value.into_inner()).collect();
    let mut found: Vec<Error> = Vec::new();
    let mut taken: BTreeSet<Path> = BTreeSet::new();
    // By their places, behind the text.
    let mut put_in: BTreeMap<usize, StandIn> = BTreeMap::new();
    if let Err(error) = prepare(document.get_mut()) {
        found.push(error);
        taken.insert(vec![TOPOLOGY.to_owned()]);
        take_out(document.get_mut(), &[TOPOLOGY.to_owned()]);
    }
    while let Err(error) = value_of::<T>(document.clone())
        && found.len() < MOST
    {
        let at = error.span().map_or(0, |at| at.start);
        if let Some(stand_in) = put_in.get_mut(&at) {
            if !stand_in.put_in(document.get_mut(), &values, at) {
                break;
            }
            continue;
        }
        // What the file itself lacks has the place of all of it.
        let within = error.span().filter(|at| *at != document.span());
        let mut path = within.map_or_else(Path::new, |at| path_to(document.get_ref(), at.start));
        if let Some(key) = missing(&error).map(str::to_owned) {
            let lacks: Path = path.iter().chain([&key]).cloned().collect();
            // What was taken out is told of already.
            if !taken.contains(&lacks) {
                found.push(error);
            }
            let (mut stand_in, place) = (StandIn { table: path, key, next: 0 }, text.len() + put_in.len());
            if !stand_in.put_in(document.get_mut(), &values, place) {
                break;
            }
            put_in.insert(place, stand_in);
            continue;
        }
        found.push(error);
        // A kind that there is not, with all that is beneath it.
        if path.len() == 2 && path[0] == TOPOLOGY {
            path.truncate(1);
        }
        if !take_out(document.get_mut(), &path) {
            break;
        }
        // Items of a list are read in order: those behind the one that was taken out have its numbers now.
        let list = path.split_last().filter(|(last, _)| last.parse::<usize>().is_ok());
        if let Some((_, list)) = list {
            taken.retain(|path| !path.starts_with(list));
            put_in.values_mut().filter(|it| it.table.starts_with(list)).for_each(|it| it.next = values.len());
        }
        taken.insert(path);
    }
    found
}

#[cfg(test)]
mod tests {
    use crate::fabric::{FabricError, load, run};

    fn lines(error: &FabricError) -> Vec<Option<usize>> {
        error.faults().iter().map(|fault| fault.position().0).collect()
    }

    #[test]
    fn all_that_a_file_does_not_say_as_it_should_is_told_with_its_line() {
        let text = "name = 7\nstop_time = \"1ms\"\nsede = 1\n[topology]\nkind = \"star\"\nhosts = 4\n[link]\nrate = \"100X\"\n\
                    delay = \"1parsec\"\n[host]\npayload = 70000\n[[workload]]\nkind = \"flood\"\n[[workload]]\nbytes = \"1KB\"\n\
                    [[workload]]\nkind = \"incast\"\nto = 3\nspeed = 2\n";
        let error = load("x.toml", text).unwrap_err();
        let want = [1, 3, 8, 9, 11, 13, 14, 18, 19].map(Some);
        assert_eq!(lines(&error), want, "{error}");
        assert!(error.to_string().contains("19 | speed = 2"), "{error}");
        let error = load("x.toml", "name = \"x\nuntil = \n[link]\nrate = = 1\n").unwrap_err();
        assert!(error.faults().len() > 1, "{error}");
        // What is there, but wrong, is not missing.
        let sections = "name = \"x\"\nstop_time = \"1ms\"\n[topology]\nkind = \"star\"\nhosts = 4\n[[workload]]\nkind = \"permutation\"\n";
        for (right, wrong, line) in [
            ("\"1ms\"", "\"10parsecs\"", 2),
            ("hosts = 4", "hosts = 4\nhoots = 3", 6),
            ("\"star\"", "\"sta\"", 4),
            ("name = \"x\"", "name = 7", 1),
        ] {
            let error = load("x.toml", &sections.replace(right, wrong)).unwrap_err();
            assert_eq!(lines(&error), [Some(line)], "{error}");
        }
        // One is told as it was.
        let error = load("x.toml", &sections.replace("stop_time = \"1ms\"", "")).unwrap_err();
        assert!(matches!(error, FabricError::Syntax { .. }) && error.faults().len() == 1, "{error}");
    }

    /// A list is no section, whatever stands in it.
    #[test]
    fn sections_that_are_lists_are_refused() {
        let read = |link: &str, host: &str, workload: &str| {
            let text = format!(
                "name = \"x\"\nstop_time = \"1ms\"\nlink = {link}\nhost = {host}\nworkload = {workload}\n[topology]\nkind = \"star\"\n\
                 hosts = 3\n[switch.config.buffer]\nsize = \"9MiB\"\n"
            );
            load("x.toml", &text)
        };
        let (link, host, workload) =
            ("{ rate = \"1G\", delay = 5 }", "{ rclink = {} }", "[{ kind = \"permutation\", bytes = 10 }]");
        assert!(read(link, host, workload).is_ok_and(|spec| spec.link.rate.0 == 1_000_000_000));
        for (text, line) in [
            (read("[\"1G\", \"5us\"]", host, workload), 3),
            (read("[]", host, workload), 3),
            (read(link, "[]", workload), 4),
            (read(link, "{ rclink = [] }", workload), 4),
            (read(link, host, "[[\"permutation\"]]"), 5),
        ] {
            let error = text.unwrap_err();
            let said = error.to_string();
            assert!(
                lines(&error) == [Some(line)] && said.contains("sequence, expected a table with keys"),
                "{said}"
            );
        }
        let error = load("x.toml", "name = \"x\"\nstop_time = 1\ntopology = [\"star\", 3]\nworkload = []\n")
            .unwrap_err();
        assert!(error.to_string().contains("expected a table with keys"), "{error}");
    }

    /// Files from before three keys had the names of the field are read as they were.
    #[test]
    fn keys_that_were_renamed_are_still_read() {
        let [old, new] = [["until", "obey", "response"], ["stop_time", "pfc_priorities", "pfc_response_delay"]].map(|keys| {
            let [stop, priorities, delay] = keys;
            let text = format!(
                "name = \"x\"\n{stop} = \"1ms\"\n[topology]\nkind = \"star\"\nhosts = 3\n[link]\nrate = \"100G\"\n\
                 [host]\n{priorities} = [3]\n{delay} = \"5us\"\n[[workload]]\nkind = \"permutation\"\nbytes = 1000\n"
            );
            load("x.toml", &text).unwrap()
        });
        assert_eq!(format!("{old:?}"), format!("{new:?}"));
        assert_eq!((old.stop_time.0, old.host.pfc_response_delay.0), (1_000_000, 5_000));
        assert_eq!(old.host.pfc_priorities.as_deref(), Some(&[3][..]));
        let both = "name = \"x\"\nstop_time = \"1ms\"\nuntil = \"1ms\"\n";
        assert!(load("x.toml", both).unwrap_err().to_string().contains("unknown field `until`"));
    }

    /// Of a topology each key, and what is within it, has its place; what is missing is told once, and the rest beside it.
    #[test]
    fn keys_of_a_topology_have_their_places_and_all_that_is_missing_is_told() {
        let faults = |topology: &str| {
            let text = format!(
                "name = \"x\"\nstop_time = \"1ms\"\n[[workload]]\nkind = \"permutation\"\n[topology]\n{topology}"
            );
            let error = load("x.toml", &text).unwrap_err();
            let at = |fault: &FabricError| fault.position();
            error.faults().iter().map(|fault| (at(fault), fault.what())).collect::<Vec<_>>()
        };
        for (topology, want) in [
            ("kind = \"star\"\nhosts = \"four\"\n", vec![(7, 9, "expected usize")]),
            ("hosts = 4\nkind = \"sta\"\n", vec![(7, 8, "unknown variant `sta`")]),
            ("hosts = 4\n", vec![(5, 1, "missing field `kind`")]),
            ("kind = 3\n", vec![(6, 8, "expected a string")]),
            ("kind = \"direct\"\nhosts = 2\n", vec![(7, 1, "unknown field `hosts`")]),
            (
                "kind = \"leaf_spine\"\nspines = -1\nhosts_per_leaf = 3\nspikes = 2\n",
                vec![
                    (5, 1, "missing field `leaves`"),
                    (7, 10, "invalid value"),
                    (9, 1, "unknown field `spikes`"),
                ],
            ),
            (
                "kind = \"custom\"\nhosts = [\"a\", 3]\n[[topology.links]]\na = \"a\"\nrate = \"1parsec\"\n\
                 [[topology.links]]\nb = 7\nc = 1\n",
                vec![
                    (5, 1, "missing field `switches`"),
                    (7, 15, "invalid type"),
                    (8, 1, "missing field `b`"),
                    (10, 8, "`1parsec` is not a rate"),
                    (11, 1, "missing field `a`"),
                    (12, 5, "invalid type"),
                    (13, 1, "unknown field `c`"),
                ],
            ),
        ] {
            let found = faults(topology);
            let places = |line, column| (Some(line), Some(column));
            let same = |((at, what), (line, column, words)): (&(_, String), &(usize, usize, &str))| {
                *at == places(*line, *column) && what.contains(words)
            };
            assert!(found.len() == want.len() && found.iter().zip(&want).all(same), "{topology}: {found:#?}");
        }
        let error = load("x.toml", "[[workload]]\nbytes = 3\n[[failure]]\na = \"x\"\n").unwrap_err();
        let missing = ["name", "stop_time", "topology", "kind", "b", "at"];
        let told = |key: &&str| error.to_string().matches(&format!("missing field `{key}`")).count() == 1;
        assert!(error.faults().len() == missing.len() && missing.iter().all(told), "{error}");
    }

    #[test]
    fn faults_of_a_custom_topology_and_of_a_workload_are_all_told() {
        let text = "name = \"x\"\nstop_time = \"1ms\"\n[topology]\nkind = \"custom\"\nhosts = [\"a\", \"b\",\n \"a\"]\nswitches = [\"s\"]\n\
                    macs = { z = \"02:00:00:00:00:00\" }\n[[topology.links]]\na = \"a\"\nb = \"s\"\nrate = 0\nweight = 100\n\
                    [[topology.links]]\na = \"p\"\nb = \"q\"\n[link]\nloss = 2.0\n[[workload]]\nkind = \"permutation\"\n";
        let refused = |text: &str| load("x.toml", text).and_then(|spec| run(&spec)).unwrap_err();
        let error = refused(text);
        assert_eq!(lines(&error), [6, 8, 13, 14, 14, 18].map(Some), "{error}");
        // What depends on who is connected with whom comes once that is known.
        let text = text
            .replace(",\n \"a\"]", "]")
            .replace("macs", "#")
            .replace("\"p\"", "\"b\"")
            .replace("\"q\"", "\"s\"");
        let error = refused(&text.replace("weight = 100\n", "").replace("2.0", "0.5"));
        assert!(
            lines(&error) == [Some(11)] && error.to_string().contains("give `topology.links.0.rate` a rate"),
            "{error}"
        );
        let workload = |keys: &str| {
            refused(&format!(
                "name = \"x\"\nstop_time = \"1ms\"\n[topology]\nkind = \"star\"\nhosts = 4\n[[workload]]\n{keys}"
            ))
        };
        let error = workload("kind = \"poisson\"\nbytes = 0\nshift = 2\nfile = \"x\"\npriority = 9\n");
        assert_eq!(lines(&error), [10].map(Some), "the file is read first: {error}");
        let error = workload("kind = \"poisson\"\nbytes = 0\nshift = 2\nstagger = 0\npriority = 9\n");
        assert_eq!(lines(&error), [8, 9, 10, 11].map(Some), "{error}");
        let all = "[[failure]]\na = \"h0\"\nb = \"h1\"\nat = 1\n[[failure]]\na = \"h0\"\nb = \"s0\"\nat = 2\nrepair = 1\n";
        let error = workload(&format!("kind = \"permutation\"\n{all}"));
        assert_eq!(lines(&error), [8, 16].map(Some), "{error}");
        let all = "[[order]]\nat = 1\n[[order]]\nat = \"2ms\"\nshow = true\n[host]\ncongestion_control = \"dcqcn\"\n";
        let error = workload(&format!("kind = \"permutation\"\n{all}"));
        assert_eq!(lines(&error), [9, 11].map(Some), "{error}");
        // What is wrong in a section that says nothing is not told, too.
        let error = workload("kind = \"permutation\"\n[host.hpcc]\nlog_base = 3.0\ntarget = 4.0\n");
        assert_eq!(lines(&error), [8].map(Some), "{error}");
        let error = workload("kind = \"poisson\"\n");
        assert!(
            ["load", "duration", "sizes"]
                .iter()
                .all(|key| error.to_string().contains(&format!("needs `{key}`"))),
            "{error}"
        );
        let error = workload("kind = \"poisson\"\nbytes = 1000\nload = 0.001\nduration = 1\n");
        assert!(
            error.to_string().contains("no message comes within `duration`") && lines(&error) == [Some(10)],
            "{error}"
        );
    }

    #[test]
    fn faults_of_sections_and_of_workloads_are_told_beside_one_another() {
        let refused = |rest: &str| {
            let text =
                format!("name = \"x\"\nstop_time = \"1ms\"\n[topology]\nkind = \"star\"\nhosts = 4\n{rest}");
            load("x.toml", &text).and_then(|spec| run(&spec)).unwrap_err()
        };
        let error = refused(
            "[host]\ncnp_priority = 9\npfc_priorities = [8]\n[switch]\ncore = \"islip\"\nspeedup = 9\n[switch.config.buffer]\npolicy = \"none\"\n\
             [[failure]]\na = \"h0\"\nb = \"h1\"\nat = \"1us\"\n[[workload]]\nkind = \"permutation\"\n",
        );
        assert_eq!(lines(&error), [7, 8, 11, 13, 14].map(Some), "{error}");
        let error = refused(
            "[[workload]]\nkind = \"incast\"\n[[workload]]\nkind = \"permutation\"\npriority = 8\n\
             [[workload]]\nkind = \"flow\"\nfrom = \"h0\"\nto = \"h9\"\n",
        );
        assert_eq!(lines(&error), [6, 10, 14].map(Some), "{error}");
    }
}
