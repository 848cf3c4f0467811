//! `[host] transport`: what RoCEv2 hosts do about frames that are lost or overtake one another.

use super::FabricError;
use super::spec::{FabricSpec, Pattern, Protocol};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_endpoint::flow::{SelectiveRepeat, Transport};

/// Packets from the oldest one not acknowledged on, unless told.
const WINDOW: u32 = 4096;
/// Largest such number: half of the packet sequence numbers are told apart, and a bit is kept for each.
const MOST_WINDOW: u32 = 1 << 20;

/// How reliable flows of RoCEv2 hosts repair losses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TransportKind {
    /// A receiver takes packets in order; from a missing one on all are sent again.
    #[default]
    GoBackN,
    /// It takes them in any order and says which have arrived; only what was lost is sent again.
    SelectiveRepeat,
}

/// `[host.selective_repeat]`. Numbers are packets.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct SelectiveSpec {
    /// From the oldest one not acknowledged on that are sent, and that a receiver has room for, 2 to 1048576.
    #[schemars(extend("default" = WINDOW))]
    pub window: Option<u32>,
    /// A packet is lost when one sent so many packets after it has arrived, 1 to `window` - 1; a sixteenth of the window unless given.
    pub reorder_threshold: Option<u32>,
}

impl SelectiveSpec {
    fn window(&self) -> u32 {
        self.window.unwrap_or(WINDOW)
    }

    fn reorder_threshold(&self) -> u32 {
        self.reorder_threshold.unwrap_or((self.window() / 16).max(1))
    }
}

/// The transport of a flow.
pub(super) fn of(spec: &FabricSpec, reliable: bool) -> Transport {
    let host = &spec.host;
    match (reliable, host.transport) {
        (false, _) => Transport::Unreliable,
        (true, TransportKind::GoBackN) => Transport::Reliable,
        (true, TransportKind::SelectiveRepeat) => Transport::SelectiveRepeat(SelectiveRepeat {
            window: host.selective_repeat.window(),
            reorder_threshold: host.selective_repeat.reorder_threshold(),
            // Those of its path, once that is known.
            initial_round_trip: 0,
            reorder_time: 0,
        }),
    }
}

/// What contradicts the transport.
///
/// # Errors
/// The key and what to change.
pub(super) fn check(spec: &FabricSpec) -> Result<(), FabricError> {
    let wrong = |key: &str, got: String, must: String| {
        Err(FabricError::Range { what: format!("host.{key}"), got, must })
    };
    let host = &spec.host;
    if host.transport == TransportKind::GoBackN {
        return match spec.source.sets("host.selective_repeat") {
            true => wrong(
                "selective_repeat",
                "set".into(),
                "absent: transport = \"go_back_n\" takes packets in order; set transport = \"selective_repeat\"".into(),
            ),
            false => Ok(()),
        };
    }
    let got = || "selective_repeat".to_owned();
    if host.protocol == Protocol::Rclink {
        return wrong(
            "transport",
            got(),
            "absent: RC Link repairs losses by go-back-N or, in LITE mode, not at all".into(),
        );
    }
    // Ranks that engines sum for are RC queue pairs, which take packets in order.
    if !spec.workloads.iter().any(|w| w.reliable && w.kind != Pattern::IncAllReduce) {
        let must =
            "go_back_n: no workload is acknowledged by hosts; take `reliable = false` out of one, or this";
        return wrong("transport", got(), must.into());
    }
    let config = &host.selective_repeat;
    if !(2..=MOST_WINDOW).contains(&config.window()) {
        return wrong("selective_repeat.window", config.window().to_string(), format!("2 to {MOST_WINDOW}"));
    }
    if !(1..config.window()).contains(&config.reorder_threshold()) {
        let must = format!("1 to {}: below window, which is {}", config.window() - 1, config.window());
        return wrong("selective_repeat.reorder_threshold", config.reorder_threshold().to_string(), must);
    }
    Ok(())
}
