//! Connection matrices of htsim, as its `ConnectionMatrix::load` reads them. Sizes are in bytes, starts in picoseconds, or in microseconds.
//!
//! ```text
//! Nodes 4
//! Connections 2
//! Triggers 1
//! 0->1 id 1 start 0 size 2000000 send_done_trigger 1
//! 1->2 id 2 trigger 1 size 2000000
//! trigger id 1 oneshot
//! ```

use super::File;
use crate::fabric::FabricError;
use crate::fabric::spec::StartUnit;
use std::collections::{BTreeMap, BTreeSet};
use weir_dataplane::types::Nanos;

/// Picoseconds of a nanosecond.
const PS: u64 = 1000;

/// When a connection begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::fabric) enum Begin {
    /// On the clock of the file, ns, rounded up.
    At(Nanos),
    /// When this trigger fires.
    Trigger(u64),
}

/// A connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::fabric) struct Connection {
    /// Where it is in the file.
    pub line: usize,
    pub src: u64,
    pub dst: u64,
    pub begin: Begin,
    /// Payload bytes; `None`: without an end.
    pub bytes: Option<u64>,
    /// Activated when the sender knows that all has arrived,
    pub send_done: Option<u64>,
    /// and when all has arrived.
    pub recv_done: Option<u64>,
}

/// What activations of a trigger do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::fabric) enum Fires {
    /// The only one starts all connections of the trigger.
    OneShot,
    /// The nth one starts the nth connection of the trigger.
    MultiShot,
    /// The last of so many starts all.
    Barrier(u64),
}

/// A matrix.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::fabric) struct Matrix {
    /// Hosts, and the line that says so.
    pub nodes: (u64, usize),
    pub connections: Vec<Connection>,
    /// Triggers by number, with their lines.
    pub triggers: BTreeMap<u64, (Fires, usize)>,
}

/// The words of a line.
struct Line<'a> {
    file: File<'a>,
    number: usize,
    unit: StartUnit,
    words: std::str::SplitWhitespace<'a>,
}

impl Line<'_> {
    fn wrong(&self, problem: impl Into<String>) -> FabricError {
        self.file.wrong(self.number, problem)
    }

    fn number(&mut self, what: &str) -> Result<u64, FabricError> {
        let word = self.words.next().ok_or_else(|| self.wrong(format!("no number behind `{what}`")))?;
        word.parse().map_err(|_| self.wrong(format!("`{word}` behind `{what}` is not a number")))
    }

    fn id(&mut self, what: &str) -> Result<u64, FabricError> {
        match self.number(what)? {
            0 => Err(self.wrong(format!("`{what} 0`: 0 stands for none; number from 1"))),
            id => Ok(id),
        }
    }

    /// A time, which may be written with a point or an exponent, as ns.
    fn start(&mut self) -> Result<Nanos, FabricError> {
        let word = self.words.next().ok_or_else(|| self.wrong("no time behind `start`"))?;
        let ps = match word.parse::<u64>() {
            Ok(whole) => whole.checked_mul(self.unit.ps()),
            Err(_) => {
                let ps = word.parse::<f64>().ok().map(|time| (time * self.unit.ps() as f64).ceil());
                ps.filter(|ps| (0.0..1e18).contains(ps)).map(|ps| ps as u64)
            }
        };
        let ps = ps.ok_or_else(|| {
            self.wrong(format!("`{word}` behind `start` is no time in {}", self.unit.name()))
        })?;
        Ok(ps.div_ceil(PS))
    }

    fn connection(&mut self, ends: &str, ids: &mut BTreeSet<u64>) -> Result<Connection, FabricError> {
        let read = ends.split_once("->").and_then(|(src, dst)| Some((src.parse().ok()?, dst.parse().ok()?)));
        let (src, dst) =
            read.ok_or_else(|| self.wrong(format!("`{ends}` is no pair of hosts such as 0->13")))?;
        let (mut bytes, mut begin, mut send_done, mut recv_done, mut named) = (None, None, None, None, false);
        while let Some(key) = self.words.next() {
            match key {
                "id" => {
                    let id = self.id(key)?;
                    if !ids.insert(id) {
                        return Err(self.wrong(format!("id {id} is taken; give each connection its own")));
                    }
                    named = true;
                }
                "size" => bytes = Some(self.number(key)?),
                "start" | "trigger" => {
                    let this = match key {
                        "start" => Begin::At(self.start()?),
                        _ => Begin::Trigger(self.id(key)?),
                    };
                    if begin.replace(this).is_some() {
                        return Err(self.wrong("begins twice; keep one `start` or `trigger`"));
                    }
                }
                "send_done_trigger" => send_done = Some(self.id(key)?),
                "recv_done_trigger" => recv_done = Some(self.id(key)?),
                "prio" | "addon" => {
                    let problem =
                        format!("`{key}` is about transports of htsim and has no meaning here; delete it");
                    return Err(self.wrong(problem));
                }
                _ => return Err(self.wrong(format!("`{key}` is no word of a connection"))),
            }
        }
        let begin =
            begin.ok_or_else(|| self.wrong("never begins; add `start 0`, or `trigger` and a number"))?;
        let bytes = bytes.ok_or_else(|| self.wrong("has no `size`; add one in bytes (0: without an end)"))?;
        let bytes = self.file.message(self.number, bytes)?;
        if let (Begin::Trigger(_), false) = (begin, named) {
            return Err(self.wrong("is triggered and has no `id`; add one"));
        }
        let bytes = Some(bytes).filter(|bytes| *bytes > 0);
        if bytes.is_none() && send_done.or(recv_done).is_some() {
            return Err(self.wrong("never ends (`size 0`), so its trigger never fires; give it a size"));
        }
        Ok(Connection { line: self.number, src, dst, begin, bytes, send_done, recv_done })
    }

    fn trigger(&mut self) -> Result<(u64, Fires), FabricError> {
        let (mut id, mut count, mut kind) = (None, None, None);
        while let Some(key) = self.words.next() {
            match key {
                "id" => id = Some(self.id(key)?),
                "count" => count = Some(self.id(key)?),
                "oneshot" | "multishot" | "barrier" if kind.is_none() => kind = Some(key),
                _ => return Err(self.wrong(format!("`{key}` is no word of a trigger, or a second kind"))),
            }
        }
        let id = id.ok_or_else(|| self.wrong("a trigger without `id`; add one"))?;
        let fires = match (kind, count) {
            (Some("oneshot"), None) => Fires::OneShot,
            (Some("multishot"), None) => Fires::MultiShot,
            (Some("barrier"), Some(count)) => Fires::Barrier(count),
            (Some("barrier"), None) => return Err(self.wrong("a barrier without `count`; add one")),
            (Some(_), Some(_)) => return Err(self.wrong("`count` is of barriers; delete it")),
            _ => return Err(self.wrong("a trigger of no kind; add oneshot, multishot or barrier")),
        };
        Ok((id, fires))
    }
}

/// Reads a matrix.
///
/// # Errors
/// What htsim would not read, or read and not mean, with the line.
pub(in crate::fabric) fn matrix(file: File<'_>, unit: StartUnit) -> Result<Matrix, FabricError> {
    let mut matrix = Matrix::default();
    let mut ids = BTreeSet::new();
    // What the header announces, and the lines that do.
    let (mut announced, mut last) = (BTreeMap::new(), 0);
    for (number, text) in (1..).zip(file.text()?.lines()) {
        last = number;
        let mut line = Line { file, number, unit, words: text.split_whitespace() };
        match line.words.next() {
            None => {}
            Some(comment) if comment.starts_with('#') => {}
            Some(key @ ("Nodes" | "Connections" | "Triggers" | "Failures")) => {
                announced.insert(key, (line.number(key)?, number));
            }
            Some("trigger") => {
                let (id, fires) = line.trigger()?;
                if let Some((_, before)) = matrix.triggers.insert(id, (fires, number)) {
                    return Err(line.wrong(format!("trigger {id} is in line {before} already")));
                }
            }
            Some("failure") => {
                let what = "counts links of htsim's own fat tree; delete it and write [[failure]] into the fabric file";
                return Err(line.wrong(format!("`failure` {what}")));
            }
            Some(ends) if ends.contains("->") => {
                matrix.connections.push(line.connection(ends, &mut ids)?);
            }
            Some(other) => {
                let known = "Nodes, Connections, Triggers, a connection such as 0->13, or trigger";
                return Err(line.wrong(format!("`{other}` begins no line of a matrix: {known}")));
            }
        }
    }
    matrix.nodes = *announced.get("Nodes").ok_or_else(|| {
        file.wrong(last, "says nowhere how many hosts there are; begin with `Nodes` and a number")
    })?;
    let (connections, triggers) = (matrix.connections.len() as u64, matrix.triggers.len() as u64);
    for (key, found) in [("Connections", connections), ("Triggers", triggers), ("Failures", 0)] {
        let (count, line) = announced.get(key).copied().unwrap_or((0, 0));
        if count != found {
            return Err(
                file.wrong(line, format!("`{key} {count}`, but there are {found}; correct the number"))
            );
        }
    }
    Ok(matrix)
}
