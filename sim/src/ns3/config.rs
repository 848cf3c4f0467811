//! What a run of the compatibility profile is configured with.
use weir_dataplane::types::Nanos;
use weir_endpoint::congestion::telemetry::{INT_BYTES, MAX_HOPS, PINT_BYTES, TIME_BYTES};
use weir_endpoint::congestion::{dctcp, hpcc, pint, timely};
use weir_endpoint::dcqcn::ns3::Params;

/// [`Config::shift`] as published.
pub const SHIFT: u32 = 3;

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
    /// By node: its number in the published simulator, by which it is addressed and ranked; of those beyond the end the place here.
    pub numbers: Vec<u32>,
}

impl Topology {
    /// Number of a node in the published simulator.
    pub fn number(&self, node: u32) -> u32 {
        self.numbers.get(node as usize).copied().unwrap_or(node)
    }
}

/// Source port of the first flow between two hosts; of each further one it is one more.
pub const FIRST_PORT: u16 = 10_000;

/// Destination port of flows that say none, as in the published flow files.
pub const DST_PORT: u16 = 100;

/// A transfer of `bytes` from one host to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowSpec {
    /// Sending host.
    pub src: u32,
    /// Receiving host.
    pub dst: u32,
    /// Destination port, which the choice among equal paths hangs on; the source ports of a pair of hosts count from 10000.
    pub dst_port: u16,
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

/// Congestion control of the senders. What a path gives (`line_bps`, `base_rtt`, `bdp`) is filled in for each flow.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Control {
    /// Line rate; congestion marks are ignored.
    None,
    /// `CC_MODE 1`.
    Dcqcn(Params),
    /// `CC_MODE 3`: HPCC with INT.
    Hpcc(hpcc::Params),
    /// `CC_MODE 7`.
    Timely(timely::Params),
    /// `CC_MODE 8`.
    Dctcp(dctcp::Params),
    /// `CC_MODE 10`: HPCC with PINT.
    Pint(pint::Params),
}

impl Control {
    /// Bytes it adds to the headers of a data frame.
    pub fn header_bytes(&self) -> u16 {
        match self {
            Self::None | Self::Dcqcn(_) | Self::Dctcp(_) => 0,
            Self::Hpcc(_) => INT_BYTES,
            Self::Timely(_) => TIME_BYTES,
            Self::Pint(_) => PINT_BYTES,
        }
    }
}

/// Bytes a flow may have in flight (`HAS_WIN`, `VAR_WIN`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WindowRule {
    /// Any number.
    #[default]
    None,
    /// The bandwidth-delay product.
    Fixed,
    /// The same, scaled by the current rate of the flow.
    Variable,
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
    /// Shift of the threshold at ports no faster than the hosts: alpha = 2^-shift; one less for each doubling of the rate.
    pub shift: u32,
    /// A receiver says NACK about one gap again after this time.
    pub nack_interval: Nanos,
    /// Marking by port rate; empty means no marking.
    pub marking: Vec<Marking>,
    /// Congestion control, and what stamps of frames are made with.
    pub control: Control,
    /// The same of senders on lines of these rates, bit/s, where it is another one.
    pub controls: Vec<(u64, Control)>,
    /// Bytes in flight.
    pub window: WindowRule,
    /// Round trip and bandwidth-delay product are the largest of all pairs of hosts, not each pair's own (`GLOBAL_T`).
    pub global_t: bool,
    /// Frames are spaced by the current rate, not by that of the line (`RATE_BOUND`).
    pub rate_bound: bool,
    /// Payload of a full frame (`PACKET_PAYLOAD_SIZE`), bytes.
    pub payload: u32,
    /// What the reference's clock shows at time 0: INT carries its lower bits, ns.
    pub epoch: Nanos,
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
    /// A full frame of no bytes, or of more than a frame can be.
    #[error("a payload of {0} bytes; it must be 1 to 9000")]
    Payload(u32),
    /// INT says what rate a link has by a code, and there are five.
    #[error("link {0} has {1} bit/s; HPCC's INT knows links of 25, 50, 100, 200 and 400 Gb/s")]
    IntRate(usize, u64),
    /// INT has no room for a longer path.
    #[error("flow {0} passes {1} switches; HPCC's INT has room for {MAX_HOPS}")]
    IntHops(usize, u32),
    /// Queues are measured by the bandwidth-delay product.
    #[error("HPCC needs a window, and delays or rates that give it at least one byte (HAS_WIN)")]
    NoWindow,
    /// The buffer model refuses the switch.
    #[error("switch {0}: {1}")]
    Mmu(u32, crate::models::hpcc::HpccParamsError),
}
