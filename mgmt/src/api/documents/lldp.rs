//! LLDP: neighbours, and what they are told.

use super::{Count, Stamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What a port does with LLDP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum LldpPortMode {
    /// Receives and sends.
    Both,
    /// Receives.
    Receive,
    /// Neither.
    Off,
}

/// A priority as ETS has it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LldpPriority {
    /// The priority.
    #[schemars(range(max = 7))]
    pub priority: usize,
    /// Its traffic class.
    #[schemars(range(max = 7))]
    pub traffic_class: u8,
    /// How frames of the class are selected: `strict`, `credit_based`, `ets`, `vendor` or `reserved`.
    pub algorithm: String,
    /// Percent of the bandwidth that the class has; 0 where the algorithm is not `ets`.
    pub bandwidth_percent: u8,
}

/// ETS as in force.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LldpEts {
    /// It takes over what the neighbour recommends.
    pub willing: bool,
    /// It has credit-based shapers.
    pub credit_based: bool,
    /// Traffic classes it has.
    #[schemars(range(min = 1, max = 8))]
    pub traffic_classes: u8,
    /// By priority.
    pub priorities: Vec<LldpPriority>,
}

/// PFC as in force.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LldpPfc {
    /// It takes over what the neighbour has.
    pub willing: bool,
    /// Priorities it can have PFC for at once.
    #[schemars(range(max = 15))]
    pub capability: u8,
    /// Priorities with PFC.
    pub priorities: Vec<usize>,
}

/// The priority of an application.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LldpApplication {
    /// What `protocol` is: `ethertype`, `tcp_port`, `udp_port`, `port` (of either), `dscp` or `reserved`.
    pub selector: String,
    /// Which one.
    pub protocol: u16,
    /// Its priority.
    #[schemars(range(max = 7))]
    pub priority: u8,
}

/// What a station says of itself; `null`: nothing.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LldpInformation {
    /// The station.
    pub chassis: String,
    /// What that is: `mac address`, `local`, ...
    pub chassis_kind: String,
    /// Its port.
    pub port_id: String,
    /// What that is: `interface name`, `mac address`, ...
    pub port_id_kind: String,
    /// For how long all of it holds, s.
    pub ttl_seconds: u16,
    /// What the port is.
    pub port_description: Option<String>,
    /// Name of the station.
    pub system_name: Option<String>,
    /// What it is.
    pub system_description: Option<String>,
    /// What of its capabilities is in use: `bridge`, `router`, `station`, ...
    pub capabilities: Vec<String>,
    /// Where it is managed.
    pub management_address: Option<String>,
    /// PFC.
    pub pfc: Option<LldpPfc>,
    /// ETS.
    pub ets: Option<LldpEts>,
    /// ETS as recommended to the neighbour, by priority.
    pub ets_recommended: Option<Vec<LldpPriority>>,
    /// Priorities of applications.
    pub applications: Option<Vec<LldpApplication>>,
    /// Longest frame of its MAC, bytes with FCS.
    pub max_frame_bytes: Option<u16>,
}

/// Where a neighbour does not fit us.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LldpDifferences {
    /// Priorities with PFC at one end only.
    pub pfc: Vec<usize>,
    /// Priorities with another algorithm, or another share of the bandwidth.
    pub ets: Vec<usize>,
    /// The longest frame differs by more than FCS and a VLAN tag (8 bytes).
    pub frame_size: bool,
}

/// A station at the other end of a link.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LldpNeighbour {
    /// What it says.
    #[serde(flatten)]
    pub information: LldpInformation,
    /// Source of its frames.
    pub source: String,
    /// Time until it is forgotten unless it says something, s.
    pub ttl_left_seconds: u64,
    /// Time for which it has been known, s.
    pub known_seconds: u64,
    /// Frames it has sent.
    pub frames: Count,
    /// Where it does not fit us.
    pub differences: LldpDifferences,
}

/// LLDP at a port.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LldpPort {
    /// The port.
    pub port: String,
    /// What it does.
    pub mode: LldpPortMode,
    /// What is sent; `null`: nothing.
    pub sent: Option<LldpInformation>,
    /// Who is there.
    pub neighbours: Vec<LldpNeighbour>,
    /// Frames sent.
    pub tx_frames: Count,
    /// Frames received and given to management.
    pub rx_frames: Count,
    /// Frames dropped because management did not read them in time (`control.lldp_no_room`).
    pub rx_no_room_frames: Count,
    /// Frames thrown away because they are malformed.
    pub rx_malformed_frames: Count,
    /// Frames thrown away because 8 other neighbours are there.
    pub rx_too_many_frames: Count,
    /// TLVs thrown away, of frames that were taken.
    pub rx_discarded_tlvs: Count,
    /// Frames that could not be sent when they were due.
    pub tx_refused_frames: Count,
}

/// LLDP at all ports.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Lldp {
    /// When.
    #[serde(flatten)]
    pub stamp: Stamp,
    /// False: no port speaks it (`[lldp] enable`).
    pub enabled: bool,
    /// Time between two frames of a port, s.
    pub interval_seconds: f64,
    /// By port.
    pub ports: Vec<LldpPort>,
}
