//! `pg_profile_lookup.ini`: the headroom SONiC gives a lossless group, by speed and cable.

use super::db::{At, Db};
use crate::diag::Span;

/// One line of the table. Bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PgLookup {
    pub at: At,
    /// Mbit/s.
    pub speed: u64,
    /// Metres.
    pub cable: u64,
    pub size: u64,
    pub xon: u64,
    pub xoff: u64,
    pub dynamic_th: i64,
    pub xon_offset: Option<u64>,
}

/// Most bytes a number here may mean.
const MOST: u64 = 1 << 40;

/// Lines of `speed cable size xon xoff threshold [xon_offset]`; `#` begins a comment.
pub(super) fn read(db: &mut Db<'_>, source: usize, text: &str) -> Vec<PgLookup> {
    let mut lines = Vec::new();
    let mut start = 0;
    for line in text.split_inclusive('\n') {
        let at = At { source, span: Span { start, end: start + line.trim_end().len() } };
        start += line.len();
        let words: Vec<&str> = line.split('#').next().unwrap_or_default().split_whitespace().collect();
        if words.is_empty() {
            continue;
        }
        match parse(&words, at) {
            Some(line) => lines.push(line),
            None => db.error(
                at,
                "sonic.lookup",
                "no line of pg_profile_lookup.ini".into(),
                "write speed in Mbit/s, cable as 5m, then size, xon, xoff, threshold (-8 to 7) and, if there is one, \
                 xon_offset, in bytes",
            ),
        }
    }
    lines
}

fn parse(words: &[&str], at: At) -> Option<PgLookup> {
    let bytes = |i: usize| words.get(i)?.parse().ok().filter(|n| *n <= MOST);
    let dynamic_th = words.get(5)?.parse().ok().filter(|n| (-8..=7).contains(n))?;
    let xon_offset = match words.len() {
        6 => None,
        7 => Some(bytes(6)?),
        _ => return None,
    };
    Some(PgLookup {
        at,
        speed: bytes(0)?,
        cable: words[1].strip_suffix('m')?.parse().ok()?,
        size: bytes(2)?,
        xon: bytes(3)?,
        xoff: bytes(4).filter(|xoff| *xoff > 0)?,
        dynamic_th,
        xon_offset,
    })
}
