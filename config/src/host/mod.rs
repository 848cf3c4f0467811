//! The file of a traffic host (`weir host`): ports, connections and what is sent over them, checked like a
//! switch's file.

mod rank;
mod rclink;
mod rclink_types;
mod read;
pub mod schema;
#[cfg(test)]
mod tests;

use super::diag::Diagnostic;
use super::types::{CongestionControl, DcqcnScheme, FirmwareAlgorithm, HostOperation, PortConfig};
use std::net::IpAddr;
use weir_dataplane::types::{Mac, Nanos};
use weir_inc::kernels::Fold;
use weir_inc::rendezvous::Shape;

pub use rclink_types::*;
pub use read::load;
pub(crate) use read::{HOST_MAC, IP};

/// A host's configuration that may run, and warnings in the order of the text.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// The configuration.
    pub config: HostConfig,
    /// Warnings.
    pub warnings: Vec<Diagnostic>,
}

/// A traffic host.
#[derive(Clone, Debug)]
pub struct HostConfig {
    /// EAL arguments, before those of the command line.
    pub eal_args: Vec<String>,
    /// Sleep when there is nothing to do, ns; 0: none.
    pub rest: Nanos,
    /// Time without the processor that is made up for, ns.
    pub slack: Nanos,
    /// Ports, each a host of its own.
    pub ports: Vec<HostPort>,
    /// What they speak, and with whom.
    pub traffic: HostTraffic,
}

impl HostConfig {
    /// It counts messages: the run has an end.
    pub fn counts(&self) -> bool {
        match &self.traffic {
            HostTraffic::Roce { qps, .. } => {
                // A rank may be told by the others that all end.
                let ends = |qp: &HostQp| qp.rank.is_some() || qp.stream.is_some_and(|s| s.messages.is_some());
                qps.iter().any(|qp| qp.expect.is_some() || ends(qp))
            }
            HostTraffic::RcLink(link) => {
                let ends = |qp: &HostRcQp| qp.stream.is_some_and(|s| s.messages.is_some());
                link.qps.iter().any(|qp| qp.expect.is_some() || ends(qp))
            }
        }
    }
}

/// What hosts speak, and with whom.
#[derive(Clone, Debug)]
pub enum HostTraffic {
    /// RoCEv2.
    Roce {
        /// Rate control.
        dcqcn: HostDcqcn,
        /// Connections, in order.
        qps: Vec<HostQp>,
    },
    /// RC Link.
    RcLink(HostRcLink),
}

/// One port of a host.
#[derive(Clone, Debug)]
pub struct HostPort {
    /// The device.
    pub port: PortConfig,
    /// Address of the host.
    pub mac: Mac,
    /// Address of the host; unspecified where the format has none.
    pub ip: IpAddr,
    /// Number of its first connection.
    pub first_qpn: u32,
}

/// Rate control as written: what is not set is that of `parameters`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostDcqcn {
    /// Where unset values come from.
    pub parameters: CongestionControl,
    /// Who decides.
    pub scheme: DcqcnScheme,
    /// What firmware computes the rate with.
    pub firmware_algorithm: FirmwareAlgorithm,
    /// Firmware looks this often, ns.
    pub firmware_period: Nanos,
    /// bit/s.
    pub initial_rate: Option<u64>,
    /// g in 1024ths.
    pub gain: Option<u32>,
    /// Alpha at the first CNP in 1024ths.
    pub initial_alpha: Option<u32>,
    /// A cut takes alpha / 2^shift.
    pub rate_shift: Option<u32>,
    /// ns.
    pub alpha_period: Option<Nanos>,
    /// ns.
    pub cut_period: Option<Nanos>,
    /// ns.
    pub increase_period: Option<Nanos>,
    /// Bytes.
    pub byte_threshold: Option<u64>,
    /// Increases before the next stage.
    pub stages: Option<u32>,
    /// bit/s.
    pub additive: Option<u64>,
    /// bit/s.
    pub hyper: Option<u64>,
    /// Percentage of the rate a cut leaves at least.
    pub min_left_percent: Option<u32>,
    /// Set by the first CNP instead of a cut, bit/s.
    pub first_cnp_rate: Option<u64>,
    /// bit/s.
    pub min_rate: Option<u64>,
    /// Least time between two CNPs, ns.
    pub cnp_interval: Nanos,
    /// Messages in flight.
    pub outstanding: u32,
    /// The same for a while after a CNP.
    pub outstanding_after_cnp: u32,
    /// That while, ns.
    pub restore_after: Nanos,
}

impl HostDcqcn {
    /// Nothing set but where the values come from.
    pub fn of(parameters: CongestionControl) -> Self {
        Self {
            parameters,
            scheme: DcqcnScheme::Hardware,
            firmware_algorithm: FirmwareAlgorithm::Dcqcn,
            firmware_period: 10_000,
            initial_rate: None,
            gain: None,
            initial_alpha: None,
            rate_shift: None,
            alpha_period: None,
            cut_period: None,
            increase_period: None,
            byte_threshold: None,
            stages: None,
            additive: None,
            hyper: None,
            min_left_percent: None,
            first_cnp_rate: None,
            min_rate: None,
            cnp_interval: 50_000,
            outstanding: 16,
            outstanding_after_cnp: 8,
            restore_after: 300_000,
        }
    }
}

/// One connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostQp {
    /// Index of its port.
    pub port: usize,
    /// Its number.
    pub qpn: u32,
    /// The other end.
    pub peer_ip: IpAddr,
    /// The other end; `None`: asked for.
    pub peer_mac: Option<Mac>,
    /// The other end.
    pub peer_qpn: u32,
    /// PSN of the first packet sent.
    pub send_psn: u32,
    /// PSN of the first packet received.
    pub recv_psn: u32,
    /// VLAN id.
    pub vlan: Option<u16>,
    /// PFC priority of data.
    pub priority: u8,
    /// DSCP of data.
    pub dscp: u8,
    /// PFC priority of CNPs.
    pub cnp_priority: u8,
    /// DSCP of CNPs.
    pub cnp_dscp: u8,
    /// Path MTU.
    pub mtu: u16,
    /// Packets in flight.
    pub window: u32,
    /// ns.
    pub ack_timeout: Nanos,
    /// Retries without progress.
    pub retries: u8,
    /// Highest rate, bit/s; `None`: that of the port.
    pub rate: Option<u64>,
    /// Longest message taken, bytes.
    pub receive: u32,
    /// First address of the memory messages are taken in; `None`: the usual one.
    pub memory_address: Option<u64>,
    /// Its key; `None`: the usual one.
    pub memory_key: Option<u32>,
    /// Messages are those of a weir host, and checked.
    pub verify: bool,
    /// Messages that will come.
    pub expect: Option<u64>,
    /// Messages to send.
    pub stream: Option<HostStream>,
    /// They are contributions of this rank.
    pub rank: Option<HostRank>,
}

/// A rank of an AllReduce.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostRank {
    /// How contributions become a sum.
    pub fold: Fold,
    /// Which rank it is.
    pub rank: u16,
    /// Who is folded with whom.
    pub tree: Shape,
    /// It contributes by RDMA WRITE.
    pub write: bool,
    /// Sums are written to its memory.
    pub write_results: bool,
}

/// Messages a connection sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostStream {
    /// How.
    pub operation: HostOperation,
    /// Bytes of each.
    pub bytes: u32,
    /// How many; `None`: without end.
    pub messages: Option<u64>,
    /// Not before this time, ns.
    pub start: Nanos,
    /// First address of the peer's memory; `None`: where a weir host has it, 0 of an engine.
    pub remote_address: Option<u64>,
    /// Key of the peer's memory; `None`: that of a weir host, 0 of an engine.
    pub remote_key: Option<u32>,
}
