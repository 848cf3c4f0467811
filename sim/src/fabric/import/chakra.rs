//! Chakra execution traces (`et_def.proto` of mlcommons/chakra): one file per rank, in which each message follows its length,
//! the metadata first and a node each after them. Only what decides about traffic and time is read.

use super::File;
use super::operations::MAX_NS;
use crate::fabric::FabricError;
use crate::fabric::workload::MAX_BYTES;
use crate::fabric::workload::collectives::Kind;
use crate::fabric::workload::operations::{Does, Listed, Place};
use prost::Message;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

/// Nanoseconds of a microsecond.
const NS: u64 = 1000;

/// Attributes that are read, each of which a node may have once.
const READ: [&str; 8] =
    ["comm_type", "comm_size", "comm_tag", "comm_src", "comm_dst", "pg_name", "num_ops", "is_cpu_op"];

/// Streams of computations of a rank: what its accelerator computes, and what its CPU does meanwhile.
const ACCELERATOR: u32 = 0;
const CPU: u32 = 1;

/// `GlobalMetadata`, of which nothing is needed here.
#[derive(Clone, PartialEq, Message)]
struct Metadata {
    #[prost(string, tag = "1")]
    version: String,
}

/// `AttributeProto`: values that are whole numbers, flags or words.
#[derive(Clone, PartialEq, Message)]
struct Attribute {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(oneof = "Value", tags = "7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29")]
    value: Option<Value>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
enum Value {
    #[prost(int32, tag = "7")]
    Int32(i32),
    #[prost(int64, tag = "9")]
    Int64(i64),
    #[prost(uint32, tag = "11")]
    Uint32(u32),
    #[prost(uint64, tag = "13")]
    Uint64(u64),
    #[prost(sint32, tag = "15")]
    Sint32(i32),
    #[prost(sint64, tag = "17")]
    Sint64(i64),
    #[prost(fixed32, tag = "19")]
    Fixed32(u32),
    #[prost(fixed64, tag = "21")]
    Fixed64(u64),
    #[prost(sfixed32, tag = "23")]
    Sfixed32(i32),
    #[prost(sfixed64, tag = "25")]
    Sfixed64(i64),
    #[prost(bool, tag = "27")]
    Bool(bool),
    #[prost(string, tag = "29")]
    Text(String),
}

/// `NodeType`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, prost::Enumeration)]
#[repr(i32)]
enum NodeType {
    Invalid = 0,
    Metadata = 1,
    MemLoad = 2,
    MemStore = 3,
    Comp = 4,
    CommSend = 5,
    CommRecv = 6,
    CommColl = 7,
}

/// `Node`.
#[derive(Clone, PartialEq, Message)]
struct Node {
    #[prost(uint64, tag = "1")]
    id: u64,
    #[prost(string, tag = "2")]
    name: String,
    #[prost(enumeration = "NodeType", tag = "3")]
    kind: i32,
    #[prost(uint64, repeated, tag = "4")]
    ctrl_deps: Vec<u64>,
    #[prost(uint64, repeated, tag = "5")]
    data_deps: Vec<u64>,
    #[prost(uint64, tag = "7")]
    duration_micros: u64,
    #[prost(message, repeated, tag = "10")]
    attr: Vec<Attribute>,
}

/// Collectives of `CollectiveCommType` that are played, by number; the others are refused by their names.
const COLLECTIVES: [(&str, Option<Kind>); 10] = [
    ("ALL_REDUCE", Some(Kind::AllReduce)),
    ("REDUCE", None),
    ("ALL_GATHER", Some(Kind::AllGather)),
    ("GATHER", None),
    ("SCATTER", None),
    ("BROADCAST", Some(Kind::Broadcast)),
    ("ALL_TO_ALL", Some(Kind::AllToAll)),
    ("REDUCE_SCATTER", Some(Kind::ReduceScatter)),
    ("REDUCE_SCATTER_BLOCK", Some(Kind::ReduceScatter)),
    ("BARRIER", Some(Kind::Barrier)),
];

impl Value {
    /// A number of whatever type.
    fn integer(&self) -> Option<i128> {
        match *self {
            Self::Int32(n) | Self::Sint32(n) | Self::Sfixed32(n) => Some(n.into()),
            Self::Int64(n) | Self::Sint64(n) | Self::Sfixed64(n) => Some(n.into()),
            Self::Uint32(n) | Self::Fixed32(n) => Some(n.into()),
            Self::Uint64(n) | Self::Fixed64(n) => Some(n.into()),
            Self::Bool(_) | Self::Text(_) => None,
        }
    }
}

impl Node {
    fn value(&self, name: &str) -> Option<&Value> {
        self.attr.iter().find(|attr| attr.name == name)?.value.as_ref()
    }

    fn has(&self, name: &str) -> bool {
        self.attr.iter().any(|attr| attr.name == name)
    }

    /// An attribute that is a number from 0.
    fn number(&self, name: &str) -> Option<u64> {
        u64::try_from(self.value(name)?.integer()?).ok()
    }

    fn need(&self, name: &str) -> Result<u64, String> {
        self.number(name).ok_or_else(|| format!("has no attribute `{name}` that is a number from 0"))
    }

    /// The same where it may be left out.
    fn optional(&self, name: &str) -> Result<Option<u64>, String> {
        let wrong =
            || format!("has an attribute `{name}` that is no number from 0; correct it or leave it out");
        if self.has(name) { self.number(name).ok_or_else(wrong).map(Some) } else { Ok(None) }
    }

    /// The group of a collective; without a name all ranks.
    fn group(&self) -> Result<String, String> {
        match self.value("pg_name") {
            Some(Value::Text(name)) => Ok(name.clone()),
            None if !self.has("pg_name") => Ok(String::new()),
            value => {
                let number = value.and_then(Value::integer).map(|number| number.to_string());
                number.ok_or_else(|| {
                    "has an attribute `pg_name` that is neither a text nor a number; give it one".into()
                })
            }
        }
    }

    fn bytes(&self) -> Result<u64, String> {
        match self.need("comm_size")? {
            0 => Err("has `comm_size` 0; leave it out or give it bytes".into()),
            bytes if bytes > MAX_BYTES => {
                Err(format!("has `comm_size` {bytes}; at most {MAX_BYTES} bytes are possible"))
            }
            bytes => Ok(bytes),
        }
    }

    /// Whether it is the CPU that does it; where nothing is said of that, it is the accelerator.
    fn is_on_cpu(&self) -> Result<bool, String> {
        match self.value("is_cpu_op") {
            Some(Value::Bool(is)) => Ok(*is),
            None if !self.has("is_cpu_op") => Ok(false),
            value => value.and_then(Value::integer).map(|number| number != 0).ok_or_else(|| {
                "has an attribute `is_cpu_op` that is neither true nor false; make it one of them".into()
            }),
        }
    }

    /// Whether it says nothing of what is communicated. In traces of PyTorch the call of a collective or of a message, which
    /// the CPU makes, is a node beside that of what the accelerator does for it, and of the same type.
    fn is_a_call(&self) -> Result<bool, String> {
        let told = ["comm_type", "comm_size", "comm_src", "comm_dst"];
        Ok(self.is_on_cpu()? && !told.iter().any(|name| self.has(name)))
    }

    fn computation(&self) -> Result<Does, String> {
        let is_none = || self.value("num_ops").and_then(Value::integer) == Some(0);
        if self.duration_micros == 0 && self.has("num_ops") && !is_none() {
            return Err("has `num_ops` and no `duration_micros`; there is no model of a processor here: give it a duration, or leave `num_ops` out".into());
        }
        let ns = self.duration_micros.saturating_mul(NS);
        if ns > MAX_NS {
            let most = MAX_NS / NS;
            return Err(format!(
                "has `duration_micros` {}; at most {most}, an hour, are possible",
                self.duration_micros
            ));
        }
        Ok(Does::Compute { ns, stream: if self.is_on_cpu()? { CPU } else { ACCELERATOR } })
    }

    fn collective(&self) -> Result<Does, String> {
        let number = self.need("comm_type")?;
        let known = usize::try_from(number).ok().and_then(|number| COLLECTIVES.get(number));
        let (name, kind) =
            known.ok_or_else(|| format!("has `comm_type` {number}, which the schema does not know"))?;
        let kind = kind.ok_or_else(|| format!("is a {name}; write it as sends and receives"))?;
        let group = self.group()?;
        // What Chakra's own converters write where a layer communicates nothing.
        if kind != Kind::Barrier && self.optional("comm_size")? == Some(0) {
            return Ok(Does::Nothing);
        }
        let bytes = if kind == Kind::Barrier { 0 } else { self.bytes()? };
        // Of an all-gather the size is what each rank contributes.
        Ok(Does::Collective { kind, bytes, each: kind == Kind::AllGather, group })
    }

    /// # Errors
    /// `name`, which may be left out, says that a message has another end than the `rank` whose trace this is.
    fn is_of(&self, rank: usize, name: &str) -> Result<(), String> {
        match self.optional(name)? {
            Some(other) if other != rank as u64 => Err(format!(
                "has `{name}` {other}, and this is the trace of rank {rank}; call its file by the rank it is of, or correct that"
            )),
            _ => Ok(()),
        }
    }

    /// What it does, in the trace of `rank`.
    fn does(&self, rank: usize) -> Result<Does, String> {
        let is_twice = |name: &&&str| self.attr.iter().filter(|attr| attr.name == **name).count() > 1;
        if let Some(name) = READ.iter().find(is_twice) {
            return Err(format!("has the attribute `{name}` twice; leave one out"));
        }
        match NodeType::try_from(self.kind).unwrap_or(NodeType::Invalid) {
            NodeType::Metadata => Ok(Does::Nothing),
            NodeType::Comp | NodeType::MemLoad | NodeType::MemStore => self.computation(),
            NodeType::CommSend | NodeType::CommRecv | NodeType::CommColl if self.is_a_call()? => {
                self.computation()
            }
            NodeType::CommSend => {
                self.is_of(rank, "comm_src")?;
                let (to, bytes, tag) = (self.need("comm_dst")?, self.bytes()?, self.optional("comm_tag")?);
                Ok(Does::Send { to, bytes, tag: tag.unwrap_or(0), stream: 0 })
            }
            NodeType::CommRecv => {
                self.is_of(rank, "comm_dst")?;
                let (from, bytes, tag) =
                    (self.need("comm_src")?, self.optional("comm_size")?, self.optional("comm_tag")?);
                Ok(Does::Recv { from, bytes, tag: tag.unwrap_or(0) })
            }
            NodeType::CommColl => self.collective(),
            NodeType::Invalid => Err(format!("is of type {}, which is not one of the schema", self.kind)),
        }
    }
}

/// Reads the trace of `rank`.
///
/// # Errors
/// What is no such trace, with the node.
fn trace(file: File<'_>, rank: usize) -> Result<Vec<Listed>, FabricError> {
    let broken = |what: String| {
        let how = "it must be a Chakra trace of this rank, protobuf messages that follow their lengths";
        file.wrong(0, format!("{what}; {how}"))
    };
    let mut rest = file.bytes();
    Metadata::decode_length_delimited(&mut rest)
        .map_err(|e| broken(format!("its metadata cannot be read ({e})")))?;
    let mut all = Vec::new();
    while !rest.is_empty() {
        let node = Node::decode_length_delimited(&mut rest);
        let node =
            node.map_err(|e| broken(format!("behind {} nodes the next cannot be read ({e})", all.len())))?;
        let does = node.does(rank).map_err(|problem| {
            let Node { id, name, .. } = &node;
            file.wrong(0, format!("node {id} (`{name}`) {problem}"))
        })?;
        // What PyTorch has recorded, by threads, names its caller there, which may be anywhere or nowhere in the trace; its order is in
        // `data_deps`, as the converter puts it, and Chakra's own reader goes by these alone.
        let order = if node.has("tid") { &[][..] } else { &node.ctrl_deps };
        let after = node.data_deps.iter().chain(order).copied().collect();
        let place = Place { file: rank, line: 0 };
        all.push(Listed { place, rank: rank as u64, id: node.id, does, after });
    }
    Ok(in_order(all))
}

/// The nodes in an order in which they can begin, those that wait for nothing by their ids: a trace may list them in any, and what is
/// the first of several messages or collectives is decided by this one. Those of a circle come last.
fn in_order(nodes: Vec<Listed>) -> Vec<Listed> {
    let places: BTreeMap<u64, usize> = nodes.iter().enumerate().map(|(at, node)| (node.id, at)).collect();
    let mut waits = vec![0_usize; nodes.len()];
    let mut followers: Vec<Vec<usize>> = vec![Vec::new(); nodes.len()];
    for (at, node) in nodes.iter().enumerate() {
        for before in node.after.iter().filter_map(|id| places.get(id)) {
            followers[*before].push(at);
            waits[at] += 1;
        }
    }
    let key = |at: usize| Reverse((nodes[at].id, at));
    let mut ready: BinaryHeap<Reverse<(u64, usize)>> =
        (0..nodes.len()).filter(|at| waits[*at] == 0).map(key).collect();
    let mut order = Vec::with_capacity(nodes.len());
    while let Some(Reverse((_, at))) = ready.pop() {
        order.push(at);
        for follower in &followers[at] {
            waits[*follower] -= 1;
            if waits[*follower] == 0 {
                ready.push(key(*follower));
            }
        }
    }
    order.extend((0..nodes.len()).filter(|at| waits[*at] > 0));
    let mut nodes: Vec<Option<Listed>> = nodes.into_iter().map(Some).collect();
    order.into_iter().filter_map(|at| nodes[at].take()).collect()
}

/// Reads the traces of ranks 0, 1, ...
///
/// # Errors
/// What is no such trace.
pub(in crate::fabric) fn read(files: &[File<'_>]) -> Result<Vec<Listed>, FabricError> {
    let traces = files.iter().enumerate().map(|(rank, file)| trace(*file, rank));
    Ok(traces.collect::<Result<Vec<_>, _>>()?.concat())
}

#[cfg(test)]
#[path = "chakra_tests.rs"]
mod tests;
