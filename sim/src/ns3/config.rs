//! What a run of the compatibility profile is configured with.
use weir_dataplane::types::Nanos;
use weir_endpoint::dcqcn::ns3::Params;

/// A full-duplex link. Node ids are those of [`Topology`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// One end.
    pub a: u32,
    /// The other end.
    pub b: u32,
    /// Rate of both directions, bit/s.
    pub rate: u64,
    /// Propagation delay, ns.
    pub delay: Nanos,
}

/// Nodes and links. The ports of a node follow the order of its links.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Topology {
    /// Hosts are the nodes `0..hosts`; each has exactly one link.
    pub hosts: u32,
    /// Switches are the nodes `hosts..hosts + switches`.
    pub switches: u32,
    /// All links.
    pub links: Vec<Link>,
}

/// A transfer of `bytes` from one host to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowSpec {
    /// Sending host.
    pub src: u32,
    /// Receiving host.
    pub dst: u32,
    /// Priority of data and ACKs, 1..=7.
    pub prio: u8,
    /// Payload bytes, at least 1.
    pub bytes: u32,
    /// Start time.
    pub start: Nanos,
}

/// Marking thresholds of the ports of one rate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Marking {
    /// The ports, by rate in bit/s.
    pub rate: u64,
    /// No mark up to this depth, in bytes.
    pub kmin: u32,
    /// Always a mark above this depth, in bytes.
    pub kmax: u32,
    /// Probability at `kmax`.
    pub pmax: f64,
}

/// Congestion control of the senders.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Dcqcn {
    /// Rate machine; `line_bps` is replaced by the rate of each host's link.
    pub params: Params,
    /// Bytes in flight are limited to the largest bandwidth-delay product of the topology, scaled
    /// by the current rate of the flow.
    pub window: bool,
}

/// Everything but the topology and the flows.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// Buffer of each switch, in bytes.
    pub buffer: u32,
    /// Reserve of each ingress group.
    pub reserve: u32,
    /// Distance below the threshold at which a paused group resumes.
    pub resume_offset: u32,
    /// Marking by port rate; empty means no marking.
    pub marking: Vec<Marking>,
    /// Rate control, or none: senders at line rate, congestion marks ignored.
    pub dcqcn: Option<Dcqcn>,
    /// The priority whose pause holds back the ACKs a host sends.
    pub ack_gate: u8,
    /// Nothing runs after this time.
    pub stop: Nanos,
    /// Seed of the random marking and of the choice among equal paths.
    pub seed: u64,
}

/// Why a run cannot be built.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BuildError {
    /// A link names a node that is not there, or a node twice.
    #[error("link {0} joins no two nodes of the topology")]
    Link(usize),
    /// More nodes than ends of links.
    #[error("the links have {0} ends; there are more nodes than that")]
    Lonely(usize),
    /// A link without a rate.
    #[error("link {0} has rate 0")]
    Rate(usize),
    /// A host without a link, or with more than one.
    #[error("host {0} has {1} links; it needs exactly one")]
    Host(u32, usize),
    /// A flow between hosts that are not there, the same, or not connected.
    #[error("flow {0} joins no two connected hosts")]
    Path(usize),
    /// A flow without bytes, or of the control priority.
    #[error("flow {0} needs at least one byte and a priority from 1 to 7")]
    Flow(usize),
    /// Flows are given in the order of their start times.
    #[error("flow {0} starts before the flow in front of it")]
    Order(usize),
    /// The buffer model refuses the switch.
    #[error("switch {0}: {1}")]
    Mmu(u32, crate::models::hpcc::HpccParamsError),
}
