//! RC Link hosts from a spec: format, classes, pauses or credits, receive memories.

use super::FabricError;
use super::hosts;
use super::links::Direction;
use super::routes;
use super::spec::{CcWindow, FabricSpec, FlowControlKind, FrameType, LinkFormat, Protocol, RoutingMode};
use super::time::PS;
use super::topology::{Plan, Wire};
use super::units::Rate;
use super::workload::{Carriage, Planned};
use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;
use weir_dataplane::frame::Frame;
use weir_dataplane::parse::Variant;
use weir_dataplane::types::{MIN_FRAME_BYTES, Nanos, PRIORITIES, wire_bytes};
use weir_endpoint::flow::{Pace, RcLinkNicConfig};
use weir_endpoint::rclink::cbfc::{CreditConfig, CreditError};
use weir_endpoint::rclink::cc_window::{MAX_LENGTH_THR, Window};
use weir_endpoint::rclink::class::{Class, ClassMap, TcType, TrafficClass};
use weir_endpoint::rclink::endpoint::FlowControl;
use weir_endpoint::rclink::frame::{Body, Codec, Format, Head, MAX_PAYLOAD, Station};
use weir_endpoint::rclink::rh::{Opcode, Rh};
use weir_layout::counted;

/// Queue pairs of an RC Link endpoint.
const QP_NUMBERS: usize = 8192;
/// FCS of a frame, which a credit counts.
const FCS: u16 = 4;

/// Frames of the hosts.
pub(super) fn codec(spec: &FabricSpec) -> Codec {
    Codec::new(match spec.host.rclink.format {
        LinkFormat::Standard => Format::Standard,
        LinkFormat::AfhGen1 => Format::AfhGen1,
        LinkFormat::AfhGen2 => Format::AfhGen2(Variant::Public),
        LinkFormat::AfhLite => Format::AfhLite(Variant::Public),
    })
}

/// Hash of the frames of a flow whose receiving end has this number, by which switches choose paths. Those of a group take its tree.
pub(super) fn path(spec: &FabricSpec, plan: &Plan, planned: &Planned, receiver: u32) -> u64 {
    let [dst, src] =
        [planned.to, planned.from].map(|host| Station { mac: plan.macs[host], ip: hosts::ip(host) });
    let mut frame = Vec::new();
    match planned.carriage {
        Carriage::Group { .. } => return planned.path,
        Carriage::Raw => frame.extend([dst.mac.0, src.mac.0].concat()),
        Carriage::Pair => {
            let tc = TrafficClass { kind: TcType::Type1, channel: planned.flow.priority };
            let rh = Rh::new(Opcode::Send, receiver as u16, 0);
            codec(spec).emit(&Head { dst, src, tag: Some((0, 0)), tc, ecn: 0 }, &rh, &[0; 64], &mut frame);
        }
    }
    routes::flow_of(&frame, address_mask(spec))
}

/// Whether a frame of a host has a message in it: no acknowledgement, CNP or credits.
pub(super) fn is_message(spec: &FabricSpec, frame: &impl Frame) -> bool {
    let mut bytes = frame.bytes().to_vec();
    bytes.resize(frame.len().max(bytes.len()), 0);
    codec(spec).read(&bytes).is_ok_and(|frame| match frame.body {
        Body::Type1(rh, _) => rh.opcode == Opcode::Send,
        Body::Lite(_) => frame.tc.kind != TcType::Credit,
        Body::Type2(..) | Body::Raw(_) => true,
    })
}

/// Bits of an address that tell hosts apart, in the first six bytes of a frame.
pub(super) fn address_mask(spec: &FabricSpec) -> u64 {
    match (spec.host.protocol, spec.host.rclink.format) {
        (Protocol::Rclink, LinkFormat::AfhGen2 | LinkFormat::AfhLite) => 0xffff,
        _ => (1 << 48) - 1,
    }
}

/// The name of the format in a file.
fn format_word(spec: &FabricSpec) -> &'static str {
    match spec.host.rclink.format {
        LinkFormat::Standard => "standard",
        LinkFormat::AfhGen1 => "afh_gen1",
        LinkFormat::AfhGen2 => "afh_gen2_16b",
        LinkFormat::AfhLite => "afh_lite",
    }
}

/// Whether what has arrived is acknowledged.
pub(super) fn is_acknowledged(spec: &FabricSpec) -> bool {
    spec.host.rclink.retransmit && spec.host.rclink.format != LinkFormat::AfhLite
}

/// Its frames can be marked, and are answered with CNPs.
pub(super) fn is_marked(spec: &FabricSpec) -> bool {
    spec.host.rclink.format == LinkFormat::Standard
}

/// The preset of a switch, and the format of its ports.
pub(super) fn switch_preset(format: LinkFormat) -> (&'static str, &'static str) {
    match format {
        LinkFormat::Standard => ("paxi-standard", "paxi_standard"),
        LinkFormat::AfhGen1 => ("paxi-standard", "afh_gen1"),
        LinkFormat::AfhGen2 => ("paxi-standard", "afh_gen2_16b"),
        LinkFormat::AfhLite => ("paxi-lite", "afh_lite"),
    }
}

/// Priority or virtual channel of each class.
pub(super) fn classes(spec: &FabricSpec) -> ClassMap {
    let link = &spec.host.rclink;
    let usual = match link.flow_control {
        FlowControlKind::Pfc => ClassMap::priorities(),
        FlowControlKind::Cbfc => ClassMap::channels(),
    };
    let p = &link.priorities;
    ClassMap {
        raw: p.raw.unwrap_or(usual.raw),
        multicast: p.multicast.unwrap_or(usual.multicast),
        response: p.response.unwrap_or(usual.response),
        request: p.request.unwrap_or(usual.request),
        ack: p.ack.unwrap_or(usual.ack),
        ..usual
    }
}

/// The class of a flow: responses answer requests; else the first whose priority it has.
pub(super) fn class_of(classes: &ClassMap, priority: u8, answers: bool) -> Option<Class> {
    if answers {
        return Some(Class::Response);
    }
    let data = (0..4).map(Class::Request).chain([Class::Response]);
    data.into_iter().find(|class| classes.of(*class) == priority)
}

fn credits(spec: &FabricSpec) -> CreditConfig {
    let link = &spec.host.rclink;
    CreditConfig {
        size: link.credit_bytes,
        overhead: FCS,
        limit: link.credits,
        report_every: link.credit_report,
    }
}

/// The endpoint of host `at`, which obeys pauses of the priorities in `obey`.
pub(super) fn config(spec: &FabricSpec, plan: &Plan, at: usize, obey: u8, ip: Ipv4Addr) -> RcLinkNicConfig {
    let link = &spec.host.rclink;
    let cable = &plan.links[plan.ports[at][0]];
    let rate = cable.spec.rate.0;
    RcLinkNicConfig {
        codec: codec(spec),
        classes: classes(spec),
        station: Station { mac: plan.macs[at], ip },
        rate,
        flow_control: match link.flow_control {
            FlowControlKind::Pfc => FlowControl::Pfc { priorities: obey },
            FlowControlKind::Cbfc => {
                FlowControl::Cbfc { credits: credits(spec), interval: link.credit_interval.0 }
            }
        },
        read_rate: link.read_rate.map(|rate| rate.0),
        round_trip: link.round_trip.map_or_else(|| round_trip(spec, plan.hosts, cable), |time| time.0),
        retransmit: link.retransmit,
        window: link.window,
        cc_window: cc_window(spec).0,
        cnp_merge: spec.host.cnp_interval.0,
        cut_period: link.cut_period.0,
        raise_period: link.raise_period.0,
    }
}

/// The window that rates are counted in, and its word.
fn cc_window(spec: &FabricSpec) -> (Window, &'static str) {
    match spec.host.rclink.cc_window {
        CcWindow::Us4 => (Window::Us4, "4us"),
        CcWindow::Us8 => (Window::Us8, "8us"),
        CcWindow::Us16 => (Window::Us16, "16us"),
        CcWindow::Us32 => (Window::Us32, "32us"),
        CcWindow::Us65 => (Window::Us65, "65us"),
    }
}

/// What comes before a pause has its effect, as time of the line: of the frame that asked for it all may be above the mark; a frame is
/// before the pause on the cable, the pause goes its way, the peer ends a frame, and what it had sent comes all the way.
fn round_trip(spec: &FabricSpec, hosts: usize, cable: &Wire) -> Nanos {
    let [mut there, mut back] = Direction::both(cable);
    if there.from.node >= hosts {
        std::mem::swap(&mut there, &mut back);
    }
    let ways = there.span(spec, hosts, true) + back.span(spec, hosts, false);
    let bytes = 3 * wire_bytes(codec(spec).frame_len(MAX_PAYLOAD, true) as u64) + wire_bytes(MIN_FRAME_BYTES);
    (ways + there.rate.takes(bytes)).div_ceil(PS)
}

/// What contradicts RC Link, or one of its options another.
///
/// # Errors
/// The key, and what it must be.
pub(super) fn check(spec: &FabricSpec) -> Result<(), FabricError> {
    let range = |what: &str, got: String, must: &str| {
        Err(FabricError::Range { what: what.into(), got, must: must.into() })
    };
    let (host, link) = (&spec.host, &spec.host.rclink);
    if usize::from(host.payload) > MAX_PAYLOAD {
        return range("host.payload", host.payload.to_string(), "1 to 1344 in RC Link");
    }
    if !(1..=2048).contains(&link.window) {
        return range("host.rclink.window", link.window.to_string(), "1 to 2048");
    }
    let periods = [
        ("cut_period", link.cut_period),
        ("raise_period", link.raise_period),
        ("credit_interval", link.credit_interval),
    ];
    if let Some((key, _)) = periods.iter().find(|(_, time)| time.0 == 0) {
        return range(&format!("host.rclink.{key}"), "0".into(), "longer than 0");
    }
    if link.read_rate.is_some_and(|rate| rate.0 == 0) {
        return range(
            "host.rclink.read_rate",
            "0".into(),
            "more than 0; without it messages are read as they come",
        );
    }
    let set = |key: &str| spec.source.sets(&format!("host.rclink.{key}"));
    let (idle, why) = match link.flow_control {
        FlowControlKind::Pfc => (
            &["credit_bytes", "credits", "credit_report", "credit_interval"][..],
            "absent: flow_control = \"pfc\" has no credits",
        ),
        FlowControlKind::Cbfc => {
            (&["round_trip"][..], "absent: with credits a memory is what they are worth")
        }
    };
    if let Some(key) = idle.iter().find(|key| set(key)) {
        return range(&format!("host.rclink.{key}"), "set".into(), why);
    }
    if link.flow_control == FlowControlKind::Cbfc {
        if host.pfc_priorities.is_some() {
            return range("host.pfc_priorities", "set".into(), "absent: with credits hosts obey no pause");
        }
        if spec.routing.mode == RoutingMode::Spray {
            let must = "\"ecmp\" with credits: a count that gives back those of lost frames comes behind the frames it counts, \
                        on their path";
            return range("routing.mode", "\"spray\"".into(), must);
        }
        match credits(spec).check() {
            Ok(()) => {}
            Err(CreditError::Size(size)) => {
                let must = "32, 64, 128, 256, 1024 or 2048";
                return range("host.rclink.credit_bytes", size.to_string(), must);
            }
            Err(CreditError::ReportEvery(packets)) => {
                return range("host.rclink.credit_report", packets.to_string(), "1 to 7");
            }
            Err(CreditError::Limit { limit, least, most }) => {
                return range("host.rclink.credits", limit.to_string(), &format!("{least} to {most}"));
            }
        }
    }
    if link.format == LinkFormat::AfhLite && link.retransmit && set("retransmit") {
        return range(
            "host.rclink.retransmit",
            "true".into(),
            "false: frames of afh_lite have no numbers to ask for",
        );
    }
    let classes = classes(spec);
    let all = [classes.raw, classes.multicast, classes.response, classes.ack];
    if let Some(wrong) = all.iter().chain(&classes.request).find(|p| usize::from(**p) >= PRIORITIES) {
        return range("host.rclink.priorities", wrong.to_string(), "0 to 7");
    }
    for (i, w) in spec.workloads.iter().enumerate() {
        if w.frames == FrameType::Type1 && class_of(&classes, w.priority, false).is_none() {
            let (response, requests) = (classes.response, classes.request);
            let must = format!("that of a class of data: {requests:?} (requests) or {response} (responses)");
            return range(&format!("workload.{i}.priority"), w.priority.to_string(), &must);
        }
        if !w.reliable {
            let must = "true: RC Link leaves out acknowledgements with host.rclink.retransmit = false";
            return range(&format!("workload.{i}.reliable"), "false".into(), must);
        }
    }
    Ok(())
}

/// Queue pairs by the number of their first flow.
fn pairs<'a>(flows: impl Iterator<Item = &'a Planned>) -> impl Iterator<Item = &'a Planned> {
    flows.filter(|f| f.pair == f.flow.id && f.carriage == Carriage::Pair)
}

/// Rate on the wire that a queue pair is to have, bit/s.
fn rate_of(plan: &Plan, planned: &Planned) -> u64 {
    let line = plan.line_of(planned.from);
    match planned.flow.pace {
        Pace::Fixed(rate) => rate.min(line),
        _ => line,
    }
}

/// A rate that no number of whole bytes in a window comes to.
fn check_windows(spec: &FabricSpec, plan: &Plan, flows: &[Planned]) -> Result<(), FabricError> {
    let (window, word) = cc_window(spec);
    let bytes = |rate: u64| u128::from(rate) * u128::from(window.ns()) / 8_000_000_000;
    let fits = |rate: &u64| (1..=MAX_LENGTH_THR.into()).contains(&bytes(*rate));
    let rates = pairs(flows.iter()).map(|f| rate_of(plan, f));
    let Some(rate) = rates.into_iter().find(|rate| !fits(rate)) else { return Ok(()) };
    let must = format!(
        "one in which a queue pair sends 1 to {MAX_LENGTH_THR} bytes: at {} it is {}; or give it another `rate`",
        Rate::of(rate),
        bytes(rate)
    );
    Err(FabricError::Range { what: "host.rclink.cc_window".into(), got: word.into(), must })
}

/// Of rates that are rounded down by more than a thousandth, in sentences.
pub(super) fn notes<'a>(
    spec: &FabricSpec,
    plan: &Plan,
    flows: impl Iterator<Item = &'a Planned>,
) -> Vec<String> {
    if spec.host.protocol != Protocol::Rclink {
        return Vec::new();
    }
    let (window, word) = cc_window(spec);
    let mut rounded: BTreeMap<(u64, u64), usize> = BTreeMap::new();
    for rate in pairs(flows).map(|f| rate_of(plan, f)) {
        let is = u64::from(window.bytes(rate)) * 8_000_000_000 / window.ns();
        if rate - is.min(rate) > rate / 1000 {
            *rounded.entry((rate, is)).or_default() += 1;
        }
    }
    let sentence = |((rate, is), count)| {
        format!(
            "The rate of {} is {is} bit/s, not {}: whole bytes are sent in each window (`cc_window`, {word}). Remedy: a longer \
             window, or another `rate`.",
            counted(count, "queue pair"),
            Rate::of(rate)
        )
    };
    rounded.into_iter().map(sentence).collect()
}

/// Queue pairs that cannot be: more than numbers of 13 bits, hosts of one address, in Lite two that nothing tells apart, or rates that
/// windows do not have.
///
/// # Errors
/// Which.
pub(super) fn count(spec: &FabricSpec, plan: &Plan, flows: &[Planned]) -> Result<(), FabricError> {
    let refuse =
        |what: &str, got: String, must: String| Err(FabricError::Range { what: what.into(), got, must });
    let pairs = || pairs(flows.iter());
    let mut ends = vec![0; plan.hosts];
    pairs().flat_map(|f| [f.from, f.to]).for_each(|host| ends[host] += 1);
    if let Some(most) = ends.into_iter().max().filter(|most| *most > QP_NUMBERS) {
        let must = format!("at most {QP_NUMBERS} at one host in RC Link");
        return refuse("workload", format!("{most} flows"), must);
    }
    let mut stations: BTreeMap<u64, usize> = BTreeMap::new();
    for (host, mac) in plan.macs.iter().enumerate().take(plan.hosts) {
        if let Some(other) = stations.insert(codec(spec).station(*mac), host) {
            let must = format!(
                "standard or afh_gen1: its addresses have 16 bits, and {} and {} would have the same one; 256 hosts at most",
                plan.names[other], plan.names[host]
            );
            return refuse("host.rclink.format", format_word(spec).into(), must);
        }
    }
    if codec(spec).lite() {
        let mut known = BTreeSet::new();
        let twice = pairs().find(|f| !known.insert((f.from.min(f.to), f.from.max(f.to), f.flow.priority)));
        if let Some(f) = twice {
            let (a, b) = (&plan.names[f.from], &plan.names[f.to]);
            let priority = f.flow.priority;
            let must = format!(
                "another: its frames do not say of which queue pair they are, and there are two flows of priority {priority} \
                 between {a} and {b}; give them different ones"
            );
            return refuse("host.rclink.format", format_word(spec).into(), must);
        }
    }
    check_windows(spec, plan, flows)
}
