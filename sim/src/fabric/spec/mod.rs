//! What a fabric file says. Every key with its default; unknown keys are errors.

mod host;
mod network;
mod reading;
mod switch;
mod workload;

pub(in crate::fabric) use host::ACK_EVERY;
pub use host::{
    CcWindow, DcqcnSpec, FirmwareAlgorithm, FlowControlKind, HostSpec, LinkFormat, LinkHostSpec,
    LinkPriorities, Protocol, Scheme,
};
pub use network::{
    CustomLink, CustomSpec, DirectSpec, DragonflyPlusSpec, DumbbellSpec, FailureSpec, FatTreeSpec,
    HpccFileSpec, LeafSpineSpec, LinkSpec, RailSpec, RoutingMode, RoutingSpec, RowSpec, StarSpec, Topology,
    TrunkSpec,
};
pub(crate) use reading::read_toml;
pub(in crate::fabric) use reading::unknown_keys;
pub use switch::{CoreKind, CrossbarMode, Forwarding, SwitchSpec};
pub(in crate::fabric) use workload::KEYS_OF_ALL;
pub use workload::{Congestion, FrameType, IncSpec, Pattern, Placement, StartUnit, Workload};

use super::FabricError;
use super::faults::Faults;
use super::import::Files;
use super::level::Level;
use super::ns3_spec::Ns3Spec;
use super::orders::OrderSpec;
use super::source::Source;
use super::units::Duration;
use crate::digest::Digest;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::path::Path;

/// A whole experiment.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FabricSpec {
    /// Name in output.
    pub name: String,
    /// Whose switches and hosts.
    #[serde(default)]
    pub profile: Profile,
    /// Frame by frame, or flows as rates.
    #[serde(default)]
    pub level: Level,
    /// Seed of everything random.
    #[serde(default = "one::<u64>")]
    pub seed: u64,
    /// The run ends here at the latest.
    pub stop_time: Duration,
    /// Mean queue depths count from here.
    #[serde(default)]
    pub measure_from: Duration,
    /// Delivered bytes and queue depths are recorded this often; not at all unless given.
    pub sample: Option<Duration>,
    /// The time of every frame is split into its parts, end to end and per leg.
    #[serde(default)]
    pub latency: bool,
    /// Who is connected with whom.
    pub topology: Topology,
    /// Links of hosts.
    #[serde(default)]
    pub link: LinkSpec,
    /// Links between switches: what is not said is as in `[link]`.
    #[serde(default)]
    pub trunk: TrunkSpec,
    /// How switches choose among equal paths.
    #[serde(default)]
    pub routing: RoutingSpec,
    /// Links that fail.
    #[serde(default, rename = "failure")]
    pub failures: Vec<FailureSpec>,
    /// All switches.
    #[serde(default)]
    pub switch: SwitchSpec,
    /// All hosts.
    #[serde(default)]
    pub host: HostSpec,
    /// Engines of switches that sum for hosts.
    #[serde(default)]
    pub inc: IncSpec,
    /// Constants of profile "ns3-hpcc".
    #[serde(default)]
    pub ns3: Ns3Spec,
    /// The traffic.
    #[serde(rename = "workload")]
    pub workloads: Vec<Workload>,
    /// What is done to queue pairs while it runs.
    #[serde(default, rename = "order")]
    pub orders: Vec<OrderSpec>,
    /// Where it was read from.
    #[serde(skip)]
    #[schemars(skip)]
    pub(in crate::fabric) source: Source,
    /// Files it names.
    #[serde(skip)]
    #[schemars(skip)]
    pub(in crate::fabric) files: Files,
}

/// Whose switches and hosts play.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub enum Profile {
    /// weir's: the switch that runs on DPDK, hosts with RoCE headers, Ethernet's preamble, FCS and gap.
    #[default]
    #[serde(rename = "weir")]
    Weir,
    /// Those of the published HPCC simulator, quirks included ([`crate::ns3`]).
    #[serde(rename = "ns3-hpcc")]
    Ns3Hpcc,
}

fn one<T: From<u8>>() -> T {
    1.into()
}

/// Reads a spec from TOML, calling it `file` in messages, and the files it names, which are beside that one.
///
/// # Errors
/// [`FabricError::Syntax`], all that there are, or a file that cannot be read; what the spec says is checked by [`super::run`].
pub fn load(file: &str, text: &str) -> Result<FabricSpec, FabricError> {
    load_in(file, text, Path::new(file).parent().unwrap_or(Path::new("")))
}

/// The same with the files it names in `folder`.
///
/// # Errors
/// As [`load`].
pub fn load_in(file: &str, text: &str, folder: &Path) -> Result<FabricSpec, FabricError> {
    let mut spec = reading::read(file, text)?;
    let common = spec.host.congestion_control.unwrap_or_default();
    for w in &mut spec.workloads {
        w.cc = w.cc.or(Some(common));
    }
    spec.source = Source::new(file, text);
    spec.files = Files::read(&spec, folder).map_err(|e| spec.locate(e))?;
    Ok(spec)
}

/// Refuses times in which nothing could happen or be measured.
///
/// # Errors
/// The key, and what to change.
pub(super) fn check_times(spec: &FabricSpec) -> Result<(), FabricError> {
    let wrong = |what: &str, got: Duration, must: &str| {
        Err(FabricError::Range { what: what.into(), got: format!("{} ns", got.0), must: must.into() })
    };
    let (stop, from) = (spec.stop_time, spec.measure_from);
    let stop = if stop.0 == 0 { wrong("stop_time", stop, "at least 1 ns") } else { Ok(()) };
    let from = match stop.is_ok() && from.0 >= spec.stop_time.0 {
        true => wrong("measure_from", from, &format!("below `stop_time`, which is {} ns", spec.stop_time.0)),
        false => Ok(()),
    };
    let sample = match spec.sample {
        Some(every) if every.0 == 0 => wrong("sample", every, "at least 1 ns, or absent: no samples"),
        Some(every) if stop.is_ok() && every.0 > spec.stop_time.0 => {
            wrong("sample", every, &format!("at most `stop_time`, which is {} ns", spec.stop_time.0))
        }
        _ => Ok(()),
    };
    Faults::from_iter([stop, from, sample]).refuse()
}

impl FabricSpec {
    /// 128-bit FNV-1a hash of everything the spec says, defaults included, as 32 hexadecimal digits.
    pub fn hash(&self) -> String {
        Digest::of(format!("{self:?}").as_bytes()).to_string()
    }
}
