//! Shortest paths: what every switch has towards every other one that has hosts, a group of equal ports.
//!
//! A group is chosen from by a hash of the flow ([`five_tuple`], [`Routes::by_flow`]), with a seed of the switch's own
//! so that what one switch has put together the next one takes apart, or by a number of the frame's own.

use super::topology::Plan;
use std::collections::{BTreeMap, VecDeque};
use std::net::Ipv4Addr;
use weir_dataplane::rng::Rng;
use weir_endpoint::roce::wire::UDP_PORT;

const NOWHERE: u32 = u32::MAX;
/// EtherTypes and the protocol a 5-tuple is read of.
const VLAN: [u8; 2] = [0x81, 0x00];
const IPV4: [u8; 2] = [0x08, 0x00];
const UDP: u8 = 17;

/// The ports of every switch towards every host.
#[derive(Clone, Debug)]
pub(super) struct Routes {
    /// Switch and port of each host; [`NOWHERE`]: it has another host at the other end.
    homes: Vec<(u32, u16)>,
    /// Place of each switch among those that have hosts.
    columns: Vec<u32>,
    edges: usize,
    /// `[switch][edge switch]`: a group, 0 the empty one.
    table: Vec<u32>,
    /// Where each group is among `members`.
    groups: Vec<(u32, u32)>,
    /// Ports, each as often as its link has weight.
    members: Vec<u16>,
    /// Of each switch.
    seeds: Vec<u64>,
}

/// The next hop of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Hop {
    pub port: usize,
    /// The host itself is there.
    pub last: bool,
}

impl Routes {
    /// Computes all of them, over the links for which `up` says so.
    pub fn new(plan: &Plan, seed: u64, up: impl Fn(usize) -> bool) -> Self {
        let switches = plan.names.len() - plan.hosts;
        let mut homes = vec![(NOWHERE, 0); plan.hosts];
        let mut ports: Vec<Vec<(u16, usize, u32)>> = vec![Vec::new(); switches];
        for (number, link) in plan.links.iter().enumerate() {
            let [a, b] = link.ends;
            for (here, there) in [(a, b), (b, a)] {
                let Some(switch) = here.node.checked_sub(plan.hosts) else { continue };
                match there.node.checked_sub(plan.hosts) {
                    None => homes[there.node] = (switch as u32, here.port as u16),
                    Some(next) if up(number) => ports[switch].push((here.port as u16, next, link.weight)),
                    Some(_) => {}
                }
            }
        }
        let mut columns = vec![NOWHERE; switches];
        let mut edges = Vec::new();
        for (switch, _) in homes.iter().filter(|(switch, _)| *switch != NOWHERE) {
            let column = &mut columns[*switch as usize];
            if *column == NOWHERE {
                *column = edges.len() as u32;
                edges.push(*switch as usize);
            }
        }
        let mut routes = Self {
            homes,
            columns,
            edges: edges.len(),
            table: vec![0; switches * edges.len()],
            groups: vec![(0, 0)],
            members: Vec::new(),
            seeds: (0..switches as u64).map(|s| Rng::new(seed ^ 0x6563_6d70 ^ s << 32).next_u64()).collect(),
        };
        let mut known: BTreeMap<Vec<u16>, u32> = BTreeMap::from([(Vec::new(), 0)]);
        for (column, edge) in edges.into_iter().enumerate() {
            let distance = distances(&ports, edge);
            for switch in (0..switches).filter(|switch| *switch != edge) {
                let closer = |next: usize| match plan.clockwise {
                    true => next == (switch + 1) % switches,
                    false => distance[next].is_some() && distance[next].map(|d| d + 1) == distance[switch],
                };
                let equal = ports[switch].iter().filter(|(_, next, _)| closer(*next));
                let group: Vec<u16> =
                    equal.flat_map(|(port, _, weight)| (0..*weight).map(|_| *port)).collect();
                routes.table[switch * routes.edges + column] =
                    *known.entry(group).or_insert_with_key(|ports| {
                        routes.groups.push((routes.members.len() as u32, ports.len() as u32));
                        routes.members.extend(ports);
                        routes.groups.len() as u32 - 1
                    });
            }
        }
        routes
    }

    /// Some switch has a choice.
    pub fn has_choices(&self) -> bool {
        self.groups.iter().any(|(_, ports)| *ports > 1)
    }

    /// Next hop at `switch` towards `host`, where a group is chosen from by `dice`.
    #[inline]
    pub fn hop(&self, switch: usize, host: usize, dice: impl FnOnce() -> u64) -> Option<Hop> {
        let (home, port) = self.homes[host];
        if home as usize == switch {
            return Some(Hop { port: port.into(), last: true });
        }
        let column = *self.columns.get(home as usize)?;
        let (first, ports) = self.groups[self.table[switch * self.edges + column as usize] as usize];
        let nth = match ports {
            0 => return None,
            1 => 0,
            _ => ((u128::from(dice()) * u128::from(ports)) >> 64) as u32,
        };
        Some(Hop { port: self.members[(first + nth) as usize].into(), last: false })
    }

    /// The same for all frames of a flow.
    #[inline]
    pub fn by_flow(&self, switch: usize, host: usize, flow: u64) -> Option<Hop> {
        self.hop(switch, host, || mix(flow ^ self.seeds[switch]))
    }

    /// Egress port of `switch` towards `host` for a flow.
    pub fn port(&self, switch: usize, host: usize, flow: u64) -> Option<usize> {
        self.by_flow(switch, host, flow).map(|hop| hop.port)
    }
}

/// Switches between each switch and `edge`, and `edge`.
fn distances(ports: &[Vec<(u16, usize, u32)>], edge: usize) -> Vec<Option<u32>> {
    let mut distance = vec![None; ports.len()];
    distance[edge] = Some(0);
    let mut queue = VecDeque::from([edge]);
    while let Some(switch) = queue.pop_front() {
        for (_, next, _) in &ports[switch] {
            if distance[*next].is_none() {
                distance[*next] = distance[switch].map(|d: u32| d + 1);
                queue.push_back(*next);
            }
        }
    }
    distance
}

#[inline]
fn mix(bits: u64) -> u64 {
    Rng::new(bits).next_u64()
}

/// Hash of addresses, protocol and ports.
pub(super) fn five_tuple(src: Ipv4Addr, dst: Ipv4Addr, protocol: u8, ports: [u16; 2]) -> u64 {
    let addresses = u64::from(src.to_bits()) << 32 | u64::from(dst.to_bits());
    let ports = u64::from(ports[0]) << 32 | u64::from(ports[1]) << 16 | u64::from(protocol);
    mix(mix(addresses) ^ ports)
}

/// The same of the RoCEv2 packets of a queue pair.
pub(super) fn roce_flow(src: Ipv4Addr, dst: Ipv4Addr, src_port: u16) -> u64 {
    five_tuple(src, dst, UDP, [src_port, UDP_PORT])
}

/// Hash of the 5-tuple of a frame; of its addresses, if it has no IPv4 header.
pub(super) fn flow_of(frame: &[u8]) -> u64 {
    let addresses = || {
        let words = frame.first_chunk::<12>().map(|a| [&a[..6], &a[6..]].map(word));
        words.map_or(0, |[dst, src]| mix(mix(src) ^ dst))
    };
    let tagged = frame.get(12..14) == Some(&VLAN);
    let Some((ethertype, ip)) =
        frame.get(if tagged { 16 } else { 12 }..).and_then(|at| at.split_at_checked(2))
    else {
        return addresses();
    };
    let header = usize::from(ip.first().copied().unwrap_or_default() & 15) * 4;
    match (ip.first_chunk::<20>(), ip.get(header..header + 4)) {
        (Some(fixed), Some(ports)) if ethertype == IPV4 && header >= 20 => {
            let ip = |at: usize| Ipv4Addr::new(fixed[at], fixed[at + 1], fixed[at + 2], fixed[at + 3]);
            let port = |at: usize| u16::from_be_bytes([ports[at], ports[at + 1]]);
            five_tuple(ip(12), ip(16), fixed[9], [port(0), port(2)])
        }
        _ => addresses(),
    }
}

fn word(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |word, byte| word << 8 | u64::from(*byte))
}
