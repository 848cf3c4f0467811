//! A job as it is written down: JSON in, [`JobParams`] out. What is left out has the value of [`JobParams::new`].
//!
//! The engine's own addresses are not in it: they belong to the engine ([`Address`]). In the OpenAPI document, where names are for all of
//! weir, those of these types begin with `Job`.

use crate::immediate::Primitive;
use crate::kernels::{ByteOrder, DataType, Fold, Operator};
use crate::params::{Child, JobParams, Parent, Straggler};
use crate::remote::{Memory, Remote, Writes};
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};
use std::net::{IpAddr, Ipv4Addr};
use thiserror::Error;
use weir_dataplane::types::{Mac, Nanos};
use weir_endpoint::rc::psn::Psn;
use weir_endpoint::roce::qp::{Path, TrafficClass};
use weir_endpoint::roce::wire::Qpn;

/// Where an engine is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address {
    /// Its address on the link.
    pub mac: Mac,
    /// Its IP address.
    pub ip: IpAddr,
    /// 802.1Q VLAN of its frames; `None`: untagged.
    pub vlan: Option<u16>,
}

/// A job at one engine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Job")]
#[serde(deny_unknown_fields)]
pub struct JobSpec {
    /// Name among the jobs of an engine.
    pub id: u32,
    /// The engine: a port of the switch. May be left out where there is one engine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<String>,
    /// Ranks of the whole job.
    pub ranks: u16,
    /// What messages are, until one names another operation.
    pub operation: Operation,
    /// Those below, in the order of their ranks.
    pub children: Vec<ChildSpec>,
    /// The engine above; none at the root.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<PeerSpec>,
    /// Payload of a full packet in bytes: 256, 512, 1024, 2048 or 4096.
    #[serde(default = "mtu")]
    pub mtu: u16,
    /// Packets a child may be ahead of the slowest; a power of two up to 4096.
    #[serde(default = "slots")]
    pub window: u32,
    /// Results kept until they are acknowledged; a power of two, 4 to 4096.
    #[serde(default = "slots")]
    pub results: u32,
    /// Results carry their status as immediate data.
    #[serde(default = "yes")]
    pub status: bool,
    /// What happens when a contribution does not come.
    #[serde(default)]
    pub straggler: Policy,
    /// For `partial` and `abort`: so long after the first contribution, in ns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline_ns: Option<Nanos>,
    /// Silence after which what was not acknowledged is sent again, in ns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ack_timeout_ns: Option<Nanos>,
    /// Times it is sent again before the peer counts as gone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retries: Option<u8>,
    /// A peer that says or takes nothing for so long counts as gone, in ns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub patience_ns: Option<Nanos>,
    /// The same of a peer that has not said anything yet, if it is longer, in ns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arrival_ns: Option<Nanos>,
    /// Time without a word from a peer that is waited for, before it is probed, in ns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub probe_after_ns: Option<Nanos>,
    /// Rate at which a peer is sent to before it sends a CNP, in bit/s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate_bps: Option<u64>,
    /// Partition key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pkey: Option<u16>,
    /// DSCP of data, ACKs and NAKs.
    #[serde(default = "dscp")]
    #[schemars(range(max = 63))]
    pub dscp: u8,
    /// 802.1p priority of these: what PFC stops them by.
    #[serde(default = "priority")]
    #[schemars(range(max = 7))]
    pub priority: u8,
}

const fn mtu() -> u16 {
    1024
}
const fn slots() -> u32 {
    256
}
const fn yes() -> bool {
    true
}
const fn dscp() -> u8 {
    26
}
const fn priority() -> u8 {
    3
}

/// An operation; which keys it has depends on its kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "JobOperation")]
#[serde(deny_unknown_fields)]
pub struct Operation {
    /// Which one.
    pub kind: Kind,
    /// Of folds: how two elements become one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operator: Option<Operator>,
    /// Of folds: what the elements are.
    #[serde(default, rename = "type", skip_serializing_if = "Option::is_none")]
    pub data_type: Option<DataType>,
    /// Of folds: how they lie in memory; little-endian where nobody says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub byte_order: Option<ByteOrder>,
    /// Of `reduce` and `broadcast`: the rank.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub root: Option<u16>,
}

/// Kinds of operations: [`Primitive`] without what belongs to one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "JobOperationKind")]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "as those of Primitive")]
pub enum Kind {
    AllReduce,
    Reduce,
    ReduceScatter,
    Broadcast,
    AllGather,
    Barrier,
}

/// [`Straggler`] without its time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "JobStraggler")]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "as those of Straggler")]
pub enum Policy {
    #[default]
    Wait,
    Partial,
    Abort,
}

/// Somebody a job speaks with: its addresses and the numbers agreed with it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "JobPeer")]
#[serde(deny_unknown_fields)]
pub struct PeerSpec {
    /// Queue pair of the engine.
    #[schemars(range(max = 0xff_ffff))]
    pub qpn: u32,
    /// The peer's MAC address, or its next hop's.
    pub mac: String,
    /// Its IP address.
    pub ip: IpAddr,
    /// Its queue pair.
    #[schemars(range(max = 0xff_ffff))]
    pub dest_qpn: u32,
    /// PSN of the first packet to it.
    #[schemars(range(max = 0xff_ffff))]
    pub send_psn: u32,
    /// PSN of the first packet from it.
    #[schemars(range(max = 0xff_ffff))]
    pub recv_psn: u32,
}

/// Somebody below.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "JobChild")]
#[serde(deny_unknown_fields)]
pub struct ChildSpec {
    /// First of its ranks.
    pub rank: u16,
    /// How many ranks; 1 for a host.
    #[serde(default = "one")]
    pub ranks: u16,
    /// It is an engine.
    #[serde(default)]
    pub engine: bool,
    /// Memory it may WRITE its contributions to, of the engine; the same as it was told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub write: Option<Range>,
    /// Its own memory, which results are written to; left out, they are SENDs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub results_to: Option<Range>,
    /// Its WRITEs name its own memory: the result of each packet is written there, and acknowledges it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub mirror: bool,
    /// How to speak with it.
    #[serde(flatten)]
    pub peer: PeerSpec,
}

impl<'de> Deserialize<'de> for ChildSpec {
    /// Key by key: of one that is flattened serde knows the place no more.
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Keys {
            rank: u16,
            #[serde(default = "one")]
            ranks: u16,
            #[serde(default)]
            engine: bool,
            write: Option<Range>,
            results_to: Option<Range>,
            #[serde(default)]
            mirror: bool,
            qpn: u32,
            mac: String,
            ip: IpAddr,
            dest_qpn: u32,
            send_psn: u32,
            recv_psn: u32,
        }
        let keys = Keys::deserialize(from)?;
        let Keys { rank, ranks, engine, write, results_to, mirror, .. } = keys;
        let Keys { qpn, mac, ip, dest_qpn, send_psn, recv_psn, .. } = keys;
        let peer = PeerSpec { qpn, mac, ip, dest_qpn, send_psn, recv_psn };
        Ok(Self { rank, ranks, engine, write, results_to, mirror, peer })
    }
}

/// A range of registered memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "JobMemory")]
#[serde(deny_unknown_fields)]
pub struct Range {
    /// First address.
    pub addr: u64,
    /// Remote key.
    pub rkey: u32,
    /// Bytes.
    pub bytes: u64,
}

impl From<Memory> for Range {
    fn from(memory: Memory) -> Self {
        Self { addr: memory.addr, rkey: memory.rkey, bytes: memory.len }
    }
}

impl From<Range> for Memory {
    fn from(range: Range) -> Self {
        Self { addr: range.addr, rkey: range.rkey, len: range.bytes }
    }
}

impl ChildSpec {
    /// WRITEs from it and to it.
    fn remote(&self, at: usize) -> Result<Remote, SpecError> {
        let writes = match (self.write, self.mirror) {
            (None, false) => Writes::Refused,
            (Some(range), false) => Writes::Into(range.into()),
            (None, true) => Writes::Mirrored,
            (Some(_), true) => return Err(SpecError::Both(at)),
        };
        Ok(Remote { writes, results: self.results_to.map(Memory::from) })
    }
}

const fn one() -> u16 {
    1
}

/// Why what is written is no job.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SpecError {
    /// An address.
    #[error("peer {0}: {1}")]
    Mac(usize, String),
    /// An address that is not one of somebody else, or a queue pair that is nobody's.
    #[error("peer {0}: {1} is {2}, which is not that of one host other than the engine")]
    Nobody(usize, &'static str, String),
    /// A number of 24 bits.
    #[error("peer {0}: {1} is {2:#x}; it has 24 bits")]
    Wide(usize, &'static str, u32),
    /// Two meanings of the address of a WRITE.
    #[error(
        "peer {0}: write and mirror exclude one another: a WRITE names the engine's memory or the host's own"
    )]
    Both(usize),
    /// A key that this kind of operation needs.
    #[error("operation: `{0}` is missing")]
    Missing(&'static str),
    /// A key that this kind of operation does not have.
    #[error("operation: `{0}` means nothing here; remove it")]
    Odd(&'static str),
    /// Bits of floats.
    #[error("operation: and, or, xor are of integers; take another type or operator")]
    Fold,
    /// No time for a policy that needs one, or the other way round.
    #[error("deadline_ns goes with straggler \"partial\" or \"abort\", and they with it")]
    Deadline,
    /// Out of range.
    #[error("{0} is {1}; it is 0 to {2}")]
    Range(&'static str, u64, u64),
}

impl Operation {
    /// What it is to an engine.
    ///
    /// # Errors
    /// A key is missing, or there is one too many.
    pub fn primitive(&self) -> Result<Primitive, SpecError> {
        let Self { kind, operator, data_type, byte_order, root } = *self;
        let folds = matches!(kind, Kind::AllReduce | Kind::Reduce | Kind::ReduceScatter);
        let rooted = matches!(kind, Kind::Reduce | Kind::Broadcast);
        for (name, set, fits) in [
            ("operator", operator.is_some(), folds),
            ("type", data_type.is_some(), folds),
            ("byte_order", byte_order.is_some(), folds),
            ("root", root.is_some(), rooted),
        ] {
            if set && !fits {
                return Err(SpecError::Odd(name));
            }
        }
        let fold = || {
            let operator = operator.ok_or(SpecError::Missing("operator"))?;
            let data_type = data_type.ok_or(SpecError::Missing("type"))?;
            Fold::new(operator, data_type, byte_order.unwrap_or(ByteOrder::Little)).ok_or(SpecError::Fold)
        };
        let root = || root.ok_or(SpecError::Missing("root"));
        Ok(match kind {
            Kind::AllReduce => Primitive::AllReduce(fold()?),
            Kind::Reduce => Primitive::Reduce(fold()?, root()?),
            Kind::ReduceScatter => Primitive::ReduceScatter(fold()?),
            Kind::Broadcast => Primitive::Broadcast(root()?),
            Kind::AllGather => Primitive::AllGather,
            Kind::Barrier => Primitive::Barrier,
        })
    }
}

impl std::fmt::Display for Operation {
    /// `all_reduce sum f32`, `broadcast from 3`: for people. Big-endian is said, little-endian is not.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self.kind {
            Kind::AllReduce => "all_reduce",
            Kind::Reduce => "reduce",
            Kind::ReduceScatter => "reduce_scatter",
            Kind::Broadcast => "broadcast",
            Kind::AllGather => "all_gather",
            Kind::Barrier => "barrier",
        })?;
        if let (Some(operator), Some(data_type)) = (self.operator, self.data_type) {
            let big = if self.byte_order == Some(ByteOrder::Big) { " big-endian" } else { "" };
            write!(f, " {} {}{big}", operator.name(), data_type.name())?;
        }
        match (self.kind, self.root) {
            (Kind::Reduce, Some(root)) => write!(f, " to {root}"),
            (_, Some(root)) => write!(f, " from {root}"),
            (_, None) => Ok(()),
        }
    }
}

impl From<Primitive> for Operation {
    fn from(primitive: Primitive) -> Self {
        let (kind, root) = match primitive {
            Primitive::AllReduce(_) => (Kind::AllReduce, None),
            Primitive::Reduce(_, root) => (Kind::Reduce, Some(root)),
            Primitive::ReduceScatter(_) => (Kind::ReduceScatter, None),
            Primitive::Broadcast(root) => (Kind::Broadcast, Some(root)),
            Primitive::AllGather => (Kind::AllGather, None),
            Primitive::Barrier => (Kind::Barrier, None),
        };
        let fold = primitive.fold();
        Self {
            kind,
            operator: fold.map(Fold::operator),
            data_type: fold.map(Fold::data_type),
            byte_order: fold.map(Fold::order),
            root,
        }
    }
}

/// Whether this is the MAC address of one station.
pub(crate) fn is_ones_mac(mac: Mac) -> bool {
    !mac.is_group() && mac.to_u64() != 0
}

/// Whether this is the IP address of one host.
pub(crate) fn is_ones_ip(ip: IpAddr) -> bool {
    !ip.is_unspecified() && !ip.is_multicast() && ip != IpAddr::V4(Ipv4Addr::BROADCAST)
}

/// Whether this can be the number of a host's queue pair: 0 and 1 are management's, the last is multicast's (IBTA 3.5.10).
pub(crate) fn is_ones_qpn(qpn: u32) -> bool {
    (2..0xff_ffff).contains(&qpn)
}

impl PeerSpec {
    /// The queue pair of the engine and the way to peer number `at`.
    fn path(&self, at: usize, engine: &Address, job: &JobSpec) -> Result<(Qpn, Path), SpecError> {
        for (what, n) in [
            ("qpn", self.qpn),
            ("dest_qpn", self.dest_qpn),
            ("send_psn", self.send_psn),
            ("recv_psn", self.recv_psn),
        ] {
            if n >> 24 != 0 {
                return Err(SpecError::Wide(at, what, n));
            }
        }
        let mac: Mac = self.mac.parse().map_err(|error| SpecError::Mac(at, error))?;
        if !is_ones_mac(mac) || mac == engine.mac {
            return Err(SpecError::Nobody(at, "mac", self.mac.clone()));
        }
        if !is_ones_ip(self.ip) || self.ip == engine.ip {
            return Err(SpecError::Nobody(at, "ip", self.ip.to_string()));
        }
        if !is_ones_qpn(self.dest_qpn) {
            return Err(SpecError::Nobody(at, "dest_qpn", self.dest_qpn.to_string()));
        }
        let data = TrafficClass::of_data(job.dscp, job.priority);
        let path = Path {
            vlan: engine.vlan,
            data,
            ack: data,
            send_psn: Psn::new(self.send_psn),
            recv_psn: Psn::new(self.recv_psn),
            ..Path::new((engine.mac, engine.ip), (mac, self.ip), Qpn(self.dest_qpn))
        };
        Ok((Qpn(self.qpn), path))
    }
}

impl From<&Straggler> for Policy {
    fn from(straggler: &Straggler) -> Self {
        match straggler {
            Straggler::Wait => Self::Wait,
            Straggler::Partial(_) => Self::Partial,
            Straggler::Abort(_) => Self::Abort,
        }
    }
}

impl PeerSpec {
    /// How a path is written down.
    fn of(qpn: Qpn, path: &Path) -> Self {
        Self {
            qpn: qpn.0,
            mac: path.dst.to_string(),
            ip: path.dst_ip,
            dest_qpn: path.dest_qp.0,
            send_psn: path.send_psn.get(),
            recv_psn: path.recv_psn.get(),
        }
    }
}

impl JobSpec {
    /// How a job is written down, for an engine at this port. Its connections have one class.
    pub fn of(params: &JobParams, port: Option<String>) -> Self {
        let class = params
            .children
            .first()
            .map_or_else(|| TrafficClass::of_data(dscp(), priority()), |c| c.path.data);
        let child = |child: &Child| ChildSpec {
            rank: child.first_rank,
            ranks: child.ranks,
            engine: child.engine,
            write: match child.remote.writes {
                Writes::Into(memory) => Some(memory.into()),
                Writes::Refused | Writes::Mirrored => None,
            },
            results_to: child.remote.results.map(Range::from),
            mirror: child.remote.writes == Writes::Mirrored,
            peer: PeerSpec::of(child.qpn, &child.path),
        };
        let usual = JobParams::new(params.id, params.ranks, params.operation);
        let deadline_ns = match params.straggler {
            Straggler::Wait => None,
            Straggler::Partial(time) | Straggler::Abort(time) => Some(time),
        };
        Self {
            id: params.id,
            port,
            ranks: params.ranks,
            operation: params.operation.into(),
            children: params.children.iter().map(child).collect(),
            parent: params.parent.map(|parent| PeerSpec::of(parent.qpn, &parent.path)),
            mtu: params.mtu,
            window: params.window,
            results: params.results,
            status: params.status,
            straggler: (&params.straggler).into(),
            deadline_ns,
            ack_timeout_ns: (params.ack_timeout != usual.ack_timeout).then_some(params.ack_timeout),
            retries: (params.retries != usual.retries).then_some(params.retries),
            patience_ns: (params.patience != usual.patience).then_some(params.patience),
            arrival_ns: (params.arrival != usual.arrival).then_some(params.arrival),
            probe_after_ns: (params.probe_after != usual.probe_after).then_some(params.probe_after),
            rate_bps: (params.line_rate != usual.line_rate).then_some(params.line_rate),
            pkey: (params.pkey != usual.pkey).then_some(params.pkey),
            dscp: class.dscp,
            priority: class.priority,
        }
    }

    /// The job, at an engine of this address. What it is made of is checked by [`JobParams::check`].
    ///
    /// # Errors
    /// What cannot be understood.
    pub fn params(&self, engine: &Address) -> Result<JobParams, SpecError> {
        for (what, n, most) in [("dscp", self.dscp, 63), ("priority", self.priority, 7)] {
            if n > most {
                return Err(SpecError::Range(what, n.into(), most.into()));
            }
        }
        let straggler = match (self.straggler, self.deadline_ns) {
            (Policy::Wait, None) => Straggler::Wait,
            (Policy::Partial, Some(time)) => Straggler::Partial(time),
            (Policy::Abort, Some(time)) => Straggler::Abort(time),
            _ => return Err(SpecError::Deadline),
        };
        let child = |(at, child): (usize, &ChildSpec)| {
            let (qpn, path) = child.peer.path(at, engine, self)?;
            let ChildSpec { rank, ranks, engine, .. } = *child;
            Ok(Child { qpn, path, first_rank: rank, ranks, engine, remote: child.remote(at)? })
        };
        let parent = self.parent.as_ref().map(|parent| parent.path(self.children.len(), engine, self));
        let usual = JobParams::new(self.id, self.ranks, self.operation.primitive()?);
        Ok(JobParams {
            mtu: self.mtu,
            window: self.window,
            results: self.results,
            status: self.status,
            straggler,
            ack_timeout: self.ack_timeout_ns.unwrap_or(usual.ack_timeout),
            retries: self.retries.unwrap_or(usual.retries),
            patience: self.patience_ns.unwrap_or(usual.patience),
            arrival: self.arrival_ns.unwrap_or(usual.arrival),
            probe_after: self.probe_after_ns.unwrap_or(usual.probe_after),
            line_rate: self.rate_bps.unwrap_or(usual.line_rate),
            pkey: self.pkey.unwrap_or(usual.pkey),
            children: self.children.iter().enumerate().map(child).collect::<Result<_, _>>()?,
            parent: parent.transpose()?.map(|(qpn, path)| Parent { qpn, path }),
            ..usual
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TWO: &str = include_str!("../../configs/inc-job.json");

    fn engine() -> Address {
        Address { mac: Mac([2, 0, 0, 0, 12, 0]), ip: "10.0.0.200".parse().unwrap(), vlan: Some(5) }
    }

    fn spec(change: impl FnOnce(&mut JobSpec)) -> Result<JobParams, SpecError> {
        let mut spec: JobSpec = serde_json::from_str(TWO).unwrap();
        change(&mut spec);
        spec.params(&engine())
    }

    #[test]
    fn a_job_in_json_is_a_job_with_usual_values() {
        let params = spec(|_| ()).unwrap();
        params.check().unwrap();
        let usual = JobParams::new(7, 2, params.operation);
        assert_eq!((params.mtu, params.window, params.results), (usual.mtu, usual.window, usual.results));
        assert_eq!((params.ack_timeout, params.patience), (usual.ack_timeout, usual.patience));
        let path = params.children[1].path;
        assert_eq!((path.src, path.vlan, path.dest_qp), (engine().mac, Some(5), Qpn(18)));
        assert_eq!((path.recv_psn.get(), path.data.dscp, path.data.priority), (0xff_ffff, 26, 3));
        assert_eq!(params.operation.fold().unwrap().order(), ByteOrder::Little);
    }

    #[test]
    fn what_is_written_is_read_again() {
        let spec: JobSpec = serde_json::from_str(TWO).unwrap();
        let text = serde_json::to_string(&spec).unwrap();
        assert_eq!(serde_json::from_str::<JobSpec>(&text).unwrap(), spec);
    }

    #[test]
    fn memory_survives_being_written_down() {
        let mut spec: JobSpec = serde_json::from_str(TWO).unwrap();
        let text = r#"{ "addr": 140737488355328, "rkey": 4294967295, "bytes": 262144 }"#;
        let range: Range = serde_json::from_str(text).unwrap();
        spec.children[0].write = Some(range);
        spec.children[0].results_to = Some(Range { bytes: 1024, ..range });
        spec.children[1].mirror = true;
        let params = spec.params(&engine()).unwrap();
        params.check().unwrap();
        assert!(matches!(params.children[0].remote.writes, Writes::Into(Memory { len: 262_144, .. })));
        let text = serde_json::to_string(&JobSpec::of(&params, None)).unwrap();
        let read: JobSpec = serde_json::from_str(&text).unwrap();
        assert_eq!((&read.children, text.matches("mirror").count()), (&spec.children, 1));
        spec.children[1].write = Some(range);
        assert_eq!(spec.params(&engine()).unwrap_err(), SpecError::Both(1));
        spec.children[1].write = None;
        for (change, text) in [
            (Range { addr: u64::MAX, ..range }, "peer 0 has memory that ends beyond the last address"),
            (Range { bytes: 1023, ..range }, "peer 0 has memory for results that is shorter than a packet"),
        ] {
            spec.children[0].results_to = Some(change);
            assert!(spec.params(&engine()).unwrap().check().unwrap_err().to_string().contains(text));
        }
        spec.children[1].results_to = Some(range);
        let error = spec.params(&engine()).unwrap();
        let error = JobParams { children: vec![error.children[1]; 1], ranks: 1, ..error };
        let error = JobParams { children: vec![Child { first_rank: 0, ..error.children[0] }], ..error };
        assert!(error.check().unwrap_err().to_string().contains("two places for a result"));
    }

    #[test]
    fn what_cannot_be_understood_is_named() {
        let said = |change: fn(&mut JobSpec)| spec(change).unwrap_err().to_string();
        assert!(said(|s| s.children[0].peer.mac = "x".into()).contains("peer 0: `x` is not a MAC"));
        assert!(said(|s| s.children[1].peer.send_psn = 1 << 24).contains("peer 1: send_psn is 0x1000000"));
        assert!(said(|s| s.operation.operator = None).contains("`operator` is missing"));
        assert!(said(|s| s.operation.root = Some(0)).contains("`root` means nothing"));
        assert!(said(|s| s.operation.operator = Some(Operator::Xor)).contains("integers"));
        assert!(said(|s| s.straggler = Policy::Abort).contains("deadline_ns"));
        assert!(said(|s| s.children[0].peer.mac = "ff:ff:ff:ff:ff:ff".into()).contains("peer 0: mac is ff:"));
        assert!(
            said(|s| s.children[0].peer.mac = engine().mac.to_string()).contains("other than the engine")
        );
        for ip in ["0.0.0.0", "255.255.255.255", "224.0.0.1", "10.0.0.200"] {
            let mut job: JobSpec = serde_json::from_str(TWO).unwrap();
            job.children[1].peer.ip = ip.parse().unwrap();
            assert!(job.params(&engine()).unwrap_err().to_string().contains(&format!("peer 1: ip is {ip}")));
        }
        assert!(said(|s| s.children[1].peer.dest_qpn = 1).contains("peer 1: dest_qpn is 1"));
        assert!(said(|s| s.children[1].peer.dest_qpn = 0xff_ffff).contains("peer 1: dest_qpn is 16777215"));
        assert!(said(|s| s.priority = 8).contains("priority is 8; it is 0 to 7"));
        for (key, text) in [("windows", "\"windows\": 4,"), ("id", "\"id\": -1,")] {
            let text = TWO.replacen('{', &format!("{{{text}"), 1);
            let error = serde_json::from_str::<JobSpec>(&text).unwrap_err().to_string();
            assert!(error.contains(key) || error.contains("u32"), "{error}");
        }
        let text = TWO.replacen("\"rank\":", "\"engin\": true, \"rank\":", 1);
        let error = serde_json::from_str::<JobSpec>(&text).unwrap_err().to_string();
        assert!(error.contains("engin"), "{error}");
    }

    #[test]
    fn every_operation_survives_being_written_down() {
        let fold = Fold::new(Operator::Max, DataType::Bf16, ByteOrder::Big).unwrap();
        for (primitive, shown) in [
            (Primitive::AllReduce(fold), "all_reduce max bf16 big-endian"),
            (Primitive::Reduce(fold, 3), "reduce max bf16 big-endian to 3"),
            (Primitive::ReduceScatter(fold), "reduce_scatter max bf16 big-endian"),
            (Primitive::Broadcast(1), "broadcast from 1"),
            (Primitive::AllGather, "all_gather"),
            (Primitive::Barrier, "barrier"),
        ] {
            let text = serde_json::to_string(&Operation::from(primitive)).unwrap();
            let operation: Operation = serde_json::from_str(&text).unwrap();
            assert_eq!(
                (operation.primitive(), operation.to_string()),
                (Ok(primitive), shown.to_owned()),
                "{text}"
            );
        }
    }
}
