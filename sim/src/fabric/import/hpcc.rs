//! Flow and topology files of the HPCC simulator: words in a fixed order, whatever the lines. What comes after as many entries as
//! the first line counts is passed over, as that simulator does: its own examples hold more than they count.

use super::File;
use crate::fabric::FabricError;
use crate::ns3::units::{bit_rate, delay_ns, seconds};
use std::collections::BTreeSet;
use weir_dataplane::types::Nanos;

/// Most nodes of a network.
const MAX_NODES: u64 = 1 << 20;

/// A line of a flow file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::fabric) struct HpccFlow {
    /// Where it is in the file.
    pub line: usize,
    pub src: u64,
    pub dst: u64,
    /// Priority group.
    pub pg: u64,
    /// Destination port.
    pub dst_port: u16,
    /// Payload bytes.
    pub bytes: u64,
    /// On the clock of the file, ns.
    pub start: Nanos,
}

/// A line of a topology file.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::fabric) struct HpccLink {
    pub a: u64,
    pub b: u64,
    /// bit/s.
    pub rate: u64,
    /// One way, ns.
    pub delay: Nanos,
    /// Share of frames lost.
    pub loss: f64,
}

/// A topology file.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::fabric) struct HpccNetwork {
    /// Nodes are numbered from 0.
    pub nodes: u64,
    /// Those that are switches.
    pub switches: BTreeSet<u64>,
    pub links: Vec<HpccLink>,
}

/// What is left of a file.
struct Words<'a> {
    file: File<'a>,
    rest: Box<dyn Iterator<Item = (usize, &'a str)> + 'a>,
    /// Line of the last word.
    line: usize,
}

impl<'a> Words<'a> {
    fn of(file: File<'a>) -> Result<Self, FabricError> {
        let lines = (1..).zip(file.text()?.lines());
        let words = lines.flat_map(|(line, text)| text.split_whitespace().map(move |word| (line, word)));
        Ok(Self { file, rest: Box::new(words), line: 0 })
    }

    fn word(&mut self, what: &str) -> Result<&'a str, FabricError> {
        let Some((line, word)) = self.rest.next() else {
            return Err(self
                .file
                .wrong(self.line, format!("the file ends here, before {what}; is it whole?")));
        };
        self.line = line;
        Ok(word)
    }

    fn number(&mut self, what: &str) -> Result<u64, FabricError> {
        let word = self.word(what)?;
        word.parse().map_err(|_| self.wrong(format!("`{word}` is not {what}, a number")))
    }

    fn read<T>(&mut self, what: &str, read: fn(&str) -> Result<T, String>) -> Result<T, FabricError> {
        let word = self.word(what)?;
        read(word).map_err(|problem| self.wrong(format!("{problem}, and {what} is expected")))
    }

    fn wrong(&self, problem: impl Into<String>) -> FabricError {
        self.file.wrong(self.line, problem)
    }
}

/// `flows`, then `src dst pg port size start` each; the start in seconds.
///
/// # Errors
/// What is no such file, with the line.
pub(in crate::fabric) fn flows(file: File<'_>) -> Result<Vec<HpccFlow>, FabricError> {
    let mut words = Words::of(file)?;
    let count = words.number("the number of flows")?;
    let mut all = Vec::new();
    for _ in 0..count {
        let src = words.number("the sending node of a flow")?;
        let line = words.line;
        let dst = words.number("the receiving node of a flow")?;
        let pg = words.number("the priority group of a flow")?;
        // The simulator keeps 16 bits of it.
        let dst_port = words.number("the destination port of a flow")? as u16;
        let bytes = words.number("the size of a flow in bytes")?;
        let bytes = words.file.message(words.line, bytes)?;
        if bytes == 0 {
            return Err(words.wrong("a flow of 0 bytes; give it some or delete it"));
        }
        let start = words.read("the start of a flow", seconds)?;
        all.push(HpccFlow { line, src, dst, pg, dst_port, bytes, start });
    }
    Ok(all)
}

fn share(text: &str) -> Result<f64, String> {
    let share = text.parse().ok().filter(|share| (0.0..=1.0).contains(share));
    share.ok_or_else(|| format!("`{text}` is not a share of 0 to 1"))
}

/// `nodes switches links`, the numbers of the switches, then `a b rate delay error_rate` of each link.
///
/// # Errors
/// What is no such file, with the line.
pub(in crate::fabric) fn network(file: File<'_>) -> Result<HpccNetwork, FabricError> {
    let mut words = Words::of(file)?;
    let nodes = words.number("the number of nodes")?;
    if nodes > MAX_NODES {
        return Err(words.wrong(format!("{nodes} nodes; at most {MAX_NODES} are possible")));
    }
    let count = words.number("the number of switches")?;
    let links = words.number("the number of links")?;
    let node = |words: &mut Words<'_>, what: &str| match words.number(what)? {
        n if n < nodes => Ok(n),
        n => {
            let last = nodes.saturating_sub(1);
            Err(words.wrong(format!("there is no node {n}: the first line says {nodes}, so 0 to {last}")))
        }
    };
    let mut switches = BTreeSet::new();
    for _ in 0..count {
        let switch = node(&mut words, "the number of a switch")?;
        if !switches.insert(switch) {
            return Err(words.wrong(format!("switch {switch} is named twice")));
        }
    }
    let mut all = Vec::new();
    for _ in 0..links {
        let a = node(&mut words, "one end of a link")?;
        let b = node(&mut words, "the other end of a link")?;
        if a == b {
            return Err(words.wrong(format!("a link from node {a} to itself")));
        }
        let rate = words.read("the rate of a link", bit_rate)?;
        let delay = words.read("the delay of a link", delay_ns)?;
        let loss = words.read("the error rate of a link", share)?;
        all.push(HpccLink { a, b, rate, delay, loss });
    }
    Ok(HpccNetwork { nodes, switches, links: all })
}
