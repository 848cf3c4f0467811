//! RC Link hosts of a lab.

use super::hosts::{ACK_TIMEOUT, Flow, Manners, Marks, SLOWER, address, flows, in_flight, link_rate};
use crate::host::back_off;
use anyhow::{Context, Result, bail};
use weir_config::{Config, CongestionControl, LabFlow, StaticEntry};
use weir_dataplane::parse::Variant;
use weir_dataplane::types::PortId;
use weir_endpoint::rclink::Reliability;
use weir_endpoint::rclink::cc_window::Window;
use weir_endpoint::rclink::class::{Class, ClassMap, TcType, TrafficClass};
use weir_endpoint::rclink::endpoint::{EndpointConfig, FlowControl};
use weir_endpoint::rclink::frame::{self, Codec, Format, MAX_PAYLOAD, MIN_LITE_PAYLOAD};
use weir_endpoint::rclink::watermark::PauseWatermarks;
use weir_endpoint::station::Station;
use weir_endpoint::station::rclink::{self, PairConfig, Route, StationConfig, Stream};

/// Both rings of a port full of the longest frames, at the rate of a lab: what may come after a pause, ns.
const ROUND_TRIP: u64 = 50_000_000;

/// Time without the processor that a host makes up for, ns: several windows of the longest kind, of which a thread
/// that shares its core sees one in ten.
const SLACK: u64 = 5_000_000;

/// Priority of data whose flow names none: requests of the first bank.
const PRIORITY: u8 = 3;

/// Periods of the back-off on a machine that looks at its wire all the time, ns.
const PERIOD: u64 = 50_000;

/// Fewest and most packets in flight: a quarter of what the sequence numbers allow.
const PACKETS: (u64, u64) = (4, 512);

/// The one format all ports speak.
///
/// # Errors
/// They speak several, or one that RC Link has not.
pub fn format(config: &Config) -> Result<Format> {
    let of = |port: usize| config.formats[config.ports[port].format].name.as_str();
    let name = config.ports.first().map_or("standard", |_| of(0));
    if let Some(other) = (0..config.ports.len()).find(|port| of(*port) != name) {
        let names = [0, other].map(|port| format!("{} speaks {}", config.ports[port].name, of(port)));
        bail!("port {}: hosts of a lab speak one format", names.join(", port "));
    }
    Ok(match name {
        "standard" | "paxi_standard" => Format::Standard,
        "afh_gen1" => Format::AfhGen1,
        "afh_gen2_16b" => Format::AfhGen2(Variant::Public),
        "afh_lite" => Format::AfhLite(Variant::Public),
        _ => bail!("all ports speak {name}: RC Link hosts speak standard and the built-in AFH formats"),
    })
}

/// Where the hosts are, for ports that do not learn it.
///
/// # Errors
/// As [`format()`].
pub fn place(config: &mut Config) -> Result<()> {
    let codec = Codec::new(format(config)?);
    for (i, port) in config.ports.iter().enumerate().filter(|(_, port)| !port.learning) {
        let (key, port_id) = (codec.station(address(i).0), PortId(i as u16));
        let known = |entry: &StaticEntry| (entry.key, entry.format) == (key, port.format);
        if !config.fdb.statics.iter().any(known) {
            let entry = StaticEntry { key, vlan: 0, format: port.format, port: port_id };
            config.fdb.statics.push(entry);
        }
    }
    Ok(())
}

fn station(port: usize) -> frame::Station {
    let (mac, ip) = address(port);
    frame::Station { mac, ip }
}

fn endpoint(config: &Config, port: usize, format: Format, manners: Manners) -> EndpointConfig {
    let rate = link_rate(config, port);
    let marks = PauseWatermarks::unicast(rate, ROUND_TRIP);
    let lite = matches!(format, Format::AfhLite(_));
    EndpointConfig {
        codec: Codec { crc: true, ..Codec::new(format) },
        station: station(port),
        vlan: (!lite).then_some(0),
        classes: ClassMap::priorities(),
        flow_control: FlowControl::Pfc {
            priorities: if manners.deaf { 0 } else { config.ports[port].pfc.enable },
        },
        rate,
        request: marks,
        response: marks,
        multicast: PauseWatermarks::multicast(rate, ROUND_TRIP),
        cnp_merge: PERIOD * SLOWER,
        ecn: format == Format::Standard,
        retransmit: true,
    }
}

/// Makes one host per port, and both ends of every flow. Two flows of one class between two hosts, one each way,
/// share a connection: in AFH_Lite there can be no other.
///
/// # Errors
/// A flow that no host can send.
pub fn make(config: &Config, manners: Manners) -> Result<(Vec<Station>, Vec<Flow>)> {
    let format = format(config)?;
    let endpoints: Vec<EndpointConfig> =
        (0..config.ports.len()).map(|port| endpoint(config, port, format, manners)).collect();
    let all = flows(config);
    let mut ends: Vec<Vec<PairConfig>> = vec![Vec::new(); endpoints.len()];
    let mut made: Vec<Flow> = Vec::new();
    for (i, flow) in all.iter().enumerate() {
        let (from, to) = (flow.from.index(), flow.to.index());
        let priority = flow.pcp.unwrap_or(PRIORITY);
        let class = class(&endpoints[from].classes, priority).with_context(|| place_of(i))?;
        let beside = all.iter().filter(|other| other.from == flow.from).count() as u64;
        let sender = sender(config, flow, &endpoints[from], class, beside, manners);
        let seen = class_at(config, from, &endpoints[from], priority);
        let back = made.iter().position(|other| {
            let route = ends[from].get(other.qpns[1] as usize).map(|end| end.route);
            let is_same = matches!(route, Some(Route::Qp { class: other, .. }) if other == class);
            (other.from, other.to) == (to, from)
                && is_same
                && ends[from][other.qpns[1] as usize].stream.is_none()
        });
        let qpns = match back {
            Some(back) => [made[back].qpns[1], made[back].qpns[0]],
            None => {
                let qpns = [ends[from].len() as u32, ends[to].len() as u32];
                let listener = |peer: usize, qp: u32| PairConfig {
                    peer: station(peer),
                    route: Route::Qp { peer_qp: qp as u16, class },
                    stream: None,
                    ..sender
                };
                ends[from].push(listener(to, qpns[1]));
                ends[to].push(listener(from, qpns[0]));
                qpns
            }
        };
        let mine = &mut ends[from][qpns[0] as usize];
        *mine = PairConfig { peer: mine.peer, route: mine.route, ..sender };
        made.push(Flow { from, to, class: seen, qpns });
    }
    let mut stations = Vec::new();
    for (port, (endpoint, ends)) in endpoints.into_iter().zip(ends).enumerate() {
        let mut station = rclink::Station::new(StationConfig { endpoint, slack: SLACK, read_rate: None })?;
        for pair in ends {
            station.add(pair).with_context(|| format!("the host on {}", config.ports[port].name))?;
        }
        stations.push(station.into());
    }
    Ok((stations, made))
}

fn place_of(flow: usize) -> String {
    format!("flow {} of the lab", flow + 1)
}

/// The class in which the switch has data of this priority.
fn class_at(config: &Config, port: usize, endpoint: &EndpointConfig, priority: u8) -> u8 {
    let code = TrafficClass { kind: TcType::Type1, channel: priority }.byte() >> 2;
    let is_ip = endpoint.codec.format == Format::Standard;
    let marks = Marks {
        pcp: endpoint.vlan.map(|_| priority),
        dscp: is_ip.then_some(code),
        tc: (!is_ip).then_some(code),
    };
    marks.class_at(&config.ports[port])
}

/// The class whose data has this priority.
fn class(classes: &ClassMap, priority: u8) -> Result<Class> {
    let data = [Class::Request(0), Class::Request(1), Class::Request(2), Class::Request(3), Class::Response];
    match data.into_iter().find(|class| classes.of(*class) == priority) {
        Some(class) => Ok(class),
        None => bail!("pcp = {priority}: RC Link data has 2 (responses), 3 and 4 (requests)"),
    }
}

/// The sending end of a flow that shares its host with `beside` flows, itself among them.
fn sender(
    config: &Config,
    flow: &LabFlow,
    endpoint: &EndpointConfig,
    class: Class,
    beside: u64,
    manners: Manners,
) -> PairConfig {
    let fits = |payload: &usize| {
        endpoint.codec.frame_len(*payload, endpoint.vlan.is_some()) <= usize::from(flow.frame_bytes)
    };
    let payload = (MIN_LITE_PAYLOAD..=MAX_PAYLOAD).rev().find(fits).unwrap_or(MIN_LITE_PAYLOAD);
    let packets = in_flight(endpoint.rate) / beside / u64::from(flow.frame_bytes);
    let pair = PairConfig {
        peer: station(flow.to.index()),
        route: Route::Qp { peer_qp: 0, class },
        pkey: 0,
        reliability: Reliability {
            window: packets.clamp(PACKETS.0, PACKETS.1) as u16,
            ack_timeout: ACK_TIMEOUT,
            retries: None,
            ..Reliability::default()
        },
        window: Window::Us65,
        rate: flow.rate.map_or(endpoint.rate, |rate| rate.clamp(1, endpoint.rate)),
        backoff: None,
        expect: None,
        stream: Some(Stream { bytes: payload as u32, messages: None, start: 0 }),
    };
    let backs_off = manners.back_off() && config.lab.dcqcn != CongestionControl::Off;
    let params = || back_off(&pair, PERIOD * SLOWER, PERIOD * SLOWER, None, None);
    PairConfig { backoff: backs_off.then(params), ..pair }
}
