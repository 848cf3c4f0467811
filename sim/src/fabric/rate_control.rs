//! `[host.dcqcn]`: from what a file says to how fast a flow sends.

use super::FabricError;
use super::spec::{DcqcnSpec, FirmwareAlgorithm, HostSpec, Scheme};
use super::units::LINE;
use std::fmt::Display;
use weir_endpoint::dcqcn::firmware::{self, Dcqcn, DcqcnError, RateController};
use weir_endpoint::dcqcn::reaction_point::Params;
use weir_endpoint::dcqcn::scheme::{self, Outstanding};
use weir_endpoint::flow::Pace;

/// How often firmware looks unless told, ns.
pub(super) const FIRMWARE_PERIOD: u64 = 10_000;
/// Bytes of a work request unless told.
pub(super) const MESSAGE: u64 = 64 << 10;
/// Work requests of an adapter, before and after a CNP, and for how long, ns.
pub(super) const OUTSTANDING: (u32, u32, u64) = (16, 8, 300_000);

/// A parameter where a file says none, of both sets, in words.
pub(super) fn usual<T: PartialEq + Display>(of: impl Fn(&Params) -> T) -> String {
    let set = |set: fn(u64) -> Params| {
        let at = |line| of(&set(line));
        let (usual, follows) = (at(LINE), at(LINE) != at(2 * LINE));
        format!("{usual}{}", if follows { " at 100G" } else { "" })
    };
    match (set(Params::paper), set(Params::connectx)) {
        (paper, connectx) if paper == connectx => paper,
        (paper, connectx) => format!("{paper}; with `connectx` {connectx}"),
    }
}

fn params(d: &DcqcnSpec, line: u64) -> Params {
    let base = if d.connectx { Params::connectx(line) } else { Params::paper(line) };
    Params {
        gain: d.gain.unwrap_or(base.gain),
        initial_alpha: d.initial_alpha.unwrap_or(base.initial_alpha),
        rate_shift: d.rate_shift.unwrap_or(base.rate_shift),
        additive: d.additive.map_or(base.additive, |r| r.0),
        hyper: d.hyper.map_or(base.hyper, |r| r.0),
        increase_period: d.increase_period.map_or(base.increase_period, |t| t.0),
        alpha_period: d.alpha_period.map_or(base.alpha_period, |t| t.0),
        cut_period: d.cut_period.map_or(base.cut_period, |t| t.0),
        byte_threshold: d.byte_threshold.map_or(base.byte_threshold, |b| b.0),
        stages: d.stages.unwrap_or(base.stages),
        min_left_percent: d.min_left_percent.unwrap_or(base.min_left_percent),
        first_cnp_rate: d.first_cnp_rate.map(|r| r.0).or(base.first_cnp_rate),
        min_rate: d.min_rate.map_or(base.min_rate, |r| r.0),
        initial_rate: d.initial_rate.map_or(base.initial_rate, |r| r.0),
        ..base
    }
}

/// Keys that say nothing under a scheme, and why.
fn idle(d: &DcqcnSpec) -> Option<(&'static str, &'static str)> {
    let limits = [
        ("outstanding", d.outstanding.is_some()),
        ("outstanding_after_cnp", d.outstanding_after_cnp.is_some()),
        ("restore_after", d.restore_after.is_some()),
        ("message", d.message.is_some()),
    ];
    let firmware = [
        ("firmware_period", d.firmware_period.is_some()),
        ("firmware_algorithm", d.firmware_algorithm.is_some()),
    ];
    // What only DCQCN knows.
    let of_dcqcn = [
        ("gain", d.gain.is_some()),
        ("initial_alpha", d.initial_alpha.is_some()),
        ("rate_shift", d.rate_shift.is_some()),
        ("alpha_period", d.alpha_period.is_some()),
        ("byte_threshold", d.byte_threshold.is_some()),
        ("stages", d.stages.is_some()),
        ("hyper", d.hyper.is_some()),
        ("min_left_percent", d.min_left_percent.is_some()),
        ("first_cnp_rate", d.first_cnp_rate.is_some()),
    ];
    let set =
        |keys: &[(&'static str, bool)], why| keys.iter().find(|(_, set)| *set).map(|(key, _)| (*key, why));
    let backs_off = d.firmware_algorithm == Some(FirmwareAlgorithm::Backoff);
    let of_scheme = match d.scheme {
        None => set(&limits, "absent without `scheme`").or(set(&firmware, "absent without `scheme`")),
        Some(Scheme::Hardware) => set(&firmware, "absent under `scheme = \"hardware\"`"),
        Some(Scheme::FirmwareRate) => None,
        Some(Scheme::Firmware) => {
            set(&limits, "absent under `scheme = \"firmware\"`: nothing but its mask holds a flow back")
        }
    };
    let why = "absent under `firmware_algorithm = \"backoff\"`, which has no such constant";
    of_scheme.or_else(|| if backs_off { set(&of_dcqcn, why) } else { None })
}

/// How a flow with DCQCN sends on a link of rate `line`.
///
/// # Errors
/// A key that says nothing under the scheme.
pub(super) fn pace(host: &HostSpec, line: u64) -> Result<Pace, FabricError> {
    let d = &host.dcqcn;
    if let Some((key, why)) = idle(d) {
        let (what, got, must) = (format!("host.dcqcn.{key}"), "set".into(), why.into());
        return Err(FabricError::Range { what, got, must });
    }
    let params = params(d, line);
    let Some(scheme) = d.scheme else { return Ok(Pace::Dcqcn(params)) };
    let (normal, reduced, restore_after) = OUTSTANDING;
    let outstanding = Outstanding {
        normal: d.outstanding.unwrap_or(normal),
        reduced: d.outstanding_after_cnp.unwrap_or(reduced),
        restore_after: d.restore_after.map_or(restore_after, |t| t.0),
    };
    let dcqcn = Dcqcn {
        scheme: match scheme {
            Scheme::Hardware => scheme::Scheme::Hardware,
            Scheme::FirmwareRate => scheme::Scheme::FirmwareRate,
            Scheme::Firmware => scheme::Scheme::Firmware,
        },
        params,
        outstanding,
        firmware_algorithm: match d.firmware_algorithm.unwrap_or_default() {
            FirmwareAlgorithm::Dcqcn => firmware::FirmwareAlgorithm::Dcqcn,
            FirmwareAlgorithm::Backoff => firmware::FirmwareAlgorithm::Backoff,
        },
        firmware_period: d.firmware_period.map_or(FIRMWARE_PERIOD, |t| t.0),
    };
    let message = d.message.map_or(MESSAGE, |size| size.0);
    let request = u32::try_from(message.div_ceil(u64::from(host.payload))).unwrap_or(u32::MAX);
    Ok(Pace::Scheme { dcqcn, request })
}

/// Tries rate control before any flow starts.
///
/// # Errors
/// Parameters that contradict one another.
pub(super) fn check(pace: &Pace) -> Result<(), DcqcnError> {
    let dcqcn = match pace {
        Pace::Dcqcn(params) => Dcqcn::plain(*params),
        Pace::Scheme { dcqcn, .. } => *dcqcn,
        Pace::Line | Pace::Fixed(_) | Pace::Acks(_) => return Ok(()),
    };
    RateController::new(&dcqcn, 0).map(|_| ())
}
