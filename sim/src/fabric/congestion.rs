//! Congestion control that is driven by acknowledgements: from what a file says to what senders and switches do.

use super::FabricError;
use super::faults::Faults;
use super::hosts::packet_bytes;
use super::idle;
use super::lots;
use super::nscc;
use super::routes::Routes;
use super::spec::{Congestion, FabricSpec, HostSpec, RoutingMode};
use super::topology::{Plan, key_of_rate};
use super::units::{Duration, LINE, Rate, at_100g};
use super::workload::Planned;
use crate::ns3::config::{Control, WindowRule};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use weir_dataplane::rng::Rng;
use weir_dataplane::types::{MIN_FRAME_BYTES, Nanos, WIRE_OVERHEAD_BYTES, wire_bytes};
use weir_endpoint::congestion::pint::{Departure, PortLoad};
use weir_endpoint::congestion::telemetry::{
    BYTES_UNIT, INT_BYTES, IntHop, MAX_HOPS, Stamp, TIME_BYTES, rate_code,
};
use weir_endpoint::congestion::{Algorithm, Window, dctcp, hpcc, pint, swift, timely};
use weir_endpoint::flow::{Pace, Transport};
use weir_layout::{agree, counted};

/// How the bytes in flight follow the rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum WindowKind {
    /// Any number.
    None,
    /// `window_bytes`.
    Fixed,
    /// `window_bytes` times the share the rate has of the line.
    Variable,
}

/// `[host.hpcc]`: HPCC, with INT or with PINT.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct HpccSpec {
    /// Load aimed at.
    #[schemars(extend("default" = usual_hpcc(LINE).target))]
    pub target: Option<f64>,
    /// Added in every step; a 2500th of the line unless given.
    #[schemars(extend("x-default" = at_100g(|line| usual_hpcc(line).ai_bps)))]
    pub additive: Option<Rate>,
    /// Lowest rate; a hundredth of the line unless given.
    #[schemars(extend("x-default" = at_100g(|line| usual_hpcc(line).min_rate_bps)))]
    pub min_rate: Option<Rate>,
    /// Additive steps in a row before one by a factor.
    #[schemars(extend("default" = usual_hpcc(LINE).mi_thresh))]
    pub mi_thresh: Option<u32>,
    /// The rate follows every acknowledgement, not one per window (INT).
    #[schemars(extend("default" = usual_hpcc(LINE).fast_react))]
    pub fast_react: Option<bool>,
    /// A rate per hop, of which the lowest counts (INT).
    #[schemars(extend("default" = usual_hpcc(LINE).multi_rate))]
    pub multi_rate: Option<bool>,
    /// Between windows, hops without a queue are passed over (INT).
    #[schemars(extend("default" = usual_hpcc(LINE).sample_feedback))]
    pub sample_feedback: Option<bool>,
    /// Multiplier of the units of INT records, one for the fabric; a 25th of the Gbit/s of the fastest host that sends by HPCC, as long
    /// as 128 bytes times that are no more than a full frame, unless given.
    #[schemars(extend("x-default" = format!("{} at 100G", usual_hpcc(LINE).int_multi)))]
    pub int_multi: Option<u32>,
    /// Base of the load codes (PINT).
    #[schemars(extend("default" = pint::Params::default().log_base))]
    pub log_base: Option<f64>,
    /// Share of the acknowledgements that are heeded (PINT).
    #[schemars(extend("default" = pint::Params::default().probability))]
    pub probability: Option<f64>,
}

/// `[host.timely]`.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct TimelySpec {
    /// Weight of the newest difference.
    #[schemars(extend("default" = usual_timely(LINE).alpha))]
    pub alpha: Option<f64>,
    /// Factor of a decrease.
    #[schemars(extend("default" = usual_timely(LINE).beta))]
    pub beta: Option<f64>,
    /// Below this round trip the rate rises.
    #[schemars(extend("default" = Duration::of(usual_timely(LINE).t_low)))]
    pub t_low: Option<Duration>,
    /// Above this round trip the rate falls.
    #[schemars(extend("default" = Duration::of(usual_timely(LINE).t_high)))]
    pub t_high: Option<Duration>,
    /// Unit of the gradient.
    #[schemars(extend("default" = Duration::of(usual_timely(LINE).min_rtt)))]
    pub min_rtt: Option<Duration>,
    /// Added in the first five increases; a 1000th of the line unless given.
    #[schemars(extend("x-default" = at_100g(|line| usual_timely(line).ai_bps)))]
    pub additive: Option<Rate>,
    /// Added in increases after the first five; a 200th of the line unless given.
    #[schemars(extend("x-default" = at_100g(|line| usual_timely(line).hai_bps)))]
    pub hyper: Option<Rate>,
    /// Lowest rate; a hundredth of the line unless given.
    #[schemars(extend("x-default" = at_100g(|line| usual_timely(line).min_rate_bps)))]
    pub min_rate: Option<Rate>,
}

/// `[host.dctcp]`.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct DctcpSpec {
    /// Gain of alpha.
    #[schemars(extend("default" = usual_dctcp(LINE).g))]
    pub gain: Option<f64>,
    /// Added once per window.
    #[schemars(extend("default" = Rate::of(usual_dctcp(LINE).ai_bps)))]
    pub additive: Option<Rate>,
    /// Lowest rate; a hundredth of the line unless given.
    #[schemars(extend("x-default" = at_100g(|line| usual_dctcp(line).min_rate_bps)))]
    pub min_rate: Option<Rate>,
}

/// `[host.swift]`. Windows are in packets.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct SwiftSpec {
    /// Target delay without hops and with a large window.
    #[schemars(extend("default" = Duration::of(usual_swift().base_target)))]
    pub base_target: Option<Duration>,
    /// Added to the target per switch.
    #[schemars(extend("default" = Duration::of(usual_swift().hop_scale)))]
    pub hop_scale: Option<Duration>,
    /// Most that a small window adds.
    #[schemars(extend("default" = Duration::of(usual_swift().flow_range)))]
    pub flow_range: Option<Duration>,
    /// Window below which all of `flow_range` is added.
    #[schemars(extend("default" = usual_swift().flow_min))]
    pub flow_min: Option<f64>,
    /// Window from which on nothing of `flow_range` is added.
    #[schemars(extend("default" = usual_swift().flow_max))]
    pub flow_max: Option<f64>,
    /// Packets added per round trip.
    #[schemars(extend("default" = usual_swift().ai))]
    pub additive: Option<f64>,
    /// Share of the excess delay that a decrease takes.
    #[schemars(extend("default" = usual_swift().beta))]
    pub beta: Option<f64>,
    /// Largest share a decrease takes.
    #[schemars(extend("default" = usual_swift().max_mdf))]
    pub max_mdf: Option<f64>,
    /// Smallest window.
    #[schemars(extend("default" = usual_swift().min_cwnd))]
    pub min_window: Option<f64>,
    /// Largest window; twice the bandwidth-delay product of the path unless given.
    pub max_window: Option<f64>,
    /// First window; the largest unless given.
    pub initial_window: Option<f64>,
    /// Timeouts in a row after which the window is the smallest.
    #[schemars(extend("default" = usual_swift().retx_reset))]
    pub retx_reset: Option<u32>,
}

impl Congestion {
    /// Those of RoCEv2 hosts.
    pub(super) const OF_ROCE: [Self; 9] = [
        Self::Dcqcn,
        Self::Hpcc,
        Self::HpccPint,
        Self::Timely,
        Self::Dctcp,
        Self::Swift,
        Self::Nscc,
        Self::FixedWindow,
        Self::None,
    ];

    /// Its name in a file.
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Dcqcn => "dcqcn",
            Self::Backoff => "backoff",
            Self::Hpcc => "hpcc",
            Self::HpccPint => "hpcc-pint",
            Self::Timely => "timely",
            Self::Dctcp => "dctcp",
            Self::Swift => "swift",
            Self::Nscc => "nscc",
            Self::FixedWindow => "fixed_window",
            Self::None => "none",
        }
    }

    /// Driven by acknowledgements.
    pub(super) fn hears_acks(self) -> bool {
        !matches!(self, Self::Dcqcn | Self::Backoff | Self::None)
    }

    /// Whether its window follows `host.window`.
    fn has_window_rule(self) -> bool {
        matches!(self, Self::Hpcc | Self::HpccPint | Self::Timely | Self::Dctcp)
    }
}

/// # Errors
/// A number outside `low` to `high`; a `low` of [`f64::MIN_POSITIVE`] says above 0.
pub(super) fn check_real(key: &str, value: Option<f64>, low: f64, high: f64) -> Result<(), FabricError> {
    let Some(x) = value.filter(|x| !(low..=high).contains(x)) else { return Ok(()) };
    let low = if low == f64::MIN_POSITIVE { "above 0".to_owned() } else { format!("from {low}") };
    Err(wrong(key, &x, format!("{low} and at most {high}")))
}

fn wrong(key: &str, got: &impl ToString, must: impl Into<String>) -> FabricError {
    FabricError::Range { what: key.into(), got: got.to_string(), must: must.into() }
}

/// What contradicts the congestion control of the flows.
///
/// # Errors
/// A key that says nothing, or a value outside what is possible.
pub(super) fn check(spec: &FabricSpec) -> Result<(), FabricError> {
    let mut faults = Faults::default();
    let used = |cc: &[Congestion]| spec.workloads.iter().any(|w| cc.contains(&w.cc()));
    use Congestion::{FixedWindow, Hpcc};
    // Of a section that says nothing its keys say nothing either.
    let idle = idle::of_hosts(spec);
    let host = &spec.host;
    if host.window == Some(WindowKind::None) && host.window_bytes.is_some() && !used(&[FixedWindow, Hpcc]) {
        faults.add(wrong("host.window_bytes", &"set", "absent with window = \"none\""));
    }
    if host.window_bytes.is_some_and(|bytes| bytes.0 == 0) {
        faults.add(wrong("host.window_bytes", &0, "at least 1"));
    }
    if host.base_rtt.is_some_and(|t| t.0 == 0) {
        faults.add(wrong("host.base_rtt", &0, "longer than 0"));
    }
    let (h, t, d, s) = (&host.hpcc, &host.timely, &host.dctcp, &host.swift);
    let positive = f64::MIN_POSITIVE;
    let reals = [
        ("hpcc.target", h.target, positive, 1.0),
        ("hpcc.log_base", h.log_base, 1.0002, 16.0),
        ("hpcc.probability", h.probability, positive, 1.0),
        ("timely.alpha", t.alpha, positive, 1.0),
        ("timely.beta", t.beta, positive, 1.0),
        ("dctcp.gain", d.gain, positive, 1.0),
        ("swift.flow_min", s.flow_min, 1e-6, 1e6),
        ("swift.flow_max", s.flow_max, 1e-6, 1e6),
        ("swift.additive", s.additive, positive, 1e6),
        ("swift.beta", s.beta, positive, 1.0),
        ("swift.max_mdf", s.max_mdf, positive, 0.999),
        ("swift.min_window", s.min_window, 1e-6, 1e6),
        ("swift.max_window", s.max_window, 1e-6, 1e6),
        ("swift.initial_window", s.initial_window, 1e-6, 1e6),
    ];
    for (key, value, low, high) in
        reals.map(|(key, value, low, high)| (format!("host.{key}"), value, low, high))
    {
        if !idle.holds(&key) {
            faults.keep(check_real(&key, value, low, high));
        }
    }
    if h.int_multi == Some(0) || h.int_multi.is_some_and(|m| m > 1 << 20) {
        faults.add(wrong("host.hpcc.int_multi", &h.int_multi.unwrap_or(0), "1 to 1048576"));
    }
    if t.min_rtt.is_some_and(|rtt| rtt.0 == 0) {
        faults.add(wrong("host.timely.min_rtt", &0, "longer than 0"));
    }
    let timely = timely_params(t, LINE);
    let [low, high] = [timely.t_low, timely.t_high].map(Duration::of);
    if low.0 > high.0 {
        let key = if t.t_low.is_some() { "t_low" } else { "t_high" };
        let (got, must) = match key {
            "t_low" => (low, format!("at most t_high, which is {high}")),
            _ => (high, format!("at least t_low, which is {low}")),
        };
        faults.add(wrong(&format!("host.timely.{key}"), &got, must));
    }
    faults.keep(host.nscc.check());
    let swift = swift_params(s, 1, 1, 0, 0.0);
    if swift.flow_min >= swift.flow_max {
        let must = format!("below flow_max, which is {}", swift.flow_max);
        faults.add(wrong("host.swift.flow_min", &swift.flow_min, must));
    }
    if s.max_window.is_some_and(|max| max < swift.min_cwnd) {
        let must = format!("at least min_window, which is {}", swift.min_cwnd);
        faults.add(wrong("host.swift.max_window", &swift.max_cwnd, must));
    }
    if let Some(first) =
        s.initial_window.filter(|w| *w < swift.min_cwnd || s.max_window.is_some_and(|max| *w > max))
    {
        faults.add(wrong("host.swift.initial_window", &first, "at least min_window and at most max_window"));
    }
    if host.window == Some(WindowKind::None) && used(&[Hpcc]) {
        let must =
            "fixed or variable: hpcc measures queues by the window; or congestion_control = \"hpcc-pint\"";
        faults.add(wrong("host.window", &"none", must));
    }
    faults.keep(idle.refuse());
    faults.refuse()
}

/// Constants of HPCC where a file says none, on a line of so many bit/s.
fn usual_hpcc(line: u64) -> hpcc::Params {
    hpcc_params(&HpccSpec::default(), line, 0, 0)
}

/// The same of TIMELY.
fn usual_timely(line: u64) -> timely::Params {
    timely_params(&TimelySpec::default(), line)
}

/// The same of DCTCP.
fn usual_dctcp(line: u64) -> dctcp::Params {
    dctcp_params(&DctcpSpec::default(), line, 1)
}

/// The same of Swift, but for what the path says.
fn usual_swift() -> swift::Params {
    swift_params(&SwiftSpec::default(), 1, 1, 0, 0.0)
}

fn hpcc_params(h: &HpccSpec, line: u64, base_rtt: u64, bdp: u64) -> hpcc::Params {
    let base = hpcc::Params::default();
    hpcc::Params {
        line_bps: line,
        base_rtt,
        bdp,
        target: h.target.unwrap_or(base.target),
        ai_bps: h.additive.map_or(line / 2500, |r| r.0),
        min_rate_bps: h.min_rate.map_or(line / 100, |r| r.0),
        mi_thresh: h.mi_thresh.unwrap_or(base.mi_thresh),
        fast_react: h.fast_react.unwrap_or(base.fast_react),
        multi_rate: h.multi_rate.unwrap_or(base.multi_rate),
        sample_feedback: h.sample_feedback.unwrap_or(base.sample_feedback),
        int_multi: h.int_multi.map_or((line / 25_000_000_000).max(1), u64::from),
    }
}

/// Multiplier of the units of INT records as the published runs have it: of the line of their NICs, here of the fastest one that
/// sends by it.
pub(super) fn published_int_multi(host: &HostSpec, fastest: u64) -> u64 {
    hpcc_params(&host.hpcc, fastest, 0, 0).int_multi
}

/// Multiplier of the units of INT records: one for all, since a switch does not know whose record it writes.
fn int_multi(spec: &FabricSpec, fastest: u64, payload: u64) -> u64 {
    let usual = published_int_multi(&spec.host, fastest);
    if spec.host.hpcc.int_multi.is_some() {
        return usual;
    }
    // Steps of no unit are passed over: a frame has to be one at least.
    let frame = packet_bytes(spec, payload + u64::from(INT_BYTES)) - WIRE_OVERHEAD_BYTES;
    usual.min((frame / BYTES_UNIT).max(1))
}

fn pint_params(h: &HpccSpec, line: u64) -> pint::Params {
    let base = pint::Params::default();
    pint::Params {
        line_bps: line,
        target: h.target.unwrap_or(base.target),
        ai_bps: h.additive.map_or(line / 2500, |r| r.0),
        min_rate_bps: h.min_rate.map_or(line / 100, |r| r.0),
        mi_thresh: h.mi_thresh.unwrap_or(base.mi_thresh),
        log_base: h.log_base.unwrap_or(base.log_base),
        probability: h.probability.unwrap_or(base.probability),
    }
}

fn timely_params(t: &TimelySpec, line: u64) -> timely::Params {
    let base = timely::Params::default();
    timely::Params {
        line_bps: line,
        alpha: t.alpha.unwrap_or(base.alpha),
        beta: t.beta.unwrap_or(base.beta),
        t_low: t.t_low.map_or(base.t_low, |d| d.0),
        t_high: t.t_high.map_or(base.t_high, |d| d.0),
        min_rtt: t.min_rtt.map_or(base.min_rtt, |d| d.0),
        ai_bps: t.additive.map_or(line / 1000, |r| r.0),
        hai_bps: t.hyper.map_or(line / 200, |r| r.0),
        min_rate_bps: t.min_rate.map_or(line / 100, |r| r.0),
    }
}

fn dctcp_params(d: &DctcpSpec, line: u64, payload: u64) -> dctcp::Params {
    let base = dctcp::Params::default();
    dctcp::Params {
        line_bps: line,
        g: d.gain.unwrap_or(base.g),
        ai_bps: d.additive.map_or(base.ai_bps, |r| r.0),
        min_rate_bps: d.min_rate.map_or(line / 100, |r| r.0),
        payload,
    }
}

/// `bdp`: bandwidth-delay product in packets, of which the largest window is twice as much unless given.
fn swift_params(s: &SwiftSpec, line: u64, payload: u64, hops: u32, bdp: f64) -> swift::Params {
    let min_cwnd = s.min_window.unwrap_or(0.001);
    let max_cwnd = s.max_window.unwrap_or((2.0 * bdp).max(1.0).max(min_cwnd));
    swift::Params {
        line_bps: line,
        payload,
        base_target: s.base_target.map_or(25_000, |d| d.0),
        hop_scale: s.hop_scale.map_or(1_000, |d| d.0),
        hops,
        flow_range: s.flow_range.map_or(50_000, |d| d.0),
        flow_min: s.flow_min.unwrap_or(0.1),
        flow_max: s.flow_max.unwrap_or(100.0),
        ai: s.additive.unwrap_or(1.0),
        beta: s.beta.unwrap_or(0.8),
        max_mdf: s.max_mdf.unwrap_or(0.5),
        min_cwnd,
        max_cwnd,
        initial_cwnd: s.initial_window.unwrap_or(max_cwnd).min(max_cwnd),
        retx_reset: s.retx_reset.unwrap_or(5),
    }
}

/// The rule of the window: as told, else the published preset of the algorithm.
fn window_kind(host: &HostSpec, cc: Congestion) -> WindowKind {
    let preset = if cc == Congestion::Timely { WindowKind::None } else { WindowKind::Variable };
    host.window.unwrap_or(preset)
}

/// What a path gives its flows.
#[derive(Clone, Copy, Debug, Default)]
struct Path {
    /// Round trip of a full packet and its acknowledgement alone, with what hosts take to send and to receive them, ns.
    rtt: Nanos,
    /// Slowest link, bit/s.
    rate: u64,
    /// Switches.
    switches: u32,
}

impl Path {
    fn bdp(self) -> u64 {
        (u128::from(self.rtt) * u128::from(self.rate) / 8_000_000_000) as u64
    }
}

/// Among all flows that are driven by acknowledgements; the two can be of different paths.
#[derive(Clone, Copy, Debug, Default)]
struct Largest {
    /// Round trip, ns.
    rtt: Nanos,
    /// Bandwidth-delay product, bytes.
    bdp: u64,
}

fn path(spec: &FabricSpec, plan: &Plan, routes: &Routes, planned: &Planned, more: u16) -> Path {
    let full = packet_bytes(spec, u64::from(spec.host.payload) + u64::from(more));
    let ack = wire_bytes((MIN_FRAME_BYTES + 2).max(62 + u64::from(more)));
    let hosts = 2 * (spec.host.tx_delay.0 + spec.host.rx_delay.0);
    let mut found = Path { rtt: hosts, rate: u64::MAX, switches: 0 };
    let (mut node, mut port) = (planned.from, 0);
    loop {
        let link = &plan.links[plan.ports[node][port]];
        let rate = link.spec.rate.0;
        found.rtt += 2 * link.spec.delay.0 + (full + ack) * 8_000_000_000 / rate.max(1);
        found.rate = found.rate.min(rate);
        node = plan.peer(node, port).node;
        if node < plan.hosts {
            return found;
        }
        found.switches += 1;
        found.rtt += 2 * (spec.switch.ingress.0 + spec.switch.crossbar.0 + spec.switch.egress.0);
        match routes.port(node - plan.hosts, planned.to, planned.path) {
            Some(next) if found.switches as usize <= plan.names.len() => port = next,
            _ => return found,
        }
    }
}

/// Refuses paths by these routes, which come of `what`, on which INT has no room for all switches.
///
/// # Errors
/// So many switches.
pub(super) fn check_hops(
    (spec, plan, routes): (&FabricSpec, &Plan, &Routes),
    flows: &[Planned],
    what: &str,
) -> Result<(), FabricError> {
    let of_int = flows.iter().filter(|f| f.cc == Congestion::Hpcc);
    let most = of_int.map(|f| path(spec, plan, routes, f, header_bytes(spec, f.cc)).switches).max();
    match most {
        Some(switches) if switches as usize > MAX_HOPS => {
            let must =
                format!("at most {MAX_HOPS} for hpcc, whose INT has room for no more: use \"hpcc-pint\"");
            Err(wrong(what, &format!("{switches} switches on a path"), must))
        }
        _ => Ok(()),
    }
}

/// Gives every flow that is driven by acknowledgements its algorithm, and those of selective repeat their round trip. As in the published simulator, base round trip
/// and bandwidth-delay product are the largest of all such flows unless the file says them.
///
/// # Errors
/// A path that an algorithm cannot use.
pub(super) fn set_paces(
    spec: &FabricSpec,
    plan: &Plan,
    routes: &Routes,
    flows: &mut [Planned],
) -> Result<(), FabricError> {
    check_hops((spec, plan, routes), flows, "topology")?;
    let mut paths: BTreeMap<(usize, usize, u64, u16), Path> = BTreeMap::new();
    for f in flows.iter().filter(|f| f.cc.hears_acks()) {
        let key = (f.from, f.to, f.path, header_bytes(spec, f.cc));
        paths.entry(key).or_insert_with(|| path(spec, plan, routes, f, key.3));
    }
    if flows.iter().any(|f| f.cc == Congestion::Hpcc) && spec.routing.mode == RoutingMode::Spray {
        let must = "another with hpcc, which compares the INT of each hop with that of the packet before, of the same path; \
                    \"hpcc-pint\" takes any";
        return Err(wrong("routing.mode", &"\"spray\"", must));
    }
    if flows.iter().any(|f| f.cc == Congestion::Hpcc)
        && let Some(link) = plan.links.iter().position(|link| rate_code(link.spec.rate.0).is_none())
    {
        let (key, rate) = (key_of_rate(spec, plan, link), plan.links[link].spec.rate.0);
        let [a, b] = plan.links[link].ends.map(|end| &plan.names[end.node]);
        let must = "10, 25, 40, 50, 100, 200, 400 or 800G: INT records of hpcc have a code for these";
        let got = match key.ends_with(".rate") {
            true => rate.to_string(),
            false => format!("what gives link {a} - {b} a rate of {rate} bit/s"),
        };
        return Err(wrong(&key, &got, must));
    }
    let largest = Largest {
        rtt: paths.values().map(|path| path.rtt).max().unwrap_or(0),
        bdp: paths.values().map(|path| path.bdp()).max().unwrap_or(0),
    };
    let base_rtt = spec.host.base_rtt.map_or(largest.rtt, |t| t.0).max(1);
    let line = |f: &Planned| plan.line_of(f.from);
    let fastest = flows.iter().filter(|f| f.cc == Congestion::Hpcc).map(line).max().unwrap_or(0);
    let int_multi = int_multi(spec, fastest, spec.host.payload.into());
    for f in flows.iter_mut().filter(|f| f.cc.hears_acks()) {
        f.base_rtt = base_rtt;
        let own = paths[&(f.from, f.to, f.path, header_bytes(spec, f.cc))];
        f.own_rtt = own.rtt;
        let line = line(f);
        if let Some(mut algorithm) = algorithm(spec, f.cc, line, largest, own) {
            if let Algorithm::Hpcc(params, _) = &mut algorithm {
                params.int_multi = int_multi;
            }
            below_line(&algorithm, line)?;
            f.flow.pace = Pace::Acks(algorithm);
            // What follows every acknowledgement wants one per packet.
            f.flow.ack_every = spec.host.ack_every.unwrap_or(1);
        }
    }
    for f in flows {
        let found = path(spec, plan, routes, f, f.flow.pace.header_bytes());
        if let Transport::SelectiveRepeat(config) = &mut f.flow.transport {
            config.initial_round_trip = found.rtt;
            let threshold = u64::from(config.reorder_threshold);
            config.reorder_time =
                threshold * packet_bytes(spec, u64::from(spec.host.payload)) * 8_000_000_000
                    / found.rate.max(1);
        }
    }
    Ok(())
}

/// # Errors
/// A lowest rate above that of the line.
fn below_line(algorithm: &Algorithm, line: u64) -> Result<(), FabricError> {
    match algorithm {
        Algorithm::Hpcc(p, _) => is_below_line("host.hpcc", p.min_rate_bps, line),
        Algorithm::Pint(p, _) => is_below_line("host.hpcc", p.min_rate_bps, line),
        Algorithm::Timely(p, _) => is_below_line("host.timely", p.min_rate_bps, line),
        Algorithm::Dctcp(p, _) => is_below_line("host.dctcp", p.min_rate_bps, line),
        Algorithm::Swift(_) | Algorithm::Nscc(_) | Algorithm::FixedWindow { .. } => Ok(()),
    }
}

/// The same in the ns-3 profile.
///
/// # Errors
/// A lowest rate above that of the line.
pub(super) fn below_line_published(control: &Control, line: u64) -> Result<(), FabricError> {
    match control {
        Control::Dcqcn(p) => is_below_line("ns3", p.min_rate_bps, line),
        Control::Hpcc(p) => is_below_line("host.hpcc", p.min_rate_bps, line),
        Control::Pint(p) => is_below_line("host.hpcc", p.min_rate_bps, line),
        Control::Timely(p) => is_below_line("host.timely", p.min_rate_bps, line),
        Control::Dctcp(p) => is_below_line("host.dctcp", p.min_rate_bps, line),
        Control::None => Ok(()),
    }
}

fn is_below_line(table: &str, least: u64, line: u64) -> Result<(), FabricError> {
    match least <= line {
        true => Ok(()),
        false => {
            let must = format!("at most the rate of a host's link, {}", Rate::of(line));
            Err(wrong(&format!("{table}.min_rate"), &Rate::of(least), must))
        }
    }
}

/// What of the constants of congestion control does not go with the paths of these flows, in sentences.
pub(super) fn notes<'a>(flows: impl Iterator<Item = &'a Planned>) -> Vec<String> {
    // By key: how many flows, the most that their delay may be, and the longest of their round trips, ns.
    let mut slow: BTreeMap<&str, (usize, Nanos, Nanos)> = BTreeMap::new();
    for f in flows {
        let (key, most) = match f.flow.pace {
            // With as many packets on their way as the path holds.
            Pace::Acks(Algorithm::Swift(p)) => {
                let packets = f.own_rtt as f64 * p.line_bps as f64 / 8e9 / p.payload as f64;
                let window = packets.clamp(p.min_cwnd, p.max_cwnd);
                let at_line_rate = swift::Swift::new(swift::Params { initial_cwnd: window, ..p });
                ("host.swift.base_target", at_line_rate.target() as Nanos)
            }
            Pace::Acks(Algorithm::Timely(p, _)) => ("host.timely.t_high", p.t_high),
            _ => continue,
        };
        if most < f.own_rtt {
            let (count, _, rtt) = slow.entry(key).or_insert((0, most, 0));
            (*count, *rtt) = (*count + 1, (*rtt).max(f.own_rtt));
        }
    }
    let sentence = |(key, (count, most, rtt)): (&str, (usize, Nanos, Nanos))| {
        format!(
            "`{key}` lets {} have a delay of {most} ns, and {their} round trip is up to {rtt} ns when nothing waits: {} not come \
             to the rate of {their} link even alone. Remedy: a higher one.",
            counted(count, "flow"),
            agree(count, "it does", "they do"),
            their = agree(count, "its", "their")
        )
    };
    slow.into_iter().map(sentence).collect()
}

/// What congestion control adds to each frame with payload, bytes.
pub(super) fn header_bytes(spec: &FabricSpec, cc: Congestion) -> u16 {
    algorithm(spec, cc, 1, Largest::default(), Path::default()).map_or(0, |a| a.header_bytes())
}

fn algorithm(spec: &FabricSpec, cc: Congestion, line: u64, largest: Largest, own: Path) -> Option<Algorithm> {
    let host = &spec.host;
    let payload = u64::from(host.payload);
    let bdp = host.window_bytes.map_or(largest.bdp, |bytes| bytes.0).max(payload);
    let base_rtt = host.base_rtt.map_or(largest.rtt, |t| t.0).max(1);
    let window = match window_kind(host, cc) {
        WindowKind::None => Window::None,
        WindowKind::Fixed => Window::Fixed(bdp),
        WindowKind::Variable => Window::Variable(bdp),
    };
    Some(match cc {
        Congestion::Hpcc => Algorithm::Hpcc(hpcc_params(&host.hpcc, line, base_rtt, bdp), window),
        Congestion::HpccPint => Algorithm::Pint(pint_params(&host.hpcc, line), window),
        Congestion::Timely => Algorithm::Timely(timely_params(&host.timely, line), window),
        Congestion::Dctcp => Algorithm::Dctcp(dctcp_params(&host.dctcp, line, payload), window),
        Congestion::Swift => {
            let packets = own.bdp() as f64 / payload as f64;
            Algorithm::Swift(swift_params(&host.swift, line, payload, own.switches, packets))
        }
        Congestion::Nscc => {
            let packet = packet_bytes(spec, payload + u64::from(TIME_BYTES));
            let link = nscc::Link { line_bps: line, base_rtt, payload, packet };
            Algorithm::Nscc(host.nscc.params(&link))
        }
        Congestion::FixedWindow => Algorithm::FixedWindow { line_bps: line, window: bdp },
        Congestion::Dcqcn | Congestion::Backoff | Congestion::None => return None,
    })
}

/// The same in the ns-3 profile, with hosts on links of `line` bit/s.
///
/// # Errors
/// An algorithm that the published simulator does not have.
pub(super) fn published(
    host: &HostSpec,
    cc: Congestion,
    line: u64,
    payload: u64,
) -> Result<(Control, WindowRule), FabricError> {
    let rule = match window_kind(host, cc) {
        _ if cc == Congestion::FixedWindow => WindowRule::Fixed,
        _ if !cc.has_window_rule() => WindowRule::None,
        WindowKind::None => WindowRule::None,
        WindowKind::Fixed => WindowRule::Fixed,
        WindowKind::Variable => WindowRule::Variable,
    };
    let control = match cc {
        Congestion::None | Congestion::FixedWindow => Control::None,
        Congestion::Dcqcn => Control::Dcqcn(weir_endpoint::dcqcn::ns3::Params::default()),
        Congestion::Hpcc => Control::Hpcc(hpcc_params(&host.hpcc, line, 0, 0)),
        Congestion::HpccPint => Control::Pint(pint_params(&host.hpcc, line)),
        Congestion::Timely => Control::Timely(timely_params(&host.timely, line)),
        Congestion::Dctcp => Control::Dctcp(dctcp_params(&host.dctcp, line, payload)),
        Congestion::Swift | Congestion::Nscc | Congestion::Backoff => {
            return Err(FabricError::Profile {
                key: "host.congestion_control".into(),
                why: format!("the published simulator has no {}; use profile = \"weir\"", cc.word()),
            });
        }
    };
    Ok((control, rule))
}

/// What the switches of a fabric write into frames that carry a stamp.
#[derive(Clone, Debug)]
pub(super) struct Telemetry {
    /// Multiplier of the units of INT records.
    int: Option<u64>,
    /// Base round trip and base of the codes of PINT.
    pint: Option<(Nanos, f64)>,
    /// By direction: the load of the port that sends, and its lots.
    ports: Vec<(PortLoad, Rng)>,
}

/// What leaves a switch, and what waits behind it.
pub(super) struct Leaving {
    pub dir: usize,
    pub now: Nanos,
    /// Rate of the link, bit/s.
    pub rate: u64,
    /// Bytes the port has sent before.
    pub sent: u64,
    /// Bytes that wait at it.
    pub queued: u64,
}

impl Telemetry {
    /// For these flows; `None`: no switch writes anything.
    pub fn new(spec: &FabricSpec, flows: &[Planned], dirs: usize) -> Option<Self> {
        let (mut int, mut pint) = (None, None);
        for f in flows {
            match f.flow.pace {
                Pace::Acks(Algorithm::Hpcc(p, _)) => int = Some(p.int_multi),
                Pace::Acks(Algorithm::Pint(p, _)) => {
                    pint = Some((f.base_rtt, p.log_base));
                }
                _ => {}
            }
        }
        let port = |dir: usize| (PortLoad::default(), lots::stream(spec.seed, lots::PINT, dir));
        let ports = || (0..dirs).map(port).collect();
        (int.is_some() || pint.is_some()).then(|| Self { int, pint, ports: ports() })
    }

    /// A data frame with a stamp is about to leave a switch.
    pub fn stamp(&mut self, stamp: &mut Stamp, at: &Leaving) {
        if let Some(multiplier) = self.int {
            // Links without a code were refused.
            let code = rate_code(at.rate).unwrap_or_default();
            let hop = IntHop::new(code, at.now, at.sent, at.queued, multiplier);
            stamp.push(IntHop { port: at.dir as u16, ..hop });
        }
        if let Some((base_rtt, log_base)) = self.pint {
            let d = Departure { now: at.now, rate_bps: at.rate, queued: at.queued, base_rtt, log_base };
            let (load, lots) = &mut self.ports[at.dir];
            stamp.raise(load.stamp(&d, &mut || lots.next_u32() >> 1));
        }
    }

    /// A port is where another one has left it.
    pub fn take_port(&mut self, dir: usize, other: &Self) {
        self.ports[dir] = other.ports[dir].clone();
    }

    /// A frame of any kind begins to leave a switch.
    pub fn sent(&mut self, dir: usize, bytes: u64, now: Nanos) {
        self.ports[dir].0.sent(bytes, now);
    }
}
