//! `[ns3]`: constants of profile "ns3-hpcc" that a file may change. Defaults are those of the published simulator and of its
//! preset for 100 Gb/s; keys are called after its own.

use super::FabricError;
use super::units::{Duration, Rate, Size};
use crate::models::hpcc::{RESERVE, RESUME_OFFSET};
use crate::ns3::config::{Control, SHIFT};
use crate::ns3::flow::NACK_INTERVAL;
use crate::ns3::port::PAYLOAD;
use schemars::JsonSchema;
use serde::Deserialize;
use std::num::NonZeroU64;
use weir_endpoint::dcqcn::ns3::Params;

/// Longest payload, bytes.
const MOST_PAYLOAD: u64 = 9000;

/// Constants of the published simulator.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Ns3Spec {
    /// Reserve of each ingress group, taken off the pool once per port (DEV-53).
    pub reserve: Size,
    /// A paused group resumes this far below its threshold.
    pub resume_offset: Size,
    /// Alpha of a port no faster than the hosts is 2^-shift (0 to 31); one less for each doubling of the rate.
    pub shift: u32,
    /// `PACKET_PAYLOAD_SIZE`: payload of a full frame.
    pub payload: Size,
    /// A receiver says NACK about one gap again after this time.
    pub nack_interval: Duration,
    /// `GLOBAL_T`: round trip and bandwidth-delay product are the largest of all pairs of hosts, not each pair's own.
    pub global_t: bool,
    /// `RATE_BOUND`: frames are spaced by the rate of their flow, not by that of the line.
    pub rate_bound: bool,
    /// `ACK_HIGH_PRIO`: the priority whose pause holds back the ACKs a host sends (0 to 7); 0, of HPCC, PINT and DCTCP 3, unless given.
    pub ack_gate: Option<u8>,
    /// `EWMA_GAIN`: gain of DCQCN's alpha, above 0, at most 1.
    #[schemars(extend("default" = Params::default().g))]
    pub ewma_gain: Option<f64>,
    /// `ALPHA_RESUME_INTERVAL` of DCQCN.
    #[schemars(extend("default" = Duration::of(Params::default().alpha_period.get())))]
    pub alpha_resume_interval: Option<Duration>,
    /// `RATE_DECREASE_INTERVAL` of DCQCN.
    #[schemars(extend("default" = Duration::of(Params::default().decrease_period.get())))]
    pub rate_decrease_interval: Option<Duration>,
    /// `RP_TIMER` of DCQCN: between two increases.
    #[schemars(extend("default" = Duration::of(Params::default().increase_period.get())))]
    pub rp_timer: Option<Duration>,
    /// `FAST_RECOVERY_TIMES` of DCQCN: increases in which the target stays as it is.
    #[schemars(extend("default" = Params::default().fast_recovery_steps))]
    pub fast_recovery_times: Option<u32>,
    /// `RATE_AI` of DCQCN.
    #[schemars(extend("default" = Rate::of(Params::default().ai_bps)))]
    pub rate_ai: Option<Rate>,
    /// `RATE_HAI` of DCQCN.
    #[schemars(extend("default" = Rate::of(Params::default().hai_bps)))]
    pub rate_hai: Option<Rate>,
    /// `MIN_RATE` of DCQCN.
    #[schemars(extend("default" = Rate::of(Params::default().min_rate_bps)))]
    pub min_rate: Option<Rate>,
    /// `CLAMP_TARGET_RATE` of DCQCN: every cut pulls the target down to the rate.
    #[schemars(extend("default" = Params::default().clamp_target))]
    pub clamp_target_rate: Option<bool>,
}

impl Default for Ns3Spec {
    fn default() -> Self {
        Self {
            reserve: Size::of(RESERVE as u64),
            resume_offset: Size::of(RESUME_OFFSET as u64),
            shift: SHIFT,
            payload: Size::of(PAYLOAD as u64),
            nack_interval: Duration::of(NACK_INTERVAL),
            global_t: true,
            rate_bound: true,
            ack_gate: None,
            ewma_gain: None,
            alpha_resume_interval: None,
            rate_decrease_interval: None,
            rp_timer: None,
            fast_recovery_times: None,
            rate_ai: None,
            rate_hai: None,
            min_rate: None,
            clamp_target_rate: None,
        }
    }
}

fn range(key: &str, got: impl std::fmt::Display, must: &str) -> FabricError {
    FabricError::Range { what: format!("ns3.{key}"), got: got.to_string(), must: must.into() }
}

impl Ns3Spec {
    /// # Errors
    /// [`FabricError::Range`]: a value the simulator has no place for.
    pub(super) fn check(&self) -> Result<(), FabricError> {
        for (key, size) in [("reserve", self.reserve.0), ("resume_offset", self.resume_offset.0)] {
            if size > u64::from(u32::MAX) {
                return Err(range(key, size, "at most 4294967295 bytes"));
            }
        }
        if self.shift > 31 {
            return Err(range("shift", self.shift, "0 to 31"));
        }
        if !(1..=MOST_PAYLOAD).contains(&self.payload.0) {
            return Err(range("payload", self.payload.0, "1 to 9000 bytes"));
        }
        if let Some(gate) = self.ack_gate.filter(|gate| *gate > 7) {
            return Err(range("ack_gate", gate, "0 to 7"));
        }
        if let Some(gain) = self.ewma_gain.filter(|gain| !(*gain > 0.0 && *gain <= 1.0)) {
            return Err(range("ewma_gain", gain, "above 0 and at most 1"));
        }
        let periods = [
            ("alpha_resume_interval", self.alpha_resume_interval),
            ("rate_decrease_interval", self.rate_decrease_interval),
            ("rp_timer", self.rp_timer),
        ];
        match periods.iter().find(|(_, period)| period.is_some_and(|period| period.0 == 0)) {
            Some((key, _)) => Err(range(key, 0, "1ns or more")),
            None => Ok(()),
        }
    }

    /// A key of DCQCN that is set.
    fn of_dcqcn(&self) -> Option<&'static str> {
        let set = [
            ("ewma_gain", self.ewma_gain.is_some()),
            ("alpha_resume_interval", self.alpha_resume_interval.is_some()),
            ("rate_decrease_interval", self.rate_decrease_interval.is_some()),
            ("rp_timer", self.rp_timer.is_some()),
            ("fast_recovery_times", self.fast_recovery_times.is_some()),
            ("rate_ai", self.rate_ai.is_some()),
            ("rate_hai", self.rate_hai.is_some()),
            ("min_rate", self.min_rate.is_some()),
            ("clamp_target_rate", self.clamp_target_rate.is_some()),
        ];
        set.iter().find(|(_, set)| *set).map(|(key, _)| *key)
    }

    /// DCQCN with the constants of the file.
    ///
    /// # Errors
    /// [`FabricError::Profile`]: they are given, but the traffic has another congestion control.
    pub(super) fn control(&self, control: Control) -> Result<Control, FabricError> {
        let Control::Dcqcn(published) = control else {
            return match self.of_dcqcn() {
                None => Ok(control),
                Some(key) => Err(FabricError::Profile {
                    key: format!("ns3.{key}"),
                    why: "it is a constant of DCQCN, and the workloads have another `cc`; take the key out"
                        .into(),
                }),
            };
        };
        let period = |said: Option<Duration>, published| {
            said.and_then(|period| NonZeroU64::new(period.0)).unwrap_or(published)
        };
        Ok(Control::Dcqcn(Params {
            g: self.ewma_gain.unwrap_or(published.g),
            alpha_period: period(self.alpha_resume_interval, published.alpha_period),
            decrease_period: period(self.rate_decrease_interval, published.decrease_period),
            increase_period: period(self.rp_timer, published.increase_period),
            fast_recovery_steps: self.fast_recovery_times.unwrap_or(published.fast_recovery_steps),
            ai_bps: self.rate_ai.map_or(published.ai_bps, |rate| rate.0),
            hai_bps: self.rate_hai.map_or(published.hai_bps, |rate| rate.0),
            min_rate_bps: self.min_rate.map_or(published.min_rate_bps, |rate| rate.0),
            clamp_target: self.clamp_target_rate.unwrap_or(published.clamp_target),
            ..published
        }))
    }
}
