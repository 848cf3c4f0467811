//! `[host.nscc]`: the constants of Ultra Ethernet's sender-based congestion control.

use super::FabricError;
use super::congestion::check_real;
use super::units::{Duration, LINE};
use schemars::JsonSchema;
use serde::Deserialize;
use weir_dataplane::types::Nanos;
use weir_endpoint::congestion::nscc::Params;

/// `[host.nscc]`. Increases are in packets, for a bandwidth-delay product of 150 000 bytes, and scaled with that of the
/// network.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct NsccSpec {
    /// Queueing delay aimed at; `base_rtt` unless given.
    pub target_delay: Option<Duration>,
    /// Added per window without marks, with a delay above the target.
    #[schemars(extend("default" = usual().fair))]
    pub fair: Option<f64>,
    /// Added per window without marks and delay, for a target of 12 us.
    #[schemars(extend("default" = usual().proportional))]
    pub proportional: Option<f64>,
    /// Share of the acknowledged bytes that is added on an empty path.
    #[schemars(extend("default" = usual().fast))]
    pub fast: Option<f64>,
    /// Added once per round trip.
    #[schemars(extend("default" = usual().eta))]
    pub eta: Option<f64>,
    /// Share of the excess delay that a decrease takes.
    #[schemars(extend("default" = usual().gamma))]
    pub gamma: Option<f64>,
    /// Weight of the newest delay in the mean.
    #[schemars(extend("default" = usual().delay_gain))]
    pub delay_gain: Option<f64>,
    /// Largest window, and the first, in bandwidth-delay products.
    #[schemars(extend("default" = usual().max_window))]
    pub max_window: Option<f64>,
    /// The window becomes what arrives when that is far too little.
    #[schemars(extend("default" = usual().quick_adapt_gate.is_some()))]
    pub quick_adapt: Option<bool>,
    /// Far too little, of `quick_adapt`, is less than the largest window by two to the power of this.
    #[schemars(extend("default" = usual().quick_adapt_gate))]
    pub quick_adapt_gate: Option<u32>,
}

/// What a path and its link give a sender: line rate (bit/s), base round trip of the network (ns), bytes of a full packet
/// as payload and on the wire.
pub(super) struct Link {
    pub line_bps: u64,
    pub base_rtt: Nanos,
    pub payload: u64,
    pub packet: u64,
}

/// Constants where a file says none, but for what the path says.
fn usual() -> Params {
    NsccSpec::default().params(&Link { line_bps: LINE, base_rtt: 1, payload: 1, packet: 1 })
}

impl NsccSpec {
    /// # Errors
    /// A value outside what is possible.
    pub fn check(&self) -> Result<(), FabricError> {
        let positive = f64::MIN_POSITIVE;
        for (key, value, low, high) in [
            ("fair", self.fair, 0.0, 1e6),
            ("proportional", self.proportional, 0.0, 1e6),
            ("fast", self.fast, 0.0, 1.0),
            ("eta", self.eta, 0.0, 1e6),
            ("gamma", self.gamma, 0.0, 1.0),
            ("delay_gain", self.delay_gain, positive, 1.0),
            ("max_window", self.max_window, 0.01, 1000.0),
        ] {
            check_real(&format!("host.nscc.{key}"), value, low, high)?;
        }
        let wrong = |key: &str, got: String, must: &str| {
            Err(FabricError::Range { what: format!("host.nscc.{key}"), got, must: must.into() })
        };
        if self.target_delay.is_some_and(|t| t.0 == 0) {
            return wrong("target_delay", "0".into(), "longer than 0");
        }
        match self.quick_adapt_gate {
            Some(_) if self.quick_adapt == Some(false) => {
                wrong("quick_adapt_gate", "set".into(), "absent with quick_adapt = false")
            }
            Some(gate) if gate > 30 => wrong("quick_adapt_gate", gate.to_string(), "0 to 30"),
            _ => Ok(()),
        }
    }

    pub(super) fn params(&self, link: &Link) -> Params {
        Params {
            line_bps: link.line_bps,
            payload: link.payload,
            packet: link.packet,
            base_rtt: link.base_rtt,
            target_delay: self.target_delay.map_or(link.base_rtt, |t| t.0),
            fair: self.fair.unwrap_or(5.0),
            proportional: self.proportional.unwrap_or(4.0),
            fast: self.fast.unwrap_or(0.25),
            eta: self.eta.unwrap_or(0.15),
            gamma: self.gamma.unwrap_or(0.8),
            delay_gain: self.delay_gain.unwrap_or(0.0125),
            max_window: self.max_window.unwrap_or(1.5),
            quick_adapt_gate: self.quick_adapt.unwrap_or(true).then(|| self.quick_adapt_gate.unwrap_or(3)),
        }
    }
}
