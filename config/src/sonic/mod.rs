//! SONiC's configuration: `config_db.json` in, TOML of weir out, and back.
//!
//! [`import()`] reads tables (`db.rs`), says of every row what became of it ([`Note`]), and writes a text that
//! [`crate::load`] accepts. [`export()`] writes the tables a checked configuration comes to. What one side cannot say is
//! reported, never left out silently: a field nobody has asked for is reported as ignored, whatever it is.
//!
//! The tables and their fields are those of SONiC's configuration database (sonic-buildimage, `src/sonic-yang-models`);
//! the meaning of thresholds is that of SAI (`saibuffer.h`): reference `qos-scenarios` 2.1 and 2.2.

mod db;
mod export;
mod import;
mod left_out;
mod lookup;
mod toml_text;

pub use export::{Export, export};
pub use import::{Import, Options, import};

use std::collections::HashMap;
use std::fmt::Write;
use weir_dataplane::storm_control::FloodKind;
use weir_layout::Grid;

/// Bytes of an Ethernet header and a VLAN tag: SONiC's mtu is that of Linux, weir's counts the frame without FCS.
const HEADERS: u64 = 18;

/// The class maps: SONiC's table, the field of `PORT_QOS_MAP` that chooses one, weir's key, how many inputs it has, and
/// what an input that is not listed leads to: class, queue and group 0 as in SAI, or the number itself.
const MAPS: [(&str, &str, &str, usize, Rest); 6] = [
    ("DSCP_TO_TC_MAP", "dscp_to_tc_map", "dscp_to_tc", 64, Rest::Zero),
    ("DOT1P_TO_TC_MAP", "dot1p_to_tc_map", "pcp_to_tc", 8, Rest::Zero),
    ("TC_TO_QUEUE_MAP", "tc_to_queue_map", "tc_to_queue", 8, Rest::Zero),
    ("TC_TO_PRIORITY_GROUP_MAP", "tc_to_pg_map", "tc_to_pg", 8, Rest::Zero),
    ("MAP_PFC_PRIORITY_TO_QUEUE", "pfc_to_queue_map", "pfc_to_queue", 8, Rest::Same),
    ("PFC_PRIORITY_TO_PRIORITY_GROUP_MAP", "pfc_to_pg_map", "pfc_to_pg", 8, Rest::Same),
];

/// What `PORT_STORM_CONTROL` calls the kinds of flooded frames.
const STORM_TYPES: [(&str, FloodKind); 3] = [
    ("broadcast", FloodKind::Broadcast),
    ("unknown-unicast", FloodKind::UnknownUnicast),
    ("unknown-multicast", FloodKind::Multicast),
];

/// The pools SONiC knows by these names.
const INGRESS: &str = "ingress_lossless_pool";
const EGRESS_LOSSLESS: &str = "egress_lossless_pool";
const EGRESS_LOSSY: &str = "egress_lossy_pool";
/// The row of `CABLE_LENGTH`.
const CABLES: &str = "AZURE";
/// The profile of a group that no row binds: it guarantees nothing.
const UNBOUND: &str = "unbound";
/// The profile of a lossless group whose headroom nothing says.
const AUTO: &str = "pg_lossless_auto";

/// What the presets call the profile of lossless groups.
const PRESET: &str = "lossless";

/// What the map of a kind is called here that SONiC calls `name` in the table of that kind.
fn map_name(key: &str, name: &str) -> String {
    format!("{key}-{name}")
}

/// Where an input leads that a map does not list.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Rest {
    Zero,
    Same,
}

/// What became of a row or a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Outcome {
    /// It means the same on the other side.
    Mapped,
    /// It means nearly the same; the note says what is different.
    Approximated,
    /// The other side cannot say it; the note says why.
    Ignored,
}

impl Outcome {
    /// The word in reports.
    pub fn word(self) -> &'static str {
        match self {
            Self::Mapped => "mapped",
            Self::Approximated => "approximated",
            Self::Ignored => "ignored",
        }
    }
}

/// One line of a report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// What became of it.
    pub outcome: Outcome,
    /// SONiC's table; of an export the key of weir that is meant.
    pub table: String,
    /// Key of the row: `Ethernet0`, `Ethernet0|3-4`.
    pub key: String,
    /// Fields of the row it is about, separated by commas; empty: all of it.
    pub fields: String,
    /// What it is on the other side, or why it is not.
    pub why: String,
}

/// A line about the whole of a row, or of a key of weir.
fn note(outcome: Outcome, table: &str, key: &str, why: impl Into<String>) -> Note {
    Note { outcome, table: table.into(), key: key.into(), fields: String::new(), why: why.into() }
}

/// A report for people: ignored first, rows of which the same is to be said on one line.
pub fn report(notes: &[Note]) -> String {
    let mut groups: Vec<(&Note, Vec<&str>)> = Vec::new();
    let mut known = HashMap::new();
    for note in notes {
        let same = (note.outcome, &note.table, &note.fields, &note.why);
        let group = *known.entry(same).or_insert(groups.len());
        match groups.get_mut(group) {
            Some((_, keys)) => keys.push(&note.key),
            None => groups.push((note, vec![&note.key])),
        }
    }
    groups.sort_by_key(|(note, _)| std::cmp::Reverse(note.outcome));
    let mut grid = Grid::new(&["<outcome", "<what"]);
    for (note, keys) in groups {
        let fields = if note.fields.is_empty() { String::new() } else { format!(" {}", note.fields) };
        let keys = keys.join(" ");
        let keys = if keys.is_empty() { keys } else { format!("|{keys}") };
        grid.push([note.outcome.word().to_owned(), format!("{}{keys}{fields}: {}", note.table, note.why)]);
    }
    let mut text = grid.body();
    let count = |outcome| notes.iter().filter(|note| note.outcome == outcome).count();
    let _ = writeln!(
        text,
        "{} mapped, {} approximated, {} ignored",
        count(Outcome::Mapped),
        count(Outcome::Approximated),
        count(Outcome::Ignored)
    );
    text
}
