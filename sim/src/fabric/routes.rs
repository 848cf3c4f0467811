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
    homes: Vec<Home>,
    edges: usize,
    /// `[switch][edge switch]`: a group, 0 the empty one.
    table: Vec<u32>,
    /// Where each group is among `members`.
    groups: Vec<(u32, u32)>,
    /// Ports, each as often as its link has weight.
    members: Vec<u16>,
    /// Of each switch.
    seeds: Vec<u64>,
    /// Some switch has a choice.
    has_choices: bool,
}

/// Where a host is.
#[derive(Clone, Copy, Debug)]
struct Home {
    /// [`NOWHERE`]: it has another host at the other end.
    switch: u32,
    /// The place of the switch among those that have hosts.
    column: u32,
    port: u16,
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
        let mut homes = vec![Home { switch: NOWHERE, column: NOWHERE, port: 0 }; plan.hosts];
        let mut ports: Vec<Vec<(u16, usize, u32)>> = vec![Vec::new(); switches];
        for (number, link) in plan.links.iter().enumerate() {
            let [a, b] = link.ends;
            for (here, there) in [(a, b), (b, a)] {
                let Some(switch) = here.node.checked_sub(plan.hosts) else { continue };
                match there.node.checked_sub(plan.hosts) {
                    None => {
                        (homes[there.node].switch, homes[there.node].port) = (switch as u32, here.port as u16)
                    }
                    Some(next) if up(number) => ports[switch].push((here.port as u16, next, link.weight)),
                    Some(_) => {}
                }
            }
        }
        let mut columns = vec![NOWHERE; switches];
        let mut edges = Vec::new();
        for home in homes.iter_mut().filter(|home| home.switch != NOWHERE) {
            let column = &mut columns[home.switch as usize];
            if *column == NOWHERE {
                *column = edges.len() as u32;
                edges.push(home.switch as usize);
            }
            home.column = *column;
        }
        let mut routes = Self {
            homes,
            edges: edges.len(),
            table: vec![0; switches * edges.len()],
            groups: vec![(0, 0)],
            members: Vec::new(),
            seeds: (0..switches as u64).map(|s| Rng::new(seed ^ 0x6563_6d70 ^ s << 32).next_u64()).collect(),
            has_choices: false,
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
        routes.has_choices = (0..routes.groups.len()).any(|group| routes.is_choice(group));
        routes
    }

    /// Some switch has a choice.
    pub fn has_choices(&self) -> bool {
        self.has_choices
    }

    /// `switch` chooses between `port` and others, whoever is sent to.
    pub fn shares(&self, switch: usize, port: usize) -> bool {
        let groups = &self.table[switch * self.edges..][..self.edges];
        groups.iter().any(|group| {
            self.is_choice(*group as usize) && self.members_of(*group as usize).contains(&(port as u16))
        })
    }

    /// Ports of one group are in order, and as often there as they have weight.
    fn is_choice(&self, group: usize) -> bool {
        let members = self.members_of(group);
        members.first() != members.last()
    }

    #[inline]
    fn members_of(&self, group: usize) -> &[u16] {
        let (first, ports) = self.groups[group];
        &self.members[first as usize..][..ports as usize]
    }

    /// Equal ports of `switch` towards `host`, each as often as it has weight.
    pub fn ports(&self, switch: usize, host: usize) -> Vec<usize> {
        match self.home_port(switch, host) {
            Some(port) => vec![port],
            None => self.group(switch, host).iter().map(|port| usize::from(*port)).collect(),
        }
    }

    #[inline]
    fn home_port(&self, switch: usize, host: usize) -> Option<usize> {
        let home = self.homes[host];
        (home.switch as usize == switch).then_some(home.port.into())
    }

    #[inline(always)]
    fn group(&self, switch: usize, host: usize) -> &[u16] {
        let column = self.homes[host].column;
        if column == NOWHERE {
            return &[];
        }
        self.members_of(self.table[switch * self.edges + column as usize] as usize)
    }

    /// Next hop at `switch` towards `host` of a frame that came by port `from`, where a group is chosen from by `dice`. It goes
    /// back only if there is no other way, and then only where routes have changed while it was under way.
    #[inline(always)]
    pub fn hop(
        &self,
        switch: usize,
        host: usize,
        from: Option<usize>,
        dice: impl FnOnce() -> u64,
    ) -> Option<Hop> {
        if let Some(port) = self.home_port(switch, host) {
            return Some(Hop { port, last: true });
        }
        let group = self.group(switch, host);
        let port = match group {
            [] => return None,
            [only] => usize::from(*only),
            _ => {
                let drawn = dice();
                let port = chosen(group, drawn);
                if Some(port) == from { other_than(port, group, drawn) } else { port }
            }
        };
        Some(Hop { port, last: false })
    }

    /// The same for all frames of a flow.
    #[inline]
    pub fn by_flow(&self, switch: usize, host: usize, from: Option<usize>, flow: u64) -> Option<Hop> {
        self.hop(switch, host, from, || mix(flow ^ self.seeds[switch]))
    }

    /// Egress port of `switch` towards `host` for a flow.
    pub fn port(&self, switch: usize, host: usize, flow: u64) -> Option<usize> {
        self.by_flow(switch, host, None, flow).map(|hop| hop.port)
    }
}

#[inline]
fn chosen(group: &[u16], drawn: u64) -> usize {
    group[((u128::from(drawn) * group.len() as u128) >> 64) as usize].into()
}

/// Another port of a group than `port`, if it has one.
#[cold]
fn other_than(port: usize, group: &[u16], drawn: u64) -> usize {
    let others: Vec<u16> = group.iter().copied().filter(|other| usize::from(*other) != port).collect();
    if others.is_empty() { port } else { chosen(&others, mix(drawn)) }
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

/// Hash of the 5-tuple of a frame; of its addresses, if it has no IPv4 header: of the bits of `mask`, but for the first byte, which
/// in AFH says what a frame is.
pub(super) fn flow_of(frame: &[u8], mask: u64) -> u64 {
    let addresses = || {
        let station = |bytes| word(bytes) & mask & ((1 << 40) - 1);
        let words = frame.first_chunk::<12>().map(|a| [&a[..6], &a[6..]].map(station));
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
