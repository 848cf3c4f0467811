//! The parts of a network from its description, each checked before it is used.
use crate::models::hpcc::{Hpcc, HpccEcn, HpccParams};
use std::collections::HashMap;
use weir_dataplane::types::{Nanos, PRIORITIES};
use weir_endpoint::congestion::Window;
use weir_endpoint::congestion::telemetry::MAX_HOPS;
use weir_endpoint::dcqcn::ns3::Params;

use super::config::{BuildError, Config, Control, FIRST_PORT, FlowSpec, Link, Topology, WindowRule};
use super::control::PathTimes;
use super::flow::AlphaTicks;
use super::host::Host;
use super::port::{FrameSizes, Port};
use super::rng::{SplitMix, mix};
use super::routing::{End, Neighbours, Routes};
use super::switch::Switch;
use super::units::transmit_ns;

/// Also bounds the nodes by the links, before anything is sized by them.
pub(super) fn check_links(topology: &Topology) -> Result<(), BuildError> {
    let (nodes, ends) = (topology.hosts.checked_add(topology.switches), 2 * topology.links.len());
    let nodes = nodes.filter(|&nodes| nodes as usize <= ends).ok_or(BuildError::Lonely(ends))?;
    for (i, link) in topology.links.iter().enumerate() {
        if link.a == link.b || link.a >= nodes || link.b >= nodes {
            return Err(BuildError::Link(i));
        }
        if link.rate == 0 {
            return Err(BuildError::Rate(i));
        }
    }
    Ok(())
}

pub(super) fn check_flows(
    t: &Topology,
    flows: &[FlowSpec],
    ends: &[Vec<End>],
    routes: &Routes,
) -> Result<(), BuildError> {
    // A host's one neighbour must be a switch with a way to the other host.
    let reaches = |from: u32, to: u32| match ends[from as usize][0].peer.checked_sub(t.hosts) {
        Some(switch) => routes.reaches(switch, to),
        None => false,
    };
    for (i, flow) in flows.iter().enumerate() {
        let known = flow.src < t.hosts && flow.dst < t.hosts && flow.src != flow.dst;
        if !(known && reaches(flow.src, flow.dst) && reaches(flow.dst, flow.src)) {
            return Err(BuildError::Path(i));
        }
        if flow.bytes == 0 || !(1..PRIORITIES as u8).contains(&flow.prio) {
            return Err(BuildError::Flow(i));
        }
        if i > 0 && flow.start < flows[i - 1].start {
            return Err(BuildError::Order(i));
        }
    }
    Ok(())
}

/// What the paths give the flows on them: to all the largest, or to each its own; and the round trip that switches reckon with (PINT), which
/// is the longest between any hosts, whatever flows there are.
pub(super) fn path_times(
    neighbours: &Neighbours<'_>,
    flows: &[FlowSpec],
    config: &Config,
) -> Result<(Vec<PathTimes>, Nanos), BuildError> {
    let hpcc = matches!(config.control, Control::Hpcc(_));
    let idle =
        matches!(config.control, Control::None | Control::Dcqcn(_)) && config.window == WindowRule::None;
    let of_switches = matches!(config.control, Control::Pint(_));
    let global = if !idle && (config.global_t || of_switches) {
        neighbours.largest(config.payload.into())
    } else {
        PathTimes { rtt: 0, bdp: 0 }
    };
    let times = |(i, flow): (usize, &FlowSpec)| {
        if idle || (config.global_t && !hpcc) {
            return Ok(global);
        }
        let own = neighbours.path(flow.src, flow.dst, config.payload.into()).ok_or(BuildError::Path(i))?;
        if hpcc && own.switches as usize > MAX_HOPS {
            return Err(BuildError::IntHops(i, own.switches));
        }
        let times = if config.global_t { global } else { PathTimes { rtt: own.rtt, bdp: own.bdp() } };
        if hpcc && (times.bdp == 0 || config.window == WindowRule::None) {
            return Err(BuildError::NoWindow);
        }
        Ok(times)
    };
    Ok((flows.iter().enumerate().map(times).collect::<Result<_, _>>()?, global.rtt))
}

/// The window of a flow, of 32 bits as published.
pub(super) fn window(config: &Config, path: PathTimes) -> Window {
    match (config.window, u64::from(path.bdp as u32)) {
        (_, 0) | (WindowRule::None, _) => Window::None,
        (WindowRule::Fixed, bdp) => Window::Fixed(bdp),
        (WindowRule::Variable, bdp) => Window::Variable(bdp),
    }
}

/// What switches choose by among equal paths, of a flow.
#[derive(Clone, Copy, Debug)]
pub(super) struct FlowKey {
    /// Receiving host.
    pub dst: u32,
    /// Addresses of sender and receiver; source port and, above it, destination port.
    pub tuple: [u32; 3],
}

/// Those of all flows, which are in the order of their starts.
pub(super) fn flow_keys(topology: &Topology, flows: &[FlowSpec]) -> Box<[FlowKey]> {
    let address = |host: u32| {
        let number = topology.number(host);
        0x0b00_0001_u32.wrapping_add((number / 256) << 16).wrapping_add((number % 256) << 8)
    };
    let mut next_ports: HashMap<(u32, u32), u16> = HashMap::new();
    let key = |flow: &FlowSpec| {
        let src_port = next_ports.entry((flow.src, flow.dst)).or_insert(FIRST_PORT);
        let ports = u32::from(*src_port) | u32::from(flow.dst_port) << 16;
        *src_port = src_port.wrapping_add(1);
        FlowKey { dst: flow.dst, tuple: [address(flow.src), address(flow.dst), ports] }
    };
    flows.iter().map(key).collect()
}

pub(super) fn build_ports(
    topology: &Topology,
    ends: &[Vec<End>],
    config: &Config,
    sizes: FrameSizes,
) -> Box<[Port]> {
    let mut locals = vec![0; 2 * topology.links.len()];
    for node in ends {
        for (local, end) in node.iter().enumerate() {
            locals[end.port as usize] = local as u16;
        }
    }
    let port = |number: u32, node: u32, link: &Link| {
        let on_host = node < topology.hosts;
        let owner = if on_host { node } else { node - topology.hosts };
        let local = locals[number as usize];
        Port::new(number ^ 1, owner, local, on_host, link, marking(config, link.rate), sizes)
    };
    let both = |(i, link): (usize, &Link)| {
        let first = 2 * i as u32;
        [port(first, link.a, link), port(first + 1, link.b, link)]
    };
    topology.links.iter().enumerate().flat_map(both).collect()
}

fn marking(config: &Config, rate: u64) -> HpccEcn {
    let known = config.marking.iter().find(|m| m.rate == rate);
    known.map_or(HpccEcn { kmin: u32::MAX, kmax: u32::MAX, pmax: 0.0 }, |m| HpccEcn {
        kmin: m.kmin,
        kmax: m.kmax,
        pmax: m.pmax,
    })
}

pub(super) fn build_switches(
    topology: &Topology,
    ends: &[Vec<End>],
    config: &Config,
    host_rate: u64,
) -> Result<Box<[Switch]>, BuildError> {
    let build = |node: u32| {
        let links = || ends[node as usize].iter().map(|end| &topology.links[end.link]);
        let params = HpccParams {
            buffer: config.buffer,
            reserve: config.reserve,
            resume_offset: config.resume_offset,
            headroom: links().map(headroom).collect(),
            shift: links().map(|link| shift(config.shift, link.rate, host_rate)).collect(),
        };
        Ok(Switch {
            mmu: Hpcc::new(&params).map_err(|error| BuildError::Mmu(node, error))?,
            rng: SplitMix::new(mix(config.seed ^ u64::from(node) << 32)),
            forwarded: 0,
            drops: 0,
            marks: 0,
            pauses: 0,
            resumes: 0,
            params,
        })
    };
    (topology.hosts..topology.hosts + topology.switches).map(build).collect()
}

/// Three times the bytes of the link's delay; no term for frames in flight at the ends.
fn headroom(link: &Link) -> u32 {
    let bytes = u128::from(link.rate) * u128::from(link.delay) / 8_000_000_000;
    u32::try_from(3 * bytes).unwrap_or(u32::MAX)
}

/// One less for each doubling of the port's rate over the host's.
fn shift(base: u32, rate: u64, host_rate: u64) -> u32 {
    let doublings = (0..base).take_while(|&n| rate >> n > host_rate).count();
    base - doublings as u32
}

pub(super) fn build_hosts(
    topology: &Topology,
    ends: &[Vec<End>],
    config: &Config,
    sizes: FrameSizes,
) -> Box<[Host]> {
    let build = |host: u32| {
        let end = ends[host as usize][0];
        let link = &topology.links[end.link];
        let params = match config.control {
            Control::Dcqcn(params) => Params { line_bps: link.rate, ..params },
            _ => Params { line_bps: link.rate, ..Params::default() },
        };
        let ack_lead = transmit_ns(sizes.ack, link.rate) + link.delay;
        Host {
            port: end.port,
            flows: Vec::new(),
            last: 0,
            wake: None,
            params,
            ticks: AlphaTicks::new(ack_lead, params.alpha_period.get()),
        }
    };
    (0..topology.hosts).map(build).collect()
}
