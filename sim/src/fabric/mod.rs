//! A fabric in virtual time: the same switch value that runs on DPDK, hosts with RoCE flows, links.
//!
//! A [`FabricSpec`] (TOML, [`load`]) names a topology, what its switches are (a weir configuration),
//! and the traffic; [`run`] plays it and says what happened ([`Report`]). Same spec, same seed: same
//! report, bit for bit. Events are exact to the picosecond ([`time::Transmitter`]); switches and hosts are
//! called at whole nanoseconds, never early.

mod buckets;
mod collective;
mod collective_report;
mod computations;
mod congestion;
mod deadlock;
mod engine;
mod faults;
mod flow_level;
mod flow_table;
mod graph;
mod histogram;
mod hosts;
mod idle;
mod import;
mod json_schema;
mod latency;
mod level;
mod links;
mod lots;
mod multicast;
mod ns3;
mod ns3_spec;
mod nscc;
mod operations;
mod orders;
mod page;
mod play;
mod policy;
mod rate_control;
mod rclink;
mod reasons;
mod report;
mod routes;
mod sim_frame;
mod sizes;
mod source;
mod spec;
mod sprayed;
mod switches;
pub mod time;
mod timeline;
mod topology;
mod transport;
mod units;
mod ways;
mod workload;

pub use collective_report::{
    CollectiveFigures, CollectiveIdentity, CollectiveResult, CollectiveSummary, StepResult, Straggler,
};
pub use congestion::{DctcpSpec, HpccSpec, SwiftSpec, TimelySpec, WindowKind};
pub use flow_table::FlowsFormat;
pub(crate) use flow_table::read as read_columns;
pub(crate) use import::{file_names, file_names_of, of_rank, paths, read_file};
pub use json_schema::json_schema;
pub use latency::{Distribution, Latency, LatencyOf, PARTS};
pub use level::Level;
pub use ns3_spec::Ns3Spec;
pub use nscc::NsccSpec;
pub use orders::{
    OrderResult, OrderSpec, PairTrace, QueuePair, RegisterValue, TraceCounts, TraceEntry, TraceState,
    TraceSwitch,
};
pub use play::{Progress, Undivided, run, run_with};
pub use report::is_table;
pub(crate) use report::slowdown_milli;
pub use report::{
    FlowResult, HeadroomPool, HostResult, InputMemory, LinkResult, PortResult, Report, Sample, Spread,
    Summary, SwitchResult,
};
pub(crate) use report::{SCHEMA, completion};
pub use sizes::SizeDistribution;
pub(crate) use spec::read_toml;
pub use spec::{
    CcWindow, Congestion, CoreKind, CrossbarMode, CustomLink, CustomSpec, DcqcnSpec, DirectSpec,
    DragonflyPlusSpec, DumbbellSpec, FabricSpec, FailureSpec, FatTreeSpec, FirmwareAlgorithm,
    FlowControlKind, Forwarding, HostSpec, HpccFileSpec, IncSpec, LeafSpineSpec, LinkFormat, LinkHostSpec,
    LinkPriorities, LinkSpec, Pattern, Placement, Profile, Protocol, RailSpec, RoutingMode, RoutingSpec,
    RowSpec, Scheme, StarSpec, StartUnit, SwitchSpec, Topology, TrunkSpec, Workload, load, load_in,
};
pub(crate) use switches::unknown_keys;
pub use timeline::{Pause, Series, Timeline};
pub(crate) use topology::neighbours;
pub use transport::{SelectiveSpec, TransportKind};
pub(crate) use units::are_the_same;
pub use units::{Duration, Quantity, Rate, Size};

/// Why a fabric is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FabricError {
    /// The text is not TOML or does not say what is expected.
    #[error("{file}: {message}")]
    Syntax {
        /// Name of the file.
        file: String,
        /// Line and column, from 1, where the reader knows them.
        at: Option<(usize, usize)>,
        /// What the reader says, with line and caret.
        message: String,
    },
    /// Something in a file.
    #[error("{file}{}: {error}", line.map_or(String::new(), |line| format!(":{line}")))]
    At {
        /// Name of the file.
        file: String,
        /// The line, from 1, where it is known.
        line: Option<usize>,
        /// What.
        error: Box<FabricError>,
    },
    /// Several faults, in the order of the file as far as they have a place there.
    #[error("{}", faults::lines(.0))]
    Several(Vec<FabricError>),
    /// A key the profile leaves no choice about.
    #[error("`{key}` contradicts profile = \"ns3-hpcc\": {why}")]
    Profile {
        /// The key.
        key: String,
        /// What the profile does instead, and what to do.
        why: String,
    },
    /// A link ends at a node that does not exist.
    #[error("link {a} - {b}: there is no node `{missing}`; list it under hosts or switches")]
    DanglingLink {
        /// One end.
        a: String,
        /// The other end.
        b: String,
        /// The end that is missing.
        missing: String,
    },
    /// A link that joins a node with itself.
    #[error("link {node} - {node} joins a node with itself; take it out, or correct one end")]
    LinkToItself {
        /// Its number in the file, from 0.
        at: usize,
        /// The node.
        node: String,
    },
    /// Two nodes have one name.
    #[error("two nodes are called `{0}`")]
    TwoNames(String),
    /// Two hosts have one address.
    #[error("hosts `{a}` and `{b}` both have address {mac}; leave one out of `macs` or change it")]
    TwoMacs {
        /// One host.
        a: String,
        /// The other.
        b: String,
        /// The address.
        mac: String,
    },
    /// A host without exactly one link.
    #[error(
        "host `{host}`{} has {links} links; a host has exactly one: give it one, or make two hosts of one with two",
        if *others == 0 { String::new() } else { format!(", as each of {others} more,") }
    )]
    HostLinks {
        /// The host.
        host: String,
        /// Its links.
        links: usize,
        /// Further hosts with as many.
        others: usize,
    },
    /// Two hosts that cannot reach one another but have a flow.
    #[error("no path from `{from}` to `{to}`")]
    NoPath {
        /// Where it starts.
        from: String,
        /// Where it should end.
        to: String,
    },
    /// A link that moves nothing.
    #[error("link {a} - {b} has rate 0; give `{key}` a rate, e.g. \"100G\"")]
    RateZero {
        /// Where its rate comes from.
        key: String,
        /// One end.
        a: String,
        /// The other end.
        b: String,
    },
    /// A number outside what is possible.
    #[error("{what} is {got}; it must be {must}")]
    Range {
        /// Which value.
        what: String,
        /// What it is.
        got: String,
        /// What it must be.
        must: String,
    },
    /// A workload without a value it needs, or with a host that is not there.
    #[error("workload {index} ({kind}): {problem}")]
    Workload {
        /// Which one, from 1.
        index: usize,
        /// Its kind.
        kind: &'static str,
        /// What is wrong.
        problem: String,
    },
    /// An order that says nothing, or has nobody to be carried out at.
    #[error("order {index}: {problem}")]
    Order {
        /// Which one, from 1.
        index: usize,
        /// The key it is about.
        key: String,
        /// What is wrong, and what to do.
        problem: String,
    },
    /// Something in a file that the spec names, or the file itself.
    #[error("{place}: {problem}")]
    Import {
        /// The key that names it.
        key: String,
        /// The file and, where there is one, the line.
        place: String,
        /// What is wrong, and what to do.
        problem: String,
    },
    /// `buffer.policy` of the switches is refused, or does not go with the rest of what they are.
    #[error("[switch.config] buffer.policy: {0}")]
    Policy(String),
    /// The configuration of the switches is refused.
    #[error("[switch.config]: {0}")]
    Switch(String),
}

#[cfg(test)]
mod collective_tests;
#[cfg(test)]
mod congestion_tests;
#[cfg(test)]
mod core_storm_tests;
#[cfg(test)]
mod core_tests;
#[cfg(test)]
mod dcqcn_tests;
#[cfg(test)]
mod flows_tests;
#[cfg(test)]
mod htsim_tests;
#[cfg(test)]
mod import_tests;
#[cfg(test)]
mod job_tests;
#[cfg(test)]
mod json_schema_tests;
#[cfg(test)]
mod key_reference;
#[cfg(test)]
mod keys;
#[cfg(test)]
mod latency_tests;
#[cfg(test)]
mod multicast_tests;
#[cfg(test)]
mod ns3_tests;
#[cfg(test)]
mod orders_tests;
#[cfg(test)]
mod pause_tests;
#[cfg(test)]
mod policy_tests;
#[cfg(test)]
mod rclink_loss_tests;
#[cfg(test)]
mod rclink_tests;
#[cfg(test)]
mod refusal_tests;
#[cfg(test)]
mod routing_tests;
#[cfg(test)]
mod sentence_tests;
#[cfg(test)]
mod sprayed_tests;
#[cfg(test)]
mod straggler_tests;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod theory_tests;
#[cfg(test)]
mod transport_tests;
