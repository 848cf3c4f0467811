//! What all switches are.

use crate::fabric::units::{Duration, Size};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// When a switch begins to send a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Forwarding {
    /// When its last bit is in.
    StoreAndForward,
    /// When its headers are in, if the egress is free, unpaused, empty, and not faster than the
    /// ingress (it would run dry); otherwise like store-and-forward.
    CutThrough,
}

/// What joins the inputs of a switch to its outputs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CoreKind {
    /// One memory, from which every output takes as fast as its line.
    #[default]
    OutputQueued,
    /// A memory per input, a crossbar, iSLIP.
    Islip,
    /// The same with parallel iterative matching.
    Pim,
    /// The same with one FIFO per input: what is in front holds back all behind it.
    Fifo,
}

/// How frames pass a crossbar.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CrossbarMode {
    /// A match lasts as long as its frame.
    #[default]
    Packet,
    /// A match lasts one cell; frames are put together at the output.
    Cell,
}

/// All switches.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct SwitchSpec {
    /// When frames begin to leave.
    pub forwarding: Forwarding,
    /// What joins inputs and outputs. With a crossbar `buffer.size` is the memory of each input, which sets aside what its port needs.
    pub core: CoreKind,
    /// Iterations of a match, 1 to 16 (islip, pim).
    pub iterations: u32,
    /// Speed of the crossbar, in those of the fastest line, 1 to 8.
    pub speedup: f64,
    /// How frames pass it.
    pub crossbar_mode: CrossbarMode,
    /// Bytes of a cell, 16 to 16384: what a slot moves.
    pub cell: Size,
    /// Bytes of a class at an output from which on it takes no further frame of that class.
    pub output_buffer: Size,
    /// From the wire to admission (SW-121 T_ingress).
    pub ingress: Duration,
    /// Through the fabric of the switch (T_crossbar), counted before admission.
    pub crossbar: Duration,
    /// From the queue to the wire (T_egress).
    pub egress: Duration,
    /// A weir configuration without ports: `[qos]`, `[buffer]`, `[[wred]]`, `[pfc]`, `[watchdog]`, ...
    #[schemars(schema_with = "crate::fabric::json_schema::switch_config")]
    pub config: toml::Table,
}

impl Default for SwitchSpec {
    fn default() -> Self {
        Self {
            forwarding: Forwarding::StoreAndForward,
            core: CoreKind::OutputQueued,
            iterations: 1,
            speedup: 1.0,
            crossbar_mode: CrossbarMode::Packet,
            cell: Size::of(64),
            output_buffer: Size::of(16 << 10),
            ingress: Duration::of(0),
            crossbar: Duration::of(0),
            egress: Duration::of(0),
            config: toml::Table::new(),
        }
    }
}
