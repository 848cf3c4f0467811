//! Our own files of operations: JSON, one operation a line (JSON Lines).
//!
//! ```text
//! {"rank": 0, "id": 1, "op": "compute", "ns": 5000}
//! {"rank": 0, "id": 2, "op": "send", "to": 1, "bytes": 1000000, "after": [1]}
//! {"rank": 1, "id": 1, "op": "recv", "from": 0}
//! ```

use super::File;
use crate::fabric::FabricError;
use crate::fabric::workload::collectives::Kind;
use crate::fabric::workload::operations::{Does, Listed, Place};
use serde::Deserialize;
use std::borrow::Cow;
use weir_dataplane::types::Nanos;

/// Longest computation, ns: an hour.
pub(super) const MAX_NS: u64 = 3_600_000_000_000;

/// A line.
#[derive(Deserialize)]
struct Line {
    rank: u64,
    id: u64,
    #[serde(default)]
    after: Vec<u64>,
    #[serde(flatten)]
    does: Operation,
}

/// Its kind, which is a word: the reader would take the number of one, too.
#[derive(Deserialize)]
struct Named<'a> {
    #[serde(borrow, rename = "op")]
    _op: Cow<'a, str>,
}

/// Its kind and the keys of that. Unknown keys are errors.
#[derive(Deserialize)]
#[serde(tag = "op", rename_all = "snake_case", deny_unknown_fields)]
enum Operation {
    Send {
        to: u64,
        bytes: u64,
        #[serde(default)]
        tag: u64,
        #[serde(default)]
        stream: u32,
    },
    Recv {
        from: u64,
        bytes: Option<u64>,
        #[serde(default)]
        tag: u64,
    },
    Compute {
        ns: Nanos,
        #[serde(default)]
        stream: u32,
    },
    AllReduce(Sized),
    ReduceScatter(Sized),
    AllGather(Sized),
    AllToAll(Sized),
    Broadcast(Sized),
    Barrier {
        #[serde(default)]
        group: String,
    },
}

/// Keys of a collective.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Sized {
    bytes: u64,
    #[serde(default)]
    group: String,
}

impl From<Operation> for Does {
    fn from(operation: Operation) -> Self {
        let collective = |kind, Sized { bytes, group }| Self::Collective { kind, bytes, each: false, group };
        match operation {
            Operation::Send { to, bytes, tag, stream } => Self::Send { to, bytes, tag, stream },
            Operation::Recv { from, bytes, tag } => Self::Recv { from, bytes, tag },
            Operation::Compute { ns, stream } => Self::Compute { ns, stream },
            Operation::AllReduce(keys) => collective(Kind::AllReduce, keys),
            Operation::ReduceScatter(keys) => collective(Kind::ReduceScatter, keys),
            Operation::AllGather(keys) => collective(Kind::AllGather, keys),
            Operation::AllToAll(keys) => collective(Kind::AllToAll, keys),
            Operation::Broadcast(keys) => collective(Kind::Broadcast, keys),
            Operation::Barrier { group } => collective(Kind::Barrier, Sized { bytes: 0, group }),
        }
    }
}

/// Reads a file.
///
/// # Errors
/// A line that is no operation.
pub(in crate::fabric) fn read(file: File<'_>) -> Result<Vec<Listed>, FabricError> {
    let mut all = Vec::new();
    for (number, text) in (1..).zip(file.text()?.lines()).filter(|(_, text)| !text.trim().is_empty()) {
        let named = |line| serde_json::from_str::<Named<'_>>(text).map(|_| line);
        let line: Line = serde_json::from_str(text).and_then(named).map_err(|error| {
            // The reader counts lines of the text it was given.
            let said = error.to_string();
            let said = said.split(" at line ").next().unwrap_or(&said);
            file.wrong(number, format!("{said}; a line is e.g. {{\"rank\": 0, \"id\": 1, \"op\": \"send\", \"to\": 1, \"bytes\": 1000}}"))
        })?;
        let does = Does::from(line.does);
        match does {
            Does::Compute { ns, .. } if ns > MAX_NS => {
                return Err(file.wrong(number, format!("{ns} ns; at most {MAX_NS}, an hour, are possible")));
            }
            Does::Send { bytes: 0, .. } | Does::Recv { bytes: Some(0), .. } => {
                return Err(file.wrong(number, "a message of 0 bytes; give it some or leave it out"));
            }
            Does::Collective { bytes: 0, kind, .. } if kind != Kind::Barrier => {
                return Err(file.wrong(number, "a collective of 0 bytes; give it some, or make it a barrier"));
            }
            Does::Send { bytes, .. }
            | Does::Collective { bytes, .. }
            | Does::Recv { bytes: Some(bytes), .. } => {
                file.message(number, bytes)?;
            }
            _ => {}
        }
        all.push(Listed {
            place: Place { file: 0, line: number },
            rank: line.rank,
            id: line.id,
            does,
            after: line.after,
        });
    }
    Ok(all)
}
