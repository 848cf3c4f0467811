//! Switches and hosts, what joins them, and links that fail.

use super::one;
use crate::fabric::units::{Duration, Rate};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Who is connected with whom. Hosts are `h0`, `h1`, ... and switches `s0`, ... except in `custom`.
///
/// A file says `kind` beside the keys of that kind. The reader puts them beneath it (`reading.rs`), where each keeps its place.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(tag = "kind")]
pub enum Topology {
    /// Two hosts and a cable: scenario A.
    Direct(DirectSpec),
    /// One switch.
    Star(StarSpec),
    /// Two switches; `pairs` hosts on each side.
    Dumbbell(DumbbellSpec),
    /// Switches in a row: scenarios B and C with two, the PFC chain with more.
    Chain(RowSpec),
    /// Every leaf to every spine.
    LeafSpine(LeafSpineSpec),
    /// Servers of `rails` hosts each. Host r of every server of a unit is at leaf r of the unit; all leaves at all spines.
    Rail(RailSpec),
    /// Groups of leaves and spines, all leaves of a group at all its spines, and links between the spines of every two
    /// groups.
    DragonflyPlus(DragonflyPlusSpec),
    /// Three stages, k pods of k/2 edge and k/2 aggregation switches, k^3/4 hosts.
    FatTree(FatTreeSpec),
    /// Switches in a ring, all frames clockwise: the shape in which PFC can deadlock.
    Ring(RowSpec),
    /// The topology file of the HPCC simulator. Hosts are `h` and switches `s` with their number in it.
    HpccFile(HpccFileSpec),
    /// As listed.
    Custom(CustomSpec),
}

/// Keys of a cable between two hosts: none.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DirectSpec {}

/// Keys of a star.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StarSpec {
    /// Hosts.
    pub hosts: usize,
}

/// Keys of a dumbbell.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DumbbellSpec {
    /// Hosts on each side: `h0`.. left, then right.
    pub pairs: usize,
}

/// Keys of a chain, and of a ring.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RowSpec {
    /// Switches.
    pub switches: usize,
    /// Hosts on each.
    pub hosts_per_switch: usize,
}

/// Keys of leaves and spines.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LeafSpineSpec {
    /// Leaves.
    pub leaves: usize,
    /// Spines.
    pub spines: usize,
    /// Hosts on each leaf.
    pub hosts_per_leaf: usize,
    /// Links between a leaf and a spine.
    #[serde(default = "one::<usize>")]
    pub links_per_spine: usize,
    /// Rate of the hosts of a leaf in that of its trunks, from which it follows; that of `[trunk] rate` unless given.
    pub oversubscription: Option<f64>,
}

/// Keys of rails.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RailSpec {
    /// Servers. Host r of server n is `h(n * rails + r)`.
    pub servers: usize,
    /// Hosts of a server.
    pub rails: usize,
    /// Servers that share their leaves; all unless given.
    pub servers_per_unit: Option<usize>,
    /// Spines.
    pub spines: usize,
    /// As of `leaf_spine`; that of `[trunk] rate` unless given.
    pub oversubscription: Option<f64>,
}

/// Keys of a Dragonfly+.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DragonflyPlusSpec {
    /// Groups.
    pub groups: usize,
    /// Leaves of a group.
    pub leaves: usize,
    /// Spines of a group.
    pub spines: usize,
    /// Hosts on each leaf.
    pub hosts_per_leaf: usize,
    /// Links between two groups, by the spines of both in turn.
    pub links_per_pair: usize,
}

/// Keys of a fat tree.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FatTreeSpec {
    /// Ports per switch, even.
    pub k: usize,
}

/// Where the topology file is.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HpccFileSpec {
    /// The file; beside this one unless the path is absolute.
    pub file: String,
}

/// Nodes and links one by one.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CustomSpec {
    /// Names of hosts.
    pub hosts: Vec<String>,
    /// Names of switches.
    pub switches: Vec<String>,
    /// Links.
    pub links: Vec<CustomLink>,
    /// Addresses of hosts that do not get one by their place in the list.
    #[serde(default)]
    pub macs: BTreeMap<String, String>,
}

/// A link of a custom topology.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CustomLink {
    /// One end.
    pub a: String,
    /// The other end.
    pub b: String,
    /// Rate; that of `[link]` unless given.
    pub rate: Option<Rate>,
    /// One-way delay; that of `[link]` unless given.
    pub delay: Option<Duration>,
    /// Share of frames lost on it, data and all others but pauses; that of `[link]` unless given.
    pub loss: Option<f64>,
    /// Share of PFC frames lost on it; that of `[link]` unless given.
    pub pause_loss: Option<f64>,
    /// Its share among equal paths, 1 to 64.
    #[serde(default = "one::<u32>")]
    pub weight: u32,
}

/// Which of its equal paths a switch sends a frame by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RoutingMode {
    /// One for all frames of a flow, by a hash of the 5-tuple.
    #[default]
    Ecmp,
    /// Any, frame by frame: packet spraying.
    Spray,
}

/// Routing in switches.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct RoutingSpec {
    /// Among equal paths.
    pub mode: RoutingMode,
    /// From the failure or the repair of a link to routes that know of it.
    pub convergence: Duration,
}

impl Default for RoutingSpec {
    fn default() -> Self {
        Self { mode: RoutingMode::Ecmp, convergence: Duration::of(100_000) }
    }
}

/// Links between two nodes fail, both ways.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FailureSpec {
    /// One end.
    pub a: String,
    /// The other end.
    pub b: String,
    /// When.
    pub at: Duration,
    /// When they work again; never unless given.
    pub repair: Option<Duration>,
}

/// A kind of link.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct LinkSpec {
    /// Rate, both ways.
    pub rate: Rate,
    /// One-way delay of the cable.
    pub delay: Duration,
    /// Share of frames lost on it, data and all others but pauses.
    pub loss: f64,
    /// Share of PFC frames lost on it.
    pub pause_loss: f64,
}

/// Links between switches: what is not said is as in `[link]`.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct TrunkSpec {
    /// Rate, both ways; that of `[link]` unless given.
    pub rate: Option<Rate>,
    /// One-way delay of the cable; that of `[link]` unless given.
    pub delay: Option<Duration>,
    /// Share of frames lost on it, data and all others but pauses; that of `[link]` unless given.
    pub loss: Option<f64>,
    /// Share of PFC frames lost on it; that of `[link]` unless given.
    pub pause_loss: Option<f64>,
}

impl TrunkSpec {
    /// A link between switches where others are as `link`.
    pub(in crate::fabric) fn beside(&self, link: &LinkSpec) -> LinkSpec {
        LinkSpec {
            rate: self.rate.unwrap_or(link.rate),
            delay: self.delay.unwrap_or(link.delay),
            loss: self.loss.unwrap_or(link.loss),
            pause_loss: self.pause_loss.unwrap_or(link.pause_loss),
        }
    }
}

impl Default for LinkSpec {
    fn default() -> Self {
        Self { rate: Rate::of(100_000_000_000), delay: Duration::of(1000), loss: 0.0, pause_loss: 0.0 }
    }
}
