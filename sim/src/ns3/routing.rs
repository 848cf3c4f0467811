//! Shortest paths by hops. Where several exist a flow keeps to one of them, chosen by hash.
use std::cmp::Reverse;
use std::collections::{BTreeMap, VecDeque};

use weir_dataplane::types::Nanos;

use super::config::Topology;
use super::control::PathTimes;

/// Next hops of every switch towards every host, as global port numbers.
#[derive(Debug)]
pub struct Routes {
    hosts: usize,
    /// One more than there are (switch, host) pairs: where the choices of a pair begin.
    starts: Box<[u32]>,
    choices: Box<[u32]>,
}

/// One end of a link as seen from its node.
#[derive(Clone, Copy, Debug)]
pub struct End {
    /// Global port number of this end.
    pub port: u32,
    /// Node at the other end.
    pub peer: u32,
    /// Index of the link.
    pub link: usize,
}

/// The ends of the links of every node, in the order of the links: the ports of the node.
///
/// Link `i` has the global ports `2 * i` (end a) and `2 * i + 1` (end b).
pub fn ends(topology: &Topology) -> Vec<Vec<End>> {
    let mut nodes = vec![Vec::new(); (topology.hosts + topology.switches) as usize];
    for (link, l) in topology.links.iter().enumerate() {
        let port = 2 * link as u32;
        nodes[l.a as usize].push(End { port, peer: l.b, link });
        nodes[l.b as usize].push(End { port: port + 1, peer: l.a, link });
    }
    nodes
}

/// A network as the published simulator finds its ways through it.
#[derive(Debug)]
pub struct Neighbours<'a> {
    topology: &'a Topology,
    /// Of every node in the order in which they are visited: a map of addresses of nodes, which are those of its switches, each
    /// farther down than the one before. Of several links to one neighbour the last is all it knows.
    of_node: Vec<Vec<End>>,
}

impl<'a> Neighbours<'a> {
    /// Of a network with these ends.
    pub fn new(topology: &'a Topology, ends: &[Vec<End>]) -> Self {
        let of_node = |ends: &Vec<End>| {
            let by_number: BTreeMap<Reverse<u32>, End> =
                ends.iter().map(|end| (Reverse(topology.number(end.peer)), *end)).collect();
            by_number.into_values().collect()
        };
        Self { topology, of_node: ends.iter().map(of_node).collect() }
    }

    /// Goes from `host` outwards; hosts do not forward. Every way of a node towards `host` that is a shortest one is `found`, in the
    /// order in which they are chosen from: the node and its port.
    fn search(&self, host: u32, mut found: impl FnMut(u32, u32)) {
        let mut far = vec![u32::MAX; self.of_node.len()];
        far[host as usize] = 0;
        let mut open = VecDeque::from([host]);
        while let Some(node) = open.pop_front() {
            let next = far[node as usize] + 1;
            for End { port, peer, .. } in &self.of_node[node as usize] {
                let far = &mut far[*peer as usize];
                if *far == u32::MAX {
                    *far = next;
                    if *peer >= self.topology.hosts {
                        open.push_back(*peer);
                    }
                }
                if *far == next {
                    found(*peer, port ^ 1);
                }
            }
        }
    }

    /// By node: its port towards `host`, of several of a length the first that is found; `None`: there is no way, or it is the host.
    fn first_ways(&self, host: u32) -> Vec<Option<u32>> {
        let mut first = vec![None; self.of_node.len()];
        self.search(host, |node, port| {
            first[node as usize].get_or_insert(port);
        });
        first
    }

    /// The path between two hosts, or `None` without one, in payloads of so many bytes.
    pub fn path(&self, src: u32, dst: u32, payload: u64) -> Option<Path> {
        Path::along(self.topology, &self.first_ways(dst), (src, dst), payload)
    }

    /// The largest round trip and the largest bandwidth-delay product between two hosts.
    pub fn largest(&self, payload: u64) -> PathTimes {
        let mut largest = PathTimes { rtt: 0, bdp: 0 };
        for dst in 0..self.topology.hosts {
            let ways = self.first_ways(dst);
            let others = (0..self.topology.hosts).filter(|&src| src != dst);
            for path in others.filter_map(|src| Path::along(self.topology, &ways, (src, dst), payload)) {
                largest = PathTimes { rtt: largest.rtt.max(path.rtt), bdp: largest.bdp.max(path.bdp()) };
            }
        }
        largest
    }
}

/// MurmurHash3 (32 bits, x86) of twelve bytes: what the published switches choose by among equal ways.
#[inline]
pub fn ecmp_hash(key: [u32; 3], seed: u32) -> u32 {
    let mixed = key.into_iter().fold(seed, |hash, word| {
        let word = word.wrapping_mul(0xcc9e_2d51).rotate_left(15).wrapping_mul(0x1b87_3593);
        (hash ^ word).rotate_left(13).wrapping_mul(5).wrapping_add(0xe654_6b64)
    });
    let mixed = mixed ^ 12;
    let mixed = (mixed ^ mixed >> 16).wrapping_mul(0x85eb_ca6b);
    let mixed = (mixed ^ mixed >> 13).wrapping_mul(0xc2b2_ae35);
    mixed ^ mixed >> 16
}

impl Routes {
    /// All next hops of all switches.
    pub fn new(neighbours: &Neighbours<'_>) -> Self {
        let (hosts, switches) = (neighbours.topology.hosts as usize, neighbours.topology.switches as usize);
        let mut per_pair = vec![Vec::new(); hosts * switches];
        for host in 0..hosts {
            neighbours.search(host as u32, |node, port| {
                if let Some(switch) = (node as usize).checked_sub(hosts) {
                    per_pair[switch * hosts + host].push(port);
                }
            });
        }
        let mut starts = vec![0];
        let mut choices = Vec::new();
        for pair in per_pair {
            choices.extend_from_slice(&pair);
            starts.push(choices.len() as u32);
        }
        Self { hosts, starts: starts.into(), choices: choices.into() }
    }

    /// The port by which `switch` (counted from 0) sends to `host`. `hash` chooses among equals.
    ///
    /// Panics when there is no path; flows without one are refused when a run is built.
    #[inline]
    pub fn next_hop(&self, switch: u32, host: u32, hash: impl FnOnce() -> u32) -> u32 {
        let pair = switch as usize * self.hosts + host as usize;
        let choices = &self.choices[self.starts[pair] as usize..self.starts[pair + 1] as usize];
        match *choices {
            [only] => only,
            _ => choices[hash() as usize % choices.len()],
        }
    }

    /// Whether `switch` (counted from 0) knows a way to `host`.
    pub fn reaches(&self, switch: u32, host: u32) -> bool {
        let pair = switch as usize * self.hosts + host as usize;
        self.starts[pair] < self.starts[pair + 1]
    }
}

/// A path between two hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Path {
    /// Twice the delays plus one transmit time of a payload per link, each cut to ns.
    pub rtt: Nanos,
    /// Its slowest link, bit/s.
    pub rate: u64,
    /// Switches on it.
    pub switches: u32,
}

impl Path {
    /// From `src` to `dst` by these ports of the nodes on the way.
    fn along(
        topology: &Topology,
        ways: &[Option<u32>],
        (src, dst): (u32, u32),
        payload: u64,
    ) -> Option<Self> {
        let (mut rtt, mut rate, mut hops, mut node) = (0, u64::MAX, 0_u32, src);
        while node != dst {
            let port = ways[node as usize]?;
            let link = &topology.links[port as usize / 2];
            rtt += 2 * link.delay + payload * 8_000_000_000 / link.rate;
            rate = rate.min(link.rate);
            hops += 1;
            node = if port.is_multiple_of(2) { link.b } else { link.a };
        }
        Some(Self { rtt, rate, switches: hops.saturating_sub(1) })
    }

    /// Round trip times rate, bytes. The product has 64 bits, as published.
    pub fn bdp(&self) -> u64 {
        self.rtt.wrapping_mul(self.rate) / 1_000_000_000 / 8
    }
}
